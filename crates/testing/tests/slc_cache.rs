//! The SLC cache (`ftl.slc_cache`): host data go there first, are folded while the drive is idle, and are never lost on the way.

use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Lba, Nanos, Opcode, Status};
use pellucid_lab::drive::{Unwatched, precondition};
use pellucid_testing::swarm;
use pellucid_testing::swarm::Swarm;

/// Two dies of TLC whose word lines are programmed at once: blocks of 8 superpages of 12 units; of each die, four are the cache and hold two
/// superpages.
const DRIVE: &str = r#"
[drive.media]
channels = 2
ways = 1
blocks = 40
pages = 24
page_size = "16KiB"
sector_size = 4096
unit_size = "4KiB"
one_shot_pages = 3
cell = "tlc"
[drive.media.timing]
read = "60us, 60us, 60us"
program = "1500us"
slc_read = "20us"
slc_program = "200us"
erase = "3ms"
channel_rate = "10GB/s"
[drive.ftl]
over_provisioning = 0.4
durability = "volatile"
slc_cache.blocks = 4
slc_cache.fold_after = "50ms"
[drive.buffer]
entries = 48
retain = false
dirty_high = 0.0
[precondition]
fill = 1.0
"#;

const SUPERPAGE: u32 = 12;
/// Superpages of the cache: of each of two dies, four blocks of two.
const CACHE: u64 = 2 * 4 * 2;

fn drive(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let spec = pellucid_spec::from_str(DRIVE, "slc_cache.rs", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    device.reset_counters();
    device
}

/// Writes superpage after superpage from `first` on, each when the one before is on the media; how long each took.
fn write(device: &mut Device, first: u64, superpages: u64) -> Vec<Nanos> {
    let image = vec![7; SUPERPAGE as usize * device.image_bytes()];
    let one = |superpage: u64| {
        let lba = Lba(superpage * u64::from(SUPERPAGE));
        let now = device.now();
        let command = Command::new(superpage, Opcode::Write, lba, SUPERPAGE, image.clone());
        device.submit(now, Command { fua: true, ..command });
        loop {
            device.advance(device.next_event().expect("a write ends"));
            if let Some(completion) = device.pop() {
                assert_eq!(completion.status, Status::Success);
                break completion.completed - completion.submitted;
            }
        }
    };
    (first..first + superpages).map(one).collect()
}

/// Lets the drive alone for so long.
fn rest(device: &mut Device, time: Nanos) {
    let end = device.now() + time;
    while let Some(next) = device.next_event().filter(|&next| next <= end) {
        device.advance(next);
    }
    device.advance(end);
    device.check();
}

#[test]
fn writes_are_as_quick_as_slc_until_the_cache_is_full() {
    let mut device = drive(&[]);
    let times = write(&mut device, 0, CACHE + 4);
    let (cached, direct) = times.split_at(CACHE as usize);
    // Three pages of 200 us one after the other, or one program of 1500 us.
    assert!(cached.iter().all(|time| (600_000..700_000).contains(&time.0)), "{cached:?}");
    assert!(direct.iter().all(|time| time.0 > 1_500_000), "{direct:?}");
    assert_eq!(device.cache_use([0]), (8, 8), "blocks of the cache, and those in use");
    let counters = device.ftl_counters();
    assert_eq!((counters.cached_units, counters.direct_units), (CACHE * 12, 4 * 12));
    device.check();
}

#[test]
fn part_of_a_superpage_takes_the_time_of_its_pages() {
    let mut device = drive(&[]);
    let data = vec![7; 4 * device.image_bytes()];
    let command = Command::new(0, Opcode::Write, Lba(0), 4, data);
    device.submit(device.now(), Command { fua: true, ..command });
    while device.completed() == 0 {
        device.advance(device.next_event().expect("a write ends"));
    }
    let completion = device.pop().expect("completed");
    let took = completion.completed - completion.submitted;
    assert!((200_000..300_000).contains(&took.0), "{took:?} for one page");
}

#[test]
fn an_idle_drive_folds_its_cache_and_a_busy_one_does_not() {
    let mut device = drive(&[]);
    write(&mut device, 0, CACHE);
    rest(&mut device, Nanos(49_000_000));
    assert_eq!(device.counters().erases[Cause::Fold as usize], 0, "it has not been idle for long enough");
    write(&mut device, CACHE, 1);
    rest(&mut device, Nanos(40_000_000));
    assert_eq!(device.counters().erases[Cause::Fold as usize], 0, "a write came in between");
    rest(&mut device, Nanos(500_000_000));
    assert_eq!(device.cache_use([0]), (8, 0), "every block of the cache was folded and erased");
    let counters = device.counters();
    assert_eq!(counters.erases[Cause::Fold as usize], 8);
    assert_eq!(counters.programmed_sectors[Cause::Fold as usize], CACHE * 12, "everything was moved once");
    assert!(device.next_event().is_none(), "and the drive is at rest");
    let times = write(&mut device, 3, 2);
    assert!(times.iter().all(|time| time.0 < 700_000), "the cache takes data again: {times:?}");
}

/// Data overwritten in the cache need no folding.
#[test]
fn blocks_that_hold_nothing_are_erased_at_once() {
    let mut device = drive(&[]);
    for _ in 0..10 {
        let times = write(&mut device, 0, CACHE / 2);
        assert!(times.iter().all(|time| time.0 < 3_800_000), "at most an erase is waited for: {times:?}");
    }
    let counters = device.counters();
    assert!(counters.erases[Cause::Fold as usize] > 20, "{:?}", counters.erases);
    assert_eq!(counters.programmed_sectors[Cause::Fold as usize], 0);
    assert_eq!(device.ftl_counters().direct_units, 0, "the cache was never full");
}

/// A write that finds no free block is placed again and again, and counts once.
#[test]
fn host_data_are_counted_once_while_garbage_collection_is_behind() {
    let mut device = drive(&[]);
    let superpages = device.namespace(0).capacity_sectors() / u64::from(SUPERPAGE);
    for round in 0..40 {
        write(&mut device, round * 7 % (superpages - CACHE), CACHE);
    }
    let (counters, ftl) = (device.counters(), device.ftl_counters());
    assert!(counters.erases[Cause::Gc as usize] > 0 && ftl.direct_units > 0, "{:?}", counters.erases);
    let sectors = (ftl.cached_units + ftl.direct_units) * u64::from(device.layout().sectors_per_unit);
    assert_eq!(sectors, counters.programmed_sectors[Cause::Host as usize]);
}

#[test]
fn reads_of_what_is_cached_are_those_of_slc() {
    let mut device = drive(&[]);
    write(&mut device, 0, 1);
    let mut read = |lba: u64| {
        device.submit(device.now(), Command::new(0, Opcode::Read, Lba(lba), 1, Vec::new()));
        while device.completed() == 0 {
            device.advance(device.next_event().expect("a read ends"));
        }
        let completion = device.pop().expect("completed");
        (completion.completed - completion.submitted).0
    };
    assert!((20_000..25_000).contains(&read(3)), "one read level");
    assert!((60_000..65_000).contains(&read(600)), "a block of all bits");
}

/// Small and hostile: programs and erases fail, the power is cut at random, everything is compared with an oracle.
const SWARM: [&str; 16] = [
    "media.cell=tlc",
    "media.one_shot_pages=3",
    "media.pages=18",
    "media.blocks=30",
    "media.timing.read=\"50us,60us,70us\"",
    "media.timing.program=1500us",
    "media.timing.slc_read=20us",
    "media.timing.slc_program=200us",
    "media.bit_errors.enabled=false",
    "media.store=none",
    "ecc.data=drawn",
    "ftl.handles=1",
    "ftl.slc_cache.blocks=4",
    "ftl.slc_cache.fold_after=100us",
    "ftl.over_provisioning=1.5",
    "buffer.entries=120",
];

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_drives_with_a_cache_never_return_a_wrong_sector() {
    let tried = (0..150).filter(|&seed| swarm::run_harder_seed_with(seed, &SWARM, 500)).count();
    assert!(tried > 70, "{tried} drives");
}

/// A power cut at every event of a short history, in which the cache is filled, overwritten and folded.
#[test]
fn a_cache_survives_a_cut_at_every_event() {
    let own = [
        "media.channels=1",
        "buffer.entries=12",
        "buffer.write=write-back",
        "media.blocks=16",
        "ftl.slc_cache.blocks=2",
    ];
    let sets: Vec<String> = SWARM.iter().chain(&own).map(ToString::to_string).collect();
    let (mut cuts, mut folded) = (0, 0);
    let mut swarm = Swarm::new(&swarm::tiny(&sets), 5);
    for number in 0..500 {
        swarm.submit();
        let depth = if number % 40 == 0 { 1 } else { 6 };
        while swarm.in_flight() >= depth {
            assert!(swarm.step());
            let mut other = swarm.clone();
            other.power_cut();
            for _ in 0..number % 6 {
                other.submit();
                other.step();
            }
            other.power_cut();
            other.device.check();
            cuts += 1;
        }
        // Idle for long: folded, and cut on the way there as well.
        if number % 40 == 0 {
            while swarm.step() {
                let mut other = swarm.clone();
                other.power_cut();
                other.device.check();
                other.read_all();
                cuts += 1;
            }
        }
        folded = swarm.device.counters().erases[Cause::Fold as usize];
    }
    assert!(cuts > 700 && folded > 10, "{cuts} cuts, {folded} blocks folded");
}
