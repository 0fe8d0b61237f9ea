//! Number of retries that a read needs until its thresholds fit the cells.
//!
//! A read begins with the thresholds that fit a page right after its program. Charge that leaks, and charge that reads of other
//! pages of the block add, move the levels away from them; each retry moves the thresholds by one step of the part's table. A
//! read with other thresholds than these fails, however strong the code:
//!
//! ```text
//!  level = factor * STEPS * (NEW + (1 - NEW) * cycles / rated) * (log(1 + age / hour) / log(1 + year / hour) + reads / READS)
//!  steps = floor(level + u)
//! ```
//! `u` in [0, 1) belongs to the page and its program: the mean of the steps is the level, pages differ, and a repeated read of a page
//! needs the same steps. Errors that remain after the last step are those of the bit-error model (`error_source.rs`), if there is one.
//!
//! Sources. The forms: leakage grows with the logarithm of time, fastest in the first hours, and errors of 3D NAND grow in proportion
//! to the cycles: Luo et al., "Improving 3D NAND Flash Memory Lifetime by Tolerating Early Retention Loss and Process Variation",
//! 2018. Reads disturb worn blocks more: Cai et al., "Read Disturb Errors in MLC NAND Flash Memory", DSN 2015. Each constant names its
//! own.
//!
//! Not in the model: firmware that remembers the last good thresholds of a block, temperature, and page types.
//!
//! Invariants: the steps never decrease while a page ages, wears or is read; the same page has the same steps; nothing is drawn from a
//! stream, so a read does not affect any other random numbers.

use crate::MediaConfig;
use crate::bit_errors::{RETENTION_ONSET_S, YEAR_S, rated_cycles};
use crate::integrity::cell_in_use;
use pellucid_flash::{Layout, Rng};

/// Mean steps after a year at the rated cycles. Ye et al., "Achieving Near-Zero Read Retry for 3D NAND Flash Memory", ASPLOS 2024:
/// the methods before theirs need "over 3 read retries on average" at 3,000 cycles and high retention time.
const STEPS: f64 = 3.0;

/// Share of that on a new block. Assumed: a tenth, which a new block then reaches within a year.
const NEW: f64 = 0.1;

/// Reads of a block that cost as much as a year. Assumed: a million, as in the bit-error model.
const READS: f64 = 1e6;

/// Model of the steps that every page needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    seed: u64,
    /// Level of a new block after a year; and the increase per cycle.
    new: f64,
    per_cycle: f64,
    /// Mapping units of a page, at least 1.
    page_units: u32,
}

impl Retries {
    /// Retries of checked media; `None` where thresholds always fit.
    pub fn new(config: &MediaConfig, layout: &Layout) -> Option<Retries> {
        let retry = config.integrity.retry?;
        let steps = STEPS * retry.factor;
        Some(Retries {
            seed: Rng::stream(config.seed, "media.retry").next_u64(),
            new: steps * NEW,
            per_cycle: steps * (1.0 - NEW) / rated_cycles(cell_in_use(config)),
            page_units: (config.geometry.page_bytes / layout.unit_bytes).max(1),
        })
    }

    /// Number of the page in which a unit of a superpage begins.
    #[inline]
    pub fn page(&self, block: u32, superpage: u32, unit: u32) -> u64 {
        u64::from(block) << 32 | u64::from((superpage << 12) | (unit / self.page_units))
    }

    /// Steps of a page of a block with this many cycles, this many seconds after the program and this many reads after the erase.
    #[inline]
    pub fn steps(&self, page: u64, cycles: u32, retention_s: u64, reads: u64) -> u32 {
        let time =
            log2(1.0 + retention_s as f64 / RETENTION_ONSET_S) / log2(1.0 + YEAR_S / RETENTION_ONSET_S);
        let worn = self.new + self.per_cycle * f64::from(cycles);
        let level = worn * (time + reads as f64 / READS);
        let place = page.wrapping_add(u64::from(cycles).wrapping_mul(0xd134_2543_de82_ef95));
        (level + uniform(self.seed ^ place.wrapping_mul(0x9e6c_63d0_876a_68df))) as u32
    }
}

/// Approximates the binary logarithm of a positive number linearly between powers of two: at most 0.09 too low, monotonic, and the
/// same on every machine.
#[inline]
fn log2(x: f64) -> f64 {
    x.to_bits() as f64 / (1u64 << 52) as f64 - 1023.0
}

/// A number in `[0, 1)` that belongs to `key` (the mixing steps of SplitMix64).
#[inline]
fn uniform(key: u64) -> f64 {
    let z = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = YEAR_S as u64;

    fn retries() -> Retries {
        Retries { seed: 1, new: STEPS * NEW, per_cycle: STEPS * (1.0 - NEW) / 3_000.0, page_units: 4 }
    }

    fn mean(cycles: u32, retention_s: u64, reads: u64) -> f64 {
        let (retries, pages) = (retries(), 20_000u32);
        let steps = |unit| {
            f64::from(retries.steps(retries.page(unit / 64, unit % 64, 0), cycles, retention_s, reads))
        };
        (0..pages).map(steps).sum::<f64>() / f64::from(pages)
    }

    #[test]
    fn the_published_mean_is_met_and_a_fresh_page_needs_none() {
        assert!((mean(3_000, YEAR, 0) - 3.0).abs() < 0.01);
        assert!((mean(0, YEAR, 0) - 0.3).abs() < 0.01);
        assert!((mean(3_000, YEAR, 1_000_000) - 6.0).abs() < 0.01);
        assert_eq!(mean(0, 0, 0), 0.0);
        assert_eq!(mean(3_000, 0, 0), 0.0);
    }

    #[test]
    fn steps_grow_with_each_cause_for_every_page() {
        let retries = retries();
        for unit in 0..2_000 {
            let page = retries.page(unit, 3, 8);
            let mut before = 0;
            for step in 1..60 {
                let age = retries.steps(page, 1_500, 3_600 << (step / 4), 0);
                assert!(age >= before, "unit {unit}, step {step}");
                before = age;
            }
            let reads =
                [0, 10_000, 1_000_000, 10_000_000].map(|reads| retries.steps(page, 1_500, YEAR / 4, reads));
            assert!(reads.is_sorted() && reads[0] < reads[3], "unit {unit}: {reads:?}");
        }
        let by_wear = [0, 300, 1_000, 3_000].map(|cycles| mean(cycles, YEAR / 4, 0));
        assert!(by_wear.is_sorted_by(|a, b| a < b), "{by_wear:?}");
    }

    #[test]
    fn units_of_a_page_share_their_steps_and_pages_do_not() {
        let retries = retries();
        let of = |unit| retries.steps(retries.page(5, 2, unit), 700, YEAR, 0);
        assert!((0..4).all(|unit| of(unit) == of(0)));
        let pages: Vec<u32> = (0..64).map(|page| of(4 * page)).collect();
        assert!(pages.iter().any(|&steps| steps != pages[0]), "{pages:?}");
    }

    #[test]
    fn the_logarithm_is_close_and_never_falls() {
        let mut before = 0.0;
        for i in 0..200_000 {
            let x = 1.0 + f64::from(i) / 20.0;
            let found = log2(x);
            assert!((-0.09..1e-12).contains(&(found - x.log2())), "{x}: {found}");
            assert!(found >= before);
            before = found;
        }
    }
}
