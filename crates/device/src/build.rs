//! Making a drive: settings are checked before anything is made, media that hold data are mounted.

use crate::config::{DeviceConfig, FirmwareModel};
use crate::error::DeviceError;
use crate::namespaces::Namespace;
use pellucid_flash::{Geometry, Layout};
use pellucid_media::Media;

/// The complete description, and the namespaces that the media hold; either may be refused.
pub(crate) fn parts(
    config: &DeviceConfig,
    layout: &Layout,
    media: &mut Media,
    keep: bool,
) -> Result<(DeviceConfig, Vec<Namespace>), DeviceError> {
    let solver = config.scheduler.solver;
    for (ok, key, allowed) in [
        (config.host.queues >= 1, "drive.host.queues", "at least 1"),
        (config.host.commands_max >= 1, "drive.host.commands", "at least 1"),
        (config.host.dma_unit_bytes >= 512, "drive.host.dma_unit", "at least 512 bytes"),
        (config.firmware.clock_mhz >= 1, "drive.firmware.clock_mhz", "at least 1"),
        ((0.0..1.0).contains(&config.firmware.spread), "drive.firmware.spread", "0 up to, not including, 1"),
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
    let config = crate::namespaces::complete(config, layout)?;
    media.store_mut().claim(crate::claim::words(&config, layout)).map_err(crate::claim::refusal)?;
    let namespaces = crate::namespaces::mount(&config, layout, media, keep, Vec::new())?;
    Ok((config, namespaces))
}
