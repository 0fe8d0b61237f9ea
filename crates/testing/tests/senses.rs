//! One sense brings all units of a command that lie in a page, of all planes that work together.

use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Lba, Opcode, Status};
use pellucid_lab::drive::{Unwatched, precondition};

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

/// Datacenter-tlc, half of it written in order: a superpage is three pages of four planes, 48 units of 4 KiB.
fn drive(sets: &[&str]) -> Device {
    let sets = [
        "media.channels=1",
        "media.ways=1",
        "media.pages=48",
        "ftl.over_provisioning=0.15",
        "buffer.entries=96",
        "precondition.fill=0.5",
    ]
    .iter()
    .chain(&PLAIN)
    .chain(sets);
    let sets: Vec<String> = sets.map(ToString::to_string).collect();
    let spec = pellucid_spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    device
}

/// Senses for a read of `sectors` from `lba` on, and its latency in nanoseconds.
fn read(device: &Device, lba: u64, sectors: u32) -> (u64, u64) {
    let mut device = device.clone();
    let before = device.counters();
    device.submit(device.now(), Command::new(0, Opcode::Read, Lba(lba), sectors, Vec::new()));
    let completion = loop {
        if let Some(completion) = device.pop() {
            break completion;
        }
        let next = device.next_event().expect("a read ends");
        device.advance(next);
    };
    assert_eq!(completion.status, Status::Success);
    let latency = (completion.completed - completion.submitted).0;
    assert_eq!(completion.stages.total().0, latency, "stages sum to the latency");
    device.check();
    let after = device.counters();
    let host = Cause::Host as usize;
    (after.reads[host] - before.reads[host], latency)
}

#[test]
fn a_large_read_senses_each_page_once() {
    let device = drive(&[]);
    assert_eq!(read(&device, 0, 1).0, 1);
    assert_eq!(read(&device, 0, 16).0, 1, "64 KiB, the pages of four planes");
    assert_eq!(read(&device, 8, 16).0, 2, "from the middle of one to the middle of the next");
    assert_eq!(read(&device, 0, 48).0, 3, "a word line has three pages");
    assert_eq!(read(&device, 0, 96).0, 6);
}

#[test]
fn a_large_read_takes_one_sense_and_its_transfer() {
    let device = drive(&["media.timing.op_spread=0", "media.timing.die_spread=0"]);
    let ((_, one), (_, all)) = (read(&device, 0, 1), read(&device, 0, 16));
    // 15 units more at 2.9 us each on the channel, and at 0.5 us on the host link.
    assert!(all > one + 15 * 2_600 && all < one + 15 * 3_600, "{one} {all}");
}

#[test]
fn units_that_cannot_be_read_at_once_are_read_again_alone() {
    let device = drive(&["media.faults.read_fail=0.2"]);
    for lba in (0..800).step_by(16) {
        assert_eq!(read(&device, lba, 16).0, 1, "sector {lba}: retries apart");
    }
}
