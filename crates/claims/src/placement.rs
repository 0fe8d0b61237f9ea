//! C8: three placement schemes, their latency (Fig. 25) and how evenly they spread a request (Fig. 26).

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::{Check, Figure, Limit, Outcome};
use pellucid_device::Device;
use pellucid_flash::Lpn;
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::{Axis, Plot, Unit};

/// Request sizes in KiB. The smallest fills all channels, or all ways, once: below it, neither scheme could reach a deviation of zero, which the
/// paper reports in all cases.
const SIZES_KIB: [u32; 4] = [128, 256, 512, 1024];
/// Requests of each measurement.
const REQUESTS: u32 = 400;

/// The paper's names, and ours.
const SCHEMES: [(&str, &str); 3] =
    [("ChPrev", "channel-first"), ("WayPrev", "way-first"), ("Random", "random")];
const CH_PREV: usize = 0;
const WAY_PREV: usize = 1;
const RANDOM: usize = 2;

/// Result of one scheme at one size.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Mean latency of reads and of writes.
    latency_ns: [f64; 2],
    /// Mean over requests of the standard deviation of the bytes on each channel, and on each way.
    deviation_bytes: [f64; 2],
}

pub(super) fn schemes(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let points: Vec<(usize, u32)> =
        (0..SCHEMES.len()).flat_map(|scheme| SIZES_KIB.map(|kib| (scheme, kib))).collect();
    let measured = bench.map(&points, |&(scheme, kib)| measure(bench, SCHEMES[scheme].1, kib))?;
    let study = Study(measured);
    Ok(Outcome { checks: study.checks(), figures: study.figures() })
}

fn measure(bench: &Bench, placement: &str, kib: u32) -> Result<Measured, ReproduceError> {
    let drive = Cosmos::new(Mode::Slc, 8, 8).set(format!("ftl.placement={placement}"));
    let job = bench.job(&format!("bs={kib}k,iodepth=1"), REQUESTS);
    let mut latency_ns = [f64::NAN; 2];
    for (latency, flow) in latency_ns.iter_mut().zip(Flow::BOTH) {
        let report = bench.sequential(&drive, flow, &job)?;
        *latency = flow.of(&report).latency.mean_ns.unwrap_or(f64::NAN);
    }
    let filled = prepare(&bench.cosmos(&drive, bench.fill())?, None)?;
    Ok(Measured { latency_ns, deviation_bytes: deviations(&filled, kib, REQUESTS / bench.shorter()) })
}

/// devC and devW: for each request, the standard deviation of the bytes per channel and per way (ways of equal number on all channels count
/// together), derived from the translated addresses; then the mean over requests.
fn deviations(device: &Device, kib: u32, requests: u32) -> [f64; 2] {
    let layout = device.layout();
    let units = kib * 1024 / layout.unit_bytes;
    let mut sums = [0.0; 2];
    for request in 0..requests {
        let mut channels = vec![0.0; layout.channels as usize];
        let mut ways = vec![0.0; layout.dies_per_channel as usize];
        for lpn in request * units..(request + 1) * units {
            let Some(ppa) = device.namespace(0).locate(Lpn(lpn)) else { return [f64::NAN; 2] };
            let die = layout.die_of(ppa);
            channels[layout.channel_of(die) as usize] += f64::from(layout.unit_bytes);
            ways[(die.0 % layout.dies_per_channel) as usize] += f64::from(layout.unit_bytes);
        }
        sums[0] += deviation(&channels);
        sums[1] += deviation(&ways);
    }
    sums.map(|sum| sum / f64::from(requests))
}

/// Standard deviation of a population.
fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// By scheme, then by size.
struct Study(Vec<Measured>);

impl Study {
    fn at(&self, scheme: usize, kib: u32) -> Measured {
        let column = SIZES_KIB.iter().position(|&size| size == kib).expect("a measured size");
        self.0[scheme * SIZES_KIB.len() + column]
    }

    /// Latency of one scheme over that of another.
    fn ratio(&self, flow: usize, kib: u32, scheme: usize, other: usize) -> f64 {
        self.at(scheme, kib).latency_ns[flow] / self.at(other, kib).latency_ns[flow]
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let mut order = |what: String, measured, limit| {
            checks.push(Check::bound(what, Unit::Plain, measured, limit));
        };
        for (flow, name) in Flow::BOTH.map(Flow::name).into_iter().enumerate() {
            for kib in SIZES_KIB {
                // At 1,024 KB, ChPrev and WayPrev are equal, so the tolerance of "equal" applies to "lowest" too.
                let limit = Limit::AtMost(if kib == 1024 { 1.03 } else { 1.0 });
                let least_other =
                    self.ratio(flow, kib, CH_PREV, WAY_PREV).max(self.ratio(flow, kib, CH_PREV, RANDOM));
                order(format!("{name} {kib} KB, ChPrev / faster of the others"), least_other, limit);
            }
            let equal = self.ratio(flow, 1024, WAY_PREV, CH_PREV);
            order(format!("{name} 1024 KB, WayPrev / ChPrev"), equal, Limit::Between(0.97, 1.03));
            let small = self.ratio(flow, 128, RANDOM, WAY_PREV);
            order(format!("{name} 128 KB, Random / WayPrev"), small, Limit::AtMost(1.0));
        }
        order(
            "read 256 KB, Random / WayPrev".into(),
            self.ratio(0, 256, RANDOM, WAY_PREV),
            Limit::AtMost(1.0),
        );
        order(
            "write 256 KB, Random / WayPrev".into(),
            self.ratio(1, 256, RANDOM, WAY_PREV),
            Limit::AtLeast(1.0),
        );
        for (which, scheme, name) in [(0, CH_PREV, "ChPrev devC"), (1, WAY_PREV, "WayPrev devW")] {
            let largest = SIZES_KIB.map(|kib| self.at(scheme, kib).deviation_bytes[which]);
            let largest = largest.into_iter().fold(0.0, f64::max);
            checks.push(Check::bound(
                format!("{name}, largest"),
                Unit::BinaryBytes,
                largest,
                Limit::AtMost(0.0),
            ));
        }
        checks
    }

    fn figures(&self) -> Vec<Figure> {
        let size_axis = || Axis::doubling("request size", Unit::BinaryBytes);
        let line = |scheme: usize, value: &dyn Fn(Measured) -> f64| {
            let at = |kib: u32| (f64::from(kib) * 1024.0, value(self.at(scheme, kib)));
            SIZES_KIB.map(at).to_vec()
        };
        let mut figures = Vec::new();
        for (flow, name) in Flow::BOTH.map(Flow::name).into_iter().enumerate() {
            let mut plot = Plot::new(&format!("Fig. 25: {name} latency by placement"))
                .x_axis(size_axis())
                .y_axis(Axis::linear("latency", Unit::Nanos).from(0.0));
            for (scheme, (paper, _)) in SCHEMES.iter().enumerate() {
                plot = plot.line(paper, line(scheme, &|measured| measured.latency_ns[flow]));
            }
            let caption = "SLC mode, 8 channels x 8 ways, sequential, one request outstanding.".into();
            figures.push(Figure { caption, svg: plot.to_svg() });
        }
        let mut plot = Plot::new("Fig. 26: spread of a request's data")
            .x_axis(size_axis())
            .y_axis(Axis::linear("standard deviation in KiB", Unit::Plain).from(0.0));
        for (scheme, (paper, _)) in SCHEMES.iter().enumerate() {
            plot = plot
                .line(&format!("{paper} devC"), line(scheme, &|m| m.deviation_bytes[0] / 1024.0))
                .colour(scheme);
            plot = plot
                .dashed(&format!("{paper} devW"), line(scheme, &|m| m.deviation_bytes[1] / 1024.0))
                .colour(scheme);
        }
        // Section 6.5 gives these two in words: zero in all cases.
        let zero = || SIZES_KIB.map(|kib| (f64::from(kib) * 1024.0, 0.0)).to_vec();
        plot = plot.points("published, ChPrev devC", zero()).colour(CH_PREV);
        plot = plot.points("published, WayPrev devW", zero()).colour(WAY_PREV);
        let caption = "devC: over the channels; devW: over the ways. Mean over requests.".into();
        figures.push(Figure { caption, svg: plot.to_svg() });
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_population() {
        assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.0);
        assert_eq!(deviation(&[16.0; 8]), 0.0);
    }
}
