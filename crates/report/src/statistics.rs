//! Means with confidence intervals, by Student's t.

/// Probability that a confidence interval contains the true mean.
pub(super) const CONFIDENCE: f64 = 0.95;

/// A mean of several values, and half the width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) half_width: f64,
}

impl Mean {
    /// Averages at least two values. Equal values have an interval of width 0.
    pub(super) fn of(values: &[f64]) -> Mean {
        assert!(values.len() > 1, "an interval needs two values");
        if values.iter().all(|value| *value == values[0]) {
            // The sum of equal values may differ from them in its last digit.
            return Mean { mean: values[0], half_width: 0.0 };
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let freedom = values.len() as u32 - 1;
        Mean { mean, half_width: student_t(CONFIDENCE, freedom) * (variance / count).sqrt() }
    }

    /// Returns whether the interval excludes 0.
    pub(super) fn is_larger_than_chance(self) -> bool {
        self.mean.abs() > self.half_width
    }
}

/// Returns the t for which `confidence` of Student's distribution lies between -t and t.
fn student_t(confidence: f64, freedom: u32) -> f64 {
    let mut high = 1.0;
    while between(high, freedom) < confidence {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each step halves the bracket; 80 exhaust the precision of `f64`.
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if between(middle, freedom) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns the fraction of Student's distribution between -t and t: the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn between(t: f64, freedom: u32) -> f64 {
    let angle = (t / f64::from(freedom).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cos } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut power = if is_odd { 3 } else { 2 };
    while power <= freedom.saturating_sub(2) {
        term *= f64::from(power - 1) / f64::from(power) * cos * cos;
        sum += term;
        power += 2;
    }
    if is_odd { (angle + sin * sum) * std::f64::consts::FRAC_2_PI } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_is_that_of_the_tables() {
        // Two-sided 95 % points by degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
        for (freedom, t) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (30, 2.042),
            (99, 1.984),
        ] {
            let found = student_t(0.95, freedom);
            assert!((found - t).abs() < 0.0006, "{freedom} degrees of freedom: {found}, expected {t}");
        }
    }

    #[test]
    fn an_interval_is_that_of_its_values() {
        let found = Mean::of(&[5.93, 5.95, 5.96, 5.94, 5.945]);
        assert!((found.mean - 5.945).abs() < 1e-9);
        // t of 4 degrees of freedom, standard deviation 0.01118.
        assert!((found.half_width - 2.776_445 * 0.011_180_34 / 5f64.sqrt()).abs() < 1e-6);
        assert_eq!(Mean::of(&[0.1; 3]), Mean { mean: 0.1, half_width: 0.0 });
    }

    #[test]
    fn a_difference_is_chance_if_its_interval_has_zero() {
        assert!(!Mean::of(&[1.0, -1.0, 0.5]).is_larger_than_chance());
        assert!(!Mean::of(&[0.0, 0.0]).is_larger_than_chance());
        assert!(Mean::of(&[1.0, 1.1, 0.9]).is_larger_than_chance());
        assert!(Mean::of(&[-1.0, -1.0]).is_larger_than_chance());
    }
}
