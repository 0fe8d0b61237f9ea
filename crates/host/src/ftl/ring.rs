//! The write buffer: a ring of sectors with pblk's pointers.
//!
//! ```text
//!    map        kept         sync            submit            mem
//!  ───┬───────────┬────────────┬────────────────┬────────────────┬──────────► position
//!     │ on media, │ on media,  │ being written  │ not written    │ free
//!     │ readable  │ held back  │ (in any order) │                │
//! ```
//! `mem`: where the next sector goes. `submit`: the next sector to be written; where collected data have lines of their own, each
//! [`Kind`] has its own. `sync`: everything before is on the media. `safe`: so is everything of the application before it, or (with one
//! kind) as `sync`; a flush waits for it, as the victim still has what collection moves. `kept`: everything before can be read from the media too; it lags behind `sync` where a drive gives a sector
//! only when more has been written behind it (`mw_cunits`). `map`: everything before can only be read from the media; it follows `kept` when room is needed. The
//! *flush point* is how far somebody waits.
//!
//! Invariants: `map <= kept <= sync <= submit, safe <= mem <= map + size`; a page is in the index if and only if its newest version that was
//! taken in lies between `map` and `mem`. A relocated copy is taken in only while no newer one waits.

use pellucid_flash::{Lpn, Ppa};

/// Where a sector of the ring comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The application.
    User,
    /// Collection, from this unit.
    Collected(Ppa),
}

/// Whose lines a sector is written to: 0, the application's, which collection shares unless it has its own, 1.
pub(crate) type Kind = usize;

/// What has not been submitted of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// The first one, if there is any.
    pub next: u64,
    /// So many.
    pub count: u32,
}

/// How far a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not on its way, or on its way again after a failure.
    Waiting,
    /// On the media.
    Written,
    /// Its write failed, and the version at this position stands for it.
    Follows(u64),
}

/// One sector of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub lpn: Lpn,
    pub origin: Origin,
    pub progress: Progress,
    /// Trimmed since it was taken in: it reads as zeros, and its write is followed by another trim.
    pub trimmed: bool,
}

/// The ring.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    entries: Vec<Entry>,
    images: Vec<u8>,
    image_bytes: usize,
    mask: u64,
    pub mem: u64,
    /// By kind.
    pub queues: [Queue; 2],
    /// Collected data have lines of their own.
    apart: bool,
    pub sync: u64,
    pub safe: u64,
    pub kept: u64,
    pub map: u64,
    pub flush_point: u64,
    /// Sectors of the application between `sync` and `mem`, and of collection.
    pub held: [u32; 2],
    index: Index,
}

impl Ring {
    /// A ring of at least `sectors`; `apart`: collected ones are a kind of their own.
    pub fn new(sectors: u32, image_bytes: usize, apart: bool) -> Ring {
        let size = sectors.next_power_of_two();
        let blank =
            Entry { lpn: Lpn::NONE, origin: Origin::User, progress: Progress::Written, trimmed: false };
        Ring {
            entries: vec![blank; size as usize],
            images: vec![0; size as usize * image_bytes],
            image_bytes,
            mask: u64::from(size) - 1,
            mem: 0,
            queues: [Queue::default(); 2],
            apart,
            sync: 0,
            safe: 0,
            kept: 0,
            map: 0,
            flush_point: 0,
            held: [0; 2],
            index: Index::new(size),
        }
    }

    /// Sectors that it holds at most.
    #[inline]
    pub fn size(&self) -> u32 {
        self.mask as u32 + 1
    }

    /// Sectors that are not on the media.
    #[inline]
    pub fn unsynced(&self) -> u32 {
        (self.mem - self.sync) as u32
    }

    /// Sectors that cannot be read from the media: those that it must not lose.
    #[inline]
    pub fn held(&self) -> u32 {
        (self.mem - self.kept) as u32
    }

    /// The first sector that has not been submitted.
    #[inline]
    pub fn submit(&self) -> u64 {
        let waiting = self.queues.iter().filter(|queue| queue.count > 0);
        waiting.map(|queue| queue.next).min().unwrap_or(self.mem)
    }

    /// Kinds that there are.
    #[inline]
    pub fn kinds(&self) -> usize {
        1 + usize::from(self.apart)
    }

    #[inline]
    fn kind(&self, origin: Origin) -> Kind {
        usize::from(self.apart && origin != Origin::User)
    }

    /// The kind of the sector at `at`.
    #[inline]
    pub fn kind_at(&self, at: u64) -> Kind {
        self.kind(self.entry(at).origin)
    }

    /// Takes the first of `queue`, which is of `kind`.
    #[inline]
    pub fn take(&self, kind: Kind, queue: &mut Queue) -> Option<u64> {
        queue.count = queue.count.checked_sub(1)?;
        let at = queue.next;
        queue.next += 1;
        while queue.count > 0 && self.kind_at(queue.next) != kind {
            queue.next += 1;
        }
        Some(at)
    }

    #[inline]
    pub fn entry(&self, at: u64) -> &Entry {
        &self.entries[(at & self.mask) as usize]
    }

    /// Whether the sector at `at` is on the media.
    #[inline]
    pub fn is_written(&self, at: u64) -> bool {
        self.entry(at).progress == Progress::Written
    }

    #[inline]
    fn entry_mut(&mut self, at: u64) -> &mut Entry {
        &mut self.entries[(at & self.mask) as usize]
    }

    #[inline]
    pub fn image(&self, at: u64) -> &[u8] {
        let from = (at & self.mask) as usize * self.image_bytes;
        &self.images[from..from + self.image_bytes]
    }

    /// Takes a sector in; the caller has seen that there is room. An empty image stands for zeros.
    #[inline]
    pub fn push(&mut self, lpn: Lpn, origin: Origin, image: &[u8]) {
        debug_assert!(self.held() < self.size());
        // What is on the media makes room: from here on it is read there.
        while self.mem - self.map >= u64::from(self.size()) {
            self.index.forget(self.entries[(self.map & self.mask) as usize].lpn, self.map);
            self.map += 1;
        }
        let at = self.mem;
        self.mem += 1;
        *self.entry_mut(at) = Entry { lpn, origin, progress: Progress::Waiting, trimmed: false };
        let from = (at & self.mask) as usize * self.image_bytes;
        match image.is_empty() {
            true => self.images[from..from + self.image_bytes].fill(0),
            false => self.images[from..from + self.image_bytes].copy_from_slice(image),
        }
        self.held[usize::from(origin != Origin::User)] += 1;
        let kind = self.kind(origin);
        let queue = &mut self.queues[kind];
        if queue.count == 0 {
            queue.next = at;
        }
        queue.count += 1;
        self.index.set(lpn, at);
    }

    /// Where the newest version of `lpn` lies, if the ring has it.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u64> {
        self.index.get(lpn)
    }

    /// Brings the place of `lpn` in the index near.
    #[inline]
    pub fn touch(&self, lpn: Lpn) {
        self.index.touch(lpn);
    }

    /// Forgets `lpn`. Its newest version stays in the index, as older ones may still be on their way to the map.
    pub fn trim(&mut self, lpn: Lpn) {
        if let Some(at) = self.index.get(lpn) {
            self.entry_mut(at).trimmed = true;
        }
    }

    /// The sector at `at` is on the media.
    #[inline]
    pub fn written(&mut self, at: u64) {
        self.entry_mut(at).progress = Progress::Written;
    }

    /// The write of the sector at `at` failed. `true`: it must be written again; `false`: a newer version stands for it, and is
    /// waited for by who waited for this one.
    pub fn failed(&mut self, at: u64) -> bool {
        let Entry { lpn, origin, .. } = *self.entry(at);
        if origin != Origin::User {
            return true;
        }
        match self.index.get(lpn) {
            Some(newer) if newer != at => {
                self.entry_mut(at).progress = Progress::Follows(newer);
                if at < self.flush_point {
                    self.flush_point = self.flush_point.max(newer + 1);
                }
                false
            }
            // If it was trimmed it is written and trimmed again: somebody may have been promised that nothing older comes back.
            _ => true,
        }
    }

    /// Whether the sector at `at`, or the version that stands for it, is on the media.
    #[inline]
    fn is_stored(&self, mut at: u64) -> bool {
        while let Progress::Follows(newer) = self.entry(at).progress {
            at = newer;
        }
        self.entry(at).progress == Progress::Written
    }

    /// Moves `sync` and `safe` as far as they go; `true` if one moved.
    #[inline]
    pub fn settle(&mut self) -> bool {
        let before = (self.sync, self.safe);
        // What nobody needs counts as stored before it leaves its queue.
        let submit = self.submit();
        while self.sync < submit && self.is_stored(self.sync) {
            let kind = usize::from(self.entry(self.sync).origin != Origin::User);
            self.held[kind] -= 1;
            self.sync += 1;
        }
        self.safe = self.safe.max(self.sync);
        while self.apart
            && self.safe < self.mem
            && (self.kind_at(self.safe) == 1 || self.is_stored(self.safe))
        {
            self.safe += 1;
        }
        (self.sync, self.safe) != before
    }

    /// Bytes of memory that a host would need, with all the bytes of each sector.
    pub fn memory_bytes(&self, sector_bytes: u32) -> u64 {
        let entry = size_of::<Entry>() as u64 + u64::from(sector_bytes);
        self.entries.len() as u64 * entry + self.index.memory_bytes()
    }

    /// Panics where an invariant is broken.
    pub fn check(&self) {
        assert!(
            self.map <= self.kept
                && self.kept <= self.sync
                && self.sync <= self.safe
                && self.safe <= self.mem,
            "ring pointers"
        );
        for (kind, queue) in self.queues.iter().enumerate().filter(|(_, queue)| queue.count > 0) {
            let waiting = (queue.next..self.mem).filter(|&at| self.kind_at(at) == kind).count() as u32;
            assert!(self.sync <= queue.next && self.kind_at(queue.next) == kind, "queue {kind}: {queue:?}");
            assert_eq!(waiting, queue.count, "queue {kind}: {queue:?}");
        }
        assert!(self.mem - self.map <= u64::from(self.size()), "ring overrun");
        let mut newest = std::collections::BTreeMap::new();
        for at in self.map..self.mem {
            let entry = self.entry(at);
            newest.insert(entry.lpn, at);
        }
        for (lpn, at) in newest {
            assert_eq!(self.index.get(lpn), Some(at), "index of page {}", lpn.0);
        }
        let user = (self.sync..self.mem).filter(|&at| self.entry(at).origin == Origin::User).count() as u32;
        assert_eq!(self.held, [user, self.unsynced() - user], "sectors held");
    }
}

const VACANT: u32 = u32::MAX;

/// Page to position: open addressing with linear probing, at most half full.
#[derive(Clone, Debug)]
struct Index {
    slots: Vec<(u32, u64)>,
    mask: u32,
    shift: u32,
}

impl Index {
    fn new(entries: u32) -> Index {
        let size = (entries * 2).max(2);
        Index { slots: vec![(VACANT, 0); size as usize], mask: size - 1, shift: 32 - size.trailing_zeros() }
    }

    #[inline]
    fn home(&self, lpn: Lpn) -> u32 {
        lpn.0.wrapping_mul(0x9e37_79b9) >> self.shift
    }

    #[inline]
    fn touch(&self, lpn: Lpn) {
        prefetch_index::prefetch_index(&self.slots, self.home(lpn) as usize);
    }

    #[inline]
    fn slot(&self, lpn: Lpn) -> usize {
        let mut at = self.home(lpn);
        loop {
            let (key, _) = self.slots[at as usize];
            if key == lpn.0 || key == VACANT {
                return at as usize;
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline]
    fn get(&self, lpn: Lpn) -> Option<u64> {
        let (key, position) = self.slots[self.slot(lpn)];
        (key == lpn.0 && key != VACANT).then_some(position)
    }

    #[inline]
    fn set(&mut self, lpn: Lpn, position: u64) {
        let at = self.slot(lpn);
        self.slots[at] = (lpn.0, position);
    }

    /// Forgets `lpn` if it is at `position`.
    fn forget(&mut self, lpn: Lpn, position: u64) {
        if lpn == Lpn::NONE {
            return;
        }
        let at = self.slot(lpn);
        if self.slots[at] != (lpn.0, position) {
            return;
        }
        // Whoever was pushed on by this one moves back.
        let mut hole = at as u32;
        let mut at = (hole + 1) & self.mask;
        while self.slots[at as usize].0 != VACANT {
            let home = self.home(Lpn(self.slots[at as usize].0));
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(hole) & self.mask {
                self.slots[hole as usize] = self.slots[at as usize];
                hole = at;
            }
            at = (at + 1) & self.mask;
        }
        self.slots[hole as usize].0 = VACANT;
    }

    fn memory_bytes(&self) -> u64 {
        (self.slots.len() * size_of::<(u32, u64)>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn the_index_is_a_map() {
        let mut rng = Rng::new(3);
        let mut index = Index::new(32);
        let mut plain: BTreeMap<u32, u64> = BTreeMap::new();
        for position in 0..20_000 {
            let lpn = Lpn(rng.below(60) as u32);
            match plain.get(&lpn.0).copied() {
                Some(at) if rng.chance(0.5) => {
                    index.forget(lpn, at);
                    plain.remove(&lpn.0);
                }
                _ if plain.len() < 32 => {
                    index.set(lpn, position);
                    plain.insert(lpn.0, position);
                }
                _ => {}
            }
            for lpn in 0..60 {
                assert_eq!(index.get(Lpn(lpn)), plain.get(&lpn).copied(), "page {lpn} at {position}");
            }
        }
    }
}
