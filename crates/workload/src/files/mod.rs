//! Work of file servers: filebench's fileserver, webserver and varmail, through a modelled file system and page cache.
//!
//! ```text
//!  threads ─ operations ─► file system ─► page cache ─ misses, write-back ─► requests ─► drive
//!  (Personality)           (Layout)       (PageCache)   fsync, journal                   (Source::Files)
//! ```
//! [`Personality`] has filebench's published operations and parameters, [`Layout`] says which blocks a file has and which metadata blocks an
//! operation changes, [`PageCache`] what the host's memory holds, and [`Files`] runs the threads in virtual time and hands out block
//! requests. docs/explanation/files.md says what is modelled, with sources, and what is not.
//!
//! Everything follows from a seed and from when requests complete. No data are kept: what a drive returns is checked by the run's
//! oracle; that the page cache never answers with old data is tested here with versions.

mod laws;
mod layout;
mod page_cache;
mod personality;
mod report;
mod source;
#[cfg(test)]
mod tests;

pub use laws::{Gamma, Sizes, SourceSizes, normal};
pub use layout::{Extent, Layout, LayoutError};
pub use page_cache::PageCache;
pub use personality::{Operation, Personality};
pub use report::Meter;
pub use source::{BlockRequest, Files, FilesNext, RequestKind};

use pellucid_flash::Nanos;

/// Bytes of a block of the file system, and of a page of the host's memory.
pub const BLOCK_BYTES: u64 = 4096;

/// A file set, the threads that work on it, and the host they run on.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesConfig {
    /// Operations of the threads.
    pub personality: Personality,
    /// Files of the set; some do not exist at a time.
    pub files: u32,
    /// Mean size of a file.
    pub file_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Memory that the host has for its page cache.
    pub page_cache_bytes: u64,
    /// An append is uniform up to this.
    pub append_bytes: u64,
    /// A webserver's log of more bytes is rotated: what it held is dropped.
    pub log_bytes: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// How long operations begin, after `ramp`; `None`: for ever.
    pub runtime: Option<Nanos>,
    /// Work at the beginning that reports leave out.
    pub ramp: Nanos,
    /// Properties of the host beside its memory.
    pub host: HostModel,
}

impl FilesConfig {
    /// A personality with its published parameters, on a host with the memory of the paper's machine.
    pub fn new(personality: Personality) -> FilesConfig {
        FilesConfig {
            personality,
            files: personality.files(),
            file_bytes: personality.file_bytes(),
            threads: personality.threads(),
            page_cache_bytes: 2 << 30,
            append_bytes: personality.append_bytes(),
            log_bytes: 256 << 20,
            seed: 1,
            runtime: Some(Nanos::from_secs(60)),
            ramp: Nanos::ZERO,
            host: HostModel::default(),
        }
    }
}

/// The operating system: Linux's defaults at the time of kernel 2.6.33.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostModel {
    /// `dirty_ratio`: above this share of the page cache writers wait.
    pub dirty_share: f64,
    /// `dirty_background_ratio`: above this share write-back begins.
    pub background_share: f64,
    /// `dirty_expire_centisecs`: dirty pages of this age are written back.
    pub expire: Nanos,
    /// `dirty_writeback_centisecs`: how often ages are looked at.
    pub wakeup: Nanos,
    /// Interval of commits of the journal.
    pub commit: Nanos,
    /// `read_ahead_kb`: largest read.
    pub read_bytes: u64,
    /// `max_sectors_kb`: largest write.
    pub write_bytes: u64,
    /// `nr_requests`: writes of write-back under way together.
    pub requests: u32,
    /// Processor cores.
    pub cores: u32,
    /// Processor time of an operation.
    pub operation: Nanos,
    /// Processor time of a page that is copied.
    pub page: Nanos,
    /// Processor time of a request, which goes to the drive after it; and of each KiB of its data.
    pub request: Nanos,
    /// See `request`.
    pub request_kib: Nanos,
    /// How a file that exists is picked.
    pub picks: Picks,
}

/// How the next file that exists is picked.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Picks {
    /// One rotation shared by all threads, as in filebench 1.4.9: `flowoplib_openfile_common` passes `fileset_pick` a thread only if
    /// `rotatefd` is set, and no personality sets it.
    #[default]
    Together,
    /// A separate rotation per thread, with a random start.
    Apart,
    /// At random.
    Random,
}

impl Default for HostModel {
    fn default() -> HostModel {
        HostModel {
            dirty_share: 0.2,
            background_share: 0.1,
            expire: Nanos::from_secs(30),
            wakeup: Nanos::from_secs(5),
            commit: Nanos::from_secs(5),
            read_bytes: 128 << 10,
            write_bytes: 512 << 10,
            requests: 128,
            cores: 2,
            operation: Nanos::from_us(10),
            page: Nanos::from_us(1),
            request: Nanos::ZERO,
            request_kib: Nanos::ZERO,
            picks: Picks::default(),
        }
    }
}
