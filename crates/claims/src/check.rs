//! A measured number beside its limit, and the verdict.

use super::bench::{Bench, ReproduceError};
use pellucid_report::plot::Unit;

/// Verdict on a check or a claim, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Within the limit.
    Holds,
    /// Beyond the limit at the chosen settings, but within the range that settings missing in the paper allow.
    InRange,
    /// Beyond the limit; no setting was varied.
    Misses,
    /// Beyond the limit at every plausible setting of what the paper leaves open, always on the same side of the published number.
    Contradicts,
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InRange => "in range",
            Verdict::Misses => "misses",
            Verdict::Contradicts => "contradicts",
        }
    }
}

/// Limit of a measured number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The published number, within this share of it.
    Within(f64),
    /// The published number, within this absolute difference.
    Points(f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Between the two.
    Between(f64, f64),
    /// No limit: the number is informative, and other checks decide.
    Shown,
}

/// A setting that the paper does not give, varied over plausible values, with the number measured at each value. All other settings keep theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The setting, and the bounds of its values.
    pub unknown: &'static str,
    /// Values with their measured numbers; the first one is the chosen value.
    pub points: Vec<(String, f64)>,
}

impl Range {
    /// The least and the greatest number.
    pub fn ends(&self) -> (f64, f64) {
        let numbers = || self.points.iter().map(|point| point.1);
        (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// One number beside its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Measured quantity.
    pub what: String,
    /// The number in the paper, or the one that follows from it.
    pub published: Option<f64>,
    /// True if the paper does not print `published`, which follows from what it prints or from what was measured here.
    pub derived: bool,
    /// The measured number.
    pub measured: f64,
    /// Unit of both numbers.
    pub unit: Unit,
    /// Limit of `measured`.
    pub limit: Limit,
    /// Value at which two compared systems would be equal, such as 0 for a gain. A number on its wrong side reverses the paper's order.
    /// order round.
    pub even: Option<f64>,
    /// Range of a number beyond its limit for each setting that the paper leaves open; each is varied alone.
    pub ranges: Vec<Range>,
}

impl Check {
    /// A published number that must be met within a share of it.
    pub fn within(what: impl Into<String>, unit: Unit, published: f64, measured: f64, share: f64) -> Check {
        let limit = Limit::Within(share);
        Check { published: Some(published), ..Check::bound(what, unit, measured, limit) }
    }

    /// A number that follows from the paper and must be met within a share of it.
    pub fn derived(what: impl Into<String>, unit: Unit, expected: f64, measured: f64, share: f64) -> Check {
        Check { derived: true, ..Check::within(what, unit, expected, measured, share) }
    }

    /// A published share that must be met within `points`; both are shares of 1.
    pub fn points(what: impl Into<String>, published: f64, measured: f64, points: f64) -> Check {
        let limit = Limit::Points(points);
        Check { published: Some(published), ..Check::bound(what, Unit::Percent, measured, limit) }
    }

    /// An order or a shape, expressed as a number and its bound.
    pub fn bound(what: impl Into<String>, unit: Unit, measured: f64, limit: Limit) -> Check {
        Check {
            what: what.into(),
            published: None,
            derived: false,
            measured,
            unit,
            limit,
            even: None,
            ranges: Vec::new(),
        }
    }

    /// Turns the check into a comparison of two systems that are equal at `even`.
    pub fn even_at(self, even: f64) -> Check {
        Check { even: Some(even), ..self }
    }

    /// A number that decides nothing.
    pub fn shown(what: impl Into<String>, unit: Unit, published: Option<f64>, measured: f64) -> Check {
        Check { published, ..Check::bound(what, unit, measured, Limit::Shown) }
    }

    /// Measured / published, if the paper gives a number other than 0.
    pub fn ratio(&self) -> Option<f64> {
        self.published.filter(|published| *published != 0.0).map(|published| self.measured / published)
    }

    /// Compares the number with its limit. NaN meets no limit.
    pub fn verdict(&self) -> Verdict {
        match self.limit {
            Limit::Shown => Verdict::Holds,
            _ if self.strain() <= 1.0 => Verdict::Holds,
            _ if self.ranges.is_empty() => Verdict::Misses,
            _ if self.ranges.iter().any(|range| self.is_in(range)) => Verdict::InRange,
            _ => Verdict::Contradicts,
        }
    }

    /// Reports whether the number at the chosen settings reverses the paper's order: it is beyond its limit, on the wrong side of `even`.
    pub fn is_reversed(&self) -> bool {
        self.verdict() != Verdict::Holds && !self.has_the_sign(self.measured)
    }

    /// Reports whether `measured`, at any settings, has the paper's order; always true for a check that compares nothing.
    pub fn has_the_sign(&self, measured: f64) -> bool {
        let Some(even) = self.even else { return true };
        match (self.published, self.limit) {
            (Some(published), _) if published != even => (published - even) * (measured - even) >= 0.0,
            (None, Limit::AtLeast(_)) => measured >= even,
            (None, Limit::AtMost(_)) => measured <= even,
            (None, Limit::Between(low, high)) => (f64::midpoint(low, high) - even) * (measured - even) >= 0.0,
            _ => true,
        }
    }

    /// Reports whether a value in the range meets the limit, or the published number lies between two values.
    fn is_in(&self, range: &Range) -> bool {
        let keeps = |&(_, measured): &(String, f64)| self.strain_of(measured) <= 1.0;
        let (least, most) = range.ends();
        let spans = self.published.is_some_and(|published| (least..=most).contains(&published));
        spans || range.points.iter().any(keeps)
    }

    /// Fraction of the limit that is used up: 1 at the limit, more beyond.
    pub fn strain(&self) -> f64 {
        self.strain_of(self.measured)
    }

    fn strain_of(&self, measured: f64) -> f64 {
        let published = self.published.unwrap_or(f64::NAN);
        let strain = match self.limit {
            Limit::Within(share) => (measured / published - 1.0).abs() / share,
            Limit::Points(points) => (measured - published).abs() / points,
            Limit::AtLeast(least) if measured >= least => (least / measured).max(0.0),
            Limit::AtLeast(least) => 1.0 + (least - measured),
            Limit::AtMost(most) if measured <= most && most > 0.0 => measured / most,
            Limit::AtMost(most) if measured <= most => 0.0,
            Limit::AtMost(most) => 1.0 + (measured - most),
            Limit::Between(low, high) => (measured - f64::midpoint(low, high)).abs() / ((high - low) / 2.0),
            Limit::Shown => 0.0,
        };
        if strain.is_nan() { f64::INFINITY } else { strain }
    }
}

/// Varies a setting that the paper does not give: `again` measures the checks of a claim at each of the `settings`, and every check beyond its limit
/// gets the range of its number. Measures nothing if all checks meet their limits.
///
/// # Errors
/// A measurement fails.
pub(super) fn vary<S>(
    bench: &Bench,
    checks: &mut [Check],
    (unknown, now): (&'static str, &str),
    settings: &[(&str, S)],
    again: impl Fn(&S) -> Result<Vec<Check>, ReproduceError>,
) -> Result<(), ReproduceError> {
    let is_open = |check: &Check| check.verdict() != Verdict::Holds;
    if !bench.varies() || !checks.iter().any(is_open) {
        return Ok(());
    }
    let varied: Vec<(&str, Vec<Check>)> = settings
        .iter()
        .map(|(name, setting)| Ok((*name, again(setting)?)))
        .collect::<Result<_, ReproduceError>>()?;
    for check in checks.iter_mut().filter(|check| is_open(check)) {
        let of = |(name, checks): &(&str, Vec<Check>)| {
            let same = checks.iter().find(|other| other.what == check.what);
            same.map(|other| ((*name).to_string(), other.measured))
        };
        let mut points: Vec<(String, f64)> = varied.iter().filter_map(of).collect();
        if !points.is_empty() {
            points.insert(0, (now.to_string(), check.measured));
            check.ranges.push(Range { unknown, points });
        }
    }
    Ok(())
}
