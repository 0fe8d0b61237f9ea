//! The policy level: the application reads and writes sectors, and chooses mapping and GC for each range (section IV-D of the paper).
//!
//! | paper | here |
//! |---|---|
//! | `Get_SSD_Geometry` | [`Policy::geometry`] |
//! | `FTL_Ioctl(mapping, gc, begin, end)` | [`Policy::ftl_ioctl`] |
//! | none: removes a range, so that its flash is available to another | [`Policy::remove_range`] |
//! | `FTL_Read`, `FTL_Write`, TRIM | commands of a block drive: [`Policy`] is a [`Layer`] |
//!
//! ```text
//!   logical    0 ─────── 10 GB ──────────────────────── 100 GB
//!                Block, FIFO │      Page, Greedy             what lies outside a range is refused
//!   chunks of  [record][  rows 1 to 20  ][    rows 21 to 219    ][ free rows ]
//!   every LUN              block map           host FTL
//! ```
//! A range has *rows*: chunks with equal numbers in every LUN, so that each range uses all LUNs in parallel. A page-mapped range is a [`HostFtl`] on
//! its rows; a block-mapped one is `block_map`.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | descriptions of ranges, and reasons for refusing them |
//! | `ranges.rs` | configuring and removing ranges; their rows |
//! | `requests.rs` | commands of the application |
//! | `record.rs` | the persistent record |
//! | `block_map/` | a block-mapped range |
//!
//! **Restart.** The ranges are recorded on the flash (`record.rs`). An application configures them at each start, as in Algorithm IV.3: a recorded
//! range finds its data again, in any order of configuration; a range that overlaps another recorded range is refused. A recorded range that is not
//! configured is kept. With [`PolicyConfig::format`] a start discards everything.

/// Calls the layer of any kind.
macro_rules! each {
    ($work:expr, $layer:ident => $call:expr) => {
        match $work {
            Work::Page($layer) => $call,
            Work::Block($layer) => $call,
        }
    };
}

mod block_map;
mod config;
mod ranges;
mod record;
mod requests;

pub use config::{Gc, PolicyConfig, PolicyError, RANGES_MAX};

use crate::{LevelError, Space, SsdGeometry};
use block_map::BlockMap;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Command, Completion, Figure, Held, Interface, Lba, Notice, Opcode, SimTime, Stage, StageTimes, Status,
    Tag,
};
use pellucid_host::{HostFtl, Layer, Machine};
use record::{Record, Spec};
use requests::{Part, Request};
use std::collections::VecDeque;
use std::ops::Range;

/// Translation that serves a range.
#[derive(Clone, Debug)]
enum Work {
    Page(Box<HostFtl>),
    Block(Box<BlockMap>),
}

/// A configured range.
#[derive(Clone, Debug)]
struct Served {
    spec: Spec,
    work: Work,
    /// True if the range is being removed.
    leaves: bool,
    /// Parts of commands that it still has to answer.
    parts: u32,
    /// Its commands in flight.
    commands: u32,
}

/// Owner of a command to the drive: the range with this number, with its own tag, or the record.
#[derive(Clone, Copy, Debug, Default)]
struct Route {
    range: Option<u32>,
    tag: Tag,
}

/// The policy level on an application's flash. Clone it, with the drive below, to fork its future.
///
/// Its tags are below 2^32; its owner may use the bits above.
#[derive(Clone, Debug)]
pub struct Policy {
    space: Space,
    config: PolicyConfig,
    now: SimTime,
    record: Record,
    ranges: Vec<Served>,
    /// Ranges that were configured before a power cut.
    again: Vec<(Spec, Gc)>,
    requests: Slab<Request>,
    parts: Slab<Part>,
    routes: Slab<Route>,
    up: VecDeque<Completion>,
    failure: Option<String>,
    /// True if ranges may have commands to send.
    unsent: bool,
}

impl Policy {
    /// The policy level on a namespace of a drive with sector images of `image_bytes`. It starts by reading its record.
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

    /// The flash behind it.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The host FTL of the range with this byte, if it is page-mapped.
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

    /// Number of chunks whose erase has failed although the drive does not report them as bad.
    pub fn resting_chunks(&self) -> u64 {
        let resting = |range: &Served| match &range.work {
            Work::Block(map) => map.resting_chunks(),
            Work::Page(_) => 0,
        };
        self.ranges.iter().map(resting).sum()
    }

    /// Returns whether a block-mapped range refuses writes because too many of its chunks are bad. It accepts writes again after data have
    /// been trimmed and [`Policy::try_again`] was called.
    pub fn lacks_chunks(&self) -> bool {
        self.ranges.iter().any(|range| matches!(&range.work, Work::Block(map) if map.lacks_chunks()))
    }

    /// Retries what block-mapped ranges have given up after failures, so that they recover from a temporary fault.
    pub fn try_again(&mut self, now: SimTime) {
        self.now = now;
        for range in &mut self.ranges {
            if let Work::Block(map) = &mut range.work {
                map.try_again(now);
            }
        }
        self.unsent = true;
        self.gather();
    }

    /// Checks every invariant, and panics if one is broken.
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
            Some(id) => {
                completion.tag = tag;
                let mut ranges = self.ranges.iter_mut();
                let range =
                    ranges.find(|range| range.spec.id == id).expect("a range goes after its commands");
                range.commands -= 1;
                each!(&mut range.work, layer => layer.complete(now, completion));
            }
        }
        self.gather();
        self.let_go();
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
        self.let_go();
    }

    /// A new configuration may have commands to send at once.
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
        // Rows that the record does not name must not be written.
        if !self.record.is_kept() {
            return None;
        }
        for range in &mut self.ranges {
            if let Some(command) = each!(&mut range.work, layer => layer.next_command()) {
                range.commands += 1;
                let route = Route { range: Some(range.spec.id), tag: command.tag };
                let tag = self.routes.insert(route).into();
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

    /// Returns whether the record agrees with the flash, every configured range has found its data, and removed ranges are gone.
    fn is_ready(&self) -> bool {
        self.again.is_empty()
            && self.record.rests()
            && self.ranges.iter().all(|range| !range.leaves && each!(&range.work, layer => layer.is_ready()))
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

    /// Configures all ranges again that were configured.
    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let config = PolicyConfig { format: false, ..self.config.clone() };
        let mut fresh = Policy::on(self.space, config);
        fresh.now = now;
        fresh.up = std::mem::take(&mut self.up);
        let stay = self.ranges.iter().filter(|range| !range.leaves);
        let specs = stay.map(|range| (range.spec.clone(), range.spec.gc));
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
    /// Ends with the last configured range.
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

    fn holding(&self, lba: Lba) -> Held {
        let nothing = Held { holds: false, until: lba.0 + 1, looks: 1 };
        let range = self.ranges.iter().find(|range| range.spec.sectors.contains(&lba.0));
        range.map_or(nothing, |range| {
            let Range { start, end } = range.spec.sectors.clone();
            let held = each!(&range.work, layer => layer.holding(Lba(lba.0 - start)));
            Held { until: held.until.saturating_add(start).min(end), ..held }
        })
    }
}
