//! Applications as jobs: `app = "varmail"` and so on, instead of a pattern of requests.
//!
//! ```text
//!   keys ─► AppKeys ─► AppJob ─► lab::application        defaults follow from the size of the drive there
//! ```
//! A key that an application does not use is refused, with its place.

mod desktop;
mod graph;
mod kv;

pub use desktop::DesktopApp;
pub use graph::{GraphApp, GraphCosts, GraphEngine, GraphProgram, GraphSource};
pub use kv::KvApp;

use super::units::{Amount, Grammar, parse_amount, parse_bytes, parse_time};
use super::values::{Allowed, Parsed, allowed, bytes_from, count};
use super::{Job, JobBuilder, JobError};
use crate::files::{self, Personality, Picks};
use desktop::{DesktopKeys, DesktopName, OF_DESKTOP};
use graph::{GraphKeys, GraphName, OF_GRAPHS, SharedKeys};
use kv::{KV, KvKeys, OF_KV};
use pellucid_flash::Nanos;
use std::path::Path;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Application of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct AppJob {
    /// Its work.
    pub work: AppWork,
    /// `warm_up`: operations before the measurement; `None`: the application's default.
    pub warm_up: Option<u64>,
    /// `operations`: number to measure; `None`: the application's default.
    pub operations: Option<u64>,
}

/// Work of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum AppWork {
    /// Threads of a file server.
    Files(FilesApp),
    /// Clients of a key-value cache.
    Kv(KvApp),
    /// A program on a graph.
    Graph(GraphApp),
    /// A user's work on a netbook.
    Desktop(DesktopApp),
}

impl AppJob {
    /// Its name, as in `app`.
    pub fn name(&self) -> &'static str {
        match &self.work {
            AppWork::Files(files) => files.personality.name(),
            AppWork::Kv(_) => KV,
            AppWork::Graph(graph) => graph.program.name(),
            AppWork::Desktop(desktop) => desktop.work.name(),
        }
    }

    /// The file from which its work comes, if any.
    pub fn file(&self) -> Option<&Path> {
        match &self.work {
            AppWork::Kv(KvApp { trace, .. }) => trace.as_deref(),
            AppWork::Graph(GraphApp { source: GraphSource::File(path), .. }) => Some(path),
            AppWork::Files(_) | AppWork::Graph(_) | AppWork::Desktop(_) => None,
        }
    }

    /// Reports whether the application reads back its own writes, so that the drive must store data.
    pub fn needs_data(&self) -> bool {
        match &self.work {
            AppWork::Files(files) => files.file_system == FileSystem::LogStructured,
            AppWork::Kv(_) | AppWork::Graph(_) => true,
            AppWork::Desktop(_) => false,
        }
    }
}

/// File system of a file server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum FileSystem {
    /// The model of a file system that writes in place, with a journal.
    InPlace,
    /// The file system of `pellucid fs`, with its data.
    #[default]
    LogStructured,
}

impl FileSystem {
    /// Its name, as in `filesystem`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Interface that an application uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Backend {
    /// Logical blocks.
    Block,
    /// Function level of the flash library, on an open-channel namespace or a raw target.
    Function,
    /// Nameless writes.
    Nameless,
}

impl Backend {
    /// Its name, as in `backend`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Policy of a log-structured file system's cleaner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Cleaner {
    /// By live data and age of a segment.
    #[default]
    CostBenefit,
    /// The segment with the least live data.
    Greedy,
}

/// Settings of a file server; `None`: derived from the drive or the personality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilesApp {
    /// `app`.
    pub personality: Personality,
    /// `filesystem`.
    pub file_system: FileSystem,
    /// `backend`; `None`: that of the namespace.
    pub backend: Option<Backend>,
    /// `size`: share or size of the possible file system.
    pub size: Option<Amount>,
    /// `nfiles` or `filled`.
    pub files: FileCount,
    /// `meanfilesize`.
    pub file_bytes: Option<u64>,
    /// `meanappendsize`.
    pub append_bytes: Option<u64>,
    /// `log_size`.
    pub log_bytes: Option<u64>,
    /// `nthreads`.
    pub threads: Option<u32>,
    /// `page_cache`.
    pub memory_bytes: Option<u64>,
    /// `cleaner`.
    pub cleaner: Cleaner,
    /// `segment`.
    pub segment_bytes: Option<u64>,
    /// `open_segments`.
    pub open_segments: u32,
    /// `picks`.
    pub picks: Picks,
    /// `ops`: percentage of the flash.
    pub ops_percent: u32,
    /// Processor of the host.
    pub processor: Processor,
    /// Kernel of the host.
    pub kernel: Kernel,
}

/// Number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCount {
    /// `nfiles`.
    Number(u32),
    /// `filled`: as many as fill this percentage of the file system at the start.
    Percent(u8),
}

/// Processor of the host that an application runs on; `None`: the default of [`HostModel`](crate::files::HostModel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// `cores`.
    pub cores: Option<u32>,
    /// `cpu_operation`.
    pub operation: Option<Nanos>,
    /// `cpu_page`.
    pub page: Option<Nanos>,
    /// `cpu_request`.
    pub request: Option<Nanos>,
    /// `cpu_kib`.
    pub request_kib: Option<Nanos>,
}

/// Write-back and requests of a file system that writes in place; `None`: the default of [`HostModel`](crate::files::HostModel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// `dirty_expire`.
    pub expire: Option<Nanos>,
    /// `dirty_writeback`.
    pub wakeup: Option<Nanos>,
    /// `commit`.
    pub commit: Option<Nanos>,
    /// `read_ahead`.
    pub read_bytes: Option<u64>,
    /// `max_sectors`.
    pub write_bytes: Option<u64>,
}

/// Keys of [`Kernel`].
const OF_KERNEL: [&str; 5] = ["dirty_expire", "dirty_writeback", "commit", "read_ahead", "max_sectors"];

/// Shortest interval of a kernel's background work.
const INTERVAL_MIN: Nanos = Nanos(1_000);
/// Upper bound of a kernel's largest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

impl Kernel {
    fn take(&mut self, key: &str, value: &str, base: Grammar) -> Parsed<bool> {
        let interval = |value: &str| match parse_time(value, Nanos(1), base)? {
            time if time >= INTERVAL_MIN => Ok(Some(time)),
            _ => allowed("1us or more"),
        };
        let request = |value: &str| match parse_bytes(value, base)? {
            bytes if (files::BLOCK_BYTES..=REQUEST_BYTES_MAX).contains(&bytes) => Ok(Some(bytes)),
            _ => allowed("4k to 1g"),
        };
        match key {
            "dirty_expire" => self.expire = interval(value)?,
            "dirty_writeback" => self.wakeup = interval(value)?,
            "commit" => self.commit = interval(value)?,
            "read_ahead" => self.read_bytes = request(value)?,
            "max_sectors" => self.write_bytes = request(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Percent of the file system that files fill at the start.
const FILLED_PERCENT: u8 = 50;
/// `Flash_SetOPS`: the example of the Prism-SSD paper, section IV-A, reserves 25 % on top of the
/// used space.
const OPS_PERCENT: u32 = 20;
/// Maximum open segments of a stream, equal to that of `MountOptions` in the file system.
pub const OPEN_SEGMENTS_MAX: u32 = 32;

/// Keys of every application.
const OF_ANY: &[&str] = &["name", "app", "randseed", "kb_base"];

/// Keys of file servers.
const OF_FILES: &[&str] = &[
    "warm_up",
    "operations",
    "filesystem",
    "backend",
    "size",
    "nfiles",
    "filled",
    "meanfilesize",
    "meanappendsize",
    "nthreads",
    "page_cache",
    "log_size",
    "cleaner",
    "segment",
    "open_segments",
    "picks",
    "ops",
    "cores",
    "cpu_operation",
    "cpu_page",
    "cpu_request",
    "cpu_kib",
    "dirty_expire",
    "dirty_writeback",
    "commit",
    "read_ahead",
    "max_sectors",
    "namespace",
    "target",
];

/// Keys among these that other jobs also have.
const SHARED: &[&str] = &[
    "name",
    "randseed",
    "kb_base",
    "size",
    "nfiles",
    "meanfilesize",
    "nthreads",
    "page_cache",
    "bs",
    "iodepth",
    "namespace",
    "target",
];

/// Kind of application, by its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// File servers.
    Files,
    /// Clients of a key-value cache.
    Kv,
    /// Programs on graphs.
    Graphs,
    /// Work of a user on a netbook.
    Desktop,
}

impl AppKind {
    /// Reports whether its applications use `key`, possibly a key common to all.
    pub fn asks(self, key: &str) -> bool {
        let own = match self {
            AppKind::Files => OF_FILES,
            AppKind::Kv => OF_KV,
            AppKind::Graphs => OF_GRAPHS,
            AppKind::Desktop => OF_DESKTOP,
        };
        OF_ANY.contains(&key) || own.contains(&key)
    }

    /// Names of its applications, as in `app`.
    pub fn names(self) -> Vec<&'static str> {
        match self {
            AppKind::Files => Personality::APPS.map(Personality::name).to_vec(),
            AppKind::Kv => vec![KV],
            AppKind::Graphs => GraphName::VARIANTS.to_vec(),
            AppKind::Desktop => DesktopName::VARIANTS.to_vec(),
        }
    }
}

/// Keys of applications, for any `app`.
#[derive(Clone, Debug, Default)]
pub(super) struct AppKeys {
    app: Option<AppName>,
    kv: KvKeys,
    graph: GraphKeys,
    desktop: DesktopKeys,
    file_system: FileSystem,
    backend: Option<Backend>,
    filled: Option<u8>,
    append_bytes: Option<u64>,
    log_bytes: Option<u64>,
    cleaner: Cleaner,
    segment_bytes: Option<u64>,
    open_segments: Option<u32>,
    picks: Option<Picks>,
    ops_percent: Option<u32>,
    processor: Processor,
    kernel: Kernel,
    warm_up: Option<u64>,
    operations: Option<u64>,
}

/// Names of applications.
#[derive(Clone, Copy, Debug)]
enum AppName {
    Files(Personality),
    Kv,
    Graph(GraphName),
    Desktop(DesktopName),
}

impl AppName {
    fn of(value: &str) -> Option<AppName> {
        let files = Personality::APPS.into_iter().find(|personality| personality.name() == value);
        let graph = || value.parse().ok().map(AppName::Graph);
        let desktop = || value.parse().ok().map(AppName::Desktop);
        files.map(AppName::Files).or((value == KV).then_some(AppName::Kv)).or_else(graph).or_else(desktop)
    }
}

/// Keys of a file set that other jobs also have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileKeys {
    pub personality: Option<Personality>,
    pub files: Option<u32>,
    pub file_bytes: Option<u64>,
    pub threads: Option<u32>,
    pub page_cache_bytes: Option<u64>,
}

fn named<T: std::str::FromStr + VariantNames>(value: &str) -> Parsed<T> {
    value.parse().map_err(|_| Allowed(T::VARIANTS.join(", ")))
}

/// Names of all applications, for messages.
pub(super) fn names() -> String {
    let files = Personality::APPS.map(Personality::name).join(", ");
    format!("{files}, {KV}, {}, {}", GraphName::VARIANTS.join(", "), DesktopName::VARIANTS.join(", "))
}

impl AppKeys {
    /// Accepts one key; returns whether it belongs to an application.
    pub fn take(&mut self, key: &str, value: &str, base: Grammar) -> Parsed<bool> {
        let kernel = &mut self.kernel;
        if self.kv.take(key, value, base)?
            || self.graph.take(key, value, base)?
            || self.desktop.take(key, value, base)?
            || kernel.take(key, value, base)?
        {
            return Ok(true);
        }
        let time = |value: &str| parse_time(value, Nanos(1), base).map(Some);
        match key {
            "app" => {
                self.app = AppName::of(value);
                if self.app.is_none() {
                    return allowed(names());
                }
            }
            "filesystem" => self.file_system = named(value)?,
            "backend" => self.backend = Some(named(value)?),
            "filled" => {
                self.filled = match parse_amount(value, base)? {
                    Amount::Percent(percent @ 1..=95) => Some(percent),
                    _ => return allowed("1% to 95%"),
                }
            }
            "meanappendsize" => self.append_bytes = Some(bytes_from(value, base, 1)?),
            "log_size" => self.log_bytes = Some(bytes_from(value, base, 1)?),
            "cleaner" => self.cleaner = named(value)?,
            "segment" => self.segment_bytes = Some(bytes_from(value, base, 1 << 16)?),
            "open_segments" => {
                self.open_segments = Some(count(value, base, 1, OPEN_SEGMENTS_MAX.into())? as u32)
            }
            "picks" => self.picks = Some(named(value)?),
            "ops" => {
                self.ops_percent = match parse_amount(value, base)? {
                    Amount::Percent(percent @ 0..=90) => Some(percent.into()),
                    _ => return allowed("0% to 90%"),
                }
            }
            "cores" => self.processor.cores = Some(count(value, base, 1, 1024)? as u32),
            "cpu_operation" => self.processor.operation = time(value)?,
            "cpu_page" => self.processor.page = time(value)?,
            "cpu_request" => self.processor.request = time(value)?,
            "cpu_kib" => self.processor.request_kib = time(value)?,
            "warm_up" => self.warm_up = Some(count(value, base, 0, u64::MAX)?),
            "operations" => self.operations = Some(count(value, base, 1, u64::MAX)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Builds the application of a job; `None`: it has none.
    pub fn build(&self, job: &Job, files: &FileKeys) -> Result<Option<AppJob>, JobError> {
        let given = |key: &str| job.written.has(key);
        let Some(app) = self.app else {
            let own = [OF_ANY, OF_FILES, OF_KV, OF_GRAPHS, OF_DESKTOP].concat();
            let unused = own.into_iter().find(|key| given(key) && !SHARED.contains(key));
            return unused.map_or(Ok(None), |key| refuse(key, job.written.value_of(key), "only with an app"));
        };
        let (name, asked) = match app {
            AppName::Kv => (KV, OF_KV),
            AppName::Files(personality) => (personality.name(), OF_FILES),
            AppName::Graph(name) => (name.name(), OF_GRAPHS),
            AppName::Desktop(name) => (name.name(), OF_DESKTOP),
        };
        let is_used = |key: &str| OF_ANY.contains(&key) || asked.contains(&key);
        if let Some(key) =
            JobBuilder::keys().iter().map(|doc| doc.name).find(|key| given(key) && !is_used(key))
        {
            return refuse(key, job.written.value_of(key), &format!("not with app = {name}"));
        }
        let (warm_up, operations) = (self.warm_up, self.operations);
        let work = match app {
            AppName::Kv => AppWork::Kv(self.kv.build(job)?),
            AppName::Files(personality) => AppWork::Files(self.files(personality, job, files)?),
            AppName::Graph(name) => AppWork::Graph(self.graph.build(name, job, self.shared())?),
            AppName::Desktop(name) => {
                AppWork::Desktop(self.desktop.build(name, job, (warm_up, operations))?)
            }
        };
        Ok(Some(AppJob { work, warm_up, operations }))
    }

    /// Values of keys shared with graph programs.
    fn shared(&self) -> SharedKeys {
        SharedKeys {
            segment_bytes: self.segment_bytes,
            ops_percent: self.ops_percent,
            request: self.processor.request,
            kib: self.processor.request_kib,
        }
    }

    /// Builds the file server of a job.
    fn files(&self, personality: Personality, job: &Job, files: &FileKeys) -> Result<FilesApp, JobError> {
        self.check_files(personality, job)?;
        Ok(FilesApp {
            personality,
            file_system: self.file_system,
            backend: self.backend,
            size: job.written.has("size").then_some(job.size),
            files: match files.files {
                Some(number) => FileCount::Number(number),
                None => FileCount::Percent(self.filled.unwrap_or(FILLED_PERCENT)),
            },
            file_bytes: files.file_bytes,
            append_bytes: self.append_bytes,
            log_bytes: self.log_bytes,
            threads: files.threads,
            memory_bytes: files.page_cache_bytes,
            cleaner: self.cleaner,
            segment_bytes: self.segment_bytes,
            open_segments: self.open_segments.unwrap_or(1),
            picks: self.picks.unwrap_or(Picks::Apart),
            ops_percent: self.ops_percent.unwrap_or(OPS_PERCENT),
            processor: self.processor,
            kernel: self.kernel,
        })
    }

    /// Refuses keys that this file server does not use.
    fn check_files(&self, personality: Personality, job: &Job) -> Result<(), JobError> {
        let given = |key: &str| job.written.has(key);
        let in_place = self.file_system == FileSystem::InPlace;
        let rules: [(&'static str, bool, &str); 8] = [
            ("meanappendsize", !personality.appends(), "not with app = tar or build, which append nothing"),
            ("log_size", personality != Personality::Webserver, "only with app = webserver"),
            ("filled", given("nfiles"), "not together with nfiles"),
            ("cleaner", in_place, "only with filesystem = log-structured"),
            ("segment", in_place, "only with filesystem = log-structured"),
            ("open_segments", in_place, "only with filesystem = log-structured"),
            ("ops", in_place, "only with filesystem = log-structured"),
            (
                "backend",
                in_place && self.backend != Some(Backend::Block),
                "block with filesystem = in-place, which knows logical blocks alone",
            ),
        ];
        let of_kernel = OF_KERNEL.map(|key| (key, !in_place, "only with filesystem = in-place"));
        match rules.into_iter().chain(of_kernel).find(|(key, wrong, _)| *wrong && given(key)) {
            Some((key, _, allowed)) => refuse(key, job.written.value_of(key), allowed),
            None => Ok(()),
        }
    }
}

fn refuse<T>(key: &'static str, value: &str, allowed: &str) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.into(), allowed: allowed.into() })
}
