//! The metadata of one block: the bytes of its spare areas, identical in memory and in an image file.
//!
//! ```text
//!  0      sequence of the block's first superpage                                  u64
//!  8      superpage being programmed: bit u set = unit u has been put              4 x u64
//! 40      superpage being programmed: 1 = it received a copy of unreadable data    u64
//! 48      age of the media, in seconds, when the block's first superpage was programmed u64
//! 56      reads of the block since its erase (counted with bit errors only)          u64
//! 64      per superpage: its sequence minus the first one's; 2^32 - 1 = unreadable u32 each
//! 64+4S   per unit: logical page                                                u32 each
//! ```
//! All little-endian; the whole is padded to a multiple of 64 bytes. Only entries below the block's `next_superpage` are valid, so an
//! erase clears nothing here.

use pellucid_flash::{Layout, Lpn};

const PUT_AT: usize = 8;
const POISON_AT: usize = 40;
const BORN_AT: usize = 48;
const READS_AT: usize = 56;
const HEAD_BYTES: usize = 64;

/// The sequence offset that marks a torn or failed superpage.
pub(crate) const UNREADABLE: u32 = u32::MAX;

/// Offsets in a block's metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetaShape {
    lpn_at: usize,
    units_per_superpage: u32,
    /// Length of one block's metadata.
    pub(crate) bytes: usize,
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    let place: &mut [u8; 4] = (&mut bytes[at..at + 4]).try_into().expect("four bytes");
    *place = value.to_le_bytes();
}

#[inline]
fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    let place: &mut [u8; 8] = (&mut bytes[at..at + 8]).try_into().expect("eight bytes");
    *place = value.to_le_bytes();
}

impl MetaShape {
    pub(crate) fn new(layout: &Layout) -> MetaShape {
        let lpn_at = HEAD_BYTES + 4 * layout.superpages_per_block as usize;
        let bytes = (lpn_at + 4 * layout.units_per_block as usize).next_multiple_of(64);
        MetaShape { lpn_at, units_per_superpage: layout.units_per_superpage, bytes }
    }

    /// Sequence of the block's first superpage.
    #[inline]
    pub(crate) fn first_sequence(&self, meta: &[u8]) -> u64 {
        u64_at(meta, 0)
    }

    pub(crate) fn set_first_sequence(&self, meta: &mut [u8], sequence: u64) {
        put_u64(meta, 0, sequence);
    }

    /// The stored sequence offsets of the first `superpages` superpages.
    pub(crate) fn offsets<'a>(&self, meta: &'a [u8], superpages: usize) -> &'a [u8] {
        &meta[HEAD_BYTES..HEAD_BYTES + 4 * superpages]
    }

    pub(crate) fn offsets_mut<'a>(&self, meta: &'a mut [u8], superpages: usize) -> &'a mut [u8] {
        &mut meta[HEAD_BYTES..HEAD_BYTES + 4 * superpages]
    }

    /// The stored logical pages of the first `units` units.
    pub(crate) fn lpns<'a>(&self, meta: &'a [u8], units: usize) -> &'a [u8] {
        &meta[self.lpn_at..self.lpn_at + 4 * units]
    }

    pub(crate) fn lpns_mut<'a>(&self, meta: &'a mut [u8], units: usize) -> &'a mut [u8] {
        &mut meta[self.lpn_at..self.lpn_at + 4 * units]
    }

    /// Starts a superpage: nothing put yet. `offset` is its sequence minus the first one's; superpage 0 sets the first.
    #[inline]
    pub(crate) fn begin(&self, meta: &mut [u8], superpage: u32, first_sequence: u64, offset: u32) {
        put_u64(meta, 0, first_sequence);
        meta[PUT_AT..BORN_AT].fill(0);
        self.set_offset(meta, superpage, offset);
    }

    /// The block's first superpage is being programmed, at this age of the media.
    #[inline]
    pub(crate) fn set_born(&self, meta: &mut [u8], age_s: u64) {
        put_u64(meta, BORN_AT, age_s);
        put_u64(meta, READS_AT, 0);
    }

    /// Age of the media when the block's first superpage was programmed, and reads of the block since its erase.
    pub(crate) fn history(&self, meta: &[u8]) -> (u64, u64) {
        (u64_at(meta, BORN_AT), u64_at(meta, READS_AT))
    }

    pub(crate) fn set_history(&self, meta: &mut [u8], (born_s, reads): (u64, u64)) {
        put_u64(meta, BORN_AT, born_s);
        put_u64(meta, READS_AT, reads);
    }

    /// Sequence offset of a superpage, or [`UNREADABLE`].
    #[inline]
    pub(crate) fn offset(&self, meta: &[u8], superpage: u32) -> u32 {
        u32_at(meta, HEAD_BYTES + 4 * superpage as usize)
    }

    #[inline]
    pub(crate) fn set_offset(&self, meta: &mut [u8], superpage: u32, offset: u32) {
        put_u32(meta, HEAD_BYTES + 4 * superpage as usize, offset);
    }

    /// Offset of the logical page of unit `index` of the block.
    #[inline]
    pub(crate) fn lpn_place(&self, index: u32) -> usize {
        self.lpn_at + 4 * index as usize
    }

    /// Logical page of unit `index` of the block.
    #[inline]
    pub(crate) fn lpn(&self, meta: &[u8], index: u32) -> Lpn {
        Lpn(u32_at(meta, self.lpn_place(index)))
    }

    #[inline]
    pub(crate) fn set_lpn(&self, meta: &mut [u8], index: u32, lpn: Lpn) {
        put_u32(meta, self.lpn_place(index), lpn.0);
    }

    /// Records that unit `unit` of the begun superpage, which is unit `index` of the block, holds `lpn`.
    #[inline]
    pub(crate) fn put(&self, meta: &mut [u8], unit: u32, index: u32, lpn: Lpn) {
        meta[PUT_AT + unit as usize / 8] |= 1 << (unit % 8);
        put_u32(meta, self.lpn_at + 4 * index as usize, lpn.0);
    }

    /// The first unit from `from` on, of the begun superpage, that has not been put.
    #[inline]
    pub(crate) fn next_missing(&self, meta: &[u8], from: u32) -> Option<u32> {
        let mut unit = from;
        while unit < self.units_per_superpage {
            let word = u64_at(meta, PUT_AT + unit as usize / 64 * 8) >> (unit % 64);
            let run = word.trailing_ones();
            unit += run;
            if run < 64 - (unit - run) % 64 {
                break;
            }
        }
        (unit < self.units_per_superpage).then_some(unit)
    }

    /// Records that the begun superpage received a copy of an unreadable unit.
    pub(crate) fn poison(&self, meta: &mut [u8]) {
        put_u64(meta, POISON_AT, 1);
    }

    /// Returns whether the begun superpage received a copy of an unreadable unit.
    #[inline]
    pub(crate) fn poisoned(&self, meta: &[u8]) -> bool {
        u64_at(meta, POISON_AT) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_units_are_found_across_words() {
        for units_per_superpage in [1, 3, 63, 64, 65, 128, 255, 256] {
            let shape = MetaShape { lpn_at: 128, units_per_superpage, bytes: 2048 };
            for hole in [0, 1, 62, 63, 64, 65, 127, 128, 200, 255] {
                let mut meta = vec![0u8; 2048];
                shape.begin(&mut meta, 0, 9, 0);
                for unit in (0..units_per_superpage).filter(|&u| u != hole && u != hole + 1) {
                    shape.put(&mut meta, unit, unit, Lpn(unit));
                }
                let expected: Vec<u32> =
                    [hole, hole + 1].into_iter().filter(|&u| u < units_per_superpage).collect();
                let mut found = Vec::new();
                let mut from = 0;
                while let Some(unit) = shape.next_missing(&meta, from) {
                    found.push(unit);
                    from = unit + 1;
                }
                assert_eq!(found, expected, "{units_per_superpage} units");
            }
        }
    }
}
