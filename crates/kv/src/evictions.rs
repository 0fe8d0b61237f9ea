//! Victims whose items are being rewritten, and the watermarks.

use crate::Keep;
use crate::watermarks::Watermarks;
use pellucid_flash::SimTime;

/// A victim with items to keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eviction {
    pub slab: u32,
    pub keep: Keep,
    /// The first slot not examined yet.
    pub next: u32,
    /// Reads in flight.
    pub reads: u32,
}

/// Victims in progress.
#[derive(Clone, Debug)]
pub(crate) struct Evictions {
    list: Vec<Eviction>,
    watermarks: Watermarks,
}

impl Evictions {
    pub fn new(watermarks: Watermarks) -> Evictions {
        Evictions { list: Vec::new(), watermarks }
    }

    /// Low and high watermark, in slabs.
    pub fn marks(&self) -> [u32; 2] {
        self.watermarks.marks()
    }

    /// Notes a written slab; `set_bytes`: bytes stored by clients so far.
    pub fn slab_written(&mut self, now: SimTime, set_bytes: u64) {
        self.watermarks.written(now, set_bytes);
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Adds a victim; returns its position.
    pub fn add(&mut self, slab: u32, keep: Keep) -> usize {
        self.list.push(Eviction { slab, keep, next: 0, reads: 0 });
        self.list.len() - 1
    }

    pub fn get(&self, at: usize) -> Eviction {
        self.list[at]
    }

    /// The position of a victim that is being read.
    pub fn position(&self, slab: u32) -> usize {
        let found = self.list.iter().position(|eviction| eviction.slab == slab);
        found.expect("a victim's reads end before it does")
    }

    /// Notes that slots before `next` have been examined, and the reads in flight.
    pub fn went_on(&mut self, at: usize, next: u32, reads: u32) {
        (self.list[at].next, self.list[at].reads) = (next, reads);
    }

    /// Notes the end of a read of a victim.
    pub fn read_ended(&mut self, at: usize) {
        self.list[at].reads -= 1;
    }

    /// Removes a victim that has been read completely.
    pub fn remove(&mut self, at: usize) {
        self.list.swap_remove(at);
    }
}
