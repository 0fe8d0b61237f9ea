//! Any bytes are read as a trace, shaped to a small drive, and written back as fio's version 3.
//!
//! Byte 0 chooses the format (or recognition), byte 1 the block-layer event, byte 2 the address policy and sector size.

use std::collections::BTreeSet;
use std::io::Cursor;

use pellucid_flash::SimTime;
use pellucid_workload::trace::{
    Action, AddressPolicy, BlockEvent, Format, ReadOptions, Record, Shaping, TraceReader,
};

/// Keeps a decompression bomb from costing minutes.
const RECORDS_MAX: usize = 100_000;

/// One input.
pub fn run(data: &[u8]) {
    let [format, event, shape, content @ ..] = data else { return };
    let options = ReadOptions {
        format: Format::ALL.get(usize::from(*format)).copied(),
        block_event: match event % 4 {
            0 => None,
            1 => Some(BlockEvent::Queue),
            2 => Some(BlockEvent::Issue),
            _ => Some(BlockEvent::Complete),
        },
        ..ReadOptions::default()
    };
    let records = read(content, &options);
    write_back(&records);
    shaped(content, &options, *shape);
}

fn open(content: &[u8], options: &ReadOptions) -> Option<TraceReader> {
    TraceReader::from_read("fuzz", Cursor::new(content.to_vec()), options).ok()
}

fn read(content: &[u8], options: &ReadOptions) -> Vec<Record> {
    let Some(reader) = open(content, options) else { return Vec::new() };
    let records: Vec<Record> = reader.map_while(Result::ok).take(RECORDS_MAX).collect();
    let mut latest = SimTime::ZERO;
    for record in &records {
        assert!(record.at >= latest);
        assert!(record.offset_bytes.checked_add(record.length_bytes).is_some());
        latest = record.at;
    }
    records
}

fn write_back(records: &[Record]) {
    let mut text = String::from("fio version 3 iolog\n");
    for stream in records.iter().map(|record| record.stream).collect::<BTreeSet<_>>() {
        text += &format!("0 stream.{stream} add\n0 stream.{stream} open\n");
    }
    for Record { at, action, offset_bytes, length_bytes, stream } in records {
        let action = match action {
            Action::Read => "read",
            Action::Write => "write",
            Action::Trim => "trim",
            Action::Flush => "sync",
        };
        text += &format!("{} stream.{stream} {action} {offset_bytes} {length_bytes}\n", at.0 / 1_000);
    }
    let whole_us = |record: &Record| Record { at: SimTime(record.at.0 / 1_000 * 1_000), ..*record };
    let expected: Vec<Record> = records.iter().map(whole_us).collect();
    let options = ReadOptions { format: Some(Format::FioV3), ..ReadOptions::default() };
    assert_eq!(read(text.as_bytes(), &options), expected);
}

fn shaped(content: &[u8], options: &ReadOptions, shape: u8) {
    let addresses = match shape % 3 {
        0 => AddressPolicy::Refuse,
        1 => AddressPolicy::Fold,
        _ => AddressPolicy::Compact,
    };
    let sector_bytes = if shape < 128 { 512 } else { 4096 };
    let capacity_bytes = (64 << 20) + 4096;
    let shaping = Shaping { addresses, time_scale: 0.5, ..Shaping::new(capacity_bytes, sector_bytes) };
    let Some(reader) = open(content, options) else { return };
    let shaped = reader.shaped(shaping).expect("usable settings");
    for record in shaped.map_while(Result::ok).take(RECORDS_MAX) {
        if record.action == Action::Flush {
            continue;
        }
        assert!(record.length_bytes > 0);
        assert!(record.offset_bytes % u64::from(sector_bytes) == 0);
        assert!(record.length_bytes % u64::from(sector_bytes) == 0);
        assert!(record.offset_bytes + record.length_bytes <= capacity_bytes);
    }
}
