//! Commands of the application: which are refused, what they wait for, and their ends.

use super::{BlockMap, Garbage, Logical, Part};
use pellucid_flash::{Command, Completion, Opcode, Stage, Status};

impl BlockMap {
    pub(super) fn refuse(&self, command: &Command) -> Option<Status> {
        let carries = match command.opcode {
            Opcode::Write => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush => return None,
            Opcode::Trim | Opcode::WriteZeroes => false,
            _ => return Some(Status::InvalidOpcode),
        };
        if self.failure.is_some() {
            return Some(Status::ReadOnly);
        }
        let bytes = command.sectors as usize * self.image();
        if command.sectors == 0 || command.vector.is_some() || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.sectors) {
            return Some(Status::LbaOutOfRange);
        }
        // A trim frees chunks.
        let writes = matches!(command.opcode, Opcode::Write | Opcode::WriteZeroes);
        (self.read_only && writes).then_some(Status::ReadOnly)
    }

    /// A command is taken up.
    pub(super) fn arrived(&mut self, request: u32) {
        let command = self.requests[request].command.as_ref().expect("a request has its command");
        let (opcode, lba, sectors) = (command.opcode, command.lba.0, command.sectors);
        // Held open until all parts are known.
        self.requests[request].left = 1;
        match opcode {
            Opcode::Flush => self.flush(request),
            _ => {
                let (length, mut at) = (u64::from(self.length()), 0);
                while at < sectors {
                    let (logical, first) = ((lba + u64::from(at)) / length, (lba + u64::from(at)) % length);
                    let count = (length - first).min(u64::from(sectors - at)) as u32;
                    let part = Part { request, first: first as u32, sectors: count, at };
                    self.requests[request].left += 1;
                    match opcode {
                        Opcode::Read => self.read(logical as u32, part),
                        _ => self.change(logical as u32, part),
                    }
                    at += count;
                }
            }
        }
        self.part_done(request, None);
    }

    /// Something that a request waited for has ended, perhaps badly.
    pub(super) fn part_done(&mut self, request: u32, status: Option<Status>) {
        let record = &mut self.requests[request];
        record.status = record.status.or(status);
        record.left -= 1;
        if record.left > 0 {
            return;
        }
        let command = record.command.take().expect("a request has its command");
        let (submitted, unmapped) = (record.submitted, record.unmapped);
        let status = record.status.unwrap_or(Status::Success);
        let mut stages = record.stages;
        let total = self.now - submitted;
        stages.add(Stage::Host, pellucid_flash::Nanos(total.0.saturating_sub(stages.total().0)));
        match (command.opcode, status) {
            (Opcode::Read, Status::Success) => self.counters.read += u64::from(command.sectors),
            (Opcode::Write, Status::Success) => self.counters.written += u64::from(command.sectors),
            _ => {}
        }
        self.requests.release(request);
        let ended = command.ended(status, submitted, self.now, stages);
        self.up.push_back(Completion { unmapped, ..ended });
    }

    fn flush(&mut self, request: u32) {
        let waits = |logical: &Logical| !logical.buffer.is_empty();
        let blocks: Vec<u32> = (0..).zip(&self.logical).filter(|(_, l)| waits(l)).map(|(n, _)| n).collect();
        for &block in &blocks {
            let block = &mut self.logical[block as usize];
            let record = &mut self.requests[request];
            match block.stuck {
                // Its buffer will never be written.
                true => record.status = Some(Status::WriteFault),
                false => {
                    record.left += 1;
                    block.awaited.push(request);
                }
            }
        }
        let garbage = self.garbage.iter().copied().chain(self.erased_now());
        let trimmed: Vec<Garbage> = garbage.filter(|garbage| garbage.trimmed).collect();
        for garbage in trimmed {
            self.requests[request].left += 1;
            self.chunks[garbage.chunk as usize].awaited.push(request);
        }
        blocks.into_iter().for_each(|block| self.go_on(block));
    }
}
