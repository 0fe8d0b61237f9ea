//! Tests the log on zones: a host FTL above zones that look like chunks.

use crate::crash::cut;
use crate::model::{config, exercise};
use crate::oracle::{Below, World};
use crate::reference::Faults;
use crate::zone_reference::ZoneReference;
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime,
    Status, Vector, ZoneAction, ZoneGeometry, ZoneOp, ZoneState,
};
use pellucid_host::{CpuCosts, HostFtlConfig, Machine, Stack, ZoneChunks, ZoneChunksConfig, ZoneChunksError};

type Zones = Stack<ZoneChunks, ZoneReference>;

impl Below for Zones {
    fn power_cut(self, now: SimTime) -> Zones {
        let config = self.layer.config().clone();
        let mut drive = self.drive;
        drive.cut();
        zones(&config, drive, now)
    }
}

fn geometry(zones: u32, capacity: u64, active: u32) -> ZoneGeometry {
    ZoneGeometry {
        zones,
        zone_sectors: capacity.next_power_of_two(),
        capacity_sectors: capacity,
        sector_bytes: 512,
        open_max: active,
        active_max: active,
        append_max_sectors: 8,
    }
}

fn zones(config: &ZoneChunksConfig, drive: ZoneReference, now: SimTime) -> Zones {
    let layer = ZoneChunks::new(config, drive.interface(0), drive.image_bytes()).expect("zones that fit");
    Stack::start(layer, drive, now).expect("nothing to start")
}

/// Makes a drive whose zones hold 8 to 12 batches of 3 to 9 sectors.
fn drive(seed: u64) -> (ZoneChunksConfig, ZoneReference) {
    let mut rng = Rng::stream(seed, "zoned");
    let (width, batch) = (1 + rng.below(3) as u32, 3 + rng.below(7) as u32);
    let cost = Nanos(rng.below(2) * (1 + rng.below(30)));
    let cpu =
        CpuCosts { cores: 1 + rng.below(2) as u32, command_ns: cost, completion_ns: cost, ..CpuCosts::FREE };
    let config = ZoneChunksConfig { namespace: 0, width, batch_sectors: batch, cpu };
    let capacity = u64::from(batch) * (8 + rng.below(5));
    let count = width * (18 + rng.below(5) as u32) + rng.below(2) as u32;
    (config, ZoneReference::new(geometry(count, capacity, 4 * width), seed))
}

fn log(seed: u64) -> HostFtlConfig {
    let finish = HostFtlConfig { finish_chunks: true, ..config(seed) };
    HostFtlConfig { buffer_sectors: finish.buffer_sectors.max(32), ..finish }
}

fn run(seed: u64, faults: Faults, steps: u32) -> World<Zones> {
    let (config, mut reference) = drive(seed);
    reference.faults = faults;
    // These zones are out of use from the start.
    reference.put(3, ZoneState::Offline);
    reference.put(reference.geometry.zones as usize - 4, ZoneState::ReadOnly);
    exercise(World::new(&log(seed), zones(&config, reference, SimTime::ZERO), seed), steps)
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_commands_match_a_plain_map() {
    for seed in 0..16 {
        let world = run(seed, Faults::default(), 1500);
        assert_eq!((world.lost, world.refused), (0, 0), "seed {seed}");
        assert!(world.host.layer.counters().erased_lines > 3, "seed {seed} never collected");
        let counters = world.host.drive.layer.counters();
        assert!(counters.trailer_sectors > 0 && counters.padded_sectors == 0, "{counters:?}");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failed_writes_and_resets_lose_nothing() {
    let faults = Faults { write: 0.01, reset: 0.003, read: 0.02 };
    let (mut failures, mut finished) = (0, 0);
    for seed in 100..116 {
        let world = run(seed, faults, 1200);
        failures += world.host.layer.counters().write_failures;
        finished += world.host.drive.drive.finished;
    }
    assert!(failures > 20 && finished > 0, "{failures} writes failed, {finished} zones finished");
}

/// A drive whose store is full for a while: no zone is given up for that, and all goes on when it takes writes again.
#[test]
fn a_drive_that_refuses_writes_for_a_while_costs_no_zone() {
    let mut refused = 0;
    for seed in 40..56 {
        let mut world = run(seed, Faults::default(), 300);
        for _ in 0..5 {
            world.host.drive.drive.refuses = true;
            for _ in 0..20 {
                world.submit();
                world.step();
            }
            world.host.drive.drive.refuses = false;
            for _ in 0..100 {
                world.submit();
                world.step();
            }
        }
        world.drain();
        world.check();
        world.compare();
        refused += world.host.drive.drive.refused;
        // A full zone does not tell what filled it: its last write is made elsewhere.
        let (counters, unknown) = (world.host.layer.counters(), world.host.drive.drive.filled_unpromised);
        assert!(counters.write_failures <= unknown, "seed {seed}: {counters:?}");
        assert!(!world.host.layer.is_read_only(), "seed {seed}");
    }
    assert!(refused > 30, "{refused} commands were refused");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn what_was_promised_survives_a_power_cut_at_any_event() {
    for seed in 0..4 {
        let (config, reference) = drive(seed);
        cut(seed, log(seed), zones(&config, reference, SimTime::ZERO), 500, 120);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_from_the_first_command_on() {
    for seed in 10..13 {
        let (config, reference) = drive(seed);
        cut(seed, log(seed), zones(&config, reference, SimTime::ZERO), 0, 120);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_with_failing_writes() {
    for seed in 20..23 {
        let (config, mut reference) = drive(seed);
        reference.faults = Faults { write: 0.003, reset: 0.002, read: 0.0 };
        cut(seed, log(seed), zones(&config, reference, SimTime::ZERO), 400, 80);
    }
}

#[test]
fn many_power_cuts_leave_no_zones_active_for_ever() {
    for seed in 30..34 {
        let (config, reference) = drive(seed);
        let log = HostFtlConfig {
            durability: pellucid_ftl::Durability::Journal { checkpoint_every: 0 },
            ..log(seed)
        };
        let mut world = World::new(&log, zones(&config, reference, SimTime::ZERO), seed);
        for _ in 0..60 {
            for _ in 0..world.rng.below(40) {
                world.submit();
                world.step();
            }
            world.crash(&log);
        }
        assert_eq!(world.refused, 0);
        assert!(world.host.drive.drive.most_active <= 4 * config.width);
    }
}

// ---- the chunks themselves

fn small() -> Zones {
    let config = ZoneChunksConfig { width: 2, batch_sectors: 4, ..ZoneChunksConfig::default() };
    zones(&config, ZoneReference::new(geometry(12, 20, 8), 1), SimTime::ZERO)
}

fn ask(stack: &mut Zones, command: Command) -> Completion {
    stack.submit(stack.now(), command);
    loop {
        if let Some(completion) = stack.pop() {
            return completion;
        }
        let next = stack.next_event().expect("a command ends");
        stack.advance(next);
    }
}

fn write(stack: &mut Zones, lba: Lba, sectors: u32, mark: u8) -> Status {
    let metadata = (0..sectors * 16).map(|at| mark ^ (at / 16) as u8).collect();
    let vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
    let data = (0..sectors).flat_map(|at| vec![mark + at as u8; 512]).collect();
    ask(stack, Command { vector, ..Command::new(1, Opcode::Write, lba, sectors, data) }).status
}

fn report(stack: &mut Zones, number: u32) -> ChunkInfo {
    let Interface::OpenChannel(geometry) = stack.interface(0).expect("one namespace") else {
        panic!("chunks")
    };
    let lba = geometry.lba(geometry.chunk_at(number));
    let answer = ask(stack, Command::new(1, Opcode::Report, lba, 1, Vec::new()));
    assert_eq!(answer.status, Status::Success);
    ChunkInfo::decode(answer.data[..].try_into().expect("one chunk")).expect("a state")
}

#[test]
fn vectors_bring_data_and_what_lies_beside_them() {
    let mut stack = small();
    let Some(Interface::OpenChannel(geometry)) = stack.interface(0) else { panic!("chunks") };
    assert_eq!(
        (geometry.units, geometry.chunks, geometry.chunk_sectors, geometry.write_min_sectors),
        (2, 6, 15, 3)
    );
    assert_eq!(write(&mut stack, Lba(0), 6, 40), Status::Success);
    assert_eq!(write(&mut stack, Lba(6), 3, 80), Status::Success);
    let addresses = vec![Lba(7), Lba(0), Lba(4), Lba(4)];
    let vector = Vector { addresses, metadata: vec![0xff; 64], ..Vector::default() };
    let command = Command::new(1, Opcode::Read, Lba(0), 4, vec![0; 4 * 512]);
    let answer = ask(&mut stack, Command { vector: Some(Box::new(vector)), ..command });
    assert_eq!(answer.status, Status::Success);
    let first: Vec<u8> = answer.data.chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(first, [81, 40, 44, 44]);
    let beside: Vec<u8> = answer.vector.expect("comes back").metadata.chunks(16).map(|oob| oob[0]).collect();
    assert_eq!(beside, [80 ^ 1, 40, 40 ^ 4, 40 ^ 4]);
    // The read crosses the end of a batch, without the trailer.
    let answer = ask(&mut stack, Command::new(1, Opcode::Read, Lba(1), 4, vec![0; 4 * 512]));
    assert_eq!(answer.data.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>(), [41, 42, 43, 44]);
}

#[test]
fn states_of_zones_are_states_of_chunks() {
    let mut stack = small();
    assert_eq!((report(&mut stack, 0).state, report(&mut stack, 0).write_pointer), (ChunkState::Free, 0));
    assert_eq!(write(&mut stack, Lba(0), 3, 1), Status::Success);
    let open = report(&mut stack, 0);
    assert_eq!((open.state, open.write_pointer, open.sectors), (ChunkState::Open, 3, 15));
    let finish = Command::new(1, Opcode::Zone(ZoneOp::Change(ZoneAction::Finish)), Lba(0), 0, Vec::new());
    assert_eq!(ask(&mut stack, finish).status, Status::Success);
    assert_eq!((report(&mut stack, 0).state, report(&mut stack, 0).write_pointer), (ChunkState::Closed, 15));
    assert_eq!(
        ask(&mut stack, Command::new(1, Opcode::Chunk(ChunkOp::Reset), Lba(0), 0, Vec::new())).status,
        Status::Success
    );
    assert_eq!(report(&mut stack, 0).state, ChunkState::Free);
    stack.drive.put(0, ZoneState::ReadOnly);
    assert_eq!(report(&mut stack, 0).state, ChunkState::Closed);
    let reset = Command::new(1, Opcode::Chunk(ChunkOp::Reset), Lba(0), 0, Vec::new());
    assert_eq!(ask(&mut stack, reset.clone()).status, Status::ChunkOffline);
    stack.drive.put(0, ZoneState::Offline);
    assert_eq!(report(&mut stack, 0).state, ChunkState::Offline);
    assert_eq!(ask(&mut stack, reset).status, Status::ChunkOffline);
    let read = ask(&mut stack, Command::new(1, Opcode::Read, Lba(0), 1, vec![0; 512]));
    assert_eq!(read.status, Status::ZoneOffline);
}

#[test]
fn a_failed_write_fails_its_chunk() {
    let mut stack = small();
    stack.drive.faults.write = 1.0;
    assert_eq!(write(&mut stack, Lba(0), 3, 1), Status::ChunkWriteFailed);
    assert_eq!(report(&mut stack, 0).state, ChunkState::Closed);
}

#[test]
fn what_is_no_command_of_chunks_is_refused() {
    let mut stack = small();
    let data = |sectors: usize| vec![0; sectors * 512];
    let vector = |addresses: Vec<Lba>, sectors: usize| {
        Some(Box::new(Vector { addresses, metadata: vec![0; sectors * 16], ..Vector::default() }))
    };
    let new = |opcode, lba, sectors, data| Command::new(1, opcode, Lba(lba), sectors, data);
    for (command, status) in [
        (Command { vector: vector(vec![], 2), ..new(Opcode::Write, 0, 2, data(2)) }, Status::InvalidField),
        (Command { vector: vector(vec![], 3), ..new(Opcode::Write, 1, 3, data(3)) }, Status::InvalidField),
        (Command { vector: vector(vec![], 6), ..new(Opcode::Write, 12, 6, data(6)) }, Status::InvalidField),
        (
            Command { vector: vector(vec![Lba(0); 3], 3), ..new(Opcode::Write, 0, 3, data(3)) },
            Status::InvalidField,
        ),
        (Command { namespace: 1, ..new(Opcode::Read, 0, 1, data(1)) }, Status::InvalidField),
        (new(Opcode::Read, 0, 1, data(2)), Status::InvalidField),
        (new(Opcode::Read, 15, 1, data(1)), Status::LbaOutOfRange),
        (new(Opcode::Read, 14, 2, data(2)), Status::LbaOutOfRange),
        (
            Command { vector: vector(vec![Lba(0)], 2), ..new(Opcode::Read, 0, 2, data(2)) },
            Status::LbaOutOfRange,
        ),
        (new(Opcode::Read, 1 << 40, 1, data(1)), Status::LbaOutOfRange),
        (new(Opcode::Report, 0, 13, vec![]), Status::InvalidField),
        (new(Opcode::Chunk(ChunkOp::Reset), 0, 1, vec![]), Status::InvalidField),
        (new(Opcode::Trim, 0, 1, vec![]), Status::InvalidOpcode),
        (new(Opcode::Zone(ZoneOp::Append), 0, 3, data(3)), Status::InvalidOpcode),
        (new(Opcode::Zone(ZoneOp::Change(ZoneAction::ResetAll)), 0, 0, vec![]), Status::InvalidOpcode),
    ] {
        let what = format!("{:?} of {} at {:?}", command.opcode, command.sectors, command.lba);
        assert_eq!(ask(&mut stack, command).status, status, "{what}");
    }
    assert_eq!(report(&mut stack, 0).state, ChunkState::Free, "nothing has changed");
    let plain = new(Opcode::Write, 0, 3, data(3));
    assert_eq!(ask(&mut stack, plain).status, Status::Success, "without out-of-band data they are zeros");
}

#[test]
fn zones_that_cannot_be_chunks_are_refused() {
    let base = ZoneChunksConfig { width: 2, batch_sectors: 4, ..ZoneChunksConfig::default() };
    let zoned = |zones| Some(Interface::Zoned(zones));
    let good = geometry(12, 20, 8);
    for (config, interface, sentence) in [
        (base.clone(), None, "namespace 0 is not a zoned one; a zone log needs zones"),
        (
            ZoneChunksConfig { namespace: 3, ..base.clone() },
            Some(Interface::Block { sectors: 9, handles: 1 }),
            "namespace 3 is not a zoned one; a zone log needs zones",
        ),
        (
            ZoneChunksConfig { width: 3, ..base.clone() },
            zoned(good),
            "host.zone_log.width = 3: allowed: 1 to 2, for 4 times as many zones may be active, and the drive allows 8",
        ),
        (
            ZoneChunksConfig { width: 0, ..base.clone() },
            zoned(ZoneGeometry { active_max: 0, open_max: 0, ..good }),
            "host.zone_log.width = 0: allowed: 1 to 12",
        ),
        (
            base.clone(),
            zoned(geometry(12, 20, 3)),
            "drive.namespace.active_max = 3: allowed: 0, or at least 4: data, map, and one of each being finished",
        ),
        (
            base.clone(),
            zoned(ZoneGeometry { open_max: 7, ..good }),
            "drive.namespace.open_max = 7: allowed: 0, or at least 8 with this width",
        ),
        (
            ZoneChunksConfig { batch_sectors: 3, ..base.clone() },
            zoned(good),
            "host.zone_log.batch = 3: allowed: 2 to 32, a divisor of the 20 sectors of a zone",
        ),
        (
            ZoneChunksConfig { batch_sectors: 40, ..base.clone() },
            zoned(geometry(12, 40, 8)),
            "host.zone_log.batch = 40: allowed: 2 to 32, a divisor of the 40 sectors of a zone",
        ),
        (
            ZoneChunksConfig { batch_sectors: 0, ..base.clone() },
            zoned(geometry(12, 67, 8)),
            "host.zone_log.batch = 0: allowed: 2 to 32, a divisor of the 67 sectors of a zone",
        ),
    ] {
        let error: ZoneChunksError = ZoneChunks::new(&config, interface, 512).expect_err(sentence);
        assert_eq!(error.to_string(), sentence);
    }
    // The drive has few zones; the layer above needs a minimum number of lines.
    let few = zones(&base, ZoneReference::new(geometry(9, 20, 8), 1), SimTime::ZERO);
    let error =
        pellucid_host::HostFtl::new(&HostFtlConfig::default(), few.interface(0), 512).expect_err("4 lines");
    assert_eq!(error.to_string(), "host.ftl.spare_chunks = 1: allowed: 0 to 0: 4 lines at least");
    assert!(few.layer.is_ready());
}
