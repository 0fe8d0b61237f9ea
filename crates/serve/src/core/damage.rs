//! What is done to drives in service: planned faults, and damage on command.
//!
//! A fault by command finds everything in the drive that was submitted before. A planned fault comes with its operation; what waits in the
//! submission batch behind that operation goes in afterwards.
//!
//! Invariant: after every change of the plan `strike` of each namespace is the operation with which its next fault comes.

#[cfg(test)]
mod tests;

use super::Core;
use crate::action::Action;
use crate::engine::{Backend, Time};
use crate::event::{By, Event};
use crate::host_fault::{HostFault, HostFaultKind};
use crate::plan::{Moment, PlannedFault};
use crate::session::Namespace;
use pellucid_flash::{Interface, Opcode, Status};
use pellucid_ftl::MountReport;
use pellucid_media::{Fault, Faults};
use std::time::Duration;

impl Core {
    /// Plans a fault.
    ///
    /// # Errors
    /// A drive that is not there, or damage that cannot be done to it.
    pub fn plan(&mut self, fault: PlannedFault) -> Result<(), String> {
        let namespace = self.namespace_named(fault.drive.as_deref())?;
        fault.action.check(namespace, self)?;
        if matches!(fault.action, Action::Inject(_)) && fault.moment == Moment::Time(Duration::ZERO) {
            // The first command meets it.
            let by = By::Plan { text: fault.text, operations: 0 };
            return fault.action.carry_out(namespace, by, self).map(drop);
        }
        self.plan.add(fault, namespace, self.operations[namespace].had);
        self.operations[namespace].strike = self.plan.next_operation(namespace);
        Ok(())
    }

    /// Wall time of the next fault that is planned for a time, on the clock of [`Core::now_ns`].
    pub(crate) fn next_fault_ns(&self) -> Option<u64> {
        let at = self.plan.next_ns();
        (at < u64::MAX).then_some(at)
    }

    /// Lets planned faults happen: those of a drive with an operation, or those whose time has come.
    #[cold]
    pub(crate) fn strike(&mut self, namespace: Option<usize>, now: u64) {
        while let Some((drive, fault)) = self.plan.take(namespace, now) {
            let by = By::Plan { text: fault.text, operations: self.operations[drive].had };
            // Why it could not be done is in the log.
            let _ = fault.action.carry_out(drive, by, self);
        }
        for (namespace, count) in self.operations.iter_mut().enumerate() {
            count.strike = self.plan.next_operation(namespace);
        }
    }

    /// Cuts the power of a drive and switches it on again. Whatever was submitted is in the drive then.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn power_cut(&mut self, namespace: usize) -> Result<MountReport, String> {
        self.submit_waiting();
        self.power_cut_by(namespace, By::Owner)
    }

    /// The same, between two operations: what the drive has not been given yet goes in afterwards.
    pub(crate) fn power_cut_by(&mut self, namespace: usize, by: By) -> Result<MountReport, String> {
        let now = self.engine.backend_now();
        let drive = self.namespaces[namespace].drive;
        let of_drive = |tag| self.namespaces[self.engine.entry(tag).namespace].drive == drive;
        self.steps.lose(of_drive);
        let device = &mut self.engine.backends_mut()[drive];
        if !device.is_in_wall_time() && now > device.now() {
            device.advance(now);
        }
        let mut untold = Vec::new();
        // A host that is told of it after the cut would take its next flush, or the one behind a forced trim, for one that covers it.
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
        self.hub.events.push(Event::PowerCut { drive: drive.clone(), commands_lost, by });
        self.hub.events.push(match &outcome {
            Ok(report) => Event::Mounted { drive, report: *report },
            Err(why) => Event::MountFailed { drive, why: why.clone() },
        });
        outcome
    }

    /// From now on operations of the media fail by these chances.
    ///
    /// # Errors
    /// A value that is no probability, or a place that is not there.
    pub fn set_faults(&mut self, namespace: usize, faults: Faults) -> Result<(), String> {
        self.device_here(namespace)?.set_faults(faults).map_err(|error| error.to_string())
    }

    /// Refuses a fault that the hosts of a namespace cannot meet.
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

    /// The hosts of a namespace meet a fault from now on.
    ///
    /// # Errors
    /// Why they cannot.
    pub(crate) fn meet(&mut self, namespace: usize, fault: HostFault) -> Result<(), String> {
        self.check_host_fault(namespace, fault)?;
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends_mut()[drive].meet(number, fault);
        Ok(())
    }

    /// The hosts of a namespace meet no such fault from now on; how many they met.
    pub(crate) fn clear_faults(&mut self, namespace: usize) -> usize {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends_mut()[drive].clear_faults(number)
    }

    /// Faults that the hosts of a namespace meet, each with the commands that it has hit.
    pub fn host_faults(&self, namespace: usize) -> Vec<(HostFault, u64)> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].host_faults(number)
    }

    /// Does damage to a drive, now.
    ///
    /// # Errors
    /// A die that is not there, or a factor out of range; nothing has happened then.
    pub fn inject(&mut self, namespace: usize, fault: Fault) -> Result<(), String> {
        self.device_here(namespace)?;
        let now = self.engine.backend_now();
        self.engine.backends_mut()[self.namespaces[namespace].drive].inject(now, fault)
    }
}
