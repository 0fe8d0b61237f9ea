//! Garbage collection (GC): the valid sectors of the emptiest line go through the ring like the
//! application's; then the line is reset.
//!
//! ```text
//!  engine: next_gc ─► a vector read of many ─► out-of-band data say whose each is ─► ring ─► superpage
//!  line empty ─► reset of its chunks, when nothing reads from it any more ─► free
//! ```
//! The ring reserves a place for every sector that is being read, so GC never waits for space that only GC
//! could free.

use super::HostFtl;
use super::meta;
use super::ring::Origin;
use pellucid_flash::{Completion, DieId, Lpn, Ppa, Status, Vector};
use pellucid_ftl::{Arrival, Arrived, GcJob, Load, Move, Reclaim};

/// Divisor of GC's share of the ring: GC reads when this part of its share is free, so that its vectors are
/// long while the rest is at work.
const BATCHES: u32 = 4;

/// The only die: to the engine, the whole target is one.
const DIE: DieId = DieId(0);

/// State of GC between steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gc {
    /// Number of sectors being read.
    pub reading: u32,
    /// GC found no victim at the last attempt, and is to search again.
    pub unfinished: bool,
    /// Reads of sectors that the drive still holds back.
    deferred: Vec<u32>,
}

impl HostFtl {
    /// Starts the GC work that is due.
    pub(super) fn start_gc(&mut self) {
        self.ftl.set_now(self.now);
        self.ftl.reap(DIE);
        self.gc.unfinished = false;
        let most = Vector::ADDRESSES_MAX as u32;
        let least = self.lines.superpage_sectors.min(most);
        loop {
            let room = self.ring.size() - self.ring.held() - self.gc.reading;
            if room < least || self.rests() || !self.ftl.wants_gc(DIE, Load::Busy) {
                break;
            }
            let share = self.rate.gc(self.ftl.blocks().free());
            let left = share.saturating_sub(self.ring.held[1] + self.gc.reading);
            // A single sector that leaves the ring does not trigger a read.
            if left < (share / BATCHES).clamp(least, most) {
                break;
            }
            let count = left.min(room).min(most);
            if !self.read_victim(count) {
                self.gc.unfinished = true;
                break;
            }
            self.moved = true;
        }
        self.reset_emptied();
    }

    /// Reads up to `count` sectors of the victim; returns `false` if none can be read now.
    fn read_victim(&mut self, count: u32) -> bool {
        let read = self.reads.take();
        let mut copies = std::mem::take(&mut self.reads[read].copies);
        copies.clear();
        while (copies.len() as u32) < count
            && let Some(GcJob::Move(&[moved])) = self.ftl.next_gc(DIE, Load::Busy)
        {
            let line = self.lines.line_of(moved.from);
            self.lines[line].holds += 1;
            copies.push(moved);
        }
        let some = !copies.is_empty();
        self.gc.reading += copies.len() as u32;
        self.reads[read].copies = copies;
        match some {
            true if self.is_held_back(read) => self.gc.deferred.push(read),
            true => self.send_copies(read),
            false => self.reads.release(read),
        }
        some
    }

    /// Reports whether no further GC copies are coming that could fill a superpage.
    pub(super) fn gc_rests(&self) -> bool {
        // A victim that waits for the erase of another one yields no copies before that.
        self.gc.reading == 0 && (self.gc.unfinished || !self.ftl.wants_gc(DIE, Load::Busy))
    }

    fn is_held_back(&self, read: u32) -> bool {
        self.lines.held_rows > 0
            && self.reads[read].copies.iter().any(|moved| !self.lines.is_readable(moved.from))
    }

    /// Sends the deferred reads whose sectors have become readable.
    pub(super) fn send_deferred(&mut self) {
        for read in std::mem::take(&mut self.gc.deferred) {
            match self.is_held_back(read) {
                true => self.gc.deferred.push(read),
                false => self.send_copies(read),
            }
        }
    }

    /// Takes in the sectors of a victim that a read returned.
    pub(super) fn copies_arrived(&mut self, read: u32, completion: &mut Completion) {
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        let (data, vector) = (std::mem::take(&mut completion.data), completion.vector.take());
        let result = completion.result;
        let copies = std::mem::take(&mut self.reads[read].copies);
        self.gc.reading -= copies.len() as u32;
        self.ftl.set_now(self.now);
        let oob = vector.as_ref().map_or(&[][..], |v| &v.metadata);
        let mut of_map = false;
        for (i, moved @ &Move { from, .. }) in copies.iter().enumerate() {
            // A failed command without an error bitmap has lost all sectors.
            let read = ok || (result != 0 && result >> i & 1 == 0);
            let bytes = oob.get(i * meta::OOB_BYTES..(i + 1) * meta::OOB_BYTES).unwrap_or_default();
            let named =
                meta::parse_oob(bytes, self.config.uuid, self.lines.line_of(from)).map(|owner| owner.0);
            let newer =
                || named.is_some_and(|lpn| lpn.0 < self.ftl.user_units() && self.has_newer(lpn, from));
            let arrival = match read {
                _ if !self.ftl.is_valid(from) || newer() => Arrival::Outdated,
                true => Arrival::Read,
                false => Arrival::Unreadable,
            };
            match self.ftl.arrived(moved, named, arrival) {
                Arrived::Keep(lpn) => {
                    let image = &data[i * self.image_bytes..(i + 1) * self.image_bytes];
                    self.ring.push(lpn, Origin::GcCopy(from), image);
                }
                Arrived::Metadata => of_map = true,
                Arrived::Drop => {}
                Arrived::Lost => self.counters.lost_reads += 1,
            }
        }
        if of_map {
            self.moved = true;
            self.write_map();
        }
        self.reads[read].copies = copies;
        self.pools.put_back(data, vector);
    }

    /// Reports whether a newer version than the valid copy at `from` is on its way. The ring holds every such
    /// version. The map, which costs a cache miss, is asked only if the newest version has been written
    /// before an older one.
    #[inline]
    fn has_newer(&self, lpn: Lpn, from: Ppa) -> bool {
        match self.ring.find(lpn) {
            // The newer version invalidates this one when its write ends.
            Some(at) if !self.ring.is_written(at) => true,
            Some(_) => !self.ftl.is_current(from, Some(lpn)),
            None => {
                debug_assert!(
                    self.ftl.is_current(from, Some(lpn)),
                    "page {}: a copy in no ring is newer",
                    lpn.0
                );
                false
            }
        }
    }

    /// Resets empty lines, unless they wait until trims are stored.
    pub(super) fn reset_emptied(&mut self) {
        self.ftl.set_now(self.now);
        while let Some(job) = self.ftl.next_erase() {
            match job {
                Reclaim::Erase(line, _) => self.reset_line(line, false),
                Reclaim::Retire(line) => {
                    self.reset_line(line, true);
                    self.read_only |= self.ftl.view().worn_out;
                }
                Reclaim::Evict(_) => unreachable!("it is no cache"),
                Reclaim::AwaitsTrims => return self.write_map(),
            }
            self.moved = true;
        }
    }
}
