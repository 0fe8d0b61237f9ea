//! Applications as jobs: `app = "varmail"` and so on, instead of a pattern of requests.
//!
//! ```text
//!   keys ─► AppKeys ─► AppJob ─► lab::application        what is not given follows from the size of the drive there
//! ```
//! A key that an application does not ask for is refused, with its place.

use super::units::{Amount, Grammar, parse_amount, parse_time};
use super::values::{Allowed, Parsed, allowed, bytes_from, count};
use super::{Job, JobBuilder, JobError};
use crate::files::Personality;
use pellucid_flash::Nanos;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Application of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct AppJob {
    /// Its work.
    pub work: AppWork,
    /// `warm_up`: operations before the measurement; `None`: what suits the application.
    pub warm_up: Option<u64>,
    /// `operations`: those that are measured; `None`: what suits the application.
    pub operations: Option<u64>,
}

/// Work of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum AppWork {
    /// Threads of a file server.
    Files(FilesApp),
}

impl AppJob {
    /// Its name, as in `app`.
    pub fn name(&self) -> &'static str {
        match &self.work {
            AppWork::Files(files) => files.personality.name(),
        }
    }

    /// Returns whether it reads back what it wrote, so that the drive has to keep data.
    pub fn needs_data(&self) -> bool {
        match &self.work {
            AppWork::Files(files) => files.file_system == FileSystem::LogStructured,
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

/// How the cleaner of a log-structured file system chooses segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Cleaner {
    /// By what lives in a segment, and by its age.
    #[default]
    CostBenefit,
    /// The segment in which least lives.
    Greedy,
}

/// Settings of a file server; `None`: what follows from the drive or the personality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilesApp {
    /// `app`.
    pub personality: Personality,
    /// `filesystem`.
    pub file_system: FileSystem,
    /// `backend`; `None`: what the namespace is.
    pub backend: Option<Backend>,
    /// `size`: the file system's, of what it can have.
    pub size: Amount,
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
    /// `ops`: percent of the flash.
    pub ops_percent: u32,
    /// Processor of the host.
    pub processor: Processor,
}

/// How many files there are.
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

/// Percent of the file system that files fill at the start.
const FILLED_PERCENT: u8 = 50;
/// `Flash_SetOPS`: the example of the Prism-SSD paper, section IV-A, keeps 25 % beside what it uses.
const OPS_PERCENT: u32 = 20;

/// Keys of applications alone.
const OWN: &[&str] = &[
    "app",
    "filesystem",
    "backend",
    "filled",
    "meanappendsize",
    "log_size",
    "cleaner",
    "segment",
    "ops",
    "cores",
    "cpu_operation",
    "cpu_page",
    "cpu_request",
    "cpu_kib",
    "warm_up",
    "operations",
];

/// Other keys that say something of threads that work on files.
const USED_BY_FILES: &[&str] = &[
    "name",
    "size",
    "nfiles",
    "meanfilesize",
    "nthreads",
    "page_cache",
    "randseed",
    "namespace",
    "target",
    "kb_base",
];

/// Keys of applications, whatever `app` is.
#[derive(Clone, Debug, Default)]
pub(super) struct AppKeys {
    personality: Option<Personality>,
    file_system: FileSystem,
    backend: Option<Backend>,
    filled: Option<u8>,
    append_bytes: Option<u64>,
    log_bytes: Option<u64>,
    cleaner: Cleaner,
    segment_bytes: Option<u64>,
    ops_percent: Option<u32>,
    processor: Processor,
    warm_up: Option<u64>,
    operations: Option<u64>,
}

/// Keys of a file set that other jobs have, too.
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
    Personality::ALL.map(Personality::name).join(", ")
}

impl AppKeys {
    /// Takes one key; returns whether it is one of an application.
    pub fn take(&mut self, key: &str, value: &str, base: Grammar) -> Parsed<bool> {
        let time = |value: &str| parse_time(value, Nanos(1), base).map(Some);
        match key {
            "app" => {
                let found = Personality::ALL.into_iter().find(|personality| personality.name() == value);
                self.personality = match found {
                    Some(found) => Some(found),
                    None => return allowed(names()),
                };
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

    /// The application of a job; `None`: it has none.
    pub fn build(&self, job: &Job, files: &FileKeys) -> Result<Option<AppJob>, JobError> {
        let given = |key: &str| job.written.has(key);
        let Some(personality) = self.personality else {
            let unused = OWN.iter().copied().find(|key| given(key));
            return unused.map_or(Ok(None), |key| refuse(key, "given", "only with an app"));
        };
        let used = |key: &str| OWN.contains(&key) || USED_BY_FILES.contains(&key);
        let name = personality.name();
        if let Some(key) = JobBuilder::keys().iter().map(|doc| doc.name).find(|key| given(key) && !used(key))
        {
            return refuse(key, "given", &format!("not with app = {name}"));
        }
        self.check_files(personality, &given)?;
        let files_app = FilesApp {
            personality,
            file_system: self.file_system,
            backend: self.backend,
            size: job.size,
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
            ops_percent: self.ops_percent.unwrap_or(OPS_PERCENT),
            processor: self.processor,
        };
        let (warm_up, operations) = (self.warm_up, self.operations);
        Ok(Some(AppJob { work: AppWork::Files(files_app), warm_up, operations }))
    }

    /// Refuses keys that this file server does not ask for.
    fn check_files(&self, personality: Personality, given: &dyn Fn(&str) -> bool) -> Result<(), JobError> {
        let in_place = self.file_system == FileSystem::InPlace;
        let rules: [(&'static str, bool, &str); 6] = [
            ("log_size", personality != Personality::Webserver, "only with app = webserver"),
            ("filled", given("nfiles"), "not together with nfiles"),
            ("cleaner", in_place, "only with filesystem = log-structured"),
            ("segment", in_place, "only with filesystem = log-structured"),
            ("ops", in_place, "only with filesystem = log-structured"),
            (
                "backend",
                in_place && self.backend != Some(Backend::Block),
                "block with filesystem = in-place, which knows logical blocks alone",
            ),
        ];
        match rules.into_iter().find(|(key, wrong, _)| *wrong && given(key)) {
            Some((key, _, allowed)) => {
                let value = if key == "backend" { self.backend.map_or("", Backend::name) } else { "given" };
                refuse(key, value, allowed)
            }
            None => Ok(()),
        }
    }
}

fn refuse<T>(key: &'static str, value: &str, allowed: &str) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.into(), allowed: allowed.into() })
}
