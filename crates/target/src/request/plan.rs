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
//!  io-error@0s:on=write,rate=0.01         hosts meet it from then on: see [`super::host_fault`]
//!  clear@10s                              and no more from then on
//! ```
//! Plans have the same actions as the control socket: see [`super::action`].
//!
//! Invariant: a plan by operations, including random ones, is repeatable: equal requests of a host meet equal
//! faults.

use super::action::Action;
use super::error::PlanError;
use super::host_fault::HostFault;
use std::str::FromStr;
use std::time::Duration;

const MOMENTS: &str = "a time (2s, 500ms), a number of operations (1000ops), random";
const KEYS: &str = "drive=NAME, times=N; with random also seed=N, mean=OPERATIONS; of a fault that hosts see also on, range, rate, count, seed";
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
    pub action: Action,
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
}
