//! The drives' time and its relation to wall time.
//!
//! ```text
//!   wall ── arrival ─────────────► look ── run, deliver, send ─► handed out
//!              │                    │  `───── cost, measured ──────'  │
//!              ▼                    ▼                                 ▼
//!   drive   stamped as it is     runs up to wall + lead        due: wall = the completion's time - what the host and the way cost
//! ```
//! Paced: the drive's time is wall time since the start, divided by the dilation. Completions are collected
//! ahead of their time by a lead: the continuously measured cost of handing one out here, plus the cost of
//! the host and the path to it ([`Lead`]). Arrivals are stamped without the lead. A drive without outstanding
//! commands runs only up to wall time, so that an arrival does not find it ahead. Instant: wall time plays no
//! part.
//!
//! Invariants: the cost estimate is at most [`COST_NS_MAX`] and moves one step for each completion that is
//! handed out alone; the path estimate is at most [`WAY_NS_MAX`] and moves for each command that arrives
//! first after the only outstanding one was answered.

use pellucid_flash::{Histogram, SimTime};
use std::time::{Duration, Instant};

/// Step of an estimate, up or down. The estimate settles at the median, which gives an interrupted turn no
/// more weight than any other.
const STEP_NS: u64 = 50;
/// Steps up for one step down: the estimate settles where nine of ten measurements are below it.
const WAY_STEPS_UP: u64 = 9;
/// Maximum cost estimate. Longer turns are large transfers; counting them would make small completions early.
const COST_NS_MAX: u64 = 20_000;

/// A host that takes longer than this to send its next command was doing something else.
const WAY_NS_MAX: u64 = 100_000;

/// Lead of completions beyond the cost of handing them out here: the cost of the host and the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// A constant lead.
    Fixed(Duration),
    /// A measured lead: the time that nine of ten next commands take to arrive after an answer when nothing
    /// else is outstanding. It suits a host that asks again at once, because thinking time would count as
    /// path. A path shorter than the lead does not reduce the latency, as a command is never stamped before
    /// the drive's time; a longer one adds to it. Hence the ninth decile rather than the median.
    Measured {
        /// Initial value.
        first: Duration,
    },
}

/// Time mode of the drives.
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

/// Times up to which the drives run.
pub(crate) struct Look {
    /// Drive time of a command that arrives now.
    now: SimTime,
    /// Drive time of a completion that, taken now, reaches the host on time.
    ahead: SimTime,
}

impl Look {
    /// Time up to which a drive runs: ahead only while a completion is `awaited`.
    pub fn until(&self, awaited: bool) -> SimTime {
        if awaited { self.ahead } else { self.now }
    }
}

/// Relates the drives' time to wall time.
pub(crate) struct Pacer {
    pub time: Time,
    began: Instant,
    /// Cost of the host and the path to it, in wall time.
    lead_ns: u64,
    /// The lead is an estimate that continues to adapt.
    measures_way: bool,
    /// Time at which the only outstanding operation was answered, while nothing has arrived since.
    answered_ns: Option<u64>,
    /// Estimated wall time from polling the drives until the system has a completion.
    cost_ns: u64,
    /// Time of the last poll of the drives; `taken` counts the completions taken since.
    looked_ns: u64,
    taken: u32,
    /// Lateness of completions when taken, in wall time; empty unless paced.
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

    /// Cost of the host and the path to it, in wall time; 0 when time is instant.
    pub fn lead_ns(&self) -> u64 {
        if self.time == Time::Instant { 0 } else { self.lead_ns }
    }

    /// Estimated wall time from polling the drives until the system has a completion.
    pub fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    /// Wall time since the start.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time up to which the drives run. When time is instant, it is 0 and no clock is read.
    #[inline]
    pub fn drive_now(&self) -> SimTime {
        match self.time {
            Time::Paced { .. } => self.drive_time(self.now_ns().saturating_add(self.early_ns())),
            Time::Instant => SimTime::ZERO,
        }
    }

    /// Stamps an arrival; returns its time in the drive's time.
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

    /// Begins a poll of the drives; later completions count from it.
    pub fn look(&mut self) -> Look {
        self.looked_ns = self.now_ns();
        Look {
            now: self.drive_time(self.looked_ns),
            ahead: self.drive_time(self.looked_ns.saturating_add(self.early_ns())),
        }
    }

    /// Counts a completion with this time as taken.
    #[inline]
    pub fn took(&mut self, completed: SimTime) {
        if let Time::Paced { .. } = self.time {
            let late = self.drive_now().since(completed);
            self.lateness_ns.record(self.wall_ns(late.0), 1);
            self.taken += 1;
        }
    }

    /// Ends a turn: all completions taken since the last poll are sent, as far as the sockets took them, and
    /// `outstanding` operations remain.
    #[inline]
    pub fn handed_out(&mut self, outstanding: usize) {
        // With several completions, all but the last were out sooner than the whole took.
        if std::mem::take(&mut self.taken) == 1 {
            let now_ns = self.now_ns();
            self.cost_ns = approach(self.cost_ns, now_ns - self.looked_ns, 1).min(COST_NS_MAX);
            self.answered_ns = (outstanding == 0).then_some(now_ns);
        }
    }

    /// Wall time at which a drive must run so that an event at `at` in its time is handed out on time, if it
    /// is `awaited`.
    pub fn due_ns(&self, at: SimTime, awaited: bool) -> u64 {
        self.wall_ns(at.0).saturating_sub(if awaited { self.early_ns() } else { 0 })
    }

    /// Wall time by which completions are taken ahead of their time.
    fn early_ns(&self) -> u64 {
        self.lead_ns.saturating_add(self.cost_ns)
    }

    /// Converts wall time to the drive's time.
    fn drive_time(&self, wall_ns: u64) -> SimTime {
        match self.time {
            Time::Paced { dilation: 1.0 } => SimTime(wall_ns),
            Time::Paced { dilation } => SimTime((wall_ns as f64 / dilation) as u64),
            Time::Instant => SimTime::ZERO,
        }
    }

    /// Converts a duration of the drive's time to wall time, rounded up.
    fn wall_ns(&self, drive_ns: u64) -> u64 {
        match self.time {
            Time::Paced { dilation } if dilation != 1.0 => (drive_ns as f64 * dilation).ceil() as u64,
            _ => drive_ns,
        }
    }
}

/// Moves an estimate towards a measurement: `steps_up` steps up, or one down.
fn approach(estimate_ns: u64, measured_ns: u64, steps_up: u64) -> u64 {
    match measured_ns > estimate_ns {
        true => estimate_ns + steps_up * STEP_NS,
        false => estimate_ns.saturating_sub(STEP_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out `taken` completions at a time, `turns` times, each time `cost_ns` after the poll.
    fn hand_out(pacer: &mut Pacer, turns: u32, taken: u32, cost_ns: u64) {
        for _ in 0..turns {
            (0..taken).for_each(|_| pacer.took(SimTime::ZERO));
            // Pretends that the poll was `cost_ns` ago.
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

    /// Simulates a last answer `ago_ns` ago that left `outstanding` operations; one command arrives now, then
    /// another.
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
