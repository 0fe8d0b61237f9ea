//! What can be done to a drive in service: asked for on the control socket or planned before, carried out in one way.
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

use crate::core::Core;
use crate::plan::PlanError;
use pellucid_flash::DieId;
use pellucid_media::{Fault, Faults};
use serde_json::{Value, json};

/// Kinds of planned faults, for who asks for another.
const KINDS: &str = "power-cut, program-fail=P, erase-fail=P, read-fail=P, slow-die=DIExF, kill-die=DIE, bit-errors=F, \
                     bit-errors=DIExF, fail-programs=N, fail-erases=N, wear-out";
/// What the control socket calls damage.
const DAMAGE: &str = "slow-die, kill-die, bit-errors, fail-programs, fail-erases, wear-out";

/// Something to do to a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    PowerCut,
    /// Chances of failing from now on; `None`: as it is.
    Chances(Chances),
    Damage(Fault),
}

/// Chances that operations fail.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Chances {
    pub program: Option<f64>,
    pub erase: Option<f64>,
    pub read: Option<f64>,
}

impl Action {
    /// What a line of the control socket asks for; `None`: nothing that is done to a drive.
    pub fn of_request(request: &Value) -> Option<Result<Action, String>> {
        match request["do"].as_str()? {
            "power-cut" => Some(Ok(Action::PowerCut)),
            "faults" => Some(chances(request)),
            "damage" => Some(damage(request).map(Action::Damage)),
            _ => None,
        }
    }

    /// The kind of a planned fault.
    pub fn of_plan(kind: &str) -> Result<Action, PlanError> {
        let (name, value) = kind.split_once('=').map_or((kind, None), |(name, value)| (name, Some(value)));
        let chance = |value| number(kind, "chance", value, 0.0..=1.0);
        let count = |value: &str| whole(kind, "count", value);
        let unset = Chances::default();
        Ok(match (name, value) {
            ("power-cut", None) => Action::PowerCut,
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

    /// Whether it can be done to a drive at all; nothing happens.
    ///
    /// # Errors
    /// The thing that is wrong, and what is allowed.
    pub fn check(self, drive: usize, core: &mut Core) -> Result<(), String> {
        match self {
            Action::PowerCut | Action::Chances(_) => Ok(()),
            Action::Damage(fault) => {
                core.device_here(drive)?.media().check_fault(fault).map_err(|error| error.to_string())
            }
        }
    }

    /// Does it, and gives what is worth saying.
    pub fn carry_out(self, drive: usize, core: &mut Core) -> Result<Value, String> {
        match self {
            Action::PowerCut => power_cut(drive, core),
            Action::Chances(chances) => set_chances(drive, chances, core),
            Action::Damage(fault) => {
                core.inject(drive, fault)?;
                Ok(json!({ "read_only": core.is_read_only(drive) }))
            }
        }
    }
}

fn power_cut(drive: usize, core: &mut Core) -> Result<Value, String> {
    let lost = core.device_here(drive)?.outstanding_commands();
    let report = core.power_cut(drive)?;
    Ok(json!({
        "commands_lost": lost,
        "mapped_units": report.mapped_units,
        "lost_units": report.lost_units,
        "mount_reads": report.header_reads + report.segment_reads + report.replay_reads,
    }))
}

fn set_chances(drive: usize, chances: Chances, core: &mut Core) -> Result<Value, String> {
    let now = core.device_here(drive)?.config().media.faults.clone();
    let faults = Faults {
        program_fail: chances.program.unwrap_or(now.program_fail),
        erase_fail: chances.erase.unwrap_or(now.erase_fail),
        read_fail: chances.read.unwrap_or(now.read_fail),
        ..now
    };
    let answer = json!({
        "program_fail": faults.program_fail, "erase_fail": faults.erase_fail, "read_fail": faults.read_fail,
    });
    core.set_faults(drive, faults)?;
    Ok(answer)
}

fn chances(request: &Value) -> Result<Action, String> {
    let chance = |key: &str| {
        let Some(value) = request.get(key) else { return Ok(None) };
        let number = value.as_f64().ok_or_else(|| format!("{key}: {value}; allowed: a number from 0 to 1"));
        number.map(Some)
    };
    let (program, erase, read) = (chance("program_fail")?, chance("erase_fail")?, chance("read_fail")?);
    Ok(Action::Chances(Chances { program, erase, read }))
}

/// The damage that a request asks for.
fn damage(request: &Value) -> Result<Fault, String> {
    let number = |key: &str| {
        let value = request.get(key).unwrap_or(&Value::Null);
        let whole = value.as_u64().and_then(|value| u32::try_from(value).ok());
        whole.ok_or_else(|| format!("{key}: {value}; allowed: a whole number from 0 to 4294967295"))
    };
    let factor = || {
        let value = request.get("factor").unwrap_or(&Value::Null);
        value.as_f64().ok_or_else(|| format!("factor: {value}; allowed: a number"))
    };
    let die = || number("die").map(DieId);
    let what = request.get("what").and_then(Value::as_str).unwrap_or_default();
    let takes: &[&str] = match what {
        "slow-die" | "bit-errors" => &["die", "factor"],
        "kill-die" => &["die"],
        "fail-programs" | "fail-erases" => &["count"],
        "wear-out" => &[],
        _ => return Err(format!("what: {what:?}; allowed: {DAMAGE}")),
    };
    let is_not_its = |key: &&str| request.get(key).is_some() && !takes.contains(key);
    if let Some(key) = ["die", "factor", "count"].into_iter().find(is_not_its) {
        let allowed = if takes.is_empty() { "nothing".to_owned() } else { takes.join(", ") };
        return Err(format!("{key}: unknown to {what}; allowed: {allowed}"));
    }
    match what {
        "slow-die" => Ok(Fault::SlowDie { die: die()?, factor: factor()? }),
        "kill-die" => Ok(Fault::KillDie { die: die()? }),
        "bit-errors" => {
            let die = request.get("die").map(|_| die()).transpose()?;
            Ok(Fault::BitErrors { die, factor: factor()? })
        }
        "fail-programs" => Ok(Fault::FailPrograms { count: number("count")? }),
        "fail-erases" => Ok(Fault::FailErases { count: number("count")? }),
        _ => Ok(Fault::WearOut),
    }
}

fn number(
    kind: &str,
    part: &str,
    value: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<f64, PlanError> {
    let allowed = || format!("a number from {} to {}", range.start(), range.end());
    let found = value.parse().ok().filter(|number| range.contains(number));
    found.ok_or_else(|| PlanError::new(&format!("fault's {part}"), kind, allowed()))
}

fn whole(kind: &str, part: &str, value: &str) -> Result<u32, PlanError> {
    value
        .parse()
        .map_err(|_| PlanError::new(&format!("fault's {part}"), kind, "a whole number from 0 to 4294967295"))
}

fn the_die(kind: &str, value: &str) -> Result<DieId, PlanError> {
    whole(kind, "die", value).map(DieId)
}

/// What a factor may be depends on the damage; the drive knows.
fn factor_of(kind: &str, value: &str) -> Result<f64, PlanError> {
    number(kind, "factor", value, 0.0..=1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked for and what is planned are the same things.
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
            let asked = Action::of_request(&request).expect("done to a drive").expect("well said");
            assert_eq!(Action::of_plan(planned), Ok(asked), "{planned}");
        }
        assert_eq!(Action::of_request(&json!({"do": "status"})), None);
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
            ("read-fail=nan", "fault's chance: \"read-fail=nan\"; allowed: a number from 0 to 1".into()),
        ] {
            assert_eq!(Action::of_plan(kind).expect_err(kind).to_string(), sentence);
        }
    }
}
