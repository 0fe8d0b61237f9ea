//! Fatal transport errors: the content of a TermReq PDU before the connection closes (TCP 3.5, 3.6.2.4).

use std::fmt;

use crate::layout::wire_enum;

wire_enum! {
    /// Fatal Error Status (FES).
    pub enum FatalStatus: u16 {
        /// A header field is invalid; the information is its byte offset.
        InvalidHeaderField = 0x01,
        /// A PDU came where it must not.
        SequenceError = 0x02,
        /// The header digest does not match; the information is the digest received.
        HeaderDigest = 0x03,
        /// Data outside the requested range.
        TransferOutOfRange = 0x04,
        /// From a controller: more data than MAXH2CDATA in one PDU. From a host: more R2Ts than MAXR2T.
        LimitExceeded = 0x05,
        /// A parameter is not supported; the information is its byte offset.
        UnsupportedParameter = 0x06,
    }
}

/// A fatal error: a status and its information field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fatal {
    /// Fatal Error Status.
    pub status: FatalStatus,
    /// Fatal Error Information (FEI).
    pub information: u32,
}

impl Fatal {
    /// An invalid header field at a byte offset.
    pub(crate) const fn field(offset: u32) -> Self {
        Self { status: FatalStatus::InvalidHeaderField, information: offset }
    }

    /// An unsupported parameter at a byte offset.
    pub(crate) const fn unsupported(offset: u32) -> Self {
        Self { status: FatalStatus::UnsupportedParameter, information: offset }
    }

    /// A status whose information field is reserved.
    pub(crate) const fn plain(status: FatalStatus) -> Self {
        Self { status, information: 0 }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let information = self.information;
        match self.status {
            FatalStatus::InvalidHeaderField => write!(f, "invalid PDU header field at byte {information}"),
            FatalStatus::SequenceError => f.write_str("PDU out of sequence"),
            FatalStatus::HeaderDigest => write!(f, "header digest {information:08x}h does not match"),
            FatalStatus::TransferOutOfRange => f.write_str("data outside the range asked for"),
            FatalStatus::LimitExceeded => f.write_str("transfer limit exceeded"),
            FatalStatus::UnsupportedParameter => write!(f, "unsupported parameter at byte {information}"),
        }
    }
}
