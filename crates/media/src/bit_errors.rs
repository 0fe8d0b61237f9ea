//! Number of raw bits of a page that are wrong when it is read.
//!
//! The expected number is
//!
//! ```text
//! bits * page_share * [ base * (1 + k * interference * growth) * retention + disturb ]
//! ```
//!
//! with `base` such that the product of it and the bracket is `wear` for random data, `wear`, `growth` and
//! `disturb` depending on the program/erase (P/E) cycles, `interference` on what the page and its neighbours
//! store (see [`interference`](mod@interference)), `retention` on the time since the program, and
//! `page_share` on how many read thresholds the page type needs. Which cells are wrong is drawn from it in
//! `error_source.rs`.
//!
//! Every constant names its source or says `assumed` and why; one is `fitted`: `INTERFERENCE_WEIGHT`.
//! Published error rates differ between parts by more than an order of magnitude, so the absolute level is
//! that of no particular part.
//!
//! Invariants: an expectation is finite and never negative; it grows with cycles, time and reads; scrambled
//! and random data are the same thing to the model.

mod interference;
mod sample;
mod study;

pub(crate) use interference::of_word_line;
pub use interference::{MlcSymbol, Pattern};
pub use sample::inject_bit_errors;
pub use study::{STUDY_PATTERNS, StudyPoint, scrambler_study};

use crate::Cell;

/// State of a page that determines its error rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageState {
    /// Cell type in the mode used: `Slc` for a cell of any kind in SLC mode.
    pub cell: Cell,
    /// Page of the word line: 0 is the LSB page; below [`Cell::bits`].
    pub page_type: u32,
    /// Program/erase cycles of the block.
    pub pe_cycles: u32,
    /// Seconds since the page was programmed.
    pub retention_s: f64,
    /// Reads of the block since its erase.
    pub reads: u64,
    /// Data stored on the page and its neighbours.
    pub pattern: Pattern,
}

/// Error rates of one cell type. Rates are per bit, averaged over page types, for random data.
#[derive(Clone, Copy, Debug)]
struct CellRates {
    /// Right after a program, on a new block.
    fresh: f64,
    /// Added right after a program at the rated number of cycles.
    at_rated_cycles: f64,
    /// Cycles that a data sheet of this cell type promises.
    rated_cycles: f64,
    /// Added by one read of the block, at the rated number of cycles.
    per_read: f64,
}

/// MLC. `rated_cycles`: usual data sheet value for 2x-nm MLC. `at_rated_cycles`, assumed: with a year's
/// retention it gives 1.2e-3, which is the mean error rate at which a code that corrects 100 bits in 4 KiB,
/// the strength that the part of COSMOS+ OpenSSD asks for (Kwak et al., section 5), still fails less than
/// once in 10^14 chunks. `fresh`, assumed: a hundredth of that. `per_read`, assumed: a million reads of a
/// block at the rated cycles then cost as much as a year. Read disturb as a rate per read, higher on worn blocks: Cai et al., "Read
/// Disturb Errors in MLC NAND Flash Memory", DSN 2015.
const MLC: CellRates =
    CellRates { fresh: 1.3e-6, at_rated_cycles: 1.3e-4, rated_cycles: 3_000.0, per_read: 1.2e-9 };

/// SLC, also as a mode of denser cells. `rated_cycles`: usual data sheet value. Rates assumed: two orders of
/// magnitude below MLC, as one threshold has the whole window to itself.
const SLC: CellRates =
    CellRates { fresh: 1.3e-8, at_rated_cycles: 1.3e-6, rated_cycles: 50_000.0, per_read: 1.2e-11 };

/// TLC (3D). `rated_cycles`: usual data sheet value. Rates assumed: three times MLC, because LDPC codes of
/// such drives are made for rates near 5e-3 instead of 1e-3.
const TLC: CellRates =
    CellRates { fresh: 4e-6, at_rated_cycles: 4e-4, rated_cycles: 3_000.0, per_read: 4e-9 };

/// QLC (3D). `rated_cycles`: usual data sheet value. Rates assumed: three times TLC again.
const QLC: CellRates =
    CellRates { fresh: 1.2e-5, at_rated_cycles: 1.2e-3, rated_cycles: 1_000.0, per_read: 1.2e-8 };

/// Exponent of the power law of wear. The form: Hetzler, "The error rate surface for MLC NAND flash",
/// Smorgastor, 2012, finds the rate of fresh data close to a power law in cycles. The value is assumed:
/// between the linear growth of field studies and steeper laboratory fits.
const WEAR_EXPONENT: f64 = 2.0;

/// Exponent of the cycles in read disturb. Assumed: 1.4, steeper than linear and less steep than the wear
/// itself.
const DISTURB_EXPONENT: f64 = 1.4;

/// Errors after one year as a multiple of those right after the program. Assumed: 9; retention is the
/// dominant source of errors (Cai et al., "Data Retention in MLC NAND Flash Memory", HPCA 2015).
const YEAR_FACTOR: f64 = 9.0;

/// Retention loss grows with the logarithm of time beyond this. Assumed: an hour, as charge leaves fast in
/// the first hours (Luo et al., "Improving 3D NAND Flash Memory Lifetime by Tolerating Early Retention Loss
/// and Process Variation", 2018).
pub(crate) const RETENTION_ONSET_S: f64 = 3_600.0;

pub(crate) const YEAR_S: f64 = 365.25 * 86_400.0;

/// Weight k of cell-to-cell interference. Fitted, the only such constant: chosen so that at 5,000 cycles
/// scrambling the most susceptible pattern lowers the errors by 13.7 % (Kwak et al., section 7.3, "up to
/// 13.7%"), that is (1 + k g i_random) / (1 + k g i_worst) = 1 - 0.137 with g = 1/2, i_random = 21/16 and
/// i_worst = 9/4. How the other patterns compare then follows from the
/// mechanism.
const INTERFERENCE_WEIGHT: f64 = 0.4354;

/// Cycles at which interference has half of its full effect. Assumed: the end of the paper's measurement, so
/// that new blocks show no difference, as section 7.3 says. Worn cells hold their level less exactly, so the
/// margin that a neighbour's shift must cross is used up.
const INTERFERENCE_HALF_CYCLES: f64 = 5_000.0;

/// Share of the errors that moving the read thresholds removes, per step. Assumed: each retry step covers
/// half of the remaining shift of the levels.
pub const RETRY_FACTOR: f64 = 0.5;

/// Errors that no threshold can avoid, because neighbouring levels overlap, as a share of the first read's.
/// Assumed: a tenth, like the share of errors that are not retention errors after a year (see `YEAR_FACTOR`).
pub const RETRY_FLOOR: f64 = 0.1;

/// The error model of a page of a certain size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitErrorModel {
    page_bits: u32,
}

impl BitErrorModel {
    /// Creates a model for pages of `page_bits` bits; count the bits of the spare area that are read and corrected, too.
    pub fn new(page_bits: u32) -> BitErrorModel {
        BitErrorModel { page_bits }
    }

    /// Bits of a page.
    pub fn page_bits(&self) -> u32 {
        self.page_bits
    }

    /// The expected number of wrong bits in a page.
    pub fn expected_bit_errors(&self, state: &PageState) -> f64 {
        expected_bit_errors(state, self.page_bits)
    }
}

/// The expected number of wrong bits among `bits` of a page.
pub(crate) fn expected_bit_errors(state: &PageState, bits: u32) -> f64 {
    let rates = cell_rates(state.cell);
    let cycles = f64::from(state.pe_cycles);
    let worn = cycles / rates.rated_cycles;
    let wear = rates.fresh + rates.at_rated_cycles * worn.powf(WEAR_EXPONENT);
    let interference = match state.cell {
        Cell::Mlc => interference::of_pattern(state.pattern),
        // The paper measures MLC only; elsewhere all data count as random, and its interference is part
        // of the rates.
        Cell::Slc | Cell::Tlc | Cell::Qlc => interference::of_pattern(Pattern::Random),
    };
    let disturb = rates.per_read * worn.powf(DISTURB_EXPONENT) * state.reads as f64;
    let rate =
        wear * interference_factor(interference, cycles) * retention_factor(state.retention_s) + disturb;
    let bits = f64::from(bits);
    // Half of the bits wrong is what no memory at all achieves.
    (bits * rate * page_share(state.cell, state.page_type)).min(bits / 2.0)
}

/// The errors left in the `attempt`-th read retry (0: the first read, with default thresholds) of a page for
/// which `expected` wrong bits are expected, with the default share per step and floor.
pub fn after_retry(expected: f64, attempt: u32) -> f64 {
    expected * retry_share(attempt, RETRY_FACTOR, RETRY_FLOOR)
}

/// The share of the errors that is left in the `attempt`-th retry, each leaving `factor`, down to `floor`.
pub(crate) fn retry_share(attempt: u32, factor: f64, floor: f64) -> f64 {
    if attempt == 0 { 1.0 } else { factor.powf(f64::from(attempt)).max(floor) }
}

/// Cycles that a data sheet of this cell type promises.
pub(crate) fn rated_cycles(cell: Cell) -> f64 {
    cell_rates(cell).rated_cycles
}

fn cell_rates(cell: Cell) -> CellRates {
    match cell {
        Cell::Slc => SLC,
        Cell::Mlc => MLC,
        Cell::Tlc => TLC,
        Cell::Qlc => QLC,
    }
}

/// A page type's errors relative to the average of its word line. With Gray-coded levels the i-th page is
/// read with 2^i thresholds, and an error is a cell on the wrong side of one of them.
fn page_share(cell: Cell, page_type: u32) -> f64 {
    let bits = cell.bits();
    let page_type = page_type.min(bits - 1);
    let thresholds = f64::from((1u32 << bits) - 1);
    f64::from(1u32 << page_type) * f64::from(bits) / thresholds
}

/// 1 for random data at any number of cycles, because the rates were stated for these.
fn interference_factor(interference: f64, cycles: f64) -> f64 {
    // Log-logistic in the cycles (the form that Hetzler finds for wear), exponent 2: none on a new block,
    // bounded on a dead one.
    let ratio = (cycles / INTERFERENCE_HALF_CYCLES).powi(2);
    let weight = INTERFERENCE_WEIGHT * ratio / (1.0 + ratio);
    (1.0 + weight * interference) / (1.0 + weight * interference::of_pattern(Pattern::Random))
}

fn retention_factor(seconds: f64) -> f64 {
    let years = (seconds.max(0.0) / RETENTION_ONSET_S).ln_1p() / (YEAR_S / RETENTION_ONSET_S).ln_1p();
    1.0 + (YEAR_FACTOR - 1.0) * years
}

#[cfg(test)]
mod tests;
