//! Passage: the phase of a cache, and what a start or a stop is at.
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

/// Reads at a time.
const READS_MAX: usize = 64;
/// Bytes of one of them.
const LOAD_BYTES: u32 = 256 << 10;

/// Phase of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The engine looks at the flash.
    Starting,
    /// Places are looked at for snapshots.
    Scanning,
    /// A snapshot is read.
    Loading,
    /// Snapshots are made unreadable.
    Wiping,
    Running,
    /// Everything in memory goes to flash.
    Draining,
    /// Earlier writes become durable.
    Flushing,
    /// A snapshot is written.
    Saving,
    Stopped,
}

/// Piece of a snapshot that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub slab: u32,
    pub from: u32,
    pub bytes: u32,
}

/// Phase, and the snapshot that is read or written. Each read, write and wipe of it is counted while it is under way.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    phase: Phase,
    /// Requests that came too early.
    early: VecDeque<Ask>,
    places: Vec<u32>,
    parts: Vec<Part>,
    /// Slabs that hold parts; of the snapshot that is read, those in order first.
    slabs: Vec<u32>,
    /// Bytes to be read, by slab and from where on.
    pieces: Vec<(u32, u32)>,
    /// Reads, writes and wipes under way.
    left: usize,
    image: Vec<u8>,
    lost: bool,
    next_part: u32,
    generation: u64,
}

impl Default for Passage {
    fn default() -> Passage {
        Passage {
            phase: Phase::Starting,
            early: VecDeque::new(),
            places: Vec::new(),
            parts: Vec::new(),
            slabs: Vec::new(),
            pieces: Vec::new(),
            left: 0,
            image: Vec::new(),
            lost: false,
            next_part: 0,
            generation: 0,
        }
    }
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

    /// Enters a phase that needs nothing else.
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

    /// Returns whether no work of the start or stop is in progress.
    pub fn is_idle(&self) -> bool {
        self.left == 0
    }

    /// A read, a write or a wipe has ended.
    pub fn ended(&mut self) {
        self.left -= 1;
    }

    // ---- start

    /// Looks at these places for snapshots.
    pub fn begin_scan(&mut self, places: Vec<u32>) {
        self.places = places;
        self.phase = Phase::Scanning;
    }

    /// The next place to look at.
    pub fn next_place(&mut self) -> Option<u32> {
        let place = if self.left < READS_MAX { self.places.pop() } else { None };
        self.left += usize::from(place.is_some());
        place
    }

    /// A part of a snapshot was found.
    pub fn found(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// All parts have been found. Returns them, those of the newest snapshot first and in order; `warm`: it is to be read if it is whole.
    pub fn begin_load(&mut self, warm: bool) -> (Vec<Part>, u32) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_by_key(|part| (std::cmp::Reverse(part.generation), part.part));
        self.generation = parts.first().map_or(0, |part| part.generation);
        self.phase = Phase::Loading;
        let newest = if warm && snapshot::is_whole(&parts) { parts[0].parts } else { 0 };
        (parts, newest)
    }

    /// A part has a slab. It is read if it is one of the first `newest` of the newest snapshot.
    pub fn adopted(&mut self, part: Part, slab: u32, newest: u32) {
        if part.generation == self.generation && part.part < newest {
            let from = (0..part.bytes).step_by(LOAD_BYTES as usize);
            self.pieces.extend(from.map(|from| (slab, from)));
            self.image.resize(self.image.len() + part.bytes as usize, 0);
        }
        self.slabs.push(slab);
        self.parts.push(part);
    }

    /// A part has an impossible location.
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

    /// A piece has been read; `None`: it could not be.
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

    /// Takes the snapshot read; `None`: there is none, or it is damaged.
    pub fn take_image(&mut self) -> Option<Vec<u8>> {
        let image = std::mem::take(&mut self.image);
        let lost = std::mem::take(&mut self.lost);
        (!image.is_empty() && !lost && snapshot::is_sound(&self.parts, &image)).then_some(image)
    }

    /// Begins to make all snapshots unreadable. Returns their slabs.
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

    /// Begins to write a snapshot.
    pub fn begin_save(&mut self, image: Vec<u8>) {
        self.phase = Phase::Saving;
        self.generation += 1;
        self.image = image;
        self.next_part = 0;
    }

    /// The payload of the next part to write, of so many bytes at most.
    pub fn next_payload(&self, each: usize) -> Option<&[u8]> {
        let from = self.next_part as usize * each;
        (from < self.image.len()).then(|| &self.image[from..self.image.len().min(from + each)])
    }

    /// The next part is in a slab, and on its way to flash. A part has so many bytes at most.
    pub fn part_made(&mut self, slab: u32, each: usize) {
        let parts = self.image.len().div_ceil(each) as u32;
        let payload = self.next_payload(each).expect("there is a part");
        let part = Part::new(self.generation, self.next_part, parts, payload);
        self.parts.push(part);
        self.slabs.push(slab);
        self.next_part += 1;
        self.left += 1;
    }

    /// The part of a slab has been given its places: it says so itself.
    pub fn part_placed(&mut self, slab: u32, places: &[u32]) -> &Part {
        let at = self.part_of(slab);
        let part = &mut self.parts[at];
        part.places.clear();
        part.places.extend_from_slice(places);
        part
    }

    /// Parts that are being written.
    pub fn saving(&self) -> usize {
        self.left
    }

    /// A slab has no part any more.
    pub fn forget(&mut self, slab: u32) {
        self.slabs.retain(|&other| other != slab);
    }

    /// Handles the end of the snapshot's write. Returns whether requests have arrived meanwhile.
    pub fn saved(&mut self) -> bool {
        self.image = Vec::new();
        self.parts.clear();
        self.phase = Phase::Stopped;
        !self.early.is_empty()
    }
}
