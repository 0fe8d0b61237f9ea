//! The host's translation on the drive itself, above chunks and above zones: every sector compared, with failing flash, and after
//! power cuts.

use crate::small::of_chunks;
use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Opcode, Rng, Status};
use pellucid_host::{LayerConfig, Tower};
use pellucid_lab::drive::{Target, TimedDrive, Unwatched, put_on};
use pellucid_lab::experiment::{execute, jobs};
use pellucid_spec::Spec;

/// The small drive, with a translation of the host above it.
fn drive() -> String {
    let above = "[drive.host]\nqueues = 2\n[drive.buffer]\nentries = 16\n[host]\nlayers = [\"host-ftl\"]\n[host.ftl]\nover_provisioning = 1.2\n\
         spare_chunks = 2\n[run]\nverify = true\n";
    of_chunks() + above
}

/// Overrides for a zoned drive with a log above.
const ZONES: [&str; 6] = [
    r#"drive.namespace=[{ interface = "zoned", dies_per_zone = 2, spare_blocks = 2, active_max = 8 }]"#,
    r#"host.layers=["zone-log"]"#,
    "host.zone_log.width=2",
    "host.zone_log.batch=8",
    "media.pages=16",
    "host.ftl.buffer=64",
];

fn on_zones<'a>(sets: &[&'a str]) -> Vec<&'a str> {
    ZONES.iter().chain(sets).copied().collect()
}

fn spec(sets: &[&str]) -> Spec {
    spec_of(&drive(), sets)
}

fn spec_of(text: &str, sets: &[&str]) -> Spec {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    pellucid_spec::from_str(text, "host-ftl", &sets).unwrap_or_else(|e| panic!("{e}"))
}

fn run(sets: &[&str], job: &str) -> pellucid_report::Report {
    run_on(&drive(), sets, job)
}

fn run_on(text: &str, sets: &[&str], job: &str) -> pellucid_report::Report {
    let mut spec = spec_of(text, sets);
    spec.jobs = vec![pellucid_lab::experiment::parse_job(job, "test")];
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}")).1
}

#[test]
fn a_verified_run_reports_the_whole_stack() {
    let sets =
        ["precondition.fill=1.0", "host.cpu.submit=1us", "host.cpu.command=1us", "host.cpu.completion=1us"];
    for (name, sets) in [("host-ftl", sets.to_vec()), ("zone-log", on_zones(&sets))] {
        let report = run(&sets, "rw=randrw,bs=512,iodepth=16,number_ios=20000,fsync=50");
        assert_eq!(report.directions.read.errors + report.directions.write.errors, 0);
        let layer = report.host_layer.expect("there is a layer");
        assert_eq!(layer.name, name);
        assert!(layer.cpu_seconds > 0.0 && layer.memory_bytes > 0);
        let amplification = report.write_amplification;
        assert_eq!(amplification.host_written_bytes, report.directions.write.bytes);
        assert!(report.gc.victims > 10, "{:?}", report.gc);
        let pauses = &report.gc.pauses;
        assert!(pauses.count > 10 && pauses.count <= report.gc.victims + 4, "{:?}", report.gc);
        assert!(pauses.p50_ns > Some(100_000) && pauses.mean_ns.is_some(), "{pauses:?}");
        assert!(amplification.total.is_some_and(|total| total > 1.2), "{amplification:?}");
        assert_eq!(report.drive.capacity_bytes % 512, 0);
    }
}

/// The layers count as written exactly what the drive has programmed, whether it keeps data or stamps.
#[test]
fn what_a_zone_log_writes_is_what_the_drive_programs() {
    for store in ["media.store=ram", "media.store=none"] {
        let mut spec = spec(&on_zones(&[store, "precondition.fill=1.0"]));
        spec.jobs =
            vec![pellucid_lab::experiment::parse_job("rw=randrw,bs=512,iodepth=8,number_ios=9000", "test")];
        let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
        let (device, report) =
            execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
        assert!(report.gc.copied_units > 1000, "{:?}", report.gc);
        let counters = device.counters();
        // Whole batches are whole superpages: nothing goes by the staging log.
        assert_eq!(counters.programs[pellucid_flash::Cause::Journal as usize], 0);
        assert_eq!(counters.programmed_sectors[pellucid_flash::Cause::Padding as usize], 0);
    }
}

#[test]
fn failing_flash_loses_nothing() {
    let sets =
        ["media.faults.program_fail=0.002", "media.faults.erase_fail=0.001", "media.faults.factory_bad=0.01"];
    for sets in [sets.to_vec(), on_zones(&sets)] {
        let report = run(&sets, "rw=randrw,bs=1k,iodepth=8,number_ios=6000,fsync=20");
        assert!(report.media.program_failures > 0, "{:?}", report.media);
    }
}

/// The power is cut at many moments of a run; what was flushed must be there, in the version that was flushed or a newer one.
fn survive_power_cuts(spec: &Spec) {
    let layer = &spec.host;
    let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    let mut stack = start(layer, device);
    let (mut rng, mut now) = (Rng::new(5), stack.now());
    let sectors = stack.capacity_bytes() / 512;
    let (mut newest, mut durable) = (vec![0u32; sectors as usize], vec![0u32; sectors as usize]);
    let mut acknowledged = newest.clone();
    let mut places = vec![0; 6000];
    let mut flushed: Option<Vec<u32>> = None;
    for round in 1..6000u32 {
        if rng.chance(0.02) && flushed.is_none() {
            flushed = Some(acknowledged.clone());
            stack.submit(now, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        } else {
            let lba = rng.below(sectors);
            newest[lba as usize] = round;
            places[round as usize] = lba as usize;
            let data = round.to_le_bytes().repeat(128);
            stack.submit(now, Command::new(round.into(), Opcode::Write, Lba(lba), 1, data));
        }
        now = stack.next_event().unwrap_or(now);
        stack.advance(now);
        while let Some(completion) = stack.pop() {
            assert_eq!(completion.status, Status::Success);
            if completion.opcode == Opcode::Flush {
                durable = flushed.take().expect("one flush at a time");
            } else {
                let slot = &mut acknowledged[places[completion.tag as usize]];
                *slot = (*slot).max(completion.tag as u32);
            }
        }
        if round % 61 == 0 {
            let mut device = stack.bottom().clone();
            device.power_cut().unwrap_or_else(|e| panic!("{e}"));
            while device.pop().is_some() {}
            let mut cut = start(layer, device);
            for lba in 0..sectors {
                let found = read(&mut cut, lba);
                let (oldest, newest) = (durable[lba as usize], newest[lba as usize]);
                assert!(
                    (oldest..=newest).contains(&found),
                    "sector {lba}: {found}, allowed {oldest} to {newest}"
                );
            }
        }
    }
    assert!(stack.host().is_some_and(|host| host.counters.erased_lines > 5));
}

#[test]
fn flushed_data_survive_power_cuts() {
    survive_power_cuts(&spec(&[]));
}

#[test]
fn flushed_data_survive_power_cuts_on_zones() {
    survive_power_cuts(&spec(&on_zones(&[])));
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn flushed_data_survive_power_cuts_on_zones_with_a_protected_buffer() {
    let zones = r#"drive.namespace=[{ interface = "zoned", dies_per_zone = 2, spare_blocks = 2, buffer = "protected", active_max = 8 }]"#;
    survive_power_cuts(&spec(&on_zones(&[zones])));
}

#[test]
fn a_zone_log_needs_zones_and_their_contents() {
    let start = |sets: &[&str]| {
        let spec = spec(sets);
        let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
        put_on(&spec.host, device)
    };
    let error = start(&[r#"host.layers=["zone-log"]"#]).expect_err("chunks are no zones");
    assert_eq!(error, "namespace 0 is not a zoned one; a zone log needs zones");
    let error = start(&on_zones(&["host.ftl.namespace=1"])).expect_err("no such namespace");
    assert_eq!(error, "namespace 1 is not a zoned one; a zone log needs zones");
    let error = start(&on_zones(&["host.zone_log.width=3"])).expect_err("too many active zones");
    assert!(error.starts_with("host.zone_log.width = 3: allowed: 1 to 2, "), "{error}");
    // A drive that keeps stamps has lost the log's records.
    let mut stack = start(&on_zones(&["media.store=none"])).unwrap_or_else(|e| panic!("{e}"));
    stack.submit(stack.now(), Command { fua: true, ..Command::new(1, Opcode::Write, Lba(0), 1, vec![1; 4]) });
    while stack.pop().is_none() {
        let next = stack.next_event().expect("a write ends");
        stack.advance(next);
    }
    let spec = spec(&on_zones(&["media.store=none"]));
    let again = put_on(&spec.host, stack.into_bottom());
    assert!(again.expect_err("stamps").starts_with("the drive keeps stamps instead of data"));
}

fn start(layers: &[LayerConfig], device: Device) -> Tower<Device> {
    put_on(layers, device).unwrap_or_else(|e| panic!("{e}"))
}

fn read(stack: &mut Tower<Device>, lba: u64) -> u32 {
    stack.submit(stack.now(), Command::new(9, Opcode::Read, Lba(lba), 1, vec![0; 512]));
    loop {
        if let Some(completion) = stack.pop() {
            assert_eq!(completion.status, Status::Success, "read of sector {lba}");
            return u32::from_le_bytes(completion.data[..4].try_into().expect("4 bytes"));
        }
        let next = stack.next_event().expect("a read ends");
        stack.advance(next);
    }
}

/// Sectors that the drive holds back of its open chunks (`mw_cunits`) come from the write buffer.
#[test]
fn a_drive_that_holds_sectors_back_is_served_from_the_buffer() {
    let text = drive().replace("interface = \"open-channel\"", "interface = \"open-channel\"\ncached = 3");
    let report =
        run_on(&text, &["precondition.fill=1.0"], "rw=randrw,bs=512,iodepth=16,number_ios=20000,fsync=50");
    assert_eq!(report.directions.read.errors + report.directions.write.errors, 0);
    assert!(report.gc.victims > 10, "{:?}", report.gc);
    assert!(report.host_layer.expect("there is a layer").buffer_read_hits > 0);
}

/// Drives of a few short lines, where whole superpages, of data as of translation pages, weigh most.
const SHORT: [(&str, &str); 4] = [
    ("a zone of four batches", "layers = [\"zone-log\"]\n"),
    ("the same apart", "layers = [\"zone-log\"]\n[host.ftl]\nseparation = \"gc-copies\"\n"),
    ("small sectors, many translation pages", "layers = [\"host-ftl\"]\n"),
    ("the same without trims", "layers = [\"host-ftl\"]\n[host.ftl]\ndurability = \"volatile\"\n"),
];

fn short(host: &str, over_provisioning: f64) -> Spec {
    let (media, interface) = match host.contains("zone-log") {
        true => ("channels = 2\nways = 2\nblocks = 96\npages = 32", "zoned"),
        false => ("channels = 1\nways = 1\nblocks = 48\npages = 64\nsector_size = 512", "open-channel"),
    };
    let timing = "read = \"50us\"\nprogram = \"500us\"\nerase = \"3ms\"\nchannel_rate = \"400MB/s\"";
    let text = format!(
        "[drive.media]\n{media}\npage_size = 8192\nspare_size = 256\ncell = \"slc\"\n[drive.media.timing]\n{timing}\n\
         [[drive.namespace]]\ninterface = \"{interface}\"\n[host]\n{host}[precondition]\nfill = 1.0\n"
    );
    spec_of(&text, &[&format!("host.ftl.over_provisioning={over_provisioning}")])
}

/// The least over-provisioning that is accepted is enough for whatever is written; less is refused.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn what_is_accepted_can_be_written_for_ever() {
    let refused = |spec: &Spec| {
        let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
        put_on(&spec.host, device).err()
    };
    for (name, host) in SHORT {
        let usual = refused(&short(host, 0.11));
        let usual = usual.unwrap_or_else(|| panic!("{name}: the usual 11 % are not enough"));
        assert!(usual.starts_with("host.ftl.over_provisioning: "), "{name}: {usual}");
        let least =
            (6..200).map(|step| f64::from(step) * 0.02).find(|&op| refused(&short(host, op)).is_none());
        let least = least.unwrap_or_else(|| panic!("{name}: nothing is accepted"));
        for job in
            ["bs=16k,number_ios=8000", "bs=4k,fsync=8,number_ios=8000", "bs=4k,fsync=1,number_ios=4000"]
        {
            let mut spec = short(host, least);
            spec.jobs = vec![pellucid_lab::experiment::parse_job(&format!("rw=randwrite,{job}"), "test")];
            let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
            let (_, report) =
                execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(report.directions.write.errors, 0, "{name}, {job}, {least} over-provisioned");
        }
    }
}
