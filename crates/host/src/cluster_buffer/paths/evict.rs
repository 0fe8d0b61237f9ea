//! Evictions: the choice of a cluster, its time, and its path to the drive ([`Evictions`](crate::cluster_buffer::evictions::Evictions)).

use super::group;
use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::port::Purpose;
use crate::cluster_buffer::table::Cluster;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, SimTime, Status};

/// Returns the time of the next eviction that no command asks for.
#[inline]
pub(in crate::cluster_buffer) fn due(core: &Core) -> Option<SimTime> {
    if core.table.held() == 0 || core.evictions.free_place().is_none() {
        return None;
    }
    core.timer.due()
}

/// Begins an eviction if one is due and possible. Returns whether it has begun.
#[inline]
pub(in crate::cluster_buffer) fn start(core: &mut Core) -> bool {
    if core.table.held() == 0 {
        return false;
    }
    let Some(free) = core.evictions.free_place() else { return false };
    let Some(slot) = choose(core) else { return false };
    begin(core, free, slot);
    true
}

/// Chooses the next cluster to evict; `None` if none is due, or none can be evicted.
fn choose(core: &mut Core) -> Option<u32> {
    if let Some(barrier) = core.barrier() {
        let residents = core.residents();
        let due = residents.filter(|(_, cluster)| cluster.oldest <= barrier && !core.is_for_journal(cluster));
        if let Some((slot, _)) = due.min_by_key(|(_, cluster)| cluster.number) {
            return Some(slot);
        }
    }
    let now = core.port.now();
    if core.timer.take_aged(now) {
        // If none can be evicted now, the end of an eviction or of a bypass tries again.
        let old = core.residents().filter(|(_, cluster)| core.timer.is_too_old(cluster, now));
        if let Some((slot, _)) = old.min_by_key(|(_, cluster)| cluster.since) {
            return Some(slot);
        }
    }
    if let Some(journal) = &core.journal {
        let mut residents = core.residents();
        if let Some((slot, _)) = residents.find(|(_, cluster)| journal.presses(cluster.number)) {
            return Some(slot);
        }
    }
    let idle = core.timer.is_idle(now);
    if !idle && !lacks_space(core) {
        return None;
    }
    let early = core.setup.config.early_retirement;
    let retires = |cluster: &Cluster| early && core.table.is_full(cluster);
    let victim = core.residents().min_by_key(|(_, cluster)| (!retires(cluster), cluster.stamp));
    let victim = victim.map(|(slot, _)| slot);
    if idle && victim.is_none() {
        core.timer.rest();
    }
    victim
}

/// Reports whether a write waits for space.
fn lacks_space(core: &Core) -> bool {
    core.requests.first_waiting().is_some_and(|op| {
        core.requests.is_buffered(op) && core.table.is_exhausted() && !core.is_passed_by(op)
    })
}

fn begin(core: &mut Core, at: u32, slot: u32) {
    core.table.begin_eviction(slot);
    core.find_age();
    let cluster = *core.table.cluster(slot);
    let first = Lba(cluster.number * u64::from(core.setup.shape.cluster_sectors));
    let missing = core.table.missing(slot);
    core.counters.evicted(missing.is_none());
    let (moment, hurried) = (core.clock.tick(), is_hurried(core, &cluster));
    let from = missing.map_or(0, |(from, _)| from);
    core.evictions.begin(at, slot, core.port.now(), hurried, moment, from);
    match missing {
        Some((from, count)) if core.setup.config.padding && !hurried => {
            core.counters.padded(count);
            let buffer = core.port.buffer(count as usize);
            let read = Command::new(0, Opcode::Read, Lba(first.0 + u64::from(from)), count, buffer);
            core.port.send(NIL, Purpose::Pad(at), Nanos::ZERO, read);
        }
        Some(_) => write_run(core, at, 0),
        None => {
            let buffer = core.port.buffer(0);
            write_cluster(core, at, buffer);
        }
    }
}

/// Reports whether a flush waits for a cluster with few sectors in the buffer; its runs of sectors are
/// then written alone. A host that flushes often writes little in between, and would otherwise wait each
/// time for a cluster to be read and written.
fn is_hurried(core: &Core, cluster: &Cluster) -> bool {
    core.requests.last_barrier().is_some_and(|barrier| cluster.oldest <= barrier) && core.is_small(cluster)
}

/// Writes the whole cluster after its missing sectors were read.
pub(in crate::cluster_buffer) fn padded(core: &mut Core, at: u32, completion: Completion) {
    let moment = core.clock.tick();
    let from = core.evictions.padded(at, moment);
    let mut buffer = completion.data;
    if completion.status != Status::Success {
        // Sectors that cannot be read are not written.
        core.port.give_back(buffer);
        return write_run(core, at, 0);
    }
    if from > 0 {
        let (read, from) = (buffer.len(), from as usize * core.setup.image_bytes);
        buffer.resize(from + read, 0);
        buffer.copy_within(..read, from);
    }
    write_cluster(core, at, buffer);
}

/// Returns the sectors of a cluster that is being evicted.
fn length(core: &Core, at: u32) -> u32 {
    core.setup.shape.length(core.table.cluster(core.evictions.eviction(at).slot).number)
}

/// Writes a whole cluster; `buffer` has the sectors that the table lacks.
fn write_cluster(core: &mut Core, at: u32, mut buffer: Vec<u8>) {
    let length = length(core, at);
    buffer.resize(length as usize * core.setup.image_bytes, 0);
    write(core, at, 0, length, buffer);
}

/// Writes the next run of sectors of a cluster from `from` on; ends the eviction after the last run.
fn write_run(core: &mut Core, at: u32, from: u32) {
    match core.table.run(core.evictions.eviction(at).slot, from, length(core, at), true) {
        Some((first, count)) => {
            let buffer = core.port.buffer(count as usize);
            write(core, at, first, count, buffer);
        }
        None => reached(core, at),
    }
}

fn write(core: &mut Core, at: u32, first: u32, count: u32, mut buffer: Vec<u8>) {
    let slot = core.evictions.eviction(at).slot;
    core.table.merge(slot, first, &mut buffer);
    core.table.send(slot, first, count);
    core.counters.wrote_cluster(count);
    core.evictions.writes(at, first + count);
    let number = core.table.cluster(slot).number;
    let lba = number * u64::from(core.setup.shape.cluster_sectors) + u64::from(first);
    let cost = core.port.sectors_cost(count.into());
    core.port.send(NIL, Purpose::Run(at), cost, Command::new(0, Opcode::Write, Lba(lba), count, buffer));
}

/// Handles the end of a write of an eviction.
pub(in crate::cluster_buffer) fn run_written(core: &mut Core, at: u32, completion: Completion) {
    core.port.give_back(completion.data);
    let end = core.evictions.written(at);
    if completion.status == Status::Success {
        // A padded cluster has only one run.
        return if end < length(core, at) { write_run(core, at, end) } else { reached(core, at) };
    }
    core.counters.eviction_failed();
    let slot = core.evictions.end(at).slot;
    core.table.refuse(slot);
}

/// Notes that all sent sectors are on the drive.
fn reached(core: &mut Core, at: u32) {
    let moment = core.clock.tick();
    core.evictions.reached(at, moment);
    leave_settled(core);
}

/// Ends the evictions for which no read that may return older data is in flight.
pub(super) fn leave_settled(core: &mut Core) {
    for at in 0..core.evictions.places() as u32 {
        if let Some((slot, moment)) = core.evictions.awaiting(at) {
            let number = core.table.cluster(slot).number;
            if !core.requests.is_read_since_before(moment, number, number) {
                leave(core, at);
            }
        }
    }
}

/// Removes the sent sectors from the buffer; sectors that were written meanwhile stay.
fn leave(core: &mut Core, at: u32) {
    let ended = core.evictions.end(at);
    group::leave(core, core.table.cluster(ended.slot).number, ended.hurried, ended.began);
    core.table.sent_arrived(ended.slot, ended.sent_at, core.port.now());
    core.find_age();
}
