//! NVMe/TCP through real sockets: the target, the reactor and the drives together.

mod nameless;
#[cfg(feature = "tls-psk")]
mod tls;

use crate::common;
use pellucid_device::Device;
use pellucid_media::StoreKind;
use pellucid_serve::{Address, Core, Options, Server, Stopper, Time};
use pellucid_target::nvme::{Connection, SharedTarget, SubsystemConfig, Target};
use pellucid_target::session::Session;
use pellucid_wire::nvme::{
    Completion, Connect, ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER, DiscoveryEntry, DiscoveryHeader,
    PropertyGet, PropertySet, SglDescriptor, SubmissionEntry, nqn,
};
use pellucid_wire::tcp::{
    DataHeader, Decoder, Encoder, Event, HEADER_BYTES_MAX, IcReq, Pdu, ReadyToTransfer, Terms, encode_ic_req,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NQN: &str = "nqn.2026-01.org.pellucid:sockets";
const HOST: &str = "nqn.2014-08.org.example:friend";

struct Served {
    address: SocketAddr,
    stopper: Stopper,
    thread: JoinHandle<Vec<Device>>,
    log: Arc<Mutex<Vec<String>>>,
}

fn serve(device: Device, time: Time) -> Served {
    serve_as(device, time, |target, local| Ok(Box::new(Connection::new(target, local))))
}

/// Creates the session of a connection to a target at this address.
type Welcome = fn(&SharedTarget, SocketAddr) -> Result<Box<dyn Session>, String>;

fn serve_as(device: Device, time: Time, welcome: Welcome) -> Served {
    serve_at("127.0.0.1:0", Options::default(), device, time, welcome)
}

fn serve_at(address: &str, options: Options, device: Device, time: Time, welcome: Welcome) -> Served {
    let asked: Address = address.parse().expect("an address");
    let (tell, told) = mpsc::channel();
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let thread = std::thread::spawn(move || {
        let core = Core::new(vec![("one".into(), device)], time).expect("a drive that can be served");
        let keep = Box::new(move |event: &pellucid_serve::event::Event| {
            lines.lock().expect("a log").push(event.to_string())
        });
        let mut server = Server::new(core, options, keep).expect("an event queue");
        let subsystem = SubsystemConfig {
            nqn: NQN.into(),
            serial: "1".into(),
            model: "Sockets".into(),
            namespaces: vec![0],
            divided: None,
            hosts: Some(vec![HOST.into()]),
            secrets: BTreeMap::new(),
        };
        let target = Target::new(vec![subsystem]).expect("good names");
        let accept =
            Box::new(move |_, local: Option<SocketAddr>| welcome(&target, local.expect("a TCP address")));
        let bound = server.listen(&asked, "nvme-tcp", accept).expect("a port");
        let Address::Tcp(address) = bound else { panic!("a TCP address") };
        tell.send((address, server.stopper())).expect("somebody listens");
        server.run().expect("a good end").into_devices()
    });
    let (address, stopper) = told.recv().expect("the server starts");
    Served { address, stopper, thread, log }
}

/// Transport of a queue.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

struct Queue {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    encoder: Encoder,
    ended: BTreeMap<u16, Completion>,
    data: BTreeMap<u16, Vec<u8>>,
    r2ts: VecDeque<ReadyToTransfer>,
    current: u16,
    cid: u16,
}

fn dial(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(served.address).expect("it listens");
    stream.set_nodelay(true).expect("a TCP option");
    stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a TCP option");
    stream
}

impl Queue {
    fn dial(served: &Served) -> Queue {
        Queue::over(Box::new(dial(served)))
    }

    fn over(mut stream: Box<dyn Stream>) -> Queue {
        let request = IcReq::default();
        stream.write_all(&encode_ic_req(&request)).expect("it takes an ICReq");
        let decoder = Decoder::host(request, 1 << 20);
        let encoder = Encoder::host(&Terms::default());
        let (ended, data, r2ts) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Queue { stream, decoder, encoder, ended, data, r2ts, current: 0, cid: 0 }
    }

    /// Reads once; returns false at the end of the stream.
    fn read(&mut self) -> bool {
        let mut buffer = vec![0; 100_000];
        let count = self.stream.read(&mut buffer).expect("the target answers");
        let mut input = &buffer[..count];
        while let Some(event) = self.decoder.decode(&mut input).expect("the protocol") {
            match event {
                Event::Pdu(Pdu::Response(completion)) => drop(self.ended.insert(completion.cid, completion)),
                Event::Pdu(Pdu::R2t(r2t)) => self.r2ts.push_back(r2t),
                Event::Pdu(Pdu::C2hData(header)) => {
                    self.current = header.cid;
                    if header.success {
                        self.ended
                            .insert(header.cid, Completion { cid: header.cid, ..Completion::default() });
                    }
                }
                Event::Data { bytes, .. } => self.data.entry(self.current).or_default().extend(bytes),
                _ => {}
            }
        }
        count > 0
    }

    fn send(&mut self, mut entry: SubmissionEntry, data: &[u8]) -> u16 {
        self.cid += 1;
        entry.0[2..4].copy_from_slice(&self.cid.to_le_bytes());
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.command(&entry, data.len() as u32, &mut out);
        self.stream.write_all(&[&out[..length], data].concat()).expect("it takes commands");
        self.cid
    }

    fn end(&mut self, cid: u16) -> Completion {
        while !self.ended.contains_key(&cid) {
            assert!(self.read(), "closed before command {cid} ended");
        }
        // The header of the data reports the completion: receive the remaining data.
        while self.decoder.data_remaining_bytes() > 0 {
            assert!(self.read(), "closed in the middle of data");
        }
        self.ended.remove(&cid).expect("just seen")
    }

    fn connect(&mut self, queue_id: u16, controller_id: u16, host: &str) -> Completion {
        self.connect_to(NQN, queue_id, controller_id, host)
    }

    fn connect_to(&mut self, subsystem: &str, queue_id: u16, controller_id: u16, host: &str) -> Completion {
        let names = (nqn(subsystem).expect("a name"), nqn(host).expect("a name"));
        let data = ConnectData { host_id: [1; 16], controller_id, subsystem_nqn: names.0, host_nqn: names.1 };
        let connect = Connect { queue_id, queue_entries: 64, attributes: 0, keep_alive_ms: 0 };
        let cid = self.send(connect.entry(0), &data.encode());
        self.end(cid)
    }

    /// Reads the first `count` log entries of a discovery controller.
    fn discover(&mut self, count: usize) -> Vec<DiscoveryEntry> {
        assert!(self.connect_to(DISCOVERY_NQN, 0, DYNAMIC_CONTROLLER, HOST).status.is_success());
        let enable = PropertySet { is_8_bytes: false, offset: 0x14, value: 0x0046_0001 };
        let cid = self.send(enable.entry(0), &[]);
        assert!(self.end(cid).status.is_success());
        let bytes = DiscoveryHeader::BYTES + count * DiscoveryEntry::BYTES;
        let get = SubmissionEntry::new(0x02, 0, 0).with_cdw(10, 0x70 | ((bytes as u32 / 4 - 1) << 16));
        let cid = self.send(get.with_sgl(SglDescriptor::transport(bytes as u32)), &[]);
        assert!(self.end(cid).status.is_success());
        let page = self.data.remove(&cid).expect("a log page");
        let entries = page[DiscoveryHeader::BYTES..].chunks(DiscoveryEntry::BYTES);
        entries.map(|entry| DiscoveryEntry::decode(entry.first_chunk().expect("an entry"))).collect()
    }

    fn write(&mut self, lba: u64, data: &[u8]) {
        let cid = self.send(blocks(1, lba, data.len()), &[]);
        while self.r2ts.is_empty() {
            assert!(self.read());
        }
        let r2t = self.r2ts.pop_front().expect("an R2T");
        // A slow sender: the pieces arrive one by one.
        for (n, piece) in data.chunks(30_000).enumerate() {
            let header = DataHeader {
                cid,
                transfer_tag: r2t.transfer_tag,
                offset_bytes: (n * 30_000) as u32,
                length_bytes: piece.len() as u32,
                last: n * 30_000 + piece.len() == data.len(),
                success: false,
            };
            let mut out = [0; HEADER_BYTES_MAX];
            let length = self.encoder.h2c_data(&header, &mut out);
            let (front, back) = piece.split_at(piece.len() / 2);
            self.stream.write_all(&[&out[..length], front].concat()).expect("it takes data");
            // The server usually sees two pieces then; if not, its answer is still the same.
            std::thread::sleep(Duration::from_millis(1));
            self.stream.write_all(back).expect("it takes data");
        }
        assert!(self.end(cid).status.is_success());
    }
}

fn blocks(opcode: u8, lba: u64, bytes: usize) -> SubmissionEntry {
    SubmissionEntry::new(opcode, 0, 1)
        .with_cdw_pair(10, lba)
        .with_cdw(12, (bytes / common::SECTOR) as u32 - 1)
        .with_sgl(SglDescriptor::transport(bytes as u32))
}

fn attach(served: &Served) -> (Queue, Queue) {
    attach_by(|| Queue::dial(served))
}

fn attach_by(dial: impl Fn() -> Queue) -> (Queue, Queue) {
    let mut admin = dial();
    let id = admin.connect(0, DYNAMIC_CONTROLLER, HOST).result as u16;
    let enable = PropertySet { is_8_bytes: false, offset: 0x14, value: 0x0046_0001 };
    let cid = admin.send(enable.entry(0), &[]);
    assert!(admin.end(cid).status.is_success());
    let mut queue = dial();
    assert!(queue.connect(1, id, HOST).status.is_success());
    (admin, queue)
}

#[test]
fn data_come_back_paced_and_instant_and_outlive_the_server() {
    for time in [Time::Paced { dilation: 1.0 }, Time::Instant] {
        let served = serve(common::drive(StoreKind::Ram), time);
        let (admin, mut queue) = attach(&served);
        let data: Vec<u8> = (0..200 * common::SECTOR).map(|n| (n * 31 + (n >> 9)) as u8).collect();
        queue.write(64, &data);
        let flush = queue.send(SubmissionEntry::new(0, 0, 1), &[]);
        assert!(queue.end(flush).status.is_success());
        drop((admin, queue));
        served.stopper.stop();
        let device = served.thread.join().expect("no panic").remove(0);
        let served = serve(device, time);
        let (_admin, mut queue) = attach(&served);
        // Many at once, in one write to the socket or several.
        let cids: Vec<u16> = (0..50).map(|n| queue.send(blocks(2, 64 + n * 4, 2048), &[])).collect();
        for (n, cid) in cids.into_iter().enumerate() {
            assert!(queue.end(cid).status.is_success());
            assert!(queue.data.remove(&cid).expect("data") == data[n * 2048..][..2048], "block {n}");
        }
        served.stopper.stop();
        served.thread.join().expect("no panic");
    }
}

#[test]
fn a_stranger_is_refused_and_logged_and_a_lost_host_leaves_its_queues() {
    let served = serve(common::drive(StoreKind::Ram), Time::Instant);
    let mut stranger = Queue::dial(&served);
    let stranger_nqn = "nqn.2014-08.org.example:stranger";
    assert_eq!(stranger.connect(0, DYNAMIC_CONTROLLER, stranger_nqn).status.raw() & 0x7FF, 0x184);
    assert!(!stranger.read(), "the connection is closed");
    drop(stranger);
    let logged = |text: &str| served.log.lock().expect("a log").iter().any(|line| line.contains(text));
    common::eventually("a line in the log", || logged(stranger_nqn));
    let (admin, mut queue) = attach(&served);
    drop(admin);
    assert!(!queue.read(), "its controller is gone");
    let (_admin, mut queue) = attach(&served);
    queue.write(0, &[7; 4096]);
    served.stopper.stop();
    served.thread.join().expect("no panic");
}

/// A host connects to the address in the discovery log, so this must not be "all addresses", which would mean
/// the host's own.
#[test]
fn discovery_names_the_address_that_the_host_has_reached() {
    for (listening, reached, family) in
        [("0.0.0.0:0", "127.0.0.1", 1), ("[::]:0", "127.0.0.1", 1), ("[::]:0", "::1", 2)]
    {
        let welcome: Welcome = |target, local| Ok(Box::new(Connection::new(target, local)));
        let (drive, options) = (common::drive(StoreKind::Ram), Options::default());
        let mut served = serve_at(listening, options, drive, Time::Instant, welcome);
        served.address.set_ip(reached.parse().expect("an address"));
        for entry in Queue::dial(&served).discover(2) {
            let address = String::from_utf8_lossy(&entry.address);
            assert_eq!((address.trim_end(), entry.address_family), (reached, family), "on {listening}");
            let service = String::from_utf8_lossy(&entry.service);
            assert_eq!(service.trim_end(), served.address.port().to_string());
        }
        served.stopper.stop();
        served.thread.join().expect("no panic");
    }
}

/// If the server was busy, a host's input is still in its socket: it is read before the host counts as
/// silent.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_host_that_spoke_while_the_server_was_busy_is_not_given_up() {
    let welcome: Welcome = |target, local| {
        if SLOW.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_secs(4));
        }
        Ok(Box::new(Connection::new(target, local)))
    };
    // While it polls, the server asks for events only occasionally.
    let options = Options { poll: Duration::from_secs(60), ..Options::default() };
    let served = serve_at("127.0.0.1:0", options, common::drive(StoreKind::Ram), Time::Instant, welcome);
    let (mut admin, mut queue) = attach(&served);
    let keep_alive_ms = SubmissionEntry::new(0x09, 0, 0).with_cdw(10, 0x0F).with_cdw(11, 2000);
    let cid = admin.send(keep_alive_ms, &[]);
    assert!(admin.end(cid).status.is_success());
    // It then reads this queue, which was the last with input, and not the other.
    queue.write(0, &[7; 4096]);
    SLOW.store(true, Ordering::Release);
    let _slow = dial(&served);
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(100));
        admin.send(SubmissionEntry::new(0x18, 0, 0), &[]);
    }
    let last = admin.send(SubmissionEntry::new(0x18, 0, 0), &[]);
    assert!(admin.end(last).status.is_success());
    served.stopper.stop();
    served.thread.join().expect("no panic");
}

/// Makes the server slow to accept a new connection.
static SLOW: AtomicBool = AtomicBool::new(false);

/// Commands before the end of a controller are executed, later ones are not: the host may use another path by
/// then.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_controller_that_is_given_up_takes_no_more_commands() {
    let welcome: Welcome = |target, local| Ok(Box::new(Connection::new(target, local)));
    // The server closes the refused connection after this time, which the host does not; the queue does not wait as long again.
    let options = Options { ending: Duration::from_secs(1), ..Options::default() };
    let served = serve_at("127.0.0.1:0", options, common::drive(StoreKind::Ram), Time::Instant, welcome);
    let (mut admin, mut queue) = attach(&served);
    queue.write(0, &[7; 4096]);
    // Bytes that are no PDU. The admin connection stays open at the host's end.
    admin.stream.write_all(&[0xFF; 128]).expect("it takes bytes");
    while admin.read() {}
    assert!(
        !queue.read(),
        "the queue is closed with its controller, not when the host has closed the other connection, too"
    );
    served.stopper.stop();
    served.thread.join().expect("no panic");
}

/// A reset ends when no earlier command is left in the drive; otherwise an old write could overwrite a new
/// one. This holds whether or not the host has closed the queue before.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_reset_ends_when_the_drive_has_nothing_from_before_it() {
    for closes in [false, true] {
        // A forced write takes seconds.
        let served = serve(common::drive(StoreKind::Ram), Time::Paced { dilation: 5_000.0 });
        let (mut admin, mut queue) = attach(&served);
        let data = [7; 4096];
        let forced = SubmissionEntry::new(1, 0, 1).with_cdw(12, 7 | 1 << 30);
        let sent = Instant::now();
        queue.send(forced.with_sgl(SglDescriptor::in_capsule(0, 4096)), &data);
        // A queue is processed in order: once a later command is refused, the server has the write.
        let refused = queue.send(SubmissionEntry::new(0x7F, 0, 1), &[]);
        assert!(!queue.end(refused).status.is_success());
        let queue = (!closes).then_some(queue);
        let disable = PropertySet { is_8_bytes: false, offset: 0x14, value: 0x0046_0000 };
        let cid = admin.send(disable.entry(0), &[]);
        assert!(admin.end(cid).status.is_success());
        let mut ready = || {
            let cid = admin.send(PropertyGet { is_8_bytes: false, offset: 0x1C }.entry(0), &[]);
            admin.end(cid).result & 1 == 1
        };
        while ready() {
            assert!(sent.elapsed() < Duration::from_secs(600), "closes {closes}");
            std::thread::sleep(Duration::from_millis(10));
        }
        // A superpage's program takes 200 us, before dilation.
        assert!(sent.elapsed() > Duration::from_secs(1), "closes {closes}: after {:?}", sent.elapsed());
        drop(queue);
        served.stopper.stop();
        served.thread.join().expect("no panic");
    }
}
