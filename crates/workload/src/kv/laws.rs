//! The laws of a key-value workload: sizes of keys and values, and popularity of keys.
//!
//! | law | describes | source |
//! |---|---|---|
//! | [`KeySize::Etc`]: generalized extreme value, location 30.7984, scale 8.20449, shape 0.078688 | bytes of a key | \[1\], 6.2 |
//! | [`ValueSize::Etc`]: 15 single probabilities for 0 to 14 bytes, generalized Pareto from 15 bytes on | bytes of a value | \[1\], 6.2; the probabilities as in \[2\] |
//! | [`ValueSize::EtcTail`]: that Pareto law alone, scale 214.476, shape 0.348238 | bytes of a value | \[1\], 6.2 |
//! | [`Popularity::Pareto`] | requested keys | ours: \[1\] gives no law of popularity |
//! | [`Popularity::Normal`] | written keys | Prism-SSD, VI-A, names it for Table I, without its deviation |
//!
//! \[1\] B. Atikoglu, Y. Xu, E. Frachtenberg, S. Jiang, M. Paleczny, "Workload analysis of a large-scale key-value store", SIGMETRICS
//! 2012: the `ETC` pool. \[2\] J. Leverich, `mutilate`, a load generator with \[1\]'s ETC pool built in. Others, such as `fbworkload`,
//! omit the 15 probabilities. Prism-SSD apparently does so, too: its 140 million items of 50 GB have 357 bytes each, and a key and a
//! value have 365 bytes on average with `EtcTail`, and 238 with `Etc`.
//!
//! Invariant: a law is a pure function of one uniform number (its quantile), so that the size of a key or value can follow from the key's
//! number alone.

use crate::{Distribution, Sampler};
use pellucid_flash::Rng;

/// The generalized extreme value law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtremeValue {
    /// Location.
    pub location: f64,
    /// Scale, above 0.
    pub scale: f64,
    /// Shape of the tail; not 0.
    pub shape: f64,
}

impl ExtremeValue {
    /// `location + scale ((-ln u)^-shape - 1) / shape`, for `u` between 0 and 1.
    pub fn quantile(&self, u: f64) -> f64 {
        self.location + self.scale * ((-u.ln()).powf(-self.shape) - 1.0) / self.shape
    }

    /// The probability of at most `x`.
    pub fn cumulative(&self, x: f64) -> f64 {
        let t = (1.0 + self.shape * (x - self.location) / self.scale).max(0.0);
        (-t.powf(-1.0 / self.shape)).exp()
    }
}

/// The generalized Pareto law, starting at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneralizedPareto {
    /// Scale, above 0.
    pub scale: f64,
    /// Shape of the tail; not 0.
    pub shape: f64,
}

impl GeneralizedPareto {
    /// `scale ((1 - u)^-shape - 1) / shape`, for `u` from 0 to 1.
    pub fn quantile(&self, u: f64) -> f64 {
        self.scale * ((1.0 - u).powf(-self.shape) - 1.0) / self.shape
    }

    /// The probability of at most `x`.
    pub fn cumulative(&self, x: f64) -> f64 {
        1.0 - (1.0 + self.shape * x.max(0.0) / self.scale).powf(-1.0 / self.shape)
    }
}

/// Sizes of keys in the ETC pool.
pub const ETC_KEY: ExtremeValue = ExtremeValue { location: 30.7984, scale: 8.20449, shape: 0.078688 };
/// Sizes of values in the ETC pool, except for the smallest.
pub const ETC_VALUE: GeneralizedPareto = GeneralizedPareto { scale: 214.476, shape: 0.348238 };
/// Probabilities of values of 0, 1, ... 14 bytes in the ETC pool.
pub const ETC_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];

/// Law of key sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySize {
    /// The law of the ETC pool.
    Etc,
    /// This many bytes for all.
    Fixed(u16),
}

impl KeySize {
    /// Longest key of memcached.
    pub const MAX: u16 = 250;
    /// Shortest key here, which must hold the key's number. ETC has shorter ones with a probability of 4e-7.
    pub const MIN: u16 = 11;

    /// The size at the uniform number `u`.
    pub fn at(self, u: f64) -> u16 {
        let bytes = match self {
            KeySize::Etc => ETC_KEY.quantile(u).round() as u16,
            KeySize::Fixed(bytes) => bytes,
        };
        bytes.clamp(KeySize::MIN, KeySize::MAX)
    }
}

/// Law of value sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSize {
    /// The law of the ETC pool, cut off at `max` bytes.
    Etc {
        /// Longest value.
        max: u32,
    },
    /// The Pareto law of the ETC pool for all values, cut off at `max` bytes.
    EtcTail {
        /// Longest value.
        max: u32,
    },
    /// This many bytes for all.
    Fixed(u32),
}

impl ValueSize {
    /// The size at the uniform number `u`.
    pub fn at(self, u: f64) -> u32 {
        match self {
            ValueSize::Fixed(bytes) => bytes,
            ValueSize::EtcTail { max } => (ETC_VALUE.quantile(u) as u32).clamp(1, max),
            ValueSize::Etc { max } => etc_value(u).min(max),
        }
    }
}

/// The whole law of the ETC pool: small values first, so that sizes ascend with `u`.
fn etc_value(u: f64) -> u32 {
    let mut below = 0.0;
    for (bytes, probability) in ETC_SMALL.iter().enumerate() {
        below += probability;
        if u < below {
            return bytes as u32;
        }
    }
    let from = ETC_VALUE.cumulative(ETC_SMALL.len() as f64);
    let rest = (u - below) / (1.0 - below);
    ETC_VALUE.quantile(from + rest * (1.0 - from)) as u32
}

/// Law of requested keys: chooses one of `n`; 0 is the most popular, if there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Equal probabilities.
    Uniform,
    /// Rank k with a probability proportional to `k^-theta`.
    Zipf(f64),
    /// Around the middle of all keys, with this standard deviation (a share of 1), redrawn when outside.
    Normal(f64),
    /// A generalized Pareto law over the ranks, truncated after the last.
    Pareto {
        /// Scale, as a share of the keys.
        scale: f64,
        /// Shape.
        shape: f64,
    },
}

/// Draws keys.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    keys: u64,
    law: RankLaw,
}

#[derive(Clone, Debug)]
enum RankLaw {
    Drawn(Sampler),
    /// The law, and the total probability of all ranks.
    Pareto(GeneralizedPareto, f64),
}

impl Ranks {
    /// The error names the allowed values.
    pub(crate) fn new(popularity: Popularity, keys: u64, seed: u64) -> Result<Ranks, String> {
        let drawn = |law: Distribution| {
            Sampler::new(&law, keys, 1, Rng::stream(seed, "kv ranks")).map(RankLaw::Drawn)
        };
        let law = match popularity {
            _ if keys == 0 => return Err("at least one key".into()),
            Popularity::Uniform => drawn(Distribution::Uniform)?,
            Popularity::Zipf(theta) => drawn(Distribution::Zipf(theta))?,
            Popularity::Normal(share) => drawn(Distribution::Normal(100.0 * share))?,
            Popularity::Pareto { scale, shape } => {
                let law = GeneralizedPareto { scale, shape };
                RankLaw::Pareto(law, law.cumulative(1.0))
            }
        };
        Ok(Ranks { keys, law })
    }

    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match &self.law {
            RankLaw::Drawn(sampler) => sampler.draw(rng),
            RankLaw::Pareto(law, all) => {
                let share = law.quantile(rng.unit_f64() * all);
                ((share * self.keys as f64) as u64).min(self.keys - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    /// Checks that the share of draws at or below each of `points` matches `cumulative`, within four standard errors.
    fn follows(mut draw: impl FnMut(f64) -> f64, cumulative: impl Fn(f64) -> f64, points: &[f64]) {
        let mut rng = Rng::new(5);
        let drawn: Vec<f64> = (0..DRAWS).map(|_| draw(rng.unit_f64())).collect();
        for &x in points {
            let p = cumulative(x);
            let share = drawn.iter().filter(|&&drawn| drawn <= x).count() as f64 / f64::from(DRAWS);
            let error = (p * (1.0 - p) / f64::from(DRAWS)).sqrt();
            assert!((share - p).abs() <= 4.0 * error + 1e-9, "at {x}: {share} instead of {p}");
        }
    }

    #[test]
    fn laws_are_their_closed_forms() {
        // Each is the inverse of the other, in different form.
        for u in [1e-6, 0.01, 0.25, 0.5, 0.9, 0.9999] {
            assert!((ETC_KEY.cumulative(ETC_KEY.quantile(u)) - u).abs() < 1e-12);
            assert!((ETC_VALUE.cumulative(ETC_VALUE.quantile(u)) - u).abs() < 1e-12);
        }
        // Medians by hand: 30.7984 + 8.20449 (0.693147^-0.078688 - 1) / 0.078688, 214.476 (2^0.348238 - 1) / 0.348238.
        assert!((ETC_KEY.quantile(0.5) - 33.8492).abs() < 1e-3, "{}", ETC_KEY.quantile(0.5));
        assert!((ETC_VALUE.quantile(0.5) - 168.135).abs() < 1e-2, "{}", ETC_VALUE.quantile(0.5));
        follows(|u| ETC_KEY.quantile(u), |x| ETC_KEY.cumulative(x), &[15.0, 25.0, 33.8, 50.0, 100.0]);
        follows(|u| ETC_VALUE.quantile(u), |x| ETC_VALUE.cumulative(x), &[1.0, 50.0, 168.0, 1e3, 1e4]);
    }

    #[test]
    fn sizes_follow_the_published_laws() {
        let key = |u| f64::from(KeySize::Etc.at(u));
        // Rounded to the nearest byte.
        follows(key, |x| ETC_KEY.cumulative(x + 0.5), &[16.0, 20.0, 31.0, 40.0, 80.0]);
        let tail = |u| f64::from(ValueSize::EtcTail { max: 1 << 20 }.at(u));
        follows(tail, |x| ETC_VALUE.cumulative(x + 1.0), &[1.0, 10.0, 100.0, 1000.0, 9999.0]);

        let whole = |u| f64::from(ValueSize::Etc { max: 1 << 20 }.at(u));
        let small: f64 = ETC_SMALL.iter().sum();
        let cumulative = |x: f64| match ETC_SMALL.get(..=x as usize) {
            Some(upto) => upto.iter().sum(),
            None => {
                let from = ETC_VALUE.cumulative(15.0);
                small + (1.0 - small) * (ETC_VALUE.cumulative(x + 1.0) - from) / (1.0 - from)
            }
        };
        follows(whole, cumulative, &[0.0, 2.0, 3.0, 10.0, 11.0, 14.0, 15.0, 100.0, 1000.0, 9999.0]);
    }

    #[test]
    fn sizes_keep_their_bounds() {
        let ends = [0.0, f64::MIN_POSITIVE, 0.5, 1.0 - f64::EPSILON];
        for u in ends {
            assert!((KeySize::MIN..=KeySize::MAX).contains(&KeySize::Etc.at(u)), "{u}");
            assert!((1..=4096).contains(&ValueSize::EtcTail { max: 4096 }.at(u)), "{u}");
            assert!(ValueSize::Etc { max: 4096 }.at(u) <= 4096, "{u}");
        }
        assert_eq!(ValueSize::EtcTail { max: 4096 }.at(1.0 - f64::EPSILON), 4096);
    }

    #[test]
    fn ranks_follow_their_law() {
        let keys = 10_000;
        let law = GeneralizedPareto { scale: 0.05, shape: 0.35 };
        let ranks = Ranks::new(Popularity::Pareto { scale: 0.05, shape: 0.35 }, keys, 1).unwrap();
        let mut rng = Rng::new(3);
        let draw = |_| ranks.draw(&mut rng) as f64;
        let share = |x: f64| law.cumulative((x + 1.0) / keys as f64) / law.cumulative(1.0);
        follows(draw, share, &[0.0, 10.0, 300.0, 1000.0, 5000.0, 9999.0]);
        for popularity in [Popularity::Uniform, Popularity::Zipf(1.0), Popularity::Normal(0.1)] {
            let ranks = Ranks::new(popularity, 100, 1).unwrap();
            assert!((0..1000).all(|_| ranks.draw(&mut rng) < 100), "{popularity:?}");
        }
        assert!(Ranks::new(Popularity::Uniform, 0, 1).is_err());
    }
}
