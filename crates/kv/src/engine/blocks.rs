//! `raw` and `direct`: slabs are flash blocks, and the cache is their only manager (DIDACache's slab/block management).
//!
//! ```text
//!   erased ─► used (by a slab) ─► dirty ─► being erased ─► erased          any, offline ─► bad
//!                                   ▲            │ failed
//!                                   └── rests ◄──┘
//! ```
//! Every LUN has its own lists, so that LUNs and channels work independently: slabs go to the LUNs in turn, channel by channel, one at a time in
//! each. Blocks are erased in the background, one at a time per LUN, while no read waits there, or when the LUN has no other block left. The drive
//! reports bad blocks. Another block whose program fails is erased and reused, after those that never failed; one whose erase fails rests, and so
//! does a LUN with nothing but failures, until they are retried.
//!
//! Invariant: a block is in exactly one list of its LUN, or being erased, used by one slab, resting, or bad.

use super::access::Access;
use super::writer::Writer;
use super::{ERASE, EngineCounters, Event, FLUSH, Io, KIND, READ, REPORT, Shape, WRITE, too_long};
use crate::index::Entry;
use crate::slabs::Buffers;
use crate::{EngineKind, KvConfig};
use pellucid_flash::slab::NIL;
use pellucid_flash::{ChunkInfo, ChunkState, Command, Completion, Drive, Status, Tag};
use pellucid_prism::Raw;
use std::collections::VecDeque;

/// Maximum pieces of a slab in flight.
const DEPTH: u32 = 2;
/// Consecutive failures after which a LUN rests.
const FAILURES_MAX: u32 = 8;
/// Maximum blocks of a slab, limited by the bits of tags.
const BLOCKS_MAX: u32 = 64;
/// Position in a tag of the part of a read, or block of a slab; and of the LUN.
const PART_SHIFT: u32 = 32;
const LUN_SHIFT: u32 = 38;
const LUN_MASK: u64 = (1 << (super::KIND_SHIFT - LUN_SHIFT)) - 1;

#[derive(Clone, Debug, Default)]
struct Lun {
    erased: Vec<u32>,
    dirty: VecDeque<u32>,
    /// The block being erased; `NIL`: none.
    erasing: u32,
    reads: u32,
    writing: bool,
    failures_in_a_row: u32,
}

impl Lun {
    fn is_dead(&self) -> bool {
        self.failures_in_a_row >= FAILURES_MAX
    }

    /// Number of available blocks.
    fn free(&self) -> u32 {
        match self.is_dead() {
            true => 0,
            false => (self.erased.len() + self.dirty.len()) as u32 + u32::from(self.erasing != NIL),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    access: Access,
    shape: Shape,
    /// Sectors of a block, and blocks of a slab.
    block_sectors: u32,
    each: u32,
    luns: Vec<Lun>,
    /// LUNs, channel by channel.
    rotation: Vec<u32>,
    turn: usize,
    /// Blocks of the slabs, `each` per slab.
    places: Vec<u32>,
    erases: Vec<u32>,
    /// Failed programs of each block since its last good one.
    strikes: Vec<u8>,
    /// Blocks whose erase has failed.
    spoiled: Vec<u32>,
    /// During a start: blocks that were found. Later: `false` for bad blocks.
    good: Vec<bool>,
    /// Blocks of each LUN that the cache uses, if there is a limit.
    blocks_each_lun: u32,
    dirty: u32,
    reports_sent: u32,
    reports_left: u32,
    /// True once the old content is known and blocks may be erased.
    begun: bool,
    /// Blocks with a part that must become unreadable.
    wipes: Vec<u32>,
    writer: Writer,
    writes_max: usize,
    counters: EngineCounters,
}

impl Blocks {
    pub fn new(config: &KvConfig, drive: &impl Drive, slab_least: u32) -> Result<Blocks, String> {
        let (namespace, geometry) = super::flash_of(drive, config.engine)?;
        let access = match config.engine {
            EngineKind::Raw => {
                let raw = Raw::new(namespace, drive.interface(namespace), drive.image_bytes());
                Access::Library(raw.map_err(|refused| refused.to_string())?)
            }
            _ => Access::Commands(namespace, geometry),
        };
        let sector_bytes = drive.image_bytes() as u32;
        let block_bytes = geometry.chunk_sectors * sector_bytes;
        let wanted = if config.slab_bytes == 0 { slab_least } else { config.slab_bytes };
        let each = wanted.div_ceil(block_bytes);
        let most = BLOCKS_MAX.min(geometry.chunks);
        if each > most {
            return Err(too_long(config, each, block_bytes, most));
        }
        let luns = geometry.parallel_units();
        let slab_bytes = each * block_bytes;
        let limit = match config.capacity_bytes {
            0 => geometry.chunks,
            bytes => {
                bytes.div_ceil(u64::from(block_bytes) * u64::from(luns)).min(geometry.chunks.into()) as u32
            }
        };
        let slabs = (u64::from(luns) * u64::from(limit / each)).min(Entry::SLABS_MAX.into()) as u32;
        let unit_bytes = geometry.write_optimal_sectors.max(geometry.write_min_sectors) * sector_bytes;
        let programs = f64::from(slab_bytes) / f64::from(unit_bytes);
        let service_ns =
            programs * geometry.write_ns[0].0 as f64 + f64::from(each) * geometry.reset_ns[0].0 as f64;
        let shape = Shape {
            slab_bytes,
            sector_bytes,
            slabs,
            places_each: each,
            servers: luns,
            service_s: service_ns / 1e9,
        };
        let blocks = (luns * geometry.chunks) as usize;
        let rotation =
            (0..luns).map(|i| i % geometry.groups * geometry.units + i / geometry.groups).collect();
        let open_max = if geometry.open_chunks_max == 0 { luns } else { geometry.open_chunks_max };
        Ok(Blocks {
            access,
            shape,
            block_sectors: geometry.chunk_sectors,
            each,
            luns: vec![Lun { erasing: NIL, ..Lun::default() }; luns as usize],
            rotation,
            turn: 0,
            places: Vec::new(),
            erases: vec![0; blocks],
            strikes: vec![0; blocks],
            spoiled: Vec::new(),
            good: vec![false; blocks],
            blocks_each_lun: limit,
            dirty: 0,
            reports_sent: 0,
            reports_left: luns,
            begun: false,
            wipes: Vec::new(),
            writer: Writer::new(slab_bytes, block_bytes, unit_bytes, DEPTH),
            writes_max: luns.min(open_max) as usize,
            counters: EngineCounters::default(),
        })
    }

    pub fn fresh(&self) -> Blocks {
        let luns = self.luns.len();
        let unit_bytes = self.writer.unit();
        let block_bytes = self.block_sectors * self.shape.sector_bytes;
        Blocks {
            luns: vec![Lun { erasing: NIL, ..Lun::default() }; luns],
            places: Vec::new(),
            rotation: self.rotation.clone(),
            erases: self.erases.clone(),
            strikes: self.strikes.clone(),
            spoiled: Vec::new(),
            good: vec![false; self.good.len()],
            dirty: 0,
            reports_sent: 0,
            reports_left: luns as u32,
            begun: false,
            wipes: Vec::new(),
            writer: Writer::new(self.shape.slab_bytes, block_bytes, unit_bytes, DEPTH),
            counters: EngineCounters { retired: 0, ..self.counters },
            ..*self
        }
    }

    pub fn namespace(&self) -> u16 {
        self.access.namespace()
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn is_started(&self) -> bool {
        self.reports_left == 0
    }

    pub fn free(&self) -> u32 {
        self.luns.iter().map(|lun| lun.free() / self.each).sum()
    }

    /// Reports whether a slab can begin in this LUN.
    fn takes(&self, lun: u32) -> bool {
        let lun = &self.luns[lun as usize];
        !lun.writing && !lun.is_dead() && lun.erased.len() >= self.each as usize
    }

    pub fn is_ready(&self) -> bool {
        self.writer.len() < self.writes_max && (0..self.luns.len() as u32).any(|lun| self.takes(lun))
    }

    pub fn resting(&self) -> u64 {
        (self.luns.iter().filter(|lun| lun.is_dead()).count() + self.spoiled.len()) as u64
    }

    pub fn try_again(&mut self, _io: &mut Io) {
        for lun in &mut self.luns {
            lun.failures_in_a_row = lun.failures_in_a_row.min(FAILURES_MAX - 1);
        }
        for block in std::mem::take(&mut self.spoiled) {
            self.discard(block);
        }
    }

    pub fn is_read_only(&self) -> bool {
        self.luns.iter().all(Lun::is_dead)
    }

    pub fn write(&mut self, slab: u32, buffer: u32, forced: bool) {
        let count = self.rotation.len();
        let next = (0..count).map(|i| (self.turn + i) % count).find(|&i| self.takes(self.rotation[i]));
        let at = next.expect("it is ready");
        self.turn = at + 1;
        let lun = self.rotation[at] as usize;
        self.luns[lun].writing = true;
        for part in 0..self.each {
            let erased = &mut self.luns[lun].erased;
            let least = (0..erased.len()).min_by_key(|&i| {
                let block = erased[i] as usize;
                (self.strikes[block], self.erases[block])
            });
            let block = erased.swap_remove(least.expect("there are enough"));
            self.place_mut(slab)[part as usize] = block;
        }
        self.writer.begin(slab, buffer, forced);
    }

    fn place_mut(&mut self, slab: u32) -> &mut [u32] {
        let (each, at) = (self.each as usize, (slab * self.each) as usize);
        if self.places.len() < at + each {
            self.places.resize(at + each, NIL);
        }
        &mut self.places[at..at + each]
    }

    fn lun_of(&self, block: u32) -> u32 {
        block / self.access.geometry().chunks
    }

    pub fn read(&mut self, io: &mut Io, tag: Tag, slab: u32, sector: u32, sectors: u32) -> u32 {
        let (mut from, end, mut parts) = (sector, sector + sectors, 0);
        while from < end {
            let (index, inner) = (from / self.block_sectors, from % self.block_sectors);
            let count = (self.block_sectors - inner).min(end - from);
            let block = self.places[(slab * self.each + index) as usize];
            self.read_block(io, tag | Tag::from(parts) << PART_SHIFT, (block, inner), count);
            (from, parts) = (from + count, parts + 1);
        }
        parts
    }

    fn read_block(&mut self, io: &mut Io, tag: Tag, at: (u32, u32), sectors: u32) {
        let lun = self.lun_of(at.0);
        self.luns[lun as usize].reads += 1;
        let data = io.image((sectors * self.shape.sector_bytes) as usize);
        io.read_bytes += data.len() as u64;
        io.down.push_back(self.access.read(tag | Tag::from(lun) << LUN_SHIFT, at, sectors, data));
    }

    pub fn release(&mut self, slab: u32) {
        for part in 0..self.each {
            let block = std::mem::replace(&mut self.place_mut(slab)[part as usize], NIL);
            self.discard(block);
        }
    }

    /// Like [`Blocks::release`], for a slab whose write ended in block `part`. Later blocks are untouched: nothing is sent to a block before the
    /// previous one has been written, and a drive refuses to erase erased blocks.
    fn release_failed(&mut self, slab: u32, part: u32) {
        for behind in part + 1..self.each {
            let block = std::mem::replace(&mut self.place_mut(slab)[behind as usize], NIL);
            let lun = self.lun_of(block) as usize;
            self.luns[lun].erased.push(block);
        }
        for written in 0..=part {
            let block = std::mem::replace(&mut self.place_mut(slab)[written as usize], NIL);
            self.discard(block);
        }
    }

    /// Discards the content of a block.
    fn discard(&mut self, block: u32) {
        if self.good[block as usize] {
            let lun = self.lun_of(block);
            self.luns[lun as usize].dirty.push_back(block);
            self.dirty += 1;
        }
    }

    pub fn wipe(&mut self, io: &mut Io, slab: u32) {
        let first = self.places(slab)[0];
        self.release(slab);
        let erasable = self.good[first as usize] && !self.luns[self.lun_of(first) as usize].is_dead();
        match erasable {
            true => self.wipes.push(first),
            false => io.events.push_back(Event::Wiped { good: true }),
        }
    }

    pub fn places(&self, slab: u32) -> &[u32] {
        &self.places[(slab * self.each) as usize..][..self.each as usize]
    }

    pub fn candidates(&self) -> Vec<u32> {
        self.luns.iter().flat_map(|lun| lun.dirty.iter().copied()).collect()
    }

    pub fn peek(&mut self, io: &mut Io, tag: Tag, place: u32) {
        self.read_block(io, tag, (place, 0), 1);
    }

    pub fn adopt(&mut self, slab: u32, places: &[u32]) -> bool {
        let sound = places.len() == self.each as usize
            && places.iter().all(|&block| {
                self.good.get(block as usize) == Some(&true)
                    && self.luns[self.lun_of(block) as usize].dirty.contains(&block)
            });
        if !sound {
            return false;
        }
        for &block in places {
            let lun = self.lun_of(block);
            self.luns[lun as usize].dirty.retain(|&dirty| dirty != block);
            self.dirty -= 1;
        }
        self.place_mut(slab).copy_from_slice(places);
        true
    }

    /// Starts: blocks found closed or open are erased in turn.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    pub fn next_command(&mut self, io: &mut Io, buffers: &Buffers, stopped: bool) -> Option<Command> {
        if let Some(command) = io.down.pop_front() {
            return Some(command);
        }
        if stopped {
            return None;
        }
        if self.reports_left > 0 {
            let lun = self.reports_sent;
            self.reports_sent += 1;
            let there = (lun as usize) < self.luns.len();
            return there.then(|| self.access.report(REPORT | Tag::from(lun), lun));
        }
        if let Some(piece) = self.writer.next() {
            let data = io.copy(&buffers.get(piece.buffer)[piece.from as usize..piece.to as usize]);
            io.written_bytes += data.len() as u64;
            let sector = piece.from / self.shape.sector_bytes;
            let part = sector / self.block_sectors;
            let block = self.places[(piece.slab * self.each + part) as usize];
            let tag = WRITE | Tag::from(piece.slab) | Tag::from(part) << PART_SHIFT;
            let at = (block, sector % self.block_sectors);
            return Some(self.access.write(tag, at, data, self.shape.sector_bytes));
        }
        if self.dirty > 0 && self.begun { self.next_erase() } else { None }
    }

    fn next_erase(&mut self) -> Option<Command> {
        for &number in &self.rotation {
            let lun = &mut self.luns[number as usize];
            let urgent = lun.erased.len() < self.each as usize || !self.wipes.is_empty();
            if lun.erasing == NIL
                && !lun.is_dead()
                && (lun.reads == 0 || urgent)
                && let Some(block) = lun.dirty.pop_front()
            {
                lun.erasing = block;
                self.dirty -= 1;
                return Some(self.access.erase(ERASE | Tag::from(block), block));
            }
        }
        None
    }

    pub fn complete(&mut self, io: &mut Io, completion: &mut Completion) {
        let (tag, status) = (completion.tag, completion.status);
        let good = matches!(status, Status::Success | Status::HighEcc);
        let data = std::mem::take(&mut completion.data);
        match tag & KIND {
            READ => {
                let lun = tag >> LUN_SHIFT & LUN_MASK;
                self.luns[lun as usize].reads -= 1;
                let tag = tag & !(LUN_MASK << LUN_SHIFT);
                match good {
                    true => io.events.push_back(Event::Read { tag, data: Some(data) }),
                    false => {
                        io.put_back(data);
                        io.events.push_back(Event::Read { tag, data: None });
                    }
                }
            }
            WRITE => {
                io.put_back(data);
                self.written(io, tag as u32, (tag >> PART_SHIFT & 63) as u32, status);
            }
            FLUSH => io.events.push_back(Event::Flushed),
            ERASE => self.erased(io, tag as u32, status),
            _ => self.reported(tag as u32, &data, good),
        }
    }

    fn written(&mut self, io: &mut Io, slab: u32, part: u32, status: Status) {
        let block = self.places[(slab * self.each + part) as usize];
        let lun = self.lun_of(block) as usize;
        let good = matches!(status, Status::Success | Status::HighEcc);
        let strikes = &mut self.strikes[block as usize];
        if good {
            self.luns[lun].failures_in_a_row = 0;
        } else {
            *strikes = strikes.saturating_add(1);
        }
        if status == Status::ChunkOffline {
            self.retire(block);
        }
        let Some(good) = self.writer.ended(slab, good) else { return };
        self.luns[lun].writing = false;
        if good {
            for part in 0..self.each {
                self.strikes[self.places[(slab * self.each + part) as usize] as usize] = 0;
            }
        } else {
            self.counters.failures += 1;
            self.luns[lun].failures_in_a_row += 1;
            self.release_failed(slab, part);
        }
        io.events.push_back(Event::Written { slab, good });
    }

    /// Retires a block for good.
    fn retire(&mut self, block: u32) {
        if std::mem::replace(&mut self.good[block as usize], false) {
            self.counters.retired += 1;
        }
    }

    fn erased(&mut self, io: &mut Io, block: u32, status: Status) {
        let number = self.lun_of(block) as usize;
        let lun = &mut self.luns[number];
        lun.erasing = NIL;
        match status {
            // Bounds the failures: a LUN whose programs all fail would be erased and written for ever.
            Status::Success | Status::HighEcc => {
                lun.erased.push(block);
                self.erases[block as usize] += 1;
                self.counters.erases += 1;
            }
            // The block was not written.
            Status::ChunkInvalidReset => lun.erased.push(block),
            status => {
                lun.failures_in_a_row += 1;
                self.counters.failures += 1;
                match status {
                    Status::ChunkOffline => self.retire(block),
                    _ => self.spoiled.push(block),
                }
            }
        }
        // The blocks of a dead LUN can no longer be erased.
        let dead = self.luns[number].is_dead();
        let chunks = self.access.geometry().chunks;
        let gone = |wiped: &u32| *wiped == block || (dead && (*wiped / chunks) as usize == number);
        while let Some(at) = self.wipes.iter().position(gone) {
            self.wipes.swap_remove(at);
            io.events.push_back(Event::Wiped { good: true });
        }
    }

    /// Handles the report on a LUN's blocks.
    fn reported(&mut self, lun: u32, data: &[u8], good: bool) {
        let chunks = self.access.geometry().chunks;
        let mut states = data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map(ChunkInfo::decode);
        for chunk in 0..if good { self.blocks_each_lun } else { 0 } {
            let block = lun * chunks + chunk;
            let state = states.next().flatten().map_or(ChunkState::Offline, |info| info.state);
            self.good[block as usize] = state != ChunkState::Offline;
            match state {
                ChunkState::Free => self.luns[lun as usize].erased.push(block),
                ChunkState::Offline => self.counters.retired += 1,
                ChunkState::Open | ChunkState::Closed => self.discard(block),
            }
        }
        self.reports_left -= 1;
    }

    pub fn counters(&self) -> EngineCounters {
        EngineCounters { resting: self.resting(), ..self.counters }
    }

    pub fn check(&self) {
        let mut seen = vec![0u8; self.good.len()];
        let mut dirty = 0;
        for (number, lun) in (0..).zip(&self.luns) {
            let erasing = Some(lun.erasing).filter(|&block| block != NIL);
            dirty += lun.dirty.len();
            for block in lun.erased.iter().chain(&lun.dirty).copied().chain(erasing) {
                assert_eq!(self.lun_of(block), number, "a block in another LUN's list");
                seen[block as usize] += 1;
            }
        }
        let used = self.places.iter().filter(|&&block| block != NIL);
        used.chain(&self.spoiled).for_each(|&block| seen[block as usize] += 1);
        if let Some(block) = seen.iter().position(|&count| count > 1) {
            let used = self.places.iter().position(|&place| place == block as u32);
            let lun = &self.luns[self.lun_of(block as u32) as usize];
            panic!("block {block} has two uses: in {lun:?}, and in slab {used:?}");
        }
        assert_eq!(dirty as u32, self.dirty);
        let chunks = self.access.geometry().chunks;
        for (block, &good) in (0..).zip(&self.good) {
            let ours = block % chunks < self.blocks_each_lun;
            assert!(
                self.reports_left > 0 || !good || !ours || seen[block as usize] == 1,
                "block {block} is lost"
            );
        }
    }
}
