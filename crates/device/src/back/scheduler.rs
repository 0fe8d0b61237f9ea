//! Channels and dies: which flash operation runs next, and where.
//!
//! Every die has a queue (the reservation station of Cosmos+); the operation at its head goes through
//!
//! ```text
//!          want channel        channel           array            want channel       channel
//!  read    read trigger  ──►  command   ──►  sense        ──►    read transfer ──►  data out ──► (decode)
//!  program write         ──►  data in   ──►  program      ──►    [status check]            ──► end
//!  erase   erase         ──►  command   ──►  erase        ──►    [status check]            ──► end
//! ```
//! With `page_transfers` data cross a channel page by page, and between two pages a better class goes first; a program that
//! was begun takes precedence over others of its class, and reads take turns.
//!
//! A free channel takes, among the heads that want it, the class with the best priority (Cosmos+ Table 2), round robin inside
//! a class. A phase without cost is passed without an event. The scheduler knows nothing of media or translation: it hands
//! out [`Step`]s and is told how long the array takes. An operation's time is booked to a stage at every transition.
//!
//! With independent plane reads each plane of a die reads by itself (`planes.rs`).
//!
//! Invariants: a die has at most one current operation (with independent plane reads, one read for each plane instead) and at most one suspended one; a channel carries one transfer; a
//! die's bit is set in a class of its channel if and only if its current operation wants the channel for that class.

mod channel;
mod interconnect;
mod lanes;
mod operation;
mod planes;
mod poll;
mod room;
mod solver;
mod suspension;

use channel::{CLASSES, Channel};
pub(crate) use operation::{FlashOp, OpKind, Owner, Token};
pub(crate) use planes::PlaneUnits;

use interconnect::Interconnect;
use suspension::Suspension;

use crate::config::{DeviceConfig, DieOrder, FirmwareModel, Scheduler as Config};
use crate::events::{Event, Events};
use crate::probes::{ChannelView, WayView};
use pellucid_flash::slab::{List, NIL, Slab};
use pellucid_flash::{Layout, Nanos, Rng, SimTime, Stage};
use pellucid_media::Timing;

/// Next step of an operation, for the rest of the drive to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Command and data are in the die: say how long the array takes ([`Scheduler::start_array`]).
    Array(u32),
    /// The array has finished: let a read go on with [`Scheduler::transfer`], end others with [`Scheduler::release`].
    ArrayDone(u32),
    /// Read data are out of the die (and decoded).
    DataOut(u32),
}

/// Steps to carry out, first come, first served. Few at a time, and soon none: so they are taken from the front by counting.
/// Invariant: `taken` is 0 if there are none.
#[derive(Clone, Debug, Default)]
struct Steps {
    steps: Vec<Step>,
    taken: usize,
}

impl Steps {
    #[inline]
    fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    #[inline]
    fn pop(&mut self) -> Option<Step> {
        let step = *self.steps.get(self.taken)?;
        self.taken += 1;
        if self.taken == self.steps.len() {
            self.clear();
        }
        Some(step)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    #[inline]
    fn clear(&mut self) {
        self.steps.clear();
        self.taken = 0;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Want,
    Command,
    Array,
    Suspending,
    Status,
    Held,
    Transfer,
}

/// A die; with independent plane reads one plane of it, the first of which also stands for the die.
#[derive(Clone, Debug)]
struct Die {
    channel: u32,
    bit: u32,
    /// The first plane of its die; without independent plane reads itself.
    first: u32,
    reads: List,
    /// Queue of the die, in order (first plane only).
    rest: List,
    /// Reads of independent planes that do not go ahead of others and that nothing in `rest` precedes any more.
    later: List,
    current: u32,
    /// True if the current operation went ahead of others.
    hurries: bool,
    phase: Phase,
    /// Channel phase that the current operation waits for or is in.
    wanted: Phase,
    array_ends: SimTime,
    suspended: u32,
    suspended_left: Nanos,
    /// Time before which the current operation, once resumed, is not suspended again.
    works_until: SimTime,
    /// True while the die works on its current operation, false while the channel has yet to bring that operation's command.
    works: bool,
    /// Number of planes of the die that work (first plane only).
    working: u32,
    /// Start of the current busy period of the die (first plane only).
    since: SimTime,
    /// Total length of the earlier busy periods of the die (first plane only).
    busy: Nanos,
    /// True if the current operation takes the whole die (first plane only, independent planes).
    whole: bool,
    /// True if no further read begins before the waiting whole-die operation has begun (first plane only, independent planes).
    draining: bool,
    /// True if no idle plane has a waiting read, so that a plane that ends or receives an operation need not ask the others (first plane
    /// only, independent planes).
    settled: bool,
    /// Polled: order in which it was added to its present list.
    listed: u64,
}

impl Die {
    /// Returns whether nothing is under way, suspended or waiting.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.phase == Phase::Idle && self.suspended == NIL && self.reads.is_empty() && self.rest.is_empty()
    }

    /// How long any of its planes has worked without a break.
    fn worked(&self, now: SimTime) -> Nanos {
        if self.working == 0 { Nanos::ZERO } else { now.since(self.since) }
    }
}

/// Channels, dies and the operations on them.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    pub ops: Slab<FlashOp>,
    /// Dies; with independent plane reads their planes, one die after the other.
    dies: Vec<Die>,
    /// Planes of a die that read by themselves; 1: none do.
    planes: u32,
    plane_units: PlaneUnits,
    /// Entries of `dies` on one channel.
    dies_per_channel: u32,
    channels: Vec<Channel>,
    steps: Steps,
    read_first: bool,
    /// Operations that wait for their dies in the order of all of them, where they keep it (`room.rs`).
    room: Option<List>,
    suspension: Option<Suspension>,
    drain: Nanos,
    drain_spread: f64,
    drain_rng: Rng,
    decode: Nanos,
    interconnect: Option<Interconnect>,
    solvers: Option<solver::Solvers>,
    unit_bytes: u64,
    unit_sectors: u32,
    command: Nanos,
    status: Nanos,
    unit_transfer: Nanos,
    superpage_transfer: Nanos,
    /// Pages of a superpage, each of which crosses by itself, and mapping units of a page; 1 and no limit: all in one go.
    superpage_pages: u32,
    page_units: u32,
    superpage_units: u32,
    /// Data cross in more than one go.
    in_pages: bool,
    /// Something but the channel takes part in the transfer of read data: interconnect, solver, decoder, drain, or a firmware loop.
    reads_are_slowed: bool,
    pub suspensions: u64,
    /// Dies that work, and channels that carry a transfer.
    active: (u32, u32),
    /// A firmware loop looks at the channels and issues; nothing starts by itself.
    polled: bool,
    /// Control words that a controller holds beside the one that it carries out.
    queue: usize,
    /// Polled: moments at which a die came to a list.
    listings: u64,
    /// Class of: status check, read trigger, erase, write, read transfer.
    classes: [usize; CLASSES],
}

impl Scheduler {
    /// Builds the scheduler of a drive.
    pub fn of(config: &DeviceConfig, layout: &Layout) -> Scheduler {
        Scheduler::new(
            &config.scheduler,
            &config.media.timing,
            layout,
            (config.media.geometry.page_bytes / layout.unit_bytes).max(1),
            PlaneUnits::new(&config.media, layout),
            config.firmware.model == FirmwareModel::Loop,
            config.media.seed,
        )
    }

    pub fn new(
        config: &Config,
        timing: &Timing,
        layout: &Layout,
        page_units: u32,
        planes: PlaneUnits,
        polled: bool,
        seed: u64,
    ) -> Scheduler {
        let p = &config.priorities;
        let priorities = [p.status_check, p.read_trigger, p.erase, p.write, p.read_transfer];
        let mut distinct = priorities.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let classes = priorities.map(|p| distinct.iter().position(|&d| d == p).expect("taken from it"));
        let (plane_units, planes) = (planes, planes.planes());
        let dies_per_channel = layout.dies_per_channel * planes;
        let die = |d: u32| Die {
            channel: d / dies_per_channel,
            bit: d % dies_per_channel,
            first: d - d % planes,
            reads: List::default(),
            rest: List::default(),
            later: List::default(),
            current: NIL,
            hurries: false,
            phase: Phase::Idle,
            wanted: Phase::Idle,
            array_ends: SimTime::ZERO,
            suspended: NIL,
            suspended_left: Nanos::ZERO,
            works_until: SimTime::ZERO,
            works: false,
            working: 0,
            since: SimTime::ZERO,
            busy: Nanos::ZERO,
            whole: false,
            draining: false,
            settled: false,
            listed: 0,
        };
        let superpage_bytes = u64::from(layout.units_per_superpage)
            * u64::from(layout.unit_bytes + layout.spare_bytes_per_unit);
        let rate = timing.channel_bytes_per_second;
        let transfer =
            |bytes: u64| Nanos((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)) as u64);
        let reads_are_slowed = polled
            || config.interconnect_bytes_per_second > 0
            || config.solver.is_some()
            || config.drain_ns > Nanos::ZERO
            || config.decode_ns > Nanos::ZERO;
        Scheduler {
            ops: Slab::default(),
            dies: (0..layout.dies * planes).map(die).collect(),
            planes,
            plane_units,
            channels: vec![Channel::default(); layout.channels as usize],
            dies_per_channel,
            steps: Steps::default(),
            read_first: config.order == DieOrder::ReadFirst,
            room: (config.order == DieOrder::InOrder).then(List::default),
            suspension: Suspension::new(config, timing),
            drain: config.drain_ns,
            drain_spread: config.drain_spread,
            drain_rng: Rng::stream(seed, "scheduler.drain"),
            decode: config.decode_ns,
            interconnect: Interconnect::new(config.interconnect_bytes_per_second, layout.unit_bytes),
            solvers: config.solver.map(|solver| {
                solver::Solvers::new(solver.channels, solver.chunk_bytes, solver.chunk_ns, layout.channels)
            }),
            unit_bytes: u64::from(layout.unit_bytes),
            unit_sectors: layout.sectors_per_unit,
            command: timing.command_ns,
            status: timing.status_ns,
            unit_transfer: transfer(u64::from(layout.unit_bytes + layout.spare_bytes_per_unit)),
            superpage_transfer: transfer(superpage_bytes),
            superpage_pages: if config.page_transfers {
                (layout.units_per_superpage / page_units).max(1)
            } else {
                1
            },
            page_units: if config.page_transfers { page_units } else { u32::MAX },
            superpage_units: layout.units_per_superpage,
            in_pages: config.page_transfers,
            reads_are_slowed,
            suspensions: 0,
            active: (0, 0),
            polled,
            queue: config.queue as usize,
            listings: 0,
            classes,
        }
    }

    /// The next thing to do for an operation.
    #[inline]
    pub fn pop_step(&mut self) -> Option<Step> {
        self.steps.pop()
    }

    /// Returns whether [`Scheduler::pop_step`] has a step to give.
    #[inline]
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Queues an operation at its die. Host reads may go ahead of what has not started.
    #[inline]
    pub fn enqueue(&mut self, now: SimTime, op: u32, ahead: bool, events: &mut Events) {
        let die = self.assign(op);
        self.ops[op].mark = now;
        if let Some(room) = &mut self.room {
            room.push_back(&mut self.ops, op);
            return self.leave_room(now, events);
        }
        let d = &mut self.dies[die as usize];
        if self.planes == 1 && d.is_at_rest() {
            d.hurries = ahead && self.read_first;
            return self.begin(now, die, op, events);
        }
        if ahead && self.read_first {
            d.reads.push_back(&mut self.ops, op);
            self.step_aside(now, die);
        } else {
            let first = d.first;
            self.dies[first as usize].rest.push_back(&mut self.ops, op);
        }
        self.kick_die(now, die, events);
        if ahead && self.read_first {
            self.try_suspend(now, die, events);
        }
    }

    /// Puts a failed read back at the head of its die's queue.
    pub fn enqueue_again(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.assign(op);
        self.ops[op].mark = now;
        self.put_first(die, op);
        self.kick_die(now, die, events);
    }

    #[inline(always)]
    fn kick_die(&mut self, now: SimTime, die: u32, events: &mut Events) {
        if self.planes > 1 {
            self.kick_plane(now, die, events);
        } else if self.dies[die as usize].phase == Phase::Idle {
            self.begin_next(now, die, events);
            self.leave_room(now, events);
        }
    }

    /// `op` is the next of those that do not go ahead of others at `die`.
    fn put_first(&mut self, die: u32, op: u32) {
        let d = &mut self.dies[die as usize];
        let of_plane = self.planes > 1 && self.ops[op].kind == OpKind::Read;
        if of_plane { &mut d.later } else { &mut d.rest }.push_front(&mut self.ops, op);
    }

    /// An idle die takes its next operation, if one waits.
    #[inline]
    fn begin_next(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        let hurried = d.reads.pop(&mut self.ops);
        d.hurries = hurried.is_some();
        let op = match hurried {
            Some(op) => op,
            None if d.suspended != NIL => return self.resume(now, die, events),
            None => match d.rest.pop(&mut self.ops) {
                Some(op) => op,
                None => return,
            },
        };
        self.begin(now, die, op, events);
    }

    /// `op` becomes the current operation of an idle die.
    #[inline(always)]
    fn begin(&mut self, now: SimTime, die: u32, op: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        d.current = op;
        if self.polled {
            return self.head_changed(die);
        }
        let record = &mut self.ops[op];
        record.book(Stage::WaitWay, now);
        if self.command == Nanos::ZERO && record.kind != OpKind::Program {
            d.phase = Phase::Array;
            self.steps.push(Step::Array(op));
            self.begin_work(now, die);
        } else {
            self.want(now, die, Phase::Command, events);
        }
    }

    /// The channel has brought the first command of the current operation of `die`.
    #[inline(always)]
    fn begin_work(&mut self, now: SimTime, die: u32) {
        let mut d = &mut self.dies[die as usize];
        d.works = true;
        if self.planes > 1 {
            let first = d.first;
            d = &mut self.dies[first as usize];
        }
        if d.working == 0 {
            d.since = now;
            self.active.0 += 1;
        }
        d.working += 1;
    }

    /// The data of `op` are decoded.
    pub fn decoded(&mut self, now: SimTime, op: u32) {
        self.ops[op].book(Stage::Transfer, now);
        if self.polled {
            return self.reported(self.ops[op].plane);
        }
        self.steps.push(Step::DataOut(op));
    }

    /// The array of the operation's die works for `time` from now on. A host read that came while the operation was on its way
    /// there does not wait for all of it either.
    #[inline]
    pub fn start_array(&mut self, now: SimTime, op: u32, time: Nanos, events: &mut Events) {
        let die = self.ops[op].plane;
        let d = &mut self.dies[die as usize];
        (d.array_ends, d.works_until) = (now + time, now);
        events.at(now + time, Event::Die(die));
        if self.suspension.is_some() {
            self.try_suspend(now, die, events);
        }
    }

    /// The array operation of `die` should have ended now; a suspended one has not.
    #[inline]
    pub fn array_done(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        if d.array_ends != now {
            return self.try_suspend(now, die, events);
        }
        match d.phase {
            Phase::Array => {
                let op = d.current;
                self.ops[op].book(Stage::Media, now);
                if self.polled {
                    d.phase = Phase::Held;
                    self.ready(die);
                } else if self.status == Nanos::ZERO {
                    d.phase = Phase::Held;
                    self.steps.push(Step::ArrayDone(op));
                } else {
                    self.want(now, die, Phase::Status, events);
                }
            }
            Phase::Suspending => {
                d.suspended = d.current;
                if self.polled {
                    self.set_aside(die);
                }
                self.vacate(now, die);
                self.kick_die(now, die, events);
            }
            _ => {}
        }
    }

    /// A sensed read may leave its die.
    #[inline]
    pub fn transfer(&mut self, now: SimTime, op: u32, events: &mut Events) {
        self.want(now, self.ops[op].plane, Phase::Transfer, events);
    }

    /// A program, erase or copyback is over; its die goes on with the next operation.
    #[inline]
    pub fn release(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.ops[op].plane;
        self.vacate(now, die);
        self.kick_die(now, die, events);
        if self.polled {
            self.next_of_way(now, die, events);
        }
    }

    #[inline(always)]
    fn vacate(&mut self, now: SimTime, die: u32) {
        let mut d = &mut self.dies[die as usize];
        d.current = NIL;
        d.phase = Phase::Idle;
        let worked = std::mem::take(&mut d.works);
        if self.planes > 1 {
            let first = d.first;
            self.plane_is_idle(die);
            d = &mut self.dies[first as usize];
        }
        if worked && d.working == 1 {
            d.busy += now - d.since;
            self.active.0 -= 1;
        }
        d.working -= u32::from(worked);
    }

    /// An operation that has only waited for the channel so far gives way to a read that goes ahead, and is next again.
    #[inline]
    fn step_aside(&mut self, now: SimTime, die: u32) {
        let d = &self.dies[die as usize];
        let die = if self.dies[d.first as usize].whole { d.first } else { die };
        let d = &self.dies[die as usize];
        let begun = d.phase != Phase::Want || d.wanted != Phase::Command || self.ops[d.current].pages > 0;
        if begun || d.hurries || self.polled {
            return;
        }
        let class = self.class(die);
        let d = &mut self.dies[die as usize];
        self.channels[d.channel as usize].wants[class] &= !(1 << d.bit);
        let op = d.current;
        (d.current, d.phase, d.whole) = (NIL, Phase::Idle, false);
        self.ops[op].book(Stage::WaitChannel, now);
        self.put_first(die, op);
    }

    /// Busy time of every channel up to `now`.
    pub fn channel_busy(&self, now: SimTime) -> impl Iterator<Item = Nanos> + '_ {
        self.channels.iter().map(move |c| c.worked(now))
    }

    /// Busy time of every die up to `now`: from the first command of an operation on the channel until it has left the die.
    pub fn die_busy(&self, now: SimTime) -> impl Iterator<Item = Nanos> + '_ {
        self.dies.iter().step_by(self.planes as usize).map(move |d| d.busy + d.worked(now))
    }

    /// Dies that work now, and channels that carry a transfer.
    #[inline]
    pub fn active(&self) -> (u32, u32) {
        self.active
    }

    /// Dies that work now.
    pub fn busy_dies(&self) -> u32 {
        self.active.0
    }

    /// Every channel as it is now.
    pub fn channel_views(&self, now: SimTime) -> impl Iterator<Item = ChannelView> + '_ {
        self.channels.iter().map(move |c| ChannelView { busy: c.worked(now), active: c.die.is_some() })
    }

    /// Every die as it is now.
    pub fn way_views(&self, now: SimTime) -> impl Iterator<Item = WayView> + '_ {
        let holds = |d: &Die| (d.phase != Phase::Idle).then(|| self.ops[d.current].kind.into());
        let dies = self.dies.chunks(self.planes as usize).zip(self.die_busy(now));
        dies.map(move |(planes, busy)| WayView { busy, holds: planes.iter().find_map(holds) })
    }

    /// Forgets all operations (power cut); busy times are kept.
    pub fn reset(&mut self, now: SimTime) {
        for d in &mut self.dies {
            d.busy += d.worked(now);
            (d.works, d.working, d.whole, d.draining, d.settled) = (false, 0, false, false, false);
            (d.reads, d.rest, d.later) = (List::default(), List::default(), List::default());
            (d.current, d.suspended, d.phase) = (NIL, NIL, Phase::Idle);
        }
        for c in &mut self.channels {
            (c.busy, c.length, c.until) = (c.worked(now), Nanos::ZERO, now);
            (c.die, c.asks) = (None, false);
            c.queue.clear();
            c.wants.fill(0);
            c.seen = poll::Ways::default();
        }
        self.active = (0, 0);
        if let Some(room) = &mut self.room {
            *room = List::default();
        }
        if let Some(interconnect) = &mut self.interconnect {
            interconnect.reset();
        }
        if let Some(solvers) = &mut self.solvers {
            solvers.reset();
        }
        self.steps.clear();
        self.ops.clear();
    }

    pub fn memory_bytes(&self) -> u64 {
        self.ops.memory_bytes() + (self.dies.len() * size_of::<Die>()) as u64
    }
}
