//! A block namespace: buffer, translation, flushes and GC, over blocks of its own.
//!
//! ```text
//!  slice ─► buffer ─► queue ─► translation places it ─► program             read, write, starved, behind, programs
//!              │  ▲                   │
//!           flush └── fill ◄── read ◄─┴── GC: read, packed, programmed elsewhere, erased          flush, gc, erases
//! ```
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`MediaSide`] | translation, read-only state, load; with it the five objects below | knows neither commands nor entries |
//! | [`Superpages`](superpages::Superpages) | units of planned programs | a program has one unit at least, and at most a superpage of them |
//! | [`Gc`](gc::Gc) | copies under way, by die | a die has at most `gc_parallel` superpages of them in flight |
//! | [`FixedCopies`](fixed_copies::FixedCopies) | sources of merges of log blocks | a copy is placed once all its sources are read |
//! | [`Discards`](discards::Discards) | reads under way, outdated copies that wait for them | reads under way are of this epoch or the last |
//! | [`Buffer`](buffer::Buffer) | entries, their content, their order of use | a listed entry is found under its page and no other |
//! | [`WriteQueue`](write_queue::WriteQueue) | entries packed, slices and entries that may join them | counts balance |
//! | [`Starved`](starved::Starved) | slices that wait for an entry | slices that evict an entry stand before those that evict none |
//! | [`Behind`](behind::Behind) | writes that wait behind others of their page | a page is there if and only if a write of it waits |
//! | [`Flushes`](flush::Flushes) | the flush in progress, those that wait, lost data | one flush at a time |
//! | [`MapReads`](map_reads::MapReads) | entries that wait for translation pages | an entry waits at most once |
//! | [`Senses`](read::Senses) | the read that others of its command may join | none joins once its sense has begun |
//! | [`Placement`] | events of placement handles | at most 1024 |
//! | [`Idle`] | how long the drive has been idle | at most one [`Event::Idle`](crate::events::Event::Idle) is to come |
//! | [`Preconditioner`] | GC copies that wait while the drive is being filled | none is left when filling has ended |
//!
//! Only an object itself writes its fields. The objects from the media side to the senses form the [`Core`], which the paths use. Paths are
//! functions without state, one module each; those of the media side (`gc`, `fixed_copies`, `erases`, `metadata`, `discards`, `damage`) get
//! only that side. The [`BlockNamespace`] routes commands, slices and flash operations to paths.
//!
//! A write passes `write.rs` (`cut`, `place_write`, `dispatch`) and `programs.rs` (`program_packed`, `issue_entries`, and back up `program_done`); a
//! read passes `write.rs` (`cut`) and `read.rs` (`place_read`, `fill_from`, and back up `fill_arrived`, `end_fill`). With the session, the
//! front end, translation, scheduler and media that makes seven files from socket to cell for either.

mod behind;
mod buffer;
pub(crate) mod cache;
mod core;
mod damage;
mod discards;
mod erases;
mod fixed_copies;
mod flush;
mod fold;
mod gc;
mod map_reads;
mod media_side;
mod metadata;
pub(crate) mod mount;
mod packer;
pub(crate) mod placement;
pub(crate) mod precondition;
mod programs;
mod read;
mod starved;
mod superpages;
mod tenancy;
mod trim;
mod write;
mod write_failures;
mod write_queue;
mod write_waits;

use self::core::Core;
use crate::back::operations;
use crate::back::scheduler::{OpKind, Token};
use crate::shared::Shared;
use fold::Idle;
use media_side::MediaSide;
use pellucid_flash::{
    BlockId, Command, HandleInfo, Held, Layout, Lpn, Nanos, Opcode, PlacementGeometry, Ppa, Status,
};
use pellucid_ftl::{FtlCounters, Located, MapPage, MountReport, ProgramId, Soon, Translation};
use placement::{Placement, PlacementStatistics};
use precondition::{Filler, NoRoom, Preconditioner};

/// A block namespace.
#[derive(Clone, Debug)]
pub(crate) struct BlockNamespace {
    core: Core,
    placement: Placement,
    idle: Idle,
    preconditioner: Preconditioner,
    /// Report of the last mount; `None`: the media were empty.
    mounted: Option<MountReport>,
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
    /// The names of the pages of this block are read: they may leave with it.
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

// ---- commands

impl BlockNamespace {
    fn side(&self) -> &MediaSide {
        &self.core.side
    }

    /// A command has come: the drive is idle no longer, and a handle that does not exist becomes handle 0.
    #[inline]
    pub fn command_comes(&mut self) {
        self.idle.end();
        self.core.side.set_rested(false);
    }

    /// Gives handle 0 to a write that names one that does not exist.
    #[inline]
    pub fn settle_handle(&mut self, shared: &Shared, command: &mut Command) {
        self.placement.settle_handle(&self.core.side, shared, command);
    }

    /// Why a command cannot be accepted.
    #[inline]
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
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
        if let Some(status) = placement::refuse(self.side(), command) {
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
        (self.is_read_only() && command.opcode != Opcode::Read).then_some(Status::ReadOnly)
    }

    /// The firmware has taken a command.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        let core = &mut self.core;
        let command = &shared.works[work].command;
        match command.opcode {
            Opcode::Read | Opcode::Write => {
                let (lba, sectors) = (command.lba.0, command.sectors);
                write::cut(core, shared, work, lba, sectors, false);
            }
            Opcode::Trim | Opcode::WriteZeroes => trim::start_trim(core, shared, work),
            Opcode::Flush => flush::start_flush(core, shared, work),
            Opcode::Report => placement::start_report(&core.side, shared, work),
            Opcode::NextUnit => self.placement.start_next_unit(&mut core.side, shared, work),
            Opcode::Zone(_) | Opcode::Chunk(_) | Opcode::Cache(_) | Opcode::Nameless(_) => {
                unreachable!("refused at submission")
            }
        }
    }

    /// The firmware has looked at a slice.
    #[inline]
    pub fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        write::slice_known(&mut self.core, shared, slice);
    }

    /// The firmware has the data of a slice moved.
    #[inline]
    pub fn start_dma(&mut self, shared: &mut Shared, slice: u32) {
        write::start_dma(&mut self.core, shared, slice);
    }

    /// The host has, or has given, the data of a slice.
    #[inline]
    pub fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        read::dma_done(&mut self.core, shared, slice);
    }

    /// The controller has moved the data of a slice; with the last one of its command it completes that by itself.
    pub fn link_done(&mut self, shared: &mut Shared, slice: u32) {
        read::link_done(&mut self.core, shared, slice);
    }
}

// ---- flash operations, and what follows from them

impl BlockNamespace {
    /// The array starts on an operation: the media change. For how long.
    #[inline]
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        let (kind, ppa) = (shared.scheduler.ops[op].kind, shared.scheduler.ops[op].ppa);
        if kind == OpKind::Read {
            self.core.senses.begin(op);
            return operations::begin_read(shared, op);
        }
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Erase => operations::begin_erase(shared, ppa),
            Purpose::Program(id) => programs::begin_program(&mut self.core, shared, id, ppa),
            Purpose::Fill(_) | Purpose::Move(_) | Purpose::Map(_) | Purpose::Names(_) => {
                unreachable!("a program without a plan")
            }
        }
    }

    /// The data of a read are in the controller.
    #[inline]
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        let core = &mut self.core;
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Fill(entry) => {
                if shared.scheduler.ops[op].units > 1 {
                    read::part_fills(core, shared, op, entry);
                }
                read::fill_arrived(core, shared, op, entry);
            }
            Purpose::Move(head) => gc::copies_arrived(&mut core.side, shared, op, head),
            Purpose::Map(page) => map_reads::map_page_arrived(core, shared, op, page),
            Purpose::Names(block) => {
                erases::names_arrived(&mut core.side, shared, op, block);
                flush::continue_flush(core, shared);
            }
            Purpose::Program(_) | Purpose::Erase => unreachable!("a read that serves a program"),
        }
    }

    /// A program or an erase has ended.
    #[inline]
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Erase => programs::erase_done(&mut self.core, shared, op),
            Purpose::Program(id) => programs::program_done(&mut self.core, shared, op, id),
            Purpose::Fill(_) | Purpose::Move(_) | Purpose::Map(_) | Purpose::Names(_) => {
                unreachable!("a program without a plan")
            }
        }
    }

    /// Returns whether [`BlockNamespace::go_on`] has nothing to do, as after most events.
    #[inline(always)]
    pub fn is_calm(&self, shared: &Shared) -> bool {
        let Core { queue, flushes, behind, side, .. } = &self.core;
        !flushes.is_settled()
            && !queue.has_stalled()
            && (queue.packed() == 0 || queue.more_comes())
            && !behind.has_woken()
            && shared.fetched.active() > 0
            && side.translation.is_calm()
    }

    /// Resumes work in the namespace that waited until the drive had finished its immediate work. `true`: some work
    /// resumed, so everything must be polled again.
    pub fn go_on(&mut self, shared: &mut Shared) -> bool {
        let core = &mut self.core;
        if core.flushes.take_settled() {
            flush::continue_flush(core, shared);
            return true;
        }
        if core.queue.has_stalled() && write_waits::let_in(core, shared) {
            return true;
        }
        if core.side.translation.has_map_work() {
            metadata::write_map(&mut core.side, shared);
            return true;
        }
        write_waits::pad_if_awaited(core, shared);
        if behind::let_behind_go_on(core, shared) {
            return true;
        }
        if core.side.translation.handles().has_events() {
            self.placement.note_handle_events(&mut core.side, shared);
        }
        if shared.fetched.active() == 0 {
            gc::collect_while_idle(&mut core.side, shared);
            self.idle.begin(&mut core.side, shared);
        }
        // The steps above may need mapping reads while nothing else is under way.
        core.side.translation.has_map_work()
    }

    /// Handles a stuck drive: resumes writes that waited for GC, if it has released space, or otherwise other writes ahead of them.
    /// `false`: no write could resume.
    pub fn let_in(&mut self, shared: &mut Shared) -> bool {
        write_waits::let_in(&mut self.core, shared) || starved::let_overtake(&mut self.core, shared)
    }

    /// Handles a stuck drive: fails commands that wait for space, and makes the namespace read-only.
    pub fn give_up_if_stuck(&mut self, shared: &mut Shared) {
        write_failures::give_up_if_stuck(&mut self.core, shared);
    }

    /// Memory runs short: outdated data are discarded as far as the reads under way allow.
    pub fn forget_some(&mut self, shared: &mut Shared) {
        discards::forget_some(&mut self.core.side, shared);
    }

    /// The time of an idle drive has passed, unless commands have come meanwhile.
    pub fn idle_for_long(&mut self, shared: &mut Shared) {
        let side = &mut self.core.side;
        if !self.idle.has_ended(side, shared) {
            return;
        }
        side.set_rested(true);
        gc::pump_all(side, shared);
    }

    /// Dies have died, or all flash is spent.
    pub fn flash_died(&mut self, shared: &mut Shared) {
        let core = &mut self.core;
        core.side.bury_dead_dies(&shared.media);
        erases::erase_emptied(&mut core.side, shared);
        gc::pump_all(&mut core.side, shared);
        flush::continue_flush(core, shared);
    }

    /// Writes one mapping unit without simulating time; `image` holds its sector images.
    #[inline]
    pub fn fill_unit(
        &mut self,
        shared: &mut Shared,
        filler: &mut Filler,
        lpn: Lpn,
        image: &[u8],
    ) -> Result<(), NoRoom> {
        let Core { side, buffer, .. } = &mut self.core;
        self.preconditioner.fill_unit(side, shared, buffer.count(), filler, lpn, image)
    }

    /// Programs what [`BlockNamespace::fill_unit`] still holds.
    pub fn fill_end(&mut self, shared: &mut Shared, filler: &mut Filler) -> Result<(), NoRoom> {
        self.preconditioner.fill_end(&mut self.core.side, shared, filler)
    }
}

// ---- views

impl BlockNamespace {
    /// The translation, which knows the place of every page.
    #[inline]
    pub fn translation(&self) -> &Translation {
        &self.core.side.translation
    }

    /// Prefetches what a command for a page will look at first.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        self.core.side.translation.prefetch(Soon::Lookup(lpn));
        self.core.buffer.prefetch(lpn);
    }

    /// Translation goes on counting from here.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        self.core.side.translation.set_counters(counters);
    }

    /// Bytes of memory that the data buffer takes.
    pub fn buffer_bytes(&self) -> u64 {
        self.core.buffer.memory_bytes()
    }

    /// Report of the last mount; `None`: the media were empty.
    pub fn mounted(&self) -> Option<MountReport> {
        self.mounted
    }

    /// Events of the placement handles.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// As [`BlockNamespace::placement`], to choose the kinds that are kept.
    pub fn placement_mut(&mut self) -> &mut Placement {
        &mut self.placement
    }

    /// Returns the placement geometry that a host sees; `None`: the namespace has one handle, which is no placement.
    pub fn geometry(&self, layout: &Layout) -> Option<PlacementGeometry> {
        placement::geometry(self.side(), layout)
    }

    /// State of a handle; `None` if there is no such handle.
    pub fn handle_info(&self, layout: &Layout, handle: u16) -> Option<HandleInfo> {
        placement::handle_info(self.side(), layout, handle)
    }

    /// Returns the bytes written, erased and read since the counters were last reset.
    pub fn placement_statistics(&self, shared: &Shared) -> PlacementStatistics {
        placement::statistics(self.side(), shared)
    }

    /// Returns whether an event for an idle drive is scheduled.
    pub fn awaits_idleness(&self) -> bool {
        self.idle.is_awaited()
    }

    /// Returns whether data of a command wait for space in the buffer.
    pub fn awaits_room(&self) -> bool {
        !self.core.starved.is_line_empty()
    }

    /// Returns whether the namespace is read-only because it lacks good blocks.
    pub fn is_read_only(&self) -> bool {
        self.side().is_read_only()
    }

    /// Returns the number of sectors that hosts may use.
    pub fn capacity_sectors(&self, layout: &Layout) -> u64 {
        self.side().capacity_sectors(layout)
    }

    /// Address of the newest programmed copy of a logical page.
    pub fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        self.side().locate(lpn)
    }

    /// Returns whether a logical page holds data: programmed (possibly lost), or written and still in the buffer.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        let Core { side, buffer, .. } = &self.core;
        let programmed = lpn.0 < side.user_units() && side.translation.peek(lpn) != Located::Zero;
        programmed || buffer.find(lpn).is_some_and(|entry| buffer[entry].sectors().dirty() != 0)
    }

    /// Returns whether a logical page holds data, and the page up to which the same answer is known to
    /// hold.
    pub fn held(&self, lpn: Lpn) -> Held {
        let one = Held { holds: self.is_mapped(lpn), until: u64::from(lpn.0) + 1, looks: 1 };
        match self.translation().untouched_until(lpn) {
            Some(until) if !one.holds => {
                let (dirty, looks) = self.core.buffer.next_dirty(lpn);
                let until = dirty.map_or(until, |dirty| dirty.min(until));
                Held { until: until.0.into(), looks, ..one }
            }
            _ => one,
        }
    }

    /// Walks the invariants of all objects and panics where one is broken.
    pub fn check(&self, shared: &Shared) {
        self.translation().check(&mount::Source::of(&shared.layout, &shared.media));
        self.core.buffer.check();
    }
}
