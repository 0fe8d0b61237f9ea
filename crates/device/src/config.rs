//! Configuration of the controller between host and media, with the cost of each step.

use pellucid_flash::{Layout, Nanos};
use pellucid_ftl::{
    CacheMap, Checkpoint, ChunkConfig, Eviction, FtlConfig, MapLog, NamelessConfig, ZoneConfig,
};
use pellucid_media::MediaConfig;
use std::ops::Range;

/// How commands are taken from the submission queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// One command from each non-empty queue in turn.
    RoundRobin,
    /// `weights[q]` commands from queue q in its turn (queues beyond the list: 1).
    Weighted(Vec<u32>),
}

/// Unit that posts the completion of a read, or of a write that need not be programmed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Completes {
    /// The firmware, when it has dealt with the end of everything.
    Firmware,
    /// The host interface controller, with the command's last DMA; the firmware finds out later. Needs `complete_ns` 0.
    Controller,
}

/// The host side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInterface {
    /// I/O submission queues.
    pub queues: u16,
    /// How they are served.
    pub arbitration: Arbitration,
    /// Commands that the controller works on at once; more wait in their queues.
    pub commands_max: u32,
    /// Takes no command while data of an earlier one wait for space in the buffer, so that reads do not pass writes that exceed the buffer.
    /// Otherwise only commands that need the space wait.
    pub in_order: bool,
    /// Host DMA unit (NVMe PRP: 4 KiB).
    pub dma_unit_bytes: u32,
    /// Host link rate in bytes per second, each direction; 0: transfers take no time.
    pub link_bytes_per_second: u64,
    /// Rate of what the host writes, where something between link and memory is slower; 0: that of the link.
    pub write_bytes_per_second: u64,
    /// Occupancy of the link per DMA unit, beside its bytes.
    pub dma_overhead_ns: Nanos,
    /// Time from arrival in a submission queue until the firmware can see the command.
    pub fetch_ns: Nanos,
    /// Latency of one DMA operation that does not occupy the link.
    pub dma_latency_ns: Nanos,
    /// Latency more of one that reads host memory (PCIe: its requests go there before the data come back).
    pub dma_request_ns: Nanos,
    /// Time to post a completion to the host.
    pub complete_ns: Nanos,
    /// Unit that posts it.
    pub completes: Completes,
}

/// A firmware step's cost: cycles scale with the clock, the rest does not. An access to a register is both: it crosses the
/// central interconnect, which follows the processor's clock, and buses that do not (Cosmos+ section 7.1, Table 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCost {
    /// Cycles of the processor: its own work, and the part of its accesses that follows its clock.
    pub cycles: u32,
    /// Nanoseconds that do not depend on the clock.
    pub fixed_ns: u32,
}

/// How the firmware processor comes to its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum FirmwareModel {
    /// Hardware queues every step, first come, first served; the end of an operation interrupts.
    Tasks,
    /// One endless loop that polls (Cosmos+ Algorithm 1): what has ended is seen when the loop comes by.
    Loop,
}

/// The firmware processor: one serial resource. All costs zero: the work is done by hardware and takes no time (the loop
/// still takes its turns, at no cost).
#[derive(Clone, Debug, PartialEq)]
pub struct Firmware {
    /// How it comes to its work.
    pub model: FirmwareModel,
    /// Clock in MHz, at least 1.
    pub clock_mhz: u32,
    /// Taking a command.
    pub fetch: StepCost,
    /// Cutting it, buffer, translation and dependency check of one slice.
    pub slice: StepCost,
    /// Issuing one host DMA operation.
    pub dma: StepCost,
    /// Issuing one flash operation (each of its channel phases).
    pub issue: StepCost,
    /// Finding out that one operation (DMA or flash) has ended.
    pub status: StepCost,
    /// Beside that, dealing with data that have arrived from the media: what error correction says about them.
    pub arrival: StepCost,
    /// Completing a command.
    pub complete: StepCost,
    /// Loop: one turn, with the look for a command.
    pub turn: StepCost,
    /// Loop: coming to a channel, and to each way in its lists.
    pub visit: StepCost,
    /// Loop: reading one register of a controller.
    pub poll: StepCost,
    /// Loop: writing one register of a flash control word, of which an operation has several.
    pub register: StepCost,
    /// Loop: reading a way's status word or completion flag.
    pub word: StepCost,
    /// Loop: each step of the processor that finds something takes a time drawn uniformly from `1 +- spread` of its cost
    /// (cache misses, others on the buses); 0 up to, not including, 1.
    pub spread: f64,
}

/// When a write is acknowledged and when its data leave the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum WritePolicy {
    /// Acknowledged when programmed; dispatched to the media at once.
    WriteThrough,
    /// Acknowledged when in the buffer; dispatched when the entry is needed (least recently used first) or on flush.
    WriteBack,
}

/// The data buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct DataBuffer {
    /// Entries, one mapping unit each. At least 1; each command slice in flight needs one.
    pub entries: u32,
    /// Entries more, which writes leave free, so that a read never waits for a program to get one. 0: reads and writes share
    /// them all and take their turn.
    pub read_entries: u32,
    /// Write policy.
    pub write: WritePolicy,
    /// Keeps data in the buffer after their operation, to serve later hits.
    pub retain: bool,
    /// First in, first out, as Jasmine's SATA write buffer: each write is programmed by itself, behind the one before it to its page, and what
    /// its page lacks is read from the media; only those sectors cross the channel. Else writes join what waits of their page. Needs
    /// `dirty_high` 0 and `retain` off.
    pub fifo: bool,
    /// Write-back: start dispatching when more than this share of the entries is dirty (1.0: only when an entry is needed).
    pub dirty_high: f64,
}

/// The order of Cosmos+ Table 2: smaller goes first; equal ones round robin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// Asking a way for its status.
    pub status_check: u8,
    /// Starting a sense.
    pub read_trigger: u8,
    /// Starting an erase.
    pub erase: u8,
    /// Write: data transfer and program start.
    pub write: u8,
    /// Moving sensed data out of the die.
    pub read_transfer: u8,
}

/// The order of operations inside one die's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    /// Channel priorities.
    pub priorities: Priorities,
    /// Die queue order.
    pub order: DieOrder,
    /// Suspends a running program or erase for a host read (needs `timing.suspend_ns` and `ReadFirst`).
    pub suspend: bool,
    /// An operation that was resumed works for so long before it is suspended again. Reads that come meanwhile wait.
    pub suspend_gap_ns: Nanos,
    /// How often an operation is suspended at most; reads that come then wait for its end. `None`: without limit.
    pub suspensions_max: Option<u32>,
    /// Moves data over a channel page by page, so that between two pages of a program or of a GC read an operation of a better class goes
    /// first; else in one go. Not under a firmware loop.
    pub page_transfers: bool,
    /// How often a failed read is tried again.
    pub read_retries: u32,
    /// Extra sense time of each retry.
    pub retry_ns: Nanos,
    /// A read that corrects more bits than this in one chunk has its block refreshed: its data are written anew elsewhere,
    /// and it is erased. `None`: never.
    pub refresh_above: Option<u32>,
    /// Under a firmware loop: control words that a channel's controller holds beside the one that it carries out; none while the
    /// data of a program go to their die.
    pub queue: u32,
    /// Time for which a read transfer keeps its channel busy after the last byte, until its data path has drained.
    pub drain_ns: Nanos,
    /// Each is drawn uniformly from `1 +- drain_spread` of it; 0 to 1.
    pub drain_spread: f64,
    /// Rate of the interconnect between the memory and all channels, in each direction, in bytes per second; 0: no limit.
    pub interconnect_bytes_per_second: u64,
    /// Latency of ECC decoding after a read transfer; does not occupy the channel.
    pub decode_ns: Nanos,
    /// The key-equation solver that chunks of read data pass before that; `None`: it never makes them wait.
    pub solver: Option<Solver>,
}

/// The error correction's key-equation solver (Cosmos+ section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solver {
    /// Channels that share one, at least 1.
    pub channels: u32,
    /// Bytes of a chunk, at least 1.
    pub chunk_bytes: u32,
    /// Time for one chunk.
    pub chunk_ns: Nanos,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// Media.
    pub media: MediaConfig,
    /// Translation of the block namespace.
    pub ftl: FtlConfig,
    /// Namespaces; none: one block namespace of everything.
    pub namespaces: Vec<Namespace>,
    /// Host side.
    pub host: HostInterface,
    /// Firmware processor.
    pub firmware: Firmware,
    /// Data buffer.
    pub buffer: DataBuffer,
    /// Scheduler.
    pub scheduler: Scheduler,
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
