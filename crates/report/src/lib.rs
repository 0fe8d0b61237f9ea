//! The report of a run: every number that the driver hands over, and the renderers that show it.
//!
//! ```text
//! driver --> RequestRecorder, TimeSeries --> Report --> text, compare   (terminal)
//!        \-> RequestLog (CSV)                      \-> to_json, Series::write_csv, to_html
//! ```
//! A report is plain data. Everything in it except [`HostCost`] follows from description, workload and seeds alone: without that
//! group, two runs give the same bytes of JSON. `docs/reference/definitions.md` defines the terms,
//! `docs/reference/report-schema.md` has one line per JSON key; a test keeps that file and these structs in agreement.

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

/// The version of the JSON schema. Raised when a key changes its meaning or goes away; new keys do not raise
/// it.
pub const SCHEMA_VERSION: u32 = 2;

/// Everything that is known about a finished run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Schema and program.
    #[serde(flatten)]
    pub version: Version,
    /// The drive that was run.
    pub drive: Drive,
    /// Work of the run.
    pub workload: Workload,
    /// Keys of the description that `--set` or the drive's own list overrode, with their values.
    pub overrides: BTreeMap<String, String>,
    /// The seeds of the run by purpose (`media`, `ftl`, `workload`, ...).
    pub seeds: BTreeMap<String, u64>,
    /// All that is needed to make the report again; absent of reports that are only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Cautions for a reader of the numbers, a sentence each: why they may mislead.
    pub warnings: Vec<String>,
    /// Requests completed, with and without success, in all directions.
    pub requests: u64,
    /// Reads whose data were compared with what was written, and were right; absent without `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_reads: Option<u64>,
    /// The user ended the run before its work was done.
    pub partial: bool,
    /// Length of the measurement in simulated seconds: from its start to the last completion.
    pub simulated_seconds: f64,
    /// Cost of the run on this machine; differs from run to run.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostCost>,
    /// Steady state of the run; absent where that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
    /// Requests by direction, over the whole measurement.
    pub directions: Directions,
    /// Reads by whether the drive had data for them.
    pub reads: ReadsByMapping,
    /// Each job over its own time; empty for a trace.
    pub jobs: Vec<JobResult>,
    /// The groups of jobs.
    pub groups: Vec<GroupResult>,
    /// Why bytes were programmed.
    pub write_amplification: OfFlash<WriteAmplification>,
    /// Garbage collection.
    pub gc: OfFlash<GcSummary>,
    /// Blocks and their erase counts at the end of the run.
    pub wear: OfFlash<Wear>,
    /// The last mount in this run; absent when the drive started empty.
    pub mount: Option<Mount>,
    /// Errors of the media and what they cost.
    pub media: OfFlash<MediaHealth>,
    /// How busy each part was.
    pub utilisation: Utilisation,
    /// Figures of the cached mapping table; absent where the map is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCache>,
    /// Merges of log blocks; absent without log blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// Traffic of the SLC cache; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
    /// Result of each namespace; absent where the drive has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceResult>,
    /// Result of each target; absent of a description without targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetResult>,
    /// The layer of the host above the drive; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_layer: Option<HostLayer>,
    /// Statistics of a replay about its trace; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Figures of the threads of a file server; absent without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesReport>,
    /// Work of applications; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationReport>,
    /// Counters of a disk, and of layers of the host without a group of their own; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartFigures>,
    /// The run over time.
    pub series: Series,
    /// Content of each block over time, if that was recorded; a page of its own, no part of the JSON.
    #[serde(skip)]
    pub film: Option<Film>,
    /// Timeline of channels, ways, link and processor, if that was recorded; a file of its own, no part of the JSON.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
}

/// Counters of a disk or a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartFigures {
    /// Its name.
    pub part: String,
    /// Its figures.
    pub figures: Vec<PartFigure>,
}

/// One figure: a count over the run, or a value at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartFigure {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: u64,
}

impl PartFigures {
    /// A figure by its name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// Result of one namespace of several, as the drive counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NamespaceResult {
    /// Its number, from 0.
    pub number: u16,
    /// `block`, `zoned` or `open-channel`.
    pub interface: String,
    /// Bytes that hosts can write.
    pub capacity_bytes: u64,
    /// Its erased blocks, ready for new data.
    pub free_blocks: u64,
    /// True if it refuses writes: no block can be freed for new data.
    pub read_only: bool,
    /// Why bytes were programmed.
    pub write_amplification: WriteAmplification,
    /// Garbage collection, of a block namespace.
    pub gc: Option<GcSummary>,
    /// Its last mount; absent when it started empty.
    pub mount: Option<Mount>,
    /// Its cached mapping table; absent where the map is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCache>,
    /// Merges of its log blocks; absent without log blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// Its SLC cache; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
}

/// Work and state of a layer of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostLayer {
    /// Name of the layer.
    pub name: String,
    /// Simulated seconds of the host's processor that it used.
    pub cpu_seconds: f64,
    /// `cpu_seconds` per simulated second; above 1 with several cores.
    pub cpu_share: f64,
    /// Bytes of host memory for map, tables and write buffer.
    pub memory_bytes: u64,
    /// Commands that it sent to the drive.
    pub commands: u64,
    /// Sectors read by the application that its write buffer had.
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
    /// Its name: the preset's or the description file's.
    pub name: String,
    /// One line: shape, cell, map, policies.
    pub summary: String,
    /// Bytes that the host can address.
    pub capacity_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Bytes of the media without spare areas.
    pub media_bytes: u64,
    /// Bytes of memory that the drive needs for its tables and its data buffer.
    pub memory_bytes: u64,
    /// These bytes by structure.
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

/// Work that the drive was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// One line: the jobs or the trace.
    pub summary: String,
    /// The command line that repeats the run.
    pub command_line: String,
    /// State of the drive before, as it was written.
    pub precondition: String,
}

/// Cost of the run on the machine that simulated it: the only numbers that differ between two equal runs.
/// In JSON these keys stand at the top level, or are left out as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostCost {
    /// Seconds of real time from the first submission to the last completion.
    pub wall_seconds: f64,
    /// `requests` per `wall_seconds`.
    pub requests_per_wall_second: f64,
    /// Largest resident memory of the process in bytes; absent when the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

impl HostCost {
    /// The cost of simulating `requests` requests in `wall_seconds` seconds.
    pub fn new(requests: u64, wall_seconds: f64, peak_memory_bytes: Option<u64>) -> HostCost {
        let rate = if wall_seconds > 0.0 { requests as f64 / wall_seconds } else { 0.0 };
        HostCost { wall_seconds, requests_per_wall_second: rate, peak_memory_bytes }
    }
}

/// Bytes programmed for each byte that the host wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WriteAmplification {
    /// Bytes of successful host writes.
    pub host_written_bytes: u64,
    /// Bytes programmed to the media by cause; spare areas not counted, copybacks counted.
    pub programmed_bytes: ByCause<u64>,
    /// The sum of `programmed_bytes`.
    pub programmed_bytes_total: u64,
    /// `programmed_bytes / host_written_bytes`, by cause; absent when the host wrote nothing. `host` is below
    /// 1 when the buffer absorbs rewrites or still holds data at the end.
    pub ratio: ByCause<Option<f64>>,
    /// Write amplification: the sum of `ratio`; absent when the host wrote nothing.
    pub total: Option<f64>,
    /// Program operations by cause.
    pub programs: ByCause<u64>,
    /// Sense operations by cause, retries not counted.
    pub flash_reads: ByCause<u64>,
    /// Units copied inside a die and did not cross the channel.
    pub copybacks: u64,
}

impl WriteAmplification {
    /// The ratios that follow from bytes; operations and copybacks are left at zero for the caller to fill.
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

/// Garbage collection and its kin: wear levelling, retirement, refresh and folding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GcSummary {
    /// Victim blocks chosen to be moved and erased, including those in progress at the end.
    pub victims: u64,
    /// Blocks erased, by cause.
    pub erased_blocks: ByCause<u64>,
    /// Victims that were chosen by their few valid units instead of by the policy, as the die had lost its GC reserve.
    pub emergency_victims: u64,
    /// Valid share (0 to 1) of the victims when they were chosen, mean; absent without garbage collection (GC).
    pub victim_valid_share: Option<f64>,
    /// Valid mapping units of data copied by GC, wear levelling, retirement, refresh and folding.
    pub copied_units: u64,
    /// Time from the choice of each victim to its end.
    pub pauses: GcPauses,
}

/// Cost of the mount after power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Nanoseconds that the reads keep the busiest die; the clock does not run meanwhile.
    pub duration_ns: u64,
    /// Superpages whose spare area was read.
    pub scanned_superpages: u64,
    /// Superpages of journal and checkpoint that were read.
    pub journal_superpages: u64,
    /// Logical pages that have a place afterwards.
    pub mapped_units: u64,
}

/// Errors of the media and what they cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MediaHealth {
    /// Attempts to read again after an attempt that could not be corrected.
    pub read_retries: u64,
    /// Reads that needed at least one retry and then returned the data.
    pub corrected_reads: u64,
    /// Reads that failed after every retry.
    pub uncorrectable_reads: u64,
    /// Wrong bits that error correction corrected.
    pub corrected_bits: u64,
    /// Chunks that the decoder took for other data than were stored; uncorrectable all the same.
    pub miscorrected_chunks: u64,
    /// Read attempts that found what the store keeps damaged.
    pub damaged_reads: u64,
    /// Codewords that were read, retries again, by the wrong bits in them; the last place is for more than the code
    /// corrects. Empty without the bit-error model.
    pub chunks_by_wrong_bits: Vec<u64>,
    /// Blocks rewritten because too many bits had to be corrected.
    pub refreshed_blocks: u64,
    /// Blocks that were retired.
    pub retired_blocks: u64,
    /// Program operations that failed.
    pub program_failures: u64,
    /// Erase operations that failed.
    pub erase_failures: u64,
    /// Programs and erases that were suspended for a read.
    pub suspensions: u64,
}

/// How busy each part was: busy time / length of the measurement, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Utilisation {
    /// Each channel: transferring commands, data or status.
    pub channels: Vec<f64>,
    /// Each die, one list per channel, ways in order: sensing, programming or erasing, or holding data for
    /// the channel.
    pub dies: Vec<Vec<f64>>,
    /// The firmware's processor, or the mean of its two; absent when its steps take no time.
    pub firmware: Option<f64>,
    /// Busy time of the processors by module; absent when its steps take no time.
    pub firmware_modules: Option<FirmwareModules>,
    /// The host link from drive to host (reads); absent when transfers take no time.
    pub link_to_host: Option<f64>,
    /// The host link from host to drive (writes); absent when transfers take no time.
    pub link_to_drive: Option<f64>,
    /// From the end of a host DMA until a polling firmware saw it, over all of them, in nanoseconds.
    pub dma_unseen_ns: u64,
}

/// Shares of the busy time of the firmware's processors by module, 0 to 1. They sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FirmwareModules {
    /// Looking for commands, and taking them.
    pub fetch: f64,
    /// Cutting slices, and all of them that no other module is paid for.
    pub slice: f64,
    /// The data buffer manager.
    pub buffer: f64,
    /// The address translator.
    pub translation: f64,
    /// The dependency checker.
    pub dependency: f64,
    /// Garbage collection: its own work, beside places and operations.
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
    /// From busy times in the order of [`FirmwareModule`]; one of them must not be zero.
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

    /// Each module as people read it, with its share.
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
    /// Mean busy share of the channels; `None` without channels.
    pub fn mean_channel(&self) -> Option<f64> {
        mean(self.channels.iter())
    }

    /// Mean busy share of the dies; `None` without dies.
    pub fn mean_die(&self) -> Option<f64> {
        mean(self.dies.iter().flatten())
    }
}

fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> Option<f64> {
    let (n, sum) = values.fold((0u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

impl Report {
    /// All requests, over the whole measurement.
    pub fn all_requests(&self) -> Requests {
        Requests { requests: self.requests, directions: self.directions.clone(), reads: self.reads.clone() }
    }

    /// A figure of the cache in front of a backing store; `None`: there is no cache.
    pub(crate) fn cache(&self, figure: &str) -> Option<f64> {
        let cache = self.parts.iter().find(|part| part.part == "cache");
        cache.and_then(|part| part.get(figure)).map(|value| value as f64)
    }

    /// The report as JSON text. Without `with_wall`, [`HostCost`] is left out and equal runs give equal
    /// bytes.
    pub fn to_json(&self, with_wall: bool) -> String {
        if with_wall || self.host.is_none() {
            return json::to_text(self);
        }
        json::to_text(&Report { host: None, ..self.clone() })
    }

    /// The files of the report below `folder`: `report.json`, `series.csv`, `requests.csv`, `figures.json` and `index.html`; with a film, also `film.html`
    /// and its last frame, `film.svg`.
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

    /// The warnings, each with the drive's name before it: for several reports together.
    pub fn warnings_by_name(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|sentence| format!("{}: {sentence}", self.drive.name))
    }

    /// The report as one self-contained HTML page.
    pub fn to_html(&self) -> String {
        render_html(self)
    }
}

#[cfg(test)]
mod tests;
