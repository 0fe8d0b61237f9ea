//! A resolved description as TOML again: every key, its value, and where that came from.
//!
//! The output stands alone: it names no preset, and resolves to an equal [`Spec`].

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

/// Keys that are not written with the rest: presets are resolved away, targets and jobs have their own form.
const APART: &[&str] = &["drive.preset", "target", "job"];

/// Returns whether an entry need not be written: a default of something that is not there.
fn is_silent(spec: &Spec, entry: &Entry) -> bool {
    let apart = ["host.", "kv.", "backing.", "drive.kind"];
    let is_of_layer =
        || entry.key.starts_with("host.") && spec.has_host() && spec.has_effect(entry.key, Use::Work);
    entry.origin.place == Place::Default
        && apart.iter().any(|table| entry.key.starts_with(table))
        && !is_of_layer()
}

/// Reports whether a description of flash has a line for an entry.
pub(super) fn is_written(spec: &Spec, entry: &Entry) -> bool {
    !APART.contains(&entry.key) && !is_silent(spec, entry)
}

/// Keys of a drive that a disk has too.
const DISK_KEYS: &[&str] = &["drive.name", "drive.kind", "drive.media.sector_size", "drive.media.store"];

/// Returns whether the description gives the value: it is neither a default nor the stand-in for the flash of a disk.
fn is_said(entry: &Entry) -> bool {
    match &entry.origin.place {
        Place::Default => false,
        Place::File { name, .. } => name != super::NO_FLASH_NAME,
        Place::Set { .. } | Place::Option { .. } => true,
    }
}

/// Where comments begin, if the line is not longer.
const COMMENT_COLUMN: usize = 44;

/// The whole resolved description, each value with its source: the comment behind it, or the file and line,
/// or `default`, or `--set`. Shows what was resolved, not later changes to [`Spec::drive`].
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

/// The name of `entry` below `table`, if no deeper table of [`TABLES`] holds it.
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

/// Returns the text of the comment. A comment that says more than the place wins, so that showing a shown file
/// changes nothing.
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

    /// A part whose table is not listed here would not be shown.
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
