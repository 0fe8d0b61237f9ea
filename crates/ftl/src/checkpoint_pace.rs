//! Pace of the rolling checkpoint: the number of translation pages to write now, so that a whole round takes the requested number of
//! programs.
//!
//! ```text
//!  pages owed at program n  =  (n - origin) x pages / round  -  pages taken since the origin
//!
//!  less than a superpage      nothing yet
//!  superpages                 all of them are taken, also those that came due while nobody looked
//! ```
//! Programs of every cause count: GC programs happen between two calls, and a mount also reads the checkpoint's own. Delays are caught up,
//! so the mean round keeps its length whatever happens between calls.
//!
//! A round in which the checkpoint's own programs are more than half cannot be kept: each of its writes would increase the debt. The
//! checkpoint then writes one superpage per program of another cause, and accumulates no debt.
//!
//! Invariant: `due` is the lowest number of a program at which a superpage is owed.

/// Superpages of the checkpoint that are taken at one look, at most; the others follow at the next.
const AT_ONCE: u64 = 32;

/// Pace of the rolling checkpoint, in numbers of programs.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Programs of a round; none: there is no checkpoint.
    round: Option<u64>,
    /// Translation pages of a round, and of a superpage.
    pages: u64,
    batch: u64,
    /// Program from which pages are owed, and pages taken since.
    origin: u64,
    taken: u64,
    /// Program at which the next superpage is owed.
    due: u64,
    /// Program and superpages of the last look at which some were taken.
    last: Option<(u64, u64)>,
}

impl Pace {
    /// Creates the pace of `pages` translation pages in `round` programs; `batch` of them fill a superpage.
    pub fn new(round: Option<u64>, pages: u32, batch: u32) -> Pace {
        let (pages, batch) = (pages.max(1).into(), batch.max(1).into());
        let mut pace = Pace { round, pages, batch, origin: 0, taken: 0, due: 0, last: None };
        pace.set_due();
        pace
    }

    /// Returns whether pages are owed when the next program has this number.
    #[inline]
    pub fn is_due(&self, sequence: u64) -> bool {
        sequence >= self.due
    }

    /// Takes the pages that are owed when the next program has this number; returns how many.
    pub fn take(&mut self, sequence: u64) -> u64 {
        let Some(round) = self.round.filter(|_| self.is_due(sequence)) else { return 0 };
        let superpages = match self.last {
            // A drive that was switched on counts from here: the numbers before are of another time.
            None => {
                (self.origin, self.taken) = (sequence, 0);
                1
            }
            Some((looked, own)) => {
                let passed = u128::from(sequence - self.origin) * u128::from(self.pages) / u128::from(round);
                let mut owed = passed as u64 - self.taken;
                if owed > self.pages {
                    (self.origin, self.taken, owed) = (sequence - round, 0, self.pages);
                }
                let owed = (owed / self.batch).clamp(1, AT_ONCE);
                let others = (sequence - looked).saturating_sub(own).max(1);
                if owed > others {
                    (self.origin, self.taken) = (sequence, 0);
                } else {
                    self.taken += owed * self.batch;
                }
                owed.min(others)
            }
        };
        self.last = Some((sequence, superpages));
        self.set_due();
        (superpages * self.batch).min(self.pages)
    }

    fn set_due(&mut self) {
        self.due = self.round.map_or(u64::MAX, |round| {
            let programs = u128::from(self.taken + self.batch) * u128::from(round);
            self.origin + programs.div_ceil(self.pages.into()) as u64
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean programs of a round when a look comes after every `apart` programs of other causes, the first of them at `first`.
    fn mean_round(round: u64, pages: u32, batch: u32, apart: u64, first: u64) -> f64 {
        let mut pace = Pace::new(Some(round), pages, batch);
        let (mut sequence, mut began, mut taken) = (first, None, 0);
        for _ in 0..100_000 / apart {
            sequence += apart;
            let now = if pace.is_due(sequence) { pace.take(sequence) } else { 0 };
            match began {
                None if now > 0 => began = Some(sequence),
                None => {}
                Some(_) => taken += now,
            }
            sequence += now.div_ceil(batch.into());
        }
        (sequence - began.expect("a checkpoint")) as f64 * f64::from(pages) / taken as f64
    }

    #[test]
    fn a_round_takes_as_many_programs_as_asked_however_seldom_one_looks() {
        for first in [0, 1 << 40] {
            for apart in [1, 6, 50] {
                for (round, pages, batch) in [(100, 30, 4), (300, 54, 4), (1_000, 1_000, 16), (3_000, 7, 7)] {
                    let mean = mean_round(round, pages, batch, apart, first);
                    let off = mean / round as f64 - 1.0;
                    assert!(off.abs() < 0.06, "{mean} for {round}, {pages} pages, a look after {apart}");
                }
            }
        }
    }

    #[test]
    fn a_round_that_cannot_be_kept_takes_half_of_the_programs() {
        for apart in [1, 6] {
            let mean = mean_round(100, 1_000, 4, apart, 0);
            assert!(
                (mean / 500.0 - 1.0).abs() < 0.02,
                "{mean}: 250 superpages and as many programs of others"
            );
        }
    }

    #[test]
    fn no_round_is_asked_for_without_a_checkpoint() {
        let pace = Pace::new(None, 10, 4);
        assert!(!pace.is_due(u64::MAX - 1));
    }
}
