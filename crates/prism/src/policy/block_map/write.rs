//! The writer of each block: one command at a time.
//!
//! ```text
//!   queue ─► goes on at the buffer's end? ─ yes ─► buffer ─► whole pages ─► top piece
//!              └─ no ─► the buffer is padded and written; a new top piece, if the open one does not end before
//!                         └─► copies up to there ─► page in the middle: what lies before the buffer is put before it
//! ```

use super::{BlockMap, Fetch, Part, Piece, Purpose};
use pellucid_flash::{Command, Completion, Opcode, Status, Vector};

/// Sectors of the longest copy, and of the longest write.
const COPY_MAX: u32 = 64;
const WRITE_MAX: u32 = 4096;
/// After this many failures in a row nothing is written until it is tried again.
const FAILURES_MAX: u32 = 32;

/// Result of the next look at a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Something was done; look again.
    Again,
    /// The writer waits for a command, or for a chunk.
    Waits,
    /// There is nothing to do.
    Rests,
}

impl BlockMap {
    /// A change of a block is to be made.
    pub(super) fn change(&mut self, logical: u32, part: Part) {
        self.clock += 1;
        let block = &mut self.logical[logical as usize];
        block.touched = self.clock;
        block.queue.push_back(part);
        self.go_on(logical);
    }

    /// Does what there is to do for a block.
    pub(super) fn go_on(&mut self, logical: u32) {
        while !self.logical[logical as usize].busy {
            let mut look = self.write_buffer(logical, !self.logical[logical as usize].awaited.is_empty());
            if look == Look::Rests {
                look = self.next_change(logical);
            }
            // A block that waits for a chunk can be merged all the same.
            if look == Look::Rests || (look == Look::Waits && !self.logical[logical as usize].busy) {
                look = self.merge(logical);
            }
            if look != Look::Again {
                break;
            }
        }
        self.erase_garbage();
    }

    fn held(&self, logical: u32) -> u32 {
        (self.logical[logical as usize].buffer.len() / self.image()) as u32
    }

    /// Writes the whole pages of the buffer, or (`drain`) all of it.
    fn write_buffer(&mut self, logical: u32, drain: bool) -> Look {
        let (held, unit) = (self.held(logical), self.unit());
        if self.logical[logical as usize].stuck {
            return Look::Rests;
        }
        if held < unit && !(drain && held > 0) {
            return self.acknowledge(logical);
        }
        if self.prepare(logical, self.logical[logical as usize].from) != Look::Rests {
            return if self.logical[logical as usize].busy {
                Look::Waits
            } else {
                self.again_or_starved(logical)
            };
        }
        let block = &self.logical[logical as usize];
        let rest = (block.from + held) % unit;
        if held < unit || (drain && rest > 0 && held < WRITE_MAX) {
            return self.pad(logical, block.from + held);
        }
        let sectors = held.min(WRITE_MAX) / unit * unit;
        let mut data = self.images.pop().unwrap_or_default();
        data.clear();
        data.extend_from_slice(&self.logical[logical as usize].buffer[..sectors as usize * self.image()]);
        self.store(logical, data, sectors, false);
        Look::Waits
    }

    fn again_or_starved(&self, logical: u32) -> Look {
        match self.logical[logical as usize].starved {
            true => Look::Waits,
            false => Look::Again,
        }
    }

    /// Acknowledges the change of a buffer that holds less than a page; when the buffer is empty, it also acknowledges the changes
    /// that wait for this.
    fn acknowledge(&mut self, logical: u32) -> Look {
        let block = &mut self.logical[logical as usize];
        if let Some(part) = block.taken.take() {
            let command = self.requests[part.request].command.as_ref().expect("a request has its command");
            match command.fua && !block.buffer.is_empty() {
                true => block.awaited.push(part.request),
                false => self.part_done(part.request, None),
            }
            return Look::Again;
        }
        if block.buffer.is_empty() {
            for request in std::mem::take(&mut block.awaited) {
                self.part_done(request, None);
            }
        }
        Look::Rests
    }

    /// Makes the top piece end at `to`, which may lie in mid-page: then the buffer is made longer. `Rests`: it does.
    fn prepare(&mut self, logical: u32, to: u32) -> Look {
        let fits = |piece: &&Piece| piece.open && piece.ends <= to;
        if self.logical[logical as usize].pieces.first().filter(fits).is_none() {
            // Data in the buffer may be acknowledged: they may have the reserve.
            return match self.begin_piece(logical, false) {
                true => Look::Again,
                false => {
                    self.starve(logical);
                    Look::Waits
                }
            };
        }
        let (ends, unit) = (self.logical[logical as usize].pieces[0].ends, self.unit());
        match to - ends {
            0 => Look::Rests,
            before if before < unit => self.put_before(logical, ends, before),
            _ => self.copy(logical, to / unit * unit),
        }
    }

    /// A new top piece; `false`: there is no chunk for it.
    fn begin_piece(&mut self, logical: u32, for_application: bool) -> bool {
        let Some(chunk) = self.take_chunk(for_application) else { return false };
        let piece = Piece { chunk, ends: 0, open: true, sequence: self.sequence };
        self.sequence += 1;
        self.logical[logical as usize].pieces.insert(0, piece);
        self.drop_covered(logical);
        true
    }

    /// Pieces that newer ones cover are not needed.
    pub(super) fn drop_covered(&mut self, logical: u32) {
        if self.logical[logical as usize].pieces.len() < 2 {
            return;
        }
        let pieces = std::mem::take(&mut self.logical[logical as usize].pieces);
        let (mut kept, mut reach) = (Vec::with_capacity(pieces.len()), None);
        for piece in pieces {
            if reach.is_none_or(|reach| piece.ends > reach) {
                reach = Some(piece.ends);
                kept.push(piece);
            } else {
                self.discard(piece.chunk, logical, piece.sequence, false);
            }
        }
        self.logical[logical as usize].pieces = kept;
    }

    /// Where a sector below the top piece lies.
    fn below(&self, logical: u32, sector: u32) -> Option<Piece> {
        self.logical[logical as usize].pieces.iter().skip(1).find(|piece| piece.ends > sector).copied()
    }

    /// Copies some of the data below the top piece to it, up to `target`.
    fn copy(&mut self, logical: u32, target: u32) -> Look {
        let ends = self.logical[logical as usize].pieces[0].ends;
        let most = target.min(ends + COPY_MAX.max(self.unit()) / self.unit() * self.unit());
        match self.below(logical, ends) {
            Some(piece) => {
                self.fetch(logical, piece.chunk, ends, most.min(piece.ends) - ends, Fetch::Copy);
            }
            None => {
                let mut data = self.images.pop().unwrap_or_default();
                data.clear();
                data.resize((most - ends) as usize * self.image(), 0);
                self.store(logical, data, most - ends, true);
            }
        }
        Look::Waits
    }

    fn put_before(&mut self, logical: u32, sector: u32, sectors: u32) -> Look {
        match self.below(logical, sector) {
            Some(piece) => {
                self.fetch(logical, piece.chunk, sector, sectors, Fetch::Before);
                Look::Waits
            }
            None => {
                let bytes = sectors as usize * self.image();
                self.extend_front(logical, &vec![0; bytes]);
                Look::Again
            }
        }
    }

    fn extend_front(&mut self, logical: u32, images: &[u8]) {
        let sectors = (images.len() / self.image()) as u32;
        let block = &mut self.logical[logical as usize];
        block.buffer.splice(..0, images.iter().copied());
        block.from -= sectors;
    }

    /// Makes the buffer end with a page.
    fn pad(&mut self, logical: u32, end: u32) -> Look {
        let sectors = end.next_multiple_of(self.unit()) - end;
        match self.below(logical, end) {
            Some(piece) => {
                self.fetch(logical, piece.chunk, end, sectors, Fetch::Behind);
                Look::Waits
            }
            None => {
                let bytes = sectors as usize * self.image();
                let buffer = &mut self.logical[logical as usize].buffer;
                buffer.resize(buffer.len() + bytes, 0);
                Look::Again
            }
        }
    }

    fn fetch(&mut self, logical: u32, chunk: u32, sector: u32, sectors: u32, what: Fetch) {
        let mut data = self.images.pop().unwrap_or_default();
        data.resize(sectors as usize * self.image(), 0);
        self.chunks[chunk as usize].readers += 1;
        self.logical[logical as usize].busy = true;
        let command = Command::new(0, Opcode::Read, self.lba(chunk, sector), sectors, data);
        self.send(Purpose::Fetch { logical, chunk, what }, command);
    }

    pub(super) fn fetched(&mut self, logical: u32, chunk: u32, what: Fetch, completion: &mut Completion) {
        self.chunks[chunk as usize].readers -= 1;
        self.logical[logical as usize].busy = false;
        if !matches!(completion.status, Status::Success | Status::HighEcc) {
            self.counters.lost_reads += 1;
            self.copy_fails(logical);
        } else {
            match what {
                Fetch::Copy => {
                    let data = std::mem::take(&mut completion.data);
                    let sectors = (data.len() / self.image()) as u32;
                    self.store(logical, data, sectors, true);
                }
                Fetch::Before => self.extend_front(logical, &completion.data),
                Fetch::Behind => {
                    self.logical[logical as usize].buffer.extend_from_slice(&completion.data);
                }
            }
        }
        self.go_on(logical);
    }

    /// Writes to the end of the top piece.
    fn store(&mut self, logical: u32, data: Vec<u8>, sectors: u32, copy: bool) {
        let block = &mut self.logical[logical as usize];
        block.busy = true;
        let Piece { chunk, ends, sequence, .. } = block.pieces[0];
        let lun = self.lun_of(chunk);
        self.writing[lun] += 1;
        let oob = super::start::encode(logical, self.id, sequence);
        let mut vector = self.vectors.pop().unwrap_or_default();
        vector.metadata.reserve(sectors as usize * Vector::METADATA_BYTES);
        (0..sectors).for_each(|_| vector.metadata.extend_from_slice(&oob));
        let command = Command::new(0, Opcode::Write, self.lba(chunk, ends), sectors, data);
        self.send(Purpose::Store { logical, copy }, Command { vector: Some(vector), ..command });
    }

    pub(super) fn stored(&mut self, logical: u32, copy: bool, completion: &mut Completion) {
        let (image, length) = (self.image(), self.length());
        let sectors = (completion.data.len() / image) as u32;
        let lun = self.lun_of(self.logical[logical as usize].pieces[0].chunk);
        self.writing[lun] -= 1;
        let block = &mut self.logical[logical as usize];
        block.busy = false;
        let top = &mut block.pieces[0];
        if completion.status == Status::Success {
            top.ends += sectors;
            top.open = top.ends < length;
            if !copy {
                block.buffer.drain(..sectors as usize * image);
                block.from += sectors;
            }
            self.counters.programmed += u64::from(sectors);
            self.counters.copied += if copy { u64::from(sectors) } else { 0 };
            self.failures_in_a_row = 0;
            self.drop_covered(logical);
        } else {
            self.counters.write_failures += 1;
            top.open = false;
            self.failures_in_a_row += 1;
            if self.failures_in_a_row >= FAILURES_MAX {
                (self.read_only, block.stuck) = (true, true);
                self.fail_changes(logical);
            }
        }
        self.go_on(logical);
    }

    /// Makes the next change of a block, as far as the buffer.
    fn next_change(&mut self, logical: u32) -> Look {
        let Some(&part) = self.logical[logical as usize].queue.front() else { return Look::Rests };
        if self.logical[logical as usize].stuck {
            self.fail_changes(logical);
            return Look::Rests;
        }
        let command = self.requests[part.request].command.as_ref().expect("a request has its command");
        let zeros = command.opcode != Opcode::Write;
        let held = self.held(logical);
        let block = &self.logical[logical as usize];
        if held > 0 && block.from + held != part.first {
            return self.write_buffer(logical, true);
        }
        if zeros && self.is_whole(logical, part) {
            return match held {
                0 => self.trim(logical, part),
                _ => self.write_buffer(logical, true),
            };
        }
        let reach = block.pieces.last().map_or(0, |piece| piece.ends);
        if zeros && held == 0 && reach <= part.first {
            self.logical[logical as usize].queue.pop_front();
            self.part_done(part.request, None);
            return Look::Again;
        }
        // Before its data are taken in, there is a chunk for them.
        let fits = |piece: &&Piece| piece.open && piece.ends <= part.first;
        if held == 0 && block.pieces.first().filter(fits).is_none() && !self.begin_piece(logical, true) {
            self.starve(logical);
            return Look::Waits;
        }
        self.take_in(logical, part, zeros);
        Look::Again
    }

    fn take_in(&mut self, logical: u32, part: Part, zeros: bool) {
        let image = self.image();
        let bytes = part.sectors as usize * image;
        let block = &mut self.logical[logical as usize];
        if block.buffer.is_empty() {
            block.from = part.first;
        }
        let command = self.requests[part.request].command.as_ref().expect("a request has its command");
        match zeros {
            true => block.buffer.resize(block.buffer.len() + bytes, 0),
            false => block.buffer.extend_from_slice(&command.data[part.at as usize * image..][..bytes]),
        }
        block.taken = Some(part);
        block.queue.pop_front();
    }

    fn is_whole(&self, logical: u32, part: Part) -> bool {
        let length = u64::from(self.length());
        let left = self.sectors - u64::from(logical) * length;
        part.first == 0 && u64::from(part.sectors) == length.min(left)
    }

    /// The whole block is trimmed.
    fn trim(&mut self, logical: u32, part: Part) -> Look {
        let block = &mut self.logical[logical as usize];
        block.queue.pop_front();
        block.lame = false;
        for piece in std::mem::take(&mut block.pieces) {
            self.discard(piece.chunk, logical, piece.sequence, true);
        }
        self.part_done(part.request, None);
        Look::Again
    }

    /// Copies the rest of a block that is being merged.
    fn merge(&mut self, logical: u32) -> Look {
        if !self.logical[logical as usize].merging {
            return Look::Rests;
        }
        let block = &self.logical[logical as usize];
        if block.pieces.len() > 1 && !block.lame && !block.stuck {
            if self.held(logical) > 0 {
                return self.write_buffer(logical, true);
            }
            if !self.logical[logical as usize].pieces[0].open {
                return match self.begin_piece(logical, false) {
                    true => Look::Again,
                    false => self.merged(logical),
                };
            }
            let last = self.logical[logical as usize].pieces.last().map_or(0, |piece| piece.ends);
            return self.copy(logical, last);
        }
        self.merged(logical)
    }

    fn merged(&mut self, logical: u32) -> Look {
        self.logical[logical as usize].merging = false;
        if let Some((_, since)) = self.merging.take() {
            self.counters.pauses.record(self.now.since(since));
        }
        self.erase_garbage();
        if !self.starved.is_empty() {
            self.make_space();
        }
        Look::Rests
    }

    /// Fails the block: data to copy cannot be read.
    fn copy_fails(&mut self, logical: u32) {
        let held = self.held(logical);
        let block = &mut self.logical[logical as usize];
        block.lame = true;
        if held == 0 {
            return;
        }
        match block.taken.take_if(|part| part.sectors == held) {
            // Nothing in the buffer was acknowledged.
            Some(part) => {
                block.buffer.clear();
                self.part_done(part.request, Some(Status::WriteFault));
            }
            None => {
                block.stuck = true;
                self.fail_changes(logical);
            }
        }
    }

    /// Fails everything that waits for a block that cannot be written.
    pub(super) fn fail_changes(&mut self, logical: u32) {
        let image = self.image();
        let block = &mut self.logical[logical as usize];
        let taken = block.taken.take();
        if let Some(part) = taken {
            let left = block.buffer.len() - (part.sectors as usize * image).min(block.buffer.len());
            block.buffer.truncate(left);
        }
        let queue = std::mem::take(&mut block.queue).into_iter().map(|part| part.request);
        let failed: Vec<u32> = taken.map(|part| part.request).into_iter().chain(queue).collect();
        let failed = failed.into_iter().chain(std::mem::take(&mut block.awaited));
        for request in failed.collect::<Vec<_>>() {
            self.part_done(request, Some(Status::WriteFault));
        }
    }
}
