//! Nameless writes: which sectors live, where virtual ones lie, what moves, and which block may be erased.
//!
//! Decisions only; the caller programs, reads, erases and saves checkpoints. There is no map of data: the host has their names, which
//! are their places. Blocks, wear and victims are those of every translation ([`BlockManager`]).
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

mod checkpoint;
mod units;
mod virtuals;

pub use checkpoint::FoundChunk;

use crate::block_manager::{BlockKind, BlockManager, BlockState};
use pellucid_flash::{BlockId, DieId, Layout, Lba, Lpn, Migration, Ppa};
use std::collections::{BTreeMap, VecDeque};
use units::Units;
use virtuals::Virtuals;

/// What can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct NamelessConfig {
    /// Spare space: media units / units that can live - 1.
    pub over_provisioning: f64,
    /// Share of the units that can live that is the virtual address space.
    pub virtual_share: f64,
    /// GC runs while no more blocks are free; 0: a 256th of them, but as many as a die each takes, and four more.
    pub gc_low: u32,
    /// What becomes of the old copy of a unit that is moved.
    pub migration: Migration,
}

impl Default for NamelessConfig {
    fn default() -> Self {
        NamelessConfig {
            over_provisioning: 0.0753,
            virtual_share: 0.0625,
            gc_low: 0,
            migration: Migration::Acknowledged,
        }
    }
}

impl NamelessConfig {
    /// With what follows from the media.
    fn on(&self, layout: &Layout) -> NamelessConfig {
        let least = (layout.dies + 4).max(layout.blocks / 256);
        NamelessConfig { gc_low: if self.gc_low == 0 { least } else { self.gc_low }, ..self.clone() }
    }
}

/// Moves that may wait for their acknowledgement at the same time, at most.
const MOVES_MAX: u32 = 4096;

/// What a unit of a program holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing: the rest of a page.
    #[default]
    Padding,
    /// Data that are named by their place.
    Nameless,
    /// A virtual unit.
    Virtual(Lpn),
    /// A copy of the unit at this place.
    Copy(Ppa),
}

/// What may take a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Nameless writes, perhaps with virtual ones.
    Nameless,
    /// Virtual writes alone: a host may need them in order to acknowledge moves.
    Virtual,
    /// Copies of a victim.
    Gc,
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Nowhere.
    Unknown,
    /// A virtual unit lies there.
    Virtual,
    /// The data are there.
    Here,
    /// The data are there, and a new copy that the host has not acknowledged.
    Moved(Ppa),
    /// The data were there, and the caller has them in memory: their block is being erased.
    Leaving,
}

/// A victim whose units are on their way.
#[derive(Clone, Debug)]
struct Victim {
    block: BlockId,
    /// Virtual addresses of its units, found by looking through the map once, so that no table has to say them.
    owners: BTreeMap<u32, Lpn>,
    /// Units taken off the media before they were written again, by place; whether they are still wanted, and their virtual address.
    taken: BTreeMap<u32, (bool, Option<Lpn>)>,
    /// Its erase has ended, well or not. It is used again only when it is done, so that no name is given anew before its move is told.
    erased: Option<bool>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamelessCounters {
    /// Victims chosen.
    pub victims: u64,
    /// Units copied.
    pub copied: u64,
    /// Moves told to the host.
    pub moves: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Units that a start did not find where the checkpoint says.
    pub lost: u64,
}

/// The state.
#[derive(Clone, Debug)]
pub struct Nameless {
    config: NamelessConfig,
    layout: Layout,
    blocks: BlockManager,
    units: Units,
    virtuals: Virtuals,
    virtual_units: u32,
    /// Nameless units that may live.
    capacity: u32,
    /// Nameless units that live, and those on their way.
    named: u32,
    promised: u32,
    /// Moves that are not acknowledged: old place, new place.
    moved: BTreeMap<u32, u32>,
    /// Of these, by block: old copies, and new ones.
    held: BTreeMap<u32, u32>,
    fresh: BTreeMap<u32, u32>,
    victim: Option<Victim>,
    /// Blocks that may be erased with a checkpoint: first those that the one under way covers.
    emptied: VecDeque<BlockId>,
    covering: usize,
    covered: VecDeque<BlockId>,
    /// Closed blocks with a failed program.
    failed: Vec<BlockId>,
    /// Pages that can still be written: in open blocks, and in free ones.
    pages: u32,
    next_die: u32,
    sequence: u64,
    notices: VecDeque<(Ppa, Ppa)>,
    counters: NamelessCounters,
}

impl Nameless {
    /// For media without data. The error is a sentence.
    pub fn new(config: &NamelessConfig, layout: &Layout) -> Result<Nameless, String> {
        // Open blocks, the two reserves, one victim whose move is not acknowledged, and one block beside them.
        let used = layout.blocks.saturating_sub(layout.dies + 4);
        let able = u64::from(used) * u64::from(layout.units_per_block - layout.units_per_superpage);
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
            units: Units::new(layout),
            virtuals: Virtuals::new(virtual_units),
            virtual_units,
            capacity: living - virtual_units,
            named: 0,
            promised: 0,
            moved: BTreeMap::new(),
            held: BTreeMap::new(),
            fresh: BTreeMap::new(),
            victim: None,
            emptied: VecDeque::new(),
            covering: 0,
            covered: VecDeque::new(),
            failed: Vec::new(),
            pages: layout.blocks * layout.superpages_per_block,
            next_die: 0,
            sequence: 0,
            notices: VecDeque::new(),
            counters: NamelessCounters::default(),
            config: config.on(layout),
            layout: layout.clone(),
        })
    }

    /// Takes blocks out of use that were found so, before anything is written.
    pub fn retire(&mut self, found: &[FoundChunk]) {
        for (block, _) in (0..).map(BlockId).zip(found).filter(|(_, chunk)| **chunk == FoundChunk::Offline) {
            self.blocks.retire(block);
            self.pages -= self.layout.superpages_per_block;
        }
    }

    /// The shape of the media.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Units that can have names.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Units of the virtual address space.
    pub fn virtual_units(&self) -> u32 {
        self.virtual_units
    }

    /// Units that have names.
    pub fn named(&self) -> u32 {
        self.named
    }

    /// What was counted.
    pub fn counters(&self) -> NamelessCounters {
        self.counters
    }

    /// Free blocks.
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free_total()
    }

    /// Moves that the host has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.moved.len()
    }

    /// The same: old place and new one.
    pub fn moves(&self) -> impl Iterator<Item = (Lba, Lba)> + '_ {
        self.moved.iter().map(|(&old, &new)| (Lba(old.into()), Lba(new.into())))
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let pairs = self.moved.len() + self.held.len() + self.fresh.len();
        let lists = self.emptied.capacity() + self.covered.capacity() + self.failed.capacity();
        self.blocks.memory_bytes()
            + self.units.memory_bytes()
            + self.virtuals.memory_bytes()
            + (pairs * 8 + lists * 4 + self.notices.capacity() * 8) as u64
    }
}

/// Names and virtual addresses.
impl Nameless {
    /// Space for `units` more nameless ones, which are then on their way; `false`: there is none.
    pub fn promise(&mut self, units: u32) -> bool {
        let fits =
            u64::from(self.named) + u64::from(self.promised) + u64::from(units) <= self.capacity.into();
        self.promised += if fits { units } else { 0 };
        fits
    }

    /// Nameless units on their way will not be written.
    pub fn break_promise(&mut self, units: u32) {
        self.promised -= units;
    }

    /// Where a virtual unit lies; it may be [taken](Nameless::is_taken).
    pub fn lookup(&self, lpn: Lpn) -> Ppa {
        self.virtuals.get(lpn)
    }

    /// Whether the unit at `ppa` is off the media, and the caller has it in memory.
    pub fn is_taken(&self, ppa: Ppa) -> bool {
        self.victim.as_ref().is_some_and(|victim| victim.taken.contains_key(&ppa.0))
    }

    /// Units that are off the media.
    pub fn taken(&self) -> impl Iterator<Item = Ppa> + '_ {
        self.victim.iter().flat_map(|victim| victim.taken.keys().copied().map(Ppa))
    }

    /// Where a name leads.
    pub fn name(&self, name: Ppa) -> Name {
        let taken = self.victim.as_ref().and_then(|victim| victim.taken.get(&name.0));
        match taken {
            Some((true, None)) => return Name::Leaving,
            Some((true, Some(_))) => return Name::Virtual,
            _ => {}
        }
        if name.0 >= self.layout.units {
            Name::Unknown
        } else if let Some(&new) = self.moved.get(&name.0) {
            Name::Moved(Ppa(new))
        } else if !self.units.lives(name) {
            Name::Unknown
        } else if self.units.is_virtual(name) {
            Name::Virtual
        } else {
            Name::Here
        }
    }

    /// A name is needed no more; with the old name of a move the new one is not, either. `false`: there is none.
    pub fn free(&mut self, name: Ppa) -> bool {
        match self.name(name) {
            Name::Unknown | Name::Virtual => return false,
            Name::Leaving => {
                let victim = self.victim.as_mut().expect("what leaves has a victim");
                victim.taken.insert(name.0, (false, None));
            }
            Name::Moved(new) => {
                self.end_move(name);
                self.kill(new);
            }
            Name::Here => {
                let fresh = self.fresh.contains_key(&self.layout.block_of(name).0);
                let old =
                    self.moved.iter().find(|(_, new)| fresh && **new == name.0).map(|(&old, _)| Ppa(old));
                old.into_iter().for_each(|old| self.end_move(old));
                self.kill(name);
            }
        }
        self.named -= 1;
        true
    }

    /// A virtual unit is needed no more.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.virtuals.set(lpn, Ppa::NONE);
        self.kill_virtual(old);
    }

    /// The host knows the new name of what was at `old`. `false`: there is no such move.
    pub fn acknowledge(&mut self, old: Ppa) -> bool {
        let known = self.moved.contains_key(&old.0);
        if known {
            self.end_move(old);
        }
        known
    }

    fn end_move(&mut self, old: Ppa) {
        let new = self.moved.remove(&old.0).expect("a move");
        let (held, fresh) = (self.layout.block_of(old), self.layout.block_of(Ppa(new)));
        for (counts, block) in [(&mut self.held, held), (&mut self.fresh, fresh)] {
            let count = counts.get_mut(&block.0).expect("a count of the move's block");
            *count -= 1;
            if *count == 0 {
                counts.remove(&block.0);
            }
        }
        self.note_if_empty(held);
    }

    /// The next move to be told: old name and new one.
    pub fn next_move(&mut self) -> Option<(Ppa, Ppa)> {
        self.notices.pop_front()
    }

    /// Whether moves wait to be told.
    pub fn has_moves(&self) -> bool {
        !self.notices.is_empty()
    }

    fn kill(&mut self, ppa: Ppa) {
        let block = self.layout.block_of(ppa);
        self.units.clear(ppa);
        self.blocks.remove_valid(block);
        self.note_if_empty(block);
    }

    /// The copy of a virtual unit at `old` is not the newest any more.
    fn kill_virtual(&mut self, old: Ppa) {
        if !old.is_some() {
            return;
        }
        if let Some(taken) = self.victim.as_mut().and_then(|victim| victim.taken.get_mut(&old.0)) {
            taken.0 = false;
        } else {
            self.kill(old);
        }
    }

    /// A block that is not needed waits for a checkpoint.
    fn note_if_empty(&mut self, block: BlockId) {
        let state = self.blocks.state(block);
        let settled = matches!(state, BlockState::Closed | BlockState::Victim);
        if !settled || self.blocks.valid(block) > 0 || self.held.contains_key(&block.0) {
            return;
        }
        if state == BlockState::Closed {
            self.blocks.choose(block);
        }
        self.failed.retain(|&failed| failed != block);
        self.emptied.push_back(block);
    }
}

/// Programs.
impl Nameless {
    /// The next page, of a die that is not `busy`: its first unit. `None`: there is none now.
    pub fn place(&mut self, taker: Taker, busy: impl Fn(DieId) -> bool) -> Option<Ppa> {
        if !self.has_page(taker) {
            return None;
        }
        let dies = self.layout.dies;
        let able = |die: DieId| {
            !busy(die) && (self.blocks.open_block(die, 0).is_some() || self.blocks.free_count(die) > 0)
        };
        let die = (0..dies).map(|i| DieId((self.next_die + i) % dies)).find(|&die| able(die))?;
        self.next_die = (die.0 + 1) % dies;
        let superpages = self.layout.superpages_per_block;
        let kind =
            BlockKind { superpages, listed: false, cache: false, most_worn: false, meta: false, owner: 0 };
        self.pages -= 1;
        Some(self.blocks.take_superpage(die, 0, kind).0)
    }

    /// Whether there are pages for `taker`: a block's worth is kept for the copies of a victim, another for virtual writes.
    pub fn has_page(&self, taker: Taker) -> bool {
        let kept = match taker {
            Taker::Gc => 0,
            Taker::Virtual => 1,
            Taker::Nameless => 2,
        };
        self.pages > kept * self.layout.superpages_per_block
    }

    /// The program of the page at `page` has ended. Units that were to live do so if it ended well; else they have to be placed again.
    pub fn ended(&mut self, page: Ppa, contents: &[Content], ok: bool) {
        self.sequence += 1;
        let block = self.layout.block_of(page);
        if ok {
            for (ppa, &content) in (page.0..).map(Ppa).zip(contents) {
                self.written(ppa, content);
            }
        }
        self.blocks.settled(block, !ok, self.sequence);
        if !ok {
            self.close_failed(block);
        }
        if self.blocks.state(block) == BlockState::Closed {
            self.note_if_empty(block);
        }
    }

    fn close_failed(&mut self, block: BlockId) {
        let die = self.layout.die_of_block(block);
        if let Some(open) = self.blocks.open_block(die, 0).filter(|open| open.block == block) {
            self.pages -= self.layout.superpages_per_block - open.superpage;
        }
        self.blocks.close_failed(block, self.sequence);
        if !self.failed.contains(&block) {
            self.failed.push(block);
        }
    }

    fn written(&mut self, ppa: Ppa, content: Content) {
        match content {
            Content::Padding => {}
            Content::Nameless => {
                self.promised -= 1;
                self.named += 1;
                self.begin(ppa, false);
            }
            Content::Virtual(lpn) => self.replace(lpn, ppa),
            Content::Copy(old) => self.copied(old, ppa),
        }
    }

    fn begin(&mut self, ppa: Ppa, is_virtual: bool) {
        self.units.set(ppa, is_virtual);
        self.blocks.add_valid(self.layout.block_of(ppa), 1);
    }

    fn replace(&mut self, lpn: Lpn, ppa: Ppa) {
        self.begin(ppa, true);
        let old = self.virtuals.set(lpn, ppa);
        self.kill_virtual(old);
    }

    /// A copy is on the media; it counts if the unit is still wanted.
    fn copied(&mut self, old: Ppa, new: Ppa) {
        self.counters.copied += 1;
        let taken = self.victim.as_mut().and_then(|victim| victim.taken.remove(&old.0));
        match taken {
            Some((false, _)) => {}
            Some((true, Some(lpn))) => {
                self.begin(new, true);
                self.virtuals.set(lpn, new);
            }
            Some((true, None)) => {
                self.begin(new, false);
                self.tell(old, new);
            }
            None if !self.units.lives(old) => {}
            None if self.units.is_virtual(old) => {
                let victim = self.victim.as_ref().expect("copies have a victim");
                let lpn = victim.owners[&old.0];
                self.replace(lpn, new);
            }
            None => {
                self.begin(new, false);
                if self.config.migration == Migration::Acknowledged {
                    self.moved.insert(old.0, new.0);
                    *self.held.entry(self.layout.block_of(old).0).or_default() += 1;
                    *self.fresh.entry(self.layout.block_of(new).0).or_default() += 1;
                }
                self.kill(old);
                self.tell(old, new);
            }
        }
    }

    fn tell(&mut self, old: Ppa, new: Ppa) {
        self.counters.moves += 1;
        self.notices.push_back((old, new));
    }
}

/// Garbage collection.
impl Nameless {
    /// The next victim with its live units, when there are few free blocks.
    pub fn next_victim(&mut self) -> Option<(BlockId, Vec<Ppa>)> {
        if self.victim.is_some() {
            return None;
        }
        let block = self.failed_block().or_else(|| self.victim_for_space())?;
        self.failed.retain(|&failed| failed != block);
        self.blocks.choose(block);
        self.counters.victims += 1;
        self.victim =
            Some(Victim { block, owners: self.owners(block), taken: BTreeMap::new(), erased: None });
        Some((block, self.units.of(block).collect()))
    }

    /// A block with a failed program, whose data should leave it.
    fn failed_block(&self) -> Option<BlockId> {
        let may = |block: &BlockId| self.blocks.state(*block) == BlockState::Closed && self.may_move(*block);
        self.failed.iter().copied().find(may)
    }

    fn victim_for_space(&self) -> Option<BlockId> {
        let coming = self.emptied.len() + self.covered.len() + self.held.len();
        if self.blocks.free_total() + coming as u32 > self.config.gc_low {
            return None;
        }
        let may = |block| {
            self.blocks.may_be_victim(block) && self.blocks.frees_space(block) && self.may_move(block)
        };
        // Every block of a die that can give space: a victim is chosen once for a whole block, so an index would only cost memory.
        let dies = (0..self.layout.dies).map(DieId).filter(|&die| self.blocks.giving(die) > 0);
        let found = dies.flat_map(|die| self.blocks.of_die(die)).filter(|&block| may(block));
        found.min_by_key(|&block| (self.blocks.valid(block), self.blocks.erases(block), block))
    }

    /// Whether the live units of `block` may be moved now: they were not moved lately, and there is space.
    fn may_move(&self, block: BlockId) -> bool {
        let valid = self.blocks.valid(block);
        let pages = valid.div_ceil(self.layout.units_per_superpage);
        !self.fresh.contains_key(&block.0)
            && pages <= self.pages
            && self.moved.len() as u64 + u64::from(valid) <= self.moves_max()
    }

    fn moves_max(&self) -> u64 {
        let block = self.layout.units_per_block;
        MOVES_MAX.min(4 * block).max(block).into()
    }

    /// Virtual addresses of the units of `block`, by place.
    fn owners(&self, block: BlockId) -> BTreeMap<u32, Lpn> {
        if !self.units.has_virtual(block) {
            return BTreeMap::new();
        }
        let here = |&(_, ppa): &(Lpn, Ppa)| ppa.is_some() && self.layout.block_of(ppa) == block;
        self.virtuals.iter().filter(here).map(|(lpn, ppa)| (ppa.0, lpn)).collect()
    }

    /// Takes every live unit of the victim off the media: the caller has them in memory, erases the block and writes them again.
    pub fn take_out(&mut self) {
        let block = self.victim.as_ref().expect("a victim").block;
        let units: Vec<Ppa> = self.units.of(block).collect();
        for ppa in units {
            let victim = self.victim.as_mut().expect("a victim");
            let owner = victim.owners.get(&ppa.0).copied();
            victim.taken.insert(ppa.0, (true, owner));
            self.units.clear(ppa);
            self.blocks.remove_valid(block);
        }
        self.note_if_empty(block);
    }

    /// Whether a unit of the victim is still wanted, so that it has to be copied.
    pub fn is_wanted(&self, old: Ppa) -> bool {
        match self.victim.as_ref().and_then(|victim| victim.taken.get(&old.0)) {
            Some((wanted, _)) => *wanted,
            None => self.units.lives(old),
        }
    }

    /// Every copy of the victim has ended, or could not be read and stays where it is.
    pub fn victim_done(&mut self) {
        let victim = self.victim.take().expect("a victim");
        if let Some(ok) = victim.erased {
            self.erased(victim.block, ok);
        }
    }

    /// Whether a checkpoint would let blocks be erased that have to wait now.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.covering == 0 && self.covered.is_empty() && !self.emptied.is_empty()
    }

    /// Whether blocks run short, so that one should be made for it.
    pub fn is_short(&self) -> bool {
        self.blocks.free_total() <= self.config.gc_low / 2 || !self.has_page(Taker::Nameless)
    }

    /// The next block to be erased; `false`: to be retired, which is done.
    pub fn next_erase(&mut self) -> Option<(BlockId, bool)> {
        if self.config.migration == Migration::Prototype {
            self.covered.append(&mut self.emptied);
            self.covering = 0;
        }
        let block = self.covered.pop_front()?;
        if self.blocks.failed(block) {
            self.blocks.retire(block);
            return Some((block, false));
        }
        self.blocks.erasing(block);
        Some((block, true))
    }

    /// The erase that [`Nameless::next_erase`] gave waits for reads.
    pub fn erase_later(&mut self, block: BlockId) {
        self.covered.push_back(block);
    }

    /// The erase of `block` has ended.
    pub fn erased(&mut self, block: BlockId, ok: bool) {
        if let Some(victim) = self.victim.as_mut().filter(|victim| victim.block == block) {
            victim.erased = Some(ok);
        } else if ok {
            self.counters.erases += 1;
            self.blocks.erased(block);
            self.pages += self.layout.superpages_per_block;
        } else {
            self.blocks.retire(block);
        }
    }
}

impl Nameless {
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
        let open = self.blocks.all_open().map(|(_, open)| self.layout.superpages_per_block - open.superpage);
        assert_eq!(pages + open.sum::<u32>(), self.pages, "pages that can be written");
        let taken = self.victim.iter().flat_map(|victim| victim.taken.values());
        named += taken.filter(|taken| **taken == (true, None)).count();
        assert_eq!(named as u32, self.named, "nameless units");
        let (mut held, mut fresh) = (BTreeMap::new(), BTreeMap::new());
        for (&old, &new) in &self.moved {
            assert!(
                self.units.lives(Ppa(new)) && !self.units.is_virtual(Ppa(new)),
                "the new place {new} lives"
            );
            assert!(!self.units.lives(Ppa(old)), "the old place {old} does not");
            *held.entry(self.layout.block_of(Ppa(old)).0).or_insert(0) += 1;
            *fresh.entry(self.layout.block_of(Ppa(new)).0).or_insert(0) += 1;
        }
        assert_eq!((&held, &fresh), (&self.held, &self.fresh), "moves by block");
        for block in self.emptied.iter().chain(&self.covered) {
            assert!(
                self.blocks.valid(*block) == 0 && !held.contains_key(&block.0),
                "block {} is needed",
                block.0
            );
        }
    }
}
