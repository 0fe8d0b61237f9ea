//! The way of an operation through its die and channel, for both issuers.
//!
//! ```text
//!  queue of the die ─► begin ─► want ─► occupy ─► channel_done ─► (array) ─► array_done ─► want ─► occupy ─► channel_done ─► vacate
//!       ▲                        │                    │ next page                                                             │
//!       │                        └──── is_free ◄──────┘                                                                       │
//!       └─────────────────────────────────────────── kick_die ◄───────────────────────────────────────────────────────────────┘
//! ```
//! Invariants: those of [`super`].

use super::die::Phase;
use super::issuer::Issuer;
use super::operation::OpKind;
use super::suspension::Verdict;
use super::{Scheduler, Step, planes};
use crate::events::{Event, Events};
use pellucid_flash::{SimTime, Stage};

impl Scheduler {
    /// Puts an operation into the queue of its die, or begins it.
    #[inline(always)]
    pub(super) fn join<I: Issuer>(&mut self, now: SimTime, op: u32, ahead: bool, events: &mut Events) {
        let die = self.assign(op);
        self.ops[op].mark = now;
        if let Some(room) = &mut self.room {
            room.push(&mut self.ops, op);
            return self.leave_room::<I>(now, events);
        }
        let ahead = ahead && self.read_first;
        let d = &mut self.dies[die as usize];
        if self.planes == 1 && d.is_at_rest() {
            d.set_hurries(ahead);
            return self.begin::<I>(now, die, op, events);
        }
        if ahead {
            d.wait_ahead(&mut self.ops, op);
            if I::GIVES_WAY {
                self.step_aside(now, die);
            }
        } else {
            let first = d.first();
            self.dies[first as usize].wait(&mut self.ops, op);
        }
        self.kick_die::<I>(now, die, events);
        if ahead {
            self.try_suspend(now, die, events);
        }
    }

    /// Puts an operation before all others of its die.
    pub(super) fn join_again<I: Issuer>(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.assign(op);
        self.ops[op].mark = now;
        self.put_first(die, op);
        self.kick_die::<I>(now, die, events);
    }

    /// Records and returns the queue of `op`.
    #[inline(always)]
    fn assign(&mut self, op: u32) -> u32 {
        let record = &mut self.ops[op];
        record.plane = record.die;
        if self.planes > 1 {
            record.plane = self.plane_units.queue_of(record);
        }
        record.plane
    }

    /// `op` is the next of those that do not go ahead of others at `die`.
    fn put_first(&mut self, die: u32, op: u32) {
        let d = &mut self.dies[die as usize];
        match self.planes > 1 && self.ops[op].kind == OpKind::Read {
            true => d.wait_for_plane_first(&mut self.ops, op),
            false => d.wait_first(&mut self.ops, op),
        }
    }

    /// Starts the next operation of a die, if the die is idle and has one.
    #[inline(always)]
    pub(super) fn kick_die<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) {
        if self.planes > 1 {
            planes::kick::<I>(self, now, die, events);
        } else if self.dies[die as usize].is_idle() {
            self.begin_next::<I>(now, die, events);
            self.leave_room::<I>(now, events);
        }
    }

    /// Begins operations from the head of the room while their dies are idle.
    #[inline]
    fn leave_room<I: Issuer>(&mut self, now: SimTime, events: &mut Events) {
        while let Some(op) = self.room.as_mut().and_then(|room| room.pop(&mut self.ops, &self.dies)) {
            self.begin::<I>(now, self.ops[op].plane, op, events);
        }
    }

    /// An idle die takes its next operation, if one waits.
    #[inline]
    fn begin_next<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        let op = match d.pop_hurried(&mut self.ops) {
            Some(op) => op,
            None if d.has_suspended() => return self.resume::<I>(now, die, events),
            None => match d.pop(&mut self.ops) {
                Some(op) => op,
                None => return,
            },
        };
        self.begin::<I>(now, die, op, events);
    }

    /// `op` becomes the current operation of an idle die.
    #[inline(always)]
    pub(super) fn begin<I: Issuer>(&mut self, now: SimTime, die: u32, op: u32, events: &mut Events) {
        self.dies[die as usize].begins(op);
        I::begun(self, now, die, op, events);
    }

    /// The channel has brought the first command of the current operation of `die`.
    #[inline(always)]
    pub(super) fn begin_work(&mut self, now: SimTime, die: u32) {
        let mut d = &mut self.dies[die as usize];
        d.begins_work();
        if self.planes > 1 {
            let first = d.first();
            d = &mut self.dies[first as usize];
        }
        self.working_dies += u32::from(d.plane_works(now));
    }

    /// The current operation of `die` needs its channel. Its times are booked up to now.
    #[inline]
    pub(super) fn want<I: Issuer>(&mut self, now: SimTime, die: u32, what: Phase, events: &mut Events) {
        self.dies[die as usize].wants(what);
        let class = self.class(die);
        I::wanted(self, now, die, class, events);
    }

    /// The class in which the current operation of `die` wants its channel.
    #[inline]
    fn class(&self, die: u32) -> usize {
        let d = &self.dies[die as usize];
        let class = match (d.wanted(), self.ops[d.current()].kind) {
            (Phase::Status, _) => 0,
            (Phase::Transfer, _) => 4,
            (_, OpKind::Read | OpKind::Copyback) => 1,
            (_, OpKind::Erase) => 2,
            (_, OpKind::Program) => 3,
        };
        self.classes[class]
    }

    /// The channel carries what the current operation of `die` wants it for.
    #[inline]
    pub(super) fn occupy<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        d.is_served();
        let (op, channel, is_first) = (&self.ops[d.current()], d.channel(), !d.works());
        let time = match (d.wanted(), op.kind) {
            (Phase::Status, _) => self.transfers.status(),
            (Phase::Transfer, _) => self.transfers.read(now, channel, op, I::WORD_BEFORE_DATA),
            (_, OpKind::Program) => self.transfers.program(now, op),
            _ => self.transfers.command(),
        };
        self.channels[channel as usize].carry(die, now, time);
        self.busy_channels += 1;
        if is_first {
            self.begin_work(now, die);
        }
        events.at(now + time, Event::Channel(channel));
    }

    /// Deals with the end of the transfer on `channel`.
    #[inline(always)]
    pub(super) fn carried_over<I: Issuer>(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        let die = self.channels[channel as usize].end();
        self.busy_channels -= 1;
        if I::was_asked(self, now, channel, die, events) {
            return;
        }
        let d = &mut self.dies[die as usize];
        let (op, phase) = (d.current(), d.phase());
        self.ops[op].book(Stage::Transfer, now);
        if self.transfers.in_pages() && self.next_page::<I>(now, die, events) {
            return;
        }
        let d = &mut self.dies[die as usize];
        match phase {
            Phase::Command => {
                d.starts_array();
                self.steps.push(Step::Array(op));
                I::array_begins(self, die);
            }
            Phase::Status => {
                d.holds();
                self.steps.push(Step::ArrayDone(op));
            }
            _ => {
                let decode = self.transfers.read_ended(now, channel);
                I::data_out(self, now, die, op, decode, events);
            }
        }
        I::is_free(self, now, channel, events);
    }

    /// A page of the data of `die` has crossed. If another one follows: lets it cross, at once or after others; `true`.
    #[inline]
    fn next_page<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) -> bool {
        let d = &self.dies[die as usize];
        let (channel, phase) = (d.channel(), d.phase());
        let op = &mut self.ops[d.current()];
        let pages = match (phase, op.kind) {
            (Phase::Command, OpKind::Program) => self.transfers.pages_of_program(),
            (Phase::Transfer, _) => self.transfers.pages_of_read(op),
            _ => 1,
        };
        if op.pages + 1 >= pages {
            op.pages = 0;
            return false;
        }
        op.pages += 1;
        if phase == Phase::Transfer {
            self.transfers.page_ended(now, channel);
        }
        // A program half of which is in its die takes precedence over one that has not begun; reads take turns.
        let others = self.class(die) + usize::from(phase == Phase::Transfer);
        match self.channels[channel as usize].is_wanted_before(others) {
            true => self.want::<I>(now, die, phase, events),
            false => self.occupy::<I>(now, die, events),
        }
        true
    }

    /// The array operation of `die` should have ended now; a suspended one has not.
    #[inline(always)]
    pub(super) fn array_has_ended<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        if d.array_ends() != now {
            return self.try_suspend(now, die, events);
        }
        match d.phase() {
            Phase::Array => {
                let op = d.current();
                self.ops[op].book(Stage::Media, now);
                I::array_ended(self, now, die, op, events);
            }
            Phase::Suspending => {
                d.set_aside();
                I::suspended(self, die);
                self.vacate(now, die);
                self.kick_die::<I>(now, die, events);
            }
            _ => {}
        }
    }

    /// The operation of `die` is over; the die goes on with the next one.
    #[inline(always)]
    pub(super) fn go_on<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) {
        self.vacate(now, die);
        self.kick_die::<I>(now, die, events);
        I::ended(self, now, die, events);
    }

    /// The current operation of `die` has left it.
    #[inline(always)]
    pub(super) fn vacate(&mut self, now: SimTime, die: u32) {
        let mut d = &mut self.dies[die as usize];
        let worked = d.vacate();
        if self.planes > 1 {
            let first = d.first();
            planes::is_idle(&mut self.dies, die);
            d = &mut self.dies[first as usize];
        }
        if worked {
            self.working_dies -= u32::from(d.plane_rests(now));
        }
    }

    /// An operation that has only waited for the channel so far gives way to a read that goes ahead, and is next again.
    #[inline]
    fn step_aside(&mut self, now: SimTime, die: u32) {
        let d = &self.dies[die as usize];
        let die = if self.dies[d.first() as usize].planes.are_whole() { d.first() } else { die };
        let d = &self.dies[die as usize];
        let op = d.current();
        let waits = d.phase() == Phase::Want && d.wanted() == Phase::Command && self.ops[op].pages == 0;
        if !waits || d.hurries() {
            return;
        }
        let class = self.class(die);
        let d = &mut self.dies[die as usize];
        self.channels[d.channel() as usize].withdraw(class, d.bit());
        d.vacate();
        d.planes.part();
        self.ops[op].book(Stage::WaitChannel, now);
        self.put_first(die, op);
    }

    /// If a host read waits for a running program or erase that can be suspended, suspends it now or as soon as that is
    /// allowed.
    pub(super) fn try_suspend(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let Some(suspension) = &mut self.suspension else { return };
        let die = self.dies[die as usize].first() as usize;
        let (d, planes) = (&self.dies[die], &self.dies[die..die + self.planes as usize]);
        if !suspension.may_concern(d, now) || !planes.iter().any(|plane| plane.has_hurried()) {
            return;
        }
        let op = d.current();
        let due = match suspension.judge(now, d, &self.ops[op]) {
            Verdict::GoesOn => return,
            Verdict::Later(at) => at,
            Verdict::Until(at) => {
                self.ops[op].book(Stage::Media, now);
                self.ops[op].suspensions += 1;
                self.dies[die].stops(now, at);
                at
            }
        };
        events.at(due, Event::Die(die as u32));
    }

    /// The suspended operation of an idle die goes on.
    pub(super) fn resume<I: Issuer>(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let suspension = self.suspension.as_ref().expect("what is suspended was allowed to be");
        let d = &mut self.dies[die as usize];
        let ends = suspension.resume(now, d);
        self.ops[d.current()].book(Stage::WaitWay, now);
        events.at(ends, Event::Die(die));
        self.begin_work(now, die);
        I::resumed(self, die);
    }
}
