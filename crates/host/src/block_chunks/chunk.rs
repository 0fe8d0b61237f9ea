//! A chunk: how far it is written, and writes that its table does not count yet.
//!
//! ```text
//!   begin_write ─► data_ended ─► begin_save (the table counts it) ─► end_save, next_counted
//!                     └─ failed: close ─► the writes behind it end, and nothing from there on counts
//! ```
//! Invariants: uncounted writes lie one behind the other, from the last counted sector or the saved end on; one table write is under way at a
//! time; a chunk that is being reset has no uncounted writes.

use super::shape::ChunkShape;
use pellucid_flash::{ChunkState, Status};
use std::collections::VecDeque;

/// Write of a chunk that the table does not count yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    op: u32,
    /// End of the write, in sectors of the chunk.
    end: u32,
    /// Result of the data write: `Some(true)` once the data are on the drive, `Some(false)` if they failed,
    /// `None` before.
    data: Option<bool>,
}

/// A chunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    state: ChunkState,
    /// Number of sectors that the table counts.
    written: u32,
    /// Number of sectors assigned to writes.
    reserved: u32,
    generation: u64,
    resetting: bool,
    /// Uncounted writes, in order.
    pending: VecDeque<Pending>,
    /// Number of sectors that the table write in flight will record; 0 if none is in flight.
    saving: u32,
    /// Last sector of the table, while it is not full.
    table: Vec<u8>,
}

impl Chunk {
    /// Creates a chunk that was found with so many counted sectors.
    pub fn found(state: ChunkState, written: u32, generation: u64) -> Chunk {
        Chunk { state, written, reserved: written, generation, ..Chunk::default() }
    }

    /// The chunk as a start would find it after a power cut now: counted sectors are all that there are.
    pub fn after_cut(&self, shape: &ChunkShape) -> Chunk {
        let state = match self.state {
            ChunkState::Offline => self.state,
            _ => shape.state(self.written),
        };
        Chunk::found(state, self.written, self.generation)
    }

    pub fn state(&self) -> ChunkState {
        self.state
    }

    /// Sectors that the table counts.
    pub fn written(&self) -> u32 {
        self.written
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Sets the last sector of the table, which is not full.
    pub fn set_table(&mut self, table: Vec<u8>) {
        self.table = table;
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.table.capacity() + size_of::<Chunk>()
    }

    /// Begins a write of `sectors` from `first` on; the error says why it is refused.
    pub fn begin_write(
        &mut self,
        shape: &ChunkShape,
        op: u32,
        first: u32,
        sectors: u32,
    ) -> Result<(), Status> {
        let fits = u64::from(first) + u64::from(sectors) <= shape.chunks.chunk_sectors.into();
        match self.state {
            ChunkState::Closed | ChunkState::Offline => return Err(Status::ChunkWriteInvalid),
            _ if self.resetting || !fits => return Err(Status::ChunkWriteInvalid),
            _ if first != self.reserved || !sectors.is_multiple_of(shape.chunks.write_min_sectors) => {
                return Err(Status::ChunkOutOfOrder);
            }
            _ => {}
        }
        self.reserved = first + sectors;
        self.state = ChunkState::Open;
        self.pending.push_back(Pending { op, end: self.reserved, data: None });
        Ok(())
    }

    /// The data of a write are on the drive, or not. Returns `false` if an earlier write has failed, so that it counts no more.
    pub fn data_ended(&mut self, op: u32, ok: bool) -> bool {
        let pending = self.pending.iter_mut().find(|pending| pending.op == op);
        pending.map(|pending| pending.data = Some(ok)).is_some()
    }

    /// Closes the chunk after a failed write that begins at `first`: no sector from there on counts, and it takes no more writes. Returns
    /// the commands that end with it; the other writes end with their own data.
    pub fn close(&mut self, first: u32) -> Vec<u32> {
        (self.state, self.reserved) = (ChunkState::Closed, first);
        let mut ended = Vec::new();
        while let Some(&Pending { op, data, .. }) = self.pending.back().filter(|last| last.end > first) {
            ended.extend(data.is_some().then_some(op));
            self.pending.pop_back();
        }
        ended
    }

    /// Returns whether the table can be written now to count more.
    pub fn can_save(&self) -> bool {
        self.saving == 0 && self.pending.front().is_some_and(|first| first.data == Some(true))
    }

    /// Writes whose data and whose predecessors' data are on the drive: command, and end.
    pub fn on_drive(&self) -> impl Iterator<Item = (u32, u32)> {
        let good = self.pending.iter().take_while(|pending| pending.data == Some(true));
        good.map(|pending| (pending.op, pending.end))
    }

    /// Takes the last sector of the table; [`Chunk::begin_save`] follows.
    pub fn take_table(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.table)
    }

    /// A write of the table begins that counts the sectors before `end`.
    pub fn begin_save(&mut self, table: Vec<u8>, end: u32) {
        assert!(self.saving == 0 && end > self.written, "one table write at a time, and it counts more");
        (self.table, self.saving) = (table, end);
    }

    /// The write of the table has ended, well or not.
    pub fn end_save(&mut self, shape: &ChunkShape, ok: bool) {
        let saved = std::mem::take(&mut self.saving);
        if ok {
            self.written = saved;
            if self.state == ChunkState::Open {
                self.state = shape.state(saved);
            }
        }
    }

    /// Takes the next command whose write is counted.
    pub fn next_counted(&mut self) -> Option<u32> {
        let &Pending { op, .. } = self.pending.front().filter(|first| first.end <= self.written)?;
        self.pending.pop_front();
        Some(op)
    }

    /// Begins a reset; the error says why it is refused.
    pub fn begin_reset(&mut self) -> Result<(), Status> {
        match self.state {
            ChunkState::Offline => Err(Status::ChunkOffline),
            ChunkState::Free => Err(Status::ChunkInvalidReset),
            _ if self.resetting || !self.pending.is_empty() || self.saving > 0 => {
                Err(Status::ChunkInvalidReset)
            }
            _ => {
                self.resetting = true;
                Ok(())
            }
        }
    }

    /// The reset goes to the table: returns the generation that begins.
    pub fn next_generation(&mut self) -> u64 {
        assert!(self.resetting, "a generation begins with a reset");
        self.generation += 1;
        self.table.clear();
        self.generation
    }

    /// The reset has failed before its table was written.
    pub fn give_reset_up(&mut self) {
        self.resetting = false;
    }

    /// The table of the reset could not be written: the chunk keeps its state and may be reset again, so that a temporarily full drive
    /// costs no chunk.
    pub fn take_generation_back(&mut self) {
        self.resetting = false;
        self.generation -= 1;
    }

    /// The reset has ended.
    pub fn end_reset(&mut self) {
        (self.state, self.written, self.reserved) = (ChunkState::Free, 0, 0);
        self.resetting = false;
    }
}
