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
        let slots = self.slots(lpn);
        for slot in slots {
            let counter = &mut self.counters[slot];
            *counter = (*counter + 1).min(LIMIT);
        }
        self.writes += 1;
        if self.writes == self.decay_every {
            self.writes = 0;
            self.counters.iter_mut().for_each(|c| *c /= 2);
        }
        slots.iter().all(|&slot| self.counters[slot] >= HOT)
    }

    /// Returns the result of [`Temperature::write`] without counting.
    pub fn would_be_hot(&self, lpn: Lpn) -> bool {
        let slots = self.slots(lpn);
        let raise = if slots[0] == slots[1] { 2 } else { 1 };
        let share = if self.writes + 1 == self.decay_every { 2 } else { 1 };
        slots.iter().all(|&slot| (self.counters[slot] + raise).min(LIMIT) / share >= HOT)
    }

    /// The counters of `lpn`, one in each row.
    fn slots(&self, lpn: Lpn) -> [usize; 2] {
        let a = (lpn.0.wrapping_mul(0x9e37_79b1) >> 7) & self.mask;
        let b = (lpn.0.wrapping_mul(0x85eb_ca77).rotate_left(13)) & self.mask;
        [a as usize, b as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    #[test]
    fn a_write_is_as_hot_as_was_said_before_it() {
        let (mut temperature, mut rng) = (Temperature::new(1 << 12), Rng::new(3));
        let mut hot = 0;
        for _ in 0..20_000 {
            let lpn = Lpn(rng.below(1 + rng.clone().below(1 << 12)) as u32);
            let said = temperature.would_be_hot(lpn);
            assert_eq!(said, temperature.write(lpn));
            hot += u32::from(said);
        }
        assert!((1_000..19_000).contains(&hot), "{hot} of 20000 writes were hot");
    }
}
