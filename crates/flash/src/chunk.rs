//! Chunks: what an open-channel namespace consists of (Open-Channel SSD 2.0).
//!
//! ```text
//! group (channel) > parallel unit (die) > chunk (erase unit) > sector
//!
//!            write            last write, or close
//!   free ───────────► open ────────────────────────► closed
//!     ▲                 │ failure                       │
//!     └──── reset ──────┼───────────────────────────────┘      offline: out of use, for good
//! ```
//! A chunk is written in order, `write_min_sectors` at a time, and reset as a whole. Addresses are sparse: each level has a power of
//! two of numbers, of which not all need to exist.

use crate::{Effect, Lba, Nanos};

/// Command that only an open-channel namespace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkOp {
    /// Make the chunk that holds `lba`, or the chunks of the vector, free (`sectors` is 0).
    Reset,
    /// Copy the sectors of the vector to its destinations inside the drive.
    Copy,
}

impl ChunkOp {
    /// Returns the effect of the command.
    #[inline]
    pub fn effect(self) -> Effect {
        match self {
            ChunkOp::Copy => Effect::Writes,
            ChunkOp::Reset => Effect::Erases,
        }
    }
}

/// Shape of an open-channel namespace, known before any state is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkGeometry {
    /// Groups: what shares a channel.
    pub groups: u32,
    /// Parallel units of a group, which work independently.
    pub units: u32,
    /// Chunks of a parallel unit.
    pub chunks: u32,
    /// Sectors of a chunk.
    pub chunk_sectors: u32,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Least write, in sectors (`ws_min`); every write is a multiple.
    pub write_min_sectors: u32,
    /// Best write, in sectors (`ws_opt`).
    pub write_optimal_sectors: u32,
    /// Sectors before the write pointer of an open chunk that cannot be read yet (`mw_cunits`).
    pub cached_sectors: u32,
    /// Open chunks that the namespace allows; 0: any number (`maxoc`).
    pub open_chunks_max: u32,
    /// Open chunks that a parallel unit allows; 0: any number (`maxocpu`).
    pub open_chunks_per_unit_max: u32,
    /// Typical and longest read, write and reset.
    pub read_ns: [Nanos; 2],
    /// See `read_ns`; of `write_optimal_sectors`.
    pub write_ns: [Nanos; 2],
    /// See `read_ns`; of one chunk.
    pub reset_ns: [Nanos; 2],
}

/// A sector of an open-channel namespace, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkAddress {
    /// Group.
    pub group: u32,
    /// Parallel unit of the group.
    pub unit: u32,
    /// Chunk of the parallel unit.
    pub chunk: u32,
    /// Sector of the chunk.
    pub sector: u32,
}

/// Bits that hold `count` numbers.
const fn bits(count: u32) -> u32 {
    count.next_power_of_two().trailing_zeros()
}

impl ChunkGeometry {
    /// Bits of group, parallel unit, chunk and sector in an address.
    pub const fn address_bits(&self) -> [u32; 4] {
        [bits(self.groups), bits(self.units), bits(self.chunks), bits(self.chunk_sectors)]
    }

    /// Size of the sparse address space (`NSZE`).
    pub const fn address_space_sectors(&self) -> u64 {
        let [group, unit, chunk, sector] = self.address_bits();
        1 << (group + unit + chunk + sector)
    }

    /// Parallel units in all.
    pub const fn parallel_units(&self) -> u32 {
        self.groups * self.units
    }

    /// The sector number of `address`; low to high: sector, chunk, parallel unit, group.
    pub const fn lba(&self, address: ChunkAddress) -> Lba {
        let [_, unit, chunk, sector] = self.address_bits();
        let high = ((address.group as u64) << unit | address.unit as u64) << chunk | address.chunk as u64;
        Lba(high << sector | address.sector as u64)
    }

    /// Decomposes `lba`; `None` if there is no such group, parallel unit, chunk or sector.
    pub const fn address(&self, lba: Lba) -> Option<ChunkAddress> {
        self.address_by(self.address_bits(), lba)
    }

    /// Like [`ChunkGeometry::address`], for callers that keep the [bits](ChunkGeometry::address_bits).
    #[inline]
    pub const fn address_by(&self, [_, unit, chunk, sector]: [u32; 4], lba: Lba) -> Option<ChunkAddress> {
        let group = lba.0 >> (unit + chunk + sector);
        let address = ChunkAddress {
            group: group as u32,
            unit: (lba.0 >> (chunk + sector) & ((1 << unit) - 1)) as u32,
            chunk: (lba.0 >> sector & ((1 << chunk) - 1)) as u32,
            sector: (lba.0 & ((1 << sector) - 1)) as u32,
        };
        let exists = group < self.groups as u64
            && address.unit < self.units
            && address.chunk < self.chunks
            && address.sector < self.chunk_sectors;
        if exists { Some(address) } else { None }
    }

    /// The chunk's number in a report: groups, parallel units and chunks counted through.
    pub const fn chunk_number(&self, address: ChunkAddress) -> u32 {
        (address.group * self.units + address.unit) * self.chunks + address.chunk
    }

    /// The chunk that has `number` in a report.
    pub const fn chunk_at(&self, number: u32) -> ChunkAddress {
        let unit = number / self.chunks;
        ChunkAddress {
            group: unit / self.units,
            unit: unit % self.units,
            chunk: number % self.chunks,
            sector: 0,
        }
    }
}

/// State of a chunk; the numbers are those of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkState {
    /// Reset, nothing written.
    #[default]
    Free = 1,
    /// Written to its end, or closed before.
    Closed = 2,
    /// Partly written.
    Open = 4,
    /// Out of use.
    Offline = 8,
}

/// State of a chunk, as a report shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkInfo {
    /// State.
    pub state: ChunkState,
    /// Wear, from 0 (new) to 255 (at its rated end).
    pub wear_index: u8,
    /// First sector.
    pub start: Lba,
    /// Sectors in the chunk.
    pub sectors: u32,
    /// Sectors written.
    pub write_pointer: u32,
}

impl ChunkInfo {
    /// Length of a packed one: the chunk descriptor of log CAh.
    pub const BYTES: usize = 32;

    /// Appends the descriptor: 0 state, 1 type (sequential), 2 wear index, 8 start, 16 sectors, 24 write pointer, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.state as u8, 1, self.wear_index, 0, 0, 0, 0, 0]);
        for value in [self.start.0, self.sectors.into(), self.write_pointer.into()] {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Reads a descriptor; `None` if a state or number is invalid.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<ChunkInfo> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let state = match bytes[0] {
            1 => ChunkState::Free,
            2 => ChunkState::Closed,
            4 => ChunkState::Open,
            8 => ChunkState::Offline,
            _ => return None,
        };
        Some(ChunkInfo {
            state,
            wear_index: bytes[2],
            start: Lba(number(8)),
            sectors: number(16).try_into().ok()?,
            write_pointer: number(24).try_into().ok()?,
        })
    }
}

/// Unasked message about a chunk (log D0h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkNotice {
    /// Number of the notice, from 1.
    pub count: u64,
    /// First sector concerned.
    pub lba: Lba,
    /// Sectors concerned; a whole chunk where `scope` says so.
    pub sectors: u32,
    /// Why.
    pub reason: ChunkReason,
    /// How much is concerned.
    pub scope: ChunkScope,
}

/// Reason of a [`ChunkNotice`]; the numbers are the bits of the specification's state field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ChunkReason {
    /// Low error rate.
    ErrorsLow = 1 << 0,
    /// Medium error rate: move the data soon.
    ErrorsMedium = 1 << 1,
    /// High error rate: move the data now.
    ErrorsHigh = 1 << 2,
    /// The data are lost.
    Unrecoverable = 1 << 3,
    /// The drive refreshed the chunk.
    Refreshed = 1 << 4,
    /// Wear differs more than the threshold.
    Wear = 1 << 8,
}

/// Scope of a [`ChunkNotice`]; the numbers are the bits of the specification's mask field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkScope {
    /// Sectors.
    Sectors = 1,
    /// A chunk.
    Chunk = 2,
    /// A parallel unit.
    Unit = 4,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: ChunkGeometry = ChunkGeometry {
        groups: 3,
        units: 5,
        chunks: 7,
        chunk_sectors: 24,
        sector_bytes: 4096,
        write_min_sectors: 4,
        write_optimal_sectors: 8,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos(1); 2],
        write_ns: [Nanos(1); 2],
        reset_ns: [Nanos(1); 2],
    };

    #[test]
    fn addresses_come_back_and_holes_are_none() {
        assert_eq!(GEOMETRY.address_bits(), [2, 3, 3, 5]);
        let mut exist = 0;
        for lba in 0..GEOMETRY.address_space_sectors() {
            let Some(address) = GEOMETRY.address(Lba(lba)) else { continue };
            exist += 1;
            assert_eq!(GEOMETRY.lba(address), Lba(lba));
            let chunk = GEOMETRY.chunk_at(GEOMETRY.chunk_number(address));
            assert_eq!(chunk, ChunkAddress { sector: 0, ..address });
        }
        assert_eq!(exist, 3 * 5 * 7 * 24);
        assert_eq!(GEOMETRY.address(Lba(GEOMETRY.address_space_sectors())), None);
        assert_eq!(GEOMETRY.address(Lba(u64::MAX)), None);
    }

    #[test]
    fn descriptors_come_back() {
        let info = ChunkInfo {
            state: ChunkState::Open,
            wear_index: 9,
            start: Lba(1 << 40),
            sectors: 24,
            write_pointer: 8,
        };
        let mut bytes = Vec::new();
        info.encode(&mut bytes);
        let mut bytes: [u8; 32] = bytes.try_into().expect("32 bytes");
        assert_eq!(ChunkInfo::decode(&bytes), Some(info));
        bytes[0] = 3;
        assert_eq!(ChunkInfo::decode(&bytes), None);
    }
}
