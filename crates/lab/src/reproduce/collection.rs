//! B1: write amplification of greedy collection against its closed form.
//!
//! Uniform random writes to a page-mapped log with greedy collection rewrite a / (a + W0(-a e^-a)) units for each one of the
//! host, a = 1 + over-provisioning, W0 the principal branch of Lambert's function, for many blocks of many pages.

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Outcome};
use crate::drive::{RunError, precondition};
use crate::report::plot::{Axis, Plot, Unit};
use crate::spec;
use pellucid_device::{Device, Filler};
use pellucid_flash::{Lpn, Rng};

const OVER_PROVISIONING: [f64; 5] = [0.07, 0.10, 0.14, 0.28, 0.30];
/// How often the capacity is overwritten before the measurement, and in it.
const SETTLE: f64 = 3.0;
const MEASURE: f64 = 1.0;

/// One die, so that there is one pool of blocks as in the theory, and many blocks, so that the few which are open or waiting
/// do not count. Times do not matter: nothing is simulated in time.
const DRIVE: &str = r#"
[drive.media]
channels = 1
ways = 1
blocks = 4096
pages = 256
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
victim = "greedy"
separation = "off"
gc_low = 1
wear.dynamic = false
durability = "volatile"
[drive.buffer]
entries = 64
[precondition]
fill = 1.0
"#;

/// B1.
pub(super) fn greedy(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let measured = bench.map(&OVER_PROVISIONING, |&spare| amplification(bench, spare))?;
    let checks = OVER_PROVISIONING.iter().zip(&measured).map(|(&spare, &measured)| {
        let what = format!("write amplification at {} over-provisioning", Unit::Percent.show(spare));
        Check::within(what, Unit::Plain, predicted(spare), measured, 0.03)
    });
    let curve = (10..=80).map(|i| f64::from(i) / 200.0).map(|spare| (spare, predicted(spare)));
    let plot = Plot::new("Write amplification of greedy collection")
        .x_axis(Axis::linear("over-provisioning", Unit::Percent).from(0.0).to(0.4))
        .y_axis(Axis::linear("programmed per host byte", Unit::Plain).from(0.0))
        .line("a/(a + W0(-a e^-a))", curve.collect())
        .points("measured", OVER_PROVISIONING.into_iter().zip(measured.iter().copied()).collect());
    let caption = "Uniform random 4 KiB writes in steady state; blocks of 256 pages.".into();
    Ok(Outcome { checks: checks.collect(), figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

fn amplification(bench: &Bench, spare: f64) -> Result<f64, ReproduceError> {
    let sets = [format!("ftl.over_provisioning={spare:?}"), format!("precondition.overwrite={SETTLE:?}")];
    let spec = spec::from_str(DRIVE, "the drive of B1", &bench.sets_with(&sets))?;
    let mut device = Device::new(&spec.drive).map_err(RunError::Device)?;
    precondition(&mut device, &spec.precondition, None)?;
    let units = device.capacity_sectors() / u64::from(device.layout().sectors_per_unit);
    // Filling counts victims, not moves: what is valid in a victim when it is chosen is what has to be moved.
    let before = device.ftl_counters().victim_valid_units;
    let image = vec![0; device.image_bytes() * device.layout().sectors_per_unit as usize];
    let mut rng = Rng::stream(bench.seed(), "reproduce collection");
    let mut filler = Filler::default();
    let writes = (units as f64 * MEASURE) as u64;
    for _ in 0..writes {
        let lpn = Lpn(rng.below(units) as u32);
        device.fill_unit(&mut filler, lpn, &image).map_err(RunError::Precondition)?;
    }
    let moved = device.ftl_counters().victim_valid_units - before;
    Ok(1.0 + moved as f64 / writes as f64)
}

/// The closed form.
fn predicted(spare: f64) -> f64 {
    let a = 1.0 + spare;
    a / (a + lambert_w0(-a * (-a).exp()))
}

/// Lambert's W, the branch with w > -1, for -1/e < x <= 0, by Newton's method.
fn lambert_w0(x: f64) -> f64 {
    let mut w = 0.0f64;
    for _ in 0..100 {
        let step = (w * w.exp() - x) / (w.exp() * (w + 1.0));
        w -= step;
        if step.abs() < 1e-14 {
            break;
        }
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_form_gives_its_known_values() {
        // Independent of the code above: w e^w = x.
        for x in [-0.36, -0.3, -0.1, -1e-3, 0.0] {
            let w = lambert_w0(x);
            assert!((w * w.exp() - x).abs() < 1e-12 && w > -1.0, "{x}: {w}");
        }
        for (spare, known) in [(0.07, 7.82), (0.10, 5.68), (0.14, 4.25), (0.28, 2.48), (0.30, 2.36)] {
            assert!((predicted(spare) - known).abs() < 0.006, "{spare}: {}", predicted(spare));
        }
    }
}
