//! A cache on a described drive, with clients: the experiment of `pellucid kv replay` and the published claims.

use super::clients::{Clients, ClientsConfig, KvRunError};
use super::report::KvSummary;
use crate::drive::{RunError, Unwatched, precondition};
use pellucid_device::{Counters, Device, DeviceError};
use pellucid_flash::{Cause, SimTime};
use pellucid_kv::{KvStatistics, System, build};
use pellucid_report::GcPauses;
use pellucid_spec::Spec;
use pellucid_text::format::{self, count};
use pellucid_workload::kv::Requests;
use serde::Serialize;
use std::fmt::Write;

/// Why an experiment could not be made or run.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// The drive cannot be made.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The cache cannot run on the drive.
    #[error("kv.engine = {engine}: {sentence}")]
    Cache {
        /// Name of the engine.
        engine: &'static str,
        /// The reason.
        sentence: String,
    },
    /// The drive cannot be preconditioned.
    #[error(transparent)]
    Precondition(#[from] RunError),
    /// The clients stopped.
    #[error(transparent)]
    Run(#[from] KvRunError),
}

/// A cache with its drive and its clients.
pub struct Experiment {
    system: System<Device>,
    clients: Clients,
    sector_bytes: u64,
}

impl Experiment {
    /// Makes the drive of a description, preconditions it, and puts the cache of its `[kv]` on it.
    pub fn new(spec: &Spec, clients: ClientsConfig) -> Result<Experiment, KvError> {
        let mut device = Device::new(&spec.drive)?;
        precondition(&mut device, &spec.precondition, None, &mut Unwatched)?;
        let sector_bytes = u64::from(device.layout().sector_bytes);
        let system = build(device, &spec.kv, SimTime::ZERO)
            .map_err(|sentence| KvError::Cache { engine: spec.kv.engine.name(), sentence })?;
        let clients = Clients::new(clients, system.now());
        Ok(Experiment { system, clients, sector_bytes })
    }

    /// Runs this many requests, or all there are; reports their effect on cache and flash.
    pub fn run(&mut self, requests: &mut impl Requests, count: u64) -> Result<KvReport, KvError> {
        let (cache, drive) = (self.system.statistics(), self.system.drive().counters());
        let summary = self.clients.run(&mut self.system, requests, count)?;
        let flash = FlashWork::new(&self.system.drive().counters().since(&drive), self.sector_bytes);
        Ok(KvReport { summary, cache: CacheWork::new(&self.system.statistics(), &cache), flash })
    }

    /// Returns the cache.
    pub fn system(&self) -> &System<Device> {
        &self.system
    }
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KvReport {
    /// Requests, as clients saw them.
    pub summary: KvSummary,
    /// Work of the cache.
    pub cache: CacheWork,
    /// Work of the drive.
    pub flash: FlashWork,
}

/// Work of a cache in a run, and its contents at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CacheWork {
    /// Items that clients stored.
    pub sets: u64,
    /// Bytes of their keys and values.
    pub set_bytes: u64,
    /// Items of evicted slabs that were written again.
    pub copied: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Valid items dropped to make room.
    pub evicted: u64,
    /// Items expired.
    pub expired: u64,
    /// Items lost to failed flash.
    pub lost: u64,
    /// Slabs written.
    pub slabs_written: u64,
    /// Slabs evicted.
    pub slabs_evicted: u64,
    /// Time from the choice of each released slab as a victim.
    pub gc_pauses: GcPauses,
    /// Bytes written to the drive.
    pub written_bytes: u64,
    /// Bytes written to the drive per set; absent without sets.
    pub written_bytes_per_set: Option<f64>,
    /// Bytes read from the drive.
    pub read_bytes: u64,
    /// Blocks erased by the cache or, on its behalf, by the library.
    pub erases: u64,
    /// Stores that had to wait for a write buffer.
    pub waits: u64,
    /// Items at the end.
    pub items: u64,
    /// Bytes of items at the end.
    pub item_bytes: u64,
    /// Slabs on flash.
    pub slabs_total: u64,
    /// Slabs with items at the end.
    pub slabs: u64,
    /// Bytes of the index at the end.
    pub index_bytes: u64,
}

impl CacheWork {
    pub(crate) fn new(now: &KvStatistics, before: &KvStatistics) -> CacheWork {
        let sets = now.sets - before.sets;
        let written_bytes = now.flash_written_bytes - before.flash_written_bytes;
        CacheWork {
            sets,
            set_bytes: now.set_bytes - before.set_bytes,
            copied: now.copied - before.copied,
            copied_bytes: now.copied_bytes - before.copied_bytes,
            evicted: now.evicted - before.evicted,
            expired: now.expired - before.expired,
            lost: now.lost - before.lost,
            slabs_written: now.slabs_written - before.slabs_written,
            slabs_evicted: now.slabs_evicted - before.slabs_evicted,
            gc_pauses: GcPauses::new(&now.pauses.since(&before.pauses)),
            written_bytes,
            written_bytes_per_set: (sets > 0).then(|| written_bytes as f64 / sets as f64),
            read_bytes: now.flash_read_bytes - before.flash_read_bytes,
            erases: now.erases - before.erases,
            waits: now.waits - before.waits,
            items: now.items,
            item_bytes: now.item_bytes,
            slabs_total: now.slabs_total,
            slabs: now.slabs,
            index_bytes: now.index_bytes,
        }
    }
}

/// Work of a drive in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashWork {
    /// Bytes programmed, for any cause.
    pub programmed_bytes: u64,
    /// Bytes programmed by the drive's own garbage collection: copies of valid pages.
    pub copied_bytes: u64,
    /// Blocks erased, for any cause.
    pub erases: u64,
}

impl FlashWork {
    fn new(counters: &Counters, sector_bytes: u64) -> FlashWork {
        FlashWork {
            programmed_bytes: counters.programmed_sectors.iter().sum::<u64>() * sector_bytes,
            copied_bytes: counters.programmed_sectors[Cause::Gc as usize] * sector_bytes,
            erases: counters.erases.iter().sum(),
        }
    }
}

impl KvReport {
    /// Renders the report as text.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "{name:20}{text}");
        };
        let KvReport { summary, cache, flash } = self;
        let ratio = format::optional(summary.hit_ratio, format::percent);
        if summary.seconds > 0.0 {
            line("requests", format!("{} in {}", count(summary.requests), format::span(summary.seconds)));
            line("throughput", format!("{}/s", format::significant(summary.requests_per_second)));
        } else {
            line("requests", format!("{}, in no simulated time", count(summary.requests)));
        }
        line("hit ratio", ratio);
        let operations = &summary.operations;
        for (name, latency) in [
            ("request", &operations.request),
            ("hit", &operations.hit),
            ("miss", &operations.miss),
            ("store", &operations.store),
            ("fill", &operations.fill),
            ("query", &operations.query),
            ("other", &operations.other),
        ] {
            let (Some(mean), Some(p99), Some(max)) = (latency.mean_ns, latency.p99_ns, latency.max_ns) else {
                continue;
            };
            if max == 0 {
                // Without flash and `kv.cpu`, times would mean nothing.
                line(name, format!("{}, none of which took simulated time", count(latency.count)));
                continue;
            }
            let [mean, p99, max] = [mean, p99 as f64, max as f64].map(format::duration);
            line(name, format!("{} of mean {mean}, p99 {p99}, max {max}", count(latency.count)));
        }
        let per_set = format::optional(cache.written_bytes_per_set, format::bytes);
        // Slabs handed to the drive at the end may wait there.
        let waits = cache.written_bytes.saturating_sub(flash.programmed_bytes);
        let waiting = match waits {
            0 => String::new(),
            _ => format!("; {} of it not programmed yet at the end", format::bytes(waits as f64)),
        };
        line(
            "flash writes",
            format!("{}, {per_set} for each set{waiting}", format::bytes(cache.written_bytes as f64)),
        );
        line(
            "copied items",
            format!("{}, {}", count(cache.copied), format::bytes(cache.copied_bytes as f64)),
        );
        line(
            "dropped items",
            format!(
                "{} valid, {} expired, {} lost",
                count(cache.evicted),
                count(cache.expired),
                count(cache.lost)
            ),
        );
        line("copied pages", format!("{} by the drive", format::bytes(flash.copied_bytes as f64)));
        line("erases", count(flash.erases));
        line("holds", format!("{} items, {}", count(cache.items), format::bytes(cache.item_bytes as f64)));
        if summary.failed > 0 {
            line("refused", count(summary.failed));
        }
        if summary.wrong_values > 0 {
            line("WRONG VALUES", count(summary.wrong_values));
        }
        out
    }
}
