//! Core of a page map: the objects that its paths use.

use super::demand_map::DemandMap;
use super::place::{Ground, Placement, Space};
use super::programs::Programs;
use super::slc::SlcCache;
use super::table::Table;
use crate::block_manager::BlockManager;
use crate::gc::{Gc, Parts};
use crate::handles::Handles;
use crate::outdated::OutdatedCopies;
use crate::policy::Forked;
use crate::setup_error::SetupError;
use crate::spare::entries_per_page;
use crate::temperature::Temperature;
use crate::translation::Stream;
use crate::translation_pages::TranslationPages;
use crate::valid_units::ValidUnits;
use crate::{Durability, FtlConfig, Separation, Victim, VictimPolicy};
use pellucid_flash::{BlockId, Layout, Lpn, Ppa, Rng};

/// Description of a page map, and the numbering of its logical pages: first those of the host, then translation pages. It never changes.
#[derive(Clone, Debug)]
pub struct Shape {
    pub config: FtlConfig,
    pub layout: Layout,
    /// Pages that the host can address.
    pub user_units: u32,
    /// Translation pages; none with [`Durability::Volatile`].
    pub map_pages: u32,
    /// Entries of four bytes of a translation page.
    pub entries: u32,
    /// Most host pages that the media hold at one time.
    pub held: u32,
    /// Superpages of data in a block: all, less the list of its pages; `slc_superpages`: in one of the SLC cache.
    data_superpages: u32,
    slc_superpages: u32,
}

impl Shape {
    /// Numbers the pages of a drive.
    ///
    /// # Errors
    /// The user capacity does not fit on the media.
    fn new<T: Table>(config: &FtlConfig, layout: &Layout) -> Result<Shape, SetupError> {
        let (physical, wanted) = (u64::from(layout.units), config.user_units(layout));
        let entries = entries_per_page(layout);
        let (user_units, map_pages) = T::numbering(config, wanted, entries);
        if wanted == 0 || wanted + map_pages > physical {
            return Err(SetupError::TooLittleSpare {
                physical_units: physical,
                user_units: wanted,
                needed_units: map_pages,
            });
        }
        Ok(Shape {
            config: config.clone(),
            layout: layout.clone(),
            user_units: user_units as u32,
            map_pages: map_pages as u32,
            entries,
            held: wanted as u32,
            data_superpages: layout.superpages_per_block - config.list_superpages(),
            slc_superpages: layout.superpages_per_block / config.slc_cache.map_or(1, |slc| slc.bits),
        })
    }

    /// Units that the media have to hold: host data and translation pages.
    pub fn held_units(&self) -> u64 {
        u64::from(self.held) + u64::from(self.map_pages)
    }

    /// Logical pages in all.
    pub fn pages(&self) -> u32 {
        self.user_units + self.map_pages
    }

    /// Returns whether the host addresses `lpn`; if not, it is a translation page.
    #[inline]
    pub fn is_hosts(&self, lpn: Lpn) -> bool {
        lpn.0 < self.user_units
    }

    /// The logical page of a translation page.
    #[inline]
    pub fn map_page_lpn(&self, page: u32) -> Lpn {
        Lpn(self.user_units + page)
    }

    /// Returns whether nothing on the media survives a power cut.
    pub fn is_volatile(&self) -> bool {
        self.config.durability == Durability::Volatile
    }

    /// Superpages that a block takes, of the SLC cache or not, for translation pages or not.
    #[inline]
    pub fn superpages_of_kind(&self, cached: bool, meta: bool) -> u32 {
        match (cached, meta) {
            (true, _) => self.slc_superpages,
            (false, true) => self.layout.superpages_per_block,
            (false, false) => self.data_superpages,
        }
    }

    /// Returns whether a block of data ends with a list of its pages.
    #[inline]
    pub fn has_lists(&self) -> bool {
        self.data_superpages < self.layout.superpages_per_block
    }

    /// Returns whether a block with this many superpages ends with one.
    pub fn ends_with_list(&self, superpages: u32) -> bool {
        self.has_lists() && superpages == self.layout.superpages_per_block
    }

    /// Returns whether `good` blocks on `live` dies leave too little space for the required contents of the
    /// media.
    pub fn is_too_large_for(&self, good: u32, live: u32) -> bool {
        let most = self.config.units_max(&self.layout, good, live, self.config.working_blocks());
        self.held_units() > most
    }
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub struct Core<T> {
    pub(crate) shape: Shape,
    pub(crate) table: T,
    pub(crate) valid: ValidUnits,
    pub(crate) blocks: BlockManager,
    pub(crate) gc: Gc,
    pub(crate) programs: Programs,
    pub(super) placement: Placement,
    pub(crate) pages: TranslationPages,
    /// `None`: all entries of the map are in memory.
    pub(super) demand: Option<DemandMap>,
    pub(super) slc: SlcCache,
    pub(crate) handles: Handles,
    pub(crate) outdated: OutdatedCopies,
    pub(crate) temperature: Option<Temperature>,
    /// The random choices of victims and dies, in the order in which they are made.
    pub(crate) rng: Rng,
}

impl<T: Table> Core<T> {
    /// Creates the state for empty media on which `bad` blocks are retired, or for a used drive, which may have lost more blocks: its
    /// data stay readable however few good blocks are left, but with too few it is worn out.
    ///
    /// # Errors
    /// The user capacity does not fit on any number of good blocks, or the system has no memory for the table.
    pub(crate) fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<Core<T>, SetupError> {
        let shape = Shape::new::<T>(config, layout)?;
        let (user_units, map_pages) = (shape.user_units, shape.map_pages);
        let (streams, lists) = (Stream::places(config.handles), config.list_superpages());
        let (slc, buckets) = (config.cache_blocks(), config.victim == Victim::Greedy);
        let mut blocks = BlockManager::new(layout, slc, buckets, config.wear.dynamic, streams, lists);
        bad.iter().for_each(|&block| blocks.retire(block));
        let outside = Forked::<dyn VictimPolicy>::of(T::victim_policy(&config.policies));
        Ok(Core {
            valid: ValidUnits::new(layout.units)?,
            table: T::create(&shape)?,
            blocks,
            gc: Gc::new(config, layout, outside),
            programs: Programs::new(layout.units_per_superpage),
            placement: Placement::new(config, layout),
            pages: TranslationPages::new(map_pages, config.durability, layout, T::DROPS_COPIES),
            demand: DemandMap::of(config, user_units, map_pages, layout),
            slc: SlcCache::new(config.slc_cache.is_some()),
            handles: Handles::new(config.handles, layout),
            outdated: OutdatedCopies::default(),
            temperature: (config.separation == Separation::Frequency).then(|| Temperature::new(user_units)),
            rng: Rng::stream(config.seed, "ftl"),
            shape,
        })
    }

    /// The newest copy of `lpn`; [`Ppa::NONE`]: none; [`Ppa::LOST`].
    #[inline]
    pub(crate) fn copy_of(&self, lpn: Lpn) -> Ppa {
        self.table.get(lpn)
    }

    /// Translation page that holds the entry of `lpn`.
    #[inline]
    pub(crate) fn page_of(&self, lpn: Lpn) -> u32 {
        self.table.part_of(&self.shape, lpn)
    }

    /// Logical page that the number in a spare area stands for.
    #[inline]
    pub(crate) fn named(&self, mark: Lpn) -> Lpn {
        let mark = T::named(mark);
        let all = self.shape.pages();
        let untrimmed = all..all + self.shape.map_pages;
        if untrimmed.contains(&mark.0) { Lpn(mark.0 - self.shape.map_pages) } else { mark }
    }

    /// Space of the dies.
    #[inline]
    pub(super) fn space(&self) -> Space<'_> {
        Space::new(&self.shape, &self.blocks, &self.gc)
    }

    /// Placement, and the parts that it works on.
    #[inline]
    pub(super) fn placing(&mut self) -> (&mut Placement, Ground<'_>) {
        let ground =
            Ground { shape: &self.shape, blocks: &mut self.blocks, gc: &mut self.gc, rng: &mut self.rng };
        (&mut self.placement, ground)
    }

    /// GC, and the parts that it works on.
    #[inline]
    pub(crate) fn collecting(&mut self) -> (&mut Gc, Parts<'_>) {
        let parts = Parts {
            valid: &self.valid,
            kept: self.table.kept(),
            blocks: &mut self.blocks,
            pages: &mut self.pages,
            handles: &mut self.handles,
            rng: &mut self.rng,
            sequence: self.programs.sequence(),
        };
        (&mut self.gc, parts)
    }

    /// Takes the number of the next program.
    #[inline]
    pub(crate) fn take_number(&mut self) -> u64 {
        let sequence = self.programs.take_number();
        self.table.numbered(self.programs.sequence());
        sequence
    }

    /// Sets, at a mount, the number of the next program.
    pub(crate) fn go_on_from(&mut self, sequence: u64) {
        self.programs.go_on_from(sequence);
        self.table.numbered(sequence);
    }

    /// The address of `lpn`'s newest copy that is on the media.
    #[inline]
    pub(crate) fn settled_copy(&self, settled: &super::programs::Settled, lpn: Lpn) -> Ppa {
        let newest = self.copy_of(lpn);
        if !settled.may_hold(newest) {
            return newest;
        }
        let in_flight = |ppa: Ppa| self.blocks.in_flight(self.shape.layout.block_of(ppa)) > 0;
        self.programs.settled_copy(settled, newest, in_flight)
    }
}
