//! `pellucid run`: a workload on a drive.

use super::target;
use crate::args::Global;
use crate::failure::Failure;
use crate::film;
use crate::output::{self, FormatOptions};
use crate::precondition::PreconditionOptions;
use crate::seeds::{self, Kept, SeedOptions};
use crate::steady::SteadyOptions;
use crate::subject::Subject;
use crate::timeline::TimelineOptions;
use crate::watch::WatchOptions;
use crate::workload::{AppOptions, Kind, WorkloadOptions, stdin_or};
use pellucid_lab::experiment::jobs_summary;
use pellucid_report::Report;
use pellucid_workload::Job;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid run bench/random-read.toml
  pellucid run cosmos-plus --rw randrw --rwmixread 70 --bs 16k --iodepth 32 --size 1g --number-ios 100000
  pellucid run jasmine --bs 4k --job rw=randread,iodepth=8 --job rw=write --runtime 2s
  pellucid run datacenter-tlc job.fio --set ftl.victim=cost-benefit
  pellucid run jasmine --rw randread --number-ios 10000 --output-format json+ > fio.json
  pellucid run jasmine --rw randwrite --number-ios 100000 --precondition fill --seeds 5
  pellucid run bench/random-write.toml --live
  pellucid run cosmos-plus --rw randwrite --runtime 60s --monitor 9300
  pellucid run --image aged.pellucid --rw randwrite --number-ios 100000 --report report";

/// Run an experiment, or a workload on a drive
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// A preset, an experiment or description in TOML, or an image
    #[arg(value_name = "DRIVE", required_unless_present = "image")]
    drive: Option<String>,
    /// A fio job file
    #[arg(value_name = "FILE.fio")]
    fio: Option<PathBuf>,
    /// Start from this image's media (made by `pellucid age`); DRIVE then describes the rest of the drive
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Target of DRIVE for jobs that name none: from its description ([[target]]), or made by `pellucid target`
    #[arg(long, value_name = "NAME", requires = "drive")]
    target: Option<String>,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    precondition: PreconditionOptions,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    steady: SteadyOptions,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    format: FormatOptions,
}

/// An application on a drive: a run whose job has `app`.
#[derive(Debug, clap::Args)]
pub struct AppRun<K: Kind> {
    /// The application, as in app of a job
    #[arg(value_name = "APP", value_parser = clap::builder::PossibleValuesParser::new(K::KIND.names()))]
    application: String,
    /// A preset, an experiment or description in TOML
    #[arg(long, value_name = "DRIVE")]
    drive: String,
    #[command(flatten)]
    workload: AppOptions<K>,
    #[command(flatten)]
    precondition: PreconditionOptions,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    format: FormatOptions,
}

impl<K: Kind> AppRun<K> {
    /// The run that it is.
    pub fn whole(self) -> Result<Run, Failure> {
        let AppRun { application, drive, workload, precondition, seeds, timeline, watch, format } = self;
        let workload = workload.of(application)?;
        let (drive, fio, image, target) = (Some(drive), None, None, None);
        let steady = SteadyOptions::default();
        Ok(Run { drive, fio, image, target, workload, precondition, seeds, steady, timeline, watch, format })
    }
}

impl Run {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if self.seeds.is_given() {
            return self.over_seeds(global);
        }
        let global = &self.format.apply(global);
        let (mut subject, jobs) = self.prepared(global)?;
        self.format.check_jobs(&jobs)?;
        let work = match &subject.spec.run.trace {
            Some(trace) => trace.display().to_string(),
            None => jobs_summary(&jobs),
        };
        self.watch.check(global)?;
        film::check(&subject, global)?;
        let timeline = self.timeline.begin([&mut subject].into_iter(), &jobs, global)?;
        let directory = output::claim(subject.spec.run.report.as_deref(), global)?;
        let drive = subject.spec.drive_name.clone();
        let report = subject.run(&jobs, global, &self.watch)?;
        output::header(global, "run", &drive, &work)?;
        let recorded = timeline.map_or(Ok(()), |file| file.finish(std::slice::from_ref(&report), global));
        output::report(global, &report, directory, &[], (self.format, &jobs))?;
        recorded
    }

    /// The run once for each seed.
    fn over_seeds(&self, global: &Global) -> Result<(), Failure> {
        let global = &seeds::whole_runs(global);
        self.watch.check_absent("--seeds")?;
        film::check_absent("--seeds", global)?;
        self.timeline.check_absent("--seeds")?;
        self.format.check_absent("--seeds")?;
        let names = [self.drive.as_deref(), self.fio.as_deref().and_then(Path::to_str)];
        self.seeds.check_names(names.into_iter().flatten())?;
        let (subject, jobs) = self.prepared(global)?;
        let seeds = self.seeds.of(&[&subject])?;
        seeds::check_effect(&jobs, &self.prepared(&seeds::prepared_with(global, seeds[1]))?.1)?;
        let directory = output::claim(subject.spec.run.report.as_deref(), global)?;
        let (folders, work) = (vec![String::new()], jobs_summary(&jobs));
        let mut reports = Vec::new();
        for seed in &seeds {
            let (subject, jobs) = self.prepared(&seeds::prepared_with(global, *seed))?;
            reports.push(seeds::whole(subject.run(&jobs, global, &self.watch)?)?);
        }
        output::header(global, "run", &subject.spec.drive_name, &work)?;
        seeds::tell(
            global,
            seeds,
            vec![reports],
            directory.map(|directory| Kept { directory, folders, work }),
        )
    }

    /// Returns whether it does the work for several seeds.
    pub fn is_over_seeds(&self) -> bool {
        self.seeds.is_given()
    }

    /// The run again, for its report alone.
    pub fn again(&self, global: &Global) -> Result<Report, Failure> {
        let (mut subject, jobs) = self.prepared(global)?;
        subject.repeat()?;
        subject.run(&jobs, global, &WatchOptions::default())
    }

    /// The drive and its work; what cannot be is refused.
    fn prepared(&self, global: &Global) -> Result<(Subject, Vec<Job>), Failure> {
        let global = &self.steady.apply(global)?;
        let mut subject = match (&self.drive, &self.image) {
            (Some(drive), image) => Subject::open(drive, image.as_deref(), global)?,
            (None, Some(image)) => Subject::open_image(image, global)?,
            (None, None) => unreachable!("one of the two is required"),
        };
        if let (Some(drive), Some(name)) = (&self.drive, &self.target) {
            target::work_on(&mut subject, drive, name, global)?;
        }
        if let Some(fio) = &self.fio {
            subject.reads("jobs", stdin_or(fio));
        }
        let mut jobs = self.workload.jobs(&mut subject.spec, self.fio.as_deref(), global)?;
        subject.reads_for(&jobs);
        target::give_to(&mut jobs, self.target.as_deref())?;
        target::tell_first(&jobs, &subject.spec, global);
        subject.check_work(&jobs)?;
        subject.precondition(&self.precondition, global)?;
        Ok((subject, jobs))
    }
}
