//! Admin and fabrics commands of a connected controller (Base 5, 6).
//!
//! The connection has already moved the data. This module executes the command, or returns the connection's
//! next step.

use super::controller::{Change, Controller};
use super::subsystem::Subsystem;
use super::{TRANSFER_BYTES_MAX, fdp, features, identify, logs, open_channel};
use crate::session::Port;
use pellucid_flash::Interface;
use pellucid_wire::nvme::open_channel::GEOMETRY_OPCODE;
use pellucid_wire::nvme::{
    AdminOpcode, AsyncEvent, AsyncEventConfig, BROADCAST_NSID, FABRICS_OPCODE, FabricsType, GetLogPage,
    PropertyGet, PropertySet, Status, SubmissionEntry, ascii,
};

/// Result of a command, or the next step.
#[derive(Debug)]
pub(super) enum Reply {
    /// The command is done, with this completion result.
    Done(u64),
    /// The command is done, with these data and this completion result.
    Data(Vec<u8>, u64),
    /// The command is answered later.
    Later,
    /// The asynchronous event request with this identifier was aborted; both commands are done.
    AbortedRequest(u16),
    /// The I/O queues must be closed before the command is done.
    Reset,
    /// The drives must be flushed. The command itself is done.
    Shutdown,
    /// The drives must be flushed before the command is done.
    Flush,
    /// Everything in the namespaces from `first` to `last` must be discarded.
    Format { first: u32, last: u32 },
}

impl Reply {
    /// Returns data with a completion result of 0.
    pub fn of(data: Vec<u8>) -> Reply {
        Reply::Data(data, 0)
    }
}

/// Bytes of data that a command takes from the host.
pub(super) fn data_bytes(entry: &SubmissionEntry) -> u32 {
    match AdminOpcode::from_raw(entry.opcode()) {
        Some(AdminOpcode::SetFeatures) => features::data_bytes(entry),
        _ => 0,
    }
}

/// Lets the firmware of the drives concerned pay for a command of the admin queue (`drive.firmware.admin`): that of the namespace that
/// it names, else each drive of the subsystem. Fabrics commands and keep-alives are the transport's, and cost nothing.
pub(super) fn take_processor_time(subsystem: &Subsystem, entry: &SubmissionEntry, port: &mut Port<'_>) {
    if entry.opcode() == FABRICS_OPCODE || entry.opcode() == AdminOpcode::KeepAlive.raw() {
        return;
    }
    let concerned = match subsystem.namespace(entry.nsid()) {
        Some(namespace) => vec![namespace],
        None => logs::first_namespaces(subsystem, port),
    };
    concerned.into_iter().for_each(|namespace| port.handle_admin(namespace));
}

/// Executes a command of the admin queue; `subsystem` is `None` on a discovery controller.
pub(super) fn execute(
    controller: &mut Controller,
    subsystem: Option<&mut Subsystem>,
    entry: &SubmissionEntry,
    data: &[u8],
    port: &mut Port<'_>,
) -> Result<Reply, Status> {
    if entry.fuse() != 0 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    if entry.opcode() == FABRICS_OPCODE {
        return fabrics(controller, subsystem, entry, port);
    }
    if entry.opcode() == GEOMETRY_OPCODE && controller.is_ready() {
        return geometry(subsystem.as_deref(), entry, port);
    }
    let opcode = AdminOpcode::from_raw(entry.opcode()).ok_or(Status::INVALID_OPCODE.do_not_retry())?;
    if opcode == AdminOpcode::KeepAlive {
        return Ok(Reply::Done(0));
    }
    if !controller.is_ready() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
    }
    match opcode {
        AdminOpcode::Identify => {
            let page = identify::page(controller, subsystem.as_deref(), entry, port)?;
            Ok(Reply::of(page.to_vec()))
        }
        AdminOpcode::GetFeatures => Ok(match features::get(controller, subsystem.as_deref(), entry, port)? {
            features::Value::Word(word) => Reply::Done(word.into()),
            features::Value::Data(bytes) => Reply::of(bytes),
            features::Value::List(bytes, entries) => Reply::Data(bytes, entries),
        }),
        AdminOpcode::SetFeatures => {
            let word = features::set(controller, subsystem, entry, data, port)?;
            // A host that has switched off the cache no longer flushes earlier writes.
            Ok(if features::cache_is_off(entry) { Reply::Flush } else { Reply::Done(word.into()) })
        }
        AdminOpcode::AsyncEventRequest => controller.request_event(entry.cid()).map(|()| Reply::Later),
        AdminOpcode::Abort => abort(controller, entry, port),
        AdminOpcode::GetLogPage => {
            let arguments = log_arguments(entry)?;
            let subsystem = subsystem.ok_or(Status::INVALID_LOG_PAGE.do_not_retry())?;
            logs::get(controller, subsystem, &arguments, entry.nsid(), port).map(Reply::of)
        }
        AdminOpcode::FormatNvm => format(controller, subsystem, entry, port),
        AdminOpcode::DirectiveReceive | AdminOpcode::DirectiveSend => {
            let placed = |subsystem: &&mut Subsystem| identify::endurance_groups(subsystem, port) > 0;
            let subsystem = subsystem.filter(placed).ok_or(Status::INVALID_OPCODE.do_not_retry())?;
            match opcode {
                AdminOpcode::DirectiveReceive => fdp::directives(subsystem, entry, port).map(Reply::of),
                _ => Err(Status::INVALID_FIELD.do_not_retry()),
            }
        }
        _ => Err(Status::INVALID_OPCODE.do_not_retry()),
    }
}

fn geometry(
    subsystem: Option<&Subsystem>,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<Reply, Status> {
    let subsystem = subsystem.ok_or(Status::INVALID_OPCODE.do_not_retry())?;
    let namespace = subsystem.namespace(entry.nsid()).ok_or(Status::INVALID_NAMESPACE.do_not_retry())?;
    match port.namespaces()[namespace].interface {
        Interface::OpenChannel(chunks) => {
            let number = port.namespaces()[namespace].number;
            // A target on part of the chunks reports no wear.
            let threshold =
                port.device(namespace).map_or(0, |device| device.namespace(number).wear_threshold());
            Ok(Reply::of(open_channel::geometry(&chunks, threshold).encode().to_vec()))
        }
        _ => Err(Status::INVALID_OPCODE.do_not_retry()),
    }
}

/// Handles Get Log Page of a discovery controller.
pub(super) fn discovery_log(
    controller: &mut Controller,
    offered: &logs::Offered<'_>,
    entry: &SubmissionEntry,
) -> Result<Vec<u8>, Status> {
    if !controller.is_ready() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
    }
    logs::get_discovery(controller, offered, &log_arguments(entry)?)
}

fn log_arguments(entry: &SubmissionEntry) -> Result<GetLogPage, Status> {
    let arguments = GetLogPage::parse(entry)?;
    if arguments.length_bytes > TRANSFER_BYTES_MAX.into() {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    Ok(arguments)
}

fn fabrics(
    controller: &mut Controller,
    subsystem: Option<&mut Subsystem>,
    entry: &SubmissionEntry,
    port: &mut Port<'_>,
) -> Result<Reply, Status> {
    match FabricsType::from_raw(entry.fabrics_type()) {
        Some(FabricsType::PropertyGet) => controller.property(&PropertyGet::parse(entry)?).map(Reply::Done),
        Some(FabricsType::PropertySet) => Ok(match controller.set_property(&PropertySet::parse(entry)?)? {
            Change::Nothing => Reply::Done(0),
            Change::Reset => {
                if let Some(subsystem) = subsystem {
                    open_channel::forget_setter(subsystem, controller.id, port);
                }
                Reply::Reset
            }
            Change::Shutdown => Reply::Shutdown,
            Change::Enabled => {
                if let Some(subsystem) = subsystem {
                    let config = &subsystem.config;
                    let cuts = config.namespaces.iter().filter_map(|&n| port.device(n));
                    let cuts = cuts.map(|device| device.counters().power_cuts).max();
                    let cycles = cuts.unwrap_or(0) + 1;
                    let firmware = ascii(identify::FIRMWARE);
                    subsystem.history.reset(controller.id, &firmware, cycles, port.now_ns());
                }
                Reply::Done(0)
            }
        }),
        // The connection already is a queue: a second Connect.
        Some(FabricsType::Connect) => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        _ => Err(Status::INVALID_OPCODE.do_not_retry()),
    }
}

/// Completion result of an abort that aborted nothing: bit 0.
pub(super) const NOT_ABORTED: u64 = 1;

fn abort(controller: &mut Controller, entry: &SubmissionEntry, port: &mut Port<'_>) -> Result<Reply, Status> {
    let (queue, cid) = (entry.cdw(10) as u16, (entry.cdw(10) >> 16) as u16);
    if queue == 0 {
        // Other admin commands have ended before the abort is read.
        let found = controller.abort_event_request(cid);
        return Ok(if found { Reply::AbortedRequest(cid) } else { Reply::Done(NOT_ABORTED) });
    }
    let Some(connection) = controller.queue(queue) else { return Ok(Reply::Done(NOT_ABORTED)) };
    if !controller.ask_abort(queue, cid, entry.cid()) {
        return Err(Status::ABORT_LIMIT_EXCEEDED.do_not_retry());
    }
    port.nudge(connection);
    Ok(Reply::Later)
}

fn format(
    controller: &Controller,
    subsystem: Option<&mut Subsystem>,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<Reply, Status> {
    let subsystem = subsystem.ok_or(Status::INVALID_OPCODE.do_not_retry())?;
    let cdw10 = entry.cdw(10);
    let (first, last) = match entry.nsid() {
        BROADCAST_NSID => (*subsystem.nsids().start(), *subsystem.nsids().end()),
        nsid if subsystem.namespace(nsid).is_some() => (nsid, nsid),
        _ => return Err(Status::INVALID_NAMESPACE.do_not_retry()),
    };
    // Only format 0 without protection information; its upper bits are in 13:12.
    if cdw10 & 0xF != 0 || cdw10 >> 12 & 3 != 0 || cdw10 >> 5 & 7 != 0 {
        return Err(Status::INVALID_FORMAT.do_not_retry());
    }
    // No erase, or a user data erase; there are no keys for a cryptographic erase.
    if cdw10 >> 9 & 7 > 1 {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    subsystem.history.format_start(controller.id, entry.nsid(), cdw10, port.now_ns());
    Ok(Reply::Format { first, last })
}

/// Follows power cuts of the drives: nothing that a host has set lives on.
pub(super) fn follow_power(controller: &mut Controller, subsystem: &mut Subsystem, port: &mut Port<'_>) {
    if controller.follow_power(subsystem.power_cuts(port), port.now_ns()) {
        open_channel::forget_setter(subsystem, controller.id, port);
    }
}

/// Raises events for new notices: of chunks, and of zones that changed without a command.
pub(super) fn watch_notices(controller: &mut Controller, subsystem: &mut Subsystem, port: &mut Port<'_>) {
    subsystem.take_notices(port);
    if controller.notices_told < subsystem.notices_seen {
        controller.notices_told = subsystem.notices_seen;
        controller.raise(AsyncEvent::ChunkNotification);
    }
    if controller.moves_told < subsystem.moves {
        controller.moves_told = subsystem.moves;
        controller.raise(AsyncEvent::Moved);
    }
    if controller.zones_told < subsystem.zone_changes
        && controller.features.async_events.wants(AsyncEventConfig::ZONE_DESCRIPTOR)
    {
        controller.zones_told = subsystem.zone_changes;
        controller.raise(AsyncEvent::ZoneDescriptor);
    }
}

/// Checks whether the health of the drives warrants an event; a new warning also goes into the persistent
/// event log.
pub(super) fn watch_health(controller: &mut Controller, subsystem: &mut Subsystem, port: &Port<'_>) {
    let page = logs::smart(controller, subsystem, port);
    if page.critical_warning & !controller.warnings != 0 {
        subsystem.history.smart(controller.id, &page.encode(), port.now_ns());
    }
    controller.warnings = page.critical_warning;
    let wanted = controller.warnings_to_tell();
    if wanted & logs::warning::TEMPERATURE != 0 {
        controller.raise(AsyncEvent::Temperature);
    }
    if wanted & logs::warning::SPARE != 0 {
        controller.raise(AsyncEvent::SpareBelowThreshold);
    }
    if wanted & (logs::warning::RELIABILITY | logs::warning::READ_ONLY) != 0 {
        controller.raise(AsyncEvent::Reliability);
    }
}
