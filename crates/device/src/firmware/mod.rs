//! The firmware: one processor that every step of a request has to pass, or two.
//!
//! ```text
//!                    processors = 1                processors = 2
//!  fetch, slices, buffer, translation,   ┐        ┌ host interface and FTL
//!  dependencies, GC, completion, admin   ├ all    ┘
//!  host DMA, issue, status               ┘        ─ scheduler
//! ```
//! A step costs cycles, which scale with the clock, and time that does not (Cosmos+ section 7.1). The tasks of a processor run one
//! after the other in order of arrival. A task that costs nothing is the hardware's: it needs no turn of the processor and makes no
//! event, so it is done at once, whatever the processor works at.
//!
//! A step that calls modules with costs of their own ([`Chore`]) is followed by their tasks, and its requests wait behind these, even if
//! they are free. A zero-cost chore is not a task.
//!
//! ```text
//!  asked for                    stands behind
//!  ends, fetch, slice           no chore: hardware or the step before shows them
//!  host DMA, flash operations   every chore that has not ended: FTL hands them over in order
//!  completion                   the chores that were asked for at the same moment: those of its step
//! ```
//! When a chore ends, tasks that no longer wait behind another chore leave the line: zero-cost tasks are `released` and run at once; the
//! others go to the scheduler's processor, if it is a separate one.
//!
//! Invariants: a running task has a cost and a scheduled event; each task in the line that is free or belongs to the other processor
//! waits behind a chore, and `followers` counts these; `at_once` has the instant kinds except those that wait; host DMA and flash
//! operations reach the scheduler's processor in the order of their requests. With [`FirmwareModel::Loop`] the processors poll instead;
//! that is [`crate::firmware::polling`].

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
    /// The task that runs.
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
    /// Busy time of each module, counting current steps up to their end.
    busy: [Nanos; FirmwareModule::COUNT],
    costs: [Nanos; KINDS],
    /// Kinds of tasks that run immediately: zero-cost tasks and, with a loop, tasks whose cost is charged
    /// elsewhere.
    instant: Kinds,
    /// Kinds of tasks that are done at once now.
    at_once: Kinds,
    /// Chores that cost something.
    priced: Kinds,
    /// Flag: requests of the FTL wait behind its chores. Off for a single loop, which does everything in order
    /// anyway.
    holds: bool,
    /// Chores that have not ended; counted if `holds`.
    chores: u32,
    /// Host DMA and flash operations that stand behind a chore, or are released and not done.
    handed: u32,
    /// Tasks in line that wait for nothing but the end of a chore; not counted for a loop.
    followers: u32,
    /// Tasks that cost nothing and whose chores have ended, in order.
    released: VecDeque<Task>,
    /// When a chore was asked for last.
    charged: SimTime,
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
            busy: [Nanos::ZERO; FirmwareModule::COUNT],
            costs,
            instant,
            at_once: instant,
            priced: (CHORES & !free) >> FIRST_CHORE,
            holds: is_split || polling.is_none(),
            chores: 0,
            handed: 0,
            followers: 0,
            released: VecDeque::new(),
            charged: SimTime::ZERO,
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

    /// Returns whether a task surely needs no turn now, and no chore is before it. The caller does it at once.
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

    /// Asks for a task. `false`: it will be [`Firmware::finished`] in its turn, or come out of [`Firmware::next_released`]. `true`: it needs
    /// no turn, and the caller does it at once.
    #[inline]
    pub fn ask(&mut self, now: SimTime, task: Task, events: &mut Events) -> bool {
        debug_assert!(!self.does_at_once(task), "{task:?} needs no turn");
        if self.is_behind_chore(now, task) {
            self.follow(task);
            return false;
        }
        if self.polling.is_none() && self.is_instant(task) {
            return true;
        }
        if kind(task) & CHORES != 0 {
            (self.chores, self.charged) = (self.chores + u32::from(self.holds), now);
            self.refresh();
        }
        self.enter(now, self.processor_of(task), task, events);
        false
    }

    /// Returns whether a task has to wait for a chore, or for another task that waits or has waited for one.
    fn is_behind_chore(&self, now: SimTime, task: Task) -> bool {
        let polls = self.polling.is_some();
        if kind(task) & HANDED != 0 {
            let waits = self.chores > 0 || (self.handed > 0 && (polls || self.is_instant(task)));
            waits && (self.is_split || self.is_instant(task))
        } else {
            matches!(task, Task::Complete(_))
                && self.is_instant(task)
                && self.chores > 0
                && self.charged == now
        }
    }

    /// A task joins the line behind a chore, or those that are released.
    fn follow(&mut self, task: Task) {
        self.handed += u32::from(kind(task) & HANDED != 0);
        self.refresh();
        if self.chores == 0 && self.polling.is_none() {
            self.released.push_back(task);
        } else {
            self.followers += u32::from(self.polling.is_none());
            self.processors[self.ftl()].waiting.push_back(task);
        }
    }

    /// The processor of the FTL, which does the chores.
    fn ftl(&self) -> usize {
        if self.is_split { HOST } else { SCHEDULER }
    }

    /// Returns whether a task needs no turn where no chore is before it.
    fn is_instant(&self, task: Task) -> bool {
        self.instant & kind(task) != 0
    }

    /// A task joins those of a processor.
    #[inline(always)]
    fn enter(&mut self, now: SimTime, at: usize, task: Task, events: &mut Events) {
        let processor = &mut self.processors[at % 2];
        if processor.running.is_some() || self.polling.is_some() {
            processor.waiting.push_back(task);
        } else {
            self.run(now, at, task, events);
        }
    }

    /// A task has its turn.
    #[inline(always)]
    fn run(&mut self, now: SimTime, at: usize, task: Task, events: &mut Events) {
        let cost = self.cost(task);
        debug_assert!(cost > Nanos::ZERO, "{task:?} has its turn and costs nothing");
        self.processors[at % 2].running = Some(task);
        self.book(now, at, task.module(), cost);
        events.at(now + cost, Event::Processor(at as u32));
    }

    /// The running task of a processor is done: do what it stands for. The next one starts.
    #[inline]
    pub fn finished(&mut self, now: SimTime, at: usize, events: &mut Events) -> Task {
        let processor = &mut self.processors[at % 2];
        let task = processor.running.take().expect("a processor event without a task");
        if kind(task) & CHORES != 0 {
            self.ended(task);
            self.release(now, events);
        }
        if let Some(next) = self.processors[at % 2].waiting.pop_front() {
            self.run(now, at, next, events);
        }
        task
    }

    /// Tasks that stood behind a chore that has ended, and behind no other one, leave the line.
    fn release(&mut self, now: SimTime, events: &mut Events) {
        let (ftl, mut at) = (self.ftl(), 0);
        while self.followers > 0 {
            let Processor { kinds, waiting, .. } = &mut self.processors[ftl];
            let Some(&task) = waiting.get(at).filter(|&&task| kind(task) & CHORES == 0) else { break };
            let is_free = self.instant & kind(task) != 0;
            if !is_free && *kinds & kind(task) != 0 {
                at += 1;
                continue;
            }
            waiting.remove(at);
            self.followers -= 1;
            if is_free {
                self.released.push_back(task);
            } else {
                self.handed -= 1;
                self.enter(now, SCHEDULER, task, events);
            }
        }
        self.refresh();
    }

    /// A task has ended; of a loop, too.
    #[inline]
    pub fn ended(&mut self, task: Task) {
        if self.holds && kind(task) & CHORES != 0 {
            self.chores -= 1;
            self.refresh();
        }
    }

    /// Finds out which tasks are done at once from now on.
    #[inline(always)]
    fn refresh(&mut self) {
        let handed = if self.chores > 0 || self.handed > 0 { HANDED } else { 0 };
        let complete = if self.chores > 0 { kind(Task::Complete(0)) } else { 0 };
        self.at_once = self.instant & !(handed | complete);
    }

    /// Returns whether a task is released.
    #[inline]
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// The next task that is released: do what it stands for.
    #[inline]
    pub fn next_released(&mut self) -> Option<Task> {
        let task = self.released.pop_front()?;
        self.handed -= u32::from(kind(task) & HANDED != 0);
        self.refresh();
        Some(task)
    }

    /// The next task of a processor that polls. What waits there for the scheduler comes as `Err`, and is handed over.
    pub fn pop_waiting(&mut self, at: usize) -> Option<Result<Task, Task>> {
        let task = self.processors[at].waiting.pop_front()?;
        if self.processors[at].kinds & kind(task) != 0 {
            return Some(Ok(task));
        }
        self.handed -= 1;
        self.refresh();
        Some(Err(task))
    }

    /// Appends a task to the queue of its polling processor.
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
        (self.chores, self.handed, self.followers) = (0, 0, 0);
        self.released.clear();
        self.refresh();
        if let Some(polling) = &mut self.polling {
            polling.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModuleCosts;

    /// Three look-ups, 900 ns.
    fn lookups() -> Task {
        Task::Chore(Chores::new(Chore::Lookup, 3))
    }

    /// Processors for which only fetching, 700 ns, a look-up, 300 ns, and issuing, if it is to, 500 ns, cost something.
    fn firmware(processors: u32, issue_costs: bool) -> (Firmware, Events) {
        let nothing = StepCost::default();
        let config = Config {
            model: FirmwareModel::Tasks,
            processors,
            clock_mhz: 1_000,
            fetch: StepCost { cycles: 0, fixed_ns: 700 },
            slice: nothing,
            modules: ModuleCosts { lookup: StepCost { cycles: 0, fixed_ns: 300 }, ..ModuleCosts::default() },
            dma: nothing,
            issue: StepCost { cycles: 0, fixed_ns: if issue_costs { 500 } else { 0 } },
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
        (Firmware::new(&config, 1), Events::default())
    }

    /// The next event, which has to be that of this processor at this time, ends this task.
    fn ends(firmware: &mut Firmware, events: &mut Events, (at, processor): (u64, usize), task: Task) {
        let at = SimTime(at);
        assert_eq!(events.pop_due(at), Some((at, Event::Processor(processor as u32))));
        assert_eq!(firmware.finished(at, processor, events), task);
    }

    #[test]
    fn tasks_that_cost_nothing_need_no_turn_of_a_busy_processor() {
        let (mut firmware, mut events) = firmware(1, false);
        for work in [1, 3] {
            assert!(!firmware.ask(SimTime(0), Task::Fetch(work), &mut events));
        }
        let free = [
            Task::Slice(2),
            Task::Dma(2),
            Task::DmaStatus(2),
            Task::Issue(2),
            Task::Status(2),
            Task::DataStatus(2),
            Task::Complete(2),
        ];
        assert!(free.iter().all(|&task| firmware.does_at_once(task)));
        ends(&mut firmware, &mut events, (700, SCHEDULER), Task::Fetch(1));
        ends(&mut firmware, &mut events, (1_400, SCHEDULER), Task::Fetch(3));
        assert!(events.is_empty() && !firmware.has_released());
    }

    #[test]
    fn what_follows_a_chore_stands_behind_it_as_often_as_it_is_done() {
        let (mut firmware, mut events) = firmware(1, false);
        assert!(firmware.is_priced(Chore::Lookup) && !firmware.is_priced(Chore::Entry));
        assert!(!firmware.ask(SimTime(0), lookups(), &mut events));
        for task in [Task::Dma(1), Task::Complete(1)] {
            assert!(!firmware.does_at_once(task) && !firmware.ask(SimTime(0), task, &mut events), "{task:?}");
        }
        let shown = [Task::Slice(2), Task::DmaStatus(2), Task::Status(2), Task::DataStatus(2)];
        assert!(shown.iter().all(|&task| firmware.does_at_once(task)));
        assert!(firmware.ask(SimTime(1), Task::Complete(2), &mut events), "that chore is not of its step");
        assert!(!firmware.ask(SimTime(1), Task::Issue(3), &mut events), "operations stay in order");
        ends(&mut firmware, &mut events, (900, SCHEDULER), lookups());
        assert!(!firmware.does_at_once(Task::Issue(4)), "others are before it");
        assert!(!firmware.ask(SimTime(900), Task::Issue(4), &mut events));
        for task in [Task::Dma(1), Task::Complete(1), Task::Issue(3), Task::Issue(4)] {
            assert_eq!(firmware.next_released(), Some(task));
        }
        assert!(!firmware.has_released() && firmware.does_at_once(Task::Issue(5)) && events.is_empty());
        assert_eq!(firmware.busy(SimTime(900))[FirmwareModule::Buffer as usize], Nanos(900));
    }

    #[test]
    fn a_chore_frees_what_stands_between_it_and_the_next_one() {
        let (mut firmware, mut events) = firmware(1, false);
        for (task, now) in
            [(lookups(), 0), (Task::Fetch(1), 1), (Task::Dma(1), 2), (lookups(), 3), (Task::Dma(2), 3)]
        {
            assert!(!firmware.ask(SimTime(now), task, &mut events));
        }
        ends(&mut firmware, &mut events, (900, SCHEDULER), lookups());
        assert_eq!(firmware.next_released(), Some(Task::Dma(1)), "it needs no turn behind the fetch");
        assert_eq!(firmware.next_released(), None);
        ends(&mut firmware, &mut events, (1_600, SCHEDULER), Task::Fetch(1));
        assert!(!firmware.has_released() && !firmware.does_at_once(Task::Dma(3)));
        ends(&mut firmware, &mut events, (2_500, SCHEDULER), lookups());
        assert_eq!(firmware.next_released(), Some(Task::Dma(2)));
        assert!(firmware.does_at_once(Task::Dma(3)) && events.is_empty());
    }

    #[test]
    fn a_second_processor_does_the_schedulers_tasks_beside_the_first() {
        for (processors, end, of) in [(1, 1_200, SCHEDULER), (2, 500, SCHEDULER)] {
            let (mut firmware, mut events) = firmware(processors, true);
            assert!(!firmware.ask(SimTime(0), Task::Fetch(1), &mut events));
            assert!(!firmware.ask(SimTime(0), Task::Issue(1), &mut events));
            if processors == 1 {
                ends(&mut firmware, &mut events, (700, SCHEDULER), Task::Fetch(1));
            }
            ends(&mut firmware, &mut events, (end, of), Task::Issue(1));
            if processors == 2 {
                ends(&mut firmware, &mut events, (700, HOST), Task::Fetch(1));
            }
            assert!(events.is_empty());
        }
    }

    /// Operations that FTL has still a chore for wait for that, not for what FTL does next; ends that the hardware tells the scheduler do
    /// not wait.
    #[test]
    fn operations_are_handed_over_behind_the_chores_of_ftl_and_in_order() {
        let (mut firmware, mut events) = firmware(2, true);
        assert!(!firmware.ask(SimTime(0), lookups(), &mut events));
        assert!(firmware.does_at_once(Task::Status(7)) && !firmware.does_at_once(Task::Dma(1)));
        for task in [Task::Issue(1), Task::Fetch(3), Task::Dma(2), Task::Issue(4)] {
            assert!(!firmware.ask(SimTime(0), task, &mut events), "{task:?}");
        }
        ends(&mut firmware, &mut events, (900, HOST), lookups());
        assert_eq!(firmware.next_released(), Some(Task::Dma(2)));
        assert!(firmware.does_at_once(Task::Dma(5)) && !firmware.has_released());
        ends(&mut firmware, &mut events, (1_400, SCHEDULER), Task::Issue(1));
        ends(&mut firmware, &mut events, (1_600, HOST), Task::Fetch(3));
        ends(&mut firmware, &mut events, (1_900, SCHEDULER), Task::Issue(4));
        assert!(events.is_empty());
    }
}
