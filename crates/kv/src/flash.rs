//! Flash: the engine, commands on their way to the drive, and reads of several commands.

use crate::engine::{self, Engine, EngineCounters, Event, Io, Shape};
use crate::slabs::Buffers;
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Figure, SimTime, Tag};

/// Purpose of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Purpose {
    /// The item of a request.
    Request(u32),
    /// Items of a victim to keep: a range of slots, the end exclusive.
    Copies(u32, u32),
    /// A start checks whether a place holds part of a snapshot.
    #[default]
    Peek,
    /// A start reads part of a snapshot, from this byte on.
    Load(u32),
}

/// A read of flash.
#[derive(Clone, Debug, Default)]
struct Read {
    purpose: Purpose,
    /// The slab; for a peek, the place.
    slab: u32,
    sector: u32,
    /// Unneeded bytes of the first sector.
    skip: u32,
    /// Commands in flight.
    left: u32,
    lost: bool,
    /// Data of several commands.
    data: Vec<u8>,
}

/// A completed read.
#[derive(Debug)]
pub(crate) struct Ended {
    pub purpose: Purpose,
    /// The slab; for a peek, the place.
    pub slab: u32,
    skip: usize,
    lost: bool,
    data: Vec<u8>,
}

impl Ended {
    /// The requested bytes, and some behind them; `None`: the read failed.
    pub fn bytes(&self) -> Option<&[u8]> {
        (!self.lost).then(|| &self.data[self.skip..])
    }
}

/// Event from below.
#[derive(Debug)]
pub(crate) enum Happened {
    Read(Ended),
    /// A slab was written, or its write failed.
    Written {
        slab: u32,
        good: bool,
    },
    /// The content of a slab is unreadable for good.
    Wiped {
        good: bool,
    },
    /// All earlier writes are durable.
    Flushed,
}

/// The engine, with its commands and reads.
#[derive(Clone, Debug)]
pub(crate) struct Flash {
    engine: Engine,
    io: Io,
    reads: Slab<Read>,
    shape: Shape,
    /// Counters of the engine from before a power cut.
    before: EngineCounters,
}

impl Flash {
    pub fn new(engine: Engine) -> Flash {
        let before = EngineCounters::default();
        Flash { io: Io::default(), reads: Slab::default(), shape: engine.shape(), engine, before }
    }

    /// Adds the counts of `old`, from before a power cut.
    pub fn count_on(&mut self, old: &Flash) {
        (self.io.written_bytes, self.io.read_bytes) = (old.io.written_bytes, old.io.read_bytes);
        self.before = EngineCounters { resting: 0, ..old.counters() };
    }

    /// A new engine that does not know the flash's content.
    pub fn fresh_engine(&self, now: SimTime) -> Engine {
        self.engine.fresh(now)
    }

    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.io.now = now;
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn counters(&self) -> EngineCounters {
        let EngineCounters { erases, failures, retired, resting } = self.engine.counters();
        EngineCounters {
            erases: self.before.erases + erases,
            failures: self.before.failures + failures,
            retired: self.before.retired + retired,
            resting,
        }
    }

    pub fn figures(&self) -> Vec<Figure> {
        self.engine.figures()
    }

    /// Bytes written and read.
    pub fn bytes(&self) -> [u64; 2] {
        [self.io.written_bytes, self.io.read_bytes]
    }

    // ---- slabs

    /// Retries resting parts: one more failure makes them rest again.
    pub fn try_again(&mut self) {
        self.engine.try_again(&mut self.io);
    }

    /// Starts writing a slab from a write buffer. `forced`: bypasses the drive's own buffers.
    pub fn write(&mut self, slab: u32, buffer: u32, forced: bool) {
        self.engine.write(slab, buffer, forced);
    }

    /// Releases a slab's place.
    pub fn release(&mut self, slab: u32) {
        self.engine.release(slab);
    }

    /// Like [`Flash::release`], and makes the slab unreadable for good.
    pub fn wipe(&mut self, slab: u32) {
        self.engine.wipe(&mut self.io, slab);
    }

    /// Makes everything written durable.
    pub fn flush(&mut self) {
        self.engine.flush(&mut self.io);
    }

    /// At a start: registers a slab at these places. `false`: impossible.
    #[must_use]
    pub fn adopt(&mut self, slab: u32, places: &[u32]) -> bool {
        self.engine.adopt(slab, places)
    }

    /// At a start: discards everything that was not adopted.
    pub fn begin(&mut self) {
        self.engine.begin();
    }

    // ---- reads

    /// Reads bytes of a slab.
    pub fn read(&mut self, slab: u32, from: usize, bytes: usize, purpose: Purpose) {
        let sector_bytes = self.shape.sector_bytes as usize;
        let sector = (from / sector_bytes) as u32;
        let sectors = ((from + bytes).div_ceil(sector_bytes)) as u32 - sector;
        let at = self.reads.take();
        let read = &mut self.reads[at];
        (read.purpose, read.slab, read.sector, read.lost) = (purpose, slab, sector, false);
        read.skip = (from % sector_bytes) as u32;
        let tag = engine::READ | Tag::from(at);
        let parts = self.engine.read(&mut self.io, tag, slab, sector, sectors);
        read.left = parts;
        if parts > 1 {
            read.data.resize(sectors as usize * sector_bytes, 0);
        }
    }

    /// At a start: reads the first sector of a place.
    pub fn peek(&mut self, place: u32) {
        let at = self.reads.take();
        let read = &mut self.reads[at];
        (read.purpose, read.slab, read.lost, read.skip, read.left) = (Purpose::Peek, place, false, 0, 1);
        self.engine.peek(&mut self.io, engine::READ | Tag::from(at), place);
    }

    /// Handles the end of one command of a read; `None`: others are in flight.
    fn read_ended(&mut self, tag: Tag, data: Option<Vec<u8>>) -> Option<Ended> {
        let at = tag as u32;
        let part = (tag >> 32 & 63) as u32;
        let read = &mut self.reads[at];
        read.left -= 1;
        read.lost |= data.is_none();
        let mut whole = data.unwrap_or_default();
        if read.left > 0 || !read.data.is_empty() {
            let part_bytes = self.shape.slab_bytes as usize / self.shape.places_each as usize;
            let begins = read.sector as usize * self.shape.sector_bytes as usize % part_bytes;
            let from = (part as usize * part_bytes).saturating_sub(begins);
            if !whole.is_empty() {
                read.data[from..from + whole.len()].copy_from_slice(&whole);
            }
            if read.left > 0 {
                self.io.put_back(whole);
                return None;
            }
            self.io.put_back(std::mem::replace(&mut whole, std::mem::take(&mut read.data)));
        }
        let Read { purpose, slab, skip, lost, .. } = *read;
        self.reads.release(at);
        Some(Ended { purpose, slab, skip: skip as usize, lost, data: whole })
    }

    /// Takes back the buffer of a read.
    #[inline]
    pub fn put_back(&mut self, ended: Ended) {
        self.io.put_back(ended.data);
    }

    // ---- the drive

    /// The next event from below.
    #[inline]
    pub fn next_happened(&mut self) -> Option<Happened> {
        while let Some(event) = self.io.events.pop_front() {
            match event {
                Event::Read { tag, data } => {
                    if let Some(ended) = self.read_ended(tag, data) {
                        return Some(Happened::Read(ended));
                    }
                }
                Event::Written { slab, good } => return Some(Happened::Written { slab, good }),
                Event::Wiped { good } => return Some(Happened::Wiped { good }),
                Event::Flushed => return Some(Happened::Flushed),
            }
        }
        None
    }

    #[inline]
    pub fn has_happened(&self) -> bool {
        !self.io.events.is_empty()
    }

    /// The next command for the drive. `stopped`: only reads.
    #[inline]
    pub fn next_command(&mut self, buffers: &Buffers, stopped: bool) -> Option<Command> {
        self.engine.next_command(&mut self.io, buffers, stopped)
    }

    /// Handles a completion.
    #[inline]
    pub fn complete(&mut self, completion: &mut Completion) {
        self.engine.complete(&mut self.io, completion);
    }

    /// Runs work of the level that is due.
    #[inline]
    pub fn advance(&mut self) {
        self.engine.advance(&mut self.io);
    }
}
