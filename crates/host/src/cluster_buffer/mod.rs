//! Write clustering in front of poor flash: FlashFire's cluster buffer, over any block namespace.
//!
//! ```text
//!   write ─────────► buffer ── eviction: read what is missing, write the cluster ──► drive
//!   read ──────────► drive, then what the buffer holds replaces what came back
//!   forced write, trim, write zeroes ──► drive, past the buffer, which drops its older copies; so do writes into
//!                    ranges that the configuration names, and all writes while the buffer is paused
//!   flush ─────────► strict: evictions, then the drive, then the journal for the rest; paper: the drive
//! ```
//! Kim, Kim, Lee, Maeng, Ramachandran, "FlashFire: Overcoming the Performance Bottleneck of Flash Storage
//! Technology". Sectors are gathered in clusters. When space runs out, the least recently written cluster is
//! evicted as a whole, but a full one before all others. An eviction is one read, from the first to the last
//! missing sector, and one write. Idle time writes clusters too.
//!
//! Deviations from the paper, with their reasons:
//! - `strict` is the default; the paper's driver, like `paper`, passes flushes on without writing its buffer.
//!   A power cut then loses the buffer's data: at most [`ClusterBuffer::window_bytes`], none older than
//!   `age`, if that is set. It also loses data that left the buffer after the last flush, if the drive has a
//!   volatile write buffer, and trims in the buffer since then.
//! - A flush does not pad a cluster if the buffer has less than half of it: its runs of sectors are written
//!   alone, or into the [journal], if the device has one and it has been cheaper so far
//!   (docs/explanation/clustering.md).
//! - A read that the buffer covers completely does not go to the drive.
//! - The tables count as memory too: the layer takes no more than the configured size. With `tables = "beside"` they have separate memory,
//!   as in the paper's driver.
//!
//! Guarantees, beside the invariants of the table:
//! - *No stale reads.* The drive may be reading sectors while they are evicted: they stay in the buffer until
//!   every read that began before they reached the drive has ended.
//! - *No older copy overwrites a newer one.* A forced write or trim waits until no cluster of its range is
//!   being evicted. While it is under way, none of them is evicted or written from above.
//! - *Errors lose no data.* A cluster whose write the drive refuses stays readable. The next flush retries once, and fails if that fails.
//!   If space can only come from such clusters, a write also retries once, and fails if that fails.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Setup`] | configuration, sizes, ranges that pass by | never changes |
//! | [`Table`](table::Table) | sectors, tables, states of clusters | a buffer belongs to one sector, a slot to one cluster |
//! | [`Requests`](requests::Requests) | commands from above, what each waits for, answers | a request is answered once |
//! | [`Port`](port::Port) | clock, processor, commands on their way, buffers | a command to the drive has one part |
//! | [`Evictions`](evictions::Evictions) | clusters on their way to the drive | a cluster is evicted once at a time |
//! | [`Timer`](evictions::Timer) | idle time and age after which clusters leave | |
//! | [`Bypasses`](bypasses::Bypasses) | commands past the buffer | no two share a cluster |
//! | [`Ends`](ends::Ends) | stop and pause | |
//! | [`Journal`](journal::Journal) | ring, names, group of flushes, start ([`journal`]) | records that are needed are kept |
//! | [`Clock`](core::Clock), [`ClusterBufferCounters`] | order of writes and arrivals; counters | both only grow |
//!
//! Each object alone writes its fields. They make the [`Core`]; *paths* (`paths/`) are functions over it without state. The [`ClusterBuffer`] only
//! routes: steps of the processor and ends of commands to paths (`routes.rs`).

mod bypasses;
mod config;
mod core;
mod counters;
mod ends;
mod evictions;
mod journal;
mod machine;
mod paths;
mod port;
mod requests;
mod routes;
mod setup;
mod table;

pub use config::{ClusterBufferConfig, ClusterBufferError, FlushPolicy, TableMemory};
pub use counters::ClusterBufferCounters;
pub use journal::{JournalConfig, JournalHead, JournalUse};

use core::Core;
use pellucid_flash::{Interface, Lba, Nanos, SimTime};
use setup::Setup;
use table::State;

/// Cluster buffer layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct ClusterBuffer {
    core: Core,
}

impl ClusterBuffer {
    /// Creates the layer for the block namespace that `interface` describes.
    ///
    /// # Errors
    /// The error names the reason and the allowed values.
    pub fn new(
        config: &ClusterBufferConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<ClusterBuffer, ClusterBufferError> {
        Ok(ClusterBuffer { core: Core::new(Setup::new(config, interface, image_bytes)?) })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ClusterBufferConfig {
        &self.core.setup.config
    }

    /// Returns the counters.
    pub fn counters(&self) -> ClusterBufferCounters {
        self.core.counters
    }

    /// Returns the number of addressable sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.core.setup.shape.sectors
    }

    /// Returns the maximum bytes of data in the buffer, which is the most that a power cut loses.
    pub fn window_bytes(&self) -> u64 {
        self.core.setup.bytes(self.core.setup.shape.buffers.into())
    }

    /// Returns the number of sectors in the buffer.
    pub fn held_sectors(&self) -> u32 {
        self.core.table.held()
    }

    /// Returns the sectors in the buffer.
    pub fn held(&self) -> impl Iterator<Item = Lba> {
        self.core.table.held_sectors().map(Lba)
    }

    /// Returns the bytes of host memory: data, tables, buffers of evictions and of reads that failed on the
    /// drive, and records.
    pub fn memory_bytes(&self) -> u64 {
        let Core { setup, table, requests, port, evictions, journal, .. } = &self.core;
        // A sector counts in full, even if only a stamp represents it.
        let of_evictions = evictions.places() as u64 * setup.bytes(u64::from(setup.shape.cluster_sectors));
        let beyond = setup.bytes(port.kept_images() as u64);
        let record = setup.shape.journal.zip(setup.config.journal);
        let record =
            record.map_or(0, |(region, asked)| u64::from(region.largest) * u64::from(asked.unit_bytes));
        table.memory_bytes(setup.config.sector_bytes)
            + record
            + journal.as_ref().map_or(0, |journal| journal.memory_bytes())
            + of_evictions.max(beyond)
            + requests.memory_bytes()
            + port.memory_bytes()
    }

    /// Has all later writes bypass the buffer, writes what it holds, and empties the journal; [`ClusterBuffer::paused`] reports the
    /// end. Its guarantees stay: a flush still covers every write before it.
    pub fn pause(&mut self, now: SimTime) {
        self.core.port.set_now(now);
        self.core.ends.pause();
        self.core.table.retry_all();
        self.go_on();
    }

    /// Takes writes into the buffer again.
    pub fn resume(&mut self) {
        self.core.ends.resume();
    }

    /// Reports whether writes bypass the buffer.
    pub fn is_paused(&self) -> bool {
        self.core.ends.is_paused()
    }

    /// Returns the outcome of [`ClusterBuffer::pause`] once it is known: the buffer is empty, or a sentence
    /// says what it still holds.
    pub fn paused(&self) -> Option<Result<(), String>> {
        let Core { setup, table, requests, evictions, ends, journal, .. } = &self.core;
        if !ends.is_paused() {
            return Some(Err("the buffer was resumed before it was empty".into()));
        }
        if let Some(why) = ends.pause_failure() {
            return Some(Err(why.into()));
        }
        if requests.has_waiting_write()
            || evictions.slots().next().is_some()
            || table.used().count() > table.failed() as usize
        {
            return None;
        }
        if table.failed() == 0 {
            let is_clean = journal.as_ref().is_none_or(|journal| !journal.brings_back(0, u64::MAX));
            return is_clean.then_some(Ok(()));
        }
        let bytes = setup.bytes(table.held().into());
        Some(Err(format!(
            "the device refuses writes: {bytes} bytes stay in the buffer, where reads find them"
        )))
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.core.port.busy()
    }

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self) {
        let Core { table, evictions, bypasses, ends, journal, .. } = &self.core;
        table.check();
        let evicting: Vec<u32> = evictions.slots().collect();
        for (slot, cluster) in table.used() {
            let is = evicting.iter().filter(|&&other| other == slot).count();
            assert_eq!(is, usize::from(cluster.state == State::Evicting), "evictions of slot {slot}");
            let passed_by = bypasses.overlaps(cluster.number, cluster.number);
            assert!(is == 0 || !passed_by, "cluster {} on two ways", cluster.number);
        }
        if let Some(journal) = journal {
            journal.check(|cluster| table.has_journalled(cluster));
        }
        assert!(table.held() == 0 || !ends.is_stopped(), "stopped, and not empty");
    }
}
