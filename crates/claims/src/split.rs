//! C15: how the firmware's processor spends its time (sections 5, 6.4 and 7.1).
//!
//! The paper's scheduler starts host DMA and flash operations (its issuer) and detects their ends (its status checker). Idle turns of the polling
//! loop do not count.

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::throughput::LARGE;
use super::{Check, Figure, Limit, Outcome};
use pellucid_report::Report;
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};

/// Numbers of channels, each with as many ways.
const SQUARES: [u32; 3] = [2, 4, 8];
/// Requests of each measurement.
const REQUESTS: u32 = 1_500;
/// Outstanding requests of 16 KiB: fewest and most of Table 7.
const OUTSTANDING: [u32; 2] = [1, 64];
/// The paper's firmware has seven parts: NVMe manager, the FTL's four, issuer and status checker. "A significant portion" is read as at least the
/// share of two parts if all had equal shares.
const EVEN_SHARE: f64 = 2.0 / 7.0;

/// Breakdown of the processor's time in one run.
#[derive(Clone, Copy, Debug)]
struct Split {
    /// Busy time over the length of the measurement.
    busy: f64,
    /// Shares of the busy time.
    issuer: f64,
    checker: f64,
    dma: f64,
    ftl: f64,
    manager: f64,
}

impl Split {
    fn of(report: &Report) -> Split {
        let modules = report.utilisation.firmware_modules.unwrap_or_default();
        Split {
            busy: report.utilisation.firmware.unwrap_or(0.0),
            issuer: modules.issue,
            checker: modules.status,
            dma: modules.dma,
            ftl: modules.slice + modules.buffer + modules.translation + modules.dependency + modules.gc,
            manager: modules.fetch + modules.complete + modules.admin,
        }
    }

    fn scheduler(&self) -> f64 {
        self.issuer + self.checker
    }

    fn shares(&self) -> [(&'static str, f64); 5] {
        [
            ("issuer", self.issuer),
            ("status checker", self.checker),
            ("host DMA", self.dma),
            ("FTL", self.ftl),
            ("NVMe manager", self.manager),
        ]
    }
}

pub(super) fn time(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let (mut checks, mut figures) = (Vec::new(), Vec::new());
    for flow in Flow::BOTH {
        let name = flow.name();
        let splits = over_devices(bench, flow)?;
        let largest = splits[SQUARES.len() - 1];
        let what = format!("SLC {name} 8x8, issuer and status checker together");
        checks.push(Check::bound(what, Unit::Percent, largest.scheduler(), Limit::AtLeast(EVEN_SHARE)));
        for (what, share) in largest.shares() {
            let what = format!("SLC {name} 8x8, {what}");
            checks.push(Check::shown(what, Unit::Percent, None, share));
        }
        for (pair, squares) in splits.windows(2).zip(SQUARES.windows(2)) {
            let time = |split: &Split| split.scheduler() * split.busy;
            let [small, large] = [squares[0], squares[1]];
            let what =
                format!("SLC {name}, time of issuer and status checker, {large}x{large} / {small}x{small}");
            let measured = time(&pair[1]) / time(&pair[0]);
            checks.push(Check::bound(what, Unit::Plain, measured, Limit::AtLeast(1.0)));
        }
        figures.push(figure(name, &splits));
    }
    let [few, many] = over_outstanding(bench)?.map(|split| split.checker * split.busy);
    let what = "SLC read 8x8, time of the status checker, 64 outstanding / 1";
    checks.push(Check::bound(what, Unit::Plain, many / few, Limit::AtLeast(1.0)));
    Ok(Outcome { checks, figures })
}

/// The workload of C9 at the default clock, in the order of [`SQUARES`].
fn over_devices(bench: &Bench, flow: Flow) -> Result<Vec<Split>, ReproduceError> {
    bench.map(&SQUARES, |&square| {
        let drive = Cosmos::new(Mode::Slc, square, square);
        let report = bench.sequential(&drive, flow, &bench.job(LARGE, REQUESTS))?;
        Ok(Split::of(&report))
    })
}

/// Reads of C6, by [`OUTSTANDING`].
fn over_outstanding(bench: &Bench) -> Result<[Split; 2], ReproduceError> {
    let splits = bench.map(&OUTSTANDING, |&outstanding| {
        let job = bench.job(&format!("bs=16k,iodepth={outstanding}"), 128 * (24 + 5 * outstanding));
        let report = bench.sequential(&Cosmos::new(Mode::Slc, 8, 8), Flow::Read, &job)?;
        Ok(Split::of(&report))
    })?;
    Ok([splits[0], splits[1]])
}

fn figure(name: &str, splits: &[Split]) -> Figure {
    let mut chart = BarChart::new(&format!("Firmware time: SLC {name}"), Bars::Stacked)
        .value_axis(Axis::linear("share of the processor's busy time", Unit::Percent).from(0.0))
        .categories(SQUARES.map(|n| format!("{n}x{n}")));
    for part in 0..splits[0].shares().len() {
        let values = splits.iter().map(|split| split.shares()[part].1).collect();
        chart = chart.series(splits[0].shares()[part].0, values);
    }
    Figure {
        caption: "Measured here: 128 KiB sequential, 16 outstanding, n channels x n ways.".into(),
        svg: chart.to_svg(),
    }
}
