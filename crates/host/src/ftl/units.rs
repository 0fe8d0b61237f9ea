//! Parallel units: what is written to them, one command at a time each, and what becomes of it.
//!
//! ```text
//!  plan ─► queue ─► [ one write or reset with the drive ] ─► ended: data, start of a line, its end, reset chunk
//!                     ├ a chunk that has failed takes nothing more: what was planned for it fails without being sent
//!                     └ the drive takes nothing now ([`Status::WriteFault`]): the job waits in front of its queue
//! ```
//! A drive that takes nothing, as its store is full, has failed no chunk. Until it takes something again, flushes and writes that find
//! no room in the ring fail; every change that the host asks for has it try again.
//!
//! pblk holds a semaphore for each parallel unit: chunks are written in order, and no write waits in the drive behind another.

use super::line::Line;
use super::{HostFtl, LineId, TAG_FINISH, TAG_UNIT, meta};
use pellucid_flash::{Cause, Command, Completion, Lpn, Opcode, Status, ZoneAction};
use pellucid_ftl::{Durability, ProgramId};
use std::collections::VecDeque;

/// Something to be done by a parallel unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A superpage of data or translation pages.
    Data(ProgramId, LineId),
    /// The start of a line.
    Start(LineId),
    /// A superpage of a line's end.
    End(LineId, u32),
    /// The line's chunk in this unit.
    Reset(LineId),
    /// Padding of a superpage that a crash has left out.
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

/// A parallel unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    queue: VecDeque<Job>,
    current: Option<Job>,
    /// The first job of the queue, or the current one, has been refused before.
    refused: bool,
}

impl Unit {
    /// Whether `job` waits here.
    pub fn waits_for(&self, job: Job) -> bool {
        self.queue.back() == Some(&job)
    }
}

impl HostFtl {
    /// Queues a job and starts it if it can be.
    pub(super) fn enqueue(&mut self, unit: u32, job: Job) {
        self.units[unit as usize].queue.push_back(job);
        self.kick(unit);
    }

    /// Starts the next job of a unit, if it has one and rests.
    #[inline]
    pub(super) fn kick(&mut self, unit: u32) {
        let Unit { queue, current, .. } = &self.units[unit as usize];
        if current.is_none() && !queue.is_empty() && !self.drive_refuses {
            self.start_next(unit);
        }
    }

    /// The drive may take something again.
    pub(super) fn try_again(&mut self) {
        if std::mem::take(&mut self.drive_refuses) {
            self.moved = true;
            (0..self.lines.units).for_each(|unit| self.kick(unit));
        }
    }

    /// The drive has not taken a job, or does not promise what it has taken. A start has other ways.
    fn is_refused(&self, status: Status) -> bool {
        status == Status::WriteFault && self.starting.is_none()
    }

    /// A job that was refused has been taken all the same: its chunk is behind it.
    fn was_taken(&self, unit: u32, job: Job, status: Status) -> bool {
        let rows = self.lines[job.line()].rows.get(unit as usize);
        let full = rows.is_some_and(|rows| rows + 1 == self.lines.rows);
        status == Status::ChunkOutOfOrder || (status == Status::ChunkWriteInvalid && full)
    }

    /// Whether a job cannot be sent yet: nothing goes to a line before its start is there, or opens one chunk too many.
    fn must_wait(&self, unit: u32, job: Job) -> bool {
        let line = job.line();
        match job {
            Job::Data(..) if !self.lines[line].opened => true,
            // What padding opens, where a start fills holes, was about to be opened before; what the drive refuses it leaves as it is.
            Job::Reset(_) | Job::Pad(..) => false,
            _ if !self.lines.is_limited() => false,
            _ => {
                self.lines[line].rows[unit as usize] == 0
                    && !self.is_dead(unit, job)
                    && self.lines.is_full(unit)
            }
        }
    }

    /// Whether a job fails without being sent.
    fn is_dead(&self, unit: u32, job: Job) -> bool {
        let line = &self.lines[job.line()];
        match job {
            // Padding makes what a failed chunk holds readable, as long as the chunk is open.
            Job::Pad(..) if !line.rows.is_empty() => line.rows[unit as usize] == self.lines.rows,
            Job::Reset(_) => false,
            _ => line.closed || line.broken.contains(&unit),
        }
    }

    /// Which job of a unit is next: the first, or where the drive limits open chunks the first of a line that need not wait. What ends
    /// a chunk may stand behind what opens one.
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
                    // Made anew for each superpage: ends are rare, and short.
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

    /// Whether the drive keeps what is written, or stamps of it.
    pub(super) fn keeps_content(&self) -> bool {
        self.image_bytes == self.sector_bytes() as usize
    }

    /// A write of one superpage that holds no logical pages.
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

    /// The drive has ended what a unit was doing.
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

    /// Ends what was planned for chunks that had failed before it was sent.
    pub(super) fn end_aborted(&mut self) {
        while let Some((_, job)) = self.programs.aborted.pop_front() {
            self.job_ended(job, false);
        }
    }

    /// A superpage of a chunk is on the media.
    fn chunk_grew(&mut self, job: Job, unit: u32) {
        let (Job::Data(_, line) | Job::Start(line) | Job::End(line, _) | Job::Pad(line, _)) = job else {
            return;
        };
        if let Some(rows) = self.lines[line].rows.get_mut(unit as usize) {
            *rows += 1;
        }
    }

    /// A write failed: its chunk takes nothing more until the line is erased, and a spare stands in for it from then on. Where only the
    /// drive's power had gone, or the drive has opened too many chunks, the chunk stands in for itself: whether it is still good, its
    /// reset tells.
    fn chunk_failed(&mut self, job: Job, unit: u32, status: Status) {
        let (Job::Data(_, line) | Job::Start(line) | Job::End(line, _) | Job::Pad(line, _)) = job else {
            return;
        };
        self.counters.write_failures += 1;
        let all = self.lines.rows;
        let record = &mut self.lines[line];
        let untouched = record.rows.get(unit as usize) == Some(&0);
        if let Some(rows) = record.rows.get_mut(unit as usize) {
            // Either the drive has closed the chunk and gives all of it, or the write pointer is behind the failed superpage.
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

    /// A chunk takes nothing more, although it is not full. It is not reset before the drive knows; but it waits for nothing that
    /// its parallel unit does, which may itself wait for the drive to have room.
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

    /// The drive knows. If it has refused, the chunk is out of use already.
    pub(super) fn chunk_finished(&mut self, line: LineId) {
        self.lines[line].holds -= 1;
        self.reset_if_due(line);
    }

    /// All data that will ever be written to a line with broken chunks are: neither do the others get more.
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
                    // No start could find out which line has the chunks: nothing may be written to any of them.
                    record.closed = true;
                }
                for unit in 0..units {
                    self.kick(unit);
                }
            }
            Job::End(line, _) => {
                self.lines[line].ending -= 1;
                // Before the hold is given up: what it needs to be read keeps the line too.
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

    /// Nothing in `line` is needed any more: its chunks are reset as soon as nothing reads from it.
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

    /// One part of a line's reset is done. After the last one the line is free, or retired.
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
            self.ftl.erase_ended(line, whole);
        }
        self.read_only |= self.ftl.worn_out();
        if self.lines.is_limited() {
            // Its chunks are no longer open.
            (0..self.lines.units).for_each(|unit| self.kick(unit));
        }
    }
}
