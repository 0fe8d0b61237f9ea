//! The firmware processor: one serial resource that every step of a request has to pass.
//!
//! A step costs cycles, which scale with the clock, and time that does not (Cosmos+ section 7.1). Tasks run one
//! after the other in order of arrival. A task that costs nothing makes no event: it is done at once where the processor is free, else
//! directly behind the tasks before it.
//!
//! Invariant: a processor event is due if and only if the first waiting task costs something.
//! With [`FirmwareModel::Loop`] the processor polls instead; that is [`crate::firmware::polling`].

pub(crate) mod polling;

use crate::config::{Firmware as Config, FirmwareModel, StepCost};
use crate::events::{Event, Events};
use crate::firmware::polling::Loop;
use pellucid_flash::{Nanos, SimTime};
use std::collections::VecDeque;

/// A step of the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Take this command and cut it into slices.
    Fetch(u32),
    /// Buffer, translation and dependencies of this slice.
    Slice(u32),
    /// Start the host DMA of this slice.
    Dma(u32),
    /// Notice that the host DMA of this slice has ended.
    DmaStatus(u32),
    /// Hand this flash operation to its way.
    Issue(u32),
    /// Notice that the array has finished this operation.
    Status(u32),
    /// Notice that the data of this operation have arrived.
    DataStatus(u32),
    /// Complete this command.
    Complete(u32),
}

/// A module of the firmware, by which the processor's time is counted (Cosmos+ section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FirmwareModule {
    /// Looking for a command, and taking it.
    Fetch = 0,
    /// Slices: data buffer, address translation, dependency check.
    Slice = 1,
    /// Handing host DMA operations to their engine.
    Dma = 2,
    /// The scheduler's issuer: handing flash operations to their channels.
    Issue = 3,
    /// The scheduler's status checker: finding out what has ended, host DMA or flash, and dealing with it.
    Status = 4,
    /// Completing commands.
    Complete = 5,
}

impl FirmwareModule {
    /// How many modules there are.
    pub const COUNT: usize = 6;
    /// All modules in the order of their numbers.
    pub const ALL: [FirmwareModule; FirmwareModule::COUNT] = [
        FirmwareModule::Fetch,
        FirmwareModule::Slice,
        FirmwareModule::Dma,
        FirmwareModule::Issue,
        FirmwareModule::Status,
        FirmwareModule::Complete,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            FirmwareModule::Fetch => "fetch",
            FirmwareModule::Slice => "slice",
            FirmwareModule::Dma => "dma",
            FirmwareModule::Issue => "issue",
            FirmwareModule::Status => "status",
            FirmwareModule::Complete => "complete",
        }
    }
}

/// Subject of a step of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// Everything, or nothing that could be named.
    Nothing,
    /// This command.
    Work(u32),
    /// This slice.
    Slice(u32),
    /// This flash operation.
    Operation(u32),
    /// The current operation of this die.
    Die(u32),
}

impl Task {
    /// Its subject.
    fn concern(self) -> Concern {
        match self {
            Task::Fetch(work) | Task::Complete(work) => Concern::Work(work),
            Task::Slice(slice) | Task::Dma(slice) | Task::DmaStatus(slice) => Concern::Slice(slice),
            Task::Issue(op) | Task::Status(op) | Task::DataStatus(op) => Concern::Operation(op),
        }
    }

    /// Its kind, as costs are numbered.
    #[inline(always)]
    const fn kind(self) -> usize {
        match self {
            Task::Fetch(_) => 0,
            Task::Slice(_) => 1,
            Task::Dma(_) => 2,
            Task::Issue(_) => 3,
            Task::Status(_) | Task::DmaStatus(_) => 4,
            Task::DataStatus(_) => 5,
            Task::Complete(_) => 6,
        }
    }

    /// The module that does it.
    pub fn module(self) -> FirmwareModule {
        match self {
            Task::Fetch(_) => FirmwareModule::Fetch,
            Task::Slice(_) => FirmwareModule::Slice,
            Task::Dma(_) => FirmwareModule::Dma,
            Task::Issue(_) => FirmwareModule::Issue,
            Task::DmaStatus(_) | Task::Status(_) | Task::DataStatus(_) => FirmwareModule::Status,
            Task::Complete(_) => FirmwareModule::Complete,
        }
    }
}

/// Kinds of tasks for which a loop pays where it senses or issues something: to it, the reservation station is a list in memory.
const PAID_BY_LOOP: u8 =
    1 << Task::Issue(0).kind() | 1 << Task::Status(0).kind() | 1 << Task::DataStatus(0).kind();

/// The processor and what waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Firmware {
    /// The task that runs, or that costs nothing and has its turn.
    running: Option<Task>,
    /// Tasks behind it; of a loop, all.
    pub waiting: VecDeque<Task>,
    /// Busy time of each module, counting the current step up to its end.
    busy: [Nanos; FirmwareModule::COUNT],
    /// Module and end of the current step.
    step: (FirmwareModule, SimTime),
    costs: [Nanos; 7],
    /// Kinds of tasks that need no turn: a bit each, in the order of `costs`. Those that cost nothing; of a loop, what it pays for elsewhere.
    instant: u8,
    /// The loop, if the firmware is one.
    pub polling: Option<Loop>,
}

impl Firmware {
    /// `seed`: of the spread of the loop's steps.
    pub fn new(config: &Config, seed: u64) -> Firmware {
        let cost = |c: StepCost| {
            Nanos(u64::from(c.cycles) * 1_000 / u64::from(config.clock_mhz) + u64::from(c.fixed_ns))
        };
        let [status, arrival] = [config.status, config.arrival].map(cost);
        let [fetch, slice, dma, issue, complete] =
            [config.fetch, config.slice, config.dma, config.issue, config.complete].map(cost);
        let costs = [fetch, slice, dma, issue, status, status + arrival, complete];
        let polling = (config.model == FirmwareModel::Loop).then(|| {
            Loop::new(
                [config.turn, config.visit, config.poll, config.register, config.word].map(cost),
                config.spread,
                seed,
            )
        });
        let instant = match &polling {
            Some(_) => PAID_BY_LOOP,
            None => (0..costs.len()).map(|kind| u8::from(costs[kind] == Nanos::ZERO) << kind).sum(),
        };
        Firmware {
            running: None,
            waiting: VecDeque::new(),
            busy: [Nanos::ZERO; FirmwareModule::COUNT],
            step: (FirmwareModule::Fetch, SimTime::ZERO),
            costs,
            instant,
            polling,
        }
    }

    pub fn cost(&self, task: Task) -> Nanos {
        self.costs[task.kind()]
    }

    /// Returns whether a task needs no turn now, and no other one is before it. The caller does it at once.
    #[inline(always)]
    pub fn does_at_once(&self, task: Task) -> bool {
        self.is_instant(task) && self.running.is_none()
    }

    #[inline(always)]
    fn is_instant(&self, task: Task) -> bool {
        self.instant >> task.kind() & 1 != 0
    }

    /// Asks for a task, which will be [`Firmware::finished`] in its turn.
    #[inline]
    pub fn ask(&mut self, now: SimTime, task: Task, events: &mut Events) {
        debug_assert!(!self.does_at_once(task), "{task:?} needs no turn");
        if self.running.is_some() || self.polling.is_some() {
            self.waiting.push_back(task);
        } else {
            self.run(now, task, events);
        }
    }

    /// A task has its turn.
    #[inline]
    fn run(&mut self, now: SimTime, task: Task, events: &mut Events) {
        let cost = self.cost(task);
        self.running = Some(task);
        self.book(now, task.module(), cost);
        if cost > Nanos::ZERO {
            events.at(now + cost, Event::Processor);
        }
    }

    /// The running task is done: do what it stands for. The next one starts.
    #[inline]
    pub fn finished(&mut self, now: SimTime, events: &mut Events) -> Task {
        let task = self.running.take().expect("a processor event without a task");
        if let Some(next) = self.waiting.pop_front() {
            self.run(now, next, events);
        }
        task
    }

    /// Returns whether the task whose turn it is costs nothing.
    #[inline]
    pub fn is_next_instant(&self) -> bool {
        self.running.is_some_and(|task| self.is_instant(task))
    }

    /// The task whose turn it is, if it costs nothing: as [`Firmware::finished`].
    #[inline]
    pub fn finished_at_once(&mut self, now: SimTime, events: &mut Events) -> Option<Task> {
        self.is_next_instant().then(|| self.finished(now, events))
    }

    /// The processor works for a module, from `now` on.
    #[inline]
    pub fn book(&mut self, now: SimTime, module: FirmwareModule, time: Nanos) {
        self.busy[module as usize] += time;
        self.step = (module, now + time);
    }

    /// Module and end of the step that the processor began last.
    pub fn step(&self) -> (FirmwareModule, SimTime) {
        self.step
    }

    /// Subject of the current step.
    pub fn concern(&self) -> Concern {
        match (&self.polling, self.running) {
            (Some(polling), _) => polling.concern(),
            (None, Some(task)) => task.concern(),
            (None, None) => Concern::Nothing,
        }
    }

    /// Time the processor has worked up to `now`, by [`FirmwareModule`].
    pub fn busy(&self, now: SimTime) -> [Nanos; FirmwareModule::COUNT] {
        let (module, until) = self.step;
        let mut busy = self.busy;
        busy[module as usize].0 -= until.since(now).0;
        busy
    }

    /// Forgets all tasks (power cut).
    pub fn reset(&mut self, now: SimTime) {
        self.busy = self.busy(now);
        self.step.1 = now;
        self.running = None;
        self.waiting.clear();
        if let Some(polling) = &mut self.polling {
            polling.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor for which only fetching costs something: 700 ns.
    fn firmware() -> Firmware {
        let nothing = StepCost::default();
        let config = Config {
            model: FirmwareModel::Tasks,
            clock_mhz: 1_000,
            fetch: StepCost { cycles: 0, fixed_ns: 700 },
            slice: nothing,
            dma: nothing,
            issue: nothing,
            status: nothing,
            arrival: nothing,
            complete: nothing,
            turn: nothing,
            visit: nothing,
            poll: nothing,
            register: nothing,
            word: nothing,
            spread: 0.0,
        };
        Firmware::new(&config, 1)
    }

    #[test]
    fn tasks_that_cost_nothing_make_no_event_and_keep_their_turn() {
        let (mut firmware, mut events) = (firmware(), Events::default());
        assert!(firmware.does_at_once(Task::Slice(1)) && !firmware.does_at_once(Task::Fetch(1)));
        firmware.ask(SimTime(0), Task::Fetch(1), &mut events);
        assert!(!firmware.does_at_once(Task::Slice(2)), "the processor works");
        for task in [Task::Slice(2), Task::Fetch(3), Task::Complete(4)] {
            firmware.ask(SimTime(100), task, &mut events);
        }
        let first = SimTime(700);
        assert_eq!(events.pop_due(first), Some((first, Event::Processor)));
        assert_eq!(firmware.finished(first, &mut events), Task::Fetch(1));
        assert_eq!(firmware.finished_at_once(first, &mut events), Some(Task::Slice(2)));
        assert_eq!(firmware.finished_at_once(first, &mut events), None, "the next one costs something");
        let second = SimTime(1_400);
        assert_eq!(events.pop_due(second), Some((second, Event::Processor)));
        assert_eq!(firmware.finished(second, &mut events), Task::Fetch(3));
        assert_eq!(firmware.finished_at_once(second, &mut events), Some(Task::Complete(4)));
        assert_eq!(firmware.finished_at_once(second, &mut events), None);
        assert!(events.is_empty() && firmware.does_at_once(Task::Slice(5)));
    }
}
