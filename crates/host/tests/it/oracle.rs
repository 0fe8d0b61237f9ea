//! Possible content of every sector: the plain map that the layer is compared with, and a driver of random
//! commands.

use crate::reference::Reference;
use pellucid_flash::{Command, Completion, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_host::{HostFtl, HostFtlConfig, Layer, Machine, MountCost, Stack};
use std::collections::{BTreeMap, BTreeSet};

/// Drive below the layer: an open-channel drive whose power can be cut.
pub trait Below: Drive + Clone {
    /// Cuts the power at `now`, and restores it.
    fn power_cut(self, now: SimTime) -> Self;
}

impl Below for Reference {
    fn power_cut(mut self, _: SimTime) -> Reference {
        Reference::power_cut(&mut self);
        self
    }
}

/// Layer under test: a block drive on an open-channel one.
pub trait Subject: Layer + Clone {
    /// Configuration of the layer.
    type Config;

    /// Starts the layer.
    fn start<D: Drive>(config: &Self::Config, drive: D, now: SimTime) -> Stack<Self, D>;

    /// Checks the layer's invariants.
    fn check(&self);
}

impl Subject for HostFtl {
    type Config = HostFtlConfig;

    fn start<D: Drive>(config: &HostFtlConfig, drive: D, now: SimTime) -> Stack<HostFtl, D> {
        start(config, drive, now)
    }

    fn check(&self) {
        HostFtl::check(self);
    }
}

/// History of a sector; version 0 is zeros.
#[derive(Clone, Debug)]
struct Sector {
    /// Newest version, acknowledged or not.
    newest: u32,
    acknowledged: u32,
    /// Versions that may be found after a crash, oldest first.
    possible: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Op {
    Write {
        lba: u64,
        sectors: u32,
        version: u32,
        fua: bool,
    },
    Trim {
        lba: u64,
        sectors: u32,
        version: u32,
    },
    Read {
        allowed: Vec<u32>,
        lba: u64,
    },
    /// Flush, with the versions acknowledged at its submission.
    Flush(Vec<u32>),
}

/// Random commands and their possible results.
#[derive(Clone, Debug)]
pub struct World<D = Reference, L = HostFtl> {
    pub host: Stack<L, D>,
    sectors: Vec<Sector>,
    in_flight: BTreeMap<u64, Op>,
    changing: BTreeSet<u64>,
    /// Versions that are zeros.
    zeros: BTreeSet<u32>,
    version: u32,
    tag: u64,
    pub rng: Rng,
    pub now: SimTime,
    pub lost: u64,
    pub refused: u64,
    pub trims: bool,
}

pub fn start<D: Drive>(config: &HostFtlConfig, drive: D, now: SimTime) -> Stack<HostFtl, D> {
    let layer =
        HostFtl::new(config, drive.interface(0), drive.image_bytes()).expect("the layer fits the drive");
    Stack::start(layer, drive, now).expect("the layer starts")
}

impl<D: Below, L: Subject> World<D, L> {
    pub fn of(config: &L::Config, drive: D, seed: u64) -> World<D, L> {
        let host = L::start(config, drive, SimTime::ZERO);
        let sector = Sector { newest: 0, acknowledged: 0, possible: vec![0] };
        World {
            sectors: vec![sector; host.layer.interface().capacity_sectors() as usize],
            now: host.now(),
            host,
            in_flight: BTreeMap::new(),
            changing: BTreeSet::new(),
            zeros: BTreeSet::from([0]),
            version: 0,
            tag: 0,
            rng: Rng::stream(seed, "world"),
            lost: 0,
            refused: 0,
            trims: true,
        }
    }

    fn image(&self, lba: u64, version: u32) -> Vec<u8> {
        let word = if self.zeros.contains(&version) { 0 } else { (lba as u32) << 20 | version };
        word.to_le_bytes().repeat(self.host.image_bytes() / 4)
    }

    fn version_of(lba: u64, image: &[u8]) -> u32 {
        let word = u32::from_le_bytes(image[..4].try_into().expect("4 bytes"));
        assert!(image.chunks_exact(4).all(|w| w == word.to_le_bytes()), "sector {lba} is torn");
        if word == 0 {
            return 0;
        }
        assert_eq!(word >> 20, lba as u32, "sector {lba} holds another's data");
        word & 0xf_ffff
    }

    pub fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// Submits a random command.
    pub fn submit(&mut self) {
        let capacity = self.sectors.len() as u64;
        let lba = self.rng.below(capacity);
        let sectors = (1 + self.rng.below(6)).min(capacity - lba) as u32;
        let range = lba..lba + u64::from(sectors);
        let kind = self.rng.below(100);
        let change = kind < 60;
        if change && range.clone().any(|at| self.changing.contains(&at)) {
            return;
        }
        self.tag += 1;
        let bytes = sectors as usize * self.host.image_bytes();
        let (command, op) = match kind {
            0..60 => {
                self.version += 1;
                assert!(self.version < 1 << 20);
                let version = self.version;
                let trim = self.trims && kind < 10;
                if trim {
                    self.zeros.insert(version);
                }
                for at in range.clone() {
                    self.changing.insert(at);
                    self.sectors[at as usize].newest = version;
                    self.sectors[at as usize].possible.push(version);
                }
                if trim {
                    let opcode = if kind < 5 { Opcode::Trim } else { Opcode::WriteZeroes };
                    (
                        Command::new(self.tag, opcode, Lba(lba), sectors, Vec::new()),
                        Op::Trim { lba, sectors, version },
                    )
                } else {
                    let fua = self.rng.chance(0.2);
                    let data = range.flat_map(|at| self.image(at, version)).collect();
                    let command =
                        Command { fua, ..Command::new(self.tag, Opcode::Write, Lba(lba), sectors, data) };
                    (command, Op::Write { lba, sectors, version, fua })
                }
            }
            60..92 => {
                // The read may return the old content, or anything that arrives during the read.
                let allowed = range.map(|at| self.sectors[at as usize].acknowledged).collect();
                (
                    Command::new(self.tag, Opcode::Read, Lba(lba), sectors, vec![0; bytes]),
                    Op::Read { allowed, lba },
                )
            }
            _ => {
                let versions = self.sectors.iter().map(|s| s.acknowledged).collect();
                (Command::new(self.tag, Opcode::Flush, Lba(0), 0, Vec::new()), Op::Flush(versions))
            }
        };
        self.in_flight.insert(self.tag, op);
        self.host.submit(self.now, command);
        self.collect();
    }

    /// Runs to the next event; returns `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.host.next_event() else { return false };
        self.now = next.max(self.now);
        self.host.advance(self.now);
        self.collect();
        true
    }

    fn collect(&mut self) {
        while let Some(completion) = self.host.pop() {
            self.completed(completion);
        }
    }

    fn completed(&mut self, completion: Completion) {
        assert_eq!(completion.stages.total(), completion.completed - completion.submitted, "stages");
        let op = self.in_flight.remove(&completion.tag).expect("a completion of a command under way");
        let ok = completion.status == Status::Success;
        self.refused += u64::from(!ok && completion.opcode != Opcode::Read);
        match op {
            Op::Write { lba, sectors, version, fua } => {
                self.changed(lba, sectors, version, ok, ok && fua);
            }
            Op::Trim { lba, sectors, version } => self.changed(lba, sectors, version, ok, false),
            Op::Read { .. } if !ok => {
                assert_eq!(completion.status, Status::UnrecoveredRead);
                self.lost += 1;
            }
            Op::Read { allowed, lba } => {
                let image = self.host.image_bytes();
                for (i, (image, old)) in completion.data.chunks_exact(image).zip(allowed).enumerate() {
                    let at = lba + i as u64;
                    let found = Self::version_of(at, image);
                    let newest = self.sectors[at as usize].newest;
                    let mut range = old..=newest;
                    let good = match found {
                        0 => range.any(|v| self.zeros.contains(&v)),
                        v => range.contains(&v),
                    };
                    assert!(good, "sector {at} came back in version {found}; allowed: {old} to {newest}");
                }
            }
            Op::Flush(versions) if ok => {
                for (sector, version) in self.sectors.iter_mut().zip(versions) {
                    Self::durable(sector, version);
                }
            }
            Op::Flush(_) => {}
        }
    }

    fn changed(&mut self, lba: u64, sectors: u32, version: u32, ok: bool, durable: bool) {
        for at in lba..lba + u64::from(sectors) {
            self.changing.remove(&at);
            let sector = &mut self.sectors[at as usize];
            if ok {
                sector.acknowledged = version;
            }
            if durable {
                Self::durable(sector, version);
            }
        }
    }

    /// Notes that no version older than `version` may come back.
    fn durable(sector: &mut Sector, version: u32) {
        if let Some(at) = sector.possible.iter().position(|&v| v == version) {
            sector.possible.drain(..at);
        }
    }

    /// Runs until nothing is under way.
    pub fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            assert!(
                self.step(),
                "at rest with {} commands under way: {:?}",
                self.in_flight.len(),
                self.in_flight
            );
        }
    }

    /// Cuts the power of drive and host, starts both again, and compares every sector.
    pub fn crash(&mut self, config: &L::Config) {
        let drive = self.host.drive.clone().power_cut(self.now);
        self.in_flight.clear();
        self.changing.clear();
        self.host = L::start(config, drive, self.now);
        self.now = self.host.now();
        self.host.layer.check();
        for at in 0..self.sectors.len() as u64 {
            let found = self.read(at);
            let zeros = &self.zeros;
            let sector = &mut self.sectors[at as usize];
            let Some(found) = found else { panic!("sector {at} cannot be read after a crash") };
            let version = match found {
                0 => sector.possible.iter().rev().find(|v| zeros.contains(v)).copied(),
                v => sector.possible.contains(&v).then_some(v),
            };
            let possible = &sector.possible;
            let Some(version) = version else {
                panic!("sector {at} came back in version {found} after a crash; possible: {possible:?}")
            };
            *sector = Sector { newest: version, acknowledged: version, possible: vec![version] };
        }
    }

    /// Notes a completed stop: no version older than the acknowledged one may come back.
    pub fn stopped(&mut self) {
        assert!(self.host.layer.is_stopped() && self.in_flight.is_empty());
        for sector in &mut self.sectors {
            Self::durable(sector, sector.acknowledged);
        }
    }

    fn read(&mut self, lba: u64) -> Option<u32> {
        let data = vec![0; self.host.image_bytes()];
        self.host.submit(self.now, Command::new(u64::MAX, Opcode::Read, Lba(lba), 1, data));
        loop {
            if let Some(completion) = self.host.pop() {
                return (completion.status == Status::Success)
                    .then(|| Self::version_of(lba, &completion.data));
            }
            self.now = self.host.next_event().expect("a read ends");
            self.host.advance(self.now);
        }
    }

    /// Compares every sector with the newest acknowledged version; nothing is under way.
    pub fn compare(&mut self) {
        for at in 0..self.sectors.len() as u64 {
            let Some(found) = self.read(at) else { continue };
            let expected = self.sectors[at as usize].acknowledged;
            let expected = if self.zeros.contains(&expected) { 0 } else { expected };
            if self.refused == 0 {
                assert_eq!(found, expected, "sector {at}");
            }
        }
    }

    pub fn check(&self) {
        self.host.layer.check();
        assert!(self.host.layer.failure().is_none());
    }
}

impl<D: Below> World<D> {
    /// Creates a world with a host FTL.
    pub fn new(config: &HostFtlConfig, drive: D, seed: u64) -> World<D> {
        World::of(config, drive, seed)
    }

    /// Starts the layer again on the drive as it is, and compares every sector; returns the cost of the
    /// start.
    pub fn restart(&mut self, config: &HostFtlConfig) -> MountCost {
        self.host = start(config, self.host.drive.clone(), self.now);
        self.now = self.host.now();
        self.host.layer.check();
        self.compare();
        self.host.layer.mount_cost()
    }

    /// Starts the layer again, and calls `at_event` with the state of the drive at each event of the start.
    pub fn start_stepwise(&self, config: &HostFtlConfig, mut at_event: impl FnMut(World<D>)) {
        let (mut drive, mut now) = (self.host.drive.clone(), self.now);
        let layer = HostFtl::new(config, drive.interface(0), drive.image_bytes());
        let mut layer = layer.expect("the layer fits the drive");
        layer.advance(now);
        while !layer.is_ready() {
            while let Some(command) = layer.next_command() {
                drive.submit(now, command);
            }
            let mut world = self.clone();
            (world.host.drive, world.now) = (drive.clone(), now);
            at_event(world);
            let events = [drive.next_event(), layer.next_event()];
            now = events.into_iter().flatten().min().expect("a start goes on");
            drive.advance(now);
            while let Some(mut completion) = drive.pop() {
                layer.complete(now, &mut completion);
            }
            layer.advance(now);
        }
    }
}
