//! Compares the split FTL of nameless writes with a plain model: a program that keeps names as a file system
//! does. It writes an object anew, keeps the new name, flushes, and frees the old one. When a sector is
//! moved, it keeps the new name, flushes, and acknowledges the move.

use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{
    ChunkGeometry, Command, Completion, Drive, Lba, Migration, NamelessGeometry, NamelessOp, Notice, Opcode,
    Rng, SimTime, Status, Vector,
};
use pellucid_ftl::NamelessMachine;
use pellucid_host::{NamelessConfig, NamelessFtl, NamelessFtlConfig, Stack};
use std::collections::{BTreeMap, BTreeSet};

const NAMELESS: Lba = NamelessGeometry::NAMELESS;

/// State that the program knows: the name and version of each object, and the acknowledged version of each
/// virtual sector.
#[derive(Clone, Debug, Default)]
struct Known {
    objects: BTreeMap<u32, (u64, u32)>,
    sectors: BTreeMap<u64, u32>,
    /// Names without a reference; `olds` are old names whose move is known.
    garbage: Vec<u64>,
    olds: Vec<u64>,
    /// Prototype: names of sectors being moved, whose new names are unknown.
    leaving: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
enum Op {
    /// Objects and virtual sectors with their versions, in the order of the sectors.
    Write(Vec<Target>),
    Read {
        name: u64,
        version: u32,
    },
    ReadVirtual {
        lba: u64,
        allowed: u32,
    },
    Trim {
        lba: u64,
    },
    Free(u64),
    Acknowledge,
    Flush(Known),
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Object(u32, u32),
    Sector(u64, u32),
}

#[derive(Clone, Debug)]
struct World {
    host: Stack<NamelessFtl, Reference>,
    now: SimTime,
    tag: u64,
    rng: Rng,
    version: u32,
    known: Known,
    durable: Known,
    /// Number of resets that the drive had seen when the durable state was taken.
    resets: usize,
    flush_resets: BTreeMap<u64, usize>,
    in_flight: BTreeMap<u64, Op>,
    /// Objects that are being changed; `changing_sectors` are the virtual sectors.
    changing: BTreeSet<u32>,
    changing_sectors: BTreeSet<u64>,
    /// Possible versions of each virtual sector after a power cut.
    possible: BTreeMap<u64, Vec<u32>>,
    objects: u32,
    prototype: bool,
    /// The program acknowledges moves.
    acknowledges: bool,
    refused: u32,
    lost: u32,
    moves: u32,
    /// All names that were ever moved away from.
    left: BTreeSet<u64>,
}

fn shape(seed: u64) -> ChunkGeometry {
    let mut rng = Rng::stream(seed, "shape");
    let page = 2 << rng.below(2);
    let pages = 4 + rng.below(5) as u32;
    let chunks = 22 + rng.below(6) as u32;
    geometry(1 + rng.below(2) as u32, 1 + rng.below(3) as u32, chunks, pages * page, page)
}

impl World {
    fn new(seed: u64, migration: Migration, faults: Faults) -> World {
        let ftl = NamelessConfig {
            over_provisioning: 0.5,
            virtual_share: 0.15,
            migration,
            ..NamelessConfig::default()
        };
        // Some of these drives are so small that more is spare in any case.
        let least = NamelessMachine::over_provisioning_least(&ftl, &shape(seed)).expect("room for data");
        let over_provisioning = ftl.over_provisioning.max(least.expect("room for data"));
        let ftl = NamelessConfig { over_provisioning, ..ftl };
        let config = NamelessFtlConfig { ftl, ..NamelessFtlConfig::default() };
        World::on(&config, Reference::new(shape(seed), seed), seed, faults)
    }

    fn on(config: &NamelessFtlConfig, mut drive: Reference, seed: u64, faults: Faults) -> World {
        drive.retire(7);
        let layer = NamelessFtl::new(config, drive.interface(0), drive.image_bytes()).expect("it fits");
        let mut host = Stack::start(layer, drive, SimTime::ZERO).expect("an empty drive");
        host.drive.faults = faults;
        let objects = host.layer.geometry().capacity_sectors as u32;
        World {
            now: host.now(),
            tag: 0,
            rng: Rng::stream(seed, "world"),
            version: 0,
            known: Known::default(),
            durable: Known::default(),
            resets: 0,
            flush_resets: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            changing: BTreeSet::new(),
            changing_sectors: BTreeSet::new(),
            possible: BTreeMap::new(),
            // Old versions live until the next flush.
            objects: objects * 2 / 3,
            prototype: config.ftl.migration == Migration::Prototype,
            acknowledges: true,
            refused: 0,
            lost: 0,
            moves: 0,
            left: BTreeSet::new(),
            host,
        }
    }

    fn image(&self, version: u32) -> Vec<u8> {
        version.to_le_bytes().repeat(self.host.image_bytes() / 4)
    }

    fn version_of(image: &[u8]) -> u32 {
        let word: [u8; 4] = image[..4].try_into().expect("4 bytes");
        assert!(image.chunks_exact(4).all(|w| w == word), "torn");
        u32::from_le_bytes(word)
    }

    fn send(&mut self, mut command: Command, op: Op) {
        self.tag += 1;
        command.tag = self.tag;
        self.in_flight.insert(self.tag, op);
        self.host.submit(self.now, command);
        self.collect();
    }

    /// Submits a random command.
    fn submit(&mut self) {
        match self.rng.below(100) {
            0..45 => self.write(),
            45..70 => self.read(),
            70..80 => self.read_virtual(),
            80..84 => self.trim(),
            _ => self.flush(),
        }
    }

    fn next_version(&mut self) -> u32 {
        self.version += 1;
        self.version
    }

    fn write(&mut self) {
        let count = 1 + self.rng.below(6);
        let (mut targets, mut addresses, mut data) = (Vec::new(), Vec::new(), Vec::new());
        let space = self.host.layer.geometry().virtual_sectors;
        for _ in 0..count {
            let version = self.next_version();
            let lba = self.rng.below(space);
            let object = self.rng.below(self.objects.into()) as u32;
            if self.rng.chance(0.2) && self.changing_sectors.insert(lba) {
                self.possible.entry(lba).or_insert_with(|| vec![0]).push(version);
                targets.push(Target::Sector(lba, version));
                addresses.push(Lba(lba));
            } else if self.changing.insert(object) {
                targets.push(Target::Object(object, version));
                addresses.push(NAMELESS);
            } else {
                continue;
            }
            data.extend(self.image(version));
        }
        if targets.is_empty() {
            return;
        }
        let vector = Some(Box::new(Vector { addresses, ..Vector::default() }));
        let command =
            Command::new(0, Opcode::Nameless(NamelessOp::Write), Lba(0), targets.len() as u32, data);
        let fua = self.rng.chance(0.05);
        self.send(Command { vector, fua, ..command }, Op::Write(targets));
    }

    fn read(&mut self) {
        let count = self.known.objects.len() as u64;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let (&object, &(name, version)) = self.known.objects.iter().nth(at).expect("an object");
        if self.changing.contains(&object) {
            return;
        }
        let data = vec![0; self.host.image_bytes()];
        self.send(
            Command::new(0, Opcode::Nameless(NamelessOp::Read), Lba(name), 1, data),
            Op::Read { name, version },
        );
    }

    fn read_virtual(&mut self) {
        let lba = self.rng.below(self.host.layer.geometry().virtual_sectors);
        if self.changing_sectors.contains(&lba) {
            return;
        }
        let allowed = self.known.sectors.get(&lba).copied().unwrap_or(0);
        let data = vec![0; self.host.image_bytes()];
        self.send(Command::new(0, Opcode::Read, Lba(lba), 1, data), Op::ReadVirtual { lba, allowed });
    }

    fn trim(&mut self) {
        let lba = self.rng.below(self.host.layer.geometry().virtual_sectors);
        if self.changing_sectors.insert(lba) {
            self.possible.entry(lba).or_insert_with(|| vec![0]).push(0);
            self.send(Command::new(0, Opcode::Trim, Lba(lba), 1, Vec::new()), Op::Trim { lba });
        }
    }

    fn flush(&mut self) {
        let mut known = self.known.clone();
        known.leaving = self.host.layer.engine().taken().map(|ppa| ppa.0.into()).collect();
        self.flush_resets.insert(self.tag + 1, self.host.drive.resets.len());
        self.send(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()), Op::Flush(known));
    }

    fn step(&mut self) -> bool {
        let Some(next) = self.host.next_event() else { return false };
        self.now = self.now.max(next);
        self.host.advance(self.now);
        self.collect();
        true
    }

    fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            if !self.step() {
                // Nameless writes wait until moves are acknowledged, which the program does after a flush.
                assert!(self.host.layer.engine().unacknowledged() > 0, "{:?} do not end", self.in_flight);
                self.flush();
            }
        }
    }

    fn collect(&mut self) {
        loop {
            if let Some((_, notice)) = self.host.pop_notice() {
                self.told(notice);
            } else if let Some(completion) = self.host.pop() {
                self.ended(&completion);
            } else {
                return;
            }
        }
    }

    fn told(&mut self, notice: Notice) {
        let Notice::Moved { old, new } = notice else { panic!("{notice:?}") };
        self.moves += 1;
        self.left.insert(old.0);
        // After a power cut of a prototype, several references may share the name, because a lost name may
        // name other data.
        let names = self.known.objects.values_mut().map(|(name, _)| name).chain(&mut self.known.garbage);
        names.filter(|name| **name == old.0).for_each(|name| *name = new.0);
        if self.acknowledges {
            self.known.olds.push(old.0);
        }
        // The durable state still has the old name.
    }

    fn ended(&mut self, completion: &Completion) {
        let op = self.in_flight.remove(&completion.tag).expect("a command of ours");
        match op {
            Op::Write(targets) => self.written(&targets, completion),
            Op::Read { name, version } => {
                let known = self.known.objects.values().any(|&(now, _)| now == name);
                match completion.status {
                    Status::Success => {
                        let found = World::version_of(&completion.data);
                        assert!(
                            found == version || (self.prototype && !known),
                            "name {name}: {found}, not {version}"
                        );
                    }
                    // In the prototype, an old name ends with its move, and may now be another object's.
                    Status::Unwritten if self.prototype && (!known || self.left.contains(&name)) => {}
                    Status::UnrecoveredRead if self.host.drive.faults.read > 0.0 => {}
                    status => panic!("name {name}: {status:?}"),
                }
            }
            Op::ReadVirtual { lba, allowed } => match completion.status {
                Status::Success => {
                    let found = World::version_of(&completion.data);
                    let changing = self.possible.get(&lba).is_some_and(|all| all.contains(&found));
                    assert!(found == allowed || changing, "sector {lba}: {found}, not {allowed}");
                }
                Status::UnrecoveredRead if self.host.drive.faults.read > 0.0 => {}
                status => panic!("sector {lba}: {status:?}"),
            },
            Op::Trim { lba } => {
                assert_eq!(completion.status, Status::Success);
                self.changing_sectors.remove(&lba);
                self.known.sectors.insert(lba, 0);
            }
            Op::Free(name) => {
                // The sector was moved during the previous flush, and the move was acknowledged, or ended at
                // once in the prototype.
                let moved = completion.status == Status::Unwritten && self.left.contains(&name);
                assert!(
                    moved || completion.status == Status::Success,
                    "free of {name}: {:?}",
                    completion.status
                );
            }
            Op::Acknowledge => assert_eq!(completion.status, Status::Success),
            Op::Flush(known) => {
                let resets = self.flush_resets.remove(&completion.tag).expect("noted");
                if completion.status == Status::Success {
                    self.flushed(known, resets);
                }
            }
        }
    }

    fn written(&mut self, targets: &[Target], completion: &Completion) {
        let ok = completion.status == Status::Success;
        self.refused += u32::from(!ok);
        let names = &completion.vector.as_ref().expect("it comes back").addresses;
        for (&target, name) in targets.iter().zip(names) {
            match target {
                Target::Object(object, version) => {
                    self.changing.remove(&object);
                    if ok {
                        assert_ne!(*name, NAMELESS);
                        let old = self.known.objects.insert(object, (name.0, version));
                        self.known.garbage.extend(old.map(|(name, _)| name));
                    }
                }
                Target::Sector(lba, version) => {
                    self.changing_sectors.remove(&lba);
                    assert_eq!(name.0, lba);
                    if ok {
                        self.known.sectors.insert(lba, version);
                    }
                }
            }
        }
    }

    /// Takes the state at the flush as durable, and frees the names that nothing durable refers to.
    fn flushed(&mut self, known: Known, resets: usize) {
        self.durable = known;
        self.resets = resets;
        for (lba, version) in &self.durable.sectors {
            // Older versions cannot come back.
            if let Some(all) = self.possible.get_mut(lba) {
                let from = all.iter().rposition(|v| v == version).unwrap_or(0);
                all.drain(..from);
            }
        }
        let garbage = std::mem::take(&mut self.durable.garbage);
        self.known.garbage.retain(|name| !garbage.contains(name));
        let olds = std::mem::take(&mut self.durable.olds);
        self.known.olds.retain(|name| !olds.contains(name));
        let olds = if self.prototype { Vec::new() } else { olds };
        for old in olds {
            self.send(
                Command::new(0, Opcode::Nameless(NamelessOp::Acknowledge), Lba(old), 1, Vec::new()),
                Op::Acknowledge,
            );
        }
        for name in garbage {
            let now = self.host.layer.engine().name(pellucid_flash::Ppa(name as u32));
            if now == pellucid_ftl::Name::Unknown {
                // The sector was moved, and the move was acknowledged or is just being reported: its new name
                // is among the garbage.
                continue;
            }
            self.send(
                Command::new(0, Opcode::Nameless(NamelessOp::Free), Lba(name), 1, Vec::new()),
                Op::Free(name),
            );
        }
    }

    fn call(&mut self, command: Command) -> Completion {
        let completion = self.host.call(command).expect("it answers");
        self.now = self.host.now();
        completion
    }

    fn chunk_of(&self, name: u64) -> u32 {
        // Names are places: parallel units in rotation, and in each of them the chunks after those for
        // checkpoints.
        let geometry = self.host.drive.geometry;
        let per_unit = self.host.layer.geometry().name_sectors / u64::from(geometry.parallel_units());
        let (unit, rest) = ((name / per_unit) as u32, name % per_unit);
        let hidden = geometry.chunks - (per_unit / u64::from(geometry.chunk_sectors)) as u32;
        let number = unit % geometry.groups * geometry.units + unit / geometry.groups;
        number * geometry.chunks + hidden + (rest / u64::from(geometry.chunk_sectors)) as u32
    }

    /// Cuts the power, starts again, and checks everything that was guaranteed.
    fn crash(&mut self) {
        let faults = std::mem::take(&mut self.host.drive.faults);
        self.host.drive.power_cut();
        self.host.restart(self.now).expect("it starts again");
        while self.host.pop().is_some() {}
        self.now = self.host.now();
        self.host.layer.check();
        (self.in_flight, self.flush_resets) = (BTreeMap::new(), BTreeMap::new());
        (self.changing, self.changing_sectors) = (BTreeSet::new(), BTreeSet::new());
        let erased: BTreeSet<u32> = self.host.drive.resets[self.resets..].iter().copied().collect();
        let durable = self.durable.clone();
        let (mut gone, objects) = (0, durable.objects.keys().copied().collect::<Vec<_>>());
        self.known = durable.clone();
        for object in objects {
            let (mut name, version) = self.known.objects[&object];
            let read = loop {
                let data = vec![0; self.host.image_bytes()];
                let read = self.call(Command::new(0, Opcode::Nameless(NamelessOp::Read), Lba(name), 1, data));
                // The new life also moves sectors.
                self.collect();
                let now = self.known.objects[&object].0;
                if std::mem::replace(&mut name, now) == now {
                    break read;
                }
            };
            if read.status == Status::Success && World::version_of(&read.data) == version {
                continue;
            }
            let (first, status) = (durable.objects[&object].0, read.status);
            let moved = durable.leaving.contains(&first) || erased.contains(&self.chunk_of(first));
            assert!(self.prototype && moved, "object {object}, name {first}, now {name}: {status:?}");
            self.known.objects.remove(&object);
            gone += 1;
        }
        let lbas: Vec<u64> = self.possible.keys().copied().collect();
        for lba in lbas {
            let data = vec![0; self.host.image_bytes()];
            let read = self.call(Command::new(0, Opcode::Read, Lba(lba), 1, data));
            let found = (read.status == Status::Success).then(|| World::version_of(&read.data));
            let right = found.is_some_and(|found| self.possible[&lba].contains(&found));
            assert!(
                right || (self.prototype && !(erased.is_empty() && durable.leaving.is_empty())),
                "sector {lba}: {:?} {found:?}, of {:?}",
                read.status,
                self.possible[&lba]
            );
            gone += u32::from(!right);
            let now = if right { found.unwrap_or(0) } else { 0 };
            self.possible.insert(lba, vec![now]);
            self.known.sectors.insert(lba, now);
            if !right {
                let image = self.image(0);
                assert_eq!(
                    self.call(Command::new(0, Opcode::Write, Lba(lba), 1, image)).status,
                    Status::Success
                );
            }
        }
        self.lost += gone;
        self.known.leaving.clear();
        self.collect();
        self.free_unknown();
        self.durable = self.known.clone();
        self.durable.leaving = self.host.layer.engine().taken().map(|ppa| ppa.0.into()).collect();
        self.resets = self.host.drive.resets.len();
        let flush = self.call(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        assert_eq!(flush.status, Status::Success);
        self.collect();
        self.host.drive.faults = faults;
        self.host.layer.check();
    }

    /// Frees every name without a reference, as the check of a file system does.
    fn free_unknown(&mut self) {
        let names = self.host.layer.geometry().name_sectors as u32;
        let report = self.call(Command::new(0, Opcode::Report, Lba(0), names, Vec::new()));
        let mine: BTreeSet<u64> = self.known.objects.values().map(|(name, _)| *name).collect();
        for (name, now) in report.data.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).enumerate() {
            let name = name as u64;
            if now == NAMELESS.0 || now == NamelessGeometry::VIRTUAL.0 {
                continue;
            }
            if now != name && mine.contains(&now) {
                self.call(Command::new(
                    0,
                    Opcode::Nameless(NamelessOp::Acknowledge),
                    Lba(name),
                    1,
                    Vec::new(),
                ));
            } else if !mine.contains(&now) {
                self.call(Command::new(0, Opcode::Nameless(NamelessOp::Free), Lba(name), 1, Vec::new()));
            }
        }
        (self.known.olds, self.known.garbage) = (Vec::new(), Vec::new());
        let named = self.host.layer.engine().named() as usize;
        assert_eq!(named, self.known.objects.len(), "names that nothing refers to");
    }
}

fn run(seed: u64, migration: Migration, faults: Faults, steps: u32) -> World {
    let mut world = World::new(seed, migration, faults);
    for step in 0..20_000 {
        if step > steps && world.host.layer.counters().engine.erases > 20 {
            break;
        }
        let depth = 1 + world.rng.below(12) as usize;
        while world.in_flight.len() < depth && world.rng.chance(0.8) {
            world.submit();
        }
        world.step();
        world.host.layer.check();
    }
    world.drain();
    world
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_commands_match_a_plain_model() {
    for seed in 0..16 {
        for migration in [Migration::Acknowledged, Migration::Prototype] {
            let world = run(seed, migration, Faults::default(), 800);
            let counters = world.host.layer.counters();
            assert!(
                counters.engine.erases > 20 && world.moves > 0,
                "seed {seed}, {migration:?}: {counters:?}"
            );
        }
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failed_writes_and_resets_lose_nothing() {
    let mut failures = 0;
    // 20300000: a page of a checkpoint failed in the last space of its place while another was being written, and the flush waited for good.
    for seed in (100..112).chain([20_300_000]) {
        for migration in [Migration::Acknowledged, Migration::Prototype] {
            let faults = Faults { write: 0.002, reset: 0.001, read: 0.0 };
            failures += run(seed, migration, faults, 600).host.layer.counters().write_failures;
        }
    }
    assert!(failures > 20, "{failures} writes failed");
}

/// Cuts the power after each event; every cut is followed by more commands and another cut. Returns the total
/// of lost objects.
fn cut_everywhere(seed: u64, migration: Migration, faults: Faults, warm: u32, events: u32) -> u32 {
    let mut world = World::new(seed, migration, faults);
    let mut lost = 0;
    for event in 0..warm + events {
        while world.in_flight.len() < 8 && world.rng.chance(0.7) {
            world.submit();
        }
        world.step();
        if event < warm {
            continue;
        }
        let mut cut = world.clone();
        cut.crash();
        for _ in 0..25 {
            cut.submit();
            cut.step();
        }
        cut.host.layer.check();
        cut.crash();
        cut.crash();
        lost += cut.lost;
    }
    lost
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn what_was_promised_survives_a_power_cut_at_any_event() {
    for seed in 0..8 {
        let lost =
            cut_everywhere(seed, Migration::Acknowledged, Faults::default(), 300 + 60 * seed as u32, 120);
        assert_eq!(lost, 0, "seed {seed}");
    }
}

#[test]
fn also_from_the_first_command_on() {
    for seed in 20..24 {
        assert_eq!(
            cut_everywhere(seed, Migration::Acknowledged, Faults::default(), 0, 100),
            0,
            "seed {seed}"
        );
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn also_with_failing_writes() {
    for seed in 30..36 {
        let faults = Faults { write: 0.003, reset: 0.0, read: 0.0 };
        assert_eq!(cut_everywhere(seed, Migration::Acknowledged, faults, 400, 80), 0, "seed {seed}");
    }
}

/// Checks the race that the paper admits: a power cut loses the sectors moved since the last flush, and
/// nothing else ([`World::crash`] checks).
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_prototype_loses_what_it_moved_since_the_last_flush() {
    let lost: u32 =
        (0..6).map(|seed| cut_everywhere(seed, Migration::Prototype, Faults::default(), 400, 120)).sum();
    assert!(lost > 0, "the race was never lost");
}
