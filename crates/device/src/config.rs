//! Configuration of the controller between host and media, with the cost of each step.

use crate::memory::MemoryConfig;
use pellucid_flash::{Layout, Nanos};
use pellucid_ftl::{
    CacheMap, Checkpoint, ChunkConfig, Eviction, FtlConfig, MapLog, NamelessConfig, ZoneConfig,
};
use pellucid_media::MediaConfig;
use pellucid_setting::{Kind, Settings, Word, rate_from};
use std::ops::Range;

/// How commands are taken from the submission queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// One command from each non-empty queue in turn.
    RoundRobin,
    /// `weights[q]` commands from queue q in its turn (queues beyond the list: 1).
    Weighted(Vec<u32>),
}

/// How submission queues take turns, as a description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Turns {
    /// [`Arbitration::RoundRobin`].
    RoundRobin,
    /// [`Arbitration::Weighted`].
    Weighted,
}

/// Keys that decide on the arbitration together.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct ArbitrationSettings {
    /// Arbitration between the queues.
    #[setting(default = "round-robin")]
    pub arbitration: Turns,
    /// With weighted arbitration: commands in each turn of queue 0, 1, ...; queues beyond the list: 1.
    #[setting(default = [])]
    pub weights: Vec<u32>,
}

impl From<ArbitrationSettings> for Arbitration {
    fn from(settings: ArbitrationSettings) -> Arbitration {
        match settings.arbitration {
            Turns::RoundRobin => Arbitration::RoundRobin,
            Turns::Weighted => Arbitration::Weighted(settings.weights),
        }
    }
}

/// A rate of data; 0 where there is no limit, or another one.
const LINK: Kind = rate_from(0);

/// Unit that posts the completion of a read, or of a write that need not be programmed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Completes {
    /// The firmware, when it has dealt with the end of everything.
    Firmware,
    /// The host interface controller, with the command's last DMA; the firmware finds out later. Needs `complete_ns` 0.
    Controller,
}

/// The host side.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct HostInterface {
    /// I/O submission queues.
    #[setting(kind = whole(1, 65_535), default = 8)]
    pub queues: u16,
    /// How they are served.
    #[setting(flatten, via = ArbitrationSettings)]
    pub arbitration: Arbitration,
    /// Most commands that the controller works on at once.
    ///
    /// More wait in their queues. The bound is that of the drive's tables.
    #[setting(key = "commands", kind = whole(1, (1 << 20) - 1), default = 256)]
    pub commands_max: u32,
    /// No command is fetched while data of an earlier one wait for a buffer entry.
    ///
    /// So reads do not pass writes that exceed the buffer. Otherwise only commands that need the space wait.
    #[setting(default = false)]
    pub in_order: bool,
    /// Host DMA unit.
    ///
    /// NVMe PRP: 4 KiB.
    #[setting(kind = size(512, 1 << 20), default = "4KiB")]
    pub dma_unit_bytes: u32,
    /// Link rate in each direction; 0: transfers take no time.
    #[setting(key = "link_rate", kind = LINK, default = 0)]
    pub link_bytes_per_second: u64,
    /// Rate of data from the host if something between link and memory is slower than the link; 0: link_rate.
    #[setting(key = "write_rate", kind = LINK, default = 0)]
    pub write_bytes_per_second: u64,
    /// Link time of one DMA unit in addition to that of its bytes.
    #[setting(default = 0)]
    pub dma_overhead_ns: Nanos,
    /// Time from arrival in a submission queue until the firmware can see the command.
    #[setting(default = 0)]
    pub fetch_ns: Nanos,
    /// Latency of a DMA operation that does not occupy the link.
    #[setting(default = 0)]
    pub dma_latency_ns: Nanos,
    /// Additional latency of a DMA operation that reads host memory.
    ///
    /// PCIe: its requests go there before the data come back.
    #[setting(default = 0)]
    pub dma_request_ns: Nanos,
    /// Time to post a completion.
    #[setting(default = 0)]
    pub complete_ns: Nanos,
    /// Unit that completes a command: the firmware, or the controller with the last DMA.
    #[setting(default = "firmware")]
    pub completes: Completes,
}

/// A firmware step's cost: cycles scale with the clock, the rest does not. An access to a register is both: it crosses the
/// central interconnect, which follows the processor's clock, and buses that do not (Cosmos+ section 7.1, Table 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Settings)]
pub struct StepCost {
    /// Cycles.
    ///
    /// The processor's own work, and the part of its accesses that follows its clock.
    #[setting(default = 0)]
    pub cycles: u32,
    /// Time that does not scale with the clock.
    ///
    /// At most as many whole seconds as fit 32 bits of nanoseconds.
    #[setting(key = "fixed", kind = time(0, 4_000_000_000), default = 0)]
    pub fixed_ns: u32,
}

/// How the firmware processor comes to its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum FirmwareModel {
    /// Hardware queues every step, first come, first served; the end of an operation interrupts.
    Tasks,
    /// One endless loop that polls (Cosmos+ Algorithm 1): what has ended is seen when the loop comes by.
    Loop,
}

/// Costs of the firmware's modules above the scheduler (Cosmos+ sections 3.3.1 and 3.3.2), each beside the step that calls the
/// module. What costs nothing is no step of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Settings)]
pub struct ModuleCosts {
    /// NVMe manager: handling an admin command that a host sends over NVMe/TCP.
    ///
    /// It never reaches FTL or flash, and the processor does nothing else meanwhile.
    #[setting(table, lead)]
    pub admin: StepCost,
    /// Data buffer manager: looking for the page of a slice among the buffer's entries.
    #[setting(table, lead)]
    pub lookup: StepCost,
    /// Data buffer manager: giving a vacant entry to a page.
    #[setting(table, lead)]
    pub entry: StepCost,
    /// Data buffer manager: evicting an entry for another page, clean or to be written out.
    #[setting(table, lead)]
    pub evict: StepCost,
    /// Address translator: looking up the place of a page that is read.
    #[setting(table, lead)]
    pub translate: StepCost,
    /// Address translator: choosing the place of a page that is written.
    ///
    /// Each mapping unit of a superpage, for hosts, GC and metadata alike.
    #[setting(table, lead)]
    pub allocate: StepCost,
    /// Address translator: invalidating the older copy of a page that is written.
    #[setting(table, lead)]
    pub invalidate: StepCost,
    /// Dependency checker: the check of each host DMA and of each flash operation.
    #[setting(table, lead)]
    pub depend: StepCost,
    /// GC: choosing a victim.
    #[setting(table, lead)]
    pub victim: StepCost,
    /// GC: copying a mapping unit, without the flash operations and the choice of its new place.
    #[setting(table, lead)]
    pub copy: StepCost,
}

/// The firmware: one processor or two, each a serial resource. All costs zero: the work is done by hardware and takes no time (the
/// loop still takes its turns, at no cost).
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct Firmware {
    /// tasks: in order of arrival; loop: one polling loop.
    #[setting(default = "tasks")]
    pub model: FirmwareModel,
    /// Processors: 1 runs everything; of 2, one runs the host interface and the FTL, the other the scheduler.
    ///
    /// The scheduler issues host DMA and flash operations and finds out what has ended. What one processor tells the other is in memory
    /// that both see, and takes no time.
    #[setting(kind = whole(1, 2), default = 1)]
    pub processors: u32,
    /// Processor clock in MHz.
    #[setting(kind = count(1), default = 1000)]
    pub clock_mhz: u32,
    /// Fetching a command.
    #[setting(table, lead)]
    pub fetch: StepCost,
    /// Cutting a slice from a command, and all work of the modules on it that has no cost of its own.
    ///
    /// Their own costs: `lookup`, `entry`, `evict`, `translate`, `depend`.
    #[setting(table, lead)]
    pub slice: StepCost,
    /// Costs of modules.
    #[setting(flatten)]
    pub modules: ModuleCosts,
    /// Issuing a host DMA operation.
    #[setting(table, lead)]
    pub dma: StepCost,
    /// Issuing a flash operation (with model = loop: each of its channel phases).
    #[setting(table, lead)]
    pub issue: StepCost,
    /// Detecting that an operation has ended.
    ///
    /// A DMA or flash operation.
    #[setting(table, lead)]
    pub status: StepCost,
    /// Handling data that have arrived from the media.
    ///
    /// Error correction's verdict on them; beside `status`.
    #[setting(table, lead)]
    pub arrival: StepCost,
    /// Completing a command.
    #[setting(table, lead)]
    pub complete: StepCost,
    /// Loop: one iteration, with the check for a new command.
    #[setting(table, lead)]
    pub turn: StepCost,
    /// Loop: visiting a channel, and each way in its lists.
    #[setting(table, lead)]
    pub visit: StepCost,
    /// Loop: reading a register of a flash controller.
    #[setting(table, lead)]
    pub poll: StepCost,
    /// Loop: writing a register of a flash control word.
    ///
    /// An operation has several.
    #[setting(table, lead)]
    pub register: StepCost,
    /// Loop: reading the status word or completion flag of a way.
    #[setting(table, lead)]
    pub word: StepCost,
    /// Loop: spread of the time of a step, a factor of 1 +- this.
    ///
    /// Each step of the processor that finds something draws its factor uniformly (cache misses, others on the buses).
    #[setting(kind = share(0.0, 0.99), default = 0.0)]
    pub spread: f64,
}

impl Firmware {
    /// Returns whether any step of the model takes time.
    pub fn takes_time(&self) -> bool {
        self.has_step(|cost| *cost != StepCost::default())
    }

    /// Returns whether the time of any step of the model follows the clock.
    pub fn has_cycles(&self) -> bool {
        self.has_step(|cost| cost.cycles > 0)
    }

    fn has_step(&self, is_such: impl Fn(&StepCost) -> bool) -> bool {
        let Firmware { model, fetch, slice, dma, issue, status, arrival, complete, .. } = *self;
        let Firmware { turn, visit, poll, register, word, .. } = *self;
        let of_loop = [turn, visit, poll, register, word];
        let steps = [fetch, slice, dma, issue, status, arrival, complete];
        steps.iter().chain(&crate::firmware::Chore::costs(&self.modules)).any(&is_such)
            || (model == FirmwareModel::Loop && of_loop.iter().any(is_such))
    }
}

/// When a write is acknowledged and when its data leave the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum WritePolicy {
    /// Acknowledged when programmed; dispatched to the media at once.
    WriteThrough,
    /// Acknowledged when in the buffer; dispatched when the entry is needed (least recently used first) or on flush.
    WriteBack,
}

/// The data buffer.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct DataBuffer {
    /// Data-buffer entries of one mapping unit each.
    ///
    /// Each command slice in flight needs one.
    #[setting(kind = whole(1, (1 << 24) - 1), default = 1024)]
    pub entries: u32,
    /// Additional entries that only reads may take.
    ///
    /// With them, a read never waits for a program to get one. 0: reads and writes share all entries and take their turn.
    #[setting(kind = whole(0, (1 << 24) - 1), default = 0)]
    pub read_entries: u32,
    /// Point at which a write is acknowledged.
    #[setting(default = "write-back")]
    pub write: WritePolicy,
    /// Data stay in the buffer after their operation, for later hits.
    #[setting(default = true)]
    pub retain: bool,
    /// First in, first out: each write is programmed separately, and a read-modify-write transfers only the missing sectors.
    ///
    /// As Jasmine's SATA write buffer: a write goes behind the one before it to its page, and what its page lacks is read from the media;
    /// only those sectors cross the channel. Else writes join what waits of their page. Needs `dirty_high` 0 and `retain` off.
    #[setting(default = false)]
    pub fifo: bool,
    /// Write-back: share of dirty entries above which write-out starts.
    ///
    /// 1.0: only when an entry is needed.
    #[setting(kind = SHARE, default = 1.0)]
    pub dirty_high: f64,
}

/// The order of Cosmos+ Table 2: smaller goes first; equal ones round robin.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct Priorities {
    /// Status check.
    #[setting(default = 1)]
    pub status_check: u8,
    /// Starting a sense.
    #[setting(default = 2)]
    pub read_trigger: u8,
    /// Starting an erase.
    #[setting(default = 3)]
    pub erase: u8,
    /// Data transfer and program start.
    #[setting(default = 4)]
    pub write: u8,
    /// Moving sensed data out of the die.
    #[setting(default = 5)]
    pub read_transfer: u8,
}

/// The order of operations inside one die's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum DieOrder {
    /// First come, first served (Cosmos+).
    Fifo,
    /// Host reads go ahead of everything that has not started.
    ReadFirst,
    /// First come, first served, whatever the die: an operation whose die is at work waits, and so does everything behind it (the
    /// waiting room of Jasmine's flash controller).
    InOrder,
}

/// The scheduler between translation and media.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct Scheduler {
    /// Channel priority, smaller first.
    #[setting(table, lead)]
    pub priorities: Priorities,
    /// Order of operations inside a die's queue; in-order: an operation whose die is busy blocks all operations behind it.
    #[setting(default = "fifo")]
    pub order: DieOrder,
    /// Suspend a program or erase for a host read.
    ///
    /// Needs `timing.suspend_ns` and `ReadFirst`.
    #[setting(default = false)]
    pub suspend: bool,
    /// Shortest time that a resumed operation runs before it is suspended again.
    ///
    /// Reads that come meanwhile wait.
    #[setting(default = 0)]
    pub suspend_gap_ns: Nanos,
    /// Most suspensions of one program or erase.
    ///
    /// Reads that come then wait for its end. `None`: without limit.
    #[setting(key = "suspensions", kind = count(0), or = "unlimited")]
    pub suspensions_max: Option<u32>,
    /// Data cross a channel page by page; transfers of higher priority go between two pages.
    ///
    /// A mapping unit larger than a page crosses whole. Without this, all data of an operation cross in one go. Not under a firmware loop.
    #[setting(default = false)]
    pub page_transfers: bool,
    /// Most retries of a failed read.
    #[setting(kind = few(0), default = 5)]
    pub read_retries: u32,
    /// Extra sense time of each retry.
    #[setting(default = 0)]
    pub retry_ns: Nanos,
    /// Corrected bits in one codeword above which a read has its block refreshed.
    ///
    /// Its data are written anew elsewhere, and it is erased. `None`: never.
    #[setting(beside = "ecc", kind = count(0), or = "never")]
    pub refresh_above: Option<u32>,
    /// Firmware loop: control words that a flash controller queues behind the current one, except behind programs.
    #[setting(kind = few(0), default = 0)]
    pub queue: u32,
    /// Channel time after a read transfer, until the data path has drained.
    #[setting(default = 0)]
    pub drain_ns: Nanos,
    /// Spread of that drain time, a factor of 1 +- this.
    #[setting(kind = SHARE, default = 0.0)]
    pub drain_spread: f64,
    /// Rate of the interconnect between memory and all channels, in each direction; 0: no limit.
    #[setting(key = "interconnect_rate", kind = LINK, default = 0)]
    pub interconnect_bytes_per_second: u64,
    /// Time of ECC decoding after a read transfer; the channel is free meanwhile.
    #[setting(default = 0)]
    pub decode_ns: Nanos,
    /// The key-equation solver that codewords of read data pass before that; `None`: it never makes them wait.
    #[setting(table, via = Solver, by = Solver::used)]
    pub solver: Option<Solver>,
}

/// The error correction's key-equation solver (Cosmos+ section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct Solver {
    /// Channels that share one key-equation solver of the ECC decoder; 0: reads never wait for it.
    #[setting(kind = few(0), default = 0)]
    pub channels: u32,
    /// Bytes of a codeword of the key-equation solver.
    #[setting(kind = size(1, 1 << 20), default = "256B")]
    pub chunk_bytes: u32,
    /// Time of the key-equation solver for one codeword.
    #[setting(key = "time", default = 0)]
    pub chunk_ns: Nanos,
}

impl Solver {
    /// Returns the solver if channels have one.
    fn used(self) -> Option<Solver> {
        Some(self).filter(|solver| solver.channels > 0)
    }
}

/// Namespace of a drive: some blocks of every die, offered to a host through one command set.
#[derive(Clone, Debug, PartialEq)]
pub enum Namespace {
    /// Sectors in any order.
    Block {
        /// Blocks of every die.
        blocks: Range<u32>,
    },
    /// Blocks of a backing store.
    Cache {
        /// Blocks of every die.
        blocks: Range<u32>,
        /// Size and promises.
        cache: CacheConfig,
    },
    /// Chunks.
    OpenChannel {
        /// Shape and rules.
        chunks: ChunkConfig,
        /// Feedback beside the data.
        feedback: Feedback,
    },
    /// Sectors that are named by where they lie.
    Nameless {
        /// Blocks of every die.
        blocks: Range<u32>,
        /// Capacity and garbage collection.
        ftl: NamelessConfig,
    },
    /// Zones.
    Zoned {
        /// Shape and limits.
        zones: ZoneConfig,
    },
}

/// Durability guarantee of a cache at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Guarantee {
    /// Everything before an acknowledged flush (the OpenSSD prototype).
    Flush,
    /// Every acknowledged write of dirty data, eviction, and write of clean data over others (FlashTier).
    WriteDirty,
}

/// A cache namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Sectors of the address space: those of the largest backing store.
    pub address_sectors: u64,
    /// Policy that chooses the clean data to evict.
    pub eviction: Eviction,
    /// Durability guarantee.
    pub guarantee: Guarantee,
    /// Place where full blocks record their content.
    pub log: MapLog,
    /// When the table is written.
    pub checkpoint: Checkpoint,
}

impl CacheConfig {
    /// The most mapping units of an address space: the spare area has a bit for the state, and translation pages have numbers, too.
    pub const ADDRESS_UNITS_MAX: u64 = (1 << 31) - (1 << 26);

    /// Returns the cache settings of translation.
    pub fn map(&self, layout: &Layout) -> CacheMap {
        CacheMap {
            address_units: self.address_sectors.div_ceil(layout.sectors_per_unit.into()) as u32,
            eviction: self.eviction,
            log: self.log,
            checkpoint: self.checkpoint,
        }
    }
}

impl Namespace {
    /// Blocks of every die.
    pub fn blocks(&self) -> &Range<u32> {
        match self {
            Namespace::Block { blocks }
            | Namespace::Cache { blocks, .. }
            | Namespace::Nameless { blocks, .. } => blocks,
            Namespace::OpenChannel { chunks, .. } => &chunks.blocks,
            Namespace::Zoned { zones } => &zones.blocks,
        }
    }
}

/// Feedback of an open-channel namespace to its host beside the data. The three switches are features that a host may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Makes a read of unwritten data an error (DULBE); else it returns zeros.
    pub unwritten_is_error: bool,
    /// A copy inside a die need not leave it.
    pub copyback: bool,
    /// Data corrected with high effort are reported with the read (HECC).
    pub high_ecc: bool,
    /// Data corrected with very high effort are reported with the read (VHECC).
    pub very_high_ecc: bool,
    /// Corrected bits in a mapping unit from which on the effort is high; a retry always is.
    pub high_ecc_bits: u32,
    /// Corrected bits in a mapping unit from which on the effort is very high; a second retry always is.
    pub very_high_ecc_bits: u32,
    /// Difference in erases between the most and the least worn chunk of a parallel unit that causes a notice; 0: never.
    pub wear_gap: u32,
}

/// One drive: media, translation and controller.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct DeviceConfig {
    /// Namespaces, each with an interface and its blocks of every die; empty: one block namespace of the whole drive.
    #[setting(key = "namespace", kind = Kind::Tables, default = [], made = Vec::new())]
    pub namespaces: Vec<Namespace>,
    /// Media.
    #[setting(table)]
    pub media: MediaConfig,
    /// Translation of the block namespace.
    #[setting(table)]
    pub ftl: FtlConfig,
    /// Host side.
    #[setting(table)]
    pub host: HostInterface,
    /// Firmware processor.
    #[setting(table)]
    pub firmware: Firmware,
    /// Data buffer.
    #[setting(table)]
    pub buffer: DataBuffer,
    /// Scheduler.
    #[setting(table)]
    pub scheduler: Scheduler,
    /// Memories of the controller.
    #[setting(table)]
    pub memory: MemoryConfig,
}

impl DeviceConfig {
    /// Blocks of every die of each namespace with a translation: block namespaces and caches.
    pub fn block_namespaces(&self) -> impl Iterator<Item = &Range<u32>> {
        self.namespaces.iter().filter_map(|namespace| match namespace {
            Namespace::Block { blocks } | Namespace::Cache { blocks, .. } => Some(blocks),
            _ => None,
        })
    }

    /// Returns the share of `whole` that belongs to the block namespace of these blocks, in proportion to the blocks of all block
    /// namespaces.
    fn part_of(&self, whole: u64, blocks: &Range<u32>) -> u64 {
        let all: u64 = self.block_namespaces().map(|blocks| blocks.len() as u64).sum();
        (u128::from(whole) * blocks.len() as u128 / u128::from(all.max(1))) as u64
    }

    /// Translation of the block namespace of these blocks, with its capacity if it has not all blocks of the drive.
    pub(crate) fn ftl_of(&self, blocks: &Range<u32>, layout: &Layout) -> FtlConfig {
        let units = blocks.len() as u64 * u64::from(layout.units_per_block) * u64::from(layout.dies);
        let user = (units as f64 / (1.0 + self.ftl.over_provisioning)) as u64;
        let capacity_bytes = match self.ftl.capacity_bytes {
            Some(bytes) => Some(self.part_of(bytes, blocks)),
            None if blocks.len() < layout.blocks_per_die as usize => {
                Some(user * u64::from(layout.unit_bytes))
            }
            None => None,
        };
        let mut ftl = FtlConfig { capacity_bytes, ..self.ftl.clone() };
        if let Some(cache) = self.cache_of(blocks) {
            ftl.cache = Some(cache.map(layout));
            ftl.separation = cache.eviction.separation();
        }
        ftl
    }

    /// The cache that has these blocks of every die, if they belong to one.
    pub(crate) fn cache_of(&self, blocks: &Range<u32>) -> Option<&CacheConfig> {
        self.namespaces.iter().find_map(|namespace| match namespace {
            Namespace::Cache { blocks: own, cache } if own == blocks => Some(cache),
            _ => None,
        })
    }

    /// The buffer of the block namespace of these blocks: its part of the drive's, a superpage at least.
    pub(crate) fn buffer_of(&self, blocks: &Range<u32>, layout: &Layout) -> DataBuffer {
        let part = |entries: u32| {
            let part = self.part_of(entries.into(), blocks) as u32;
            if part == entries { entries } else { part.max(layout.units_per_superpage) }
        };
        let read_entries = if self.buffer.read_entries == 0 { 0 } else { part(self.buffer.read_entries) };
        DataBuffer { entries: part(self.buffer.entries), read_entries, ..self.buffer.clone() }
    }
}
