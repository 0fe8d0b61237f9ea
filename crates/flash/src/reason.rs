//! Why a flash operation happens. Every operation carries its cause, so that accounting is never guessed.

/// The typed reason of a flash operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumMessage, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum Cause {
    /// Data that the host reads or wrote.
    Host = 0,
    /// The part of a mapping unit that the host did not write: read, merged and programmed again.
    ReadModifyWrite = 1,
    /// GC copies of valid data out of a victim block, and the erase of the victim.
    Collection = 2,
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
        self.into()
    }
}
