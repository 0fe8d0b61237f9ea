//! Keys and values: one table for `[[job]]` in TOML, for the command line and for fio job files.
//!
//! [`JobBuilder::set`] takes a key and its value in fio's syntax; [`JobBuilder::build`] checks combinations of keys. Every key of the table is
//! honoured: the tables contain no unsupported keys, and `fio.rs` handles fio's other keys.

use super::app::{AppKeys, FileKeys};
use super::raw::{Action, RawKeys, USED_BY_RAW};
use super::units::{Amount, Grammar, parse_amount, parse_bytes, parse_time};
use super::values::{
    Allowed, Parsed, allowed, block_bytes, block_range, block_split, boolean, bytes_from, count, pattern,
    percent, rate, set_each, text,
};
use super::{
    BlockSize, Dialect, Direction, Distribution, FileJob, Flow, HandleList, HandleSelect, IoLimit, Job,
    Pattern, Rate, RateProcess, Think, Written, laws, raw,
};
use crate::files::Personality;
use pellucid_flash::{Nanos, Vector};
use pellucid_ftl::HANDLES_MAX;
use pellucid_text::suggest;
use std::fmt;

/// A key, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyDoc {
    /// Its name.
    pub name: &'static str,
    /// fio's other names for it.
    pub aliases: &'static [&'static str],
    /// Effect, in one line.
    pub help: &'static str,
    /// An accepted value.
    pub example: &'static str,
}

/// Reason why a job is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The key does not exist.
    UnknownKey {
        /// Requested key.
        key: String,
        /// The most similar key, if there is one.
        nearest: Option<&'static str>,
    },
    /// The value names something that does not exist.
    Unknown {
        /// The key.
        key: &'static str,
        /// The name.
        value: Box<str>,
        /// Existing names, or the reason why there are none.
        allowed: Box<str>,
    },
    /// The value does not fit the key, the other keys, or the drive.
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Allowed values.
        allowed: String,
    },
}

impl JobError {
    /// The key whose value is refused; `None`: there is no such key.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            JobError::UnknownKey { .. } => None,
            JobError::Unknown { key, .. } | JobError::Value { key, .. } => Some(key),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::UnknownKey { key, nearest } => {
                let names: Vec<&str> = KEYS.iter().map(|doc| doc.name).collect();
                let nearest = suggest::hint(*nearest);
                write!(f, "{key}: unknown key{nearest}; allowed: {}", names.join(", "))
            }
            JobError::Unknown { key, value, allowed } => {
                let meant = suggest::hint(suggest::meant(value, allowed).as_deref());
                write!(f, "{key} = {value}: unknown{meant}; allowed: {allowed}")
            }
            JobError::Value { key, value, allowed } => {
                let meant = suggest::hint(suggest::meant(value, allowed).as_deref());
                write!(f, "{key} = {value}{meant}: allowed: {allowed}")
            }
        }
    }
}

const fn key(
    name: &'static str,
    aliases: &'static [&'static str],
    example: &'static str,
    help: &'static str,
) -> KeyDoc {
    KeyDoc { name, aliases, help, example }
}

const KEYS: &[KeyDoc] = &[
    key("name", &[], "oltp", "name in reports (default job1, job2, ...)"),
    key(
        "rw",
        &["readwrite"],
        "randrw",
        "pattern (default read): read, write, trim, rw, trimwrite, and each with rand in front; fileserver, webserver, varmail: threads that work on files, as in filebench; chunk-read, chunk-randread, chunk-write, chunk-copy, chunk-reset, zone-read, zone-randread, \
         zone-write, zone-append, zone-reset: chunks or zones by their addresses",
    ),
    key(
        "app",
        &[],
        "varmail",
        "an application instead of a pattern: fileserver, webserver, varmail (filebench's threads on a file system), tar, build (unpacking a tree of sources over an older one, and compiling it), kv (clients of a cache with the settings of [kv]), pagerank, components, bfs, sssp, triangles (a program on a graph out of core), mp3-copy, linux-extract, office-install, office-uninstall, office-remove, browse (a user's work on a netbook, one request at a time; the write-out of layers at its end counts), atto-read, atto-write (a benchmark on it). The operations of the application are measured. Beside other jobs and applications it needs a target or namespace of its own, and all start together once the applications have warmed up",
    ),
    key(
        "filesystem",
        &[],
        "in-place",
        "app: log-structured, the file system of pellucid fs with its data (default); in-place, a model of a file system with a journal",
    ),
    key(
        "backend",
        &[],
        "function",
        "app: interface below the file system: block, function (of the flash library, on an open-channel namespace or raw target), nameless (default: that of the namespace)",
    ),
    key(
        "warm_up",
        &[],
        "96000",
        "app, except graphs and a user's work: operations before the measurement (default: 24 for each file of the set; kv: 1 for each key after the sets of load, 0 with a trace; atto-read and atto-write: 0 transfers)",
    ),
    key(
        "operations",
        &[],
        "32000",
        "app, except graphs and a user's work: operations that are measured (default: 8 for each file of the set; kv: 1 for each key, or all of a trace; atto-read and atto-write: up to the end of the file)",
    ),
    key(
        "filled",
        &[],
        "55%",
        "app: share of the file system that the file set fills at the start, 1% to 95% (default 50%); instead of nfiles",
    ),
    key(
        "meanappendsize",
        &[],
        "16k",
        "app: appends are uniformly distributed up to this size (default: as in filebench)",
    ),
    key(
        "log_size",
        &[],
        "8m",
        "app = webserver: length at which the log is emptied (default: a twenty-fourth of the file system)",
    ),
    key("cleaner", &[], "greedy", "app: choice of the segment to clean: cost-benefit (default) or greedy"),
    key(
        "segment",
        &[],
        "256k",
        "app: bytes of a segment on a block namespace (default: as pellucid fs format chooses; graphs: with each engine a block of each channel, less on a small drive)",
    ),
    key(
        "open_segments",
        &[],
        "12",
        "app on a block namespace: segments that are open for new data at once, and as many for data that the cleaner moves, 1 to 32 (default 1; on flash one in every channel)",
    ),
    key(
        "picks",
        &[],
        "together",
        "app: order in which a thread of a file server picks its files: together, one rotation shared by all threads, as in filebench; apart, a rotation of its own from a random file on (default); random",
    ),
    key(
        "ops",
        &[],
        "20%",
        "app with backend = function: share of the flash that the library keeps as over-provisioning, 0% to 90% (default 20%); graphs with engine = policy: spare blocks of each range, as a share of the range (default 5%)",
    ),
    key("clients", &[], "32", "app = kv: clients, each with one request at a time, 1 to 65536 (default 16)"),
    key(
        "think",
        &[],
        "50us",
        "app = kv: pause of a client between an answer and its next request (default 0)",
    ),
    key(
        "nkeys",
        &[],
        "100000",
        "app = kv: number of keys, at least 10 (default: as many as fill half of the flash)",
    ),
    key(
        "load",
        &[],
        "50000",
        "app = kv: keys that are set once, in order, at the start; only with nkeys (default: all keys)",
    ),
    key(
        "set_share",
        &[],
        "30%",
        "app = kv: percentage of requests that are sets; the others are gets (default 5)",
    ),
    key(
        "popularity",
        &[],
        "zipf:0.99",
        "app = kv: distribution of the keys: uniform, zipf:THETA, normal:DEVIATION%, pareto:SCALE:SHAPE (default zipf:0.99)",
    ),
    key(
        "value_size",
        &[],
        "etc",
        "app = kv: etc, the distribution of Facebook's ETC pool up to 4 KiB (default); etc-tail, its Pareto distribution for all values, up to 4 KiB; or one size of all values, up to 1m",
    ),
    key(
        "requests",
        &[],
        "file:cluster.csv",
        "app = kv: laws, drawn by the keys above (default), or file:PATH, a trace of Twitter's or CacheLib's format, to its end or for warm_up and operations requests; nothing is set before a trace",
    ),
    key(
        "on_miss",
        &[],
        "query",
        "app = kv: reaction to a get that misses: store, its value (default); nothing; query, a database whose answer is stored",
    ),
    key(
        "database_queries",
        &[],
        "8",
        "app = kv with on_miss = query: queries that the database serves at a time, 1 to 65536; others wait (default 12)",
    ),
    key(
        "database_fixed",
        &[],
        "50us",
        "app = kv with on_miss = query: shortest time of a query (default 100us)",
    ),
    key(
        "database_variable",
        &[],
        "50us",
        "app = kv with on_miss = query: mean of the additional time of a query, exponentially distributed (default 100us)",
    ),
    key(
        "volume",
        &[],
        "fat32",
        "app = mp3-copy to atto-write (a user's work): format of the volume, ntfs (default) or fat32, which determines where the file system writes",
    ),
    key(
        "host_time",
        &[],
        "60s",
        "app = mp3-copy to atto-write: time that the host works without its disk, in equal parts before each request (default: the time of this work on a netbook)",
    ),
    key("part", &[], "4", "app = mp3-copy to browse: divisor of the amount of work, 1 to 100 (default 1)"),
    key(
        "others",
        &[],
        "20%",
        "app = office-remove: percentage of the writes that belong to no file, and go to the same places as those of an installation (default 50)",
    ),
    key(
        "engine",
        &[],
        "policy",
        "app = pagerank, components, bfs, sssp, triangles (graphs): storage of data that do not fit into memory: original, a block namespace (default); policy, two \
         block-mapped ranges of the flash library's policy level on an open-channel namespace",
    ),
    key(
        "graph",
        &[],
        "rmat",
        "graphs: rmat (default), power-law:OUT:INTO (exponents of the out-degrees and in-degrees), or file:PATH, an edge list in a format of pellucid graph other than Parquet",
    ),
    key("vertices", &[], "500k", "graphs: vertices of a random graph (default: a sixteenth of its edges)"),
    key(
        "edges",
        &[],
        "4m",
        "graphs: edges of a random graph (default: 4m, or one for each 36 bytes of a smaller drive)",
    ),
    key(
        "graph_memory",
        &[],
        "12m",
        "graphs: memory of the host for the graph; it must be too small for the graph (default: a quarter of 12 bytes for each edge, 20 with weights)",
    ),
    key("iterations", &[], "4", "app = pagerank: most iterations (default 20)"),
    key("damping", &[], "0.85", "app = pagerank: probability that the walk follows an edge (default 0.85)"),
    key(
        "tolerance",
        &[],
        "0",
        "app = pagerank: sum of all changes of an iteration below which it ends (default 1e-6)",
    ),
    key("from_vertex", &[], "17", "app = bfs, sssp: start vertex (default: the first)"),
    key(
        "shards",
        &[],
        "33%",
        "graphs: share of the storage for edges, which are written once; the rest is for values and for edges during sorting (default: a third)",
    ),
    key(
        "edge_block",
        &[],
        "512k",
        "graphs: bytes of edges in one read, and in the read-ahead (default: a 32nd of graph_memory)",
    ),
    key("cpu_completion", &[], "5us", "graphs: processor time of a completion (default 0)"),
    key(
        "cpu_sort",
        &[],
        "98ns",
        "graphs: processor time of an edge in each of the two passes of preparation (default 98ns)",
    ),
    key("cpu_follow", &[], "13ns", "graphs: processor time of an edge that is followed (default 13ns)"),
    key("cpu_apply", &[], "13ns", "graphs: processor time of a vertex that is updated (default 13ns)"),
    key("cores", &[], "2", "app: cores of the host's processor, 1 to 1024 (default 2)"),
    key("cpu_operation", &[], "10us", "app: processor time of an operation (default 10us)"),
    key("cpu_page", &[], "1us", "app: processor time of each 4 KiB that an operation copies (default 1us)"),
    key("cpu_request", &[], "15us", "app: processor time of a request to the drive or library (default 0)"),
    key("cpu_kib", &[], "300ns", "app: processor time of each KiB of a request (default 0)"),
    key(
        "dirty_expire",
        &[],
        "30s",
        "filesystem = in-place: age at which dirty pages are written back (Linux: dirty_expire_centisecs; default 30s)",
    ),
    key(
        "dirty_writeback",
        &[],
        "5s",
        "filesystem = in-place: time between two checks of the ages of dirty pages (Linux: dirty_writeback_centisecs; default 5s)",
    ),
    key("commit", &[], "5s", "filesystem = in-place: interval of the journal's commits (ext4; default 5s)"),
    key(
        "read_ahead",
        &[],
        "128k",
        "filesystem = in-place: largest read (Linux: read_ahead_kb; default 128k)",
    ),
    key(
        "max_sectors",
        &[],
        "512k",
        "filesystem = in-place: largest write (Linux: max_sectors_kb; default 512k)",
    ),
    key(
        "nfiles",
        &[],
        "10000",
        "fileserver, webserver, varmail, tar, build: files of the set (default: as in filebench; with app: as filled says)",
    ),
    key(
        "meanfilesize",
        &[],
        "128k",
        "fileserver, webserver, varmail, tar, build: mean size of a file (default: as in filebench; tar and build: that of Linux's sources, 7967 bytes)",
    ),
    key(
        "nthreads",
        &[],
        "50",
        "fileserver, webserver, varmail, tar, build: threads (default: as in filebench; tar: 1, build: 4)",
    ),
    key(
        "page_cache",
        &[],
        "2g",
        "fileserver, webserver, varmail, tar, build: memory of the host for its page cache (default 2g; with app: a twelfth of the file system)",
    ),
    key(
        "bs",
        &["blocksize"],
        "4k",
        "block size (default 4k; graphs: bytes of a command, 128k); also read,write,trim",
    ),
    key(
        "bsrange",
        &["blocksize_range"],
        "4k-64k",
        "block sizes: multiples of the first size up to the second, uniformly distributed",
    ),
    key(
        "bssplit",
        &[],
        "4k/60:64k/40",
        "block sizes with their shares in percent; takes precedence over bs and bsrange",
    ),
    key(
        "blockalign",
        &["ba"],
        "4k",
        "random offsets are a multiple of this (default: smallest block); no random map",
    ),
    key(
        "size",
        &[],
        "50%",
        "length of the region worked on: bytes, or percent of the drive (default 100%); with app: size of the file system (default: the whole space, at most 256m). If nothing else ends the job, it ends after this many bytes",
    ),
    key("offset", &["fileoffset"], "1g", "start of the region: bytes, or percent of the drive"),
    key("offset_increment", &[], "256m", "added to the offset for each clone of numjobs"),
    key(
        "io_size",
        &["io_limit"],
        "10g",
        "ends the job after this many bytes, or this percentage of the region",
    ),
    key(
        "number_ios",
        &[],
        "1000000",
        "ends the job after this many I/Os, regardless of size (the trim and write of trimwrite count as one); in a fio job file the job also ends after size bytes; 0: no limit",
    ),
    key("loops", &[], "2", "repeats the work this many times"),
    key(
        "runtime",
        &["timeout"],
        "30s",
        "ends the job after this simulated time, regardless of size (in a fio job file only with time_based; there a plain number is in seconds); 0: no limit",
    ),
    key("time_based", &[], "1", "continues until runtime is over, regardless of size"),
    key("ramp_time", &[], "5s", "time at the start that the report leaves out; added to runtime"),
    key(
        "startdelay",
        &["start_delay"],
        "100ms",
        "wait before the first I/O (in a fio job file a plain number is in seconds)",
    ),
    key("iodepth", &[], "64", "I/Os in flight (1 to 65536; default 1, graphs 32)"),
    key("numjobs", &[], "4", "clones of the job that run side by side (1 to 4096; default 1)"),
    key("rwmixread", &[], "70", "percent of reads in a mixed pattern (default 50)"),
    key(
        "rwmixwrite",
        &[],
        "30",
        "percent of writes in a mixed pattern; the later of rwmixread and rwmixwrite counts",
    ),
    key(
        "random_distribution",
        &[],
        "zipf:1.2",
        "random, zipf:theta, pareto:h, normal:deviation%, zoned:access%/size%:..., \
         zoned_abs:access%/bytes:...",
    ),
    key(
        "percentage_random",
        &[],
        "90",
        "percent of a random pattern that is random (default 100); the rest is sequential",
    ),
    key(
        "norandommap",
        &[],
        "0",
        "1: independent random offsets (default); 0: every block once before any block is repeated (default in a fio job file)",
    ),
    key("randseed", &["seed"], "42", "seed of all random choices"),
    key("rate", &[], "100m,50m", "bytes per second; also read,write,trim"),
    key("rate_iops", &[], "5000", "I/Os per second; also read,write,trim"),
    key("rate_process", &[], "poisson", "linear: equal gaps (default); poisson: exponential gaps"),
    key("thinktime", &[], "50us", "pause after I/O (in a fio job file a plain number is in microseconds)"),
    key("thinktime_blocks", &[], "8", "I/Os between pauses (default 1)"),
    key("fsync", &[], "32", "flush after this many writes; 0: never"),
    key("fdatasync", &[], "32", "equal to fsync, from which a drive cannot distinguish it"),
    key("end_fsync", &["fsync_on_close"], "1", "flush at the end of the job"),
    key("sync", &["fua"], "1", "force each write to the media (force unit access)"),
    key("direct", &[], "1", "accepted, without effect: nothing is cached above the drive"),
    key("stonewall", &["wait_for_previous"], "1", "starts when all jobs before it have ended"),
    key("new_group", &[], "1", "begins another group in the report, as stonewall does"),
    key("wait_for", &[], "prepare", "starts when the jobs of this name have ended"),
    key("namespace", &[], "1", "block namespace that the job works on, counted from 0 (default: the first)"),
    key("target", &[], "log", "target of the description ([[target]]) that the job works on"),
    key("units", &[], "0-3", "chunk patterns: parallel units of the namespace or target (default: all)"),
    key("vector", &[], "4", "chunk patterns: places that each I/O is spread over, as one vector command"),
    key("open_zones", &[], "4", "zone-write, zone-append: zones written in turn (default 1)"),
    key(
        "flow",
        &[],
        "4",
        "weight: the I/Os of the jobs of one flow_id are in proportion to their weights; 0: none",
    ),
    key("flow_id", &[], "1", "group of jobs to which flow applies (default 0)"),
    key("queue", &[], "0", "submission queue of the drive that the job uses"),
    key("fdp", &[], "1", "1: writes carry placement handles, those of plids or all that the drive has"),
    key("dataplacement", &[], "fdp", "none, or fdp, which is fdp=1"),
    key("plids", &["fdp_pli"], "1,2", "placement handles of the writes (in a fio job file only with fdp=1)"),
    key("plid_select", &["fdp_pli_select"], "random", "order of the handles: roundrobin, random"),
    key(
        "kb_base",
        &[],
        "1024",
        "in a fio job file: 1024: k is 1024 and ki 1000; 1000: k is 1000 and ki 1024",
    ),
];

/// Keys that apply to threads working on files.
const USED_BY_FILES: &[&str] = &[
    "name",
    "rw",
    "nfiles",
    "meanfilesize",
    "nthreads",
    "page_cache",
    "runtime",
    "ramp_time",
    "randseed",
    "namespace",
    "target",
    "queue",
    "kb_base",
    "time_based",
];

/// Collects keys into a [`Job`].
#[derive(Clone, Debug)]
pub struct JobBuilder {
    job: Job,
    dialect: Dialect,
    grammar: Grammar,
    split: [Option<BlockSize>; 3],
    io_size: Option<Amount>,
    time_based: bool,
    think_time: Nanos,
    think_blocks: u32,
    rate_bytes: Option<[Rate; 3]>,
    rate_iops: Option<[Rate; 3]>,
    placement: Option<bool>,
    plids: Option<Vec<u16>>,
    file_keys: FileKeys,
    app_keys: AppKeys,
    raw_keys: RawKeys,
    flow_weight: u32,
    flow_group: u32,
}

impl JobBuilder {
    /// Creates a job with the defaults of `dialect`: 4 KiB sequential reads at depth 1, over the whole drive.
    pub fn new(dialect: Dialect) -> JobBuilder {
        let job = Job {
            name: "job".into(),
            pattern: Pattern::Read,
            block: [const { BlockSize::Fixed(4096) }; 3],
            align_bytes: [None; 3],
            iodepth: 1,
            read_percent: 50,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            size: Amount::Percent(100),
            limit: IoLimit::Region,
            number_ios: None,
            loops: 1,
            runtime: None,
            ramp_time: Nanos::ZERO,
            start_delay: Nanos::ZERO,
            distribution: [const { Distribution::Uniform }; 3],
            random_percent: [100; 3],
            random_map: dialect == Dialect::Fio,
            rate: [Rate::Unlimited; 3],
            rate_process: RateProcess::Linear,
            think: None,
            flush_every: 0,
            flush_at_end: false,
            fua: false,
            numjobs: 1,
            clone_index: 0,
            seed: 0,
            stream: 0,
            stonewall: false,
            new_group: false,
            wait_for: None,
            namespace: None,
            target: None,
            flow: None,
            queue: 0,
            handles: HandleList::Off,
            handle_select: HandleSelect::RoundRobin,
            written: Written::default(),
            files: None,
            app: None,
            raw: None,
        };
        JobBuilder {
            job,
            file_keys: FileKeys::default(),
            app_keys: AppKeys::default(),
            raw_keys: RawKeys::default(),
            flow_weight: 0,
            flow_group: 0,
            dialect,
            grammar: match dialect {
                Dialect::Native => Grammar::Ours,
                Dialect::Fio => Grammar::Fio { kb_base: 1024 },
            },
            split: [None, None, None],
            io_size: None,
            time_based: false,
            think_time: Nanos::ZERO,
            think_blocks: 1,
            rate_bytes: None,
            rate_iops: None,
            placement: None,
            plids: None,
        }
    }

    /// Like [`JobBuilder::set`], for a key written at `place`.
    pub fn set_at(&mut self, place: &str, key: &str, value: &str) -> Result<(), JobError> {
        self.set(key, value)?;
        if let Some(doc) = JobBuilder::key(key) {
            self.job.written.note(doc.name, place, value.trim());
        }
        Ok(())
    }

    /// Sets the place at which the job begins.
    pub fn begin_at(&mut self, place: impl Into<String>) {
        self.job.written.begin(place.into());
    }

    /// Every key, in listing order.
    pub fn keys() -> &'static [KeyDoc] {
        KEYS
    }

    /// The table's entry for `key`, by its name or an alias.
    pub fn key(key: &str) -> Option<&'static KeyDoc> {
        KEYS.iter().find(|doc| doc.name == key || doc.aliases.contains(&key))
    }

    /// Sets one key. An empty value means 1 for boolean keys.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        let Some(doc) = JobBuilder::key(key) else {
            return Err(JobError::UnknownKey { key: key.into(), nearest: nearest(key) });
        };
        let value = value.trim();
        let wrong = |Allowed(allowed)| JobError::Value { key: doc.name, value: value.into(), allowed };
        self.apply(doc.name, value).map_err(wrong)
    }

    fn apply(&mut self, key: &str, value: &str) -> Parsed<()> {
        let base = self.grammar;
        let second = Nanos::from_secs(1);
        if self.app_keys.take(key, value, base)? {
            return Ok(());
        }
        let job = &mut self.job;
        match key {
            "name" => job.name = text(value)?,
            "rw" => {
                self.file_keys.personality = Personality::ALL.into_iter().find(|p| p.name() == value);
                let is_raw = self.raw_keys.take(value);
                if self.file_keys.personality.is_none() && !is_raw {
                    job.pattern = pattern(value)?;
                }
            }
            "nfiles" => self.file_keys.files = Some(count(value, base, 10, 100_000_000)? as u32),
            "meanfilesize" => self.file_keys.file_bytes = Some(bytes_from(value, base, 1)?),
            "nthreads" => self.file_keys.threads = Some(count(value, base, 1, 4096)? as u32),
            "page_cache" => self.file_keys.page_cache_bytes = Some(bytes_from(value, base, 1 << 20)?),
            "bs" => set_each(&mut job.block, value, |v| Ok(BlockSize::Fixed(block_bytes(v, base)?)))?,
            "bsrange" => set_each(&mut job.block, value, |v| block_range(v, base))?,
            "bssplit" => set_each(&mut self.split, value, |v| block_split(v, base).map(Some))?,
            "blockalign" => set_each(&mut job.align_bytes, value, |v| block_bytes(v, base).map(Some))?,
            "size" => match parse_amount(value, base)? {
                Amount::Bytes(0) | Amount::Percent(0) => return allowed("more than 0"),
                size => job.size = size,
            },
            "offset" => job.offset = parse_amount(value, base)?,
            "offset_increment" => job.offset_increment = parse_amount(value, base)?,
            "io_size" => {
                let amount = parse_amount(value, base)?;
                self.io_size = Some(amount).filter(|a| !matches!(a, Amount::Bytes(0) | Amount::Percent(0)));
            }
            "number_ios" => job.number_ios = Some(count(value, base, 0, u64::MAX)?).filter(|n| *n > 0),
            "loops" => job.loops = count(value, base, 1, u32::MAX.into())? as u32,
            "runtime" => job.runtime = Some(parse_time(value, second, base)?).filter(|t| *t > Nanos::ZERO),
            "time_based" => self.time_based = boolean(value)?,
            "ramp_time" => job.ramp_time = parse_time(value, second, base)?,
            "startdelay" => job.start_delay = parse_time(value, second, base)?,
            "iodepth" => job.iodepth = count(value, base, 1, 65_536)? as u32,
            "numjobs" => job.numjobs = count(value, base, 1, 4096)? as u32,
            "rwmixread" => job.read_percent = percent(value)?,
            "rwmixwrite" => job.read_percent = 100 - percent(value)?,
            "random_distribution" => job.distribution = laws::distributions(value, base)?,
            "percentage_random" => set_each(&mut job.random_percent, value, percent)?,
            "norandommap" => job.random_map = !boolean(value)?,
            "randseed" => job.seed = count(value, base, 0, u64::MAX)?,
            "rate" => set_each(self.rate_bytes.get_or_insert_default(), value, |v| {
                Ok(rate(parse_bytes(v, base)?, Rate::Bytes))
            })?,
            "rate_iops" => set_each(self.rate_iops.get_or_insert_default(), value, |v| {
                Ok(rate(count(v, base, 0, u64::MAX)?, Rate::Iops))
            })?,
            "rate_process" => {
                job.rate_process = match value {
                    "linear" => RateProcess::Linear,
                    "poisson" => RateProcess::Poisson,
                    _ => return allowed("linear or poisson"),
                }
            }
            "thinktime" => self.think_time = parse_time(value, Nanos::from_us(1), base)?,
            "thinktime_blocks" => self.think_blocks = count(value, base, 1, u32::MAX.into())? as u32,
            "fsync" | "fdatasync" => job.flush_every = count(value, base, 0, u32::MAX.into())? as u32,
            "end_fsync" => job.flush_at_end = boolean(value)?,
            "sync" => {
                job.fua = match value {
                    "none" => false,
                    "sync" | "dsync" => true,
                    other => boolean(other).or_else(|_| allowed("none or 0, sync or 1, dsync"))?,
                }
            }
            "direct" => drop(boolean(value)?),
            "stonewall" => job.stonewall = boolean(value)?,
            "new_group" => job.new_group = boolean(value)?,
            "wait_for" => job.wait_for = Some(text(value)?),
            "namespace" => job.namespace = Some(count(value, base, 0, u16::MAX.into())? as u16),
            "target" => job.target = Some(text(value)?),
            "units" => self.raw_keys.units = Some(raw::units(value)?),
            "vector" => {
                self.raw_keys.vector = Some(count(value, base, 1, Vector::ADDRESSES_MAX as u64)? as u32);
            }
            "open_zones" => self.raw_keys.open_zones = Some(count(value, base, 1, u32::MAX.into())? as u32),
            "flow" => self.flow_weight = count(value, base, 0, 1000)? as u32,
            "flow_id" => self.flow_group = count(value, base, 0, u32::MAX.into())? as u32,
            "queue" => job.queue = count(value, base, 0, u16::MAX.into())? as u16,
            "fdp" => self.placement = Some(boolean(value)?),
            "dataplacement" => {
                self.placement = match value {
                    "none" => Some(false),
                    "fdp" => Some(true),
                    _ => return allowed("none or fdp"),
                }
            }
            "plids" => {
                let handle = |part: &str| count(part.trim(), base, 0, u64::from(HANDLES_MAX) - 1);
                let list = value.split(',').map(|part| Ok(handle(part)? as u16));
                self.plids = Some(list.collect::<Parsed<Vec<u16>>>()?);
            }
            "plid_select" => {
                job.handle_select = match value {
                    "roundrobin" => HandleSelect::RoundRobin,
                    "random" => HandleSelect::Random,
                    _ => return allowed("roundrobin or random"),
                }
            }
            "kb_base" => {
                let kb_base = match value {
                    "1024" => 1024,
                    "1000" => 1000,
                    _ => return allowed("1000 or 1024"),
                };
                if self.dialect == Dialect::Native {
                    return allowed("only in a job file of fio; here k and KiB are 1024 bytes");
                }
                self.grammar = Grammar::Fio { kb_base };
            }
            other => unreachable!("the key {other} of the table has no arm"),
        }
        Ok(())
    }

    /// Builds the job, with `numjobs` not yet [expanded](super::expand).
    pub fn build(&self) -> Result<Job, JobError> {
        let refuse = |key, value: &str, allowed: &str| {
            Err(JobError::Value { key, value: value.into(), allowed: allowed.into() })
        };
        let mut job = self.job.clone();
        if self.time_based && job.runtime.is_none() {
            return refuse("time_based", "1", "only together with runtime");
        }
        if self.rate_bytes.is_some() && self.rate_iops.is_some() {
            return refuse("rate_iops", self.job.written.value_of("rate_iops"), "not together with rate");
        }
        for (block, split) in job.block.iter_mut().zip(&self.split) {
            if let Some(split) = split {
                *block = split.clone();
            }
        }
        job.rate = self.rate_bytes.or(self.rate_iops).unwrap_or_default();
        job.think = (self.think_time > Nanos::ZERO)
            .then_some(Think { time: self.think_time, blocks: self.think_blocks });
        let places = self.placement.unwrap_or(self.dialect == Dialect::Native && self.plids.is_some());
        job.handles = match &self.plids {
            _ if !places => HandleList::Off,
            None => HandleList::All,
            Some(list) => HandleList::These(list.clone()),
        };
        let other_end = job.number_ios.is_some() || job.runtime.is_some();
        job.limit = match self.io_size {
            _ if self.time_based => IoLimit::None,
            Some(amount) => IoLimit::Amount(amount),
            None if self.dialect == Dialect::Native && other_end => IoLimit::None,
            None => IoLimit::Region,
        };
        job.flow =
            (self.flow_weight > 0).then_some(Flow { weight: self.flow_weight, group: self.flow_group });
        if job.target.is_some() && job.namespace.is_some() {
            return refuse("namespace", job.written.value_of("namespace"), "not together with target");
        }
        job.app = self.app_keys.build(&job, &self.file_keys)?;
        if job.app.is_some() {
            return Ok(job);
        }
        self.build_raw(&mut job)?;
        job.written.no_effect = self.no_effect(&job, places);
        self.build_files(&mut job)?;
        Ok(job)
    }

    /// Adds the threads of a file server, if `rw` names one.
    fn build_files(&self, job: &mut Job) -> Result<(), JobError> {
        let refuse = |key, value: &str, allowed: &str| {
            Err(JobError::Value { key, value: value.into(), allowed: allowed.into() })
        };
        let FileKeys { personality, files, file_bytes, threads, page_cache_bytes } = self.file_keys;
        job.files = personality.map(|personality| FileJob {
            personality,
            files,
            file_bytes,
            threads,
            page_cache_bytes,
        });
        if job.files.is_none() {
            let given = [
                ("nfiles", files.is_some()),
                ("meanfilesize", file_bytes.is_some()),
                ("nthreads", threads.is_some()),
                ("page_cache", page_cache_bytes.is_some()),
            ];
            if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
                let value = job.written.value_of(key);
                return refuse(key, value, "only with app or rw = fileserver, webserver or varmail");
            }
        } else if job.numjobs > 1 {
            return refuse(
                "numjobs",
                &job.numjobs.to_string(),
                "1 with threads that work on files; nthreads says how many",
            );
        }
        Ok(())
    }

    /// Adds work on chunks or zones, if `rw` names it.
    fn build_raw(&self, job: &mut Job) -> Result<(), JobError> {
        let refused = |(key, value, allowed)| JobError::Value { key, value, allowed };
        let Some(work) = self.raw_keys.build().map_err(refused)? else { return Ok(()) };
        let unused = |name: &&str| !USED_BY_RAW.contains(name) && job.written.has(name);
        if let Some(key) = KEYS.iter().map(|doc| doc.name).find(unused) {
            let allowed = format!("not with rw = {}", work.name());
            return Err(refused((key, job.written.value_of(key).into(), allowed)));
        }
        job.pattern = work.pattern();
        job.raw = Some(work);
        Ok(())
    }

    /// Given keys without effect, with the reason; `places`: writes carry handles.
    fn no_effect(&self, job: &Job, places: bool) -> Vec<(&'static str, &'static str)> {
        let directions = job.pattern.directions();
        let (reads, writes) = (directions.contains(&Direction::Read), directions.contains(&Direction::Write));
        let (random, mixed) = (job.pattern.is_random(), reads && writes);
        let no_writes = "rw has no writes";
        let sequential = "rw is sequential";
        let sizeless = job.raw.as_ref().is_some_and(|raw| raw.action == Action::Reset);
        let rules: [(&'static [&'static str], bool, &'static str); 11] = [
            (&["rwmixread", "rwmixwrite"], !mixed, "rw does not mix reads and writes"),
            (&["random_distribution", "percentage_random", "norandommap"], !random, sequential),
            (&["fsync", "fdatasync", "end_fsync", "sync"], !writes, no_writes),
            (&["thinktime_blocks"], self.think_time == Nanos::ZERO, "there is no thinktime"),
            (
                &["rate_process"],
                self.rate_bytes.is_none() && self.rate_iops.is_none(),
                "there is neither rate nor rate_iops",
            ),
            (&["bs", "bsrange"], self.split.iter().all(Option::is_some), "bssplit takes precedence"),
            (&["io_size"], self.time_based, "time_based goes on until runtime is over"),
            (&["flow_id"], self.flow_weight == 0, "there is no flow"),
            (&["bs", "bsrange", "bssplit"], sizeless, "a chunk or zone is reset as a whole"),
            (&["offset_increment"], job.numjobs == 1, "numjobs is 1"),
            (&["plids", "plid_select"], !places || !writes, "writes carry no placement handles"),
        ];
        let without = rules.into_iter().filter(|(_, without, _)| *without);
        let given = without.flat_map(|(keys, _, why)| keys.iter().map(move |&key| (key, why)));
        if self.file_keys.personality.is_some() {
            let unused = KEYS.iter().map(|doc| doc.name).filter(|name| !USED_BY_FILES.contains(name));
            return unused
                .filter(|key| job.written.has(key))
                .map(|key| (key, "threads work on files"))
                .collect();
        }
        given.filter(|(key, _)| job.written.has(key)).collect()
    }

    /// Overrides the depth, for fio's synchronous engines.
    pub(super) fn set_iodepth(&mut self, iodepth: u32) {
        self.job.iodepth = iodepth;
    }

    pub(super) fn iodepth(&self) -> u32 {
        self.job.iodepth
    }
}

/// The key spelt most like `key`, when at most a third of its letters differ.
fn nearest(key: &str) -> Option<&'static str> {
    suggest::nearest(key, KEYS.iter().flat_map(|doc| std::iter::once(&doc.name).chain(doc.aliases)).copied())
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
