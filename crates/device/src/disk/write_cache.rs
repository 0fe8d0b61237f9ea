//! The write cache: acknowledged writes that are not on the platters.
//!
//! Invariants: extents do not overlap and are not empty; `sectors` is their sum; `ages` names each extent once. An extent that replaces
//! older ones is as old as the oldest of them: what a flush waits for must not look younger because it was written again.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Extent {
    sectors: u64,
    /// Number of the oldest write that it stands for.
    since: u64,
    images: Vec<u8>,
}

/// Contiguous sectors on their way to the platters.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub lba: u64,
    pub sectors: u64,
    pub since: u64,
    pub images: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    extents: BTreeMap<u64, Extent>,
    ages: BTreeSet<(u64, u64)>,
    sectors: u64,
    /// Bytes kept of a sector; 0: none.
    image_bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl WriteCache {
    pub fn new(image_bytes: usize) -> WriteCache {
        let (extents, ages) = Default::default();
        WriteCache { extents, ages, sectors: 0, image_bytes, spare: Vec::new() }
    }

    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Number of the oldest write in it.
    pub fn oldest(&self) -> Option<u64> {
        self.ages.first().map(|&(since, _)| since)
    }

    /// Where the oldest write lies.
    pub fn oldest_lba(&self) -> Option<u64> {
        self.ages.first().map(|&(_, lba)| lba)
    }

    fn put(&mut self, lba: u64, extent: Extent) {
        self.sectors += extent.sectors;
        self.ages.insert((extent.since, lba));
        self.extents.insert(lba, extent);
    }

    fn remove(&mut self, lba: u64) -> Option<Extent> {
        let extent = self.extents.remove(&lba)?;
        self.sectors -= extent.sectors;
        self.ages.remove(&(extent.since, lba));
        Some(extent)
    }

    /// First addresses of the extents that have sectors of this range.
    fn overlapping(&self, lba: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let before = self.extents.range(..lba).next_back().filter(move |(at, e)| **at + e.sectors > lba);
        before.into_iter().chain(self.extents.range(lba..end)).map(|(&at, _)| at)
    }

    /// Takes in write `number`.
    pub fn insert(&mut self, lba: u64, sectors: u64, images: &[u8], number: u64) {
        let (end, bytes) = (lba + sectors, self.image_bytes);
        let mut since = number;
        loop {
            let first = self.overlapping(lba, end).next();
            let Some((at, mut old)) = first.and_then(|at| Some((at, self.remove(at)?))) else { break };
            since = since.min(old.since);
            let old_end = at + old.sectors;
            if old_end > end {
                let images = old.images[(end - at) as usize * bytes..].to_vec();
                self.put(end, Extent { sectors: old_end - end, since: old.since, images });
            }
            if at < lba {
                old.images.truncate((lba - at) as usize * bytes);
                self.put(at, Extent { sectors: lba - at, ..old });
            } else {
                self.spare.push(old.images);
            }
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(&images[..sectors as usize * bytes]);
        self.put(lba, Extent { sectors, since, images: kept });
    }

    /// Returns whether the cache holds all of these sectors.
    pub fn covers(&self, lba: u64, sectors: u64) -> bool {
        let end = lba + sectors;
        let mut at = lba;
        for first in self.overlapping(lba, end) {
            if first > at {
                return false;
            }
            at = first + self.extents[&first].sectors;
        }
        at >= end
    }

    /// Lays what it has of these sectors over `images`.
    pub fn overlay(&self, lba: u64, sectors: u64, images: &mut [u8]) {
        let (end, bytes) = (lba + sectors, self.image_bytes);
        if bytes == 0 {
            return;
        }
        for first in self.overlapping(lba, end) {
            let extent = &self.extents[&first];
            let (from, to) = (first.max(lba), (first + extent.sectors).min(end));
            let own = (from - first) as usize * bytes..(to - first) as usize * bytes;
            images[(from - lba) as usize * bytes..(to - lba) as usize * bytes]
                .copy_from_slice(&extent.images[own]);
        }
    }

    /// Extents from `lba` on, by address: first sector and age.
    pub fn above(&self, lba: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.range(lba..).map(|(&at, extent)| (at, extent.since))
    }

    /// Extents that begin before `lba`, the nearest first.
    pub fn below(&self, lba: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.range(..lba).rev().map(|(&at, extent)| (at, extent.since))
    }

    /// Takes out the extent at `lba` and what follows it without a gap, about `most` sectors.
    pub fn take(&mut self, lba: u64, most: u64) -> Run {
        let mut run = Run { lba, since: u64::MAX, images: self.spare.pop().unwrap_or_default(), sectors: 0 };
        run.images.clear();
        while run.sectors < most
            && let Some(extent) = self.remove(lba + run.sectors)
        {
            run.sectors += extent.sectors;
            run.since = run.since.min(extent.since);
            run.images.extend_from_slice(&extent.images);
            self.spare.push(extent.images);
        }
        run
    }

    /// Gives a buffer back.
    pub fn give_back(&mut self, run: Run) {
        self.spare.push(run.images);
    }

    /// The power was cut.
    pub fn clear(&mut self) {
        *self = WriteCache::new(self.image_bytes);
    }

    /// Walks the invariants.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        let mut end = 0;
        for (&at, extent) in &self.extents {
            assert!(
                at >= end && extent.sectors > 0,
                "extents at {at} and before {end} overlap, or one is empty"
            );
            assert!(self.ages.contains(&(extent.since, at)), "the extent at {at} has no age");
            assert_eq!(extent.images.len(), extent.sectors as usize * self.image_bytes, "the extent at {at}");
            end = at + extent.sectors;
        }
        assert_eq!(self.ages.len(), self.extents.len(), "ages and extents");
        assert_eq!(self.sectors, self.extents.values().map(|extent| extent.sectors).sum::<u64>(), "sectors");
    }
}
