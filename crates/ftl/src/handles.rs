//! Placement handles: the reclaim unit that each refers to, how much of it is written, and its events.
//!
//! A handle has an open block in every die, and data that carry it go to no other block. Its reclaim unit is as large as one block of
//! every die. Dies fill at their own pace, so near the end of a unit its data may share a block with the first data of the next one; each
//! block is erased by itself when all of it is invalid.
//!
//! Invariant: `written < unit` for every handle. With one handle nothing is counted.

use crate::translation::Stream;
use pellucid_flash::{Layout, PlacementEventKind};

/// Most pending events; further ones are dropped.
const EVENTS_MAX: usize = 4096;

/// An event without its time: translation has no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleEvent {
    /// Kind of event.
    pub kind: PlacementEventKind,
    /// The handle concerned.
    pub handle: u16,
    /// Units concerned.
    pub units: u64,
}

/// The placement handles of a drive.
#[derive(Clone, Debug)]
pub struct Handles {
    /// Units written to the reclaim unit that each handle refers to.
    written: Vec<u64>,
    /// Units of a reclaim unit.
    unit: u64,
    superpage: u64,
    events: Vec<HandleEvent>,
}

impl Handles {
    /// Creates `count` handles with nothing written.
    pub(crate) fn new(count: u16, layout: &Layout) -> Handles {
        Handles {
            written: vec![0; count.into()],
            unit: u64::from(layout.dies) * u64::from(layout.units_per_block),
            superpage: layout.units_per_superpage.into(),
            events: Vec::new(),
        }
    }

    /// Number of handles; 1: no placement by the host.
    #[inline]
    pub fn count(&self) -> u16 {
        self.written.len() as u16
    }

    /// Mapping units of a reclaim unit.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Units that the reclaim unit of `handle` can still take.
    pub fn remaining(&self, handle: u16) -> u64 {
        self.unit - self.written[usize::from(handle)]
    }

    /// Returns whether [`Handles::take_events`] has events to return.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> std::vec::Drain<'_, HandleEvent> {
        self.events.drain(..)
    }

    fn note(&mut self, kind: PlacementEventKind, handle: u16, units: u64) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(HandleEvent { kind, handle, units });
        }
    }

    /// Counts a planned superpage of `stream`.
    pub(crate) fn wrote(&mut self, stream: Stream) {
        let handle = match stream {
            Stream::Host | Stream::HostCold => 0,
            Stream::Placed(handle) => handle,
            _ => return,
        };
        let written = &mut self.written[usize::from(handle)];
        *written += self.superpage;
        if *written >= self.unit {
            *written -= self.unit;
            self.note(PlacementEventKind::NextUnit, handle, 0);
        }
    }

    /// Records that a block of `owner` with this many valid units became a victim.
    pub(crate) fn moved(&mut self, owner: u16, units: u32) {
        self.note(PlacementEventKind::Reallocated, owner, units.into());
    }

    /// Lets `handle` refer to a new reclaim unit; `false`: it does so already.
    pub(crate) fn leave_unit(&mut self, handle: u16) -> bool {
        let written = std::mem::take(&mut self.written[usize::from(handle)]);
        if written > 0 {
            self.note(PlacementEventKind::UnitNotFull, handle, self.unit - written);
        }
        written > 0
    }

    /// Sets, at a mount, how many superpages of its reclaim unit `handle` has written.
    pub(crate) fn restore(&mut self, handle: u16, superpages: u64) {
        self.written[usize::from(handle)] = superpages * self.superpage;
        self.note(PlacementEventKind::Reset, handle, 0);
    }

    /// Panics where a handle refers to a full unit.
    pub(crate) fn check(&self) {
        for (handle, &written) in self.written.iter().enumerate() {
            assert!(written < self.unit, "handle {handle} refers to a unit that is full");
        }
    }
}
