//! The host's processor: what a layer's own work costs in simulated time.
//!
//! Each step is work for the core that is free first, and takes effect when it has been done. A step that costs nothing
//! takes effect at once and schedules nothing.

use pellucid_flash::{Nanos, SimTime};
use std::collections::VecDeque;

/// What the steps of a layer cost. In real time, where the host's processor is real, all are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCosts {
    /// Cores that the layer may use; at least 1.
    pub cores: u32,
    /// Taking a command of the application, and completing it.
    pub submit_ns: Nanos,
    /// Looking up or changing the map entry of one sector, and copying it if it is written.
    pub sector_ns: Nanos,
    /// Building and submitting one command to the drive.
    pub command_ns: Nanos,
    /// Handling one completion of the drive.
    pub completion_ns: Nanos,
}

impl CpuCosts {
    /// Nothing costs anything.
    pub const FREE: CpuCosts = CpuCosts {
        cores: 1,
        submit_ns: Nanos::ZERO,
        sector_ns: Nanos::ZERO,
        command_ns: Nanos::ZERO,
        completion_ns: Nanos::ZERO,
    };
}

/// Cores at work.
#[derive(Clone, Debug)]
pub struct Cpu {
    free_at: Vec<SimTime>,
    busy: Nanos,
}

impl Cpu {
    /// `cores` idle cores.
    pub fn new(cores: u32) -> Cpu {
        Cpu { free_at: vec![SimTime::ZERO; cores.max(1) as usize], busy: Nanos::ZERO }
    }

    /// Gives `cost` of work to the core that is free first; when it will be done.
    #[inline]
    pub fn work(&mut self, now: SimTime, cost: Nanos) -> SimTime {
        let core = self.free_at.iter_mut().min().expect("at least one core");
        *core = (*core).max(now) + cost;
        self.busy += cost;
        *core
    }

    /// Work done and accepted so far, of all cores.
    pub fn busy(&self) -> Nanos {
        self.busy
    }
}

/// Steps on a processor above the line, in the order in which they take effect.
#[derive(Clone, Debug)]
pub struct Steps<T> {
    cpu: Cpu,
    steps: VecDeque<(SimTime, T)>,
}

impl<T> Steps<T> {
    /// No steps, on `cores` idle cores.
    pub fn new(cores: u32) -> Steps<T> {
        Steps { cpu: Cpu::new(cores), steps: VecDeque::new() }
    }

    /// Gives the processor something that takes effect after `cost`; it is handed back if that is now.
    #[inline]
    pub fn give(&mut self, now: SimTime, cost: Nanos, step: T) -> Option<T> {
        if cost == Nanos::ZERO {
            return Some(step);
        }
        let at = self.cpu.work(now, cost);
        // With several cores a short step may overtake a long one.
        let mut place = self.steps.len();
        while place > 0 && self.steps[place - 1].0 > at {
            place -= 1;
        }
        self.steps.insert(place, (at, step));
        None
    }

    /// The next step that has been done by `now`.
    #[inline]
    pub fn due(&mut self, now: SimTime) -> Option<(SimTime, T)> {
        self.steps.front().filter(|(at, _)| *at <= now)?;
        self.steps.pop_front()
    }

    /// When the next step will have been done.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.steps.front().map(|(at, _)| *at)
    }

    /// Time of the processor spent.
    pub fn busy(&self) -> Nanos {
        self.cpu.busy()
    }
}
