//! Progress on standard error: a bar if that is a terminal, else a line every ten seconds.

use crate::args::Global;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pellucid_device::Device;
use pellucid_lab::drive::{Onlooker, Progress};
use pellucid_text::format::{bytes, count, span};
use pellucid_workload::Job;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(120);
/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Lines on what is being done, now and then, from a thread of their own: a step that takes long says nothing by itself.
struct Lines {
    what: Arc<Mutex<String>>,
    /// Closed when the work is over.
    going: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Calls `print` with the newest line at each interval of `every`.
    fn start(every: Duration, mut print: impl FnMut(&str) + Send + 'static) -> Lines {
        let (going, over) = channel::<()>();
        let what = Arc::new(Mutex::new(String::new()));
        let said = what.clone();
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let what = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                print(&format!("{what} ({} so far)", span(began.elapsed().as_secs_f64())));
            }
        });
        Lines { what, going: Some(going), thread: Some(thread) }
    }

    fn say(&self, what: &str) {
        what.clone_into(&mut self.what.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.going.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A bar for one run, or for another piece of work that takes time.
pub struct Bar {
    bar: ProgressBar,
    /// Lines in place of the bar if there is no terminal.
    lines: Option<Lines>,
    began: Instant,
}

impl Bar {
    /// A bar for `total` requests; without a total, a sign of life.
    pub fn new(global: &Global, total: Option<u64>) -> Bar {
        let bar = if global.quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr())
        };
        let template = if total.is_some() { " {bar:26}  {msg}" } else { " {spinner}  {msg}" };
        bar.set_style(style(template));
        bar.enable_steady_tick(TICK);
        let lines = !global.quiet && !std::io::stderr().is_terminal();
        let lines = lines.then(|| {
            Lines::start(LINE_EVERY, |line| {
                let _ = writeln!(std::io::stderr(), "{line}");
            })
        });
        Bar { bar, lines, began: Instant::now() }
    }

    /// No bar: something else shows how far the run is.
    pub fn hidden() -> Bar {
        Bar { bar: ProgressBar::hidden(), lines: None, began: Instant::now() }
    }

    /// Shows the same on the bar, with the time so far, and in lines, which have that by themselves.
    fn show(&self, what: &str, timed: impl FnOnce() -> String) {
        match &self.lines {
            Some(lines) => lines.say(what),
            None => self.bar.set_message(timed()),
        }
    }

    /// Says what is being done before requests flow.
    pub fn say(&self, what: &str) {
        self.show(what, || what.into());
    }

    /// So much has been written to the drive before its work begins, of so much in all, if that is known.
    pub fn prepare(&self, written_bytes: u64, total_bytes: Option<u64>) {
        let written = bytes(written_bytes as f64);
        let of = total_bytes.map_or(String::new(), |total| format!(" of {}", bytes(total as f64)));
        let seconds = self.began.elapsed().as_secs_f64();
        let left = total_bytes.filter(|&total| written_bytes > 0 && total > written_bytes).map(|total| {
            let left = seconds * (total - written_bytes) as f64 / written_bytes as f64;
            format!(", about {} left", span(left))
        });
        let left = left.unwrap_or_default();
        let what = format!("preparing the drive: {written}{of} written");
        self.show(&format!("{what}{left}"), || format!("{what} in {}{left}", span(seconds)));
    }

    /// Reports progress: the steps that are done, the number of all steps, and what they are.
    pub fn part(&self, done: u64, of: u64, what: &str) {
        self.bar.set_length(of.max(1));
        self.bar.set_position(done);
        self.show(&format!("{what}, {} of {}", count(done), count(of)), || what.into());
    }

    /// Requests have completed.
    pub fn update(&self, progress: Progress) {
        self.bar.set_position(progress.requests);
        let (requests, simulated) = (progress.requests, progress.simulated.0 as f64 / 1e9);
        self.show(&done(requests, simulated), || self.line(requests, simulated));
    }

    /// The run is over: the full bar stays on the screen.
    pub fn finish(self, requests: u64, simulated_seconds: f64) {
        self.bar.set_style(style(" {bar:26}  {msg}"));
        self.bar.set_length(requests.max(1));
        self.bar.set_position(requests.max(1));
        self.bar.finish_with_message(self.line(requests, simulated_seconds));
    }

    /// The work is over: nothing stays.
    pub fn clear(self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, requests: u64, simulated_seconds: f64) -> String {
        let wall = self.began.elapsed().as_secs_f64();
        format!("{} in {}", done(requests, simulated_seconds), span(wall))
    }
}

fn done(requests: u64, simulated_seconds: f64) -> String {
    format!("{} requests   {} simulated", count(requests), span(simulated_seconds))
}

/// A bar alone shows how far ageing is.
impl Onlooker for Bar {
    fn prepare(&mut self, written_bytes: u64, total_bytes: Option<u64>) -> ControlFlow<()> {
        Bar::prepare(self, written_bytes, total_bytes);
        ControlFlow::Continue(())
    }

    fn look(&mut self, _device: Option<&Device>, progress: Progress) -> ControlFlow<()> {
        self.update(progress);
        ControlFlow::Continue(())
    }
}

impl Drop for Bar {
    /// A failed run leaves no half bar above the error.
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("our own template is correct").progress_chars("██░")
}

/// Returns the total number of requests of the jobs, if every job states its own.
pub fn total(jobs: &[Job]) -> Option<u64> {
    let of = |job: &Job| Some(job.number_ios?.saturating_mul(job.loops.into()));
    jobs.iter().try_fold(0u64, |all, job| Some(all.saturating_add(of(job)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_long_says_so_now_and_then_and_no_more_when_it_is_over() {
        let (told, lines) = channel();
        let work = Lines::start(Duration::from_millis(1), move |line| {
            let _ = told.send(line.to_owned());
        });
        work.say("ageing the drive");
        // Waits as long as it takes.
        let line = lines.iter().find(|line| line.starts_with("ageing")).expect("a line");
        assert!(line.starts_with("ageing the drive (") && line.ends_with(" so far)"), "{line}");
        drop(work);
        assert!(lines.iter().count() < usize::MAX, "the thread has ended, so the lines do");
    }
}
