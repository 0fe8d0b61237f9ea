//! Data placement: commands about handles, and what a host may learn of their reclaim units.
//!
//! Translation decides where data are written; a write's handle travels with its buffer entry (`Entry::handle`) and selects the packer
//! that fills a superpage. This module does the rest: handle status ([`Opcode::Report`]), RUH update ([`Opcode::NextUnit`]), events and
//! statistics. With one handle there is no placement, and both commands are refused. A write with an unknown handle uses handle 0, because
//! a wrong hint is no reason to refuse data. Only events of kinds that a host has enabled are recorded; initially none is enabled.

use super::media_side::MediaSide;
use crate::shared::Shared;
use pellucid_flash::{
    Command, HandleInfo, Layout, Opcode, PlacementEvent, PlacementEventKind, PlacementGeometry, Status,
};
use pellucid_ftl::{HandleEvent, Isolation};
use std::collections::VecDeque;

/// Events kept for a host to read; older ones are dropped.
const EVENTS_MAX: usize = 1024;

/// Event log of the placement handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    events: VecDeque<PlacementEvent>,
    /// A [bit](PlacementEventKind::bit) for each kind of event that is kept.
    enabled: u8,
}

/// Counters from which placement is judged; the write amplification is `media_bytes / host_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementStatistics {
    /// Written by hosts.
    pub host_bytes: u64,
    /// Written to the media, whatever for.
    pub media_bytes: u64,
    /// Erased.
    pub erased_bytes: u64,
    /// Read by hosts.
    pub read_bytes: u64,
    /// Reads of hosts.
    pub reads: u64,
    /// Writes of hosts.
    pub writes: u64,
}

/// Returns the placement geometry that a host sees; `None`: the namespace has one handle, which is no placement.
pub(super) fn geometry(side: &MediaSide, layout: &Layout) -> Option<PlacementGeometry> {
    let handles = side.translation.handles();
    (handles.count() > 1).then(|| PlacementGeometry {
        handles: handles.count(),
        unit_bytes: handles.unit() * u64::from(layout.unit_bytes),
        persistent: side.ftl().isolation == Isolation::Persistent,
    })
}

/// State of a handle; `None` if there is no such handle.
pub(super) fn handle_info(side: &MediaSide, layout: &Layout, handle: u16) -> Option<HandleInfo> {
    let handles = side.translation.handles();
    (handle < handles.count()).then(|| HandleInfo {
        handle,
        remaining_sectors: handles.remaining(handle) * u64::from(layout.sectors_per_unit),
    })
}

/// Returns the bytes written, erased and read since the counters were last reset.
pub(super) fn statistics(side: &MediaSide, shared: &Shared) -> PlacementStatistics {
    let (counters, layout) = (shared.tally.copy_of(side.number()), &shared.layout);
    let sector = u64::from(layout.sector_bytes);
    let block = u64::from(layout.units_per_block) * u64::from(layout.unit_bytes);
    PlacementStatistics {
        host_bytes: counters.host_written_sectors * sector,
        media_bytes: counters.programmed_sectors.iter().sum::<u64>() * sector,
        erased_bytes: counters.erases.iter().sum::<u64>() * block,
        read_bytes: counters.host_read_sectors * sector,
        reads: counters.host_reads,
        writes: counters.host_writes,
    }
}

/// Why a command about handles, or with one, cannot be done.
#[inline]
pub(super) fn refuse(side: &MediaSide, command: &Command) -> Option<Status> {
    let handles = side.translation.handles().count();
    match command.opcode {
        Opcode::Report | Opcode::NextUnit if handles < 2 => Some(Status::InvalidOpcode),
        Opcode::Report => {
            let end = command.lba.0.checked_add(command.sectors.into());
            end.is_none_or(|end| end > handles.into()).then_some(Status::LbaOutOfRange)
        }
        _ => (command.handle >= handles).then_some(Status::InvalidField),
    }
}

/// Tells a host the state of the handles that it asks for.
pub(super) fn start_report(side: &MediaSide, shared: &mut Shared, work: u32) {
    let command = &shared.works[work].command;
    let (first, count) = (command.lba.0 as u16, command.sectors as u16);
    let mut data = std::mem::take(&mut shared.works[work].command.data);
    data.clear();
    let infos = (first..first + count).filter_map(|handle| handle_info(side, &shared.layout, handle));
    infos.for_each(|info| info.encode(&mut data));
    shared.works[work].command.data = data;
    shared.ask_complete(work);
}

impl Placement {
    /// Events that are kept, oldest first.
    pub fn events(&self) -> &VecDeque<PlacementEvent> {
        &self.events
    }

    /// Kinds of events that are kept, a [bit](PlacementEventKind::bit) for each.
    pub fn enabled(&self) -> u8 {
        self.enabled
    }

    /// Keeps events of these kinds from now on, and no others.
    pub fn enable(&mut self, kinds: u8) {
        self.enabled = kinds;
    }

    /// Gives handle 0 to a write that names one that does not exist.
    #[inline]
    pub(super) fn settle_handle(&mut self, side: &MediaSide, shared: &Shared, command: &mut Command) {
        if command.handle > 0 && command.handle >= side.translation.handles().count() {
            self.invalid_handle(side, shared, command);
        }
    }

    #[cold]
    fn invalid_handle(&mut self, side: &MediaSide, shared: &Shared, command: &mut Command) {
        if side.translation.handles().count() < 2 {
            return;
        }
        let kind = PlacementEventKind::InvalidHandle;
        self.note_event(shared, HandleEvent { kind, handle: command.handle, units: 0 });
        if matches!(command.opcode, Opcode::Write | Opcode::WriteZeroes) {
            command.handle = 0;
        }
    }

    /// The handle of a command goes on to its next reclaim unit.
    pub(super) fn start_next_unit(&mut self, side: &mut MediaSide, shared: &mut Shared, work: u32) {
        side.translation.next_unit(shared.works[work].command.handle);
        self.note_handle_events(side, shared);
        shared.ask_complete(work);
    }

    /// Records the handle events of translation with their time.
    #[cold]
    pub(super) fn note_handle_events(&mut self, side: &mut MediaSide, shared: &Shared) {
        side.translation.handles_mut().take_events().for_each(|event| self.note_event(shared, event));
    }

    fn note_event(&mut self, shared: &Shared, event: HandleEvent) {
        if self.enabled & event.kind.bit() == 0 {
            return;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let HandleEvent { kind, handle, units } = event;
        let sectors = units * u64::from(shared.layout.sectors_per_unit);
        self.events.push_back(PlacementEvent { at: shared.now, kind, handle, sectors });
    }
}
