//! Reads and writes of the application. The writes of a block go to the drive one at a time, in order.

use super::blocks::State;
use super::mark::Oob;
use super::{Function, FunctionOutcome, Op, Purpose};
use crate::{FlashAddress, LevelError};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Opcode, Status, Tag, Vector};

impl Function {
    pub(super) fn read(
        &mut self,
        tag: Tag,
        address: FlashAddress,
        sector: u32,
        sectors: u32,
        mut data: Vec<u8>,
    ) -> Result<(), (LevelError, Vec<u8>)> {
        let block = match self.number(address) {
            Ok(block) => block,
            Err(error) => return Err((error, data)),
        };
        let at = self.data_of(block);
        if at == block && !matches!(self.blocks[block].state, State::Mapped | State::Found) {
            return Err((LevelError::NotMapped { address }, data));
        }
        let readable = self.readable(at);
        let first = u64::from(address.page * self.space.page_sectors()) + u64::from(sector);
        if sectors == 0 || first + u64::from(sectors) > readable.into() {
            return Err((LevelError::Unwritten { address, sector, sectors, readable }, data));
        }
        data.resize(sectors as usize * self.space.image_bytes, 0);
        self.blocks[at].readers += 1;
        self.begin_on(at);
        let command = Command::new(0, Opcode::Read, self.sector(at, first as u32), sectors, data);
        self.send(Purpose::Read, tag, at, command);
        Ok(())
    }

    /// The block and the sectors of a write that is allowed.
    pub(super) fn admit(&self, address: FlashAddress, bytes: usize) -> Result<(u32, u32), LevelError> {
        let block = self.number(address)?;
        let page = self.space.page_image_bytes();
        if bytes == 0 || !bytes.is_multiple_of(page) {
            let allowed = format!("a multiple of the {page} of a page");
            return Err(LevelError::Length { what: "data", bytes, allowed });
        }
        let pages = u32::try_from(bytes / page).unwrap_or(u32::MAX);
        self.space.run(address, pages)?;
        let record = &self.blocks[block];
        if record.state != State::Mapped {
            return Err(LevelError::NotMapped { address });
        }
        if record.broken {
            return Err(LevelError::Broken { address });
        }
        let next = match self.wear.swaps(block) {
            true => self.geometry().pages_each_block,
            false => record.taken / self.space.page_sectors(),
        };
        if address.page != next {
            return Err(LevelError::OutOfOrder { address, next });
        }
        Ok((block, pages * self.space.page_sectors()))
    }

    pub(super) fn write(&mut self, tag: Tag, block: u32, sectors: u32, mark: u32, data: Vec<u8>) {
        let mut vector = self.vector();
        if self.blocks[block].taken == 0 {
            self.blocks[block].content = self.next_content;
            self.next_content = self.next_content.wrapping_add(1);
        }
        let erases = self.blocks.erases(block) + u32::from(self.blocks[block].cleaning);
        let record = &mut self.blocks[block];
        let oob = Oob { mark, content: record.content, erases, copy: record.copy }.encode();
        (0..sectors).for_each(|_| vector.metadata.extend_from_slice(&oob));
        let first = record.taken;
        record.taken += sectors;
        let lba = self.sector(block, first);
        let command = Command { vector: Some(vector), ..Command::new(0, Opcode::Write, lba, sectors, data) };
        let op = Op { next: NIL, purpose: Purpose::Write, tag, block, command: Some(command) };
        let op = self.ops.insert(op);
        self.blocks[block].waiting.push_back(&mut self.ops, op);
        self.write_next(block);
    }

    /// Sends the next write of a block, if it may go.
    pub(super) fn write_next(&mut self, block: u32) {
        let record = &mut self.blocks[block];
        if record.writing || record.cleaning {
            return;
        }
        let Some(op) = record.waiting.pop(&mut self.ops) else { return };
        (record.writing, record.dirty) = (true, true);
        self.begin_on(block);
        let command = self.ops[op].command.take().expect("a write that waits has its command");
        self.down.push_back(Command { tag: op.into(), namespace: self.space.namespace, ..command });
    }

    pub(super) fn write_ended(&mut self, op: &Op, completion: &mut Completion) {
        let (data, sectors) = (std::mem::take(&mut completion.data), self.sectors_of(completion));
        self.end_on(op.block);
        let record = &mut self.blocks[op.block];
        record.writing = false;
        if completion.status == Status::Success {
            record.written += sectors;
            self.counters.written_sectors += u64::from(sectors);
            self.answer(op.tag, FunctionOutcome::Done, data);
            self.write_next(op.block);
        } else {
            self.counters.write_failures += 1;
            self.answer(op.tag, FunctionOutcome::Failed(completion.status), data);
            self.break_off(op.block, completion.status);
        }
        self.erase_waiting(self.blocks.lun_of(op.block));
        self.go_on_levelling();
    }

    /// Sectors of a write that has ended: one word of out-of-band data for each.
    pub(super) fn sectors_of(&mut self, completion: &mut Completion) -> u32 {
        let Some(mut vector) = completion.vector.take() else { return 0 };
        let sectors = vector.metadata.len() / Vector::METADATA_BYTES;
        vector.metadata.clear();
        vector.addresses.clear();
        self.vectors.push(vector);
        sectors as u32
    }

    /// The block takes no more: what waits for it fails.
    pub(super) fn break_off(&mut self, block: u32, status: Status) {
        self.blocks.close(block);
        let record = &mut self.blocks[block];
        (record.broken, record.taken) = (true, record.written);
        while let Some(op) = self.blocks[block].waiting.pop(&mut self.ops) {
            let Op { tag, command, .. } = std::mem::take(&mut self.ops[op]);
            self.ops.release(op);
            let Command { data, vector, .. } = command.expect("a write that waits has its command");
            self.vectors.extend(vector.map(|mut vector| {
                vector.metadata.clear();
                vector
            }));
            self.answer(tag, FunctionOutcome::Failed(status), data);
        }
    }

    pub(super) fn read_ended(&mut self, op: &Op, completion: &mut Completion) {
        self.end_on(op.block);
        self.blocks[op.block].readers -= 1;
        let data = std::mem::take(&mut completion.data);
        let outcome = match completion.status {
            Status::Success | Status::HighEcc => {
                self.counters.read_sectors += (data.len() / self.space.image_bytes.max(1)) as u64;
                FunctionOutcome::Done
            }
            status => FunctionOutcome::Failed(status),
        };
        self.answer(op.tag, outcome, data);
        self.erase_waiting(self.blocks.lun_of(op.block));
        self.go_on_levelling();
    }
}
