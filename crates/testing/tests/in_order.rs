//! Controllers that keep an order. Those that fetch no command while data of an earlier one wait for room lose nothing by many outstanding.
//!
//! Drives whose controllers are as Jasmine's: dies take operations in the order of all of them, writes go to the die of their address, and
//! the buffer is first in, first out. Random and damaged drives, with power cuts, beside the oracle.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, SimTime, Status};
use pellucid_testing::swarm;

const LIKE_JASMINE: [&str; 7] = [
    "scheduler.order=in-order",
    "scheduler.suspend=false",
    "firmware.model=tasks",
    "media.independent_plane_reads=false",
    "buffer.fifo=true",
    "buffer.retain=false",
    "buffer.dirty_high=0.0",
];

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_controller_in_order_never_returns_a_wrong_sector() {
    for placement in ["ftl.placement=address", "ftl.placement=channel-first"] {
        let sets: Vec<&str> = LIKE_JASMINE.into_iter().chain([placement]).collect();
        let tried = (0..120).filter(|&seed| swarm::run_harder_seed_with(seed, &sets, 800)).count();
        assert!(tried > 60, "{placement}: {tried} of 120 drives");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn no_write_waits_for_ever_behind_one_that_nothing_sends_to_the_media() {
    for placement in ["ftl.placement=address", "ftl.placement=channel-first"] {
        let sets: Vec<&str> = LIKE_JASMINE.into_iter().chain([placement]).collect();
        // A drive whose media are healthy never becomes read-only: this is what a wait without an end would come to.
        let tried = (0..120).filter(|&seed| swarm::run_seed_with(seed, &sets, 800)).count();
        assert!(tried > 60, "{placement}: {tried} of 120 drives");
    }
}

/// How long datacenter-tlc with a small buffer takes for writes of 32 KiB in order, this many of them outstanding.
fn time_of_writes(outstanding: u64) -> SimTime {
    const WRITES: u64 = 12_000;
    let sets = ["media.blocks=64", "buffer.entries=4096"].map(String::from);
    let spec = pellucid_spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
    assert!(spec.drive.host.in_order);
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    let write = |device: &mut Device, tag: u64| {
        let data = vec![1; 8 * device.image_bytes()];
        device.submit(device.now(), Command::new(tag, Opcode::Write, Lba(8 * tag), 8, data));
    };
    let (mut submitted, mut completed) = (0, 0);
    while completed < WRITES {
        while submitted < WRITES && submitted - completed < outstanding {
            write(&mut device, submitted);
            submitted += 1;
        }
        let next = device.next_event().expect("a write ends");
        device.advance(next);
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            completed += 1;
        }
    }
    device.now()
}

/// Commands that were all fetched at once kept the firmware from the results of programs, and dies idle.
#[test]
fn many_outstanding_writes_cost_no_throughput() {
    let (few, many) = (time_of_writes(16), time_of_writes(1024));
    assert!(many.0 * 1000 <= few.0 * 1005, "{few:?} with 16, {many:?} with 1024");
}
