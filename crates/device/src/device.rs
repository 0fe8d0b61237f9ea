//! One drive: `submit / advance / next_event / pop`.
//!
//! This type routes. It owns the parts (host interface, firmware processor, data buffer, translation, scheduler, media)
//! and carries plain data between them; the parts do not know each other. The ways that requests take stand in files of
//! their own: [`crate::read_path`], [`crate::write_path`], [`crate::flush_path`], [`crate::collect_path`].
//!
//! ```text
//!  submit ─► queue ─► fetch ─► slices ─► buffer ─► translation ─► way queue ─► channel ─► array
//!  pop    ◄─ complete ◄─ host DMA ◄──────────────────────────────────────────── advance ◄─┘
//! ```
//! Order at one moment: events due at t run before arrivals stamped t; equal events in order of creation.

use crate::buffer::Buffer;
use crate::config::{Completes, DeviceConfig, FirmwareModel};
use crate::events::{Event, Events};
use crate::firmware::{Firmware, Task};
use crate::flush_path::Flushes;
use crate::host_interface::HostInterface;
use crate::monitor::Counters;
use crate::scheduler::{Scheduler, Step};
use crate::spaces::Space;
use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{
    Command, Completion, Layout, Lpn, Nanos, Opcode, Ppa, SimTime, Stage, StageTimes, Status,
};
use pellucid_ftl::{MountReport, PageMap, SetupError};
use pellucid_media::{Media, MediaError};
use std::collections::VecDeque;

/// A command in the drive.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub command: Command,
    pub submitted: SimTime,
    pub mark: SimTime,
    pub stages: StageTimes,
    pub slices_left: u32,
    pub status: Status,
    /// Of the completion.
    pub result: u64,
    /// Open-channel copy: the sources are in the controller.
    pub copied: bool,
    /// Occupied; for walking outstanding commands at a power cut.
    pub live: bool,
    /// Taken from its queue; one of the `active` ones.
    pub fetched: bool,
    /// Slices whose data the controller has still to move before it completes the command by itself.
    pub dmas_left: u32,
    next: u32,
}

impl Linked for Work {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Which way a slice goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Route {
    /// Through buffer and page map.
    Page,
    /// Direct: from the media to the host.
    Read,
    /// Direct: from the host to the media, one stripe.
    Program,
    /// Direct: an erase unit.
    Erase,
    /// Direct: from the media into the controller, to be programmed elsewhere.
    CopyRead,
    /// Direct: one stripe of what was read so, or moved inside a die.
    CopyProgram,
    /// Direct: what the controller knows by itself, to the host.
    Tell,
    /// Zoned: from the host into the buffer, a stripe or a part of one.
    Stage,
}

/// The part of a command that lies in one mapping unit; of one that addresses the media, the part that one flash operation
/// serves.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub work: u32,
    pub lpn: Lpn,
    /// First sector inside the unit.
    pub first: u32,
    pub sectors: u32,
    /// Where its sectors start in the command's data.
    pub data_at: u32,
    /// A write of zeros, without host data.
    pub zero: bool,
    /// The write is acknowledged only when programmed.
    pub through: bool,
    /// Its data have crossed the link and stand where they belong; the firmware need not know yet.
    pub moved: bool,
    /// This slice started the flash operation that it waits for, so the operation's stages are its own.
    pub primary: bool,
    /// The host's memory has its data already, straight from the media.
    pub delivered: bool,
    pub route: Route,
    /// Buffer entry; of a direct one its first physical unit.
    pub entry: u32,
    pub mark: SimTime,
    pub stages: StageTimes,
    pub next: u32,
}

impl Linked for Slice {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Slice {
    /// Books the time since the last transition to `stage`.
    #[inline]
    pub fn book(&mut self, stage: Stage, now: SimTime) {
        self.stages.add(stage, now - self.mark);
        self.mark = now;
    }

    /// Books the time since the last transition as spent on operations of which `pool` is left: in proportion, and taken
    /// out of it. What the pool does not cover is `Buffer`.
    pub fn book_from(&mut self, pool: &mut StageTimes, now: SimTime) {
        let (wait, total) = ((now - self.mark).0, pool.total().0);
        for stage in Stage::ALL {
            let time = &mut pool.0[stage as usize];
            let share = match total <= wait {
                true => *time,
                false => (u128::from(*time) * u128::from(wait) / u128::from(total)) as u64,
            };
            *time -= share;
            self.stages.add(stage, Nanos(share));
            self.mark += Nanos(share);
        }
        self.book(Stage::Buffer, now);
    }

    /// The sectors as bits of the unit.
    #[inline]
    pub fn mask(&self) -> u64 {
        sector_mask(self.first, self.sectors)
    }
}

/// `sectors` bits from bit `first` on; up to 64.
#[inline]
pub(crate) fn sector_mask(first: u32, sectors: u32) -> u64 {
    (u64::MAX >> (64 - sectors)) << first
}

/// Why a drive cannot be made.
#[derive(Debug)]
pub enum DeviceError {
    /// The media refuse.
    Media(MediaError),
    /// Translation refuses.
    Translation(SetupError),
    /// A controller setting is out of range.
    Setting {
        /// The key as in the TOML description.
        key: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl std::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceError::Media(e) => e.fmt(f),
            DeviceError::Translation(e) => e.fmt(f),
            DeviceError::Setting { key, allowed } => write!(f, "{key}: allowed: {allowed}"),
        }
    }
}

impl std::error::Error for DeviceError {}

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
    /// Slices that wait for a buffer entry.
    pub(crate) starved: List,
    pub(crate) starved_count: u32,
    pub(crate) writes: crate::write_path::Writes,
    pub(crate) flushes: Flushes,
    pub(crate) collect: crate::collect_path::Collect,
    pub(crate) placement: crate::placement::Placement,
    pub(crate) read_only: bool,
    /// What the last mount did; none yet where the media were empty.
    pub(crate) mounted: Option<MountReport>,
    pub(crate) counters: Counters,
    /// On while somebody watches; nothing in the drive reads them.
    pub(crate) taps: Option<Box<crate::taps::Taps>>,
    completions: VecDeque<Completion>,
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
        let solver = config.scheduler.solver;
        for (ok, key, allowed) in [
            (config.host.queues >= 1, "drive.host.queues", "at least 1"),
            (config.host.commands_max >= 1, "drive.host.commands_max", "at least 1"),
            (config.host.dma_unit_bytes >= 512, "drive.host.dma_unit", "at least 512 bytes"),
            (config.firmware.clock_mhz >= 1, "drive.firmware.clock_mhz", "at least 1"),
            (
                (0.0..1.0).contains(&config.firmware.spread),
                "drive.firmware.spread",
                "0 up to, not including, 1",
            ),
            (solver.is_none_or(|s| s.channels >= 1), "drive.scheduler.solver.channels", "at least 1"),
            (solver.is_none_or(|s| s.chunk_bytes >= 1), "drive.scheduler.solver.chunk", "at least 1 byte"),
            (config.buffer.entries >= 1, "drive.buffer.entries", "at least 1"),
            (config.buffer.entries < 1 << 24, "drive.buffer.entries", "fewer than 2^24"),
            (config.host.commands_max < 1 << 20, "drive.host.commands_max", "fewer than 2^20"),
            (
                config.media.timing.channel_bytes_per_second >= 1,
                "drive.media.timing.channel",
                "at least 1 byte/s",
            ),
        ] {
            if !ok {
                return Err(DeviceError::Setting { key, allowed });
            }
        }
        let layout = media.layout().clone();
        let config = &crate::spaces::complete(config, &layout)?;
        let (spaces, block_namespace) = crate::spaces::mount(config, &layout, &mut media);
        let (ftl, mounted) = crate::power::mount(config, &layout, &media, keep)?;
        let image_bytes = media.image_bytes();
        let stripe_bytes =
            u64::from(layout.units_per_stripe) * u64::from(layout.unit_bytes + layout.spare_bytes_per_unit);
        Ok(Device {
            events: Events::default(),
            host: HostInterface::new(&config.host),
            firmware: Firmware::new(&config.firmware, config.media.seed),
            buffer: Buffer::new(config.buffer.entries, layout.sectors_per_unit, image_bytes),
            scheduler: Scheduler::new(
                &config.scheduler,
                &config.media.timing,
                &layout,
                stripe_bytes,
                config.firmware.model == FirmwareModel::Loop,
            ),
            writes: crate::write_path::Writes::new(config.ftl.handles),
            flushes: Flushes::default(),
            collect: crate::collect_path::Collect::new(&config.ftl, &layout, image_bytes),
            placement: crate::placement::Placement::default(),
            full: sector_mask(0, layout.sectors_per_unit),
            config: config.clone(),
            now: SimTime::ZERO,
            works: Slab::default(),
            slices: Slab::default(),
            active: 0,
            unretired: 0,
            starved: List::default(),
            starved_count: 0,
            read_only: block_namespace != crate::spaces::NO_NAMESPACE && ftl.worn_out(),
            mounted,
            spaces,
            block_namespace,
            direct: crate::direct_path::Direct::new(&config.media.geometry, &layout),
            counters: Counters::default(),
            taps: None,
            completions: VecDeque::new(),
            image_bytes,
            layout,
            ftl,
            media,
        })
    }

    /// Hands a command to the drive at `now`, which must not lie before the last `advance`. Its completion comes out of
    /// [`Device::pop`], whatever becomes of it. Events due at `now` have run before.
    pub fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        let status = self.refuse(&command);
        if status == Some(Status::InvalidField) {
            self.note_invalid_handle(command.handle);
        }
        let work = self.works.insert(Work {
            command,
            submitted: now,
            mark: now,
            stages: StageTimes::default(),
            slices_left: 0,
            status: status.unwrap_or(Status::Success),
            result: 0,
            copied: false,
            live: true,
            fetched: false,
            dmas_left: 0,
            next: NIL,
        });
        if status.is_some() {
            self.finish(work);
        } else if self.config.host.fetch_ns == Nanos::ZERO {
            self.visible(work);
            self.drain();
        } else {
            self.events.at(now + self.config.host.fetch_ns, Event::Visible(work));
        }
    }

    fn refuse(&self, command: &Command) -> Option<Status> {
        if command.namespace != self.block_namespace {
            return self.refuse_direct(command);
        }
        let carries = match command.opcode {
            Opcode::Write => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush | Opcode::Trim | Opcode::WriteZeroes | Opcode::Report | Opcode::NextUnit => false,
            _ => return Some(Status::InvalidOpcode),
        };
        if command.vector.is_some() {
            return Some(Status::InvalidField);
        }
        let bytes = command.sectors as usize * self.image_bytes;
        if !self.host.has_queue(command.queue) || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        if let Some(status) = self.refuse_placement(command) {
            return Some(status);
        }
        if matches!(command.opcode, Opcode::Flush | Opcode::Report | Opcode::NextUnit) {
            return None;
        }
        if command.sectors == 0 {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.capacity_sectors()) {
            return Some(Status::LbaOutOfRange);
        }
        (self.read_only && command.opcode != Opcode::Read).then_some(Status::ReadOnly)
    }

    /// Runs everything that is due until `now`.
    pub fn advance(&mut self, now: SimTime) {
        debug_assert!(now >= self.now, "time runs forward");
        while let Some((at, event)) = self.events.pop_due(now) {
            self.pass_to(at);
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
                Event::Completed(work) => {
                    let record = &mut self.works[work];
                    record.stages.add(Stage::HostLink, at - record.mark);
                    self.finish(work);
                }
            }
            self.drain();
        }
        self.pass_to(now);
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
            if self.active == 0 || self.events.next_at().is_some() {
                return;
            }
            debug_assert!(
                self.has_block_namespace(),
                "commands wait for nothing: {:?}",
                self.works.iter().filter(|w| w.live).map(|w| &w.command.opcode).collect::<Vec<_>>()
            );
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
            if self.ftl.has_handle_events() {
                self.note_handle_events();
            }
            if self.active == 0 {
                self.collect_while_idle();
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

    /// The firmware is done with a command, which has perhaps been completed before.
    fn completed_by_firmware(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.stages.add(Stage::Firmware, self.now - record.mark);
        record.mark = self.now;
        if !record.live {
            self.unretired -= 1;
            return self.retire(work);
        }
        match self.config.host.complete_ns {
            Nanos::ZERO => self.finish(work),
            time => self.events.at(self.now + time, Event::Completed(work)),
        }
    }

    /// A command can be seen by the firmware.
    fn visible(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.stages.add(Stage::Queue, self.now - record.mark);
        record.mark = self.now;
        let queue = record.command.queue;
        self.host.push(&mut self.works, queue, work);
    }

    #[inline]
    fn fetch(&mut self) {
        while self.command_waits() && self.firmware.polling.is_none() && self.fetch_one() {}
    }

    /// Whether the firmware could take a command.
    #[inline]
    pub(crate) fn command_waits(&self) -> bool {
        self.active < self.config.host.commands_max && self.host.waiting()
    }

    /// Takes a command from its queue; `false`: there is none, or too many are worked on.
    pub(crate) fn fetch_one(&mut self) -> bool {
        if !self.command_waits() {
            return false;
        }
        let Some(work) = self.host.pop(&mut self.works) else { return false };
        self.active += 1;
        let record = &mut self.works[work];
        record.stages.add(Stage::Queue, self.now - record.mark);
        record.mark = self.now;
        record.fetched = true;
        self.ask(Task::Fetch(work));
        true
    }

    /// The firmware has taken a command.
    fn start(&mut self, work: u32) {
        let record = &mut self.works[work];
        // A loop reads the command out of the controller word by word, and has it only then.
        let stage = if self.firmware.polling.is_some() { Stage::Queue } else { Stage::Firmware };
        record.stages.add(stage, self.now - record.mark);
        record.mark = self.now;
        if record.command.namespace != self.block_namespace {
            return self.start_direct(work);
        }
        match record.command.opcode {
            Opcode::Read | Opcode::Write => {
                let (lba, sectors) = (record.command.lba.0, record.command.sectors);
                self.cut(work, lba, sectors, false);
            }
            Opcode::Trim | Opcode::WriteZeroes => self.start_trim(work),
            Opcode::Flush => self.start_flush(work),
            Opcode::Report => self.start_report(work),
            Opcode::NextUnit => self.start_next_unit(work),
            Opcode::Append | Opcode::Zone(_) | Opcode::Reset | Opcode::Copy => {
                unreachable!("refused at submission")
            }
        }
    }

    /// Cuts sectors of a command into slices, one for each mapping unit, and starts them.
    pub(crate) fn cut(&mut self, work: u32, lba: u64, sectors: u32, zero: bool) {
        let per_unit = self.layout.sectors_per_unit;
        let record = &mut self.works[work];
        let count = ((lba % u64::from(per_unit)) as u32 + sectors).div_ceil(per_unit);
        record.slices_left += count;
        record.dmas_left += count;
        let write = record.command.opcode != Opcode::Read;
        let through = write
            && (record.command.fua || self.config.buffer.write == crate::config::WritePolicy::WriteThrough);
        let (stages, start) = (record.stages, record.command.lba.0);
        self.writes.inbound += if write { count } else { 0 };
        let mut done = 0;
        while done < sectors {
            let at = lba + u64::from(done);
            let first = (at % u64::from(per_unit)) as u32;
            let here = (per_unit - first).min(sectors - done);
            let slice = self.slices.insert(Slice {
                work,
                lpn: Lpn((at / u64::from(per_unit)) as u32),
                first,
                sectors: here,
                data_at: (at - start) as u32,
                zero,
                through,
                moved: false,
                primary: false,
                delivered: false,
                route: Route::Page,
                entry: NIL,
                mark: self.now,
                stages,
                next: NIL,
            });
            done += here;
            self.ask(Task::Slice(slice));
        }
    }

    /// A slice has done its part. The last one completes the command.
    pub(crate) fn slice_done(&mut self, slice: u32, status: Status) {
        let ended = &self.slices[slice];
        debug_assert_eq!(ended.mark, self.now);
        let work = ended.work;
        let record = &mut self.works[work];
        record.slices_left -= 1;
        if status != Status::Success {
            record.status = status;
        }
        let last = record.slices_left == 0;
        if last {
            record.stages = ended.stages;
            record.mark = self.now;
        }
        self.slices.release(slice);
        if last {
            self.ask(Task::Complete(work));
        }
    }

    pub(crate) fn push_completions(&mut self, completions: Vec<Completion>) {
        self.completions.extend(completions);
    }

    /// The controller has moved the data of a slice; with the last one of its command it completes that by itself.
    fn link_done(&mut self, slice: u32) {
        let Slice { work, through, stages, route, .. } = self.slices[slice];
        if through || route != Route::Page {
            return;
        }
        self.move_data(slice);
        let record = &mut self.works[work];
        record.dmas_left -= 1;
        if record.dmas_left == 0 && record.status == Status::Success {
            record.stages = stages;
            self.complete(work);
            self.unretired += 1;
        }
    }

    fn finish(&mut self, work: u32) {
        self.complete(work);
        self.retire(work);
    }

    /// The firmware is done with a completed command.
    fn retire(&mut self, work: u32) {
        let fetched = self.works[work].fetched;
        self.works.release(work);
        if fetched {
            self.active -= 1;
        }
    }

    /// The host learns of the command's end.
    fn complete(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.live = false;
        let command = &mut record.command;
        let completion = Completion {
            tag: command.tag,
            opcode: command.opcode,
            status: record.status,
            submitted: record.submitted,
            completed: self.now,
            stages: record.stages,
            data: std::mem::take(&mut command.data),
            result: record.result,
            vector: command.vector.take(),
        };
        if record.status == Status::Success {
            match command.opcode {
                Opcode::Read => self.counters.host_read_sectors += u64::from(command.sectors),
                Opcode::Write => self.counters.host_written_sectors += u64::from(command.sectors),
                _ => {}
            }
        }
        if let Some(taps) = &mut self.taps {
            taps.command(&completion);
        }
        self.completions.push_back(completion);
    }
}
