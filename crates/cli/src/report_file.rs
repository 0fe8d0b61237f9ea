//! A report in JSON that is read back.

use crate::failure::Failure;
use anyhow::anyhow;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A report, or the reports of a comparison.
pub struct ReportFile {
    path: PathBuf,
    reports: Vec<Value>,
}

impl ReportFile {
    /// Reads a report by the name of its file, or of the directory with `report.json` or, of a comparison, `compare.json`.
    pub fn open(path: &Path) -> Result<ReportFile, Failure> {
        let kinds = ["report.json", "compare.json", "seeds.json"];
        let inside = kinds.iter().map(|kind| path.join(kind)).find(|file| file.is_file());
        let path = match path.is_dir() {
            true => inside.unwrap_or_else(|| path.join(kinds[0])),
            false => path.to_path_buf(),
        };
        let asked = |why: String| Failure::asked(anyhow!("{}: {why}", path.display()));
        let allowed = "allowed: report.json of --report, or what --json prints";
        let text = std::fs::read(&path).map_err(|error| asked(format!("cannot read: {error}; {allowed}")))?;
        let read: Value =
            serde_json::from_slice(&text).map_err(|error| asked(format!("no JSON: {error}; {allowed}")))?;
        if read.get("measures").is_some() {
            let allowed = "allowed: the report of one of them, in its folder seed-N beside it";
            return Err(asked(format!("means over several seeds; {allowed}")));
        }
        let reports = match read {
            Value::Array(reports) => reports,
            report => vec![report],
        };
        if reports.is_empty() || reports.iter().any(|report| report.get("schema_version").is_none()) {
            return Err(asked(format!("no report of Pellucid; {allowed}")));
        }
        Ok(ReportFile { path, reports })
    }

    /// The path.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The reports; one, unless it is a comparison.
    pub fn reports(&self) -> &[Value] {
        &self.reports
    }

    /// Makes the failure that names this file and the reason why it cannot be used.
    pub fn refuse(&self, why: &str) -> Failure {
        Failure::asked(anyhow!("{}: {why}", self.name()))
    }

    /// Provenance of the first report, which those of a comparison share.
    pub fn provenance(&self) -> Result<&Value, Failure> {
        let found = self.reports[0].get("provenance");
        found.ok_or_else(|| {
            self.refuse("it has no provenance, so the run cannot be repeated; allowed: reports since 0.1.0")
        })
    }

    /// The words of the command that made it.
    pub fn command(&self) -> Result<Vec<String>, Failure> {
        if self.reports.iter().any(|report| report["partial"] == true) {
            return Err(self.refuse("the user ended the run before its time, so it cannot be repeated"));
        }
        let words = self.provenance()?["command"].as_array();
        let words =
            words.and_then(|words| words.iter().map(|word| word.as_str().map(String::from)).collect());
        words.ok_or_else(|| self.refuse("its provenance has no command"))
    }
}
