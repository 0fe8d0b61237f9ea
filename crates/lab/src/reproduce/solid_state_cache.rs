//! S1 to S4: a cache of flash in front of a disk, under filebench's file servers. A solid-state cache that evicts silently beside the
//! same flash as a block drive under FlashCache's rules.
//!
//! ```text
//!  threads ─► page cache ─► cache manager ─┬─► jasmine-optimized (SSD) or jasmine-ssc (SSC)
//!                                          └─► disk
//! ```
//! All sizes are an eighth of the paper's: 1 GiB of flash, 256 MiB of page cache, 9 GiB of disk, whose seeks take the times of the paper's
//! partition of 75 GB on 1.5 TB. Erase blocks are a quarter, so that a bank still has more than a hundred.
//! What the paper does not say is assumed here: [`FILE_SETS`], [`SEQUENTIAL_BYTES`], [`CLEAN_BLOCKS`].

use super::bench::Bench;
use super::{Check, Figure, Limit, Outcome, ReproduceError};
use crate::experiment::{execute_on, execute_on_disk, jobs, parse_job, with_backing};
use crate::report::Report;
use crate::report::plot::{Axis, BarChart, Bars, Unit};
use crate::spec::{self, Spec};
use pellucid_host::{CacheConfig, CacheMode, LayerConfig, RecordWrites, Replacement};

/// A personality, what it works on (files and their mean size), and simulated seconds before the measurement, and in it. The paper says
/// none of these. Files that exist fill about three quarters of the cache: the paper's webserver has no garbage collection, so its set
/// fits. Before the measurement a set has been read in, and the cache has been written more than once.
struct FileSet {
    name: &'static str,
    files: u32,
    size: &'static str,
    warm_up: u32,
    measured: u32,
}

const FILE_SETS: [FileSet; 3] = [
    FileSet { name: "fileserver", files: 7_500, size: "128k", warm_up: 200, measured: 80 },
    FileSet { name: "webserver", files: 48_000, size: "16k", warm_up: 240, measured: 20 },
    FileSet { name: "varmail", files: 60_000, size: "16k", warm_up: 60, measured: 40 },
];
/// Bytes of the disk.
const DISK_BYTES: u64 = 9 << 30;
/// Longer streams go past the cache. The paper has selective caching on, and gives no length.
const SEQUENTIAL_BYTES: u64 = 1 << 20;
/// Blocks that are cleaned together: so many that dirty blocks stay at their limit. With FlashCache's own four the cache fills with dirty blocks,
/// of which a solid-state cache can evict none.
const CLEAN_BLOCKS: u32 = 8192;

/// A system of the paper's Fig. 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    NoCache,
    Ssd(CacheMode),
    Ssc(CacheMode),
}

const SYSTEMS: [System; 5] = [
    System::NoCache,
    System::Ssd(CacheMode::WriteBack),
    System::Ssd(CacheMode::WriteThrough),
    System::Ssc(CacheMode::WriteBack),
    System::Ssc(CacheMode::WriteThrough),
];

/// What one system did with one personality.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    operations_per_second: f64,
    mean_ns: f64,
    erases: f64,
    hit_ratio: f64,
    /// Bytes of the host's memory for each block that the cache can hold.
    bytes_per_block: f64,
}

/// The measurements behind Fig. 7: a row for each personality, a column for each system.
#[derive(Debug)]
pub(crate) struct CacheStudy(Vec<Vec<Run>>);

impl CacheStudy {
    pub fn run(bench: &Bench) -> Result<CacheStudy, ReproduceError> {
        let points: Vec<(usize, System)> =
            (0..FILE_SETS.len()).flat_map(|set| SYSTEMS.map(|system| (set, system))).collect();
        let runs = bench.map(&points, |&(set, system)| one(bench, set, system))?;
        Ok(CacheStudy(runs.chunks(SYSTEMS.len()).map(<[Run]>::to_vec).collect()))
    }

    fn of(&self, set: usize, system: System) -> Run {
        let at = SYSTEMS.iter().position(|&other| other == system).unwrap_or(0);
        self.0[set][at]
    }
}

fn one(bench: &Bench, set: usize, system: System) -> Result<Run, ReproduceError> {
    let FileSet { name, files, size, warm_up, measured } = FILE_SETS[set];
    let shorter = bench.shorter();
    let job = format!(
        "rw={name},nfiles={files},meanfilesize={size},page_cache=256m,ramp_time={},runtime={}",
        (warm_up / shorter).max(1),
        (measured / shorter).max(1),
    );
    // 8 banks of blocks of 1 MiB, and 7 % more. The sets of the block backend are no power of two then: directories of a file system lie a
    // power of two apart, and would meet in a tenth of the sets.
    let flash = ["media.blocks=136".to_string(), "media.pages=32".into()];
    // The address space of the cache is no larger than what it stands before, which only the simulator's speed notices.
    let cache = format!(
        "drive.namespace=[{{ interface = \"cache\", address_space = {}, eviction = \"se-util\", guarantee = \"flush\" }}]",
        DISK_BYTES + (1 << 20)
    );
    let disk = [
        format!("backing.capacity={DISK_BYTES}"),
        "backing.zones=2".into(),
        "backing.outer_rate=138MB/s".into(),
        "backing.inner_rate=134MB/s".into(),
        "backing.seek_average=2600us".into(),
        "backing.seek_full=3900us".into(),
    ];
    let load =
        |preset: &str, flash: &[String]| spec::load(preset, &bench.sets_with(&[&disk[..], flash].concat()));
    let report = match system {
        System::NoCache => {
            let spec = load("wd1502faex", &[])?;
            execute_on_disk(&spec, &jobs_of(&spec, &job)?, &|| 0.0, |_| {})?
        }
        System::Ssd(mode) => {
            let records = RecordWrites::EachWrite { force: false };
            cached(&load("jasmine-optimized", &flash)?, mode, records, &job)?
        }
        System::Ssc(mode) => {
            let [blocks, pages] = flash;
            cached(&load("jasmine-ssc", &[blocks, pages, cache])?, mode, RecordWrites::OnFlush, &job)?
        }
    };
    Ok(run_of(&report))
}

fn jobs_of(spec: &Spec, job: &str) -> Result<Vec<crate::workload::Job>, ReproduceError> {
    let mut spec = spec.clone();
    spec.jobs = vec![parse_job(job, "the file server")];
    Ok(jobs(&spec)?)
}

/// A cache in front of the disk, under work.
fn cached(spec: &Spec, mode: CacheMode, records: RecordWrites, job: &str) -> Result<Report, ReproduceError> {
    let mut spec = spec.clone();
    let config = CacheConfig {
        mode,
        records,
        sector_bytes: spec.drive.media.geometry.sector_bytes,
        sequential_bytes: SEQUENTIAL_BYTES,
        clean_blocks: CLEAN_BLOCKS,
        replacement: Replacement::Fifo,
        flush_cleaned: false,
        ..CacheConfig::default()
    };
    spec.host = vec![LayerConfig::Cache(config)];
    let mut tower = with_backing(&spec)?;
    Ok(execute_on(&mut tower, &spec, &jobs_of(&spec, job)?, None, &|| 0.0, |_| {})?)
}

fn run_of(report: &Report) -> Run {
    let figure = |name: &str| {
        let cache = report.parts.iter().find(|part| part.part == "cache");
        cache.and_then(|part| part.get(name)).unwrap_or(0) as f64
    };
    let (hits, misses) = (figure("read_hits"), figure("read_misses"));
    let files = report.files.clone().unwrap_or_default();
    Run {
        operations_per_second: files.operations_per_second,
        mean_ns: files.mean_ns,
        erases: report.gc.erased_blocks.total() as f64,
        hit_ratio: hits / (hits + misses).max(1.0),
        bytes_per_block: figure("memory_bytes") / figure("capacity_blocks").max(1.0),
    }
}

const FILESERVER: usize = 0;
const WEBSERVER: usize = 1;
const VARMAIL: usize = 2;
const MODES: [CacheMode; 2] = [CacheMode::WriteBack, CacheMode::WriteThrough];

/// What the solid-state cache does beyond the block drive, as a share of what that does.
fn gain(study: &CacheStudy, set: usize, mode: CacheMode) -> f64 {
    let rate = |system| study.of(set, system).operations_per_second;
    rate(System::Ssc(mode)) / rate(System::Ssd(mode)) - 1.0
}

/// Both against the disk alone: what S1, S3 and S4 are about, to be seen.
fn against_disk(study: &CacheStudy, set: usize) -> Vec<Check> {
    let disk = study.of(set, System::NoCache).operations_per_second;
    let one = |system: System, name: &str| {
        let run = study.of(set, system);
        [
            Check::shown(
                format!("{name}, operations over those of the disk"),
                Unit::Plain,
                None,
                run.operations_per_second / disk,
            ),
            Check::shown(format!("{name}, read hits"), Unit::Percent, None, run.hit_ratio),
            Check::shown(format!("{name}, mean time of an operation"), Unit::Nanos, None, run.mean_ns),
            Check::shown(
                format!("{name}, host memory for a cached block"),
                Unit::Bytes,
                None,
                run.bytes_per_block,
            ),
        ]
    };
    SYSTEMS[1..].iter().flat_map(|&system| one(system, &name(system))).collect()
}

fn name(system: System) -> String {
    match system {
        System::NoCache => "no cache".into(),
        System::Ssd(mode) => format!("SSD {}", mode.name()),
        System::Ssc(mode) => format!("SSC {}", mode.name()),
    }
}

/// S1: more operations of the fileserver.
pub(super) fn fileserver(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches()?;
    let mut checks: Vec<Check> = MODES
        .into_iter()
        .zip([0.52, 0.45])
        .map(|(mode, published)| {
            let what = format!("fileserver, {}: SSC over SSD", mode.name());
            Check::points(what, published, gain(study, FILESERVER, mode), 0.1)
        })
        .collect();
    checks.extend(against_disk(study, FILESERVER));
    Ok(Outcome { checks, figures: vec![figure(study), gains(study)] })
}

/// S2: fewer erases.
pub(super) fn erases(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches()?;
    let fewer = |mode| {
        let erases = |system| {
            let run = study.of(FILESERVER, system);
            run.erases / run.operations_per_second
        };
        1.0 - erases(System::Ssc(mode)) / erases(System::Ssd(mode))
    };
    let check = |mode: CacheMode| Check {
        published: Some(0.9),
        ..Check::bound(
            format!("fileserver, {}: erases saved for an operation", mode.name()),
            Unit::Percent,
            fewer(mode),
            Limit::AtLeast(0.8),
        )
    };
    Ok(Outcome { checks: MODES.map(check).to_vec(), figures: Vec::new() })
}

/// S3: nothing gained and little lost where there is no garbage collection.
pub(super) fn webserver(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches()?;
    let check = |mode: CacheMode| {
        let what = format!("webserver, {}: SSC over SSD", mode.name());
        Check::points(what, 0.0, gain(study, WEBSERVER, mode), 0.03)
    };
    let mut checks = MODES.map(check).to_vec();
    checks.extend(against_disk(study, WEBSERVER));
    Ok(Outcome { checks, figures: Vec::new() })
}

/// S4: a log inside the drive costs less than records from the host.
pub(super) fn varmail(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches()?;
    let what = "varmail, write-back: SSC over SSD";
    let mut checks = vec![Check::points(what, 0.27, gain(study, VARMAIL, CacheMode::WriteBack), 0.1)];
    checks.extend(against_disk(study, VARMAIL));
    Ok(Outcome { checks, figures: Vec::new() })
}

/// Fig. 7.
fn figure(study: &CacheStudy) -> Figure {
    let chart = BarChart::new("Fig. 7: operations over those of the disk alone", Bars::Grouped)
        .value_axis(Axis::linear("times no cache", Unit::Plain))
        .categories(FILE_SETS.map(|set| set.name));
    let over = |system| {
        let rate = |set, system| study.of(set, system).operations_per_second;
        (0..FILE_SETS.len()).map(|set| rate(set, system) / rate(set, System::NoCache)).collect()
    };
    let chart = SYSTEMS[1..].iter().fold(chart, |chart, &system| chart.series(&name(system), over(system)));
    Figure { caption: "File servers on a cache of 1 GiB in front of a disk.".into(), svg: chart.to_svg() }
}

/// The gains of Fig. 7, beside those that the paper prints.
fn gains(study: &CacheStudy) -> Figure {
    let measured = [
        gain(study, FILESERVER, CacheMode::WriteBack),
        gain(study, FILESERVER, CacheMode::WriteThrough),
        gain(study, VARMAIL, CacheMode::WriteBack),
    ];
    let chart = BarChart::new("Fig. 7: SSC over SSD", Bars::Grouped)
        .value_axis(Axis::linear("SSC / SSD", Unit::Plain))
        .categories(["fileserver, write-back", "fileserver, write-through", "varmail, write-back"])
        .series("here", measured.map(|gain| 1.0 + gain).to_vec())
        .series("published", vec![1.52, 1.45, 1.27]);
    Figure { caption: "What silent eviction gains.".into(), svg: chart.to_svg() }
}
