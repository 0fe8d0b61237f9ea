//! Where everything in a drive goes: each event, step and task is handed to the namespace that it concerns, or to what all of them share.
//!
//! The namespaces do not know each other, and the rooms do not know this file.
//!
//! ```text
//!  event ─► happen ─► steps of the scheduler ─► tasks of the firmware ─► a namespace ─┐
//!            drain ◄── until the drive only waits ◄── carry_out: fetch, go on ◄────────┘
//! ```
//! Every step that the firmware takes is asked for as a [`Task`] (`firmware/`).
//!
//! Invariant: after [`Router::drain`] nothing can be done before the next event; while commands are under way, there is one.

use crate::back::operations;
use crate::back::scheduler::{OpKind, Step};
use crate::config::Completes;
use crate::events::Event;
use crate::firmware::Task;
use crate::firmware::polling::Takes;
use crate::namespaces::Namespace;
use crate::shared::Shared;
use pellucid_flash::{SimTime, Stage};

/// The namespaces of a drive, and the state that they share.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    pub shared: Shared,
    /// By number.
    pub namespaces: Vec<Namespace>,
    /// When a namespace was last asked to go on, none had anything to do: none has before one of them is told something.
    calm: bool,
    /// A namespace tells its hosts things without being asked.
    tells: bool,
}

impl Router {
    /// Routes between the parts of a drive at rest.
    pub fn new(shared: Shared, namespaces: Vec<Namespace>) -> Router {
        let tells = namespaces.iter().any(Namespace::tells);
        Router { shared, namespaces, calm: false, tells }
    }

    /// Notices that wait for hosts.
    #[inline]
    pub fn notices(&self) -> usize {
        match self.tells {
            true => self.shared.notices.len() + self.namespaces.iter().map(Namespace::notices).sum::<usize>(),
            false => 0,
        }
    }

    /// Puts namespaces that were made anew in the place of those before, which it returns.
    pub fn replace(&mut self, namespaces: Vec<Namespace>) -> Vec<Namespace> {
        debug_assert_eq!(namespaces.len(), self.namespaces.len(), "a power cut changes no description");
        self.calm = false;
        std::mem::replace(&mut self.namespaces, namespaces)
    }

    /// Lets an event happen. Returns whether a namespace, or the host interface, may have something to do now, beside what the scheduler
    /// asks for.
    #[inline(always)]
    pub fn happen(&mut self, at: SimTime, event: Event) -> bool {
        let shared = &mut self.shared;
        match event {
            Event::Channel(channel) => {
                shared.scheduler.channel_done(at, channel, &mut shared.events);
                return false;
            }
            Event::Die(die) => {
                shared.scheduler.array_done(at, die, &mut shared.events);
                return false;
            }
            Event::Decoded(op) => {
                shared.scheduler.decoded(at, op);
                return false;
            }
            Event::Dma(slice) => self.dma_ended(at, slice),
            Event::Processor(processor) if shared.firmware.polling.is_some() => {
                self.loop_step(processor as usize)
            }
            Event::Processor(processor) => {
                let task = shared.firmware.finished(at, processor as usize, &mut shared.events);
                return self.take_turn(task) || self.shared.firmware.has_released();
            }
            Event::Visible(work) => return self.visible(work),
            Event::Idle(namespace) => self.namespaces[namespace as usize].idle_for_long(shared),
            Event::Awaited(namespace) => self.namespaces[namespace as usize].host_awaited(shared),
            Event::Completed(work) => {
                let record = &mut shared.works[work];
                record.stages.add(Stage::HostLink, at - record.mark);
                shared.finish(work);
                return shared.may_go_on();
            }
        }
        true
    }

    /// The data of a slice have crossed the host link.
    fn dma_ended(&mut self, at: SimTime, slice: u32) {
        let Router { shared, namespaces, .. } = self;
        shared.slices[slice].book(Stage::HostLink, at);
        let namespace = &mut namespaces[usize::from(shared.namespace_of(slice))];
        if shared.config.host.completes == Completes::Controller {
            namespace.link_done(shared, slice);
        }
        if shared.firmware.polling.is_some() {
            shared.dma_ended(slice);
        } else if shared.grants(Task::DmaStatus(slice)) {
            shared.slices[slice].book(Stage::Firmware, shared.now);
            namespace.dma_done(shared, slice);
        }
    }

    /// A step of a firmware loop has ended.
    fn loop_step(&mut self, processor: usize) {
        match self.shared.loop_step(processor) {
            Takes::Nothing => {}
            Takes::Command => {
                let took = self.fetch_one();
                self.shared.turned(processor, took);
            }
            Takes::Task(task) => _ = self.take_turn(task),
        }
    }

    /// Carries out what the scheduler asks for, and what follows from it, until the drive only waits. `told`: a namespace, or the host
    /// interface, may have something to do.
    #[inline]
    pub fn drain(&mut self, told: bool) {
        let told = (self.shared.scheduler.has_steps() && self.take_steps()) || told;
        if (told || !self.calm) && !self.is_quiet() {
            self.carry_out();
        }
        if self.shared.fetched.active() > 0 && self.shared.events.is_empty() {
            self.give_up();
        }
    }

    /// Returns whether [`Router::carry_out`] has nothing to do, as after most events. All is calm then.
    #[inline]
    fn is_quiet(&mut self) -> bool {
        let Router { shared, namespaces, calm, .. } = self;
        let Shared { firmware, host, scheduler, inner_ended, .. } = &*shared;
        let quiet = !host.waiting()
            && firmware.polling.is_none()
            && !firmware.has_released()
            && !scheduler.has_steps()
            && inner_ended.is_empty()
            && namespaces.iter().all(|namespace| namespace.is_calm(shared));
        *calm |= quiet;
        quiet
    }

    /// Commands wait, and nothing happens by itself any more: some are given up, so that the others go on.
    #[cold]
    fn give_up(&mut self) {
        while self.shared.fetched.active() > 0 && self.shared.events.is_empty() {
            if self.give_up_awaiting() {
                self.catch_up();
                continue;
            }
            debug_assert!(
                self.namespaces.iter().any(Namespace::may_be_stuck),
                "commands wait for nothing: {:?}",
                self.shared.works.iter().filter(|w| w.live).map(|w| &w.command.opcode).collect::<Vec<_>>()
            );
            // Some victim was given up, or its data were.
            if self.ask_each(Namespace::let_in) {
                self.catch_up();
                continue;
            }
            // Commands given up may let others go on, and free space for commands that wait in their queues.
            let before = self.shared.fetched.active();
            let Router { shared, namespaces, .. } = self;
            namespaces.iter_mut().for_each(|namespace| namespace.give_up_if_stuck(shared));
            self.loop_on();
            if self.shared.fetched.active() == before && !self.shared.scheduler.has_steps() {
                return;
            }
            self.catch_up();
        }
    }

    /// Commands that wait for the host give way to those that wait for them; `true`: some did.
    fn give_up_awaiting(&mut self) -> bool {
        let Router { shared, namespaces, .. } = self;
        shared.host.waiting() && namespaces.iter_mut().any(|namespace| namespace.give_up_waiting(shared))
    }

    /// Carries out what the scheduler asks for and everything else, after commands were given up.
    fn catch_up(&mut self) {
        self.take_steps();
        self.carry_out();
    }

    /// Takes the steps that the scheduler asks for. Returns whether a namespace may have something to do now.
    fn take_steps(&mut self) -> bool {
        let mut told = false;
        while let Some(step) = self.shared.scheduler.pop_step() {
            told |= self.step(step);
        }
        told
    }

    /// Carries out everything that needs no command to be given up.
    fn carry_out(&mut self) {
        loop {
            while let Some(work) = self.shared.inner_ended.pop_front() {
                self.inner_ended(work);
            }
            // Tasks that cost nothing and waited behind a chore that has ended.
            if let Some(task) = self.shared.firmware.next_released() {
                self.take_turn(task);
                self.take_steps();
                continue;
            }
            // New commands start only here, never in the middle of a step of another.
            self.fetch();
            if self.shared.scheduler.has_steps() {
                self.take_steps();
                continue;
            }
            self.calm = self.shared.firmware.polling.is_none();
            if !self.ask_to_go_on() && !self.shared.scheduler.has_steps() {
                break;
            }
            self.take_steps();
        }
        self.loop_on();
    }

    /// Asks the namespaces in turn to go on; the first that does ends the round.
    #[inline(always)]
    fn ask_to_go_on(&mut self) -> bool {
        let Router { shared, namespaces, calm, .. } = self;
        for namespace in namespaces {
            if !namespace.is_calm(shared) {
                *calm = false;
                if namespace.go_on(shared) {
                    return true;
                }
            }
        }
        false
    }

    /// A command that a namespace gave to itself has ended.
    fn inner_ended(&mut self, work: u32) {
        let Router { shared, namespaces, .. } = self;
        namespaces[usize::from(shared.works[work].command.namespace)].inner_ended(shared, work);
    }

    /// Asks the namespaces in turn; the first that says `true` ends the round.
    #[inline(always)]
    fn ask_each(&mut self, mut ask: impl FnMut(&mut Namespace, &mut Shared) -> bool) -> bool {
        let Router { shared, namespaces, .. } = self;
        namespaces.iter_mut().any(|namespace| ask(namespace, shared))
    }

    /// Carries out a step that the scheduler asks for. Returns whether a namespace may have something to do now.
    #[inline(always)]
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Array(op) => {
                self.start_array(op);
                false
            }
            Step::ArrayDone(op) => self.ask(Task::Status(op)),
            Step::DataOut(op) => self.ask(Task::DataStatus(op)),
        }
    }

    /// A firmware loop goes on, if the firmware is one.
    #[inline]
    fn loop_on(&mut self) {
        if self.shared.firmware.polling.is_some() {
            let command_waits = self.command_waits();
            self.shared.loop_on(command_waits);
        }
    }

    #[inline]
    fn fetch(&mut self) {
        while self.shared.host.waiting() && self.shared.firmware.polling.is_none() && self.fetch_one() {}
    }

    /// A command can be seen by the firmware, which takes it at once if it can. Returns as [`Router::run`] does.
    #[inline]
    pub fn visible(&mut self, work: u32) -> bool {
        if self.shared.host.waiting() || self.shared.firmware.polling.is_some() || !self.may_take() {
            self.shared.wait_in_queue(work);
            return true;
        }
        self.shared.take_at_once(work);
        self.ask(Task::Fetch(work))
    }

    /// Returns whether a command waits and the firmware could take it.
    #[inline]
    fn command_waits(&self) -> bool {
        self.shared.host.waiting() && self.may_take()
    }

    /// Returns whether the firmware could take a command if one waited.
    #[inline]
    fn may_take(&self) -> bool {
        let host = &self.shared.config.host;
        self.shared.fetched.active() < host.commands_max && !(host.in_order && self.may_await_room())
    }

    /// Returns whether data of a fetched command wait for space, or may have to, which is unknown before the firmware has taken the
    /// command. Fetching the next commands meanwhile would release all waiting ones as soon as one gets space, and results of flash
    /// operations would wait behind them.
    #[inline]
    fn may_await_room(&self) -> bool {
        self.shared.fetched.untaken() > 0 || self.namespaces.iter().any(Namespace::awaits_room)
    }

    /// Takes a command from its queue; `false`: there is none, or too many are worked on.
    fn fetch_one(&mut self) -> bool {
        if !self.command_waits() {
            return false;
        }
        let Some(work) = self.shared.take_command() else { return false };
        self.ask(Task::Fetch(work));
        true
    }

    /// Asks the firmware for a task; does it at once if it costs nothing.
    #[inline(always)]
    fn ask(&mut self, task: Task) -> bool {
        self.shared.grants(task) && self.run(task)
    }

    /// Does a task that has waited for its turn; as [`Router::run`], which is compiled anew for each task that a caller knows.
    fn take_turn(&mut self, task: Task) -> bool {
        self.run(task)
    }

    /// Does a task. Returns whether a namespace, or the host interface, may have something to do now.
    #[inline(always)]
    fn run(&mut self, task: Task) -> bool {
        let Router { shared, namespaces, .. } = self;
        match task {
            Task::Fetch(work) => {
                shared.fetched.take();
                shared.command_taken(work);
                let namespace = shared.works[work].command.namespace;
                namespaces[usize::from(namespace)].start(shared, work);
            }
            Task::Slice(slice) => {
                namespaces[usize::from(shared.namespace_of(slice))].slice_known(shared, slice);
            }
            Task::Dma(slice) => namespaces[usize::from(shared.namespace_of(slice))].start_dma(shared, slice),
            Task::DmaStatus(slice) => {
                shared.slices[slice].book(Stage::Firmware, shared.now);
                namespaces[usize::from(shared.namespace_of(slice))].dma_done(shared, slice);
            }
            Task::Issue(op) => {
                shared.issue(op);
                return false;
            }
            Task::Status(op) => {
                shared.scheduler.ops[op].book(Stage::Firmware, shared.now);
                if shared.scheduler.ops[op].kind == OpKind::Read {
                    shared.scheduler.transfer(shared.now, op, &mut shared.events);
                    return false;
                }
                namespaces[usize::from(shared.scheduler.ops[op].owner.namespace)].ended(shared, op);
            }
            Task::DataStatus(op) => {
                operations::data_arrives(shared, op);
                namespaces[usize::from(shared.scheduler.ops[op].owner.namespace)].arrived(shared, op);
            }
            Task::Complete(work) => {
                shared.completed_by_firmware(work);
                return shared.may_go_on();
            }
            Task::Chore(_) => return false,
        }
        true
    }

    /// Command and data of an operation are in the die: the array starts, and the media change.
    #[inline(always)]
    fn start_array(&mut self, op: u32) {
        let Router { shared, namespaces, .. } = self;
        shared.media.set_now(shared.now);
        let time = namespaces[usize::from(shared.scheduler.ops[op].owner.namespace)].begins(shared, op);
        shared.scheduler.start_array(shared.now, op, time, &mut shared.events);
    }
}
