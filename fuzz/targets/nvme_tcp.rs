//! Any bytes come over an NVMe/TCP connection, at the controller's or the host's end, in any fragmentation.
//!
//! Byte 0 chooses the end, digests and whether the connection is set up already; byte 1 the alignment; byte 2 the
//! length of the pieces. Pieces must not matter, data must stay within the announced limits, an error must stay, and
//! every command that comes out must go through the parsers.

use pellucid_wire::nvme::{
    Connect, DsmRange, GetLogPage, PropertyGet, PropertySet, SubmissionEntry, open_channel, zns,
};
use pellucid_wire::tcp::{Decoder, Event, Fatal, IcReq, IcResp, Offer, Pdu, TERM_BYTES_MAX};
use pellucid_wire::tcp::{encode_ic_req, encode_ic_resp};

const DATA_MAX: u32 = 8192;

#[derive(Debug, Default, PartialEq)]
struct Seen {
    pdus: Vec<Pdu>,
    data: Vec<u8>,
    ends: usize,
}

/// One input.
pub fn run(bytes: &[u8]) {
    let [choice, alignment, piece, content @ ..] = bytes else { return };
    let fresh = decoder(*choice, *alignment);
    let (mut whole, mut seen) = (fresh.clone(), Seen::default());
    let outcome = feed(&mut whole, content, &mut seen);
    let (mut pieces, mut seen_in_pieces) = (fresh, Seen::default());
    let outcome_in_pieces = content
        .chunks(usize::from(*piece) + 1)
        .try_for_each(|piece| feed(&mut pieces, piece, &mut seen_in_pieces));
    assert_eq!(outcome, outcome_in_pieces);
    assert_eq!(seen, seen_in_pieces);
    if let Err(fatal) = outcome {
        assert_eq!(whole.decode(&mut &*content), Err(fatal));
        let mut out = [0; TERM_BYTES_MAX];
        assert!((24..=TERM_BYTES_MAX).contains(&whole.term_req(&fatal, &mut out)));
    }
}

fn decoder(choice: u8, alignment: u8) -> Decoder {
    let digests = choice & 2 != 0;
    let request =
        IcReq { alignment: alignment & 31, header_digest: digests, data_digest: digests, r2t_max: 0 };
    let (mut decoder, set_up) = if choice & 1 == 0 {
        let offer = Offer {
            header_digest: true,
            data_digest: true,
            alignment: alignment & 31,
            h2c_data_max: DATA_MAX,
            in_capsule_max: DATA_MAX,
        };
        (Decoder::controller(offer), encode_ic_req(&request))
    } else {
        let response = IcResp {
            alignment: alignment & 31,
            header_digest: digests,
            data_digest: digests,
            h2c_data_max: DATA_MAX,
        };
        (Decoder::host(request, DATA_MAX), encode_ic_resp(&response))
    };
    if choice & 4 == 0 {
        decoder.decode(&mut &set_up[..]).expect("a valid set-up");
    }
    decoder
}

fn feed(decoder: &mut Decoder, mut input: &[u8], seen: &mut Seen) -> Result<(), Fatal> {
    let mut previous_data_remaining = decoder.data_remaining_bytes();
    while let Some(event) = decoder.decode(&mut input)? {
        match event {
            Event::Pdu(pdu) => {
                if let Pdu::Command(command) = &pdu {
                    parse(&command.entry);
                }
                seen.pdus.push(pdu);
            }
            Event::Data { bytes, .. } => {
                assert!(!bytes.is_empty() && bytes.len() <= DATA_MAX as usize);
                assert!(previous_data_remaining == 0 || bytes.len() <= previous_data_remaining as usize);
                seen.data.extend(bytes);
            }
            Event::End(_) => seen.ends += 1,
        }
        previous_data_remaining = decoder.data_remaining_bytes();
        assert!(previous_data_remaining <= DATA_MAX);
    }
    assert!(input.is_empty());
    Ok(())
}

fn parse(entry: &SubmissionEntry) {
    let range = entry.lba_range();
    assert!((1..=1 << 16).contains(&range.count));
    let _ = (entry.sgl().pointer(), range.end());
    let _ = (
        Connect::parse(entry),
        PropertyGet::parse(entry),
        PropertySet::parse(entry),
        GetLogPage::parse(entry),
    );
    let _ = (zns::ZoneManagementSend::parse(entry), zns::ZoneManagementReceive::parse(entry));
    let _ = DsmRange::list(entry, &entry.0).map(Iterator::count);
    if let Ok(vector) = open_channel::VectorCommand::parse(entry) {
        let _ = vector.addresses(&entry.0).map(Iterator::count);
    }
}
