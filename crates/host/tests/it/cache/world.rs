//! World of the tests: a cache with its two drives, random commands, and the known state of every sector.
//!
//! Each sector has its versions in the order in which they were written, and the range that a read may
//! return: no version older than the acknowledged one, and after a crash none older than the flushed one. A
//! version that was read while no write was under way must be read again; a version that was not seen then
//! never appears later.

use super::ssc::Ssc;
use crate::block_reference::BlockReference;
use crate::reference::Faults;
use pellucid_flash::{
    CacheGeometry, Command, Completion, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status,
};
use pellucid_host::{
    CacheConfig, CacheManager, CacheMode, Layer, Machine, Pair, RecordWrites, Stack, StoreIdentity,
};
use std::collections::BTreeMap;

const SECTOR: usize = 512;

/// Caching drive that can crash.
pub trait Crashing: Drive + Clone {
    fn faults(&mut self) -> &mut Faults;
    /// Cuts and restores the power of the drive.
    fn cut(&mut self);
    /// Replaces the host of the drive.
    fn abandon(&mut self);
}

/// Kind of cache drive.
#[derive(Clone, Debug)]
pub enum Flash {
    Block(BlockReference),
    Ssc(Ssc),
}

macro_rules! each {
    ($self:expr, $drive:ident => $call:expr) => {
        match $self {
            Flash::Block($drive) => $call,
            Flash::Ssc($drive) => $call,
        }
    };
}

impl Crashing for Flash {
    fn faults(&mut self) -> &mut Faults {
        each!(self, drive => &mut drive.faults)
    }

    fn cut(&mut self) {
        each!(self, drive => drive.cut());
    }

    fn abandon(&mut self) {
        each!(self, drive => drive.abandon());
    }
}

impl Drive for Flash {
    fn namespaces(&self) -> u16 {
        1
    }
    fn interface(&self, namespace: u16) -> Option<Interface> {
        each!(self, drive => drive.interface(namespace))
    }
    fn image_bytes(&self) -> usize {
        SECTOR
    }
    fn submit(&mut self, now: SimTime, command: Command) {
        each!(self, drive => drive.submit(now, command));
    }
    fn advance(&mut self, now: SimTime) {
        each!(self, drive => drive.advance(now));
    }
    fn next_event(&self) -> Option<SimTime> {
        each!(self, drive => drive.next_event())
    }
    fn pop(&mut self) -> Option<Completion> {
        each!(self, drive => drive.pop())
    }
    fn outstanding(&self) -> usize {
        each!(self, drive => drive.outstanding())
    }
    fn completed(&self) -> usize {
        each!(self, drive => drive.completed())
    }
}

pub type Host<F> = Stack<CacheManager, Pair<F, BlockReference>>;

/// Part that crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The program; the drives keep their data.
    Host,
    /// The flash drive; the program continues.
    Flash,
    /// Both drives and the program.
    All,
}

impl Crash {
    pub const ALL: [Crash; 3] = [Crash::Host, Crash::Flash, Crash::All];
}

#[derive(Clone, Debug)]
struct Sector {
    /// Written versions in order; 0 means zeros.
    versions: Vec<u64>,
    /// Index of the oldest version that may be read; `high` is that of the newest, and `floor` that of the
    /// oldest after a crash.
    low: usize,
    high: usize,
    floor: usize,
    /// Number of writes under way.
    writing: u32,
    /// Number of writes that have begun.
    begun: u64,
}

#[derive(Clone, Debug)]
struct Asked {
    opcode: Opcode,
    fua: bool,
    lba: u64,
    /// Version written to each sector, or the oldest that may be read, with the number of writes that had
    /// begun.
    versions: Vec<(usize, u64)>,
    /// True for each sector of a read with a write under way.
    busy: Vec<bool>,
}

#[derive(Clone)]
pub struct World<F> {
    pub host: Host<F>,
    pub config: CacheConfig,
    sectors: Vec<Sector>,
    asked: BTreeMap<u64, Asked>,
    tags: u64,
    version: u64,
    pub rng: Rng,
    pub now: SimTime,
    pub failed: u64,
    pub crashes: u64,
    stream: u64,
}

pub fn start<F: Crashing>(config: &CacheConfig, flash: F, backing: BlockReference, now: SimTime) -> Host<F> {
    let pair = Pair::new(flash, backing, now).expect("alike");
    let layer = CacheManager::new(config, pair.interface(0), pair.interface(1), SECTOR).expect("room");
    Stack::start(layer, pair, now).expect("its own cache, or a blank drive")
}

/// Makes a cache with a random shape.
pub fn shape(seed: u64) -> (CacheConfig, Flash, BlockReference) {
    let mut rng = Rng::stream(seed, "cache shape");
    let block_sectors = 1 << rng.below(4);
    let blocks = 20 + rng.below(60);
    let durable = rng.chance(0.5);
    let is_ssc = seed % 2 == 1;
    let records = match rng.below(3) {
        0 => RecordWrites::EachWrite { force: true },
        _ => RecordWrites::OnFlush,
    };
    let config = CacheConfig {
        mode: if (seed / 2).is_multiple_of(2) { CacheMode::WriteBack } else { CacheMode::WriteThrough },
        sector_bytes: 512,
        block_bytes: 512 * block_sectors as u32,
        set_blocks: [4, 16, 512][rng.below(3) as usize],
        records,
        durable_commands: durable,
        sequential_bytes: [0, 512 * 24][rng.below(2) as usize],
        dirty_percent: 10 + rng.below(80) as u32,
        fallow: [Nanos::ZERO, Nanos(3000)][rng.below(2) as usize],
        clean_blocks: 1 + rng.below(20) as u32,
        await_fills: seed.is_multiple_of(3),
        store: StoreIdentity { id: 7, name: "the store".into() },
        nonce: 1 + seed,
        ..CacheConfig::default()
    };
    // A partial block at the end is never cached.
    let store = blocks * block_sectors + rng.below(block_sectors);
    let backing = BlockReference::new(store, seed ^ 1);
    let flash = match is_ssc {
        true => {
            let geometry = CacheGeometry {
                address_sectors: (blocks + 2 + rng.below(5)) * block_sectors,
                unit_sectors: block_sectors as u32,
                units: 8 + rng.below(blocks),
            };
            Flash::Ssc(Ssc::new(geometry, durable, seed))
        }
        false => Flash::Block(BlockReference::new(9 + (17 + rng.below(blocks)) * block_sectors, seed)),
    };
    (config, flash, backing)
}

impl World<Flash> {
    pub fn new(seed: u64) -> World<Flash> {
        let (config, flash, backing) = shape(seed);
        World::on(config, flash, backing, seed)
    }

    /// Returns the known state with the backing store alone, behind a new cache.
    pub fn without_its_cache(&self) -> World<Flash> {
        let mut backing = self.host.drive.second.clone();
        backing.abandon();
        let host = start(&self.config, Flash::Block(BlockReference::new(4096, 1)), backing, self.now);
        World {
            now: host.now(),
            host,
            config: self.config.clone(),
            sectors: self.sectors.clone(),
            asked: BTreeMap::new(),
            rng: self.rng.clone(),
            ..*self
        }
    }
}

fn image(version: u64, lba: u64) -> Vec<u8> {
    let mut image = vec![0; SECTOR];
    if version > 0 {
        image[..8].copy_from_slice(&version.to_le_bytes());
        image[8..16].copy_from_slice(&lba.to_le_bytes());
        image[SECTOR - 8..].copy_from_slice(&version.to_le_bytes());
    }
    image
}

impl<F: Crashing> World<F> {
    pub fn on(config: CacheConfig, flash: F, backing: BlockReference, seed: u64) -> World<F> {
        let host = start(&config, flash, backing, SimTime::ZERO);
        let Some(Interface::Block { sectors, .. }) = host.interface(0) else { panic!("a block drive") };
        let sector = Sector { versions: vec![0], low: 0, high: 0, floor: 0, writing: 0, begun: 0 };
        World {
            now: host.now(),
            host,
            config,
            sectors: vec![sector; sectors as usize],
            asked: BTreeMap::new(),
            tags: 0,
            version: 0,
            rng: Rng::stream(seed, "world"),
            failed: 0,
            crashes: 0,
            stream: 0,
        }
    }

    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }

    pub fn submit(&mut self) {
        let all = self.sectors.len() as u64;
        let opcode = match self.rng.below(40) {
            0..=15 => Opcode::Read,
            16..=33 => Opcode::Write,
            34..=36 => Opcode::Flush,
            37 => Opcode::WriteZeroes,
            _ => Opcode::Trim,
        };
        let unit = u64::from(self.config.block_bytes) / SECTOR as u64;
        let hot = self.rng.chance(0.6);
        let lba = self.rng.below(if hot { all / 3 } else { all });
        let (lba, sectors) = match self.rng.below(4) {
            // The command covers a block.
            0 | 1 => (lba / unit * unit, unit),
            2 => (lba, 1 + self.rng.below(3 * unit)),
            // The command continues a stream.
            _ => {
                self.stream = if self.rng.chance(0.1) { lba } else { self.stream % all };
                let from = self.stream;
                self.stream += 4;
                (from, 4)
            }
        };
        let sectors = sectors.min(all - lba);
        let fua = opcode != Opcode::Flush && opcode != Opcode::Read && self.rng.chance(0.1);
        self.ask(opcode, lba, sectors, fua);
    }

    /// From now on these sectors have what they had in the beginning: what was written to them is given up.
    pub fn forget(&mut self, sectors: std::ops::Range<u64>) {
        for sector in &mut self.sectors[sectors.start as usize..sectors.end as usize] {
            assert_eq!(sector.writing, 0, "nobody writes it");
            *sector = Sector { versions: vec![0], low: 0, high: 0, floor: 0, ..*sector };
        }
    }

    pub fn ask(&mut self, opcode: Opcode, lba: u64, sectors: u64, fua: bool) {
        self.tags += 1;
        let range = lba as usize..(lba + sectors) as usize;
        let mut data = Vec::new();
        let mut versions = Vec::new();
        match opcode {
            Opcode::Read => {
                data = vec![0xEE; sectors as usize * SECTOR];
                versions.extend(self.sectors[range.clone()].iter().map(|sector| (sector.low, sector.begun)));
            }
            Opcode::Flush => versions.extend(self.sectors.iter().map(|sector| (sector.low, 0))),
            _ => {
                for at in range.clone() {
                    self.version += 1;
                    let version = if opcode == Opcode::Write { self.version } else { 0 };
                    let sector = &mut self.sectors[at];
                    sector.versions.push(version);
                    sector.high = sector.versions.len() - 1;
                    sector.writing += 1;
                    sector.begun += 1;
                    versions.push((sector.high, 0));
                    if opcode == Opcode::Write {
                        data.extend(image(version, at as u64));
                    }
                }
            }
        }
        let busy = self.sectors[range].iter().map(|sector| sector.writing > 0).collect();
        let (lba, sectors) = if opcode == Opcode::Flush { (0, 0) } else { (lba, sectors) };
        self.asked.insert(self.tags, Asked { opcode, fua, lba, versions, busy });
        let command = Command::new(self.tags, opcode, Lba(lba), sectors as u32, data);
        self.host.submit(self.now, Command { fua, ..command });
        self.take();
    }

    /// Runs one event. Returns `false` if none is left.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.host.next_event() else { return false };
        self.now = self.now.max(next);
        Drive::advance(&mut self.host, self.now);
        self.take();
        self.host.layer.check();
        true
    }

    pub fn drain(&mut self) {
        while !self.asked.is_empty() {
            assert!(self.step(), "commands end: {:?}", self.asked);
        }
    }

    fn take(&mut self) {
        while let Some(ended) = self.host.pop() {
            let asked = self.asked.remove(&ended.tag).expect("asked");
            self.ended(&asked, &ended);
        }
    }

    fn ended(&mut self, asked: &Asked, ended: &Completion) {
        let good = ended.status == Status::Success;
        self.failed += u64::from(!good);
        match asked.opcode {
            Opcode::Read if good => self.compare(asked, &ended.data),
            Opcode::Read => {}
            Opcode::Flush if good => {
                for (sector, (low, _)) in self.sectors.iter_mut().zip(&asked.versions) {
                    sector.floor = sector.floor.max(*low);
                }
            }
            Opcode::Flush => {}
            _ => {
                for (lba, &(version, _)) in (asked.lba..).zip(&asked.versions) {
                    let sector = &mut self.sectors[lba as usize];
                    sector.writing -= 1;
                    if good {
                        sector.low = sector.low.max(version);
                    }
                    if good && asked.fua {
                        sector.floor = sector.floor.max(version);
                    }
                }
            }
        }
    }

    fn compare(&mut self, asked: &Asked, data: &[u8]) {
        for (at, found) in data.chunks_exact(SECTOR).enumerate() {
            let lba = asked.lba + at as u64;
            let (low, begun) = asked.versions[at];
            let version = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
            assert_eq!(found, image(version, lba), "sector {lba} is what was written to it, as a whole");
            let sector = &mut self.sectors[lba as usize];
            let found = (low..=sector.high).rev().find(|&at| sector.versions[at] == version);
            let Some(found) = found else {
                let newest = sector.versions.iter().rposition(|&other| other == version);
                panic!("sector {lba}: version {newest:?} was read, allowed: {low} to {}", sector.high);
            };
            if !asked.busy[at] && sector.begun == begun {
                // No write was under way, so the version stays. Zeros may be any of several versions.
                if version != 0 {
                    sector.low = sector.low.max(found);
                    sector.high = found;
                } else {
                    sector.high = found.max(sector.low);
                }
            }
        }
    }

    /// Crashes a part and checks everything. A failed start is repeated with the drives as they are.
    pub fn crash(&mut self, who: Crash) {
        self.crash_with(who, Faults::default());
        assert!(!self.host.layer.is_read_only(), "the drives take writes");
        self.check();
    }

    /// Crashes a part; meanwhile the flash fails with these faults.
    pub fn crash_with(&mut self, who: Crash, of_start: Faults) {
        self.crashes += 1;
        let faults = *self.host.drive.first.faults();
        *self.host.drive.first.faults() = of_start;
        let of_backing = std::mem::take(&mut self.host.drive.second.faults);
        if who == Crash::Flash {
            self.host.drive.first.cut();
            // Commands on their way to the backing store arrive.
            while self.host.drive.second.outstanding() > 0 {
                self.now = self.now.max(self.host.drive.second.next_event().expect("under way"));
                let now = self.now;
                self.host.drive.restart(now);
            }
            self.host.restart(self.now).expect("its own cache");
            self.take();
        } else {
            let pair = self.host.drive.clone();
            let (mut flash, mut backing) = (pair.first, pair.second);
            match who {
                Crash::Host => (flash.abandon(), backing.abandon()),
                _ => (flash.cut(), backing.cut()),
            };
            self.host = start(&self.config, flash, backing, self.now);
        }
        self.now = self.host.now();
        assert!(self.asked.is_empty() || who != Crash::Flash, "what was asked was answered");
        self.asked.clear();
        for sector in &mut self.sectors {
            (sector.low, sector.writing) = (sector.floor, 0);
        }
        *self.host.drive.first.faults() = faults;
        self.host.drive.second.faults = of_backing;
    }

    /// Stops the cache while commands go on coming: after the stop begins, each of `commands` comes one event after the one before.
    pub fn stop_under_load(&mut self, commands: u32) {
        self.host.begin_stop();
        for _ in 0..commands {
            if self.host.layer.is_stopped() {
                return;
            }
            self.submit();
            self.step();
        }
        while !self.host.layer.is_stopped() {
            // Commands that waited for the end of a stop have opened the cache again.
            if !self.step() {
                assert!(self.host.layer.is_ready(), "a stop ends");
                self.host.begin_stop();
            }
        }
    }

    /// Detaches the cache; returns the result.
    pub fn detach(&mut self) -> Result<(), String> {
        self.detach_by(false)
    }

    /// Detaches the cache; `give_up`: without blocks that the flash cannot read.
    pub fn detach_by(&mut self, give_up: bool) -> Result<(), String> {
        self.host.layer.detach(give_up);
        let now = self.now;
        Machine::advance(&mut self.host.layer, now);
        self.host.act_on_drive(now, |_| ());
        loop {
            if let Some(outcome) = self.host.layer.detached() {
                return outcome;
            }
            assert!(self.step(), "a detach ends");
        }
    }

    /// Reads everything twice.
    pub fn check(&mut self) {
        let failed = self.failed;
        self.check_what_can_be_read();
        assert_eq!(self.failed, failed, "everything can be read");
    }

    /// Reads everything twice, where some sectors may end with errors; returns the number of failed reads.
    pub fn check_what_can_be_read(&mut self) -> u64 {
        self.drain();
        let before = self.failed;
        let faults = *self.host.drive.first.faults();
        *self.host.drive.first.faults() = Faults::default();
        let of_backing = std::mem::take(&mut self.host.drive.second.faults);
        for _ in 0..2 {
            let all = self.sectors.len() as u64;
            let mut lba = 0;
            while lba < all {
                let sectors = (1 + self.rng.below(40)).min(all - lba);
                self.ask(Opcode::Read, lba, sectors, false);
                lba += sectors;
            }
            self.drain();
        }
        *self.host.drive.first.faults() = faults;
        self.host.drive.second.faults = of_backing;
        self.failed - before
    }
}
