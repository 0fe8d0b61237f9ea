//! The drives' time and wall time.
//!
//! ```text
//!   wall ── arrival ─────────────► look ── run, deliver, send ─► handed out
//!              │                    │  `───── cost, measured ──────'  │
//!              ▼                    ▼                                 ▼
//!   drive   stamped as it is     runs up to wall + lead        due: wall = the completion's time - what the host and the way cost
//! ```
//! Paced: the drive's time is wall time since the start, divided by the dilation. Completions are looked for a lead before their time:
//! what handing one out costs here, which is measured all the time, and what the host and the way to it cost ([`Lead`]). Arrivals are
//! stamped without the lead. A drive without outstanding commands runs up to wall time only: an arrival would find it ahead.
//! Instant: wall time plays no part.
//!
//! Invariants: the estimate of the cost is at most [`COST_NS_MAX`], and moves by one step for each completion that is handed out alone;
//! that of the way is at most [`WAY_NS_MAX`], and moves for each command that is the first after the only one was answered.

use pellucid_flash::{Histogram, SimTime};
use std::time::{Duration, Instant};

/// A step of an estimate, up or down: it settles at the median, on which a turn that was interrupted has no more weight than another.
const STEP_NS: u64 = 50;
/// So many steps up for one down: it settles where nine of ten are below.
const WAY_STEPS_UP: u64 = 9;
/// What takes longer is a large transfer; with that as the measure small ones would be early.
const COST_NS_MAX: u64 = 20_000;

/// A host that takes longer than this to ask again was doing something else.
const WAY_NS_MAX: u64 = 100_000;

/// How much before their time completions are handed out, beside what that costs here: what the host and the way to it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// So much.
    Fixed(Duration),
    /// As long as the host takes from an answer to its next command nine times of ten, when nothing else is outstanding. Right for a host
    /// that asks again at once: what it thinks before it asks would be taken for the way. A way that is shorter takes nothing from
    /// the latency, as a command is stamped no earlier than what the drive has done; one that is longer adds to it. So not the median.
    Measured {
        /// What is assumed at first.
        first: Duration,
    },
}

/// How the drives' time goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// Real time: modelled latency is kept. A dilation of 2 makes everything take twice as long.
    Paced {
        /// Wall time per simulated time, above 0.
        dilation: f64,
    },
    /// As fast as possible: modelled latency is not waited for.
    Instant,
}

/// Up to where the drives run, in their time.
pub(crate) struct Look {
    /// That of what arrives now.
    now: SimTime,
    /// That of which a completion, taken now, is with the host in time.
    ahead: SimTime,
}

impl Look {
    /// Ahead of time only while a completion is `awaited`.
    pub fn until(&self, awaited: bool) -> SimTime {
        if awaited { self.ahead } else { self.now }
    }
}

/// Ties the drives' time to wall time.
pub(crate) struct Pacer {
    pub time: Time,
    began: Instant,
    /// Wall time for what the host and the way to it cost.
    lead_ns: u64,
    /// It is an estimate that goes on.
    measures_way: bool,
    /// When the only operation outstanding was answered; nothing has arrived since.
    answered_ns: Option<u64>,
    /// Estimate of the wall time from a look at the drives to a completion being with the system.
    cost_ns: u64,
    /// When the drives were last looked at, and how many completions have been taken since.
    looked_ns: u64,
    taken: u32,
    /// How late completions were taken, in wall time; empty unless paced.
    pub lateness_ns: Histogram<4>,
}

impl Pacer {
    pub fn new(time: Time) -> Pacer {
        Pacer {
            time,
            began: Instant::now(),
            lead_ns: 0,
            measures_way: false,
            answered_ns: None,
            cost_ns: 0,
            looked_ns: 0,
            taken: 0,
            lateness_ns: Histogram::default(),
        }
    }

    pub fn set_lead(&mut self, lead: Lead) {
        let (lead, measures) = match lead {
            Lead::Fixed(lead) => (lead, false),
            Lead::Measured { first } => (first, true),
        };
        self.lead_ns = u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX);
        self.measures_way = measures;
    }

    /// Wall time for what the host and the way to it cost; 0 when time is instant.
    pub fn lead_ns(&self) -> u64 {
        if self.time == Time::Instant { 0 } else { self.lead_ns }
    }

    /// Estimate of the wall time from a look at the drives to a completion being with the system.
    pub fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    /// Wall time since the start.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time up to which the drives run. Instant: no clock is read, it plays no part.
    #[inline]
    pub fn drive_now(&self) -> SimTime {
        match self.time {
            Time::Paced { .. } => self.drive_time(self.now_ns().saturating_add(self.early_ns())),
            Time::Instant => SimTime::ZERO,
        }
    }

    /// Something arrives; its time, in the drive's.
    #[inline]
    pub fn arrives(&mut self) -> SimTime {
        if self.time == Time::Instant {
            return SimTime::ZERO;
        }
        let now_ns = self.now_ns();
        if let Some(answered_ns) = self.answered_ns.take() {
            let way_ns = now_ns - answered_ns;
            if self.measures_way && way_ns <= WAY_NS_MAX {
                self.lead_ns = approach(self.lead_ns, way_ns, WAY_STEPS_UP).min(WAY_NS_MAX);
            }
        }
        self.drive_time(now_ns)
    }

    /// What is handed out from now on is the outcome of this look.
    pub fn look(&mut self) -> Look {
        self.looked_ns = self.now_ns();
        Look {
            now: self.drive_time(self.looked_ns),
            ahead: self.drive_time(self.looked_ns.saturating_add(self.early_ns())),
        }
    }

    /// A completion of this time has been taken.
    #[inline]
    pub fn took(&mut self, completed: SimTime) {
        if let Time::Paced { .. } = self.time {
            let late = self.drive_now().since(completed);
            self.lateness_ns.record(self.wall_ns(late.0), 1);
            self.taken += 1;
        }
    }

    /// All that was taken since the last look has been sent, as far as the sockets took it; so many operations are `outstanding`.
    #[inline]
    pub fn handed_out(&mut self, outstanding: usize) {
        // Of several, each but the last was out sooner than the whole took.
        if std::mem::take(&mut self.taken) == 1 {
            let now_ns = self.now_ns();
            self.cost_ns = approach(self.cost_ns, now_ns - self.looked_ns, 1).min(COST_NS_MAX);
            self.answered_ns = (outstanding == 0).then_some(now_ns);
        }
    }

    /// Wall time at which a drive is to run, so that what happens at `at` in its time is handed out in time, if it is `awaited`.
    pub fn due_ns(&self, at: SimTime, awaited: bool) -> u64 {
        self.wall_ns(at.0).saturating_sub(if awaited { self.early_ns() } else { 0 })
    }

    /// Wall time by which completions are taken before their time.
    fn early_ns(&self) -> u64 {
        self.lead_ns.saturating_add(self.cost_ns)
    }

    /// The drive's time at a point of wall time.
    fn drive_time(&self, wall_ns: u64) -> SimTime {
        match self.time {
            Time::Paced { dilation: 1.0 } => SimTime(wall_ns),
            Time::Paced { dilation } => SimTime((wall_ns as f64 / dilation) as u64),
            Time::Instant => SimTime::ZERO,
        }
    }

    /// A length of the drive's time as wall time, rounded up.
    fn wall_ns(&self, drive_ns: u64) -> u64 {
        match self.time {
            Time::Paced { dilation } if dilation != 1.0 => (drive_ns as f64 * dilation).ceil() as u64,
            _ => drive_ns,
        }
    }
}

/// An estimate, nearer to what was measured: by so many steps up, or one down.
fn approach(estimate_ns: u64, measured_ns: u64, steps_up: u64) -> u64 {
    match measured_ns > estimate_ns {
        true => estimate_ns + steps_up * STEP_NS,
        false => estimate_ns.saturating_sub(STEP_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A paced drive of whose completions `taken` at a time were handed out, `turns` times, each time so long after the look.
    fn hand_out(pacer: &mut Pacer, turns: u32, taken: u32, cost_ns: u64) {
        for _ in 0..turns {
            (0..taken).for_each(|_| pacer.took(SimTime::ZERO));
            // The look was so long ago.
            while pacer.now_ns() < cost_ns {}
            pacer.looked_ns = pacer.now_ns() - cost_ns;
            pacer.handed_out(taken as usize);
        }
    }

    #[test]
    fn the_cost_of_handing_out_one_is_learnt_and_bounded() {
        let mut pacer = Pacer::new(Time::Paced { dilation: 1.0 });
        hand_out(&mut pacer, 100, 2, 1_000_000);
        assert_eq!(pacer.cost_ns, 0, "of two together nothing is learnt");
        hand_out(&mut pacer, 10, 1, 1_000_000);
        assert_eq!(pacer.cost_ns, 10 * STEP_NS);
        hand_out(&mut pacer, 1000, 1, 1_000_000);
        assert_eq!(pacer.cost_ns, COST_NS_MAX, "and no more");
        assert_eq!(pacer.due_ns(SimTime(1_000_000), true), 1_000_000 - COST_NS_MAX);
        assert_eq!(
            pacer.due_ns(SimTime(1_000_000), false),
            1_000_000,
            "nobody waits for what the drive does by itself"
        );
        hand_out(&mut pacer, 1000, 1, 0);
        assert!(pacer.cost_ns < COST_NS_MAX / 2, "{}", pacer.cost_ns);
        pacer.set_lead(Lead::Fixed(Duration::from_secs(1)));
        let arrival = pacer.arrives();
        let Look { now, ahead } = pacer.look();
        assert!(arrival <= now && now < ahead, "arrivals are stamped without it");
    }

    /// The last answer was `ago_ns` ago, and `outstanding` operations were left; another arrives now, and then one more.
    fn ask_again(pacer: &mut Pacer, ago_ns: u64, outstanding: usize) {
        pacer.took(SimTime::ZERO);
        pacer.handed_out(outstanding);
        while pacer.now_ns() < ago_ns {}
        pacer.answered_ns = pacer.answered_ns.map(|_| pacer.now_ns() - ago_ns);
        pacer.arrives();
        pacer.arrives();
    }

    #[test]
    fn the_way_of_a_host_that_asks_again_at_once_is_learnt() {
        const FIRST_NS: u64 = 6_000;
        let mut pacer = Pacer::new(Time::Paced { dilation: 1.0 });
        let first = Duration::from_nanos(FIRST_NS);
        pacer.set_lead(Lead::Measured { first });
        (0..10).for_each(|_| ask_again(&mut pacer, 50_000, 0));
        let learnt = FIRST_NS + 10 * WAY_STEPS_UP * STEP_NS;
        assert_eq!(pacer.lead_ns, learnt, "the first to arrive counts, and no other");
        (0..10).for_each(|_| ask_again(&mut pacer, 50_000, 1));
        assert_eq!(pacer.lead_ns, learnt, "what was under way says nothing of the way");
        (0..10).for_each(|_| ask_again(&mut pacer, 10 * WAY_NS_MAX, 0));
        assert_eq!(pacer.lead_ns, learnt, "nor does a client that was doing something else");
        (0..1000).for_each(|_| ask_again(&mut pacer, 0, 0));
        assert!(pacer.lead_ns < FIRST_NS, "{}", pacer.lead_ns);
        pacer.set_lead(Lead::Fixed(first));
        (0..10).for_each(|_| ask_again(&mut pacer, 50_000, 0));
        assert_eq!(pacer.lead_ns, FIRST_NS, "what is given stays");
    }

    #[test]
    fn instant_time_knows_no_clock() {
        let mut pacer = Pacer::new(Time::Instant);
        hand_out(&mut pacer, 10, 1, 1000);
        assert_eq!((pacer.cost_ns, pacer.lateness_ns.total()), (0, 0));
        assert_eq!((pacer.drive_now(), pacer.arrives()), (SimTime::ZERO, SimTime::ZERO));
    }
}
