//! Host FTL: a block drive on an open-channel one, like pblk, with the translation engine of the drives.
//!
//! ```text
//!  submit ─► processor ─► ring ─► superpages in rotation ─► one write at a time per parallel unit ─► drive
//!                          │ ▲                                                                     │
//!  reads: ring, else map ──┘ └── GC: valid sectors of the emptiest line, read as vectors ◄─┘
//! ```
//! Invariants: a sector that is covered by a flush, or was written with force unit access, is on the media,
//! or a newer version of it is; the line that holds it identifies itself; no sector that could be the newest
//! copy is reset.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`FtlShape`](shape::FtlShape) | configuration, geometry, the parts of a line | never changes |
//! | [`Lines`](lines::Lines), of [`Line`](line::Line) | chunks and spares; what each line is at, and what holds it | every good chunk has one place; a line is reset only when nothing holds it |
//! | `PageMap`, the engine | map, valid sectors, translation pages | as in a drive |
//! | [`Ring`](ring::Ring) | the write buffer, its pointers and index | `map <= kept <= sync <= submit, safe <= mem` |
//! | [`Units`](units::Units) | jobs of parallel units, whether the drive refuses them | one job of a unit is with the drive |
//! | [`Programs`](programs::Programs) | planned superpages, sectors to plan again, whose turn it is | the next superpage of a kind is planned after the last was sent |
//! | [`Read`](reads::Read) | sectors and user of a read | |
//! | [`Collector`](collector::Collector) | sectors that GC is reading | each has a place in the ring reserved |
//! | [`Flushes`](flushes::Flushes) | flushes and forced writes that wait | their points rise |
//! | [`Requests`](requests::Requests) | commands of the application, those that wait, answers | a request is answered once |
//! | [`Port`](port::Port) | clock, processor, commands on their way, buffers | a command that was sent is outstanding until its end was handled |
//! | [`Stop`](stop::Stop) | how far a stop is, the index | it goes forward, or is cancelled |
//! | [`Work`](core::Work), [`Health`](core::Health), [`HostCounters`] | whether there is more to do; failure and wear; counters | |
//! | [`FtlStart`] | phase, needs and facts of a start | each need is sent once |
//!
//! Only an object itself writes its fields; the fields of the shape are constants that all may read. All objects except the start form the
//! [`Core`]. *Paths* (`paths/`, and those of the start in `start/`) are functions over it without state. The [`HostFtl`] only routes CPU
//! tasks and completions to paths (`routes.rs`), and runs rounds of work until everything waits.
//!
//! A write passes `routes.rs`, `paths/write.rs`, `ring.rs`, `paths/superpages.rs`, `paths/jobs.rs`, and back `paths/ends.rs` and `paths/write.rs`; a
//! read passes `routes.rs`, `paths/read.rs`, and `paths/ends.rs`.

mod collector;
mod config;
mod core;
mod counters;
mod flushes;
mod line;
mod lines;
mod meta;
mod paths;
mod port;
mod programs;
mod rate;
mod reads;
mod requests;
mod ring;
mod routes;
mod shape;
mod sizes;
mod start;
mod stop;
mod units;

pub use config::{HostFtlConfig, HostFtlError};
pub use counters::{HostCounters, HostHoldings};
pub(crate) use shape::open_chunks;
pub use start::MountCost;

use crate::{Layer, Machine};
use core::{Core, Health, Work};
use paths::{jobs, stop as stopping};
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Command, Completion, Figure, Held, Interface, Lba, Lpn, Nanos, Opcode, SimTime, Status,
};
use pellucid_ftl::{Durability, Located, PageMap, Separation, Soon};
use shape::FtlShape;
use start::FtlStart;

/// Host FTL layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct HostFtl {
    core: Core,
    start: Option<Box<FtlStart>>,
    mount: MountCost,
}

impl HostFtl {
    /// Creates the layer for the open-channel namespace that `interface` describes. Its first `advance` reads
    /// the state of the chunks and mounts the data of an earlier run.
    pub fn new(
        config: &HostFtlConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<HostFtl, HostFtlError> {
        let Some(Interface::OpenChannel(geometry)) = interface else {
            return Err(HostFtlError::NotOpenChannel(config.namespace));
        };
        HostFtl::over(FtlShape::new(config, &geometry, image_bytes)?)
    }

    /// Creates the layer for a target.
    fn over(shape: FtlShape) -> Result<HostFtl, HostFtlError> {
        let engine = sizes::engine_config(&shape);
        let ftl = PageMap::new(&engine, &shape.layout, &[]).map_err(HostFtlError::Room)?;
        let buffer = sizes::buffer_sectors(&shape)?;
        let ring = ring::Ring::new(buffer, shape.image_bytes, shape.config.separation != Separation::Off);
        let rate = sizes::rate_limiter(&shape, &ftl, ring.size())?;
        let core = Core {
            ftl,
            ring,
            rate,
            units: units::Units::new(shape.units),
            programs: programs::Programs::new(shape.superpage_sectors),
            reads: Slab::default(),
            collector: collector::Collector::default(),
            flushes: flushes::Flushes::default(),
            requests: requests::Requests::default(),
            port: port::Port::new(shape.config.namespace, shape.config.cpu),
            stop: stop::Stop::default(),
            work: Work::default(),
            health: Health::default(),
            counters: HostCounters::default(),
            lines: lines::Lines::new(shape),
        };
        Ok(HostFtl { core, start: Some(Box::default()), mount: MountCost::default() })
    }

    /// Returns the number of offered sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.core.ftl.user_units().into()
    }

    /// Returns the bytes of a sector.
    pub fn sector_bytes(&self) -> u32 {
        self.core.lines.shape().geometry.sector_bytes
    }

    /// Returns the counters.
    pub fn counters(&self) -> HostCounters {
        self.core.counters
    }

    /// Returns the engine's counters.
    pub fn ftl_counters(&self) -> pellucid_ftl::FtlCounters {
        self.core.ftl.view().counters
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.core.port.busy()
    }

    /// Returns the number of data sectors in a line.
    pub fn units_per_line(&self) -> u32 {
        self.core.lines.shape().layout.units_per_block
    }

    /// Reports whether the layer has stopped taking writes.
    pub fn is_read_only(&self) -> bool {
        self.core.health.is_read_only()
    }

    /// Returns the configuration.
    pub fn config(&self) -> &HostFtlConfig {
        &self.core.lines.shape().config
    }

    /// Returns the cost of the last mount.
    pub fn mount_cost(&self) -> MountCost {
        self.start.as_ref().map_or(self.mount, |start| start.cost())
    }

    /// Returns the number of free lines, and of all lines in service.
    pub fn free_lines(&self) -> (u32, u32) {
        let blocks = self.core.ftl.blocks();
        (blocks.free(), self.core.lines.shape().lines() - blocks.bad())
    }

    /// Returns the bytes of host memory for map, line tables and write buffer.
    pub fn memory_bytes(&self) -> u64 {
        let Core { ftl, lines, ring, requests, reads, .. } = &self.core;
        ftl.view().memory_bytes
            + lines.memory_bytes()
            + ring.memory_bytes(self.sector_bytes())
            + requests.memory_bytes()
            + reads.memory_bytes()
    }

    /// Checks all invariants of the whole target; panics with the name of a broken one.
    pub fn check(&self) {
        if self.start.is_none() && self.core.health.failure().is_none() {
            self.core.ftl.check();
            self.core.ring.check();
            self.core.lines.check();
        }
    }

    fn refuse(&self, command: &Command) -> Option<Status> {
        let carries = match command.opcode {
            Opcode::Write => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush | Opcode::Trim | Opcode::WriteZeroes => false,
            _ => return Some(Status::InvalidOpcode),
        };
        if self.core.health.failure().is_some() {
            return Some(Status::ReadOnly);
        }
        let bytes = command.sectors as usize * self.core.lines.shape().image_bytes;
        let foreign = command.namespace != 0 || command.vector.is_some();
        if foreign || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        if command.opcode == Opcode::Flush {
            return None;
        }
        if command.sectors == 0 {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.capacity_sectors()) {
            return Some(Status::LbaOutOfRange);
        }
        (self.is_read_only() && command.opcode != Opcode::Read).then_some(Status::ReadOnly)
    }

    /// Restarts the layer from the data on the drive, after a power loss or to mount the drive anew. Commands
    /// in flight end with [`Status::PowerLoss`]; sectors that only the ring held are lost.
    pub fn restart(mut self, now: SimTime) -> Result<HostFtl, HostFtlError> {
        self.restarted(now)
    }

    /// Restarts the layer as [`HostFtl::restart`] does; `self` is unusable afterwards.
    fn restarted(&mut self, now: SimTime) -> Result<HostFtl, HostFtlError> {
        let mut fresh = HostFtl::over(self.core.lines.shape().clone())?;
        fresh.core.port.set_now(now);
        fresh.core.counters = self.core.counters;
        fresh.core.requests.inherit(&mut self.core.requests, now);
        Ok(fresh)
    }
}

impl Machine for HostFtl {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.core.lines.shape().config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        // A new command cancels the stop.
        let cancelled = self.core.stop.cancel();
        self.core.work.note(cancelled);
        if command.opcode != Opcode::Read {
            jobs::try_again(&mut self.core);
        }
        let status = self.refuse(&command);
        let sectors = command.sectors;
        let request = self.core.requests.open(command, now);
        match status {
            Some(status) => self.core.finish(request, status),
            None => {
                if let Some(task) = self.core.port.take_in(request, sectors) {
                    self.run(task);
                }
            }
        }
        self.settle();
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.core.port.set_now(now);
        if !self.core.port.take_back(completion) {
            self.ended(completion);
        }
        self.settle();
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(task) = self.core.port.due(now) {
            self.run(task);
            self.settle();
        }
        self.core.port.set_now(now);
        if self.start.as_ref().is_some_and(|start| start.is_new()) {
            self.core.work.moved();
            self.settle();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.core.port.next_event()
    }

    fn next_command(&mut self) -> Option<Command> {
        self.core.port.next_command()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.core.requests.pop()
    }

    fn failure(&self) -> Option<String> {
        self.core.health.failure().map(HostFtlError::to_string)
    }

    fn is_ready(&self) -> bool {
        self.start.is_none()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        *self = self.restarted(now).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn stop(&mut self, now: SimTime) {
        self.core.port.set_now(now);
        stopping::begin(&mut self.core);
        self.settle();
    }

    fn is_stopped(&self) -> bool {
        self.core.stop.is_done()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.core.requests.answered()
    }

    fn figures(&self) -> Vec<Figure> {
        let (free_lines, lines) = self.free_lines();
        self.core.counters.figures(&HostHoldings {
            sector_bytes: self.sector_bytes(),
            capacity_sectors: self.capacity_sectors(),
            free_lines,
            lines,
            memory_bytes: self.memory_bytes(),
        })
    }
}

impl Layer for HostFtl {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.capacity_sectors(), handles: 1 }
    }

    /// Prefetches the entries of ring and map for the command.
    #[inline]
    fn prefetch(&self, lba: Lba) {
        if let Ok(lpn) = u32::try_from(lba.0) {
            self.core.ftl.prefetch(Soon::Lookup(Lpn(lpn)));
            self.core.ring.touch(Lpn(lpn));
        }
    }

    fn is_read_only(&self) -> bool {
        self.core.health.is_read_only() || self.core.health.failure().is_some()
    }

    /// Without translation pages, a start finds the written data but undoes trims.
    fn keeps_flushed(&self) -> bool {
        self.config().durability != Durability::Volatile
    }

    fn unsaved_sectors(&self) -> u64 {
        self.core.ring.unsaved()
    }

    fn holding(&self, lba: Lba) -> Held {
        let Core { ftl, ring, health, .. } = &self.core;
        // The content is unknown until the map is loaded.
        if self.start.is_some() || health.failure().is_some() {
            return Held { holds: true, until: u64::MAX, looks: 1 };
        }
        let one = Held { holds: false, until: lba.0 + 1, looks: 1 };
        let Some(lpn) = u32::try_from(lba.0).ok().filter(|&lpn| lpn < ftl.user_units()).map(Lpn) else {
            return one;
        };
        match (ring.find(lpn), ftl.untouched_until(lpn)) {
            (Some(at), _) => Held { holds: !ring.entry(at).trimmed, ..one },
            (None, Some(until)) => {
                let (in_ring, looks) = ring.next(lpn);
                let until = in_ring.map_or(until, |next| next.min(until));
                Held { until: until.0.into(), looks, ..one }
            }
            (None, None) => Held { holds: ftl.peek(lpn) != Located::Zero, ..one },
        }
    }

    fn start_figures(&self) -> Vec<Figure> {
        self.mount_cost().figures()
    }
}
