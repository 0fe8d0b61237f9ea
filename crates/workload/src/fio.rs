//! fio job files.
//!
//! A file is read line by line: `[section]`, `key=value` or `key`, and comments starting with `;` or `#`. `[global]` sets defaults for the sections
//! after it. Each key falls into one of three classes:
//!
//! 1. [`JobBuilder`] honours it;
//! 2. it does not change what a drive sees: reported as [`Severity::Ignored`];
//! 3. it would change the work: [`Severity::Refused`], and the whole file is refused, with every such key named.
//!
//! The parser reads no other file, no environment, and runs nothing.

use super::{Dialect, Job, JobBuilder, JobError, check_flows, check_wait, expand};
use std::fmt;

/// Maximum number of jobs per file, clones included.
const JOBS_MAX: u64 = 4096;

/// Severity of a key that is not simply honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The key has no effect here.
    Ignored,
    /// The file cannot run with it.
    Refused,
}

/// A notice about one line of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Line number, from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// Its value, empty if it had none.
    pub value: String,
    /// Reason for ignoring it, or the allowed values.
    pub why: String,
    /// Severity, which decides whether the file can run.
    pub severity: Severity,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Ignored => "ignored",
            Severity::Refused => "refused",
        };
        write!(f, "line {}: {}", self.line, self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ": {word}: {}", self.why)
    }
}

/// A parsed job file.
#[derive(Clone, Debug, PartialEq)]
pub struct FioFile {
    /// Its jobs in order, clones expanded.
    pub jobs: Vec<Job>,
    /// Ignored keys, in the order of lines; all [`Severity::Ignored`].
    pub notices: Vec<Notice>,
}

/// Reason why a job file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FioError {
    /// A malformed line.
    Syntax {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// Description of the error, with the allowed values.
        what: String,
    },
    /// All keys that cannot be honoured or have wrong values.
    Refused {
        /// The file.
        file: String,
        /// At least one; all [`Severity::Refused`].
        notices: Vec<Notice>,
    },
    /// Contradictory keys in a section.
    Job {
        /// The file.
        file: String,
        /// Line of the section.
        line: usize,
        /// The section.
        name: String,
        /// Reason of the refusal.
        error: JobError,
    },
}

impl fmt::Display for FioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FioError::Syntax { file, line, what } => write!(f, "{file}: line {line}: {what}"),
            FioError::Refused { file, notices } => {
                for (index, notice) in notices.iter().enumerate() {
                    let separator = if index > 0 { "\n" } else { "" };
                    write!(f, "{separator}{file}: {notice}")?;
                }
                Ok(())
            }
            FioError::Job { file, line, name, error } => write!(f, "{file}: line {line}: [{name}]: {error}"),
        }
    }
}

/// Parses a job file; `file_name` appears only in errors. `seed`: for jobs without `randseed`.
pub fn parse_fio(text: &str, file_name: &str, seed: u64) -> Result<FioFile, FioError> {
    let sections = split_sections(text).map_err(|(line, what)| FioError::Syntax {
        file: file_name.into(),
        line,
        what,
    })?;
    let mut global = Scope::new(file_name, seed);
    let mut scopes = Vec::new();
    let mut notices = Vec::new();
    for section in &sections {
        if section.is_global() {
            global.apply(section, &mut notices);
        } else {
            let mut scope = global.clone();
            scope.builder.set("name", &section.name).unwrap_or_default();
            scope.builder.begin_at(format!("{file_name}: line {}: [{}]", section.line, section.name));
            scope.apply(section, &mut notices);
            scope.limit_depth(&mut notices);
            scopes.push((section, scope));
        }
    }
    let (refused, mut ignored): (Vec<Notice>, Vec<Notice>) =
        notices.into_iter().partition(|notice| notice.severity == Severity::Refused);
    if !refused.is_empty() {
        return Err(FioError::Refused { file: file_name.into(), notices: refused });
    }
    ignored.sort_by_key(|notice| notice.line);
    ignored.dedup();
    let jobs = build_jobs(&scopes, file_name)?;
    Ok(FioFile { jobs, notices: ignored })
}

fn build_jobs(scopes: &[(&Section, Scope)], file_name: &str) -> Result<Vec<Job>, FioError> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut clones = 0;
    for (section, scope) in scopes {
        let refuse = |error| FioError::Job {
            file: file_name.into(),
            line: section.line,
            name: section.name.clone(),
            error,
        };
        let job = scope.builder.build().map_err(refuse)?;
        check_wait(&jobs, &job).map_err(refuse)?;
        clones += u64::from(job.numjobs);
        if clones > JOBS_MAX {
            let allowed = format!("at most {JOBS_MAX} jobs in a file, clones counted");
            return Err(refuse(JobError::Value { key: "numjobs", value: job.numjobs.to_string(), allowed }));
        }
        jobs.push(job);
    }
    match jobs.is_empty() {
        true => Err(FioError::Syntax {
            file: file_name.into(),
            line: 1,
            what: "no job; allowed: at least one [section] besides [global]".into(),
        }),
        false => {
            check_flows(&jobs).map_err(|(at, error)| {
                let section = scopes[at].0;
                FioError::Job {
                    file: file_name.into(),
                    line: section.line,
                    name: section.name.clone(),
                    error,
                }
            })?;
            Ok(expand(jobs))
        }
    }
}

struct Section {
    name: String,
    line: usize,
    entries: Vec<Entry>,
}

impl Section {
    fn is_global(&self) -> bool {
        self.name.eq_ignore_ascii_case("global")
    }
}

struct Entry {
    line: usize,
    key: String,
    value: String,
}

impl Entry {
    fn notice(&self, severity: Severity, why: impl Into<String>) -> Notice {
        Notice {
            line: self.line,
            key: self.key.clone(),
            value: self.value.clone(),
            why: why.into(),
            severity,
        }
    }
}

/// Splits the text into sections with their lines. The error is a line number and a description.
fn split_sections(text: &str) -> Result<Vec<Section>, (usize, String)> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = index + 1;
        let content = raw.split([';', '#']).next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let Some(name) = name else {
                return Err((line, format!("{content}: allowed: a section as [name]")));
            };
            sections.push(Section { name: name.into(), line, entries: Vec::new() });
            continue;
        }
        if content.split_whitespace().next() == Some("include") {
            return Err((
                line,
                format!("{content}: include is refused; allowed: the jobs of that file, written here"),
            ));
        }
        let (key, value) = content.split_once('=').unwrap_or((content, ""));
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err((
                line,
                format!("{content}: allowed: key=value, key, [section], or a comment after ; or #"),
            ));
        }
        match sections.last_mut() {
            Some(section) => section.entries.push(Entry { line, key: key.into(), value: value.into() }),
            None => {
                return Err((
                    line,
                    format!("{content}: before the first section; allowed: [global] above it"),
                ));
            }
        }
    }
    Ok(sections)
}

/// Keys that a section inherits from `[global]`, with its own.
#[derive(Clone)]
struct Scope {
    file: String,
    builder: JobBuilder,
    engine: Option<String>,
    /// The line that set `iodepth`, and the value.
    depth: Option<(usize, String)>,
}

impl Scope {
    fn new(file: &str, seed: u64) -> Scope {
        let mut builder = JobBuilder::new(Dialect::Fio);
        builder.set("randseed", &seed.to_string()).unwrap_or_default();
        Scope { file: file.into(), builder, engine: None, depth: None }
    }

    fn apply(&mut self, section: &Section, notices: &mut Vec<Notice>) {
        // fio reads kb_base before everything else in its section.
        let (first, rest): (Vec<&Entry>, Vec<&Entry>) =
            section.entries.iter().partition(|e| e.key == "kb_base");
        for entry in first.into_iter().chain(rest) {
            notices.extend(self.entry(entry, section.is_global()));
        }
    }

    fn entry(&mut self, entry: &Entry, global: bool) -> Option<Notice> {
        if entry.key == "name" && global {
            return Some(entry.notice(Severity::Ignored, "each section names its own job"));
        }
        if let Some(foreign) = foreign(&entry.key) {
            if entry.key == "ioengine" {
                self.engine = Some(entry.value.clone());
            }
            return Some(foreign.judge(entry));
        }
        if entry.value.contains('$') {
            let why = "allowed: plain values; variables and keywords ($) are not expanded";
            return Some(entry.notice(Severity::Refused, why));
        }
        let place = format!("{}: line {}", self.file, entry.line);
        match self.builder.set_at(&place, &entry.key, &entry.value) {
            Ok(()) => {
                if entry.key == "iodepth" {
                    self.depth = Some((entry.line, entry.value.clone()));
                }
                (entry.key == "direct").then(|| {
                    entry.notice(
                        Severity::Ignored,
                        "I/O goes straight to the drive; there is no page cache above it",
                    )
                })
            }
            Err(JobError::Value { allowed, .. }) => {
                Some(entry.notice(Severity::Refused, format!("allowed: {allowed}")))
            }
            Err(error) => Some(entry.notice(Severity::Refused, error.to_string())),
        }
    }

    /// fio's synchronous engines keep one I/O in flight, regardless of `iodepth`.
    fn limit_depth(&mut self, notices: &mut Vec<Notice>) {
        let Some((line, value)) = self.depth.clone().filter(|_| self.builder.iodepth() > 1) else { return };
        let why = match &self.engine {
            Some(engine) if SYNCHRONOUS.contains(&engine.as_str()) => {
                self.builder.set_iodepth(1);
                format!("ioengine={engine} is synchronous and keeps one I/O in flight: depth 1")
            }
            Some(_) => return,
            None => {
                "the depth is honoured; fio would need an asynchronous ioengine for it, and none is named"
                    .into()
            }
        };
        notices.push(Notice { line, key: "iodepth".into(), value, why, severity: Severity::Ignored });
    }
}

const SYNCHRONOUS: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];

/// fio's keys that [`JobBuilder`] lacks.
struct Foreign {
    /// Their names, separated by spaces; a name that ends in `*` stands for all with that prefix.
    names: &'static str,
    harmless: Harmless,
    /// Reason for ignoring them, or the allowed values.
    why: &'static str,
}

enum Harmless {
    Always,
    /// These values have no effect; others do.
    Values(&'static [&'static str]),
}

impl Foreign {
    fn judge(&self, entry: &Entry) -> Notice {
        match self.harmless {
            Harmless::Always => entry.notice(Severity::Ignored, self.why),
            Harmless::Values(values) if values.contains(&entry.value.as_str()) => {
                entry.notice(Severity::Ignored, "this value changes nothing")
            }
            Harmless::Values([]) => entry.notice(Severity::Refused, format!("allowed: {}", self.why)),
            Harmless::Values(values) => {
                let why = format!("allowed: {}; or {}", values.join(", "), self.why);
                entry.notice(Severity::Refused, why)
            }
        }
    }
}

fn foreign(key: &str) -> Option<&'static Foreign> {
    let matches = |name: &str| match name.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => key == name,
    };
    // Our own keys go first: a prefix such as rate* must not take them.
    if JobBuilder::key(key).is_some() {
        return None;
    }
    FOREIGN.iter().find(|foreign| foreign.names.split_whitespace().any(matches))
}

const fn ignored(names: &'static str, why: &'static str) -> Foreign {
    Foreign { names, harmless: Harmless::Always, why }
}

const fn refused(names: &'static str, values: &'static [&'static str], why: &'static str) -> Foreign {
    Foreign { names, harmless: Harmless::Values(values), why }
}

const OFF: &[&str] = &["0"];

const FOREIGN: &[Foreign] = &[
    // Options that do not affect the drive.
    ignored("description", "a comment"),
    ignored(
        "filename directory filename_format unique_filename opendir lockfile openfiles \
         file_service_type filetype fallocate fadvise_hint create_serialize create_fsync \
         create_on_open allow_file_create allow_mounted_write unlink unlink_each_loop overwrite \
         file_append aux-path",
        "every job works on the drive itself, not on files",
    ),
    ignored("buffered invalidate", "I/O goes straight to the drive; there is no page cache above it"),
    ignored(
        "thread nice prio prioclass prio_split cpumask cpus_allowed cpus_allowed_policy \
         numa_cpu_nodes numa_mem_policy ioscheduler uid gid cgroup cgroup_weight cgroup_nodelete \
         lockmem mem iomem iomem_align mem_align hugepage-size thinktime_spin exitall_on_error \
         ignore_error continue_on_error error_dump",
        "it concerns the machine that runs fio",
    ),
    ignored(
        "clocksource gtod_reduce gtod_cpu disable_lat disable_clat disable_slat disable_bw \
         disable_bw_measurement clat_percentiles lat_percentiles slat_percentiles percentile_list \
         significant_figures group_reporting stats unified_rw_reporting bwavgtime \
         iopsavgtime write_bw_log write_lat_log write_iops_log write_hist_log log_avg_msec \
         log_hist_msec log_hist_coarseness log_max_value log_window_value log_offset log_compression \
         log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch log_prio \
         log_issue_time per_job_logs disk_util write_iolog unit_base rate_cycle status-interval \
         eta-newline",
        "it concerns fio's measuring and reports",
    ),
    ignored(
        "zero_buffers refill_buffers scramble_buffers buffer_pattern buffer_compress_percentage \
         buffer_compress_chunk dedupe_percentage dedupe_mode dedupe_working_set_percentage \
         dedupe_global",
        "the drive's work does not depend on the contents of its data",
    ),
    ignored(
        "randrepeat allrandrepeat random_generator",
        "random choices always repeat; randseed varies them",
    ),
    ignored("softrandommap", "the random map here needs no memory that could be missing"),
    ignored(
        "hipri hipri_percentage userspace_reap sqthread_poll sqthread_poll_cpu fixedbufs \
         registerfiles nonvectored uncached nowait force_async cmd_type md_per_io_size io_submit_mode \
         iodepth_batch_complete_max",
        "it concerns the way from fio to the drive, which is not modelled",
    ),
    // Options that are harmless only with some values.
    Foreign {
        names: "ioengine",
        harmless: Harmless::Values(&[
            "libaio",
            "io_uring",
            "io_uring_cmd",
            "posixaio",
            "windowsaio",
            "solarisaio",
            "sync",
            "psync",
            "vsync",
            "pvsync",
            "pvsync2",
            "mmap",
            "splice",
            "sg",
            "null",
            "libzbc",
            "xnvme",
            "spdk",
        ]),
        why: "leave it out; other engines do not do block I/O",
    },
    refused("nrfiles", &["1"], "one file; use offset and size for a part of the drive"),
    refused("filesize", &[], "size"),
    refused("fill_device fill_fs", OFF, "size=100%"),
    refused("pre_read", OFF, "a job of its own that reads, with stonewall on the next"),
    refused("write_hint", &["none"], "leave it out; placement hints are not passed on"),
    refused("dp_scheme", &[], "plids and plid_select"),
    refused("atomic readfua", OFF, "leave it out"),
    refused("zonemode", &["none"], "leave it out"),
    refused(
        "zonesize zonerange zoneskip zonecapacity zone_reset_* max_open_zones job_max_open_zones \
         read_beyond_wp",
        &[],
        "leave it out; zones are not for these jobs",
    ),
    refused("write_mode", &["write"], "leave it out; other commands than plain writes are not made"),
    refused("verify", OFF, "leave it out and use --verify"),
    refused(
        "verify_* do_verify experimental_verify trim_verify_zero trim_percentage trim_backlog \
         trim_backlog_batch serialize_overlap",
        OFF,
        "leave it out; verification is not part of a job",
    ),
    refused(
        "read_iolog read_iolog_chunked replay_* merge_blktrace_*",
        &[],
        "replay the trace as a trace, not as a job",
    ),
    refused(
        "iodepth_low iodepth_batch iodepth_batch_submit",
        &["1"],
        "leave it out; I/O is submitted one by one",
    ),
    refused(
        "bs_unaligned blocksize_unaligned bs_is_seq_rand",
        OFF,
        "leave it out; sizes are multiples of the smallest",
    ),
    refused("rw_sequencer offset_align rwmixcycle", &[], "leave it out"),
    refused("rate_min rate_iops_min rate_ignore_thinktime", OFF, "leave it out; use rate or rate_iops"),
    refused("thinktime_blocks_type", &["complete"], "leave it out"),
    refused("thinktime_iotime", OFF, "thinktime_blocks"),
    refused(
        "latency_target latency_window latency_percentile latency_run max_latency",
        OFF,
        "leave it out; iodepth is fixed",
    ),
    refused(
        "steadystate* ss ss_*",
        &[],
        "--steady-state (run.steady_state), with the same words, for all jobs together",
    ),
    refused("sync_file_range write_barrier", OFF, "fsync or sync"),
    refused("flow_sleep flow_watermark", OFF, "leave it out; a job that is ahead waits for the others"),
    refused("exitall exit_what", OFF, "runtime or number_ios for each job"),
    refused("create_only", OFF, "leave it out"),
    refused("exec_prerun exec_postrun", &[], "leave it out; no programs are run"),
    refused("profile", &[], "the keys that the profile stands for"),
    refused("writefua", OFF, "sync=1"),
];

#[cfg(test)]
#[path = "fio_tests.rs"]
mod tests;
