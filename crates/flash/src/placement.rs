//! Data placement: what a namespace with placement handles shows of them (NVMe flexible data placement).
//!
//! ```text
//!  write with handle h ──► the reclaim unit that h refers to ──┬─ written to its end ──► h refers to the next unit
//!                                                              └─ update ─────────────► (this one stays partly written)
//! ```
//! A reclaim unit is what the drive erases as a whole, so data that are discarded together belong into one unit.

use crate::SimTime;

/// Shape of placement, known before any state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementGeometry {
    /// Handles; a write names one of `0..handles`.
    pub handles: u16,
    /// Nominal size of a reclaim unit.
    pub unit_bytes: u64,
    /// Data of different handles stay apart when GC moves them.
    pub persistent: bool,
}

/// State of one handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleInfo {
    /// The handle.
    pub handle: u16,
    /// Sectors that the reclaim unit it refers to can still take.
    pub remaining_sectors: u64,
}

impl HandleInfo {
    /// Length of a packed one: the reclaim unit handle status descriptor of I/O Management Receive.
    pub const BYTES: usize = 32;

    /// Appends the descriptor: 0 placement identifier, 2 handle, 8 sectors that remain, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        for _ in 0..2 {
            out.extend_from_slice(&self.handle.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.remaining_sectors.to_le_bytes());
        out.resize(at + Self::BYTES, 0);
    }

    /// Reads a descriptor.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> HandleInfo {
        HandleInfo {
            handle: u16::from_le_bytes([bytes[2], bytes[3]]),
            remaining_sectors: u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i])),
        }
    }
}

/// Something that happened to a handle or its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementEvent {
    /// When.
    pub at: SimTime,
    /// Kind of the event.
    pub kind: PlacementEventKind,
    /// The handle concerned, or what a command gave for one.
    pub handle: u16,
    /// Sectors concerned: not written, or moved.
    pub sectors: u64,
}

/// Kind of a [`PlacementEvent`]; the numbers are those of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PlacementEventKind {
    /// The host left a unit before its end.
    UnitNotFull = 0x00,
    /// A power cut changed what the handle refers to.
    Reset = 0x02,
    /// A write named a handle that does not exist.
    InvalidHandle = 0x03,
    /// GC moved data of the handle.
    Reallocated = 0x80,
    /// A unit was written to its end, and the handle refers to the next one.
    NextUnit = 0x81,
}

impl PlacementEventKind {
    /// All kinds.
    pub const ALL: [PlacementEventKind; 5] = [
        PlacementEventKind::UnitNotFull,
        PlacementEventKind::Reset,
        PlacementEventKind::InvalidHandle,
        PlacementEventKind::Reallocated,
        PlacementEventKind::NextUnit,
    ];

    /// Its place in a mask of kinds.
    pub fn bit(self) -> u8 {
        match self {
            PlacementEventKind::UnitNotFull => 1 << 0,
            PlacementEventKind::Reset => 1 << 1,
            PlacementEventKind::InvalidHandle => 1 << 2,
            PlacementEventKind::Reallocated => 1 << 3,
            PlacementEventKind::NextUnit => 1 << 4,
        }
    }

    /// Returns whether the host is the cause (its events have numbers below 80h).
    pub fn is_by_host(self) -> bool {
        (self as u8) < 0x80
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_come_back() {
        let info = HandleInfo { handle: 7, remaining_sectors: 1 << 33 };
        let mut bytes = Vec::new();
        info.encode(&mut bytes);
        let bytes: [u8; 32] = bytes.try_into().expect("32 bytes");
        assert_eq!(HandleInfo::decode(&bytes), info);
    }
}
