//! Actions on a drive in service: requested on the control socket or planned beforehand, and carried out the
//! same way.
//!
//! ```text
//!  {"do":"damage","what":"slow-die","die":3,"factor":10}   a line of the control socket ─┐
//!  slow-die=3x10@2s                                        a planned fault ──────────────┴─► Action ─► carry_out
//! ```
//! | planned               | control socket                     | what happens                                              |
//! |-----------------------|------------------------------------|-----------------------------------------------------------|
//! | `power-cut`           | `power-cut`                        | the power is cut, the drive mounts and goes on            |
//! | `program-fail=P`, ... | `faults`, `program_fail`, ...      | from now on programs (erases, reads) fail by this chance  |
//! | `slow-die=DIExF`      | `slow-die` with `die`, `factor`    | array operations of the die take F times as long          |
//! | `kill-die=DIE`        | `kill-die` with `die`              | its programs and erases fail, its data cannot be read     |
//! | `bit-errors=F`, `DIExF` | `bit-errors` with `factor`, `die` | the raw bit error rate is F times the model's           |
//! | `fail-programs=N`     | `fail-programs` with `count`       | the next N programs fail                                  |
//! | `fail-erases=N`       | `fail-erases` with `count`         | the next N erases fail                                    |
//! | `wear-out`            | `wear-out`                         | no spare block is left: the drive is read-only            |
//! | `io-error`, ...       | `inject` with `fault`              | hosts meet the [fault](super::host_fault)                 |
//! | `clear`               | `clear-faults`                     | hosts meet none of these any more                         |

use super::error::{CHANCES, PlanError};
use super::host_fault::HostFault;
use crate::service::CutReport;
use pellucid_flash::DieId;
use pellucid_media::{Fault, Faults};
use pellucid_text::read_share;
use serde_json::{Value, json};
use std::fmt;

/// Kinds of planned faults, listed when an unknown one is requested.
const KINDS: &str = "power-cut, program-fail=P, erase-fail=P, read-fail=P, slow-die=DIExF, kill-die=DIE, bit-errors=F, \
                     bit-errors=DIExF, fail-programs=N, fail-erases=N, wear-out, io-error, torn-write, lost-flush, corrupt, delay=TIME, clear";
/// An action on a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Cut the drive's power and restore it.
    PowerCut,
    /// Set the failure probabilities of media operations.
    Chances(Chances),
    /// Damage the drive.
    Damage(Fault),
    /// Inject a fault that hosts see.
    Inject(HostFault),
    /// Remove all faults that hosts see.
    Clear,
}

/// Failure probabilities of media operations; `None` keeps the present value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chances {
    /// Probability that a program fails.
    pub program: Option<f64>,
    /// Probability that an erase fails.
    pub erase: Option<f64>,
    /// Probability that a read attempt fails.
    pub read: Option<f64>,
}

/// Result of an action that was carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The power was cut.
    PowerCut {
        /// Commands that were in flight.
        commands_lost: usize,
        /// State of the drive afterwards.
        report: CutReport,
    },
    /// New failure probabilities of programs, erases and reads.
    Chances([f64; 3]),
    /// The drive is damaged.
    Damage {
        /// The drive no longer takes writes.
        read_only: bool,
    },
    /// A fault that hosts see is in place.
    Injected,
    /// Faults that hosts see were removed.
    Cleared {
        /// Number of removed faults.
        faults: usize,
    },
}

impl Outcome {
    /// Builds the answer on the control socket.
    pub fn answer(&self) -> Value {
        match *self {
            Outcome::PowerCut { commands_lost, report: CutReport { mount, undone_host_sectors } } => json!({
                "commands_lost": commands_lost,
                "mapped_units": mount.mapped_units,
                "lost_units": mount.lost_units,
                "forgotten_units": mount.forgotten_units,
                "undone_units": mount.undone_units,
                "undone_host_sectors": undone_host_sectors,
                "mount_reads": mount.header_reads + mount.map_page_reads + mount.replay_reads,
            }),
            Outcome::Chances([program, erase, read]) => {
                json!({ "program_fail": program, "erase_fail": erase, "read_fail": read })
            }
            Outcome::Damage { read_only } => json!({ "read_only": read_only }),
            Outcome::Injected => json!({}),
            Outcome::Cleared { faults } => json!({ "cleared": faults }),
        }
    }
}

/// Formats an action as in a plan; of the probabilities, only the changed ones.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Action::PowerCut => f.write_str("power-cut"),
            Action::Chances(Chances { program, erase, read }) => {
                let given = [("program", program), ("erase", erase), ("read", read)];
                let given =
                    given.into_iter().filter_map(|(what, chance)| Some(format!("{what}-fail={}", chance?)));
                f.write_str(&given.collect::<Vec<String>>().join(" "))
            }
            Action::Damage(fault) => match fault {
                Fault::SlowDie { die, factor } => write!(f, "slow-die={}x{factor}", die.0),
                Fault::KillDie { die } => write!(f, "kill-die={}", die.0),
                Fault::BitErrors { die: None, factor } => write!(f, "bit-errors={factor}"),
                Fault::BitErrors { die: Some(die), factor } => write!(f, "bit-errors={}x{factor}", die.0),
                Fault::FailPrograms { count } => write!(f, "fail-programs={count}"),
                Fault::FailErases { count } => write!(f, "fail-erases={count}"),
                Fault::WearOut => f.write_str("wear-out"),
            },
            Action::Inject(fault) => write!(f, "{fault}"),
            Action::Clear => f.write_str("clear"),
        }
    }
}

impl Action {
    /// Parses the kind of a planned fault.
    pub(super) fn of_plan(kind: &str) -> Result<Action, PlanError> {
        if HostFault::is_meant(kind) {
            return kind.parse().map(Action::Inject);
        }
        let (name, value) = kind.split_once('=').map_or((kind, None), |(name, value)| (name, Some(value)));
        let chance = |value| {
            let found = read_share(value).filter(|&chance| chance <= 1.0);
            found.ok_or_else(|| PlanError::new("fault's chance", kind, CHANCES))
        };
        let count = |value: &str| whole(kind, "count", value);
        let unset = Chances::default();
        Ok(match (name, value) {
            ("power-cut", None) => Action::PowerCut,
            ("clear", None) => Action::Clear,
            ("wear-out", None) => Action::Damage(Fault::WearOut),
            ("program-fail", Some(p)) => Action::Chances(Chances { program: Some(chance(p)?), ..unset }),
            ("erase-fail", Some(p)) => Action::Chances(Chances { erase: Some(chance(p)?), ..unset }),
            ("read-fail", Some(p)) => Action::Chances(Chances { read: Some(chance(p)?), ..unset }),
            ("fail-programs", Some(n)) => Action::Damage(Fault::FailPrograms { count: count(n)? }),
            ("fail-erases", Some(n)) => Action::Damage(Fault::FailErases { count: count(n)? }),
            ("kill-die", Some(die)) => Action::Damage(Fault::KillDie { die: the_die(kind, die)? }),
            ("slow-die", Some(both)) => {
                let (die, factor) = both.split_once('x').unwrap_or((both, ""));
                Action::Damage(Fault::SlowDie { die: the_die(kind, die)?, factor: factor_of(kind, factor)? })
            }
            ("bit-errors", Some(both)) => {
                let (die, factor) = match both.split_once('x') {
                    Some((die, factor)) => (Some(the_die(kind, die)?), factor),
                    None => (None, both),
                };
                Action::Damage(Fault::BitErrors { die, factor: factor_of(kind, factor)? })
            }
            _ => return Err(PlanError::new("fault's kind", kind, KINDS)),
        })
    }
}

impl Chances {
    /// Applies the changed probabilities to the current ones.
    pub fn over(self, now: &Faults) -> Faults {
        Faults {
            program_fail: self.program.unwrap_or(now.program_fail),
            erase_fail: self.erase.unwrap_or(now.erase_fail),
            read_fail: self.read.unwrap_or(now.read_fail),
            ..now.clone()
        }
    }
}

impl Outcome {
    /// Builds the outcome from the current probabilities.
    pub fn of_faults(faults: &Faults) -> Outcome {
        Outcome::Chances([faults.program_fail, faults.erase_fail, faults.read_fail])
    }
}

fn whole(kind: &str, part: &str, value: &str) -> Result<u32, PlanError> {
    value
        .parse()
        .map_err(|_| PlanError::new(&format!("fault's {part}"), kind, "a whole number from 0 to 4294967295"))
}

fn the_die(kind: &str, value: &str) -> Result<DieId, PlanError> {
    whole(kind, "die", value).map(DieId)
}

/// Parses a factor. The allowed range depends on the damage, so the drive checks it.
fn factor_of(kind: &str, value: &str) -> Result<f64, PlanError> {
    let found = value.parse().ok().filter(|factor| (0.0..=1e9).contains(factor));
    found.ok_or_else(|| PlanError::new("fault's factor", kind, "a number from 0 to 1000000000"))
}

#[cfg(test)]
mod tests {
    use super::super::line::Request;
    use super::*;

    /// Requests and plans name the same actions.
    #[test]
    fn both_ways_name_the_same_actions() {
        for (planned, request) in [
            ("power-cut", json!({"do": "power-cut"})),
            ("program-fail=0.25", json!({"do": "faults", "program_fail": 0.25})),
            ("erase-fail=1", json!({"do": "faults", "erase_fail": 1})),
            ("read-fail=0", json!({"do": "faults", "read_fail": 0.0})),
            ("slow-die=3x10", json!({"do": "damage", "what": "slow-die", "die": 3, "factor": 10})),
            ("kill-die=7", json!({"do": "damage", "what": "kill-die", "die": 7})),
            ("bit-errors=100", json!({"do": "damage", "what": "bit-errors", "factor": 100})),
            ("bit-errors=2x0.5", json!({"do": "damage", "what": "bit-errors", "factor": 0.5, "die": 2})),
            ("fail-programs=4", json!({"do": "damage", "what": "fail-programs", "count": 4})),
            ("fail-erases=5", json!({"do": "damage", "what": "fail-erases", "count": 5})),
            ("wear-out", json!({"do": "damage", "what": "wear-out"})),
        ] {
            let request = Request::parse(request.to_string().as_bytes()).expect("well said");
            let Request::Break { drive: None, action } = request else {
                panic!("{planned}: not done to a drive")
            };
            assert_eq!(Action::of_plan(planned), Ok(action), "{planned}");
            assert_eq!(action.to_string(), planned);
        }
    }

    #[test]
    fn a_chance_is_a_share_as_everywhere() {
        assert_eq!(Action::of_plan("program-fail=25%"), Action::of_plan("program-fail=0.25"));
        assert!(matches!(
            Action::of_plan("read-fail=0.1%"),
            Ok(Action::Chances(Chances { read: Some(0.001), .. }))
        ));
        assert!(Action::of_plan("erase-fail=101%").is_err_and(|why| why.to_string().ends_with(CHANCES)));
    }

    #[test]
    fn what_is_wrong_in_a_plan_is_named() {
        for (kind, sentence) in [
            ("lightning", format!("fault's kind: \"lightning\"; allowed: {KINDS}")),
            ("wear-out=1", format!("fault's kind: \"wear-out=1\"; allowed: {KINDS}")),
            ("kill-die", format!("fault's kind: \"kill-die\"; allowed: {KINDS}")),
            (
                "kill-die=x",
                "fault's die: \"kill-die=x\"; allowed: a whole number from 0 to 4294967295".into(),
            ),
            ("slow-die=3", "fault's factor: \"slow-die=3\"; allowed: a number from 0 to 1000000000".into()),
            (
                "bit-errors=-1",
                "fault's factor: \"bit-errors=-1\"; allowed: a number from 0 to 1000000000".into(),
            ),
            (
                "fail-erases=-1",
                "fault's count: \"fail-erases=-1\"; allowed: a whole number from 0 to 4294967295".into(),
            ),
            ("read-fail=nan", format!("fault's chance: \"read-fail=nan\"; allowed: {CHANCES}")),
        ] {
            assert_eq!(Action::of_plan(kind).expect_err(kind).to_string(), sentence);
        }
    }
}
