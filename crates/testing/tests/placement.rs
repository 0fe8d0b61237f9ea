//! Placement handles at the drive: which commands it takes, what it tells, and a cut of the power.

use pellucid_device::Device;
use pellucid_flash::{
    Command, Completion, Drive, HandleInfo, Interface, Lba, Opcode, PlacementEventKind, Status,
};
use pellucid_testing::swarm::tiny;

fn drive(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"))
}

fn three() -> Device {
    drive(&["ftl.handles=3", "ftl.over_provisioning=1.5", "buffer.write=write-through"])
}

fn run(device: &mut Device, command: Command) -> Completion {
    device.submit(device.now(), command);
    loop {
        if let Some(completion) = device.pop() {
            return completion;
        }
        let next = device.next_event().expect("a command in flight");
        device.advance(next);
    }
}

fn write(device: &mut Device, lba: u64, sectors: u32, handle: u16) -> Status {
    let data = vec![7; sectors as usize * device.image_bytes()];
    run(device, Command { handle, ..Command::new(1, Opcode::Write, Lba(lba), sectors, data) }).status
}

fn handles(device: &mut Device) -> Vec<HandleInfo> {
    let report = run(device, Command::new(2, Opcode::Report, Lba(0), 3, Vec::new()));
    assert_eq!(report.status, Status::Success);
    report.data.as_chunks::<{ HandleInfo::BYTES }>().0.iter().map(HandleInfo::decode).collect()
}

#[test]
fn a_drive_without_placement_refuses_what_is_about_it() {
    let mut device = drive(&[]);
    assert_eq!(device.namespace(0).placement(), None);
    assert!(matches!(Drive::interface(&device, 0), Some(Interface::Block { handles: 1, .. })));
    for opcode in [Opcode::Report, Opcode::NextUnit] {
        let ended = run(&mut device, Command::new(1, opcode, Lba(0), 1, Vec::new()));
        assert_eq!(ended.status, Status::InvalidOpcode);
    }
    assert_eq!(write(&mut device, 0, 4, 1), Status::InvalidField);
    assert_eq!(device.namespace(0).placement_events().count(), 0);
}

#[test]
fn writes_to_handles_beyond_the_last_go_to_the_first_and_are_noted() {
    let mut device = three();
    assert_eq!(write(&mut device, 0, 4, 4), Status::Success);
    assert_eq!(device.namespace(0).placement_events().count(), 0, "no kind of event is enabled at first");
    device.enable_placement_events(0, u8::MAX);
    let left = handles(&mut device)[0].remaining_sectors;
    assert!(matches!(Drive::interface(&device, 0), Some(Interface::Block { handles: 3, .. })));
    assert_eq!(write(&mut device, 0, 4, 2), Status::Success);
    assert_eq!(write(&mut device, 0, 4, 3), Status::Success);
    assert_eq!(handles(&mut device)[0].remaining_sectors, left - 4);
    let next = Command { handle: 3, ..Command::new(1, Opcode::NextUnit, Lba(0), 0, Vec::new()) };
    assert_eq!(run(&mut device, next).status, Status::InvalidField);
    let beyond = run(&mut device, Command::new(1, Opcode::Report, Lba(1), 3, Vec::new()));
    assert_eq!((beyond.status, beyond.data.len()), (Status::LbaOutOfRange, 0));
    let noted: Vec<(PlacementEventKind, u16)> =
        device.namespace(0).placement_events().map(|event| (event.kind, event.handle)).collect();
    assert_eq!(noted, [(PlacementEventKind::InvalidHandle, 3); 2]);
}

#[test]
fn status_and_statistics_follow_the_writes() {
    let mut device = three();
    device.enable_placement_events(0, u8::MAX);
    let unit = device.namespace(0).placement().expect("three handles").unit_bytes / 1024;
    assert_eq!(handles(&mut device).iter().map(|h| h.remaining_sectors).collect::<Vec<_>>(), [unit; 3]);
    for lba in [0, 4, 8] {
        assert_eq!(write(&mut device, lba, 4, 1), Status::Success);
    }
    assert_eq!(write(&mut device, 12, 4, 2), Status::Success);
    let left = |device: &mut Device| handles(device).iter().map(|h| h.remaining_sectors).collect::<Vec<_>>();
    assert_eq!(left(&mut device), [unit, unit - 12, unit - 4]);
    let next = Command { handle: 1, ..Command::new(1, Opcode::NextUnit, Lba(0), 0, Vec::new()) };
    assert_eq!(run(&mut device, next).status, Status::Success);
    assert_eq!(left(&mut device), [unit, unit, unit - 4]);
    let event = *device.namespace(0).placement_events().last().expect("a unit was left");
    assert_eq!((event.kind, event.handle), (PlacementEventKind::UnitNotFull, 1));
    assert_eq!((event.sectors, event.at), (unit - 12, device.now()));
    let statistics = device.namespace(0).placement_statistics();
    assert_eq!((statistics.host_bytes, statistics.media_bytes, statistics.erased_bytes), (16384, 16384, 0));
}

#[test]
fn a_power_cut_keeps_data_and_tells_that_units_changed() {
    let mut device = three();
    device.enable_placement_events(0, u8::MAX);
    for round in 0..40 {
        for handle in 0..3 {
            let lba = u64::from(handle) * 40 + round % 10 * 4;
            assert_eq!(write(&mut device, lba, 4, handle), Status::Success);
        }
    }
    device.power_cut().unwrap_or_else(|e| panic!("{e}"));
    device.check();
    // What is noted while there is no time is noted with the next thing that happens.
    assert_eq!(write(&mut device, 0, 4, 1), Status::Success);
    let reset =
        device.namespace(0).placement_events().filter(|event| event.kind == PlacementEventKind::Reset);
    assert_eq!(reset.map(|event| event.handle).collect::<Vec<_>>(), [0, 1, 2]);
    let data = vec![0; 120 * device.image_bytes()];
    let read = run(&mut device, Command::new(3, Opcode::Read, Lba(0), 120, data));
    assert!(read.status == Status::Success && read.data.iter().all(|&byte| byte == 7));
}
