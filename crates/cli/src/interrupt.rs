//! Ctrl-C and SIGTERM: the process ends at once and leaves no half-written file behind, unless a command knows better.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The exit status of a process that an interrupt ended, as shells report it.
const INTERRUPTED: i32 = 130;

static INSTEAD: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);
static HALF_WRITTEN: Mutex<Option<PathBuf>> = Mutex::new(None);

/// From now on an interrupt removes what [`writing`] named, and ends the process.
pub fn install() {
    // Without the handler an interrupt still ends the process; only the cleaning up is lost.
    let _ = ctrlc::set_handler(|| {
        if let Some(instead) = &*INSTEAD.lock().unwrap_or_else(PoisonError::into_inner) {
            return instead();
        }
        now()
    });
}

/// What an interrupt does, unless a command knows better.
pub fn now() -> ! {
    crate::view::leave();
    if let Some(path) = HALF_WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = std::fs::remove_file(path);
    }
    let _ = writeln!(std::io::stderr(), "\ninterrupted");
    std::process::exit(INTERRUPTED);
}

/// Runs `work` while `path` counts as half-written.
pub fn writing<T>(path: PathBuf, work: impl FnOnce() -> T) -> T {
    let mark = |path| *HALF_WRITTEN.lock().unwrap_or_else(PoisonError::into_inner) = path;
    mark(Some(path));
    let result = work();
    mark(None);
    result
}

/// From now on an interrupt does this and nothing else.
pub fn instead(work: impl Fn() + Send + 'static) {
    *INSTEAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(work));
}
