//! Flexible data placement (Base 8.1.10): placement handles of a block namespace, which is its own endurance
//! group.
//!
//! The group's identifier is that of the namespace. There is one configuration, always enabled. With a single
//! reclaim group, a placement identifier is the number of a handle.

use super::io::{Kind, Request, Special, Volume, no};
use super::subsystem::Subsystem;
use crate::operation::Operation;
use crate::session::Port;
use pellucid_device::{Device, WritePolicy};
use pellucid_flash::{HandleInfo, Lba, Opcode, PlacementEvent, PlacementEventKind, PlacementGeometry};
use pellucid_wire::nvme::fdp::{
    Configuration, ConfigurationsHeader, DIRECTIVE_IDENTIFY, DIRECTIVE_PLACEMENT, Directives, Event,
    EventsHeader, HandleDescriptor, HandleStatusHeader, HandleUsage, HandleUsageHeader, RECEIVE_DIRECTIVES,
    RECEIVE_HANDLE_STATUS, SEND_HANDLE_UPDATE, Statistics, directive_operation, management_operation,
};
use pellucid_wire::nvme::{FeatureSelect, GetLogPage, LogId, Status, SubmissionEntry};

/// Identify Controller attributes: endurance groups and flexible data placement.
pub(super) const CONTROLLER_ATTRIBUTES: u32 = 1 << 4 | 1 << 19;
/// Maximum number of placement identifiers in one update.
const UPDATES_MAX: u16 = 128;

/// Parses I/O Management Receive and Send.
pub(super) fn parse(
    entry: &SubmissionEntry,
    index: usize,
    volumes: &[Volume],
    receive: bool,
) -> Result<Request, Status> {
    let handles = volumes[index].handles();
    if handles < 2 {
        // A controller without any placement lacks these commands entirely.
        let placed = volumes.iter().any(|volume| volume.handles() > 1);
        return Err(no(if placed { Status::FDP_DISABLED } else { Status::INVALID_OPCODE }));
    }
    let (operation, specific) = management_operation(entry);
    let invalid = no(Status::INVALID_FIELD);
    if receive {
        let length = (u64::from(entry.cdw(11)) + 1) * 4;
        if operation != RECEIVE_HANDLE_STATUS || length > super::TRANSFER_BYTES_MAX.into() {
            return Err(invalid);
        }
        let request = Request::special(Special::HandleStatus, index);
        return Ok(Request { sectors: handles.into(), bytes: length as u32, ..request });
    }
    if operation != SEND_HANDLE_UPDATE || specific >= UPDATES_MAX {
        return Err(invalid);
    }
    let request = Request::special(Special::HandleUpdate, index);
    Ok(Request { bytes: (u32::from(specific) + 1) * 2, ..request })
}

/// Placement handle named by a write's directive, or handle 0 without one. The drive accepts handles that do
/// not exist.
pub(super) fn handle_of(entry: &SubmissionEntry, volume: &Volume, kind: Kind) -> Result<u16, Status> {
    let range = entry.lba_range();
    if range.directive_type() == 0 {
        return Ok(0);
    }
    let placed = pellucid_wire::nvme::fdp::placement_of(entry, &range);
    let placed = placed.filter(|_| volume.handles() > 1 && matches!(kind, Kind::Write | Kind::WriteZeroes));
    placed.ok_or(no(Status::INVALID_FIELD))
}

/// Submits a handle update to the drive: either all of its handles exist, or nothing is done.
pub(super) fn update(
    volume: &Volume,
    queue: u16,
    token: u64,
    data: &[u8],
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let list = || data.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    if list().any(|handle| handle >= volume.handles()) {
        return Err(no(Status::INVALID_FIELD));
    }
    for handle in list() {
        let operation = Operation::new(Opcode::NextUnit, Lba(0), 0, Vec::new());
        port.submit(volume.number, token, Operation { queue, handle, ..operation });
    }
    Ok(list().count() as u32)
}

/// Builds the answer to a status request from the drive's report.
pub(super) fn status(report: &[u8], length: u32) -> Vec<u8> {
    let handles = (report.len() / HandleInfo::BYTES) as u16;
    let mut bytes = HandleStatusHeader { handles }.encode().to_vec();
    bytes.extend_from_slice(report);
    bytes.resize(length as usize, 0);
    bytes
}

/// An endurance group: a namespace with placement, and its drive.
#[derive(Clone, Copy)]
pub(super) struct Group<'a> {
    pub device: &'a Device,
    /// Number of the namespace on the drive.
    pub number: u16,
    pub placement: PlacementGeometry,
}

impl<'a> Group<'a> {
    /// Finds the group with this identifier.
    pub fn find(subsystem: &Subsystem, id: u16, port: &'a Port<'_>) -> Result<Group<'a>, Status> {
        let index = subsystem.namespace(id.into()).ok_or(no(Status::INVALID_FIELD))?;
        let namespace = &port.namespaces()[index];
        let (number, placed) = (namespace.number, namespace.handles() > 1);
        let device = port.device(index).filter(|_| placed).ok_or(no(Status::FDP_DISABLED))?;
        let placement = device.namespace(number).placement().ok_or(no(Status::FDP_DISABLED))?;
        Ok(Group { device, number, placement })
    }

    fn enabled_events(&self) -> u8 {
        self.device.namespace(self.number).enabled_placement_events()
    }
}

/// Builds logs 20h to 23h; returns `None` for any other page.
pub(super) fn log(
    subsystem: &Subsystem,
    arguments: &GetLogPage,
    port: &Port<'_>,
) -> Option<Result<Vec<u8>, Status>> {
    let id = LogId::from_raw(arguments.log_id)?;
    let group = Group::find(subsystem, arguments.specific_id, port);
    let page: fn(Group<'_>) -> Vec<u8> = match id {
        LogId::FdpConfigurations => configurations,
        LogId::FdpHandleUsage => usage,
        LogId::FdpStatistics => statistics,
        LogId::FdpEvents => {
            let by_host = arguments.specific & 1 == 1;
            return Some(group.map(|group| events(group, by_host, arguments.specific_id)));
        }
        _ => return None,
    };
    Some(group.map(page))
}

fn configurations(group: Group<'_>) -> Vec<u8> {
    let Group { device, placement, .. } = group;
    let handles = usize::from(placement.handles);
    let cached = device.config().buffer.write == WritePolicy::WriteBack;
    let descriptor = (Configuration::BYTES + handles * HandleDescriptor::BYTES).next_multiple_of(8);
    let header = ConfigurationsHeader {
        log_bytes: (ConfigurationsHeader::BYTES + descriptor) as u32,
        ..Default::default()
    };
    let configuration = Configuration {
        descriptor_bytes: descriptor as u16,
        // Valid; placement identifiers have no bits for a reclaim group. The write cache is reported as in
        // VWC.
        attributes: 1 << 7 | u8::from(cached) << 4,
        groups: 1,
        handles: placement.handles,
        placements_max: placement.handles - 1,
        namespaces: 1,
        unit_bytes: placement.unit_bytes,
        ..Default::default()
    };
    let handle = HandleDescriptor { kind: 1 + u8::from(placement.persistent) };
    let mut page = header.encode().to_vec();
    page.extend(configuration.encode());
    (0..handles).for_each(|_| page.extend(handle.encode()));
    page.resize(ConfigurationsHeader::BYTES + descriptor, 0);
    page
}

fn usage(group: Group<'_>) -> Vec<u8> {
    let handles = group.placement.handles;
    let mut page = HandleUsageHeader { handles }.encode().to_vec();
    // All handles are in the namespace's list, so hosts may name them.
    (0..handles).for_each(|_| page.extend(HandleUsage { attributes: 1 }.encode()));
    page
}

fn statistics(group: Group<'_>) -> Vec<u8> {
    let bytes = group.device.namespace(group.number).placement_statistics();
    let page = Statistics {
        host_bytes: bytes.host_bytes.into(),
        media_bytes: bytes.media_bytes.into(),
        erased_bytes: bytes.erased_bytes.into(),
    };
    page.encode().to_vec()
}

fn events(group: Group<'_>, by_host: bool, nsid: u16) -> Vec<u8> {
    let all = group.device.namespace(group.number).placement_events();
    let found: Vec<&PlacementEvent> = all.filter(|event| event.kind.is_by_host() == by_host).collect();
    let mut page = EventsHeader { events: found.len() as u32 }.encode().to_vec();
    for event in found {
        let mut specific = [0; 16];
        if event.kind == PlacementEventKind::Reallocated {
            let moved = event.sectors.min(u16::MAX.into()) as u16;
            specific[2..4].copy_from_slice(&moved.to_le_bytes());
        }
        let event = Event {
            kind: event.kind as u8,
            // Placement, namespace and location are valid.
            flags: 0b111,
            placement: event.handle,
            timestamp: event.at.0 / 1_000_000,
            nsid: nsid.into(),
            specific,
            group: 0,
            // A write with a nonexistent handle went to handle 0.
            handle: if event.kind == PlacementEventKind::InvalidHandle { 0 } else { event.handle as u8 },
        };
        page.extend(event.encode());
    }
    page
}

/// Directive Receive: returns the directives of a namespace. Placement is enabled if there are handles, and
/// no host can change it, so Directive Send has nothing to do.
pub(super) fn directives(
    subsystem: &Subsystem,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<Vec<u8>, Status> {
    let namespace = subsystem.namespace(entry.nsid()).ok_or(no(Status::INVALID_NAMESPACE))?;
    if directive_operation(entry) != (RECEIVE_DIRECTIVES, DIRECTIVE_IDENTIFY) {
        return Err(no(Status::INVALID_FIELD));
    }
    let placed = u8::from(port.namespaces()[namespace].handles() > 1) << DIRECTIVE_PLACEMENT;
    let mut page = Directives::default();
    page.supported[0] = 1 << DIRECTIVE_IDENTIFY | placed;
    (page.enabled, page.persistent[0]) = (page.supported, placed);
    let length = (u64::from(entry.cdw(10)) + 1) * 4;
    Ok(page.encode()[..length.min(Directives::BYTES as u64) as usize].to_vec())
}

/// Feature 1Dh: placement is enabled, with configuration 0.
pub(super) fn feature(subsystem: &Subsystem, group_id: u16, port: &Port<'_>) -> Result<u32, Status> {
    Group::find(subsystem, group_id, port).map(|_| 1)
}

/// Finds the group that feature 1Eh addresses; it must have the placement handle named by the command.
fn events_of<'a>(
    subsystem: &Subsystem,
    entry: &SubmissionEntry,
    port: &'a Port<'_>,
) -> Result<Group<'a>, Status> {
    let invalid = no(Status::INVALID_FIELD);
    let id = u16::try_from(entry.nsid()).map_err(|_| invalid)?;
    let group = Group::find(subsystem, id, port)?;
    if entry.cdw(11) as u16 >= group.placement.handles { Err(invalid) } else { Ok(group) }
}

/// Feature 1Eh: returns the event kinds with their enabled bits, and the number of kinds. The list is limited
/// to the length that the host requests (NOET) and has room for.
pub(super) fn event_feature(
    subsystem: &Subsystem,
    entry: &SubmissionEntry,
    select: FeatureSelect,
    port: &Port<'_>,
) -> Result<(Vec<u8>, u32), Status> {
    let group = events_of(subsystem, entry, port)?;
    // By default no event is kept; the saved value equals the default.
    let enabled = if select == FeatureSelect::Current { group.enabled_events() } else { 0 };
    let asked = (entry.cdw(11) >> 16 & 0xFF) as usize;
    let room = entry.sgl().pointer().map_or(0, |pointer| pointer.length_bytes() as usize / 2);
    let kinds = PlacementEventKind::ALL.iter().take(asked.min(room));
    let list = kinds.flat_map(|&kind| [kind as u8, u8::from(enabled & kind.bit() != 0)]).collect();
    Ok((list, PlacementEventKind::ALL.len() as u32))
}

/// Enables or disables the event kinds in `list`.
pub(super) fn set_events(
    subsystem: &Subsystem,
    entry: &SubmissionEntry,
    list: &[u8],
    port: &mut Port<'_>,
) -> Result<(), Status> {
    let invalid = no(Status::INVALID_FIELD);
    let index = subsystem.namespace(entry.nsid()).ok_or(invalid)?;
    let group = events_of(subsystem, entry, port)?;
    let (number, before) = (group.number, group.enabled_events());
    let enable = entry.cdw(12) & 1 == 1;
    let enabled = list.iter().try_fold(before, |mask, &raw| {
        let kind = PlacementEventKind::ALL.into_iter().find(|&kind| kind as u8 == raw);
        let bit = kind.ok_or(invalid)?.bit();
        Ok(if enable { mask | bit } else { mask & !bit })
    })?;
    if let Some(device) = port.device_mut(index) {
        device.enable_placement_events(number, enabled);
    }
    Ok(())
}
