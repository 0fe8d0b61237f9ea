//! Parallel units: their writes, one command at a time for each, and the results.
//!
//! ```text
//!  plan ─► queue ─► [ one write or reset with the drive ] ─► ended: data, start of a line, its end, reset chunk
//!                     ├ a chunk that has failed takes nothing more: what was planned for it fails without being sent
//!                     └ the drive takes nothing now ([`Status::WriteFault`]): the job waits in front of its queue
//! ```
//! A drive that takes no writes because its store is full has not failed a chunk. Until it takes writes
//! again, flushes fail, and so do writes that find no space in the ring; every change that the host requests
//! makes it try again.
//!
//! pblk holds a semaphore for each parallel unit: chunks are written in order, and no write waits in the
//! drive behind another.

use super::line::Line;
use super::{HostFtl, LineId, TAG_FINISH, TAG_UNIT, meta};
use pellucid_flash::{Cause, Command, Completion, Lpn, Opcode, Status, ZoneAction};
use pellucid_ftl::{Durability, Operation, ProgramId};
use std::collections::VecDeque;

/// Job for a parallel unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A superpage of data or translation pages.
    Data(ProgramId, LineId),
    /// The start of a line.
    Start(LineId),
    /// A superpage of a line's end.
    End(LineId, u32),
    /// The reset of the line's chunk in this unit.
    Reset(LineId),
    /// Padding of a superpage that a crash left out.
    Pad(LineId, u32),
}

impl Job {
    fn line(self) -> LineId {
        match self {
            Job::Data(_, line)
            | Job::Start(line)
            | Job::End(line, _)
            | Job::Reset(line)
            | Job::Pad(line, _) => line,
        }
    }
}

/// Parallel unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    queue: VecDeque<Job>,
    current: Option<Job>,
    /// The first job of the queue, or the current one, was refused before.
    refused: bool,
}

impl Unit {
    /// Reports whether `job` is the last one in the queue.
    pub fn waits_for(&self, job: Job) -> bool {
        self.queue.back() == Some(&job)
    }
}

impl HostFtl {
    /// Queues a job, and starts it if possible.
    pub(super) fn enqueue(&mut self, unit: u32, job: Job) {
        self.units[unit as usize].queue.push_back(job);
        self.kick(unit);
    }

    /// Starts the next job of an idle unit.
    #[inline]
    pub(super) fn kick(&mut self, unit: u32) {
        let Unit { queue, current, .. } = &self.units[unit as usize];
        if current.is_none() && !queue.is_empty() && !self.drive_refuses {
            self.start_next(unit);
        }
    }

    /// Retries the jobs after a change that may let the drive take writes again.
    pub(super) fn try_again(&mut self) {
        if std::mem::take(&mut self.drive_refuses) {
            self.moved = true;
            (0..self.lines.units).for_each(|unit| self.kick(unit));
        }
    }

    /// Reports whether the drive refused a job, or does not guarantee its result. A start handles refusals
    /// itself.
    fn is_refused(&self, status: Status) -> bool {
        status == Status::WriteFault && self.starting.is_none()
    }

    /// Reports whether a job that was refused had been executed all the same: the chunk's write pointer is
    /// after it.
    fn was_taken(&self, unit: u32, job: Job, status: Status) -> bool {
        let rows = self.lines[job.line()].rows.get(unit as usize);
        let full = rows.is_some_and(|rows| rows + 1 == self.lines.rows);
        status == Status::ChunkOutOfOrder || (status == Status::ChunkWriteInvalid && full)
    }

    /// Reports whether a job must wait: for the line's start to be written, or for another chunk to close.
    fn must_wait(&self, unit: u32, job: Job) -> bool {
        let line = job.line();
        match job {
            Job::Data(..) if !self.lines[line].opened => true,
            // Padding during a start opens only chunks that were about to be opened anyway; if the drive
            // refuses it, the hole stays.
            Job::Reset(_) | Job::Pad(..) => false,
            _ if !self.lines.is_limited() => false,
            _ => {
                self.lines[line].rows[unit as usize] == 0
                    && !self.is_dead(unit, job)
                    && self.lines.is_full(unit)
            }
        }
    }

    /// Reports whether a job fails without being sent.
    fn is_dead(&self, unit: u32, job: Job) -> bool {
        let line = &self.lines[job.line()];
        match job {
            // Padding makes the content of a failed chunk readable, as long as the chunk is open.
            Job::Pad(..) if !line.rows.is_empty() => line.rows[unit as usize] == self.lines.rows,
            Job::Reset(_) => false,
            _ => line.closed || line.broken.contains(&unit),
        }
    }

    /// Returns the index of the next job of a unit: the first one, or, if the drive limits open chunks, the
    /// first of a line that need not wait. A job that closes a chunk may be queued behind one that opens a
    /// chunk.
    fn next_job(&self, unit: u32) -> Option<usize> {
        let queue = &self.units[unit as usize].queue;
        if !self.must_wait(unit, *queue.front()?) {
            return Some(0);
        }
        if !self.lines.is_limited() {
            return None;
        }
        let mut waiting = Vec::new();
        queue.iter().position(|&job| {
            let waits = waiting.contains(&job.line()) || self.must_wait(unit, job);
            if waits {
                waiting.push(job.line());
            }
            !waits
        })
    }

    fn start_next(&mut self, unit: u32) {
        while self.units[unit as usize].current.is_none()
            && !self.drive_refuses
            && let Some(at) = self.next_job(unit)
        {
            let job = self.units[unit as usize].queue.remove(at).expect("a job in the queue");
            if let Job::Data(id, _) = job {
                self.programs.sent(unit, id);
            }
            self.passed = true;
            if self.is_dead(unit, job) {
                self.moved = true;
                self.units[unit as usize].refused = false;
                self.programs.aborted.push_back((unit, job));
                continue;
            }
            self.units[unit as usize].current = Some(job);
            let mut command = self.job_command(unit, job);
            command.tag = TAG_UNIT | u64::from(unit);
            self.counters.commands += 1;
            self.send(command);
        }
    }

    fn job_command(&mut self, unit: u32, job: Job) -> Command {
        match job {
            Job::Data(id, line) => self.data_command(id, line),
            Job::Start(line) => {
                let chunks = (0..self.lines.units).map(|unit| {
                    self.lines.chunk_of(line, unit).expect("a line that is written has all its chunks")
                });
                let content = match self.keeps_content() {
                    true => {
                        let sequence = self.lines[line].sequence;
                        let made = (self.ftl.user_units(), self.config.durability != Durability::Volatile);
                        meta::start(self.config.uuid, line, sequence, made, chunks)
                    }
                    false => Vec::new(),
                };
                self.meta_command(line, 0, &content, Cause::Journal)
            }
            Job::End(line, part) => {
                let superpage_bytes = self.lines.superpage_sectors as usize * self.image_bytes;
                let content = match (self.lines[line].end.as_ref(), self.keeps_content()) {
                    // The end is encoded again for each superpage: ends are rare and short.
                    (Some(end), true) => meta::end(self.config.uuid, line, end),
                    _ => Vec::new(),
                };
                let from = (part as usize * superpage_bytes).min(content.len());
                let to = (from + superpage_bytes).min(content.len());
                let superpage = self.lines.superpages() - self.lines.tail + part;
                self.meta_command(line, superpage, &content[from..to], Cause::Journal)
            }
            Job::Pad(line, superpage) => self.meta_command(line, superpage, &[], Cause::Padding),
            Job::Reset(line) => {
                let lba = self.lines.chunk_of(line, unit).expect("a line that is reset has its chunks");
                Command::new(0, Opcode::Reset, lba, 0, Vec::new())
            }
        }
    }

    /// Reports whether the drive keeps data, and not only stamps of them.
    pub(super) fn keeps_content(&self) -> bool {
        self.image_bytes == self.sector_bytes() as usize
    }

    /// Makes a write of one superpage without logical pages.
    fn meta_command(&mut self, line: LineId, superpage: u32, content: &[u8], cause: Cause) -> Command {
        let sectors = self.lines.superpage_sectors;
        let mut data = self.pools.images.pop().unwrap_or_default();
        data.clear();
        data.extend_from_slice(content);
        data.resize(sectors as usize * self.image_bytes, 0);
        let mut vector = self.pools.vector();
        for _ in 0..sectors {
            meta::put_oob(&mut vector.metadata, self.config.uuid, line, Lpn::NONE, 0);
        }
        self.counters.programmed_sectors[cause as usize] += u64::from(sectors);
        let (_, lba) = self.lines.place(line, superpage);
        Command { vector: Some(vector), ..Command::new(0, Opcode::Write, lba, sectors, data) }
    }

    /// Handles the end of a unit's current job.
    pub(super) fn unit_ended(&mut self, unit: u32, completion: &mut Completion) {
        let job = self.units[unit as usize].current.take().expect("the unit was at work");
        if completion.opcode == Opcode::Write {
            self.counters.drive_writes += 1;
            self.counters.drive_write_ns += (completion.completed - completion.submitted).0;
        }
        self.pools.put_back(std::mem::take(&mut completion.data), completion.vector.take());
        if self.is_refused(completion.status) {
            let record = &mut self.units[unit as usize];
            record.queue.push_front(job);
            (record.refused, self.drive_refuses) = (true, true);
            return;
        }
        let again = std::mem::take(&mut self.units[unit as usize].refused);
        let ok = matches!(completion.status, Status::Success | Status::HighEcc)
            || (again && self.was_taken(unit, job, completion.status));
        match job {
            // A chunk that was never written needs no reset.
            Job::Reset(line) => {
                self.reset_ended(line, unit, ok || completion.status == Status::ChunkInvalidReset)
            }
            _ => {
                match ok {
                    true => self.chunk_grew(job, unit),
                    false => self.chunk_failed(job, unit, completion.status),
                }
                self.job_ended(job, ok);
                if self.lines.held_rows > 0 {
                    self.synced();
                }
            }
        }
        self.kick(unit);
    }

    /// Ends the jobs for failed chunks that were never sent.
    pub(super) fn end_aborted(&mut self) {
        while let Some((_, job)) = self.programs.aborted.pop_front() {
            self.job_ended(job, false);
        }
    }

    /// Notes a superpage written to a chunk.
    fn chunk_grew(&mut self, job: Job, unit: u32) {
        let (Job::Data(_, line) | Job::Start(line) | Job::End(line, _) | Job::Pad(line, _)) = job else {
            return;
        };
        if let Some(rows) = self.lines[line].rows.get_mut(unit as usize) {
            *rows += 1;
        }
    }

    /// Handles a failed write: its chunk takes no more data until the line is erased, and a spare then
    /// replaces it. After a power loss, or if the drive has too many open chunks, the chunk replaces itself;
    /// its reset shows whether it is still good.
    fn chunk_failed(&mut self, job: Job, unit: u32, status: Status) {
        let (Job::Data(_, line) | Job::Start(line) | Job::End(line, _) | Job::Pad(line, _)) = job else {
            return;
        };
        self.counters.write_failures += 1;
        let all = self.lines.rows;
        let record = &mut self.lines[line];
        let untouched = record.rows.get(unit as usize) == Some(&0);
        if let Some(rows) = record.rows.get_mut(unit as usize) {
            // Either the drive has closed the chunk and all of it is readable, or the write pointer is after
            // the failed superpage.
            let behind = matches!(status, Status::ChunkWriteFailed | Status::PowerLoss);
            *rows = if behind { *rows + 1 } else { all };
        }
        if !record.broken.contains(&unit) {
            record.broken.push(unit);
            let stands_in = match status {
                Status::PowerLoss => self.lines.chunk_of(line, unit),
                Status::ChunkWriteInvalid if untouched => self.lines.chunk_of(line, unit),
                _ => self.lines.take_spare(unit),
            };
            self.lines[line].replacements.extend(stands_in.map(|chunk| (unit, chunk)));
            self.finish_chunk(line, unit);
        }
    }

    /// Tells the drive that a chunk takes no more data, although it is not full. The chunk is not reset
    /// before the drive has answered. The command does not queue behind the jobs of its parallel unit, which
    /// may themselves wait for the drive to have space.
    pub(super) fn finish_chunk(&mut self, line: LineId, unit: u32) {
        if self.config.finish_chunks
            && let Some(lba) = self.lines.chunk_of(line, unit)
        {
            self.lines[line].holds += 1;
            self.counters.commands += 1;
            let tag = TAG_FINISH | u64::from(line.0);
            self.send(Command::new(tag, Opcode::Zone(ZoneAction::Finish), lba, 0, Vec::new()));
        }
    }

    /// Releases the line after the drive has finished a chunk. If the drive refused, the chunk was already
    /// out of use.
    pub(super) fn chunk_finished(&mut self, line: LineId) {
        self.lines[line].holds -= 1;
        self.reset_if_due(line);
    }

    /// Finishes the remaining chunks of a line with broken ones, once all its data are written.
    pub(super) fn finish_broken(&mut self, line: LineId) {
        let record = &self.lines[line];
        if record.in_flight > 0 || record.broken.is_empty() {
            return;
        }
        for unit in 0..self.lines.units {
            if !self.lines[line].broken.contains(&unit) {
                self.finish_chunk(line, unit);
            }
        }
    }

    fn job_ended(&mut self, job: Job, ok: bool) {
        match job {
            Job::Data(id, line) => self.program_ended(id, line, ok),
            Job::Start(line) => {
                let units = self.lines.units;
                let record = &mut self.lines[line];
                record.opened = true;
                if !ok {
                    // No start could find the line of these chunks, so none of them may be written.
                    record.closed = true;
                }
                for unit in 0..units {
                    self.kick(unit);
                }
            }
            Job::End(line, _) => {
                self.lines[line].ending -= 1;
                // Sealing comes before the release of the hold, because its padding also holds the line.
                self.seal_if_due(line);
                self.lines[line].holds -= 1;
                if self.lines[line].holds == 0 {
                    self.lines[line].end = None;
                    self.reset_if_due(line);
                }
            }
            Job::Pad(..) if self.starting.is_some() => self.pad_ended(),
            Job::Pad(line, _) => {
                self.lines[line].holds -= 1;
                self.reset_if_due(line);
            }
            Job::Reset(_) => unreachable!("resets end by themselves"),
        }
    }

    /// Marks a line for reset; its chunks are reset once no read uses them.
    pub(super) fn reset_line(&mut self, line: LineId, retiring: bool) {
        let record = &mut self.lines[line];
        record.erase_waits = true;
        record.retiring = retiring;
        self.reset_if_due(line);
    }

    pub(super) fn reset_if_due(&mut self, line: LineId) {
        let record = &mut self.lines[line];
        if record.holds > 0 || !std::mem::take(&mut record.erase_waits) {
            return;
        }
        let broken = std::mem::take(&mut record.broken);
        let replacements = std::mem::take(&mut record.replacements);
        self.counters.erased_lines += 1;
        self.lines[line].resets = self.lines.units + 1;
        for unit in 0..self.lines.units {
            let own = self.lines.chunk_of(line, unit);
            let next = match broken.contains(&unit) {
                true => replacements.iter().find(|(of, _)| *of == unit).map(|r| r.1),
                false => own,
            };
            if next == own {
                self.enqueue(unit, Job::Reset(line));
            } else {
                self.lines.set_chunk(line, unit, next);
                self.lines[line].resets -= 1;
            }
        }
        self.chunk_reset(line);
    }

    fn reset_ended(&mut self, line: LineId, unit: u32, ok: bool) {
        if !ok {
            self.counters.reset_failures += 1;
            let spare = self.lines.take_spare(unit);
            self.lines.set_chunk(line, unit, spare);
        }
        self.chunk_reset(line);
    }

    /// Notes one completed part of a line's reset. After the last one the line is free, or retired.
    fn chunk_reset(&mut self, line: LineId) {
        self.lines[line].resets -= 1;
        if self.lines[line].resets > 0 {
            return;
        }
        self.moved = true;
        let retiring = self.lines[line].retiring;
        let whole = self.lines.is_whole(line);
        self.lines[line] = Line::default();
        if retiring || !whole {
            for unit in 0..self.lines.units {
                if let Some(chunk) = self.lines.chunk_of(line, unit) {
                    self.lines.add_spare(unit, chunk);
                    self.lines.set_chunk(line, unit, None);
                }
            }
        }
        if !retiring {
            self.ftl.set_now(self.now);
            self.ftl.ended(Operation::Erase(line), whole);
        }
        self.read_only |= self.ftl.view().worn_out;
        if self.lines.is_limited() {
            // The line's chunks are no longer open.
            (0..self.lines.units).for_each(|unit| self.kick(unit));
        }
    }
}
