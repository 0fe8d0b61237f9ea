//! `policy`: the slabs of `original`, on a block-mapped range of the library's policy level instead of a block drive.
//!
//! Only the set-up of the drive differs: the cache declares that it writes whole blocks, so the library maps blocks and copies nothing.
//! When too many blocks have failed for another slab, the cache shrinks: places without a slab are no longer used, and the place of
//! each slab that leaves is trimmed.

use super::original::Original;
use super::{EngineCounters, Io, Shape, flash_of};
use crate::slabs::Buffers;
use crate::{EngineKind, KvConfig};
use pellucid_flash::{Command, Completion, Drive, Figure, SimTime, Tag};
use pellucid_host::{Layer, Machine};
use pellucid_prism::{Gc, Mapping, Policy, PolicyConfig};

/// Rows of blocks that the library needs for its record and for failed blocks.
const ROWS_KEPT: u32 = 2;

#[derive(Clone, Debug)]
pub(crate) struct PolicyEngine {
    slabs: Original,
    level: Box<Policy>,
    /// Size of the range, and over-provisioning as a share of it.
    range: (u64, f64),
    configured: bool,
    failed: Option<String>,
    /// Places whose slabs have left a range that is short of blocks, and which it is to be told of.
    left: Vec<u32>,
}

impl PolicyEngine {
    pub fn new(config: &KvConfig, drive: &impl Drive, slab_least: u32) -> Result<PolicyEngine, String> {
        let (namespace, geometry) = flash_of(drive, EngineKind::Policy)?;
        let sector_bytes = drive.image_bytes() as u32;
        let level =
            Policy::new(namespace, drive.interface(namespace), drive.image_bytes(), &PolicyConfig::default());
        let level = Box::new(level.map_err(|why| why.to_string())?);
        let block_bytes = geometry.chunk_sectors * sector_bytes;
        let wanted = if config.slab_bytes == 0 { slab_least } else { config.slab_bytes };
        let row = u64::from(geometry.parallel_units()) * u64::from(block_bytes);
        let slab_bytes = wanted.next_multiple_of(block_bytes);
        // A block is in one LUN, so fewer slabs in flight would leave LUNs idle.
        let servers = geometry.parallel_units();
        let all = u64::from(geometry.chunks) * row;
        let most = u64::from(geometry.chunks.saturating_sub(ROWS_KEPT)) * row;
        let slabs = Original::on(config, namespace, sector_bytes, slab_bytes, all, most, servers)?;
        // Space outside the range, as a share of the range.
        let range = u64::from(slabs.shape().slabs) * u64::from(slabs.shape().slab_bytes);
        let beside = (most.saturating_sub(range) as f64 / range.max(1) as f64 * 100.0).floor() / 100.0;
        Ok(PolicyEngine {
            slabs,
            level,
            range: (range, beside),
            configured: false,
            failed: None,
            left: Vec::new(),
        })
    }

    pub fn fresh(&self, now: SimTime) -> PolicyEngine {
        let mut level = self.level.clone();
        let failed = level.restart(now).err();
        // The level keeps the definition of its ranges.
        PolicyEngine { slabs: self.slabs.fresh(), level, failed, left: Vec::new(), ..*self }
    }

    /// Calls `FTL_Ioctl`, once the level knows the content of the flash.
    fn configure(&mut self) {
        if !self.configured && self.level.is_ready() && self.failed.is_none() {
            let (bytes, beside) = self.range;
            let done = self.level.ftl_ioctl(Mapping::Block, Gc::Greedy, 0..bytes, beside);
            self.failed = done.err().map(|why| why.to_string());
            self.configured = true;
        }
    }

    pub fn failure(&self) -> Option<String> {
        self.failed.clone().or_else(|| self.level.failure())
    }

    pub fn namespace(&self) -> u16 {
        self.slabs.namespace()
    }

    pub fn shape(&self) -> Shape {
        self.slabs.shape()
    }

    /// Places of slabs that the flash has no room for any more.
    pub fn without_flash(&self) -> u32 {
        self.slabs.without_flash()
    }

    pub fn is_started(&self) -> bool {
        self.configured && self.failed.is_none() && self.level.is_ready()
    }

    pub fn free(&self) -> u32 {
        self.slabs.free()
    }

    pub fn is_ready(&self) -> bool {
        self.slabs.is_ready()
    }

    pub fn is_read_only(&self) -> bool {
        self.slabs.is_read_only()
    }

    pub fn resting(&self) -> u64 {
        self.slabs.resting().max(self.level.is_read_only().into()).max(self.level.resting_chunks())
    }

    pub fn try_again(&mut self, io: &mut Io) {
        self.slabs.try_again(io);
        let (stuck, lacks_chunks) = (self.level.is_read_only(), self.level.lacks_chunks());
        self.level.try_again(io.now);
        if stuck {
            // Blocks left partly written by failed writes hold the chunks that others wait for.
            let discards: Vec<Command> = self.slabs.discards().collect();
            for command in discards {
                self.level.submit(io.now, Command { namespace: 0, ..command });
            }
        }
        if lacks_chunks {
            self.slabs.shrink();
        }
        self.take_answers(io);
    }

    pub fn write(&mut self, slab: u32, buffer: u32, forced: bool) {
        self.slabs.write(slab, buffer, forced);
    }

    pub fn read(&mut self, io: &mut Io, tag: Tag, slab: u32, sector: u32, sectors: u32) -> u32 {
        self.slabs.read(io, tag, slab, sector, sectors)
    }

    pub fn release(&mut self, slab: u32) {
        if self.slabs.without_flash() > 0 {
            self.left.extend(self.slabs.places(slab));
        }
        self.slabs.release(slab);
    }

    pub fn wipe(&mut self, io: &mut Io, slab: u32) {
        self.slabs.wipe(io, slab);
    }

    pub fn places(&self, slab: u32) -> &[u32] {
        self.slabs.places(slab)
    }

    pub fn candidates(&self) -> Vec<u32> {
        self.slabs.candidates()
    }

    pub fn peek(&mut self, io: &mut Io, tag: Tag, place: u32) {
        self.slabs.peek(io, tag, place);
    }

    pub fn adopt(&mut self, slab: u32, places: &[u32]) -> bool {
        self.slabs.adopt(slab, places)
    }

    pub fn begin(&mut self) {
        self.slabs.begin();
    }

    pub fn next_command(&mut self, io: &mut Io, buffers: &Buffers, stopped: bool) -> Option<Command> {
        for place in std::mem::take(&mut self.left) {
            self.level.submit(io.now, Command { namespace: 0, ..self.slabs.discard(place) });
        }
        // Commands that `original` would send to its drive go to the level.
        while let Some(command) = self.slabs.next_command(io, buffers, stopped) {
            self.level.submit(io.now, Command { namespace: 0, ..command });
        }
        self.take_answers(io);
        self.level.next_command()
    }

    pub fn complete(&mut self, io: &mut Io, completion: &mut Completion) {
        self.level.complete(io.now, completion);
        self.configure();
        self.take_answers(io);
    }

    fn take_answers(&mut self, io: &mut Io) {
        while let Some(mut ended) = self.level.pop() {
            self.slabs.complete(io, &mut ended);
        }
    }

    pub fn advance(&mut self, io: &mut Io) {
        self.level.advance(io.now);
        self.configure();
        self.take_answers(io);
    }

    pub fn next_event(&self) -> Option<SimTime> {
        self.level.next_event()
    }

    pub fn counters(&self) -> EngineCounters {
        EngineCounters { resting: self.resting(), ..self.slabs.counters() }
    }

    pub fn figures(&self) -> Vec<Figure> {
        self.level.figures()
    }

    pub fn check(&self) {
        self.slabs.check();
        self.level.check();
    }
}
