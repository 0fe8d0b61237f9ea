//! B5: the cost of each victim policy, measured through the path of `run`, with an unthrottled host.
//!
//! For uniform writes there is theory: FIFO a / (a + W0(-a e^-a)), a = 1 + OP; a mean field for the emptiest of d random blocks, which for d = 1
//! (random) gives (1 + OP) / OP. Greedy is the limit of large d: with few pages per block it finds emptier blocks than the closed form says. Skewed
//! writes, and policies by age, are compared with a plain log ([`super::plain_log`]).
//!
//! OP counts the blocks from which a policy chooses. At that moment one block is reserved for garbage collection and all others are closed, as host
//! data and copies share the open block; so one block is neither spare nor the user's.

use super::bench::{Bench, ReproduceError};
use super::collection::{OneDie, closed_form};
use super::plain_log::PlainLog;
use super::{Check, Figure, Limit, Outcome};
use pellucid_flash::Rng;
use pellucid_ftl::Victim;
use pellucid_report::plot::{Axis, Plot, Unit};

/// Overwrites of the capacity before the measurement, and in it.
const SETTLE: f64 = 4.0;
const MEASURE: f64 = 2.0;

/// The hot part: this share of the pages receives this share of the writes.
const HOT: (f64, f64) = (0.2, 0.8);

/// One comparison.
#[derive(Clone, Copy, Debug)]
struct Case {
    victim: Victim,
    over_provisioning: f64,
    blocks: u32,
    pages: u32,
    hot: bool,
    separated: bool,
}

const fn uniform(victim: Victim, over_provisioning: f64, blocks: u32, pages: u32) -> Case {
    Case { victim, over_provisioning, blocks, pages, hot: false, separated: false }
}

const fn skewed(victim: Victim, separated: bool) -> Case {
    Case { victim, over_provisioning: 0.14, blocks: 512, pages: 64, hot: true, separated }
}

const CASES: [Case; 15] = [
    uniform(Victim::Fifo, 0.07, 512, 64),
    uniform(Victim::Fifo, 0.28, 512, 64),
    uniform(Victim::Fifo, 0.14, 1024, 16),
    uniform(Victim::Random, 0.14, 512, 64),
    uniform(Victim::Random, 0.28, 512, 64),
    uniform(Victim::DChoices(2), 0.28, 512, 64),
    uniform(Victim::DChoices(10), 0.14, 512, 64),
    uniform(Victim::Greedy, 0.07, 1024, 16),
    uniform(Victim::Greedy, 0.14, 256, 256),
    uniform(Victim::Greedy, 0.28, 512, 64),
    skewed(Victim::Greedy, false),
    skewed(Victim::Fifo, false),
    skewed(Victim::Lru, false),
    skewed(Victim::CostBenefit, false),
    skewed(Victim::CostBenefit, true),
];

impl Case {
    fn user(&self) -> u32 {
        (f64::from((self.blocks - 1) * self.pages) / (1.0 + self.over_provisioning)) as u32
    }

    fn name(&self) -> String {
        let Case { victim, pages, .. } = self;
        let spare = Unit::Percent.show(self.over_provisioning);
        let traffic = if self.hot { "80/20 writes" } else { "uniform writes" };
        let apart = if self.separated { ", copies apart" } else { "" };
        format!("write amplification, {victim}, {spare} over-provisioning, {pages} pages, {traffic}{apart}")
    }

    /// The value of theory, or of the plain log.
    fn predicted(&self, seed: u64) -> f64 {
        match self.victim {
            Victim::Fifo if !self.hot => closed_form(self.over_provisioning),
            Victim::Random if !self.hot => mean_field(self.over_provisioning, self.pages, Some(1)),
            Victim::DChoices(d) if !self.hot => mean_field(self.over_provisioning, self.pages, Some(d)),
            Victim::Greedy if !self.hot => mean_field(self.over_provisioning, self.pages, None),
            _ => self.simulated(seed),
        }
    }

    fn simulated(&self, seed: u64) -> f64 {
        let (user, mut rng) = (self.user(), Rng::stream(seed, "reproduce plain log"));
        let mut log = PlainLog::new(self.victim, self.blocks, self.pages, user, self.separated, rng.clone());
        (0..user).for_each(|page| log.write(page));
        let border = (f64::from(user) * HOT.0) as u32;
        let mut overwrite = |log: &mut PlainLog, times: f64| {
            for _ in 0..(f64::from(user) * times) as u64 {
                let (first, end) = match self.hot {
                    false => (0, user),
                    true if rng.chance(HOT.1) => (0, border),
                    true => (border, user),
                };
                log.write(first + rng.below(u64::from(end - first)) as u32);
            }
        };
        overwrite(&mut log, SETTLE);
        let before = log.programs;
        overwrite(&mut log, MEASURE);
        (log.programs - before) as f64 / (f64::from(user) * MEASURE)
    }
}

pub(super) fn policies(bench: &Bench) -> Result<Outcome, ReproduceError> {
    measured_with(bench, &CASES, |victim| victim)
}

/// `used`: the policy that the drive has instead, to see that a wrong one is detected.
fn measured_with(
    bench: &Bench,
    cases: &[Case],
    used: impl Fn(Victim) -> Victim + Sync,
) -> Result<Outcome, ReproduceError> {
    let results = bench.map(cases, |case| {
        let drive = OneDie {
            victim: used(case.victim),
            blocks: case.blocks,
            pages: case.pages,
            user: case.user(),
            separated: case.separated,
            hot: case.hot.then_some(HOT),
        };
        let (measured, emergencies) = drive.amplification(bench, SETTLE, MEASURE)?;
        Ok((measured, emergencies, case.predicted(bench.seed())))
    })?;
    let compared = cases.iter().zip(&results);
    let mut checks: Vec<Check> = compared
        .map(|(case, &(measured, _, predicted))| {
            Check::within(case.name(), Unit::Plain, predicted, measured, 0.03)
        })
        .collect();
    let emergencies: u64 = results.iter().map(|result| result.1).sum();
    let what = "victims chosen against the policy, all drives together";
    checks.push(Check::bound(what, Unit::Plain, emergencies as f64, Limit::AtMost(0.0)));
    let named = |victim: Victim| {
        let points = cases.iter().zip(&results).filter(move |(case, _)| case.victim == victim && !case.hot);
        points.map(|(case, result)| (case.over_provisioning, result.0)).collect()
    };
    let curve = |form: &dyn Fn(f64) -> f64| {
        (12..=64).map(|i| f64::from(i) / 200.0).map(|spare| (spare, form(spare))).collect()
    };
    let plot = Plot::new("Write amplification of victim policies")
        .x_axis(Axis::linear("over-provisioning", Unit::Percent).from(0.0).to(0.32))
        .y_axis(Axis::linear("programmed per host byte", Unit::Plain).from(0.0))
        .line("random: (1 + OP) / OP", curve(&|spare| (1.0 + spare) / spare))
        .line("FIFO: a/(a + W0(-a e^-a))", curve(&closed_form))
        .points("random, measured", named(Victim::Random))
        .points("FIFO, measured", named(Victim::Fifo))
        .points("greedy, measured", named(Victim::Greedy));
    let caption = "Uniform random 4 KiB writes, 64 outstanding, in steady state. Greedy's blocks have 16, 256 and 64 pages.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

/// The mean field of many blocks of `pages` pages under uniform writes; the victim is the emptiest of `d` random blocks, or of all.
///
/// `share[i]` of the blocks have i valid pages. A victim with j valid pages makes room for `pages` - j writes, each of which invalidates a page of a
/// block in proportion to its valid pages; then it is full. The fixed point is found by simulating steps.
fn mean_field(over_provisioning: f64, pages: u32, d: Option<u32>) -> f64 {
    let (full, mean) = (pages as usize, f64::from(pages) / (1.0 + over_provisioning));
    let mut share = vec![0.0; full + 1];
    (share[mean as usize], share[mean as usize + 1]) = (1.0 - mean.fract(), mean.fract());
    let mut chosen = vec![0.0; full + 1];
    let step = 0.2 / f64::from(pages);
    let mut writes = 1.0;
    for _ in 0..40 * full {
        let (mut above, mut left) = (1.0f64, 1.0);
        for (share, chosen) in share.iter().zip(&mut chosen) {
            let below = (above - share).max(0.0);
            *chosen = match d {
                Some(d) => above.powi(d as i32) - below.powi(d as i32),
                // One step can take no more of the emptiest blocks than exist.
                None => (share / step).min(left),
            };
            (above, left) = (below, left - *chosen);
        }
        writes = (0..=full).map(|i| (full - i) as f64 * chosen[i]).sum::<f64>();
        let rate = step * writes / mean;
        let flow = |share: &[f64], i: usize| if i > full { 0.0 } else { rate * i as f64 * share[i] };
        for i in 0..=full {
            let refilled = if i == full { step } else { 0.0 };
            share[i] += flow(&share, i + 1) - flow(&share, i) - step * chosen[i] + refilled;
        }
    }
    f64::from(pages) / writes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn the_mean_field_meets_what_is_known() {
        for spare in [0.07, 0.14, 0.28] {
            let random = mean_field(spare, 16, Some(1));
            assert!((random * spare / (1.0 + spare) - 1.0).abs() < 1e-3, "{spare}: {random}");
        }
        // In the limit of many pages, greedy is as good as FIFO; with few, it is better. The emptiest of some lies between.
        let [few, more, many] = [16, 64, 256].map(|pages| mean_field(0.28, pages, None));
        assert!(few < more && more < many && many < closed_form(0.28) && many > 0.98 * closed_form(0.28));
        let [two, ten] = [2, 10].map(|d| mean_field(0.28, 64, Some(d)));
        assert!(more < ten && ten < two && two < mean_field(0.28, 64, Some(1)));
    }

    /// The plain log and the theory are independent.
    #[test]
    fn the_plain_log_meets_theory() {
        let cases = [uniform(Victim::Fifo, 0.28, 256, 32), uniform(Victim::Random, 0.28, 256, 32)];
        for case in cases.into_iter().chain([uniform(Victim::Greedy, 0.28, 256, 32)]) {
            let (plain, theory) = (case.simulated(1), case.predicted(1));
            assert!((plain / theory - 1.0).abs() < 0.02, "{case:?}: {plain}, theory {theory}");
        }
    }

    /// A drive that ignores its policy misses.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_drive_that_is_greedy_whatever_it_is_told_misses() {
        let bench = Bench::new(2, 1, Vec::new());
        let cases = [
            uniform(Victim::Random, 0.28, 512, 32),
            uniform(Victim::Fifo, 0.28, 1024, 16),
            uniform(Victim::DChoices(2), 0.28, 512, 32),
        ];
        let outcome = |used: fn(Victim) -> Victim| {
            measured_with(&bench, &cases, used).unwrap_or_else(|e| panic!("{e}"))
        };
        for (case, check) in cases.iter().zip(outcome(|_| Victim::Greedy).checks) {
            assert_eq!(check.verdict(), Verdict::Misses, "{case:?}: {check:?}");
        }
        for check in outcome(|victim| victim).checks {
            assert_eq!(check.verdict(), Verdict::Holds, "{check:?}");
        }
    }
}
