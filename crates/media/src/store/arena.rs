//! Memory in pieces of one size, handed out one after the other and never given back.
//!
//! ```text
//!  chunk 0                    chunk 1
//!  | 0 | 1 | 2 | 3 | ...      | 2^s | 2^s + 1 | ...
//! ```
//! Reads at random over gigabytes spend most of their time on looking up where pages of 4 KiB lie, so chunks are mapped by
//! themselves and the system is asked for large pages.
//!
//! Invariant: piece p lies in chunk `p >> shift`; every chunk but the last has `1 << shift` pieces.

use memmap2::{Advice, MmapMut};
use std::ops::Range;

/// What one mapping holds at most, unless a single piece is longer.
const CHUNK_BYTES: usize = 32 << 20;

/// Zeroed memory in large pages, where the system has them; small ones do as well, they are slower.
fn map(bytes: usize) -> MmapMut {
    let map = MmapMut::map_anon(bytes).unwrap_or_else(|e| panic!("{bytes} bytes of memory: {e}"));
    let _ = map.advise(Advice::HugePage);
    map
}

/// Pieces of memory.
#[derive(Debug)]
pub(crate) struct Arena {
    piece_bytes: usize,
    pieces_max: u32,
    pieces: u32,
    shift: u32,
    chunks: Vec<MmapMut>,
}

impl Arena {
    /// For at most `pieces_max` pieces of `piece_bytes` each.
    pub(crate) fn new(pieces_max: u32, piece_bytes: usize) -> Arena {
        let per_chunk = (CHUNK_BYTES / piece_bytes).max(1);
        Arena { piece_bytes, pieces_max, pieces: 0, shift: per_chunk.ilog2(), chunks: Vec::new() }
    }

    /// Hands out the next piece, zeroed.
    ///
    /// # Panics
    /// When all have been handed out, or the system has no memory.
    pub(crate) fn take(&mut self) -> u32 {
        assert!(self.pieces < self.pieces_max, "all {} pieces are taken", self.pieces_max);
        if (self.pieces >> self.shift) as usize == self.chunks.len() {
            let count = (self.pieces_max - self.pieces).min(1 << self.shift);
            self.chunks.push(map(count as usize * self.piece_bytes));
        }
        self.pieces += 1;
        self.pieces - 1
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

    /// Copies bytes of one piece to another, or inside one.
    pub(crate) fn copy(&mut self, (from, source): (u32, Range<usize>), (to, target): (u32, usize)) {
        assert!(source.end.max(target + source.len()) <= self.piece_bytes, "{source:?} to {target}");
        let ((from_chunk, from), (to_chunk, to)) = (self.place(from), self.place(to));
        let source = from.start + source.start..from.start + source.end;
        let target = to.start + target;
        match self.chunks.get_disjoint_mut([from_chunk, to_chunk]) {
            Ok([from, to]) => to[target..target + source.len()].copy_from_slice(&from[source]),
            Err(_) => self.chunks[from_chunk].copy_within(source, target),
        }
    }

    /// Length of a piece.
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    #[inline]
    fn place(&self, piece: u32) -> (usize, Range<usize>) {
        let start = (piece & ((1 << self.shift) - 1)) as usize * self.piece_bytes;
        ((piece >> self.shift) as usize, start..start + self.piece_bytes)
    }
}

impl Clone for Arena {
    /// Copies what has been handed out, and touches nothing else.
    fn clone(&self) -> Arena {
        let mut left = self.pieces as usize * self.piece_bytes;
        let copy = |chunk: &MmapMut| {
            let mut copy = map(chunk.len());
            let used = left.min(chunk.len());
            copy[..used].copy_from_slice(&chunk[..used]);
            left -= used;
            copy
        };
        Arena { chunks: self.chunks.iter().map(copy).collect(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces, more than a chunk of them, keep what is put into them, and so does a copy.
    #[test]
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

    #[test]
    fn copies_inside_a_chunk_and_between_chunks() {
        // Four pieces a chunk.
        let mut arena = Arena::new(8, 8 << 20);
        for _ in 0..8 {
            arena.take();
        }
        arena.get_mut(1)[10..14].copy_from_slice(b"abcd");
        for (piece, at) in [(1, 14), (2, 0), (6, 5)] {
            arena.copy((1, 10..14), (piece, at));
            assert_eq!(&arena.get(piece)[at..at + 4], b"abcd");
        }
        arena.copy((1, 10..14), (1, 12));
        assert_eq!(&arena.get(1)[10..18], b"ababcdcd");
    }

    #[test]
    #[should_panic(expected = "all 1 pieces are taken")]
    fn no_more_than_there_are() {
        let mut arena = Arena::new(1, 8);
        arena.take();
        arena.take();
    }
}
