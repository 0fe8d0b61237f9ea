//! Reads and writes of the application. The writes to a block are sent one at a time, in order.

use super::blocks::State;
use super::erase::erase_waiting;
use super::link::{Op, Purpose};
use super::mark::Oob;
use super::{Function, FunctionOutcome, wear};
use crate::{FlashAddress, LevelError};
use pellucid_flash::{Command, Completion, Opcode, Status, Tag};

/// Reads `sectors` sectors of a block, starting `sector` sectors after the page of `address`; an error returns
/// the buffer.
pub(super) fn read(
    function: &mut Function,
    tag: Tag,
    address: FlashAddress,
    sector: u32,
    sectors: u32,
    mut data: Vec<u8>,
) -> Result<(), (LevelError, Vec<u8>)> {
    let block = match function.number(address) {
        Ok(block) => block,
        Err(error) => return Err((error, data)),
    };
    let at = function.wear.data_of(block);
    if at == block && !matches!(function.blocks[block].state(), State::Mapped | State::Found) {
        return Err((LevelError::NotMapped { address }, data));
    }
    let readable = function.readable(at);
    let first = u64::from(address.page * function.space.page_sectors()) + u64::from(sector);
    if sectors == 0 || first + u64::from(sectors) > readable.into() {
        return Err((LevelError::Unwritten { address, sector, sectors, readable }, data));
    }
    data.resize(sectors as usize * function.space.image_bytes, 0);
    function.blocks[at].begin_read();
    function.blocks.begin_on(at);
    let command = Command::new(0, Opcode::Read, function.sector(at, first as u32), sectors, data);
    function.link.send(Purpose::Read, tag, at, command);
    Ok(())
}

/// Checks a write; returns its block and sectors.
pub(super) fn admit(
    function: &Function,
    address: FlashAddress,
    bytes: usize,
) -> Result<(u32, u32), LevelError> {
    let space = &function.space;
    let block = function.number(address)?;
    let page = space.page_image_bytes();
    if bytes == 0 || !bytes.is_multiple_of(page) {
        let allowed = format!("a multiple of the {page} of a page");
        return Err(LevelError::Length { what: "data", bytes, allowed });
    }
    let pages = u32::try_from(bytes / page).unwrap_or(u32::MAX);
    space.run(address, pages)?;
    let record = &function.blocks[block];
    if record.state() != State::Mapped {
        return Err(LevelError::NotMapped { address });
    }
    if record.is_broken() {
        return Err(LevelError::Broken { address });
    }
    let next = match function.wear.swaps(block) {
        true => function.geometry().pages_each_block,
        false => record.taken() / space.page_sectors(),
    };
    if address.page != next {
        return Err(LevelError::OutOfOrder { address, next });
    }
    Ok((block, pages * space.page_sectors()))
}

/// Accepts a checked write.
pub(super) fn write(function: &mut Function, tag: Tag, block: u32, sectors: u32, mark: u32, data: Vec<u8>) {
    let mut vector = function.link.vector();
    if function.blocks[block].taken() == 0 {
        function.blocks.begin_content(block);
    }
    let erases = function.blocks.erases(block) + u32::from(function.blocks[block].is_cleaning());
    let (content, copy) = function.blocks[block].content();
    let oob = Oob { mark, content, erases, copy }.encode();
    (0..sectors).for_each(|_| vector.metadata.extend_from_slice(&oob));
    let first = function.blocks[block].take(sectors);
    let lba = function.sector(block, first);
    let command = Command { vector: Some(vector), ..Command::new(0, Opcode::Write, lba, sectors, data) };
    let op = function.link.keep_write(tag, block, command);
    function.blocks[block].push_write(function.link.records(), op);
    write_next(function, block);
}

/// Sends the next write of a block, if possible.
pub(super) fn write_next(function: &mut Function, block: u32) {
    if let Some(op) = function.blocks[block].next_write(function.link.records()) {
        function.blocks.begin_on(block);
        function.link.send_write(op);
    }
}

/// Handles the end of an application's write.
pub(super) fn write_ended(function: &mut Function, op: &Op, completion: &mut Completion) {
    let (block, data) = (op.block(), std::mem::take(&mut completion.data));
    let sectors = function.link.sectors_of(completion);
    function.blocks.end_on(block);
    if completion.status == Status::Success {
        function.blocks[block].end_write(sectors);
        function.tally.written(sectors);
        function.answer(op.tag(), FunctionOutcome::Done, data);
        write_next(function, block);
    } else {
        function.blocks[block].end_write(0);
        function.tally.write_failure();
        function.answer(op.tag(), FunctionOutcome::Failed(completion.status), data);
        break_off(function, block, completion.status);
    }
    erase_waiting(function, function.blocks.lun_of(block));
    wear::go_on(function);
}

/// Closes a failed block: its waiting writes fail.
pub(super) fn break_off(function: &mut Function, block: u32, status: Status) {
    function.blocks.close(block);
    while let Some(op) = function.blocks[block].break_off(function.link.records()) {
        let (tag, data) = function.link.drop_write(op);
        function.answer(tag, FunctionOutcome::Failed(status), data);
    }
}

/// Handles the end of an application's read.
pub(super) fn read_ended(function: &mut Function, op: &Op, completion: &mut Completion) {
    let block = op.block();
    function.blocks.end_on(block);
    function.blocks[block].end_read();
    let data = std::mem::take(&mut completion.data);
    let outcome = match completion.status {
        Status::Success | Status::HighEcc => {
            function.tally.read((data.len() / function.space.image_bytes.max(1)) as u64);
            FunctionOutcome::Done
        }
        status => FunctionOutcome::Failed(status),
    };
    function.answer(op.tag(), outcome, data);
    erase_waiting(function, function.blocks.lun_of(block));
    wear::go_on(function);
}
