//! Settings of the disk interface: each design of the prototypes, and those that they rejected.

use pellucid_flash::Nanos;
use pellucid_setting::{Settings, Word};

/// Place of a command's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Carry {
    /// Spare bits of the length of a read or a write, so that the drive queues it as such (3.2.2).
    LengthBits,
    /// An opcode of its own, which the drive's queues do not know: it waits for all others, and they for it (3.2.1).
    SlowPath,
}

/// Answer to a read of data that a cache does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum MissReply {
    /// A pattern in place of the data, which crosses the link as data do (3.2.2).
    InBand,
    /// An error: the host recovers and tries again (3.2.1).
    Error,
}

/// Way of a nameless write's address to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum NameReply {
    /// A command before it, READ NATIVE MAX ADDRESS, which cannot be queued.
    ReadNativeMax,
    /// An error of the write, as an error names an address.
    Error,
}

/// Way of a moved sector's new address to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Upcalls {
    /// The host asks from time to time.
    Poll,
    /// The answer to the next command says so; only an error has space for it.
    Piggyback,
}

/// Configuration of the disk interface.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct AtaConfig {
    /// ATA: namespace below.
    #[setting(kind = whole(0, 255), default = 0)]
    pub namespace: u16,
    /// ATA: most commands in the drive's queue (native command queuing).
    #[setting(kind = whole(1, 32), default = 32)]
    pub slots: u32,
    /// ATA: rate of the link for patterns and other data without use.
    ///
    /// SATA 3 Gb/s with 8b/10b coding. Other data cross the drive's own link (drive.host.link_rate).
    #[setting(key = "link_rate", kind = rate(1_000_000, 1 << 50), default = "300MB/s")]
    pub link_bytes_per_second: u64,
    /// ATA: encoding of commands other than reads and writes: in spare bits of the length, or in an opcode that the drive cannot queue.
    #[setting(default = "length-bits")]
    pub carry: Carry,
    /// ATA, cache: report of a miss: a pattern in place of the data, or an error.
    #[setting(default = "in-band")]
    pub miss: MissReply,
    /// ATA, cache: share of blocks whose content looks like the pattern.
    ///
    /// If it is clean, such a block is taken for a miss. Which blocks do is drawn from address, content and the drive's seed.
    #[setting(kind = SHARE, default = 0.0)]
    pub false_misses: f64,
    /// ATA, nameless: report of a write's address: by a command before it that cannot be queued, or by an error.
    #[setting(default = "read-native-max")]
    pub address: NameReply,
    /// ATA, nameless: report of moved sectors: the host polls, or an error tells it.
    #[setting(default = "poll")]
    pub upcalls: Upcalls,
    /// ATA, nameless: time between two polls.
    #[setting(key = "poll", kind = time(1_000, 3_600_000_000_000), default = "100ms")]
    pub poll_ns: Nanos,
    /// ATA: time for which the host sends nothing after an error, while it resets the link and waits until the link is steady.
    ///
    /// Linux debounces the link for 100 ms (`sata_deb_timing_normal`).
    #[setting(default = "100ms")]
    pub error_time_ns: Nanos,
    /// ATA: most retries of a command that ended with an error (Linux: 5).
    #[setting(kind = few(0), default = 5)]
    pub error_retries: u32,
    /// Bytes of a sector.
    #[setting(skip = 512)]
    pub sector_bytes: u32,
    /// Seed of the drive.
    #[setting(skip)]
    pub seed: u64,
}

impl Default for AtaConfig {
    fn default() -> Self {
        Settings::usual()
    }
}
