//! Frequently written logical pages: a decaying counter sketch.
//!
//! Two hashed rows of 4-bit-range counters (Hsieh, Kuo and Chang, "Efficient identification of hot data for flash memory
//! storage systems", ACM TOS 2006): a write raises its counters; after every `decay_every` writes all counters are halved; a page
//! whose smallest counter has reached `HOT` is hot. Errs only towards "hot", never forgets a page that is written often.

use pellucid_flash::Lpn;

const HOT: u8 = 4;
const LIMIT: u8 = 15;

/// The sketch.
#[derive(Clone, Debug)]
pub(crate) struct Temperature {
    counters: Vec<u8>,
    mask: u32,
    writes: u32,
    decay_every: u32,
}

impl Temperature {
    /// Creates a sketch for `units` logical pages.
    pub fn new(units: u32) -> Temperature {
        let slots = (units / 8).next_power_of_two().clamp(1 << 10, 1 << 20);
        Temperature { counters: vec![0; slots as usize], mask: slots - 1, writes: 0, decay_every: slots }
    }

    /// Counts a write of `lpn` and returns whether it is hot.
    pub fn write(&mut self, lpn: Lpn) -> bool {
        let a = (lpn.0.wrapping_mul(0x9e37_79b1) >> 7) & self.mask;
        let b = (lpn.0.wrapping_mul(0x85eb_ca77).rotate_left(13)) & self.mask;
        for slot in [a, b] {
            let counter = &mut self.counters[slot as usize];
            *counter = (*counter + 1).min(LIMIT);
        }
        self.writes += 1;
        if self.writes == self.decay_every {
            self.writes = 0;
            self.counters.iter_mut().for_each(|c| *c /= 2);
        }
        self.counters[a as usize].min(self.counters[b as usize]) >= HOT
    }
}
