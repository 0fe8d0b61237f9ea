//! `pellucid presets`: the drives that come with the command.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use pellucid_spec::presets;

const EXAMPLES: &str = "\
Examples:
  pellucid presets
  pellucid show memblaze";

/// List the drives that come with Pellucid
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Presets {}

impl Presets {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if global.json {
            let all = presets().iter().map(|p| serde_json::json!({ "name": p.name, "summary": p.summary }));
            return Ok(output::print(&format!("{:#}\n", all.collect::<serde_json::Value>()))?);
        }
        let width = presets().iter().map(|preset| preset.name.len()).max().unwrap_or(0);
        let lines = presets().iter().map(|preset| format!("{:width$}  {}\n", preset.name, preset.summary));
        Ok(output::print(&lines.collect::<String>())?)
    }
}
