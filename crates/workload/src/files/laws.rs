//! The gamma distribution of file sizes.

use pellucid_flash::Rng;

/// A gamma distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    shape: f64,
    scale: f64,
}

impl Gamma {
    /// With this mean; `shape` at least 1.
    pub fn with_mean(mean: f64, shape: f64) -> Gamma {
        Gamma { shape, scale: mean / shape }
    }

    /// The next number (Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26(3), 2000).
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        let d = self.shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = normal(rng);
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 {
                let u = rng.unit_f64().max(f64::MIN_POSITIVE);
                if u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                    return d * v * self.scale;
                }
            }
        }
    }
}

/// A standard normal number (Box and Muller).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * rng.unit_f64().max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.unit_f64()).cos()
}
