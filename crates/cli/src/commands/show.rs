//! `pellucid show`: the resolved description.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use pellucid_lab::spec;

const EXAMPLES: &str = "\
Examples:
  pellucid show cosmos-plus
  pellucid show jasmine --set ftl.victim=fifo > mine.toml
  pellucid show aged.pellucid";

/// Print the whole description of a drive, with every default and the source of every value
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// A preset, a description in TOML, or an image
    #[arg(value_name = "DRIVE")]
    drive: String,
}

impl Show {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let spec = Subject::open(&self.drive, None, global)?.spec;
        if !global.json {
            return Ok(output::print(&spec::show(&spec))?);
        }
        let entries = spec.provenance.entries.iter().map(|entry| {
            let source = entry.origin.comment.clone().unwrap_or_else(|| entry.origin.place.to_string());
            serde_json::json!({ "key": entry.key, "value": entry.value, "source": source })
        });
        Ok(output::print(&format!("{:#}\n", entries.collect::<serde_json::Value>()))?)
    }
}
