//! The scheduler as seen by a polling firmware: registers and words in memory, read in each turn of the loop.
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
//! A way's register says ready whenever its array is idle, even while its command still waits in the controller. A status check
//! may therefore come too early. Its word is read once the way is ready again and says that no operation has ended, so the
//! status is requested once more (public firmware and controller).
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

use super::die::Phase;
use super::issuer::Issuer;
use super::operation::OpKind;
use super::{Scheduler, Step};
use crate::events::{Event, Events};
use pellucid_flash::{Nanos, SimTime, Stage};
use std::collections::VecDeque;

/// The ways of one channel, a bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
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

impl Ways {
    /// Ways whose status could be requested in the next poll; with `is_unchecked`, ways whose end the poll would find directly,
    /// because no status is requested.
    fn askable(&self, is_unchecked: bool) -> u64 {
        match is_unchecked {
            true => self.checking & self.ended,
            false => self.checking & !self.busy & !self.inquired & !self.asks,
        }
    }

    /// A look reads the words and flags of ways that are ready.
    fn look(&mut self, is_unchecked: bool) {
        self.fresh = 0;
        // The word of a way that is not ready is not read.
        let reported = self.reported & !self.busy;
        let early = reported & self.early;
        let sensed = if is_unchecked { self.checking & self.ended } else { 0 } | (reported & !early);
        self.reported &= !reported;
        self.early &= !early;
        self.reporting &= !reported;
        self.checking = (self.checking & !sensed) | early;
        self.sensed |= sensed;
        if !is_unchecked {
            self.asks = self.checking & !self.busy & !self.inquired;
        }
    }

    /// The operation of a way is suspended: nothing that is known of it holds for the next one.
    fn set_aside(&mut self, bit: u64) {
        for mask in [
            &mut self.checking,
            &mut self.asks,
            &mut self.reporting,
            &mut self.busy,
            &mut self.ended,
            &mut self.reported,
            &mut self.early,
        ] {
            *mask &= !bit;
        }
        self.stale |= self.inquired & bit;
    }

    /// A status check is issued, unless its operation was suspended meanwhile: then the check is of no use.
    fn inquire(&mut self, bit: u64) {
        self.asked &= !bit;
        self.inquired |= bit;
        if self.checking & bit == 0 {
            self.stale |= bit;
        } else {
            self.checking &= !bit;
            self.reporting |= bit;
        }
    }
}

/// The controller of a channel.
#[derive(Clone, Debug, Default)]
struct Controller {
    ways: Ways,
    /// The transfer under way is a status check.
    asks: bool,
    /// Dies with queued control words in addition to the one being executed, and whether the words are status
    /// checks.
    words: VecDeque<(u32, bool)>,
    /// First class from which this poll has issued nothing.
    issued: usize,
}

/// View that a polling firmware has of the channels, and the lists that it keeps.
#[derive(Clone, Debug)]
pub(super) struct Station {
    controllers: Vec<Controller>,
    /// Order in which each die was added to its present list.
    listed: Vec<u64>,
    listings: u64,
    /// Control words that a controller queues in addition to the one being executed.
    words: usize,
}

impl Station {
    /// Makes the station of channels and dies at rest.
    pub fn new(channels: u32, dies: u32, words: u32) -> Station {
        Station {
            controllers: vec![Controller::default(); channels as usize],
            listed: vec![0; dies as usize],
            listings: 0,
            words: words as usize,
        }
    }

    /// `die` goes to the end of a list.
    fn put_last(&mut self, die: u32) {
        self.listings += 1;
        self.listed[die as usize] = self.listings;
    }

    /// Returns whether the current transfer of `channel` is a status check.
    pub fn asks(&self, channel: u32) -> bool {
        self.controllers[channel as usize].asks
    }

    /// Clears its state (power cut); the order of the lists continues.
    pub fn reset(&mut self) {
        self.controllers.fill(Controller::default());
    }
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

/// The issuer of a polling firmware.
pub(super) struct Polled;

impl Issuer for Polled {
    const WORD_BEFORE_DATA: bool = true;
    const GIVES_WAY: bool = false;

    fn begun(scheduler: &mut Scheduler, _: SimTime, die: u32, _: u32, _: &mut Events) {
        scheduler.dies[die as usize].holds();
        let (ways, bit) = scheduler.ways(die);
        ways.fresh |= bit;
    }

    fn wanted(scheduler: &mut Scheduler, _: SimTime, die: u32, class: usize, _: &mut Events) {
        let d = &scheduler.dies[die as usize];
        scheduler.channels[d.channel() as usize].want(class, d.bit());
        scheduler.station_mut().put_last(die);
    }

    fn was_asked(
        scheduler: &mut Scheduler,
        now: SimTime,
        channel: u32,
        die: u32,
        events: &mut Events,
    ) -> bool {
        let was_asked = std::mem::take(&mut scheduler.controller(channel).asks);
        if was_asked {
            scheduler.answered(now, die);
            Polled::is_free(scheduler, now, channel, events);
        }
        was_asked
    }

    /// The controller has carried out a control word: it turns to the next one that it holds.
    fn is_free(scheduler: &mut Scheduler, now: SimTime, channel: u32, events: &mut Events) {
        match scheduler.controller(channel).words.pop_front() {
            Some((die, true)) => scheduler.ask(now, die, events),
            Some((die, false)) => {
                let op = scheduler.dies[die as usize].current();
                scheduler.ops[op].book(Stage::WaitChannel, now);
                scheduler.occupy::<Polled>(now, die, events);
            }
            None => {}
        }
    }

    fn array_begins(scheduler: &mut Scheduler, die: u32) {
        let (ways, bit) = scheduler.ways(die);
        ways.busy |= bit;
    }

    fn array_ended(scheduler: &mut Scheduler, _: SimTime, die: u32, _: u32, _: &mut Events) {
        scheduler.dies[die as usize].holds();
        let (ways, bit) = scheduler.ways(die);
        ways.busy &= !bit;
        ways.ended |= bit;
    }

    fn data_out(
        scheduler: &mut Scheduler,
        now: SimTime,
        die: u32,
        op: u32,
        decode: Nanos,
        events: &mut Events,
    ) {
        scheduler.dies[die as usize].holds();
        events.at(now + decode, Event::Decoded(op));
    }

    fn decoded(scheduler: &mut Scheduler, op: u32) {
        let (ways, bit) = scheduler.ways(scheduler.ops[op].plane);
        ways.reported |= bit;
    }

    /// If its way has another operation, that is listed at once.
    fn ended(scheduler: &mut Scheduler, now: SimTime, die: u32, events: &mut Events) {
        let (ways, bit) = scheduler.ways(die);
        if ways.fresh & bit != 0 {
            ways.fresh &= !bit;
            scheduler.list(now, die, events);
        }
    }

    fn suspended(scheduler: &mut Scheduler, die: u32) {
        let (ways, bit) = scheduler.ways(die);
        ways.set_aside(bit);
    }

    fn resumed(scheduler: &mut Scheduler, die: u32) {
        let (ways, bit) = scheduler.ways(die);
        ways.checking |= bit;
        ways.busy |= bit;
    }
}

/// View of a polling firmware, if it looked now.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    scheduler: &'a Scheduler,
}

impl<'a> Seen<'a> {
    fn station(self) -> &'a Station {
        self.scheduler.station.as_ref().expect("the firmware is a loop")
    }

    /// Returns whether any operation is in the reservation station.
    pub fn occupied(self) -> bool {
        self.scheduler.ops.in_use() > 0
    }

    /// Returns whether polling any channel would find neither a new result nor an operation to
    /// issue.
    pub fn nothing_new(self) -> bool {
        let is_unchecked = self.scheduler.transfers.status() == Nanos::ZERO;
        (0..self.channels()).all(|channel| {
            let ways = &self.station().controllers[channel as usize].ways;
            let wanted = self.scheduler.channels[channel as usize].wanted_at_all();
            (ways.fresh | ways.askable(is_unchecked) | (ways.reported & !ways.busy) | ways.sensed) == 0
                && (!self.accepts(channel) || (ways.asks == 0 && wanted == 0))
        })
    }

    /// Channels.
    pub fn channels(self) -> u32 {
        self.scheduler.channels.len() as u32
    }

    /// Returns the reads that a look at `channel` makes. Registers: ready/busy if a word or flag is awaited; the controller's own state if
    /// any way is not idle and not awaiting one; and if the controller takes more, ready/busy again for the ways that may be asked for
    /// their status. Words: the awaited ones of ready ways. Ways: the entries of the lists that are scanned from end to end, which are idle
    /// ways (for further operations in the reservation station), ways that await a word, and ways that may be asked; so the scheduler's
    /// work grows with the ways (sections 3.3.3 and 6.4).
    pub fn reads_of_look(self, channel: u32) -> LookReads {
        let ways = &self.station().controllers[channel as usize].ways;
        let wanted = self.scheduler.channels[channel as usize].wanted_at_all();
        let active = (ways.checking | ways.fresh | wanted) != 0;
        let asked = if self.accepts(channel) { ways.checking } else { 0 };
        let registers = [ways.reporting != 0, active, asked != 0];
        let idle = self.scheduler.dies_per_channel - (ways.reporting | ways.checking | wanted).count_ones();
        LookReads {
            registers: registers.map(u32::from).iter().sum(),
            words: (ways.reporting & !ways.busy).count_ones(),
            ways: idle + ways.reporting.count_ones() + asked.count_ones(),
        }
    }

    /// Returns whether the operation that ended in `die` is a transfer of read data.
    pub fn has_data(self, die: u32) -> bool {
        self.scheduler.dies[die as usize].wanted() == Phase::Transfer
    }

    /// Returns whether the controller of `channel` accepts another control word.
    fn accepts(self, channel: u32) -> bool {
        let station = self.station();
        self.scheduler.channels[channel as usize].die().is_none()
            || station.controllers[channel as usize].words.len() < station.words
    }

    /// Returns whether the operation being issued for `die` is a status check.
    fn is_checked(self, die: u32) -> bool {
        let d = &self.scheduler.dies[die as usize];
        self.station().controllers[d.channel() as usize].ways.asked >> d.bit() & 1 != 0
    }

    /// Returns the way among `ways` of a channel that has been in its list for longest.
    fn first_listed(self, channel: u32, ways: u64) -> Option<u32> {
        let first = channel * self.scheduler.dies_per_channel;
        bits(ways).min_by_key(|bit| self.station().listed[(first + bit) as usize])
    }

    /// Registers that the control word of what `die` wants has: a status check has way, place of the result and command; a
    /// trigger and an erase way, row and command; a write two addresses of data more; a read transfer the places of data,
    /// spare, error information and completion flag beside way, row and command.
    pub fn registers(self, die: u32) -> u32 {
        let d = &self.scheduler.dies[die as usize];
        match (d.wanted(), self.scheduler.ops[d.current()].kind) {
            _ if self.is_checked(die) => 3,
            (Phase::Transfer, _) => 7,
            (_, OpKind::Program) => 5,
            (_, OpKind::Read | OpKind::Erase | OpKind::Copyback) => 3,
        }
    }
}

impl Scheduler {
    /// View of the polling firmware, if it looked now.
    #[inline]
    pub fn seen(&self) -> Seen<'_> {
        Seen { scheduler: self }
    }

    fn station_mut(&mut self) -> &mut Station {
        self.station.as_mut().expect("the firmware is a loop")
    }

    fn controller(&mut self, channel: u32) -> &mut Controller {
        &mut self.station_mut().controllers[channel as usize]
    }

    fn ways(&mut self, die: u32) -> (&mut Ways, u64) {
        let d = &self.dies[die as usize];
        let (channel, bit) = (d.channel(), 1 << d.bit());
        (&mut self.controller(channel).ways, bit)
    }

    /// The controller asks `die` for its status.
    fn ask(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &self.dies[die as usize];
        let (op, channel) = (d.current(), d.channel());
        let (ways, bit) = self.ways(die);
        if ways.ended & !ways.stale & bit != 0 {
            self.ops[op].book(Stage::WaitChannel, now);
        }
        self.controller(channel).asks = true;
        let status = self.transfers.status();
        self.channels[channel as usize].carry(die, now, status);
        self.busy_channels += 1;
        events.at(now + status, Event::Channel(channel));
    }

    /// The status of `die` is in its word.
    fn answered(&mut self, now: SimTime, die: u32) {
        let op = self.dies[die as usize].current();
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

    /// Looks at `channel`: lists new heads, asks ready ways for their status, and notes what has ended.
    pub fn look(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        let fresh = self.controller(channel).ways.fresh;
        for bit in bits(fresh) {
            self.list(now, channel * self.dies_per_channel + bit, events);
        }
        let is_unchecked = self.transfers.status() == Nanos::ZERO;
        let controller = self.controller(channel);
        controller.issued = 0;
        controller.ways.look(is_unchecked);
    }

    /// The operation at the head of the queue of `die` waits to be issued from now on.
    fn list(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let op = self.dies[die as usize].current();
        self.ops[op].book(Stage::WaitWay, now);
        self.want::<Polled>(now, die, Phase::Command, events);
    }

    /// The next operation of `channel` whose end was sensed; the processor turns to it.
    pub fn next_sensed(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        let sensed = self.controller(channel).ways.sensed;
        let bit = self.seen().first_listed(channel, sensed)?;
        self.controller(channel).ways.sensed &= !(1 << bit);
        let die = channel * self.dies_per_channel + bit;
        if !self.seen().has_data(die) {
            let op = self.dies[die as usize].current();
            self.ops[op].book(Stage::Media, now);
        }
        Some(die)
    }

    /// The processor has dealt with the end of the operation of `die`.
    pub fn sensed(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let op = self.dies[die as usize].current();
        if self.seen().has_data(die) {
            self.ops[op].book(Stage::Transfer, now);
            self.steps.push(Step::DataOut(op));
            self.go_on::<Polled>(now, die, events);
        } else {
            self.steps.push(Step::ArrayDone(op));
        }
    }

    /// Returns the die whose operation or status check the processor begins to issue, if the controller of `channel` accepts
    /// another control word. One poll issues at most one of each class: the one that has been in its list longest.
    pub fn next_issue(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        if !self.seen().accepts(channel) {
            return None;
        }
        let (c, checks) = (&self.channels[channel as usize], self.classes[0]);
        let Controller { ways, issued, .. } = &self.seen().station().controllers[channel as usize];
        let of_class = |class| (class, c.wanted(class) | if class == checks { ways.asks } else { 0 });
        let (class, wants) = (*issued..self.classes.len()).map(of_class).find(|&(_, wants)| wants != 0)?;
        let bit = self.seen().first_listed(channel, wants)?;
        let die = channel * self.dies_per_channel + bit;
        let is_wanted = c.wanted(class) & (1 << bit) != 0;
        let controller = self.controller(channel);
        controller.issued = class + 1;
        if is_wanted {
            self.channels[channel as usize].withdraw(class, bit);
            let op = self.dies[die as usize].current();
            self.ops[op].book(Stage::WaitWay, now);
        } else {
            controller.ways.asks &= !(1 << bit);
            controller.ways.asked |= 1 << bit;
        }
        Some(die)
    }

    /// The processor has issued the operation of `die`; gives its channel.
    pub fn issue(&mut self, now: SimTime, die: u32, events: &mut Events) -> u32 {
        let is_check = self.seen().is_checked(die);
        let d = &self.dies[die as usize];
        let (op, wanted, channel) = (d.current(), d.wanted(), d.channel());
        if is_check {
            let (ways, bit) = self.ways(die);
            ways.inquire(bit);
        } else {
            self.ops[op].book(Stage::Firmware, now);
            let is_first = self.ops[op].pages == 0;
            let (ways, bit) = self.ways(die);
            match wanted {
                // The data of one page follow those of the other.
                Phase::Command if !is_first => {}
                Phase::Command => {
                    ways.checking |= bit;
                    ways.ended &= !bit;
                }
                _ => ways.reporting |= bit,
            }
        }
        self.station_mut().put_last(die);
        match (self.channels[channel as usize].die(), is_check) {
            (Some(_), _) => self.controller(channel).words.push_back((die, is_check)),
            (None, true) => self.ask(now, die, events),
            (None, false) => self.occupy::<Polled>(now, die, events),
        }
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
