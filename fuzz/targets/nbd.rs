//! Any bytes come over an NBD connection, in each of its four parts, in any fragmentation.
//!
//! Byte 0 chooses the part (handshake or transmission, at either end), byte 1 the length of the pieces. Pieces must
//! not matter; a request that passes the check lies within its export.

use pellucid_wire::nbd::{
    ClientHandshake, Command, Export, NbdError, OptionRequest, ReplyDecoder, ReplyEvent, Request,
    RequestDecoder, RequestEvent, ServerHandshake, ServerHandshakeEvent,
};

const DATA_MAX: u32 = 4096;
const EXPORT: Export = Export { size_bytes: 1 << 20, flags: 0xFFFD, structured: true, contexts: true };

/// Everything that was decoded, described; adjacent data are joined.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    messages: Vec<String>,
    data: Vec<u8>,
}

/// One input.
pub fn run(bytes: &[u8]) {
    let [part, piece, content @ ..] = bytes else { return };
    let pieces = || content.chunks(usize::from(*piece) + 1);
    let run = |feed: fn(&mut dyn Iterator<Item = &[u8]>, &mut Seen) -> Result<(), NbdError>| {
        let (mut whole, mut cut) = (Seen::default(), Seen::default());
        let outcome = feed(&mut std::iter::once(content), &mut whole);
        assert_eq!(outcome, feed(&mut pieces(), &mut cut));
        assert_eq!(whole, cut);
    };
    match part % 4 {
        0 => run(server_handshake),
        1 => run(client_handshake),
        2 => run(requests),
        _ => run(replies),
    }
}

fn server_handshake(inputs: &mut dyn Iterator<Item = &[u8]>, seen: &mut Seen) -> Result<(), NbdError> {
    let mut decoder = ServerHandshake::default();
    for mut input in inputs {
        while let Some(event) = decoder.decode(&mut input)? {
            if let ServerHandshakeEvent::Option(OptionRequest::SetMetaContext(request)) = event {
                assert_eq!(request.queries().count() as u32, request.count);
            }
            seen.messages.push(format!("{event:?}"));
        }
    }
    Ok(())
}

fn client_handshake(inputs: &mut dyn Iterator<Item = &[u8]>, seen: &mut Seen) -> Result<(), NbdError> {
    let mut decoder = ClientHandshake::default();
    for mut input in inputs {
        while let Some(event) = decoder.decode(&mut input)? {
            seen.messages.push(format!("{event:?}"));
        }
    }
    Ok(())
}

fn check(request: &Request) {
    let Ok(command) = request.check(&EXPORT) else { return };
    assert_ne!(command, Command::Resize);
    if !matches!(command, Command::Flush | Command::Disconnect) {
        let end = request.offset_bytes.checked_add(u64::from(request.length_bytes)).expect("checked");
        assert!(end <= EXPORT.size_bytes);
    }
}

fn requests(inputs: &mut dyn Iterator<Item = &[u8]>, seen: &mut Seen) -> Result<(), NbdError> {
    let mut decoder = RequestDecoder::new(DATA_MAX);
    for mut input in inputs {
        while let Some(event) = decoder.decode(&mut input)? {
            match event {
                RequestEvent::Request(request) => {
                    check(&request);
                    seen.messages.push(format!("{request:?}"));
                }
                RequestEvent::Data { bytes, .. } => seen.data.extend(bytes),
                RequestEvent::End => seen.messages.push("end".to_owned()),
            }
            assert!(decoder.payload_remaining_bytes() <= DATA_MAX);
        }
        assert!(input.is_empty());
    }
    Ok(())
}

fn replies(inputs: &mut dyn Iterator<Item = &[u8]>, seen: &mut Seen) -> Result<(), NbdError> {
    let mut decoder = ReplyDecoder::new(DATA_MAX);
    for mut input in inputs {
        loop {
            let mut expected = 0;
            match decoder.decode(&mut input)? {
                None => break,
                Some(ReplyEvent::Simple { cookie, error }) => {
                    expected = if error == 0 { (cookie % 64) as u32 } else { 0 };
                    seen.messages.push(format!("{cookie} {error}"));
                }
                Some(ReplyEvent::Data { bytes, .. }) => seen.data.extend(bytes),
                Some(event) => seen.messages.push(format!("{event:?}")),
            }
            decoder.expect_data(expected);
        }
    }
    Ok(())
}
