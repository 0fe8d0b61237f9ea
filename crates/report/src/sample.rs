//! A report with invented but plausible data, for the tests of the renderers: eight channels of eight ways, two minutes of mixed traffic, GC from the
//! first third on.

use super::*;
use pellucid_flash::{Cause, Completion, Nanos, Opcode, Pauses, Rng, SimTime, Stage, StageTimes, Status};

const SECONDS: u64 = 120;

/// Splits a request's latency over the stages in the given shares; the rest is media time.
fn stages(latency_ns: u64, shares: &[(Stage, f64)]) -> StageTimes {
    let mut stages = StageTimes::default();
    for (stage, share) in shares {
        stages.add(*stage, Nanos((latency_ns as f64 * share) as u64));
    }
    let rest = latency_ns - stages.total().0;
    stages.add(Stage::Media, Nanos(rest));
    stages
}

fn latency_ns(rng: &mut Rng, typical_ns: f64, collecting: bool) -> u64 {
    let normal: f64 = (0..12).map(|_| rng.unit_f64()).sum::<f64>() - 6.0;
    let stall = if collecting && rng.chance(0.02) { 8.0 + 60.0 * rng.unit_f64().powi(4) } else { 1.0 };
    (typical_ns * (0.28 * normal).exp() * stall) as u64 + 6_000
}

fn request(rng: &mut Rng, at: SimTime, collecting: bool) -> (Completion, u64) {
    let (opcode, sectors, typical_ns, shares): (_, u64, f64, &[_]) = if rng.chance(0.55) {
        let shares = &[
            (Stage::Queue, 0.01),
            (Stage::HostLink, 0.09),
            (Stage::Firmware, 0.03),
            (Stage::WaitWay, 0.10),
            (Stage::WaitChannel, 0.06),
            (Stage::Transfer, 0.34),
        ];
        (Opcode::Read, 8 << rng.below(4), 210_000.0, shares)
    } else {
        let shares = &[(Stage::HostLink, 0.31), (Stage::Firmware, 0.22), (Stage::Buffer, 0.33)];
        (Opcode::Write, 8 << rng.below(6), 31_000.0, shares)
    };
    let latency_ns = latency_ns(rng, typical_ns, collecting);
    let completion = Completion {
        tag: 0,
        opcode,
        status: if rng.chance(0.000_02) { Status::UnrecoveredRead } else { Status::Success },
        submitted: SimTime(at.0.saturating_sub(latency_ns)),
        completed: at,
        stages: stages(at.0.min(latency_ns), shares),
        data: Vec::new(),
        result: 0,
        unmapped: 0,
        vector: None,
    };
    (completion, sectors * 512)
}

fn recorded() -> (Requests, Series) {
    let mut rng = Rng::new(42);
    let mut requests = RequestRecorder::new();
    let busy = |of: usize| vec![0; of];
    let first = Sample {
        free_blocks: 8_100,
        cache_used_blocks: Some(12),
        channel_busy_ns: busy(8),
        die_busy_ns: busy(64),
        ..Sample::default()
    };
    let mut series = TimeSeries::new(SimTime::ZERO, first.clone());
    let mut counters = first.clone();
    let mut at = SimTime(1_000_000);
    while at.0 < SECONDS * 1_000_000_000 {
        if at >= series.sample_due() {
            series.sample(at, counters.clone());
        }
        let collecting = at.as_secs_f64() > 40.0;
        let (completion, bytes) = request(&mut rng, at, collecting);
        requests.record(&completion, bytes);
        let is_write = completion.opcode == Opcode::Write;
        series.complete(
            at,
            is_write,
            bytes,
            completion.completed - completion.submitted,
            completion.stages.get(Stage::Buffer),
        );
        if is_write {
            counters.host_written_bytes += bytes;
            counters.programmed_host_bytes += bytes;
            counters.programmed_other_bytes += bytes / if collecting { 1 } else { 3 };
            counters.free_blocks = if collecting { 180 + rng.below(60) } else { 8_100 - at.0 / 5_050_000 };
        }
        if collecting && is_write {
            counters.victims += 1;
            counters.victim_units += 256;
            counters.victim_valid_units += 90;
        }
        let busy = if collecting { 5 } else { 3 };
        counters.channel_busy_ns.iter_mut().for_each(|ns| *ns += busy * 50_000);
        counters.die_busy_ns.iter_mut().for_each(|ns| *ns += busy * 65_625);
        at += Nanos(
            300_000
                + rng.below(1_100_000)
                + if (at.0 / 15_000_000_000).is_multiple_of(2) { 0 } else { 600_000 },
        );
    }
    let end = SimTime(SECONDS * 1_000_000_000);
    series.sample(end, counters);
    (requests.finish(Nanos(end.0)), series.finish(end, 8, 64))
}

fn causes<T: Default>(entries: impl IntoIterator<Item = (Cause, T)>) -> ByCause<T> {
    let mut table = ByCause::default();
    for (cause, value) in entries {
        table[cause] = value;
    }
    table
}

pub(crate) fn report() -> Report {
    let (Requests { directions, reads, .. }, series) = recorded();
    let written = directions.write.bytes;
    let share = |share: f64| (written as f64 * share) as u64;
    let programmed = causes([
        (Cause::Host, share(0.98)),
        (Cause::ReadModifyWrite, share(0.31)),
        (Cause::Gc, share(0.52)),
        (Cause::WearLevel, share(0.03)),
        (Cause::Journal, share(0.01)),
        (Cause::Padding, share(0.02)),
    ]);
    let mut rng = Rng::new(1);
    let erases: Vec<u32> =
        (0..8_180).map(|_| 40 + (0..8).map(|_| rng.below(9) as u32).sum::<u32>()).collect();
    let mut die = |channel: u64| 0.35 + 0.06 * channel as f64 + 0.2 * rng.unit_f64();
    let dies: Vec<Vec<f64>> = (0..8).map(|channel| (0..8).map(|_| die(channel % 5)).collect()).collect();
    let requests = directions.requests();
    Report {
        version: Version::default(),
        drive: Drive {
            name: "cosmos-plus".into(),
            summary: "8 ch x 8 ways, MLC, 16 KiB pages, page map, greedy victims, \
                 10 % over-provisioning, write-back"
                .into(),
            capacity_bytes: 240_000_000_000,
            media_bytes: 274_877_906_944,
            sector_bytes: 512,
            memory_bytes: 82_000_000,
            memory: DriveMemory {
                mapping_table_bytes: 64_000_000,
                block_tables_bytes: 1_000_000,
                chunk_tables_bytes: 0,
                data_buffer_bytes: 17_000_000,
            },
        },
        workload: Workload {
            summary: "randrw 55 % reads <mixed sizes> & a think time, 120 s".into(),
            command_line: "pellucid run examples/mixed.toml --seed 42".into(),
            precondition: "100 % filled, overwritten until steady".into(),
        },
        seeds: BTreeMap::from([("ftl".into(), 3), ("media".into(), 2), ("workload".into(), 42)]),
        provenance: None,
        partial: false,
        verified_reads: None,
        steady_state: None,
        overrides: BTreeMap::from([("drive.ftl.victim".into(), "fifo".into())]),
        warnings: vec!["an invented sentence with <signs> & more".into()],
        requests,
        simulated_seconds: SECONDS as f64,
        host: Some(HostCost::new(requests, 0.41, Some(61_000_000))),
        directions,
        reads,
        jobs: Vec::new(),
        groups: Vec::new(),
        write_amplification: OfFlash::from(WriteAmplification {
            programs: programmed.map(|bytes| bytes / 16_384),
            flash_reads: causes([
                (Cause::Host, 71_204),
                (Cause::ReadModifyWrite, 20_113),
                (Cause::Gc, 33_870),
            ]),
            copybacks: 1_204,
            ..WriteAmplification::new(written, programmed)
        }),
        gc: OfFlash::from(GcSummary {
            victims: 1_190,
            emergency_victims: 0,
            erased_blocks: causes([(Cause::Gc, 1_190), (Cause::WearLevel, 14)]),
            victim_valid_share: Some(0.348),
            copied_units: 106_000,
            pauses: {
                let mut pauses = Pauses::default();
                (0..1_190).for_each(|at| pauses.record(Nanos(2_000_000 + at * at * 20), SimTime(at)));
                GcPauses::new(&pauses)
            },
        }),
        wear: OfFlash::from(Wear {
            blocks: 8_192,
            free_blocks: 211,
            bad_blocks_factory: 10,
            bad_blocks_grown: 2,
            read_only: false,
            erases: EraseCounts::of(&erases),
            histogram: WearHistogram::of(&erases),
            die_mean_erases: vec![vec![12.5; 8]; 8],
        }),
        mount: Some(Mount {
            duration_ns: 412_000_000,
            scanned_superpages: 9_120,
            journal_superpages: 37,
            mapped_units: 1_200_450,
        }),
        media: OfFlash::from(MediaHealth {
            read_retries: 91,
            corrected_reads: 84,
            uncorrectable_reads: 2,
            corrected_bits: 70_312,
            miscorrected_chunks: 0,
            damaged_reads: 0,
            chunks_by_wrong_bits: vec![1_804_221, 61_200, 4_106, 300, 8, 2],
            refreshed_blocks: 5,
            retired_blocks: 3,
            program_failures: 2,
            erase_failures: 0,
            suspensions: 0,
        }),
        utilisation: Utilisation {
            channels: (0..8).map(|channel| 0.30 + 0.05 * f64::from(channel % 5)).collect(),
            dies,
            firmware: Some(0.22),
            firmware_modules: Some(FirmwareModules::new(&[10, 5, 8, 6, 4, 2, 5, 20, 30, 10, 0])),
            link_to_host: Some(0.31),
            link_to_drive: None,
            dma_unseen_ns: 0,
        },
        map_cache: None,
        merges: None,
        slc_cache: None,
        namespaces: Vec::new(),
        targets: Vec::new(),
        host_layer: None,
        replay: None,
        files: None,
        applications: Vec::new(),
        parts: Vec::new(),
        series,
        film: None,
        timeline: None,
    }
}
