//! Setup of a cluster buffer: configuration, sizes, and the ranges whose writes bypass it. It never changes, so all may read it.

use super::config::{BufferShape, ClusterBufferConfig, ClusterBufferError, FlushPolicy, joined};
use pellucid_flash::{Command, Interface, Opcode, Status};
use std::ops::Range;

/// Constants of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub config: ClusterBufferConfig,
    pub shape: BufferShape,
    pub image_bytes: usize,
    /// Sectors whose writes bypass the buffer: in order, and apart.
    passes: Vec<Range<u64>>,
}

impl Setup {
    pub fn new(
        config: &ClusterBufferConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<Setup, ClusterBufferError> {
        let shape = BufferShape::new(config, interface)?;
        let passes = joined(&config.bypass, (shape.sectors, config.sector_bytes))?;
        Ok(Setup { config: config.clone(), shape, image_bytes, passes })
    }

    /// Reports whether the drive keeps data, and not only stamps.
    pub fn keeps_content(&self) -> bool {
        self.image_bytes == self.config.sector_bytes as usize
    }

    /// Reports whether flushes bypass the buffer.
    pub fn is_paper(&self) -> bool {
        self.config.flush == FlushPolicy::Paper
    }

    /// Returns the number of evictions at once.
    pub fn evictions(&self) -> usize {
        self.config.evictions.clamp(1, u32::BITS) as usize
    }

    /// Returns the bytes of so many sectors.
    pub fn bytes(&self, sectors: u64) -> u64 {
        sectors * u64::from(self.config.sector_bytes)
    }

    /// Reports whether a command touches a range whose writes bypass the buffer.
    #[inline]
    pub fn passes_by(&self, command: &Command) -> bool {
        let (first, end) = (command.lba.0, command.lba.0.saturating_add(command.sectors.into()));
        let next = self.passes.partition_point(|range| range.end <= first);
        self.passes.get(next).is_some_and(|range| range.start < end)
    }

    /// Returns the status of a command that is refused at submission.
    pub fn refuse(&self, command: &Command) -> Option<Status> {
        let images = command.sectors as usize * self.image_bytes;
        let good = match command.opcode {
            Opcode::Write => command.data.len() == images,
            Opcode::Read => command.data.is_empty() || command.data.len() == images,
            Opcode::Trim | Opcode::WriteZeroes => true,
            Opcode::Flush => return None,
            _ => return Some(Status::InvalidOpcode),
        };
        let inside =
            command.lba.0.checked_add(command.sectors.into()).is_some_and(|end| end <= self.shape.sectors);
        if !good || command.sectors == 0 || command.vector.is_some() {
            return Some(Status::InvalidField);
        }
        (!inside).then_some(Status::LbaOutOfRange)
    }
}
