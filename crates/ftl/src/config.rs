//! Configuration of the translation layer: policies and thresholds.

use crate::{MAP_ENTRY_BYTES, Policies};
use pellucid_flash::{Layout, Nanos};
use pellucid_setting::{Kind, Setting, Settings, Typed, Word};

/// Most placement handles: the spare area has one byte for the handle.
pub const HANDLES_MAX: u16 = 128;

/// Defines [`Victim`], its list and its names from one table, so that every policy is in all of them.
macro_rules! victims {
    ($($(#[$doc:meta])+ $name:ident = $word:literal,)+; $(#[$choices_doc:meta])+ $choices:ident = $prefix:literal, $example:literal) => {
        /// Policy of victim choice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Victim {
            $($(#[$doc])+ $name,)+
            $(#[$choices_doc])+ $choices(u32),
        }

        impl Victim {
            /// Every policy once: descriptions, swarm and tests use this list.
            pub const ALL: &[Victim] = &[$(Victim::$name,)+ Victim::$choices($example)];
            /// Names of the policies without a number.
            pub const WORDS: &[&str] = &[$($word,)+];
            /// The name that `:N` follows.
            pub const PREFIX: &str = $prefix;
        }

        impl std::fmt::Display for Victim {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Victim::$name => f.write_str($word),)+
                    Victim::$choices(d) => write!(f, "{}:{d}", $prefix),
                }
            }
        }
    };
}

victims! {
    /// Fewest valid units.
    Greedy = "greedy",
    /// Highest `age * (1 - u) / 2u`, with `u` the valid share and `age` since the block was closed (Rosenblum and Ousterhout; Kawaguchi).
    CostBenefit = "cost-benefit",
    /// Closed first.
    Fifo = "fifo",
    /// Longest without an invalidation.
    Lru = "lru",
    /// Any closed block.
    Random = "random",
    ;
    /// Fewest valid units among `d` random closed blocks.
    DChoices = "d-choices", 3
}

impl Setting for Victim {
    const KIND: Kind = Kind::WordOrCount(Victim::WORDS, Victim::PREFIX);

    fn take(typed: &Typed) -> Self {
        let name = String::take(typed);
        Victim::named(&name).unwrap_or_else(|| panic!("{name}: no victim policy"))
    }
}

impl Victim {
    /// The policy of this name, as [`Display`](std::fmt::Display) writes it.
    pub fn named(name: &str) -> Option<Victim> {
        let plain = Victim::ALL.iter().copied().find(|victim| victim.to_string() == name);
        let choices = || name.strip_prefix(Victim::PREFIX)?.strip_prefix(':')?.parse().ok();
        plain.or_else(|| choices().filter(|&d| d > 0).map(Victim::DChoices))
    }
}

/// Order in which dies take new data (Cosmos+ section 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Placement {
    /// Next channel first, then next way (ChPrev).
    ChannelFirst,
    /// Next way first, then next channel (WayPrev).
    WayFirst,
    /// A random die (Random).
    Random,
    /// The die of the address: the logical page's number modulo the dies, channels first (GreedyFTL of Jasmine). If that die has no
    /// space, the next one takes the data.
    Address,
}

/// Separation of data by temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Separation {
    /// Host data and GC copies share blocks.
    Off,
    /// GC copies (which outlived their block) have blocks of their own.
    GcCopies,
    /// As `GcCopies`, and host writes are split into hot and cold by a decaying counter sketch of write frequency.
    Frequency,
}

/// Separation of data of different placement handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Isolation {
    /// When the host writes them; GC copies share blocks.
    Initial,
    /// For good: GC copies them to blocks of their handle.
    Persistent,
}

/// Wear levelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct WearLevelling {
    /// A die allocates its free blocks in order of wear, the least worn first.
    #[setting(default = true)]
    pub dynamic: bool,
    /// Difference of erase counts above which cold data are moved.
    ///
    /// Static wear levelling: the difference is that of a die's most and least worn good blocks, and the data are those of the least worn
    /// closed block. `None`: never.
    #[setting(kind = count(1), or = "never")]
    pub static_gap: Option<u32>,
}

/// Blocks that are used with one bit per cell: host data go there first, and are folded later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcCache {
    /// Blocks of each die, its first ones.
    pub blocks: u32,
    /// Bits per cell of the other blocks: these hold this many times more superpages.
    pub bits: u32,
    /// Idle time of the drive before it folds. For the caller: translation has no clock.
    pub fold_after: Nanos,
}

/// Keys that decide on the SLC cache; how many bits the other cells have is the media's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct SlcCacheSettings {
    /// Blocks of each die that take host data first, with one bit per cell (pSLC); 0: no SLC cache.
    #[setting(kind = few(0), default = 0)]
    pub blocks: u32,
    /// Idle time after which the contents of the SLC cache are folded into native blocks.
    #[setting(default = "100ms")]
    pub fold_after: Nanos,
}

/// Kind of data that survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: flush does nothing and a drive is empty after power loss (Cosmos+ GreedyFTL 3.0.0).
    Volatile,
    /// The map is rebuilt from the spare areas. Translation pages are journalled so that TRIM survives and mounting need not read every
    /// page; each is rewritten after about `checkpoint_every` programs have passed since its last copy.
    Journal {
        /// Programs between two rounds of a full checkpoint; 0: a quarter of the drive's superpages.
        checkpoint_every: u64,
    },
}

/// Data that survive a power cut, as a description names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Survives {
    /// [`Durability::Volatile`].
    Volatile,
    /// [`Durability::Journal`].
    Journal,
}

impl From<Survives> for Durability {
    /// The usual checkpoints.
    fn from(survives: Survives) -> Durability {
        DurabilitySettings { durability: survives, checkpoint_every: 0 }.into()
    }
}

/// Keys that decide on the durability together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct DurabilitySettings {
    /// Data that survive a power cut: none (volatile), or flushed data (journal).
    #[setting(default = "journal")]
    pub durability: Survives,
    /// Programs between two complete checkpoints of the map; 0: a quarter of the superpages of the drive.
    ///
    /// Programs of every cause count: those of GC, and of the checkpoint itself. A checkpoint whose own programs are more than half of these
    /// takes longer: it has one program for each of another cause.
    #[setting(default = 0)]
    pub checkpoint_every: u64,
}

impl From<DurabilitySettings> for Durability {
    fn from(settings: DurabilitySettings) -> Durability {
        match settings.durability {
            Survives::Volatile => Durability::Volatile,
            Survives::Journal => Durability::Journal { checkpoint_every: settings.checkpoint_every },
        }
    }
}

/// Kind of translation. [`MapKind`] holds the names that descriptions use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(
    name(MapKind),
    doc = "The kinds of translations.",
    derive(strum::EnumString, strum::VariantNames, Word),
    strum(serialize_all = "kebab-case")
)]
pub enum Map {
    /// A page map, all of it in DRAM.
    #[default]
    Page,
    /// BAST: a block map; a log block belongs to one logical block.
    Bast {
        /// Log blocks of each die.
        log_blocks: u32,
    },
    /// FAST: a block map; log blocks are shared.
    Fast {
        /// Random log blocks of each die, beside a sequential one.
        log_blocks: u32,
    },
    /// A page map in flash, behind a cached table of entries (DFTL). Needs [`Durability::Journal`].
    Demand {
        /// Memory of the cached table.
        cache_bytes: u64,
    },
}

/// Keys that decide on the translation together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct MapSettings {
    /// Translation: page map in DRAM (page), or in flash behind a cached table (demand: DFTL); log-block hybrids (bast, fast).
    #[setting(default = "page")]
    pub map: MapKind,
    /// Memory of the cached mapping table of map = "demand", 8 bytes an entry.
    #[setting(key = "map_cache", kind = size_from(2 * MAP_ENTRY_BYTES), default = 64 << 10)]
    pub cache_bytes: u64,
    /// Log blocks of each die with map = "bast" or "fast"; "fast" has a sequential one in addition.
    #[setting(kind = few(1), default = 8)]
    pub log_blocks: u32,
}

impl From<MapSettings> for Map {
    fn from(MapSettings { map, cache_bytes, log_blocks }: MapSettings) -> Map {
        match map {
            MapKind::Page => Map::Page,
            MapKind::Bast => Map::Bast { log_blocks },
            MapKind::Fast => Map::Fast { log_blocks },
            MapKind::Demand => Map::Demand { cache_bytes },
        }
    }
}

impl Map {
    /// Number of the spare-area format: media are refused if the number of their drive has changed, because a map with another number
    /// would misread their spare areas.
    pub fn format(self) -> u64 {
        match self {
            Map::Page | Map::Demand { .. } => 0,
            Map::Bast { .. } => 10,
            Map::Fast { .. } => 20,
        }
    }

    /// Summary in one line, over units of `unit_kib` with GC by the policy called `victim`.
    pub fn summary(self, unit_kib: f64, victim: &str) -> String {
        match self {
            Map::Page => format!("page map of {unit_kib} KiB units, {victim}"),
            Map::Demand { cache_bytes } => format!(
                "page map of {unit_kib} KiB units in flash, {} KiB of it cached, {victim}",
                cache_bytes as f64 / 1024.0
            ),
            Map::Bast { log_blocks } => format!("BAST with {log_blocks} log blocks in each die"),
            Map::Fast { log_blocks } => format!("FAST with {log_blocks} log blocks in each die"),
        }
    }

    /// Log blocks of each die, where there are any.
    pub fn log_blocks(self) -> Option<u32> {
        match self {
            Map::Bast { log_blocks } | Map::Fast { log_blocks } => Some(log_blocks),
            Map::Page | Map::Demand { .. } => None,
        }
    }
}

/// Policy by which a cache chooses the block whose clean data it drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Eviction {
    /// The block with the fewest cached units. Copies of dirty units have blocks apart from new data. With log blocks: the log keeps its
    /// blocks, and what is evicted takes data.
    SeUtil,
    /// The block with the fewest cached units. Its space takes new data and copies alike. With log blocks: what is evicted takes data or becomes
    /// a log block.
    SeMerge,
}

impl Eviction {
    /// Returns whether copies and new data share blocks.
    pub fn separation(self) -> Separation {
        match self {
            Eviction::SeUtil => Separation::GcCopies,
            Eviction::SeMerge => Separation::Off,
        }
    }
}

/// Where a cache records the page of each unit of a full block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum MapLog {
    /// In the spare area of each page. A mount reads all of them that it needs.
    #[default]
    SpareArea,
    /// In the last superpage of the block too, which takes no data; a mount reads that alone. The spare areas serve for blocks that are not
    /// full. (Paper "Getting Real", 3.3.2, where the firmware cannot use the spare area.)
    LastPage,
}

/// Time at which a cache writes its table to the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Checkpoint {
    /// Page by page as it works, see [`Durability::Journal`].
    #[default]
    Rolling,
    /// As `Rolling`, and in addition every changed part with each flush and when the drive has been idle for a while ("Getting Real",
    /// where the host's idle and standby commands cause this).
    OnFlush,
}

/// Translation of a cache: a sparse address space, of which some pages are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMap {
    /// Pages of the address space; fewer than 2^31 together with translation pages.
    pub address_units: u32,
    /// Policy for clean data.
    pub eviction: Eviction,
    /// Where a full block records its pages.
    pub log: MapLog,
    /// When the table is written.
    pub checkpoint: Checkpoint,
}

/// A translation layer.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct FtlConfig {
    /// Kind of translation.
    #[setting(flatten, via = MapSettings)]
    pub map: Map,
    /// Spare capacity as a share of the user capacity.
    ///
    /// `(physical - user) / user`.
    #[setting(kind = share(0.0, 100.0), default = 0.1)]
    pub over_provisioning: f64,
    /// User capacity, instead of what over_provisioning yields.
    #[setting(kind = size_from(1), or = "auto")]
    pub capacity_bytes: Option<u64>,
    /// Which block GC erases next.
    #[setting(default = "greedy")]
    pub victim: Victim,
    /// Order in which new data go to the dies.
    #[setting(default = "channel-first")]
    pub placement: Placement,
    /// Separation of hot and cold data.
    #[setting(default = "gc-copies")]
    pub separation: Separation,
    /// Foreground GC starts when a die has this many free blocks. They are no reserve: under load the host uses all but one.
    ///
    /// At least 1.
    #[setting(key = "gc_low", kind = few(1), default = 1)]
    pub gc_low_blocks: u32,
    /// Background GC ends when a die has this many free blocks; gc_low or less: off.
    ///
    /// It runs while the drive is idle.
    #[setting(key = "gc_high", kind = few(0), default = 0)]
    pub gc_high_blocks: u32,
    /// Host writes take space in a die that runs GC only as fast as GC frees it.
    ///
    /// Otherwise they use it as fast as they arrive, and then wait until a block is free. With pacing, `gc_low_blocks` should be 2 or
    /// more.
    #[setting(default = false)]
    pub gc_pacing: bool,
    /// Valid-page copies that one die keeps in flight.
    #[setting(kind = few(1), default = 1)]
    pub gc_parallel: u32,
    /// GC copies inside a die without a channel transfer.
    ///
    /// Where units and superpages allow it.
    #[setting(default = false)]
    pub copyback: bool,
    /// Wear levelling.
    #[setting(table)]
    pub wear: WearLevelling,
    /// Power-cut contract.
    #[setting(flatten, via = DurabilitySettings)]
    pub durability: Durability,
    /// Reclaim unit handles of the host (FDP), each with open blocks of its own; 1: no placement by the host.
    #[setting(kind = whole(1, HANDLES_MAX as u64), default = 1)]
    pub handles: u16,
    /// Blocks of GC copies: shared by all reclaim unit handles (initial), or separate for each (persistent).
    #[setting(default = "initial")]
    pub isolation: Isolation,
    /// The SLC cache; `None`: there is none.
    #[setting(table, via = SlcCacheSettings, made = None)]
    pub slc_cache: Option<SlcCache>,
    /// Seed of all random choices of policies.
    #[setting(default = 1)]
    pub seed: u64,
    /// The namespace is a cache, with a page map or log blocks; `None`: its address space is that of its pages. The capacity of a cache is the
    /// number of pages it holds.
    #[setting(skip)]
    pub cache: Option<CacheMap>,
    /// Policies from outside, which choose instead of `victim`, `placement` and the eviction of `cache`.
    #[setting(skip)]
    pub policies: Policies,
}

impl FtlConfig {
    /// Mapping units that the host can address on media of this shape.
    pub fn user_units(&self, layout: &Layout) -> u64 {
        let units = layout.units - self.cache_blocks() * layout.dies * layout.units_per_block;
        match self.capacity_bytes {
            Some(bytes) => bytes / u64::from(layout.unit_bytes),
            None => (f64::from(units) / (1.0 + self.over_provisioning)) as u64,
        }
    }

    /// The name of the policy that chooses victims.
    pub fn victim_name(&self) -> String {
        self.policies.victim.as_ref().map_or_else(|| self.victim.to_string(), |policy| policy.name().into())
    }

    /// Log blocks that each die keeps free of data, where there are any: all, but one where a cache lets data and logs share blocks.
    pub fn reserved_log_blocks(&self) -> Option<u32> {
        let shared = self.cache.is_some_and(|cache| cache.eviction == Eviction::SeMerge);
        self.map.log_blocks().map(|log_blocks| if shared { log_blocks.min(1) } else { log_blocks })
    }

    /// Superpages of a block that list its pages, and take no data.
    pub(crate) fn list_superpages(&self) -> u32 {
        u32::from(self.cache.is_some_and(|cache| cache.log == MapLog::LastPage))
    }

    /// Returns whether the table is written with each flush.
    pub(crate) fn checkpoints_on_flush(&self) -> bool {
        self.durability != Durability::Volatile
            && self.cache.is_some_and(|cache| cache.checkpoint == Checkpoint::OnFlush)
    }

    /// Blocks of each die that are the SLC cache.
    pub fn cache_blocks(&self) -> u32 {
        self.slc_cache.map_or(0, |cache| cache.blocks)
    }
}
