//! FlashFire: write clustering in front of the SSDs of netbooks, F1 to F6.
//!
//! Kim, Kim, Lee, Maeng, Ramachandran, "FlashFire". Each workload ([`pellucid_workload::desktop`]) runs on each drive with and without the cluster
//! buffer, one request at a time, with the host's own work in between. As in the paper, elapsed time ends with the last completion and excludes
//! writing back the buffer, which happens in idle time and causes erases then.

mod atto;
mod sizes;
mod slow_writes;

use super::bench::{Bench, ReproduceError};
use super::described::{File, paper};
use super::{Check, Figure, Limit, Outcome, vary};
use pellucid_report::Report;
use pellucid_report::plot::{Axis, BarChart, Bars, Plot, Unit};
use pellucid_workload::desktop::{DesktopWork, VolumeFormat};

pub(super) use atto::throughput;
pub(super) use sizes::write_sizes;
pub(super) use slow_writes::small_writes;

/// The experiments as users run them: a workload on the first drive, and an installation on the second.
const ELAPSED: File = paper!("flashfire-fig15.toml");
const CLUSTERS: File = paper!("flashfire-table3.toml");

/// A drive of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Platform {
    preset: &'static str,
    /// Section 3.1: 1 MiB for the drive whose translation was determined, 2 MiB for the others.
    cluster: &'static str,
    /// The processor's speed relative to the netbooks': assumed.
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

/// Bytes of flash of every drive here: the full capacity would only cost memory.
const FLASH_BYTES: u64 = 4 << 30;

/// All workloads, in the order of the paper's figures.
const WORK: [DesktopWork; 5] = [
    DesktopWork::Mp3Copy,
    DesktopWork::LinuxExtract,
    DesktopWork::OfficeInstall,
    DesktopWork::OfficeUninstall,
    DesktopWork::Browse,
];
/// Workloads that the paper calls write-intensive.
const WRITING: [DesktopWork; 4] = [WORK[0], WORK[1], WORK[2], WORK[3]];

/// Name of a workload in checks and figures.
fn title(work: DesktopWork) -> &'static str {
    match work {
        DesktopWork::Mp3Copy => "MP3 copy",
        DesktopWork::LinuxExtract => "Linux extraction",
        DesktopWork::OfficeInstall => "Office install",
        DesktopWork::OfficeUninstall | DesktopWork::OfficeRemove { .. } => "Office uninstall",
        DesktopWork::Browse => "browsing",
        DesktopWork::AttoRead(_) | DesktopWork::AttoWrite(_) => "ATTO",
    }
}

/// Published elapsed time with FlashFire relative to that without, geometric mean of five drives (Figs. 15 to 19).
fn published_share(work: DesktopWork) -> f64 {
    match work {
        DesktopWork::Mp3Copy => 0.50,
        DesktopWork::LinuxExtract | DesktopWork::OfficeUninstall | DesktopWork::OfficeRemove { .. } => 0.35,
        DesktopWork::OfficeInstall | DesktopWork::Browse => 0.52,
        DesktopWork::AttoRead(_) | DesktopWork::AttoWrite(_) => f64::NAN,
    }
}

/// One run, as differences from the usual one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    platform: Platform,
    work: DesktopWork,
    volume: VolumeFormat,
    /// MiB of the buffer; 0: none.
    buffer: u32,
    /// Seconds of work of a netbook's host besides its disk.
    host_s: f64,
}

impl Point {
    fn new(platform: Platform, work: DesktopWork, buffer: u32) -> Point {
        Point { platform, work, volume: VolumeFormat::Ntfs, buffer, host_s: work.host_s() }
    }

    /// Keys of the job.
    fn words(&self, shorter: u32) -> String {
        let host_ns = (self.host_s / self.platform.host / f64::from(shorter) * 1e9) as u64;
        let (app, volume) = (self.work.name(), self.volume.name());
        let mut words = format!("app={app},volume={volume},host_time={host_ns}ns,part={shorter}");
        if let DesktopWork::OfficeRemove { others } = self.work {
            words += &format!(",others={others}%");
        }
        words
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
struct Run {
    elapsed_s: f64,
    erases: u64,
    clusters: Clusters,
}

/// Writes into the buffer and out of it, until it is empty.
#[derive(Clone, Copy, Debug)]
struct Clusters {
    writes: u64,
    written_sectors: u64,
    cluster_writes: u64,
    cluster_sectors: u64,
}

impl Clusters {
    fn of(report: &Report) -> Clusters {
        let layer = report.parts.iter().find(|part| part.part == "cluster-buffer");
        let figure = |name| layer.and_then(|part| part.get(name)).unwrap_or(0);
        Clusters {
            writes: figure("writes"),
            written_sectors: figure("written_bytes") / 512,
            cluster_writes: figure("cluster_writes"),
            cluster_sectors: figure("cluster_bytes") / 512,
        }
    }
}

/// Bytes of the buffer in the paper (4.1).
const BUFFER_MIB: u32 = 32;

/// Overrides that turn the file's drive into a platform, with or without a buffer of this size in MiB.
fn platform(
    bench: &Bench,
    file: File,
    platform: Platform,
    buffer: u32,
) -> Result<Vec<String>, ReproduceError> {
    let mut own = vec![format!("drive.preset={}", platform.preset)];
    let geometry = file.with(bench, &own, "")?.drive.media.geometry;
    let block_bytes = u64::from(geometry.planes) * u64::from(geometry.pages) * u64::from(geometry.page_bytes);
    let dies = u64::from(geometry.channels * geometry.ways * geometry.dies);
    own.push(format!("media.blocks={}", FLASH_BYTES / block_bytes / dies));
    match buffer {
        0 => own.push("host.layers=[]".into()),
        _ => own.extend([
            format!("host.cluster_buffer.cluster=\"{}\"", platform.cluster),
            format!("host.cluster_buffer.size=\"{buffer}MiB\""),
            format!("host.cpu.sector=\"{}ns\"", (200.0 / platform.host) as u32),
        ]),
    }
    Ok(own)
}

/// Runs a work on a drive.
fn run(bench: &Bench, point: &Point) -> Result<Run, ReproduceError> {
    run_file(bench, ELAPSED, point)
}

fn run_file(bench: &Bench, file: File, point: &Point) -> Result<Run, ReproduceError> {
    let own = platform(bench, file, point.platform, point.buffer)?;
    let report = file.run(bench, &own, &point.words(bench.shorter()))?;
    let missing = || ReproduceError::Program(format!("{}: nothing was done", title(point.work)));
    let app = report.applications.first().ok_or_else(missing)?;
    let elapsed_s = app.phase("work").ok_or_else(missing)?.seconds;
    Ok(Run { elapsed_s, erases: app.erases, clusters: Clusters::of(&report) })
}

/// All workloads on all drives, run once for all claims.
#[derive(Debug)]
pub(super) struct FireStudy {
    /// By platform and workload: without and with the buffer.
    runs: Vec<[Run; 2]>,
}

impl FireStudy {
    pub(super) fn run(bench: &Bench) -> Result<FireStudy, ReproduceError> {
        let mut points = Vec::new();
        for platform in PLATFORMS {
            for workload in WORK {
                points.extend([0, BUFFER_MIB].map(|buffer| Point::new(platform, workload, buffer)));
            }
        }
        let runs = bench.map(&points, |point| run(bench, point))?;
        Ok(FireStudy { runs: runs.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect() })
    }

    fn of(&self, platform: Platform, workload: DesktopWork) -> [Run; 2] {
        let at = PLATFORMS.iter().position(|&other| other == platform).unwrap_or(0);
        let work = WORK.iter().position(|&other| other == workload).unwrap_or(0);
        self.runs[at * WORK.len() + work]
    }
}

fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.into_iter().map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

/// Runs a workload without and with the buffer, on the second drive.
fn pair(bench: &Bench, workload: DesktopWork) -> Result<[Run; 2], ReproduceError> {
    let points = [0, BUFFER_MIB].map(|buffer| Point::new(SECOND, workload, buffer));
    let runs = bench.map(&points, |point| run(bench, point))?;
    Ok([runs[0], runs[1]])
}

/// F1: requests in and out.
pub(super) fn requests_in_and_out(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let run = run_file(bench, CLUSTERS, &Point::new(SECOND, DesktopWork::OfficeInstall, BUFFER_MIB))?;
    let shorter = f64::from(bench.shorter());
    let Clusters { writes, written_sectors, cluster_writes, cluster_sectors } = run.clusters;
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
    for workload in WRITING {
        let [without, with] = pair(bench, workload)?;
        native.push(without.erases as f64);
        clustered.push(with.erases as f64);
        let share = with.erases as f64 / without.erases as f64;
        checks.push(Check::shown(
            format!("{}: erases with / without", title(workload)),
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
        .categories(WRITING.map(title).into_iter().chain(["geometric mean", "published mean"]))
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
    for workload in WORK {
        let runs = PLATFORMS.map(|platform| study.of(platform, workload));
        let times = |at: usize| runs.map(|run| run[at].elapsed_s * f64::from(bench.shorter()));
        let (native, clustered) = (times(0), times(1));
        let share = geometric_mean(clustered) / geometric_mean(native);
        shares.push(share);
        checks.push(share_of(workload, share));
        let published = match workload {
            DesktopWork::LinuxExtract => [Some(758.3), Some(266.4)],
            DesktopWork::OfficeInstall => [Some(1_037.0), Some(543.0)],
            _ => [None, None],
        };
        for (name, times, published) in [("without", native, published[0]), ("with", clustered, published[1])]
        {
            let what = format!("{}: seconds {name}, geometric mean", title(workload));
            shown.push(Check::shown(what, Unit::Seconds, published, geometric_mean(times)));
        }
        checks.extend(said_of_drives(workload, &ratios(&clustered, &native)));
        for (at, (with, without)) in clustered.iter().zip(native).enumerate() {
            let what = format!("{}: elapsed with / without, SSD-{}", title(workload), at + 1);
            shown.push(Check::shown(what, Unit::Percent, None, with / without));
        }
        let chart = BarChart::new(&format!("Elapsed time, {}", title(workload)), Bars::Grouped)
            .value_axis(Axis::linear("time", Unit::Seconds).from(0.0))
            .categories(["SSD-1", "SSD-2", "SSD-3", "SSD-4", "SSD-5"])
            .series("native", native.to_vec())
            .series("cluster buffer", clustered.to_vec());
        let percent = 100.0 * published_share(workload);
        let caption = format!(
            "Figs. 15 to 19: published geometric mean with FlashFire {percent:.0} % of that without; here {:.0} %.",
            100.0 * share
        );
        figures.push(Figure { caption, svg: chart.to_svg() });
    }
    let chart = BarChart::new("Elapsed time with the buffer / without", Bars::Grouped)
        .value_axis(Axis::linear("share", Unit::Percent).from(0.0))
        .categories(WORK.map(title))
        .series("here", shares)
        .series("published", WORK.map(published_share).to_vec());
    let caption = "Figs. 15 to 19 together: geometric means of the five drives.".into();
    figures.insert(0, Figure { caption, svg: chart.to_svg() });
    vary_elapsed(bench, &mut checks)?;
    checks.extend(shown);
    Ok(Outcome { checks, figures })
}

/// Varies what the paper does not give: the host's own time, and where an uninstallation writes.
fn vary_elapsed(bench: &Bench, checks: &mut [Check]) -> Result<(), ReproduceError> {
    for (work, unknown, assumed, seconds) in HOST_S {
        let of_work: Vec<usize> =
            (0..checks.len()).filter(|&at| checks[at].what.starts_with(title(work))).collect();
        let mut own: Vec<Check> = of_work.iter().map(|&at| checks[at].clone()).collect();
        let host = |&host_s: &f64| {
            again(bench, work, |platform, buffer| Point { host_s, ..Point::new(platform, work, buffer) })
        };
        vary(bench, &mut own, (unknown, assumed), seconds, host)?;
        of_work.into_iter().zip(own).for_each(|(at, check)| checks[at] = check);
    }
    let uninstallation = |&work: &DesktopWork| {
        again(bench, DesktopWork::OfficeUninstall, |platform, buffer| Point::new(platform, work, buffer))
    };
    vary(bench, checks, (UNKNOWN_PLACES, "all"), &UNINSTALLATIONS, uninstallation)
}

/// The check of a workload's elapsed-time share.
fn share_of(workload: DesktopWork, share: f64) -> Check {
    let what = format!("{}: elapsed with / without, geometric mean", title(workload));
    Check::points(what, published_share(workload), share, 0.10).even_at(1.0)
}

/// A workload, the unknown about a netbook's seconds besides its disk, the assumed value, and other values. Extraction: from half of the assumed time
/// to nearly all of the time that the paper measures with the buffer. Uninstallation: from the assumed time to that of an installation. Browsing, 30
/// sites: 2.33 s each, the mean of Keynote's 40 businesses in February 2008, to twice the 3.53 s of the source, whose machine is then as fast as the
/// laptop of the fifth drive and spends all its time in the processor.
type HostTime = (DesktopWork, &'static str, &'static str, &'static [(&'static str, f64)]);
const HOST_S: [HostTime; 3] = [
    (
        DesktopWork::LinuxExtract,
        "seconds that a netbook works beside its disk while it unpacks 26,000 files; all of it takes 266 s with the buffer",
        "120 s",
        &[("60 s", 60.0), ("180 s", 180.0), ("240 s", 240.0)],
    ),
    (
        DesktopWork::OfficeUninstall,
        "seconds that a netbook works beside its disk while it uninstalls, up to what an installation is given",
        "15 s",
        &[("60 s", 60.0), ("120 s", 120.0), ("180 s", 180.0), ("240 s", 240.0)],
    ),
    (
        DesktopWork::Browse,
        "seconds that a netbook takes for a site beside its disk, from another source's to twice those of a machine as fast as the fifth drive's laptop",
        "3.53 s",
        &[("2.33 s", 70.0), ("5.3 s", 159.0), ("7.06 s", 211.8)],
    ),
];

const UNKNOWN_PLACES: &str = "writes of an uninstallation that go where those of an installation do, of which Table 3 has 7.5 % anywhere; the others only enter files";

const UNINSTALLATIONS: [(&str, DesktopWork); 2] =
    [("half", DesktopWork::OfficeRemove { others: 50 }), ("none", DesktopWork::OfficeRemove { others: 0 })];

/// Checks of F3 on a workload, measured again on all drives at other points.
fn again(
    bench: &Bench,
    workload: DesktopWork,
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

/// Checks of the paper's statements on single drives (4.3.1 to 4.3.3), with the claim's 10 points either way: each drive gains by copying and
/// extracting; the first four gain much by installing and uninstalling; the fifth loses slightly by installing and gains modestly by uninstalling.
fn said_of_drives(workload: DesktopWork, ratios: &[f64]) -> Vec<Check> {
    let most = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    let bound = |which: &str, ratio: f64, limit: Limit| {
        let what = format!("{}: elapsed with / without, {which}", title(workload));
        Check::bound(what, Unit::Percent, ratio, limit).even_at(1.0)
    };
    let (netbooks, fifth) = ratios.split_at(4);
    match workload {
        DesktopWork::Mp3Copy | DesktopWork::LinuxExtract => {
            vec![bound("least gain of a drive", most(ratios), Limit::AtMost(1.0))]
        }
        DesktopWork::OfficeInstall => vec![
            bound("least gain of SSD-1 to -4", most(netbooks), Limit::AtMost(0.8)),
            bound("slight loss of SSD-5", fifth[0], Limit::Between(0.9, 1.2)),
        ],
        DesktopWork::OfficeUninstall => vec![
            bound("least gain of SSD-1 to -4", most(netbooks), Limit::AtMost(0.8)),
            bound("modest gain of SSD-5", fifth[0], Limit::Between(0.6, 1.1)),
        ],
        DesktopWork::Browse
        | DesktopWork::OfficeRemove { .. }
        | DesktopWork::AttoRead(_)
        | DesktopWork::AttoWrite(_) => Vec::new(),
    }
}

/// F4: small buffers.
pub(super) fn buffer_size(bench: &Bench) -> Result<Outcome, ReproduceError> {
    const SIZES: [u32; 4] = [8, 16, 24, 32];
    let works = [DesktopWork::Mp3Copy, DesktopWork::OfficeInstall];
    let points = works.map(|workload| SIZES.map(|size| (workload, size))).concat();
    let elapsed_s = bench.map_or(&points, f64::NAN, |&(workload, size)| {
        Ok(run(bench, &Point::new(SECOND, workload, size))?.elapsed_s)
    })?;
    let mut plot = Plot::new("Elapsed time over the size of the buffer, SSD-2")
        .x_axis(Axis::linear("buffer, MiB", Unit::Plain).from(0.0).to(32.0))
        .y_axis(Axis::linear("elapsed / with 32 MiB", Unit::Plain).from(0.0));
    let mut checks = Vec::new();
    for (&workload, elapsed_s) in works.iter().zip(elapsed_s.chunks_exact(SIZES.len())) {
        let full = elapsed_s[3];
        let what = format!("{}: elapsed with 8 MiB / with 32 MiB", title(workload));
        checks.push(Check::bound(what, Unit::Plain, elapsed_s[0] / full, Limit::AtLeast(1.01)));
        let what = format!("{}: elapsed with 16 MiB / with 8 MiB", title(workload));
        checks.push(Check::bound(what, Unit::Plain, elapsed_s[1] / elapsed_s[0], Limit::AtMost(1.0)));
        let points =
            SIZES.iter().zip(elapsed_s).map(|(&size, elapsed_s)| (f64::from(size), elapsed_s / full));
        plot = plot.line(title(workload), points.collect());
    }
    let caption =
        "Fig. 21: a buffer of less than 16 MiB costs performance. The paper's numbers are kept aside.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

/// F6: file systems.
pub(super) fn file_systems(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let systems = [VolumeFormat::Ntfs, VolumeFormat::Fat32];
    let mut points = Vec::new();
    for volume in systems {
        for workload in WRITING {
            points.extend(
                [0, BUFFER_MIB].map(|buffer| Point { volume, ..Point::new(SECOND, workload, buffer) }),
            );
        }
    }
    let runs = bench.map(&points, |point| run(bench, point))?;
    let shares: Vec<f64> = runs.chunks_exact(2).map(|pair| pair[1].elapsed_s / pair[0].elapsed_s).collect();
    let (ntfs, fat) = shares.split_at(WRITING.len());
    let mean = |shares: &[f64]| geometric_mean(shares.iter().copied());
    let mut checks = vec![Check::bound(
        "elapsed with / without, FAT32 over NTFS, geometric mean",
        Unit::Plain,
        mean(fat) / mean(ntfs),
        Limit::AtLeast(1.0),
    )];
    for (at, &workload) in WRITING.iter().enumerate() {
        for (name, shares) in [("NTFS", ntfs), ("FAT32", fat)] {
            let what = format!("{}, {name}: elapsed with / without", title(workload));
            checks.push(Check::shown(what, Unit::Percent, None, shares[at]));
        }
    }
    let chart = BarChart::new("Elapsed time with the buffer / without, SSD-2", Bars::Grouped)
        .value_axis(Axis::linear("share", Unit::Percent).from(0.0))
        .categories(WRITING.map(title))
        .series("NTFS", ntfs.to_vec())
        .series("FAT32", fat.to_vec());
    let caption = "Fig. 22: NTFS writes more at random and gains more.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: chart.to_svg() }] })
}
