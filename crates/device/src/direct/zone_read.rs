//! Reads and reports of zones: from the buffer, from the media, and zeros behind the write pointer.

use crate::direct::DirectPath;
use crate::direct::zone_buffer::ZoneNamespace;
use crate::front::commands::{Place, Route};
use crate::shared::Shared;
use pellucid_flash::{Command, Ppa, Status, ZoneState};

pub(super) fn zone_read(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32) {
    let Command { lba, sectors, .. } = shared.works[work].command;
    let (zone, offset) = zoned.zones.zone_of(lba).expect("checked at submission");
    if offset + u64::from(sectors) > zoned.zones.geometry().zone_sectors {
        return shared.works[work].merge_status(Status::ZoneBoundary, 0);
    }
    if zoned.zones.state(zone) == ZoneState::Offline {
        return shared.works[work].merge_status(Status::ZoneOffline, 0);
    }
    let written = u64::from(zoned.zones.data_sectors(zone));
    let superpage = u64::from(zoned.zones.superpage_sectors());
    let (mut done, mut told) = (0, 0);
    while done < sectors {
        let at = offset + u64::from(done);
        if at >= written {
            // Nothing behind the write pointer.
            zone_give(zoned, shared, work, done, sectors - done, None);
            told += sectors - done;
            break;
        }
        let (number, first) = ((at / superpage) as u32, (at % superpage) as u32);
        let here = (superpage - at % superpage).min(written - at).min(u64::from(sectors - done)) as u32;
        if let Some(slot) = zoned.find(zone, number) {
            zone_give(zoned, shared, work, done, here, Some((slot, first)));
            if zoned.stage[slot].lost {
                shared.works[work].merge_status(Status::UnrecoveredRead, 0);
            }
            shared.counts(zoned.number).buffer_read_hits += 1;
            told += here;
        } else {
            zone_sense(zoned, shared, work, zone, number, first, (done, here));
        }
        done += here;
    }
    if told > 0 {
        zoned.direct_slice(shared, work, Route::Tell, (Place::None, 0), (0, told), zone);
    }
}

/// Gives `sectors` from the buffer, or zeros.
fn zone_give(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    work: u32,
    at: u32,
    sectors: u32,
    from: Option<(u32, u32)>,
) {
    let image = shared.image_bytes;
    let Command { data, .. } = &mut shared.works[work].command;
    if data.is_empty() {
        return;
    }
    let out = &mut data[at as usize * image..][..sectors as usize * image];
    match from {
        Some((slot, first)) => {
            out.copy_from_slice(&zoned.stage.images(slot)[first as usize * image..][..out.len()])
        }
        None => out.fill(0),
    }
}

/// Reads sectors of one superpage from the media, a run for every sense.
fn zone_sense(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    work: u32,
    zone: u32,
    superpage: u32,
    first: u32,
    (at, sectors): (u32, u32),
) {
    let Some(start) = zoned.zones.locate(zone, superpage) else {
        zone_give(zoned, shared, work, at, sectors, None);
        return shared.works[work].merge_status(Status::UnrecoveredRead, 0);
    };
    let per_unit = shared.layout.sectors_per_unit;
    let group = shared.sense.get() * per_unit;
    let mut done = 0;
    while done < sectors {
        let sector = first + done;
        let here = (group - sector % group).min(sectors - done);
        let unit = Ppa(start.0 + sector / per_unit);
        zoned.direct_slice(
            shared,
            work,
            Route::Read,
            (Place::Units(unit), sector % per_unit),
            (at + done, here),
            zone,
        );
        done += here;
    }
}

pub(super) fn zone_report(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32) {
    let Command { lba, sectors, .. } = shared.works[work].command;
    let mut data = std::mem::take(&mut shared.works[work].command.data);
    data.clear();
    let zones = &zoned.zones;
    let (first, _) = zones.zone_of(lba).expect("checked at submission");
    (first..first + sectors).for_each(|zone| zones.info(zone).encode(&mut data));
    shared.works[work].command.data = data;
    zoned.direct_slice(shared, work, Route::Tell, (Place::None, 0), (0, 0), 0);
}
