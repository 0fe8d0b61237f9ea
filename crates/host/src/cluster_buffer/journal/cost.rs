//! Choice between draining and journalling for a flush, by their measured costs.

use pellucid_flash::Nanos;

/// Path of clusters with few sectors in the buffer, for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Drain,
    Journal,
}

/// Weight of a new value in a mean.
const WEIGHT: f64 = 0.125;
/// Interval, in decisions, at which the other path is tried, because its cost may have changed.
const TRIAL: u32 = 64;

/// Mean of recent costs.
#[derive(Clone, Copy, Debug, Default)]
struct Mean(Option<f64>);

impl Mean {
    fn add(&mut self, value: f64) {
        let before = self.0.unwrap_or(value);
        self.0 = Some(before + WEIGHT * (value - before));
    }
}

/// Measured costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// Time to drain a cluster with few sectors in the buffer.
    drain: Mean,
    /// Time to write a unit of a record.
    unit: Mean,
    /// Time to evict a journalled cluster for lack of space in the buffer or the ring.
    retire: Mean,
    /// Journalled clusters; `retired` counts those of them evicted for lack of space.
    journalled: f64,
    retired: f64,
    decisions: u32,
}

impl Costs {
    pub fn drained(&mut self, time: Nanos) {
        self.drain.add(time.0 as f64);
    }

    pub fn retired(&mut self, time: Nanos) {
        self.retire.add(time.0 as f64);
        self.retired += 1.0;
    }

    pub fn journalled(&mut self, clusters: usize, units: u32, time: Nanos) {
        self.unit.add(time.0 as f64 / f64::from(units.max(1)));
        // Both counts fade alike, so their quotient reflects recent clusters.
        let fade = 1.0 - 1.0 / 1024.0;
        self.journalled = self.journalled * fade + clusters as f64;
        self.retired *= fade;
    }

    /// Chooses the path for `clusters` clusters that would take `units` units of a record.
    pub fn choose(&mut self, clusters: u32, units: u32) -> Way {
        let (Some(drain), Some(unit)) = (self.drain.0, self.unit.0) else {
            // A path without a measurement is tried, the journal first.
            return if self.unit.0.is_none() { Way::Journal } else { Way::Drain };
        };
        let each = self.retire.0.unwrap_or(0.0) * (self.retired / self.journalled.max(1.0)).min(1.0);
        let journal = f64::from(units) * unit + f64::from(clusters) * each;
        let cheaper = if journal < f64::from(clusters) * drain { Way::Journal } else { Way::Drain };
        self.decisions += 1;
        match (self.decisions % TRIAL, cheaper) {
            (0, Way::Drain) => Way::Journal,
            (0, Way::Journal) => Way::Drain,
            (_, way) => way,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_is_found_and_found_again() {
        let mut costs = Costs::default();
        assert_eq!(costs.choose(2, 4), Way::Journal, "tried first");
        costs.journalled(2, 4, Nanos(400));
        assert_eq!(costs.choose(2, 4), Way::Drain, "tried then");
        costs.drained(Nanos(1000));
        assert_eq!(costs.choose(2, 4), Way::Journal, "400 against 2000");
        // Each journalled cluster has to leave soon, at the same cost.
        (0..40).for_each(|_| costs.retired(Nanos(5000)));
        assert_eq!(costs.choose(2, 4), Way::Drain, "400 and 2 times 5000 against 2000");
        let other = (0..2 * TRIAL).filter(|_| costs.choose(2, 4) == Way::Journal).count();
        assert_eq!(other, 2, "now and then the other way");
    }
}
