//! The NVMe/TCP target: NVMe controllers whose queues are TCP connections.
//!
//! ```text
//!  Connection (one queue) ──┐                            ┌─ Subsystem: names, namespaces, allowed hosts, history
//!  Connection (one queue) ──┼─ Target: controllers by id ┤
//!  Connection (one queue) ──┘   (shared, one thread)     └─ Controller: CC/CSTS, features, events, errors, keep-alive
//! ```
//! [`Connection`] is a [`crate::session::Session`]: it demultiplexes PDUs and moves data. The commands are
//! handled in `io` (the path taken a million times a second, which touches no shared state), `admin`,
//! `identify`, `logs`, `features` and `discovery`. `dhchap` decides which hosts may use a queue; `tls`
//! encrypts the connection.
//!
//! Invariants: a controller lives exactly as long as its admin connection; the I/O path allocates nothing in
//! steady state; no input of a peer makes the target panic or exceed the limits below.

mod admin;
mod cache;
mod connection;
mod controller;
pub mod dhchap;
mod discovery;
mod effects;
mod fdp;
mod features;
mod history;
mod identify;
mod io;
mod logs;
mod nameless;
mod open_channel;
mod slots;
mod subsystem;
mod tls_key;
mod zns;

pub use connection::Connection;
pub use dhchap::{DhGroup, HostSecrets};
pub use io::status as host_status;
pub use subsystem::{ConfigError, SubsystemConfig};
pub use tls_key::{Identity, KeyHash, Peer, TlsKey, TlsKeys};

use crate::connection::ConnectionId;
use crate::session::Port;
use controller::{Controller, Kind};
use pellucid_wire::nvme::{AsyncEvent, AsyncEventConfig};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use subsystem::Subsystem;

/// Pages of 4 KiB in one transfer, as a power of two (MDTS).
const TRANSFER_MAX_SHIFT: u8 = 6;
/// Maximum data of one command: 256 KiB.
pub const TRANSFER_BYTES_MAX: u32 = 4096 << TRANSFER_MAX_SHIFT;
/// Maximum data in a command capsule of an I/O queue; saves the round trip of an R2T.
pub const IN_CAPSULE_BYTES_MAX: u32 = 16 << 10;
/// Maximum number of entries of a queue.
pub const QUEUE_ENTRIES_MAX: u32 = 1024;
/// Maximum number of I/O queues of one controller.
pub const IO_QUEUES_MAX: u16 = 64;
/// Maximum data that one connection has requested (R2T) and not yet received.
const GRANTED_BYTES_MAX: usize = 1 << 20;
/// Maximum number of asynchronous event requests per controller.
const ASYNC_EVENTS_MAX: usize = 8;
/// Maximum number of concurrent aborts per controller.
const ABORTS_MAX: usize = 4;
/// Number of entries in a controller's error log.
const ERROR_ENTRIES_MAX: usize = 64;
/// Time limit for a connection to become a queue.
const CONNECT_TIMEOUT_NS: u64 = 10_000_000_000;
/// Time limit for a queue to authenticate, if it must.
const AUTHENTICATION_TIMEOUT_NS: u64 = 30_000_000_000;
/// Largest controller identifier (Base 3.1.3: FFF0h and above are reserved).
const CONTROLLER_ID_MAX: u16 = 0xFFEF;

/// All subsystems and controllers of a server. The accept closure passes it to every [`Connection`].
#[derive(Debug)]
pub struct Target {
    subsystems: Vec<Subsystem>,
    controllers: BTreeMap<u16, Controller>,
    last_id: u16,
    /// Number of target changes already applied.
    followed: u64,
}

/// Name of the subsystem of a target, on a drive whose subsystem is called `nqn`.
fn target_nqn(nqn: &str, target: &str) -> String {
    format!("{nqn}.{target}")
}

/// A [`Target`] shared by its connections.
pub type SharedTarget = Rc<RefCell<Target>>;

impl Target {
    /// Creates a target that offers these subsystems, beside the discovery subsystem.
    ///
    /// # Errors
    /// Fails for names that are not qualified or not unique, and for a subsystem without namespaces.
    pub fn new(subsystems: Vec<SubsystemConfig>) -> Result<SharedTarget, ConfigError> {
        subsystem::check(&subsystems)?;
        let subsystems = subsystems.into_iter().map(Subsystem::new).collect();
        Ok(Rc::new(RefCell::new(Target {
            subsystems,
            controllers: BTreeMap::new(),
            last_id: 0,
            followed: 0,
        })))
    }

    /// Gives each present target its own subsystem, which admits the same hosts as the subsystem of its
    /// drive. The subsystem of a removed target has no controllers left, because a target in use cannot be
    /// removed.
    fn follow_targets(&mut self, port: &Port<'_>) {
        if self.followed == port.target_changes() {
            return;
        }
        self.followed = port.target_changes();
        let namespaces = port.namespaces();
        for subsystem in self.subsystems.iter_mut().filter(|subsystem| subsystem.target.is_some()) {
            let is_there = |&n: &usize| !namespaces[n].gone && namespaces[n].target == subsystem.target;
            subsystem.gone = !subsystem.config.namespaces.iter().all(is_there);
        }
        for (number, namespace) in namespaces.iter().enumerate() {
            let Some(name) = namespace.target.as_ref().filter(|_| !namespace.gone) else { continue };
            let has_it = |s: &Subsystem| s.target.is_some() && !s.gone && s.config.namespaces == [number];
            if self.subsystems.iter().any(has_it) {
                continue;
            }
            let of_drive = |s: &&Subsystem| {
                let is_of_drive = |&n: &usize| namespaces[n].drive == namespace.drive;
                s.target.is_none()
                    && (s.config.divided == Some(namespace.drive)
                        || s.config.namespaces.iter().any(is_of_drive))
            };
            let Some(parent) = self.subsystems.iter().find(of_drive) else { continue };
            let nqn = target_nqn(&parent.config.nqn, name);
            let config =
                SubsystemConfig { nqn, namespaces: vec![number], divided: None, ..parent.config.clone() };
            let mut made = Subsystem::new(config);
            made.target = Some(name.clone());
            match self.subsystems.iter().position(|subsystem| subsystem.gone && subsystem.target.is_some()) {
                Some(vacant) => self.subsystems[vacant] = made,
                None => self.subsystems.push(made),
            }
        }
        for controller in self.controllers.values_mut().filter(|c| c.kind == Kind::Discovery) {
            if controller.features.async_events.wants(AsyncEventConfig::DISCOVERY_LOG) {
                controller.raise(AsyncEvent::DiscoveryLog);
            }
        }
    }

    /// Existing controllers: identifier, host name, subsystem name, number of I/O queues.
    pub fn controllers(&self) -> impl Iterator<Item = (u16, &str, &str, usize)> {
        self.controllers.values().map(|c| {
            let nqn = match c.kind {
                Kind::Discovery => pellucid_wire::nvme::DISCOVERY_NQN,
                Kind::Io(subsystem) => &self.subsystems[subsystem].config.nqn,
            };
            (c.id, c.host_nqn.as_str(), nqn, c.queue_count())
        })
    }

    /// Raises an event for the host of a controller; of a kind that it has not read yet, the host hears once.
    pub fn raise(&mut self, id: u16, event: AsyncEvent) {
        if let Some((controller, _)) = self.get(id) {
            controller.raise(event);
        }
    }

    /// Finds a controller and its subsystem.
    fn get(&mut self, id: u16) -> Option<(&mut Controller, Option<&mut Subsystem>)> {
        let controller = self.controllers.get_mut(&id)?;
        let subsystem = match controller.kind {
            Kind::Io(index) => self.subsystems.get_mut(index),
            Kind::Discovery => None,
        };
        Some((controller, subsystem))
    }

    /// Adds a controller with an unused identifier.
    fn add(&mut self, controller: Controller) {
        self.last_id = controller.id;
        let before = self.controllers.insert(controller.id, controller);
        assert!(before.is_none(), "two controllers have one identifier");
    }

    /// Finds the next unused identifier, so that an old one is not reused soon.
    fn free_id(&self) -> Option<u16> {
        let after = |id: u16| if id >= CONTROLLER_ID_MAX { 1 } else { id + 1 };
        let mut id = after(self.last_id);
        for _ in 0..CONTROLLER_ID_MAX {
            if !self.controllers.contains_key(&id) {
                return Some(id);
            }
            id = after(id);
        }
        None
    }

    /// Removes the controller of a lost or closed admin connection, if it still exists; its I/O queues take
    /// no more commands. Returns their connections.
    fn remove(&mut self, id: u16, port: &mut Port<'_>) -> Vec<ConnectionId> {
        let Some(mut controller) = self.controllers.remove(&id) else { return Vec::new() };
        controller.gate.ready.set(false);
        if let Kind::Io(index) = controller.kind
            && let Some(subsystem) = self.subsystems.get_mut(index)
        {
            open_channel::forget_setter(subsystem, id, port);
        }
        controller.close_queues()
    }
}
