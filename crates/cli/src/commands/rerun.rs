//! `pellucid rerun`: a run again, from its report, compared bit for bit.

use super::Command;
use crate::args::{self, Global};
use crate::failure::Failure;
use crate::output;
use crate::provenance::sha256;
use crate::report_file::ReportFile;
use crate::version::COMMIT;
use anyhow::anyhow;
use pellucid_report::{Difference, Report, differences, results};
use pellucid_spec::PYTHON;
use pellucid_text::format::count;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Differences that are shown; more say nothing new.
const SHOWN_MAX: usize = 40;

const EXAMPLES: &str = "\
Examples:
  pellucid rerun report/report.json
  pellucid rerun report

It is run in the directory where the run was, as relative paths of its command are. Nothing is written: --report and --log of the
command are left out. Exit status: 0 if every value is the same bit for bit, apart from what the run cost on the machine (time,
memory); 1 if some are not; 2 if the run cannot be repeated, because the version or a file that it read is another one.";

/// Repeat the run of a report, and compare all results bit for bit
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Rerun {
    /// report.json of a run or compare.json of a comparison, or the directory with it
    #[arg(value_name = "REPORT")]
    report: PathBuf,
}

impl Rerun {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let file = ReportFile::open(&self.report)?;
        check_policies(&file)?;
        let command = file.command()?;
        check_program(&file, global)?;
        check_inputs(&file)?;
        let (command, asked) = args::again(&command).map_err(|why| file.refuse(&why))?;
        let none = || file.refuse("its command is none of run, replay, compare, fs run and graph run");
        let command = match command {
            Command::Fs(fs) => Command::Run(fs.whole_run()?.ok_or_else(none)?),
            Command::Graph(graph) => Command::Run(graph.whole_run()?.ok_or_else(none)?),
            other => other,
        };
        let over_seeds = match &command {
            Command::Run(run) => run.is_over_seeds(),
            Command::Compare(compare) => compare.is_over_seeds(),
            _ => false,
        };
        // Of several seeds, the one that this report is of.
        let seed_of_run = file.reports()[0]["seeds"]["workload"].as_u64().filter(|_| over_seeds);
        let asked = Global {
            json: true,
            report: None,
            film: false,
            log: None,
            quiet: global.quiet,
            seed_of_run,
            whole_only: true,
            ..asked
        };
        let reports = match command {
            Command::Run(run) => vec![run.again(&asked)?],
            Command::Replay(replay) => vec![replay.again(&asked)?],
            Command::Compare(compare) => compare.again(&asked)?,
            _ => return Err(none()),
        };
        if reports.iter().any(|report| report.partial) {
            return Err(Failure::stopped("interrupted; only a whole run can be compared with the report"));
        }
        let mut found = Vec::new();
        for before in file.reports() {
            found.extend(compared(&file, before, &reports)?);
        }
        tell(&file, &found, global)
    }
}

/// Refuses runs with policies from outside, which a command does not have.
fn check_policies(file: &ReportFile) -> Result<(), Failure> {
    let all = file.reports().iter().filter_map(|report| report["overrides"].as_object()).flatten();
    let is_outside = |value: &Value| value.as_str().is_some_and(|text| text.contains(&format!("\"{PYTHON}")));
    match all.into_iter().find(|(_, value)| is_outside(value)) {
        None => Ok(()),
        Some((key, value)) => Err(file.refuse(&format!(
            "{key} = {} is a policy written in Python, which the command does not have; allowed: the program that has it",
            value.as_str().unwrap_or_default()
        ))),
    }
}

/// Refuses another version; another commit of the same version is only mentioned.
fn check_program(file: &ReportFile, global: &Global) -> Result<(), Failure> {
    let provenance = file.provenance()?;
    let (was, is) = (provenance["version"].as_str().unwrap_or_default(), env!("CARGO_PKG_VERSION"));
    if was != is {
        return Err(file.refuse(&format!("it was made by version {was}, and this is {is}")));
    }
    let commit = provenance["commit"].as_str();
    if commit != COMMIT {
        let name = |commit: Option<&str>| commit.unwrap_or("an unknown commit").to_string();
        let told = format!("the report was made by commit {}, and this is {}", name(commit), name(COMMIT));
        output::notice(global, &told);
    }
    Ok(())
}

/// Refuses files that are not what the run read.
fn check_inputs(file: &ReportFile) -> Result<(), Failure> {
    for input in file.provenance()?["inputs"].as_array().into_iter().flatten() {
        let text = |key: &str| input[key].as_str().unwrap_or_default();
        let (role, path) = (text("role"), text("path"));
        let Some(was) = input["sha256"].as_str() else {
            return Err(file.refuse(&format!("{path} ({role}) was a pipe, which is gone")));
        };
        let is = sha256(Path::new(path)).map_err(|failure| failure.about(role))?;
        if is != was {
            return Err(file.refuse(&format!(
                "{path} ({role}) is not the file that was read: its SHA-256 is {is}, and was {was}"
            )));
        }
    }
    Ok(())
}

/// Values of one report that differ from those of its repetition, which has the same drive.
fn compared(file: &ReportFile, before: &Value, reports: &[Report]) -> Result<Vec<Difference>, Failure> {
    let name = before["drive"]["name"].as_str().unwrap_or_default();
    let again = reports.iter().find(|report| report.drive.name == name);
    let again =
        again.ok_or_else(|| file.refuse(&format!("the command runs no drive that is called {name}")))?;
    let again: Value = serde_json::from_str(&again.to_json(true)).map_err(Failure::work)?;
    let parts = |report: &Value| {
        serde_json::json!({
            "description": report["provenance"]["description"],
            "seeds": report["seeds"],
            "results": results(report),
        })
    };
    Ok(differences(&parts(before), &parts(&again)))
}

fn tell(file: &ReportFile, found: &[Difference], global: &Global) -> Result<(), Failure> {
    if global.json {
        let all = found.iter().map(|difference| {
            serde_json::json!({ "key": difference.path, "was": difference.first, "is": difference.second })
        });
        let answer = serde_json::json!({ "equal": found.is_empty(), "differences": all.collect::<Value>() });
        output::print(&format!("{answer:#}\n"))?;
    } else if found.is_empty() {
        output::print(&format!("{}: repeated, every result is equal bit for bit\n", file.name()))?;
    } else {
        let line = |difference: &Difference| {
            let (was, is) = difference.values();
            format!("{}: was {was}, is {is}\n", difference.path)
        };
        output::print(&found.iter().take(SHOWN_MAX).map(line).collect::<String>())?;
    }
    match found.len() {
        0 => Ok(()),
        all => Err(Failure::work(anyhow!(
            "{}: {} from the report{}",
            file.name(),
            if all == 1 { "1 value differs".into() } else { format!("{} values differ", count(all as u64)) },
            if all > SHOWN_MAX && !global.json {
                ", of which the first are shown; --json has all"
            } else {
                ""
            }
        ))),
    }
}
