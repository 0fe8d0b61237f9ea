//! Headers of outgoing PDUs, written into the caller's buffer; data are sent in place, by a vectored write of header, data and data digest.

use super::digest;
use super::pdu::{flag, put_common};
use super::{DIGEST_BYTES, DataHeader, Fatal, IcReq, IcResp, PduType, ReadyToTransfer, Terms};
use crate::layout::put;
use crate::nvme::{Completion, SubmissionEntry};

/// Longest header that [`Encoder`] writes: 76 bytes of command and digest, padded to a multiple of 72.
pub const HEADER_BYTES_MAX: usize = 144;
/// Longest TermReq: 24 bytes of header and 128 of the header in error.
pub const TERM_BYTES_MAX: usize = 152;

/// Initialize Connection Request, whole.
pub fn encode_ic_req(request: &IcReq) -> [u8; 128] {
    encode_ic(PduType::IcReq, request.alignment, request.header_digest, request.data_digest, request.r2t_max)
}

/// Initialize Connection Response, whole.
pub fn encode_ic_resp(response: &IcResp) -> [u8; 128] {
    let IcResp { alignment, header_digest, data_digest, h2c_data_max } = *response;
    encode_ic(PduType::IcResp, alignment, header_digest, data_digest, h2c_data_max)
}

fn encode_ic(kind: PduType, alignment: u8, header_digest: bool, data_digest: bool, limit: u32) -> [u8; 128] {
    let mut out = [0; 128];
    put_common(&mut out, kind, 0, 0, 128);
    out[10] = alignment;
    out[11] = u8::from(header_digest) | u8::from(data_digest) << 1;
    put(&mut out, 12, limit);
    out
}

/// Encodes headers for one connection, under the terms of its ICReq and ICResp.
///
/// Each function returns how many bytes of `out` it wrote, and panics if `out` is shorter than that;
/// [`HEADER_BYTES_MAX`] always suffices. After a header with data the caller sends exactly the data announced, then,
/// if [`Encoder::data_digest`] says so, their digest.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    header_digest: bool,
    data_digest: bool,
    alignment_bytes: usize,
}

impl Encoder {
    /// The encoder of the controller's end; data are aligned as the host wants.
    pub fn controller(terms: &Terms) -> Self {
        Self::new(terms, terms.host_alignment)
    }

    /// The encoder of the host's end; data are aligned as the controller wants.
    pub fn host(terms: &Terms) -> Self {
        Self::new(terms, terms.controller_alignment)
    }

    fn new(terms: &Terms, alignment: u8) -> Self {
        let Terms { header_digest, data_digest, .. } = *terms;
        Self { header_digest, data_digest, alignment_bytes: (usize::from(alignment & 31) + 1) * 4 }
    }

    /// Returns whether four bytes of digest must follow data.
    pub fn data_digest(&self) -> bool {
        self.data_digest
    }

    /// A response capsule.
    #[inline]
    pub fn response(&self, completion: &Completion, out: &mut [u8]) -> usize {
        out[8..24].copy_from_slice(&completion.encode());
        self.finish(PduType::CapsuleResp, 0, 0, out)
    }

    /// A request for data.
    #[inline]
    pub fn r2t(&self, request: &ReadyToTransfer, out: &mut [u8]) -> usize {
        let ReadyToTransfer { cid, transfer_tag, offset_bytes, length_bytes } = *request;
        put_transfer(out, cid, transfer_tag, offset_bytes, length_bytes);
        self.finish(PduType::R2t, 0, 0, out)
    }

    /// The header of data to the host.
    #[inline]
    pub fn c2h_data(&self, data: &DataHeader, out: &mut [u8]) -> usize {
        put_transfer(out, data.cid, 0, data.offset_bytes, data.length_bytes);
        self.finish(PduType::C2hData, data_flags(data), data.length_bytes, out)
    }

    /// The header of data to the controller.
    pub fn h2c_data(&self, data: &DataHeader, out: &mut [u8]) -> usize {
        put_transfer(out, data.cid, data.transfer_tag, data.offset_bytes, data.length_bytes);
        self.finish(PduType::H2cData, data_flags(data) & !flag::SUCCESS, data.length_bytes, out)
    }

    /// A command capsule, to be followed by `data_bytes` of in-capsule data.
    pub fn command(&self, entry: &SubmissionEntry, data_bytes: u32, out: &mut [u8]) -> usize {
        out[8..72].copy_from_slice(&entry.0);
        self.finish(PduType::CapsuleCmd, 0, data_bytes, out)
    }

    /// Common header, digest, and padding up to the data.
    #[inline]
    fn finish(&self, kind: PduType, mut flags: u8, data_bytes: u32, out: &mut [u8]) -> usize {
        let header_bytes = kind.header_bytes();
        let mut end = header_bytes;
        if self.header_digest {
            flags |= flag::HEADER_DIGEST;
            end += DIGEST_BYTES;
        }
        let (mut data_offset, mut total_bytes) = (0, end);
        if data_bytes > 0 {
            data_offset = end.next_multiple_of(self.alignment_bytes);
            total_bytes = data_offset + data_bytes as usize;
            if self.data_digest {
                flags |= flag::DATA_DIGEST;
                total_bytes += DIGEST_BYTES;
            }
        }
        put_common(out, kind, flags, data_offset, total_bytes);
        if self.header_digest {
            let digest = digest::of(&out[..header_bytes]);
            out[header_bytes..end].copy_from_slice(&digest);
        }
        if data_offset > end {
            out[end..data_offset].fill(0);
            end = data_offset;
        }
        end
    }
}

fn data_flags(data: &DataHeader) -> u8 {
    let last = if data.last { flag::LAST } else { 0 };
    let success = if data.success { flag::SUCCESS } else { 0 };
    last | success
}

fn put_transfer(out: &mut [u8], cid: u16, transfer_tag: u16, offset_bytes: u32, length_bytes: u32) {
    put(out, 8, cid);
    put(out, 10, transfer_tag);
    put(out, 12, offset_bytes);
    put(out, 16, length_bytes);
    out[20..24].fill(0);
}

/// A whole TermReq of the given type, with at most 128 bytes of the header in error.
pub(crate) fn put_term_req(kind: PduType, fatal: &Fatal, header: &[u8], out: &mut [u8]) -> usize {
    let header = &header[..header.len().min(TERM_BYTES_MAX - 24)];
    let total_bytes = 24 + header.len();
    out[..24].fill(0);
    put_common(out, kind, 0, 0, total_bytes);
    put(out, 8, fatal.status.raw());
    put(out, 10, fatal.information);
    out[24..total_bytes].copy_from_slice(header);
    total_bytes
}
