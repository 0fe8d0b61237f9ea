//! Construction of a cache manager for two drives, with its errors.

use super::block_map::BlockMap;
use super::clean::Cleaner;
use super::commit::{Commit, Records};
use super::ends::Ending;
use super::locks::Locks;
use super::slots::{Layout, Slots};
use super::start::Start;
use super::streams::Streams;
use super::{Backend, CacheConfig, CacheCounters, CacheError, CacheManager};
use pellucid_flash::slab::Slab;
use pellucid_flash::{Interface, SimTime};
use std::collections::VecDeque;

impl CacheManager {
    /// Builds a manager. `again`: it has seen all writes to the backing store, and starts again.
    pub(super) fn build(
        config: &CacheConfig,
        flash: Option<Interface>,
        backing: Option<Interface>,
        image_bytes: usize,
        again: bool,
    ) -> Result<CacheManager, CacheError> {
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
                let most = Slots::blocks_max(&layout);
                if sectors / layout.block_sectors > most {
                    return Err(setting(
                        "block_bytes",
                        config.block_bytes,
                        "larger blocks for a store so large",
                    ));
                }
                let block_sectors = layout.block_sectors;
                (Backend::Block(Slots::new(layout, config.replacement)), block_sectors)
            }
            _ => return Err(CacheError::Flash(config.flash)),
        };
        let blocks = sectors / block_sectors;
        let flash_sectors = flash.as_ref().map_or(0, Interface::capacity_sectors);
        let mut layer = CacheManager {
            namespaces: [config.flash, config.backing],
            backend,
            image_bytes,
            flash_sectors,
            sectors,
            block_sectors,
            blocks,
            now: SimTime::ZERO,
            locks: Locks::default(),
            granted: VecDeque::new(),
            dirty: BlockMap::new(blocks),
            unflushed: [BlockMap::new(blocks), BlockMap::new(blocks)],
            doubtful: BlockMap::new(blocks),
            streams: Streams::new(config.sequential_bytes / u64::from(sector)),
            ops: Slab::default(),
            parts: Slab::default(),
            buffers: Vec::new(),
            cleaner: Cleaner::default(),
            commit: Commit::default(),
            records: Records::default(),
            start: Start::default(),
            ending: Ending::default(),
            degraded: false,
            read_only: false,
            dirtying: 0,
            counters: CacheCounters::default(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            config: config.clone(),
        };
        layer.cleaner.set_threshold(layer.capacity_blocks(), config.dirty_percent);
        layer.begin_start(again);
        Ok(layer)
    }
}
