//! NVMe/TCP: golden bytes, every fatal status, fragmentation, round trips between both ends, arbitrary input.

use pellucid_wire::nvme::{Completion, NvmOpcode, SglDescriptor, Status, SubmissionEntry};
use pellucid_wire::tcp::{
    CapsuleCommand, DataCheck, DataDigest, DataHeader, Decoder, Encoder, Event, Fatal, FatalStatus,
    HEADER_BYTES_MAX, IcReq, IcResp, Offer, Pdu, PduType, ReadyToTransfer, TERM_BYTES_MAX, Terms,
    WriteTransfer, encode_ic_req, encode_ic_resp,
};
use proptest::prelude::*;

const OFFER: Offer =
    Offer { header_digest: true, data_digest: true, alignment: 0, h2c_data_max: 8192, in_capsule_max: 4096 };

/// An event without its borrow; adjacent pieces of data are joined, so that fragmentation does not show.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Pdu(Pdu),
    Data(Vec<u8>),
    End(DataCheck),
}

fn feed(decoder: &mut Decoder, mut input: &[u8], seen: &mut Vec<Seen>) -> Result<(), Fatal> {
    while let Some(event) = decoder.decode(&mut input)? {
        match event {
            Event::Pdu(pdu) => seen.push(Seen::Pdu(pdu)),
            Event::End(check) => seen.push(Seen::End(check)),
            Event::Data { offset_bytes, bytes } => {
                assert!(!bytes.is_empty());
                match seen.last_mut() {
                    Some(Seen::Data(data)) => {
                        assert_eq!(data.len(), offset_bytes as usize);
                        data.extend(bytes);
                    }
                    _ => {
                        assert_eq!(offset_bytes, 0);
                        seen.push(Seen::Data(bytes.to_vec()));
                    }
                }
            }
        }
    }
    assert!(input.is_empty(), "input left over without an event");
    Ok(())
}

fn controller(request: &IcReq, offer: Offer) -> (Decoder, Terms) {
    let mut decoder = Decoder::controller(offer);
    feed(&mut decoder, &encode_ic_req(request), &mut Vec::new()).expect("a valid ICReq");
    let terms = *decoder.terms().expect("settled");
    (decoder, terms)
}

fn plain() -> Decoder {
    controller(&IcReq::default(), OFFER).0
}

fn digests() -> IcReq {
    IcReq { header_digest: true, data_digest: true, ..IcReq::default() }
}

/// A header with data and, if agreed on, their digest.
fn with_data(encoder: &Encoder, header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = [header, data].concat();
    if encoder.data_digest() && !data.is_empty() {
        let mut digest = DataDigest::default();
        digest.update(data);
        bytes.extend(digest.bytes());
    }
    bytes
}

fn read_command() -> SubmissionEntry {
    SubmissionEntry::new(NvmOpcode::Read.raw(), 7, 1)
        .with_sgl(SglDescriptor::transport(4096))
        .with_cdw_pair(10, 0x1234)
        .with_cdw(12, 7)
}

fn command(encoder: &Encoder, entry: &SubmissionEntry, data: &[u8]) -> Vec<u8> {
    let mut out = [0xAA; HEADER_BYTES_MAX];
    let length = encoder.command(entry, data.len() as u32, &mut out);
    with_data(encoder, &out[..length], data)
}

fn h2c(encoder: &Encoder, header: &DataHeader, data: &[u8]) -> Vec<u8> {
    let mut out = [0xAA; HEADER_BYTES_MAX];
    let length = encoder.h2c_data(header, &mut out);
    with_data(encoder, &out[..length], data)
}

#[test]
fn crc32c_has_the_check_value_of_the_catalogue() {
    let mut digest = DataDigest::default();
    digest.update(b"12345");
    digest.update(b"6789");
    assert_eq!(digest.bytes(), 0xE306_9283_u32.to_le_bytes());
    // RFC 3720 B.4: 32 bytes of zeros.
    let mut digest = DataDigest::default();
    digest.update(&[0; 32]);
    assert_eq!(digest.bytes(), [0xAA, 0x36, 0x91, 0x8A]);
}

#[test]
fn connection_set_up_has_the_bytes_of_the_specification() {
    let request = IcReq { alignment: 3, header_digest: true, data_digest: true, r2t_max: 15 };
    let bytes = encode_ic_req(&request);
    assert_eq!(bytes[..16], [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 3, 3, 15, 0, 0, 0]);
    assert!(bytes[16..].iter().all(|&byte| byte == 0));
    let response = IcResp { alignment: 0, header_digest: false, data_digest: true, h2c_data_max: 0x2_0000 };
    let bytes = encode_ic_resp(&response);
    assert_eq!(bytes[..16], [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2, 0]);

    let (decoder, terms) = controller(&request, OFFER);
    assert!(terms.header_digest && terms.data_digest);
    assert_eq!((terms.host_alignment, terms.r2t_max), (3, 15));
    let without = Offer { data_digest: false, ..OFFER };
    assert!(!controller(&request, without).1.data_digest);
    assert_eq!(decoder.ic_resp().expect("settled").h2c_data_max, 8192);
}

#[test]
fn transfers_and_responses_have_the_bytes_of_the_specification() {
    let encoder = Encoder::controller(&Terms::default());
    let mut out = [0xAA; HEADER_BYTES_MAX];
    let r2t =
        ReadyToTransfer { cid: 0x0102, transfer_tag: 0x0304, offset_bytes: 0x1000, length_bytes: 0x2000 };
    assert_eq!(encoder.r2t(&r2t, &mut out), 24);
    let golden = [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 4, 3, 0, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0];
    assert_eq!(out[..24], golden);

    let data = DataHeader { cid: 5, length_bytes: 512, last: true, success: true, ..DataHeader::default() };
    assert_eq!(encoder.c2h_data(&data, &mut out), 24);
    assert_eq!(out[..24], [7, 0x0C, 24, 24, 0x18, 2, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);

    let completion = Completion {
        result: 0x11,
        sq_head: 2,
        cid: 0x1234,
        status: Status::LBA_OUT_OF_RANGE.do_not_retry(),
        ..Completion::default()
    };
    assert_eq!(encoder.response(&completion, &mut out), 24);
    let golden = [5, 0, 24, 0, 24, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0x34, 0x12, 0x00, 0x81];
    assert_eq!(out[..24], golden);
}

#[test]
fn no_alignment_makes_a_header_longer_than_promised() {
    for controller_alignment in 0..32 {
        for header_digest in [false, true] {
            let terms = Terms { header_digest, controller_alignment, ..Terms::default() };
            let mut out = [0; HEADER_BYTES_MAX];
            let length = Encoder::host(&terms).command(&read_command(), 4, &mut out);
            assert_eq!(length % ((usize::from(controller_alignment) + 1) * 4), 0);
            assert_eq!(length, usize::from(out[3]));
        }
    }
}

#[test]
fn headers_are_padded_to_the_alignment_of_the_other_end() {
    let terms = Terms { header_digest: true, data_digest: true, host_alignment: 15, ..Terms::default() };
    let encoder = Encoder::controller(&terms);
    let mut out = [0xAA; HEADER_BYTES_MAX];
    let data = DataHeader { length_bytes: 8, last: true, ..DataHeader::default() };
    assert_eq!(encoder.c2h_data(&data, &mut out), 64);
    assert_eq!((out[1], out[3], out[4]), (0b111, 64, 64 + 8 + 4));
    assert!(out[28..64].iter().all(|&byte| byte == 0));
    let mut digest = DataDigest::default();
    digest.update(&out[..24]);
    assert_eq!(out[24..28], digest.bytes());
}

/// A stream with every host PDU, digests and alignment on.
fn host_stream() -> (IcReq, Offer, Vec<u8>, Vec<Seen>) {
    let (request, offer) = (digests(), Offer { alignment: 7, ..OFFER });
    let (_, terms) = controller(&request, offer);
    let encoder = Encoder::host(&terms);
    let payload: Vec<u8> = (0..300u32).map(|index| (index * 7) as u8).collect();
    let write = SubmissionEntry::new(1, 8, 1).with_sgl(SglDescriptor::in_capsule(0, 300));
    let data = DataHeader {
        cid: 9,
        transfer_tag: 3,
        offset_bytes: 64,
        length_bytes: 40,
        last: true,
        success: false,
    };
    let stream = [
        encode_ic_req(&request).to_vec(),
        command(&encoder, &read_command(), &[]),
        command(&encoder, &write, &payload),
        h2c(&encoder, &data, &payload[..40]),
        command(&encoder, &read_command(), &[]),
    ]
    .concat();
    let read = Seen::Pdu(Pdu::Command(CapsuleCommand { entry: read_command(), data_bytes: 0 }));
    let seen = vec![
        Seen::Pdu(Pdu::IcReq(request)),
        read.clone(),
        Seen::Pdu(Pdu::Command(CapsuleCommand { entry: write, data_bytes: 300 })),
        Seen::Data(payload.clone()),
        Seen::End(DataCheck::Valid),
        Seen::Pdu(Pdu::H2cData(data)),
        Seen::Data(payload[..40].to_vec()),
        Seen::End(DataCheck::Valid),
        read,
    ];
    (request, offer, stream, seen)
}

#[test]
fn a_stream_cut_at_any_byte_gives_the_same_events() {
    let (_, offer, stream, expected) = host_stream();
    for cut in 0..=stream.len() {
        let mut decoder = Decoder::controller(offer);
        let mut seen = Vec::new();
        feed(&mut decoder, &stream[..cut], &mut seen).expect("valid");
        feed(&mut decoder, &stream[cut..], &mut seen).expect("valid");
        assert_eq!(seen, expected, "cut at {cut}");
    }
}

#[test]
fn a_stream_of_single_bytes_gives_the_same_events() {
    let (_, offer, stream, expected) = host_stream();
    let mut decoder = Decoder::controller(offer);
    let mut seen = Vec::new();
    stream.iter().for_each(|byte| feed(&mut decoder, &[*byte], &mut seen).expect("valid"));
    assert_eq!(seen, expected);
}

#[test]
fn the_hosts_end_reads_what_the_controllers_end_writes() {
    let request = IcReq { alignment: 31, ..digests() };
    let (controller_end, terms) = controller(&request, OFFER);
    let encoder = Encoder::controller(&terms);
    let payload = vec![0x5A; 1000];
    let data = DataHeader { cid: 1, length_bytes: 1000, last: true, success: true, ..DataHeader::default() };
    let r2t = ReadyToTransfer { cid: 2, transfer_tag: 9, offset_bytes: 0, length_bytes: 4096 };
    let completion = Completion { cid: 2, sq_head: 1, ..Completion::default() };
    let mut out = [0; HEADER_BYTES_MAX];
    let mut stream = encode_ic_resp(&controller_end.ic_resp().expect("settled")).to_vec();
    let length = encoder.c2h_data(&data, &mut out);
    stream.extend(with_data(&encoder, &out[..length], &payload));
    let length = encoder.r2t(&r2t, &mut out);
    stream.extend(&out[..length]);
    let length = encoder.response(&completion, &mut out);
    stream.extend(&out[..length]);
    for cut in 0..=stream.len() {
        let mut host = Decoder::host(request, 1 << 20);
        let mut seen = Vec::new();
        feed(&mut host, &stream[..cut], &mut seen).expect("valid");
        feed(&mut host, &stream[cut..], &mut seen).expect("valid");
        assert_eq!(host.terms(), Some(&terms));
        let expected = [
            Seen::Pdu(Pdu::C2hData(data)),
            Seen::Data(payload.clone()),
            Seen::End(DataCheck::Valid),
            Seen::Pdu(Pdu::R2t(r2t)),
            Seen::Pdu(Pdu::Response(completion)),
        ];
        assert_eq!(seen[1..], expected);
    }
}

#[test]
fn data_can_be_read_straight_into_their_destination() {
    let mut decoder = plain();
    let encoder = Encoder::host(&Terms::default());
    let header = DataHeader { length_bytes: 100, last: true, ..DataHeader::default() };
    let stream = h2c(&encoder, &header, &[3; 100]);
    let mut input = &stream[..24 + 10];
    assert!(matches!(decoder.decode(&mut input), Ok(Some(Event::Pdu(Pdu::H2cData(_))))));
    assert_eq!(decoder.data_remaining_bytes(), 100);
    assert!(matches!(decoder.decode(&mut input), Ok(Some(Event::Data { bytes: [3, ..], .. }))));
    assert_eq!(decoder.data_remaining_bytes(), 90);
    let destination = [3; 90];
    assert_eq!(
        decoder.decode(&mut &destination[..]),
        Ok(Some(Event::Data { offset_bytes: 10, bytes: &destination }))
    );
    assert_eq!(decoder.decode(&mut &[][..]), Ok(Some(Event::End(DataCheck::Absent))));
    assert_eq!(decoder.data_remaining_bytes(), 0);
}

#[test]
fn a_wrong_data_digest_is_reported_and_not_fatal() {
    let (mut decoder, terms) = controller(&digests(), OFFER);
    let encoder = Encoder::host(&terms);
    let header = DataHeader { length_bytes: 16, last: true, ..DataHeader::default() };
    let mut stream = h2c(&encoder, &header, &[1; 16]);
    let last = stream.len() - 1;
    stream[last] ^= 1;
    stream.extend(command(&encoder, &read_command(), &[]));
    let mut seen = Vec::new();
    feed(&mut decoder, &stream, &mut seen).expect("not fatal");
    assert_eq!(seen[2], Seen::End(DataCheck::Mismatch));
    assert_eq!(seen.len(), 4);
}

/// Feeds bytes to a decoder, whole and byte by byte, and returns the error that both give.
fn fatal_of(decoder: &Decoder, bytes: &[u8]) -> Fatal {
    let mut whole = decoder.clone();
    let fatal = feed(&mut whole, bytes, &mut Vec::new()).expect_err("must fail");
    assert_eq!(whole.decode(&mut &[0; 64][..]), Err(fatal), "the error stays");
    let mut pieces = decoder.clone();
    let slow = bytes.iter().find_map(|byte| feed(&mut pieces, &[*byte], &mut Vec::new()).err());
    assert_eq!(slow, Some(fatal));
    fatal
}

fn field(offset: u32) -> Fatal {
    Fatal { status: FatalStatus::InvalidHeaderField, information: offset }
}

#[test]
fn fatal_01_invalid_header_fields_name_their_byte() {
    let decoder = plain();
    let encoder = Encoder::host(&Terms::default());
    let capsule = command(&encoder, &read_command(), &[]);
    let write = command(&encoder, &read_command(), &[0; 64]);
    let header = DataHeader { length_bytes: 64, last: true, ..DataHeader::default() };
    let data = h2c(&encoder, &header, &[0; 64]);
    let broken = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        fatal_of(&decoder, &bytes)
    };
    assert_eq!(broken(&capsule, 0, 0x08), field(0), "reserved type");
    assert_eq!(broken(&capsule, 0, 0x05), field(0), "type of the other end");
    assert_eq!(broken(&capsule, 2, 71), field(2), "header length");
    assert_eq!(broken(&capsule, 1, 1), field(1), "header digest that nobody agreed on");
    assert_eq!(broken(&write, 1, 2), field(1), "data digest that nobody agreed on");
    assert_eq!(broken(&write, 3, 68), field(3), "data inside the header");
    assert_eq!(broken(&write, 3, 73), field(3), "data not aligned");
    assert_eq!(broken(&capsule, 4, 71), field(4), "shorter than its header");
    assert_eq!(broken(&write, 5, 0x80), field(4), "in-capsule data over the limit");
    assert_eq!(broken(&data, 4, 24), field(4), "H2CData without data");
    assert_eq!(broken(&data, 16, 63), field(16), "DATAL differs from the PDU");
    assert_eq!(broken(&data, 1, 0x08), field(1), "SUCCESS without LAST");
    let mut term = vec![2, 0, 24, 0, 153, 0, 0, 0];
    term.resize(153, 0);
    assert_eq!(fatal_of(&decoder, &term), field(4), "TermReq over 152 bytes");
}

#[test]
fn fatal_01_and_06_of_connection_set_up() {
    let fresh = Decoder::controller(OFFER);
    let mut request = encode_ic_req(&IcReq::default());
    request[10] = 32;
    assert_eq!(fatal_of(&fresh, &request), field(10));
    request[8] = 1;
    let unsupported = Fatal { status: FatalStatus::UnsupportedParameter, information: 8 };
    assert_eq!(fatal_of(&fresh, &request), unsupported);
    let mut request = encode_ic_req(&IcReq::default());
    request[4] = 127;
    assert_eq!(fatal_of(&fresh, &request), field(4));

    let host = Decoder::host(IcReq::default(), 4096);
    let response = IcResp { h2c_data_max: 4095, ..IcResp::default() };
    assert_eq!(fatal_of(&host, &encode_ic_resp(&response)), field(12));
    let response = IcResp { h2c_data_max: 4096, header_digest: true, ..IcResp::default() };
    assert_eq!(fatal_of(&host, &encode_ic_resp(&response)), field(11));
}

#[test]
fn fatal_02_sequence() {
    let sequence = Fatal { status: FatalStatus::SequenceError, information: 0 };
    let capsule = command(&Encoder::host(&Terms::default()), &read_command(), &[]);
    assert_eq!(fatal_of(&Decoder::controller(OFFER), &capsule), sequence);
    assert_eq!(fatal_of(&plain(), &encode_ic_req(&IcReq::default())), sequence);
}

#[test]
fn fatal_03_header_digest() {
    let (decoder, terms) = controller(&digests(), OFFER);
    let mut capsule = command(&Encoder::host(&terms), &read_command(), &[]);
    capsule[20] ^= 0x10;
    let received = u32::from_le_bytes([capsule[72], capsule[73], capsule[74], capsule[75]]);
    let fatal = Fatal { status: FatalStatus::HeaderDigest, information: received };
    assert_eq!(fatal_of(&decoder, &capsule), fatal);
    // Digests were agreed on, so a header without one is wrong too.
    let bare = command(&Encoder::host(&Terms::default()), &read_command(), &[]);
    assert_eq!(fatal_of(&decoder, &bare), field(1));
}

#[test]
fn fatal_04_and_01_of_a_transfer() {
    let request = ReadyToTransfer { cid: 4, transfer_tag: 2, offset_bytes: 8192, length_bytes: 8192 };
    let good = DataHeader {
        cid: 4,
        transfer_tag: 2,
        offset_bytes: 8192,
        length_bytes: 4096,
        last: false,
        success: false,
    };
    let out_of_range = Fatal { status: FatalStatus::TransferOutOfRange, information: 0 };
    let mut transfer = WriteTransfer::new(request);
    let mut refused = |header: DataHeader, expected: Fatal| {
        assert_eq!(transfer.accept(&header), Err(expected));
        assert_eq!(transfer.remaining_bytes(), 8192);
    };
    refused(DataHeader { offset_bytes: 0, ..good }, out_of_range);
    refused(DataHeader { offset_bytes: 12288, ..good }, out_of_range);
    refused(DataHeader { length_bytes: 8193, ..good }, out_of_range);
    refused(DataHeader { cid: 5, ..good }, field(8));
    refused(DataHeader { transfer_tag: 3, ..good }, field(10));
    refused(DataHeader { last: true, ..good }, field(1));
    assert_eq!(transfer.accept(&good), Ok(false));
    assert_eq!(transfer.accept(&good), Err(out_of_range), "the same data again");
    let rest = DataHeader { offset_bytes: 12288, ..good };
    assert_eq!(transfer.accept(&rest), Err(field(1)), "the last PDU must say so");
    assert_eq!(transfer.accept(&DataHeader { last: true, ..rest }), Ok(true));
    assert_eq!(transfer.remaining_bytes(), 0);
}

#[test]
fn fatal_05_more_than_maxh2cdata() {
    let header = DataHeader { length_bytes: 8196, last: true, ..DataHeader::default() };
    let data = h2c(&Encoder::host(&Terms::default()), &header, &vec![0; 8196]);
    let limit = Fatal { status: FatalStatus::LimitExceeded, information: 0 };
    assert_eq!(fatal_of(&plain(), &data), limit);
    // Rejected once the common header is complete.
    assert_eq!(feed(&mut plain(), &data[..8], &mut Vec::new()), Err(limit));
}

#[test]
fn a_term_req_carries_status_and_the_header_in_error() {
    let mut decoder = plain();
    let mut capsule = command(&Encoder::host(&Terms::default()), &read_command(), &[]);
    capsule[2] = 99;
    let fatal = feed(&mut decoder, &capsule, &mut Vec::new()).expect_err("header length");
    let mut out = [0xAA; TERM_BYTES_MAX];
    let length = decoder.term_req(&fatal, &mut out);
    assert_eq!(out[..24], [3, 0, 24, 0, 32, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(out[24..length], capsule[..8]);

    let mut host = Decoder::host(IcReq::default(), 4096);
    let mut seen = Vec::new();
    feed(&mut host, &out[..length], &mut seen).expect("a host takes it even in place of ICResp");
    assert!(matches!(&seen[0], Seen::Pdu(Pdu::TermReq(term)) if term.status == 1 && term.information == 2));
    assert_eq!(seen[1..], [Seen::Data(capsule[..8].to_vec()), Seen::End(DataCheck::Absent)]);
}

#[test]
fn every_pdu_type_has_one_direction() {
    for &kind in PduType::ALL {
        let mut bytes = [0; 128];
        bytes[0] = kind.raw();
        bytes[2] = kind.header_bytes() as u8;
        let host_side = kind.from_controller();
        let mut other =
            if host_side { Decoder::controller(OFFER) } else { Decoder::host(IcReq::default(), 4096) };
        assert_eq!(other.decode(&mut &bytes[..]), Err(field(0)), "{kind:?}");
    }
}

/// In the capsule or in H2CData, command identifier, data.
type RandomPdu = (bool, u16, Vec<u8>);

fn pdu_stream() -> impl Strategy<Value = (IcReq, Offer, Vec<RandomPdu>)> {
    let request = (0u8..32, any::<bool>(), any::<bool>(), any::<u32>()).prop_map(
        |(alignment, header_digest, data_digest, r2t_max)| IcReq {
            alignment,
            header_digest,
            data_digest,
            r2t_max,
        },
    );
    let offer =
        (any::<bool>(), any::<bool>(), 0u8..32).prop_map(|(header_digest, data_digest, alignment)| Offer {
            header_digest,
            data_digest,
            alignment,
            ..OFFER
        });
    let pdu = (any::<bool>(), any::<u16>(), proptest::collection::vec(any::<u8>(), 0..600));
    (request, offer, proptest::collection::vec(pdu, 0..6))
}

proptest! {
    #[test]
    fn random_streams_survive_random_cuts(
        (request, offer, pdus) in pdu_stream(),
        cuts in proptest::collection::vec(1usize..200, 1..40),
    ) {
        let (_, terms) = controller(&request, offer);
        let encoder = Encoder::host(&terms);
        let check = if terms.data_digest { DataCheck::Valid } else { DataCheck::Absent };
        let (mut stream, mut expected) = (encode_ic_req(&request).to_vec(), vec![Seen::Pdu(Pdu::IcReq(request))]);
        for (in_capsule, cid, data) in pdus {
            if in_capsule || data.is_empty() {
                let entry = SubmissionEntry::new(1, cid, 1);
                stream.extend(command(&encoder, &entry, &data));
                expected.push(Seen::Pdu(Pdu::Command(CapsuleCommand { entry, data_bytes: data.len() as u32 })));
            } else {
                let length_bytes = data.len() as u32;
                let header = DataHeader { cid, length_bytes, last: true, ..DataHeader::default() };
                stream.extend(h2c(&encoder, &header, &data));
                expected.push(Seen::Pdu(Pdu::H2cData(header)));
            }
            if !data.is_empty() {
                expected.push(Seen::Data(data));
                expected.push(Seen::End(check));
            }
        }
        let (mut decoder, mut seen, mut rest) = (Decoder::controller(offer), Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            let (part, tail) = rest.split_at((*cut).min(rest.len()));
            feed(&mut decoder, part, &mut seen).expect("valid");
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_cuts_do_not_matter(
        prefix in any::<bool>(),
        digest in any::<bool>(),
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..10, Just(24u8), Just(72u8)], 0..400),
        cut in 0usize..400,
    ) {
        let request = if digest { digests() } else { IcReq::default() };
        let start = if prefix { controller(&request, OFFER).0 } else { Decoder::controller(OFFER) };
        for fresh in [start, Decoder::host(request, 4096)] {
            let (mut whole, mut seen) = (fresh.clone(), Vec::new());
            let outcome = feed(&mut whole, &bytes, &mut seen);
            let (mut pieces, mut seen_in_pieces) = (fresh, Vec::new());
            let cut = cut.min(bytes.len());
            let outcome_in_pieces = feed(&mut pieces, &bytes[..cut], &mut seen_in_pieces)
                .and_then(|()| feed(&mut pieces, &bytes[cut..], &mut seen_in_pieces));
            prop_assert_eq!(&outcome, &outcome_in_pieces);
            prop_assert_eq!(seen, seen_in_pieces);
            if let Err(fatal) = outcome {
                let mut out = [0; TERM_BYTES_MAX];
                prop_assert!(whole.term_req(&fatal, &mut out) <= TERM_BYTES_MAX);
            }
        }
    }
}
