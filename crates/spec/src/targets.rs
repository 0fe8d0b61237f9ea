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
//! The registry is checked against the drive's shape at every read, as a file can be edited.
//!
//! A process that changes the registry holds it ([`Hold`]) from before reading the file until it has written it; a server, as long as it serves the
//! drive.

use crate::DescribedTarget;
use pellucid_flash::ChunkGeometry;
use pellucid_host::{Target, TargetError, TargetKind, Targets};
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use toml_edit::{Document, Item};

/// Keys of each target.
const KEYS: [&str; 5] = ["name", "kind", "first_unit", "units", "uuid"];

/// Why a registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, std::io::Error),
    /// The file is not a registry.
    #[error("{path}: {1}", path = .0.display())]
    Malformed(PathBuf, String),
    /// A target is refused.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A target of the description conflicts with those of the registry.
    #[error("[[target]] {name} of the description: {error}; the other is kept in {path}", path = .path.display())]
    Described {
        /// Name of the described target.
        name: String,
        /// The registry.
        path: PathBuf,
        /// Reason.
        error: TargetError,
    },
    /// Another process holds the registry.
    #[error("{}: another program has it open; to ask a server that has the drive, use --control", .0.display())]
    Held(PathBuf),
}

/// The registry of a drive: `drive.targets.toml` beside `drive.toml`.
pub fn registry_path(drive: &str) -> PathBuf {
    let path = Path::new(drive);
    let is_file = path.extension().is_some_and(|e| e == "toml" || e == "pellucid");
    if is_file { path.with_extension("targets.toml") } else { PathBuf::from(format!("{drive}.targets.toml")) }
}

/// The right to change a registry: holds the lock of a file beside it until dropped.
#[derive(Debug)]
pub struct Hold {
    path: PathBuf,
    /// Kept open for its lock.
    _file: File,
}

impl Hold {
    /// Takes the registry at `path`.
    ///
    /// # Errors
    /// Another process holds it, or the lock file cannot be created.
    pub fn take(path: &Path) -> Result<Hold, RegistryError> {
        let beside = path.with_extension("lock");
        let failed = |error| RegistryError::File(beside.clone(), error);
        let file = File::options().write(true).create(true).truncate(false).open(&beside).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Hold { path: beside, _file: file }),
            Err(TryLockError::WouldBlock) => Err(RegistryError::Held(path.into())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Adds the targets of a description to those of the registry at `path`; a target that is in both is one target.
///
/// # Errors
/// A described target overlaps a registered one, or has its name.
pub fn add_described(
    targets: &mut Targets,
    described: &[DescribedTarget],
    geometry: &ChunkGeometry,
    path: &Path,
) -> Result<(), RegistryError> {
    for DescribedTarget { target, .. } in described {
        // A target that was served before is in the file, too.
        if !targets.list().contains(target) {
            targets.create(geometry, target.clone()).map_err(|error| RegistryError::Described {
                name: target.name.clone(),
                path: path.into(),
                error,
            })?;
        }
    }
    Ok(())
}

/// Reads a registry; a missing file means no targets.
pub fn load(path: &Path, geometry: &ChunkGeometry) -> Result<Targets, RegistryError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Targets::default()),
        Err(error) => return Err(RegistryError::File(path.into(), error)),
    };
    let malformed = |sentence: String| RegistryError::Malformed(path.into(), sentence);
    let document = Document::parse(text.as_str()).map_err(|error| malformed(error.to_string()))?;
    // An unknown entry that is skipped here would be lost at the next save.
    if let Some((key, _)) = document.iter().find(|(key, _)| *key != "target") {
        return Err(malformed(format!("{key}: unknown; allowed: [[target]]")));
    }
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
        if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(key)) {
            return Err(malformed(format!("target[{index}].{key}: unknown; allowed: {}", KEYS.join(", "))));
        }
        let number = |key: &str| {
            let value = table.get(key).and_then(Item::as_integer).and_then(|n| u32::try_from(n).ok());
            value.ok_or_else(|| wrong(key, "a whole number from 0 to 4294967295"))
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

/// Writes a registry to a new file that replaces the old one, so that a crash leaves one of the two.
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
    let mut file = File::create(&part).map_err(failed)?;
    file.write_all(out.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Nanos;

    const GEOMETRY: ChunkGeometry = ChunkGeometry {
        groups: 4,
        units: 2,
        chunks: 10,
        chunk_sectors: 16,
        sector_bytes: 4096,
        write_min_sectors: 4,
        write_optimal_sectors: 4,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos(1); 2],
        write_ns: [Nanos(1); 2],
        reset_ns: [Nanos(1); 2],
    };

    #[test]
    fn a_registry_comes_back_and_what_it_does_not_have_is_refused() {
        let path = std::env::temp_dir().join(format!("pellucid-{}.targets.toml", std::process::id()));
        let mut targets = Targets::default();
        assert_eq!(load(&path, &GEOMETRY).expect("none"), targets);
        let one = Target::new("main".into(), TargetKind::Block, 2..5);
        targets.create(&GEOMETRY, one).expect("room");
        save(&path, &targets).expect("a file");
        assert_eq!(load(&path, &GEOMETRY).expect("as it was"), targets);
        let good = std::fs::read_to_string(&path).expect("a file");
        for (from, to, sentence) in [
            ("[[target]]", "[[targets]]", "targets: unknown; allowed: [[target]]"),
            ("uuid", "uid", "target[0].uid: unknown; allowed: name, kind, first_unit, units, uuid"),
            ("units = 3", "units = -3", "target[0].units: allowed: a whole number from 0 to 4294967295"),
            ("units = 3", "units = 7", "units 2-8: not in the drive; allowed: a range within 0-7"),
        ] {
            std::fs::write(&path, good.replace(from, to)).expect("a file");
            let refused = load(&path, &GEOMETRY).expect_err(to).to_string();
            assert!(refused.ends_with(sentence), "{refused}");
        }
        std::fs::remove_file(&path).expect("it is there");
    }
}
