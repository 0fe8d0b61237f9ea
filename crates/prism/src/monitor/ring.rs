//! Rings of chunks for the records of the monitor's state: two, of hidden chunks on different LUNs.
//!
//! ```text
//!   ring 0   LUN 0: [ 1 | 2 | 3 ]  [ 4 | 5 ......  ]        LUN 2: [            ]  [           ]
//!   ring 1   LUN 1: [ 1 | 2 | 3 ]  [ 4 | 5 ......  ]        LUN 3: [            ]  [           ]
//! ```
//! A record is the whole state. It is safe once every working ring has it, and at least one does. A ring continues in its next chunk when one is full
//! or fails, and erases that chunk first, but never the one with its newest record. So at every moment each ring has a whole record, and the highest
//! number wins at a start. After a start a ring uses a new chunk, because the end of the last one may be torn.

use pellucid_flash::ChunkGeometry;

/// Maximum number of LUNs with records.
const LUNS_MAX: u32 = 4;

/// Work that a ring needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Reset this chunk.
    Reset(u32),
    /// Write pages of the record from `from` on to page `page` of a chunk.
    Write { chunk: u32, page: u32, from: u32 },
    /// The record is written.
    Written,
    /// No chunk is left.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    chunk: u32,
    free: bool,
    lost: bool,
}

/// One ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    slots: Vec<Slot>,
    at: usize,
    /// Pages of the chunk that are written or unusable.
    page: u32,
    /// The slot of the newest whole record.
    newest: Option<usize>,
    /// Pages of a chunk.
    pages: u32,
    /// Pages of the record being written, and number already written.
    record: u32,
    done: u32,
    dead: bool,
}

/// The chunks of both rings: the last ones of a few LUNs, on different channels if possible.
pub(super) fn chunks(drive: &ChunkGeometry) -> [Vec<u32>; 2] {
    let luns = drive.parallel_units().min(LUNS_MAX);
    let mut rings = [Vec::new(), Vec::new()];
    for at in 0..luns {
        let lun = at % drive.groups * drive.units + at / drive.groups;
        let last = (lun + 1) * drive.chunks - 1;
        match luns {
            1 => rings = [vec![last, last - 1], vec![last - 2, last - 3]],
            _ => rings[at as usize % 2].extend([last, last - 1]),
        }
    }
    rings
}

/// Maximum number of chunks for records on each of this many LUNs.
pub(super) fn chunks_of_lun(luns: u32) -> u32 {
    if luns == 1 { 4 } else { 2 }
}

impl Ring {
    /// Creates a ring. `chunks`: each with whether it is free, or `None` if it is retired.
    pub fn new(chunks: impl Iterator<Item = (u32, Option<bool>)>, newest: Option<u32>, pages: u32) -> Ring {
        let slot = |(chunk, free): (u32, Option<bool>)| Slot {
            chunk,
            free: free == Some(true),
            lost: free.is_none(),
        };
        let slots: Vec<Slot> = chunks.map(slot).collect();
        let newest = newest.and_then(|chunk| slots.iter().position(|slot| slot.chunk == chunk));
        let at = newest.unwrap_or(slots.len() - 1);
        Ring { slots, at, page: pages, newest, pages, record: 0, done: 0, dead: false }
    }

    /// Starts a record of this many pages.
    pub fn begin(&mut self, record: u32) -> Want {
        if self.dead {
            return Want::Dead;
        }
        (self.record, self.done) = (record, 0);
        match self.page + record <= self.pages {
            true => self.write(),
            false => self.next_chunk(),
        }
    }

    fn write(&self) -> Want {
        Want::Write { chunk: self.slots[self.at].chunk, page: self.page + self.done, from: self.done }
    }

    fn next_chunk(&mut self) -> Want {
        let count = self.slots.len();
        let next = (1..=count).map(|step| (self.at + step) % count);
        let Some(next) = next.into_iter().find(|&at| !self.slots[at].lost && self.newest != Some(at)) else {
            self.dead = true;
            return Want::Dead;
        };
        (self.at, self.page, self.done) = (next, 0, 0);
        match self.slots[next].free {
            true => {
                self.slots[next].free = false;
                self.write()
            }
            false => Want::Reset(self.slots[next].chunk),
        }
    }

    /// Handles the end of the wanted reset.
    pub fn reset_ended(&mut self, ok: bool) -> Want {
        self.slots[self.at].lost = !ok;
        match ok {
            true => self.write(),
            false => self.next_chunk(),
        }
    }

    /// Handles the end of the write of `pages` pages.
    pub fn write_ended(&mut self, pages: u32, ok: bool) -> Want {
        if !ok {
            self.slots[self.at].lost = true;
            self.page = self.pages;
            return self.next_chunk();
        }
        self.done += pages;
        if self.done < self.record {
            return self.write();
        }
        self.page += self.record;
        self.newest = Some(self.at);
        Want::Written
    }
}
