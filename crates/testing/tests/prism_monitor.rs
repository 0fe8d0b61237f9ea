//! The flash library on the drive itself: two applications, a host's translation for one of them, power cuts, wear, and a die that dies.

use crate::small::of_chunks;
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, DieId, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_host::{HostFtl, HostFtlConfig, Stack};
use pellucid_media::Fault;
use pellucid_prism::{FlashAddress, Monitor, MonitorConfig, Raw, Request};

/// The small drive, with more blocks, and larger ones.
fn drive() -> String {
    of_chunks().replace("blocks = 24\npages = 8", "blocks = 32\npages = 16")
}

fn monitor(sets: &[&str]) -> Monitor<Device> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let spec = pellucid_spec::from_str(&drive(), "prism", &sets).unwrap_or_else(|error| panic!("{error}"));
    let device = Device::new(&spec.drive).unwrap_or_else(|error| panic!("{error}"));
    let config = MonitorConfig { wear_gap: 3, ..MonitorConfig::default() };
    Monitor::start(device, config, SimTime::ZERO).unwrap_or_else(|error| panic!("{error}"))
}

fn give(monitor: &mut Monitor<Device>, name: &str, luns: u64) -> u16 {
    let request = Request { capacity_bytes: luns * monitor.lun_bytes(), over_provisioning: 0.0 };
    monitor.allocate(name, request).unwrap_or_else(|error| panic!("{error}")).id.0
}

fn run(drive: &mut impl Drive, now: SimTime, command: Command) -> (SimTime, Completion) {
    drive.submit(now, command);
    let mut now = now;
    while drive.completed() == 0 {
        now = drive.next_event().expect("it goes on");
        drive.advance(now);
    }
    (now, drive.pop().expect("it has ended"))
}

/// The page of an image that is told apart from all others.
fn page(raw: &Raw, block: u32, mark: u64) -> Vec<u8> {
    let mut rng = Rng::stream(mark, &format!("block {block}"));
    (0..raw.space().page_image_bytes()).map(|_| rng.below(256) as u8).collect()
}

/// Both stores: with stamps the monitor keeps its records itself.
#[test]
fn a_translation_and_a_raw_application_share_a_drive_over_cuts() {
    for sets in [&["media.store=ram"][..], &["media.store=none"]] {
        let mut monitor = monitor(sets);
        let block = give(&mut monitor, "block", 2);
        let raw_id = give(&mut monitor, "raw", 2);
        let raw = Raw::new(raw_id, monitor.interface(raw_id), monitor.image_bytes()).expect("flash");
        // The raw application keeps its data from now on.
        let geometry = raw.geometry();
        let mut now = monitor.now();
        for number in 0..geometry.blocks() {
            for page_at in 0..geometry.pages_each_block {
                let at = FlashAddress { page: page_at, ..geometry.block_at(number) };
                let write = raw.page_write(1, at, page(&raw, number, page_at.into())).expect("inside");
                let ended = run(&mut monitor, now, write);
                (now, _) = (ended.0, assert_eq!(ended.1.status, Status::Success));
            }
        }
        let config = HostFtlConfig {
            namespace: block,
            over_provisioning: 0.5,
            spare_chunks: 1,
            ..HostFtlConfig::default()
        };
        let layer = HostFtl::new(&config, monitor.interface(block), monitor.image_bytes()).expect("room");
        let mut stack = Stack::start(layer, monitor, now).expect("blank");
        let (mut rng, mut model) = (Rng::stream(7, "prism"), std::collections::BTreeMap::new());
        let image = stack.image_bytes();
        for cut in 0..4 {
            for _ in 0..6000 {
                let lba = rng.below(300);
                let value: Vec<u8> = (0..image).map(|_| rng.below(256) as u8).collect();
                let write = Command {
                    namespace: block,
                    ..Command::new(1, Opcode::Write, Lba(lba), 1, value.clone())
                };
                let now = stack.now();
                assert_eq!(run(&mut stack, now, write).1.status, Status::Success);
                model.insert(lba, value);
            }
            let flush = Command { namespace: block, ..Command::new(1, Opcode::Flush, Lba(0), 0, Vec::new()) };
            let now = stack.now();
            assert_eq!(run(&mut stack, now, flush).1.status, Status::Success);
            // A host FTL cannot find what it wrote where there are stamps only.
            if cut % 2 == 0 && sets[0] == "media.store=ram" {
                stack.drive.drive.power_cut().expect("it comes back");
                let now = stack.drive.drive.now();
                stack.drive.restart(now).unwrap_or_else(|error| panic!("{error}"));
                stack.restart(now).unwrap_or_else(|error| panic!("{error}"));
            }
            for (&lba, value) in &model {
                let read = Command {
                    namespace: block,
                    ..Command::new(1, Opcode::Read, Lba(lba), 1, vec![0; image])
                };
                let now = stack.now();
                assert_eq!(&run(&mut stack, now, read).1.data, value, "sector {lba}");
            }
            stack.drive.check();
        }
        let (swaps, _) = stack.drive.swaps();
        assert!(swaps > 0, "{:?}", stack.drive.wear().collect::<Vec<_>>());
        stack.drive.drive.power_cut().expect("it comes back");
        let now = stack.drive.drive.now();
        stack.drive.restart(now).unwrap_or_else(|error| panic!("{error}"));
        for number in 0..geometry.blocks() {
            for page_at in 0..geometry.pages_each_block {
                let at = FlashAddress { page: page_at, ..geometry.block_at(number) };
                let read = raw.page_read(1, at, 1, Vec::new()).expect("inside");
                let now = stack.drive.now();
                let ended = run(&mut stack.drive, now, read).1;
                assert_eq!(ended.data, page(&raw, number, page_at.into()), "block {number} page {page_at}");
            }
        }
    }
}

/// The records are on two LUNs at least, so a die that cannot even be read costs its LUN only.
#[test]
fn a_dead_die_takes_no_allocation_with_it() {
    for die in 0..4 {
        let mut monitor = monitor(&[]);
        let ids: Vec<u16> = ["a", "b", "c", "d"].map(|name| give(&mut monitor, name, 1)).to_vec();
        let units: Vec<u32> = monitor.applications().map(|app| app.units[0]).collect();
        let mut now = monitor.now();
        let write = |monitor: &mut Monitor<Device>, now: &mut SimTime, id: u16, page_at: u32| {
            let raw = Raw::new(id, monitor.interface(id), monitor.image_bytes()).expect("flash");
            let at = FlashAddress { page: page_at, ..FlashAddress::default() };
            let write = raw.page_write(1, at, page(&raw, id.into(), page_at.into())).expect("inside");
            let ended = run(monitor, *now, write);
            *now = ended.0;
            ended.1.status
        };
        for &id in &ids {
            assert_eq!(write(&mut monitor, &mut now, id, 0), Status::Success);
        }
        monitor.drive.inject(now, Fault::KillDie { die: DieId(die) }).expect("there is such a die");
        monitor.drive.power_cut().expect("it comes back");
        let now_of = monitor.drive.now();
        let config = MonitorConfig::default();
        let mut again = Monitor::start(monitor.drive.clone(), config, now_of)
            .unwrap_or_else(|e| panic!("die {die}: {e}"));
        let names: Vec<String> = again.applications().map(|app| app.name).collect();
        assert_eq!(names, ["a", "b", "c", "d"], "die {die}");
        let mut now = again.now();
        for (name, (&id, &unit)) in names.iter().zip(ids.iter().zip(&units)) {
            again.open(name).expect("it is there");
            if unit == die {
                continue;
            }
            let raw = Raw::new(id, again.interface(id), again.image_bytes()).expect("flash");
            let read = raw.page_read(1, FlashAddress::default(), 1, Vec::new()).expect("inside");
            let ended = run(&mut again, now, read);
            now = ended.0;
            assert_eq!(
                (ended.1.status, ended.1.data),
                (Status::Success, page(&raw, id.into(), 0)),
                "die {die}, {name}"
            );
            assert_eq!(write(&mut again, &mut now, id, 1), Status::Success, "die {die}, {name}");
        }
        // The state can still be changed.
        let alive = names.iter().zip(&units).find(|(_, unit)| **unit != die).expect("three of them").0;
        again.release(alive).unwrap_or_else(|error| panic!("die {die}: {error}"));
        again.check();
    }
}
