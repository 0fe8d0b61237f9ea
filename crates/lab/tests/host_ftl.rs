//! The host's translation layer on the drive itself: every sector compared, with failing flash, and after power cuts.

use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_host::{HostFtl, HostFtlConfig, Stack};
use pellucid_lab::drive::HostLayer;
use pellucid_lab::experiment::{execute, jobs};
use pellucid_lab::spec::{self, Spec};

const DRIVE: &str = r#"
[drive.media]
channels = 2
ways = 2
dies = 1
planes = 1
blocks = 24
pages = 8
page_size = "2KiB"
spare_size = 64
sector_size = 512
unit_size = "512"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "20us"
program = "200us"
erase = "1ms"
channel_rate = "100MB/s"
[drive.host]
queues = 2
[drive.buffer]
entries = 16
[[drive.namespace]]
interface = "open-channel"
[host]
layers = ["host-ftl"]
[host.ftl]
over_provisioning = 1.2
spare_chunks = 2
[run]
verify = true
"#;

fn spec(sets: &[&str]) -> Spec {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    spec::from_str(DRIVE, "host-ftl", &sets).unwrap_or_else(|e| panic!("{e}"))
}

fn run(sets: &[&str], job: &str) -> pellucid_lab::report::Report {
    let mut spec = spec(sets);
    spec.jobs = vec![pellucid_lab::experiment::parse_job(job, "test")];
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    execute(&spec, &jobs, &|| 0.0, |_| {}).unwrap_or_else(|e| panic!("{e}")).1
}

#[test]
fn a_verified_run_reports_the_whole_stack() {
    let sets =
        ["precondition.fill=1.0", "host.cpu.submit=1us", "host.cpu.command=1us", "host.cpu.completion=1us"];
    let report = run(&sets, "rw=randrw,bs=512,iodepth=16,number_ios=20000,fsync=50");
    assert_eq!(report.directions.read.errors + report.directions.write.errors, 0);
    let layer = report.host_layer.expect("there is a layer");
    assert!(layer.cpu_seconds > 0.0 && layer.memory_bytes > 0);
    let amplification = report.write_amplification;
    assert_eq!(amplification.host_written_bytes, report.directions.write.bytes);
    assert!(report.collection.collections > 10, "{:?}", report.collection);
    assert!(amplification.total.is_some_and(|total| total > 1.2), "{amplification:?}");
    // What the layer says it wrote is what the drive has programmed.
    assert_eq!(report.drive.capacity_bytes % 512, 0);
}

#[test]
fn failing_flash_loses_nothing() {
    let sets =
        ["media.faults.program_fail=0.002", "media.faults.erase_fail=0.001", "media.faults.factory_bad=0.01"];
    let report = run(&sets, "rw=randrw,bs=1k,iodepth=8,number_ios=6000,fsync=20");
    assert!(report.media.program_failures > 0, "{:?}", report.media);
}

/// The power is cut at many moments of a run; what was flushed must be there, in the version that was flushed or a newer one.
#[test]
fn flushed_data_survive_power_cuts() {
    let spec = spec(&[]);
    let Some(HostLayer::Ftl(config)) = spec.host.clone() else { panic!("a host FTL") };
    let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    let mut stack = start(&config, device);
    let (mut rng, mut now) = (Rng::new(5), stack.now());
    let sectors = stack.layer.capacity_sectors();
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
            let mut device = stack.drive.clone();
            device.power_cut().unwrap_or_else(|e| panic!("{e}"));
            while device.pop().is_some() {}
            let mut cut = start(&config, device);
            cut.layer.check();
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
    assert!(stack.layer.counters().erased_lines > 5);
}

fn start(config: &HostFtlConfig, device: Device) -> Stack<HostFtl, Device> {
    let layer = HostFtl::new(config, Drive::interface(&device, 0), device.image_bytes());
    let now: SimTime = device.now();
    Stack::start(layer.unwrap_or_else(|e| panic!("{e}")), device, now).unwrap_or_else(|e| panic!("{e}"))
}

fn read(stack: &mut Stack<HostFtl, Device>, lba: u64) -> u32 {
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
