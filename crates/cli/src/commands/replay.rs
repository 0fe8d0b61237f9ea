//! `pellucid replay`: a trace on a drive.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::precondition::PreconditionOptions;
use crate::subject::Subject;
use crate::watch::WatchOptions;
use crate::workload::TraceOptions;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid replay cosmos-plus examples/cloudphysics.csv.zst --report report
  pellucid replay netbook-ssd examples/cloudphysics.csv.zst --address compact --limit 10000
  pellucid replay cosmos-plus trace.csv.zst --live
  pellucid replay jasmine trace.gz --format msr --closed-loop 32";

/// Replay a trace on a drive: MSR, Alibaba, Tencent, FIU, SPC, fio, blktrace or MQSim; plain, gzip or zstd
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// A preset, a description in TOML, or an image
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Start from this image's media (made by `pellucid age`); DRIVE then describes the drive around them
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    precondition: PreconditionOptions,
    #[command(flatten)]
    watch: WatchOptions,
}

impl Replay {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut subject = Subject::open(&self.drive, self.image.as_deref(), global)?;
        self.options.apply(&mut subject.spec, self.trace.clone());
        let trace = self.trace.display();
        subject.check_work(&[])?;
        subject.precondition(&self.precondition, global)?;
        self.watch.check(global)?;
        let directory = output::claim(subject.spec.run.report.as_deref())?;
        output::header(global, "replay", &subject.spec.drive_name, &trace.to_string())?;
        let report = subject.run(&[], global, &self.watch)?;
        let other = if self.drive == "jasmine" { "cosmos-plus" } else { "jasmine" };
        let mut hints = vec![
            format!("pellucid compare {} {other} --trace {trace}", self.drive),
            format!("pellucid show {}", self.drive),
        ];
        if self.drive == "cosmos-plus" {
            hints.push("pellucid serve cosmos-plus --set media.store=ram --nvme-tcp 4420".into());
            hints.push("pellucid reproduce C6".into());
        }
        if directory.is_none() {
            hints.push(format!("pellucid replay {} {trace} --report report", self.drive));
        }
        output::report(global, &report, directory, &hints)
    }
}
