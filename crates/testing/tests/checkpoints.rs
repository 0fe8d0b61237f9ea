//! Checkpoints of the map: a whole round takes as many programs as `ftl.checkpoint_every` says, also while GC writes most of them.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, MapReason, Opcode, Rng};
use pellucid_testing::swarm::tiny;

/// Entries of a translation page of 1 KiB, behind its 16 bytes of header.
const ENTRIES: u64 = (1024 - 16) / 4;

fn drive(every: u64) -> Device {
    let sets = ["media.blocks=128", "media.unit_size=1024", "ftl.over_provisioning=0.25"];
    let mut sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    sets.push(format!("ftl.checkpoint_every={every}"));
    Device::new(&tiny(&sets)).unwrap()
}

/// Programs of any cause, and translation pages of checkpoints.
fn counted(device: &Device) -> (u64, u64) {
    let pages = device.ftl_counters().map.writes[MapReason::Flush as usize];
    (device.counters().programs.iter().sum(), pages)
}

/// Writes 16 units at a time, each where `place` says.
fn write(device: &mut Device, count: u64, mut place: impl FnMut(u64) -> u64) {
    for first in (0..count).step_by(16) {
        for tag in first..first + 16 {
            let data = vec![0; device.image_bytes()];
            device.submit(device.now(), Command::new(tag, Opcode::Write, Lba(place(tag)), 1, data));
        }
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        while device.pop().is_some() {}
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_round_of_checkpoints_takes_as_many_programs_as_asked_under_gc() {
    for every in [100, 300, 1_000, 3_000] {
        let mut device = drive(every);
        let units = device.namespace(0).capacity_sectors();
        let mut rng = Rng::stream(1, "overwrites");
        write(&mut device, units, |tag| tag % units);
        write(&mut device, units, |_| rng.below(units));
        let (programs, pages) = counted(&device);
        let victims: u64 = device.ftl_counters().victims.iter().sum();
        write(&mut device, 60_000, |_| rng.below(units));
        let (programs, pages) = (counted(&device).0 - programs, counted(&device).1 - pages);
        let victims = device.ftl_counters().victims.iter().sum::<u64>() - victims;
        let rounds = pages as f64 / units.div_ceil(ENTRIES) as f64;
        let mean = programs as f64 / rounds;
        assert!(victims > 500 && rounds > 10.0, "{every}: {victims} victims, {rounds} rounds");
        assert!(
            (mean / every as f64 - 1.0).abs() < 0.1,
            "{mean:.0} programs for {every}, {rounds:.1} rounds"
        );
    }
}
