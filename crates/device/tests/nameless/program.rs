//! A program that keeps names as a file system does. It writes an object anew, keeps the new name, flushes, and frees the old one; it keeps
//! the new name of what was moved, flushes, and acknowledges. The rules:
//!
//! - an object reads as its version under its name, and under its old one until the move is acknowledged;
//! - after a power cut every object that a flush covered reads as its version under the name that the program made durable;
//! - a virtual sector reads as the newest version that was flushed, or one that came after it.

use pellucid_device::{Device, DeviceConfig};
use pellucid_flash::{
    Command, Completion, Drive, Interface, Lba, NamelessGeometry, NamelessOp, Notice, Opcode, Rng, SimTime,
    Status, Vector,
};
use pellucid_media::Faults;
use std::collections::{BTreeMap, BTreeSet};

const NAMELESS: Lba = NamelessGeometry::NAMELESS;

/// State that the program has in memory.
#[derive(Clone, Debug, Default)]
struct Known {
    objects: BTreeMap<u32, (u64, u32)>,
    sectors: BTreeMap<u64, u32>,
    /// Names that nothing refers to.
    garbage: BTreeSet<u64>,
    /// Moves that are known and not acknowledged: old name, new one.
    olds: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug)]
enum Op {
    Write(Vec<Target>),
    Read(u32, u64, u32),
    ReadVirtual(u64, u32),
    Trim(u64),
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
pub struct Program {
    pub device: Device,
    pub moves: u32,
    pub refused: u32,
    /// True if the program acknowledges moves.
    pub acknowledges: bool,
    /// The drive takes no more writes: its flash has failed where checkpoints go.
    pub gave_up: bool,
    prototype: bool,
    faulty: bool,
    now: SimTime,
    tag: u64,
    rng: Rng,
    version: u32,
    known: Known,
    durable: Known,
    in_flight: BTreeMap<u64, Op>,
    /// Names that were freed, and old ones of moves that were acknowledged.
    given_up: BTreeSet<u64>,
    /// Names that moved while they were being freed, of a prototype, and where they are now.
    escaped: BTreeMap<u64, u64>,
    changing: BTreeSet<u32>,
    changing_sectors: BTreeSet<u64>,
    /// Versions that a virtual sector may have.
    possible: BTreeMap<u64, Vec<u32>>,
    objects: u64,
}

impl Program {
    pub fn new(config: &DeviceConfig, seed: u64) -> Program {
        let device = Device::new(config).unwrap_or_else(|error| panic!("{error}"));
        let pellucid_device::Namespace::Nameless { ftl, .. } = &config.namespaces[0] else {
            panic!("it is nameless");
        };
        let mut program = Program {
            moves: 0,
            refused: 0,
            acknowledges: true,
            gave_up: false,
            prototype: ftl.migration == pellucid_flash::Migration::Prototype,
            faulty: config.media.faults.read_fail > 0.0,
            now: SimTime::ZERO,
            tag: 0,
            rng: Rng::stream(seed, "program"),
            version: 0,
            known: Known::default(),
            durable: Known::default(),
            in_flight: BTreeMap::new(),
            given_up: BTreeSet::new(),
            escaped: BTreeMap::new(),
            changing: BTreeSet::new(),
            changing_sectors: BTreeSet::new(),
            possible: BTreeMap::new(),
            objects: 0,
            device,
        };
        // Old versions live until the next flush.
        program.objects = program.geometry().capacity_sectors * 3 / 5;
        program
    }

    fn geometry(&self) -> NamelessGeometry {
        match self.device.interface(0) {
            Some(Interface::Nameless(geometry)) => geometry,
            other => panic!("{other:?}"),
        }
    }

    pub fn set_faults(&mut self, faults: Faults) {
        self.faulty |= faults.read_fail > 0.0;
        self.device.set_faults(faults).expect("faults of any drive");
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn image(&self, version: u32) -> Vec<u8> {
        version.to_le_bytes().repeat(self.device.image_bytes() / 4)
    }

    fn version_of(image: &[u8]) -> u32 {
        let words: Vec<u32> = image.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert!(words.iter().all(|word| *word == words[0]), "torn");
        words[0]
    }

    fn send(&mut self, mut command: Command, op: Op) {
        self.tag += 1;
        command.tag = self.tag;
        self.in_flight.insert(self.tag, op);
        self.device.submit(self.now, command);
        self.collect();
    }

    pub fn submit(&mut self) {
        match self.rng.below(100) {
            0..50 => self.write(),
            50..70 => self.read(),
            70..78 => self.read_virtual(),
            78..82 => self.trim(),
            _ => self.flush(),
        }
    }

    fn write(&mut self) {
        let count = 1 + self.rng.below(12);
        let space = self.geometry().virtual_sectors;
        let (mut targets, mut addresses, mut data) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            self.version += 1;
            let version = self.version;
            let (lba, object) = (self.rng.below(space), self.rng.below(self.objects) as u32);
            if self.rng.chance(0.15) && self.changing_sectors.insert(lba) {
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
        if !targets.is_empty() {
            let vector = Some(Box::new(Vector { addresses, ..Vector::default() }));
            let command =
                Command::new(0, Opcode::Nameless(NamelessOp::Write), Lba(0), targets.len() as u32, data);
            self.send(Command { vector, ..command }, Op::Write(targets));
        }
    }

    fn read(&mut self) {
        let count = self.known.objects.len() as u64;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let (&object, &(name, version)) = self.known.objects.iter().nth(at).expect("an object");
        if !self.changing.contains(&object) {
            let data = vec![0; self.device.image_bytes()];
            let op = Op::Read(object, name, version);
            self.send(Command::new(0, Opcode::Nameless(NamelessOp::Read), Lba(name), 1, data), op);
        }
    }

    fn read_virtual(&mut self) {
        let lba = self.rng.below(self.geometry().virtual_sectors);
        if !self.changing_sectors.contains(&lba) {
            let version = self.known.sectors.get(&lba).copied().unwrap_or(0);
            let data = vec![0; self.device.image_bytes()];
            self.send(Command::new(0, Opcode::Read, Lba(lba), 1, data), Op::ReadVirtual(lba, version));
        }
    }

    fn trim(&mut self) {
        let lba = self.rng.below(self.geometry().virtual_sectors);
        if self.changing_sectors.insert(lba) {
            self.possible.entry(lba).or_insert_with(|| vec![0]).push(0);
            self.send(Command::new(0, Opcode::Trim, Lba(lba), 1, Vec::new()), Op::Trim(lba));
        }
    }

    fn flush(&mut self) {
        let known = self.known.clone();
        self.send(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()), Op::Flush(known));
    }

    pub fn step(&mut self) -> bool {
        let Some(next) = self.device.next_event() else { return false };
        self.now = self.now.max(next);
        self.device.advance(self.now);
        self.collect();
        true
    }

    /// Where nothing happens by itself, writes wait for acknowledgements, and these for a flush.
    pub fn step_or_flush(&mut self) {
        if !self.step() {
            let before = self.tag;
            self.flush();
            while self.in_flight.keys().any(|tag| *tag > before) && self.step() {}
        }
    }

    pub fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.in_flight.is_empty() {
                return;
            }
            self.step_or_flush();
        }
        panic!("{:?} do not end", self.in_flight);
    }

    pub fn call(&mut self, opcode: Opcode, lba: Lba, sectors: u32) -> Completion {
        let reads = matches!(opcode, Opcode::Read | Opcode::Nameless(NamelessOp::Read));
        let data = vec![0; if reads { sectors as usize * self.device.image_bytes() } else { 0 }];
        self.device.submit(self.now, Command::new(u64::MAX, opcode, lba, sectors, data));
        loop {
            while let Some(completion) = self.device.pop() {
                if completion.tag == u64::MAX {
                    return completion;
                }
            }
            self.now = self.device.next_event().expect("it ends");
            self.device.advance(self.now);
        }
    }

    fn collect(&mut self) {
        loop {
            if let Some((_, notice)) = self.device.pop_notice() {
                self.told(notice);
            } else if let Some(completion) = self.device.pop() {
                self.ended(&completion);
            } else {
                return;
            }
        }
    }

    fn told(&mut self, notice: Notice) {
        let Notice::Moved { old, new } = notice else { panic!("{notice:?}") };
        self.moves += 1;
        if self.known.garbage.remove(&old.0) {
            self.known.garbage.insert(new.0);
        }
        let names = self.known.objects.values_mut().map(|(name, _)| name);
        names.filter(|name| **name == old.0).for_each(|name| *name = new.0);
        if !self.prototype {
            self.known.olds.insert(old.0, new.0);
            return;
        }
        self.escaped.values_mut().filter(|name| **name == old.0).for_each(|name| *name = new.0);
        if self.in_flight.values().any(|op| matches!(op, Op::Free(name) if *name == old.0)) {
            self.escaped.insert(old.0, new.0);
        }
    }

    fn ended(&mut self, completion: &Completion) {
        let status = completion.status;
        let unread = status == Status::UnrecoveredRead && self.faulty;
        let op = self.in_flight.remove(&completion.tag).expect("a command of ours");
        let refused =
            status == Status::ReadOnly || (status == Status::WriteFault && matches!(op, Op::Flush(_)));
        if refused && self.faulty {
            self.gave_up = true;
            return;
        }
        match op {
            Op::Write(targets) => self.written(&targets, completion),
            Op::Read(object, name, version) => {
                let moved = self.known.objects.get(&object).is_none_or(|(now, _)| *now != name);
                match status {
                    Status::Success if self.prototype && moved => {}
                    Status::Success => {
                        assert_eq!(Program::version_of(&completion.data), version, "name {name}")
                    }
                    // It was freed, or its move acknowledged, while the read was under way.
                    Status::Unwritten if moved && (self.prototype || self.given_up.contains(&name)) => {}
                    _ => assert!(unread, "name {name}: {status:?}"),
                }
            }
            Op::ReadVirtual(lba, version) if status == Status::Success => {
                let found = Program::version_of(&completion.data);
                let changing = self.possible.get(&lba).is_some_and(|all| all.contains(&found));
                assert!(found == version || changing, "sector {lba}: {found}, not {version}");
            }
            Op::ReadVirtual(lba, _) => assert!(unread, "sector {lba}: {status:?}"),
            Op::Trim(lba) => {
                assert_eq!(status, Status::Success);
                self.changing_sectors.remove(&lba);
                self.known.sectors.insert(lba, 0);
            }
            Op::Free(name) => match (status, self.escaped.remove(&name)) {
                (Status::Success, _) => {}
                // The race of a prototype: the name ended with its move, before its end arrived.
                (Status::Unwritten, Some(new)) => _ = self.known.garbage.insert(new),
                _ => panic!("name {name}: {status:?}"),
            },
            Op::Acknowledge => assert_eq!(status, Status::Success),
            Op::Flush(known) if status == Status::Success => self.flushed(known),
            Op::Flush(_) => panic!("flush: {status:?}"),
        }
    }

    fn written(&mut self, targets: &[Target], completion: &Completion) {
        let ok = completion.status == Status::Success;
        assert!(ok || completion.status == Status::CapacityExceeded, "{:?}", completion.status);
        self.refused += u32::from(!ok);
        let names = &completion.vector.as_ref().expect("it comes back").addresses;
        for (&target, name) in targets.iter().zip(names) {
            match target {
                Target::Object(object, version) => {
                    self.changing.remove(&object);
                    if ok {
                        let old = self.known.objects.insert(object, (name.0, version));
                        self.known.garbage.extend(old.map(|(name, _)| name));
                    }
                }
                Target::Sector(lba, version) => {
                    self.changing_sectors.remove(&lba);
                    if ok {
                        self.known.sectors.insert(lba, version);
                    }
                }
            }
        }
    }

    /// Makes durable the state that was known when the flush was sent, and drops everything that nothing durable refers to.
    fn flushed(&mut self, known: Known) {
        self.durable = known;
        for (lba, version) in &self.durable.sectors {
            if let Some(all) = self.possible.get_mut(lba) {
                let from = all.iter().rposition(|v| v == version).unwrap_or(0);
                all.drain(..from);
            }
        }
        // In the order in which it was known: a name that was moved since then goes under its new name.
        let (olds, garbage) = (self.durable.olds.clone(), self.durable.garbage.clone());
        if self.acknowledges {
            for (old, new) in olds {
                // Its new name was freed since then, which ended the move; it may name other data, which were moved again.
                if self.known.olds.get(&old) != Some(&new) {
                    continue;
                }
                self.known.olds.remove(&old);
                self.given_up.insert(old);
                self.send(
                    Command::new(0, Opcode::Nameless(NamelessOp::Acknowledge), Lba(old), 1, Vec::new()),
                    Op::Acknowledge,
                );
            }
        }
        for name in garbage {
            // Told of no move of it since, it has this name still.
            if self.known.garbage.remove(&name) {
                self.known.olds.retain(|_, new| *new != name);
                self.durable.olds.retain(|_, new| *new != name);
                self.given_up.insert(name);
                self.send(
                    Command::new(0, Opcode::Nameless(NamelessOp::Free), Lba(name), 1, Vec::new()),
                    Op::Free(name),
                );
            }
        }
    }

    /// Cuts the power and looks at everything that was promised.
    pub fn power_cut(&mut self) {
        assert!(!self.prototype, "a prototype promises too little");
        let faults = self.device.config().media.faults.clone();
        self.device.set_faults(Faults::default()).expect("no faults");
        self.device.power_cut().unwrap_or_else(|error| panic!("{error}"));
        while self.device.pop().is_some() {}
        (self.in_flight, self.changing, self.changing_sectors) = Default::default();
        self.device.check();
        self.known = self.durable.clone();
        for (object, (name, version)) in self.durable.objects.clone() {
            let read = self.call(Opcode::Nameless(NamelessOp::Read), Lba(name), 1);
            assert_eq!(read.status, Status::Success, "object {object}, name {name}");
            assert_eq!(Program::version_of(&read.data), version, "object {object}, name {name}");
        }
        for (lba, all) in std::mem::take(&mut self.possible) {
            let read = self.call(Opcode::Read, Lba(lba), 1);
            assert_eq!(read.status, Status::Success, "sector {lba}");
            let found = Program::version_of(&read.data);
            assert!(all.contains(&found), "sector {lba}: {found}, of {all:?}");
            self.possible.insert(lba, vec![found]);
            self.known.sectors.insert(lba, found);
        }
        self.collect();
        self.free_unknown();
        assert_eq!(self.call(Opcode::Flush, Lba(0), 0).status, Status::Success);
        self.durable = self.known.clone();
        self.device.check();
        self.device.set_faults(faults).expect("as before");
    }

    /// Frees every name that nothing refers to, as the check of a file system does.
    fn free_unknown(&mut self) {
        let names = self.geometry().name_sectors as u32;
        let report = self.call(Opcode::Report, Lba(0), names);
        let mine: BTreeSet<u64> = self.known.objects.values().map(|(name, _)| *name).collect();
        for (name, now) in (0..).zip(report.data.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b))) {
            if now == NAMELESS.0 || now == NamelessGeometry::VIRTUAL.0 {
                continue;
            }
            if now != name && mine.contains(&now) {
                self.call(Opcode::Nameless(NamelessOp::Acknowledge), Lba(name), 1);
            } else if now != name && mine.contains(&name) {
                let known = self.known.objects.values_mut().find(|(known, _)| *known == name);
                known.expect("it is mine").0 = now;
                self.call(Opcode::Flush, Lba(0), 0);
                self.call(Opcode::Nameless(NamelessOp::Acknowledge), Lba(name), 1);
            } else if !mine.contains(&now) {
                self.call(Opcode::Nameless(NamelessOp::Free), Lba(name), 1);
            }
        }
        (self.known.olds, self.known.garbage) = Default::default();
    }
}
