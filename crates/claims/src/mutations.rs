//! For each claim a wrong model, and the check that then misses: a criterion that a wrong model also meets is worthless.
//!
//! ```text
//!             ┌─ as it is ─────────► the check holds
//!  claim, ────┤
//!  smaller    └─ with a wrong model ► the same check misses
//! ```
//! Measurements are short and drives small here, so only the named check is judged, not the claim's verdict.
//!
//! By overrides, an entry removes a mechanism that the claim is about, or falsifies it.

use super::bench::Bench;
use super::{Check, Limit, Outcome, Verdict, claims, select};
use std::collections::BTreeMap;

/// A wrong model that a claim must distinguish from the right one.
struct Mutation {
    claim: &'static str,
    /// Prefix of the text of a check that holds without `wrong` and misses with it.
    check: &'static str,
    /// Description of the wrong model; its overrides follow. They take precedence over those that define the experiment.
    what: &'static str,
    wrong: &'static [&'static str],
    size: Size,
    /// Prefixes of the names of the points that the check uses; empty: all.
    points: &'static [&'static str],
}

/// How much smaller a claim is measured than in `pellucid reproduce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Size {
    /// Factor by which measurements are shorter.
    shorter: u32,
    /// Overrides that make the drive smaller.
    drive: &'static [&'static str],
}

const SHORT: Size = Size { shorter: 12, drive: &[] };
const QUARTER: Size = Size { shorter: 4, drive: &[] };
const FULL: Size = Size { shorter: 1, drive: &[] };

const fn mutation(
    claim: &'static str,
    check: &'static str,
    what: &'static str,
    wrong: &'static [&'static str],
    size: Size,
) -> Mutation {
    Mutation { claim, check, what, wrong, size, points: &[] }
}

impl Mutation {
    /// This mutation, restricted to the points whose names begin with `points`: those that its check uses. If points are missing, the check has no
    /// number on the right model, and fails.
    const fn at(self, points: &'static [&'static str]) -> Mutation {
        Mutation { points, ..self }
    }
}

static MUTATIONS: &[Mutation] = &[
    mutation("C1", "MLC read, 8 x 8", "a slower bus", &["media.timing.channel_rate=160MB/s"], SHORT)
        .at(&["Point { mode: Mlc, flow: Read, channels: 8, ways: 8 }"]),
    mutation(
        "C2",
        "MLC read, 8 channels / 1 channel",
        "an interconnect between memory and channels that eight of them fill",
        &["scheduler.interconnect_rate=1GB/s"],
        Size { shorter: 4, drive: &[] },
    )
    .at(&[
        "Point { mode: Mlc, flow: Read, channels: 8, ways: 8 }",
        "Point { mode: Mlc, flow: Read, channels: 1, ways: 8 }",
    ]),
    mutation(
        "C3",
        "MLC write, least step from 1 way to 2",
        "one way that works at a time",
        &["media.ways=1"],
        SHORT,
    )
    .at(&["Point { mode: Mlc, flow: Write, "]),
    mutation(
        "C4",
        "MLC write / SLC write, 8 x 8",
        "a processor that flash has to wait for",
        &["firmware.clock_mhz=20"],
        SHORT,
    )
    .at(&[
        "Point { mode: Mlc, flow: Write, channels: 8, ways: 8 }",
        "Point { mode: Slc, flow: Write, channels: 8, ways: 8 }",
    ]),
    mutation(
        "C5",
        "MLC write IOPS",
        "a mapping unit as small as the request",
        &["media.unit_size=4KiB", "buffer.entries=4096"],
        SHORT,
    )
    .at(&["Point { mode: Mlc, flow: Write, channels: 8, ways: 8 }"]),
    mutation("C6", "SLC read, 1 outstanding", "half the clock", &["firmware.clock_mhz=500"], SHORT),
    mutation(
        "C7",
        "SLC read, 64 outstanding / 16",
        "a processor that is the bound of reads",
        &["firmware.clock_mhz=300"],
        SHORT,
    ),
    mutation("C8", "ChPrev devC", "placement at random", &["ftl.placement=random"], SHORT),
    mutation(
        "C9",
        "MLC read 8x8, loss at 200 MHz",
        "a processor whose clock does not matter",
        &["firmware.clock_mhz=1000"],
        SHORT,
    )
    .at(&["(Mlc, Read, 8, "]),
    mutation(
        "C10",
        "errors avoided at 5000 P/E, most",
        "no scrambler in either drive",
        &["ecc.scrambler=false"],
        Size { shorter: 6, drive: &[] },
    )
    .at(&["(5000, "]),
    mutation(
        "C11",
        "throughput lost by a key-equation solver",
        "a solver too slow to be shared",
        &["scheduler.solver.time=20us"],
        SHORT,
    ),
    mutation(
        "C12",
        "utilisation, 3D TLC / MLC, from the times",
        "a bus that either fills",
        &["media.timing.channel_rate=40MB/s"],
        SHORT,
    ),
    mutation(
        "C13",
        "active ways of a channel",
        "a host FTL that knows of the drive's one plane",
        &["host.ftl.write_units=1"],
        SHORT,
    ),
    mutation(
        "C14",
        "application's median latency, 64 / 16",
        "a buffer that never fills",
        &["host.ftl.buffer=65536", "host.cpu.cores=64"],
        SHORT,
    ),
    mutation(
        "C14",
        "application writes quicker than a program",
        "hardly a buffer",
        &["host.ftl.buffer=16"],
        SHORT,
    ),
    mutation(
        "C15",
        "SLC read 8x8, issuer and status checker together",
        "registers of the flash controllers that cost nothing, and a scheduler of hardware",
        &[
            "firmware.poll={ cycles = 0, fixed = 0 }",
            "firmware.register={ cycles = 0, fixed = 0 }",
            "firmware.visit={ cycles = 0, fixed = 0 }",
            "firmware.issue={ cycles = 0, fixed = 0 }",
            "firmware.status={ cycles = 0, fixed = 0 }",
        ],
        SHORT,
    ),
    mutation(
        "C15",
        "SLC read 8x8, time of the status checker, 64 outstanding / 1",
        "ends that cost nothing to find",
        &[
            "firmware.poll={ cycles = 0, fixed = 0 }",
            "firmware.visit={ cycles = 0, fixed = 0 }",
            "firmware.status={ cycles = 0, fixed = 0 }",
            "firmware.arrival={ cycles = 0, fixed = 0 }",
            "firmware.word={ cycles = 0, fixed = 0 }",
        ],
        SHORT,
    ),
    mutation(
        "L1",
        "open-channel, p99 of reads, 80/20",
        "a firmware processor on which the streams meet",
        &["firmware.slice.fixed=20us"],
        SHORT,
    ),
    mutation(
        "L1",
        "open-channel, same units, p99",
        "programs that take no time",
        &["media.timing.program=[\"1us\", \"1us\"]"],
        SHORT,
    ),
    mutation(
        "B1",
        "write amplification at 30",
        "victims at random",
        &["ftl.victim=random"],
        Size { shorter: 4, drive: &[] },
    )
    .at(&["0.3"]),
    mutation(
        "B2",
        "write amplification, streams apart, 100 %",
        "handles that are not told apart",
        &["ftl.handles=1"],
        Size { shorter: 1, drive: &["media.pages=128"] },
    )
    .at(&["Point { apart: true, utilisation: 1.0, spare: 0.28 }"]),
    mutation(
        "B2",
        "write amplification, streams apart, little spare space",
        "victims in the order in which they were written",
        &["ftl.victim=fifo"],
        Size { shorter: 1, drive: &["media.pages=128"] },
    )
    .at(&["Point { apart: true, utilisation: 1.0, spare: 0.05 }"]),
    mutation(
        "B3",
        "block drive, 7 % over-provisioning, p99.9",
        "programs and erases that take no time",
        &["media.timing.program=1us", "media.timing.erase=1us"],
        Size { shorter: 1, drive: &[] },
    ),
    mutation(
        "B6",
        "keys of the report that differ",
        "a cached table of two entries",
        &["ftl.map_cache=16"],
        SHORT,
    ),
    mutation("B6", "BAST, overwritten in order: switch merges", "a page map", &["ftl.map=page"], SHORT),
    mutation("B6", "BAST, blocks in turn: full merges", "a log block more", &["ftl.log_blocks=3"], SHORT),
    mutation(
        "B6",
        "FAST, blocks in turn: pages copied",
        "a log block for each logical block",
        &["ftl.map=bast"],
        SHORT,
    ),
    mutation("B6", "FAST, at random", "twice the log blocks", &["ftl.log_blocks=8"], SHORT),
    mutation("B8", "64 writes outstanding", "no static wear levelling", &["ftl.wear.static_gap=never"], FULL),
    mutation(
        "B4",
        "hit ratio, 1 keys",
        "victims in two modes, of which the valid items are kept",
        &["kv.victim=two-modes", "kv.keep=valid"],
        FULL,
    )
    .at(&["1.0"]),
    mutation(
        "F1",
        "sectors of a request out",
        "a buffer that writes runs of sectors instead of clusters",
        &["host.cluster_buffer.padding=false"],
        FULL,
    ),
    mutation(
        "F2",
        "erases with / without, geometric mean",
        "clusters much smaller than an erase unit",
        &["host.cluster_buffer.cluster=64KiB"],
        QUARTER,
    ),
    mutation(
        "F4",
        "Office install: elapsed with 8 MiB",
        "buffers of one size, whatever they are told",
        &["host.cluster_buffer.size=32MiB"],
        QUARTER,
    )
    .at(&["(OfficeInstall, 8)", "(OfficeInstall, 32)"]),
    mutation(
        "F3",
        "Office install: elapsed with / without, geometric mean",
        "drives that map pages, to which small writes cost little",
        &["ftl.map=page"],
        FULL,
    ),
    mutation(
        "F5",
        "SSD-5: gain of 8 KiB writes",
        "full clusters that stay in the buffer as long as others",
        &["host.cluster_buffer.early_retirement=false"],
        FULL,
    ),
    mutation(
        "F6",
        "elapsed with / without, FAT32 over NTFS",
        "a drive that maps pages, to which small writes cost little, and full clusters that stay in the buffer",
        &["ftl.map=page", "host.cluster_buffer.early_retirement=false"],
        FULL,
    ),
    mutation(
        "F7",
        "SSD-1: writes / those of the disk",
        "a drive that answers from a buffer in which all of the writes fit",
        &["buffer.write=write-back", "buffer.entries=16384"],
        SHORT,
    )
    .at(&["Platform { preset: \"netbook-ssd-1\""]),
    mutation(
        "P1",
        "hit ratio, Raw, cache of 6 %",
        "as much kept free by every engine, whatever its rate of writes",
        &["kv.over_provisioning=0.25"],
        QUARTER,
    )
    .at(&["Point { engine: Raw, size: 0.06, slower: 1.0 }"]),
    mutation(
        "P2",
        "throughput, Raw over Policy, cache of 10 %",
        "as much kept free by every engine, whatever its rate of writes",
        &["kv.over_provisioning=0.25"],
        QUARTER,
    )
    .at(&[
        "Point { engine: Raw, size: 0.1, slower: 1.0 }",
        "Point { engine: Policy, size: 0.1, slower: 1.0 }",
    ]),
    mutation(
        "P3",
        "throughput, sets only, Raw over Original",
        "a cache that copies nothing",
        &["kv.keep=nothing"],
        FULL,
    )
    .at(&["(Raw, 100)", "(Original, 100)"]),
    mutation(
        "P3",
        "throughput, Raw / Original, gets only over sets only",
        "gets that do not hold the server's core",
        &["kv.cpu.reads_block=false"],
        FULL,
    )
    .at(&["(Raw, 100)", "(Original, 100)", "(Raw, 0)", "(Original, 0)"]),
    mutation(
        "P4",
        "mean latency, sets only, Function / Policy",
        "a cache that copies nothing",
        &["kv.keep=nothing"],
        FULL,
    )
    .at(&["(Function, 100)", "(Policy, 100)"]),
    mutation(
        "P5",
        "erases, Function / Original",
        "a simulated drive that starts empty",
        &["precondition.fill=0"],
        FULL,
    )
    .at(&["Function", "Original"]),
    mutation(
        "J1",
        "Seq 4 KB, IO/s",
        "a buffer in which the writes of a page join",
        &["buffer.fifo=false"],
        FULL,
    )
    .at(&["(\"jasmine\", \"Seq 4 KB\", "]),
    mutation(
        "G1",
        "iterations take less time by",
        "pages of 4 KiB that are sensed as slowly as those of 16 KiB",
        &["media.timing.read=50us"],
        FULL,
    ),
    mutation(
        "G1",
        "preprocessing takes less time by",
        "programs that the processor waits for",
        &["media.timing.program=1500us"],
        FULL,
    ),
    mutation(
        "G1",
        "both take less time by",
        "programs that the processor waits for",
        &["media.timing.program=1500us"],
        FULL,
    ),
    mutation(
        "J1",
        "512 KB, IO/s",
        "dies that take their operations in any order",
        &["scheduler.order=fifo"],
        FULL,
    )
    .at(&["(\"jasmine\", \"512 KB\", "]),
    mutation(
        "J2",
        "random 4 KB, merge buffer, IO/s",
        "a mapping of whole pages under the merge buffer",
        &["media.unit_size=32KiB"],
        Size { shorter: 16, drive: &[] },
    ),
    mutation(
        "J3",
        "random 4 KB, read buffer / baseline",
        "a read that waits for its page",
        &["media.unit_size=32KiB"],
        Size { shorter: 4, drive: &[] },
    ),
    mutation("N1", "16 GB, page map", "a page map of whole flash pages", &["media.unit_size=32KiB"], FULL),
    mutation(
        "N2",
        "random read, nameless / baseline",
        "a host whose own work on a command takes longer than the flash",
        &["host.cpu.command=400us"],
        Size { shorter: 16, drive: &[] },
    )
    .at(&["(Nameless, RandomRead)", "(Baseline, RandomRead)"]),
    mutation(
        "N2",
        "random write of nameless / sequential write of the baseline",
        "a scheduler that fills every request of random writes",
        &["host.block_layer.join=newest"],
        Size { shorter: 16, drive: &[] },
    )
    .at(&["(Nameless, RandomWrite)", "(Baseline, SequentialWrite)"]),
];

/// Claims whose wrong models are tested elsewhere, with the place.
const ELSEWHERE: &[(&str, &str)] = &[
    ("L2", "each case of crates/testing/src/conformance asserts what it expects of drives of its own"),
    ("B5", "policies.rs: a_drive_that_is_greedy_whatever_it_is_told_misses"),
    ("B7", "data_sheets.rs: a_wrong_model_misses"),
    ("S1", "solid_state_cache/wrong.rs: s1_misses_without_garbage_collection"),
    ("S2", "solid_state_cache/wrong.rs: s2_misses_without_garbage_collection"),
    ("S3", "solid_state_cache/wrong.rs: s3_misses_with_a_costly_table"),
    ("S4", "solid_state_cache/wrong.rs: s4_misses_with_commits_on_the_disk"),
    ("U1", "file_system.rs: a_file_system_that_sees_one_channel_misses"),
    ("U2", "file_system.rs: a_file_system_on_a_block_drive_misses"),
    ("P6", "prism/lines.rs: a_wrong_order_misses"),
    ("F8", "flashfire/sizes.rs: the_sizes_of_another_work_miss"),
];

fn bench(mutation: &Mutation, wrong: &[&str]) -> Bench {
    let last = mutation.size.drive.iter().chain(wrong).map(|set| (*set).to_string()).collect();
    Bench::of_test(mutation.size.shorter, last).of_points(mutation.points)
}

fn outcome_of(mutation: &Mutation, bench: &Bench) -> Outcome {
    let claim = select(&[mutation.claim.to_string()]).unwrap()[0];
    claim.run(bench).unwrap_or_else(|e| panic!("{}, {}: {e}", mutation.claim, mutation.what))
}

fn named<'a>(mutation: &Mutation, outcome: &'a Outcome) -> &'a Check {
    let deciding = outcome.checks.iter().filter(|check| check.limit != Limit::Shown);
    let mut found = deciding.filter(|check| check.what.starts_with(mutation.check));
    let check = found.next().unwrap_or_else(|| panic!("{}: no check {}", mutation.claim, mutation.check));
    assert!(found.next().is_none(), "{}: two checks {}", mutation.claim, mutation.check);
    check
}

/// Size of the measurements, overrides of the model, and measured points.
type Measured = (Size, &'static [&'static str], &'static [&'static str]);

/// Each check holds on the right model at the same size, and misses on the wrong one. Claims of one study are tested together, so that it runs once
/// per model.
fn tell_apart(claims: &[&str]) {
    let mut benches: BTreeMap<Measured, Bench> = BTreeMap::new();
    let mut outcomes: BTreeMap<(&str, Measured), Outcome> = BTreeMap::new();
    for claim in claims {
        assert!(MUTATIONS.iter().any(|mutation| mutation.claim == *claim), "{claim}: no mutation");
    }
    for mutation in MUTATIONS.iter().filter(|mutation| claims.contains(&mutation.claim)) {
        let mut check = |wrong: &'static [&'static str]| {
            let measured: Measured = (mutation.size, wrong, mutation.points);
            let bench = benches.entry(measured).or_insert_with(|| bench(mutation, wrong));
            let outcome = outcomes.entry((mutation.claim, measured));
            named(mutation, outcome.or_insert_with(|| outcome_of(mutation, bench))).clone()
        };
        let (right, wrong) = (check(&[]), check(mutation.wrong));
        assert_eq!(right.verdict(), Verdict::Holds, "{}: {right:?}", mutation.claim);
        assert_eq!(wrong.verdict(), Verdict::Misses, "{}, {}: {wrong:?}", mutation.claim, mutation.what);
    }
}

macro_rules! a_wrong_model_misses {
    ($($(#[$attribute:meta])* $name:ident: $($claim:literal),+;)*) => {
        const TESTED: &[&str] = &[$($($claim),+),*];
        $($(#[$attribute])*
        #[test]
        fn $name() {
            tell_apart(&[$($claim),+]);
        })*
    };
}

a_wrong_model_misses! {
    #[cfg_attr(quick, ignore = "slow")]
    c1_to_c5_miss_wrong_models: "C1", "C2", "C3", "C4", "C5";
    #[cfg_attr(quick, ignore = "slow")]
    c6_and_c7_miss_a_wrong_model: "C6", "C7";
    #[cfg_attr(quick, ignore = "slow")]
    c8_misses_a_wrong_model: "C8";
    #[cfg_attr(quick, ignore = "slow")]
    c9_misses_a_wrong_model: "C9";
    #[cfg_attr(quick, ignore = "slow")]
    c10_misses_a_wrong_model: "C10";
    #[cfg_attr(quick, ignore = "slow")]
    c11_misses_a_wrong_model: "C11";
    c12_misses_a_wrong_model: "C12";
    #[cfg_attr(quick, ignore = "slow")]
    c13_and_c14_miss_wrong_models: "C13", "C14";
    #[cfg_attr(quick, ignore = "slow")]
    c15_misses_wrong_models: "C15";
    #[cfg_attr(quick, ignore = "slow")]
    l1_misses_a_wrong_model: "L1";
    #[cfg_attr(quick, ignore = "slow")]
    b1_misses_a_wrong_model: "B1";
    #[cfg_attr(quick, ignore = "slow")]
    b2_misses_a_wrong_model: "B2";
    #[cfg_attr(quick, ignore = "slow")]
    b6_misses_a_wrong_model: "B6";
    #[cfg_attr(quick, ignore = "slow")]
    b8_misses_a_wrong_model: "B8";
    #[cfg_attr(quick, ignore = "slow")]
    b4_misses_a_wrong_model: "B4";
    #[cfg_attr(quick, ignore = "slow")]
    p1_and_p2_miss_a_wrong_model: "P1", "P2";
    #[cfg_attr(quick, ignore = "slow")]
    p3_and_p4_miss_wrong_models: "P3", "P4";
    #[cfg_attr(quick, ignore = "slow")]
    p5_misses_a_wrong_model: "P5";
    #[cfg_attr(quick, ignore = "slow")]
    g1_misses_a_wrong_model: "G1";
    #[cfg_attr(quick, ignore = "slow")]
    j1_misses_a_wrong_model: "J1";
    #[cfg_attr(quick, ignore = "slow")]
    j2_misses_a_wrong_model: "J2";
    j3_misses_a_wrong_model: "J3";
    #[cfg_attr(quick, ignore = "slow")]
    n1_misses_a_wrong_model: "N1";
    #[cfg_attr(quick, ignore = "slow")]
    n2_misses_a_wrong_model: "N2";
    #[cfg_attr(quick, ignore = "slow")]
    f1_misses_a_wrong_model: "F1";
    #[cfg_attr(quick, ignore = "slow")]
    f2_misses_a_wrong_model: "F2";
    #[ignore = "a minute"]
    f3_misses_a_wrong_model: "F3";
    #[cfg_attr(quick, ignore = "slow")]
    f4_misses_a_wrong_model: "F4";
    #[ignore = "half a minute"]
    f5_misses_a_wrong_model: "F5";
    #[cfg_attr(quick, ignore = "slow")]
    f6_misses_a_wrong_model: "F6";
    #[cfg_attr(quick, ignore = "slow")]
    f7_misses_a_wrong_model: "F7";
    #[ignore = "minutes: with smaller blocks the range is another one"]
    b3_misses_a_wrong_model: "B3";
}

#[test]
fn every_claim_has_a_wrong_model_that_is_tested() {
    for claim in claims() {
        let is_elsewhere = ELSEWHERE.iter().any(|(id, _)| *id == claim.id);
        let is_mutated = MUTATIONS.iter().any(|mutation| mutation.claim == claim.id);
        assert!(is_elsewhere != is_mutated, "{}: a mutation, here or elsewhere", claim.id);
        assert!(is_elsewhere || TESTED.contains(&claim.id), "{}: its mutation is not tested", claim.id);
    }
}
