//! Descriptions of ranges, and the reasons of a refusal.

use pellucid_ftl::Victim;
use pellucid_host::HostFtlConfig;
use thiserror::Error;

/// The most ranges.
pub const RANGES_MAX: usize = 8;

/// How a range chooses what it empties next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Gc {
    /// Fewest copies.
    Greedy,
    /// Begun first.
    Fifo,
    /// Longest without a change.
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

/// A policy level as it is described.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyConfig {
    /// True if a start erases everything, whatever wrote it.
    pub format: bool,
    /// Settings of the host FTL of page-mapped ranges: write buffer, spare chunks, costs. Settings that a range has itself, and its
    /// position, are ignored here.
    pub host_ftl: HostFtlConfig,
}

/// Why a range is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The level still reads its record.
    #[error("the level is still starting: it reads the list of ranges")]
    NotReady,
    /// The bounds are none.
    #[error(
        "range {begin} to {end}: allowed: multiples of the {sector_bytes} bytes of a sector, the first below the second"
    )]
    Bounds {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// There is such a range, or another one where it would be.
    #[error("range {begin} to {end}: {with}")]
    Overlaps {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// Existing ranges.
        with: String,
    },
    /// Over-provisioning is no share.
    #[error("over-provisioning {0}: allowed: 0 to 100, as a share of the range")]
    OverProvisioning(String),
    /// There are enough ranges.
    #[error("there are {RANGES_MAX} ranges already, the most that are allowed")]
    TooMany,
    /// There is no such range to remove.
    #[error("range {begin} to {end}: no such range; existing ranges: {there}")]
    Missing {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// The ranges that there are.
        there: String,
    },
    /// The range cannot be removed yet.
    #[error(
        "range {begin} to {end}: {commands} commands of it are under way; it can be removed when they have ended"
    )]
    InUse {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// Commands under way.
        commands: u32,
    },
    /// Too little flash is left.
    #[error("range {begin} to {end} does not fit: {why}")]
    NoRoom {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// Remaining space, in words.
        why: String,
    },
}
