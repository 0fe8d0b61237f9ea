//! `pellucid target`: targets on ranges of parallel units of an open-channel drive.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_flash::{ChunkGeometry, Drive, Interface};
use pellucid_host::{Target, TargetKind, Targets};
use pellucid_lab::targets::{RegistryError, load, registry_path, save};
use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid target create open.toml main --units 0-63
  pellucid target create open.toml log --units 64-95 --kind raw
  pellucid target list open.toml
  pellucid run open.toml --target main --rw randwrite --number_ios 100000
  pellucid target remove open.toml log";

/// Create, list and remove targets on ranges of parallel units
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TargetCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a target; units that another one has are refused
    Create {
        /// A description in TOML, or an image; the targets are kept beside it
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
    /// Show the drive's parallel units and who has them
    List {
        /// A description in TOML, or an image
        drive: String,
    },
    /// Take a target away; its data stay on its units until another resets them
    Remove {
        /// A description in TOML, or an image
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
            RegistryError::File(..) => Failure::work(error),
            RegistryError::Malformed(..) | RegistryError::Target(_) => Failure::asked(error),
        }
    }
}

/// The shape of the drive's first open-channel namespace, its number, and the registry.
fn open(drive: &str, global: &Global) -> Result<(ChunkGeometry, u16, Targets, PathBuf), Failure> {
    let device = Subject::open(drive, None, global)?.device()?;
    let found = (0..device.namespaces()).find_map(|namespace| match Drive::interface(&device, namespace) {
        Some(Interface::OpenChannel(geometry)) => Some((geometry, namespace)),
        _ => None,
    });
    let Some((geometry, namespace)) = found else {
        let message = "no open-channel namespace; targets need parallel units ([[drive.namespace]] interface = \"open-channel\")";
        return Err(Failure::asked(anyhow!("{drive}: {message}")));
    };
    let path = registry_path(drive);
    let targets = load(&path, &geometry)?;
    Ok((geometry, namespace, targets, path))
}

/// A target by name, and the namespace it is on.
pub fn find(drive: &str, name: &str, global: &Global) -> Result<(Target, u16), Failure> {
    let (_, namespace, targets, _) = open(drive, global)?;
    let target = targets.get(name).map_err(RegistryError::Target)?.clone();
    Ok((target, namespace))
}

impl TargetCommand {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.action {
            Action::Create { drive, name, units, kind } => {
                let (geometry, _, mut targets, path) = open(&drive, global)?;
                let text = format!("{name}{units:?}{}", targets.list().len());
                let uuid = text.bytes().fold(0x6c62_272e_07bb_0142, |hash: u64, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                });
                let target = Target { name, kind, units, uuid };
                targets.create(&geometry, target).map_err(RegistryError::Target)?;
                save(&path, &targets)?;
                Ok(output::print(&table(&geometry, &targets))?)
            }
            Action::List { drive } => {
                let (geometry, _, targets, _) = open(&drive, global)?;
                Ok(output::print(&table(&geometry, &targets))?)
            }
            Action::Remove { drive, name } => {
                let (geometry, _, mut targets, path) = open(&drive, global)?;
                targets.remove(&name).map_err(RegistryError::Target)?;
                save(&path, &targets)?;
                Ok(output::print(&table(&geometry, &targets))?)
            }
        }
    }
}

/// The parallel units in order, with their targets.
fn table(geometry: &ChunkGeometry, targets: &Targets) -> String {
    let mut out = String::new();
    let all = geometry.parallel_units();
    let mib =
        (u64::from(geometry.chunks) * u64::from(geometry.chunk_sectors) * u64::from(geometry.sector_bytes))
            >> 20;
    let _ = writeln!(
        out,
        "{} groups x {} units, {} chunks of {} sectors each, {mib} MiB a unit",
        geometry.groups, geometry.units, geometry.chunks, geometry.chunk_sectors
    );
    let mut row = |units: Range<u32>, kind: &str, name: &str| {
        if !units.is_empty() {
            let range = format!("{}-{}", units.start, units.end - 1);
            let size = format!("{} MiB", mib * units.len() as u64);
            let _ = writeln!(out, "{range:>11}  {size:>12}  {kind:6}  {name}");
        }
    };
    let mut next = 0;
    for target in targets.list() {
        row(next..target.units.start, "free", "");
        row(target.units.clone(), target.kind.name(), &target.name);
        next = target.units.end;
    }
    row(next..all, "free", "");
    out
}
