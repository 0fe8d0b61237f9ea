//! Every format by small literal examples, good and malformed.

use pellucid_workload::trace::Action::{Flush, Read, Trim, Write};
use pellucid_workload::trace::{BlockEvent, Format, Position, ReadOptions};

use super::{failure, named, reader, record, records};

#[test]
fn msr() {
    let trace = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                 128166372016382155,usr,1,Write,1317441536,8192,1963\r\n";
    let expected =
        [record(0, Read, 7014609920, 24576, 0), record(13_320_526 * 100, Write, 1317441536, 8192, 1)];
    assert_eq!(records(Format::Msr, trace), expected);
}

#[test]
fn msr_malformed() {
    let bad = |line: &str| failure(&named(Format::Msr), format!("0,h,0,Read,0,512,0\n{line}\n"));
    let layout = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    for (line, reason) in [
        ("1,h,0,Reed,0,512,0", r#"Type is "Reed"; expected Read or Write"#.to_owned()),
        ("x1,h,0,Read,0,512,0", r#"Timestamp is "x1"; expected a whole number below 2^64"#.to_owned()),
        ("1,h,-1,Read,0,512,0", r#"DiskNumber is "-1"; expected a whole number below 2^32"#.to_owned()),
        ("1,h,4294967296,Read,0,1,0", r#"DiskNumber is "4294967296"; expected a whole number below 2^32"#.to_owned()),
        ("1,h,0,Read,,512,0", r#"Offset is ""; expected a whole number below 2^64"#.to_owned()),
        (
            "1,h,0,Read,18446744073709551616,512,0",
            r#"Offset is "18446744073709551616"; expected a whole number below 2^64"#.to_owned(),
        ),
        ("1,h,0,Read,0", format!("the line ends before Size; expected {layout}")),
        (
            "1,h,0,Read,0,512,0,9,9",
            format!(r#"the line continues with "9,9" after its last field; expected {layout}"#),
        ),
        (
            "1,h,0,Read,18446744073709551615,1,0",
            "the request (offset 18446744073709551615 x 1 B, length 1 x 1 B) is out of range; \
             expected an end below byte 2^64"
                .to_owned(),
        ),
        (
            "18446744073709551615,h,0,Read,0,1,0",
            "the time 18446744073709551615 x 100 ns is too late; expected less than 2^64 ns after the first record"
                .to_owned(),
        ),
    ] {
        assert_eq!(bad(line), (1, format!("t: line 2: {reason}")));
    }
}

#[test]
fn alibaba() {
    let trace = "419,W,8792731648,16384,1577808000000046\n725,R,59110326272,4096,1577808000000372\n";
    let expected = [record(0, Write, 8792731648, 16384, 419), record(326_000, Read, 59110326272, 4096, 725)];
    assert_eq!(records(Format::Alibaba, trace), expected);
    assert_eq!(
        failure(&named(Format::Alibaba), "419,X,0,1,0"),
        (0, r#"t: line 1: opcode is "X"; expected R or W"#.into())
    );
}

#[test]
fn tencent_reads_with_0() {
    let trace = "1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n";
    let expected = [
        record(0, Read, 12910952 * 512, 65536, 1063),
        record(1_000_000_000, Write, 6338688 * 512, 4096, 1627),
    ];
    assert_eq!(records(Format::Tencent, trace), expected);
    assert_eq!(
        failure(&named(Format::Tencent), "1538323200,12910952,128,2,1063"),
        (0, r#"t: line 1: IOType is "2"; expected 0 (read) or 1 (write)"#.into())
    );
}

#[test]
fn mqsim_writes_with_0() {
    let trace = "11413000 0 657728 16 1\n11565000 13 31244784 64 0\n";
    let expected =
        [record(0, Read, 657728 * 512, 8192, 0), record(152_000, Write, 31244784 * 512, 32768, 13)];
    assert_eq!(records(Format::Mqsim, trace), expected);
    assert_eq!(
        failure(&named(Format::Mqsim), "1 2 3 4"),
        (
            0,
            "t: line 1: the line ends before type; expected time device lba sectors type, between blanks"
                .into()
        )
    );
    assert_eq!(
        failure(&named(Format::Mqsim), "1 2 36028797018963968 4 0").1,
        "t: line 1: the request (offset 36028797018963968 x 512 B, length 4 x 512 B) is out of range; \
         expected an end below byte 2^64"
    );
}

#[test]
fn fiu_with_blanks_in_the_process_name() {
    let digest = "531e779d5b4d8b4c2f3b1a0a9c8d7e6f";
    let trace = format!(
        "89967195123 5090 syslogd 904265560 8 W 6 0 {digest}\n\
         89967195999 5091 Web Content 7 16 R 253 3 {digest}\n"
    );
    let expected =
        [record(0, Write, 904265560 * 512, 4096, 6 << 20), record(876, Read, 7 * 512, 8192, 253 << 20 | 3)];
    assert_eq!(records(Format::Fiu, &trace), expected);
    let fiu = named(Format::Fiu);
    assert_eq!(
        failure(&fiu, "1 2 p 3 8 W 6 0 xyz").1,
        r#"t: line 1: md5 is "xyz"; expected 32 hexadecimal digits"#
    );
    assert_eq!(
        failure(&fiu, format!("1 2 3 8 W 6 0 {digest}")).1,
        "t: line 1: the line ends before process; expected ts pid process lba size op major minor md5"
    );
    assert_eq!(
        failure(&fiu, format!("1 2 p 3 8 W 4096 0 {digest}")).1,
        r#"t: line 1: minor is "0"; expected a minor number below 2^20, with a major number below 2^12"#
    );
}

#[test]
fn spc_in_either_unit() {
    let trace = "0,20941264,8192,W,0.551706\n1,20939840,8192,r,0.554041,x,y\n0,3436288,15872,w,1\n";
    let expected = [
        record(0, Write, 20941264 * 512, 8192, 0),
        record(2_335_000, Read, 20939840 * 512, 8192, 1),
        record(448_294_000, Write, 3436288 * 512, 15872, 0),
    ];
    assert_eq!(records(Format::Spc, trace), expected);

    let options = ReadOptions { spc_lba_bytes: 4096, ..named(Format::Spc) };
    let first = reader(trace, &options).unwrap().next().unwrap().unwrap();
    assert_eq!(first.offset_bytes, 20941264 * 4096);

    assert_eq!(
        failure(&named(Format::Spc), "0,1,512,W,0.5e3").1,
        r#"t: line 1: Timestamp is "0.5e3"; expected seconds, with or without decimals, below 2^64 ns"#
    );
    assert_eq!(
        failure(&ReadOptions { spc_lba_bytes: 0, ..ReadOptions::default() }, trace).1,
        "t: spc_lba_bytes is 0; allowed: 1 or more"
    );
}

#[test]
fn fio_version_2() {
    let trace = "fio version 2 iolog\n/dev/sdb add\n/dev/sdc add\n/dev/sdb open\n/dev/sdb wait 500 0\n\
                 /dev/sdb write 4096 8192\n/dev/sdb wait 20 0\n/dev/sdc read 0 512\n/dev/sdb wait 30\n\
                 /dev/sdc trim 0 1048576\n/dev/sdb sync 0 0\n/dev/sdb datasync\n/dev/sdb close\n";
    let expected = [
        record(0, Write, 4096, 8192, 0),
        record(20_000, Read, 0, 512, 1),
        record(50_000, Trim, 0, 1048576, 1),
        record(50_000, Flush, 0, 0, 0),
        record(50_000, Flush, 0, 0, 0),
    ];
    assert_eq!(records(Format::FioV2, trace), expected);
    let bad = |line: &str| failure(&ReadOptions::default(), format!("fio version 2 iolog\n{line}\n")).1;
    assert_eq!(
        bad("f rread 0 0"),
        r#"t: line 2: action is "rread"; expected add, open, close, read, write, trim, sync, datasync or wait"#
    );
    assert_eq!(
        bad("f read"),
        "t: line 2: the line ends before offset; expected filename action [offset length]"
    );
    assert_eq!(
        bad("f add now"),
        "t: line 2: the line continues with \"now\" after its last field; expected filename action [offset length]"
    );
}

#[test]
fn fio_version_3() {
    let trace = "fio version 3 iolog\n1000 a add\n1001 a open\n1005 a read 512 1024\n1010 stream.7 write 0 4096\n\
                 1011 a sync\n1012 a close\n";
    let expected =
        [record(0, Read, 512, 1024, 0), record(5_000, Write, 0, 4096, 7), record(6_000, Flush, 0, 0, 0)];
    assert_eq!(records(Format::FioV3, trace), expected);
    assert_eq!(
        failure(&ReadOptions::default(), "fio version 3 iolog\n5 f wait 100 0\n").1,
        r#"t: line 2: action is "wait"; expected add, open, close, read, write, trim, sync or datasync"#
    );
    assert_eq!(
        failure(&named(Format::FioV3), "fio version 2 iolog\n").1,
        r#"t: line 1: the header is "fio version 2 iolog"; expected fio version 3 iolog"#
    );
}

const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000500000   697  Q FWFS 223498 + 16 [jbd2/sda1-8]
  8,16   3        4     0.000600000   697  Q  DS 4096 + 2048 [fstrim]
  8,0    3        5     0.000700000   697  Q FWS [jbd2/sda1-8]
  8,0    3        6     0.000800000   697  D   W 223490 + 24 [kjournald]
  8,0    3        7     0.000900000   697  Q   R 36 (12 00 00 00 24 00) [hald]
  8,0    3        8     0.001000000     0  C   W 223490 + 24 [0]
  8,0    3        9     1.001000000     0  m   N cfq700  something
CPU0 (sda):
 Reads Queued:           0,        0KiB	 Writes Queued:           3
Total (sda):
";

#[test]
fn blkparse_by_event() {
    let (sda, sdb) = (8 << 20, 8 << 20 | 16);
    let expected = [
        record(0, Write, 223490 * 512, 4096, sda),
        record(500_000, Flush, 0, 0, sda),
        record(500_000, Write, 223498 * 512, 8192, sda),
        record(600_000, Trim, 4096 * 512, 1048576, sdb),
        record(700_000, Flush, 0, 0, sda),
    ];
    assert_eq!(records(Format::Blkparse, BLKPARSE), expected);

    for event in [BlockEvent::Issue, BlockEvent::Complete] {
        let options = ReadOptions { block_event: Some(event), ..ReadOptions::default() };
        let all: Vec<_> = reader(BLKPARSE, &options).unwrap().map(Result::unwrap).collect();
        assert_eq!(all, [record(0, Write, 223490 * 512, 12288, sda)]);
    }
}

#[test]
fn blkparse_falls_back_to_issue_then_completion() {
    let without = |words: &[&str]| -> String {
        let kept = |line: &&str| !words.iter().any(|word| line.contains(&format!(" {word} ")));
        BLKPARSE.lines().filter(kept).flat_map(|line| [line, "\n"]).collect()
    };
    let only = |trace: String| records(Format::Blkparse, trace).len();
    assert_eq!(only(without(&["Q"])), 1);
    assert_eq!(only(without(&["Q", "D"])), 1);
    assert_eq!(only(without(&["Q", "D", "C"])), 0);
}

/// A request of no sectors counts as empty in a replay.
#[test]
fn blkparse_of_no_sectors() {
    let lines = "8,0 3 1 0.0 697 Q R 8 + 0 [x]\n8,0 3 2 0.1 697 Q W 16 [x]\n8,0 3 3 0.2 697 Q N 0 [x]\n";
    let sda = 8 << 20;
    let expected = [record(0, Read, 8 * 512, 0, sda), record(100_000_000, Write, 16 * 512, 0, sda)];
    assert_eq!(records(Format::Blkparse, lines), expected);
}

#[test]
fn blkparse_malformed() {
    let bad = |line: &str| failure(&named(Format::Blkparse), line).1;
    assert_eq!(
        bad("8.0 3 1 0.0 697 Q W 1 + 8 [x]"),
        r#"t: line 1: major,minor is "8.0"; expected a device number such as 8,0"#
    );
    assert_eq!(
        bad("8,0 3 1 0.0 697 Q W 1 - 8 [x]"),
        r#"t: line 1: the word after sector is "-"; expected +"#
    );
    // A truncated line.
    for cut in ["8,0 3 1 0.0 697 Q W 1", "8,0 3 1 0.0 697 Q W 1 +"] {
        assert!(bad(cut).starts_with("t: line 1: "), "{}", bad(cut));
    }
    assert_eq!(
        bad("8,0 3 1 0.0 697 Q W 1 + x [x]"),
        r#"t: line 1: nsectors is "x"; expected a whole number below 2^64"#
    );
}

/// One blktrace record in little-endian order.
fn binary(time_ns: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(0x6561_7407u32.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(time_ns.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20 | 1, 0] {
        record.extend(word.to_le_bytes());
    }
    record.extend(0u16.to_le_bytes());
    record.extend((payload.len() as u16).to_le_bytes());
    record.extend(payload);
    record
}

const READ: u32 = 1 << 16;
const WRITE: u32 = 2 << 16;
const FLUSH: u32 = 4 << 16;
const PASSED_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

#[test]
fn blktrace() {
    let trace = [
        binary(5, 0, 0, NOTIFY | 1, b"message"),
        binary(1_000, 8, 4096, READ | 1, &[]),
        binary(2_000, 16, 8192, WRITE | FLUSH | 1, b"xy"),
        binary(3_000, 16, 8192, WRITE | 7, &[]),
        binary(4_000, 0, 1048576, WRITE | DISCARD | 1 << 8 | 1, &[0; 8]),
        binary(4_500, 0, 36, READ | PASSED_THROUGH | 1, &[]),
        binary(5_000, 0, 0, FLUSH | 1, &[]),
    ]
    .concat();
    let device = 8 << 20 | 1;
    let expected = [
        record(0, Read, 4096, 4096, device),
        record(1_000, Flush, 0, 0, device),
        record(1_000, Write, 8192, 8192, device),
        record(3_000, Trim, 0, 1048576, device),
        record(4_000, Flush, 0, 0, device),
    ];
    assert_eq!(records(Format::Blktrace, trace), expected);
}

#[test]
fn blktrace_of_a_big_endian_machine() {
    let mut trace = Vec::new();
    trace.extend(0x6561_7407u32.to_be_bytes());
    trace.extend(1u32.to_be_bytes());
    trace.extend(9u64.to_be_bytes());
    trace.extend(0x1_0000_0001u64.to_be_bytes());
    for word in [4096u32, WRITE | 7, 77, 3, 0] {
        trace.extend(word.to_be_bytes());
    }
    trace.extend([0; 4]);
    assert_eq!(records(Format::Blktrace, trace), [record(0, Write, 0x1_0000_0001 * 512, 4096, 3)]);
}

#[test]
fn blktrace_malformed() {
    let good = binary(1, 0, 512, READ | 1, b"abcd");
    let auto = ReadOptions::default();
    let cut = [&good[..], &good[..20]].concat();
    assert_eq!(
        failure(&auto, cut),
        (1, "t: byte 52: the trace ends inside a record; expected 48 bytes, found 20".into())
    );
    assert_eq!(
        failure(&auto, &good[..50]),
        (0, "t: byte 0: the trace ends inside a record; expected 4 bytes, found 2".into())
    );
    let mut other = good.clone();
    other.extend_from_slice(&good);
    other[52] = 6;
    let expected = "the magic number is \"0x65617406\"; expected 0x65617407, that is blktrace version 7";
    assert_eq!(failure(&auto, other), (1, format!("t: byte 52: {expected}")));
}

#[test]
fn times_that_go_backwards_are_held_and_counted() {
    let trace = "100 0 0 8 0\n300 0 0 8 0\n200 0 0 8 0\n50 0 0 8 0\n400 0 0 8 0\n\n";
    let mut reader = reader(trace, &ReadOptions::default()).unwrap();
    let times: Vec<u64> = reader.by_ref().map(|record| record.unwrap().at.0).collect();
    assert_eq!(times, [0, 200, 200, 200, 300]);
    let stats = reader.stats();
    assert_eq!((stats.records, stats.backwards, stats.skipped), (5, 2, 1));
    assert!(matches!(reader.position(), Position::Line(_)));
}

#[test]
fn a_line_without_end_is_refused() {
    let endless = vec![b'1'; 1 << 20];
    assert_eq!(
        failure(&named(Format::Msr), endless),
        (0, "t: line 1: the line is too long; expected at most 65536 bytes".into())
    );
}

#[test]
fn systor() {
    let trace = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                 1456135200.013118000,0.000806000,W,4,899056122368,131072\n\
                 1456135200.013618000,,,4,0,4096\n\
                 1456135200.014118000,0.000100000,R,3,4096,8192\n";
    let expected = [record(0, Write, 899056122368, 131072, 4), record(1_000_000, Read, 4096, 8192, 3)];
    assert_eq!(records(Format::Systor, trace), expected);
    let (_, without_names) = trace.split_once('\n').unwrap();
    assert_eq!(records(Format::Systor, without_names), expected);
    assert_eq!(
        failure(&named(Format::Systor), "1.5,0.1,X,0,0,512\n"),
        (0, r#"t: line 1: IOType is "X"; expected R or W"#.into())
    );
}

/// One record of each version: 4 KiB at block 16, this many microseconds after an hour.
fn vscsi_record(version: u8, command: u8, us: u64) -> Vec<u8> {
    let (length, block, time) =
        (4096u32.to_le_bytes(), 16u64.to_le_bytes(), (3_600_000_000 + us).to_le_bytes());
    let what = [command, 0, 0x39, version];
    match version {
        1 => [&[7, 0, 0, 0][..], &length, &[1, 0, 0, 0], &what, &block, &time].concat(),
        _ => [&what[..], &[7, 0, 0, 0], &length, &[1, 0, 0, 0], &block, &time, &[9; 8]].concat(),
    }
}

#[test]
fn vscsi() {
    for version in [1, 2] {
        // A read, an inquiry, a write, a cache flush.
        let trace: Vec<u8> = [(0x28, 0), (0x12, 1), (0x2a, 5), (0x35, 6)]
            .into_iter()
            .flat_map(|(command, us)| vscsi_record(version, command, us))
            .collect();
        let expected = [
            record(0, Read, 8192, 4096, 0),
            record(5_000, Write, 8192, 4096, 0),
            record(6_000, Flush, 0, 0, 0),
        ];
        assert_eq!(records(Format::Vscsi, &trace), expected);
        // WRITE SAME and UNMAP, whose lengths are missing in records.
        let without_length: Vec<u8> = [(0x41, 0), (0x93, 1), (0x42, 2)]
            .into_iter()
            .flat_map(|(command, us)| vscsi_record(version, command, us))
            .collect();
        let expected =
            [record(0, Write, 8192, 0, 0), record(1_000, Write, 8192, 0, 0), record(2_000, Trim, 0, 0, 0)];
        assert_eq!(records(Format::Vscsi, &without_length), expected);
        let (_, cut) = failure(&ReadOptions::default(), &trace[..trace.len() - 1]);
        assert!(cut.contains("the trace ends inside a record"), "{cut}");
        let other = [trace.clone(), vscsi_record(version, 0x28, 7), vec![0; 40]].concat();
        let long: Vec<u8> = [trace.repeat(4), other].concat();
        let (_, other) = failure(&ReadOptions::default(), long);
        assert!(other.contains(r#"the version is "0"; expected 1 or 2"#), "{other}");
    }
}

/// No protocol allows a request longer than 2^32 blocks of 4 KiB: a larger length is a damaged field, and is not clipped.
#[test]
fn a_request_that_no_protocol_has_is_refused_in_every_format() {
    let digest = "531e779d5b4d8b4c2f3b1a0a9c8d7e6f";
    for (format, before, after) in [
        (Format::Msr, "1,h,0,Read,0,", ",0"),
        (Format::Alibaba, "1,W,0,", ",5"),
        (Format::Tencent, "5,0,", ",0,7"),
        (Format::Spc, "0,0,", ",R,0.0"),
        (Format::Systor, "0.5,0.1,R,0,0,", ""),
        (Format::Fiu, "5 9 p 0 ", &*format!(" W 8 0 {digest}")),
        (Format::Mqsim, "5 0 0 ", " 1"),
        (Format::FioV2, "fio version 2 iolog\nf read 0 ", ""),
        (Format::FioV3, "fio version 3 iolog\n5 f read 0 ", ""),
        (Format::Blkparse, "8,0 0 1 0.000000001 9 Q R 0 + ", " [p]"),
    ] {
        for length in ["18446744073709551615", "17592186044417"] {
            let trace = format!("{before}{length}{after}\n");
            let (_, told) = failure(&named(format), &trace);
            let expected = "is out of range; expected at most 17592186044416 B in one request";
            assert!(told.contains(length) && told.contains(expected), "{format}: {told}");
        }
        let text = format!("{before}8{after}\n");
        let read = reader(&text, &named(format)).expect("a trace").collect::<Result<Vec<_>, _>>();
        assert_eq!(read.expect("a request").len(), 1, "{format}");
    }
}
