//! The draft that the rows of the schema fill in: the parts of a description before they are checked against each other.
//!
//! A key that has a field of its own in a configuration sets that field. Keys that decide one field together set fields of
//! the draft, and the `resolve_*` module of their table combines these.

use super::document::Row;
use super::resolve_backing::{BackingKind, Medium};
use super::resolve_cache::Records;
use super::resolve_kv::{KeepName, VictimName};
use super::resolve_run::{AgedBy, Fill, Overwrite, Precondition, RunSpec};
use super::schema::Typed;
use pellucid_device::{
    Arbitration, Completes, DataBuffer, DeviceConfig, DieOrder, DiskConfig, Firmware, FirmwareModel,
    HostInterface, Priorities, Scheduler, Solver, StepCost, WritePolicy,
};
use pellucid_flash::{Geometry, Migration, Nanos};
use pellucid_ftl::{
    Durability, FtlConfig, Isolation, MapKind, Placement, Policies, Separation, Victim, WearLevelling,
};
use pellucid_host::{
    BlockLayerConfig, CacheConfig, CacheMode, ClusterBufferConfig, CpuCosts, Elevator, FlushPolicy, Flushes,
    HostFtlConfig, JournalUse, NamelessFtlConfig, Replacement, ZoneChunksConfig,
};
use pellucid_kv::{EngineKind, KvConfig};
use pellucid_media::{
    BitErrors, Cell, Ecc, EccData, Faults, Integrity, Keep, MediaConfig, ReadRetry, SlcBlocks, Space,
    StoreKind, SyncTo, Timing, Variation,
};
use pellucid_workload::trace::AddressPolicy;
use std::path::PathBuf;
use strum::{EnumString, VariantNames};

/// All values of a description.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    pub name: Option<String>,
    pub preset: Option<String>,
    pub drive: DeviceConfig,
    pub namespaces: Vec<Row>,
    pub mode: Mode,
    pub store: Store,
    pub path: Option<PathBuf>,
    pub faults: Vec<Row>,
    pub suspend_erase_ns: Option<Nanos>,
    pub ecc_code: EccCode,
    pub ecc: Ecc,
    pub bit_errors_enabled: bool,
    pub retry_enabled: bool,
    pub retry: ReadRetry,
    pub bit_errors: BitErrors,
    pub map: MapKind,
    /// Bytes of the cached mapping table.
    pub map_cache: u64,
    pub log_blocks: u32,
    pub durability: Survives,
    pub checkpoint_every: u64,
    /// The SLC cache; 0 blocks: there is none.
    pub slc_blocks: SlcBlocks,
    pub fold_after: Nanos,
    pub arbitration: Turns,
    pub weights: Vec<u32>,
    /// 0 channels: there is none.
    pub solver: Solver,
    pub medium: Medium,
    pub backing_kind: BackingKind,
    pub disk: DiskConfig,
    pub disk_bytes: u64,
    pub layers: Vec<Layer>,
    pub host_ftl: HostFtlConfig,
    pub host_durability: Survives,
    pub zones: ZoneChunksConfig,
    pub cluster_buffer: ClusterBufferConfig,
    /// Bytes of a cluster.
    pub cluster_bytes: u64,
    /// Bytes of the ring of its journal.
    pub journal_ring: Option<u64>,
    pub journal_unit: u32,
    pub journal_use: JournalUse,
    pub block_layer: BlockLayerConfig,
    /// Bytes of its largest request.
    pub block_layer_largest: u32,
    pub cache: CacheConfig,
    pub cache_records: Records,
    /// The split FTL of nameless writes.
    pub nameless: NamelessFtlConfig,
    pub kv: KvConfig,
    /// Share of the flash that the cache keeps free; `None`: the engine's way.
    pub kv_spare: Option<f64>,
    pub kv_victim: VictimName,
    pub kv_keep: KeepName,
    pub targets: Vec<Row>,
    pub jobs: Vec<Row>,
    pub precondition: Precondition,
    pub run: RunSpec,
    pub steady_rule: Option<String>,
    pub steady_round: Nanos,
    pub steady_window: u32,
}

/// Pages of a word line that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Mode {
    Native,
    Slc,
}

/// Where data are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    None,
    Ram,
    /// In the file of `drive.media.path`.
    File,
    FileAt(PathBuf),
}

impl Store {
    pub(crate) const WORDS: &[&str] = &["none", "ram", "file"];
    pub(crate) const PREFIX: &str = "file";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum EccCode {
    None,
    Bch,
}

/// Data that survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Survives {
    Volatile,
    Journal,
}

impl Survives {
    pub(crate) fn durability(self, checkpoint_every: u64) -> Durability {
        match self {
            Survives::Volatile => Durability::Volatile,
            Survives::Journal => Durability::Journal { checkpoint_every },
        }
    }
}

/// How submission queues take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Turns {
    RoundRobin,
    Weighted,
}

/// A layer of the host above the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[expect(clippy::enum_variant_names, reason = "a block layer is called so")]
pub(crate) enum Layer {
    HostFtl,
    ZoneLog,
    ClusterBuffer,
    BlockLayer,
    Cache,
    NamelessFtl,
    NamelessFile,
}

/// A field that a row can set. The [`Kind`](super::schema::Kind) of the row has checked the value.
pub(crate) trait Take {
    fn take(typed: &Typed) -> Self;
}

/// A row whose field has another type than its kind.
fn mismatch<T>(typed: &Typed) -> T {
    panic!("a row sets {} to {typed:?}", std::any::type_name::<T>())
}

macro_rules! take_whole {
    ($($number:ty),+) => {$(
        impl Take for $number {
            fn take(typed: &Typed) -> Self {
                match typed {
                    Typed::Whole(number) => {
                        <$number>::try_from(*number).unwrap_or_else(|_| mismatch(typed))
                    }
                    _ => mismatch(typed),
                }
            }
        }
    )+};
}
take_whole!(u8, u16, u32, u64);

macro_rules! take {
    ($($kind:ident => $type:ty),+ $(,)?) => {$(
        impl Take for $type {
            fn take(typed: &Typed) -> Self {
                match typed {
                    Typed::$kind(value) => value.clone(),
                    _ => mismatch(typed),
                }
            }
        }
    )+};
}
take!(Flag => bool, Real => f64, Times => Vec<Nanos>, Wholes => Vec<u32>, Tables => Vec<Row>, Text => String);

/// Closed sets: the words are the names of the variants, so a word that nobody handles does not compile.
macro_rules! take_word {
    ($($set:ty),+ $(,)?) => {$(
        impl Take for $set {
            fn take(typed: &Typed) -> Self {
                match typed {
                    Typed::Text(word) => word.parse().unwrap_or_else(|_| mismatch(typed)),
                    _ => mismatch(typed),
                }
            }
        }
    )+};
}
take_word!(
    AgedBy,
    AddressPolicy,
    BackingKind,
    CacheMode,
    Cell,
    Completes,
    DieOrder,
    EccCode,
    EccData,
    Elevator,
    Migration,
    FirmwareModel,
    FlushPolicy,
    JournalUse,
    Isolation,
    KeepName,
    MapKind,
    Medium,
    Mode,
    Placement,
    Records,
    Replacement,
    Flushes,
    Separation,
    Space,
    Survives,
    SyncTo,
    Turns,
    VictimName,
    WritePolicy,
);

impl<T: Take> Take for Option<T> {
    fn take(typed: &Typed) -> Self {
        (*typed != Typed::Absent).then(|| T::take(typed))
    }
}

impl Take for Nanos {
    fn take(typed: &Typed) -> Self {
        Nanos(Take::take(typed))
    }
}

impl Take for PathBuf {
    fn take(typed: &Typed) -> Self {
        String::take(typed).into()
    }
}

impl Take for Victim {
    fn take(typed: &Typed) -> Self {
        Victim::named(&String::take(typed)).unwrap_or_else(|| mismatch(typed))
    }
}

impl Take for Store {
    fn take(typed: &Typed) -> Self {
        match String::take(typed).as_str() {
            "none" => Store::None,
            "ram" => Store::Ram,
            "file" => Store::File,
            named => match named.strip_prefix("file:") {
                Some(path) => Store::FileAt(path.into()),
                None => mismatch(typed),
            },
        }
    }
}

impl Take for Vec<Layer> {
    fn take(typed: &Typed) -> Self {
        match typed {
            Typed::Words(words) => {
                words.iter().map(|word| word.parse().unwrap_or_else(|_| mismatch(typed))).collect()
            }
            _ => mismatch(typed),
        }
    }
}

impl Take for Fill {
    fn take(typed: &Typed) -> Self {
        <Option<f64> as Take>::take(typed).map_or(Fill::Trace, Fill::Share)
    }
}

impl Take for Overwrite {
    fn take(typed: &Typed) -> Self {
        <Option<f64> as Take>::take(typed).map_or(Overwrite::Steady, Overwrite::Capacities)
    }
}

impl Draft {
    /// Before any row has set its field. What no key sets is what it stays, or a `resolve_*` module derives it.
    pub(crate) fn blank() -> Draft {
        Draft {
            name: None,
            preset: None,
            drive: DeviceConfig {
                media: blank_media(),
                ftl: blank_ftl(),
                namespaces: Vec::new(),
                host: blank_host(),
                firmware: blank_firmware(),
                buffer: DataBuffer {
                    entries: 0,
                    read_entries: 0,
                    write: WritePolicy::WriteBack,
                    retain: false,
                    fifo: false,
                    dirty_high: 0.0,
                },
                scheduler: blank_scheduler(),
            },
            namespaces: Vec::new(),
            mode: Mode::Native,
            store: Store::None,
            path: None,
            faults: Vec::new(),
            suspend_erase_ns: None,
            ecc_code: EccCode::None,
            ecc: Ecc { chunk_bytes: 0, correctable: 0, data: EccData::Drawn },
            bit_errors_enabled: false,
            retry_enabled: false,
            retry: ReadRetry { factor: 0.0 },
            bit_errors: BitErrors { factor: 0.0, retry_factor: 0.0, retry_floor: 0.0 },
            map: MapKind::Page,
            map_cache: 0,
            log_blocks: 0,
            durability: Survives::Volatile,
            checkpoint_every: 0,
            slc_blocks: SlcBlocks { blocks: 0, read_ns: Nanos::ZERO, program_ns: Nanos::ZERO },
            fold_after: Nanos::ZERO,
            arbitration: Turns::RoundRobin,
            weights: Vec::new(),
            solver: Solver { channels: 0, chunk_bytes: 0, chunk_ns: Nanos::ZERO },
            medium: Medium::Flash,
            backing_kind: BackingKind::None,
            disk: DiskConfig::caviar_black(),
            disk_bytes: 0,
            layers: Vec::new(),
            host_ftl: HostFtlConfig::default(),
            host_durability: Survives::Volatile,
            zones: ZoneChunksConfig::default(),
            cluster_buffer: ClusterBufferConfig::default(),
            cluster_bytes: 0,
            journal_ring: None,
            journal_unit: 0,
            journal_use: JournalUse::default(),
            block_layer: blank_block_layer(),
            block_layer_largest: 0,
            cache: CacheConfig::default(),
            cache_records: Records::OnFlush,
            nameless: NamelessFtlConfig::default(),
            kv: KvConfig::new(EngineKind::default()),
            kv_spare: None,
            kv_victim: VictimName::TwoModes,
            kv_keep: KeepName::Engine,
            targets: Vec::new(),
            jobs: Vec::new(),
            precondition: Precondition {
                fill: Fill::Share(0.0),
                overwrite: Overwrite::Capacities(0.0),
                aged_by: AgedBy::Change,
                seed: 0,
                shelf_days: 0.0,
            },
            run: blank_run(),
            steady_rule: None,
            steady_round: Nanos::ZERO,
            steady_window: 0,
        }
    }
}

fn blank_block_layer() -> BlockLayerConfig {
    BlockLayerConfig {
        namespace: 0,
        elevator: Elevator::Noop,
        requests: 0,
        depth: 0,
        largest: 0,
        plug: 0,
        plug_ns: Nanos::ZERO,
        read_expire: Nanos::ZERO,
        write_expire: Nanos::ZERO,
        cpu: CpuCosts::FREE,
    }
}

fn blank_media() -> MediaConfig {
    MediaConfig {
        geometry: Geometry {
            channels: 0,
            ways: 0,
            dies: 0,
            planes: 0,
            blocks: 0,
            pages: 0,
            page_bytes: 0,
            spare_bytes: 0,
            sector_bytes: 0,
            unit_bytes: 0,
            multi_plane: false,
            one_shot_pages: 0,
        },
        cell: Cell::Slc,
        slc_mode: false,
        independent_plane_reads: false,
        slc_blocks: None,
        timing: Timing {
            read_ns: Vec::new(),
            program_ns: Vec::new(),
            erase_ns: Nanos::ZERO,
            die_spread: 0.0,
            op_spread: 0.0,
            op_deviation_ns: Nanos::ZERO,
            variation: Variation::default(),
            channel_bytes_per_second: 0,
            command_ns: Nanos::ZERO,
            status_ns: Nanos::ZERO,
            suspend_ns: None,
            suspend_erase_ns: Nanos::ZERO,
            resume_ns: Nanos::ZERO,
        },
        endurance: None,
        faults: Faults::default(),
        store: StoreKind::None,
        keep: Keep::default(),
        // What the namespaces ask for.
        metadata_bytes: 0,
        save_bytes: 0,
        integrity: Integrity::default(),
        seed: 0,
    }
}

fn blank_ftl() -> FtlConfig {
    FtlConfig {
        map: pellucid_ftl::Map::Page,
        over_provisioning: 0.0,
        capacity_bytes: None,
        victim: Victim::Greedy,
        placement: Placement::ChannelFirst,
        separation: Separation::Off,
        gc_low_blocks: 0,
        gc_high_blocks: 0,
        gc_pacing: false,
        gc_parallel: 0,
        copyback: false,
        wear: WearLevelling { dynamic: false, static_gap: None },
        durability: Durability::Volatile,
        handles: 0,
        isolation: Isolation::Initial,
        slc_cache: None,
        cache: None,
        policies: Policies::default(),
        seed: 0,
    }
}

fn blank_host() -> HostInterface {
    HostInterface {
        queues: 0,
        arbitration: Arbitration::RoundRobin,
        commands_max: 0,
        in_order: false,
        dma_unit_bytes: 0,
        link_bytes_per_second: 0,
        write_bytes_per_second: 0,
        dma_overhead_ns: Nanos::ZERO,
        fetch_ns: Nanos::ZERO,
        dma_latency_ns: Nanos::ZERO,
        dma_request_ns: Nanos::ZERO,
        complete_ns: Nanos::ZERO,
        completes: Completes::Firmware,
    }
}

fn blank_firmware() -> Firmware {
    let step = StepCost::default();
    Firmware {
        model: FirmwareModel::Tasks,
        clock_mhz: 0,
        fetch: step,
        slice: step,
        dma: step,
        issue: step,
        status: step,
        arrival: step,
        complete: step,
        turn: step,
        visit: step,
        poll: step,
        register: step,
        word: step,
        spread: 0.0,
    }
}

fn blank_scheduler() -> Scheduler {
    Scheduler {
        priorities: Priorities { status_check: 0, read_trigger: 0, erase: 0, write: 0, read_transfer: 0 },
        order: DieOrder::Fifo,
        suspend: false,
        suspend_gap_ns: Nanos::ZERO,
        suspensions_max: None,
        page_transfers: false,
        read_retries: 0,
        retry_ns: Nanos::ZERO,
        refresh_above: None,
        queue: 0,
        drain_ns: Nanos::ZERO,
        drain_spread: 0.0,
        interconnect_bytes_per_second: 0,
        decode_ns: Nanos::ZERO,
        solver: None,
    }
}

fn blank_run() -> RunSpec {
    RunSpec {
        seed: 0,
        verify: false,
        steady: None,
        report: None,
        log: None,
        trace: None,
        trace_copy: None,
        format: None,
        address: AddressPolicy::Refuse,
        time_scale: 1.0,
        closed_loop: None,
        stream: None,
        repeat: 1,
        limit: None,
    }
}
