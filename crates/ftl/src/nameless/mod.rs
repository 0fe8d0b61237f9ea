//! Nameless writes: which sectors live, where virtual ones lie, which units GC moves, and which block may be erased.
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

mod checkpoint;
mod gc;
mod names;
mod units;
mod virtuals;

pub use checkpoint::FoundChunk;

use crate::block_manager::{BlockKind, BlockManager, BlockState};
use pellucid_flash::{BlockId, BlockStream, BlockView, DieId, Layout, Lba, Lpn, Migration, Nanos, Ppa};
use pellucid_setting::Settings;
use std::collections::{BTreeMap, VecDeque};
use units::Units;
use virtuals::Virtuals;

/// Settings.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct NamelessConfig {
    /// Nameless writes: spare capacity as a share of what can hold data (Jasmine's firmware: 7 / 93).
    ///
    /// Media units / units that may live - 1.
    #[setting(kind = share(0.0, 100.0), default = 0.0753)]
    pub over_provisioning: f64,
    /// Nameless writes: share of what can hold data that has virtual addresses.
    #[setting(kind = SHARE, default = 0.0625)]
    pub virtual_share: f64,
    /// Nameless writes: GC runs while this many chunks or fewer are free. 0: 1/256 of all chunks, at least one per parallel unit plus four.
    ///
    /// A chunk is a block, and a parallel unit a die.
    #[setting(kind = few(0), default = 0)]
    pub gc_low: u32,
    /// Nameless writes: acknowledged: the old copy of a moved sector is kept until the host knows the new name; prototype: it is erased first, as in the paper.
    #[setting(default = "acknowledged")]
    pub migration: Migration,
    /// Nameless writes: how long a write waits for a host that has to acknowledge moves, or free names, before there is space. Then it ends with an
    /// error.
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

/// A victim whose units are being moved.
#[derive(Clone, Debug)]
struct Victim {
    block: BlockId,
    /// Virtual addresses of its units, found by one scan of the map, so that no table has to hold them.
    owners: BTreeMap<u32, Lpn>,
    /// Units taken off the media before they were written again, by place; whether they are still wanted, and their virtual address.
    taken: BTreeMap<u32, (bool, Option<Lpn>)>,
    /// Live units when it was chosen, and choices before this one that moved none of them.
    live: u32,
    fruitless: u32,
    /// The victim's erase has ended, well or not. The block is reused only when the victim is done, so that no name is reused before its
    /// move is reported.
    erased: Option<bool>,
}

/// A block with units that could not be read when it was a victim.
#[derive(Clone, Copy, Debug)]
struct Unread {
    /// Value of `round` from which on the units are read once more.
    again: u64,
    /// Choices as victim, one after the other, that moved none of its units.
    fruitless: u32,
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
    units: Units,
    virtuals: Virtuals,
    virtual_units: u32,
    /// Most nameless units that may live.
    capacity: u32,
    /// Nameless units that live, and those on their way.
    named: u32,
    promised: u32,
    /// Moves that are not acknowledged: old place, new place.
    moved: BTreeMap<u32, u32>,
    /// Units of unacknowledged moves, by block: old copies here, new ones in `fresh`.
    held: BTreeMap<u32, u32>,
    fresh: BTreeMap<u32, u32>,
    victim: Option<Victim>,
    /// Blocks that may be erased with a checkpoint: first those that the checkpoint under way covers.
    emptied: VecDeque<BlockId>,
    covering: usize,
    covered: VecDeque<BlockId>,
    /// Closed blocks with a failed program.
    failed: Vec<BlockId>,
    /// Closed blocks with units that could not be read when the block was a victim.
    unread: BTreeMap<BlockId, Unread>,
    /// Rises with every occasion to read such units once more.
    round: u64,
    /// Pages that can still be written: in open blocks, and in free ones.
    pages: u32,
    next_die: u32,
    sequence: u64,
    notices: VecDeque<(Ppa, Ppa)>,
    counters: NamelessCounters,
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
            unread: BTreeMap::new(),
            round: 0,
            pages: layout.blocks * layout.superpages_per_block,
            next_die: 0,
            sequence: 0,
            notices: VecDeque::new(),
            counters: NamelessCounters::default(),
            config: config.on(layout),
            layout: layout.clone(),
        })
    }

    /// Retires blocks that were found out of use, before anything is written.
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

    /// Event counts so far.
    pub fn counters(&self) -> NamelessCounters {
        self.counters
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
        self.moved.len()
    }

    /// Unacknowledged moves: old place and new one.
    pub fn moves(&self) -> impl Iterator<Item = (Lba, Lba)> + '_ {
        self.moved.iter().map(|(&old, &new)| (Lba(old.into()), Lba(new.into())))
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let pairs = self.moved.len() + self.held.len() + self.fresh.len();
        let lists = self.emptied.len() + self.covered.len() + self.failed.len() + 5 * self.unread.len();
        self.blocks.memory_bytes()
            + self.units.memory_bytes()
            + self.virtuals.memory_bytes()
            + (pairs * 8 + lists * 4 + self.notices.len() * 8) as u64
    }
}

/// Programs.
impl Nameless {
    /// Takes the next page of a die that is not `busy`, and returns its first unit. `None`: there is none now.
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
            || BlockKind { cache: false, most_worn: false, meta: false, owner: 0, stream: BlockStream::Host };
        self.pages -= 1;
        Some(self.blocks.take_superpage(die, 0, (superpages, false), kind).0)
    }

    /// Returns whether there are pages for `taker`: a block's worth is kept for the copies of a victim, another for virtual writes.
    pub fn has_page(&self, taker: Taker) -> bool {
        let kept = match taker {
            Taker::Gc => 0,
            Taker::Virtual => 1,
            Taker::Nameless => 2,
        };
        self.pages > kept * self.layout.superpages_per_block
    }

    /// Ends the program of the page at `page`. If it succeeded, its units now live; otherwise they have to be placed again.
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

    /// Records that a copy is on the media; it counts if the unit is still wanted.
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
        for &block in self.unread.keys() {
            assert_eq!(self.blocks.state(block), BlockState::Closed, "block {} waits to be read", block.0);
        }
        for block in self.emptied.iter().chain(&self.covered) {
            assert!(
                self.blocks.valid(*block) == 0 && !held.contains_key(&block.0),
                "block {} is needed",
                block.0
            );
        }
    }
}
