//! Write buffer: a ring of sectors with pblk's pointers.
//!
//! ```text
//!    map        kept         sync            submit            mem
//!  ───┬───────────┬────────────┬────────────────┬────────────────┬──────────► position
//!     │ on media, │ on media,  │ being written  │ not written    │ free
//!     │ readable  │ held back  │ (in any order) │                │
//! ```
//! `mem`: position of the next sector. `submit`: next sector to be written; if GC copies have their own
//! lines, each [`Kind`] has its own. `sync`: everything before it is on the media. `safe`: everything of the
//! application before it is on the media; with one kind, it equals `sync`. A flush waits for `safe`, because
//! the victim still has the data of its GC copies. `kept`: everything before it can also be read from the
//! media; it lags behind `sync` if the drive returns a sector only after further writes (`mw_cunits`). `map`:
//! everything before it can only be read from the media; it follows `kept` when space is needed. The *flush
//! point* is the position that a command waits for.
//!
//! The index has a chain for each hash of a page, from the newest version to older ones. Versions leave the
//! ring in the order of their arrival: once one of them has left, all later ones of its chain have left too.
//! So a chain needs no removals.
//!
//! Invariants: `map <= kept <= sync <= submit, safe <= mem <= map + size`; a page is in the index if and only
//! if its newest version lies between `map` and `mem`. A GC copy is accepted only while no newer version
//! waits.

use pellucid_flash::{Lpn, Ppa, copy_images};

/// Origin of a sector in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The application's write.
    User,
    /// A GC copy of this mapping unit.
    GcCopy(Ppa),
}

/// Owner of the lines that a sector is written to: 0 is the application, whose lines GC shares unless it has
/// its own; 1 is GC.
pub(crate) type Kind = usize;

/// Sectors of one kind that have not been submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Position of the first sector, if there is any.
    pub next: u64,
    /// Number of sectors.
    pub count: u32,
}

/// Progress of a sector's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The write has not begun, or has to be repeated after a failure.
    Waiting,
    /// The sector is on the media.
    Written,
    /// The write failed, and the version at this position replaces it.
    Follows(u64),
}

/// Sector in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub lpn: Lpn,
    pub origin: Origin,
    pub progress: Progress,
    /// The sector was trimmed in the ring: it reads as zeros, and another trim follows its write.
    pub trimmed: bool,
    /// Next older position in the chain of the index.
    older: u64,
}

/// Marker for a position outside any ring.
const NOWHERE: u64 = u64::MAX;

/// Write buffer.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    entries: Vec<Entry>,
    images: Vec<u8>,
    image_bytes: usize,
    mask: u64,
    mem: u64,
    /// Unsubmitted sectors, by kind.
    queues: [Queue; 2],
    /// GC copies have their own lines.
    apart: bool,
    sync: u64,
    safe: u64,
    kept: u64,
    map: u64,
    flush_point: u64,
    /// Number of sectors between `sync` and `mem`: the application's, and GC's.
    held: [u32; 2],
    /// Newest position of each chain of the index; the number of chains is a power of two.
    newest: Vec<u64>,
}

impl Ring {
    /// Creates a ring of at least `sectors`; `apart` makes GC copies a separate kind.
    pub fn new(sectors: u32, image_bytes: usize, apart: bool) -> Ring {
        let size = sectors.next_power_of_two();
        let blank = Entry {
            lpn: Lpn::NONE,
            origin: Origin::User,
            progress: Progress::Written,
            trimmed: false,
            older: NOWHERE,
        };
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
            newest: vec![NOWHERE; size as usize * 2],
        }
    }

    /// Returns the maximum number of sectors.
    #[inline]
    pub fn size(&self) -> u32 {
        self.mask as u32 + 1
    }

    /// Returns the number of sectors that are not on the media.
    #[inline]
    pub fn unsynced(&self) -> u32 {
        (self.mem - self.sync) as u32
    }

    /// Returns the number of sectors that cannot be read from the media, so the ring must keep them.
    #[inline]
    pub fn held(&self) -> u32 {
        (self.mem - self.kept) as u32
    }

    /// Returns the number of sectors of the application that are not on the media.
    #[inline]
    pub fn held_of_user(&self) -> u32 {
        self.held[0]
    }

    /// Returns the number of GC copies that are not on the media.
    #[inline]
    pub fn held_of_gc(&self) -> u32 {
        self.held[1]
    }

    /// Returns the position of the next sector.
    #[inline]
    pub fn mem(&self) -> u64 {
        self.mem
    }

    /// Reports whether everything of the application before `point` is on the media.
    #[inline]
    pub fn is_safe(&self, point: u64) -> bool {
        point <= self.safe
    }

    /// Returns the number of sectors whose newest version, the application's, is not on the media.
    pub fn unsaved(&self) -> u64 {
        let is_unsaved = |&at: &u64| {
            let Entry { lpn, origin, progress, .. } = *self.entry(at);
            origin == Origin::User && progress == Progress::Waiting && self.find(lpn) == Some(at)
        };
        (self.sync..self.mem).filter(is_unsaved).count() as u64
    }

    /// Returns the position of the first unsubmitted sector.
    #[inline]
    pub fn submit(&self) -> u64 {
        let next = |queue: Queue| if queue.count > 0 { queue.next } else { self.mem };
        match self.apart {
            true => next(self.queues[0]).min(next(self.queues[1])),
            false => next(self.queues[0]),
        }
    }

    /// Returns the number of kinds.
    #[inline]
    pub fn kinds(&self) -> usize {
        1 + usize::from(self.apart)
    }

    #[inline]
    fn kind(&self, origin: Origin) -> Kind {
        usize::from(self.apart && origin != Origin::User)
    }

    /// Returns the kind of the sector at `at`.
    #[inline]
    pub fn kind_at(&self, at: u64) -> Kind {
        self.kind(self.entry(at).origin)
    }

    /// Returns the unsubmitted sectors of `kind`.
    #[inline]
    pub fn queue(&self, kind: Kind) -> Queue {
        self.queues[kind]
    }

    /// Notes that the sectors of `kind` before `left` were submitted, and returns their number.
    #[inline]
    pub fn submitted(&mut self, kind: Kind, left: Queue) -> u32 {
        let before = std::mem::replace(&mut self.queues[kind], left);
        assert!(left.count <= before.count, "sectors come back to a queue");
        assert!(before.next <= left.next && left.next <= self.mem, "a queue ends in the ring");
        before.count - left.count
    }

    /// Asks for everything now in the ring to be written, even if superpages must be padded. Returns `true` if that was not asked before.
    pub fn flush_all(&mut self) -> bool {
        let raised = self.flush_point < self.mem;
        self.flush_point = self.mem;
        raised
    }

    /// Reports whether everything in the ring is on the media.
    pub fn is_synced(&self) -> bool {
        self.sync == self.mem
    }

    /// Reports whether a command waits for the sector at `at`.
    #[inline]
    pub fn is_awaited(&self, at: u64) -> bool {
        at < self.flush_point
    }

    /// Releases all sectors that are on the media.
    #[inline]
    pub fn release_synced(&mut self) {
        self.kept = self.sync;
    }

    /// Returns the page of the first sector that is on the media and kept, and whether it is the page's newest version.
    pub fn first_kept(&self) -> Option<(Lpn, bool)> {
        let lpn = (self.kept < self.sync).then(|| self.entry(self.kept).lpn)?;
        Some((lpn, self.find(lpn) == Some(self.kept)))
    }

    /// Releases the first sector that is on the media and kept.
    pub fn release_first(&mut self) {
        assert!(self.kept < self.sync, "a sector is released before it is on the media");
        self.kept += 1;
    }

    /// Removes and returns the first position of `queue`, which is of `kind`.
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

    /// Reports whether the sector at `at` is on the media.
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

    /// Adds a sector; the caller has checked that there is space. An empty image means zeros.
    #[inline]
    pub fn push(&mut self, lpn: Lpn, origin: Origin, image: &[u8]) {
        assert!(self.held() < self.size(), "a sector is taken into a full ring");
        // A sector that is on the media is overwritten; from now on it is read there.
        let at = self.mem;
        self.mem += 1;
        self.map = self.map.max(self.mem.saturating_sub(self.size().into()));
        let chain = self.chain(lpn);
        let older = std::mem::replace(&mut self.newest[chain], at);
        *self.entry_mut(at) = Entry { lpn, origin, progress: Progress::Waiting, trimmed: false, older };
        let from = (at & self.mask) as usize * self.image_bytes;
        match image.is_empty() {
            true => self.images[from..from + self.image_bytes].fill(0),
            false => copy_images(&mut self.images[from..from + self.image_bytes], image),
        }
        self.held[usize::from(origin != Origin::User)] += 1;
        let kind = self.kind(origin);
        let queue = &mut self.queues[kind];
        if queue.count == 0 {
            queue.next = at;
        }
        queue.count += 1;
    }

    /// Returns the chain of `lpn` in the index.
    #[inline]
    fn chain(&self, lpn: Lpn) -> usize {
        let hash = u64::from(lpn.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.newest.len() - 1)
    }

    /// Returns the position of the newest version of `lpn`, if it is in the ring.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u64> {
        let (mut at, length) = (self.newest[self.chain(lpn)], self.mem - self.map);
        while at.wrapping_sub(self.map) < length {
            let entry = self.entry(at);
            if entry.lpn == lpn {
                return Some(at);
            }
            at = entry.older;
        }
        None
    }

    /// Returns the first logical page from `from` on with a version in the ring, and the number of entries
    /// examined.
    pub fn next(&self, from: Lpn) -> (Option<Lpn>, u64) {
        let length = self.mem - self.map;
        let lpns = (0..length).map(|at| self.entry(self.map + at).lpn).filter(|&lpn| lpn >= from);
        (lpns.min(), length)
    }

    /// Prefetches the index entry of `lpn`.
    #[inline]
    pub fn touch(&self, lpn: Lpn) {
        prefetch_index::prefetch_index(&self.newest, self.chain(lpn));
    }

    /// Trims `lpn`. Its newest version stays in the index, because older ones may still be on their way to
    /// the map.
    pub fn trim(&mut self, lpn: Lpn) {
        if let Some(at) = self.find(lpn) {
            self.entry_mut(at).trimmed = true;
        }
    }

    /// Notes that the sector at `at` is on the media.
    #[inline]
    pub fn written(&mut self, at: u64) {
        assert!(self.map <= at && at < self.mem, "a sector outside the ring is written");
        self.entry_mut(at).progress = Progress::Written;
    }

    /// Handles a failed write of the sector at `at`. Returns `true` if it must be written again; `false` if a
    /// newer version replaces it, and commands that waited for this one wait for that.
    pub fn failed(&mut self, at: u64) -> bool {
        let Entry { lpn, origin, .. } = *self.entry(at);
        if origin != Origin::User {
            return true;
        }
        match self.find(lpn) {
            Some(newer) if newer != at => {
                self.entry_mut(at).progress = Progress::Follows(newer);
                if at < self.flush_point {
                    self.flush_point = self.flush_point.max(newer + 1);
                }
                false
            }
            // A trimmed sector is written and trimmed again: the host may rely on it that no older version
            // comes back.
            _ => true,
        }
    }

    /// Reports whether the sector at `at`, or the version that replaces it, is on the media.
    #[inline]
    fn is_stored(&self, mut at: u64) -> bool {
        while let Progress::Follows(newer) = self.entry(at).progress {
            at = newer;
        }
        self.entry(at).progress == Progress::Written
    }

    /// Advances `sync` and `safe` as far as possible; returns `true` if one moved.
    #[inline]
    pub fn settle(&mut self) -> bool {
        let before = (self.sync, self.safe);
        // A superfluous sector counts as stored before it leaves its queue.
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

    /// Returns the bytes of memory that a host would need, with all bytes of each sector.
    pub fn memory_bytes(&self, sector_bytes: u32) -> u64 {
        let entry = size_of::<Entry>() as u64 + u64::from(sector_bytes);
        self.entries.len() as u64 * entry + (self.newest.len() * size_of::<u64>()) as u64
    }

    /// Checks the invariants; panics if one is broken.
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
            assert_eq!(self.find(lpn), Some(at), "index of page {}", lpn.0);
        }
        let user = (self.sync..self.mem).filter(|&at| self.entry(at).origin == Origin::User).count() as u32;
        assert_eq!(self.held, [user, self.unsynced() - user], "sectors held");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    /// Compares the index with a plain map of the sectors in the ring. Few pages make versions replace each
    /// other, and few places make chains collide.
    #[test]
    fn the_index_finds_the_newest_version_until_it_has_left() {
        let mut rng = Rng::new(3);
        let mut ring = Ring::new(16, 1, false);
        let mut plain: BTreeMap<u32, u64> = BTreeMap::new();
        for position in 0..20_000 {
            let lpn = Lpn(rng.below(40) as u32);
            ring.kept = ring.mem;
            ring.push(lpn, Origin::User, &[]);
            plain.insert(lpn.0, position);
            plain.retain(|_, &mut at| at >= ring.map);
            assert_eq!(ring.map, (position + 1).saturating_sub(16));
            for lpn in 0..40 {
                assert_eq!(ring.find(Lpn(lpn)), plain.get(&lpn).copied(), "page {lpn} at {position}");
            }
        }
    }
}
