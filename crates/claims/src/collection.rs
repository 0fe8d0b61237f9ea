//! B1: write amplification of greedy GC against its closed form.
//!
//! Under uniform random writes, a page-mapped log with greedy GC writes a / (a + W0(-a e^-a)) units per host unit, where a = 1 + over-provisioning
//! and W0 is the principal branch of Lambert's function, for many blocks of many pages.

use super::bench::{Bench, ReproduceError, measure};
use super::{Check, Figure, Outcome};
use pellucid_ftl::Victim;
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::{Axis, Plot, Unit};

const OVER_PROVISIONING: [f64; 5] = [0.07, 0.10, 0.14, 0.28, 0.30];
/// Overwrites of the capacity before the measurement, and in it.
const SETTLE: f64 = 3.0;
const MEASURE: f64 = 0.5;
/// Number of blocks, large enough that the few open or free ones do not matter.
const BLOCKS: u32 = 2048;
const PAGES: u32 = 256;

/// One die, so that there is one pool of blocks, as in the theory.
pub(super) const DRIVE: &str = r#"
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
gc_low = 1
wear.dynamic = false
durability = "volatile"
[drive.buffer]
entries = 64
write = "write-through"
retain = false
[precondition]
fill = 1.0
"#;

pub(super) fn greedy(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let measured = bench.map_or(&OVER_PROVISIONING, f64::NAN, |&spare| amplification(bench, spare))?;
    let checks = OVER_PROVISIONING.iter().zip(&measured).map(|(&spare, &measured)| {
        let what = format!("write amplification at {} over-provisioning", Unit::Percent.show(spare));
        Check::within(what, Unit::Plain, closed_form(spare), measured, 0.03)
    });
    let curve = (10..=80).map(|i| f64::from(i) / 200.0).map(|spare| (spare, closed_form(spare)));
    let plot = Plot::new("Write amplification of greedy collection")
        .x_axis(Axis::linear("over-provisioning", Unit::Percent).from(0.0).to(0.4))
        .y_axis(Axis::linear("programmed per host byte", Unit::Plain).from(0.0))
        .line("a/(a + W0(-a e^-a))", curve.collect())
        .points("measured", OVER_PROVISIONING.into_iter().zip(measured.iter().copied()).collect());
    let caption = "Uniform random 4 KiB writes in steady state; blocks of 256 pages.".into();
    Ok(Outcome { checks: checks.collect(), figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

fn amplification(bench: &Bench, spare: f64) -> Result<f64, ReproduceError> {
    let blocks = BLOCKS / bench.shorter();
    let user = (f64::from(blocks * PAGES) / (1.0 + spare)) as u32;
    let drive = OneDie { victim: Victim::Greedy, blocks, pages: PAGES, user, separated: false, hot: None };
    Ok(drive.amplification(bench, SETTLE, MEASURE)?.0)
}

/// A one-die drive, as the theory assumes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneDie {
    pub victim: Victim,
    pub blocks: u32,
    pub pages: u32,
    /// Pages of user capacity.
    pub user: u32,
    /// True if GC copies have their own open block.
    pub separated: bool,
    /// The hot part: its share of the pages, and of the writes.
    pub hot: Option<(f64, f64)>,
}

impl OneDie {
    /// Write amplification in steady state, with 64 writes outstanding and no rate limit, and the number of victims that the policy did not choose.
    /// The capacity is overwritten `settle` times before the measurement and `times` in it.
    pub fn amplification(
        &self,
        bench: &Bench,
        settle: f64,
        times: f64,
    ) -> Result<(f64, u64), ReproduceError> {
        let separation = if self.separated { "gc-copies" } else { "off" };
        // Filling is quicker, but its writes are uniform.
        let filled = if self.hot.is_some() { 0.0 } else { settle };
        let sets = [
            format!("media.blocks={}", self.blocks),
            format!("media.pages={}", self.pages),
            format!("ftl.capacity={}", u64::from(self.user) * 4096),
            format!("ftl.victim={}", self.victim),
            format!("ftl.separation={separation}"),
            format!("precondition.overwrite={filled:?}"),
        ];
        let spec = bench.drive(DRIVE, "the drive of the claim", &sets)?;
        let mut device = prepare(&spec, None)?;
        let zones = self.hot.map_or(String::new(), |(share, writes)| {
            let (hot, cold) = (100.0 * share, 100.0 * writes);
            format!(",random_distribution=zoned:{cold:.0}/{hot:.0}:{:.0}/{:.0}", 100.0 - cold, 100.0 - hot)
        });
        // Each phase has its own seed: equal seeds would rewrite the pages in the order in which they were written.
        let mut job = |times: f64, number: u64| {
            let count = (f64::from(self.user) * times) as u64;
            let seed = bench.seed().wrapping_add(number) >> 1;
            let job = format!("rw=randwrite,bs=4k,iodepth=64,number_ios={count},randseed={seed}{zones}");
            measure(&mut device, &spec, &job)
        };
        if self.hot.is_some() {
            job(settle, 0)?;
        }
        let report = job(times, 1 << 32)?;
        Ok((report.write_amplification.total.unwrap_or(f64::NAN), report.gc.emergency_victims))
    }
}

pub(super) fn closed_form(spare: f64) -> f64 {
    let a = 1.0 + spare;
    a / (a + lambert_w0(-a * (-a).exp()))
}

/// Lambert's W, principal branch (w > -1), for -1/e < x <= 0, by Newton's method.
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
        // Checks the definition: w e^w = x.
        for x in [-0.36, -0.3, -0.1, -1e-3, 0.0] {
            let w = lambert_w0(x);
            assert!((w * w.exp() - x).abs() < 1e-12 && w > -1.0, "{x}: {w}");
        }
        for (spare, known) in [(0.07, 7.82), (0.10, 5.68), (0.14, 4.25), (0.28, 2.48), (0.30, 2.36)] {
            assert!((closed_form(spare) - known).abs() < 0.006, "{spare}: {}", closed_form(spare));
        }
    }
}
