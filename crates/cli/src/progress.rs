//! Progress on standard error, and only if that is a terminal.

use crate::args::Global;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pellucid_device::Device;
use pellucid_lab::drive::{Onlooker, Progress};
use pellucid_text::format::{bytes, count, span};
use pellucid_workload::Job;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(120);

/// One bar for one run, or for another piece of work that takes its time.
pub struct Bar {
    bar: ProgressBar,
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
        Bar { bar, began: Instant::now() }
    }

    /// No bar: something else shows how far the run is.
    pub fn hidden() -> Bar {
        Bar { bar: ProgressBar::hidden(), began: Instant::now() }
    }

    /// Says what is being done before requests flow.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_string());
    }

    /// So much has been written to the drive before its work begins, of so much in all, if that is known.
    pub fn prepare(&self, written_bytes: u64, total_bytes: Option<u64>) {
        let written = bytes(written_bytes as f64);
        let of = total_bytes.map_or(String::new(), |total| format!(" of {}", bytes(total as f64)));
        let wall = span(self.began.elapsed().as_secs_f64());
        self.bar.set_message(format!("preparing the drive: {written}{of} written in {wall}"));
    }

    /// So many steps of so many are done, of this.
    pub fn part(&self, done: u64, of: u64, what: &str) {
        self.bar.set_length(of.max(1));
        self.bar.set_position(done);
        self.bar.set_message(what.to_string());
    }

    /// Requests have completed.
    pub fn update(&self, progress: Progress) {
        self.bar.set_position(progress.requests);
        self.bar.set_message(self.line(progress.requests, progress.simulated.0 as f64 / 1e9));
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
        format!("{} requests   {} simulated in {}", count(requests), span(simulated_seconds), span(wall))
    }
}

/// A bar alone shows how far ageing is.
impl Onlooker for &Bar {
    fn prepare(&mut self, written_bytes: u64, total_bytes: Option<u64>) {
        Bar::prepare(self, written_bytes, total_bytes);
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

/// How many requests the jobs will make, if all of them say so.
pub fn total(jobs: &[Job]) -> Option<u64> {
    let of = |job: &Job| Some(job.number_ios?.saturating_mul(job.loops.into()));
    jobs.iter().try_fold(0u64, |all, job| Some(all.saturating_add(of(job)?)))
}
