//! `pellucid explain`: one key of a description, from the schema that reads it.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_spec::{KeyInfo, Spec, find_keys, presets, tables};
use pellucid_text::suggest::nearest;
use pellucid_workload::{JobBuilder, KeyDoc};
use serde_json::{Value, json};
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  pellucid explain ftl.victim
  pellucid explain ftl.victim jasmine
  pellucid explain host.cache
  pellucid explain target.units
  pellucid explain iodepth";

/// Explain a key: its meaning, type, bounds and default, and its value and source in a drive
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Explain {
    /// A key of a description (`drive.` can be left out), a table of it, or a key of jobs
    #[arg(value_name = "KEY")]
    key: String,
    /// Show the value of the key here too: a preset, a description in TOML, or an image
    #[arg(value_name = "DRIVE")]
    drive: Option<String>,
}

impl Explain {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if let Some(second) = self.drive.as_deref().filter(|second| find_keys(second).is_ok())
            && (presets().iter().any(|preset| preset.name == self.key) || Path::new(&self.key).exists())
        {
            return Err(Failure::asked(anyhow!(
                "{}: a drive; allowed: the key first: pellucid explain {second} {}",
                self.key,
                self.key
            )));
        }
        let keys = match find_keys(&self.key) {
            Ok(keys) => keys,
            Err(why) => {
                let is_of_jobs =
                    |doc: &KeyDoc| doc.name == self.key || doc.aliases.contains(&self.key.as_str());
                return match field_texts(&self.key) {
                    texts if texts.is_empty() || JobBuilder::keys().iter().any(is_of_jobs) => {
                        self.job_key(&why, global)
                    }
                    texts => self.fields(&texts, global),
                };
            }
        };
        let spec = match &self.drive {
            Some(drive) => Some(Subject::open_to_show(drive, global)?.spec),
            None if global.sets.is_empty() => None,
            None => {
                return Err(Failure::asked(anyhow!(
                    "--set: there is no drive to set a key of; allowed: with a DRIVE"
                )));
            }
        };
        if global.json {
            let all: Value = keys.iter().map(|key| to_json(key, spec.as_ref())).collect();
            return Ok(output::print(&format!("{all:#}\n"))?);
        }
        let texts: Vec<String> = keys.iter().map(|key| to_text(key, spec.as_ref())).collect();
        Ok(output::print(&texts.join("\n"))?)
    }

    /// The field of a table, which each table of a list may give another value.
    fn fields(&self, texts: &[FieldText], global: &Global) -> Result<(), Failure> {
        self.check_alone("a field of each table of a list", global)?;
        if global.json {
            return Ok(output::print(&fields_json(texts))?);
        }
        let lines = texts.iter().map(|field| lines(&field.title, &field.rows));
        Ok(output::print(&lines.collect::<Vec<String>>().join("\n"))?)
    }

    /// Refuses a drive beside what has no single value there.
    fn check_alone(&self, what: &str, global: &Global) -> Result<(), Failure> {
        if self.drive.is_some() || !global.sets.is_empty() {
            let message = "has no value in a drive; allowed: without DRIVE and --set";
            return Err(Failure::asked(anyhow!("{}: {what}, which {message}", self.key)));
        }
        Ok(())
    }

    /// A key of jobs, which is called as fio calls it; else the reason why the key is none of a description.
    fn job_key(&self, why: &str, global: &Global) -> Result<(), Failure> {
        let name = self.key.strip_prefix("job.").unwrap_or(&self.key);
        let docs = JobBuilder::keys();
        let names =
            || docs.iter().flat_map(|doc| std::iter::once(doc.name).chain(doc.aliases.iter().copied()));
        let Some(doc) = docs.iter().find(|doc| doc.name == name || doc.aliases.contains(&name)) else {
            let near =
                nearest(name, names()).map_or(String::new(), |near| format!("; of jobs there is {near}"));
            return Err(Failure::asked(anyhow!("{why}{near}")));
        };
        self.check_alone("a key of jobs", global)?;
        Ok(output::print(&if global.json { job_json(doc) } else { job_text(doc) })?)
    }
}

/// A field of a table in a list of tables, as it is shown.
struct FieldText {
    title: String,
    rows: [(&'static str, String); 2],
}

/// The fields that `typed` names: `target.units`, `namespace.blocks`, which tables of several kinds have, as a message names one of a table
/// (`drive.namespace[0].blocks`), or a field alone.
fn field_texts(typed: &str) -> Vec<FieldText> {
    let (list, field) = match typed.rsplit_once('.') {
        Some((list, field)) => (Some(list.split_once('[').map_or(list, |(list, _)| list)), field),
        None => (None, typed),
    };
    let is_list =
        |name: &str| list.is_none_or(|list| name == list || name.strip_prefix("drive.") == Some(list));
    let mut texts = Vec::new();
    for (name, when, fields) in tables().into_iter().filter(|(name, ..)| is_list(name)) {
        let about = fields.iter().find(|(known, _)| *known == field);
        texts.extend(about.map(|(_, about)| FieldText {
            title: format!("{name}.{field}"),
            rows: [("meaning", (*about).to_string()), ("where", format!("[[{name}]] with {when}"))],
        }));
    }
    texts
}

fn fields_json(texts: &[FieldText]) -> String {
    let one = |field: &FieldText| json!({ "key": field.title, "meaning": field.rows[0].1, "where": field.rows[1].1 });
    format!("{:#}\n", texts.iter().map(one).collect::<Value>())
}

/// The fields of the tables in a list of tables; nothing for any other key.
fn table_text(key: &str) -> String {
    let of_list = tables().into_iter().filter(|(name, ..)| *name == key);
    let text = of_list.map(|(name, when, fields)| {
        let field = |(field, about): &(&str, &str)| format!("    {field:18}{about}\n");
        format!("  fields of [[{name}]] with {when}\n{}", fields.iter().map(field).collect::<String>())
    });
    text.collect()
}

/// Lines of a name and what it is.
fn lines(title: &str, rows: &[(&str, String)]) -> String {
    let line = |(name, value): &(&str, String)| format!("  {name:9}{value}\n");
    format!("{title}\n{}", rows.iter().filter(|(_, value)| !value.is_empty()).map(line).collect::<String>())
}

fn to_text(key: &KeyInfo, spec: Option<&Spec>) -> String {
    let bounds = key.bounds.as_ref().map_or(String::new(), |(least, most)| format!("{least} to {most}"));
    let mut rows = vec![
        ("meaning", key.about.to_string()),
        ("type", key.kind.clone()),
        ("allowed", key.allowed.clone()),
        ("bounds", bounds),
        (
            "unit",
            if key.unit.is_empty() { String::new() } else { format!("{}, of a plain number", key.unit) },
        ),
        ("default", key.default.clone().unwrap_or_else(|| "none: it must be given".into())),
    ];
    if let Some((spec, entry)) = spec.and_then(|spec| Some((spec, spec.provenance.get(key.key)?))) {
        rows.push(("value", format!("{} in {}", entry.value, spec.drive_name)));
        rows.push(("source", entry.source()));
    }
    lines(key.key, &rows) + &table_text(key.key)
}

fn to_json(key: &KeyInfo, spec: Option<&Spec>) -> Value {
    let entry = spec.and_then(|spec| spec.provenance.get(key.key));
    let bounds = key.bounds.as_ref();
    json!({
        "key": key.key,
        "meaning": key.about,
        "type": key.kind,
        "allowed": key.allowed,
        "least": bounds.map(|bounds| &bounds.0),
        "most": bounds.map(|bounds| &bounds.1),
        "unit": key.unit,
        "default": key.default,
        "drive": spec.map(|spec| &spec.drive_name),
        "value": entry.map(|entry| &entry.value),
        "source": entry.map(|entry| entry.source()),
    })
}

fn job_text(doc: &KeyDoc) -> String {
    let rows = [
        ("meaning", doc.help.to_string()),
        ("also", doc.aliases.join(", ")),
        ("example", format!("{}={}", doc.name, doc.example)),
        ("where", "[[job]] of a description, a job of a fio file, or an option of run and compare".into()),
    ];
    lines(doc.name, &rows)
}

fn job_json(doc: &KeyDoc) -> String {
    let value = json!([{
        "key": doc.name, "meaning": doc.help, "also": doc.aliases, "example": doc.example,
    }]);
    format!("{value:#}\n")
}
