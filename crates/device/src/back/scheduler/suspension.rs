//! A program or erase that gives way to host reads, and goes on behind them.
//!
//! ```text
//!            a host read waits                        no host read waits
//!  working ────────────────────► being suspended ──► suspended ──────────► being resumed ──► works ──► working
//!     │                                                                                      (gap)
//!     └─► ended
//! ```
//! A part can leave a pulse only so fast, an erase slower than a program. What is suspended over and over would never end: an
//! operation that was resumed works for a gap before it is suspended again, and is suspended only so often.
//!
//! Invariants: a read is never suspended; a die has at most one suspended operation; none is suspended that ends before the
//! suspension would.

use super::{Config, OpKind, Phase, Scheduler};
use crate::events::{Event, Events};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Nanos, SimTime, Stage};
use pellucid_media::Timing;

/// Times of suspending and resuming, and how often an operation may be suspended.
#[derive(Clone, Debug)]
pub(super) struct Suspension {
    program: Nanos,
    erase: Nanos,
    resume: Nanos,
    gap: Nanos,
    most: u32,
}

impl Suspension {
    /// `None`: operations are never suspended.
    pub fn new(config: &Config, timing: &Timing) -> Option<Suspension> {
        let program = timing.suspend_ns.filter(|_| config.suspend)?;
        Some(Suspension {
            program,
            erase: timing.suspend_erase_ns,
            resume: timing.resume_ns,
            gap: config.suspend_gap_ns,
            most: config.suspensions_max.unwrap_or(u32::MAX),
        })
    }
}

impl Scheduler {
    /// If a host read waits behind a running program or erase that may be suspended: does it, or comes back when it may.
    pub(super) fn try_suspend(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let Some(suspension) = &self.suspension else { return };
        let die = self.dies[die as usize].first;
        let d = &self.dies[die as usize];
        if d.phase != Phase::Array || d.suspended != NIL || d.array_ends <= now {
            return;
        }
        let time = match self.ops[d.current].kind {
            OpKind::Read => return,
            OpKind::Erase => suspension.erase,
            OpKind::Program | OpKind::Copyback => suspension.program,
        };
        if !self.reads_wait(die) {
            return;
        }
        let d = &mut self.dies[die as usize];
        let op = &mut self.ops[d.current];
        let begin = now.max(d.works_until);
        // Not worth it when the operation ends before the suspension would.
        if op.suspensions >= suspension.most || d.array_ends - now <= (begin - now) + time {
            return;
        }
        if begin > now {
            return events.at(begin, Event::Die(die));
        }
        op.book(Stage::Media, now);
        op.suspensions += 1;
        self.suspensions += 1;
        d.suspended_left = d.array_ends - now;
        d.phase = Phase::Suspending;
        d.array_ends = now + time;
        events.at(d.array_ends, Event::Die(die));
    }

    /// The suspended operation of an idle die goes on.
    pub(super) fn resume(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let suspension = self.suspension.as_ref().expect("what is suspended was allowed to be");
        let d = &mut self.dies[die as usize];
        d.current = std::mem::replace(&mut d.suspended, NIL);
        (d.phase, d.wanted) = (Phase::Array, Phase::Command);
        d.works_until = now + suspension.resume + suspension.gap;
        d.array_ends = now + suspension.resume + d.suspended_left;
        self.ops[d.current].book(Stage::WaitWay, now);
        events.at(d.array_ends, Event::Die(die));
        self.begin_work(now, die);
        if self.polled {
            self.goes_on(die);
        }
    }
}
