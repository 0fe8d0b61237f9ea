//! A finished run, as Python sees it: the command's report, and tables.

use crate::errors::Refusal;
use crate::tables::{self, Table};
use pellucid_report::{OverSeeds, Report, figures_json, render_compare, render_text, report_figures};
use pyo3::prelude::*;

/// Columns of a report as text, unless others are asked for.
const COLUMNS: usize = 100;

/// A finished run.
#[pyclass(frozen, module = "pellucid")]
pub struct Outcome {
    report: Report,
    requests: Option<Table>,
    blocks: Option<Table>,
}

impl Outcome {
    /// A finished run with the tables that were kept.
    pub fn new(report: Report, requests: Option<Table>, blocks: Option<Table>) -> Outcome {
        Outcome { report, requests, blocks }
    }
}

#[pymethods]
impl Outcome {
    /// The report as JSON, byte for byte what the command prints with `--json`. Without `cost` the three numbers are left out that
    /// differ from run to run.
    #[pyo3(signature = (cost=true))]
    fn json(&self, cost: bool) -> String {
        self.report.to_json(cost)
    }

    /// The report as the command prints it, in this many columns.
    #[pyo3(signature = (columns=COLUMNS))]
    fn text(&self, columns: usize) -> String {
        render_text(&self.report, columns)
    }

    /// The report as one page with drawings.
    fn html(&self) -> String {
        self.report.to_html()
    }

    /// The figures of that page as data, in JSON.
    fn figures(&self) -> String {
        figures_json(&report_figures(&self.report))
    }

    /// A table by its name: requests, series, operations, blocks, dies.
    fn table(&self, name: &str) -> Result<Table, Refusal> {
        let kept = |table: &Option<Table>, why: &str| {
            let table = table.as_ref().map(Table::share);
            table.ok_or_else(|| Refusal::new(format!("{name}: {why}")))
        };
        match name {
            "requests" => kept(&self.requests, "not kept; allowed: a run with requests=True"),
            "blocks" => kept(&self.blocks, "there are none; allowed: with a drive of flash alone"),
            "series" => tables::series(&self.report),
            "operations" => tables::operations(&self.report),
            "dies" => tables::dies(&self.report),
            _ => Err(Refusal::value("table", name, "requests, series, operations, blocks, dies")),
        }
    }
}

/// Reports side by side under these names, as `pellucid compare` prints them.
#[pyfunction]
pub fn compare_text(names: Vec<String>, outcomes: Vec<PyRef<'_, Outcome>>) -> String {
    render_compare(&outcomes.iter().zip(names).map(named).collect::<Vec<_>>())
}

/// Numbers over these seeds, as `pellucid run --seeds` and `pellucid compare --seeds` print them: for each drive its name, and its reports
/// in the order of the seeds. Panics with fewer seeds than two, or without a report for each.
#[pyfunction]
pub fn seeds_text(seeds: Vec<u64>, drives: Vec<(String, Vec<PyRef<'_, Outcome>>)>) -> String {
    let reports = |(name, outcomes): (String, Vec<PyRef<'_, Outcome>>)| {
        outcomes.iter().map(|outcome| named((outcome, name.clone()))).collect()
    };
    OverSeeds::new(seeds, drives.into_iter().map(reports).collect()).render_text()
}

fn named((outcome, name): (&PyRef<'_, Outcome>, String)) -> Report {
    let mut report = outcome.report.clone();
    report.drive.name = name;
    report
}
