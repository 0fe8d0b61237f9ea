//! Channels and dies as they are at one moment, for those who record what they do (`timeline`).

use super::{Phase, Scheduler};
use crate::timeline::Activity;
use pellucid_flash::SimTime;
use pellucid_flash::slab::NIL;

/// The transfer on a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub begin: SimTime,
    pub end: SimTime,
    pub activity: Activity,
    /// The operation, unless the die has set it aside meanwhile.
    pub op: Option<u32>,
}

/// The operation that a die works on, or one of its planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub op: u32,
    /// Its present activity for it; `None`: it waits for the channel or the firmware.
    pub activity: Option<Activity>,
}

impl Scheduler {
    /// The transfer on each channel.
    pub fn carried(&self) -> impl Iterator<Item = Option<Carried>> + '_ {
        self.channels.iter().map(|channel| {
            let d = &self.dies[channel.die? as usize];
            let activity = match (channel.asks, d.phase) {
                (true, _) | (_, Phase::Status) => Activity::StatusCheck,
                (_, Phase::Transfer) => Activity::Data,
                _ => Activity::Command,
            };
            let begin = SimTime(channel.until.0 - channel.length.0);
            let op = Some(d.current).filter(|&op| op != NIL);
            Some(Carried { begin, end: channel.until, activity, op })
        })
    }

    /// The work of each die; with independent plane reads, of each plane.
    pub fn held(&self) -> impl Iterator<Item = Option<Held>> + '_ {
        self.dies.iter().map(|d| {
            let activity = match d.phase {
                Phase::Array => Some(Activity::Array),
                Phase::Suspending => Some(Activity::Suspension),
                Phase::Command | Phase::Transfer | Phase::Status => Some(Activity::Exchange),
                Phase::Idle | Phase::Want | Phase::Held => None,
            };
            d.works.then_some(Held { op: d.current, activity })
        })
    }

    /// The current operation of a die.
    pub fn current(&self, die: u32) -> Option<u32> {
        Some(self.dies[die as usize].current).filter(|&op| op != NIL)
    }

    /// Tracks of a die: 1, or its planes where these read by themselves.
    pub fn planes(&self) -> u32 {
        self.planes
    }
}
