//! Flushes of a buffer with a journal: all waiting flushes form one group with one record.

use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::journal::{Due, Flushes};
use crate::cluster_buffer::port::Purpose;
use crate::cluster_buffer::table::{Cluster, State};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Completion, SimTime, Status};

/// Decides once for a group whether its small clusters are drained or journalled.
#[inline]
pub(in crate::cluster_buffer) fn decide_way(core: &mut Core) {
    let Some(barrier) = core.requests.last_barrier() else { return };
    if !core.journal.as_ref().is_some_and(|journal| journal.may_choose()) {
        return;
    }
    let is_due = |cluster: &Cluster| cluster.oldest <= barrier && core.is_small(cluster);
    let (mut clusters, mut sectors) = (0, 0);
    for (slot, _) in core.table.used().filter(|(_, cluster)| is_due(cluster)) {
        clusters += 1;
        sectors += core.table.unjournalled(slot);
    }
    core.its_journal().choose(clusters, sectors);
}

/// Begins the next group, once all clusters that are not for the journal have left.
pub(in crate::cluster_buffer) fn go_on(core: &mut Core) {
    let Some(journal) = &core.journal else { return };
    let stops = core.ends.is_draining() && core.is_empty();
    // A paused buffer that is empty needs no journal.
    let ends = core.ends.is_paused()
        && core.ends.pause_failure().is_none()
        && core.table.held() == 0
        && journal.brings_back(0, u64::MAX);
    let count = core.requests.flushes();
    if !journal.is_ready() || !journal.is_gathering() || (count == 0 && !stops && !ends) {
        return;
    }
    let barrier = core.requests.last_barrier().unwrap_or(0);
    let (mut refused, mut waits) = (false, false);
    for (_, cluster) in core.table.used() {
        let keeps_space = journal.is_short() && journal.presses(cluster.number);
        if cluster.oldest <= barrier || keeps_space {
            match cluster.state {
                State::Failed => refused = true,
                State::Resident
                    if !keeps_space && core.is_for_journal(cluster) && !core.is_blocked(cluster.number) => {}
                _ => waits = true,
            }
        }
    }
    if waits {
        return;
    }
    let flushes = Flushes { barrier, count };
    if refused {
        return end(core, flushes, Status::WriteFault);
    }
    if stops && count == 0 {
        core.ends.flush();
    }
    core.its_journal().flush(flushes);
    core.send_flush(NIL, Purpose::GroupFlush);
}

/// Continues a group after the flush of the data that left the buffer before it.
pub(in crate::cluster_buffer) fn flushed(core: &mut Core, status: Status) {
    let Core { journal, table, .. } = &mut *core;
    let journal = journal.as_mut().expect("a group");
    // A cluster whose remaining sectors will be journalled again stays named until the record with these
    // sectors.
    let is_due = |number: u64, flushes: Flushes| {
        table.slot(number).is_some_and(|slot| table.cluster(slot).oldest <= flushes.barrier)
    };
    let flushes = journal.flushed(status == Status::Success, is_due);
    match status {
        Status::Success => append(core, flushes),
        _ => end(core, flushes, status),
    }
}

/// Writes a record of the due clusters, if there are any or the newest record is stale.
fn append(core: &mut Core, flushes: Flushes) {
    let may = |cluster: &Cluster| cluster.oldest <= flushes.barrier && cluster.state == State::Resident;
    let due = core.table.used().filter(|(_, cluster)| may(cluster));
    let due: Vec<Due> = due.map(|(slot, cluster)| Due { slot, cluster: cluster.number }).collect();
    let journal = core.its_journal();
    if due.is_empty() && !journal.is_stale() {
        return after_record(core, flushes);
    }
    if !due.is_empty() && journal.is_short() {
        return journal.gather();
    }
    let (taken, extents, sectors) = extents_of(core, due);
    let now = core.port.now();
    let mut draft = core.its_journal().place(&taken, sectors, extents, now);
    let mut from = draft.from;
    for due in &taken {
        from += core.table.copy_unjournalled(due.slot, &mut draft.data[from..]);
        core.table.journal(due.slot);
    }
    core.counters.journalled(draft.sectors, taken.len());
    let write = core.its_journal().seal(draft);
    let cost = core.port.sectors_cost(sectors.into());
    core.port.send(NIL, Purpose::Append, cost, write);
}

/// Returns as many of the due clusters as go into one record, the extents of their sectors, and the number of these.
fn extents_of(core: &Core, due: Vec<Due>) -> (Vec<Due>, Vec<(u64, u64)>, u32) {
    let cluster_sectors = core.setup.shape.cluster_sectors;
    let (mut taken, mut extents, mut sectors) = (Vec::new(), Vec::new(), 0);
    for due in due {
        let held = core.table.unjournalled(due.slot);
        if !taken.is_empty() && sectors + held > cluster_sectors {
            break;
        }
        sectors += held;
        let first = due.cluster * u64::from(cluster_sectors);
        let mut from = 0;
        while let Some((at, count)) = core.table.unjournalled_run(due.slot, from) {
            extents.push((first + u64::from(at), u64::from(count)));
            from = at + count;
        }
        taken.push(due);
    }
    (taken, extents, sectors)
}

/// Ends the write of a record.
pub(in crate::cluster_buffer) fn appended(core: &mut Core, completion: Completion) {
    let (ok, now) = (completion.status == Status::Success, core.port.now());
    let ended = core.its_journal().appended(completion.data, ok, now);
    let Some(failed) = ended.failed else { return after_record(core, ended.flushes) };
    core.counters.journal_failed();
    let size = u64::from(core.setup.shape.cluster_sectors);
    for first in failed {
        if let Some(slot) = core.table.slot(first / size) {
            core.table.unjournal(slot);
        }
    }
    end(core, ended.flushes, Status::WriteFault);
}

/// Ends a group, unless a record has left some of its clusters for another one.
fn after_record(core: &mut Core, flushes: Flushes) {
    if core.table.used().any(|(_, cluster)| cluster.oldest <= flushes.barrier) {
        return core.its_journal().gather();
    }
    end(core, flushes, Status::Success);
}

/// Answers the flushes of a group.
fn end(core: &mut Core, flushes: Flushes, status: Status) {
    core.its_journal().gather();
    for _ in 0..flushes.count {
        let op = core.requests.next_flush().expect("a flush of the group");
        core.finish(op, status);
    }
    if flushes.count > 0 {
        return;
    }
    if core.ends.is_paused() && status != Status::Success {
        let why = "the device refuses a flush, so a start may bring back older data from the journal";
        core.ends.fail_pause(why);
    }
    if status == Status::Success {
        core.ends.flushed();
    }
}

/// Notes that a cluster left the buffer in an eviction that began at `began`.
pub(super) fn leave(core: &mut Core, cluster: u64, hurried: bool, began: SimTime) {
    let took = core.port.now() - began;
    let asked = core.timer.was_asked_since(began);
    if let Some(journal) = &mut core.journal {
        journal.evicted(cluster, took, hurried, asked);
    }
}

/// Takes clusters with newer data on the drive out of the journal; their remaining sectors
/// in the buffer are journalled again.
pub(super) fn take_out(core: &mut Core, first: u64, last: u64) {
    let Some(journal) = &mut core.journal else { return };
    for number in journal.take_out(first, last) {
        if let Some(slot) = core.table.slot(number) {
            core.table.unjournal(slot);
        }
    }
}
