//! Making a drive: settings are checked before anything is made, media that hold data are mounted.

use crate::buffer::Buffer;
use crate::config::{DeviceConfig, FirmwareModel};
use crate::device::Device;
use crate::events::Events;
use crate::firmware::Firmware;
use crate::flush_path::Flushes;
use crate::host_interface::HostInterface;
use crate::monitor::Counters;
use crate::scheduler::{PlaneUnits, Scheduler};
use crate::spaces::Space;
use crate::work::sector_mask;
use pellucid_flash::slab::{NIL, Slab};
use pellucid_flash::{Geometry, Layout, SimTime};
use pellucid_ftl::{MountReport, PageMap, SetupError};
use pellucid_media::{Media, MediaError};
use std::collections::VecDeque;

/// Why a drive cannot be made.
#[derive(Debug)]
pub enum DeviceError {
    /// The media refuse.
    Media(MediaError),
    /// Translation refuses.
    Translation(SetupError),
    /// A controller setting is out of range.
    Setting {
        /// The key as in the TOML description.
        key: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl std::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceError::Media(e) => e.fmt(f),
            DeviceError::Translation(e) => e.fmt(f),
            DeviceError::Setting { key, allowed } => write!(f, "{key}: allowed: {allowed}"),
        }
    }
}

impl std::error::Error for DeviceError {}

impl Device {
    /// Makes the drive. Media that hold data (a file store) are mounted.
    pub fn new(config: &DeviceConfig) -> Result<Device, DeviceError> {
        let media = Media::new(&config.media).map_err(DeviceError::Media)?;
        Device::with_media(config, media, false)
    }

    /// Makes a drive from media saved by [`Media::export`]. It is mounted from what they hold, also with
    /// [`pellucid_ftl::Durability::Volatile`], which would forget it at a power cut. Buffer, open programs and random streams
    /// start anew: the same media always give the same drive, but not the one that was saved in all its state.
    pub fn restore(config: &DeviceConfig, media: Media) -> Result<Device, DeviceError> {
        Device::with_media(config, media, true)
    }

    fn with_media(config: &DeviceConfig, mut media: Media, keep: bool) -> Result<Device, DeviceError> {
        let layout = media.layout().clone();
        // A file with the bad blocks of a drive that cannot be would be in the way of the next description.
        let parts = Parts::of(config, &layout, &mut media, keep).inspect_err(|_| media.discard())?;
        let Parts { config, spaces, block_namespace, ftl, mounted } = parts;
        let direct = crate::direct_path::Direct::new(&config.media, &layout);
        let image_bytes = media.image_bytes();
        let page_units = (config.media.geometry.page_bytes / layout.unit_bytes).max(1);
        Ok(Device {
            events: Events::default(),
            host: HostInterface::new(&config.host),
            firmware: Firmware::new(&config.firmware, config.media.seed),
            buffer: Buffer::new(&config.buffer, layout.sectors_per_unit, image_bytes),
            scheduler: Scheduler::new(
                &config.scheduler,
                &config.media.timing,
                &layout,
                page_units,
                PlaneUnits::new(&config.media, &layout),
                config.firmware.model == FirmwareModel::Loop,
                config.media.seed,
            ),
            writes: crate::write_path::Writes::new(config.ftl.handles, layout.units_per_stripe),
            flushes: Flushes::default(),
            collect: crate::collect_path::Collect::new(&config.ftl, &layout, image_bytes),
            forgetting: crate::forgetting::Forgetting::default(),
            placement: crate::placement::Placement::default(),
            full: sector_mask(0, layout.sectors_per_unit),
            config,
            now: SimTime::ZERO,
            works: Slab::default(),
            slices: Slab::default(),
            active: 0,
            unretired: 0,
            gathering: (NIL, NIL),
            starved: Default::default(),
            starved_count: 0,
            idle: Default::default(),
            read_only: block_namespace != crate::spaces::NO_NAMESPACE && ftl.worn_out(),
            mounted,
            spaces,
            block_namespace,
            direct,
            counters: Counters::default(),
            taps: None,
            completions: VecDeque::new(),
            image_bytes,
            layout,
            ftl,
            media,
        })
    }
}

/// What a drive is made of beside its media, which may refuse.
struct Parts {
    /// With what follows from it filled in.
    config: DeviceConfig,
    spaces: Vec<Space>,
    block_namespace: u16,
    ftl: PageMap,
    mounted: Option<MountReport>,
}

impl Parts {
    fn of(
        config: &DeviceConfig,
        layout: &Layout,
        media: &mut Media,
        keep: bool,
    ) -> Result<Parts, DeviceError> {
        let solver = config.scheduler.solver;
        for (ok, key, allowed) in [
            (config.host.queues >= 1, "drive.host.queues", "at least 1"),
            (config.host.commands_max >= 1, "drive.host.commands", "at least 1"),
            (config.host.dma_unit_bytes >= 512, "drive.host.dma_unit", "at least 512 bytes"),
            (config.firmware.clock_mhz >= 1, "drive.firmware.clock_mhz", "at least 1"),
            (
                (0.0..1.0).contains(&config.firmware.spread),
                "drive.firmware.spread",
                "0 up to, not including, 1",
            ),
            (solver.is_none_or(|s| s.channels >= 1), "drive.scheduler.solver.channels", "at least 1"),
            (solver.is_none_or(|s| s.chunk_bytes >= 1), "drive.scheduler.solver.chunk", "at least 1 byte"),
            (
                !config.media.independent_plane_reads
                    || (config.media.geometry.unit_bytes <= config.media.geometry.page_bytes
                        && layout.dies_per_channel * config.media.geometry.planes <= Geometry::WAYS_MAX
                        && config.firmware.model != FirmwareModel::Loop),
                "drive.media.independent_plane_reads",
                "false, or true with a unit_size of at most page_size, ways x dies x planes of at most 64, and firmware.model = \"tasks\"",
            ),
            (config.buffer.entries >= 1, "drive.buffer.entries", "at least 1"),
            (config.buffer.entries < 1 << 24, "drive.buffer.entries", "fewer than 2^24"),
            (config.buffer.read_entries < 1 << 24, "drive.buffer.read_entries", "fewer than 2^24"),
            (config.host.commands_max < 1 << 20, "drive.host.commands", "fewer than 2^20"),
            (
                config.media.timing.channel_bytes_per_second >= 1,
                "drive.media.timing.channel",
                "at least 1 byte/s",
            ),
        ] {
            if !ok {
                return Err(DeviceError::Setting { key, allowed });
            }
        }
        let config = crate::spaces::complete(config, layout)?;
        let claimed = media.claim(crate::claim::words(&config, layout));
        claimed.map_err(|error| DeviceError::Media(error.into()))?;
        let (spaces, block_namespace) = crate::spaces::mount(&config, layout, media);
        let (ftl, mounted) = crate::power::mount(&config, layout, media, keep)?;
        Ok(Parts { config, spaces, block_namespace, ftl, mounted })
    }
}
