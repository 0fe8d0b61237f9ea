//! Writes and resets of chunks.

use super::table::{self, HEADER_BYTES, Header};
use super::{BlockChunks, Chunk, Pending, Purpose, Shape};
use pellucid_flash::slab::NIL;
use pellucid_flash::{ChunkState, Command, Completion, Opcode, Status, Vector};

impl Shape {
    /// Returns the state of a chunk of which `written` sectors count.
    pub(super) fn state(&self, written: u32) -> ChunkState {
        match written {
            0 => ChunkState::Free,
            all if all == self.chunks.chunk_sectors => ChunkState::Closed,
            _ => ChunkState::Open,
        }
    }
}

impl BlockChunks {
    pub(super) fn start_write(&mut self, op: u32) {
        let command = self.command(op);
        let (sectors, fua) = (command.sectors, command.fua || self.config.force_writes);
        let Some((number, first)) = self.shape.place(command.lba) else {
            return self.finish(op, Status::LbaOutOfRange);
        };
        let chunk = &self.chunks[number as usize];
        let fits = u64::from(first) + u64::from(sectors) <= self.shape.chunks.chunk_sectors.into();
        let status = match chunk.state {
            ChunkState::Closed | ChunkState::Offline => Some(Status::ChunkWriteInvalid),
            _ if chunk.resetting || !fits => Some(Status::ChunkWriteInvalid),
            _ if first != chunk.reserved || !sectors.is_multiple_of(self.shape.chunks.write_min_sectors) => {
                Some(Status::ChunkOutOfOrder)
            }
            _ => None,
        };
        if let Some(status) = status {
            return self.finish(op, status);
        }
        let end = first + sectors;
        let chunk = &mut self.chunks[number as usize];
        chunk.reserved = end;
        chunk.state = ChunkState::Open;
        chunk.pending.push_back(Pending { op, end, data: None });
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let data = std::mem::take(&mut command.data);
        let write = Command::new(0, Opcode::Write, self.shape.data(number, first), sectors, data);
        self.send_new(op, Purpose::Data, Command { fua, ..write });
    }

    /// Handles the end of a data write.
    pub(super) fn data_ended(&mut self, op: u32, completion: Completion) {
        let command = self.ops[op].command.as_mut().expect("a command under way");
        command.data = completion.data;
        let (number, first) = self.shape.place(command.lba).expect("checked when it began");
        let chunk = &mut self.chunks[number as usize];
        let ok = completion.status == Status::Success;
        match chunk.pending.iter_mut().find(|pending| pending.op == op) {
            // An earlier write has failed.
            None => return self.finish(op, Status::ChunkWriteFailed),
            Some(pending) => pending.data = Some(ok),
        }
        if !ok {
            self.close(number, first);
        }
        self.save(number);
    }

    /// Closes a chunk after a failed write that begins at `first`: no sector from there on counts, and the
    /// chunk takes no more writes.
    fn close(&mut self, number: u32, first: u32) {
        let chunk = &mut self.chunks[number as usize];
        (chunk.state, chunk.reserved) = (ChunkState::Closed, first);
        while let Some(last) = self.chunks[number as usize].pending.pop_back() {
            if last.end <= first {
                return self.chunks[number as usize].pending.push_back(last);
            }
            // The other writes end with their own data.
            if last.data.is_some() {
                self.finish(last.op, Status::ChunkClosedEarly);
            }
        }
    }

    /// Counts the writes in the table whose data and whose predecessors' data are on the drive. It writes one
    /// table sector at a time, because a later sector must not be on the media before an earlier one.
    fn save(&mut self, number: u32) {
        let Chunk { written, generation, saving, ref pending, .. } = self.chunks[number as usize];
        if saving > 0 || pending.front().is_none_or(|first| first.data != Some(true)) {
            return;
        }
        let write_sectors = self.shape.chunks.write_min_sectors;
        let entry = write_sectors as usize * Vector::METADATA_BYTES;
        let first = written / write_sectors;
        let full = (first / self.shape.per_sector + 1) * self.shape.per_sector;
        let mut table = std::mem::take(&mut self.chunks[number as usize].table);
        table.truncate(HEADER_BYTES + (first % self.shape.per_sector) as usize * entry);
        table.resize(HEADER_BYTES + (first % self.shape.per_sector) as usize * entry, 0);
        let (mut fua, mut write) = (self.config.force_writes, first);
        for pending in &self.chunks[number as usize].pending {
            if pending.data != Some(true) || write == full {
                break;
            }
            let command = self.ops[pending.op].command.as_ref().expect("a command under way");
            fua |= command.fua;
            let begin = (pending.end - command.sectors) / write_sectors;
            let oob = command.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
            // A write that crosses a full table sector continues in the next one.
            while write < full && write < pending.end / write_sectors {
                let at = (write - begin) as usize * entry;
                match oob.get(at..at + entry) {
                    Some(oob) => table.extend_from_slice(oob),
                    None => table.resize(table.len() + entry, 0),
                }
                write += 1;
            }
        }
        let writes = write - first / self.shape.per_sector * self.shape.per_sector;
        table::seal(
            &mut table,
            Header { epoch: self.epoch, generation, chunk: number, writes },
            self.shape.chunks.sector_bytes as usize,
        );
        let mut image = self.buffers.pop().unwrap_or_default();
        image.clear();
        if self.keeps_content() {
            image.extend_from_slice(&table);
        } else {
            self.keep_stamps(number, write * write_sectors);
        }
        image.resize(self.image_bytes, 0);
        if write == full {
            table.clear();
        }
        let chunk = &mut self.chunks[number as usize];
        (chunk.table, chunk.saving) = (table, write * write_sectors);
        self.table_sectors += 1;
        let at = self.shape.table(self.shape.table_of(number, first));
        let save = Command::new(0, Opcode::Write, at, 1, image);
        self.send_new(NIL, Purpose::Table(number), Command { fua, ..save });
    }

    /// Keeps the out-of-band data of counted writes up to sector `saving`, if the drive keeps stamps.
    fn keep_stamps(&mut self, number: u32, saving: u32) {
        let stamps = &mut self.stamps[number as usize];
        stamps.resize(self.shape.chunks.chunk_sectors as usize * Vector::METADATA_BYTES, 0);
        for pending in
            self.chunks[number as usize].pending.iter().take_while(|pending| pending.data == Some(true))
        {
            let command = self.ops[pending.op].command.as_ref().expect("a command under way");
            let first = pending.end - command.sectors;
            if first >= saving {
                break;
            }
            let place = &mut stamps[first as usize * Vector::METADATA_BYTES..]
                [..command.sectors as usize * Vector::METADATA_BYTES];
            match &command.vector {
                Some(vector) if !vector.metadata.is_empty() => place.copy_from_slice(&vector.metadata),
                _ => place.fill(0),
            }
        }
    }

    pub(super) fn table_ended(&mut self, number: u32, completion: Completion) {
        self.give_back(completion.data);
        let chunk = &mut self.chunks[number as usize];
        let saved = std::mem::take(&mut chunk.saving);
        if completion.status != Status::Success {
            let first = chunk.written;
            self.close(number, first);
            return;
        }
        chunk.written = saved;
        if chunk.state == ChunkState::Open {
            chunk.state = self.shape.state(saved);
        }
        while let Some(first) =
            self.chunks[number as usize].pending.front().filter(|first| first.end <= saved)
        {
            let op = first.op;
            self.chunks[number as usize].pending.pop_front();
            self.finish(op, Status::Success);
        }
        self.save(number);
    }

    // ---- resets

    pub(super) fn start_reset(&mut self, op: u32) {
        let (number, _) = self.shape.place(self.command(op).lba).expect("checked at submission");
        let chunk = &mut self.chunks[number as usize];
        let status = match chunk.state {
            ChunkState::Offline => Status::ChunkOffline,
            ChunkState::Free => Status::ChunkInvalidReset,
            _ if chunk.resetting || !chunk.pending.is_empty() || chunk.saving > 0 => {
                Status::ChunkInvalidReset
            }
            _ => {
                chunk.resetting = true;
                if self.config.force_writes {
                    return self.reset_goes_on(op, Purpose::ResetFlush, Status::Success);
                }
                // Copies of the data elsewhere must be on the media before the originals go.
                let flush = Command::new(0, Opcode::Flush, pellucid_flash::Lba(0), 0, Vec::new());
                return self.send_new(op, Purpose::ResetFlush, flush);
            }
        };
        self.finish(op, status);
    }

    pub(super) fn reset_goes_on(&mut self, op: u32, done: Purpose, status: Status) {
        let (number, _) = self.shape.place(self.command(op).lba).expect("checked at submission");
        let chunk = &mut self.chunks[number as usize];
        match (done, status) {
            (Purpose::ResetFlush, Status::Success) => {
                chunk.generation += 1;
                chunk.table.clear();
                let header =
                    Header { epoch: self.epoch, generation: chunk.generation, chunk: number, writes: 0 };
                let mut image = Vec::new();
                table::seal(&mut image, header, self.shape.chunks.sector_bytes as usize);
                image.resize(self.image_bytes, 0);
                self.table_sectors += 1;
                let at = self.shape.table(self.shape.table_of(number, 0));
                let save = Command::new(0, Opcode::Write, at, 1, image);
                self.send_new(op, Purpose::ResetTable, Command { fua: true, ..save });
            }
            (Purpose::ResetFlush, _) => {
                chunk.resetting = false;
                self.finish(op, Status::ChunkInvalidReset);
            }
            (Purpose::ResetTable, Status::Success) => {
                let trim = Command::new(
                    0,
                    Opcode::Trim,
                    self.shape.data(number, 0),
                    self.shape.chunks.chunk_sectors,
                    Vec::new(),
                );
                self.send_new(op, Purpose::ResetTrim, trim);
            }
            (Purpose::ResetTable, status) => {
                // The chunk keeps its state and may be reset again: a temporarily full drive costs no chunk.
                chunk.resetting = false;
                chunk.generation -= 1;
                self.finish(op, status);
            }
            // The trim is a hint: the chunk is free even if it fails.
            _ => {
                (chunk.state, chunk.written, chunk.reserved) = (ChunkState::Free, 0, 0);
                chunk.resetting = false;
                self.finish(op, Status::Success);
            }
        }
    }
}
