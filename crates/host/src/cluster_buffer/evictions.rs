//! Evictions: the clusters on their way to the drive, and the time of the next one that no command asks for.
//!
//! ```text
//!   Padding ──► Writing ──► Awaiting: older reads have ended ──► gone, but for what was written meanwhile
//!      │           │
//!      └─ error: runs of sectors, each a write    └─ error: refused; all stays in the buffer
//! ```
//! Invariant: an eviction goes through its phases forward, and ends once.

use super::table::Cluster;
use pellucid_flash::{Nanos, SimTime};

/// Cluster under eviction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eviction {
    /// Slot in the buffer.
    pub slot: u32,
    /// Start of the eviction; `hurried` is set if a flush waits for its few sectors.
    pub began: SimTime,
    pub hurried: bool,
    /// Moment at which the first sectors were sent; later writes may be missing from them.
    pub sent_at: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The missing sectors are being read, from this one on.
    Padding(u32),
    /// Sectors up to this one are being written.
    Writing(u32),
    /// The data reached the drive at this moment; reads that were sent earlier may return older data.
    Awaiting(u64),
}

/// Evictions under way.
#[derive(Clone, Debug)]
pub(super) struct Evictions {
    under_way: Vec<Option<Eviction>>,
}

impl Evictions {
    /// Creates places for so many evictions at once.
    pub fn new(places: usize) -> Evictions {
        Evictions { under_way: vec![None; places] }
    }

    /// Returns the number of evictions that may be under way.
    pub fn places(&self) -> usize {
        self.under_way.len()
    }

    /// Returns a place without an eviction.
    #[inline]
    pub fn free_place(&self) -> Option<u32> {
        self.under_way.iter().position(Option::is_none).map(|at| at as u32)
    }

    /// Returns the slots of the evictions under way.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.under_way.iter().flatten().map(|eviction| eviction.slot)
    }

    /// Begins an eviction whose missing sectors, from `from` on, are read first.
    pub fn begin(&mut self, at: u32, slot: u32, began: SimTime, hurried: bool, sent_at: u64, from: u32) {
        assert!(self.slots().all(|other| other != slot), "a cluster is evicted twice");
        let before = self.under_way[at as usize].replace(Eviction {
            slot,
            began,
            hurried,
            sent_at,
            phase: Phase::Padding(from),
        });
        assert!(before.is_none(), "two evictions have one place");
    }

    #[inline]
    pub fn eviction(&self, at: u32) -> &Eviction {
        self.under_way[at as usize].as_ref().expect("it is under way")
    }

    fn eviction_mut(&mut self, at: u32) -> &mut Eviction {
        self.under_way[at as usize].as_mut().expect("it is under way")
    }

    /// Notes at `moment` that the missing sectors were read; returns the first of them.
    pub fn padded(&mut self, at: u32, moment: u64) -> u32 {
        let eviction = self.eviction_mut(at);
        let Phase::Padding(from) = eviction.phase else { unreachable!("it read what was missing") };
        eviction.sent_at = moment;
        from
    }

    /// Notes that sectors up to `end` are being written.
    pub fn writes(&mut self, at: u32, end: u32) {
        let eviction = self.eviction_mut(at);
        assert!(
            !matches!(eviction.phase, Phase::Writing(before) if before > end),
            "an eviction writes backwards"
        );
        eviction.phase = Phase::Writing(end);
    }

    /// Returns the end sector of the last completed write.
    pub fn written(&self, at: u32) -> u32 {
        let Phase::Writing(end) = self.eviction(at).phase else { unreachable!("it was written") };
        end
    }

    /// Notes that all sectors were on the drive at `moment`.
    pub fn reached(&mut self, at: u32, moment: u64) {
        self.eviction_mut(at).phase = Phase::Awaiting(moment);
    }

    /// Returns the slot and the moment of an eviction whose sectors are on the drive.
    #[inline]
    pub fn awaiting(&self, at: u32) -> Option<(u32, u64)> {
        match self.under_way[at as usize] {
            Some(Eviction { slot, phase: Phase::Awaiting(moment), .. }) => Some((slot, moment)),
            _ => None,
        }
    }

    /// Ends an eviction.
    pub fn end(&mut self, at: u32) -> Eviction {
        self.under_way[at as usize].take().expect("it is under way")
    }
}

/// Times at which clusters leave the buffer although no command asks for it.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    idle_ns: Option<Nanos>,
    age_ns: Option<Nanos>,
    last_ask: SimTime,
    /// Idle time has found nothing left to evict since the last ask.
    rested: bool,
    /// Time at which the oldest cluster reaches its maximum age.
    aged_at: Option<SimTime>,
}

impl Timer {
    pub fn new(idle_ns: Option<Nanos>, age_ns: Option<Nanos>) -> Timer {
        Timer { idle_ns, age_ns, last_ask: SimTime::ZERO, rested: true, aged_at: None }
    }

    /// Begins again after a power cut.
    pub fn begin(&mut self, now: SimTime) {
        self.last_ask = now;
    }

    /// Notes a command from above.
    #[inline]
    pub fn asked(&mut self, now: SimTime) {
        (self.last_ask, self.rested) = (now, false);
    }

    /// Reports whether a command has arrived since `began`.
    pub fn was_asked_since(&self, began: SimTime) -> bool {
        self.last_ask >= began
    }

    /// Notes that something may have become evictable.
    #[inline]
    pub fn wake(&mut self) {
        self.rested = false;
    }

    /// Notes that idle time has found nothing to evict.
    pub fn rest(&mut self) {
        self.rested = true;
    }

    /// Notes that the buffer, which was empty, gets a cluster.
    #[inline]
    pub fn first_came(&mut self, now: SimTime) {
        self.aged_at = self.age_ns.map(|age| now + age);
    }

    /// Computes the time at which the oldest of the clusters that may leave reaches its maximum age.
    pub fn find_age<'a>(&mut self, residents: impl Iterator<Item = &'a Cluster>) {
        if let Some(age) = self.age_ns {
            self.aged_at = residents.map(|cluster| cluster.since + age).min();
        }
    }

    /// Takes the alarm of the oldest cluster if it is due.
    #[inline]
    pub fn take_aged(&mut self, now: SimTime) -> bool {
        self.aged_at.take_if(|due| *due <= now).is_some()
    }

    /// Reports whether a cluster has its maximum age.
    pub fn is_too_old(&self, cluster: &Cluster, now: SimTime) -> bool {
        self.age_ns.is_some_and(|age| cluster.since + age <= now)
    }

    /// Reports whether there has been no command for so long that clusters leave.
    pub fn is_idle(&self, now: SimTime) -> bool {
        !self.rested && self.idle_ns.is_some_and(|idle| self.last_ask + idle <= now)
    }

    /// Returns the time of the next eviction that no command asks for, if the buffer has clusters.
    #[inline]
    pub fn due(&self) -> Option<SimTime> {
        let idle = self.idle_ns.filter(|_| !self.rested).map(|idle| self.last_ask + idle);
        match (idle, self.aged_at) {
            (Some(idle), Some(aged)) => Some(idle.min(aged)),
            (idle, aged) => idle.or(aged),
        }
    }
}
