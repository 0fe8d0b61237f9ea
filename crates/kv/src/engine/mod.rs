//! Storage engines: they place slabs, write them, and reuse their space.
//!
//! A slab is written as a whole, read in runs of sectors, and released as a whole; an engine does nothing else. It issues commands and reports their
//! results as [`Event`]s. Engines differ in the layers that map slabs to flash blocks and erase them, and therefore in the amount of flash that must
//! stay free.

mod access;
mod blocks;
mod function;
mod original;
mod policy;
mod writer;

use crate::config::size;
use crate::slabs::Buffers;
use crate::{EngineKind, KvConfig};
use blocks::Blocks;
use function::FunctionEngine;
use original::Original;
use pellucid_flash::{
    ChunkGeometry, Command, Completion, Drive, Figure, Interface, Lba, Opcode, SimTime, Tag,
};
use policy::PolicyEngine;
use std::collections::VecDeque;

/// Purpose of a tag, in its upper bits.
pub(super) const KIND_SHIFT: u32 = 56;
/// A read for the cache; the rest of the tag is the cache's.
pub(super) const READ: Tag = 1 << KIND_SHIFT;
/// Write of a part of a slab, by the slab's number.
const WRITE: Tag = 2 << KIND_SHIFT;
const ERASE: Tag = 3 << KIND_SHIFT;
const REPORT: Tag = 4 << KIND_SHIFT;
/// Makes a slab's place unreadable.
const WIPE: Tag = 5 << KIND_SHIFT;
const FLUSH: Tag = 6 << KIND_SHIFT;
/// Tells the level below that a place is empty.
const DISCARD: Tag = 7 << KIND_SHIFT;
const KIND: Tag = 0xff << KIND_SHIFT;

/// Maximum size of one command of a slab's write.
const PIECE_BYTES: u32 = 256 << 10;

/// Event from an engine.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A read with a tag of [`READ`] has ended, with its buffer; `None`: the data are lost.
    Read { tag: Tag, data: Option<Vec<u8>> },
    /// A slab was written, or its write failed.
    Written { slab: u32, good: bool },
    /// The content of a slab is unreadable for good; the slab was released.
    Wiped { good: bool },
    /// All earlier writes are durable.
    Flushed,
}

/// Dimensions of an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub slab_bytes: u32,
    pub sector_bytes: u32,
    /// Number of slabs that fit the flash.
    pub slabs: u32,
    /// Numbers that give a slab's location.
    pub places_each: u32,
    /// Units that work in parallel.
    pub servers: u32,
    /// Seconds that one unit needs to write a slab and erase its place; 0: unknown.
    pub service_s: f64,
}

impl Shape {
    /// Approximate number of items that fit the flash.
    pub fn items(&self) -> u64 {
        u64::from(self.slabs) * u64::from(self.slab_bytes) / 512
    }
}

/// Commands for the drive, and buffers for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Io {
    pub now: SimTime,
    pub down: VecDeque<Command>,
    images: Vec<Vec<u8>>,
    pub events: VecDeque<Event>,
    pub written_bytes: u64,
    pub read_bytes: u64,
}

/// Maximum number of kept read buffers.
const IMAGES_MAX: usize = 1024;

impl Io {
    /// A buffer of `bytes` with arbitrary content.
    #[inline]
    fn image(&mut self, bytes: usize) -> Vec<u8> {
        let mut image = self.images.pop().unwrap_or_default();
        image.resize(bytes, 0);
        image
    }

    /// A buffer with this content.
    fn copy(&mut self, from: &[u8]) -> Vec<u8> {
        let mut image = self.images.pop().unwrap_or_default();
        image.clear();
        image.extend_from_slice(from);
        image
    }

    /// Takes a buffer back.
    #[inline]
    pub fn put_back(&mut self, image: Vec<u8>) {
        if image.capacity() > 0 && self.images.len() < IMAGES_MAX {
            self.images.push(image);
        }
    }
}

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EngineCounters {
    pub erases: u64,
    pub failures: u64,
    pub retired: u64,
    /// Parts that were given up and may be retried.
    pub resting: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Engine {
    Original(Original),
    Policy(PolicyEngine),
    Function(FunctionEngine),
    Blocks(Blocks),
}

/// Evaluates an expression with any engine.
macro_rules! each {
    ($self:expr, $engine:ident => $do:expr) => {
        match $self {
            Engine::Original($engine) => $do,
            Engine::Policy($engine) => $do,
            Engine::Function($engine) => $do,
            Engine::Blocks($engine) => $do,
        }
    };
}

impl Engine {
    /// The engine of `config` on `drive`.
    ///
    /// The error is a sentence.
    pub fn new(config: &KvConfig, drive: &impl Drive, slab_least: u32) -> Result<Engine, String> {
        if drive.image_bytes() < 512 {
            return Err(
                "a key-value cache needs a drive that keeps data (store = \"ram\" or \"file\")".into()
            );
        }
        match config.engine {
            EngineKind::Original => Ok(Engine::Original(Original::new(config, drive, slab_least)?)),
            EngineKind::Direct | EngineKind::Raw => {
                Ok(Engine::Blocks(Blocks::new(config, drive, slab_least)?))
            }
            EngineKind::Policy => Ok(Engine::Policy(PolicyEngine::new(config, drive, slab_least)?)),
            EngineKind::Function => Ok(Engine::Function(FunctionEngine::new(config, drive, slab_least)?)),
        }
    }

    /// A new engine that does not know the flash's content.
    pub fn fresh(&self, now: SimTime) -> Engine {
        match self {
            Engine::Original(engine) => Engine::Original(engine.fresh()),
            Engine::Policy(engine) => Engine::Policy(engine.fresh(now)),
            Engine::Function(engine) => Engine::Function(engine.fresh(now)),
            Engine::Blocks(engine) => Engine::Blocks(engine.fresh()),
        }
    }

    /// The namespace that it uses.
    pub fn namespace(&self) -> u16 {
        each!(self, engine => engine.namespace())
    }

    pub fn shape(&self) -> Shape {
        each!(self, engine => engine.shape())
    }

    /// Reports whether the engine knows the content of the flash and can be used.
    pub fn is_started(&self) -> bool {
        each!(self, engine => engine.is_started())
    }

    /// Places that can be written, now or after an erase.
    pub fn free(&self) -> u32 {
        each!(self, engine => engine.free())
    }

    /// Slabs that the flash has room for, perhaps fewer than at the start: too many of its blocks have failed since.
    pub fn slabs(&self) -> u32 {
        let without_flash = match self {
            Engine::Policy(engine) => engine.without_flash(),
            Engine::Original(_) | Engine::Function(_) | Engine::Blocks(_) => 0,
        };
        self.shape().slabs - without_flash
    }

    /// Reports whether a slab's write can start now.
    pub fn is_ready(&self) -> bool {
        each!(self, engine => engine.is_ready())
    }

    /// Returns true if a part was given up after failures and may be retried.
    pub fn is_resting(&self) -> bool {
        each!(self, engine => engine.resting() > 0)
    }

    /// Retries resting parts: one more failure makes them rest again.
    pub fn try_again(&mut self, io: &mut Io) {
        each!(self, engine => engine.try_again(io));
    }

    /// Returns true if nothing can be written unless a slab is released or resting parts are retried.
    pub fn is_read_only(&self) -> bool {
        each!(self, engine => engine.is_read_only())
    }

    /// Starts writing a slab from a write buffer. `forced`: bypasses the drive's own buffers.
    pub fn write(&mut self, slab: u32, buffer: u32, forced: bool) {
        each!(self, engine => engine.write(slab, buffer, forced));
    }

    /// Reads a run of sectors of a slab. Returns the number of reads; they end as events in any order, with the number of the read (from bit 32 on)
    /// added to `tag`.
    #[inline]
    pub fn read(&mut self, io: &mut Io, tag: Tag, slab: u32, sector: u32, sectors: u32) -> u32 {
        each!(self, engine => engine.read(io, tag, slab, sector, sectors))
    }

    /// Releases a slab's place.
    pub fn release(&mut self, slab: u32) {
        each!(self, engine => engine.release(slab));
    }

    /// Like [`Engine::release`], and makes the slab unreadable for good; [`Event::Wiped`] reports the end.
    pub fn wipe(&mut self, io: &mut Io, slab: u32) {
        each!(self, engine => engine.wipe(io, slab));
    }

    /// Makes everything written durable; [`Event::Flushed`] reports the end.
    pub fn flush(&mut self, io: &mut Io) {
        if let Engine::Function(_) = self {
            // Data acknowledged by the level already are on the media.
            return io.events.push_back(Event::Flushed);
        }
        let flush = Command::new(FLUSH, Opcode::Flush, Lba(0), 0, Vec::new());
        io.down.push_back(Command { namespace: self.namespace(), ..flush });
    }

    /// Location of a slab: `places_each` numbers.
    pub fn places(&self, slab: u32) -> &[u32] {
        each!(self, engine => engine.places(slab))
    }

    /// At a start: places at which a kept slab may begin.
    pub fn candidates(&self) -> Vec<u32> {
        each!(self, engine => engine.candidates())
    }

    /// At a start: reads the first sector of a place.
    pub fn peek(&mut self, io: &mut Io, tag: Tag, place: u32) {
        each!(self, engine => engine.peek(io, tag, place));
    }

    /// At a start: registers a slab at these places. `false`: impossible.
    #[must_use]
    pub fn adopt(&mut self, slab: u32, places: &[u32]) -> bool {
        each!(self, engine => engine.adopt(slab, places))
    }

    /// At a start: discards everything that was not adopted.
    pub fn begin(&mut self) {
        each!(self, engine => engine.begin());
    }

    /// The next command for the drive. `stopped`: only reads.
    #[inline]
    pub fn next_command(&mut self, io: &mut Io, buffers: &Buffers, stopped: bool) -> Option<Command> {
        each!(self, engine => engine.next_command(io, buffers, stopped))
    }

    /// Handles a completion.
    #[inline]
    pub fn complete(&mut self, io: &mut Io, completion: &mut Completion) {
        each!(self, engine => engine.complete(io, completion));
    }

    /// Runs work of the level that is due.
    pub fn advance(&mut self, io: &mut Io) {
        match self {
            Engine::Policy(engine) => engine.advance(io),
            Engine::Function(engine) => engine.advance(io),
            Engine::Original(_) | Engine::Blocks(_) => {}
        }
    }

    /// Time of the level's next internal event.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        match self {
            Engine::Policy(engine) => engine.next_event(),
            Engine::Function(engine) => engine.next_event(),
            Engine::Original(_) | Engine::Blocks(_) => None,
        }
    }

    /// Reason why it cannot be used, as a sentence.
    pub fn failure(&self) -> Option<String> {
        match self {
            Engine::Policy(engine) => engine.failure(),
            Engine::Function(engine) => engine.failure(),
            Engine::Original(_) | Engine::Blocks(_) => None,
        }
    }

    pub fn counters(&self) -> EngineCounters {
        each!(self, engine => engine.counters())
    }

    /// Counters that only this engine has.
    pub fn figures(&self) -> Vec<Figure> {
        match self {
            Engine::Policy(engine) => engine.figures(),
            Engine::Function(engine) => engine.figures(),
            Engine::Original(_) | Engine::Blocks(_) => Vec::new(),
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        each!(self, engine => engine.check());
    }
}

/// The first open-channel namespace of a drive.
fn flash_of(drive: &impl Drive, engine: EngineKind) -> Result<(u16, ChunkGeometry), String> {
    let found = (0..drive.namespaces()).find_map(|number| match drive.interface(number) {
        Some(Interface::OpenChannel(geometry)) => Some((number, geometry)),
        _ => None,
    });
    let name = engine.name();
    found.ok_or_else(|| no_chunks(name))
}

/// Message for a drive without flash that an engine could manage.
pub(super) fn no_chunks(engine: &str) -> String {
    format!(
        "engine \"{engine}\" needs an open-channel namespace, and the drive has none, or a host FTL stands on it; allowed: such a drive, for \
         the latter with --set host.layers=[]"
    )
}

/// Message for a slab of too many blocks.
fn too_long(config: &KvConfig, each: u32, block_bytes: u32, most: u32) -> String {
    let block = size(block_bytes.into());
    match config.slab_bytes {
        0 => {
            let item = size(config.item_max_bytes.into());
            format!(
                "kv.item_max = {item}: its slab takes {each} blocks of {block}; allowed: what fits {most} blocks"
            )
        }
        bytes => {
            let slab = size(bytes.into());
            format!("kv.slab = {slab}: that is {each} blocks of {block}; allowed: up to {most} blocks")
        }
    }
}
