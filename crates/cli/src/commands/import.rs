//! `pellucid import`: a description from the files of another simulator.

use crate::args::Global;
use crate::failure::Failure;
use crate::import::{Imported, mqsim};
use crate::output;
use anyhow::anyhow;
use pellucid_output::{OutputFile, begins_with, refuse_foreign};
use std::io::Write;
use std::path::{Path, PathBuf};

/// First words of every imported description.
const HEAD: &str = "# Imported by pellucid from ";
/// Bytes of a parameter file, at most.
const BYTES_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  pellucid import mqsim ssdconfig.xml workload.xml -o mine.toml
  pellucid run mine.toml --report report

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
    /// The description [default: standard output]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

impl Import {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.from {
            From::Mqsim(command) => command.run(global),
        }
    }
}

impl Mqsim {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let (drive, work) = (text(&self.drive)?, text(&self.work)?);
        let stem = self.drive.file_stem().map_or("drive".into(), |stem| stem.to_string_lossy().into_owned());
        let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let files = [&self.drive, &self.work];
        let imported = mqsim::import(&drive, &work, &name)
            .map_err(|(file, why)| Failure::asked(anyhow!("{}:{why}", files[file].display())))?;
        let from = format!("{} and {}", self.drive.display(), self.work.display());
        let described = described(&imported, &from);
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
