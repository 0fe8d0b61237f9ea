//! The mark in the spare area of a zone's superpage: its identity, and the state of its zone.
//!
//! ```text
//!  zone | superpage | sectors, bit 31 finished, 30 read-only, 29 offline | epoch       four words, little endian
//! ```
//! Invariant: a mark that was encoded is decoded as it was.

use pellucid_flash::ZoneState;

/// Content of the spare area of a zone's superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Zone.
    pub zone: u32,
    /// Superpage of the zone.
    pub superpage: u32,
    /// Sectors that hold data. Only the last superpage, and superpages in the staging log, may hold less than a full superpage. 0 in the
    /// log: the zone was reset, unless there is a verdict.
    pub sectors: u32,
    /// The zone was finished with this superpage.
    pub finished: bool,
    /// In the log: no superpage, but that the zone is [`ReadOnly`](ZoneState::ReadOnly) or [`Offline`](ZoneState::Offline) for good.
    pub verdict: Option<ZoneState>,
    /// Number of the mount that wrote it.
    pub epoch: u32,
}

impl Mark {
    /// Length of an encoded mark.
    pub const BYTES: usize = 16;

    /// Encodes the mark: zone, superpage, sectors (bit 31: finished, 30: read-only, 29: offline), epoch; little endian.
    pub fn encode(&self) -> [u8; Mark::BYTES] {
        let mut bytes = [0; Mark::BYTES];
        let verdict = match self.verdict {
            Some(ZoneState::ReadOnly) => 1 << 30,
            Some(ZoneState::Offline) => 1 << 29,
            _ => 0,
        };
        let sectors = self.sectors | u32::from(self.finished) << 31 | verdict;
        for (at, word) in [self.zone, self.superpage, sectors, self.epoch].into_iter().enumerate() {
            bytes[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a mark from [`Mark::encode`].
    pub fn decode(bytes: &[u8; Mark::BYTES]) -> Mark {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[4 * at + i]));
        let sectors = word(2);
        Mark {
            zone: word(0),
            superpage: word(1),
            sectors: sectors & !(7 << 29),
            finished: sectors >> 31 == 1,
            verdict: match sectors >> 29 & 3 {
                0 => None,
                2 => Some(ZoneState::ReadOnly),
                _ => Some(ZoneState::Offline),
            },
            epoch: word(3),
        }
    }
}
