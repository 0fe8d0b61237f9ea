//! Connect: turns a connection into a queue (Base 6.3).
//!
//! Invariants: a refused Connect changes nothing and ends the connection; if a subsystem has secrets, every
//! queue must authenticate before use.

use super::core::Core;
use super::member::Role;
use crate::connection::Close;
use crate::nvme::controller::{Controller, Kind};
use crate::nvme::dhchap::Authentication;
use crate::nvme::io::Volume;
use crate::nvme::{QUEUE_ENTRIES_MAX, Target, identify};
use crate::session::Port;
use pellucid_flash::Interface;
use pellucid_wire::nvme::{
    Connect, ConnectData, ConnectReply, ConnectRequirements, DISCOVERY_NQN, DYNAMIC_CONTROLLER,
    STATIC_CONTROLLER_ANY, Status, SubmissionEntry, parse_nqn,
};
use std::rc::Rc;

/// Status and result of a Connect that is refused.
type Refused = (Status, u64);

/// Handles a Connect whose data have arrived.
pub(super) fn execute(
    core: &mut Core,
    index: u16,
    entry: &SubmissionEntry,
    data: &[u8],
    port: &mut Port<'_>,
) {
    core.slots.free(index);
    let connected = match data.first_chunk() {
        // The host sent several before the data of the first.
        _ if core.member.role() != Role::Unconnected => {
            Err((Status::COMMAND_SEQUENCE_ERROR.do_not_retry(), 0))
        }
        Some(data) => connect(core, entry, &ConnectData::decode(data), port),
        None => Err((Status::SGL_DATA_LENGTH_INVALID.do_not_retry(), 0)),
    };
    let (status, result) = match connected {
        Ok(id) => {
            let authentication = core.member.authenticates();
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
    core.link.respond_to_connect(entry.cid(), status, result, port);
}

fn invalid<T>(result: u64) -> Result<T, Refused> {
    Err((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), result))
}

/// Turns this connection into a queue (Base 6.3). Returns the controller's identifier.
fn connect(
    core: &mut Core,
    entry: &SubmissionEntry,
    data: &ConnectData,
    port: &mut Port<'_>,
) -> Result<u16, Refused> {
    let arguments = Connect::parse(entry)?;
    if arguments.queue_entries > QUEUE_ENTRIES_MAX {
        return invalid(ConnectReply::invalid_in_command(44));
    }
    let Ok(host_nqn) = parse_nqn(&data.host_nqn) else {
        return invalid(ConnectReply::invalid_in_data(512));
    };
    check_peer(core, host_nqn, data)?;
    let target = Rc::clone(&core.target);
    let target = &mut *target.borrow_mut();
    target.follow_targets(port);
    let kind = kind_of(target, host_nqn, data)?;
    let id = match arguments.queue_id {
        0 => {
            check_alone(target, kind, host_nqn, data, port)?;
            let id = connect_admin(core, target, kind, host_nqn, data, &arguments, port)?;
            if let Some((controller, Some(subsystem))) = target.get(id) {
                let zoned = identify::has_zones(subsystem, port);
                let cuts = subsystem.power_cuts(port);
                controller.begin_watch(zoned, subsystem.notices_seen, subsystem.zone_changes, cuts);
            }
            id
        }
        queue => connect_io(core, target, kind, host_nqn, data, queue, port)?,
    };
    core.link.begin(arguments.queue_entries as u16, !arguments.flow_control_disabled());
    if let Kind::Io(subsystem) = kind {
        let config = &target.subsystems[subsystem].config;
        let volumes = config.namespaces.iter().map(|&number| volume(number, port)).collect();
        config.namespaces.iter().for_each(|&number| port.hold(number));
        let secrets = config.secrets.get(host_nqn);
        let authentication =
            secrets.map(|secrets| Box::new(Authentication::new(secrets.clone(), host_nqn, &config.nqn)));
        core.member.enter(volumes, authentication, target.subsystems[subsystem].traffic());
    }
    Ok(id)
}

/// Checks the identity that TLS has proved, which is for one host and one subsystem; a peer cannot act as another host or use
/// another subsystem.
fn check_peer(core: &Core, host_nqn: &str, data: &ConnectData) -> Result<(), Refused> {
    let Some(peer) = core.member.peer() else { return Ok(()) };
    let peer = peer.get().ok_or((Status::CONNECT_INVALID_HOST.do_not_retry(), 0))?;
    if peer.host != host_nqn {
        return Err((Status::CONNECT_INVALID_HOST.do_not_retry(), 0));
    }
    if parse_nqn(&data.subsystem_nqn) != Ok(&peer.subsystem) {
        return invalid(ConnectReply::invalid_in_data(256));
    }
    Ok(())
}

/// Returns the kind of controller that the host asks for.
fn kind_of(target: &Target, host_nqn: &str, data: &ConnectData) -> Result<Kind, Refused> {
    match parse_nqn(&data.subsystem_nqn) {
        Ok(DISCOVERY_NQN) => Ok(Kind::Discovery),
        Ok(name) => match target.subsystems.iter().position(|s| !s.gone && s.config.nqn == name) {
            Some(subsystem) if target.subsystems[subsystem].admits(host_nqn) => Ok(Kind::Io(subsystem)),
            Some(_) => Err((Status::CONNECT_INVALID_HOST.do_not_retry(), 0)),
            None => invalid(ConnectReply::invalid_in_data(256)),
        },
        Err(_) => invalid(ConnectReply::invalid_in_data(256)),
    }
}

/// Namespaces whose host stores the map, the names or the cache have one host at a time, as do zones, which may be below a host FTL. Two
/// hosts would each take the other's chunks for free and overwrite them. A host that reconnects while its old connection is not known to be
/// dead is the same host; a host that comes back after another has connected is not admitted.
fn check_alone(
    target: &mut Target,
    kind: Kind,
    host_nqn: &str,
    data: &ConnectData,
    port: &Port<'_>,
) -> Result<(), Refused> {
    let Kind::Io(subsystem) = kind else { return Ok(()) };
    let is_alone = |&number: &usize| {
        matches!(
            port.namespaces()[number].interface,
            Interface::OpenChannel(_) | Interface::Nameless(_) | Interface::Cache(_) | Interface::Zoned(_)
        )
    };
    let is_another = |c: &Controller| c.kind == kind && (c.host_nqn != host_nqn || c.host_id != data.host_id);
    if !target.subsystems[subsystem].config.namespaces.iter().any(is_alone) {
        return Ok(());
    }
    let hosts = &mut target.subsystems[subsystem].hosts;
    let host = (host_nqn.to_owned(), data.host_id);
    if hosts.is_superseded(&host) {
        return Err((Status::CONNECT_INVALID_HOST.do_not_retry(), 0));
    }
    if target.controllers.values().any(is_another) {
        return Err((Status::CONNECT_CONTROLLER_BUSY.do_not_retry(), 0));
    }
    hosts.come(host);
    Ok(())
}

fn connect_admin(
    core: &mut Core,
    target: &mut Target,
    kind: Kind,
    host_nqn: &str,
    data: &ConnectData,
    arguments: &Connect,
    port: &mut Port<'_>,
) -> Result<u16, Refused> {
    if !matches!(data.controller_id, DYNAMIC_CONTROLLER | STATIC_CONTROLLER_ANY) {
        return invalid(ConnectReply::invalid_in_data(16));
    }
    let id = target.free_id().ok_or((Status::CONNECT_CONTROLLER_BUSY, 0))?;
    let host = (host_nqn.to_owned(), data.host_id);
    let mut controller = Controller::new(id, kind, host, port.connection(), port.now_ns());
    controller.set_keep_alive(arguments.keep_alive_ms);
    target.add(controller);
    core.member.become_admin(id);
    Ok(id)
}

fn connect_io(
    core: &mut Core,
    target: &mut Target,
    kind: Kind,
    host_nqn: &str,
    data: &ConnectData,
    queue: u16,
    port: &mut Port<'_>,
) -> Result<u16, Refused> {
    let same = |c: &&mut Controller| c.kind == kind && c.host_nqn == host_nqn && c.host_id == data.host_id;
    let Some(controller) = target.controllers.get_mut(&data.controller_id).filter(same) else {
        return invalid(ConnectReply::invalid_in_data(16));
    };
    if kind == Kind::Discovery || queue > controller.features.io_queues {
        return invalid(ConnectReply::invalid_in_command(42));
    }
    if !controller.is_ready() || controller.queue(queue).is_some() {
        return Err((Status::COMMAND_SEQUENCE_ERROR.do_not_retry(), 0));
    }
    controller.add_queue(queue, port.connection());
    core.intake.allow_long_capsules();
    core.member.become_io(controller.id, queue, &controller.gate);
    Ok(controller.id)
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
