//! A cache namespace: a block namespace whose pages are admitted before they are written, and leave by eviction.
//!
//! ```text
//!  write-clean, write-dirty ─► admitted? no: cache full ─► slices as any write; stored: clean or dirty ─► programmed: unpinned
//!  read ─► all of it cached? no: absent ─► slices as any read; one that GC has dropped meanwhile: absent
//!  evict, clean, exists ─► the table
//!  emptied block ─► its page names are read ─► its clean pages leave the table ─► erased
//! ```
//! Buffer, packer, flush, GC, mount and read-only are those of every block namespace. What each command promises:
//! [`pellucid_flash::CacheGeometry`].

use super::buffer::{Content, Phase};
use super::{BlockNamespace, Purpose};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::config::Guarantee;
use crate::shared::Shared;
use pellucid_flash::{BlockId, CacheGeometry, CacheState, Cause, Command, Layout, Lpn, Opcode, Ppa, Status};

impl BlockNamespace {
    pub(crate) fn is_cache(&self) -> bool {
        self.config.guarantee.is_some()
    }

    /// Returns the cache geometry that a host sees; `None`: the namespace is no cache.
    pub fn cache_geometry(&self, layout: &Layout) -> Option<CacheGeometry> {
        let cached = self.translation.cached()?;
        Some(CacheGeometry {
            address_sectors: self.capacity_sectors(layout),
            unit_sectors: layout.sectors_per_unit,
            units: cached.pages.into(),
        })
    }

    /// Why a cache cannot accept a command.
    pub(super) fn refuse_cached(&self, shared: &Shared, command: &Command) -> Option<Status> {
        let per_unit = shared.layout.sectors_per_unit;
        let bytes = command.sectors as usize * shared.image_bytes;
        let carries = match command.opcode {
            Opcode::WriteClean | Opcode::WriteDirty => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush | Opcode::Evict | Opcode::Clean | Opcode::Exists => false,
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
        if !whole || (command.sectors == 0 && command.opcode != Opcode::Exists) {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.capacity_sectors(&shared.layout)) {
            return Some(Status::LbaOutOfRange);
        }
        let changes = matches!(command.opcode, Opcode::WriteClean | Opcode::WriteDirty | Opcode::Evict);
        (self.read_only && changes).then_some(Status::ReadOnly)
    }

    /// The firmware has taken a command of a cache.
    pub(super) fn start_cached(&mut self, shared: &mut Shared, work: u32) {
        let command = &shared.works[work].command;
        let (lba, sectors, opcode) = (command.lba.0, command.sectors, command.opcode);
        let first = (lba / u64::from(shared.layout.sectors_per_unit)) as u32;
        let units = (first..first + sectors / shared.layout.sectors_per_unit).map(Lpn);
        match opcode {
            Opcode::Read => match units.clone().find(|&lpn| self.state_of(lpn) == CacheState::Absent) {
                Some(absent) => self.refuse_started(shared, work, Status::Absent, (absent.0 - first).into()),
                None => self.cut(shared, work, lba, sectors, false),
            },
            Opcode::WriteClean | Opcode::WriteDirty => self.write_cached(shared, work, units),
            Opcode::Evict => {
                let evicted = units.filter(|&lpn| self.evict_unit(shared, lpn)).count() as u64;
                self.erase_emptied(shared);
                self.forget_outdated(shared);
                shared.works[work].result = evicted;
                let command = &mut shared.works[work].command;
                command.fua |= self.config.guarantee == Some(Guarantee::WriteDirty);
                match command.fua {
                    true => self.start_flush(shared, work),
                    false => shared.ask_complete(work),
                }
            }
            Opcode::Clean => {
                shared.works[work].result = units.filter(|&lpn| self.clean_unit(lpn)).count() as u64;
                self.erase_emptied(shared);
                shared.ask_complete(work);
            }
            _ => {
                let next = self.translation.cache().next_dirty(Lpn(first));
                let per_unit = u64::from(shared.layout.sectors_per_unit);
                let record = &mut shared.works[work];
                record.command.data.clear();
                record.command.data.extend(units.map(|lpn| self.state_of(lpn) as u8));
                record.result = next.map_or(CacheGeometry::NO_DIRTY, |lpn| u64::from(lpn.0) * per_unit);
                shared.ask_complete(work);
            }
        }
    }

    fn state_of(&mut self, lpn: Lpn) -> CacheState {
        self.translation.cache().state_of(lpn)
    }

    fn refuse_started(&mut self, shared: &mut Shared, work: u32, status: Status, result: u64) {
        let record = &mut shared.works[work];
        (record.status, record.result) = (status, result);
        shared.counts(self.number).cache_misses += u64::from(status == Status::Absent);
        shared.ask_complete(work);
    }

    /// All units of a write are admitted, or none.
    fn write_cached(&mut self, shared: &mut Shared, work: u32, units: impl Iterator<Item = Lpn> + Clone) {
        let Command { opcode, lba, sectors, .. } = shared.works[work].command;
        let dirty = opcode == Opcode::WriteDirty;
        let durable = self.config.guarantee == Some(Guarantee::WriteDirty);
        let mut forced = durable && dirty;
        let mut admitted = 0;
        for lpn in units.clone() {
            // Data that may be on the media must not come back once this is acknowledged.
            forced |= durable && self.translation.cache().may_come_back(lpn);
            if !self.translation.cache().admit(lpn, dirty) {
                break;
            }
            admitted += 1;
        }
        if admitted < units.clone().count() {
            units.take(admitted).for_each(|lpn| self.give_up_unit(lpn, dirty));
            // Translation pages may be wanted, to make space.
            self.erase_emptied(shared);
            self.write_map(shared);
            return self.refuse_started(shared, work, Status::CacheFull, 0);
        }
        shared.works[work].command.fua |= forced;
        // Clean pages of a full region have perhaps left.
        self.erase_emptied(shared);
        self.cut(shared, work, lba.0, sectors, false);
    }

    /// An admitted write of a page ends without its data.
    pub(super) fn give_up_unit(&mut self, lpn: Lpn, dirty: bool) {
        let cache = self.translation.cache();
        cache.stored(lpn, dirty, false);
        cache.unpin(lpn);
    }

    /// The data of an admitted write are in an entry.
    pub(super) fn stored_cached(&mut self, entry: u32, dirty: bool) {
        let lpn = self.buffer[entry].lpn;
        self.buffer[entry].is_state_dirty = dirty;
        let cache = self.translation.cache();
        cache.stored(lpn, dirty, true);
        // One pin of an entry is enough.
        if std::mem::replace(&mut self.buffer[entry].pinned, true) {
            cache.unpin(lpn);
        }
    }

    /// The data of an entry are on the media, or no longer needed there.
    pub(super) fn unpin(&mut self, entry: u32) {
        if std::mem::take(&mut self.buffer[entry].pinned) {
            self.translation.cache().unpin(self.buffer[entry].lpn);
        }
    }

    fn evict_unit(&mut self, shared: &mut Shared, lpn: Lpn) -> bool {
        let found = self.buffer.find(lpn);
        let awaited = found.is_some_and(|entry| self.buffer[entry].flushing);
        let written = |entry: u32| {
            let record = &self.buffer[entry];
            record.phase != Phase::Programming && !record.acknowledge.is_empty()
        };
        if found.is_some_and(written) {
            // The write has not ended: it comes after the eviction.
            return false;
        }
        let was_there = self.translation.cache().evict(lpn);
        if let Some(entry) = found {
            self.buffer.busy(entry);
            let record = &mut self.buffer[entry];
            if record.phase == Phase::Programming {
                self.buffer.unlist(entry);
            } else if record.phase == Phase::Packed {
                self.buffer.unlist(entry);
                self.buffer[entry].dropped = true;
                self.flushed(entry);
            } else {
                (record.dirty, record.wanted, record.valid) = (0, false, 0);
                record.content = Content::Data;
                record.users += 1;
                self.flushed(entry);
                self.unpin(entry);
                self.release(shared, entry);
            }
        }
        self.writes.behind.wake(lpn);
        if awaited {
            // The eviction stands for the data that the flush in progress waited for.
            self.flush_waits_for_trims();
        }
        was_there
    }

    fn clean_unit(&mut self, lpn: Lpn) -> bool {
        let unplaced = |entry: u32| {
            let record = &self.buffer[entry];
            record.dirty != 0 && record.phase != Phase::Programming
        };
        let unplaced = self.buffer.find(lpn).filter(|&entry| unplaced(entry));
        if let Some(entry) = unplaced {
            self.buffer[entry].is_state_dirty = false;
        }
        let buffered = unplaced.is_some();
        self.translation.cache().clean(lpn, buffered)
    }

    /// A page that was to be read is absent, since before or since GC has dropped it.
    pub(super) fn miss(&mut self, shared: &mut Shared, entry: u32, op: Option<u32>) {
        shared.counts(self.number).cache_misses += 1;
        self.end_fill(shared, entry, Status::Absent, op);
    }

    /// The copy of a page cannot be read: a clean page is absent from now on. Whether it was one.
    pub(super) fn drop_unreadable(&mut self, lpn: Lpn) -> bool {
        self.is_cache()
            && self.state_of(lpn) == CacheState::Clean
            && self.translation.cache().drop_if_unpinned(lpn)
    }

    /// An emptied block holds clean pages: their names are read.
    pub(super) fn read_names(&mut self, shared: &mut Shared, block: BlockId) {
        let last = shared.media.next_superpage(block).max(1) - 1;
        let ppa = shared.layout.ppa(block, last * shared.layout.units_per_superpage);
        let (owner, die) = (self.owner(Purpose::Names(block)), shared.layout.die_of(ppa).0);
        let op = FlashOp::new(OpKind::Read, Cause::Gc, owner, die, ppa, 1, shared.now);
        let op = shared.scheduler.ops.insert(op);
        shared.ask_issue(op);
    }

    /// The names of the pages of an emptied block are in the controller.
    pub(super) fn names_arrived(&mut self, shared: &mut Shared, op: u32, block: BlockId) {
        shared.tap_operation(op);
        shared.scheduler.ops.release(op);
        let units = (0..shared.layout.units_per_block).map(|unit| shared.layout.ppa(block, unit));
        let name = |ppa: Ppa| shared.media.page(ppa);
        self.translation.cache().evicted(block, units.map(name));
        self.erase_emptied(shared);
        self.continue_flush(shared);
    }
}
