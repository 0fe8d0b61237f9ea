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
//! Reads with priority would starve a program that waited until all planes happen to be idle at once. Without independent planes,
//! a program begins when the die has ended a read and no other read waits. Here, correspondingly, the die starts to drain when a
//! plane has ended a read and has no other: until the program has begun or been resumed, no plane begins a read with priority. The
//! program may then be suspended for such reads.
//!
//! Invariants: a program, erase or copyback works only while no plane reads; the order of the die's queue holds between these and
//! the reads of that queue.

use super::Scheduler;
use super::die::Die;
use super::issuer::Issuer;
use super::operation::{FlashOp, OpKind};
use crate::events::Events;
use pellucid_flash::{Layout, SimTime};
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

    /// The plane whose queue an operation joins: that which it reads, or the first of its die.
    #[inline]
    pub fn queue_of(self, op: &FlashOp) -> u32 {
        let plane = match op.kind {
            OpKind::Read => op.ppa.0 % self.units_per_turn / self.units_per_page,
            OpKind::Program | OpKind::Erase | OpKind::Copyback => 0,
        };
        op.die * self.planes + plane
    }
}

/// Notes that `plane` has ended its operation, or the one that took its whole die.
pub(super) fn is_idle(dies: &mut [Die], plane: u32) {
    let d = &dies[plane as usize];
    let (first, read_all) = (d.first(), !d.has_hurried() && !d.has_for_plane());
    let d = &mut dies[first as usize];
    let waits = d.has_suspended() || d.first_waiting().is_some();
    d.planes.rest(read_all && waits);
}

/// A plane has ended its operation, or was given one.
#[inline]
pub(super) fn kick<I: Issuer>(scheduler: &mut Scheduler, now: SimTime, plane: u32, events: &mut Events) {
    let first = scheduler.dies[plane as usize].first();
    let d = &scheduler.dies[first as usize];
    if d.planes.are_settled() && d.first_waiting().is_none() {
        begin_read::<I>(scheduler, now, plane, false, events);
    } else {
        kick_all::<I>(scheduler, now, first, events);
    }
}

/// Starts the next read of an idle plane, if any, and returns whether the plane is still idle. `draining`: starts no read
/// with priority.
#[inline]
fn begin_read<I: Issuer>(
    scheduler: &mut Scheduler,
    now: SimTime,
    plane: u32,
    draining: bool,
    events: &mut Events,
) -> bool {
    let d = &mut scheduler.dies[plane as usize];
    if !d.is_idle() {
        return false;
    }
    let ahead = if draining { None } else { d.pop_hurried(&mut scheduler.ops) };
    d.set_hurries(ahead.is_some());
    if let Some(op) = ahead.or_else(|| d.pop_for_plane(&mut scheduler.ops)) {
        scheduler.begin::<I>(now, plane, op, events);
    }
    scheduler.dies[plane as usize].is_idle()
}

/// Starts the next reads of a die's idle planes, or an operation on the whole die when all are
/// idle.
fn kick_all<I: Issuer>(scheduler: &mut Scheduler, now: SimTime, first: u32, events: &mut Events) {
    if scheduler.dies[first as usize].planes.are_whole() {
        return;
    }
    hand_out_reads(scheduler, first);
    let draining = scheduler.dies[first as usize].planes.drain();
    let mut idle = true;
    for plane in first..first + scheduler.planes {
        idle &= begin_read::<I>(scheduler, now, plane, draining, events);
    }
    let d = &mut scheduler.dies[first as usize];
    let is_settled = !draining && !d.has_suspended() && d.first_waiting().is_none();
    d.planes.settle(is_settled);
    if !idle {
        return;
    }
    if d.has_suspended() {
        d.planes.take_whole();
        scheduler.resume::<I>(now, first, events);
    } else if let Some(op) = d.pop(&mut scheduler.ops) {
        d.planes.take_whole();
        d.set_hurries(false);
        scheduler.begin::<I>(now, first, op, events);
    }
}

/// Moves reads at the head of a die's queue to their planes, because they no longer have to wait for
/// an earlier operation.
fn hand_out_reads(scheduler: &mut Scheduler, first: u32) {
    let Scheduler { ops, dies, .. } = scheduler;
    if dies[first as usize].has_suspended() {
        return;
    }
    while let Some(op) = dies[first as usize].first_waiting() {
        if ops[op].kind != OpKind::Read {
            return;
        }
        dies[first as usize].pop(ops);
        dies[ops[op].plane as usize].wait_for_plane(ops, op);
    }
}
