//! Setup and figures of a page map.

use super::core::{Core, Shape};
use super::table::Table;
use super::{PageMap, copies, mount, reclaim_units, slc};
use crate::block_manager::{BlockManager, BlockState};
use crate::gc::GcCounters;
use crate::mount::{MountReport, MountSource};
use crate::setup_error::SetupError;
use crate::translation::{Caller, Start, Stream, View};
use crate::{FtlConfig, FtlCounters, MapCounters};
use pellucid_flash::{BlockId, BlockView, DieId, Layout, Lpn};

/// Translation pages, and how far their writing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapProgress {
    /// Translation pages of the map; none with [`Durability::Volatile`](crate::Durability::Volatile).
    pub pages: u32,
    /// Translation pages on their way to the media, planned or not.
    pub under_way: u32,
    /// Some of these wait for their program.
    pub wanted: bool,
}

/// The blocks of a page map, for looking at them.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    blocks: &'a BlockManager,
    shape: &'a Shape,
}

impl Blocks<'_> {
    /// Erases of `block` so far.
    pub fn erases(self, block: BlockId) -> u32 {
        self.blocks.erases(block)
    }

    /// Units of a block that are valid.
    pub fn valid_units(self, block: BlockId) -> u32 {
        self.blocks.valid(block)
    }

    /// Returns whether `block` accepts data before its next erase.
    pub fn takes_data(self, block: BlockId) -> bool {
        matches!(self.blocks.state(block), BlockState::Free | BlockState::Open)
    }

    /// The block that `stream` has open in `die`, and its next superpage.
    pub fn open_superpage(self, die: DieId, stream: Stream) -> Option<(BlockId, u32)> {
        let open = self.blocks.open().at(die, self.shape.config.shared(stream).place());
        open.map(|open| (open.block, open.superpage))
    }

    /// Returns whether [`PageMap::reap`] may have something to do in any die.
    #[inline]
    pub fn may_be_reaped(self) -> bool {
        self.blocks.has_dead_or_empty()
    }

    /// The block as an observer sees it.
    pub fn view(self, block: BlockId) -> BlockView {
        self.blocks.view(block)
    }

    /// Free blocks in all.
    #[inline]
    pub fn free(self) -> u32 {
        self.blocks.free_total()
    }

    /// Bad blocks in all, factory and grown.
    pub fn bad(self) -> u32 {
        self.blocks.bad_count()
    }
}

/// Setup.
impl<T: Table> PageMap<T> {
    /// Creates translation for empty media on which `bad` blocks are retired from the start.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<PageMap<T>, SetupError> {
        let mut core = Core::new(config, layout, bad)?;
        let physical = u64::from(layout.units) - bad.len() as u64 * u64::from(layout.units_per_block);
        let good = layout.blocks - bad.len() as u32;
        let most = config.units_max(layout, good, layout.dies, config.working_blocks());
        let map_pages = u64::from(core.shape.map_pages);
        if core.shape.held_units() > most {
            return Err(SetupError::TooLittleSpare {
                physical_units: physical,
                user_units: core.shape.held_units() - map_pages,
                needed_units: physical - most + map_pages,
            });
        }
        if let Some(demand) = &mut core.demand {
            demand.fill();
        }
        Ok(PageMap { core })
    }

    /// Starts translation on these media; also returns the report of a mount. With [`Durability::Volatile`](crate::Durability::Volatile) a
    /// mounted drive starts empty: blocks that hold anything are emptied and erased by GC. Restored media are kept then, too; but such a
    /// drive has no record of trimmed pages, so their last copy comes back if it has not been erased.
    pub fn start<S: MountSource>(
        config: &FtlConfig,
        layout: &Layout,
        from: Start<'_, S>,
    ) -> Result<(PageMap<T>, Option<MountReport>), SetupError> {
        let (source, saved) = match from {
            Start::Empty { bad, erases } => {
                let mut map = PageMap::new(config, layout, bad)?;
                (0..layout.blocks).for_each(|block| map.core.blocks.set_erases(BlockId(block), erases));
                return Ok((map, None));
            }
            Start::Mount(source) => (source, false),
            Start::Restore(source) => (source, true),
        };
        let mut core = Core::new(config, layout, &source.bad_blocks(layout))?;
        let keep = saved || !core.shape.is_volatile();
        let report = mount::rebuild(&mut core, source, keep);
        if keep && !saved {
            mount::expect_power_cuts(&mut core);
        }
        Ok((PageMap { core }, Some(report)))
    }

    /// Sets the caller to work for from now on.
    pub fn serve(&mut self, caller: Caller) {
        self.core.gc.set_sense(caller.sense);
        self.core.outdated.set_taken(caller.takes_outdated);
    }
}

/// Figures.
impl<T: Table> PageMap<T> {
    /// Mapping units the host may use.
    pub fn user_units(&self) -> u32 {
        self.core.shape.user_units
    }

    /// Figures for reports and hosts.
    pub fn view(&self) -> View {
        let Core { shape, table, valid, blocks, demand, .. } = &self.core;
        let map = table.memory_bytes() + valid.memory_bytes();
        let map_bytes = demand.as_ref().map_or(map, |demand| demand.memory_bytes(shape.map_pages));
        View {
            user_units: shape.user_units,
            worn_out: shape.is_too_large_for(blocks.good(), blocks.live_dies()),
            counters: counters(&self.core),
            cache: slc::cache_use(&self.core),
            memory_bytes: map_bytes + blocks.memory_bytes(),
            map_bytes,
        }
    }

    /// Sets the counters: to zero, or to those from before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        let core = &mut self.core;
        *core.gc.counters_mut() = GcCounters {
            victims: counters.victims,
            victim_valid_units: counters.victim_valid_units,
            copied_units: counters.copied_units,
            grown_bad: counters.grown_bad,
            emergency_victims: counters.emergency_victims,
            refreshed: counters.refreshed,
            pauses: counters.pauses,
        };
        core.slc.set_counts((counters.cached_units, counters.direct_units));
        core.pages.set_written(counters.map.writes);
        core.table.set_dropped_units(counters.evicted_units);
        if let Some(demand) = &mut core.demand {
            demand.set_counters(counters.map);
        }
    }

    /// The blocks.
    #[inline]
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks { blocks: &self.core.blocks, shape: &self.core.shape }
    }

    /// How far the writing of translation pages has come.
    pub fn map_progress(&self) -> MapProgress {
        let (pages, writes) = (self.core.shape.map_pages, &self.core.pages.writes);
        MapProgress { pages, under_way: writes.count() as u32, wanted: writes.any_wanted() }
    }

    /// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        let core = &self.core;
        core.blocks.check();
        core.gc.victims().check();
        reclaim_units::check(core);
        core.placement.check(core.space());
        slc::check(core);
        T::check(core);
        copies::check(core);
    }

    /// Panics where media and map disagree on an entry without a known update. Cost: all translation pages.
    pub fn check_media(&self, source: &impl MountSource) {
        let Core { shape, table, pages, demand, programs, .. } = &self.core;
        if let Some(demand) = demand {
            let settled = programs.settled();
            demand.check(shape, table, pages, |lpn| self.core.settled_copy(&settled, lpn), source);
        }
    }
}

/// Spare areas.
impl<T: Table> PageMap<T> {
    /// Entry for the spare area of a copy of `lpn`, whose data arrived `dirty` or not.
    #[inline]
    pub fn mark(&self, lpn: Lpn, dirty: bool) -> Lpn {
        T::mark(&self.core.shape, lpn, dirty)
    }

    /// Page that a spare area with this mark names.
    #[inline]
    pub fn named(&self, mark: Lpn) -> Lpn {
        T::named(mark)
    }
}

fn counters<T: Table>(core: &Core<T>) -> FtlCounters {
    let gc = core.gc.counters();
    let (cached_units, direct_units) = core.slc.counts();
    let map = core.demand.as_ref().map_or(MapCounters::default(), |demand| *demand.counters());
    FtlCounters {
        victims: gc.victims,
        victim_valid_units: gc.victim_valid_units,
        copied_units: gc.copied_units,
        evicted_units: core.table.dropped_units(),
        grown_bad: gc.grown_bad,
        emergency_victims: gc.emergency_victims,
        refreshed: gc.refreshed,
        cached_units,
        direct_units,
        merges: Default::default(),
        map: MapCounters { writes: core.pages.written(), ..map },
        pauses: gc.pauses,
    }
}
