//! The LUNs that an application gets, and the addresses that it cannot reach.

use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba, Opcode, SimTime, Status,
    Vector, ZoneOp,
};
use pellucid_prism::{AppId, Monitor, MonitorConfig, MonitorError, Request};

fn start(drive: Reference) -> Monitor<Reference> {
    Monitor::start(drive, MonitorConfig::default(), SimTime::ZERO).expect("blank media")
}

fn request(luns: u64, monitor: &Monitor<Reference>, over_provisioning: f64) -> Request {
    Request { capacity_bytes: luns * monitor.lun_bytes(), over_provisioning }
}

fn run(monitor: &mut Monitor<Reference>, command: Command) -> Completion {
    monitor.submit(monitor.now(), command);
    while monitor.completed() == 0 {
        let next = monitor.next_event().expect("it goes on");
        monitor.advance(next);
    }
    monitor.check();
    monitor.pop().expect("it has ended")
}

fn write(namespace: u16, lba: u64, fill: u8) -> Command {
    let mut command = Command::new(7, Opcode::Write, Lba(lba), 4, vec![fill; 4 * 512]);
    command.vector = Some(Box::new(Vector { metadata: vec![fill; 64], ..Vector::default() }));
    Command { namespace, ..command }
}

fn read(namespace: u16, lba: u64) -> Command {
    Command { namespace, ..Command::new(8, Opcode::Read, Lba(lba), 4, vec![0; 4 * 512]) }
}

fn reset(namespace: u16, lba: u64) -> Command {
    Command { namespace, ..Command::new(9, Opcode::Chunk(ChunkOp::Reset), Lba(lba), 0, Vec::new()) }
}

fn states(monitor: &mut Monitor<Reference>, id: AppId) -> Vec<ChunkState> {
    let Some(Interface::OpenChannel(own)) = monitor.interface(id.0) else { panic!("open") };
    let count = own.parallel_units() * own.chunks;
    let report = Command { namespace: id.0, ..Command::new(1, Opcode::Report, Lba(0), count, Vec::new()) };
    let ended = run(monitor, report);
    assert_eq!(ended.status, Status::Success);
    let infos: Vec<ChunkInfo> =
        ended.data.as_chunks().0.iter().map(|b| ChunkInfo::decode(b).expect("one")).collect();
    for (number, info) in (0..).zip(&infos) {
        assert_eq!(info.start, own.lba(own.chunk_at(number)), "block {number}");
    }
    infos.iter().map(|info| info.state).collect()
}

/// The example of the paper: 12 channels of 16 LUNs.
#[test]
fn the_papers_example_is_two_luns_of_each_channel_and_six_more() {
    let mut monitor = start(Reference::new(geometry(12, 16, 12, 192, 4), 1));
    let plain = monitor.allocate("plain", request(24, &monitor, 0.0)).expect("room");
    assert_eq!(plain.wanted_luns, [24, 0]);
    assert_eq!((plain.geometry.channel_count, plain.geometry.luns_each_channel), (12, 2));
    let units: Vec<u32> = monitor.applications().next().expect("one").units;
    assert_eq!(
        units.iter().map(|unit| unit / 16).collect::<Vec<_>>(),
        (0..12).flat_map(|c| [c, c]).collect::<Vec<_>>()
    );
    let spare = monitor.allocate("spare", request(24, &monitor, 0.25)).expect("room");
    assert_eq!(spare.wanted_luns, [24, 6]);
    // 30 do not divide among 12 channels; ten of them have three each.
    assert_eq!((spare.geometry.channel_count, spare.geometry.luns_each_channel), (10, 3));
    assert_eq!(monitor.free_luns(), 192 - 24 - 30);
    monitor.check();
}

#[test]
fn what_does_not_fit_is_refused_in_a_sentence_and_changes_nothing() {
    let quotas = [("small".to_string(), 2)].into();
    let config = MonitorConfig { quotas, quota_luns: 6, ..MonitorConfig::default() };
    let drive = Reference::new(geometry(2, 4, 16, 64, 4), 1);
    let mut monitor = Monitor::start(drive, config, SimTime::ZERO).expect("blank media");
    let lun = monitor.lun_bytes();
    monitor.allocate("first", request(4, &monitor, 0.25)).expect("room");
    let mut refused = |name: &str, capacity_bytes, over_provisioning| {
        let before = monitor.applications().collect::<Vec<_>>();
        let error = monitor.allocate(name, Request { capacity_bytes, over_provisioning }).expect_err(name);
        assert_eq!(monitor.applications().collect::<Vec<_>>(), before);
        error.to_string()
    };
    assert_eq!(
        refused("first", lun, 0.0),
        "first: an application of this name exists; open it, or release it first"
    );
    assert_eq!(
        refused("a b", lun, 0.0),
        "application name \"a b\": allowed: letters, digits, '-', '_' and '.', 1 to 255 of them"
    );
    assert_eq!(refused("small", 2 * lun, 0.5), "small: 3 LUNs; its quota is 2");
    assert_eq!(refused("big", 6 * lun + 1, 0.0), "big: 7 LUNs; its quota is 6");
    assert_eq!(
        refused("more", 3 * lun, 0.0),
        "3 LUNs of 360448 bytes wanted; 2 are free, at most 2 for one application, which has as many in each of its channels"
    );
    assert!(refused("none", 0, 0.0).starts_with("capacity 0 bytes"));
    assert!(refused("none", 1, f64::NAN).contains("over-provisioning NaN"));
    assert!(refused("none", u64::MAX, 100.0).contains("its quota is 6"));
    assert_eq!(monitor.release("x").unwrap_err().to_string(), "x: no such application; there are first");
    let tiny = Reference::new(geometry(2, 4, 5, 64, 4), 1);
    let error = Monitor::start(tiny, MonitorConfig::default(), SimTime::ZERO).expect_err("too small");
    assert_eq!(error, MonitorError::TooSmall { blocks: 5, hidden: 5 });
    let mut strange = Reference::new(geometry(2, 4, 16, 64, 4), 1);
    strange.submit(SimTime::ZERO, write(0, 0, 1));
    strange.advance(SimTime(1_000_000));
    strange.pop();
    let error =
        Monitor::start(strange.clone(), MonitorConfig::default(), strange_now()).expect_err("not blank");
    assert_eq!(error, MonitorError::NotBlank { blocks: 1 });
    let config = MonitorConfig { format: true, ..MonitorConfig::default() };
    Monitor::start(strange, config, strange_now()).expect("format");
}

fn strange_now() -> SimTime {
    SimTime(1_000_000)
}

#[test]
fn applications_and_their_data_survive_a_restart() {
    let drive = Reference::new(geometry(2, 4, 16, 64, 4), 1);
    let mut monitor = start(drive);
    let a = monitor.allocate("a", request(2, &monitor, 0.0)).expect("room").id;
    let b = monitor.allocate("b", request(4, &monitor, 0.0)).expect("room").id;
    assert_eq!(run(&mut monitor, write(a.0, 0, 1)).status, Status::Success);
    assert_eq!(run(&mut monitor, write(b.0, 0, 2)).status, Status::Success);
    let known: Vec<_> = monitor.applications().map(|app| (app.id, app.name, app.units)).collect();
    // Another monitor on the same media.
    let (mut drive, now) = (monitor.drive.clone(), monitor.now());
    drive.power_cut();
    let mut again = Monitor::start(drive, MonitorConfig::default(), now).expect("its state");
    assert_eq!(again.applications().map(|app| (app.id, app.name, app.units)).collect::<Vec<_>>(), known);
    assert_eq!(again.interface(a.0), None, "not open yet");
    assert_eq!((again.open("a"), again.open("b")), (Ok(a), Ok(b)));
    assert_eq!(run(&mut again, read(a.0, 0)).data, vec![1; 2048]);
    assert_eq!(run(&mut again, read(b.0, 0)).data, vec![2; 2048]);
    assert_eq!(states(&mut again, a)[..2], [ChunkState::Open, ChunkState::Free]);
    // The next application does not see the data of the previous one.
    again.release("a").expect("it is there");
    let c = again.allocate("c", request(2, &again, 0.0)).expect("room").id;
    assert_eq!(c, a);
    assert!(states(&mut again, c).iter().all(|&state| state == ChunkState::Free));
    // The same monitor, after a cut.
    again.drive.power_cut();
    again.restart(again.now()).expect("its state");
    assert_eq!(run(&mut again, read(b.0, 0)).data, vec![2; 2048]);
}

#[test]
fn no_command_reaches_beyond_the_allocation() {
    let mut monitor = start(Reference::new(geometry(2, 4, 16, 64, 4), 1));
    let a = monitor.allocate("a", request(2, &monitor, 0.0)).expect("room").id;
    let b = monitor.allocate("b", request(6, &monitor, 0.0)).expect("room").id;
    let Some(Interface::OpenChannel(own)) = monitor.interface(a.0) else { panic!("open") };
    assert_eq!((own.groups, own.units, own.chunks), (2, 1, 11));
    run(&mut monitor, write(a.0, 0, 1));
    run(&mut monitor, write(b.0, 0, 2));
    let written = monitor.drive.commands;
    let beyond = own.address_space_sectors();
    let hole = own.lba(own.chunk_at(10)).0 + 64;
    let mut bad = Vec::new();
    for lba in [beyond, hole, 1 << 40, u64::MAX, u64::MAX - 3] {
        bad.extend([read(a.0, lba), write(a.0, lba, 9), reset(a.0, lba)].map(|command| (command, 1)));
        let report = Command::new(1, Opcode::Report, Lba(lba), 1, Vec::new());
        bad.push((Command { namespace: a.0, ..report }, 1));
        // One bad address refuses the whole list.
        let listed = |opcode, destinations: Vec<Lba>| {
            let vector = Vector { addresses: vec![Lba(0), Lba(lba)], destinations, metadata: Vec::new() };
            let sectors = if opcode == Opcode::Chunk(ChunkOp::Reset) { 0 } else { 2 };
            let data = if opcode == Opcode::Read { vec![0; 1024] } else { Vec::new() };
            let command = Command::new(1, opcode, Lba(0), sectors, data);
            Command { namespace: a.0, vector: Some(Box::new(vector)), ..command }
        };
        bad.push((listed(Opcode::Read, Vec::new()), 1));
        bad.push((listed(Opcode::Write, Vec::new()), 1));
        bad.push((listed(Opcode::Chunk(ChunkOp::Reset), Vec::new()), 1));
        bad.push((listed(Opcode::Chunk(ChunkOp::Copy), vec![Lba(64), Lba(65)]), 1));
        let vector = Vector { addresses: vec![Lba(0)], destinations: vec![Lba(lba)], metadata: Vec::new() };
        let copy = Command::new(1, Opcode::Chunk(ChunkOp::Copy), Lba(0), 1, Vec::new());
        bad.push((Command { namespace: a.0, vector: Some(Box::new(vector)), ..copy }, 1));
    }
    // Runs that leave their block, and reports that leave the flash.
    bad.push((Command { sectors: 5, ..read(a.0, 60) }, 1));
    bad.push((Command { sectors: u32::MAX, ..read(a.0, 0) }, 1));
    bad.push((Command { namespace: a.0, ..Command::new(1, Opcode::Report, Lba(0), 23, Vec::new()) }, 1));
    let mut refused = 0;
    for (command, counted) in bad {
        let text = format!("{command:?}");
        let ended = run(&mut monitor, command);
        assert_eq!(ended.status, Status::LbaOutOfRange, "{text}");
        refused += counted;
    }
    for opcode in [Opcode::Trim, Opcode::WriteZeroes, Opcode::Zone(ZoneOp::Append), Opcode::NextUnit] {
        let ended =
            run(&mut monitor, Command { namespace: a.0, ..Command::new(1, opcode, Lba(0), 1, Vec::new()) });
        assert_eq!(ended.status, Status::InvalidOpcode);
    }
    for namespace in [2, 9, u16::MAX] {
        assert_eq!(run(&mut monitor, read(namespace, 0)).status, Status::InvalidField);
    }
    assert_eq!(monitor.drive.commands, written, "nothing reached the drive");
    assert_eq!(monitor.statistics(a).expect("open").refused, refused);
    assert_eq!(run(&mut monitor, read(b.0, 0)).data, vec![2; 2048]);
    assert_eq!(run(&mut monitor, read(a.0, 0)).data, vec![1; 2048]);
}

#[test]
fn applications_outlive_the_blocks_of_the_records() {
    let mut monitor = start(Reference::new(geometry(2, 4, 16, 64, 4), 1));
    let a = monitor.allocate("a", request(2, &monitor, 0.0)).expect("room").id;
    run(&mut monitor, write(a.0, 0, 1));
    let Some(Interface::OpenChannel(own)) = monitor.interface(a.0) else { panic!("open") };
    let second = own.lba(own.chunk_at(1)).0;
    run(&mut monitor, write(a.0, second, 2));
    monitor.drive.faults = Faults { write: 1.0, reset: 1.0, read: 0.0 };
    let more = request(1, &monitor, 0.0);
    assert_eq!(monitor.allocate("b", more).expect_err("no record of it"), MonitorError::NoState);
    // A block of the application fails and is not replaced, as that could not be recorded either.
    assert_eq!(run(&mut monitor, reset(a.0, second)).status, Status::ChunkOffline);
    let known: Vec<_> = monitor.applications().map(|app| (app.id, app.name, app.units)).collect();
    for _ in 0..3 {
        let (mut drive, now) = (monitor.drive.clone(), monitor.now());
        drive.power_cut();
        monitor = Monitor::start(drive, MonitorConfig::default(), now).expect("its newest state");
        assert_eq!(
            monitor.applications().map(|app| (app.id, app.name, app.units)).collect::<Vec<_>>(),
            known
        );
        assert_eq!(monitor.open("a"), Ok(a));
        assert_eq!(run(&mut monitor, read(a.0, 0)).data, vec![1; 2048]);
        assert_eq!(states(&mut monitor, a)[..2], [ChunkState::Open, ChunkState::Offline]);
        assert_eq!(monitor.allocate("b", more).expect_err("no record of it"), MonitorError::NoState);
    }
    // Work that does not change the record continues.
    monitor.drive.faults = Faults::default();
    assert_eq!(run(&mut monitor, write(a.0, 4, 3)).status, Status::Success);
    assert_eq!(run(&mut monitor, reset(a.0, 0)).status, Status::Success);
}

/// The records die while a failed erase waits for a report on its block: it ends all the same.
#[test]
fn every_erase_ends_when_the_records_die() {
    let mut start = start(Reference::new(geometry(2, 4, 16, 64, 4), 1));
    // The second application gets the LUNs with the records' last blocks.
    start.allocate("first", request(2, &start, 0.0)).expect("room");
    let a = start.allocate("a", request(2, &start, 0.0)).expect("room").id;
    let Some(Interface::OpenChannel(own)) = start.interface(a.0) else { panic!("open") };
    let blocks = [0, own.chunks].map(|block| own.lba(own.chunk_at(block)).0);
    for block in blocks {
        run(&mut start, write(a.0, block, 1));
    }
    start.drive.faults = Faults { write: 1.0, reset: 1.0, read: 0.0 };
    for delay in 0..1500 {
        let mut monitor = start.clone();
        let now = monitor.now();
        monitor.submit(now, reset(a.0, blocks[0]));
        let later = SimTime(now.0 + 3 * delay);
        while let Some(next) = monitor.next_event().filter(|&next| next < later) {
            monitor.advance(next);
        }
        monitor.advance(later);
        monitor.submit(later, reset(a.0, blocks[1]));
        while monitor.completed() < 2 {
            let next =
                monitor.next_event().unwrap_or_else(|| panic!("{} of 2 ended, {delay}", monitor.completed()));
            monitor.advance(next);
        }
        while let Some(ended) = monitor.pop() {
            assert_eq!(ended.status, Status::ChunkOffline, "it cannot be replaced");
        }
        monitor.check();
    }
}
