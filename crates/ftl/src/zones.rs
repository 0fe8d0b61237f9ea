//! Zones: the translation of a zoned namespace (NVMe Zoned Namespaces 1.1).
//!
//! A zone is spread over a set of dies: its superpage `k` is in column `k mod dies_per_zone`. A column takes erase units from the
//! [`Pool`](crate::pool) as it is written, so the drive levels wear and replaces bad blocks below the zones.
//!
//! ```text
//!  column of a zone     rows 0 1 2 3 4 | 5 6 7 ...        an extent: rows that lie one behind the other in one block
//!                       block 17       | block 40, from its superpage 0, because a program of block 17 failed at row 5
//! ```
//! States are those of [`pellucid_flash::ZoneState`]; opening one zone too many closes the one that was opened implicitly first.
//!
//! Every superpage identifies itself in its spare area ([`Mark`]), so a mount can recover the pointers after a power cut: the
//! superpages of a zone are valid up to the first one that is missing or older than the mount that wrote its predecessor.
//!
//! Invariants: `open` and `active` count zones by state; a zone that is empty and idle has no extents; a superpage below the
//! written ones has a place.

pub use crate::zone_config::ZoneConfig;
pub use crate::zone_mark::Mark;

use crate::pool::Pool;
use crate::{MountSource, SavedSuperpage, zone_mount};
use pellucid_flash::{
    BlockId, BlockStream, BlockUse, BlockView, DieId, Layout, Lba, Ppa, Status, ZoneAction, ZoneGeometry,
    ZoneInfo, ZoneState,
};

/// Rows of a column that lie consecutively in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// First row of the column.
    pub row: u32,
    pub block: BlockId,
    /// Superpage of the block that holds the first row.
    pub at: u32,
    /// Rows.
    pub count: u32,
}

impl Extent {
    /// Returns whether the next superpage of its block, `at`, would hold row `row`.
    pub fn goes_on(&self, block: BlockId, at: u32, row: u32) -> bool {
        self.block == block && self.row + self.count == row && self.at + self.count == at
    }
}

/// A column of a zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    pub extents: Vec<Extent>,
    /// Next superpage of the last extent's block.
    pub next_at: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub state: ZoneState,
    /// Sectors accepted.
    pub pointer: u32,
    /// Sectors that hold data, once it is full.
    pub data: u32,
    /// Time of opening, to close the oldest.
    opened: u64,
    /// An action on the zone waits or is under way.
    pub held: bool,
    /// The host should reset the zone.
    pub reset_recommended: bool,
    pub columns: Vec<Column>,
}

/// Work that the drive has to do for an accepted action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneWork {
    /// None: the action is done.
    Done,
    /// Drop buffered data, erase the blocks, then call [`Zones::reset_end`].
    Reset,
    /// Program buffered data with a mark of the finished zone, then call [`Zones::finish_end`].
    Finish,
    /// Record the action, then call [`Zones::offline_end`].
    Offline,
}

/// The zones of one namespace.
#[derive(Clone, Debug)]
pub struct Zones {
    pub(crate) config: ZoneConfig,
    pub(crate) layout: Layout,
    pub(crate) geometry: ZoneGeometry,
    pub(crate) superpage_sectors: u32,
    pub(crate) zones: Vec<Zone>,
    pub(crate) pool: Pool,
    open: u32,
    active: u32,
    clock: u64,
    pub(crate) sequence: u64,
    pub(crate) epoch: u32,
    /// Place of the next superpage of the staging log: block and superpage.
    pub(crate) log: Option<(BlockId, u32)>,
    log_die: u32,
    /// Free blocks that no zone takes, so that a protected buffer has somewhere to go.
    reserve: u32,
    /// Zones to report to the host, in that order: the media failed them, or they should be reset.
    changed: Vec<u32>,
}

impl Zones {
    /// Mounts the zones of the media behind `source`, and the data `saved` from their buffer. `mark` reads the mark in the spare area of
    /// a superpage's first unit.
    pub fn mount(
        config: &ZoneConfig,
        layout: &Layout,
        source: &impl MountSource,
        mark: impl Fn(Ppa) -> Option<Mark>,
        saved: &[SavedSuperpage],
    ) -> (Zones, zone_mount::ZoneMount) {
        let superpage_sectors = layout.units_per_superpage * layout.sectors_per_unit;
        let capacity = superpage_sectors * layout.superpages_per_block * config.dies_per_zone;
        let sets = layout.dies / config.dies_per_zone;
        let geometry = ZoneGeometry {
            zones: (config.blocks.len() as u32 - config.spare_blocks) * sets,
            zone_sectors: u64::from(capacity).next_power_of_two(),
            capacity_sectors: capacity.into(),
            sector_bytes: layout.sector_bytes,
            open_max: config.open_max,
            active_max: config.active_max,
            append_max_sectors: config.append_max_sectors,
        };
        let empty = Zone {
            state: ZoneState::Empty,
            pointer: 0,
            data: 0,
            opened: 0,
            held: false,
            reset_recommended: false,
            columns: vec![Column::default(); config.dies_per_zone as usize],
        };
        let mut zones = Zones {
            pool: Pool::new(layout, config.blocks.clone()),
            config: config.clone(),
            layout: layout.clone(),
            geometry,
            superpage_sectors,
            zones: vec![empty; geometry.zones as usize],
            open: 0,
            active: 0,
            clock: 0,
            sequence: 1,
            epoch: 1,
            log: None,
            log_die: 0,
            reserve: 0,
            changed: Vec::new(),
        };
        let found = zone_mount::find(&mut zones, source, mark, saved);
        zones.active = zones.zones.iter().filter(|z| z.state == ZoneState::Closed).count() as u32;
        (zones, found)
    }

    /// Geometry of the namespace, as hosts see it.
    pub fn geometry(&self) -> &ZoneGeometry {
        &self.geometry
    }

    /// Sectors of a superpage.
    pub fn superpage_sectors(&self) -> u32 {
        self.superpage_sectors
    }

    /// Superpages of a block, of the staging log too.
    pub fn layout_superpages_per_block(&self) -> u32 {
        self.layout.superpages_per_block
    }

    /// Sectors of the namespace, the gaps behind the zones' capacity included.
    pub fn sectors(&self) -> u64 {
        u64::from(self.geometry.zones) * self.geometry.zone_sectors
    }

    /// Zone of a sector, and the sector's number in it.
    pub fn zone_of(&self, lba: Lba) -> Option<(u32, u64)> {
        let zone = lba.0 / self.geometry.zone_sectors;
        (zone < self.geometry.zones.into()).then_some((zone as u32, lba.0 % self.geometry.zone_sectors))
    }

    /// State of a zone.
    pub fn state(&self, zone: u32) -> ZoneState {
        self.zones[zone as usize].state
    }

    /// Sectors of a zone that hold data, or will.
    pub fn data_sectors(&self, zone: u32) -> u32 {
        let zone = &self.zones[zone as usize];
        if zone.state == ZoneState::Full { zone.data } else { zone.pointer }
    }

    /// Descriptor of a zone, as reports give it.
    pub fn info(&self, zone: u32) -> ZoneInfo {
        let start = u64::from(zone) * self.geometry.zone_sectors;
        let record = &self.zones[zone as usize];
        ZoneInfo {
            state: record.state,
            start: Lba(start),
            capacity_sectors: self.geometry.capacity_sectors,
            write_pointer: Lba(start + u64::from(record.pointer)),
            reset_recommended: record.reset_recommended,
        }
    }

    fn is_open(state: ZoneState) -> bool {
        matches!(state, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen)
    }

    fn is_active(state: ZoneState) -> bool {
        Zones::is_open(state) || state == ZoneState::Closed
    }

    /// Changes a zone's state and the counts with it.
    pub fn set_state(&mut self, zone: u32, state: ZoneState) {
        let record = &mut self.zones[zone as usize];
        let before = std::mem::replace(&mut record.state, state);
        self.open = self.open - u32::from(Zones::is_open(before)) + u32::from(Zones::is_open(state));
        self.active = self.active - u32::from(Zones::is_active(before)) + u32::from(Zones::is_active(state));
        if Zones::is_open(state) && !Zones::is_open(before) {
            self.clock += 1;
            record.opened = self.clock;
        }
    }

    /// Ensures that a zone in `state` may be opened: checks limits, and closes another zone implicitly if needed.
    fn room_to_open(&mut self, state: ZoneState) -> Result<(), Status> {
        if !Zones::is_active(state) && self.config.active_max > 0 && self.active >= self.config.active_max {
            return Err(Status::TooManyActiveZones);
        }
        if Zones::is_open(state) || self.config.open_max == 0 || self.open < self.config.open_max {
            return Ok(());
        }
        let implicit = (0..).zip(&self.zones).filter(|(_, z)| z.state == ZoneState::ImplicitlyOpen);
        let oldest = implicit.min_by_key(|(_, z)| z.opened).map(|(zone, _)| zone);
        self.set_state(oldest.ok_or(Status::TooManyOpenZones)?, ZoneState::Closed);
        Ok(())
    }

    /// Accepts a write (`append`: at the current write pointer) and moves the write pointer. Returns the zone and its first sector.
    pub fn accept(&mut self, lba: Lba, sectors: u32, append: bool) -> Result<(u32, u32), Status> {
        let (zone, offset) = self.zone_of(lba).ok_or(Status::LbaOutOfRange)?;
        if append && (offset != 0 || sectors > self.config.append_max_sectors) {
            return Err(Status::InvalidField);
        }
        if self.is_short() {
            return Err(Status::ReadOnly);
        }
        let record = &self.zones[zone as usize];
        let (state, pointer) = (record.state, record.pointer);
        match state {
            ZoneState::Full => return Err(Status::ZoneFull),
            ZoneState::ReadOnly => return Err(Status::ZoneReadOnly),
            ZoneState::Offline => return Err(Status::ZoneOffline),
            _ => {}
        }
        // An action on the zone is not over, so no write can match the write pointer.
        if record.held || (!append && offset != u64::from(pointer)) {
            return Err(Status::ZoneInvalidWrite);
        }
        if u64::from(pointer) + u64::from(sectors) > self.geometry.capacity_sectors {
            return Err(Status::ZoneBoundary);
        }
        if self.reserve > 0 && self.lacks_room(zone, pointer, pointer + sectors) {
            return Err(Status::ReadOnly);
        }
        if !Zones::is_open(state) {
            self.room_to_open(state)?;
            self.set_state(zone, ZoneState::ImplicitlyOpen);
        }
        let record = &mut self.zones[zone as usize];
        record.pointer += sectors;
        record.data = record.pointer;
        if u64::from(record.pointer) == self.geometry.capacity_sectors {
            self.set_state(zone, ZoneState::Full);
        }
        Ok((zone, pointer))
    }

    /// Accepts an action on one zone. The drive does the returned work before it reports the action.
    pub fn act(&mut self, zone: u32, action: ZoneAction) -> Result<ZoneWork, Status> {
        use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
        let state = self.state(zone);
        if self.zones[zone as usize].held {
            return Err(Status::ZoneInvalidTransition);
        }
        match (action, state) {
            (ZoneAction::Open, ExplicitlyOpen)
            | (ZoneAction::Close, Closed)
            | (ZoneAction::Finish, Full)
            | (ZoneAction::Reset, Empty)
            | (ZoneAction::Offline, Offline) => {}
            (ZoneAction::Open, Empty | Closed | ImplicitlyOpen) => {
                self.room_to_open(state)?;
                self.set_state(zone, ExplicitlyOpen);
            }
            (ZoneAction::Close, ImplicitlyOpen | ExplicitlyOpen) => self.set_state(zone, Closed),
            (ZoneAction::Finish, Empty | Closed | ImplicitlyOpen | ExplicitlyOpen) => {
                self.zones[zone as usize].held = true;
                return Ok(ZoneWork::Finish);
            }
            (ZoneAction::Reset, Closed | ImplicitlyOpen | ExplicitlyOpen | Full) => {
                self.zones[zone as usize].held = true;
                return Ok(ZoneWork::Reset);
            }
            (ZoneAction::Offline, ReadOnly) => {
                self.zones[zone as usize].held = true;
                return Ok(ZoneWork::Offline);
            }
            _ => return Err(Status::ZoneInvalidTransition),
        }
        Ok(ZoneWork::Done)
    }

    /// The action on one zone that results from an action on all, if `zone` is concerned.
    pub fn concerned(&self, zone: u32, all: ZoneAction) -> Option<ZoneAction> {
        let state = self.state(zone);
        let (action, concerned) = match all {
            ZoneAction::CloseAll => (ZoneAction::Close, Zones::is_open(state)),
            ZoneAction::FinishAll => (ZoneAction::Finish, Zones::is_active(state)),
            ZoneAction::OpenAll => (ZoneAction::Open, state == ZoneState::Closed),
            ZoneAction::ResetAll => (ZoneAction::Reset, Zones::is_active(state) || state == ZoneState::Full),
            ZoneAction::OfflineAll => (ZoneAction::Offline, state == ZoneState::ReadOnly),
            _ => return None,
        };
        (concerned && !self.zones[zone as usize].held).then_some(action)
    }

    /// Reserves `blocks` free blocks: zones get none of them, and dispensable log entries only one.
    pub fn reserve(&mut self, blocks: u32) {
        self.reserve = blocks;
    }

    /// The pieces of blocks that hold data of zones, or of the staging log, as an observer sees them; without erase counts. A block may
    /// have several, whose units add up.
    pub fn block_views(&self) -> impl Iterator<Item = (BlockId, BlockView)> + use<'_> {
        let units = self.layout.units_per_superpage;
        let view = move |usage, stream, superpages: u32| BlockView {
            usage,
            stream,
            units: superpages * units,
            erases: 0,
        };
        let of_zone = move |zone: &'_ Zone| {
            let usage = match zone.state {
                ZoneState::Offline => BlockUse::Bad,
                ZoneState::Full | ZoneState::ReadOnly => BlockUse::Full,
                _ => BlockUse::Open,
            };
            let extents: Vec<Extent> =
                zone.columns.iter().flat_map(|column| column.extents.clone()).collect();
            extents.into_iter().map(move |e| (e.block, view(usage, BlockStream::Direct, e.count)))
        };
        let log = self.log.map(|(block, next)| (block, view(BlockUse::Open, BlockStream::Map, next)));
        self.zones.iter().flat_map(of_zone).chain(log)
    }

    /// Erased blocks that hold nothing.
    pub fn free_blocks(&self) -> u32 {
        self.pool.free_total()
    }

    /// Returns whether buffered data might find no space, so that no more may be accepted.
    pub fn is_short(&self) -> bool {
        self.reserve > 0 && self.pool.free_total() < self.reserve
    }

    /// Returns whether sectors of a zone need blocks that the zone would not get now: a protected buffer, which promises to keep its
    /// data, then refuses them. Concurrent writes to several zones may still compete for the last blocks.
    fn lacks_room(&self, zone: u32, first: u32, end: u32) -> bool {
        let (dies, rows) = (self.config.dies_per_zone, self.layout.superpages_per_block);
        let (first, end) = (first / self.superpage_sectors, end.div_ceil(self.superpage_sectors));
        // The last superpage of each column is enough to decide.
        let begins_block = |superpage: &u32| {
            let record = &self.zones[zone as usize].columns[(superpage % dies) as usize];
            let room = record.extents.last().map_or(0, |last| last.row + last.count + rows - record.next_at);
            superpage / dies >= room
        };
        let begun: Vec<u32> = (first.max(end.saturating_sub(dies))..end).filter(begins_block).collect();
        let needed = begun.len() as u32;
        begun.iter().any(|superpage| self.pool.free_count(self.die(zone, superpage % dies)) == 0)
            || (needed > 0 && self.pool.free_total() < self.reserve + needed)
    }

    /// Returns whether all closed zones may be opened.
    pub fn may_open_all(&self) -> bool {
        let closed = self.zones.iter().filter(|z| z.state == ZoneState::Closed).count() as u32;
        let implicit = self.zones.iter().filter(|z| z.state == ZoneState::ImplicitlyOpen).count() as u32;
        self.config.open_max == 0 || self.open - implicit + closed <= self.config.open_max
    }

    /// Die of a column. The dies of a zone go channel first, so that neighbours do not share a bus.
    pub(crate) fn die(&self, zone: u32, column: u32) -> DieId {
        let sets = self.layout.dies / self.config.dies_per_zone;
        let nth = zone % sets * self.config.dies_per_zone + column;
        let (channel, way) = (nth % self.layout.channels, nth / self.layout.channels);
        DieId(channel * self.layout.dies_per_channel + way)
    }

    /// Superpages of a zone.
    pub fn superpages(&self) -> u32 {
        self.layout.superpages_per_block * self.config.dies_per_zone
    }

    /// Takes the place for superpage `superpage` of a zone, the next of its column; `None`: the die has no block left, or only reserved
    /// ones.
    pub fn place(&mut self, zone: u32, superpage: u32) -> Option<Ppa> {
        let (column, row) = (superpage % self.config.dies_per_zone, superpage / self.config.dies_per_zone);
        let die = self.die(zone, column);
        let rows = self.layout.superpages_per_block;
        let record = &mut self.zones[zone as usize].columns[column as usize];
        if record.extents.is_empty() || record.next_at == rows {
            if self.reserve > 0 && self.pool.free_total() <= self.reserve {
                return None;
            }
            let block = self.pool.take(die)?;
            record.extents.push(Extent { row, block, at: 0, count: 0 });
            record.next_at = 0;
        }
        let last = record.extents.last_mut().expect("just made sure");
        let (block, at) = (last.block, record.next_at);
        record.next_at += 1;
        if last.goes_on(block, at, row) {
            last.count += 1;
        } else {
            // Superpages were lost in between: torn, or written and not counted.
            record.extents.push(Extent { row, block, at, count: 1 });
        }
        Some(self.layout.ppa(block, at * self.layout.units_per_superpage))
    }

    /// Records that a program in `block` failed, in a column of `zone` or in the log: the block accepts no more programs. The
    /// next [`Zones::place`] of each superpage that was planned there returns a place in another block.
    pub fn program_failed(&mut self, zone: u32, superpage: u32, block: BlockId) {
        self.pool.mark_failed(block);
        let column = &mut self.zones[zone as usize].columns[(superpage % self.config.dies_per_zone) as usize];
        if column.extents.last().is_some_and(|last| last.block == block) {
            column.next_at = self.layout.superpages_per_block;
        }
    }

    /// Records that data read at `ppa` in `zone` are close to being lost, or (`lost`) cannot be read. The host is told to reset the zone;
    /// the reset then retires the block of lost data. Returns the block that must not be erased again.
    pub fn distrust(&mut self, zone: u32, ppa: Ppa, lost: bool) -> Option<BlockId> {
        let block = self.layout.block_of(ppa);
        let rows = self.layout.superpages_per_block;
        let record = &mut self.zones[zone as usize];
        // The zone may have been reset since.
        let holds = |column: &Column| column.extents.iter().any(|extent| extent.block == block);
        let column = record.columns.iter_mut().find(|column| holds(column))?;
        let last = column.extents.last().is_some_and(|last| last.block == block);
        if !std::mem::replace(&mut record.reset_recommended, true) && !self.changed.contains(&zone) {
            self.changed.push(zone);
        }
        if !lost || self.pool.is_failed(block) {
            return None;
        }
        if last {
            column.next_at = rows;
        }
        self.pool.mark_failed(block);
        Some(block)
    }

    /// Records, as [`Zones::program_failed`], a failure in the log.
    pub fn log_failed(&mut self, block: BlockId) {
        self.pool.mark_failed(block);
        if self.log.is_some_and(|(log, _)| log == block) {
            self.log = None;
        }
    }

    /// Place of a written superpage.
    #[inline]
    pub fn locate(&self, zone: u32, superpage: u32) -> Option<Ppa> {
        let (column, row) = (superpage % self.config.dies_per_zone, superpage / self.config.dies_per_zone);
        let extents = &self.zones[zone as usize].columns[column as usize].extents;
        let extent = extents.iter().rev().find(|e| e.row <= row && row < e.row + e.count)?;
        let at = extent.at + (row - extent.row);
        Some(self.layout.ppa(extent.block, at * self.layout.units_per_superpage))
    }

    /// Returns whether a superpage of `zone` was meant to be where `ppa` is, and the zone has not been reset since.
    pub fn holds(&self, zone: u32, ppa: Ppa) -> bool {
        let (block, superpage) = (self.layout.block_of(ppa), self.layout.superpage_of(ppa));
        let covers = |extent: &Extent| {
            extent.block == block && extent.at <= superpage && superpage < extent.at + extent.count
        };
        self.zones[zone as usize].columns.iter().any(|column| column.extents.iter().any(covers))
    }

    /// The next block of a zone to be erased by a reset. The first holds superpage 0 and must be erased before the others, so that a
    /// reset interrupted by a power cut has happened, or has not.
    pub fn reset_next(&mut self, zone: u32) -> Option<BlockId> {
        let columns = &mut self.zones[zone as usize].columns;
        let column = columns.iter_mut().find(|column| !column.extents.is_empty())?;
        let block = column.extents.first().expect("not empty").block;
        column.extents.retain(|extent| extent.block != block);
        column.next_at = self.layout.superpages_per_block;
        Some(block)
    }

    /// Records that a block that belonged to a zone, or to the log, is erased, or is bad.
    pub fn erased(&mut self, block: BlockId, ok: bool, erases: u32) {
        self.pool.set_erases(block, erases);
        if ok { self.pool.give(block) } else { self.pool.retire(block) }
    }

    /// Returns whether a block must be retired instead of erased.
    pub fn is_failed(&self, block: BlockId) -> bool {
        self.pool.is_failed(block)
    }

    /// Ends a reset: all blocks of the zone are erased.
    pub fn reset_end(&mut self, zone: u32) {
        let record = &mut self.zones[zone as usize];
        (record.pointer, record.data, record.held, record.reset_recommended) = (0, 0, false, false);
        record.columns.iter_mut().for_each(|column| *column = Column::default());
        self.set_state(zone, ZoneState::Empty);
    }

    /// Ends a finish: the mark of the zone is on the media.
    pub fn finish_end(&mut self, zone: u32) {
        let record = &mut self.zones[zone as usize];
        record.data = record.pointer;
        record.held = false;
        self.set_state(zone, ZoneState::Full);
    }

    /// Fails a zone because of its media: it becomes read-only, or, if it holds nothing, offline.
    pub fn fail(&mut self, zone: u32) {
        let record = &mut self.zones[zone as usize];
        record.held = false;
        // An offline zone stays offline, whatever else happens to it.
        let gone = record.pointer == 0 || record.state == ZoneState::Offline;
        let state = if gone { ZoneState::Offline } else { ZoneState::ReadOnly };
        self.set_state(zone, state);
        if !self.changed.contains(&zone) {
            self.changed.push(zone);
        }
    }

    /// Ends an offline action: the zone is out of use, as the host wanted.
    pub fn offline_end(&mut self, zone: u32) {
        self.zones[zone as usize].held = false;
        self.set_state(zone, ZoneState::Offline);
    }

    /// Ends an offline action that could not be recorded.
    pub fn offline_refused(&mut self, zone: u32) {
        self.zones[zone as usize].held = false;
    }

    /// Zones whose descriptors have changed without a command, and that were not taken.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Takes the next zone whose descriptor has changed without a command.
    #[inline]
    pub fn pop_changed(&mut self) -> Option<u32> {
        (!self.changed.is_empty()).then(|| self.changed.remove(0))
    }

    /// A sequence number for a program.
    pub fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Number of this mount.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Takes the place of the next superpage of the staging log; the second value is true when it begins a new block. `None`: no block is
    /// left, or only reserved ones, which are for data alone.
    pub fn log_place(&mut self, data: bool) -> Option<(Ppa, bool)> {
        let fresh = self.log.is_none_or(|(_, at)| at == self.layout.superpages_per_block);
        if fresh {
            if !data && self.is_short() {
                return None;
            }
            let dies = self.layout.dies;
            let start = self.log_die;
            let block = (0..dies).find_map(|i| self.pool.take(DieId((start + i) % dies)))?;
            self.log_die = self.layout.die_of_block(block).0 + 1;
            self.log = Some((block, 0));
        }
        let (block, at) = self.log.expect("just made sure");
        self.log = Some((block, at + 1));
        Some((self.layout.ppa(block, at * self.layout.units_per_superpage), fresh))
    }

    /// Closes the current block of the log, which continues in another block.
    pub fn log_close(&mut self) {
        self.log = None;
    }

    /// Bytes of memory that a drive would need for its zones.
    pub fn memory_bytes(&self) -> u64 {
        let columns = self.zones.len() * self.config.dies_per_zone as usize * size_of::<Column>();
        let extents: usize = self.zones.iter().flat_map(|z| &z.columns).map(|c| c.extents.len()).sum();
        (self.zones.len() * size_of::<Zone>() + columns + extents * size_of::<Extent>()) as u64
            + self.pool.memory_bytes()
    }

    /// Walks every invariant and panics, naming it, where one is broken.
    pub fn check(&self) {
        self.pool.check();
        let count =
            |which: fn(ZoneState) -> bool| self.zones.iter().filter(|z| which(z.state)).count() as u32;
        assert_eq!(count(Zones::is_open), self.open, "open zones");
        assert_eq!(count(Zones::is_active), self.active, "active zones");
        assert!(self.config.open_max == 0 || self.open <= self.config.open_max, "too many open zones");
        for (number, zone) in self.zones.iter().enumerate() {
            assert!(u64::from(zone.pointer) <= self.geometry.capacity_sectors, "zone {number}: {zone:?}");
            let idle = zone.state == ZoneState::Empty && !zone.held;
            let bare = zone.columns.iter().all(|column| column.extents.is_empty());
            assert!(!idle || (zone.pointer == 0 && bare), "empty zone {number} holds something: {zone:?}");
        }
    }
}
