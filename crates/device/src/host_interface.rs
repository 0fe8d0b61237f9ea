//! The host side: submission queues, their arbitration, and the DMA link.
//!
//! A command waits in its submission queue until the controller takes it: round robin over the queues, or weighted. At most
//! `commands_max` commands are worked on at once. The link carries one transfer at a time in each direction, first come, first
//! served, in units of the DMA size; its latency does not occupy it.

use crate::config::{Arbitration, HostInterface as Config};
use pellucid_flash::slab::{Linked, List, Slab};
use pellucid_flash::{Nanos, SimTime};

/// Which way a DMA goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Host to drive: the data of a write.
    Rx = 0,
    /// Drive to host: the data of a read.
    Tx = 1,
}

/// Submission queues and link.
#[derive(Clone, Debug)]
pub(crate) struct HostInterface {
    queues: Vec<List>,
    weights: Vec<u32>,
    turn: usize,
    left: u32,
    waiting: u32,
    link_free: [SimTime; 2],
    link_busy: [Nanos; 2],
    /// A transfer takes no time, whatever its size.
    link_is_free: bool,
    config: Config,
}

impl HostInterface {
    pub fn new(config: &Config) -> HostInterface {
        let weight = |q: usize| match &config.arbitration {
            Arbitration::RoundRobin => 1,
            Arbitration::Weighted(weights) => weights.get(q).copied().unwrap_or(1).max(1),
        };
        let weights: Vec<u32> = (0..usize::from(config.queues)).map(weight).collect();
        HostInterface {
            queues: vec![List::default(); config.queues.into()],
            left: weights[0],
            weights,
            turn: 0,
            waiting: 0,
            link_free: [SimTime::ZERO; 2],
            link_busy: [Nanos::ZERO; 2],
            link_is_free: config.link_bytes_per_second == 0
                && [config.dma_overhead_ns, config.dma_latency_ns, config.dma_request_ns] == [Nanos::ZERO; 3],
            config: config.clone(),
        }
    }

    /// Whether there is a queue of this number.
    pub fn has_queue(&self, queue: u16) -> bool {
        queue < self.config.queues
    }

    /// A command arrives in its queue.
    #[inline]
    pub fn push<T: Linked>(&mut self, slab: &mut Slab<T>, queue: u16, command: u32) {
        self.queues[usize::from(queue)].push_back(slab, command);
        self.waiting += 1;
    }

    /// Whether a command waits.
    #[inline]
    pub fn waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The next command by arbitration.
    #[inline]
    pub fn pop<T: Linked>(&mut self, slab: &mut Slab<T>) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        loop {
            if self.left > 0
                && let Some(command) = self.queues[self.turn].pop(slab)
            {
                self.left -= 1;
                self.waiting -= 1;
                return Some(command);
            }
            self.turn = if self.turn + 1 == self.queues.len() { 0 } else { self.turn + 1 };
            self.left = self.weights[self.turn];
        }
    }

    /// Whether a transfer takes no time, so that nobody need ask.
    #[inline]
    pub fn link_is_free(&self) -> bool {
        self.link_is_free
    }

    /// Books a transfer of `bytes` and says when it ends. The link is first come, first served, so nothing that comes later
    /// can change that.
    #[inline]
    pub fn transfer(&mut self, now: SimTime, bytes: u64, direction: Direction) -> SimTime {
        let mut time = match self.config.dma_overhead_ns {
            Nanos::ZERO => Nanos::ZERO,
            overhead => Nanos(overhead.0 * bytes.div_ceil(self.config.dma_unit_bytes.into())),
        };
        if self.config.link_bytes_per_second > 0 {
            time += Nanos((bytes * 1_000_000_000).div_ceil(self.config.link_bytes_per_second));
        }
        let free = &mut self.link_free[direction as usize];
        *free = (*free).max(now) + time;
        self.link_busy[direction as usize] += time;
        let request = if direction == Direction::Rx { self.config.dma_request_ns } else { Nanos::ZERO };
        *free + self.config.dma_latency_ns + request
    }

    /// Busy time of the link up to `now`, to the drive and to the host. What is booked beyond leaves no gap.
    pub fn link_busy(&self, now: SimTime) -> [Nanos; 2] {
        std::array::from_fn(|i| Nanos(self.link_busy[i].0 - self.link_free[i].since(now).0))
    }

    /// Forgets all commands (power cut).
    pub fn reset(&mut self, now: SimTime) {
        self.queues.fill(List::default());
        self.waiting = 0;
        self.link_busy = self.link_busy(now);
        self.link_free = [now; 2];
    }
}
