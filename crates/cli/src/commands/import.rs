//! `pellucid import`: a description from the files of another simulator.

use crate::args::Global;
use crate::failure::Failure;
use crate::import::{Imported, femu, mqsim, nvmevirt, simplessd};
use crate::output;
use anyhow::anyhow;
use pellucid_output::{OutputFile, begins_with, refuse_foreign};
use pellucid_workload::{Grammar, parse_bytes};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// First words of every imported description.
const HEAD: &str = "# Imported by pellucid from ";
/// Bytes of a parameter file, at most.
const BYTES_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  pellucid import mqsim ssdconfig.xml workload.xml -o mine.toml
  pellucid import femu run-blackbox.sh -o mine.toml
  pellucid run mine.toml --rw randread --bs 4k --number-ios 10000

Every parameter becomes a key, with its name beside it, or is listed on standard error and at the end of the description.";

/// Make a description from the files of another simulator, and list what has no counterpart
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    Mqsim(Mqsim),
    Femu(Femu),
    Nvmevirt(Nvmevirt),
    Simplessd(Simplessd),
}

const MQSIM_EXAMPLES: &str = "\
Examples:
  pellucid import mqsim ssdconfig.xml workload.xml -o mine.toml";

/// From MQSim's description of a drive, and its workload
#[derive(Debug, clap::Args)]
#[command(after_help = MQSIM_EXAMPLES)]
struct Mqsim {
    /// The drive: Execution_Parameter_Set
    #[arg(value_name = "SSDCONFIG.xml")]
    drive: PathBuf,
    /// The work: MQSim_IO_Scenarios, of which the first is taken
    #[arg(value_name = "WORKLOAD.xml")]
    work: PathBuf,
    #[command(flatten)]
    to: To,
}

const FEMU_EXAMPLES: &str = "\
Examples:
  pellucid import femu run-blackbox.sh -o mine.toml";

/// From the options of FEMU's black-box SSD
#[derive(Debug, clap::Args)]
#[command(after_help = FEMU_EXAMPLES)]
struct Femu {
    /// The script that starts QEMU, or a file with its -device femu,...
    #[arg(value_name = "SCRIPT")]
    drive: PathBuf,
    #[command(flatten)]
    to: To,
}

const NVMEVIRT_EXAMPLES: &str = "\
Examples:
  pellucid import nvmevirt ssd_config.h --model SAMSUNG_970PRO --memory 64GiB -o mine.toml";

/// From a conventional drive of NVMeVirt
#[derive(Debug, clap::Args)]
#[command(after_help = NVMEVIRT_EXAMPLES)]
struct Nvmevirt {
    /// The header that describes the models
    #[arg(value_name = "SSD_CONFIG.h")]
    drive: PathBuf,
    /// The model: what BASE_SSD is in its Makefile
    #[arg(long, value_name = "NAME")]
    model: String,
    /// The memory that the module is given, which is the size of the flash
    #[arg(long, value_name = "SIZE")]
    memory: String,
    #[command(flatten)]
    to: To,
}

const SIMPLESSD_EXAMPLES: &str = "\
Examples:
  pellucid import simplessd sample.cfg -o mine.toml";

/// From SimpleSSD's configuration
#[derive(Debug, clap::Args)]
#[command(after_help = SIMPLESSD_EXAMPLES)]
struct Simplessd {
    /// The configuration; its NVMe interface is taken
    #[arg(value_name = "CONFIG.cfg")]
    drive: PathBuf,
    #[command(flatten)]
    to: To,
}

/// Where the description goes.
#[derive(Debug, clap::Args)]
struct To {
    /// The description [default: standard output]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

impl Import {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.from {
            From::Mqsim(command) => command.run(global),
            From::Femu(Femu { drive, to }) => to.write(one(&drive, femu::import)?, &drive.display(), global),
            From::Simplessd(Simplessd { drive, to }) => {
                to.write(one(&drive, simplessd::import)?, &drive.display(), global)
            }
            From::Nvmevirt(Nvmevirt { drive, model, memory, to }) => {
                let bytes = parse_bytes(&memory, Grammar::Ours)
                    .map_err(|error| Failure::asked(anyhow!("--memory {memory}: {error}")))?;
                let name = plain_name(&model.to_lowercase());
                let read = |text: &str, _: &str| nvmevirt::import(text, &model, bytes, &name);
                to.write(one(&drive, read)?, &format_args!("{} ({model})", drive.display()), global)
            }
        }
    }
}

impl Mqsim {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let (drive, work) = (text(&self.drive)?, text(&self.work)?);
        let files = [&self.drive, &self.work];
        let imported = mqsim::import(&drive, &work, &stem(&self.drive))
            .map_err(|(file, why)| Failure::asked(anyhow!("{}:{why}", files[file].display())))?;
        let from = format_args!("{} and {}", self.drive.display(), self.work.display()).to_string();
        self.to.write(imported, &from, global)
    }
}

impl To {
    /// Writes the description and lists what has no counterpart; `from` names the files.
    fn write(&self, imported: Imported, from: &dyn Display, global: &Global) -> Result<(), Failure> {
        let described = described(&imported, &from.to_string());
        // The result must be a description; if it is none, the values of the file contradict each other here.
        let spec = pellucid_spec::from_str(&described, "the import", &[])
            .map_err(|error| Failure::asked(anyhow!("{from}: no drive here: {error}")))?;
        match &self.output {
            None => output::print(&described)?,
            Some(path) => {
                refuse_foreign(path, global.force, |file| begins_with(file, &[HEAD.as_bytes()]))?;
                let mut file = OutputFile::create(path)?;
                let written = file.write_all(described.as_bytes());
                written.map_err(|error| Failure::work(file.failed(error)))?;
                file.commit()?;
                output::print(&format!(
                    "{}: {}, {} jobs; {} parameters without a counterpart\n",
                    path.display(),
                    spec.drive_name,
                    spec.jobs.len(),
                    imported.left.len()
                ))?;
            }
        }
        imported
            .list()
            .lines()
            .for_each(|line| output::notice(global, &format!("no counterpart: line {line}")));
        Ok(())
    }
}

/// Imports one file by its text and the name that it gives the drive.
fn one(path: &Path, import: impl Fn(&str, &str) -> Result<Imported, String>) -> Result<Imported, Failure> {
    let imported = import(&text(path)?, &stem(path));
    imported.map_err(|why| Failure::asked(anyhow!("{}:{why}", path.display())))
}

/// The name of a drive by its file.
fn stem(path: &Path) -> String {
    path.file_stem().map_or("drive".into(), |stem| plain_name(&stem.to_string_lossy()))
}

fn plain_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    let refuse = |why: String| Failure::asked(anyhow!("{}: {why}", path.display()));
    let bytes = std::fs::metadata(path).map_err(|error| refuse(format!("cannot read: {error}")))?.len();
    if bytes > BYTES_MAX {
        return Err(refuse("more than 1 MiB; allowed: a file of parameters".into()));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(format!("cannot read: {error}")))
}

/// The description with its origin before it, and what has no counterpart behind it.
fn described(imported: &Imported, from: &str) -> String {
    let left: String = imported.list().lines().map(|line| format!("#   line {line}\n")).collect();
    let left = if left.is_empty() { left } else { format!("\n# Without a counterpart:\n{left}") };
    format!("{HEAD}{}\n\n{}{left}", from.replace('\n', " "), imported.toml)
}
