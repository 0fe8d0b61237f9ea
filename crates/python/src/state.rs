//! A drive in Python: its description, and the drive itself once it has a past.

use crate::errors::Refusal;
use crate::outcome::Outcome;
use crate::policies::{self, Policies};
use crate::tables;
use crate::watch::Watch;
use pellucid_device::Device;
use pellucid_lab::drive::{Ageing, Oracle};
use pellucid_lab::experiment::{
    self, ExperimentError, execute_described, execute_on, fill_for_replay, parse_job,
};
use pellucid_lab::image::{self, Image, is_image};
use pellucid_media::StoreKind;
use pellucid_output::OutputFile;
use pellucid_report::Report;
use pellucid_spec::{Medium, Spec, SpecError, SpecText, Use, given_twice, keys_of_set};
use pellucid_text::format::bytes;
use pellucid_text::quoted;
use pellucid_workload::{Dialect, Job, JobBuilder};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The name under which a description in a text is known, as of one that the command reads from standard input.
const TEXT_NAME: &str = "/dev/stdin";

/// Where a description comes from.
#[derive(Clone)]
enum Source {
    Named(SpecText),
    Text(String),
    /// The description in an image.
    Image(PathBuf, String),
}

impl Source {
    fn spec(&self, sets: &[String]) -> Result<Spec, SpecError> {
        match self {
            Source::Named(text) => text.spec(sets),
            Source::Text(text) => pellucid_spec::from_str(text, TEXT_NAME, sets),
            Source::Image(path, text) => pellucid_spec::from_str(text, &path.display().to_string(), sets),
        }
    }
}

/// A drive: a description with overrides and, once it was aged or read from an image, the drive with its past.
#[pyclass(frozen, module = "pellucid")]
pub struct State {
    source: Source,
    sets: Vec<String>,
    policies: Policies,
    /// The source with these overrides, resolved.
    spec: Spec,
    past: Option<String>,
    device: Option<Mutex<Device>>,
}

/// Passes of random overwriting: how much of the drive each overwrote, and its write amplification.
type Passes = Vec<(f64, Option<f64>)>;

#[pymethods]
impl State {
    /// The drive of a preset, a file or an image (`source`), or of a description in TOML (`text`), with `KEY=VALUE` overrides and
    /// policies in Python: key, name, object, and whether it is stateless.
    #[new]
    #[pyo3(signature = (source=None, text=None, sets=Vec::new(), policies=Vec::new()))]
    fn new(
        source: Option<String>,
        text: Option<String>,
        sets: Vec<String>,
        policies: Vec<(String, String, Py<PyAny>, bool)>,
    ) -> PyResult<State> {
        let policies = Policies::of(policies)?;
        check_once(&sets)?;
        let (source, past, device) = match (source, text) {
            (Some(name), None) if is_image(&name) => open_image(&name, &sets, &policies)?,
            (Some(name), None) => (Source::Named(SpecText::open(&name).map_err(Refusal::from)?), None, None),
            (None, Some(text)) => (Source::Text(text), None, None),
            _ => {
                return Err(Refusal::new(
                    "a drive: allowed: a preset, a file or an image, or toml=...; one of them",
                )
                .into());
            }
        };
        // Refused now, not when it runs.
        let spec = policies.adopt(source.spec(&sets).map_err(Refusal::from)?)?;
        policies::check()?;
        Ok(State { source, sets, policies, spec, past, device: device.map(Mutex::new) })
    }

    /// The name of the drive in reports.
    #[getter]
    fn name(&self) -> &str {
        &self.spec.drive_name
    }

    /// How the drive came to be what it is; `None`: it has no past, and every run begins with a new one.
    #[getter]
    fn past(&self) -> Option<&str> {
        self.past.as_deref()
    }

    /// The whole resolved description as TOML, with the source of every value: `pellucid show`.
    fn show(&self) -> String {
        pellucid_spec::show(&self.spec)
    }

    /// Every key of the resolved description with its value as TOML and where it was written.
    fn entries(&self) -> Vec<(&'static str, String, String)> {
        let entries = self.spec.provenance.entries.iter();
        entries.map(|entry| (entry.key, entry.value.clone(), entry.origin.place.to_string())).collect()
    }

    /// A copy with the same past and a future of its own.
    fn fork(&self, py: Python<'_>) -> PyResult<State> {
        if self.device.is_some() && matches!(self.spec.drive.media.store, StoreKind::File(_)) {
            return Err(Refusal::value(
                "drive.media.store",
                "\"file\"",
                "none or ram, whose drives can be copied",
            )
            .into());
        }
        let device = py.detach(|| self.device.as_ref().map(|device| Mutex::new(lock(device).clone())));
        policies::check()?;
        let (source, sets, past) = (self.source.clone(), self.sets.clone(), self.past.clone());
        Ok(State { source, sets, policies: self.policies.clone(), spec: self.spec.clone(), past, device })
    }

    /// The drive after preconditioning as its description and `sets` say, and the passes of random overwriting for each namespace.
    fn age(&self, py: Python<'_>, sets: Vec<String>) -> PyResult<(State, Vec<(Passes, String)>)> {
        let sets = [self.sets.clone(), sets].concat();
        check_once(&sets)?;
        let spec = self.policies.adopt(self.source.spec(&sets).map_err(Refusal::from)?)?;
        if self.device.is_some() || spec.medium == Medium::Disk || spec.has_host() {
            let message = "age: allowed: a drive of flash without a past, without layers of the host (pellucid age has those) or targets";
            return Err(Refusal::new(message).into());
        }
        warn(py, spec.check_effect(Use::Age).map_err(Refusal::from)?)?;
        check_memory(&spec)?;
        let mut watch = Watch::new(false);
        let aged = py.detach(|| experiment::age(&spec, &mut watch));
        if let Some(raised) = watch.raised() {
            return Err(raised);
        }
        let aged = aged.map_err(Refusal::from)?;
        let (source, past) = (self.source.clone(), Some(spec.precondition.words()));
        let policies = self.policies.clone();
        let state = State { source, sets, policies, spec, past, device: Some(Mutex::new(aged.device)) };
        Ok((state, aged.ageing.iter().map(passes).collect()))
    }

    /// Saves a drive that has a past as an image, which the command takes too; returns its bytes.
    fn save(&self, py: Python<'_>, path: PathBuf) -> Result<u64, Refusal> {
        let Some(device) = &self.device else {
            return Err(Refusal::new("save: the drive has no past to save; allowed: after age()"));
        };
        if path.exists() && !is_image(&path) {
            let message =
                format!("{}: a file that is no image; allowed: an image, or a new name", path.display());
            return Err(Refusal::new(message));
        }
        py.detach(|| {
            let file = OutputFile::create_private(&path)?;
            Ok(image::write(file, &self.spec, &lock(device))?)
        })
    }

    /// Does work on the drive: `jobs`, each as `key=value,...`, or a trace, or what the description says. `words` are the command line
    /// that repeats it. A drive with a past goes on from there.
    #[pyo3(signature = (sets, jobs, trace, words, requests))]
    fn run(
        &self,
        py: Python<'_>,
        sets: Vec<String>,
        jobs: Vec<String>,
        trace: Option<PathBuf>,
        words: Vec<String>,
        requests: bool,
    ) -> PyResult<Outcome> {
        let mut spec = self.run_spec(&sets)?;
        if !jobs.is_empty() {
            spec.run.trace = None;
            spec.jobs = jobs.iter().map(|text| parse_job(text, "job")).collect();
        }
        if let Some(trace) = trace {
            spec.jobs.clear();
            spec.run.trace = Some(trace);
        }
        if self.device.is_none() {
            fill_for_replay(&mut spec);
        }
        let jobs = experiment::jobs(&spec).map_err(Refusal::from)?;
        if jobs.is_empty() && spec.run.trace.is_none() {
            return Err(Refusal::from(ExperimentError::NoWork).into());
        }
        warn(py, spec.check_effect(Use::Work).map_err(Refusal::from)?)?;
        warn(py, without_effect(&jobs))?;
        if self.device.is_none() {
            check_memory(&spec)?;
        }
        let mut watch = Watch::new(requests);
        let done = py.detach(|| self.execute(&spec, &jobs, &mut watch));
        if let Some(raised) = watch.raised() {
            return Err(raised);
        }
        let (mut report, blocks) = done?;
        report.overrides = spec.provenance.overrides();
        report.workload.command_line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        // The command ends with status 1 here; a program goes on with what was measured.
        let unsteady = report.steady_state.iter().filter(|steady| !steady.reached);
        warn(py, unsteady.map(|steady| format!("steady state, {}", steady.words())).collect())?;
        warn(py, report.warnings.clone())?;
        let requests = watch.requests().map(tables::requests).transpose()?;
        Ok(Outcome::new(report, requests, blocks))
    }
}

impl State {
    /// The description of a run.
    fn run_spec(&self, sets: &[String]) -> Result<Spec, Refusal> {
        let of_drive = sets.iter().find(|set| !set.starts_with("run."));
        if let (Some(_), Some(set)) = (&self.device, of_drive) {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            return Err(Refusal::value(key, value, "keys of run; the drive has its past"));
        }
        if sets.is_empty() {
            return Ok(self.spec.clone());
        }
        let sets = [self.sets.clone(), sets.to_vec()].concat();
        check_once(&sets)?;
        self.policies.adopt(self.source.spec(&sets)?)
    }

    fn execute(
        &self,
        spec: &Spec,
        jobs: &[Job],
        watch: &mut Watch,
    ) -> Result<(Report, Option<tables::Table>), Refusal> {
        let began = Instant::now();
        let clock = || began.elapsed().as_secs_f64();
        let Some(device) = &self.device else {
            let (device, report) = execute_described(spec, jobs, &clock, watch)?;
            return Ok((report, device.as_ref().map(tables::blocks).transpose()?));
        };
        let mut device = lock(device);
        let oracle = spec.run.verify.then(|| Oracle::of_drive(&device));
        let mut report = execute_on(&mut *device, spec, jobs, oracle, &clock, watch)?;
        report.workload.precondition = self.past.clone().unwrap_or_default();
        Ok((report, Some(tables::blocks(&device)?)))
    }
}

/// Refuses a key that has two values, also where both say the same: the command refuses them, too.
fn check_once(sets: &[String]) -> Result<(), Refusal> {
    let given: Vec<_> = sets.iter().flat_map(|set| keys_of_set(set)).collect();
    match given_twice(&given) {
        None => Ok(()),
        Some((key, [one, other])) => {
            Err(Refusal::new(format!("{key}: given twice, as {one} and as {other}; allowed: once")))
        }
    }
}

fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_image(
    name: &str,
    sets: &[String],
    policies: &Policies,
) -> Result<(Source, Option<String>, Option<Device>), Refusal> {
    let image = Image::open(name)?;
    let source = Source::Image(name.into(), image.description().into());
    let spec = policies.adopt(source.spec(sets)?)?;
    if spec.has_host() {
        let message = format!("{name}: layers or targets stand above the image; allowed: with pellucid run");
        return Err(Refusal::new(message));
    }
    let past = image.past();
    let device = image.device(&spec)?;
    Ok((source, Some(past + &image::wear_words(&device)), Some(device)))
}

fn passes(ageing: &Ageing) -> (Passes, String) {
    let passes = ageing.passes.iter().map(|pass| (pass.overwritten, pass.write_amplification)).collect();
    (passes, ageing.reason())
}

/// Refuses preconditioning that would take more memory than the machine has.
fn check_memory(spec: &Spec) -> Result<(), Refusal> {
    let needed = experiment::memory_bytes(spec)?;
    match experiment::available_memory_bytes() {
        Some(available) if available < needed => Err(Refusal::new(format!(
            "{}: preconditioning will take about {} of memory, of which the machine has {} available; allowed: less of \
             precondition.fill, or a smaller drive (media.blocks)",
            spec.drive_name,
            bytes(needed as f64),
            bytes(available as f64)
        ))),
        _ => Ok(()),
    }
}

/// Keys of jobs that change nothing, as sentences.
fn without_effect(jobs: &[Job]) -> Vec<String> {
    let first = jobs.iter().filter(|job| job.clone_index == 0);
    let sentences = first.flat_map(|job| job.written.without_effect());
    sentences.map(|(place, key, why)| format!("{place}: {key} has no effect: {why}")).collect()
}

fn warn(py: Python<'_>, sentences: Vec<String>) -> PyResult<()> {
    let category = py.get_type::<PyRuntimeWarning>();
    let mut texts = sentences.into_iter().map(std::ffi::CString::new);
    texts.try_for_each(|text| PyErr::warn(py, &category, &text?, 3))
}

/// Checks the keys of a job, `key=value,...`, as far as they can be checked without a drive.
#[pyfunction]
pub fn check_job(text: &str) -> Result<(), Refusal> {
    let mut builder = JobBuilder::new(Dialect::Native);
    for pair in parse_job(text, "job").pairs {
        builder.set(&pair.key, &pair.value)?;
    }
    builder.build()?;
    Ok(())
}

/// The drives that come with Pellucid: name and summary.
#[pyfunction]
pub fn presets() -> Vec<(&'static str, &'static str)> {
    pellucid_spec::presets().iter().map(|preset| (preset.name, preset.summary)).collect()
}

/// Every key of a description: name, allowed values, default, and meaning.
#[pyfunction]
pub fn keys() -> Vec<(&'static str, String, Option<String>, &'static str)> {
    pellucid_spec::keys().into_iter().map(|key| (key.key, key.allowed, key.default, key.about)).collect()
}
