//! Choice of the layer that makes chunks of a drive without any, for programs that take any drive.

use crate::{BlockChunksConfig, LayerConfig, ZoneChunksConfig};
use pellucid_flash::{Drive, Interface, ZoneGeometry};

/// Maximum number of LUNs on a drive without any.
const LUNS: u32 = 8;
/// Minimum number of blocks in a LUN; blocks are made smaller to reach it.
const BLOCKS_LEAST: u32 = 64;
const BLOCK_BYTES: usize = 4 << 20;

/// Returns the layers that make chunks of the drive's namespaces; none if it has some. `format` makes new
/// chunks even if a block namespace holds data.
///
/// # Errors
/// The error says that no namespace can be made into chunks.
pub fn chunk_layers(drive: &impl Drive, format: bool) -> Result<Vec<LayerConfig>, &'static str> {
    let interfaces = || (0..drive.namespaces()).filter_map(|number| Some((number, drive.interface(number)?)));
    if interfaces().any(|(_, interface)| matches!(interface, Interface::OpenChannel(_))) {
        return Ok(Vec::new());
    }
    let layer = |(namespace, interface)| match interface {
        Interface::Zoned(zones) => Some(LayerConfig::ZoneChunks(of_zones(namespace, &zones))),
        Interface::Block { sectors, .. } => {
            Some(LayerConfig::BlockChunks(of_sectors(namespace, sectors, drive.image_bytes(), format)))
        }
        _ => None,
    };
    interfaces().find_map(layer).map(|layer| vec![layer]).ok_or("it has no namespace")
}

/// Configures chunks on zones: as many LUNs as zones can be written in parallel, with four active zones each.
fn of_zones(namespace: u16, zones: &ZoneGeometry) -> ZoneChunksConfig {
    let width = if zones.active_max == 0 { LUNS } else { zones.active_max / 4 };
    ZoneChunksConfig { namespace, width: width.clamp(1, LUNS), ..ZoneChunksConfig::default() }
}

/// Configures chunks on sectors: blocks of 4 MiB, or smaller ones if there would be few.
fn of_sectors(namespace: u16, sectors: u64, sector_bytes: usize, format: bool) -> BlockChunksConfig {
    let usual = BlockChunksConfig::default();
    let most = (BLOCK_BYTES / sector_bytes) as u64;
    let wanted = (sectors / u64::from(LUNS * BLOCKS_LEAST)).clamp(u64::from(usual.write_sectors), most);
    // The size is rounded down to a power of two.
    let chunk_sectors = 1u32 << wanted.ilog2();
    let (groups, units) = (LUNS / 2, 2);
    let sector_bytes = sector_bytes as u32;
    BlockChunksConfig { namespace, groups, units, chunk_sectors, sector_bytes, format, ..usual }
}
