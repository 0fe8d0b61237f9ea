//! Flushes of a buffer with a journal: all waiting flushes form one group with one record.

use super::super::table::Cluster;
use super::super::{ClusterBuffer, Purpose, State, Stopping};
use super::record;
use super::{Counts, JournalUse, Named, Phase, Way};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, SimTime, Status};

impl ClusterBuffer {
    /// Decides once for a group whether its small clusters are drained or journalled.
    pub(in super::super) fn decide_way(&mut self) {
        let Some(barrier) = self.flushes.back().map(|&op| self.ops[op].barrier) else { return };
        let Some(journal) = &self.journal else { return };
        if journal.way.is_some() || journal.phase != Phase::Gathering {
            return;
        }
        let is_due = |cluster: &Cluster| cluster.oldest <= barrier && self.is_small(cluster);
        let (mut clusters, mut sectors) = (0, 0);
        for (slot, _) in self.table.used().filter(|(_, cluster)| is_due(cluster)) {
            clusters += 1;
            sectors += self.table.unjournalled(slot);
        }
        let bytes = self.config.sector_bytes as usize;
        let journal = self.journal.as_mut().expect("it was looked at");
        let header = record::header_sectors(journal.named.len() + clusters as usize, bytes);
        let way = match journal.config.usage {
            _ if journal.is_short() => Way::Drain,
            JournalUse::Always => Way::Journal,
            // There is no cluster to choose a path for.
            JournalUse::Cheaper if clusters == 0 => Way::Journal,
            JournalUse::Cheaper => {
                journal.costs.choose(clusters, (header + sectors).div_ceil(journal.region.unit_sectors))
            }
        };
        journal.way = Some(way);
    }

    /// Reports whether a flush leaves this cluster to the journal.
    pub(in super::super) fn is_for_journal(&self, cluster: &Cluster) -> bool {
        let journals = self.journal.as_ref().is_some_and(|journal| journal.way == Some(Way::Journal));
        journals && self.stopping == Stopping::No && !self.paused && self.is_small(cluster)
    }

    /// Reports whether a cluster must stay in the buffer, because the group under way makes it durable:
    /// neither an eviction nor a trim, which the drive may lose, may remove it.
    pub(in super::super) fn is_pinned(&self, cluster: &Cluster) -> bool {
        match self.journal.as_ref().map(|journal| journal.phase) {
            Some(Phase::Flushing { barrier, .. } | Phase::Appending { barrier, .. }) => {
                cluster.oldest <= barrier
            }
            _ => false,
        }
    }

    /// Begins the next group, once all clusters that are not for the journal have left.
    pub(in super::super) fn group_goes_on(&mut self) {
        let Some(journal) = &self.journal else { return };
        let stops = self.stopping == Stopping::Draining && self.is_empty();
        // A paused buffer that is empty needs no journal.
        let ends = self.paused
            && self.pause_failed.is_none()
            && self.table.held() == 0
            && journal.brings_back(0, u64::MAX);
        if !journal.is_ready()
            || journal.phase != Phase::Gathering
            || (self.flushes.is_empty() && !stops && !ends)
        {
            return;
        }
        let barrier = self.flushes.back().map_or(0, |&op| self.ops[op].barrier);
        let (mut refused, mut waits) = (false, false);
        for (_, cluster) in self.table.used() {
            let keeps_space = journal.is_short() && journal.presses(cluster.number);
            if cluster.oldest <= barrier || keeps_space {
                match cluster.state {
                    State::Failed => refused = true,
                    State::Resident
                        if !keeps_space
                            && self.is_for_journal(cluster)
                            && !self.is_blocked(cluster.number) => {}
                    _ => waits = true,
                }
            }
        }
        if waits {
            return;
        }
        let flushes = self.flushes.len();
        if refused {
            return self.end_group(flushes, Status::WriteFault);
        }
        if stops && flushes == 0 {
            self.stopping = Stopping::Flushing;
        }
        let journal = self.journal.as_mut().expect("it was looked at");
        for named in journal.named.iter_mut().filter(|named| named.counts == Counts::Left) {
            named.counts = Counts::Sealed;
        }
        journal.phase = Phase::Flushing { barrier, flushes };
        self.send(
            NIL,
            Purpose::GroupFlush,
            Nanos::ZERO,
            Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()),
        );
    }

    /// Continues a group after the flush of the data that left the buffer before it.
    pub(in super::super) fn group_flushed(&mut self, status: Status) {
        let journal = self.journal.as_mut().expect("a group");
        let Phase::Flushing { barrier, flushes } = journal.phase else { unreachable!("it was flushed") };
        let sealed = |named: &Named| named.counts == Counts::Sealed;
        if status != Status::Success {
            let back = journal.named.iter_mut().filter(|named| sealed(named));
            back.for_each(|named| named.counts = Counts::Left);
            return self.end_group(flushes, status);
        }
        // A cluster whose remaining sectors will be journalled again stays named until the record with these
        // sectors.
        let is_due = |named: &Named| {
            let slot = self.table.slot(named.cluster);
            slot.is_some_and(|slot| self.table.cluster(slot).oldest <= barrier)
        };
        let ends = |named: &Named| sealed(named) && !is_due(named);
        journal.stale |= journal.named.iter().any(|named| ends(named) && named.since <= journal.newest);
        journal.named.retain(|named| !ends(named));
        self.append(barrier, flushes);
    }

    /// Writes a record of the due clusters, if there are any or the newest record is stale.
    fn append(&mut self, barrier: u64, flushes: usize) {
        let (image, bytes) = (self.image_bytes, self.config.sector_bytes as usize);
        let may = |cluster: &Cluster| cluster.oldest <= barrier && cluster.state == State::Resident;
        let due: Vec<u32> =
            self.table.used().filter(|(_, cluster)| may(cluster)).map(|(slot, _)| slot).collect();
        let journal = self.journal.as_mut().expect("a group");
        if due.is_empty() && !journal.stale {
            return self.group_appended(barrier, flushes);
        }
        if !due.is_empty() && journal.is_short() {
            return self.gather_again();
        }
        let (mut extents, mut sectors, mut taken) = (Vec::new(), 0, Vec::new());
        for slot in due {
            let held = self.table.unjournalled(slot);
            if !taken.is_empty() && sectors + held > self.shape.cluster_sectors {
                break;
            }
            sectors += held;
            let cluster = self.table.cluster(slot).number;
            let first = cluster * u64::from(self.shape.cluster_sectors);
            let mut from = 0;
            while let Some((at, count)) = self.table.unjournalled_run(slot, from) {
                extents.push((first + u64::from(at), u64::from(count)));
                from = at + count;
            }
            taken.push(slot);
        }
        let journal = self.journal.as_mut().expect("a group");
        taken.iter().for_each(|&slot| journal.replace(self.table.cluster(slot).number));
        let fresh = taken.iter().filter(|&&slot| !journal.counts(self.table.cluster(slot).number)).count();
        let header = record::header_sectors(journal.named.len() + fresh + extents.len(), bytes);
        let units = (header + sectors).div_ceil(journal.region.unit_sectors);
        let unit = journal.place(units).expect("space for a record is kept");
        for &slot in &taken {
            let cluster = self.table.cluster(slot).number;
            if !journal.counts(cluster) {
                let since = journal.sequence;
                journal.named.push(Named { cluster, since, unit, counts: Counts::Yes });
            }
        }
        let record = journal.record(unit, units, header, extents);
        let (id, total) = (journal.id, units * journal.region.unit_sectors);
        let at = Lba(journal.region.sector(unit));
        journal.sequence += 1;
        journal.next = (unit + units) % journal.region.units;
        journal.sent = self.now;
        journal.phase = Phase::Appending { barrier, flushes };
        let mut data = self.journal_buffer(total as usize);
        let mut from = header as usize * image;
        for &slot in &taken {
            from += self.table.copy_unjournalled(slot, &mut data[from..]);
            self.table.journal(slot);
        }
        if self.keeps_content() {
            record.seal(id, &mut data);
        }
        self.counters.journal_records += 1;
        self.counters.journal_sectors += u64::from(total);
        self.counters.journal_clusters += taken.len() as u64;
        let journal = self.journal.as_mut().expect("a group");
        (journal.written, journal.under_way) = (taken.len(), record);
        let cost = Nanos(self.config.cpu.sector_ns.0 * u64::from(sectors));
        let write = Command { fua: true, ..Command::new(0, Opcode::Write, at, total, data) };
        self.send(NIL, Purpose::Append, cost, write);
    }

    /// Ends the write of a record.
    pub(in super::super) fn append_ended(&mut self, completion: Completion) {
        let journal = self.journal.as_mut().expect("a group");
        let Phase::Appending { barrier, flushes } = journal.phase else { unreachable!("it was written") };
        journal.buffer = completion.data;
        let (sequence, unit) = (journal.under_way.sequence, journal.under_way.unit);
        if completion.status == Status::Success {
            let took = self.now - journal.sent;
            journal.costs.journalled(journal.written, journal.under_way.units, took);
            journal.replaced.clear();
            journal.appended(sequence, unit);
            return self.group_appended(barrier, flushes);
        }
        self.counters.journal_failures += 1;
        // The record may be on the media all the same: until another one is, it could bring back data that
        // left the buffer.
        journal.stale = true;
        // The next record goes after the suspect place, if there is space.
        if journal.place(journal.region.reserve).is_none() {
            journal.next = unit;
        }
        journal.named.retain(|named| named.since != sequence);
        journal.named.append(&mut journal.replaced);
        let size = u64::from(self.shape.cluster_sectors);
        let extents = std::mem::take(&mut journal.under_way.extents);
        for (first, _) in extents {
            if let Some(slot) = self.table.slot(first / size) {
                self.table.unjournal(slot);
            }
        }
        self.end_group(flushes, Status::WriteFault);
    }

    fn group_appended(&mut self, barrier: u64, flushes: usize) {
        if self.table.used().any(|(_, cluster)| cluster.oldest <= barrier) {
            return self.gather_again();
        }
        self.end_group(flushes, Status::Success);
    }

    fn gather_again(&mut self) {
        let journal = self.journal.as_mut().expect("a group");
        (journal.phase, journal.way) = (Phase::Gathering, None);
    }

    /// Answers the flushes of a group.
    fn end_group(&mut self, flushes: usize, status: Status) {
        self.gather_again();
        for _ in 0..flushes {
            let op = self.flushes.pop_front().expect("a flush of the group");
            self.finish(op, status);
        }
        if flushes == 0 && self.paused && status != Status::Success {
            self.pause_failed =
                Some("the device refuses a flush, so a start may bring back older data from the journal");
        }
        if self.stopping == Stopping::Flushing && flushes == 0 && status == Status::Success {
            self.stopping = Stopping::Stopped;
        }
    }

    /// Notes that a cluster left the buffer in an eviction that began at `began`.
    pub(in super::super) fn leave_journal(&mut self, cluster: u64, hurried: bool, began: SimTime) {
        let took = self.now - began;
        let Some(journal) = &mut self.journal else { return };
        if hurried {
            journal.costs.drained(took);
        }
        // An eviction in idle time delays no command.
        if journal.left(cluster) && !hurried && self.last_ask >= began {
            journal.costs.retired(took);
        }
    }

    /// Takes the clusters of sectors with newer data on the drive out of the journal; their remaining sectors
    /// in the buffer are journalled again.
    pub(in super::super) fn take_from_journal(&mut self, lba: u64, sectors: u32) {
        let (first, last) = self.clusters(lba, sectors);
        let Some(journal) = &mut self.journal else { return };
        let numbers: Vec<u64> =
            journal.clusters().filter(|cluster| (first..=last).contains(cluster)).collect();
        for number in numbers {
            journal.left(number);
            if let Some(slot) = self.table.slot(number) {
                self.table.unjournal(slot);
            }
        }
    }
}
