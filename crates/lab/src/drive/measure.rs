//! Makes the report from the measurements.

use super::namespaces::NamespaceUse;
use super::steady::Steadiness;
use super::target::{HostUse, Target};
use super::targets::TargetPlace;
use super::{JobName, Jobs, Onlooker, Run, RunError, Source, busy};
use pellucid_device::{Counters, Device, FirmwareModule, Structure};
use pellucid_flash::{
    BlockUse, BlockView, Cause, Drive as Flash, Figure, FigureKind, Interface, MapReason, Nanos, SimTime,
};
use pellucid_ftl::{FtlCounters, MAP_ENTRY_BYTES, Map, MapCounters, MountReport};
use pellucid_host::HostCounters;
use pellucid_report::{
    ApplicationReport, ByCause, Drive, DriveMemory, EraseCounts, FilesReport, FirmwareModules, GcPauses,
    GcSummary, GroupResult, HostCost, HostLayer, JobResult, MapCache, MapPages, MediaHealth, Merges, Mount,
    NamespaceResult, OfFlash, PartFigure, PartFigures, Replay, Report, RequestRecorder, Requests, Series,
    SlcCache, Span, SteadyState, TargetResult, Utilisation, Wear, WearHistogram, Workload,
    WriteAmplification,
};
use pellucid_spec::Fill;
use pellucid_text::format::{duration, percent};
use std::collections::BTreeMap;

/// Measurements of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// All requests, over the whole measurement.
    pub requests: Requests,
    /// Jobs as written, each over its own time; empty for a trace.
    pub jobs: Vec<JobResult>,
    /// Groups of jobs.
    pub groups: Vec<GroupResult>,
    /// Targets.
    pub targets: Vec<TargetResult>,
    /// Time from the start, or the end of `ramp_time`, to the last completion.
    pub simulated: Nanos,
    /// Counters of the drive over the run.
    pub counters: Counters,
    /// Codewords by wrong bits, over the run.
    pub chunks_by_wrong_bits: Vec<u64>,
    /// Counters of the translation over the run.
    pub ftl: FtlCounters,
    /// Counters of each namespace over the run, if there are several.
    pub namespaces: Vec<NamespaceUse>,
    /// Work and state of the host's layers over the run.
    pub host: Option<HostUse>,
    /// Bytes written by requests, if layers make other writes from them.
    pub written_bytes: Option<u64>,
    /// Reads whose data were checked and right, if the run verifies.
    pub verified_reads: Option<u64>,
    /// Busy time of channels over the run, ns.
    pub channel_busy: Vec<u64>,
    /// Busy time of dies over the run, ns.
    pub die_busy: Vec<u64>,
    /// Busy time of the link over the run, ns: to the drive, to the host.
    pub link_busy: [u64; 2],
    /// Busy time of the firmware processor over the run, ns, by module.
    pub firmware_busy: [u64; FirmwareModule::COUNT],
    /// How the replay differs from its trace.
    pub replay: Option<Replay>,
    /// Figures of a file server's threads.
    pub files: Option<FilesReport>,
    /// Figures of applications.
    pub applications: Vec<ApplicationReport>,
    /// Counters of layers and disk over the run.
    pub figures: Vec<PartFigures>,
    /// State of the blocks at the end of the run, before the drive comes to rest.
    pub wear: OfFlash<Wear>,
    /// Blocks of the SLC caches, and those in use at the end.
    pub slc_cache_blocks: (u32, u32),
    /// Rounds of a run that was to end once steady.
    pub steady: Option<SteadyState>,
    /// The run over time.
    pub series: Series,
    /// Sentences about jobs that ended early.
    pub ended_early: Vec<String>,
}

impl Measured {
    /// Takes the result of a run that ended at `end`, and lets the drive become idle.
    pub(super) fn take<T: Target>(
        mut run: Run<'_, T>,
        end: SimTime,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Measured, RunError> {
        for log in std::mem::take(&mut run.logs) {
            log.finish().map_err(RunError::Log)?;
        }
        let (channels, dies, link, firmware) = busy(run.device);
        let since =
            |now: Vec<u64>, before: &[u64]| now.iter().zip(before).map(|(n, b)| n - b).collect::<Vec<_>>();
        let simulated = end.since(run.measured_from);
        let at_end = run.progress(end);
        let (channel_count, die_count) =
            run.device.flash().map_or((0, 0), |device| (device.layout().channels, device.layout().dies));
        let (jobs, groups) = match run.source.names() {
            names if names.is_empty() => Default::default(),
            names => by_job(&run.source, &names, &run.device.targets(), &run.recorders, run.measured_from),
        };
        let targets = by_target(&run, simulated);
        let mut measured = Measured {
            requests: run.recorders.iter().fold(RequestRecorder::new(), merged).finish(simulated),
            jobs,
            groups,
            targets,
            simulated,
            counters: super::counters(run.device).since(&run.before),
            chunks_by_wrong_bits: since(super::wrong_bits(run.device), &run.wrong_bits_before),
            ftl: super::ftl_counters(run.device).since(&run.ftl_before),
            namespaces: NamespaceUse::all(run.device)
                .into_iter()
                .zip(&run.namespaces_before)
                .map(|(now, before)| now.since(before))
                .collect(),
            host: run.device.host().zip(run.host_before).map(|(now, before)| host_difference(now, &before)),
            written_bytes: run.device.reshapes_writes().then_some(run.written_bytes),
            verified_reads: run.oracle.is_some().then_some(run.verified_reads),
            channel_busy: since(channels, &run.busy_before.0),
            die_busy: since(dies, &run.busy_before.1),
            link_busy: [link[0] - run.busy_before.2[0], link[1] - run.busy_before.2[1]],
            firmware_busy: std::array::from_fn(|i| firmware[i] - run.busy_before.3[i]),
            replay: match &run.source {
                Source::Trace(trace) => Some(trace.shaped().replay()),
                Source::Jobs(_) | Source::Files(_) | Source::Application | Source::Beside(_) => None,
            },
            ended_early: run.source.jobs().map_or_else(Vec::new, Jobs::ended_early),
            files: match &run.source {
                Source::Files(files) => Some(files.report(end)),
                Source::Jobs(_) | Source::Trace(_) | Source::Application | Source::Beside(_) => None,
            },
            applications: Vec::new(),
            figures: figures(run.device.figures(), &run.figures_before),
            wear: run.device.flash().map(|_| wear(run.device)).into(),
            slc_cache_blocks: run
                .device
                .flash()
                .map_or((0, 0), |device| device.cache_use(device.block_namespaces())),
            steady: run.steady.as_ref().map(Steadiness::report),
            series: Series::default(),
        };
        measured.applications = run.applications(&measured);
        run.drop_outstanding();
        measured.series = run.series.finish(end, channel_count, die_count);
        super::rest(run.device, end, at_end, onlooker);
        Ok(measured)
    }
}

fn merged(mut sum: RequestRecorder, part: &RequestRecorder) -> RequestRecorder {
    sum.merge(part);
    sum
}

/// Returns the result of each job, over its own time: from the start of its statistics to its last completion. A group's time spans those of its
/// jobs. Times are relative to the start of the measurement.
fn by_job(
    source: &Source,
    names: &[&JobName],
    targets: &[TargetPlace],
    recorders: &[RequestRecorder],
    from: SimTime,
) -> (Vec<JobResult>, Vec<GroupResult>) {
    let jobs = source.jobs();
    // Applications come last, and count from the beginning.
    let began = |at: usize| match jobs {
        Some(jobs) if at < jobs.results().len() => jobs.began(at as u32),
        _ => Some(from),
    };
    // A job without completions that count has no time of its own.
    let span = |at: usize| {
        let began = began(at).filter(|_| recorders[at].requests() > 0);
        began.map(|began| (began, recorders[at].last()))
    };
    let time = |span: Option<(SimTime, SimTime)>| match span {
        Some((began, ended)) => Span::new(began.since(from), ended.since(from)),
        None => Span::default(),
    };
    let results = names.iter().enumerate().map(|(at, job)| {
        let time = time(span(at));
        JobResult {
            name: job.name.clone(),
            group: job.group,
            instances: job.instances,
            target: targets.iter().find(|t| t.namespace == job.namespace).map(|t| t.name.clone()),
            requests: recorders[at].finish(time.runtime()),
            time,
        }
    });
    let last = names.iter().map(|job| job.group).max().unwrap_or(0);
    let groups = (0..=last).map(|group| {
        let members: Vec<usize> = (0..recorders.len()).filter(|&at| names[at].group == group).collect();
        let whole = members.iter().filter_map(|&at| span(at)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let recorder = members.iter().map(|&at| &recorders[at]).fold(RequestRecorder::new(), merged);
        let time = time(whole);
        GroupResult {
            group,
            jobs: members.iter().map(|&at| names[at].name.clone()).collect(),
            requests: recorder.finish(time.runtime()),
            time,
        }
    });
    (results.collect(), groups.collect())
}

/// Returns the result of each target: the requests of its jobs; those of a trace or of threads belong to the first block target.
fn by_target<T: Target>(run: &Run<'_, T>, simulated: Nanos) -> Vec<TargetResult> {
    let sector = u64::from(run.device.sector_bytes());
    let block_namespaces = run.device.block_namespaces();
    let first = block_namespaces.first().map(|block| block.number);
    let one = |(target, before): (TargetPlace, &Option<HostUse>)| {
        let names = run.source.names();
        let own: Vec<usize> = match names.is_empty() {
            true => (0..run.recorders.len()).filter(|_| first == Some(target.namespace)).collect(),
            false => (0..names.len()).filter(|&at| names[at].namespace == target.namespace).collect(),
        };
        let requests = own.iter().map(|&at| &run.recorders[at]).fold(RequestRecorder::new(), merged);
        let ftl = run.device.host_of(target.namespace).zip(*before);
        let ftl = ftl.map(|(now, before)| host_difference(now, &before));
        let sectors = run.device.interface(target.namespace).map_or(0, |shape| shape.capacity_sectors());
        TargetResult {
            name: target.name,
            kind: target.kind.name().into(),
            first_unit: target.units.start,
            units: target.units.len() as u32,
            capacity_bytes: sectors * sector,
            jobs: own.iter().filter_map(|&at| names.get(at)).map(|job| job.name.clone()).collect(),
            requests: requests.finish(simulated),
            write_amplification: ftl.as_ref().map(|ftl| {
                let HostCounters { written_sectors, programmed_sectors, .. } = ftl.counters;
                let programmed = ByCause(programmed_sectors).map(|sectors| sectors * sector);
                WriteAmplification::new(written_sectors * sector, programmed)
            }),
            gc: ftl.as_ref().map(|ftl| gc_summary(&ftl.ftl, &Counters::default(), ftl.units_per_block)),
        }
    };
    run.device.targets().into_iter().zip(&run.targets_before).map(one).collect()
}

/// Returns the work of layers between two times, with the state at the second.
fn host_difference(now: HostUse, before: &HostUse) -> HostUse {
    HostUse {
        counters: now.counters.since(&before.counters),
        ftl: now.ftl.since(&before.ftl),
        cpu_busy: Nanos(now.cpu_busy.0 - before.cpu_busy.0),
        ..now
    }
}

/// Makes the report of a run. The caller supplies `wall_seconds` and `peak_memory_bytes`: this crate reads no clock for results.
pub fn report(
    target: &impl Target,
    measured: Measured,
    name: &str,
    workload: Workload,
    seeds: BTreeMap<String, u64>,
    host: Option<HostCost>,
    fill: Fill,
) -> Report {
    let mut report = match target.flash() {
        Some(device) => of_flash(device, &measured),
        None => Report::default(),
    };
    if let Some(disk) = target.disk() {
        let drive = &mut report.drive;
        let separator = if drive.summary.is_empty() { "" } else { "; backing store: " };
        drive.summary = format!("{}{separator}{}", drive.summary, disk.summary());
        if target.flash().is_none() {
            drive.media_bytes = disk.capacity_bytes();
            drive.memory.data_buffer_bytes = disk.config().write_cache_bytes;
            drive.memory_bytes = drive.memory.total();
        }
    }
    report.drive.name = name.into();
    report.drive.capacity_bytes = target.capacity_bytes();
    report.drive.sector_bytes = target.sector_bytes();
    Report {
        warnings: warnings(&measured, fill)
            .into_iter()
            .chain(target.flash().and_then(little_memory))
            .collect(),
        workload,
        seeds,
        requests: measured.requests.requests,
        verified_reads: measured.verified_reads,
        simulated_seconds: measured.simulated.as_secs_f64(),
        host,
        steady_state: measured.steady,
        directions: measured.requests.directions,
        reads: measured.requests.reads,
        jobs: measured.jobs,
        groups: measured.groups,
        targets: measured.targets,
        wear: measured.wear,
        host_layer: measured.host.map(|host| host_layer(&host, measured.simulated)),
        replay: measured.replay,
        files: measured.files,
        applications: measured.applications,
        parts: measured.figures,
        series: measured.series,
        ..report
    }
}

/// Fills in the part that only a drive of flash has.
fn of_flash(device: &Device, measured: &Measured) -> Report {
    let layout = device.layout();
    let sector = u64::from(layout.sector_bytes);
    let counters = measured.counters;
    let (written, programmed) = whole_stack(&counters, measured.host.as_ref());
    let page_sectors = u64::from(layout.units_per_superpage * layout.sectors_per_unit);
    let programmed = with_layers(programmed, &measured.figures, page_sectors);
    let written = measured.written_bytes.map_or(written, |bytes| bytes / sector);
    let ftl = measured.host.map_or(measured.ftl, |host| host.ftl);
    let block_units = measured.host.map_or(layout.units_per_block, |host| host.units_per_block);
    let all: Vec<u16> = device.block_namespaces().collect();
    let translated = translated(device, &all, &measured.ftl, &counters, measured.slc_cache_blocks);
    let memory = drive_memory(device);
    Report {
        drive: Drive {
            summary: summary(device),
            media_bytes: layout.media_bytes(),
            memory_bytes: memory.total(),
            memory,
            ..Drive::default()
        },
        write_amplification: amplification(sector, written, programmed, &counters).into(),
        gc: gc_summary(&ftl, &counters, block_units).into(),
        mount: device.last_mount().map(mount),
        media: OfFlash::from(MediaHealth {
            read_retries: counters.read_retries,
            corrected_reads: counters.corrected_reads,
            uncorrectable_reads: counters.uncorrectable_reads,
            corrected_bits: counters.corrected_bits,
            miscorrected_chunks: counters.miscorrected_chunks,
            damaged_reads: counters.damaged_reads,
            chunks_by_wrong_bits: measured.chunks_by_wrong_bits.clone(),
            refreshed_blocks: ftl.refreshed,
            retired_blocks: counters.retired_blocks,
            program_failures: counters.program_failures,
            erase_failures: counters.erase_failures,
            suspensions: counters.suspensions,
        }),
        utilisation: utilisation(device, measured),
        map_cache: translated.map_cache,
        merges: translated.merges,
        slc_cache: translated.slc_cache,
        namespaces: measured.namespaces.iter().map(|used| namespace(device, used)).collect(),
        ..Report::default()
    }
}

/// Returns counters since `before`, and gauges as they are.
fn figures(
    now: Vec<(&'static str, Vec<Figure>)>,
    before: &[(&'static str, Vec<Figure>)],
) -> Vec<PartFigures> {
    let earlier = |part: usize, figure: &Figure| {
        let before = before.get(part).map_or(&[][..], |(_, figures)| figures);
        before.iter().find(|b| b.name == figure.name && b.cause == figure.cause).map_or(0, |b| b.value)
    };
    let since = |part: usize, figure: Figure| match figure.kind {
        FigureKind::Counter => figure.value.saturating_sub(earlier(part, &figure)),
        FigureKind::Gauge => figure.value,
    };
    let part = |(at, (name, figures)): (usize, (&'static str, Vec<Figure>))| PartFigures {
        part: name.into(),
        figures: figures
            .into_iter()
            .map(|figure| PartFigure { name: figure.name.into(), value: since(at, figure) })
            .collect(),
    };
    now.into_iter().enumerate().map(part).collect()
}

/// Share of unmapped reads from which the report warns of them.
const UNMAPPED_SHARE_WARNED: f64 = 0.03;

/// Share of an application's skipped operations from which the report warns of them. A file server sometimes finds no file.
const LEFT_OUT_SHARE_WARNED: f64 = 0.001;

/// Warns of too little memory: tables of nameless writes grow with use, so they may have outgrown a drive that they fitted at first.
fn little_memory(device: &Device) -> Option<String> {
    let shortage = device.config().memory.shortage(&device.controller_memory())?;
    let sum = shortage.to_string();
    Some(format!("the controller's tables have grown beyond its {} (drive.memory): {sum}", shortage.memory))
}

/// Returns reasons why numbers of the report may be misleading; `fill`: the data written before.
fn warnings(measured: &Measured, fill: Fill) -> Vec<String> {
    let mut warnings = measured.ended_early.clone();
    if measured.verified_reads == Some(0) {
        warnings.push(
            "run.verify: no read was compared with what was written, so nothing is verified; to have some: work that reads".into(),
        );
    }
    let reads = &measured.requests.reads;
    if let Some(share) = reads.unmapped_share.filter(|&share| share >= UNMAPPED_SHARE_WARNED) {
        let mapped = match reads.mapped.latency.mean_ns {
            Some(ns) => format!("; reads of data took {} in the mean", duration(ns)),
            None => String::new(),
        };
        let instead = match fill {
            Fill::Share(1.0) => "",
            // Only a trace determines by itself which data existed.
            Fill::Share(_) if measured.replay.is_some() => {
                "; to give the drive data first: --precondition trace, fill or steady"
            }
            Fill::Share(_) => "; to give the drive data first: --precondition fill or steady",
            Fill::Trace => "; to give the drive data first: --precondition fill or steady",
        };
        warnings.push(format!(
            "{} of the reads were of sectors that hold no data (never written, or trimmed), which cost no flash \
             read{mapped}{instead}",
            percent(share)
        ));
    }
    for app in &measured.applications {
        if app.operations > 0 && app.operations_per_second.is_none() {
            warnings.push(format!(
                "the operations of {} took no simulated time, so there is no rate: memory answered all of them, and the host's processor \
                 costs nothing (kv.cpu of a cache)",
                app.job
            ));
        }
        let share = app.left_out as f64 / app.operations as f64;
        if share >= LEFT_OUT_SHARE_WARNED {
            let share = percent(share);
            warnings.push(format!(
                "{share} of the operations of {} were left out, for want of files or room",
                app.job
            ));
        }
    }
    warnings
}

/// Corrects for the split FTL of nameless writes, which tells the drive no causes: its own programs are subtracted from the host's.
fn with_layers(
    mut programmed: [u64; Cause::COUNT],
    parts: &[PartFigures],
    page_sectors: u64,
) -> [u64; Cause::COUNT] {
    let Some(split) = parts.iter().find(|part| part.part == "nameless-ftl") else { return programmed };
    let own = |name: &str| split.get(name).unwrap_or(0);
    for (cause, sectors) in [
        (Cause::Gc, own("nameless_copied_sectors")),
        (Cause::Journal, own("nameless_checkpoint_pages") * page_sectors),
    ] {
        let sectors = sectors.min(programmed[Cause::Host as usize]);
        programmed[Cause::Host as usize] -= sectors;
        programmed[cause as usize] += sectors;
    }
    programmed
}

fn amplification(
    sector: u64,
    written: u64,
    programmed: [u64; Cause::COUNT],
    counters: &Counters,
) -> WriteAmplification {
    WriteAmplification {
        programs: ByCause(counters.programs),
        flash_reads: ByCause(counters.reads),
        copybacks: counters.copybacks,
        ..WriteAmplification::new(written * sector, ByCause(programmed).map(|s| s * sector))
    }
}

fn gc_summary(ftl: &FtlCounters, counters: &Counters, block_units: u32) -> GcSummary {
    let victims = ftl.gc_victims();
    GcSummary {
        victims,
        erased_blocks: ByCause(counters.erases),
        emergency_victims: ftl.emergency_victims,
        victim_valid_share: (victims > 0)
            .then(|| ftl.victim_valid_units as f64 / (victims as f64 * f64::from(block_units))),
        copied_units: ftl.copied_units,
        pauses: GcPauses::new(&ftl.pauses),
    }
}

fn mount((mount, time): (MountReport, Nanos)) -> Mount {
    Mount {
        duration_ns: time.0,
        scanned_superpages: mount.header_reads + mount.replay_reads,
        journal_superpages: mount.map_page_reads,
        mapped_units: mount.mapped_units,
    }
}

/// Returns the result of one of several namespaces.
fn namespace(device: &Device, used: &NamespaceUse) -> NamespaceResult {
    let (sector, number) = (u64::from(device.layout().sector_bytes), used.number);
    let interface = device.interface(number);
    let block = matches!(interface, Some(Interface::Block { .. }));
    let counters = &used.counters;
    let translated = translated(device, &[number], &used.ftl, counters, used.slc_cache_blocks);
    NamespaceResult {
        number,
        interface: interface.map_or("", |interface| interface.name()).into(),
        capacity_bytes: interface.map_or(0, |interface| interface.capacity_sectors()) * sector,
        free_blocks: used.free_blocks.into(),
        read_only: used.read_only,
        write_amplification: amplification(
            sector,
            counters.host_written_sectors,
            counters.programmed_sectors,
            counters,
        ),
        gc: block.then(|| gc_summary(&used.ftl, counters, device.layout().units_per_block)),
        mount: device.namespace(number).last_mount().map(mount),
        map_cache: translated.map_cache.filter(|_| block),
        merges: translated.merges.filter(|_| block),
        slc_cache: translated.slc_cache.filter(|_| block),
    }
}

/// Counters that only some translations have.
struct Translated {
    map_cache: Option<MapCache>,
    merges: Option<Merges>,
    slc_cache: Option<SlcCache>,
}

/// Reports the translation of these block namespaces, from the counters `ftl`.
fn translated(
    device: &Device,
    namespaces: &[u16],
    ftl: &FtlCounters,
    counters: &Counters,
    slc_cache_blocks: (u32, u32),
) -> Translated {
    let merges = device.config().ftl.map.log_blocks().is_some();
    Translated {
        map_cache: map_cache(device, namespaces, &ftl.map),
        merges: merges.then(|| Merges::new(&ftl.merges)),
        slc_cache: slc_cache(device, ftl, counters, slc_cache_blocks),
    }
}

/// Each namespace has a cached table of its own.
fn map_cache(device: &Device, namespaces: &[u16], counters: &MapCounters) -> Option<MapCache> {
    let Map::Demand { cache_bytes } = device.config().ftl.map else { return None };
    let MapCounters { lookups, hits, reads, writes } = counters;
    let per_unit = u64::from(device.layout().sectors_per_unit);
    let fits = |&number: &u16| {
        (cache_bytes / MAP_ENTRY_BYTES).min(device.namespace(number).capacity_sectors() / per_unit)
    };
    Some(MapCache {
        entries: namespaces.iter().map(fits).sum(),
        lookups: *lookups,
        hit_ratio: (*lookups > 0).then(|| *hits as f64 / *lookups as f64),
        lookup_reads: reads[MapReason::Lookup as usize],
        merge_reads: MapPages::new(reads),
        writes: MapPages::new(writes),
    })
}

fn slc_cache(
    device: &Device,
    ftl: &FtlCounters,
    counters: &Counters,
    (blocks, used): (u32, u32),
) -> Option<SlcCache> {
    device.config().ftl.slc_cache?;
    let layout = device.layout();
    let (sector, unit) = (u64::from(layout.sector_bytes), u64::from(layout.unit_bytes));
    Some(SlcCache {
        host_bytes: ftl.cached_units * unit,
        direct_bytes: ftl.direct_units * unit,
        folded_bytes: counters.programmed_sectors[Cause::Fold as usize] * sector,
        folded_blocks: counters.erases[Cause::Fold as usize],
        blocks: blocks.into(),
        used_blocks: used.into(),
    })
}

fn wear(target: &impl Target) -> Wear {
    let Some(device) = target.flash() else { return Wear::default() };
    let erases: Vec<u32> = device.erase_counts().collect();
    let (factory, grown) = device.bad_blocks();
    Wear {
        blocks: device.layout().blocks.into(),
        free_blocks: device.free_blocks().into(),
        bad_blocks_factory: factory.into(),
        bad_blocks_grown: grown.into(),
        read_only: target.is_read_only(),
        erases: EraseCounts::of(&erases),
        histogram: WearHistogram::of(&erases),
        die_mean_erases: die_mean_erases(device),
    }
}

/// Returns the mean erase count of the good blocks of each die, by channel; 0 for a die without any.
fn die_mean_erases(device: &Device) -> Vec<Vec<f64>> {
    let map = device.block_map();
    let mean = |die: &[BlockView]| {
        let good = die.iter().filter(|view| view.usage != BlockUse::Bad);
        let (count, sum) = good.fold((0u64, 0u64), |(n, sum), view| (n + 1, sum + u64::from(view.erases)));
        sum as f64 / count.max(1) as f64
    };
    let dies: Vec<f64> = map.blocks.chunks(map.blocks_per_die as usize).map(mean).collect();
    dies.chunks(map.dies_per_channel as usize).map(<[f64]>::to_vec).collect()
}

/// Returns the sectors written by the application, and the sectors programmed by cause: to the drive, a host layer's own writes come from the host.
pub(super) fn whole_stack(counters: &Counters, host: Option<&HostUse>) -> (u64, [u64; Cause::COUNT]) {
    let Some(host) = host else { return (counters.host_written_sectors, counters.programmed_sectors) };
    let mut programmed = host.counters.programmed_sectors;
    for cause in Cause::ALL.into_iter().filter(|&cause| cause != Cause::Host) {
        programmed[cause as usize] += counters.programmed_sectors[cause as usize];
    }
    (host.counters.written_sectors, programmed)
}

/// Returns the memory of a drive's controller.
fn drive_memory(device: &Device) -> DriveMemory {
    let memory = device.controller_memory();
    DriveMemory {
        mapping_table_bytes: memory.of(Structure::MappingTable),
        block_tables_bytes: memory.of(Structure::BlockTables),
        chunk_tables_bytes: memory.of(Structure::ChunkTables),
        data_buffer_bytes: memory.of(Structure::DataBuffer),
    }
}

fn host_layer(host: &HostUse, simulated: Nanos) -> HostLayer {
    let seconds = host.cpu_busy.as_secs_f64();
    HostLayer {
        name: host.layer.into(),
        cpu_seconds: seconds,
        cpu_share: if simulated.0 > 0 { seconds / simulated.as_secs_f64() } else { 0.0 },
        memory_bytes: host.memory_bytes,
        commands: host.counters.commands,
        buffer_read_hits: host.counters.buffer_read_hits,
    }
}

fn utilisation(device: &Device, measured: &Measured) -> Utilisation {
    let share =
        |busy: u64| if measured.simulated.0 == 0 { 0.0 } else { busy as f64 / measured.simulated.0 as f64 };
    let per_channel = device.layout().dies_per_channel as usize;
    let config = device.config();
    let firmware: u64 = measured.firmware_busy.iter().sum();
    let link = config.host.link_bytes_per_second > 0 || config.host.dma_overhead_ns.0 > 0;
    Utilisation {
        channels: measured.channel_busy.iter().map(|&b| share(b)).collect(),
        dies: measured.die_busy.chunks(per_channel).map(|c| c.iter().map(|&b| share(b)).collect()).collect(),
        firmware: (firmware > 0).then(|| share(firmware) / f64::from(config.firmware.processors)),
        firmware_modules: (firmware > 0).then(|| FirmwareModules::new(&measured.firmware_busy)),
        link_to_host: link.then(|| share(measured.link_busy[1])),
        link_to_drive: link.then(|| share(measured.link_busy[0])),
        dma_unseen_ns: measured.counters.dma_unseen_ns,
    }
}

/// Describes the mapping of a drive without a block namespace.
fn without_blocks(device: &Device) -> String {
    let (config, layout) = (device.config(), device.layout());
    match (0..Flash::namespaces(device)).find_map(|number| Flash::interface(device, number)) {
        Some(Interface::Cache(cache)) => {
            let held = cache.units * u64::from(layout.unit_bytes);
            let map = config.ftl.map.summary(f64::from(layout.unit_bytes) / 1024.0, "silent eviction");
            format!("solid-state cache of {} MiB, {map}", held >> 20)
        }
        Some(Interface::Nameless(_)) => "nameless writes".into(),
        _ => "no map in the drive".into(),
    }
}

/// Describes a drive in one line: geometry, cell, policies.
pub fn summary(device: &Device) -> String {
    let (config, layout) = (device.config(), device.layout());
    let cell = match (config.media.cell, config.media.slc_mode) {
        (pellucid_media::Cell::Slc, _) => "SLC".to_string(),
        (cell, true) => format!("{} in SLC mode", format!("{cell:?}").to_uppercase()),
        (cell, false) => format!("{cell:?}").to_uppercase(),
    };
    let geometry = &config.media.geometry;
    let translation = if device.block_namespaces().next().is_some() {
        // Beside others, a block namespace has a part of each die.
        let all = config.block_namespaces().collect::<Vec<_>>();
        let blocks: u32 = all.iter().map(|blocks| blocks.len() as u32 - config.ftl.cache_blocks()).sum();
        let own_bytes = layout.with_blocks_per_die(blocks).media_bytes();
        let spare = own_bytes as f64 / device.capacity_bytes() as f64 - 1.0;
        let several = if all.len() > 1 { format!("{} namespaces, each ", all.len()) } else { String::new() };
        let unit = f64::from(layout.unit_bytes) / 1024.0;
        let cache = config.ftl.slc_cache.map_or(String::new(), |cache| {
            let bytes = layout.with_blocks_per_die(cache.blocks).media_bytes() / u64::from(cache.bits);
            format!(", SLC cache of {} MiB", bytes >> 20)
        });
        let map = config.ftl.map.summary(unit, &config.ftl.victim_name());
        format!("{several}{map}, {:.1} % over-provisioning{cache}", spare * 100.0)
    } else {
        without_blocks(device)
    };
    format!(
        "{} ch x {} ways{}, {cell}, {} KiB pages, {translation}",
        geometry.channels,
        geometry.ways,
        if geometry.dies > 1 { format!(" x {} dies", geometry.dies) } else { String::new() },
        f64::from(geometry.page_bytes) / 1024.0,
    )
}
