//! Random addresses: fio's `random_distribution`, as a law ([`Distribution`]) and as a sampler over a number of blocks ([`Sampler`]).
//!
//! | law | probability |
//! |---|---|
//! | `random` | equal for every block |
//! | `zipf:theta` | rank k of n: proportional to `1 / k^theta` |
//! | `pareto:h` | rank `floor((n - 1) u^(ln h / ln(1 - h)))`, u uniform: share h of ranks gets 1 - h of I/O |
//! | `normal:d` | rank around n / 2, standard deviation d % of n, redrawn when outside |
//! | `zoned:a/s:...` | a % of I/O uniformly in the next s % of the region |
//! | `zoned_abs:a/bytes:...` | as `zoned`, with sizes in bytes; no I/O beyond the last zone |
//!
//! Zipf ranks come from rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996): constant time and memory for any n, exact except for the rounding of `f64`. A permutation then scatters
//! the ranks, so that hot blocks are not neighbours. Samplers use the platform's `ln`, `exp` and `pow`: another C library may round a draw to the
//! neighbouring block.

use super::{Amount, Permutation};
use pellucid_flash::Rng;

/// A zone of `zoned` or `zoned_abs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Share of the I/O in percent; those of all zones sum to 100.
    pub access_percent: f64,
    /// Length of the zone; zones are contiguous from the start of the region.
    pub extent: Amount,
}

/// The law of random offsets.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// `random`: uniform.
    #[default]
    Uniform,
    /// `zipf:theta`, theta > 0 (fio excludes 1; here it is allowed).
    Zipf(f64),
    /// `pareto:h`, 0 < h < 1.
    Pareto(f64),
    /// `normal:deviation`, in percent of the region, above 0 and up to 100.
    Normal(f64),
    /// `zoned` and `zoned_abs`: at most 256 zones.
    Zoned(Vec<Zone>),
}

/// A law over `0..n`.
#[derive(Clone, Debug)]
pub(crate) enum Sampler {
    Uniform(u64),
    Zipf(Zipf, Permutation),
    /// `n - 1` and the exponent.
    Pareto(f64, f64, Permutation),
    /// Mean and standard deviation, in ranks.
    Normal(f64, f64, Permutation),
    Zoned(Vec<Slots>),
}

/// A zone in blocks.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// Access shares of this zone and those before it, 0 to 1.
    until: f64,
    first: u64,
    count: u64,
}

impl Sampler {
    /// `law` over `n` blocks (`n > 0`) that start `step_bytes` apart. `scatter` gives the key of the permutation: equal streams scatter equally.
    /// `Err` names the allowed values.
    pub(crate) fn new(law: &Distribution, n: u64, step_bytes: u64, scatter: Rng) -> Result<Sampler, String> {
        let mut scatter = scatter;
        let mut scattered = || Permutation::new(n, &mut scatter);
        Ok(match law {
            Distribution::Uniform => Sampler::Uniform(n),
            Distribution::Zipf(theta) => Sampler::Zipf(Zipf::new(n, *theta), scattered()),
            Distribution::Pareto(h) => Sampler::Pareto((n - 1) as f64, h.ln() / (1.0 - h).ln(), scattered()),
            Distribution::Normal(percent) => {
                Sampler::Normal(n as f64 / 2.0, n as f64 * percent / 100.0, scattered())
            }
            Distribution::Zoned(zones) => Sampler::Zoned(place_zones(zones, n, step_bytes)?),
        })
    }

    /// Draws a block.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Sampler::Uniform(n) => rng.below(*n),
            // Above 2^53 blocks `f64` may round n up.
            Sampler::Zipf(zipf, scatter) => scatter.apply((zipf.draw(rng) - 1).min(scatter.len() - 1)),
            Sampler::Pareto(last, exponent, scatter) => {
                let rank = (last * rng.unit_f64().powf(*exponent)) as u64;
                scatter.apply(rank.min(scatter.len() - 1))
            }
            Sampler::Normal(mean, deviation, scatter) => loop {
                let rank = (mean + deviation * standard_normal(rng)).floor();
                if rank >= 0.0 && (rank as u64) < scatter.len() {
                    break scatter.apply(rank as u64);
                }
            },
            Sampler::Zoned(zones) => {
                let u = rng.unit_f64();
                let zone = &zones[zones.partition_point(|zone| zone.until <= u).min(zones.len() - 1)];
                zone.first + rng.below(zone.count)
            }
        }
    }
}

/// Lays `zones` out over `n` blocks. Zones without I/O take space but get no entry.
fn place_zones(zones: &[Zone], n: u64, step_bytes: u64) -> Result<Vec<Slots>, String> {
    let mut table = Vec::with_capacity(zones.len());
    let (mut percent, mut bytes, mut until, mut first) = (0u64, 0u64, 0.0, 0);
    for (index, zone) in zones.iter().enumerate() {
        match zone.extent {
            Amount::Percent(p) => percent += u64::from(p),
            Amount::Bytes(b) => bytes = bytes.saturating_add(b),
        }
        let end = (u128::from(n) * u128::from(percent) / 100) as u64 + bytes / step_bytes;
        if end > n {
            return Err(format!(
                "zones that fit into the region of {n} blocks (zone {} ends at {end})",
                index + 1
            ));
        }
        if zone.access_percent > 0.0 {
            if end == first {
                return Err(format!("zones of at least one block (zone {} has none)", index + 1));
            }
            until += zone.access_percent / 100.0;
            table.push(Slots { until, first, count: end - first });
        }
        first = end;
    }
    if table.is_empty() { Err("at least one zone with I/O".into()) } else { Ok(table) }
}

/// One standard normal number by Marsaglia's polar method; its twin is discarded, so that there is no state.
fn standard_normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.unit_f64() - 1.0, 2.0 * rng.unit_f64() - 1.0);
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            return x * (-2.0 * s.ln() / s).sqrt();
        }
    }
}

/// Rejection-inversion for `P(k) ~ k^-theta`, k = 1..=n. Names as in the paper: `h` is the unnormalised density, `H` its integral; uniform numbers
/// are drawn from the area between `H(1.5) - h(1)` and `H(n + 0.5)`.
/// drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    n: f64,
    theta: f64,
    area_low: f64,
    area_high: f64,
    /// A candidate this close above the continuous value is accepted without checking the area.
    shortcut: f64,
}

impl Zipf {
    pub(super) fn new(n: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { n: n as f64, theta, area_low: 0.0, area_high: 0.0, shortcut: 0.0 };
        zipf.area_low = zipf.integral(1.5) - 1.0;
        zipf.area_high = zipf.integral(n as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank from 1 to n.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_high + rng.unit_f64() * (self.area_low - self.area_high);
            let x = self.inverse(area);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.shortcut || area >= self.integral(k + 0.5) - self.density(k) {
                return k as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// `(x^(1 - theta) - 1) / (1 - theta)`, which is `ln x` for theta = 1, without cancellation near it.
    fn integral(&self, x: f64) -> f64 {
        let ln_x = x.ln();
        let t = (1.0 - self.theta) * ln_x;
        if t.abs() > 1e-8 { t.exp_m1() / t * ln_x } else { ln_x * (1.0 + t / 2.0) }
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may push t just below the pole of the inverse.
        let t = (area * (1.0 - self.theta)).max(-1.0);
        let scale = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (scale * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    fn sampler(law: &Distribution, n: u64) -> Sampler {
        Sampler::new(law, n, 4096, Rng::new(9)).unwrap()
    }

    /// Frequency of each rank, with the scattering undone.
    fn rank_counts(law: &Distribution, n: u64, seed: u64) -> Vec<u32> {
        let sampler = sampler(law, n);
        let mut rank_of = vec![0; n as usize];
        if let Sampler::Zipf(_, order) | Sampler::Pareto(_, _, order) | Sampler::Normal(_, _, order) =
            &sampler
        {
            (0..n).for_each(|rank| rank_of[order.apply(rank) as usize] = rank as usize);
        } else {
            (0..n as usize).for_each(|x| rank_of[x] = x);
        }
        let mut counts = vec![0; n as usize];
        let mut rng = Rng::new(seed);
        for _ in 0..DRAWS {
            counts[rank_of[sampler.draw(&mut rng) as usize]] += 1;
        }
        counts
    }

    /// Pearson's statistic against `weights`, converted to a standard normal number by Wilson and Hilferty: above 4 has probability 0.00003. Classes
    /// with fewer than 10 expected draws are merged.
    fn chi_square_z(counts: &[u32], weights: &[f64]) -> f64 {
        let total: f64 = weights.iter().sum();
        let (mut chi, mut classes) = (0.0, 0.0);
        let (mut seen, mut expected) = (0.0, 0.0);
        for (count, weight) in counts.iter().zip(weights) {
            seen += f64::from(*count);
            expected += weight / total * f64::from(DRAWS);
            if expected >= 10.0 {
                chi += (seen - expected).powi(2) / expected;
                classes += 1.0;
                (seen, expected) = (0.0, 0.0);
            }
        }
        let freedom: f64 = classes - 1.0;
        assert!(freedom >= 3.0);
        ((chi / freedom).cbrt() - (1.0 - 2.0 / (9.0 * freedom))) / (2.0 / (9.0 * freedom)).sqrt()
    }

    #[test]
    fn uniform_is_uniform() {
        let z = chi_square_z(&rank_counts(&Distribution::Uniform, 500, 1), &[1.0; 500]);
        assert!(z.abs() < 4.0, "{z}");
    }

    #[test]
    fn zipf_ranks_follow_the_power_law() {
        for (seed, theta) in [0.3, 0.8, 0.99, 1.0, 1.2, 2.5].into_iter().enumerate() {
            let weights: Vec<f64> = (1..=1000).map(|k| f64::from(k).powf(-theta)).collect();
            let z = chi_square_z(&rank_counts(&Distribution::Zipf(theta), 1000, seed as u64), &weights);
            assert!(z.abs() < 4.0, "theta {theta}: {z}");
        }
    }

    #[test]
    fn the_chi_square_notices_a_wrong_exponent() {
        let weights: Vec<f64> = (1..=1000).map(|k| f64::from(k).powf(-1.02)).collect();
        let z = chi_square_z(&rank_counts(&Distribution::Zipf(1.0), 1000, 5), &weights);
        assert!(z > 4.0, "{z}");
    }

    /// Over 10^10 ranks, the share of the first 1000 is the ratio of two partial sums; the sum to n is
    /// `zeta(0.9) + n^0.1 / 0.1 + n^-0.9 / 2`, by Euler and Maclaurin, with `zeta(0.9) = -9.4301140194`. The
    /// tolerance is four standard deviations of a share.
    #[test]
    fn zipf_is_right_for_billions() {
        let n = 10_000_000_000u64;
        let zipf = Zipf::new(n, 0.9);
        let head: f64 = (1..=1000).map(|k| f64::from(k).powf(-0.9)).sum();
        let share = head / (-9.430_114_019_4 + (n as f64).powf(0.1) / 0.1 + (n as f64).powf(-0.9) / 2.0);
        let mut rng = Rng::new(4);
        let mut hits = 0;
        let mut largest = 0;
        for _ in 0..DRAWS {
            let k = zipf.draw(&mut rng);
            assert!((1..=n).contains(&k));
            hits += u32::from(k <= 1000);
            largest = largest.max(k);
        }
        let tolerance = 4.0 * (share * (1.0 - share) / f64::from(DRAWS)).sqrt();
        let measured = f64::from(hits) / f64::from(DRAWS);
        assert!((measured - share).abs() < tolerance, "{measured} for {share}");
        assert!(largest > n / 2, "the tail is never reached: {largest}");
    }

    #[test]
    fn one_and_two_blocks_are_enough_for_every_law() {
        let half = |p| Zone { access_percent: p, extent: Amount::Percent(50) };
        let laws = [Distribution::Uniform, Distribution::Zipf(1.1), Distribution::Pareto(0.2)];
        for law in laws.iter().chain([&Distribution::Normal(0.001), &Distribution::Normal(100.0)]) {
            let one = sampler(law, 1);
            let mut rng = Rng::new(6);
            assert!((0..100).all(|_| one.draw(&mut rng) == 0), "{law:?}");
        }
        let two = sampler(&Distribution::Zoned(vec![half(0.0), half(100.0)]), 2);
        let mut rng = Rng::new(6);
        assert!((0..100).all(|_| two.draw(&mut rng) == 1));
    }

    #[test]
    fn pareto_gives_the_first_share_h_the_share_one_minus_h() {
        let n = 1000u64;
        for h in [0.1, 0.2, 0.4] {
            let exponent = f64::ln(h) / f64::ln(1.0 - h);
            // P(rank <= k) = ((k + 1) / (n - 1))^(1 / exponent), by inverting the definition.
            let until = |k: u64| ((k as f64 / (n - 1) as f64).powf(1.0 / exponent)).min(1.0);
            let weights: Vec<f64> = (0..n).map(|k| until(k + 1) - until(k)).collect();
            let counts = rank_counts(&Distribution::Pareto(h), n, 7);
            let z = chi_square_z(&counts, &weights);
            assert!(z.abs() < 4.0, "h {h}: {z}");
            let head: u32 = counts[..(h * n as f64) as usize].iter().sum();
            assert!((f64::from(head) / f64::from(DRAWS) - (1.0 - h)).abs() < 0.005, "h {h}: {head}");
        }
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        // At 10 %, the ends are five deviations away, so truncation is invisible here.
        let counts = rank_counts(&Distribution::Normal(10.0), 1000, 8);
        let draws = f64::from(DRAWS);
        let mean = counts.iter().enumerate().map(|(k, c)| k as f64 * f64::from(*c)).sum::<f64>() / draws;
        let square =
            counts.iter().enumerate().map(|(k, c)| (k as f64 - mean).powi(2) * f64::from(*c)).sum::<f64>();
        // Standard errors: mean 100 / sqrt(200000) = 0.22, deviation 100 / sqrt(400000) = 0.16; four of each.
        // The floor moves the mean by -0.5.
        assert!((mean - 499.5).abs() < 0.9, "{mean}");
        assert!(((square / draws).sqrt() - 100.0).abs() < 0.65, "{}", (square / draws).sqrt());
        let weights: Vec<f64> =
            (0..1000).map(|k| (-((f64::from(k) + 0.5 - 500.0) / 100.0).powi(2) / 2.0).exp()).collect();
        let z = chi_square_z(&counts, &weights);
        assert!(z.abs() < 4.0, "{z}");
    }

    #[test]
    fn zones_get_their_shares() {
        let zone = |access_percent, percent| Zone { access_percent, extent: Amount::Percent(percent) };
        let law = Distribution::Zoned(vec![zone(60.0, 10), zone(30.0, 20), zone(8.0, 30), zone(2.0, 40)]);
        let mut weights = vec![0.6 / 100.0; 100];
        weights.extend([0.3 / 200.0; 200]);
        weights.extend([0.08 / 300.0; 300]);
        weights.extend([0.02 / 400.0; 400]);
        let z = chi_square_z(&rank_counts(&law, 1000, 10), &weights);
        assert!(z.abs() < 4.0, "{z}");
    }

    #[test]
    fn zones_that_do_not_fit_are_refused() {
        let zone = |access_percent, bytes| Zone { access_percent, extent: Amount::Bytes(bytes) };
        let new = |zones| Sampler::new(&Distribution::Zoned(zones), 10, 4096, Rng::new(1)).map(|_| ());
        assert_eq!(new(vec![zone(50.0, 4096), zone(50.0, 9 * 4096)]), Ok(()));
        assert_eq!(
            new(vec![zone(50.0, 4096), zone(50.0, 10 * 4096)]),
            Err("zones that fit into the region of 10 blocks (zone 2 ends at 11)".into())
        );
        assert_eq!(
            new(vec![zone(50.0, 100), zone(50.0, 4096)]),
            Err("zones of at least one block (zone 1 has none)".into())
        );
    }

    #[test]
    fn hot_blocks_are_not_neighbours() {
        let sampler = sampler(&Distribution::Zipf(1.2), 1_000_000);
        let Sampler::Zipf(_, order) = &sampler else { panic!("not zipf") };
        let mut hottest: Vec<u64> = (0..100).map(|rank| order.apply(rank)).collect();
        hottest.sort_unstable();
        // 100 uniform points: some neighbours within 100 with probability 1 - exp(-1), five of them with
        // 0.004.
        assert!(hottest.windows(2).filter(|w| w[1] - w[0] < 100).count() < 5);
    }
}
