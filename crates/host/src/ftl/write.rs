//! Writes: into the ring, and from it superpage by superpage.
//!
//! ```text
//!  waiting ─► admit (ring has room, rate limiter agrees) ─► acknowledged, unless forced
//!                │
//!  ring.submit ─►│ a superpage's worth ─► engine plans ─► queue of its parallel unit ─► program_ended ─► ring.sync
//!                └ less, and a command waits: padded          failed: planned again, or a newer version stands for it
//! ```
//! If GC copies have their own lines, each kind has its own superpages. Superpages are planned strictly in
//! the engine's order, and the next one only after the last could be sent. So other parallel units may idle
//! while its unit is busy: pblk does the same (Cosmos+ section 7.5, Fig. 38).

use super::ring::{Entry, Kind, Origin, Queue};
use super::units::Job;
use super::{HostFtl, LineId, meta};
use pellucid_flash::{Cause, Command, Lba, Lpn, Opcode, Status, append_images};
use pellucid_ftl::{Operation, Plan, ProgramId, Soon, Stream};
use std::collections::VecDeque;
use std::ops::Range;

/// Distance, in sectors of the ring, at which a map entry is prefetched before it is planned: large enough to
/// hide the memory latency, and small enough for the entry to stay in the cache.
const LOOK_AHEAD: u64 = 4;

/// Content of one place of a superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A sector of the ring.
    Entry(u64),
    /// A translation page that the engine planned at this place.
    Metadata(u32),
    /// A sector of the index of a stop.
    Index(u32),
}

#[derive(Clone, Copy, Debug)]
struct Program {
    /// First address on the drive.
    lba: Lba,
    sequence: u64,
    count: u32,
}

/// Programs that are planned and have not ended.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    superpage: usize,
    programs: Vec<Program>,
    contents: Vec<Content>,
    /// Sectors of the ring whose write failed and must be planned again, by kind.
    again: [VecDeque<u64>; 2],
    /// Number of superpages with ring data under way.
    in_flight: u32,
    /// Unit whose queue holds the last planned superpage of each kind; the next of that kind is planned only
    /// after this one is sent.
    rotation: [Option<u32>; 2],
    /// Last planned data superpage of each kind.
    last: [ProgramId; 2],
    /// Kind of the last turn.
    turn: Kind,
    /// Jobs that fail without being sent.
    pub aborted: VecDeque<(u32, Job)>,
    lpns: Vec<Lpn>,
    positions: Vec<u64>,
    ended: Vec<Content>,
}

impl Programs {
    pub fn new(superpage: u32) -> Programs {
        Programs {
            superpage: superpage as usize,
            programs: Vec::new(),
            contents: Vec::new(),
            again: [VecDeque::new(), VecDeque::new()],
            in_flight: 0,
            rotation: [None; 2],
            last: [ProgramId(0); 2],
            turn: 0,
            aborted: VecDeque::new(),
            lpns: Vec::new(),
            positions: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Notes that a program has left the queue of `unit`; another one may now be planned.
    #[inline]
    pub fn sent(&mut self, unit: u32, id: ProgramId) {
        for kind in 0..2 {
            if self.rotation[kind] == Some(unit) && self.last[kind] == id {
                self.rotation[kind] = None;
            }
        }
    }

    fn contents(&self, id: ProgramId) -> &[Content] {
        let from = id.0 as usize * self.superpage;
        &self.contents[from..from + self.programs[id.0 as usize].count as usize]
    }

    pub(super) fn enter(&mut self, plan: &Plan, contents: impl Iterator<Item = Content>) {
        let at = plan.id.0 as usize;
        let (lba, sequence) = (Lba(0), plan.sequence);
        if self.programs.len() <= at {
            self.programs.resize(at + 1, Program { lba, sequence, count: 0 });
            self.contents.resize((at + 1) * self.superpage, Content::Entry(0));
        }
        let mut count = 0;
        for content in contents {
            self.contents[at * self.superpage + count] = content;
            count += 1;
        }
        self.programs[at] = Program { lba, sequence, count: count as u32 };
    }
}

impl HostFtl {
    /// Takes sectors of waiting writes into the ring while it has space.
    pub(super) fn admit(&mut self) {
        // Sectors being read for GC already have reserved places.
        while self.ring.held() + self.gc.reading < self.ring.size()
            && let Some(&request) = self.waiting.front()
        {
            let limit = self.rate.user(self.ftl.blocks().free());
            if self.ring.held[0] >= limit {
                return;
            }
            let record = &mut self.requests[request];
            let command = record.command.as_ref().expect("a request has its command");
            let (lba, sectors, fua) = (command.lba.0, command.sectors, command.fua);
            while record.done < sectors {
                let full = self.ring.held() + self.gc.reading >= self.ring.size();
                if full || self.ring.held[0] >= limit {
                    return;
                }
                let from = record.done as usize * self.image_bytes;
                let image = &command.data[from..from + self.image_bytes];
                self.ring.push(Lpn((lba + u64::from(record.done)) as u32), Origin::User, image);
                record.done += 1;
                self.passed = true;
            }
            self.waiting.pop_front();
            match fua {
                true => self.await_sync(request),
                false => self.finish(request, Status::Success),
            }
        }
    }

    /// Plans superpages from the ring while the next one can be sent.
    #[inline]
    pub(super) fn fill(&mut self) {
        let (kinds, mut idle) = (self.ring.kinds(), 0);
        while idle < kinds {
            self.programs.turn = if self.programs.turn + 1 < kinds { self.programs.turn + 1 } else { 0 };
            let kind = self.programs.turn;
            idle = if self.has_superpage(kind) && self.plan_data(kind) { 0 } else { idle + 1 };
        }
    }

    /// Reports whether a superpage of a kind can be written now.
    #[inline]
    fn has_superpage(&self, kind: Kind) -> bool {
        let waiting = self.programs.again[kind].len() as u32 + self.ring.queues[kind].count;
        self.programs.rotation[kind].is_none()
            && waiting > 0
            && (waiting >= self.lines.superpage_sectors || self.must_pad(kind))
    }

    /// Reports whether an incomplete superpage must be padded: a command waits for it, and no further sectors
    /// are coming.
    fn must_pad(&self, kind: Kind) -> bool {
        let (point, Queue { next, count }) = (self.ring.flush_point, self.ring.queues[kind]);
        let before = (count > 0 && next < point) || self.programs.again[kind].iter().any(|&at| at < point);
        // Flushes do not wait for GC copies, but the victim and a stop do.
        let awaited = match kind {
            0 => before,
            _ => (before && self.stop.is_some()) || self.gc_rests(),
        };
        let stuck = self.programs.in_flight == 0
            && self.gc.reading == 0
            && (!self.waiting.is_empty() || self.is_awaited());
        awaited || stuck
    }

    /// Plans one superpage of a kind; returns `false` if there is no space.
    fn plan_data(&mut self, kind: Kind) -> bool {
        let superpage = self.lines.superpage_sectors as usize;
        let mut positions = std::mem::take(&mut self.programs.positions);
        let mut lpns = std::mem::take(&mut self.programs.lpns);
        positions.clear();
        lpns.clear();
        let mut again = 0;
        while positions.len() < superpage && again < self.programs.again[kind].len() {
            let at = self.programs.again[kind][again];
            again += 1;
            self.gather(at, &mut positions, &mut lpns);
        }
        let (mut queue, free) = (self.ring.queues[kind], self.ftl.blocks().free());
        while positions.len() < superpage
            && let Some(at) = self.ring.take(kind, &mut queue)
        {
            self.gather(at, &mut positions, &mut lpns);
        }
        let kinds = self.ring.kinds();
        let own = kinds > 1 && kind == 0;
        let plan = match lpns.is_empty() {
            true => None,
            // The rate limiter has reserved space for everything in the ring.
            false => own
                .then(|| self.ftl.place(Stream::Host, None, &lpns))
                .flatten()
                .or_else(|| self.ftl.place(Stream::Gc, None, &lpns)),
        };
        let planned = plan.is_some() || lpns.is_empty();
        let taken = (self.ring.queues[kind].count - queue.count) as usize + again;
        let dropped = taken > positions.len();
        if planned {
            // Dropped sectors free space in the ring, and an opened line uses some.
            self.passed = true;
            self.moved |= dropped || self.ftl.blocks().free() != free;
            self.programs.again[kind].drain(..again);
            self.ring.queues[kind] = queue;
        }
        if let Some(plan) = plan {
            self.programs.in_flight += 1;
            self.programs.enter(&plan, positions.iter().map(|&at| Content::Entry(at)));
            self.lines.note(plan.first, plan.sequence, lpns.iter().copied());
            self.counters.programmed_sectors[Cause::Padding as usize] += (superpage - positions.len()) as u64;
            for (i, (&at, lpn)) in positions.iter().zip(&lpns).enumerate() {
                let Entry { origin, trimmed, .. } = *self.ring.entry(at);
                self.count_planned(origin, i < again);
                // A newer version later in the superpage already has its place in the map, and reaches the
                // media together with this one.
                if trimmed && !lpns[i + 1..].contains(lpn) {
                    self.ftl.trim(*lpn);
                    self.moved = true;
                }
            }
            self.programs.last[kind] = plan.id;
            let (unit, line) = self.begin_program(&plan);
            if self.units[unit as usize].waits_for(Job::Data(plan.id, line)) {
                self.programs.rotation[kind] = Some(unit);
            }
            if self.ftl.checkpoint() {
                self.moved = true;
                self.write_map();
            }
        }
        self.programs.positions = positions;
        self.programs.lpns = lpns;
        if planned {
            self.prefetch_next();
            // Dropped sectors count as stored; planned ones change nothing yet if there is one kind and
            // nothing is held back.
            if dropped || kinds > 1 || self.lines.held_rows > 0 {
                self.synced();
            }
        }
        planned
    }

    /// Prefetches the map entries of the next sectors again: they waited in the ring so long that the cache
    /// has evicted them.
    #[inline]
    fn prefetch_next(&self) {
        let superpage = u64::from(self.lines.superpage_sectors);
        let from = self.ring.submit() + LOOK_AHEAD.max(superpage);
        for at in from..(from + superpage).min(self.ring.mem) {
            self.ftl.prefetch(Soon::Lookup(self.ring.entry(at).lpn));
        }
    }

    /// Adds the sector at `at` of the ring to a superpage, unless it is superfluous.
    fn gather(&mut self, at: u64, positions: &mut Vec<u64>, lpns: &mut Vec<Lpn>) {
        let entry = self.ring.entry(at);
        if let Origin::GcCopy(from) = entry.origin
            && (!self.ftl.is_current(from, Some(entry.lpn)) || self.ring.find(entry.lpn) != Some(at))
        {
            // The sector was overwritten meanwhile; the newer version's write invalidates the copy in the
            // victim.
            return self.ring.written(at);
        }
        positions.push(at);
        lpns.push(entry.lpn);
    }

    /// Counts a planned sector; `again` if its write has failed before.
    #[inline]
    fn count_planned(&mut self, origin: Origin, again: bool) {
        let cause = match origin {
            _ if again => Cause::Retirement,
            Origin::User => Cause::Host,
            Origin::GcCopy(_) => {
                self.ftl.count_copied(1);
                Cause::Gc
            }
        };
        self.counters.programmed_sectors[cause as usize] += 1;
    }

    /// Queues a planned program, after the line's start if it is the line's first. Returns its parallel unit
    /// and its line.
    pub(super) fn begin_program(&mut self, plan: &Plan) -> (u32, LineId) {
        let Plan { id, first, sequence, .. } = *plan;
        let line = self.lines.line_of(first);
        let record = &mut self.lines[line];
        record.in_flight += 1;
        if !std::mem::replace(&mut record.begun, true) {
            record.sequence = sequence;
            if self.lines.sealing_rows() > 0 {
                self.lines[line].rows = vec![0; self.lines.units as usize];
            }
            let (unit, _) = self.lines.place(line, 0);
            self.enqueue(unit, Job::Start(line));
        }
        let (unit, lba) = self.lines.place(line, self.lines.superpage_of(first));
        self.programs.programs[id.0 as usize].lba = lba;
        self.enqueue(unit, Job::Data(id, line));
        (unit, line)
    }

    /// Programs a superpage of the index, or padding, in the line that translation pages go to.
    pub(super) fn plan_index(&mut self, sectors: Range<u32>) {
        let Some(plan) = self.ftl.place(Stream::Meta, None, &[Lpn::NONE]) else { return };
        self.moved = true;
        self.lines.note(plan.first, plan.sequence, std::iter::empty());
        let used = sectors.len() as u64;
        self.counters.programmed_sectors[Cause::Journal as usize] += used;
        self.counters.programmed_sectors[Cause::Padding as usize] +=
            u64::from(self.lines.superpage_sectors) - used;
        self.programs.enter(&plan, sectors.map(Content::Index));
        self.begin_program(&plan);
    }

    pub(super) fn data_command(&mut self, id: ProgramId, line: LineId) -> Command {
        self.ftl.prefetch(Soon::End(id));
        let Program { lba, sequence, .. } = self.programs.programs[id.0 as usize];
        let (sectors, image) = (self.lines.superpage_sectors as usize, self.image_bytes);
        let mut data = self.pools.images.pop().unwrap_or_default();
        let mut vector = self.pools.vector();
        data.clear();
        for &content in self.programs.contents(id) {
            let lpn = match content {
                Content::Entry(at) => {
                    append_images(&mut data, self.ring.image(at));
                    self.ring.entry(at).lpn
                }
                Content::Metadata(position) => {
                    let (mark, bytes) = self.ftl.metadata(id, position);
                    data.extend_from_slice(&bytes[..image.min(bytes.len())]);
                    mark
                }
                Content::Index(sector) => {
                    let from = sector as usize * image;
                    data.extend_from_slice(&self.flushes.index[from..from + image]);
                    meta::INDEX
                }
            };
            meta::put_oob(&mut vector.metadata, self.config.uuid, line, lpn, sequence);
        }
        data.resize(sectors * image, 0);
        while vector.metadata.len() < sectors * meta::OOB_BYTES {
            meta::put_oob(&mut vector.metadata, self.config.uuid, line, Lpn::NONE, sequence);
        }
        Command { vector: Some(vector), ..Command::new(0, Opcode::Write, lba, sectors as u32, data) }
    }

    pub(super) fn program_ended(&mut self, id: ProgramId, line: LineId, ok: bool) {
        self.moved = true;
        let mut ended = std::mem::take(&mut self.programs.ended);
        ended.clear();
        ended.extend_from_slice(self.programs.contents(id));
        self.ftl.ended(Operation::Program(id), ok);
        let record = &mut self.lines[line];
        record.in_flight -= 1;
        record.written += u32::from(ok);
        let replaced = record.broken.len() == record.replacements.len();
        if !ok && replaced {
            self.ftl.forgive(line);
        }
        let data = matches!(ended.first(), Some(Content::Entry(_)));
        self.programs.in_flight -= u32::from(data);
        for &content in &ended {
            match content {
                Content::Entry(at) if ok => self.ring.written(at),
                Content::Entry(at) => {
                    if self.ring.failed(at) {
                        self.programs.again[self.ring.kind_at(at)].push_back(at);
                    }
                }
                // The engine plans a failed translation page again. Without an index, the next start reads
                // the sectors of the line.
                Content::Metadata(_) | Content::Index(_) => {}
            }
        }
        self.programs.ended = ended;
        self.read_only |= !ok && self.ftl.view().worn_out;
        self.synced();
        self.finish_broken(line);
        self.write_end_if_due(line);
        self.seal_if_due(line);
    }

    /// Seals a line that gets no end, if the drive holds sectors back or limits open chunks. Such a line has
    /// a failed chunk, and takes no more data, or it is full and an earlier run began it.
    pub(super) fn seal_if_due(&mut self, line: LineId) {
        let (units, data) = (self.lines.units, self.lines.layout().superpages_per_block);
        let record = &self.lines[line];
        if record.rows.is_empty() || record.in_flight > 0 || record.ending > 0 || record.sealed {
            return;
        }
        let whole = record.broken.is_empty();
        let full = record.rows[(data % units) as usize] > data / units;
        let ends = whole && record.written == data && record.end.is_some();
        if !ends && (full || !whole) {
            self.seal(line);
        }
    }

    /// Pads the chunks of an abandoned line: [`Lines::sealing_rows`](super::line::Lines::sealing_rows).
    pub(super) fn seal(&mut self, line: LineId) {
        let (units, all, padding) = (self.lines.units, self.lines.rows, self.lines.sealing_rows());
        self.lines[line].sealed = true;
        for unit in 0..units {
            let rows = self.lines[line].rows[unit as usize];
            if rows == 0 {
                continue;
            }
            for row in rows..all.min(rows + padding) {
                self.lines[line].holds += 1;
                self.enqueue(unit, Job::Pad(line, row * units + unit));
            }
        }
    }

    /// Writes the end of a line once all its data are on the media.
    fn write_end_if_due(&mut self, line: LineId) {
        let data = self.lines.layout().superpages_per_block;
        let record = &mut self.lines[line];
        if record.written < data || !record.broken.is_empty() || record.end.is_none() {
            return;
        }
        let tail = self.lines.tail;
        self.lines[line].holds += tail;
        self.lines[line].ending = tail;
        for part in 0..tail {
            let (unit, _) = self.lines.place(line, self.lines.superpages() - tail + part);
            self.enqueue(unit, Job::End(line, part));
        }
    }
}
