//! Suspension of a program or erase for host reads, after which it resumes.
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

use super::die::{Die, Phase};
use super::operation::{FlashOp, OpKind};
use crate::config::Scheduler as Config;
use pellucid_flash::{Nanos, SimTime};
use pellucid_media::Timing;

/// Times of suspending and resuming, how often an operation may be suspended, and how often any was.
#[derive(Clone, Debug)]
pub(super) struct Suspension {
    program: Nanos,
    erase: Nanos,
    resume: Nanos,
    gap: Nanos,
    most: u32,
    count: u64,
}

/// Fate of an operation that a read waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    GoesOn,
    /// It may be suspended at this time.
    Later(SimTime),
    /// Time at which the current suspension is complete.
    Until(SimTime),
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
            count: 0,
        })
    }

    /// Suspensions so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the die's current operation could be suspended for a waiting read.
    #[inline]
    pub fn may_concern(&self, die: &Die, now: SimTime) -> bool {
        die.phase() == Phase::Array && !die.has_suspended() && die.array_ends() > now
    }

    /// Handles a read that waits for the current operation of `die`, which can be suspended according to
    /// [`Suspension::may_concern`].
    pub fn judge(&mut self, now: SimTime, die: &Die, op: &FlashOp) -> Verdict {
        let time = match op.kind {
            OpKind::Read => return Verdict::GoesOn,
            OpKind::Erase => self.erase,
            OpKind::Program | OpKind::Copyback => self.program,
        };
        let begin = now.max(die.works_until());
        // Not worth it when the operation ends before the suspension would.
        if op.suspensions >= self.most || die.array_ends() - now <= (begin - now) + time {
            return Verdict::GoesOn;
        }
        if begin > now {
            return Verdict::Later(begin);
        }
        self.count += 1;
        Verdict::Until(now + time)
    }

    /// The suspended operation of an idle die goes on. When it ends.
    pub fn resume(&self, now: SimTime, die: &mut Die) -> SimTime {
        die.take_back(now, self.resume, self.gap)
    }
}
