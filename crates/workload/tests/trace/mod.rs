//! Block traces: every format by example, recognition, compression, shaping, writing, real traces, arbitrary bytes.

mod columns;
mod formats;
mod keys;
mod properties;
mod real;
mod recognition;
mod shaping;

use std::io::Cursor;

use pellucid_flash::SimTime;
use pellucid_workload::trace::{Action, Format, ReadOptions, Record, TraceError, TraceReader};

/// A reader over `content`, called `t` in messages.
fn reader(content: impl AsRef<[u8]>, options: &ReadOptions) -> Result<TraceReader, TraceError> {
    TraceReader::from_read("t", Cursor::new(content.as_ref().to_vec()), options)
}

fn named(format: Format) -> ReadOptions {
    ReadOptions { format: Some(format), ..ReadOptions::default() }
}

/// All records of `content`, whose format must be recognised as `format`.
fn records(format: Format, content: impl AsRef<[u8]>) -> Vec<Record> {
    let reader = reader(&content, &ReadOptions::default()).expect("recognised");
    assert_eq!(reader.format(), format);
    reader.collect::<Result<_, _>>().expect("well-formed")
}

/// The message of the first error in `content`, and the number of records before it.
fn failure(options: &ReadOptions, content: impl AsRef<[u8]>) -> (usize, String) {
    let reader = match reader(content, options) {
        Ok(reader) => reader,
        Err(error) => return (0, error.to_string()),
    };
    let mut good = 0;
    let mut reader = reader;
    for record in &mut reader {
        match record {
            Ok(_) => good += 1,
            Err(error) => {
                assert!(reader.next().is_none(), "the first error ends the reading");
                return (good, error.to_string());
            }
        }
    }
    panic!("no error after {good} records");
}

fn record(at_ns: u64, action: Action, offset_bytes: u64, length_bytes: u64, stream: u32) -> Record {
    Record { at: SimTime(at_ns), action, offset_bytes, length_bytes, stream }
}
