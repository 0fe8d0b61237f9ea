//! `pellucid import`: a description from the files of another simulator.

use crate::args::Global;
use crate::failure::Failure;
use crate::import::{Imported, femu, mqsim, nvmevirt, simplessd};
use crate::output;
use crate::subject::is_one_file;
use anyhow::anyhow;
use pellucid_flash::{FNV_BASIS, fnv1a};
use pellucid_lab::experiment;
use pellucid_output::{OutputFile, refuse_foreign};
use pellucid_spec::Spec;
use pellucid_workload::{Generator, Grammar, parse_bytes};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// First words of every imported description.
const HEAD: &str = "# Imported by pellucid from ";
/// Beginning of its second line, which has the checksum of all other lines.
const CHECKSUM: &str = "# As it was imported: ";
/// The name of a description that is not written yet; it appears in places and is removed from messages.
const RESULT: &str = "the import";
/// Bytes of a parameter file, at most.
const BYTES_MAX: u64 = 1 << 20;
/// Memory of NVMeVirt that is tried, at most: 64 TiB.
const MEMORY_MAX_MIB: u64 = 1 << 26;

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
    /// The script that starts QEMU, or a file with its -device femu,... option
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
    /// The model: the value of BASE_SSD in its Makefile
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Memory of the module, which is the size of the flash
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
            From::Femu(Femu { drive, to }) => {
                to.write(&one(&drive, femu::import)?, &Source::file(&drive), global)
            }
            From::Simplessd(Simplessd { drive, to }) => {
                to.write(&one(&drive, simplessd::import)?, &Source::file(&drive), global)
            }
            From::Nvmevirt(command) => command.run(global),
        }
    }
}

impl Mqsim {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let (drive, work) = (text(&self.drive)?, text(&self.work)?);
        let files = [self.drive.as_path(), &self.work];
        let imported = mqsim::import(&drive, &work, &stem(&self.drive))
            .map_err(|(file, why)| refused(files[file], &why))?;
        let source = Source {
            name: format!("{} and {}", self.drive.display(), self.work.display()),
            files: files.to_vec(),
        };
        self.to.write(&imported, &source, global)
    }
}

impl Nvmevirt {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let Nvmevirt { drive, model, memory, to } = self;
        let bytes = parse_bytes(&memory, Grammar::Ours)
            .map_err(|error| Failure::asked(anyhow!("--memory {memory}: {error}")))?;
        let text = text(&drive)?;
        let name = plain_name(&model.to_lowercase());
        let with = |bytes| nvmevirt::import(&text, &model, bytes, &name).map_err(|why| refused(&drive, &why));
        let imported = with(bytes)?;
        let is_drive = |bytes| with(bytes).is_ok_and(|imported| checked(&imported.toml).is_ok());
        if !is_drive(bytes)
            && let Some(least) = least_memory(bytes, is_drive)
        {
            return Err(Failure::asked(anyhow!(
                "--memory {memory}: too small for {model}, as its blocks become too small; allowed: at least {least}MiB"
            )));
        }
        let name = format!("{} ({model})", drive.display());
        to.write(&imported, &Source { name, files: vec![&drive] }, global)
    }
}

/// The least memory above `bytes`, in MiB, with which there is a drive; `None`: more does not help.
fn least_memory(bytes: u64, is_drive: impl Fn(u64) -> bool) -> Option<u64> {
    let is_drive = |mib: u64| is_drive(mib << 20);
    let mut short = bytes >> 20;
    let mut enough = (short + 1).next_power_of_two();
    while enough <= MEMORY_MAX_MIB && !is_drive(enough) {
        (short, enough) = (enough, enough * 2);
    }
    if enough > MEMORY_MAX_MIB {
        return None;
    }
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if is_drive(middle) { enough = middle } else { short = middle }
    }
    Some(enough)
}

/// Where an imported description is from.
struct Source<'a> {
    /// Name in its heading.
    name: String,
    files: Vec<&'a Path>,
}

impl<'a> Source<'a> {
    fn file(path: &'a Path) -> Source<'a> {
        Source { name: path.display().to_string(), files: vec![path] }
    }

    /// The sentence about a key that cannot be, by the foreign parameters that it is from.
    fn refused(&self, imported: &Imported, error: &str) -> Failure {
        let at = error.strip_prefix(RESULT).and_then(|rest| rest.strip_prefix(':')).unwrap_or(error);
        let (line, sentence) = at.split_once(": ").unwrap_or(("", at));
        let number = line.parse::<usize>().ok().and_then(|line| line.checked_sub(1));
        let written = number.and_then(|number| Some((number, imported.toml.lines().nth(number)?)));
        let Some((number, (_, comment))) =
            written.and_then(|(number, line)| Some((number, line.split_once("  # ")?)))
        else {
            return Failure::asked(anyhow!("{}: no drive here: {}", self.name, at.trim_start()));
        };
        let named = imported.named(number, comment);
        let values: Vec<String> = named
            .iter()
            .map(|given| format!("{} = {}", given.parameter.name, given.parameter.value))
            .collect();
        // An option comes first: it is what can be changed.
        Failure::asked(match named.first().filter(|_| !comment.starts_with("--")) {
            Some(first) => anyhow!(
                "{}:{}: {}: becomes {sentence}",
                self.files[first.file].display(),
                first.parameter.line,
                values.join(", ")
            ),
            None => anyhow!("{}: {comment}: becomes {sentence}", self.name),
        })
    }
}

/// The description that a text is, with jobs that suit the drive.
fn checked(toml: &str) -> Result<Spec, String> {
    let spec = pellucid_spec::from_str(toml, RESULT, &[]).map_err(|error| error.to_string())?;
    let jobs = experiment::jobs(&spec).map_err(|error| error.to_string())?;
    let layout = spec.drive.media.geometry.layout().map_err(|error| error.to_string())?;
    let bytes = spec.drive.ftl.user_units(&layout) * u64::from(layout.unit_bytes);
    for job in &jobs {
        Generator::new(job, bytes, layout.sector_bytes).map_err(|error| {
            let place = error.key().and_then(|key| job.written.place_of(key));
            format!("{}: {error}", place.unwrap_or(&job.name))
        })?;
    }
    Ok(spec)
}

impl To {
    /// Writes the description and lists what has no counterpart.
    fn write(&self, imported: &Imported, source: &Source, global: &Global) -> Result<(), Failure> {
        // The result must be a description; if it is none, the values of the file contradict each other here.
        let spec = checked(&imported.toml).map_err(|error| source.refused(imported, &error))?;
        let described = described(imported, &source.name);
        match &self.output {
            None => output::print(&described)?,
            Some(path) => {
                output::refuse_answer_place("--output", path)?;
                if source.files.iter().any(|read| is_one_file(read, path)) {
                    let message = "is read by this command; allowed: another file";
                    return Err(Failure::asked(anyhow!("{}: {message}", path.display())));
                }
                let mut is_edited = false;
                refuse_foreign(path, global.force, |file| {
                    let text = beginning(file);
                    is_edited = text.starts_with(HEAD) && !is_as_imported(&text);
                    text.starts_with(HEAD)
                })?;
                if is_edited {
                    let message = "was edited after it was imported; allowed: another name, or --force, which replaces it";
                    return Err(Failure::asked(anyhow!("{}: {message}", path.display())));
                }
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

/// The sentence about a file; `why` begins with a line of it, as `LINE: why`, where there is one.
fn refused(path: &Path, why: &str) -> Failure {
    let has_line = why.split_once(": ").is_some_and(|(line, _)| line.parse::<u32>().is_ok());
    let space = if has_line { "" } else { " " };
    Failure::asked(anyhow!("{}:{space}{why}", path.display()))
}

/// Imports one file by its text and the name that it gives the drive.
fn one(path: &Path, import: impl Fn(&str, &str) -> Result<Imported, String>) -> Result<Imported, Failure> {
    let imported = import(&text(path)?, &stem(path));
    imported.map_err(|why| refused(path, &why))
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
    let body = format!("\n{}{left}", imported.toml);
    let head = format!("{HEAD}{}\n", from.replace('\n', " "));
    format!("{head}{CHECKSUM}{:016x}\n{body}", checksum(&head, &body))
}

fn checksum(head: &str, body: &str) -> u64 {
    fnv1a(FNV_BASIS, head.bytes().chain(body.bytes()))
}

/// The text of a file, as far as it can be what an import wrote; empty if it is no text.
fn beginning(file: &File) -> String {
    let mut text = String::new();
    // More than this no import writes.
    match file.take(8 * BYTES_MAX).read_to_string(&mut text) {
        Ok(_) => text,
        Err(_) => String::new(),
    }
}

/// Reports whether a text is what an import wrote, to the last byte.
fn is_as_imported(text: &str) -> bool {
    let Some((head, rest)) = text.split_once('\n') else { return false };
    let Some((line, body)) = rest.split_once('\n') else { return false };
    let written = line.strip_prefix(CHECKSUM).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    written == Some(checksum(&format!("{head}\n"), body))
}
