//! `pellucid fs`: the log-structured file system on a file, a block device or a modelled drive.

use super::fs_service::{self, InService, Wanted};
use super::run::{AppRun, Run};
use super::serving::{Oversight, parse_time};
use crate::args::Global;
use crate::failure::Failure;
use crate::log_line::LogFormat;
use crate::numbers::whole;
use crate::subject::Subject;
use crate::workload::OfFiles;
use crate::{interrupt, output};
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::SimTime;
use pellucid_fs::{Audit, BLOCK_BYTES, Finding, FsState, MountOptions, StatFs};
use pellucid_host::{Layer, LayerConfig, Tower};
use pellucid_mount::{
    Format, ModelledDrive, Mounted, MountedOptions, Pace, Target, TargetError, Volume, check_point, now,
};
use pellucid_serve::Time;
use pellucid_spec::Use;
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
  pellucid fs check disk.img --repair
  pellucid fs format flash.media --drive cosmos-plus --set media.blocks=64
  pellucid fs mount flash.media mnt --drive cosmos-plus --set media.blocks=64
  pellucid fs run varmail --drive jasmine --set media.blocks=64 --size 64m

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
    /// Make an empty file system
    Format {
        #[command(flatten)]
        ground: Ground,
        /// Size of the file, such as 10GiB; a missing file is made [default: its present size; with --drive that of the drive]
        #[arg(long, value_name = "SIZE")]
        size: Option<String>,
        /// Replace existing data
        #[arg(long)]
        force: bool,
        /// Store checksums of metadata only
        #[arg(long)]
        no_data_checksums: bool,
    },
    /// Mount a file system and serve the mount until it ends; the answer, once it is mounted: target, mountpoint, and read_only
    Mount(Mount),
    /// Run a file server on a described drive in simulated time, as a job with app does
    Run(Box<AppRun<OfFiles>>),
    /// Read everything and name what is damaged
    Check {
        #[command(flatten)]
        ground: Ground,
        /// Accept the readable part of a damaged file system as its state, so that it can be mounted read-write. Mount it first: the
        /// mount shows the readable part, which you can copy
        #[arg(long)]
        repair: bool,
    },
    /// List all files and their attributes; with --json one document a line for each: path, inode, mode, links, uid, gid, size (bytes), blocks (of
    /// 512 bytes), modified_ns and changed_ns (since 1970)
    Dump(Ground),
    /// Print sizes, and the space in use
    Stat(Ground),
}

#[derive(Debug, clap::Args)]
struct Mount {
    #[command(flatten)]
    ground: Ground,
    /// Pace of --drive. paced: its modelled latency is kept; instant: as fast as possible; xF: everything takes F times as long
    /// [default: paced]
    #[arg(long, value_name = "TIME", requires = "drive", value_parser = parse_time)]
    time: Option<Time>,
    /// An existing directory
    mountpoint: PathBuf,
    /// Refuse changes, and leave the image as it is
    #[arg(long)]
    read_only: bool,
    /// Memory for unwritten changes and for data that were read, such as 64MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: String,
    /// Threads that answer the kernel [default: two for each processor, at least 4]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=256))]
    threads: Option<u32>,
    /// Let other users access the mount, as far as modes allow [default: where root mounts]
    #[arg(long)]
    allow_other: bool,
    /// Return the space of free segments to the file or device
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    oversight: Oversight,
}

impl Mount {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let memory_bytes = size_of("--memory", &self.memory)? as usize;
        if memory_bytes < MEMORY_MIN {
            return Err(Failure::asked(anyhow!(
                "--memory {}: too small; allowed: at least 4MiB",
                self.memory
            )));
        }
        check_point(&self.mountpoint).map_err(Failure::asked)?;
        LogFormat::Text.never_wait()?;
        let options = MountOptions {
            memory_bytes,
            read_only: self.read_only,
            discard: self.discard,
            ..MountOptions::default()
        };
        self.oversight.check_alone()?;
        let time = self.time.unwrap_or(Time::Paced { dilation: 1.0 });
        let Open { target, below } = match self.oversight.is_wanted() {
            true => self.ground.open_in_service(options, time, self.oversight, global)?,
            false => self.ground.open(options, pace_of(time), global)?,
        };
        if target.carrier.is_lost() {
            // Its reads have failed, which is no damage.
            drop(target);
            below.put_away()?;
            let why = "the drive lost its power while the file system was read; mount it again";
            return Err(Failure::work(anyhow!("{}: {why}", self.ground.target.display())));
        }
        let read_only = target.fs.state() == FsState::ReadOnly;
        let damage = target.fs.findings().damage();
        let of_target = |what: &Finding| format!("{}: {}", self.ground.target.display(), what.0);
        output::warn(global, damage.iter().chain(target.fs.findings().notes()).map(of_target));
        if !damage.is_empty() {
            let why = "durable data are damaged: it is mounted read-only. Copy the data that you need; then fs check --repair accepts the readable rest";
            output::warn(global, [format!("{}: {why}", self.ground.target.display())]);
        } else if read_only && !self.read_only {
            let why = "takes no writes, or not all metadata can be read: it is mounted read-only";
            output::warn(global, [format!("{}: {why}", self.ground.target.display())]);
        }
        let options = MountedOptions {
            read_only,
            others: self.allow_other,
            threads: self.threads.map(|threads| threads as usize),
        };
        let of_mount = global.clone();
        let volume = Volume::new(target, move |sentence| output::warn(&of_mount, [sentence]));
        let mut mounted = Mounted::new(volume, &self.mountpoint, &options).map_err(Failure::asked)?;
        let ender = Arc::new(mounted.ender());
        if let Below::InService(service) = &below {
            let ender = Arc::clone(&ender);
            service.on_stop(move || ender.end());
            service.show(mounted.figures());
        }
        interrupt::instead(move || ender.end());
        let point = self.mountpoint.display();
        if global.json {
            let value = json!({ "target": self.ground.target, "mountpoint": self.mountpoint, "read_only": read_only });
            output::print(&format!("{value:#}\n"))?;
        } else if !global.quiet {
            output::print(&format!(
                "{} is mounted at {point}; umount {point} or Ctrl-C ends it\n",
                self.ground.target.display()
            ))?;
        }
        let served = mounted.serve().map_err(Failure::work);
        served.and(below.put_away())
    }
}

/// Less is of no use.
const MEMORY_MIN: usize = 4 << 20;

impl Fs {
    /// The run that it is, if it is one.
    pub fn whole_run(self) -> Result<Option<Run>, Failure> {
        match self.command {
            FsCommand::Run(command) => command.whole().map(Some),
            _ => Ok(None),
        }
    }

    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let told = match self.command {
            FsCommand::Format { ground, size, force, no_data_checksums } => {
                let bytes = size.map(|size| size_of("--size", &size)).transpose()?;
                ground.format(&Format { bytes, force, data_checksums: !no_data_checksums }, global)?
            }
            FsCommand::Mount(command) => return command.run(global),
            FsCommand::Run(command) => return command.whole()?.run(global),
            FsCommand::Check { ground, repair } => {
                let repaired = if repair { ground.repair(global)? } else { Vec::new() };
                return check(&ground, &repaired, global);
            }
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

/// Classifies the error of a target: a mistake of the user unless reading or writing failed.
fn failure(error: TargetError) -> Failure {
    match error {
        error @ TargetError::Failed(..) => Failure::work(error),
        error => Failure::asked(error),
    }
}

/// The place of a file system: a file, or the media of a drive.
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

/// A file system, and the modelled drive below it, if there is one.
struct Open {
    target: Target,
    below: Below,
}

/// Storage below an open file system.
enum Below {
    /// A plain file or device.
    Plain,
    /// A modelled drive of this command's own.
    Modelled(Arc<Modelled>),
    /// A modelled drive that is watched and broken.
    InService(InService),
}

impl Below {
    /// Brings what a modelled drive holds to its file.
    fn put_away(self) -> Result<(), Failure> {
        match self {
            Below::Plain => Ok(()),
            Below::Modelled(drive) => put_away(&drive),
            Below::InService(service) => service.end(),
        }
    }
}

impl Ground {
    /// The modelled drive; `None`: the file system is on a plain file or device.
    fn drive(&self, pace: Pace, global: &Global) -> Result<Option<Arc<Modelled>>, Failure> {
        let refuse = |why: String| Failure::asked(anyhow!("{}: {why}", self.target.display()));
        let Some(called) = &self.drive else {
            return match global.sets.first() {
                Some(set) => Err(refuse(format!("--set {set} without a drive; allowed: with --drive"))),
                None => Ok(None),
            };
        };
        let (subject, layers) = self.described(called, global)?;
        let tower = Tower::build(subject.device()?, &layers, SimTime::ZERO).map_err(refuse)?;
        let (namespace, began) =
            tower.stack().map_or((0, SimTime::ZERO), |stack| (stack.namespace(), stack.now()));
        let drive = ModelledDrive::start(&self.target, tower, namespace, began, pace).map_err(refuse)?;
        Ok(Some(Arc::new(drive)))
    }

    /// Returns the described drive, and the layers on it.
    fn described(&self, called: &str, global: &Global) -> Result<(Subject, Vec<LayerConfig>), Failure> {
        let mut global = global.clone();
        global.sets.push(format!("media.store=file:{}", self.target.display()));
        let subject = Subject::open_to_serve(called, Use::Serve, &global)?;
        let layers = below(called, &subject.spec.host)?;
        Ok((subject, layers))
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
        drive.map_or(Ok(()), |drive| put_away(&drive))?;
        Ok(told)
    }

    fn open(&self, options: MountOptions, pace: Pace, global: &Global) -> Result<Open, Failure> {
        self.expect_media()?;
        let drive = self.drive(pace, global)?;
        let read_only = options.read_only || drive.as_ref().is_some_and(|drive| drive.act(takes_no_writes));
        let options = MountOptions { read_only, ..options };
        let opened = match &drive {
            Some(drive) => Target::open_drive(Arc::clone(drive), options),
            None => Target::open(&self.target, options),
        };
        Ok(Open { target: opened.map_err(failure)?, below: drive.map_or(Below::Plain, Below::Modelled) })
    }

    /// Opens it on a modelled drive in service.
    fn open_in_service(
        &self,
        options: MountOptions,
        time: Time,
        oversight: Oversight,
        global: &Global,
    ) -> Result<Open, Failure> {
        let Some(called) = &self.drive else {
            let sentence = "--control, --fault and --monitor: a plain file or device is not modelled; allowed: with --drive";
            return Err(Failure::asked(anyhow!(sentence)));
        };
        self.expect_media()?;
        let (subject, layers) = self.described(called, global)?;
        let name = subject.spec.drive_name.clone();
        let wanted = Wanted { name, device: subject.device()?, layers, time };
        let service = InService::start(&self.target, wanted, oversight, global)?;
        let read_only = options.read_only || fs_service::is_read_only(service.drive());
        let options = MountOptions { read_only, ..options };
        let opened = Target::open_drive(Arc::clone(service.drive()), options);
        match opened {
            Ok(target) => Ok(Open { target, below: Below::InService(service) }),
            Err(error) => {
                // Why it cannot be opened comes first.
                let _ = service.end();
                Err(failure(error))
            }
        }
    }

    /// Refuses media that are not there: a drive would make them.
    fn expect_media(&self) -> Result<(), Failure> {
        match (&self.drive, self.target.metadata()) {
            (Some(_), Err(error)) => Err(Failure::asked(anyhow!("{}: {error}", self.target.display()))),
            _ => Ok(()),
        }
    }

    /// Accepts the readable rest of a damaged file system as its state; returns the findings.
    fn repair(&self, global: &Global) -> Result<Vec<String>, Failure> {
        let options = MountOptions { repair: true, ..MountOptions::default() };
        let Open { target, below } = self.open(options, Pace::Instant, global)?;
        if target.fs.state() != FsState::Ready {
            let why = "takes no writes, or not all metadata can be read: it cannot be repaired; copy the data that a read-only mount shows, and format again";
            return Err(Failure::work(anyhow!("{}: {why}", self.target.display())));
        }
        let found = target.fs.findings().damage().iter().map(|found| found.0.clone()).collect();
        target.close().map_err(failure)?;
        below.put_away()?;
        Ok(found)
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

/// Writes the state of a modelled drive and of the layers on it to its file.
fn put_away(drive: &Modelled) -> Result<(), Failure> {
    let stop = |tower: &mut Tower<Device>| {
        // A read-only drive has nothing to write back.
        if takes_no_writes(tower) { Ok(()) } else { tower.stop() }
    };
    let stopped = drive.act(|tower| stop(tower).map(|()| tower.bottom_mut().sync()));
    stopped.map_err(|why| Failure::work(anyhow!(why)))?.map_err(Failure::work)
}

fn pace_of(time: Time) -> Pace {
    match time {
        Time::Instant => Pace::Instant,
        Time::Paced { dilation } => Pace::Paced(dilation),
    }
}

/// Summary of a file system.
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

fn check(ground: &Ground, repaired: &[String], global: &Global) -> Result<(), Failure> {
    let (Open { mut target, .. }, mut audit, path) = (ground.look(global)?, Audit::new(true), &ground.target);
    target.run(|fs| fs.audit(now(), &mut audit)).map_err(failure)?;
    let mut findings: Vec<&str> = Vec::new();
    for found in target.fs.findings().damage().iter().chain(audit.findings()) {
        // A walk finds again what the mount has found.
        if !findings.contains(&found.0.as_str()) {
            findings.push(&found.0);
        }
    }
    // Data that are lost stay lost: only what is not found again was repaired.
    let repaired: Vec<&String> =
        repaired.iter().filter(|found| !findings.contains(&found.as_str())).collect();
    let notes: Vec<&str> = target.fs.findings().notes().iter().map(|note| note.0.as_str()).collect();
    let text = if global.json {
        let value = json!({
            "target": path,
            "files": audit.files(),
            "blocks": audit.blocks(),
            "findings": findings,
            "notes": notes,
            "repaired": repaired,
        });
        format!("{value:#}\n")
    } else {
        let mut text: String = repaired.iter().map(|found| format!("repaired: {found}\n")).collect();
        text.extend(notes.iter().map(|note| format!("note: {note}\n")));
        text.extend(findings.iter().map(|finding| format!("error: {finding}\n")));
        let (files, blocks) = (count(audit.files()), count(audit.blocks()));
        text += &format!(
            "fs {}  {files} files and directories, {blocks} blocks of data, {}\n",
            path.display(),
            errors(findings.len())
        );
        text
    };
    output::print(&text)?;
    match findings.len() {
        0 => Ok(()),
        found => Err(Failure::work(anyhow!("{}: {}", path.display(), errors(found)))),
    }
}

/// A number of errors, in words.
fn errors(number: usize) -> String {
    if number == 1 { "1 error".into() } else { format!("{number} errors") }
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
