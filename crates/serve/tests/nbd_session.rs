//! The NBD session without sockets: what it says of a drive, and how much it does at once.

use crate::common::{config, pattern};
use pellucid_device::Device;
use pellucid_media::StoreKind;
use pellucid_serve::nbd::NbdSession;
use pellucid_serve::session::{ConnectionId, Load, Port, Session};
use pellucid_serve::{Core, Output, Service, Time};
use pellucid_wire::nbd::{
    Chunk, ClientHandshake, ClientHandshakeEvent, Command, Extent, Info, InfoRequest, MetaContextRequest,
    OptionKind, OptionReply, ReplyDecoder, ReplyEvent, Request, allocation, encode_client_flags,
    encode_option,
};

/// A session that has begun transmission, and its client's end.
struct Alone {
    core: Core,
    session: NbdSession,
    load: Load,
    output: Output,
    decoder: ReplyDecoder,
    /// Minimum, preferred and maximum.
    sizes: [u32; 3],
}

impl Alone {
    fn new(device: Device) -> Alone {
        let core = Core::new(vec![("one".into(), device)], Time::Instant).expect("a drive to serve");
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
        let mut port = Port::new(&mut self.core, ConnectionId::new(1), &mut self.load, &mut self.output);
        work(&mut self.session, &mut port)
    }

    /// Gives the session input once; how much of it is left.
    fn receive(&mut self, input: &[u8]) -> usize {
        let mut rest = input;
        self.with(|session, port| session.receive(&mut rest, port)).expect("good input");
        rest.len()
    }

    /// Lets the drive do what it was asked for.
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

    /// Answers to block status, in order.
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

/// QEMU goes away when a size is no power of two; a mapping unit may be three sectors, or twelve.
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

/// Block status is answered at once, and looks at every mapping unit: nobody else is served meanwhile, so there is a limit to it.
#[test]
fn block_status_of_much_lets_others_have_their_turn() {
    const UNITS: u64 = 1 << 16;
    let mut config = config(StoreKind::Ram);
    (config.media.geometry.blocks, config.media.geometry.unit_bytes) = (256, 512);
    let mut alone = Alone::new(Device::new(&config).expect("a good configuration"));
    let bytes = alone.core.namespaces()[0].bytes();
    assert!(bytes / 512 > UNITS + 100, "more units than are looked at in a turn");
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
    // A client asks again for the rest, and requests for little are answered together.
    let rest = request(Command::BlockStatus, UNITS * 512, 8192);
    assert_eq!(alone.receive(&rest.repeat(20)), 0);
    let expected = vec![Extent { length_bytes: 4096, ..hole }, Extent { length_bytes: 4096, flags: 0 }];
    assert_eq!(alone.extents(), vec![expected; 20]);
}
