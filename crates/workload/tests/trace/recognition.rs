//! Recognition of format and compression.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use pellucid_workload::trace::kv::KvReader;
use pellucid_workload::trace::{Action, Format, ReadOptions, TraceReader};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{failure, named, reader, records};

const MSR: &str = "0,cp,0,Write,512,512,0\n2426390,cp,0,Read,0,1024,0\n";

#[test]
fn five_numbers_with_commas_and_blanks_are_ambiguous() {
    let line = "100, 8, 16, 0, 0\n";
    assert_eq!(
        failure(&ReadOptions::default(), line).1,
        "t: the first lines fit several formats, with different meanings; name the one, of: tencent, mqsim"
    );
    let action = |format| reader(line, &named(format)).unwrap().next().unwrap().unwrap().action;
    assert_eq!(action(Format::Tencent), Action::Read);
    assert_eq!(action(Format::Mqsim), Action::Write);
}

#[test]
fn unknown_content_is_refused() {
    let names =
        "msr, alibaba, tencent, fiu, spc, fio-v2, fio-v3, blkparse, blktrace, mqsim, systor, vscsi, csv";
    assert_eq!(
        failure(&ReadOptions::default(), "7 1,2\n").1,
        format!(r#"t: no known format has a first line like "7 1,2"; name the format, one of: {names}"#)
    );
    assert_eq!(
        failure(&ReadOptions::default(), "\n \n").1,
        format!("t: no line from which to recognise the format; name it, one of: {names}")
    );
    assert_eq!(
        "xls".parse::<Format>().unwrap_err().to_string(),
        format!(r#"unknown trace format "xls"; allowed: {names}"#)
    );
    for &format in Format::ALL {
        assert_eq!(format.name().parse::<Format>(), Ok(format));
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_trace() {
    let named = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    for content in [MSR.to_string(), format!("{named}{MSR}")] {
        let marked = format!("\u{feff}{content}");
        assert_eq!(records(Format::Msr, &marked[..]), records(Format::Msr, MSR));
        let found = reader(&marked[..], &ReadOptions::default()).unwrap();
        assert_eq!(found.format(), Format::Msr);
        assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), records(Format::Msr, MSR));
        let (_, message) = failure(&ReadOptions::default(), format!("{marked}3,cp,0,Wrote,0,512,0\n"));
        assert!(message.contains(r#" is "Wrote"; expected R"#), "{message}");
    }
}

#[test]
fn a_file_that_is_no_trace_is_named_and_not_printed() {
    let allowed =
        "which is not supported; allowed: an uncompressed trace, or one compressed with gzip or zstd";
    for (content, kind) in [
        (&b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21"[..], "compressed by xz"),
        (b"BZh91AY&SY\x13\x37\x01\0\xff\xfe", "compressed by bzip2"),
        (b"PK\x03\x04\x14\0\0\0", "a zip archive or a workbook"),
        (b"\xff\xfe1\0,\x002\0\n\0", "text in UTF-16"),
        (b"\x01\x02\x03\n\xff,\0,1\n", "binary data of no known format"),
    ] {
        assert_eq!(failure(&ReadOptions::default(), content).1, format!("t: it is {kind}, {allowed}"));
        let keys = KvReader::from_read("t", io::Cursor::new(content.to_vec()), None);
        assert_eq!(keys.err().expect("no trace").to_string(), format!("t: it is {kind}, {allowed}"));
    }
    let (_, message) = failure(&named(Format::Msr), &b"\xfd7zXZ\0\0\x04"[..]);
    assert!(message.contains("compressed by xz"), "{message}");
}

#[test]
fn a_bad_line_does_not_hide_the_format() {
    let trace = format!("{MSR}3,cp,0,Wrote,0,512,0\n");
    assert_eq!(
        failure(&ReadOptions::default(), trace),
        (2, r#"t: line 3: Type is "Wrote"; expected Read or Write"#.into())
    );
}

#[test]
fn an_empty_trace_of_a_named_format_has_no_records() {
    for format in Format::ALL.iter().copied().filter(|format| *format != Format::Csv) {
        assert_eq!(reader("", &named(format)).unwrap().count(), 0, "{format}");
    }
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &str) -> Vec<u8> {
    compress_to_vec(content.as_bytes(), CompressionLevel::Fastest)
}

#[test]
fn compressed_traces_of_several_members() {
    let (first, second) = MSR.split_at(30);
    let expected = records(Format::Msr, MSR);
    assert_eq!(records(Format::Msr, [gzip(first), gzip(second)].concat()), expected);
    // Tapes are padded with zeros.
    assert_eq!(records(Format::Msr, [gzip(first), gzip(second), vec![0; 1000]].concat()), expected);
    assert_eq!(records(Format::Msr, [zstd(first), zstd(second)].concat()), expected);
    let skippable = [0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
    assert_eq!(records(Format::Msr, [skippable.clone(), zstd(MSR), skippable].concat()), expected);
}

#[test]
fn damaged_compression_is_an_error() {
    let long: String = (0..20_000).map(|i| format!("{i},cp,0,Write,{},512,0\n", i * 7919)).collect();
    for whole in [gzip(&long), zstd(&long)] {
        let (good, message) = failure(&ReadOptions::default(), &whole[..whole.len() - 5]);
        assert!(good > 10_000, "records before the damage are handed out, got {good}");
        assert!(message.starts_with(&format!("t: line {}: cannot read: ", good + 1)), "{message}");
    }
    for (whole, why) in [
        (gzip(&long), "incomplete deflate stream"),
        (zstd(&long), "zstd: a frame is damaged or ends too early"),
    ] {
        let error =
            TraceReader::from_read("t", io::Cursor::new(whole[..12].to_vec()), &ReadOptions::default());
        assert_eq!(error.err().expect("damaged").to_string(), format!("t: cannot read: {why}"));
    }
    let (_, message) = failure(&ReadOptions::default(), [gzip(&long), vec![0; 9], vec![b'x'; 20]].concat());
    assert!(message.ends_with("invalid gzip header"), "{message}");
    let mut flipped = zstd(&long);
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let (_, message) = failure(&ReadOptions::default(), flipped);
    assert!(message.ends_with("zstd: the checksum of a frame does not match its data"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let error = TraceReader::open("no/such.trace", None).err().expect("there is no such file").to_string();
    assert!(error.starts_with("no/such.trace: cannot read: "), "{error}");
}

/// Returns one byte at a time, with interruptions.
struct Slow(io::Cursor<Vec<u8>>, bool);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = into.len().min(1);
        self.0.read(&mut into[..length])
    }
}

#[test]
fn short_and_interrupted_reads_change_nothing() {
    for content in [MSR.as_bytes().to_vec(), gzip(MSR), zstd(MSR)] {
        let slow = Slow(io::Cursor::new(content), false);
        let reader = TraceReader::from_read("t", slow, &ReadOptions::default()).unwrap();
        let all: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(all, records(Format::Msr, MSR));
    }
}

#[test]
fn lines_across_the_buffer_are_whole() {
    let long: String = (0..40_000).map(|i| format!("{i},cp,0,Write,{},512,0\n", i * 512)).collect();
    assert!(long.len() > 3 * 256 * 1024);
    let all = records(Format::Msr, &long);
    assert!(all.iter().enumerate().all(|(i, record)| record.offset_bytes == i as u64 * 512));
    assert_eq!(all.len(), 40_000);
}
