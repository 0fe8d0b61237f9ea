//! Tests chunks made of a block drive: against a plain model, under a host FTL, and over power cuts at every
//! event.

use crate::block_reference::BlockReference;
use crate::crash::cut;
use crate::model::{config, exercise};
use crate::oracle::{Below, World};
use crate::reference::Faults;
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba, Opcode, Rng, SimTime, Status,
    Vector,
};
use pellucid_host::{BlockChunks, BlockChunksConfig, BlockChunksError, HostFtlConfig, Layer, Stack};
use std::collections::BTreeMap;

type Blocks = Stack<BlockChunks, BlockReference>;

impl Below for Blocks {
    fn power_cut(self, now: SimTime) -> Blocks {
        let config = self.layer.config().clone();
        let mut drive = self.drive;
        drive.cut();
        // A failed start is repeated with the drive as it is.
        drive.faults.read = 0.0;
        start(&config, drive, now)
    }
}

fn start(config: &BlockChunksConfig, drive: BlockReference, now: SimTime) -> Blocks {
    let layer = BlockChunks::new(config, drive.interface(0), drive.image_bytes()).expect("room");
    Stack::start(layer, drive, now).expect("chunks, or a blank drive")
}

/// Makes a drive whose chunks take three to eleven writes each, so that tables have one or several sectors.
fn drive(seed: u64) -> (BlockChunksConfig, BlockReference) {
    let mut rng = Rng::stream(seed, "block chunks");
    let write_sectors = 1 + rng.below(8) as u32;
    let config = BlockChunksConfig {
        groups: 1 + rng.below(2) as u32,
        units: 1 + rng.below(2) as u32,
        chunk_sectors: write_sectors * (8 + rng.below(12) as u32),
        write_sectors,
        sector_bytes: 512,
        ..BlockChunksConfig::default()
    };
    let chunks = config.groups * config.units * (20 + rng.below(8) as u32);
    (config.clone(), BlockReference::new(u64::from(chunks * (config.chunk_sectors + 4)), seed))
}

/// Makes a host FTL configuration with space for a write of every parallel unit.
fn ftl(seed: u64) -> HostFtlConfig {
    let config = config(seed);
    HostFtlConfig { buffer_sectors: config.buffer_sectors.max(64), ..config }
}

fn run(seed: u64, faults: Faults, steps: u32) -> World<Blocks> {
    let (chunks, reference) = drive(seed);
    let mut blocks = start(&chunks, reference, SimTime::ZERO);
    blocks.drive.faults = faults;
    exercise(World::new(&ftl(seed), blocks, seed), steps)
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_translation_above_matches_a_plain_map() {
    for seed in 0..12 {
        let world = run(seed, Faults::default(), 1200);
        assert_eq!((world.lost, world.refused), (0, 0), "seed {seed}");
        assert!(world.host.layer.counters().erased_lines > 3, "seed {seed} never collected");
        assert!(world.host.drive.drive.trimmed > 0, "seed {seed} trims what is erased");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failed_writes_and_reads_lose_nothing() {
    let mut failures = 0;
    for seed in 100..110 {
        let world = run(seed, Faults { write: 0.004, reset: 0.0, read: 0.02 }, 800);
        failures += world.host.layer.counters().write_failures;
    }
    assert!(failures > 20, "{failures} writes failed");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn what_was_promised_survives_a_power_cut_at_any_event() {
    for (seed, warm) in (0..6).zip([0, 500].into_iter().cycle()) {
        let (chunks, reference) = drive(seed);
        cut(seed, ftl(seed), start(&chunks, reference, SimTime::ZERO), warm, 120);
    }
}

// ---- the chunks themselves

/// Known state of a chunk.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Mark of each acknowledged sector.
    sectors: Vec<u8>,
    /// Marks of writes under way after these sectors.
    writing: Vec<u8>,
    resetting: bool,
}

/// Commands to chunks, with a plain model of them.
#[derive(Clone)]
struct Chunks {
    blocks: Blocks,
    model: Vec<Model>,
    under_way: BTreeMap<u64, (usize, usize)>,
    tags: u64,
    rng: Rng,
}

impl Chunks {
    fn new(config: &BlockChunksConfig, drive: BlockReference, seed: u64) -> Chunks {
        let blocks = start(config, drive, SimTime::ZERO);
        let Some(Interface::OpenChannel(geometry)) = blocks.interface(0) else { panic!("chunks") };
        let model = vec![Model::default(); (geometry.parallel_units() * geometry.chunks).min(6) as usize];
        Chunks { blocks, model, under_way: BTreeMap::new(), tags: 0, rng: Rng::stream(seed, "chunks") }
    }

    fn geometry(&self) -> pellucid_flash::ChunkGeometry {
        let Some(Interface::OpenChannel(geometry)) = self.blocks.interface(0) else { panic!("chunks") };
        geometry
    }

    fn lba(&self, chunk: usize, sector: usize) -> Lba {
        let geometry = self.geometry();
        Lba(geometry.lba(geometry.chunk_at(chunk as u32)).0 + sector as u64)
    }

    /// Submits several parallel writes, and resets.
    fn submit(&mut self) {
        let at = self.rng.below(self.model.len() as u64) as usize;
        let geometry = self.geometry();
        let (write, all) = (geometry.write_min_sectors as usize, geometry.chunk_sectors as usize);
        let Model { sectors, writing, resetting } = self.model[at].clone();
        let begun = sectors.len() + writing.len();
        self.tags += 1;
        let command = if resetting {
            return;
        } else if writing.is_empty() && begun > 0 && (begun == all || self.rng.chance(0.1)) {
            self.model[at].resetting = true;
            self.under_way.insert(self.tags, (at, 0));
            Command::new(self.tags, Opcode::Chunk(ChunkOp::Reset), self.lba(at, 0), 0, Vec::new())
        } else if begun < all {
            let count = ((1 + self.rng.below(4) as usize) * write).min(all - begun);
            let mark = 1 + self.rng.below(255) as u8;
            self.model[at].writing.extend(std::iter::repeat_n(mark, count));
            self.under_way.insert(self.tags, (at, count));
            let data = (0..count).flat_map(|i| vec![mark ^ (begun + i) as u8; 512]).collect();
            let metadata = (0..count).flat_map(|i| [mark ^ (begun + i) as u8; 16]).collect();
            let command = Command::new(self.tags, Opcode::Write, self.lba(at, begun), count as u32, data);
            Command { vector: Some(Box::new(Vector { metadata, ..Vector::default() })), ..command }
        } else {
            return;
        };
        self.blocks.submit(self.blocks.now(), command);
    }

    fn step(&mut self) {
        if let Some(next) = self.blocks.next_event() {
            Drive::advance(&mut self.blocks, next);
        }
        while let Some(ended) = self.blocks.pop() {
            assert_eq!(ended.status, Status::Success);
            let (at, count) = self.under_way.remove(&ended.tag).expect("under way");
            let model = &mut self.model[at];
            match ended.opcode {
                Opcode::Chunk(ChunkOp::Reset) => *model = Model::default(),
                // Writes of one chunk end in order.
                _ => model.sectors.extend(model.writing.drain(..count)),
            }
        }
    }

    fn crash(&mut self) {
        let now = self.blocks.now();
        self.blocks = self.blocks.clone().power_cut(now);
        self.under_way.clear();
    }

    /// Reads and compares everything. Writes that were under way may be there as a prefix, which is known
    /// from now on.
    fn check(&mut self) {
        let geometry = self.geometry();
        for at in 0..self.model.len() {
            let report = self.ask(Command::new(1, Opcode::Report, self.lba(at, 0), 1, Vec::new()));
            let info = ChunkInfo::decode(report.data[..].try_into().expect("one")).expect("a state");
            let written = info.write_pointer as usize;
            let known = self.model[at].clone();
            let marks: Vec<u8> = known.sectors.iter().chain(&known.writing).copied().collect();
            let reset = known.resetting && written == 0;
            assert!(
                reset || (known.sectors.len()..=marks.len()).contains(&written),
                "chunk {at}: {written} sectors of {known:?}"
            );
            let state = match written {
                0 => ChunkState::Free,
                all if all == geometry.chunk_sectors as usize => ChunkState::Closed,
                _ => ChunkState::Open,
            };
            assert_eq!(info.state, state);
            if written > 0 {
                let mut read =
                    Command::new(2, Opcode::Read, self.lba(at, 0), written as u32, vec![0; written * 512]);
                read.vector = Some(Box::new(Vector { metadata: vec![9; written * 16], ..Vector::default() }));
                let ended = self.ask(read);
                assert_eq!(ended.status, Status::Success);
                for (sector, mark) in marks[..written].iter().enumerate() {
                    let value = mark ^ sector as u8;
                    assert_eq!(ended.data[sector * 512..][..512], [value; 512], "chunk {at} sector {sector}");
                    let oob = &ended.vector.as_ref().expect("it was wanted").metadata;
                    assert_eq!(oob[sector * 16..][..16], [value; 16], "chunk {at} sector {sector}");
                }
            }
            self.model[at] = Model { sectors: marks[..written].to_vec(), ..Model::default() };
        }
    }

    fn ask(&mut self, command: Command) -> Completion {
        ask(&mut self.blocks, command)
    }
}

fn ask(blocks: &mut Blocks, command: Command) -> Completion {
    blocks.submit(blocks.now(), command);
    loop {
        if let Some(completion) = blocks.pop() {
            return completion;
        }
        let next = blocks.next_event().expect("a command ends");
        Drive::advance(blocks, next);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn chunks_match_a_plain_model_cut_at_every_event() {
    let mut prefixes = 0;
    for seed in 0..12 {
        let (config, reference) = drive(seed);
        let mut chunks = Chunks::new(&config, reference, seed);
        for _ in 0..160 {
            while chunks.under_way.len() < 6 && chunks.rng.chance(0.8) {
                chunks.submit();
            }
            chunks.step();
            let mut cut = chunks.clone();
            cut.crash();
            cut.check();
            prefixes += u32::from(
                cut.model
                    .iter()
                    .zip(&chunks.model)
                    .any(|(cut, known)| cut.sectors.len() > known.sectors.len()),
            );
            // The drive continues to work, and a second cut finds the same state.
            for _ in 0..20 {
                cut.submit();
                cut.step();
            }
            cut.crash();
            cut.check();
        }
    }
    assert!(prefixes > 50, "in {prefixes} cuts more was there than acknowledged");
}

fn small() -> (BlockChunksConfig, BlockReference) {
    let config = BlockChunksConfig {
        groups: 1,
        units: 2,
        chunk_sectors: 24,
        write_sectors: 4,
        sector_bytes: 512,
        ..BlockChunksConfig::default()
    };
    (config, BlockReference::new(8 + 6 * 25, 1))
}

#[test]
fn without_force_a_flush_or_a_reset_makes_writes_durable() {
    let (config, reference) = small();
    let config = BlockChunksConfig { force_writes: false, ..config };
    let mut blocks = start(&config, reference, SimTime::ZERO);
    let forced = blocks.drive.forced;
    let write = |lba| Command::new(1, Opcode::Write, Lba(lba), 24, vec![7; 24 * 512]);
    assert_eq!(ask(&mut blocks, write(0)).status, Status::Success);
    assert_eq!((blocks.drive.forced, blocks.drive.flushes), (forced, 0));
    assert_eq!(ask(&mut blocks, write(32)).status, Status::Success);
    // The write is durable before the data that it replaces go.
    assert_eq!(
        ask(&mut blocks, Command::new(1, Opcode::Chunk(ChunkOp::Reset), Lba(0), 0, Vec::new())).status,
        Status::Success
    );
    assert_eq!(blocks.drive.flushes, 1);
    let now = blocks.now();
    let mut blocks = blocks.power_cut(now);
    let read = ask(&mut blocks, Command::new(1, Opcode::Read, Lba(32), 24, vec![0; 24 * 512]));
    assert_eq!((read.status, read.data), (Status::Success, vec![7; 24 * 512]));
    let read = ask(&mut blocks, Command::new(1, Opcode::Read, Lba(0), 24, vec![1; 24 * 512]));
    assert_eq!(read.data, vec![0; 24 * 512], "what was not written reads as zeros");
}

#[test]
fn what_is_no_command_of_chunks_is_refused() {
    let (config, reference) = small();
    let mut blocks = start(&config, reference, SimTime::ZERO);
    let data = |sectors: usize| vec![0; sectors * 512];
    let new = |opcode, lba, sectors, data| Command::new(1, opcode, Lba(lba), sectors, data);
    assert_eq!(
        ask(&mut blocks, new(Opcode::Write, 0, 4, data(4))).status,
        Status::Success,
        "no out-of-band data"
    );
    for (command, status) in [
        (new(Opcode::Write, 4, 3, data(3)), Status::ChunkOutOfOrder),
        (new(Opcode::Write, 8, 4, data(4)), Status::ChunkOutOfOrder),
        (new(Opcode::Write, 0, 4, data(4)), Status::ChunkOutOfOrder),
        (new(Opcode::Write, 4, 24, data(24)), Status::ChunkWriteInvalid),
        (new(Opcode::Write, 4, 4, data(3)), Status::InvalidField),
        (new(Opcode::Write, 1 << 40, 4, data(4)), Status::LbaOutOfRange),
        (new(Opcode::Read, 24, 1, data(1)), Status::LbaOutOfRange),
        (new(Opcode::Read, 23, 2, data(2)), Status::LbaOutOfRange),
        (new(Opcode::Read, 0, 1, data(2)), Status::InvalidField),
        (new(Opcode::Report, 0, 7, vec![]), Status::LbaOutOfRange),
        (new(Opcode::Chunk(ChunkOp::Reset), 0, 1, vec![]), Status::InvalidField),
        (new(Opcode::Chunk(ChunkOp::Reset), 32, 0, vec![]), Status::ChunkInvalidReset),
        (new(Opcode::Trim, 0, 1, vec![]), Status::InvalidOpcode),
        (Command { namespace: 1, ..new(Opcode::Read, 0, 1, data(1)) }, Status::InvalidField),
    ] {
        let what = format!("{:?} of {} at {:?}", command.opcode, command.sectors, command.lba);
        assert_eq!(ask(&mut blocks, command.clone()).status, status, "{what}");
    }
}

#[test]
fn a_drive_that_holds_something_else_is_left_alone() {
    let (config, reference) = small();
    let refuse = |config: &BlockChunksConfig, drive: BlockReference| {
        let layer = BlockChunks::new(config, drive.interface(0), 512).expect("room");
        Stack::start(layer, drive, SimTime(1 << 20)).map(|_| ()).expect_err("something else")
    };
    let used = start(&config, reference.clone(), SimTime::ZERO).drive;
    let other = BlockChunksConfig { write_sectors: 2, ..config.clone() };
    assert_eq!(
        refuse(&other, used.clone()),
        "this drive holds chunks of another shape: 1 groups of 2 units of 3 chunks of 24 sectors of 512 bytes, written 4 at a time; \
         allowed: the same settings, or a blank drive"
    );
    let mut strange = reference;
    strange.harm(3);
    assert_eq!(
        refuse(&config, strange.clone()),
        "this drive holds something else than chunks; allowed: a blank one"
    );
    let format = BlockChunksConfig { format: true, ..config.clone() };
    start(&format, strange, SimTime::ZERO);
    // A format removes the old content, also for the next start.
    let mut blocks = start(&config, used, SimTime(1 << 20));
    let write = Command::new(1, Opcode::Write, Lba(0), 4, vec![7; 4 * 512]);
    assert_eq!(ask(&mut blocks, write).status, Status::Success);
    let now = blocks.now();
    // Zeros in place of the head do not make a blank drive.
    let mut headless = blocks.drive.clone();
    headless.put(0, vec![0; 512]);
    assert_eq!(
        refuse(&config, headless),
        "this drive holds chunks whose head is zeroed; allowed: another drive, or a blank one"
    );
    let blocks = start(&format, blocks.drive, now);
    let now = blocks.now();
    let mut blocks = start(&config, blocks.drive, now);
    let report = ask(&mut blocks, Command::new(1, Opcode::Report, Lba(0), 6, Vec::new()));
    for info in report.data.as_chunks().0 {
        assert_eq!(ChunkInfo::decode(info).expect("a state").state, ChunkState::Free);
    }
}

/// Checks that a damaged table is no free chunk: writes to it would be mixed with what it held.
#[test]
fn a_damaged_table_puts_its_chunk_offline_and_is_named() {
    let (config, reference) = small();
    let mut blocks = start(&config, reference, SimTime::ZERO);
    let write = |lba| Command::new(1, Opcode::Write, Lba(lba), 4, vec![7; 4 * 512]);
    assert_eq!(ask(&mut blocks, write(0)).status, Status::Success);
    assert_eq!(ask(&mut blocks, write(32)).status, Status::Success);
    let (now, drive) = (blocks.now(), blocks.drive);
    let table = drive.find(b"PLBT").expect("the table of the first chunk");
    for byte in [0, 20, 24, 28, 100] {
        let mut damaged = drive.clone();
        damaged.flip(table, byte);
        let mut blocks = start(&config, damaged, now);
        let report = ask(&mut blocks, Command::new(1, Opcode::Report, Lba(0), 2, Vec::new()));
        let states: Vec<ChunkState> = report
            .data
            .as_chunks()
            .0
            .iter()
            .map(|info| ChunkInfo::decode(info).expect("a state").state)
            .collect();
        assert_eq!(states, [ChunkState::Offline, ChunkState::Open], "byte {byte}");
        assert!(blocks.layer.start_notice().is_some_and(|notice| notice.contains("damaged")));
        assert_eq!(ask(&mut blocks, write(0)).status, Status::ChunkWriteInvalid);
    }
    assert_eq!(start(&config, drive, now).layer.start_notice(), None);
}

#[test]
fn settings_that_do_not_fit_are_refused_in_a_sentence() {
    let (config, _) = small();
    let block = |sectors| Some(Interface::Block { sectors, handles: 1 });
    for (config, interface, sentence) in [
        (config.clone(), None, "namespace 0 is not a block one; these chunks are made of sectors"),
        (
            BlockChunksConfig { sector_bytes: 4096, ..config.clone() },
            block(999),
            "sector_bytes = 4096: allowed: the drive's 512",
        ),
        (
            BlockChunksConfig { write_sectors: 31, ..config.clone() },
            block(999),
            "write_sectors = 31: allowed: 1 to 30",
        ),
        (
            BlockChunksConfig { write_sectors: 0, ..config.clone() },
            block(999),
            "write_sectors = 0: allowed: 1 to 30",
        ),
        (
            BlockChunksConfig { chunk_sectors: 30, ..config.clone() },
            block(999),
            "chunk_sectors = 30: allowed: a multiple of the 4 of a write",
        ),
        (
            BlockChunksConfig { groups: 9, ..config.clone() },
            block(8 + 25 * 4),
            "groups = 9: allowed: groups x units from 1 to the 4 chunks that the drive has room for",
        ),
    ] {
        let error: BlockChunksError = BlockChunks::new(&config, interface, 512).expect_err(sentence);
        assert_eq!(error.to_string(), sentence);
    }
}
