//! B6: a map in flash and log-block hybrids against the analysis of their algorithms.
//!
//! DFTL (Gupta, Kim, Urgaonkar, ASPLOS 2009) with a cached table that holds every entry has nothing to read and nothing to evict: it is
//! the page map. BAST (Kim et al., IEEE Transactions on Consumer Electronics 48(2), 2002) and FAST (Lee et al., ACM Transactions on
//! Embedded Computing Systems 6(3), 2007) have N logical blocks of P pages and k log blocks. One die, superpages of one page, one write at
//! a time, and every page holds data before; so merges follow from the pattern:
//!
//! ```text
//!  in order            every log block holds its logical block in order: one switch merge for P writes, no copy
//!  one page each,      BAST: every write but the first k finds no log block and takes that of the block written longest ago, which
//!  round robin         holds one page out of place: a full merge of P copies. W - k of them after W writes.
//!                      FAST: each log block has pages of P logical blocks, none of which the other log blocks have if N >= (k + 1) P.
//!                      From the (k + 1)th P writes on, each P writes cost P full merges of P copies: P (W / P - k) of them
//!  at random           BAST, log blocks by use: a write finds its log block with probability k / N, so 1 + P (1 - k / N) programs a write.
//!                      FAST: one write in P hits a first page and takes the sequential log block; P - 1 pages are copied behind it. Of
//!                      the others (renewal) a logical block is merged kP - P / 2 writes after the first one since its last merge, for
//!                      which it waits N writes. So 1 + (P - 1) / P (1 + P N / (N + kP - P / 2)) programs a write
//! ```

use super::bench::{Bench, ReproduceError, measure};
use super::{Check, Limit, Outcome};
use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, Rng};
use pellucid_ftl::{FtlCounters, MergeKind};
use pellucid_lab::experiment::prepare;
use pellucid_report::Report;
use pellucid_report::plot::Unit;
use serde_json::Value;

/// N, P and k.
const BLOCKS: u32 = 128;
const PAGES: u32 = 32;
const LOGS: u32 = 2;
/// Blocks of the media beside those of data: log blocks, merges, metadata.
const OTHERS: u32 = 16;

/// One die.
const DRIVE: &str = r#"
[drive.media]
channels = 1
ways = 1
page_size = "4KiB"
sector_size = 4096
unit_size = "4KiB"
cell = "slc"
store = "none"
[drive.media.timing]
read = "75us"
program = "750us"
erase = "3.8ms"
channel_rate = "333MB/s"
[drive.ftl]
wear.dynamic = false
[drive.buffer]
entries = 64
write = "write-through"
retain = false
[precondition]
fill = 1.0
"#;

pub(super) fn maps(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut checks = vec![cached_table(bench)?];
    let hybrids = bench.map(&["bast", "fast"], |map| hybrid(bench, map))?;
    checks.extend(hybrids.into_iter().flatten());
    Ok(Outcome { checks, figures: Vec::new() })
}

/// Runs the same mixed work on a page map and on a map in flash whose cached table holds every entry.
fn cached_table(bench: &Bench) -> Result<Check, ReproduceError> {
    let reports = bench.map(&["page", "demand"], |map| {
        let own = [
            format!("ftl.map={map}"),
            "ftl.map_cache=\"1MiB\"".into(),
            "media.blocks=64".into(),
            "media.pages=64".into(),
            "ftl.over_provisioning=0.3".into(),
            "precondition.overwrite=1.0".into(),
        ];
        // Deliberate errors are applied to the second drive.
        let spec = bench.drive(DRIVE, "the drive of the claim", &own)?;
        let mut device = prepare(&spec, None)?;
        let count = 8_000 / bench.shorter();
        let job =
            format!("rw=randrw,bs=4k,iodepth=16,fsync=100,number_ios={count},randseed={}", bench.seed() >> 1);
        measure(&mut device, &spec, &job)
    })?;
    let reports: Vec<Value> = reports.iter().map(comparable).collect();
    let what = "keys of the report that differ, table of everything / page map";
    Ok(Check::bound(what, Unit::Plain, differences(&reports[0], &reports[1]), Limit::AtMost(0.0)))
}

/// A report without the fields that name its translation.
fn comparable(report: &Report) -> Value {
    // The cost of the run on this machine is not a result.
    let report = Report { host: None, map_cache: None, drive: Default::default(), ..report.clone() };
    serde_json::to_value(&report).unwrap_or_default()
}

/// Number of values that differ.
fn differences(one: &Value, other: &Value) -> f64 {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let missing = b.keys().filter(|key| !a.contains_key(*key)).count() as f64;
            let each =
                |(key, value): (&String, &Value)| b.get(key).map_or(1.0, |other| differences(value, other));
            missing + a.iter().map(each).sum::<f64>()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| differences(a, b)).sum()
        }
        _ => f64::from(u8::from(one != other)),
    }
}

/// A drive of [`BLOCKS`] logical blocks, full of data.
struct Hybrid {
    device: Device,
    image: Vec<u8>,
}

/// Cost of a series of writes.
struct Cost {
    ftl: FtlCounters,
    programs_per_write: f64,
}

impl Cost {
    fn merges(&self, kind: MergeKind) -> f64 {
        self.ftl.merges[kind as usize].merges as f64
    }

    fn copies(&self) -> f64 {
        self.ftl.merges.iter().map(|kind| kind.copied_units).sum::<u64>() as f64
    }
}

impl Hybrid {
    fn new(bench: &Bench, map: &str, blocks: u32) -> Result<Hybrid, ReproduceError> {
        let own = [
            format!("ftl.map={map}"),
            format!("ftl.log_blocks={LOGS}"),
            format!("media.blocks={}", blocks + OTHERS),
            format!("media.pages={PAGES}"),
            format!("ftl.capacity={}", u64::from(blocks * PAGES) * 4096),
        ];
        let spec = bench.drive(DRIVE, "the drive of the claim", &own)?;
        let device = prepare(&spec, None)?;
        let image = vec![0; device.image_bytes()];
        Ok(Hybrid { device, image })
    }

    /// Writes these pages, one at a time.
    fn write(&mut self, pages: impl IntoIterator<Item = u32>) -> Cost {
        let before = (self.device.ftl_counters(), self.device.counters());
        let mut writes = 0;
        for page in pages {
            let command =
                Command::new(u64::from(page), Opcode::Write, Lba(page.into()), 1, self.image.clone());
            self.device.submit(self.device.now(), command);
            // Background merges end before the next write.
            while let Some(next) = self.device.next_event() {
                self.device.advance(next);
            }
            writes += u64::from(self.device.pop().is_some());
        }
        let (ftl, counters) = (self.device.ftl_counters(), self.device.counters());
        let programs = |all: &[u64]| all.iter().sum::<u64>();
        let programmed = programs(&counters.programs) - programs(&before.1.programs);
        Cost {
            ftl: FtlCounters { merges: ftl.since(&before.0).merges, ..ftl },
            programs_per_write: programmed as f64 / writes.max(1) as f64,
        }
    }
}

fn hybrid(bench: &Bench, map: &str) -> Result<Vec<Check>, ReproduceError> {
    let (n, p, k) = (f64::from(BLOCKS), f64::from(PAGES), f64::from(LOGS));
    let name = map.to_uppercase();
    let exactly = |what: String, expected: f64, measured: f64| {
        let (low, high) = (expected - 0.5, expected + 0.5);
        Check {
            published: Some(expected),
            derived: true,
            ..Check::bound(what, Unit::Plain, measured, Limit::Between(low, high))
        }
    };
    // In order, twice.
    let in_order =
        Hybrid::new(bench, map, BLOCKS)?.write((0..2 * BLOCKS * PAGES).map(|at| at % (BLOCKS * PAGES)));
    let mut checks = vec![
        exactly(
            format!("{name}, overwritten in order: switch merges"),
            2.0 * n,
            in_order.merges(MergeKind::Switch),
        ),
        exactly(format!("{name}, overwritten in order: pages copied"), 0.0, in_order.copies()),
    ];
    // Page 1 of each logical block in turn, then page 2, ...
    let rounds = 4 * (LOGS + 1);
    let writes = rounds * PAGES;
    let in_turn = (0..writes).map(|at| at % BLOCKS * PAGES + 1 + at / BLOCKS);
    let in_turn = Hybrid::new(bench, map, BLOCKS)?.write(in_turn);
    let merges = match map {
        "bast" => f64::from(writes - LOGS),
        // The last log block is full; only the next write would merge another one.
        _ => p * f64::from(rounds - LOGS),
    };
    checks.push(exactly(
        format!("{name}, blocks in turn: full merges"),
        merges,
        in_turn.merges(MergeKind::Full),
    ));
    checks.push(exactly(format!("{name}, blocks in turn: pages copied"), merges * p, in_turn.copies()));
    // At random, measured from the steady state on.
    let mut rng = Rng::stream(bench.seed(), "random writes");
    let mut hybrid = Hybrid::new(bench, map, BLOCKS)?;
    let mut random =
        |count: u32| (0..count).map(|_| rng.below(u64::from(BLOCKS * PAGES)) as u32).collect::<Vec<_>>();
    hybrid.write(random(4 * LOGS * PAGES));
    let at_random = hybrid.write(random(8_000 / bench.shorter()));
    let expected = match map {
        "bast" => 1.0 + p * (1.0 - k / n),
        _ => 1.0 + (p - 1.0) / p * (1.0 + p * n / (n + k * p - p / 2.0)),
    };
    let what = format!("{name}, at random: programs for each write");
    checks.push(Check::derived(what, Unit::Plain, expected, at_random.programs_per_write, 0.05));
    Ok(checks)
}
