//! Zones: what a zoned namespace consists of (NVMe Zoned Namespaces 1.1).
//!
//! ```text
//!              write, append           open
//!  empty ──► implicitly open ◄──► explicitly open        any of them ──► full   by its last write, or finish
//!    ▲             │  ▲                │                  any but offline ──► empty   by reset (not read-only)
//!    │             ▼  │ write          ▼ close            read-only, offline: by failures of the media
//!    └─ reset ── closed ◄──────────────┘                  open + closed = active
//! ```
//! A power cut closes open zones, empties those in which nothing was written, and leaves the other states as they are.

use crate::{Effect, Lba};

/// Shape of a zoned namespace, known before any state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneGeometry {
    /// Zones.
    pub zones: u32,
    /// From one zone's start to the next, in sectors; a power of two.
    pub zone_sectors: u64,
    /// Sectors of a zone that can be written; at most `zone_sectors`.
    pub capacity_sectors: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Open zones that are allowed; 0: any number.
    pub open_max: u32,
    /// Active (open or closed) zones that are allowed; 0: any number.
    pub active_max: u32,
    /// Longest append, in sectors.
    pub append_max_sectors: u32,
}

/// State of a zone; the numbers are those of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ZoneState {
    /// Zone without data.
    #[default]
    Empty = 1,
    /// Opened by a write; the drive may close it to open another.
    ImplicitlyOpen = 2,
    /// Opened by the host.
    ExplicitlyOpen = 3,
    /// Partly written, not open.
    Closed = 4,
    /// Can be read only.
    ReadOnly = 0xD,
    /// Written to its end, or finished.
    Full = 0xE,
    /// Out of use.
    Offline = 0xF,
}

/// Command that only a zoned namespace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneOp {
    /// Write the sectors of `data` at the write pointer of the zone that starts at `lba`; [`Completion::result`](crate::Completion::result) is
    /// where they went.
    Append,
    /// Change the state of the zone that starts at `lba` (`sectors` is 0).
    Change(ZoneAction),
}

impl ZoneOp {
    /// Returns the effect of the command.
    #[inline]
    pub fn effect(self) -> Effect {
        match self {
            ZoneOp::Append => Effect::Writes,
            ZoneOp::Change(_) => Effect::Erases,
        }
    }
}

/// Action of a host on a zone (Zone Management Send); the numbers are those of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ZoneAction {
    /// Close it.
    Close = 1,
    /// Make it full.
    Finish = 2,
    /// Open it explicitly.
    Open = 3,
    /// Make it empty.
    Reset = 4,
    /// Take a read-only zone out of use.
    Offline = 5,
    /// Close all that are open.
    CloseAll = 0x81,
    /// Finish all that are open or closed.
    FinishAll = 0x82,
    /// Open all that are closed.
    OpenAll = 0x83,
    /// Reset all that are open, closed or full.
    ResetAll = 0x84,
    /// Take all that are read-only out of use.
    OfflineAll = 0x85,
}

impl ZoneAction {
    /// All actions: those on one zone first, then those on all zones.
    pub const ALL: [ZoneAction; 10] = [
        ZoneAction::Open,
        ZoneAction::Close,
        ZoneAction::Finish,
        ZoneAction::Reset,
        ZoneAction::Offline,
        ZoneAction::OpenAll,
        ZoneAction::CloseAll,
        ZoneAction::FinishAll,
        ZoneAction::ResetAll,
        ZoneAction::OfflineAll,
    ];
}

/// State of a zone, as a report shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneInfo {
    /// State.
    pub state: ZoneState,
    /// First sector.
    pub start: Lba,
    /// Sectors that can be written.
    pub capacity_sectors: u64,
    /// Where the next sector goes; meaningless in a zone that is full, read-only or offline.
    pub write_pointer: Lba,
    /// Zone attribute "Reset Zone Recommended": what it holds is near to being lost, or is lost in part.
    pub reset_recommended: bool,
}

impl ZoneInfo {
    /// Length of a packed one: the zone descriptor of Zone Management Receive.
    pub const BYTES: usize = 64;

    /// Appends the descriptor: 0 type 2, 1 state in the high half, 2 attributes (bit 2: reset recommended), 8 capacity, 16 start, 24 write pointer, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        let attributes = u8::from(self.reset_recommended) << 2;
        out.extend_from_slice(&[2, (self.state as u8) << 4, attributes, 0, 0, 0, 0, 0]);
        for value in [self.capacity_sectors, self.start.0, self.write_pointer.0] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.resize(at + Self::BYTES, 0);
    }

    /// Reads a descriptor; `None` if the state is invalid.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<ZoneInfo> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let state = match bytes[1] >> 4 {
            1 => ZoneState::Empty,
            2 => ZoneState::ImplicitlyOpen,
            3 => ZoneState::ExplicitlyOpen,
            4 => ZoneState::Closed,
            0xD => ZoneState::ReadOnly,
            0xE => ZoneState::Full,
            0xF => ZoneState::Offline,
            _ => return None,
        };
        Some(ZoneInfo {
            state,
            capacity_sectors: number(8),
            start: Lba(number(16)),
            write_pointer: Lba(number(24)),
            reset_recommended: bytes[2] >> 2 & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_come_back() {
        let info = ZoneInfo {
            state: ZoneState::Full,
            start: Lba(1 << 33),
            capacity_sectors: 1000,
            write_pointer: Lba((1 << 33) + 1000),
            reset_recommended: true,
        };
        let mut bytes = Vec::new();
        info.encode(&mut bytes);
        let mut bytes: [u8; 64] = bytes.try_into().expect("64 bytes");
        assert_eq!(ZoneInfo::decode(&bytes), Some(info));
        bytes[1] = 0x90;
        assert_eq!(ZoneInfo::decode(&bytes), None);
    }
}
