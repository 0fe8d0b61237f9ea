//! Speed of the codecs on one thread: `cargo run --release -p pellucid-wire --example codec-throughput`.
//!
//! Prints PDUs (or messages) per second and nanoseconds each, for the controller's share of one 4 KiB random read or write. The data themselves are
//! not copied, as in a server that reads and writes them in place.

#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use pellucid_wire::nbd::{Request, RequestDecoder, encode_simple_reply};
use pellucid_wire::nvme::{Completion, SglDescriptor, SubmissionEntry};
use pellucid_wire::tcp::{
    DataDigest, DataHeader, Decoder, Encoder, Event, HEADER_BYTES_MAX, IcReq, Offer, Terms, encode_ic_req,
};

/// PDUs in one buffer, as a socket might hand them over at a queue depth of 32.
const BATCH: usize = 32;
const DATA_BYTES: usize = 4096;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for digests in [false, true] {
        let label = if digests { "with digests" } else { "no digests" };
        let (decoder, terms) = connected(digests);
        report(&mut out, &format!("decode read command, {label}"), decode(&decoder, &commands(&terms, 0)))?;
        report(
            &mut out,
            &format!("decode 4 KiB in-capsule write, {label}"),
            decode(&decoder, &commands(&terms, DATA_BYTES)),
        )?;
        report(&mut out, &format!("decode 4 KiB H2CData, {label}"), decode(&decoder, &h2c(&terms)))?;
        report(&mut out, &format!("encode C2HData + response headers, {label}"), encode(&terms))?;
    }
    report(&mut out, "decode NBD read request", nbd_decode())?;
    report(&mut out, "encode NBD simple reply", nbd_encode())
}

fn connected(digests: bool) -> (Decoder, Terms) {
    let offer = Offer {
        header_digest: true,
        data_digest: true,
        alignment: 0,
        h2c_data_max: 1 << 17,
        in_capsule_max: 8192,
    };
    let mut decoder = Decoder::controller(offer);
    let request = IcReq { header_digest: digests, data_digest: digests, ..IcReq::default() };
    decoder.decode(&mut &encode_ic_req(&request)[..]).expect("a valid ICReq");
    let terms = *decoder.terms().expect("settled");
    (decoder, terms)
}

fn push_data(encoder: &Encoder, stream: &mut Vec<u8>, data_bytes: usize) {
    let data = vec![0x5A; data_bytes];
    stream.extend(&data);
    if encoder.data_digest() && data_bytes > 0 {
        let mut digest = DataDigest::default();
        digest.update(&data);
        stream.extend(digest.bytes());
    }
}

fn commands(terms: &Terms, data_bytes: usize) -> Vec<u8> {
    let encoder = Encoder::host(terms);
    let (mut stream, mut header) = (Vec::new(), [0; HEADER_BYTES_MAX]);
    for cid in 0..BATCH as u16 {
        let entry = SubmissionEntry::new(2, cid, 1).with_sgl(SglDescriptor::transport(DATA_BYTES as u32));
        let length = encoder.command(&entry, data_bytes as u32, &mut header);
        stream.extend(&header[..length]);
        push_data(&encoder, &mut stream, data_bytes);
    }
    stream
}

fn h2c(terms: &Terms) -> Vec<u8> {
    let encoder = Encoder::host(terms);
    let (mut stream, mut out) = (Vec::new(), [0; HEADER_BYTES_MAX]);
    for cid in 0..BATCH as u16 {
        let header = DataHeader { cid, length_bytes: DATA_BYTES as u32, last: true, ..DataHeader::default() };
        let length = encoder.h2c_data(&header, &mut out);
        stream.extend(&out[..length]);
        push_data(&encoder, &mut stream, DATA_BYTES);
    }
    stream
}

fn decode(decoder: &Decoder, stream: &[u8]) -> (u64, Duration) {
    let mut decoder = decoder.clone();
    measure(|| {
        let mut input = black_box(stream);
        let mut pdus = 0;
        while let Some(event) = decoder.decode(&mut input).expect("valid") {
            pdus += u64::from(matches!(black_box(event), Event::Pdu(_)));
        }
        pdus
    })
}

fn encode(terms: &Terms) -> (u64, Duration) {
    let encoder = Encoder::controller(terms);
    let mut out = [0; HEADER_BYTES_MAX];
    measure(|| {
        for cid in 0..BATCH as u16 {
            let data =
                DataHeader { cid, length_bytes: DATA_BYTES as u32, last: true, ..DataHeader::default() };
            black_box(encoder.c2h_data(black_box(&data), &mut out));
            black_box(&out);
            let completion = Completion { cid, ..Completion::default() };
            black_box(encoder.response(black_box(&completion), &mut out));
            black_box(&out);
        }
        2 * BATCH as u64
    })
}

fn nbd_decode() -> (u64, Duration) {
    let request = Request { length_bytes: DATA_BYTES as u32, ..Request::default() };
    let stream = request.encode().repeat(BATCH);
    let mut decoder = RequestDecoder::new(1 << 25);
    measure(|| {
        let mut input = black_box(&stream[..]);
        let mut requests = 0;
        while let Some(event) = decoder.decode(&mut input).expect("valid") {
            black_box(event);
            requests += 1;
        }
        requests
    })
}

fn nbd_encode() -> (u64, Duration) {
    measure(|| {
        for cookie in 0..BATCH as u64 {
            black_box(encode_simple_reply(black_box(cookie), None));
        }
        BATCH as u64
    })
}

/// Repeats `work`, which returns how many messages it processed, for a quarter of a second.
fn measure(mut work: impl FnMut() -> u64) -> (u64, Duration) {
    let start = Instant::now();
    let mut messages = 0;
    while start.elapsed() < Duration::from_millis(250) {
        for _ in 0..64 {
            messages += work();
        }
    }
    (messages, start.elapsed())
}

fn report(out: &mut impl Write, what: &str, (messages, elapsed): (u64, Duration)) -> std::io::Result<()> {
    let each_ns = elapsed.as_nanos() as f64 / messages as f64;
    writeln!(out, "{what:<48} {:>8.1} M/s  {each_ns:>7.1} ns each", 1e3 / each_ns)
}
