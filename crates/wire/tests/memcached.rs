//! The memcached codec: decoded commands, in any fragmentation.

use pellucid_wire::memcached::{Decoder, Event, LINE_BYTES_MAX, expires_s};
use proptest::prelude::*;

/// Everything that was decoded, described; adjacent data are joined.
fn decoded(inputs: &mut dyn Iterator<Item = &[u8]>) -> (Vec<String>, Vec<u8>) {
    let (mut decoder, mut seen, mut data) = (Decoder::default(), Vec::new(), Vec::new());
    for mut input in inputs {
        loop {
            match decoder.decode(&mut input) {
                Ok(None) => break,
                Ok(Some(Event::Data(bytes))) => data.extend_from_slice(bytes),
                Ok(Some(event)) => seen.push(format!("{event:?}")),
                Err(error) => {
                    seen.push(error.to_string());
                    return (seen, data);
                }
            }
        }
        assert!(input.is_empty() && !decoder.has_more(), "all of the input is taken");
    }
    (seen, data)
}

fn command() -> impl Strategy<Value = Vec<u8>> {
    let key = prop_oneof!["[a-z]{1,9}", "[a-z]{249,252}"];
    let number = prop_oneof![
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()),
        "[0-9]{1,3}"
    ];
    let verb = prop::sample::select(
        &[
            "set",
            "add",
            "cas",
            "append",
            "incr",
            "delete",
            "touch",
            "gat",
            "flush_all",
            "ms",
            "mg",
            "md",
            "ma",
            "verbosity",
            "",
        ][..],
    );
    let flags = prop::collection::vec("[a-zA-Z!][0-9A-E]{0,3}", 0..4);
    let store = (key.clone(), 0..40usize).prop_map(|(key, length)| {
        [format!("set {key} 1 2 {length}\r\n").as_bytes(), &vec![b'v'; length], b"\r\n"].concat()
    });
    let any = (verb, key.clone(), prop::collection::vec(number, 0..5), flags).prop_map(
        |(verb, key, numbers, flags)| {
            let mut words = vec![verb.to_owned(), key];
            words.extend(numbers);
            words.extend(flags);
            let line = words.join(" ");
            format!("{line}\r\n").into_bytes()
        },
    );
    let get =
        prop::collection::vec(key, 0..60).prop_map(|keys| format!("get  {} \n", keys.join(" ")).into_bytes());
    prop_oneof![3 => store, 3 => any, 2 => get, 1 => prop::collection::vec(any_byte(), 0..40)]
}

fn any_byte() -> impl Strategy<Value = u8> {
    prop_oneof![Just(b' '), Just(b'\n'), Just(b'\r'), any::<u8>()]
}

proptest! {
    #[test]
    fn pieces_do_not_matter(commands in prop::collection::vec(command(), 1..12), cuts in prop::collection::vec(1..80usize, 1..200)) {
        let whole = commands.concat();
        let (mut rest, mut pieces) = (&whole[..], Vec::new());
        for cut in cuts {
            let (piece, left) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = left;
        }
        pieces.push(rest);
        let at_once = decoded(&mut std::iter::once(&whole[..]));
        prop_assert_eq!(at_once, decoded(&mut pieces.into_iter()));
    }

    /// A get may exceed any carried line: it is decoded key by key, in any fragmentation.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn long_gets_do_not_need_memory(count in 4_000..6_000usize, piece in 1..5_000usize) {
        let mut line = b"get".to_vec();
        (0..count).for_each(|key| line.extend_from_slice(format!(" key{key}").as_bytes()));
        line.extend_from_slice(b"\r\nversion\r\n");
        assert!(line.len() > LINE_BYTES_MAX);
        let (seen, _) = decoded(&mut line.chunks(piece));
        prop_assert_eq!(seen.len(), count + 1);
        prop_assert!(seen[count - 1].contains("last: true") && seen[count] == "Version");
    }
}

#[test]
fn what_is_carried_is_bounded() {
    let mut decoder = Decoder::default();
    for _ in 0..1000 {
        let mut input = &[b'x'; 1000][..];
        if decoder.decode(&mut input).is_err() {
            break;
        }
        assert!(decoder.memory_bytes() <= 2 * LINE_BYTES_MAX);
    }
    assert!(decoder.decode(&mut &b"version\r\n"[..]).is_err(), "for ever");
}

#[test]
fn times_are_relative_up_to_thirty_days() {
    let now = 1_700_000_000;
    assert_eq!(expires_s(0, now), 0);
    assert_eq!(expires_s(-1, now), 1);
    assert_eq!(expires_s(10, now), now + 10);
    assert_eq!(expires_s(2_592_000, now), now + 2_592_000);
    assert_eq!(expires_s(2_592_001, now), 2_592_001);
    assert_eq!(expires_s(i64::MAX, now), u32::MAX);
}
