//! Signals: Ctrl-C, SIGTERM, and SIGXFSZ.
//!
//! ```text
//!  a run goes on      the first asks it to end (most with a partial report), the second ends the process
//!  serve              the server stops
//!  anything else      the process ends at once, and leaves no half-written file behind
//! ```
//! SIGXFSZ is ignored: a write beyond `ulimit -f` fails with EFBIG, and is reported like one to a full disk.

use crate::stderr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The exit status of a process that an interrupt ended, as shells report it.
pub const INTERRUPTED: u8 = 130;

static INSTEAD: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);
/// True once a run checks whether it is asked to end.
static RUNNING: AtomicBool = AtomicBool::new(false);
static WHAT: Mutex<&str> = Mutex::new("");
static ASKED: AtomicBool = AtomicBool::new(false);

/// Takes interrupts, and no signal for files that are too long, from now on.
pub fn install() {
    ignore_long_files();
    // Without the handler an interrupt still ends the process; only the cleaning up is lost.
    let _ = ctrlc::set_handler(|| {
        if let Some(instead) = &*INSTEAD.lock().unwrap_or_else(PoisonError::into_inner) {
            return instead();
        }
        if !RUNNING.load(Ordering::Acquire) || ASKED.load(Ordering::Acquire) {
            now()
        }
        ask();
        let what = WHAT.lock().unwrap_or_else(PoisonError::into_inner);
        stderr::say(&format!("\ninterrupted: {what}; once more ends at once"));
    });
}

#[expect(unsafe_code, reason = "a C function")]
fn ignore_long_files() {
    // SAFETY: to ignore a signal installs no code, and no thread of ours waits for this one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ends the process.
pub fn now() -> ! {
    crate::view::leave();
    pellucid_output::remove_unfinished();
    stderr::say("\ninterrupted");
    stderr::finish();
    std::process::exit(INTERRUPTED.into());
}

/// Effect of an interrupt on most runs, as messages state it.
pub const REPORT: &str = "the report of what has completed follows";

/// Effect of an interrupt on runs that are useless if incomplete.
pub const NOTHING: &str = "nothing follows, as only whole runs are of use";

/// A run has begun, which asks [`asked`] now and then. `what`: what an interrupt does then.
pub fn running(what: &'static str) {
    *WHAT.lock().unwrap_or_else(PoisonError::into_inner) = what;
    RUNNING.store(true, Ordering::Release);
}

/// Asks the run to end.
pub fn ask() {
    ASKED.store(true, Ordering::Release);
}

/// Returns whether the run should end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Acquire)
}

/// Replaces the effect of an interrupt from now on.
pub fn instead(work: impl Fn() + Send + 'static) {
    *INSTEAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(work));
}
