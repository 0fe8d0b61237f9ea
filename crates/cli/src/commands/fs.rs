//! `pellucid fs`: the log-structured file system on a file or a block device.

use crate::args::Global;
use crate::failure::Failure;
use crate::{interrupt, output};
use anyhow::anyhow;
use pellucid_apps::fs::{Audit, BLOCK_BYTES, MountOptions, StatFs};
use pellucid_lab::report::format::{binary_bytes, count, percent};
use pellucid_lab::workload::parse_bytes;
use pellucid_mount::{Format, Mounted, MountedOptions, Target, TargetError, Volume, check_point, now};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid fs format disk.img --size 10GiB
  pellucid fs mount disk.img mnt
  pellucid fs check disk.img

TARGET is a file or a block device. A mount lasts until umount, Ctrl-C or SIGTERM; after a kill the next mount goes on from the last commit.";

/// A log-structured file system on a file or a block device: format, mount, check, dump, stat
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
        /// File or block device
        target: PathBuf,
        /// Size of the file, such as 10GiB; it is made if it is not there [default: the size it has]
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
    Check {
        /// File or block device
        target: PathBuf,
    },
    /// Lists all files and their attributes
    Dump {
        /// File or block device
        target: PathBuf,
    },
    /// Sizes, and what is used
    Stat {
        /// File or block device
        target: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Mount {
    /// File or block device
    target: PathBuf,
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
    fn run(self, _global: &Global) -> Result<(), Failure> {
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
        let target = Target::open(&self.target, options).map_err(failure)?;
        let options = MountedOptions {
            read_only: self.read_only,
            others: self.allow_other,
            threads: self.threads.map(|threads| threads as usize),
        };
        let mut mounted =
            Mounted::new(Volume::new(target), &self.mountpoint, &options).map_err(Failure::asked)?;
        let ender = mounted.ender();
        interrupt::instead(move || ender.end());
        let point = self.mountpoint.display();
        output::print(&format!(
            "{} is mounted at {point}; umount {point} or Ctrl-C ends it\n",
            self.target.display()
        ))?;
        mounted.serve().map_err(Failure::work)
    }
}

/// Less is of no use.
const MEMORY_MIN: usize = 4 << 20;

impl Fs {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let told = match self.command {
            FsCommand::Format { target, size, force, no_data_checksums } => {
                let bytes = size.map(|size| size_of("--size", &size)).transpose()?;
                format(&target, &Format { bytes, force, data_checksums: !no_data_checksums })?
            }
            FsCommand::Mount(command) => return command.run(global),
            FsCommand::Check { target } => return check(&target, global),
            FsCommand::Dump { target } => return dump(&target, global),
            FsCommand::Stat { target } => stat(&target)?,
        };
        Ok(output::print(&if global.json { told.json() } else { told.text() })?)
    }
}

fn size_of(option: &str, size: &str) -> Result<u64, Failure> {
    parse_bytes(size, 1000).map_err(|error| Failure::asked(anyhow!("{option} {size}: {error}")))
}

/// What is wrong with a target was asked wrongly; that it cannot be read or written is not.
fn failure(error: TargetError) -> Failure {
    match error {
        error @ TargetError::Failed(..) => Failure::work(error),
        error => Failure::asked(error),
    }
}

fn open(path: &Path) -> Result<Target, Failure> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    Target::open(path, options).map_err(failure)
}

fn format(path: &Path, how: &Format) -> Result<Told, Failure> {
    let mut target = Target::format(path, how).map_err(failure)?;
    let told = Told::of(path, &mut target)?;
    target.close().map_err(failure)?;
    Ok(told)
}

fn stat(path: &Path) -> Result<Told, Failure> {
    Told::of(path, &mut open(path)?)
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

fn check(path: &Path, global: &Global) -> Result<(), Failure> {
    let (mut target, mut audit) = (open(path)?, Audit::new(true));
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

fn dump(path: &Path, global: &Global) -> Result<(), Failure> {
    let mut target = open(path)?;
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
