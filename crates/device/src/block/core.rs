//! Core of a block namespace: the objects that the paths of commands use.

use super::behind::Behind;
use super::buffer::Buffer;
use super::flush::Flushes;
use super::map_reads::MapReads;
use super::media_side::MediaSide;
use super::read::Senses;
use super::starved::Starved;
use super::tenancy::Tenancy;
use super::write_queue::WriteQueue;
use crate::config::DataBuffer;

/// Description of what a namespace does above its translation.
#[derive(Clone, Debug)]
pub(super) struct CoreConfig {
    /// Its share of the drive's buffer.
    pub buffer: DataBuffer,
    /// The pages that it holds.
    pub tenancy: Tenancy,
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    config: CoreConfig,
    pub side: MediaSide,
    pub buffer: Buffer,
    pub queue: WriteQueue,
    pub behind: Behind,
    pub starved: Starved,
    pub flushes: Flushes,
    pub map_reads: MapReads,
    pub senses: Senses,
}

impl Core {
    /// Makes the core of a namespace at rest on its media side.
    pub fn new(config: CoreConfig, side: MediaSide, buffer: Buffer, units_per_superpage: u32) -> Core {
        Core {
            queue: WriteQueue::new(side.ftl().handles, units_per_superpage),
            config,
            side,
            buffer,
            behind: Behind::default(),
            starved: Starved::default(),
            flushes: Flushes::default(),
            map_reads: MapReads::default(),
            senses: Senses::default(),
        }
    }

    /// Returns the description.
    #[inline]
    pub fn config(&self) -> &CoreConfig {
        &self.config
    }

    /// The pages that the namespace holds.
    #[inline]
    pub fn tenancy(&self) -> Tenancy {
        self.config.tenancy
    }

    /// Returns whether a command waits until data are on the media: a flush, a forced write, or a write to an entry that accepts no
    /// more data.
    #[inline]
    pub fn awaits_programs(&self) -> bool {
        self.queue.is_awaited() || self.flushes.waiting() || !self.behind.is_empty()
    }
}
