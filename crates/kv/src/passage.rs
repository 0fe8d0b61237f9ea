//! Passage: the phase of a cache, and the progress of a start or a stop.
//!
//! ```text
//!   starting ─► scanning ─► loading ─► wiping ─► running ─► draining ─► flushing ─► saving ─► stopped
//!                   └─ no snapshot ───────▲          ▲ ask      │           │          │         │
//!                                         │          └──────────┴───────────┘          │         │
//!                                         └── ask ─────────────────────────────────────┴─────────┘
//! ```

use crate::Ask;
use crate::snapshot::{self, Part};
use std::collections::VecDeque;

/// Maximum number of reads in flight.
const READS_MAX: usize = 64;
/// Bytes per read.
const LOAD_BYTES: u32 = 256 << 10;

/// Phase of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The engine examines the flash.
    #[default]
    Starting,
    /// Places are searched for snapshots.
    Scanning,
    /// A snapshot is being read.
    Loading,
    /// Snapshots are being made unreadable.
    Wiping,
    Running,
    /// Everything in memory is being written to flash.
    Draining,
    /// Earlier writes are becoming durable.
    Flushing,
    /// A snapshot is being written.
    Saving,
    Stopped,
}

/// Piece of a snapshot to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub slab: u32,
    pub from: u32,
    pub bytes: u32,
}

/// Phase, and the snapshot that is read or written. Each of its reads, writes and wipes in flight is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    phase: Phase,
    /// Requests that came too early.
    early: VecDeque<Ask>,
    places: Vec<u32>,
    parts: Vec<Part>,
    /// Slabs that hold parts; those of the loaded snapshot come first, in order.
    slabs: Vec<u32>,
    /// Pieces to read: slab and first byte.
    pieces: Vec<(u32, u32)>,
    /// Reads, writes and wipes in flight.
    left: usize,
    image: Vec<u8>,
    lost: bool,
    next_part: u32,
    generation: u64,
}

impl Passage {
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Enters a phase that needs no preparation.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Keeps a request that came too early.
    pub fn keep(&mut self, ask: Ask) {
        self.early.push_back(ask);
    }

    /// The next request that came too early.
    pub fn next_early(&mut self) -> Option<Ask> {
        self.early.pop_front()
    }

    /// Requests that came too early.
    pub fn early(&self) -> impl Iterator<Item = &Ask> {
        self.early.iter()
    }

    /// Reports whether no work of the start or stop is in flight.
    pub fn is_idle(&self) -> bool {
        self.left == 0
    }

    /// Counts the end of a read, a write or a wipe.
    pub fn ended(&mut self) {
        self.left -= 1;
    }

    // ---- start

    /// Starts searching these places for snapshots.
    pub fn begin_scan(&mut self, places: Vec<u32>) {
        self.places = places;
        self.phase = Phase::Scanning;
    }

    /// The next place to search.
    pub fn next_place(&mut self) -> Option<u32> {
        let place = if self.left < READS_MAX { self.places.pop() } else { None };
        self.left += usize::from(place.is_some());
        place
    }

    /// Adds a part of a snapshot.
    pub fn found(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// Ends the search. Returns all parts, those of the newest snapshot first and in order, and how many of them to read: with `warm`, those of a
    /// complete snapshot.
    pub fn begin_load(&mut self, warm: bool) -> (Vec<Part>, u32) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_by_key(|part| (std::cmp::Reverse(part.generation), part.part));
        self.generation = parts.first().map_or(0, |part| part.generation);
        self.phase = Phase::Loading;
        let newest = if warm && snapshot::is_whole(&parts) { parts[0].parts } else { 0 };
        (parts, newest)
    }

    /// Assigns a slab to a part, and schedules its read if it is one of the first `newest`.
    pub fn adopted(&mut self, part: Part, slab: u32, newest: u32) {
        if part.generation == self.generation && part.part < newest {
            let from = (0..part.bytes).step_by(LOAD_BYTES as usize);
            self.pieces.extend(from.map(|from| (slab, from)));
            self.image.resize(self.image.len() + part.bytes as usize, 0);
        }
        self.slabs.push(slab);
        self.parts.push(part);
    }

    /// Drops the snapshot: a part has an impossible location.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    fn part_of(&self, slab: u32) -> usize {
        self.slabs.iter().position(|&other| other == slab).expect("it is a part")
    }

    fn piece_bytes(&self, at: usize, from: u32) -> u32 {
        (self.parts[at].bytes - from).min(LOAD_BYTES)
    }

    /// The next piece to read.
    pub fn next_piece(&mut self) -> Option<Piece> {
        let (slab, from) = if self.left < READS_MAX { self.pieces.pop() } else { None }?;
        self.left += 1;
        Some(Piece { slab, from, bytes: self.piece_bytes(self.part_of(slab), from) })
    }

    /// Stores a piece; `None`: its read failed.
    pub fn loaded(&mut self, slab: u32, from: u32, bytes: Option<&[u8]>) {
        let at = self.part_of(slab);
        let before: u32 = self.parts[..at].iter().map(|part| part.bytes).sum();
        let to = (before + from) as usize;
        let count = self.piece_bytes(at, from) as usize;
        match bytes.and_then(|bytes| bytes.get(..count)) {
            Some(bytes) => self.image[to..to + count].copy_from_slice(bytes),
            None => self.lost = true,
        }
        self.left -= 1;
    }

    /// Takes the loaded snapshot; `None`: there is none, or it is damaged.
    pub fn take_image(&mut self) -> Option<Vec<u8>> {
        let image = std::mem::take(&mut self.image);
        let lost = std::mem::take(&mut self.lost);
        (!image.is_empty() && !lost && snapshot::is_sound(&self.parts, &image)).then_some(image)
    }

    /// Starts making all snapshots unreadable. Returns their slabs.
    pub fn begin_wipe(&mut self) -> Vec<u32> {
        self.phase = Phase::Wiping;
        self.parts.clear();
        self.left = self.slabs.len();
        self.slabs.clone()
    }

    /// Takes the slabs of snapshots that are unreadable now.
    pub fn take_slabs(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.slabs)
    }

    // ---- stop

    /// Starts writing a snapshot.
    pub fn begin_save(&mut self, image: Vec<u8>) {
        self.phase = Phase::Saving;
        self.generation += 1;
        self.image = image;
        self.next_part = 0;
    }

    /// Payload of the next part to write, at most `each` bytes.
    pub fn next_payload(&self, each: usize) -> Option<&[u8]> {
        let from = self.next_part as usize * each;
        (from < self.image.len()).then(|| &self.image[from..self.image.len().min(from + each)])
    }

    /// Notes that the next part, of at most `each` bytes, is in a slab and being written.
    pub fn part_made(&mut self, slab: u32, each: usize) {
        let parts = self.image.len().div_ceil(each) as u32;
        let payload = self.next_payload(each).expect("there is a part");
        let part = Part::new(self.generation, self.next_part, parts, payload);
        self.parts.push(part);
        self.slabs.push(slab);
        self.next_part += 1;
        self.left += 1;
    }

    /// Sets the places of a slab's part, which are stored in it.
    pub fn part_placed(&mut self, slab: u32, places: &[u32]) -> &Part {
        let at = self.part_of(slab);
        let part = &mut self.parts[at];
        part.places.clear();
        part.places.extend_from_slice(places);
        part
    }

    /// Number of parts being written.
    pub fn saving(&self) -> usize {
        self.left
    }

    /// Removes the part of a slab.
    pub fn forget(&mut self, slab: u32) {
        self.slabs.retain(|&other| other != slab);
    }

    /// Ends the snapshot's write. Returns whether requests have arrived meanwhile.
    pub fn saved(&mut self) -> bool {
        self.image = Vec::new();
        self.parts.clear();
        self.phase = Phase::Stopped;
        !self.early.is_empty()
    }
}
