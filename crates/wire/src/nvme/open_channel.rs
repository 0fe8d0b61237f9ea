//! Open-Channel SSD 2.0 (OCSSD): geometry, chunk descriptors, chunk notifications, vector commands.

use super::{Status, SubmissionEntry};
use crate::layout::{wire_enum, wire_struct};

/// Admin opcode of Geometry.
pub const GEOMETRY_OPCODE: u8 = 0xE2;

/// Vendor and device identifiers by which Linux's LightNVM and QEMU recognise an open-channel drive.
pub const PCI_VENDOR_AND_DEVICE: (u16, u16) = (0x1D1D, 0x1F1F);

wire_struct! {
    /// Geometry (OCSSD 2.1).
    pub struct Geometry: 4096 {
        /// Major version: 2.
        0 => major: u8,
        /// Minor version.
        1 => minor: u8,
        /// Bits of the group in an address.
        8 => group_bits: u8,
        /// Bits of the parallel unit.
        9 => unit_bits: u8,
        /// Bits of the chunk.
        10 => chunk_bits: u8,
        /// Bits of the logical block.
        11 => block_bits: u8,
        /// Media and controller capabilities: bit 0 vector copy, bit 1 multiple resets.
        16 => capabilities: u32,
        /// Wear-level index delta threshold.
        32 => wear_threshold: u8,
        /// Groups.
        64 => groups: u16,
        /// Parallel units per group.
        66 => units: u16,
        /// Chunks per parallel unit.
        68 => chunks: u32,
        /// Logical blocks per chunk.
        72 => chunk_blocks: u32,
        /// Minimum write, in blocks.
        128 => write_min: u32,
        /// Optimal write, in blocks.
        132 => write_optimal: u32,
        /// Blocks before the write pointer that are still in a cache (mw_cunits).
        136 => cache_units: u32,
        /// Open chunks, 0 for no limit.
        140 => open_chunks_max: u32,
        /// Open chunks per parallel unit, 0 for no limit.
        144 => open_chunks_per_unit_max: u32,
        /// Typical and longest read.
        192 => read_ns: [u32; 2],
        /// Typical and longest write.
        200 => write_ns: [u32; 2],
        /// Typical and longest reset.
        208 => reset_ns: [u32; 2],
        /// Vendor specific.
        3072 => vendor: [u8; 1024],
    }
}

wire_struct! {
    /// Chunk descriptor of log CAh, at byte 32 * ((group * units + unit) * chunks + chunk).
    pub struct ChunkDescriptor: 32 {
        /// State: 1 free, 2 closed, 4 open, 8 offline.
        0 => state: u8,
        /// Bit 0 sequential write, 1 random write, 4 size deviates.
        1 => kind: u8,
        /// Wear index, 0 to 255.
        2 => wear_index: u8,
        /// First logical block, absolute.
        8 => start: u64,
        /// Blocks in the chunk.
        16 => blocks: u64,
        /// Write pointer, relative to the chunk.
        24 => write_pointer: u64,
    }
}

wire_struct! {
    /// Chunk notification of log D0h.
    pub struct ChunkNotification: 64 {
        /// Notification count, from 1.
        0 => count: u64,
        /// Logical block.
        8 => lba: u64,
        /// Namespace.
        16 => nsid: u32,
        /// Bit 0 low, 1 medium, 2 high error rate, 3 unrecoverable, 4 refreshed, 8 wear.
        20 => state: u16,
        /// Scope: bit 0 block, 1 chunk, 2 parallel unit.
        22 => mask: u8,
        /// Blocks, one less.
        32 => blocks: u16,
    }
}

wire_enum! {
    /// Vector I/O opcodes.
    pub enum VectorOpcode: u8 {
        /// Vector chunk reset.
        Reset = 0x90,
        /// Vector chunk write.
        Write = 0x91,
        /// Vector chunk read.
        Read = 0x92,
        /// Vector chunk copy.
        Copy = 0x93,
    }
}

/// Pellucid's addition for fabrics, where a drive cannot follow pointers into its host's memory: transfer of address lists and out-of-band data. A
/// drive that supports it says so in [`Geometry`].
pub mod profile {
    use super::Geometry;

    /// Opcode (bits 01: data to the drive) that stores a list of addresses, under the key in dwords 10 and 11, for a later command.
    pub const STAGE_OPCODE: u8 = 0x95;
    /// Dword 12: each sector's data are followed by its out-of-band data.
    pub const EXTENDED: u32 = 1 << 16;
    /// Dword 12, read: out-of-band data only.
    pub const METADATA_ONLY: u32 = 1 << 17;
    /// Dword 12: consecutive sectors from the address in dwords 10 and 11 on; there is no list.
    pub const RUN: u32 = 1 << 18;

    /// Name and version, the first bytes of the geometry's vendor area.
    const MARK: [u8; 9] = *b"PELLUCID\x01";

    impl Geometry {
        /// Declares that the drive supports the profile, with this many bytes of out-of-band data per sector.
        pub fn with_profile(mut self, metadata_bytes: u16) -> Geometry {
            self.vendor[..MARK.len()].copy_from_slice(&MARK);
            self.vendor[10..12].copy_from_slice(&metadata_bytes.to_le_bytes());
            self
        }

        /// Bytes of out-of-band data of a sector; `None`: the drive does not support the profile.
        pub fn profile_metadata_bytes(&self) -> Option<u16> {
            let bytes = u16::from_le_bytes([self.vendor[10], self.vendor[11]]);
            self.vendor.starts_with(&MARK).then_some(bytes)
        }
    }
}

/// Contents of the data of a vector command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VectorData {
    /// Sectors.
    #[default]
    Sectors,
    /// Sectors, each followed by its out-of-band data ([`profile::EXTENDED`]).
    Extended,
    /// Out-of-band data alone ([`profile::METADATA_ONLY`]).
    Metadata,
}

impl VectorData {
    /// Bytes of sectors and of out-of-band data per address.
    pub const fn bytes(self, sector_bytes: u32, metadata_bytes: u32) -> (u32, u32) {
        match self {
            VectorData::Sectors => (sector_bytes, 0),
            VectorData::Extended => (sector_bytes, metadata_bytes),
            VectorData::Metadata => (0, metadata_bytes),
        }
    }

    /// The bits of dword 12.
    pub const fn bits(self) -> u32 {
        match self {
            VectorData::Sectors => 0,
            VectorData::Extended => profile::EXTENDED,
            VectorData::Metadata => profile::METADATA_ONLY,
        }
    }
}

/// Arguments of a vector command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorCommand {
    /// Operation.
    pub opcode: VectorOpcode,
    /// Number of addresses, 1 to 64.
    pub count: u32,
    /// The address itself if `count` is 1, else the location of the list of u64.
    pub addresses: u64,
    /// Copy: the destination itself, or the location of their list.
    pub destinations: u64,
    /// Limited retry (dword 12, bit 31).
    pub limited_retry: bool,
    /// Contents of the data.
    pub data: VectorData,
    /// True if `addresses` is the first of `count` consecutive sectors ([`profile::RUN`]).
    pub is_run: bool,
}

impl VectorCommand {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `INVALID_OPCODE` for any other command, `INVALID_FIELD` for contradictory bits of the profile.
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, Status> {
        let opcode = VectorOpcode::from_raw(entry.opcode()).ok_or(Status::INVALID_OPCODE.do_not_retry())?;
        let cdw12 = entry.cdw(12);
        let data = match cdw12 & (profile::EXTENDED | profile::METADATA_ONLY) {
            0 => VectorData::Sectors,
            profile::EXTENDED => VectorData::Extended,
            profile::METADATA_ONLY if opcode == VectorOpcode::Read => VectorData::Metadata,
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        };
        let is_run = cdw12 & profile::RUN != 0;
        let moves_data = matches!(opcode, VectorOpcode::Read | VectorOpcode::Write);
        if !moves_data && (is_run || data != VectorData::Sectors) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok(Self {
            opcode,
            count: (cdw12 & 0x3F) + 1,
            addresses: entry.cdw_pair(10),
            destinations: entry.cdw_pair(14),
            limited_retry: cdw12 >> 31 != 0,
            data,
            is_run,
        })
    }

    /// The command, without its data pointer.
    pub fn entry(&self, cid: u16, nsid: u32) -> SubmissionEntry {
        let run = if self.is_run { profile::RUN } else { 0 };
        let retry = u32::from(self.limited_retry) << 31;
        SubmissionEntry::new(self.opcode.raw(), cid, nsid)
            .with_cdw_pair(10, self.addresses)
            .with_cdw(12, (self.count - 1) & 0x3F | self.data.bits() | run | retry)
            .with_cdw_pair(14, self.destinations)
    }

    /// The addresses of a command that is not a run: the inline one, or the list at the start of `list` (8 bytes each).
    ///
    /// # Errors
    /// `SGL_DATA_LENGTH_INVALID` if the list is shorter than the command says.
    pub fn addresses<'a>(&self, list: &'a [u8]) -> Result<impl Iterator<Item = u64> + 'a, Status> {
        let inline = (self.count == 1).then_some(self.addresses);
        let bytes = if self.count == 1 { 0 } else { self.count as usize * 8 };
        let list = list.get(..bytes).ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        Ok(inline.into_iter().chain(list.chunks_exact(8).map(|raw| crate::layout::get(raw, 0))))
    }
}
