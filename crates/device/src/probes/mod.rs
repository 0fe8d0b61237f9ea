//! Probes: what a drive notes about every command, operation and erase while it is watched.
//!
//! ```text
//!  finish ──► command      by kind, and by stage            Device::snapshot ──► Snapshot (plain data)
//!  op ends ─► operation    by kind and by way                 ▲ counters, busy times, state of the ways
//!  erase ───► erased       blocks by erase count              └ a copy of the probes, when they are on
//!  clock ───► elapsed      time with n ways, channels, commands
//! ```
//! Off by default: a drive that is not watched has no probes and pays one comparison per event. On, everything lands in tables
//! of fixed size; only that of blocks by erase count grows and shrinks, with the erase counts that blocks have.
//!
//! Time with an unchanged number of commands reaches its histogram when that number changes, and with a snapshot.
//!
//! Invariant: probes are write-only for the drive, so a watched drive behaves exactly like an unwatched one, to the
//! nanosecond.

mod snapshot;

pub use snapshot::{ChannelView, Snapshot, WayView};

use crate::back::scheduler::{FlashOp, OpKind};
use crate::front::host_interface::Direction;
use crate::shared::Shared;
use crate::timeline::{Recorder, Stored, Timeline, TimelineWindow};
use pellucid_flash::slab::List;
use pellucid_flash::{
    BlockId, Completion, Effect, Histogram, Nanos, Opcode, SimTime, Stage, StageTimes, Status,
};
use pellucid_media::Health;
use std::collections::BTreeMap;

/// A kind of flash operation, as the probes count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OperationKind {
    /// Sense and transfer to the controller, with its retries.
    Read = 0,
    /// Transfer and program.
    Program = 1,
    /// Erase of a block.
    Erase = 2,
    /// Sense and program inside a die.
    Copyback = 3,
}

impl OperationKind {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
    /// All kinds in the order of their numbers.
    pub const ALL: [OperationKind; OperationKind::COUNT] =
        [OperationKind::Read, OperationKind::Program, OperationKind::Erase, OperationKind::Copyback];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Read => "read",
            OperationKind::Program => "program",
            OperationKind::Erase => "erase",
            OperationKind::Copyback => "copyback",
        }
    }
}

impl From<OpKind> for OperationKind {
    fn from(kind: OpKind) -> OperationKind {
        match kind {
            OpKind::Read => OperationKind::Read,
            OpKind::Program => OperationKind::Program,
            OpKind::Erase => OperationKind::Erase,
            OpKind::Copyback => OperationKind::Copyback,
        }
    }
}

/// A part of a flash operation's time. Every [`Stage`] that an operation can be in belongs to one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// For its way, for the firmware processor, and for the channel.
    Wait = 0,
    /// Command and data on the channel, and decoding.
    Bus = 1,
    /// The array: sense, program, erase.
    Array = 2,
    /// Everything from the first failed attempt to the last retry.
    Retry = 3,
}

impl Part {
    /// How many parts there are.
    pub const COUNT: usize = 4;
    /// All parts in the order of their numbers.
    pub const ALL: [Part; Part::COUNT] = [Part::Wait, Part::Bus, Part::Array, Part::Retry];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Part::Wait => "wait",
            Part::Bus => "bus",
            Part::Array => "array",
            Part::Retry => "retry",
        }
    }

    /// An operation's time in each part.
    pub fn of(stages: &StageTimes) -> [u64; Part::COUNT] {
        let bus = stages.get(Stage::Transfer).0;
        let (array, retry) = (stages.get(Stage::Media).0, stages.get(Stage::Retry).0);
        [stages.total().0 - bus - array - retry, bus, array, retry]
    }
}

/// A kind of command, as reports group them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CommandKind {
    /// Reads.
    Read = 0,
    /// Writes, appends, copies.
    Write = 1,
    /// Trims, zeros, resets, zone management.
    Trim = 2,
    /// Flushes and reports of chunks and zones.
    Flush = 3,
}

impl CommandKind {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
    /// All kinds in the order of their numbers.
    pub const ALL: [CommandKind; CommandKind::COUNT] =
        [CommandKind::Read, CommandKind::Write, CommandKind::Trim, CommandKind::Flush];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            CommandKind::Read => "read",
            CommandKind::Write => "write",
            CommandKind::Trim => "trim",
            CommandKind::Flush => "flush",
        }
    }

    /// The kind that an opcode belongs to.
    pub fn of(opcode: Opcode) -> CommandKind {
        match opcode.effect() {
            Effect::Reads => CommandKind::Read,
            Effect::Writes => CommandKind::Write,
            Effect::Erases => CommandKind::Trim,
            Effect::Asks | Effect::Manages => CommandKind::Flush,
        }
    }
}

/// Statistics of one way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayProbes {
    /// Operations that have ended, by [`OperationKind`].
    pub operations: [u64; OperationKind::COUNT],
    /// Their time, by kind and [`Part`], ns.
    pub time_ns: [[u64; Part::COUNT]; OperationKind::COUNT],
    /// Each by its whole time, by kind, ns. Drives have many ways, so their tables are half as fine as the others.
    pub latency: [Histogram<3>; OperationKind::COUNT],
    /// The longest, ns.
    pub longest_ns: u64,
}

/// Statistics since [`Device::watch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Since when.
    pub since: SimTime,
    /// Latency of commands by [`CommandKind`], failed ones included, ns.
    pub commands: [Histogram<4>; CommandKind::COUNT],
    /// Commands that failed, by [`CommandKind`].
    pub failed: [u64; CommandKind::COUNT],
    /// Time of reads, then of writes, in each [`Stage`], ns. Commands that spent no time in a stage are not recorded there:
    /// they are what is missing to the count in `commands`.
    pub stages: [[Histogram<4>; Stage::COUNT]; 2],
    /// Time of flash operations by [`OperationKind`] and [`Part`], ns. No time is not recorded, as in `stages`.
    pub operations: [[Histogram<4>; Part::COUNT]; OperationKind::COUNT],
    /// Each way, in the order of dies.
    pub ways: Vec<WayProbes>,
    /// Simulated time with n ways at work, or holding data for the channel, by n, ns.
    pub active_ways_ns: Vec<u64>,
    /// Simulated time with n channels carrying a transfer, by n, ns.
    pub active_channels_ns: Vec<u64>,
    /// Simulated time by the number of commands in the drive, ns.
    pub outstanding_ns: Histogram<4>,
    /// Blocks that are not bad from the factory, by erase count; of counts that some block has.
    pub blocks_by_erases: BTreeMap<u32, u32>,
    /// Number of commands in the drive, and the time for which it has been the same, ns: not in `outstanding_ns` yet.
    outstanding: (u32, u64),
}

impl Probes {
    fn new(shared: &Shared) -> Probes {
        let layout = &shared.layout;
        let mut probes = Probes {
            since: shared.now,
            commands: Default::default(),
            failed: [0; CommandKind::COUNT],
            stages: Default::default(),
            operations: Default::default(),
            ways: vec![WayProbes::default(); layout.dies as usize],
            active_ways_ns: vec![0; layout.dies as usize + 1],
            active_channels_ns: vec![0; layout.channels as usize + 1],
            outstanding_ns: Histogram::default(),
            blocks_by_erases: BTreeMap::new(),
            outstanding: (0, 0),
        };
        probes.count_wear(erase_counts(shared));
        probes
    }

    /// Counts blocks by their erases anew.
    fn count_wear(&mut self, erases: impl Iterator<Item = u32>) {
        self.blocks_by_erases.clear();
        erases.for_each(|erases| *self.blocks_by_erases.entry(erases).or_default() += 1);
    }

    /// Removes a block from the count of blocks with this many erases.
    fn leaves(&mut self, erases: u32) {
        match self.blocks_by_erases.get_mut(&erases) {
            Some(blocks) if *blocks > 1 => *blocks -= 1,
            Some(_) => drop(self.blocks_by_erases.remove(&erases)),
            None => debug_assert!(false, "no block has {erases} erases"),
        }
    }

    /// A command has ended.
    #[inline(never)]
    pub(crate) fn command(&mut self, completion: &Completion) {
        let kind = CommandKind::of(completion.opcode) as usize;
        self.commands[kind].record((completion.completed - completion.submitted).0, 1);
        self.failed[kind] += u64::from(completion.status != Status::Success);
        if let Some(stages) = self.stages.get_mut(kind) {
            for (histogram, &ns) in stages.iter_mut().zip(&completion.stages.0) {
                if ns > 0 {
                    histogram.record(ns, 1);
                }
            }
        }
    }

    /// A flash operation has ended.
    #[inline(never)]
    pub(crate) fn operation(&mut self, op: &FlashOp) {
        let kind = OperationKind::from(op.kind) as usize;
        let parts = Part::of(&op.stages);
        let way = &mut self.ways[op.die as usize];
        way.operations[kind] += 1;
        let whole = parts.iter().sum();
        way.longest_ns = way.longest_ns.max(whole);
        way.latency[kind].record(whole, 1);
        for (part, &ns) in parts.iter().enumerate() {
            way.time_ns[kind][part] += ns;
            if ns > 0 {
                self.operations[kind][part].record(ns, 1);
            }
        }
    }

    /// A block has been erased for the `erases`-th time.
    pub(crate) fn erased(&mut self, erases: u32) {
        self.leaves(erases - 1);
        *self.blocks_by_erases.entry(erases).or_default() += 1;
    }

    /// Books a span of time with these numbers of active ways, channels and commands.
    #[inline(never)]
    pub(crate) fn elapsed(&mut self, time: Nanos, ways: u32, channels: u32, commands: u32) {
        self.active_ways_ns[ways as usize] += time.0;
        self.active_channels_ns[channels as usize] += time.0;
        if commands != self.outstanding.0 {
            self.outstanding_ns.record(self.outstanding.0.into(), self.outstanding.1);
            self.outstanding = (commands, 0);
        }
        self.outstanding.1 += time.0;
    }

    /// A copy in which everything is where it belongs.
    pub(crate) fn settled(&self) -> Box<Probes> {
        let mut probes = Box::new(self.clone());
        let (commands, time) = std::mem::take(&mut probes.outstanding);
        probes.outstanding_ns.record(commands.into(), time);
        probes
    }
}

/// Observers of a drive. A drive without any has none, which costs one comparison per event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers {
    probes: Option<Probes>,
    timeline: Option<Recorder>,
}

impl Observers {
    /// The probes, if they are on.
    pub fn probes(&self) -> Option<&Probes> {
        self.probes.as_ref()
    }
}

/// Starts recording the data of [`Probes`], beginning at zero. Costs one walk over the blocks now, and a few
/// nanoseconds per event afterwards. Does not change the drive's behaviour.
pub(crate) fn watch(shared: &mut Shared) {
    let probes = Probes::new(shared);
    shared.observers.get_or_insert_default().probes = Some(probes);
}

/// The drive notes nothing more for its probes, and forgets what it noted.
pub(crate) fn unwatch(shared: &mut Shared) {
    if let Some(observers) = &mut shared.observers {
        observers.probes = None;
    }
    let_observers_go(shared);
}

/// From now on the drive records a timeline, from nothing. Changes nothing that the drive does.
pub(crate) fn record_timeline(shared: &mut Shared, window: TimelineWindow) {
    let recorder = Recorder::new(window, shared);
    shared.observers.get_or_insert_default().timeline = Some(recorder);
}

/// Ends the timeline, if one is recorded, and hands it out.
pub(crate) fn take_timeline(shared: &mut Shared) -> Option<Timeline> {
    let recorder = shared.observers.as_mut()?.timeline.take()?;
    let_observers_go(shared);
    Some(recorder.finish(shared))
}

fn let_observers_go(shared: &mut Shared) {
    let none = |observers: &Observers| observers.probes.is_none() && observers.timeline.is_none();
    if shared.observers.as_deref().is_some_and(none) {
        shared.observers = None;
    }
}

/// Erase count of every good block: neither bad from the factory nor grown bad.
pub(crate) fn erase_counts(shared: &Shared) -> impl Iterator<Item = u32> + '_ {
    (0..shared.layout.blocks)
        .map(BlockId)
        .filter(|&b| shared.media.array().health(b) == Health::Good)
        .map(|b| shared.media.array().erase_count(b))
}

/// A mount has erased and retired blocks without telling the probes of each.
pub(crate) fn observe_mount(shared: &mut Shared) {
    let Some(mut observers) = shared.observers.take() else { return };
    if let Some(probes) = &mut observers.probes {
        probes.count_wear(erase_counts(shared));
    }
    if let Some(timeline) = &mut observers.timeline {
        timeline.power_fails(shared.now);
    }
    shared.observers = Some(observers);
}

/// The clock goes on to `at`.
#[inline]
pub(crate) fn pass_to(shared: &mut Shared, at: SimTime) {
    if shared.observers.is_some() {
        observe_time(shared, at);
    }
    shared.now = at;
}

#[cold]
fn observe_time(shared: &mut Shared, at: SimTime) {
    if at <= shared.now {
        return;
    }
    let (time, commands) = (at - shared.now, shared.works.in_use() as u32);
    let (ways, channels) = shared.scheduler.work().active();
    if let Some(Observers { probes: Some(probes), .. }) = shared.observers.as_deref_mut() {
        probes.elapsed(time, ways, channels, commands);
    }
    tell_timeline(shared, Recorder::look);
}

/// Lets the timeline, if one is recorded, take something in.
#[cold]
fn tell_timeline(shared: &mut Shared, tell: impl FnOnce(&mut Recorder, &Shared)) {
    let Some(mut observers) = shared.observers.take() else { return };
    if let Some(timeline) = &mut observers.timeline {
        tell(timeline, shared);
    }
    shared.observers = Some(observers);
}

/// Returns whether anything is noted of what the drive does.
#[inline]
pub(crate) fn is_observed(shared: &Shared) -> bool {
    shared.observers.is_some()
}

/// A command has ended, and its completion is the last one.
#[inline]
pub(crate) fn observe_command(shared: &mut Shared, work: u32) {
    if shared.observers.is_some() {
        observe_completion(shared, work);
    }
}

#[cold]
fn observe_completion(shared: &mut Shared, work: u32) {
    let Some(mut observers) = shared.observers.take() else { return };
    if let Some(completion) = shared.completions.back() {
        if let Some(probes) = &mut observers.probes {
            probes.command(completion);
        }
        if let Some(timeline) = &mut observers.timeline {
            timeline.completed(shared, work, completion);
        }
    }
    shared.observers = Some(observers);
}

/// A flash operation is over, and its stages are complete.
#[inline]
pub(crate) fn observe_operation(shared: &mut Shared, op: u32) {
    if let Some(observers) = &mut shared.observers
        && let Some(probes) = &mut observers.probes
        && !shared.scheduler.ops[op].part
    {
        probes.operation(&shared.scheduler.ops[op]);
    }
}

/// A flash operation has served these slices, and data that wait at `place`. The caller has asked whether the drive is observed.
#[cold]
pub(crate) fn observe_served(shared: &mut Shared, op: u32, slices: List, place: Option<Stored>) {
    let mut works = Vec::new();
    slices.for_each(&mut shared.slices, |slice| works.push(slice.work));
    tell_timeline(shared, |timeline, shared| {
        works.into_iter().for_each(|work| timeline.serves(shared, op, work));
        if let Some(place) = place {
            timeline.serves_stored(shared, op, place, true);
        }
    });
}

/// A flash operation serves a command. The caller has asked whether the drive is observed.
#[cold]
pub(crate) fn observe_serves(shared: &mut Shared, op: u32, work: u32) {
    tell_timeline(shared, |timeline, shared| timeline.serves(shared, op, work));
}

/// A flash operation programs the data that wait at `place`; `stay`: they wait for another one, too.
#[cold]
pub(crate) fn observe_programs(shared: &mut Shared, op: u32, place: Stored, stay: bool) {
    tell_timeline(shared, |timeline, shared| timeline.serves_stored(shared, op, place, stay));
}

/// `part` goes on with a part of what `op` has read.
#[inline]
pub(crate) fn observe_part(shared: &mut Shared, op: u32, part: u32) {
    if shared.observers.is_some() {
        tell_timeline(shared, |timeline, shared| timeline.parts(shared, op, part));
    }
}

/// The data of a command wait at `place` to be programmed.
#[inline]
pub(crate) fn observe_stored(shared: &mut Shared, place: Stored, work: u32) {
    if shared.observers.is_some() {
        tell_timeline(shared, |timeline, shared| timeline.stores(shared, place, work));
    }
}

/// The data that waited at `place` were trimmed.
#[inline]
pub(crate) fn observe_trimmed(shared: &mut Shared, place: Stored) {
    if shared.observers.is_some() {
        tell_timeline(shared, |timeline, _| timeline.forgets(place));
    }
}

/// The host DMA of a slice was booked last in its direction of the link.
#[inline]
pub(crate) fn observe_dma(shared: &mut Shared, slice: u32, direction: Direction) {
    if shared.observers.is_some() {
        let span = shared.host.last_transfer(direction);
        tell_timeline(shared, |timeline, shared| timeline.host_dma(shared, slice, direction, span));
    }
}

/// An erase has ended well.
#[inline]
pub(crate) fn observe_erase(shared: &mut Shared, block: BlockId) {
    if let Some(observers) = &mut shared.observers
        && let Some(probes) = &mut observers.probes
        && shared.media.array().health(block) == Health::Good
    {
        probes.erased(shared.media.array().erase_count(block));
    }
}

/// A block that was good is bad now.
#[inline]
pub(crate) fn observe_bad(shared: &mut Shared, block: BlockId) {
    if let Some(observers) = &mut shared.observers
        && let Some(probes) = &mut observers.probes
    {
        probes.leaves(shared.media.array().erase_count(block));
    }
}
