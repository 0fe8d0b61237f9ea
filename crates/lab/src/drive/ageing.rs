//! Random overwriting until write amplification is steady, and the evidence that it is.

use super::RunError;
use pellucid_flash::Rng;
use pellucid_spec::{AgedBy, Overwrite, Precondition};
use pellucid_text::format::significant;
use pellucid_workload::{SNIA_ROUNDS, SteadyRule, Tracked, Window};

/// Random overwriting continues until write amplification changes by less than this fraction over a whole pass.
pub const STEADY_SHARE: f64 = 0.01;
/// Maximum number of passes of random overwriting.
pub const STEADY_PASSES_MAX: u32 = 20;
/// Maximum number of passes of random overwriting by SNIA's rule, as its rounds.
pub const SNIA_PASSES_MAX: u32 = 25;

/// Result of preconditioning a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ageing {
    /// Number of the namespace.
    pub namespace: u16,
    /// Passes of random overwriting, in order. Each but the last overwrites all filled data once.
    pub passes: Vec<Pass>,
    /// Why it ended.
    pub stopped: Stopped,
    /// Rule of steady state.
    pub aged_by: AgedBy,
}

/// One pass of random overwriting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// Fraction of the filled data that it overwrote.
    pub overwritten: f64,
    /// Mapping units programmed per unit written; absent if it wrote nothing.
    pub write_amplification: Option<f64>,
}

/// Why random overwriting ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stopped {
    /// The description requested no overwrites.
    #[default]
    NotAsked,
    /// The requested number of overwrites is done.
    AsAsked,
    /// Write amplification was steady.
    Steady,
    /// The maximum number of passes was reached without a steady state.
    Limit,
}

impl Stopped {
    /// Returns its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Stopped::NotAsked => "not asked",
            Stopped::AsAsked => "as asked",
            Stopped::Steady => "steady",
            Stopped::Limit => "limit",
        }
    }
}

impl Ageing {
    /// Returns how often the filled data were overwritten.
    pub fn overwritten(&self) -> f64 {
        self.passes.iter().map(|pass| pass.overwritten).sum()
    }

    /// Returns the relative change of write amplification between the last two whole passes.
    pub fn last_change(&self) -> Option<f64> {
        let whole = self.passes.iter().rev().filter(|pass| pass.overwritten >= 1.0);
        let mut values = whole.filter_map(|pass| pass.write_amplification);
        let (last, before) = (values.next()?, values.next()?);
        Some((last - before).abs() / before)
    }

    /// Explains in a sentence why overwriting by SNIA's rule ended; `None`: another rule decided.
    fn reason_by_snia(&self) -> Option<String> {
        let values: Vec<f64> = self.passes.iter().filter_map(|pass| pass.write_amplification).collect();
        let window = snia_window(&values).filter(|_| self.aged_by == AgedBy::Snia)?;
        let ended = match self.stopped {
            Stopped::Steady => "steady by SNIA's rule".to_string(),
            Stopped::Limit => format!("not steady by SNIA's rule after {SNIA_PASSES_MAX} passes, the most"),
            Stopped::NotAsked | Stopped::AsAsked => return None,
        };
        let share = |share: f64| format!("{} %", significant(100.0 * share));
        Some(format!(
            "{ended}: write amplification of the last {SNIA_ROUNDS} passes ranges over {} of its average, and its best line changes \
             by {}",
            share(window.range),
            share(window.excursion())
        ))
    }

    /// Explains in a sentence why overwriting ended.
    pub fn reason(&self) -> String {
        if let Some(reason) = self.reason_by_snia() {
            return reason;
        }
        let percent = |share: f64| format!("{} %", significant(100.0 * share));
        let change = self.last_change().map(percent);
        let limit = format!("{} %", 100.0 * STEADY_SHARE);
        match (self.stopped, change) {
            (Stopped::NotAsked, _) => "filled only, not overwritten".into(),
            (Stopped::Steady, Some(change)) => {
                format!("steady: the last pass changed write amplification by {change}, less than {limit}")
            }
            (Stopped::Steady, None) => "steady".into(),
            (Stopped::Limit, change) => format!(
                "not steady after {STEADY_PASSES_MAX} passes, the most: the last one changed write amplification by {}, not less \
                 than {limit}",
                change.unwrap_or_else(|| "an unknown share".into())
            ),
            (Stopped::AsAsked, Some(change)) => format!(
                "overwritten {} times, as asked; the last whole pass changed write amplification by {change}",
                significant(self.overwritten())
            ),
            (Stopped::AsAsked, None) => {
                format!("overwritten {} times, as asked", significant(self.overwritten()))
            }
        }
    }
}

/// Returns the maximum number of passes under this rule.
pub fn passes_max(aged_by: AgedBy) -> u32 {
    match aged_by {
        AgedBy::Change => STEADY_PASSES_MAX,
        AgedBy::Snia => SNIA_PASSES_MAX,
    }
}

/// Returns the last five values as judged by SNIA's rule; `None` if there are fewer.
fn snia_window(values: &[f64]) -> Option<Window> {
    Window::of(&values[values.len().checked_sub(SNIA_ROUNDS as usize)?..])
}

/// Data that preconditioning overwrites: mapping units of a drive, or sectors above layers of the host.
pub(super) trait Overwrites {
    /// Overwrites `count` random pieces of the first `filled`.
    fn overwrite(&mut self, rng: &mut Rng, filled: u64, count: u64) -> Result<(), RunError>;

    /// Returns the pieces that GC has copied so far.
    fn moved(&self) -> u64;

    /// Returns the namespace of the pieces.
    fn namespace(&self) -> u16;
}

/// Overwrites the filled data as described.
pub(super) fn overwrite(
    writer: &mut impl Overwrites,
    what: &Precondition,
    filled: u64,
) -> Result<Ageing, RunError> {
    let namespace = writer.namespace();
    let mut rng = Rng::stream(what.seed, "precondition");
    let mut passes = Vec::new();
    let mut pass = |count: u64| -> Result<Option<f64>, RunError> {
        let moved = writer.moved();
        writer.overwrite(&mut rng, filled, count)?;
        let copied = (writer.moved() - moved) as f64;
        let write_amplification = (count > 0).then(|| 1.0 + copied / count as f64);
        passes.push(Pass { overwritten: count as f64 / filled as f64, write_amplification });
        Ok(write_amplification)
    };
    let stopped = match what.overwrite {
        Overwrite::Capacities(share) => {
            let mut left = (filled as f64 * share) as u64;
            let asked = left > 0;
            while left > 0 {
                let count = left.min(filled);
                pass(count)?;
                left -= count;
            }
            if asked { Stopped::AsAsked } else { Stopped::NotAsked }
        }
        Overwrite::Steady => {
            let (mut before, mut stopped) = (f64::NAN, Stopped::Limit);
            let mut values = Vec::new();
            for _ in 0..passes_max(what.aged_by) {
                let now = pass(filled)?.unwrap_or(f64::NAN);
                values.push(now);
                let is_steady = match what.aged_by {
                    AgedBy::Change => ((now - before) / before).abs() < STEADY_SHARE,
                    AgedBy::Snia => snia_window(&values)
                        .is_some_and(|window| SteadyRule::Snia(Tracked::Iops).holds(&window)),
                };
                if now > 1.0 && is_steady {
                    stopped = Stopped::Steady;
                    break;
                }
                before = now;
            }
            stopped
        }
    };
    Ok(Ageing { namespace, passes, stopped, aged_by: what.aged_by })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive whose passes copy these numbers of pieces in turn; the last number repeats.
    struct Scripted(Vec<u64>, u64);

    impl Overwrites for Scripted {
        fn overwrite(&mut self, _: &mut Rng, filled: u64, count: u64) -> Result<(), RunError> {
            assert!(count <= filled, "a pass overwrites once");
            let copied = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] };
            self.1 += copied;
            Ok(())
        }

        fn moved(&self) -> u64 {
            self.1
        }

        fn namespace(&self) -> u16 {
            0
        }
    }

    fn aged(copied: &[u64], overwrite: Overwrite) -> Ageing {
        aged_by(AgedBy::Change, copied, overwrite)
    }

    fn aged_by(aged_by: AgedBy, copied: &[u64], overwrite: Overwrite) -> Ageing {
        let spec = pellucid_spec::from_str("[drive]\npreset = \"jasmine\"", "a test", &[]);
        let what = Precondition { overwrite, aged_by, ..spec.unwrap_or_else(|e| panic!("{e}")).precondition };
        super::overwrite(&mut Scripted(copied.to_vec(), 0), &what, 1000).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn steady_is_a_small_change_between_two_passes() {
        let ageing = aged(&[0, 0, 500, 900, 905], Overwrite::Steady);
        assert_eq!((ageing.passes.len(), ageing.stopped), (5, Stopped::Steady));
        assert_eq!(ageing.passes[2].write_amplification, Some(1.5));
        assert_eq!(
            ageing.reason(),
            "steady: the last pass changed write amplification by 0.263 %, less than 1 %"
        );
    }

    #[test]
    fn what_never_settles_ends_at_the_limit() {
        let restless: Vec<u64> = (0..40).map(|pass| 1000 + 300 * (pass % 2)).collect();
        let ageing = aged(&restless, Overwrite::Steady);
        assert_eq!((ageing.passes.len(), ageing.stopped), (20, Stopped::Limit));
        assert!(ageing.reason().starts_with("not steady after 20 passes"), "{}", ageing.reason());
    }

    #[test]
    fn snias_rule_judges_five_passes() {
        // Between neighbours write amplification changes by more than 1 % for ever; over five passes it is steady from the sixth on.
        let copied = [0, 500, 850, 900, 870, 900, 870, 900, 870];
        let ageing = aged_by(AgedBy::Snia, &copied, Overwrite::Steady);
        assert_eq!((ageing.passes.len(), ageing.stopped), (7, Stopped::Steady));
        assert_eq!(
            ageing.reason(),
            "steady by SNIA's rule: write amplification of the last 5 passes ranges over 2.66 % of its average, and its best line \
             changes by 0.852 %"
        );
        let restless: Vec<u64> = (0..40).map(|pass| 1000 + 600 * (pass % 2)).collect();
        let ageing = aged_by(AgedBy::Snia, &restless, Overwrite::Steady);
        assert_eq!((ageing.passes.len(), ageing.stopped), (25, Stopped::Limit));
        assert!(
            ageing.reason().starts_with("not steady by SNIA's rule after 25 passes"),
            "{}",
            ageing.reason()
        );
    }

    #[test]
    fn what_was_asked_for_is_done_in_passes() {
        let ageing = aged(&[100], Overwrite::Capacities(2.5));
        let shares: Vec<f64> = ageing.passes.iter().map(|pass| pass.overwritten).collect();
        assert_eq!((shares, ageing.stopped), (vec![1.0, 1.0, 0.5], Stopped::AsAsked));
        assert_eq!(ageing.passes[2].write_amplification, Some(1.2));
        assert_eq!(aged(&[0], Overwrite::Capacities(0.0)), Ageing::default());
    }
}
