//! Independent plane reads: each plane of a die senses a page of its own choice, while other planes sense or wait for the channel.
//!
//! ```text
//!  host reads ──────────────────────► reads of the plane ─┐
//!  queue of the die ─┬─ read ───────► later of the plane ─┴─► plane idle ─► command ─► sense ─► data out
//!                    └─ program, erase, copyback ─► all planes idle, none has later ones ─► the whole die
//! ```
//! Each plane is an entry of `Scheduler::dies`; the first one of a die also has the die's queue, and carries what takes the whole
//! die. The planes share the die's channel, so data never leave faster than it carries them.
//!
//! Reads that go ahead would keep a program out for ever if it waited until all planes happen to be idle at once. Without
//! independent planes it begins when the die has ended a read and no other one waits. So here: from the moment at which a plane
//! has ended a read and has no other one, the die drains: no plane begins one that goes ahead until the program has begun, or
//! was resumed. It may then be suspended for them.
//!
//! Invariants: a program, erase or copyback works only while no plane reads; the order of the die's queue holds between these and
//! the reads of that queue.

use super::{OpKind, Phase, Scheduler};
use crate::events::Events;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Layout, Ppa, SimTime};
use pellucid_media::MediaConfig;

/// Mapping from units to planes, and the number of planes of a die that read by themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaneUnits {
    planes: u32,
    units_per_page: u32,
    /// Units after which the planes repeat, page by page in a superpage; without multi-plane operation, block by block.
    units_per_turn: u32,
}

impl PlaneUnits {
    pub fn new(media: &MediaConfig, layout: &Layout) -> PlaneUnits {
        let geometry = &media.geometry;
        let units_per_page = match geometry.multi_plane {
            true => (geometry.page_bytes / layout.unit_bytes).max(1),
            false => layout.units_per_block,
        };
        let planes = if media.independent_plane_reads { geometry.planes } else { 1 };
        PlaneUnits { planes, units_per_page, units_per_turn: units_per_page * planes }
    }

    pub fn planes(self) -> u32 {
        self.planes
    }

    fn plane_of(self, ppa: Ppa) -> u32 {
        ppa.0 % self.units_per_turn / self.units_per_page
    }
}

impl Scheduler {
    /// Records and returns the queue of `op`.
    #[inline(always)]
    pub(super) fn assign(&mut self, op: u32) -> u32 {
        let record = &mut self.ops[op];
        record.plane = record.die;
        if self.planes > 1 {
            record.plane *= self.planes;
            if record.kind == OpKind::Read {
                record.plane += self.plane_units.plane_of(record.ppa);
            }
        }
        record.plane
    }

    /// Returns whether a read that goes ahead waits for the die whose first plane is `first`.
    #[inline(always)]
    pub(super) fn reads_wait(&self, first: u32) -> bool {
        let first = first as usize;
        self.dies[first..first + self.planes as usize].iter().any(|plane| !plane.reads.is_empty())
    }

    /// `plane` has ended its operation, or what took its whole die.
    pub(super) fn plane_is_idle(&mut self, plane: u32) {
        let d = &self.dies[plane as usize];
        let (first, read_all) = (d.first, d.reads.is_empty() && d.later.is_empty());
        let d = &mut self.dies[first as usize];
        d.draining |= !d.whole && read_all && (d.suspended != NIL || !d.rest.is_empty());
        d.whole = false;
    }

    /// A plane has ended its operation, or was given one.
    #[inline]
    pub(super) fn kick_plane(&mut self, now: SimTime, plane: u32, events: &mut Events) {
        let first = self.dies[plane as usize].first;
        let d = &self.dies[first as usize];
        if d.settled && d.rest.is_empty() {
            self.begin_read(now, plane, false, events);
        } else {
            self.kick_planes(now, first, events);
        }
    }

    /// An idle plane takes its next read, if it has one; whether it is idle still. `draining`: none that goes ahead of others.
    #[inline]
    fn begin_read(&mut self, now: SimTime, plane: u32, draining: bool, events: &mut Events) -> bool {
        let d = &mut self.dies[plane as usize];
        if d.phase != Phase::Idle {
            return false;
        }
        let ahead = if draining { None } else { d.reads.pop(&mut self.ops) };
        d.hurries = ahead.is_some();
        if let Some(op) = ahead.or_else(|| d.later.pop(&mut self.ops)) {
            self.begin(now, plane, op, events);
        }
        self.dies[plane as usize].phase == Phase::Idle
    }

    /// Idle planes of a die take their next reads, or all together what takes the whole die.
    fn kick_planes(&mut self, now: SimTime, first: u32, events: &mut Events) {
        if self.dies[first as usize].whole {
            return;
        }
        self.hand_out_reads(first);
        let draining = self.dies[first as usize].draining;
        let mut idle = true;
        for plane in first..first + self.planes {
            idle &= self.begin_read(now, plane, draining, events);
        }
        let d = &mut self.dies[first as usize];
        d.settled = !draining && d.suspended == NIL && d.rest.is_empty();
        if !idle {
            return;
        }
        if d.suspended != NIL {
            (d.whole, d.draining) = (true, false);
            self.resume(now, first, events);
        } else if let Some(op) = d.rest.pop(&mut self.ops) {
            (d.whole, d.draining, d.hurries) = (true, false, false);
            self.begin(now, first, op, events);
        }
    }

    /// Reads at the head of a die's queue go to their planes: nothing is left that they have to wait for.
    fn hand_out_reads(&mut self, first: u32) {
        if self.dies[first as usize].suspended != NIL {
            return;
        }
        while let Some(op) = self.dies[first as usize].rest.first() {
            if self.ops[op].kind != OpKind::Read {
                return;
            }
            self.dies[first as usize].rest.pop(&mut self.ops);
            let plane = self.ops[op].plane;
            self.dies[plane as usize].later.push_back(&mut self.ops, op);
        }
    }
}
