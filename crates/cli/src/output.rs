//! Answers on standard output: text for people, JSON for scripts.

use crate::args::Global;
use crate::failure::Failure;
use crate::{interrupt, stderr};
use pellucid_output::{OutputDirectory, begins_with, refuse_foreign, refuse_foreign_report};
use pellucid_report::{Directions, JobOptions, LOG_BEGINNING, Report, render_text, to_fio_json};
use pellucid_text::format::count;
pub use pellucid_text::quoted;
use pellucid_workload::{BlockSize, Job};
use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Columns when standard output is not a terminal.
const COLUMNS: usize = 100;
/// Wider text does not read better.
const COLUMNS_MAX: usize = 140;

/// Prints to standard output.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Remarks on standard error, unless they are not wanted.
pub fn notice(global: &Global, text: &str) {
    if !global.quiet {
        stderr::say(text);
    }
}

/// Warnings of a report on standard error, unless they are not wanted: its JSON and its page have them too.
pub fn warn(global: &Global, sentences: impl IntoIterator<Item = String>) {
    for sentence in sentences {
        notice(global, &format!("warning: {sentence}"));
    }
}

/// The screen's width.
pub fn columns() -> usize {
    let size = console::Term::stdout().size_checked();
    size.map_or(COLUMNS, |(_, columns)| usize::from(columns).min(COLUMNS_MAX))
}

/// The line above a report: the drive and its work. It is printed with the report, so that a refusal is printed alone.
pub fn header(global: &Global, verb: &str, drive: &str, work: &str) -> io::Result<()> {
    if global.json { Ok(()) } else { print(&format!("{verb}  {drive}  <  {work}\n\n")) }
}

/// Shape of the answer on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Normal,
    /// JSON in fio's shape, as fio's own tools read it
    Json,
    /// As json, with a bin for each latency
    #[value(name = "json+")]
    JsonPlus,
}

/// The answer in fio's words.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct FormatOptions {
    /// Print the results as fio does: json, or json+ with bins of latency, for tools that read fio's output. --json prints ours
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "normal",
        hide_default_value = true,
        conflicts_with = "json"
    )]
    output_format: Format,
}

impl FormatOptions {
    /// The options of the command; in fio's shape nothing but JSON is printed.
    pub fn apply(self, global: &Global) -> Global {
        Global { json: global.json || self.output_format != Format::Normal, ..global.clone() }
    }

    /// Refuses fio's shape beside an option for which it has no place.
    pub fn check_absent(self, option: &str) -> Result<(), Failure> {
        match self.output_format {
            Format::Normal => Ok(()),
            Format::Json | Format::JsonPlus => Err(Failure::asked(anyhow::anyhow!(
                "--output-format and {option} do not go together; allowed: --json with {option}"
            ))),
        }
    }

    /// Refuses fio's format for an application, which fio's tools do not know.
    pub fn check_jobs(self, jobs: &[Job]) -> Result<(), Failure> {
        match jobs.iter().find_map(|job| job.app.as_ref()) {
            Some(app) => self.check_absent(&format!("app = {}", app.name())),
            None => Ok(()),
        }
    }

    /// The report in fio's shape, if that is asked for; `options`: of each job.
    fn render(self, report: &Report, jobs: &[Job]) -> Option<String> {
        let bins = match self.output_format {
            Format::Normal => return None,
            Format::Json => false,
            Format::JsonPlus => true,
        };
        let first = jobs.iter().filter(|job| job.clone_index == 0);
        let clones = |at: usize| report.jobs.get(at).map_or(1, |result| result.instances);
        let options: Vec<JobOptions> = first.enumerate().map(|(at, job)| options(job, clones(at))).collect();
        Some(to_fio_json(report, &options, bins))
    }
}

/// The options of a job that fio's tools look at.
fn options(job: &Job, clones: u32) -> JobOptions {
    let block = job.block.iter().map(BlockSize::min_bytes).max().unwrap_or(0);
    let pairs = [
        ("name", job.name.clone()),
        ("rw", job.pattern_name().to_string()),
        ("bs", block.to_string()),
        ("iodepth", job.iodepth.to_string()),
        ("numjobs", clones.to_string()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Writes the files asked for and prints the report, in the form asked for. Files that cannot be written fail the command behind that: the
/// results are not lost with them.
pub fn report(
    global: &Global,
    report: &Report,
    mut directory: Option<OutputDirectory>,
    hints: &[String],
    (format, jobs): (FormatOptions, &[Job]),
) -> Result<(), Failure> {
    let written =
        directory.as_mut().map_or(Ok(()), |directory| directory.replace(&report.files(Path::new(""))));
    warn(global, report.warnings.iter().cloned());
    if global.json {
        print(&format.render(report, jobs).unwrap_or_else(|| report.to_json(true)))?;
        written?;
        return ended(report);
    }
    let mut text = render_text(report, columns());
    if let Some(directory) = directory.filter(|_| written.is_ok()) {
        let page = directory.path().join("index.html");
        text.push_str(&format!("{:20}{}  (JSON and CSV beside it)\n", "report", page.display()));
    }
    text.push_str(&next(global, hints));
    print(&text)?;
    written?;
    ended(report)
}

/// Commands to try next, below an answer, unless hints are not wanted.
pub fn next<S: Display>(global: &Global, hints: &[S]) -> String {
    if global.quiet || hints.is_empty() {
        return String::new();
    }
    let lines = hints.iter().enumerate();
    let lines = lines.map(|(i, hint)| format!("{:7}{hint}\n", if i == 0 { "next:" } else { "" }));
    format!("\n{}", lines.collect::<String>())
}

/// The exit status shows whether the user cut the report short with an interrupt, and whether requests failed; one
/// that `q` has cut short is what was asked for.
pub fn ended(report: &Report) -> Result<(), Failure> {
    if report.partial && interrupt::asked() {
        return Err(Failure::interrupted(report.requests));
    }
    let Directions { read, write, trim, flush, .. } = &report.directions;
    let failed: Vec<String> = [(read, "read"), (write, "write"), (trim, "trim"), (flush, "flush")]
        .into_iter()
        .filter(|(direction, _)| direction.errors > 0)
        .map(|(direction, name)| {
            format!("{} of {} {name} requests", count(direction.errors), count(direction.requests))
        })
        .collect();
    if failed.is_empty() {
        return steady(report);
    }
    let why = if report.wear.read_only { "; the drive takes no writes any more" } else { "" };
    Err(Failure::work(anyhow::anyhow!("{}: {} failed{why}", report.drive.name, failed.join(", "))))
}

/// As [`ended`], for several reports: an interrupt comes first, and each failure is printed.
pub fn all_ended<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Result<(), Failure> {
    let mut failures: Vec<Failure> = reports.into_iter().filter_map(|report| ended(report).err()).collect();
    failures.sort_by_key(Failure::is_interrupt);
    let last = failures.pop();
    if last.as_ref().is_some_and(|failure| !failure.is_interrupt()) {
        for failure in failures {
            stderr::say(&format!("error: {}", failure.sentence()));
        }
    }
    last.map_or(Ok(()), Err)
}

/// The exit status shows that a run did not become steady by its end.
fn steady(report: &Report) -> Result<(), Failure> {
    match &report.steady_state {
        Some(steady) if !steady.reached && !report.partial => Err(Failure::work(anyhow::anyhow!(
            "{}: steady state, {}; allowed for one: work that goes on longer (time_based with a longer runtime), a shorter \
             run.steady_round, or --precondition steady",
            report.drive.name,
            steady.words()
        ))),
        _ => Ok(()),
    }
}

/// Takes the directory that results will be written to, or fails before the work is done.
pub fn claim(directory: Option<&Path>, global: &Global) -> Result<Option<OutputDirectory>, Failure> {
    let Some(directory) = directory else { return Ok(None) };
    refuse_foreign_report(directory, global.force)?;
    Ok(Some(OutputDirectory::claim(directory)?))
}

/// Refuses an output file that is the command's standard output, because the answer is printed there.
pub fn refuse_answer_place(option: &str, path: &Path) -> Result<(), Failure> {
    let answer = io::stdout().as_fd().try_clone_to_owned().and_then(|out| File::from(out).metadata());
    let place = |found: io::Result<Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    let (answer, file) = (place(answer), place(std::fs::metadata(path)));
    if file.is_none() || file != answer || file == place(std::fs::metadata("/dev/null")) {
        return Ok(());
    }
    Err(Failure::asked(anyhow::anyhow!(
        "{option} {}: the standard output, which has the answer of this command; allowed: a file, or another stream",
        path.display()
    )))
}

/// Returns whether a log of requests is to be Parquet, judged by its name.
pub fn is_parquet(log: &Path) -> bool {
    log.extension().is_some_and(|ending| ending == "parquet")
}

/// Refuses the name of a request log that is that of something else.
pub fn check_log_ending(log: &Path) -> Result<(), Failure> {
    let is_csv = log.extension().is_none_or(|ending| ending == "csv" || ending == "log");
    if is_csv || is_parquet(log) {
        return Ok(());
    }
    let message = "a log of requests is CSV or Parquet; allowed: FILE.csv, FILE.log, FILE.parquet, or a name without an ending";
    Err(Failure::asked(anyhow::anyhow!("--log {}: {message}", log.display())))
}

/// Refuses a request log in place of a file that we did not write, unless that is forced.
pub fn check_log_place(log: &Path, force: bool) -> Result<(), Failure> {
    let is_ours = |file: &File| match is_parquet(log) {
        true => pellucid_parquet_log::is_log(file),
        false => begins_with(file, &[LOG_BEGINNING]),
    };
    Ok(refuse_foreign(log, force, is_ours)?)
}

/// Words of the command line behind the name of the program. A name of a file need not be UTF-8; what is not, is replaced here.
pub fn words() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())
}

/// The command line as it can be typed again.
pub fn command_line() -> String {
    let words = words().map(|word| quoted(&word));
    std::iter::once("pellucid".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}
