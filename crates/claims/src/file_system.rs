//! U1 and U2: file servers on three file systems (Prism-SSD, section VI-B).
//!
//! ```text
//!   ULFS-SSD     log-structured ─► the kernel's block stack ─► a drive that maps by page
//!   ULFS-Prism   log-structured ─► function level: a segment is a flash block ─► the same flash
//!   MIT-XMP      in place, with a journal ─► the kernel's block stack ─► a drive that maps by page
//! ```
//! ULFS-SSD and ULFS-Prism are the file system that `pellucid fs` mounts, with greedy cleaning. MIT-XMP passes each call to ext4: the
//! model of ext4 in [`pellucid_workload::files`] stands for it.
//!
//! # Scale
//!
//! Sizes and times are a quarter of the paper's: pages of 4 KiB that are programmed in 187 us and sensed in 12.5 us, files, appends and requests, and
//! the processor's time for an operation. File system blocks stay at 4 KiB.
//!
//! In U1 a flash block is 256 KiB, so that a small drive has many, and its erase is shorter in proportion. Each of 12 channels has 64 blocks, so that
//! 24 open segments take little of them, plus over-provisioning.
//!
//! In U2 a flash block is 2 MiB, so that it holds as many files as the paper's: 64 of 128 KiB in 8 MiB. The live share of a segment with few files
//! varies by chance, and the cleaner would exploit that. Each channel has 32 blocks.
//!
//! # Published and assumed
//!
//! | | value | |
//! |---|---|---|
//! | operations, sizes, threads | filebench's personalities | published; the paper names the three and no parameters |
//! | how a file is picked | in one rotation that all threads share | filebench: `flowoplib_openfile_common` tells `fileset_pick` a thread only where `rotatefd` is set; as S1 to S4 |
//! | over-provisioning | 25 %; of ULFS-Prism as `Flash_SetOPS`. U2's block drives are the simulator of P5 | section IV-A; P5 |
//! | cost of a request, of a KiB moved | the kernel's stack 15 us and 300 ns, the library 3 us and 100 ns | those of P1 to P5: chosen by outcome there |
//! | cost of an operation, of a page copied | 10 us and 1 us, on two cores, for all three | assumed |
//! | files that exist, U1 | 55 % of the file system, two thirds of what ULFS-Prism leaves to files | assumed |
//! | files that exist, U2 | 40 % of the file system | **fitted** to ULFS-Prism's row of Table II: file copies are 0.21 of what it programs, 5,280 times Table I's 8.9 MB for an erase |
//! | memory | a twelfth of the file system | assumed |
//! | addresses of U2's block drives | the file system has 70 %, the others were never written | **fitted** to their rows of Table II: with 8 MiB for an erase they program 1.26 (MIT-XMP) and 1.15 times (ULFS-SSD) what they are given, as ours do on 62 and 80 % |
//! | operations of U2 | 384,000 before 128,000 | assumed |
//! | segments of ULFS-SSD | as long as flash blocks, 12 open | "equal-sized segments"; their size is assumed; as many open as ULFS-Prism has, as Table II has both copy the same |
//! | a block drive at the start | all addresses mapped | as in P5 |
//! | work of Table II | fileserver | the paper does not say |
//!
//! Scale and number of blocks were chosen with results in sight, for the reasons above: docs/explanation/papers/prism.md, U1.

use super::bench::{Bench, ReproduceError};
use super::described::{File, paper};
use super::prism::{REPLAY_FREE, REPLAY_RESERVED};
use super::{Check, Figure, Limit, Outcome, vary};
use pellucid_report::ApplicationReport;
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};
use pellucid_workload::files::Personality;

/// The experiments as users run them: varmail on each system.
const ULFS_SSD: File = paper!("prism-fig8-ssd.toml");
const ULFS_PRISM: File = paper!("prism-fig8.toml");
const MIT_XMP: File = paper!("prism-fig8-xmp.toml");

const SCALE: u64 = 4;
const CHANNELS: u64 = 12;
const PAGE_BYTES: u64 = 4 << 10;
/// Over-provisioning of ULFS-Prism and of commercial drives, beyond the space of the file systems.
const OVER_PROVISIONING: f64 = 0.25;

/// The flash of a file system.
#[derive(Clone, Copy, Debug)]
struct Flash {
    /// Pages of a block.
    pages: u64,
    /// Blocks per channel of the file system.
    blocks_each: u32,
    /// Share of a block drive's addresses that the file system occupies. The rest was never written.
    addresses: f64,
}

/// The flash of U1 and of the files.
const SMALL: Flash = Flash { pages: 64, blocks_each: 64, addresses: 1.0 };
/// The flash of U2: as in the paper, a block holds 64 files, with 8 pages of each.
const LONG: Flash = Flash { pages: 512, blocks_each: 32, addresses: 0.7 };

impl Flash {
    const fn block_bytes(self) -> u64 {
        self.pages * PAGE_BYTES
    }

    /// Size of the file system in bytes.
    fn bytes(self) -> u64 {
        CHANNELS * u64::from(self.blocks_each) * self.block_bytes()
    }
}

/// Operations before a measurement, and in it. Cleaning starts only when the log has wrapped around. U1, like the files: throughput is steady from
/// 80,000 on.
const OPERATIONS: [u64; 2] = [96_000, 32_000];
/// Operations of U2: the log has wrapped around five times before the measurement, as a drive with unmapped addresses begins to copy late.
const ROUNDS: [u64; 2] = [384_000, 128_000];
const EARLIER: [u64; 2] = [192_000, 64_000];

/// Settings that the paper does not give: the flash, the length of ULFS-SSD's segments, the number of open ones, the share of the file system that
/// files fill at the start, how threads pick files, and the operations before a measurement and in it.
#[derive(Clone, Copy, Debug)]
struct Assumed {
    flash: Flash,
    segment_bytes: u64,
    /// The cleaner opens as many again for its copies.
    open_segments: u32,
    filled: f64,
    /// `picks` of the job.
    picks: &'static str,
    operations: [u64; 2],
}

/// One per channel, as in ULFS-Prism.
const OPEN_SEGMENTS: u32 = 12;
const ASSUMED: Assumed = Assumed {
    flash: SMALL,
    segment_bytes: SMALL.block_bytes(),
    open_segments: OPEN_SEGMENTS,
    filled: 0.55,
    picks: "together",
    operations: OPERATIONS,
};
const UNKNOWN: (&str, &str) = (
    "length of ULFS-SSD's segments, from a flash block to one of each channel, how many are open, share of the file system in files, and whether threads \
     share a rotation over these",
    "256 KiB, 12, 55 %, one rotation",
);

/// Segments as long as one block of each channel are open one at a time.
const fn assumed(segment_kib: u64, filled: f64) -> Assumed {
    let open_segments = (OPEN_SEGMENTS as u64 * SMALL.block_bytes() / (segment_kib << 10)) as u32;
    Assumed { segment_bytes: segment_kib << 10, open_segments, filled, ..ASSUMED }
}

/// Varied together, as the effect of one depends on the others.
const VARIED: [(&str, Assumed); 10] = [
    ("256 KiB, 12 open, 55 %, a rotation for each thread", Assumed { picks: "apart", ..ASSUMED }),
    (
        "256 KiB, 1 open, 55 %, a rotation for each thread",
        Assumed { open_segments: 1, picks: "apart", ..ASSUMED },
    ),
    ("256 KiB, 1 open, 55 %", Assumed { open_segments: 1, ..ASSUMED }),
    ("256 KiB, 4 open, 55 %", Assumed { open_segments: 4, ..ASSUMED }),
    ("256 KiB, 40 %", assumed(256, 0.40)),
    ("256 KiB, 65 %", assumed(256, 0.65)),
    ("1 MiB, 55 %", assumed(1024, 0.55)),
    ("3 MiB, 40 %", assumed(3072, 0.40)),
    ("3 MiB, 65 %", assumed(3072, 0.65)),
    ("3 MiB, 40 %, a rotation for each thread", Assumed { picks: "apart", ..assumed(3072, 0.40) }),
];

/// Share of the file system that files fill in U2, where file copies are 0.21 of what ULFS-Prism programs, as in its row.
const FILLED: f64 = 0.40;
/// Settings of U2.
const COLLECTED: Assumed =
    Assumed { flash: LONG, segment_bytes: LONG.block_bytes(), filled: FILLED, operations: ROUNDS, ..ASSUMED };
const UNKNOWN_OF_COLLECTION: (&str, &str) = (
    "how many segments of ULFS-SSD are open, share of the file system in files, whether threads share a rotation over these, share of the drive's addresses \
     that the file system has, and how often the log has come round before",
    "12, 40 %, one rotation, 70 % of the addresses, after 384,000 operations",
);
const COLLECTED_EARLIER: Assumed = Assumed { operations: EARLIER, ..COLLECTED };
/// Settings on a drive whose addresses are filled to this share by the file system.
const fn on_addresses(addresses: f64, settings: Assumed) -> Assumed {
    Assumed { flash: Flash { addresses, ..settings.flash }, ..settings }
}
const VARIED_IN_COLLECTION: [(&str, Assumed); 8] = [
    ("62 % of the addresses: MIT-XMP's row alone", on_addresses(0.62, COLLECTED)),
    ("80 % of the addresses: ULFS-SSD's row alone", on_addresses(0.80, COLLECTED)),
    ("after 192,000 operations", COLLECTED_EARLIER),
    ("all addresses, after 192,000", on_addresses(1.0, COLLECTED_EARLIER)),
    ("1 open, after 192,000", Assumed { open_segments: 1, ..COLLECTED_EARLIER }),
    ("55 %, as U1, after 192,000", Assumed { filled: ASSUMED.filled, ..COLLECTED_EARLIER }),
    ("65 %, after 192,000", Assumed { filled: 0.65, ..COLLECTED_EARLIER }),
    ("a rotation for each thread, after 192,000", Assumed { picks: "apart", ..COLLECTED_EARLIER }),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Ssd,
    Prism,
    Xmp,
}

impl System {
    const ALL: [System; 3] = [System::Ssd, System::Prism, System::Xmp];

    fn name(self) -> &'static str {
        match self {
            System::Ssd => "ULFS-SSD",
            System::Prism => "ULFS-Prism",
            System::Xmp => "MIT-XMP",
        }
    }

    fn file(self) -> File {
        match self {
            System::Ssd => ULFS_SSD,
            System::Prism => ULFS_PRISM,
            System::Xmp => MIT_XMP,
        }
    }
}

/// Kind of block drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Flash of equal size, with the over-provisioning of the paper's drives.
    Commercial,
    /// The simulator with which the paper counts erases.
    Replayed,
}

/// Overrides that replace the drive of a system's file.
fn drive(system: System, block: Block, flash: Flash) -> Vec<String> {
    let is_replayed = block == Block::Replayed && system != System::Prism;
    let spare = if is_replayed { REPLAY_RESERVED / (1.0 - REPLAY_RESERVED) } else { OVER_PROVISIONING };
    let addresses = if system == System::Prism { 1.0 } else { flash.addresses };
    let blocks = (f64::from(flash.blocks_each) / addresses * (1.0 + spare)).ceil();
    let mut sets = vec![format!("media.pages={}", flash.pages), format!("media.blocks={blocks}")];
    if system != System::Prism {
        sets.push(format!("ftl.over_provisioning={spare}"));
        sets.push(format!("precondition.fill={addresses}"));
    }
    if is_replayed {
        sets.push(format!("ftl.gc_low={}", (blocks * REPLAY_FREE).ceil()));
    }
    sets
}

/// Keys of the job that differ from its file's.
fn words(bench: &Bench, system: System, personality: Personality, assumed: Assumed) -> String {
    let [warm_up, operations] = assumed.operations.map(|count| count / u64::from(bench.shorter()));
    let (name, file_bytes) = (personality.name(), personality.file_bytes() / SCALE);
    let append_bytes = personality.append_bytes() / SCALE;
    let bytes = assumed.flash.bytes();
    let mut words = format!(
        "app={name},size={bytes},page_cache={},filled={:.0}%,picks={},meanfilesize={file_bytes},meanappendsize={append_bytes},warm_up={warm_up},\
         operations={operations}",
        bytes / 12,
        assumed.filled * 100.0,
        assumed.picks
    );
    if system == System::Ssd {
        words += &format!(",segment={},open_segments={}", assumed.segment_bytes, assumed.open_segments);
    }
    words
}

/// Runs one personality on one system: its file, with another personality in the job.
fn serve(
    bench: &Bench,
    system: System,
    personality: Personality,
    block: Block,
    assumed: Assumed,
) -> Result<Served, ReproduceError> {
    let words = words(bench, system, personality, assumed);
    let report = system.file().application(bench, &drive(system, block, assumed.flash), &words)?;
    Served::of(&report).ok_or_else(|| ReproduceError::Program(format!("{}: nothing was done", system.name())))
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Served {
    operations_per_second: f64,
    file_copied_bytes: u64,
    flash_copied_bytes: u64,
    programmed_bytes: u64,
    erases: u64,
}

impl Served {
    fn of(report: &ApplicationReport) -> Option<Served> {
        Some(Served {
            operations_per_second: report.operations_per_second?,
            file_copied_bytes: report.copied_by("file system")?,
            flash_copied_bytes: report.copied_by("drive")?,
            programmed_bytes: report.programmed_bytes,
            erases: report.erases,
        })
    }
}

pub(super) fn throughput(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let points: Vec<(Personality, System)> =
        Personality::ALL.into_iter().flat_map(|work| System::ALL.map(|system| (work, system))).collect();
    let run = |&(work, system): &_| serve(bench, system, work, Block::Commercial, ASSUMED);
    let reports = bench.map(&points, run)?;
    let rates: Vec<[f64; 3]> = reports
        .chunks(System::ALL.len())
        .map(|row| [0, 1, 2].map(|at| row[at].operations_per_second))
        .collect();
    let mut checks = Vec::new();
    for (work, [ssd, prism, xmp]) in Personality::ALL.into_iter().zip(rates.iter().copied()) {
        let name = work.name();
        checks.extend(gains(work, prism / ssd));
        checks.push(Check::shown(format!("{name}, MIT-XMP / ULFS-SSD"), Unit::Plain, None, xmp / ssd));
    }
    vary(bench, &mut checks, UNKNOWN, &VARIED, |&assumed| {
        let run = |&(work, system): &_| serve(bench, system, work, Block::Commercial, assumed);
        let works = [Personality::Fileserver, Personality::Varmail];
        let both: Vec<(Personality, System)> = works
            .into_iter()
            .flat_map(|work| [System::Ssd, System::Prism].map(|system| (work, system)))
            .collect();
        let reports = bench.map(&both, run)?;
        let ratio = |pair: &[Served]| pair[1].operations_per_second / pair[0].operations_per_second;
        Ok(works
            .into_iter()
            .zip(reports.chunks(2))
            .flat_map(|(work, pair)| gains(work, ratio(pair)))
            .collect())
    })?;
    Ok(Outcome { checks, figures: vec![figure(&rates)] })
}

/// ULFS-Prism is faster with every personality; the factor is published for one.
fn gains(work: Personality, ratio: f64) -> Vec<Check> {
    let what = format!("{}, ULFS-Prism / ULFS-SSD", work.name());
    let mut checks = vec![Check::bound(what, Unit::Plain, ratio, Limit::AtLeast(1.0)).even_at(1.0)];
    if work == Personality::Varmail {
        let what = "varmail, ULFS-Prism over ULFS-SSD";
        checks.push(Check::points(what, 0.215, ratio - 1.0, 0.1).even_at(0.0));
    }
    checks
}

fn figure(rates: &[[f64; 3]]) -> Figure {
    let over = |at: usize| rates.iter().map(|row| row[at] / row[0]).collect();
    let chart = BarChart::new("Fig. 8: operations over those of ULFS-SSD", Bars::Grouped)
        .value_axis(Axis::linear("times ULFS-SSD", Unit::Plain))
        .categories(Personality::ALL.map(Personality::name))
        .series(System::Prism.name(), over(1))
        .series("ULFS-Prism, published", vec![f64::NAN, f64::NAN, 1.215])
        .series(System::Xmp.name(), over(2));
    let caption = "File servers on three file systems. The paper prints the gain on varmail alone.".into();
    Figure { caption, svg: chart.to_svg() }
}

pub(super) fn collection(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut checks = collected(bench, COLLECTED)?;
    let again = |&assumed: &_| collected(bench, assumed);
    vary(bench, &mut checks, UNKNOWN_OF_COLLECTION, &VARIED_IN_COLLECTION, again)?;
    Ok(Outcome { checks, figures: Vec::new() })
}

fn collected(bench: &Bench, assumed: Assumed) -> Result<Vec<Check>, ReproduceError> {
    let run = |&system: &System| serve(bench, system, Personality::Fileserver, Block::Replayed, assumed);
    let reports = bench.map(&System::ALL, run)?;
    let [ssd, prism, xmp] = [0, 1, 2].map(|at| &reports[at]);
    let ratio = |what: &str, published: f64, a: u64, b: u64| {
        Check::derived(what, Unit::Plain, published, a as f64 / b as f64, 0.15).even_at(1.0)
    };
    let shown = |what: &str, measured: f64| Check::shown(what, Unit::Plain, None, measured);
    Ok(vec![
        copied_below(prism),
        ratio("file copies, ULFS-Prism / ULFS-SSD", 1.0, prism.file_copied_bytes, ssd.file_copied_bytes),
        ratio(
            "flash copies / file copies, ULFS-SSD",
            7.24 / 9.82,
            ssd.flash_copied_bytes,
            ssd.file_copied_bytes,
        ),
        ratio(
            "flash copies, MIT-XMP / ULFS-SSD",
            9.37 / 7.24,
            xmp.flash_copied_bytes,
            ssd.flash_copied_bytes,
        ),
        ratio("erases, ULFS-SSD / ULFS-Prism", 6594.0 / 5280.0, ssd.erases, prism.erases),
        ratio("erases, MIT-XMP / ULFS-Prism", 5429.0 / 5280.0, xmp.erases, prism.erases),
        shown("file copies, ULFS-SSD, MiB", mib(ssd.file_copied_bytes)),
        shown("file copies, ULFS-Prism, MiB", mib(prism.file_copied_bytes)),
        shown("flash copies, ULFS-SSD, MiB", mib(ssd.flash_copied_bytes)),
        shown("flash copies, MIT-XMP, MiB", mib(xmp.flash_copied_bytes)),
        shown("programmed, ULFS-SSD, MiB", mib(ssd.programmed_bytes)),
        shown("programmed, ULFS-Prism, MiB", mib(prism.programmed_bytes)),
        shown("programmed, MIT-XMP, MiB", mib(xmp.programmed_bytes)),
    ])
}

/// A file system that owns its flash has no copies below it.
fn copied_below(prism: &Served) -> Check {
    let copied = mib(prism.flash_copied_bytes);
    Check::bound("flash copies, ULFS-Prism, MiB", Unit::Plain, copied, Limit::AtMost(0.0))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use pellucid_lab::experiment::jobs;

    /// The files are U1's points for varmail, to the last key.
    #[test]
    fn the_files_are_the_points_of_varmail() {
        let bench = Bench::of_test(1, Vec::new());
        for system in System::ALL {
            let words = words(&bench, system, Personality::Varmail, ASSUMED);
            let claim = system.file().with(&bench, &drive(system, Block::Commercial, SMALL), &words).unwrap();
            let alone = system.file().alone();
            assert_eq!(claim.drive, alone.drive, "{system:?}");
            assert_eq!(claim.precondition, alone.precondition, "{system:?}");
            let app = |spec| jobs(spec).unwrap()[0].app.clone();
            assert_eq!(app(&claim), app(&alone), "{system:?}");
        }
    }

    /// U2: a flash block has the pages of as many files as the paper's, 64 of 128 KiB in 8 MiB.
    #[test]
    fn a_block_of_u2_holds_as_many_files_as_the_papers() {
        let file_bytes = Personality::Fileserver.file_bytes();
        assert_eq!(LONG.block_bytes() / (file_bytes / SCALE), (8 << 20) / file_bytes);
    }

    /// U2: the same file system above a block drive, which copies on its behalf.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_file_system_on_a_block_drive_misses() {
        let bench = Bench::of_test(4, Vec::new());
        let run = |&system: &System| serve(&bench, system, Personality::Fileserver, Block::Replayed, ASSUMED);
        let served = bench.map(&[System::Prism, System::Ssd], run).unwrap();
        let verdicts: Vec<_> = served.iter().map(|served| copied_below(served).verdict()).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::Misses]);
    }

    /// Speed-up of ULFS-Prism over ULFS-SSD with varmail, on flash with these overrides. The claim's check holds if the latter has one open segment
    /// and each thread its own rotation.
    fn varmail(sets: &[&str]) -> f64 {
        let bench = Bench::of_test(1, sets.iter().map(|set| (*set).to_string()).collect());
        let assumed = Assumed { open_segments: 1, picks: "apart", ..ASSUMED };
        let run = |&system: &System| serve(&bench, system, Personality::Varmail, Block::Commercial, assumed);
        let rates = bench.map(&[System::Prism, System::Ssd], run).unwrap();
        rates[0].operations_per_second / rates[1].operations_per_second
    }

    /// U1: with all LUNs on one channel, one segment of new data is open, and commits wait for each other. The drive uses all LUNs.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_file_system_that_sees_one_channel_misses() {
        let (right, wrong) = (varmail(&[]), varmail(&["media.channels=1", "media.ways=12"]));
        // As in the claim: 21.5 %, within 10 points.
        let holds = |gain: f64| (gain - 1.215).abs() <= 0.1;
        assert!(holds(right) && !holds(wrong), "{right}, on one channel {wrong}");
    }
}
