//! Drives with as little spare capacity as is accepted, on flash without faults: they are slow, and never given up.
//!
//! `PELLUCID_FIRST` and `PELLUCID_SEEDS` set the range of seeds that is tried (the latter is its end).

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, Rng, Status};
use pellucid_spec::Spec;
use pellucid_testing::seeds;
use pellucid_testing::swarm::{TINY, sets_of};
use std::panic::catch_unwind;

/// The swarm's drive of `seed`, without faults, with this many user units.
fn with_units(sets: &[String], units: u64) -> Option<Spec> {
    let unit_bytes = pellucid_spec::from_str(TINY, "tiny", sets).ok()?.drive.media.geometry.unit_bytes;
    let capacity = format!("ftl.capacity={}", units * u64::from(unit_bytes));
    let sets: Vec<String> = sets.iter().cloned().chain([capacity]).collect();
    pellucid_spec::from_str(TINY, "tiny", &sets).ok()
}

/// The fullest drive of `sets` that is accepted.
fn fullest(sets: &[String]) -> Option<Device> {
    let (mut accepted, mut refused) = (0, 1 << 16);
    while refused - accepted > 1 {
        let middle = (accepted + refused) / 2;
        match with_units(sets, middle) {
            Some(_) => accepted = middle,
            None => refused = middle,
        }
    }
    let spec = with_units(sets, accepted)?;
    Some(
        Device::new(&spec.drive)
            .unwrap_or_else(|e| panic!("a description was accepted, its drive is not: {e}")),
    )
}

/// Fills the drive, then writes anywhere; everything must end well.
fn use_up(mut device: Device, seed: u64, commands: u64) {
    let image = device.image_bytes();
    let sectors = device.namespace(0).capacity_sectors();
    let mut rng = Rng::stream(seed, "tight");
    let (depth, trims) = (1 + rng.below(16), rng.below(2) == 0);
    let handles = device.namespace(0).placement().map_or(1, |placement| u64::from(placement.handles));
    let mut in_flight = 0;
    for tag in 0..sectors / 4 + commands {
        let fill = tag < sectors / 4;
        let at = if fill { tag * 4 } else { rng.below(sectors - 8) };
        let length = if fill { 4 } else { 1 + rng.below(8) as u32 };
        let roll = rng.below(100);
        let (opcode, lba, length) = match roll {
            _ if fill => (Opcode::Write, at, length),
            0 => (Opcode::Flush, 0, 0),
            1..6 if trims => (Opcode::Trim, at, length),
            _ => (Opcode::Write, at, length),
        };
        let write = opcode == Opcode::Write;
        let data = if write { vec![0; length as usize * image] } else { Vec::new() };
        let handle = if write { rng.below(handles) as u16 } else { 0 };
        let command = Command::new(tag, opcode, Lba(lba), length, data);
        device.submit(device.now(), Command { fua: roll == 50 && write, handle, ..command });
        in_flight += 1;
        loop {
            while let Some(completion) = device.pop() {
                assert_eq!(completion.status, Status::Success, "command {} of {tag}", completion.tag);
                in_flight -= 1;
            }
            if in_flight < depth {
                break;
            }
            let next = device.next_event().expect("commands are in flight");
            device.advance(next);
        }
    }
    assert!(!device.is_read_only());
    device.check();
}

/// Writes that power cuts interrupt all the time; every one that ended before must have ended well.
fn cut_off(mut device: Device, seed: u64, cuts: u64) {
    let image = device.image_bytes();
    let sectors = device.namespace(0).capacity_sectors();
    let mut rng = Rng::stream(seed, "cut off");
    let write = |device: &mut Device, lba: u64| {
        let command = Command::new(0, Opcode::Write, Lba(lba), 4, vec![0; 4 * image]);
        device.submit(device.now(), command);
    };
    for page in 0..sectors / 4 {
        write(&mut device, page * 4);
        while let Some(at) = device.next_event() {
            device.advance(at);
        }
        while device.pop().is_some() {}
    }
    for cut in 0..cuts {
        for _ in 0..4 {
            let page = rng.below(sectors / 4);
            write(&mut device, page * 4);
        }
        for _ in 0..rng.below(if cut % 100 < 60 { 12 } else { 60 }) {
            if let Some(at) = device.next_event() {
                device.advance(at);
            }
        }
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success, "after {cut} cuts");
        }
        device.power_cut().unwrap_or_else(|e| panic!("{e}"));
        while device.pop().is_some() {}
        assert!(!device.is_read_only(), "after {cut} cuts");
    }
    device.check();
}

fn failing(seeds: impl IntoIterator<Item = u64>, run: fn(Device, u64)) -> Vec<u64> {
    let fails = |&seed: &u64| {
        let mut sets = sets_of(seed);
        sets.retain(|set| !set.contains("faults") && !set.contains("over_provisioning"));
        sets.push("ftl.over_provisioning=9".into());
        catch_unwind(|| fullest(&sets).map(|device| run(device, seed))).is_err()
    };
    seeds.into_iter().filter(fails).collect()
}

/// 1691 has a die of stale blocks only, beside others that hold nothing else than valid data.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_fullest_drives_take_writes_for_ever() {
    assert_eq!(
        failing(seeds(60).chain([1691]), |device, seed| use_up(device, seed, 3_000)),
        [0; 0],
        "seeds that failed"
    );
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_fullest_drives_outlive_power_cuts() {
    assert_eq!(failing(seeds(40), |device, seed| cut_off(device, seed, 300)), [0; 0], "seeds that failed");
}

/// One or two dies have to make good all that a cut tears: with 20 % to spare such drives were lost to some hundred cuts.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn small_full_drives_outlive_thousands_of_power_cuts() {
    for channels in ["media.channels=1", "media.channels=2"] {
        for separation in ["ftl.separation=off", "ftl.separation=gc-copies"] {
            let sets = [channels, separation, "buffer.entries=8", "buffer.write=write-through"];
            for seed in 0..3 {
                cut_off(fullest(&sets.map(String::from)).expect("some are accepted"), seed, 2_500);
            }
        }
    }
}
