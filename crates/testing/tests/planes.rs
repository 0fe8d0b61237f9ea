//! Independent plane reads (`media.independent_plane_reads`): each plane senses by itself, the channel carries what it can, and what
//! programs or erases has the whole die.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Nanos, Opcode, Rng, SimTime, Status};
use pellucid_lab::drive::{Unwatched, precondition};
use pellucid_testing::swarm;

/// Two dies of four planes on a channel. Nothing but sense and channel takes time, and no time varies.
const DRIVE: &str = r#"
[drive.media]
channels = 1
ways = 2
planes = 4
blocks = 2048
pages = 16
page_size = "16KiB"
sector_size = 4096
unit_size = "4KiB"
multi_plane = true
cell = "slc"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "100GB/s"
suspend = "20us"
[drive.ftl]
over_provisioning = 0.3
durability = "volatile"
[drive.buffer]
entries = 256
read_entries = 2048
retain = false
dirty_high = 0.0
[drive.host]
commands = 2048
[drive.scheduler]
order = "read-first"
[precondition]
fill = 1.0
"#;

const SENSE: f64 = 50e-6;
const UNIT: u64 = 4096;

fn drive(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let spec = pellucid_spec::from_str(DRIVE, "planes.rs", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    device
}

/// Random reads in a second, with this many outstanding.
fn reads_per_second(device: &mut Device, outstanding: u64, reads: u64) -> f64 {
    let mut rng = Rng::new(3);
    let (units, start) = (device.namespace(0).capacity_sectors(), device.now());
    let (mut begun, mut ended) = (0, 0);
    while ended < reads {
        while begun < reads && begun - ended < outstanding {
            let lba = Lba(rng.below(units));
            device.submit(device.now(), Command::new(begun, Opcode::Read, lba, 1, Vec::new()));
            begun += 1;
        }
        device.advance(device.next_event().expect("reads in flight"));
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            ended += 1;
        }
    }
    device.check();
    reads as f64 * 1e9 / (device.now() - start).0 as f64
}

/// When each of these commands has ended, by tag.
fn ends(device: &mut Device, commands: &[(u64, Opcode, u64, u32)]) -> Vec<SimTime> {
    let start = device.now();
    for (tag, &(at, opcode, lba, sectors)) in commands.iter().enumerate() {
        let at = start + Nanos(at);
        device.advance(at);
        let bytes = if opcode == Opcode::Write { sectors as usize * device.image_bytes() } else { 0 };
        device.submit(at, Command::new(tag as u64, opcode, Lba(lba), sectors, vec![0; bytes]));
    }
    let mut ends = vec![SimTime::ZERO; commands.len()];
    while let Some(next) = device.next_event() {
        device.advance(next);
        while let Some(completion) = device.pop() {
            ends[completion.tag as usize] = SimTime((completion.completed - start).0);
        }
    }
    ends
}

#[test]
fn every_plane_senses_by_itself() {
    for (set, planes) in [("true", 4.0), ("false", 1.0)] {
        let set = format!("media.independent_plane_reads={set}");
        let rate = reads_per_second(&mut drive(&[&set]), 1024, 60_000);
        let theory = 2.0 * planes / SENSE;
        assert!((0.98..=1.0).contains(&(rate / theory)), "{set}: {rate} of {theory} reads in a second");
    }
}

#[test]
fn the_channel_bounds_what_the_planes_of_its_dies_give() {
    let mut device = drive(&["media.independent_plane_reads=true", "media.timing.channel_rate=200MB/s"]);
    let rate = reads_per_second(&mut device, 1024, 40_000) * UNIT as f64;
    assert!((0.99..=1.0).contains(&(rate / 200e6)), "{rate} bytes in a second on a channel of 200 MB/s");
}

/// The drive is filled in order: units 0 to 3 lie in plane 0, 4 to 7 in plane 1, of one die; 16 to 19 in plane 0 of the other.
#[test]
fn planes_wait_for_each_other_only_on_the_channel() {
    let on = "media.independent_plane_reads=true";
    let slow = "media.timing.channel_rate=400MB/s";
    let transfer = UNIT * 10 / 4;
    let read = |lba| (0, Opcode::Read, lba, 1);
    let elsewhere = ends(&mut drive(&[on, slow]), &[read(0), read(4), read(9)]);
    assert_eq!(
        elsewhere,
        [1, 2, 3].map(|n| SimTime(50_000 + n * transfer)),
        "one after another on the channel"
    );
    let same = ends(&mut drive(&[on, slow]), &[read(0), read(1)]);
    assert_eq!(
        same,
        [1, 2].map(|n| SimTime(n * (50_000 + transfer))),
        "a plane senses when its register is empty"
    );
    let together = ends(&mut drive(&[slow]), &[read(0), read(4)]);
    assert_eq!(together, same, "without independent planes a die does one thing at a time");
}

#[test]
fn a_read_of_all_planes_senses_each_by_itself() {
    let mut device = drive(&["media.independent_plane_reads=true"]);
    let before = device.counters().reads.iter().sum::<u64>();
    ends(&mut device, &[(0, Opcode::Read, 0, 16)]);
    assert_eq!(device.counters().reads.iter().sum::<u64>() - before, 4, "a sense for each plane");
}

#[test]
fn a_program_has_the_whole_die() {
    let on = "media.independent_plane_reads=true";
    // A superpage of 16 units is programmed in the die of unit 0 or 16; reads of every plane of both dies come 100 us later.
    let mut commands = vec![(0, Opcode::Write, 1_000, 16)];
    commands.extend((0..32).step_by(4).map(|lba| (100_000, Opcode::Read, lba, 1)));
    let waited = |sets: &[&str]| {
        let ends = ends(&mut drive(sets), &commands);
        ends[1..].iter().filter(|end| end.0 > 450_000).count()
    };
    assert_eq!(waited(&[on, "scheduler.suspend=false"]), 4, "all planes of one die");
    assert_eq!(waited(&[on, "scheduler.suspend=true"]), 0, "it was suspended for them");
}

/// Reads of one plane or another never cease, and the program begins all the same: as without independent planes, when the reads of some
/// plane have come to an end.
#[test]
fn reads_of_other_planes_do_not_keep_a_program_out() {
    let mut device = drive(&["media.independent_plane_reads=true", "media.ways=1"]);
    let superpage = device.layout().units_per_superpage;
    let mut commands: Vec<(u64, Opcode, u64, u32)> = vec![(10_000, Opcode::Write, 1_000, superpage)];
    // Plane 0 at 0, 50, 100 us .., plane 1 at 25, 75 us ..: without a moment at which both are idle.
    commands.extend((0..400).map(|n| (10_000 + n * 25_000, Opcode::Read, n % 2 * 4, 1)));
    let before = device.now();
    device.advance(before);
    let programmed = |device: &Device| device.counters().programs.iter().sum::<u64>();
    let media = programmed(&device);
    let start = device.now();
    let mut first = None;
    for (tag, &(at, opcode, lba, sectors)) in commands.iter().enumerate() {
        device.advance(start + Nanos(at));
        let bytes = if opcode == Opcode::Write { sectors as usize * device.image_bytes() } else { 0 };
        let command = Command::new(tag as u64, opcode, Lba(lba), sectors, vec![0; bytes]);
        device.submit(start + Nanos(at), Command { fua: opcode == Opcode::Write, ..command });
        while let Some(completion) = device.pop() {
            if completion.tag == 0 {
                first.get_or_insert(completion.completed - start);
            }
        }
    }
    assert!(programmed(&device) > media);
    assert!(first.is_some_and(|end| end < Nanos(800_000)), "the forced write ended after {first:?}");
}

/// The swarm draws such drives too; here all of its drives are, damage and power cuts included.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn drives_with_independent_planes_keep_their_data() {
    let own = [
        "firmware.model=tasks",
        "host.completes=firmware",
        "media.planes=2",
        "media.independent_plane_reads=true",
    ];
    let tried = (0..60).filter(|&seed| swarm::run_harder_seed_with(seed, &own, 400)).count();
    assert!(tried > 30, "{tried} drives");
}
