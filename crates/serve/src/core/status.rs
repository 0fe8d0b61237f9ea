//! The control socket's requests about drives.

use super::{Core, apps, damage, layers, targets};
use crate::event::By;
use crate::service::Operated;
use pellucid_flash::{Cause, Drive};
use pellucid_target::connection::ConnectionId;
use pellucid_target::request::Request;
use pellucid_target::{Drives, Service};
use serde_json::{Value, json};

/// See [`Service::control`].
pub(super) fn control(core: &mut Core, by: ConnectionId, request: Request) -> Result<Option<Value>, String> {
    let drive_named = |core: &Core, name: Option<String>| core.register.drive_named(name.as_deref());
    match request {
        Request::Status => Ok(Some(status(core))),
        Request::Watch => {
            core.watch();
            serde_json::to_value(core.figures()).map(Some).map_err(|error| error.to_string())
        }
        // The server's owner stops it.
        Request::Stop => Ok(Some(json!({}))),
        Request::Break { drive, action } => {
            let namespace = core.register.namespace_named(drive.as_deref())?;
            let outcome = damage::carry_out(core, namespace, action, By::Control(by))?;
            Ok(Some(outcome.answer()))
        }
        Request::Targets { drive } => targets::list(core, drive_named(core, drive)?).map(Some),
        Request::Apps { drive } => apps::list(core, drive_named(core, drive)?).map(Some),
        Request::AppAllocate { drive, name, capacity_bytes, over_provisioning } => {
            let drive = drive_named(core, drive)?;
            let request = pellucid_prism::Request { capacity_bytes, over_provisioning };
            apps::allocate(core, drive, &name, request).map(Some)
        }
        Request::AppRelease { drive, name } => {
            let drive = drive_named(core, drive)?;
            apps::release(core, drive, &name).map(Some)
        }
        Request::Detach { drive, give_up_lost } => {
            let drive = drive_named(core, drive)?;
            layers::detach(core, by, drive, give_up_lost).map(|()| None)
        }
        Request::FirePause { drive } => {
            let drive = drive_named(core, drive)?;
            layers::pause(core, by, drive).map(|()| None)
        }
        Request::FireResume { drive } => {
            let drive = drive_named(core, drive)?;
            layers::resume(core, drive).map(|()| Some(json!({})))
        }
        Request::TargetCreate { drive, target } => {
            let drive = drive_named(core, drive)?;
            targets::create(core, by, drive, target).map(|()| None)
        }
        Request::TargetRemove { drive, name } => {
            let drive = drive_named(core, drive)?;
            targets::remove(core, by, drive, &name).map(|()| None)
        }
    }
}

/// Builds the status of all drives.
fn status(core: &Core) -> Value {
    let lateness = core.lateness_ns();
    let drives: Vec<Value> = (0..core.namespaces().len())
        .filter(|&namespace| !core.namespaces()[namespace].gone)
        .map(|namespace| drive_status(core, namespace))
        .collect();
    json!({
        "up_ns": core.now_ns(),
        "connections": core.desk.logbook.connections,
        "outstanding": core.outstanding(),
        "bytes_held": core.bytes_held(),
        "lateness_ns": {
            "count": lateness.total(),
            "p50": lateness.quantile(0.5).unwrap_or(0),
            "p99": lateness.quantile(0.99).unwrap_or(0),
            "max": lateness.quantile(1.0).unwrap_or(0),
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
            "remote_lost": core.remote_loss(drive),
            "host_faults": host_faults(core, drive),
        });
    };
    // With several namespaces, each reports its own operations; block erases and media failures are reported
    // for the whole drive.
    let several = device.namespaces() > 1 && namespace.number < device.namespaces();
    let counters = match several {
        true => device.namespace(namespace.number).counters(),
        false => device.counters(),
    };
    let free_blocks =
        if several { device.namespace(namespace.number).free_blocks() } else { device.free_blocks() };
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
        "free_blocks": free_blocks,
        "factory_bad_blocks": factory_bad,
        "grown_bad_blocks": grown_bad,
        "read_retries": counters.read_retries,
        "uncorrectable_reads": counters.uncorrectable_reads,
        "program_failures": counters.program_failures,
        "erase_failures": counters.erase_failures,
        "power_cuts": device.counters().power_cuts,
        "host_faults": host_faults(core, drive),
    })
}

/// Faults that hosts see, each with the number of commands it has hit.
fn host_faults(core: &Core, drive: usize) -> Vec<Value> {
    let faults = core.host_faults(drive).into_iter();
    faults.map(|(fault, hits)| json!({ "fault": fault.to_string(), "hits": hits })).collect()
}
