//! The control socket: one JSON object per line in, one per line out.
//!
//! ```text
//!  {"do":"status"}                                    counters, wear and lateness of every drive
//!  {"do":"power-cut","drive":"NAME"}                  cut its power, mount it, go on
//!  {"do":"faults","drive":"NAME","program_fail":0.01} failures by chance from now on: program_fail, erase_fail, read_fail
//!  {"do":"damage","what":"slow-die","die":3,"factor":10}  see the table below
//!  {"do":"watch"}                                     the figures of monitors; from the first time on, drives are watched
//!  {"do":"stop"}                                      as SIGTERM
//! ```
//! | `what`          | with                    | from then on                                          |
//! |-----------------|-------------------------|-------------------------------------------------------|
//! | `slow-die`      | `die`, `factor`         | its array operations take `factor` times as long      |
//! | `kill-die`      | `die`                   | its programs and erases fail, its data cannot be read |
//! | `bit-errors`    | `factor`, perhaps `die` | the raw bit error rate is `factor` times the model's  |
//! | `fail-programs` | `count`                 | the next `count` programs fail                        |
//! | `fail-erases`   | `count`                 | the next `count` erases fail                          |
//! | `wear-out`      |                         | no spare block is left: the drive is read-only        |
//!
//! Without `drive`, the first one. Answers are `{"ok":true,...}` or `{"ok":false,"error":"..."}`.

use crate::core::Core;
use crate::server::Stopper;
use crate::session::{Close, Namespace, Port, Session};
use pellucid_flash::{Cause, Completion, DieId};
use pellucid_media::Fault;
use serde_json::{Value, json};

/// A longer line ends the connection.
const LINE_BYTES_MAX: usize = 64 << 10;

/// One connection to the control socket.
pub struct ControlSession {
    line: Vec<u8>,
    stopper: Stopper,
}

impl ControlSession {
    /// A session that may stop the server.
    pub fn new(stopper: Stopper) -> ControlSession {
        ControlSession { line: Vec::new(), stopper }
    }

    fn answer(&self, line: &[u8], port: &mut Port<'_>) -> Result<Value, String> {
        let request: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let what = request.get("do").and_then(Value::as_str).unwrap_or_default();
        if what == "status" {
            return status(port.core());
        }
        if what == "watch" {
            port.core().watch();
            return figures(port.core());
        }
        if what == "stop" {
            self.stopper.stop();
            return Ok(json!({}));
        }
        let name = match request.get("drive") {
            None => None,
            Some(name) => Some(name.as_str().ok_or_else(|| format!("drive: {name}; allowed: a name"))?),
        };
        let drive = named(name, port.namespaces())?;
        match what {
            "power-cut" | "faults" | "damage" => carry_out(drive, &request, port.core()),
            _ => Err(format!("do: {what:?}; allowed: status, watch, power-cut, faults, damage, stop")),
        }
    }
}

impl Session for ControlSession {
    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        while let Some(end) = input.iter().position(|&byte| byte == b'\n') {
            self.line.extend_from_slice(&input[..end]);
            *input = &input[end + 1..];
            let line = std::mem::take(&mut self.line);
            let answer = match self.answer(&line, port) {
                Ok(Value::Object(mut fields)) => {
                    fields.insert("ok".into(), true.into());
                    Value::Object(fields)
                }
                Ok(other) => json!({"ok": true, "value": other}),
                Err(error) => json!({"ok": false, "error": error}),
            };
            port.output().head(format!("{answer}\n").as_bytes());
        }
        self.line.extend_from_slice(input);
        *input = &[];
        if self.line.len() > LINE_BYTES_MAX {
            return Err(Close::Refused(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    fn completed(&mut self, _token: u64, completion: Completion, port: &mut Port<'_>) {
        port.give_back(completion.data);
    }
}

/// The drive of a name; without one the first.
pub(crate) fn named(name: Option<&str>, namespaces: &[Namespace]) -> Result<usize, String> {
    let Some(name) = name else { return Ok(0) };
    namespaces.iter().position(|n| n.name == name).ok_or_else(|| {
        let names: Vec<&str> = namespaces.iter().map(|n| n.name.as_str()).collect();
        format!("drive: {name:?}; allowed: {}", names.join(", "))
    })
}

/// Does to a drive what a request asks for; also what was planned for it.
pub(crate) fn carry_out(drive: usize, request: &Value, core: &mut Core) -> Result<Value, String> {
    match request["do"].as_str() {
        Some("power-cut") => power_cut(drive, core),
        Some("damage") => {
            core.inject(drive, fault(request)?)?;
            Ok(json!({ "read_only": core.is_read_only(drive) }))
        }
        _ => faults(drive, request, core),
    }
}

fn power_cut(drive: usize, core: &mut Core) -> Result<Value, String> {
    let lost = core.device_here(drive)?.outstanding_commands();
    let report = core.power_cut(drive)?;
    Ok(json!({
        "commands_lost": lost,
        "mapped_units": report.mapped_units,
        "mount_reads": report.header_reads + report.segment_reads + report.replay_reads,
    }))
}

fn faults(drive: usize, request: &Value, core: &mut Core) -> Result<Value, String> {
    let mut faults = core.device_here(drive)?.config().media.faults.clone();
    let places = [
        ("program_fail", &mut faults.program_fail),
        ("erase_fail", &mut faults.erase_fail),
        ("read_fail", &mut faults.read_fail),
    ];
    for (key, place) in places {
        if let Some(value) = request.get(key) {
            *place =
                value.as_f64().ok_or_else(|| format!("{key}: {value}; allowed: a number from 0 to 1"))?;
        }
    }
    let answer = json!({
        "program_fail": faults.program_fail, "erase_fail": faults.erase_fail, "read_fail": faults.read_fail,
    });
    core.set_faults(drive, faults)?;
    Ok(answer)
}

/// The damage that a request asks for.
fn fault(request: &Value) -> Result<Fault, String> {
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
    match request.get("what").and_then(Value::as_str).unwrap_or_default() {
        "slow-die" => Ok(Fault::SlowDie { die: die()?, factor: factor()? }),
        "kill-die" => Ok(Fault::KillDie { die: die()? }),
        "bit-errors" => {
            let die = request.get("die").map(|_| die()).transpose()?;
            Ok(Fault::BitErrors { die, factor: factor()? })
        }
        "fail-programs" => Ok(Fault::FailPrograms { count: number("count")? }),
        "fail-erases" => Ok(Fault::FailErases { count: number("count")? }),
        "wear-out" => Ok(Fault::WearOut),
        what => Err(format!(
            "what: {what:?}; allowed: slow-die, kill-die, bit-errors, fail-programs, fail-erases, wear-out"
        )),
    }
}

/// What monitors show.
fn figures(core: &Core) -> Result<Value, String> {
    serde_json::to_value(core.figures()).map_err(|error| error.to_string())
}

/// What can be told about all drives.
fn status(core: &Core) -> Result<Value, String> {
    let lateness = core.lateness_ns();
    let drives: Vec<Value> = (0..core.namespaces().len()).map(|drive| drive_status(core, drive)).collect();
    Ok(json!({
        "up_ns": core.now_ns(),
        "connections": core.connections,
        "outstanding": core.outstanding(),
        "bytes_held": core.bytes_held(),
        "lateness_ns": {
            "count": lateness.len(),
            "p50": lateness.value_at_quantile(0.5),
            "p99": lateness.value_at_quantile(0.99),
            "max": lateness.max(),
        },
        "drives": drives,
        "snapshot": figures(core)?,
    }))
}

fn drive_status(core: &Core, drive: usize) -> Value {
    let namespace = &core.namespaces()[drive];
    let Some(device) = core.device(drive) else {
        return json!({
            "name": namespace.name,
            "bytes": namespace.bytes(),
            "sector_bytes": namespace.sector_bytes,
            "read_only": core.is_read_only(drive),
            "remote": core.remote_state(drive),
        });
    };
    let counters = device.counters();
    let programmed: u64 = counters.programmed_sectors.iter().sum();
    let by_cause: serde_json::Map<String, Value> = Cause::ALL
        .into_iter()
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
        "simulated_ns": device.now().0,
        "read_only": device.is_read_only(),
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
