//! Sequential streams: requests that begin where an earlier one ended.
//!
//! As in FlashCache, the ends of recent streams are kept, and a request that starts at one of them extends
//! its stream.

use pellucid_flash::Lba;

/// Maximum number of streams followed at once (FlashCache: 32).
const STREAMS: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// First sector after the last request.
    end: u64,
    sectors: u64,
    /// Number of the last request.
    at: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    /// Length in sectors from which a stream is sequential; 0 turns this off.
    threshold: u64,
    requests: u64,
}

impl Streams {
    pub fn new(threshold: u64) -> Streams {
        Streams { streams: [Stream { end: u64::MAX, ..Stream::default() }; STREAMS], threshold, requests: 0 }
    }

    /// Notes a request. Returns whether it belongs to a sequential stream.
    #[inline]
    pub fn note(&mut self, lba: Lba, sectors: u32) -> bool {
        if self.threshold == 0 {
            return false;
        }
        self.requests += 1;
        let end = lba.0 + u64::from(sectors);
        let at = match self.streams.iter().position(|stream| stream.end == lba.0) {
            Some(at) => at,
            None => {
                let oldest = (0..STREAMS).min_by_key(|&at| self.streams[at].at).expect("there are some");
                self.streams[oldest] = Stream::default();
                oldest
            }
        };
        let stream = &mut self.streams[at];
        *stream = Stream { end, sectors: stream.sectors + u64::from(sectors), at: self.requests };
        stream.sectors >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_streams_are_found_among_random_requests() {
        let mut streams = Streams::new(64);
        let mut found = Vec::new();
        for i in 0..20u64 {
            found.push(streams.note(Lba(1000 + i * 8), 8));
            for other in 0..20 {
                assert!(!streams.note(Lba(1 << 20 | (i * 20 + other) << 8), 8), "a random one");
            }
        }
        let expected: Vec<bool> = (1..=20).map(|requests| requests * 8 >= 64).collect();
        assert_eq!(found, expected);
        assert!(!Streams::new(0).note(Lba(0), 1 << 20), "off");
    }
}
