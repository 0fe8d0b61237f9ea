//! Subsystem: the assignment of an open-channel namespace's parallel units to targets (LightNVM's middle
//! layer).
//!
//! ```text
//!   parallel units   0 ............ 63 64 ............ 95 96 ...... 127
//!   targets          [ block "main"   ][ raw "log"       ]   free
//! ```
//! A *block* target is a host FTL over its range; a *raw* one leaves its range to an application's vector
//! commands. Invariants: names are unique; ranges lie inside the drive and do not overlap; a target keeps its
//! uuid for life, so data that another target left on the same units are recognised.

use crate::HostFtlConfig;
use pellucid_flash::ChunkGeometry;
use std::ops::Range;

/// Reports whether a target or an application may have this name: letters, digits, `-`, `_` and `.`, at least
/// one.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Use that a target makes of its parallel units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Sectors in any order, by a host FTL.
    Block,
    /// Vector commands, by an application.
    Raw,
}

impl TargetKind {
    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        match self {
            TargetKind::Block => "block",
            TargetKind::Raw => "raw",
        }
    }

    /// Returns the kind with the given name.
    pub fn from_name(name: &str) -> Option<TargetKind> {
        [TargetKind::Block, TargetKind::Raw].into_iter().find(|kind| kind.name() == name)
    }
}

/// Target on a range of parallel units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the target.
    pub name: String,
    /// Kind of the target.
    pub kind: TargetKind,
    /// Parallel units, counted across groups.
    pub units: Range<u32>,
    /// Identity that is written beside all data of the target.
    pub uuid: u64,
}

impl Target {
    /// Creates a target whose uuid derives from its name, kind and units: created again, it finds its data on
    /// its units.
    pub fn new(name: String, kind: TargetKind, units: Range<u32>) -> Target {
        let text = format!("{name}/{}/{units:?}", kind.name());
        let uuid = text.bytes().fold(0x6c62_272e_07bb_0142, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Target { name, kind, units, uuid }
    }

    /// Returns the host FTL configuration of a block target, based on `settings`.
    pub fn host_ftl(&self, settings: &HostFtlConfig) -> Option<HostFtlConfig> {
        (self.kind == TargetKind::Block).then(|| HostFtlConfig {
            first_unit: self.units.start,
            units: self.units.len() as u32,
            uuid: self.uuid,
            ..settings.clone()
        })
    }
}

/// Reason that a target cannot be created or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The name is empty, or has characters other than letters, digits, `-`, `_` and `.`.
    #[error("target name {0:?}: allowed: letters, digits, '-', '_' and '.', at least one")]
    Name(String),
    /// A target with this name exists.
    #[error("{0}: a target of this name exists; allowed: another name, or remove the target first")]
    Exists(String),
    /// The target does not exist.
    #[error("{name}: no such target; allowed: {}", names(.known))]
    Missing {
        /// Name of the missing target.
        name: String,
        /// Names of all targets.
        known: Vec<String>,
    },
    /// The range is empty, or extends beyond the drive.
    #[error("units {}: not in the drive; allowed: a range within 0-{}", span(.units), .all - 1)]
    Range {
        /// Requested range.
        units: Range<u32>,
        /// Number of parallel units of the drive.
        all: u32,
    },
    /// The range overlaps that of another target.
    #[error(
        "units {}: overlap those of target {}, which has {}; allowed: parallel units of no other target",
        span(.units), .other.name, span(&.other.units)
    )]
    Overlap {
        /// Requested range.
        units: Range<u32>,
        /// Target whose units it overlaps.
        other: Target,
    },
}

fn names(known: &[String]) -> String {
    match known {
        [] => "none".into(),
        known => known.join(", "),
    }
}

fn span(units: &Range<u32>) -> String {
    match units.len() {
        0 => format!("{}-{}", units.start, i64::from(units.end) - 1),
        1 => units.start.to_string(),
        _ => format!("{}-{}", units.start, units.end - 1),
    }
}

/// Targets of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

impl Targets {
    /// Returns all targets, ordered by their first unit.
    pub fn list(&self) -> &[Target] {
        &self.0
    }

    /// Adds a target on a drive with this geometry.
    pub fn create(&mut self, geometry: &ChunkGeometry, target: Target) -> Result<(), TargetError> {
        self.create_within(geometry.parallel_units(), target)
    }

    /// Adds a target on a drive with this number of parallel units.
    pub fn create_within(&mut self, all: u32, target: Target) -> Result<(), TargetError> {
        if !is_name(&target.name) {
            return Err(TargetError::Name(target.name));
        }
        if self.0.iter().any(|other| other.name == target.name) {
            return Err(TargetError::Exists(target.name));
        }
        if target.units.is_empty() || target.units.end > all {
            return Err(TargetError::Range { units: target.units, all });
        }
        let overlaps =
            |other: &&Target| target.units.start < other.units.end && other.units.start < target.units.end;
        if let Some(other) = self.0.iter().find(overlaps) {
            return Err(TargetError::Overlap { units: target.units, other: other.clone() });
        }
        let at = self.0.partition_point(|other| other.units.start < target.units.start);
        self.0.insert(at, target);
        Ok(())
    }

    /// Removes a target. Its data stay on its units until another target resets them.
    pub fn remove(&mut self, name: &str) -> Result<Target, TargetError> {
        let at = self.0.iter().position(|target| target.name == name).ok_or_else(|| self.missing(name))?;
        Ok(self.0.remove(at))
    }

    /// Returns the target with this name.
    pub fn get(&self, name: &str) -> Result<&Target, TargetError> {
        self.0.iter().find(|target| target.name == name).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> TargetError {
        TargetError::Missing { name: name.into(), known: self.0.iter().map(|t| t.name.clone()).collect() }
    }
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

    fn target(name: &str, units: Range<u32>) -> Target {
        Target { name: name.into(), kind: TargetKind::Block, units, uuid: 7 }
    }

    #[test]
    fn ranges_do_not_overlap_and_names_are_unique() {
        let mut targets = Targets::default();
        targets.create(&GEOMETRY, target("b", 4..6)).unwrap();
        targets.create(&GEOMETRY, target("a", 0..4)).unwrap();
        assert_eq!(targets.list().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        for (bad, sentence) in [
            (
                target("c", 3..7),
                "units 3-6: overlap those of target a, which has 0-3; allowed: parallel units of no other target",
            ),
            (
                target("c", 5..6),
                "units 5: overlap those of target b, which has 4-5; allowed: parallel units of no other target",
            ),
            (
                target("a", 6..8),
                "a: a target of this name exists; allowed: another name, or remove the target first",
            ),
            (target("c", 6..9), "units 6-8: not in the drive; allowed: a range within 0-7"),
            (target("c", 6..6), "units 6-5: not in the drive; allowed: a range within 0-7"),
            (
                target("c d", 6..8),
                "target name \"c d\": allowed: letters, digits, '-', '_' and '.', at least one",
            ),
        ] {
            assert_eq!(targets.create(&GEOMETRY, bad).unwrap_err().to_string(), sentence);
        }
        assert_eq!(targets.remove("x").unwrap_err().to_string(), "x: no such target; allowed: a, b");
        targets.remove("a").unwrap();
        targets.create(&GEOMETRY, target("c", 0..3)).unwrap();
        assert_eq!(targets.get("c").unwrap().units, 0..3);
    }
}
