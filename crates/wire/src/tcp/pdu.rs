//! The typed PDUs and their headers (TCP 3.6.2). Parsing here trusts the common header, which the decoder checked.

use super::Fatal;
use crate::layout::{get, put, wire_enum};
use crate::nvme::{Completion, SubmissionEntry};

wire_enum! {
    /// PDU types (TCP 3.6.1).
    pub enum PduType: u8 {
        /// Initialize Connection Request.
        IcReq = 0x00,
        /// Initialize Connection Response.
        IcResp = 0x01,
        /// Terminate Connection Request of the host.
        H2cTermReq = 0x02,
        /// Terminate Connection Request of the controller.
        C2hTermReq = 0x03,
        /// Command capsule.
        CapsuleCmd = 0x04,
        /// Response capsule.
        CapsuleResp = 0x05,
        /// Data from the host.
        H2cData = 0x06,
        /// Data from the controller.
        C2hData = 0x07,
        /// Ready to transfer.
        R2t = 0x09,
    }
}

impl PduType {
    /// The only valid header length.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::IcReq | Self::IcResp => 128,
            Self::CapsuleCmd => 72,
            _ => 24,
        }
    }

    /// Returns whether a controller, rather than a host, sends it.
    pub const fn from_controller(self) -> bool {
        matches!(self, Self::IcResp | Self::C2hTermReq | Self::CapsuleResp | Self::C2hData | Self::R2t)
    }

    /// Returns whether negotiated digests apply; connection set-up and termination never carry any.
    pub const fn has_digests(self) -> bool {
        !matches!(self, Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq)
    }

    /// Returns whether data may or must follow the header.
    pub const fn has_data(self) -> bool {
        matches!(self, Self::CapsuleCmd | Self::H2cData | Self::C2hData | Self::H2cTermReq | Self::C2hTermReq)
    }

    pub(crate) const fn is_term_req(self) -> bool {
        matches!(self, Self::H2cTermReq | Self::C2hTermReq)
    }
}

/// Flag bits of the common header.
pub(crate) mod flag {
    /// A header digest follows the header.
    pub const HEADER_DIGEST: u8 = 1 << 0;
    /// A data digest follows the data.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// Last data PDU of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// The command succeeded and no response follows (C2HData).
    pub const SUCCESS: u8 = 1 << 3;
}

/// Initialize Connection Request (TCP 3.6.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IcReq {
    /// Alignment of data that the host wants in C2HData, in dwords less one: 0 to 31 (HPDA).
    pub alignment: u8,
    /// The host asks for header digests.
    pub header_digest: bool,
    /// The host asks for data digests.
    pub data_digest: bool,
    /// R2Ts that may be outstanding for one command, less one (MAXR2T).
    pub r2t_max: u32,
}

/// Initialize Connection Response (TCP 3.6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IcResp {
    /// Alignment of data that the controller wants in CapsuleCmd and H2CData, in dwords less one (CPDA).
    pub alignment: u8,
    /// Header digests are on.
    pub header_digest: bool,
    /// Data digests are on.
    pub data_digest: bool,
    /// Data bytes in one H2CData: at least 4,096, a multiple of 4 (MAXH2CDATA).
    pub h2c_data_max: u32,
}

/// Terminate Connection Request, either way (TCP 3.6.2.4, 3.6.2.5). Its data are the header in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermReq {
    /// Fatal Error Status, raw: see [`super::FatalStatus::from_raw`].
    pub status: u16,
    /// Fatal Error Information.
    pub information: u32,
}

/// A command capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleCommand {
    /// The command.
    pub entry: SubmissionEntry,
    /// In-capsule data that follow as [`super::Event::Data`].
    pub data_bytes: u32,
}

/// Header of H2CData and C2HData (TCP 3.6.2.8, 3.6.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DataHeader {
    /// Command that the data belong to.
    pub cid: u16,
    /// Transfer tag of the R2T (H2CData; 0 in C2HData).
    pub transfer_tag: u16,
    /// Offset in the command's data.
    pub offset_bytes: u32,
    /// Length of the data.
    pub length_bytes: u32,
    /// Last PDU of the transfer.
    pub last: bool,
    /// C2HData: the command succeeded, no response capsule follows.
    pub success: bool,
}

/// Ready to Transfer (TCP 3.6.2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadyToTransfer {
    /// Command whose data are asked for.
    pub cid: u16,
    /// The controller's tag of this request.
    pub transfer_tag: u16,
    /// Start of the range, from the start of the command's data.
    pub offset_bytes: u32,
    /// Length of the range.
    pub length_bytes: u32,
}

/// A PDU, without the data that may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// Initialize Connection Request.
    IcReq(IcReq),
    /// Initialize Connection Response.
    IcResp(IcResp),
    /// The other end gives up.
    TermReq(TermReq),
    /// A command.
    Command(CapsuleCommand),
    /// A completion.
    Response(Completion),
    /// Data from the host.
    H2cData(DataHeader),
    /// Data from the controller.
    C2hData(DataHeader),
    /// The controller asks for data.
    R2t(ReadyToTransfer),
}

/// Reads a header of the right length for its type.
#[inline(always)]
pub(crate) fn parse(kind: PduType, header: &[u8], data_bytes: u32) -> Result<Pdu, Fatal> {
    Ok(match kind {
        PduType::CapsuleCmd => {
            let mut entry = [0; SubmissionEntry::BYTES];
            entry.copy_from_slice(&header[8..72]);
            Pdu::Command(CapsuleCommand { entry: SubmissionEntry(entry), data_bytes })
        }
        PduType::CapsuleResp => {
            let mut entry = [0; Completion::BYTES];
            entry.copy_from_slice(&header[8..24]);
            Pdu::Response(Completion::decode(&entry))
        }
        PduType::H2cData => Pdu::H2cData(parse_data(header, data_bytes)?),
        PduType::C2hData => Pdu::C2hData(parse_data(header, data_bytes)?),
        PduType::R2t => Pdu::R2t(ReadyToTransfer {
            cid: get(header, 8),
            transfer_tag: get(header, 10),
            offset_bytes: get(header, 12),
            length_bytes: get(header, 16),
        }),
        PduType::IcReq => Pdu::IcReq(parse_ic_req(header)?),
        PduType::IcResp => Pdu::IcResp(parse_ic_resp(header)?),
        PduType::H2cTermReq | PduType::C2hTermReq => {
            Pdu::TermReq(TermReq { status: get(header, 8), information: get(header, 10) })
        }
    })
}

fn parse_data(header: &[u8], data_bytes: u32) -> Result<DataHeader, Fatal> {
    let flags = header[1];
    let parsed = DataHeader {
        cid: get(header, 8),
        transfer_tag: get(header, 10),
        offset_bytes: get(header, 12),
        length_bytes: get(header, 16),
        last: flags & flag::LAST != 0,
        success: flags & flag::SUCCESS != 0,
    };
    if parsed.length_bytes != data_bytes {
        return Err(Fatal::field(16));
    }
    if parsed.success && !parsed.last {
        return Err(Fatal::field(1));
    }
    Ok(parsed)
}

fn parse_ic_req(header: &[u8]) -> Result<IcReq, Fatal> {
    let (alignment, digests) = parse_ic_common(header)?;
    Ok(IcReq {
        alignment,
        header_digest: digests & 1 != 0,
        data_digest: digests & 2 != 0,
        r2t_max: get(header, 12),
    })
}

fn parse_ic_resp(header: &[u8]) -> Result<IcResp, Fatal> {
    let (alignment, digests) = parse_ic_common(header)?;
    let h2c_data_max: u32 = get(header, 12);
    if h2c_data_max < super::MAXH2CDATA_MIN || !h2c_data_max.is_multiple_of(4) {
        return Err(Fatal::field(12));
    }
    Ok(IcResp { alignment, header_digest: digests & 1 != 0, data_digest: digests & 2 != 0, h2c_data_max })
}

/// Format version 0, alignment 0 to 31, digest bits.
fn parse_ic_common(header: &[u8]) -> Result<(u8, u8), Fatal> {
    if get::<u16>(header, 8) != 0 {
        return Err(Fatal::unsupported(8));
    }
    if header[10] > 31 {
        return Err(Fatal::field(10));
    }
    Ok((header[10], header[11]))
}

/// Writes the common header.
#[inline]
pub(crate) fn put_common(out: &mut [u8], kind: PduType, flags: u8, data_offset: usize, total_bytes: usize) {
    out[0] = kind.raw();
    out[1] = flags;
    out[2] = kind.header_bytes() as u8;
    out[3] = data_offset as u8;
    put(out, 4, total_bytes as u32);
}
