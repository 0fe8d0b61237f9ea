//! `pellucid cache`: a flash cache in front of a slow device, and `pellucid detach`, which puts it out of use.

use super::control::{Control, print};
use super::serving::{Beforehand, Serving};
use crate::args::Global;
use crate::failure::Failure;
use crate::layered::{MadeFile, Opened, refuse_sets};
use crate::numbers::whole;
use crate::subject::Subject;
use crate::subject::is_one_file;
use anyhow::anyhow;
use pellucid_device::{Guarantee, Namespace};
use pellucid_flash::{Drive, FNV_BASIS, Interface, Nanos, fnv1a};
use pellucid_ftl::Durability;
use pellucid_host::{CacheConfig, CacheMode, StoreIdentity};
use pellucid_media::StoreKind;
use pellucid_serve::{Bottom, FileConfig, FileDrive, NoCache, Served, Time};
use pellucid_spec::Use;
use pellucid_target::request::Request;
use std::path::PathBuf;
use std::time::SystemTime;

const EXAMPLES: &str = "\
Examples:
  pellucid cache --backing /dev/sdb --drive file:/dev/nvme0n1p4 --nbd 10809
  pellucid cache --backing disk.img --drive file:flash.img,size=8GiB --nbd unix:/run/cache.sock --control /run/cache.control
  pellucid cache --backing disk.img --drive datacenter-tlc --set media.store=file --set media.path=flash.media --nbd 10809 --monitor 9300
  pellucid cache --backing disk.img --drive cosmos-plus --set media.store=ram --mode write-through --nbd 10809

  pellucid detach --control /run/cache.control

SIGTERM keeps what is cached for the next start. Detach writes everything back first: only then may the backing store be used
without the cache.";

/// Put a flash cache in front of a slow device: reads and random writes come from flash, the device gets them in order later
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Cache {
    /// The slow device: a file or block device (PATH, or file:PATH with direct=, threads=), which no other program may use meanwhile
    #[arg(long, value_name = "FILE_OR_DEVICE")]
    backing: String,
    /// The cache drive: a file or block device (file:PATH,size=1GiB), a preset, a description or an image
    #[arg(long, value_name = "DRIVE")]
    drive: String,
    /// write-back: a write is acknowledged when it is in flash; write-through: when it is on the backing store
    #[arg(long, value_name = "MODE", default_value = "write-back", value_parser = ["write-back", "write-through"])]
    mode: String,
    /// Write dirty blocks back while more than this percentage of the cache is dirty
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = whole::<u32>(1..=99))]
    dirty: u32,
    /// Write dirty blocks back after this many seconds without a write to their region; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = whole::<u64>(..=1_000_000_000))]
    fallow: u64,
    /// Sequential streams longer than this many KiB bypass the cache; 0: none
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = whole::<u64>(..=1 << 40))]
    sequential_kib: u64,
    /// Make a new cache, whatever the cache drive holds; blocks that are not written back are lost
    #[arg(long)]
    format: bool,
    #[command(flatten)]
    serving: Serving,
}

/// Have a cache write everything back and stop caching; the server continues with the backing store alone
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pellucid detach --control /run/cache.control")]
pub struct Detach {
    /// The control socket of pellucid cache
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// The cache, when the server has several drives
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// Drop dirty blocks that the cache drive cannot read: the older data of the backing store become valid again. Without this option
    /// such blocks make the detach fail
    #[arg(long)]
    give_up_lost: bool,
}

impl Detach {
    pub fn run(self) -> Result<(), Failure> {
        let Detach { control, drive, give_up_lost } = self;
        let answer = Control::connect_for_long(&control)?.ask(&Request::Detach { drive, give_up_lost })?;
        print(&answer)
    }
}

impl Cache {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let Cache { backing, drive, .. } = &self;
        let example = format!("pellucid cache --backing {backing} --drive {drive} --nbd 10809");
        let file = backing_config(&self.backing)?;
        let is_real = FileConfig::is_meant(drive);
        let flash = if is_real { drive.parse().map_err(Failure::asked)? } else { FileConfig::new(drive) };
        let files = [file.path.as_path(), flash.path.as_path()];
        let known = Beforehand { example: &example, proves: false, is_real, files: &files };
        let reserved = self.serving.reserve(&known, global)?;
        let opened = self.open(&file, global)?;
        let asked = [self.backing.clone()];
        self.serving.run(reserved, vec![opened], &asked, global)
    }

    fn mode(&self) -> CacheMode {
        match self.mode.as_str() {
            "write-through" => CacheMode::WriteThrough,
            _ => CacheMode::WriteBack,
        }
    }

    /// The backing store behind its cache.
    fn open(&self, file: &FileConfig, global: &Global) -> Result<Opened, Failure> {
        let refuse = |option: &str, why: String| Failure::asked(anyhow!("{option}: {why}"));
        if FileConfig::is_meant(&self.drive) {
            refuse_sets(&self.drive, global, |_| false, "options of the command, as --mode")?;
            let flash: FileConfig = self.drive.parse().map_err(Failure::asked)?;
            if is_one_file(&flash.path, &file.path) {
                return Err(refuse(
                    "--drive",
                    format!("{} is the backing store; allowed: another file or device", flash.path.display()),
                ));
            }
        }
        let probed = FileConfig { sector_bytes: 512, direct: false, ..file.clone() };
        let stand_in = FileDrive::open(&probed).map_err(|error| refuse("--backing", error.to_string()))?;
        // Before anything is made or changed. A modelled drive meets its faults itself.
        match FileConfig::is_meant(&self.drive) {
            true => self.serving.rehearse(&file.drive_name(), stand_in)?,
            false => drop(stand_in),
        }
        let Flash { flash, number, sector_bytes, durable_commands, made } = self.open_flash(global)?;
        let backing = FileDrive::open(&FileConfig { sector_bytes, ..file.clone() });
        let backing = backing.map_err(|error| refuse("--backing", error.to_string()))?;
        let known = backing.identity();
        let path = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        let store = StoreIdentity {
            id: fnv1a(FNV_BASIS, known.bytes()),
            name: format!("{}, {known}", path.display()),
        };
        let config = CacheConfig {
            flash: number,
            mode: self.mode(),
            sector_bytes,
            block_bytes: sector_bytes.max(4096),
            durable_commands,
            sequential_bytes: self.sequential_kib << 10,
            dirty_percent: self.dirty,
            fallow: Nanos::from_secs(self.fallow),
            store,
            nonce: nonce(),
            format: self.format,
            ..CacheConfig::default()
        };
        let instant = self.serving.time() == Time::Instant;
        let about = format!("{} before {}", self.drive, self.backing);
        let drive = Served::cached(flash, backing, config, instant).map_err(|why| match why {
            NoCache::Refused(why) => Failure::asked(anyhow!("{about}: {why}")),
            NoCache::Failed(why) => Failure::work(anyhow!("{about}: {why}")),
        })?;
        let from = format!("{} before {}", self.drive, file.path.display());
        Ok(Opened { name: file.drive_name(), drive, registry: None, unprepared: false, from, made })
    }

    fn open_flash(&self, global: &Global) -> Result<Flash, Failure> {
        let refuse = |why: &str| Failure::asked(anyhow!("--drive {}: {why}", self.drive));
        if FileConfig::is_meant(&self.drive) {
            let config: FileConfig = self.drive.parse().map_err(Failure::asked)?;
            let flash = FileDrive::open(&config).map_err(|error| refuse(&error.to_string()))?;
            let sector_bytes = config.sector_bytes;
            // A file that it makes, it takes away itself until something is kept in it.
            let made = MadeFile::NONE;
            return Ok(Flash { flash: flash.into(), number: 0, sector_bytes, durable_commands: false, made });
        }
        let subject = Subject::open_to_serve(&self.drive, Use::Serve, global)?;
        let spec = &subject.spec;
        if !spec.host.is_empty() {
            return Err(refuse(
                "a cache stands on the drive itself; allowed: a description without [host] layers",
            ));
        }
        let survives = matches!(spec.drive.media.store, StoreKind::File(_));
        if matches!(spec.drive.media.store, StoreKind::None | StoreKind::Unstamped) {
            return Err(refuse(
                "media.store = none keeps no data; allowed: file, and ram with --mode write-through",
            ));
        }
        if self.mode() == CacheMode::WriteBack && !survives {
            return Err(refuse(
                "media.store = ram ends with the process, and dirty blocks with it; allowed: --set media.store=file, or --mode write-through",
            ));
        }
        let is_volatile = matches!(spec.drive.ftl.durability, Durability::Volatile);
        let durable_commands = spec.drive.namespaces.iter().any(
            |namespace| matches!(namespace, Namespace::Cache { cache, .. } if cache.guarantee == Guarantee::WriteDirty),
        );
        let made = MadeFile::of(&spec.drive.media.store);
        let device = subject.device()?;
        let interfaces = (0..device.namespaces()).map(|number| (number, Drive::interface(&device, number)));
        let found = interfaces.into_iter().find_map(|(number, interface)| match interface? {
            Interface::Block { .. } if is_volatile && self.mode() == CacheMode::WriteBack => Some(Err(())),
            Interface::Block { .. } | Interface::Cache(_) => Some(Ok(number)),
            _ => None,
        });
        let number = match found {
            Some(Ok(number)) => number,
            Some(Err(())) => {
                return Err(refuse(
                    "ftl.durability = volatile: a crash would lose dirty blocks; allowed: --set ftl.durability=journal, or --mode write-through",
                ));
            }
            None => {
                return Err(refuse(
                    "no namespace that can cache; allowed: a block namespace, interface = \"cache\"",
                ));
            }
        };
        let sector_bytes = device.layout().sector_bytes;
        Ok(Flash { flash: device.into(), number, sector_bytes, durable_commands, made })
    }
}

/// A cache drive.
struct Flash {
    flash: Bottom,
    number: u16,
    sector_bytes: u32,
    durable_commands: bool,
    made: MadeFile,
}

/// The backing store as it is named.
fn backing_config(backing: &str) -> Result<FileConfig, Failure> {
    let config = match FileConfig::is_meant(backing) {
        true => backing.parse().map_err(Failure::asked)?,
        false => FileConfig::new(backing),
    };
    match config.size_bytes {
        None if !config.path.exists() => Err(Failure::asked(anyhow!(
            "--backing {backing}: no such file; allowed: an existing file or block device"
        ))),
        None => Ok(config),
        Some(_) => Err(Failure::asked(anyhow!(
            "--backing {backing}: the backing store exists already; allowed: no size"
        ))),
    }
}

/// A number that marks a new cache.
fn nonce() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    fnv1a(FNV_BASIS, now.to_le_bytes().into_iter().chain(std::process::id().to_le_bytes()))
}
