//! Mount and power cut: what translation is told about the media when the drive is switched on.

use crate::buffer::Buffer;
use crate::build::DeviceError;
use crate::config::{DeviceConfig, Namespace};
use crate::device::Device;
use pellucid_flash::{BlockId, Completion, Layout, Lpn, Ppa, Status};
use pellucid_ftl::{MountReport, MountSource, PageMap};
use pellucid_media::{Health, Media};
use std::ops::Range;

/// The media as mounting sees them.
pub(crate) struct Source<'a> {
    pub media: &'a Media,
    /// Blocks of every die that belong to the namespace; to it all others are bad.
    pub blocks: Range<u32>,
    pub blocks_per_die: u32,
}

impl Source<'_> {
    fn is_foreign(&self, block: BlockId) -> bool {
        !self.blocks.contains(&(block.0 % self.blocks_per_die))
    }
}

impl MountSource for Source<'_> {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.media.spare(ppa).map(|s| (s.lpn, s.sequence))
    }

    fn used_stripes(&self, block: BlockId) -> u32 {
        if self.is_foreign(block) { 0 } else { self.media.next_stripe(block) }
    }

    fn begun(&self, block: BlockId) -> u64 {
        self.media.begun_with(block)
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.media.erase_count(block)
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.is_foreign(block) || self.media.health(block) != Health::Good
    }

    fn segment(&self, ppa: Ppa) -> Option<Vec<u8>> {
        self.media.segment(ppa)
    }
}

/// Translation for these media: new if they are empty, else rebuilt from them. `keep`: whatever they hold is kept, even on
/// a drive whose own contract is to forget it.
pub(crate) fn mount(
    config: &DeviceConfig,
    layout: &Layout,
    media: &Media,
    keep: bool,
) -> Result<(PageMap, Option<MountReport>), DeviceError> {
    let own = config.namespaces.iter().find_map(|n| match n {
        Namespace::Block { blocks } => Some(blocks.clone()),
        _ => None,
    });
    let Some(own) = own else {
        return Ok((PageMap::absent(&config.ftl, layout), None));
    };
    let source = Source { media, blocks: own, blocks_per_die: layout.blocks_per_die };
    let blocks = || (0..layout.blocks).map(BlockId);
    // What good blocks had behind them when the media were made.
    let worn_in = config.media.integrity.cycles;
    let cycles = |b| if media.health(b) == Health::FactoryBad { 0 } else { worn_in };
    if blocks()
        .all(|b| source.is_foreign(b) || (media.next_stripe(b) == 0 && media.erase_count(b) == cycles(b)))
    {
        let bad: Vec<BlockId> = blocks().filter(|&b| source.is_bad(b)).collect();
        let mut map = PageMap::new(&config.ftl, layout, &bad).map_err(DeviceError::Translation)?;
        map.set_erases(worn_in);
        name_dead(&mut map, media);
        return Ok((map, None));
    }
    let mounted = match keep {
        true => PageMap::restore(&config.ftl, layout, &source),
        false => PageMap::mount(&config.ftl, layout, &source),
    };
    let (mut map, report) = mounted.map_err(DeviceError::Translation)?;
    name_dead(&mut map, media);
    Ok((map, Some(report)))
}

/// Where that saves memory, translation says which copies are dead.
fn name_dead(map: &mut PageMap, media: &Media) {
    if media.forgets() {
        map.name_dead();
    }
}

impl Device {
    /// Cuts the power now and switches the drive on again. Everything volatile is lost; stripes being programmed are torn,
    /// blocks being erased must be erased again. Outstanding commands end with [`Status::PowerLoss`].
    pub fn power_cut(&mut self) -> Result<MountReport, DeviceError> {
        let lost: Vec<Completion> = self.outstanding();
        self.media.power_cut();
        self.save_protected();
        let (mut ftl, mounted) = mount(&self.config, &self.layout, &self.media, false)?;
        self.mounted = mounted.or(self.mounted);
        (self.spaces, self.block_namespace) =
            crate::spaces::mount(&self.config, &self.layout, &mut self.media);
        ftl.count_on_from(self.ftl.counters());
        self.ftl = ftl;
        self.read_only = false;
        self.bury_dead_dies();
        self.events.clear();
        self.host.reset(self.now);
        self.firmware.reset(self.now);
        self.scheduler.reset(self.now);
        self.buffer = Buffer::new(&self.config.buffer, self.layout.sectors_per_unit, self.image_bytes);
        self.works.clear();
        self.slices.clear();
        (self.active, self.unretired) = (0, 0);
        self.gathering.0 = pellucid_flash::slab::NIL;
        self.starved = Default::default();
        self.starved_count = 0;
        self.idle = Default::default();
        self.writes = crate::write_path::Writes::new(self.config.ftl.handles, self.layout.units_per_stripe);
        self.flushes = Default::default();
        self.forgetting = Default::default();
        self.collect = crate::collect_path::Collect::new(&self.config.ftl, &self.layout, self.image_bytes);
        self.direct.refresh = Default::default();
        self.counters.power_cuts += 1;
        self.tap_mount();
        self.push_completions(lost);
        Ok(mounted.unwrap_or_default())
    }

    fn outstanding(&mut self) -> Vec<Completion> {
        let now = self.now;
        self.works
            .iter_mut()
            .filter(|w| w.live)
            .map(|w| Completion {
                tag: w.command.tag,
                opcode: w.command.opcode,
                status: Status::PowerLoss,
                submitted: w.submitted,
                completed: now,
                stages: w.stages,
                data: std::mem::take(&mut w.command.data),
                result: 0,
                unmapped: 0,
                vector: w.command.vector.take(),
            })
            .collect()
    }
}
