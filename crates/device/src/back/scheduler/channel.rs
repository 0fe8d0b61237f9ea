//! Channels: which die's operation crosses next, and what follows when it has.
//!
//! ```text
//!  want ─► class of the channel (a bit for each die) ─► choose: best class, round robin ─► occupy ─► channel_done
//!                                                            ▲             next page of the data │
//!                                                            └───── others first ◄───────────────┴─► occupy
//! ```
//! Invariants: a channel carries one transfer; a die's bit is set in a class of its channel if and only if its current
//! operation wants the channel for that class.

use super::interconnect::Towards;
use super::{OpKind, Phase, Scheduler, Step, poll};
use crate::events::{Event, Events};
use pellucid_flash::{Nanos, SimTime, Stage};
use std::collections::VecDeque;

/// Classes of what can want a channel: each kind has its own at most.
pub(super) const CLASSES: usize = 5;

#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    pub(super) die: Option<u32>,
    pub(super) wants: [u64; CLASSES],
    pub(super) last: [u32; CLASSES],
    /// Total transfer time, counting the current transfer up to its end.
    pub(super) busy: Nanos,
    /// Time of the current transfer.
    pub(super) length: Nanos,
    /// End of the current transfer, which may begin later than now: a controller that polls decides ahead.
    pub(super) until: SimTime,
    /// Polled: what the transfer under way is for is a status check.
    pub(super) asks: bool,
    /// Dies whose control words the controller holds beside the one that it carries out, and whether these are status checks.
    pub(super) queue: VecDeque<(u32, bool)>,
    pub(super) seen: poll::Ways,
    /// Polled: the first class of which this look has issued nothing.
    pub(super) issued: usize,
}

impl Channel {
    /// Books a transfer of `length` from `begin` on.
    #[inline]
    pub(super) fn carry(&mut self, begin: SimTime, length: Nanos) {
        self.busy += length;
        (self.length, self.until) = (length, begin + length);
    }

    /// Busy time up to `at`, before which no transfer is booked any more.
    pub(super) fn worked(&self, at: SimTime) -> Nanos {
        Nanos(self.busy.0 - self.until.since(at).0.min(self.length.0))
    }

    /// Returns whether no die waits for the channel.
    #[inline]
    fn is_unwanted(&self) -> bool {
        self.wants.iter().fold(0, |all, wants| all | wants) == 0
    }
}

impl Scheduler {
    /// The current operation of `die` needs its channel. Its times are booked up to now.
    #[inline]
    pub(super) fn want(&mut self, now: SimTime, die: u32, what: Phase, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        d.phase = Phase::Want;
        d.wanted = what;
        let (channel, bit) = (d.channel, d.bit);
        let class = self.class(die);
        let c = &mut self.channels[channel as usize];
        if !self.polled && c.die.is_none() && c.is_unwanted() {
            // There is nothing to choose, and nothing to wait for.
            c.last[class] = bit;
            return self.occupy(now, die, events);
        }
        c.wants[class] |= 1 << bit;
        if !self.polled {
            self.kick_channel(now, channel, events);
        } else {
            self.put_last(die);
        }
    }

    /// The class in which the current operation of `die` wants its channel.
    #[inline]
    pub(super) fn class(&self, die: u32) -> usize {
        let d = &self.dies[die as usize];
        let class = match (d.wanted, self.ops[d.current].kind) {
            (Phase::Status, _) => 0,
            (Phase::Transfer, _) => 4,
            (_, OpKind::Read | OpKind::Copyback) => 1,
            (_, OpKind::Erase) => 2,
            (_, OpKind::Program) => 3,
        };
        self.classes[class]
    }

    #[inline]
    pub(super) fn kick_channel(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        if let Some(die) = self.choose(now, channel) {
            self.occupy(now, die, events);
        }
    }

    /// Takes the best of what wants a free channel.
    #[inline]
    pub(super) fn choose(&mut self, now: SimTime, channel: u32) -> Option<u32> {
        let c = &mut self.channels[channel as usize];
        if c.die.is_some() {
            return None;
        }
        let class = c.wants.iter().position(|&w| w != 0)?;
        // Round robin: the first that wants it after the last one served.
        let wants = c.wants[class];
        let turn = c.last[class];
        let after = wants & !((2u64 << turn).wrapping_sub(1));
        let bit = if after != 0 { after } else { wants }.trailing_zeros();
        c.wants[class] &= !(1 << bit);
        c.last[class] = bit;
        let die = channel * self.dies_per_channel + bit;
        let op = self.dies[die as usize].current;
        self.ops[op].book(Stage::WaitChannel, now);
        Some(die)
    }

    /// The channel carries what the current operation of `die` wants it for.
    #[inline]
    pub(super) fn occupy(&mut self, now: SimTime, die: u32, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        let op = &self.ops[d.current];
        let channel = d.channel;
        d.phase = d.wanted;
        let first_command = !d.works;
        let time = match (d.wanted, op.kind) {
            (Phase::Status, _) => self.status,
            (Phase::Transfer, _) => {
                let units = (op.units - op.pages * self.page_units.min(op.units)).min(self.page_units);
                let data = self.part_transfer(op.sectors, Nanos(self.unit_transfer.0 * u64::from(units)));
                if self.reads_are_slowed { self.slowed_read(now, channel, units, data) } else { data }
            }
            (_, OpKind::Program) => {
                let setup = if op.pages == 0 { self.command } else { Nanos::ZERO };
                let mut data = self.part_transfer(op.sectors, self.program_transfer(op.pages));
                if let Some(interconnect) = &mut self.interconnect {
                    let units = self.superpage_units.div_ceil(self.superpage_pages);
                    data = interconnect.carry(now + setup, Towards::Flash, units, data);
                }
                setup + data
            }
            _ => self.command,
        };
        let c = &mut self.channels[channel as usize];
        c.die = Some(die);
        c.carry(now, time);
        self.active.1 += 1;
        if first_command {
            self.begin_work(now, die);
        }
        events.at(now + time, Event::Channel(channel));
    }

    /// Returns how long a transfer of `units` units takes that would take `data` by the channel alone.
    fn slowed_read(&mut self, now: SimTime, channel: u32, units: u32, data: Nanos) -> Nanos {
        // To a polled controller the transfer is a control word of its own.
        let setup = if self.polled { self.command } else { Nanos::ZERO };
        let data = match &mut self.interconnect {
            Some(interconnect) => interconnect.carry(now + setup, Towards::Memory, units, data),
            None => data,
        };
        if let Some(solvers) = &mut self.solvers {
            solvers.begin(now + setup, channel, self.unit_bytes * u64::from(units), data);
        }
        let drain = match self.drain {
            Nanos::ZERO => Nanos::ZERO,
            drain => drain.scaled(self.drain_rng.factor(self.drain_spread)),
        };
        setup + data + drain
    }

    /// Returns the transfer time of `sectors` sectors of a mapping unit, which takes `whole` as a whole; 0 sectors: all of them.
    #[inline]
    fn part_transfer(&self, sectors: u32, whole: Nanos) -> Nanos {
        match sectors {
            0 => whole,
            _ => Nanos((whole.0 * u64::from(sectors)).div_ceil(u64::from(self.unit_sectors))),
        }
    }

    /// How long page `page` of a superpage takes to cross, of as many as cross one by one. Together they take what the superpage does.
    #[inline]
    fn program_transfer(&self, page: u32) -> Nanos {
        if self.superpage_pages == 1 {
            return self.superpage_transfer;
        }
        let until =
            |pages: u32| self.superpage_transfer.0 * u64::from(pages) / u64::from(self.superpage_pages);
        Nanos(until(page + 1) - until(page))
    }

    /// The transfer on `channel` has ended.
    #[inline]
    pub fn channel_done(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        let c = &mut self.channels[channel as usize];
        let die = c.die.take().expect("a channel event without a transfer");
        self.active.1 -= 1;
        if std::mem::take(&mut c.asks) {
            self.asked(now, die);
            return self.next_word(now, channel, events);
        }
        let d = &self.dies[die as usize];
        let (op, phase) = (d.current, d.phase);
        self.ops[op].book(Stage::Transfer, now);
        if self.in_pages && self.next_page(now, die, events) {
            return;
        }
        match phase {
            Phase::Command => {
                self.dies[die as usize].phase = Phase::Array;
                self.steps.push(Step::Array(op));
                if self.polled {
                    self.array_works(die);
                }
            }
            Phase::Status => {
                self.dies[die as usize].phase = Phase::Held;
                self.steps.push(Step::ArrayDone(op));
            }
            _ => self.data_out(now, channel, die, events),
        }
        match self.polled {
            true => self.next_word(now, channel, events),
            false => self.kick_channel(now, channel, events),
        }
    }

    /// The data of the read of `die` have crossed `channel`.
    #[inline]
    fn data_out(&mut self, now: SimTime, channel: u32, die: u32, events: &mut Events) {
        let op = self.dies[die as usize].current;
        let decode = match self.reads_are_slowed {
            true => self.solved(now, channel) + self.decode,
            false => Nanos::ZERO,
        };
        if self.polled {
            self.dies[die as usize].phase = Phase::Held;
            return events.at(now + decode, Event::Decoded(op));
        }
        self.vacate(now, die);
        if decode == Nanos::ZERO {
            self.steps.push(Step::DataOut(op));
        } else {
            events.at(now + decode, Event::Decoded(op));
        }
        self.kick_die(now, die, events);
    }

    /// A page of the data of `die` has crossed. If another one follows: lets it cross, at once or after others; `true`.
    #[inline]
    fn next_page(&mut self, now: SimTime, die: u32, events: &mut Events) -> bool {
        let d = &self.dies[die as usize];
        let (channel, phase) = (d.channel, d.phase);
        let op = &mut self.ops[d.current];
        let pages = match (phase, op.kind) {
            (Phase::Command, OpKind::Program) => self.superpage_pages,
            (Phase::Transfer, _) if op.units > self.page_units => op.units.div_ceil(self.page_units),
            _ => return false,
        };
        op.pages += 1;
        if op.pages >= pages {
            op.pages = 0;
            return false;
        }
        if phase == Phase::Transfer {
            self.solved(now, channel);
        }
        let class = self.class(die);
        // A program half of which is in its die takes precedence over one that has not begun; reads take turns.
        let others = class + usize::from(phase == Phase::Transfer);
        if self.channels[channel as usize].wants[..others].iter().any(|&wants| wants != 0) {
            self.want(now, die, phase, events);
        } else {
            self.occupy(now, die, events);
        }
        true
    }

    /// How long the key-equation solver keeps what `channel` has just transferred.
    pub(super) fn solved(&mut self, now: SimTime, channel: u32) -> Nanos {
        self.solvers.as_mut().map_or(Nanos::ZERO, |solvers| solvers.end(now, channel))
    }
}
