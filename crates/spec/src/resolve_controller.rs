//! `[drive.host]`, `[drive.firmware]`, `[drive.buffer]`, `[drive.scheduler]`: the controller.

use super::error::SpecError;
use super::schema::Values;
use pellucid_device::{Arbitration, Completes, DeviceConfig, DieOrder, FirmwareModel, HostInterface};
use pellucid_flash::{Layout, Nanos};

/// Checks the controller of a drive of this layout, after its media are finished.
pub(crate) fn check(drive: &DeviceConfig, values: &Values, layout: &Layout) -> Result<(), SpecError> {
    check_arbitration(&drive.host, values)?;
    if drive.host.completes == Completes::Controller && drive.host.complete_ns > Nanos::ZERO {
        let allowed = "firmware, or controller with drive.host.complete = 0";
        return Err(values.refuse("drive.host.completes", allowed));
    }
    let buffer = &drive.buffer;
    if buffer.entries < layout.units_per_superpage {
        let allowed =
            format!("at least {}, the mapping units that one program writes", layout.units_per_superpage);
        return Err(values.refuse("drive.buffer.entries", allowed));
    }
    if buffer.fifo
        && (buffer.retain || buffer.dirty_high > 0.0 || drive.scheduler.order == DieOrder::ReadFirst)
    {
        let allowed = "false, or true with drive.buffer.retain = false, drive.buffer.dirty_high = 0.0 and \
                       drive.scheduler.order = \"fifo\" or \"in-order\"";
        return Err(values.refuse("drive.buffer.fifo", allowed));
    }
    check_scheduler(drive, values)
}

fn check_arbitration(host: &HostInterface, values: &Values) -> Result<(), SpecError> {
    let queues = host.queues;
    match &host.arbitration {
        Arbitration::Weighted(weights) if weights.is_empty() => {
            Err(values.refuse("drive.host.arbitration", "round-robin, or weighted with drive.host.weights"))
        }
        Arbitration::Weighted(weights) if weights.len() > usize::from(queues) => {
            Err(values.refuse("drive.host.weights", format!("at most {queues} weights, one per queue")))
        }
        Arbitration::Weighted(_) | Arbitration::RoundRobin => Ok(()),
    }
}

fn check_scheduler(drive: &DeviceConfig, values: &Values) -> Result<(), SpecError> {
    let (scheduler, timing) = (&drive.scheduler, &drive.media.timing);
    if scheduler.suspend && scheduler.order != DieOrder::ReadFirst {
        let allowed = "false, or true with drive.scheduler.order = \"read-first\"";
        return Err(values.refuse("drive.scheduler.suspend", allowed));
    }
    if scheduler.suspend && timing.suspend_ns.is_none() {
        let allowed = "false, or true with a duration in drive.media.timing.suspend";
        return Err(values.refuse("drive.scheduler.suspend", allowed));
    }
    if scheduler.order == DieOrder::InOrder
        && (drive.firmware.model == FirmwareModel::Loop || drive.media.independent_plane_reads)
    {
        let allowed = "fifo, read-first, or in-order with drive.firmware.model = \"tasks\" and \
                       drive.media.independent_plane_reads = false";
        return Err(values.refuse("drive.scheduler.order", allowed));
    }
    if scheduler.page_transfers && drive.firmware.model == FirmwareModel::Loop {
        let allowed = "false, or true with drive.firmware.model = \"tasks\"";
        return Err(values.refuse("drive.scheduler.page_transfers", allowed));
    }
    Ok(())
}
