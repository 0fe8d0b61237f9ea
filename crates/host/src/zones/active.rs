//! The drive's limit on active zones: a write that would make one too many active waits until another is full, finished or reset.
//!
//! The layer above keeps to few lines at a time, so this is rare: only lines that have failed, and wait to be finished, come
//! on top. If nothing is under way that could end an active zone, the write fails, and is written elsewhere.

use super::{Purpose, ZoneChunks};
use pellucid_flash::{Nanos, Opcode, SimTime, Status, ZoneInfo, ZoneState};
use std::collections::VecDeque;

/// Time for the layer above to finish or reset a zone, after the last command to the drive has ended.
const PATIENCE: Nanos = Nanos(1_000);

#[derive(Clone, Debug)]
pub(super) struct Active {
    zones: Vec<bool>,
    count: u32,
    /// 0: no limit.
    max: u32,
    /// Writes that wait, oldest first.
    held: VecDeque<u32>,
    /// When the oldest of them fails, unless something is under way by then.
    pub gives_up: Option<SimTime>,
}

impl Active {
    pub fn new(zones: u32, max: u32) -> Active {
        let zones = vec![false; zones as usize];
        Active { zones, count: 0, max, held: VecDeque::new(), gives_up: None }
    }

    fn set(&mut self, zone: u32, active: bool) {
        let before = std::mem::replace(&mut self.zones[zone as usize], active);
        self.count = self.count + u32::from(active) - u32::from(before);
    }

    fn may_write(&self, zone: u32) -> bool {
        self.zones[zone as usize] || self.max == 0 || self.count < self.max
    }

    /// What the drive says of its zones.
    pub fn learn(&mut self, infos: &[ZoneInfo]) {
        for (zone, info) in (0..).zip(infos) {
            let state = info.state;
            self.set(
                zone,
                matches!(state, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed),
            );
        }
    }
}

impl ZoneChunks {
    /// Sends a write, or lets it wait.
    pub(super) fn write_or_hold(&mut self, op: u32) {
        let zone = self.zone_of_op(op);
        if !self.active.held.is_empty() || !self.active.may_write(zone) {
            self.active.held.push_back(op);
            return self.watch_held();
        }
        self.active.set(zone, true);
        self.start_write(op);
    }

    fn zone_of_op(&self, op: u32) -> u32 {
        self.shape.place(self.command(op).lba).expect("checked at submission").zone
    }

    /// A write or an action on a zone has ended.
    pub(super) fn note_end(&mut self, op: u32, purpose: Purpose, status: Status) {
        if purpose != Purpose::Whole {
            return self.watch_held();
        }
        let command = self.command(op);
        let filled = self.shape.chunks.address(command.lba).is_some_and(|address| {
            address.sector + command.sectors == self.shape.chunks.chunk_sectors && status == Status::Success
        });
        // An action that a zone refuses finds it out of use.
        if command.opcode != Opcode::Write || filled {
            let zone = self.zone_of_op(op);
            self.active.set(zone, false);
        }
        self.send_held();
    }

    fn send_held(&mut self) {
        while let Some(&op) = self.active.held.front() {
            let zone = self.zone_of_op(op);
            if !self.active.may_write(zone) {
                break;
            }
            self.active.held.pop_front();
            self.active.set(zone, true);
            self.start_write(op);
        }
        self.watch_held();
    }

    /// No write waits for ever.
    fn watch_held(&mut self) {
        let stuck = !self.active.held.is_empty() && self.under_way == 0;
        self.active.gives_up = stuck.then(|| self.now + PATIENCE);
    }

    pub(super) fn give_up(&mut self) {
        self.active.gives_up = None;
        if self.under_way == 0
            && let Some(op) = self.active.held.pop_front()
        {
            self.finish(op, Status::ChunkWriteFailed);
            self.send_held();
        }
    }
}
