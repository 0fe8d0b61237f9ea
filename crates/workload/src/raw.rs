//! Work on chunks and zones by physical address: `rw=chunk-write`, `rw=zone-append` and so on.
//!
//! A job gives the operation, its size, the queue depth and the units. The driver, which tracks the written state, chooses the chunk or zone of each
//! I/O.

use super::values::{Parsed, allowed};
use super::{Direction, Pattern};
use pellucid_text::read_range;
use std::ops::Range;

/// Kind of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Container {
    /// Chunks of an open-channel namespace.
    Chunk,
    /// Zones of a zoned namespace.
    Zone,
}

impl Container {
    /// Its name in the singular.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Work on chunks or zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads full ones from beginning to end.
    Read,
    /// Reads random places in full ones.
    RandRead,
    /// Writes at write pointers that the job names.
    Write,
    /// Writes at write pointers that the drive knows.
    Append,
    /// Copies full ones inside the drive.
    Copy,
    /// Resets full ones, oldest first.
    Reset,
}

impl Action {
    /// Reports whether it needs writable chunks or zones.
    pub fn writes(self) -> bool {
        matches!(self, Action::Write | Action::Append | Action::Copy)
    }
}

/// Patterns of chunks and zones by their names.
const NAMES: [(&str, Container, Action); 10] = [
    ("chunk-read", Container::Chunk, Action::Read),
    ("chunk-randread", Container::Chunk, Action::RandRead),
    ("chunk-write", Container::Chunk, Action::Write),
    ("chunk-copy", Container::Chunk, Action::Copy),
    ("chunk-reset", Container::Chunk, Action::Reset),
    ("zone-read", Container::Zone, Action::Read),
    ("zone-randread", Container::Zone, Action::RandRead),
    ("zone-write", Container::Zone, Action::Write),
    ("zone-append", Container::Zone, Action::Append),
    ("zone-reset", Container::Zone, Action::Reset),
];

/// The chunk or zone part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawJob {
    /// Chunks or zones.
    pub container: Container,
    /// Its work.
    pub action: Action,
    /// `units`: the parallel units of its namespace or target to use; `None`: all.
    pub units: Option<Range<u32>>,
    /// `vector`: places per I/O, as one vector command; 1: a plain command.
    pub vector: u32,
    /// `open_zones`: zones written in turn.
    pub open_zones: u32,
}

impl RawJob {
    /// Name of its pattern.
    pub fn name(&self) -> &'static str {
        let own = |(_, container, action): &&(&str, Container, Action)| {
            (*container, *action) == (self.container, self.action)
        };
        NAMES.iter().find(own).map_or("", |(name, ..)| name)
    }

    /// Direction under which its I/O is counted.
    pub fn direction(&self) -> Direction {
        match self.action {
            Action::Read | Action::RandRead => Direction::Read,
            Action::Write | Action::Append | Action::Copy => Direction::Write,
            Action::Reset => Direction::Trim,
        }
    }

    /// The sequential pattern that provides sizes and times.
    pub(super) fn pattern(&self) -> Pattern {
        match self.direction() {
            Direction::Read => Pattern::Read,
            Direction::Write => Pattern::Write,
            Direction::Trim => Pattern::Trim,
        }
    }
}

/// Keys of a job on chunks or zones, for any `rw`.
#[derive(Clone, Debug, Default)]
pub(super) struct RawKeys {
    pattern: Option<(Container, Action)>,
    pub units: Option<Range<u32>>,
    pub vector: Option<u32>,
    pub open_zones: Option<u32>,
}

/// Keys that apply to chunks or zones.
pub(super) const USED_BY_RAW: &[&str] = &[
    "name",
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "io_size",
    "number_ios",
    "runtime",
    "time_based",
    "ramp_time",
    "startdelay",
    "iodepth",
    "numjobs",
    "randseed",
    "rate",
    "rate_iops",
    "rate_process",
    "thinktime",
    "thinktime_blocks",
    "stonewall",
    "new_group",
    "wait_for",
    "namespace",
    "queue",
    "target",
    "units",
    "vector",
    "open_zones",
    "flow",
    "flow_id",
    "direct",
];

impl RawKeys {
    /// Accepts `rw`; returns whether it is a pattern of chunks or zones.
    pub fn take(&mut self, name: &str) -> bool {
        let found = NAMES.iter().find(|(own, ..)| *own == name);
        self.pattern = found.map(|&(_, container, action)| (container, action));
        self.pattern.is_some()
    }

    /// Builds the part of the job; `None`: its pattern is of blocks.
    ///
    /// # Errors
    /// A key, its value and the allowed values, for a key that does not apply to the pattern.
    pub fn build(&self) -> Result<Option<RawJob>, (&'static str, String, String)> {
        let units = self.units.as_ref().map(|units| format!("{}-{}", units.start, units.end - 1));
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let given =
            [("units", units), ("vector", number(self.vector)), ("open_zones", number(self.open_zones))];
        let refuse = |keys: &[&str], with: &str| {
            let found = given.iter().find(|(key, value)| keys.contains(key) && value.is_some());
            found.map_or(Ok(()), |(key, value)| {
                Err((*key, value.clone().unwrap_or_default(), format!("only with {with}")))
            })
        };
        let Some((container, action)) = self.pattern else {
            refuse(
                &["units", "vector", "open_zones"],
                "patterns of chunks or zones, such as rw = chunk-write",
            )?;
            return Ok(None);
        };
        match container {
            Container::Chunk => refuse(&["open_zones"], "zone-write or zone-append")?,
            Container::Zone => refuse(&["units", "vector"], "patterns of chunks")?,
        }
        if !action.writes() {
            refuse(&["open_zones"], "zone-write or zone-append")?;
        }
        if action == Action::Reset {
            refuse(&["vector"], "patterns of chunks that transfer or copy data")?;
        }
        Ok(Some(RawJob {
            container,
            action,
            units: self.units.clone(),
            vector: self.vector.unwrap_or(1),
            open_zones: self.open_zones.unwrap_or(1),
        }))
    }
}

/// Names of all patterns of chunks and zones, for messages.
pub(super) fn names() -> String {
    NAMES.map(|(name, ..)| name).join(", ")
}

/// Parallel units: `FIRST-LAST`, or one number.
pub(super) fn units(value: &str) -> Parsed<Range<u32>> {
    read_range(value).map_or_else(|| allowed("FIRST-LAST, such as 0-63, or one number"), Ok)
}
