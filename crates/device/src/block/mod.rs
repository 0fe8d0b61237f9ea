//! A block namespace: buffer, translation, flushes and GC, over blocks of its own.
//!
//! ```text
//!  slice ─► buffer ─► packer ─► translation places it ─► program          read, write, write_waits, packer
//!              │  ▲                    │
//!           flush └── fill ◄── read ◄──┴── GC: read, packed, programmed elsewhere, erased          flush, gc
//! ```
//! Each request path has its own file. Each changes the namespace and what all namespaces share
//! ([`crate::shared::Shared`]), and nothing else.

mod behind;
pub(crate) mod buffer;
mod cache;
mod damage;
mod discards;
mod fixed_copies;
mod flush;
mod fold;
mod gc;
mod map_reads;
pub(crate) mod mount;
mod packer;
pub(crate) mod placement;
pub(crate) mod precondition;
mod read;
mod starved;
mod superpages;
mod write;
mod write_failures;
mod write_waits;

use crate::back::scheduler::{OpKind, Owner, Token};
use crate::config::{DataBuffer, Guarantee};
use crate::firmware::Task;
use crate::shared::Shared;
use crate::timeline::Stored;
use buffer::Buffer;
use discards::Discards;
use flush::Flushes;
use gc::Gc;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Command, Held, Layout, Lpn, Nanos, Opcode, Ppa, Status};
use pellucid_ftl::{FtlConfig, Located, MapPage, MountReport, ProgramId, Translation};
use placement::Placement;
use starved::Starved;
use write::Writes;

/// Description of a block namespace.
#[derive(Clone, Debug)]
pub(crate) struct BlockConfig {
    pub ftl: FtlConfig,
    /// Its share of the drive's buffer.
    pub buffer: DataBuffer,
    /// Guarantee that it gives as a cache; `None`: it is no cache.
    pub guarantee: Option<Guarantee>,
}

/// A block namespace.
#[derive(Clone, Debug)]
pub(crate) struct BlockNamespace {
    number: u16,
    config: BlockConfig,
    pub translation: Translation,
    /// Mapping units that hosts may use.
    user_units: u32,
    pub buffer: Buffer,
    writes: Writes,
    /// Units of the programs that were planned, by all who plan: writes, GC, metadata.
    superpages: superpages::Superpages,
    flushes: Flushes,
    map_reads: map_reads::MapReads,
    gc: Gc,
    discards: Discards,
    pub placement: Placement,
    /// It has run out of good blocks.
    read_only: bool,
    idle: fold::Idle,
    /// Slices that wait for a buffer entry.
    starved: Starved,
    /// The last read for a host whose sense has not begun, and its command: what else of that command lies there joins it.
    gathering: (u32, u32),
    /// GC copies that wait for a superpage while the drive is being filled.
    gathered: precondition::Gathered,
    /// Report of the last mount; `None`: the media were empty.
    pub mounted: Option<MountReport>,
}

/// Purpose of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// This buffer entry is filled.
    Fill(u32),
    /// Units that one sense brings are moved: the first of them.
    Move(u32),
    /// A planned program.
    Program(ProgramId),
    /// This translation page is read.
    Map(MapPage),
    /// The names of the pages of this block are read (cache).
    Names(BlockId),
    Erase,
}

impl Purpose {
    #[inline]
    fn of(token: Token) -> Purpose {
        match token.parts() {
            (0, entry) => Purpose::Fill(entry),
            (1, unit) => Purpose::Move(unit),
            (2, id) => Purpose::Program(ProgramId(id)),
            (4, page) => Purpose::Map(MapPage(page)),
            (5, block) => Purpose::Names(BlockId(block)),
            _ => Purpose::Erase,
        }
    }

    #[inline]
    fn token(self) -> Token {
        match self {
            Purpose::Fill(entry) => Token::new(0, entry),
            Purpose::Move(unit) => Token::new(1, unit),
            Purpose::Program(ProgramId(id)) => Token::new(2, id),
            Purpose::Map(MapPage(page)) => Token::new(4, page),
            Purpose::Names(BlockId(block)) => Token::new(5, block),
            Purpose::Erase => Token::new(3, 0),
        }
    }
}

impl BlockNamespace {
    #[inline]
    fn owner(&self, purpose: Purpose) -> Owner {
        Owner { namespace: self.number, token: purpose.token() }
    }

    /// Where the data of a page wait to be programmed, for those who observe the drive.
    #[inline]
    fn stored_at(&self, lpn: Lpn) -> Stored {
        (self.number, lpn.0.into())
    }

    /// Why a command cannot be accepted.
    #[inline]
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        if self.is_cache() {
            return self.refuse_cached(shared, command);
        }
        let carries = match command.opcode {
            Opcode::Write => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush | Opcode::Trim | Opcode::WriteZeroes | Opcode::Report | Opcode::NextUnit => false,
            _ => return Some(Status::InvalidOpcode),
        };
        if command.vector.is_some() {
            return Some(Status::InvalidField);
        }
        let bytes = command.sectors as usize * shared.image_bytes;
        if !shared.host.has_queue(command.queue) || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        if let Some(status) = self.refuse_placement(command) {
            return Some(status);
        }
        if matches!(command.opcode, Opcode::Flush | Opcode::Report | Opcode::NextUnit) {
            return None;
        }
        if command.sectors == 0 {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.capacity_sectors(&shared.layout)) {
            return Some(Status::LbaOutOfRange);
        }
        (self.read_only && command.opcode != Opcode::Read).then_some(Status::ReadOnly)
    }

    /// The firmware has taken a command.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        if self.is_cache() && shared.works[work].command.opcode != Opcode::Flush {
            return self.start_cached(shared, work);
        }
        let command = &shared.works[work].command;
        match command.opcode {
            Opcode::Read | Opcode::Write => {
                let (lba, sectors) = (command.lba.0, command.sectors);
                self.cut(shared, work, lba, sectors, false);
            }
            Opcode::Trim | Opcode::WriteZeroes => self.start_trim(shared, work),
            Opcode::Flush => self.start_flush(shared, work),
            Opcode::Report => self.start_report(shared, work),
            Opcode::NextUnit => self.start_next_unit(shared, work),
            Opcode::Append | Opcode::Zone(_) | Opcode::Reset | Opcode::Copy => {
                unreachable!("refused at submission")
            }
            Opcode::WriteClean | Opcode::WriteDirty | Opcode::Evict | Opcode::Clean | Opcode::Exists => {
                unreachable!("refused at submission")
            }
            Opcode::NamelessWrite | Opcode::PhysicalRead | Opcode::Free | Opcode::Acknowledge => {
                unreachable!("refused at submission")
            }
        }
    }

    #[inline(always)]
    fn ask_slice(&mut self, shared: &mut Shared, slice: u32) {
        if shared.grants(Task::Slice(slice)) {
            self.slice_known(shared, slice);
        }
    }

    #[inline(always)]
    fn ask_dma(&mut self, shared: &mut Shared, slice: u32) {
        if shared.grants(Task::Dma(slice)) {
            self.start_dma(shared, slice);
        }
    }

    /// The firmware has looked at a slice.
    #[inline]
    pub fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        shared.slices[slice].book(pellucid_flash::Stage::Firmware, shared.now);
        self.place(shared, slice, false);
    }

    /// The firmware has the data of a slice moved.
    #[inline]
    pub fn start_dma(&mut self, shared: &mut Shared, slice: u32) {
        if shared.start_dma(slice) {
            self.dma_done(shared, slice);
        }
    }

    /// The array starts on an operation: the media change. For how long.
    #[inline]
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        let (kind, ppa) = (shared.scheduler.ops[op].kind, shared.scheduler.ops[op].ppa);
        if kind == OpKind::Read {
            self.gathering.0 = if self.gathering.0 == op { NIL } else { self.gathering.0 };
            return shared.begin_read(op);
        }
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Erase => shared.begin_erase(ppa),
            Purpose::Program(id) => self.begin_program(shared, id, ppa),
            Purpose::Fill(_) | Purpose::Move(_) | Purpose::Map(_) | Purpose::Names(_) => {
                unreachable!("a program without a plan")
            }
        }
    }

    /// The data of a read are in the controller.
    #[inline]
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Fill(entry) => {
                if shared.scheduler.ops[op].units > 1 {
                    self.part_fills(shared, op, entry);
                }
                self.fill_arrived(shared, op, entry);
            }
            Purpose::Move(head) => self.copies_arrived(shared, op, head),
            Purpose::Map(page) => self.map_page_arrived(shared, op, page),
            Purpose::Names(block) => self.names_arrived(shared, op, block),
            Purpose::Program(_) | Purpose::Erase => unreachable!("a read that serves a program"),
        }
    }

    /// A program or an erase has ended.
    #[inline]
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Erase => self.erase_done(shared, op),
            Purpose::Program(id) => self.program_done(shared, op, id),
            Purpose::Fill(_) | Purpose::Move(_) | Purpose::Map(_) | Purpose::Names(_) => {
                unreachable!("a program without a plan")
            }
        }
    }

    /// Returns whether [`BlockNamespace::go_on`] has nothing to do, as after most events.
    #[inline(always)]
    pub fn is_calm(&self, shared: &Shared) -> bool {
        !self.flushes.is_settled()
            && !self.writes.packer.has_stalled()
            && (self.writes.packer.waiting() == 0 || self.writes.more_comes())
            && !self.writes.behind.has_woken()
            && shared.active > 0
            && self.translation.is_calm()
    }

    /// The drive has done what was to be done at once: what waits in the namespace for that goes on. `true`: something did,
    /// and all is to be asked again.
    pub fn go_on(&mut self, shared: &mut Shared) -> bool {
        if self.flushes.take_settled() {
            self.continue_flush(shared);
            return true;
        }
        if self.writes.packer.has_stalled() && self.let_in(shared) {
            return true;
        }
        if self.translation.has_map_work() {
            self.write_map(shared);
            return true;
        }
        self.pad_if_awaited(shared);
        if self.let_behind_go_on(shared) {
            return true;
        }
        if self.translation.handles().has_events() {
            self.note_handle_events(shared);
        }
        if shared.active == 0 {
            self.collect_while_idle(shared);
            self.work_when_idle(shared);
        }
        // The steps above may need mapping reads while nothing else is under way.
        self.translation.has_map_work()
    }

    /// Returns whether data of a command wait for space in the buffer.
    pub fn awaits_room(&self) -> bool {
        !self.starved.is_line_empty()
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns whether too few good blocks are left for host data.
    fn is_worn_out(&self) -> bool {
        self.translation.view().worn_out
    }

    pub fn capacity_sectors(&self, layout: &Layout) -> u64 {
        u64::from(self.user_units) * u64::from(layout.sectors_per_unit)
    }

    /// Where the newest programmed copy of a logical page lies.
    pub fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        let inside = lpn.0 < self.user_units;
        match inside.then(|| self.translation.peek(lpn)) {
            Some(Located::At(ppa)) => Some(ppa),
            _ => None,
        }
    }

    /// Returns whether a logical page holds data: programmed (and perhaps lost), or written and still in the buffer.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        let programmed = lpn.0 < self.user_units && self.translation.peek(lpn) != Located::Zero;
        programmed || self.buffer.find(lpn).is_some_and(|entry| self.buffer[entry].dirty != 0)
    }

    /// Returns whether a logical page holds data, and up to which page the answer is known to be the same.
    pub fn held(&self, lpn: Lpn) -> Held {
        let one = Held { holds: self.is_mapped(lpn), until: u64::from(lpn.0) + 1, looks: 1 };
        match self.translation.untouched_until(lpn) {
            Some(until) if !one.holds => {
                let (dirty, looks) = self.buffer.next_dirty(lpn);
                let until = dirty.map_or(until, |dirty| dirty.min(until));
                Held { until: until.0.into(), looks, ..one }
            }
            _ => one,
        }
    }

    pub fn check(&self, shared: &Shared) {
        self.translation.check(&mount::Source::of(&shared.layout, &shared.media));
        self.buffer.check();
    }
}
