//! NVMe/TCP protocol data units (NVM Express TCP Transport Specification 1.1, "TCP"), for the controller's and for
//! the host's end of one connection (one connection carries one queue).
//!
//! ```text
//!   host                                   controller
//!    | ICReq  ------------------------------>  |      both ends now know digests, alignments, limits
//!    | <------------------------------ ICResp  |
//!    | CapsuleCmd [in-capsule data] -------->  |
//!    | <--------------------------------- R2T  |      write without in-capsule data
//!    | H2CData, H2CData(last) -------------->  |      other CapsuleCmd may come in between
//!    | <----------------- C2HData(last, ok) -  |      read; "ok" (SUCCESS) stands for the response
//!    | <------------------------- CapsuleResp  |
//!    | H2CTermReq / C2HTermReq: fatal, either way; then the connection closes
//! ```
//!
//! Every PDU is `header [HDGST] [padding] [data [DDGST]]`; byte 2 of the header is its length, byte 3 where the data
//! start, bytes 4 to 7 the length of it all (TCP 3.6.1).

mod decoder;
mod digest;
mod encoder;
mod fatal;
mod pdu;
mod transfer;

pub use decoder::{DataCheck, Decoder, Event, Limits, Offer, Terms};
pub use digest::DataDigest;
pub use encoder::{Encoder, HEADER_BYTES_MAX, TERM_BYTES_MAX, encode_ic_req, encode_ic_resp};
pub use fatal::{Fatal, FatalStatus};
pub use pdu::{CapsuleCommand, DataHeader, IcReq, IcResp, Pdu, PduType, ReadyToTransfer, TermReq};
pub use transfer::WriteTransfer;

/// Digest length, header or data (TCP 3.3.1.1).
pub const DIGEST_BYTES: usize = 4;

/// Smallest MAXH2CDATA that a controller may announce (TCP 3.6.2.3).
pub const MAXH2CDATA_MIN: u32 = 4096;

/// In-capsule data that a host may send on the admin queue, whatever IOCCSZ says (TCP 3.3.2: capsules of 8,192 bytes).
pub const ADMIN_IN_CAPSULE_BYTES: u32 = 8192;
