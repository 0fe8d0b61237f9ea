//! `pellucid target`: targets on ranges of parallel units of an open-channel drive, of a file or of a server that is running.

use crate::args::Global;
use crate::commands::control::Control;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_flash::{ChunkGeometry, Drive, Interface};
use pellucid_host::{Target, TargetError, TargetKind, Targets};
use pellucid_serve::control::Request;
use pellucid_spec::targets::{Hold, RegistryError, load, registry_path, save};
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
        /// Its parallel units, groups and units counted through
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
    /// Take a target away; its data stay on its units until another resets them. A server refuses while it is used
    Remove {
        /// A description in TOML, or an image; with --control a served drive
        drive: String,
        /// The target's name
        name: String,
    },
}

fn units(text: &str) -> Result<Range<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u32>(), last.parse::<u32>()) {
        (Ok(first), Ok(last)) if first <= last && last < u32::MAX => Ok(first..last + 1),
        _ => Err("allowed: FIRST-LAST, such as 0-63, or one number".into()),
    }
}

fn kind(text: &str) -> Result<TargetKind, String> {
    TargetKind::from_name(text).ok_or_else(|| "allowed: block, raw".into())
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Failure {
        match error {
            RegistryError::File(..) | RegistryError::Held(_) => Failure::work(error),
            RegistryError::Malformed(..) | RegistryError::Target(_) => Failure::asked(error),
        }
    }
}

/// The shape of the drive's first open-channel namespace, and its number.
fn shape(drive: &str, global: &Global) -> Result<(ChunkGeometry, u16), Failure> {
    let device = Subject::open(drive, None, global)?.device()?;
    let found = (0..device.namespaces()).find_map(|namespace| match Drive::interface(&device, namespace) {
        Some(Interface::OpenChannel(geometry)) => Some((geometry, namespace)),
        _ => None,
    });
    found.ok_or_else(|| {
        let message = "no open-channel namespace; targets need parallel units ([[drive.namespace]] interface = \"open-channel\")";
        Failure::asked(anyhow!("{drive}: {message}"))
    })
}

/// A target by name.
pub fn find(drive: &str, name: &str, global: &Global) -> Result<Target, Failure> {
    let (geometry, _) = shape(drive, global)?;
    let targets = load(&registry_path(drive), &geometry)?;
    Ok(targets.get(name).map_err(RegistryError::Target)?.clone())
}

/// Changes the registry of a drive that no server has, and shows what is there then.
fn change(
    drive: &str,
    global: &Global,
    change: impl FnOnce(&ChunkGeometry, &mut Targets) -> Result<(), TargetError>,
) -> Result<(), Failure> {
    let (geometry, _) = shape(drive, global)?;
    let path = registry_path(drive);
    let _held = Hold::take(&path)?;
    let mut targets = load(&path, &geometry)?;
    change(&geometry, &mut targets).map_err(RegistryError::Target)?;
    save(&path, &targets)?;
    show(&Shape::of(&geometry), &rows(&targets), global)
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
            Action::Create { drive, name, units, kind } => change(&drive, global, |geometry, targets| {
                targets.create(geometry, Target::new(name, kind, units))
            }),
            Action::List { drive } => {
                let (geometry, _) = shape(&drive, global)?;
                let targets = load(&registry_path(&drive), &geometry)?;
                show(&Shape::of(&geometry), &rows(&targets), global)
            }
            Action::Remove { drive, name } => {
                change(&drive, global, |_, targets| targets.remove(&name).map(drop))
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
        let strange = || Failure::work(anyhow!("{}: an answer that makes no sense", control.display()));
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
    /// Additional state that a server reports.
    state: String,
}

impl Row {
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

fn rows(targets: &Targets) -> Vec<Row> {
    let row = |target: &Target| Row {
        units: target.units.clone(),
        kind: target.kind.name().into(),
        name: target.name.clone(),
        state: String::new(),
    };
    targets.list().iter().map(row).collect()
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
        next = target.units.end;
    }
    row(next..groups * units, "free", "");
    out
}
