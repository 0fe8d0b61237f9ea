//! A job on chunks or zones, which finds a place for each I/O of its generator.
//!
//! A writing job has a cursor in each of its units, or in `open_zones` zones, and uses them in rotation. When a cursor finds no free chunk or zone, a
//! job limited by time or number resets the oldest unused full one; any other job ends there.

use super::space::{Part, RawSpace};
use pellucid_flash::{ChunkOp, Command, Interface, Lba, Opcode, Rng, Tag, Vector, ZoneAction, ZoneOp};
use pellucid_text::format::bytes;
use pellucid_workload::{Action, BlockSize, Container, IoLimit, Job, JobError, RawJob};
use std::ops::Range;

/// A command of a raw job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRequest {
    /// Operation.
    pub opcode: Opcode,
    /// Namespace.
    pub namespace: u16,
    /// Runs of sectors; a plain command has one.
    pub runs: Vec<(Lba, u32)>,
    /// Destinations of a copy, one per run.
    pub destinations: Vec<(Lba, u32)>,
    /// True for a vector command.
    pub vector: bool,
    /// Total sectors, or those of the chunk or zone that it resets.
    pub sectors: u32,
    /// Submission queue.
    pub queue: u16,
    /// Index of the job.
    pub owner: u32,
    /// Effects of the command on the space.
    pub parts: Vec<Part>,
    /// True for a reset that makes room for writes, which is no I/O of the job's generator.
    pub makes_room: bool,
}

impl RawRequest {
    /// Returns the command of the request, with its data.
    pub fn command(self, tag: Tag, lba: Lba, data: Vec<u8>) -> Command {
        let addresses = |runs: &[(Lba, u32)]| {
            let sectors =
                runs.iter().flat_map(|&(lba, sectors)| (lba.0..lba.0 + u64::from(sectors)).map(Lba));
            sectors.collect::<Vec<Lba>>()
        };
        let vector = self.vector.then(|| {
            let (addresses, destinations) = (addresses(&self.runs), addresses(&self.destinations));
            Box::new(Vector { addresses, destinations, metadata: Vec::new() })
        });
        // A reset names its chunk or zone by its first sector.
        let sectors = self.runs.iter().map(|(_, sectors)| sectors).sum();
        let command = Command::new(tag, self.opcode, lba, sectors, data);
        Command { queue: self.queue, namespace: self.namespace, vector, ..command }
    }
}

/// Answer of a raw job that is asked for a place.
pub enum Draw {
    /// A command for the I/O.
    Io(Box<RawRequest>),
    /// A command that must precede the I/O.
    Before(Box<RawRequest>),
    /// No place before a completion.
    Blocked,
    /// No place ever again.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    lane: u32,
    /// Extent that it writes.
    open: Option<u32>,
    /// Full extent that it reads through, its number, and the sectors read.
    reading: Option<(u32, u64, u64)>,
    /// Number of the last extent that it read through.
    after: u64,
}

/// Progress of a raw job.
#[derive(Clone, Debug)]
pub struct RawWorker {
    raw: RawJob,
    /// Index of its space.
    pub space: usize,
    lanes: Range<u32>,
    cursors: Vec<Cursor>,
    turn: usize,
    rng: Rng,
    /// True if limited by time or number, so that it starts again after a full pass.
    repeats: bool,
    /// Number of extents that had become full when it started; without `repeats` it reads, copies and resets only these.
    until: u64,
    /// Sectors left for a random reader that does not repeat.
    left: u64,
    least: u32,
    /// True if it found no further place.
    starved: bool,
    /// Number of commands submitted.
    pub commands: u64,
}

fn refuse<T>(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.to_string(), allowed: allowed.into() })
}

/// Returns the sizes of a job's I/O that have to suit the drive, in bytes.
fn sizes(job: &Job, raw: &RawJob) -> Vec<(&'static str, u64)> {
    match &job.block[raw.direction() as usize] {
        BlockSize::Fixed(bytes) => vec![("bs", *bytes)],
        BlockSize::Range { min_bytes, max_bytes } => {
            vec![("bsrange", *min_bytes), ("bsrange", max_bytes / min_bytes * min_bytes)]
        }
        BlockSize::Split(sizes) => sizes.iter().map(|(bytes, _)| ("bssplit", *bytes)).collect(),
    }
}

impl RawWorker {
    /// Puts a job on a space.
    ///
    /// # Errors
    /// A key that does not suit the space.
    pub fn new(job: &Job, raw: &RawJob, space: usize, on: &RawSpace) -> Result<RawWorker, JobError> {
        let lanes = match &raw.units {
            None => 0..on.lanes(),
            Some(units) if units.end <= on.lanes() => units.clone(),
            Some(units) => {
                let given = format!("{}-{}", units.start, units.end - 1);
                return refuse("units", given, format!("a range within 0-{}", on.lanes() - 1));
            }
        };
        check(job, raw, on, &lanes)?;
        let cursor = |lane| Cursor { lane, open: None, reading: None, after: 0 };
        let cursors = match raw.container {
            Container::Chunk => lanes.clone().map(cursor).collect(),
            Container::Zone if raw.action.writes() => (0..raw.open_zones).map(|_| cursor(0)).collect(),
            Container::Zone => vec![cursor(0)],
        };
        let seed = job.seed.wrapping_add(u64::from(job.stream).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let least = match on.interface() {
            Interface::OpenChannel(chunks) if raw.action.writes() => chunks.write_min_sectors,
            _ => 1,
        };
        Ok(RawWorker {
            raw: raw.clone(),
            space,
            lanes,
            cursors,
            turn: 0,
            rng: Rng::stream(seed, "workload chunk"),
            repeats: job.limit != IoLimit::Region,
            until: 0,
            left: u64::MAX,
            least,
            starved: false,
            commands: 0,
        })
    }

    /// Starts the job.
    pub fn start(&mut self, space: &RawSpace) {
        self.until = if self.repeats { u64::MAX } else { space.filled() };
        if !self.repeats && self.raw.action == Action::RandRead {
            self.left = self.lanes.clone().map(|lane| space.full_sectors(lane)).sum();
        }
    }

    pub fn writes(&self) -> bool {
        self.raw.action.writes()
    }

    /// Returns the number of cursors, each of which may have an open chunk or zone.
    pub fn open_max(&self) -> u32 {
        if self.writes() { self.cursors.len() as u32 } else { 0 }
    }

    /// Returns the sentence on a job that found nothing to do.
    pub fn found_nothing(&self, space: &RawSpace) -> String {
        let what = self.raw.container.name();
        let holds = bytes((space.extent_sectors() * space.sector_bytes()) as f64);
        match self.raw.action {
            Action::Write | Action::Append => {
                format!("no {what} was free; allowed: on a namespace or target with free ones")
            }
            Action::Read | Action::RandRead | Action::Copy | Action::Reset => format!(
                "no {what} was full, and a {what} is full with {holds}; needs precondition.fill, the fill of its target, or a job before it \
                 (wait_for) that writes so much for each {what} that it has open at once"
            ),
        }
    }

    /// Returns the warning about a job that is limited by time or number but ended early for lack of places; `asked`: the requested number.
    pub fn ended_early(&self, asked: Option<u64>) -> Option<String> {
        if !self.repeats || !self.starved {
            return None;
        }
        let what = self.raw.container.name();
        let of = asked.map_or_else(String::new, |asked| format!(" of {asked}"));
        let why = match self.raw.action {
            Action::Write | Action::Append => format!("no {what} was free, and none that it could reset"),
            Action::Copy => format!("no {what} was full that it could copy, or none free to copy to"),
            Action::Read | Action::RandRead | Action::Reset => {
                format!("no {what} was full, and no job that writes was left to fill one")
            }
        };
        Some(format!("did {}{of} I/Os and ended: {why}", self.commands))
    }

    /// Finds a place for an I/O of this many sectors.
    pub fn draw(&mut self, sectors: u32, space: &mut RawSpace) -> Draw {
        let drawn = match self.raw.action {
            Action::RandRead => self.random_read(sectors, space),
            Action::Read => self.read(sectors, space),
            Action::Write | Action::Append => self.write(sectors, space),
            Action::Copy => self.copy(sectors, space),
            Action::Reset => self.reset(space),
        };
        self.commands += u64::from(matches!(drawn, Draw::Io(_)));
        self.starved = matches!(drawn, Draw::End);
        drawn
    }

    /// Ends the job, which leaves its open extents to others.
    pub fn end(&mut self, space: &mut RawSpace) {
        for cursor in &mut self.cursors {
            if let Some(at) = cursor.open.take().filter(|&at| space.room(at) > 0) {
                space.give_back(at);
            }
            if let Some((at, ..)) = cursor.reading.take() {
                space.let_go(at);
            }
        }
    }

    fn request(&self, opcode: Opcode, space: &RawSpace) -> RawRequest {
        RawRequest {
            opcode,
            namespace: space.number(),
            runs: Vec::new(),
            destinations: Vec::new(),
            vector: self.raw.vector > 1,
            sectors: 0,
            queue: 0,
            owner: 0,
            parts: Vec::new(),
            makes_room: false,
        }
    }

    /// Cuts an I/O into the parts of a vector command.
    fn split(&self, sectors: u32) -> impl Iterator<Item = u32> + use<> {
        let whole = sectors.div_ceil(self.raw.vector).next_multiple_of(self.least);
        (0..sectors.div_ceil(whole)).map(move |part| whole.min(sectors - part * whole))
    }

    fn random_read(&mut self, sectors: u32, space: &mut RawSpace) -> Draw {
        if self.left == 0 {
            return Draw::End;
        }
        let lanes: Vec<u32> = self.lanes.clone().filter(|&lane| space.full_count(lane) > 0).collect();
        if lanes.is_empty() {
            return if space.may_fill() { Draw::Blocked } else { Draw::End };
        }
        let mut request = self.request(Opcode::Read, space);
        for part in self.split(sectors) {
            let lane = lanes[self.rng.below(lanes.len() as u64) as usize];
            let place = self.rng.below(space.full_count(lane).into()) as u32;
            let at = space.full_at(lane, place);
            let slots = space.sectors(at) / u64::from(part);
            let first = space.start(at).0 + self.rng.below(slots) * u64::from(part);
            request.runs.push((Lba(first), part));
            request.parts.push(space.begin_read(at));
        }
        self.left = self.left.saturating_sub(sectors.into());
        Draw::Io(finished(request))
    }

    /// Returns the next run that a sequential reader or copier takes from the lane of a cursor.
    fn next_run(&mut self, cursor: usize, sectors: u32, space: &mut RawSpace) -> Option<(u32, Lba, u32)> {
        let Cursor { lane, reading, after, .. } = &mut self.cursors[cursor];
        if reading.is_none() {
            let mut next = space.full_after(*lane, *after);
            if next.is_none() && self.repeats {
                next = space.full_after(*lane, 0);
            }
            let (at, number) = next.filter(|(_, number)| *number <= self.until)?;
            space.hold(at);
            *reading = Some((at, number, 0));
        }
        let (at, number, done) = reading.as_mut()?;
        let here = (space.sectors(*at) - *done).min(sectors.into()) as u32;
        let run = (*at, Lba(space.start(*at).0 + *done), here);
        *done += u64::from(here);
        if *done == space.sectors(*at) {
            *after = *number;
            space.let_go(*at);
            *reading = None;
        }
        Some(run)
    }

    fn read(&mut self, sectors: u32, space: &mut RawSpace) -> Draw {
        let mut request = self.request(Opcode::Read, space);
        for part in self.split(sectors) {
            for _ in 0..self.cursors.len() {
                let cursor = self.next_turn();
                if let Some((at, lba, here)) = self.next_run(cursor, part, space) {
                    request.runs.push((lba, here));
                    request.parts.push(space.begin_read(at));
                    break;
                }
            }
        }
        match request.runs.is_empty() {
            false => Draw::Io(finished(request)),
            true if self.repeats && space.may_fill() => Draw::Blocked,
            true => Draw::End,
        }
    }

    fn next_turn(&mut self) -> usize {
        let turn = self.turn;
        self.turn = (turn + 1) % self.cursors.len();
        turn
    }

    /// Returns the extent that a cursor writes next, if there is one.
    fn open(&mut self, cursor: usize, space: &mut RawSpace) -> Option<u32> {
        let Cursor { lane, open, .. } = &mut self.cursors[cursor];
        if open.is_none_or(|at| space.room(at) == 0) {
            *open = space.take(*lane);
        }
        *open
    }

    /// Returns a reset that makes room in the lane of a cursor, unless one is in flight.
    fn make_room(&mut self, cursor: usize, space: &mut RawSpace) -> Option<Box<RawRequest>> {
        let lane = self.cursors[cursor].lane;
        if !self.repeats || space.resets(lane) > 0 {
            return None;
        }
        let at = space.oldest_idle(lane, u64::MAX)?;
        let mut request = self.reset_of(at, space);
        request.makes_room = true;
        Some(request)
    }

    fn write(&mut self, sectors: u32, space: &mut RawSpace) -> Draw {
        let append = self.raw.action == Action::Append;
        let mut request =
            self.request(if append { Opcode::Zone(ZoneOp::Append) } else { Opcode::Write }, space);
        for part in self.split(sectors) {
            for _ in 0..self.cursors.len() {
                let cursor = self.next_turn();
                if let Some(at) = self.open(cursor, space) {
                    let here = space.room(at).min(part.into()) as u32;
                    let (lba, part) = space.begin_write(at, here.into());
                    request.runs.push((if append { space.start(at) } else { lba }, here));
                    request.parts.push(part);
                    break;
                }
                if request.runs.is_empty()
                    && let Some(reset) = self.make_room(cursor, space)
                {
                    return Draw::Before(reset);
                }
            }
        }
        self.drawn(request, space)
    }

    /// Copies stay in their parallel unit, as a drive with copyback requires.
    fn copy(&mut self, sectors: u32, space: &mut RawSpace) -> Draw {
        let mut request = self.request(Opcode::Chunk(ChunkOp::Copy), space);
        request.vector = true;
        for part in self.split(sectors) {
            for _ in 0..self.cursors.len() {
                let cursor = self.next_turn();
                let Some(to) = self.open(cursor, space) else {
                    match self.make_room(cursor, space).filter(|_| request.runs.is_empty()) {
                        Some(reset) => return Draw::Before(reset),
                        None => continue,
                    }
                };
                let part = space.room(to).min(part.into()) as u32;
                if let Some((from, lba, here)) = self.next_run(cursor, part, space) {
                    let read = space.begin_read(from);
                    let (destination, write) = space.begin_write(to, here.into());
                    request.runs.push((lba, here));
                    request.destinations.push((destination, here));
                    request.parts.extend([read, write]);
                    break;
                }
            }
        }
        self.drawn(request, space)
    }

    /// Answers with a request, unless it found no place.
    fn drawn(&self, request: RawRequest, space: &RawSpace) -> Draw {
        match request.runs.is_empty() {
            false => Draw::Io(finished(request)),
            true if self.repeats && space.works() => Draw::Blocked,
            true => Draw::End,
        }
    }

    fn reset_of(&self, at: u32, space: &mut RawSpace) -> Box<RawRequest> {
        let opcode = match self.raw.container {
            Container::Chunk => Opcode::Chunk(ChunkOp::Reset),
            Container::Zone => Opcode::Zone(ZoneOp::Change(ZoneAction::Reset)),
        };
        let (start, sectors) = (space.start(at), space.sectors(at) as u32);
        let parts = vec![space.begin_reset(at)];
        let request = self.request(opcode, space);
        Box::new(RawRequest { runs: vec![(start, 0)], vector: false, sectors, parts, ..request })
    }

    fn reset(&mut self, space: &mut RawSpace) -> Draw {
        for _ in 0..self.cursors.len() {
            let cursor = self.next_turn();
            if let Some(at) = space.oldest_idle(self.cursors[cursor].lane, self.until) {
                return Draw::Io(self.reset_of(at, space));
            }
        }
        if self.repeats && space.may_fill() { Draw::Blocked } else { Draw::End }
    }
}

/// Sums up the sectors of a request.
fn finished(request: RawRequest) -> Box<RawRequest> {
    let sectors = request.runs.iter().map(|(_, sectors)| sectors).sum();
    Box::new(RawRequest { sectors, ..request })
}

/// Checks that the sizes and numbers of a job suit its space.
fn check(job: &Job, raw: &RawJob, on: &RawSpace, lanes: &Range<u32>) -> Result<(), JobError> {
    let (least, longest, open_max, sector_bytes) = match on.interface() {
        Interface::OpenChannel(chunks) => (
            chunks.write_min_sectors,
            u64::from(chunks.chunk_sectors) * u64::from(raw.vector),
            chunks.open_chunks_max,
            u64::from(chunks.sector_bytes),
        ),
        Interface::Zoned(zones) => {
            let append = u64::from(zones.append_max_sectors);
            let longest = if raw.action == Action::Append { append } else { zones.capacity_sectors };
            (1, longest, zones.open_max, u64::from(zones.sector_bytes))
        }
        other => unreachable!("a space of {}", other.name()),
    };
    let step = if raw.action.writes() { least } else { 1 } * raw.vector;
    // A vector command names each sector; a copy is a vector command too.
    let is_vector = raw.vector > 1 || raw.action == Action::Copy;
    let longest = if is_vector { longest.min(64) } else { longest };
    for (key, bytes) in sizes(job, raw).into_iter().filter(|_| raw.action != Action::Reset) {
        let sectors = bytes / sector_bytes;
        if !bytes.is_multiple_of(sector_bytes * u64::from(step)) || bytes == 0 {
            let allowed = format!("multiples of {} bytes here", sector_bytes * u64::from(step));
            return refuse(key, bytes, allowed);
        }
        if sectors > longest {
            return refuse(key, bytes, format!("at most {} bytes here", longest * sector_bytes));
        }
    }
    let opens = if raw.container == Container::Chunk { lanes.len() as u32 } else { raw.open_zones };
    if raw.action.writes() && open_max > 0 && opens > open_max {
        let key = if raw.container == Container::Chunk { "units" } else { "open_zones" };
        let what = raw.container.name();
        return refuse(key, opens, format!("at most {open_max}: the drive allows so many open {what}s"));
    }
    Ok(())
}
