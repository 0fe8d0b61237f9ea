//! The incremental decoder: bytes of one direction of one connection, cut anywhere, to typed PDUs and slices of data.
//!
//! ```text
//!             header complete,              data PDU                     last byte
//!   Header ------ checked ------> Pdu event ---------> Padding -> Data ------------> Digest -> End event --+
//!     ^                              | no data                    (slices of the                           |
//!     |                              v                             caller's input)                         |
//!     +------------------------------+---------------------------------------------------------------------+
//!   any violation: Failed, the same error for ever; `term_req` writes the PDU that says so to the other end
//! ```
//!
//! Invariants: a header that lies whole in the input is read in place, otherwise it is gathered in 128 bytes; data are
//! never buffered; a length in a header is checked before any byte it covers is waited for.

use super::encoder::put_term_req;
use super::pdu::{self, flag};
use super::{
    DIGEST_BYTES, DataDigest, Fatal, FatalStatus, IcReq, IcResp, Pdu, PduType, TERM_BYTES_MAX, digest,
};

/// Features that a controller's end accepts and offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Grant header digests to a host that asks.
    pub header_digest: bool,
    /// Grant data digests to a host that asks.
    pub data_digest: bool,
    /// Alignment wanted of the host's data, in dwords less one: 0 to 31 (CPDA).
    pub alignment: u8,
    /// Data in one H2CData: at least 4,096, a multiple of 4 (MAXH2CDATA).
    pub h2c_data_max: u32,
    /// In-capsule data: 8,192 on an admin queue, (IOCCSZ - 4) * 16 on another.
    pub in_capsule_max: u32,
}

/// Terms of a connection, known after ICReq and ICResp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Terms {
    /// Headers carry digests.
    pub header_digest: bool,
    /// Data carry digests.
    pub data_digest: bool,
    /// Alignment of C2HData, in dwords less one (HPDA).
    pub host_alignment: u8,
    /// Alignment of CapsuleCmd and H2CData, in dwords less one (CPDA).
    pub controller_alignment: u8,
    /// Data in one H2CData.
    pub h2c_data_max: u32,
    /// R2Ts outstanding per command, less one.
    pub r2t_max: u32,
}

/// Bounds of the data in one PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In a command capsule.
    pub in_capsule_max: u32,
    /// In an H2CData.
    pub h2c_data_max: u32,
    /// In a C2HData.
    pub c2h_data_max: u32,
}

/// Outcome of the data digest of one PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCheck {
    /// The PDU carried none.
    Absent,
    /// The digest matches.
    Valid,
    /// The digest does not match; not fatal: the command fails with Transient Transport Error (TCP 3.3.1.1).
    Mismatch,
}

/// Item that the decoder found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A header, complete and valid. If the PDU has data, `Data` and `End` events follow before the next header.
    Pdu(Pdu),
    /// The next data of the PDU; never empty.
    Data {
        /// Offset in this PDU's data.
        offset_bytes: u32,
        /// A part of the caller's input.
        bytes: &'a [u8],
    },
    /// All data of the PDU have come.
    End(DataCheck),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Controller(Offer),
    Host(IcReq),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Gathering a header; `have` bytes of it lie in `Decoder::header`.
    Header {
        have: usize,
    },
    Padding {
        left: usize,
        body: Body,
    },
    Data {
        body: Body,
    },
    Digest {
        have: usize,
        received: [u8; DIGEST_BYTES],
        expected: [u8; DIGEST_BYTES],
    },
    Failed(Fatal),
}

/// Data of the PDU under way.
#[derive(Clone, Copy, Debug)]
struct Body {
    offset: u32,
    total: u32,
    digest: Option<DataDigest>,
}

/// The lengths that a common header announces.
struct Shape {
    kind: PduType,
    header_bytes: usize,
    header_digest: bool,
    padding_bytes: usize,
    data_bytes: u32,
    data_digest: bool,
}

/// See the module's text. One decoder serves one direction of one connection.
#[derive(Clone, Debug)]
pub struct Decoder {
    end: End,
    limits: Limits,
    terms: Option<Terms>,
    state: State,
    /// A header being gathered, or the last one that the end of a transfer may have to complain about.
    header: [u8; 128],
    header_kept: usize,
}

impl Decoder {
    /// The controller's end: expects ICReq, then commands and H2CData.
    pub fn controller(offer: Offer) -> Self {
        let limits = Limits {
            in_capsule_max: offer.in_capsule_max,
            h2c_data_max: offer.h2c_data_max,
            c2h_data_max: 0,
        };
        Self::new(End::Controller(offer), limits)
    }

    /// The host's end after it sent `request`: expects ICResp, then responses, R2Ts and C2HData of at most
    /// `c2h_data_max` bytes.
    pub fn host(request: IcReq, c2h_data_max: u32) -> Self {
        Self::new(End::Host(request), Limits { in_capsule_max: 0, h2c_data_max: 0, c2h_data_max })
    }

    fn new(end: End, limits: Limits) -> Self {
        let state = State::Header { have: 0 };
        Self { end, limits, terms: None, state, header: [0; 128], header_kept: 0 }
    }

    /// Returns the terms of the connection; `None` before the ICReq (or, at the host's end, the ICResp) came.
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// Sets the in-capsule limit, once Connect has named the queue of this connection.
    pub fn set_in_capsule_max(&mut self, in_capsule_max: u32) {
        self.limits.in_capsule_max = in_capsule_max;
    }

    /// At the controller's end: the ICResp to send for the ICReq that came.
    pub fn ic_resp(&self) -> Option<IcResp> {
        let terms = self.terms?;
        Some(IcResp {
            alignment: terms.controller_alignment,
            header_digest: terms.header_digest,
            data_digest: terms.data_digest,
            h2c_data_max: terms.h2c_data_max,
        })
    }

    /// Data bytes of the current PDU still to come: a caller may read that many straight into their destination, and pass the destination as input.
    pub fn data_remaining_bytes(&self) -> u32 {
        match &self.state {
            State::Padding { left: 0, body } | State::Data { body } => body.total - body.offset,
            _ => 0,
        }
    }

    /// Takes bytes from the front of `input` up to the next event. `None` says that all input is used and more is
    /// needed; an `End` can come without further input, so call until `None`.
    ///
    /// # Errors
    /// A violation of the protocol, with the status that [`Self::term_req`] sends; every later call returns it again.
    #[inline]
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Fatal> {
        match &mut self.state {
            State::Header { .. } => match self.decode_header(input) {
                Ok(pdu) => Ok(pdu.map(Event::Pdu)),
                Err(fatal) => {
                    self.state = State::Failed(fatal);
                    Err(fatal)
                }
            },
            State::Failed(fatal) => Err(*fatal),
            _ => Ok(self.decode_body(input)),
        }
    }

    /// Writes the TermReq that tells the other end of a fatal error (found here, or by the caller in the last data
    /// header), and returns its length.
    pub fn term_req(&self, fatal: &Fatal, out: &mut [u8; TERM_BYTES_MAX]) -> usize {
        let kind = match self.end {
            End::Controller(_) => PduType::C2hTermReq,
            End::Host(_) => PduType::H2cTermReq,
        };
        put_term_req(kind, fatal, &self.header[..self.header_kept], out)
    }

    // Forced inline, like `shape` and `finish_header`: otherwise each call moves an 80-byte PDU (a third of the cost of a command capsule in the
    // throughput example).
    #[inline(always)]
    fn decode_header(&mut self, input: &mut &[u8]) -> Result<Option<Pdu>, Fatal> {
        let State::Header { have } = self.state else { return Ok(None) };
        if have == 0
            && let Some(common) = input.first_chunk::<8>()
        {
            let shape = self.shape(common).inspect_err(|_| self.keep(common))?;
            if let Some((header, rest)) = input.split_at_checked(shape.header_and_digest_bytes()) {
                *input = rest;
                return self.finish_header(&shape, header).map(Some);
            }
        }
        self.gather_header(have, input)
    }

    /// Slow path: a header that came in pieces.
    #[cold]
    fn gather_header(&mut self, mut have: usize, input: &mut &[u8]) -> Result<Option<Pdu>, Fatal> {
        have += take_into(&mut self.header[have..8.max(have)], input);
        self.header_kept = have;
        self.state = State::Header { have };
        let common: [u8; 8] = match self.header.first_chunk::<8>() {
            Some(common) if have >= 8 => *common,
            _ => return Ok(None),
        };
        let shape = self.shape(&common)?;
        let needed = shape.header_and_digest_bytes();
        have += take_into(&mut self.header[have..needed], input);
        self.header_kept = have;
        self.state = State::Header { have };
        if have < needed {
            return Ok(None);
        }
        let header = self.header;
        self.finish_header(&shape, &header[..needed]).map(Some)
    }

    fn keep(&mut self, header: &[u8]) {
        self.header[..header.len()].copy_from_slice(header);
        self.header_kept = header.len();
    }

    /// Checks everything in the first eight bytes.
    #[inline(always)]
    fn shape(&self, common: &[u8; 8]) -> Result<Shape, Fatal> {
        let [raw_kind, flags, header_bytes, data_offset, plen @ ..] = *common;
        let plen = u32::from_le_bytes(plen);
        let from_controller = matches!(self.end, End::Host(_));
        let kind = PduType::from_raw(raw_kind)
            .filter(|kind| kind.from_controller() == from_controller)
            .ok_or(Fatal::field(0))?;
        let sets_up = matches!(kind, PduType::IcReq | PduType::IcResp);
        if !kind.is_term_req() && sets_up != self.terms.is_none() {
            return Err(Fatal::plain(FatalStatus::SequenceError));
        }
        if usize::from(header_bytes) != kind.header_bytes() {
            return Err(Fatal::field(2));
        }
        let terms = self.terms.unwrap_or_default();
        let header_digest = kind.has_digests() && terms.header_digest;
        if kind.has_digests() && header_digest != (flags & flag::HEADER_DIGEST != 0) {
            return Err(Fatal::field(1));
        }
        let front = u32::from(header_bytes) + if header_digest { DIGEST_BYTES as u32 } else { 0 };
        let mut shape = Shape {
            kind,
            header_bytes: usize::from(header_bytes),
            header_digest,
            padding_bytes: 0,
            data_bytes: 0,
            data_digest: false,
        };
        if plen != front {
            self.shape_data(&mut shape, flags, front, u32::from(data_offset), plen)?;
        } else if matches!(kind, PduType::H2cData | PduType::C2hData) {
            return Err(Fatal::field(4));
        }
        Ok(shape)
    }

    /// Checks offset and length of data after a header (with digest) of `front` bytes.
    fn shape_data(
        &self,
        shape: &mut Shape,
        flags: u8,
        front: u32,
        offset: u32,
        plen: u32,
    ) -> Result<(), Fatal> {
        if !shape.kind.has_data() || plen < front {
            return Err(Fatal::field(4));
        }
        let terms = self.terms.unwrap_or_default();
        if shape.kind.is_term_req() {
            // Data of a TermReq follow its header directly; they carry no digest (TCP 3.6.2.4).
            shape.data_bytes = plen - front;
            return if plen as usize <= TERM_BYTES_MAX { Ok(()) } else { Err(Fatal::field(4)) };
        }
        if terms.data_digest != (flags & flag::DATA_DIGEST != 0) {
            return Err(Fatal::field(1));
        }
        let dwords = match self.end {
            End::Controller(_) => terms.controller_alignment,
            End::Host(_) => terms.host_alignment,
        };
        if offset < front || !offset.is_multiple_of((u32::from(dwords) + 1) * 4) {
            return Err(Fatal::field(3));
        }
        let behind = if terms.data_digest { DIGEST_BYTES as u32 } else { 0 };
        let data_bytes =
            plen.checked_sub(offset + behind).filter(|&bytes| bytes > 0).ok_or(Fatal::field(4))?;
        self.check_limit(shape.kind, data_bytes)?;
        shape.padding_bytes = (offset - front) as usize;
        shape.data_bytes = data_bytes;
        shape.data_digest = terms.data_digest;
        Ok(())
    }

    fn check_limit(&self, kind: PduType, data_bytes: u32) -> Result<(), Fatal> {
        let Limits { in_capsule_max, h2c_data_max, c2h_data_max } = self.limits;
        match kind {
            PduType::CapsuleCmd if data_bytes > in_capsule_max => Err(Fatal::field(4)),
            PduType::H2cData if data_bytes > h2c_data_max => Err(Fatal::plain(FatalStatus::LimitExceeded)),
            // Sent to a controller, code 05h would mean R2Ts: a host reports the length instead.
            PduType::C2hData if data_bytes > c2h_data_max => Err(Fatal::field(4)),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn finish_header(&mut self, shape: &Shape, bytes: &[u8]) -> Result<Pdu, Fatal> {
        let (header, received) = bytes.split_at(shape.header_bytes);
        if shape.header_digest && received != digest::of(header) {
            self.keep(header);
            let information = u32::from_le_bytes([received[0], received[1], received[2], received[3]]);
            return Err(Fatal { status: FatalStatus::HeaderDigest, information });
        }
        if header.len() == 24 {
            // The transfer tracker may reject this header later.
            self.keep(header);
        }
        let pdu = pdu::parse(shape.kind, header, shape.data_bytes).inspect_err(|_| self.keep(header))?;
        match pdu {
            Pdu::IcReq(request) => self.settle_request(&request),
            Pdu::IcResp(response) => self.settle_response(&response).inspect_err(|_| self.keep(header))?,
            _ => {}
        }
        self.state = if shape.data_bytes == 0 {
            State::Header { have: 0 }
        } else {
            let digest = shape.data_digest.then(DataDigest::default);
            State::Padding {
                left: shape.padding_bytes,
                body: Body { offset: 0, total: shape.data_bytes, digest },
            }
        };
        Ok(pdu)
    }

    fn settle_request(&mut self, request: &IcReq) {
        let End::Controller(offer) = self.end else { return };
        self.terms = Some(Terms {
            header_digest: request.header_digest && offer.header_digest,
            data_digest: request.data_digest && offer.data_digest,
            host_alignment: request.alignment,
            controller_alignment: offer.alignment,
            h2c_data_max: offer.h2c_data_max,
            r2t_max: request.r2t_max,
        });
    }

    /// A controller may omit digests that the host asked for, but not add any.
    fn settle_response(&mut self, response: &IcResp) -> Result<(), Fatal> {
        let End::Host(request) = self.end else { return Ok(()) };
        let IcResp { alignment, header_digest, data_digest, h2c_data_max } = *response;
        if header_digest && !request.header_digest || data_digest && !request.data_digest {
            return Err(Fatal::field(11));
        }
        self.terms = Some(Terms {
            header_digest,
            data_digest,
            host_alignment: request.alignment,
            controller_alignment: alignment,
            h2c_data_max,
            r2t_max: request.r2t_max,
        });
        Ok(())
    }

    fn decode_body<'a>(&mut self, input: &mut &'a [u8]) -> Option<Event<'a>> {
        if let State::Padding { left, body } = &mut self.state {
            *left -= take(input, *left).len();
            if *left > 0 {
                return None;
            }
            self.state = State::Data { body: *body };
        }
        if let State::Data { body } = &mut self.state {
            let (offset_bytes, left) = (body.offset, body.total - body.offset);
            if left > 0 {
                let bytes = take(input, left as usize);
                if let Some(digest) = &mut body.digest {
                    digest.update(bytes);
                }
                body.offset += bytes.len() as u32;
                return (!bytes.is_empty()).then_some(Event::Data { offset_bytes, bytes });
            }
            let Some(digest) = body.digest else { return Some(self.end_body(DataCheck::Absent)) };
            let expected = digest.bytes();
            self.state = State::Digest { have: 0, received: [0; DIGEST_BYTES], expected };
        }
        let State::Digest { have, received, expected } = &mut self.state else { return None };
        *have += take_into(&mut received[*have..], input);
        if *have < DIGEST_BYTES {
            return None;
        }
        let check = if received == expected { DataCheck::Valid } else { DataCheck::Mismatch };
        Some(self.end_body(check))
    }

    fn end_body(&mut self, check: DataCheck) -> Event<'static> {
        self.state = State::Header { have: 0 };
        Event::End(check)
    }
}

impl Shape {
    fn header_and_digest_bytes(&self) -> usize {
        self.header_bytes + if self.header_digest { DIGEST_BYTES } else { 0 }
    }
}

/// Cuts at most `most` bytes off the front of `input`.
#[inline]
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    front
}

/// Moves bytes from `input` until `room` is full; returns how many.
fn take_into(room: &mut [u8], input: &mut &[u8]) -> usize {
    let bytes = take(input, room.len());
    room[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}
