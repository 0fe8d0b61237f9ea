//! Pauses of garbage collection: how long each victim takes from its choice until it is space again.
//!
//! The histogram has a fixed size, so that it can be a counter among others: copied, subtracted, added. It has eight bins to each doubling, as
//! [`Histogram<3>`](Histogram) has, so a quantile is at most an eighth too large; pauses from 2^35 ns (34 s) on share the last bin.

use crate::{Figure, Histogram, Nanos};

const FINE: u32 = 3;
type Scale = Histogram<FINE>;
/// Bins up to 2^35 ns.
const BINS: usize = Scale::bucket_of(1 << 35);

/// Number of pauses by their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    bins: [u32; BINS],
    count: u64,
    sum_ns: u64,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { bins: [0; BINS], count: 0, sum_ns: 0 }
    }
}

impl Pauses {
    /// Adds a pause.
    pub fn record(&mut self, pause: Nanos) {
        self.bins[Scale::bucket_of(pause.0).min(BINS - 1)] += 1;
        self.count += 1;
        self.sum_ns += pause.0;
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
    }

    /// Bins that are not empty, shortest first: largest length in ns, number.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.bins.iter().enumerate().filter(|(_, number)| **number > 0);
        filled.map(|(bin, &number)| (Scale::upper_of(bin), number.into()))
    }

    /// Length that this share of all pauses does not exceed, rounded up to the end of its bin; `None` without pauses.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.bins().find(|&(_, number)| {
            seen += number;
            seen >= rank
        });
        reached.map(|(upper, _)| Nanos(upper))
    }

    /// The pauses as figures of a layer, under these names: number, sum, and the median, the 99th percentile and the longest as gauges.
    pub fn figures(&self, [count, sum, p50, p99, longest]: [&'static str; 5]) -> [Figure; 5] {
        let quantile = |name, help, share| {
            Figure::nanos(name, help, self.quantile(share).map_or(0, |pause| pause.0)).gauge()
        };
        [
            Figure::count(count, "Garbage collections of a victim that have ended.", self.count),
            Figure::nanos(sum, "Their time, from the choice of the victim to its end.", self.sum_ns),
            quantile(p50, "Half of them took no longer.", 0.5),
            quantile(p99, "99 % of them took no longer.", 0.99),
            quantile(longest, "The longest of them.", 1.0),
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
        for i in 0..5_000 {
            let pause = Nanos(rng.next_u64() >> (30 + rng.below(34)));
            whole.record(pause);
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
        pauses.record(Nanos::from_secs(100));
        assert_eq!((pauses.count(), pauses.sum()), (1, Nanos::from_secs(100)));
        assert_eq!(pauses.quantile(1.0), Some(Nanos(Scale::upper_of(BINS - 1))));
    }
}
