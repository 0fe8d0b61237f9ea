//! The firmware processor: one serial resource that every step of a request has to pass.
//!
//! A step costs cycles, which scale with the clock, and time that does not (Cosmos+ section 7.1). Tasks run one
//! after the other in order of arrival. A task whose cost is zero while nothing waits is done at once, without an event.
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

impl Task {
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

/// The processor and what waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Firmware {
    pub waiting: VecDeque<Task>,
    running: bool,
    /// Busy time of each module, counting the current step up to its end.
    busy: [Nanos; FirmwareModule::COUNT],
    /// Module and end of the current step.
    step: (FirmwareModule, SimTime),
    costs: [Nanos; 7],
    free: bool,
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
        let free = polling.is_none() && costs.iter().all(|&c| c == Nanos::ZERO);
        Firmware {
            waiting: VecDeque::new(),
            running: false,
            busy: [Nanos::ZERO; FirmwareModule::COUNT],
            step: (FirmwareModule::Fetch, SimTime::ZERO),
            costs,
            free,
            polling,
        }
    }

    pub fn cost(&self, task: Task) -> Nanos {
        self.costs[match task {
            Task::Fetch(_) => 0,
            Task::Slice(_) => 1,
            Task::Dma(_) => 2,
            Task::Issue(_) => 3,
            Task::Status(_) | Task::DmaStatus(_) => 4,
            Task::DataStatus(_) => 5,
            Task::Complete(_) => 6,
        }]
    }

    /// Whether every task takes no time, so that callers need not ask.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.free
    }

    /// Asks for a task, which will be [`Firmware::finished`] in its turn.
    pub fn ask(&mut self, now: SimTime, task: Task, events: &mut Events) {
        self.waiting.push_back(task);
        if !self.running && self.polling.is_none() {
            self.run(now, events);
        }
    }

    fn run(&mut self, now: SimTime, events: &mut Events) {
        if let Some(&task) = self.waiting.front() {
            let cost = self.cost(task);
            self.running = true;
            self.book(now, task.module(), cost);
            events.at(now + cost, Event::Processor);
        }
    }

    /// The running task is done: do what it stands for. The next one starts.
    pub fn finished(&mut self, now: SimTime, events: &mut Events) -> Task {
        let task = self.waiting.pop_front().expect("a processor event without a task");
        self.running = false;
        self.run(now, events);
        task
    }

    /// The processor works for a module, from `now` on.
    #[inline]
    pub fn book(&mut self, now: SimTime, module: FirmwareModule, time: Nanos) {
        self.busy[module as usize] += time;
        self.step = (module, now + time);
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
        self.waiting.clear();
        self.running = false;
        if let Some(polling) = &mut self.polling {
            polling.reset();
        }
    }
}
