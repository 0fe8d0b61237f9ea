//! The scrambler study of Kwak et al., section 7.3, Fig. 30, as data: six patterns, with and without
//! scrambler, over P/E cycles.

use super::{BitErrorModel, MlcSymbol, PageState, Pattern};
use crate::Cell;
use MlcSymbol::{S00, S01, S10, S11};

/// The patterns of Fig. 30 (a) to (f), with their names.
pub const STUDY_PATTERNS: [(&str, MlcSymbol, MlcSymbol); 6] = [
    ("11-00", S11, S00),
    ("11-01", S11, S01),
    ("11-10", S11, S10),
    ("01-10", S01, S10),
    ("01-00", S01, S00),
    ("10-00", S10, S00),
];

/// One pair of bars of Fig. 30.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudyPoint {
    /// The pattern's name.
    pub pattern: &'static str,
    /// Program/erase cycles.
    pub pe_cycles: u32,
    /// Expected wrong bits per page with the scrambler, average over LSB and MSB pages.
    pub scrambled: f64,
    /// Expected wrong bits per page without the scrambler, average over LSB and MSB pages.
    pub plain: f64,
}

impl StudyPoint {
    /// The share of errors that the scrambler avoids; negative when it adds some.
    pub fn reduction(&self) -> f64 {
        1.0 - self.scrambled / self.plain
    }
}

/// Expected errors of freshly written MLC pages for all [`STUDY_PATTERNS`] at each of the given P/E cycles.
pub fn scrambler_study(model: &BitErrorModel, pe_cycles: &[u32]) -> Vec<StudyPoint> {
    let mean = |pattern, pe_cycles| {
        let page = |page_type| PageState {
            cell: Cell::Mlc,
            page_type,
            pe_cycles,
            retention_s: 0.0,
            reads: 0,
            pattern,
        };
        f64::midpoint(model.expected_bit_errors(&page(0)), model.expected_bit_errors(&page(1)))
    };
    let mut points = Vec::with_capacity(STUDY_PATTERNS.len() * pe_cycles.len());
    for (pattern, a, b) in STUDY_PATTERNS {
        points.extend(pe_cycles.iter().map(|&pe_cycles| StudyPoint {
            pattern,
            pe_cycles,
            scrambled: mean(Pattern::Random, pe_cycles),
            plain: mean(Pattern::Alternating(a, b), pe_cycles),
        }));
    }
    points
}
