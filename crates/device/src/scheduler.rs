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
//! A free channel takes, among the heads that want it, the class with the best priority (Cosmos+ Table 2), round robin inside
//! a class. A phase without cost is passed without an event. The scheduler knows nothing of media or translation: it hands
//! out [`Step`]s and is told how long the array takes. An operation's time is booked to a stage at every transition.
//!
//! Invariants: a die has at most one current operation and at most one suspended one; a channel carries one transfer; a
//! die's bit is set in a class of its channel if and only if its current operation wants the channel for that class.

mod poll;
mod solver;

use crate::config::{DieOrder, Scheduler as Config};
use crate::events::{Event, Events};
use crate::taps::{ChannelView, WayView};
use pellucid_flash::slab::{Linked, List, NIL, Slab};
use pellucid_flash::{Cause, Layout, Nanos, Ppa, SimTime, Stage, StageTimes};
use pellucid_media::Timing;
use std::collections::VecDeque;

/// What a flash operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Read,
    Program,
    Erase,
    /// Sense and program inside the die, without a transfer.
    Copyback,
}

/// Whom the end of an operation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A data-buffer entry that is being filled.
    Fill(u32),
    /// A relocation that is being read.
    Relocation(u32),
    /// A planned program.
    Program(u32),
    /// A block that is being erased.
    Erase,
    /// A slice of a command that addresses the media.
    Direct(u32),
    /// A buffered stripe of a zoned namespace, on its way to its zone.
    Stage { namespace: u16, slot: u32 },
    /// One on its way to the staging log.
    Log { namespace: u16, slot: u32 },
    /// A block of the staging log that is being erased.
    LogErase { namespace: u16 },
    /// The chunk that is being written anew.
    Refresh,
}

/// One flash operation.
#[derive(Clone, Debug)]
pub(crate) struct FlashOp {
    pub kind: OpKind,
    pub cause: Cause,
    pub client: Client,
    pub die: u32,
    /// First unit concerned; of an erase, the block's first unit.
    pub ppa: Ppa,
    /// Units that cross the channel.
    pub units: u32,
    /// Failed attempts so far (reads).
    pub attempts: u32,
    /// Since when the operation is in its present stage.
    pub mark: SimTime,
    pub stages: StageTimes,
    next: u32,
}

impl Linked for FlashOp {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl FlashOp {
    pub fn new(
        kind: OpKind,
        cause: Cause,
        client: Client,
        die: u32,
        ppa: Ppa,
        units: u32,
        now: SimTime,
    ) -> FlashOp {
        let stages = StageTimes::default();
        FlashOp { kind, cause, client, die, ppa, units, attempts: 0, mark: now, stages, next: NIL }
    }

    /// Books the time since the last transition to `stage`; after a failed read everything counts as retry.
    #[inline]
    pub fn book(&mut self, stage: Stage, now: SimTime) {
        let stage = if self.attempts > 0 { Stage::Retry } else { stage };
        self.stages.add(stage, now - self.mark);
        self.mark = now;
    }
}

/// What the rest of the drive must do for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Command and data are in the die: say how long the array takes ([`Scheduler::start_array`]).
    Array(u32),
    /// The array has finished: let a read go on with [`Scheduler::transfer`], end others with [`Scheduler::release`].
    ArrayDone(u32),
    /// Read data are out of the die (and decoded).
    DataOut(u32),
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

#[derive(Clone, Debug)]
struct Die {
    channel: u32,
    bit: u32,
    reads: List,
    rest: List,
    current: u32,
    phase: Phase,
    /// What the current operation wants the channel for, or does on it.
    wanted: Phase,
    array_ends: SimTime,
    suspended: u32,
    suspended_left: Nanos,
    busy_since: SimTime,
    busy: Nanos,
    /// Polled: when it came to the list it is in, counted in such moments.
    listed: u64,
}

/// Classes of what can want a channel: each kind has its own at most.
const CLASSES: usize = 5;

#[derive(Clone, Debug, Default)]
struct Channel {
    die: Option<u32>,
    wants: [u64; CLASSES],
    last: [u32; CLASSES],
    busy: Nanos,
    /// Dies whose control words the controller holds beside the one that it carries out.
    queue: VecDeque<u32>,
    seen: poll::Ways,
    /// Polled: the first class of which this look has issued nothing.
    issued: usize,
}

/// Channels, dies and the operations on them.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    pub ops: Slab<FlashOp>,
    dies: Vec<Die>,
    dies_per_channel: u32,
    channels: Vec<Channel>,
    steps: VecDeque<Step>,
    read_first: bool,
    suspend: Option<Nanos>,
    resume: Nanos,
    drain: Nanos,
    decode: Nanos,
    solvers: Option<solver::Solvers>,
    unit_bytes: u64,
    command: Nanos,
    status: Nanos,
    unit_transfer: Nanos,
    stripe_transfer: Nanos,
    pub suspensions: u64,
    /// Dies that hold an operation, and channels that carry a transfer.
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
    pub fn new(
        config: &Config,
        timing: &Timing,
        layout: &Layout,
        stripe_units_bytes: u64,
        polled: bool,
    ) -> Scheduler {
        let p = &config.priorities;
        let priorities = [p.status_check, p.read_trigger, p.erase, p.write, p.read_transfer];
        let mut distinct = priorities.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let classes = priorities.map(|p| distinct.iter().position(|&d| d == p).expect("taken from it"));
        let die = |d: u32| Die {
            channel: d / layout.dies_per_channel,
            bit: d % layout.dies_per_channel,
            reads: List::default(),
            rest: List::default(),
            current: NIL,
            phase: Phase::Idle,
            wanted: Phase::Idle,
            array_ends: SimTime::ZERO,
            suspended: NIL,
            suspended_left: Nanos::ZERO,
            busy_since: SimTime::ZERO,
            busy: Nanos::ZERO,
            listed: 0,
        };
        let rate = timing.channel_bytes_per_second;
        let transfer =
            |bytes: u64| Nanos((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)) as u64);
        Scheduler {
            ops: Slab::default(),
            dies: (0..layout.dies).map(die).collect(),
            channels: vec![Channel::default(); layout.channels as usize],
            dies_per_channel: layout.dies_per_channel,
            steps: VecDeque::new(),
            read_first: config.order == DieOrder::ReadFirst,
            suspend: if config.suspend { timing.suspend_ns } else { None },
            resume: timing.resume_ns,
            drain: config.drain_ns,
            decode: config.decode_ns,
            solvers: config.solver.map(|solver| {
                solver::Solvers::new(solver.channels, solver.chunk_bytes, solver.chunk_ns, layout.channels)
            }),
            unit_bytes: u64::from(layout.unit_bytes),
            command: timing.command_ns,
            status: timing.status_ns,
            unit_transfer: transfer(u64::from(layout.unit_bytes + layout.spare_bytes_per_unit)),
            stripe_transfer: transfer(stripe_units_bytes),
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
        self.steps.pop_front()
    }

    /// Whether [`Scheduler::pop_step`] has something.
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Queues an operation at its die. Host reads may go ahead of what has not started.
    #[inline]
    pub fn enqueue(&mut self, now: SimTime, op: u32, ahead: bool, events: &mut Events) {
        let record = &mut self.ops[op];
        record.mark = now;
        let die = record.die;
        let d = &mut self.dies[die as usize];
        if ahead && self.read_first {
            d.reads.push_back(&mut self.ops, op);
        } else {
            d.rest.push_back(&mut self.ops, op);
        }
        self.kick_die(now, die, events);
        if ahead && self.read_first {
            self.try_suspend(now, die, events);
        }
    }

    /// Puts a failed read back at the head of its die's queue.
    pub fn enqueue_again(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.ops[op].die;
        self.ops[op].mark = now;
        let d = &mut self.dies[die as usize];
        d.rest.push_front(&mut self.ops, op);
        self.kick_die(now, die, events);
    }

    #[inline]
    fn kick_die(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        if d.phase != Phase::Idle {
            return;
        }
        let op = match d.reads.pop(&mut self.ops) {
            Some(op) => op,
            None if d.suspended != NIL => return self.resume(now, die, events),
            None => match d.rest.pop(&mut self.ops) {
                Some(op) => op,
                None => return,
            },
        };
        d.current = op;
        d.busy_since = now;
        self.active.0 += 1;
        if self.polled {
            return self.head_changed(die);
        }
        let record = &mut self.ops[op];
        record.book(Stage::WaitWay, now);
        if self.command == Nanos::ZERO && record.kind != OpKind::Program {
            d.phase = Phase::Array;
            self.steps.push_back(Step::Array(op));
        } else {
            self.want(now, die, Phase::Command, events);
        }
    }

    /// The current operation of `die` needs its channel.
    #[inline]
    fn want(&mut self, now: SimTime, die: u32, what: Phase, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        d.phase = Phase::Want;
        d.wanted = what;
        let class = match (what, self.ops[d.current].kind) {
            (Phase::Status, _) => 0,
            (Phase::Transfer, _) => 4,
            (_, OpKind::Read | OpKind::Copyback) => 1,
            (_, OpKind::Erase) => 2,
            (_, OpKind::Program) => 3,
        };
        let (channel, bit) = (d.channel, d.bit);
        self.channels[channel as usize].wants[self.classes[class]] |= 1 << bit;
        if !self.polled {
            self.kick_channel(now, channel, events);
        } else if what != Phase::Status {
            // For its status a way is asked in the order of the array's operations.
            self.put_last(die);
        }
    }

    #[inline]
    fn kick_channel(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        if let Some(die) = self.choose(now, channel) {
            self.occupy(now, die, events);
        }
    }

    /// Takes the best of what wants a free channel.
    #[inline]
    fn choose(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        let c = &mut self.channels[channel as usize];
        if c.die.is_some() {
            return None;
        }
        let class = c.wants.iter().position(|&w| w != 0)?;
        // Round robin: the first that wants it after the last one served.
        let wants = c.wants[class];
        let turn = c.last[class];
        let after = wants & !((2u64 << turn).wrapping_sub(1));
        let bit = if after != 0 { after } else { wants }.trailing_zeros();
        c.wants[class] &= !(1 << bit);
        c.last[class] = bit;
        let die = channel * self.dies_per_channel + bit;
        let op = self.dies[die as usize].current;
        self.ops[op].book(Stage::WaitChannel, now);
        Some(die)
    }

    /// The channel carries what the current operation of `die` wants it for.
    #[inline]
    fn occupy(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        let op = &self.ops[d.current];
        let channel = d.channel;
        d.phase = d.wanted;
        let time = match (d.wanted, op.kind) {
            (Phase::Status, _) => self.status,
            (Phase::Transfer, _) => {
                let data = Nanos(self.unit_transfer.0 * u64::from(op.units));
                // To a polled controller the transfer is a control word of its own.
                let setup = if self.polled { self.command } else { Nanos::ZERO };
                if let Some(solvers) = &mut self.solvers {
                    solvers.begin(now + setup, channel, self.unit_bytes * u64::from(op.units), data);
                }
                setup + data + self.drain
            }
            (_, OpKind::Program) => self.command + self.stripe_transfer,
            _ => self.command,
        };
        let c = &mut self.channels[channel as usize];
        c.die = Some(die);
        c.busy += time;
        self.active.1 += 1;
        events.at(now + time, Event::Channel(channel));
    }

    /// The transfer on `channel` has ended.
    pub fn channel_done(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        let die = self.channels[channel as usize].die.take().expect("a channel event without a transfer");
        self.active.1 -= 1;
        let d = &mut self.dies[die as usize];
        let op = d.current;
        self.ops[op].book(Stage::Transfer, now);
        match d.phase {
            Phase::Command => {
                d.phase = Phase::Array;
                self.steps.push_back(Step::Array(op));
            }
            Phase::Status => {
                d.phase = Phase::Held;
                match self.polled {
                    true => self.reported(die),
                    false => self.steps.push_back(Step::ArrayDone(op)),
                }
            }
            _ if self.polled => {
                d.phase = Phase::Held;
                let decode = self.solved(now, channel) + self.decode;
                events.at(now + decode, Event::Decoded(op));
            }
            _ => {
                let decode = self.solved(now, channel) + self.decode;
                self.vacate(now, die);
                if decode == Nanos::ZERO {
                    self.steps.push_back(Step::DataOut(op));
                } else {
                    events.at(now + decode, Event::Decoded(op));
                }
                self.kick_die(now, die, events);
            }
        }
        match self.polled {
            true => self.next_word(now, channel, events),
            false => self.kick_channel(now, channel, events),
        }
    }

    /// How long the key-equation solver keeps what `channel` has just transferred.
    fn solved(&mut self, now: SimTime, channel: u32) -> Nanos {
        self.solvers.as_mut().map_or(Nanos::ZERO, |solvers| solvers.end(now, channel))
    }

    /// The data of `op` are decoded.
    pub fn decoded(&mut self, now: SimTime, op: u32) {
        self.ops[op].book(Stage::Transfer, now);
        if self.polled {
            return self.reported(self.ops[op].die);
        }
        self.steps.push_back(Step::DataOut(op));
    }

    /// The array of the operation's die works for `time` from now on. A host read that came while the operation was on its way
    /// there does not wait for all of it either.
    #[inline]
    pub fn start_array(&mut self, now: SimTime, op: u32, time: Nanos, events: &mut Events) {
        let die = self.ops[op].die;
        self.dies[die as usize].array_ends = now + time;
        events.at(now + time, Event::Die(die));
        if self.suspend.is_some() {
            self.try_suspend(now, die, events);
        }
    }

    /// The array operation of `die` should have ended now; a suspended one has not.
    #[inline]
    pub fn array_done(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        if d.array_ends != now {
            return;
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
                    self.steps.push_back(Step::ArrayDone(op));
                } else {
                    self.want(now, die, Phase::Status, events);
                }
            }
            Phase::Suspending => {
                d.suspended = d.current;
                d.current = NIL;
                d.phase = Phase::Idle;
                d.busy += now - d.busy_since;
                self.active.0 -= 1;
                self.kick_die(now, die, events);
            }
            _ => {}
        }
    }

    /// A sensed read may leave its die.
    #[inline]
    pub fn transfer(&mut self, now: SimTime, op: u32, events: &mut Events) {
        self.want(now, self.ops[op].die, Phase::Transfer, events);
    }

    /// A program, erase or copyback is over; its die goes on with the next operation.
    #[inline]
    pub fn release(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.ops[op].die;
        self.vacate(now, die);
        self.kick_die(now, die, events);
        if self.polled {
            self.next_of_way(now, die, events);
        }
    }

    #[inline]
    fn vacate(&mut self, now: SimTime, die: u32) {
        let d = &mut self.dies[die as usize];
        d.current = NIL;
        d.phase = Phase::Idle;
        d.busy += now - d.busy_since;
        self.active.0 -= 1;
    }

    /// A host read waits behind a running program or erase: suspend it if the part can.
    fn try_suspend(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let Some(suspend) = self.suspend else { return };
        let d = &mut self.dies[die as usize];
        if d.phase != Phase::Array || d.suspended != NIL || d.reads.is_empty() || d.array_ends <= now {
            return;
        }
        let op = &mut self.ops[d.current];
        // Not worth it when the operation ends before the suspension would.
        if op.kind == OpKind::Read || d.array_ends - now <= suspend {
            return;
        }
        op.book(Stage::Media, now);
        self.suspensions += 1;
        d.suspended_left = d.array_ends - now;
        d.phase = Phase::Suspending;
        d.array_ends = now + suspend;
        events.at(now + suspend, Event::Die(die));
    }

    fn resume(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        d.current = std::mem::replace(&mut d.suspended, NIL);
        d.busy_since = now;
        self.active.0 += 1;
        (d.phase, d.wanted) = (Phase::Array, Phase::Command);
        d.array_ends = now + self.resume + d.suspended_left;
        self.ops[d.current].book(Stage::WaitWay, now);
        events.at(d.array_ends, Event::Die(die));
    }

    /// Busy time of every channel up to `now` (a running transfer counts whole).
    pub fn channel_busy(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.channels.iter().map(|c| c.busy)
    }

    /// Busy time of every die up to `now`: from the moment an operation is at its head until it has left the die.
    pub fn die_busy(&self, now: SimTime) -> impl Iterator<Item = Nanos> + '_ {
        self.dies.iter().map(move |d| match d.phase {
            Phase::Idle => d.busy,
            _ => d.busy + now.since(d.busy_since),
        })
    }

    /// Dies that hold an operation now, and channels that carry a transfer.
    #[inline]
    pub fn active(&self) -> (u32, u32) {
        self.active
    }

    /// Dies that hold an operation now.
    pub fn busy_dies(&self) -> u32 {
        self.active.0
    }

    /// Every channel as it is now.
    pub fn channel_views(&self) -> impl Iterator<Item = ChannelView> + '_ {
        self.channels.iter().map(|c| ChannelView { busy: c.busy, active: c.die.is_some() })
    }

    /// Every die as it is now.
    pub fn way_views(&self, now: SimTime) -> impl Iterator<Item = WayView> + '_ {
        let holds = |d: &Die| (d.phase != Phase::Idle).then(|| self.ops[d.current].kind.into());
        self.dies.iter().zip(self.die_busy(now)).map(move |(d, busy)| WayView { busy, holds: holds(d) })
    }

    /// Forgets all operations (power cut); busy times are kept.
    pub fn reset(&mut self, now: SimTime) {
        for d in &mut self.dies {
            if d.phase != Phase::Idle {
                d.busy += now - d.busy_since;
            }
            (d.reads, d.rest) = (List::default(), List::default());
            (d.current, d.suspended, d.phase) = (NIL, NIL, Phase::Idle);
        }
        for c in &mut self.channels {
            c.die = None;
            c.queue.clear();
            c.wants.fill(0);
            c.seen = poll::Ways::default();
        }
        self.active = (0, 0);
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
