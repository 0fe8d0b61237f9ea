//! The registry of targets: a TOML file beside a drive's description or image.
//!
//! ```toml
//! [[target]]
//! name = "main"
//! kind = "block"
//! first_unit = 0
//! units = 64
//! uuid = 7
//! ```
//! It is checked against the drive's shape whenever it is read, as a file can be edited.

use pellucid_flash::ChunkGeometry;
use pellucid_host::{Target, TargetError, TargetKind, Targets};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml_edit::{Document, Item};

/// Why a registry cannot be used.
#[derive(Debug)]
pub enum RegistryError {
    /// The file cannot be read or written.
    File(PathBuf, std::io::Error),
    /// It is not a registry.
    Malformed(PathBuf, String),
    /// A target is refused.
    Target(TargetError),
}

impl std::fmt::Display for RegistryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegistryError::File(path, error) => write!(f, "{}: {error}", path.display()),
            RegistryError::Malformed(path, sentence) => write!(f, "{}: {sentence}", path.display()),
            RegistryError::Target(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RegistryError {}

impl From<TargetError> for RegistryError {
    fn from(error: TargetError) -> Self {
        RegistryError::Target(error)
    }
}

/// The registry of a drive that is called so: `drive.toml` has `drive.targets.toml` beside it.
pub fn registry_path(drive: &str) -> PathBuf {
    let path = Path::new(drive);
    let is_file = path.extension().is_some_and(|e| e == "toml" || e == "pellucid");
    if is_file { path.with_extension("targets.toml") } else { PathBuf::from(format!("{drive}.targets.toml")) }
}

/// Reads a registry; none means no targets.
pub fn load(path: &Path, geometry: &ChunkGeometry) -> Result<Targets, RegistryError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Targets::default()),
        Err(error) => return Err(RegistryError::File(path.into(), error)),
    };
    let malformed = |sentence: String| RegistryError::Malformed(path.into(), sentence);
    let document = Document::parse(text.as_str()).map_err(|error| malformed(error.to_string()))?;
    let mut targets = Targets::default();
    let tables = match document.get("target") {
        None => return Ok(targets),
        Some(item) => {
            item.as_array_of_tables().ok_or_else(|| malformed("target: allowed: [[target]]".into()))?
        }
    };
    for (index, table) in tables.iter().enumerate() {
        let wrong =
            |key: &str, allowed: &str| malformed(format!("target[{index}].{key}: allowed: {allowed}"));
        let number = |key: &str| {
            let value = table.get(key).and_then(Item::as_integer).and_then(|n| u32::try_from(n).ok());
            value.ok_or_else(|| wrong(key, "a whole number from 0"))
        };
        let text = |key: &str| table.get(key).and_then(Item::as_str);
        let kind = text("kind")
            .and_then(TargetKind::from_name)
            .ok_or_else(|| wrong("kind", "\"block\", \"raw\""))?;
        let name = text("name").ok_or_else(|| wrong("name", "a text"))?.to_string();
        let (first, units) = (number("first_unit")?, number("units")?);
        let uuid =
            table.get("uuid").and_then(Item::as_integer).ok_or_else(|| wrong("uuid", "a whole number"))?;
        let units = first..first.saturating_add(units);
        targets.create(geometry, Target { name, kind, units, uuid: uuid as u64 })?;
    }
    Ok(targets)
}

/// Writes a registry: a new file takes the place of the old one, so that a crash leaves one of the two.
pub fn save(path: &Path, targets: &Targets) -> Result<(), RegistryError> {
    let mut out = String::from("# Targets on ranges of parallel units; `pellucid target` keeps this file.\n");
    for target in targets.list() {
        let Target { name, kind, units, uuid } = target;
        let _ = write!(
            out,
            "\n[[target]]\nname = \"{name}\"\nkind = \"{}\"\nfirst_unit = {}\nunits = {}\nuuid = {}\n",
            kind.name(),
            units.start,
            units.len(),
            *uuid as i64,
        );
    }
    let part = path.with_extension("toml.part");
    let failed = |error| RegistryError::File(path.into(), error);
    std::fs::write(&part, out).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)
}
