//! NVMe Zoned Namespaces 1.1.

mod failures;

use super::{Bench, Case};
use pellucid_flash::{
    ChunkOp, Command, Completion, Lba, Opcode, Status, ZoneAction, ZoneInfo, ZoneOp, ZoneState,
};

/// Zones of 2 dies: 16 superpages of 8 sectors.
const ZONED: &str = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\n";

macro_rules! cases {
    ($($name:literal: $run:path),* $(,)?) => {
        &[$(Case { name: concat!("zoned: ", $name), run: $run }),*]
    };
}

pub(super) const CASES: &[Case] = cases![
    "a zone is a power of two long, its capacity what its dies hold": geometry,
    "what is written in pieces of any size comes back": pieces,
    "a write must begin at the write pointer (1BCh)": invalid_write,
    "a write must end inside the zone (1B8h)": boundary,
    "a full zone takes no write (1B9h)": full,
    "append says where its data went": append,
    "appends in flight get one place each": appends_in_flight,
    "behind the write pointer there are zeros": unwritten,
    "a report lists states, capacities and write pointers": report,
    "every action in every state": transitions,
    "open zones are limited: the oldest implicitly open one is closed": implicit_close,
    "explicitly open zones are not closed for others (1BEh)": open_limit,
    "active zones are limited (1BDh)": active_limit,
    "actions on all zones concern those that they can": select_all,
    "finish makes a zone full, also after a power cut": finish,
    "reset makes a zone empty, and it can be written again": reset,
    "without a flush a power cut leaves a prefix": prefix,
    "a flush makes a partly written superpage durable": flush,
    "a forced write is durable by itself": forced,
    "a protected buffer keeps everything acknowledged": protected,
    "a reset is not undone by a power cut": reset_stays,
    "the staging log goes round": log_turns,
    "a failed program goes on in another block": failures::program_failure,
    "without a block left a zone is read-only (1BAh), and can go offline (1BBh)": failures::read_only,
    "read-only and offline outlive a power cut": failures::states_stay,
    "a power cut closes open zones, and empties those with nothing in them": failures::open_zones_close,
    "what was flushed to a zone that fails stays": failures::failed_zone_keeps,
    "a lost sector is an error of its command, and its zone should be reset": failures::lost_sector,
    "commands of other command sets, and wrong fields, are refused": refused,
    "zones take the least worn blocks": wear,
];

const SUPERPAGE: u32 = 8;
const ZONE: u64 = 128;

fn zone(n: u64) -> Lba {
    Lba(n * ZONE)
}

fn at(n: u64, sector: u64) -> Lba {
    Lba(n * ZONE + sector)
}

fn info(bench: &mut Bench, n: u64) -> ZoneInfo {
    let report = bench.run(Command::new(0, Opcode::Report, at(n, 3), 1, Vec::new()));
    ZoneInfo::decode(report.data.as_slice().try_into().expect("one descriptor")).expect("a descriptor")
}

fn state(bench: &mut Bench, n: u64) -> ZoneState {
    info(bench, n).state
}

fn act(bench: &mut Bench, n: u64, action: ZoneAction) -> Status {
    bench.run(Command::new(0, Opcode::Zone(ZoneOp::Change(action)), zone(n), 0, Vec::new())).status
}

fn flush_all(bench: &mut Bench) -> Status {
    bench.run(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())).status
}

fn write(bench: &mut Bench, lba: Lba, sectors: u32) -> Completion {
    bench.write(lba, sectors, 1)
}

fn expect_data(bench: &mut Bench, lba: Lba, sectors: u32) {
    let read = bench.read(lba, sectors);
    assert_eq!(read.status, Status::Success);
    assert!(read.data == bench.pattern(lba, sectors, 1), "{sectors} sectors from {}", lba.0);
}

fn geometry() {
    let bench = Bench::new(
        "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 4\nspare_blocks = 1\nactive_max = 3\nopen_max = 2\nappend_max = 9\n",
        &["drive.media.pages=6"],
    );
    let g = bench.zones();
    assert_eq!((g.zones, g.zone_sectors, g.capacity_sectors), (5, 256, 192));
    assert_eq!((g.open_max, g.active_max, g.append_max_sectors, g.sector_bytes), (2, 3, 9, 1024));
}

fn pieces() {
    for store in ["drive.media.store=\"ram\"", "drive.media.store=\"none\""] {
        for buffer in ["drive.buffer.write=\"write-back\"", "drive.buffer.write=\"write-through\""] {
            let mut bench = Bench::new(ZONED, &[store, buffer]);
            let mut done = 0;
            for sectors in [1, 3, 7, 8, 9, 20, 1, 33, 5] {
                assert_eq!(write(&mut bench, at(2, done), sectors).status, Status::Success);
                done += u64::from(sectors);
                assert_eq!(info(&mut bench, 2).write_pointer, at(2, done));
                expect_data(&mut bench, zone(2), done as u32);
            }
            expect_data(&mut bench, at(2, 13), 40);
        }
    }
}

fn invalid_write() {
    let mut bench = Bench::new(ZONED, &[]);
    assert_eq!(write(&mut bench, at(0, 1), 1).status, Status::ZoneInvalidWrite);
    assert_eq!(state(&mut bench, 0), ZoneState::Empty, "nothing has changed");
    write(&mut bench, zone(0), 3);
    for sector in [0, 2, 4] {
        assert_eq!(write(&mut bench, at(0, sector), 1).status, Status::ZoneInvalidWrite);
    }
    assert_eq!(info(&mut bench, 0).write_pointer, at(0, 3));
}

fn boundary() {
    let mut bench = Bench::new(ZONED, &[]);
    write(&mut bench, zone(0), 120);
    assert_eq!(write(&mut bench, at(0, 120), 9).status, Status::ZoneBoundary);
    assert_eq!(info(&mut bench, 0).write_pointer, at(0, 120));
    assert_eq!(write(&mut bench, at(0, 120), 8).status, Status::Success);
    assert_eq!(bench.read(at(0, 124), 8).status, Status::ZoneBoundary, "reads end with the zone too");
    let last = Lba(8 * ZONE - 1);
    assert_eq!(bench.read(last, 2).status, Status::LbaOutOfRange);
}

fn full() {
    let mut bench = Bench::new(ZONED, &[]);
    write(&mut bench, zone(1), 128);
    assert_eq!(state(&mut bench, 1), ZoneState::Full);
    assert_eq!(write(&mut bench, zone(1), 1).status, Status::ZoneFull);
    let append = bench.run(Command::new(0, Opcode::Zone(ZoneOp::Append), zone(1), 1, vec![0; 1024]));
    assert_eq!(append.status, Status::ZoneFull);
    expect_data(&mut bench, zone(1), 128);
}

fn append() {
    let mut bench = Bench::new(ZONED, &[]);
    let mut expected = zone(3).0;
    for sectors in [1, 8, 5] {
        let data = bench.pattern(Lba(expected), sectors, 1);
        let done = bench.run(Command::new(0, Opcode::Zone(ZoneOp::Append), zone(3), sectors, data));
        assert_eq!((done.status, done.result), (Status::Success, expected));
        expected += u64::from(sectors);
    }
    expect_data(&mut bench, zone(3), 14);
    let command = |lba, sectors: u32| {
        Command::new(0, Opcode::Zone(ZoneOp::Append), lba, sectors, vec![0; sectors as usize * 1024])
    };
    assert_eq!(bench.run(command(at(3, 14), 1)).status, Status::InvalidField, "not the start of the zone");
    assert_eq!(bench.run(command(zone(3), 9)).status, Status::InvalidField, "longer than append_max");
    assert_eq!(info(&mut bench, 3).write_pointer, at(3, 14));
}

fn appends_in_flight() {
    let mut bench = Bench::new(ZONED, &[]);
    let tags: Vec<u64> = (0..20)
        .map(|i| {
            bench.submit(Command::new(
                0,
                Opcode::Zone(ZoneOp::Append),
                zone(0),
                6,
                vec![i as u8 + 1; 6 * 1024],
            ))
        })
        .collect();
    let mut places = Vec::new();
    for (i, tag) in tags.into_iter().enumerate() {
        let done = bench.wait(tag);
        assert_eq!(done.status, Status::Success);
        let read = bench.read(Lba(done.result), 6);
        assert!(read.data.iter().all(|&b| b == i as u8 + 1));
        places.push(done.result);
    }
    places.sort_unstable();
    assert_eq!(places, (0..20).map(|i| i * 6).collect::<Vec<u64>>());
}

fn unwritten() {
    let mut bench = Bench::new(ZONED, &[]);
    write(&mut bench, zone(0), 5);
    let read = bench.read(at(0, 4), 6);
    assert_eq!(read.status, Status::Success);
    assert!(read.data[..1024] == bench.pattern(at(0, 4), 1, 1) && read.data[1024..].iter().all(|&b| b == 0));
}

fn report() {
    let mut bench = Bench::new(ZONED, &[]);
    write(&mut bench, zone(2), 9);
    let all = bench.run(Command::new(0, Opcode::Report, Lba(0), 8, Vec::new()));
    assert_eq!((all.status, all.data.len()), (Status::Success, 8 * ZoneInfo::BYTES));
    for (n, bytes) in all.data.chunks_exact(ZoneInfo::BYTES).enumerate() {
        let info = ZoneInfo::decode(bytes.try_into().expect("64 bytes")).expect("a descriptor");
        let (state, written) = if n == 2 { (ZoneState::ImplicitlyOpen, 9) } else { (ZoneState::Empty, 0) };
        assert_eq!((info.start, info.capacity_sectors), (zone(n as u64), ZONE));
        assert_eq!((info.state, info.write_pointer), (state, at(n as u64, written)));
    }
    let beyond = bench.run(Command::new(0, Opcode::Report, zone(7), 2, Vec::new()));
    assert_eq!(beyond.status, Status::LbaOutOfRange);
}

/// Brings zone 0 of a new drive into `state`.
fn zone_in(state_wanted: ZoneState) -> Bench {
    let mut bench = Bench::new(ZONED, &[]);
    match state_wanted {
        ZoneState::Empty => {}
        ZoneState::ImplicitlyOpen => drop(write(&mut bench, zone(0), 3)),
        ZoneState::ExplicitlyOpen => drop(act(&mut bench, 0, ZoneAction::Open)),
        ZoneState::Closed => {
            write(&mut bench, zone(0), 3);
            act(&mut bench, 0, ZoneAction::Close);
        }
        ZoneState::Full => drop(act(&mut bench, 0, ZoneAction::Finish)),
        ZoneState::ReadOnly | ZoneState::Offline => {
            bench = failures::starved_zone();
            if state_wanted == ZoneState::Offline {
                act(&mut bench, 0, ZoneAction::Offline);
            }
        }
    }
    assert_eq!(state(&mut bench, 0), state_wanted);
    bench
}

fn transitions() {
    use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
    let states = [Empty, ImplicitlyOpen, ExplicitlyOpen, Closed, Full, ReadOnly, Offline];
    let no = None;
    for (action, ends) in [
        (
            ZoneAction::Open,
            [
                Some(ExplicitlyOpen),
                Some(ExplicitlyOpen),
                Some(ExplicitlyOpen),
                Some(ExplicitlyOpen),
                no,
                no,
                no,
            ],
        ),
        (ZoneAction::Close, [no, Some(Closed), Some(Closed), Some(Closed), no, no, no]),
        (ZoneAction::Finish, [Some(Full), Some(Full), Some(Full), Some(Full), Some(Full), no, no]),
        (ZoneAction::Reset, [Some(Empty), Some(Empty), Some(Empty), Some(Empty), Some(Empty), no, no]),
        (ZoneAction::Offline, [no, no, no, no, no, Some(Offline), Some(Offline)]),
    ] {
        for (before, end) in states.into_iter().zip(ends) {
            let mut bench = zone_in(before);
            let status = act(&mut bench, 0, action);
            let expected = if end.is_some() { Status::Success } else { Status::ZoneInvalidTransition };
            assert_eq!(
                (status, state(&mut bench, 0)),
                (expected, end.unwrap_or(before)),
                "{action:?} of {before:?}"
            );
        }
    }
}

const LIMITED: &str = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 1\nspare_blocks = 2\nactive_max = 3\nopen_max = 2\n";

/// The start of zone `n` of [`LIMITED`], whose zones have 64 sectors.
fn small(n: u64) -> Lba {
    Lba(n * 64)
}

fn small_state(bench: &mut Bench, n: u64) -> ZoneState {
    let report = bench.run(Command::new(0, Opcode::Report, small(n), 1, Vec::new()));
    ZoneInfo::decode(report.data.as_slice().try_into().expect("one descriptor")).expect("a descriptor").state
}

fn small_act(bench: &mut Bench, n: u64, action: ZoneAction) -> Status {
    bench.run(Command::new(0, Opcode::Zone(ZoneOp::Change(action)), small(n), 0, Vec::new())).status
}

fn implicit_close() {
    let mut bench = Bench::new(LIMITED, &[]);
    for n in 0..3 {
        assert_eq!(bench.write(small(n), 3, 1).status, Status::Success);
    }
    let states: Vec<ZoneState> = (0..3).map(|n| small_state(&mut bench, n)).collect();
    assert_eq!(states, [ZoneState::Closed, ZoneState::ImplicitlyOpen, ZoneState::ImplicitlyOpen]);
    assert_eq!(bench.write(Lba(3), 3, 1).status, Status::Success, "a closed one is opened again");
    assert_eq!(small_state(&mut bench, 1), ZoneState::Closed);
}

fn open_limit() {
    let mut bench = Bench::new(LIMITED, &[]);
    assert_eq!(small_act(&mut bench, 0, ZoneAction::Open), Status::Success);
    assert_eq!(small_act(&mut bench, 1, ZoneAction::Open), Status::Success);
    assert_eq!(small_act(&mut bench, 2, ZoneAction::Open), Status::TooManyOpenZones);
    assert_eq!(bench.write(small(2), 1, 1).status, Status::TooManyOpenZones);
    assert_eq!(small_state(&mut bench, 2), ZoneState::Empty);
    assert_eq!(small_act(&mut bench, 0, ZoneAction::Close), Status::Success);
    assert_eq!(bench.write(small(2), 1, 1).status, Status::Success);
}

fn active_limit() {
    let mut bench = Bench::new(LIMITED, &[]);
    for n in 0..3 {
        bench.write(small(n), 1, 1);
        assert_eq!(small_act(&mut bench, n, ZoneAction::Close), Status::Success);
    }
    assert_eq!(bench.write(small(3), 1, 1).status, Status::TooManyActiveZones);
    assert_eq!(small_act(&mut bench, 3, ZoneAction::Open), Status::TooManyActiveZones);
    assert_eq!(small_state(&mut bench, 3), ZoneState::Empty);
    assert_eq!(small_act(&mut bench, 1, ZoneAction::Finish), Status::Success);
    assert_eq!(bench.write(small(3), 1, 1).status, Status::Success);
}

fn select_all() {
    use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen};
    let prepared = || {
        let mut bench = Bench::new(LIMITED, &["drive.buffer.write=\"write-back\""]);
        small_act(&mut bench, 0, ZoneAction::Finish);
        bench.write(small(1), 1, 1);
        small_act(&mut bench, 1, ZoneAction::Close);
        bench.write(small(2), 1, 1);
        small_act(&mut bench, 3, ZoneAction::Open);
        bench
    };
    for (action, status, ends) in [
        (ZoneAction::CloseAll, Status::Success, [Full, Closed, Closed, Closed, Empty]),
        (ZoneAction::FinishAll, Status::Success, [Full, Full, Full, Full, Empty]),
        (ZoneAction::OpenAll, Status::Success, [Full, ExplicitlyOpen, Closed, ExplicitlyOpen, Empty]),
        (ZoneAction::ResetAll, Status::Success, [Empty, Empty, Empty, Empty, Empty]),
        (ZoneAction::OfflineAll, Status::Success, [Full, Closed, ImplicitlyOpen, ExplicitlyOpen, Empty]),
    ] {
        let mut bench = prepared();
        assert_eq!(small_act(&mut bench, 0, action), status, "{action:?}");
        let states: Vec<ZoneState> = (0..5).map(|n| small_state(&mut bench, n)).collect();
        assert_eq!(states, ends, "{action:?}");
    }
    let mut bench = prepared();
    small_act(&mut bench, 2, ZoneAction::Open);
    assert_eq!(small_act(&mut bench, 0, ZoneAction::OpenAll), Status::TooManyOpenZones);
    assert_eq!(small_state(&mut bench, 1), Closed);
}

fn finish() {
    for sectors in [0, 3, 8, 50] {
        let mut bench = Bench::new(ZONED, &[]);
        if sectors > 0 {
            write(&mut bench, zone(1), sectors);
        }
        assert_eq!(act(&mut bench, 1, ZoneAction::Finish), Status::Success);
        for _ in 0..2 {
            assert_eq!(state(&mut bench, 1), ZoneState::Full, "{sectors} sectors");
            if sectors > 0 {
                expect_data(&mut bench, zone(1), sectors);
            }
            assert!(bench.read(at(1, sectors.into()), 60).data.iter().all(|&b| b == 0), "{sectors} sectors");
            assert_eq!(write(&mut bench, at(1, sectors.into()), 1).status, Status::ZoneFull);
            bench.power_cut();
        }
    }
}

fn reset() {
    let mut bench = Bench::new(ZONED, &[]);
    for round in 0..4 {
        assert_eq!(bench.write(zone(0), 100, round).status, Status::Success);
        assert!(bench.read(zone(0), 100).data == bench.pattern(zone(0), 100, round));
        assert_eq!(act(&mut bench, 0, ZoneAction::Reset), Status::Success);
        let zone_info = info(&mut bench, 0);
        assert_eq!((zone_info.state, zone_info.write_pointer), (ZoneState::Empty, zone(0)));
        assert!(bench.read(zone(0), 100).data.iter().all(|&b| b == 0));
    }
    assert_eq!(bench.drive.counters().erases.iter().sum::<u64>(), 8, "two blocks in each round");
}

fn prefix() {
    let mut bench = Bench::new(ZONED, &["drive.buffer.write=\"write-back\""]);
    assert_eq!(write(&mut bench, zone(0), 50).status, Status::Success);
    bench.power_cut();
    let written = (info(&mut bench, 0).write_pointer.0 - zone(0).0) as u32;
    assert!(written <= 48 && written.is_multiple_of(SUPERPAGE), "{written} sectors of whole superpages");
    if written > 0 {
        expect_data(&mut bench, zone(0), written);
    }
    assert_eq!(bench.write(at(0, written.into()), 5, 1).status, Status::Success);
    expect_data(&mut bench, at(0, written.into()), 5);
}

fn flush() {
    let mut bench = Bench::new(ZONED, &["drive.buffer.write=\"write-back\""]);
    let mut done = 0;
    for sectors in [3, 2, 20, 1, 9] {
        write(&mut bench, at(1, done), sectors);
        done += u64::from(sectors);
        assert_eq!(flush_all(&mut bench), Status::Success);
        bench.power_cut();
        let zone_info = info(&mut bench, 1);
        assert_eq!((zone_info.state, zone_info.write_pointer), (ZoneState::Closed, at(1, done)));
        expect_data(&mut bench, zone(1), done as u32);
    }
}

fn forced() {
    let mut bench = Bench::new(ZONED, &["drive.buffer.write=\"write-back\""]);
    let mut done = 0;
    for sectors in [3, 2, 20, 1, 9] {
        let data = bench.pattern(at(1, done), sectors, 1);
        let mut command = Command::new(0, Opcode::Write, at(1, done), sectors, data);
        command.fua = true;
        assert_eq!(bench.run(command).status, Status::Success);
        done += u64::from(sectors);
        bench.power_cut();
        assert_eq!(info(&mut bench, 1).write_pointer, at(1, done));
        expect_data(&mut bench, zone(1), done as u32);
    }
}

fn protected() {
    let mut bench =
        Bench::new(&format!("{ZONED}buffer = \"protected\"\n"), &["drive.buffer.write=\"write-back\""]);
    let mut done = 0;
    for sectors in [3, 2, 40, 1, 9] {
        write(&mut bench, at(1, done), sectors);
        done += u64::from(sectors);
        bench.power_cut();
        assert_eq!(info(&mut bench, 1).write_pointer, at(1, done));
        expect_data(&mut bench, zone(1), done as u32);
    }
}

fn reset_stays() {
    for sectors in [3, 11, 40] {
        let mut bench = Bench::new(ZONED, &[]);
        write(&mut bench, zone(0), 3);
        flush_all(&mut bench);
        write(&mut bench, at(0, 3), sectors);
        flush_all(&mut bench);
        assert_eq!(act(&mut bench, 0, ZoneAction::Reset), Status::Success);
        bench.power_cut();
        assert_eq!(state(&mut bench, 0), ZoneState::Empty);
        assert!(bench.read(zone(0), 16).data.iter().all(|&b| b == 0));
    }
}

fn log_turns() {
    let mut bench = Bench::new(ZONED, &["drive.buffer.write=\"write-back\""]);
    let mut done = [0u64; 3];
    for i in 0..120u64 {
        let n = i % 3;
        if done[n as usize] < 120 {
            write(&mut bench, at(n, done[n as usize]), 3);
            done[n as usize] += 3;
        }
        assert_eq!(flush_all(&mut bench), Status::Success);
        if i % 17 == 0 {
            bench.power_cut();
        }
    }
    assert!(bench.drive.counters().erases.iter().sum::<u64>() > 5, "the log was never erased");
    for n in 0..3 {
        expect_data(&mut bench, zone(n), done[n as usize] as u32);
    }
}

fn refused() {
    let mut bench = Bench::new(ZONED, &[]);
    for opcode in
        [Opcode::Trim, Opcode::WriteZeroes, Opcode::Chunk(ChunkOp::Reset), Opcode::Chunk(ChunkOp::Copy)]
    {
        assert_eq!(bench.run(Command::new(0, opcode, Lba(0), 8, Vec::new())).status, Status::InvalidOpcode);
    }
    let open = |lba, sectors| {
        Command::new(0, Opcode::Zone(ZoneOp::Change(ZoneAction::Open)), lba, sectors, Vec::new())
    };
    for (what, command, status) in [
        ("no sectors", Command::new(0, Opcode::Read, Lba(0), 0, Vec::new()), Status::InvalidField),
        ("no data", Command::new(0, Opcode::Write, Lba(0), 1, Vec::new()), Status::InvalidField),
        ("an action inside a zone", open(Lba(1), 0), Status::InvalidField),
        ("an action with a length", open(Lba(0), 1), Status::InvalidField),
        ("a zone that is not there", open(zone(8), 0), Status::LbaOutOfRange),
        ("a vector", bench.vector(Opcode::Read, &[Lba(0)], Vec::new()), Status::InvalidField),
    ] {
        assert_eq!(bench.run(command).status, status, "{what}");
    }
}

fn wear() {
    let mut bench = Bench::new(ZONED, &[]);
    for round in 0..30 {
        assert_eq!(bench.write(zone(0), 128, round).status, Status::Success);
        assert_eq!(act(&mut bench, 0, ZoneAction::Reset), Status::Success);
    }
    let worn: Vec<u32> = bench.drive.erase_counts().filter(|&e| e > 0).collect();
    assert_eq!((worn.len(), worn.iter().max()), (12, Some(&5)), "both dies of the zone in all their blocks");
}
