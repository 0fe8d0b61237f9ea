//! Helpers of the tests: small drives, a server in a thread, and an NBD client built from the wire codecs.
#![allow(dead_code, reason = "the unit tests of the crate use a part of it")]

use pellucid_device::{
    Arbitration, Completes, DataBuffer, Device, DeviceConfig, DieOrder, Feedback, Firmware, FirmwareModel,
    HostInterface, ModuleCosts, Namespace, Priorities, Scheduler, StepCost, WritePolicy,
};
use pellucid_flash::{Geometry, Nanos};
use pellucid_ftl::{
    ChunkConfig, Durability, FtlConfig, Isolation, Management, Map, Placement, Policies, Separation, Victim,
    WearLevelling, WriteFailure, ZoneConfig,
};
use pellucid_media::{Cell, Faults, Keep, ListedFault, MediaConfig, StoreKind, Timing, Variation};
use pellucid_serve::event::Event;
use pellucid_serve::{Address, CONTROL, Core, Observer, Options, Server, Stopper, Time};
use pellucid_target::control::ControlSession;
use pellucid_target::nbd::NbdSession;
use pellucid_target::nvme::{Connection, HostSecrets, SubsystemConfig, Target};
use pellucid_wire::nbd::{
    Chunk, ClientHandshake, ClientHandshakeEvent, Command, Extent, Info, InfoRequest, MetaContextRequest,
    OptionKind, OptionReply, ReplyDecoder, ReplyEvent, Request, encode_client_flags, encode_option,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const SECTOR: usize = 512;

/// Waits until `is_so`, longer than a loaded machine needs, so that it fails only if the condition never
/// holds.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(600);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within ten minutes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Configures a drive of 4 dies and about 6 MiB.
pub fn config(store: StoreKind) -> DeviceConfig {
    DeviceConfig {
        media: MediaConfig {
            geometry: Geometry {
                channels: 2,
                ways: 2,
                dies: 1,
                planes: 1,
                blocks: 32,
                pages: 16,
                page_bytes: 4096,
                spare_bytes: 64,
                sector_bytes: SECTOR as u32,
                unit_bytes: 4096,
                multi_plane: false,
                one_shot_pages: 1,
            },
            cell: Cell::Slc,
            slc_mode: false,
            independent_plane_reads: false,
            slc_blocks: None,
            timing: Timing {
                read_ns: vec![Nanos::from_us(50)],
                program_ns: vec![Nanos::from_us(200)],
                erase_ns: Nanos::from_ms(1),
                die_spread: 0.02,
                op_spread: 0.02,
                op_deviation_ns: Nanos(0),
                variation: Variation::default(),
                channel_bytes_per_second: 400_000_000,
                command_ns: Nanos(200),
                status_ns: Nanos(100),
                suspend_ns: None,
                suspend_erase_ns: Nanos::ZERO,
                resume_ns: Nanos::ZERO,
            },
            endurance: None,
            faults: Faults::default(),
            store,
            metadata_bytes: 0,
            save_bytes: 0,
            keep: Keep::default(),
            integrity: Default::default(),
            seed: 7,
        },
        ftl: FtlConfig {
            map: Map::Page,
            over_provisioning: 0.3,
            capacity_bytes: None,
            victim: Victim::Greedy,
            placement: Placement::ChannelFirst,
            separation: Separation::GcCopies,
            gc_low_blocks: 2,
            gc_high_blocks: 3,
            gc_pacing: false,
            gc_parallel: 8,
            copyback: false,
            wear: WearLevelling { dynamic: true, static_gap: None },
            durability: Durability::Journal { checkpoint_every: 512 },
            handles: 1,
            isolation: Isolation::Initial,
            slc_cache: None,
            cache: None,
            policies: Policies::default(),
            seed: 7,
        },
        namespaces: Vec::new(),
        host: HostInterface {
            queues: 1,
            arbitration: Arbitration::RoundRobin,
            commands_max: 64,
            in_order: false,
            dma_unit_bytes: 4096,
            link_bytes_per_second: 2_000_000_000,
            write_bytes_per_second: 0,
            dma_overhead_ns: Nanos(20),
            fetch_ns: Nanos(500),
            dma_latency_ns: Nanos(500),
            dma_request_ns: Nanos(0),
            complete_ns: Nanos(300),
            completes: Completes::Firmware,
        },
        firmware: Firmware {
            model: FirmwareModel::Tasks,
            processors: 1,
            modules: ModuleCosts::default(),
            turn: StepCost::default(),
            visit: StepCost::default(),
            poll: StepCost::default(),
            register: StepCost::default(),
            word: StepCost::default(),
            spread: 0.0,
            clock_mhz: 1000,
            fetch: StepCost { cycles: 300, fixed_ns: 0 },
            slice: StepCost { cycles: 300, fixed_ns: 0 },
            dma: StepCost::default(),
            issue: StepCost { cycles: 200, fixed_ns: 0 },
            status: StepCost::default(),
            arrival: StepCost::default(),
            complete: StepCost { cycles: 100, fixed_ns: 0 },
        },
        buffer: DataBuffer {
            entries: 64,
            read_entries: 0,
            write: WritePolicy::WriteBack,
            retain: true,
            fifo: false,
            dirty_high: 0.5,
        },
        memory: Default::default(),
        scheduler: Scheduler {
            priorities: Priorities { status_check: 1, read_trigger: 2, erase: 3, write: 4, read_transfer: 5 },
            order: DieOrder::ReadFirst,
            suspend: false,
            suspend_gap_ns: Nanos::ZERO,
            suspensions_max: None,
            page_transfers: false,
            read_retries: 3,
            refresh_above: None,
            retry_ns: Nanos::ZERO,
            queue: 0,
            drain_ns: Nanos::ZERO,
            drain_spread: 0.0,
            interconnect_bytes_per_second: 0,
            decode_ns: Nanos::from_us(1),
            solver: None,
        },
    }
}

pub fn drive(store: StoreKind) -> Device {
    Device::new(&config(store)).expect("a good configuration")
}

/// Subsystem that [`listen`] offers.
pub const NQN: &str = "nqn.2026-01.org.pellucid:chunks";

/// Creates a small drive with one open-channel namespace, with metadata for a host FTL.
pub fn chunks() -> Device {
    Device::new(&chunk_config()).expect("a good configuration")
}

/// Configuration of [`chunks`].
pub fn chunk_config() -> DeviceConfig {
    let mut config = config(StoreKind::Ram);
    config.media.metadata_bytes = 16;
    config.media.geometry.spare_bytes = 256;
    let all = 0..config.media.geometry.blocks;
    config.namespaces = vec![chunk_namespace(all, Management::Host)];
    config
}

/// Makes a server listen for NBD and for control at these `paths`, and for NVMe/TCP with the first namespace;
/// returns the NVMe/TCP address.
pub fn listen(
    server: &mut Server,
    paths: (PathBuf, PathBuf),
    port: u16,
    secrets: BTreeMap<String, HostSecrets>,
) -> SocketAddr {
    let accept = Box::new(|_, _| Ok(Box::<NbdSession>::default() as _));
    server.listen(&Address::Unix(paths.0), "nbd", accept).expect("a Unix socket");
    let subsystem = SubsystemConfig {
        nqn: NQN.into(),
        serial: "1".into(),
        model: "Chunks".into(),
        namespaces: vec![0],
        divided: None,
        hosts: None,
        secrets,
    };
    let target = Target::new(vec![subsystem]).expect("good names");
    let local = SocketAddr::from(([127, 0, 0, 1], port));
    let accept = Box::new(move |_, _| Ok(Box::new(Connection::new(&target, local)) as _));
    let bound = server.listen(&Address::Tcp(local), "nvme-tcp", accept).expect("a port");
    let stopper = server.stopper();
    let accept = Box::new(move |_, _| Ok(Box::new(ControlSession::new(stopper.for_control())) as _));
    server.listen(&Address::Unix(paths.1), CONTROL, accept).expect("a Unix socket");
    let Address::Tcp(nvme) = bound else { panic!("a TCP address") };
    nvme
}

/// Writes a line to a control socket and returns the answer.
pub fn ask_control(path: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("the control socket");
    writeln!(stream, "{line}").expect("it takes a line");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it answers");
    answer
}

/// An open-channel namespace of these blocks, without limits.
pub fn chunk_namespace(blocks: std::ops::Range<u32>, management: Management) -> Namespace {
    Namespace::OpenChannel {
        chunks: ChunkConfig {
            blocks,
            management,
            write_optimal_superpages: 1,
            cached_superpages: 0,
            open_max: 0,
            open_per_unit_max: 0,
            failure: WriteFailure::CloseChunk,
            rated_erases: 3000,
        },
        feedback: Feedback {
            unwritten_is_error: false,
            copyback: false,
            high_ecc: false,
            very_high_ecc: false,
            high_ecc_bits: 8,
            very_high_ecc_bits: 16,
            wear_gap: 0,
        },
    }
}

/// Creates a drive with data placement and with chunks: namespaces 1 and 2 of one drive.
pub fn drive_of_sets() -> Device {
    drive_of_sets_with(Vec::new(), Management::Host)
}

/// Creates that drive with failing operations, and with its chunks managed by the host or by the drive.
pub fn drive_of_sets_with(faults: Vec<ListedFault>, management: Management) -> Device {
    let mut config = config(StoreKind::Ram);
    config.media.faults.list = faults;
    config.ftl.handles = 3;
    config.media.metadata_bytes = 16;
    config.media.geometry.spare_bytes = 256;
    let blocks = config.media.geometry.blocks;
    config.ftl.over_provisioning = 1.0;
    config.namespaces =
        vec![Namespace::Block { blocks: 0..blocks / 2 }, chunk_namespace(blocks / 2..blocks, management)];
    Device::new(&config).expect("a good configuration")
}

/// Creates a zoned drive with four zones of two dies each.
pub fn drive_of_zones() -> Device {
    let mut config = config(StoreKind::Ram);
    config.media.metadata_bytes = 16;
    config.media.geometry.spare_bytes = 256;
    config.media.geometry.blocks = 6;
    config.namespaces = vec![Namespace::Zoned {
        zones: ZoneConfig { dies_per_zone: 2, open_max: 3, active_max: 4, ..zones(0..6) },
    }];
    Device::new(&config).expect("a good configuration")
}

/// Zones of these blocks on one die each, of which eight may be active.
pub fn zones(blocks: std::ops::Range<u32>) -> ZoneConfig {
    ZoneConfig {
        blocks,
        spare_blocks: 4,
        dies_per_zone: 1,
        open_max: 0,
        active_max: 8,
        append_max_sectors: 16,
        stage_superpages: 12,
        protected: false,
    }
}

/// A server in its own thread.
pub struct Served {
    pub nbd: SocketAddr,
    pub unix: PathBuf,
    pub control: PathBuf,
    pub stopper: Stopper,
    thread: Option<JoinHandle<Vec<Device>>>,
}

/// Creates a directory private to a test.
pub fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pellucid-serve-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a temporary directory");
    path
}

pub fn serve(name: &str, drives: Vec<(String, Device)>, time: Time) -> Served {
    serve_observed(name, drives, time, None, Options::default())
}

pub fn serve_observed(
    name: &str,
    drives: Vec<(String, Device)>,
    time: Time,
    observer: Option<Box<dyn Observer + Send>>,
    options: Options,
) -> Served {
    serve_logged(name, drives, time, (observer, Arc::default()), options)
}

/// Starts a server with an observer, and with access to its log.
pub fn serve_watched(
    name: &str,
    drives: Vec<(String, Device)>,
    time: Time,
    observer: Box<dyn Observer + Send>,
) -> (Served, Arc<Mutex<String>>) {
    let log = Arc::<Mutex<String>>::default();
    (serve_logged(name, drives, time, (Some(observer), log.clone()), Options::default()), log)
}

fn serve_logged(
    name: &str,
    drives: Vec<(String, Device)>,
    time: Time,
    (observer, log): (Option<Box<dyn Observer + Send>>, Arc<Mutex<String>>),
    options: Options,
) -> Served {
    let directory = scratch(name);
    let (unix, control) = (directory.join("nbd"), directory.join("control"));
    let paths = (unix.clone(), control.clone());
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut core = Core::new(drives, time).expect("drives that can be served");
        if let Some(observer) = observer {
            core.observe(observer);
        }
        let log = move |event: &Event| {
            let mut log = log.lock().expect("a log");
            *log += &format!("{event}\n");
        };
        let mut server = Server::new(core, options, Box::new(log)).expect("an event queue");
        let accept = || Box::new(|_, _| Ok(Box::<NbdSession>::default() as _));
        let tcp = server.listen(&"127.0.0.1:0".parse().expect("an address"), "nbd", accept());
        server.listen(&Address::Unix(paths.0), "nbd", accept()).expect("a Unix socket");
        let stopper = server.stopper();
        let accept = Box::new(move |_, _| Ok(Box::new(ControlSession::new(stopper.for_control())) as _));
        server.listen(&Address::Unix(paths.1), CONTROL, accept).expect("a Unix socket");
        tell.send((tcp.expect("a port"), server.stopper())).expect("somebody listens");
        server.run().expect("a good end").into_devices()
    });
    let (address, stopper) = told.recv().expect("the server starts");
    let Address::Tcp(nbd) = address else { panic!("a TCP address") };
    Served { nbd, unix, control, stopper, thread: Some(thread) }
}

impl Served {
    /// Stops the server and returns its drives.
    pub fn stop(mut self) -> Vec<Device> {
        self.stopper.stop();
        self.thread.take().expect("stopped once").join().expect("the server does not panic")
    }

    /// Sends a request to the control socket and returns the answer.
    pub fn control(&self, line: &str) -> String {
        ask_control(&self.control, line)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stopper.stop();
            let _ = thread.join();
        }
    }
}

pub trait Transport: Read + Write + Send {}
impl<T: Read + Write + Send> Transport for T {}

/// A blocking NBD client.
pub struct Client {
    pub stream: Box<dyn Transport>,
    pub size_bytes: u64,
    pub flags: u16,
    pub structured: bool,
    decoder: ReplyDecoder,
    input: Vec<u8>,
    cookie: u64,
}

/// A complete reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    /// The reply is structured.
    pub structured: bool,
    pub data: Vec<u8>,
    pub extents: Vec<Extent>,
}

impl Client {
    pub fn tcp(served: &Served, export: &str) -> Client {
        let stream = TcpStream::connect(served.nbd).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a TCP option");
        Client::begin(Box::new(stream), export, true)
    }

    pub fn begin(mut stream: Box<dyn Transport>, export: &str, structured: bool) -> Client {
        let mut handshake = ClientHandshake::default();
        let mut out = encode_client_flags(true).to_vec();
        if structured {
            encode_option(OptionKind::StructuredReply, &[], &mut out);
            let contexts = MetaContextRequest::encode(export, &["base:allocation"]);
            encode_option(OptionKind::SetMetaContext, &contexts, &mut out);
        }
        encode_option(OptionKind::Go, &InfoRequest::encode(export, &[]), &mut out);
        stream.write_all(&out).expect("the server takes options");
        let (mut size, mut export_flags, mut done) = (0, 0, false);
        let mut input: Vec<u8> = Vec::new();
        while !done {
            read_some(&mut *stream, &mut input);
            let mut rest = &input[..];
            while !done {
                let Some(event) = handshake.decode(&mut rest).expect("a good handshake") else { break };
                let ClientHandshakeEvent::Reply { option, reply } = event else { continue };
                match reply {
                    OptionReply::Error { error, message } => panic!("option {option}: {error:?} {message}"),
                    OptionReply::Info(Info::Export { size_bytes, flags }) => {
                        (size, export_flags) = (size_bytes, flags)
                    }
                    OptionReply::Ack => done = option == OptionKind::Go.raw(),
                    _ => {}
                }
            }
            input = rest.to_vec();
        }
        let decoder = ReplyDecoder::new(64 << 20);
        Client { stream, size_bytes: size, flags: export_flags, structured, decoder, input, cookie: 0 }
    }

    /// Sends a request; returns its cookie.
    pub fn send(&mut self, command: Command, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.cookie += 1;
        let request = Request {
            flags,
            command: command.raw(),
            cookie: self.cookie,
            offset_bytes: offset,
            length_bytes: length,
        };
        let mut out = request.encode().to_vec();
        out.extend(data);
        self.stream.write_all(&out).expect("the server takes requests");
        self.cookie
    }

    /// Receives the next reply. `length` gives the length of a read, which simple replies need; otherwise 0.
    pub fn reply(&mut self, length: impl Fn(u64) -> u32) -> Reply {
        let mut reply = Reply::default();
        loop {
            let input = std::mem::take(&mut self.input);
            let mut rest = &input[..];
            let mut complete = false;
            while !complete {
                let mut expect = 0;
                match self.decoder.decode(&mut rest).expect("a good reply") {
                    None => break,
                    Some(ReplyEvent::Simple { cookie, error }) => {
                        (reply.cookie, reply.error) = (cookie, error);
                        expect = if error == 0 { length(cookie) } else { 0 };
                        complete = expect == 0;
                    }
                    Some(ReplyEvent::Chunk { cookie, done, chunk }) => {
                        (reply.cookie, reply.structured) = (cookie, true);
                        match chunk {
                            Chunk::Error { error, .. } => reply.error = error,
                            Chunk::BlockStatus { .. } => reply.extents = chunk.extents().collect(),
                            _ => {}
                        }
                        // This server's answers have one chunk each; one with data ends with its data.
                        assert!(done, "an answer in one chunk");
                        complete = !matches!(chunk, Chunk::OffsetData { .. });
                    }
                    Some(ReplyEvent::Data { bytes, .. }) => reply.data.extend(bytes),
                    Some(ReplyEvent::End) => complete = true,
                }
                self.decoder.expect_data(expect);
            }
            self.input = rest.to_vec();
            if complete {
                return reply;
            }
            read_some(&mut *self.stream, &mut self.input);
        }
    }

    /// Sends one request and receives its reply.
    pub fn ask(&mut self, command: Command, flags: u16, offset: u64, length: u32, data: &[u8]) -> Reply {
        let cookie = self.send(command, flags, offset, length, data);
        let reply = self.reply(|_| if command == Command::Read { length } else { 0 });
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.ask(Command::Read, 0, offset, length, &[]);
        assert_eq!(reply.error, 0, "read of {length} at {offset}");
        reply.data
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let reply = self.ask(Command::Write, 0, offset, data.len() as u32, data);
        assert_eq!(reply.error, 0, "write of {} at {offset}", data.len());
    }

    pub fn flush(&mut self) {
        assert_eq!(self.ask(Command::Flush, 0, 0, 0, &[]).error, 0, "flush");
    }

    pub fn leave(mut self) {
        self.send(Command::Disconnect, 0, 0, 0, &[]);
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the server closes");
        assert!(rest.is_empty(), "nothing after the end");
    }
}

/// Reads available bytes, at least one.
pub fn read_some(stream: &mut dyn Transport, input: &mut Vec<u8>) {
    let mut bytes = [0; 1 << 16];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => panic!("the server closed the connection"),
            Ok(count) => return input.extend(&bytes[..count]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// Bytes that distinguish sectors and versions.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = pellucid_flash::Rng::new(seed);
    (0..length / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}
