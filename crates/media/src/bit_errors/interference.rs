//! Cell-to-cell interference in MLC: how strongly a cell is disturbed by a neighbour, given the levels of
//! both.
//!
//! A cell has four voltage levels, 0 (erased) to 3, Gray-coded: neighbouring levels differ in one bit. Pages
//! of a word line are programmed in two steps (Cai et al., "Vulnerabilities in MLC NAND Flash Memory
//! Programming", HPCA 2017): the LSB step leaves the cells of the upper two levels at an intermediate level,
//! the MSB step moves every cell to its end. A cell is shifted by what its neighbours move after it has
//! reached its own level and been verified (Cai et al., "Program Interference in MLC NAND Flash Memory", ICCD
//! 2013), so only the last step of a neighbour counts:
//!
//! | level | comes from | last move, in level steps |
//! |---|---|---|
//! | 0 | erased, stays | 0 |
//! | 1 | level 0 | 1 |
//! | 2 | intermediate, 1 1/2 | 1/2 |
//! | 3 | intermediate, 1 1/2 | 1 1/2 |
//!
//! A neighbour that goes to the victim's own level moves with the same pulses, so the victim's verify has
//! already seen its shift: no interference. Any other neighbour adds one level step to its last move,
//! assumed: the difference that remains between the two cells draws charge while they hold data (retention
//! interference, Luo et al. 2018), whatever its size.
//!
//! Kwak et al. report in section 7.3 that cells of the highest level (3) and of the third-highest (1) next to each other suffer most, and
//! levels 0 and 2, the pattern 11-00, least. Both follow from the last moves alone. For 11-00 to be level with random data as well, the
//! model needs the step for unlike levels: one whole step was chosen with knowledge of that section's text, and not fitted.

/// The two bits of an MLC cell, written as in "11-00": LSB page, MSB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlcSymbol {
    /// 11: level 0, erased.
    S11,
    /// 01: level 1.
    S01,
    /// 00: level 2.
    S00,
    /// 10: level 3.
    S10,
}

impl MlcSymbol {
    /// The bits, of the LSB page and of the MSB page.
    pub fn bits(self) -> (bool, bool) {
        match self {
            MlcSymbol::S11 => (true, true),
            MlcSymbol::S01 => (false, true),
            MlcSymbol::S00 => (false, false),
            MlcSymbol::S10 => (true, false),
        }
    }

    /// The voltage level. There are two Gray codes that begin with 11 for the erased level; the other one
    /// swaps 01 and 10, and the paper does not know which one its part uses. Both put 01 and 10 on levels 1
    /// and 3, so the worst pattern is the same.
    pub(super) fn level(self) -> usize {
        match self {
            MlcSymbol::S11 => 0,
            MlcSymbol::S01 => 1,
            MlcSymbol::S00 => 2,
            MlcSymbol::S10 => 3,
        }
    }
}

/// Data stored on a page and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Random or scrambled data: every level is equally likely next to every other.
    Random,
    /// Two symbols alternate, so that each cell is surrounded by the other symbol (unscrambled data of Kwak
    /// et al., Fig. 29). Two equal symbols are accepted; the model then knows of no interference, though real
    /// parts have other trouble with uniform data.
    Alternating(MlcSymbol, MlcSymbol),
    /// Data whose mean interference was measured, in level steps.
    Measured(f64),
}

/// The last move of a cell that ends at a level, in level steps.
const LAST_MOVE: [f64; 4] = [0.0, 1.0, 0.5, 1.5];

/// Interference of a neighbour that ends at another level, besides its last move, in level steps.
const UNLIKE_LEVELS: f64 = 1.0;

/// Interference that a cell of level `victim` suffers from a neighbour of level `neighbour`, in level steps.
pub(super) fn on_victim(victim: usize, neighbour: usize) -> f64 {
    if victim == neighbour { 0.0 } else { UNLIKE_LEVELS + LAST_MOVE[neighbour] }
}

/// Mean interference over the cells of a pattern, in level steps.
pub(super) fn of_pattern(pattern: Pattern) -> f64 {
    match pattern {
        Pattern::Random => {
            let all = (0..4).flat_map(|victim| (0..4).map(move |neighbour| on_victim(victim, neighbour)));
            all.sum::<f64>() / 16.0
        }
        Pattern::Alternating(a, b) => {
            let (a, b) = (a.level(), b.level());
            f64::midpoint(on_victim(a, b), on_victim(b, a))
        }
        Pattern::Measured(steps) => steps,
    }
}

/// Mean interference in a word line, measured on the data of its two pages (a multiple of 8 bytes each; the rest is ignored). The
/// neighbours along the word line stand for all: those on other word lines are ignored too.
pub(crate) fn of_word_line(lsb: &[u8], msb: &[u8]) -> Pattern {
    let (mut steps, mut pairs) = (0.0, 0u32);
    for (lsb, msb) in lsb.as_chunks().0.iter().zip(msb.as_chunks().0) {
        let (lsb, msb) = (u64::from_be_bytes(*lsb), u64::from_be_bytes(*msb));
        // Cells of level 0 to 3; the cell of the lowest bit has no right-hand neighbour here.
        let level = [lsb & msb, !lsb & msb, !lsb & !msb, lsb & !msb];
        for left in 0..4 {
            for right in (0..4).filter(|&right| right != left) {
                let neighbours = ((level[left] >> 1) & level[right]).count_ones();
                let both = on_victim(left, right) + on_victim(right, left);
                steps += f64::from(neighbours) * both / 2.0;
            }
        }
        pairs += 63;
    }
    Pattern::Measured(if pairs == 0 { of_pattern(Pattern::Random) } else { steps / f64::from(pairs) })
}
