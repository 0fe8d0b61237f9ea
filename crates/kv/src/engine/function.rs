//! `function`: slabs are flash blocks that the library's function level hands out, tracks, and erases in the background.
//!
//! The cache chooses the channel of a slab and the slabs to release. The library chooses the block within the channel and the time of its erase, and
//! replaces bad blocks. A mark stored with the data tells whether a block begins a slab of items or part of a snapshot.

use super::writer::Writer;
use super::{EngineCounters, Event, Io, KIND, READ, Shape, WRITE, flash_of, too_long};
use crate::index::Entry;
use crate::slabs::Buffers;
use crate::{EngineKind, KvConfig};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Drive, Figure, SimTime, Tag};
use pellucid_host::Machine;
use pellucid_prism::{
    FlashAddress, Function, FunctionAsk, FunctionCall, FunctionOutcome, Mapping, SsdGeometry,
};

/// Maximum pieces of a slab in flight.
const DEPTH: u32 = 2;
/// Consecutive failures after which a channel rests.
const FAILURES_MAX: u32 = 32;
const BLOCKS_MAX: u32 = 64;
const PART_SHIFT: u32 = 32;
/// Marks.
const ITEMS: u32 = 1;
const SNAPSHOT: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    writes: u32,
    failures_in_a_row: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionEngine {
    level: Box<Function>,
    namespace: u16,
    geometry: SsdGeometry,
    shape: Shape,
    block_sectors: u32,
    each: u32,
    channels: Vec<Channel>,
    turn: u32,
    /// Blocks of the slabs, `each` per slab.
    places: Vec<u32>,
    writer: Writer,
    /// Blocks that must be erased before anything is answered.
    wipes: Vec<FlashAddress>,
    failures: u64,
}

impl FunctionEngine {
    pub fn new(config: &KvConfig, drive: &impl Drive, slab_least: u32) -> Result<FunctionEngine, String> {
        let (namespace, chunks) = flash_of(drive, EngineKind::Function)?;
        let level = Function::new(namespace, drive.interface(namespace), drive.image_bytes());
        let level = Box::new(level.map_err(|why| why.to_string())?);
        let geometry = level.geometry();
        let sector_bytes = drive.image_bytes() as u32;
        let block_bytes = chunks.chunk_sectors * sector_bytes;
        let wanted = if config.slab_bytes == 0 { slab_least } else { config.slab_bytes };
        let each = wanted.div_ceil(block_bytes);
        let most = BLOCKS_MAX.min(geometry.luns_each_channel * geometry.blocks_each_lun);
        if each > most {
            return Err(too_long(config, each, block_bytes, most));
        }
        let blocks = u64::from(geometry.blocks());
        let limit = match config.capacity_bytes {
            0 => blocks,
            bytes => bytes.div_ceil(block_bytes.into()).min(blocks),
        };
        let slabs = (limit / u64::from(each)).min(Entry::SLABS_MAX.into()) as u32;
        let unit_bytes = chunks.write_optimal_sectors.max(chunks.write_min_sectors) * sector_bytes;
        let slab_bytes = each * block_bytes;
        let programs = f64::from(slab_bytes) / f64::from(unit_bytes);
        let service_ns =
            programs * chunks.write_ns[0].0 as f64 + f64::from(each) * chunks.reset_ns[0].0 as f64;
        let shape = Shape {
            slab_bytes,
            sector_bytes,
            slabs,
            places_each: each,
            servers: geometry.luns(),
            service_s: service_ns / 1e9,
        };
        Ok(FunctionEngine {
            level,
            namespace,
            geometry,
            shape,
            block_sectors: chunks.chunk_sectors,
            each,
            channels: vec![Channel::default(); geometry.channel_count as usize],
            turn: 0,
            places: Vec::new(),
            writer: Writer::new(slab_bytes, block_bytes, unit_bytes, DEPTH),
            wipes: Vec::new(),
            failures: 0,
        })
    }

    pub fn fresh(&self, now: SimTime) -> FunctionEngine {
        let mut level = self.level.clone();
        // A restart cannot fail: the content read is judged later.
        let _ = level.restart(now);
        let block_bytes = self.block_sectors * self.shape.sector_bytes;
        FunctionEngine {
            level,
            channels: vec![Channel::default(); self.channels.len()],
            places: Vec::new(),
            writer: Writer::new(self.shape.slab_bytes, block_bytes, self.writer.unit(), DEPTH),
            wipes: Vec::new(),
            ..*self
        }
    }

    pub fn failure(&self) -> Option<String> {
        self.level.failure()
    }

    pub fn namespace(&self) -> u16 {
        self.namespace
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn is_started(&self) -> bool {
        self.level.is_ready()
    }

    /// Number of slabs for which a channel has blocks.
    fn free_in(&self, channel: u32) -> u32 {
        match self.channels[channel as usize].failures_in_a_row < FAILURES_MAX {
            true => self.level.free_blocks(channel) / self.each,
            false => 0,
        }
    }

    pub fn free(&self) -> u32 {
        let free: u32 = (0..self.geometry.channel_count).map(|channel| self.free_in(channel)).sum();
        let used = self.places.iter().filter(|&&block| block != NIL).count() as u32 / self.each;
        free.min(self.shape.slabs - used)
    }

    fn takes(&self, channel: u32) -> bool {
        self.channels[channel as usize].writes < self.geometry.luns_each_channel && self.free_in(channel) > 0
    }

    pub fn is_ready(&self) -> bool {
        (0..self.geometry.channel_count).any(|channel| self.takes(channel))
    }

    pub fn resting(&self) -> u64 {
        let resting = self.channels.iter().filter(|channel| channel.failures_in_a_row >= FAILURES_MAX);
        resting.count() as u64 + u64::from(self.level.resting_blocks())
    }

    pub fn try_again(&mut self, io: &mut Io) {
        for channel in &mut self.channels {
            channel.failures_in_a_row = channel.failures_in_a_row.min(FAILURES_MAX - 1);
        }
        self.level.try_again(io.now);
    }

    pub fn is_read_only(&self) -> bool {
        self.channels.iter().all(|channel| channel.failures_in_a_row >= FAILURES_MAX)
    }

    pub fn write(&mut self, slab: u32, buffer: u32, forced: bool) {
        let count = self.geometry.channel_count;
        let next = (0..count).map(|i| (self.turn + i) % count).find(|&channel| self.takes(channel));
        let channel = next.expect("it is ready");
        self.turn = channel + 1;
        self.channels[channel as usize].writes += 1;
        for part in 0..self.each {
            let block =
                self.level.address_mapper(channel, Mapping::Block).expect("it has free blocks").address;
            self.place_mut(slab)[part as usize] = self.geometry.block_number(block);
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

    fn address(&self, block: u32) -> FlashAddress {
        self.geometry.block_at(block)
    }

    fn ask(&mut self, io: &mut Io, tag: Tag, call: FunctionCall) {
        self.level.submit(io.now, FunctionAsk { tag, call });
    }

    fn read_block(&mut self, io: &mut Io, tag: Tag, block: u32, sector: u32, sectors: u32) {
        let data = io.image((sectors * self.shape.sector_bytes) as usize);
        io.read_bytes += data.len() as u64;
        let address = self.address(block);
        self.ask(io, tag, FunctionCall::Read { address, sector, sectors, data });
    }

    pub fn read(&mut self, io: &mut Io, tag: Tag, slab: u32, sector: u32, sectors: u32) -> u32 {
        let (mut from, end, mut parts) = (sector, sector + sectors, 0);
        while from < end {
            let (index, inner) = (from / self.block_sectors, from % self.block_sectors);
            let count = (self.block_sectors - inner).min(end - from);
            let block = self.places[(slab * self.each + index) as usize];
            self.read_block(io, tag | Tag::from(parts) << PART_SHIFT, block, inner, count);
            (from, parts) = (from + count, parts + 1);
        }
        parts
    }

    pub fn release(&mut self, slab: u32) {
        for part in 0..self.each {
            let block = std::mem::replace(&mut self.place_mut(slab)[part as usize], NIL);
            self.level.flash_trim(self.address(block)).expect("the block is mapped");
        }
    }

    pub fn wipe(&mut self, _io: &mut Io, slab: u32) {
        let first = self.address(self.places(slab)[0]);
        self.wipes.push(first);
        self.release(slab);
    }

    pub fn places(&self, slab: u32) -> &[u32] {
        &self.places[(slab * self.each) as usize..][..self.each as usize]
    }

    pub fn candidates(&self) -> Vec<u32> {
        let parts = self.level.found().filter(|found| found.mark == Some(SNAPSHOT));
        parts.map(|found| self.geometry.block_number(found.address)).collect()
    }

    pub fn peek(&mut self, io: &mut Io, tag: Tag, place: u32) {
        self.read_block(io, tag, place, 0, 1);
    }

    pub fn adopt(&mut self, slab: u32, places: &[u32]) -> bool {
        let there = |block: &u32| {
            let whole = |found: &pellucid_prism::Found| {
                found.mark.is_some() && found.pages == self.geometry.pages_each_block
            };
            let found = self.level.found().find(|found| self.geometry.block_number(found.address) == *block);
            found.is_some_and(whole) && !self.places.contains(block)
        };
        let sound = places.len() == self.each as usize && places.iter().all(there);
        if sound {
            self.place_mut(slab).copy_from_slice(places);
        }
        sound
    }

    /// Erases everything else that was found, in the background.
    pub fn begin(&mut self) {
        let kept = self.places.iter().filter(|&&block| block != NIL);
        let kept: Vec<FlashAddress> = kept.map(|&block| self.address(block)).collect();
        self.level.recover(&kept).expect("they were found");
    }

    pub fn next_command(&mut self, io: &mut Io, buffers: &Buffers, stopped: bool) -> Option<Command> {
        while !stopped && let Some(piece) = self.writer.next() {
            let data = io.copy(&buffers.get(piece.buffer)[piece.from as usize..piece.to as usize]);
            io.written_bytes += data.len() as u64;
            let sector = piece.from / self.shape.sector_bytes;
            let part = sector / self.block_sectors;
            let block = self.places[(piece.slab * self.each + part) as usize];
            let page = sector % self.block_sectors / self.level.space().page_sectors();
            let address = FlashAddress { page, ..self.address(block) };
            let mark = if piece.forced && part == 0 { SNAPSHOT } else { ITEMS };
            let tag = WRITE | Tag::from(piece.slab) | Tag::from(part) << PART_SHIFT;
            self.ask(io, tag, FunctionCall::Write { address, mark, data });
        }
        self.take_answers(io);
        self.level.next_command()
    }

    pub fn complete(&mut self, io: &mut Io, completion: &mut Completion) {
        self.level.complete(io.now, completion);
        self.take_answers(io);
        self.look_at_wipes(io);
    }

    fn take_answers(&mut self, io: &mut Io) {
        while let Some(answer) = self.level.pop() {
            let good = answer.outcome == FunctionOutcome::Done;
            match answer.tag & KIND {
                READ => {
                    let data = match good {
                        true => Some(answer.data),
                        false => {
                            io.put_back(answer.data);
                            None
                        }
                    };
                    io.events.push_back(Event::Read { tag: answer.tag, data });
                }
                _ => {
                    io.put_back(answer.data);
                    self.written(io, answer.tag as u32, good);
                }
            }
        }
    }

    fn written(&mut self, io: &mut Io, slab: u32, good: bool) {
        let channel = self.address(self.places(slab)[0]).channel as usize;
        let Some(good) = self.writer.ended(slab, good) else { return };
        self.channels[channel].writes -= 1;
        if good {
            self.channels[channel].failures_in_a_row = 0;
        } else {
            self.failures += 1;
            self.channels[channel].failures_in_a_row += 1;
            self.release(slab);
        }
        io.events.push_back(Event::Written { slab, good });
    }

    /// Checks which of the blocks to be wiped are erased.
    fn look_at_wipes(&mut self, io: &mut Io) {
        let level = &self.level;
        let before = self.wipes.len();
        self.wipes.retain(|&address| level.is_erased(address) == Ok(false));
        for _ in self.wipes.len()..before {
            io.events.push_back(Event::Wiped { good: true });
        }
    }

    pub fn advance(&mut self, io: &mut Io) {
        self.level.advance(io.now);
        self.take_answers(io);
    }

    pub fn next_event(&self) -> Option<SimTime> {
        self.level.next_event()
    }

    pub fn counters(&self) -> EngineCounters {
        let level = self.level.counters();
        EngineCounters {
            erases: level.erases,
            failures: self.failures,
            retired: level.retired,
            resting: self.resting(),
        }
    }

    pub fn figures(&self) -> Vec<Figure> {
        self.level.figures()
    }

    pub fn check(&self) {
        self.level.check();
    }
}
