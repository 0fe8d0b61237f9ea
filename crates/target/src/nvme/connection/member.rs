//! Member: the queue and controller of a connection, and the authenticated identity of its host.
//!
//! ```text
//!   Unconnected ─Connect─► Admin | Io
//!   must authenticate ─► authenticated (an I/O queue gets its controller's gate) ─► authentication lost
//! ```
//! Invariant: a queue becomes a member once; an I/O queue that has to authenticate has a shut gate until it has.

use crate::nvme::controller::Gate;
use crate::nvme::dhchap::Authentication;
use crate::nvme::io::Volume;
use crate::nvme::subsystem::Traffic;
use crate::nvme::tls_key::Peer;
use crate::nvme::{AUTHENTICATION_TIMEOUT_NS, CONNECT_TIMEOUT_NS};
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Unconnected,
    Admin { controller: u16 },
    Io { controller: u16, queue: u16 },
}

/// Place of a connection in its target.
#[derive(Debug)]
pub(super) struct Member {
    local: SocketAddr,
    /// Identity that the host has proved through TLS, once it has; `None`: in the clear any host may connect.
    peer: Option<Rc<OnceCell<Peer>>>,
    role: Role,
    volumes: Vec<Volume>,
    gate: Rc<Gate>,
    /// Authentication state; `None`: the host need not authenticate.
    authentication: Option<Box<Authentication>>,
    /// Time when the connection was opened, or lost its authentication.
    opened_ns: u64,
    /// Commands arrived since the last tick.
    active: bool,
    traffic: Rc<Traffic>,
}

impl Member {
    pub fn new(local: SocketAddr, peer: Option<Rc<OnceCell<Peer>>>) -> Member {
        Member {
            local,
            peer,
            role: Role::Unconnected,
            volumes: Vec::new(),
            gate: Rc::default(),
            authentication: None,
            opened_ns: 0,
            active: false,
            traffic: Rc::default(),
        }
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the cell of the identity that TLS proves; `None` in the clear.
    pub fn peer(&self) -> Option<&OnceCell<Peer>> {
        self.peer.as_deref()
    }

    // ---- queue

    #[inline]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the controller whose admin queue this is.
    #[inline]
    pub fn admin_of(&self) -> Option<u16> {
        match self.role {
            Role::Admin { controller } => Some(controller),
            _ => None,
        }
    }

    /// Becomes the admin queue of a controller.
    pub fn become_admin(&mut self, controller: u16) {
        assert_eq!(self.role, Role::Unconnected, "a queue becomes a member twice");
        self.role = Role::Admin { controller };
    }

    /// Becomes an I/O queue of a controller.
    pub fn become_io(&mut self, controller: u16, queue: u16, gate: &Rc<Gate>) {
        assert_eq!(self.role, Role::Unconnected, "a queue becomes a member twice");
        self.role = Role::Io { controller, queue };
        self.gate = Rc::clone(gate);
    }

    /// Enters a subsystem, whose host may have to authenticate.
    pub fn enter(
        &mut self,
        volumes: Vec<Volume>,
        authentication: Option<Box<Authentication>>,
        traffic: Rc<Traffic>,
    ) {
        assert!(self.role != Role::Unconnected, "a connection enters a subsystem as a queue");
        (self.volumes, self.authentication, self.traffic) = (volumes, authentication, traffic);
        if self.authentication.is_some() {
            self.gate = Rc::default();
        }
    }

    #[inline]
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    #[inline]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    // ---- authentication

    /// Reports whether the host may authenticate.
    #[inline]
    pub fn authenticates(&self) -> bool {
        self.authentication.is_some()
    }

    /// Returns true if the queue is not authenticated, or no longer.
    #[inline]
    pub fn must_authenticate(&self) -> bool {
        self.authentication.as_ref().is_some_and(|authentication| !authentication.is_done())
    }

    /// Returns the state of the authentication, for a message.
    pub fn authentication(&mut self) -> Option<&mut Authentication> {
        self.authentication.as_deref_mut()
    }

    /// Opens the gate of an authenticated I/O queue, which is its controller's, or shuts it.
    pub fn set_gate(&mut self, gate: Option<&Rc<Gate>>) {
        assert!(matches!(self.role, Role::Io { .. }), "only I/O queues have gates");
        assert!(gate.is_none() || !self.must_authenticate(), "a gate opens before the authentication");
        self.gate = gate.map_or_else(Rc::default, Rc::clone);
    }

    /// Log text for a refused authentication: host, subsystem and reason.
    pub fn refused(&self, reason: &str) -> String {
        let (host, subsystem) = self.authentication.as_ref().map_or(("", ""), |a| a.names());
        format!("authentication of host {host} to {subsystem}: {reason}")
    }

    // ---- time

    /// Begins the time that the host has to connect, or to authenticate again.
    pub fn begin_time(&mut self, now_ns: u64) {
        self.opened_ns = now_ns;
    }

    /// Reports whether the host has taken too long to connect.
    pub fn is_late_to_connect(&self, now_ns: u64) -> bool {
        self.role == Role::Unconnected && now_ns.saturating_sub(self.opened_ns) > CONNECT_TIMEOUT_NS
    }

    /// Reports whether the host has taken too long to authenticate.
    pub fn is_late_to_authenticate(&self, now_ns: u64) -> bool {
        self.must_authenticate() && now_ns.saturating_sub(self.opened_ns) > AUTHENTICATION_TIMEOUT_NS
    }

    // ---- activity

    /// Notes that a command has arrived.
    #[inline]
    pub fn came(&mut self) {
        self.active = true;
    }

    /// Returns whether commands have arrived since the last call.
    pub fn take_active(&mut self) -> bool {
        std::mem::take(&mut self.active)
    }

    /// Counts host reads and writes.
    #[inline]
    pub fn count(&self, reads: bool, writes: bool) {
        self.traffic.count(reads, writes);
    }
}
