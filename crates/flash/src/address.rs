//! Addresses. Each kind is its own type, so that a logical number can never be used where a physical one belongs.

/// A logical block address: the number of one host sector (`sector_bytes` long).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A logical page number: one mapping unit of the host's address space. Drives above 2^32 - 1 mapping units are refused
/// by [`crate::Geometry::layout`]; at 4 KiB that is 16 TiB, and half the memory of a 64-bit map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// A physical page address: the position of a mapping unit on the media, as a single number.
/// `((die * blocks_per_die) + block) * units_per_block + index`, see [`crate::Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u32);

impl Ppa {
    /// "Nowhere": an unmapped logical page.
    pub const NONE: Ppa = Ppa(u32::MAX);
    /// "Lost": a logical page that was written, but no longer has a valid copy.
    pub const LOST: Ppa = Ppa(u32::MAX - 1);

    /// Returns whether this address names a place.
    pub fn is_some(self) -> bool {
        self < Ppa::LOST
    }
}

impl Lpn {
    /// "No logical page": the content of padding in a physical page.
    pub const NONE: Lpn = Lpn(u32::MAX);
}

/// A die (also: LUN, parallel unit): the smallest thing that works by itself. `(channel * ways + way) * dies + die`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DieId(pub u32);

/// An erase unit, numbered through the whole drive: `die * blocks_per_die + block`. With multi-plane operation it is the
/// same block of every plane of a die, erased together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);
