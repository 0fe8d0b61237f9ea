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
//! **Mapping.** With [`Mapping::Block`] a call hands out a block. With [`Mapping::Page`] it hands out a page: the next one of a block that
//! is open in the channel, LUN by LUN. Flash is written in order, so pages are written in the order in which they were handed out in each
//! block; and it is erased by blocks, so a block is given back when no page of it is needed.
//!
//! **Restart.** Beside every sector stand the application's word ([mark](FunctionCall::Write)) and the library's own (`mark.rs`). A
//! start reads one sector of every block that holds data, and lists them ([`Function::found`]): where the block is, the mark of its first
//! sector, how much was written. The application recognises its data by the mark, or by what it reads, and says which blocks it goes on
//! with ([`Function::recover`]); all others are erased in the background. A block that wear levelling was moving when the power failed is listed at
//! exactly one place, complete. After a crash an application trusts the marks, not the addresses that it remembers.
//!
//! Invariants: acknowledged data stay until the application gives their block back; a block is erased only when nothing reads from it.

mod ask;
mod blocks;
mod erase;
mod io;
mod mark;
mod start;
mod wear;

pub use ask::{
    Allocated, FunctionAnswer, FunctionAsk, FunctionCall, FunctionCounters, FunctionOutcome, Mapping,
};
pub use start::Found;
pub use wear::Levelled;

use crate::{FlashAddress, LevelError, Space, SsdGeometry};
use blocks::{Blocks, State};
use pellucid_flash::slab::{Linked, NIL, Slab};
use pellucid_flash::{
    ChunkAddress, Command, Completion, Figure, Interface, Lba, SimTime, Status, Tag, Vector,
};
use pellucid_host::Machine;
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// No command: the number is not in use.
    #[default]
    Idle,
    Start,
    Read,
    Write,
    Erase,
    Level,
}

/// A command with the drive, or a write that waits.
#[derive(Clone, Debug, Default)]
struct Op {
    next: u32,
    purpose: Purpose,
    /// The ask's.
    tag: Tag,
    block: u32,
    /// The command of a write that waits.
    command: Option<Command>,
}

impl Linked for Op {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The function level on one application's flash. Clone it, with the drive below, to fork its future.
///
/// Its tags are below 2^32: a machine that owns it has the bits above.
#[derive(Clone, Debug)]
pub struct Function {
    space: Space,
    now: SimTime,
    blocks: Blocks,
    ops: Slab<Op>,
    start: start::Start,
    wear: wear::Wear,
    next_content: u32,
    down: VecDeque<Command>,
    up: VecDeque<FunctionAnswer>,
    /// Asks that came before the level was ready.
    early: VecDeque<FunctionAsk>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
    counters: FunctionCounters,
    /// Blocks whose erase has failed.
    spoiled: Vec<u32>,
}

impl Function {
    /// The function level on a namespace of a drive whose sector images have `image_bytes`. It begins with reading what is there.
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
            space,
            now: SimTime::ZERO,
            ops: Slab::default(),
            start: start::Start::default(),
            wear: wear::Wear::default(),
            next_content: 1,
            down: VecDeque::new(),
            up: VecDeque::new(),
            early: VecDeque::new(),
            vectors: Vec::new(),
            counters: FunctionCounters::default(),
            spoiled: Vec::new(),
        };
        function.ask_for_chunks();
        function
    }

    /// `Get_SSD_Geometry`: the layout.
    pub fn geometry(&self) -> SsdGeometry {
        self.space.geometry()
    }

    /// The flash that this is about.
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
        let (block, page) = place.ok_or(LevelError::NoBlock { channel, ops: self.blocks.ops })?;
        self.erase_waiting(self.blocks.lun_of(block));
        let address = FlashAddress { page, ..self.geometry().block_at(block) };
        Ok(Allocated { address, free_blocks: self.blocks.available(channel) })
    }

    /// Blocks of a channel that [`Function::address_mapper`] can hand out: neither mapped nor kept as over-provisioning. Blocks that wait
    /// for their erase count.
    pub fn free_blocks(&self, channel: u32) -> u32 {
        match channel < self.geometry().channel_count {
            true => self.blocks.available(channel),
            false => 0,
        }
    }

    /// `Flash_Trim`: the application needs nothing of the block of `address` any more. It is erased in the background.
    pub fn flash_trim(&mut self, address: FlashAddress) -> Result<(), LevelError> {
        let block = self.number(address)?;
        match self.trimmed_while_levelled(block) {
            Some(true) => Ok(()),
            None if matches!(self.blocks[block].state, State::Mapped | State::Found) => {
                self.give_back(block);
                Ok(())
            }
            _ => Err(LevelError::NotMapped { address }),
        }
    }

    /// `Flash_SetOPS`: this many percent of the blocks of every channel are never mapped. Refused while too many are.
    pub fn set_ops(&mut self, percent: u32) -> Result<(), LevelError> {
        let release =
            if percent < 100 { self.blocks.too_many_for(percent) } else { self.geometry().blocks() };
        if release > 0 {
            return Err(LevelError::Ops { percent, release });
        }
        self.blocks.ops = percent;
        Ok(())
    }

    /// Percent of the blocks that are kept as over-provisioning.
    pub fn ops(&self) -> u32 {
        self.blocks.ops
    }

    /// Erases of a block, as far as the level knows: those of blocks that held nothing when it started are taken to be the mean.
    pub fn erase_count(&self, address: FlashAddress) -> Result<u32, LevelError> {
        Ok(self.blocks.erases(self.number(address)?))
    }

    /// Returns whether nothing of a block can be read any more: it is erased, or out of use.
    pub fn is_erased(&self, address: FlashAddress) -> Result<bool, LevelError> {
        Ok(matches!(self.blocks[self.number(address)?].state, State::Free | State::Spoiled | State::Bad))
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> FunctionCounters {
        self.counters
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.memory_bytes() + self.ops.memory_bytes()
    }

    /// Walks every invariant and panics where one is broken.
    pub fn check(&self) {
        if self.is_ready() {
            self.blocks.check();
        }
    }

    fn number(&self, address: FlashAddress) -> Result<u32, LevelError> {
        let geometry = self.geometry();
        match geometry.contains(address) {
            true => Ok(geometry.block_number(address)),
            false => Err(LevelError::OutOfRange { address, geometry }),
        }
    }

    /// A sector of a block.
    fn sector(&self, block: u32, sector: u32) -> Lba {
        let ChunkAddress { group, unit, chunk, .. } = self.space.chunks.chunk_at(block);
        self.space.chunks.lba(ChunkAddress { group, unit, chunk, sector })
    }

    /// Sectors of a block that can be read.
    fn readable(&self, block: u32) -> u32 {
        let (chunks, written) = (&self.space.chunks, self.blocks[block].written);
        match written == chunks.chunk_sectors {
            true => written,
            false => written.saturating_sub(chunks.cached_sectors),
        }
    }

    fn vector(&mut self) -> Box<Vector> {
        self.vectors.pop().unwrap_or_default()
    }

    /// Hands a command to the drive.
    fn send(&mut self, purpose: Purpose, tag: Tag, block: u32, command: Command) {
        let op = self.ops.insert(Op { next: NIL, purpose, tag, block, command: None });
        self.down.push_back(Command { tag: op.into(), namespace: self.space.namespace, ..command });
    }

    fn answer(&mut self, tag: Tag, outcome: FunctionOutcome, data: Vec<u8>) {
        self.up.push_back(FunctionAnswer { tag, at: self.now, outcome, data });
    }

    fn take(&mut self, ask: FunctionAsk) {
        let tag = ask.tag;
        match ask.call {
            FunctionCall::Read { address, sector, sectors, data } => {
                match self.read(tag, address, sector, sectors, data) {
                    Ok(()) => {}
                    Err((error, data)) => self.answer(tag, FunctionOutcome::Refused(error), data),
                }
            }
            FunctionCall::Write { address, mark, data } => match self.admit(address, data.len()) {
                Ok((block, sectors)) => self.write(tag, block, sectors, mark, data),
                Err(error) => self.answer(tag, FunctionOutcome::Refused(error), data),
            },
            FunctionCall::LevelWear => self.level(tag),
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
        match (self.is_ready(), &self.start.failure) {
            (true, _) => self.take(ask),
            (false, None) => self.early.push_back(ask),
            (false, Some(_)) => self.refuse_early(ask),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let number = completion.tag as u32;
        let op = std::mem::take(&mut self.ops[number]);
        self.ops.release(number);
        match op.purpose {
            Purpose::Read => self.read_ended(&op, completion),
            Purpose::Write => self.write_ended(&op, completion),
            Purpose::Erase => self.erase_ended(&op, completion.status),
            Purpose::Level => self.level_ended(&op, completion),
            Purpose::Start => self.start_ended(&op, completion),
            Purpose::Idle => unreachable!("a completion of no command"),
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Calls without an ask, as a trim, may have commands for the drive at once.
    fn next_event(&self) -> Option<SimTime> {
        (!self.down.is_empty()).then_some(self.now)
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<FunctionAnswer> {
        let answer = self.up.pop_front()?;
        if let FunctionOutcome::Levelled(_) = answer.outcome {
            self.swap_known();
        }
        Some(answer)
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn failure(&self) -> Option<String> {
        self.start.failure.clone()
    }

    fn is_ready(&self) -> bool {
        self.start.is_done()
    }

    /// Every block that holds data is found anew; see [`Function::recover`].
    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let mut fresh = Function::on(self.space);
        (fresh.now, fresh.counters, fresh.blocks.ops) = (now, self.counters, self.blocks.ops);
        fresh.up = std::mem::take(&mut self.up);
        let early = self.early.iter().map(|ask| ask.tag);
        let asked = self.ops.iter().filter(|op| matches!(op.purpose, Purpose::Read | Purpose::Write));
        for tag in early.chain(asked.map(|op| op.tag)).chain(self.wear.asked()) {
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
        } = self.counters;
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
