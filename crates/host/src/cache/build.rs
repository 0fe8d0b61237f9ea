//! Shape of a cache for two drives, with the errors of its configuration.

use super::blocks::Layout;
use super::shape::{Backend, CacheShape};
use super::{CacheConfig, CacheError};
use pellucid_flash::Interface;

/// Returns the shape of a cache on the namespace `flash` before the namespace `backing`, whose drives keep `image_bytes` bytes of a
/// sector.
pub(super) fn shape(
    config: &CacheConfig,
    flash: Option<Interface>,
    backing: Option<Interface>,
    image_bytes: usize,
) -> Result<CacheShape, CacheError> {
    let Some(Interface::Block { sectors, .. }) = backing else {
        return Err(CacheError::Backing(config.backing));
    };
    let setting = |key, value: u32, allowed: &str| CacheError::Setting {
        key,
        value: value.into(),
        allowed: allowed.to_owned(),
    };
    let sector = config.sector_bytes;
    if sector < 512 || (image_bytes != 4 && image_bytes != sector as usize) {
        let allowed = format!("the drives' {image_bytes}");
        return Err(setting("sector_bytes", sector, &allowed));
    }
    if !(1..=99).contains(&config.dirty_percent) {
        return Err(setting("dirty_percent", config.dirty_percent, "1 to 99"));
    }
    if config.clean_blocks == 0 || config.set_blocks == 0 || config.set_blocks > 1 << 16 {
        return Err(setting(
            "clean_blocks, set_blocks",
            config.clean_blocks,
            "at least 1; sets of 1 to 65536",
        ));
    }
    let (backend, block_sectors) = match flash {
        Some(Interface::Cache(geometry)) => {
            let unit = u64::from(geometry.unit_sectors);
            let least = sectors.next_multiple_of(unit) + unit;
            if geometry.address_sectors / unit * unit < least {
                return Err(CacheError::AddressSpace { addresses: geometry.address_sectors, least });
            }
            (Backend::Ssc(geometry), unit)
        }
        Some(Interface::Block { sectors: of_flash, .. }) => {
            if config.block_bytes < sector || !config.block_bytes.is_multiple_of(sector) {
                let allowed = format!("a multiple of a sector of {sector}");
                return Err(setting("block_bytes", config.block_bytes, &allowed));
            }
            let layout = Layout::new(config, of_flash)?;
            let most = layout.blocks_max();
            if sectors / layout.block_sectors > most {
                return Err(setting("block_bytes", config.block_bytes, "larger blocks for a store so large"));
            }
            let block_sectors = layout.block_sectors;
            (Backend::Block(layout), block_sectors)
        }
        _ => return Err(CacheError::Flash(config.flash)),
    };
    Ok(CacheShape {
        backend,
        image_bytes,
        flash_sectors: flash.as_ref().map_or(0, Interface::capacity_sectors),
        sectors,
        block_sectors,
        blocks: sectors / block_sectors,
        config: config.clone(),
    })
}
