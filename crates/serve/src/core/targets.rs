//! Targets on ranges of a drive's parallel units, created and removed while it is served.
//!
//! ```text
//!  create ─► reserved (hidden) ─► ready: an NBD export (block) and an NVMe subsystem of its own ─► remove ─► hidden
//!            └─ the start fails ─► gone                                                             drained ─► gone
//! ```
//! Invariants: a target held by a connection is not removed; a namespace number is not reused while a
//! connection holds it; only ready targets are kept for the next start, not starting ones.

#[cfg(test)]
mod tests;

use super::{Core, Operations};
use crate::drive::Served;
use crate::event::{Event, User};
use pellucid_flash::{Drive, Interface};
use pellucid_host::{HostFtlConfig, Target, TargetEvent, TargetState, Targets};
use pellucid_target::connection::ConnectionId;
use pellucid_target::operation::{NQN_PREFIX, Namespace};
use pellucid_wire::nvme::NQN_BYTES_MAX;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Stores a drive's targets for the next start of the server; the error is a sentence.
pub type KeepTargets = Box<dyn FnMut(&Targets) -> Result<(), String>>;

/// Settings for the targets of a drive.
struct Registry {
    drive: usize,
    settings: HostFtlConfig,
    keep: KeepTargets,
}

/// Checks that a target's qualified name over NVMe, the drive's name plus its own, is not too long.
fn check_length(full_name: &str, target: &str) -> Result<(), String> {
    let room = (NQN_BYTES_MAX - NQN_PREFIX.len() + target.len()).saturating_sub(full_name.len());
    if target.len() <= room {
        return Ok(());
    }
    let given = target.len();
    Err(format!(
        "target name: {given} bytes; allowed: at most {room}, as its NQN, {NQN_PREFIX}DRIVE.TARGET, has at most {NQN_BYTES_MAX}"
    ))
}

/// A connection that waits for the start or the removal of a target.
struct Waiting {
    connection: ConnectionId,
    namespace: usize,
    outcome: Option<Result<(), String>>,
}

/// State of targets in the core, beside the drives themselves.
#[derive(Default)]
pub(super) struct TargetBook {
    registries: Vec<Registry>,
    /// Connections with the namespaces that they use.
    holders: BTreeSet<(ConnectionId, usize)>,
    waiting: Vec<Waiting>,
    changes: u64,
}

impl Core {
    /// Sets how a drive's targets are created (`settings` for their host FTLs) and stored, and creates the
    /// existing ones, waiting in simulated time until they have started.
    ///
    /// # Errors
    /// Returns one sentence if there is no drive of this name, or if a target cannot be created.
    pub fn keep_targets(
        &mut self,
        drive: &str,
        settings: HostFtlConfig,
        targets: &Targets,
        keep: KeepTargets,
    ) -> Result<(), String> {
        let number = self.names.iter().position(|name| name == drive);
        let number = number.ok_or_else(|| format!("drive: {drive:?}: not served"))?;
        for target in targets.list() {
            let namespace = self.reserve(number, target.clone(), &settings)?;
            loop {
                if let Some(why) = self.settle_targets_of(number) {
                    return Err(format!("target {}: {why}", target.name));
                }
                if !self.namespaces[namespace].gone {
                    break;
                }
                match self.engine.backends()[number].next_event() {
                    Some(at) => self.engine.backends_mut()[number].advance(at),
                    None => return Err(format!("target {}: its drive does not answer", target.name)),
                }
            }
        }
        self.book.registries.push(Registry { drive: number, settings, keep });
        Ok(())
    }

    /// Number of changes to the set of targets so far.
    pub(crate) fn target_changes(&self) -> u64 {
        self.book.changes
    }

    /// Marks a namespace as used by a connection, until [`Core::release`].
    pub(crate) fn hold(&mut self, connection: ConnectionId, namespace: usize) {
        self.book.holders.insert((connection, namespace));
    }

    /// Marks a namespace as used by a connection, and logs this.
    pub(crate) fn attach_to(&mut self, connection: ConnectionId, namespace: usize) {
        self.hold(connection, namespace);
        let drive = self.namespaces[namespace].name.clone();
        self.logbook.events.push(Event::Attached { by: User::Connection(connection), drive });
    }

    /// Releases the namespaces of a removed connection.
    pub(crate) fn release(&mut self, connection: ConnectionId) {
        let mut held = self.book.holders.split_off(&(connection, 0));
        self.book.holders.append(&mut held.split_off(&(connection, usize::MAX)));
        for (_, namespace) in held {
            let drive = self.namespaces[namespace].name.clone();
            self.logbook.events.push(Event::Detached { by: User::Connection(connection), drive });
        }
        self.book.waiting.retain(|waiting| waiting.connection != connection);
        self.stop_waiting(connection);
    }

    fn held_by(&self, namespace: usize) -> usize {
        self.book.holders.iter().filter(|(_, held)| *held == namespace).count()
    }

    /// Begins to create a target for `connection`, which learns the result from [`Core::outcome`].
    ///
    /// # Errors
    /// Returns one sentence if the target cannot be created.
    pub(crate) fn create_target(
        &mut self,
        connection: ConnectionId,
        drive: usize,
        target: Target,
    ) -> Result<(), String> {
        let registry = self.book.registries.iter().find(|registry| registry.drive == drive);
        let settings = registry.map_or_else(HostFtlConfig::default, |registry| registry.settings.clone());
        let namespace = self.reserve(drive, target, &settings)?;
        self.book.waiting.push(Waiting { connection, namespace, outcome: None });
        Ok(())
    }

    /// Begins to remove a target; the result is reported as in [`Core::create_target`].
    pub(crate) fn remove_target(
        &mut self,
        connection: ConnectionId,
        drive: usize,
        name: &str,
    ) -> Result<(), String> {
        let none = || format!("{name}: no such target; there are none");
        let shared = self.engine.backends()[drive].shared().ok_or_else(none)?;
        shared.targets().get(name).map_err(|error| error.to_string())?;
        let number = shared.find(name).map(|(number, _)| number);
        let found = number.and_then(|number| self.namespace_of(drive, number)).ok_or_else(none)?;
        match self.held_by(found) {
            0 => {}
            users => {
                return Err(format!(
                    "target {name}: {users} connections use it; allowed: to disconnect them first"
                ));
            }
        }
        self.submit_waiting();
        let shared = self.engine.backends_mut()[drive].shared_mut().ok_or_else(none)?;
        shared.remove(name).map_err(|error| error.to_string())?;
        self.namespaces[found].gone = true;
        self.book.changes += 1;
        self.book.waiting.push(Waiting { connection, namespace: found, outcome: None });
        Ok(())
    }

    /// Outcome of the target that `connection` waits for; `None` while it is pending.
    pub(crate) fn outcome(&mut self, connection: ConnectionId) -> Option<Result<(), String>> {
        if let Some(outcome) = self.detach_outcome(connection).or_else(|| self.pause_outcome(connection)) {
            return Some(outcome);
        }
        self.settle_targets();
        let at = self.book.waiting.iter().position(|w| w.connection == connection && w.outcome.is_some())?;
        self.book.waiting.swap_remove(at).outcome
    }

    fn namespace_of(&self, drive: usize, number: u16) -> Option<usize> {
        self.namespaces.iter().position(|n| n.drive == drive && n.number == number)
    }

    /// Begins to create a target, and reserves a hidden namespace for it.
    fn reserve(&mut self, drive: usize, target: Target, settings: &HostFtlConfig) -> Result<usize, String> {
        let name = format!("{}.{}", self.names[drive], target.name);
        if self.namespaces.iter().any(|n| !n.gone && n.name == name) {
            return Err(format!("{}: the name {name} is taken", target.name));
        }
        check_length(&name, &target.name)?;
        self.share(drive)?;
        let own_name = target.name.clone();
        let shared = self.engine.backends_mut()[drive].shared_mut().expect("it has just been made");
        let number = shared.create(target, settings).map_err(|error| error.to_string())?;
        let interface = shared.interface(number).expect("it has just been made");
        let like = TargetNamespace { drive, number, name, interface, target: own_name };
        let namespace = like.on(&self.engine.backends()[drive]);
        let operations = Operations { had: 0, strike: u64::MAX };
        let vacant = self
            .namespaces
            .iter()
            .enumerate()
            .position(|(at, n)| n.gone && n.number == u16::MAX && self.held_by(at) == 0);
        Ok(match vacant {
            Some(at) => {
                (self.namespaces[at], self.operations[at]) = (namespace, operations);
                at
            }
            None => {
                self.namespaces.push(namespace);
                self.operations.push(operations);
                self.namespaces.len() - 1
            }
        })
    }

    /// Converts a drive into one that can have targets.
    fn share(&mut self, drive: usize) -> Result<(), String> {
        self.submit_waiting();
        let (served, result) = match self.engine.backends_mut().remove(drive).into_shared() {
            Ok(shared) => (shared, Ok(())),
            Err((served, why)) => (served, Err(format!("{}: {why}", self.names[drive]))),
        };
        self.engine.backends_mut().insert(drive, served);
        result
    }

    /// Returns true if a target is starting or stopping.
    pub(crate) fn is_changing(&self) -> bool {
        self.engine.backends().iter().any(|drive| drive.shared().is_some_and(|shared| shared.is_changing()))
    }

    /// Handles targets that have started or stopped.
    pub(crate) fn settle_targets(&mut self) {
        for drive in 0..self.engine.backends().len() {
            if self.engine.backends()[drive].shared().is_some() {
                let _ = self.settle_targets_of(drive);
            }
        }
    }

    /// Handles targets of one drive; returns why a start failed, if one did.
    fn settle_targets_of(&mut self, drive: usize) -> Option<String> {
        let mut failure = None;
        while let Some(event) = self.engine.backends_mut()[drive].shared_mut()?.take_event() {
            let (number, why) = match event {
                TargetEvent::Ready(number) => (number, None),
                TargetEvent::Gone(number, ref why) => (number, why.clone()),
            };
            let namespace = self.namespace_of(drive, number).expect("a target has its namespace");
            let name = self.namespaces[namespace].name.clone();
            let is_ready = matches!(event, TargetEvent::Ready(_));
            self.namespaces[namespace].gone = !is_ready;
            if !is_ready {
                self.namespaces[namespace].number = u16::MAX;
                self.plan.remove(namespace);
            }
            self.book.changes += 1;
            let outcome = match &why {
                Some(why) => Err(why.clone()),
                None => self.keep(drive),
            };
            let (target, error) = (name, outcome.as_ref().err().cloned());
            self.logbook.events.push(match is_ready {
                true => Event::TargetReady { target, error },
                false => Event::TargetGone { target, error },
            });
            // A connection with an outcome no longer waits, although it may not have taken it yet.
            let waits = |w: &&mut Waiting| w.namespace == namespace && w.outcome.is_none();
            if let Some(waiting) = self.book.waiting.iter_mut().find(waits) {
                waiting.outcome = Some(outcome);
                self.hub.nudge(waiting.connection);
            }
            failure = failure.or(why);
        }
        failure
    }

    /// Stores the ready targets for the next start.
    fn keep(&mut self, drive: usize) -> Result<(), String> {
        let Some(shared) = self.engine.backends()[drive].shared() else { return Ok(()) };
        let mut ready = shared.targets().clone();
        for target in shared.targets().list() {
            if shared.find(&target.name).is_none_or(|(_, state)| state != TargetState::Ready) {
                let _ = ready.remove(&target.name);
            }
        }
        match self.book.registries.iter_mut().find(|registry| registry.drive == drive) {
            Some(registry) => (registry.keep)(&ready)
                .map_err(|error| format!("done, but it could not be kept for the next start: {error}")),
            None => Ok(()),
        }
    }

    /// Lists a drive's parallel units and their owners.
    pub(crate) fn targets(&self, drive: usize) -> Result<Value, String> {
        let geometry = match self.engine.backends()[drive].shared() {
            Some(shared) => Some(*shared.geometry()),
            None => {
                self.engine.backends()[drive].interfaces().iter().find_map(|(_, interface)| match interface {
                    Interface::OpenChannel(geometry) => Some(*geometry),
                    _ => None,
                })
            }
        };
        let none = || format!("{}: no open-channel namespace, so no parallel units", self.names[drive]);
        let geometry = geometry.ok_or_else(none)?;
        let listed = self.engine.backends()[drive].shared().map_or(&[][..], |shared| shared.targets().list());
        let targets = listed.iter().map(|target| self.target(drive, target));
        Ok(json!({
            "drive": self.names[drive],
            "groups": geometry.groups,
            "units_per_group": geometry.units,
            "chunks": geometry.chunks,
            "chunk_sectors": geometry.chunk_sectors,
            "sector_bytes": geometry.sector_bytes,
            "targets": targets.collect::<Vec<Value>>(),
        }))
    }

    fn target(&self, drive: usize, target: &Target) -> Value {
        let found = self.engine.backends()[drive].shared().and_then(|shared| shared.find(&target.name));
        let namespace = found.and_then(|(number, _)| self.namespace_of(drive, number));
        json!({
            "name": target.name,
            "kind": target.kind.name(),
            "first_unit": target.units.start,
            "units": target.units.len(),
            "state": found.map(|(_, state)| state.name()),
            "namespace": namespace.map(|at| self.namespaces[at].name.clone()),
            "bytes": namespace.map(|at| match self.namespaces[at].interface {
                Interface::OpenChannel(c) =>
                    u64::from(c.parallel_units()) * u64::from(c.chunks) * u64::from(c.chunk_sectors) * u64::from(c.sector_bytes),
                _ => self.namespaces[at].bytes(),
            }),
            "connections": namespace.map(|at| self.held_by(at)),
        })
    }

    /// Drive of a request, by the name of a namespace or of the drive itself.
    pub(crate) fn drive_named(&self, name: Option<&str>) -> Result<usize, String> {
        match name.and_then(|name| self.names.iter().position(|drive| drive == name)) {
            Some(drive) => Ok(drive),
            None => Ok(self.namespaces[self.namespace_named(name)?].drive),
        }
    }

    /// Namespace of a request, by its own name, or the first one of the drive with this name. Without a name
    /// there must be only one drive, so that damage does not hit an arbitrary one.
    pub(crate) fn namespace_named(&self, name: Option<&str>) -> Result<usize, String> {
        let there = || self.namespaces.iter().enumerate().filter(|(_, namespace)| !namespace.gone);
        let names = || there().map(|(_, namespace)| namespace.name.as_str()).collect::<Vec<_>>().join(", ");
        let Some(name) = name else {
            let one = there().all(|(_, namespace)| namespace.drive == self.namespaces[0].drive);
            let several = || format!("drive: there are several; allowed: one of {}", names());
            return if one { Ok(0) } else { Err(several()) };
        };
        let drive = self.names.iter().position(|drive| drive == name);
        let found = there().find(|(_, namespace)| namespace.name == name);
        let found = found.or_else(|| there().find(|(_, namespace)| Some(namespace.drive) == drive));
        found.map(|(index, _)| index).ok_or_else(|| format!("drive: {name:?}; allowed: {}", names()))
    }
}

/// Properties of a target's namespace.
struct TargetNamespace {
    drive: usize,
    number: u16,
    name: String,
    interface: Interface,
    target: String,
}

impl TargetNamespace {
    fn on(self, served: &Served) -> Namespace {
        let TargetNamespace { drive, number, name, interface, target } = self;
        let [sector_bytes, unit_bytes, superpage_bytes] = served.sizes(number);
        Namespace {
            name,
            drive,
            number,
            interface,
            sectors: interface.address_sectors(),
            sector_bytes,
            unit_bytes,
            superpage_bytes,
            keeps: served.keeps(number),
            target: Some(target),
            gone: true,
        }
    }
}
