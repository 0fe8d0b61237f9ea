//! The control socket: one JSON object per line in, one per line out.
//!
//! ```text
//!  {"do":"status"}                                    counters, wear and lateness of every drive
//!  {"do":"power-cut","drive":"NAME"}                  cut its power, mount it, go on
//!  {"do":"faults","drive":"NAME","program_fail":0.01} failures by chance from now on: program_fail, erase_fail, read_fail
//!  {"do":"damage","what":"slow-die","die":3,"factor":10}  see the table in [`crate::action`]
//!  {"do":"targets"}                                   a drive's parallel units and the targets on them
//!  {"do":"target-create","name":"log","kind":"raw","first_unit":4,"units":2}  answered when the target takes commands
//!  {"do":"target-remove","name":"log"}                answered when its units are free; refused while a connection uses it
//!  {"do":"watch"}                                     the figures of monitors; from the first time on, drives are watched
//!  {"do":"stop"}                                      as SIGTERM
//! ```
//! One line is answered in a turn of the server, and while others are served, answering takes a fifth of the time at most.
//!
//! A key that the request does not have is refused. Without `drive`, the only one; for targets the name of the drive counts. Lines are
//! answered in order. Answers are `{"ok":true,...}` or `{"ok":false,"error":"..."}`.

mod request;

pub use crate::action::{Action, Chances};
pub use request::Request;

use crate::core::Core;
use crate::event::By;
use crate::server::Stopper;
use crate::session::{Close, Namespace, Port, Session};
use pellucid_flash::{Cause, Completion};
use serde_json::{Value, json};

/// More that cannot be answered ends the connection: a longer line, or requests behind one that takes time.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// After an answer, the connections that are served get so many times as long as it took.
const REST_FACTOR: u64 = 4;
/// Others are served if something came from them within this time.
const HEARD_NS: u64 = 10_000_000;
/// One connection to the control socket.
pub struct ControlSession {
    /// What has come and has not been answered.
    input: Vec<u8>,
    /// A target starts or stops; its end is the answer.
    waits: bool,
    /// While others are served, nothing is answered before this.
    rests_until_ns: u64,
    stopper: Stopper,
}

impl ControlSession {
    /// A session that may stop the server.
    pub fn new(stopper: Stopper) -> ControlSession {
        ControlSession { input: Vec::new(), waits: false, rests_until_ns: 0, stopper }
    }

    /// Answers a request; `None`: it is answered later.
    fn answer(&self, line: &[u8], port: &mut Port<'_>) -> Result<Option<Value>, String> {
        let me = port.connection();
        let core = port.core();
        match Request::parse(line)? {
            Request::Status => Ok(Some(status(core))),
            Request::Watch => {
                core.watch();
                serde_json::to_value(core.figures()).map(Some).map_err(|error| error.to_string())
            }
            Request::Stop => {
                self.stopper.stop_because("control");
                Ok(Some(json!({})))
            }
            Request::Break { drive, action } => {
                let drive = named(drive.as_deref(), core.namespaces())?;
                let outcome = action.carry_out(drive, By::Control(me), core)?;
                Ok(Some(outcome.answer()))
            }
            Request::Targets { drive } => core.targets(core.drive_named(drive.as_deref())?).map(Some),
            Request::TargetCreate { drive, target } => {
                let drive = core.drive_named(drive.as_deref())?;
                core.create_target(me, drive, target).map(|()| None)
            }
            Request::TargetRemove { drive, name } => {
                let drive = core.drive_named(drive.as_deref())?;
                core.remove_target(me, drive, &name).map(|()| None)
            }
        }
    }

    /// Answers a line, if one has come; unless the answer before takes time, or others are to be served first.
    fn work(&mut self, port: &mut Port<'_>) {
        let began = port.now_ns();
        let rests = began < self.rests_until_ns && port.core().hub.heard_ns + HEARD_NS > began;
        if self.waits || rests {
            return;
        }
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else { return };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        match self.answer(&line[..end], port).transpose() {
            Some(answer) => say(answer, port),
            None => self.waits = true,
        }
        self.look(port);
        let ended = port.now_ns();
        // All connections take turns in one line: the share is that of them together.
        let free_ns = port.core().hub.control_free_ns.max(ended) + (ended - began) * REST_FACTOR;
        (port.core().hub.control_free_ns, self.rests_until_ns) = (free_ns, free_ns);
    }

    fn has_line(&self) -> bool {
        self.input.contains(&b'\n')
    }

    /// Sees whether what is waited for has happened.
    fn look(&mut self, port: &mut Port<'_>) {
        let me = port.connection();
        if self.waits
            && let Some(outcome) = port.core().outcome(me)
        {
            self.waits = false;
            say(outcome.map(|()| json!({})), port);
        }
    }
}

fn say(answer: Result<Value, String>, port: &mut Port<'_>) {
    let answer = match answer {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".into(), true.into());
            Value::Object(fields)
        }
        Ok(other) => json!({"ok": true, "value": other}),
        Err(error) => json!({"ok": false, "error": error}),
    };
    port.output().head(format!("{answer}\n").as_bytes());
}

impl Session for ControlSession {
    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        // What is behind a line stays where it is until that is answered; behind one that takes time, it is kept here.
        if self.waits {
            self.input.extend_from_slice(std::mem::take(input));
        } else if !self.has_line() {
            let end = input.iter().position(|&byte| byte == b'\n').map_or(input.len(), |at| at + 1);
            let (line, rest) = input.split_at(end);
            self.input.extend_from_slice(line);
            *input = rest;
        }
        self.work(port);
        if self.input.len() > INPUT_BYTES_MAX {
            return Err(Close::Refused(format!(
                "more than {INPUT_BYTES_MAX} bytes without an answer to wait for"
            )));
        }
        Ok(())
    }

    fn tick(&mut self, _now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
        self.look(port);
        self.work(port);
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.waits && self.has_line()
    }

    fn completed(&mut self, _token: u64, completion: Completion, port: &mut Port<'_>) {
        port.give_back(completion.data);
    }
}

/// The drive of a name, which may be left out where there is only one: what breaks a drive must not take any of them.
pub(crate) fn named(name: Option<&str>, namespaces: &[Namespace]) -> Result<usize, String> {
    let there = || namespaces.iter().filter(|n| !n.gone);
    let Some(name) = name else {
        if there().all(|n| n.drive == namespaces[0].drive) {
            return Ok(0);
        }
        let names: Vec<&str> = there().map(|n| n.name.as_str()).collect();
        return Err(format!("drive: there are several; allowed: one of {}", names.join(", ")));
    };
    namespaces.iter().position(|n| !n.gone && n.name == name).ok_or_else(|| {
        let names: Vec<&str> = there().map(|n| n.name.as_str()).collect();
        format!("drive: {name:?}; allowed: {}", names.join(", "))
    })
}

/// What can be told about all drives.
fn status(core: &Core) -> Value {
    let lateness = core.lateness_ns();
    let drives: Vec<Value> = (0..core.namespaces().len())
        .filter(|&namespace| !core.namespaces()[namespace].gone)
        .map(|namespace| drive_status(core, namespace))
        .collect();
    json!({
        "up_ns": core.now_ns(),
        "connections": core.hub.connections,
        "outstanding": core.outstanding(),
        "bytes_held": core.bytes_held(),
        "lateness_ns": {
            "count": lateness.len(),
            "p50": lateness.value_at_quantile(0.5),
            "p99": lateness.value_at_quantile(0.99),
            "max": lateness.max(),
        },
        "lead_ns": core.lead_ns(),
        "hand_out_ns": core.hand_out_ns(),
        "drives": drives,
    })
}

fn drive_status(core: &Core, drive: usize) -> Value {
    let namespace = &core.namespaces()[drive];
    let Some(device) = core.device(drive) else {
        return json!({
            "name": namespace.name,
            "bytes": namespace.bytes(),
            "sector_bytes": namespace.sector_bytes,
            "keeps": namespace.keeps.name(),
            "read_only": core.is_read_only(drive),
            "remote": core.remote_state(drive),
        });
    };
    let counters = device.counters();
    let programmed: u64 = counters.programmed_sectors.iter().sum();
    let by_cause: serde_json::Map<String, Value> = Cause::listed(&counters.programmed_sectors)
        .map(|cause| (cause.name().to_string(), counters.programmed_sectors[cause as usize].into()))
        .collect();
    let (mut count, mut sum, mut max) = (0u64, 0u64, 0u32);
    for erases in device.erase_counts() {
        (count, sum, max) = (count + 1, sum + u64::from(erases), max.max(erases));
    }
    let (factory_bad, grown_bad) = device.bad_blocks();
    json!({
        "name": namespace.name,
        "bytes": namespace.bytes(),
        "sector_bytes": namespace.sector_bytes,
        "keeps": namespace.keeps.name(),
        "simulated_ns": device.now().0,
        "read_only": core.is_read_only(drive),
        "host_read_sectors": counters.host_read_sectors,
        "host_written_sectors": counters.host_written_sectors,
        "programmed_sectors": by_cause,
        "write_amplification": (counters.host_written_sectors > 0)
            .then(|| programmed as f64 / counters.host_written_sectors as f64),
        "erases": counters.erases,
        "erases_mean": (count > 0).then(|| sum as f64 / count as f64),
        "erases_max": max,
        "free_blocks": device.free_blocks(),
        "factory_bad_blocks": factory_bad,
        "grown_bad_blocks": grown_bad,
        "read_retries": counters.read_retries,
        "uncorrectable_reads": counters.uncorrectable_reads,
        "program_failures": counters.program_failures,
        "erase_failures": counters.erase_failures,
        "power_cuts": counters.power_cuts,
    })
}
