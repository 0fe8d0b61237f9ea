//! The firmware as endless loops: one on one processor (Cosmos+ OpenSSD, Algorithm 1), or one on each of two.
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
//! On two processors the host's loop has only the turn, and the scheduler's only the steps below it: it comes by whether or not the other
//! one takes commands.
//!
//! Hardware only sets state; the loop acts on it in its next turn. Work called by a step (issuing a host DMA, completing a command) runs
//! before the loop continues, like a function call. As in the public firmware, a turn that fetched a command skips the scheduler.
//!
//! A loop that would find nothing new causes no events: it is parked, with the start time of its turn. Its turns are identical until
//! something changes; then a division gives the step that the loop would have reached, and it resumes there.
//!
//! Invariant: of each processor at most one event is outstanding, and then `doing` of its loop says what ends with it.

use crate::events::Event;
use crate::firmware::{Concern, FirmwareModule, HOST, SCHEDULER, Task};
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

/// Steps that a loop goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// All of Algorithm 1.
    Whole,
    /// The turn alone: host interface and FTL.
    Host,
    /// The steps below the turn: the scheduler.
    Scheduler,
}

impl Round {
    /// Its first step.
    fn begins(self) -> At {
        match self {
            Round::Whole | Round::Host => At::Turn,
            Round::Scheduler => At::HostDma,
        }
    }
}

/// The state of one loop.
#[derive(Clone, Debug)]
struct Loop {
    round: Round,
    at: At,
    doing: Option<Doing>,
    /// Since when it turns without finding anything.
    parked: Option<SimTime>,
}

impl Loop {
    fn new(round: Round) -> Loop {
        Loop { round, at: round.begins(), doing: None, parked: Some(SimTime::ZERO) }
    }
}

/// State of all loops.
#[derive(Clone, Debug)]
pub(crate) struct Polling {
    turn: Nanos,
    visit: Nanos,
    poll: Nanos,
    register: Nanos,
    word: Nanos,
    spread: f64,
    rng: Rng,
    /// By processor.
    loops: Vec<Loop>,
    dma_running: u32,
    dma_ended: VecDeque<u32>,
}

impl Polling {
    /// `costs`: turn, visit, poll, register, word; each step's is drawn from `1 +- spread` of it. `is_split`: on two processors.
    pub fn new(costs: [Nanos; 5], spread: f64, seed: u64, is_split: bool) -> Polling {
        let [turn, visit, poll, register, word] = costs;
        let rounds: &[Round] = if is_split { &[Round::Scheduler, Round::Host] } else { &[Round::Whole] };
        const { assert!(SCHEDULER == 0 && HOST == 1, "the order of the rounds") };
        Polling {
            turn,
            visit,
            poll,
            register,
            word,
            spread,
            rng: Rng::stream(seed, "firmware.spread"),
            loops: rounds.iter().map(|&round| Loop::new(round)).collect(),
            dma_running: 0,
            dma_ended: VecDeque::new(),
        }
    }

    /// Subject of the current step of a processor.
    pub fn concern(&self, at: usize) -> Concern {
        match self.loops[at].doing {
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
        self.loops.iter_mut().for_each(|all| *all = Loop::new(all.round));
        self.dma_running = 0;
        self.dma_ended.clear();
    }
}

impl Shared {
    fn polling(&mut self) -> &mut Polling {
        self.firmware.polling.as_mut().expect("the firmware is a loop")
    }

    fn loop_of(&mut self, at: usize) -> &mut Loop {
        &mut self.polling().loops[at]
    }

    /// The hardware has moved the data of a slice; the loop will see it.
    pub(crate) fn dma_ended(&mut self, slice: u32) {
        self.polling().dma_ended.push_back(slice);
    }

    /// Ends the current step of a processor, which takes effect now. Returns the resulting work for the drive.
    pub(crate) fn loop_step(&mut self, processor: usize) -> Takes {
        let now = self.now;
        let doing = self.loop_of(processor).doing.take().expect("a processor event of an idle loop");
        match doing {
            Doing::Passing(_) => {}
            Doing::Turn => return Takes::Command,
            Doing::HostDma => {
                while let Some(slice) = self.polling().dma_ended.pop_front() {
                    self.polling().dma_running -= 1;
                    let unseen = now - self.slices[slice].mark;
                    self.tally.of_drive().dma_unseen_ns += unseen.0;
                    self.slices[slice].book(Stage::HostLink, now);
                    self.firmware.put_last(Task::DmaStatus(slice));
                }
                self.loop_of(processor).at = At::Look(0);
            }
            Doing::Look(channel) => {
                self.scheduler.look(now, channel, &mut self.events);
                self.loop_of(processor).at = At::Sensed(channel);
            }
            Doing::Task(task) => {
                self.firmware.ended(task);
                return Takes::Task(task);
            }
            Doing::Sensed(die) => self.scheduler.sensed(now, die, &mut self.events),
            Doing::Issue(die) => {
                let channel = self.scheduler.issue(now, die, &mut self.events);
                self.loop_of(processor).at = At::Recheck(channel);
            }
            Doing::Recheck(channel) => self.loop_of(processor).at = At::Issue(channel),
        }
        Takes::Nothing
    }

    /// A turn of a loop has ended; whether it took a command.
    pub(crate) fn turned(&mut self, processor: usize, took: bool) {
        let work = self.has_outstanding();
        let turning = self.loop_of(processor);
        let goes_on = turning.round == Round::Whole && work && !took;
        turning.at = if goes_on { At::HostDma } else { At::Turn };
    }

    /// Lets each processor go on with its next step, if it is not in one. `command_waits`: one could take a command.
    pub(crate) fn loop_on(&mut self, command_waits: bool) {
        // Work that the host's processor hands over is visible to the scheduler's processor.
        for processor in (0..self.polling().loops.len()).rev() {
            if self.loop_of(processor).doing.is_none() {
                self.goes_on(processor, command_waits);
            }
        }
    }

    fn goes_on(&mut self, processor: usize, command_waits: bool) {
        let Loop { round, parked, .. } = *self.loop_of(processor);
        if let Some(since) = parked {
            if self.nothing_new(processor, command_waits) {
                return;
            }
            let (at, left) = self.position(round, since);
            // The turn is its own step; every other one looks at what has ended.
            let turning = match round {
                Round::Whole => at == At::HostDma || !self.has_outstanding(),
                Round::Host => true,
                Round::Scheduler => false,
            };
            let module = if turning { FirmwareModule::Fetch } else { FirmwareModule::Status };
            let parked = self.loop_of(processor);
            (parked.at, parked.parked) = (at, None);
            return self.work(processor, Doing::Passing(module), left);
        }
        while let Some(task) = self.firmware.pop_waiting(processor) {
            match task {
                Ok(task) => {
                    let cost = self.task_cost(task);
                    return self.work(processor, Doing::Task(task), cost);
                }
                // It joins the reservation station.
                Err(Task::Issue(op)) => self.issue(op),
                Err(task) => self.firmware.put_last(task),
            }
        }
        loop {
            let now = self.now;
            let at = self.loop_of(processor).at;
            let (doing, cost) = match at {
                at if at == round.begins() && self.nothing_new(processor, command_waits) => {
                    self.loop_of(processor).parked = Some(now);
                    return;
                }
                At::Turn => (Some(Doing::Turn), self.step_cost(at)),
                At::HostDma => (Some(Doing::HostDma), self.step_cost(at)),
                At::Look(channel) => (Some(Doing::Look(channel)), self.step_cost(at)),
                At::Recheck(channel) => (Some(Doing::Recheck(channel)), self.step_cost(at)),
                At::Sensed(channel) => {
                    let die = self.scheduler.next_sensed(now, channel);
                    let data = die.is_some_and(|die| self.scheduler.seen().has_data(die));
                    let task = if data { Task::DataStatus(0) } else { Task::Status(0) };
                    (die.map(Doing::Sensed), self.firmware.cost(task))
                }
                At::Issue(channel) => {
                    let die = self.scheduler.next_issue(now, channel);
                    let registers = die.map_or(0, |die| self.scheduler.seen().registers(die));
                    let words = Nanos(self.polling().register.0 * u64::from(registers));
                    (die.map(Doing::Issue), self.firmware.cost(Task::Issue(0)) + words)
                }
            };
            match doing {
                Some(doing) => return self.work(processor, doing, cost),
                None => self.loop_of(processor).at = self.after(round, at),
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

    fn work(&mut self, processor: usize, doing: Doing, cost: Nanos) {
        let polling = self.polling();
        polling.loops[processor].doing = Some(doing);
        let cost = cost.scaled(polling.rng.factor(polling.spread));
        self.firmware.book(self.now, processor, doing.module(), cost);
        self.events.at(self.now + cost, Event::Processor(processor as u32));
    }

    /// The step after `at` when `at` has nothing more to do.
    fn after(&self, round: Round, at: At) -> At {
        match at {
            At::Turn => At::HostDma,
            At::HostDma => At::Look(0),
            At::Look(channel) => At::Sensed(channel),
            At::Sensed(channel) | At::Recheck(channel) => At::Issue(channel),
            At::Issue(channel) if channel + 1 < self.scheduler.seen().channels() => At::Look(channel + 1),
            At::Issue(_) => round.begins(),
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
                let reads = self.scheduler.seen().reads_of_look(channel);
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
        self.polling().dma_running > 0 || self.scheduler.seen().occupied()
    }

    /// Returns whether a whole round of a processor's loop would find nothing.
    fn nothing_new(&mut self, processor: usize, command_waits: bool) -> bool {
        let round = self.loop_of(processor).round;
        self.firmware.is_none_waiting(processor)
            && (round == Round::Scheduler || !command_waits)
            && (round == Round::Host
                || (self.polling().dma_ended.is_empty() && self.scheduler.seen().nothing_new()))
    }

    /// Returns the position of a loop whose rounds since `since` found nothing: the step it comes to next, and how long until then.
    fn position(&mut self, round: Round, since: SimTime) -> (At, Nanos) {
        let looks = round != Round::Host && self.has_outstanding();
        let channels = if looks { self.scheduler.seen().channels() } else { 0 };
        let steps = || {
            let turn = (round != Round::Scheduler).then_some(At::Turn);
            let scheduler = looks.then_some(At::HostDma).into_iter().chain((0..channels).map(At::Look));
            turn.into_iter().chain(scheduler)
        };
        let period: u64 = steps().map(|at| self.step_cost(at).0).sum();
        if period == 0 {
            return (round.begins(), Nanos::ZERO);
        }
        let phase = (self.now - since).0 % period;
        let mut begins = 0;
        for at in steps() {
            if begins >= phase {
                return (at, Nanos(begins - phase));
            }
            begins += self.step_cost(at).0;
        }
        (round.begins(), Nanos(period - phase))
    }
}
