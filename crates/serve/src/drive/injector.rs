//! The filter between a drive and its hosts: faults that a host sees, whatever protocol it speaks and whatever it is served from.
//!
//! ```text
//!  submit ─► faults, in their order ─┬─ an answer: io-error, lost-flush ─────────────► ended ─► pop
//!                                    └─ changed (torn, corrupt, not forced) ─► drive ─┬────────► pop
//!                                                                                     └─ late ─► ended ─► pop
//! ```
//! All faults that hit a command are done to it. By a seed they are repeatable: the same commands in the same order meet the same faults;
//! which sectors are corrupt does not even depend on the order.
//!
//! Invariants: each command has one completion; a command that no fault hits is not changed.

use crate::host_fault::{HostFault, HostFaultKind};
use pellucid_flash::{
    Command, Completion, FNV_BASIS, Nanos, Opcode, Rng, SimTime, Stage, StageTimes, Status, Tag, fnv1a,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Sectors of a command that a fault of one's own concerns.
type Sectors = Range<u64>;

/// A fault in force.
struct Rule {
    namespace: u16,
    fault: HostFault,
    rng: Rng,
    hits: u64,
}

/// What is still to be done to a command when it ends.
#[derive(Default)]
struct Effect {
    delay: Nanos,
    /// The rule that corrupts what was read, by its seed and rate, and the sectors concerned.
    corrupt: Vec<(u64, f64, Sectors)>,
    /// The first sector.
    lba: u64,
}

/// The faults of one drive that its hosts see.
pub(super) struct Injector {
    sector_bytes: u64,
    rules: Vec<Rule>,
    affected: BTreeMap<Tag, Effect>,
    /// Completions that wait for their time; numbered, so that equal times keep their order.
    late: BTreeMap<(SimTime, u64), Completion>,
    number: u64,
    ended: VecDeque<Completion>,
}

impl Injector {
    pub fn new(sector_bytes: u32) -> Injector {
        Injector {
            sector_bytes: sector_bytes.into(),
            rules: Vec::new(),
            affected: BTreeMap::new(),
            late: BTreeMap::new(),
            number: 0,
            ended: VecDeque::new(),
        }
    }

    /// From now on commands of a namespace meet this fault.
    pub fn add(&mut self, namespace: u16, fault: HostFault) {
        let rng = Rng::stream(fault.seed, "host fault");
        self.rules.push(Rule { namespace, fault, rng, hits: 0 });
    }

    /// A namespace meets no fault from now on; how many it had.
    pub fn clear(&mut self, namespace: u16) -> usize {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.namespace != namespace);
        before - self.rules.len()
    }

    /// The faults of a namespace, each with the commands that it has hit.
    pub fn of(&self, namespace: u16) -> impl Iterator<Item = (HostFault, u64)> + '_ {
        self.rules.iter().filter(move |rule| rule.namespace == namespace).map(|rule| (rule.fault, rule.hits))
    }

    /// What is to be given to the drive of a command; `None`: it has ended.
    pub fn pass(&mut self, at: SimTime, mut command: Command) -> Option<Command> {
        let (tag, mut answer) = (command.tag, None);
        let mut effect = Effect { lba: command.lba.0, ..Effect::default() };
        for rule in &mut self.rules {
            let Some(sectors) = rule.concerns(&command, self.sector_bytes) else { continue };
            let is_hit = match rule.fault.kind {
                HostFaultKind::Corrupt => {
                    rule.corrupts(&mut command, &sectors, self.sector_bytes, &mut effect)
                }
                _ => rule.rng.chance(rule.fault.rate),
            };
            if !is_hit {
                continue;
            }
            rule.hits += 1;
            match rule.fault.kind {
                HostFaultKind::IoError => answer = answer.or(Some(error_of(command.opcode))),
                HostFaultKind::LostFlush if command.opcode == Opcode::Flush => {
                    answer = answer.or(Some(Status::Success))
                }
                HostFaultKind::LostFlush => command.fua = false,
                HostFaultKind::TornWrite => {
                    if rule.tear(&mut command, self.sector_bytes) == 0 {
                        answer = answer.or(Some(Status::Success));
                    }
                }
                HostFaultKind::Delay(time) => effect.delay.0 = effect.delay.0.saturating_add(time.0),
                HostFaultKind::Corrupt => {}
            }
        }
        if let Some(status) = answer {
            self.end(command.ended(status, at, at, StageTimes::default()), effect.delay);
            return None;
        }
        if effect.delay.0 > 0 || !effect.corrupt.is_empty() {
            self.affected.insert(tag, effect);
        }
        Some(command)
    }

    /// Takes a completion of the drive; `None`: it is to come later.
    pub fn came(&mut self, mut completion: Completion) -> Option<Completion> {
        let Some(effect) = self.affected.remove(&completion.tag) else { return Some(completion) };
        if completion.status == Status::Success && completion.opcode == Opcode::Read {
            for (seed, rate, sectors) in &effect.corrupt {
                corrupt(&mut completion.data, effect.lba, sectors.clone(), self.sector_bytes, (*seed, *rate));
            }
        }
        if effect.delay.0 == 0 || completion.status == Status::PowerLoss {
            return Some(completion);
        }
        self.end(completion, effect.delay);
        None
    }

    /// Has a completion handed out, after a while.
    fn end(&mut self, mut completion: Completion, delay: Nanos) {
        if delay.0 == 0 {
            return self.ended.push_back(completion);
        }
        completion.completed.0 = completion.completed.0.saturating_add(delay.0);
        completion.stages.add(Stage::HostLink, delay);
        self.number += 1;
        self.late.insert((completion.completed, self.number), completion);
    }

    /// It is `now`.
    pub fn advance(&mut self, now: SimTime) {
        while let Some(first) = self.late.first_entry().filter(|first| first.key().0 <= now) {
            self.ended.push_back(first.remove());
        }
    }

    /// The power is cut. A host that is told of a write after that would take its next flush for one that covers it.
    pub fn lose_power(&mut self) {
        for mut completion in std::mem::take(&mut self.late).into_values() {
            let is_kept = matches!(completion.opcode, Opcode::Read | Opcode::Flush | Opcode::Report);
            if completion.status == Status::Success && !is_kept {
                completion.status = Status::PowerLoss;
            }
            self.ended.push_back(completion);
        }
    }

    pub fn next_event(&self) -> Option<SimTime> {
        self.late.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    /// Completions that wait for their time.
    pub fn outstanding(&self) -> usize {
        self.late.len()
    }

    /// Completions that wait to be taken.
    pub fn completed(&self) -> usize {
        self.ended.len()
    }
}

impl Rule {
    /// The sectors of a command that it may hit; `None`: it does not concern it.
    fn concerns(&self, command: &Command, sector_bytes: u64) -> Option<Sectors> {
        let HostFault { kind, on, range_bytes: (from, to), count, .. } = self.fault;
        let is_left = count.is_none_or(|count| self.hits < count);
        let has_it =
            command.namespace == self.namespace && on.has(command.opcode) && command.vector.is_none();
        if !is_left || !has_it {
            return None;
        }
        if command.opcode == Opcode::Flush {
            return Some(0..0);
        }
        if kind == HostFaultKind::LostFlush && !command.fua || command.sectors == 0 {
            return None;
        }
        let (first, end) = (command.lba.0, command.lba.0.saturating_add(command.sectors.into()));
        let sectors = first.max(from / sector_bytes)..end.min(to.div_ceil(sector_bytes));
        (!sectors.is_empty()).then_some(sectors)
    }

    /// Leaves the first sectors of a write; how many.
    fn tear(&mut self, command: &mut Command, sector_bytes: u64) -> u64 {
        let left = self.rng.below(command.sectors.into());
        command.sectors = left as u32;
        command.data.truncate((left * sector_bytes) as usize);
        left
    }

    /// Corrupts what is written, or notes what will be read wrong; whether there is any.
    fn corrupts(
        &self,
        command: &mut Command,
        sectors: &Sectors,
        sector_bytes: u64,
        effect: &mut Effect,
    ) -> bool {
        let by = (self.fault.seed, self.fault.rate);
        if command.data.is_empty()
            || !sectors.clone().any(|sector| wrong_bit(sector, sector_bytes, by).is_some())
        {
            return false;
        }
        match command.opcode {
            Opcode::Read => effect.corrupt.push((by.0, by.1, sectors.clone())),
            _ => corrupt(&mut command.data, command.lba.0, sectors.clone(), sector_bytes, by),
        }
        true
    }
}

fn error_of(opcode: Opcode) -> Status {
    if opcode == Opcode::Read { Status::UnrecoveredRead } else { Status::WriteFault }
}

/// The bit of a sector that is wrong; `None`: it is not one of the share that is corrupt.
fn wrong_bit(sector: u64, sector_bytes: u64, (seed, rate): (u64, f64)) -> Option<u64> {
    let name = fnv1a(fnv1a(FNV_BASIS, seed.to_le_bytes()), sector.to_le_bytes());
    let mut rng = Rng::new(name);
    rng.chance(rate).then(|| rng.below(sector_bytes * 8))
}

/// Makes the bits wrong that are wrong by a seed and a share. `data` begin with sector `lba`.
fn corrupt(data: &mut [u8], lba: u64, sectors: Sectors, sector_bytes: u64, by: (u64, f64)) {
    for sector in sectors {
        let Some(bit) = wrong_bit(sector, sector_bytes, by) else { continue };
        if let Some(byte) = data.get_mut(((sector - lba) * sector_bytes + bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
