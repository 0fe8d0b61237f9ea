//! The scheduler as a polling firmware sees it: registers and words in memory, looked at when the loop comes by.
//!
//! ```text
//!            (loop)             (loop)            (hardware)        (loop)               (loop)
//!  queued ─► look: listed ──► issue ──► running ─► ready ──► look: wants status ─► issue ─► reported ─► sensed
//!  read transfer:            issue ──► channel, decode ──────────────────────────────────► reported ─► sensed
//! ```
//! The hardware only sets bits here; nothing follows from them until [`Scheduler::look`]. A way keeps its operation until
//! its end is sensed, so a die whose work is done stays idle for as long as the loop is elsewhere.
//!
//! Time is booked as Cosmos+ section 6.4 measures it. Until the look that hands its way to the issuer an operation waits
//! for the way, in the reservation station (firmware); from there to the sensed end it is the storage controller's, but
//! for the processor's own work on it. Table 7 supports that the wait for a free controller counts as the latter's: were
//! it the firmware's, its part for 16 outstanding reads and 64 writes would be twice the published one.

use super::{OpKind, Phase, Scheduler, Step};
use crate::events::Events;
use pellucid_flash::{Nanos, SimTime, Stage};

/// The ways of one channel, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    /// A new operation stands at the head of the queue and is not listed yet.
    fresh: u64,
    /// Issued and not known to have ended: the ready/busy register is read for these.
    watched: u64,
    /// The array has ended, says the register.
    ready: u64,
    /// The word or flag is set.
    reported: u64,
    /// Seen by the last look and not handled yet.
    sensed: u64,
}

impl Scheduler {
    fn ways(&mut self, die: u32) -> (&mut Ways, u64) {
        let d = &self.dies[die as usize];
        (&mut self.channels[d.channel as usize].seen, 1 << d.bit)
    }

    pub(super) fn head_changed(&mut self, die: u32) {
        self.dies[die as usize].phase = Phase::Held;
        let (ways, bit) = self.ways(die);
        ways.fresh |= bit;
    }

    pub(super) fn ready(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.ready |= bit;
    }

    pub(super) fn reported(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.reported |= bit;
    }

    /// Whether any operation is in the reservation station.
    pub fn occupied(&self) -> bool {
        self.ops.in_use() > 0
    }

    /// Whether a look at any channel would find nothing that it does not know, and nothing to issue.
    pub fn nothing_new(&self) -> bool {
        self.channels.iter().all(|c| {
            let ways = &c.seen;
            (ways.fresh | ways.ready | ways.reported | ways.sensed) == 0
                && (c.die.is_some() || c.wants.iter().all(|&w| w == 0))
        })
    }

    /// Channels.
    pub fn channels(&self) -> u32 {
        self.channels.len() as u32
    }

    /// Registers that a look at `channel` reads: ready/busy if a way is watched, and the controller's own state if an
    /// operation wants to be issued. Status words and completion flags lie in memory; they are part of the visit.
    pub fn reads_of_look(&self, channel: u32) -> u32 {
        let c = &self.channels[channel as usize];
        let wanted = c.wants.iter().any(|&w| w != 0) || c.seen.fresh != 0;
        u32::from(c.seen.watched != 0) + u32::from(wanted)
    }

    /// Looks at `channel`: lists new heads, asks ready ways for their status, and notes what has ended.
    pub fn look(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        let first = channel * (self.dies.len() / self.channels.len()) as u32;
        let ways = self.channels[channel as usize].seen;
        for bit in bits(ways.fresh) {
            let op = self.dies[(first + bit) as usize].current;
            self.ops[op].book(Stage::WaitWay, now);
            self.want(now, first + bit, Phase::Command, events);
        }
        let checked = if self.status == Nanos::ZERO { 0 } else { ways.ready };
        for bit in bits(checked) {
            self.want(now, first + bit, Phase::Status, events);
        }
        let sensed = ways.reported | (ways.ready & !checked);
        let ways = &mut self.channels[channel as usize].seen;
        (ways.fresh, ways.ready, ways.reported) = (0, 0, 0);
        ways.watched &= !(sensed | checked);
        ways.sensed |= sensed;
    }

    /// The next operation of `channel` whose end was sensed; the processor turns to it.
    pub fn next_sensed(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        let first = channel * (self.dies.len() / self.channels.len()) as u32;
        let ways = &mut self.channels[channel as usize].seen;
        let bit = bits(ways.sensed).next()?;
        ways.sensed &= !(1 << bit);
        let d = &self.dies[(first + bit) as usize];
        let stage = if d.wanted == Phase::Transfer { Stage::Transfer } else { Stage::Media };
        self.ops[d.current].book(stage, now);
        Some(first + bit)
    }

    /// Whether what ended in `die` is a transfer of read data.
    pub fn has_data(&self, die: u32) -> bool {
        self.dies[die as usize].wanted == Phase::Transfer
    }

    /// The processor has dealt with the end of the operation of `die`.
    pub fn sensed(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &self.dies[die as usize];
        let op = d.current;
        if d.wanted == Phase::Transfer {
            self.vacate(now, die);
            self.steps.push_back(Step::DataOut(op));
            self.kick_die(now, die, events);
        } else {
            self.steps.push_back(Step::ArrayDone(op));
        }
    }

    /// If the controller of `channel` is free: the die whose operation the processor begins to issue.
    pub fn next_issue(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        self.choose(now, channel)
    }

    /// Registers that the control word of what `die` wants has: a status check has way, place of the result and command; a
    /// trigger and an erase way, row and command; a write two addresses of data more; a read transfer the places of data,
    /// spare, error information and completion flag beside way, row and command.
    pub fn registers(&self, die: u32) -> u32 {
        let d = &self.dies[die as usize];
        match (d.wanted, self.ops[d.current].kind) {
            (Phase::Transfer, _) => 7,
            (Phase::Status, _) => 3,
            (_, OpKind::Program) => 5,
            (_, OpKind::Read | OpKind::Erase | OpKind::Copyback) => 3,
        }
    }

    /// The processor has issued the operation of `die`; gives its channel.
    pub fn issue(&mut self, now: SimTime, die: u32, events: &mut Events) -> u32 {
        let d = &self.dies[die as usize];
        let (op, wanted, channel) = (d.current, d.wanted, d.channel);
        // A status check is part of how the end is sensed.
        let stage = if wanted == Phase::Status { Stage::WaitChannel } else { Stage::Firmware };
        self.ops[op].book(stage, now);
        let (ways, bit) = self.ways(die);
        ways.watched |= bit;
        self.occupy(now, die, events);
        channel
    }
}

/// The numbers of the bits that are set.
fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}
