//! Small caches, made by hand.

use pellucid_device::{
    Arbitration, CacheConfig, Completes, DataBuffer, DeviceConfig, DieOrder, Firmware, FirmwareModel,
    Guarantee, HostInterface, ModuleCosts, Namespace, Priorities, Scheduler, StepCost, WritePolicy,
};
use pellucid_flash::{Geometry, Nanos, Rng};
use pellucid_ftl::{
    Checkpoint, Durability, Eviction, FtlConfig, Isolation, Map, MapLog, Placement, Policies, Separation,
    Victim, WearLevelling,
};
use pellucid_media::{Cell, Faults, Keep, MediaConfig, StoreKind, Timing, Variation};

/// Parameters in which caches differ.
#[derive(Clone, Debug)]
pub struct Shape {
    pub map: Map,
    pub address_sectors: u64,
    pub channels: u32,
    pub blocks: u32,
    pub unit_bytes: u32,
    pub keeps_data: bool,
    pub link_bytes_per_second: u64,
    /// Probability that a program or an erase fails, and that a read does.
    pub faulty: (f64, f64),
    pub checkpoint_every: u64,
    pub gc_high: u32,
    pub entries: u32,
    pub over_provisioning: f64,
    pub retain: bool,
    pub guarantee: Guarantee,
    pub eviction: Eviction,
    pub log: MapLog,
    pub checkpoint: Checkpoint,
    /// Blocks of the backing store that are used.
    pub span: u32,
    /// Percentage of writes that are dirty.
    pub dirty_share: u64,
    pub seed: u64,
}

impl Shape {
    /// One die, few blocks.
    pub fn small() -> Shape {
        Shape {
            map: Map::Page,
            address_sectors: 1 << 21,
            channels: 1,
            blocks: 16,
            unit_bytes: 4096,
            keeps_data: false,
            link_bytes_per_second: 2_000_000_000,
            faulty: (0.0, 0.0),
            checkpoint_every: 64,
            gc_high: 0,
            entries: 16,
            over_provisioning: 0.5,
            retain: true,
            guarantee: Guarantee::Flush,
            eviction: Eviction::SeUtil,
            log: MapLog::SpareArea,
            checkpoint: Checkpoint::Rolling,
            span: 400,
            dirty_share: 40,
            seed: 7,
        }
    }

    /// One region of 126 slots for up to 102 pages, on media that hold many more copies.
    pub fn crowded() -> Shape {
        Shape { unit_bytes: 1024, over_provisioning: 9.0, checkpoint_every: 100_000, ..Shape::small() }
    }

    pub fn is_crowded(&self) -> bool {
        self.over_provisioning > 1.0
    }

    pub fn random(seed: u64) -> Shape {
        let mut rng = Rng::stream(seed, "shape");
        let mut one_of = |of: &[u32]| of[rng.below(of.len() as u64) as usize];
        let mut shape = Shape {
            map: Map::Page,
            address_sectors: 1 << 21,
            channels: one_of(&[1, 2, 3]),
            blocks: one_of(&[16, 20, 32]),
            unit_bytes: one_of(&[1024, 2048, 4096]),
            keeps_data: one_of(&[0, 1]) == 1,
            link_bytes_per_second: 2_000_000_000,
            faulty: if one_of(&[0, 0, 1]) == 1 { (0.002, 0.005) } else { (0.0, 0.0) },
            checkpoint_every: one_of(&[0, 64, 1000]).into(),
            gc_high: one_of(&[0, 4]),
            entries: one_of(&[8, 16, 60]),
            over_provisioning: 0.5,
            retain: one_of(&[0, 1]) == 1,
            guarantee: if one_of(&[0, 1]) == 1 { Guarantee::WriteDirty } else { Guarantee::Flush },
            eviction: if one_of(&[0, 1]) == 1 { Eviction::SeUtil } else { Eviction::SeMerge },
            log: MapLog::SpareArea,
            checkpoint: Checkpoint::Rolling,
            span: one_of(&[500, 2_000, 6_000]),
            dirty_share: one_of(&[5, 40, 80]).into(),
            seed,
        };
        shape.log = if one_of(&[0, 1]) == 1 { MapLog::LastPage } else { MapLog::SpareArea };
        shape.checkpoint = if one_of(&[0, 1]) == 1 { Checkpoint::OnFlush } else { Checkpoint::Rolling };
        if seed % 4 == 3 {
            // As crowded as in `crowded`.
            (shape.unit_bytes, shape.channels, shape.over_provisioning) = (1024, 1, 9.0);
            shape.span = 500;
            (shape.dirty_share, shape.checkpoint_every) = (80, 100_000);
        }
        // The free reserve is then more than a third of 16 blocks.
        if shape.blocks == 16 && shape.gc_high > 0 && shape.over_provisioning < 0.8 {
            shape.over_provisioning = 0.8;
        }
        shape
    }

    /// One die, few blocks, of which log blocks are mapped by page and the others as a whole.
    pub fn small_hybrid(map: Map) -> Shape {
        Shape {
            map,
            blocks: 14,
            address_sectors: 1 << 17,
            over_provisioning: 2.0,
            span: 1_000,
            dirty_share: 2,
            ..Shape::small()
        }
    }

    /// Like [`Shape::random`], with log blocks.
    pub fn hybrid(seed: u64) -> Shape {
        let mut rng = Rng::stream(seed, "log blocks");
        let log_blocks = 1 + rng.below(4) as u32;
        let map = if rng.chance(0.5) { Map::Bast { log_blocks } } else { Map::Fast { log_blocks } };
        let shape = Shape::random(seed);
        Shape {
            map,
            // Metadata of the large address space take ten blocks of a die where units are small.
            blocks: [28, 36, 48][rng.below(3) as usize],
            over_provisioning: 2.0,
            log: MapLog::SpareArea,
            checkpoint: Checkpoint::Rolling,
            gc_high: 0,
            span: [500, 2_000, 6_000][rng.below(3) as usize],
            // One dirty page takes a logical block, so a few fill the cache.
            dirty_share: [2, 5, 40][rng.below(3) as usize],
            ..shape
        }
    }

    /// Like [`Shape::failing`], with log blocks.
    pub fn failing_hybrid(seed: u64) -> Shape {
        let failing = Shape::failing(seed);
        let (faulty, link_bytes_per_second) = (failing.faulty, failing.link_bytes_per_second);
        Shape { faulty, link_bytes_per_second, span: 60, dirty_share: 60, ..Shape::hybrid(seed) }
    }

    /// Blocks fail one after the other, until too few are left; pages are overwritten, evicted and written again while they do.
    pub fn failing(seed: u64) -> Shape {
        let mut shape = Shape::random(seed);
        shape.faulty = (0.03, 0.1);
        if seed % 2 == 1 {
            // Data arrive more slowly than programs end.
            shape.link_bytes_per_second = 5_000_000;
        }
        shape.blocks = 32;
        (shape.span, shape.dirty_share) = (60, 60);
        shape
    }

    fn faults(&self) -> Faults {
        let (fail, read_fail) = self.faulty;
        Faults { program_fail: fail, erase_fail: fail, read_fail, ..Faults::default() }
    }
}

/// A cache of that shape.
pub fn config(shape: &Shape) -> DeviceConfig {
    let cache = CacheConfig {
        address_sectors: shape.address_sectors,
        eviction: shape.eviction,
        guarantee: shape.guarantee,
        log: shape.log,
        checkpoint: shape.checkpoint,
    };
    DeviceConfig {
        media: MediaConfig {
            geometry: Geometry {
                channels: shape.channels,
                ways: 1,
                dies: 1,
                planes: 1,
                blocks: shape.blocks,
                pages: 16,
                page_bytes: 4096,
                spare_bytes: 64,
                sector_bytes: 512,
                unit_bytes: shape.unit_bytes,
                multi_plane: false,
                one_shot_pages: 1,
            },
            cell: Cell::Slc,
            slc_mode: false,
            independent_plane_reads: false,
            slc_blocks: None,
            timing: Timing {
                read_ns: vec![Nanos::from_us(50)],
                program_ns: vec![Nanos::from_us(200)],
                erase_ns: Nanos::from_ms(1),
                die_spread: 0.02,
                op_spread: 0.02,
                op_deviation_ns: Nanos(0),
                variation: Variation::default(),
                channel_bytes_per_second: 400_000_000,
                command_ns: Nanos(200),
                status_ns: Nanos(100),
                suspend_ns: None,
                suspend_erase_ns: Nanos::ZERO,
                resume_ns: Nanos::ZERO,
            },
            endurance: None,
            faults: shape.faults(),
            store: if shape.keeps_data { StoreKind::Ram } else { StoreKind::None },
            metadata_bytes: 0,
            save_bytes: 0,
            keep: Keep::default(),
            integrity: Default::default(),
            seed: shape.seed,
        },
        ftl: FtlConfig {
            map: shape.map,
            over_provisioning: shape.over_provisioning,
            capacity_bytes: None,
            victim: Victim::Greedy,
            placement: Placement::ChannelFirst,
            separation: Separation::GcCopies,
            gc_low_blocks: 1,
            gc_high_blocks: shape.gc_high,
            gc_pacing: false,
            gc_parallel: 8,
            copyback: false,
            wear: WearLevelling { dynamic: true, static_gap: None },
            durability: Durability::Journal { checkpoint_every: shape.checkpoint_every },
            handles: 1,
            isolation: Isolation::Initial,
            slc_cache: None,
            cache: None,
            policies: Policies::default(),
            seed: shape.seed,
        },
        namespaces: vec![Namespace::Cache { blocks: 0..shape.blocks, cache }],
        host: HostInterface {
            queues: 1,
            arbitration: Arbitration::RoundRobin,
            commands_max: 64,
            in_order: false,
            dma_unit_bytes: shape.unit_bytes,
            link_bytes_per_second: shape.link_bytes_per_second,
            write_bytes_per_second: 0,
            dma_overhead_ns: Nanos(20),
            fetch_ns: Nanos(500),
            dma_latency_ns: Nanos(500),
            dma_request_ns: Nanos(0),
            complete_ns: Nanos(300),
            completes: Completes::Firmware,
        },
        firmware: Firmware {
            model: FirmwareModel::Tasks,
            processors: 1,
            modules: ModuleCosts::default(),
            turn: StepCost::default(),
            visit: StepCost::default(),
            poll: StepCost::default(),
            register: StepCost::default(),
            word: StepCost::default(),
            spread: 0.0,
            clock_mhz: 1000,
            fetch: StepCost { cycles: 300, fixed_ns: 0 },
            slice: StepCost { cycles: 300, fixed_ns: 0 },
            dma: StepCost::default(),
            issue: StepCost { cycles: 200, fixed_ns: 0 },
            status: StepCost::default(),
            arrival: StepCost::default(),
            complete: StepCost { cycles: 100, fixed_ns: 0 },
        },
        buffer: DataBuffer {
            entries: shape.entries,
            read_entries: 0,
            fifo: false,
            write: WritePolicy::WriteBack,
            retain: shape.retain,
            dirty_high: 0.5,
        },
        memory: Default::default(),
        scheduler: Scheduler {
            priorities: Priorities { status_check: 1, read_trigger: 2, erase: 3, write: 4, read_transfer: 5 },
            order: DieOrder::ReadFirst,
            suspend: false,
            suspend_gap_ns: Nanos::ZERO,
            suspensions_max: None,
            page_transfers: false,
            read_retries: 3,
            refresh_above: None,
            retry_ns: Nanos::ZERO,
            queue: 0,
            drain_ns: Nanos::ZERO,
            drain_spread: 0.0,
            interconnect_bytes_per_second: 0,
            decode_ns: Nanos::from_us(1),
            solver: None,
        },
    }
}
