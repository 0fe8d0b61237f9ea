//! The scheduler as a polling firmware sees it: registers and words in memory, looked at when the loop comes by.
//!
//! ```text
//!  reservation station          controller of the channel           status checker
//!  queue of the way ─► list ─► [control words it holds] ─► bus, array ─► ready ─► list ─► [..] ─► word set ─► sensed
//!                   look     issue                                        look      issue          look
//!  read transfer:      list ─► [..] ─► bus, decode ─► flag set ─────────────────────────────────────────► sensed
//! ```
//! The hardware only sets bits here; nothing follows from them until [`Scheduler::look`]. A way keeps its operation until
//! its end is sensed, so a die whose work is done stays idle for as long as the loop is elsewhere. There is a list for each
//! class of Table 2, first in, first out. A look issues at most one operation of each class: to the public firmware, the way
//! that it has just moved to another list is the last one of its own. The controller carries out control words in the order
//! in which it got them; its register says that it is busy only while its queue (section 3.2) is full.
//!
//! A way's own register says that it is ready as long as its array does not work: also while its command still waits in the
//! controller. A status check may therefore come too early. Its word is read once the way is ready again, says that nothing has
//! ended, and the way is asked once more (public firmware and controller).
//!
//! ```text
//!  command issued ─► checking ──ready──► check issued ─► reporting ──word set──► sensed
//!                       ▲                                    │
//!                       └────────── the check was early ─────┘
//! ```
//!
//! Time is booked as Cosmos+ section 6.4 measures it. Until it is issued an operation waits in the reservation station
//! (firmware); from there to the sensed end it is the storage controller's, but for the processor's own work on it. A read has
//! ended for the firmware when it has read the error information: only then does it know how.

use super::channel::Channel;
use super::{OpKind, Phase, Scheduler, Step};
use crate::events::{Event, Events};
use pellucid_flash::{Nanos, SimTime, Stage};

/// The ways of one channel, a bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    /// A new operation stands at the head of the queue and is not listed yet.
    fresh: u64,
    /// Data and command are with the controller or the array works: asked for its status once it is ready.
    checking: u64,
    /// Ways in `checking` that the last look found ready: their status check waits to be issued.
    asks: u64,
    /// Ways whose status check the processor issues now.
    asked: u64,
    /// A status check is with the controller.
    inquired: u64,
    /// Ways whose operation was suspended after its status check was issued: the answer is ignored.
    stale: u64,
    /// A status check or a transfer was issued: its word or flag is read, while the way is ready, until it is set.
    reporting: u64,
    /// The array works: the way is not ready, says the register. It is ready while its command waits in the controller.
    busy: u64,
    /// The array has ended.
    ended: u64,
    /// The word or flag is set.
    reported: u64,
    /// The status check came before the array had ended.
    early: u64,
    /// Seen by the last look and not handled yet.
    sensed: u64,
}

/// Reads of one look at a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookReads {
    pub registers: u32,
    /// Status words and completion flags in memory.
    pub words: u32,
    /// Entries of lists.
    pub ways: u32,
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

    /// The operation of `die` is suspended: nothing that is known of it holds for the next one.
    pub(super) fn set_aside(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        for mask in [
            &mut ways.checking,
            &mut ways.asks,
            &mut ways.reporting,
            &mut ways.busy,
            &mut ways.ended,
            &mut ways.reported,
            &mut ways.early,
        ] {
            *mask &= !bit;
        }
        ways.stale |= ways.inquired & bit;
    }

    /// The suspended operation of `die` goes on.
    pub(super) fn goes_on(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.checking |= bit;
        ways.busy |= bit;
    }

    /// The array of `die` begins to work.
    pub(super) fn array_works(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.busy |= bit;
    }

    /// It has ended.
    pub(super) fn ready(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.busy &= !bit;
        ways.ended |= bit;
    }

    pub(super) fn reported(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.reported |= bit;
    }

    /// The controller asks `die` for its status.
    fn ask(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &self.dies[die as usize];
        let (op, channel) = (d.current, d.channel);
        let (ways, bit) = self.ways(die);
        if ways.ended & !ways.stale & bit != 0 {
            self.ops[op].book(Stage::WaitChannel, now);
        }
        let status = self.status;
        let c = &mut self.channels[channel as usize];
        (c.die, c.asks) = (Some(die), true);
        c.carry(now, status);
        self.active.1 += 1;
        events.at(now + status, Event::Channel(channel));
    }

    /// The status of `die` is in its word.
    pub(super) fn asked(&mut self, now: SimTime, die: u32) {
        let op = self.dies[die as usize].current;
        let (ways, bit) = self.ways(die);
        ways.inquired &= !bit;
        if ways.stale & bit != 0 {
            ways.stale &= !bit;
            return;
        }
        ways.reported |= bit;
        if ways.ended & bit == 0 {
            ways.early |= bit;
        } else {
            self.ops[op].book(Stage::Transfer, now);
        }
    }

    /// Returns whether any operation is in the reservation station.
    pub fn occupied(&self) -> bool {
        self.ops.in_use() > 0
    }

    /// Returns whether a look at any channel would find nothing new and nothing to issue.
    pub fn nothing_new(&self) -> bool {
        self.channels.iter().all(|c| {
            let ways = &c.seen;
            let asked = match self.status {
                Nanos::ZERO => ways.checking & ways.ended,
                _ => ways.checking & !ways.busy & !ways.inquired & !ways.asks,
            };
            (ways.fresh | asked | (ways.reported & !ways.busy) | ways.sensed) == 0
                && (!self.accepts(c) || (ways.asks == 0 && c.wants.iter().all(|&w| w == 0)))
        })
    }

    /// Channels.
    pub fn channels(&self) -> u32 {
        self.channels.len() as u32
    }

    /// Returns the reads that a look at `channel` makes. Registers: ready/busy if a word or flag is awaited; the controller's own state if
    /// any way is not idle and not awaiting one; and if the controller takes more, ready/busy again for the ways that may be asked for
    /// their status. Words: the awaited ones of ready ways. Ways: the entries of the lists that are scanned from end to end, which are idle
    /// ways (for further operations in the reservation station), ways that await a word, and ways that may be asked; so the scheduler's
    /// work grows with the ways (sections 3.3.3 and 6.4).
    pub fn reads_of_look(&self, channel: u32) -> LookReads {
        let c = &self.channels[channel as usize];
        let wanted = c.wants.iter().fold(0, |all, &wants| all | wants);
        let asked = c.seen.checking;
        let active = (c.seen.checking | c.seen.fresh | wanted) != 0;
        let asked = if self.accepts(c) { asked } else { 0 };
        let registers = [c.seen.reporting != 0, active, asked != 0];
        let ways = (self.dies.len() / self.channels.len()) as u32;
        let idle = ways - (c.seen.reporting | c.seen.checking | wanted).count_ones();
        LookReads {
            registers: registers.map(u32::from).iter().sum(),
            words: (c.seen.reporting & !c.seen.busy).count_ones(),
            ways: idle + c.seen.reporting.count_ones() + asked.count_ones(),
        }
    }

    /// Looks at `channel`: lists new heads, asks ready ways for their status, and notes what has ended.
    pub fn look(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        let first = channel * (self.dies.len() / self.channels.len()) as u32;
        let ways = self.channels[channel as usize].seen;
        for bit in bits(ways.fresh) {
            self.list(now, first + bit, events);
        }
        let unchecked = self.status == Nanos::ZERO;
        let c = &mut self.channels[channel as usize];
        c.issued = 0;
        let ways = &mut c.seen;
        ways.fresh = 0;
        // The word of a way that is not ready is not read.
        let reported = ways.reported & !ways.busy;
        let early = reported & ways.early;
        let sensed = if unchecked { ways.checking & ways.ended } else { 0 } | (reported & !early);
        ways.reported &= !reported;
        ways.early &= !early;
        ways.reporting &= !reported;
        ways.checking = (ways.checking & !sensed) | early;
        ways.sensed |= sensed;
        if !unchecked {
            ways.asks = ways.checking & !ways.busy & !ways.inquired;
        }
    }

    /// The operation at the head of the queue of `die` waits to be issued from now on.
    fn list(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let op = self.dies[die as usize].current;
        self.ops[op].book(Stage::WaitWay, now);
        self.want(now, die, Phase::Command, events);
    }

    /// An operation has ended; if its way has another one, that is listed at once.
    pub(super) fn next_of_way(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let (ways, bit) = self.ways(die);
        if ways.fresh & bit != 0 {
            ways.fresh &= !bit;
            self.list(now, die, events);
        }
    }

    /// The next operation of `channel` whose end was sensed; the processor turns to it.
    pub fn next_sensed(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        let first = channel * (self.dies.len() / self.channels.len()) as u32;
        let bit = self.first_listed(channel, self.channels[channel as usize].seen.sensed)?;
        self.channels[channel as usize].seen.sensed &= !(1 << bit);
        let d = &self.dies[(first + bit) as usize];
        if d.wanted != Phase::Transfer {
            self.ops[d.current].book(Stage::Media, now);
        }
        Some(first + bit)
    }

    /// Returns whether the operation that ended in `die` is a transfer of read data.
    pub fn has_data(&self, die: u32) -> bool {
        self.dies[die as usize].wanted == Phase::Transfer
    }

    /// The processor has dealt with the end of the operation of `die`.
    pub fn sensed(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &self.dies[die as usize];
        let op = d.current;
        if d.wanted == Phase::Transfer {
            self.ops[op].book(Stage::Transfer, now);
            self.vacate(now, die);
            self.steps.push(Step::DataOut(op));
            self.kick_die(now, die, events);
            self.next_of_way(now, die, events);
        } else {
            self.steps.push(Step::ArrayDone(op));
        }
    }

    /// If the controller of `channel` takes another control word: the die whose operation or status check the processor begins to
    /// issue. One look issues at most one of each class, that which has been in its list for longest.
    pub fn next_issue(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        let c = &self.channels[channel as usize];
        if !self.accepts(c) {
            return None;
        }
        let (asks, first_class) = (c.seen.asks, self.classes[0]);
        let left = c.wants.iter().enumerate().skip(c.issued);
        let of_class = |(class, &wants)| (class, if class == first_class { wants | asks } else { wants });
        let (class, wants) = left.map(of_class).find(|&(_, wants)| wants != 0)?;
        let bit = self.first_listed(channel, wants)?;
        let die = channel * (self.dies.len() / self.channels.len()) as u32 + bit;
        let c = &mut self.channels[channel as usize];
        c.issued = class + 1;
        if c.wants[class] & (1 << bit) == 0 {
            c.seen.asks &= !(1 << bit);
            c.seen.asked |= 1 << bit;
        } else {
            c.wants[class] &= !(1 << bit);
            let op = self.dies[die as usize].current;
            self.ops[op].book(Stage::WaitWay, now);
        }
        Some(die)
    }

    /// Returns whether the controller of a channel takes another control word.
    fn accepts(&self, channel: &Channel) -> bool {
        channel.die.is_none() || channel.queue.len() < self.queue
    }

    /// Returns whether the operation being issued for `die` is a status check.
    fn is_checked(&self, die: u32) -> bool {
        let d = &self.dies[die as usize];
        self.channels[d.channel as usize].seen.asked >> d.bit & 1 != 0
    }

    /// Returns the way among `ways` of a channel that has been in its list for longest.
    fn first_listed(&self, channel: u32, ways: u64) -> Option<u32> {
        let first = channel * (self.dies.len() / self.channels.len()) as u32;
        bits(ways).min_by_key(|bit| self.dies[(first + bit) as usize].listed)
    }

    /// `die` goes to the end of a list.
    pub(super) fn put_last(&mut self, die: u32) {
        self.listings += 1;
        self.dies[die as usize].listed = self.listings;
    }

    /// Registers that the control word of what `die` wants has: a status check has way, place of the result and command; a
    /// trigger and an erase way, row and command; a write two addresses of data more; a read transfer the places of data,
    /// spare, error information and completion flag beside way, row and command.
    pub fn registers(&self, die: u32) -> u32 {
        let d = &self.dies[die as usize];
        match (d.wanted, self.ops[d.current].kind) {
            _ if self.is_checked(die) => 3,
            (Phase::Transfer, _) => 7,
            (_, OpKind::Program) => 5,
            (_, OpKind::Read | OpKind::Erase | OpKind::Copyback) => 3,
        }
    }

    /// The processor has issued the operation of `die`; gives its channel.
    pub fn issue(&mut self, now: SimTime, die: u32, events: &mut Events) -> u32 {
        let checked = self.is_checked(die);
        let d = &self.dies[die as usize];
        let (op, wanted, channel) = (d.current, d.wanted, d.channel);
        if checked {
            self.inquire(die);
        } else {
            self.ops[op].book(Stage::Firmware, now);
            let first = self.ops[op].pages == 0;
            let (ways, bit) = self.ways(die);
            match wanted {
                // The data of one page follow those of the other.
                Phase::Command if !first => {}
                Phase::Command => {
                    ways.checking |= bit;
                    ways.ended &= !bit;
                }
                _ => ways.reporting |= bit,
            }
        }
        self.put_last(die);
        let c = &mut self.channels[channel as usize];
        match (c.die, checked) {
            (Some(_), _) => c.queue.push_back((die, checked)),
            (None, true) => self.ask(now, die, events),
            (None, false) => self.occupy(now, die, events),
        }
        channel
    }

    /// A status check of `die` is issued, unless its operation was suspended meanwhile: then the check is of no use.
    fn inquire(&mut self, die: u32) {
        let (ways, bit) = self.ways(die);
        ways.asked &= !bit;
        ways.inquired |= bit;
        if ways.checking & bit == 0 {
            ways.stale |= bit;
        } else {
            ways.checking &= !bit;
            ways.reporting |= bit;
        }
    }

    /// The controller of `channel` has carried out a control word: it turns to the next one that it holds.
    pub(super) fn next_word(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        match self.channels[channel as usize].queue.pop_front() {
            Some((die, true)) => self.ask(now, die, events),
            Some((die, false)) => {
                let op = self.dies[die as usize].current;
                self.ops[op].book(Stage::WaitChannel, now);
                self.occupy(now, die, events);
            }
            None => {}
        }
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
