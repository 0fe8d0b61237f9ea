//! One block as seen by an observer: its use, the origin of its data, its fill level and its wear.

/// Use of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockUse {
    /// Erased and waiting, or never used.
    #[default]
    Free = 0,
    /// Holds data and accepts no more.
    Full = 1,
    /// Takes data.
    Open = 2,
    /// Out of use.
    Bad = 3,
    /// Holds nothing that is needed; its erase is planned or in progress.
    Erasing = 4,
    /// Being emptied.
    Victim = 5,
}

impl BlockUse {
    /// All uses, in the order of their numbers; a later one is more remarkable.
    pub const ALL: [BlockUse; 6] =
        [BlockUse::Free, BlockUse::Full, BlockUse::Open, BlockUse::Bad, BlockUse::Erasing, BlockUse::Victim];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            BlockUse::Free => "free",
            BlockUse::Full => "full",
            BlockUse::Open => "open",
            BlockUse::Bad => "bad",
            BlockUse::Erasing => "erasing",
            BlockUse::Victim => "victim",
        }
    }
}

/// Stream whose data a block takes, or took last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockStream {
    /// None: as far as is known, nothing has been written since the last erase.
    #[default]
    None,
    /// Host data.
    Host,
    /// Host data that are seldom written.
    HostCold,
    /// GC copies.
    Gc,
    /// Data moved by wear levelling.
    Worn,
    /// Translation pages, journals and checkpoints.
    Map,
    /// Host data in the SLC cache.
    Cache,
    /// A log block of a log-block translation.
    Log,
    /// Data of a chunk or a zone, which the host places.
    Direct,
    /// Host data of this placement handle, from 1.
    Handle(u16),
}

impl BlockStream {
    /// Streams without a number, each with its name, in the order of their codes.
    pub const NAMED: [(BlockStream, &'static str); 9] = [
        (BlockStream::None, "none"),
        (BlockStream::Host, "host"),
        (BlockStream::HostCold, "cold host data"),
        (BlockStream::Gc, "GC copies"),
        (BlockStream::Worn, "wear levelling"),
        (BlockStream::Map, "translation"),
        (BlockStream::Cache, "SLC cache"),
        (BlockStream::Log, "log blocks"),
        (BlockStream::Direct, "chunks and zones"),
    ];

    /// A number for the stream: that of its place in [`BlockStream::NAMED`], or behind them that of the handle, up to 255.
    pub fn code(self) -> u8 {
        let named = BlockStream::NAMED.len() as u16;
        let code = match self {
            BlockStream::Handle(handle) => named.saturating_add(handle.saturating_sub(1)),
            BlockStream::None => 0,
            BlockStream::Host => 1,
            BlockStream::HostCold => 2,
            BlockStream::Gc => 3,
            BlockStream::Worn => 4,
            BlockStream::Map => 5,
            BlockStream::Cache => 6,
            BlockStream::Log => 7,
            BlockStream::Direct => 8,
        };
        code.min(u8::MAX.into()) as u8
    }
}

/// One block at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockView {
    /// Its use.
    pub usage: BlockUse,
    /// Stream of its data.
    pub stream: BlockStream,
    /// Valid mapping units; of chunks and zones, whose host knows what is valid, programmed ones.
    pub units: u32,
    /// Erase count.
    pub erases: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_coded_by_their_place_and_handles_behind_them() {
        for (at, (stream, _)) in BlockStream::NAMED.into_iter().enumerate() {
            assert_eq!(usize::from(stream.code()), at);
        }
        assert_eq!(BlockStream::Handle(1).code(), 9);
        assert_eq!(BlockStream::Handle(u16::MAX).code(), 255);
        assert!(BlockUse::ALL.into_iter().enumerate().all(|(at, usage)| usage as usize == at));
    }
}
