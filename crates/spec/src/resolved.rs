//! Effective values of a run: every key with its value, options of the command included.

use super::Spec;
use super::resolve_run::{Fill, Overwrite};
use pellucid_setting::{quote, write_real};
use pellucid_text::write_share;
use std::collections::BTreeMap;
use std::path::Path;

/// Keys that say where results go; the run does not depend on them. Jobs have keys of their own.
const APART: [&str; 4] = ["run.report", "run.log", "drive.preset", "job"];

impl Spec {
    /// Every key with its value as TOML; keys of jobs as `job[0].bs`. Runs with equal keys and equal inputs are equal.
    pub fn resolved(&self) -> BTreeMap<String, String> {
        let entries = self.provenance.entries.iter().filter(|entry| !APART.contains(&entry.key));
        let mut all: BTreeMap<String, String> =
            entries.map(|entry| (entry.key.to_string(), entry.value.clone())).collect();
        let of_options = self.run_keys().into_iter().chain(self.precondition_keys());
        all.extend(of_options.map(|(key, value)| (key.to_string(), value)));
        for (at, job) in self.jobs.iter().enumerate() {
            all.extend(job.pairs.iter().map(|pair| (format!("job[{at}].{}", pair.key), quote(&pair.value))));
        }
        all
    }

    /// Keys of `[run]` that command options can also set.
    fn run_keys(&self) -> Vec<(&'static str, String)> {
        let run = &self.run;
        let text = |text: Option<&str>| quote(text.unwrap_or_default());
        let or = |word: &str, number: Option<u64>| number.map_or_else(|| quote(word), |n| n.to_string());
        vec![
            ("run.seed", run.seed.to_string()),
            ("run.verify", run.verify.to_string()),
            ("run.trace", text(run.trace.as_deref().map(Path::to_string_lossy).as_deref())),
            ("run.format", text(run.format.as_deref())),
            ("run.address", quote(run.address.into())),
            ("run.time_scale", write_real(run.time_scale)),
            ("run.closed_loop", or("off", run.closed_loop.map(u64::from))),
            ("run.stream", or("all", run.stream.map(u64::from))),
            ("run.repeat", run.repeat.to_string()),
            ("run.limit", or("all", run.limit)),
        ]
    }

    /// Keys of `[precondition]` that command options can also set.
    fn precondition_keys(&self) -> [(&'static str, String); 2] {
        let fill = match self.precondition.fill {
            Fill::Share(share) => write_share(share),
            Fill::Trace => quote("trace"),
        };
        let overwrite = match self.precondition.overwrite {
            Overwrite::Capacities(times) => write_real(times),
            Overwrite::Steady => quote("steady"),
        };
        [("precondition.fill", fill), ("precondition.overwrite", overwrite)]
    }
}
