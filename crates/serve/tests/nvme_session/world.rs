//! A target without sockets, and hosts built from the wire crate's host side.

use pellucid_device::Device;
use pellucid_serve::{Core, Operated, Time};
use pellucid_target::Drives;
use pellucid_target::connection::{Close, ConnectionId};
use pellucid_target::nvme::{Connection, HostSecrets, SharedTarget, SubsystemConfig, Target};
use pellucid_target::session::{Load, Port, Session};
use pellucid_target::{Output, Service};
use pellucid_wire::nvme::{
    Completion, Connect, ConnectData, DYNAMIC_CONTROLLER, PropertyGet, PropertySet, QueueCount,
    SglDescriptor, Status, SubmissionEntry, nqn,
};
use pellucid_wire::tcp::{
    DataDigest, DataHeader, Decoder, Encoder, Event, HEADER_BYTES_MAX, IcReq, Pdu, ReadyToTransfer, TermReq,
    Terms, encode_ic_req,
};
use std::collections::BTreeMap;

pub const NQN: &str = "nqn.2026-01.org.pellucid:test";
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
pub const SECTOR: usize = 512;
const C2H_MAX: u32 = 1 << 20;

/// The host's end of one connection.
pub struct Host {
    decoder: Decoder,
    pub encoder: Encoder,
    pub ready: bool,
    pub responses: BTreeMap<u16, Completion>,
    pub data: BTreeMap<u16, Vec<u8>>,
    pub r2ts: Vec<ReadyToTransfer>,
    /// Number of commands that ended with the SUCCESS flag of their data.
    pub flagged: u32,
    /// Queue head in each response capsule, in order of arrival.
    pub heads: Vec<u16>,
    /// Number of data PDUs that followed the response to another command, although both were sent together.
    pub late_data: u32,
    pub term: Option<TermReq>,
    receiving: Option<(DataHeader, Vec<u8>)>,
    /// Check only the form of answers: the host does not know its own commands.
    forgiving: bool,
}

impl Host {
    fn new(request: IcReq) -> Host {
        Host {
            decoder: Decoder::host(request, C2H_MAX),
            encoder: Encoder::host(&Terms::default()),
            ready: false,
            responses: BTreeMap::new(),
            data: BTreeMap::new(),
            r2ts: Vec::new(),
            flagged: 0,
            heads: Vec::new(),
            late_data: 0,
            term: None,
            receiving: None,
            forgiving: false,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        let mut responded = false;
        while let Some(event) = self.decoder.decode(&mut input).expect("the target keeps the protocol") {
            match event {
                Event::Pdu(Pdu::IcResp(_)) => {
                    self.encoder = Encoder::host(self.decoder.terms().expect("settled"));
                    self.ready = true;
                }
                Event::Pdu(Pdu::Response(completion)) => {
                    responded = true;
                    self.heads.push(completion.sq_head);
                    self.respond(completion);
                }
                Event::Pdu(Pdu::R2t(r2t)) => self.r2ts.push(r2t),
                Event::Pdu(Pdu::C2hData(header)) => {
                    self.late_data += u32::from(responded);
                    self.receiving = Some((header, Vec::new()));
                }
                Event::Pdu(Pdu::TermReq(term)) => self.term = Some(term),
                Event::Pdu(pdu) => panic!("not from a controller: {pdu:?}"),
                Event::Data { bytes, .. } => {
                    if let Some((_, data)) = &mut self.receiving {
                        data.extend(bytes);
                    }
                }
                Event::End(check) => {
                    assert_ne!(check, pellucid_wire::tcp::DataCheck::Mismatch);
                    let Some((header, data)) = self.receiving.take() else { continue };
                    let twice = self.data.insert(header.cid, data).is_some();
                    assert!(!twice || self.forgiving, "data twice");
                    if header.success {
                        self.flagged += 1;
                        self.respond(Completion { cid: header.cid, ..Completion::default() });
                    }
                }
            }
        }
    }

    fn respond(&mut self, completion: Completion) {
        let twice = self.responses.insert(completion.cid, completion).is_some();
        assert!(!twice || self.forgiving, "two ends: {completion:?}");
    }
}

pub struct Link {
    pub session: Connection,
    pub host: Host,
    pub closed: Option<Close>,
    pub load: Load,
    output: Output,
    held: Vec<u8>,
    cid: u16,
}

pub struct World {
    pub core: Core,
    pub target: SharedTarget,
    pub links: Vec<Link>,
    /// Lengths of the pieces in which bytes reach the target, used in rotation.
    pub pieces: Vec<usize>,
    turn: usize,
}

impl World {
    pub fn new() -> World {
        World::of(vec![("one".into(), crate::common::drive(pellucid_media::StoreKind::Ram))], None)
    }

    pub fn of(drives: Vec<(String, Device)>, hosts: Option<Vec<String>>) -> World {
        World::secured(drives, hosts, BTreeMap::new())
    }

    /// Creates a world whose hosts must authenticate.
    pub fn secured(
        drives: Vec<(String, Device)>,
        hosts: Option<Vec<String>>,
        secrets: BTreeMap<String, HostSecrets>,
    ) -> World {
        World::on(Core::new(drives, Time::Instant).expect("drives that can be served"), hosts, secrets)
    }

    /// Creates a world with all namespaces of a core.
    pub fn on(core: Core, hosts: Option<Vec<String>>, secrets: BTreeMap<String, HostSecrets>) -> World {
        let namespaces = (0..core.namespaces().len()).collect();
        let subsystem = SubsystemConfig {
            nqn: NQN.into(),
            serial: "SN1".into(),
            model: "Test drive".into(),
            namespaces,
            divided: None,
            hosts,
            secrets,
        };
        let target = Target::new(vec![subsystem]).expect("good names");
        World { core, target, links: Vec::new(), pieces: vec![usize::MAX], turn: 0 }
    }

    /// Runs `work` on a session with its port.
    fn with<R>(&mut self, link: usize, work: impl FnOnce(&mut Connection, &mut Port<'_>) -> R) -> R {
        let Link { session, load, output, .. } = &mut self.links[link];
        let id = ConnectionId::new(link as u64);
        work(session, &mut Port::new(self.core.face(), id, load, output))
    }

    /// Opens a connection without sending anything.
    pub fn open(&mut self, request: IcReq) -> usize {
        let session = Connection::new(&self.target, ([127, 0, 0, 1], 4420).into());
        self.links.push(Link {
            session,
            host: Host::new(request),
            closed: None,
            load: Load::default(),
            output: Output::default(),
            held: Vec::new(),
            cid: 0,
        });
        let link = self.links.len() - 1;
        self.with(link, |session, port| session.opened(port));
        link
    }

    /// Opens a connection and negotiates its terms.
    pub fn dial(&mut self, request: IcReq) -> usize {
        let link = self.open(request);
        self.bytes(link, &encode_ic_req(&request));
        assert!(self.links[link].host.ready);
        link
    }

    /// Delivers bytes to the target in pieces, every other one through the landing buffer if there is one.
    pub fn bytes(&mut self, link: usize, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.links[link].closed.is_none() {
            let piece = self.pieces[self.turn % self.pieces.len()].clamp(1, rest.len());
            self.turn += 1;
            let use_landing = self.turn.is_multiple_of(2) && self.links[link].held.is_empty();
            let landed = match self.links[link].session.landing() {
                Some(landing) if use_landing => {
                    let count = landing.len().min(piece);
                    landing[..count].copy_from_slice(&rest[..count]);
                    count
                }
                _ => 0,
            };
            if landed > 0 {
                let result = self.with(link, |session, port| session.landed(landed, port));
                self.judge(link, result);
                rest = &rest[landed..];
            } else {
                let held = &mut self.links[link].held;
                held.extend(&rest[..piece]);
                rest = &rest[piece..];
                self.receive(link);
            }
            self.pump();
        }
    }

    fn receive(&mut self, link: usize) {
        let held = std::mem::take(&mut self.links[link].held);
        let mut input = &held[..];
        let result = self.with(link, |session, port| session.receive(&mut input, port));
        self.links[link].held = input.to_vec();
        self.judge(link, result);
    }

    fn judge(&mut self, link: usize, result: Result<(), Close>) {
        if let Err(why) = result {
            self.close(link, why);
        }
    }

    /// Closes a connection.
    pub fn close(&mut self, link: usize, why: Close) {
        if self.links[link].closed.is_some() {
            return;
        }
        self.send(link);
        self.links[link].closed = Some(why);
        self.links[link].load.give_up_incoming(self.core.hub_mut());
        self.with(link, |session, port| session.closed(port));
    }

    fn send(&mut self, link: usize) {
        let Link { output, host, .. } = &mut self.links[link];
        let bytes = output.take_all();
        host.take(&bytes);
    }

    /// The connection whose turn it is to take memory budget.
    fn next_turn(&mut self) -> Option<ConnectionId> {
        let held = self.core.bytes_held();
        self.core.hub_mut().budget.next(held)
    }

    /// Runs until nothing more happens by itself.
    pub fn pump(&mut self) {
        loop {
            let mut moved = self.core.run();
            while let Some(done) = self.core.pop() {
                moved = true;
                let link =
                    (0..self.links.len()).find(|&l| ConnectionId::new(l as u64) == done.route.connection);
                let link = link.expect("a connection");
                self.links[link].load.commands -= 1;
                self.links[link].load.bytes -= done.bytes;
                if self.links[link].closed.is_none() {
                    self.with(link, |s, port| s.completed(done.route.token, done.answer, port));
                }
            }
            while let Some(id) = self.next_turn() {
                let link = (0..self.links.len()).find(|&l| ConnectionId::new(l as u64) == id);
                let link = link.filter(|&l| self.links[l].closed.is_none());
                if let Some(link) = link {
                    moved = true;
                    self.links[link].load.give_turn();
                    self.with(link, |session, port| session.has_turn(port)).expect("it goes on");
                    self.links[link].load.take_turn();
                }
            }
            for id in self.core.hub_mut().take_nudged() {
                let link =
                    (0..self.links.len()).find(|&l| ConnectionId::new(l as u64) == id).expect("a connection");
                if self.links[link].closed.is_none() {
                    moved = true;
                    self.tick(link, self.core.now_ns());
                }
            }
            for (id, why) in self.core.hub_mut().take_closing() {
                let link =
                    (0..self.links.len()).find(|&l| ConnectionId::new(l as u64) == id).expect("a connection");
                moved |= self.links[link].closed.is_none();
                self.close(link, why);
            }
            for link in 0..self.links.len() {
                if self.links[link].closed.is_none() {
                    self.send(link);
                    if !self.links[link].held.is_empty() {
                        self.receive(link);
                    }
                }
            }
            if !moved && !self.core.has_waiting() {
                return;
            }
        }
    }

    /// Makes the host of a connection accept answers to commands it does not know.
    pub fn forgiving(&mut self, link: usize) {
        self.links[link].host.forgiving = true;
    }

    pub fn tick(&mut self, link: usize, now_ns: u64) {
        let result = self.with(link, |session, port| session.tick(now_ns, port));
        self.judge(link, result);
    }

    /// Sends a command with in-capsule data; returns its identifier, which replaces that of the entry.
    pub fn command(&mut self, link: usize, entry: SubmissionEntry, data: &[u8]) -> u16 {
        self.links[link].cid += 1;
        let cid = self.links[link].cid;
        let mut entry = entry;
        entry.0[2..4].copy_from_slice(&cid.to_le_bytes());
        let bytes = self.capsule(link, &entry, data);
        self.bytes(link, &bytes);
        cid
    }

    pub fn capsule(&self, link: usize, entry: &SubmissionEntry, data: &[u8]) -> Vec<u8> {
        let encoder = &self.links[link].host.encoder;
        let mut out = [0; HEADER_BYTES_MAX];
        let length = encoder.command(entry, data.len() as u32, &mut out);
        with_data(encoder, &out[..length], data)
    }

    /// Builds a piece of the data that an R2T requested.
    pub fn h2c(&self, link: usize, r2t: &ReadyToTransfer, offset: usize, data: &[u8], last: bool) -> Vec<u8> {
        let encoder = &self.links[link].host.encoder;
        let header = DataHeader {
            cid: r2t.cid,
            transfer_tag: r2t.transfer_tag,
            offset_bytes: offset as u32,
            length_bytes: data.len() as u32,
            last,
            success: false,
        };
        let mut out = [0; HEADER_BYTES_MAX];
        let length = encoder.h2c_data(&header, &mut out);
        with_data(encoder, &out[..length], data)
    }

    /// Removes the R2T of a command.
    pub fn r2t(&mut self, link: usize, cid: u16) -> ReadyToTransfer {
        let r2ts = &mut self.links[link].host.r2ts;
        let at = r2ts.iter().position(|r2t| r2t.cid == cid).expect("an R2T");
        r2ts.remove(at)
    }

    /// Completion of a command that must have ended.
    pub fn end(&mut self, link: usize, cid: u16) -> Completion {
        let found = self.links[link].host.responses.remove(&cid);
        found.unwrap_or_else(|| panic!("command {cid} has not ended; {:?}", self.links[link].closed))
    }

    pub fn has_ended(&self, link: usize, cid: u16) -> bool {
        self.links[link].host.responses.contains_key(&cid)
    }

    /// Runs a command to its end.
    pub fn ask(&mut self, link: usize, entry: SubmissionEntry, data: &[u8]) -> Completion {
        let cid = self.command(link, entry, data);
        self.end(link, cid)
    }

    /// Runs a command that returns data.
    pub fn fetch(&mut self, link: usize, entry: SubmissionEntry, length: u32) -> Result<Vec<u8>, Status> {
        let cid = self.command(link, entry.with_sgl(SglDescriptor::transport(length)), &[]);
        let status = self.end(link, cid).status;
        let data = self.links[link].host.data.remove(&cid);
        if status.is_success() { Ok(data.expect("data")) } else { Err(status) }
    }

    /// Runs a command that returns data even if it fails in part.
    pub fn fetch_part(&mut self, link: usize, entry: SubmissionEntry, length: u32) -> (Completion, Vec<u8>) {
        let cid = self.command(link, entry.with_sgl(SglDescriptor::transport(length)), &[]);
        (self.end(link, cid), self.links[link].host.data.remove(&cid).expect("data"))
    }

    pub fn connect(&mut self, link: usize, connect: &Connect, name: &str, host: &str, id: u16) -> Completion {
        let data = ConnectData {
            host_id: [7; 16],
            controller_id: id,
            subsystem_nqn: nqn(name).expect("a name"),
            host_nqn: nqn(host).expect("a name"),
        };
        self.ask(link, connect.entry(0), &data.encode())
    }

    pub fn property(&mut self, link: usize, offset: u32) -> u64 {
        let completion = self.ask(link, PropertyGet { is_8_bytes: offset == 0, offset }.entry(0), &[]);
        assert!(completion.status.is_success(), "{completion:?}");
        completion.result
    }

    pub fn set_cc(&mut self, link: usize, value: u64) -> Completion {
        self.ask(link, PropertySet { is_8_bytes: false, offset: 0x14, value }.entry(0), &[])
    }

    /// Attaches to an enabled controller, as Linux does. Returns its admin connection and identifier.
    pub fn attach(&mut self, request: IcReq) -> (usize, u16) {
        let admin = self.dial(request);
        let connect = Connect { queue_id: 0, queue_entries: 32, attributes: 0, keep_alive_ms: 5000 };
        let completion = self.connect(admin, &connect, NQN, HOST, DYNAMIC_CONTROLLER);
        assert!(completion.status.is_success(), "{completion:?}");
        let id = completion.result as u16;
        assert!(self.set_cc(admin, CC_ENABLE).status.is_success());
        assert_eq!(self.property(admin, 0x1C), 1, "ready");
        let queues = QueueCount { submission: 4, completion: 4 }.encode();
        let entry = SubmissionEntry::new(0x09, 0, 0).with_cdw(10, 7).with_cdw(11, queues);
        assert_eq!(self.ask(admin, entry, &[]).dw0(), queues);
        (admin, id)
    }

    pub fn queue(&mut self, request: IcReq, id: u16, queue_id: u16) -> usize {
        let link = self.dial(request);
        let connect = Connect { queue_id, queue_entries: 128, attributes: 0, keep_alive_ms: 0 };
        let completion = self.connect(link, &connect, NQN, HOST, id);
        assert!(completion.status.is_success(), "{completion:?}");
        link
    }

    /// Writes through an R2T, in H2CData of at most `piece` bytes.
    pub fn write_r2t(&mut self, link: usize, entry: SubmissionEntry, data: &[u8], piece: usize) -> Status {
        let entry = entry.with_sgl(SglDescriptor::transport(data.len() as u32));
        let cid = self.command(link, entry, &[]);
        if self.links[link].host.responses.contains_key(&cid) {
            return self.end(link, cid).status;
        }
        let r2t = self.r2t(link, cid);
        assert_eq!((r2t.offset_bytes, r2t.length_bytes as usize), (0, data.len()));
        for (n, part) in data.chunks(piece).enumerate() {
            let at = n * piece;
            let bytes = self.h2c(link, &r2t, at, part, at + part.len() == data.len());
            self.bytes(link, &bytes);
        }
        self.end(link, cid).status
    }
}

/// CC value: EN, IOSQES 6, IOCQES 4.
pub const CC_ENABLE: u64 = 0x0046_0001;

fn with_data(encoder: &Encoder, header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = [header, data].concat();
    if encoder.data_digest() && !data.is_empty() {
        let mut digest = DataDigest::default();
        digest.update(data);
        bytes.extend(digest.bytes());
    }
    bytes
}

/// Builds an I/O command on blocks of namespace 1.
pub fn blocks(opcode: u8, lba: u64, sectors: u32) -> SubmissionEntry {
    SubmissionEntry::new(opcode, 0, 1).with_cdw_pair(10, lba).with_cdw(12, sectors - 1)
}

pub fn in_capsule(entry: SubmissionEntry, data: &[u8]) -> SubmissionEntry {
    entry.with_sgl(SglDescriptor::in_capsule(0, data.len() as u32))
}
