//! Intake: the decoder of PDUs, and where the data of the current one go.
//!
//! Invariant: while there is a destination, the decoder is inside the data of one PDU.

use crate::connection::Close;
use crate::nvme::{IN_CAPSULE_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::session::Port;
use pellucid_wire::tcp::{
    ADMIN_IN_CAPSULE_BYTES, Decoder, Event, Fatal, IcResp, Offer, TERM_BYTES_MAX, Terms,
};
use std::ops::Range;

/// Destination of the data of the current PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    None,
    /// Drop the data: their command was refused.
    Discard,
    /// Store the data in the buffer of a slot, from `start` to `end`.
    Slot {
        index: u16,
        start: usize,
        end: usize,
    },
}

/// Input from the host.
#[derive(Debug)]
pub(super) struct Intake {
    decoder: Decoder,
    incoming: Incoming,
}

impl Intake {
    pub fn new() -> Intake {
        let offer = Offer {
            header_digest: true,
            data_digest: true,
            alignment: 0,
            h2c_data_max: TRANSFER_BYTES_MAX,
            in_capsule_max: ADMIN_IN_CAPSULE_BYTES,
        };
        Intake { decoder: Decoder::controller(offer), incoming: Incoming::None }
    }

    /// Decodes the next event; the inner error is fatal.
    #[inline]
    pub fn decode<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Fatal> {
        self.decoder.decode(input)
    }

    /// Returns the agreed terms, and the answer to the request for them.
    pub fn terms(&self) -> Option<(&Terms, IcResp)> {
        Some((self.decoder.terms()?, self.decoder.ic_resp()?))
    }

    /// Takes the longer capsules of an I/O queue.
    pub fn allow_long_capsules(&mut self) {
        self.decoder.set_in_capsule_max(IN_CAPSULE_BYTES_MAX);
    }

    /// Reports a fatal error to the host and ends the connection.
    #[cold]
    pub fn fatal(&mut self, fatal: &Fatal, port: &mut Port<'_>) -> Close {
        let mut out = [0; TERM_BYTES_MAX];
        let length = self.decoder.term_req(fatal, &mut out);
        port.output().behind(&out[..length]);
        Close::Refused(fatal.to_string())
    }

    /// Reports whether the decoder is between the data of PDUs.
    #[inline]
    pub fn is_between(&self) -> bool {
        self.incoming == Incoming::None
    }

    /// Drops the data of the current PDU, unless a command takes them.
    #[inline]
    pub fn discard(&mut self) {
        self.incoming = Incoming::Discard;
    }

    /// Leads the data of the current PDU to a slot's buffer, from `start` on.
    #[inline]
    pub fn lead_to(&mut self, index: u16, start: usize, bytes: usize) {
        self.incoming = Incoming::Slot { index, start, end: start + bytes };
    }

    /// Returns the slot that the data go to, and the place of its buffer where they begin.
    #[inline]
    pub fn destination(&self) -> Option<(u16, usize)> {
        match self.incoming {
            Incoming::Slot { index, start, .. } => Some((index, start)),
            _ => None,
        }
    }

    /// Ends the data of a PDU; returns the slot that they went to.
    #[inline]
    pub fn end(&mut self) -> Option<u16> {
        match std::mem::replace(&mut self.incoming, Incoming::None) {
            Incoming::Slot { index, .. } => Some(index),
            _ => None,
        }
    }

    /// Part of a slot's buffer for the remaining data of the current PDU.
    #[inline]
    pub fn landing(&self) -> Option<(u16, Range<usize>)> {
        let Incoming::Slot { index, end, .. } = self.incoming else { return None };
        let left = self.decoder.data_remaining_bytes() as usize;
        (left > 0).then_some((index, end - left..end))
    }
}
