//! Workloads of file servers: filebench's fileserver, webserver and varmail, through a modelled file system and page cache.
//!
//! ```text
//!  threads ─ operations ─► file system ─► page cache ─ misses, write-back ─► requests ─► drive
//!  (Personality)           (Layout)       (PageCache)   fsync, journal                   (Source::Files)
//! ```
//! [`Personality`] has filebench's published operations and parameters, [`Layout`] the blocks of files and the metadata blocks that operations
//! change, [`PageCache`] the content of the host's memory; [`Files`] runs the threads in virtual time and issues block requests.
//! docs/explanation/files.md says what is modelled, with sources, and what is not.
//!
//! Everything follows from a seed and the completion times of requests. No data are kept: the run's oracle checks what a drive returns, and tests
//! here check with versions that the page cache never returns old data.

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

/// A file set, the threads that work on it, and their host.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesConfig {
    /// Operations of the threads.
    pub personality: Personality,
    /// Files of the set, not all of which exist at a time.
    pub files: u32,
    /// Mean size of a file.
    pub file_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Memory of the host's page cache.
    pub page_cache_bytes: u64,
    /// Appends are uniform up to this.
    pub append_bytes: u64,
    /// Size at which a webserver's log is rotated: its content is dropped.
    pub log_bytes: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Time during which operations start, after `ramp`; `None`: for ever.
    pub runtime: Option<Nanos>,
    /// Initial work that reports omit.
    pub ramp: Nanos,
    /// Properties of the host besides its memory.
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
    /// `dirty_ratio`: above this share of the page cache, writers wait.
    pub dirty_share: f64,
    /// `dirty_background_ratio`: above this share, write-back starts.
    pub background_share: f64,
    /// `dirty_expire_centisecs`: dirty pages of this age are written back.
    pub expire: Nanos,
    /// `dirty_writeback_centisecs`: interval at which ages are checked.
    pub wakeup: Nanos,
    /// Interval of the journal's commits.
    pub commit: Nanos,
    /// `read_ahead_kb`: largest read.
    pub read_bytes: u64,
    /// `max_sectors_kb`: largest write.
    pub write_bytes: u64,
    /// `nr_requests`: maximum number of write-back writes in flight.
    pub requests: u32,
    /// Processor cores.
    pub cores: u32,
    /// Processor time of an operation.
    pub operation: Nanos,
    /// Processor time of copying a page.
    pub page: Nanos,
    /// Processor time of a request before its submission.
    pub request: Nanos,
    /// Processor time per KiB of a request's data.
    pub request_kib: Nanos,
    /// Choice of an existing file.
    pub picks: Picks,
}

/// Choice of the next existing file.
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
