//! Probes are a side band: on or off, the drive does the same; and what they note agrees with what the drive counts.

use pellucid_device::{CommandKind, Counters, Device, Filler, OperationKind, Snapshot};
use pellucid_flash::{Command, DieId, Lba, Lpn, Nanos, Opcode, Rng, Stage};
use pellucid_lab::drive::{Onlooker, Progress};
use pellucid_lab::experiment;
use pellucid_media::Fault;
use pellucid_report::Report;
use pellucid_spec::Spec;
use pellucid_testing::swarm;
use pellucid_testing::swarm::{TINY, random_sets};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const JOB: &str = r#"
[[job]]
rw = "randrw"
bs = "4k"
iodepth = 8
number_ios = 4000
"#;

struct Watch(bool);

impl Onlooker for Watch {
    fn watches(&self) -> bool {
        self.0
    }

    fn look(&mut self, device: Option<&Device>, _: Progress) -> ControlFlow<()> {
        std::hint::black_box(device.map(Device::snapshot));
        ControlFlow::Continue(())
    }
}

fn run(spec: &Spec, watch: bool) -> (Device, Report) {
    let jobs = experiment::jobs(spec).unwrap_or_else(|e| panic!("{e}"));
    experiment::execute(spec, &jobs, &|| 0.0, &mut Watch(watch)).unwrap_or_else(|e| panic!("{e}"))
}

fn tiny(seed: u64) -> Spec {
    let sets = random_sets(&mut Rng::stream(seed, "drive"));
    pellucid_spec::from_str(&format!("{TINY}{JOB}"), "tiny", &sets)
        .unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

fn preset(name: &str, sets: &[&str], job: &str) -> Spec {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let text = format!("[drive]\npreset = \"{name}\"\n[[job]]\n{job}");
    pellucid_spec::from_str(&text, name, &sets).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A firmware loop, and a drive that suspends programs for reads.
fn presets() -> [Spec; 2] {
    let job = "rw = \"randrw\"\nbs = \"4k\"\niodepth = 32\nsize = \"64m\"\nnumber_ios = 20000";
    [preset("cosmos-plus", &[], job), preset("datacenter-tlc", &["scheduler.suspend=true"], job)]
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_watched_drive_gives_the_same_report_bit_for_bit() {
    for (i, spec) in (0..30).map(tiny).chain(presets()).enumerate() {
        let ((plain, report), (watched, other)) = (run(&spec, false), run(&spec, true));
        assert!(watched.is_watched() && !plain.is_watched());
        assert!(report.to_json(false) == other.to_json(false), "drive {i}: the reports differ");
        // A large drive's state is too long a text.
        if plain.layout().units < 1 << 12 {
            let mut watched = watched;
            watched.unwatch();
            assert!(format!("{plain:?}") == format!("{watched:?}"), "drive {i}: the states differ");
        }
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn taps_agree_with_counters_and_report() {
    let mut suspensions = 0;
    for (i, spec) in (0..30).map(tiny).chain(presets()).enumerate() {
        let (device, report) = run(&spec, true);
        let snapshot = device.snapshot();
        commands_agree(&snapshot, &report, i);
        operations_agree(&snapshot, i);
        times_agree(&snapshot, i);
        firmware_agrees(&snapshot, &report, i);
        let mut blocks = BTreeMap::new();
        device.erase_counts().for_each(|erases| *blocks.entry(erases).or_default() += 1);
        suspensions += snapshot.counters.suspensions;
        assert_eq!(snapshot.probes.map(|t| t.blocks_by_erases), Some(blocks), "drive {i}: wear");
    }
    assert!(suspensions > 0, "no drive has suspended anything");
}

/// Counters count from when the drive was made; monitors take one that falls for a drive made anew.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_power_cut_takes_nothing_off_the_counters() {
    let mut moved = 0;
    for (i, spec) in (0..10).map(tiny).chain(presets()).enumerate() {
        let (mut device, _) = run(&spec, false);
        let (counters, decided, bad) = (device.counters(), device.ftl_counters(), device.bad_blocks());
        let busy = (device.busy().channels().to_vec(), device.busy().dies().to_vec(), device.busy().link());
        device.power_cut().unwrap_or_else(|e| panic!("drive {i}: {e}"));
        assert_eq!(device.counters(), Counters { power_cuts: 1, ..counters }, "drive {i}");
        assert_eq!(device.ftl_counters(), decided, "drive {i}");
        assert_eq!(device.bad_blocks(), bad, "drive {i}");
        let after = (device.busy().channels().to_vec(), device.busy().dies().to_vec(), device.busy().link());
        assert_eq!(after, busy, "drive {i}");
        moved += decided.copied_units;
    }
    assert!(moved > 0, "no drive has collected anything");
}

/// Memory for wear grows with the number of blocks, not with erase counts.
#[test]
fn worn_blocks_take_no_more_room_than_new_ones() {
    let job = "rw = \"randwrite\"\nbs = \"16k\"\nnumber_ios = 100";
    let spec = preset("cosmos-plus", &["media.cycles=10000000"], job);
    let (device, _) = run(&spec, true);
    let probes = device.snapshot().probes.expect("watched");
    let blocks = device.layout().blocks;
    assert_eq!(probes.blocks_by_erases.into_iter().collect::<Vec<_>>(), [(10_000_000, blocks)]);
}

/// Ways of one speed each, with one operation at a time: what a way says of its operations is that way's time, to an eighth.
#[test]
fn every_way_has_quantiles_of_its_own() {
    let sets =
        ["media.channels=4", "scheduler.read_retries=0", "buffer.retain=false", "ftl.over_provisioning=0.8"];
    let mut device = Device::new(&swarm::tiny(&sets.map(String::from))).unwrap();
    device.watch();
    for die in 0..4 {
        let slow = Fault::SlowDie { die: DieId(die), factor: f64::from(1 + die) };
        device.inject(device.now(), slow).unwrap();
    }
    let image = vec![7; 4 * device.image_bytes()];
    let mut filler = Filler::default();
    (0..64).for_each(|unit| device.fill_unit(&mut filler, Lpn(unit), &image).unwrap());
    for unit in 0..64 {
        device.submit(device.now(), Command::new(0, Opcode::Read, Lba(4 * unit), 4, Vec::new()));
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        assert!(device.pop().is_some());
    }
    let snapshot = device.snapshot();
    let probes = snapshot.probes.as_ref().unwrap();
    for (die, way) in probes.ways.iter().enumerate() {
        assert_eq!(way.operations[OperationKind::Read as usize], 16);
        let [p50, p99] =
            [0.5, 0.99].map(|share| way.latency[OperationKind::Read as usize].quantile(share).unwrap());
        let bounds = way.longest_ns..=way.longest_ns * 9 / 8;
        assert!(bounds.contains(&p50) && bounds.contains(&p99), "way {die}: {p50} {p99} {bounds:?}");
        assert!((50_000 * (die as u64 + 1)..50_000 * (die as u64 + 2)).contains(&way.longest_ns));
        assert_eq!(way.latency[OperationKind::Erase as usize].quantile(0.5), None);
    }
}

fn commands_agree(snapshot: &Snapshot, report: &Report, i: usize) {
    let probes = snapshot.probes.as_ref().expect("watched");
    for (kind, direction) in
        [(CommandKind::Read, &report.directions.read), (CommandKind::Write, &report.directions.write)]
    {
        let at = kind as usize;
        assert_eq!(probes.commands[at].total(), direction.requests, "drive {i}: {kind:?}");
        assert_eq!(probes.failed[at], direction.errors, "drive {i}: failed {kind:?}");
        let latency: u128 = Stage::ALL.iter().map(|&s| probes.stages[at][s as usize].sum()).sum();
        assert_eq!(latency, probes.commands[at].sum(), "drive {i}: stages of {kind:?}");
    }
}

fn firmware_agrees(snapshot: &Snapshot, report: &Report, i: usize) {
    let busy_ns: u64 = snapshot.firmware_busy.iter().map(|time| time.0).sum();
    let utilisation = &report.utilisation;
    assert_eq!(utilisation.firmware.is_some(), busy_ns > 0, "drive {i}");
    let Some(modules) = &utilisation.firmware_modules else { return assert_eq!(busy_ns, 0, "drive {i}") };
    let shares: f64 = modules.named().iter().map(|(_, share)| share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "drive {i}: {shares}");
    // The report ends with the last completion; the drive then comes to rest.
    let measured_ns = utilisation.firmware.unwrap_or_default() * report.simulated_seconds * 1e9;
    assert!(measured_ns > 0.0 && measured_ns < busy_ns as f64 + 1.0, "drive {i}: {measured_ns} {busy_ns}");
    for ((name, share), time) in modules.named().into_iter().zip(snapshot.firmware_busy) {
        assert!(share == 0.0 || time > Nanos::ZERO, "drive {i}: {name} {share}");
    }
}

fn operations_agree(snapshot: &Snapshot, i: usize) {
    let (probes, counters) = (snapshot.probes.as_ref().expect("watched"), &snapshot.counters);
    let ended = |kind: OperationKind| probes.ways.iter().map(|w| w.operations[kind as usize]).sum::<u64>();
    let erases: u64 = counters.erases.iter().sum();
    assert_eq!(ended(OperationKind::Erase), erases + counters.erase_failures, "drive {i}: erases");
    let reads: u64 = counters.reads.iter().sum();
    assert_eq!(ended(OperationKind::Read), reads, "drive {i}: reads");
    let array = |kind: OperationKind| &probes.operations[kind as usize];
    for kind in OperationKind::ALL {
        let histograms: u128 = array(kind).iter().map(|h| h.sum()).sum();
        let ways: u64 = probes.ways.iter().flat_map(|w| w.time_ns[kind as usize]).sum();
        assert_eq!(histograms, u128::from(ways), "drive {i}: time of {}", kind.name());
    }
}

fn times_agree(snapshot: &Snapshot, i: usize) {
    let probes = snapshot.probes.as_ref().expect("watched");
    let weighted = |times: &[u64]| times.iter().enumerate().map(|(n, ns)| n as u64 * ns).sum::<u64>();
    let elapsed = snapshot.at.0 - probes.since.0;
    for times in [&probes.active_ways_ns, &probes.active_channels_ns] {
        assert_eq!(times.iter().sum::<u64>(), elapsed, "drive {i}: time");
    }
    assert_eq!(probes.outstanding_ns.total(), elapsed, "drive {i}: outstanding");
    let ways: u64 = snapshot.ways.iter().map(|w| w.busy.0).sum();
    assert_eq!(weighted(&probes.active_ways_ns), ways, "drive {i}: busy ways");
    let channels: u64 = snapshot.channels.iter().map(|c| c.busy.0).sum();
    assert_eq!(weighted(&probes.active_channels_ns), channels, "drive {i}: busy channels");
}
