//! Completion queue entry, 16 bytes (Base 4.2.1).

use super::Status;
use crate::layout::{get, put};

/// A completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Completion {
    /// Dwords 0 and 1: command specific (Connect, Property Get and Zone Append use both).
    pub result: u64,
    /// Submission queue head pointer; over fabrics it carries flow control.
    pub sq_head: u16,
    /// Submission queue identifier; reserved (zero) over fabrics.
    pub sq_id: u16,
    /// Command identifier of the submission entry.
    pub cid: u16,
    /// Phase tag; reserved (false) over fabrics.
    pub phase: bool,
    /// Outcome.
    pub status: Status,
}

impl Completion {
    /// Encoded length.
    pub const BYTES: usize = 16;

    /// The entry as it stands in a completion capsule.
    #[inline]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.result);
        put(&mut bytes, 8, self.sq_head);
        put(&mut bytes, 10, self.sq_id);
        put(&mut bytes, 12, self.cid);
        put(&mut bytes, 14, self.status.raw() << 1 | u16::from(self.phase));
        bytes
    }

    /// Reads an entry; every bit pattern is valid.
    #[inline]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let status: u16 = get(bytes, 14);
        Self {
            result: get(bytes, 0),
            sq_head: get(bytes, 8),
            sq_id: get(bytes, 10),
            cid: get(bytes, 12),
            phase: status & 1 == 1,
            status: Status::from_raw(status >> 1),
        }
    }

    /// Dword 0 of the result.
    #[inline]
    pub fn dw0(&self) -> u32 {
        self.result as u32
    }
}
