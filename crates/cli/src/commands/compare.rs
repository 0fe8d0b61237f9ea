//! `pellucid compare`: the same work on several drives, side by side.

use super::target;
use crate::args::Global;
use crate::failure::Failure;
use crate::film;
use crate::precondition::PreconditionOptions;
use crate::seeds::{self, Kept, SeedOptions};
use crate::steady::SteadyOptions;
use crate::subject::{Subject, check_overridden, is_stream};
use crate::timeline::TimelineOptions;
use crate::watch::WatchOptions;
use crate::workload::{TraceOptions, WorkloadOptions, stdin_or};
use crate::{columns, output};
use anyhow::anyhow;
use pellucid_lab::experiment::jobs_summary;
use pellucid_media::StoreKind;
use pellucid_output::Part;
use pellucid_report::{
    Report, compare_figures, figures_json, render_compare, render_compare_html, render_compare_svg,
    render_film_html,
};
use pellucid_spec::{RawJob, Spec};
use pellucid_workload::{HandleList, Job};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid compare cosmos-plus jasmine --trace examples/cloudphysics.csv.zst
  pellucid compare small.toml small.toml,ftl.victim=fifo --precondition steady --rw randwrite --bs 4k --number-ios 500000
  pellucid compare small.toml small.toml,ftl.victim=fifo --precondition steady --rw randwrite --bs 4k --number-ios 500000 --seeds 5
  pellucid compare examples/papers/prism-fig8.toml examples/papers/prism-fig8-ssd.toml --own-jobs
  pellucid compare aged.pellucid aged.pellucid,scheduler.order=read-first --rw randrw --bs 4k --number-ios 100000";

/// Do the same work on several drives and show the results side by side
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Presets, descriptions in TOML, or images; the others are compared with the first
    #[arg(value_name = "DRIVE", num_args = 2.., required = true)]
    drives: Vec<String>,
    /// Replay this trace on each drive
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Run this fio job file on each drive
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    fio: Option<PathBuf>,
    /// Run on each drive the jobs of its own description instead of those of the first
    #[arg(long, conflicts_with_all = ["trace", "fio"])]
    own_jobs: bool,
    /// Start each drive from this image's media (made by `pellucid age`)
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Target of each drive for jobs that name none: from its description ([[target]]), or made by `pellucid target`
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    #[command(flatten)]
    precondition: PreconditionOptions,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    steady: SteadyOptions,
    #[command(flatten)]
    timeline: TimelineOptions,
}

/// A drive and its work.
struct Prepared {
    subject: Subject,
    jobs: Vec<Job>,
    overrides: BTreeMap<String, String>,
    folder: String,
}

impl Compare {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if self.seeds.is_given() {
            return self.over_seeds(global);
        }
        let mut prepared = self.prepared(global)?;
        prepared.iter().try_for_each(|one| film::check(&one.subject, global))?;
        let jobs: Vec<_> = prepared.iter().flat_map(|one| one.jobs.iter().cloned()).collect();
        let timeline = self.timeline.begin(prepared.iter_mut().map(|one| &mut one.subject), &jobs, global)?;
        let run = &prepared[0].subject.spec.run;
        let mut directory = output::claim(run.report.as_deref(), global)?;
        let mut done = Vec::new();
        for Prepared { subject, jobs, overrides, folder } in prepared {
            let name = subject.spec.drive_name.clone();
            let outcome = subject.run(&jobs, global, &WatchOptions::default());
            let partial = matches!(&outcome, Ok(report) if report.partial);
            done.push(Compared { name, overrides, folder, outcome });
            if partial {
                // An interrupt skips all later drives.
                break;
            }
        }
        let json = to_json(&done);
        let (mut reports, mut pages, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let drives = done.len();
        for Compared { name, folder, outcome, .. } in done {
            match outcome {
                Ok(report) => {
                    reports.push(report);
                    pages.push(folder);
                }
                Err(failure) => failed.push((name, failure)),
            }
        }
        if reports.is_empty() && failed.len() == 1 {
            let (name, failure) = failed.swap_remove(0);
            return Err(failure.about(&name));
        }
        let asked = failed.iter().all(|(_, failure)| failure.was_asked());
        if reports.is_empty() {
            let each: Vec<String> =
                failed.iter().map(|(name, why)| format!("{name}: {}", why.sentence())).collect();
            let sentence = anyhow!("all {} drives failed: {}", each.len(), each.join("; "));
            return Err(if asked { Failure::asked(sentence) } else { Failure::work(sentence) });
        }
        let failed: Vec<(String, String)> =
            failed.into_iter().map(|(name, failure)| (name, failure.sentence())).collect();
        let written = directory
            .as_mut()
            .map_or(Ok(()), |directory| directory.replace(&files(&reports, &pages, &failed, &json)));
        output::warn(global, reports.iter().flat_map(Report::warnings_by_name));
        let recorded = timeline.map_or(Ok(()), |file| file.finish(&reports, global));
        if global.json {
            output::print(&json)?;
        } else {
            let work = self.work(reports[0].workload.summary.clone());
            output::header(global, "compare", &self.drives.join("  "), &work)?;
            output::print(&render_compare(&reports))?;
        }
        if let Some(directory) = directory.filter(|_| !global.json && written.is_ok()) {
            let page = directory.path().join("index.html");
            output::print(&format!("\n{:22}{}  (JSON beside it)\n", "report", page.display()))?;
        }
        written.map_err(Failure::from).and(recorded)?;
        if !failed.is_empty() {
            let each: Vec<String> = failed.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            let sentence = anyhow!("{} of {drives} drives failed: {}", each.len(), each.join("; "));
            return Err(if asked { Failure::asked(sentence) } else { Failure::work(sentence) });
        }
        output::all_ended(&reports)
    }

    /// The runs once for each seed.
    fn over_seeds(&self, global: &Global) -> Result<(), Failure> {
        let global = &seeds::whole_runs(global);
        film::check_absent("--seeds", global)?;
        self.timeline.check_absent("--seeds")?;
        let fio = self.fio.as_deref().and_then(Path::to_str);
        self.seeds.check_names(self.drives.iter().map(String::as_str).chain(fio))?;
        let prepared = self.prepared(global)?;
        let seeds = self.seeds.of(&prepared.iter().map(|one| &one.subject).collect::<Vec<_>>())?;
        let others = self.prepared(&seeds::prepared_with(global, seeds[1]))?;
        seeds::check_effect(&prepared[0].jobs, &others[0].jobs)?;
        let directory = output::claim(prepared[0].subject.spec.run.report.as_deref(), global)?;
        let folders: Vec<String> = prepared.iter().map(|one| one.folder.clone()).collect();
        let work = self.work(jobs_summary(&prepared[0].jobs));
        let mut reports = vec![Vec::new(); prepared.len()];
        drop((prepared, others));
        for seed in &seeds {
            let prepared = self.prepared(&seeds::prepared_with(global, *seed))?;
            for (Prepared { subject, jobs, .. }, reports) in prepared.into_iter().zip(&mut reports) {
                let name = format!("{}, seed {seed}", subject.spec.drive_name);
                let report = subject.run(&jobs, global, &WatchOptions::default());
                reports.push(seeds::whole(report.map_err(|failure| failure.about(&name))?)?);
            }
        }
        output::header(global, "compare", &self.drives.join("  "), &work)?;
        seeds::tell(global, seeds, reports, directory.map(|directory| Kept { directory, folders, work }))
    }

    /// Returns whether it does the work for several seeds.
    pub fn is_over_seeds(&self) -> bool {
        self.seeds.is_given()
    }

    /// The runs again, for their reports alone.
    pub fn again(&self, global: &Global) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        for Prepared { mut subject, jobs, .. } in self.prepared(global)? {
            subject.repeat()?;
            reports.push(subject.run(&jobs, global, &WatchOptions::default())?);
        }
        Ok(reports)
    }

    /// The drives, each with its work; what cannot be is refused before the first is run.
    fn prepared(&self, global: &Global) -> Result<Vec<Prepared>, Failure> {
        let global = &self.steady.apply(global)?;
        if self.own_jobs && !self.workload.is_empty() {
            let message =
                "--own-jobs and options of jobs do not go together; allowed: the jobs of the descriptions";
            return Err(Failure::asked(anyhow!(message)));
        }
        let mut subjects = self.subjects(global)?;
        self.check_files(&subjects)?;
        let names = columns::names(&subjects.iter().map(|subject| &subject.spec).collect::<Vec<_>>());
        let folders = columns::folders(&names);
        let drives = subjects.len();
        for (subject, name) in subjects.iter_mut().zip(&names) {
            subject.is_one_of(drives);
            subject.spec.drive_name.clone_from(name);
        }
        let first = &subjects[0].spec;
        let (first_jobs, run) = (first.jobs.clone(), first.run.clone());
        let placing = subjects.iter().any(|subject| subject.spec.drive.ftl.handles > 1);
        let mut prepared: Vec<Prepared> = Vec::new();
        // Messages about the job file come once.
        let silent = Global { quiet: true, ..global.clone() };
        for ((mut subject, folder), drive) in subjects.into_iter().zip(folders).zip(&self.drives) {
            let overrides = subject.spec.provenance.overrides();
            // Every drive does the work of the first description, with the same seed, unless options say otherwise.
            if !self.own_jobs {
                self.tell_left_aside(&subject.spec, &first_jobs, drive, global);
                subject.spec.jobs.clone_from(&first_jobs);
            }
            subject.spec.run.clone_from(&run);
            let mut jobs = match &self.trace {
                Some(trace) => {
                    self.options.apply(&mut subject.spec, trace.clone())?;
                    Vec::new()
                }
                None => {
                    let global = if prepared.is_empty() { global } else { &silent };
                    let jobs = self.workload.jobs(&mut subject.spec, self.fio.as_deref(), global)?;
                    if let Some(fio) = &self.fio {
                        subject.reads("jobs", stdin_or(fio));
                    }
                    subject.reads_for(&jobs);
                    self.replayed(&mut subject)?;
                    jobs
                }
            };
            if let Some(name) = &self.target {
                target::work_on(&mut subject, drive, name, global).map_err(|failure| failure.about(drive))?;
            }
            target::give_to(&mut jobs, self.target.as_deref())?;
            target::tell_first(&jobs, &subject.spec, if prepared.is_empty() { global } else { &silent });
            if let Some(trace) = subject.spec.run.trace.as_ref().filter(|trace| is_stream(trace)) {
                let message = "it can be read only once, and not by each drive; allowed: a file";
                return Err(Failure::asked(anyhow!("{}: {message}", trace.display())));
            }
            // One drive offers placement: those that do not take the same writes without.
            if placing && (subject.spec.drive.ftl.handles == 1 || !subject.spec.host.is_empty()) {
                jobs.iter_mut().for_each(|job| job.handles = HandleList::Off);
            }
            if let Some(log) = &mut subject.spec.run.log {
                *log = log_of(log, &folder);
            }
            subject.check_work(&jobs)?;
            subject.precondition(&self.precondition, global)?;
            prepared.push(Prepared { subject, jobs, overrides, folder });
        }
        Ok(prepared)
    }

    /// The work in one line; `first`: that of the first drive.
    fn work(&self, first: String) -> String {
        if self.own_jobs { "the jobs of each description".into() } else { first }
    }

    /// Tells of jobs of a description that are not done, as every drive does those of the first.
    fn tell_left_aside(&self, spec: &Spec, first: &[RawJob], drive: &str, global: &Global) {
        let keys = |jobs: &[RawJob]| -> Vec<Vec<(String, String)>> {
            let of_job =
                |job: &RawJob| job.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect();
            jobs.iter().map(of_job).collect()
        };
        let replaced = self.trace.is_some() || self.fio.is_some() || !self.workload.is_empty();
        if !replaced && !spec.jobs.is_empty() && keys(&spec.jobs) != keys(first) {
            let message = format!(
                "warning: {drive}: its own jobs are left aside, as every drive does those of {}; with --own-jobs each does its own",
                self.drives[0]
            );
            output::notice(global, &message);
        }
    }

    /// Drives whose media are in one file would not start equal: each would find the data of those before it.
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
            (Some(_), _) => self.options.shape(&mut subject.spec)?,
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
        let names: Vec<&str> = self.drives.iter().map(String::as_str).collect();
        check_overridden(&names, &global.sets)?;
        let global = &Global { one_of_several: true, ..global.clone() };
        self.drives.iter().map(|drive| Subject::open(drive, self.image.as_deref(), global)).collect()
    }
}

/// The log of a drive: `log.csv` becomes `log.FOLDER.csv`.
fn log_of(log: &Path, folder: &str) -> PathBuf {
    let mut name = log.with_extension("").into_os_string();
    name.push(format!(".{folder}"));
    if let Some(ending) = log.extension() {
        name.push(".");
        name.push(ending);
    }
    name.into()
}

/// A compared drive, with its outcome.
struct Compared {
    name: String,
    overrides: BTreeMap<String, String>,
    folder: String,
    outcome: Result<Report, Failure>,
}

/// The reports as a list; a drive that failed has its name, its overrides, and the error.
fn to_json(all: &[Compared]) -> String {
    let one = |drive: &Compared| match &drive.outcome {
        Ok(report) => report.to_json(true).trim_end().to_string(),
        Err(failure) => format!(
            "{:#}",
            serde_json::json!({
                "drive": { "name": drive.name }, "overrides": drive.overrides, "error": failure.sentence(),
            })
        ),
    };
    format!("[{}]\n", all.iter().map(one).collect::<Vec<_>>().join(",\n"))
}

/// The comparison, as a page, as one file of drawings, and as JSON; and the report of each drive in a folder of its own.
fn files(reports: &[Report], folders: &[String], failed: &[(String, String)], json: &str) -> Vec<Part> {
    let pages: Vec<String> =
        folders.iter().map(|folder| format!("{}/index.html", folder.replace(' ', "%20"))).collect();
    let each = reports.iter().zip(folders).flat_map(|(report, folder)| report.files(Path::new(folder)));
    let mut parts: Vec<Part> = each.collect();
    parts.extend([
        ("compare.svg".into(), render_compare_svg(reports).into_bytes()),
        ("compare.json".into(), json.into()),
        ("figures.json".into(), figures_json(&compare_figures(reports)).into_bytes()),
        ("index.html".into(), render_compare_html(reports, &pages, failed).into_bytes()),
    ]);
    if reports.iter().any(|report| report.film.is_some()) {
        parts.push(("film.html".into(), render_film_html(reports).into_bytes()));
    }
    parts
}
