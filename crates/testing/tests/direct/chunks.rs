//! Open-channel namespaces, whose host keeps what it wrote to each chunk by its seeds.

use super::SUPERPAGE;
use pellucid_flash::{
    Cause, ChunkOp, ChunkReason, ChunkScope, ChunkState, Command, Lba, Opcode, Rng, Status, Vector,
};
use pellucid_testing::conformance::Bench;
use std::collections::BTreeMap;

/// A chunk as its host knows it.
#[derive(Clone, Debug, Default)]
struct Chunk {
    /// Seed of each superpage that was acknowledged.
    superpages: Vec<u64>,
    /// Seeds of the write under way.
    writing: Vec<u64>,
    /// Reads under way.
    reading: u32,
    resetting: bool,
    offline: bool,
}

#[derive(Clone)]
struct ChunkHost {
    bench: Bench,
    chunks: Vec<(Lba, Chunk)>,
    /// Chunk of each command under way; of a read, the superpage too.
    under_way: BTreeMap<u64, (usize, u64)>,
    rng: Rng,
    seeds: u64,
    faults: bool,
    /// The host reads too, and its media err.
    reads: bool,
}

/// About four wrong bits in every codeword, of which twenty can be corrected; beyond eight the drive refreshes its own blocks.
const ERRING: [&str; 7] = [
    "drive.media.spare_size=1024",
    "drive.media.bit_errors.enabled=true",
    "drive.media.bit_errors.factor=1.45e5",
    "drive.ecc.code=bch",
    "drive.ecc.chunk=256",
    "drive.ecc.correctable=20",
    "drive.ecc.refresh_above=8",
];

impl ChunkHost {
    fn new(namespace: &str, sets: &[&str], seed: u64) -> ChunkHost {
        let bench = Bench::new(namespace, sets);
        let geometry = bench.chunks();
        let used = (0..geometry.parallel_units() * geometry.chunks).filter(|n| n % geometry.chunks < 3);
        ChunkHost {
            chunks: used.map(|n| (geometry.lba(geometry.chunk_at(n)), Chunk::default())).collect(),
            bench,
            under_way: BTreeMap::new(),
            rng: Rng::stream(seed, "chunk host"),
            seeds: 0,
            faults: !sets.is_empty(),
            reads: false,
        }
    }

    /// On media with bit errors, but never more than can be corrected.
    fn erring(namespace: &str, seed: u64) -> ChunkHost {
        let mut host = ChunkHost { reads: true, faults: false, ..ChunkHost::new(namespace, &ERRING, seed) };
        // Few, so that they get full.
        host.chunks.truncate(3);
        host
    }

    fn submit(&mut self) {
        let at = self.rng.below(self.chunks.len() as u64) as usize;
        let reads = self.reads && self.rng.below(4) > 0;
        let (lba, chunk) = &mut self.chunks[at];
        if reads && !chunk.resetting && !chunk.superpages.is_empty() {
            chunk.reading += 1;
            let superpage = self.rng.below(chunk.superpages.len() as u64);
            let data = vec![0; self.bench.pattern(*lba, SUPERPAGE, 0).len()];
            let read =
                Command::new(0, Opcode::Read, Lba(lba.0 + superpage * u64::from(SUPERPAGE)), SUPERPAGE, data);
            let tag = self.bench.submit(read);
            self.under_way.insert(tag, (at, superpage));
            return self.reap();
        }
        if chunk.reading > 0 {
            return;
        }
        if chunk.resetting || !chunk.writing.is_empty() || chunk.offline {
            return;
        }
        let written = chunk.superpages.len() as u32;
        let command = if written == 8 || (written > 0 && self.rng.below(6) == 0) {
            chunk.resetting = true;
            Command::new(0, Opcode::Chunk(ChunkOp::Reset), *lba, 0, Vec::new())
        } else {
            let count = (1 + self.rng.below(3) as u32).min(8 - written);
            let mut data = Vec::new();
            let mut metadata = Vec::new();
            for superpage in written..written + count {
                self.seeds += 1;
                chunk.writing.push(self.seeds);
                let first = Lba(lba.0 + u64::from(superpage * SUPERPAGE));
                data.extend(self.bench.pattern(first, SUPERPAGE, self.seeds));
                metadata.extend((0..SUPERPAGE).flat_map(|_| [self.seeds; 2].map(u64::to_le_bytes)).flatten());
            }
            let first = Lba(lba.0 + u64::from(written * SUPERPAGE));
            let mut command = Command::new(0, Opcode::Write, first, count * SUPERPAGE, data);
            command.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
            command
        };
        let tag = self.bench.submit(command);
        self.under_way.insert(tag, (at, 0));
        self.reap();
    }

    /// Random commands, six at a time at most, and what they left behind.
    fn work(&mut self) {
        for _ in 0..600 {
            self.submit();
            while self.under_way.len() >= 6 {
                assert!(self.step());
            }
        }
        while self.step() {}
        self.verify();
    }

    fn step(&mut self) -> bool {
        let stepped = self.bench.step();
        self.reap();
        stepped
    }

    fn reap(&mut self) {
        for done in self.bench.ended() {
            let (at, superpage) = self.under_way.remove(&done.tag).expect("a command of ours");
            let (lba, chunk) = &mut self.chunks[at];
            match (done.opcode, done.status) {
                (Opcode::Read, Status::Success) => {
                    chunk.reading -= 1;
                    let first = Lba(lba.0 + superpage * u64::from(SUPERPAGE));
                    let seed = chunk.superpages.get(superpage as usize);
                    let right = seed.map(|&seed| self.bench.pattern(first, SUPERPAGE, seed));
                    assert!(chunk.offline || right.is_some_and(|right| done.data == right), "{first:?}");
                }
                (Opcode::Write, Status::Success) => chunk.superpages.append(&mut chunk.writing),
                (Opcode::Chunk(ChunkOp::Reset), Status::Success) => *chunk = Chunk::default(),
                (Opcode::Chunk(ChunkOp::Reset), Status::ChunkOffline) if self.faults => {
                    *chunk = Chunk { offline: true, reading: chunk.reading, ..Chunk::default() }
                }
                // The host gives the chunk up.
                (Opcode::Write, Status::ChunkClosedEarly) if self.faults => {
                    *chunk = Chunk { offline: true, reading: chunk.reading, ..Chunk::default() }
                }
                (opcode, status) => panic!("{opcode:?} ended with {status:?}"),
            }
        }
    }

    /// Compares the drive's report with the host's knowledge; commands that were cut off may have happened in part.
    fn verify(&mut self) {
        for at in 0..self.chunks.len() {
            let (lba, chunk) = self.chunks[at].clone();
            if chunk.offline {
                continue;
            }
            let info = self.bench.chunk(lba);
            let written = info.write_pointer / SUPERPAGE;
            let (least, most) = (chunk.superpages.len(), chunk.superpages.len() + chunk.writing.len());
            if chunk.resetting && (info.state == ChunkState::Free || self.is_lost(lba)) {
                self.chunks[at].1.superpages.clear();
                continue;
            }
            assert!((least..=most).contains(&(written as usize)), "{info:?} of {chunk:?}");
            let state = match written {
                0 => ChunkState::Free,
                8 => ChunkState::Closed,
                _ => ChunkState::Open,
            };
            assert_eq!(info.state, state);
            for (superpage, &seed) in
                chunk.superpages.iter().chain(&chunk.writing).take(written as usize).enumerate()
            {
                let first = Lba(lba.0 + superpage as u64 * u64::from(SUPERPAGE));
                let expected = self.bench.pattern(first, SUPERPAGE, seed);
                let mut read = Command::new(0, Opcode::Read, first, SUPERPAGE, vec![0; expected.len()]);
                read.vector = Some(Box::new(Vector { metadata: vec![0; 128], ..Vector::default() }));
                let read = self.bench.run(read);
                let torn = superpage >= least && read.status == Status::UnrecoveredRead;
                let metadata = &read.vector.as_ref().expect("comes back").metadata;
                let named = metadata.chunks_exact(8).all(|word| *word == seed.to_le_bytes());
                assert!(
                    torn || (read.data == expected && named),
                    "superpage {superpage} of {info:?}: {:?}",
                    read.status
                );
            }
        }
    }

    /// Returns whether a reset was cut off in the middle: nothing of the chunk can be read.
    fn is_lost(&mut self, lba: Lba) -> bool {
        (0..8)
            .all(|superpage| self.bench.read(Lba(lba.0 + superpage * 8), 1).status == Status::UnrecoveredRead)
    }

    fn power_cut(&mut self) {
        self.bench.power_cut();
        self.under_way.clear();
        self.chunks.iter_mut().for_each(|(_, chunk)| chunk.reading = 0);
    }
}

fn cut_chunks_everywhere(mut host: ChunkHost, depth: usize, commands: u32) -> ChunkHost {
    let mut cuts = 0;
    for _ in 0..commands {
        host.submit();
        while host.under_way.len() >= depth {
            assert!(host.step());
            let mut other = host.clone();
            other.power_cut();
            other.verify();
            other.bench.power_cut();
            other.verify();
            cuts += 1;
        }
    }
    assert!(cuts > commands, "{cuts} cuts");
    while host.step() {}
    host.verify();
    host
}

const CHUNKS: &str = "[[drive.namespace]]\ninterface = \"open-channel\"\n";
const SHARED: &str =
    "[[drive.namespace]]\ninterface = \"open-channel\"\nmanagement = \"shared\"\nspare_blocks = 2\n";

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn chunks_survive_a_cut_at_every_event() {
    cut_chunks_everywhere(ChunkHost::new(CHUNKS, &[], 1), 5, 300);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn remapped_chunks_survive_a_cut_at_every_event() {
    cut_chunks_everywhere(ChunkHost::new(SHARED, &[], 2), 5, 300);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn chunks_that_are_being_refreshed_survive_a_cut_at_every_event() {
    let host = cut_chunks_everywhere(ChunkHost::erring(SHARED, 3), 3, 500);
    let counters = host.bench.drive.counters();
    let refreshed = counters.programs[Cause::Refresh as usize];
    assert!(refreshed > 24, "{refreshed} superpages were written anew");
    assert!(counters.erases[Cause::Refresh as usize] > 2);
    assert_eq!(counters.uncorrectable_reads, 0);
}

#[test]
fn chunks_agree_with_their_host_while_refreshes_fail() {
    let mut given_up = 0;
    for seed in 0..8 {
        let sets =
            [&ERRING[..], &["drive.media.faults.program_fail=0.01", "drive.media.faults.erase_fail=0.02"]];
        let host = ChunkHost::new(SHARED, &sets.concat(), seed);
        let mut host = ChunkHost { reads: true, ..host };
        host.work();
        let counters = host.bench.drive.counters();
        given_up += u64::from(!counters.programs[Cause::Refresh as usize].is_multiple_of(8));
    }
    assert!(given_up > 0, "some refresh must have ended early");
}

/// Data that are nearly lost are refreshed: in class c by the drive, in class a by the host, which is told.
#[test]
fn the_manager_of_the_media_refreshes_them() {
    for (namespace, refreshed) in [(SHARED, 1), (CHUNKS, 0)] {
        let mut bench = Bench::new(&format!("{namespace}high_ecc_bits = 1\n"), &ERRING);
        let lba = bench.lba(0, 1, 1, 0);
        assert_eq!(bench.write(lba, 64, 5).status, Status::Success);
        let pattern = bench.pattern(lba, 64, 5);
        for superpage in 0..8 {
            let read = bench.read(Lba(lba.0 + 8 * superpage), SUPERPAGE);
            assert!(read.data == pattern[superpage as usize * 8192..][..8192]);
        }
        while bench.step() {}
        let notices = bench.notices();
        let count = |reason| notices.iter().filter(|n| n.reason == reason).count();
        assert_eq!(count(ChunkReason::ErrorsMedium), 8, "the host is told of each read");
        assert_eq!(count(ChunkReason::Refreshed), refreshed);
        let of_chunk = notices.iter().filter(|n| n.reason == ChunkReason::Refreshed);
        assert!(of_chunk.into_iter().all(|n| (n.lba, n.scope) == (lba, ChunkScope::Chunk)));
        let counters = bench.drive.counters();
        let (programs, erases) =
            (counters.programs[Cause::Refresh as usize], counters.erases[Cause::Refresh as usize]);
        assert_eq!((programs, erases), (8 * refreshed as u64, refreshed as u64));
        assert_eq!(counters.programmed_sectors[Cause::Refresh as usize], 64 * refreshed as u64);
        assert!(bench.read(lba, 64).data == pattern);
        bench.power_cut();
        assert!(bench.read(lba, 64).data == pattern);
    }
}

/// A sector is lost: a shared drive retires the block with the next reset and goes on in another one; to a host of class a the
/// drive says so, and does nothing.
#[test]
fn a_block_that_lost_data_is_retired_by_its_manager() {
    for (namespace, retired) in [(SHARED, 1), (CHUNKS, 0)] {
        let fault = "drive.media.faults.list=[{kind=\"read-fail\",die=0,block=0,superpage=3}]";
        let mut bench = Bench::new(namespace, &[fault]);
        let lba = bench.lba(0, 0, 0, 0);
        assert_eq!(bench.write(lba, 64, 5).status, Status::Success);
        assert_eq!(bench.read(Lba(lba.0 + 24), 1).status, Status::UnrecoveredRead);
        let notices = bench.notices();
        assert_eq!((notices.len(), notices[0].reason), (1, ChunkReason::Unrecoverable));
        let others = bench.read(Lba(lba.0 + 32), 32);
        assert!(others.status == Status::Success && others.data == bench.pattern(lba, 64, 5)[32 * 1024..]);
        assert_eq!(bench.chunk(lba).state, ChunkState::Closed, "the host decides when it goes");
        assert_eq!(bench.drive.bad_blocks(), (0, retired));
        let reset = Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new());
        assert_eq!(bench.run(reset).status, Status::Success);
        assert_eq!(bench.write(lba, 64, 6).status, Status::Success);
        let read = bench.read(lba, 64);
        let good = read.status == Status::Success && read.data == bench.pattern(lba, 64, 6);
        assert_eq!(good, retired == 1, "another block is without fault");
        bench.power_cut();
        assert_eq!(bench.drive.bad_blocks(), (0, retired));
        assert!(bench.read(Lba(lba.0 + 32), 32).data == bench.pattern(lba, 64, 6)[32 * 1024..]);
    }
}

#[test]
fn chunks_agree_with_their_host_on_failing_media() {
    for seed in 0..8 {
        for namespace in [CHUNKS, SHARED] {
            let sets = ["drive.media.faults.program_fail=0.01", "drive.media.faults.erase_fail=0.02"];
            let mut host = ChunkHost::new(namespace, &sets, seed);
            host.work();
        }
    }
}
