//! The policy level: the application reads and writes sectors, and says for each range of them how they are mapped and collected
//! (section IV-D of the paper).
//!
//! | paper | here |
//! |---|---|
//! | `Get_SSD_Geometry` | [`Policy::geometry`] |
//! | `FTL_Ioctl(mapping, gc, begin, end)` | [`Policy::ftl_ioctl`] |
//! | `FTL_Read`, `FTL_Write`, TRIM | commands of a block drive: [`Policy`] is a [`Layer`] |
//!
//! ```text
//!   logical    0 ─────── 10 GB ──────────────────────── 100 GB
//!                Block, FIFO │      Page, Greedy             what lies outside a range is refused
//!   chunks of  [record][  rows 1 to 20  ][    rows 21 to 219    ][ free rows ]
//!   every LUN              block map           host FTL
//! ```
//! A range has *rows*: the same chunks of every LUN, so that each works with all of them in parallel. A page-mapped range is a
//! [`HostFtl`] on its rows; a block-mapped one is `block_map`.
//!
//! **Restart.** The ranges stand in a record on the flash (`record.rs`). An application configures them at each start, as in Algorithm IV.3:
//! the same range finds its data again, in whatever order they come; one that overlaps another that is remembered is refused. A range that
//! is remembered and not configured stays as it is. With [`PolicyConfig::format`] a start forgets everything.

mod block_map;
mod record;

use crate::{LevelError, Mapping, Space, SsdGeometry};
use block_map::BlockMap;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Command, Completion, Figure, Interface, Lba, Notice, Opcode, SimTime, Stage, StageTimes, Status, Tag,
};
use pellucid_ftl::{SetupError, Victim};
use pellucid_host::{HostFtl, HostFtlConfig, HostFtlError, Layer, Machine};
use record::{Record, Spec};
use std::collections::VecDeque;
use std::ops::Range;
use thiserror::Error;

/// The most ranges.
pub const RANGES_MAX: usize = 8;

/// How a range chooses what it empties next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Gc {
    /// What costs the fewest copies.
    Greedy,
    /// What was begun first.
    Fifo,
    /// What was changed last the longest ago.
    Lru,
    /// What is worth most by age and cost.
    CostBenefit,
}

impl Gc {
    /// All policies.
    pub const ALL: [Gc; 4] = [Gc::Greedy, Gc::Fifo, Gc::Lru, Gc::CostBenefit];

    fn victim(self) -> Victim {
        match self {
            Gc::Greedy => Victim::Greedy,
            Gc::Fifo => Victim::Fifo,
            Gc::Lru => Victim::Lru,
            Gc::CostBenefit => Victim::CostBenefit,
        }
    }
}

/// A policy level as it is described.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyConfig {
    /// Whether a start erases everything, whoever wrote it.
    pub format: bool,
    /// The host FTL of page-mapped ranges: write buffer, spare chunks, costs. What a range says itself, and where it lies, does not count.
    pub host_ftl: HostFtlConfig,
}

/// Why a range is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The level still reads its record.
    #[error("the level is still starting: it reads which ranges there are")]
    NotReady,
    /// The bounds are none.
    #[error(
        "range {begin} to {end}: allowed: multiples of the {sector_bytes} bytes of a sector, the first below the second"
    )]
    Bounds {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// There is such a range, or another one where it would be.
    #[error("range {begin} to {end}: {with}")]
    Overlaps {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// What is there.
        with: String,
    },
    /// Over-provisioning is no share.
    #[error("over-provisioning {0}: allowed: 0 to 100, as a share of the range")]
    OverProvisioning(String),
    /// There are enough ranges.
    #[error("there are {RANGES_MAX} ranges already, which is as many as may be")]
    TooMany,
    /// Too little flash is left.
    #[error("range {begin} to {end} does not fit: {why}")]
    NoRoom {
        /// First byte.
        begin: u64,
        /// The byte behind the last one.
        end: u64,
        /// What is left.
        why: String,
    },
}

/// What serves a range.
#[derive(Clone, Debug)]
enum Work {
    Page(Box<HostFtl>),
    Block(Box<BlockMap>),
}

/// Calls the layer of each kind.
macro_rules! each {
    ($self:expr, $layer:ident => $call:expr) => {
        match $self {
            Work::Page($layer) => $call,
            Work::Block($layer) => $call,
        }
    };
}

/// A range that is configured.
#[derive(Clone, Debug)]
struct Served {
    spec: Spec,
    work: Work,
}

/// A command of the application.
#[derive(Clone, Debug)]
struct Request {
    tag: Tag,
    opcode: Opcode,
    submitted: SimTime,
    /// Parts that have yet to end; 0: the number is not in use.
    left: u32,
    status: Status,
    /// Its buffer, where it has several parts.
    data: Vec<u8>,
}

/// What one range does of a command.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    request: u32,
    /// Where its data are in the command's.
    at: usize,
}

impl Default for Request {
    fn default() -> Self {
        let submitted = SimTime::ZERO;
        Request {
            tag: 0,
            opcode: Opcode::Flush,
            submitted,
            left: 0,
            status: Status::Success,
            data: Vec::new(),
        }
    }
}

/// Whose a command of the drive is: a range's, under its own tag, or the record's.
#[derive(Clone, Copy, Debug, Default)]
struct Route {
    range: Option<u32>,
    tag: Tag,
}

/// The policy level on one application's flash. Clone it, with the drive below, to fork its future.
///
/// Its tags are below 2^32: a machine that owns it has the bits above.
#[derive(Clone, Debug)]
pub struct Policy {
    space: Space,
    config: PolicyConfig,
    now: SimTime,
    record: Record,
    ranges: Vec<Served>,
    /// Ranges that a former life of the machine had configured.
    again: Vec<(Spec, Gc)>,
    requests: Slab<Request>,
    parts: Slab<Part>,
    routes: Slab<Route>,
    up: VecDeque<Completion>,
    failure: Option<String>,
    /// Ranges may have commands that nobody has asked for yet.
    unsent: bool,
}

impl Policy {
    /// The policy level on a namespace of a drive whose sector images have `image_bytes`. It begins with reading its record.
    pub fn new(
        namespace: u16,
        interface: Option<Interface>,
        image_bytes: usize,
        config: &PolicyConfig,
    ) -> Result<Policy, LevelError> {
        Ok(Policy::on(Space::new(namespace, interface, image_bytes)?, config.clone()))
    }

    fn on(space: Space, config: PolicyConfig) -> Policy {
        Policy {
            record: Record::new(space, config.format),
            space,
            config,
            now: SimTime::ZERO,
            ranges: Vec::new(),
            again: Vec::new(),
            requests: Slab::default(),
            parts: Slab::default(),
            routes: Slab::default(),
            up: VecDeque::new(),
            failure: None,
            unsent: false,
        }
    }

    /// `Get_SSD_Geometry`: the layout.
    pub fn geometry(&self) -> SsdGeometry {
        self.space.geometry()
    }

    /// The flash that this is about.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// `FTL_Ioctl`: from now on the bytes of `range` are served, mapped and collected as said, with `over_provisioning` as a share of the
    /// range beside it. Commands may follow at once; they wait until the range has found its data.
    ///
    /// A range that is remembered has to be the same in everything but `gc`.
    pub fn ftl_ioctl(
        &mut self,
        mapping: Mapping,
        gc: Gc,
        range: Range<u64>,
        over_provisioning: f64,
    ) -> Result<(), PolicyError> {
        if !self.record.is_read() {
            return Err(PolicyError::NotReady);
        }
        let sectors = self.sectors_of(&range)?;
        if !(0.0..=100.0).contains(&over_provisioning) {
            return Err(PolicyError::OverProvisioning(over_provisioning.to_string()));
        }
        let wanted = Spec { sectors, mapping, gc, over_provisioning, rows: 0..0, id: 0 };
        match self.remembered(&wanted, &range)? {
            Some(mut spec) => {
                spec.gc = gc;
                let work = self.build(&spec).map_err(|why| no_room(&range, why))?;
                self.serve(spec, work);
            }
            None => {
                if self.record.specs.len() == RANGES_MAX {
                    return Err(PolicyError::TooMany);
                }
                let (spec, work) = self.place(wanted).map_err(|why| no_room(&range, why))?;
                self.record.add(spec.clone());
                self.serve(spec, work);
            }
        }
        Ok(())
    }

    /// The most bytes that another range could have, about.
    pub fn room_for(&self, mapping: Mapping, over_provisioning: f64) -> u64 {
        let free = self.free_rows();
        let rows = free.len() as u64;
        let spec = Spec { sectors: 0..0, mapping, gc: Gc::Greedy, over_provisioning, rows: free, id: 0 };
        let sectors = match mapping {
            Mapping::Page => {
                let config = HostFtlConfig { capacity_bytes: None, ..self.host_ftl_config(&spec) };
                match HostFtl::new(
                    &config,
                    Some(Interface::OpenChannel(self.space.chunks)),
                    self.space.image_bytes,
                ) {
                    _ if spec.rows.is_empty() => 0,
                    Ok(ftl) => ftl.capacity_sectors(),
                    Err(HostFtlError::Room(SetupError::TooLittleSpare {
                        physical_units,
                        needed_units,
                        ..
                    })) => physical_units.saturating_sub(needed_units),
                    Err(_) => 0,
                }
            }
            Mapping::Block => {
                let chunks = rows * u64::from(self.geometry().luns());
                let blocks = block_map::most_blocks(chunks, over_provisioning);
                blocks * u64::from(self.space.chunks.chunk_sectors)
            }
        };
        sectors * u64::from(self.space.chunks.sector_bytes)
    }

    /// Bytes of the ranges that are remembered, configured or not.
    pub fn remembered_ranges(&self) -> impl Iterator<Item = (Range<u64>, Mapping, f64)> {
        let bytes = u64::from(self.space.chunks.sector_bytes);
        self.record.specs.iter().map(move |spec| {
            let range = spec.sectors.start * bytes..spec.sectors.end * bytes;
            (range, spec.mapping, spec.over_provisioning)
        })
    }

    /// The host FTL that serves the range with this byte, if it is page-mapped.
    pub fn host_ftl(&self, byte: u64) -> Option<&HostFtl> {
        let sector = byte / u64::from(self.space.chunks.sector_bytes);
        let range = self.ranges.iter().find(|range| range.spec.sectors.contains(&sector))?;
        match &range.work {
            Work::Page(ftl) => Some(ftl),
            Work::Block(_) => None,
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| each!(&range.work, layer => layer.memory_bytes())).sum()
    }

    /// Walks every invariant and panics where one is broken.
    pub fn check(&self) {
        for (at, range) in self.ranges.iter().enumerate() {
            each!(&range.work, layer => layer.check());
            for other in &self.ranges[..at] {
                let apart =
                    |one: &Range<u64>, other: &Range<u64>| one.end <= other.start || other.end <= one.start;
                assert!(apart(&range.spec.sectors, &other.spec.sectors), "ranges overlap");
                let rows = |spec: &Spec| u64::from(spec.rows.start)..u64::from(spec.rows.end);
                assert!(apart(&rows(&range.spec), &rows(&other.spec)), "rows of ranges overlap");
            }
        }
    }

    fn sectors_of(&self, range: &Range<u64>) -> Result<Range<u64>, PolicyError> {
        let sector_bytes = self.space.chunks.sector_bytes;
        let bytes = u64::from(sector_bytes);
        let &Range { start: begin, end } = range;
        match begin < end && begin.is_multiple_of(bytes) && end.is_multiple_of(bytes) {
            true => Ok(begin / bytes..end / bytes),
            false => Err(PolicyError::Bounds { begin, end, sector_bytes }),
        }
    }

    /// The range as it is remembered; `None`: it is new, and does not touch others.
    fn remembered(&self, wanted: &Spec, bytes: &Range<u64>) -> Result<Option<Spec>, PolicyError> {
        let overlaps =
            |spec: &&Spec| spec.sectors.start < wanted.sectors.end && wanted.sectors.start < spec.sectors.end;
        let refuse = |with: String| PolicyError::Overlaps { begin: bytes.start, end: bytes.end, with };
        if self.ranges.iter().any(|range| overlaps(&&range.spec)) {
            return Err(refuse("it overlaps one that is configured".into()));
        }
        let Some(known) = self.record.specs.iter().find(overlaps) else { return Ok(None) };
        let same = known.sectors == wanted.sectors
            && known.mapping == wanted.mapping
            && known.over_provisioning == wanted.over_provisioning;
        if same {
            return Ok(Some(known.clone()));
        }
        let sector = u64::from(self.space.chunks.sector_bytes);
        let Spec { sectors, mapping, over_provisioning, .. } = known;
        let with = format!(
            "the flash holds data of the range {} to {}, mapped by {mapping:?}, over-provisioning {over_provisioning}; allowed: this range, or a format",
            sectors.start * sector,
            sectors.end * sector
        );
        Err(refuse(with))
    }

    /// The longest run of rows that no range has.
    fn free_rows(&self) -> Range<u32> {
        let mut taken: Vec<Range<u32>> = self.record.specs.iter().map(|spec| spec.rows.clone()).collect();
        let chunks = self.space.chunks.chunks;
        taken.push(chunks..chunks);
        taken.sort_by_key(|rows| rows.start);
        let (mut from, mut best) = (Record::rows(&self.space).min(chunks), 0..0);
        for rows in taken {
            if rows.start.saturating_sub(from) > best.len() as u32 {
                best = from..rows.start;
            }
            from = rows.end;
        }
        best
    }

    /// Finds rows for a new range: as few as will do.
    fn place(&self, wanted: Spec) -> Result<(Spec, Work), String> {
        let free = self.free_rows();
        let id = self.record.specs.iter().map(|spec| spec.id).max().unwrap_or(0) + 1;
        let of_row = u64::from(self.geometry().luns()) * u64::from(self.space.chunks.chunk_sectors);
        let sectors = (wanted.sectors.end - wanted.sectors.start) as f64;
        let least = (sectors * (1.0 + wanted.over_provisioning) / of_row as f64).ceil();
        let mut why = format!("{} rows of chunks are free, and it takes at least {least}", free.len());
        if least > f64::from(free.len() as u32) {
            return Err(why);
        }
        for rows in least as u32..=free.len() as u32 {
            let spec = Spec { rows: free.start..free.start + rows, id, ..wanted.clone() };
            match self.build(&spec) {
                Ok(work) => return Ok((spec, work)),
                Err(sentence) => why = sentence,
            }
        }
        Err(format!("{why} ({} rows of chunks are free)", free.len()))
    }

    /// What serves a range; the error is a sentence.
    fn build(&self, spec: &Spec) -> Result<Work, String> {
        match spec.mapping {
            Mapping::Page => self.build_pages(spec).map(|ftl| Work::Page(Box::new(ftl))),
            Mapping::Block => {
                let (sectors, rows) = (spec.sectors.end - spec.sectors.start, spec.rows.clone());
                let map = BlockMap::new(self.space, rows, sectors, spec.gc, spec.id);
                map.map(|map| Work::Block(Box::new(map)))
            }
        }
    }

    fn host_ftl_config(&self, spec: &Spec) -> HostFtlConfig {
        let sectors = spec.sectors.end - spec.sectors.start;
        HostFtlConfig {
            namespace: self.space.namespace,
            first_unit: 0,
            units: 0,
            first_chunk: spec.rows.start,
            chunks: spec.rows.len() as u32,
            over_provisioning: spec.over_provisioning,
            capacity_bytes: Some(sectors * u64::from(self.space.chunks.sector_bytes)),
            victim: spec.gc.victim(),
            uuid: self.config.host_ftl.uuid ^ u64::from(spec.id) << 32,
            ..self.config.host_ftl.clone()
        }
    }

    fn build_pages(&self, spec: &Spec) -> Result<HostFtl, String> {
        if spec.rows.is_empty() {
            return Err("no rows of chunks are free".into());
        }
        let interface = Some(Interface::OpenChannel(self.space.chunks));
        let config = self.host_ftl_config(spec);
        let ftl = HostFtl::new(&config, interface, self.space.image_bytes).map_err(|e| e.to_string())?;
        let sectors = spec.sectors.end - spec.sectors.start;
        let holds = u64::from(ftl.free_lines().1) * u64::from(ftl.units_per_line());
        let needed = sectors as f64 * (1.0 + spec.over_provisioning);
        match holds as f64 >= needed {
            true => Ok(ftl),
            false => Err(format!(
                "{} rows of chunks hold {holds} sectors, and it takes {needed:.0}",
                spec.rows.len()
            )),
        }
    }

    /// A range begins its work: it looks for what is on its rows.
    fn serve(&mut self, spec: Spec, mut work: Work) {
        each!(&mut work, layer => layer.advance(self.now));
        self.ranges.push(Served { spec, work });
        self.unsent = true;
    }

    /// The record has been read again: ranges go on.
    fn configure_again(&mut self) {
        for (spec, gc) in std::mem::take(&mut self.again) {
            let bytes = u64::from(self.space.chunks.sector_bytes);
            let range = spec.sectors.start * bytes..spec.sectors.end * bytes;
            if let Err(error) = self.ftl_ioctl(spec.mapping, gc, range, spec.over_provisioning) {
                self.failure = Some(error.to_string());
            }
        }
    }

    /// The range that serves a sector.
    fn range_of(&self, sector: u64) -> Option<usize> {
        self.ranges.iter().position(|range| range.spec.sectors.contains(&sector))
    }

    fn refuse(&mut self, command: Command, status: Status) {
        self.up.push_back(command.refused(self.now, status));
    }

    /// A command is taken in, with so many parts to come.
    fn begin(&mut self, command: &Command, left: u32) -> u32 {
        let Command { tag, opcode, .. } = *command;
        let (submitted, status, data) = (self.now, Status::Success, Vec::new());
        self.requests.insert(Request { tag, opcode, submitted, left, status, data })
    }

    /// Hands a part of a command to a range.
    fn hand(&mut self, range: usize, request: u32, at: usize, command: Command) {
        let tag = self.parts.insert(Part { request, at }).into();
        let work = &mut self.ranges[range].work;
        each!(work, layer => layer.submit(self.now, Command { tag, namespace: 0, ..command }));
    }

    fn flush(&mut self, command: Command) {
        let ranges = self.ranges.len();
        if ranges == 0 {
            return self.refuse(command, Status::Success);
        }
        let request = self.begin(&command, ranges as u32);
        (0..ranges).for_each(|range| self.hand(range, request, 0, command.clone()));
    }

    /// A command for sectors of one range, or of several that touch each other.
    fn access(&mut self, mut command: Command) {
        let end = command.lba.0.saturating_add(command.sectors.into());
        let (mut at, mut ranges) = (command.lba.0, 0);
        while at < end {
            let Some(range) = self.range_of(at) else { return self.refuse(command, Status::LbaOutOfRange) };
            (at, ranges) = (self.ranges[range].spec.sectors.end, ranges + 1);
        }
        let first = self.range_of(command.lba.0);
        let bytes = command.sectors as usize * self.space.image_bytes;
        let fits = command.data.is_empty() || command.data.len() == bytes;
        let Some(first) = first.filter(|_| command.vector.is_none() && fits) else {
            return self.refuse(command, Status::InvalidField);
        };
        let request = self.begin(&command, ranges);
        if ranges == 1 {
            command.lba.0 -= self.ranges[first].spec.sectors.start;
            return self.hand(first, request, 0, command);
        }
        let (mut at, image) = (command.lba.0, self.space.image_bytes);
        while let Some(range) = self.range_of(at).filter(|_| at < end) {
            let Range { start, end: limit } = self.ranges[range].spec.sectors;
            let sectors = (limit.min(end) - at) as u32;
            let from = (at - command.lba.0) as usize * image;
            let to = (from + sectors as usize * image).min(command.data.len());
            let data = command.data.get(from..to).unwrap_or_default().to_vec();
            let part = Command { lba: Lba(at - start), sectors, data, ..command.clone() };
            self.hand(range, request, from, part);
            at = limit;
        }
        self.requests[request].data = command.data;
    }

    /// Takes the answers of the ranges.
    fn gather(&mut self) {
        for range in &mut self.ranges {
            while let Some(mut done) = each!(&mut range.work, layer => layer.pop()) {
                let Part { request: number, at } = self.parts[done.tag as u32];
                self.parts.release(done.tag as u32);
                let request = &mut self.requests[number];
                request.left -= 1;
                if done.status != Status::Success {
                    request.status = done.status;
                }
                if let Some(into) = request.data.get_mut(at..at + done.data.len()) {
                    into.copy_from_slice(&done.data);
                }
                if request.left > 0 {
                    continue;
                }
                (done.tag, done.status) = (request.tag, request.status);
                if !request.data.is_empty() {
                    done.data = std::mem::take(&mut request.data);
                }
                self.requests.release(number);
                self.up.push_back(done);
            }
        }
    }
}

fn no_room(range: &Range<u64>, why: String) -> PolicyError {
    PolicyError::NoRoom { begin: range.start, end: range.end, why }
}

impl Machine for Policy {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.space.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        match command.opcode {
            Opcode::Flush => self.flush(command),
            _ if command.sectors == 0 => self.refuse(command, Status::InvalidField),
            _ => self.access(command),
        }
        self.gather();
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let number = completion.tag as u32;
        let Route { range, tag } = self.routes[number];
        self.routes.release(number);
        match range {
            None => {
                self.record.complete(completion);
                if self.record.is_read() && !self.again.is_empty() {
                    self.configure_again();
                }
            }
            Some(at) => {
                completion.tag = tag;
                let range = &mut self.ranges[at as usize];
                each!(&mut range.work, layer => layer.complete(now, completion));
            }
        }
        self.gather();
    }

    fn notice(&mut self, now: SimTime, namespace: u16, notice: Notice) {
        for range in &mut self.ranges {
            each!(&mut range.work, layer => layer.notice(now, namespace, notice));
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
        for range in &mut self.ranges {
            each!(&mut range.work, layer => layer.advance(now));
        }
        self.gather();
    }

    /// What was configured has commands for the drive now.
    fn next_event(&self) -> Option<SimTime> {
        match self.record.is_kept() {
            _ if self.record.has_command() => Some(self.now),
            // Ranges wait for the record.
            false => None,
            true if self.unsent => Some(self.now),
            true => {
                let works = self.ranges.iter().map(|range| &range.work);
                works.filter_map(|work| each!(work, layer => layer.next_event())).min()
            }
        }
    }

    fn next_command(&mut self) -> Option<Command> {
        let namespace = self.space.namespace;
        if let Some(command) = self.record.next_command() {
            let tag = self.routes.insert(Route { range: None, tag: command.tag }).into();
            return Some(Command { tag, namespace, ..command });
        }
        // Nothing is written to rows that the record does not name.
        if !self.record.is_kept() {
            return None;
        }
        for (at, range) in (0..).zip(&mut self.ranges) {
            if let Some(command) = each!(&mut range.work, layer => layer.next_command()) {
                let tag = self.routes.insert(Route { range: Some(at), tag: command.tag }).into();
                return Some(Command { tag, namespace, ..command });
            }
        }
        self.unsent = false;
        None
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn failure(&self) -> Option<String> {
        let own = self.failure.clone().or_else(|| self.record.failure().map(String::from));
        own.or_else(|| self.ranges.iter().find_map(|range| each!(&range.work, layer => layer.failure())))
    }

    /// Whether the record has been read, and every range that is configured has found its data.
    fn is_ready(&self) -> bool {
        self.again.is_empty()
            && self.record.is_kept()
            && self.ranges.iter().all(|range| each!(&range.work, layer => layer.is_ready()))
    }

    fn stop(&mut self, now: SimTime) {
        self.now = now;
        for range in &mut self.ranges {
            each!(&mut range.work, layer => layer.stop(now));
        }
        self.unsent = true;
    }

    fn is_stopped(&self) -> bool {
        self.ranges.iter().all(|range| each!(&range.work, layer => layer.is_stopped()))
    }

    /// Ranges that were configured are configured again, by themselves.
    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let config = PolicyConfig { format: false, ..self.config.clone() };
        let mut fresh = Policy::on(self.space, config);
        fresh.now = now;
        fresh.up = std::mem::take(&mut self.up);
        let specs = self.ranges.iter().map(|range| (range.spec.clone(), range.spec.gc));
        fresh.again = specs.chain(std::mem::take(&mut self.again)).collect();
        for &Request { tag, opcode, submitted, left, .. } in self.requests.iter() {
            if left > 0 {
                let command = Command::new(tag, opcode, Lba(0), 0, Vec::new());
                let mut stages = StageTimes::default();
                stages.add(Stage::Host, now - submitted);
                let lost = command.refused(now, Status::PowerLoss);
                fresh.up.push_back(Completion { submitted, stages, ..lost });
            }
        }
        *self = fresh;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let mut sum: Vec<Figure> = Vec::new();
        for figure in self.ranges.iter().flat_map(|range| each!(&range.work, layer => layer.figures())) {
            match sum.iter_mut().find(|of| (of.name, of.cause) == (figure.name, figure.cause)) {
                Some(of) => of.value += figure.value,
                None => sum.push(figure),
            }
        }
        sum
    }
}

impl Layer for Policy {
    /// Up to the end of the last range that is configured.
    fn interface(&self) -> Interface {
        let sectors = self.ranges.iter().map(|range| range.spec.sectors.end).max().unwrap_or(0);
        Interface::Block { sectors, handles: 1 }
    }

    fn is_read_only(&self) -> bool {
        self.failure().is_some()
            || self.ranges.iter().any(|range| each!(&range.work, layer => layer.is_read_only()))
    }

    fn keeps_flushed(&self) -> bool {
        self.ranges.iter().all(|range| each!(&range.work, layer => layer.keeps_flushed()))
    }

    fn holds(&self, lba: Lba) -> bool {
        let range = self.ranges.iter().find(|range| range.spec.sectors.contains(&lba.0));
        range.is_some_and(|range| {
            let lba = Lba(lba.0 - range.spec.sectors.start);
            each!(&range.work, layer => layer.holds(lba))
        })
    }
}
