//! Slabs on their way to flash, in pieces, in order.

use super::PIECE_BYTES;

/// Write of one slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub slab: u32,
    pub buffer: u32,
    pub forced: bool,
    /// Bytes handed out so far.
    sent: u32,
    outstanding: u32,
    failed: bool,
}

/// A piece of a slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub slab: u32,
    pub buffer: u32,
    pub forced: bool,
    pub from: u32,
    pub to: u32,
}

/// Slabs being written, a few pieces of each at a time, in turn.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    writes: Vec<Write>,
    turn: usize,
    slab_bytes: u32,
    /// A piece does not cross a multiple of this.
    boundary: u32,
    unit: u32,
    piece: u32,
    depth: u32,
}

impl Writer {
    /// Pieces of at most [`PIECE_BYTES`], multiples of `unit` unless that is larger; `depth` pieces of a slab at a time.
    pub fn new(slab_bytes: u32, boundary: u32, unit: u32, depth: u32) -> Writer {
        let piece = (PIECE_BYTES / unit * unit).max(unit);
        Writer { writes: Vec::new(), turn: 0, slab_bytes, boundary, unit, piece, depth }
    }

    /// The unit of pieces, if pieces are small enough.
    pub fn unit(&self) -> u32 {
        self.unit
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    pub fn begin(&mut self, slab: u32, buffer: u32, forced: bool) {
        self.writes.push(Write { slab, buffer, forced, sent: 0, outstanding: 0, failed: false });
    }

    /// The next piece that may be sent.
    pub fn next(&mut self) -> Option<Piece> {
        let count = self.writes.len();
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            let write = &mut self.writes[self.turn];
            if write.failed || write.sent == self.slab_bytes || write.outstanding == self.depth {
                continue;
            }
            let from = write.sent;
            let end = (from / self.boundary + 1) * self.boundary;
            // Data of another block wait until this block has been written successfully.
            if from.is_multiple_of(self.boundary) && write.outstanding > 0 {
                continue;
            }
            let to = (from + self.piece).min(end).min(self.slab_bytes);
            write.sent = to;
            write.outstanding += 1;
            return Some(Piece { slab: write.slab, buffer: write.buffer, forced: write.forced, from, to });
        }
        None
    }

    /// Notes the end of a piece; after the last one, returns the result of the slab.
    pub fn ended(&mut self, slab: u32, good: bool) -> Option<bool> {
        let at = self.writes.iter().position(|write| write.slab == slab).expect("it is being written");
        let write = &mut self.writes[at];
        write.outstanding -= 1;
        write.failed |= !good;
        let over = write.outstanding == 0 && (write.failed || write.sent == self.slab_bytes);
        over.then(|| !self.writes.remove(at).failed)
    }
}
