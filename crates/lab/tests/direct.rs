//! Open-channel and zoned namespaces under random commands beside a small, obvious model of each, and with the power cut at every
//! event of such histories: what was promised is there, nothing torn or stale passes for good, and the drive goes on.

use pellucid_flash::{
    ChunkState, Command, Lba, Opcode, Rng, Status, Vector, ZoneAction, ZoneInfo, ZoneState,
};
use pellucid_lab::conformance::Bench;
use std::collections::BTreeMap;

const STRIPE: u32 = 8;

/// A chunk as its host knows it.
#[derive(Clone, Debug, Default)]
struct Chunk {
    /// Seed of each stripe that was acknowledged.
    stripes: Vec<u64>,
    /// Seeds of the write under way.
    writing: Vec<u64>,
    resetting: bool,
    offline: bool,
}

#[derive(Clone)]
struct ChunkHost {
    bench: Bench,
    chunks: Vec<(Lba, Chunk)>,
    /// Chunk of each command under way.
    under_way: BTreeMap<u64, usize>,
    rng: Rng,
    seeds: u64,
    faults: bool,
}

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
        }
    }

    fn submit(&mut self) {
        let at = self.rng.below(self.chunks.len() as u64) as usize;
        let (lba, chunk) = &mut self.chunks[at];
        if chunk.resetting || !chunk.writing.is_empty() || chunk.offline {
            return;
        }
        let written = chunk.stripes.len() as u32;
        let command = if written == 8 || (written > 0 && self.rng.below(6) == 0) {
            chunk.resetting = true;
            Command::new(0, Opcode::Reset, *lba, 0, Vec::new())
        } else {
            let count = (1 + self.rng.below(3) as u32).min(8 - written);
            let mut data = Vec::new();
            let mut metadata = Vec::new();
            for stripe in written..written + count {
                self.seeds += 1;
                chunk.writing.push(self.seeds);
                let first = Lba(lba.0 + u64::from(stripe * STRIPE));
                data.extend(self.bench.pattern(first, STRIPE, self.seeds));
                metadata.extend((0..STRIPE).flat_map(|_| [self.seeds; 2].map(u64::to_le_bytes)).flatten());
            }
            let first = Lba(lba.0 + u64::from(written * STRIPE));
            let mut command = Command::new(0, Opcode::Write, first, count * STRIPE, data);
            command.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
            command
        };
        let tag = self.bench.submit(command);
        self.under_way.insert(tag, at);
        self.reap();
    }

    fn step(&mut self) -> bool {
        let stepped = self.bench.step();
        self.reap();
        stepped
    }

    fn reap(&mut self) {
        for done in self.bench.ended() {
            let at = self.under_way.remove(&done.tag).expect("a command of ours");
            let chunk = &mut self.chunks[at].1;
            match (done.opcode, done.status) {
                (Opcode::Write, Status::Success) => chunk.stripes.append(&mut chunk.writing),
                (Opcode::Reset, Status::Success) => *chunk = Chunk::default(),
                (Opcode::Reset, Status::ChunkOffline) if self.faults => {
                    *chunk = Chunk { offline: true, ..Chunk::default() }
                }
                // The host gives the chunk up.
                (Opcode::Write, Status::ChunkClosedEarly) if self.faults => {
                    *chunk = Chunk { offline: true, ..Chunk::default() }
                }
                (opcode, status) => panic!("{opcode:?} ended with {status:?}"),
            }
        }
    }

    /// What the drive says is what the host knows; commands that were cut off may have happened in part.
    fn verify(&mut self) {
        for at in 0..self.chunks.len() {
            let (lba, chunk) = self.chunks[at].clone();
            if chunk.offline {
                continue;
            }
            let info = self.bench.chunk(lba);
            let written = info.write_pointer / STRIPE;
            let (least, most) = (chunk.stripes.len(), chunk.stripes.len() + chunk.writing.len());
            if chunk.resetting && (info.state == ChunkState::Free || self.is_lost(lba)) {
                self.chunks[at].1.stripes.clear();
                continue;
            }
            assert!((least..=most).contains(&(written as usize)), "{info:?} of {chunk:?}");
            let state = match written {
                0 => ChunkState::Free,
                8 => ChunkState::Closed,
                _ => ChunkState::Open,
            };
            assert_eq!(info.state, state);
            for (stripe, &seed) in
                chunk.stripes.iter().chain(&chunk.writing).take(written as usize).enumerate()
            {
                let first = Lba(lba.0 + stripe as u64 * u64::from(STRIPE));
                let expected = self.bench.pattern(first, STRIPE, seed);
                let mut read = Command::new(0, Opcode::Read, first, STRIPE, vec![0; expected.len()]);
                read.vector = Some(Box::new(Vector { metadata: vec![0; 128], ..Vector::default() }));
                let read = self.bench.run(read);
                let torn = stripe >= least && read.status == Status::UnrecoveredRead;
                let metadata = &read.vector.as_ref().expect("comes back").metadata;
                let named = metadata.chunks_exact(8).all(|word| *word == seed.to_le_bytes());
                assert!(
                    torn || (read.data == expected && named),
                    "stripe {stripe} of {info:?}: {:?}",
                    read.status
                );
            }
        }
    }

    /// Whether a reset was cut off in the middle: nothing of the chunk can be read.
    fn is_lost(&mut self, lba: Lba) -> bool {
        (0..8).all(|stripe| self.bench.read(Lba(lba.0 + stripe * 8), 1).status == Status::UnrecoveredRead)
    }

    fn power_cut(&mut self) {
        self.bench.power_cut();
        self.under_way.clear();
    }
}

fn cut_chunks_everywhere(namespace: &str, sets: &[&str], seed: u64, commands: u32) {
    let mut host = ChunkHost::new(namespace, sets, seed);
    let mut cuts = 0;
    for _ in 0..commands {
        host.submit();
        while host.under_way.len() >= 5 {
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
}

const CHUNKS: &str = "[[drive.namespace]]\ninterface = \"open-channel\"\n";
const SHARED: &str =
    "[[drive.namespace]]\ninterface = \"open-channel\"\nmanagement = \"shared\"\nspare_blocks = 2\n";

#[test]
fn chunks_survive_a_cut_at_every_event() {
    cut_chunks_everywhere(CHUNKS, &[], 1, 300);
}

#[test]
fn remapped_chunks_survive_a_cut_at_every_event() {
    cut_chunks_everywhere(SHARED, &[], 2, 300);
}

#[test]
fn chunks_agree_with_their_host_on_failing_media() {
    for seed in 0..8 {
        for namespace in [CHUNKS, SHARED] {
            let sets = ["drive.media.faults.program_fail=0.01", "drive.media.faults.erase_fail=0.02"];
            let mut host = ChunkHost::new(namespace, &sets, seed);
            for _ in 0..600 {
                host.submit();
                while host.under_way.len() >= 6 {
                    assert!(host.step());
                }
            }
            while host.step() {}
            host.verify();
        }
    }
}

/// A zone as its host knows it.
#[derive(Clone, Debug, Default)]
struct Zone {
    seed: u64,
    /// Sectors accepted, acknowledged, and promised to survive.
    sent: u32,
    acknowledged: u32,
    durable: u32,
    full: bool,
    /// An action is under way.
    resetting: bool,
    finishing: bool,
    writing: bool,
}

#[derive(Clone, Copy)]
enum Doing {
    Write { zone: usize, sectors: u32, fua: bool },
    Reset(usize),
    Finish(usize),
    Flush,
}

#[derive(Clone)]
struct ZoneHost {
    bench: Bench,
    zones: Vec<Zone>,
    under_way: BTreeMap<u64, (Doing, Vec<(u64, u32)>)>,
    rng: Rng,
    seeds: u64,
    protected: bool,
}

const ZONE: u64 = 128;

impl ZoneHost {
    fn new(protected: bool, sets: &[&str], seed: u64) -> ZoneHost {
        let buffer = if protected { "protected" } else { "volatile" };
        let namespace = format!(
            "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 4\nopen_max = 3\nbuffer = \"{buffer}\"\n"
        );
        ZoneHost {
            bench: Bench::new(&namespace, sets),
            zones: vec![Zone::default(); 4],
            under_way: BTreeMap::new(),
            rng: Rng::stream(seed, "zone host"),
            seeds: 0,
            protected,
        }
    }

    fn submit(&mut self) {
        let n = self.rng.below(4) as usize;
        let start = Lba(n as u64 * ZONE);
        let roll = self.rng.below(20);
        let zone = &mut self.zones[n];
        if roll == 0 {
            let acknowledged = self.zones.iter().map(|zone| (zone.seed, zone.acknowledged)).collect();
            return self.send(
                Doing::Flush,
                Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()),
                acknowledged,
            );
        }
        if zone.resetting || zone.finishing || zone.writing {
            return;
        }
        if zone.full || (roll == 1 && zone.sent > 0) {
            zone.resetting = true;
            let command = Command::new(0, Opcode::Zone(ZoneAction::Reset), start, 0, Vec::new());
            return self.send(Doing::Reset(n), command, Vec::new());
        }
        if roll == 2 {
            zone.finishing = true;
            let command = Command::new(0, Opcode::Zone(ZoneAction::Finish), start, 0, Vec::new());
            return self.send(Doing::Finish(n), command, Vec::new());
        }
        if zone.sent == 0 {
            self.seeds += 1;
            zone.seed = self.seeds;
        }
        let sectors = (1 + self.rng.below(14) as u32).min(ZONE as u32 - zone.sent);
        let at = Lba(start.0 + u64::from(zone.sent));
        let data = self.bench.pattern(at, sectors, zone.seed);
        let append = sectors <= 8 && roll < 6;
        let mut command = match append {
            true => Command::new(0, Opcode::Append, start, sectors, data),
            false => Command::new(0, Opcode::Write, at, sectors, data),
        };
        command.fua = roll > 16;
        let fua = command.fua || self.protected;
        (zone.sent, zone.writing) = (zone.sent + sectors, true);
        self.send(Doing::Write { zone: n, sectors, fua }, command, Vec::new());
    }

    fn send(&mut self, doing: Doing, command: Command, acknowledged: Vec<(u64, u32)>) {
        let tag = self.bench.submit(command);
        self.under_way.insert(tag, (doing, acknowledged));
        self.reap();
    }

    fn step(&mut self) -> bool {
        let stepped = self.bench.step();
        self.reap();
        stepped
    }

    fn reap(&mut self) {
        for done in self.bench.ended() {
            let (doing, acknowledged) = self.under_way.remove(&done.tag).expect("a command of ours");
            assert_eq!(done.status, Status::Success, "{:?}", done.opcode);
            match doing {
                Doing::Write { zone: n, sectors, fua } => {
                    let zone = &mut self.zones[n];
                    if done.opcode == Opcode::Append {
                        assert_eq!(done.result, n as u64 * ZONE + u64::from(zone.acknowledged));
                    }
                    zone.acknowledged += sectors;
                    zone.durable = if fua { zone.acknowledged } else { zone.durable };
                    zone.full = zone.acknowledged == ZONE as u32;
                    zone.writing = false;
                }
                Doing::Reset(n) => self.zones[n] = Zone::default(),
                Doing::Finish(n) => {
                    let zone = &mut self.zones[n];
                    (zone.durable, zone.full, zone.finishing) = (zone.acknowledged, true, false);
                }
                Doing::Flush => {
                    for (zone, (seed, then)) in self.zones.iter_mut().zip(acknowledged) {
                        // A zone that was reset since has nothing to keep.
                        if zone.seed == seed {
                            zone.durable = zone.durable.max(then);
                        }
                    }
                }
            }
        }
    }

    fn verify(&mut self) {
        for n in 0..self.zones.len() {
            let zone = self.zones[n].clone();
            let start = Lba(n as u64 * ZONE);
            let report = self.bench.run(Command::new(0, Opcode::Report, start, 1, Vec::new()));
            let info =
                ZoneInfo::decode(report.data.as_slice().try_into().expect("one descriptor")).expect("a zone");
            if zone.resetting && info.state == ZoneState::Empty {
                self.zones[n] = Zone::default();
                continue;
            }
            let written = (info.write_pointer.0 - start.0) as u32;
            assert!((zone.durable..=zone.sent).contains(&written), "zone {n}: {info:?} of {zone:?}");
            if zone.full && zone.durable == zone.acknowledged {
                assert_eq!(info.state, ZoneState::Full, "zone {n} of {zone:?}");
            }
            let read = self.bench.read(start, ZONE as u32);
            assert_eq!(read.status, Status::Success);
            let mut expected = self.bench.pattern(start, written, zone.seed);
            expected.resize(read.data.len(), 0);
            assert!(read.data == expected, "zone {n}: {info:?} of {zone:?}");
        }
    }

    fn power_cut(&mut self) {
        self.bench.power_cut();
        self.under_way.clear();
    }

    /// After a cut: what came back is all there is.
    fn adopt(&mut self) {
        for n in 0..self.zones.len() {
            let start = n as u64 * ZONE;
            let report = self.bench.run(Command::new(0, Opcode::Report, Lba(start), 1, Vec::new()));
            let info =
                ZoneInfo::decode(report.data.as_slice().try_into().expect("one descriptor")).expect("a zone");
            let written = (info.write_pointer.0 - start) as u32;
            let seed = self.zones[n].seed;
            let full = info.state == ZoneState::Full;
            let zone = Zone {
                seed,
                sent: written,
                acknowledged: written,
                durable: written,
                full,
                ..Zone::default()
            };
            self.zones[n] = if info.state == ZoneState::Empty { Zone::default() } else { zone };
        }
    }
}

fn cut_zones_everywhere(protected: bool, sets: &[&str], seed: u64, commands: u32) {
    let mut host = ZoneHost::new(protected, sets, seed);
    let mut cuts = 0;
    for _ in 0..commands {
        host.submit();
        while host.under_way.len() >= 4 {
            assert!(host.step());
            let mut other = host.clone();
            other.power_cut();
            other.verify();
            other.adopt();
            // And on with it, to a second cut.
            for _ in 0..12 {
                other.submit();
                other.step();
            }
            other.power_cut();
            other.verify();
            cuts += 1;
        }
    }
    assert!(cuts > commands / 2, "{cuts} cuts");
    while host.step() {}
    host.verify();
}

#[test]
fn zones_survive_a_cut_at_every_event() {
    cut_zones_everywhere(false, &["drive.buffer.write=\"write-back\""], 1, 500);
}

#[test]
fn zones_written_through_survive_a_cut_at_every_event() {
    cut_zones_everywhere(false, &["drive.buffer.write=\"write-through\""], 2, 500);
}

#[test]
fn zones_with_a_protected_buffer_survive_a_cut_at_every_event() {
    cut_zones_everywhere(true, &["drive.buffer.write=\"write-back\""], 3, 500);
}

#[test]
fn zones_survive_cuts_on_failing_media() {
    for seed in 0..6 {
        let faults = [
            "drive.media.faults.program_fail=0.003",
            "drive.media.faults.read_fail=0.01",
            "drive.scheduler.read_retries=5",
        ];
        cut_zones_everywhere(seed % 2 == 0, &faults, seed, 150);
    }
}

#[test]
fn the_presets_are_drives() {
    use pellucid_flash::{Drive, Interface};
    let drive = |name: &str| {
        let spec = pellucid_lab::spec::load(name, &[]).unwrap_or_else(|e| panic!("{e}"));
        pellucid_device::Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"))
    };
    let Some(Interface::OpenChannel(chunks)) = drive("cosmos-plus-open-channel").interface(0) else {
        panic!("not open-channel");
    };
    assert_eq!((chunks.groups, chunks.units, chunks.write_min_sectors), (8, 8, 4));
    assert_eq!(chunks.write_optimal_sectors, 4);
    let Some(Interface::Zoned(zones)) = drive("zoned").interface(0) else { panic!("not zoned") };
    assert!(zones.zones > 0 && zones.capacity_sectors <= zones.zone_sectors);
}
