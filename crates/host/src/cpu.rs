//! Processor of the host: the simulated time of a layer's own work.
//!
//! Each step runs on the core that is free first, and takes effect at its end. A step without cost takes
//! effect at once and schedules nothing.

use pellucid_flash::{Nanos, SimTime};
use pellucid_setting::Settings;
use std::collections::VecDeque;

/// Costs of a layer's steps. In real time all are zero, because the host's processor is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct CpuCosts {
    /// Processor cores that the host's layers may use.
    #[setting(kind = few(1), default = 1)]
    pub cores: u32,
    /// Host processor: taking and completing a command.
    #[setting(default = 0)]
    pub submit_ns: Nanos,
    /// Host processor: mapping one sector, and copying it for a write.
    #[setting(default = 0)]
    pub sector_ns: Nanos,
    /// Host processor: submitting one command to the drive.
    #[setting(default = 0)]
    pub command_ns: Nanos,
    /// Host processor: handling one completion of the drive.
    #[setting(default = 0)]
    pub completion_ns: Nanos,
}

impl CpuCosts {
    /// Costs of zero.
    pub const FREE: CpuCosts = CpuCosts {
        cores: 1,
        submit_ns: Nanos::ZERO,
        sector_ns: Nanos::ZERO,
        command_ns: Nanos::ZERO,
        completion_ns: Nanos::ZERO,
    };

    /// Returns the costs of a layer that handles no sector.
    pub(crate) fn without_sectors(self) -> CpuCosts {
        CpuCosts { sector_ns: Nanos::ZERO, ..self }
    }

    /// Returns the costs of a layer that sends no command to the drive.
    pub(crate) fn without_commands(self) -> CpuCosts {
        CpuCosts { command_ns: Nanos::ZERO, completion_ns: Nanos::ZERO, ..self }
    }
}

/// Cores and their work.
#[derive(Clone, Debug)]
pub struct Cpu {
    free_at: Vec<SimTime>,
    busy: Nanos,
}

impl Cpu {
    /// Creates `cores` idle cores.
    pub fn new(cores: u32) -> Cpu {
        Cpu { free_at: vec![SimTime::ZERO; cores.max(1) as usize], busy: Nanos::ZERO }
    }

    /// Assigns work of `cost` to the core that is free first; returns its end.
    #[inline]
    pub fn work(&mut self, now: SimTime, cost: Nanos) -> SimTime {
        let core = self.free_at.iter_mut().min().expect("at least one core");
        *core = (*core).max(now) + cost;
        self.busy += cost;
        *core
    }

    /// Returns the time of all work accepted so far, over all cores.
    pub fn busy(&self) -> Nanos {
        self.busy
    }
}

/// Steps of a host processor, in the order in which they take effect.
#[derive(Clone, Debug)]
pub struct Steps<T> {
    cpu: Cpu,
    steps: VecDeque<(SimTime, T)>,
}

impl<T> Steps<T> {
    /// Creates an empty queue of steps on `cores` idle cores.
    pub fn new(cores: u32) -> Steps<T> {
        Steps { cpu: Cpu::new(cores), steps: VecDeque::new() }
    }

    /// Queues a step that takes effect after `cost`; returns it if the cost is zero.
    #[inline]
    pub fn give(&mut self, now: SimTime, cost: Nanos, step: T) -> Option<T> {
        if cost == Nanos::ZERO {
            return Some(step);
        }
        let at = self.cpu.work(now, cost);
        // With several cores, a short step may overtake a long one.
        let mut place = self.steps.len();
        while place > 0 && self.steps[place - 1].0 > at {
            place -= 1;
        }
        self.steps.insert(place, (at, step));
        None
    }

    /// Removes and returns the next step that has ended by `now`.
    #[inline]
    pub fn due(&mut self, now: SimTime) -> Option<(SimTime, T)> {
        self.steps.front().filter(|(at, _)| *at <= now)?;
        self.steps.pop_front()
    }

    /// Returns the end of the next step.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.steps.front().map(|(at, _)| *at)
    }

    /// Returns the processor time spent.
    pub fn busy(&self) -> Nanos {
        self.cpu.busy()
    }
}
