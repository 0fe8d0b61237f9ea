//! The firmware as one endless loop on one processor (Cosmos+ OpenSSD, Algorithm 1).
//!
//! ```text
//!      ┌────────────────────────────────────────────────────────────────────────────────────────────┐
//!      ▼                                                                                            │
//!    turn: a command waits? ── yes ─► fetch, slices: buffer, translation, dependencies ─────────────┤
//!      │ no                                                                                         │
//!      ├─ reservation station empty ────────────────────────────────────────────────────────────────┤
//!      ▼                                                                                            │
//!    host DMA: read the state for each, newest first; deal with each that has ended                 │
//!      ▼                                                                                            │
//!    channel 0, 1, ...: look (lists, ready/busy, status words) ─► deal with each end that it showed │
//!                       ─► issue one of each class, by priority, until the controller is full ──────┘
//! ```
//! Hardware sets state; nothing follows until the loop comes by. What a step calls (a host DMA to issue, a command to complete)
//! runs before the loop goes on, as a function call would. The public firmware skips the scheduler in a turn that took a
//! command, and so does this.
//!
//! A loop that would only find what it knows does not run as events: it is parked, with the time at which its turn began. Its
//! turns are all alike until something changes, so when that happens the step at which the loop would be follows by
//! division, and it goes on there.
//!
//! Invariant: at most one processor event is outstanding, and then `doing` says what ends with it.

use crate::events::Event;
use crate::firmware::{Concern, FirmwareModule, Task};
use crate::shared::Shared;
use pellucid_flash::{Nanos, Rng, SimTime, Stage};
use std::collections::VecDeque;

/// Where the loop goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Turn,
    HostDma,
    Look(u32),
    Sensed(u32),
    Issue(u32),
    /// Reads whether the controller is still busy with what was just issued: a short command may be over.
    Recheck(u32),
}

/// Activity of the processor until its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The rest of a step of this module that had nothing new, when a parked loop goes on.
    Passing(FirmwareModule),
    Turn,
    HostDma,
    Look(u32),
    Task(Task),
    /// The end of this die's operation.
    Sensed(u32),
    /// Issuing this die's operation.
    Issue(u32),
    Recheck(u32),
}

impl Doing {
    fn module(self) -> FirmwareModule {
        match self {
            Doing::Passing(module) => module,
            Doing::Turn => FirmwareModule::Fetch,
            Doing::Task(task) => task.module(),
            Doing::Issue(_) => FirmwareModule::Issue,
            Doing::HostDma | Doing::Look(_) | Doing::Sensed(_) | Doing::Recheck(_) => FirmwareModule::Status,
        }
    }
}

/// Work for the drive at the end of a step of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// Take a command, if one waits.
    Command,
    Task(Task),
}

/// The loop's state.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    turn: Nanos,
    visit: Nanos,
    poll: Nanos,
    register: Nanos,
    word: Nanos,
    spread: f64,
    rng: Rng,
    at: At,
    doing: Option<Doing>,
    /// Since when the loop turns without finding anything.
    parked: Option<SimTime>,
    dma_running: u32,
    dma_ended: VecDeque<u32>,
}

impl Loop {
    /// `costs`: turn, visit, poll, register, word; each step's is drawn from `1 +- spread` of it.
    pub fn new(costs: [Nanos; 5], spread: f64, seed: u64) -> Loop {
        let [turn, visit, poll, register, word] = costs;
        Loop {
            turn,
            visit,
            poll,
            register,
            word,
            spread,
            rng: Rng::stream(seed, "firmware.spread"),
            at: At::Turn,
            doing: None,
            parked: Some(SimTime::ZERO),
            dma_running: 0,
            dma_ended: VecDeque::new(),
        }
    }

    /// Subject of the current step.
    pub fn concern(&self) -> Concern {
        match self.doing {
            Some(Doing::Task(task)) => task.concern(),
            Some(Doing::Sensed(die) | Doing::Issue(die)) => Concern::Die(die),
            _ => Concern::Nothing,
        }
    }

    /// A host DMA was issued.
    pub fn dma_begins(&mut self) {
        self.dma_running += 1;
    }

    /// Forgets everything (power cut).
    pub fn reset(&mut self) {
        let costs = [self.turn, self.visit, self.poll, self.register, self.word];
        *self = Loop { rng: self.rng.clone(), ..Loop::new(costs, self.spread, 0) };
    }
}

impl Shared {
    fn polling(&mut self) -> &mut Loop {
        self.firmware.polling.as_mut().expect("the firmware is a loop")
    }

    /// The hardware has moved the data of a slice; the loop will see it.
    pub(crate) fn dma_ended(&mut self, slice: u32) {
        self.polling().dma_ended.push_back(slice);
    }

    /// Ends the processor's current step, which takes effect now. Returns the resulting work for the drive.
    pub(crate) fn loop_step(&mut self) -> Takes {
        let now = self.now;
        let doing = self.polling().doing.take().expect("a processor event of an idle loop");
        match doing {
            Doing::Passing(_) => {}
            Doing::Turn => return Takes::Command,
            Doing::HostDma => {
                while let Some(slice) = self.polling().dma_ended.pop_front() {
                    self.polling().dma_running -= 1;
                    let unseen = now - self.slices[slice].mark;
                    self.tally.of_drive().dma_unseen_ns += unseen.0;
                    self.slices[slice].book(Stage::HostLink, now);
                    self.firmware.waiting.push_back(Task::DmaStatus(slice));
                }
                self.polling().at = At::Look(0);
            }
            Doing::Look(channel) => {
                self.scheduler.look(now, channel, &mut self.events);
                self.polling().at = At::Sensed(channel);
            }
            Doing::Task(task) => return Takes::Task(task),
            Doing::Sensed(die) => self.scheduler.sensed(now, die, &mut self.events),
            Doing::Issue(die) => {
                let channel = self.scheduler.issue(now, die, &mut self.events);
                self.polling().at = At::Recheck(channel);
            }
            Doing::Recheck(channel) => self.polling().at = At::Issue(channel),
        }
        Takes::Nothing
    }

    /// A turn of the loop has ended; whether it took a command.
    pub(crate) fn turned(&mut self, took: bool) {
        let work = self.has_outstanding();
        self.polling().at = if work && !took { At::HostDma } else { At::Turn };
    }

    /// Lets the processor go on with its next step, if it is not in one. `command_waits`: it could take a command.
    pub(crate) fn loop_on(&mut self, command_waits: bool) {
        if self.polling().doing.is_some() {
            return;
        }
        if let Some(since) = self.polling().parked {
            if self.nothing_new(command_waits) {
                return;
            }
            let (at, left) = self.position(since);
            // The turn is its own step; every other one looks at what has ended.
            let turning = at == At::HostDma || !self.has_outstanding();
            let module = if turning { FirmwareModule::Fetch } else { FirmwareModule::Status };
            let polling = self.polling();
            (polling.at, polling.parked) = (at, None);
            return self.work(Doing::Passing(module), left);
        }
        if let Some(task) = self.firmware.waiting.pop_front() {
            let cost = self.task_cost(task);
            return self.work(Doing::Task(task), cost);
        }
        loop {
            let now = self.now;
            let at = self.polling().at;
            let (doing, cost) = match at {
                At::Turn if self.nothing_new(command_waits) => {
                    self.polling().parked = Some(now);
                    return;
                }
                At::Turn => (Some(Doing::Turn), self.step_cost(at)),
                At::HostDma => (Some(Doing::HostDma), self.step_cost(at)),
                At::Look(channel) => (Some(Doing::Look(channel)), self.step_cost(at)),
                At::Recheck(channel) => (Some(Doing::Recheck(channel)), self.step_cost(at)),
                At::Sensed(channel) => {
                    let die = self.scheduler.next_sensed(now, channel);
                    let data = die.is_some_and(|die| self.scheduler.has_data(die));
                    let task = if data { Task::DataStatus(0) } else { Task::Status(0) };
                    (die.map(Doing::Sensed), self.firmware.cost(task))
                }
                At::Issue(channel) => {
                    let die = self.scheduler.next_issue(now, channel);
                    let registers = die.map_or(0, |die| self.scheduler.registers(die));
                    let words = Nanos(self.polling().register.0 * u64::from(registers));
                    (die.map(Doing::Issue), self.firmware.cost(Task::Issue(0)) + words)
                }
            };
            match doing {
                Some(doing) => return self.work(doing, cost),
                None => self.polling().at = self.after(at),
            }
        }
    }

    /// Returns the cost of a task. A host DMA is handed over unit by unit: the free space of the engine's queue is read, two words are
    /// written.
    fn task_cost(&mut self, task: Task) -> Nanos {
        let units = match task {
            Task::Dma(slice) => self.dma_units(slice),
            _ => 0,
        };
        let polling = self.polling();
        let unit = polling.poll.0 + 2 * polling.register.0;
        self.firmware.cost(task) + Nanos(unit * u64::from(units))
    }

    fn work(&mut self, doing: Doing, cost: Nanos) {
        let polling = self.polling();
        polling.doing = Some(doing);
        let cost = cost.scaled(polling.rng.factor(polling.spread));
        self.firmware.book(self.now, doing.module(), cost);
        self.events.at(self.now + cost, Event::Processor);
    }

    /// The step after `at` when `at` has nothing more to do.
    fn after(&self, at: At) -> At {
        match at {
            At::Turn => At::HostDma,
            At::HostDma => At::Look(0),
            At::Look(channel) => At::Sensed(channel),
            At::Sensed(channel) | At::Recheck(channel) => At::Issue(channel),
            At::Issue(channel) if channel + 1 < self.scheduler.channels() => At::Look(channel + 1),
            At::Issue(_) => At::Turn,
        }
    }

    /// Cost of a step that finds nothing.
    fn step_cost(&mut self, at: At) -> Nanos {
        let polling = self.polling();
        let (ended, running) = (polling.dma_ended.len() as u32, polling.dma_running);
        let (base, polls) = match at {
            At::Turn => (polling.turn, 0),
            // From the newest back to the first that has ended: the engine works in order.
            At::HostDma => (Nanos::ZERO, running - ended + ended.min(1)),
            At::Look(channel) => {
                let reads = self.scheduler.reads_of_look(channel);
                let polling = self.polling();
                let lists = polling.visit.0 * u64::from(1 + reads.ways);
                (Nanos(lists + polling.word.0 * u64::from(reads.words)), reads.registers)
            }
            At::Recheck(_) => (Nanos::ZERO, 1),
            At::Sensed(_) | At::Issue(_) => (Nanos::ZERO, 0),
        };
        base + Nanos(self.polling().poll.0 * u64::from(polls))
    }

    /// Returns whether the reservation station holds an operation, so that a turn looks at the channels too.
    fn has_outstanding(&mut self) -> bool {
        self.polling().dma_running > 0 || self.scheduler.occupied()
    }

    /// Returns whether a whole turn would find nothing.
    fn nothing_new(&mut self, command_waits: bool) -> bool {
        let polling = self.polling();
        polling.dma_ended.is_empty()
            && self.firmware.waiting.is_empty()
            && !command_waits
            && self.scheduler.nothing_new()
    }

    /// Returns the position of a loop whose turns since `since` found nothing: the step it comes to next, and how long until then.
    fn position(&mut self, since: SimTime) -> (At, Nanos) {
        let working = self.has_outstanding();
        let channels = if working { self.scheduler.channels() } else { 0 };
        let steps = || {
            let scheduler = working.then_some(At::HostDma).into_iter().chain((0..channels).map(At::Look));
            std::iter::once(At::Turn).chain(scheduler)
        };
        let period: u64 = steps().map(|at| self.step_cost(at).0).sum();
        if period == 0 {
            return (At::Turn, Nanos::ZERO);
        }
        let phase = (self.now - since).0 % period;
        let mut begins = 0;
        for at in steps() {
            if begins >= phase {
                return (at, Nanos(begins - phase));
            }
            begins += self.step_cost(at).0;
        }
        (At::Turn, Nanos(period - phase))
    }
}
