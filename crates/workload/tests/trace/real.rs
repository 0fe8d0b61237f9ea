//! Real traces: the one shipped as an example, and those beside the checkout, if any.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use pellucid_workload::trace::{Action, AddressPolicy, Format, Shaping, TraceReader};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example() -> TraceReader {
    TraceReader::open(root().join("examples/cloudphysics.csv.zst"), None).expect("the shipped example")
}

/// Requests, writes, bytes written, and the end of the highest request.
fn summary(mut reader: TraceReader) -> (u64, u64, u64, u64) {
    let (mut writes, mut written_bytes, mut end_bytes) = (0, 0, 0);
    for record in reader.by_ref() {
        let record = record.expect("well-formed");
        end_bytes = end_bytes.max(record.offset_bytes + record.length_bytes);
        if record.action == Action::Write {
            writes += 1;
            written_bytes += record.length_bytes;
        }
    }
    assert_eq!(reader.stats().backwards, 0);
    (reader.stats().records, writes, written_bytes, end_bytes)
}

#[test]
fn the_shipped_example_is_whole() {
    let reader = example();
    assert_eq!(reader.format(), Format::Msr);
    let (requests, writes, written_bytes, end_bytes) = summary(reader);
    assert_eq!((requests, writes), (113_872, 66_898));
    assert_eq!(written_bytes / 100_000_000, 24);
    assert_eq!(end_bytes / 100_000_000, 335);
}

#[test]
fn the_shipped_example_fits_a_small_drive() {
    let capacity_bytes = 1 << 30;
    for addresses in [AddressPolicy::Fold, AddressPolicy::Compact] {
        let shaping = Shaping { addresses, ..Shaping::new(8 * capacity_bytes, 4096) };
        let mut shaped = example().shaped(shaping).unwrap();
        let mut latest = Default::default();
        for record in shaped.by_ref() {
            let record = record.expect("fits");
            assert!(record.offset_bytes + record.length_bytes <= 8 * capacity_bytes);
            assert!(record.offset_bytes % 4096 == 0 && record.length_bytes % 4096 == 0);
            assert!(record.at >= latest);
            latest = record.at;
        }
        assert_eq!(shaped.stats().taken, 113_872);
    }
    let error = example().shaped(Shaping::new(capacity_bytes, 512)).unwrap().find_map(Result::err);
    let message = error.expect("the trace is larger than the drive").to_string();
    assert!(
        message.contains("line 1: the request (offset 21981565440 B, length 512 B) ends beyond"),
        "{message}"
    );
}

/// The folder `PELLUCID_TRACES`, or `shared/traces` beside the checkout.
fn folder() -> Option<PathBuf> {
    let folder =
        std::env::var_os("PELLUCID_TRACES").map_or_else(|| root().join("../shared/traces"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    let message = format!("skipped: no real traces in {}; set PELLUCID_TRACES\n", folder.display());
    io::stderr().write_all(message.as_bytes()).expect("standard error");
    None
}

#[test]
fn every_line_of_the_real_traces_is_a_request() {
    let Some(folder) = folder() else { return };
    for (name, format) in [
        ("cloudphysics-w.msr.csv", Format::Msr),
        ("tpcc-small.trace", Format::Mqsim),
        ("wsrch-small.trace", Format::Mqsim),
    ] {
        let path = folder.join(name);
        let lines = BufReader::new(File::open(&path).expect("a trace")).lines().count() as u64;
        let reader = TraceReader::open(&path, None).expect("recognised");
        assert_eq!(reader.format(), format);
        let (requests, writes, ..) = summary(reader);
        assert_eq!(requests, lines, "{name}");
        match name {
            "cloudphysics-w.msr.csv" => assert_eq!((requests, writes), (113_872, 66_898)),
            // `awk '$5 == 0'`: MQSim writes with 0.
            "tpcc-small.trace" => assert_eq!((requests, writes), (6_999, 2_618)),
            // Its last line has no line end, so `wc -l` counts one less.
            _ => assert_eq!(requests, 24_783),
        }
    }
}
