//! Reference solid-state cache: a map from blocks to data, with every guarantee at its weakest.
//!
//! A clean block may disappear at any time. Without durable commands, a power cut leaves each block in any
//! state that it had since the last flush. If more blocks are dirty then than fit, every write is refused, also
//! of a block that is there, until enough of them are clean.

use crate::reference::Faults;
use pellucid_flash::{
    CacheGeometry, CacheOp, CacheState, Command, Completion, Drive, Interface, Nanos, Opcode, Rng, SimTime,
    Stage, StageTimes, Status,
};
use std::collections::{BTreeMap, VecDeque};

const SECTOR: usize = 512;

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    data: Vec<u8>,
    dirty: bool,
}

#[derive(Clone, Debug)]
pub struct Ssc {
    geometry: CacheGeometry,
    now_there: BTreeMap<u64, Entry>,
    /// State as of the last flush; `changes` holds every change since.
    durable: BTreeMap<u64, Entry>,
    changes: Vec<(u64, Option<Entry>)>,
    durable_commands: bool,
    pending: BTreeMap<(SimTime, u64), (Command, SimTime)>,
    serial: u64,
    rng: Rng,
    pub faults: Faults,
    /// The cache does not report its blocks.
    pub mute: bool,
    /// Block that can be neither read nor written; it can be evicted.
    pub bad: Option<u64>,
    now: SimTime,
    done: VecDeque<Completion>,
    /// Number of blocks that were evicted silently.
    pub evicted: u64,
    pub full: u64,
}

impl Ssc {
    pub fn new(geometry: CacheGeometry, durable_commands: bool, seed: u64) -> Ssc {
        Ssc {
            geometry,
            now_there: BTreeMap::new(),
            durable: BTreeMap::new(),
            changes: Vec::new(),
            durable_commands,
            pending: BTreeMap::new(),
            serial: 0,
            rng: Rng::stream(seed, "ssc"),
            faults: Faults::default(),
            mute: false,
            bad: None,
            now: SimTime::ZERO,
            done: VecDeque::new(),
            evicted: 0,
            full: 0,
        }
    }

    fn set(&mut self, block: u64, entry: Option<Entry>) {
        match &entry {
            Some(entry) => drop(self.now_there.insert(block, entry.clone())),
            None => drop(self.now_there.remove(&block)),
        }
        match (self.durable_commands, entry) {
            (true, Some(entry)) => drop(self.durable.insert(block, entry)),
            (true, None) => drop(self.durable.remove(&block)),
            (false, entry) => self.changes.push((block, entry)),
        }
    }

    /// Drops some clean block; returns `false` if there is none.
    fn evict_silently(&mut self) -> bool {
        let clean: Vec<u64> =
            self.now_there.iter().filter(|(_, entry)| !entry.dirty).map(|(block, _)| *block).collect();
        if clean.is_empty() {
            return false;
        }
        let block = clean[self.rng.below(clean.len() as u64) as usize];
        self.evicted += 1;
        self.set(block, None);
        true
    }

    fn blocks(&self, command: &Command) -> std::ops::Range<u64> {
        let unit = u64::from(self.geometry.unit_sectors);
        assert!(
            command.lba.0.is_multiple_of(unit) && u64::from(command.sectors).is_multiple_of(unit),
            "{command:?}"
        );
        let end = command.lba.0 + u64::from(command.sectors);
        assert!(end <= self.geometry.address_sectors, "{command:?}");
        command.lba.0 / unit..end / unit
    }

    fn bytes(&self) -> usize {
        self.geometry.unit_sectors as usize * SECTOR
    }

    fn write(&mut self, command: &Command, dirty: bool) -> Status {
        let blocks = self.blocks(command);
        if self.bad.is_some_and(|bad| blocks.contains(&bad) && self.now_there.contains_key(&bad)) {
            return Status::WriteFault;
        }
        let new = blocks.clone().filter(|block| !self.now_there.contains_key(block)).count();
        // A cut may bring back more blocks.
        while self.now_there.len() + new > self.geometry.units as usize {
            let kept = |block: &u64| blocks.contains(block);
            if self.now_there.iter().all(|(block, entry)| entry.dirty || kept(block))
                || !self.evict_silently()
            {
                self.full += 1;
                return Status::CacheFull;
            }
        }
        let fails = self.rng.chance(self.faults.write);
        for (block, data) in blocks.zip(command.data.chunks_exact(self.bytes())) {
            if !fails || self.rng.chance(0.5) {
                self.set(block, Some(Entry { data: data.to_vec(), dirty }));
            }
        }
        if fails { Status::WriteFault } else { Status::Success }
    }

    fn read(&mut self, command: &mut Command) -> (Status, u64) {
        let blocks = self.blocks(command);
        if let Some(absent) = blocks.clone().position(|block| !self.now_there.contains_key(&block)) {
            return (Status::Absent, absent as u64);
        }
        let is_bad = self.bad.is_some_and(|bad| blocks.contains(&bad));
        if is_bad || self.rng.chance(self.faults.read) {
            return (Status::UnrecoveredRead, 0);
        }
        let bytes = self.bytes();
        for (to, block) in command.data.chunks_exact_mut(bytes).zip(blocks) {
            to.copy_from_slice(&self.now_there[&block].data);
        }
        (Status::Success, 0)
    }

    fn change(&mut self, command: &Command) -> (Status, u64) {
        let mut count = 0;
        let fails = self.rng.chance(self.faults.reset);
        for block in self.blocks(command) {
            if fails && self.rng.chance(0.5) {
                continue;
            }
            match (command.opcode, self.now_there.get(&block).cloned()) {
                (Opcode::Cache(CacheOp::Evict), Some(_)) => {
                    count += 1;
                    self.set(block, None);
                }
                (Opcode::Cache(CacheOp::Clean), Some(entry)) if entry.dirty => {
                    count += 1;
                    self.set(block, Some(Entry { dirty: false, ..entry }));
                }
                _ => {}
            }
        }
        (if fails { Status::WriteFault } else { Status::Success }, count)
    }

    fn carry_out(&mut self, mut command: Command, submitted: SimTime) {
        if self.rng.chance(0.05) {
            self.evict_silently();
        }
        let (status, result) = match command.opcode {
            Opcode::Read => self.read(&mut command),
            Opcode::Cache(CacheOp::WriteClean) => (self.write(&command, false), 0),
            Opcode::Cache(CacheOp::WriteDirty) => (self.write(&command, true), 0),
            Opcode::Cache(CacheOp::Evict | CacheOp::Clean) => self.change(&command),
            Opcode::Cache(CacheOp::Exists) if self.mute => (Status::WriteFault, 0),
            Opcode::Cache(CacheOp::Exists) => {
                let state = |block: u64| match self.now_there.get(&block) {
                    None => CacheState::Absent,
                    Some(entry) if entry.dirty => CacheState::Dirty,
                    Some(_) => CacheState::Clean,
                };
                let blocks = self.blocks(&command);
                let next = self.now_there.range(blocks.start..).find(|(_, entry)| entry.dirty);
                let next = next.map_or(CacheGeometry::NO_DIRTY, |(block, _)| {
                    block * u64::from(self.geometry.unit_sectors)
                });
                command.data = blocks.map(|block| state(block) as u8).collect();
                (Status::Success, next)
            }
            Opcode::Flush => {
                self.changes.clear();
                self.durable = self.now_there.clone();
                (Status::Success, 0)
            }
            other => panic!("{other:?}: no command of a cache"),
        };
        let mut stages = StageTimes::default();
        stages.add(Stage::Media, self.now - submitted);
        let ended = command.refused(submitted, status);
        self.done.push_back(Completion { completed: self.now, stages, result, ..ended });
    }

    /// Carries out a random selection of the commands under way.
    pub fn abandon(&mut self) {
        for (command, submitted) in std::mem::take(&mut self.pending).into_values() {
            if self.rng.chance(0.5) {
                self.carry_out(command, submitted);
            }
        }
        self.done.clear();
    }

    pub fn cut(&mut self) {
        self.abandon();
        self.now_there = std::mem::take(&mut self.durable);
        for (block, entry) in std::mem::take(&mut self.changes) {
            if self.rng.chance(0.5) {
                match entry {
                    Some(entry) => drop(self.now_there.insert(block, entry)),
                    None => drop(self.now_there.remove(&block)),
                }
            }
        }
        self.durable = self.now_there.clone();
    }
}

impl Drive for Ssc {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(Interface::Cache(self.geometry))
    }

    fn image_bytes(&self) -> usize {
        SECTOR
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        self.serial += 1;
        let due = now + Nanos(20 + self.rng.below(100));
        self.pending.insert((due, self.serial), (command, now));
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            self.now = entry.key().0;
            let (command, submitted) = entry.remove();
            self.carry_out(command, submitted);
        }
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.pending.len()
    }

    fn completed(&self) -> usize {
        self.done.len()
    }
}
