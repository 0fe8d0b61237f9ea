//! Laws of file sizes: filebench's gamma distribution, and that of a source tree.

use pellucid_flash::Rng;

/// A gamma distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    shape: f64,
    scale: f64,
}

impl Gamma {
    /// The distribution with this mean; `shape` at least 1.
    pub fn with_mean(mean: f64, shape: f64) -> Gamma {
        Gamma { shape, scale: mean / shape }
    }

    /// Draws a number (Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26(3), 2000).
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

/// Sizes of the files of Linux's sources: 256 bytes plus a stretched exponential; half are below 2.6 KB, and one in a hundred is above 72 KB.
///
/// With this law, FlashFire's extraction of linux-2.6.28.1 has the paper's request sizes (section 4.3.2: over 90 % below 8 KiB).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceSizes {
    scale: f64,
}

impl SourceSizes {
    /// Linux's own distribution.
    pub const LINUX: SourceSizes = SourceSizes { scale: 1.0 };
    /// Mean of [`SourceSizes::LINUX`], in bytes: 256 + 4600 gamma(2.8).
    pub const LINUX_MEAN: f64 = 7967.9;

    /// A law of the same shape with another mean, in bytes.
    pub fn with_mean(mean: f64) -> SourceSizes {
        SourceSizes { scale: mean / SourceSizes::LINUX_MEAN }
    }

    /// Draws a number.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        self.scale * (256.0 + 4_600.0 * (-(1.0 - rng.unit_f64()).ln()).powf(1.8))
    }
}

/// Law of the sizes of a file set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// filebench's.
    Gamma(Gamma),
    /// Sizes of a source tree.
    Sources(SourceSizes),
}

impl Sizes {
    /// Draws a size in bytes, at least 1.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let bytes = match self {
            Sizes::Gamma(law) => law.draw(rng),
            Sizes::Sources(law) => law.draw(rng),
        };
        bytes.max(1.0) as u64
    }
}

/// Draws a standard normal number (Box and Muller).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * rng.unit_f64().max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.unit_f64()).cos()
}
