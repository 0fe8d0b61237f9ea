//! One drive: `submit / advance / next_event / pop`.
//!
//! This type routes. It owns the parts (host interface, firmware processor, data buffer, translation, scheduler, media)
//! and carries plain data between them; the parts do not know each other. The ways that requests take stand in files of
//! their own: [`crate::command_path`], which all share, then [`crate::read_path`], [`crate::write_path`],
//! [`crate::flush_path`], [`crate::collect_path`].
//!
//! ```text
//!  submit ─► queue ─► fetch ─► slices ─► buffer ─► translation ─► way queue ─► channel ─► array
//!  pop    ◄─ complete ◄─ host DMA ◄──────────────────────────────────────────── advance ◄─┘
//! ```
//! Order at one moment: events due at t run before arrivals stamped t; equal events in order of creation.

use crate::buffer::Buffer;
use crate::config::{Completes, DeviceConfig};
use crate::events::{Event, Events};
use crate::firmware::{Firmware, Task};
use crate::flush_path::Flushes;
use crate::host_interface::HostInterface;
use crate::monitor::Counters;
use crate::scheduler::{Scheduler, Step};
use crate::spaces::Space;
use crate::work::{Route, Slice, Work};
use pellucid_flash::slab::{List, Slab};
use pellucid_flash::{Command, Completion, Layout, Lpn, Nanos, Ppa, SimTime, Stage, Status};
use pellucid_ftl::{MountReport, PageMap};
use pellucid_media::Media;
use std::collections::VecDeque;

/// What stands where in the stripe of a planned program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StripeUnit {
    Entry(u32),
    Relocation(u32),
    Segment(u32),
    Copyback { from: Ppa, lpn: Lpn },
}

/// One drive. Clone it to fork its future.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) config: DeviceConfig,
    pub(crate) layout: Layout,
    pub(crate) now: SimTime,
    pub(crate) events: Events,
    pub(crate) host: HostInterface,
    pub(crate) firmware: Firmware,
    pub(crate) buffer: Buffer,
    pub(crate) ftl: PageMap,
    pub(crate) scheduler: Scheduler,
    pub(crate) media: Media,
    /// Namespaces, by number.
    pub(crate) spaces: Vec<Space>,
    /// The namespace that the page map serves; no number of a namespace if there is none.
    pub(crate) block_namespace: u16,
    pub(crate) direct: crate::direct_path::Direct,
    pub(crate) works: Slab<Work>,
    pub(crate) slices: Slab<Slice>,
    pub(crate) active: u32,
    /// Commands that the controller has completed and the firmware has not dealt with.
    pub(crate) unretired: u32,
    pub(crate) image_bytes: usize,
    pub(crate) full: u64,
    /// The last read for a host whose sense has not begun, and its command: what else of that command lies there joins it.
    pub(crate) gathering: (u32, u32),
    /// Slices that wait for a buffer entry: in turn, and reads that wait for one of their own.
    pub(crate) starved: [List; 2],
    /// Those of the first list.
    pub(crate) starved_count: u32,
    pub(crate) writes: crate::write_path::Writes,
    pub(crate) flushes: Flushes,
    pub(crate) collect: crate::collect_path::Collect,
    pub(crate) forgetting: crate::forgetting::Forgetting,
    pub(crate) placement: crate::placement::Placement,
    pub(crate) read_only: bool,
    pub(crate) idle: crate::fold::Idle,
    /// What the last mount did; none yet where the media were empty.
    pub(crate) mounted: Option<MountReport>,
    pub(crate) counters: Counters,
    /// On while somebody watches; nothing in the drive reads them.
    pub(crate) taps: Option<Box<crate::taps::Taps>>,
    pub(crate) completions: VecDeque<Completion>,
}

impl Device {
    /// Hands a command to the drive at `now`, which must not lie before the last `advance`. Its completion comes out of
    /// [`Device::pop`], whatever becomes of it. Events due at `now` have run before.
    pub fn submit(&mut self, now: SimTime, mut command: Command) {
        self.advance(now);
        self.settle_handle(&mut command);
        self.end_idleness();
        let status = self.refuse(&command).or_else(|| self.refuse_for_store(&command));
        let work = self.works.take();
        self.works[work].begin(command, now, status.unwrap_or(Status::Success));
        if status.is_some() {
            self.finish(work);
        } else if self.config.host.fetch_ns == Nanos::ZERO {
            self.visible(work);
            self.drain();
        } else {
            self.events.at(now + self.config.host.fetch_ns, Event::Visible(work));
        }
    }

    /// Runs everything that is due until `now`.
    #[inline]
    pub fn advance(&mut self, now: SimTime) {
        match self.events.next_at() {
            Some(due) if due <= now => _ = self.advance_to_completion(now, now),
            // Before most submissions nothing is.
            _ => self.pass_to(now),
        }
    }

    /// As [`Device::advance`], and then on from one moment to the next as long as it lies before `limit` and nothing has
    /// completed. Gives the moment that it has come to.
    pub fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        debug_assert!(now >= self.now, "time runs forward");
        let mut now = now;
        loop {
            while let Some((at, event)) = self.events.pop_due(now) {
                self.pass_to(at);
                self.happen(at, event);
                self.drain();
            }
            self.pass_to(now);
            match self.events.next_at() {
                Some(next) if next < limit && self.completions.is_empty() => now = next,
                _ => return now,
            }
        }
    }

    #[inline(always)]
    fn happen(&mut self, at: SimTime, event: Event) {
        match event {
            Event::Channel(channel) => self.scheduler.channel_done(at, channel, &mut self.events),
            Event::Die(die) => self.scheduler.array_done(at, die, &mut self.events),
            Event::Decoded(op) => self.scheduler.decoded(at, op),
            Event::Dma(slice) => {
                self.slices[slice].book(Stage::HostLink, at);
                if self.config.host.completes == Completes::Controller {
                    self.link_done(slice);
                }
                match self.firmware.polling.is_some() {
                    true => self.dma_ended(slice),
                    false => self.ask(Task::DmaStatus(slice)),
                }
            }
            Event::Processor if self.firmware.polling.is_some() => self.loop_step(),
            Event::Processor => {
                let task = self.firmware.finished(at, &mut self.events);
                self.run(task);
            }
            Event::Visible(work) => self.visible(work),
            Event::Idle => self.idle_for_long(),
            Event::Completed(work) => {
                let record = &mut self.works[work];
                record.stages.add(Stage::HostLink, at - record.mark);
                self.finish(work);
            }
        }
    }

    /// When the drive next does something by itself; `None` if it is at rest.
    pub fn next_event(&self) -> Option<SimTime> {
        self.events.next_at()
    }

    /// Completions that wait for [`Device::pop`].
    pub fn completed(&self) -> usize {
        self.completions.len()
    }

    /// The next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Carries out what the scheduler asks for, and what follows from it, until the drive only waits.
    pub(crate) fn drain(&mut self) {
        loop {
            self.carry_out();
            if self.active == 0 || !self.events.is_empty() {
                return;
            }
            debug_assert!(
                self.has_block_namespace(),
                "commands wait for nothing: {:?}",
                self.works.iter().filter(|w| w.live).map(|w| &w.command.opcode).collect::<Vec<_>>()
            );
            // Some victim was given up, or its data were.
            if self.let_in() {
                continue;
            }
            // What is given up may let others go on, and makes room for commands that wait in their queues.
            let before = self.active;
            self.give_up_writing();
            if self.firmware.polling.is_some() {
                self.loop_on();
            }
            if self.active == before && !self.scheduler.has_steps() {
                return;
            }
        }
    }

    /// As far as it goes without giving anything up.
    fn carry_out(&mut self) {
        loop {
            while let Some(step) = self.scheduler.pop_step() {
                match step {
                    Step::Array(op) => self.start_array(op),
                    // A loop has paid for it where it sensed it.
                    Step::ArrayDone(op) if self.firmware.polling.is_some() => self.run(Task::Status(op)),
                    Step::DataOut(op) if self.firmware.polling.is_some() => self.run(Task::DataStatus(op)),
                    Step::ArrayDone(op) => self.ask(Task::Status(op)),
                    Step::DataOut(op) => self.ask(Task::DataStatus(op)),
                }
            }
            // New commands start only here, never in the middle of a step of another.
            self.fetch();
            if self.scheduler.has_steps() {
                continue;
            }
            if self.flushes.take_settled() {
                self.continue_flush();
                continue;
            }
            self.pad_if_awaited();
            if self.let_behind_go_on() {
                continue;
            }
            if self.ftl.has_handle_events() {
                self.note_handle_events();
            }
            if self.active == 0 {
                self.collect_while_idle();
                self.fold_when_idle();
            }
            if !self.scheduler.has_steps() {
                break;
            }
        }
        if self.firmware.polling.is_some() {
            self.loop_on();
        }
    }

    /// Asks the firmware for a task; does it at once if it costs nothing. Which task it is is known wherever this is called,
    /// so that firmware that costs nothing is a call of what the task stands for.
    #[inline(always)]
    pub(crate) fn ask(&mut self, task: Task) {
        if self.firmware.is_free() {
            return self.run(task);
        }
        self.ask_processor(task);
    }

    #[inline(never)]
    fn ask_processor(&mut self, task: Task) {
        // To a loop, the reservation station is a list in memory; issuing costs when the operation is issued.
        if matches!(task, Task::Issue(_)) && self.firmware.polling.is_some() {
            return self.run(task);
        }
        self.firmware.ask(self.now, task, &mut self.events);
    }

    #[inline(always)]
    pub(crate) fn run(&mut self, task: Task) {
        match task {
            Task::Fetch(work) => self.start(work),
            Task::Slice(slice) => {
                let record = &mut self.slices[slice];
                record.book(Stage::Firmware, self.now);
                match record.route {
                    Route::Page => self.place(slice, false),
                    _ => self.place_direct(slice),
                }
            }
            Task::Dma(slice) => self.start_dma(slice),
            Task::DmaStatus(slice) => {
                self.slices[slice].book(Stage::Firmware, self.now);
                self.dma_done(slice);
            }
            Task::Issue(op) => self.issue(op),
            Task::Status(op) => {
                self.scheduler.ops[op].book(Stage::Firmware, self.now);
                self.array_done(op);
            }
            Task::DataStatus(op) => {
                self.scheduler.ops[op].book(Stage::Firmware, self.now);
                self.data_arrived(op);
            }
            Task::Complete(work) => self.completed_by_firmware(work),
        }
    }

    /// An operation joins the queue of its die.
    fn issue(&mut self, op: u32) {
        self.scheduler.ops[op].book(Stage::Firmware, self.now);
        let ahead = self.may_go_ahead(op);
        self.scheduler.enqueue(self.now, op, ahead, &mut self.events);
    }
}
