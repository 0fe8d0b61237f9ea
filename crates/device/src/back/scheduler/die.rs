//! One die, or with independent plane reads one of its planes; the first plane also represents the die.
//!
//! ```text
//!           begins            want, occupy          starts_array        holds           vacate
//!  idle ──────────► (wanted) ─────────────► command ───────────► array ───────► held ─────────► idle
//!                                                                  │ set_aside ▲ take_back
//!                                                                  └─► suspended ──┘
//! ```
//! Invariants: an idle die has no current operation; at most one is suspended; a die works from the first command that the channel brings for an
//! operation until that operation has left it.

use super::operation::FlashOp;
use pellucid_flash::slab::{List, NIL, Slab};
use pellucid_flash::{Nanos, SimTime};

/// Where the current operation of a die is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Want,
    Command,
    Array,
    Suspending,
    Status,
    Held,
    Transfer,
}

/// How long a die has worked.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Number of planes of the die that work.
    planes: u32,
    /// Start of the current busy period.
    since: SimTime,
    /// Total length of the earlier ones.
    busy: Nanos,
}

/// Agreement of the independent planes of a die. Kept by the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planes {
    /// The current operation takes the whole die.
    whole: bool,
    /// No further read begins before the waiting whole-die operation has begun.
    draining: bool,
    /// No idle plane has a waiting read, so that a plane that ends or receives an operation need not ask the others.
    settled: bool,
}

impl Planes {
    /// Returns whether the current operation takes the whole die.
    #[inline]
    pub fn are_whole(&self) -> bool {
        self.whole
    }

    /// Returns whether no read that goes ahead of others begins.
    #[inline]
    pub fn drain(&self) -> bool {
        self.draining
    }

    /// Returns whether no idle plane has a waiting read.
    #[inline]
    pub fn are_settled(&self) -> bool {
        self.settled
    }

    /// Says whether no idle plane has a waiting read.
    #[inline]
    pub fn settle(&mut self, is_settled: bool) {
        self.settled = is_settled;
    }

    /// An operation takes the whole die.
    #[inline]
    pub fn take_whole(&mut self) {
        (self.whole, self.draining) = (true, false);
    }

    /// The operation that took the whole die gives way.
    #[inline]
    pub fn part(&mut self) {
        self.whole = false;
    }

    /// A plane has ended its operation. `awaited`: an operation waits for the whole die, and the plane has no other read.
    #[inline]
    pub fn rest(&mut self, awaited: bool) {
        self.draining |= !self.whole && awaited;
        self.whole = false;
    }
}

/// One die.
#[derive(Clone, Debug)]
pub(super) struct Die {
    channel: u32,
    bit: u32,
    first: u32,
    /// Reads that go ahead of others.
    reads: List,
    /// Queue of the die, in order (first plane only).
    rest: List,
    /// Reads of independent planes that have no priority and no longer wait for any operation in `rest`.
    later: List,
    /// Agreement of independent planes (first plane only).
    pub planes: Planes,
    current: u32,
    hurries: bool,
    phase: Phase,
    wanted: Phase,
    array_ends: SimTime,
    works_until: SimTime,
    suspended: u32,
    suspended_left: Nanos,
    works: bool,
    work: Work,
}

impl Die {
    /// Creates die `number`; a channel has `per_channel` of them, and each real die consists of `planes`.
    pub fn new(number: u32, per_channel: u32, planes: u32) -> Die {
        Die {
            channel: number / per_channel,
            bit: number % per_channel,
            first: number - number % planes,
            reads: List::default(),
            rest: List::default(),
            later: List::default(),
            planes: Planes::default(),
            current: NIL,
            hurries: false,
            phase: Phase::Idle,
            wanted: Phase::Idle,
            array_ends: SimTime::ZERO,
            works_until: SimTime::ZERO,
            suspended: NIL,
            suspended_left: Nanos::ZERO,
            works: false,
            work: Work::default(),
        }
    }

    /// Its channel.
    #[inline]
    pub fn channel(&self) -> u32 {
        self.channel
    }

    /// Its number on that channel.
    #[inline]
    pub fn bit(&self) -> u32 {
        self.bit
    }

    /// The first plane of its die; without independent plane reads itself.
    #[inline]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The current operation; [`NIL`]: none.
    #[inline]
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Where that is.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The channel phase that it waits for or is in.
    #[inline]
    pub fn wanted(&self) -> Phase {
        self.wanted
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns whether an operation is suspended here.
    #[inline]
    pub fn has_suspended(&self) -> bool {
        self.suspended != NIL
    }

    /// Returns whether the channel has brought the first command of the current operation.
    #[inline]
    pub fn works(&self) -> bool {
        self.works
    }

    /// Returns whether no operation is in progress, suspended or waiting.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.is_idle() && !self.has_suspended() && self.reads.is_empty() && self.rest.is_empty()
    }

    /// Returns whether the current operation went ahead of others.
    #[inline]
    pub fn hurries(&self) -> bool {
        self.hurries
    }

    /// The next operation to begin goes ahead of others, or does not.
    #[inline]
    pub fn set_hurries(&mut self, hurries: bool) {
        self.hurries = hurries;
    }

    /// A read that goes ahead of others waits.
    #[inline]
    pub fn wait_ahead(&mut self, ops: &mut Slab<FlashOp>, op: u32) {
        self.reads.push_back(ops, op);
    }

    /// Appends an operation to the queue of the die (first plane only).
    #[inline]
    pub fn wait(&mut self, ops: &mut Slab<FlashOp>, op: u32) {
        self.rest.push_back(ops, op);
    }

    /// As [`Die::wait`], before what is there.
    pub fn wait_first(&mut self, ops: &mut Slab<FlashOp>, op: u32) {
        self.rest.push_front(ops, op);
    }

    /// A read that does not go ahead of others waits for its plane alone.
    pub fn wait_for_plane(&mut self, ops: &mut Slab<FlashOp>, op: u32) {
        self.later.push_back(ops, op);
    }

    /// As [`Die::wait_for_plane`], before others that do.
    pub fn wait_for_plane_first(&mut self, ops: &mut Slab<FlashOp>, op: u32) {
        self.later.push_front(ops, op);
    }

    /// Returns whether a read that goes ahead of others waits.
    #[inline]
    pub fn has_hurried(&self) -> bool {
        !self.reads.is_empty()
    }

    /// The first operation in the queue of the die.
    #[inline]
    pub fn first_waiting(&self) -> Option<u32> {
        self.rest.first()
    }

    /// Returns whether a read that does not go ahead of others waits for this plane alone.
    #[inline]
    pub fn has_for_plane(&self) -> bool {
        !self.later.is_empty()
    }

    /// Takes the next operation of the queue of the die.
    #[inline]
    pub fn pop(&mut self, ops: &mut Slab<FlashOp>) -> Option<u32> {
        self.rest.pop(ops)
    }

    /// Takes the next read that waits for this plane alone.
    #[inline]
    pub fn pop_for_plane(&mut self, ops: &mut Slab<FlashOp>) -> Option<u32> {
        self.later.pop(ops)
    }

    /// Takes the next read with priority, and records whether another exists.
    #[inline]
    pub fn pop_hurried(&mut self, ops: &mut Slab<FlashOp>) -> Option<u32> {
        let op = self.reads.pop(ops);
        self.hurries = op.is_some();
        op
    }

    /// `op` is its current operation.
    #[inline]
    pub fn begins(&mut self, op: u32) {
        self.current = op;
    }

    /// The current operation needs the channel for `what`.
    #[inline]
    pub fn wants(&mut self, what: Phase) {
        (self.phase, self.wanted) = (Phase::Want, what);
    }

    /// The channel carries what it is wanted for.
    #[inline]
    pub fn is_served(&mut self) {
        self.phase = self.wanted;
    }

    /// Command and data are here: the array is to start.
    #[inline]
    pub fn starts_array(&mut self) {
        self.phase = Phase::Array;
    }

    /// The array works until `ends`; `works_until`: it is not suspended before.
    #[inline]
    pub fn array_works(&mut self, ends: SimTime, works_until: SimTime) {
        (self.array_ends, self.works_until) = (ends, works_until);
    }

    /// When the array ends.
    #[inline]
    pub fn array_ends(&self) -> SimTime {
        self.array_ends
    }

    /// Time before which the current operation is not suspended.
    pub fn works_until(&self) -> SimTime {
        self.works_until
    }

    /// The die waits for someone to deal with its operation.
    #[inline]
    pub fn holds(&mut self) {
        self.phase = Phase::Held;
    }

    /// The array stops, which is done at `ends`.
    pub fn stops(&mut self, now: SimTime, ends: SimTime) {
        self.suspended_left = self.array_ends - now;
        (self.phase, self.array_ends) = (Phase::Suspending, ends);
    }

    /// The current operation is suspended from now on.
    pub fn set_aside(&mut self) {
        self.suspended = self.current;
    }

    /// The suspended operation is the current one again, from `now` on; it takes `resume` longer, and works for `gap` then. When it ends.
    pub fn take_back(&mut self, now: SimTime, resume: Nanos, gap: Nanos) -> SimTime {
        self.current = std::mem::replace(&mut self.suspended, NIL);
        (self.phase, self.wanted) = (Phase::Array, Phase::Command);
        self.array_works(now + resume + self.suspended_left, now + resume + gap);
        self.array_ends
    }

    /// The current operation has left.
    #[inline]
    pub fn vacate(&mut self) -> bool {
        (self.current, self.phase) = (NIL, Phase::Idle);
        std::mem::take(&mut self.works)
    }

    /// The channel has brought the first command of the current operation.
    #[inline]
    pub fn begins_work(&mut self) {
        self.works = true;
    }

    /// A plane of this die works from `now` on; `true`: it is the first to do so (first plane only).
    #[inline]
    pub fn plane_works(&mut self, now: SimTime) -> bool {
        let is_first = self.work.planes == 0;
        if is_first {
            self.work.since = now;
        }
        self.work.planes += 1;
        is_first
    }

    /// A plane of this die has ended its work; `true`: it was the last (first plane only).
    #[inline]
    pub fn plane_rests(&mut self, now: SimTime) -> bool {
        self.work.planes -= 1;
        let was_last = self.work.planes == 0;
        if was_last {
            self.work.busy += now - self.work.since;
        }
        was_last
    }

    /// How long it has worked up to `now` (first plane only).
    pub fn busy(&self, now: SimTime) -> Nanos {
        let current = if self.work.planes == 0 { Nanos::ZERO } else { now.since(self.work.since) };
        self.work.busy + current
    }

    /// Forgets all operations (power cut); busy times are kept.
    pub fn reset(&mut self, now: SimTime) {
        self.work = Work { busy: self.busy(now), ..Work::default() };
        self.vacate();
        self.suspended = NIL;
        self.planes = Planes::default();
        (self.reads, self.rest, self.later) = (List::default(), List::default(), List::default());
    }
}
