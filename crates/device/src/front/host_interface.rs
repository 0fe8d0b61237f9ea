//! The host side: submission queues, their arbitration, and the DMA link.
//!
//! A command waits in its submission queue until the controller takes it: round robin over the queues, or weighted. NVMe allows
//! up to 64 Ki queues minus the admin queue, so empty queues are skipped 64 at a time. At most `commands_max` commands are in
//! progress at once. The link carries one transfer at a time in each direction, first come, first served, in units of the DMA
//! size; its latency does not occupy it.

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

/// Which queues hold a command: a bit each.
#[derive(Clone, Debug)]
struct Occupied(Vec<u64>);

impl Occupied {
    fn none_of(queues: usize) -> Occupied {
        Occupied(vec![0; queues.div_ceil(64)])
    }

    #[inline]
    fn insert(&mut self, queue: usize) {
        self.0[queue / 64] |= 1 << (queue % 64);
    }

    #[inline]
    fn remove(&mut self, queue: usize) {
        self.0[queue / 64] &= !(1 << (queue % 64));
    }

    /// The first one after `queue`, which comes last itself.
    fn after(&self, queue: usize) -> Option<usize> {
        let (word, upto) = (queue / 64, u64::MAX >> (63 - queue % 64));
        let first_of = |at: usize, bits: u64| (bits != 0).then(|| 64 * at + bits.trailing_zeros() as usize);
        let others = || (word + 1..self.0.len()).chain(0..word).find_map(|at| first_of(at, self.0[at]));
        let own = self.0[word];
        first_of(word, own & !upto).or_else(others).or_else(|| first_of(word, own & upto))
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// Submission queues and link.
#[derive(Clone, Debug)]
pub(crate) struct HostInterface {
    queues: Vec<List>,
    occupied: Occupied,
    weights: Vec<u32>,
    turn: usize,
    left: u32,
    waiting: u32,
    link_free: [SimTime; 2],
    link_busy: [Nanos; 2],
    /// Time of the transfer that was booked last.
    link_last: [Nanos; 2],
    /// A transfer takes no time, whatever its size, and its end need not be noticed.
    link_is_free: bool,
    config: Config,
}

impl HostInterface {
    /// `notices_ends`: a firmware loop looks for the end of every transfer, however quick that is.
    pub fn new(config: &Config, notices_ends: bool) -> HostInterface {
        let weight = |q: usize| match &config.arbitration {
            Arbitration::RoundRobin => 1,
            Arbitration::Weighted(weights) => weights.get(q).copied().unwrap_or(1).max(1),
        };
        let weights: Vec<u32> = (0..usize::from(config.queues)).map(weight).collect();
        HostInterface {
            queues: vec![List::default(); config.queues.into()],
            occupied: Occupied::none_of(config.queues.into()),
            left: weights[0],
            weights,
            turn: 0,
            waiting: 0,
            link_free: [SimTime::ZERO; 2],
            link_busy: [Nanos::ZERO; 2],
            link_last: [Nanos::ZERO; 2],
            link_is_free: !notices_ends
                && config.link_bytes_per_second == 0
                && config.write_bytes_per_second == 0
                && [config.dma_overhead_ns, config.dma_latency_ns, config.dma_request_ns] == [Nanos::ZERO; 3],
            config: config.clone(),
        }
    }

    /// Returns whether there is a queue of this number.
    pub fn has_queue(&self, queue: u16) -> bool {
        queue < self.config.queues
    }

    /// A command arrives in its queue.
    #[inline]
    pub fn push<T: Linked>(&mut self, slab: &mut Slab<T>, queue: u16, command: u32) {
        self.queues[usize::from(queue)].push_back(slab, command);
        self.occupied.insert(queue.into());
        self.waiting += 1;
    }

    /// A command of `queue` passes by, as [`HostInterface::push`] and [`HostInterface::pop`] do where no other one waits.
    #[inline]
    pub fn pass(&mut self, queue: u16) {
        debug_assert_eq!(self.waiting, 0, "others wait");
        let queue = usize::from(queue);
        if self.left == 0 || self.turn != queue {
            (self.turn, self.left) = (queue, self.weights[queue]);
        }
        self.left -= 1;
    }

    /// Returns whether a command waits.
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
        if self.left == 0 || self.queues[self.turn].is_empty() {
            self.turn = self.occupied.after(self.turn)?;
            self.left = self.weights[self.turn];
        }
        let command = self.queues[self.turn].pop(slab)?;
        if self.queues[self.turn].is_empty() {
            self.occupied.remove(self.turn);
        }
        self.left -= 1;
        self.waiting -= 1;
        Some(command)
    }

    /// Returns whether transfers take no time and nobody notices their ends, so that callers need not ask.
    #[inline]
    pub fn link_is_free(&self) -> bool {
        self.link_is_free
    }

    /// Schedules a transfer of `bytes` and returns its end. The link is first come, first served, so later transfers cannot
    /// change it.
    #[inline]
    pub fn transfer(&mut self, now: SimTime, bytes: u64, direction: Direction) -> SimTime {
        let mut time = match self.config.dma_overhead_ns {
            Nanos::ZERO => Nanos::ZERO,
            overhead => Nanos(overhead.0 * bytes.div_ceil(self.config.dma_unit_bytes.into())),
        };
        let rate = match (direction, self.config.write_bytes_per_second) {
            (Direction::Tx, _) | (Direction::Rx, 0) => self.config.link_bytes_per_second,
            (Direction::Rx, rate) => rate,
        };
        if rate > 0 {
            time += Nanos((bytes * 1_000_000_000).div_ceil(rate));
        }
        let free = &mut self.link_free[direction as usize];
        *free = (*free).max(now) + time;
        self.link_busy[direction as usize] += time;
        self.link_last[direction as usize] = time;
        let request = if direction == Direction::Rx { self.config.dma_request_ns } else { Nanos::ZERO };
        *free + self.config.dma_latency_ns + request
    }

    /// Begin and end of the transfer that was booked last in a direction.
    pub fn last_transfer(&self, direction: Direction) -> (SimTime, SimTime) {
        let end = self.link_free[direction as usize];
        (SimTime(end.0 - self.link_last[direction as usize].0), end)
    }

    /// Busy time of the link up to `now`, to the drive and to the host. What is booked beyond leaves no gap.
    pub fn link_busy(&self, now: SimTime) -> [Nanos; 2] {
        std::array::from_fn(|i| Nanos(self.link_busy[i].0 - self.link_free[i].since(now).0))
    }

    /// Forgets all commands (power cut).
    pub fn reset(&mut self, now: SimTime) {
        self.queues.fill(List::default());
        self.occupied.clear();
        self.waiting = 0;
        self.link_busy = self.link_busy(now);
        self.link_free = [now; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::VecDeque;

    #[derive(Clone, Debug, Default)]
    struct Record(u32);

    impl Linked for Record {
        fn next(&mut self) -> &mut u32 {
            &mut self.0
        }
    }

    fn interface(queues: u16, weights: &[u32]) -> HostInterface {
        let config = Config {
            queues,
            arbitration: match weights {
                [] => Arbitration::RoundRobin,
                weights => Arbitration::Weighted(weights.to_vec()),
            },
            commands_max: 256,
            in_order: false,
            dma_unit_bytes: 4096,
            link_bytes_per_second: 0,
            write_bytes_per_second: 0,
            dma_overhead_ns: Nanos::ZERO,
            fetch_ns: Nanos::ZERO,
            dma_latency_ns: Nanos::ZERO,
            dma_request_ns: Nanos::ZERO,
            complete_ns: Nanos::ZERO,
            completes: crate::config::Completes::Firmware,
        };
        HostInterface::new(&config, false)
    }

    /// Arbitration as NVMe tells it: queue after queue, each for as many commands as its weight, empty ones passed by.
    struct Reference {
        queues: Vec<VecDeque<u32>>,
        weights: Vec<u32>,
        turn: usize,
        left: u32,
    }

    impl Reference {
        fn pop(&mut self) -> Option<u32> {
            if self.queues.iter().all(VecDeque::is_empty) {
                return None;
            }
            loop {
                match self.queues[self.turn].pop_front() {
                    Some(command) if self.left > 0 => {
                        self.left -= 1;
                        return Some(command);
                    }
                    Some(command) => self.queues[self.turn].push_front(command),
                    None => {}
                }
                self.turn = (self.turn + 1) % self.queues.len();
                self.left = self.weights[self.turn];
            }
        }
    }

    #[test]
    fn commands_come_in_the_order_of_their_queues_and_weights() {
        let mut rng = Rng::new(1);
        for queues in [1, 2, 8, 63, 64, 65, 128, 200] {
            for weighted in [false, true] {
                let weight = |_| if weighted { 1 + rng.below(4) as u32 } else { 1 };
                let weights: Vec<u32> = (0..queues).map(weight).collect();
                let mut interface = interface(queues as u16, if weighted { &weights } else { &[] });
                let (left, lists) = (weights[0], vec![VecDeque::new(); queues]);
                let mut reference = Reference { queues: lists, weights, turn: 0, left };
                let mut slab = Slab::default();
                for step in 0..4_000 {
                    // Times of many commands and times of few.
                    if !interface.waiting() && rng.chance(0.5) {
                        let queue = rng.below(queues as u64) as u16;
                        interface.pass(queue);
                        reference.queues[usize::from(queue)].push_back(0);
                        assert_eq!(reference.pop(), Some(0));
                    } else if rng.below(10) < if step / 500 % 2 == 0 { 7 } else { 3 } {
                        let (queue, command) = (rng.below(queues as u64) as u16, slab.insert(Record(0)));
                        interface.push(&mut slab, queue, command);
                        reference.queues[usize::from(queue)].push_back(command);
                    } else {
                        let expected = reference.pop();
                        assert_eq!(interface.pop(&mut slab), expected, "{queues} queues, step {step}");
                    }
                }
            }
        }
    }

    /// Uses as many queues as NVMe has. Scanning every queue for each command would take a hundred times as long.
    #[test]
    fn empty_queues_cost_next_to_nothing() {
        let (mut interface, mut slab) = (interface(u16::MAX, &[]), Slab::default());
        assert!(interface.has_queue(65_534) && !interface.has_queue(65_535));
        let used = [0, 7, 64, 40_000, 65_534];
        let commands = used.map(|queue| (queue, slab.insert(Record(0))));
        commands.iter().for_each(|&(queue, command)| interface.push(&mut slab, queue, command));
        for turn in 0..200_000 {
            let (queue, command) = commands[turn % used.len()];
            assert_eq!(interface.pop(&mut slab), Some(command));
            interface.push(&mut slab, queue, command);
        }
    }
}
