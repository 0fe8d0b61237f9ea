//! Slabs: their contents, and the write buffers.
//!
//! ```text
//!   free ─► open (a buffer) ─► full (waits) ─► writing ─► stored ─► evicting ─► leaving (reads end) ─► free
//!                               ▲  program failed  │         └── nothing valid ──────▲
//!                               └──────────────────┘
//! ```
//! The number of a slab is independent of its place on flash, which the engine knows. Invariants: `valid` counts the index entries in the
//! slab, `hot` those that were asked for since; `tops[slot]` is the upper half of the hash of the item stored in a slot.

use pellucid_flash::SimTime;
use pellucid_flash::slab::NIL;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    /// Being filled in memory.
    Open,
    /// Complete in memory, waits for the engine.
    Full,
    /// On its way to flash.
    Writing,
    /// On flash.
    Stored,
    /// On flash, what is kept of it is being written again.
    Evicting,
    /// No item of it is valid; reads of it are under way.
    Leaving,
    /// Holds a part of a snapshot.
    Snapshot,
}

#[derive(Clone, Debug)]
pub(super) struct SlabRecord {
    pub state: State,
    pub class: u8,
    /// Its write buffer; `NIL`: none.
    pub buffer: u32,
    pub valid: u32,
    pub hot: u32,
    /// Reads of flash under way.
    pub readers: u32,
    /// When it became full: a number that only grows.
    pub order: u64,
    /// When an item of it was last asked for: the same.
    pub accessed: u64,
    /// The latest expiry of its items; `u32::MAX`: one of them never expires.
    pub expires_s: u32,
    /// When it was chosen as a victim; `None`: it was not.
    pub evicted: Option<SimTime>,
    /// The upper half of the hash, for each slot in use.
    pub tops: Vec<u32>,
}

impl Default for SlabRecord {
    fn default() -> SlabRecord {
        SlabRecord {
            state: State::Free,
            class: 0,
            buffer: NIL,
            valid: 0,
            hot: 0,
            readers: 0,
            order: 0,
            accessed: 0,
            expires_s: 0,
            evicted: None,
            tops: Vec::new(),
        }
    }
}

/// Write buffers, each as large as a slab. Memory is taken when a buffer is first used.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    bytes: Vec<Vec<u8>>,
    vacant: Vec<u32>,
    slab_bytes: usize,
}

impl Buffers {
    pub fn new(count: u32, slab_bytes: usize) -> Buffers {
        Buffers { bytes: vec![Vec::new(); count as usize], vacant: (0..count).rev().collect(), slab_bytes }
    }

    pub fn count(&self) -> usize {
        self.bytes.len()
    }

    pub fn vacant(&self) -> usize {
        self.vacant.len()
    }

    pub fn take(&mut self) -> Option<u32> {
        let at = self.vacant.pop()?;
        self.bytes[at as usize].resize(self.slab_bytes, 0);
        Some(at)
    }

    pub fn release(&mut self, at: u32) {
        self.vacant.push(at);
    }

    #[inline]
    pub fn get(&self, at: u32) -> &[u8] {
        &self.bytes[at as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut [u8] {
        &mut self.bytes[at as usize]
    }
}

impl SlabRecord {
    /// An item of it lives until then; 0: for ever.
    #[inline]
    pub fn lives_until(&mut self, expires_s: u32) {
        self.expires_s = if expires_s == 0 { u32::MAX } else { self.expires_s.max(expires_s) };
    }
}
