//! C12: channel utilisation while writing, with 3D TLC programmed in one shot (Fig. 32).

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::throughput::LARGE;
use super::{Check, Figure, Limit, Outcome};
use pellucid_report::plot::{Axis, BarChart, Bars, Unit};

const MODES: [Mode; 3] = [Mode::Slc, Mode::Mlc, Mode::Tlc];
/// "Large amounts of data": the writes of section 6.2.
const REQUESTS: u32 = 4_000;
/// Pages of 16 KiB outstanding per channel.
const OUTSTANDING: f64 = 16.0;
const WAYS: f64 = 8.0;
/// Tables 5 and 6: transfer time of a page with its spare area.
const PAGE_US: f64 = 90.24;

/// Pages of a program and its time in microseconds (Table 5, section 7.4).
fn program(mode: Mode) -> (f64, f64) {
    match mode {
        Mode::Slc => (1.0, 486.0),
        Mode::Mlc => (1.0, 1_388.0),
        Mode::Tlc => (3.0, 1_600.0),
    }
}

/// Busy share of a channel if each of its ways receives its pages, programs them and receives the next at once, as long as pages are outstanding; at
/// most 1.
fn derived(mode: Mode) -> f64 {
    let (pages, time) = program(mode);
    let ways = WAYS.min(OUTSTANDING / pages);
    (ways * pages * PAGE_US / (pages * PAGE_US + time)).min(1.0)
}

/// C12. A mere order would hold for every model whose one-shot program stores more than one page.
pub(super) fn utilisation(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let shares = bench.map(&MODES, |&mode| {
        let job = bench.job(LARGE, REQUESTS);
        let report = bench.sequential(&Cosmos::new(mode, 8, 8), Flow::Write, &job)?;
        Ok(report.utilisation.mean_channel().unwrap_or(f64::NAN))
    })?;
    let (mlc, tlc) = (shares[1], shares[2]);
    let mut checks = vec![
        Check::bound("utilisation, 3D TLC / MLC", Unit::Plain, tlc / mlc, Limit::AtLeast(1.0)),
        Check::derived(
            "utilisation, 3D TLC / MLC, from the times of transfer and program",
            Unit::Plain,
            derived(Mode::Tlc) / derived(Mode::Mlc),
            tlc / mlc,
            0.10,
        ),
    ];
    for (mode, share) in [(Mode::Mlc, mlc), (Mode::Tlc, tlc)] {
        let what = format!("utilisation, {}", mode.name());
        checks.push(Check::derived(what, Unit::Percent, derived(mode), share, 0.15));
    }
    let chart = BarChart::new("Fig. 32: channel utilisation while writing", Bars::Grouped)
        .value_axis(Axis::linear("busy", Unit::Percent).from(0.0).to(1.0))
        .categories(MODES.map(Mode::name))
        .series("", shares);
    let caption = "Mean busy share of the eight channels; 128 KiB sequential writes, 16 outstanding. Derived from the times of transfer and program: MLC 49 %, 3D TLC 77 %.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}
