//! Requests on the control socket, for both of its ends: a [`Request`] and its line of JSON.
//!
//! The table of requests is in the [module above](super::super::control). `parse` and `to_line` are inverse: encoding and
//! parsing a request returns an equal one.

use super::action::{Action, Chances};
use super::error::PlanError;
use pellucid_flash::DieId;
use pellucid_host::{Target, TargetKind};
use pellucid_media::Fault;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::fmt;

/// Names of the requests.
const REQUESTS: &str = "status, watch, power-cut, faults, damage, inject, clear-faults, targets, target-create, target-remove, apps, app-allocate, app-release, detach, fire-pause, fire-resume, stop";
/// Kinds of damage.
const DAMAGE: &str = "slow-die, kill-die, bit-errors, fail-programs, fail-erases, wear-out";

/// A request on the control socket.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Counters, wear and lateness of every drive.
    Status,
    /// Figures for monitors; the first request starts watching the drives.
    Watch,
    /// Stop the server, as SIGTERM does.
    Stop,
    /// Carry out an action on a drive; without a name, on the only one.
    Break {
        /// Name of the drive.
        drive: Option<String>,
        /// Action to carry out.
        action: Action,
    },
    /// Parallel units of a drive, and the targets on them.
    Targets {
        /// Name of the drive.
        drive: Option<String>,
    },
    /// Create a target; the answer is sent when it accepts commands.
    TargetCreate {
        /// Name of the drive.
        drive: Option<String>,
        /// Target to create.
        target: Target,
    },
    /// Applications of a drive that is divided among such, and its LUNs.
    Apps {
        /// Name of the drive.
        drive: Option<String>,
    },
    /// Give flash to a new application.
    AppAllocate {
        /// Name of the drive.
        drive: Option<String>,
        /// Name of the application.
        name: String,
        /// Bytes that it is to keep.
        capacity_bytes: u64,
        /// Flash beyond that, as a share of its LUNs.
        over_provisioning: f64,
    },
    /// Take the flash of an application away.
    AppRelease {
        /// Name of the drive.
        drive: Option<String>,
        /// Name of the application.
        name: String,
    },
    /// Write back everything from a cache and take it out of use; the answer comes at the end.
    Detach {
        /// Name of the drive.
        drive: Option<String>,
        /// Drop dirty blocks that the cache drive cannot read.
        give_up_lost: bool,
    },
    /// Have a cluster buffer write its contents, and let all later writes bypass it; the answer is sent at
    /// the end.
    FirePause {
        /// Name of the drive.
        drive: Option<String>,
    },
    /// Have a cluster buffer take writes again.
    FireResume {
        /// Name of the drive.
        drive: Option<String>,
    },
    /// Remove a target; the answer comes when its units are free.
    TargetRemove {
        /// Name of the drive.
        drive: Option<String>,
        /// Name of the target.
        name: String,
    },
}

impl Request {
    /// Parses a line without its line end.
    ///
    /// # Errors
    /// Returns a sentence that names the problem and the allowed values.
    pub fn parse(line: &[u8]) -> Result<Request, String> {
        let given: Given = serde_json::from_slice(line).map_err(|error| match error.is_data() {
            true => format!("{error}; allowed: an object such as {{\"do\":\"status\"}}, each key once"),
            false => format!("not JSON: {error}"),
        })?;
        let fields = Fields(&given.0);
        let what = fields.get("do").as_str().unwrap_or_default();
        let unknown = || format!("do: {}; allowed: {REQUESTS}", fields.said("do"));
        fields.only(what, keys_of(what).ok_or_else(unknown)?, "nothing beside do")?;
        let drive = fields.name("drive")?;
        let act = |action| Request::Break { drive: drive.clone(), action };
        Ok(match what {
            "status" => Request::Status,
            "watch" => Request::Watch,
            "stop" => Request::Stop,
            "power-cut" => act(Action::PowerCut),
            "faults" => act(Action::Chances(Chances {
                program: fields.chance("program_fail")?,
                erase: fields.chance("erase_fail")?,
                read: fields.chance("read_fail")?,
            })),
            "damage" => act(Action::Damage(fields.damage()?)),
            "inject" => {
                let fault = fields.required_name("fault")?;
                act(Action::Inject(fault.parse().map_err(|error: PlanError| error.to_string())?))
            }
            "clear-faults" => act(Action::Clear),
            "targets" => Request::Targets { drive },
            "apps" => Request::Apps { drive },
            "app-allocate" => {
                let capacity = fields.get("capacity_bytes");
                let capacity_bytes = capacity.as_u64();
                let capacity_bytes = capacity_bytes
                    .ok_or_else(|| format!("capacity_bytes: {capacity}; allowed: a whole number"))?;
                let share = fields.0.get("over_provisioning").map_or(Some(0.0), Value::as_f64);
                let over_provisioning =
                    share.ok_or_else(|| "over_provisioning: allowed: a number".to_owned())?;
                let name = fields.required_name("name")?;
                Request::AppAllocate { drive, name, capacity_bytes, over_provisioning }
            }
            "app-release" => Request::AppRelease { drive, name: fields.required_name("name")? },
            "detach" => {
                let given = fields.0.get("give_up_lost").map_or(Some(false), Value::as_bool);
                let give_up_lost = given.ok_or_else(|| "give_up_lost: allowed: true, false".to_owned())?;
                Request::Detach { drive, give_up_lost }
            }
            "fire-pause" => Request::FirePause { drive },
            "fire-resume" => Request::FireResume { drive },
            "target-create" => {
                let kind = fields.get("kind").as_str().and_then(TargetKind::from_name);
                let kind =
                    kind.ok_or_else(|| format!("kind: {}; allowed: block, raw", fields.get("kind")))?;
                let (first, units) = (fields.whole("first_unit")?, fields.whole("units")?);
                let name = fields.required_name("name")?;
                let target = Target::new(name, kind, first..first.saturating_add(units));
                Request::TargetCreate { drive, target }
            }
            _ => Request::TargetRemove { drive, name: fields.required_name("name")? },
        })
    }

    /// Formats the request as a line, without its line end.
    pub fn to_line(&self) -> String {
        let (what, mut fields) = match self {
            Request::Status => ("status", json!({})),
            Request::Watch => ("watch", json!({})),
            Request::Stop => ("stop", json!({})),
            Request::Break { action, .. } => fields_of(action),
            Request::Targets { .. } => ("targets", json!({})),
            Request::Apps { .. } => ("apps", json!({})),
            Request::AppAllocate { name, capacity_bytes, over_provisioning, .. } => (
                "app-allocate",
                json!({
                    "name": name, "capacity_bytes": capacity_bytes, "over_provisioning": over_provisioning,
                }),
            ),
            Request::AppRelease { name, .. } => ("app-release", json!({ "name": name })),
            Request::Detach { give_up_lost: false, .. } => ("detach", json!({})),
            Request::Detach { give_up_lost: true, .. } => ("detach", json!({ "give_up_lost": true })),
            Request::FirePause { .. } => ("fire-pause", json!({})),
            Request::FireResume { .. } => ("fire-resume", json!({})),
            Request::TargetCreate { target, .. } => (
                "target-create",
                json!({
                    "name": target.name, "kind": target.kind.name(),
                    "first_unit": target.units.start, "units": target.units.len(),
                }),
            ),
            Request::TargetRemove { name, .. } => ("target-remove", json!({ "name": name })),
        };
        fields["do"] = what.into();
        if let Some(drive) = self.drive() {
            fields["drive"] = drive.into();
        }
        fields.to_string()
    }

    fn drive(&self) -> Option<&str> {
        match self {
            Request::Status | Request::Watch | Request::Stop => None,
            Request::Break { drive, .. }
            | Request::Targets { drive }
            | Request::Apps { drive }
            | Request::AppAllocate { drive, .. }
            | Request::AppRelease { drive, .. }
            | Request::Detach { drive, .. }
            | Request::FirePause { drive }
            | Request::FireResume { drive }
            | Request::TargetCreate { drive, .. }
            | Request::TargetRemove { drive, .. } => drive.as_deref(),
        }
    }
}

/// Keys that a request may have beside `do`; `None` if there is no such request.
fn keys_of(what: &str) -> Option<&'static [&'static str]> {
    Some(match what {
        "status" | "watch" | "stop" => &[],
        "detach" => &["drive", "give_up_lost"],
        "power-cut" | "targets" | "apps" | "fire-pause" | "fire-resume" | "clear-faults" => &["drive"],
        "inject" => &["drive", "fault"],
        "faults" => &["drive", "program_fail", "erase_fail", "read_fail"],
        "damage" => &["drive", "what", "die", "factor", "count"],
        "target-create" => &["drive", "name", "kind", "first_unit", "units"],
        "target-remove" | "app-release" => &["drive", "name"],
        "app-allocate" => &["drive", "name", "capacity_bytes", "over_provisioning"],
        _ => return None,
    })
}

/// Keys of each kind of damage in addition to `what`; `None` if there is no such kind.
fn damage_keys_of(what: &str) -> Option<&'static [&'static str]> {
    Some(match what {
        "slow-die" | "bit-errors" => &["die", "factor"],
        "kill-die" => &["die"],
        "fail-programs" | "fail-erases" => &["count"],
        "wear-out" => &[],
        _ => return None,
    })
}

fn fields_of(action: &Action) -> (&'static str, Value) {
    match action {
        Action::PowerCut => ("power-cut", json!({})),
        Action::Inject(fault) => ("inject", json!({ "fault": fault.to_string() })),
        Action::Clear => ("clear-faults", json!({})),
        Action::Chances(chances) => {
            let given = [
                ("program_fail", chances.program),
                ("erase_fail", chances.erase),
                ("read_fail", chances.read),
            ];
            let given = given.into_iter().filter_map(|(key, chance)| Some((key.to_owned(), chance?.into())));
            ("faults", Value::Object(given.collect()))
        }
        Action::Damage(fault) => {
            let fields = match *fault {
                Fault::SlowDie { die, factor } => {
                    json!({ "what": "slow-die", "die": die.0, "factor": factor })
                }
                Fault::KillDie { die } => json!({ "what": "kill-die", "die": die.0 }),
                Fault::BitErrors { die: None, factor } => json!({ "what": "bit-errors", "factor": factor }),
                Fault::BitErrors { die: Some(die), factor } => {
                    json!({ "what": "bit-errors", "die": die.0, "factor": factor })
                }
                Fault::FailPrograms { count } => json!({ "what": "fail-programs", "count": count }),
                Fault::FailErases { count } => json!({ "what": "fail-erases", "count": count }),
                Fault::WearOut => json!({ "what": "wear-out" }),
            };
            ("damage", fields)
        }
    }
}

/// A line as an object, each of whose keys is given once: the last of two would hide the other.
struct Given(Map<String, Value>);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Given, A::Error> {
                let mut fields = Map::new();
                while let Some((key, value)) = all.next_entry::<String, Value>()? {
                    if fields.contains_key(&key) {
                        return Err(A::Error::custom(format!("{key}: given twice")));
                    }
                    fields.insert(key, value);
                }
                Ok(Given(fields))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

/// Fields of a request.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    /// The value of a key in a sentence that refuses it.
    fn said(&self, key: &str) -> String {
        self.0.get(key).map_or_else(|| "missing".to_owned(), Value::to_string)
    }

    fn get(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }

    /// Refuses unknown keys: a mistyped key must not count as omitted, as that would change the action.
    fn only(&self, what: &str, allowed: &[&str], nothing: &str) -> Result<(), String> {
        let is_unknown = |key: &&String| *key != "do" && !allowed.contains(&key.as_str());
        let Some(key) = self.0.keys().find(is_unknown) else { return Ok(()) };
        let list = if allowed.is_empty() { nothing.to_owned() } else { allowed.join(", ") };
        Err(format!("{key}: unknown to {what}; allowed: {list}"))
    }

    fn name(&self, key: &str) -> Result<Option<String>, String> {
        self.0.contains_key(key).then(|| self.required_name(key)).transpose()
    }

    fn required_name(&self, key: &str) -> Result<String, String> {
        let name = self.get(key).as_str();
        name.map(str::to_owned).ok_or_else(|| format!("{key}: {}; allowed: a name", self.said(key)))
    }

    fn whole(&self, key: &str) -> Result<u32, String> {
        let whole = self.get(key).as_u64().and_then(|value| u32::try_from(value).ok());
        whole
            .ok_or_else(|| format!("{key}: {}; allowed: a whole number from 0 to 4294967295", self.said(key)))
    }

    fn factor(&self) -> Result<f64, String> {
        let factor = self.get("factor").as_f64();
        factor.ok_or_else(|| format!("factor: {}; allowed: a number", self.said("factor")))
    }

    fn chance(&self, key: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let chance = value.as_f64().ok_or_else(|| format!("{key}: {value}; allowed: a number from 0 to 1"));
        chance.map(Some)
    }

    fn damage(&self) -> Result<Fault, String> {
        let what = self.get("what").as_str().unwrap_or_default();
        let takes =
            damage_keys_of(what).ok_or_else(|| format!("what: {}; allowed: {DAMAGE}", self.said("what")))?;
        let its = [takes, &["drive", "what"]].concat();
        if let Some(key) = self.0.keys().find(|key| *key != "do" && !its.contains(&key.as_str())) {
            let allowed = if takes.is_empty() { "nothing".to_owned() } else { takes.join(", ") };
            return Err(format!("{key}: unknown to {what}; allowed: {allowed}"));
        }
        let die = || self.whole("die").map(DieId);
        Ok(match what {
            "slow-die" => Fault::SlowDie { die: die()?, factor: self.factor()? },
            "kill-die" => Fault::KillDie { die: die()? },
            "bit-errors" => {
                let die = self.0.contains_key("die").then(die).transpose()?;
                Fault::BitErrors { die, factor: self.factor()? }
            }
            "fail-programs" => Fault::FailPrograms { count: self.whole("count")? },
            "fail-erases" => Fault::FailErases { count: self.whole("count")? },
            _ => Fault::WearOut,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::host_fault::{HostFault, HostFaultKind};
    use super::*;
    use pellucid_flash::Nanos;
    use proptest::prelude::*;

    fn faults() -> impl Strategy<Value = Fault> {
        let factor = || 0.0..1e9;
        prop_oneof![
            (any::<u32>(), factor()).prop_map(|(die, factor)| Fault::SlowDie { die: DieId(die), factor }),
            any::<u32>().prop_map(|die| Fault::KillDie { die: DieId(die) }),
            (any::<Option<u32>>(), factor())
                .prop_map(|(die, factor)| Fault::BitErrors { die: die.map(DieId), factor }),
            any::<u32>().prop_map(|count| Fault::FailPrograms { count }),
            any::<u32>().prop_map(|count| Fault::FailErases { count }),
            Just(Fault::WearOut),
        ]
    }

    fn chance() -> impl Strategy<Value = Option<f64>> {
        proptest::option::of(0.0..=1.0)
    }

    fn host_faults() -> impl Strategy<Value = HostFault> {
        let kinds = prop_oneof![
            Just(HostFaultKind::IoError),
            Just(HostFaultKind::LostFlush),
            Just(HostFaultKind::Corrupt),
            (1..u64::MAX).prop_map(|ns| HostFaultKind::Delay(Nanos(ns))),
        ];
        let rest = (
            0..u64::MAX,
            1..u64::MAX,
            f64::MIN_POSITIVE..=1.0,
            proptest::option::of(1..u64::MAX),
            any::<u64>(),
        );
        (kinds, rest).prop_map(|(kind, (from, length, rate, count, seed))| HostFault {
            // A flush has no range.
            on: HostFault::of(kind).on.without_flush(),
            range_bytes: (from, from.saturating_add(length)),
            rate,
            count,
            seed,
            ..HostFault::of(kind)
        })
    }

    fn actions() -> impl Strategy<Value = Action> {
        prop_oneof![
            Just(Action::PowerCut),
            Just(Action::Clear),
            host_faults().prop_map(Action::Inject),
            (chance(), chance(), chance()).prop_map(|(program, erase, read)| Action::Chances(Chances {
                program,
                erase,
                read
            })),
            faults().prop_map(Action::Damage),
        ]
    }

    fn requests() -> impl Strategy<Value = Request> {
        let drive = || any::<Option<String>>();
        let target =
            (any::<String>(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(|(name, raw, a, b)| {
                let kind = if raw { TargetKind::Raw } else { TargetKind::Block };
                Target::new(name, kind, a.min(b)..a.max(b))
            });
        prop_oneof![
            Just(Request::Status),
            Just(Request::Watch),
            Just(Request::Stop),
            (drive(), actions()).prop_map(|(drive, action)| Request::Break { drive, action }),
            drive().prop_map(|drive| Request::Targets { drive }),
            (drive(), any::<bool>())
                .prop_map(|(drive, give_up_lost)| Request::Detach { drive, give_up_lost }),
            drive().prop_map(|drive| Request::FirePause { drive }),
            drive().prop_map(|drive| Request::FireResume { drive }),
            (drive(), target).prop_map(|(drive, target)| Request::TargetCreate { drive, target }),
            drive().prop_map(|drive| Request::Apps { drive }),
            (drive(), any::<String>(), any::<u64>(), 0.0..100.0).prop_map(
                |(drive, name, capacity_bytes, over_provisioning)| Request::AppAllocate {
                    drive,
                    name,
                    capacity_bytes,
                    over_provisioning
                }
            ),
            (drive(), any::<String>()).prop_map(|(drive, name)| Request::AppRelease { drive, name }),
            (drive(), any::<String>()).prop_map(|(drive, name)| Request::TargetRemove { drive, name }),
        ]
    }

    proptest! {
        #[test]
        fn a_request_that_is_encoded_and_parsed_is_the_same(request in requests()) {
            let line = request.to_line();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(Request::parse(line.as_bytes()), Ok(request));
        }

        #[test]
        fn any_line_is_understood_or_refused_in_a_sentence(line in any::<Vec<u8>>()) {
            match Request::parse(&line) {
                Ok(request) => prop_assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request)),
                Err(why) => prop_assert!(!why.is_empty()),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, sentence) in [
            ("no", "not JSON: expected ident at line 1 column 2"),
            (
                "{}",
                "do: missing; allowed: status, watch, power-cut, faults, damage, inject, clear-faults, targets, target-create, target-remove, apps, app-allocate, app-release, detach, fire-pause, fire-resume, stop",
            ),
            (
                "[]",
                "invalid type: sequence, expected an object at line 1 column 0; allowed: an object such as {\"do\":\"status\"}, each key once",
            ),
            (
                r#"{"do":"status","do":"stop"}"#,
                "do: given twice at line 1 column 27; allowed: an object such as {\"do\":\"status\"}, each key once",
            ),
            (r#"{"do":"damage","what":"slow-die","die":1}"#, "factor: missing; allowed: a number"),
            (r#"{"do":"status","drive":"a"}"#, "drive: unknown to status; allowed: nothing beside do"),
            (
                r#"{"do":"faults","read":1}"#,
                "read: unknown to faults; allowed: drive, program_fail, erase_fail, read_fail",
            ),
            (r#"{"do":"faults","drive":1}"#, "drive: 1; allowed: a name"),
            (r#"{"do":"faults","read_fail":"x"}"#, "read_fail: \"x\"; allowed: a number from 0 to 1"),
            (
                r#"{"do":"damage"}"#,
                "what: missing; allowed: slow-die, kill-die, bit-errors, fail-programs, fail-erases, wear-out",
            ),
            (
                r#"{"do":"damage","what":"kill-die","die":0,"factor":1}"#,
                "factor: unknown to kill-die; allowed: die",
            ),
            (
                r#"{"do":"damage","what":"wear-out","count":1}"#,
                "count: unknown to wear-out; allowed: nothing",
            ),
            (
                r#"{"do":"damage","what":"kill-die"}"#,
                "die: missing; allowed: a whole number from 0 to 4294967295",
            ),
            (r#"{"do":"target-create","name":"a","kind":"odd"}"#, "kind: \"odd\"; allowed: block, raw"),
        ] {
            assert_eq!(Request::parse(line.as_bytes()), Err(sentence.to_owned()), "{line}");
        }
    }
}
