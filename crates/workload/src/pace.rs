//! Earliest start of I/O: the schedule of `rate` and `rate_iops` ([`Pace`]), and the pauses of `thinktime` ([`Pause`]).
//!
//! A pace is open loop: its due times depend on what was issued, never on completions. A pause is closed loop: it begins when everything in flight
//! has completed.

use super::{Rate, RateProcess, Think};
use pellucid_flash::{Rng, SimTime};

/// Schedule of one direction: due time of its next I/O, counted from the end of `startdelay`.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub(super) rate: Rate,
    process: RateProcess,
    /// I/Os or bytes scheduled so far.
    units: u64,
    pub(super) due_ns: f64,
}

impl Pace {
    pub(super) fn new(rate: Rate, process: RateProcess) -> Pace {
        Pace { rate, process, units: 0, due_ns: 0.0 }
    }

    /// Advances the schedule by an I/O of `bytes`.
    pub(super) fn advance(&mut self, bytes: u64, rng: &mut Rng) {
        let (units, per_second) = match self.rate {
            Rate::Unlimited => return,
            Rate::Iops(rate) => (1, rate as f64),
            Rate::Bytes(rate) => (bytes, rate as f64),
        };
        self.units = self.units.saturating_add(units);
        self.due_ns = match self.process {
            // Computed from the start, so that rounding does not add up.
            RateProcess::Linear => self.units as f64 * 1e9 / per_second,
            RateProcess::Poisson => {
                self.due_ns - (1.0 - rng.unit_f64()).ln() * units as f64 * 1e9 / per_second
            }
        };
    }
}

/// State of `thinktime`: after every `blocks` I/Os the job waits for all completions, and then pauses.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    think: Think,
    blocks_left: u32,
    pub(super) in_flight: u32,
    pub(super) until: SimTime,
}

impl Pause {
    pub(super) fn new(think: Think) -> Pause {
        Pause { think, blocks_left: think.blocks, in_flight: 0, until: SimTime::ZERO }
    }

    pub(super) fn issued(&mut self) {
        self.in_flight += 1;
        // Must not wrap if a driver ignores `earliest`.
        self.blocks_left = self.blocks_left.saturating_sub(1);
    }

    pub(super) fn waiting(&self) -> bool {
        self.blocks_left == 0
    }

    pub(super) fn completed(&mut self, now: SimTime) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.waiting() && self.in_flight == 0 {
            self.blocks_left = self.think.blocks;
            self.until = now + self.think.time;
        }
    }
}
