//! The control socket: one JSON object per line in, one per line out.
//!
//! ```text
//!  {"do":"status"}                                    counters, wear and lateness of every drive
//!  {"do":"power-cut","drive":"NAME"}                  cut its power, mount it, go on
//!  {"do":"faults","drive":"NAME","program_fail":0.01} failures by chance from now on: program_fail, erase_fail, read_fail
//!  {"do":"damage","what":"slow-die","die":3,"factor":10}  see the table in [`crate::action`]
//!  {"do":"watch"}                                     the figures of monitors; from the first time on, drives are watched
//!  {"do":"stop"}                                      as SIGTERM
//! ```
//! Without `drive`, the first one. Answers are `{"ok":true,...}` or `{"ok":false,"error":"..."}`.

use crate::action::Action;
use crate::core::Core;
use crate::server::Stopper;
use crate::session::{Close, Namespace, Port, Session};
use pellucid_flash::{Cause, Completion};
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
        match Action::of_request(&request) {
            Some(action) => action?.carry_out(drive, port.core()),
            None => Err(format!("do: {what:?}; allowed: status, watch, power-cut, faults, damage, stop")),
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
