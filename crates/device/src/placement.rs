//! Data placement: commands about handles, and what a host may learn of their reclaim units.
//!
//! Where written data go is translation's; a write's handle travels with its buffer entry (`Entry::handle`) and picks the packer
//! that fills a stripe. Here stand the rest: handle status ([`Opcode::Report`]), a new unit ([`Opcode::NextUnit`]), events and
//! statistics. With one handle there is no placement, and both commands are refused. A write that names a handle that there is not
//! goes to handle 0, as a host's data are not refused for a hint. Events are kept of the kinds that a host has enabled before they
//! happen; at first of none.

use crate::device::Device;
use crate::firmware::Task;
use pellucid_flash::{
    Command, HandleInfo, Opcode, PlacementEvent, PlacementEventKind, PlacementGeometry, Status,
};
use pellucid_ftl::{HandleEvent, Isolation};
use std::collections::VecDeque;

/// Events kept for a host to read; older ones are dropped.
const EVENTS_MAX: usize = 1024;

/// What happened to handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    events: VecDeque<PlacementEvent>,
    /// A [bit](PlacementEventKind::bit) for each kind of event that is kept.
    enabled: u8,
    /// What the drive's counters have of its other namespaces.
    pub beside: Beside,
    /// Commands of the block namespace that ended with success, since the counters were last reset.
    pub commands: HostCommands,
}

/// Commands of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCommands {
    pub reads: u64,
    pub writes: u64,
}

/// What was written and erased for namespaces that have no placement, since the counters were last reset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    pub read_sectors: u64,
    pub host_sectors: u64,
    pub programmed_sectors: u64,
    pub erases: u64,
}

/// What placement is judged by; the write amplification is `media_bytes / host_bytes`.
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

impl Device {
    /// What a host knows of placement; `None` where the drive has one handle, which is no placement.
    pub fn placement(&self) -> Option<PlacementGeometry> {
        (self.ftl.handles() > 1).then(|| PlacementGeometry {
            handles: self.ftl.handles(),
            unit_bytes: self.ftl.reclaim_units() * u64::from(self.layout.unit_bytes),
            persistent: self.config.ftl.isolation == Isolation::Persistent,
        })
    }

    /// State of a handle; `None` if there is no such handle.
    pub fn handle_info(&self, handle: u16) -> Option<HandleInfo> {
        (handle < self.ftl.handles()).then(|| HandleInfo {
            handle,
            remaining_sectors: self.ftl.handle_remaining(handle) * u64::from(self.layout.sectors_per_unit),
        })
    }

    /// What happened to handles, oldest first; the newest 1024.
    pub fn placement_events(&self) -> impl DoubleEndedIterator<Item = &PlacementEvent> {
        self.placement.events.iter()
    }

    /// Kinds of events that are kept, a [bit](PlacementEventKind::bit) for each.
    pub fn enabled_placement_events(&self) -> u8 {
        self.placement.enabled
    }

    /// From now on events of these kinds are kept, and no others.
    pub fn enable_placement_events(&mut self, kinds: u8) {
        self.placement.enabled = kinds;
    }

    /// What was written, erased and read for the block namespace since the counters were last reset.
    pub fn placement_statistics(&self) -> PlacementStatistics {
        let (counters, beside, commands) = (self.counters(), self.placement.beside, self.placement.commands);
        let sector = u64::from(self.layout.sector_bytes);
        let block = u64::from(self.layout.units_per_block) * u64::from(self.layout.unit_bytes);
        PlacementStatistics {
            host_bytes: (counters.host_written_sectors - beside.host_sectors) * sector,
            media_bytes: (counters.programmed_sectors.iter().sum::<u64>() - beside.programmed_sectors)
                * sector,
            erased_bytes: (counters.erases.iter().sum::<u64>() - beside.erases) * block,
            read_bytes: (counters.host_read_sectors - beside.read_sectors) * sector,
            reads: commands.reads,
            writes: commands.writes,
        }
    }

    /// Why a command about handles, or with one, cannot be done.
    pub(crate) fn refuse_placement(&self, command: &Command) -> Option<Status> {
        let handles = self.ftl.handles();
        match command.opcode {
            Opcode::Report | Opcode::NextUnit if handles < 2 => Some(Status::InvalidOpcode),
            Opcode::Report => {
                let end = command.lba.0.checked_add(command.sectors.into());
                end.is_none_or(|end| end > handles.into()).then_some(Status::LbaOutOfRange)
            }
            _ => (command.handle >= handles).then_some(Status::InvalidField),
        }
    }

    /// Gives handle 0 to a write that names one that does not exist.
    #[inline]
    pub(crate) fn settle_handle(&mut self, command: &mut Command) {
        if command.handle > 0 && command.handle >= self.ftl.handles() {
            self.invalid_handle(command);
        }
    }

    #[cold]
    fn invalid_handle(&mut self, command: &mut Command) {
        if self.ftl.handles() < 2 || command.namespace != self.block_namespace {
            return;
        }
        let kind = PlacementEventKind::InvalidHandle;
        self.note_event(HandleEvent { kind, handle: command.handle, units: 0 });
        if matches!(command.opcode, Opcode::Write | Opcode::WriteZeroes) {
            command.handle = 0;
        }
    }

    pub(crate) fn start_report(&mut self, work: u32) {
        let command = &self.works[work].command;
        let (first, count) = (command.lba.0 as u16, command.sectors as u16);
        let mut data = std::mem::take(&mut self.works[work].command.data);
        data.clear();
        let infos = (first..first + count).filter_map(|handle| self.handle_info(handle));
        infos.for_each(|info| info.encode(&mut data));
        self.works[work].command.data = data;
        self.ask(Task::Complete(work));
    }

    pub(crate) fn start_next_unit(&mut self, work: u32) {
        self.ftl.next_unit(self.works[work].command.handle);
        self.note_handle_events();
        self.ask(Task::Complete(work));
    }

    /// Gives the time to what happened in translation.
    #[cold]
    pub(crate) fn note_handle_events(&mut self) {
        let events: Vec<HandleEvent> = self.ftl.take_handle_events().collect();
        events.into_iter().for_each(|event| self.note_event(event));
    }

    fn note_event(&mut self, event: HandleEvent) {
        if self.placement.enabled & event.kind.bit() == 0 {
            return;
        }
        if self.placement.events.len() == EVENTS_MAX {
            self.placement.events.pop_front();
        }
        let HandleEvent { kind, handle, units } = event;
        let sectors = units * u64::from(self.layout.sectors_per_unit);
        self.placement.events.push_back(PlacementEvent { at: self.now, kind, handle, sectors });
    }
}
