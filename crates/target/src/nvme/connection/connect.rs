//! Connect: turns a connection into a queue (Base 6.3).
//!
//! Invariants: a refused Connect changes nothing and ends the connection; if a subsystem has secrets, every
//! queue must authenticate before use.

use super::{Connection, Role};
use crate::connection::Close;
use crate::nvme::controller::{Controller, Kind};
use crate::nvme::dhchap::Authentication;
use crate::nvme::io::Volume;
use crate::nvme::{IN_CAPSULE_BYTES_MAX, QUEUE_ENTRIES_MAX, Target, identify};
use crate::session::Port;
use pellucid_wire::nvme::{
    Completion, Connect, ConnectData, ConnectReply, ConnectRequirements, DISCOVERY_NQN, DYNAMIC_CONTROLLER,
    STATIC_CONTROLLER_ANY, Status, SubmissionEntry, parse_nqn,
};
use pellucid_wire::tcp::HEADER_BYTES_MAX;
use std::rc::Rc;

impl Connection {
    pub(super) fn execute_connect(
        &mut self,
        index: u16,
        entry: &SubmissionEntry,
        data: &[u8],
        port: &mut Port<'_>,
    ) {
        self.slots.free(index);
        let connected = match data.first_chunk() {
            // The host sent several before the data of the first.
            _ if self.role != Role::Unconnected => Err((Status::COMMAND_SEQUENCE_ERROR.do_not_retry(), 0)),
            Some(data) => self.connect(entry, &ConnectData::decode(data), port),
            None => Err((Status::SGL_DATA_LENGTH_INVALID.do_not_retry(), 0)),
        };
        let (status, result) = match connected {
            Ok(id) => {
                let authentication = self.authentication.is_some();
                let requirements = ConnectRequirements { authentication, secure_channel: false };
                (Status::SUCCESS, ConnectReply::accepted(id, requirements))
            }
            Err(refused) => refused,
        };
        if !status.is_success() {
            // The response is still sent; the log names the rejected host.
            let me = port.connection();
            port.close(me, Close::Refused(format!("Connect of {}: {status}", names(data))));
        }
        let sq_head = if self.flow_control { self.sq_head } else { 0xFFFF };
        let completion = Completion { result, sq_head, cid: entry.cid(), status, ..Completion::default() };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.response(&completion, &mut out);
        port.output().head(&out[..length]);
    }

    /// Turns this connection into a queue (Base 6.3). Returns the controller's identifier.
    pub(super) fn connect(
        &mut self,
        entry: &SubmissionEntry,
        data: &ConnectData,
        port: &mut Port<'_>,
    ) -> Result<u16, (Status, u64)> {
        let arguments = Connect::parse(entry)?;
        let invalid = |result| Err((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), result));
        if arguments.queue_entries > QUEUE_ENTRIES_MAX {
            return invalid(ConnectReply::invalid_in_command(44));
        }
        let Ok(host_nqn) = parse_nqn(&data.host_nqn) else {
            return invalid(ConnectReply::invalid_in_data(512));
        };
        if let Some(peer) = &self.peer {
            // The TLS identity is for one host and one subsystem; a peer cannot act as another host or use
            // another subsystem.
            let peer = peer.get().ok_or((Status::CONNECT_INVALID_HOST.do_not_retry(), 0))?;
            if peer.host != host_nqn {
                return Err((Status::CONNECT_INVALID_HOST.do_not_retry(), 0));
            }
            if parse_nqn(&data.subsystem_nqn) != Ok(&peer.subsystem) {
                return invalid(ConnectReply::invalid_in_data(256));
            }
        }
        let target = Rc::clone(&self.target);
        let target = &mut *target.borrow_mut();
        target.follow_targets(port);
        let kind = match parse_nqn(&data.subsystem_nqn) {
            Ok(DISCOVERY_NQN) => Kind::Discovery,
            Ok(name) => match target.subsystems.iter().position(|s| !s.gone && s.config.nqn == name) {
                Some(subsystem) if target.subsystems[subsystem].admits(host_nqn) => Kind::Io(subsystem),
                Some(_) => return Err((Status::CONNECT_INVALID_HOST.do_not_retry(), 0)),
                None => return invalid(ConnectReply::invalid_in_data(256)),
            },
            Err(_) => return invalid(ConnectReply::invalid_in_data(256)),
        };
        let id = match arguments.queue_id {
            0 => {
                let id = self.connect_admin(target, kind, host_nqn, data, &arguments, port)?;
                if let Some((controller, Some(subsystem))) = target.get(id) {
                    controller.zoned = identify::has_zones(subsystem, port);
                    controller.notices_told = subsystem.notices_seen;
                    controller.zones_told = subsystem.zone_changes;
                }
                id
            }
            queue => self.connect_io(target, kind, host_nqn, data, queue, port)?,
        };
        self.queue_entries = arguments.queue_entries as u16;
        self.sq_head = 1 % self.queue_entries;
        self.flow_control = !arguments.flow_control_disabled();
        if let Kind::Io(subsystem) = kind {
            self.subsystem = subsystem;
            let namespaces = &target.subsystems[subsystem].config.namespaces;
            self.volumes = namespaces.iter().map(|&number| volume(number, port)).collect();
            namespaces.iter().for_each(|&number| port.hold(number));
            let config = &target.subsystems[subsystem].config;
            let secrets = config.secrets.get(host_nqn);
            self.authentication =
                secrets.map(|secrets| Box::new(Authentication::new(secrets.clone(), host_nqn, &config.nqn)));
            if self.authentication.is_some() {
                self.gate = Rc::default();
            }
        }
        Ok(id)
    }

    pub(super) fn connect_admin(
        &mut self,
        target: &mut Target,
        kind: Kind,
        host_nqn: &str,
        data: &ConnectData,
        arguments: &Connect,
        port: &mut Port<'_>,
    ) -> Result<u16, (Status, u64)> {
        if !matches!(data.controller_id, DYNAMIC_CONTROLLER | STATIC_CONTROLLER_ANY) {
            let result = ConnectReply::invalid_in_data(16);
            return Err((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), result));
        }
        let id = target.free_id().ok_or((Status::CONNECT_CONTROLLER_BUSY, 0))?;
        let host = (host_nqn.to_owned(), data.host_id);
        let mut controller = Controller::new(id, kind, host, port.connection(), port.now_ns());
        controller.features.keep_alive_ms = arguments.keep_alive_ms;
        target.last_id = id;
        target.controllers.insert(id, controller);
        self.role = Role::Admin { controller: id };
        Ok(id)
    }

    pub(super) fn connect_io(
        &mut self,
        target: &mut Target,
        kind: Kind,
        host_nqn: &str,
        data: &ConnectData,
        queue: u16,
        port: &mut Port<'_>,
    ) -> Result<u16, (Status, u64)> {
        let invalid = |result| (Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), result);
        let same =
            |c: &&mut Controller| c.kind == kind && c.host_nqn == host_nqn && c.host_id == data.host_id;
        let controller = target.controllers.get_mut(&data.controller_id).filter(same);
        let controller = controller.ok_or(invalid(ConnectReply::invalid_in_data(16)))?;
        if kind == Kind::Discovery || queue > controller.features.io_queues {
            return Err(invalid(ConnectReply::invalid_in_command(42)));
        }
        if !controller.is_ready() || controller.queues.contains_key(&queue) {
            return Err((Status::COMMAND_SEQUENCE_ERROR.do_not_retry(), 0));
        }
        controller.queues.insert(queue, port.connection());
        self.gate = Rc::clone(&controller.gate);
        self.decoder.set_in_capsule_max(IN_CAPSULE_BYTES_MAX);
        self.role = Role::Io { controller: controller.id, queue };
        Ok(controller.id)
    }
}

/// Host and subsystem of a Connect command, for the log.
fn names(data: &[u8]) -> String {
    let Some(data) = data.first_chunk().map(ConnectData::decode) else { return "nobody".to_owned() };
    let host = parse_nqn(&data.host_nqn).unwrap_or("(no name)");
    format!("host {host} to {}", parse_nqn(&data.subsystem_nqn).unwrap_or("(no name)"))
}

fn volume(number: usize, port: &Port<'_>) -> Volume {
    let namespace = &port.namespaces()[number];
    Volume {
        number,
        sectors: namespace.sectors,
        sector_bytes: namespace.sector_bytes,
        keeps: namespace.keeps,
        set: namespace.interface,
    }
}
