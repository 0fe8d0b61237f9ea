//! S1 to S4: a flash cache in front of a disk, under filebench's file servers. A solid-state cache that evicts silently is compared with the same
//! flash as a block drive under FlashCache's rules.
//!
//! ```text
//!  threads ─► page cache ─► cache manager ─┬─► jasmine-optimized (SSD) or jasmine-ssc (SSC)
//!                                          └─► disk
//! ```
//! All sizes are an eighth of the paper's: 1 GiB of flash, 256 MiB of page cache, 9 GiB of disk, and the disk's write cache; seeks take the times of
//! the paper's partition of 75 GB on 1.5 TB. Erase blocks and their erase times are a quarter, so that each of 8 banks has as many blocks as each of
//! the paper's 16.
//!
//! The files of `examples/papers` are the experiments, with fileserver and write-back; they cite the sources of FlashCache's rules. Assumptions
//! without a source are [`FILE_SETS`], [`Assumptions`], and the stream that bypasses the cache.

#[cfg(test)]
mod variations;
#[cfg(test)]
mod wrong;

use super::bench::{Bench, once};
use super::described::{File, paper};
use super::{Check, Figure, Limit, Outcome, ReproduceError, vary};
use pellucid_host::CacheMode;
use pellucid_report::Report;
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};
use std::sync::OnceLock;

/// The experiments as users run them: the disk alone, FlashCache above a block drive, the solid-state cache.
const DISK: File = paper!("jasmine-fig7-disk.toml");
const SSD: File = paper!("jasmine-fig7-ssd.toml");
const SSC: File = paper!("jasmine-fig7-ssc.toml");

/// A personality, its files and their mean size, and simulated seconds before the measurement, and in it. The paper gives none of these. The files
/// fill about three quarters of the cache: the paper's webserver has no garbage collection, so its set fits. Before the measurement, a set has been
/// read in and, as fileserver has garbage collection, the cache has been written more than once. Varmail is measured for an eighth of the minute in
/// filebench's own file, after a warm-up of equal length.
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
    FileSet { name: "varmail", files: 60_000, size: "16k", warm_up: 8, measured: 8 },
];
/// Assumptions that [`variations`] vary: gaps in the paper and its programs, and known mechanisms.
#[derive(Clone, Copy, Debug)]
struct Assumptions {
    /// Page cache, in MiB.
    page_cache: u32,
    /// Factors of the files, the warm-up and the measurement of [`FILE_SETS`].
    files: f64,
    warm_up: f64,
    measured: f64,
    /// When the solid-state cache makes checkpoints and where it also logs, as settings of its namespace; the file has `on-flush`.
    namespace: Option<&'static str>,
    /// Overrides of both caches, of the block drive, and of the solid-state cache.
    both: &'static [&'static str],
    ssd: &'static [&'static str],
    ssc: &'static [&'static str],
}

const ASSUMED: Assumptions = Assumptions {
    page_cache: 256,
    files: 1.0,
    warm_up: 1.0,
    measured: 1.0,
    namespace: None,
    both: &[],
    ssd: &[],
    ssc: &[],
};

/// A block drive that was formatted before the run, as the public firmware does at every start.
const EMPTY: [&str; 2] = ["precondition.fill=0", "precondition.overwrite=0"];
/// All valid pages of a victim, at most 32, are copied at once, and everything behind them in the bank waits, as in the public firmware
/// (`garbage_collection`). The paper's banks cannot have done so: the block drive would be slower than the disk alone, and webserver would gain
/// (`docs/explanation/papers/jasmine.md`).
const ONE_BANK: &[&str] = &["ftl.gc_parallel=256"];
/// Settings that the paper does not give, for fileserver: FlashCache's tunables between the values named in its administrators' guide and its
/// sources, one by one and, where they keep most blocks clean, together; the files; and how much the manager of the solid-state cache, which has
/// FlashTier's policies (section 4.1), cleans at once: everything above its share of dirty blocks, or as many as FlashCache. Written down, with the
/// sources, before the run: docs/explanation/papers/jasmine.md.
const UNKNOWN_CLEANER: (&str, &str) = (
    "what the block drive holds at the start, whether its banks collect side by side, FlashCache's tunables between the values that its guide and sources name, files from filebench's 10,000 to four fifths of the partition, and \
     blocks that the solid-state cache's manager cleans at once, from FlashCache's 4 to all above its share",
    "FlashCache's defaults for the block drive, all above its share for the solid-state cache",
);
const VARIED_CLEANER: [(&str, Assumptions); 18] = [
    ("the block drive is empty at the start", Assumptions { ssd: &EMPTY, ..ASSUMED }),
    ("half of it was written before", Assumptions { ssd: &["precondition.fill=0.5"], ..ASSUMED }),
    ("all of it, in order", Assumptions { ssd: &["precondition.overwrite=0"], ..ASSUMED }),
    ("2 pages of a victim under way in a bank", Assumptions { both: &["ftl.gc_parallel=2"], ..ASSUMED }),
    ("4 pages", Assumptions { both: &["ftl.gc_parallel=4"], ..ASSUMED }),
    ("8 pages", Assumptions { both: &["ftl.gc_parallel=8"], ..ASSUMED }),
    ("one bank copies its whole victim, and all else waits", Assumptions { both: ONE_BANK, ..ASSUMED }),
    ("all of the disk's cache", Assumptions { both: &["backing.write_cache=8MiB"], ..ASSUMED }),
    ("FlashCache cleans 20 blocks at once", Assumptions { ssd: &["host.cache.clean_blocks=20"], ..ASSUMED }),
    ("10 % dirty", Assumptions { both: &["host.cache.dirty=10"], ..ASSUMED }),
    ("95 % dirty", Assumptions { both: &["host.cache.dirty=95"], ..ASSUMED }),
    ("streams go past from 64 KiB", Assumptions { both: &["host.cache.sequential=64KiB"], ..ASSUMED }),
    ("LRU", Assumptions { ssd: &["host.cache.replacement=clock"], ..ASSUMED }),
    ("10,000 files", Assumptions { files: 1.0 / 6.0, ..ASSUMED }),
    ("files in four fifths of the partition", Assumptions { files: 8.0, ..ASSUMED }),
    (
        "20 writes at once, 10 % dirty, streams from 64 KiB",
        Assumptions {
            both: &["host.cache.dirty=10", "host.cache.sequential=64KiB"],
            ssd: &["host.cache.clean_blocks=20"],
            ..ASSUMED
        },
    ),
    (
        "the solid-state cache's manager cleans 64",
        Assumptions { ssc: &["host.cache.clean_blocks=64"], ..ASSUMED },
    ),
    (
        "the solid-state cache's manager cleans 4, as FlashCache",
        Assumptions { ssc: &["host.cache.clean_blocks=4"], ..ASSUMED },
    ),
];
/// Settings that decide S4: section 3.3.2 has a flush arrive at the solid-state cache, but its manager is derived from FlashCache, which refuses
/// barriers; the length of the run, and its files; and how much of the disk's 64 MB buffers writes (the preset assumes half). Written down before the
/// run, as those above.
const UNKNOWN_FLUSH: (&str, &str) = (
    "what the block drive holds at the start; whether its banks collect side by side; what a flush of the host reaches, which section 3.3.2 and FlashCache tell apart; the run, 8 s after 8 s or filebench's minute from the start; how much of \
     the disk's 64 MB caches writes; files; FlashCache's dirty threshold",
    "the SSC, 8 s after 8 s, half",
);
/// A measurement of 40 s, after a minute.
#[cfg(test)]
const LATER: Assumptions = Assumptions { warm_up: 7.5, measured: 5.0, ..ASSUMED };
/// Filebench's own minute, without a warm-up.
const MINUTE: Assumptions = Assumptions { warm_up: 0.0, measured: 7.5, ..ASSUMED };
const VARIED_FLUSH: [(&str, Assumptions); 12] = [
    ("the block drive is empty at the start", Assumptions { ssd: &EMPTY, ..ASSUMED }),
    ("one bank copies its whole victim, and all else waits", Assumptions { both: ONE_BANK, ..ASSUMED }),
    ("neither drive", Assumptions { ssc: &["host.cache.flushes=none"], ..ASSUMED }),
    ("both drives of both systems", Assumptions { both: &["host.cache.flushes=both"], ..ASSUMED }),
    ("a minute from the start", MINUTE),
    ("none of the disk's cache", Assumptions { both: &["backing.write_cache=0"], ..ASSUMED }),
    ("all of the disk's cache", Assumptions { both: &["backing.write_cache=8MiB"], ..ASSUMED }),
    ("1,000 files", Assumptions { files: 1.0 / 60.0, ..ASSUMED }),
    ("10 % dirty", Assumptions { both: &["host.cache.dirty=10"], ..ASSUMED }),
    ("95 % dirty", Assumptions { both: &["host.cache.dirty=95"], ..ASSUMED }),
    (
        "neither drive, a minute, all of the disk's cache",
        Assumptions { both: &["backing.write_cache=8MiB"], ssc: &["host.cache.flushes=none"], ..MINUTE },
    ),
    (
        "the SSC, a minute, none of the disk's cache",
        Assumptions { both: &["backing.write_cache=0"], ..MINUTE },
    ),
];

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

/// Result of one system with one personality.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    operations_per_second: f64,
    mean_ns: f64,
    erases: f64,
    hit_ratio: f64,
    /// Bytes programmed per byte that the cache manager wrote; NaN without flash or writes.
    write_amplification: f64,
    /// Bytes of host memory per block of cache capacity.
    bytes_per_block: f64,
}

/// A row of Fig. 7: one personality on each system. Short studies have only the caches.
#[derive(Debug)]
pub(crate) struct CacheStudy {
    runs: Vec<Run>,
    /// The fileserver at each setting of [`VARIED_CLEANER`], run once for two claims.
    varied: OnceLock<Vec<CacheStudy>>,
}

impl CacheStudy {
    /// Runs the personality with index `set`.
    pub fn run(bench: &Bench, set: usize) -> Result<CacheStudy, ReproduceError> {
        CacheStudy::assuming(bench, set, &ASSUMED)
    }

    fn assuming(bench: &Bench, set: usize, assumed: &Assumptions) -> Result<CacheStudy, ReproduceError> {
        let systems = if is_whole(bench) { &SYSTEMS[..] } else { &SYSTEMS[1..] };
        let mut runs = bench.map(systems, |&system| one(bench, set, system, assumed))?;
        if runs.len() < SYSTEMS.len() {
            runs.insert(0, Run::default());
        }
        Ok(CacheStudy { runs, varied: OnceLock::new() })
    }

    /// The fileserver at setting `at` of [`VARIED_CLEANER`].
    fn varied(&self, bench: &Bench, at: usize) -> Result<&CacheStudy, ReproduceError> {
        let run = |(_, assumed): &(&str, Assumptions)| CacheStudy::assuming(bench, FILESERVER, assumed);
        Ok(&once(&self.varied, || VARIED_CLEANER.iter().map(run).collect())?[at])
    }

    fn of(&self, system: System) -> Run {
        let at = SYSTEMS.iter().position(|&other| other == system).unwrap_or(0);
        self.runs[at]
    }
}

/// Reports whether everything is measured, or only the deciding checks.
fn is_whole(bench: &Bench) -> bool {
    bench.shorter() == 1
}

/// Bytes of the address space of the solid-state cache, as in its file.
const ADDRESS_SPACE: u64 = (9 << 30) + (1 << 20);

/// Write cache of the disk, as in the files.
const WRITE_CACHE_KIB: u32 = 4 << 10;

/// Runs one system: its file, with the personality and the assumptions. A `shorter` bench divides all sizes and times by its factor.
fn one(bench: &Bench, set: usize, system: System, assumed: &Assumptions) -> Result<Run, ReproduceError> {
    let FileSet { name, files, size, warm_up, measured } = FILE_SETS[set];
    let shorter = bench.shorter();
    let words = format!(
        "rw={name},nfiles={},meanfilesize={size},page_cache={}m,ramp_time={}s,runtime={}s",
        (f64::from(files) * assumed.files) as u32 / shorter,
        assumed.page_cache / shorter,
        ((f64::from(warm_up) * assumed.warm_up) as u32 / shorter).max(1),
        ((f64::from(measured) * assumed.measured) as u32 / shorter).max(1),
    );
    let (file, mode, own) = match system {
        System::NoCache => return Ok(run_of(&DISK.run(bench, &[], &words)?)),
        System::Ssd(mode) => (SSD, mode, assumed.ssd),
        System::Ssc(mode) => (SSC, mode, assumed.ssc),
    };
    let mut sets = vec![format!("host.cache.mode={}", mode.name())];
    if set == WEBSERVER && matches!(system, System::Ssd(_)) {
        // "There is no garbage collection overhead" (4.2), so the drive had free space.
        sets.extend(EMPTY.iter().map(|set| (*set).to_string()));
    }
    if shorter > 1 {
        // A shorter study has shorter blocks, with erase times in proportion.
        sets.push(format!("media.pages={}", 32 / shorter));
        sets.push(format!("media.timing.erase={}ns", 750_000 / shorter));
        sets.push(format!("backing.write_cache={}KiB", WRITE_CACHE_KIB / shorter));
    }
    if let (Some(more), System::Ssc(_)) = (assumed.namespace, system) {
        sets.push(format!(
            "drive.namespace=[{{ interface = \"cache\", address_space = {ADDRESS_SPACE}, eviction = \"se-util\", guarantee = \"flush\", {more} }}]"
        ));
    }
    sets.extend(own.iter().chain(assumed.both).map(|set| (*set).to_string()));
    Ok(run_of(&file.run(bench, &sets, &words)?))
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
        write_amplification: report.write_amplification.total.unwrap_or(f64::NAN),
        bytes_per_block: figure("memory_bytes") / figure("capacity_blocks").max(1.0),
    }
}

const FILESERVER: usize = 0;
const WEBSERVER: usize = 1;
const VARMAIL: usize = 2;
const MODES: [CacheMode; 2] = [CacheMode::WriteBack, CacheMode::WriteThrough];

/// Gain of the solid-state cache over the block drive, as a share of the latter.
fn gain(study: &CacheStudy, mode: CacheMode) -> f64 {
    gain_of([System::Ssd(mode), System::Ssc(mode)].map(|system| study.of(system)))
}

fn gain_of([ssd, ssc]: [Run; 2]) -> f64 {
    ssc.operations_per_second / ssd.operations_per_second - 1.0
}

/// Both caches against the disk alone, which S1, S3 and S4 are about; for information.
fn against_disk(bench: &Bench, study: &CacheStudy) -> Vec<Check> {
    if !is_whole(bench) {
        return Vec::new();
    }
    let disk = study.of(System::NoCache).operations_per_second;
    let one = |system: System, name: &str| {
        let run = study.of(system);
        [
            Check::shown(
                format!("{name}, operations over those of the disk"),
                Unit::Plain,
                None,
                run.operations_per_second / disk,
            ),
            Check::shown(format!("{name}, read hits"), Unit::Percent, None, run.hit_ratio),
            Check::shown(
                format!("{name}, write amplification of its flash"),
                Unit::Plain,
                None,
                run.write_amplification,
            ),
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
    let study = bench.caches(FILESERVER)?;
    let mut checks = gains_of_fileserver(study);
    vary_cleaner(bench, study, &mut checks, gains_of_fileserver)?;
    checks.extend(against_disk(bench, study));
    let figures = if is_whole(bench) { figures(bench)? } else { Vec::new() };
    Ok(Outcome { checks, figures })
}

fn gains_of_fileserver(study: &CacheStudy) -> Vec<Check> {
    MODES.into_iter().map(|mode| gain_of_fileserver(mode, gain(study, mode))).collect()
}

fn gain_of_fileserver(mode: CacheMode, measured: f64) -> Check {
    let published = if mode == CacheMode::WriteBack { 0.52 } else { 0.45 };
    let what = format!("fileserver, {}: SSC over SSD", mode.name());
    Check::points(what, published, measured, 0.1).even_at(0.0)
}

fn vary_cleaner(
    bench: &Bench,
    study: &CacheStudy,
    checks: &mut [Check],
    of: fn(&CacheStudy) -> Vec<Check>,
) -> Result<(), ReproduceError> {
    let settings: Vec<(&str, usize)> =
        VARIED_CLEANER.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    vary(bench, checks, UNKNOWN_CLEANER, &settings, |&at| Ok(of(study.varied(bench, at)?)))
}

/// S2: fewer erases.
pub(super) fn erases(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches(FILESERVER)?;
    let mut checks = erases_saved(study);
    vary_cleaner(bench, study, &mut checks, erases_saved)?;
    Ok(Outcome { checks, figures: Vec::new() })
}

fn erases_saved(study: &CacheStudy) -> Vec<Check> {
    MODES.map(|mode| saved_erases(mode, saved(study, mode))).to_vec()
}

fn saved_erases(mode: CacheMode, measured: f64) -> Check {
    let what = format!("fileserver, {}: erases saved for an operation", mode.name());
    let bound = Check::bound(what, Unit::Percent, measured, Limit::AtLeast(0.8)).even_at(0.0);
    Check { published: Some(0.9), ..bound }
}

/// Share of the erases per operation that the solid-state cache saves.
fn saved(study: &CacheStudy, mode: CacheMode) -> f64 {
    saved_of([System::Ssd(mode), System::Ssc(mode)].map(|system| study.of(system)))
}

fn saved_of(runs: [Run; 2]) -> f64 {
    let [ssd, ssc] = runs.map(|run| run.erases / run.operations_per_second);
    1.0 - ssc / ssd
}

/// S3: no gain, and little loss, without garbage collection.
pub(super) fn webserver(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches(WEBSERVER)?;
    let mut checks = MODES.map(|mode| gain_of_webserver(mode, gain(study, mode))).to_vec();
    checks.extend(against_disk(bench, study));
    Ok(Outcome { checks, figures: Vec::new() })
}

fn gain_of_webserver(mode: CacheMode, measured: f64) -> Check {
    Check::points(format!("webserver, {}: SSC over SSD", mode.name()), 0.0, measured, 0.03)
}

/// S4: logging inside the drive costs less than records from the host.
pub(super) fn varmail(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.caches(VARMAIL)?;
    let check = |study: &CacheStudy| gain_of_varmail(gain(study, CacheMode::WriteBack));
    let mut checks = vec![check(study)];
    let again = |assumed: &Assumptions| Ok(vec![check(&CacheStudy::assuming(bench, VARMAIL, assumed)?)]);
    vary(bench, &mut checks, UNKNOWN_FLUSH, &VARIED_FLUSH, again)?;
    checks.extend(against_disk(bench, study));
    Ok(Outcome { checks, figures: Vec::new() })
}

fn gain_of_varmail(measured: f64) -> Check {
    Check::points("varmail, write-back: SSC over SSD", 0.27, measured, 0.1).even_at(0.0)
}

/// Fig. 7, and its gains beside those that the paper prints.
fn figures(bench: &Bench) -> Result<Vec<Figure>, ReproduceError> {
    let rows = [FILESERVER, WEBSERVER, VARMAIL].map(|set| bench.caches(set));
    let rows: Vec<&CacheStudy> = rows.into_iter().collect::<Result<_, _>>()?;
    let chart = BarChart::new("Fig. 7: operations over those of the disk alone", Bars::Grouped)
        .value_axis(Axis::linear("times no cache", Unit::Plain))
        .categories(FILE_SETS.map(|set| set.name));
    let over = |system| {
        let rate = |row: &CacheStudy, system| row.of(system).operations_per_second;
        rows.iter().map(|row| rate(row, system) / rate(row, System::NoCache)).collect()
    };
    let chart = SYSTEMS[1..].iter().fold(chart, |chart, &system| chart.series(&name(system), over(system)));
    let caption = "File servers on a cache of 1 GiB in front of a disk.".into();
    Ok(vec![Figure { caption, svg: chart.to_svg() }, gains(&rows)])
}

fn gains(rows: &[&CacheStudy]) -> Figure {
    let measured = [
        gain(rows[FILESERVER], CacheMode::WriteBack),
        gain(rows[FILESERVER], CacheMode::WriteThrough),
        gain(rows[VARMAIL], CacheMode::WriteBack),
    ];
    let chart = BarChart::new("Fig. 7: SSC over SSD", Bars::Grouped)
        .value_axis(Axis::linear("SSC / SSD", Unit::Plain))
        .categories(["fileserver, write-back", "fileserver, write-through", "varmail, write-back"])
        .series("here", measured.map(|gain| 1.0 + gain).to_vec())
        .series("published", vec![1.52, 1.45, 1.27]);
    Figure { caption: "What silent eviction gains.".into(), svg: chart.to_svg() }
}
