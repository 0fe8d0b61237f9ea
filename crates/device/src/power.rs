//! Mount and power cut: what translation is told about the media when the drive is switched on.

use crate::buffer::Buffer;
use crate::config::DeviceConfig;
use crate::device::{Device, DeviceError};
use pellucid_flash::{BlockId, Completion, Layout, Lpn, Ppa, Status};
use pellucid_ftl::{MountReport, MountSource, PageMap};
use pellucid_media::{Health, Media};

/// The media as mounting sees them.
struct Source<'a>(&'a Media);

impl MountSource for Source<'_> {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.0.spare(ppa).map(|s| (s.lpn, s.sequence))
    }

    fn used_stripes(&self, block: BlockId) -> u32 {
        self.0.next_stripe(block)
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.0.erase_count(block)
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.0.health(block) != Health::Good
    }

    fn segment(&self, ppa: Ppa) -> Option<Vec<u8>> {
        self.0.segment(ppa)
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
    let blocks = || (0..layout.blocks).map(BlockId);
    if blocks().all(|b| media.next_stripe(b) == 0 && media.erase_count(b) == 0) {
        let bad: Vec<BlockId> = blocks().filter(|&b| media.health(b) != Health::Good).collect();
        let map = PageMap::new(&config.ftl, layout, &bad).map_err(DeviceError::Translation)?;
        return Ok((map, None));
    }
    let source = Source(media);
    let mounted = match keep {
        true => PageMap::restore(&config.ftl, layout, &source),
        false => PageMap::mount(&config.ftl, layout, &source),
    };
    let (map, report) = mounted.map_err(DeviceError::Translation)?;
    Ok((map, Some(report)))
}

impl Device {
    /// Cuts the power now and switches the drive on again. Everything volatile is lost; stripes being programmed are torn,
    /// blocks being erased must be erased again. Outstanding commands end with [`Status::PowerLoss`].
    pub fn power_cut(&mut self) -> Result<MountReport, DeviceError> {
        let lost: Vec<Completion> = self.outstanding();
        self.media.power_cut();
        let (ftl, mounted) = mount(&self.config, &self.layout, &self.media, false)?;
        self.mounted = mounted.or(self.mounted);
        self.ftl = ftl;
        self.read_only = false;
        self.bury_dead_dies();
        self.events.clear();
        self.host.reset(self.now);
        self.firmware.reset();
        self.scheduler.reset(self.now);
        self.buffer = Buffer::new(self.config.buffer.entries, self.layout.sectors_per_unit, self.image_bytes);
        self.works.clear();
        self.slices.clear();
        self.active = 0;
        self.starved = Default::default();
        self.starved_count = 0;
        self.writes = Default::default();
        self.flushes = Default::default();
        self.collect = crate::collect_path::Collect::new(&self.layout, self.image_bytes);
        self.counters.power_cuts += 1;
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
                vector: w.command.vector.take(),
            })
            .collect()
    }
}
