//! Scatter-gather descriptors that NVMe/TCP allows (Base 4.3.2, TCP transport 3.3.2.1): data in the capsule, or data in separate PDUs. Everything
//! else is refused with the status of the specification.

use super::Status;
use crate::layout::wire_struct;

wire_struct! {
    /// The generic 16-byte descriptor.
    pub struct SglDescriptor: 16 {
        /// Address, or offset into the capsule's data.
        0 => address: u64,
        /// Length in bytes.
        8 => length_bytes: u32,
        /// Type (7:4) and subtype (3:0).
        15 => kind: u8,
    }
}

/// Data Block descriptor whose address is an offset in the capsule: type 0h, subtype 1h.
const IN_CAPSULE: u8 = 0x01;
/// Transport SGL Data Block: type 5h, subtype Ah.
const TRANSPORT: u8 = 0x5A;

/// Where a command's data travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointer {
    /// In the command capsule.
    InCapsule {
        /// Offset from the start of the capsule's data.
        offset_bytes: u64,
        /// Length of the transfer.
        length_bytes: u32,
    },
    /// In H2CData or C2HData PDUs.
    Transport {
        /// Length of the transfer.
        length_bytes: u32,
    },
}

impl DataPointer {
    /// Length of the transfer in bytes.
    pub fn length_bytes(self) -> u32 {
        match self {
            Self::InCapsule { length_bytes, .. } | Self::Transport { length_bytes } => length_bytes,
        }
    }

    /// Checks an in-capsule pointer against the data that came with the capsule, and returns its range.
    ///
    /// # Errors
    /// `SGL_OFFSET_INVALID` if the range passes the end; a transport pointer never fails and gives an empty range, since its data come later.
    pub fn range_in_capsule(self, capsule_data_bytes: u32) -> Result<std::ops::Range<usize>, Status> {
        let Self::InCapsule { offset_bytes, length_bytes } = self else { return Ok(0..0) };
        let end = offset_bytes.checked_add(u64::from(length_bytes));
        match end {
            Some(end) if end <= u64::from(capsule_data_bytes) => Ok(offset_bytes as usize..end as usize),
            _ => Err(Status::SGL_OFFSET_INVALID.do_not_retry()),
        }
    }
}

impl SglDescriptor {
    /// A pointer to data in the capsule.
    pub fn in_capsule(offset_bytes: u64, length_bytes: u32) -> Self {
        Self { address: offset_bytes, length_bytes, kind: IN_CAPSULE }
    }

    /// A pointer to data that arrive in separate PDUs.
    pub fn transport(length_bytes: u32) -> Self {
        Self { address: 0, length_bytes, kind: TRANSPORT }
    }

    /// The typed form.
    ///
    /// # Errors
    /// `SGL_TYPE_INVALID` for a descriptor that NVMe/TCP does not allow.
    #[inline]
    pub fn pointer(&self) -> Result<DataPointer, Status> {
        match self.kind {
            IN_CAPSULE => {
                Ok(DataPointer::InCapsule { offset_bytes: self.address, length_bytes: self.length_bytes })
            }
            TRANSPORT => Ok(DataPointer::Transport { length_bytes: self.length_bytes }),
            _ => Err(Status::SGL_TYPE_INVALID.do_not_retry()),
        }
    }
}
