//! The report of a run: every number that the driver hands over, and the renderers that show it.
//!
//! ```text
//! driver --> RequestRecorder, TimeSeries --> Report --> text, compare   (terminal)
//!        \-> RequestLog (CSV)                      \-> to_json, Series::write_csv, to_html
//! ```
//! A report is plain data. All of it except [`HostCost`] follows from description, workload and seeds: without that group, two runs give the same
//! bytes of JSON. `docs/reference/definitions.md` defines the terms; `docs/reference/report-schema.md` has one line per JSON key, which a test
//! compares with these structs.

pub mod plot;

mod application;
mod columns;
mod compare;
mod difference;
mod files;
mod fio;
mod gc_pauses;
mod html;
mod jobs;
mod json;
mod latency;
mod log;
mod of_flash;
mod provenance;
mod recorder;
mod replay;
mod request_columns;
#[cfg(test)]
mod sample;
mod seeds;
mod series;
mod statistics;
mod steady;
mod tables;
mod targets;
mod text;
mod timeline;
mod translation;
mod wear;

pub use application::{ApplicationReport, Copies, PhaseReport};
pub use columns::{Column, Named};
pub use compare::render_compare;
pub use difference::{Difference, differences, results};
pub use files::{FilesReport, OperationReport};
pub use fio::{JobOptions, to_fio_json};
pub use gc_pauses::GcPauses;
pub use html::{
    Figure, Shell, compare_figures, figures_json, render_compare_html, render_compare_svg, render_film_alone,
    render_film_html, render_film_still, render_html, report_figures,
};
pub use jobs::{GroupResult, JobResult, Span};
pub use latency::{Distribution, Latency, LatencyRecorder};
pub use log::{LOG_BEGINNING, RequestLog, RequestSink, opcode_name};
pub use of_flash::OfFlash;
pub use provenance::{Input, Provenance};
pub use recorder::{Direction, Directions, LatencyBand, ReadsByMapping, RequestRecorder, Requests};
pub use replay::Replay;
pub use request_columns::{RequestColumns, WordColumn};
pub use seeds::OverSeeds;
pub use series::{Busy, FlowSeries, Sample, Series, TimeSeries};
pub use steady::SteadyState;
pub use tables::{ByCause, ByStage, key};
pub use targets::TargetResult;
pub use text::render_text;
pub use timeline::{TIMELINE_BEGINNING, to_perfetto};
pub use translation::{MapCache, MapPages, Merges, MergesOfKind, SlcCache};
pub use wear::{EraseCounts, Wear, WearHistogram};

use pellucid_device::{FirmwareModule, Timeline};
use pellucid_film::Film;
use pellucid_flash::Cause;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the JSON schema. It is raised when a key changes its meaning or is removed, not for new keys.
pub const SCHEMA_VERSION: u32 = 2;

/// Everything known about a finished run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Schema and program.
    #[serde(flatten)]
    pub version: Version,
    /// The drive that was run.
    pub drive: Drive,
    /// Work of the run.
    pub workload: Workload,
    /// Keys of the description overridden by `--set` or by the drive's own list, with their values.
    pub overrides: BTreeMap<String, String>,
    /// The seeds of the run by purpose (`media`, `ftl`, `workload`, ...).
    pub seeds: BTreeMap<String, u64>,
    /// Everything needed to make the report again; absent in reports that are only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Reasons why the numbers may mislead, a sentence each.
    pub warnings: Vec<String>,
    /// Requests completed, with and without success, in all directions.
    pub requests: u64,
    /// Reads whose data were compared with those written, and were right; absent without `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_reads: Option<u64>,
    /// True if the user ended the run before its work was done.
    pub partial: bool,
    /// Length of the measurement in simulated seconds, from its start to the last completion.
    pub simulated_seconds: f64,
    /// Cost of the run on this machine; differs from run to run.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostCost>,
    /// Steady state of the run; absent without a steady-state rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
    /// Requests by direction, over the whole measurement.
    pub directions: Directions,
    /// Reads by whether the drive had data for them.
    pub reads: ReadsByMapping,
    /// Each job over its own time; empty for a trace.
    pub jobs: Vec<JobResult>,
    /// Groups of jobs.
    pub groups: Vec<GroupResult>,
    /// Bytes programmed, by cause.
    pub write_amplification: OfFlash<WriteAmplification>,
    /// Garbage collection.
    pub gc: OfFlash<GcSummary>,
    /// Blocks and their erase counts at the end of the run.
    pub wear: OfFlash<Wear>,
    /// The run's last mount; absent if the drive started empty.
    pub mount: Option<Mount>,
    /// Errors of the media, and their cost.
    pub media: OfFlash<MediaHealth>,
    /// Busy shares of the parts.
    pub utilisation: Utilisation,
    /// Figures of the cached mapping table; absent if the map is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCache>,
    /// Merges of log blocks; absent without log blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// Traffic of the SLC cache; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
    /// Results by namespace; empty for a drive with one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceResult>,
    /// Results by target; empty without targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetResult>,
    /// The layer of the host above the drive; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_layer: Option<HostLayer>,
    /// How the replay differs from its trace; absent without a replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Figures of a file server's threads; absent without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesReport>,
    /// Work of applications; empty without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationReport>,
    /// Counters of a disk, and of layers of the host without a section of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartFigures>,
    /// The run over time.
    pub series: Series,
    /// Content of each block over time, if recorded; a page of its own, not in the JSON.
    #[serde(skip)]
    pub film: Option<Film>,
    /// Timeline of channels, ways, link and processor, if recorded; a file of its own, not in the JSON.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
}

/// Counters of a disk or a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartFigures {
    /// Name of the disk or layer.
    pub part: String,
    /// Counters and values.
    pub figures: Vec<PartFigure>,
}

/// A count over the run, or a value at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartFigure {
    /// Name of the figure.
    pub name: String,
    /// Count or value.
    pub value: u64,
}

impl PartFigures {
    /// Returns the figure of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// Result of one of several namespaces, as the drive counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NamespaceResult {
    /// Number of the namespace, from 0.
    pub number: u16,
    /// `block`, `zoned` or `open-channel`.
    pub interface: String,
    /// Bytes that hosts can write.
    pub capacity_bytes: u64,
    /// Erased blocks, ready for new data.
    pub free_blocks: u64,
    /// True if it refuses writes because no block can be freed for new data.
    pub read_only: bool,
    /// Bytes programmed, by cause.
    pub write_amplification: WriteAmplification,
    /// Garbage collection; absent if the host does it.
    pub gc: Option<GcSummary>,
    /// Last mount; absent if it started empty.
    pub mount: Option<Mount>,
    /// Cached mapping table; absent if the map is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCache>,
    /// Merges of log blocks; absent without log blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// SLC cache; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
}

/// Work and state of a layer of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostLayer {
    /// Name of the layer.
    pub name: String,
    /// Simulated seconds that it kept the host's processor busy.
    pub cpu_seconds: f64,
    /// `cpu_seconds` per simulated second; above 1 with several cores.
    pub cpu_share: f64,
    /// Bytes of host memory for map, tables and write buffer.
    pub memory_bytes: u64,
    /// Commands sent to the drive.
    pub commands: u64,
    /// Sectors read by the application from the layer's write buffer.
    pub buffer_read_hits: u64,
}

/// Schema and program of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of Pellucid.
    pub pellucid_version: String,
}

impl Default for Version {
    fn default() -> Version {
        Version { schema_version: SCHEMA_VERSION, pellucid_version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// The drive that was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drive {
    /// Name: the preset's or the description file's.
    pub name: String,
    /// One line: geometry, cell, map, policies.
    pub summary: String,
    /// Bytes that the host can address.
    pub capacity_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Bytes of the media without spare areas.
    pub media_bytes: u64,
    /// Bytes of memory that the drive needs for its tables and its data buffer.
    pub memory_bytes: u64,
    /// `memory_bytes`, by structure.
    pub memory: DriveMemory,
}

/// Memory of a drive by structure; the sum is [`Drive::memory_bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriveMemory {
    /// The mapping table, or what of it is cached.
    pub mapping_table_bytes: u64,
    /// State of each block: valid units, erase counts, lists.
    pub block_tables_bytes: u64,
    /// Tables of open-channel, zoned and nameless namespaces.
    pub chunk_tables_bytes: u64,
    /// The data buffer; of a disk, its write cache.
    pub data_buffer_bytes: u64,
}

impl DriveMemory {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.mapping_table_bytes + self.block_tables_bytes + self.chunk_tables_bytes + self.data_buffer_bytes
    }

    /// Each structure as people read it.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("mapping table", self.mapping_table_bytes),
            ("block tables", self.block_tables_bytes),
            ("chunk tables", self.chunk_tables_bytes),
            ("data buffer", self.data_buffer_bytes),
        ]
    }
}

/// The work given to the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// One line: the jobs or the trace.
    pub summary: String,
    /// Command line that repeats the run.
    pub command_line: String,
    /// Preconditioning of the drive, as the description states it.
    pub precondition: String,
}

/// Cost of the run on the machine that simulated it: the only numbers in which two equal runs differ. In JSON these keys are at the top level, or all
/// left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostCost {
    /// Seconds of real time from the first submission to the last completion.
    pub wall_seconds: f64,
    /// `requests` per `wall_seconds`.
    pub requests_per_wall_second: f64,
    /// Peak resident memory of the process in bytes; absent if the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

impl HostCost {
    /// Returns the cost of simulating `requests` requests in `wall_seconds` seconds.
    pub fn new(requests: u64, wall_seconds: f64, peak_memory_bytes: Option<u64>) -> HostCost {
        let rate = if wall_seconds > 0.0 { requests as f64 / wall_seconds } else { 0.0 };
        HostCost { wall_seconds, requests_per_wall_second: rate, peak_memory_bytes }
    }
}

/// Bytes programmed per byte that the host wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WriteAmplification {
    /// Bytes of successful host writes.
    pub host_written_bytes: u64,
    /// Bytes programmed to the media by cause, with copybacks, without spare areas.
    pub programmed_bytes: ByCause<u64>,
    /// The sum of `programmed_bytes`.
    pub programmed_bytes_total: u64,
    /// `programmed_bytes / host_written_bytes`, by cause; absent if the host wrote nothing. `host` is below 1 if the buffer absorbs rewrites or still
    /// holds data at the end.
    pub ratio: ByCause<Option<f64>>,
    /// Write amplification: the sum of `ratio`; absent if the host wrote nothing.
    pub total: Option<f64>,
    /// Program operations by cause.
    pub programs: ByCause<u64>,
    /// Sense operations by cause, retries not counted.
    pub flash_reads: ByCause<u64>,
    /// Units copied within a die, without a transfer over the channel.
    pub copybacks: u64,
}

impl WriteAmplification {
    /// Computes the ratios from bytes; leaves operations and copybacks at zero for the caller to fill.
    pub fn new(host_written_bytes: u64, programmed_bytes: ByCause<u64>) -> WriteAmplification {
        let total = programmed_bytes.total();
        let per_host =
            |bytes: u64| (host_written_bytes > 0).then(|| bytes as f64 / host_written_bytes as f64);
        let mut ratio = programmed_bytes.map(per_host);
        for cause in Cause::ALL.into_iter().filter(|cause| cause.is_particular()) {
            ratio[cause] = ratio[cause].filter(|&ratio| ratio > 0.0);
        }
        WriteAmplification {
            host_written_bytes,
            programmed_bytes,
            programmed_bytes_total: total,
            ratio,
            total: per_host(total),
            ..WriteAmplification::default()
        }
    }
}

/// Garbage collection and related work: wear levelling, retirement, refresh and folding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GcSummary {
    /// Victim blocks chosen to be moved and erased, including those in progress at the end.
    pub victims: u64,
    /// Blocks erased, by cause.
    pub erased_blocks: ByCause<u64>,
    /// Victims chosen by fewest valid units instead of by the policy, because the die had used up its GC reserve.
    pub emergency_victims: u64,
    /// Mean valid share (0 to 1) of the victims when chosen; absent without garbage collection (GC).
    pub victim_valid_share: Option<f64>,
    /// Valid mapping units of data copied by GC, wear levelling, retirement, refresh and folding.
    pub copied_units: u64,
    /// Time from each victim's choice to its end.
    pub pauses: GcPauses,
}

/// Cost of the mount after power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Nanoseconds that the busiest die spends on the reads; the clock does not advance meanwhile.
    pub duration_ns: u64,
    /// Superpages whose spare area was read.
    pub scanned_superpages: u64,
    /// Superpages of journal and checkpoint that were read.
    pub journal_superpages: u64,
    /// Logical pages that are mapped afterwards.
    pub mapped_units: u64,
}

/// Errors of the media, and their cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MediaHealth {
    /// Reads repeated after an attempt that could not be corrected.
    pub read_retries: u64,
    /// Reads that needed at least one retry and then returned the data.
    pub corrected_reads: u64,
    /// Reads that failed after every retry.
    pub uncorrectable_reads: u64,
    /// Wrong bits corrected by error correction.
    pub corrected_bits: u64,
    /// Chunks that the decoder corrected to wrong data; counted as uncorrectable.
    pub miscorrected_chunks: u64,
    /// Read attempts that found data damaged in the store.
    pub damaged_reads: u64,
    /// Codewords read, with retries, by their number of wrong bits; the last entry is for more than the code corrects. Empty without the bit-error
    /// model.
    pub chunks_by_wrong_bits: Vec<u64>,
    /// Blocks rewritten because too many bits had to be corrected.
    pub refreshed_blocks: u64,
    /// Blocks retired.
    pub retired_blocks: u64,
    /// Program operations that failed.
    pub program_failures: u64,
    /// Erase operations that failed.
    pub erase_failures: u64,
    /// Programs and erases suspended for a read.
    pub suspensions: u64,
}

/// Busy share of each part: busy time / length of the measurement, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Utilisation {
    /// Each channel: transferring commands, data or status.
    pub channels: Vec<f64>,
    /// Each die, a list per channel in the order of ways: sensing, programming or erasing, or holding data for the channel.
    pub dies: Vec<Vec<f64>>,
    /// The firmware's processor, or the mean of its two; absent if its steps take no time.
    pub firmware: Option<f64>,
    /// Busy time of the processors by module; absent if their steps take no time.
    pub firmware_modules: Option<FirmwareModules>,
    /// The host link from drive to host (reads); absent if transfers take no time.
    pub link_to_host: Option<f64>,
    /// The host link from host to drive (writes); absent if transfers take no time.
    pub link_to_drive: Option<f64>,
    /// Total nanoseconds from the end of a host DMA until polling firmware saw it.
    pub dma_unseen_ns: u64,
}

/// Fraction of the firmware processors' busy time by module, 0 to 1. They sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FirmwareModules {
    /// Polling for commands, and fetching them.
    pub fetch: f64,
    /// Cutting slices, and all work on them that belongs to no other module.
    pub slice: f64,
    /// The data buffer manager.
    pub buffer: f64,
    /// The address translator.
    pub translation: f64,
    /// The dependency checker.
    pub dependency: f64,
    /// Garbage collection: its own work, without places and operations.
    pub gc: f64,
    /// Handing host DMA operations to their engine.
    pub dma: f64,
    /// The scheduler's issuer.
    pub issue: f64,
    /// The scheduler's status checker.
    pub status: f64,
    /// Completing commands.
    pub complete: f64,
    /// Handling admin commands.
    pub admin: f64,
}

impl FirmwareModules {
    /// Computes the shares from busy times in the order of [`FirmwareModule`], not all of them zero.
    pub fn new(busy_ns: &[u64; FirmwareModule::COUNT]) -> FirmwareModules {
        let total: u64 = busy_ns.iter().sum();
        let share = |module: FirmwareModule| busy_ns[module as usize] as f64 / total as f64;
        FirmwareModules {
            fetch: share(FirmwareModule::Fetch),
            slice: share(FirmwareModule::Slice),
            buffer: share(FirmwareModule::Buffer),
            translation: share(FirmwareModule::Translation),
            dependency: share(FirmwareModule::Dependency),
            gc: share(FirmwareModule::Gc),
            dma: share(FirmwareModule::Dma),
            issue: share(FirmwareModule::Issue),
            status: share(FirmwareModule::Status),
            complete: share(FirmwareModule::Complete),
            admin: share(FirmwareModule::Admin),
        }
    }

    /// Returns each module's name and share.
    pub fn named(&self) -> [(&'static str, f64); FirmwareModule::COUNT] {
        [
            ("fetch", self.fetch),
            ("slices", self.slice),
            ("data buffer", self.buffer),
            ("translation", self.translation),
            ("dependencies", self.dependency),
            ("GC", self.gc),
            ("host DMA", self.dma),
            ("issuer", self.issue),
            ("status checker", self.status),
            ("completion", self.complete),
            ("admin", self.admin),
        ]
    }
}

impl Utilisation {
    /// Returns the mean busy share of the channels; `None` without channels.
    pub fn mean_channel(&self) -> Option<f64> {
        mean(self.channels.iter())
    }

    /// Returns the mean busy share of the dies; `None` without dies.
    pub fn mean_die(&self) -> Option<f64> {
        mean(self.dies.iter().flatten())
    }
}

fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> Option<f64> {
    let (n, sum) = values.fold((0u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

impl Report {
    /// Returns all requests over the whole measurement.
    pub fn all_requests(&self) -> Requests {
        Requests { requests: self.requests, directions: self.directions.clone(), reads: self.reads.clone() }
    }

    /// Returns a figure of the cache in front of a backing store, if there is one.
    pub(crate) fn cache(&self, figure: &str) -> Option<f64> {
        let cache = self.parts.iter().find(|part| part.part == "cache");
        cache.and_then(|part| part.get(figure)).map(|value| value as f64)
    }

    /// Returns the report as JSON text. Without `with_wall`, [`HostCost`] is left out and equal runs give equal bytes.
    pub fn to_json(&self, with_wall: bool) -> String {
        if with_wall || self.host.is_none() {
            return json::to_text(self);
        }
        json::to_text(&Report { host: None, ..self.clone() })
    }

    /// Returns the files of the report below `folder`: `report.json`, `series.csv`, `requests.csv`, `figures.json` and `index.html`; with a film,
    /// also `film.html` and its last frame, `film.svg`.
    pub fn files(&self, folder: &Path) -> Vec<pellucid_output::Part> {
        let (mut series, mut requests) = (Vec::new(), Vec::new());
        let written = self.series.write_csv(&mut series).and_then(|()| jobs::write_csv(self, &mut requests));
        written.expect("memory takes everything");
        let mut files = vec![
            (folder.join("report.json"), self.to_json(true).into_bytes()),
            (folder.join("series.csv"), series),
            (folder.join("requests.csv"), requests),
            (folder.join("figures.json"), figures_json(&report_figures(self)).into_bytes()),
            (folder.join("index.html"), self.to_html().into_bytes()),
        ];
        if let Some(film) = &self.film {
            files.push((folder.join("film.html"), render_film_html(std::slice::from_ref(self)).into_bytes()));
            files.push((
                folder.join("film.svg"),
                render_film_still(film, &self.workload.summary).into_bytes(),
            ));
        }
        files
    }

    /// Returns the warnings with the drive's name before each, for several reports together.
    pub fn warnings_by_name(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|sentence| format!("{}: {sentence}", self.drive.name))
    }

    /// Returns the report as one self-contained HTML page.
    pub fn to_html(&self) -> String {
        render_html(self)
    }
}

#[cfg(test)]
mod tests;
