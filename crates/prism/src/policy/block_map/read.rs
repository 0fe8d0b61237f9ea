//! Reads: the places of a block's sectors, and reading them.

use super::{BlockMap, Op, Part, Purpose, READ_RETRIES};
use pellucid_flash::{Command, Completion, Opcode, Status};

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Chunk(u32),
    Buffer,
    Nowhere,
}

impl BlockMap {
    /// Where a sector of a block lies, and how many behind it lie there too: in a chunk, in the buffer (`None`), or nowhere.
    pub(super) fn locate(&self, logical: u32, sector: u32, most: u32) -> (Place, u32) {
        let block = &self.logical[logical as usize];
        let held = (block.buffer.len() / self.image().max(1)) as u32;
        let mut limit = sector + most;
        if held > 0 && sector < block.from + held {
            if sector >= block.from {
                return (Place::Buffer, (block.from + held).min(limit) - sector);
            }
            limit = limit.min(block.from);
        }
        match block.pieces.iter().find(|piece| piece.ends > sector) {
            Some(piece) => (Place::Chunk(piece.chunk), piece.ends.min(limit) - sector),
            None => (Place::Nowhere, limit - sector),
        }
    }

    pub(super) fn read(&mut self, logical: u32, part: Part) {
        let mut done = 0;
        while done < part.sectors {
            let (place, count) = self.locate(logical, part.first + done, part.sectors - done);
            let (at, sector) = (part.at + done, part.first + done);
            match place {
                Place::Chunk(chunk) => self.read_chunk(part.request, chunk, sector, at, count),
                Place::Buffer => self.read_buffer(logical, part.request, sector, at, count),
                Place::Nowhere => self.read_nothing(part.request, at, count),
            }
            done += count;
        }
        self.part_done(part.request, None);
    }

    fn read_chunk(&mut self, request: u32, chunk: u32, sector: u32, at: u32, sectors: u32) {
        let record = &mut self.requests[request];
        record.left += 1;
        let wanted = !record.command.as_ref().expect("a request has its command").data.is_empty();
        let mut data = if wanted { self.images.pop().unwrap_or_default() } else { Vec::new() };
        data.resize(if wanted { sectors as usize * self.image() } else { 0 }, 0);
        self.chunks[chunk as usize].readers += 1;
        let command = Command::new(0, Opcode::Read, self.lba(chunk, sector), sectors, data);
        self.send(Purpose::Read { request, chunk, at }, command);
    }

    fn read_buffer(&mut self, logical: u32, request: u32, sector: u32, at: u32, sectors: u32) {
        let image = self.image();
        let block = &self.logical[logical as usize];
        let from = (sector - block.from) as usize * image;
        let images = &block.buffer[from..from + sectors as usize * image];
        let command = self.requests[request].command.as_mut().expect("a request has its command");
        if !command.data.is_empty() {
            command.data[at as usize * image..][..images.len()].copy_from_slice(images);
        }
    }

    fn read_nothing(&mut self, request: u32, at: u32, sectors: u32) {
        let image = self.image();
        let record = &mut self.requests[request];
        record.unmapped += sectors;
        let command = record.command.as_mut().expect("a request has its command");
        if !command.data.is_empty() {
            command.data[at as usize * image..][..sectors as usize * image].fill(0);
        }
    }

    /// Sectors have come, or not.
    pub(super) fn read_ended(&mut self, purpose: Purpose, completion: &mut Completion) {
        let Purpose::Read { request, chunk, at, .. } = purpose else { return };
        self.chunks[chunk as usize].readers -= 1;
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        self.counters.lost_reads += u64::from(!ok);
        let image = self.image();
        let record = &mut self.requests[request];
        let command = record.command.as_mut().expect("a request has its command");
        if ok && !completion.data.is_empty() {
            command.data[at as usize * image..][..completion.data.len()].copy_from_slice(&completion.data);
        }
        record.stages = completion.stages;
        self.part_done(request, (!ok).then_some(Status::UnrecoveredRead));
        self.erase_garbage();
    }

    /// Sends a failed read again, if it may be; says whether.
    pub(super) fn tries_again(&mut self, op: Op, completion: &mut Completion) -> bool {
        let reads = matches!(op.purpose, Purpose::Read { .. } | Purpose::Fetch { .. });
        let again = reads && completion.status == Status::UnrecoveredRead && op.tries < READ_RETRIES;
        if again {
            let data = std::mem::take(&mut completion.data);
            let command = Command::new(0, Opcode::Read, op.lba, op.sectors, data);
            self.send_again(op.purpose, op.tries + 1, command);
        }
        again
    }
}
