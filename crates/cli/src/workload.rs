//! Workload options: every key of a job as an option of the same name, made from the one table that TOML and fio files use.

use crate::args::Global;
use crate::failure::Failure;
use crate::numbers::whole;
use crate::output;
use crate::spelling::Given;
use anyhow::anyhow;
use clap::{Arg, ArgAction, ArgMatches, Command};
use pellucid_lab::experiment;
use pellucid_spec::{Place, Provenance, RawJob, Spec};
use pellucid_workload::trace::{AddressPolicy, ReadOptions};
use pellucid_workload::{AppKind, Dialect, Job, JobBuilder, KeyDoc, parse_fio};
use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

const HEADING: &str = "Workload, in fio's words";

/// Keys of jobs as given on the command line.
#[derive(Clone, Debug, Default)]
pub struct WorkloadOptions {
    /// Keys of every job, in the order given.
    keys: Vec<(&'static str, String)>,
    /// Whole jobs.
    jobs: Vec<String>,
}

/// Returns whether a key is a switch: the empty value means on.
fn is_switch(doc: &KeyDoc) -> bool {
    JobBuilder::new(Dialect::Native).set(doc.name, "").is_ok()
}

/// Keys of jobs that are options of their names. A target is chosen by an option of `run`, for a job file and a trace too.
fn option_keys() -> impl Iterator<Item = &'static KeyDoc> {
    JobBuilder::keys().iter().filter(|doc| doc.name != "target")
}

/// Keys of job files alone: as options they are refused with a reason, and not listed.
const OF_FILES_ALONE: &[&str] = &["kb_base"];

/// Joins a switch with a value in the next word (`--norandommap 1`), as fio does.
pub fn join_switches(words: Vec<OsString>) -> Vec<OsString> {
    let is_switch = |word: &OsStr| {
        let name = word.to_str().and_then(|word| word.strip_prefix("--")).map(|name| name.replace('-', "_"));
        let named = |doc: &&KeyDoc| {
            name.as_deref().is_some_and(|name| doc.name == name || doc.aliases.contains(&name))
        };
        JobBuilder::keys().iter().find(named).is_some_and(is_switch)
    };
    let mut out: Vec<OsString> = Vec::new();
    for word in words {
        // Other numbers too: they are refused as values, where a job file of that name would not be found.
        let is_number = word.as_encoded_bytes().iter().all(u8::is_ascii_digit) && !word.is_empty();
        match out.last_mut().filter(|last| is_number && is_switch(last)) {
            Some(switch) => {
                switch.push("=");
                switch.push(word);
            }
            None => out.push(word),
        }
    }
    out
}

fn arg(doc: &'static KeyDoc) -> Arg {
    let hyphened = |name: &'static str| &*name.replace('_', "-").leak();
    let arg = Arg::new(doc.name)
        .long(hyphened(doc.name))
        .value_name(doc.example)
        .help(doc.help)
        .help_heading(HEADING)
        .action(ArgAction::Set);
    let arg = if doc.name.contains('_') { arg.visible_alias(doc.name) } else { arg };
    // `--seed` is an option of the command.
    let aliases = doc.aliases.iter().copied().filter(|&alias| alias != "seed");
    let arg = aliases.fold(arg, |arg, alias| match alias.contains('_') {
        true => arg.aliases([hyphened(alias), alias]),
        false => arg.alias(alias),
    });
    let arg = arg.hide(OF_FILES_ALONE.contains(&doc.name));
    if is_switch(doc) { arg.num_args(0..=1).require_equals(true).default_missing_value("1") } else { arg }
}

impl clap::Args for WorkloadOptions {
    fn augment_args(command: Command) -> Command {
        let job = Arg::new("job")
            .long("job")
            .value_name("KEY=VALUE,...")
            .help("a job of its own, which the other keys apply to first; may be given several times")
            .help_heading(HEADING)
            .action(ArgAction::Append);
        command.args(option_keys().map(arg)).arg(job)
    }

    fn augment_args_for_update(command: Command) -> Command {
        WorkloadOptions::augment_args(command)
    }
}

/// Values of these keys, in the order given.
fn given_keys(
    matches: &ArgMatches,
    options: impl Iterator<Item = &'static KeyDoc>,
) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    for doc in options {
        let (Some(values), Some(places)) =
            (matches.get_many::<String>(doc.name), matches.indices_of(doc.name))
        else {
            continue;
        };
        keys.extend(places.zip(values).map(|(place, value)| (place, doc.name, value.clone())));
    }
    // Some keys change the meaning of those after them.
    keys.sort_by_key(|key| key.0);
    keys.into_iter().map(|(_, name, value)| (name, value)).collect()
}

/// A kind of application, whose command has the options of its keys.
pub trait Kind {
    /// The kind.
    const KIND: AppKind;
}

/// File servers.
#[derive(Clone, Copy, Debug)]
pub struct OfFiles;

impl Kind for OfFiles {
    const KIND: AppKind = AppKind::Files;
}

/// Programs on graphs.
#[derive(Clone, Copy, Debug)]
pub struct OfGraphs;

impl Kind for OfGraphs {
    const KIND: AppKind = AppKind::Graphs;
}

/// Options for the keys of an application's kind.
#[derive(Clone, Debug)]
pub struct AppOptions<K> {
    keys: Vec<(&'static str, String)>,
    kind: PhantomData<K>,
}

/// Keys that are options of an application's command, which names the application itself.
fn app_keys(kind: AppKind) -> impl Iterator<Item = &'static KeyDoc> {
    JobBuilder::keys().iter().filter(move |doc| kind.asks(doc.name) && doc.name != "app")
}

impl<K: Kind> clap::Args for AppOptions<K> {
    fn augment_args(command: Command) -> Command {
        command.args(app_keys(K::KIND).map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        AppOptions::<K>::augment_args(command)
    }
}

impl<K: Kind> clap::FromArgMatches for AppOptions<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AppOptions<K>, clap::Error> {
        Ok(AppOptions { keys: given_keys(matches, app_keys(K::KIND)), kind: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AppOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<K: Kind> AppOptions<K> {
    /// The options for this application.
    ///
    /// # Errors
    /// It is of another kind.
    pub fn of(mut self, app: String) -> Result<WorkloadOptions, Failure> {
        let names = K::KIND.names();
        if !names.contains(&app.as_str()) {
            return Err(Failure::asked(anyhow!("{app}: allowed: {}", names.join(", "))));
        }
        self.keys.insert(0, ("app", app));
        Ok(WorkloadOptions { keys: self.keys, jobs: Vec::new() })
    }
}

impl clap::FromArgMatches for WorkloadOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<WorkloadOptions, clap::Error> {
        let keys = given_keys(matches, option_keys());
        let jobs = matches.get_many::<String>("job").into_iter().flatten().cloned().collect();
        Ok(WorkloadOptions { keys, jobs })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = WorkloadOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

impl WorkloadOptions {
    /// Returns whether no option was given.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.jobs.is_empty()
    }

    /// Puts the options into the description: `--job`s replace its jobs; a key counts for every job, but a key
    /// of a `--job` itself takes precedence.
    fn apply(&self, spec: &mut Spec) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        no_trace(spec, "workload options")?;
        let first = self.keys.first().map(|(key, value)| format!("--{} {value}", key.replace('_', "-")));
        let first = first.or_else(|| self.jobs.first().map(|job| format!("--job {job}")));
        no_jobs_of_set(spec, &first.unwrap_or_default())?;
        if self.jobs.is_empty() {
            for (key, value) in &self.keys {
                experiment::set_in_jobs(spec, key, value);
            }
            return Ok(());
        }
        let empty = RawJob { place: Place::Option { name: "job".into() }, pairs: Vec::new() };
        spec.jobs = vec![empty; self.jobs.len()];
        for (key, value) in &self.keys {
            experiment::set_in_jobs(spec, key, value);
        }
        for (job, text) in spec.jobs.iter_mut().zip(&self.jobs) {
            let own = experiment::parse_job(text, "job").pairs;
            let named = |key: &str| JobBuilder::key(key).map(|doc| doc.name);
            let twice = own.iter().enumerate().find(|(at, pair)| {
                named(&pair.key).is_some()
                    && own[..*at].iter().any(|other| named(&other.key) == named(&pair.key))
            });
            if let Some((_, pair)) = twice {
                let message = format!("{} twice; allowed: one value of a key", pair.key);
                return Err(Failure::asked(anyhow!("--job {text}: {message}")));
            }
            job.pairs.extend(own);
        }
        Ok(())
    }

    /// The jobs to run: of the fio file if there is one, else of the description with the options. Keys that change nothing are
    /// named.
    pub fn jobs(&self, spec: &mut Spec, fio: Option<&Path>, global: &Global) -> Result<Vec<Job>, Failure> {
        let jobs = self.read(spec, fio, global)?;
        for job in jobs.iter().filter(|job| job.clone_index == 0) {
            for (place, key, why) in job.written.without_effect() {
                let place = if place.is_empty() { job.name.as_str() } else { place };
                output::notice(global, &format!("warning: {place}: {key} has no effect: {why}"));
            }
        }
        Ok(jobs)
    }

    fn read(&self, spec: &mut Spec, fio: Option<&Path>, global: &Global) -> Result<Vec<Job>, Failure> {
        let Some(path) = fio else {
            self.apply(spec)?;
            return Ok(experiment::jobs(spec)?);
        };
        if !self.is_empty() {
            let message = "workload options and a job file do not go together; allowed: one of them";
            return Err(Failure::asked(anyhow!("{}: {message}", path.display())));
        }
        no_trace(spec, "a job file")?;
        no_jobs_of_set(spec, &path.display().to_string())?;
        spec.jobs.clear();
        let name = path.display().to_string();
        let unreadable = |error| Failure::asked(anyhow!("{name}: cannot read: {error}"));
        let text = std::fs::read_to_string(stdin_or(path)).map_err(unreadable)?;
        let file = parse_fio(&text, &name, spec.run.seed).map_err(Failure::asked)?;
        for remark in &file.notices {
            output::notice(global, &format!("{name}: {remark}"));
        }
        Ok(file.jobs)
    }
}

/// Other work takes the place of a trace.
fn no_trace(spec: &mut Spec, work: &str) -> Result<(), Failure> {
    Given { option: work, typed: "", key: "run.trace", value: None }
        .put(&mut spec.run.trace, &spec.provenance)
}

/// Other work would replace or change the jobs of `--set job=`, which take the place of those of the description for this command alone.
fn no_jobs_of_set(spec: &Spec, work: &str) -> Result<(), Failure> {
    match spec.jobs.iter().find(|job| matches!(job.place, Place::Set { .. })) {
        None => Ok(()),
        Some(job) => Err(Failure::asked(anyhow!(
            "{}= and {work} do not go together: both describe the work; allowed: one of them",
            job.place
        ))),
    }
}

/// `-` is the standard input, as elsewhere.
pub fn stdin_or(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// As `run.time_scale`.
fn time_scale(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-9..=1e9).contains(factor));
    factor.ok_or_else(|| "allowed: 1e-9 to 1e9".into())
}

fn format_name(text: &str) -> Result<String, String> {
    ReadOptions::named(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// How a trace is read and fitted to the drive.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Trace")]
pub struct TraceOptions {
    /// Format of the trace, instead of recognising it: msr, alibaba, tencent, fiu, spc, fio-v2, fio-v3, blkparse,
    /// blktrace, mqsim, systor, vscsi; or its columns: csv:time=Timestamp,op=Type,offset=Offset,size=Size,unit=us
    #[arg(long, value_name = "NAME", value_parser = format_name)]
    format: Option<String>,
    /// Factor on arrival times: 0.5 replays twice as fast
    #[arg(long, value_name = "FACTOR", value_parser = time_scale, conflicts_with = "closed_loop")]
    time_scale: Option<f64>,
    /// Keep N requests outstanding, instead of following arrival times
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    closed_loop: Option<u32>,
    /// Requests beyond the end of the drive: refuse, fold (modulo its size), or compact (touched extents side by side)
    #[arg(long, value_name = "HOW", value_parser = ["refuse", "fold", "compact"])]
    address: Option<String>,
    /// Replay only one device of the trace, by its number in the trace: disk, volume, ASU; major * 2^20 + minor; files of fio 0, 1, ...
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    stream: Option<u32>,
    /// Replay the trace N times, one pass after the other, for example to age a drive
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    repeat: Option<u32>,
    /// Replay the first N records only
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    limit: Option<u64>,
}

impl TraceOptions {
    /// Makes the trace the work of a description.
    pub fn apply(&self, spec: &mut Spec, trace: PathBuf) -> Result<(), Failure> {
        no_jobs_of_set(spec, &trace.display().to_string())?;
        spec.jobs.clear();
        let (typed, value) = (&trace.display().to_string(), Some(stdin_or(&trace).into()));
        Given { option: "the trace", typed, key: "run.trace", value }
            .put(&mut spec.run.trace, &spec.provenance)?;
        self.shape(spec)
    }

    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--format", self.format.is_some()),
            ("--time-scale", self.time_scale.is_some()),
            ("--closed-loop", self.closed_loop.is_some()),
            ("--address", self.address.is_some()),
            ("--stream", self.stream.is_some()),
            ("--repeat", self.repeat.is_some()),
            ("--limit", self.limit.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }

    /// The options as they were given, to be typed again.
    pub fn words(&self) -> String {
        fn option<T: ToString>(name: &str, value: &Option<T>) -> String {
            value
                .as_ref()
                .map_or_else(String::new, |value| format!(" --{name} {}", output::quoted(&value.to_string())))
        }
        [
            option("format", &self.format),
            option("time-scale", &self.time_scale),
            option("closed-loop", &self.closed_loop),
            option("address", &self.address),
            option("stream", &self.stream),
            option("repeat", &self.repeat),
            option("limit", &self.limit),
        ]
        .concat()
    }

    /// Applies the replay options to a run that has a trace.
    pub fn shape(&self, spec: &mut Spec) -> Result<(), Failure> {
        fn put<T: PartialEq + Clone, U: ToString>(
            (option, key): (&str, &str),
            given: &Option<U>,
            value: impl FnOnce(&U) -> T,
            held: &mut T,
            provenance: &Provenance,
        ) -> Result<(), Failure> {
            let Some(given) = given else { return Ok(()) };
            Given { option, typed: &given.to_string(), key, value: value(given) }.put(held, provenance)
        }
        let Spec { run, provenance, .. } = spec;
        let some = |value: &u32| Some(*value);
        put(
            ("--format", "run.format"),
            &self.format,
            |name: &String| Some(name.clone()),
            &mut run.format,
            provenance,
        )?;
        put(("--repeat", "run.repeat"), &self.repeat, |times: &u32| *times, &mut run.repeat, provenance)?;
        let scale = |factor: &f64| *factor;
        put(("--time-scale", "run.time_scale"), &self.time_scale, scale, &mut run.time_scale, provenance)?;
        put(("--closed-loop", "run.closed_loop"), &self.closed_loop, some, &mut run.closed_loop, provenance)?;
        put(("--stream", "run.stream"), &self.stream, some, &mut run.stream, provenance)?;
        put(("--limit", "run.limit"), &self.limit, |limit: &u64| Some(*limit), &mut run.limit, provenance)?;
        let policy = |how: &String| match how.as_str() {
            "refuse" => AddressPolicy::Refuse,
            "fold" => AddressPolicy::Fold,
            _ => AddressPolicy::Compact,
        };
        put(("--address", "run.address"), &self.address, policy, &mut run.address, provenance)
    }
}
