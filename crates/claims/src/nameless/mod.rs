//! N1 and N2: nameless writes on Jasmine ("Getting Real", 4.3: Table 4 and Fig. 8).
//!
//! ```text
//!  N1   image of a file system ─► tables of the split FTL, counted      beside those of jasmine-optimized's page map
//!  N2   fio, as in J1 and J3 ─► jasmine, jasmine-optimized, or a nameless file ─► block layer ─► split FTL ─► jasmine's flash
//! ```
//! Fig. 8 is drawn without numbers, so N2 compares with our own baseline, which J1 and J3 judge.

mod image;

use super::bench::{Bench, ReproduceError};
use super::described::{File, add_words, execute, paper};
use super::{Check, Figure, Limit, Outcome, vary};
use pellucid_flash::{Geometry, Migration};
use pellucid_ftl::{Nameless, NamelessConfig, PageMap};
use pellucid_report::Report;
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};
use pellucid_spec::Spec;

/// Table 4, as far as it is known: GB of the file system, MB of the page map, KB of nameless writes.
const TABLE_4: [(u32, f64, f64); 3] = [(4, 2.50, 94.0), (16, 17.8, 325.0), (48, 52.8, 803.0)];
/// GB of file systems that are not in the table; their memory is interpolated linearly between the neighbouring sizes.
const BETWEEN: [u32; 3] = [10, 24, 40];

/// A file system size, and the expected memory of its tables.
struct Row {
    gib: u32,
    page_map_mb: f64,
    nameless_kb: f64,
    /// True if it is not in the table.
    derived: bool,
}

/// The sizes of the table, then those between them.
fn rows() -> Vec<Row> {
    let published =
        TABLE_4.map(|(gib, page_map_mb, nameless_kb)| Row { gib, page_map_mb, nameless_kb, derived: false });
    let between = BETWEEN.map(|gib| {
        let at = TABLE_4.iter().rposition(|row| row.0 < gib).expect("above the least size");
        let (low, high) = (TABLE_4[at], TABLE_4[at + 1]);
        let share = f64::from(gib - low.0) / f64::from(high.0 - low.0);
        let on_line = |low: f64, high: f64| low + share * (high - low);
        Row { gib, page_map_mb: on_line(low.1, high.1), nameless_kb: on_line(low.2, high.2), derived: true }
    });
    published.into_iter().chain(between).collect()
}
const PAGE: u32 = 8;

/// Memory of the tables for one file system size.
struct Memory {
    page_map: f64,
    nameless: f64,
    /// Entries of the page map, and number of flash blocks.
    entries: f64,
    blocks: f64,
    image: image::Image,
}

/// Memory that counts; the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// All of our tables.
    Ours,
    /// Only the entries of the page map, with as many bits as a page number needs.
    EntriesAlone,
    /// This many bytes per flash block.
    BlockBytes(u32),
}

impl Memory {
    fn page_map(&self, counting: Counting) -> f64 {
        match counting {
            Counting::EntriesAlone => self.entries * self.entries.log2().ceil() / 8.0,
            Counting::Ours | Counting::BlockBytes(_) => self.page_map,
        }
    }

    fn nameless(&self, counting: Counting) -> f64 {
        match counting {
            Counting::BlockBytes(bytes) => {
                self.nameless - self.blocks * f64::from(Nameless::BLOCK_BYTES - bytes)
            }
            Counting::Ours | Counting::EntriesAlone => self.nameless,
        }
    }
}

const UNKNOWN_ENTRIES: (&str, &str) = (
    "what is counted of the page map, from its entries alone with as many bits as number its pages to all tables with entries of a word",
    "all tables",
);
const ENTRIES_ALONE: [(&str, Counting); 1] = [("entries alone", Counting::EntriesAlone)];
/// The paper lists what its FTL in the kernel keeps for a block (3.4.2): valid pages, the free and the bad list, erases. As numbers in arrays these
/// are 12 bytes; with two counts of an `int` and a `list_head` of a 64-bit kernel, 24.
const UNKNOWN_BLOCKS: (&str, &str) = (
    "bytes that the FTL keeps for each flash block: what 3.4.2 lists in 12 (arrays) or 24 (the kernel's lists), 32, or ours",
    "ours",
);
const VARIED_BLOCKS: [(&str, Counting); 3] = [
    ("12 bytes", Counting::BlockBytes(12)),
    ("24 bytes", Counting::BlockBytes(24)),
    ("32 bytes", Counting::BlockBytes(32)),
];

/// The flash that a file system of `gib` needs, with the spare space of the preset.
fn flash(spec: &Spec, gib: u32, shorter: u32) -> Geometry {
    let mut geometry = spec.drive.media.geometry.clone();
    let block = u64::from(geometry.pages) * u64::from(geometry.page_bytes);
    let bytes = (u64::from(gib) << 30) / u64::from(shorter);
    let banks = u64::from(geometry.channels * geometry.ways);
    let spare = 1.0 + spec.drive.ftl.over_provisioning;
    // Each bank has an open block, plus the reserve of GC.
    geometry.blocks = (bytes as f64 * spare / (block * banks) as f64).ceil() as u32 + 4;
    geometry
}

fn count(bench: &Bench, gib: u32) -> Result<Memory, ReproduceError> {
    let spec = bench.preset("jasmine-optimized", &[])?;
    let host = bench.preset("jasmine-nameless", &[])?;
    let shorter = bench.shorter();
    let geometry = flash(&spec, gib, shorter);
    let layout = geometry.layout().expect("the preset with another number of blocks");
    let page_map: PageMap =
        PageMap::new(&spec.drive.ftl, &layout, &[]).expect("the preset's settings on a smaller drive");
    let ftl = host.host.iter().find_map(|layer| match layer {
        pellucid_host::LayerConfig::NamelessFtl(config) => Some(config),
        _ => None,
    });
    let ftl = ftl.expect("the preset has the layer");
    let config = NamelessConfig { gc_low: 1, migration: Migration::Acknowledged, ..ftl.ftl.clone() };
    // Its unit is the file system's block, independent of the page map's unit.
    let layout = Geometry { unit_bytes: 4096, ..geometry }.layout().expect("the same with units of 4 KiB");
    let mut nameless = Nameless::new(&config, &layout).expect("the preset's settings on a smaller drive");
    let blocks = ((u64::from(gib) << 30) / u64::from(shorter)) / 4096;
    let image = image::write(&mut nameless, blocks, bench.seed());
    let scale = f64::from(shorter);
    Ok(Memory {
        entries: (f64::from(gib) * f64::from(1 << 30) / 4096.0).round(),
        blocks: f64::from(layout.blocks) * scale,
        page_map: page_map.view().memory_bytes as f64 * scale,
        nameless: nameless.memory_bytes() as f64 * scale,
        image,
    })
}

/// The checks of Table 4, and of the sizes between.
fn of_table(found: &[Memory], counting: Counting) -> Vec<Check> {
    let rows = rows();
    let both = rows.iter().zip(found).map(|(row, memory)| {
        let check = |which: &str, expected: f64, counted: f64| {
            let what = format!("{} GB, {which}", row.gib);
            Check { derived: row.derived, ..Check::within(what, Unit::Bytes, expected, counted, 0.15) }
        };
        [
            check("page map", row.page_map_mb * 1e6, memory.page_map(counting)),
            check("nameless", row.nameless_kb * 1e3, memory.nameless(counting)),
        ]
    });
    both.flatten().collect()
}

/// N1: Table 4.
pub(super) fn memory(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let found = bench.map(&rows(), |row| count(bench, row.gib))?;
    let mut checks = of_table(&found, Counting::Ours);
    // Each setting concerns one column.
    let again = |counting, column: &str| {
        let mut all = of_table(&found, counting);
        all.retain(|check| check.what.ends_with(column));
        Ok(all)
    };
    vary(bench, &mut checks, UNKNOWN_ENTRIES, &ENTRIES_ALONE, |&counting| again(counting, "page map"))?;
    vary(bench, &mut checks, UNKNOWN_BLOCKS, &VARIED_BLOCKS, |&counting| again(counting, "nameless"))?;
    for (&(gib, ..), memory) in TABLE_4.iter().zip(&found) {
        checks.push(Check::shown(format!("{gib} GB, files"), Unit::Count, None, memory.image.files as f64));
        let share = memory.image.virtual_blocks as f64
            / (memory.image.virtual_blocks + memory.image.data_blocks) as f64;
        checks.push(Check::shown(format!("{gib} GB, share of virtual blocks"), Unit::Percent, None, share));
    }
    let table = &found[..TABLE_4.len()];
    let of = |value: fn(&(u32, f64, f64)) -> f64| TABLE_4.iter().map(value).collect::<Vec<_>>();
    let chart = BarChart::new("Table 4: memory of the FTL", Bars::Grouped)
        .value_axis(Axis::log("bytes", Unit::Bytes))
        .categories(TABLE_4.iter().map(|(gib, ..)| format!("{gib} GB")))
        .series("page map, published", of(|row| row.1 * 1e6))
        .series("page map, counted", table.iter().map(|memory| memory.page_map).collect())
        .series("nameless, published", of(|row| row.2 * 1e3))
        .series("nameless, counted", table.iter().map(|memory| memory.nameless).collect());
    let caption =
        "Tables of both FTLs for file systems that are nine tenths full, made in the manner of Impressions."
            .into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}

/// The experiments of Fig. 8 as users run them: writes and reads of nameless writes, and of the baseline.
const WRITES: File = paper!("jasmine-fig8.toml");
const READS: File = paper!("jasmine-fig8-read.toml");
const BASELINE_WRITES: File = paper!("jasmine-fig8-ssd.toml");
const BASELINE_READS: File = paper!("jasmine-fig8-read-ssd.toml");

/// The partition: a quarter of the paper's 8 GB, as in J1.
const PARTITION_KIB: u32 = 2 << 20;
/// Share of the partition that waits to be written back, as in J1.
const DIRTY: f64 = 0.10;
/// Share of the partition that random writes write, as in J1.
const FIRST: f64 = 0.30;
/// Capacity of the block drives, as in J1.
const CAPACITY_KIB: u32 = 56 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Baseline,
    /// The baseline, with requests of at most a flash page.
    Pages,
    Optimized,
    Nameless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    SequentialWrite,
    RandomWrite,
    SequentialRead,
    RandomRead,
}

/// Systems of Fig. 8.
const SYSTEMS: [System; 3] = [System::Baseline, System::Optimized, System::Nameless];
const WORK: [Work; 4] = [Work::SequentialWrite, Work::RandomWrite, Work::SequentialRead, Work::RandomRead];

impl System {
    fn name(self) -> &'static str {
        match self {
            System::Baseline => "baseline",
            System::Pages => "baseline with requests of 32 KB",
            System::Optimized => "optimized",
            System::Nameless => "nameless",
        }
    }

    fn file(self, work: Work) -> File {
        match (self, work.is_read()) {
            (System::Nameless, false) => WRITES,
            (System::Nameless, true) => READS,
            (_, false) => BASELINE_WRITES,
            (_, true) => BASELINE_READS,
        }
    }
}

impl Work {
    fn is_read(self) -> bool {
        matches!(self, Work::SequentialRead | Work::RandomRead)
    }

    fn name(self) -> &'static str {
        match self {
            Work::SequentialWrite => "sequential write",
            Work::RandomWrite => "random write",
            Work::SequentialRead => "sequential read",
            Work::RandomRead => "random read",
        }
    }
}

/// Writes that wait at once, which the paper does not give: as many as J1's rows need, or fewer 4 KB writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    AsInJ1,
    Writes(u32),
}

/// Unknowns of the paper: writes that wait, and whether a write merges with any request, as the scheduler was meant to allow (3.4.2), or only with
/// the last merged one, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Assumed {
    waiting: Waiting,
    joins_any: bool,
}

const ASSUMED: Assumed = Assumed { waiting: Waiting::AsInJ1, joins_any: false };

const fn writes(count: u32) -> Assumed {
    Assumed { waiting: Waiting::Writes(count), ..ASSUMED }
}

const UNKNOWN_WAITING: (&str, &str) =
    ("writes of 4 KB that wait at once, from a queue of 32 to the page cache that J1 needs", "52,428 writes");
const VARIED_WAITING: [(&str, Assumed); 6] = [
    ("32", writes(32)),
    ("64", writes(64)),
    ("128", writes(128)),
    ("256", writes(256)),
    ("1,024", writes(1024)),
    ("8,192", writes(8192)),
];
const UNKNOWN_JOIN: (&str, &str) = (
    "requests that a nameless write may join which is adjacent to none: that of the last merge alone, as in Linux 2.6.33, or the newest that is not full",
    "the last merge's",
);
const VARIED_JOIN: [(&str, Assumed); 1] = [("the newest", Assumed { joins_any: true, ..ASSUMED })];

/// Result of one system on one kind of work.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// IO/s of 4 KB.
    iops: f64,
    /// Mean request of the block layer in sectors; 0: no layer, or no request.
    request_sectors: f64,
}

/// Runs the file of a system, with another kind of work in its last job.
fn run(bench: &Bench, system: System, work: Work, assumed: Assumed) -> Result<Run, ReproduceError> {
    let partition = PARTITION_KIB / bench.shorter();
    let waiting = match assumed.waiting {
        Waiting::AsInJ1 => ((f64::from(partition / 4) * DIRTY) as u32).max(32),
        Waiting::Writes(count) => count,
    };
    let mut own = Vec::new();
    if !work.is_read() {
        own.push(format!("host.block_layer.requests={waiting}"));
        own.push(format!("host.block_layer.plug={}", waiting + 1));
    }
    if system == System::Nameless && !work.is_read() && assumed.joins_any {
        own.push("host.block_layer.join=newest".into());
    }
    // An unwritten file has nothing to read or overwrite, so a first job writes it.
    let has_data = work != Work::RandomWrite;
    match system {
        System::Nameless => {}
        System::Baseline | System::Pages | System::Optimized => {
            let share = if has_data { f64::from(partition) / f64::from(CAPACITY_KIB) } else { 0.0 };
            own.push(format!("precondition.fill={share:?}"));
        }
    }
    match system {
        System::Pages => own.push("host.block_layer.largest=32KiB".into()),
        System::Optimized => own.push("drive.preset=jasmine-optimized".into()),
        System::Baseline | System::Nameless => {}
    }
    let mut spec = system.file(work).with(bench, &own, "")?;
    match system == System::Nameless && has_data {
        true => add_words(&mut spec, 0, &format!("size={partition}k,number_ios={}", partition / 128)),
        false => drop(spec.jobs.drain(..spec.jobs.len() - 1)),
    }
    let last = spec.jobs.len() - 1;
    add_words(&mut spec, last, &words(bench, work, waiting, partition));
    Ok(Run::of(&execute(&spec)?, work))
}

/// Keys of the job that differ from its file's.
fn words(bench: &Bench, work: Work, waiting: u32, partition: u32) -> String {
    match work {
        Work::SequentialWrite => {
            let requests = (waiting * 6).max(partition / 4 / 8);
            format!("iodepth={waiting},size={partition}k,number_ios={requests}")
        }
        Work::RandomWrite => {
            let requests = (f64::from(partition / 4) * FIRST) as u32;
            format!("rw=randwrite,iodepth={waiting},size={partition}k,number_ios={requests}")
        }
        Work::SequentialRead => bench.job(&format!("size={partition}k"), 1_500),
        Work::RandomRead => bench.job(&format!("rw=randread,bs=4k,size={partition}k"), 6_000),
    }
}

impl Run {
    fn of(report: &Report, work: Work) -> Run {
        let directions = report.jobs.last().map(|job| &job.requests.directions);
        let flow = directions.map(|all| if work.is_read() { &all.read } else { &all.write });
        let rate = flow.map_or(f64::NAN, |flow| flow.throughput_bytes_per_second);
        let layer = report.parts.iter().find(|part| part.part == "block-layer");
        let figure = |name| layer.and_then(|part| part.get(name)).unwrap_or(0) as f64;
        let request_sectors = figure("block_layer_request_sectors") / figure("block_layer_requests").max(1.0);
        Run { iops: rate / 4_096.0, request_sectors }
    }
}

/// Measurements of each system on each kind of work.
struct Study {
    points: Vec<(System, Work)>,
    found: Vec<Run>,
}

impl Study {
    fn run(bench: &Bench, assumed: Assumed) -> Result<Study, ReproduceError> {
        let mut points: Vec<(System, Work)> =
            SYSTEMS.iter().flat_map(|&system| WORK.map(|work| (system, work))).collect();
        points.push((System::Pages, Work::SequentialWrite));
        let absent = Run { iops: f64::NAN, request_sectors: f64::NAN };
        let found = bench.map_or(&points, absent, |&(system, work)| run(bench, system, work, assumed))?;
        Ok(Study { points, found })
    }

    fn at(&self, system: System, work: Work) -> Run {
        let point = self.points.iter().position(|&point| point == (system, work)).expect("it was measured");
        self.found[point]
    }

    fn over(&self, (a, work_a): (System, Work), (b, work_b): (System, Work)) -> f64 {
        self.at(a, work_a).iops / self.at(b, work_b).iops
    }

    /// Checks that decide N2.
    fn checks(&self) -> Vec<Check> {
        let ratio = |work| self.over((System::Nameless, work), (System::Baseline, work));
        let mut checks = Vec::new();
        for work in [Work::SequentialWrite, Work::SequentialRead, Work::RandomRead] {
            let what = format!("{}, nameless / baseline", work.name());
            checks.push(Check::derived(what, Unit::Plain, 1.0, ratio(work), 0.10));
        }
        let random = "random write, nameless / baseline";
        checks.push(
            Check::bound(random, Unit::Plain, ratio(Work::RandomWrite), Limit::AtLeast(1.01)).even_at(1.0),
        );
        let below =
            self.over((System::Nameless, Work::RandomWrite), (System::Baseline, Work::SequentialWrite));
        let sequential = "random write of nameless / sequential write of the baseline";
        checks.push(Check::bound(sequential, Unit::Plain, below, Limit::AtMost(0.99)).even_at(1.0));
        checks
    }

    fn shown(&self) -> Vec<Check> {
        let plain = |what: String, measured| Check::shown(what, Unit::Plain, None, measured);
        let (sequential, random) = (Work::SequentialWrite, Work::RandomWrite);
        let mut shown = vec![
            plain(
                "sequential write, nameless / baseline with requests of 32 KB".into(),
                self.over((System::Nameless, sequential), (System::Pages, sequential)),
            ),
            plain(
                "random write, nameless / optimized".into(),
                self.over((System::Nameless, random), (System::Optimized, random)),
            ),
        ];
        for (&(system, work), Run { iops, .. }) in self.points.iter().zip(&self.found) {
            shown.push(plain(format!("{}, {}, IO/s", work.name(), system.name()), *iops));
        }
        let blocks = self.at(System::Nameless, random).request_sectors / f64::from(PAGE);
        let what = "random write, share of a flash page that a request fills";
        shown.push(Check::shown(what, Unit::Percent, None, blocks));
        shown
    }
}

pub(super) fn performance(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = Study::run(bench, ASSUMED)?;
    let mut checks = study.checks();
    let again = |&assumed: &Assumed| Ok(Study::run(bench, assumed)?.checks());
    vary(bench, &mut checks, UNKNOWN_WAITING, &VARIED_WAITING, again)?;
    vary(bench, &mut checks, UNKNOWN_JOIN, &VARIED_JOIN, again)?;
    checks.extend(study.shown());
    let mut chart = BarChart::new("Fig. 8: requests of 4 KB", Bars::Grouped)
        .value_axis(Axis::linear("IO/s", Unit::Count).from(0.0))
        .categories(WORK.map(Work::name));
    for system in SYSTEMS {
        chart = chart.series(system.name(), WORK.map(|work| study.at(system, work).iops).to_vec());
    }
    let caption = "Writes through a page cache and a block layer as in Table 2, reads as in Fig. 4; the split FTL over the same flash.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}
