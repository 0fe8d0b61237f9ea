//! Limit of the drive on active zones: a write that would exceed it waits until another zone is full,
//! finished or reset.
//!
//! The layer above writes only a few lines at a time, so waiting is rare: only failed lines that wait to be
//! finished exceed these. If no command that could end an active zone is under way, the write fails, and its
//! data are written elsewhere.

use super::{Purpose, ZoneChunks};
use pellucid_flash::{Nanos, Opcode, SimTime, Status, ZoneInfo, ZoneState};
use std::collections::VecDeque;

/// Time that the layer above has to finish or reset a zone, after the last command to the drive has ended.
const PATIENCE: Nanos = Nanos(1_000);

#[derive(Clone, Debug)]
pub(super) struct Active {
    zones: Vec<bool>,
    count: u32,
    /// Maximum number of active zones; 0: no limit.
    max: u32,
    /// Waiting writes, oldest first.
    held: VecDeque<u32>,
    /// Time at which the oldest waiting write fails, unless a command is in flight by then.
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

    /// Notes the active zones that a report lists.
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
    /// Sends a write, or queues it.
    pub(super) fn write_or_hold(&mut self, op: u32) {
        let zone = self.zone_of_op(op);
        if !self.active.held.is_empty() || !self.active.may_write(zone) {
            self.active.held.push_back(op);
            return self.watch_held();
        }
        self.active.set(zone, true);
        self.start_write(op);
    }

    /// Updates the active zones after a write or a zone action has ended.
    pub(super) fn note_end(&mut self, op: u32, purpose: Purpose, status: Status) {
        if purpose != Purpose::Whole {
            return self.watch_held();
        }
        let command = self.command(op);
        let filled = self.shape.chunks.address(command.lba).is_some_and(|address| {
            address.sector + command.sectors == self.shape.chunks.chunk_sectors && status == Status::Success
        });
        // If a zone refuses the action, it is already out of use.
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

    /// Starts the timer that fails a waiting write if nothing else is in flight.
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
