//! C13 and C14: Cosmos+ as an open-channel SSD, with pblk's job done by the host (section 7.5, Figs. 33 to 37).

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError, measure};
use super::{Check, Figure, Limit, Outcome};
use pellucid_device::Device;
use pellucid_host::Tower;
use pellucid_lab::drive::{Target, Unwatched, precondition_stack};
use pellucid_lab::experiment;
use pellucid_lab::experiment::prepare;
use pellucid_report::Report;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_spec::Spec;

/// Numbers of outstanding requests of section 6.4.
const OUTSTANDING: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Section 6.4: sequential requests of 16 KiB.
const JOB: &str = "bs=16k";
/// Requests of a measurement: 192 MiB, many times the host's write buffer.
const REQUESTS: u32 = 12_288;
/// Share of the capacity that is written before the run: more than is read.
const FILL: f64 = 1.0 / 32.0;
/// Region that is read, in MiB.
const READ_MIB: u32 = 768;
/// Table 5: program time in SLC mode.
const PROGRAM_NS: u64 = 486_000;
/// Ways of a channel.
const WAYS: f64 = 8.0;
const PRESET: &str = "cosmos-plus-open-channel";

/// Measurements at one number of outstanding requests.
#[derive(Clone, Debug)]
pub(super) struct Point {
    outstanding: u32,
    write: Report,
    read: Report,
    /// Mean latency of the writes sent to the drive, in ns.
    drive_write_ns: f64,
    block_write: f64,
    block_read: f64,
}

/// Both drives at each number of outstanding requests.
#[derive(Debug)]
pub(super) struct PblkStudy(Vec<Point>);

impl PblkStudy {
    pub fn run(bench: &Bench) -> Result<PblkStudy, ReproduceError> {
        let spec = open_channel(bench)?;
        let mut filled =
            experiment::stack(&spec, prepare(&Spec { precondition: nothing(&spec), ..spec.clone() }, None)?)?;
        precondition_stack(&mut filled, &spec.precondition, None, &mut Unwatched)?;
        bench.map(&OUTSTANDING, |&outstanding| point(bench, &spec, &filled, outstanding)).map(PblkStudy)
    }

    fn at(&self, outstanding: u32) -> &Point {
        let found = self.0.iter().find(|point| point.outstanding == outstanding);
        found.unwrap_or(&self.0[0])
    }
}

fn open_channel(bench: &Bench) -> Result<Spec, ReproduceError> {
    // 64 GiB of media, as in the other measurements of this drive.
    let own = [
        "media.blocks=512".to_string(),
        format!("precondition.fill={:?}", FILL / f64::from(bench.shorter())),
    ];
    bench.preset(PRESET, &own)
}

fn nothing(spec: &Spec) -> pellucid_spec::Precondition {
    pellucid_spec::Precondition { fill: pellucid_spec::Fill::Share(0.0), ..spec.precondition.clone() }
}

fn point(
    bench: &Bench,
    spec: &Spec,
    filled: &Tower<Device>,
    outstanding: u32,
) -> Result<Point, ReproduceError> {
    let work = bench.job(&format!("{JOB},iodepth={outstanding}"), REQUESTS);
    let job = |rw: &str| format!("rw={rw},size={}m,{work}", READ_MIB / bench.shorter());
    let read = measure(&mut filled.clone(), spec, &job("read"))?;
    let mut stack = filled.clone();
    let before = stack.host();
    let write = measure(&mut stack, spec, &job("write"))?;
    let drive_write_ns = match (before, stack.host()) {
        (Some(before), Some(after)) => {
            let writes = after.counters.drive_writes - before.counters.drive_writes;
            (after.counters.drive_write_ns - before.counters.drive_write_ns) as f64 / writes.max(1) as f64
        }
        _ => f64::NAN,
    };
    let block = Cosmos::new(Mode::Slc, 8, 8);
    let rate = |flow: Flow| -> Result<f64, ReproduceError> {
        Ok(flow.of(&bench.sequential(&block, flow, &work)?).throughput_bytes_per_second)
    };
    let (block_write, block_read) = (rate(Flow::Write)?, rate(Flow::Read)?);
    Ok(Point { outstanding, write, read, drive_write_ns, block_write, block_read })
}

fn write_rate(point: &Point) -> f64 {
    point.write.directions.write.throughput_bytes_per_second
}

fn read_rate(point: &Point) -> f64 {
    point.read.directions.read.throughput_bytes_per_second
}

/// C13: Figs. 33 and 37.
pub(super) fn throughput(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.pblk()?;
    let rates: Vec<f64> = study.0.iter().map(write_rate).collect();
    let most = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let many = study.at(64);
    let active = many.read.utilisation.mean_die().unwrap_or(f64::NAN) * WAYS;
    let plain = |what: &str, measured, limit| Check::bound(what, Unit::Plain, measured, limit);
    let checks = vec![
        plain("write throughput, most / least, 1 to 64 outstanding", most / least, Limit::AtMost(1.1)),
        plain(
            "write, open-channel / block drive, 64 outstanding",
            write_rate(many) / many.block_write,
            Limit::AtMost(1.0),
        ),
        plain(
            "read, open-channel / block drive, 64 outstanding",
            read_rate(many) / many.block_read,
            Limit::AtMost(1.0),
        ),
        plain(
            "read / write, open-channel, 64 outstanding",
            read_rate(many) / write_rate(many),
            Limit::AtMost(1.0),
        ),
        plain("active ways of a channel, reads, 64 outstanding", active, Limit::AtMost(4.0)),
    ];
    Ok(Outcome { checks, figures: vec![figure(study)] })
}

fn figure(study: &PblkStudy) -> Figure {
    let line =
        |of: fn(&Point) -> f64| study.0.iter().map(|p| (f64::from(p.outstanding), of(p))).collect::<Vec<_>>();
    let plot = Plot::new("Fig. 33: open-channel drive with a host FTL, and the block drive")
        .x_axis(Axis::doubling("outstanding requests", Unit::Count))
        .y_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0))
        .line("open-channel write", line(write_rate))
        .colour(0)
        .line("open-channel read", line(read_rate))
        .colour(1)
        .dashed("block write", line(|p| p.block_write))
        .colour(0)
        .dashed("block read", line(|p| p.block_read))
        .colour(1);
    Figure { caption: "16 KiB sequential, SLC mode, 8 x 8.".into(), svg: plot.to_svg() }
}

/// C14: Figs. 34 and 35.
pub(super) fn latency(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.pblk()?;
    let direction = |n: u32| &study.at(n).write.directions.write;
    let mean = |n: u32| direction(n).latency.mean_ns.unwrap_or(f64::NAN);
    // The mean must grow while throughput is steady (Little's law, C13); the claim is that the whole distribution shifts.
    let median = |n: u32| direction(n).latency.p50_ns.map_or(f64::NAN, |ns| ns as f64);
    let quick = direction(16).distribution.cumulative();
    let quick =
        quick.iter().take_while(|(ns, _)| *ns < PROGRAM_NS as f64).last().map_or(0.0, |(_, share)| *share);
    let drive: Vec<f64> = study.0.iter().map(|point| point.drive_write_ns).collect();
    let most = drive.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = drive.iter().copied().fold(f64::INFINITY, f64::min);
    let plain = |what: &str, measured, limit| Check::bound(what, Unit::Plain, measured, limit);
    let checks = vec![
        Check::bound(
            "application writes quicker than a program, 16 outstanding",
            Unit::Percent,
            quick,
            Limit::AtLeast(0.5),
        ),
        plain(
            "application's median latency, 64 / 16 outstanding",
            median(64) / median(16),
            Limit::AtLeast(1.5),
        ),
        plain(
            "application's median latency, 16 / 4 outstanding",
            median(16) / median(4),
            Limit::AtLeast(1.5),
        ),
        plain(
            "drive's mean write latency, most / least, 1 to 64 outstanding",
            most / least,
            Limit::AtMost(1.1),
        ),
    ];
    let mut plot = Plot::new("Fig. 34: latency of the application's writes")
        .x_axis(Axis::log("latency", Unit::Nanos))
        .y_axis(Axis::linear("share of writes at or below", Unit::Percent).from(0.0).to(1.0));
    for n in [1, 4, 16, 64] {
        plot = plot.line(&format!("{n} outstanding"), direction(n).distribution.cumulative());
    }
    let drive_line = study.0.iter().map(|p| (f64::from(p.outstanding), p.drive_write_ns)).collect();
    let application = study.0.iter().map(|p| (f64::from(p.outstanding), mean(p.outstanding))).collect();
    let means = Plot::new("Figs. 34 and 35: mean write latency, at the application and at the drive")
        .x_axis(Axis::doubling("outstanding requests", Unit::Count))
        .y_axis(Axis::log("latency", Unit::Nanos))
        .line("application", application)
        .line("drive", drive_line);
    let caption = "16 KiB sequential writes; the drive's are those that the host FTL sends, two pages each.";
    let figures = [plot, means].map(|p| Figure { caption: caption.into(), svg: p.to_svg() }).to_vec();
    Ok(Outcome { checks, figures })
}
