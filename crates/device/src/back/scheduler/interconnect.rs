//! The interconnect between the memory and the controllers of all channels (Cosmos+ Table 6, bus 3).
//!
//! ```text
//!  memory ══ interconnect ══╦══ channel 0 ── ways       a pipe for each direction: data of programs go out,
//!                           ╠══ channel 1 ── ways       data of reads come in
//!                           ╚══ ...
//! ```
//! The channels' bursts take turns on it, so a transfer is as quick as its channel until together they ask for more than the
//! interconnect carries; then it bounds them. Bursts are not events: a transfer books its bytes when it begins, and ends no sooner
//! than they have passed behind all that was booked before. What crosses is the user data: parity and spare bytes end in the
//! channel's controller.
//!
//! Invariant: the time until which a pipe is booked never goes back.

use pellucid_flash::{Nanos, SimTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    Flash,
    Memory,
}

#[derive(Clone, Debug)]
pub(super) struct Interconnect {
    /// Time for one mapping unit.
    unit: Nanos,
    /// Until when each direction is booked.
    booked: [SimTime; 2],
}

impl Interconnect {
    /// `None`: no limit (`bytes_per_second` of 0).
    pub fn new(bytes_per_second: u64, unit_bytes: u32) -> Option<Interconnect> {
        let unit = (u64::from(unit_bytes) * 1_000_000_000).checked_div(bytes_per_second)?;
        Some(Interconnect { unit: Nanos(unit), booked: [SimTime::ZERO; 2] })
    }

    /// How long a transfer of `units` mapping units lasts that begins now and takes its channel `alone`.
    pub fn carry(&mut self, now: SimTime, towards: Towards, units: u32, alone: Nanos) -> Nanos {
        let booked = &mut self.booked[towards as usize];
        *booked = (*booked).max(now) + Nanos(self.unit.0 * u64::from(units));
        alone.max(*booked - now)
    }

    /// Discards all transfers in progress (power cut).
    pub fn reset(&mut self) {
        self.booked = [SimTime::ZERO; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of 16 KiB, 8,192 ns each.
    fn two_gigabytes() -> Interconnect {
        Interconnect::new(2_000_000_000, 16_384).unwrap()
    }

    #[test]
    fn a_transfer_alone_is_as_quick_as_its_channel() {
        let mut interconnect = two_gigabytes();
        assert_eq!(interconnect.carry(SimTime(50), Towards::Memory, 1, Nanos(90_000)), Nanos(90_000));
        assert_eq!(interconnect.carry(SimTime(50), Towards::Memory, 1, Nanos(5_000)), Nanos(2 * 8_192));
    }

    /// The eleventh transfer at a time needs 90.1 us.
    #[test]
    fn what_begins_together_shares_it_and_directions_do_not() {
        let mut interconnect = two_gigabytes();
        let ends: Vec<u64> =
            (0..16).map(|_| interconnect.carry(SimTime(0), Towards::Memory, 1, Nanos(90_000)).0).collect();
        assert_eq!(ends[..10], [90_000; 10]);
        assert_eq!(ends[10], 11 * 8_192);
        assert_eq!(ends[15], 16 * 8_192);
        assert_eq!(interconnect.carry(SimTime(0), Towards::Flash, 2, Nanos(90_000)), Nanos(90_000));
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert!(Interconnect::new(0, 16_384).is_none());
    }
}
