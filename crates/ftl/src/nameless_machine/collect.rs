//! Garbage collection: a victim is read, its live sectors are written elsewhere, and it is erased.
//!
//! ```text
//!   acknowledged:   read ─► write ─► tell ─► (acknowledged, checkpoint) ─► erase
//!   prototype:      read ─► erase ─► write ─► tell
//! ```
//! Sectors that cannot be read stay in place, and so does their block.

use super::{NamelessMachine, TAG_RESET};
use crate::Content;
use pellucid_flash::{
    BlockId, ChunkOp, Command, Completion, Migration, Opcode, Ppa, SimTime, Status, Vector,
};

/// Most reads of a victim under way at once.
const READS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    /// The victim is being erased.
    Erase,
    Write,
}

/// A victim that is being moved.
#[derive(Clone, Debug)]
pub(super) struct Gc {
    victim: BlockId,
    phase: Phase,
    units: Vec<Ppa>,
    images: Vec<u8>,
    /// Units that could not be read.
    unread: Vec<bool>,
    next: usize,
    under_way: u32,
    /// When the victim was chosen.
    since: SimTime,
}

impl NamelessMachine {
    pub(super) fn continue_gc(&mut self) {
        if self.gc.is_none() {
            let Some((victim, units)) = self.engine.next_victim() else { return };
            let images = vec![0; units.len() * self.image_bytes];
            let unread = vec![false; units.len()];
            let (phase, since) = (Phase::Read, self.now);
            self.gc = Some(Gc { victim, phase, units, images, unread, next: 0, under_way: 0, since });
        }
        let Some(mut gc) = self.gc.take() else { return };
        if gc.phase == Phase::Read {
            self.read_victim(&mut gc);
            if gc.under_way == 0 {
                gc.next = 0;
                let all = !gc.unread.contains(&true);
                let erase_first = all && self.config.migration == Migration::Prototype;
                gc.phase = if erase_first { Phase::Erase } else { Phase::Write };
                if erase_first {
                    self.flushes.changed();
                    self.engine.take_out();
                }
                self.moved = true;
            }
        }
        if gc.phase == Phase::Write && gc.under_way == 0 && gc.next == gc.units.len() {
            self.engine.victim_done();
            self.counters.pauses.record(self.now.since(gc.since));
            self.moved = true;
            return;
        }
        self.gc = Some(gc);
    }

    fn read_victim(&mut self, gc: &mut Gc) {
        while gc.next < gc.units.len() && gc.under_way < READS {
            let read = self.begin_read(None);
            let end = gc.units.len().min(gc.next + Vector::ADDRESSES_MAX);
            for at in gc.next..end {
                self.add_to_read(read, gc.units[at], at as u32);
            }
            (gc.next, gc.under_way) = (end, gc.under_way + 1);
            self.send_read(read, true);
        }
    }

    /// Records the read of a unit of the victim; `None`: it could not be read.
    pub(super) fn victim_read(&mut self, unit: u32, data: Option<&[u8]>) {
        let gc = self.gc.as_mut().expect("a victim is being read");
        match data {
            Some(data) => gc.images[unit as usize * self.image_bytes..][..data.len()].copy_from_slice(data),
            None => gc.unread[unit as usize] = true,
        }
    }

    pub(super) fn victim_read_ended(&mut self) {
        self.gc.as_mut().expect("a victim is being read").under_way -= 1;
    }

    /// Returns whether units of the victim wait to be written; skips those that are no longer wanted.
    pub(super) fn has_copies(&mut self) -> bool {
        let Some(gc) = self.gc.as_mut().filter(|c| c.phase == Phase::Write) else {
            return false;
        };
        while let Some(&unit) = gc.units.get(gc.next) {
            if !gc.unread[gc.next] && self.engine.is_wanted(unit) {
                return true;
            }
            gc.next += 1;
            self.moved = true;
        }
        false
    }

    /// The next units of the victim, as many as fit into a page.
    pub(super) fn take_copies(&mut self, contents: &mut Vec<Content>, data: &mut Vec<u8>) {
        while contents.len() < self.shape.layout.units_per_superpage as usize && self.has_copies() {
            let gc = self.gc.as_mut().expect("it has copies");
            contents.push(Content::Copy(gc.units[gc.next]));
            data.extend_from_slice(&gc.images[gc.next * self.image_bytes..][..self.image_bytes]);
            gc.next += 1;
        }
        self.gc.as_mut().expect("it has copies").under_way += 1;
    }

    /// Records that a page of copies is on the media.
    pub(super) fn copies_ended(&mut self) {
        self.gc.as_mut().expect("copies have a victim").under_way -= 1;
    }

    /// The image of a sector that is off the media while its block is erased.
    pub(super) fn taken(&self, ppa: Ppa) -> &[u8] {
        let gc = self.gc.as_ref().expect("what is taken has a victim");
        let at = gc.units.binary_search(&ppa).expect("it is the victim's");
        &gc.images[at * self.image_bytes..][..self.image_bytes]
    }

    /// Erases blocks that may be erased, unless they are being read.
    pub(super) fn erase(&mut self) {
        let mut later = Vec::new();
        while let Some((block, is_good)) = self.engine.next_erase() {
            if !is_good {
                self.victim_erased(block);
            } else if self.is_read(block) {
                later.push(block);
            } else {
                let lba = self.shape.sector(self.shape.layout.ppa(block, 0));
                self.send(Command::new(
                    TAG_RESET | u64::from(block.0),
                    Opcode::Chunk(ChunkOp::Reset),
                    lba,
                    0,
                    Vec::new(),
                ));
            }
        }
        later.into_iter().for_each(|block| self.engine.erase_later(block));
    }

    pub(super) fn reset_ended(&mut self, block: u32, completion: &Completion) {
        self.flushes.changed();
        self.engine.erased(BlockId(block), completion.status == Status::Success);
        self.victim_erased(BlockId(block));
    }

    /// Records that a block is free or retired: if it is the victim, its units can be written now.
    fn victim_erased(&mut self, block: BlockId) {
        self.moved = true;
        if let Some(gc) = self.gc.as_mut().filter(|c| c.victim == block && c.phase == Phase::Erase) {
            gc.phase = Phase::Write;
        }
    }
}
