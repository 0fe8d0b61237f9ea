//! Whole sessions: whatever a peer says on a connection, to a real drive, over NBD or NVMe/TCP.
//!
//! Byte 0 chooses protocol, queue, and whether the connection is set up already and the content framed as commands; byte 1 is
//! the length of the pieces in which the bytes arrive. However it ends: the drive has nothing left to do, the connection
//! holds no memory in it, and another connection is served as before.

use pellucid_device::Device;
use pellucid_serve::{Core, Operated, Time};
use pellucid_target::connection::ConnectionId;
use pellucid_target::nbd::NbdSession;
use pellucid_target::nvme::{Connection, SharedTarget, SubsystemConfig, Target};
use pellucid_target::session::{BYTES_MAX, Load, Port, Session};
use pellucid_target::{Output, Service};
use pellucid_wire::nbd::{Command, OptionKind, Request, encode_client_flags, encode_option};
use pellucid_wire::nvme::{
    Connect, ConnectData, DYNAMIC_CONTROLLER, PropertySet, SglDescriptor, SubmissionEntry, nqn,
};
use pellucid_wire::tcp::{Encoder, HEADER_BYTES_MAX, IcReq, Terms, encode_ic_req};
use std::sync::OnceLock;

const NQN: &str = "nqn.2026-01.org.pellucid:fuzz";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
const DRIVE: &str = "drive.preset = \"jasmine\"\ndrive.media.channels = 1\ndrive.media.ways = 2\n\
    drive.media.blocks = 16\ndrive.media.pages = 8\ndrive.media.store = \"ram\"\n\
    drive.ftl.durability = \"journal\"\ndrive.ftl.over_provisioning = 0.4\n";
/// The greeting, the answer to EXPORT_NAME, and to a read of one sector.
const WITNESS_BYTES: usize = 18 + 10 + 16 + 512;
const TURNS_MAX: u32 = 100_000;

/// One input.
pub fn run(bytes: &[u8]) {
    let [choice, piece, content @ ..] = bytes else { return };
    let mut world = World::new();
    let mut witness = world.open(Box::<NbdSession>::default());
    let mut peer = if choice & 1 == 0 { nbd(&mut world, *choice) } else { nvme(&mut world, *choice) };
    let content = if choice & 9 == 9 { framed(content) } else { content.to_vec() };
    for piece in content.chunks(usize::from(*piece) * 8 + 1) {
        world.say(&mut peer, piece);
    }
    // No tick resets this count here.
    peer.load.moved = 0;
    assert_eq!((world.core.outstanding(), peer.load), (0, Load::default()));
    world.close(&mut peer);
    let read =
        Request { flags: 0, command: Command::Read as u16, cookie: 1, offset_bytes: 0, length_bytes: 512 };
    world.say(&mut witness, &[nbd_set_up(), read.encode().to_vec()].concat());
    assert_eq!(witness.heard, WITNESS_BYTES, "the other connection");
    world.close(&mut witness);
}

/// One connection without a socket.
struct Link {
    id: ConnectionId,
    session: Box<dyn Session>,
    load: Load,
    output: Output,
    open: bool,
    heard: usize,
}

struct World {
    core: Core,
    target: SharedTarget,
    links: u64,
}

impl World {
    fn new() -> World {
        static FRESH: OnceLock<Device> = OnceLock::new();
        let fresh = FRESH.get_or_init(|| {
            let spec = pellucid_spec::from_str(DRIVE, "fuzz", &[]).expect("a good description");
            Device::new(&spec.drive).expect("a good drive")
        });
        let core = Core::new(vec![("fuzz".into(), fresh.clone())], Time::Instant).expect("it can be served");
        let subsystem = SubsystemConfig {
            nqn: NQN.into(),
            serial: "SN1".into(),
            model: "fuzz".into(),
            namespaces: vec![0],
            divided: None,
            hosts: None,
            secrets: Default::default(),
        };
        World { core, target: Target::new(vec![subsystem]).expect("good names"), links: 0 }
    }

    fn open(&mut self, session: Box<dyn Session>) -> Link {
        self.links += 1;
        let id = ConnectionId::new(self.links);
        let mut link =
            Link { id, session, load: Load::default(), output: Output::default(), open: true, heard: 0 };
        self.with(&mut link, |session, port| session.opened(port));
        link
    }

    fn with<R>(&mut self, link: &mut Link, act: impl FnOnce(&mut dyn Session, &mut Port<'_>) -> R) -> R {
        act(&mut *link.session, &mut Port::new(self.core.face(), link.id, &mut link.load, &mut link.output))
    }

    /// Bytes arrive; what follows from them happens. A session that holds back is asked again when the drive is done.
    fn say(&mut self, link: &mut Link, bytes: &[u8]) {
        let mut input = bytes;
        for _ in 0..TURNS_MAX {
            if !link.open {
                return;
            }
            link.open = self.with(link, |session, port| session.receive(&mut input, port)).is_ok();
            let held = link.load.bytes + link.output.bytes();
            assert!(held <= 2 * BYTES_MAX, "{held} bytes held");
            self.settle(link);
            if input.is_empty() {
                return;
            }
        }
        panic!("the session takes no more input, though nothing is under way");
    }

    /// The drive finishes what it has, and the peer reads what there is.
    fn settle(&mut self, link: &mut Link) {
        while self.core.outstanding() > 0 {
            self.core.run();
            while let Some(done) = self.core.pop() {
                assert_eq!(done.route.connection, link.id, "nobody else has anything under way");
                link.load.commands -= 1;
                link.load.bytes -= done.bytes;
                if link.open {
                    self.with(link, |s, port| s.completed(done.route.token, done.answer, port));
                }
            }
        }
        link.heard += link.output.take_all().len();
        let now = self.core.now_ns();
        if link.open {
            link.open = self.with(link, |session, port| session.tick(now, port)).is_ok();
        }
    }

    fn close(&mut self, link: &mut Link) {
        link.open = false;
        self.with(link, |session, port| session.closed(port));
    }
}

fn nbd_set_up() -> Vec<u8> {
    let mut bytes = encode_client_flags(true).to_vec();
    encode_option(OptionKind::ExportName, b"fuzz", &mut bytes);
    bytes
}

fn nbd(world: &mut World, choice: u8) -> Link {
    let mut link = world.open(Box::<NbdSession>::default());
    if choice & 4 == 0 {
        world.say(&mut link, &nbd_set_up());
        assert!(link.open, "a good handshake");
    }
    link
}

/// A queue: the admin queue of an enabled controller, or an I/O queue of it.
fn nvme(world: &mut World, choice: u8) -> Link {
    let target = world.target.clone();
    let dial = |world: &mut World, queue_id, controller_id| {
        let mut link = world.open(Box::new(Connection::new(&target, ([127, 0, 0, 1], 4420).into())));
        let names = (nqn(NQN).expect("a name"), nqn(HOST).expect("a name"));
        let data = ConnectData { host_id: [7; 16], controller_id, subsystem_nqn: names.0, host_nqn: names.1 };
        let connect = Connect { queue_id, queue_entries: 32, attributes: 0, keep_alive_ms: 0 };
        world.say(&mut link, &encode_ic_req(&IcReq::default()));
        world.say(&mut link, &capsule(&connect.entry(0), &data.encode()));
        assert!(link.open, "a good connection");
        link
    };
    if choice & 4 != 0 {
        return world.open(Box::new(Connection::new(&target, ([127, 0, 0, 1], 4420).into())));
    }
    let mut admin = dial(world, 0, DYNAMIC_CONTROLLER);
    let enable = PropertySet { is_8_bytes: false, offset: 0x14, value: 0x0046_0001 };
    world.say(&mut admin, &capsule(&enable.entry(0), &[]));
    // The controller lives as long as its admin connection, which is never closed here.
    if choice & 2 == 0 { admin } else { dial(world, 1, 1) }
}

fn capsule(entry: &SubmissionEntry, data: &[u8]) -> Vec<u8> {
    let mut out = [0; HEADER_BYTES_MAX];
    let length = Encoder::host(&Terms::default()).command(entry, data.len() as u32, &mut out);
    [&out[..length], data].concat()
}

/// Commands instead of bytes: each takes 24 bytes of the content.
fn framed(content: &[u8]) -> Vec<u8> {
    let command = |(n, c): (usize, &[u8])| {
        let word = |at: usize| u32::from_le_bytes([c[at], c[at + 1], c[at + 2], c[at + 3]]);
        let data = vec![c[2]; usize::from(c[3] % 9) * 512];
        let entry = SubmissionEntry::new(c[0], n as u16, u32::from(c[1] % 4))
            .with_cdw_pair(10, u64::from(word(4)) | u64::from(word(8)) << 32)
            .with_cdw(12, word(12))
            .with_cdw(13, word(16));
        let entry = match c[3] / 64 {
            0 => entry.with_sgl(SglDescriptor::transport(word(20))),
            1 => entry.with_sgl(SglDescriptor::transport(word(20) % 65536)),
            _ => entry.with_sgl(SglDescriptor::in_capsule(0, data.len() as u32)),
        };
        capsule(&entry, &data)
    };
    content.chunks_exact(24).enumerate().flat_map(command).collect()
}
