//! Open-Channel SSD 2.0.

mod failures;

use super::{Bench, Case};
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Drive, Interface, Lba, Opcode, Status, Vector, ZoneAction,
    ZoneOp,
};

const HOST: &str = "[[drive.namespace]]\ninterface = \"open-channel\"\n";
const NEXT: &str = "[[drive.namespace]]\ninterface = \"open-channel\"\non_write_failure = \"next-unit\"\n";
const DULBE: &str = "[[drive.namespace]]\ninterface = \"open-channel\"\nunwritten = \"error\"\n";

macro_rules! cases {
    ($($name:literal: $run:path),* $(,)?) => {
        &[$(Case { name: concat!("open-channel: ", $name), run: $run }),*]
    };
}

pub(super) const CASES: &[Case] = cases![
    "the geometry follows from the media": geometry,
    "an address has bits for group, unit, chunk and sector": sparse_addresses,
    "what is written comes back, with its metadata": data_and_metadata,
    "a scalar write may span superpages, a scalar read may start anywhere": scalar_ranges,
    "a vector reads sectors of all parallel units, in its order": vector_reads,
    "a vector writes superpages of several chunks": vector_writes,
    "a write must begin at the write pointer (2F2h)": out_of_order,
    "a write must be a multiple of ws_min (2F2h)": unaligned,
    "a vector's superpage must be consecutive addresses (2F2h)": scattered_superpage,
    "a write to a closed chunk is refused (280h)": write_closed,
    "a write out of range is refused (280h)": write_out_of_range,
    "one wrong superpage refuses the whole vector and changes nothing": all_or_none,
    "the report follows free, open, closed, free": states,
    "a report lists chunks of all parallel units and ends with the last": report_range,
    "unwritten sectors read as zeros": predefined_data,
    "with DULBE they are an error (287h), marked in the bitmap": dulbe,
    "of an open chunk the last mw_cunits sectors cannot be read yet": cached_units,
    "a reset erases, counts wear and returns descriptors": reset,
    "a reset of a free chunk, and a second one under way, are refused (2C1h)": invalid_reset,
    "a copy moves sectors and metadata to other chunks": copy,
    "a copy inside a die need not cross the channel": copyback,
    "a copy keeps the rules of writing, and loses nothing silently": refused_copies,
    "a shared drive levels wear and replaces bad blocks below its chunks": failures::shared,
    "a gap in wear is noticed": failures::wear_notice,
    "a factory-bad block is an offline chunk": failures::offline_chunk,
    "a failed erase takes its chunk offline (2C0h)": failures::erase_failure,
    "a failed write closes its chunk early (2F1h)": failures::write_failure_closes,
    "a failed write goes on in the next unit (2F0h)": failures::write_failure_next,
    "a lost sector is an error of its addresses and a notice": failures::unrecoverable,
    "a read that needs a retry is reported (2D0h) and noticed": failures::media_feedback,
    "open chunks are limited in the namespace and in a parallel unit": open_limits,
    "commands of other command sets are refused": foreign_commands,
    "fields that do not fit are refused": wrong_fields,
    "writes in flight keep their order": pipelined_writes,
    "a namespace beside a block namespace has blocks of its own": beside_block,
    "without a block namespace there is no mapping table": no_map,
];

/// Sectors of a superpage of the bench's drive.
const SUPERPAGE: u32 = 8;
const CHUNK: u32 = 64;

fn fill(bench: &mut Bench, lba: Lba) {
    assert_eq!(bench.write(lba, CHUNK, 1).status, Status::Success);
}

fn geometry() {
    let bench = Bench::new(
        "[[drive.namespace]]\ninterface = \"open-channel\"\nwrite_optimal = 2\ncached = 1\nopen_max = 9\nopen_per_unit_max = 3\n",
        &[],
    );
    let g = bench.chunks();
    assert_eq!((g.groups, g.units, g.chunks, g.chunk_sectors, g.sector_bytes), (2, 2, 6, CHUNK, 1024));
    assert_eq!(
        (g.write_min_sectors, g.write_optimal_sectors, g.cached_sectors),
        (SUPERPAGE, 2 * SUPERPAGE, SUPERPAGE)
    );
    assert_eq!((g.open_chunks_max, g.open_chunks_per_unit_max), (9, 3));
    assert_eq!((g.read_ns[0].0, g.write_ns[1].0, g.reset_ns[0].0), (50_000, 400_000, 1_000_000));
}

fn sparse_addresses() {
    let mut bench = Bench::new(HOST, &[]);
    assert_eq!(bench.chunks().address_bits(), [1, 1, 3, 6]);
    let hole = Lba(6 << 6);
    assert_eq!(bench.write(hole, SUPERPAGE, 1).status, Status::ChunkWriteInvalid);
    let read = bench.read(hole, 1);
    assert_eq!((read.status, read.data.iter().all(|&b| b == 0)), (Status::Success, true));
    let report = Command::new(0, Opcode::Report, hole, 1, Vec::new());
    assert_eq!(bench.run(report).status, Status::LbaOutOfRange);
}

fn data_and_metadata() {
    for store in ["drive.media.store=\"ram\"", "drive.media.store=\"none\""] {
        let mut bench = Bench::new(HOST, &[store]);
        let lba = bench.lba(1, 0, 2, 0);
        let data = bench.pattern(lba, SUPERPAGE, 7);
        let metadata: Vec<u8> = (0..SUPERPAGE as u8 * 16).collect();
        let mut write = Command::new(0, Opcode::Write, lba, SUPERPAGE, data.clone());
        write.vector = Some(Box::new(Vector { metadata: metadata.clone(), ..Vector::default() }));
        assert_eq!(bench.run(write).status, Status::Success);
        bench.power_cut();
        let mut read = Command::new(0, Opcode::Read, Lba(lba.0 + 3), 4, vec![0; data.len() / 2]);
        read.vector = Some(Box::new(Vector { metadata: vec![0xEE; 64], ..Vector::default() }));
        let read = bench.run(read);
        let sector = data.len() / SUPERPAGE as usize;
        assert_eq!((read.status, &read.data[..]), (Status::Success, &data[3 * sector..7 * sector]));
        assert_eq!(read.vector.expect("comes back").metadata, metadata[48..112]);
    }
}

fn scalar_ranges() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(0, 1, 0, 0);
    let written = bench.write(lba, 3 * SUPERPAGE, 5);
    assert_eq!(written.status, Status::Success);
    let all = bench.pattern(lba, 3 * SUPERPAGE, 5);
    for (first, count) in [(0, 24), (1, 1), (3, 6), (7, 2), (5, 17), (23, 1)] {
        let read = bench.read(Lba(lba.0 + first), count);
        let bytes = first as usize * 1024..(first as usize + count as usize) * 1024;
        assert_eq!((read.status, &read.data[..]), (Status::Success, &all[bytes]), "{count} from {first}");
    }
}

fn vector_reads() {
    let mut bench = Bench::new(HOST, &[]);
    let mut addresses = Vec::new();
    let mut expected = Vec::new();
    for (group, unit) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let lba = bench.lba(group, unit, 3, 0);
        assert_eq!(bench.write(lba, 2 * SUPERPAGE, 9).status, Status::Success);
        for sector in [15, 2, 3, 7, 8] {
            addresses.push(Lba(lba.0 + sector));
            let all = bench.pattern(lba, 2 * SUPERPAGE, 9);
            expected.extend_from_slice(&all[sector as usize * 1024..][..1024]);
        }
    }
    // A repeated address is read twice.
    addresses.push(addresses[0]);
    expected.extend_from_within(..1024);
    let read = bench.run(bench.vector(Opcode::Read, &addresses, vec![0; expected.len()]));
    assert_eq!((read.status, read.result), (Status::Success, 0));
    assert!(read.data == expected);
}

fn vector_writes() {
    let mut bench = Bench::new(HOST, &[]);
    let starts = [bench.lba(0, 0, 1, 0), bench.lba(1, 1, 5, 0), bench.lba(0, 0, 1, SUPERPAGE)];
    let addresses: Vec<Lba> =
        starts.iter().flat_map(|s| (0..u64::from(SUPERPAGE)).map(|i| Lba(s.0 + i))).collect();
    let data = bench.pattern(Lba(0), 3 * SUPERPAGE, 4);
    let write = bench.run(bench.vector(Opcode::Write, &addresses, data.clone()));
    assert_eq!((write.status, write.result), (Status::Success, 0));
    assert_eq!(bench.chunk(starts[0]).write_pointer, 2 * SUPERPAGE);
    let read = bench.run(bench.vector(Opcode::Read, &addresses, vec![0; data.len()]));
    assert!(read.data == data);
}

fn expect_untouched(bench: &mut Bench, lba: Lba, write: pellucid_flash::Completion, status: Status) {
    assert_eq!(write.status, status);
    assert_eq!(bench.drive.counters().programs.iter().sum::<u64>(), 0, "something was programmed");
    let info = bench.chunk(lba);
    assert_eq!((info.state, info.write_pointer), (ChunkState::Free, 0));
}

fn out_of_order() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(0, 0, 0, 0);
    for sector in [SUPERPAGE, 1, CHUNK - SUPERPAGE] {
        let write = bench.write(Lba(lba.0 + u64::from(sector)), SUPERPAGE, 1);
        expect_untouched(&mut bench, lba, write, Status::ChunkOutOfOrder);
    }
    assert_eq!(bench.write(lba, SUPERPAGE, 1).status, Status::Success);
    assert_eq!(bench.write(lba, SUPERPAGE, 2).status, Status::ChunkOutOfOrder);
    assert!(bench.read(lba, SUPERPAGE).data == bench.pattern(lba, SUPERPAGE, 1));
}

fn unaligned() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(0, 0, 0, 0);
    for sectors in [1, SUPERPAGE - 1, SUPERPAGE + 1] {
        let write = bench.write(lba, sectors, 1);
        expect_untouched(&mut bench, lba, write, Status::ChunkOutOfOrder);
    }
}

fn scattered_superpage() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(0, 0, 0, 0);
    let mut addresses: Vec<Lba> = (0..u64::from(SUPERPAGE)).map(|i| Lba(lba.0 + i)).collect();
    addresses.swap(2, 3);
    let data = bench.pattern(lba, SUPERPAGE, 1);
    let write = bench.run(bench.vector(Opcode::Write, &addresses, data));
    assert_eq!(write.result, 0xFF);
    expect_untouched(&mut bench, lba, write, Status::ChunkOutOfOrder);
}

fn write_closed() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(0, 0, 0, 0);
    fill(&mut bench, lba);
    assert_eq!(bench.write(lba, SUPERPAGE, 2).status, Status::ChunkWriteInvalid);
    // Beyond its end lies the next chunk, not this one.
    assert_eq!(bench.write(Lba(lba.0 + 56), 2 * SUPERPAGE, 2).status, Status::ChunkWriteInvalid);
    assert!(bench.read(lba, CHUNK).data == bench.pattern(lba, CHUNK, 1));
}

fn write_out_of_range() {
    let mut bench = Bench::new(HOST, &[]);
    for lba in [Lba(6 << 6), Lba(1 << 11), Lba(u64::MAX - 8)] {
        assert_eq!(bench.write(lba, SUPERPAGE, 1).status, Status::ChunkWriteInvalid, "{lba:?}");
    }
    assert_eq!(bench.write(Lba(u64::MAX - 3), SUPERPAGE, 1).status, Status::LbaOutOfRange);
}

fn all_or_none() {
    let mut bench = Bench::new(HOST, &["drive.media.faults.list=[{kind=\"factory-bad\",die=1,block=0}]"]);
    let good = bench.lba(0, 0, 0, 0);
    for (bad, status) in [
        (bench.lba(0, 1, 0, 0), Status::ChunkWriteInvalid),
        (bench.lba(1, 0, 0, SUPERPAGE), Status::ChunkOutOfOrder),
        (good, Status::ChunkOutOfOrder),
        (Lba(1 << 40), Status::ChunkWriteInvalid),
    ] {
        let addresses: Vec<Lba> =
            [good, bad].iter().flat_map(|s| (0..u64::from(SUPERPAGE)).map(|i| Lba(s.0 + i))).collect();
        let data = bench.pattern(good, 2 * SUPERPAGE, 1);
        let write = bench.run(bench.vector(Opcode::Write, &addresses, data));
        assert_eq!(write.result, 0xFFFF, "nothing was written, so every address failed");
        expect_untouched(&mut bench, good, write, status);
    }
}

fn states() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(1, 1, 4, 0);
    let expect = |bench: &mut Bench, state, written| {
        let info = bench.chunk(Lba(lba.0 + 5));
        assert_eq!((info.state, info.write_pointer), (state, written));
        assert_eq!((info.start, info.sectors), (lba, CHUNK));
    };
    expect(&mut bench, ChunkState::Free, 0);
    for superpage in 0..8 {
        bench.write(Lba(lba.0 + u64::from(superpage * SUPERPAGE)), SUPERPAGE, 1);
        let state = if superpage == 7 { ChunkState::Closed } else { ChunkState::Open };
        expect(&mut bench, state, (superpage + 1) * SUPERPAGE);
    }
    bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
    expect(&mut bench, ChunkState::Free, 0);
}

fn report_range() {
    let mut bench = Bench::new(HOST, &[]);
    let all = bench.run(Command::new(0, Opcode::Report, Lba(0), 24, Vec::new()));
    assert_eq!((all.status, all.data.len()), (Status::Success, 24 * ChunkInfo::BYTES));
    for (number, bytes) in all.data.chunks_exact(ChunkInfo::BYTES).enumerate() {
        let info = ChunkInfo::decode(bytes.try_into().expect("32 bytes")).expect("a descriptor");
        let geometry = bench.chunks();
        assert_eq!(info.start, geometry.lba(geometry.chunk_at(number as u32)));
    }
    let lba = bench.lba(1, 1, 5, 0);
    let beyond = bench.run(Command::new(0, Opcode::Report, lba, 2, Vec::new()));
    assert_eq!((beyond.status, beyond.data.len()), (Status::LbaOutOfRange, 0));
}

fn predefined_data() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(0, 0, 0, 0);
    bench.write(lba, SUPERPAGE, 3);
    let read = bench.read(lba, SUPERPAGE + 2);
    let mut expected = bench.pattern(lba, SUPERPAGE, 3);
    expected.resize(expected.len() + 2048, 0);
    assert_eq!((read.status, read.result), (Status::Success, 0));
    assert!(read.data == expected);
}

fn dulbe() {
    let mut bench = Bench::new(DULBE, &[]);
    let lba = bench.lba(0, 0, 0, 0);
    bench.write(lba, SUPERPAGE, 3);
    let addresses = [Lba(lba.0 + 9), lba, Lba(1 << 50), Lba(lba.0 + 7), bench.lba(1, 0, 0, 0)];
    let read = bench.run(bench.vector(Opcode::Read, &addresses, vec![0xEE; 5 * 1024]));
    assert_eq!((read.status, read.result), (Status::Unwritten, 0b10101));
    let pattern = bench.pattern(lba, SUPERPAGE, 3);
    assert!(read.data[1024..2048] == pattern[..1024] && read.data[..1024].iter().all(|&b| b == 0));
    assert!(read.data[3072..4096] == pattern[7 * 1024..]);
}

fn cached_units() {
    let mut bench = Bench::new(
        "[[drive.namespace]]\ninterface = \"open-channel\"\ncached = 2\nunwritten = \"error\"\n",
        &[],
    );
    let lba = bench.lba(0, 0, 0, 0);
    bench.write(lba, 3 * SUPERPAGE, 3);
    assert_eq!(bench.chunk(lba).write_pointer, 3 * SUPERPAGE);
    assert_eq!(bench.read(lba, SUPERPAGE).status, Status::Success);
    assert_eq!(bench.read(Lba(lba.0 + u64::from(SUPERPAGE)), 1).status, Status::Unwritten);
    bench.write(Lba(lba.0 + 24), 5 * SUPERPAGE, 3);
    assert_eq!(bench.read(lba, CHUNK).status, Status::Success, "a closed chunk can be read to its end");
}

fn reset() {
    let mut bench = Bench::new(
        "[[drive.namespace]]\ninterface = \"open-channel\"\nrated_erases = 10\nunwritten = \"error\"\n",
        &[],
    );
    let chunks = [bench.lba(0, 0, 0, 0), bench.lba(1, 1, 3, 0)];
    chunks.iter().for_each(|&lba| fill(&mut bench, lba));
    let mut reset = bench.vector(Opcode::Chunk(ChunkOp::Reset), &chunks, Vec::new());
    reset.vector.as_mut().expect("a vector").metadata = vec![0; 2 * ChunkInfo::BYTES];
    let done = bench.run(reset);
    assert_eq!((done.status, done.result), (Status::Success, 0));
    for (bytes, lba) in done.vector.expect("comes back").metadata.chunks_exact(ChunkInfo::BYTES).zip(chunks) {
        let info = ChunkInfo::decode(bytes.try_into().expect("32 bytes")).expect("a descriptor");
        assert_eq!((info.state, info.start, info.wear_index), (ChunkState::Free, lba, 25));
    }
    assert_eq!(bench.drive.counters().erases.iter().sum::<u64>(), 2);
    assert_eq!(bench.read(chunks[0], 1).status, Status::Unwritten);
    fill(&mut bench, chunks[0]);
}

fn invalid_reset() {
    let mut bench = Bench::new(HOST, &[]);
    let (free, used) = (bench.lba(0, 0, 0, 0), bench.lba(0, 0, 1, 0));
    let reset = |lba| Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new());
    assert_eq!(bench.run(reset(free)).status, Status::ChunkInvalidReset);
    assert_eq!(bench.run(reset(Lba(1 << 60))).status, Status::ChunkInvalidReset);
    fill(&mut bench, used);
    let twice = bench.run(bench.vector(Opcode::Chunk(ChunkOp::Reset), &[used, free, used], Vec::new()));
    assert_eq!((twice.status, twice.result), (Status::ChunkInvalidReset, 0b110));
    assert_eq!(bench.chunk(used).state, ChunkState::Free);
    // A write under way keeps its chunk.
    let data = bench.pattern(used, SUPERPAGE, 1);
    let write = bench.submit(Command::new(0, Opcode::Write, used, SUPERPAGE, data));
    assert_eq!(bench.run(reset(used)).status, Status::ChunkInvalidReset);
    assert_eq!(bench.wait(write).status, Status::Success);
}

/// Sectors of a copy, scattered over two written chunks, and a superpage to take them.
fn copy_of(bench: &mut Bench, to: Lba) -> Command {
    let (a, b) = (bench.lba(0, 0, 0, 0), bench.lba(1, 1, 2, 0));
    for lba in [a, b] {
        let data = bench.pattern(lba, 2 * SUPERPAGE, 8);
        let mut write = Command::new(0, Opcode::Write, lba, 2 * SUPERPAGE, data);
        let metadata =
            (0..2 * SUPERPAGE as u64).flat_map(|i| [lba.0 + i; 2].map(u64::to_le_bytes)).flatten().collect();
        write.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
        assert_eq!(bench.run(write).status, Status::Success);
    }
    let sources = [a.0 + 1, b.0 + 9, b.0 + 10, a.0, a.0 + 15, a.0 + 4, b.0, b.0 + 7].map(Lba);
    let mut copy = bench.vector(Opcode::Chunk(ChunkOp::Copy), &sources, Vec::new());
    copy.vector.as_mut().expect("a vector").destinations = (0..8).map(|i| Lba(to.0 + i)).collect();
    copy
}

fn copy() {
    let mut bench = Bench::new(HOST, &[]);
    let to = bench.lba(0, 1, 4, 0);
    let copy = copy_of(&mut bench, to);
    let sources = copy.vector.as_ref().expect("a vector").addresses.clone();
    let done = bench.run(copy);
    assert_eq!((done.status, done.result), (Status::Success, 0));
    for (i, source) in (0..).zip(sources) {
        let mut read = Command::new(0, Opcode::Read, Lba(to.0 + i), 1, vec![0; 1024]);
        read.vector = Some(Box::new(Vector { metadata: vec![0; 16], ..Vector::default() }));
        let read = bench.run(read);
        assert!(read.data == bench.pattern(source, 1, 8), "sector {i}");
        assert_eq!(read.vector.expect("comes back").metadata, [source.0; 2].map(u64::to_le_bytes).concat());
    }
    assert_eq!(bench.drive.counters().copybacks, 0);
}

fn copyback() {
    let mut bench = Bench::new(&format!("{HOST}copyback = true\n"), &[]);
    let (from, to) = (bench.lba(1, 0, 0, 0), bench.lba(1, 0, 3, 0));
    bench.write(from, 3 * SUPERPAGE, 8);
    // Whole units, in another order.
    let sources: Vec<Lba> =
        [20, 8, 4, 0].iter().flat_map(|&unit| (0..4).map(move |i| Lba(from.0 + unit + i))).collect();
    let mut copy = bench.vector(Opcode::Chunk(ChunkOp::Copy), &sources, Vec::new());
    copy.vector.as_mut().expect("a vector").destinations = (0..16).map(|i| Lba(to.0 + i)).collect();
    assert_eq!(bench.run(copy).status, Status::Success);
    for (i, &source) in (0..).zip(&sources) {
        assert!(bench.read(Lba(to.0 + i), 1).data == bench.pattern(source, 1, 8), "sector {i}");
    }
    assert_eq!(bench.drive.counters().copybacks, 2);
}

fn refused_copies() {
    let mut bench =
        Bench::new(DULBE, &["drive.media.faults.list=[{kind=\"read-fail\",die=0,block=0,superpage=1}]"]);
    let to = bench.lba(0, 1, 4, 0);
    let lost = copy_of(&mut bench, to);
    let done = bench.run(lost.clone());
    assert_eq!(
        (done.status, done.result),
        (Status::UnrecoveredRead, 0xFF),
        "sector 15 of the first chunk is lost"
    );
    assert_eq!(bench.chunk(to).state, ChunkState::Free);
    let with = |source: Option<Lba>, start: Lba| {
        let mut copy = lost.clone();
        let vector = copy.vector.as_mut().expect("a vector");
        vector.addresses[4] = source.unwrap_or(vector.addresses[3]);
        vector.destinations = (0..8).map(|i| Lba(start.0 + i)).collect();
        copy
    };
    let unwritten = bench.run(with(Some(bench.lba(0, 0, 5, 0)), to));
    assert_eq!((unwritten.status, unwritten.result), (Status::Unwritten, 0xFF));
    let late = bench.run(with(None, Lba(to.0 + 8)));
    assert_eq!((late.status, late.result), (Status::ChunkOutOfOrder, 0xFF));
    assert_eq!(bench.run(with(None, to)).status, Status::Success);
}

fn open_limits() {
    let mut bench = Bench::new(
        "[[drive.namespace]]\ninterface = \"open-channel\"\nopen_max = 3\nopen_per_unit_max = 2\n",
        &[],
    );
    let at = |bench: &Bench, unit, chunk| bench.lba(0, unit, chunk, 0);
    for (unit, chunk, status) in [
        (0, 0, Status::Success),
        (0, 1, Status::Success),
        (0, 2, Status::ChunkWriteInvalid),
        (1, 0, Status::Success),
        (1, 1, Status::ChunkWriteInvalid),
    ] {
        let lba = at(&bench, unit, chunk);
        assert_eq!(bench.write(lba, SUPERPAGE, 1).status, status, "unit {unit} chunk {chunk}");
    }
    // A chunk that is full is not open.
    let (full, next) = (at(&bench, 0, 0), at(&bench, 0, 2));
    assert_eq!(bench.write(Lba(full.0 + 8), CHUNK - SUPERPAGE, 1).status, Status::Success);
    assert_eq!(bench.write(next, SUPERPAGE, 1).status, Status::Success);
    // Neither is one that was reset.
    assert_eq!(
        bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), next, 0, Vec::new())).status,
        Status::Success
    );
    let other = at(&bench, 1, 1);
    assert_eq!(bench.write(other, SUPERPAGE, 1).status, Status::Success);
}

fn foreign_commands() {
    let mut bench = Bench::new(HOST, &[]);
    for opcode in [
        Opcode::Trim,
        Opcode::WriteZeroes,
        Opcode::Zone(ZoneOp::Append),
        Opcode::Zone(ZoneOp::Change(ZoneAction::Open)),
    ] {
        let data = if opcode == Opcode::Zone(ZoneOp::Append) { vec![0; 8192] } else { Vec::new() };
        let end = bench.run(Command::new(0, opcode, Lba(0), 8, data));
        assert_eq!(end.status, Status::InvalidOpcode, "{opcode:?}");
    }
    assert_eq!(bench.run(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())).status, Status::Success);
    bench.namespace = 1;
    assert_eq!(bench.read(Lba(0), 1).status, Status::InvalidField);
    let mut block = Bench::new("", &[]);
    for opcode in [
        Opcode::Chunk(ChunkOp::Reset),
        Opcode::Chunk(ChunkOp::Copy),
        Opcode::Report,
        Opcode::Zone(ZoneOp::Append),
        Opcode::Zone(ZoneOp::Change(ZoneAction::Open)),
    ] {
        assert_eq!(block.run(Command::new(0, opcode, Lba(0), 1, Vec::new())).status, Status::InvalidOpcode);
    }
}

fn wrong_fields() {
    let mut bench = Bench::new(HOST, &[]);
    let lbas: Vec<Lba> = (0..65).map(Lba).collect();
    let with = |mut command: Command, change: fn(&mut Command)| {
        change(&mut command);
        command
    };
    let read = |count: usize| Command {
        vector: Some(Box::new(Vector { addresses: lbas[..count].to_vec(), ..Vector::default() })),
        ..Command::new(0, Opcode::Read, Lba(0), count as u32, Vec::new())
    };
    let commands = [
        ("65 addresses", read(65)),
        ("sectors that are not the addresses", with(read(8), |c| c.sectors = 7)),
        ("a buffer of another size", with(read(8), |c| c.data = vec![0; 100])),
        ("metadata of another size", with(read(8), |c| c.vector.as_mut().unwrap().metadata = vec![0; 100])),
        (
            "destinations of a read",
            with(read(8), |c| c.vector.as_mut().unwrap().destinations = vec![Lba(0); 8]),
        ),
        ("no sectors", Command::new(0, Opcode::Read, Lba(0), 0, Vec::new())),
        ("a write without data", Command::new(0, Opcode::Write, Lba(0), 8, Vec::new())),
        ("a copy without destinations", with(read(8), |c| c.opcode = Opcode::Chunk(ChunkOp::Copy))),
        ("a report of nothing", Command::new(0, Opcode::Report, Lba(0), 0, Vec::new())),
        ("a queue that is not there", with(read(8), |c| c.queue = 99)),
    ];
    for (what, command) in commands {
        assert_eq!(bench.run(command).status, Status::InvalidField, "{what}");
    }
}

fn pipelined_writes() {
    let mut bench = Bench::new(HOST, &[]);
    let lba = bench.lba(1, 0, 0, 0);
    let tags: Vec<u64> = (0..8)
        .map(|i| {
            let at = Lba(lba.0 + i * 8);
            let data = bench.pattern(at, SUPERPAGE, 6);
            bench.submit(Command::new(0, Opcode::Write, at, SUPERPAGE, data))
        })
        .collect();
    for tag in tags {
        assert_eq!(bench.wait(tag).status, Status::Success);
    }
    assert!(bench.read(lba, CHUNK).data == bench.pattern(lba, CHUNK, 6));
}

fn beside_block() {
    let both = "[[drive.namespace]]\ninterface = \"block\"\nblocks = 4\n[[drive.namespace]]\ninterface = \"open-channel\"\n";
    let mut bench = Bench::new(both, &["drive.ftl.over_provisioning=500%"]);
    assert_eq!(Drive::namespaces(&bench.drive), 2);
    let Some(Interface::Block { sectors, handles: 1 }) = Drive::interface(&bench.drive, 0) else {
        panic!("namespace 0 is not a block namespace");
    };
    assert_eq!(sectors, 42 * 4, "4 blocks of every die hold 256 units");
    bench.namespace = 1;
    assert_eq!(bench.chunks().chunks, 2);
    let lba = bench.lba(0, 0, 1, 0);
    fill(&mut bench, lba);
    bench.namespace = 0;
    for round in 0..6 {
        for at in (0..sectors).step_by(8) {
            assert_eq!(bench.write(Lba(at), 8, round).status, Status::Success);
        }
    }
    bench.power_cut();
    bench.namespace = 1;
    assert!(bench.read(lba, CHUNK).data == bench.pattern(lba, CHUNK, 1));
    assert_eq!(bench.chunk(lba).wear_index, 0);
}

fn no_map() {
    let bench = Bench::new(HOST, &[]);
    let bytes = |name| bench.drive.memory_bytes().into_iter().find(|part| part.0 == name).map(|part| part.1);
    assert_eq!((bytes("mapping table"), bytes("block tables")), (Some(0), Some(0)));
    assert_eq!(bench.drive.namespace(0).capacity_sectors(), 0);
}
