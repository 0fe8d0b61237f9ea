//! NBD: golden bytes, both ends against each other, fragmentation, refusals, arbitrary input.

use pellucid_wire::nbd::{
    Chunk, ClientHandshake, ClientHandshakeEvent, Command, Errno, Export, Extent, Info, InfoKind,
    InfoRequest, MetaContextRequest, NbdError, OPTION_BYTES_MAX, OPTION_SKIP_MAX, OptionKind, OptionRefusal,
    OptionReply, OptionRequest, ReplyDecoder, ReplyError, ReplyEvent, Request, RequestDecoder, RequestEvent,
    ServerHandshake, ServerHandshakeEvent, command_flag, encode_block_status, encode_client_flags,
    encode_error_chunk, encode_export_name_reply, encode_greeting, encode_none, encode_offset_data,
    encode_offset_hole, encode_option, encode_simple_reply, transmission_flag,
};
use proptest::prelude::*;

/// Events of a server's handshake, described; borrowed contents are formatted.
fn options(decoder: &mut ServerHandshake, mut input: &[u8], seen: &mut Vec<String>) -> Result<(), NbdError> {
    while let Some(event) = decoder.decode(&mut input)? {
        seen.push(match event {
            ServerHandshakeEvent::Option(OptionRequest::SetMetaContext(request)) => {
                format!("set {} {:?}", request.name, request.queries().collect::<Vec<_>>())
            }
            ServerHandshakeEvent::Option(OptionRequest::Go(request)) => {
                format!("go {} {:?}", request.name, request.kinds().collect::<Vec<_>>())
            }
            event => format!("{event:?}"),
        });
    }
    assert!(input.is_empty());
    Ok(())
}

fn option(kind: OptionKind, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_option(kind, data, &mut bytes);
    bytes
}

fn handshake_stream() -> Vec<u8> {
    [
        encode_client_flags(true).to_vec(),
        option(OptionKind::List, &[]),
        option(OptionKind::StructuredReply, &[]),
        option(OptionKind::ExtendedHeaders, &[]),
        option(OptionKind::SetMetaContext, &MetaContextRequest::encode("disk", &["base:allocation", "x:y"])),
        option(OptionKind::Go, &InfoRequest::encode("disk", &[InfoKind::BlockSize, InfoKind::Name])),
        option(OptionKind::ExportName, b"old"),
    ]
    .concat()
}

#[test]
fn the_handshake_has_the_bytes_of_the_specification() {
    assert_eq!(encode_greeting(), *b"NBDMAGICIHAVEOPT\x00\x03");
    assert_eq!(encode_client_flags(true), [0, 0, 0, 3]);
    let go = option(OptionKind::Go, &InfoRequest::encode("a", &[InfoKind::BlockSize]));
    assert_eq!(go, b"IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x09\x00\x00\x00\x01a\x00\x01\x00\x03");
    let mut reply = Vec::new();
    let info = Info::Export { size_bytes: 0x1_0000, flags: transmission_flag::HAS_FLAGS };
    OptionReply::Info(info).encode(7, &mut reply);
    let golden = b"\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x0c\
        \x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01";
    assert_eq!(reply, golden);
    let mut export = Vec::new();
    encode_export_name_reply(512, 1, false, &mut export);
    assert_eq!(export.len(), 134);
    assert_eq!(export[..10], [0, 0, 0, 0, 0, 0, 2, 0, 0, 1]);
}

#[test]
fn transmission_has_the_bytes_of_the_specification() {
    let request = Request { flags: 1, command: 1, cookie: 0x0102, offset_bytes: 512, length_bytes: 0x1000 };
    let golden = b"\x25\x60\x95\x13\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x01\x02\
        \x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x10\x00";
    assert_eq!(request.encode(), *golden);
    let golden = b"\x67\x44\x66\x98\x00\x00\x00\x1c\x00\x00\x00\x00\x00\x00\x00\x09";
    assert_eq!(encode_simple_reply(9, Some(Errno::NoSpace)), *golden);
    let golden = b"\x66\x8e\x33\xef\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x02\x08\
        \x00\x00\x00\x00\x00\x00\x10\x00";
    assert_eq!(encode_offset_data(9, true, 4096, 512), *golden);
    let mut error = Vec::new();
    encode_error_chunk(1, true, Errno::Io, Some(7), "no", &mut error);
    let golden = b"\x66\x8e\x33\xef\x00\x01\x80\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x10\
        \x00\x00\x00\x05\x00\x02no\x00\x00\x00\x00\x00\x00\x00\x07";
    assert_eq!(error, golden);
}

#[test]
fn a_handshake_cut_at_any_byte_gives_the_same_events() {
    let stream = handshake_stream();
    let mut expected = Vec::new();
    options(&mut ServerHandshake::default(), &stream, &mut expected).expect("valid");
    assert_eq!(expected.len(), 7);
    assert_eq!(expected[0], "ClientFlags { fixed: true, no_zeroes: true }");
    assert!(expected[3].contains("Refused") && expected[3].contains("option: 11"), "{}", expected[3]);
    assert_eq!(expected[4], "set disk [\"base:allocation\", \"x:y\"]");
    assert_eq!(expected[5], "go disk [3, 1]");
    assert_eq!(expected[6], "Option(ExportName(\"old\"))");
    for cut in 0..=stream.len() {
        let (mut decoder, mut seen) = (ServerHandshake::default(), Vec::new());
        options(&mut decoder, &stream[..cut], &mut seen).expect("valid");
        options(&mut decoder, &stream[cut..], &mut seen).expect("valid");
        assert_eq!(seen, expected, "cut at {cut}");
    }
}

#[test]
fn malformed_options_are_refused_and_the_next_is_understood() {
    let refused = |bytes: Vec<u8>, option: u32, error: ReplyError| {
        let stream = [bytes, self::option(OptionKind::List, &[])].concat();
        let (mut decoder, mut input) = (ServerHandshake::after_tls(), &stream[..]);
        let refusal = OptionRefusal { option, error };
        assert_eq!(decoder.decode(&mut input), Ok(Some(ServerHandshakeEvent::Refused(refusal))));
        let list = ServerHandshakeEvent::Option(OptionRequest::List);
        assert_eq!(decoder.decode(&mut input), Ok(Some(list)));
    };
    refused(option(OptionKind::List, b"x"), 3, ReplyError::Invalid);
    refused(option(OptionKind::Go, &[0, 0, 0, 9, b'a']), 7, ReplyError::Invalid);
    refused(option(OptionKind::Go, &[0, 0, 0, 1, b'a', 0, 2, 0, 0]), 7, ReplyError::Invalid);
    refused(option(OptionKind::Info, &[0, 0, 0, 1, 0xFF, 0, 0]), 6, ReplyError::Invalid);
    let many_queries = [0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    refused(option(OptionKind::SetMetaContext, &many_queries), 10, ReplyError::Invalid);
    let long = vec![b'a'; OPTION_BYTES_MAX as usize + 1];
    refused(option(OptionKind::Go, &long), 7, ReplyError::TooBig);
    let mut unknown = option(OptionKind::List, &[1, 2, 3]);
    unknown[11] = 99;
    refused(unknown, 99, ReplyError::Unsupported);
}

#[test]
fn what_cannot_be_answered_ends_the_handshake() {
    let ends = |bytes: &[u8], error: NbdError| {
        let mut decoder = ServerHandshake::after_tls();
        assert_eq!(options(&mut decoder, bytes, &mut Vec::new()), Err(error));
        assert_eq!(decoder.decode(&mut &[0; 64][..]), Err(error), "the error stays");
    };
    let mut wrong = option(OptionKind::List, &[]);
    wrong[0] = 0;
    let value = u64::from_be_bytes(*b"\x00HAVEOPT");
    ends(&wrong, NbdError::Magic { what: "option", value });
    ends(&option(OptionKind::ExportName, &[0xFF]), NbdError::ExportName);
    ends(&option(OptionKind::ExportName, &[b'a'; 4097]), NbdError::ExportName);
    let mut huge = option(OptionKind::Go, &[]);
    huge[12..].copy_from_slice(&(OPTION_SKIP_MAX + 1).to_be_bytes());
    let (length_bytes, max_bytes) = (u64::from(OPTION_SKIP_MAX) + 1, u64::from(OPTION_SKIP_MAX));
    ends(&huge, NbdError::TooLong { what: "option", length_bytes, max_bytes });
    let flags = options(&mut ServerHandshake::default(), &[0, 0, 0, 4], &mut Vec::new());
    assert_eq!(flags, Err(NbdError::ClientFlags(4)));
}

#[test]
fn the_client_reads_every_reply_cut_anywhere() {
    let replies = [
        OptionReply::Server { name: "disk", details: "a drive" },
        OptionReply::Info(Info::Export { size_bytes: 1 << 40, flags: 0xFFFF }),
        OptionReply::Info(Info::Name("disk")),
        OptionReply::Info(Info::Description("text")),
        OptionReply::Info(Info::BlockSize {
            minimum_bytes: 1,
            preferred_bytes: 4096,
            maximum_bytes: 1 << 25,
        }),
        OptionReply::MetaContext { id: 5, name: "base:allocation" },
        OptionReply::Error { error: ReplyError::Unknown, message: "no such export" },
        OptionReply::Ack,
    ];
    let mut stream = encode_greeting().to_vec();
    replies.iter().for_each(|reply| reply.encode(7, &mut stream));
    for cut in 0..=stream.len() {
        let (mut client, mut index) = (ClientHandshake::default(), 0);
        for mut part in [&stream[..cut], &stream[cut..]] {
            while let Some(event) = client.decode(&mut part).expect("valid") {
                match event {
                    ClientHandshakeEvent::Reply { option, reply } => {
                        assert_eq!((option, reply), (7, replies[index - 1]));
                    }
                    other => assert_eq!(other, ClientHandshakeEvent::Greeting { no_zeroes: true }),
                }
                index += 1;
            }
        }
        assert_eq!(index, replies.len() + 1);
    }
}

#[test]
fn the_client_reads_the_answer_to_export_name() {
    for no_zeroes in [false, true] {
        let (mut client, mut answer) = (ClientHandshake::default(), Vec::new());
        client.decode(&mut &encode_greeting()[..]).expect("valid");
        client.expect_export(no_zeroes);
        encode_export_name_reply(99, 3, no_zeroes, &mut answer);
        let mut input = &answer[..];
        let expected = ClientHandshakeEvent::Export { size_bytes: 99, flags: 3 };
        assert_eq!(client.decode(&mut input), Ok(Some(expected)));
        assert!(input.is_empty());
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Request(Request),
    Data(Vec<u8>),
    End,
}

fn requests(decoder: &mut RequestDecoder, mut input: &[u8], seen: &mut Vec<Seen>) -> Result<(), NbdError> {
    while let Some(event) = decoder.decode(&mut input)? {
        match event {
            RequestEvent::Request(request) => seen.push(Seen::Request(request)),
            RequestEvent::End => seen.push(Seen::End),
            RequestEvent::Data { offset_bytes, bytes } => match seen.last_mut() {
                Some(Seen::Data(data)) => {
                    assert_eq!(data.len(), offset_bytes as usize);
                    data.extend(bytes);
                }
                _ => seen.push(Seen::Data(bytes.to_vec())),
            },
        }
    }
    assert!(input.is_empty());
    Ok(())
}

const EXPORT: Export = Export {
    size_bytes: 8192,
    flags: transmission_flag::HAS_FLAGS
        | transmission_flag::SEND_FLUSH
        | transmission_flag::SEND_FUA
        | transmission_flag::SEND_TRIM
        | transmission_flag::SEND_WRITE_ZEROES
        | transmission_flag::SEND_DF,
    structured: true,
    contexts: true,
};

#[test]
fn requests_are_checked_against_their_export() {
    let check = |command: Command, flags: u16, offset_bytes: u64, length_bytes: u32, export: &Export| {
        Request { flags, command: command.raw(), cookie: 0, offset_bytes, length_bytes }.check(export)
    };
    assert_eq!(check(Command::Read, command_flag::DF, 0, 8192, &EXPORT), Ok(Command::Read));
    assert_eq!(check(Command::Read, 0, 4096, 4097, &EXPORT), Err(Errno::Invalid));
    assert_eq!(check(Command::Write, 0, 4096, 4097, &EXPORT), Err(Errno::NoSpace));
    assert_eq!(check(Command::Write, 0, u64::MAX, 2, &EXPORT), Err(Errno::NoSpace));
    assert_eq!(check(Command::Write, command_flag::FUA, 0, 512, &EXPORT), Ok(Command::Write));
    assert_eq!(check(Command::Write, command_flag::DF, 0, 512, &EXPORT), Err(Errno::Invalid));
    assert_eq!(check(Command::WriteZeroes, command_flag::NO_HOLE, 0, 512, &EXPORT), Ok(Command::WriteZeroes));
    let fast = check(Command::WriteZeroes, command_flag::FAST_ZERO, 0, 512, &EXPORT);
    assert_eq!(fast, Err(Errno::Invalid), "not offered");
    assert_eq!(check(Command::Cache, 0, 0, 512, &EXPORT), Err(Errno::Invalid), "not offered");
    assert_eq!(check(Command::Resize, 0, 0, 512, &EXPORT), Err(Errno::Invalid));
    let one = check(Command::BlockStatus, command_flag::REQ_ONE, 0, 512, &EXPORT);
    assert_eq!(one, Ok(Command::BlockStatus));
    assert_eq!(check(Command::BlockStatus, 0, 0, 0, &EXPORT), Err(Errno::Invalid));
    let no_context = Export { contexts: false, ..EXPORT };
    assert_eq!(check(Command::BlockStatus, 0, 0, 512, &no_context), Err(Errno::Invalid));
    let simple = Export { structured: false, ..EXPORT };
    assert_eq!(check(Command::Read, command_flag::DF, 0, 512, &simple), Err(Errno::Invalid));
    let read_only = Export { flags: EXPORT.flags | transmission_flag::READ_ONLY, ..EXPORT };
    for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
        assert_eq!(check(command, 0, 0, 512, &read_only), Err(Errno::NotPermitted));
    }
    assert_eq!(check(Command::Flush, 0, 0, 0, &read_only), Ok(Command::Flush));
    assert_eq!(Request { command: 99, ..Request::default() }.check(&EXPORT), Err(Errno::Invalid));
}

#[test]
fn a_wrong_magic_or_a_long_payload_ends_transmission() {
    let mut decoder = RequestDecoder::new(4096);
    let write = Request { command: 1, length_bytes: 4097, ..Request::default() };
    let error = NbdError::TooLong { what: "payload of a write", length_bytes: 4097, max_bytes: 4096 };
    assert_eq!(decoder.decode(&mut &write.encode()[..]), Err(error));
    assert_eq!(decoder.decode(&mut &[][..]), Err(error));
    let read = Request { command: 0, length_bytes: u32::MAX, ..Request::default() };
    let event = RequestEvent::Request(read);
    assert_eq!(RequestDecoder::new(4096).decode(&mut &read.encode()[..]), Ok(Some(event)));
    let mut bytes = read.encode();
    bytes[0] = 0x26;
    let error = NbdError::Magic { what: "request", value: 0x2660_9513 };
    assert_eq!(RequestDecoder::new(4096).decode(&mut &bytes[..]), Err(error));
}

/// A reply stream of each form, and a description of what a client must see.
fn replies() -> (Vec<u8>, Vec<String>) {
    let mut stream = Vec::new();
    stream.extend(encode_simple_reply(1, None));
    stream.extend([7; 50]);
    stream.extend(encode_simple_reply(2, Some(Errno::Io)));
    stream.extend(encode_offset_data(3, false, 512, 40));
    stream.extend([8; 40]);
    stream.extend(encode_offset_hole(3, false, 552, 100));
    stream.extend(encode_none(3));
    let extents = [Extent { length_bytes: 4096, flags: 0 }, Extent { length_bytes: 512, flags: 3 }];
    encode_block_status(4, true, 9, &extents, &mut stream);
    encode_error_chunk(5, true, Errno::Invalid, None, "why", &mut stream);
    let expected = [
        "simple 1 0",
        "data 50 of 7",
        "end",
        "simple 2 5",
        "chunk 3 false OffsetData { offset_bytes: 512, length_bytes: 40 } []",
        "data 40 of 8",
        "end",
        "chunk 3 false OffsetHole { offset_bytes: 552, length_bytes: 100 } []",
        "chunk 3 true None []",
        "status 4 true 9 [(4096, 0), (512, 3)]",
        "chunk 5 true Error { error: 22, at: None, message: \"why\" } []",
    ];
    (stream, expected.map(str::to_owned).to_vec())
}

fn read_replies(decoder: &mut ReplyDecoder, mut input: &[u8], seen: &mut Vec<String>, data: &mut Vec<u8>) {
    loop {
        let mut expect = 0;
        match decoder.decode(&mut input).expect("valid") {
            None => return,
            Some(ReplyEvent::Simple { cookie, error }) => {
                expect = if cookie == 1 { 50 } else { 0 };
                seen.push(format!("simple {cookie} {error}"));
            }
            Some(ReplyEvent::Chunk { cookie, done, chunk }) => {
                let extents: Vec<_> =
                    chunk.extents().map(|extent| (extent.length_bytes, extent.flags)).collect();
                seen.push(match chunk {
                    Chunk::BlockStatus { context_id, .. } => {
                        format!("status {cookie} {done} {context_id} {extents:?}")
                    }
                    chunk => format!("chunk {cookie} {done} {chunk:?} {extents:?}"),
                });
            }
            Some(ReplyEvent::Data { offset_bytes, bytes }) => {
                assert_eq!(offset_bytes as usize, data.len());
                data.extend(bytes);
            }
            Some(ReplyEvent::End) => {
                assert!(data.iter().all(|byte| byte == &data[0]));
                seen.push(format!("data {} of {}", data.len(), data[0]));
                seen.push("end".to_owned());
                data.clear();
            }
        }
        decoder.expect_data(expect);
    }
}

#[test]
fn the_client_reads_every_reply_of_transmission_cut_anywhere() {
    let (stream, expected) = replies();
    for cut in 0..=stream.len() {
        let (mut decoder, mut seen, mut data) = (ReplyDecoder::new(4096), Vec::new(), Vec::new());
        read_replies(&mut decoder, &stream[..cut], &mut seen, &mut data);
        read_replies(&mut decoder, &stream[cut..], &mut seen, &mut data);
        assert_eq!(seen, expected, "cut at {cut}");
    }
}

#[test]
fn malformed_chunks_end_the_connection() {
    let fails = |bytes: &[u8]| ReplyDecoder::new(4096).decode(&mut &bytes[..]).expect_err("must fail");
    let malformed = NbdError::Malformed("structured reply chunk");
    assert_eq!(fails(&encode_offset_data(1, true, 0, 0)), malformed);
    let long = NbdError::TooLong { what: "data chunk", length_bytes: 4097, max_bytes: 4096 };
    assert_eq!(fails(&encode_offset_data(1, true, 0, 4097)), long);
    let mut hole = encode_offset_hole(1, true, 0, 1);
    hole[19] = 11;
    assert_eq!(fails(&hole), malformed);
    hole[16] = 0xFF;
    assert!(matches!(fails(&hole), NbdError::TooLong { what: "chunk", .. }));
    hole[7] = 77;
    assert_eq!(fails(&hole), NbdError::Malformed("reply"));
    assert!(matches!(fails(&[0; 16]), NbdError::Magic { what: "reply", .. }));
    let mut status = Vec::new();
    encode_block_status(1, true, 1, &[], &mut status);
    assert_eq!(fails(&status), malformed);
}

#[test]
fn a_long_error_message_is_cut_between_characters() {
    let mut bytes = Vec::new();
    encode_error_chunk(1, true, Errno::Io, None, &"\u{20AC}".repeat(2000), &mut bytes);
    let mut decoder = ReplyDecoder::new(0);
    let mut input = &bytes[..];
    match decoder.decode(&mut input) {
        Ok(Some(ReplyEvent::Chunk { chunk: Chunk::Error { message, .. }, .. })) => {
            assert_eq!(message.len(), 4095)
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn random_requests_survive_random_cuts(
        list in proptest::collection::vec(
            (any::<u16>(), 0u16..9, any::<u64>(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..200)),
            0..8,
        ),
        cuts in proptest::collection::vec(1usize..100, 1..30),
    ) {
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for (flags, command, cookie, offset_bytes, payload) in list {
            let request = Request { flags, command, cookie, offset_bytes, length_bytes: payload.len() as u32 };
            stream.extend(request.encode());
            expected.push(Seen::Request(request));
            if command == 1 && !payload.is_empty() {
                stream.extend(&payload);
                expected.push(Seen::Data(payload));
                expected.push(Seen::End);
            }
        }
        let (mut decoder, mut seen, mut rest) = (RequestDecoder::new(4096), Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            let (part, tail) = rest.split_at((*cut).min(rest.len()));
            requests(&mut decoder, part, &mut seen).expect("valid");
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
        // Valid streams with a wrong byte reach further than noise.
        let mut handshake = handshake_stream();
        let place = at % handshake.len();
        handshake[place] ^= bytes.first().copied().unwrap_or(1);
        let (mut reply, _) = replies();
        let place = at % reply.len();
        reply[place] ^= bytes.first().copied().unwrap_or(1);
        for input in [&bytes, &handshake, &reply] {
            let _ = options(&mut ServerHandshake::default(), input, &mut Vec::new());
            let _ = requests(&mut RequestDecoder::new(4096), input, &mut Vec::new());
            let mut client = ClientHandshake::default();
            let mut rest = &input[..];
            while let Ok(Some(_)) = client.decode(&mut rest) {}
            let mut decoder = ReplyDecoder::new(4096);
            let mut rest = &input[..];
            while let Ok(Some(_)) = decoder.decode(&mut rest) {}
        }
    }
}
