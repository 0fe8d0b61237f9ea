//! Link: the PDUs that go to the host, and the head of its submission queue.
//!
//! Invariant: the head pointer counts every capsule once, and runs around the queue.

use crate::session::Port;
use pellucid_wire::nvme::{Completion, Status};
use pellucid_wire::tcp::{
    DataDigest, DataHeader, Encoder, HEADER_BYTES_MAX, IcResp, ReadyToTransfer, Terms, encode_ic_resp,
};

/// Way of answers to the host.
#[derive(Debug)]
pub(super) struct Link {
    encoder: Encoder,
    queue_entries: u16,
    sq_head: u16,
    flow_control: bool,
}

impl Link {
    pub fn new() -> Link {
        Link {
            encoder: Encoder::controller(&Terms::default()),
            queue_entries: 2,
            sq_head: 0,
            flow_control: true,
        }
    }

    /// Answers the host's request for a connection, on the agreed terms.
    pub fn set_up(&mut self, terms: &Terms, response: &IcResp, port: &mut Port<'_>) {
        self.encoder = Encoder::controller(terms);
        port.output().head(&encode_ic_resp(response));
    }

    /// Begins a queue with the given number of entries, the first of which has arrived.
    pub fn begin(&mut self, queue_entries: u16, flow_control: bool) {
        assert!(queue_entries > 0, "a queue has entries");
        (self.queue_entries, self.sq_head, self.flow_control) =
            (queue_entries, 1 % queue_entries, flow_control);
    }

    /// Counts a capsule that has arrived.
    #[inline]
    pub fn came(&mut self) {
        self.sq_head += 1;
        if self.sq_head == self.queue_entries {
            self.sq_head = 0;
        }
    }

    /// Returns the number of entries of the queue.
    #[inline]
    pub fn queue_entries(&self) -> u16 {
        self.queue_entries
    }

    /// Asks the host for data.
    #[inline]
    pub fn ask(&self, request: &ReadyToTransfer, port: &mut Port<'_>) {
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.r2t(request, &mut out);
        port.output().head(&out[..length]);
    }

    /// Sends a response capsule. Capsules are sent after the data of the same turn: a host then reads many
    /// capsules at once, completes as many commands, and can send as many new ones together. This applies to
    /// all capsules, so their head pointers never run backwards.
    #[inline]
    pub fn respond(&self, cid: u16, status: Status, result: u64, port: &mut Port<'_>) {
        let sq_head = if self.flow_control { self.sq_head } else { 0 };
        let completion = Completion { result, sq_head, cid, status, ..Completion::default() };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.response(&completion, &mut out);
        port.output().behind(&out[..length]);
    }

    /// Answers a Connect.
    pub fn respond_to_connect(&self, cid: u16, status: Status, result: u64, port: &mut Port<'_>) {
        let sq_head = if self.flow_control { self.sq_head } else { 0xFFFF };
        let completion = Completion { result, sq_head, cid, status, ..Completion::default() };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.response(&completion, &mut out);
        port.output().head(&out[..length]);
    }

    /// Sends a command's data and its completion. The SUCCESS flag of the data replaces a response capsule
    /// only if the host has disabled flow control of the submission queue, as the flag carries no head
    /// pointer (TCP 3.3.2).
    #[inline]
    pub fn send(&self, cid: u16, data: Vec<u8>, port: &mut Port<'_>) {
        self.send_with(cid, data, Status::SUCCESS, 0, port);
    }

    /// Sends data like [`Link::send`], for a command that may have failed in part: `result` tells which part.
    #[inline]
    pub fn send_with(&self, cid: u16, data: Vec<u8>, status: Status, result: u64, port: &mut Port<'_>) {
        let success = !self.flow_control && status.is_success() && result == 0;
        let header =
            DataHeader { cid, length_bytes: data.len() as u32, last: true, success, ..DataHeader::default() };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.c2h_data(&header, &mut out);
        port.output().head(&out[..length]);
        if self.encoder.data_digest() {
            let mut digest = DataDigest::default();
            digest.update(&data);
            port.output().data(data);
            port.output().head(&digest.bytes());
        } else {
            port.output().data(data);
        }
        if !success {
            self.respond(cid, status, result, port);
        }
    }
}
