//! Why a flash operation happens. Every operation carries its cause, so that accounting is never guessed.

/// The typed reason of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Data that the host reads or wrote.
    Host = 0,
    /// The part of a mapping unit that the host did not write: read, merged and programmed again.
    ReadModifyWrite = 1,
    /// Garbage collection moving valid data out of a victim block, and the victim's erase.
    Collection = 2,
    /// Wear levelling moving cold data off a little-worn block.
    WearLevel = 3,
    /// Map journal, checkpoint and other metadata.
    Journal = 4,
    /// Filling the rest of a stripe that had to be programmed early (flush, write-through).
    Padding = 5,
    /// Moving data out of a block that is being retired, and programs repeated after a failure.
    Retirement = 6,
    /// Writing a block's data anew, elsewhere, before they become unreadable, and the block's erase.
    Refresh = 7,
    /// Moving what hosts wrote to the SLC cache to blocks of all bits, and the erase of the cache's block.
    Fold = 8,
}

impl Cause {
    /// How many causes there are, for tables indexed by cause.
    pub const COUNT: usize = 9;
    /// All causes in the order of their numbers.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::Host,
        Cause::ReadModifyWrite,
        Cause::Collection,
        Cause::WearLevel,
        Cause::Journal,
        Cause::Padding,
        Cause::Retirement,
        Cause::Refresh,
        Cause::Fold,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::ReadModifyWrite => "read-modify-write",
            Cause::Collection => "collection",
            Cause::WearLevel => "wear-level",
            Cause::Journal => "journal",
            Cause::Padding => "padding",
            Cause::Retirement => "retirement",
            Cause::Refresh => "refresh",
            Cause::Fold => "fold",
        }
    }
}
