//! `pellucid replay`: a trace on a drive.

use super::target;
use crate::args::Global;
use crate::failure::Failure;
use crate::film;
use crate::output::{self, FormatOptions};
use crate::precondition::PreconditionOptions;
use crate::steady::SteadyOptions;
use crate::subject::{Subject, is_stream};
use crate::timeline::TimelineOptions;
use crate::watch::WatchOptions;
use crate::workload::{TraceOptions, stdin_or};
use anyhow::anyhow;
use pellucid_report::Report;
use pellucid_spec::RawJob;
use pellucid_workload::trace::AddressPolicy;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid replay cosmos-plus examples/cloudphysics.csv.zst --report report
  pellucid replay jasmine examples/cloudphysics.csv.zst --address fold --precondition fill --closed-loop 16
  pellucid replay netbook-ssd examples/cloudphysics.csv.zst --address compact --limit 10000
  pellucid replay cosmos-plus trace.csv.zst --live
  pellucid replay jasmine trace.gz --format msr --closed-loop 32";

/// Replay a trace on a drive: MSR, Alibaba, Tencent, FIU, SPC, SYSTOR '17, fio, blktrace, vscsi, MQSim or CSV; plain, gzip or zstd
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// A preset, a description in TOML, or an image
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Start from this image's media (made by `pellucid age`); DRIVE then describes the rest of the drive
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Replay on this target of DRIVE: of its description ([[target]]), or made by `pellucid target`
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    precondition: PreconditionOptions,
    #[command(flatten)]
    steady: SteadyOptions,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    format: FormatOptions,
}

impl Replay {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let global = &self.format.apply(global);
        let mut subject = self.prepared(global)?;
        let address = subject.spec.run.address;
        let trace = self.trace.display();
        self.watch.check(global)?;
        film::check(&subject, global)?;
        let timeline = self.timeline.begin([&mut subject].into_iter(), &[], global)?;
        let directory = output::claim(subject.spec.run.report.as_deref(), global)?;
        let drive = subject.spec.drive_name.clone();
        let report = subject.run(&[], global, &self.watch)?;
        output::header(global, "replay", &drive, &trace.to_string())?;
        let hints = self.hints(global, directory.is_some(), address);
        let recorded = timeline.map_or(Ok(()), |file| file.finish(std::slice::from_ref(&report), global));
        output::report(global, &report, directory, &hints, (self.format, &[]))?;
        recorded
    }

    /// The replay again, for its report alone.
    pub fn again(&self, global: &Global) -> Result<Report, Failure> {
        let mut subject = self.prepared(global)?;
        subject.repeat()?;
        subject.run(&[], global, &WatchOptions::default())
    }

    /// The drive and the trace; what cannot be is refused.
    fn prepared(&self, global: &Global) -> Result<Subject, Failure> {
        let global = &self.steady.apply(global)?;
        let mut subject = Subject::open(&self.drive, self.image.as_deref(), global)?;
        let has_app = |job: &RawJob| job.pairs.iter().any(|pair| pair.key == "app");
        if subject.spec.jobs.iter().any(has_app) {
            let message =
                "its applications would not work; allowed: pellucid run, or a description without app";
            return Err(Failure::asked(anyhow!("{}: {message}", self.drive)));
        }
        self.options.apply(&mut subject.spec, self.trace.clone())?;
        if let Some(name) = &self.target {
            target::work_on(&mut subject, &self.drive, name, global)?;
        }
        subject.check_work(&[])?;
        subject.precondition(&self.precondition, global)?;
        Ok(subject)
    }

    /// Suggested next commands, each of which works as printed; none if the trace or the drive can be read only once.
    fn hints(&self, global: &Global, reported: bool, address: AddressPolicy) -> Vec<String> {
        if is_stream(stdin_or(&self.trace)) || self.drive == "-" || is_stream(Path::new(&self.drive)) {
            return Vec::new();
        }
        let sets: String = global.sets.iter().map(|set| format!(" --set {}", output::quoted(set))).collect();
        let (drive, trace) = (output::quoted(&self.drive), output::quoted(&self.trace.display().to_string()));
        let mut hints = Vec::new();
        // Overrides are those of this drive; a comma in one would begin another. Another drive has no such target.
        if self.image.is_none() && self.target.is_none() && !global.sets.iter().any(|set| set.contains(',')) {
            let (of_run, of_drive): (Vec<&String>, Vec<&String>) =
                global.sets.iter().partition(|set| set.starts_with("run."));
            let own: String = of_drive.into_iter().map(|set| format!(",{set}")).collect();
            let own = output::quoted(&format!("{}{own}", self.drive));
            let of_run: String =
                of_run.into_iter().map(|set| format!(" --set {}", output::quoted(set))).collect();
            let other = if self.drive.starts_with("jasmine") { "cosmos-plus" } else { "jasmine" };
            // The other drive may be smaller.
            let fold = if address == AddressPolicy::Refuse { " --address fold" } else { "" };
            let options = self.options.words() + &self.precondition.words() + &self.steady.words();
            hints.push(format!("pellucid compare {own} {other} --trace {trace}{options}{fold}{of_run}"));
        }
        let of_drive: String = global
            .sets
            .iter()
            .filter(|set| !set.starts_with("run."))
            .map(|set| format!(" --set {}", output::quoted(set)))
            .collect();
        hints.push(format!("pellucid show {drive}{of_drive}"));
        if self.drive == "cosmos-plus" {
            hints.push("pellucid serve cosmos-plus --set media.store=ram --nvme-tcp 4420".into());
            hints.push("pellucid reproduce C1".into());
        }
        if !reported {
            let image = self.image.as_ref().map_or_else(String::new, |image| {
                format!(" --image {}", output::quoted(&image.display().to_string()))
            });
            let target = self.target.as_ref().map_or_else(String::new, |name| format!(" --target {name}"));
            let options = target + &self.options.words() + &self.precondition.words() + &self.steady.words();
            hints.push(format!("pellucid replay {drive} {trace}{options}{image}{sets} --report report"));
        }
        hints
    }
}
