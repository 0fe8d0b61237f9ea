//! Answers on standard output: text for people, JSON for scripts.

use crate::args::Global;
use crate::failure::Failure;
use anyhow::anyhow;
use pellucid_lab::report::{Report, render_text};
use std::io::{self, Write};
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
        let _ = writeln!(io::stderr(), "{text}");
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

/// The line above a report: what is done with which drive.
pub fn header(global: &Global, verb: &str, drive: &str, work: &str) -> io::Result<()> {
    if global.json { Ok(()) } else { print(&format!("{verb}  {drive}  <  {work}\n\n")) }
}

/// Writes the files asked for and prints the report, in the form asked for.
pub fn report(
    global: &Global,
    report: &Report,
    directory: Option<&Path>,
    hints: &[String],
) -> Result<(), Failure> {
    if let Some(directory) = directory {
        write_files(report, directory)?;
    }
    warn(global, report.warnings.iter().cloned());
    if global.json {
        return Ok(print(&report.to_json(true))?);
    }
    let mut text = render_text(report, columns());
    if let Some(directory) = directory {
        let page = directory.join("index.html");
        text.push_str(&format!("{:20}{}  (JSON and CSV beside it)\n", "report", page.display()));
    }
    if !global.quiet && !hints.is_empty() {
        text.push('\n');
        for (i, hint) in hints.iter().enumerate() {
            text.push_str(&format!("{:7}{hint}\n", if i == 0 { "next:" } else { "" }));
        }
    }
    Ok(print(&text)?)
}

/// Makes a directory that results will be written to, or fails before the work is done.
pub fn make_directory(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, &error))
}

/// Fails where a file cannot be because its folder is not there; the file itself is left alone.
pub fn check_folder(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::read_dir(folder).map(drop).map_err(|error| failed(file, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::work(anyhow!("{}: {error}", path.display()))
}

/// Writes report.json, series.csv, requests.csv and index.html.
pub fn write_files(report: &Report, directory: &Path) -> Result<(), Failure> {
    report.write_files(directory).map_err(|error| failed(directory, &error))
}

/// The command line as it can be typed again.
pub fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%+@".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    std::iter::once("pellucid".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}
