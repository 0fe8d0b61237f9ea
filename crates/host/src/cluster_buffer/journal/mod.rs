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
//! - A flush is answered when the data that left the buffer are durable ([`Phase::Flushing`]), followed by a
//!   forced record that names all the rest. So a cluster loses its name only when the drive has it durably.
//! - Only one record is under way. A torn one is ignored, and the one before it is valid. A torn record after
//!   the newest cannot be told from one that was durable and then damaged; the start reports that it exists.
//! - Each record names the durable one before it. If one is missing between the first needed and the newest,
//!   the start refuses.
//! - A record is overwritten only when the newest durable record no longer needs it. Space for a record
//!   without sectors is always left.
//! - A trim or a write of zeros takes its clusters out of the journal. Their remaining sectors are journalled
//!   again by the next flush, perhaps in several records; the clusters stay named until then. A forced write
//!   is a write and a flush.

mod cost;
mod flush;
mod record;
mod start;

pub use record::JournalHead;

use super::{ClusterBuffer, ClusterBufferError};
use cost::Costs;
use pellucid_flash::SimTime;
use pellucid_setting::{Settings, Word};
use record::{ENTRY_BYTES, FIXED_BYTES, Record};
use start::Start;

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
    /// Cluster buffer, strict: ring at the end of the drive into which a flush may write; its size is taken from what the buffer offers.
    #[setting(key = "journal", kind = size(1 << 10, 1 << 40), or = "none")]
    pub ring_bytes: Option<u64>,
    /// Cluster buffer: records of the journal begin and end at multiples of this, best what the drive programs at once.
    #[setting(key = "journal_unit", kind = size(512, 1 << 31), default = 16 << 10)]
    pub unit_bytes: u32,
    /// Cluster buffer: a flush journals when that has been cheaper so far than to drain, or always.
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

/// Validity of a cluster's data in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// Valid: the buffer has the same sectors, or newer ones.
    Yes,
    /// The drive has the sectors, but not yet durably.
    Left,
    /// The sectors left the buffer before the flush under way.
    Sealed,
}

/// Cluster with data in the journal.
#[derive(Clone, Copy, Debug)]
struct Named {
    cluster: u64,
    /// First record that is valid for the cluster; it begins at `unit`.
    since: u64,
    unit: u32,
    counts: Counts,
}

/// Path of clusters with few sectors in the buffer, for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Drain,
    Journal,
}

/// Progress of a group of flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Clusters that are not for the journal leave the buffer.
    #[default]
    Gathering,
    /// The drive is flushed, which makes their data durable.
    Flushing { barrier: u64, flushes: usize },
    /// A record is being written.
    Appending { barrier: u64, flushes: usize },
}

/// State of a journal.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    config: JournalConfig,
    region: Region,
    id: u64,
    /// Number of the newest durable record.
    newest: u64,
    /// Number of the next record.
    sequence: u64,
    /// Unit at which the next record may begin.
    next: u32,
    /// Unit of the oldest record that the newest durable one needs, itself included.
    tail: u32,
    named: Vec<Named>,
    /// Names that the record under way replaces, because it has all valid data of their clusters.
    replaced: Vec<Named>,
    /// The newest durable record names clusters that are no longer valid.
    stale: bool,
    phase: Phase,
    /// Path of the current group; `None` until it is chosen.
    way: Option<Way>,
    /// Record under way; it has sectors of `written` clusters, and was sent at `sent`.
    under_way: Record,
    written: usize,
    sent: SimTime,
    buffer: Vec<u8>,
    costs: Costs,
    start: Start,
    /// Requests that arrived before the end of the start.
    early: Vec<u32>,
}

impl Journal {
    pub fn new(config: JournalConfig, region: Region) -> Journal {
        Journal {
            config,
            region,
            id: config.make.unwrap_or(0),
            newest: 0,
            sequence: 1,
            next: 0,
            tail: 0,
            named: Vec::new(),
            replaced: Vec::new(),
            stale: false,
            phase: Phase::Gathering,
            way: None,
            under_way: Record::default(),
            written: 0,
            sent: SimTime::ZERO,
            buffer: Vec::new(),
            costs: Costs::default(),
            start: Start::default(),
            early: Vec::new(),
        }
    }

    /// Returns the units between the tail and the next record. A newest record always exists, so a distance
    /// of zero means the whole ring.
    fn used(&self) -> u32 {
        match (self.next + self.region.units - self.tail) % self.region.units {
            0 => self.region.units,
            used => used,
        }
    }

    /// Returns the unit where a record of `units` units would begin; `None` if there is no space for it.
    fn place(&self, units: u32) -> Option<u32> {
        let wraps = self.next + units > self.region.units;
        let skipped = if wraps { self.region.units - self.next } else { 0 };
        let fits = self.used() + skipped + units <= self.region.units;
        fits.then_some(if wraps { 0 } else { self.next })
    }

    /// Reports whether a record with sectors might take the space reserved for a record without.
    fn is_short(&self) -> bool {
        self.used() + 2 * (self.region.largest + self.region.reserve) > self.region.units
    }

    /// Reports whether more than half of the ring is in use; then its oldest clusters leave the buffer.
    fn is_pressed(&self) -> bool {
        self.used() > self.region.units / 2
    }

    /// Reports whether this cluster occupies the oldest part of a ring under pressure.
    pub fn presses(&self, cluster: u64) -> bool {
        let units = self.region.units;
        let far = |named: &Named| (self.next + units - named.unit) % units > units / 4;
        self.is_pressed()
            && self
                .named
                .iter()
                .any(|named| named.cluster == cluster && named.counts == Counts::Yes && far(named))
    }

    /// Notes that a cluster left the buffer, or that the drive has newer data of it. Returns whether the
    /// journal had valid data of it.
    pub fn left(&mut self, cluster: u64) -> bool {
        let counting =
            self.named.iter_mut().find(|named| named.cluster == cluster && named.counts == Counts::Yes);
        counting.map(|named| named.counts = Counts::Left).is_some()
    }

    /// Reports whether a start might bring back older data of these clusters: a durable record names one, or may.
    pub fn brings_back(&self, first: u64, last: u64) -> bool {
        let is_in = |named: &Named| (first..=last).contains(&named.cluster);
        self.stale || self.named.iter().chain(&self.replaced).any(is_in)
    }

    fn counts(&self, cluster: u64) -> bool {
        self.named.iter().any(|named| named.cluster == cluster && named.counts == Counts::Yes)
    }

    /// Moves the sealed names of a cluster to the replaced ones, because the next record has all its valid
    /// data.
    fn replace(&mut self, cluster: u64) {
        let is_sealed = |named: &mut Named| named.cluster == cluster && named.counts == Counts::Sealed;
        self.replaced.extend(self.named.extract_if(.., is_sealed));
    }

    /// Makes the record that names everything, beginning at `unit`.
    fn record(&self, unit: u32, units: u32, header_sectors: u32, extents: Vec<(u64, u64)>) -> Record {
        let named = self.named.iter().map(|named| (named.cluster, named.since)).collect();
        Record { sequence: self.sequence, before: self.newest, unit, units, header_sectors, named, extents }
    }

    /// Notes that a record with all current names is durable.
    fn appended(&mut self, sequence: u64, unit: u32) {
        (self.newest, self.stale) = (sequence, false);
        let oldest = self.named.iter().min_by_key(|named| named.since);
        self.tail = oldest.map_or(unit, |named| named.unit);
    }

    /// Returns the clusters with valid data in the journal.
    pub fn clusters(&self) -> impl Iterator<Item = u64> {
        self.named.iter().filter(|named| named.counts == Counts::Yes).map(|named| named.cluster)
    }

    /// Returns the bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        ((self.named.capacity() + self.replaced.capacity()) * size_of::<Named>()) as u64
    }

    pub fn is_ready(&self) -> bool {
        self.start.is_ready()
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

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self, has_journalled: impl Fn(u64) -> Option<bool>) {
        for named in &self.named {
            let twin = |other: &&Named| other.cluster == named.cluster && other.counts == Counts::Yes;
            assert!(self.named.iter().filter(twin).count() <= 1, "cluster {} counts twice", named.cluster);
            assert!(named.since < self.sequence, "cluster {} since a record to come", named.cluster);
            if named.counts == Counts::Yes {
                assert!(
                    has_journalled(named.cluster).is_some(),
                    "cluster {} counts, and is not there",
                    named.cluster
                );
            }
        }
        assert!(
            self.newest < self.sequence && self.next < self.region.units && self.used() <= self.region.units
        );
        // Records that the newest one needs are not overwritten.
        for named in self.named.iter().filter(|named| named.since <= self.newest) {
            let from_tail = (named.unit + self.region.units - self.tail) % self.region.units;
            assert!(
                from_tail < self.used(),
                "record {} of cluster {} is not kept",
                named.since,
                named.cluster
            );
        }
    }
}

impl ClusterBuffer {
    /// Reports whether the drive keeps data, and not only stamps.
    pub(super) fn keeps_content(&self) -> bool {
        self.image_bytes == self.config.sector_bytes as usize
    }

    /// Returns a cleared buffer for a record.
    fn journal_buffer(&mut self, sectors: usize) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.journal.as_mut().expect("a journal").buffer);
        buffer.clear();
        buffer.resize(sectors * self.image_bytes, 0);
        buffer
    }
}
