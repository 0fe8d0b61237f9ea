//! Several levels of several applications over one drive, as one machine with one pump.
//!
//! ```text
//!   ask { level, tag, call } ─► the level ─► its commands, tag | (level + 1) << 32 ─► drive
//! ```
//! Invariant: a level's own tags are below 2^32, so a completion identifies its level.

use crate::{Function, FunctionAnswer, FunctionAsk, FunctionCall, Policy, Raw};
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Notice, SimTime, Tag};
use pellucid_host::Machine;
use std::collections::VecDeque;

const LEVEL_SHIFT: u32 = 32;
const TAG_MASK: Tag = (1 << LEVEL_SHIFT) - 1;

/// Maximum number of open levels.
pub const LEVELS_MAX: usize = 128;

/// An open level.
#[derive(Clone, Debug)]
pub enum Level {
    /// Raw flash.
    Raw(RawQueue),
    /// Flash functions.
    Function(Function),
    /// A translation with policies.
    Policy(Policy),
}

/// Call of a level.
#[derive(Clone, Debug)]
pub enum LevelCall {
    /// Command to raw flash, made by [`Raw`].
    Raw(Command),
    /// Call of the function level.
    Function(FunctionCall),
    /// Block command to the policy level.
    Policy(Command),
}

/// A call to a level.
#[derive(Clone, Debug)]
pub struct LevelAsk {
    /// The level.
    pub level: u32,
    /// The caller's tag.
    pub tag: Tag,
    /// Call.
    pub call: LevelCall,
}

/// Answer of a level.
#[derive(Clone, Debug)]
pub enum LevelOutcome {
    /// Completion of raw flash.
    Raw(Completion),
    /// Answer of the function level.
    Function(FunctionAnswer),
    /// Completion of the policy level.
    Policy(Completion),
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub struct LevelAnswer {
    /// The level.
    pub level: u32,
    /// The caller's tag of the call.
    pub tag: Tag,
    /// Outcome of the call.
    pub outcome: LevelOutcome,
}

/// Raw flash as a machine that forwards commands.
#[derive(Clone, Debug)]
pub struct RawQueue {
    /// The level.
    pub raw: Raw,
    namespace: [u16; 1],
    tags: Slab<Tag>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
}

impl RawQueue {
    fn new(raw: Raw) -> RawQueue {
        let namespace = [raw.space().namespace];
        RawQueue { raw, namespace, tags: Slab::default(), down: VecDeque::new(), up: VecDeque::new() }
    }

    fn submit(&mut self, command: Command) {
        let tag = self.tags.insert(command.tag).into();
        self.down.push_back(Command { tag, ..command });
    }

    fn complete(&mut self, completion: &mut Completion) {
        let mut completion = completion.take();
        let number = completion.tag as u32;
        completion.tag = self.tags[number];
        self.tags.release(number);
        self.up.push_back(completion);
    }
}

/// Calls the machine of any kind; raw flash is not a machine itself.
macro_rules! each {
    ($self:expr, $queue:ident => $raw:expr, $machine:ident => $call:expr) => {
        match $self {
            Level::Raw($queue) => $raw,
            Level::Function($machine) => $call,
            Level::Policy($machine) => $call,
        }
    };
}

impl Level {
    fn namespaces(&self) -> &[u16] {
        each!(self, queue => &queue.namespace, machine => machine.namespaces())
    }

    fn next_event(&self, now: SimTime) -> Option<SimTime> {
        each!(self, queue => (!queue.down.is_empty()).then_some(now), machine => machine.next_event())
    }

    fn next_command(&mut self) -> Option<Command> {
        each!(self, queue => queue.down.pop_front(), machine => machine.next_command())
    }

    fn answered(&self) -> usize {
        each!(self, queue => queue.up.len(), machine => machine.answered())
    }

    /// Reason of a permanent failure.
    pub fn failure(&self) -> Option<String> {
        each!(self, _queue => None, machine => machine.failure())
    }

    /// Starts writing what makes the next start cheap; see [`Machine::stop`].
    pub fn stop(&mut self, now: SimTime) {
        each!(self, _queue => (), machine => machine.stop(now));
    }

    /// Reports whether the stop has ended.
    pub fn is_stopped(&self) -> bool {
        each!(self, _queue => true, machine => machine.is_stopped())
    }

    /// Reports whether it has started.
    pub fn is_ready(&self) -> bool {
        each!(self, _queue => true, machine => machine.is_ready())
    }

    fn pop(&mut self) -> Option<(Tag, LevelOutcome)> {
        match self {
            Level::Raw(queue) => queue.up.pop_front().map(|done| (done.tag, LevelOutcome::Raw(done))),
            Level::Function(function) => {
                function.pop().map(|answer| (answer.tag, LevelOutcome::Function(answer)))
            }
            Level::Policy(policy) => policy.pop().map(|done| (done.tag, LevelOutcome::Policy(done))),
        }
    }
}

/// The open levels of one drive.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    levels: Vec<Option<Level>>,
    namespaces: Vec<u16>,
    now: SimTime,
    /// Position at which the search for a command continues.
    turn: usize,
    /// Commands in flight, by level.
    under_way: Vec<u32>,
}

impl Levels {
    /// Opens raw flash.
    pub fn open_raw(&mut self, raw: Raw) -> Option<u32> {
        self.open(Level::Raw(RawQueue::new(raw)))
    }

    /// Opens a level and returns its number. `None`: the maximum number is open, or another level has
    /// its namespace.
    pub fn open(&mut self, level: Level) -> Option<u32> {
        let taken = level.namespaces().iter().any(|namespace| self.namespaces.contains(namespace));
        let at = self.levels.iter().position(Option::is_none).unwrap_or(self.levels.len());
        if taken || at == LEVELS_MAX {
            return None;
        }
        self.namespaces.extend_from_slice(level.namespaces());
        if at == self.levels.len() {
            self.levels.push(None);
            self.under_way.push(0);
        }
        self.levels[at] = Some(level);
        Some(at as u32)
    }

    /// Closes a level without calls in progress; `false`: calls are in progress, or there is no such level.
    pub fn close(&mut self, level: u32) -> bool {
        let at = level as usize;
        let rests = |open: &Level| {
            self.under_way[at] == 0 && open.answered() == 0 && open.next_event(self.now).is_none()
        };
        if !self.get(level).is_some_and(rests) {
            return false;
        }
        let closed = self.levels[at].take();
        let left = closed.iter().flat_map(Level::namespaces);
        left.for_each(|gone| self.namespaces.retain(|namespace| namespace != gone));
        true
    }

    /// A level.
    pub fn get(&self, level: u32) -> Option<&Level> {
        self.levels.get(level as usize)?.as_ref()
    }

    /// Returns a level for changes.
    pub fn get_mut(&mut self, level: u32) -> Option<&mut Level> {
        self.levels.get_mut(level as usize)?.as_mut()
    }

    /// Returns whether no level has commands in flight to the drive.
    pub fn is_at_rest(&self) -> bool {
        self.under_way.iter().all(|&commands| commands == 0) && self.next_event().is_none()
    }

    fn open_levels(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().flatten()
    }
}

impl Machine for Levels {
    type Ask = LevelAsk;
    type Answer = LevelAnswer;

    fn namespaces(&self) -> &[u16] {
        &self.namespaces
    }

    /// # Panics
    /// If the level is not open, or of another kind than the call.
    fn submit(&mut self, now: SimTime, ask: LevelAsk) {
        self.now = now;
        let LevelAsk { level, tag, call } = ask;
        match (self.get_mut(level), call) {
            (Some(Level::Raw(queue)), LevelCall::Raw(command)) => queue.submit(Command { tag, ..command }),
            (Some(Level::Function(function)), LevelCall::Function(call)) => {
                function.submit(now, FunctionAsk { tag, call });
            }
            (Some(Level::Policy(policy)), LevelCall::Policy(command)) => {
                policy.submit(now, Command { tag, ..command });
            }
            (_, call) => panic!("level {level} has no {call:?}"),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let level = (completion.tag >> LEVEL_SHIFT) as usize - 1;
        completion.tag &= TAG_MASK;
        self.under_way[level] -= 1;
        let open = self.levels[level].as_mut().expect("a level with commands under way is open");
        each!(open, queue => queue.complete(completion), machine => machine.complete(now, completion));
    }

    fn notice(&mut self, now: SimTime, namespace: u16, notice: Notice) {
        let of = |level: &&mut Level| level.namespaces().contains(&namespace);
        if let Some(level) = self.levels.iter_mut().flatten().find(of) {
            each!(level, _queue => (), machine => machine.notice(now, namespace, notice));
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
        for level in self.levels.iter_mut().flatten() {
            each!(level, _queue => (), machine => machine.advance(now));
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.open_levels().filter_map(|level| level.next_event(self.now)).min()
    }

    fn next_command(&mut self) -> Option<Command> {
        for _ in 0..self.levels.len() {
            let at = self.turn % self.levels.len();
            if let Some(command) = self.levels[at].as_mut().and_then(Level::next_command) {
                debug_assert!(command.tag <= TAG_MASK, "a level's tags leave room for its number");
                self.under_way[at] += 1;
                let tag = command.tag | (at as u64 + 1) << LEVEL_SHIFT;
                return Some(Command { tag, ..command });
            }
            self.turn = at + 1;
        }
        None
    }

    fn pop(&mut self) -> Option<LevelAnswer> {
        let mut answers = (0..).zip(self.levels.iter_mut());
        answers.find_map(|(level, open)| {
            let (tag, outcome) = open.as_mut()?.pop()?;
            Some(LevelAnswer { level, tag, outcome })
        })
    }

    fn answered(&self) -> usize {
        self.open_levels().map(Level::answered).sum()
    }

    fn is_ready(&self) -> bool {
        self.open_levels().all(Level::is_ready)
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.now = now;
        self.under_way.fill(0);
        for level in self.levels.iter_mut().flatten() {
            match level {
                Level::Raw(queue) => *queue = RawQueue::new(queue.raw),
                Level::Function(function) => Machine::restart(function, now)?,
                Level::Policy(policy) => Machine::restart(policy, now)?,
            }
        }
        Ok(())
    }
}
