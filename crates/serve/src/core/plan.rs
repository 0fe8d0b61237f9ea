//! Planned faults of served drives: determines the next one, by operations and by time.
//!
//! Invariant: a plan by operations, including random ones, is repeatable: equal requests of a host meet equal
//! faults.

use pellucid_flash::Rng;
use pellucid_target::request::{Moment, PlannedFault};

/// A planned fault for a drive in service.
struct Entry {
    fault: PlannedFault,
    namespace: usize,
    rng: Rng,
    left: u64,
    /// It has struck at least once.
    struck: bool,
    /// Operation number or wall time (ns) of the next occurrence; `u64::MAX`: never.
    next: u64,
}

impl Entry {
    /// Schedules the occurrence after `last`.
    fn schedule(&mut self, last: u64) {
        let distance = match self.fault.moment {
            _ if self.left == 0 => u64::MAX,
            Moment::Time(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Moment::Operations(count) => count,
            Moment::Random { mean, .. } => 1 + self.rng.below(mean.saturating_mul(2).saturating_sub(1)),
        };
        self.next = last.saturating_add(distance);
    }

    fn is_timed(&self) -> bool {
        matches!(self.fault.moment, Moment::Time(_))
    }
}

/// All planned faults for the drives of a server.
#[derive(Default)]
pub(crate) struct Plan {
    entries: Vec<Entry>,
}

impl Plan {
    /// Adds a fault to a drive that has received `operations`.
    pub(crate) fn add(&mut self, fault: PlannedFault, namespace: usize, operations: u64) {
        let seed = if let Moment::Random { seed, .. } = fault.moment { seed } else { 0 };
        let left = fault.times.unwrap_or(u64::MAX);
        let mut entry = Entry { fault, namespace, rng: Rng::new(seed), left, struck: false, next: 0 };
        entry.schedule(if entry.is_timed() { 0 } else { operations });
        self.entries.push(entry);
    }

    /// Removes all planned faults of a namespace that is gone.
    pub(crate) fn remove(&mut self, namespace: usize) {
        self.entries.retain(|entry| entry.namespace != namespace);
    }

    /// Operation of a drive with which the next fault occurs; `u64::MAX`: none.
    pub(crate) fn next_operation(&self, namespace: usize) -> u64 {
        let of_drive = self.entries.iter().filter(|e| e.namespace == namespace && !e.is_timed());
        of_drive.map(|e| e.next).min().unwrap_or(u64::MAX)
    }

    /// Wall time of the next fault since serving began; `u64::MAX`: none.
    pub(crate) fn next_ns(&self) -> u64 {
        self.entries.iter().filter(|e| e.is_timed()).map(|e| e.next).min().unwrap_or(u64::MAX)
    }

    /// Planned faults that have not struck, with their namespaces.
    pub(crate) fn not_struck(&self) -> impl Iterator<Item = (usize, &PlannedFault)> {
        let waiting = self.entries.iter().filter(|entry| !entry.struck);
        waiting.map(|entry| (entry.namespace, &entry.fault))
    }

    /// Takes a due fault: by the operations of a drive, or by time if `namespace` is `None`.
    pub(crate) fn take(&mut self, namespace: Option<usize>, now: u64) -> Option<(usize, PlannedFault)> {
        let due = |e: &&mut Entry| {
            let asked = namespace.map_or(e.is_timed(), |n| !e.is_timed() && n == e.namespace);
            asked && e.next <= now && e.next < u64::MAX
        };
        let entry = self.entries.iter_mut().find(due)?;
        (entry.left, entry.struck) = (entry.left.saturating_sub(1), true);
        entry.schedule(entry.next.max(1));
        Some((entry.namespace, entry.fault.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PlannedFault {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Operations among the first `count` with which faults occur.
    fn struck(text: &str, count: u64) -> Vec<u64> {
        let mut plan = Plan::default();
        plan.add(parse(text), 0, 0);
        let operations =
            (1..=count).filter(|&n| n == plan.next_operation(0) && plan.take(Some(0), n).is_some());
        operations.collect()
    }

    #[test]
    fn by_operations_a_plan_is_repeatable() {
        assert_eq!(struck("power-cut@10ops:times=3", 1000), [10, 20, 30]);
        let found = struck("power-cut@random:seed=7,mean=50", 100_000);
        assert_eq!(found, struck("power-cut@random:seed=7,mean=50", 100_000));
        assert_ne!(found, struck("power-cut@random:seed=8,mean=50", 100_000));
        assert!((1800..2200).contains(&found.len()), "{} in 100,000 operations", found.len());
    }

    #[test]
    fn times_and_operations_do_not_meet() {
        let mut plan = Plan::default();
        plan.add(parse("power-cut@2s:times=2"), 1, 5);
        plan.add(parse("power-cut@3ops"), 1, 5);
        assert_eq!(
            (plan.next_ns(), plan.next_operation(0), plan.next_operation(1)),
            (2_000_000_000, u64::MAX, 8)
        );
        assert!(plan.take(None, 1_999_999_999).is_none());
        assert_eq!(plan.take(None, 2_000_000_500).map(|(drive, _)| drive), Some(1));
        assert_eq!(plan.next_ns(), 4_000_000_000);
        assert!(plan.take(Some(1), 8).is_some() && plan.take(Some(1), 9).is_none());
        assert!(plan.take(None, 4_000_000_000).is_some() && plan.next_ns() == u64::MAX);
    }
}
