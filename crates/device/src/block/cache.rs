//! A cache namespace: pages are admitted before they are written, and leave by eviction.
//!
//! ```text
//!  write-clean, write-dirty ─► admitted? no: cache full ─► slices as any write; stored: clean or dirty ─► programmed: unpinned
//!  read ─► all of it cached? no: absent ─► slices as any read; one that GC has dropped meanwhile: absent
//!  evict, clean, exists ─► the table
//!  emptied block ─► its page names are read ─► its clean pages leave the table ─► erased
//! ```
//! [`CacheNamespace`] has the commands of a cache. Buffer, packer, flush, GC, mount and read-only are those of the block namespace
//! that it owns, in which only admitted pages are ([`super::tenancy`]). What each command promises: [`pellucid_flash::CacheGeometry`].

use super::buffer::Phase;
use super::core::Core;
use super::tenancy::Tenancy;
use super::{BlockNamespace, discards, erases, flush, metadata, read, tenancy, write};
use crate::config::{CacheConfig, DeviceConfig, Guarantee};
use crate::error::DeviceError;
use crate::shared::Shared;
use pellucid_flash::{CacheGeometry, CacheOp, CacheState, Command, Layout, Lpn, Opcode, Status};
use pellucid_ftl::CachedPages;
use pellucid_media::Media;
use std::ops::Range;

/// A cache namespace.
#[derive(Clone, Debug)]
pub(crate) struct CacheNamespace {
    /// Holder of the pages.
    blocks: BlockNamespace,
    guarantee: Guarantee,
}

impl CacheNamespace {
    /// Namespace `number` of the blocks of `cache`; `keep` as with [`BlockNamespace::mount`].
    pub fn mount(
        number: u16,
        config: &DeviceConfig,
        cache: &CacheConfig,
        blocks: &Range<u32>,
        layout: &Layout,
        media: &Media,
        keep: bool,
    ) -> Result<CacheNamespace, DeviceError> {
        let blocks =
            BlockNamespace::mount_with(Tenancy::Admitted, number, config, blocks, layout, media, keep)?;
        Ok(CacheNamespace { blocks, guarantee: cache.guarantee })
    }

    /// The block namespace that holds the pages.
    #[inline]
    pub fn blocks(&self) -> &BlockNamespace {
        &self.blocks
    }

    /// As [`CacheNamespace::blocks`], for the paths of its slices and flash operations.
    #[inline]
    pub fn blocks_mut(&mut self) -> &mut BlockNamespace {
        &mut self.blocks
    }

    /// Returns the cache geometry that a host sees.
    pub fn geometry(&self, layout: &Layout) -> CacheGeometry {
        let cached =
            self.blocks.translation().cached().expect("the translation of a cache namespace is a cache's");
        CacheGeometry {
            address_sectors: self.blocks.capacity_sectors(layout),
            unit_sectors: layout.sectors_per_unit,
            units: cached.pages.into(),
        }
    }

    /// Writes the changed parts of the table when the idle time has passed without new commands.
    pub fn idle_for_long(&mut self, shared: &mut Shared) {
        let BlockNamespace { core: Core { side, .. }, idle, .. } = &mut self.blocks;
        if idle.has_ended(side, shared) {
            let mut cache =
                side.translation.cache().expect("the translation of a cache namespace is a cache's");
            cache.save_changed();
            metadata::write_map(side, shared);
        }
    }

    /// Continues the counts of `before` after the mount that follows a power cut.
    pub fn follow(&mut self, before: CacheNamespace, media: &Media) {
        self.blocks.follow(before.blocks, media);
    }

    /// Why a command cannot be accepted.
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        let per_unit = shared.layout.sectors_per_unit;
        let bytes = command.sectors as usize * shared.image_bytes;
        let carries = match command.opcode {
            Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty) => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush | Opcode::Cache(CacheOp::Evict | CacheOp::Clean | CacheOp::Exists) => false,
            _ => return Some(Status::InvalidOpcode),
        };
        let foreign = command.vector.is_some() || !shared.host.has_queue(command.queue);
        if foreign || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        if command.opcode == Opcode::Flush {
            return None;
        }
        let whole = command.lba.0.is_multiple_of(per_unit.into()) && command.sectors.is_multiple_of(per_unit);
        if !whole || (command.sectors == 0 && command.opcode != Opcode::Cache(CacheOp::Exists)) {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.blocks.capacity_sectors(&shared.layout)) {
            return Some(Status::LbaOutOfRange);
        }
        let changes = matches!(
            command.opcode,
            Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty | CacheOp::Evict)
        );
        (self.blocks.is_read_only() && changes).then_some(Status::ReadOnly)
    }

    /// The firmware has taken a command.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        let core = &mut self.blocks.core;
        let command = &shared.works[work].command;
        let (lba, sectors, opcode) = (command.lba.0, command.sectors, command.opcode);
        let first = (lba / u64::from(shared.layout.sectors_per_unit)) as u32;
        let units = (first..first + sectors / shared.layout.sectors_per_unit).map(Lpn);
        match opcode {
            Opcode::Read => match units.clone().find(|&lpn| state_of(core, lpn) == CacheState::Absent) {
                Some(absent) => refuse_started(core, shared, work, Status::Absent, (absent.0 - first).into()),
                None => write::cut(core, shared, work, lba, sectors, false),
            },
            Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty) => {
                write_cached(core, shared, work, units, self.guarantee == Guarantee::WriteDirty);
            }
            Opcode::Flush => flush::start_flush(core, shared, work),
            Opcode::Cache(CacheOp::Evict) => {
                let evicted = units.filter(|&lpn| evict_unit(core, shared, lpn)).count() as u64;
                erases::erase_emptied(&mut core.side, shared);
                discards::forget_outdated(&mut core.side, shared);
                shared.works[work].result = evicted;
                let command = &mut shared.works[work].command;
                command.fua |= self.guarantee == Guarantee::WriteDirty;
                match command.fua {
                    true => flush::start_flush(core, shared, work),
                    false => shared.ask_complete(work),
                }
            }
            Opcode::Cache(CacheOp::Clean) => {
                shared.works[work].result = units.filter(|&lpn| clean_unit(core, lpn)).count() as u64;
                erases::erase_emptied(&mut core.side, shared);
                shared.ask_complete(work);
            }
            Opcode::Cache(CacheOp::Exists) => {
                let next = pages(core).next_dirty(Lpn(first));
                let per_unit = u64::from(shared.layout.sectors_per_unit);
                let record = &mut shared.works[work];
                record.command.data.clear();
                record.command.data.extend(units.map(|lpn| state_of(core, lpn) as u8));
                record.result = next.map_or(CacheGeometry::NO_DIRTY, |lpn| u64::from(lpn.0) * per_unit);
                shared.ask_complete(work);
            }
            _ => unreachable!("refused at submission"),
        }
    }
}

/// The pages that the cache holds.
fn pages(core: &mut Core) -> CachedPages<'_> {
    core.side.translation.cache().expect("the translation of a cache namespace is a cache's")
}

fn state_of(core: &mut Core, lpn: Lpn) -> CacheState {
    pages(core).state_of(lpn)
}

fn refuse_started(core: &mut Core, shared: &mut Shared, work: u32, status: Status, result: u64) {
    let record = &mut shared.works[work];
    (record.status, record.result) = (status, result);
    shared.counts(core.side.number()).cache_misses += u64::from(status == Status::Absent);
    shared.ask_complete(work);
}

/// All units of a write are admitted, or none. `durable`: a write of dirty data ends once it is on the media.
fn write_cached(
    core: &mut Core,
    shared: &mut Shared,
    work: u32,
    units: impl Iterator<Item = Lpn> + Clone,
    durable: bool,
) {
    let Command { opcode, lba, sectors, .. } = shared.works[work].command;
    let dirty = opcode == Opcode::Cache(CacheOp::WriteDirty);
    let mut forced = durable && dirty;
    let mut admitted = 0;
    for lpn in units.clone() {
        // Data that may be on the media must not come back once this is acknowledged.
        forced |= durable && pages(core).may_come_back(lpn);
        if !pages(core).admit(lpn, dirty) {
            break;
        }
        admitted += 1;
    }
    if admitted < units.clone().count() {
        units.take(admitted).for_each(|lpn| tenancy::give_up(core, lpn, opcode));
        // Translation pages may be wanted, to make space.
        erases::erase_emptied(&mut core.side, shared);
        metadata::write_map(&mut core.side, shared);
        return refuse_started(core, shared, work, Status::CacheFull, 0);
    }
    shared.works[work].command.fua |= forced;
    // Clean pages of a full region have perhaps left.
    erases::erase_emptied(&mut core.side, shared);
    write::cut(core, shared, work, lba.0, sectors, false);
}

fn evict_unit(core: &mut Core, shared: &mut Shared, lpn: Lpn) -> bool {
    let found = core.buffer.find(lpn);
    let awaited = found.is_some_and(|entry| core.buffer[entry].is_flushing());
    let written = |entry: u32| {
        let record = &core.buffer[entry];
        record.phase() != Phase::Programming && !record.waiters().for_program().is_empty()
    };
    if found.is_some_and(written) {
        // The write has not ended: it comes after the eviction.
        return false;
    }
    let was_there = pages(core).evict(lpn);
    if let Some(entry) = found {
        core.buffer.busy(entry);
        let record = &mut core.buffer[entry];
        if record.phase() == Phase::Programming {
            core.buffer.unlist(entry);
        } else if record.phase() == Phase::Packed {
            core.buffer.unlist(entry);
            core.buffer[entry].drop_data();
            flush::flushed(core, entry);
        } else {
            record.evict();
            record.users_mut().hold();
            flush::flushed(core, entry);
            tenancy::unpin(core, entry);
            read::release(core, shared, entry);
        }
    }
    core.behind.wake(lpn);
    if awaited {
        // The eviction stands for the data that the flush in progress waited for.
        flush::flush_waits_for_trims(core);
    }
    was_there
}

fn clean_unit(core: &mut Core, lpn: Lpn) -> bool {
    let unplaced = |entry: u32| {
        let record = &core.buffer[entry];
        record.sectors().dirty() != 0 && record.phase() != Phase::Programming
    };
    let unplaced = core.buffer.find(lpn).filter(|&entry| unplaced(entry));
    if let Some(entry) = unplaced {
        core.buffer[entry].admitted_mut().set_dirty(false);
    }
    let buffered = unplaced.is_some();
    pages(core).clean(lpn, buffered)
}
