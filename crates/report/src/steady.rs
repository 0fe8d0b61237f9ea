//! Steady state: the report's section on a run with a steady-state rule.

use pellucid_text::format::{bytes, count, duration, percent, significant, span};
use serde::Serialize;

/// Rounds of a run that was to go on until it is steady, and the verdict on the last ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SteadyState {
    /// The rule, as the description states it.
    pub rule: String,
    /// Judged value: `iops`, `bytes_per_second` or `mean_ns`.
    pub tracked: String,
    /// Length of a round in simulated seconds.
    pub round_seconds: f64,
    /// Number of rounds that are judged together.
    pub window_rounds: u32,
    /// True if the last rounds satisfy the rule; the run ended there.
    pub reached: bool,
    /// Simulated seconds from the begin of the measurement to the end of the round in which it got steady; absent if it did not.
    pub reached_seconds: Option<f64>,
    /// Value of each whole round.
    pub round_values: Vec<f64>,
    /// Average of the last window; absent if it had no requests.
    pub average: Option<f64>,
    /// Largest minus smallest value of the last window, relative to its average.
    pub range_share: Option<f64>,
    /// Slope of the regression line through the last window per round, relative to its average.
    pub slope_share: Option<f64>,
    /// Largest distance of a value of the last window from its average, relative to it.
    pub deviation_share: Option<f64>,
}

impl SteadyState {
    /// Says in a sentence whether and when the run got steady.
    pub fn words(&self) -> String {
        let rounds =
            format!("{} rounds of {}", count(self.round_values.len() as u64), span(self.round_seconds));
        let mut words = match self.reached_seconds {
            Some(seconds) => format!("{}: reached after {rounds}, at {}", self.rule, span(seconds)),
            None => format!("{}: NOT reached in {rounds}", self.rule),
        };
        if let (Some(average), Some(judged)) = (self.average, self.judged()) {
            let unit = match self.tracked.as_str() {
                "iops" => format!("{} IOPS", significant(average)),
                "bytes_per_second" => format!("{}/s", bytes(average)),
                _ => duration(average),
            };
            let last = (self.window_rounds as usize).min(self.round_values.len());
            words += &format!("; last {last} rounds: {unit}, {judged}");
        }
        words
    }

    /// Says in words how nearly the last window satisfies the rule.
    fn judged(&self) -> Option<String> {
        let slope = || Some(format!("slope {} a round", percent(self.slope_share?.abs())));
        Some(match self.rule.split(':').next()? {
            "snia" => format!("range {}, {}", percent(self.range_share?), slope()?),
            name if name.ends_with("_slope") => slope()?,
            _ => format!("largest deviation {}", percent(self.deviation_share?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_whether_and_when_it_was_steady() {
        let steady = SteadyState {
            rule: "snia".into(),
            tracked: "iops".into(),
            round_seconds: 2.0,
            window_rounds: 5,
            reached: true,
            reached_seconds: Some(12.0),
            round_values: vec![900.0; 6],
            average: Some(900.0),
            range_share: Some(0.125),
            slope_share: Some(-0.02),
            deviation_share: Some(0.1),
        };
        assert_eq!(
            steady.words(),
            "snia: reached after 6 rounds of 2.00 s, at 12.0 s; last 5 rounds: 900 IOPS, range 12.5 %, slope 2.00 % a round"
        );
        for (rule, end) in
            [("iops:10%", "900 IOPS, largest deviation 10.0 %"), ("bw_slope:1%", ", slope 2.00 % a round")]
        {
            let words = SteadyState { rule: rule.into(), ..steady.clone() }.words();
            assert!(words.starts_with(&format!("{rule}: reached")) && words.ends_with(end), "{words}");
        }
        let nothing = SteadyState {
            reached: false,
            reached_seconds: None,
            round_values: Vec::new(),
            average: None,
            ..steady
        };
        assert_eq!(nothing.words(), "snia: NOT reached in 0 rounds of 2.00 s");
    }
}
