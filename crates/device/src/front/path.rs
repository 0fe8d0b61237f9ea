//! The path of every command: from its queue into slices, and from its last slice to the host.
//!
//! ```text
//!  submit ─► refused? ─► visible ─► queue ─► fetch ─► (firmware) ─► start ─► cut ─► slices, each on a path of its own
//!  pop    ◄─ complete ◄─ (firmware) ◄──────────────── slice_done, the last one ◄────┘
//!             └─ or by the controller itself, when the last data have crossed the link (link_done)
//! ```
//! Invariants: every command submitted completes once, whatever becomes of it; `active` commands have been fetched and not
//! retired; a command that the controller has completed is retired when the firmware is done with it.

use crate::config::Namespace;
use crate::events::Event;
use crate::firmware::{Chore, Task};
use crate::front::commands::{Route, Slice, Work};
use crate::front::host_interface::Direction;
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{ChunkOp, Completion, Effect, Nanos, Opcode, SimTime, Stage, Status, Vector};

impl Shared {
    /// Every write and flush of a namespace that was submitted before this is complete, and the host has been told.
    pub(crate) fn settled(&self, namespace: u16) -> SimTime {
        let changes = |opcode: Opcode| !opcode.effect().changes_nothing();
        let works = self.works.iter().filter(|work| work.live && work.command.namespace == namespace);
        let under_way = works.filter(|work| changes(work.command.opcode)).map(|work| work.submitted);
        let waiting = self.completions.iter().filter(|completion| changes(completion.opcode));
        let oldest = under_way.chain(waiting.map(|completion| completion.submitted)).min();
        oldest.unwrap_or(self.now + Nanos(1))
    }

    /// The firmware is done with a command, which has perhaps been completed before.
    #[inline]
    pub(crate) fn completed_by_firmware(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.stages.add(Stage::Firmware, self.now - record.mark);
        record.mark = self.now;
        if !record.live {
            self.fetched.learn_end();
            return self.retire(work);
        }
        match self.config.host.complete_ns {
            Nanos::ZERO => self.finish(work),
            time => self.events.at(self.now + time, Event::Completed(work)),
        }
    }

    /// A command, which the firmware can see, waits in its queue.
    pub(crate) fn wait_in_queue(&mut self, work: u32) {
        let queue = self.works[work].command.queue;
        self.host.push(&mut self.works, queue, work);
    }

    /// The next command leaves its queue, by arbitration.
    pub(crate) fn take_command(&mut self) -> Option<u32> {
        let work = self.host.pop(&mut self.works)?;
        self.has_left_queue(work);
        Some(work)
    }

    /// A command that found all queues empty is taken at once.
    #[inline]
    pub(crate) fn take_at_once(&mut self, work: u32) {
        self.host.pass(self.works[work].command.queue);
        self.has_left_queue(work);
    }

    /// A command was taken from its queue.
    #[inline]
    fn has_left_queue(&mut self, work: u32) {
        self.fetched.fetch();
        let record = &mut self.works[work];
        record.stages.add(Stage::Queue, self.now - record.mark);
        record.mark = self.now;
        record.fetched = true;
    }

    /// The firmware has taken a command.
    #[inline]
    pub(crate) fn command_taken(&mut self, work: u32) {
        let record = &mut self.works[work];
        // A loop reads the command out of the controller word by word, and has it only then.
        let stage = if self.firmware.polling.is_some() { Stage::Queue } else { Stage::Firmware };
        record.stages.add(stage, self.now - record.mark);
        record.mark = self.now;
    }

    /// A slice has done its part. The last one completes the command.
    #[inline]
    pub(crate) fn slice_done(&mut self, slice: u32, status: Status) {
        let ended = &self.slices[slice];
        debug_assert_eq!(ended.mark, self.now);
        let work = ended.work;
        let record = &mut self.works[work];
        record.slices_left -= 1;
        // A block that cannot be read says more than one that is not there.
        if status != Status::Success && (status != Status::Absent || record.status == Status::Success) {
            record.status = status;
        }
        let last = record.slices_left == 0;
        if last {
            record.stages = ended.stages;
            record.mark = self.now;
        }
        self.slices.release(slice);
        if last {
            self.ask_complete(work);
        }
    }

    /// The block of a slice is not cached: the first such block is the result.
    #[cold]
    pub(crate) fn note_absent(&mut self, slice: u32) {
        let Slice { work, data_at, .. } = self.slices[slice];
        let block = u64::from(data_at / self.layout.sectors_per_unit);
        let record = &mut self.works[work];
        let is_first = record.status != Status::Absent || block < record.result;
        record.result = if is_first { block } else { record.result };
    }

    #[inline]
    pub(crate) fn finish(&mut self, work: u32) {
        self.complete(work);
        self.retire(work);
    }

    /// The firmware is done with a completed command.
    #[inline]
    fn retire(&mut self, work: u32) {
        let fetched = std::mem::take(&mut self.works[work].fetched);
        self.works.release(work);
        if fetched {
            self.fetched.retire();
        }
    }

    /// A command that promises that what was written lasts ends well only if it does.
    #[inline]
    fn promise(&mut self, work: u32) {
        let Work { command, status, .. } = &self.works[work];
        if command.opcode == Opcode::Read
            || *status != Status::Success
            || command.opcode.effect().changes_nothing()
        {
            return;
        }
        let through = self.config.buffer.write == crate::config::WritePolicy::WriteThrough;
        // A chunk write is acknowledged when it is programmed.
        let namespace = self.config.namespaces.get(usize::from(command.namespace));
        let chunks = matches!(namespace, Some(Namespace::OpenChannel { .. }));
        let promises = command.opcode == Opcode::Flush || command.fua || through || chunks;
        if (promises && self.media.store_mut().flushed().is_err()) || self.media.store().holds_back() {
            self.works[work].status = Status::WriteFault;
        }
    }

    /// Returns whether, now that a command has ended, others may be taken, or the drive is at rest.
    #[inline]
    pub(crate) fn may_go_on(&self) -> bool {
        self.fetched.active() == 0 || self.host.waiting()
    }

    /// The host learns of the command's end.
    #[inline]
    pub(crate) fn complete(&mut self, work: u32) {
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
            let (opcode, namespace, sectors) =
                (command.opcode, command.namespace, u64::from(command.sectors));
            match opcode.effect() {
                Effect::Reads => {
                    let counters = self.counts(namespace);
                    counters.host_read_sectors += sectors;
                    counters.host_reads += 1;
                }
                // The data of a copy are the drive's own.
                Effect::Writes if opcode != Opcode::Chunk(ChunkOp::Copy) => {
                    let counters = self.counts(namespace);
                    counters.host_written_sectors += sectors;
                    counters.host_writes += 1;
                }
                _ => {}
            }
        }
        probes::observe_command(self, work);
    }

    /// The completions with which a power cut ends all commands on their way.
    pub(crate) fn lose_all(&mut self) -> Vec<Completion> {
        let now = self.now;
        self.works
            .iter_mut()
            .filter(|w| w.live)
            .map(|w| Completion {
                tag: w.command.tag,
                opcode: w.command.opcode,
                status: Status::PowerLoss,
                submitted: w.submitted,
                completed: now,
                stages: w.stages,
                data: std::mem::take(&mut w.command.data),
                result: 0,
                unmapped: 0,
                vector: w.command.vector.take(),
            })
            .collect()
    }

    pub(crate) fn is_write(&self, slice: u32) -> bool {
        self.works[self.slices[slice].work].command.opcode != Opcode::Read
    }

    // ---- host DMA

    /// Host DMA operations of a slice.
    pub(crate) fn dma_units(&self, slice: u32) -> u32 {
        let record = &self.slices[slice];
        if record.zero {
            0
        } else {
            (record.sectors * self.layout.sector_bytes).div_ceil(self.config.host.dma_unit_bytes)
        }
    }

    /// Returns whether the data of a slice cross the host link in no time, of the link or of the firmware.
    #[inline]
    pub(crate) fn moves_at_once(&self, slice: u32) -> bool {
        self.host.link_is_free()
            && self.firmware.does_at_once(Task::Dma(slice))
            && !self.firmware.is_priced(Chore::Depend)
    }

    /// Starts the host DMA of a slice. `true`: it has ended already.
    #[inline]
    pub(crate) fn start_dma(&mut self, slice: u32) -> bool {
        let record = &mut self.slices[slice];
        record.book(Stage::Firmware, self.now);
        if record.zero || self.host.link_is_free() {
            return true;
        }
        let (bytes, direction) = match record.route {
            Route::Page => {
                let bytes = u64::from(record.sectors) * u64::from(self.layout.sector_bytes);
                let read = self.works[record.work].command.opcode == Opcode::Read;
                (bytes, if read { Direction::Tx } else { Direction::Rx })
            }
            _ => self.direct_transfer(slice),
        };
        let end = self.host.transfer(self.now, bytes, direction);
        probes::observe_dma(self, slice, direction);
        match &mut self.firmware.polling {
            Some(polling) => polling.dma_begins(),
            None if end == self.now => return true,
            None => {}
        }
        self.events.at(end, Event::Dma(slice));
        false
    }

    /// Bytes and way of a slice over the host link.
    fn direct_transfer(&self, slice: u32) -> (u64, Direction) {
        let record = &self.slices[slice];
        let command = &self.works[record.work].command;
        if command.opcode == Opcode::Report {
            return (command.data.len() as u64, Direction::Tx);
        }
        let metadata = command.vector.as_ref().is_some_and(|v| !v.metadata.is_empty());
        let beside = if metadata { Vector::METADATA_BYTES as u64 } else { 0 };
        let bytes = u64::from(record.sectors) * (u64::from(self.layout.sector_bytes) + beside);
        let inward = matches!(record.route, Route::Program | Route::Stage);
        (bytes, if inward { Direction::Rx } else { Direction::Tx })
    }
}
