//! Traces with a header, and traces with given columns.

use pellucid_workload::trace::Action::{Flush, Read, Trim, Write};
use pellucid_workload::trace::{AddressPolicy, Format, ReadOptions, Record, Shaping, TraceReader};

use super::{failure, named, reader, record, records};

const NAMES: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const MSR: &str =
    "128166372003061629,hm,1,Read,8192,4096,100\n128166372013061629,hm,1,Write,16384,8192,100\n";

fn read_as(format: &str, content: &str) -> Vec<Record> {
    let options = ReadOptions::named(format).expect("a format");
    reader(content, &options).expect("readable").collect::<Result<_, _>>().expect("well-formed")
}

#[test]
fn a_line_of_names_is_no_request() {
    let expected = records(Format::Msr, MSR);
    assert_eq!(expected.len(), 2);
    for content in [
        format!("{NAMES}\n{MSR}"),
        format!("# exported\n{NAMES}\r\n{MSR}"),
        format!("{}\n{MSR}", NAMES.to_uppercase()),
    ] {
        assert_eq!(records(Format::Msr, &content), expected, "{content}");
        assert_eq!(read_as("msr", &content), expected, "{content}");
    }
    // A named format keeps the order of its columns, whatever they are called.
    assert_eq!(read_as("msr", &format!("when,host,disk,what,at,long,took\n{MSR}")), expected);
    let mqsim = "0 1 16 8 1\n1000000000 1 32 16 0\n2000000000 1 16 8 1\n";
    for names in ["# time device lba size type", "time device lba size type", "time device lba sectors type"]
    {
        let content = format!("{names}\n{mqsim}");
        assert_eq!(records(Format::Mqsim, &content), records(Format::Mqsim, mqsim), "{names}");
        assert_eq!(read_as("mqsim", &content), records(Format::Mqsim, mqsim), "{names}");
    }
    assert_eq!(read_as("msr", NAMES).len(), 0, "names alone are no request");
}

/// As exported by a spreadsheet: with an index, other columns, another order, quotes and decimals.
#[test]
fn names_of_a_format_give_the_order_of_its_columns() {
    let content = ",Offset,Size,Type,Timestamp,\"DiskNumber\",note\n\
                   0,8192.0,4096,Read,128166372003061629,1,x\n\
                   1,16384.0,8192,Write,128166372013061629,1,y\n";
    assert_eq!(records(Format::Msr, content), records(Format::Msr, MSR));
    let tencent = "VolumeID,IOType,Size,Offset,Timestamp\n7,0,8,16,100\n7,1,8,24,101\n";
    assert_eq!(
        records(Format::Tencent, tencent),
        [record(0, Read, 16 * 512, 4096, 7), record(1_000_000_000, Write, 24 * 512, 4096, 7)]
    );
}

#[test]
fn names_of_no_format_are_refused_with_what_to_do() {
    let (_, message) = failure(&ReadOptions::default(), "time,op,at,bytes,dev\n1,R,0,512,0\n");
    assert!(
        message.starts_with("t: no known format has columns like \"time,op,at,bytes,dev\"; allowed: "),
        "{message}"
    );
    assert!(message.contains("csv:time=NAME,op=NAME,offset=NAME,size=NAME,unit=us"), "{message}");
}

#[test]
fn columns_are_told() {
    let content = "when;what;from;long;disk\n1.5;W;8;2;3\n1.5015;r;0;1;3\n2;TRIM;0;8;4\n2;flush;;;4\n";
    let expected = [
        record(0, Write, 4096, 1024, 3),
        record(1_500, Read, 0, 512, 3),
        record(500_000, Trim, 0, 4096, 4),
        record(500_000, Flush, 0, 0, 4),
    ];
    let units = "unit=ms,offset_unit=512,size_unit=512";
    let by_name = format!("csv:time=when,op=what,offset=from,size=long,stream=disk,{units}");
    assert_eq!(read_as(&by_name, content), expected);
    let by_number = format!("csv:time=1,op=2,offset=3,size=4,stream=5,{units}");
    assert_eq!(read_as(&by_number, content), expected);
    let without_names = content.split_once('\n').unwrap().1;
    assert_eq!(read_as(&by_number, without_names), expected);
    let codes = "csv:time=1,op=2,offset=3,size=4,unit=s,read=1,write=0";
    assert_eq!(
        read_as(codes, "7 0 0 512\n8 1 512 512\n"),
        [record(0, Write, 0, 512, 0), record(1_000_000_000, Read, 512, 512, 0)]
    );
}

#[test]
fn columns_that_cannot_be_are_named() {
    let usual = "csv:time=t,op=o,offset=a,size=s";
    for (text, problem) in [
        ("csv", "\"\" is no KEY=VALUE"),
        (usual, "unit is missing"),
        ("csv:time=t,op=o,offset=a,unit=us", "size is missing"),
        ("csv:time=t,op=o,offset=a,size=s,unit=fortnights", "unit is \"fortnights\""),
        ("csv:time=t,op=o,offset=a,size=s,unit=us,colour=c", "colour is unknown"),
        ("csv:time=t,time=u", "time is given twice"),
        ("csv:time=0,op=2,offset=3,size=4,unit=us", "time is 0, and columns are counted from 1"),
        ("csv:time=1,op=2,offset=3,size=4,unit=us,stream=-1", "stream is -1, and columns are counted from 1"),
        ("csv:time=t,op=o,offset=a,size=s,unit=us,offset_unit=0", "offset_unit is \"0\""),
    ] {
        let message = ReadOptions::named(text).expect_err(text).to_string();
        assert!(message.contains(&format!("{problem}; allowed: csv:time=NAME")), "{message}");
    }
    let options = ReadOptions::named(&format!("{usual},unit=us")).unwrap();
    for (content, message) in [
        (
            "t,o,a\n1,R,0\n",
            "t: line 1: no column is called \"s\"; allowed: one of the first line, which is \"t,o,a\"",
        ),
        ("t,o,a,s\n1,R,0\n", "t: line 2: the line ends before size; expected the columns of the first line"),
        ("t,o,a,s\n1,R,0.5,1\n", "t: line 2: offset is \"0.5\"; expected a whole number below 2^64"),
        (
            "t,o,a,s\n1,0,0,1\n",
            "t: line 2: op is \"0\"; expected R, W, read, write, trim, discard or flush; other codes by read=CODE and write=CODE",
        ),
    ] {
        assert_eq!(failure(&options, content), (0, message.to_owned()));
    }
}

/// The first line decides, and its error is reported.
#[test]
fn a_bad_field_in_the_first_line_is_named() {
    let all = |line: &str| failure(&ReadOptions::default(), format!("{line}\n")).1;
    let message = all("128166372003061629,hm,1,Raed,8192,4096,100");
    assert!(
        message.starts_with(
            "t: the first line, read as msr: Type is \"Raed\"; expected Read or Write; allowed: "
        ),
        "{message}"
    );
    let message = all("1538323200,12910952,128,2,1063");
    assert!(
        message.contains("read as tencent: IOType is \"2\"; expected 0 (read) or 1 (write)"),
        "{message}"
    );
    let message = all("0 1 16 8 2");
    assert!(
        message
            .starts_with("t: the first line, read as mqsim: type is \"2\"; expected 0 (write) or 1 (read)"),
        "{message}"
    );
}

#[test]
fn a_trace_without_a_request_is_no_work() {
    let find = |content: &str, format| {
        let options = if let Some(format) = format { named(format) } else { ReadOptions::default() };
        reader(content, &options).unwrap().find_work(None).map_err(|error| error.to_string())
    };
    let message = find(
        "  8,0    0        1     0.0  1 UT   N [fio] 1\n  8,0    0        2     0.1  1  P   N [fio]\n",
        None,
    );
    assert_eq!(
        message.unwrap_err(),
        "t: no request in the trace (format blkparse), whose 2 lines or records hold other data; \
         expected at least one: an event Q, D or C with sectors"
    );
    assert!(find("", Some(Format::Msr)).is_err());
    assert!(find(NAMES, Some(Format::Msr)).is_err());
    assert_eq!(find(MSR, None), Ok(()));
}

#[test]
fn a_trace_is_taken_several_times() {
    let text = "0 0 0 8 0\n100 0 8 8 0\n200 0 16 8 1\n";
    let open = move || {
        let input = std::io::Cursor::new(text.as_bytes().to_vec());
        TraceReader::from_read("t", input, &ReadOptions::default())
    };
    let times = |limit, stream| {
        let shaping =
            Shaping { limit, stream, addresses: AddressPolicy::Refuse, ..Shaping::new(1 << 20, 512) };
        let shaped = open().unwrap().shaped(shaping).unwrap().repeated(3, Box::new(open));
        shaped.map(|record| record.unwrap().at.0).collect::<Vec<_>>()
    };
    // A pass begins a mean gap after the one before.
    assert_eq!(times(None, None), [0, 100, 200, 300, 400, 500, 600, 700, 800]);
    assert_eq!(times(Some(1), Some(0)), [0, 0, 0], "a pass of one record has no gap");
    assert_eq!(times(Some(2), None).len(), 6, "the limit is that of a pass");
}
