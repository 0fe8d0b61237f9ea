//! FlashFire: write clustering in front of the SSDs of netbooks, F1 to F6.
//!
//! Kim, Kim, Lee, Maeng, Ramachandran, "FlashFire". Each workload ([`workload`]) runs on each drive with and without the cluster buffer, one
//! request at a time, with the host's own work in between. Elapsed time ends with the last answer, as in the paper: the buffer's
//! content at that moment is not counted.

mod atto;
mod workload;

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Limit, Outcome, vary};
use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Nanos, Opcode, SimTime};
use pellucid_host::{ClusterBufferCounters, Tower};
use pellucid_lab::drive::{RunError, put_on};
use pellucid_lab::experiment::prepare;
use pellucid_media::StoreKind;
use pellucid_report::plot::{Axis, BarChart, Bars, Plot, Unit};
use workload::{FileSystem, Request, Workload, requests};

pub(super) use atto::throughput;

/// A drive of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Platform {
    preset: &'static str,
    /// Section 3.1: 1 MiB for the drive whose translation was found out, 2 MiB for the others.
    cluster: &'static str,
    /// The processor's speed over that of the netbooks: assumed.
    host: f64,
}

const PLATFORMS: [Platform; 5] = [
    Platform { preset: "netbook-ssd-1", cluster: "2MiB", host: 1.0 },
    Platform { preset: "netbook-ssd-2", cluster: "1MiB", host: 1.0 },
    Platform { preset: "netbook-ssd-3", cluster: "2MiB", host: 1.0 },
    Platform { preset: "netbook-ssd-4", cluster: "2MiB", host: 1.0 },
    Platform { preset: "laptop-ssd-5", cluster: "2MiB", host: 2.0 },
];
/// The platform of Sections 4.4 and 4.5.
const SECOND: Platform = PLATFORMS[1];

/// Bytes of flash of every drive here: the whole capacity would only cost memory.
const FLASH_BYTES: u64 = 4 << 30;

/// How a run differs from the usual one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    platform: Platform,
    workload: Workload,
    system: FileSystem,
    /// MiB of the buffer; 0: there is none.
    buffer: u32,
    /// Seconds that a netbook's host works beside its disk.
    host_s: f64,
}

impl Point {
    fn new(platform: Platform, workload: Workload, buffer: u32) -> Point {
        Point { platform, workload, system: FileSystem::Ntfs, buffer, host_s: workload.host_s() }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
struct Run {
    elapsed_s: f64,
    erases: u64,
    counters: ClusterBufferCounters,
}

/// Bytes of the buffer in the paper (4.1).
const BUFFER_MIB: u32 = 32;

/// The drive of a platform, full of data, with or without a buffer of this many MiB.
fn platform(bench: &Bench, platform: Platform, buffer: u32) -> Result<Tower<Device>, ReproduceError> {
    let geometry = bench.preset(platform.preset, &[])?.drive.media.geometry;
    let block_bytes = u64::from(geometry.planes) * u64::from(geometry.pages) * u64::from(geometry.page_bytes);
    let dies = u64::from(geometry.channels * geometry.ways * geometry.dies);
    let mut own = vec![
        format!("media.blocks={}", FLASH_BYTES / block_bytes / dies),
        "precondition.fill=1.0".to_string(),
    ];
    if buffer > 0 {
        own.extend([
            "host.layers=[\"cluster-buffer\"]".into(),
            format!("host.cluster_buffer.cluster=\"{}\"", platform.cluster),
            format!("host.cluster_buffer.size=\"{buffer}MiB\""),
            "host.cluster_buffer.flush=paper".into(),
            // Assumed: an Atom takes so long to call a driver, to look a sector up and to copy it.
            "host.cpu.submit=\"3us\"".into(),
            format!("host.cpu.sector=\"{}ns\"", (200.0 / platform.host) as u32),
        ]);
    }
    let mut spec = bench.preset(platform.preset, &own)?;
    // Nobody looks at the data.
    spec.drive.media.store = StoreKind::Unstamped;
    let device = prepare(&spec, None)?;
    Ok(put_on(&spec.host, device).map_err(RunError::Layers)?)
}

/// A host with one request outstanding.
struct Host {
    tower: Tower<Device>,
    now: SimTime,
    buffer: Vec<u8>,
}

impl Host {
    fn new(tower: Tower<Device>) -> Host {
        let now = tower.stack().map_or_else(|| tower.bottom().now(), pellucid_host::Stack::now);
        Host { tower, now, buffer: Vec::new() }
    }

    /// Works for a while, asks, and waits for the answer.
    fn ask(&mut self, think: Nanos, request: Request) {
        let Request { write, lba, sectors } = request;
        self.now += think;
        self.tower.advance(self.now);
        let mut data = std::mem::take(&mut self.buffer);
        data.resize(sectors as usize * self.tower.image_bytes(), 0);
        let opcode = if write { Opcode::Write } else { Opcode::Read };
        self.tower.submit(self.now, Command::new(0, opcode, Lba(lba), sectors, data));
        loop {
            if let Some(ended) = self.tower.pop() {
                self.now = self.now.max(ended.completed);
                self.buffer = ended.data;
                return;
            }
            let next = self.tower.next_event().expect("a request is under way");
            self.now = self.tower.advance_to_completion(next, SimTime(u64::MAX));
        }
    }
}

fn run(bench: &Bench, point: &Point) -> Result<Run, ReproduceError> {
    let tower = platform(bench, point.platform, point.buffer)?;
    let sectors = tower.interface(0).map_or(0, |interface| interface.capacity_sectors());
    let requests = requests(point.workload, point.system, sectors, bench.shorter(), bench.seed());
    let before = erases(tower.bottom());
    let mut host = Host::new(tower);
    let start = host.now;
    let host_s = point.host_s / point.platform.host / f64::from(bench.shorter());
    let think = Nanos((host_s * 1e9 / requests.len() as f64) as u64);
    for request in requests {
        host.ask(think, request);
    }
    let elapsed_s = (host.now - start).0 as f64 / 1e9;
    // What the buffer holds goes to the drive in idle time, and erases blocks there.
    host.tower.stop().map_err(RunError::Host)?;
    let counters =
        host.tower.layers().find_map(|layer| layer.cluster_buffer()).map(|buffer| buffer.counters());
    let erases = erases(host.tower.bottom()) - before;
    Ok(Run { elapsed_s, erases, counters: counters.unwrap_or_default() })
}

fn erases(device: &Device) -> u64 {
    device.counters().erases.iter().sum()
}

/// All workloads on all drives, run once for all claims.
#[derive(Debug)]
pub(super) struct FireStudy {
    /// By platform and workload: without and with the buffer.
    runs: Vec<[Run; 2]>,
}

impl FireStudy {
    /// Runs it.
    pub(super) fn run(bench: &Bench) -> Result<FireStudy, ReproduceError> {
        let mut points = Vec::new();
        for platform in PLATFORMS {
            for workload in Workload::ALL {
                points.extend([0, BUFFER_MIB].map(|buffer| Point::new(platform, workload, buffer)));
            }
        }
        let runs = bench.map(&points, |point| run(bench, point))?;
        Ok(FireStudy { runs: runs.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect() })
    }

    fn of(&self, platform: Platform, workload: Workload) -> [Run; 2] {
        let at = PLATFORMS.iter().position(|&other| other == platform).unwrap_or(0);
        let work = Workload::ALL.iter().position(|&other| other == workload).unwrap_or(0);
        self.runs[at * Workload::ALL.len() + work]
    }
}

fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.into_iter().map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

/// Runs a workload without and with the buffer, on the second drive.
fn pair(bench: &Bench, workload: Workload) -> Result<[Run; 2], ReproduceError> {
    let points = [0, BUFFER_MIB].map(|buffer| Point::new(SECOND, workload, buffer));
    let runs = bench.map(&points, |point| run(bench, point))?;
    Ok([runs[0], runs[1]])
}

/// F1: what goes in and what comes out.
pub(super) fn requests_in_and_out(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let run = run(bench, &Point::new(SECOND, Workload::Install, BUFFER_MIB))?;
    let shorter = f64::from(bench.shorter());
    let ClusterBufferCounters { writes, written_sectors, cluster_writes, cluster_sectors, .. } = run.counters;
    let out = cluster_writes as f64 * shorter;
    let checks = vec![
        Check::within("requests in", Unit::Count, 35_055.0, writes as f64 * shorter, 0.1),
        Check::within("sectors in", Unit::Count, 2_693_322.0, written_sectors as f64 * shorter, 0.1),
        Check::within("requests out", Unit::Count, 2_222.0, out, 0.1),
        Check::within("sectors out", Unit::Count, 4_550_656.0, cluster_sectors as f64 * shorter, 0.1),
        Check::within(
            "sectors of a request out",
            Unit::Plain,
            2_048.0,
            cluster_sectors as f64 / cluster_writes as f64,
            0.001,
        ),
    ];
    Ok(Outcome { checks, figures: Vec::new() })
}

/// F2: erases.
pub(super) fn erase_counts(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut checks = Vec::new();
    let (mut native, mut clustered) = (Vec::new(), Vec::new());
    for workload in Workload::WRITING {
        let [without, with] = pair(bench, workload)?;
        native.push(without.erases as f64);
        clustered.push(with.erases as f64);
        let share = with.erases as f64 / without.erases as f64;
        checks.push(Check::shown(
            format!("{}: erases with / without", workload.name()),
            Unit::Percent,
            None,
            share,
        ));
    }
    let mean = |values: &[f64]| geometric_mean(values.iter().copied());
    let share = mean(&clustered) / mean(&native);
    checks.insert(0, Check::points("erases with / without, geometric mean", 0.18, share, 0.05));
    checks.push(Check::shown("erases without, geometric mean", Unit::Count, Some(5_097.0), mean(&native)));
    checks.push(Check::shown("erases with, geometric mean", Unit::Count, Some(955.0), mean(&clustered)));
    let chart = BarChart::new("Erases, SSD-2", Bars::Grouped)
        .value_axis(Axis::linear("erases", Unit::Count).from(0.0))
        .categories(
            Workload::WRITING.map(Workload::name).into_iter().chain(["geometric mean", "published mean"]),
        )
        .series("native", with_means(&native, mean(&native), 5_097.0))
        .series("cluster buffer", with_means(&clustered, mean(&clustered), 955.0));
    let caption = "Fig. 20: erase units erased by each workload, until the buffer is empty.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}

fn with_means(values: &[f64], mean: f64, published: f64) -> Vec<f64> {
    values.iter().copied().chain([mean, published]).collect()
}

/// F3: elapsed times.
pub(super) fn elapsed(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.fire()?;
    let (mut checks, mut shown, mut figures, mut shares) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for workload in Workload::ALL {
        let runs = PLATFORMS.map(|platform| study.of(platform, workload));
        let times = |at: usize| runs.map(|run| run[at].elapsed_s * f64::from(bench.shorter()));
        let (native, clustered) = (times(0), times(1));
        let share = geometric_mean(clustered) / geometric_mean(native);
        shares.push(share);
        checks.push(share_of(workload, share));
        let published = match workload {
            Workload::Linux => [Some(758.3), Some(266.4)],
            Workload::Install => [Some(1_037.0), Some(543.0)],
            _ => [None, None],
        };
        for (name, times, published) in [("without", native, published[0]), ("with", clustered, published[1])]
        {
            let what = format!("{}: seconds {name}, geometric mean", workload.name());
            shown.push(Check::shown(what, Unit::Seconds, published, geometric_mean(times)));
        }
        checks.extend(said_of_drives(workload, &ratios(&clustered, &native)));
        for (at, (with, without)) in clustered.iter().zip(native).enumerate() {
            let what = format!("{}: elapsed with / without, SSD-{}", workload.name(), at + 1);
            shown.push(Check::shown(what, Unit::Percent, None, with / without));
        }
        let chart = BarChart::new(&format!("Elapsed time, {}", workload.name()), Bars::Grouped)
            .value_axis(Axis::linear("time", Unit::Seconds).from(0.0))
            .categories(["SSD-1", "SSD-2", "SSD-3", "SSD-4", "SSD-5"])
            .series("native", native.to_vec())
            .series("cluster buffer", clustered.to_vec());
        let percent = 100.0 * workload.published();
        let caption = format!(
            "Figs. 15 to 19: published geometric mean with FlashFire {percent:.0} % of that without; here {:.0} %.",
            100.0 * share
        );
        figures.push(Figure { caption, svg: chart.to_svg() });
    }
    let chart = BarChart::new("Elapsed time with the buffer / without", Bars::Grouped)
        .value_axis(Axis::linear("share", Unit::Percent).from(0.0))
        .categories(Workload::ALL.map(Workload::name))
        .series("here", shares)
        .series("published", Workload::ALL.map(Workload::published).to_vec());
    let caption = "Figs. 15 to 19 together: geometric means of the five drives.".into();
    figures.insert(0, Figure { caption, svg: chart.to_svg() });
    let extraction = |&host_s: &f64| {
        again(bench, Workload::Linux, |platform, buffer| Point {
            host_s,
            ..Point::new(platform, Workload::Linux, buffer)
        })
    };
    vary(bench, &mut checks, (UNKNOWN_HOST, "120 s"), &EXTRACTION_HOST_S, extraction)?;
    let uninstallation = |&work: &Workload| {
        again(bench, Workload::Uninstall, |platform, buffer| Point::new(platform, work, buffer))
    };
    vary(bench, &mut checks, (UNKNOWN_PLACES, "all"), &UNINSTALLATIONS, uninstallation)?;
    checks.extend(shown);
    Ok(Outcome { checks, figures })
}

/// The check of a workload's share of the elapsed time.
fn share_of(workload: Workload, share: f64) -> Check {
    let what = format!("{}: elapsed with / without, geometric mean", workload.name());
    Check::points(what, workload.published(), share, 0.10)
}

const UNKNOWN_HOST: &str = "seconds that a netbook works beside its disk while it unpacks 26,000 files; all of it takes 266 s with the buffer";
/// From half of what is assumed to nearly all of the time that the paper measures with the buffer.
const EXTRACTION_HOST_S: [(&str, f64); 3] = [("60 s", 60.0), ("180 s", 180.0), ("240 s", 240.0)];

const UNKNOWN_PLACES: &str = "writes of an uninstallation that go where those of an installation do, of which Table 3 has 7.5 % anywhere; the others only enter files";

const UNINSTALLATIONS: [(&str, Workload); 2] =
    [("half", Workload::Remove(50)), ("none", Workload::Remove(0))];

/// Checks of F3 on a workload, measured again on all drives at other points.
fn again(
    bench: &Bench,
    workload: Workload,
    point: impl Fn(Platform, u32) -> Point,
) -> Result<Vec<Check>, ReproduceError> {
    let of = |buffer: u32| PLATFORMS.map(|platform| point(platform, buffer));
    let runs = bench.map(&[of(0), of(BUFFER_MIB)].concat(), |point| run(bench, point))?;
    let times: Vec<f64> = runs.iter().map(|run| run.elapsed_s).collect();
    let (native, clustered) = times.split_at(PLATFORMS.len());
    let ratios = ratios(clustered, native);
    let mut checks = said_of_drives(workload, &ratios);
    checks.push(share_of(workload, geometric_mean(ratios)));
    Ok(checks)
}

fn ratios(clustered: &[f64], native: &[f64]) -> Vec<f64> {
    clustered.iter().zip(native).map(|(with, without)| with / without).collect()
}

/// Checks of the paper's words on single drives (4.3.1 to 4.3.3), with the claim's 10 points either way: each drive gains by copying and by
/// extracting; the first four gain much by installing and uninstalling, the fifth loses slightly by the one and gains modestly by the other.
fn said_of_drives(workload: Workload, ratios: &[f64]) -> Vec<Check> {
    let most = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    let bound = |which: &str, ratio: f64, limit: Limit| {
        let what = format!("{}: elapsed with / without, {which}", workload.name());
        Check::bound(what, Unit::Percent, ratio, limit)
    };
    let (netbooks, fifth) = ratios.split_at(4);
    match workload {
        Workload::Mp3 | Workload::Linux => {
            vec![bound("least gain of a drive", most(ratios), Limit::AtMost(1.0))]
        }
        Workload::Install => vec![
            bound("least gain of SSD-1 to -4", most(netbooks), Limit::AtMost(0.8)),
            bound("slight loss of SSD-5", fifth[0], Limit::Between(0.9, 1.2)),
        ],
        Workload::Uninstall => vec![
            bound("least gain of SSD-1 to -4", most(netbooks), Limit::AtMost(0.8)),
            bound("modest gain of SSD-5", fifth[0], Limit::Between(0.6, 1.1)),
        ],
        Workload::Browse | Workload::Remove(_) => Vec::new(),
    }
}

/// F4: small buffers.
pub(super) fn buffer_size(bench: &Bench) -> Result<Outcome, ReproduceError> {
    const SIZES: [u32; 4] = [8, 16, 24, 32];
    let works = [Workload::Mp3, Workload::Install];
    let points = works.map(|workload| SIZES.map(|size| Point::new(SECOND, workload, size))).concat();
    let runs = bench.map(&points, |point| run(bench, point))?;
    let mut plot = Plot::new("Elapsed time over the size of the buffer, SSD-2")
        .x_axis(Axis::linear("buffer, MiB", Unit::Plain).from(0.0).to(32.0))
        .y_axis(Axis::linear("elapsed / with 32 MiB", Unit::Plain).from(0.0));
    let mut checks = Vec::new();
    for (workload, runs) in works.iter().zip(runs.chunks_exact(SIZES.len())) {
        let full = runs[3].elapsed_s;
        let what = format!("{}: elapsed with 8 MiB / with 32 MiB", workload.name());
        checks.push(Check::bound(what, Unit::Plain, runs[0].elapsed_s / full, Limit::AtLeast(1.01)));
        let what = format!("{}: elapsed with 16 MiB / with 8 MiB", workload.name());
        checks.push(Check::bound(
            what,
            Unit::Plain,
            runs[1].elapsed_s / runs[0].elapsed_s,
            Limit::AtMost(1.0),
        ));
        let points = SIZES.iter().zip(runs).map(|(&size, run)| (f64::from(size), run.elapsed_s / full));
        plot = plot.line(workload.name(), points.collect());
    }
    let caption =
        "Fig. 21: a buffer of less than 16 MiB costs performance. The paper's numbers are kept aside.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

/// F6: file systems.
pub(super) fn file_systems(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let systems = [FileSystem::Ntfs, FileSystem::Fat32];
    let mut points = Vec::new();
    for system in systems {
        for workload in Workload::WRITING {
            points.extend(
                [0, BUFFER_MIB].map(|buffer| Point { system, ..Point::new(SECOND, workload, buffer) }),
            );
        }
    }
    let runs = bench.map(&points, |point| run(bench, point))?;
    let shares: Vec<f64> = runs.chunks_exact(2).map(|pair| pair[1].elapsed_s / pair[0].elapsed_s).collect();
    let (ntfs, fat) = shares.split_at(Workload::WRITING.len());
    let mean = |shares: &[f64]| geometric_mean(shares.iter().copied());
    let mut checks = vec![Check::bound(
        "elapsed with / without, FAT32 over NTFS, geometric mean",
        Unit::Plain,
        mean(fat) / mean(ntfs),
        Limit::AtLeast(1.0),
    )];
    for (at, workload) in Workload::WRITING.iter().enumerate() {
        for (name, shares) in [("NTFS", ntfs), ("FAT32", fat)] {
            let what = format!("{}, {name}: elapsed with / without", workload.name());
            checks.push(Check::shown(what, Unit::Percent, None, shares[at]));
        }
    }
    let chart = BarChart::new("Elapsed time with the buffer / without, SSD-2", Bars::Grouped)
        .value_axis(Axis::linear("share", Unit::Percent).from(0.0))
        .categories(Workload::WRITING.map(Workload::name))
        .series("NTFS", ntfs.to_vec())
        .series("FAT32", fat.to_vec());
    let caption = "Fig. 22: NTFS writes more at random and gains more.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}
