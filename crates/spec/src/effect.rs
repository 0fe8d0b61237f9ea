//! Keys that have no effect on the drive and the work of a description.
//!
//! Each [`Rule`] names its keys and the condition they need. A table named after a layer needs that layer, without a rule. A key set for one command
//! (`--set`, an option) that has no effect is refused, because it was meant to have one. A key of a file only causes a warning: the file may keep
//! keys for another drive that `--set` turns it into.

use super::document::Origin;
use super::error::{Place, SpecError};
use super::resolve_backing::{BackingKind, Medium};
use super::resolve_run::{Overwrite, RawPair};
use super::schema::schema;
use super::{DescribedTarget, Entry, RawJob, Spec};
use pellucid_device::Namespace;
use pellucid_ftl::{Durability, Map, Placement, Victim as Policy};
use pellucid_host::{LayerConfig, LayerName, TargetKind};
use pellucid_kv::{Keep, Victim};
use pellucid_media::StoreKind;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use strum::VariantNames;

/// Kind of command that uses a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Show the drive; every key counts.
    Show,
    /// Run jobs or a trace on the drive.
    Work,
    /// Age the drive.
    Age,
    /// Serve the drive.
    Serve,
    /// Run a key-value cache on the drive.
    Kv,
    /// Serve a key-value cache.
    ServeKv,
    /// Measure the drive for a published claim, which brings its own work.
    Claim,
}

/// Keys with a condition.
struct Rule {
    /// Keys; one that ends with a dot stands for every key with that prefix.
    keys: &'static [&'static str],
    /// Condition that gives the keys an effect, as in "it has an effect with ...".
    with: &'static str,
    /// Returns true if a description meets the condition.
    has: fn(&Spec) -> bool,
    /// Commands that the rule applies to; empty: all.
    uses: &'static [Use],
}

const fn rule(keys: &'static [&'static str], with: &'static str, has: fn(&Spec) -> bool) -> Rule {
    Rule { keys, with, has, uses: &[] }
}

const fn of_work(keys: &'static [&'static str], with: &'static str, has: fn(&Spec) -> bool) -> Rule {
    Rule { keys, with, has, uses: &[Use::Work] }
}

/// Keys of the flash that a disk uses too.
const OF_DISK_TOO: [&str; 3] = ["drive.media.sector_size", "drive.media.store", "drive.media.unit_size"];

/// Keys that decide whether the rest of their table has an effect; the rule of the table does not apply to them.
const DECIDING: [&str; 1] = ["backing.kind"];

/// The rules in order: of those that match a key, the first that the description does not meet decides.
const RULES: &[Rule] = &[
    rule(
        &[
            "drive.media.",
            "drive.ecc.",
            "drive.ftl.",
            "drive.host.",
            "drive.firmware.",
            "drive.buffer.",
            "drive.scheduler.",
            "drive.memory.",
            "drive.namespace",
            "precondition.",
            "kv.",
        ],
        "drive.kind = \"flash\"",
        |spec| spec.medium == Medium::Flash,
    ),
    rule(&["backing.kind"], "drive.kind = \"flash\"; a disk alone is the backing store itself", |spec| {
        spec.medium == Medium::Flash
    }),
    rule(&["backing."], "backing.kind = \"disk\" or drive.kind = \"disk\"", |spec| {
        spec.medium == Medium::Disk || spec.backing.kind == BackingKind::Disk
    }),
    // Chunks, zones and nameless writes have no buffer entries: a zone stages superpages, and reads bypass the buffer. The moment at which a write is
    // acknowledged is a setting of zones, too.
    rule(
        &[
            "drive.ftl.",
            "drive.buffer.entries",
            "drive.buffer.read_entries",
            "drive.buffer.retain",
            "drive.buffer.fifo",
            "drive.buffer.dirty_high",
            "drive.firmware.lookup.",
            "drive.firmware.entry.",
            "drive.firmware.evict.",
            "drive.firmware.translate.",
            "drive.firmware.allocate.",
            "drive.firmware.invalidate.",
            "drive.firmware.victim.",
            "drive.firmware.copy.",
        ],
        "a block namespace",
        Spec::has_mapped_namespace,
    ),
    rule(&["drive.buffer.write"], "a block or zoned namespace", |spec| {
        let is_zoned = |n: &Namespace| matches!(n, Namespace::Zoned { .. });
        spec.has_mapped_namespace() || spec.drive.namespaces.iter().any(is_zoned)
    }),
    rule(&["drive.memory.map_unit"], "drive.ftl.map = \"page\" and a block namespace", |spec| {
        let is_block = |n: &Namespace| matches!(n, Namespace::Block { .. });
        spec.drive.ftl.map == Map::Page
            && (spec.drive.namespaces.is_empty() || spec.drive.namespaces.iter().any(is_block))
    }),
    rule(&["drive.memory.in_sram"], "a size in drive.memory.sram or drive.memory.dram", |spec| {
        spec.drive.memory.sram_bytes.is_some() || spec.drive.memory.dram_bytes.is_some()
    }),
    rule(&["drive.memory.sram"], "structures in drive.memory.in_sram", |spec| {
        !spec.drive.memory.in_sram.is_empty() || spec.drive.memory.sram_bytes.is_none()
    }),
    rule(&["drive.ftl.map_cache"], "drive.ftl.map = \"demand\"", |spec| {
        matches!(spec.drive.ftl.map, Map::Demand { .. })
    }),
    rule(&["drive.ftl.log_blocks"], "drive.ftl.map = \"bast\" or \"fast\"", |spec| {
        spec.drive.ftl.map.log_blocks().is_some()
    }),
    rule(&["drive.ftl.over_provisioning"], "drive.ftl.capacity = \"auto\"", |spec| {
        spec.drive.ftl.capacity_bytes.is_none()
    }),
    rule(&["drive.ftl.checkpoint_every"], "drive.ftl.durability = \"journal\"", |spec| {
        matches!(spec.drive.ftl.durability, Durability::Journal { .. })
    }),
    rule(&["drive.ftl.isolation"], "drive.ftl.handles above 1", |spec| spec.drive.ftl.handles > 1),
    rule(
        &["drive.ftl.slc_cache.fold_after", "drive.media.timing.slc_read", "drive.media.timing.slc_program"],
        "drive.ftl.slc_cache.blocks above 0",
        |spec| spec.drive.ftl.slc_cache.is_some(),
    ),
    rule(&["drive.media.path"], "drive.media.store = \"file\"", |spec| spec.is("drive.media.store", "file")),
    rule(&["drive.media.space", "drive.media.sync"], "drive.media.store = \"file:PATH\"", |spec| {
        matches!(spec.drive.media.store, StoreKind::File(_))
    }),
    rule(&["drive.media.ram_max"], "drive.media.store = \"ram\"", |spec| {
        spec.drive.media.store == StoreKind::Ram
    }),
    rule(
        &["drive.media.timing.suspend"],
        "drive.scheduler.suspend = true, which lets reads suspend programs and erases",
        |spec| spec.drive.scheduler.suspend || spec.is("drive.media.timing.suspend", "never"),
    ),
    rule(&["drive.media.multi_plane"], "drive.media.planes above 1", |spec| {
        spec.drive.media.geometry.planes > 1 || !spec.is_on("drive.media.multi_plane")
    }),
    rule(
        &["drive.media.timing.suspend_erase", "drive.media.timing.resume"],
        "a duration in drive.media.timing.suspend",
        |spec| spec.drive.media.timing.suspend_ns.is_some(),
    ),
    rule(
        &["drive.scheduler.suspend_gap", "drive.scheduler.suspensions"],
        "drive.scheduler.suspend = true",
        |spec| spec.drive.scheduler.suspend,
    ),
    rule(
        &[
            "drive.media.bit_errors.factor",
            "drive.media.bit_errors.retry_factor",
            "drive.media.bit_errors.retry_floor",
        ],
        "drive.media.bit_errors.enabled = true",
        |spec| spec.is_on("drive.media.bit_errors.enabled"),
    ),
    rule(&["drive.media.retry.factor"], "drive.media.retry.enabled = true", |spec| {
        spec.is_on("drive.media.retry.enabled")
    }),
    rule(
        &["drive.ecc.chunk", "drive.ecc.correctable", "drive.ecc.data"],
        "drive.ecc.code = \"bch\"",
        |spec| spec.is("drive.ecc.code", "bch"),
    ),
    // An image stores the error-correcting code for runs with errors.
    Rule {
        uses: &[Use::Work, Use::Kv, Use::ServeKv, Use::Claim],
        ..rule(
            &["drive.ecc.code", "drive.ecc.chunk", "drive.ecc.correctable"],
            "drive.media.bit_errors.enabled = true, or drive.ecc.data = \"real\" or \"checked\"",
            |spec| {
                let is_kept = matches!(spec.drive.media.store, StoreKind::File(_));
                let is_used =
                    spec.is_on("drive.media.bit_errors.enabled") || !spec.is("drive.ecc.data", "drawn");
                is_kept || is_used || spec.is("drive.ecc.code", "none")
            },
        )
    },
    rule(
        &["drive.ecc.scrambler", "drive.ecc.refresh_above"],
        "drive.media.bit_errors.enabled = true",
        |spec| spec.is_on("drive.media.bit_errors.enabled"),
    ),
    rule(&["drive.host.weights"], "drive.host.arbitration = \"weighted\"", |spec| {
        spec.is("drive.host.arbitration", "weighted")
    }),
    rule(
        &[
            "drive.firmware.turn.",
            "drive.firmware.visit.",
            "drive.firmware.poll.",
            "drive.firmware.register.",
            "drive.firmware.word.",
            "drive.firmware.spread",
            "drive.scheduler.queue",
        ],
        "drive.firmware.model = \"loop\"",
        |spec| spec.is("drive.firmware.model", "loop"),
    ),
    rule(
        &["drive.firmware.processors", "drive.firmware.spread"],
        "a step of drive.firmware that takes time",
        |spec| spec.drive.firmware.takes_time(),
    ),
    rule(
        &["drive.firmware.clock_mhz"],
        "a step of drive.firmware with cycles, which last by the clock",
        |spec| spec.drive.firmware.has_cycles(),
    ),
    // A merge chooses no victim and places no copy, and its journal is checkpointed when it is full.
    rule(
        &[
            "drive.ftl.victim",
            "drive.ftl.copyback",
            "drive.ftl.placement",
            "drive.ftl.separation",
            "drive.ftl.gc_low",
            "drive.ftl.gc_high",
            "drive.ftl.gc_pacing",
            "drive.ftl.checkpoint_every",
            "drive.firmware.victim.",
        ],
        "drive.ftl.map = \"page\" or \"demand\"",
        |spec| spec.drive.ftl.map.log_blocks().is_none(),
    ),
    // A cache gives up the block with the fewest cached units; the key `eviction` of its namespace decides how copies are kept.
    rule(&["drive.ftl.victim", "drive.ftl.separation"], "a block namespace", |spec| {
        let is_block = |n: &Namespace| matches!(n, Namespace::Block { .. });
        spec.drive.namespaces.is_empty() || spec.drive.namespaces.iter().any(is_block)
    }),
    // An entry that is released at once needs no eviction.
    rule(&["drive.firmware.evict."], "drive.buffer.retain = true", |spec| spec.is_on("drive.buffer.retain")),
    rule(
        &["drive.host.dma_unit"],
        "drive.host.dma_overhead above 0, or drive.firmware.model = \"loop\", which hands over unit by unit",
        |spec| spec.drive.host.dma_overhead_ns.0 > 0 || spec.is("drive.firmware.model", "loop"),
    ),
    // If transfers take no time, the firmware learns of each end at once.
    rule(
        &["drive.host.completes"],
        "a rate of the link, a time of DMA, or drive.firmware.model = \"loop\"",
        |spec| {
            let host = &spec.drive.host;
            let rates = [host.link_bytes_per_second, host.write_bytes_per_second];
            let times = [host.dma_overhead_ns, host.dma_latency_ns, host.dma_request_ns];
            rates.iter().any(|&rate| rate > 0)
                || times.iter().any(|time| time.0 > 0)
                || spec.is("drive.firmware.model", "loop")
        },
    ),
    rule(
        &["drive.scheduler.read_retries", "drive.scheduler.retry"],
        "reads that can fail: drive.media.faults.read_fail or list, drive.media.bit_errors or drive.media.retry",
        Spec::has_failing_reads,
    ),
    rule(&["drive.scheduler.retry"], "drive.scheduler.read_retries above 0", |spec| {
        spec.drive.scheduler.read_retries > 0
    }),
    rule(&["drive.scheduler.solver.channels"], "a time in drive.scheduler.solver.time", |spec| {
        spec.drive.scheduler.solver.is_none_or(|solver| solver.chunk_ns.0 > 0)
    }),
    rule(
        &["drive.scheduler.page_transfers"],
        "operations of several mapping units and pages: drive.media.planes with multi_plane, or drive.media.one_shot_pages above 1, and \
         drive.media.unit_size of half of what they program at most",
        |spec| {
            let geometry = &spec.drive.media.geometry;
            let planes = if geometry.multi_plane { geometry.planes } else { 1 };
            let pages = geometry.one_shot_pages * planes;
            let units = pages * geometry.page_bytes / geometry.unit_bytes.max(1);
            (pages > 1 && units > 1) || !spec.is_on("drive.scheduler.page_transfers")
        },
    ),
    rule(
        &["drive.ftl.seed"],
        "something to draw: drive.ftl.victim = \"random\" or \"d-choices\", drive.ftl.placement = \"random\", host.layers, or targets",
        |spec| {
            let ftl = &spec.drive.ftl;
            let draws = matches!(ftl.victim, Policy::Random | Policy::DChoices(_));
            draws || ftl.placement == Placement::Random || !spec.host.is_empty() || !spec.targets.is_empty()
        },
    ),
    of_work(&["drive.ftl.handles", "drive.ftl.isolation"], "a job with fdp = 1, or an application", |spec| {
        let names_handles = |pair: &RawPair| match pair.key.as_str() {
            "fdp" => pair.value != "0",
            "dataplacement" => pair.value != "none",
            "app" | "plids" | "fdp_pli" => true,
            _ => false,
        };
        let offers_handles = !spec.drive.namespaces.is_empty();
        // A fio job file is not part of the description and decides itself whether its writes carry handles.
        let are_elsewhere = spec.jobs.is_empty() && spec.run.trace.is_none();
        spec.drive.ftl.handles == 1
            || offers_handles
            || are_elsewhere
            || spec.jobs.iter().flat_map(|job| &job.pairs).any(names_handles)
    }),
    of_work(
        &["drive.media.seed"],
        "something to draw: drive.media.timing.die_spread or op_spread, drive.media.faults, bit_errors or retry",
        |spec| {
            let (media, faults) = (&spec.drive.media, &spec.drive.media.faults);
            let spreads = [media.timing.die_spread, media.timing.op_spread];
            let fails = [faults.factory_bad, faults.program_fail, faults.erase_fail];
            // The cells of a file are known from the file.
            let is_kept = matches!(media.store, StoreKind::File(_));
            is_kept || spec.has_failing_reads() || spreads.iter().chain(&fails).any(|&share| share > 0.0)
        },
    ),
    rule(&["drive.buffer.dirty_high"], "drive.buffer.write = \"write-back\"", |spec| {
        spec.is("drive.buffer.write", "write-back")
    }),
    rule(
        &["drive.scheduler.solver.chunk", "drive.scheduler.solver.time"],
        "drive.scheduler.solver.channels above 0",
        |spec| spec.drive.scheduler.solver.is_some(),
    ),
    rule(
        &["drive.scheduler.priorities.read_trigger", "drive.scheduler.priorities.erase"],
        "drive.media.timing.command above 0",
        |spec| spec.drive.media.timing.command_ns.0 > 0,
    ),
    rule(&["drive.scheduler.priorities.status_check"], "drive.media.timing.status above 0", |spec| {
        spec.drive.media.timing.status_ns.0 > 0
    }),
    rule(&["drive.scheduler.drain_spread"], "drive.scheduler.drain above 0", |spec| {
        spec.drive.scheduler.drain_ns.0 > 0
    }),
    rule(
        &["host.ftl."],
        "host.layers with \"host-ftl\" or \"zone-log\", or an open-channel namespace for a target",
        |spec| {
            let is_open = |n: &Namespace| matches!(n, Namespace::OpenChannel { .. });
            spec.has_layer(|layer| matches!(layer, LayerConfig::HostFtl(_)))
                || spec.drive.namespaces.iter().any(is_open)
        },
    ),
    rule(
        &["host.cluster_buffer.journal_unit", "host.cluster_buffer.journal_use"],
        "a size in host.cluster_buffer.journal",
        |spec| !spec.is("host.cluster_buffer.journal", "none"),
    ),
    rule(
        &["host.block_layer.read_expire", "host.block_layer.write_expire"],
        "host.block_layer.elevator = \"deadline\"",
        |spec| spec.is("host.block_layer.elevator", "deadline"),
    ),
    rule(&["host.block_layer.plug_time"], "host.block_layer.plug above 0", |spec| {
        !spec.is("host.block_layer.plug", "0")
    }),
    rule(&["host.block_layer.join"], "a nameless namespace, or host.layers with \"nameless-ftl\"", |spec| {
        spec.has_nameless_namespace() || spec.has_layer(|layer| matches!(layer, LayerConfig::NamelessFtl(_)))
    }),
    rule(&["host.ata.miss", "host.ata.false_misses"], "a cache namespace", Spec::has_cache_namespace),
    rule(&["host.ata.false_misses"], "host.ata.miss = \"in-band\"", |spec| {
        spec.is("host.ata.miss", "in-band")
    }),
    rule(
        &["host.ata.address", "host.ata.upcalls", "host.ata.poll"],
        "a nameless namespace",
        Spec::has_nameless_namespace,
    ),
    rule(&["host.ata.poll"], "host.ata.upcalls = \"poll\"", |spec| spec.is("host.ata.upcalls", "poll")),
    rule(
        &["host.ata.link_rate", "host.ata.carry", "host.ata.error_time", "host.ata.error_retries"],
        "a cache or nameless namespace, whose commands a disk interface does not know",
        |spec| spec.has_cache_namespace() || spec.has_nameless_namespace(),
    ),
    rule(&["host.nameless.namespace"], "host.layers with \"nameless-ftl\" or \"nameless-file\"", |spec| {
        spec.has_layer(|layer| matches!(layer, LayerConfig::NamelessFtl(_) | LayerConfig::NamelessFile(_)))
    }),
    rule(&["host.nameless."], "host.layers with \"nameless-ftl\"", |spec| {
        spec.has_layer(|layer| matches!(layer, LayerConfig::NamelessFtl(_)))
    }),
    rule(
        &["host.cache.block", "host.cache.records", "host.cache.replacement"],
        "a cache on a block drive",
        |spec| !spec.has_cache_namespace(),
    ),
    rule(&["host.cache.set"], "a cache on a block drive, or host.cache.mode = \"write-back\"", |spec| {
        !spec.has_cache_namespace() || spec.is("host.cache.mode", "write-back")
    }),
    rule(&["host.cpu."], "host.layers, or a block target", |spec| {
        let is_block = |described: &DescribedTarget| {
            described.target.kind == TargetKind::Block || described.for_application
        };
        !spec.host.is_empty() || spec.targets.iter().any(is_block)
    }),
    of_work(
        &[
            "run.format",
            "run.address",
            "run.time_scale",
            "run.closed_loop",
            "run.stream",
            "run.repeat",
            "run.limit",
        ],
        "a trace",
        |spec| spec.run.trace.is_some(),
    ),
    of_work(
        &["drive.host.queues", "drive.host.arbitration", "drive.host.weights"],
        "jobs in several submission queues (job key queue)",
        |spec| {
            let queue = |job: &RawJob| {
                job.pairs.iter().rfind(|pair| pair.key == "queue").map(|pair| pair.value.clone())
            };
            let queues: BTreeSet<String> =
                spec.jobs.iter().map(|job| queue(job).unwrap_or("0".into())).collect();
            queues.len() > 1
        },
    ),
    of_work(&["run.time_scale"], "run.closed_loop = \"off\"", |spec| spec.run.closed_loop.is_none()),
    of_work(&["run.seed"], "jobs; a trace draws nothing at random", |spec| spec.run.trace.is_none()),
    of_work(&["job"], "run.trace = \"\"", |spec| spec.run.trace.is_none()),
    of_work(&["run.steady_round", "run.steady_window"], "run.steady_state", |spec| spec.run.steady.is_some()),
    rule(&["precondition.steady"], "precondition.overwrite = \"steady\"", |spec| {
        spec.precondition.overwrite == Overwrite::Steady
    }),
    of_work(&["precondition.seed"], "precondition.overwrite above 0", |spec| {
        spec.precondition.overwrite != Overwrite::Capacities(0.0)
    }),
    of_work(
        &["precondition.shelf_days"],
        "drive.media.retry.enabled = true or drive.media.bit_errors.enabled = true",
        |spec| spec.is_on("drive.media.retry.enabled") || spec.is_on("drive.media.bit_errors.enabled"),
    ),
    Rule {
        uses: &[Use::Work, Use::Age, Use::Kv, Use::ServeKv, Use::Claim],
        ..rule(
            &["drive.firmware.admin."],
            "pellucid serve, whose hosts send admin commands over NVMe/TCP",
            |_| false,
        )
    },
    Rule {
        uses: &[Use::Age, Use::Serve],
        ..rule(&["kv."], "pellucid kv, which puts a cache on the drive", |_| false)
    },
    of_work(&["kv."], "app = kv, or pellucid kv, which puts a cache on the drive", |spec| {
        let pairs = spec.jobs.iter().flat_map(|job| &job.pairs);
        pairs.filter(|pair| pair.key == "app").any(|pair| pair.value == "kv")
    }),
    rule(
        &["kv.keep"],
        "kv.victim = \"most-obsolete\" or \"two-modes\"; the others keep what is hot, or with kv.keep = \"nothing\" nothing",
        |spec| {
            let by_space = matches!(spec.kv.victim, Victim::MostObsolete | Victim::TwoModes);
            by_space || spec.kv.keep == Keep::Nothing
        },
    ),
    Rule {
        uses: &[Use::Age, Use::Kv, Use::ServeKv],
        ..rule(&["target"], "pellucid run, replay, compare and serve", |_| false)
    },
    Rule {
        uses: &[Use::Age, Use::Serve, Use::ServeKv, Use::Claim],
        ..rule(&["run.", "job"], "pellucid run, replay and compare", |_| false)
    },
    Rule {
        uses: &[Use::Serve, Use::ServeKv],
        ..rule(&["precondition."], "pellucid run, replay, compare and age, whose image can be served", |_| {
            false
        })
    },
];

/// A layer whose keys stand in a table of its name.
struct LayerTable {
    /// Prefix of its keys, such as `host.block_layer.`.
    table: String,
    /// Its name, quoted as in `host.layers`.
    shown: String,
    /// The condition, as in [`Rule::with`].
    with: String,
}

/// The layers that have a table of their name.
fn layer_tables() -> &'static [LayerTable] {
    static TABLES: LazyLock<Vec<LayerTable>> = LazyLock::new(|| {
        let table = |name: &&str| LayerTable {
            table: format!("host.{}.", name.replace('-', "_")),
            shown: format!("\"{name}\""),
            with: format!("host.layers with \"{name}\""),
        };
        let is_there = |layer: &LayerTable| schema().iter().any(|key| key.path.starts_with(&layer.table));
        LayerName::VARIANTS.iter().map(table).filter(is_there).collect()
    });
    &TABLES
}

/// Condition that a key needs and the description does not meet; `None`: the key has an effect.
fn missing(spec: &Spec, key: &str, used: Use) -> Option<&'static str> {
    if key.starts_with("host.") {
        let layers = spec.value("host.layers").unwrap_or_default();
        let layer = layer_tables().iter().find(|layer| key.starts_with(&layer.table));
        if let Some(layer) = layer.filter(|layer| !layers.contains(&layer.shown)) {
            return Some(&layer.with);
        }
    }
    RULES.iter().find(|rule| rule.refuses(spec, key, used)).map(|rule| rule.with)
}

impl Rule {
    fn is_about(&self, key: &str) -> bool {
        self.keys.iter().any(|own| match own.ends_with('.') {
            true => key.starts_with(own) && !DECIDING.contains(&key),
            false => key == *own,
        })
    }

    /// Reports whether this rule refuses a key.
    fn refuses(&self, spec: &Spec, key: &str, used: Use) -> bool {
        let judged = self.uses.is_empty() || self.uses.contains(&used);
        let shared = spec.medium == Medium::Disk && OF_DISK_TOO.contains(&key);
        judged && !shared && self.is_about(key) && !(self.has)(spec)
    }
}

impl Spec {
    /// Reports whether a layer or target of the host stands between jobs and drive.
    pub fn has_host(&self) -> bool {
        !self.host.is_empty() || !self.targets.is_empty()
    }

    /// Reports whether the drive itself maps blocks behind a data buffer; an empty list means one block namespace.
    fn has_mapped_namespace(&self) -> bool {
        let namespaces = &self.drive.namespaces;
        let is_mapped = |n: &Namespace| matches!(n, Namespace::Block { .. } | Namespace::Cache { .. });
        namespaces.is_empty() || namespaces.iter().any(is_mapped)
    }

    /// Reports whether a flash read can fail or need a retry.
    fn has_failing_reads(&self) -> bool {
        let faults = &self.drive.media.faults;
        let tries = ["drive.media.bit_errors.enabled", "drive.media.retry.enabled"];
        faults.read_fail > 0.0 || !faults.list.is_empty() || tries.iter().any(|key| self.is_on(key))
    }

    fn has_cache_namespace(&self) -> bool {
        self.drive.namespaces.iter().any(|n| matches!(n, Namespace::Cache { .. }))
    }

    fn has_nameless_namespace(&self) -> bool {
        self.drive.namespaces.iter().any(|n| matches!(n, Namespace::Nameless { .. }))
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.provenance.get(key).map(|entry| entry.value.trim_matches('"'))
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.value(key) == Some(value)
    }

    fn is_on(&self, key: &str) -> bool {
        self.is(key, "true")
    }

    fn has_layer(&self, is: impl Fn(&LayerConfig) -> bool) -> bool {
        self.host.iter().any(is)
    }

    /// Reports whether the host has a cache manager.
    pub fn is_cached(&self) -> bool {
        self.value("host.layers").is_some_and(|layers| layers.contains("\"cache\""))
    }

    /// Reports whether a key has an effect on a command that uses this description.
    pub(super) fn has_effect(&self, key: &str, used: Use) -> bool {
        missing(self, key, used).is_none()
    }

    /// Condition that would give an override an effect; `key` with or without `drive.`. `None`: it has an effect.
    pub fn set_without_effect(&self, key: &str, used: Use) -> Option<&'static str> {
        let named = |entry: &Entry| entry.key == key || entry.key.strip_prefix("drive.") == Some(key);
        let is_it = |entry: &&Entry| named(entry) && matches!(entry.origin.place, Place::Set { .. });
        let entry = self.provenance.entries.iter().find(is_it)?;
        missing(self, entry.key, used)
    }

    /// Refuses a key that was set for this command and has no effect on it. Returns a sentence for each key of a file that has none.
    ///
    /// # Errors
    /// The first such key.
    pub fn check_effect(&self, used: Use) -> Result<Vec<String>, SpecError> {
        let mut warnings = Vec::new();
        let is_meant_otherwise = self.is_meant_otherwise();
        for Entry { key, value, origin: Origin { place, .. } } in &self.provenance.entries {
            // The rules are expensive, so they are evaluated only for keys that an error or a warning could name.
            let is_told = match place {
                Place::Default => false,
                Place::Set { .. } | Place::Option { .. } => true,
                Place::File { name, .. } => {
                    let is_ours = name == super::NO_FLASH_NAME || super::presets::find(name).is_some();
                    // A server logs as an event that its drives are not preconditioned.
                    let is_logged =
                        key.starts_with("precondition.") && matches!(used, Use::Serve | Use::ServeKv);
                    !is_ours && !is_logged && !is_meant_otherwise
                }
            };
            if !is_told {
                continue;
            }
            let Some(with) = missing(self, key, used) else { continue };
            match place {
                Place::Set { .. } | Place::Option { .. } => {
                    return Err(SpecError::NoEffect {
                        place: place.clone(),
                        key: (*key).into(),
                        value: value.clone(),
                        with,
                    });
                }
                Place::File { .. } if super::default_of(key).as_ref() != Some(value) => {
                    warnings.push(format!("{place}: {key} has no effect here; it has one with {with}"));
                }
                Place::File { .. } | Place::Default => {}
            }
        }
        let keeps_none = self.drive.ftl.durability == Durability::Volatile && self.has_mapped_namespace();
        if let StoreKind::File(path) = &self.drive.media.store
            && keeps_none
            && matches!(used, Use::Work | Use::Age)
        {
            warnings.push(format!(
                "drive.media.store = file:{}: the drive finds nothing there when it is switched on again, as drive.ftl.durability = \"volatile\"; \
                 it does with \"journal\"",
                path.display()
            ));
        }
        Ok(warnings)
    }

    /// Reports whether keys without effect are expected: the file describes the drive that it is without this command's overrides, or it lists every
    /// key, as `show` prints them.
    fn is_meant_otherwise(&self) -> bool {
        let shown = |entry: &&Entry| super::show::is_written(self, entry);
        let places = || self.provenance.entries.iter().filter(shown).map(|entry| &entry.origin.place);
        places().any(|place| matches!(place, Place::Set { .. } | Place::Option { .. }))
            || places().all(|place| *place != Place::Default)
    }
}
