//! Erases in the background.
//!
//! ```text
//!   give_back ─► queue of the LUN ─► nothing reads the block, no write of it is under way, and one of
//!                                     - the application has nothing under way in the LUN
//!                                     - the LUN has fewer than FREE_LOW erased blocks, or a write waits for this erase
//!                                     - PASSED_MAX commands of the application went before it
//!                                   ─► one erase at a time for each LUN ─► free; bad, where the drive says so; else spoiled
//! ```
//! So a read waits for one erase at most, the one under way in its die, and blocks become free even under load that never pauses.

use super::blocks::State;
use super::{Function, Op, Purpose};
use pellucid_flash::{ChunkOp, Command, DieId, Opcode, SimTime, Status};

/// With fewer erased blocks than this a LUN does not wait until it is idle.
const FREE_LOW: u32 = 2;

/// Largest number of the application's commands that may overtake a waiting erase.
const PASSED_MAX: u32 = 64;

impl Function {
    /// A command of the application to a block is sent.
    pub(super) fn begin_on(&mut self, block: u32) {
        let lun = self.blocks.lun_of(block) as usize;
        let lun = &mut self.blocks.luns[lun];
        lun.busy += 1;
        lun.passed += u32::from(!lun.erases.is_empty());
    }

    /// Ends the erase of a block.
    pub(super) fn end_on(&mut self, block: u32) {
        let lun = self.blocks.lun_of(block) as usize;
        self.blocks.luns[lun].busy -= 1;
    }

    /// The data of a block are not needed any more.
    pub(super) fn give_back(&mut self, block: u32) {
        self.blocks.close(block);
        self.break_off(block, Status::ChunkWriteInvalid);
        self.blocks.begin_anew(block);
        let lun = self.blocks.lun_of(block) as usize;
        let record = &mut self.blocks[block];
        if record.cleaning {
            // It was mapped before its erase: it waits already.
            record.cleaning = false;
            let erasing = self.blocks.luns[lun].erasing == Some(block);
            self.blocks.set_state(block, if erasing { State::Erasing } else { State::Trimmed });
        } else if record.lost {
            self.retire(block);
        } else if record.dirty {
            self.blocks.set_state(block, State::Trimmed);
            self.blocks.luns[lun].erases.push_back(block);
            self.erase_waiting(lun as u32);
        } else {
            self.blocks.set_state(block, State::Free);
        }
    }

    /// Sends the next erase of a LUN, if it may go.
    pub(super) fn erase_waiting(&mut self, lun: u32) {
        let record = &self.blocks.luns[lun as usize];
        if record.erasing.is_some() || record.erases.is_empty() {
            return;
        }
        let low = self.blocks.pool.free_count(DieId(lun)) < FREE_LOW;
        let any = record.busy == 0 || record.passed >= PASSED_MAX || low;
        let may = |&&block: &&u32| {
            let block = &self.blocks[block];
            block.readers == 0 && !block.writing && (any || block.cleaning)
        };
        let Some(at) = record.erases.iter().position(|block| may(&block)) else { return };
        let lun = &mut self.blocks.luns[lun as usize];
        let Some(block) = lun.erases.remove(at) else { return };
        (lun.erasing, lun.passed) = (Some(block), 0);
        if !self.blocks[block].cleaning {
            self.blocks.set_state(block, State::Erasing);
        }
        self.send_erase(Purpose::Erase, block);
    }

    pub(super) fn send_erase(&mut self, purpose: Purpose, block: u32) {
        let command = Command::new(0, Opcode::Chunk(ChunkOp::Reset), self.sector(block, 0), 0, Vec::new());
        self.send(purpose, 0, block, command);
    }

    pub(super) fn erase_ended(&mut self, op: &Op, status: Status) {
        let (block, lun) = (op.block, self.blocks.lun_of(op.block));
        self.blocks.luns[lun as usize].erasing = None;
        let erased = self.erased(block, status);
        let cleaning = std::mem::take(&mut self.blocks[block].cleaning);
        match (erased, cleaning) {
            (true, true) => self.write_next(block),
            (true, false) => self.blocks.set_state(block, State::Free),
            // The application has it, and is told when it writes.
            (false, true) => {
                self.break_off(block, status);
                self.blocks[block].lost = status == Status::ChunkOffline;
            }
            (false, false) if status == Status::ChunkOffline => self.retire(block),
            (false, false) => {
                self.blocks.begin_anew(block);
                self.blocks.set_state(block, State::Spoiled);
                self.spoiled.push(block);
            }
        }
        self.erase_waiting(lun);
        self.go_on_levelling();
    }

    /// Counts an erase; whether it went well.
    pub(super) fn erased(&mut self, block: u32, status: Status) -> bool {
        // A chunk that holds nothing refuses to be erased.
        if !matches!(status, Status::Success | Status::ChunkInvalidReset) {
            return false;
        }
        self.blocks[block].dirty = false;
        self.counters.erases += 1;
        let erases = self.blocks.erases(block) + 1;
        self.blocks.pool.set_erases(pellucid_flash::BlockId(block), erases);
        true
    }

    /// Blocks whose erase has failed, which wait for [`Function::try_again`].
    pub fn resting_blocks(&self) -> u32 {
        self.spoiled.len() as u32
    }

    /// Erases blocks again whose erase has failed, though the drive does not say that they are bad.
    pub fn try_again(&mut self, now: SimTime) {
        self.now = now;
        for block in std::mem::take(&mut self.spoiled) {
            self.blocks.set_state(block, State::Trimmed);
            let lun = self.blocks.lun_of(block);
            self.blocks.luns[lun as usize].erases.push_back(block);
            self.erase_waiting(lun);
        }
    }

    /// Takes a block out of use.
    pub(super) fn retire(&mut self, block: u32) {
        self.counters.retired += 1;
        self.blocks.begin_anew(block);
        self.blocks.set_state(block, State::Bad);
    }
}
