//! Reads beside programs: however a read meets one, it does not wait for the array, nor for what has not begun, nor for room
//! that writes take.

use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status};
use pellucid_lab::drive::{Unwatched, precondition};

/// Array time of a program of datacenter-tlc, within its spread.
const PROGRAM: Nanos = Nanos(1_100_000);
/// A read's own time, the suspension, and the transfer of a superpage to the die, which holds the channel.
const READ: Nanos = Nanos(400_000);
/// A superpage on its way to a die.
const LOAD: Nanos = Nanos(138_000);
/// A read that waits for nothing: sense, transfer, decoding, host link.
const ALONE: Nanos = Nanos(62_000);

/// Overrides for a plain drive: the controller takes no time of its own, and planes of a die are read together.
const PLAIN: [&str; 13] = [
    "media.blocks=96",
    "media.timing.erase=4.5ms",
    "media.independent_plane_reads=false",
    "media.timing.read=[\"50us\", \"50us\", \"50us\"]",
    "media.variation.layer=0",
    "media.variation.block=0",
    "media.retry.enabled=false",
    "firmware.fetch.fixed=0",
    "firmware.issue.fixed=0",
    "firmware.complete.fixed=0",
    "host.fetch=800ns",
    "host.complete=500ns",
    "scheduler.decode=3us",
];

/// Datacenter-tlc with blocks of 16 superpages, nine tenths of it written.
fn drive(sets: &[&str]) -> Device {
    let sets = ["media.channels=1", "media.pages=48", "ftl.over_provisioning=0.15", "precondition.fill=0.9"]
        .iter()
        .chain(&PLAIN)
        .chain(sets);
    let sets: Vec<String> = sets.map(ToString::to_string).collect();
    let spec = pellucid_spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
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

/// The latency of a read of the superpage with number `target` that comes `delay` after the writes of as many superpages as there
/// are dies, which go to the dies in turn.
fn read_latency(device: &Device, superpages: u32, delay: Nanos, target: u64) -> Nanos {
    let mut device = device.clone();
    let superpage = device.layout().units_per_superpage;
    let start = device.now();
    for number in 0..superpages {
        write(&mut device, start, number.into(), u64::from(number * superpage), superpage);
    }
    device.advance(start + delay);
    read(&mut device, start + delay, target * u64::from(superpage))
}

/// Latencies of reads, one after another with 50 us in between, beside the program of one superpage. The first one comes when the
/// program has run for about 200 us.
fn latencies_beside_a_program(rule: &[&str]) -> Vec<Nanos> {
    let own = ["media.ways=1", "media.timing.suspend=20us", "scheduler.suspensions=unlimited"];
    let mut device = drive(&[&own, rule].concat());
    let (start, superpage) = (device.now(), device.layout().units_per_superpage);
    write(&mut device, start, 0, 0, superpage);
    let mut now = start + Nanos(330_000);
    (20..24)
        .map(|number| {
            device.advance(now);
            let latency = read(&mut device, now, number * u64::from(superpage));
            now = device.now() + Nanos(50_000);
            latency
        })
        .collect()
}

fn worst(device: &Device, superpages: u32, targets: std::ops::Range<u64>) -> Nanos {
    let delays = (0..150).map(|step| Nanos(step * 10_000));
    let latencies = delays
        .flat_map(|delay| targets.clone().map(move |target| read_latency(device, superpages, delay, target)));
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
fn what_was_suspended_so_often_ends_first() {
    let latencies = latencies_beside_a_program(&["scheduler.suspensions=2"]);
    assert!(latencies[..2].iter().all(|&latency| latency < READ), "{latencies:?}");
    // Of 1170 us the program has worked for 300 when the third read comes, which waits for the rest.
    assert!(latencies[2] > Nanos(600_000) && latencies[2] < PROGRAM, "{latencies:?}");
    let unlimited = latencies_beside_a_program(&[]);
    assert!(unlimited.iter().all(|&latency| latency < READ), "{unlimited:?}");
}

#[test]
fn what_was_resumed_works_for_a_gap_before_it_is_suspended_again() {
    let latencies = latencies_beside_a_program(&["scheduler.suspend_gap=200us"]);
    assert!(latencies[0] < ALONE + Nanos(40_000), "nothing was resumed yet: {latencies:?}");
    // Resumed for 20 us, of which with the gap 220 remain, less the 50 between two reads.
    let expected = ALONE + Nanos(180_000)..ALONE + Nanos(220_000);
    assert!(latencies[1..4].iter().all(|latency| expected.contains(latency)), "{latencies:?}");
    // A gap that would not end before the program does: the read waits for the program.
    let patient = latencies_beside_a_program(&["scheduler.suspend_gap=5ms"]);
    assert!(patient[1] > Nanos(600_000) && patient[1] < PROGRAM, "{patient:?}");
}

#[test]
fn an_erase_takes_its_own_time_to_suspend() {
    let worst = |suspend_erase: &str| {
        let mut device = drive(&[
            "media.ways=1",
            "media.timing.suspend=20us",
            suspend_erase,
            "ftl.over_provisioning=0.15",
            "precondition.fill=1.0",
            "precondition.overwrite=1.0",
        ]);
        let (mut rng, sectors) = (Rng::stream(1, "reads"), device.namespace(0).capacity_sectors());
        let (mut worst, mut now, erases) = (Nanos::ZERO, device.now(), total_erases(&device));
        for number in 0..1_000 {
            write(&mut device, now, number, rng.below(sectors - 16), 16);
            now += Nanos(500_000);
            device.advance(now);
            worst = worst.max(read(&mut device, now, rng.below(sectors)));
            now = device.now() + Nanos(2_500_000);
            device.advance(now);
        }
        assert!(total_erases(&device) - erases > 20);
        worst
    };
    assert!(worst("media.timing.suspend_erase=same") < PROGRAM);
    let slow = worst("media.timing.suspend_erase=2ms");
    assert!(slow > Nanos(2_000_000), "{slow:?}");
}

fn total_erases(device: &Device) -> u64 {
    device.counters().erases.iter().sum()
}

#[test]
fn a_read_goes_ahead_of_a_program_that_only_waits_for_the_channel() {
    // Two dies share the channel; while the first one is loaded, the program of the second one waits.
    let device = drive(&["media.ways=2", "scheduler.page_transfers=false"]);
    let latency = |target| read_latency(&device, 2, Nanos(80_000), target);
    // Superpages were written to the dies in turn: one of two is in the second die, and meets no load of its own die.
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

/// The latency of a read beside writes of ten superpages, of which the buffer holds two or three.
fn read_beside_a_full_buffer(mut device: Device, lba: u64) -> Nanos {
    let mut now = device.now();
    for superpage in 0..10 {
        write(&mut device, now, superpage, superpage * 48, 48);
        now += Nanos(50_000);
    }
    device.advance(now);
    read(&mut device, now, lba)
}

#[test]
fn a_read_needs_no_entry_that_writes_give_back() {
    let latency = |own| {
        let sets = ["media.ways=1", "buffer.entries=96", "host.in_order=false", own];
        read_beside_a_full_buffer(drive(&sets), 960)
    };
    assert!(latency("buffer.read_entries=0") > PROGRAM);
    assert!(latency("buffer.read_entries=1") < READ, "{:?}", latency("buffer.read_entries=1"));
}

#[test]
fn where_commands_stay_in_order_a_read_waits_until_writes_have_room() {
    let block =
        |in_order| read_beside_a_full_buffer(drive(&["media.ways=1", "buffer.entries=96", in_order]), 960);
    let zoned = |in_order| {
        let namespace =
            r#"drive.namespace=[{ interface = "zoned", open_max = 1, active_max = 1, stage = 3 }]"#;
        let mut device = drive(&["media.ways=1", "precondition.fill=0.0", namespace, in_order]);
        let Some(Interface::Zoned(zones)) = Drive::interface(&device, 0) else { panic!("no zones") };
        // The second zone is full, with data that have left the buffer.
        let (superpage, second) = (device.layout().units_per_superpage, zones.zone_sectors);
        for at in (0..zones.capacity_sectors).step_by(superpage as usize) {
            let now = device.now();
            write(&mut device, now, at, second + at, superpage);
            device.advance(now + Nanos(3_000_000));
        }
        read_beside_a_full_buffer(device, second)
    };
    let (passes, waits) = (["host.in_order=false"; 2], ["host.in_order=true"; 2]);
    let all = |[of_block, of_zoned]: [&'static str; 2]| [block(of_block), zoned(of_zoned)];
    assert!(all(passes).iter().all(|&latency| latency < READ), "{:?}", all(passes));
    assert!(all(waits).iter().all(|&latency| latency > Nanos(4 * PROGRAM.0)), "{:?}", all(waits));
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
        let (mut rng, sectors) = (Rng::stream(1, "reads"), device.namespace(0).capacity_sectors());
        let (mut worst, mut now) = (Nanos::ZERO, device.now());
        // The drive is full, and collects. Between two reads there is time for programs.
        for number in 0..2_000 {
            write(&mut device, now, number, rng.below(sectors - 16), 16);
            worst = worst.max(read(&mut device, now, rng.below(sectors)));
            now = device.now() + Nanos(3_000_000);
            device.advance(now);
        }
        let counters = device.counters();
        assert!(counters.programs[Cause::Gc as usize] > 20, "{counters:?}");
        worst
    };
    let hurrying = worst(&[]);
    assert!(hurrying < PROGRAM, "{hurrying:?}");
    let patient = worst(&["scheduler.order=fifo", "scheduler.suspend=false"]);
    assert!(patient > Nanos(4 * PROGRAM.0), "{patient:?}");
}
