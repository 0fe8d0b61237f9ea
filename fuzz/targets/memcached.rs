//! Any bytes come over a connection that speaks the memcached protocol, in any fragmentation.
//!
//! Byte 0 is the length of the pieces. Pieces must not matter, keys are no longer than allowed, and no more is carried than a line.

use pellucid_wire::memcached::{Decoder, Event, KEY_BYTES_MAX, LINE_BYTES_MAX};

/// One input.
pub fn run(bytes: &[u8]) {
    let [piece, content @ ..] = bytes else { return };
    let whole = decoded(&mut std::iter::once(content));
    assert_eq!(whole, decoded(&mut content.chunks(usize::from(*piece) + 1)));
}

/// Everything that was decoded, described; adjacent data are joined.
fn decoded(inputs: &mut dyn Iterator<Item = &[u8]>) -> (Vec<String>, Vec<u8>) {
    let (mut decoder, mut seen, mut data) = (Decoder::default(), Vec::new(), Vec::new());
    for mut input in inputs {
        loop {
            match decoder.decode(&mut input) {
                Ok(None) => break,
                Ok(Some(Event::Data(bytes))) => data.extend_from_slice(bytes),
                Ok(Some(event)) => {
                    if let Event::Key { key, .. } = event {
                        assert!((1..=KEY_BYTES_MAX).contains(&key.len()));
                    }
                    seen.push(format!("{event:?}"));
                }
                Err(error) => {
                    seen.push(error.to_string());
                    return (seen, data);
                }
            }
        }
        assert!(decoder.memory_bytes() <= 2 * LINE_BYTES_MAX);
    }
    (seen, data)
}
