//! Steady state: rules that judge a run over rounds of equal length.
//!
//! ```text
//!  rounds ─► the value of each ─► the last ones, a window ─► range, slope, deviation, as shares of the average ─► steady?
//! ```
//! `snia` is the rule of SNIA's Solid State Storage Performance Test Specification (PTS 2.0.2, "steady state"); the others are fio's (`steadystate`),
//! with percentages as shares of the average here, too.

use pellucid_text::{read_share, write_percent};
use std::fmt;
use std::str::FromStr;

/// Rounds in SNIA's window.
pub const SNIA_ROUNDS: u32 = 5;
/// SNIA: the values of a window range over at most this share of their average.
const RANGE_MAX: f64 = 0.2;
/// SNIA: the best line through a window changes by at most this share of the average, from first round to last.
const EXCURSION_MAX: f64 = 0.1;

/// Judged value of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// Requests per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean latency.
    Latency,
}

impl Tracked {
    const ALL: [Tracked; 3] = [Tracked::Iops, Tracked::Bandwidth, Tracked::Latency];

    /// fio's name in rules.
    pub fn word(self) -> &'static str {
        match self {
            Tracked::Iops => "iops",
            Tracked::Bandwidth => "bw",
            Tracked::Latency => "lat",
        }
    }
}

/// A rule of steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SteadyRule {
    /// SNIA's: five rounds within a range of at most 20 % of their average, whose best line changes by at most 10 % of it.
    Snia(Tracked),
    /// fio's `iops`, `bw`, `lat`: no round deviates from the average by more than this share.
    Deviation(Tracked, f64),
    /// fio's `iops_slope`, `bw_slope`, `lat_slope`: the best line changes by at most this share of the average per round.
    Slope(Tracked, f64),
}

impl SteadyRule {
    /// Texts of all rules.
    pub const ALLOWED: &str = "snia, snia:bw, snia:lat, iops:SHARE, bw:SHARE, lat:SHARE, iops_slope:SHARE, bw_slope:SHARE, lat_slope:SHARE";

    /// The judged value.
    pub fn tracked(self) -> Tracked {
        match self {
            SteadyRule::Snia(tracked) | SteadyRule::Deviation(tracked, _) | SteadyRule::Slope(tracked, _) => {
                tracked
            }
        }
    }

    /// Reports whether a window is steady.
    pub fn holds(self, window: &Window) -> bool {
        match self {
            SteadyRule::Snia(_) => window.range <= RANGE_MAX && window.excursion() <= EXCURSION_MAX,
            SteadyRule::Deviation(_, most) => window.deviation <= most,
            SteadyRule::Slope(_, most) => window.slope.abs() <= most,
        }
    }
}

impl FromStr for SteadyRule {
    type Err = ();

    fn from_str(text: &str) -> Result<SteadyRule, ()> {
        let tracked = |word: &str| Tracked::ALL.into_iter().find(|tracked| tracked.word() == word).ok_or(());
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        if name == "snia" {
            let judged = if text == name { Ok(Tracked::Iops) } else { tracked(value) };
            return judged.map(SteadyRule::Snia);
        }
        let share = read_share(value).filter(|share| (0.0..=1.0).contains(share) && *share > 0.0).ok_or(())?;
        match name.strip_suffix("_slope") {
            Some(word) => Ok(SteadyRule::Slope(tracked(word)?, share)),
            None => Ok(SteadyRule::Deviation(tracked(name)?, share)),
        }
    }
}

impl fmt::Display for SteadyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SteadyRule::Snia(Tracked::Iops) => f.write_str("snia"),
            SteadyRule::Snia(tracked) => write!(f, "snia:{}", tracked.word()),
            SteadyRule::Deviation(tracked, most) => write!(f, "{}:{}", tracked.word(), write_percent(*most)),
            SteadyRule::Slope(tracked, most) => {
                write!(f, "{}_slope:{}", tracked.word(), write_percent(*most))
            }
        }
    }
}

/// The last rounds of a run, compared with their average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// The average of the rounds.
    pub average: f64,
    /// Largest minus smallest value, as a share of the average.
    pub range: f64,
    /// Change of the best line (least squares) per round, as a share of the average.
    pub slope: f64,
    /// Largest deviation from the average, as a share of it.
    pub deviation: f64,
    rounds: u32,
}

impl Window {
    /// The window of these rounds; `None`: fewer than two, or all zero.
    pub fn of(values: &[f64]) -> Option<Window> {
        let count = values.len() as f64;
        let average = values.iter().sum::<f64>() / count;
        if values.len() < 2 || !average.is_finite() || average <= 0.0 {
            return None;
        }
        let middle = (count - 1.0) / 2.0;
        let away = || (0..).zip(values).map(|(round, value)| (f64::from(round) - middle, value - average));
        let slope = away().map(|(x, y)| x * y).sum::<f64>() / away().map(|(x, _)| x * x).sum::<f64>();
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        Some(Window {
            average,
            range: (most - least) / average,
            slope: slope / average,
            deviation: away().map(|(_, y)| y.abs()).fold(0.0, f64::max) / average,
            rounds: values.len() as u32,
        })
    }

    /// Change of the best line from the first round to the last, as a share of the average.
    pub fn excursion(&self) -> f64 {
        self.slope.abs() * f64::from(self.rounds - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(values: &[f64]) -> Window {
        Window::of(values).expect("two rounds in which something happened")
    }

    #[test]
    fn snias_rule_bounds_range_and_best_line_apart() {
        let snia: SteadyRule = "snia".parse().unwrap();
        // A line from 95 to 105 changes by exactly a tenth, which still is steady.
        assert!(snia.holds(&window(&[95.0, 97.5, 100.0, 102.5, 105.0])));
        assert!(
            !snia.holds(&window(&[94.9, 97.5, 100.0, 102.5, 105.1])),
            "the line moves by more than a tenth"
        );
        // Little slope, but a range of more than a fifth.
        let wide = window(&[100.0, 88.0, 120.0, 96.0, 96.0]);
        assert!(wide.excursion() <= 0.1 && wide.range > 0.2 && !snia.holds(&wide));
        let exact = window(&[90.0, 110.0, 100.0, 110.0, 90.0]);
        assert!((exact.range - 0.2).abs() < 1e-12 && exact.slope.abs() < 1e-12);
    }

    #[test]
    fn fios_rules_bound_deviation_or_slope() {
        let values = [98.0, 100.0, 102.0];
        assert!("iops:2%".parse::<SteadyRule>().unwrap().holds(&window(&values)));
        assert!(!"iops:1.9%".parse::<SteadyRule>().unwrap().holds(&window(&values)));
        assert!("bw_slope:2%".parse::<SteadyRule>().unwrap().holds(&window(&values)));
        assert!(!"bw_slope:0.019".parse::<SteadyRule>().unwrap().holds(&window(&values)));
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in ["snia", "snia:bw", "snia:lat", "iops:0.3%", "lat:5%", "bw_slope:1%", "lat_slope:0.1%"] {
            let rule: SteadyRule = text.parse().unwrap_or_else(|()| panic!("{text}"));
            assert_eq!(rule.to_string(), text);
        }
        for wrong in [
            "",
            "sina",
            "snia:",
            "snia:x",
            "iops",
            "iops:",
            "iops:0",
            "iops:3",
            "iops:101%",
            "iops:-1%",
            "slope:1%",
            "iops_slope",
        ] {
            assert_eq!(wrong.parse::<SteadyRule>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn what_does_not_happen_is_not_steady() {
        assert_eq!(Window::of(&[0.0; 5]), None);
        assert_eq!(Window::of(&[7.0]), None);
        assert_eq!(Window::of(&[1.0, f64::NAN]), None);
    }
}
