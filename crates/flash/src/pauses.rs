//! Pauses of garbage collection: how long each victim takes from its choice until it is space again.
//!
//! The histogram has a fixed size, so that it can be a counter among others: copied, subtracted, added. It has eight bins to each doubling, as
//! [`Histogram<3>`](Histogram) has, so a quantile is at most an eighth too large; pauses from 2^35 ns (34 s) on share the last bin.
//!
//! The longest pause is exact, even for an interval: every pause longer than all later ones is kept with its end time. Their number is that
//! of records when read backwards in time, 14 for a million pauses in random order. If they exceed the space, two neighbours are merged,
//! which may then count as a pause that ended a little later.

use crate::{Figure, Histogram, Nanos, SimTime};

const FINE: u32 = 3;
type Scale = Histogram<FINE>;
/// Bins up to 2^35 ns.
const BINS: usize = Scale::bucket_of(1 << 35);

/// Pauses that are kept because none after them is as long.
const PEAKS: usize = 24;

/// A pause that is longer than all after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Peak {
    ended: SimTime,
    pause: Nanos,
}

/// Peaks: later ones are shorter. The last is the last pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Peaks {
    all: [Peak; PEAKS],
    count: u8,
}

impl Peaks {
    fn get(&self) -> &[Peak] {
        &self.all[..usize::from(self.count)]
    }

    /// Adds a pause that ended at or after all that are there.
    fn push(&mut self, peak: Peak) {
        while self.get().last().is_some_and(|last| last.pause <= peak.pause) {
            self.count -= 1;
            self.all[usize::from(self.count)] = Peak::default();
        }
        if usize::from(self.count) == PEAKS {
            self.join();
        }
        self.all[usize::from(self.count)] = peak;
        self.count += 1;
    }

    /// Makes one of the two neighbours that differ least.
    fn join(&mut self) {
        let gap = |at: &usize| self.all[*at].pause.0 - self.all[at + 1].pause.0;
        let at = (0..PEAKS - 1).min_by_key(gap).unwrap_or(0);
        self.all[at].ended = self.all[at + 1].ended;
        self.all.copy_within(at + 2.., at + 1);
        self.count -= 1;
        self.all[usize::from(self.count)] = Peak::default();
    }

    /// The peaks of pauses that ended after a moment.
    fn after(&self, moment: SimTime) -> Peaks {
        let mut later = Peaks::default();
        self.get().iter().filter(|peak| peak.ended > moment).for_each(|&peak| later.push(peak));
        later
    }

    /// The peaks of both together.
    fn with(&self, other: &Peaks) -> Peaks {
        let (mut own, mut theirs) = (self.get().iter().peekable(), other.get().iter().peekable());
        let mut both = Peaks::default();
        while let Some(next) = match (own.peek(), theirs.peek()) {
            (Some(one), Some(two)) if two.ended < one.ended => theirs.next(),
            (Some(_), _) => own.next(),
            (None, _) => theirs.next(),
        } {
            both.push(*next);
        }
        both
    }
}

/// Number of pauses by their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    bins: [u32; BINS],
    count: u64,
    sum_ns: u64,
    peaks: Peaks,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { bins: [0; BINS], count: 0, sum_ns: 0, peaks: Peaks::default() }
    }
}

impl Pauses {
    /// Adds a pause that has ended at `ended`, not before the one added last.
    pub fn record(&mut self, pause: Nanos, ended: SimTime) {
        self.bins[Scale::bucket_of(pause.0).min(BINS - 1)] += 1;
        self.count += 1;
        self.sum_ns += pause.0;
        self.peaks.push(Peak { ended, pause });
    }

    /// The longest pause, exact; `None` without pauses.
    pub fn longest(&self) -> Option<Nanos> {
        self.peaks.get().first().map(|peak| peak.pause)
    }

    /// Number of pauses.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all pauses, exact.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum_ns)
    }

    /// Pauses since `before`.
    pub fn since(mut self, before: &Pauses) -> Pauses {
        if before.count == 0 {
            return self;
        }
        self.bins.iter_mut().zip(&before.bins).for_each(|(own, before)| *own -= before);
        (self.count, self.sum_ns) = (self.count - before.count, self.sum_ns - before.sum_ns);
        let last = before.peaks.get().last().map_or(SimTime::ZERO, |peak| peak.ended);
        self.peaks = self.peaks.after(last);
        self
    }

    /// Adds the pauses of another part.
    pub fn add(&mut self, other: &Pauses) {
        // Counters are added up for each interval of a run over time, mostly without a pause in them.
        if other.count == 0 {
            return;
        }
        self.bins.iter_mut().zip(&other.bins).for_each(|(own, other)| *own += other);
        (self.count, self.sum_ns) = (self.count + other.count, self.sum_ns + other.sum_ns);
        self.peaks = self.peaks.with(&other.peaks);
    }

    /// Bins that are not empty, shortest first: largest length in ns, number.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.bins.iter().enumerate().filter(|(_, number)| **number > 0);
        filled.map(|(bin, &number)| (Scale::upper_of(bin), number.into()))
    }

    /// Length that this share of all pauses does not exceed, rounded up to the end of its bin, or the longest if that is less; `None` without
    /// pauses.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.bins().find(|&(_, number)| {
            seen += number;
            seen >= rank
        });
        let longest = self.longest().unwrap_or(Nanos(u64::MAX));
        reached.map(|(upper, _)| Nanos(upper).min(longest))
    }

    /// The pauses as figures of a layer, under these names: number, sum, and the median, the 99th percentile and the longest as gauges.
    pub fn figures(&self, [count, sum, p50, p99, longest]: [&'static str; 5]) -> [Figure; 5] {
        let quantile = |name, help, share| {
            Figure::nanos(name, help, self.quantile(share).map_or(0, |pause| pause.0)).gauge()
        };
        [
            Figure::count(count, "Garbage collections of a victim that have ended.", self.count),
            Figure::nanos(
                sum,
                "Total time of garbage collections, from the choice of the victim to its end.",
                self.sum_ns,
            ),
            quantile(p50, "Median time of garbage collections.", 0.5),
            quantile(p99, "99th percentile of the times of garbage collections.", 0.99),
            Figure::nanos(longest, "Longest garbage collection.", self.longest().map_or(0, |pause| pause.0))
                .gauge(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn quantiles_are_those_of_sorted_values_to_an_eighth() {
        let mut rng = Rng::new(9);
        let (mut first, mut whole, mut sorted) = (Pauses::default(), Pauses::default(), Vec::new());
        for i in 0..5_000_u64 {
            let pause = Nanos(rng.next_u64() >> (30 + rng.below(34)));
            whole.record(pause, SimTime(1 + i));
            sorted.push(pause.0);
            if i == 1_999 {
                first = whole;
            }
        }
        let rest = whole.since(&first);
        assert_eq!((rest.count(), rest.sum()), (3_000, Nanos(sorted[2_000..].iter().sum())));
        let mut both = rest;
        both.add(&first);
        assert_eq!(both, whole);
        assert_eq!(rest.longest().map(|pause| pause.0), sorted[2_000..].iter().copied().max());
        assert_eq!(first.longest().map(|pause| pause.0), sorted[..2_000].iter().copied().max());
        assert_eq!(whole.longest().map(|pause| pause.0), sorted.iter().copied().max());
        sorted.sort_unstable();
        for share in [0.01, 0.5, 0.99, 1.0] {
            let exact = sorted[((share * 5_000f64).ceil() as usize).max(1) - 1];
            let found = whole.quantile(share).unwrap().0;
            assert!(exact <= found && found - exact <= exact / 8, "{share}: {exact} and {found}");
        }
        assert_eq!(Pauses::default().quantile(0.5), None);
    }

    #[test]
    fn what_is_longer_than_the_scale_is_in_the_last_bin() {
        let mut pauses = Pauses::default();
        pauses.record(Nanos::from_secs(100), SimTime(1));
        assert_eq!((pauses.count(), pauses.sum()), (1, Nanos::from_secs(100)));
        assert_eq!(pauses.quantile(1.0), Some(Nanos(Scale::upper_of(BINS - 1))));
        assert_eq!(pauses.longest(), Some(Nanos::from_secs(100)));
    }

    /// The longest of every interval of two parts together is that of all their pauses in it.
    #[test]
    fn the_longest_of_an_interval_is_exact() {
        let mut rng = Rng::new(4);
        let mut parts = [Pauses::default(), Pauses::default()];
        let (mut all, mut moments) = (Vec::new(), vec![(Pauses::default(), 0)]);
        for at in 1..3_000 {
            let pause = Nanos(rng.below(1 << 30));
            parts[rng.below(2) as usize].record(pause, SimTime(at));
            all.push(pause);
            if rng.below(50) == 0 {
                let mut sum = parts[0];
                sum.add(&parts[1]);
                moments.push((sum, all.len()));
            }
        }
        for (at, (before, from)) in moments.iter().enumerate() {
            for (now, to) in &moments[at + 1..] {
                let longest = all[*from..*to].iter().copied().max();
                assert_eq!(now.since(before).longest(), longest, "{from} to {to}");
            }
        }
    }

    /// Pauses that become ever shorter are more than are kept: the longest of an interval is then one that ended at most a little before it.
    #[test]
    fn pauses_that_become_ever_shorter_join() {
        let mut pauses = Pauses::default();
        let mut moments = Vec::new();
        for at in 1..200_u64 {
            pauses.record(Nanos(10_000 - at), SimTime(at));
            moments.push(pauses);
        }
        assert_eq!(pauses.longest(), Some(Nanos(9_999)));
        for (at, before) in moments.iter().enumerate().take(190) {
            let found = pauses.since(before).longest().unwrap().0;
            let exact = 10_000 - (at as u64 + 2);
            assert!(found >= exact && found - exact < 200, "{at}: {exact} and {found}");
        }
    }
}
