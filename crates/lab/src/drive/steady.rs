//! A run that continues until it is steady: its rounds, and the verdict on the last ones.
//!
//! ```text
//!  begin ── round ── round ── round ── ... ── a window of rounds holds the rule ─► reached: the run ends
//! ```
//! A completion belongs to the round in which it comes. The first completion after a round closes it.

use pellucid_flash::{Nanos, SimTime};
use pellucid_report::SteadyState;
use pellucid_spec::SteadySpec;
use pellucid_workload::{SteadyRule, Tracked, Window};

/// Requests that completed in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    requests: u64,
    bytes: u64,
    latency_ns: u64,
}

/// The rounds of a run.
#[derive(Clone, Debug)]
pub(super) struct Steadiness {
    rule: SteadyRule,
    round: Nanos,
    window: usize,
    /// End of the current round.
    ends: SimTime,
    current: Round,
    /// Values of the completed rounds.
    values: Vec<f64>,
    reached: bool,
}

impl Steadiness {
    /// Begins rounds as described, at `begin`.
    pub fn new(spec: &SteadySpec, begin: SimTime) -> Steadiness {
        Steadiness {
            rule: spec.rule,
            round: spec.round,
            window: spec.window as usize,
            ends: begin + spec.round,
            current: Round::default(),
            values: Vec::new(),
            reached: false,
        }
    }

    /// Restarts: everything so far was warm-up.
    pub fn begin(&mut self, at: SimTime) {
        *self = Steadiness {
            ends: at + self.round,
            current: Round::default(),
            values: Vec::new(),
            reached: false,
            ..self.clone()
        };
    }

    /// Counts a read or a write that completed at `at`.
    #[inline]
    pub fn complete(&mut self, at: SimTime, bytes: u64, latency: Nanos) {
        if at >= self.ends {
            self.close_until(at);
        }
        self.current.requests += 1;
        self.current.bytes += bytes;
        self.current.latency_ns += latency.0;
    }

    #[cold]
    fn close_until(&mut self, at: SimTime) {
        while at >= self.ends && !self.reached {
            let Round { requests, bytes, latency_ns } = std::mem::take(&mut self.current);
            let seconds = self.round.0 as f64 / 1e9;
            self.values.push(match self.rule.tracked() {
                Tracked::Iops => requests as f64 / seconds,
                Tracked::Bandwidth => bytes as f64 / seconds,
                Tracked::Latency => latency_ns as f64 / requests.max(1) as f64,
            });
            self.ends += self.round;
            let full = self.values.len() >= self.window;
            self.reached = full && self.last_window().is_some_and(|window| self.rule.holds(&window));
        }
    }

    fn last_window(&self) -> Option<Window> {
        Window::of(&self.values[self.values.len().saturating_sub(self.window)..])
    }

    /// Returns whether the last rounds satisfy the rule.
    #[inline]
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// Returns the report's section; a round cut short by the end of the work does not count.
    pub fn report(&self) -> SteadyState {
        let window = self.last_window();
        let after = Nanos(self.round.0 * self.values.len() as u64);
        SteadyState {
            rule: self.rule.to_string(),
            tracked: match self.rule.tracked() {
                Tracked::Iops => "iops",
                Tracked::Bandwidth => "bytes_per_second",
                Tracked::Latency => "mean_ns",
            }
            .into(),
            round_seconds: self.round.0 as f64 / 1e9,
            window_rounds: self.window as u32,
            reached: self.reached,
            reached_seconds: self.reached.then_some(after.0 as f64 / 1e9),
            round_values: self.values.clone(),
            average: window.map(|window| window.average),
            range_share: window.map(|window| window.range),
            slope_share: window.map(|window| window.slope),
            deviation_share: window.map(|window| window.deviation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes `counts[i]` requests in the i-th millisecond.
    fn rounds(rule: &str, counts: &[u64]) -> Steadiness {
        let spec = SteadySpec {
            rule: rule.parse().unwrap_or_else(|()| panic!("{rule}")),
            round: Nanos::from_us(1000),
            window: 5,
        };
        let begin = SimTime(500);
        let mut steady = Steadiness::new(&spec, begin);
        for (at, &count) in counts.iter().enumerate() {
            for one in 0..count {
                let when = begin.0 + at as u64 * 1_000_000 + one * 1_000_000 / count;
                steady.complete(SimTime(when), 4096, Nanos(7));
            }
        }
        steady
    }

    #[test]
    fn the_first_window_that_holds_the_rule_ends_the_run() {
        let steady = rounds("snia", &[400, 300, 100, 101, 99, 100, 102, 100, 900]);
        let report = steady.report();
        assert!(report.reached);
        assert_eq!(
            report.round_values,
            [400e3, 300e3, 100e3, 101e3, 99e3, 100e3, 102e3],
            "rounds three to seven"
        );
        assert_eq!((report.reached_seconds, report.average), (Some(0.007), Some(100.4e3)));
    }

    #[test]
    fn a_window_needs_all_its_rounds_and_the_last_one_its_end() {
        assert!(!rounds("snia", &[100, 100, 100, 100, 100]).is_reached(), "the fifth round is not over");
        assert!(rounds("snia", &[100, 100, 100, 100, 100, 1]).is_reached());
        let drifting: Vec<u64> = (0..40).map(|round| (3000.0 * 0.96_f64.powi(round)) as u64).collect();
        let report = rounds("snia", &drifting).report();
        assert!(!report.reached && report.reached_seconds.is_none());
    }

    #[test]
    fn rounds_in_which_nothing_comes_are_rounds_too() {
        let steady = rounds("snia", &[100, 0, 0, 100, 1]);
        assert_eq!(steady.report().round_values, [100e3, 0.0, 0.0, 100e3]);
        assert!(!rounds("snia", &[1, 0, 0, 0, 0, 0, 0, 1]).is_reached(), "silence is not steady");
    }

    #[test]
    fn bandwidth_and_latency_are_judged_by_their_own_values() {
        assert_eq!(rounds("snia:bw", &[100, 1]).report().round_values, [100.0 * 4096.0 * 1000.0]);
        assert_eq!(rounds("lat:1%", &[100, 1]).report().round_values, [7.0]);
    }

    #[test]
    fn a_warm_up_does_not_count() {
        let mut steady = rounds("snia", &[100; 6]);
        steady.begin(SimTime(6_000_500));
        assert!(!steady.is_reached() && steady.report().round_values.is_empty());
    }
}
