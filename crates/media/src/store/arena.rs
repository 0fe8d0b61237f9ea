//! Memory in pieces of one size, allocated and freed.
//!
//! ```text
//!  chunk 0                    chunk 1
//!  | 0 | 1 | 2 | 3 | ...      | 2^s | 2^s + 1 | ...
//! ```
//! Random reads over gigabytes spend most of their time on TLB misses with 4 KiB pages, so chunks have mappings of their own and the
//! system is asked for large pages. Freed pieces are reused first, the latest at once, as it is still in the processor's cache. When much
//! more is free than in use, the memory of free pieces goes back to the system.
//!
//! Invariants: piece p is in chunk `p >> shift`; every chunk except the last has `1 << shift` pieces; a piece is in use, free with memory
//! (`free`), free without memory (`returned`), or has never been used.

use memmap2::{Advice, MmapMut};
use std::ops::Range;

/// Largest size of one mapping, unless a single piece is longer.
const CHUNK_BYTES: usize = 32 << 20;
/// Smaller chunks are mapped without large pages: small drives are made and copied often.
const HUGE_BYTES_MIN: usize = 4 << 20;
/// Free memory that is kept rather than returned to the system; a share of the used memory is added.
const FREE_BYTES_MIN: usize = 16 << 20;
const FREE_SHARE: usize = 8;
const PAGE_BYTES: usize = 4096;
const CACHE_LINE_BYTES: usize = 64;
/// Bytes prefetched of the piece that will be taken next; the processor's own prefetcher fetches the rest.
const NEXT_BYTES: usize = 1024;

/// Maps zeroed memory, in large pages if the system has them; small ones work too, but slower.
fn map(bytes: usize) -> MmapMut {
    let map = MmapMut::map_anon(bytes).unwrap_or_else(|e| panic!("{bytes} bytes of memory: {e}"));
    if bytes >= HUGE_BYTES_MIN {
        let _ = map.advise(Advice::HugePage);
    }
    map
}

/// Pieces of memory.
#[derive(Debug)]
pub(crate) struct Arena {
    piece_bytes: usize,
    pieces_max: u32,
    /// Taken at least once.
    pieces: u32,
    shift: u32,
    chunks: Vec<MmapMut>,
    free: Vec<u32>,
    returned: Vec<u32>,
}

impl Arena {
    /// For at most `pieces_max` pieces of `piece_bytes` each.
    pub(crate) fn new(pieces_max: u32, piece_bytes: usize) -> Arena {
        let per_chunk = (CHUNK_BYTES / piece_bytes).max(1);
        Arena {
            piece_bytes,
            pieces_max,
            pieces: 0,
            shift: per_chunk.ilog2(),
            chunks: Vec::new(),
            free: Vec::new(),
            returned: Vec::new(),
        }
    }

    /// Allocates a piece, with its former content.
    ///
    /// # Panics
    /// When all have been handed out, or the system has no memory.
    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        let Some(piece) = self.free.pop() else { return self.take_new() };
        // Free pieces lie anywhere: the next one is on its way into the cache while this one is filled.
        if let Some(&next) = self.free.last() {
            let bytes = self.get(next);
            for line in (0..NEXT_BYTES.min(bytes.len())).step_by(CACHE_LINE_BYTES) {
                prefetch_index::prefetch_index(bytes, line);
            }
        }
        piece
    }

    fn take_new(&mut self) -> u32 {
        if let Some(piece) = self.returned.pop() {
            return piece;
        }
        assert!(self.pieces < self.pieces_max, "all {} pieces are taken", self.pieces_max);
        if (self.pieces >> self.shift) as usize == self.chunks.len() {
            let count = (self.pieces_max - self.pieces).min(1 << self.shift);
            self.chunks.push(map(count as usize * self.piece_bytes));
        }
        self.pieces += 1;
        self.pieces - 1
    }

    /// Frees a piece.
    #[inline]
    pub(crate) fn give(&mut self, piece: u32) {
        self.free.push(piece);
        let spare = self.free.len() * self.piece_bytes;
        if spare > FREE_BYTES_MIN && spare > FREE_BYTES_MIN + self.taken_bytes() as usize / FREE_SHARE {
            self.give_to_system();
        }
    }

    /// Returns the memory of all but a few free pieces to the system, in runs.
    #[cold]
    fn give_to_system(&mut self) {
        let keep = FREE_BYTES_MIN / 2 / self.piece_bytes;
        self.free.sort_unstable_by(|a, b| b.cmp(a));
        // The last ones are taken first: those that lie lowest.
        let give = self.free.len() - keep.min(self.free.len());
        let mut given: Vec<u32> = self.free.drain(..give).collect();
        given.reverse();
        for run in given.chunk_by(|a, b| a + 1 == *b && a >> self.shift == b >> self.shift) {
            let (chunk, first) = self.place(run[0]);
            let bytes = first.start..first.start + run.len() * self.piece_bytes;
            give_pages(&mut self.chunks[chunk], bytes);
        }
        given.reverse();
        // The lowest are taken first here, too.
        self.returned.append(&mut given);
    }

    #[inline]
    pub(crate) fn get(&self, piece: u32) -> &[u8] {
        let (chunk, range) = self.place(piece);
        &self.chunks[chunk][range]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, piece: u32) -> &mut [u8] {
        let (chunk, range) = self.place(piece);
        &mut self.chunks[chunk][range]
    }

    /// Bytes of the pieces that are taken.
    #[inline]
    pub(crate) fn taken_bytes(&self) -> u64 {
        let free = self.free.len() + self.returned.len();
        (u64::from(self.pieces) - free as u64) * self.piece_bytes as u64
    }

    #[inline]
    fn place(&self, piece: u32) -> (usize, Range<usize>) {
        let start = (piece & ((1 << self.shift) - 1)) as usize * self.piece_bytes;
        ((piece >> self.shift) as usize, start..start + self.piece_bytes)
    }
}

/// Returns the whole pages within `bytes` of a chunk to the system; they read as zeros.
#[allow(unsafe_code, reason = "memory changes below a reference")]
fn give_pages(chunk: &mut MmapMut, bytes: Range<usize>) {
    let (start, end) = (bytes.start.next_multiple_of(PAGE_BYTES), bytes.end & !(PAGE_BYTES - 1));
    if start < end {
        // SAFETY: the mapping is private and anonymous, so its pages read as zeros from now on, and nobody else refers to
        // them: the chunk is borrowed for writing. What cannot be given back stays.
        let _ =
            unsafe { chunk.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
    }
}

impl Clone for Arena {
    /// Copies only the pieces in use.
    fn clone(&self) -> Arena {
        let mut idle = vec![false; self.pieces as usize];
        self.free.iter().chain(&self.returned).for_each(|&piece| idle[piece as usize] = true);
        let mut copy = Arena {
            chunks: self.chunks.iter().map(|chunk| map(chunk.len())).collect(),
            free: Vec::new(),
            returned: self.returned.iter().chain(&self.free).copied().collect(),
            ..*self
        };
        for piece in (0..self.pieces).filter(|&piece| !idle[piece as usize]) {
            copy.get_mut(piece).copy_from_slice(self.get(piece));
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces, more than a chunk of them, keep what is put into them, and so does a copy.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn pieces_are_apart() {
        for (pieces, piece_bytes) in [(7, 1000), (50, 3 << 20), (3, 40 << 20)] {
            let mut arena = Arena::new(pieces, piece_bytes);
            for piece in 0..pieces {
                assert_eq!(arena.take(), piece);
                let bytes = arena.get_mut(piece);
                assert_eq!((bytes.len(), bytes[0], bytes[piece_bytes - 1]), (piece_bytes, 0, 0));
                bytes[0] = piece as u8 + 1;
                bytes[piece_bytes - 1] = piece as u8 + 101;
            }
            let copy = arena.clone();
            arena.get_mut(0).fill(0);
            for piece in 0..pieces {
                let bytes = copy.get(piece);
                assert_eq!((bytes[0], bytes[piece_bytes - 1]), (piece as u8 + 1, piece as u8 + 101));
            }
        }
    }

    /// Freed pieces are reused, before and after the system gets their memory back; pieces in use keep their bytes throughout.
    #[test]
    fn what_is_given_back_is_taken_again() {
        let (pieces, bytes) = (20_000, 4096);
        let mut arena = Arena::new(pieces, bytes);
        (0..pieces).for_each(|piece| {
            arena.take();
            arena.get_mut(piece)[..4].copy_from_slice(&piece.to_le_bytes());
        });
        let says = |arena: &Arena, piece: u32| {
            u32::from_le_bytes(arena.get(piece)[..4].try_into().expect("four bytes"))
        };
        (0..pieces).filter(|piece| piece % 16 != 0).for_each(|piece| arena.give(piece));
        assert_eq!(arena.taken_bytes(), u64::from(pieces) / 16 * bytes as u64);
        assert!(arena.free.len() * bytes <= FREE_BYTES_MIN + (8 << 20), "{} are free", arena.free.len());
        let copy = arena.clone();
        for arena in [&mut arena, &mut copy.clone()] {
            assert!((0..pieces).step_by(16).all(|piece| says(arena, piece) == piece));
            let mut taken: Vec<u32> = (0..pieces - pieces / 16).map(|_| arena.take()).collect();
            taken.sort_unstable();
            assert!(taken.iter().copied().eq((0..pieces).filter(|piece| piece % 16 != 0)));
            assert!((0..pieces).step_by(16).all(|piece| says(arena, piece) == piece));
        }
        assert_eq!(copy.taken_bytes(), u64::from(pieces) / 16 * bytes as u64);
    }

    #[test]
    #[should_panic(expected = "all 1 pieces are taken")]
    fn no_more_than_there_are() {
        let mut arena = Arena::new(1, 8);
        arena.take();
        arena.take();
    }
}
