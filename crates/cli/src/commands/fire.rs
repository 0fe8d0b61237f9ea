//! `pellucid fire`: write clustering in front of a slow device (FlashFire), and the probe that finds what such a device likes.

use super::control::{Control, print};
use super::serving::{Beforehand, Serving};
use crate::args::Global;
use crate::failure::Failure;
use crate::layered::{MadeFile, Opened};
use crate::spelling::add_set;
use crate::subject::{check_overridden, split_sets};
use crate::{memory, output, stderr};
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::{Drive, SimTime};
use pellucid_host::{
    ClusterBufferConfig, CpuCosts, JournalConfig, JournalHead, LayerConfig, Probe, ProbeConfig, ProbeError,
    ProbePoint, find_metadata, probe,
};
use pellucid_lab::experiment::prepare;
use pellucid_serve::{FileConfig, FileDrive, Served};
use pellucid_target::request::Request;
use pellucid_text::{format, read_byte_range};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  pellucid fire --probe /dev/sdX
  pellucid fire --device /dev/sdX --cluster 4MiB --ublk
  pellucid fire --device stick.img --memory 64MiB --nbd unix:/run/stick.sock --monitor 9300
  pellucid fire --device stick.img --journal 64MiB --make-journal --nbd 10809
  pellucid fire --device /dev/sdX --set host.cluster_buffer.idle=2s --nbd 10809
  pellucid fire --device /dev/sdX --cluster auto --bypass-metadata --ublk --control /run/fire.control
  pellucid fire pause --control /run/fire.control

Other settings: --set host.cluster_buffer.KEY=VALUE (docs/reference/keys.md). To detach: stop the command (SIGTERM); it writes all that it holds first.";

/// A description without layers of its own, for the settings that nobody gives.
const DEFAULTS: &str = "netbook-ssd";

/// Buffer small writes to a slow device and write them as large ones (write clustering, FlashFire)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Fire {
    #[command(subcommand)]
    change: Option<Change>,
    /// The device: a file or block device (PATH, or file:PATH with sector=, direct=, threads=), which no other program may use meanwhile
    #[arg(long, value_name = "FILE_OR_DEVICE", required_unless_present = "probe")]
    device: Option<String>,
    /// Measure the write speed of a device for each request size, find the boundaries of its erase units, and name the cluster size that
    /// suits it. The probe writes back the data that it has read. DEVICE is a file, a block device, or a modelled drive
    #[arg(long, value_name = "DEVICE", conflicts_with_all = [
        "device", "nbd", "tls", "tls_verify_peer", "nbd_simple_replies", "nvme_tcp", "host_nqn", "dhchap", "dhchap_group", "tls_psk", "time",
        "poll_us", "lead_us", "connections", "record", "ublk", "log_format", "monitor", "open", "fault", "control",
    ])]
    probe: Option<String>,
    /// Memory of the buffer, including its tables unless host.cluster_buffer.tables = beside; the same as --set
    /// host.cluster_buffer.size=SIZE [default: 32MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "probe")]
    memory: Option<String>,
    /// Size of a cluster, which is written in one request; best the erase unit that --probe finds; the same as --set
    /// host.cluster_buffer.cluster=SIZE. auto: probe the device first, which takes minutes, and use the size that suits it [default:
    /// 1MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "probe")]
    cluster: Option<String>,
    /// Send writes to these bytes of the device past the buffer: FROM-TO, such as 0-64MiB; may be given several times
    #[arg(long, value_name = "FROM-TO", conflicts_with = "probe")]
    bypass: Vec<String>,
    /// Send writes to a file system's metadata past the buffer: superblocks, group descriptors, bitmaps, inode tables and journal of
    /// ext2, ext3 and ext4, and the tables and root directory of FAT, as located on the device at startup. Directories are not located
    #[arg(long, conflicts_with = "probe")]
    bypass_metadata: bool,
    /// strict: a flush writes all that the buffer holds. paper: as published, a flush bypasses the buffer, and a power cut loses its
    /// content; the same as --set host.cluster_buffer.flush=MODE [default: strict]
    #[arg(long, value_name = "MODE", conflicts_with = "probe")]
    flush: Option<String>,
    /// Size of a journal at the end of the device, to which a flush writes sequentially when that is cheaper than writing in place. The
    /// served device is smaller by this size; the same as --set host.cluster_buffer.journal=SIZE [default: none]
    #[arg(long, value_name = "SIZE", conflicts_with = "probe")]
    journal: Option<String>,
    /// Make the journal where the device has none. It overwrites the end of the device
    #[arg(long, requires = "journal", conflicts_with = "probe")]
    make_journal: bool,
    #[command(flatten)]
    serving: Serving,
}

/// A cluster buffer in service is changed.
#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Empty the buffer and send all later writes past it, for work that must not lose a write; returns when the buffer is empty
    #[command(after_help = "Example:\n  pellucid fire pause --control /run/fire.control")]
    Pause(Where),
    /// Let the buffer take writes again
    #[command(after_help = "Example:\n  pellucid fire resume --control /run/fire.control")]
    Resume(Where),
}

/// Cluster buffer of a server.
#[derive(Debug, clap::Args)]
struct Where {
    /// The control socket of pellucid fire, or of pellucid serve with the layer cluster-buffer
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// The drive, when the server has several
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
}

impl Change {
    fn run(self) -> Result<(), Failure> {
        let (control, request) = match self {
            Change::Pause(Where { control, drive }) => (control, Request::FirePause { drive }),
            Change::Resume(Where { control, drive }) => (control, Request::FireResume { drive }),
        };
        let answer = Control::connect_for_long(&control)?.ask(&request)?;
        print(&answer)
    }
}

impl Fire {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if let Some(change) = self.change {
            return change.run();
        }
        if global.json && self.device.is_some() {
            let why = "a server prints no answer; allowed: with --probe, pause and resume; its log: --log-format json";
            return Err(Failure::asked(anyhow!("--json: {why}")));
        }
        let Some(device) = &self.device else {
            return run_probe(self.probe.as_deref().unwrap_or_default(), global);
        };
        let example = format!("pellucid fire --device {device} --nbd 10809");
        let file = file_config(device)?;
        let known = Beforehand { example: &example, proves: false, is_real: true, files: &[&file.path] };
        let reserved = self.serving.reserve(&known, global)?;
        let opened = self.open(device, &file, global)?;
        let asked = [device.clone()];
        self.serving.run(reserved, vec![opened], &asked, global)
    }

    /// The device under its buffer.
    fn open(&self, device: &str, file: &FileConfig, global: &Global) -> Result<Opened, Failure> {
        let cluster = self.cluster_of(device, file, global)?;
        let mut layer = self.layer(file.sector_bytes, cluster.as_deref(), global)?;
        let wants_journal = layer.journal.is_some();
        refuse_forgotten_journal(device, file, wants_journal)?;
        layer.bypass.extend(self.bypassed(device, file, global)?);
        // Before a journal is made.
        let stand_in = FileDrive::open(file).map_err(Failure::asked)?;
        self.serving.rehearse(&file.drive_name(), stand_in)?;
        let drive = FileDrive::open(file).map_err(Failure::asked)?;
        let whole = drive.interface(0).map_or(0, |interface| interface.capacity_sectors());
        memory::check_tables(&layer, whole, layer.size_bytes)?;
        let drive = Served::on_file(drive, &[LayerConfig::ClusterBuffer(layer)]);
        let drive = drive.map_err(|why| Failure::asked(anyhow!("{device}: {why}")))?;
        if wants_journal && !global.quiet {
            let offered = drive.interfaces().first().map_or(0, |(_, offered)| offered.capacity_sectors());
            let bytes = |sectors: u64| sectors * u64::from(file.sector_bytes);
            stderr::say(&format!(
                "{device}: {} bytes are served of {}; the journal has the rest",
                bytes(offered),
                bytes(whole)
            ));
        }
        let (name, from) = (file.drive_name(), format!("file:{}", file.path.display()));
        Ok(Opened { name, drive, registry: None, unprepared: false, from, made: MadeFile::NONE })
    }

    /// The size of a cluster as it is asked for, or as a probe finds it.
    fn cluster_of(
        &self,
        device: &str,
        file: &FileConfig,
        global: &Global,
    ) -> Result<Option<String>, Failure> {
        if self.cluster.as_deref() != Some("auto") {
            return Ok(self.cluster.clone());
        }
        if self.journal.is_some() {
            let allowed = "allowed: without a journal, whose clusters stay as they were made";
            return Err(Failure::asked(anyhow!("--cluster auto: {allowed}")));
        }
        refuse_forgotten_journal(device, file, false)?;
        let found = probe_file(device, file, "--cluster auto", global)?;
        if !global.quiet {
            stderr::say(&format!(
                "{device}: clusters of {}, as the probe finds",
                format::binary_bytes(found.cluster as f64)
            ));
        }
        Ok(Some(found.cluster.to_string()))
    }

    /// Sectors whose writes pass the buffer by.
    fn bypassed(&self, device: &str, file: &FileConfig, global: &Global) -> Result<Vec<Range<u64>>, Failure> {
        if self.bypass.is_empty() && !self.bypass_metadata {
            return Ok(Vec::new());
        }
        let refuse = |option: &str, why: String| Failure::asked(anyhow!("{option}: {device}: {why}"));
        let unreadable = |error: std::io::Error| refuse("--device", error.to_string());
        let mut opened = File::open(&file.path).map_err(unreadable)?;
        let size = opened.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let mut bytes = Vec::new();
        for text in &self.bypass {
            let range = read_byte_range(text).map(|(from, to)| from..if to == u64::MAX { size } else { to });
            let range = range.filter(|range| range.start < range.end && range.end <= size);
            bytes.push(range.ok_or_else(|| {
                let allowed = format!("allowed: FROM-TO, such as 0-64MiB, within its {size} bytes");
                refuse(&format!("--bypass {text}"), allowed)
            })?);
        }
        if self.bypass_metadata {
            let read =
                |from, data: &mut [u8]| opened.read_exact_at(data, from).map_err(|error| error.to_string());
            let found = find_metadata(size, read);
            let found = found.map_err(|error| refuse("--bypass-metadata", error.to_string()))?;
            if !global.quiet {
                let kinds = found.kinds.join(", ");
                let all = found.bytes();
                stderr::say(&format!(
                    "{device}: {kinds}: writes into {all} bytes of metadata pass the buffer by"
                ));
            }
            bytes.extend(found.ranges);
        }
        let sector = u64::from(file.sector_bytes);
        Ok(bytes.into_iter().map(|range| range.start / sector..range.end.div_ceil(sector)).collect())
    }

    /// The buffer as it is asked for.
    fn layer(
        &self,
        sector_bytes: u32,
        cluster: Option<&str>,
        global: &Global,
    ) -> Result<ClusterBufferConfig, Failure> {
        let is_other = |set: &&String| !set.starts_with("host.cluster_buffer.");
        if let Some(other) = global.sets.iter().find(is_other) {
            return Err(Failure::asked(anyhow!("--set {other}: allowed: host.cluster_buffer.KEY=VALUE")));
        }
        let mut sets = global.sets.clone();
        for (option, key, value) in [
            ("--memory", "size", self.memory.as_deref()),
            ("--cluster", "cluster", cluster),
            ("--flush", "flush", self.flush.as_deref()),
            ("--journal", "journal", self.journal.as_deref()),
        ] {
            add_set(&mut sets, option, &format!("host.cluster_buffer.{key}"), value)?;
        }
        sets.push("host.layers=[\"cluster-buffer\"]".into());
        let spec = pellucid_spec::load(DEFAULTS, &sets)?;
        let Some(LayerConfig::ClusterBuffer(config)) = spec.host.into_iter().next() else {
            return Err(Failure::asked(anyhow!("host.layers: allowed: cluster-buffer alone")));
        };
        let cluster_bytes = u64::from(config.cluster_sectors) * u64::from(config.sector_bytes);
        if !cluster_bytes.is_multiple_of(sector_bytes.into()) {
            let allowed = format!("allowed: a multiple of the sector of {sector_bytes} bytes");
            return Err(Failure::asked(anyhow!("host.cluster_buffer.cluster = {cluster_bytes}: {allowed}")));
        }
        let memory_bytes = memory::machine_bytes();
        if config.size_bytes > memory_bytes {
            let key = "host.cluster_buffer.size";
            return Err(memory::refused(key, config.size_bytes, memory_bytes, memory_bytes));
        }
        let cluster_sectors = (cluster_bytes / u64::from(sector_bytes)) as u32;
        let id = UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
        let make = self.make_journal.then_some(id);
        let journal = config.journal.map(|journal| JournalConfig { make, ..journal });
        Ok(ClusterBufferConfig { sector_bytes, cluster_sectors, journal, cpu: CpuCosts::FREE, ..config })
    }
}

/// The device with this name. A block device is used without the page cache, which would gather writes itself and hold the data twice.
fn file_config(device: &str) -> Result<FileConfig, Failure> {
    if FileConfig::is_meant(device) {
        return device.parse().map_err(Failure::asked);
    }
    let there = std::fs::metadata(device);
    if there.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let allowed = "allowed: an existing one, or file:PATH,size=BYTES, which makes a file";
        return Err(Failure::asked(anyhow!("{device}: no such file or device; {allowed}")));
    }
    let is_block = there.is_ok_and(|there| there.file_type().is_block_device());
    Ok(FileConfig { sector_bytes: 512, direct: is_block, ..FileConfig::new(device) })
}

/// Refuses a device whose journal would be forgotten: it may have what was flushed and is nowhere else, so without it, or with sectors of
/// another size, the device would be served as it was before. `wanted`: it is not forgotten, if its sectors have the size of `file`.
fn refuse_forgotten_journal(device: &str, file: &FileConfig, wanted: bool) -> Result<(), Failure> {
    // A device that cannot be read is refused when it is opened to be served.
    let Ok(opened) = File::open(&file.path) else { return Ok(()) };
    let own = |head: &JournalHead| wanted && head.sector_bytes == file.sector_bytes;
    let Some(head) = journal_on(&opened).filter(|head| !own(head)) else { return Ok(()) };
    let cluster = u64::from(head.cluster_sectors) * u64::from(head.sector_bytes);
    let named = match head.sector_bytes == file.sector_bytes {
        true => String::new(),
        false => format!("--device file:{},sector={} ", file.path.display(), head.sector_bytes),
    };
    Err(Failure::asked(anyhow!(
        "{device}: it has a journal for sectors of {} bytes, which may hold flushed data; allowed: {named}--journal {} --cluster {cluster}",
        head.sector_bytes,
        head.ring_bytes()
    )))
}

/// Returns the head of the journal on a device, whatever the size of the sectors that it was made for.
fn journal_on(mut device: &File) -> Option<JournalHead> {
    let bytes = device.seek(SeekFrom::End(0)).unwrap_or(0);
    let [least, most] = FileConfig::SECTOR_BYTES.map(u32::ilog2);
    (least..=most).map(|power| 1u32 << power).find_map(|sector_bytes| {
        let heads = JournalHead::sectors(bytes / u64::from(sector_bytes), sector_bytes);
        heads.into_iter().find_map(|at| {
            let mut sector = vec![0; sector_bytes as usize];
            device.seek(SeekFrom::Start(at * u64::from(sector_bytes))).ok()?;
            device.read_exact(&mut sector).ok()?;
            JournalHead::parse(&sector).filter(|head| head.sector_bytes == sector_bytes)
        })
    })
}

/// Probes a device, or a modelled drive, and prints what was found.
fn run_probe(called: &str, global: &Global) -> Result<(), Failure> {
    let is_file = FileConfig::is_meant(called) || Path::new(called).exists();
    if !is_file || called.ends_with(".toml") {
        // A drive that is full, as one that has been used.
        check_overridden(&[called], &global.sets)?;
        let (name, mut sets) = split_sets(called, &global.sets);
        sets.push("precondition.fill=1.0".into());
        let mut device = prepare(&pellucid_spec::load(name, &sets)?, None).map_err(Failure::work)?;
        let sector_bytes = device.layout().sector_bytes;
        let now = device.now();
        let config = ProbeConfig { sector_bytes, ..ProbeConfig::default() };
        let wait = |_: &mut Device, next: Option<SimTime>| next;
        let found = probe(&mut device, &config, now, wait, tell(global))
            .map_err(|error| refused_probe("--probe", called, &error))?;
        return show(&found, global);
    }
    if let Some(set) = global.sets.first() {
        return Err(Failure::asked(anyhow!("--set {set}: allowed: with a modelled drive")));
    }
    show(&probe_file(called, &file_config(called)?, "--probe", global)?, global)
}

/// Probes a file or block device for an option of the command.
fn probe_file(called: &str, file: &FileConfig, option: &str, global: &Global) -> Result<Probe, Failure> {
    let mut drive = FileDrive::open(&FileConfig { direct: true, ..file.clone() }).map_err(Failure::asked)?;
    let config = ProbeConfig { sector_bytes: file.sector_bytes, ..ProbeConfig::default() };
    let clock = Instant::now();
    let wait = |drive: &mut FileDrive, _| {
        // A device that does not answer for so long does not answer at all.
        let longest = Duration::from_secs(120);
        drive.wait(longest).then(|| SimTime(clock.elapsed().as_nanos() as u64))
    };
    drive.advance(SimTime(0));
    let found = probe(&mut drive, &config, SimTime(0), wait, tell(global));
    found.map_err(|error| refused_probe(option, called, &error))
}

fn refused_probe(option: &str, called: &str, error: &ProbeError) -> Failure {
    let why = anyhow!("{option} {called}: {error}");
    match error {
        ProbeError::NotBlock(_) | ProbeError::Small { .. } => Failure::asked(why),
        ProbeError::Failed { .. } | ProbeError::Silent => Failure::work(why),
    }
}

/// Shows progress at a terminal.
fn tell(global: &Global) -> impl FnMut(ProbePoint) {
    let tells = !global.quiet && std::io::stderr().is_terminal();
    move |point| {
        if tells {
            stderr::say(&format!("{} ...", format::binary_bytes(point.bytes as f64)));
        }
    }
}

/// The widest bar.
const BAR: f64 = 40.0;

fn show(found: &Probe, global: &Global) -> Result<(), Failure> {
    if global.json {
        let point = |point: &ProbePoint| {
            let (aligned, shifted) = (point.aligned, point.shifted);
            serde_json::json!({
                "bytes": point.bytes, "aligned_bytes_per_s": aligned, "shifted_bytes_per_s": shifted, "cuts": point.cuts,
            })
        };
        let points: Vec<serde_json::Value> = found.points.iter().map(point).collect();
        return print(&serde_json::json!({
            "points": points, "boundary_bytes": found.boundary, "cluster_bytes": found.cluster,
        }));
    }
    let most = found.points.iter().map(|point| point.aligned.max(point.shifted)).fold(1.0, f64::max);
    let mut text = String::from("   request      aligned      shifted by half\n");
    for point in &found.points {
        let bar = |rate: f64| (rate / most * BAR).round() as usize;
        let (aligned, shifted) = (bar(point.aligned), bar(point.shifted));
        let both = "█".repeat(shifted.min(aligned));
        let more = "░".repeat(aligned.saturating_sub(shifted));
        let rate = |rate: f64| format!("{:.2} MB/s", rate / 1e6);
        let (size, fast, slow) =
            (format::binary_bytes(point.bytes as f64), rate(point.aligned), rate(point.shifted));
        text.push_str(&format!("{size:>10} {fast:>12} {slow:>12}   {both}{more}\n"));
    }
    text.push('\n');
    match found.boundary {
        Some(boundary) => text.push_str(&format!(
            "erase units look like {}: the largest size at which requests shifted by half are much slower\n",
            format::binary_bytes(boundary as f64)
        )),
        None => text.push_str("no boundary: shifted requests are as fast as aligned ones at every size\n"),
    }
    let cluster = format::binary_bytes(found.cluster as f64).replace(' ', "");
    text.push_str(&format!("use: pellucid fire --device DEVICE --cluster {cluster}\n"));
    Ok(output::print(&text)?)
}
