//! Streams in a page map: the open block that each has in a die, and how observers see it.

use crate::translation::Stream;
use pellucid_flash::BlockStream;

impl Stream {
    /// Place of the stream's open block among those of a die: six fixed ones, then two for each handle from 1.
    #[inline]
    pub(crate) const fn place(self) -> usize {
        match self {
            Stream::Host => 0,
            Stream::HostCold => 1,
            Stream::Gc => 2,
            Stream::Worn => 3,
            Stream::Meta | Stream::MetaMoved => 4,
            Stream::Cached => 5,
            Stream::Placed(handle) => 4 + 2 * handle as usize,
            Stream::PlacedGc(handle) => 5 + 2 * handle as usize,
            Stream::Log(_) | Stream::Merge(_) => panic!("a page map has no log blocks"),
        }
    }

    /// The stream as observers name it.
    pub(crate) const fn observed(self) -> BlockStream {
        match self {
            Stream::Host => BlockStream::Host,
            Stream::HostCold => BlockStream::HostCold,
            Stream::Gc | Stream::PlacedGc(_) | Stream::Merge(_) => BlockStream::Gc,
            Stream::Worn => BlockStream::Worn,
            Stream::Meta | Stream::MetaMoved => BlockStream::Map,
            Stream::Cached => BlockStream::Cache,
            Stream::Placed(handle) => BlockStream::Handle(handle),
            Stream::Log(_) => BlockStream::Log,
        }
    }

    /// Places of a die with this many handles.
    pub(super) const fn places(handles: u16) -> usize {
        4 + 2 * handles as usize
    }

    /// Handle of the stream's blocks; 0: several, or none.
    #[inline]
    pub(crate) const fn owner(self) -> u16 {
        match self {
            Stream::Placed(handle) | Stream::PlacedGc(handle) => handle,
            _ => 0,
        }
    }

    #[inline]
    pub(crate) const fn is_gc_copy(self) -> bool {
        matches!(self, Stream::Gc | Stream::Worn | Stream::MetaMoved | Stream::PlacedGc(_))
    }
}
