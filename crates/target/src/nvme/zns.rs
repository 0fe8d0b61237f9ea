//! Zoned namespaces (NVMe Zoned Namespaces 1.1): Zone Management Send and Receive, Zone Append, and Identify.

use super::controller::Controller;
use super::io::{Request, Special, Volume, no};
use super::subsystem::Subsystem;
use crate::operation::Operation;
use crate::session::Port;
use pellucid_flash::{Interface, Lba, Opcode, ZoneAction, ZoneGeometry, ZoneInfo, ZoneOp, ZoneState};
use pellucid_wire::nvme::zns::{
    ReportFilter, ZoneAction as WireAction, ZoneManagementReceive, ZoneManagementSend, ZoneReportHeader,
    ZonedController, ZonedFormat, ZonedNamespace,
};
use pellucid_wire::nvme::{NvmOpcode, Status, SubmissionEntry};

/// Maximum number of zones in the changed zone list.
const CHANGED_MAX: u16 = 511;

/// Parses a command specific to zoned namespaces.
pub(super) fn parse(
    entry: &SubmissionEntry,
    opcode: NvmOpcode,
    index: usize,
    volumes: &[Volume],
) -> Result<Request, Status> {
    let volume = &volumes[index];
    let Interface::Zoned(zones) = volume.set else { return Err(no(Status::INVALID_OPCODE)) };
    match opcode {
        NvmOpcode::ZoneManagementSend => {
            let send = ZoneManagementSend::parse(entry)?;
            // There are no random write areas, and no host must assume that it has one.
            if send.random_write_area && send.action == WireAction::Open {
                return Err(no(Status::ZONE_INVALID_OPERATION));
            }
            let action = action(send.action, send.select_all).ok_or(no(Status::INVALID_FIELD))?;
            let lba = if send.select_all { 0 } else { send.start };
            if lba >= volume.sectors {
                return Err(no(Status::LBA_OUT_OF_RANGE));
            }
            Ok(Request { lba, ..Request::special(Special::ZoneSend(action), index) })
        }
        NvmOpcode::ZoneManagementReceive => {
            let receive = ZoneManagementReceive::parse(entry)?;
            if receive.start >= volume.sectors {
                return Err(no(Status::LBA_OUT_OF_RANGE));
            }
            if receive.extended || receive.length_bytes > super::TRANSFER_BYTES_MAX.into() {
                return Err(no(Status::INVALID_FIELD));
            }
            let first = receive.start / zones.zone_sectors;
            let special = Special::ZoneReport { filter: receive.filter, partial: receive.partial };
            Ok(Request {
                lba: first * zones.zone_sectors,
                sectors: zones.zones - first as u32,
                bytes: receive.length_bytes as u32,
                ..Request::special(special, index)
            })
        }
        _ => {
            let range = entry.lba_range();
            let bytes = range.count.saturating_mul(volume.sector_bytes);
            let all = volumes.iter().filter_map(|volume| match volume.set {
                Interface::Zoned(zones) => Some(zones),
                _ => None,
            });
            let most = 4096 << append_max_shift(all);
            if range.protection() != 0 || range.directive_type() != 0 || bytes > most {
                return Err(no(Status::INVALID_FIELD));
            }
            if range.start >= volume.sectors {
                return Err(no(Status::LBA_OUT_OF_RANGE));
            }
            Ok(Request {
                fua: range.force_unit_access(),
                lba: range.start,
                sectors: range.count,
                bytes,
                ..Request::special(Special::Append, index)
            })
        }
    }
}

fn action(action: WireAction, all: bool) -> Option<ZoneAction> {
    Some(match (action, all) {
        (WireAction::Close, false) => ZoneAction::Close,
        (WireAction::Finish, false) => ZoneAction::Finish,
        (WireAction::Open, false) => ZoneAction::Open,
        (WireAction::Reset, false) => ZoneAction::Reset,
        (WireAction::Offline, false) => ZoneAction::Offline,
        (WireAction::Close, true) => ZoneAction::CloseAll,
        (WireAction::Finish, true) => ZoneAction::FinishAll,
        (WireAction::Open, true) => ZoneAction::OpenAll,
        (WireAction::Reset, true) => ZoneAction::ResetAll,
        (WireAction::Offline, true) => ZoneAction::OfflineAll,
        (WireAction::SetExtension | WireAction::FlushRandomWriteArea, _) => return None,
    })
}

/// Submits a zone command to the drive.
pub(super) fn submit(
    request: &Request,
    special: Special,
    volume: &Volume,
    queue: u16,
    token: u64,
    data: Vec<u8>,
    port: &mut Port<'_>,
) {
    let (opcode, sectors) = match special {
        Special::ZoneSend(action) => (Opcode::Zone(ZoneOp::Change(action)), 0),
        Special::Append => (Opcode::Zone(ZoneOp::Append), request.sectors),
        _ => (Opcode::Report, request.sectors),
    };
    let operation = Operation::new(opcode, Lba(request.lba), sectors, data);
    port.submit(volume.number, token, Operation { queue, fua: request.fua, ..operation });
}

/// Builds the answer to Zone Management Receive from the drive's report of all zones from the first on.
pub(super) fn report(packed: &[u8], filter: ReportFilter, partial: bool, length: u32) -> Vec<u8> {
    let listed =
        |bytes: &&[u8; ZoneInfo::BYTES]| ZoneInfo::decode(bytes).is_some_and(|i| matches(filter, i.state));
    let mut zones = packed.as_chunks::<{ ZoneInfo::BYTES }>().0.iter().filter(listed);
    let room = (length as usize).saturating_sub(ZoneReportHeader::BYTES) / ZoneInfo::BYTES;
    let mut bytes = vec![0; ZoneReportHeader::BYTES];
    let mut count = 0u64;
    zones.by_ref().take(room).for_each(|zone| {
        count += 1;
        bytes.extend_from_slice(zone);
    });
    // A partial report counts only the listed zones, a full one all matching zones.
    if !partial {
        count += zones.count() as u64;
    }
    bytes[..ZoneReportHeader::BYTES].copy_from_slice(&ZoneReportHeader { zones: count }.encode());
    bytes.resize(length as usize, 0);
    bytes
}

fn matches(filter: ReportFilter, state: ZoneState) -> bool {
    match filter {
        ReportFilter::All => true,
        ReportFilter::Empty => state == ZoneState::Empty,
        ReportFilter::ImplicitlyOpened => state == ZoneState::ImplicitlyOpen,
        ReportFilter::ExplicitlyOpened => state == ZoneState::ExplicitlyOpen,
        ReportFilter::Closed => state == ZoneState::Closed,
        ReportFilter::Full => state == ZoneState::Full,
        ReportFilter::ReadOnly => state == ZoneState::ReadOnly,
        ReportFilter::Offline => state == ZoneState::Offline,
    }
}

/// Builds the changed zone list of a namespace (log BFh): zones that this host has not read yet. Unless the
/// event is `retained`, marks them as read.
pub(super) fn changed_log(
    controller: &mut Controller,
    subsystem: &Subsystem,
    nsid: u32,
    retained: bool,
) -> Vec<u8> {
    let read = controller.zones_read.entry(nsid).or_default();
    let zones = subsystem.changed_zones.range((nsid, 0)..=(nsid, u64::MAX));
    let starts: Vec<u64> = zones.filter(|(_, change)| **change > *read).map(|(zone, _)| zone.1).collect();
    if !retained {
        *read = subsystem.zone_changes;
    }
    changed_page(&starts)
}

/// Builds the page that lists zones by their starts. If they do not fit, it is all ones, and the host must
/// check every zone.
pub(super) fn changed_page(starts: &[u64]) -> Vec<u8> {
    let listed = u16::try_from(starts.len()).ok().filter(|&count| count <= CHANGED_MAX);
    let mut page = vec![0; 4096];
    page[..2].copy_from_slice(&listed.unwrap_or(u16::MAX).to_le_bytes());
    let list = starts.iter().take(usize::from(listed.unwrap_or(0))).flat_map(|start| start.to_le_bytes());
    page[8..].iter_mut().zip(list).for_each(|(byte, value)| *byte = value);
    page
}

/// Builds Identify Namespace of the zoned command set.
pub(super) fn identify_namespace(zones: &ZoneGeometry) -> ZonedNamespace {
    // 0-based; no limit is all ones.
    let limit = |max: u32| max.wrapping_sub(1);
    let mut formats = [ZonedFormat::default(); 64];
    formats[0].zone_blocks = zones.zone_sectors;
    ZonedNamespace {
        // A read across a zone boundary is refused.
        capabilities: 0,
        active_max: limit(zones.active_max),
        open_max: limit(zones.open_max),
        formats,
        ..Default::default()
    }
}

/// Builds Identify Controller of the zoned command set, with the longest append to any of its namespaces.
pub(super) fn identify_controller(zones: impl Iterator<Item = ZoneGeometry>) -> ZonedController {
    let shift = append_max_shift(zones);
    // 0 stands for the controller's own limit, which always applies.
    ZonedController { append_max_shift: if shift >= super::TRANSFER_MAX_SHIFT { 0 } else { shift } }
}

/// Longest append that all zoned namespaces accept, in the announced form: 2^n pages of 4 KiB. The drive's
/// configuration guarantees that n is at least 1.
fn append_max_shift(zones: impl Iterator<Item = ZoneGeometry>) -> u8 {
    let bytes = zones.map(|zones| u64::from(zones.append_max_sectors) * u64::from(zones.sector_bytes));
    let shifts = bytes.map(|bytes| (bytes / 4096).checked_ilog2().unwrap_or(0) as u8);
    shifts.min().map_or(super::TRANSFER_MAX_SHIFT, |shift| shift.min(super::TRANSFER_MAX_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_append_is_announced() {
        let geometry = ZoneGeometry {
            zone_sectors: 1 << 20,
            capacity_sectors: 1 << 20,
            zones: 8,
            open_max: 4,
            active_max: 8,
            append_max_sectors: 16,
            sector_bytes: 512,
        };
        let of =
            |append_max_sectors, sector_bytes| ZoneGeometry { append_max_sectors, sector_bytes, ..geometry };
        let shift = |sectors| identify_controller([of(sectors, 512)].into_iter()).append_max_shift;
        assert_eq!([16, 31, 32, 511, 512, 1 << 20].map(shift), [1, 1, 2, 5, 0, 0]);
        // The shortest limit in bytes counts, whatever the sector sizes.
        for both in [[of(64, 512), of(16, 4096)], [of(16, 4096), of(64, 512)]] {
            assert_eq!(identify_controller(both.into_iter()).append_max_shift, 3, "32 KiB");
        }
    }

    #[test]
    fn a_list_of_changed_zones_that_is_too_long_names_none() {
        for (zones, listed) in [(0, 0), (511, 511), (512, u16::MAX), (70_000, u16::MAX)] {
            let starts: Vec<u64> = (0..zones).map(|zone| zone << 20 | 1).collect();
            let page = changed_page(&starts);
            let named = page[8..].as_chunks::<8>().0.iter().map(|start| u64::from_le_bytes(*start));
            let named: Vec<u64> = named.take_while(|&start| start != 0).collect();
            assert_eq!((page.len(), &page[..2]), (4096, &listed.to_le_bytes()[..]));
            assert_eq!(named, if listed == u16::MAX { &[][..] } else { &starts[..] }, "{zones} zones");
        }
    }
}
