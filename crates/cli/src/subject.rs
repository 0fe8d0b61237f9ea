//! Drives to work on: a new one from its description, or one in use from an image.

use crate::args::Global;
use crate::failure::Failure;
use crate::precondition::PreconditionOptions;
use crate::progress::total;
use crate::provenance::{self, Reads};
use crate::spelling::Given;
use crate::watch::{WatchOptions, Watcher};
use crate::{film, memory, output, timeline};
use pellucid_device::{Device, Namespace};
use pellucid_host::{Target, TargetKind};
use pellucid_lab::drive::{Oracle, TimelinePart};
use pellucid_lab::experiment::{
    ExperimentError, execute_described, execute_on, jobs_summary, precondition_by_trace, read_options, stack,
};
use pellucid_lab::image::{Image, is_image, wear_words};
use pellucid_media::{StoreKind, holds_drive};
use pellucid_output::{OutputFile, is_replaced};
use pellucid_parquet_log::{ParquetLog, write_table};
use pellucid_report::Report;
use pellucid_spec::{
    DescribedTarget, Fill, Medium, Place, RunSpec, Spec, SpecError, Use, given_twice, keys_of_set, presets,
};
use pellucid_workload::Job;
use pellucid_workload::trace::TraceReader;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A drive that work can be done on.
pub struct Subject {
    /// Its description, and how it is run.
    pub spec: Spec,
    /// The file or preset, as it was asked for.
    given: String,
    /// `--seed` was given.
    seeded: bool,
    /// `--force` was given.
    force: bool,
    image: Option<Image>,
    /// Notice about its media file, which holds a drive before the run.
    used: Option<String>,
    /// Files that the run reads, but for a trace.
    reads: Vec<Reads>,
    /// Drives whose films are on one page.
    beside: usize,
    /// The part of its run of which a timeline is recorded.
    timeline: Option<TimelinePart>,
}

impl Subject {
    /// Opens a preset, a description or an image by name; `media`: an image whose media the description is put on.
    pub fn open(name: &str, media: Option<&Path>, global: &Global) -> Result<Subject, Failure> {
        Subject::open_with(pellucid_spec::load, name, media, global)
    }

    /// As [`Subject::open`], for a command that does nothing but show it.
    pub fn open_to_show(name: &str, global: &Global) -> Result<Subject, Failure> {
        let subject = Subject::open(name, None, global)?;
        subject.image.as_ref().map_or(Ok(()), Image::check)?;
        subject.check_effect(Use::Show, global)?;
        Ok(subject)
    }

    /// Opens a preset, a description or an image by name to be served ([`pellucid_spec::load_to_serve`]), as a drive or under a cache. An
    /// image says for itself what it keeps.
    pub fn open_to_serve(name: &str, used: Use, global: &Global) -> Result<Subject, Failure> {
        let subject = Subject::open_with(pellucid_spec::load_to_serve, name, None, global)?;
        subject.check_effect(used, global)?;
        Ok(subject)
    }

    fn open_with(
        load: fn(&str, &[String]) -> Result<Spec, SpecError>,
        name: &str,
        media: Option<&Path>,
        global: &Global,
    ) -> Result<Subject, Failure> {
        if !global.one_of_several {
            check_overridden(&[name], &global.sets)?;
        }
        let (name, sets) = split_sets(name, &global.sets);
        let name = if name == "-" { "/dev/stdin" } else { name };
        if name.is_empty() {
            let message =
                "an empty name, where a drive is expected; allowed: a preset (pellucid presets), or a file";
            return Err(Failure::asked(anyhow::anyhow!("\"\": {message}")));
        }
        if name.ends_with(".fio") {
            let message = "a job file, where a drive is expected; allowed: pellucid run DRIVE FILE.fio";
            return Err(Failure::asked(anyhow::anyhow!("{name}: {message}")));
        }
        let mut reads: Vec<Reads> = Vec::new();
        let (spec, image) = match media {
            Some(media) => {
                description_expected(name)?;
                let image = Image::open(media)?;
                let mut spec = load(name, &sets)?;
                // The image holds the past of its media.
                spec.precondition = image.spec(&[])?.precondition;
                (spec, Some(image))
            }
            None if is_image(name) => {
                let image = Image::open(name)?;
                (image.spec(&sets)?, Some(image))
            }
            None => (load(name, &sets)?, None),
        };
        if is_image(name) {
            reads.push(("image", name.into()));
        } else if presets().iter().all(|preset| preset.name != name) {
            reads.push(("description", name.into()));
        }
        reads.extend(media.map(|media| ("image", media.to_path_buf())));
        if image.is_some() {
            check_past(&spec, &media.map_or(name.into(), |media| media.display().to_string()))?;
        }
        Subject::new(name, spec, image, reads, global)
    }

    /// A drive from an image alone.
    pub fn open_image(path: &Path, global: &Global) -> Result<Subject, Failure> {
        let image = Image::open(path)?;
        let spec = image.spec(&global.sets)?;
        let name = path.display().to_string();
        check_past(&spec, &name)?;
        Subject::new(&name, spec, Some(image), vec![("image", path.to_path_buf())], global)
    }

    fn new(
        given: &str,
        mut spec: Spec,
        image: Option<Image>,
        reads: Vec<Reads>,
        global: &Global,
    ) -> Result<Subject, Failure> {
        apply_global(&mut spec, global)?;
        spec.run.log.as_deref().map_or(Ok(()), output::check_log_ending)?;
        let seeded = global.seed.is_some();
        let used = if image.is_none() { used_before(&spec) } else { None };
        Ok(Subject {
            spec,
            given: given.into(),
            seeded,
            force: global.force,
            used,
            image,
            reads,
            beside: 1,
            timeline: None,
        })
    }

    /// Notes a file that the run reads.
    pub fn reads(&mut self, role: &'static str, path: &Path) {
        self.reads.push((role, path.to_path_buf()));
    }

    /// Notes the file that an application among the jobs reads.
    pub fn reads_for(&mut self, jobs: &[Job]) {
        for path in jobs.iter().filter_map(|job| job.app.as_ref()?.file()) {
            self.reads("application", path);
        }
    }

    /// Notes that its film is one of this many in the report.
    pub fn is_one_of(&mut self, drives: usize) {
        self.beside = drives;
    }

    /// Makes its run record a timeline of this part.
    pub fn record(&mut self, part: TimelinePart) {
        self.timeline = Some(part);
    }

    /// Makes of a run one that is repeated: it writes nothing. Refused where what it starts from is not kept.
    pub fn repeat(&mut self) -> Result<(), Failure> {
        (self.spec.run.report, self.spec.run.log) = (None, None);
        match &self.spec.drive.media.store {
            StoreKind::File(path) => Err(Failure::asked(anyhow::anyhow!(
                "{}: the run has written to the drive in this file, so it cannot be repeated",
                path.display()
            ))),
            StoreKind::None | StoreKind::Unstamped | StoreKind::Ram => Ok(()),
        }
    }

    /// Reports whether the description has a target of this name; `false`: it has no targets.
    ///
    /// # Errors
    /// It has others.
    pub fn has_target(&self, name: &str) -> Result<bool, Failure> {
        let names: Vec<&str> = self.spec.targets.iter().map(|one| one.target.name.as_str()).collect();
        match names.is_empty() {
            true => Ok(false),
            false if names.contains(&name) => Ok(true),
            false => {
                let allowed = names.join(", ");
                Err(Failure::asked(anyhow::anyhow!(
                    "--target {name}: no such target in {}; allowed: {allowed}",
                    self.given
                )))
            }
        }
    }

    /// A trace, if that is the work, goes to this target.
    pub fn trace_only_on(&mut self, name: &str) {
        if self.spec.run.trace.is_some() {
            self.spec.targets.retain(|one| one.target.name == name);
        }
    }

    /// Puts a target on the drive, instead of the layers of its description.
    pub fn put_on_target(&mut self, target: Target) {
        self.spec.host = Vec::new();
        self.spec.targets = vec![DescribedTarget::new(target)];
    }

    /// Refuses a disk, where a drive of flash is needed.
    pub fn need_flash(&self) -> Result<(), Failure> {
        if self.spec.medium == Medium::Flash {
            return Ok(());
        }
        let message =
            "a disk, where a drive of flash is expected; allowed: a disk with run, replay and compare";
        Err(Failure::asked(anyhow::anyhow!("{}: {message}", self.spec.drive_name)))
    }

    /// The drive itself.
    pub fn device(self) -> Result<Device, Failure> {
        self.need_flash()?;
        memory::check(&self.spec)?;
        match self.image {
            Some(image) => Ok(image.device(&self.spec)?),
            None => Device::new(&self.spec.drive).map_err(Failure::asked),
        }
    }

    /// Refuses keys that were set for this command and have no effect on it, and names those of the description that have none.
    fn check_effect(&self, used: Use, global: &Global) -> Result<(), Failure> {
        output::warn(global, self.spec.check_effect(used)?);
        Ok(())
    }

    /// Applies the options that precondition the drive. Comes after the work is known.
    pub fn precondition(&mut self, options: &PreconditionOptions, global: &Global) -> Result<(), Failure> {
        options.apply(&mut self.spec, self.image.is_some())?;
        memory::check(&self.spec)?;
        if options.means_nothing_to(self.spec.medium) {
            let name = &self.spec.drive_name;
            let why =
                "a disk, whose times do not depend on what was written: nothing is written before the work";
            output::notice(global, &format!("--precondition: {name} is {why}"));
        }
        self.check_effect(Use::Work, global)?;
        match &self.image {
            None => options.memory.check(&self.spec, global),
            Some(_) => Ok(()),
        }
    }

    /// The files that the command reads or works on. No output may replace them, even with --force.
    fn inputs(&self) -> impl Iterator<Item = &Path> {
        let media = match &self.spec.drive.media.store {
            StoreKind::File(path) => Some(path),
            StoreKind::None | StoreKind::Unstamped | StoreKind::Ram => None,
        };
        let reads = self.reads.iter().map(|(_, path)| path);
        reads.chain(&self.spec.run.trace).chain(media).map(PathBuf::as_path)
    }

    /// Refuses an output in the place of a file that the command reads or works on.
    pub fn refuse_input(&self, option: &str, output: &Path) -> Result<(), Failure> {
        match self.inputs().find(|input| is_one_file(input, output)) {
            None => Ok(()),
            Some(input) => Err(Failure::asked(anyhow::anyhow!(
                "{option} {}: {} is read by this command; allowed: another file",
                output.display(),
                input.display()
            ))),
        }
    }

    /// Refuses a report whose files would replace one that the command reads or works on.
    fn check_report(&self) -> Result<(), Failure> {
        let Some(report) = &self.spec.run.report else { return Ok(()) };
        match self.inputs().find(|input| is_replaced(report, input)) {
            None => Ok(()),
            Some(input) => Err(Failure::asked(anyhow::anyhow!(
                "--report {}: it would replace {}, which is read by this command; allowed: another directory",
                report.display(),
                input.display()
            ))),
        }
    }

    /// Returns whether the run writes this file as its log of requests, or beside that.
    pub fn logs_to(&self, path: &Path) -> bool {
        let log = self.spec.run.log.as_deref();
        log.is_some_and(|log| log == path || output::is_parquet(log) && beside(log).iter().any(|t| t == path))
    }

    /// Refuses work that is missing or cannot be read, before anything is printed.
    pub fn check_work(&self, jobs: &[Job]) -> Result<(), Failure> {
        let run = &self.spec.run;
        let namespaces = &self.spec.drive.namespaces;
        let is_block = |namespace: &Namespace| matches!(namespace, Namespace::Block { .. });
        // Applications say for themselves which namespaces they can use.
        let own_way = |job: &Job| job.raw.is_some() || job.app.is_some();
        let is_raw = run.trace.is_none() && jobs.iter().any(own_way);
        let is_bare = !self.spec.has_host() && !is_raw;
        if is_bare && !namespaces.is_empty() && !namespaces.iter().any(is_block) {
            let message = "no block namespace to run a workload on; allowed: a drive with one, or with \
                           [host] layers or [[target]] above an open-channel or zoned namespace, or jobs on chunks or zones \
                           (rw = chunk-write, zone-append)";
            return Err(Failure::asked(anyhow::anyhow!("{}: {message}", self.spec.drive_name)));
        }
        check_log(self)?;
        self.check_report()?;
        memory::check_jobs(jobs)?;
        match &run.trace {
            None if jobs.is_empty() => Err(ExperimentError::NoWork.into()),
            None if self.seeded && jobs.iter().all(|job| job.written.has("randseed")) => {
                let message = "each job has a randseed of its own; allowed: without randseed";
                Err(Failure::asked(anyhow::anyhow!("--seed: {message}")))
            }
            None => Ok(()),
            Some(path) => {
                self.check_trace_target()?;
                if self.seeded {
                    let message = "a trace draws nothing at random; allowed: with jobs";
                    return Err(Failure::asked(anyhow::anyhow!("--seed: {message}")));
                }
                let options = read_options(&self.spec)?;
                if is_stream(path) {
                    // Lines read for this check would be missing later.
                    return Ok(());
                }
                let reader = TraceReader::open_with(path, &options).map_err(Failure::asked)?;
                reader.find_work(run.stream).map_err(Failure::asked)
            }
        }
    }

    /// Refuses a trace where it is not clear which target it is for.
    fn check_trace_target(&self) -> Result<(), Failure> {
        let targets = &self.spec.targets;
        let blocks = targets.iter().filter(|one| one.target.kind == TargetKind::Block);
        let names: Vec<&str> = blocks.map(|one| one.target.name.as_str()).collect();
        if targets.is_empty() || names.len() == 1 {
            return Ok(());
        }
        let message = match names.is_empty() {
            true => "no block target, where a trace is replayed; allowed: a [[target]] with kind = \"block\""
                .into(),
            false => format!(
                "{} block targets, where a trace is replayed on one; allowed: --target {}",
                names.len(),
                names.join(" or ")
            ),
        };
        Err(Failure::asked(anyhow::anyhow!("{}: {message}", self.spec.drive_name)))
    }

    /// Does the work on it.
    pub fn run(self, jobs: &[Job], global: &Global, watch: &WatchOptions) -> Result<Report, Failure> {
        let mut spec = self.spec;
        let kept = global.json || spec.run.report.is_some();
        let mut reads = self.reads;
        reads.extend(spec.run.trace.iter().map(|trace| ("trace", trace.clone())));
        let copy = copy_if_read_twice(&spec)?;
        spec.run.trace_copy = copy.as_ref().map(Copied::path);
        let overrides = spec.provenance.overrides();
        let limit = spec.run.limit.map(|limit| limit.saturating_mul(spec.run.repeat.into()));
        let total = if spec.run.trace.is_some() { limit } else { total(jobs) };
        let what = match &spec.run.trace {
            Some(trace) => trace.display().to_string(),
            None => jobs_summary(jobs),
        };
        let mut watcher = watch.begin(global, &spec.drive_name, what, total)?;
        let mut tables = ParquetTables::begin(&mut spec, &mut watcher)?;
        if global.film {
            watcher.keep_film(film::recorder(self.beside));
        }
        if let Some(part) = self.timeline {
            watcher.record(part);
        }
        watcher.say("preparing the drive");
        let began = Instant::now();
        let clock = || began.elapsed().as_secs_f64();
        let otherwise = self.image.as_ref().and_then(|image| image.aged_otherwise(&spec));
        let mut past = self.image.as_ref().map(Image::past);
        let mut report = match self.image {
            None => execute_described(&spec, jobs, &clock, &mut watcher)?.1,
            Some(image) if spec.has_host() => {
                let device: Device = image.device(&spec)?;
                past.iter_mut().for_each(|past| *past += &wear_words(&device));
                let mut stack = stack(&spec, device).map_err(ExperimentError::Run)?;
                if spec.run.verify {
                    let message = "run.verify: what layers of the host have put on an image cannot be read off it; \
                                   allowed: false with an image and host.layers";
                    return Err(Failure::asked(anyhow::anyhow!(message)));
                }
                execute_on(&mut stack, &spec, jobs, None, &clock, &mut watcher)?
            }
            Some(image) => {
                let mut device: Device = image.device(&spec)?;
                past.iter_mut().for_each(|past| *past += &wear_words(&device));
                if spec.precondition.fill == Fill::Trace {
                    past.iter_mut()
                        .for_each(|past| *past += &format!("; then {}", spec.precondition.words()));
                }
                precondition_by_trace(&mut device, &spec, None, &mut watcher)?;
                let oracle = spec.run.verify.then(|| Oracle::of_drive(&device));
                execute_on(&mut device, &spec, jobs, oracle, &clock, &mut watcher)?
            }
        };
        tables.as_mut().map_or(Ok(()), |tables| tables.end(&report))?;
        report.warnings.extend(otherwise.into_iter().chain(self.used));
        report.workload.precondition = past.unwrap_or(report.workload.precondition);
        if let Some(film) = watcher.film() {
            report.film = Some(film.finish(&spec.drive_name).ok_or_else(film::nothing)?);
        }
        report.timeline = watcher.timeline();
        report.warnings.extend(report.timeline.as_ref().and_then(timeline::warning));
        report.partial = watcher.finish(&report);
        report.overrides = overrides;
        if kept {
            report.provenance = Some(provenance::of(&spec, &reads, &report.seeds)?);
        }
        report.workload.command_line = output::command_line();
        Ok(report)
    }
}

/// Puts the shared options that spell keys of `[run]` into a description.
fn apply_global(spec: &mut Spec, global: &Global) -> Result<(), Failure> {
    let Spec { run, provenance, .. } = spec;
    if let Some(value) = global.seed {
        let typed = &value.to_string();
        Given { option: "--seed", typed, key: "run.seed", value }.put(&mut run.seed, provenance)?;
    }
    run.seed = global.seed_of_run.unwrap_or(run.seed);
    if global.verify {
        let given = Given { option: "--verify", typed: "", key: "run.verify", value: true };
        given.put(&mut run.verify, provenance)?;
    }
    let paths = [
        ("--log", "run.log", &global.log, &mut run.log),
        ("--report", "run.report", &global.report, &mut run.report),
    ];
    for (option, key, given, held) in paths {
        if let Some(path) = given {
            let typed = &path.display().to_string();
            Given { option, typed, key, value: Some(path.clone()) }.put(held, provenance)?;
        }
    }
    Ok(())
}

/// The tables of a run in Parquet, where its log is one: of requests (`x.parquet`), and beside it of the run over time and of flash
/// operations (`x.series.parquet`, `x.operations.parquet`).
struct ParquetTables {
    requests: OutputFile,
    series: OutputFile,
    operations: OutputFile,
}

impl ParquetTables {
    /// Takes the files. `lab` does not know such a log: the watcher hands it to the run.
    fn begin(spec: &mut Spec, watcher: &mut Watcher) -> Result<Option<ParquetTables>, Failure> {
        let Some(path) = spec.run.log.take_if(|path| output::is_parquet(path)) else { return Ok(None) };
        let [series, operations] = beside(&path);
        let requests = OutputFile::create(&path)?;
        let log = ParquetLog::new(requests.writer()?).map_err(|error| requests.failed(error))?;
        watcher.keep_log(Box::new(log));
        let (series, operations) = (OutputFile::create(&series)?, OutputFile::create(&operations)?);
        Ok(Some(ParquetTables { requests, series, operations }))
    }

    /// Writes what follows from the report, and puts all tables in their places.
    fn end(&mut self, report: &Report) -> Result<(), Failure> {
        let tables =
            [(&mut self.series, report.series_columns()), (&mut self.operations, report.operation_columns())];
        for (file, columns) in tables {
            write_table(file.writer()?, &columns).map_err(|error| file.failed(error))?;
            file.commit()?;
        }
        Ok(self.requests.commit()?)
    }
}

/// The tables beside a log in Parquet.
fn beside(log: &Path) -> [PathBuf; 2] {
    ["series.parquet", "operations.parquet"].map(|ending| log.with_extension(ending))
}

/// Returns whether a path is a pipe or another file that can be read only once.
pub fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// A copy of a trace in a file without a name: it is gone with the process, however that ends.
struct Copied {
    file: File,
}

impl Copied {
    /// Returns a path under which the file can be opened anew.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// A trace that comes through a pipe, and is read more than once, is copied into the directory for temporary files.
fn copy_if_read_twice(spec: &Spec) -> Result<Option<Copied>, Failure> {
    let Some(trace) = spec.run.trace.as_ref().filter(|trace| is_stream(trace)) else { return Ok(None) };
    if spec.precondition.fill != Fill::Trace && spec.run.repeat == 1 {
        return Ok(None);
    }
    let path = std::env::temp_dir().join(format!("pellucid-{}.trace", std::process::id()));
    let copy = || {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        std::fs::remove_file(&path)?;
        std::io::copy(&mut File::open(trace)?, &mut file)?;
        Ok(Some(Copied { file }))
    };
    copy().map_err(|error: std::io::Error| {
        let message = "cannot keep a copy of the trace, which is read more than once; allowed: a file instead of a pipe, TMPDIR on a \
                       disk with room for it, or --precondition none";
        Failure::work(anyhow::anyhow!("{}: {error}: {message}", path.display()))
    })
}

/// Warns of a media file that holds a drive before the run: the run changes it, and the description alone does not repeat the run.
fn used_before(spec: &Spec) -> Option<String> {
    let StoreKind::File(path) = &spec.drive.media.store else { return None };
    holds_drive(path).then(|| {
        format!(
            "drive.media.store = file:{}: the file held a drive before this run, which worked on it: the same command again finds \
             what this one left",
            path.display()
        )
    })
}

/// Refuses a log that would take the place of what is read, or of another file of the run.
fn check_log(subject: &Subject) -> Result<(), Failure> {
    let RunSpec { log: Some(log), report, .. } = &subject.spec.run else { return Ok(()) };
    if report.as_ref().is_some_and(|report| is_replaced(report, log)) {
        return Err(Failure::asked(anyhow::anyhow!(
            "--log {}: the report in that directory has a file of this name; allowed: another name",
            log.display()
        )));
    }
    output::refuse_answer_place("--log", log)?;
    let tables = if output::is_parquet(log) { Vec::from(beside(log)) } else { Vec::new() };
    for file in std::iter::once(log).chain(&tables) {
        subject.refuse_input("--log", file)?;
    }
    output::check_log_place(log, subject.force)?;
    tables.iter().try_for_each(|table| output::check_log_place(table, subject.force))?;
    if is_stream(log) {
        // The reader of a pipe would see it end here.
        return Ok(());
    }
    // Begun when the run begins; refused before anything is printed.
    Ok(OutputFile::create(log).map(drop)?)
}

/// Returns whether two names are of one file that is there, or of one place where none need be.
pub fn is_one_place(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    is_one_file(one, other) || place(one).is_some_and(|found| Some(found) == place(other))
}

/// Returns whether two names are of one file that is there.
pub fn is_one_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        found.map(|found| (found.dev(), found.ino()))
    };
    place(one).is_some_and(|found| Some(found) == place(other))
}

/// Refuses the name of an image where a description is required.
pub fn description_expected(name: &str) -> Result<(), Failure> {
    match is_image(name) {
        true => {
            let message = "an image, where a description is expected; allowed: a preset, or a file in TOML, such as that of pellucid show";
            let quoted = output::quoted(name);
            Err(Failure::asked(anyhow::anyhow!("{name}: {message} {quoted}")))
        }
        false => Ok(()),
    }
}

/// Refuses overrides of the past: a drive went through it before its image was made, so they would change nothing.
fn check_past(spec: &Spec, image: &str) -> Result<(), Failure> {
    let past = |key: &str| {
        key.starts_with("precondition.")
            || ["drive.media.cycles", "drive.media.faults.factory_bad"].contains(&key)
    };
    let entries = &spec.provenance.entries;
    match entries.iter().find(|entry| past(entry.key) && matches!(entry.origin.place, Place::Set { .. })) {
        None => Ok(()),
        Some(entry) => Err(Failure::asked(anyhow::anyhow!(
            "{}: {image} has this behind it already; allowed: another image, made of a description with it: pellucid show {image} > \
             drive.toml, then pellucid age drive.toml",
            entry.origin.place
        ))),
    }
}

/// Refuses a `--set` that each of these drives overrides by a list of its own, so that it has no effect.
pub fn check_overridden(names: &[&str], sets: &[String]) -> Result<(), Failure> {
    let keys = |set: &String| keys_of_set(set).into_iter().map(|(key, _)| key);
    for name in names {
        let own: Vec<_> = split_sets(name, &[]).1.iter().flat_map(|set| keys_of_set(set)).collect();
        if let Some((key, [one, other])) = given_twice(&own) {
            return Err(Failure::asked(anyhow::anyhow!(
                "{name}: {key}: given twice, as {one} and as {other}; allowed: once"
            )));
        }
    }
    let has =
        |name: &&str, key: &String| split_sets(name, &[]).1.iter().flat_map(keys).any(|own| own == *key);
    let given = sets.iter().flat_map(|set| keys(set).map(move |key| (set, key)));
    let Some((set, key)) = given.into_iter().find(|(_, key)| names.iter().all(|name| has(name, key))) else {
        return Ok(());
    };
    let whose = if names.len() == 1 { names[0] } else { "each drive" };
    Err(Failure::asked(anyhow::anyhow!(
        "--set {set}: has no effect here: {whose} has a value of its own for {key}; allowed: one of the two"
    )))
}

/// `NAME,KEY=VALUE,...`: a drive with overrides of its own, which come after those for all drives.
pub fn split_sets<'a>(name: &'a str, sets: &[String]) -> (&'a str, Vec<String>) {
    let mut sets = sets.to_vec();
    match name.split_once(',') {
        Some((drive, own)) if !Path::new(name).exists() => {
            let mut own: Vec<String> = own.split(',').map(str::to_string).collect();
            // A value may be a list: what has no key belongs to the value before it.
            own.dedup_by(|next, before| {
                let continues = before.contains('=') && !next.contains('=') && !next.is_empty();
                if continues {
                    *before = format!("{before},{next}");
                }
                continues
            });
            sets.extend(own);
            (drive, sets)
        }
        _ => (name, sets),
    }
}
