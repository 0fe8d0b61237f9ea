//! Core of log-block translation: the objects that its paths use.

use super::Scheme;
use super::blocks::{Blocks, Role};
use super::contents::Contents;
use super::journal::{Journal, JournalSizes};
use super::logs::Logs;
use super::merges::Merges;
use super::programs::Programs;
use super::tally::Tally;
use crate::config::Map;
use crate::mapping_table::MappingTable;
use crate::outdated::OutdatedCopies;
use crate::translation::Outdated;
use crate::{Durability, FtlConfig, SetupError};
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Ppa};

/// Description of a drive, and the numbering of its logical blocks: n belongs to die `n % dies`. It never changes.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub scheme: Scheme,
    /// Log blocks per die; FAST adds a sequential one.
    pub log_blocks: u32,
    pub config: FtlConfig,
    pub layout: Layout,
    /// Pages of the address space.
    pub user_units: u32,
    /// Logical blocks that a cache can hold dirty at the same time; `None`: the drive is no cache and holds all.
    held_blocks: Option<u32>,
    /// `None`: no trim survives a power cut.
    pub journal: Option<JournalSizes>,
}

impl Shape {
    fn new(config: &FtlConfig, layout: &Layout) -> Result<Shape, SetupError> {
        let (scheme, log_blocks) = match config.map {
            Map::Bast { log_blocks } => (Scheme::Bast, log_blocks),
            Map::Fast { log_blocks } => (Scheme::Fast, log_blocks),
            other => unreachable!("{other:?} has no log blocks"),
        };
        let held = config.user_units(layout);
        if held == 0 || held > u64::from(layout.units) {
            return Err(SetupError::TooLittleSpare {
                physical_units: layout.units.into(),
                user_units: held,
                needed_units: 0,
            });
        }
        let held_blocks = ((held / u64::from(layout.units_per_block)) as u32).max(layout.dies);
        let mut shape = Shape {
            scheme,
            log_blocks: log_blocks.max(1),
            config: config.clone(),
            layout: layout.clone(),
            user_units: config.cache.map_or(held as u32, |cache| cache.address_units),
            held_blocks: config.cache.map(|_| held_blocks),
            journal: None,
        };
        let keeps = config.durability != Durability::Volatile;
        shape.journal = keeps.then(|| JournalSizes::new(layout, shape.logical_blocks_max()));
        Ok(shape)
    }

    /// Logical blocks of the drive.
    pub fn logical_blocks(&self) -> u32 {
        self.user_units.div_ceil(self.layout.units_per_block)
    }

    /// Logical blocks of the die that has most.
    fn logical_blocks_max(&self) -> u32 {
        self.logical_blocks().div_ceil(self.layout.dies)
    }

    /// Logical blocks of `die`.
    pub fn logical_blocks_of(&self, die: DieId) -> u32 {
        self.logical_blocks().saturating_sub(die.0).div_ceil(self.layout.dies)
    }

    /// Blocks of `die` that are for data: one for each of its logical blocks, or of a cache for those that it holds.
    pub fn data_blocks_of(&self, die: DieId) -> u32 {
        match self.held_blocks {
            Some(held) => held.saturating_sub(die.0).div_ceil(self.layout.dies),
            None => self.logical_blocks_of(die),
        }
    }

    /// Logical block of a page, and its number there.
    #[inline]
    pub fn lbn(&self, lpn: Lpn) -> (u32, u32) {
        self.layout.split.units_per_block.div_rem(lpn.0)
    }

    /// Page `at` of a logical block.
    #[inline]
    pub fn lpn(&self, lbn: u32, at: u32) -> Lpn {
        Lpn(lbn * self.layout.units_per_block + at)
    }

    /// Pages of a logical block; the last one may have fewer than the others.
    pub fn pages_of(&self, lbn: u32) -> u32 {
        (self.user_units - lbn * self.layout.units_per_block).min(self.layout.units_per_block)
    }

    /// The die of a logical block.
    pub fn die_of_lbn(&self, lbn: u32) -> DieId {
        DieId(lbn % self.layout.dies)
    }

    /// Number of a logical block among those of its die.
    pub fn local(&self, lbn: u32) -> u32 {
        lbn / self.layout.dies
    }

    /// Die of a page, and its number among the pages of that die.
    pub fn number_in_die(&self, lpn: Lpn) -> (DieId, u32) {
        let (lbn, at) = self.lbn(lpn);
        (self.die_of_lbn(lbn), self.local(lbn) * self.layout.units_per_block + at)
    }

    /// Log blocks of a die.
    pub fn logs_max(&self) -> u32 {
        self.log_blocks + u32::from(self.scheme == Scheme::Fast)
    }

    /// Random log blocks that each die keeps free of data: all, but where a cache lets data and logs share blocks.
    pub fn reserved_logs(&self) -> u32 {
        self.config.reserved_log_blocks().unwrap_or(0).max(1)
    }

    /// Log blocks without which a die cannot write.
    pub fn least_logs(&self) -> u32 {
        1 + u32::from(self.scheme == Scheme::Fast)
    }

    /// Blocks of a die that are neither for data nor for logs: the destination of a merge, a replacement should it fail, and metadata.
    pub fn kept_blocks(&self) -> u32 {
        2 + self.journal.map_or(0, |sizes| sizes.blocks)
    }

    /// Returns whether the copy at `ppa`, if there is one, lies in `block`.
    pub fn is_in(&self, ppa: Ppa, block: BlockId) -> bool {
        ppa.is_some() && self.layout.block_of(ppa) == block
    }

    /// Blocks that `die` needs with `log_blocks` log blocks: those for data, a sequential log block, the destination of a merge, a
    /// replacement should it fail, and metadata.
    pub fn blocks_needed(&self, die: DieId, log_blocks: u32) -> u32 {
        let sequential = u32::from(self.scheme == Scheme::Fast);
        self.data_blocks_of(die) + self.kept_blocks() + log_blocks + sequential
    }

    /// Blocks that `die` needs without log blocks, and without a replacement for a destination that fails.
    pub fn least_blocks(&self, die: DieId) -> u32 {
        self.data_blocks_of(die) + 1 + self.journal.map_or(0, |sizes| sizes.blocks)
    }

    /// Trim pages of a die.
    pub fn trim_pages_per_die(&self) -> u32 {
        self.journal.map_or(0, |sizes| sizes.pages)
    }

    /// Number of trim page `page` of `die` among those of the drive.
    pub fn trim_page(&self, die: DieId, page: u32) -> u32 {
        die.0 * self.trim_pages_per_die() + page
    }

    /// The logical pages of a trim page, with their positions.
    pub fn pages_of_trim_page(&self, die: DieId, page: u32) -> impl Iterator<Item = (u32, Lpn)> + use<> {
        let covers = self.journal.map_or(0, |sizes| sizes.covers);
        let (first, dies, split) = (page * covers, self.layout.dies, self.layout.split.units_per_block);
        let (user, blocks) = (self.user_units, self.logical_blocks());
        (0..covers)
            .map_while(move |at| {
                let (local, unit) = split.div_rem(first + at);
                let lbn = local * dies + die.0;
                (lbn < blocks).then(|| (at, Lpn(lbn * split.get() + unit)))
            })
            .filter(move |(_, lpn)| lpn.0 < user)
    }
}

/// State of one die; dies share nothing.
#[derive(Clone, Debug)]
pub(super) struct Die {
    pub logs: Logs,
    pub merges: Merges,
    pub journal: Journal,
    dead: bool,
}

impl Die {
    /// Returns whether its flash is dead.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Marks the die as dead; `false`: that was known.
    pub fn kill(&mut self) -> bool {
        !std::mem::replace(&mut self.dead, true)
    }
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub shape: Shape,
    pub map: MappingTable,
    pub blocks: Blocks,
    pub dies: Vec<Die>,
    pub programs: Programs,
    pub outdated: OutdatedCopies,
    pub tally: Tally,
    /// Content of a cache; `None`: the drive is none.
    pub cache: Option<Contents>,
}

impl Core {
    /// Creates the state for empty media on which `bad` blocks are retired, or for a drive in use, which may have lost blocks since.
    ///
    /// # Errors
    /// The user capacity does not fit on the media, or the system has no memory for the table.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<Core, SetupError> {
        let shape = Shape::new(config, layout)?;
        let die = Die {
            logs: Logs::new(shape.logical_blocks_max()),
            merges: Merges::default(),
            journal: Journal::new(shape.trim_pages_per_die()),
            dead: false,
        };
        Ok(Core {
            map: match config.cache {
                Some(_) => MappingTable::sparse(shape.user_units)?,
                None => MappingTable::new(shape.user_units)?,
            },
            blocks: Blocks::new(layout, bad, config.wear.dynamic),
            dies: vec![die; layout.dies as usize],
            programs: Programs::new(layout.units_per_superpage),
            outdated: OutdatedCopies::default(),
            tally: Tally::default(),
            cache: config.cache.map(|_| Contents::new(layout)),
            shape,
        })
    }

    /// State of a die.
    #[inline]
    pub fn die(&self, die: DieId) -> &Die {
        &self.dies[die.0 as usize]
    }

    /// State of a die, to be changed.
    #[inline]
    pub fn die_mut(&mut self, die: DieId) -> &mut Die {
        &mut self.dies[die.0 as usize]
    }

    /// State of the die of a block.
    #[inline]
    pub fn die_of(&self, block: BlockId) -> &Die {
        self.die(self.shape.layout.die_of_block(block))
    }

    /// State of the die of a block, to be changed.
    #[inline]
    pub fn die_of_mut(&mut self, block: BlockId) -> &mut Die {
        let die = self.shape.layout.die_of_block(block);
        self.die_mut(die)
    }

    /// The data block of a logical block.
    pub fn data_block(&self, lbn: u32) -> Option<BlockId> {
        self.die(self.shape.die_of_lbn(lbn)).logs.data(self.shape.local(lbn))
    }

    /// Sets the data block of a logical block.
    pub fn set_data_block(&mut self, lbn: u32, block: Option<BlockId>) {
        let (die, local) = (self.shape.die_of_lbn(lbn), self.shape.local(lbn));
        self.die_mut(die).logs.set_data(local, block);
    }

    /// Free blocks that metadata may still need.
    pub fn metadata_reserve(&self, die: DieId) -> u32 {
        let in_use = self.die(die).journal.blocks_in_use();
        self.shape.journal.map_or(0, |sizes| sizes.blocks.saturating_sub(in_use))
    }

    /// Returns whether `die` merges to a block that was free.
    pub fn has_destination(&self, die: DieId) -> bool {
        let target = self.die(die).merges.current().map(|merge| merge.target());
        target.is_some_and(|target| self.blocks.role(target) == Role::Destination)
    }

    /// Place where the data of the copy at `ppa` can be read now: there, or, until its program has ended, in the copy that it replaces.
    /// [`Ppa::NONE`]: the page has none on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        match self.blocks.in_flight(self.shape.layout.block_of(ppa)) {
            0 => ppa,
            _ => self.programs.on_media(ppa),
        }
    }

    /// Returns whether the copy at `ppa` is being programmed.
    pub fn is_under_way(&self, ppa: Ppa) -> bool {
        let in_flight = self.blocks.in_flight(self.shape.layout.block_of(ppa)) > 0;
        in_flight && self.programs.replaced_by(ppa).is_some()
    }

    /// The lowest sequence number of a program of `die` that has not ended; the next number if all have.
    pub fn oldest_program(&self, die: DieId) -> u64 {
        self.programs.oldest(|first| self.shape.layout.die_of(first) == die)
    }

    /// Releases the copy at `ppa`, which is no longer needed for this reason.
    pub fn release(&mut self, ppa: Ppa, why: Outdated) {
        if ppa.is_some() {
            self.blocks.unrefer(self.shape.layout.block_of(ppa));
            // The data of an evicted page may come back with a power cut, where those of a trimmed page read as zeros.
            if self.cache.is_none() || why == Outdated::Replaced {
                self.outdated.note(ppa, why);
            }
        }
    }

    /// Keeps the block of `ppa` from its erase until the current trims are on the media.
    pub fn keep_until_saved(&mut self, ppa: Ppa) {
        if ppa.is_some() {
            self.blocks.set_last_trim(self.shape.layout.block_of(ppa), self.tally.trims());
        }
    }
}
