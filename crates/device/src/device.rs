//! One drive: `submit / advance / next_event / pop`.
//!
//! This type routes: what happens is handed to the namespace that it concerns, or to what all of them share. The namespaces do not
//! know each other, and the rooms do not know this file.
//!
//! ```text
//!            front/                        block/ or direct/                        back/
//!  submit ─► queue ─► fetch ─► slices ─► the namespace of the command ─► die queue ─► channel ─► array
//!  pop    ◄─ complete ◄─ host DMA ◄───── begins, arrived, ended ◄──────────────────── advance ◄─┘
//! ```
//! Every step that the firmware takes is asked for as a [`Task`] (`firmware/`).
//!
//! Order at one moment: events due at t run before arrivals stamped t; equal events in order of creation.

use crate::back::operations;
use crate::back::scheduler::{OpKind, Step};
use crate::config::{Completes, DeviceConfig};
use crate::error::DeviceError;
use crate::events::Event;
use crate::firmware::polling::Takes;
use crate::firmware::{Chore, Task};
use crate::namespaces::{self, Namespace};
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{Command, Completion, Effect, Nanos, Opcode, SimTime, Stage, Status};
use pellucid_ftl::MountReport;
use pellucid_media::{Fault, Media, MediaError};

/// One drive. Clone it to fork its future.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) shared: Shared,
    /// By number.
    pub(crate) namespaces: Vec<Namespace>,
    /// When a namespace was last asked to go on, none had anything to do: none has before one of them is told something.
    calm: bool,
}

impl Device {
    /// Makes the drive. Media that hold data (a file store) are mounted.
    pub fn new(config: &DeviceConfig) -> Result<Device, DeviceError> {
        let media = Media::new(&config.media).map_err(DeviceError::Media)?;
        Device::with_media(config, media, false)
    }

    /// Makes a drive from media saved by [`Media::export`]. It is mounted from what they hold, also with
    /// [`pellucid_ftl::Durability::Volatile`], which would forget it at a power cut. Buffer, open programs and random streams
    /// start anew: the same media always give the same drive, but not the one that was saved in all its state.
    pub fn restore(config: &DeviceConfig, media: Media) -> Result<Device, DeviceError> {
        Device::with_media(config, media, true)
    }

    fn with_media(config: &DeviceConfig, mut media: Media, keep: bool) -> Result<Device, DeviceError> {
        let layout = media.layout().clone();
        // A file with the bad blocks of a drive that cannot be would be in the way of the next description.
        let parts = crate::build::parts(config, &layout, &mut media, keep).inspect_err(|_| media.discard());
        let (config, namespaces) = parts?;
        Ok(Device { shared: Shared::new(config, media), namespaces, calm: false })
    }

    /// Hands a command to the drive at `now`, which must not lie before the last `advance`. Its completion comes out of
    /// [`Device::pop`], whatever becomes of it. Events due at `now` have run before.
    pub fn submit(&mut self, now: SimTime, mut command: Command) {
        self.advance(now);
        self.namespaces.iter_mut().for_each(Namespace::command_comes);
        let Device { shared, namespaces, .. } = self;
        let status = match namespaces.get_mut(usize::from(command.namespace)) {
            None => Some(Status::InvalidField),
            Some(namespace) => {
                namespace.settle_handle(shared, &mut command);
                namespace.refuse(shared, &command)
            }
        };
        let status = status.or_else(|| self.refuse_for_store(&command));
        let shared = &mut self.shared;
        let settled = match command.opcode {
            Opcode::Flush => shared.settled(command.namespace),
            _ => SimTime::ZERO,
        };
        let work = shared.works.take();
        shared.works[work].begin(command, now, status.unwrap_or(Status::Success));
        shared.works[work].settled = settled;
        if status.is_some() {
            shared.finish(work);
        } else if shared.config.host.fetch_ns == Nanos::ZERO {
            let told = self.visible(work);
            self.drain(told);
        } else {
            shared.events.at(now + shared.config.host.fetch_ns, Event::Visible(work));
        }
    }

    /// Returns the status with which the media's store refuses a command, if it does: nothing changes while its file refuses writes, and
    /// new data need space. Asking makes the file try again.
    fn refuse_for_store(&mut self, command: &Command) -> Option<Status> {
        let Device { shared, namespaces, .. } = self;
        let effect = command.opcode.effect();
        if shared.media.has_room() || effect.changes_nothing() {
            return None;
        }
        shared.media.try_again();
        namespaces.iter_mut().for_each(|namespace| namespace.forget_some(shared));
        let media = &self.shared.media;
        let lacks_room = effect == Effect::Writes && !media.has_room();
        (media.holds_back() || lacks_room).then_some(Status::WriteFault)
    }

    /// Runs everything that is due until `now`.
    #[inline]
    pub fn advance(&mut self, now: SimTime) {
        match self.shared.events.next_at() {
            Some(due) if due <= now => _ = self.advance_to_completion(now, now),
            // Before most submissions nothing is.
            _ => probes::pass_to(&mut self.shared, now),
        }
    }

    /// Advances as [`Device::advance`] does, and then from one moment to the next as long as it lies before `limit` and nothing has
    /// completed. Returns the moment reached.
    pub fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        debug_assert!(now >= self.shared.now, "time runs forward");
        let mut now = now;
        loop {
            while let Some((at, event)) = self.shared.events.pop_due(now) {
                probes::pass_to(&mut self.shared, at);
                let told = self.happen(at, event);
                self.drain(told);
            }
            probes::pass_to(&mut self.shared, now);
            match self.shared.events.next_at() {
                Some(next) if next < limit && self.shared.completions.is_empty() => now = next,
                _ => return now,
            }
        }
    }

    /// Lets an event happen. Returns whether a namespace, or the host interface, may have something to do now, beside what the scheduler
    /// asks for.
    #[inline(always)]
    fn happen(&mut self, at: SimTime, event: Event) -> bool {
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
                return self.take_turn(task) || self.shared.firmware.is_next_instant();
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
        let Device { shared, namespaces, .. } = self;
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

    /// When the drive next does something by itself; `None` if it is at rest.
    pub fn next_event(&self) -> Option<SimTime> {
        self.shared.events.next_at()
    }

    /// Completions that wait for [`Device::pop`].
    pub fn completed(&self) -> usize {
        self.shared.completions.len()
    }

    /// The next completion.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.shared.completions.pop_front()
    }

    /// Carries out what the scheduler asks for, and what follows from it, until the drive only waits. `told`: a namespace, or the host
    /// interface, may have something to do.
    #[inline]
    fn drain(&mut self, told: bool) {
        let told = (self.shared.scheduler.has_steps() && self.take_steps()) || told;
        if (told || !self.calm) && !self.is_quiet() {
            self.carry_out();
        }
        if self.shared.fetched.active() > 0 && self.shared.events.is_empty() {
            self.give_up();
        }
    }

    /// Returns whether [`Device::carry_out`] has nothing to do, as after most events. All is calm then.
    #[inline]
    fn is_quiet(&mut self) -> bool {
        let Device { shared, namespaces, calm } = self;
        let Shared { firmware, host, scheduler, inner_ended, .. } = &*shared;
        let quiet = !host.waiting()
            && firmware.polling.is_none()
            && !firmware.is_next_instant()
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
            let Device { shared, namespaces, .. } = self;
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
        let Device { shared, namespaces, .. } = self;
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
            // Tasks that cost nothing and waited behind one that has ended.
            if let Some(task) = self.shared.finished_at_once() {
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
        let Device { shared, namespaces, calm } = self;
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
        let Device { shared, namespaces, .. } = self;
        namespaces[usize::from(shared.works[work].command.namespace)].inner_ended(shared, work);
    }

    /// Asks the namespaces in turn; the first that says `true` ends the round.
    #[inline(always)]
    fn ask_each(&mut self, mut ask: impl FnMut(&mut Namespace, &mut Shared) -> bool) -> bool {
        let Device { shared, namespaces, .. } = self;
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

    /// A command can be seen by the firmware, which takes it at once if it can. Returns as [`Device::run`] does.
    #[inline]
    fn visible(&mut self, work: u32) -> bool {
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

    /// Does a task that has waited for its turn; as [`Device::run`], which is compiled anew for each task that a caller knows.
    fn take_turn(&mut self, task: Task) -> bool {
        self.run(task)
    }

    /// Does a task. Returns whether a namespace, or the host interface, may have something to do now.
    #[inline(always)]
    fn run(&mut self, task: Task) -> bool {
        let Device { shared, namespaces, .. } = self;
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
        let Device { shared, namespaces, .. } = self;
        shared.media.set_now(shared.now);
        let time = namespaces[usize::from(shared.scheduler.ops[op].owner.namespace)].begins(shared, op);
        shared.scheduler.start_array(shared.now, op, time, &mut shared.events);
    }

    /// The firmware handles an admin command of a host at `now`, which must not lie before the last `advance`: its processor is busy with
    /// it, and steps of other commands wait. The answer is the caller's. As after [`Device::inject`], the drive may have something to
    /// do at once.
    pub fn handle_admin(&mut self, now: SimTime) {
        self.advance(now);
        self.shared.charge(Chore::Admin, 1);
        self.drain(true);
    }

    /// Cuts the power now and switches the drive on again. Everything volatile is lost; superpages being programmed are torn,
    /// blocks being erased must be erased again. Outstanding commands end with [`Status::PowerLoss`].
    pub fn power_cut(&mut self) -> Result<MountReport, DeviceError> {
        let Device { shared, namespaces, .. } = self;
        let lost = shared.lose_all();
        shared.media.power_cut();
        namespaces.iter_mut().for_each(|namespace| namespace.power_fails(&mut shared.media, &shared.layout));
        let kept = namespaces.iter_mut().map(Namespace::take_kept).collect();
        let mounted = namespaces::mount(&shared.config, &shared.layout, &mut shared.media, false, kept)?;
        let before = std::mem::replace(namespaces, mounted);
        let report = crate::views::add_up(namespaces.iter().filter_map(Namespace::mounted));
        let mut report = report.unwrap_or_default();
        for (namespace, before) in namespaces.iter_mut().zip(before) {
            namespace.follow(before, &shared.media, &mut report);
        }
        shared.power_off();
        self.calm = false;
        shared.tally.of_drive().power_cuts += 1;
        probes::tap_mount(shared);
        shared.completions.extend(lost);
        Ok(report)
    }

    /// Refuses damage that this drive cannot take, without doing it.
    ///
    /// # Errors
    /// A die that is not there, a factor or count out of range, or spare blocks where the host manages the flash.
    pub fn check_fault(&self, fault: Fault) -> Result<(), MediaError> {
        if fault == Fault::WearOut && !self.namespaces.iter().any(Namespace::has_spare_blocks) {
            return Err(MediaError::Config {
                key: "fault",
                value: "wear-out".into(),
                allowed: "on a drive that has spare blocks of its own; where the host manages the flash: kill-die, fail-programs, program-fail".into(),
            });
        }
        self.shared.media.check_fault(fault)
    }

    /// Does damage at `now`, which must not lie before the last `advance`. The drive may have something to do at once, so
    /// [`Device::next_event`] and [`Device::pop`] have to be asked again.
    ///
    /// # Errors
    /// Those of [`Device::check_fault`]; nothing has happened then.
    pub fn inject(&mut self, now: SimTime, fault: Fault) -> Result<(), MediaError> {
        self.check_fault(fault)?;
        self.advance(now);
        let Device { shared, namespaces, .. } = self;
        shared.media.inject(fault)?;
        match fault {
            Fault::KillDie { .. } | Fault::WearOut => {
                namespaces.iter_mut().for_each(|namespace| namespace.flash_died(shared));
            }
            Fault::BitErrors { .. }
            | Fault::SlowDie { .. }
            | Fault::FailPrograms { .. }
            | Fault::FailErases { .. } => {}
        }
        self.drain(true);
        Ok(())
    }
}
