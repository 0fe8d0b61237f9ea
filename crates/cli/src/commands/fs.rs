//! `pellucid fs`: the log-structured file system on a file, a block device or a modelled drive.

use super::serving::parse_time;
use crate::args::Global;
use crate::failure::Failure;
use crate::subject::Subject;
use crate::{interrupt, output};
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::SimTime;
use pellucid_fs::{Audit, BLOCK_BYTES, FsState, MountOptions, StatFs};
use pellucid_host::{Layer, LayerConfig, Tower};
use pellucid_mount::{
    Format, ModelledDrive, Mounted, MountedOptions, Pace, Target, TargetError, Volume, check_point, now,
};
use pellucid_serve::Time;
use pellucid_text::format::{binary_bytes, count, percent};
use pellucid_workload::{Grammar, parse_bytes};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  pellucid fs format disk.img --size 10GiB
  pellucid fs mount disk.img mnt
  pellucid fs check disk.img
  pellucid fs format flash.media --drive cosmos-plus --set media.blocks=64
  pellucid fs mount flash.media mnt --drive cosmos-plus --set media.blocks=64

TARGET is a file or a block device; with --drive it is the file of the media of a modelled drive. A mount lasts until umount, Ctrl-C or SIGTERM; after a
kill the next mount goes on from the last commit.";

/// A log-structured file system on a file, a block device or a modelled drive: format, mount, check, dump, stat
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Fs {
    #[command(subcommand)]
    command: FsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum FsCommand {
    /// Makes an empty file system
    Format {
        #[command(flatten)]
        ground: Ground,
        /// Size of the file, such as 10GiB; it is made if it is not there [default: the size it has; with --drive as large as the drive]
        #[arg(long, value_name = "SIZE")]
        size: Option<String>,
        /// Replace what is on it
        #[arg(long)]
        force: bool,
        /// Have checksums of metadata only
        #[arg(long)]
        no_data_checksums: bool,
    },
    /// Mounts it and serves the mount until it ends
    Mount(Mount),
    /// Walks everything and says what is wrong
    Check(Ground),
    /// Lists all files and their attributes
    Dump(Ground),
    /// Sizes, and what is used
    Stat(Ground),
}

#[derive(Debug, clap::Args)]
struct Mount {
    #[command(flatten)]
    ground: Ground,
    /// How the time of --drive goes. paced: its modelled latency is kept; instant: as fast as possible; xF: everything takes F times as long
    /// [default: paced]
    #[arg(long, value_name = "TIME", requires = "drive", value_parser = parse_pace)]
    time: Option<Pace>,
    /// An existing directory
    mountpoint: PathBuf,
    /// Refuse changes, and leave the image as it is
    #[arg(long)]
    read_only: bool,
    /// Memory for changes that are not written yet and for what was read, such as 64MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: String,
    /// Threads that answer the kernel [default: two for each processor, at least 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Let other users in, as far as modes allow [default: where root mounts]
    #[arg(long)]
    allow_other: bool,
    /// Give the room of free segments back to the file or device
    #[arg(long)]
    discard: bool,
}

impl Mount {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let memory_bytes = size_of("--memory", &self.memory)? as usize;
        if memory_bytes < MEMORY_MIN {
            return Err(Failure::asked(anyhow!(
                "--memory {}: too little; allowed: from 4MiB on",
                self.memory
            )));
        }
        check_point(&self.mountpoint).map_err(Failure::asked)?;
        let options = MountOptions {
            memory_bytes,
            read_only: self.read_only,
            discard: self.discard,
            ..MountOptions::default()
        };
        let Open { target, drive } =
            self.ground.open(options, self.time.unwrap_or(Pace::Paced(1.0)), global)?;
        let read_only = target.fs.state() == FsState::ReadOnly;
        if read_only && !self.read_only {
            let why = "takes no writes, or not all metadata can be read: it is mounted read-only";
            output::warn(global, [format!("{}: {why}", self.ground.target.display())]);
        }
        let options = MountedOptions {
            read_only,
            others: self.allow_other,
            threads: self.threads.map(|threads| threads as usize),
        };
        let mut mounted =
            Mounted::new(Volume::new(target), &self.mountpoint, &options).map_err(Failure::asked)?;
        let ender = mounted.ender();
        interrupt::instead(move || ender.end());
        let point = self.mountpoint.display();
        if !global.quiet {
            output::print(&format!(
                "{} is mounted at {point}; umount {point} or Ctrl-C ends it\n",
                self.ground.target.display()
            ))?;
        }
        let served = mounted.serve().map_err(Failure::work);
        served.and(put_away(drive.as_deref()))
    }
}

/// Less is of no use.
const MEMORY_MIN: usize = 4 << 20;

impl Fs {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let told = match self.command {
            FsCommand::Format { ground, size, force, no_data_checksums } => {
                let bytes = size.map(|size| size_of("--size", &size)).transpose()?;
                ground.format(&Format { bytes, force, data_checksums: !no_data_checksums }, global)?
            }
            FsCommand::Mount(command) => return command.run(global),
            FsCommand::Check(ground) => return check(&ground, global),
            FsCommand::Dump(ground) => return dump(&ground, global),
            FsCommand::Stat(ground) => {
                let Open { mut target, .. } = ground.look(global)?;
                Told::of(&ground.target, &mut target)?
            }
        };
        Ok(output::print(&if global.json { told.json() } else { told.text() })?)
    }
}

fn size_of(option: &str, size: &str) -> Result<u64, Failure> {
    parse_bytes(size, Grammar::Ours).map_err(|error| Failure::asked(anyhow!("{option} {size}: {error}")))
}

/// What is wrong with a target was asked wrongly; that it cannot be read or written is not.
fn failure(error: TargetError) -> Failure {
    match error {
        error @ TargetError::Failed(..) => Failure::work(error),
        error => Failure::asked(error),
    }
}

/// What a file system lies on.
#[derive(Debug, clap::Args)]
struct Ground {
    /// File or block device; with --drive the file of its media
    target: PathBuf,
    /// A preset or a description in TOML: a modelled drive in this process, whose media are in TARGET. On an open-channel namespace segments are
    /// flash blocks, on a nameless one the drive places the data, or the FTL of nameless writes in front of it (jasmine-nameless)
    #[arg(long, value_name = "DRIVE")]
    drive: Option<String>,
}

type Modelled = ModelledDrive<Tower<Device>>;

/// A file system, and the modelled drive that it lies on, if it does.
struct Open {
    target: Target,
    drive: Option<Arc<Modelled>>,
}

impl Ground {
    /// The modelled drive; `None`: it lies on a plain file or device.
    fn drive(&self, pace: Pace, global: &Global) -> Result<Option<Arc<Modelled>>, Failure> {
        let refuse = |why: String| Failure::asked(anyhow!("{}: {why}", self.target.display()));
        let Some(called) = &self.drive else {
            return match global.sets.first() {
                Some(set) => Err(refuse(format!("--set {set} without a drive; allowed: with --drive"))),
                None => Ok(None),
            };
        };
        let mut global = global.clone();
        global.sets.push(format!("media.store=file:{}", self.target.display()));
        let subject = Subject::open_to_serve(called, &global)?;
        let layers = below(called, &subject.spec.host)?;
        let tower = Tower::build(subject.device()?, &layers, SimTime::ZERO).map_err(refuse)?;
        let (namespace, began) =
            tower.stack().map_or((0, SimTime::ZERO), |stack| (stack.namespace(), stack.now()));
        let drive = ModelledDrive::start(&self.target, tower, namespace, began, pace).map_err(refuse)?;
        Ok(Some(Arc::new(drive)))
    }

    fn format(&self, how: &Format, global: &Global) -> Result<Told, Failure> {
        if let (Some(_), Some(_)) = (&self.drive, how.bytes) {
            return Err(Failure::asked(anyhow!(
                "--size with --drive: a drive has the size of its description; allowed: --set media.blocks=N"
            )));
        }
        let existed = self.target.exists();
        let made = self.make(how, global);
        if made.is_err() && self.drive.is_some() && !existed {
            // Nothing else has been in it.
            let _ = std::fs::remove_file(&self.target);
        }
        made
    }

    fn make(&self, how: &Format, global: &Global) -> Result<Told, Failure> {
        let drive = self.drive(Pace::Instant, global)?;
        let made = match &drive {
            Some(drive) => Target::format_drive(Arc::clone(drive), how),
            None => Target::format(&self.target, how),
        };
        let mut target = made.map_err(failure)?;
        let told = Told::of(&self.target, &mut target)?;
        target.close().map_err(failure)?;
        put_away(drive.as_deref())?;
        Ok(told)
    }

    fn open(&self, options: MountOptions, pace: Pace, global: &Global) -> Result<Open, Failure> {
        if self.drive.is_some()
            && let Err(error) = self.target.metadata()
        {
            // A drive would make it.
            return Err(Failure::asked(anyhow!("{}: {error}", self.target.display())));
        }
        let drive = self.drive(pace, global)?;
        let read_only = options.read_only || drive.as_ref().is_some_and(|drive| drive.act(takes_no_writes));
        let options = MountOptions { read_only, ..options };
        let opened = match &drive {
            Some(drive) => Target::open_drive(Arc::clone(drive), options),
            None => Target::open(&self.target, options),
        };
        Ok(Open { target: opened.map_err(failure)?, drive })
    }

    /// Opens it to be looked at.
    fn look(&self, global: &Global) -> Result<Open, Failure> {
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        self.open(options, Pace::Instant, global)
    }
}

/// The layers of a host between a drive and a file system: the FTL of nameless writes, where a description has one. A file system stands in
/// the place of the nameless file, with or without a block layer, that is described above it.
fn below(called: &str, layers: &[LayerConfig]) -> Result<Vec<LayerConfig>, Failure> {
    let of_names = layers.iter().any(|l| matches!(l, LayerConfig::NamelessFile(_)));
    if !layers.is_empty() && !of_names {
        let message = "has layers of a host; allowed: a drive alone, or one of nameless writes";
        return Err(Failure::asked(anyhow!("--drive {called}: {message}")));
    }
    let ftl = layers.iter().filter(|l| matches!(l, LayerConfig::NamelessFtl(_)));
    Ok(ftl.map(LayerConfig::in_real_time).collect())
}

fn takes_no_writes(tower: &mut Tower<Device>) -> bool {
    tower.bottom().is_read_only() || tower.layers().any(Layer::is_read_only)
}

/// Brings what a modelled drive holds, and what stands on it, to its file.
fn put_away(drive: Option<&Modelled>) -> Result<(), Failure> {
    let Some(drive) = drive else { return Ok(()) };
    let stop = |tower: &mut Tower<Device>| {
        // What takes no writes has nothing to put away.
        if takes_no_writes(tower) { Ok(()) } else { tower.stop() }
    };
    let stopped = drive.act(|tower| stop(tower).map(|()| tower.bottom_mut().sync()));
    stopped.map_err(|why| Failure::work(anyhow!(why)))?.map_err(Failure::work)
}

fn parse_pace(text: &str) -> Result<Pace, String> {
    match parse_time(text)? {
        Time::Instant => Ok(Pace::Instant),
        Time::Paced { dilation } => Ok(Pace::Paced(dilation)),
    }
}

/// What is told of a file system.
struct Told {
    path: String,
    of: StatFs,
    segment_bytes: u64,
}

impl Told {
    fn of(path: &Path, target: &mut Target) -> Result<Told, Failure> {
        let of = target.run(|fs| fs.statfs(now())).map_err(failure)?;
        Ok(Told { path: path.display().to_string(), of, segment_bytes: target.fs.segment_bytes() })
    }

    fn text(&self) -> String {
        let of = &self.of;
        let size = |blocks: u64| binary_bytes((blocks * BLOCK_BYTES as u64) as f64);
        let used = of.blocks - of.blocks_free;
        let share = percent(used as f64 / of.blocks.max(1) as f64);
        format!(
            "fs {}\n\nfor files  {}, of which {} ({share}) are used and {} are free\nsegments   {} each\nidentity   {:016x}\n",
            self.path,
            size(of.blocks),
            size(used),
            size(of.blocks_free),
            binary_bytes(self.segment_bytes as f64),
            of.id,
        )
    }

    fn json(&self) -> String {
        let of = &self.of;
        let value = json!({
            "target": self.path,
            "block_bytes": BLOCK_BYTES,
            "segment_bytes": self.segment_bytes,
            "blocks": of.blocks,
            "blocks_free": of.blocks_free,
            "files": of.files,
            "files_free": of.files_free,
            "identity": format!("{:016x}", of.id),
        });
        format!("{value:#}\n")
    }
}

fn check(ground: &Ground, global: &Global) -> Result<(), Failure> {
    let (Open { mut target, .. }, mut audit, path) = (ground.look(global)?, Audit::new(true), &ground.target);
    target.run(|fs| fs.audit(now(), &mut audit)).map_err(failure)?;
    let findings: Vec<&str> = audit.findings().iter().map(|finding| finding.0.as_str()).collect();
    let text = if global.json {
        let value = json!({
            "target": path,
            "files": audit.files(),
            "blocks": audit.blocks(),
            "findings": findings,
        });
        format!("{value:#}\n")
    } else {
        let mut text: String = findings.iter().map(|finding| format!("wrong: {finding}\n")).collect();
        let (files, blocks) = (count(audit.files()), count(audit.blocks()));
        text += &format!(
            "fs {}  {files} files, {blocks} blocks of data, {} wrong\n",
            path.display(),
            findings.len()
        );
        text
    };
    output::print(&text)?;
    match findings.len() {
        0 => Ok(()),
        wrong => Err(Failure::work(anyhow!("{}: {wrong} things are wrong", path.display()))),
    }
}

fn dump(ground: &Ground, global: &Global) -> Result<(), Failure> {
    let Open { mut target, .. } = ground.look(global)?;
    let (mut rows, mut failed) = (String::new(), Ok(()));
    if !global.json {
        rows += "inode  mode    links  owner  size  blocks  modified  path\n";
    }
    let walked = target.walk(|path, entry| {
        let Some(of) = entry.attributes.filter(|_| failed.is_ok()) else { return };
        let name = String::from_utf8_lossy(path);
        let mode = of.kind.mode_bits() | u32::from(of.mode);
        rows += &if global.json {
            let value = json!({
                "path": name, "inode": of.ino.0, "mode": mode, "links": of.links, "uid": of.uid, "gid": of.gid,
                "size": of.size, "blocks": of.blocks, "modified_ns": of.modified.0, "changed_ns": of.changed.0,
            });
            format!("{value}\n")
        } else {
            let (ino, links, uid, gid) = (of.ino.0, of.links, of.uid, of.gid);
            let modified = of.modified.0 as f64 / 1e9;
            format!("{ino}  {mode:06o}  {links}  {uid}:{gid}  {}  {}  {modified:.9}  {name}\n", of.size, of.blocks)
        };
        if rows.len() > 1 << 16 {
            failed = output::print(&std::mem::take(&mut rows));
        }
    });
    failed?;
    output::print(&rows)?;
    walked.map_err(failure)
}
