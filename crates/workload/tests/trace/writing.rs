//! A written trace can be read back.

use pellucid_flash::Nanos;
use pellucid_workload::trace::Action::{Flush, Read, Trim, Write};
use pellucid_workload::trace::{Action, Format, Record, TraceWriter, WriteError};

use super::{record, records};

fn written(format: Format, records: &[Record]) -> Result<String, WriteError> {
    let mut writer = TraceWriter::new(Vec::new(), format)?;
    for record in records {
        writer.write(record)?;
    }
    Ok(String::from_utf8(writer.finish()?).expect("text"))
}

#[test]
fn roundtrip_of_every_written_format() {
    let data = [
        record(0, Write, 4096, 8192, 3),
        record(0, Read, u64::MAX - 512, 512, 0),
        record(1_000, Read, 0, 512, 8 << 20 | 1),
        record(1_000, Write, 0, 0, 3),
        record(9_000_000_000_000, Write, 1 << 40, 1 << 20, 0),
    ];
    for format in [Format::Msr, Format::FioV2, Format::FioV3] {
        assert_eq!(records(format, written(format, &data).unwrap()), data, "{format}");
    }
    let more =
        [record(0, Flush, 0, 0, 1), record(5_000, Trim, 512, 1 << 40, 0), record(5_000, Flush, 0, 0, 1)];
    for format in [Format::FioV2, Format::FioV3] {
        assert_eq!(records(format, written(format, &more).unwrap()), more, "{format}");
    }
}

#[test]
fn the_text_is_what_other_tools_expect() {
    let data =
        [record(0, Write, 4096, 8192, 3), record(2_999, Flush, 0, 0, 3), record(4_000, Read, 0, 512, 1)];
    assert_eq!(
        written(Format::FioV2, &data).unwrap(),
        "fio version 2 iolog\nstream.3 add\nstream.3 open\nstream.3 write 4096 8192\nstream.3 wait 2 0\n\
         stream.3 sync 0 0\nstream.1 add\nstream.1 open\nstream.1 wait 2 0\nstream.1 read 0 512\n\
         stream.1 close\nstream.3 close\n"
    );
    assert_eq!(
        written(Format::FioV3, &data).unwrap(),
        "fio version 3 iolog\n0 stream.3 add\n0 stream.3 open\n0 stream.3 write 4096 8192\n\
         2 stream.3 sync 0 0\n4 stream.1 add\n4 stream.1 open\n4 stream.1 read 0 512\n\
         4 stream.1 close\n4 stream.3 close\n"
    );
    let mut msr = TraceWriter::new(Vec::new(), Format::Msr).unwrap();
    msr.write_timed(&data[0], Nanos::from_us(30)).unwrap();
    msr.write(&data[2]).unwrap();
    assert_eq!(
        String::from_utf8(msr.finish().unwrap()).unwrap(),
        "0,pellucid,3,Write,4096,8192,300\n40,pellucid,1,Read,0,512,0\n"
    );
}

#[test]
fn what_cannot_be_written_is_refused() {
    let message = |format, records: &[Record]| written(format, records).unwrap_err().to_string();
    assert_eq!(message(Format::Spc, &[]), "traces are not written as spc; allowed: msr, fio-v2, fio-v3");
    let action = |action: Action| message(Format::Msr, &[record(0, action, 0, 512, 0)]);
    assert_eq!(
        action(Trim),
        "msr has no word for a trim; allowed there: read, write; or write fio-v2 or fio-v3"
    );
    assert_eq!(
        action(Flush),
        "msr has no word for a flush; allowed there: read, write; or write fio-v2 or fio-v3"
    );
    assert_eq!(
        message(Format::FioV3, &[record(10, Read, 0, 512, 0), record(9, Read, 0, 512, 0)]),
        "a record at 9 ns follows one at 10 ns; allowed: times that do not decrease"
    );
}
