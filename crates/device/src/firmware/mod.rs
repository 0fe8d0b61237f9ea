//! The firmware: one processor that every step of a request has to pass, or two.
//!
//! ```text
//!                    processors = 1                processors = 2
//!  fetch, slices, buffer, translation,   ┐        ┌ host interface and FTL
//!  dependencies, GC, completion, admin   ├ all    ┘
//!  host DMA, issue, status               ┘        ─ scheduler
//! ```
//! A step costs cycles, which scale with the clock, and time that does not (Cosmos+ section 7.1). The tasks of a processor run one
//! after the other in order of arrival. A task that costs nothing makes no event: it is done at once where its processor is free, else
//! directly behind the tasks before it.
//!
//! A step that calls modules with costs of their own ([`Chore`]) is followed by tasks of these, and what it asks for stands behind them:
//! a host DMA or flash operation that FTL has still chores for is handed to the scheduler's processor in its turn. A chore that costs
//! nothing is no task.
//!
//! Invariants: an event of a processor is due if and only if its running task costs something; `at_once` has the instant kinds of
//! the processors that run nothing (`idle`), less what is handed over while `held` is not 0; `turns` has the processors whose running task costs
//! nothing; host DMA and flash operations reach the scheduler's processor in the order in which they were asked for.
//! With [`FirmwareModel::Loop`] the processors poll instead; that is [`crate::firmware::polling`].

mod module;
pub(crate) mod polling;

pub use module::FirmwareModule;

use crate::config::{Firmware as Config, FirmwareModel, StepCost};
use crate::events::{Event, Events};
use crate::firmware::polling::Polling;
use pellucid_flash::{Nanos, SimTime};
use std::collections::VecDeque;

pub(crate) use module::{Chore, Chores};

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
    /// Work of a module.
    Chore(Chores),
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
            Task::Chore(_) => Concern::Nothing,
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
            Task::Chore(chores) => FIRST_CHORE + chores.number(),
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
            Task::Chore(chores) => chores.module(),
        }
    }
}

/// Number of the first kind of task that is a chore.
const FIRST_CHORE: usize = 7;
/// Kinds of tasks.
const KINDS: usize = FIRST_CHORE + Chore::COUNT;

/// A set of kinds of tasks, a bit each.
type Kinds = u32;

const fn kind(task: Task) -> Kinds {
    1 << task.kind()
}

/// Kinds of tasks for which a loop pays where it senses or issues something: to it, the reservation station is a list in memory.
const PAID_BY_LOOP: Kinds = kind(Task::Issue(0)) | kind(Task::Status(0)) | kind(Task::DataStatus(0));
/// Kinds of tasks of the scheduler (section 3.3.3): handing out operations, of host DMA too, and finding out what has ended.
const OF_SCHEDULER: Kinds = PAID_BY_LOOP | kind(Task::Dma(0));
/// Kinds of tasks that FTL hands to the scheduler.
const HANDED: Kinds = kind(Task::Dma(0)) | kind(Task::Issue(0));
/// Kinds of tasks that are chores.
const CHORES: Kinds = ALL & !((1 << FIRST_CHORE) - 1);
/// All kinds of tasks.
const ALL: Kinds = (1 << KINDS) - 1;
/// The processor of the scheduler, and the only one.
pub(crate) const SCHEDULER: usize = 0;
/// The processor of host interface and FTL, where it is another one.
pub(crate) const HOST: usize = 1;

/// A processor and what waits for it.
#[derive(Clone, Debug)]
struct Processor {
    /// Kinds of tasks that it does.
    kinds: Kinds,
    /// The task that runs, or that costs nothing and has its turn.
    running: Option<Task>,
    /// Tasks behind it; of a loop, all.
    waiting: VecDeque<Task>,
    /// Module and end of the current step.
    step: (FirmwareModule, SimTime),
}

/// The processors and what waits for them.
#[derive(Clone, Debug)]
pub(crate) struct Firmware {
    /// [`SCHEDULER`], which does everything where there is no other one, and [`HOST`].
    processors: [Processor; 2],
    /// There are two processors.
    is_split: bool,
    /// Kinds of tasks of processors that run nothing.
    idle: Kinds,
    /// Busy time of each module, counting current steps up to their end.
    busy: [Nanos; FirmwareModule::COUNT],
    costs: [Nanos; KINDS],
    /// Kinds of tasks that need no turn: those that cost nothing; of a loop, those that it pays for elsewhere.
    instant: Kinds,
    /// Kinds of tasks that are done at once now.
    at_once: Kinds,
    /// Processors whose running task costs nothing, a bit each.
    turns: u32,
    /// Chores that cost something.
    priced: Kinds,
    /// With two processors: chores that have not ended, and tasks for the scheduler behind them.
    held: u32,
    /// The loops, if the firmware polls.
    pub polling: Option<Polling>,
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
        let mut costs = [Nanos::ZERO; KINDS];
        costs[..FIRST_CHORE].copy_from_slice(&[fetch, slice, dma, issue, status, status + arrival, complete]);
        costs[FIRST_CHORE..].copy_from_slice(&Chore::costs(&config.modules).map(cost));
        let free: Kinds = (0..KINDS).map(|kind| Kinds::from(costs[kind] == Nanos::ZERO) << kind).sum();
        let is_split = config.processors > 1;
        let polling = (config.model == FirmwareModel::Loop).then(|| {
            let costs = [config.turn, config.visit, config.poll, config.register, config.word].map(cost);
            Polling::new(costs, config.spread, seed, is_split)
        });
        let instant = if polling.is_some() { PAID_BY_LOOP } else { free };
        let processor = |kinds| Processor {
            kinds,
            running: None,
            waiting: VecDeque::new(),
            step: (FirmwareModule::Fetch, SimTime::ZERO),
        };
        Firmware {
            processors: match is_split {
                true => [processor(OF_SCHEDULER), processor(ALL & !OF_SCHEDULER)],
                false => [processor(ALL), processor(0)],
            },
            is_split,
            idle: ALL,
            busy: [Nanos::ZERO; FirmwareModule::COUNT],
            costs,
            instant,
            at_once: instant,
            turns: 0,
            priced: (CHORES & !free) >> FIRST_CHORE,
            held: 0,
            polling,
        }
    }

    /// How many processors there are.
    pub fn processors(&self) -> usize {
        1 + usize::from(self.is_split)
    }

    /// Cost of a task.
    #[inline(always)]
    pub fn cost(&self, task: Task) -> Nanos {
        match task {
            Task::Chore(chores) => Nanos(self.costs[task.kind()].0 * chores.times()),
            _ => self.costs[task.kind()],
        }
    }

    /// Returns whether a task needs no turn now, and no other one is before it. The caller does it at once.
    #[inline(always)]
    pub fn does_at_once(&self, task: Task) -> bool {
        self.at_once >> task.kind() & 1 != 0
    }

    /// Returns whether a chore takes time.
    #[inline(always)]
    pub fn is_priced(&self, chore: Chore) -> bool {
        self.priced >> chore as u32 & 1 != 0
    }

    /// The processor that does a task.
    #[inline]
    fn processor_of(&self, task: Task) -> usize {
        // The first one has all tasks, or those of the scheduler.
        usize::from(self.is_split && self.processors[SCHEDULER].kinds & kind(task) == 0)
    }

    /// Asks for a task, which will be [`Firmware::finished`] in its turn.
    #[inline]
    pub fn ask(&mut self, now: SimTime, task: Task, events: &mut Events) {
        debug_assert!(!self.does_at_once(task), "{task:?} needs no turn");
        let at = if self.is_split { self.holder_of(task) } else { SCHEDULER };
        self.enter(now, at, task, events);
    }

    /// Returns the processor at which a task waits, of two: one that goes to the scheduler waits behind the chores that FTL has still to do.
    /// Counts it then, and chores.
    fn holder_of(&mut self, task: Task) -> usize {
        let is_behind = self.held > 0 && kind(task) & HANDED != 0;
        if is_behind || kind(task) & CHORES != 0 {
            self.held += 1;
            self.refresh();
        }
        if is_behind { HOST } else { self.processor_of(task) }
    }

    /// A task joins those of a processor.
    #[inline(always)]
    fn enter(&mut self, now: SimTime, at: usize, task: Task, events: &mut Events) {
        let processor = &mut self.processors[at % 2];
        if processor.running.is_some() || self.polling.is_some() {
            processor.waiting.push_back(task);
        } else {
            self.idle &= !processor.kinds;
            self.at_once &= !processor.kinds;
            self.run(now, at, task, events);
        }
    }

    /// A task has its turn.
    #[inline(always)]
    fn run(&mut self, now: SimTime, at: usize, task: Task, events: &mut Events) {
        let cost = self.cost(task);
        self.processors[at % 2].running = Some(task);
        self.book(now, at, task.module(), cost);
        if cost > Nanos::ZERO {
            events.at(now + cost, Event::Processor(at as u32));
        } else {
            self.turns |= 1 << at;
        }
    }

    /// The running task of a processor is done: do what it stands for. The next one starts.
    #[inline]
    pub fn finished(&mut self, now: SimTime, at: usize, events: &mut Events) -> Task {
        let processor = &mut self.processors[at % 2];
        let task = processor.running.take().expect("a processor event without a task");
        self.turns &= !(1 << at);
        if self.is_split {
            self.ended(task);
            self.hand_over(now, at, events);
        }
        let processor = &mut self.processors[at % 2];
        match processor.waiting.pop_front() {
            Some(next) => self.run(now, at, next, events),
            None => {
                self.idle |= processor.kinds;
                self.refresh();
            }
        }
        task
    }

    /// Tasks at the head of the line that are the other processor's go there.
    fn hand_over(&mut self, now: SimTime, at: usize, events: &mut Events) {
        let kinds = self.processors[at].kinds;
        while let Some(&next) = self.processors[at].waiting.front()
            && kinds & kind(next) == 0
        {
            self.processors[at].waiting.pop_front();
            self.held -= 1;
            self.enter(now, self.processor_of(next), next, events);
            self.refresh();
        }
    }

    /// A task has ended; of a loop, too.
    #[inline]
    pub fn ended(&mut self, task: Task) {
        if self.is_split && kind(task) & CHORES != 0 {
            self.held -= 1;
            self.refresh();
        }
    }

    /// Finds out which tasks are done at once from now on.
    #[inline(always)]
    fn refresh(&mut self) {
        let handed = if self.held > 0 { HANDED } else { 0 };
        self.at_once = self.instant & self.idle & !handed;
    }

    /// Returns whether a task whose turn it is costs nothing.
    #[inline]
    pub fn is_next_instant(&self) -> bool {
        self.turns != 0
    }

    /// A task whose turn it is and that costs nothing: as [`Firmware::finished`].
    #[inline]
    pub fn finished_at_once(&mut self, now: SimTime, events: &mut Events) -> Option<Task> {
        self.is_next_instant().then(|| self.finished(now, self.turns.trailing_zeros() as usize, events))
    }

    /// The next task of a processor that polls. What waits there for the scheduler comes as `Err`, and is handed over.
    pub fn pop_waiting(&mut self, at: usize) -> Option<Result<Task, Task>> {
        let task = self.processors[at].waiting.pop_front()?;
        if self.processors[at].kinds & kind(task) != 0 {
            return Some(Ok(task));
        }
        self.held -= 1;
        self.refresh();
        Some(Err(task))
    }

    /// Puts a task behind those that wait for its processor, which polls.
    pub fn put_last(&mut self, task: Task) {
        let at = self.processor_of(task);
        self.processors[at].waiting.push_back(task);
    }

    /// Returns whether no task waits for a processor.
    pub fn is_none_waiting(&self, at: usize) -> bool {
        self.processors[at].waiting.is_empty()
    }

    /// A processor works for a module, from `now` on.
    #[inline(always)]
    pub fn book(&mut self, now: SimTime, at: usize, module: FirmwareModule, time: Nanos) {
        self.busy[module as usize] += time;
        self.processors[at % 2].step = (module, now + time);
    }

    /// Module and end of the step that a processor began last.
    pub fn step(&self, at: usize) -> (FirmwareModule, SimTime) {
        self.processors[at].step
    }

    /// Subject of the current step of a processor.
    pub fn concern(&self, at: usize) -> Concern {
        match (&self.polling, self.processors[at].running) {
            (Some(polling), _) => polling.concern(at),
            (None, Some(task)) => task.concern(),
            (None, None) => Concern::Nothing,
        }
    }

    /// Time the processors have worked up to `now`, by [`FirmwareModule`].
    pub fn busy(&self, now: SimTime) -> [Nanos; FirmwareModule::COUNT] {
        let mut busy = self.busy;
        for Processor { step: (module, until), .. } in &self.processors {
            busy[*module as usize].0 -= until.since(now).0;
        }
        busy
    }

    /// Forgets all tasks (power cut).
    pub fn reset(&mut self, now: SimTime) {
        self.busy = self.busy(now);
        for processor in &mut self.processors {
            processor.step.1 = now;
            processor.running = None;
            processor.waiting.clear();
        }
        (self.at_once, self.turns, self.held, self.idle) = (self.instant, 0, 0, ALL);
        if let Some(polling) = &mut self.polling {
            polling.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModuleCosts;

    /// Processors for which only fetching, 700 ns, and a look-up, 300 ns, cost something.
    fn firmware(processors: u32) -> Firmware {
        let nothing = StepCost::default();
        let config = Config {
            model: FirmwareModel::Tasks,
            processors,
            clock_mhz: 1_000,
            fetch: StepCost { cycles: 0, fixed_ns: 700 },
            slice: nothing,
            modules: ModuleCosts { lookup: StepCost { cycles: 0, fixed_ns: 300 }, ..ModuleCosts::default() },
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
        let (mut firmware, mut events) = (firmware(1), Events::default());
        assert!(firmware.does_at_once(Task::Slice(1)) && !firmware.does_at_once(Task::Fetch(1)));
        firmware.ask(SimTime(0), Task::Fetch(1), &mut events);
        assert!(!firmware.does_at_once(Task::Slice(2)), "the processor works");
        for task in [Task::Slice(2), Task::Fetch(3), Task::Complete(4)] {
            firmware.ask(SimTime(100), task, &mut events);
        }
        let first = SimTime(700);
        assert_eq!(events.pop_due(first), Some((first, Event::Processor(0))));
        assert_eq!(firmware.finished(first, 0, &mut events), Task::Fetch(1));
        assert_eq!(firmware.finished_at_once(first, &mut events), Some(Task::Slice(2)));
        assert_eq!(firmware.finished_at_once(first, &mut events), None, "the next one costs something");
        let second = SimTime(1_400);
        assert_eq!(events.pop_due(second), Some((second, Event::Processor(0))));
        assert_eq!(firmware.finished(second, 0, &mut events), Task::Fetch(3));
        assert_eq!(firmware.finished_at_once(second, &mut events), Some(Task::Complete(4)));
        assert_eq!(firmware.finished_at_once(second, &mut events), None);
        assert!(events.is_empty() && firmware.does_at_once(Task::Slice(5)));
    }

    #[test]
    fn what_follows_a_chore_stands_behind_it_as_often_as_it_is_done() {
        let (mut firmware, mut events) = (firmware(1), Events::default());
        assert!(firmware.is_priced(Chore::Lookup) && !firmware.is_priced(Chore::Entry));
        firmware.ask(SimTime(0), Task::Chore(Chores::new(Chore::Lookup, 3)), &mut events);
        assert!(!firmware.does_at_once(Task::Dma(1)), "the processor works");
        firmware.ask(SimTime(0), Task::Dma(1), &mut events);
        let end = SimTime(900);
        assert_eq!(events.pop_due(end), Some((end, Event::Processor(0))));
        assert_eq!(firmware.finished(end, 0, &mut events), Task::Chore(Chores::new(Chore::Lookup, 3)));
        assert_eq!(firmware.finished_at_once(end, &mut events), Some(Task::Dma(1)));
        assert_eq!(firmware.busy(end)[FirmwareModule::Buffer as usize], Nanos(900));
    }

    #[test]
    fn a_second_processor_does_the_schedulers_tasks_beside_the_first() {
        let (mut firmware, mut events) = (firmware(2), Events::default());
        firmware.ask(SimTime(0), Task::Fetch(1), &mut events);
        for task in [Task::Dma(1), Task::DmaStatus(1), Task::Issue(1), Task::Status(1), Task::DataStatus(1)] {
            assert!(firmware.does_at_once(task), "{task:?} is the scheduler's");
        }
        for task in [Task::Slice(1), Task::Complete(1)] {
            assert!(!firmware.does_at_once(task), "{task:?} waits for the fetch");
        }
        let end = SimTime(700);
        assert_eq!(events.pop_due(end), Some((end, Event::Processor(HOST as u32))));
        assert_eq!(firmware.finished(end, HOST, &mut events), Task::Fetch(1));
        assert!(firmware.does_at_once(Task::Slice(1)) && events.is_empty());
    }

    /// Operations that FTL has still a chore for wait for that; ends that the hardware tells the scheduler do not.
    #[test]
    fn operations_are_handed_over_behind_the_chores_of_ftl_and_in_order() {
        let (mut firmware, mut events) = (firmware(2), Events::default());
        firmware.ask(SimTime(0), Task::Chore(Chores::new(Chore::Lookup, 1)), &mut events);
        assert!(firmware.does_at_once(Task::Status(7)) && !firmware.does_at_once(Task::Issue(1)));
        firmware.ask(SimTime(0), Task::Issue(1), &mut events);
        firmware.ask(SimTime(0), Task::Fetch(3), &mut events);
        firmware.ask(SimTime(0), Task::Dma(2), &mut events);
        let (chore, fetch) = (SimTime(300), SimTime(1_000));
        assert_eq!(events.pop_due(chore), Some((chore, Event::Processor(HOST as u32))));
        assert_eq!(firmware.finished(chore, HOST, &mut events), Task::Chore(Chores::new(Chore::Lookup, 1)));
        assert_eq!(firmware.finished_at_once(chore, &mut events), Some(Task::Issue(1)));
        assert!(!firmware.does_at_once(Task::Issue(4)), "another one is before it");
        assert_eq!(events.pop_due(fetch), Some((fetch, Event::Processor(HOST as u32))));
        assert_eq!(firmware.finished(fetch, HOST, &mut events), Task::Fetch(3));
        assert_eq!(firmware.finished_at_once(fetch, &mut events), Some(Task::Dma(2)));
        assert!(firmware.does_at_once(Task::Issue(4)) && events.is_empty());
    }
}
