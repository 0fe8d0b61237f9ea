//! The split FTL of nameless writes: the machine of `ftl` above an open-channel drive, with what its work costs the host's processor.
//!
//! [`NamelessGeometry`] describes the guarantee of each command; `docs/explanation/nameless-writes.md` describes the design.

mod config;
mod file;

pub use config::NamelessFtlConfig;
pub use file::NamelessFile;

use crate::cpu::Steps;
use crate::{Layer, Machine};
use pellucid_flash::{
    Command, Completion, Figure, Interface, Lba, NamelessGeometry, Nanos, Notice, SimTime, Stage, StageTimes,
    Status,
};
use pellucid_ftl::{Nameless, NamelessFtlCounters, NamelessMachine, Sending};
use std::collections::VecDeque;

/// Task of the host's processor.
#[derive(Clone, Debug)]
enum Task {
    /// Handles a command that was submitted at this time.
    Arrived(SimTime, Command),
    Send(Command),
    Ended(Completion),
}

/// Layer of nameless writes. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct NamelessFtl {
    config: NamelessFtlConfig,
    machine: NamelessMachine,
    now: SimTime,
    steps: Steps<Task>,
    down: VecDeque<Command>,
}

impl NamelessFtl {
    /// Creates the layer for the open-channel namespace that `interface` describes. Its first `advance` reads
    /// the data of an earlier run. An error is a complete sentence.
    pub fn new(
        config: &NamelessFtlConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<NamelessFtl, String> {
        Ok(NamelessFtl {
            machine: NamelessMachine::new(&config.ftl, config.namespace, interface, image_bytes)?,
            now: SimTime::ZERO,
            steps: Steps::new(config.cpu.cores),
            down: VecDeque::new(),
            config: config.clone(),
        })
    }

    /// Returns the geometry of the offered namespace.
    pub fn geometry(&self) -> NamelessGeometry {
        self.machine.geometry()
    }

    /// Returns the counters.
    pub fn counters(&self) -> NamelessFtlCounters {
        self.machine.counters()
    }

    /// Returns the decision engine.
    pub fn engine(&self) -> &Nameless {
        self.machine.engine()
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.steps.busy()
    }

    /// Returns the bytes of host memory for tables and buffers.
    pub fn memory_bytes(&self) -> u64 {
        self.machine.memory_bytes()
    }

    /// Checks all invariants of the whole namespace; panics if one is broken.
    pub fn check(&self) {
        self.machine.check();
    }

    /// Queues a task that takes effect after `cost`. A task without cost takes effect at once.
    fn after(&mut self, cost: Nanos, task: Task) {
        if let Some(task) = self.steps.give(self.now, cost, task) {
            self.run(task);
        }
    }

    fn run(&mut self, task: Task) {
        match task {
            Task::Arrived(submitted, command) => {
                let refused = self.refuse(&command);
                self.machine.submit(Sending::at(submitted), self.now, command, refused);
            }
            Task::Send(command) => return self.down.push_back(command),
            Task::Ended(mut completion) => self.machine.complete(self.now, &mut completion),
        }
        self.take_commands();
    }

    fn refuse(&self, command: &Command) -> Option<Status> {
        let other = (command.namespace != 0).then_some(Status::InvalidField);
        self.machine.refuse(command).or(other)
    }

    fn take_commands(&mut self) {
        while let Some(command) = self.machine.next_command() {
            self.after(self.config.cpu.command_ns, Task::Send(command));
        }
    }
}

impl Machine for NamelessFtl {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        let cpu = &self.config.cpu;
        let cost = match self.refuse(&command) {
            Some(_) => Nanos::ZERO,
            None => Nanos(cpu.submit_ns.0 + cpu.sector_ns.0 * u64::from(command.sectors)),
        };
        self.after(cost, Task::Arrived(now, command));
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        match self.config.cpu.completion_ns {
            Nanos::ZERO => {
                self.machine.complete(now, completion);
                self.take_commands();
            }
            cost => self.after(cost, Task::Ended(completion.take())),
        }
    }

    fn advance(&mut self, now: SimTime) {
        while let Some((at, task)) = self.steps.due(now) {
            self.now = at;
            self.run(task);
        }
        self.now = now;
        self.machine.start(now);
        self.machine.advance(now);
        self.take_commands();
    }

    fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event().into_iter().chain(self.machine.next_event()).min()
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.machine.pop()
    }

    fn answered(&self) -> usize {
        self.machine.answered()
    }

    fn failure(&self) -> Option<String> {
        self.machine.failure()
    }

    fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    fn stop(&mut self, now: SimTime) {
        self.now = now;
        self.machine.stop(now);
        self.take_commands();
    }

    fn is_stopped(&self) -> bool {
        self.machine.is_stopped() && self.down.is_empty()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.machine.restart(now)?;
        // Commands that still wait for the processor end too.
        while let Some((_, task)) = self.steps.due(SimTime(u64::MAX)) {
            if let Task::Arrived(submitted, command) = task {
                let mut stages = StageTimes::default();
                stages.add(Stage::Host, now.since(submitted));
                self.machine.lose(command.ended(Status::PowerLoss, submitted, now, stages));
            }
        }
        self.steps = Steps::new(self.config.cpu.cores);
        self.down.clear();
        self.now = now;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        self.machine.figures()
    }
}

impl Layer for NamelessFtl {
    fn interface(&self) -> Interface {
        Interface::Nameless(self.geometry())
    }

    fn notices(&self) -> usize {
        self.machine.moves_to_tell()
    }

    fn pop_notice(&mut self) -> Option<Notice> {
        let (old, new) = self.machine.next_move()?;
        Some(Notice::Moved { old, new })
    }

    fn moves(&self) -> Vec<(Lba, Lba)> {
        self.machine.engine().moves().collect()
    }

    fn is_read_only(&self) -> bool {
        self.machine.is_read_only()
    }
}
