//! Evictions: the choice of a cluster, its time, and its path to the drive.
//!
//! ```text
//!   Padding ──► Writing ──► (until older reads have ended) ──► gone, but for what was written meanwhile
//!      │           │
//!      └─ error: runs of sectors, each a write    └─ error: refused; all stays in the buffer
//! ```

use super::table::Cluster;
use super::{ClusterBuffer, Purpose, State};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, SimTime, Status};

/// Divisor of a cluster: a flush pads a cluster if the buffer has at least this share of its sectors
/// (docs/explanation/clustering.md says how much that saves).
const HURRIED_SHARE: u64 = 2;

/// Cluster under eviction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eviction {
    /// Slot in the buffer.
    pub slot: u32,
    /// Start of the eviction; `hurried` is set if a flush waits for its few sectors.
    began: SimTime,
    hurried: bool,
    /// Moment at which the first sectors were sent; later writes may be missing from them.
    sent_at: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The missing sectors are being read, from this one on.
    Padding(u32),
    /// Sectors up to this one are being written.
    Writing(u32),
    /// The data reached the drive at this moment; reads that were sent earlier may return older data.
    Awaiting(u64),
}

impl ClusterBuffer {
    /// Returns the time of the next eviction that no command asks for.
    #[inline]
    pub(super) fn due(&self) -> Option<SimTime> {
        if self.table.held() == 0 || self.evictions.iter().all(Option::is_some) {
            return None;
        }
        let idle = self.config.idle_ns.filter(|_| !self.rested).map(|idle| self.last_ask + idle);
        match (idle, self.aged_at) {
            (Some(idle), Some(aged)) => Some(idle.min(aged)),
            (idle, aged) => idle.or(aged),
        }
    }

    /// Begins an eviction if one is due and possible. Returns whether it has begun.
    #[inline]
    pub(super) fn start_eviction(&mut self) -> bool {
        if self.table.held() == 0 {
            return false;
        }
        let Some(free) = self.evictions.iter().position(Option::is_none) else { return false };
        let Some(slot) = self.choose() else { return false };
        self.begin_eviction(free as u32, slot);
        true
    }

    /// Chooses the next cluster to evict; `None` if none is due, or none can be evicted.
    fn choose(&mut self) -> Option<u32> {
        if let Some(barrier) = self.barrier() {
            let due = self
                .residents()
                .filter(|(_, cluster)| cluster.oldest <= barrier && !self.is_for_journal(cluster));
            if let Some((slot, _)) = due.min_by_key(|(_, cluster)| cluster.number) {
                return Some(slot);
            }
        }
        if self.aged_at.take_if(|due| *due <= self.now).is_some() {
            // If none can be evicted now, the end of an eviction or of a bypass tries again.
            let too_old =
                |cluster: &Cluster| self.config.age_ns.is_some_and(|age| cluster.since + age <= self.now);
            let old = self.residents().filter(|(_, cluster)| too_old(cluster));
            if let Some((slot, _)) = old.min_by_key(|(_, cluster)| cluster.since) {
                return Some(slot);
            }
        }
        if let Some(journal) = &self.journal {
            let mut residents = self.residents();
            if let Some((slot, _)) = residents.find(|(_, cluster)| journal.presses(cluster.number)) {
                return Some(slot);
            }
        }
        let idle = !self.rested && self.config.idle_ns.is_some_and(|idle| self.last_ask + idle <= self.now);
        if !idle && !self.lacks_space() {
            return None;
        }
        let retires = |cluster: &Cluster| self.config.early_retirement && self.table.is_full(cluster);
        let victim = self.residents().min_by_key(|(_, cluster)| (!retires(cluster), cluster.stamp));
        let victim = victim.map(|(slot, _)| slot);
        self.rested |= idle && victim.is_none();
        victim
    }

    /// Returns the clusters that can be evicted.
    fn residents(&self) -> impl Iterator<Item = (u32, &Cluster)> {
        let may = |cluster: &Cluster| {
            cluster.state == State::Resident && !self.is_pinned(cluster) && !self.is_blocked(cluster.number)
        };
        self.table.used().filter(move |(_, cluster)| may(cluster))
    }

    /// Computes the time at which the oldest cluster reaches its maximum age.
    pub(super) fn find_age(&mut self) {
        if let Some(age) = self.config.age_ns {
            let residents = self.table.used().filter(|(_, cluster)| cluster.state == State::Resident);
            self.aged_at = residents.map(|(_, cluster)| cluster.since + age).min();
        }
    }

    fn begin_eviction(&mut self, at: u32, slot: u32) {
        self.table.cluster_mut(slot).state = State::Evicting;
        self.find_age();
        self.counters.evictions += 1;
        let cluster = *self.table.cluster(slot);
        let first = Lba(cluster.number * u64::from(self.shape.cluster_sectors));
        let missing = self.table.missing(slot);
        self.counters.full_evictions += u64::from(missing.is_none());
        let phase = Phase::Padding(missing.map_or(0, |(from, _)| from));
        self.stamp += 1;
        let (began, hurried) = (self.now, self.is_hurried(&cluster));
        self.evictions[at as usize] = Some(Eviction { slot, began, hurried, sent_at: self.stamp, phase });
        match missing {
            Some((from, count)) if self.config.padding && !hurried => {
                self.counters.padding_reads += 1;
                self.counters.padding_sectors += u64::from(count);
                let buffer = self.buffer(count as usize);
                let read = Command::new(0, Opcode::Read, Lba(first.0 + u64::from(from)), count, buffer);
                self.send(NIL, Purpose::Pad(at), Nanos::ZERO, read);
            }
            Some(_) => self.write_run(at, 0),
            None => {
                let buffer = self.buffer(0);
                self.write_cluster(at, buffer);
            }
        }
    }

    /// Reports whether a flush waits for a cluster with few sectors in the buffer; its runs of sectors are
    /// then written alone. A host that flushes often writes little in between, and would otherwise wait each
    /// time for a cluster to be read and written.
    fn is_hurried(&self, cluster: &Cluster) -> bool {
        let waits = self.flushes.back().is_some_and(|&op| cluster.oldest <= self.ops[op].barrier);
        waits && self.is_small(cluster)
    }

    /// Reports whether the buffer holds few sectors of a cluster.
    pub(super) fn is_small(&self, cluster: &Cluster) -> bool {
        u64::from(cluster.valid) * HURRIED_SHARE < u64::from(self.shape.length(cluster.number))
    }

    /// Writes the whole cluster after its missing sectors were read.
    pub(super) fn padded(&mut self, at: u32, completion: Completion) {
        let eviction = self.evictions[at as usize].as_mut().expect("it is under way");
        let Phase::Padding(from) = eviction.phase else { unreachable!("it read what was missing") };
        self.stamp += 1;
        eviction.sent_at = self.stamp;
        let mut buffer = completion.data;
        if completion.status != Status::Success {
            // Sectors that cannot be read are not written.
            self.give_back(buffer);
            return self.write_run(at, 0);
        }
        if from > 0 {
            let (read, from) = (buffer.len(), from as usize * self.image_bytes);
            buffer.resize(from + read, 0);
            buffer.copy_within(..read, from);
        }
        self.write_cluster(at, buffer);
    }

    /// Writes a whole cluster; `buffer` has the sectors that the table lacks.
    fn write_cluster(&mut self, at: u32, mut buffer: Vec<u8>) {
        let slot = self.eviction(at).slot;
        let length = self.shape.length(self.table.cluster(slot).number);
        buffer.resize(length as usize * self.image_bytes, 0);
        self.write(at, 0, length, buffer);
    }

    /// Writes the next run of sectors of a cluster from `from` on; ends the eviction after the last run.
    fn write_run(&mut self, at: u32, from: u32) {
        let slot = self.eviction(at).slot;
        let length = self.shape.length(self.table.cluster(slot).number);
        match self.table.run(slot, from, length, true) {
            Some((first, count)) => {
                let buffer = self.buffer(count as usize);
                self.write(at, first, count, buffer);
            }
            None => self.reached(at),
        }
    }

    fn write(&mut self, at: u32, first: u32, count: u32, mut buffer: Vec<u8>) {
        let slot = self.eviction(at).slot;
        self.table.merge(slot, first, &mut buffer);
        self.table.send(slot, first, count);
        self.counters.cluster_writes += 1;
        self.counters.cluster_sectors += u64::from(count);
        self.evictions[at as usize].as_mut().expect("it is under way").phase = Phase::Writing(first + count);
        let lba = self.table.cluster(slot).number * u64::from(self.shape.cluster_sectors) + u64::from(first);
        let cost = Nanos(self.config.cpu.sector_ns.0 * u64::from(count));
        self.send(NIL, Purpose::Run(at), cost, Command::new(0, Opcode::Write, Lba(lba), count, buffer));
    }

    pub(super) fn run_written(&mut self, at: u32, completion: Completion) {
        self.give_back(completion.data);
        let Eviction { slot, phase, .. } = *self.eviction(at);
        let Phase::Writing(end) = phase else { unreachable!("it was written") };
        if completion.status == Status::Success {
            return self.write_run_or_end(at, end);
        }
        self.counters.failed_evictions += 1;
        self.table.unsend(slot);
        self.table.cluster_mut(slot).state = State::Failed;
        self.failed += 1;
        self.evictions[at as usize] = None;
    }

    /// Writes the next run; a padded cluster has only one.
    fn write_run_or_end(&mut self, at: u32, end: u32) {
        let length = self.shape.length(self.table.cluster(self.eviction(at).slot).number);
        if end < length { self.write_run(at, end) } else { self.reached(at) }
    }

    /// Notes that all sent sectors are on the drive.
    fn reached(&mut self, at: u32) {
        self.stamp += 1;
        self.evictions[at as usize].as_mut().expect("it is under way").phase = Phase::Awaiting(self.stamp);
        self.leave_settled();
    }

    /// Ends the evictions for which no read that may return older data is under way.
    pub(super) fn leave_settled(&mut self) {
        for at in 0..self.evictions.len() {
            if let Some(Eviction { slot, phase: Phase::Awaiting(moment), .. }) = self.evictions[at] {
                let number = self.table.cluster(slot).number;
                if !self.is_read_since_before(moment, number, number) {
                    self.leave(at as u32);
                }
            }
        }
    }

    /// Removes the sent sectors from the buffer; sectors that were written meanwhile stay.
    fn leave(&mut self, at: u32) {
        let Eviction { slot, sent_at, began, hurried, .. } =
            self.evictions[at as usize].take().expect("it is under way");
        self.leave_journal(self.table.cluster(slot).number, hurried, began);
        if !self.table.sent_arrived(slot) {
            let now = self.now;
            let cluster = self.table.cluster_mut(slot);
            cluster.state = State::Resident;
            (cluster.oldest, cluster.since) = (sent_at, now);
        }
        self.find_age();
    }

    fn eviction(&self, at: u32) -> &Eviction {
        self.evictions[at as usize].as_ref().expect("it is under way")
    }
}
