//! The function level: the application maps, copies and decides when; the library allocates, erases, levels and reserves (section IV-C).
//!
//! | paper | here |
//! |---|---|
//! | `Get_SSD_Geometry` | [`Function::geometry`] |
//! | `Address_Mapper(channel, &address, option)` | [`Function::address_mapper`], [`Function::free_blocks`] |
//! | `Flash_Trim(channel, address)` | [`Function::flash_trim`] |
//! | `Flash_SetOPS(percentage)` | [`Function::set_ops`] |
//! | `Flash_Read`, `Flash_Write` | [`FunctionCall::Read`], [`FunctionCall::Write`] |
//! | `Wear_Leveler(&shuffle_blocks)` | [`FunctionCall::LevelWear`] |
//!
//! ```text
//!   ask ─► read ──────────────────────────────────────────────────────► drive      at once
//!          write ─► queue of its block: one at a time, in order ──────► drive
//!          level ─► copies and erases of two blocks and a spare one ──► drive      one command at a time
//!   flash_trim ───► queue of its LUN: one erase at a time ────────────► drive      when the LUN is idle, see `erase`
//! ```
//! **Mapping.** With [`Mapping::Block`] a call hands out a block. With [`Mapping::Page`] it hands out the next page of an open block in the channel,
//! LUN by LUN. Flash is written in order, so the pages of each block are written in the order in which they were handed out; it is erased in blocks,
//! so a block is given back once none of its pages is needed.
//!
//! **Restart.** Every sector has the application's word ([mark](FunctionCall::Write)) and the library's own (`mark.rs`) as metadata. A start reads
//! one sector of every block that holds data, and lists these blocks ([`Function::found`]): address, mark of the first sector, written length. The
//! application recognises its data by the mark, or by reading them, and names the blocks that it keeps ([`Function::recover`]); all others are erased
//! in the background. A block that wear levelling was moving when the power failed is listed exactly once, complete. After a crash, an application
//! must trust the marks, not remembered addresses.
//!
//! Invariants: acknowledged data stay until the application gives their block back; a block is erased only when nothing reads from it.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Blocks`] | all blocks with their states, counts of channels, open blocks | see there |
//! | [`EraseQueue`](erase_queue::EraseQueue), of a LUN | blocks that wait for their erase | one erase at a time |
//! | [`Link`] | commands with the drive, waiting writes | a command has one record, under its tag |
//! | [`Wear`] | the swap in progress, calls that wait for it | one swap at a time |
//! | [`Tally`] | counts | they only grow |
//! | [`Start`] | blocks found, calls that arrived meanwhile | empty once the start has ended |
//!
//! Only an object itself writes its fields. Paths are functions without state: reads and writes (`io`), erases (`erase`), the leveller's steps
//! (`wear`), the start (`start`). The [`Function`] wires them.

mod ask;
mod blocks;
mod erase;
mod erase_queue;
mod io;
mod link;
mod mark;
mod start;
mod tally;
mod wear;

pub use ask::{
    Allocated, FunctionAnswer, FunctionAsk, FunctionCall, FunctionCounters, FunctionOutcome, Mapping,
};
pub use start::Found;
pub use wear::Levelled;

use crate::{FlashAddress, LevelError, Space, SsdGeometry};
use blocks::{Blocks, State};
use link::{Link, Purpose};
use pellucid_flash::{ChunkAddress, Command, Completion, Figure, Interface, Lba, SimTime, Status, Tag};
use pellucid_host::Machine;
use start::Start;
use std::collections::VecDeque;
use tally::Tally;
use wear::Wear;

/// The function level on an application's flash. Clone it, with the drive below, to fork its future.
///
/// Its tags are below 2^32; its owner may use the bits above.
#[derive(Clone, Debug)]
pub struct Function {
    space: Space,
    now: SimTime,
    blocks: Blocks,
    link: Link,
    start: Start,
    wear: Wear,
    up: VecDeque<FunctionAnswer>,
    tally: Tally,
}

impl Function {
    /// The function level on a namespace of a drive with sector images of `image_bytes`. It starts by reading the content of the flash.
    pub fn new(
        namespace: u16,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<Function, LevelError> {
        Ok(Function::on(Space::new(namespace, interface, image_bytes)?))
    }

    fn on(space: Space) -> Function {
        let mut function = Function {
            blocks: Blocks::new(space.geometry()),
            link: Link::new(space.namespace),
            space,
            now: SimTime::ZERO,
            start: Start::default(),
            wear: Wear::default(),
            up: VecDeque::new(),
            tally: Tally::default(),
        };
        start::ask_for_chunks(&mut function);
        function
    }

    /// `Get_SSD_Geometry`: the layout.
    pub fn geometry(&self) -> SsdGeometry {
        self.space.geometry()
    }

    /// The flash behind it.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// `Address_Mapper`: hands out an erased block of a channel, or the next page of one.
    pub fn address_mapper(&mut self, channel: u32, mapping: Mapping) -> Result<Allocated, LevelError> {
        let channels = self.geometry().channel_count;
        if channel >= channels {
            return Err(LevelError::NoChannel { channel, channels });
        }
        if !self.is_ready() {
            return Err(LevelError::NotReady);
        }
        let place = match mapping {
            Mapping::Page => self.blocks.map_page(channel),
            Mapping::Block => self.blocks.map(channel).map(|block| (block, 0)),
        };
        let (block, page) = place.ok_or(LevelError::NoBlock { channel, ops: self.blocks.ops() })?;
        erase::erase_waiting(self, self.blocks.lun_of(block));
        let address = FlashAddress { page, ..self.geometry().block_at(block) };
        Ok(Allocated { address, free_blocks: self.blocks.available(channel) })
    }

    /// Number of a channel's blocks that [`Function::address_mapper`] can hand out: neither mapped nor kept as over-provisioning. Blocks that wait
    /// for their erase count.
    pub fn free_blocks(&self, channel: u32) -> u32 {
        match channel < self.geometry().channel_count {
            true => self.blocks.available(channel),
            false => 0,
        }
    }

    /// `Flash_Trim`: the application no longer needs the block of `address`. It is erased in the background.
    pub fn flash_trim(&mut self, address: FlashAddress) -> Result<(), LevelError> {
        let block = self.number(address)?;
        match self.wear.trim(block) {
            Some(true) => Ok(()),
            None if matches!(self.blocks[block].state(), State::Mapped | State::Found) => {
                erase::give_back(self, block);
                Ok(())
            }
            _ => Err(LevelError::NotMapped { address }),
        }
    }

    /// `Flash_SetOPS`: keeps this percentage of every channel's blocks unmapped. Refused while too many are mapped.
    pub fn set_ops(&mut self, percent: u32) -> Result<(), LevelError> {
        let release =
            if percent < 100 { self.blocks.too_many_for(percent) } else { self.geometry().blocks() };
        if release > 0 {
            return Err(LevelError::Ops { percent, release });
        }
        self.blocks.set_ops(percent);
        Ok(())
    }

    /// Percentage of the blocks that is kept as over-provisioning.
    pub fn ops(&self) -> u32 {
        self.blocks.ops()
    }

    /// Known erase count of a block; for blocks that were empty at the start, the mean is assumed.
    pub fn erase_count(&self, address: FlashAddress) -> Result<u32, LevelError> {
        Ok(self.blocks.erases(self.number(address)?))
    }

    /// Reports whether a block is unreadable because it is erased or retired.
    pub fn is_erased(&self, address: FlashAddress) -> Result<bool, LevelError> {
        Ok(matches!(self.blocks[self.number(address)?].state(), State::Free | State::Spoiled | State::Bad))
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> FunctionCounters {
        self.tally.counts()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.memory_bytes() + self.link.memory_bytes()
    }

    /// Checks every invariant, and panics if one is broken.
    pub fn check(&self) {
        if self.is_ready() {
            self.blocks.check();
        }
    }

    /// Blocks that held data when the level started and were not given back since. Empty before [`is_ready`](pellucid_host::Machine::is_ready).
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        let geometry = self.geometry();
        let is_left =
            move |found: &&Found| self.blocks[geometry.block_number(found.address)].state() == State::Found;
        self.start.found().iter().filter(is_left)
    }

    /// Keeps these blocks as mapped; all other blocks with old data are erased in the background.
    pub fn recover(&mut self, blocks: &[FlashAddress]) -> Result<(), LevelError> {
        if !self.start.is_done() {
            return Err(LevelError::NotReady);
        }
        let mut numbers = Vec::with_capacity(blocks.len());
        for &address in blocks {
            let number = self.number(address)?;
            if !matches!(self.blocks[number].state(), State::Found | State::Mapped) {
                return Err(LevelError::NotMapped { address });
            }
            numbers.push(number);
        }
        numbers.into_iter().for_each(|number| self.blocks.set_state(number, State::Mapped));
        for found in self.start.take_found() {
            let number = self.geometry().block_number(found.address);
            if self.blocks[number].state() == State::Found {
                erase::give_back(self, number);
            }
        }
        Ok(())
    }

    /// Number of blocks whose erase has failed, which wait for [`Function::try_again`].
    pub fn resting_blocks(&self) -> u32 {
        self.blocks.spoiled()
    }

    /// Retries failed erases of blocks that the drive does not report as bad.
    pub fn try_again(&mut self, now: SimTime) {
        self.now = now;
        for block in self.blocks.try_again() {
            erase::erase_waiting(self, self.blocks.lun_of(block));
        }
    }

    fn number(&self, address: FlashAddress) -> Result<u32, LevelError> {
        let geometry = self.geometry();
        match geometry.contains(address) {
            true => Ok(geometry.block_number(address)),
            false => Err(LevelError::OutOfRange { address, geometry }),
        }
    }

    /// Address of a sector of a block.
    fn sector(&self, block: u32, sector: u32) -> Lba {
        let ChunkAddress { group, unit, chunk, .. } = self.space.chunks.chunk_at(block);
        self.space.chunks.lba(ChunkAddress { group, unit, chunk, sector })
    }

    /// Number of readable sectors of a block.
    fn readable(&self, block: u32) -> u32 {
        let (chunks, written) = (&self.space.chunks, self.blocks[block].written());
        match written == chunks.chunk_sectors {
            true => written,
            false => written.saturating_sub(chunks.cached_sectors),
        }
    }

    fn answer(&mut self, tag: Tag, outcome: FunctionOutcome, data: Vec<u8>) {
        self.up.push_back(FunctionAnswer { tag, at: self.now, outcome, data });
    }

    fn take(&mut self, ask: FunctionAsk) {
        let tag = ask.tag;
        match ask.call {
            FunctionCall::Read { address, sector, sectors, data } => {
                match io::read(self, tag, address, sector, sectors, data) {
                    Ok(()) => {}
                    Err((error, data)) => self.answer(tag, FunctionOutcome::Refused(error), data),
                }
            }
            FunctionCall::Write { address, mark, data } => match io::admit(self, address, data.len()) {
                Ok((block, sectors)) => io::write(self, tag, block, sectors, mark, data),
                Err(error) => self.answer(tag, FunctionOutcome::Refused(error), data),
            },
            FunctionCall::LevelWear => wear::level(self, tag),
        }
    }
}

impl Machine for Function {
    type Ask = FunctionAsk;
    type Answer = FunctionAnswer;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.space.namespace)
    }

    fn submit(&mut self, now: SimTime, ask: FunctionAsk) {
        self.now = now;
        match (self.is_ready(), self.start.failure()) {
            (true, _) => self.take(ask),
            (false, None) => self.start.keep(ask),
            (false, Some(_)) => start::refuse_early(self, ask),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let op = self.link.ended(completion.tag as u32);
        match op.purpose() {
            Purpose::Read => io::read_ended(self, &op, completion),
            Purpose::Write => io::write_ended(self, &op, completion),
            Purpose::Erase => erase::ended(self, &op, completion.status),
            Purpose::Level => wear::ended(self, &op, completion),
            Purpose::Start => start::ended(self, &op, completion),
            Purpose::Idle => unreachable!("a completion of no command"),
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Calls without an answer, such as a trim, may have commands for the drive at once.
    fn next_event(&self) -> Option<SimTime> {
        self.link.has_command().then_some(self.now)
    }

    fn next_command(&mut self) -> Option<Command> {
        self.link.next_command()
    }

    fn pop(&mut self) -> Option<FunctionAnswer> {
        let answer = self.up.pop_front()?;
        if let FunctionOutcome::Levelled(_) = answer.outcome {
            wear::swap_known(self);
        }
        Some(answer)
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn failure(&self) -> Option<String> {
        self.start.failure().cloned()
    }

    fn is_ready(&self) -> bool {
        self.start.is_done()
    }

    /// Finds all blocks with data again; see [`Function::recover`].
    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let mut fresh = Function::on(self.space);
        (fresh.now, fresh.tally) = (now, self.tally);
        fresh.blocks.set_ops(self.blocks.ops());
        fresh.up = std::mem::take(&mut self.up);
        for tag in self.start.asked().chain(self.link.asked()).chain(self.wear.asked()) {
            fresh.answer(tag, FunctionOutcome::Failed(Status::PowerLoss), Vec::new());
        }
        *self = fresh;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let FunctionCounters {
            read_sectors,
            written_sectors,
            write_failures,
            erases,
            retired,
            levelled_sectors,
            swaps,
        } = self.tally.counts();
        let bytes = |sectors: u64| sectors * u64::from(self.space.chunks.sector_bytes);
        vec![
            Figure::bytes("read_bytes", "Bytes that the application read.", bytes(read_sectors)),
            Figure::bytes("written_bytes", "Bytes that the application wrote.", bytes(written_sectors)),
            Figure::count("write_failures", "Writes that the flash failed.", write_failures),
            Figure::count("erases", "Blocks erased.", erases),
            Figure::count("retired_blocks", "Blocks that went out of use.", retired),
            Figure::bytes("levelled_bytes", "Bytes that wear levelling wrote.", bytes(levelled_sectors)),
            Figure::count("swaps", "Pairs of blocks that wear levelling swapped.", swaps),
            Figure::bytes("memory_bytes", "Bytes of host memory.", self.memory_bytes()).gauge(),
        ]
    }
}
