//! The NBD session without sockets: its description of a drive, and its limits on work at once.

use crate::common::{config, drive, pattern, scratch};
use pellucid_device::Device;
use pellucid_media::StoreKind;
use pellucid_serve::{Core, FileConfig, FileDrive, Operated, Served, Time};
use pellucid_target::Drives;
use pellucid_target::Output;
use pellucid_target::connection::ConnectionId;
use pellucid_target::nbd::NbdSession;
use pellucid_target::session::{AT_ONCE_BYTES, Load, Port, Session};
use pellucid_wire::nbd::{
    Chunk, ClientHandshake, ClientHandshakeEvent, Command, Extent, Info, InfoRequest, MetaContextRequest,
    OptionKind, OptionReply, ReplyDecoder, ReplyEvent, Request, allocation, encode_client_flags,
    encode_option,
};

/// A session in transmission, with its client's end.
struct Alone {
    core: Core,
    session: NbdSession,
    load: Load,
    output: Output,
    decoder: ReplyDecoder,
    /// Minimum, preferred and maximum sizes.
    sizes: [u32; 3],
}

impl Alone {
    fn new(drive: impl Into<Served>) -> Alone {
        let core = Core::new(vec![("one".into(), drive)], Time::Instant).expect("a drive to serve");
        let mut alone = Alone {
            core,
            session: NbdSession::default(),
            load: Load::default(),
            output: Output::default(),
            decoder: ReplyDecoder::new(64 << 20),
            sizes: [0; 3],
        };
        let mut input = encode_client_flags(true).to_vec();
        encode_option(OptionKind::StructuredReply, &[], &mut input);
        let contexts = MetaContextRequest::encode("one", &["base:allocation"]);
        encode_option(OptionKind::SetMetaContext, &contexts, &mut input);
        encode_option(OptionKind::Go, &InfoRequest::encode("one", &[]), &mut input);
        alone.with(|session, port| session.opened(port));
        assert_eq!(alone.receive(&input), 0, "all is taken");
        let (mut handshake, answers) = (ClientHandshake::default(), alone.output.take_all());
        let mut rest = &answers[..];
        while let Some(event) = handshake.decode(&mut rest).expect("good answers") {
            if let ClientHandshakeEvent::Reply {
                reply: OptionReply::Info(Info::BlockSize { minimum_bytes, preferred_bytes, maximum_bytes }),
                ..
            } = event
            {
                alone.sizes = [minimum_bytes, preferred_bytes, maximum_bytes];
            }
        }
        alone
    }

    fn with<R>(&mut self, work: impl FnOnce(&mut NbdSession, &mut Port<'_>) -> R) -> R {
        let mut port = Port::new(self.core.face(), ConnectionId::new(1), &mut self.load, &mut self.output);
        work(&mut self.session, &mut port)
    }

    /// Passes input to the session once; returns how many bytes are left.
    fn receive(&mut self, input: &[u8]) -> usize {
        let mut rest = input;
        self.with(|session, port| session.receive(&mut rest, port)).expect("good input");
        rest.len()
    }

    /// Runs the drive until it is idle.
    fn run(&mut self) {
        while self.core.outstanding() > 0 {
            self.core.run();
            while let Some(done) = self.core.pop() {
                self.load.commands -= 1;
                self.load.bytes -= done.bytes;
                self.with(|session, port| session.completed(done.route.token, done.answer, port));
            }
        }
    }

    /// Parses the replies to block status, in order.
    fn extents(&mut self) -> Vec<Vec<Extent>> {
        let bytes = self.output.take_all();
        let (mut rest, mut answers) = (&bytes[..], Vec::new());
        while let Some(event) = self.decoder.decode(&mut rest).expect("good answers") {
            if let ReplyEvent::Chunk { chunk: chunk @ Chunk::BlockStatus { .. }, .. } = event {
                answers.push(chunk.extents().collect());
            }
        }
        answers
    }
}

fn request(command: Command, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let request = Request { flags: 0, command: command.raw(), cookie: 7, offset_bytes, length_bytes };
    request.encode().to_vec()
}

/// QEMU disconnects if a size is no power of two; a mapping unit may be three sectors, or twelve.
#[test]
fn sizes_are_powers_of_two_whatever_the_mapping_unit() {
    for (page_bytes, unit_bytes, preferred) in
        [(4096, 4096, 4096), (6144, 6144, 4096), (1536 * 8, 1536, 4096), (3 << 13, 3 << 13, 1 << 13)]
    {
        let mut config = config(StoreKind::Ram);
        (config.media.geometry.page_bytes, config.media.geometry.unit_bytes) = (page_bytes, unit_bytes);
        let alone = Alone::new(Device::new(&config).expect("a good configuration"));
        assert_eq!(alone.sizes, [512, preferred, 32 << 20], "unit of {unit_bytes}");
    }
}

/// A drive with more mapping units than one turn of block status looks up, all in regions that were written
/// once.
fn touched(units: u64) -> Alone {
    let mut config = config(StoreKind::Ram);
    (config.media.geometry.blocks, config.media.geometry.unit_bytes) = (256, 512);
    let mut alone = Alone::new(Device::new(&config).expect("a good configuration"));
    let bytes = alone.core.namespaces()[0].bytes();
    assert!(bytes / 512 > units + 100, "more units than are looked at in a turn");
    for at in (0..bytes - 512).step_by(4096 * 512) {
        for request in [
            [request(Command::Write, at, 512), pattern(1, 512)].concat(),
            request(Command::Flush, 0, 0),
            request(Command::Trim, at, 512),
        ] {
            assert_eq!(alone.receive(&request), 0);
            alone.run();
        }
    }
    alone
}

/// Block status is answered at once and may look up every mapping unit. Others are not served meanwhile, so
/// it is limited.
#[test]
fn block_status_of_much_lets_others_have_their_turn() {
    const UNITS: u64 = 1 << 16;
    let mut alone = touched(UNITS);
    let bytes = alone.core.namespaces()[0].bytes();
    let data = pattern(1, 4096);
    let place = (UNITS + 8) * 512;
    assert_eq!(alone.receive(&[request(Command::Write, place, 4096), data].concat()), 0);
    alone.run();
    alone.output.take_all();
    let status = request(Command::BlockStatus, 0, bytes as u32);
    let three = status.repeat(3);
    assert_eq!(alone.receive(&three), 2 * status.len(), "one in a turn");
    assert_eq!(alone.receive(&three[status.len()..]), status.len());
    assert_eq!(alone.receive(&status), 0);
    let hole = Extent { length_bytes: UNITS as u32 * 512, flags: allocation::HOLE | allocation::ZERO };
    assert_eq!(alone.extents(), vec![vec![hole]; 3], "the beginning of what was asked for");
    // A client asks again for the rest, and small requests are answered together.
    let rest = request(Command::BlockStatus, UNITS * 512, 8192);
    assert_eq!(alone.receive(&rest.repeat(20)), 0);
    let expected = vec![Extent { length_bytes: 4096, ..hole }, Extent { length_bytes: 4096, flags: 0 }];
    assert_eq!(alone.extents(), vec![expected; 20]);
}

const HOLE: u32 = allocation::HOLE | allocation::ZERO;

/// A nearly empty drive of 2 TiB is reported in a few extents, even for the longest request.
#[test]
fn block_status_of_what_was_never_written_comes_in_large_extents() {
    const GIB: u64 = 1 << 30;
    let mut config = config(StoreKind::Ram);
    let geometry = &mut config.media.geometry;
    (geometry.page_bytes, geometry.unit_bytes, geometry.spare_bytes) = (16 << 10, 16 << 10, 256);
    (geometry.pages, geometry.blocks) = (1024, 32 << 10);
    let mut alone = Alone::new(Device::new(&config).expect("a good configuration"));
    assert!(alone.core.namespaces()[0].bytes() > 1024 * GIB);
    for at in [0, 5 * GIB] {
        assert_eq!(alone.receive(&[request(Command::Write, at, 16 << 10), pattern(1, 16 << 10)].concat()), 0);
    }
    alone.run();
    alone.output.take_all();
    let most = u32::MAX - 511;
    for place in [8 * GIB, 100 * GIB, 1000 * GIB] {
        assert_eq!(alone.receive(&request(Command::BlockStatus, place, most)), 0);
        assert_eq!(alone.extents(), vec![vec![Extent { length_bytes: most, flags: HOLE }]], "{place}");
    }
    assert_eq!(alone.receive(&request(Command::BlockStatus, 4 * GIB, 2 * GIB as u32)), 0);
    let found = alone.extents().remove(0);
    let length = |bytes: u64| bytes as u32;
    let expected = [(length(GIB), HOLE), (16 << 10, 0), (length(GIB) - (16 << 10), HOLE)];
    assert_eq!(found.iter().map(|e| (e.length_bytes, e.flags)).collect::<Vec<_>>(), expected);
}

/// A sparse file reports its holes, including those that a trim made.
#[test]
fn block_status_of_a_file_shows_its_holes() {
    const MIB: u32 = 1 << 20;
    let path = scratch("nbd-file-holes").join("sparse.img");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let config = FileConfig { size_bytes: Some(1 << 40), ..FileConfig::new(&path) };
    let mut alone = Alone::new(FileDrive::open(&config).expect("a file drive"));
    let mut ask = |requests: &[u8]| {
        assert_eq!(alone.receive(requests), 0);
        alone.run();
        let extents = alone.extents();
        extents.into_iter().flatten().map(|e| (e.length_bytes, e.flags)).collect::<Vec<_>>()
    };
    let status = request(Command::BlockStatus, 0, u32::MAX - 4095);
    assert_eq!(ask(&status), [(u32::MAX - 4095, HOLE)]);
    let place = 1 << 30;
    assert_eq!(ask(&[request(Command::Write, place, MIB), pattern(1, MIB as usize)].concat()), []);
    let behind = u32::MAX - 4095 - (1 << 30) - MIB;
    assert_eq!(ask(&status), [(1 << 30, HOLE), (MIB, 0), (behind, HOLE)]);
    assert_eq!(ask(&request(Command::Trim, place, MIB)), []);
    assert_eq!(ask(&status), [(u32::MAX - 4095, HOLE)]);
}

/// A connection that requests much in one go is served bit by bit, so that others get their turns in between.
#[test]
fn requests_for_much_are_taken_in_turns() {
    let mut alone = Alone::new(drive(StoreKind::Ram));
    let read = request(Command::Read, 0, 64 << 10);
    let asked = read.repeat(100);
    let at_once = AT_ONCE_BYTES / (64 << 10);
    let left = alone.receive(&asked);
    assert_eq!(left, (100 - at_once) * read.len());
    assert_eq!(alone.receive(&asked[asked.len() - left..]), (100 - 2 * at_once) * read.len());
    // Small requests count too.
    let trims = request(Command::Trim, 0, 4096).repeat(1000);
    let left = alone.receive(&trims);
    assert_eq!(left, (1000 - AT_ONCE_BYTES / 4096) * read.len());
    alone.run();
}
