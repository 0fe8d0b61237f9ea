//! Parts of the Cosmos+ controller exchanged by configuration: each exchange has the effect that its mechanism predicts.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, SimTime};
use pellucid_lab::experiment::{execute, jobs};
use pellucid_lab::report::Report;
use pellucid_lab::spec;
use pellucid_lab::swarm::tiny;

/// A small Cosmos+ drive whose data lie in order.
const SMALL: &[&str] = &["media.blocks=16", "ftl.over_provisioning=0.3", "precondition.fill=1.0"];

/// Runs `job` (TOML, one table or more) on a changed Cosmos+ drive in SLC mode.
fn run(sets: &[&str], job: &str) -> Report {
    let text = format!("[drive]\npreset = \"cosmos-plus-slc\"\n{job}");
    let sets: Vec<String> = SMALL.iter().chain(sets).map(|set| set.to_string()).collect();
    let spec = spec::from_str(&text, "swap", &sets).unwrap_or_else(|e| panic!("{e}"));
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    execute(&spec, &jobs, &|| 0.0, |_| ()).unwrap_or_else(|e| panic!("{e}")).1
}

fn job(words: &str) -> String {
    let words = words.split(',').map(|word| word.split_once('=').unwrap());
    let lines = words.map(|(key, value)| format!("{key} = \"{value}\"\n"));
    format!("[[job]]\n{}", lines.collect::<String>())
}

fn read_rate(report: &Report) -> f64 {
    report.directions.read.throughput_bytes_per_second
}

fn read_mean_us(report: &Report) -> f64 {
    report.directions.read.latency.mean_ns.unwrap() / 1e3
}

/// Table 2 lets a trigger, which is short, go ahead of a transfer, which is long, so that dies sense while the channel
/// carries data. The other way round the next sense begins only when no data wait.
#[test]
fn another_priority_table_lets_dies_idle() {
    let reads = job("rw=read,bs=16k,iodepth=32,number_ios=8000");
    let published = run(&["media.ways=4"], &reads);
    let transfers_first = run(&["media.ways=4", "scheduler.priorities.read_transfer=0"], &reads);
    let ratio = read_rate(&transfers_first) / read_rate(&published);
    assert!(ratio < 0.95, "transfers first give {ratio:.3} of the throughput");
}

/// The queues of the first eight commands that end, when both queues are full and the controller works on one at a time.
fn order_of_queues(sets: &[&str]) -> Vec<u16> {
    let sets: Vec<String> =
        ["host.queues=2", "host.commands=1"].iter().chain(sets).map(|set| set.to_string()).collect();
    let mut device = Device::new(&tiny(&sets)).unwrap();
    for tag in 0..16 {
        let queue = (tag / 8) as u16;
        device.submit(
            SimTime::ZERO,
            Command { queue, ..Command::new(tag, Opcode::Read, Lba(0), 4, Vec::new()) },
        );
    }
    let mut queues = Vec::new();
    while queues.len() < 8 {
        match device.pop() {
            Some(completion) => queues.push((completion.tag / 8) as u16),
            None => device.advance(device.next_event().expect("commands in flight")),
        }
    }
    queues
}

#[test]
fn another_arbitration_shares_the_drive_differently() {
    let slow = "firmware.fetch.fixed=\"1us\"";
    for model in ["firmware.model=tasks", "firmware.model=loop"] {
        assert_eq!(order_of_queues(&[slow, model]), [0, 1, 0, 1, 0, 1, 0, 1], "{model}");
        let weights = ["host.arbitration=weighted", "host.weights=[3, 1]"];
        let weighted = order_of_queues(&[&[slow, model], &weights[..]].concat());
        assert_eq!(weighted, [0, 0, 0, 1, 0, 0, 0, 1], "{model}");
    }
}

/// Way first, a request of 128 KiB lies on the eight ways of one channel, whose bus carries its pages one by one.
#[test]
fn another_placement_loads_one_channel() {
    let reads = job("rw=read,bs=128k,iodepth=1,number_ios=200");
    let [channels, ways] = ["channel-first", "way-first"]
        .map(|placement| read_mean_us(&run(&[&format!("ftl.placement={placement}")], &reads)));
    // Seven more page transfers of 90 us, less what eight channels cost the processor.
    assert!(ways > channels + 500.0, "channel first {channels:.0} us, way first {ways:.0} us");
}

/// A slow processor is the bottleneck; a fast one is not.
#[test]
fn another_clock_limits_the_reads() {
    let reads = job("rw=read,bs=128k,iodepth=16,number_ios=1500");
    let [slow, normal, fast] =
        ["200", "1000", "4000"].map(|mhz| read_rate(&run(&[&format!("firmware.clock_mhz={mhz}")], &reads)));
    assert!(slow < 0.9 * normal, "200 MHz {slow:.0} B/s, 1,000 MHz {normal:.0} B/s");
    assert!(fast < 1.15 * normal, "4,000 MHz {fast:.0} B/s, 1,000 MHz {normal:.0} B/s");
}

/// Four channels can share a key-equation solver that is fast enough. One that is too slow bounds the drive: chunks of
/// 256 bytes, 2 us each, four channels: 512 MB/s on eight channels with two solvers are 256 MB/s.
#[test]
fn a_shared_solver_costs_little_until_it_is_the_bottleneck() {
    let reads = job("rw=read,bs=128k,iodepth=16,number_ios=1500");
    let own = read_rate(&run(&["scheduler.solver.channels=1"], &reads));
    let shared = read_rate(&run(&["scheduler.solver.channels=4"], &reads));
    let slow = read_rate(&run(&["scheduler.solver.channels=4", "scheduler.solver.time=\"2us\""], &reads));
    assert!((shared / own - 1.0).abs() < 0.02, "own {own:.0} B/s, shared {shared:.0} B/s");
    assert!((slow / 256e6 - 1.0).abs() < 0.03, "{slow:.0} B/s");
}
