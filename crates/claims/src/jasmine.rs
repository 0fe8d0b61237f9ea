//! J1 to J3: OpenSSD Jasmine with its reference firmware and with the optimised firmware ("Getting Real", 3.1: Table 2, Figs. 3 and 4).
//!
//! ```text
//!  J1, writes    fio ─► page cache, written back up the addresses ─► block layer, which merges ─► jasmine, its pages written before
//!  J2            the same, 4 KB, ─► jasmine-optimized
//!  J3, reads     some outstanding, in order or at random ─► either, written in order before
//! ```
//! Assumptions where the paper is silent (`docs/explanation/papers/jasmine.md` has the effect of each):
//!
//! - fio writes through the page cache, as by default: [`DIRTY`] of the partition waits to be written back, in address order. It is fitted to the
//!   mean request of the first row, 9 sectors.
//! - No request is larger than [`LARGEST`], the mean request of the row "Seq 4 KB".
//! - The rows were measured one after the other, the first on the empty device, of which it writes [`FIRST`]. The others find data in their pages, so
//!   that a partial write has to read the rest of its page.
//! - Random reads have [`READERS`] outstanding.

use super::bench::{Bench, ReproduceError};
use super::described::{File, add_words, execute, paper};
use super::{Check, Figure, Outcome};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute_on_disk, jobs, parse_job};
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};

/// Table 2 and Fig. 3: the first row on an empty device.
const WRITES: File = paper!("jasmine-table2.toml");
/// Fig. 4.
const READS: File = paper!("jasmine-fig4.toml");
/// Section 3.1.1: "tests on an 8 GB partition"; a quarter of it here, as only shares of it count.
const PARTITION_KIB: u32 = 2 << 20;
/// Offset at which the disk writes the 100 MB/s of its sequential row; the partition is assumed there.
const DISK_OFFSET: &str = "811GiB";
/// Share of the partition that waits to be written back.
const DIRTY: f64 = 0.10;
/// Share of the partition that the first row writes.
const FIRST: f64 = 0.30;
/// 336 sectors: the mean request of "Seq 4 KB".
const LARGEST: &str = "168KiB";
/// Outstanding random reads.
const READERS: u32 = 2;
/// Less than the capacity, so that little more than the partition is written.
const CAPACITY_KIB: u32 = 56 << 20;
const SECTOR: f64 = 512.0;

/// A row of Table 2.
#[derive(Debug)]
struct Row {
    name: &'static str,
    rw: &'static str,
    kib: u32,
    largest: &'static str,
    /// True if the row starts on an empty device.
    first: bool,
    published: f64,
    /// Column "Disk".
    disk: f64,
    /// Mean request in sectors, column 3.
    sectors: f64,
}

const fn random(name: &'static str, kib: u32, published: f64, sectors: f64, disk: f64) -> Row {
    Row { name, rw: "randwrite", kib, largest: LARGEST, first: false, published, disk, sectors }
}

const fn sequential(
    name: &'static str,
    largest: &'static str,
    published: f64,
    sectors: f64,
    disk: f64,
) -> Row {
    Row { name, rw: "write", kib: 4, largest, first: false, published, disk, sectors }
}

/// The published rows; the others are held out.
static ROWS: [Row; 7] = [
    Row { first: true, ..random("4 KB", 4, 2_560.0, 9.0, 1_497.0) },
    random("16 KB", 16, 1_920.0, 36.0, 563.0),
    random("32 KB", 32, 2_912.0, 82.0, 419.0),
    random("128 KB", 128, 648.0, 256.0, 212.0),
    random("512 KB", 512, 132.0, 266.0, 98.0),
    sequential("Seq 4 KB", LARGEST, 15_616.0, 336.0, 24_437.0),
    sequential("Seq 4+32 KB", "32KiB", 20_736.0, 64.0, 22_560.0),
];

impl Row {
    /// IO/s on a flash drive, and request size of the block layer in sectors.
    fn measure(&self, bench: &Bench, preset: &str) -> Result<(f64, f64), ReproduceError> {
        let partition = PARTITION_KIB / bench.shorter();
        let fill = if self.first { 0.0 } else { f64::from(partition) / f64::from(CAPACITY_KIB) };
        let (own, words) = self.recipe(partition);
        let drive = [format!("drive.preset={preset}"), format!("precondition.fill={fill:?}")];
        let report = WRITES.run(bench, &[&own[..], &drive].concat(), &words)?;
        let layer = report.parts.iter().find(|part| part.part == "block-layer");
        let figure = |name| layer.and_then(|part| part.get(name)).unwrap_or(0) as f64;
        let sectors = figure("block_layer_request_sectors") / figure("block_layer_requests");
        Ok((report.directions.write.iops, sectors))
    }

    /// IO/s on the disk, by the same recipe.
    fn on_disk(&self, bench: &Bench) -> Result<f64, ReproduceError> {
        let (mut own, job) = self.recipe(PARTITION_KIB / bench.shorter());
        own.extend(["host.layers=[\"block-layer\"]".into(), "host.block_layer.write_expire=1000s".into()]);
        let mut spec = pellucid_spec::load("wd1502faex", &own)?;
        spec.jobs = vec![parse_job(&format!("{job},offset={DISK_OFFSET}"), "the claim's job")];
        let report = execute_on_disk(&spec, &jobs(&spec)?, &|| 0.0, &mut Unwatched)?;
        Ok(report.directions.write.iops)
    }

    /// Overrides and job of the row on a partition of this size in KiB.
    fn recipe(&self, partition: u32) -> (Vec<String>, String) {
        let waiting = ((f64::from(partition / self.kib) * DIRTY) as u32).max(32);
        // A few times what waits, so that start and end do not matter.
        let requests = match self.first {
            true => (f64::from(partition / self.kib) * FIRST) as u32,
            false => (waiting * 6).max((200 << 10) / self.kib),
        };
        let own = vec![
            format!("host.block_layer.requests={waiting}"),
            format!("host.block_layer.largest={}", self.largest),
            // Waiting requests arrive at once, so they merge into the largest possible requests.
            format!("host.block_layer.plug={}", waiting + 1),
        ];
        let Row { rw, kib, .. } = self;
        (own, format!("rw={rw},bs={kib}k,iodepth={waiting},size={partition}k,number_ios={requests}"))
    }
}

/// J1: Table 2, as far as it is known.
pub(super) fn table(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let rows: Vec<&Row> = ROWS.iter().collect();
    let on = |drive: &'static str| ROWS.each_ref().map(|row| (drive, row.name, row));
    let absent = (f64::NAN, f64::NAN);
    let results = bench.map_or(&on("jasmine"), absent, |(preset, _, row)| row.measure(bench, preset))?;
    let mut checks = Vec::new();
    for (row, (iops, _)) in rows.iter().zip(&results) {
        checks.push(Check::within(format!("{}, IO/s", row.name), Unit::Plain, row.published, *iops, 0.10));
    }
    for (row, (_, sectors)) in rows.iter().zip(&results) {
        let what = format!("{}, sectors of a request", row.name);
        checks.push(Check::shown(what, Unit::Plain, Some(row.sectors), *sectors));
    }
    let disk = bench.map_or(&on("disk"), f64::NAN, |(.., row)| row.on_disk(bench))?;
    for (row, iops) in rows.iter().zip(disk) {
        checks.push(Check::shown(format!("{}, disk, IO/s", row.name), Unit::Plain, Some(row.disk), iops));
    }
    let rate = |row: &Row, iops: f64| iops * f64::from(row.kib) * 2.0 * SECTOR;
    let chart = BarChart::new("Table 2: writes on the reference firmware", Bars::Grouped)
        .value_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0))
        .categories(rows.iter().map(|row| row.name))
        .series("published", rows.iter().map(|row| rate(row, row.published)).collect())
        .series("measured", rows.iter().zip(&results).map(|(row, (iops, _))| rate(row, *iops)).collect());
    let caption = format!(
        "Writes through a page cache of which {:.0} % of the partition waits, and a block layer with requests of up to {LARGEST}.",
        DIRTY * 100.0
    );
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}

pub(super) fn merge_buffer(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let (scattered, ordered) = (&ROWS[0], &ROWS[5]);
    let points = [
        (scattered, "jasmine"),
        (ordered, "jasmine"),
        (scattered, "jasmine-optimized"),
        (ordered, "jasmine-optimized"),
    ];
    let results = bench.map(&points, |(row, preset)| Ok(row.measure(bench, preset)?.0))?;
    let [random, sequential, new_random, new_sequential] = results[..] else { unreachable!("four points") };
    let plain = Unit::Plain;
    let checks = vec![
        Check::within("random 4 KB, merge buffer, IO/s", plain, 22_528.0, new_random, 0.10),
        Check::within("random 4 KB, merge buffer / baseline", plain, 9.0, new_random / random, 0.10),
        Check::within("merge buffer, random / sequential", plain, 0.99, new_random / new_sequential, 0.10),
        Check::within(
            "sequential 4 KB, merge buffer / baseline",
            plain,
            1.22,
            new_sequential / sequential,
            0.10,
        ),
    ];
    let chart = chart("Fig. 3: writes of 4 KB", vec![random, sequential], vec![new_random, new_sequential])
        .series("published peak", vec![22_528.0; 2]);
    let caption = "4 KB writes as in Table 2; the peak is the paper's for the merge buffer.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}

fn chart(title: &str, baseline: Vec<f64>, new: Vec<f64>) -> BarChart {
    BarChart::new(title, Bars::Grouped)
        .value_axis(Axis::linear("IO/s", Unit::Count).from(0.0))
        .categories(["random", "sequential"])
        .series("baseline", baseline)
        .series("new", new)
}

pub(super) fn read_buffer(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let results = bench.map(&["jasmine", "jasmine-optimized"], |preset| {
        let partition = PARTITION_KIB / bench.shorter();
        let fill = f64::from(partition) / f64::from(CAPACITY_KIB);
        let own = [format!("drive.preset={preset}"), format!("precondition.fill={fill:?}")];
        let mut spec =
            READS.with(bench, &own, &bench.job(&format!("size={partition}k,iodepth={READERS}"), 6_000))?;
        add_words(&mut spec, 1, &bench.job(&format!("size={partition}k"), 1_500));
        let report = execute(&spec)?;
        let rate = |job: usize| report.jobs[job].requests.directions.read.throughput_bytes_per_second;
        Ok([rate(0), rate(1)])
    })?;
    let [[random, sequential], [new_random, new_sequential]] = results[..] else {
        unreachable!("two drives")
    };
    let (plain, ios) = (Unit::Plain, |rate: f64| rate / 4_096.0);
    let rate = Check::within("sequential, baseline", Unit::BytesPerSecond, 125e6, sequential, 0.10);
    let checks = vec![
        rate,
        Check::within("random 4 KB, baseline, IO/s", plain, 2_340.0, ios(random), 0.10),
        Check::within("random 4 KB, read buffer / baseline", plain, 2.0, new_random / random, 0.10),
        Check::within("sequential, read buffer / baseline", plain, 0.70, new_sequential / sequential, 0.10),
    ];
    let chart = chart(
        "Fig. 4: reads of 4 KB",
        vec![ios(random), ios(sequential)],
        vec![ios(new_random), ios(new_sequential)],
    )
    .series("published baseline", vec![2_340.0, 125e6 / 4_096.0]);
    let caption =
        format!("Random reads with {READERS} outstanding; sequential ones as read-ahead makes them.");
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}
