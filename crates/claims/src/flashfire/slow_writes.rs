//! F7: random writes of 4 KiB on five drives and on a disk, Fig. 1.
//!
//! The figure has bars without numbers. The text says that the fifth drive is the exception and that the other four are much slower than the disk, of
//! which it says only that it is a laptop's.

use super::{PLATFORMS, Platform};
use crate::bench::{Bench, ReproduceError};
use crate::described::{File, paper};
use crate::{Check, Figure, Limit, Outcome, vary};
use pellucid_report::Report;
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};

/// The experiments as users run them: the first drive, and a laptop's disk.
const DRIVE: File = paper!("flashfire-fig1.toml");
const DISK: File = paper!("flashfire-fig1-disk.toml");

/// "Much lower": less than half. The exception has at least half.
const MUCH: f64 = 0.5;

/// The disk, which the text does not name.
const UNKNOWN_DISK: (&str, &str) = (
    "the disk, from a laptop's that acknowledges no write before it is on the platter to a desktop's with a write cache of 32 MiB",
    "a laptop's, write cache of 8 MiB",
);
const VARIED_DISKS: [(&str, &[&str]); 3] = [
    ("no write cache", &["backing.write_cache=0"]),
    ("write cache of 2 MiB", &["backing.write_cache=2MiB"]),
    (
        "a desktop's",
        &[
            "backing.rpm=7200",
            "backing.seek_track=800us",
            "backing.seek_average=8900us",
            "backing.seek_full=21ms",
            "backing.write_cache=32MiB",
        ],
    ),
];

/// Writes per second.
fn rate(report: &Report) -> f64 {
    report.directions.write.iops
}

fn on_disk(bench: &Bench, own: &[&str]) -> Result<f64, ReproduceError> {
    let own: Vec<String> = own.iter().map(|set| (*set).to_string()).collect();
    Ok(rate(&DISK.run(bench, &own, &runtime(bench))?))
}

fn runtime(bench: &Bench) -> String {
    format!("runtime={}ms", 5000 / bench.shorter())
}

pub(crate) fn small_writes(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let drives = bench.map_or(&PLATFORMS, f64::NAN, |platform: &Platform| {
        let own = [format!("drive.preset={}", platform.preset)];
        Ok(rate(&DRIVE.run(bench, &own, &runtime(bench))?))
    })?;
    let disk = on_disk(bench, &[])?;
    let mut checks = against(&drives, disk);
    vary(bench, &mut checks, UNKNOWN_DISK, &VARIED_DISKS, |own| Ok(against(&drives, on_disk(bench, own)?)))?;
    let names = (1..=drives.len()).map(|number| format!("SSD-{number}")).chain(["disk".into()]);
    let rates: Vec<f64> = drives.iter().copied().chain([disk]).collect();
    for (name, rate) in names.clone().zip(&rates) {
        checks.push(Check::shown(format!("{name}: writes a second"), Unit::Plain, None, *rate));
    }
    let chart = BarChart::new("Fig. 1: random writes of 4 KiB", Bars::Grouped)
        .value_axis(Axis::log("writes/s", Unit::Count))
        .categories(names)
        .series("here", rates);
    let caption = "Random writes in a file of 100 MB, one at a time; a laptop's disk. The paper has bars without numbers.";
    Ok(Outcome { checks, figures: vec![Figure { caption: caption.into(), svg: chart.to_svg() }] })
}

/// The checks of the drives against a disk.
fn against(drives: &[f64], disk: f64) -> Vec<Check> {
    let last = drives.len() - 1;
    let check = |(at, rate): (usize, &f64)| {
        let what = format!("SSD-{}: writes / those of the disk", at + 1);
        let limit = if at == last { Limit::AtLeast(MUCH) } else { Limit::AtMost(MUCH) };
        Check::bound(what, Unit::Plain, rate / disk, limit)
    };
    drives.iter().enumerate().map(check).collect()
}
