//! C9: throughput over the clock of the firmware processor (Fig. 27).

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::throughput::LARGE;
use super::{Check, Figure, Limit, Outcome};
use pellucid_report::plot::{Axis, Plot, Unit};

const CLOCKS_MHZ: [u32; 9] = [200, 300, 400, 500, 600, 700, 800, 900, 1000];
/// Numbers of channels, each with as many ways.
const SQUARES: [u32; 3] = [2, 4, 8];
/// Requests of each measurement.
const REQUESTS: u32 = 1_500;
/// A clock saturates throughput if it reaches this share of the throughput at the highest clock.
const SATURATED: f64 = 0.95;

/// Throughput in bytes per second by clock.
type Curve = [f64; CLOCKS_MHZ.len()];

/// The share of throughput that is lost at the lowest clock.
fn loss(curve: &Curve) -> f64 {
    1.0 - curve[0] / curve[CLOCKS_MHZ.len() - 1]
}

/// The lowest clock that saturates throughput.
fn saturation_mhz(curve: &Curve) -> f64 {
    let enough = SATURATED * curve[CLOCKS_MHZ.len() - 1];
    let from = CLOCKS_MHZ.iter().zip(curve).rev().take_while(|(_, rate)| **rate >= enough).last();
    from.map_or(f64::NAN, |(&clock, _)| f64::from(clock))
}

pub(super) fn frequencies(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut checks = Vec::new();
    let mut figures = Vec::new();
    for mode in [Mode::Slc, Mode::Mlc] {
        let [reads, writes] = measure(bench, mode)?;
        let name = mode.name();
        for (flow, curves) in [("read", &reads), ("write", &writes)] {
            for pair in [[0, 1], [1, 2]] {
                let [small, large] = pair.map(|i| SQUARES[i]);
                let what = format!("{name} {flow}, loss at 200 MHz, {large}x{large} - {small}x{small}");
                let measured = loss(&curves[pair[1]]) - loss(&curves[pair[0]]);
                checks.push(Check::bound(what, Unit::Percent, measured, Limit::AtLeast(0.0)));
                let what = format!("{name} {flow}, MHz that are enough, {large}x{large} - {small}x{small}");
                let measured = saturation_mhz(&curves[pair[1]]) - saturation_mhz(&curves[pair[0]]);
                checks.push(Check::bound(what, Unit::Plain, measured, Limit::AtLeast(0.0)));
            }
        }
        let what = format!("{name} 8x8, loss at 200 MHz of reads - of writes");
        let measured = loss(&reads[2]) - loss(&writes[2]);
        checks.push(Check::bound(what, Unit::Percent, measured, Limit::AtLeast(0.0)));
        // A model that ignores the clock would pass everything above.
        let what = format!("{name} read 8x8, loss at 200 MHz");
        checks.push(Check::bound(what, Unit::Percent, loss(&reads[2]), Limit::AtLeast(0.05)));
        figures.push(figure(mode, &reads, &writes));
    }
    Ok(Outcome { checks, figures })
}

/// Reads and writes, each in the order of [`SQUARES`].
fn measure(bench: &Bench, mode: Mode) -> Result<[[Curve; SQUARES.len()]; 2], ReproduceError> {
    let per_clock = |flow, square| CLOCKS_MHZ.map(|mhz| (mode, flow, square, mhz));
    let per_square = |flow| SQUARES.into_iter().flat_map(move |square| per_clock(flow, square));
    let points: Vec<(Mode, Flow, u32, u32)> = Flow::BOTH.into_iter().flat_map(per_square).collect();
    let rates = bench.map_or(&points, f64::NAN, |&(mode, flow, square, mhz)| {
        let drive = Cosmos::new(mode, square, square).set(format!("firmware.clock_mhz={mhz}"));
        let report = bench.sequential(&drive, flow, &bench.job(LARGE, REQUESTS))?;
        Ok(flow.of(&report).throughput_bytes_per_second)
    })?;
    let curve = |flow: usize, square: usize| {
        let from = (flow * SQUARES.len() + square) * CLOCKS_MHZ.len();
        std::array::from_fn(|i| rates[from + i])
    };
    Ok([0, 1].map(|flow| [0, 1, 2].map(|square| curve(flow, square))))
}

fn figure(mode: Mode, reads: &[Curve], writes: &[Curve]) -> Figure {
    let mut plot = Plot::new(&format!("Fig. 27: {} mode, throughput over clock", mode.name()))
        .x_axis(Axis::linear("processor clock in MHz", Unit::Plain).from(0.0).to(1000.0))
        .y_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0));
    let points = |curve: &Curve| CLOCKS_MHZ.map(f64::from).into_iter().zip(*curve).collect::<Vec<_>>();
    for (i, n) in SQUARES.into_iter().enumerate() {
        plot = plot.line(&format!("{n}x{n} read"), points(&reads[i])).colour(i);
        plot = plot.dashed(&format!("{n}x{n} write"), points(&writes[i])).colour(i);
    }
    let caption = "Measured here: 128 KiB sequential, 16 outstanding, n channels x n ways.".into();
    Figure { caption, svg: plot.to_svg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_is_the_lowest_clock_from_which_on_all_are_enough() {
        let curve = [10.0, 60.0, 96.0, 94.0, 95.0, 97.0, 98.0, 99.0, 100.0];
        assert_eq!(saturation_mhz(&curve), 600.0);
        assert_eq!(loss(&curve), 0.9);
        assert_eq!(saturation_mhz(&[100.0; 9]), 200.0);
    }
}
