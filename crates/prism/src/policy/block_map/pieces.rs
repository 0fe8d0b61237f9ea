//! Pieces of a logical block: chunks that each hold its beginning, up to some sector.
//!
//! Invariant: pieces are ordered, newest first, and each reaches further than all newer ones. So a sector is in the first piece that reaches it. A
//! piece covered by newer ones is returned, to be erased.

use std::cmp::Reverse;

/// A chunk that holds the beginning of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub chunk: u32,
    /// Number of readable sectors.
    pub ends: u32,
    /// True if the piece accepts more writes.
    pub open: bool,
    pub sequence: u64,
}

/// Pieces of a logical block.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// Newest first.
    list: Vec<Piece>,
}

impl Pieces {
    /// The newest piece.
    pub fn top(&self) -> Option<Piece> {
        self.list.first().copied()
    }

    /// The newest piece, if writes can extend it to `to`.
    pub fn top_for(&self, to: u32) -> Option<Piece> {
        self.top().filter(|piece| piece.open && piece.ends <= to)
    }

    /// The newest piece that reaches a sector.
    pub fn find(&self, sector: u32) -> Option<Piece> {
        self.list.iter().find(|piece| piece.ends > sector).copied()
    }

    /// The newest piece below the top one that reaches a sector.
    pub fn below(&self, sector: u32) -> Option<Piece> {
        self.list.iter().skip(1).find(|piece| piece.ends > sector).copied()
    }

    /// Number of sectors from the beginning of the block that pieces cover.
    pub fn reach(&self) -> u32 {
        self.list.last().map_or(0, |piece| piece.ends)
    }

    /// Number of pieces.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The chunks of the pieces.
    pub fn chunks(&self) -> impl Iterator<Item = u32> {
        self.list.iter().map(|piece| piece.chunk)
    }

    /// Starts an empty top piece. Returns pieces that are no longer needed.
    pub fn begin(&mut self, chunk: u32, sequence: u64) -> Vec<Piece> {
        self.list.insert(0, Piece { chunk, ends: 0, open: true, sequence });
        self.drop_covered()
    }

    /// Extends the top piece, to at most `length`. Returns pieces that are no longer needed.
    pub fn grow(&mut self, sectors: u32, length: u32) -> Vec<Piece> {
        let top = self.list.first_mut().expect("a write has its piece");
        top.ends += sectors;
        assert!(top.ends <= length, "a piece ends with its chunk");
        top.open = top.ends < length;
        self.drop_covered()
    }

    /// Closes the top piece, which accepts no more writes.
    pub fn close_top(&mut self) {
        self.list.first_mut().expect("a write has its piece").open = false;
    }

    /// Adds a piece found on the flash; [`Pieces::sort`] must follow.
    pub fn found(&mut self, piece: Piece) {
        self.list.push(piece);
    }

    /// Orders the pieces found. Returns those that are no longer needed.
    pub fn sort(&mut self) -> Vec<Piece> {
        self.list.sort_by_key(|piece| Reverse(piece.sequence));
        self.drop_covered()
    }

    /// Takes all pieces.
    pub fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.list)
    }

    fn drop_covered(&mut self) -> Vec<Piece> {
        let (mut reach, mut covered) = (None, Vec::new());
        self.list.retain(|&piece| {
            let needed = reach.is_none_or(|reach| piece.ends > reach);
            match needed {
                true => reach = Some(piece.ends),
                false => covered.push(piece),
            }
            needed
        });
        covered
    }

    /// Panics if the order is broken; `number`: of the logical block.
    pub fn check(&self, number: usize) {
        for pair in self.list.windows(2) {
            assert!(
                pair[0].sequence > pair[1].sequence && pair[0].ends < pair[1].ends,
                "block {number}: {pair:?}"
            );
        }
    }
}
