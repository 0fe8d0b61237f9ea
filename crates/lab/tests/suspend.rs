//! Reads beside programs: however a read meets one, it does not wait for the array, nor for what has not begun, nor for room
//! that writes take.

use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Lba, Nanos, Opcode, Rng, SimTime, Status};
use pellucid_lab::drive::precondition;
use pellucid_lab::spec;

/// Array time of a program of datacenter-tlc, within its spread.
const PROGRAM: Nanos = Nanos(1_100_000);
/// A read's own time, the suspension, and the transfer of a stripe to the die, which holds the channel.
const READ: Nanos = Nanos(400_000);
/// A stripe on its way to a die.
const LOAD: Nanos = Nanos(138_000);
/// A read that waits for nothing: sense, transfer, decoding, host link.
const ALONE: Nanos = Nanos(62_000);

/// Datacenter-tlc with blocks of 16 stripes, nine tenths of it written.
fn drive(sets: &[&str]) -> Device {
    let sets = ["media.channels=1", "media.pages=48", "precondition.fill=0.9"].iter().chain(sets);
    let sets: Vec<String> = sets.map(ToString::to_string).collect();
    let spec = spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None).unwrap_or_else(|e| panic!("{e}"));
    device
}

fn write(device: &mut Device, at: SimTime, tag: u64, lba: u64, sectors: u32) {
    let data = vec![1; sectors as usize * device.image_bytes()];
    device.submit(at, Command::new(tag, Opcode::Write, Lba(lba), sectors, data));
}

/// The latency of a read of `lba` at `at`; what else ends meanwhile is of no interest.
fn read(device: &mut Device, at: SimTime, lba: u64) -> Nanos {
    const READ: u64 = u64::MAX;
    device.submit(at, Command::new(READ, Opcode::Read, Lba(lba), 1, Vec::new()));
    loop {
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            if completion.tag == READ {
                return completion.completed - completion.submitted;
            }
        }
        let next = device.next_event().expect("a read ends");
        device.advance(next);
    }
}

/// The latency of a read of the stripe with number `target` that comes `delay` after the writes of as many stripes as there
/// are dies, which go to the dies in turn.
fn read_latency(device: &Device, stripes: u32, delay: Nanos, target: u64) -> Nanos {
    let mut device = device.clone();
    let stripe = device.layout().units_per_stripe;
    let start = device.now();
    for number in 0..stripes {
        write(&mut device, start, number.into(), u64::from(number * stripe), stripe);
    }
    device.advance(start + delay);
    read(&mut device, start + delay, target * u64::from(stripe))
}

fn worst(device: &Device, stripes: u32, targets: std::ops::Range<u64>) -> Nanos {
    let delays = (0..150).map(|step| Nanos(step * 10_000));
    let latencies = delays
        .flat_map(|delay| targets.clone().map(move |target| read_latency(device, stripes, delay, target)));
    latencies.max().expect("some")
}

#[test]
fn a_read_never_waits_for_a_program_that_can_be_suspended() {
    let drive = |suspend| drive(&["media.ways=1", suspend]);
    let (patient, impatient) = (drive("scheduler.suspend=false"), drive("scheduler.suspend=true"));
    assert!(worst(&patient, 1, 20..21) > PROGRAM, "without suspension it does");
    let worst = worst(&impatient, 1, 20..21);
    assert!(worst < READ, "{worst:?}");
}

#[test]
fn a_read_goes_ahead_of_a_program_that_only_waits_for_the_channel() {
    // Two dies share the channel; while the first one is loaded, the program of the second one waits.
    let device = drive(&["media.ways=2", "scheduler.page_transfers=false"]);
    let latency = |target| read_latency(&device, 2, Nanos(80_000), target);
    // Stripes were written to the dies in turn: one of two is in the second die, and meets no load of its own die.
    let best = latency(20).min(latency(21));
    assert!(best < LOAD + ALONE, "{best:?}: it waited for the load of its die too");
}

#[test]
fn a_read_goes_between_the_pages_of_a_program() {
    let drive = |pages| drive(&["media.ways=2", pages]);
    let (whole, pages) = (drive("scheduler.page_transfers=false"), drive("scheduler.page_transfers=true"));
    // While the first die is loaded, a read of the second one.
    let latency = |device| {
        let of = |target| read_latency(device, 1, Nanos(50_000), target);
        of(20).min(of(21))
    };
    assert!(latency(&whole) > ALONE + Nanos(50_000), "{:?}", latency(&whole));
    // At most two pages at 11.5 us: one for its command, one for its data.
    assert!(latency(&pages) < ALONE + Nanos(24_000), "{:?}", latency(&pages));
}

#[test]
fn a_read_needs_no_entry_that_writes_give_back() {
    let latency = |own: &str| {
        let mut device = drive(&["media.ways=1", "buffer.entries=96", own]);
        let start = device.now();
        // Ten stripes; the buffer holds two.
        write(&mut device, start, 0, 0, 480);
        device.advance(start + Nanos(500_000));
        read(&mut device, start + Nanos(500_000), 960)
    };
    assert!(latency("buffer.read_entries=0") > PROGRAM);
    assert!(latency("buffer.read_entries=1") < READ, "{:?}", latency("buffer.read_entries=1"));
}

#[test]
fn a_read_of_a_page_that_moves_does_not_wait_until_it_has_moved() {
    let worst = |order: &[&str]| {
        let mut device = drive(
            &[
                &[
                    "media.ways=1",
                    "ftl.over_provisioning=0.15",
                    "precondition.fill=1.0",
                    "precondition.overwrite=1.0",
                ],
                order,
            ]
            .concat(),
        );
        let (mut rng, sectors) = (Rng::stream(1, "reads"), device.capacity_sectors());
        let (mut worst, mut now) = (Nanos::ZERO, device.now());
        // The drive is full, and collects. Between two reads there is time for programs.
        for number in 0..2_000 {
            write(&mut device, now, number, rng.below(sectors - 16), 16);
            worst = worst.max(read(&mut device, now, rng.below(sectors)));
            now = device.now() + Nanos(3_000_000);
            device.advance(now);
        }
        let counters = device.counters();
        assert!(counters.programs[Cause::Collection as usize] > 20, "{counters:?}");
        worst
    };
    let hurrying = worst(&[]);
    assert!(hurrying < PROGRAM, "{hurrying:?}");
    let patient = worst(&["scheduler.order=fifo", "scheduler.suspend=false"]);
    assert!(patient > Nanos(4 * PROGRAM.0), "{patient:?}");
}
