//! Commands that bypass the buffer: forced writes, trims, writes of zeros, writes into ranges that do, and all
//! writes while the buffer is paused.

use super::journal::Journal;
use super::{ClusterBuffer, Purpose, State};
use pellucid_flash::{Command, Completion, Nanos, Opcode, Status};

/// Command that bypasses the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bypass {
    op: u32,
    first: u64,
    last: u64,
    /// Moment at which the drive completed it; reads that began earlier may still return older data.
    done_at: Option<u64>,
}

impl Bypass {
    /// Reports whether a cluster is in its range.
    pub(super) fn has(&self, cluster: u64) -> bool {
        (self.first..=self.last).contains(&cluster)
    }
}

impl ClusterBuffer {
    /// Reports whether a bypassing command under way overlaps this range in a cluster.
    #[inline]
    pub(super) fn is_passed_by(&self, lba: u64, sectors: u32) -> bool {
        if self.bypasses.is_empty() {
            return false;
        }
        let (first, last) = self.clusters(lba, sectors);
        self.bypasses.iter().any(|bypass| bypass.first <= last && first <= bypass.last)
    }

    /// Returns the first and the last cluster of a range.
    pub(super) fn clusters(&self, lba: u64, sectors: u32) -> (u64, u64) {
        let size = u64::from(self.shape.cluster_sectors);
        (lba / size, (lba + u64::from(sectors) - 1) / size)
    }

    /// Reports whether a cluster must not be evicted now, because a command bypasses it or is the next to do
    /// so.
    pub(super) fn is_blocked(&self, cluster: u64) -> bool {
        let next = self.waiting.front().filter(|&&op| !self.ops[op].buffered);
        let next = next.map(|&op| self.command(op));
        let next = next.map(|command| self.clusters(command.lba.0, command.sectors));
        next.is_some_and(|(first, last)| (first..=last).contains(&cluster))
            || self.bypasses.iter().any(|bypass| bypass.has(cluster))
    }

    /// Sends a command past the buffer. Returns `false` if it has to wait.
    pub(super) fn start_bypass(&mut self, op: u32) -> bool {
        let Command { lba, sectors, .. } = *self.command(op);
        let (first, last) = self.clusters(lba.0, sectors);
        let evicts = |slot: u32| {
            let cluster = self.table.cluster(slot);
            cluster.state == State::Evicting && (first..=last).contains(&cluster.number)
        };
        let pinned = |number: u64| {
            let slot = self.table.slot(number);
            slot.is_some_and(|slot| self.is_pinned(self.table.cluster(slot)))
        };
        if self.is_passed_by(lba.0, sectors)
            || (self.journal.is_some() && (first..=last).any(pinned))
            || self.evictions.iter().flatten().any(|eviction| evicts(eviction.slot))
        {
            return false;
        }
        self.counters.bypassed += 1;
        self.bypasses.push(Bypass { op, first, last, done_at: None });
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let data = std::mem::take(&mut command.data);
        let down = Command { fua: command.fua, ..Command::new(0, command.opcode, lba, sectors, data) };
        self.send(op, Purpose::Bypass, Nanos::ZERO, down);
        true
    }

    pub(super) fn bypass_ended(&mut self, op: u32, completion: Completion) {
        self.ops[op].command.as_mut().expect("a command under way").data = completion.data;
        if completion.status == Status::Success {
            self.stamp += 1;
            let bypass = self.bypasses.iter_mut().find(|bypass| bypass.op == op).expect("it is under way");
            bypass.done_at = Some(self.stamp);
            return self.settle_bypasses();
        }
        self.bypasses.retain(|bypass| bypass.op != op);
        self.after_bypass(op, completion.status);
    }

    /// Ends the bypasses that the drive completed, once no read that may return older data is under way;
    /// until then the buffer keeps its copies.
    pub(super) fn settle_bypasses(&mut self) {
        while let Some(at) = self.bypasses.iter().position(|bypass| self.is_settled(bypass)) {
            let Bypass { op, .. } = self.bypasses.swap_remove(at);
            let Command { lba, sectors, .. } = *self.command(op);
            self.table.drop_range(lba.0, sectors);
            self.take_from_journal(lba.0, sectors);
            if self.failed > 0 {
                self.failed =
                    self.table.used().filter(|(_, cluster)| cluster.state == State::Failed).count() as u32;
            }
            self.after_bypass(op, Status::Success);
        }
    }

    fn is_settled(&self, bypass: &Bypass) -> bool {
        bypass.done_at.is_some_and(|at| !self.is_read_since_before(at, bypass.first, bypass.last))
    }

    fn after_bypass(&mut self, op: u32, status: Status) {
        self.rested = false;
        self.find_age();
        let Command { opcode, fua, lba, sectors, .. } = *self.command(op);
        let (first, last) = self.clusters(lba.0, sectors);
        let needs_record =
            |journal: &Journal| fua || (opcode == Opcode::Write && journal.brings_back(first, last));
        if status == Status::Success && self.journal.as_deref().is_some_and(needs_record) {
            // The journal may bring back older data until a flush has recorded the change.
            return self.join_flush(op);
        }
        self.finish(op, status);
    }
}
