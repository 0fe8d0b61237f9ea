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

use super::Core;
use crate::drive::Served;
use crate::event::Event;
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
pub(super) fn check_length(full_name: &str, target: &str) -> Result<(), String> {
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

impl TargetBook {
    /// Number of changes to the set of targets so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Counts a change that has been made at once.
    pub fn changed_once(&mut self) {
        self.changes += 1;
    }

    /// Marks a namespace as used by a connection.
    pub fn hold(&mut self, connection: ConnectionId, namespace: usize) {
        self.holders.insert((connection, namespace));
    }

    /// Releases the namespaces of a removed connection, which no longer waits; returns them.
    pub fn release(&mut self, connection: ConnectionId) -> Vec<usize> {
        self.waiting.retain(|waiting| waiting.connection != connection);
        let mut held = self.holders.split_off(&(connection, 0));
        self.holders.append(&mut held.split_off(&(connection, usize::MAX)));
        held.into_iter().map(|(_, namespace)| namespace).collect()
    }

    /// Number of connections that use a namespace.
    pub fn held_by(&self, namespace: usize) -> usize {
        self.holders.iter().filter(|(_, held)| *held == namespace).count()
    }

    /// Lets a connection wait for the target of a namespace.
    fn wait(&mut self, connection: ConnectionId, namespace: usize) {
        self.waiting.push(Waiting { connection, namespace, outcome: None });
    }

    /// Notes how the target of a namespace changed; returns the connection that waits for it. One with an outcome no longer waits,
    /// although it may not have taken it yet.
    fn changed(&mut self, namespace: usize, outcome: Result<(), String>) -> Option<ConnectionId> {
        let waits = |w: &&mut Waiting| w.namespace == namespace && w.outcome.is_none();
        let waiting = self.waiting.iter_mut().find(waits)?;
        waiting.outcome = Some(outcome);
        Some(waiting.connection)
    }

    /// Takes the outcome that a connection waits for.
    fn take_outcome(&mut self, connection: ConnectionId) -> Option<Result<(), String>> {
        let at = self.waiting.iter().position(|w| w.connection == connection && w.outcome.is_some())?;
        self.waiting.swap_remove(at).outcome
    }

    /// Settings for the targets of a drive.
    fn settings(&self, drive: usize) -> HostFtlConfig {
        let registry = self.registries.iter().find(|registry| registry.drive == drive);
        registry.map_or_else(HostFtlConfig::default, |registry| registry.settings.clone())
    }
}

/// See [`Core::keep_targets`].
pub(super) fn keep_all(
    core: &mut Core,
    drive: &str,
    settings: HostFtlConfig,
    targets: &Targets,
    keep: KeepTargets,
) -> Result<(), String> {
    let number = core.register.drive(drive);
    let number = number.ok_or_else(|| format!("drive: {drive:?}: not served"))?;
    for target in targets.list() {
        let namespace = reserve(core, number, target.clone(), &settings)?;
        loop {
            if let Some(why) = settle_of(core, number) {
                return Err(format!("target {}: {why}", target.name));
            }
            if !core.register.get(namespace).gone {
                break;
            }
            match core.desk.engine.backends()[number].next_event() {
                Some(at) => core.drive_mut(number).advance(at),
                None => return Err(format!("target {}: its drive does not answer", target.name)),
            }
        }
    }
    core.book.registries.push(Registry { drive: number, settings, keep });
    Ok(())
}

/// Begins to create a target for `connection`, which learns the result from [`outcome`].
///
/// # Errors
/// Returns one sentence if the target cannot be created.
pub(super) fn create(
    core: &mut Core,
    connection: ConnectionId,
    drive: usize,
    target: Target,
) -> Result<(), String> {
    let settings = core.book.settings(drive);
    let namespace = reserve(core, drive, target, &settings)?;
    core.book.wait(connection, namespace);
    Ok(())
}

/// Begins to remove a target; the result is reported as in [`create`].
pub(super) fn remove(
    core: &mut Core,
    connection: ConnectionId,
    drive: usize,
    name: &str,
) -> Result<(), String> {
    let none = || format!("{name}: no such target; allowed: none");
    let shared = core.desk.engine.backends()[drive].shared().ok_or_else(none)?;
    shared.targets().get(name).map_err(|error| error.to_string())?;
    let number = shared.find(name).map(|(number, _)| number);
    let found = number.and_then(|number| core.register.on_drive(drive, number)).ok_or_else(none)?;
    match core.book.held_by(found) {
        0 => {}
        users => {
            return Err(format!(
                "target {name}: {users} connections use it; allowed: to disconnect them first"
            ));
        }
    }
    core.submit_waiting();
    let shared = core.drive_mut(drive).shared_mut().ok_or_else(none)?;
    shared.remove(name).map_err(|error| error.to_string())?;
    core.register.hide(found);
    core.book.changes += 1;
    core.book.wait(connection, found);
    Ok(())
}

/// Outcome of the target that `connection` waits for; `None` while it is pending.
pub(super) fn outcome(core: &mut Core, connection: ConnectionId) -> Option<Result<(), String>> {
    settle(core);
    core.book.take_outcome(connection)
}

/// Begins to create a target, and reserves a hidden namespace for it.
fn reserve(core: &mut Core, drive: usize, target: Target, settings: &HostFtlConfig) -> Result<usize, String> {
    let name = format!("{}.{}", core.register.name(drive), target.name);
    if core.register.present().any(|n| n.name == name) {
        return Err(format!("{}: the name {name} is taken; allowed: another name", target.name));
    }
    check_length(&name, &target.name)?;
    share(core, drive)?;
    let own_name = target.name.clone();
    let shared = core.drive_mut(drive).shared_mut().expect("it has just been made");
    let number = shared.create(target, settings).map_err(|error| error.to_string())?;
    let interface = shared.interface(number).expect("it has just been made");
    let like = TargetNamespace { drive, number, name, interface, target: own_name };
    let namespace = like.on(&core.desk.engine.backends()[drive]);
    let Core { register, book, .. } = core;
    Ok(register.reserve(namespace, |at| book.held_by(at) > 0))
}

/// Converts a drive into one that can have targets.
fn share(core: &mut Core, drive: usize) -> Result<(), String> {
    core.submit_waiting();
    let (served, result) = match core.desk.engine.backends_mut().remove(drive).into_shared() {
        Ok(shared) => (shared, Ok(())),
        Err((served, why)) => {
            let name = core.register.name(drive);
            (served, Err(format!("{name}: {why}; allowed: a drive whose parallel units are free")))
        }
    };
    core.desk.engine.backends_mut().insert(drive, served);
    result
}

/// Returns true if a target is starting or stopping.
pub(super) fn is_changing(core: &Core) -> bool {
    let backends = core.desk.engine.backends();
    backends.iter().any(|drive| drive.shared().is_some_and(|shared| shared.is_changing()))
}

/// Handles targets that have started or stopped.
pub(super) fn settle(core: &mut Core) {
    for drive in 0..core.desk.engine.backends().len() {
        if core.desk.engine.backends()[drive].shared().is_some() {
            let _ = settle_of(core, drive);
        }
    }
}

/// Handles targets of one drive; returns why a start failed, if one did.
fn settle_of(core: &mut Core, drive: usize) -> Option<String> {
    let mut failure = None;
    while let Some(event) = core.drive_mut(drive).shared_mut()?.take_event() {
        let (number, why) = match event {
            TargetEvent::Ready(number) => (number, None),
            TargetEvent::Gone(number, ref why) => (number, why.clone()),
        };
        let namespace = core.register.on_drive(drive, number).expect("a target has its namespace");
        let target = core.register.get(namespace).name.clone();
        let is_ready = matches!(event, TargetEvent::Ready(_));
        if is_ready {
            core.register.show(namespace);
        } else {
            core.register.give_up(namespace);
            core.plan.remove(namespace);
        }
        core.book.changes += 1;
        let outcome = match &why {
            Some(why) => Err(why.clone()),
            None => keep(core, drive),
        };
        let error = outcome.as_ref().err().cloned();
        core.log(match is_ready {
            true => Event::TargetReady { target, error },
            false => Event::TargetGone { target, error },
        });
        if let Some(connection) = core.book.changed(namespace, outcome) {
            core.desk.hub.nudge(connection);
        }
        failure = failure.or(why);
    }
    failure
}

/// Stores the ready targets for the next start.
fn keep(core: &mut Core, drive: usize) -> Result<(), String> {
    let Some(shared) = core.desk.engine.backends()[drive].shared() else { return Ok(()) };
    let mut ready = shared.targets().clone();
    for target in shared.targets().list() {
        if shared.find(&target.name).is_none_or(|(_, state)| state != TargetState::Ready) {
            let _ = ready.remove(&target.name);
        }
    }
    match core.book.registries.iter_mut().find(|registry| registry.drive == drive) {
        Some(registry) => (registry.keep)(&ready)
            .map_err(|error| format!("done, but it could not be kept for the next start: {error}")),
        None => Ok(()),
    }
}

/// Lists a drive's parallel units and their owners.
pub(super) fn list(core: &Core, drive: usize) -> Result<Value, String> {
    let served = &core.desk.engine.backends()[drive];
    let geometry = match served.shared() {
        Some(shared) => Some(*shared.geometry()),
        None => served.interfaces().iter().find_map(|(_, interface)| match interface {
            Interface::OpenChannel(geometry) => Some(*geometry),
            _ => None,
        }),
    };
    let name = core.register.name(drive);
    let none = || format!("{name}: no open-channel namespace, so no parallel units");
    let geometry = geometry.ok_or_else(none)?;
    let listed = served.shared().map_or(&[][..], |shared| shared.targets().list());
    let targets = listed.iter().map(|target| describe(core, drive, target));
    Ok(json!({
        "drive": name,
        "groups": geometry.groups,
        "units_per_group": geometry.units,
        "chunks": geometry.chunks,
        "chunk_sectors": geometry.chunk_sectors,
        "sector_bytes": geometry.sector_bytes,
        "targets": targets.collect::<Vec<Value>>(),
    }))
}

fn describe(core: &Core, drive: usize, target: &Target) -> Value {
    let found = core.desk.engine.backends()[drive].shared().and_then(|shared| shared.find(&target.name));
    let at = found.and_then(|(number, _)| core.register.on_drive(drive, number));
    let namespace = at.map(|at| core.register.get(at));
    json!({
        "name": target.name,
        "kind": target.kind.name(),
        "first_unit": target.units.start,
        "units": target.units.len(),
        "state": found.map(|(_, state)| state.name()),
        "namespace": namespace.map(|namespace| namespace.name.clone()),
        "bytes": namespace.map(|namespace| match namespace.interface {
            Interface::OpenChannel(c) =>
                u64::from(c.parallel_units()) * u64::from(c.chunks) * u64::from(c.chunk_sectors) * u64::from(c.sector_bytes),
            _ => namespace.bytes(),
        }),
        "connections": at.map(|at| core.book.held_by(at)),
    })
}

/// Properties of the namespace of a target, or of an application.
pub(super) struct TargetNamespace {
    pub drive: usize,
    pub number: u16,
    pub name: String,
    pub interface: Interface,
    pub target: String,
}

impl TargetNamespace {
    /// The namespace on its drive, hidden.
    pub fn on(self, served: &Served) -> Namespace {
        let TargetNamespace { drive, number, name, interface, target } = self;
        let [sector_bytes, unit_bytes, superpage_bytes] = served.namespace(number).sizes();
        Namespace {
            name,
            drive,
            number,
            interface,
            sectors: interface.address_sectors(),
            sector_bytes,
            unit_bytes,
            superpage_bytes,
            keeps: served.namespace(number).keeps(),
            target: Some(target),
            gone: true,
        }
    }
}
