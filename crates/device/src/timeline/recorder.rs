//! Records a [`Timeline`].
//!
//! Whenever the clock is about to advance, the recorder compares the state of channels, ways and processors with the previous state, so the
//! recorded components need no code for it. A transfer or processor step has a known duration; the activity of a way lasts until its next
//! one. Only events that leave no trace in that state are reported explicitly: host DMA, the command that an operation serves, and
//! completions.
//!
//! A flash operation is known by its number and the moment at which it was made, as numbers are used again.

use super::{Activity, Timeline, TimelineCommand, TimelineOperation, TimelineSpan, TimelineWindow, Track};
use crate::back::scheduler::FlashOp;
use crate::firmware::Concern;
use crate::front::commands::Work;
use crate::front::host_interface::Direction;
use crate::shared::Shared;
use pellucid_flash::{Completion, SimTime, StageTimes, Status};
use std::collections::BTreeMap;

/// Entries between two sweeps, at least.
const SWEEP: usize = 1 << 16;

/// Where data wait to be programmed: a namespace, and its logical page or its slot.
pub(crate) type Stored = (u16, u64);

/// An operation that a way, or a plane of it, works on.
#[derive(Clone, Copy, Debug)]
struct Open {
    operation: u32,
    begin: SimTime,
    /// Its present activity for it, and since when.
    doing: Option<(Activity, SimTime)>,
}

/// A command that has been seen; `ended`: it has completed.
#[derive(Clone, Debug)]
struct Seen {
    command: TimelineCommand,
    ended: bool,
}

/// Records what a drive does.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    window: TimelineWindow,
    is_full: bool,
    /// The window is over: what began in it may still be told of, and nothing new is recorded.
    is_over: bool,
    spans: Vec<TimelineSpan>,
    operations: Vec<TimelineOperation>,
    commands: Vec<Seen>,
    /// By the number of a flash operation: when it was made, and its place in `operations`.
    known_operations: Vec<Option<(SimTime, u32)>>,
    /// By the number of a command: its place in `commands`.
    known_commands: Vec<Option<u32>>,
    /// Commands whose data wait to be programmed.
    stored: BTreeMap<Stored, Vec<u32>>,
    /// End of the last transfer seen on each channel.
    channels: Vec<SimTime>,
    /// Ways, or their planes.
    ways: Vec<Option<Open>>,
    planes: u32,
    /// End of the last step seen of each processor.
    step_ends: Vec<SimTime>,
    /// Number of entries at which those that are not wanted are thrown out.
    sweep_at: usize,
}

impl Recorder {
    pub fn new(window: TimelineWindow, shared: &Shared) -> Recorder {
        let planes = shared.scheduler.work().planes();
        Recorder {
            window,
            is_full: false,
            is_over: false,
            spans: Vec::new(),
            operations: Vec::new(),
            commands: Vec::new(),
            known_operations: Vec::new(),
            known_commands: Vec::new(),
            stored: BTreeMap::new(),
            channels: vec![SimTime::ZERO; shared.layout.channels as usize],
            ways: vec![None; (shared.layout.dies * planes) as usize],
            planes,
            step_ends: vec![SimTime::ZERO; shared.firmware.processors()],
            sweep_at: SWEEP,
        }
    }

    /// Takes in the drive as it is, before its clock moves.
    pub fn look(&mut self, shared: &Shared) {
        let now = shared.now;
        if self.is_over {
            return;
        }
        for (channel, carried) in shared.scheduler.work().carried().enumerate() {
            let Some(carried) = carried else { continue };
            if std::mem::replace(&mut self.channels[channel], carried.end) == carried.end {
                continue;
            }
            let operation = carried.op.map(|op| self.operation(shared, op));
            let track = Track::Channel(channel as u32);
            self.span(track, carried.activity, (carried.begin, carried.end), operation, None);
        }
        for (way, held) in shared.scheduler.work().held().enumerate() {
            let held = held.map(|held| (self.operation(shared, held.op), held.activity));
            self.way_does(way, held, now);
        }
        for processor in 0..self.step_ends.len() {
            let (module, end) = shared.firmware.step(processor);
            if end > now && std::mem::replace(&mut self.step_ends[processor], end) != end {
                let (operation, command) = self.concern(shared, processor);
                let track = Track::Firmware(processor as u32);
                self.span(track, Activity::Firmware(module), (now, end), operation, command);
            }
        }
        if self.spans.len() + self.commands.len() + self.operations.len() >= self.sweep_at {
            self.sweep(shared);
        }
        if now >= self.window.to {
            self.close(self.window.to);
            self.is_over = true;
        }
    }

    /// A way, or a plane, does this for this operation from now on.
    fn way_does(&mut self, way: usize, held: Option<(u32, Option<Activity>)>, now: SimTime) {
        let track = self.track_of(way);
        if let Some(open) = self.ways[way] {
            let (operation, activity) = held.map_or((None, None), |(op, activity)| (Some(op), activity));
            let stays = operation == Some(open.operation);
            if stays && activity == open.doing.map(|(activity, _)| activity) {
                return;
            }
            if let Some((activity, since)) = open.doing {
                self.span(track, activity, (since, now), Some(open.operation), None);
            }
            if stays {
                self.ways[way] = Some(Open { doing: activity.map(|activity| (activity, now)), ..open });
                return;
            }
            self.span(track, Activity::Operation, (open.begin, now), Some(open.operation), None);
        }
        let open = |(operation, activity): (u32, Option<Activity>)| Open {
            operation,
            begin: now,
            doing: activity.map(|activity| (activity, now)),
        };
        self.ways[way] = held.map(open);
    }

    fn track_of(&self, way: usize) -> Track {
        Track::Way { die: way as u32 / self.planes, plane: way as u32 % self.planes }
    }

    /// The operation and the command that a processor's step is for.
    fn concern(&mut self, shared: &Shared, processor: usize) -> (Option<u32>, Option<u32>) {
        let op = match shared.firmware.concern(processor) {
            Concern::Nothing => return (None, None),
            Concern::Work(work) => return (None, self.command(shared, work)),
            Concern::Slice(slice) => return (None, self.command(shared, shared.slices[slice].work)),
            Concern::Operation(op) => Some(op),
            Concern::Die(die) => shared.scheduler.work().current(die),
        };
        (op.map(|op| self.operation(shared, op)), None)
    }

    /// The data of a slice cross the host link from `begin` to `end`.
    pub fn host_dma(&mut self, shared: &Shared, slice: u32, direction: Direction, time: (SimTime, SimTime)) {
        let command = self.command(shared, shared.slices[slice].work);
        let track = match direction {
            Direction::Rx => Track::LinkToDrive,
            Direction::Tx => Track::LinkToHost,
        };
        self.span(track, Activity::HostDma, time, None, command);
    }

    /// An operation reads or programs data of a command.
    pub fn serves(&mut self, shared: &Shared, op: u32, work: u32) {
        if self.records(shared, op)
            && let Some(command) = self.command(shared, work)
        {
            let operation = self.operation(shared, op);
            self.join(operation, command);
        }
    }

    /// An operation reads or programs the data that wait there; `stay`: they go on waiting.
    pub fn serves_stored(&mut self, shared: &Shared, op: u32, place: Stored, stay: bool) {
        let waiting = if stay { self.stored.get(&place).cloned() } else { self.stored.remove(&place) };
        let Some(waiting) = waiting.filter(|_| self.records(shared, op)) else { return };
        let operation = self.operation(shared, op);
        waiting.into_iter().for_each(|command| self.join(operation, command));
    }

    fn join(&mut self, operation: u32, command: u32) {
        let commands = &mut self.operations[operation as usize].commands;
        if !commands.contains(&command) {
            commands.push(command);
        }
    }

    /// The data of a command wait there to be programmed.
    pub fn stores(&mut self, shared: &Shared, place: Stored, work: u32) {
        if let Some(command) = self.command(shared, work) {
            let waiting = self.stored.entry(place).or_default();
            if waiting.last() != Some(&command) {
                waiting.push(command);
            }
        }
    }

    /// The data that waited there were trimmed.
    pub fn forgets(&mut self, place: Stored) {
        self.stored.remove(&place);
    }

    /// `part` goes on for a part of what `op` has read.
    pub fn parts(&mut self, shared: &Shared, op: u32, part: u32) {
        if !self.records(shared, op) {
            return;
        }
        let operation = self.operation(shared, op);
        self.know(part, shared.scheduler.ops[part].since, operation);
    }

    /// A command has completed.
    pub fn completed(&mut self, shared: &Shared, work: u32, completion: &Completion) {
        let known = self.known_commands.get_mut(work as usize).and_then(Option::take);
        let command =
            command_of(&shared.works[work], completion.status, completion.completed, completion.stages);
        match known {
            Some(at) => self.commands[at as usize] = Seen { command, ended: true },
            None if self.is_wanted(&command) => self.commands.push(Seen { command, ended: true }),
            None => {}
        }
    }

    /// The power fails: what is under way ends now, and commands without a completion stay without.
    pub fn power_fails(&mut self, now: SimTime) {
        self.close(now);
        self.known_operations.clear();
        self.known_commands.clear();
        self.stored.clear();
    }

    /// Ends what is under way.
    fn close(&mut self, now: SimTime) {
        (0..self.ways.len()).for_each(|way| self.way_does(way, None, now));
        self.spans.retain_mut(|span| {
            span.end = span.end.min(now);
            span.begin < span.end
        });
    }

    /// The record, in order. Commands that have not completed are not in it.
    pub fn finish(mut self, shared: &Shared) -> Timeline {
        self.look(shared);
        // A window that is over was closed at its end.
        self.close(shared.now.min(self.window.to));
        self.keep(|seen| seen.ended, SimTime(u64::MAX), false);
        let mut order: Vec<u32> = (0..self.commands.len() as u32).collect();
        order.sort_by_key(|&at| self.commands[at as usize].command.submitted);
        let mut places = vec![0; order.len()];
        (0..).zip(&order).for_each(|(place, &at)| places[at as usize] = place);
        self.spans.iter_mut().for_each(|span| span.command = span.command.map(|at| places[at as usize]));
        for operation in &mut self.operations {
            operation.commands.iter_mut().for_each(|at| *at = places[*at as usize]);
            operation.commands.sort_unstable();
        }
        let in_order = |span: &TimelineSpan| (span.track, span.begin, span.activity.is_within());
        self.spans.sort_by_key(in_order);
        Timeline {
            from: self.window.from,
            to: self.window.to.min(shared.now),
            is_full: self.is_full,
            channels: shared.layout.channels,
            ways: shared.layout.dies_per_channel,
            planes: self.planes,
            processors: self.step_ends.len() as u32,
            commands: order.iter().map(|&at| self.commands[at as usize].command.clone()).collect(),
            spans: self.spans,
            operations: self.operations,
        }
    }

    /// Adds a span, as far as it lies in the window.
    fn span(
        &mut self,
        track: Track,
        activity: Activity,
        (begin, end): (SimTime, SimTime),
        operation: Option<u32>,
        command: Option<u32>,
    ) {
        let (begin, end) = (begin.max(self.window.from), end.min(self.window.to));
        if begin < end {
            self.spans.push(TimelineSpan { track, activity, begin, end, operation, command });
        }
    }

    /// The place of a flash operation in `operations`.
    fn operation(&mut self, shared: &Shared, op: u32) -> u32 {
        let record = &shared.scheduler.ops[op];
        match self.known_operations.get(op as usize).copied().flatten() {
            Some((since, at)) if since == record.since => {
                let units = &mut self.operations[at as usize].units;
                // Others have joined it since.
                *units = record.units.max(*units);
                at
            }
            _ => {
                let at = self.operations.len() as u32;
                self.operations.push(operation_of(record));
                self.know(op, record.since, at);
                at
            }
        }
    }

    /// Returns whether a flash operation is, or may still come to be, in the record.
    fn records(&self, shared: &Shared, op: u32) -> bool {
        let since = shared.scheduler.ops[op].since;
        !self.is_over
            || self.known_operations.get(op as usize).copied().flatten().is_some_and(|known| known.0 == since)
    }

    fn know(&mut self, op: u32, since: SimTime, at: u32) {
        if self.known_operations.len() <= op as usize {
            self.known_operations.resize(op as usize + 1, None);
        }
        self.known_operations[op as usize] = Some((since, at));
    }

    /// The place of a command in `commands`; `None`: it is over, or the drive gave it to itself.
    fn command(&mut self, shared: &Shared, work: u32) -> Option<u32> {
        let record = &shared.works[work];
        if !record.live || record.inner.is_some() {
            return None;
        }
        if self.known_commands.len() <= work as usize {
            self.known_commands.resize(work as usize + 1, None);
        }
        let known = &mut self.known_commands[work as usize];
        if self.is_over {
            return *known;
        }
        Some(*known.get_or_insert_with(|| {
            let command = command_of(record, record.status, record.submitted, StageTimes::ZERO);
            self.commands.push(Seen { command, ended: false });
            self.commands.len() as u32 - 1
        }))
    }

    /// Returns whether a completed command belongs into the record.
    fn is_wanted(&self, command: &TimelineCommand) -> bool {
        let window = &self.window;
        let latency = command.completed.since(command.submitted);
        latency >= window.slower_than && command.submitted < window.to && command.completed >= window.from
    }

    /// Throws out what turned out not to be wanted; when too much is left, the window ends.
    fn sweep(&mut self, shared: &Shared) {
        let live = shared.works.iter().filter(|work| work.live).map(|work| work.submitted);
        self.keep(|_| true, live.min().unwrap_or(shared.now), true);
        let entries = self.spans.len() + self.commands.len();
        if entries >= self.window.entries_max && shared.now < self.window.to {
            (self.window.to, self.is_full) = (shared.now, true);
        }
        let left = entries + self.operations.len();
        let room = self.window.entries_max.saturating_sub(entries);
        self.sweep_at = left + if room == 0 { SWEEP } else { left.max(SWEEP).min(room) };
    }

    /// Keeps commands that are wanted, among those that have not ended those that `keep` names; and spans that end after `oldest` or
    /// overlap such a command. `live`: operations that may go on are kept.
    fn keep(&mut self, keep: impl Fn(&Seen) -> bool, oldest: SimTime, live: bool) {
        let wanted = |seen: &Seen| if seen.ended { self.is_wanted(&seen.command) } else { keep(seen) };
        let commands = renumbered(self.commands.iter().map(wanted));
        if self.window.slower_than.0 > 0 {
            let slow = self.commands.iter().filter(|seen| seen.ended && self.is_wanted(&seen.command));
            let slow = merged(slow.map(|seen| (seen.command.submitted, seen.command.completed)).collect());
            self.spans.retain(|span| span.end > oldest || overlaps(&slow, span));
        }
        let mut used = vec![false; self.operations.len()];
        self.spans.iter().filter_map(|span| span.operation).for_each(|at| used[at as usize] = true);
        if live {
            self.known_operations.iter().flatten().for_each(|&(_, at)| used[at as usize] = true);
        } else {
            self.known_operations.clear();
        }
        let operations = renumbered(used.into_iter());
        let mut at = 0;
        self.commands.retain(|_| {
            at += 1;
            commands[at - 1].is_some()
        });
        at = 0;
        self.operations.retain_mut(|operation| {
            at += 1;
            let of = |command: &u32| commands[*command as usize];
            operation.commands = operation.commands.iter().filter_map(of).collect();
            operations[at - 1].is_some()
        });
        for span in &mut self.spans {
            span.operation = span.operation.and_then(|at| operations[at as usize]);
            span.command = span.command.and_then(|at| commands[at as usize]);
        }
        for known in self.known_operations.iter_mut().flatten() {
            known.1 = operations[known.1 as usize].expect("operations that go on are kept");
        }
        for known in &mut self.known_commands {
            *known = known.and_then(|at| commands[at as usize]);
        }
        for open in self.ways.iter_mut().flatten() {
            open.operation = operations[open.operation as usize].expect("operations that go on are kept");
        }
        self.stored.retain(|_, waiting| {
            *waiting = waiting.iter().filter_map(|&command| commands[command as usize]).collect();
            !waiting.is_empty()
        });
    }
}

/// The new number of each thing that is kept.
fn renumbered(kept: impl Iterator<Item = bool>) -> Vec<Option<u32>> {
    let mut next = 0;
    let number = |kept: bool| {
        next += u32::from(kept);
        kept.then(|| next - 1)
    };
    kept.map(number).collect()
}

/// Intervals in order, those that touch made one.
fn merged(mut intervals: Vec<(SimTime, SimTime)>) -> Vec<(SimTime, SimTime)> {
    intervals.sort_unstable();
    let mut merged: Vec<(SimTime, SimTime)> = Vec::new();
    for (begin, end) in intervals {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

/// Returns whether a span overlaps one of the intervals.
fn overlaps(intervals: &[(SimTime, SimTime)], span: &TimelineSpan) -> bool {
    let at = intervals.partition_point(|&(_, end)| end <= span.begin);
    intervals.get(at).is_some_and(|&(begin, _)| begin < span.end)
}

fn operation_of(op: &FlashOp) -> TimelineOperation {
    TimelineOperation {
        kind: op.kind.into(),
        cause: op.cause,
        namespace: op.owner.namespace,
        first: op.ppa,
        units: op.units,
        commands: Vec::new(),
    }
}

fn command_of(work: &Work, status: Status, completed: SimTime, stages: StageTimes) -> TimelineCommand {
    let command = &work.command;
    TimelineCommand {
        opcode: command.opcode,
        namespace: command.namespace,
        lba: command.lba,
        sectors: command.sectors,
        status,
        submitted: work.submitted,
        completed,
        stages,
    }
}
