//! Journal: a region at the end of the device where a flush may write sequentially instead of making many
//! small writes.
//!
//! ```text
//!   device   │ the host's sectors, whole clusters        │ ring of records, in units          │ … │ head │ … │ head, the last sector │
//!   ring     │ … │ record 7 │ record 8 (newest) │ free … │ record 5 │ record 6 │
//! ```
//! Both heads are identical, and one is enough. They lie a MiB apart, or less on a small device, so that one
//! spot of poor flash does not destroy both.
//!
//! A record has sectors of the buffer, and the name of every cluster with valid data in the journal. Its
//! sectors stay in the buffer, and are evicted like all others. A start writes back the data that the newest
//! record names, in order.
//!
//! Guarantees:
//! - A flush is answered when the data that left the buffer are durable (the group is *flushing*) and a forced
//!   record that names all the rest has been written. So a cluster loses its name only when the drive has it
//!   durably.
//! - Only one record is in flight. A torn record is ignored, and the previous one is valid. A torn record
//!   after the newest cannot be distinguished from a durable one that was damaged later; the start reports
//!   that it exists.
//! - Each record names the durable one before it. If one is missing between the first needed and the newest,
//!   the start refuses.
//! - A record is overwritten only when the newest durable record no longer needs it. Space for a record
//!   without sectors is always left.
//! - A trim or a write of zeros takes its clusters out of the journal. The next flush journals their remaining
//!   sectors again, possibly in several records; the clusters stay named until then. A forced write is a write
//!   and a flush.

//!
//! The [`Ring`] owns the space and numbers of records, the [`Names`] the set of journalled clusters, the [`Group`] the progress of current
//! flushes, and the [`JournalStart`] the findings of a start. The [`Journal`] wires them; the paths of the buffer (`paths/group.rs`,
//! `paths/start.rs`) send the commands.

mod cost;
mod group;
mod names;
mod record;
mod ring;
mod start;

pub(super) use group::Flushes;
pub use record::JournalHead;
pub(super) use start::Effect;

use super::ClusterBufferError;
use cost::Way;
use group::Group;
use names::Names;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, SimTime};
use pellucid_setting::{Settings, Word};
use record::{ENTRY_BYTES, FIXED_BYTES};
use ring::Ring;
use start::{JournalStart, Sizes};

/// Condition for a flush to write into the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::VariantNames, strum::EnumString, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum JournalUse {
    /// The journal has been cheaper so far, as measured, than draining the same clusters.
    #[default]
    Cheaper,
    /// The journal has space.
    Always,
}

/// Configuration of a journal on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Bytes of a unit. Records begin and end at units. The best size is that of one program operation of the
    /// drive, which then never has to pad or merge.
    pub unit_bytes: u32,
    /// Condition for a flush to use the journal.
    pub usage: JournalUse,
    /// Id of a journal to make if there is none; `None`: a device without a journal is refused.
    pub make: Option<u64>,
}

/// Keys that decide on the journal together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct JournalSettings {
    /// Cluster buffer, strict: ring at the end of the drive into which a flush may write; the buffer offers less capacity by its size.
    #[setting(key = "journal", kind = size(1 << 10, 1 << 40), or = "none")]
    pub ring_bytes: Option<u64>,
    /// Cluster buffer: records of the journal begin and end at multiples of this; best the size of one program operation of the drive.
    #[setting(key = "journal_unit", kind = size(512, 1 << 31), default = 16 << 10)]
    pub unit_bytes: u32,
    /// Cluster buffer: a flush uses the journal if its mean cost so far is below that of draining (cheaper), or whenever there is space
    /// (always). With cheaper, every 64th flush tries the other way.
    ///
    /// The trials cost time: sequential writes that are each flushed may be a tenth slower than without a journal.
    #[setting(key = "journal_use", default = "cheaper")]
    pub usage: JournalUse,
}

impl From<JournalSettings> for Option<JournalConfig> {
    /// A device without a journal is refused.
    fn from(JournalSettings { ring_bytes, unit_bytes, usage }: JournalSettings) -> Option<JournalConfig> {
        ring_bytes.map(|ring_bytes| JournalConfig { ring_bytes, unit_bytes, usage, make: None })
    }
}

/// Place of the journal on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Sectors of both heads: the last sector, and an earlier one.
    pub heads: [u64; 2],
    /// First sector of the ring.
    pub ring: u64,
    pub units: u32,
    pub unit_sectors: u32,
    /// Units in the largest record.
    pub largest: u32,
    /// Units in the largest record without sectors.
    pub reserve: u32,
}

impl Region {
    /// Returns the region at the end of a device with `sectors` sectors, for a buffer of `slots` clusters.
    pub fn new(
        config: &JournalConfig,
        sectors: u64,
        sector_bytes: u32,
        cluster_sectors: u32,
        slots: u64,
    ) -> Result<Region, ClusterBufferError> {
        let JournalConfig { ring_bytes, unit_bytes, .. } = *config;
        let unit_sectors = unit_bytes / sector_bytes;
        if unit_sectors == 0 || !unit_bytes.is_multiple_of(sector_bytes) {
            return Err(ClusterBufferError::JournalUnit { unit_bytes, sector_bytes });
        }
        // Each cluster is named once, and a second time while it waits for the flush that ends its name.
        let header = (FIXED_BYTES + 2 * slots as usize * ENTRY_BYTES).div_ceil(sector_bytes as usize) as u64;
        let extents = (cluster_sectors as usize * ENTRY_BYTES).div_ceil(sector_bytes as usize) as u64;
        let reserve = header.div_ceil(unit_sectors.into());
        let largest = (header + extents + u64::from(cluster_sectors)).div_ceil(unit_sectors.into());
        let units = (ring_bytes / u64::from(unit_bytes)).min(u32::MAX.into());
        let least = 8 * (largest + reserve);
        let size = u64::from(cluster_sectors);
        let heads = JournalHead::sectors(sectors, sector_bytes);
        let ring = heads[1].checked_sub(units * u64::from(unit_sectors)).map(|at| at / size * size);
        match ring {
            Some(ring) if ring > 0 && units >= least => Ok(Region {
                heads,
                ring,
                units: units as u32,
                unit_sectors,
                largest: largest as u32,
                reserve: reserve as u32,
            }),
            _ => Err(ClusterBufferError::Journal {
                bytes: ring_bytes,
                least: least * u64::from(unit_bytes),
                drive_bytes: sectors * u64::from(sector_bytes),
            }),
        }
    }

    /// Returns the first sector of a unit.
    fn sector(&self, unit: u32) -> u64 {
        self.ring + u64::from(unit) * u64::from(self.unit_sectors)
    }
}

/// Cluster with sectors that a flush has to make durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub slot: u32,
    pub cluster: u64,
}

/// Record to be written: its place, and its data, in which the sectors begin at byte `from`.
#[derive(Debug)]
pub(super) struct Draft {
    pub lba: Lba,
    pub sectors: u32,
    pub data: Vec<u8>,
    pub from: usize,
}

/// End of the write of a record.
#[derive(Debug)]
pub(super) struct Appended {
    pub flushes: Flushes,
    /// First sectors of what the record had, if it failed.
    pub failed: Option<Vec<u64>>,
}

/// Journal of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    config: JournalConfig,
    sizes: Sizes,
    ring: Ring,
    names: Names,
    group: Group,
    start: JournalStart,
    /// Requests that arrived before the end of the start.
    early: Vec<u32>,
    buffer: Vec<u8>,
}

impl Journal {
    pub fn new(
        config: JournalConfig,
        region: Region,
        sector_bytes: u32,
        image_bytes: usize,
        cluster_sectors: u32,
    ) -> Journal {
        Journal {
            config,
            sizes: Sizes { sector_bytes, image_bytes, cluster_sectors },
            ring: Ring::new(config.make.unwrap_or(0), region),
            names: Names::default(),
            group: Group::new(),
            start: JournalStart::default(),
            early: Vec::new(),
            buffer: Vec::new(),
        }
    }

    // ---- clusters

    /// Reports whether this cluster occupies the oldest part of a ring under pressure.
    pub fn presses(&self, cluster: u64) -> bool {
        self.names.counts_at(cluster, |unit| self.ring.presses(unit))
    }

    /// Reports whether a start might bring back older data of these clusters: a durable record names one, or may.
    pub fn brings_back(&self, first: u64, last: u64) -> bool {
        self.names.brings_back(first, last)
    }

    /// Notes that a cluster left the buffer in an eviction that took so long. `hurried`: a flush waited for its few sectors; `asked`: a
    /// command came meanwhile, for an eviction in idle time delays none.
    pub fn evicted(&mut self, cluster: u64, took: Nanos, hurried: bool, asked: bool) {
        if hurried {
            self.group.drained(took);
        }
        if self.names.left(cluster) && !hurried && asked {
            self.group.retired(took);
        }
    }

    /// Takes clusters of which the drive has newer data out of the journal; returns them.
    pub fn take_out(&mut self, first: u64, last: u64) -> Vec<u64> {
        let numbers: Vec<u64> =
            self.names.clusters().filter(|cluster| (first..=last).contains(cluster)).collect();
        for &number in &numbers {
            let counted = self.names.left(number);
            assert!(counted, "a cluster is taken out that the journal lacks");
        }
        numbers
    }

    // ---- groups of flushes

    /// Reports whether the path of the group is to be chosen.
    pub fn may_choose(&self) -> bool {
        self.group.may_choose()
    }

    /// Chooses the path of the group, which has `clusters` small clusters with `sectors` sectors in all.
    pub fn choose(&mut self, clusters: u32, sectors: u32) {
        let header =
            record::header_sectors(self.names.len() + clusters as usize, self.sizes.sector_bytes as usize);
        let units = (header + sectors).div_ceil(self.ring.region().unit_sectors);
        let way = match self.config.usage {
            _ if self.ring.is_short() => Way::Drain,
            JournalUse::Always => Way::Journal,
            // There is no cluster to choose a path for.
            JournalUse::Cheaper if clusters == 0 => Way::Journal,
            JournalUse::Cheaper => self.group.cheaper(clusters, units),
        };
        self.group.choose(way);
    }

    /// Reports whether the group journals its small clusters.
    pub fn journals(&self) -> bool {
        self.group.journals()
    }

    /// Reports whether a cluster whose oldest unsafe write is `oldest` must stay in the buffer, because the group makes it durable.
    pub fn pins(&self, oldest: u64) -> bool {
        self.group.pins(oldest)
    }

    /// Reports whether a group may be flushed.
    pub fn is_gathering(&self) -> bool {
        self.group.is_gathering()
    }

    /// Reports whether space for a record with sectors may be lacking.
    pub fn is_short(&self) -> bool {
        self.ring.is_short()
    }

    /// Begins the flush of the drive for a group.
    pub fn flush(&mut self, flushes: Flushes) {
        self.names.seal();
        self.group.flush(flushes);
    }

    /// Notes that the drive was flushed, or failed to; returns the flushes of the group. `is_due` tells of which clusters sectors are journalled again.
    pub fn flushed(&mut self, ok: bool, is_due: impl Fn(u64, Flushes) -> bool) -> Flushes {
        let flushes = self.group.flushed();
        match ok {
            true => self.names.end_sealed(self.ring.newest(), |cluster| is_due(cluster, flushes)),
            false => self.names.unseal(),
        }
        flushes
    }

    /// Reports whether the newest durable record names clusters that are no longer valid.
    pub fn is_stale(&self) -> bool {
        self.names.is_stale()
    }

    /// Places a record with `sectors` sectors of the due clusters, in `extents`.
    pub fn place(&mut self, due: &[Due], sectors: u32, extents: Vec<(u64, u64)>, now: SimTime) -> Draft {
        let bytes = self.sizes.sector_bytes as usize;
        due.iter().for_each(|due| self.names.replace(due.cluster));
        let fresh = due.iter().filter(|due| !self.names.counts(due.cluster)).count();
        let header = record::header_sectors(self.names.len() + fresh + extents.len(), bytes);
        let region = self.ring.region();
        let units = (header + sectors).div_ceil(region.unit_sectors);
        let unit = self.ring.place(units).expect("space for a record is kept");
        due.iter().for_each(|due| self.names.add(due.cluster, self.ring.sequence(), unit));
        let record = self.ring.take(unit, units, header, self.names.list(), extents);
        self.group.append(record, due.len(), now);
        let total = units * region.unit_sectors;
        let mut data = std::mem::take(&mut self.buffer);
        data.clear();
        data.resize(total as usize * self.sizes.image_bytes, 0);
        let from = header as usize * self.sizes.image_bytes;
        Draft { lba: Lba(region.sector(unit)), sectors: total, data, from }
    }

    /// Makes the command of a record whose sectors are in the draft.
    pub fn seal(&self, Draft { lba, sectors, mut data, .. }: Draft) -> Command {
        if self.sizes.keeps_content() {
            self.group.record().seal(self.ring.id(), &mut data);
        }
        Command { fua: true, ..Command::new(0, Opcode::Write, lba, sectors, data) }
    }

    /// Ends the write of a record.
    pub fn appended(&mut self, data: Vec<u8>, ok: bool, now: SimTime) -> Appended {
        self.buffer = data;
        let (record, flushes) = self.group.appended(ok, now);
        if ok {
            self.names.recorded();
            self.ring.appended(&record, self.names.oldest_unit());
            return Appended { flushes, failed: None };
        }
        self.ring.skip(record.unit);
        self.names.undo(record.sequence);
        Appended { flushes, failed: Some(record.extents.into_iter().map(|(first, _)| first).collect()) }
    }

    /// Gathers clusters again, for what is left of a group or for the next one.
    pub fn gather(&mut self) {
        self.group.gather();
    }

    // ---- start

    /// Begins the start, if it has not begun.
    pub fn begin_start(&mut self) -> Effect {
        self.start.begin(&mut self.ring, self.config.make.is_some(), self.sizes)
    }

    /// Continues the start after one of its commands.
    pub fn start_goes_on(&mut self, completion: Completion) -> Effect {
        self.start.go_on(&mut self.ring, completion)
    }

    pub fn is_ready(&self) -> bool {
        self.start.is_ready()
    }

    /// Lets a request wait for the end of the start.
    pub fn wait(&mut self, op: u32) {
        self.early.push(op);
    }

    /// Removes and returns the requests that have waited.
    pub fn take_early(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.early)
    }

    pub fn failure(&self) -> Option<String> {
        self.start.failure()
    }

    /// Returns the number of sectors that the start wrote back.
    pub fn replayed(&self) -> u64 {
        self.start.replayed()
    }

    /// Reports whether the start made the journal.
    pub fn has_made(&self) -> bool {
        self.start.has_made()
    }

    /// Reports whether the start found a torn or damaged record after the newest.
    pub fn is_torn(&self) -> bool {
        self.start.is_torn()
    }

    // ---- checks

    /// Returns the bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        self.names.memory_bytes()
    }

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self, has_journalled: impl Fn(u64) -> Option<bool>) {
        let needed = self.names.check(self.ring.newest(), self.ring.sequence(), has_journalled);
        self.ring.check(needed);
    }
}
