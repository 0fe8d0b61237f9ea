//! B7: the presets of modern drives beside the published figures of the real drives.
//!
//! ```text
//!  reads, depth 1     all dies of the preset, fewer blocks: without GC, the number of blocks does not matter
//!  sustained writes   a quarter of channels, buffer, link, firmware and outstanding requests; each die as in the preset
//!  SLC cache          filled by the job itself, which never exceeds it
//! ```
//! `docs/explanation/presets.md` has the source of each published number.

use super::bench::{Bench, ReproduceError, measure};
use super::{Check, Outcome};
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::Unit;

/// Within this share of the published number.
const SHARE: f64 = 0.20;
/// Divisor of the channels, and of everything they share, in the drive under sustained writes.
const QUARTER: f64 = 4.0;

/// Micron 7450 PRO, 3.84 TB; at depth 1 the data sheet of the Micron 9200.
const DATACENTER: &str = "datacenter-tlc";
/// Intel SSD 670p, 2 TB.
const CLIENT: &str = "client-qlc";

/// Measured figure.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// Requests per second.
    Requests,
    /// Bytes per second.
    Rate,
}

/// One published number.
struct Point {
    preset: &'static str,
    what: &'static str,
    figure: Figure,
    published: f64,
    /// Overrides that scale the drive down.
    sets: &'static [&'static str],
    /// Jobs before the measurement, and the measured one.
    before: &'static [&'static str],
    job: &'static str,
    /// Factor by which the measured drive is scaled down.
    scale: f64,
}

/// All dies, 3 GiB of flash.
const SMALL_DATACENTER: &[&str] = &[
    "media.blocks=64",
    "media.pages=24",
    "media.timing.erase=94us",
    "ftl.over_provisioning=0.35",
    "precondition.fill=1.0",
];
/// A quarter of the dies and of what they share. Blocks are half as large, and so are erases.
const QUARTER_DATACENTER: &[&str] = &[
    "media.channels=2",
    "media.pages=48",
    "media.timing.erase=188us",
    "host.link_rate=1.95GB/s",
    "firmware.fetch.fixed=1600ns",
    "firmware.issue.fixed=1100ns",
    "firmware.complete.fixed=1100ns",
    "buffer.entries=4096",
    "precondition.fill=1.0",
    "precondition.overwrite=2.0",
];
/// All dies; blocks for data as well as for the cache's 512 MiB.
const SMALL_CLIENT: &[&str] = &["media.blocks=64", "ftl.over_provisioning=0.35", "precondition.fill=1.0"];
/// A quarter of the cache.
const CACHED: &[&str] = &["rw=write,bs=128k,iodepth=32,size=128m"];

const POINTS: [Point; 12] = [
    Point::of(
        DATACENTER,
        "random reads, depth 1",
        1e6 / 92.0,
        SMALL_DATACENTER,
        "rw=randread,bs=4k,iodepth=1,number_ios=4000",
    ),
    Point::of(
        DATACENTER,
        "random writes, depth 1",
        1e6 / 21.0,
        SMALL_DATACENTER,
        "rw=randwrite,bs=4k,iodepth=1,number_ios=4000",
    ),
    Point::of(
        DATACENTER,
        "random reads, depth 256",
        1_000_000.0,
        SMALL_DATACENTER,
        "rw=randread,bs=4k,iodepth=256,number_ios=100000",
    ),
    Point {
        scale: QUARTER,
        ..Point::of(
            DATACENTER,
            "random writes, depth 256, steady",
            190_000.0,
            QUARTER_DATACENTER,
            "rw=randwrite,bs=4k,iodepth=64,number_ios=150000",
        )
    },
    Point {
        figure: Figure::Rate,
        ..Point::of(
            DATACENTER,
            "sequential reads",
            6.8e9,
            SMALL_DATACENTER,
            "rw=read,bs=128k,iodepth=32,number_ios=8000",
        )
    },
    Point {
        figure: Figure::Rate,
        ..Point::of(
            DATACENTER,
            "sequential writes",
            5.6e9,
            SMALL_DATACENTER,
            "rw=write,bs=128k,iodepth=32,number_ios=8000",
        )
    },
    Point {
        before: CACHED,
        ..Point::of(
            CLIENT,
            "random reads in the cache, depth 1",
            20_000.0,
            SMALL_CLIENT,
            "rw=randread,bs=4k,iodepth=1,size=128m,number_ios=4000",
        )
    },
    Point::of(
        CLIENT,
        "random writes, depth 1",
        54_000.0,
        SMALL_CLIENT,
        "rw=randwrite,bs=4k,iodepth=1,number_ios=4000",
    ),
    Point {
        before: CACHED,
        ..Point::of(
            CLIENT,
            "random reads in the cache, depth 256",
            310_000.0,
            SMALL_CLIENT,
            "rw=randread,bs=4k,iodepth=256,size=128m,number_ios=60000",
        )
    },
    Point::of(
        CLIENT,
        "random writes to the cache, depth 256",
        340_000.0,
        SMALL_CLIENT,
        "rw=randwrite,bs=4k,iodepth=256,number_ios=80000",
    ),
    Point {
        figure: Figure::Rate,
        ..Point::of(
            CLIENT,
            "sequential reads",
            3.5e9,
            SMALL_CLIENT,
            "rw=read,bs=128k,iodepth=32,number_ios=8000",
        )
    },
    Point {
        figure: Figure::Rate,
        ..Point::of(
            CLIENT,
            "sequential writes to the cache",
            2.7e9,
            SMALL_CLIENT,
            "rw=write,bs=128k,iodepth=32,number_ios=3500",
        )
    },
];

impl Point {
    const fn of(
        preset: &'static str,
        what: &'static str,
        published: f64,
        sets: &'static [&'static str],
        job: &'static str,
    ) -> Point {
        Point { preset, what, figure: Figure::Requests, published, sets, before: &[], job, scale: 1.0 }
    }

    fn check(&self, bench: &Bench) -> Result<Check, ReproduceError> {
        let own: Vec<String> = self.sets.iter().map(ToString::to_string).collect();
        let spec = bench.preset(self.preset, &own)?;
        let mut device = prepare(&spec, None)?;
        for job in self.before {
            measure(&mut device, &spec, job)?;
        }
        let report = measure(&mut device, &spec, self.job)?;
        let both = [&report.directions.read, &report.directions.write];
        let direction = both.into_iter().max_by_key(|direction| direction.requests).expect("two");
        let (measured, unit) = match self.figure {
            Figure::Requests => (direction.iops, Unit::Plain),
            Figure::Rate => (direction.throughput_bytes_per_second, Unit::BytesPerSecond),
        };
        let what = format!("{}, {}", self.preset, self.what);
        Ok(Check::within(what, unit, self.published, measured * self.scale, SHARE))
    }
}

pub(super) fn figures(bench: &Bench) -> Result<Outcome, ReproduceError> {
    Ok(Outcome { checks: bench.map(&POINTS, |point| point.check(bench))?, figures: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    /// The checks that miss when the model is changed by `set`.
    fn missed(set: &str, only: impl Fn(&Point) -> bool) -> Vec<&'static str> {
        let bench = Bench::new(2, 1, vec![set.into()]);
        let points = POINTS.iter().filter(|point| only(point));
        let missed = points.filter(|point| point.check(&bench).unwrap().verdict() != Verdict::Holds);
        missed.map(|point| point.what).collect()
    }

    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_wrong_model_misses() {
        let reads = |point: &Point| point.what == "random reads, depth 256";
        assert_eq!(missed("media.independent_plane_reads=false", reads), ["random reads, depth 256"]);
        let shallow = |point: &Point| point.what.ends_with("depth 1");
        let expected = ["random reads, depth 1", "random writes, depth 1", "random writes, depth 1"];
        assert_eq!(missed("host.fetch=1us", shallow), expected, "of both drives");
        let cached = |point: &Point| point.preset == CLIENT && point.what.contains("to the cache");
        let expected = ["random writes to the cache, depth 256", "sequential writes to the cache"];
        assert_eq!(missed("ftl.slc_cache.blocks=0", cached), expected);
        let steady = |point: &Point| point.what.ends_with("steady");
        assert_eq!(missed("ftl.over_provisioning=0.09", steady), ["random writes, depth 256, steady"]);
    }
}
