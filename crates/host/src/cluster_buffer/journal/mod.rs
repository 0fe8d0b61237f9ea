//! The journal: a region at the end of the device into which a flush may write, in order, what would otherwise be many small writes.
//!
//! ```text
//!   device   │ the host's sectors, whole clusters        │ ring of records, in units          │ … │ head │ … │ head, the last sector │
//!   ring     │ … │ record 7 │ record 8 (newest) │ free … │ record 5 │ record 6 │
//! ```
//! Both heads say the same, and one is enough. The first is a MiB before the other, or a part of a small device, so that
//! one spot of poor flash does not take both.
//!
//! A record has sectors of the buffer, and the name of every cluster of which the journal has something that counts. Its sectors stay in
//! the buffer, and are evicted as all others. A start writes back what the newest record names, in order.
//!
//! What holds:
//! - A flush is answered when what left the buffer is durable ([`Phase::Flushing`]), and then a record, forced, that names all the rest. So
//!   a cluster is named no more only when the drive has it for good.
//! - Only one record is under way. A torn one does not count, and the one before it says what holds. That one behind the newest is torn, and
//!   not damaged after it was durable, nobody can tell: the start says that it is there.
//! - Each record names the durable one before it. Where one is missing from the first that is needed to the newest the start refuses.
//! - A record is overwritten only when the newest durable record needs it no more. Space for a record without sectors is always left.
//! - A trim or a write of zeros takes its clusters out of the journal: the next flush journals again what is left of them, and they are named
//!   until the record that has it, of several perhaps. A forced write is a write and a flush.

mod cost;
mod flush;
mod record;
mod start;

pub use record::JournalHead;

use super::{ClusterBuffer, ClusterBufferError};
use cost::Costs;
use pellucid_flash::SimTime;
use record::{ENTRY_BYTES, FIXED_BYTES, Record};
use start::Start;

/// When a flush writes into the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::VariantNames, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum JournalUse {
    /// When it has been cheaper so far than to drain the same clusters, as measured.
    #[default]
    Cheaper,
    /// Whenever there is space in it.
    Always,
}

/// A journal on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Bytes of a unit. Records begin and end at units: best what the drive programs at once, so that it never has to fill up or merge.
    pub unit_bytes: u32,
    /// When a flush uses it.
    pub usage: JournalUse,
    /// Makes a journal with this id where there is none; `None`: a device without one is refused.
    pub make: Option<u64>,
}

/// Where it is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Both heads: the last sector, and the one before it.
    pub heads: [u64; 2],
    /// First sector of the ring.
    pub ring: u64,
    pub units: u32,
    pub unit_sectors: u32,
    /// Units of the largest record.
    pub largest: u32,
    /// Units of the largest record without sectors.
    pub reserve: u32,
}

impl Region {
    /// The region at the end of a device of so many sectors, for a buffer of `slots` clusters.
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
        // Each cluster is named once, and once more while it waits for the flush after which it is not.
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

    /// First sector of a unit.
    fn sector(&self, unit: u32) -> u64 {
        self.ring + u64::from(unit) * u64::from(self.unit_sectors)
    }
}

/// Whether what the journal has of a cluster still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// The buffer has the same sectors, or newer ones.
    Yes,
    /// The drive has them, not yet for good.
    Left,
    /// They left before the flush that is under way.
    Sealed,
}

/// A cluster of which the journal has something.
#[derive(Clone, Copy, Debug)]
struct Named {
    cluster: u64,
    /// The first record that counts for it, and where that begins.
    since: u64,
    unit: u32,
    counts: Counts,
}

/// What a flush does with clusters of which the buffer has little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Drain,
    Journal,
}

/// How far a group of flushes is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// What is not for the journal leaves the buffer.
    #[default]
    Gathering,
    /// What left becomes durable.
    Flushing { barrier: u64, flushes: usize },
    /// A record is written.
    Appending { barrier: u64, flushes: usize },
}

/// A journal in use.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    config: JournalConfig,
    region: Region,
    id: u64,
    /// Number of the newest durable record.
    newest: u64,
    /// Number of the next record.
    sequence: u64,
    /// Where it may begin.
    next: u32,
    /// Where the first record begins that the newest durable one needs, itself included.
    tail: u32,
    named: Vec<Named>,
    /// Names that the record under way replaces: it has all that counts of their clusters.
    replaced: Vec<Named>,
    /// The newest durable record names clusters that do not count any more.
    stale: bool,
    phase: Phase,
    /// `None`: not decided yet.
    way: Option<Way>,
    /// The record under way, the clusters that it has sectors of, and when it was sent.
    under_way: Record,
    written: usize,
    sent: SimTime,
    buffer: Vec<u8>,
    costs: Costs,
    start: Start,
    /// Requests that came before the start had ended.
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

    /// Units between the tail and the next record. There is always a newest record, so none means all.
    fn used(&self) -> u32 {
        match (self.next + self.region.units - self.tail) % self.region.units {
            0 => self.region.units,
            used => used,
        }
    }

    /// Where a record of so many units would begin; `None`: there is no space for it.
    fn place(&self, units: u32) -> Option<u32> {
        let wraps = self.next + units > self.region.units;
        let skipped = if wraps { self.region.units - self.next } else { 0 };
        let fits = self.used() + skipped + units <= self.region.units;
        fits.then_some(if wraps { 0 } else { self.next })
    }

    /// Whether a record with sectors might take what a record without needs.
    fn is_short(&self) -> bool {
        self.used() + 2 * (self.region.largest + self.region.reserve) > self.region.units
    }

    /// Whether more than half of the ring is in use: its oldest clusters leave the buffer.
    fn is_pressed(&self) -> bool {
        self.used() > self.region.units / 2
    }

    /// Whether this cluster keeps the oldest of a ring that is pressed.
    pub fn presses(&self, cluster: u64) -> bool {
        let units = self.region.units;
        let far = |named: &Named| (self.next + units - named.unit) % units > units / 4;
        self.is_pressed()
            && self
                .named
                .iter()
                .any(|named| named.cluster == cluster && named.counts == Counts::Yes && far(named))
    }

    /// The cluster left the buffer, or something newer of it is on the drive. Whether the journal had something of it.
    pub fn left(&mut self, cluster: u64) -> bool {
        let counting =
            self.named.iter_mut().find(|named| named.cluster == cluster && named.counts == Counts::Yes);
        counting.map(|named| named.counts = Counts::Left).is_some()
    }

    fn counts(&self, cluster: u64) -> bool {
        self.named.iter().any(|named| named.cluster == cluster && named.counts == Counts::Yes)
    }

    /// The record that is being made has all that counts of this cluster, of which something sealed is named.
    fn replace(&mut self, cluster: u64) {
        let is_sealed = |named: &mut Named| named.cluster == cluster && named.counts == Counts::Sealed;
        self.replaced.extend(self.named.extract_if(.., is_sealed));
    }

    /// The record that names everything, beginning at `unit`.
    fn record(&self, unit: u32, units: u32, header_sectors: u32, extents: Vec<(u64, u64)>) -> Record {
        let named = self.named.iter().map(|named| (named.cluster, named.since)).collect();
        Record { sequence: self.sequence, before: self.newest, unit, units, header_sectors, named, extents }
    }

    /// A record with everything named now is durable.
    fn appended(&mut self, sequence: u64, unit: u32) {
        (self.newest, self.stale) = (sequence, false);
        let oldest = self.named.iter().min_by_key(|named| named.since);
        self.tail = oldest.map_or(unit, |named| named.unit);
    }

    /// Clusters of which the journal has something that counts.
    pub fn clusters(&self) -> impl Iterator<Item = u64> {
        self.named.iter().filter(|named| named.counts == Counts::Yes).map(|named| named.cluster)
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        ((self.named.capacity() + self.replaced.capacity()) * size_of::<Named>()) as u64
    }

    pub fn is_ready(&self) -> bool {
        self.start.is_ready()
    }

    pub fn failure(&self) -> Option<String> {
        self.start.failure()
    }

    /// Sectors that the start wrote back.
    pub fn replayed(&self) -> u64 {
        self.start.replayed()
    }

    /// Whether the start found a record behind the newest that a power cut tore, or that is damaged.
    pub fn is_torn(&self) -> bool {
        self.start.is_torn()
    }

    /// Walks every invariant and panics where one is broken.
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
        // What the newest record needs is not overwritten.
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
    /// Whether the drive keeps what is written, and not only stamps.
    pub(super) fn keeps_content(&self) -> bool {
        self.image_bytes == self.config.sector_bytes as usize
    }

    /// A cleared buffer for a record.
    fn journal_buffer(&mut self, sectors: usize) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.journal.as_mut().expect("a journal").buffer);
        buffer.clear();
        buffer.resize(sectors * self.image_bytes, 0);
        buffer
    }
}
