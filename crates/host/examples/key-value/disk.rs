//! Block drive of the example: commands take time, overtake each other, and are on the media when they
//! complete. A power cut loses some of the commands under way.

use pellucid_flash::{
    Command, Completion, Drive, Interface, Nanos, Opcode, Rng, SimTime, StageTimes, Status,
};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
pub struct Disk {
    sectors: Vec<u8>,
    sector_bytes: usize,
    pending: BTreeMap<(SimTime, u64), (SimTime, Command)>,
    done: VecDeque<Completion>,
    serial: u64,
    rng: Rng,
}

impl Disk {
    pub fn new(sectors: u64, sector_bytes: usize, seed: u64) -> Disk {
        Disk {
            sectors: vec![0; sectors as usize * sector_bytes],
            sector_bytes,
            pending: BTreeMap::new(),
            done: VecDeque::new(),
            serial: 0,
            rng: Rng::stream(seed, "disk"),
        }
    }

    /// Cuts the power: each write under way takes effect as a whole or not at all, and its completion is
    /// lost.
    pub fn power_cut(&mut self) {
        for (_, command) in std::mem::take(&mut self.pending).into_values() {
            if self.rng.chance(0.5) {
                self.carry_out(command);
            }
        }
        self.done.clear();
    }

    fn carry_out(&mut self, mut command: Command) -> Command {
        let first = command.lba.0 as usize * self.sector_bytes;
        let place = first..first + command.sectors as usize * self.sector_bytes;
        match command.opcode {
            Opcode::Write => self.sectors[place].copy_from_slice(&command.data),
            Opcode::Read => command.data.copy_from_slice(&self.sectors[place]),
            other => unreachable!("{other:?}: the example does not send it"),
        }
        command
    }
}

impl Drive for Disk {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let sectors = (self.sectors.len() / self.sector_bytes) as u64;
        (namespace == 0).then_some(Interface::Block { sectors, handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        self.sector_bytes
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.serial += 1;
        let done = now + Nanos(1_000 + self.rng.below(9_000));
        self.pending.insert((done, self.serial), (now, command));
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(first) = self.pending.first_entry().filter(|first| first.key().0 <= now) {
            let completed = first.key().0;
            let (submitted, command) = first.remove();
            let command = self.carry_out(command);
            let stages = StageTimes::default();
            self.done.push_back(Completion {
                submitted,
                completed,
                stages,
                ..command.refused(completed, Status::Success)
            });
        }
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
