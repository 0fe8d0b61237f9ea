//! A resolved description as TOML again: every key, its value, and where that came from.
//!
//! The output stands alone: it names no preset and resolves to an equal [`Spec`].

use super::{Entry, Medium, Origin, Place, Spec, Use};
use pellucid_setting::quote;
use std::collections::BTreeMap;

/// The tables with a header of their own; deeper keys are written dotted.
const TABLES: &[&str] = &[
    "drive",
    "drive.media",
    "drive.media.timing",
    "drive.media.variation",
    "drive.media.faults",
    "drive.media.bit_errors",
    "drive.media.retry",
    "drive.ecc",
    "drive.ftl",
    "drive.host",
    "drive.firmware",
    "drive.buffer",
    "drive.scheduler",
    "backing",
    "host",
    "host.ftl",
    "host.cpu",
    "kv",
    "kv.cpu",
    "precondition",
    "run",
];

/// Keys written separately or not at all: presets are resolved away; targets and jobs have their own form.
const APART: &[&str] = &["drive.preset", "target", "job"];

/// Reports whether an entry is left out: a default of a part that does not exist.
fn is_silent(spec: &Spec, entry: &Entry) -> bool {
    let apart = ["host.", "kv.", "backing.", "drive.kind"];
    let is_of_layer =
        || entry.key.starts_with("host.") && spec.has_host() && spec.has_effect(entry.key, Use::Work);
    entry.origin.place == Place::Default
        && apart.iter().any(|table| entry.key.starts_with(table))
        && !is_of_layer()
}

/// Reports whether `show` writes an entry of a description of flash.
pub(super) fn is_written(spec: &Spec, entry: &Entry) -> bool {
    !APART.contains(&entry.key) && !is_silent(spec, entry)
}

/// Keys of a flash drive that a disk has too.
const DISK_KEYS: &[&str] = &["drive.name", "drive.kind", "drive.media.sector_size", "drive.media.store"];

/// Reports whether the description gives the value, instead of a default or [`NO_FLASH`](crate::NO_FLASH).
fn is_said(entry: &Entry) -> bool {
    match &entry.origin.place {
        Place::Default => false,
        Place::File { name, .. } => name != super::NO_FLASH_NAME,
        Place::Set { .. } | Place::Option { .. } => true,
    }
}

/// Column of comments, unless the line is longer.
const COMMENT_COLUMN: usize = 44;

/// The whole resolved description, each value with its source: the comment behind it, or file and line, `default` or `--set`. Later changes to
/// [`Spec::drive`] are not shown.
pub fn show(spec: &Spec) -> String {
    shown(spec, false)
}

/// Writes the resolved description as [`show`] does, with the meaning of each key in a comment above it.
pub fn show_explained(spec: &Spec) -> String {
    shown(spec, true)
}

fn shown(spec: &Spec, explained: bool) -> String {
    let mut out = String::new();
    let disk = spec.medium == Medium::Disk;
    // For a disk, show all its keys and no keys of flash.
    let meanings: BTreeMap<&str, &str> =
        super::schema::schema().iter().map(|key| (key.path.as_str(), key.about.as_str())).collect();
    let is_shown = |entry: &Entry| match disk {
        true if entry.key.starts_with("backing.") => entry.key != "backing.kind",
        true if entry.key.starts_with("drive.") => DISK_KEYS.contains(&entry.key) || is_said(entry),
        _ => !is_silent(spec, entry),
    };
    for table in TABLES {
        let mut header = Some(*table);
        for entry in
            spec.provenance.entries.iter().filter(|entry| !APART.contains(&entry.key) && is_shown(entry))
        {
            let Some(name) = name_in(table, entry) else { continue };
            if let Some(table) = header.take() {
                start_table(&mut out, &format!("[{table}]"));
            }
            if explained {
                out.push_str(&format!("# {}\n", meanings.get(entry.key).copied().unwrap_or_default()));
            }
            push_line(&mut out, name, &entry.value, &entry.origin);
        }
    }
    for target in &spec.targets {
        start_table(&mut out, "[[target]]");
        for field in &target.row.fields {
            push_line(&mut out, &field.path, &field.value.to_text(), &field.origin);
        }
    }
    for job in &spec.jobs {
        start_table(&mut out, "[[job]]");
        for pair in &job.pairs {
            push_line(&mut out, &pair.key, &quote(&pair.value), &pair.origin);
        }
    }
    out
}

/// The name of `entry` below `table`, unless a deeper table of [`TABLES`] has it.
fn name_in<'a>(table: &str, entry: &'a Entry) -> Option<&'a str> {
    let below = |table: &str| entry.key.strip_prefix(table).and_then(|rest| rest.strip_prefix('.'));
    let deeper = TABLES.iter().any(|other| other.len() > table.len() && below(other).is_some());
    below(table).filter(|_| !deeper)
}

fn start_table(out: &mut String, header: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(header);
    out.push('\n');
}

fn push_line(out: &mut String, name: &str, value: &str, origin: &Origin) {
    let assignment = format!("{name} = {value}");
    out.push_str(&format!("{assignment:<COMMENT_COLUMN$}  # {}\n", source(origin)));
}

/// Text of the comment. The comment of the file takes precedence over the place, so that showing a shown file changes nothing.
fn source(origin: &Origin) -> String {
    let text = match (&origin.comment, &origin.place) {
        (Some(comment), _) => comment.clone(),
        (None, Place::Default) => "default".into(),
        (None, place) => place.to_string(),
    };
    text.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part whose table is missing in [`TABLES`] would not be shown.
    #[test]
    fn every_key_has_a_table() {
        for key in crate::schema::schema().iter().filter(|key| !APART.contains(&key.path.as_str())) {
            let origin = Origin { place: Place::Default, comment: None };
            let entry = Entry { key: &key.path, value: String::new(), origin };
            let tables: Vec<&&str> = TABLES.iter().filter(|table| name_in(table, &entry).is_some()).collect();
            assert_eq!(tables.len(), 1, "{}: {tables:?}", key.path);
        }
    }
}
