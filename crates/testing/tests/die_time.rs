//! The time of a die: senses of GC, and operations that count as work.

use pellucid_device::{Device, Filler};
use pellucid_flash::{Cause, Command, Lba, Lpn, Opcode, Rng};
use pellucid_testing::swarm::tiny;

fn drive(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"))
}

fn settle(device: &mut Device) {
    while let Some(next) = device.next_event() {
        device.advance(next);
        while device.pop().is_some() {}
    }
}

/// Overwrites units of one sector at random; senses of GC, and units that it moved.
fn collect(sets: &[&str]) -> (u64, u64) {
    let mut device = drive(sets);
    let mut rng = Rng::new(1);
    for _ in 0..6 * device.namespace(0).capacity_sectors() {
        let lba = Lba(rng.below(device.namespace(0).capacity_sectors()));
        let data = vec![0; device.image_bytes()];
        device.submit(device.now(), Command::new(0, Opcode::Write, lba, 1, data));
        settle(&mut device);
    }
    (device.counters().reads[Cause::Gc as usize], device.ftl_counters().copied_units)
}

#[test]
fn collection_senses_a_page_once() {
    let small = ["media.unit_size=1024", "media.page_size=1024", "media.pages=64"];
    let (senses, moved) = collect(&small);
    assert!(moved > 500 && senses >= moved, "a page is a unit: {senses} senses for {moved} units");
    let (senses, moved) = collect(&["media.unit_size=1024"]);
    assert!(moved > 500 && senses * 5 < moved * 4, "a page is four units: {senses} senses for {moved} units");
    let planes = ["media.unit_size=1024", "media.planes=2", "media.multi_plane=true"];
    let (both, moved_by_both) = collect(&planes);
    let share = |senses: u64, moved: u64| senses as f64 / moved as f64;
    assert!(share(both, moved_by_both) < share(senses, moved), "{both} senses for {moved_by_both} units");
}

#[test]
fn a_die_that_waits_for_its_first_command_is_idle() {
    let mut device =
        drive(&["media.channels=1", "media.ways=2", "media.timing.command=\"1ms\"", "buffer.retain=false"]);
    let (mut filler, image) = (Filler::default(), vec![1; 4 * device.image_bytes()]);
    (0..8).for_each(|lpn| device.fill_unit(&mut filler, Lpn(lpn), &image).unwrap_or_else(|e| panic!("{e}")));
    let before = device.busy().dies();
    for die in 0..2 {
        let lies_there = |lpn: &u32| {
            device.namespace(0).locate(Lpn(*lpn)).is_some_and(|p| device.layout().die_of(p).0 == die)
        };
        let lpn = (0..8).find(lies_there).expect("every die has some");
        device.submit(device.now(), Command::new(0, Opcode::Read, Lba(4 * u64::from(lpn)), 4, Vec::new()));
    }
    settle(&mut device);
    // The second command crosses the channel behind the first one: a millisecond of waiting, and one of work.
    assert!(device.now().0 > 2_000_000);
    let busy_ns = device.busy().dies()[1].0 - before[1].0;
    assert!((1_050_000..1_200_000).contains(&busy_ns), "{busy_ns}");
}
