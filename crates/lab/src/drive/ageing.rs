//! Overwriting at random until write amplification is steady, and the evidence of it.

use super::RunError;
use pellucid_flash::Rng;
use pellucid_spec::{Overwrite, Precondition};
use pellucid_text::format::significant;

/// Random overwriting goes on until write amplification over a whole pass changes by less than this share.
pub const STEADY_SHARE: f64 = 0.01;
/// Most passes of random overwriting.
pub const STEADY_PASSES_MAX: u32 = 20;

/// Work of preconditioning on a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ageing {
    /// Its number.
    pub namespace: u16,
    /// Passes of random overwriting, in order. Each but the last overwrites what was filled once.
    pub passes: Vec<Pass>,
    /// Why it ended.
    pub stopped: Stopped,
}

/// One pass of random overwriting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// Share of what was filled that it overwrote.
    pub overwritten: f64,
    /// Mapping units programmed for each one written; absent if it wrote nothing.
    pub write_amplification: Option<f64>,
}

/// Why random overwriting ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stopped {
    /// The description asked for no overwrites.
    #[default]
    NotAsked,
    /// The described number of overwrites is done.
    AsAsked,
    /// Write amplification was steady.
    Steady,
    /// The largest number of passes is reached without a steady state.
    Limit,
}

impl Stopped {
    /// A word for it, for programs.
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
    /// How often what was filled was overwritten.
    pub fn overwritten(&self) -> f64 {
        self.passes.iter().map(|pass| pass.overwritten).sum()
    }

    /// The change of write amplification between the last two whole passes, as a share.
    pub fn last_change(&self) -> Option<f64> {
        let whole = self.passes.iter().rev().filter(|pass| pass.overwritten >= 1.0);
        let mut values = whole.filter_map(|pass| pass.write_amplification);
        let (last, before) = (values.next()?, values.next()?);
        Some((last - before).abs() / before)
    }

    /// Why it ended, as a sentence.
    pub fn reason(&self) -> String {
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

/// Target of the overwrites of preconditioning: mapping units of a drive, or sectors above layers of the host.
pub(super) trait Overwrites {
    /// Writes `count` random pieces of the first `filled`.
    fn overwrite(&mut self, rng: &mut Rng, filled: u64, count: u64) -> Result<(), RunError>;

    /// Pieces that GC has copied so far.
    fn moved(&self) -> u64;

    /// Where they are.
    fn namespace(&self) -> u16;
}

/// Overwrites what has been filled, as described.
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
            for _ in 0..STEADY_PASSES_MAX {
                let now = pass(filled)?.unwrap_or(f64::NAN);
                if now > 1.0 && ((now - before) / before).abs() < STEADY_SHARE {
                    stopped = Stopped::Steady;
                    break;
                }
                before = now;
            }
            stopped
        }
    };
    Ok(Ageing { namespace, passes, stopped })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive whose passes copy so many pieces, one after the other; the last number stays.
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
        let spec = pellucid_spec::from_str("[drive]\npreset = \"jasmine\"", "a test", &[]);
        let what = Precondition { overwrite, ..spec.unwrap_or_else(|e| panic!("{e}")).precondition };
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
    fn what_was_asked_for_is_done_in_passes() {
        let ageing = aged(&[100], Overwrite::Capacities(2.5));
        let shares: Vec<f64> = ageing.passes.iter().map(|pass| pass.overwritten).collect();
        assert_eq!((shares, ageing.stopped), (vec![1.0, 1.0, 0.5], Stopped::AsAsked));
        assert_eq!(ageing.passes[2].write_amplification, Some(1.2));
        assert_eq!(aged(&[0], Overwrite::Capacities(0.0)), Ageing::default());
    }
}
