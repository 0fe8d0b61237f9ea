//! The controller's side of one write transfer: which H2CData PDUs an R2T allows, in which order (TCP 3.3.2.1, 3.5).
//!
//! ```text
//!   R2T(offset, length) --> H2CData at offset, in order, inside the range --> the one that ends it says LAST
//! ```

use super::{DataHeader, Fatal, FatalStatus, ReadyToTransfer};

/// Progress of the data that one R2T asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTransfer {
    request: ReadyToTransfer,
    received_bytes: u32,
}

impl WriteTransfer {
    /// A transfer before its first data.
    pub fn new(request: ReadyToTransfer) -> Self {
        Self { request, received_bytes: 0 }
    }

    /// The R2T that started it.
    pub fn request(&self) -> &ReadyToTransfer {
        &self.request
    }

    /// Bytes still to come.
    pub fn remaining_bytes(&self) -> u32 {
        self.request.length_bytes - self.received_bytes
    }

    /// Accepts the header of the next H2CData, whose data count as received. Returns whether it is the last.
    ///
    /// # Errors
    /// The status for a TermReq: an unknown tag or command (callers that look the transfer up by tag use [`Self::unknown_tag`]), a gap or step back,
    /// data past the range, LAST too early or missing.
    #[inline]
    pub fn accept(&mut self, data: &DataHeader) -> Result<bool, Fatal> {
        if data.transfer_tag != self.request.transfer_tag {
            return Err(Self::unknown_tag());
        }
        if data.cid != self.request.cid {
            return Err(Fatal::field(8));
        }
        if u64::from(data.offset_bytes)
            != u64::from(self.request.offset_bytes) + u64::from(self.received_bytes)
            || data.length_bytes > self.remaining_bytes()
        {
            return Err(Fatal::plain(FatalStatus::TransferOutOfRange));
        }
        let complete = data.length_bytes == self.remaining_bytes();
        if data.last != complete {
            return Err(Fatal::field(1));
        }
        self.received_bytes += data.length_bytes;
        Ok(complete)
    }

    /// The error for an H2CData with an unknown transfer tag.
    pub fn unknown_tag() -> Fatal {
        Fatal::field(10)
    }
}
