//! The work of channels and dies, for observers: reports, probes and the timeline.

use super::Scheduler;
use super::die::{Die, Phase};
use super::lanes::{Carried, Held};
use super::suspension::Suspension;
use crate::probes::{ChannelView, WayView};
use crate::timeline::Activity;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Nanos, SimTime};

/// Work of channels and dies, present and past.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    scheduler: &'a Scheduler,
}

impl<'a> Work<'a> {
    /// The work of a scheduler's channels and dies.
    #[inline]
    pub(super) fn of(scheduler: &'a Scheduler) -> Work<'a> {
        Work { scheduler }
    }

    /// Busy time of every channel up to `now`.
    pub fn channel_busy(self, now: SimTime) -> impl Iterator<Item = Nanos> + use<'a> {
        self.scheduler.channels.iter().map(move |c| c.worked(now))
    }

    /// Busy time of every die up to `now`: from the first command of an operation on the channel until it has left the die.
    pub fn die_busy(self, now: SimTime) -> impl Iterator<Item = Nanos> + use<'a> {
        self.scheduler.dies.iter().step_by(self.scheduler.planes as usize).map(move |d| d.busy(now))
    }

    /// Dies that work now, and channels that carry a transfer.
    #[inline]
    pub fn active(self) -> (u32, u32) {
        (self.scheduler.working_dies, self.scheduler.busy_channels)
    }

    /// Dies that work now.
    pub fn busy_dies(self) -> u32 {
        self.scheduler.working_dies
    }

    /// Operations suspended so far.
    pub fn suspensions(self) -> u64 {
        self.scheduler.suspension.as_ref().map_or(0, Suspension::count)
    }

    /// Every channel as it is now.
    pub fn channel_views(self, now: SimTime) -> impl Iterator<Item = ChannelView> + use<'a> {
        self.scheduler
            .channels
            .iter()
            .map(move |c| ChannelView { busy: c.worked(now), active: c.die().is_some() })
    }

    /// Every die as it is now.
    pub fn way_views(self, now: SimTime) -> impl Iterator<Item = WayView> + use<'a> {
        let holds = move |d: &Die| (!d.is_idle()).then(|| self.scheduler.ops[d.current()].kind.into());
        let dies = self.scheduler.dies.chunks(self.scheduler.planes as usize).zip(self.die_busy(now));
        dies.map(move |(planes, busy)| WayView { busy, holds: planes.iter().find_map(holds) })
    }

    /// The transfer on each channel.
    pub fn carried(self) -> impl Iterator<Item = Option<Carried>> + use<'a> {
        self.scheduler.channels.iter().enumerate().map(move |(number, channel)| {
            let d = &self.scheduler.dies[channel.die()? as usize];
            let asks = self.scheduler.station.as_ref().is_some_and(|station| station.asks(number as u32));
            let activity = match (asks, d.phase()) {
                (true, _) | (_, Phase::Status) => Activity::StatusCheck,
                (_, Phase::Transfer) => Activity::Data,
                _ => Activity::Command,
            };
            let (begin, end) = channel.transfer();
            Some(Carried { begin, end, activity, op: Some(d.current()).filter(|&op| op != NIL) })
        })
    }

    /// The work of each die; with independent plane reads, of each plane.
    pub fn held(self) -> impl Iterator<Item = Option<Held>> + use<'a> {
        self.scheduler.dies.iter().map(|d| {
            let activity = match d.phase() {
                Phase::Array => Some(Activity::Array),
                Phase::Suspending => Some(Activity::Suspension),
                Phase::Command | Phase::Transfer | Phase::Status => Some(Activity::Exchange),
                Phase::Idle | Phase::Want | Phase::Held => None,
            };
            d.works().then_some(Held { op: d.current(), activity })
        })
    }

    /// The current operation of a die.
    pub fn current(self, die: u32) -> Option<u32> {
        Some(self.scheduler.dies[die as usize].current()).filter(|&op| op != NIL)
    }

    /// Tracks of a die: 1, or its planes where these read by themselves.
    pub fn planes(self) -> u32 {
        self.scheduler.planes
    }

    pub fn memory_bytes(self) -> u64 {
        self.scheduler.ops.memory_bytes() + (self.scheduler.dies.len() * size_of::<Die>()) as u64
    }
}
