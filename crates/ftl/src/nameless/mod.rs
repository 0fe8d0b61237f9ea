//! Nameless writes: tracks live sectors and the addresses of virtual ones, and chooses the units that GC moves and the blocks to erase.
//!
//! This module only decides; the caller programs, reads, erases and saves checkpoints. There is no map of data: the host holds their
//! names, which are their places. Blocks, wear and victims are managed as in every translation ([`BlockManager`]).
//!
//! ```text
//!            program ended             free, overwritten, or moved and acknowledged
//!  (nothing) ─────────────► live ─────────────────────────────────────────────────► (nothing)
//!                            │ copied: the new place lives
//!                            └──────► held: the old copy, until the move is acknowledged
//!
//!  block: nothing live, nothing held ─► emptied ─► covered (a checkpoint without it is on the media) ─► erased
//! ```
//! Invariants: a block's valid count is the number of its live units; a virtual unit lives if and only if the map points to it; the
//! new place of every move that is not acknowledged lives, and is moved no further; a block is erased only when no checkpoint that
//! may be found needs it. With [`Migration::Prototype`] the last one does not hold, as in the paper's prototype.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`BlockManager`] | states, wear and valid counts of blocks | see its head |
//! | [`LiveUnits`] | live units of each block, and which are virtual | see its head |
//! | [`Virtuals`] | places of virtual units | see its head |
//! | [`NameCount`] | names that live, and those on their way | no more than the capacity |
//! | [`PagesLeft`] | pages that can be written | those of free blocks, and the rest of open ones |
//! | [`Moves`] | moves that are not acknowledged or not told | counts by block are those of the moves |
//! | [`Victim`] | units that are being moved | one victim at a time |
//! | [`EmptyBlocks`] | blocks that wait for a checkpoint, or their erase | the first ones are covered |
//! | [`Programs`] | the die whose turn it is, number of programs | numbers rise |
//! | [`Tally`] | counts | they only grow |
//! | [`Damage`] | blocks with a failed program, or unread units | none is empty or a victim |
//!
//! Each object alone writes its fields. Paths are functions without state: programs (`program`), units that begin and end to live (`units`),
//! names (`names`), victims and erases (`gc`), checkpoints (`checkpoint`). [`Nameless`] wires them.

mod budget;
mod checkpoint;
mod damage;
mod empty;
mod gc;
mod live;
mod moves;
mod names;
mod program;
mod tally;
mod units;
mod victim;
mod virtuals;

pub use checkpoint::FoundChunk;

use crate::block_manager::{BlockManager, BlockState};
use budget::{NameCount, PagesLeft};
use damage::Damage;
use empty::EmptyBlocks;
use live::LiveUnits;
use moves::Moves;
use pellucid_flash::{BlockId, BlockView, DieId, Layout, Lba, Lpn, Migration, Nanos, Ppa};
use pellucid_setting::Settings;
use program::Programs;
use std::collections::BTreeMap;
use tally::Tally;
use victim::{Taken, Victim};
use virtuals::Virtuals;

/// Settings.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct NamelessConfig {
    /// Nameless writes: spare capacity as a share of the space for data (Jasmine's firmware: 7 / 93).
    ///
    /// Media units / units that may live - 1.
    #[setting(kind = share(0.0, 100.0), default = 0.0753)]
    pub over_provisioning: f64,
    /// Nameless writes: share of the space for data that has virtual addresses.
    #[setting(kind = SHARE, default = 0.0625)]
    pub virtual_share: f64,
    /// Nameless writes: GC runs while this many chunks or fewer are free. 0: 1/256 of all chunks, at least one per parallel unit plus four.
    ///
    /// A chunk is a block, and a parallel unit a die.
    #[setting(kind = few(0), default = 0)]
    pub gc_low: u32,
    /// Nameless writes: old copy of a moved sector. acknowledged: kept until the host knows the new name; prototype: erased earlier, as
    /// in the paper.
    #[setting(default = "acknowledged")]
    pub migration: Migration,
    /// Nameless writes: longest time that a write waits for space, until the host acknowledges moves or frees names; then the write
    /// fails.
    ///
    /// A host may be unable to acknowledge while its writes wait: a disk interface has no slot for it when they have all.
    #[setting(key = "acknowledge_within", default = "1s")]
    pub acknowledge_within_ns: Nanos,
}

impl Default for NamelessConfig {
    fn default() -> Self {
        Settings::usual()
    }
}

impl NamelessConfig {
    /// Least [`NamelessConfig::over_provisioning`] that takes effect on media of this layout; `None`: they are too small for any data. With less,
    /// as many units may live as with it.
    pub fn over_provisioning_least(layout: &Layout) -> Option<f64> {
        let able = able_units(layout);
        (able > 0).then(|| f64::from(layout.units) / able as f64 - 1.0)
    }

    /// Completes the settings from the media.
    fn on(&self, layout: &Layout) -> NamelessConfig {
        let least = (layout.dies + 4).max(layout.blocks / 256);
        NamelessConfig { gc_low: if self.gc_low == 0 { least } else { self.gc_low }, ..self.clone() }
    }
}

/// Most units that may live, whatever the spare capacity is. Open blocks, the two reserves, one victim whose move is not acknowledged, and one
/// block beside them hold none.
fn able_units(layout: &Layout) -> u64 {
    let used = layout.blocks.saturating_sub(layout.dies + 4);
    u64::from(used) * u64::from(layout.units_per_block - layout.units_per_superpage)
}

/// Content of a unit of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing: the rest of a page.
    #[default]
    Padding,
    /// Data that are addressed by their place.
    Nameless,
    /// A virtual unit.
    Virtual(Lpn),
    /// A copy of the unit at this place.
    Copy(Ppa),
}

/// Purpose of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Nameless writes, perhaps with virtual ones.
    Nameless,
    /// Virtual writes alone: a host may need them in order to acknowledge moves.
    Virtual,
    /// Copies of a victim.
    Gc,
}

/// Target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Nothing.
    Unknown,
    /// A virtual unit.
    Virtual,
    /// Data at that place.
    Here,
    /// Data at that place, and a new copy that the host has not acknowledged.
    Moved(Ppa),
    /// Data that the caller has in memory: their block is being erased.
    Leaving,
}

/// Event counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamelessCounters {
    /// Victims chosen.
    pub victims: u64,
    /// Units copied.
    pub copied: u64,
    /// Moves reported to the host.
    pub moves: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Units that a start did not find at the places in the checkpoint.
    pub lost: u64,
}

/// State of nameless translation.
#[derive(Clone, Debug)]
pub struct Nameless {
    config: NamelessConfig,
    layout: Layout,
    blocks: BlockManager,
    units: LiveUnits,
    virtuals: Virtuals,
    virtual_units: u32,
    names: NameCount,
    moves: Moves,
    victim: Option<Victim>,
    empty: EmptyBlocks,
    damage: Damage,
    pages: PagesLeft,
    programs: Programs,
    tally: Tally,
}

impl Nameless {
    /// Creates the state for media without data. The error is a sentence.
    pub fn new(config: &NamelessConfig, layout: &Layout) -> Result<Nameless, String> {
        let able = able_units(layout);
        let asked = (f64::from(layout.units) / (1.0 + config.over_provisioning)) as u64;
        let living = able.min(asked) as u32;
        let virtual_units = (f64::from(living) * config.virtual_share) as u32;
        if virtual_units == 0 || virtual_units >= living {
            return Err(format!(
                "{} chunks of {} sectors leave no space for names and virtual sectors; allowed: more chunks, or less spare space",
                layout.blocks, layout.units_per_block
            ));
        }
        Ok(Nameless {
            blocks: BlockManager::new(layout, 0, false, true, 1, 0),
            units: LiveUnits::new(layout),
            virtuals: Virtuals::new(virtual_units),
            virtual_units,
            names: NameCount::new(living - virtual_units),
            moves: Moves::default(),
            victim: None,
            empty: EmptyBlocks::default(),
            damage: Damage::default(),
            pages: PagesLeft::new(layout.blocks, layout.superpages_per_block),
            programs: Programs::default(),
            tally: Tally::default(),
            config: config.on(layout),
            layout: layout.clone(),
        })
    }

    /// Retires blocks that were found out of use, before anything is written.
    pub fn retire(&mut self, found: &[FoundChunk]) {
        for (block, _) in (0..).map(BlockId).zip(found).filter(|(_, chunk)| **chunk == FoundChunk::Offline) {
            self.blocks.retire(block);
            self.pages.lose_block();
        }
    }

    /// The shape of the media.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Units that can have names.
    pub fn capacity(&self) -> u32 {
        self.names.capacity()
    }

    /// Units of the virtual address space.
    pub fn virtual_units(&self) -> u32 {
        self.virtual_units
    }

    /// Units that have names.
    pub fn named(&self) -> u32 {
        self.names.named()
    }

    /// Event counts so far.
    pub fn counters(&self) -> NamelessCounters {
        self.tally.counts()
    }

    /// The block as an observer sees it.
    pub fn block_view(&self, block: BlockId) -> BlockView {
        self.blocks.view(block)
    }

    /// Free blocks.
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free_total()
    }

    /// Moves that the host has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.moves.count()
    }

    /// Unacknowledged moves: old place and new one.
    pub fn moves(&self) -> impl Iterator<Item = (Lba, Lba)> + '_ {
        self.moves.iter().map(|(old, new)| (Lba(old.0.into()), Lba(new.0.into())))
    }

    /// Bytes of [`Nameless::memory_bytes`] that the table of blocks has for each.
    pub const BLOCK_BYTES: u32 = BlockManager::BLOCK_BYTES as u32;

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let lists = self.empty.count() + self.damage.words();
        self.blocks.memory_bytes()
            + self.units.memory_bytes()
            + self.virtuals.memory_bytes()
            + self.moves.memory_bytes()
            + (lists * 4) as u64
    }

    // ---- programs

    /// Takes the next page of a die that is not `busy`, and returns its first unit. `None`: there is none now.
    pub fn place(&mut self, taker: Taker, busy: impl Fn(DieId) -> bool) -> Option<Ppa> {
        program::place(self, taker, busy)
    }

    /// Returns whether there are pages for `taker`: a block's worth is kept for the copies of a victim, another for virtual writes.
    pub fn has_page(&self, taker: Taker) -> bool {
        self.pages.has(taker)
    }

    /// Ends the program of the page at `page`. If it succeeded, its units now live; otherwise they have to be placed again.
    pub fn ended(&mut self, page: Ppa, contents: &[Content], ok: bool) {
        program::ended(self, page, contents, ok);
    }

    // ---- names and virtual addresses

    /// Reserves space for `units` more nameless units, which are then on their way; `false`: there is none.
    pub fn promise(&mut self, units: u32) -> bool {
        self.names.promise(units)
    }

    /// Releases space of nameless units that will not be written.
    pub fn break_promise(&mut self, units: u32) {
        self.names.break_promise(units);
    }

    /// Location of a virtual unit; it may be [taken](Nameless::is_taken).
    pub fn lookup(&self, lpn: Lpn) -> Ppa {
        self.virtuals.get(lpn)
    }

    /// Returns whether the unit at `ppa` is off the media, and the caller has it in memory.
    pub fn is_taken(&self, ppa: Ppa) -> bool {
        self.victim.as_ref().is_some_and(|victim| victim.taken(ppa).is_some())
    }

    /// Units that are off the media.
    pub fn taken(&self) -> impl Iterator<Item = Ppa> + '_ {
        self.victim.iter().flat_map(|victim| victim.all_taken().map(|(ppa, _)| ppa))
    }

    /// Target of a name.
    pub fn name(&self, name: Ppa) -> Name {
        names::name(self, name)
    }

    /// Frees a name; freeing the old name of a move frees the new one too. `false`: there is no such name.
    pub fn free(&mut self, name: Ppa) -> bool {
        names::free(self, name)
    }

    /// Discards a virtual unit.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.virtuals.set(lpn, Ppa::NONE);
        units::kill_virtual(self, old);
    }

    /// Acknowledges a move: the host knows the new name of the data at `old`. `false`: there is no such move.
    pub fn acknowledge(&mut self, old: Ppa) -> bool {
        names::acknowledge(self, old)
    }

    /// Takes the next move to be reported: old name and new one.
    pub fn next_move(&mut self) -> Option<(Ppa, Ppa)> {
        self.moves.next_notice()
    }

    /// Returns whether there are moves that the host has not been told of.
    pub fn has_moves(&self) -> bool {
        self.moves.has_notices()
    }

    // ---- garbage collection

    /// Chooses the next victim, with its live units, when few blocks are free.
    pub fn next_victim(&mut self) -> Option<(BlockId, Vec<Ppa>)> {
        gc::next_victim(self)
    }

    /// Takes every live unit of the victim off the media: the caller has them in memory, erases the block and writes them again.
    pub fn take_out(&mut self) {
        gc::take_out(self);
    }

    /// Returns whether a unit of the victim is still wanted, so that it has to be copied.
    pub fn is_wanted(&self, old: Ppa) -> bool {
        let taken = self.victim.as_ref().and_then(|victim| victim.taken(old));
        taken.map_or_else(|| self.units.lives(old), |taken| taken.wanted)
    }

    /// Ends a victim: every copy has ended, or could not be read and stays where it is. Then the block is a closed one as before, and a
    /// victim again after the next occasion ([`Nameless::read_again`]): a read may fail once and succeed later. Returns whether the block was
    /// erased, so that its names are given out again.
    pub fn victim_done(&mut self) -> bool {
        gc::victim_done(self)
    }

    /// Allows units that could not be read to be tried once more: an erase has ended, or a host wants space. So units that can never be read
    /// do not keep GC busy for good.
    pub fn read_again(&mut self) {
        self.damage.read_again();
    }

    /// Returns whether a checkpoint would let blocks be erased that have to wait now.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.empty.waits_for_checkpoint()
    }

    /// Returns whether free blocks are running short, so that a checkpoint should be written to release some.
    pub fn is_short(&self) -> bool {
        gc::is_short(self)
    }

    /// The next block to be erased; `false`: it is to be retired, and that is done.
    pub fn next_erase(&mut self) -> Option<(BlockId, bool)> {
        gc::next_erase(self)
    }

    /// Postpones the erase that [`Nameless::next_erase`] returned, because it waits for reads.
    pub fn erase_later(&mut self, block: BlockId) {
        self.empty.erase_later(block);
    }

    /// Records that the erase of `block` has ended.
    pub fn erased(&mut self, block: BlockId, ok: bool) {
        gc::erased(self, block, ok);
    }

    // ---- checkpoints

    /// Begins a checkpoint of the current state. Blocks that are not needed now may be erased when it is
    /// [saved](Nameless::checkpoint_saved).
    pub fn checkpoint(&mut self) -> Vec<u8> {
        self.empty.cover();
        checkpoint::encode(self)
    }

    /// Records that the checkpoint is on the media.
    pub fn checkpoint_saved(&mut self) {
        self.empty.saved();
    }

    /// Records that the checkpoint could not be written.
    pub fn checkpoint_failed(&mut self) {
        self.empty.not_saved();
    }

    /// Largest size of a checkpoint, in bytes.
    pub fn checkpoint_bytes(&self) -> u64 {
        checkpoint::largest(self)
    }

    /// Restores the state of a checkpoint on media as they were found. The error is a sentence.
    pub fn restore(
        config: &NamelessConfig,
        layout: &Layout,
        bytes: &[u8],
        found: &[FoundChunk],
    ) -> Result<Nameless, String> {
        checkpoint::decode(Nameless::new(config, layout)?, bytes, found)
    }

    /// Walks every invariant and panics where one is broken.
    pub fn check(&self) {
        self.blocks.check();
        let mut owners: BTreeMap<u32, Lpn> = BTreeMap::new();
        for (lpn, ppa) in self.virtuals.iter().filter(|(_, ppa)| ppa.is_some()) {
            assert_eq!(owners.insert(ppa.0, lpn), None, "two virtual units at {}", ppa.0);
            let lives = self.units.lives(ppa) && self.units.is_virtual(ppa);
            assert!(lives || self.is_taken(ppa), "virtual unit {} at {} does not live", lpn.0, ppa.0);
        }
        let (mut named, mut pages) = (0, 0);
        for block in (0..self.layout.blocks).map(BlockId) {
            let units: Vec<Ppa> = self.units.of(block).collect();
            assert_eq!(units.len() as u32, self.blocks.valid(block), "valid units of block {}", block.0);
            let of_map = units.iter().filter(|&&ppa| self.units.is_virtual(ppa));
            of_map.for_each(|ppa| assert!(owners.contains_key(&ppa.0), "unit {} is not in the map", ppa.0));
            named += units.iter().filter(|&&ppa| !self.units.is_virtual(ppa)).count();
            pages += if self.blocks.state(block) == BlockState::Free {
                self.layout.superpages_per_block
            } else {
                0
            };
        }
        let open =
            self.blocks.open().all().map(|(_, open)| self.layout.superpages_per_block - open.superpage);
        assert_eq!(pages + open.sum::<u32>(), self.pages.left(), "pages that can be written");
        let taken = self.victim.iter().flat_map(|victim| victim.all_taken());
        named += taken.filter(|(_, taken)| *taken == Taken { wanted: true, lpn: None }).count();
        assert_eq!(named as u32, self.names.named(), "nameless units");
        for (old, new) in self.moves.iter() {
            let lives = self.units.lives(new) && !self.units.is_virtual(new);
            assert!(lives, "the new place {} lives", new.0);
            assert!(!self.units.lives(old), "the old place {} does not", old.0);
        }
        self.moves.check(&self.layout);
        for block in self.damage.unread() {
            assert_eq!(self.blocks.state(block), BlockState::Closed, "block {} waits to be read", block.0);
        }
        for block in self.empty.iter() {
            let needed = self.blocks.valid(block) > 0 || self.moves.is_held(block);
            assert!(!needed, "block {} is needed", block.0);
        }
    }
}
