//! Removing a range of the policy level, and configuring another one on its flash.

use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{Command, Lba, Opcode, SimTime, Status};
use pellucid_host::{HostFtlConfig, Machine, Stack};
use pellucid_prism::{Gc, Mapping, Policy, PolicyConfig, PolicyError};
use std::ops::Range;

const SECTOR: usize = 512;
const OVER_PROVISIONING: f64 = 1.0;
/// Sectors of the two ranges, and of one that fits only where the first was.
const FIRST: Range<u64> = 0..700;
const SECOND: Range<u64> = 700..760;
const THIRD: Range<u64> = 800..1340;
const MAPPINGS: [Mapping; 2] = [Mapping::Page, Mapping::Block];

type Host = Stack<Policy, Reference>;

fn open(drive: Reference, now: SimTime) -> Host {
    let host_ftl = HostFtlConfig { buffer_sectors: 16, spare_chunks: 2, ..HostFtlConfig::default() };
    let config = PolicyConfig { format: false, host_ftl };
    let interface = pellucid_flash::Drive::interface(&drive, 0);
    let policy = Policy::new(0, interface, SECTOR, &config).expect("it is flash");
    Stack::start(policy, drive, now).expect("it starts")
}

fn bytes(range: &Range<u64>) -> Range<u64> {
    range.start * SECTOR as u64..range.end * SECTOR as u64
}

fn settle(host: &mut Host) {
    host.advance(host.now());
    assert!(host.run_until(|policy| policy.is_ready() || policy.failure().is_some(), |_, next| next));
    assert_eq!(host.layer.failure(), None);
    host.layer.check();
}

fn configure(host: &mut Host, mapping: Mapping, range: &Range<u64>) -> Result<(), PolicyError> {
    host.layer.ftl_ioctl(mapping, Gc::Greedy, bytes(range), OVER_PROVISIONING)?;
    settle(host);
    Ok(())
}

/// Content of a range after this many rounds; 0: nothing.
fn images(range: &Range<u64>, round: u8) -> Vec<u8> {
    let byte = |at: u64| match round {
        0 => 0,
        _ => (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ round,
    };
    bytes(range).map(byte).collect()
}

fn command(opcode: Opcode, range: &Range<u64>, data: Vec<u8>) -> Command {
    Command::new(7, opcode, Lba(range.start), (range.end - range.start) as u32, data)
}

fn write(host: &mut Host, range: &Range<u64>, round: u8) {
    let written = host.call(command(Opcode::Write, range, images(range, round))).expect("an answer");
    assert_eq!(written.status, Status::Success);
    let flushed = host.call(Command::new(8, Opcode::Flush, Lba(0), 0, Vec::new())).expect("an answer");
    assert_eq!(flushed.status, Status::Success);
}

fn read(host: &mut Host, range: &Range<u64>) -> Result<Vec<u8>, Status> {
    let room = vec![0xA5; bytes(range).count()];
    let done = host.call(command(Opcode::Read, range, room)).expect("an answer");
    if done.status == Status::Success { Ok(done.data) } else { Err(done.status) }
}

/// Two ranges that have been written several times.
fn prepared(mapping: Mapping, second: Mapping, seed: u64) -> Host {
    // Rows of chunks: for the record, for each range, and too few for the third one.
    let rows = |mapping, page, block| if mapping == Mapping::Page { page } else { block };
    let chunks = 1 + rows(mapping, 28, 22) + rows(second, 13, 2) + 10;
    let mut host = open(Reference::new(geometry(2, 2, chunks, 16, 4), seed), SimTime::ZERO);
    configure(&mut host, mapping, &FIRST).expect("it fits");
    configure(&mut host, second, &SECOND).expect("it fits");
    for round in 1..=5 {
        write(&mut host, &FIRST, round);
        write(&mut host, &SECOND, round);
    }
    host
}

/// A start after a power cut.
fn after_a_cut(host: &Host) -> Host {
    let mut drive = host.drive.clone();
    drive.power_cut();
    open(drive, host.now())
}

fn cases() -> impl Iterator<Item = (Mapping, Mapping, Mapping)> {
    MAPPINGS.into_iter().flat_map(|a| MAPPINGS.into_iter().flat_map(move |b| MAPPINGS.map(|c| (a, b, c))))
}

#[test]
fn a_removed_range_leaves_its_flash_to_another() {
    for (seed, (mapping, second, next)) in (0..).zip(cases()) {
        let mut host = prepared(mapping, second, seed);
        let refused = configure(&mut host, next, &THIRD).expect_err("there is no room");
        assert!(matches!(refused, PolicyError::NoRoom { .. }), "{refused}");

        host.layer.remove_range(bytes(&FIRST)).expect("nothing of it is under way");
        settle(&mut host);
        let mut host = after_a_cut(&host);
        configure(&mut host, second, &SECOND).expect("it is remembered");
        assert_eq!(read(&mut host, &FIRST), Err(Status::LbaOutOfRange));
        assert_eq!(read(&mut host, &SECOND), Ok(images(&SECOND, 5)));
        configure(&mut host, next, &THIRD).expect("there is room now");
        assert_eq!(read(&mut host, &THIRD), Ok(images(&THIRD, 0)), "nothing of the old range shines through");
        for round in 6..12 {
            write(&mut host, &THIRD, round);
        }
        assert_eq!(read(&mut host, &THIRD), Ok(images(&THIRD, 11)));
        assert_eq!(read(&mut host, &SECOND), Ok(images(&SECOND, 5)));
    }
}

/// At every event of a removal, the range either has all its data, or is gone without leftovers.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_removal_survives_a_power_cut_at_any_event() {
    let (mut kept, mut gone) = (0, 0);
    for (seed, (mapping, second, next)) in (0..).zip(cases()) {
        let mut host = prepared(mapping, second, seed);
        host.layer.remove_range(bytes(&FIRST)).expect("nothing of it is under way");
        loop {
            let mut cut = after_a_cut(&host);
            configure(&mut cut, second, &SECOND).expect("it is remembered");
            let there = cut.layer.remembered_ranges().any(|(range, ..)| range == bytes(&FIRST));
            let (range, mapping, round) = if there { (FIRST, mapping, 5) } else { (THIRD, next, 0) };
            configure(&mut cut, mapping, &range).expect("there is room");
            assert_eq!(read(&mut cut, &range), Ok(images(&range, round)));
            write(&mut cut, &range, 9);
            assert_eq!(read(&mut cut, &SECOND), Ok(images(&SECOND, 5)));
            (kept, gone) = (kept + u32::from(there), gone + u32::from(!there));
            if host.layer.is_ready() {
                break;
            }
            let next = host.next_event().expect("it goes on");
            host.advance(next);
        }
    }
    assert!(kept > 20 && gone > 50, "{kept} times still there, {gone} times gone");
}

#[test]
fn a_range_is_removed_when_nothing_of_it_is_under_way() {
    let mut host = prepared(Mapping::Page, Mapping::Block, 3);
    let sentence = |refused: Result<(), PolicyError>| refused.expect_err("it is refused").to_string();
    assert_eq!(
        sentence(host.layer.remove_range(0..512)),
        "range 0 to 512: no such range; existing ranges: 0 to 358400, 358400 to 389120"
    );
    assert!(sentence(host.layer.remove_range(5..7)).contains("multiples of the 512 bytes"));
    host.ask(host.now(), command(Opcode::Read, &FIRST, vec![0; bytes(&FIRST).count()]));
    assert_eq!(
        sentence(host.layer.remove_range(bytes(&FIRST))),
        "range 0 to 358400: 1 commands of it are under way; it can be removed when they have ended"
    );
    // Another range can, meanwhile.
    host.layer.remove_range(bytes(&SECOND)).expect("nothing of it is under way");
    let configured = configure(&mut host, Mapping::Block, &SECOND);
    assert!(configured.is_ok() || sentence(configured).ends_with("it overlaps one that is being removed"));
    settle(&mut host);
    assert_eq!(host.answer().map(|read| read.data), Some(images(&FIRST, 5)));
    // A range that is only recorded.
    let mut host = after_a_cut(&host);
    host.layer.remove_range(bytes(&FIRST)).expect("it is remembered");
    settle(&mut host);
    assert!(host.layer.remembered_ranges().all(|(range, ..)| range != bytes(&FIRST)));
    configure(&mut host, Mapping::Block, &FIRST).expect("there is room");
    assert_eq!(read(&mut host, &FIRST), Ok(images(&FIRST, 0)));
}

/// Failures during the sweep of a range affect no other range.
#[test]
fn erases_that_fail_in_a_removal_harm_nobody() {
    for (seed, (mapping, second, next)) in (0..).zip(cases()) {
        let mut host = prepared(mapping, second, seed);
        host.drive.faults = Faults { write: 0.0, reset: 0.05, read: 0.0 };
        host.layer.remove_range(bytes(&FIRST)).expect("nothing of it is under way");
        settle(&mut host);
        host.drive.faults = Faults::default();
        let fewer = 0..100;
        configure(&mut host, next, &fewer).expect("there is room");
        assert_eq!(read(&mut host, &fewer), Ok(images(&fewer, 0)));
        write(&mut host, &fewer, 7);
        let mut host = after_a_cut(&host);
        configure(&mut host, next, &fewer).expect("it is remembered");
        configure(&mut host, second, &SECOND).expect("it is remembered");
        assert_eq!(read(&mut host, &fewer), Ok(images(&fewer, 7)));
        assert_eq!(read(&mut host, &SECOND), Ok(images(&SECOND, 5)));
    }
}
