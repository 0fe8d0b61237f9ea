//! `pellucid compare`: the same work on several drives, side by side.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::precondition::PreconditionOptions;
use crate::subject::{Subject, is_stream};
use crate::watch::WatchOptions;
use crate::workload::{TraceOptions, WorkloadOptions};
use anyhow::anyhow;
use pellucid_lab::report::{Report, render_compare, render_compare_html, render_compare_svg};
use pellucid_lab::workload::HandleList;
use pellucid_media::StoreKind;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid compare cosmos-plus jasmine --trace examples/cloudphysics.csv.zst
  pellucid compare jasmine jasmine,ftl.victim=fifo --rw randwrite --bs 4k --number_ios 100000
  pellucid compare aged.pellucid aged.pellucid,ftl.victim=cost-benefit --rw randwrite --number_ios 100000";

/// Do the same work on several drives and put the results side by side
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Presets, descriptions in TOML, or images; the first is what the others are compared with
    #[arg(value_name = "DRIVE", num_args = 2.., required = true)]
    drives: Vec<String>,
    /// Replay this trace on each drive
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Run this fio job file on each drive
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    fio: Option<PathBuf>,
    /// Start each drive from this image's media (made by `pellucid age`)
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    #[command(flatten)]
    precondition: PreconditionOptions,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    workload: WorkloadOptions,
}

impl Compare {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut subjects = self.subjects(global)?;
        self.check_files(&subjects)?;
        name_apart(&mut subjects);
        let first = &subjects[0].spec;
        let (jobs, run) = (first.jobs.clone(), first.run.clone());
        let placing = subjects.iter().any(|subject| subject.spec.drive.ftl.handles > 1);
        let mut reports = Vec::new();
        // What is said of the job file is said once.
        let silent = Global { quiet: true, ..global.clone() };
        for mut subject in subjects {
            // The same work: what the first description asks for, with the same seed, unless options say otherwise.
            subject.spec.jobs.clone_from(&jobs);
            subject.spec.run.clone_from(&run);
            let mut work = match &self.trace {
                Some(trace) => {
                    self.options.apply(&mut subject.spec, trace.clone());
                    Vec::new()
                }
                None => {
                    let global = if reports.is_empty() { global } else { &silent };
                    let work = self.workload.jobs(&mut subject.spec, self.fio.as_deref(), global)?;
                    self.replayed(&mut subject)?;
                    work
                }
            };
            if let Some(trace) = subject.spec.run.trace.as_ref().filter(|trace| is_stream(trace)) {
                let message = "it can be read only once, and not by each drive; allowed: a file";
                return Err(Failure::asked(anyhow!("{}: {message}", trace.display())));
            }
            // One drive offers placement: those that do not take the same writes without.
            if placing && (subject.spec.drive.ftl.handles == 1 || subject.spec.host.is_some()) {
                work.iter_mut().for_each(|job| job.handles = HandleList::Off);
            }
            subject.check_work(&work)?;
            subject.precondition(&self.precondition, global)?;
            let name = subject.spec.drive_name.clone();
            if let Some(log) = &mut subject.spec.run.log {
                log.as_mut_os_string().push(format!(".{name}"));
            }
            let directory = subject.spec.run.report.as_ref().map(|directory| directory.join(&name));
            let report = subject.run(&work, global, &WatchOptions::default())?;
            if let Some(directory) = directory {
                output::write_files(&report, &directory)?;
            }
            reports.push(report);
        }
        if let Some(directory) = &run.report {
            write_page(&reports, directory)?;
        }
        output::warn(global, reports.iter().flat_map(Report::warnings_by_name));
        if global.json {
            let all: Vec<String> = reports.iter().map(|r| r.to_json(true).trim_end().to_string()).collect();
            return Ok(output::print(&format!("[{}]\n", all.join(",\n")))?);
        }
        output::header(global, "compare", &self.drives.join("  "), &reports[0].workload.summary)?;
        Ok(output::print(&render_compare(&reports))?)
    }

    /// Drives whose media are in one file would not be told the same work: each would find what those before it have written.
    fn check_files(&self, subjects: &[Subject]) -> Result<(), Failure> {
        let mut seen: Vec<(PathBuf, &str)> = Vec::new();
        for (subject, drive) in subjects.iter().zip(&self.drives) {
            let StoreKind::File(path) = &subject.spec.drive.media.store else { continue };
            // A file that is not there yet has the name that it is called by.
            let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            if let Some((_, other)) = seen.iter().find(|(taken, _)| *taken == file) {
                return Err(Failure::asked(anyhow!(
                    "{drive}: its media are in {}, as those of {other}, and would start from what that has written; allowed: \
                     a file for each (NAME,media.path=FILE), or store none or ram",
                    path.display()
                )));
            }
            seen.push((file, drive));
        }
        Ok(())
    }

    /// Applies the options of traces to one that the description names; without a trace they are refused.
    fn replayed(&self, subject: &mut Subject) -> Result<(), Failure> {
        match (&subject.spec.run.trace, self.options.given()) {
            (Some(_), _) => self.options.shape(&mut subject.spec.run),
            (None, None) => {}
            (None, Some(option)) => {
                let message = "there is no trace; allowed: with --trace, or a description that names one";
                return Err(Failure::asked(anyhow!("{option}: {message}")));
            }
        }
        Ok(())
    }

    fn subjects(&self, global: &Global) -> Result<Vec<Subject>, Failure> {
        if self.trace.is_some() && !self.workload.is_empty() {
            let message = "workload options and --trace do not go together; allowed: one of them";
            return Err(Failure::asked(anyhow!(message)));
        }
        self.drives.iter().map(|drive| Subject::open(drive, self.image.as_deref(), global)).collect()
    }
}

/// The comparison beside the drives' own reports: a page, and its drawings as one file.
fn write_page(reports: &[Report], directory: &Path) -> Result<(), Failure> {
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| Failure::work(anyhow!("{}: {error}", path.display())))
    };
    write("index.html", render_compare_html(reports))?;
    write("compare.svg", render_compare_svg(reports))
}

/// Numbers drives of the same name, so that each has a column and a directory of its own. A number that some drive has
/// in its own name is left out.
fn name_apart(subjects: &mut [Subject]) {
    let own: Vec<String> = subjects.iter().map(|subject| subject.spec.drive_name.clone()).collect();
    let mut taken: Vec<String> = Vec::new();
    for (subject, name) in subjects.iter_mut().zip(&own) {
        if taken.contains(name) {
            let numbered = (2..).map(|number| format!("{name} ({number})"));
            let free = |name: &String| !taken.contains(name) && !own.contains(name);
            subject.spec.drive_name = numbered.into_iter().find(free).unwrap_or_default();
        }
        taken.push(subject.spec.drive_name.clone());
    }
}
