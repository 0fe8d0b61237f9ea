//! The function level: the application maps, collects and says when; the library allocates, erases, levels and reserves (section IV-C).
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
//! **Restart.** Beside every sector stand the application's word ([mark](FunctionCall::Write)) and what the library needs (`mark.rs`). A
//! start reads one sector of every block that holds data, and lists them ([`Function::found`]): where the block is, the mark of its first
//! sector, how much was written. The application recognises its data by the mark, or by what it reads, and says which blocks it goes on
//! with ([`Function::recover`]); all others are erased in the background. What wear levelling was moving when the power failed is listed at
//! exactly one place, complete: so after a crash an application trusts the marks, not the addresses that it remembers.
//!
//! What holds at every moment: data whose write was acknowledged stay until the application gives their block back; a block is erased only
//! when nothing reads from it.

mod blocks;
mod erase;
mod mark;
mod start;
mod wear;

pub use start::Found;
pub use wear::Levelled;

use crate::{FlashAddress, LevelError, Space, SsdGeometry};
use blocks::{Blocks, State};
use mark::Oob;
use pellucid_flash::slab::{Linked, NIL, Slab};
use pellucid_flash::{
    ChunkAddress, Command, Completion, Figure, Interface, Lba, Opcode, SimTime, Status, Tag, Vector,
};
use pellucid_host::Machine;
use std::collections::VecDeque;

/// What [`Function::address_mapper`] hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// A page.
    Page,
    /// A block.
    Block,
}

/// What was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The block, or the page.
    pub address: FlashAddress,
    /// Blocks of the channel that can be mapped still.
    pub free_blocks: u32,
}

/// What the function level is asked, and waits for the flash with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionAsk {
    /// The caller's name for it; comes back with the answer.
    pub tag: Tag,
    /// What to do.
    pub call: FunctionCall,
}

/// A call that waits for the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionCall {
    /// `Flash_Read`: reads `sectors` sectors of one block.
    Read {
        /// The page.
        address: FlashAddress,
        /// Sectors behind the beginning of that page to start at; may lead into the pages behind it.
        sector: u32,
        /// How many.
        sectors: u32,
        /// A buffer; it comes back filled, and what was in it is lost.
        data: Vec<u8>,
    },
    /// `Flash_Write`: writes whole pages of one block, the next that it has.
    Write {
        /// The first page.
        address: FlashAddress,
        /// The application's own word. It stands beside every sector, moves with the data, and is what a start lists.
        mark: u32,
        /// Sector images of the pages; they come back.
        data: Vec<u8>,
    },
    /// `Wear_Leveler`: swaps the data of the most worn and the least worn of the full blocks.
    LevelWear,
}

impl FunctionCall {
    /// Its buffer.
    fn into_data(self) -> Vec<u8> {
        match self {
            FunctionCall::Read { data, .. } | FunctionCall::Write { data, .. } => data,
            FunctionCall::LevelWear => Vec::new(),
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionOutcome {
    /// Done.
    Done,
    /// What wear levelling did.
    Levelled(Levelled),
    /// The flash failed.
    Failed(Status),
    /// Nothing was sent.
    Refused(LevelError),
}

/// The answer to an ask.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionAnswer {
    /// The caller's name for the ask.
    pub tag: Tag,
    /// When it ended.
    pub at: SimTime,
    /// How.
    pub outcome: FunctionOutcome,
    /// The buffer of a read or a write.
    pub data: Vec<u8>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounters {
    /// Sectors that the application read.
    pub read_sectors: u64,
    /// Sectors that the application wrote.
    pub written_sectors: u64,
    /// Writes that failed.
    pub write_failures: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks that went out of use.
    pub retired: u64,
    /// Sectors that wear levelling wrote.
    pub levelled_sectors: u64,
    /// Swaps that wear levelling did.
    pub swaps: u64,
}

/// What a command to the drive is for.
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
    /// Of a write that waits.
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

    /// `Flash_SetOPS`: so many percent of the blocks of every channel are never mapped. Refused while too many are.
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

    /// Whether nothing of a block can be read any more: it is erased, or out of use.
    pub fn is_erased(&self, address: FlashAddress) -> Result<bool, LevelError> {
        Ok(matches!(self.blocks[self.number(address)?].state, State::Free | State::Bad))
    }

    /// What it did so far.
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

    fn read(
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
    fn admit(&self, address: FlashAddress, bytes: usize) -> Result<(u32, u32), LevelError> {
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

    fn write(&mut self, tag: Tag, block: u32, sectors: u32, mark: u32, data: Vec<u8>) {
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
    fn write_next(&mut self, block: u32) {
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

    fn write_ended(&mut self, op: &Op, completion: &mut Completion) {
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
    fn sectors_of(&mut self, completion: &mut Completion) -> u32 {
        let Some(mut vector) = completion.vector.take() else { return 0 };
        let sectors = vector.metadata.len() / Vector::METADATA_BYTES;
        vector.metadata.clear();
        vector.addresses.clear();
        self.vectors.push(vector);
        sectors as u32
    }

    /// The block takes no more: what waits for it fails.
    fn break_off(&mut self, block: u32, status: Status) {
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

    fn read_ended(&mut self, op: &Op, completion: &mut Completion) {
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

    /// What was called without an ask, as a trim, has commands for the drive now.
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
