//! The flash library's levels on the drive itself: failing flash, a die that dies, power cuts.

use crate::small::of_chunks;
use pellucid_device::Device;
use pellucid_flash::{Command, DieId, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_host::{HostFtlConfig, Machine, Stack};
use pellucid_media::Fault;
use pellucid_prism::blocking::{Flash, FlashError, FunctionId, at_once};
use pellucid_prism::{FlashAddress, Gc, LevelError, Mapping, Policy, PolicyConfig};
use std::collections::BTreeMap;

/// The small drive, with more blocks.
fn drive() -> String {
    of_chunks().replace("blocks = 24", "blocks = 40")
        + "[drive.host]\nqueues = 2\n[drive.buffer]\nentries = 16\n"
}

fn device(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let spec = pellucid_spec::from_str(&drive(), "prism", &sets).unwrap_or_else(|e| panic!("{e}"));
    Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"))
}

fn cut(device: &Device) -> Device {
    let mut device = device.clone();
    device.power_cut().unwrap_or_else(|e| panic!("{e}"));
    while device.pop().is_some() {}
    device
}

const FAULTS: [&str; 3] =
    ["media.faults.program_fail=0.002", "media.faults.erase_fail=0.001", "media.faults.factory_bad=0.01"];

fn policy(device: Device, end: u64) -> Stack<Policy, Device> {
    let host_ftl = HostFtlConfig { spare_chunks: 2, ..HostFtlConfig::default() };
    let config = PolicyConfig { host_ftl, ..PolicyConfig::default() };
    let layer = Policy::new(0, Drive::interface(&device, 0), device.image_bytes(), &config);
    let now = device.now();
    let mut host = Stack::start(layer.expect("it is flash"), device, now).expect("it starts");
    let middle = end / 2 / 512 * 512;
    for (mapping, gc, range) in
        [(Mapping::Block, Gc::Greedy, 0..middle), (Mapping::Page, Gc::CostBenefit, middle..end)]
    {
        host.layer.ftl_ioctl(mapping, gc, range, 1.2).unwrap_or_else(|e| panic!("{e}"));
        assert!(host.run_until(|l| l.is_ready() || l.failure().is_some(), |_, next| next));
        assert_eq!(host.layer.failure(), None);
    }
    host
}

fn read(host: &mut Stack<Policy, Device>, lba: u64) -> u32 {
    let command = Command::new(0, Opcode::Read, Lba(lba), 1, vec![0; 512]);
    let done = host.call(command).expect("it ends");
    assert_eq!(done.status, Status::Success, "sector {lba}");
    u32::from_le_bytes(done.data[..4].try_into().expect("4 bytes"))
}

/// Runs of sectors are written, some flushed; every cut must find each sector in the version that was flushed, or a newer one.
///
/// Returns how many writes the drive has failed.
fn policy_survives(sets: &[&str]) -> u64 {
    let mut host = policy(device(sets), 300 << 10);
    let mut rng = Rng::new(5);
    let sectors = 600;
    let (mut newest, mut durable) = (vec![0u32; 600], vec![0u32; 600]);
    let mut acknowledged = newest.clone();
    let mut places = vec![0..0; 4000];
    let mut flushed: Option<Vec<u32>> = None;
    let mut cuts = 0;
    for round in 1..4000u32 {
        if rng.chance(0.03) && flushed.is_none() {
            flushed = Some(acknowledged.clone());
            host.ask(host.now(), Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        } else {
            let lba = rng.below(sectors) as usize;
            let count = (1 + rng.below(40) as usize).min(600 - lba);
            places[round as usize] = lba..lba + count;
            newest[lba..lba + count].fill(round);
            let data = round.to_le_bytes().repeat(128 * count);
            let write = Command::new(round.into(), Opcode::Write, Lba(lba as u64), count as u32, data);
            host.ask(host.now(), write);
        }
        let next = host.next_event().unwrap_or(host.now());
        host.advance(next);
        while host.asked() > 8 {
            let next = host.next_event().expect("it goes on");
            host.advance(next);
            while let Some(done) = host.answer() {
                assert_eq!(done.status, Status::Success);
                match done.opcode {
                    Opcode::Flush => durable = flushed.take().expect("one flush at a time"),
                    _ => places[done.tag as usize].clone().for_each(|at| {
                        acknowledged[at] = acknowledged[at].max(done.tag as u32);
                    }),
                }
            }
        }
        if round % 97 == 0 {
            host.layer.check();
            let mut again = policy(cut(&host.drive), 300 << 10);
            for lba in 0..sectors {
                let found = read(&mut again, lba);
                let (oldest, newest) = (durable[lba as usize], newest[lba as usize]);
                assert!(
                    (oldest..=newest).contains(&found),
                    "sector {lba}: {found}, allowed {oldest} to {newest}"
                );
            }
            cuts += 1;
        }
    }
    assert!(cuts > 40);
    let figures = host.layer.figures();
    figures.iter().filter(|figure| figure.name == "write_failures").map(|figure| figure.value).sum()
}

#[test]
fn what_the_policy_level_has_flushed_survives_power_cuts() {
    assert_eq!(policy_survives(&[]), 0);
}

/// Failures are rare enough that the ranges do not run out of good chunks.
#[test]
fn also_on_failing_flash() {
    let sets = [
        "media.faults.program_fail=0.0003",
        "media.faults.erase_fail=0.0002",
        "media.faults.factory_bad=0.01",
    ];
    assert!(policy_survives(&sets) > 0, "some write has failed");
}

type Function = Flash<Device, fn(&mut Device, Option<SimTime>) -> Option<SimTime>>;

fn function(device: Device) -> (Function, FunctionId) {
    let now = device.now();
    let mut flash = Flash::new(device, now, at_once as fn(&mut Device, _) -> _);
    let level = flash.open_function(0).expect("it is flash");
    (flash, level)
}

fn image(mark: u32, bytes: usize) -> Vec<u8> {
    mark.to_le_bytes().repeat(bytes / 4)
}

/// Writes whole blocks, each with a mark of its own; blocks whose write fails are given back. What was written, and how many writes failed.
fn fill(
    flash: &mut Function,
    level: FunctionId,
    blocks: &mut BTreeMap<u32, FlashAddress>,
    writes: u32,
) -> u32 {
    let geometry = flash.function_geometry(level);
    let bytes = geometry.block_bytes() as usize;
    let first = blocks.keys().next_back().map_or(1, |mark| mark + 1);
    let mut failed = 0;
    for mark in first..first + writes {
        let channel = mark % geometry.channel_count;
        let address = match flash.address_mapper(level, channel, Mapping::Block) {
            Ok(allocated) => allocated.address,
            Err(FlashError::Refused(LevelError::NoBlock { .. })) => {
                let oldest = blocks.iter().find(|(_, at)| at.channel == channel).map(|(mark, _)| *mark);
                let Some(oldest) = oldest else { continue };
                let given = blocks.remove(&oldest).expect("it is there");
                flash.flash_trim(level, given).expect("it is mapped");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        match flash.flash_write(level, address, mark, &image(mark, bytes)) {
            Ok(()) => {
                blocks.insert(mark, address);
            }
            Err(_) => {
                failed += 1;
                flash.flash_trim(level, address).expect("it is mapped");
            }
        }
        if mark % 10 == 0 {
            for [one, other] in flash.wear_leveler(level).expect("it answers").swapped {
                for at in blocks.values_mut() {
                    *at = if *at == one {
                        other
                    } else if *at == other {
                        one
                    } else {
                        *at
                    };
                }
            }
        }
        flash.function(level).check();
    }
    failed
}

fn compare(
    flash: &mut Function,
    level: FunctionId,
    blocks: &BTreeMap<u32, FlashAddress>,
    dead: Option<(u32, u32)>,
) {
    let bytes = flash.function_geometry(level).block_bytes() as usize;
    let mut data = vec![0; bytes];
    for (&mark, &at) in blocks {
        let read = flash.flash_read(level, at, 0, &mut data);
        if dead == Some((at.channel, at.lun)) {
            assert_eq!(read, Err(FlashError::Drive(Status::UnrecoveredRead)), "{at}");
        } else {
            read.unwrap_or_else(|error| panic!("{at}: {error}"));
            assert!(data == image(mark, bytes), "{at}");
        }
    }
}

#[test]
fn the_function_level_finds_its_blocks_after_power_cuts_on_failing_flash() {
    for sets in [&[][..], &FAULTS] {
        let (mut flash, mut level) = function(device(sets));
        let (mut blocks, mut erases) = (BTreeMap::new(), 0);
        for _ in 0..12 {
            fill(&mut flash, level, &mut blocks, 60);
            compare(&mut flash, level, &blocks, None);
            erases += flash.function(level).counters().erases;
            (flash, level) = function(cut(flash.drive()));
            let found: BTreeMap<u32, FlashAddress> =
                flash.found(level).iter().filter_map(|found| Some((found.mark?, found.address))).collect();
            for (mark, at) in &mut blocks {
                *at = *found.get(mark).unwrap_or_else(|| panic!("mark {mark} is lost"));
            }
            let ours: Vec<FlashAddress> = blocks.values().copied().collect();
            flash.recover(level, &ours).expect("they were found");
            compare(&mut flash, level, &blocks, None);
        }
        assert!(erases > 100, "{erases} erases");
    }
}

/// A LUN dies: its data are lost and reported so; nothing else is, and the level goes on with the others.
#[test]
fn a_dying_lun_costs_what_it_holds_and_nothing_else() {
    let (mut flash, level) = function(device(&[]));
    let mut blocks = BTreeMap::new();
    assert_eq!(fill(&mut flash, level, &mut blocks, 100), 0);
    let now = flash.now();
    flash.act_on_drive(|drive| drive.inject(now, Fault::KillDie { die: DieId(1) }).expect("there is one"));
    compare(&mut flash, level, &blocks, Some((0, 1)));
    // The application gives up what it has lost.
    let lost: Vec<u32> =
        blocks.iter().filter(|(_, at)| (at.channel, at.lun) == (0, 1)).map(|(m, _)| *m).collect();
    assert!(!lost.is_empty());
    for mark in lost {
        let at = blocks.remove(&mark).expect("it is there");
        flash.flash_trim(level, at).expect("it is mapped");
    }
    let failed = fill(&mut flash, level, &mut blocks, 400);
    assert!(failed > 0 && failed <= 40, "{failed} writes failed: each block of the dead LUN once");
    compare(&mut flash, level, &blocks, None);
    flash.rest();
    assert_eq!(flash.function(level).counters().retired, 40);
    assert_eq!(
        fill(&mut flash, level, &mut blocks, 100),
        0,
        "nothing of the dead LUN is handed out any more"
    );
}
