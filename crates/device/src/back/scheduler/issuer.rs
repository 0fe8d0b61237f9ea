//! Issuers of flash operations: two of them over one state of channels and dies.
//!
//! ```text
//!                        event-driven                          polled (`poll.rs`)
//!  head of a die's queue takes the channel as soon as it can   waits until a look finds and issues it
//!  channel free          the best that wants it goes next      the controller's next control word
//!  array has ended       the drive is told                     a register says so, until a look reads it
//!  data are out          the die goes on, the drive is told    a flag says so, until a look reads it
//! ```
//! The path of an operation through its die and channel is written once (`flow.rs`); an issuer supplies the steps in which the two differ.
//! A drive has one issuer for its whole life, so each is compiled into its own path without run-time checks.

use super::die::Phase;
use super::operation::OpKind;
use super::{Scheduler, Step};
use crate::events::{Event, Events};
use pellucid_flash::{Nanos, SimTime, Stage};

/// Steps in which issuers differ. Each call follows a change of the scheduler's state, which is complete except for the
/// issuer's part.
pub(super) trait Issuer {
    /// A control word of its own goes before read data.
    const WORD_BEFORE_DATA: bool;
    /// An operation that has only waited for the channel gives way to a read that goes ahead.
    const GIVES_WAY: bool;

    /// `op` has become the current operation of `die`.
    fn begun(scheduler: &mut Scheduler, now: SimTime, die: u32, op: u32, events: &mut Events);

    /// The current operation of `die` wants its channel in a class.
    fn wanted(scheduler: &mut Scheduler, now: SimTime, die: u32, class: usize, events: &mut Events);

    /// The channel was busy with something that is no phase of an operation; `true`: that has ended, and all that follows was done.
    fn was_asked(
        scheduler: &mut Scheduler,
        now: SimTime,
        channel: u32,
        die: u32,
        events: &mut Events,
    ) -> bool;

    /// The channel has nothing to carry.
    fn is_free(scheduler: &mut Scheduler, now: SimTime, channel: u32, events: &mut Events);

    /// Command and data of the current operation are in `die`.
    fn array_begins(scheduler: &mut Scheduler, die: u32);

    /// The array of `die` has ended its operation `op`.
    fn array_ended(scheduler: &mut Scheduler, now: SimTime, die: u32, op: u32, events: &mut Events);

    /// The data of the current operation of `die` are out, and decoded after `decode`.
    fn data_out(
        scheduler: &mut Scheduler,
        now: SimTime,
        die: u32,
        op: u32,
        decode: Nanos,
        events: &mut Events,
    );

    /// The data of `op` are decoded.
    fn decoded(scheduler: &mut Scheduler, op: u32);

    /// The operation of `die` is over, and the next one has begun if there is one.
    fn ended(scheduler: &mut Scheduler, now: SimTime, die: u32, events: &mut Events);

    /// The operation of `die` is suspended: nothing that is known of it holds for the next one.
    fn suspended(scheduler: &mut Scheduler, die: u32);

    /// The suspended operation of `die` goes on.
    fn resumed(scheduler: &mut Scheduler, die: u32);
}

/// Hardware queues: each step starts as soon as it can, and an end tells itself.
pub(super) struct EventDriven;

impl Issuer for EventDriven {
    const WORD_BEFORE_DATA: bool = false;
    const GIVES_WAY: bool = true;

    #[inline(always)]
    fn begun(scheduler: &mut Scheduler, now: SimTime, die: u32, op: u32, events: &mut Events) {
        let record = &mut scheduler.ops[op];
        record.book(Stage::WaitWay, now);
        if scheduler.transfers.command() == Nanos::ZERO && record.kind != OpKind::Program {
            scheduler.dies[die as usize].starts_array();
            scheduler.steps.push(Step::Array(op));
            scheduler.begin_work(now, die);
        } else {
            scheduler.want::<EventDriven>(now, die, Phase::Command, events);
        }
    }

    #[inline(always)]
    fn wanted(scheduler: &mut Scheduler, now: SimTime, die: u32, class: usize, events: &mut Events) {
        let d = &scheduler.dies[die as usize];
        let (channel, bit) = (d.channel(), d.bit());
        let c = &mut scheduler.channels[channel as usize];
        if c.take_at_once(class, bit) {
            return scheduler.occupy::<EventDriven>(now, die, events);
        }
        c.want(class, bit);
        EventDriven::is_free(scheduler, now, channel, events);
    }

    #[inline(always)]
    fn was_asked(_: &mut Scheduler, _: SimTime, _: u32, _: u32, _: &mut Events) -> bool {
        false
    }

    #[inline]
    fn is_free(scheduler: &mut Scheduler, now: SimTime, channel: u32, events: &mut Events) {
        if let Some(bit) = scheduler.channels[channel as usize].choose() {
            let die = channel * scheduler.dies_per_channel + bit;
            let op = scheduler.dies[die as usize].current();
            scheduler.ops[op].book(Stage::WaitChannel, now);
            scheduler.occupy::<EventDriven>(now, die, events);
        }
    }

    #[inline(always)]
    fn array_begins(_: &mut Scheduler, _: u32) {}

    #[inline(always)]
    fn array_ended(scheduler: &mut Scheduler, now: SimTime, die: u32, op: u32, events: &mut Events) {
        if scheduler.transfers.status() == Nanos::ZERO {
            scheduler.dies[die as usize].holds();
            scheduler.steps.push(Step::ArrayDone(op));
        } else {
            scheduler.want::<EventDriven>(now, die, Phase::Status, events);
        }
    }

    #[inline(always)]
    fn data_out(
        scheduler: &mut Scheduler,
        now: SimTime,
        die: u32,
        op: u32,
        decode: Nanos,
        events: &mut Events,
    ) {
        scheduler.vacate(now, die);
        match decode {
            Nanos::ZERO => scheduler.steps.push(Step::DataOut(op)),
            decode => events.at(now + decode, Event::Decoded(op)),
        }
        scheduler.kick_die::<EventDriven>(now, die, events);
    }

    #[inline(always)]
    fn decoded(scheduler: &mut Scheduler, op: u32) {
        scheduler.steps.push(Step::DataOut(op));
    }

    #[inline(always)]
    fn ended(_: &mut Scheduler, _: SimTime, _: u32, _: &mut Events) {}

    #[inline(always)]
    fn suspended(_: &mut Scheduler, _: u32) {}

    #[inline(always)]
    fn resumed(_: &mut Scheduler, _: u32) {}
}
