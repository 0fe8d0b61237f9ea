//! Faults planned before serving begins: kind, drive and time.
//!
//! ```text
//!  KIND@WHEN[:KEY=VALUE,...]
//!
//!  power-cut@2s                           once, two seconds after serving began
//!  power-cut@1000ops:times=5              with every thousandth operation, five times
//!  power-cut@random:seed=7,mean=500       again and again, after 1 to 999 operations, by the seed
//!  program-fail=0.001@0s:drive=mine       a chance, from the beginning, for one of several drives
//!  kill-die=5@1000ops                     damage: slow-die, kill-die, bit-errors, fail-programs, fail-erases, wear-out
//!  io-error@0s:on=write,rate=0.01         hosts meet it from then on: see [`crate::host_fault`]
//!  clear@10s                              and no more from then on
//! ```
//! Plans have the same actions as the control socket: see [`crate::action`].
//!
//! Invariant: a plan by operations, including random ones, is repeatable: equal requests of a host meet equal
//! faults.

use crate::action::Action;
use crate::host_fault::HostFault;
use pellucid_flash::Rng;
use std::str::FromStr;
use std::time::Duration;

const MOMENTS: &str = "a time (2s, 500ms), a number of operations (1000ops), random";
const KEYS: &str = "drive=NAME, times=N; with random also seed=N, mean=OPERATIONS; of a fault that hosts see also on, range, rate, count, seed";
/// Probabilities in the text of a fault.
pub(crate) const CHANCES: &str = "a probability from 0 to 1, or 0% to 100%";
/// Default mean number of operations between two random faults.
const MEAN_OPERATIONS: u64 = 1000;

/// Time of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After this time of service, and repeatedly at this interval.
    Time(Duration),
    /// With this operation of the drive, counted from 1, and repeatedly after as many.
    Operations(u64),
    /// With a random operation: the distance is uniform from 1 to twice the mean minus one.
    Random {
        /// Seed of the random stream.
        seed: u64,
        /// Mean distance in operations, above 0.
        mean: u64,
    },
}

/// A fault with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFault {
    /// Text of the fault as given.
    pub text: String,
    /// Name of the drive; `None`: the first.
    pub drive: Option<String>,
    /// Time of the fault.
    pub moment: Moment,
    /// Number of repetitions; `None`: unlimited.
    pub times: Option<u64>,
    /// Action to carry out.
    pub(crate) action: Action,
}

/// Error in the text of a planned fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {:?}; allowed: {}", .part, .value, .allowed)]
pub struct PlanError {
    part: String,
    value: String,
    allowed: String,
}

impl PlanError {
    pub(crate) fn new(part: &str, value: &str, allowed: impl Into<String>) -> PlanError {
        PlanError { part: part.into(), value: value.into(), allowed: allowed.into() }
    }
}

fn refuse<T>(part: &'static str, value: &str, allowed: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::new(part, value, allowed))
}

impl FromStr for PlannedFault {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<PlannedFault, PlanError> {
        let Some((kind, rest)) = text.split_once('@') else {
            return refuse("fault", text, "KIND@WHEN[:KEY=VALUE,...], for one power-cut@random:seed=7");
        };
        let (when, options) = rest.split_once(':').unwrap_or((rest, ""));
        let of_host = HostFault::is_meant(kind);
        let random = when == "random";
        if of_host && random {
            return refuse(
                "fault's time",
                when,
                "a time (2s, 500ms), a number of operations (1000ops); by chance with rate=P",
            );
        }
        let (mut drive, mut times, mut seed, mut mean) = (None, (!random).then_some(1), 0, MEAN_OPERATIONS);
        let mut host_options = Vec::new();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match key {
                _ if of_host && HostFault::has_key(key) => host_options.push(option),
                "drive" => drive = Some(value.to_string()),
                "times" => times = Some(number("times", value, 1)?),
                "seed" if random => seed = number("seed", value, 0)?,
                "mean" if random => mean = number("mean", value, 1)?,
                _ => return refuse("fault's option", option, KEYS),
            }
        }
        let action = Action::of_plan(&match of_host {
            true => format!("{kind}:{}", host_options.join(",")),
            false => kind.into(),
        })?;
        let moment = if random { Moment::Random { seed, mean } } else { moment(when)? };
        if moment == Moment::Time(Duration::ZERO) && times != Some(1) {
            return refuse("fault's time", when, "above 0, because it is to happen several times");
        }
        Ok(PlannedFault { text: text.into(), drive, moment, times, action })
    }
}

fn number(part: &'static str, value: &str, min: u64) -> Result<u64, PlanError> {
    match value.parse() {
        Ok(number) if number >= min => Ok(number),
        _ => refuse(part, value, format!("a whole number from {min}")),
    }
}

fn moment(when: &str) -> Result<Moment, PlanError> {
    if let Some(count) = when.strip_suffix("ops") {
        return Ok(Moment::Operations(number("fault's operation", count, 1)?));
    }
    let (value, scale) = match (when.strip_suffix("ms"), when.strip_suffix('s')) {
        (Some(value), _) => (value, 1e-3),
        (None, Some(value)) => (value, 1.0),
        (None, None) => return refuse("fault's time", when, MOMENTS),
    };
    let seconds = value.parse::<f64>().ok().map(|value| value * scale);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) => Ok(Moment::Time(time)),
        None => refuse("fault's time", when, MOMENTS),
    }
}

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

    #[test]
    fn texts_say_what_happens_when() {
        let cut = parse("power-cut@random:seed=7");
        assert_eq!((cut.moment, cut.times), (Moment::Random { seed: 7, mean: MEAN_OPERATIONS }, None));
        assert_eq!(cut.action, Action::PowerCut);
        let fail = parse("program-fail=0.25@500ms:drive=mine,times=2");
        assert_eq!((fail.moment, fail.times), (Moment::Time(Duration::from_millis(500)), Some(2)));
        assert_eq!(fail.drive.as_deref(), Some("mine"));
        assert!(matches!(fail.action, Action::Chances(chances) if chances.program == Some(0.25)));
        let slow = parse("slow-die=3x2.5@1000ops:times=4");
        assert!(matches!(slow.action, Action::Damage(pellucid_media::Fault::SlowDie { factor: 2.5, .. })));
        assert_eq!(parse("read-fail=1@1000ops").moment, Moment::Operations(1000));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("power-cut", "KIND@WHEN"),
            ("lightning@2s", "power-cut, program-fail=P"),
            ("power-cut=1@2s", "power-cut, program-fail=P"),
            ("program-fail@2s", "power-cut, program-fail=P"),
            ("program-fail=2@2s", "0 to 1"),
            ("program-fail=nan@2s", "0 to 1"),
            ("power-cut@soon", "500ms"),
            ("power-cut@-1s", "500ms"),
            ("power-cut@0ops", "from 1"),
            ("power-cut@0s:times=2", "above 0"),
            ("power-cut@2s:seed=7", "with random also"),
            ("power-cut@random:mean=0", "from 1"),
            ("power-cut@random:seed=x", "from 0"),
        ] {
            let error = text.parse::<PlannedFault>().expect_err(text).to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
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
