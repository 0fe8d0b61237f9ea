//! Content of the buffer: sectors, found by two tables.
//!
//! ```text
//!   sector ─┬─ number of its cluster ─► first table ─► slot      one entry for each cluster of the drive
//!           └─ place in the cluster ──► second table of the slot ─► buffer      one entry for each sector of a cluster
//! ```
//! The paper keeps a timestamp for each cluster of the drive. Here each slot has one, so a search for a
//! victim covers only the buffer. Timestamps have 64 bits and count write requests, so they never wrap.
//!
//! Invariants, checked by [`Table::check`]: a buffer is free or belongs to one sector; a slot is free or
//! belongs to one cluster, which holds at least one sector unless it is being evicted; `SENT` sectors are in
//! clusters that are being evicted.

use super::config::BufferShape;
use pellucid_flash::{SimTime, copy_images};

/// Marker for no slot and for no buffer.
const NONE: u32 = u32::MAX;
/// Flag in an entry of the second table: the eviction under way writes this version of the sector.
const SENT: u32 = 1 << 31;
/// Flag in an entry of the second table: this version of the sector is in the journal.
const JOURNALLED: u32 = 1 << 30;
/// Mask of the buffer in an entry of the second table.
const BUFFER: u32 = JOURNALLED - 1;
/// Value of [`Cluster::oldest`] if all data are safe.
pub(super) const SAFE: u64 = u64::MAX;
/// Bytes of an entry in either table.
pub(super) const TABLE_ENTRY_BYTES: u64 = 4;
/// Bytes of a slot besides its table.
pub(super) const SLOT_BYTES: u64 = size_of::<Cluster>() as u64 + TABLE_ENTRY_BYTES;

/// Cluster in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Number on the drive.
    pub number: u64,
    /// Number of sectors in the buffer.
    pub valid: u32,
    /// Number of the last write to the cluster, for LRU.
    pub stamp: u64,
    /// Number of the first write whose data are neither on the drive nor in the journal, or a lower one;
    /// [`SAFE`] if there is none.
    pub oldest: u64,
    /// Time of that first write.
    pub since: SimTime,
    /// State of the cluster.
    pub state: State,
}

/// State of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    #[default]
    Free,
    /// The cluster waits in the buffer.
    Resident,
    /// The cluster is being written.
    Evicting,
    /// The drive refused to write it; the next flush tries again.
    Failed,
}

fn is_unjournalled(entry: u32) -> bool {
    entry != NONE && entry & JOURNALLED == 0
}

/// Tables and buffers.
#[derive(Clone, Debug)]
pub(super) struct Table {
    shape: BufferShape,
    image_bytes: usize,
    first: Vec<u32>,
    second: Vec<u32>,
    clusters: Vec<Cluster>,
    free_slots: Vec<u32>,
    data: Vec<u8>,
    free: Vec<u32>,
    /// Number of clusters that the drive refused.
    failed: u32,
}

impl Table {
    pub(super) fn new(shape: BufferShape, image_bytes: usize) -> Table {
        let (slots, buffers) = (shape.slots as usize, shape.buffers as usize);
        Table {
            shape,
            image_bytes,
            first: vec![NONE; shape.clusters as usize],
            second: vec![NONE; slots * shape.cluster_sectors as usize],
            clusters: vec![Cluster::default(); slots],
            free_slots: (0..shape.slots).rev().collect(),
            data: vec![0; buffers * image_bytes],
            free: (0..shape.buffers).rev().collect(),
            failed: 0,
        }
    }

    /// Returns the bytes of memory; a sector counts as `sector_bytes` even if only a stamp is kept.
    pub(super) fn memory_bytes(&self, sector_bytes: u32) -> u64 {
        let entries = self.first.capacity() + self.second.capacity() + self.free.capacity();
        entries as u64 * TABLE_ENTRY_BYTES
            + self.clusters.capacity() as u64 * SLOT_BYTES
            + u64::from(self.shape.buffers) * u64::from(sector_bytes)
    }

    /// Returns the number of sectors in the buffer.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.shape.buffers - self.free.len() as u32
    }

    /// Returns the drive addresses of the sectors in the buffer.
    pub(super) fn held_sectors(&self) -> impl Iterator<Item = u64> {
        self.used().flat_map(|(slot, cluster)| {
            let first = cluster.number * u64::from(self.shape.cluster_sectors);
            let held = (0..).zip(self.entries(slot)).filter(|&(_, &entry)| entry != NONE);
            held.map(move |(at, _): (u64, _)| first + at)
        })
    }

    /// Returns the slot of a cluster.
    #[inline]
    pub(super) fn slot(&self, number: u64) -> Option<u32> {
        let slot = self.first[number as usize];
        (slot != NONE).then_some(slot)
    }

    #[inline]
    pub(super) fn cluster(&self, slot: u32) -> &Cluster {
        &self.clusters[slot as usize]
    }

    /// Changes the state of a cluster.
    fn change(&mut self, slot: u32, from: State, to: State) {
        let state = &mut self.clusters[slot as usize].state;
        assert_eq!(*state, from, "the state of slot {slot}");
        *state = to;
    }

    /// Notes that a cluster is on its way to the drive.
    pub(super) fn begin_eviction(&mut self, slot: u32) {
        self.change(slot, State::Resident, State::Evicting);
    }

    /// Notes that the drive refused a cluster, all sectors of which stay.
    pub(super) fn refuse(&mut self, slot: u32) {
        self.unsend(slot);
        self.change(slot, State::Evicting, State::Failed);
        self.failed += 1;
    }

    /// Returns the number of clusters that the drive refused.
    #[inline]
    pub(super) fn failed(&self) -> u32 {
        self.failed
    }

    /// Makes one cluster that the drive refused evictable again.
    pub(super) fn retry_one(&mut self) {
        let failed = self.used().find(|(_, cluster)| cluster.state == State::Failed).map(|(slot, _)| slot);
        if let Some(slot) = failed {
            self.change(slot, State::Failed, State::Resident);
            self.failed -= 1;
        }
    }

    /// Makes all clusters that the drive refused evictable again.
    pub(super) fn retry_all(&mut self) {
        while self.failed > 0 {
            self.retry_one();
        }
    }

    /// Returns the slots in use, with their clusters.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, &Cluster)> {
        (0..).zip(&self.clusters).filter(|(_, cluster)| cluster.state != State::Free)
    }

    /// Reports whether all sectors of a cluster are in the buffer.
    #[inline]
    pub(super) fn is_full(&self, cluster: &Cluster) -> bool {
        cluster.valid == self.shape.length(cluster.number)
    }

    /// Reports whether no further sector or no further cluster fits.
    pub(super) fn is_exhausted(&self) -> bool {
        self.free.is_empty() || self.free_slots.is_empty()
    }

    #[inline]
    fn entries(&self, slot: u32) -> &[u32] {
        let size = self.shape.cluster_sectors as usize;
        &self.second[slot as usize * size..][..size]
    }

    #[inline]
    fn image(&self, entry: u32) -> &[u8] {
        &self.data[(entry & BUFFER) as usize * self.image_bytes..][..self.image_bytes]
    }

    /// Puts sectors of one cluster into the buffer, from `first` on. Returns how many fit.
    #[inline]
    pub(super) fn put(&mut self, number: u64, first: u32, images: &[u8], stamp: u64, now: SimTime) -> u32 {
        let slot = match self.first[number as usize] {
            NONE if self.free.is_empty() => return 0,
            NONE => match self.free_slots.pop() {
                None => return 0,
                Some(slot) => {
                    self.first[number as usize] = slot;
                    let state = State::Resident;
                    self.clusters[slot as usize] =
                        Cluster { number, stamp, oldest: stamp, since: now, state, ..Cluster::default() };
                    slot
                }
            },
            slot => slot,
        };
        let base = slot as usize * self.shape.cluster_sectors as usize + first as usize;
        let mut put = 0;
        for (entry, image) in self.second[base..].iter_mut().zip(images.chunks_exact(self.image_bytes)) {
            let buffer = match *entry {
                NONE => match self.free.pop() {
                    None => break,
                    Some(buffer) => {
                        self.clusters[slot as usize].valid += 1;
                        buffer
                    }
                },
                // Clearing the flags marks a new version; the eviction writes the old one.
                held => held & BUFFER,
            };
            *entry = buffer;
            copy_images(&mut self.data[buffer as usize * self.image_bytes..][..self.image_bytes], image);
            put += 1;
        }
        if put > 0 {
            let cluster = &mut self.clusters[slot as usize];
            cluster.stamp = stamp;
            if cluster.oldest == SAFE {
                (cluster.oldest, cluster.since) = (stamp, now);
            }
        }
        put
    }

    /// Reports whether the buffer holds all sectors of a range.
    #[inline]
    pub(super) fn covers(&self, lba: u64, sectors: u32) -> bool {
        self.shape.split(lba, sectors).all(|(number, first, count)| {
            self.slot(number).is_some_and(|slot| {
                let cluster = self.cluster(slot);
                cluster.valid >= count
                    && self.entries(slot)[first as usize..][..count as usize]
                        .iter()
                        .all(|&entry| entry != NONE)
            })
        })
    }

    /// Replaces sectors in `images`, which begin at `lba`, with those in the buffer. Returns their number.
    #[inline]
    pub(super) fn overlay(&self, lba: u64, images: &mut [u8]) -> u32 {
        let (mut at, mut replaced) = (0, 0);
        let sectors = (images.len() / self.image_bytes) as u32;
        for (number, first, count) in self.shape.split(lba, sectors) {
            let part = &mut images[at..][..count as usize * self.image_bytes];
            at += part.len();
            if let Some(slot) = self.slot(number) {
                replaced += self.merge(slot, first, part);
            }
        }
        replaced
    }

    /// Replaces sectors in `images`, which begin at sector `first` of a cluster, with those in the buffer.
    /// Returns their number.
    pub(super) fn merge(&self, slot: u32, first: u32, images: &mut [u8]) -> u32 {
        let mut replaced = 0;
        for (entry, image) in
            self.entries(slot)[first as usize..].iter().zip(images.chunks_exact_mut(self.image_bytes))
        {
            if *entry != NONE {
                copy_images(image, self.image(*entry));
                replaced += 1;
            }
        }
        replaced
    }

    /// Returns the range from the first to the last missing sector of a cluster; `None` if none is missing.
    pub(super) fn missing(&self, slot: u32) -> Option<(u32, u32)> {
        let length = self.shape.length(self.cluster(slot).number) as usize;
        let entries = &self.entries(slot)[..length];
        let first = entries.iter().position(|&entry| entry == NONE)?;
        let last = entries.iter().rposition(|&entry| entry == NONE)?;
        Some((first as u32, (last - first + 1) as u32))
    }

    /// Returns the first run of sectors from `from` to before `end` that the buffer holds, or lacks, as
    /// `held` says.
    pub(super) fn run(&self, slot: u32, from: u32, end: u32, held: bool) -> Option<(u32, u32)> {
        let entries = &self.entries(slot)[..end as usize];
        let wanted = |&entry: &u32| (entry != NONE) == held;
        let first = from as usize + entries.get(from as usize..)?.iter().position(wanted)?;
        let count = entries[first..].iter().take_while(|entry| wanted(entry)).count();
        Some((first as u32, count as u32))
    }

    /// Marks the held sectors of a range of a cluster as sent to the drive.
    pub(super) fn send(&mut self, slot: u32, first: u32, count: u32) {
        for entry in self.range(slot, first, count) {
            if *entry != NONE {
                *entry |= SENT;
            }
        }
    }

    /// Clears the sent marks of a cluster.
    fn unsend(&mut self, slot: u32) {
        for entry in self.range(slot, 0, self.shape.cluster_sectors) {
            if *entry != NONE {
                *entry &= !SENT;
            }
        }
    }

    /// Returns the number of a cluster's sectors that are not in the journal.
    pub(super) fn unjournalled(&self, slot: u32) -> u32 {
        self.entries(slot).iter().filter(|&&entry| is_unjournalled(entry)).count() as u32
    }

    /// Returns the first run from `from` on of sectors that are not in the journal.
    pub(super) fn unjournalled_run(&self, slot: u32, from: u32) -> Option<(u32, u32)> {
        let rest = &self.entries(slot)[from as usize..];
        let skipped = rest.iter().position(|&entry| is_unjournalled(entry))?;
        let count = rest[skipped..].iter().take_while(|&&entry| is_unjournalled(entry)).count();
        Some((from + skipped as u32, count as u32))
    }

    /// Copies the sectors that are not in the journal, in order. Returns the number of bytes.
    pub(super) fn copy_unjournalled(&self, slot: u32, images: &mut [u8]) -> usize {
        let entries = self.entries(slot).iter().filter(|&&entry| is_unjournalled(entry));
        let mut copied = 0;
        for (image, &entry) in images.chunks_exact_mut(self.image_bytes).zip(entries) {
            copy_images(image, self.image(entry));
            copied += image.len();
        }
        copied
    }

    /// Marks all held sectors of a cluster as journalled.
    pub(super) fn journal(&mut self, slot: u32) {
        for entry in self.range(slot, 0, self.shape.cluster_sectors) {
            if *entry != NONE {
                *entry |= JOURNALLED;
            }
        }
        self.clusters[slot as usize].oldest = SAFE;
    }

    /// Marks no sector of a cluster as journalled; the next flush covers all of them.
    pub(super) fn unjournal(&mut self, slot: u32) {
        for entry in self.range(slot, 0, self.shape.cluster_sectors) {
            if *entry != NONE {
                *entry &= !JOURNALLED;
            }
        }
        self.clusters[slot as usize].oldest = 0;
    }

    /// Reports whether a sector of a cluster is in the journal; `None` if the buffer lacks the cluster.
    pub(super) fn has_journalled(&self, number: u64) -> Option<bool> {
        let slot = self.slot(number)?;
        Some(self.entries(slot).iter().any(|&entry| entry != NONE && entry & JOURNALLED != 0))
    }

    /// Removes the sectors of a cluster that were sent at `sent_at`, and are on the drive. If none is left, its slot is free.
    pub(super) fn sent_arrived(&mut self, slot: u32, sent_at: u64, now: SimTime) {
        self.release(slot, 0, self.shape.cluster_sectors, |entry| entry & SENT != 0);
        if !self.release_slot_if_empty(slot) {
            self.change(slot, State::Evicting, State::Resident);
            let cluster = &mut self.clusters[slot as usize];
            (cluster.oldest, cluster.since) = (sent_at, now);
        }
    }

    /// Removes a range of sectors because the drive has newer data. None of them may be on its way.
    pub(super) fn drop_range(&mut self, lba: u64, sectors: u32) {
        for (number, first, count) in self.shape.split(lba, sectors) {
            if let Some(slot) = self.slot(number) {
                self.release(slot, first, count, |_| true);
                self.release_slot_if_empty(slot);
            }
        }
    }

    fn range(&mut self, slot: u32, first: u32, count: u32) -> &mut [u32] {
        let base = slot as usize * self.shape.cluster_sectors as usize + first as usize;
        &mut self.second[base..][..count as usize]
    }

    fn release(&mut self, slot: u32, first: u32, count: u32, which: impl Fn(u32) -> bool) {
        let base = slot as usize * self.shape.cluster_sectors as usize + first as usize;
        let before = self.free.len();
        for entry in &mut self.second[base..][..count as usize] {
            if *entry != NONE && which(*entry) {
                self.free.push(*entry & BUFFER);
                *entry = NONE;
            }
        }
        self.clusters[slot as usize].valid -= (self.free.len() - before) as u32;
    }

    fn release_slot_if_empty(&mut self, slot: u32) -> bool {
        let cluster = &mut self.clusters[slot as usize];
        if cluster.valid > 0 {
            return false;
        }
        self.first[cluster.number as usize] = NONE;
        self.failed -= u32::from(cluster.state == State::Failed);
        *cluster = Cluster::default();
        self.free_slots.push(slot);
        true
    }

    /// Checks the invariants; panics if one is broken.
    pub(super) fn check(&self) {
        let mut seen = vec![false; self.shape.buffers as usize];
        let mut see = |buffer: u32| {
            assert!(!std::mem::replace(&mut seen[buffer as usize], true), "buffer {buffer} twice")
        };
        self.free.iter().for_each(|&buffer| see(buffer));
        let mut used = 0;
        for (slot, cluster) in (0..).zip(&self.clusters) {
            let entries = self.entries(slot);
            let held = entries.iter().filter(|&&entry| entry != NONE).count() as u32;
            assert_eq!(held, cluster.valid, "sectors of slot {slot}");
            let sent = entries.iter().any(|&entry| entry != NONE && entry & SENT != 0);
            assert!(!sent || cluster.state == State::Evicting, "slot {slot}: sent, but not on its way");
            entries.iter().filter(|&&entry| entry != NONE).for_each(|entry| see(entry & BUFFER));
            let length = if cluster.state == State::Free { 0 } else { self.shape.length(cluster.number) };
            assert!(
                entries[length as usize..].iter().all(|&entry| entry == NONE),
                "slot {slot}: beyond its end"
            );
            if cluster.state == State::Free {
                assert!(self.free_slots.contains(&slot), "slot {slot} is free and not in the list");
                continue;
            }
            used += 1;
            assert!(held > 0, "slot {slot} holds nothing");
            assert_eq!(
                self.first[cluster.number as usize], slot,
                "first table of cluster {}",
                cluster.number
            );
            assert!(
                cluster.oldest == SAFE || cluster.oldest <= cluster.stamp,
                "slot {slot}: {} after {}",
                cluster.oldest,
                cluster.stamp
            );
        }
        let failed = self.used().filter(|(_, cluster)| cluster.state == State::Failed).count();
        assert_eq!(failed, self.failed as usize, "clusters that the drive refused");
        assert!(seen.iter().all(|&seen| seen), "a buffer is lost");
        assert_eq!(self.first.iter().filter(|&&slot| slot != NONE).count(), used, "first table");
        assert_eq!(self.free_slots.len() + used, self.clusters.len(), "slots");
    }
}
