//! `pellucid diff`: what two runs differ in, description and results.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::report_file::ReportFile;
use pellucid_report::{Difference, differences, results};
use pellucid_text::format::count;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid diff before/report.json after/report.json
  pellucid diff before after --json

Exit status: 0 if description and results are equal, 1 if they are not. What a run cost on its machine (time, memory) does not
count, nor does the command that was typed.";

/// Show the differences of two runs, in description and results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    /// report.json of a run, or the directory with it
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Report of the run to compare with A
    #[arg(value_name = "B")]
    second: PathBuf,
}

impl Diff {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (first, second) = (ReportFile::open(&self.first)?, ReportFile::open(&self.second)?);
        let one = |file: &ReportFile| match file.reports() {
            [report] => Ok(report.clone()),
            all => Err(file.refuse(&format!(
                "a comparison of {} drives; allowed: report.json in the folder of one",
                all.len()
            ))),
        };
        let (first, second) = (one(&first)?, one(&second)?);
        let described = differences(&description(&first), &description(&second));
        let results = differences(&results(&first), &results(&second));
        let told = if global.json { as_json(&described, &results) } else { as_text(&described, &results) };
        output::print(&told)?;
        if described.is_empty() && results.is_empty() { Ok(()) } else { Err(Failure::told()) }
    }
}

/// Returns everything that determines a run; for a report without provenance, the keys of these that it has.
fn description(report: &Value) -> Value {
    let Some(provenance) = report.get("provenance") else {
        let keys = ["pellucid_version", "drive", "overrides", "seeds"];
        let mut found: Map<String, Value> =
            keys.into_iter().map(|key| (key.to_string(), report[key].clone())).collect();
        found.insert("workload".into(), report["workload"]["summary"].clone());
        return Value::Object(found);
    };
    let mut found = provenance["description"].as_object().cloned().unwrap_or_default();
    found.insert("version".into(), provenance["version"].clone());
    found.insert("seeds".into(), report["seeds"].clone());
    // The work of a job file is in no key of the description.
    found.insert("workload".into(), report["workload"]["summary"].clone());
    found.insert("precondition".into(), report["workload"]["precondition"].clone());
    for input in provenance["inputs"].as_array().into_iter().flatten() {
        let role = input["role"].as_str().unwrap_or_default();
        found.insert(format!("sha256 of {role}"), input["sha256"].clone());
    }
    Value::Object(found)
}

fn as_text(described: &[Difference], results: &[Difference]) -> String {
    if described.is_empty() && results.is_empty() {
        return "no difference in description and results\n".into();
    }
    let mut out = section("description", described, false);
    let (lists, values): (Vec<Difference>, Vec<Difference>) =
        results.iter().cloned().partition(Difference::is_list);
    out += &section("results", &values, true);
    match lists.len() {
        0 => {}
        1 => out += &format!("  and 1 list: {}\n", lists[0].path),
        all => out += &format!("  and {} lists (distributions, series); --json has all\n", count(all as u64)),
    }
    out
}

fn section(name: &str, found: &[Difference], changes: bool) -> String {
    if found.is_empty() {
        return format!("{name}: no difference\n");
    }
    let rows: Vec<[String; 4]> = found
        .iter()
        .map(|difference| {
            let (first, second) = difference.values();
            let change = difference.change().filter(|_| changes).unwrap_or_default();
            [difference.path.clone(), first, second, change]
        })
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count().min(40)).max().unwrap_or(0);
    let (key, first, second) = (width(0), width(1), width(2));
    let line = |[path, a, b, change]: &[String; 4]| {
        format!("  {path:key$}  {a:first$}  {b:second$}  {change}").trim_end().to_string() + "\n"
    };
    format!("{name}\n{}", rows.iter().map(line).collect::<String>())
}

fn as_json(described: &[Difference], results: &[Difference]) -> String {
    let list = |found: &[Difference]| -> Value {
        let one = |difference: &Difference| {
            json!({
                "key": difference.path, "a": difference.first, "b": difference.second, "change": difference.change(),
            })
        };
        found.iter().map(one).collect()
    };
    format!("{:#}\n", json!({ "description": list(described), "results": list(results) }))
}
