//! The filter between a drive and its hosts: injects faults that a host sees, for any protocol and any drive.
//!
//! ```text
//!  submit ─► faults, in their order ─┬─ an answer: io-error, lost-flush ─────────────► ended ─► pop
//!                                    └─ changed (torn, corrupt, not forced) ─► drive ─┬────────► pop
//!                                                                                     └─ late ─► ended ─► pop
//! ```
//! Every fault that hits a command is applied to it. Faults are repeatable by seed: the same commands in the
//! same order meet the same faults. The choice of corrupt sectors does not even depend on the order.
//!
//! A drive that is lost for good ends every command with an error here, before any fault.
//!
//! Invariants: each command has exactly one completion; a command that no fault hits is unchanged.

use pellucid_flash::{
    Command, Completion, FNV_BASIS, Nanos, Opcode, Rng, SimTime, Stage, StageTimes, Status, Tag, fnv1a,
};
use pellucid_target::request::{HostFault, HostFaultKind};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Sectors of a command that a fault affects.
type Sectors = Range<u64>;

/// An active fault.
struct Rule {
    namespace: u16,
    fault: HostFault,
    rng: Rng,
    hits: u64,
}

/// Changes still to be applied to a command when it completes.
#[derive(Default)]
struct Effect {
    delay: Nanos,
    /// Corruption of the data read: the rule's seed and rate, and the affected sectors.
    corrupt: Vec<(u64, f64, Sectors)>,
    /// First sector of the command.
    lba: u64,
}

/// The host faults of one drive.
pub(super) struct Injector {
    sector_bytes: u64,
    rules: Vec<Rule>,
    affected: BTreeMap<Tag, Effect>,
    /// Completions held until their time; a number keeps the order of equal times.
    late: BTreeMap<(SimTime, u64), Completion>,
    number: u64,
    ended: VecDeque<Completion>,
    /// The drive is lost for good: every command ends with an error.
    gone: bool,
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
            gone: false,
        }
    }

    /// Adds a fault to a namespace.
    pub fn add(&mut self, namespace: u16, fault: HostFault) {
        let rng = Rng::stream(fault.seed, "host fault");
        self.rules.push(Rule { namespace, fault, rng, hits: 0 });
    }

    /// From now on every command ends with an error at once: what the layers still know of the drive may be outdated.
    pub fn lose_drive(&mut self) {
        self.gone = true;
    }

    /// Removes all faults of a namespace; returns how many there were.
    pub fn clear(&mut self, namespace: u16) -> usize {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.namespace != namespace);
        before - self.rules.len()
    }

    /// Faults of a namespace, each with the number of commands it has hit.
    pub fn of(&self, namespace: u16) -> impl Iterator<Item = (HostFault, u64)> + '_ {
        self.rules.iter().filter(move |rule| rule.namespace == namespace).map(|rule| (rule.fault, rule.hits))
    }

    /// Applies the faults to a command and returns the command for the drive; `None` if it has already ended.
    pub fn pass(&mut self, at: SimTime, mut command: Command) -> Option<Command> {
        if self.gone {
            let status = error_of(command.opcode);
            self.end(command.ended(status, at, at, StageTimes::default()), Nanos::ZERO);
            return None;
        }
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

    /// Applies the faults to a completion of the drive; returns `None` if it is held back.
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

    /// Hands out a completion after `delay`.
    fn end(&mut self, mut completion: Completion, delay: Nanos) {
        if delay.0 == 0 {
            return self.ended.push_back(completion);
        }
        completion.completed.0 = completion.completed.0.saturating_add(delay.0);
        completion.stages.add(Stage::HostLink, delay);
        self.number += 1;
        self.late.insert((completion.completed, self.number), completion);
    }

    /// Releases the completions that are due by `now`.
    pub fn advance(&mut self, now: SimTime) {
        while let Some(first) = self.late.first_entry().filter(|first| first.key().0 <= now) {
            self.ended.push_back(first.remove());
        }
    }

    /// Ends held completions on a power cut. A successful write must not be reported after it, as the host
    /// would assume that its next flush covers the write.
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

    /// Number of completions held until their time.
    pub fn outstanding(&self) -> usize {
        self.late.len()
    }

    /// Number of completions ready to be taken.
    pub fn completed(&self) -> usize {
        self.ended.len()
    }
}

impl Rule {
    /// Sectors of a command that the rule may hit; `None` if the rule does not apply.
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

    /// Truncates a write to its first sectors; returns their number.
    fn tear(&mut self, command: &mut Command, sector_bytes: u64) -> u64 {
        let left = self.rng.below(command.sectors.into());
        command.sectors = left as u32;
        command.data.truncate((left * sector_bytes) as usize);
        left
    }

    /// Corrupts written data, or notes the corruption for read data; returns true if any sector is corrupt.
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

/// Flipped bit of a sector; `None` if the sector is not corrupt.
fn wrong_bit(sector: u64, sector_bytes: u64, (seed, rate): (u64, f64)) -> Option<u64> {
    let name = fnv1a(fnv1a(FNV_BASIS, seed.to_le_bytes()), sector.to_le_bytes());
    let mut rng = Rng::new(name);
    rng.chance(rate).then(|| rng.below(sector_bytes * 8))
}

/// Flips the bits that a seed and a rate select. `data` begins with sector `lba`.
fn corrupt(data: &mut [u8], lba: u64, sectors: Sectors, sector_bytes: u64, by: (u64, f64)) {
    for sector in sectors {
        let Some(bit) = wrong_bit(sector, sector_bytes, by) else { continue };
        if let Some(byte) = data.get_mut(((sector - lba) * sector_bytes + bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
