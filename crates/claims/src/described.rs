//! Experiments of `examples/papers`, as claims run them: the user's file, plus the keys that differ at a point of a figure.
//!
//! Invariant: no part of an experiment is defined only here. A claim's point is a file, overrides, and keys of its jobs.

use super::bench::{Bench, ReproduceError};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute_described, jobs, parse_job};
use pellucid_report::{ApplicationReport, Report};
use pellucid_spec::Spec;

/// A description of `examples/papers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    text: &'static str,
    name: &'static str,
}

/// Includes the file of `examples/papers` with this name.
macro_rules! paper {
    ($name:literal) => {
        $crate::described::File::new(
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/papers/", $name)),
            $name,
        )
    };
}
pub(crate) use paper;

impl File {
    pub const fn new(text: &'static str, name: &'static str) -> File {
        File { text, name }
    }

    /// The experiment with overrides, and with further keys (`words`) in its first job.
    ///
    /// # Errors
    /// An override of the caller is refused.
    pub fn with(self, bench: &Bench, own: &[String], words: &str) -> Result<Spec, ReproduceError> {
        let mut spec = bench.drive(self.text, self.name, own)?;
        if !words.is_empty() {
            add_words(&mut spec, 0, words);
        }
        Ok(spec)
    }

    /// Runs the experiment as [`File::with`] describes it.
    ///
    /// # Errors
    /// An override of the caller is refused, or the run fails.
    pub fn run(self, bench: &Bench, own: &[String], words: &str) -> Result<Report, ReproduceError> {
        execute(&self.with(bench, own, words)?)
    }

    /// Runs the experiment and returns the report of its application.
    ///
    /// # Errors
    /// As [`File::run`], or no application ran.
    pub fn application(
        self,
        bench: &Bench,
        own: &[String],
        words: &str,
    ) -> Result<ApplicationReport, ReproduceError> {
        let mut found = self.run(bench, own, words)?.applications;
        found.pop().ok_or_else(|| ReproduceError::Program(format!("{}: no application ran", self.name)))
    }

    /// The experiment, exactly as in the file.
    #[cfg(test)]
    pub fn alone(self) -> Spec {
        pellucid_spec::from_str(self.text, self.name, &[]).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Runs an experiment.
///
/// # Errors
/// It is refused, or fails.
pub(crate) fn execute(spec: &Spec) -> Result<Report, ReproduceError> {
    // Real time does not matter here.
    Ok(execute_described(spec, &jobs(spec)?, &|| 0.0, &mut Unwatched)?.1)
}

/// Gives a job of an experiment further keys, which override its own.
pub(crate) fn add_words(spec: &mut Spec, job: usize, words: &str) {
    spec.jobs[job].pairs.extend(parse_job(words, "the claim's job").pairs);
}
