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
use pellucid_target::CutReport;
use pellucid_target::operation::Namespace;
use pellucid_target::request::{Action, Chances, HostFault, HostFaultKind, Moment, Outcome, PlannedFault};
use std::time::Duration;

impl Core {
    /// Plans a fault.
    ///
    /// # Errors
    /// Fails if the drive does not exist, or cannot be damaged in this way.
    pub fn plan(&mut self, fault: PlannedFault) -> Result<(), String> {
        let namespace = self.namespace_named(fault.drive.as_deref())?;
        self.check(namespace, fault.action)?;
        if matches!(fault.action, Action::Inject(_)) && fault.moment == Moment::Time(Duration::ZERO) {
            // The first command must meet the fault.
            let by = By::Plan { text: fault.text, operations: 0 };
            return self.carry_out(namespace, fault.action, by).map(drop);
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
            let _ = self.carry_out(drive, fault.action, by);
        }
        for (namespace, count) in self.operations.iter_mut().enumerate() {
            count.strike = self.plan.next_operation(namespace);
        }
    }

    /// Logs the planned faults that have not struck: a test that relied on one has tested nothing.
    pub(crate) fn tell_faults_not_struck(&mut self) {
        for (namespace, fault) in self.plan.not_struck() {
            self.logbook.events.push(Event::FaultNotStruck {
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
        self.logbook.events.push(Event::PowerCut {
            drive: drive.clone(),
            commands_lost,
            undone_host_sectors,
            by,
        });
        self.logbook.events.push(match &outcome {
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

    /// Checks that the action can be done to a drive, without doing it.
    ///
    /// # Errors
    /// Names the problem and the allowed values.
    pub(crate) fn check(&mut self, drive: usize, action: Action) -> Result<(), String> {
        match action {
            Action::PowerCut | Action::Chances(_) => self.device_here(drive).map(|_| ()),
            Action::Damage(fault) => {
                self.device_here(drive)?.check_fault(fault).map_err(|error| error.to_string())
            }
            Action::Inject(fault) => self.check_host_fault(drive, fault),
            Action::Clear => Ok(()),
        }
    }

    /// Carries out the action for `by` and writes it to the log.
    ///
    /// # Errors
    /// Gives the reason why it cannot be done.
    pub(crate) fn carry_out(&mut self, drive: usize, action: Action, by: By) -> Result<Outcome, String> {
        if !matches!(by, By::Plan { .. }) {
            self.submit_waiting();
        }
        let outcome = self.act(drive, action, &by);
        // A power cut is logged where it happens; unchanged probabilities are no fault.
        let is_told = match action {
            Action::PowerCut => outcome.is_err(),
            Action::Chances(chances) => chances != Chances::default(),
            Action::Damage(_) | Action::Inject(_) => outcome.is_ok() || matches!(by, By::Plan { .. }),
            Action::Clear => true,
        };
        if is_told {
            self.logbook.events.push(Event::Fault {
                drive: self.namespaces()[drive].name.clone(),
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

    fn act(&mut self, drive: usize, action: Action, by: &By) -> Result<Outcome, String> {
        match action {
            Action::PowerCut => {
                let commands_lost = self.device_here(drive)?.outstanding_commands() as usize;
                let report = self.power_cut_by(drive, by.clone())?;
                Ok(Outcome::PowerCut { commands_lost, report })
            }
            Action::Chances(chances) => self.set_chances(drive, chances),
            Action::Damage(fault) => {
                self.inject(drive, fault)?;
                // A cache keeps working without its drive.
                let below = self.device(drive).is_some_and(Device::is_read_only);
                Ok(Outcome::Damage { read_only: below || self.is_read_only(drive) })
            }
            Action::Inject(fault) => self.meet(drive, fault).map(|()| Outcome::Injected),
            Action::Clear => Ok(Outcome::Cleared { faults: self.clear_faults(drive) }),
        }
    }

    fn set_chances(&mut self, drive: usize, chances: Chances) -> Result<Outcome, String> {
        let faults = chances.over(&self.device_here(drive)?.config().media.faults);
        let outcome = Outcome::of_faults(&faults);
        self.set_faults(drive, faults)?;
        Ok(outcome)
    }
}
