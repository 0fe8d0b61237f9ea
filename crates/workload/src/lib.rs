//! Synthetic workloads in fio's terms: jobs, and the streams of I/O that they produce.
//!
//! ```text
//! fio job file --parse_fio--+
//! TOML [[job]], CLI --------+--> JobBuilder --build--> Job --expand--> Job ... --Generator::new--> Io ...
//! ```
//! A [`Job`] is resolved and typed, but knows no drive: sizes may still be percentages. [`Generator::new`] puts it on a drive of a given capacity,
//! refuses what does not fit, and then yields one [`Io`] after another. A driver in virtual time keeps up to [`Job::iodepth`] of them in flight.
//!
//! # Differences from fio
//!
//! Names, defaults and meanings are fio's, and in job files also the syntax of values; a job file that runs here does the same kind of work. The
//! stream of random numbers is our own, so single offsets differ. Beyond that:
//!
//! - **Random map.** fio covers every block once before it touches one again, using a bitmap. Here a keyed full-cycle [permutation](Permutation) of
//!   the block numbers does the same in constant memory; each pass has a new key. One map serves all directions of a mixed job if their blocks are
//!   equally large, otherwise each direction has its own. With several block sizes (`bsrange`, `bssplit`) every *start* is visited once per pass;
//!   longer I/O overlaps the starts that follow. As in fio, `blockalign` and every distribution but `random` switch the map off.
//! - **Hot blocks.** fio scatters the ranks of `zipf`, `pareto` and `normal` over the region with a hash modulo its size, where some
//!   blocks get several ranks and others none. Here a permutation scatters them, so each block has exactly one rank. `normal:d` is a
//!   true normal distribution around the middle rank with a standard deviation of d % of the region, cut off at its ends; fio averages
//!   twelve uniform numbers and adds a uniform deviation.
//! - **The dialect.** Job files ([`Dialect::Fio`]) have fio's defaults. Our own jobs ([`Dialect::Native`]) differ in two ways: `norandommap=1`
//!   (uniform independent draws); and if `number_ios`, `io_size` or `runtime` is given, only that ends the job, and `size` gives its region instead
//!   of its length.
//! - **Units.** Our own jobs have the units of all descriptions: `16KiB` and `16k` are the same, and a time has its unit. In job files `kib` is 1000
//!   bytes with fio's `kb_base=1024`, and a plain time is in seconds or microseconds.
//! - **Time** is simulated. `rate`, `rate_iops`, `thinktime` and `startdelay` become [release
//!   times](Generator::earliest). With both `linear` and `poisson` these form a schedule that completions do
//!   not shift; only a full `iodepth` does.
//!
//! # Driving a job
//!
//! The driver starts a job when `stonewall` and `wait_for` allow, tells the generator so, and then, while fewer than `iodepth` items are in flight
//! and the deadline has not passed, submits the next item at its release time:
//!
//! ```
//! use pellucid_flash::SimTime;
//! use pellucid_workload::{Dialect, Generator, JobBuilder};
//!
//! let mut builder = JobBuilder::new(Dialect::Native);
//! builder.set("rw", "randwrite")?;
//! builder.set("bs", "4k")?;
//! builder.set("rate_iops", "1000")?;
//! builder.set("number_ios", "3")?;
//! let mut generator = Generator::new(&builder.build()?, 1 << 30, 512)?;
//! let mut now = SimTime(5_000);
//! generator.start(now);
//! let mut submitted = Vec::new();
//! loop {
//!     now = now.max(generator.earliest());
//!     if now >= generator.deadline() {
//!         break;
//!     }
//!     let Some(io) = generator.next() else { break };
//!     assert_eq!(io.sectors, 8);
//!     submitted.push(now.0);
//! }
//! assert_eq!(submitted, [5_000, 1_005_000, 2_005_000]);
//! # Ok::<(), pellucid_workload::JobError>(())
//! ```
//!
//! Flushes are also items: they occupy a queue slot, count neither as I/O nor as bytes, and impose no order. `end_fsync` yields its
//! flush after the last I/O; when the driver stops at the deadline, it sends that flush itself ([`Job::flush_at_end`]).
//!
//! Invariants: a generator is plain data (a clone continues identically); it is a function of job, capacity
//! and sector size; it never yields a sector outside the job's region; it allocates nothing per I/O.

mod app;
pub mod desktop;
mod distribution;
pub mod files;
mod fio;
mod generate;
mod keys;
pub mod kv;
mod laws;
mod pace;
mod permute;
mod placement;
mod raw;
mod steady;
pub mod trace;
mod units;
mod values;
mod written;

pub use app::{
    AppJob, AppKind, AppWork, Backend, Cleaner, DesktopApp, FileCount, FileSystem, FilesApp, GraphApp,
    GraphCosts, GraphEngine, GraphProgram, GraphSource, Kernel, KvApp, OPEN_SEGMENTS_MAX, Processor,
};
pub(crate) use distribution::Sampler;
pub use distribution::{Distribution, Zone};
pub use fio::{FioError, FioFile, Notice, Severity, parse_fio};
pub use generate::{Generator, Io};
pub use keys::{JobBuilder, JobError, KeyDoc};
pub use permute::Permutation;
pub use placement::{HandleList, HandleSelect, Handles};
pub use raw::{Action, Container, RawJob};
pub use steady::{SNIA_ROUNDS, SteadyRule, Tracked, Window};
pub use units::{Amount, Grammar, UnitError, parse_amount, parse_bytes, parse_time};
pub use written::Written;

use crate::files::{FilesConfig, Personality};
use pellucid_flash::{Nanos, Opcode};
use std::fmt;

/// Direction of data, the index of every per-direction setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the drive.
    Read = 0,
    /// To the drive.
    Write = 1,
    /// Discard.
    Trim = 2,
}

impl Direction {
    /// All directions in the order of fio's comma-separated values.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// The command that moves data in this direction.
    pub fn opcode(self) -> Opcode {
        match self {
            Direction::Read => Opcode::Read,
            Direction::Write => Opcode::Write,
            Direction::Trim => Opcode::Trim,
        }
    }
}

/// The pattern of a job: fio's `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// `read`: sequential reads.
    #[default]
    Read,
    /// `write`: sequential writes.
    Write,
    /// `trim`: sequential trims.
    Trim,
    /// `rw`, `readwrite`: sequential reads and writes, each direction with its own position.
    ReadWrite,
    /// `trimwrite`: sequentially, each block trimmed and then written.
    TrimWrite,
    /// `randread`: random reads.
    RandRead,
    /// `randwrite`: random writes.
    RandWrite,
    /// `randtrim`: random trims.
    RandTrim,
    /// `randrw`: random reads and writes.
    RandRw,
    /// `randtrimwrite`: at random places, each block trimmed and then written.
    RandTrimWrite,
}

impl Pattern {
    /// Patterns by fio's names; the first name of a pattern is the one that reports use.
    pub const NAMES: [(&'static str, Pattern); 11] = [
        ("read", Pattern::Read),
        ("write", Pattern::Write),
        ("trim", Pattern::Trim),
        ("rw", Pattern::ReadWrite),
        ("readwrite", Pattern::ReadWrite),
        ("trimwrite", Pattern::TrimWrite),
        ("randread", Pattern::RandRead),
        ("randwrite", Pattern::RandWrite),
        ("randtrim", Pattern::RandTrim),
        ("randrw", Pattern::RandRw),
        ("randtrimwrite", Pattern::RandTrimWrite),
    ];

    /// fio's name.
    pub fn name(self) -> &'static str {
        Pattern::NAMES.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }

    /// Reports whether offsets are random.
    pub fn is_random(self) -> bool {
        use Pattern::*;
        matches!(self, RandRead | RandWrite | RandTrim | RandRw | RandTrimWrite)
    }

    /// The directions that the pattern uses.
    pub fn directions(self) -> &'static [Direction] {
        use Pattern::*;
        match self {
            Read | RandRead => &[Direction::Read],
            Write | RandWrite => &[Direction::Write],
            Trim | RandTrim => &[Direction::Trim],
            ReadWrite | RandRw => &[Direction::Read, Direction::Write],
            TrimWrite | RandTrimWrite => &[Direction::Write, Direction::Trim],
        }
    }
}

/// Sizes of a direction's I/O in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockSize {
    /// `bs`: constant.
    Fixed(u64),
    /// `bsrange`: uniform over the multiples of `min_bytes` up to `max_bytes`.
    Range {
        /// Smallest size, of which all are multiples.
        min_bytes: u64,
        /// Largest size.
        max_bytes: u64,
    },
    /// `bssplit`: sizes with their shares in percent, which sum to 100.
    Split(Vec<(u64, f64)>),
}

impl BlockSize {
    /// The smallest size in bytes that can be drawn.
    pub fn min_bytes(&self) -> u64 {
        match self {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::Range { min_bytes, .. } => *min_bytes,
            BlockSize::Split(sizes) => {
                let drawn = sizes.iter().filter(|(_, percent)| *percent > 0.0);
                drawn.map(|(bytes, _)| *bytes).min().unwrap_or(0)
            }
        }
    }
}

/// Writes the sizes in fio's syntax: `4k`, `4k-64k`, `4k/60:64k/40`; sizes that are not multiples of 1 KiB in bytes.
impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: u64| match bytes {
            1.. if bytes.is_multiple_of(1024) => format!("{}k", bytes / 1024),
            _ => bytes.to_string(),
        };
        match self {
            BlockSize::Fixed(bytes) => f.write_str(&size(*bytes)),
            BlockSize::Range { min_bytes, max_bytes } => {
                write!(f, "{}-{}", size(*min_bytes), size(*max_bytes))
            }
            BlockSize::Split(sizes) => {
                let sizes = sizes.iter().map(|(bytes, share)| format!("{}/{share}", size(*bytes)));
                f.write_str(&sizes.collect::<Vec<_>>().join(":"))
            }
        }
    }
}

/// Condition that ends a job besides `runtime` and `number_ios`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoLimit {
    /// The bytes of the region, times [`Job::loops`].
    Region,
    /// `io_size`: this many bytes, times [`Job::loops`].
    Amount(Amount),
    /// No limit: time or the number of I/Os ends the job.
    None,
}

/// Pace of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// Closed loop: the next I/O may start when the queue has room.
    #[default]
    Unlimited,
    /// `rate_iops`: I/Os per second.
    Iops(u64),
    /// `rate`: bytes per second.
    Bytes(u64),
}

/// Distribution of paced I/O over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateProcess {
    /// Equal gaps.
    #[default]
    Linear,
    /// Exponential gaps: a Poisson process.
    Poisson,
}

/// `thinktime`: a pause after every `blocks` I/Os, once they all have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// Length of the pause.
    pub time: Nanos,
    /// I/Os between pauses, at least 1.
    pub blocks: u32,
}

/// `flow`, `flow_id`: the I/Os of jobs in one group keep the ratio of their weights; a job that is ahead waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `flow`: weight, at least 1.
    pub weight: u32,
    /// `flow_id`: the group.
    pub group: u32,
}

/// Tool whose defaults a job has; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// fio's own.
    Fio,
    /// Ours: independent random draws; an explicit end replaces `size` as the end.
    Native,
}

/// One job, resolved. Made by [`JobBuilder::build`], which keeps every field within its limits; arrays are
/// indexed by [`Direction`].
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in reports.
    pub name: String,
    /// `rw`.
    pub pattern: Pattern,
    /// `bs`, `bsrange`, `bssplit`.
    pub block: [BlockSize; 3],
    /// `blockalign`: alignment of random offsets; `None`: the smallest block size.
    pub align_bytes: [Option<u64>; 3],
    /// `iodepth`: I/Os that the driver keeps in flight.
    pub iodepth: u32,
    /// `rwmixread`: percentage of reads in a mixed pattern.
    pub read_percent: u8,
    /// `offset`: start of the region.
    pub offset: Amount,
    /// `offset_increment`: added to the offset per preceding clone.
    pub offset_increment: Amount,
    /// `size`: length of the region; percent of the drive, cut at its end.
    pub size: Amount,
    /// Condition that ends the job.
    pub limit: IoLimit,
    /// `number_ios`: ends the job after this many I/Os (per loop). Flushes, and the trims of `trimwrite`, do not count.
    pub number_ios: Option<u64>,
    /// `loops`: repetitions of the work.
    pub loops: u32,
    /// `runtime`: ends the job after this much simulated time, not counting `startdelay` and `ramp_time`.
    pub runtime: Option<Nanos>,
    /// `ramp_time`: initial work that reports omit.
    pub ramp_time: Nanos,
    /// `startdelay`: time from the job's start to its first I/O.
    pub start_delay: Nanos,
    /// `random_distribution`.
    pub distribution: [Distribution; 3],
    /// `percentage_random`: the random share of a random pattern; the rest continues after the last I/O.
    pub random_percent: [u8; 3],
    /// `norandommap=0`: every block once per pass.
    pub random_map: bool,
    /// `rate`, `rate_iops`.
    pub rate: [Rate; 3],
    /// `rate_process`.
    pub rate_process: RateProcess,
    /// `thinktime`, `thinktime_blocks`.
    pub think: Option<Think>,
    /// `fsync`, `fdatasync`: a flush after every so many writes; 0: none.
    pub flush_every: u32,
    /// `end_fsync`: a flush at the end, if anything was written since the last one.
    pub flush_at_end: bool,
    /// `sync`: writes are forced to the media; the driver copies this to each write command.
    pub fua: bool,
    /// `numjobs`: number of clones; [`expand`] turns a job into that many with `numjobs` 1.
    pub numjobs: u32,
    /// Number of the clone, from 0.
    pub clone_index: u32,
    /// `randseed`.
    pub seed: u64,
    /// The number of the job in its list, set by [`expand`]: jobs of one seed draw from independent streams.
    pub stream: u32,
    /// `stonewall`: starts when all jobs before it in the list have ended.
    pub stonewall: bool,
    /// `new_group`: starts another group in the report.
    pub new_group: bool,
    /// `wait_for`: starts when every job of this name has ended.
    pub wait_for: Option<String>,
    /// `namespace` (ours): block namespace of the job; `None`: the first of the drive.
    pub namespace: Option<u16>,
    /// `target` (ours): target of the job; `None`: a namespace of the drive, or the first block target.
    pub target: Option<String>,
    /// `flow`, `flow_id`.
    pub flow: Option<Flow>,
    /// `queue` (ours): submission queue of its commands.
    pub queue: u16,
    /// `fdp`, `plids`: placement handles of its writes.
    pub handles: HandleList,
    /// `plid_select`.
    pub handle_select: HandleSelect,
    /// Where it and its keys were written.
    pub written: Written,
    /// `rw=fileserver`, `webserver`, `varmail`: threads working on files, instead of a pattern.
    pub files: Option<FileJob>,
    /// `app`: an application, instead of a pattern.
    pub app: Option<AppJob>,
    /// `rw=chunk-write`, `zone-append` and so on: chunks or zones by address, instead of a pattern of sectors.
    pub raw: Option<RawJob>,
}

/// Settings of a file set given in a job; the rest is the personality's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileJob {
    /// `rw`.
    pub personality: Personality,
    /// `nfiles`.
    pub files: Option<u32>,
    /// `filesize`.
    pub file_bytes: Option<u64>,
    /// `nthreads`.
    pub threads: Option<u32>,
    /// `page_cache`.
    pub page_cache_bytes: Option<u64>,
}

impl Job {
    /// The block sizes of the directions that the job uses, in fio's syntax: one for all, or `read,write,trim`, in
    /// which unused directions are omitted.
    pub fn block_words(&self) -> String {
        let used = self.pattern.directions();
        let words: Vec<String> = self.block.iter().map(BlockSize::to_string).collect();
        let first = used.first().map_or(0, |direction| *direction as usize);
        if used.iter().all(|direction| words[*direction as usize] == words[first]) {
            return words[first].clone();
        }
        let all = [Direction::Read, Direction::Write, Direction::Trim];
        let words =
            all.map(|direction| if used.contains(&direction) { &words[direction as usize][..] } else { "" });
        words.join(",").trim_end_matches(',').to_owned()
    }

    /// Name of its pattern of sectors, chunks or zones.
    pub fn pattern_name(&self) -> &'static str {
        self.raw.as_ref().map_or(self.pattern.name(), RawJob::name)
    }

    /// The file set of a job, if it works on one.
    pub fn file_set(&self) -> Option<FilesConfig> {
        let job = self.files?;
        let published = FilesConfig::new(job.personality);
        Some(FilesConfig {
            files: job.files.unwrap_or(published.files),
            file_bytes: job.file_bytes.unwrap_or(published.file_bytes),
            threads: job.threads.unwrap_or(published.threads),
            page_cache_bytes: job.page_cache_bytes.unwrap_or(published.page_cache_bytes),
            seed: self.seed,
            runtime: Some(self.runtime.unwrap_or(Nanos::from_secs(60))),
            ramp: self.ramp_time,
            ..published
        })
    }
}

/// Refuses a job that waits for a job not before it in the list, so that no job waits for itself or in a cycle.
pub fn check_wait(before: &[Job], job: &Job) -> Result<(), JobError> {
    match &job.wait_for {
        Some(name) if !before.iter().any(|earlier| earlier.name == *name) => {
            let names: Vec<&str> = before.iter().map(|earlier| earlier.name.as_str()).collect();
            let allowed = match names.is_empty() {
                true => "none: no job stands before this one".into(),
                false => format!("{}: the jobs before this one", names.join(", ")).into(),
            };
            Err(JobError::Unknown { key: "wait_for", value: name.as_str().into(), allowed })
        }
        _ => Ok(()),
    }
}

/// Refuses a `flow` without another job in its group, as it has no effect. Returns the index of the job in `jobs`, before clones are expanded.
pub fn check_flows(jobs: &[Job]) -> Result<(), (usize, JobError)> {
    let of = |job: &Job| job.flow.map(|flow| flow.group);
    for (at, job) in jobs.iter().enumerate() {
        let Some(flow) = job.flow.filter(|_| job.numjobs == 1) else { continue };
        let has_other =
            jobs.iter().enumerate().any(|(other, theirs)| other != at && of(theirs) == Some(flow.group));
        if !has_other {
            let allowed = format!(
                "with two jobs or more of flow_id {}, which keep a ratio, or with numjobs: this one is alone",
                flow.group
            );
            return Err((at, JobError::Value { key: "flow", value: flow.weight.to_string(), allowed }));
        }
    }
    Ok(())
}

/// Replaces each job by its `numjobs` clones, in order, and numbers them so that each has its own random stream. Only the first clone keeps
/// `stonewall`: clones run side by side.
pub fn expand(jobs: Vec<Job>) -> Vec<Job> {
    let mut all = Vec::new();
    for job in jobs {
        for clone_index in 0..job.numjobs {
            all.push(Job {
                numjobs: 1,
                clone_index,
                stream: all.len() as u32,
                stonewall: job.stonewall && clone_index == 0,
                new_group: job.new_group && clone_index == 0,
                ..job.clone()
            });
        }
    }
    all
}
