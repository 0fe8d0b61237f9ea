//! The key-equation solver of the error correction, shared by several channels (Cosmos+ section 5, Fig. 19).
//!
//! ```text
//!  channel 0: chunk, chunk, ... ─► syndromes ─┐
//!  channel 1: chunk, chunk, ... ─► syndromes ─┼─► solver, first come, first served ─► search, buffer
//!  ...                                       ─┘
//! ```
//! The chunks of a page arrive evenly over its transfer; each passes the solver, with or without wrong bits, which is the
//! worst case. A page is decoded no sooner than its last chunk has left the solver, so what the solver costs is how long
//! that one is late after the transfer's end. Chunks are not events: they are served when a transfer ends, all that arrived
//! until then in the order of arrival, then of channels.

use pellucid_flash::{Nanos, SimTime};

/// Solver per group of channels.
#[derive(Clone, Debug)]
pub(super) struct Solvers {
    channels: u32,
    chunk_bytes: u64,
    chunk: Nanos,
    /// When each solver has served everything that it was given.
    free: Vec<SimTime>,
    /// The page on each channel.
    pages: Vec<Option<Page>>,
}

/// A page under transfer, chunk by chunk.
#[derive(Clone, Copy, Debug)]
struct Page {
    begins: SimTime,
    time: Nanos,
    chunks: u64,
    served: u64,
}

impl Page {
    /// When the first chunk that is not served has arrived in whole.
    fn next(&self) -> SimTime {
        self.begins + Nanos(self.time.0 * (self.served + 1) / self.chunks)
    }
}

impl Solvers {
    /// A solver for each `channels` of `all` channels, which takes `chunk` for each `chunk_bytes`.
    pub fn new(channels: u32, chunk_bytes: u32, chunk: Nanos, all: u32) -> Solvers {
        let solvers = all.div_ceil(channels) as usize;
        Solvers {
            channels,
            chunk_bytes: chunk_bytes.into(),
            chunk,
            free: vec![SimTime::ZERO; solvers],
            pages: vec![None; all as usize],
        }
    }

    /// A transfer of `bytes` begins on `channel` and lasts `time`.
    pub fn begin(&mut self, now: SimTime, channel: u32, bytes: u64, time: Nanos) {
        let chunks = bytes.div_ceil(self.chunk_bytes).max(1);
        self.pages[channel as usize] = Some(Page { begins: now, time, chunks, served: 0 });
    }

    /// The transfer on `channel` has ended, and its data path has drained: how much later its last chunk has left the solver.
    pub fn end(&mut self, now: SimTime, channel: u32) -> Nanos {
        let group = channel / self.channels;
        let first = (group * self.channels) as usize;
        let last = (first + self.channels as usize).min(self.pages.len());
        let free = &mut self.free[group as usize];
        while self.pages[channel as usize].is_some() {
            let arrived = |(at, page): (usize, &Option<Page>)| page.map(|page| (page.next(), at));
            let next = self.pages[first..last].iter().enumerate().filter_map(arrived).min();
            let (arrival, at) = next.expect("the ending page has chunks left");
            debug_assert!(arrival <= now, "a chunk after the end of its transfer");
            *free = (*free).max(arrival) + self.chunk;
            let page = &mut self.pages[first + at];
            if let Some(running) = page {
                running.served += 1;
                if running.served == running.chunks {
                    *page = None;
                }
            }
        }
        free.since(now)
    }

    /// Forgets all pages (power cut).
    pub fn reset(&mut self) {
        self.pages.fill(None);
        self.free.fill(SimTime::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solvers(channels: u32, chunk_ns: u64) -> Solvers {
        Solvers::new(channels, 256, Nanos(chunk_ns), 8)
    }

    #[test]
    fn a_page_alone_is_late_by_its_last_chunk() {
        let mut solvers = solvers(4, 300);
        solvers.begin(SimTime(1_000), 5, 16_384, Nanos(64_000));
        assert_eq!(solvers.end(SimTime(65_000), 5), Nanos(300));
    }

    #[test]
    fn a_solver_slower_than_the_channel_falls_behind() {
        let mut solvers = solvers(1, 1_500);
        solvers.begin(SimTime(0), 0, 16_384, Nanos(64_000));
        // The first chunk arrives at 1 us; 64 chunks take 96 us.
        assert_eq!(solvers.end(SimTime(64_000), 0), Nanos(33_000));
    }

    #[test]
    fn channels_of_a_group_share_and_others_do_not() {
        let late = |channels: u32, other: u32| {
            let mut solvers = solvers(channels, 700);
            solvers.begin(SimTime(0), 0, 16_384, Nanos(64_000));
            solvers.begin(SimTime(0), other, 16_384, Nanos(64_000));
            solvers.end(SimTime(64_000), 0);
            solvers.end(SimTime(64_000), other)
        };
        // Two channels ask for 1.4 times of what one solver can do.
        assert_eq!(late(4, 3), Nanos(1_000 + 128 * 700 - 64_000));
        assert_eq!(late(4, 4), Nanos(700));
        assert_eq!(late(1, 3), Nanos(700));
    }

    #[test]
    fn the_work_of_pages_that_go_on_is_kept() {
        let mut solvers = solvers(8, 1_000);
        solvers.begin(SimTime(0), 0, 1_024, Nanos(4_000));
        solvers.begin(SimTime(2_000), 7, 1_024, Nanos(4_000));
        // Chunks at 1, 2, 3 and 4 us of the first, at 3, 4, 5 and 6 us of the second, each served in 1 us.
        assert_eq!(solvers.end(SimTime(4_000), 0), Nanos(2_000));
        assert_eq!(solvers.end(SimTime(6_000), 7), Nanos(3_000));
    }
}
