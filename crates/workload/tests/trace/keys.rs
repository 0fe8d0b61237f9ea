//! Key-value traces: both formats by example, recognition, compression, and malformed lines.

use pellucid_workload::trace::TraceError;
use pellucid_workload::trace::kv::{KvFormat, KvReader, KvRecord, Operation};
use std::io::{Cursor, Write};

const TWITTER: &str = "\
0,nz:u:eeW511W3dcH3de3d15ec,26,117,4,get,0
0,nz:u,with,commas,4,7,4,set,3600
2,k1,2,10,5,gets,0
2,k1,2,10,5,cas,60
3,k1,2,1,5,incr,0
9,k1,2,1,5,delete,0
";

const CACHELIB_2022: &str = "\
key,op,size,op_count,key_size
1668757755,SET,82,1,40
1668757755,GET,0,3,40

17,DELETE,0,1,2
";

const CACHELIB_2024: &str = "\
op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase
604038471,82131353f9ddc8c6,48,GET,1,87,1,0,366387042,3003229276
604038471,a54f88ab02ece24d,24,GET_LEASE,3,0,0,0,699950563,699950563
604038473,828769c1e1ce3a29,67,SET,1,65,0,7200,2777918327,655456894
604038473,828769c1e1ce3a29,67,SET_LEASE,1,65,0,,2777918327,655456894
";

fn read(content: &[u8], format: Option<KvFormat>) -> Result<(KvFormat, Vec<KvRecord>), TraceError> {
    let mut reader = KvReader::from_read("t", Cursor::new(content.to_vec()), format)?;
    let (mut record, mut records) = (KvRecord::default(), Vec::new());
    loop {
        match reader.next_into(&mut record)? {
            0 => break,
            count => records.extend(std::iter::repeat_n(record.clone(), count as usize)),
        }
    }
    Ok((reader.format(), records))
}

fn record(at_s: u32, operation: Operation, key: &str, value_bytes: u32, ttl_s: u32) -> KvRecord {
    KvRecord { at_s, operation, key: key.into(), value_bytes, ttl_s }
}

#[test]
fn twitter_lines_are_read() {
    let (format, records) = read(TWITTER.as_bytes(), None).unwrap();
    assert_eq!(format, KvFormat::Twitter);
    let expected = [
        // 24 bytes in the trace, 26 at the client.
        record(0, Operation::Get, "nz:u:eeW511W3dcH3de3d15ec0", 117, 0),
        record(0, Operation::Set, "nz:u,with,commas", 7, 3600),
        record(2, Operation::Get, "k1", 10, 0),
        record(2, Operation::Set, "k1", 10, 60),
        record(3, Operation::Increment, "k1", 1, 0),
        record(9, Operation::Delete, "k1", 1, 0),
    ];
    assert_eq!(records[1..], expected[1..]);
    assert_eq!(records[0].key.len(), 26);
    assert!(records[0].key.starts_with(b"nz:u:eeW511W3dcH3de3d15ec"));
}

#[test]
fn cachelib_columns_are_found_by_name() {
    let (format, records) = read(CACHELIB_2022.as_bytes(), None).unwrap();
    assert_eq!(format, KvFormat::CacheLib);
    let long = format!("1668757755{}", "0".repeat(30));
    let get = record(0, Operation::Get, &long, 0, 0);
    let expected = [
        record(0, Operation::Set, &long, 82, 0),
        get.clone(),
        get.clone(),
        get,
        record(0, Operation::Delete, "17", 0, 0),
    ];
    assert_eq!(records, expected);

    let (_, records) = read(CACHELIB_2024.as_bytes(), None).unwrap();
    assert_eq!(records.len(), 6);
    assert_eq!((records[0].at_s, records[0].key.len(), records[0].value_bytes), (0, 48, 87));
    assert_eq!((records[4].at_s, records[4].operation, records[4].ttl_s), (2, Operation::Set, 7200));
    assert_eq!((records[5].operation, records[5].ttl_s), (Operation::Set, 0));

    // Without a header, CacheBench's order.
    let (format, records) = read(b"177706276,GET,9,1,20,0\n", None).unwrap();
    assert_eq!((format, records.len(), records[0].value_bytes), (KvFormat::CacheLib, 1, 9));
}

#[test]
fn compressed_traces_are_read() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(TWITTER.as_bytes()).unwrap();
    let plain = read(TWITTER.as_bytes(), None).unwrap();
    assert_eq!(read(&gzip.finish().unwrap(), None).unwrap(), plain);
    // A zstd frame of one raw block (RFC 8878, 3.1.1): magic, descriptor of a single segment, size, block header.
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, TWITTER.len() as u8];
    zstd.extend(&((TWITTER.len() as u32) << 3 | 1).to_le_bytes()[..3]);
    zstd.extend(TWITTER.as_bytes());
    assert_eq!(read(&zstd, None).unwrap(), plain);
}

#[test]
fn keys_are_what_a_protocol_allows() {
    let long = "x".repeat(300);
    let lines = format!(
        "1,{long}a,301,1,1,set,0\n1,{long}b,301,1,1,set,0\n1,a b\x01c,5,1,1,get,0\n1,k,400,1,1,get,0\n"
    );
    let (_, records) = read(lines.as_bytes(), None).unwrap();
    assert_eq!((records[0].key.len(), records[1].key.len()), (250, 250));
    assert_ne!(records[0].key, records[1].key, "long keys that differ stay different");
    assert_eq!(records[2].key, b"a_b_c");
    assert_eq!(records[3].key.len(), 250);
}

#[test]
fn an_empty_trace_has_no_requests() {
    for (text, format) in [("", None), ("\n\n", None), ("", Some(KvFormat::CacheLib))] {
        assert!(read(text.as_bytes(), format).unwrap().1.is_empty(), "{text:?}");
    }
}

#[test]
fn the_first_malformed_line_is_named() {
    let twitter = Some(KvFormat::Twitter);
    let cachelib = Some(KvFormat::CacheLib);
    for (format, content, message) in [
        (
            twitter,
            "1,k,1,1,1,get,0\n1,k,1,1,1,put,0\n",
            "t: line 2: operation is \"put\"; expected get, gets, set,",
        ),
        (
            twitter,
            "1,k,1,1,1,get,0\n\n1,k,1,x,1,get,0\n",
            "t: line 3: value size is \"x\"; expected a whole number",
        ),
        (twitter, "1,k,1,1,get\n", "t: line 1: the line ends before operation; expected timestamp,key,"),
        (twitter, "-1,k,1,1,1,get,0\n", "t: line 1: timestamp is \"-1\""),
        (twitter, "1,,1,1,1,get,0\n", "t: line 1: key is \"\"; expected at least one byte"),
        (
            twitter,
            "1,k,1,1,1,get,99999999999\n",
            "t: line 1: TTL is \"99999999999\"; expected a whole number below 2^32",
        ),
        (cachelib, "key,op,size\nk,GET,1\nk,PUT,1\n", "t: line 3: op is \"PUT\"; expected GET, GET_LEASE,"),
        (cachelib, "key,op,size,op_count\nk,GET,1,0\n", "t: line 2: op_count is \"0\"; expected 1 or more"),
        (cachelib, "key,op,size\nk,GET\n", "t: line 2: the line ends before size; expected a header line"),
        (cachelib, "key,op,bytes\nk,GET,1\n", "t: the line ends before size; expected a header line"),
        (
            None,
            "not,a,trace\n",
            "t: no key-value trace has a first line like \"not,a,trace\"; allowed: twitter",
        ),
        (None, "one\n", "t: no key-value trace has a first line like \"one\"; allowed: twitter"),
    ] {
        let error = read(content.as_bytes(), format).expect_err(content).to_string();
        assert!(error.starts_with(message), "{content:?}: {error}");
    }
}

#[test]
fn a_header_alone_holds_no_request() {
    assert_eq!(read(b"key,op,size\n", None).unwrap(), (KvFormat::CacheLib, Vec::new()));
}

#[test]
fn formats_are_known_by_their_names() {
    for format in KvFormat::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = "memcached".parse::<KvFormat>().unwrap_err().to_string();
    assert_eq!(error, "unknown key-value trace format \"memcached\"; allowed: twitter, cachelib");
}
