//! Core of a page map: the objects that its paths use.

use super::cache::Cache;
use super::demand_map::DemandMap;
use super::lists::Lists;
use super::place::{Ground, Placement, Space};
use super::programs::Programs;
use super::slc::SlcCache;
use crate::block_manager::BlockManager;
use crate::cached::page_of_mark;
use crate::gc::{Gc, Parts};
use crate::handles::Handles;
use crate::mapping_table::MappingTable;
use crate::outdated::OutdatedCopies;
use crate::setup_error::SetupError;
use crate::spare::entries_per_page;
use crate::sparse::SparseTable;
use crate::temperature::Temperature;
use crate::translation::Stream;
use crate::translation_pages::TranslationPages;
use crate::{Durability, FtlConfig, Separation, Victim};
use pellucid_flash::{BlockId, Layout, Lpn, Ppa, Rng};

/// Description of a page map, and the numbering of its logical pages: first those of the host, then translation pages. It never changes.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub config: FtlConfig,
    pub layout: Layout,
    /// Pages that the host can address.
    pub user_units: u32,
    /// Translation pages; none with [`Durability::Volatile`].
    pub map_pages: u32,
    /// Entries of a translation page; a cache has entries of twice the size.
    pub entries: u32,
    /// Most host pages that the media hold: all, or those of a cache.
    pub held: u32,
    /// Superpages of data in a block: all, less the list of a cache's block; `slc_superpages`: in one of the SLC cache.
    data_superpages: u32,
    slc_superpages: u32,
}

impl Shape {
    /// Numbers the pages of a drive.
    ///
    /// # Errors
    /// The user capacity does not fit on the media.
    fn new(config: &FtlConfig, layout: &Layout) -> Result<Shape, SetupError> {
        let (physical, wanted) = (u64::from(layout.units), config.user_units(layout));
        let entries = entries_per_page(layout);
        let map_pages = match (config.durability, config.cache) {
            (Durability::Volatile, _) => 0,
            (_, Some(_)) => SparseTable::regions_for(wanted, entries / 2).into(),
            (Durability::Journal { .. }, None) => wanted.div_ceil(entries.into()),
        };
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
            user_units: config.cache.as_ref().map_or(wanted as u32, |cache| cache.address_units),
            map_pages: map_pages as u32,
            entries,
            held: wanted as u32,
            data_superpages: layout.superpages_per_block - config.list_superpages(),
            slc_superpages: layout.superpages_per_block / config.slc_cache.map_or(1, |slc| slc.bits),
        })
    }

    /// An empty table for the pages.
    fn table(&self) -> Result<MappingTable, SetupError> {
        let units = self.layout.units;
        let Some(cache) = &self.config.cache else { return MappingTable::new(self.pages(), units) };
        let (address, slots) = (cache.address_units, self.entries / 2);
        let sparse = SparseTable::new(address, self.held.into(), slots, &self.layout, !self.is_volatile());
        MappingTable::of_cache(address, self.map_pages, units, sparse)
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

    /// Returns whether `good` blocks on `live` dies leave too little space for what the media have to hold.
    pub fn is_too_large_for(&self, good: u32, live: u32) -> bool {
        let most = self.config.units_max(&self.layout, good, live, self.config.working_blocks());
        self.held_units() > most
    }
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub shape: Shape,
    pub table: MappingTable,
    pub blocks: BlockManager,
    pub gc: Gc,
    pub programs: Programs,
    pub placement: Placement,
    pub pages: TranslationPages,
    /// `None`: all entries of the map are in memory.
    pub demand: Option<DemandMap>,
    /// `None`: the host addresses the drive's own pages.
    pub cache: Option<Box<Cache>>,
    pub slc: SlcCache,
    pub handles: Handles,
    pub outdated: OutdatedCopies,
    pub temperature: Option<Temperature>,
    /// The random choices of victims and dies, in the order in which they are made.
    pub rng: Rng,
}

impl Core {
    /// Creates the state for empty media on which `bad` blocks are retired, or for a drive in use, which may have lost blocks since: its
    /// data can be read, however few good blocks are left. With too few of them it is worn out.
    ///
    /// # Errors
    /// The user capacity does not fit on any number of good blocks, or the system has no memory for the table.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<Core, SetupError> {
        let shape = Shape::new(config, layout)?;
        let (user_units, map_pages) = (shape.user_units, shape.map_pages);
        let (streams, lists) = (Stream::places(config.handles), config.list_superpages());
        let (slc, buckets) = (config.cache_blocks(), config.victim == Victim::Greedy);
        let mut blocks = BlockManager::new(layout, slc, buckets, config.wear.dynamic, streams, lists);
        bad.iter().for_each(|&block| blocks.retire(block));
        let lists = || Box::new(Cache::new(Lists::new(config, map_pages, layout)));
        Ok(Core {
            table: shape.table()?,
            blocks,
            gc: Gc::new(config, layout),
            programs: Programs::new(layout.units_per_superpage),
            placement: Placement::new(config, layout),
            pages: TranslationPages::new(map_pages, config.durability, layout, config.cache.is_some()),
            demand: DemandMap::of(config, user_units, map_pages, layout),
            cache: config.cache.map(|_| lists()),
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
    pub fn copy_of(&self, lpn: Lpn) -> Ppa {
        self.table.get(lpn)
    }

    /// Translation page that holds the entry of `lpn`.
    #[inline]
    pub fn page_of(&self, lpn: Lpn) -> u32 {
        match self.table.sparse() {
            None => lpn.0 / self.shape.entries,
            Some(sparse) => sparse.region(lpn),
        }
    }

    /// Logical page that the number in a spare area stands for.
    #[inline]
    pub fn named(&self, mark: Lpn) -> Lpn {
        let mark = self.without_state(mark);
        let all = self.shape.pages();
        let untrimmed = all..all + self.shape.map_pages;
        if untrimmed.contains(&mark.0) { Lpn(mark.0 - self.shape.map_pages) } else { mark }
    }

    /// Page that an entry of a spare area or translation page names, without the state that a cache adds.
    #[inline]
    pub fn without_state(&self, mark: Lpn) -> Lpn {
        match self.cache {
            Some(_) => page_of_mark(mark),
            None => mark,
        }
    }

    /// Space of the dies.
    #[inline]
    pub fn space(&self) -> Space<'_> {
        Space::new(&self.shape, &self.blocks, &self.gc)
    }

    /// Placement, and the parts that it works on.
    #[inline]
    pub fn placing(&mut self) -> (&mut Placement, Ground<'_>) {
        let ground =
            Ground { shape: &self.shape, blocks: &mut self.blocks, gc: &mut self.gc, rng: &mut self.rng };
        (&mut self.placement, ground)
    }

    /// GC, and the parts that it works on.
    #[inline]
    pub fn collecting(&mut self) -> (&mut Gc, Parts<'_>) {
        let parts = Parts {
            table: &self.table,
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
    pub fn take_number(&mut self) -> u64 {
        let sequence = self.programs.take_number();
        if self.cache.is_some() {
            self.tell_number();
        }
        sequence
    }

    /// Sets, at a mount, the number of the next program.
    pub fn go_on_from(&mut self, sequence: u64) {
        self.programs.go_on_from(sequence);
        self.tell_number();
    }

    /// Tells the marks of a cache the number of the next program.
    #[cold]
    fn tell_number(&mut self) {
        let sequence = self.programs.sequence();
        if let Some(marks) = self.table.sparse_mut().and_then(|sparse| sparse.marks_mut()) {
            marks.set_sequence(sequence);
        }
    }

    /// The address of `lpn`'s newest copy that is on the media.
    #[inline]
    pub fn settled_copy(&self, settled: &super::programs::Settled, lpn: Lpn) -> Ppa {
        let newest = self.copy_of(lpn);
        if !settled.may_hold(newest) {
            return newest;
        }
        let in_flight = |ppa: Ppa| self.blocks.in_flight(self.shape.layout.block_of(ppa)) > 0;
        self.programs.settled_copy(settled, newest, in_flight)
    }
}
