//! `pellucid target`: targets on ranges of parallel units of an open-channel drive, of a file or of a server that is running.

use crate::args::Global;
use crate::commands::control::Control;
use crate::failure::Failure;
use crate::output;
use crate::subject::{Subject, split_sets};
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::{ChunkGeometry, Drive, Interface};
use pellucid_host::{HostFtlConfig, Shared, Target, TargetError, TargetKind, Targets};
use pellucid_spec::targets::{Hold, RegistryError, add_described, load, registry_path, save};
use pellucid_spec::{DescribedTarget, Spec, presets};
use pellucid_target::request::Request;
use pellucid_text::read_range;
use pellucid_workload::Job;
use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid target create open.toml main --units 0-63
  pellucid target create open.toml log --units 64-95 --kind raw
  pellucid target list open.toml
  pellucid run open.toml --target main --rw randwrite --number-ios 100000
  pellucid target remove open.toml log
  pellucid target create open log --units 64-95 --kind raw --control /tmp/pellucid.control";

/// Create, list and remove targets on ranges of parallel units
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TargetCommand {
    #[command(subcommand)]
    action: Action,
    /// Ask the server with this control socket; DRIVE is then the name under which it serves the drive. A target is an NBD export
    /// (block) and an NVMe subsystem, both called DRIVE.NAME
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a target; units that another one has are refused
    Create {
        /// A description in TOML, or an image; the targets are kept beside it. With --control a served drive
        drive: String,
        /// The target's name
        name: String,
        /// Its parallel units, numbered through all groups
        #[arg(long, value_name = "FIRST-LAST", value_parser = units)]
        units: Range<u32>,
        /// block: a host FTL; raw: vector commands of an application
        #[arg(long, default_value = "block", value_parser = kind)]
        kind: TargetKind,
    },
    /// Show the drive's parallel units and which target has them
    List {
        /// A description in TOML, or an image; with --control a served drive
        drive: String,
    },
    /// Remove a target; its data stay on its units until another target resets them. Refused while a server uses the target
    Remove {
        /// A description in TOML, or an image; with --control a served drive
        drive: String,
        /// The target's name
        name: String,
    },
}

fn units(text: &str) -> Result<Range<u32>, String> {
    read_range(text).ok_or_else(|| "allowed: FIRST-LAST, such as 0-63, or one number".into())
}

fn kind(text: &str) -> Result<TargetKind, String> {
    TargetKind::from_name(text).ok_or_else(|| "allowed: block, raw".into())
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Failure {
        match error {
            RegistryError::File(..) | RegistryError::Held(_) => Failure::work(error),
            RegistryError::Malformed(..) | RegistryError::Target(_) | RegistryError::Described { .. } => {
                Failure::asked(error)
            }
        }
    }
}

/// An open-channel drive that is not asked of a server.
struct OnFile<'a> {
    /// As it was asked for.
    called: &'a str,
    geometry: ChunkGeometry,
    /// The drive, and the settings of the host FTLs on it.
    device: Device,
    settings: HostFtlConfig,
    /// The targets of its description.
    described: Vec<DescribedTarget>,
    /// File of the others.
    registry: PathBuf,
}

impl OnFile<'_> {
    fn open<'a>(called: &'a str, global: &Global) -> Result<OnFile<'a>, Failure> {
        if presets().iter().any(|preset| preset.name == split_sets(called, &[]).0) {
            let message = "a preset, which keeps no targets; allowed: a description in TOML, or an image";
            return Err(Failure::asked(anyhow!("{called}: {message}")));
        }
        let subject = Subject::open(called, None, global)?;
        let settings = subject.spec.host_ftl.clone();
        let described = subject.spec.targets.clone();
        let device = subject.device()?;
        let shape = |namespace| match Drive::interface(&device, namespace) {
            Some(Interface::OpenChannel(geometry)) => Some(geometry),
            _ => None,
        };
        let geometry = (0..device.namespaces()).find_map(shape).ok_or_else(|| {
            let message = "no open-channel namespace; targets need parallel units ([[drive.namespace]] interface = \"open-channel\")";
            Failure::asked(anyhow!("{called}: {message}"))
        })?;
        Ok(OnFile { called, geometry, device, settings, described, registry: registry_path(called) })
    }

    /// Adds a target beside those of the registry and of the description, if the drive takes all of them, as a run or a server asks of it.
    fn create(&self, targets: &mut Targets, target: Target) -> Result<(), Failure> {
        let mut all = targets.clone();
        add_described(&mut all, &self.described, &self.geometry, &self.registry)?;
        let name = target.name.clone();
        all.create(&self.geometry, target.clone()).map_err(|error| match &error {
            TargetError::Exists(_) if self.describes(&name) => Failure::asked(anyhow!(
                "{name}: a [[target]] of this name is in {}; allowed: another name",
                self.called
            )),
            TargetError::Overlap { other, .. } if self.describes(&other.name) => {
                Failure::asked(anyhow!("{name}: {error}; {} is a [[target]] of {}", other.name, self.called))
            }
            _ => RegistryError::Target(error).into(),
        })?;
        let now = self.device.now();
        let shared = Shared::new(self.device.clone(), now, 0);
        let mut shared =
            shared.map_err(|_| Failure::asked(anyhow!("{}: no open-channel namespace", self.called)))?;
        for one in all.list() {
            shared.create(one.clone(), &self.settings).map_err(Failure::asked)?;
        }
        targets.create(&self.geometry, target).map_err(|error| RegistryError::Target(error).into())
    }

    fn remove(&self, targets: &mut Targets, name: &str) -> Result<(), Failure> {
        match targets.remove(name) {
            Ok(_) => Ok(()),
            Err(_) if self.describes(name) => Err(Failure::asked(anyhow!(
                "{name}: a [[target]] of {}; allowed: targets that pellucid target has made",
                self.called
            ))),
            Err(error) => Err(RegistryError::Target(error).into()),
        }
    }

    fn describes(&self, name: &str) -> bool {
        self.described.iter().any(|one| one.target.name == name)
    }

    /// Changes the registry, unless a server has it, and shows what is there then.
    fn change(
        &self,
        change: impl FnOnce(&mut Targets) -> Result<(), Failure>,
        global: &Global,
    ) -> Result<(), Failure> {
        let _held = Hold::take(&self.registry)?;
        let mut targets = load(&self.registry, &self.geometry)?;
        change(&mut targets)?;
        save(&self.registry, &targets)?;
        self.show(&targets, global)
    }

    /// Shows the targets of the registry and of the description, even if they overlap.
    fn show(&self, targets: &Targets, global: &Global) -> Result<(), Failure> {
        let own = targets.list().iter().filter(|target| !self.described.iter().any(|d| d.target == **target));
        let mut rows: Vec<Row> = own.map(|target| Row::new(target, "")).collect();
        rows.extend(self.described.iter().map(|one| Row::new(&one.target, "of the description")));
        rows.sort_by_key(|row| row.units.start);
        show(&Shape::of(&self.geometry), &rows, global)
    }
}

/// A target of the registry by name, and the registry.
fn find(drive: &str, name: &str, global: &Global) -> Result<(Target, PathBuf), Failure> {
    let on = OnFile::open(drive, global)?;
    let targets = load(&on.registry, &on.geometry)?;
    Ok((targets.get(name).map_err(RegistryError::Target)?.clone(), on.registry))
}

/// Has the work of a drive, which was `called` so, go to a target: of its description, or of its registry. A trace, if that is the
/// work, goes to it alone.
pub fn work_on(subject: &mut Subject, called: &str, name: &str, global: &Global) -> Result<(), Failure> {
    if !subject.has_target(name)? {
        let (called, sets) = split_sets(called, &global.sets);
        let (target, registry) = find(called, name, &Global { sets, ..global.clone() })?;
        subject.put_on_target(target);
        subject.reads("targets", &registry);
    }
    subject.trace_only_on(name);
    Ok(())
}

/// Gives this target, that of `--target`, to jobs that name none.
///
/// # Errors
/// A job names a namespace instead.
pub fn give_to(jobs: &mut [Job], target: Option<&str>) -> Result<(), Failure> {
    let Some(name) = target else { return Ok(()) };
    for job in jobs.iter_mut().filter(|job| job.target.is_none()) {
        if let Some(number) = job.namespace {
            let message = "namespace and target do not go together; allowed: one of them";
            return Err(Failure::asked(anyhow!("--target {name} and namespace = {number}: {message}")));
        }
        job.target = Some(name.into());
    }
    Ok(())
}

/// Tells of jobs that name no target of several: they work on the first.
pub fn tell_first(jobs: &[Job], spec: &Spec, global: &Global) {
    let blocks: Vec<&str> = spec
        .targets
        .iter()
        .map(|one| &one.target)
        .filter(|t| t.kind == TargetKind::Block)
        .map(|t| t.name.as_str())
        .collect();
    let is_open = |job: &&Job| job.target.is_none() && job.namespace.is_none() && job.raw.is_none();
    if let (&[first, _, ..], Some(_)) = (&blocks[..], jobs.iter().find(is_open)) {
        let all = blocks.join(", ");
        let message = format!(
            "no target was named, so the work goes to {first}, the first of {all} (--target NAME, or target = in a job)"
        );
        output::notice(global, &message);
    }
}

impl TargetCommand {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.control {
            Some(_) if !global.sets.is_empty() => Err(Failure::asked(anyhow!(
                "--set means nothing to a server's drive; allowed: without --control"
            ))),
            Some(control) => self.action.ask(&control, global),
            None => self.action.on_file(global),
        }
    }
}

impl Action {
    fn on_file(self, global: &Global) -> Result<(), Failure> {
        match self {
            Action::Create { drive, name, units, kind } => {
                let on = OnFile::open(&drive, global)?;
                on.change(|targets| on.create(targets, Target::new(name, kind, units)), global)
            }
            Action::List { drive } => {
                let on = OnFile::open(&drive, global)?;
                on.show(&load(&on.registry, &on.geometry)?, global)
            }
            Action::Remove { drive, name } => {
                let on = OnFile::open(&drive, global)?;
                on.change(|targets| on.remove(targets, &name), global)
            }
        }
    }

    /// Sends the request to a server, and shows the targets that its drive then has.
    fn ask(self, control: &Path, global: &Global) -> Result<(), Failure> {
        let mut server = Control::connect(control)?;
        let drive = match self {
            Action::Create { drive, name, units, kind } => {
                let target = Target::new(name, kind, units);
                server.ask(&Request::TargetCreate { drive: Some(drive.clone()), target })?;
                drive
            }
            Action::List { drive } => drive,
            Action::Remove { drive, name } => {
                server.ask(&Request::TargetRemove { drive: Some(drive.clone()), name })?;
                drive
            }
        };
        let answer = server.ask(&Request::Targets { drive: Some(drive) })?;
        let strange = || Failure::work(anyhow!("{}: an invalid answer", control.display()));
        let shape = Shape::of_answer(&answer).ok_or_else(strange)?;
        let rows = answer["targets"].as_array().and_then(|all| all.iter().map(Row::of_answer).collect());
        let rows: Vec<Row> = rows.ok_or_else(strange)?;
        show(&shape, &rows, global)
    }
}

/// The shape of a drive, as far as the table shows it.
struct Shape {
    groups: u32,
    units: u32,
    chunks: u32,
    chunk_sectors: u32,
    sector_bytes: u32,
}

impl Shape {
    fn of(geometry: &ChunkGeometry) -> Shape {
        let &ChunkGeometry { groups, units, chunks, chunk_sectors, sector_bytes, .. } = geometry;
        Shape { groups, units, chunks, chunk_sectors, sector_bytes }
    }

    fn of_answer(answer: &Value) -> Option<Shape> {
        let number = |key: &str| answer[key].as_u64().and_then(|number| u32::try_from(number).ok());
        Some(Shape {
            groups: number("groups")?,
            units: number("units_per_group")?,
            chunks: number("chunks")?,
            chunk_sectors: number("chunk_sectors")?,
            sector_bytes: number("sector_bytes")?,
        })
    }
}

/// A line of the table.
struct Row {
    units: Range<u32>,
    kind: String,
    name: String,
    /// More about it: what a server reports, or that it is of the description.
    state: String,
}

impl Row {
    fn new(target: &Target, state: &str) -> Row {
        let Target { name, kind, units, .. } = target;
        Row { units: units.clone(), kind: kind.name().into(), name: name.clone(), state: state.into() }
    }

    fn of_answer(target: &Value) -> Option<Row> {
        let number = |key: &str| target[key].as_u64().and_then(|number| u32::try_from(number).ok());
        let first = number("first_unit")?;
        let text = |key: &str| target[key].as_str();
        let (name, served, state) = (text("name")?, text("namespace")?, text("state")?);
        let connections = target["connections"].as_u64()?;
        Some(Row {
            units: first..first.checked_add(number("units")?)?,
            kind: text("kind")?.into(),
            name: name.into(),
            state: format!("{state}, served as {served}, {connections} connections"),
        })
    }
}

/// Prints the present targets in the form asked for.
fn show(shape: &Shape, targets: &[Row], global: &Global) -> Result<(), Failure> {
    let text = if global.json { format!("{:#}\n", as_json(shape, targets)) } else { table(shape, targets) };
    Ok(output::print(&text)?)
}

fn as_json(shape: &Shape, targets: &[Row]) -> Value {
    let Shape { groups, units, chunks, chunk_sectors, sector_bytes } = *shape;
    let target = |row: &Row| {
        let mut fields = json!({
            "name": row.name, "kind": row.kind, "first_unit": row.units.start, "units": row.units.len(),
        });
        if !row.state.is_empty() {
            fields["state"] = row.state.as_str().into();
        }
        fields
    };
    json!({
        "groups": groups, "units_per_group": units, "chunks": chunks, "chunk_sectors": chunk_sectors,
        "sector_bytes": sector_bytes, "targets": targets.iter().map(target).collect::<Value>(),
    })
}

/// The parallel units in order, with their targets.
fn table(shape: &Shape, targets: &[Row]) -> String {
    let mut out = String::new();
    let Shape { groups, units, chunks, chunk_sectors, sector_bytes } = *shape;
    let mib = (u64::from(chunks) * u64::from(chunk_sectors) * u64::from(sector_bytes)) >> 20;
    let _ = writeln!(
        out,
        "{groups} groups x {units} units, {chunks} chunks of {chunk_sectors} sectors each, {mib} MiB a unit"
    );
    let mut row = |units: Range<u32>, kind: &str, name: &str| {
        if !units.is_empty() {
            let range = format!("{}-{}", units.start, units.end - 1);
            let size = format!("{} MiB", mib * units.len() as u64);
            let _ = writeln!(out, "{range:>11}  {size:>12}  {kind:6}  {name}");
        }
    };
    let mut next = 0;
    for target in targets {
        row(next..target.units.start, "free", "");
        let name = format!("{}  {}", target.name, target.state);
        row(target.units.clone(), &target.kind, name.trim_end());
        next = next.max(target.units.end);
    }
    row(next..groups * units, "free", "");
    out
}
