//! Damage to drives in service: planned faults, and damage on command.
//!
//! A fault by command happens after all operations submitted earlier. A planned fault strikes with its
//! operation; operations behind it in the submission batch enter the drive afterwards.
//!
//! Invariant: after every change of the plan, `strike` of each namespace is the operation with which its next
//! fault strikes.

#[cfg(test)]
mod tests;

use super::Core;
use crate::engine::{Backend, Time};
use crate::event::{By, Event};
use pellucid_device::Device;
use pellucid_flash::{Interface, Opcode, Status};
use pellucid_media::{Fault, Faults};
use pellucid_target::operation::Namespace;
use pellucid_target::request::{Action, Chances, HostFault, HostFaultKind, Moment, Outcome, PlannedFault};
use pellucid_target::{CutReport, Drives};
use std::time::Duration;

/// Plans a fault.
///
/// # Errors
/// Fails if the drive does not exist, or cannot be damaged in this way.
pub(super) fn plan(core: &mut Core, fault: PlannedFault) -> Result<(), String> {
    let namespace = core.register.namespace_named(fault.drive.as_deref())?;
    check(core, namespace, fault.action)?;
    if matches!(fault.action, Action::Inject(_)) && fault.moment == Moment::Time(Duration::ZERO) {
        // The first command must meet the fault.
        let by = By::Plan { text: fault.text, operations: 0 };
        return carry_out(core, namespace, fault.action, by).map(drop);
    }
    core.plan.add(fault, namespace, core.register.operations(namespace));
    set_strikes(core);
    Ok(())
}

/// Carries out due faults: those of a namespace by operation, or those by time.
#[cold]
pub(super) fn strike(core: &mut Core, namespace: Option<usize>, now: u64) {
    while let Some((drive, fault)) = core.plan.take(namespace, now) {
        let by = By::Plan { text: fault.text, operations: core.register.operations(drive) };
        // The log has the reason of a failure.
        let _ = carry_out(core, drive, fault.action, by);
    }
    set_strikes(core);
}

fn set_strikes(core: &mut Core) {
    let Core { register, plan, .. } = core;
    register.set_strikes(|namespace| plan.next_operation(namespace));
}

/// The drive behind a namespace, for damage between two operations, or the reason why there is none.
fn device_here(core: &mut Core, namespace: usize) -> Result<&mut Device, String> {
    const REMOTE: &str = "the drive is remote, or a file; allowed: a modelled drive, or the control socket of the remote drive's server";
    let drive = core.register.get(namespace).drive;
    core.drive_mut(drive).device_mut().ok_or_else(|| REMOTE.to_owned())
}

/// Logs the planned faults that have not struck: a test that relied on one has tested nothing.
pub(super) fn tell_faults_not_struck(core: &mut Core) {
    let Core { plan, register, desk, .. } = core;
    for (namespace, fault) in plan.not_struck() {
        desk.logbook.events.push(Event::FaultNotStruck {
            drive: register.get(namespace).name.clone(),
            fault: fault.text.clone(),
            operations: register.operations(namespace),
        });
    }
}

/// Cuts the power between two operations: operations not yet in the drive enter it afterwards.
pub(super) fn power_cut_by(core: &mut Core, namespace: usize, by: By) -> Result<CutReport, String> {
    let now = core.desk.engine.backend_now();
    let drive = core.register.get(namespace).drive;
    let of_drive = |tag| core.register.get(core.desk.engine.entry(tag).namespace).drive == drive;
    core.steps.lose(of_drive);
    let device = &mut core.desk.engine.backends_mut()[drive];
    if !device.is_in_wall_time() && now > Backend::now(device) {
        device.advance(now);
    }
    let mut untold = Vec::new();
    // A write must not be reported after the cut: the host would assume that its next flush, or the flush
    // behind a forced trim, covers it.
    while let Some(mut answered) = Backend::pop(device) {
        let completion = &mut answered.answer;
        let is_kept = matches!(completion.opcode, Opcode::Read | Opcode::Flush | Opcode::Report);
        if completion.status == Status::Success && !is_kept {
            completion.status = Status::PowerLoss;
        }
        untold.push(answered);
    }
    let commands_lost = device.outstanding_commands();
    let outcome = device.power_cut();
    untold.into_iter().for_each(|answered| core.desk.engine.withdraw(answered));
    let drive = core.register.name(drive).to_owned();
    let undone_host_sectors = outcome.as_ref().map_or(0, |cut| cut.undone_host_sectors);
    core.log(Event::PowerCut { drive: drive.clone(), commands_lost, undone_host_sectors, by });
    core.log(match &outcome {
        Ok(cut) => Event::Mounted { drive, report: cut.mount },
        Err(why) => Event::MountFailed { drive, why: why.clone() },
    });
    outcome
}

/// Sets the failure probabilities of media operations.
///
/// # Errors
/// Fails for a value that is no probability, or for a location that does not exist.
pub(super) fn set_faults(core: &mut Core, namespace: usize, faults: Faults) -> Result<(), String> {
    device_here(core, namespace)?.set_faults(faults).map_err(|error| error.to_string())
}

/// Refuses a fault that the hosts of a namespace cannot see.
pub(super) fn check_host_fault(core: &Core, namespace: usize, fault: HostFault) -> Result<(), String> {
    let Namespace { name, interface, drive, .. } = core.register.get(namespace);
    if !matches!(interface, Interface::Block { .. }) {
        return Err(format!("{fault}: {name} is no block namespace; allowed: with one"));
    }
    let bytes = core.register.get(namespace).bytes();
    if fault.range_bytes.0 >= bytes {
        return Err(format!("{fault}: {name} has {bytes} bytes; allowed: a range that begins within them"));
    }
    let is_timeless = core.time() == Time::Instant && !core.desk.engine.backends()[*drive].is_in_wall_time();
    if matches!(fault.kind, HostFaultKind::Delay(_)) && is_timeless {
        return Err(format!("{fault}: with --time instant no time is kept; allowed: paced, xF"));
    }
    Ok(())
}

/// Injects a fault that the hosts of a namespace see.
///
/// # Errors
/// Returns the reason if it cannot be injected.
pub(super) fn meet(core: &mut Core, namespace: usize, fault: HostFault) -> Result<(), String> {
    check_host_fault(core, namespace, fault)?;
    let &Namespace { drive, number, .. } = core.register.get(namespace);
    core.desk.engine.backends_mut()[drive].meet(number, fault);
    Ok(())
}

/// Removes all faults that the hosts of a namespace see; returns how many there were.
pub(super) fn clear_faults(core: &mut Core, namespace: usize) -> usize {
    let &Namespace { drive, number, .. } = core.register.get(namespace);
    core.desk.engine.backends_mut()[drive].clear_faults(number)
}

/// Damages a drive now.
///
/// # Errors
/// Fails, without any effect, if the die does not exist or a factor is out of range.
pub(super) fn inject(core: &mut Core, namespace: usize, fault: Fault) -> Result<(), String> {
    device_here(core, namespace)?;
    let now = core.desk.engine.backend_now();
    core.desk.engine.backends_mut()[core.register.get(namespace).drive].inject(now, fault)
}

/// Checks that the action can be done to a drive, without doing it.
///
/// # Errors
/// Names the problem and the allowed values.
pub(super) fn check(core: &mut Core, drive: usize, action: Action) -> Result<(), String> {
    match action {
        Action::PowerCut | Action::Chances(_) => device_here(core, drive).map(|_| ()),
        Action::Damage(fault) => {
            device_here(core, drive)?.check_fault(fault).map_err(|error| error.to_string())
        }
        Action::Inject(fault) => check_host_fault(core, drive, fault),
        Action::Clear => Ok(()),
    }
}

/// Carries out the action for `by` and writes it to the log.
///
/// # Errors
/// Gives the reason why it cannot be done.
pub(super) fn carry_out(core: &mut Core, drive: usize, action: Action, by: By) -> Result<Outcome, String> {
    if !matches!(by, By::Plan { .. }) {
        core.submit_waiting();
    }
    let outcome = act(core, drive, action, &by);
    // A power cut is logged where it happens; unchanged probabilities are no fault.
    let is_told = match action {
        Action::PowerCut => outcome.is_err(),
        Action::Chances(chances) => chances != Chances::default(),
        Action::Damage(_) | Action::Inject(_) => outcome.is_ok() || matches!(by, By::Plan { .. }),
        Action::Clear => true,
    };
    if is_told {
        core.log(Event::Fault {
            drive: core.register.get(drive).name.clone(),
            fault: action.to_string(),
            by,
            read_only: match outcome {
                Ok(Outcome::Damage { read_only }) => Some(read_only),
                _ => None,
            },
            error: outcome.as_ref().err().cloned(),
        });
    }
    outcome
}

fn act(core: &mut Core, drive: usize, action: Action, by: &By) -> Result<Outcome, String> {
    match action {
        Action::PowerCut => {
            let commands_lost = device_here(core, drive)?.outstanding_commands() as usize;
            let report = power_cut_by(core, drive, by.clone())?;
            Ok(Outcome::PowerCut { commands_lost, report })
        }
        Action::Chances(chances) => set_chances(core, drive, chances),
        Action::Damage(fault) => {
            inject(core, drive, fault)?;
            // A cache keeps working without its drive.
            let below = core.device(drive).is_some_and(Device::is_read_only);
            Ok(Outcome::Damage { read_only: below || core.is_read_only(drive) })
        }
        Action::Inject(fault) => meet(core, drive, fault).map(|()| Outcome::Injected),
        Action::Clear => Ok(Outcome::Cleared { faults: clear_faults(core, drive) }),
    }
}

fn set_chances(core: &mut Core, drive: usize, chances: Chances) -> Result<Outcome, String> {
    let faults = chances.over(&device_here(core, drive)?.config().media.faults);
    let outcome = Outcome::of_faults(&faults);
    set_faults(core, drive, faults)?;
    Ok(outcome)
}
