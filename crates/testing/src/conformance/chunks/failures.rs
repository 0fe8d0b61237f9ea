//! Wear, and failing flash, below chunks: handled by host or drive, and reported to the host.

use super::{CHUNK, HOST, NEXT, SUPERPAGE, fill};
use crate::conformance::Bench;
use pellucid_flash::{ChunkOp, ChunkReason, ChunkState, Command, Lba, Opcode, Status};

pub(super) fn shared() {
    let mut bench = Bench::new(
        "[[drive.namespace]]\ninterface = \"open-channel\"\nmanagement = \"shared\"\nspare_blocks = 2\n",
        &[
            "drive.media.faults.list=[{kind=\"factory-bad\",die=0,block=0},{kind=\"erase-fail\",die=0,block=1,after_erases=1}]",
        ],
    );
    assert_eq!(bench.chunks().chunks, 4);
    let lba = bench.lba(0, 0, 0, 0);
    for round in 0..13 {
        assert_eq!(bench.write(lba, CHUNK, round).status, Status::Success);
        bench.power_cut();
        assert!(bench.read(lba, CHUNK).data == bench.pattern(lba, CHUNK, round));
        let reset = bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
        assert_eq!((reset.status, bench.chunk(lba).state), (Status::Success, ChunkState::Free));
    }
    let worn: Vec<u32> = bench.drive.erase_counts().filter(|&erases| erases > 0).collect();
    assert_eq!(worn, [3; 4], "one chunk wears all good blocks of its die alike");
}

pub(super) fn wear_notice() {
    let mut bench = Bench::new(&format!("{HOST}wear_gap = 3\n"), &[]);
    let lba = bench.lba(1, 0, 2, 0);
    for round in 1..=3 {
        bench.write(lba, SUPERPAGE, round);
        bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
        let notices = bench.notices();
        assert_eq!(notices.len(), usize::from(round == 3));
        assert!(notices.iter().all(|n| n.reason == ChunkReason::Wear && n.lba == lba));
    }
}

pub(super) fn offline_chunk() {
    let mut bench = Bench::new(HOST, &["drive.media.faults.list=[{kind=\"factory-bad\",die=2,block=3}]"]);
    let lba = bench.lba(1, 0, 3, 0);
    assert_eq!(bench.chunk(lba).state, ChunkState::Offline);
    assert_eq!(bench.write(lba, SUPERPAGE, 1).status, Status::ChunkWriteInvalid);
    assert_eq!(
        bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new())).status,
        Status::ChunkOffline
    );
    let read = bench.read(lba, 2);
    assert_eq!((read.status, read.data.iter().all(|&b| b == 0)), (Status::Success, true));
}

pub(super) fn erase_failure() {
    let mut bench =
        Bench::new(HOST, &["drive.media.faults.list=[{kind=\"erase-fail\",die=0,block=1,after_erases=2}]"]);
    let lba = bench.lba(0, 0, 1, 0);
    let reset = Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new());
    fill(&mut bench, lba);
    assert_eq!(bench.run(reset.clone()).status, Status::Success);
    fill(&mut bench, lba);
    assert_eq!(bench.run(reset.clone()).status, Status::ChunkOffline);
    assert_eq!(bench.chunk(lba).state, ChunkState::Offline);
    assert_eq!(bench.run(reset).status, Status::ChunkOffline);
    bench.power_cut();
    assert_eq!(bench.chunk(lba).state, ChunkState::Offline);
}

const FAILING: &str = "drive.media.faults.list=[{kind=\"program-fail\",die=0,block=1,superpage=2}]";

pub(super) fn write_failure_closes() {
    let mut bench = Bench::new(HOST, &[FAILING]);
    let lba = bench.lba(0, 0, 1, 0);
    let addresses: Vec<Lba> = (0..32).map(|i| Lba(lba.0 + i)).collect();
    let data = bench.pattern(lba, 4 * SUPERPAGE, 1);
    let write = bench.run(bench.vector(Opcode::Write, &addresses, data));
    assert_eq!((write.status, write.result), (Status::ChunkClosedEarly, 0xFFFF_0000));
    for _ in 0..2 {
        let info = bench.chunk(lba);
        assert_eq!((info.state, info.write_pointer), (ChunkState::Closed, 2 * SUPERPAGE));
        assert!(bench.read(lba, 2 * SUPERPAGE).data == bench.pattern(lba, 2 * SUPERPAGE, 1));
        assert_eq!(bench.write(Lba(lba.0 + 16), SUPERPAGE, 1).status, Status::ChunkWriteInvalid);
        bench.power_cut();
    }
    let reset = bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
    assert_eq!((reset.status, bench.chunk(lba).state), (Status::ChunkOffline, ChunkState::Offline));
}

pub(super) fn write_failure_next() {
    let mut bench = Bench::new(NEXT, &[FAILING]);
    let lba = bench.lba(0, 0, 1, 0);
    let addresses: Vec<Lba> = (0..32).map(|i| Lba(lba.0 + i)).collect();
    let data = bench.pattern(lba, 4 * SUPERPAGE, 1);
    let write = bench.run(bench.vector(Opcode::Write, &addresses, data));
    assert_eq!((write.status, write.result), (Status::ChunkWriteFailed, 0x00FF_0000));
    let info = bench.chunk(lba);
    assert_eq!((info.state, info.write_pointer), (ChunkState::Open, 4 * SUPERPAGE));
    assert!(bench.read(Lba(lba.0 + 24), SUPERPAGE).data == bench.pattern(lba, 4 * SUPERPAGE, 1)[24 * 1024..]);
    assert_eq!(bench.read(Lba(lba.0 + 16), 1).status, Status::UnrecoveredRead);
    assert_eq!(bench.write(Lba(lba.0 + 32), 4 * SUPERPAGE, 1).status, Status::Success);
}

pub(super) fn unrecoverable() {
    let mut bench =
        Bench::new(HOST, &["drive.media.faults.list=[{kind=\"read-fail\",die=0,block=0,superpage=1}]"]);
    let lba = bench.lba(0, 0, 0, 0);
    bench.write(lba, 3 * SUPERPAGE, 1);
    let addresses = [Lba(lba.0 + 16), Lba(lba.0 + 8), lba];
    let read = bench.run(bench.vector(Opcode::Read, &addresses, vec![0xEE; 3 * 1024]));
    assert_eq!((read.status, read.result), (Status::UnrecoveredRead, 0b010));
    let pattern = bench.pattern(lba, 3 * SUPERPAGE, 1);
    assert!(read.data[..1024] == pattern[16 * 1024..17 * 1024] && read.data[2048..] == pattern[..1024]);
    let notices = bench.notices();
    assert_eq!(
        (notices.len(), notices[0].reason, notices[0].lba),
        (1, ChunkReason::Unrecoverable, addresses[1])
    );
    assert_eq!(bench.drive.counters().read_retries, 2);
}

pub(super) fn media_feedback() {
    let faulty = "drive.media.faults.list=[{kind=\"read-fail\",die=0,block=0,superpage=1,attempts=1},\
                  {kind=\"read-fail\",die=0,block=0,superpage=2,attempts=2}]";
    for (namespace, medium, high) in [
        (HOST.to_string(), Status::Success, Status::Success),
        (format!("{HOST}very_high_ecc = true\n"), Status::Success, Status::HighEcc),
        (format!("{HOST}high_ecc = true\n"), Status::HighEcc, Status::HighEcc),
    ] {
        let mut bench = Bench::new(&namespace, &[faulty]);
        let lba = bench.lba(0, 0, 0, 0);
        bench.write(lba, 3 * SUPERPAGE, 1);
        let pattern = bench.pattern(lba, 3 * SUPERPAGE, 1);
        for (superpage, status, reason) in
            [(1, medium, ChunkReason::ErrorsMedium), (2, high, ChunkReason::ErrorsHigh)]
        {
            let read = bench.read(Lba(lba.0 + superpage * 8), SUPERPAGE);
            assert_eq!(read.status, status, "{namespace}");
            assert!(
                read.data == pattern[superpage as usize * 8192..][..8192],
                "the data are good all the same"
            );
            let notices = bench.notices();
            assert_eq!((notices.len(), notices[0].reason, notices[0].count), (1, reason, superpage));
        }
        assert_eq!(bench.read(lba, SUPERPAGE).status, Status::Success);
        assert!(bench.notices().is_empty());
    }
}
