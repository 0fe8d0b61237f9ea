//! The way of every command: from its queue into slices, and from its last slice to the host.
//!
//! ```text
//!  submit ─► refused? ─► visible ─► queue ─► fetch ─► (firmware) ─► start ─► cut ─► slices, each on a path of its own
//!  pop    ◄─ complete ◄─ (firmware) ◄──────────────── slice_done, the last one ◄────┘
//!             └─ or by the controller itself, when the last data have crossed the link (link_done)
//! ```
//! Invariants: every command submitted completes once, whatever becomes of it; `active` commands have been fetched and not
//! retired; a command that the controller has completed is retired when the firmware is done with it.

use crate::device::Device;
use crate::events::Event;
use crate::firmware::Task;
use crate::spaces::Space;
use crate::work::{Route, Slice, Work};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Lpn, Nanos, Opcode, Stage, Status};

impl Device {
    pub(crate) fn refuse(&self, command: &Command) -> Option<Status> {
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

    /// The firmware is done with a command, which has perhaps been completed before.
    pub(crate) fn completed_by_firmware(&mut self, work: u32) {
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
    pub(crate) fn visible(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.stages.add(Stage::Queue, self.now - record.mark);
        record.mark = self.now;
        let queue = record.command.queue;
        self.host.push(&mut self.works, queue, work);
    }

    #[inline]
    pub(crate) fn fetch(&mut self) {
        while self.command_waits() && self.firmware.polling.is_none() && self.fetch_one() {}
    }

    /// Whether the firmware could take a command.
    #[inline]
    pub(crate) fn command_waits(&self) -> bool {
        self.active < self.config.host.commands_max
            && self.host.waiting()
            && !(self.config.host.in_order && self.room_is_awaited())
    }

    /// Whether data of a command wait for room in the buffer.
    fn room_is_awaited(&self) -> bool {
        !self.starved[0].is_empty() || self.spaces.iter().any(Space::awaits_room)
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
    pub(crate) fn start(&mut self, work: u32) {
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
        let (_, offset) = self.layout.unit_of(lba);
        let count = self.layout.units_of(offset + sectors);
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
            let (unit, first) = self.layout.unit_of(at);
            let here = (per_unit - first).min(sectors - done);
            let slice = self.slices.insert(Slice {
                work,
                lpn: Lpn(unit),
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
    pub(crate) fn link_done(&mut self, slice: u32) {
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

    pub(crate) fn finish(&mut self, work: u32) {
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

    /// Whether the media's store refuses a command: nothing changes while its file does not take what is written, and data need
    /// room. Who asks has the file try again.
    pub(crate) fn refuse_for_store(&mut self, command: &Command) -> Option<Status> {
        if self.media.has_room() || matches!(command.opcode, Opcode::Read | Opcode::Report) {
            return None;
        }
        let brings = matches!(command.opcode, Opcode::Write | Opcode::Append | Opcode::Copy);
        self.media.try_again();
        self.forget_some();
        (self.media.holds_back() || (brings && !self.media.has_room())).then_some(Status::WriteFault)
    }

    /// A command that promises that what was written lasts ends well only if it does.
    fn promise(&mut self, work: u32) {
        let Work { command, status, .. } = &self.works[work];
        if *status != Status::Success || matches!(command.opcode, Opcode::Read | Opcode::Report) {
            return;
        }
        let through = self.config.buffer.write == crate::config::WritePolicy::WriteThrough;
        // A chunk write is acknowledged when it is programmed.
        let chunks = matches!(self.spaces.get(usize::from(command.namespace)), Some(Space::Chunks(_)));
        let promises = command.opcode == Opcode::Flush || command.fua || through || chunks;
        if (promises && self.media.promise().is_err()) || self.media.holds_back() {
            self.works[work].status = Status::WriteFault;
        }
    }

    /// The host learns of the command's end.
    fn complete(&mut self, work: u32) {
        self.promise(work);
        let record = &mut self.works[work];
        record.live = false;
        let command = &mut record.command;
        self.completions.push_back(Completion {
            tag: command.tag,
            opcode: command.opcode,
            status: record.status,
            submitted: record.submitted,
            completed: self.now,
            stages: record.stages,
            data: std::mem::take(&mut command.data),
            result: record.result,
            unmapped: record.unmapped,
            vector: command.vector.take(),
        });
        if record.status == Status::Success {
            match command.opcode {
                Opcode::Read => {
                    self.counters.host_read_sectors += u64::from(command.sectors);
                    match command.namespace == self.block_namespace {
                        true => self.placement.commands.reads += 1,
                        false => self.placement.beside.read_sectors += u64::from(command.sectors),
                    }
                }
                Opcode::Write => {
                    self.counters.host_written_sectors += u64::from(command.sectors);
                    match command.namespace == self.block_namespace {
                        true => self.placement.commands.writes += 1,
                        false => self.placement.beside.host_sectors += u64::from(command.sectors),
                    }
                }
                _ => {}
            }
        }
        if let Some(taps) = &mut self.taps
            && let Some(completion) = self.completions.back()
        {
            taps.command(completion);
        }
    }
}
