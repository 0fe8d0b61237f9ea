//! The host's end of one NVMe/TCP connection, which carries one queue: commands out, data both ways,
//! completions in.
//!
//! ```text
//!  start ─► CapsuleCmd [data that fit into it] ─┬────────────────► C2HData ─► buffer of the command
//!                                               ├─ R2T ─► H2CData ─┐
//!                                               └──────────────────┴────────► CapsuleResp ─► Ended
//! ```
//! The socket blocks, with a time limit, while the connection is set up ([`Queue::ask`]); afterwards it is
//! non-blocking ([`Queue::exchange`]).
//!
//! Invariants: a command identifier is the number of a slot, in use from `start` to the completion; no byte
//! of the other end is written outside the buffer of its command.

use pellucid_wire::nvme::{Completion, SglDescriptor, Status, SubmissionEntry};
use pellucid_wire::tcp::{
    DataCheck, DataDigest, DataHeader, Decoder, Encoder, Event, HEADER_BYTES_MAX, IcReq, Pdu,
    ReadyToTransfer, Terms, encode_ic_req,
};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

/// Maximum bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// Error that breaks a connection.
#[derive(Debug)]
pub enum Broken {
    /// The socket's error.
    Socket(io::Error),
    /// The other end closed the connection.
    Closed,
    /// Either end violated the protocol.
    Protocol(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Time limit of a blocking socket.
            Broken::Socket(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                f.write_str("no answer in time")
            }
            Broken::Socket(error) => error.fmt(f),
            Broken::Closed => f.write_str("the remote end closed the connection"),
            Broken::Protocol(what) => f.write_str(what),
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Socket(error)
    }
}

/// Data of a command.
#[derive(Debug)]
pub(super) enum Payload {
    /// Data for the drive.
    Out(Vec<u8>),
    /// Buffer that the drive fills; empty if there are no data.
    In(Vec<u8>),
}

/// Completion of a command.
#[derive(Debug)]
pub(super) struct Ended {
    /// Token given at the start.
    pub token: u64,
    pub status: Status,
    pub result: u64,
    /// Buffer of the command, filled or as sent.
    pub data: Vec<u8>,
    /// Bytes of the buffer up to the end of the received data.
    pub filled: usize,
}

#[derive(Debug, Default)]
struct Slot {
    token: u64,
    busy: bool,
    is_out: bool,
    data: Vec<u8>,
    /// Bytes that the drive has requested.
    asked: usize,
    /// End of the received data.
    filled: usize,
    /// A data digest did not match.
    damaged: bool,
}

/// A data PDU being received.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    cid: u16,
    /// Offset of its data in the buffer of the command.
    start: usize,
    /// The PDU also completes the command.
    success: bool,
}

/// One queue and its connection.
#[derive(Debug)]
pub(super) struct Queue {
    stream: TcpStream,
    decoder: Decoder,
    encoder: Encoder,
    h2c_data_max: usize,
    /// Maximum data in the capsule of a command.
    pub in_capsule_max: usize,
    slots: Vec<Slot>,
    idle: Vec<u16>,
    incoming: Option<Incoming>,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// The socket is full, until its next writable event.
    blocked: bool,
    /// There may be input.
    readable: bool,
}

impl Queue {
    /// Sets up the connection: ICReq, ICResp. `data_max`: maximum data that a command may return.
    pub fn open(mut stream: TcpStream, digests: bool, entries: u32, data_max: u32) -> Result<Queue, Broken> {
        let request = IcReq { alignment: 0, header_digest: digests, data_digest: digests, r2t_max: 0 };
        stream.write_all(&encode_ic_req(&request))?;
        let slots = entries.clamp(2, 1 << 16) as usize - 1;
        let mut queue = Queue {
            stream,
            decoder: Decoder::host(request, data_max),
            encoder: Encoder::host(&Terms::default()),
            h2c_data_max: 0,
            in_capsule_max: pellucid_wire::tcp::ADMIN_IN_CAPSULE_BYTES as usize,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            idle: (0..slots as u16).rev().collect(),
            incoming: None,
            input: vec![0; READ_BYTES],
            output: Vec::new(),
            sent: 0,
            blocked: false,
            readable: true,
        };
        while queue.decoder.terms().is_none() {
            queue.read(&mut Vec::new())?;
        }
        let terms = *queue.decoder.terms().expect("just seen");
        queue.encoder = Encoder::host(&terms);
        queue.h2c_data_max = terms.h2c_data_max as usize;
        Ok(queue)
    }

    /// Makes the socket non-blocking.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }

    pub fn file(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Handles an event on the socket.
    pub fn ready(&mut self) {
        (self.readable, self.blocked) = (true, false);
    }

    /// Returns true if output waits that the socket may take.
    pub fn must_send(&self) -> bool {
        self.sent < self.output.len() && !self.blocked
    }

    /// Number of commands that can be started now.
    pub fn room(&self) -> usize {
        self.idle.len()
    }

    /// Number of commands in flight.
    pub fn outstanding(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// Returns true if data of this length fit into the capsule.
    pub fn fits_capsule(&self, bytes: usize) -> bool {
        bytes <= self.in_capsule_max
    }

    /// Starts a command; sets its identifier and data pointer.
    ///
    /// # Panics
    /// Panics if there is no room.
    pub fn start(&mut self, token: u64, entry: SubmissionEntry, payload: Payload) {
        let cid = self.idle.pop().expect("room for a command");
        let (is_out, data) = match payload {
            Payload::Out(data) => (true, data),
            Payload::In(data) => (false, data),
        };
        let in_capsule = is_out && self.fits_capsule(data.len());
        let mut entry = match (data.len() as u32, in_capsule) {
            (0, _) => entry.with_sgl(SglDescriptor::transport(0)),
            (length, true) => entry.with_sgl(SglDescriptor::in_capsule(0, length)),
            (length, false) => entry.with_sgl(SglDescriptor::transport(length)),
        };
        entry.0[2..4].copy_from_slice(&cid.to_le_bytes());
        let mut head = [0; HEADER_BYTES_MAX];
        let length = self.encoder.command(&entry, if in_capsule { data.len() as u32 } else { 0 }, &mut head);
        self.output.extend_from_slice(&head[..length]);
        if in_capsule && !data.is_empty() {
            put_data(&mut self.output, &data, self.encoder.data_digest());
        }
        self.slots[usize::from(cid)] =
            Slot { token, busy: true, is_out, data, asked: 0, filled: 0, damaged: false };
    }

    /// Starts a command and waits for its completion, on a blocking socket.
    pub fn ask(&mut self, entry: SubmissionEntry, payload: Payload) -> Result<Ended, Broken> {
        self.start(0, entry, payload);
        let mut ended = Vec::new();
        loop {
            let output = std::mem::take(&mut self.output);
            self.stream.write_all(&output)?;
            self.read(&mut ended)?;
            if let Some(ended) = ended.pop() {
                return Ok(ended);
            }
        }
    }

    /// Sends pending output and handles input, as far as the socket allows.
    pub fn exchange(&mut self, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        self.send()?;
        while self.readable {
            match self.read(ended) {
                Err(Broken::Socket(error)) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                other => other?,
            }
        }
        // Data requested by R2Ts during the read (H2CData).
        self.send()
    }

    fn send(&mut self) -> Result<(), Broken> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(Broken::Closed),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads once.
    fn read(&mut self, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        let mut input = std::mem::take(&mut self.input);
        let taken = loop {
            match self.stream.read(&mut input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error.into()),
                Ok(0) => break Err(Broken::Closed),
                Ok(count) => break self.take(&input[..count], ended),
            }
        };
        self.input = input;
        taken
    }

    fn take(&mut self, mut input: &[u8], ended: &mut Vec<Ended>) -> Result<(), Broken> {
        while let Some(event) = self.decoder.decode(&mut input).map_err(wrong)? {
            match event {
                Event::Pdu(Pdu::C2hData(header)) => self.begin_data(&header)?,
                Event::Data { offset_bytes, bytes } => {
                    let Some(Incoming { cid, start, .. }) = self.incoming else { continue };
                    let at = start + offset_bytes as usize;
                    self.slots[usize::from(cid)].data[at..at + bytes.len()].copy_from_slice(bytes);
                }
                Event::End(check) => self.end_data(check, ended)?,
                Event::Pdu(Pdu::Response(completion)) => self.end(&completion, ended)?,
                Event::Pdu(Pdu::R2t(request)) => self.send_data(&request)?,
                Event::Pdu(Pdu::TermReq(term)) => {
                    let (status, at) = (term.status, term.information);
                    return Err(Broken::Protocol(format!(
                        "the remote end ended the connection: fatal error status {status:02X}h, information {at:X}h"
                    )));
                }
                Event::Pdu(_) => {}
            }
        }
        Ok(())
    }

    /// Finds the command in flight with this identifier.
    fn busy(&mut self, cid: u16) -> Result<&mut Slot, Broken> {
        let slot = self.slots.get_mut(usize::from(cid)).filter(|slot| slot.busy);
        slot.ok_or_else(|| wrong(format!("command {cid} is not under way")))
    }

    fn begin_data(&mut self, header: &DataHeader) -> Result<(), Broken> {
        let (start, length) = (header.offset_bytes as usize, header.length_bytes as usize);
        let slot = self.busy(header.cid)?;
        if slot.is_out || start + length > slot.data.len() {
            return Err(wrong(format!("command {}: data that nobody asked for", header.cid)));
        }
        slot.filled = slot.filled.max(start + length);
        self.incoming = Some(Incoming { cid: header.cid, start, success: header.success });
        Ok(())
    }

    fn end_data(&mut self, check: DataCheck, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        let Some(Incoming { cid, success, .. }) = self.incoming.take() else { return Ok(()) };
        self.slots[usize::from(cid)].damaged |= check == DataCheck::Mismatch;
        match success {
            true => self.end(&Completion { cid, ..Completion::default() }, ended),
            false => Ok(()),
        }
    }

    fn end(&mut self, completion: &Completion, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        let slot = std::mem::take(self.busy(completion.cid)?);
        self.idle.push(completion.cid);
        // The digest error overrides the drive's status, which may accompany data that took effort or are
        // good in part.
        let status = if slot.damaged { Status::TRANSIENT_TRANSPORT_ERROR } else { completion.status };
        let Slot { token, data, filled, .. } = slot;
        ended.push(Ended { token, status, result: completion.result, data, filled });
        Ok(())
    }

    /// Sends the data that the drive requests.
    fn send_data(&mut self, request: &ReadyToTransfer) -> Result<(), Broken> {
        let (from, length) = (request.offset_bytes as usize, request.length_bytes as usize);
        let cid = request.cid;
        let slot = self.busy(cid)?;
        slot.asked += length;
        if !slot.is_out || length == 0 || from + length > slot.data.len() || slot.asked > slot.data.len() {
            return Err(wrong(format!(
                "command {cid}: {length} bytes from byte {from} on are not there to be sent"
            )));
        }
        let data = std::mem::take(&mut slot.data);
        let mut at = from;
        for piece in data[from..from + length].chunks(self.h2c_data_max) {
            let header = DataHeader {
                cid,
                transfer_tag: request.transfer_tag,
                offset_bytes: at as u32,
                length_bytes: piece.len() as u32,
                last: at + piece.len() == from + length,
                success: false,
            };
            let mut head = [0; HEADER_BYTES_MAX];
            let length = self.encoder.h2c_data(&header, &mut head);
            self.output.extend_from_slice(&head[..length]);
            put_data(&mut self.output, piece, self.encoder.data_digest());
            at += piece.len();
        }
        self.slots[usize::from(cid)].data = data;
        Ok(())
    }
}

fn wrong(what: impl fmt::Display) -> Broken {
    Broken::Protocol(format!("the remote end broke the protocol: {what}"))
}

fn put_data(output: &mut Vec<u8>, data: &[u8], with_digest: bool) {
    output.extend_from_slice(data);
    if with_digest {
        let mut digest = DataDigest::default();
        digest.update(data);
        output.extend_from_slice(&digest.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_wire::tcp::{IcResp, encode_ic_resp};
    use std::net::TcpListener;

    /// Starts a controller that answers one command with this status and with data of a wrong digest.
    fn damaging(status: Status) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            let (mut host, _) = listener.accept().expect("a host");
            let answer = IcResp { alignment: 0, header_digest: false, data_digest: true, h2c_data_max: 4096 };
            let mut bytes = [0; 128];
            host.read_exact(&mut bytes).expect("ICReq");
            host.write_all(&encode_ic_resp(&answer)).expect("a host that listens");
            host.read_exact(&mut bytes[..72]).expect("a command");
            let terms = Terms { data_digest: true, ..Terms::default() };
            let (encoder, mut head) = (Encoder::controller(&terms), [0; HEADER_BYTES_MAX]);
            let data = DataHeader { length_bytes: 512, last: true, ..DataHeader::default() };
            let length = encoder.c2h_data(&data, &mut head);
            let mut answer = head[..length].to_vec();
            put_data(&mut answer, &[7; 512], true);
            *answer.last_mut().expect("a digest") ^= 1;
            let length =
                encoder.response(&Completion { status, result: 1, ..Completion::default() }, &mut head);
            answer.extend_from_slice(&head[..length]);
            host.write_all(&answer).expect("a host that listens");
            let _ = host.read(&mut bytes);
        });
        TcpStream::connect(address).expect("a controller")
    }

    #[test]
    fn damaged_data_are_taken_with_no_status() {
        for status in [Status::SUCCESS, Status::OC_HIGH_ECC, Status::UNRECOVERED_READ_ERROR] {
            let mut queue = Queue::open(damaging(status), true, 8, 4096).expect("a connection");
            let ended = queue.ask(SubmissionEntry::new(2, 0, 1), Payload::In(vec![0; 512])).expect("an end");
            assert_eq!(ended.status, Status::TRANSIENT_TRANSPORT_ERROR, "{status}");
        }
    }
}
