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
use crate::action::Action;
use crate::drive::CutReport;
use crate::engine::{Backend, Time};
use crate::event::{By, Event};
use crate::host_fault::{HostFault, HostFaultKind};
use crate::plan::{Moment, PlannedFault};
use crate::session::Namespace;
use pellucid_flash::{Interface, Opcode, Status};
use pellucid_media::{Fault, Faults};
use std::time::Duration;

impl Core {
    /// Plans a fault.
    ///
    /// # Errors
    /// Fails if the drive does not exist, or cannot be damaged in this way.
    pub fn plan(&mut self, fault: PlannedFault) -> Result<(), String> {
        let namespace = self.namespace_named(fault.drive.as_deref())?;
        fault.action.check(namespace, self)?;
        if matches!(fault.action, Action::Inject(_)) && fault.moment == Moment::Time(Duration::ZERO) {
            // The first command must meet the fault.
            let by = By::Plan { text: fault.text, operations: 0 };
            return fault.action.carry_out(namespace, by, self).map(drop);
        }
        self.plan.add(fault, namespace, self.operations[namespace].had);
        self.operations[namespace].strike = self.plan.next_operation(namespace);
        Ok(())
    }

    /// Wall time of the next fault planned by time, on the clock of [`Core::now_ns`].
    pub(crate) fn next_fault_ns(&self) -> Option<u64> {
        let at = self.plan.next_ns();
        (at < u64::MAX).then_some(at)
    }

    /// Carries out due faults: those of a namespace by operation, or those by time.
    #[cold]
    pub(crate) fn strike(&mut self, namespace: Option<usize>, now: u64) {
        while let Some((drive, fault)) = self.plan.take(namespace, now) {
            let by = By::Plan { text: fault.text, operations: self.operations[drive].had };
            // The log has the reason of a failure.
            let _ = fault.action.carry_out(drive, by, self);
        }
        for (namespace, count) in self.operations.iter_mut().enumerate() {
            count.strike = self.plan.next_operation(namespace);
        }
    }

    /// Logs the planned faults that have not struck: a test that relied on one has tested nothing.
    pub(crate) fn tell_faults_not_struck(&mut self) {
        for (namespace, fault) in self.plan.not_struck() {
            self.hub.events.push(Event::FaultNotStruck {
                drive: self.namespaces[namespace].name.clone(),
                fault: fault.text.clone(),
                operations: self.operations[namespace].had,
            });
        }
    }

    /// Cuts the power of a drive and restores it. All submitted operations are in the drive by then.
    ///
    /// # Errors
    /// Fails if the drive cannot be mounted.
    pub fn power_cut(&mut self, namespace: usize) -> Result<CutReport, String> {
        self.submit_waiting();
        self.power_cut_by(namespace, By::Owner)
    }

    /// Cuts the power between two operations: operations not yet in the drive enter it afterwards.
    pub(crate) fn power_cut_by(&mut self, namespace: usize, by: By) -> Result<CutReport, String> {
        let now = self.engine.backend_now();
        let drive = self.namespaces[namespace].drive;
        let of_drive = |tag| self.namespaces[self.engine.entry(tag).namespace].drive == drive;
        self.steps.lose(of_drive);
        let device = &mut self.engine.backends_mut()[drive];
        if !device.is_in_wall_time() && now > device.now() {
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
        untold.into_iter().for_each(|answered| self.engine.withdraw(answered));
        let drive = self.names[drive].clone();
        let undone_host_sectors = outcome.as_ref().map_or(0, |cut| cut.undone_host_sectors);
        self.hub.events.push(Event::PowerCut {
            drive: drive.clone(),
            commands_lost,
            undone_host_sectors,
            by,
        });
        self.hub.events.push(match &outcome {
            Ok(cut) => Event::Mounted { drive, report: cut.mount },
            Err(why) => Event::MountFailed { drive, why: why.clone() },
        });
        outcome
    }

    /// Sets the failure probabilities of media operations.
    ///
    /// # Errors
    /// Fails for a value that is no probability, or for a location that does not exist.
    pub fn set_faults(&mut self, namespace: usize, faults: Faults) -> Result<(), String> {
        self.device_here(namespace)?.set_faults(faults).map_err(|error| error.to_string())
    }

    /// Refuses a fault that the hosts of a namespace cannot see.
    pub(crate) fn check_host_fault(&self, namespace: usize, fault: HostFault) -> Result<(), String> {
        let Namespace { name, interface, drive, .. } = &self.namespaces[namespace];
        if !matches!(interface, Interface::Block { .. }) {
            return Err(format!("{fault}: {name} is no block namespace; allowed: with one"));
        }
        let bytes = self.namespaces[namespace].bytes();
        if fault.range_bytes.0 >= bytes {
            return Err(format!(
                "{fault}: {name} has {bytes} bytes; allowed: a range that begins within them"
            ));
        }
        let is_timeless = self.time() == Time::Instant && !self.engine.backends()[*drive].is_in_wall_time();
        if matches!(fault.kind, HostFaultKind::Delay(_)) && is_timeless {
            return Err(format!("{fault}: with --time instant nothing has a time; allowed: paced, xF"));
        }
        Ok(())
    }

    /// Injects a fault that the hosts of a namespace see.
    ///
    /// # Errors
    /// Returns the reason if it cannot be injected.
    pub(crate) fn meet(&mut self, namespace: usize, fault: HostFault) -> Result<(), String> {
        self.check_host_fault(namespace, fault)?;
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends_mut()[drive].meet(number, fault);
        Ok(())
    }

    /// Removes all faults that the hosts of a namespace see; returns how many there were.
    pub(crate) fn clear_faults(&mut self, namespace: usize) -> usize {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends_mut()[drive].clear_faults(number)
    }

    /// Faults that the hosts of a namespace see, each with the number of commands it has hit.
    pub fn host_faults(&self, namespace: usize) -> Vec<(HostFault, u64)> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].host_faults(number)
    }

    /// Damages a drive now.
    ///
    /// # Errors
    /// Fails, without any effect, if the die does not exist or a factor is out of range.
    pub fn inject(&mut self, namespace: usize, fault: Fault) -> Result<(), String> {
        self.device_here(namespace)?;
        let now = self.engine.backend_now();
        self.engine.backends_mut()[self.namespaces[namespace].drive].inject(now, fault)
    }
}
