//! Descriptions of ranges, and reasons for refusing them.

use pellucid_ftl::Victim;
use pellucid_host::HostFtlConfig;
use thiserror::Error;

/// Maximum number of ranges.
pub const RANGES_MAX: usize = 8;

/// How a range chooses its next GC victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Gc {
    /// Fewest copies.
    Greedy,
    /// Opened first.
    Fifo,
    /// Longest unchanged.
    Lru,
    /// Best ratio of age to cost.
    CostBenefit,
}

impl Gc {
    /// All policies.
    pub const ALL: [Gc; 4] = [Gc::Greedy, Gc::Fifo, Gc::Lru, Gc::CostBenefit];

    pub(super) fn victim(self) -> Victim {
        match self {
            Gc::Greedy => Victim::Greedy,
            Gc::Fifo => Victim::Fifo,
            Gc::Lru => Victim::Lru,
            Gc::CostBenefit => Victim::CostBenefit,
        }
    }
}

/// Settings of a policy level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyConfig {
    /// True if a start erases everything, including foreign data.
    pub format: bool,
    /// Settings of the host FTL of page-mapped ranges: write buffer, spare chunks, costs. Settings that a range has itself, and its
    /// position, are ignored here.
    pub host_ftl: HostFtlConfig,
}

/// Reason why a range is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The level is still reading its record.
    #[error("the level is still starting: it reads the list of ranges")]
    NotReady,
    /// The bounds are invalid.
    #[error(
        "range {begin} to {end}: allowed: multiples of the {sector_bytes} bytes of a sector, the first below the second"
    )]
    Bounds {
        /// First byte.
        begin: u64,
        /// Byte after the last one.
        end: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// The range exists, or overlaps another one.
    #[error("range {begin} to {end}: {with}")]
    Overlaps {
        /// First byte.
        begin: u64,
        /// Byte after the last one.
        end: u64,
        /// Existing ranges.
        with: String,
    },
    /// Over-provisioning is not a valid share.
    #[error("over-provisioning {0}: allowed: 0 to 100, as a share of the range")]
    OverProvisioning(String),
    /// The maximum number of ranges exists.
    #[error("there are {RANGES_MAX} ranges already, the most that are allowed")]
    TooMany,
    /// The range to be removed does not exist.
    #[error("range {begin} to {end}: no such range; existing ranges: {there}")]
    Missing {
        /// First byte.
        begin: u64,
        /// Byte after the last one.
        end: u64,
        /// Existing ranges.
        there: String,
    },
    /// The range cannot be removed yet.
    #[error(
        "range {begin} to {end}: {commands} commands of it are under way; it can be removed when they have ended"
    )]
    InUse {
        /// First byte.
        begin: u64,
        /// Byte after the last one.
        end: u64,
        /// Commands in flight.
        commands: u32,
    },
    /// Too little flash is left.
    #[error("range {begin} to {end} does not fit: {why}")]
    NoRoom {
        /// First byte.
        begin: u64,
        /// Byte after the last one.
        end: u64,
        /// Remaining space, in words.
        why: String,
    },
}
