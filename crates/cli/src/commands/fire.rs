//! `pellucid fire`: write clustering in front of a slow device (FlashFire), and the probe that finds what such a device likes.

use super::serving::Serving;
use crate::args::Global;
use crate::failure::Failure;
use crate::layered::{MadeFile, Opened};
use crate::spelling::add_set;
use crate::{output, stderr};
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::{Drive, SimTime};
use pellucid_host::{
    ClusterBufferConfig, CpuCosts, JournalConfig, JournalHead, LayerConfig, Probe, ProbeConfig, ProbeError,
    ProbePoint, probe,
};
use pellucid_lab::experiment::prepare;
use pellucid_serve::{FileConfig, FileDrive, Served};
use pellucid_text::format;
use std::io::{ErrorKind, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  pellucid fire --probe /dev/sdX
  pellucid fire --device /dev/sdX --cluster 4MiB --ublk
  pellucid fire --device stick.img --memory 64MiB --nbd unix:/run/stick.sock --monitor 9300
  pellucid fire --device stick.img --journal 64MiB --make-journal --nbd 10809
  pellucid fire --device /dev/sdX --set host.cluster_buffer.idle=2s --nbd 10809

Other settings: --set host.cluster_buffer.KEY=VALUE (docs/reference/keys.md). To detach: stop the command (SIGTERM); it writes all that it holds first.";

/// A description without layers of its own, for the settings that nobody gives.
const DEFAULTS: &str = "netbook-ssd";

/// Put write clustering in front of a slow device (FlashFire): small writes become large ones
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Fire {
    /// The device: a file or block device (PATH, or file:PATH with sector=, direct=, threads=), which nothing else may use meanwhile
    #[arg(long, value_name = "FILE_OR_DEVICE", required_unless_present = "probe")]
    device: Option<String>,
    /// Measure how fast a device is written in requests of each size, find the boundary of its erase units, and say which cluster
    /// suits it. What is written is what was read there before. A file, a block device, or a modelled drive
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["device", "nbd", "nvme_tcp", "ublk", "record", "control", "monitor", "fault"])]
    probe: Option<String>,
    /// Memory for everything that the buffer needs; the same as --set host.cluster_buffer.size=SIZE [default: 32MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "probe")]
    memory: Option<String>,
    /// Size of a cluster, which is written at once; best the erase unit that --probe finds; the same as --set host.cluster_buffer.cluster=SIZE [default: 1MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "probe")]
    cluster: Option<String>,
    /// strict: a flush writes all that the buffer holds. paper: as published, a flush bypasses the buffer, and a power cut loses its
    /// content; the same as --set host.cluster_buffer.flush=MODE [default: strict]
    #[arg(long, value_name = "MODE", conflicts_with = "probe")]
    flush: Option<String>,
    /// Size of a journal at the end of the device, into which a flush writes in order when that is cheaper than to write each place. The
    /// served device is smaller by it; the same as --set host.cluster_buffer.journal=SIZE [default: none]
    #[arg(long, value_name = "SIZE", conflicts_with = "probe")]
    journal: Option<String>,
    /// Make the journal where the device has none. It overwrites the end of the device
    #[arg(long, requires = "journal")]
    make_journal: bool,
    #[command(flatten)]
    serving: Serving,
}

impl Fire {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let Some(device) = &self.device else {
            return run_probe(self.probe.as_deref().unwrap_or_default(), global);
        };
        let example = format!("pellucid fire --device {device} --nbd 10809");
        self.serving.check(&example, false)?;
        let opened = self.open(device, global)?;
        let asked = [device.clone()];
        self.serving.run(vec![opened], &asked, global)
    }

    /// The device under its buffer.
    fn open(&self, device: &str, global: &Global) -> Result<Opened, Failure> {
        let file = file_config(device)?;
        let layer = self.layer(file.sector_bytes, global)?;
        let wants_journal = layer.journal.is_some();
        if !wants_journal {
            refuse_forgotten_journal(device, &file)?;
        }
        let drive = FileDrive::open(&file).map_err(Failure::asked)?;
        let whole = drive.interface(0).map_or(0, |interface| interface.capacity_sectors());
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

    /// The buffer as it is asked for.
    fn layer(&self, sector_bytes: u32, global: &Global) -> Result<ClusterBufferConfig, Failure> {
        let is_other = |set: &&String| !set.starts_with("host.cluster_buffer.");
        if let Some(other) = global.sets.iter().find(is_other) {
            return Err(Failure::asked(anyhow!("--set {other}: allowed: host.cluster_buffer.KEY=VALUE")));
        }
        let mut sets = global.sets.clone();
        for (option, key, value) in [
            ("--memory", "size", &self.memory),
            ("--cluster", "cluster", &self.cluster),
            ("--flush", "flush", &self.flush),
            ("--journal", "journal", &self.journal),
        ] {
            add_set(&mut sets, option, &format!("host.cluster_buffer.{key}"), value.as_deref())?;
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
        let cluster_sectors = (cluster_bytes / u64::from(sector_bytes)) as u32;
        let id = UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
        let make = self.make_journal.then_some(id);
        let journal = config.journal.map(|journal| JournalConfig { make, ..journal });
        Ok(ClusterBufferConfig { sector_bytes, cluster_sectors, journal, cpu: CpuCosts::FREE, ..config })
    }
}

/// A device as it is named. A block device is used past the page cache, which would gather writes its own way and hold them twice.
fn file_config(device: &str) -> Result<FileConfig, Failure> {
    if FileConfig::is_meant(device) {
        return device.parse().map_err(Failure::asked);
    }
    let there = std::fs::metadata(device);
    if there.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let allowed = "allowed: one that is there, or file:PATH,size=BYTES, which makes a file";
        return Err(Failure::asked(anyhow!("{device}: no such file or device; {allowed}")));
    }
    let is_block = there.is_ok_and(|there| there.file_type().is_block_device());
    Ok(FileConfig { sector_bytes: 512, direct: is_block, ..FileConfig::new(device) })
}

/// A journal may have what was flushed and is nowhere else: without it the device would be served as it was before.
fn refuse_forgotten_journal(device: &str, file: &FileConfig) -> Result<(), Failure> {
    // A device that cannot be read is refused when it is opened to be served.
    let Ok(mut opened) = std::fs::File::open(&file.path) else { return Ok(()) };
    let bytes = u64::from(file.sector_bytes);
    let sectors = opened.seek(SeekFrom::End(0)).unwrap_or(0) / bytes;
    let mut head_at = |at: u64| {
        let mut sector = vec![0; file.sector_bytes as usize];
        opened.seek(SeekFrom::Start(at * bytes)).and_then(|_| opened.read_exact(&mut sector)).ok()?;
        JournalHead::parse(&sector)
    };
    let head = JournalHead::sectors(sectors, file.sector_bytes).into_iter().find_map(&mut head_at);
    head.map_or(Ok(()), |head| {
        let cluster = u64::from(head.cluster_sectors) * u64::from(head.sector_bytes);
        let ring = head.ring_bytes();
        Err(Failure::asked(anyhow!(
            "{device}: it has a journal, which may hold flushed data; allowed: --journal {ring} --cluster {cluster}"
        )))
    })
}

/// Probes a device, or a modelled drive, and prints what was found.
fn run_probe(called: &str, global: &Global) -> Result<(), Failure> {
    let refuse = |error: ProbeError| {
        let why = anyhow!("--probe {called}: {error}");
        match error {
            ProbeError::NotBlock(_) | ProbeError::Small { .. } => Failure::asked(why),
            ProbeError::Failed { .. } | ProbeError::Silent => Failure::work(why),
        }
    };
    let is_file = FileConfig::is_meant(called) || Path::new(called).exists();
    if !is_file || called.ends_with(".toml") {
        // A drive that is full, as one that has been used.
        let mut sets = global.sets.clone();
        sets.push("precondition.fill=1.0".into());
        let mut device = prepare(&pellucid_spec::load(called, &sets)?, None).map_err(Failure::work)?;
        let sector_bytes = device.layout().sector_bytes;
        let now = device.now();
        let config = ProbeConfig { sector_bytes, ..ProbeConfig::default() };
        let wait = |_: &mut Device, next: Option<SimTime>| next;
        let found = probe(&mut device, &config, now, wait, tell(global)).map_err(refuse)?;
        return show(&found);
    }
    if let Some(set) = global.sets.first() {
        return Err(Failure::asked(anyhow!("--set {set}: allowed: with a modelled drive")));
    }
    let file = FileConfig { direct: true, ..file_config(called)? };
    let mut drive = FileDrive::open(&file).map_err(Failure::asked)?;
    let config = ProbeConfig { sector_bytes: file.sector_bytes, ..ProbeConfig::default() };
    let clock = Instant::now();
    let wait = |drive: &mut FileDrive, _| {
        // A device that does not answer for so long does not answer at all.
        let longest = Duration::from_secs(120);
        drive.wait(longest).then(|| SimTime(clock.elapsed().as_nanos() as u64))
    };
    drive.advance(SimTime(0));
    let found = probe(&mut drive, &config, SimTime(0), wait, tell(global)).map_err(refuse)?;
    show(&found)
}

/// Tells people at a terminal that it goes on.
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

fn show(found: &Probe) -> Result<(), Failure> {
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
