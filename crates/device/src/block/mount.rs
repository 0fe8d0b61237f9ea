//! A block namespace is switched on: translation is made from what the media hold, everything else is empty.

use super::BlockNamespace;
use super::buffer::Buffer;
use super::core::{Core, CoreConfig};
use super::media_side::MediaSide;
use super::tenancy::Tenancy;
use crate::config::DeviceConfig;
use crate::error::DeviceError;
use crate::shared::units_of_a_sense;
use pellucid_flash::{BlockId, Layout, Lpn, Ppa};
use pellucid_ftl::{Caller, Durability, FtlConfig, MountReport, MountSource, Start, Translation};
use pellucid_media::{Health, Media};
use std::ops::Range;

/// The media as mounting sees them.
pub(crate) struct Source<'a> {
    pub media: &'a Media,
    /// Blocks of every die that belong to the namespace; to it all others are bad.
    pub blocks: Range<u32>,
    pub blocks_per_die: u32,
}

impl<'a> Source<'a> {
    /// Makes the source of a namespace that has all blocks.
    pub fn of(layout: &Layout, media: &'a Media) -> Source<'a> {
        Source { media, blocks: 0..layout.blocks_per_die, blocks_per_die: layout.blocks_per_die }
    }

    fn is_foreign(&self, block: BlockId) -> bool {
        !self.blocks.contains(&(block.0 % self.blocks_per_die))
    }
}

impl MountSource for Source<'_> {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.media.array().spare(ppa).map(|s| (s.lpn, s.sequence))
    }

    fn used_superpages(&self, block: BlockId) -> u32 {
        if self.is_foreign(block) { 0 } else { self.media.array().next_superpage(block) }
    }

    fn begun(&self, block: BlockId) -> u64 {
        self.media.array().begun_with(block)
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.media.array().erase_count(block)
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.is_foreign(block) || self.media.array().health(block) != Health::Good
    }

    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        self.media.map_page(ppa)
    }
}

impl BlockNamespace {
    /// Namespace `number` of these blocks of every die. `keep`: whatever the media hold is kept, even on a drive whose own
    /// contract is to forget it.
    pub fn mount(
        number: u16,
        config: &DeviceConfig,
        blocks: &Range<u32>,
        layout: &Layout,
        media: &Media,
        keep: bool,
    ) -> Result<BlockNamespace, DeviceError> {
        BlockNamespace::mount_with(Tenancy::Every, number, config, blocks, layout, media, keep)
    }

    /// As [`BlockNamespace::mount`], with pages as `tenancy` says.
    pub(super) fn mount_with(
        tenancy: Tenancy,
        number: u16,
        config: &DeviceConfig,
        blocks: &Range<u32>,
        layout: &Layout,
        media: &Media,
        keep: bool,
    ) -> Result<BlockNamespace, DeviceError> {
        let (ftl, buffer) = (config.ftl_of(blocks, layout), config.buffer_of(blocks, layout));
        let source = Source { media, blocks: blocks.clone(), blocks_per_die: layout.blocks_per_die };
        // Erase cycles of good blocks when the media were made.
        let worn_in = config.media.integrity.cycles;
        let sense = units_of_a_sense(&config.media, layout);
        let caller = Caller { sense, takes_outdated: media.forgets() };
        let (translation, mounted) = mount(&ftl, layout, caller, &source, worn_in, keep)?;
        let image_bytes = media.image_bytes();
        let entries = Buffer::new(&buffer, layout.sectors_per_unit, image_bytes);
        let side = MediaSide::new(number, ftl, translation, layout, image_bytes);
        let core = Core::new(CoreConfig { buffer, tenancy }, side, entries, layout.units_per_superpage);
        Ok(BlockNamespace {
            core,
            placement: Default::default(),
            idle: Default::default(),
            preconditioner: Default::default(),
            mounted,
        })
    }

    /// Adds the losses of a power cut to the report of the following mount: logical pages forgotten because the drive is volatile,
    /// or pages whose newest acknowledged data were in the buffer.
    pub fn add_losses(&self, report: &mut MountReport) {
        match self.side().ftl().durability {
            Durability::Volatile => {
                // Written pages that are still in the buffer are forgotten, too.
                let mapped = |lpn: &u32| self.is_mapped(Lpn(*lpn));
                report.forgotten_units += (0..self.side().user_units()).filter(mapped).count() as u64;
            }
            Durability::Journal { .. } => report.undone_units += self.core.buffer.unsaved(),
        }
    }

    /// Continues the counts of `before` after the mount that follows a power cut.
    pub fn follow(&mut self, before: BlockNamespace, media: &Media) {
        self.set_counters(before.translation().view().counters);
        self.mounted = self.mounted.or(before.mounted);
        self.placement = before.placement;
        self.core.side.begin_writing();
        self.core.side.bury_dead_dies(media);
    }
}

/// Translation for these media: new if they are empty, else rebuilt from them.
fn mount(
    ftl: &FtlConfig,
    layout: &Layout,
    caller: Caller,
    source: &Source<'_>,
    worn_in: u32,
    keep: bool,
) -> Result<(Translation, Option<MountReport>), DeviceError> {
    let media = source.media;
    let blocks = || (0..layout.blocks).map(BlockId);
    let cycles = |b| if media.array().health(b) == Health::FactoryBad { 0 } else { worn_in };
    let empty = |b| media.array().next_superpage(b) == 0 && media.array().erase_count(b) == cycles(b);
    let bad: Vec<BlockId> = blocks().filter(|&b| source.is_bad(b)).collect();
    let from = match blocks().all(|b| source.is_foreign(b) || empty(b)) {
        true => Start::Empty { bad: &bad, erases: worn_in },
        false if keep => Start::Restore(source),
        false => Start::Mount(source),
    };
    Translation::start(ftl, layout, caller, from).map_err(DeviceError::Translation)
}
