//! Reference block drive: sectors behind a cache that a power cut loses. A sector is written as a whole or
//! not at all.

use crate::reference::Faults;
use pellucid_flash::{
    Command, Completion, Drive, Interface, Nanos, Opcode, Rng, SimTime, Stage, StageTimes, Status,
};
use std::collections::{BTreeMap, VecDeque};

const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub struct BlockReference {
    media: Vec<Vec<u8>>,
    /// Unflushed writes in order.
    cache: Vec<(u64, Vec<u8>)>,
    pending: BTreeMap<(SimTime, u64), (Command, SimTime)>,
    serial: u64,
    rng: Rng,
    pub faults: Faults,
    /// Sector that can be neither read nor written.
    pub bad: Option<u64>,
    now: SimTime,
    done: VecDeque<Completion>,
    /// Number of forced writes; `flushes` counts flushes.
    pub forced: u64,
    pub flushes: u64,
    pub trimmed: u64,
}

impl BlockReference {
    pub fn new(sectors: u64, seed: u64) -> BlockReference {
        BlockReference {
            media: vec![vec![0; SECTOR]; sectors as usize],
            cache: Vec::new(),
            pending: BTreeMap::new(),
            serial: 0,
            rng: Rng::stream(seed, "block"),
            faults: Faults::default(),
            bad: None,
            now: SimTime::ZERO,
            done: VecDeque::new(),
            forced: 0,
            flushes: 0,
            trimmed: 0,
        }
    }

    /// Returns the content of a sector as a read sees it.
    pub fn sector(&self, lba: u64) -> &[u8] {
        let cached = self.cache.iter().rev().find(|(at, _)| *at == lba);
        cached.map_or(&self.media[lba as usize], |(_, data)| data)
    }

    /// Returns the first sector that begins with these bytes.
    pub fn find(&self, begin: &[u8]) -> Option<u64> {
        (0..self.media.len() as u64).find(|&lba| self.sector(lba).starts_with(begin))
    }

    /// Flips one bit in a byte of a sector.
    pub fn flip(&mut self, lba: u64, byte: usize) {
        self.cache.retain(|(at, _)| *at != lba);
        self.media[lba as usize][byte] ^= 1;
    }

    /// Replaces the content of a sector.
    pub fn put(&mut self, lba: u64, data: Vec<u8>) {
        self.cache.retain(|(at, _)| *at != lba);
        self.media[lba as usize] = data;
    }

    pub fn harm(&mut self, lba: u64) {
        self.media[lba as usize].fill(0xA5);
    }

    fn store(&mut self, lba: u64, data: &[u8], forced: bool) {
        match forced {
            true => {
                self.cache.retain(|(at, _)| *at != lba);
                self.media[lba as usize].copy_from_slice(data);
            }
            false => self.cache.push((lba, data.to_vec())),
        }
    }

    /// Cuts the power: a random selection of the sectors under way and in the cache reaches the media.
    pub fn cut(&mut self) {
        for (command, _) in std::mem::take(&mut self.pending).into_values() {
            if !matches!(command.opcode, Opcode::Write | Opcode::Trim | Opcode::WriteZeroes) {
                continue;
            }
            for at in 0..command.sectors as usize {
                let data = command.data.get(at * SECTOR..(at + 1) * SECTOR).unwrap_or(&[0; SECTOR]).to_vec();
                self.cache.push((command.lba.0 + at as u64, data));
            }
        }
        for (lba, data) in std::mem::take(&mut self.cache) {
            if self.rng.chance(0.5) {
                self.media[lba as usize] = data;
            }
        }
        self.done.clear();
    }

    /// Replaces the host: a random selection of the sectors under way is written; the cache stays.
    pub fn abandon(&mut self) {
        let cached = std::mem::take(&mut self.cache);
        let media = self.media.clone();
        self.cut();
        // Data that the cut put on the media are newer than the cached ones.
        let written = std::mem::replace(&mut self.media, media);
        let changed = written.into_iter().enumerate().filter(|(lba, data)| self.media[*lba] != *data);
        self.cache = cached.into_iter().chain(changed.map(|(lba, data)| (lba as u64, data))).collect();
    }

    fn carry_out(&mut self, mut command: Command, submitted: SimTime) {
        let first = command.lba.0;

        let mut status = Status::Success;
        let bad = self.bad.is_some_and(|bad| (first..first + u64::from(command.sectors)).contains(&bad));
        match command.opcode {
            Opcode::Write if bad => status = Status::WriteFault,
            Opcode::Read if bad => status = Status::UnrecoveredRead,
            Opcode::Write if self.rng.chance(self.faults.write) => {
                status = Status::WriteFault;
                // A part of the write takes effect.
                for at in (0..command.sectors as usize).filter(|at| at % 2 == 0) {
                    self.store(first + at as u64, &command.data[at * SECTOR..(at + 1) * SECTOR], false);
                }
            }
            Opcode::Write => {
                for at in 0..command.sectors as usize {
                    self.store(first + at as u64, &command.data[at * SECTOR..(at + 1) * SECTOR], command.fua);
                }
            }
            Opcode::Read if self.rng.chance(self.faults.read) => status = Status::UnrecoveredRead,
            Opcode::Read => {
                for at in 0..command.data.len() / SECTOR {
                    let data = self.sector(first + at as u64).to_vec();
                    command.data[at * SECTOR..(at + 1) * SECTOR].copy_from_slice(&data);
                }
            }
            Opcode::Trim | Opcode::WriteZeroes => {
                self.trimmed += u64::from(command.sectors);
                (first..first + u64::from(command.sectors))
                    .for_each(|lba| self.store(lba, &[0; SECTOR], false));
            }
            Opcode::Flush if self.rng.chance(self.faults.reset) => status = Status::WriteFault,
            Opcode::Flush => {
                self.flushes += 1;
                for (lba, data) in std::mem::take(&mut self.cache) {
                    self.media[lba as usize] = data;
                }
            }
            other => panic!("{other:?}: chunks have no use for it"),
        }
        let mut stages = StageTimes::default();
        stages.add(Stage::Media, self.now - submitted);
        let ended = command.refused(submitted, status);
        self.done.push_back(Completion { completed: self.now, stages, ..ended });
    }
}

impl Drive for BlockReference {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(Interface::Block { sectors: self.media.len() as u64, handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        SECTOR
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        assert!(command.lba.0 + u64::from(command.sectors) <= self.media.len() as u64, "{:?}", command.lba);
        assert!(command.opcode != Opcode::Write || command.data.len() == command.sectors as usize * SECTOR);
        self.forced += u64::from(command.fua);
        self.serial += 1;
        // Commands overtake each other.
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
