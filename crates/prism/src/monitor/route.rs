//! The path of a command: from an application's addresses to the drive's, and of its completion back.

use super::{Commit, Monitor};
use pellucid_flash::{
    ChunkInfo, ChunkNotice, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Notice, Opcode,
    SimTime, StageTimes, Status,
};

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum What {
    /// No purpose: the record is not in use.
    #[default]
    Nothing,
    /// An application's command.
    Command,
    /// A part of an application's report, in the record of the report.
    Part(u32),
    /// A look at a chunk that could not be erased, for the command of this record; its number in the command.
    Look { op: u32, at: u32 },
    /// One of the monitor's calls.
    Call(usize),
    /// Pages of a record of the state, or the reset before them.
    Record { ring: usize, pages: u32 },
    /// Command of a swap of two LUNs: which one, or which chunk.
    Level(u32),
}

/// A command to the drive.
#[derive(Clone, Debug, Default)]
pub(super) struct Op {
    what: What,
    tag: u64,
    app: u16,
    opcode: Option<Opcode>,
    epoch: u32,
    /// The drive's number of its chunk, if it names one.
    chunk: u32,
    sectors: u32,
    submitted: SimTime,
    /// Parts that have not ended.
    left: u32,
    /// A report from above; a reset that has ended, while its bad blocks are replaced.
    ended: Option<Completion>,
    /// The first chunk of a report.
    first: u32,
}

impl<D: Drive> Monitor<D> {
    /// Hands a command of the monitor's own to the drive.
    pub(super) fn send(&mut self, what: What, command: Command) {
        let op = self.ops.take();
        self.ops[op] = Op { what, sectors: command.sectors, ..Op::default() };
        self.drive.submit(self.now, Command { tag: op.into(), ..command });
    }

    /// Carries completions up until all is at rest at this moment, and begins what is due.
    pub(super) fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(completion) = self.drive.pop() {
                self.ended(completion);
                moved = true;
            }
            self.level();
            self.save();
            if !moved {
                return;
            }
        }
    }

    // ---- down

    pub(super) fn route(&mut self, submitted: SimTime, mut command: Command) {
        let app = command.namespace;
        let Some(Some(opened)) = self.opened.get_mut(usize::from(app)) else {
            return self.up.push_back(command.refused(submitted, Status::InvalidField));
        };
        if self.leveller.holds(app, &opened.view, &command) {
            return self.held.push_back((submitted, command));
        }
        if command.opcode == Opcode::Report {
            return self.report(submitted, command);
        }
        if let Err((status, addresses)) = opened.view.to_drive(&mut command) {
            if status == Status::LbaOutOfRange {
                opened.statistics.refused += u64::from(addresses.count_ones().max(1));
            }
            let refused = command.refused(submitted, status);
            return self.up.push_back(Completion { result: addresses, ..refused });
        }
        let chunk = self.geometry.address(command.lba).map_or(0, |at| self.geometry.chunk_number(at));
        let op = self.take_op(app, &command, submitted);
        self.ops[op].chunk = chunk;
        self.drive.submit(self.now, Command { tag: op.into(), namespace: self.namespace, ..command });
    }

    fn take_op(&mut self, app: u16, command: &Command, submitted: SimTime) -> u32 {
        let op = self.ops.take();
        self.ops[op] = Op {
            what: What::Command,
            tag: command.tag,
            app,
            opcode: Some(command.opcode),
            epoch: self.epoch,
            sectors: command.sectors,
            submitted,
            ..Op::default()
        };
        self.under_way += 1;
        self.opened[usize::from(app)].as_mut().expect("it is open").under_way += 1;
        op
    }

    /// A new generation of commands begins; [`Monitor::draining`] counts those of the old ones that are under way.
    pub(super) fn drain(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.draining = self.under_way;
    }

    /// A report is put together from one of each LUN.
    fn report(&mut self, submitted: SimTime, mut command: Command) {
        let app = command.namespace;
        let view = &self.opened[usize::from(app)].as_ref().expect("it is open").view;
        let own = view.geometry();
        let first = own.address(command.lba).map(|address| own.chunk_number(address));
        let inside = |first: &u32| u64::from(*first) + u64::from(command.sectors) <= view.chunks().into();
        let Some(first) = first.filter(inside) else {
            self.opened[usize::from(app)].as_mut().expect("it is open").statistics.refused += 1;
            return self.up.push_back(command.refused(submitted, Status::LbaOutOfRange));
        };
        if command.sectors == 0 || command.vector.is_some() {
            return self.up.push_back(command.refused(submitted, Status::InvalidField));
        }
        command.data.clear();
        command.data.resize(command.sectors as usize * ChunkInfo::BYTES, 0);
        let op = self.take_op(app, &command, submitted);
        self.ops[op].first = first;
        self.ops[op].ended = Some(command.refused(submitted, Status::Success));
        self.ask_parts(op);
    }

    /// Asks each LUN that has blocks of a report.
    fn ask_parts(&mut self, report: u32) {
        let Op { app, first, sectors, .. } = self.ops[report];
        let view = &self.opened[usize::from(app)].as_ref().expect("it has a command").view;
        // LUN, first and last chunk.
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for block in first..first + sectors {
            let chunk = view.chunk_on_drive(block).expect("each block is a chunk");
            let lun = chunk / self.geometry.chunks;
            match runs.iter_mut().rev().find(|run| run.0 == lun) {
                Some(run) => (run.1, run.2) = (run.1.min(chunk), run.2.max(chunk)),
                None => runs.push((lun, chunk, chunk)),
            }
        }
        self.ops[report].left = runs.len() as u32;
        for (_, from, to) in runs {
            let part = self.own(Opcode::Report, from, 0, to - from + 1, Vec::new());
            self.send(What::Part(report), part);
        }
    }

    // ---- up

    fn ended(&mut self, completion: Completion) {
        let op = completion.tag as u32;
        let what = std::mem::take(&mut self.ops[op].what);
        if what == What::Command {
            self.ops[op].what = what;
            return self.command_ended(op, completion);
        }
        self.ops.release(op);
        match what {
            What::Part(report) => self.part_ended(report, self.ops[op].sectors, &completion),
            What::Look { op, at } => self.looked(op, at, &completion),
            What::Call(at) => self.answers[at] = Some(completion),
            What::Record { ring, pages } => self.record_ended(ring, pages, &completion),
            What::Level(of) => self.level_ended(of, completion),
            What::Nothing | What::Command => {}
        }
    }

    fn command_ended(&mut self, op: u32, completion: Completion) {
        if completion.opcode == Opcode::Chunk(ChunkOp::Reset) {
            return self.reset_ended(op, completion);
        }
        let Op { app, sectors, .. } = self.ops[op];
        if let (Some(opened), Status::Success | Status::HighEcc) =
            (&mut self.opened[usize::from(app)], completion.status)
        {
            let statistics = &mut opened.statistics;
            match completion.opcode {
                Opcode::Read => {
                    (statistics.reads, statistics.read_sectors) =
                        (statistics.reads + 1, statistics.read_sectors + u64::from(sectors))
                }
                Opcode::Write | Opcode::Chunk(ChunkOp::Copy) => {
                    (statistics.writes, statistics.written_sectors) =
                        (statistics.writes + 1, statistics.written_sectors + u64::from(sectors))
                }
                _ => {}
            }
        }
        self.finish(op, completion);
    }

    /// The completion goes up.
    pub(super) fn finish(&mut self, op: u32, mut completion: Completion) {
        let Op { app, tag, epoch, submitted, .. } = self.ops[op];
        if let Some(opened) = &mut self.opened[usize::from(app)] {
            opened.under_way -= 1;
            // A report has the application's addresses already.
            if completion.opcode != Opcode::Report {
                opened.view.give_back(&mut completion);
            }
        }
        self.under_way -= 1;
        self.draining -= usize::from(epoch != self.epoch && self.draining > 0);
        self.ops[op].what = What::Nothing;
        self.ops.release(op);
        completion.tag = tag;
        // Time that it was held above the drive is the host's.
        let held = completion.submitted - submitted;
        completion.submitted = submitted;
        completion.stages.add(pellucid_flash::Stage::Host, held);
        let after = self.now - completion.completed;
        completion.completed = self.now;
        completion.stages.add(pellucid_flash::Stage::Host, after);
        self.up.push_back(completion);
    }

    /// The drive has told of `chunks` chunks.
    fn part_ended(&mut self, report: u32, chunks: u32, part: &Completion) {
        let (app, first, count) = (self.ops[report].app, self.ops[report].first, self.ops[report].sectors);
        let record = &mut self.ops[report];
        record.left -= 1;
        let left = record.left;
        let whole = record.ended.as_mut().expect("a report under way");
        whole.completed = part.completed;
        match (&self.opened[usize::from(app)], part.status) {
            (_, Status::Success) if part.data.len() != chunks as usize * ChunkInfo::BYTES => {
                whole.status = Status::InvalidField;
            }
            (Some(opened), Status::Success) => {
                let (view, own) = (&opened.view, opened.view.geometry());
                for info in part.data.as_chunks().0.iter().filter_map(ChunkInfo::decode) {
                    let Some(address) = self.geometry.address(info.start) else { continue };
                    let chunk = self.geometry.chunk_number(address);
                    let Some(block) = view.chunk_in_view(chunk) else { continue };
                    let asked = (first..first + count).contains(&block);
                    if !asked || view.chunk_on_drive(block) != Some(chunk) {
                        continue;
                    }
                    let mut packed = Vec::with_capacity(ChunkInfo::BYTES);
                    ChunkInfo { start: own.lba(own.chunk_at(block)), ..info }.encode(&mut packed);
                    whole.data[(block - first) as usize * ChunkInfo::BYTES..][..ChunkInfo::BYTES]
                        .copy_from_slice(&packed);
                }
            }
            (_, status) => whole.status = status,
        }
        if left > 0 {
            return;
        }
        // A block that has moved meanwhile is asked for again.
        if whole.status == Status::Success
            && whole.data.iter().step_by(ChunkInfo::BYTES).any(|&state| state == 0)
        {
            return self.ask_parts(report);
        }
        let whole = self.ops[report].ended.take().expect("a report under way");
        self.finish(report, whole);
    }

    // ---- erases, and blocks that cannot be erased

    /// The chunk of an address of a reset.
    fn reset_chunk(&self, op: u32, completion: &Completion, at: u32) -> u32 {
        let listed = completion.vector.as_ref().and_then(|vector| vector.addresses.get(at as usize));
        let number = |&lba| self.geometry.address(lba).map(|address| self.geometry.chunk_number(address));
        listed.and_then(number).unwrap_or(self.ops[op].chunk)
    }

    fn reset_ended(&mut self, op: u32, completion: Completion) {
        let count = completion.vector.as_ref().map_or(0, |vector| vector.addresses.len()).max(1) as u32;
        let scalar = completion.vector.as_ref().is_none_or(|vector| vector.addresses.is_empty());
        let app = usize::from(self.ops[op].app);
        let mut looks = Vec::new();
        for at in 0..count {
            let failed = match scalar {
                true => completion.status != Status::Success,
                false => completion.result >> at & 1 != 0,
            };
            let chunk = self.reset_chunk(op, &completion, at);
            if !failed && matches!(completion.status, Status::Success | Status::ChunkOffline) {
                let lun = chunk / self.geometry.chunks;
                self.count_erase(lun);
                let erases = self.state.luns[lun as usize].erases;
                self.leveller.note_erase(lun, erases.is_multiple_of(self.state.shown.into()));
                if let Some(opened) = &mut self.opened[app] {
                    opened.statistics.erases += 1;
                }
            }
            if failed && completion.status == Status::ChunkOffline {
                looks.push((at, chunk));
            }
        }
        if looks.is_empty() || self.records.dead {
            return self.finish(op, completion);
        }
        self.ops[op].ended = Some(completion);
        self.ops[op].left = looks.len() as u32;
        for (at, chunk) in looks {
            let look = self.own(Opcode::Report, chunk, 0, 1, Vec::new());
            self.send(What::Look { op, at }, look);
        }
    }

    /// Takes the drive's report on a chunk that could not be erased. One that is offline is replaced.
    fn looked(&mut self, op: u32, at: u32, look: &Completion) {
        let ended = self.ops[op].ended.take().expect("a reset that has ended");
        let chunk = self.reset_chunk(op, &ended, at);
        self.ops[op].ended = Some(ended);
        self.ops[op].left -= 1;
        let info = look.data.first_chunk().and_then(ChunkInfo::decode);
        if look.status == Status::Success && info.is_some_and(|info| info.state == ChunkState::Offline) {
            self.replace(op, at, chunk);
        }
        if self.ops[op].left == 0 {
            self.changed_then([Commit::Answer(op)]);
        }
    }

    fn replace(&mut self, op: u32, at: u32, chunk: u32) {
        let app = self.ops[op].app;
        let Some(opened) = &mut self.opened[usize::from(app)] else { return };
        let Some(block) = opened.view.chunk_in_view(chunk) else { return };
        let (lun, in_lun) = (chunk / self.geometry.chunks, chunk % self.geometry.chunks);
        let place = self.state.luns[lun as usize].shown.iter().position(|&shown| shown == in_lun);
        let Some(place) = place.filter(|_| self.put_aside(lun, in_lun)) else {
            self.opened[usize::from(app)].as_mut().expect("it is open").statistics.lost_blocks += 1;
            return;
        };
        let spare = lun * self.geometry.chunks + self.state.luns[lun as usize].shown[place];
        let opened = self.opened[usize::from(app)].as_mut().expect("it is open");
        opened.statistics.replaced_blocks += 1;
        let own = opened.view.geometry();
        let ended = self.ops[op].ended.as_mut().expect("a reset that has ended");
        ended.result &= !(1 << at);
        if ended.result == 0 {
            ended.status = Status::Success;
        }
        // What it is told of the block is what the spare is.
        let start = own.lba(own.chunk_at(block));
        let told = ended.vector.as_mut().map(|vector| &mut vector.metadata);
        if let Some(told) =
            told.and_then(|told| told.as_chunks_mut::<{ ChunkInfo::BYTES }>().0.get_mut(at as usize))
        {
            let mut packed = Vec::with_capacity(ChunkInfo::BYTES);
            let info = ChunkInfo {
                state: ChunkState::Free,
                wear_index: 0,
                start,
                sectors: own.chunk_sectors,
                write_pointer: 0,
            };
            info.encode(&mut packed);
            told.copy_from_slice(&packed);
        }
        self.changed_then([Commit::Place { app, block, chunk: spare }]);
    }

    /// A change is on the media, or never will be.
    pub(super) fn commit(&mut self, commit: Commit) {
        match commit {
            Commit::Place { app, block, chunk } if !self.records.dead => {
                if let Some(opened) = &mut self.opened[usize::from(app)] {
                    opened.view.set(block, chunk);
                }
            }
            Commit::Place { .. } => {}
            Commit::Answer(op) => {
                let mut ended = self.ops[op].ended.take().expect("a reset that has ended");
                if self.records.dead {
                    ended.status = Status::ChunkOffline;
                }
                self.finish(op, ended);
            }
            Commit::Moved => self.moved(),
        }
    }

    /// The power was cut: what was under way is answered, and nothing else is done.
    pub(super) fn forget(&mut self) {
        while let Some(completion) = self.drive.pop() {
            let op = completion.tag as u32;
            if self.ops[op].what == What::Command && self.ops[op].ended.is_none() {
                self.finish(op, completion);
            }
        }
        let lost: Vec<u32> =
            (0..).zip(self.ops.iter()).filter(|(_, op)| op.what == What::Command).map(|(at, _)| at).collect();
        for op in lost {
            let Op { opcode, submitted, .. } = self.ops[op];
            let command =
                Command::new(0, opcode.expect("an application's"), pellucid_flash::Lba(0), 0, Vec::new());
            let mut lost = command.refused(submitted, Status::PowerLoss);
            lost.stages = StageTimes::default();
            self.finish(op, lost);
        }
        for (submitted, command) in std::mem::take(&mut self.held) {
            let lost = command.refused(submitted, Status::PowerLoss);
            self.up.push_back(Completion { completed: self.now, ..lost });
        }
        self.ops.clear();
        self.commits.clear();
        self.records.forget();
        self.leveller.forget();
        self.draining = 0;
    }
}

impl<D: Drive> Drive for Monitor<D> {
    fn namespaces(&self) -> u16 {
        self.opened.len() as u16
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let opened = self.opened.get(usize::from(namespace))?.as_ref()?;
        Some(Interface::OpenChannel(opened.view.geometry()))
    }

    fn image_bytes(&self) -> usize {
        self.drive.image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        Drive::advance(self, now);
        self.route(now, command);
        self.pump();
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(next) = self.drive.next_event().filter(|&next| next <= now) {
            self.now = self.now.max(next);
            self.drive.advance(self.now);
            self.pump();
        }
        self.now = self.now.max(now);
        self.drive.advance(self.now);
        self.pump();
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Drive::advance(self, now);
        while self.up.is_empty()
            && let Some(next) = self.drive.next_event().filter(|&next| next < limit)
        {
            self.now = self.drive.advance_to_completion(self.now.max(next), limit);
            self.pump();
        }
        self.now
    }

    fn next_event(&self) -> Option<SimTime> {
        self.drive.next_event()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.under_way + self.held.len()
    }

    fn completed(&self) -> usize {
        self.up.len()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        while let Some((namespace, notice)) = self.drive.pop_notice() {
            let Notice::Chunk(chunk) = notice else { continue };
            if namespace != self.namespace {
                continue;
            }
            for (app, opened) in (0..).zip(&self.opened) {
                let Some(opened) = opened else { continue };
                let Some(lba) = opened.view.in_view(chunk.lba) else { continue };
                if opened.view.on_drive(lba) == Some(chunk.lba) {
                    return Some((app, Notice::Chunk(ChunkNotice { lba, ..chunk })));
                }
            }
        }
        None
    }
}
