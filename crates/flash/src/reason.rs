//! Why a flash operation happens. Every operation carries its cause, so that accounting is never guessed.

/// The typed reason of a flash operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumMessage, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum Cause {
    /// Data that the host reads or wrote, and the zeros of a trim of a part of a mapping unit.
    Host = 0,
    /// The part of a mapping unit that the host did not write: read, merged and programmed again.
    ReadModifyWrite = 1,
    /// GC copies of valid data out of a victim block, and the erase of the victim.
    Gc = 2,
    /// Wear levelling: copies of cold data out of a block with few erases.
    WearLevel = 3,
    /// Map journal, checkpoint and other metadata.
    Journal = 4,
    /// Padding of a superpage that had to be programmed before it was full (flush, write-through).
    Padding = 5,
    /// Copies of data out of a block that is being retired, and programs repeated after a failure.
    Retirement = 6,
    /// Copies of the data of a block before they become unreadable, and the erase of the block.
    Refresh = 7,
    /// Copies of host data out of the SLC cache into native blocks, and the erase of the SLC block.
    Fold = 8,
    /// Reading translation pages of a map in flash, and writing them anew.
    Map = 9,
}

impl Cause {
    /// How many causes there are, for tables indexed by cause.
    pub const COUNT: usize = 10;
    /// All causes in the order of their numbers.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::Host,
        Cause::ReadModifyWrite,
        Cause::Gc,
        Cause::WearLevel,
        Cause::Journal,
        Cause::Padding,
        Cause::Retirement,
        Cause::Refresh,
        Cause::Fold,
        Cause::Map,
    ];

    /// Returns whether the cause is specific to one kind of translation; reports name it only if it
    /// occurs.
    pub fn is_particular(self) -> bool {
        self == Cause::Map
    }

    /// The causes that a table of `counts` names.
    pub fn listed(counts: &[u64; Cause::COUNT]) -> impl Iterator<Item = Cause> {
        let counts = *counts;
        Cause::ALL.into_iter().filter(move |&cause| !cause.is_particular() || counts[cause as usize] > 0)
    }

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Why a translation page is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MapReason {
    /// An entry is looked up that is not cached.
    Lookup = 0,
    /// A dirty entry leaves the table.
    Eviction = 1,
    /// GC has moved pages whose entries are not cached, or moves the translation page itself.
    Gc = 2,
    /// A flush or a checkpoint.
    Flush = 3,
}

impl MapReason {
    /// How many reasons there are, for tables indexed by reason.
    pub const COUNT: usize = 4;
    /// All reasons in the order of their numbers.
    pub const ALL: [MapReason; MapReason::COUNT] =
        [MapReason::Lookup, MapReason::Eviction, MapReason::Gc, MapReason::Flush];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            MapReason::Lookup => "lookup",
            MapReason::Eviction => "eviction",
            MapReason::Gc => "gc",
            MapReason::Flush => "flush",
        }
    }
}
