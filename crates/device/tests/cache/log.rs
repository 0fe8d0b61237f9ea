//! Writes of a cache beside its data: lists of full blocks, checkpoints on flush and when it is idle.

use crate::config::{Shape, config};
use pellucid_device::Device;
use pellucid_flash::{CacheOp, Cause, Command, Lba, Nanos, Opcode, SimTime, Status};
use pellucid_ftl::{Checkpoint, MapLog};

/// Runs one command to its end.
fn ask(drive: &mut Device, opcode: Opcode, block: u64, blocks: u32) -> Status {
    let unit = drive.layout().sectors_per_unit;
    let sectors = blocks * unit;
    let carries = matches!(opcode, Opcode::Cache(CacheOp::WriteDirty | CacheOp::WriteClean) | Opcode::Read);
    let data = vec![1; if carries { sectors as usize * drive.image_bytes() } else { 0 }];
    let now = drive.now();
    drive.submit(now, Command::new(1, opcode, Lba(block * u64::from(unit)), sectors, data));
    loop {
        if let Some(done) = drive.pop() {
            return done.status;
        }
        let next = drive.next_event().expect("a command ends");
        drive.advance(next);
    }
}

/// A cache of one die that has taken this many blocks of the backing store, dirty, and a flush.
fn written(log: MapLog, checkpoint: Checkpoint, blocks: u64) -> Device {
    let shape = Shape { blocks: 64, log, checkpoint, checkpoint_every: 1 << 40, ..Shape::small() };
    let mut drive = Device::new(&config(&shape)).unwrap_or_else(|e| panic!("{e}"));
    for block in 0..blocks {
        assert_eq!(ask(&mut drive, Opcode::Cache(CacheOp::WriteDirty), block, 1), Status::Success);
    }
    assert_eq!(ask(&mut drive, Opcode::Flush, 0, 0), Status::Success);
    drive.check();
    drive
}

fn journal_programs(drive: &Device) -> u64 {
    drive.counters().programs[Cause::Journal as usize]
}

/// A block of 16 superpages of one unit takes 15 of data; the list is a program more, and a mount reads it instead of 16 spare areas.
#[test]
fn a_full_block_ends_with_its_list() {
    let (blocks, full) = (155, 10);
    let mut spare = written(MapLog::SpareArea, Checkpoint::Rolling, blocks);
    let mut listed = written(MapLog::LastPage, Checkpoint::Rolling, blocks);
    assert_eq!(journal_programs(&spare), 0);
    assert_eq!(journal_programs(&listed), full);
    let (spare_mount, listed_mount) = (spare.power_cut().unwrap(), listed.power_cut().unwrap());
    assert_eq!(spare_mount.replay_reads, blocks);
    assert_eq!(listed_mount.replay_reads, full + blocks % 15);
    for drive in [&mut spare, &mut listed] {
        drive.check();
        for block in 0..blocks {
            assert_eq!(ask(drive, Opcode::Read, block, 1), Status::Success, "block {block}");
        }
    }
}

/// The power is cut at every event between the last data of a block and the end of its list.
#[test]
fn a_block_whose_list_is_torn_is_read_by_its_spare_areas() {
    let mut drive = written(MapLog::LastPage, Checkpoint::Rolling, 14);
    let unit = drive.layout().sectors_per_unit;
    let data = vec![1; unit as usize * drive.image_bytes()];
    let now = drive.now();
    let mut command =
        Command::new(1, Opcode::Cache(CacheOp::WriteDirty), Lba(14 * u64::from(unit)), unit, data);
    command.fua = true;
    drive.submit(now, command);
    let mut cuts = 0;
    while let Some(next) = drive.next_event() {
        drive.advance(next);
        let acknowledged = drive.pop().is_some();
        let mut cut = drive.clone();
        cut.power_cut().unwrap();
        cut.check();
        while cut.pop().is_some() {}
        for block in 0..14 + u64::from(acknowledged) {
            assert_eq!(ask(&mut cut, Opcode::Read, block, 1), Status::Success, "block {block}, cut {cuts}");
        }
        for block in 20..300 {
            assert_eq!(ask(&mut cut, Opcode::Cache(CacheOp::WriteDirty), block, 1), Status::Success);
        }
        cut.check();
        cuts += 1;
    }
    assert!(cuts > 5, "{cuts}");
    assert_eq!(journal_programs(&drive), 1);
}

/// With `OnFlush` a flush writes what has changed of the table, once, and the next mount has nothing to replay.
#[test]
fn a_flush_writes_the_table() {
    let blocks = 40;
    let mut rolling = written(MapLog::SpareArea, Checkpoint::Rolling, blocks);
    assert_eq!(journal_programs(&rolling), 0);
    assert_eq!(rolling.power_cut().unwrap().replay_reads, blocks);
    let mut drive = written(MapLog::SpareArea, Checkpoint::OnFlush, blocks);
    let programs = journal_programs(&drive);
    assert!(programs > 0);
    assert_eq!(ask(&mut drive, Opcode::Flush, 0, 0), Status::Success);
    assert_eq!(journal_programs(&drive), programs, "nothing has changed");
    assert_eq!(ask(&mut drive, Opcode::Cache(CacheOp::Clean), 0, 1), Status::Success);
    assert_eq!(ask(&mut drive, Opcode::Flush, 0, 0), Status::Success);
    assert_eq!(journal_programs(&drive), programs + 1, "one region has");
    drive.power_cut().unwrap();
    assert_eq!(ask(&mut drive, Opcode::Cache(CacheOp::Exists), 0, 1), Status::Success);
    let state = |drive: &mut Device, block| {
        let unit = drive.layout().sectors_per_unit;
        drive.submit(
            drive.now(),
            Command::new(1, Opcode::Cache(CacheOp::Exists), Lba(block * u64::from(unit)), unit, Vec::new()),
        );
        loop {
            if let Some(done) = drive.pop() {
                return done.data[0];
            }
            let next = drive.next_event().expect("a command ends");
            drive.advance(next);
        }
    };
    assert_eq!((state(&mut drive, 0), state(&mut drive, 1)), (1, 2), "cleaned before the checkpoint");
}

/// An idle cache writes what has changed after five seconds, and a command that comes before puts that off.
#[test]
fn an_idle_cache_writes_its_table() {
    let shape =
        Shape { blocks: 64, checkpoint: Checkpoint::OnFlush, checkpoint_every: 1 << 40, ..Shape::small() };
    let mut drive = Device::new(&config(&shape)).unwrap_or_else(|e| panic!("{e}"));
    for block in 0..20 {
        assert_eq!(ask(&mut drive, Opcode::Cache(CacheOp::WriteDirty), block, 1), Status::Success);
    }
    let rest = |drive: &mut Device, until: SimTime| {
        while let Some(next) = drive.next_event().filter(|&next| next <= until) {
            drive.advance(next);
        }
    };
    let began = drive.now();
    rest(&mut drive, began + Nanos::from_secs(4));
    drive.advance(began + Nanos::from_secs(4));
    assert_eq!(journal_programs(&drive), 0);
    assert_eq!(ask(&mut drive, Opcode::Read, 3, 1), Status::Success);
    let read = drive.now();
    rest(&mut drive, read + Nanos::from_secs(4));
    assert_eq!(journal_programs(&drive), 0, "it was not idle for five seconds");
    rest(&mut drive, read + Nanos::from_secs(6));
    let written = journal_programs(&drive);
    assert!(written > 0);
    rest(&mut drive, read + Nanos::from_secs(60));
    assert_eq!(journal_programs(&drive), written, "once");
    drive.check();
}
