//! Pauses of garbage collection agree with the erases that a drive counts, and with the timeline of what it did.

use crate::timeline::{ALL, recorded};
use pellucid_device::{OperationKind, Timeline};
use pellucid_flash::{Cause, SimTime};
use pellucid_report::Report;
use pellucid_spec::Spec;
use std::collections::BTreeMap;

/// A drive that is filled, and has to collect from the first write on.
const DRIVE: &str = r#"
[drive.media]
channels = 2
ways = 2
planes = 1
blocks = 24
pages = 16
page_size = "4KiB"
sector_size = 512
unit_size = "4KiB"
cell = "slc"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
[drive.ftl]
over_provisioning = 0.35
durability = "volatile"
[drive.buffer]
entries = 32
[precondition]
fill = 0.9
[[job]]
rw = "randwrite"
bs = "4k"
iodepth = 8
number_ios = 6000
"#;

fn drive(sets: &[&str]) -> Spec {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    pellucid_spec::from_str(DRIVE, "small", &sets).unwrap_or_else(|e| panic!("{sets:?}: {e}"))
}

/// Victims under way when a run begins or ends: a few on each die.
const UNDER_WAY: u64 = 4 * 6;

fn check(report: &Report, name: &str) {
    let gc = &report.gc;
    let (pauses, erased) = (&gc.pauses, gc.erased_blocks.total());
    assert!(
        pauses.count > 100 && pauses.count.abs_diff(erased) <= UNDER_WAY,
        "{name}: {pauses:?}, {erased} erased"
    );
    assert_eq!(pauses.distribution.count.iter().sum::<u64>(), pauses.count, "{name}");
    let (p50, p99, longest) = (pauses.p50_ns.unwrap(), pauses.p99_ns.unwrap(), pauses.max_ns.unwrap());
    assert!(3_000_000 <= p50 && p50 <= p99 && p99 <= longest, "{name}: an erase takes 3 ms, {pauses:?}");
    assert!((longest as f64) < report.simulated_seconds * 1e9 * 1.125, "{name}: {pauses:?}");
}

/// Time from the first read out of each victim to the end of its erase, as the timeline has it.
fn seen(timeline: &Timeline, units_per_block: u32) -> Vec<u64> {
    let (mut first, mut seen) = (BTreeMap::<u32, SimTime>::new(), Vec::new());
    let mut spans: Vec<_> = timeline.spans.iter().filter(|span| span.operation.is_some()).collect();
    spans.sort_by_key(|span| span.begin);
    for span in spans.iter().filter(|span| span.activity == pellucid_device::Activity::Operation) {
        let operation = &timeline.operations[span.operation.unwrap() as usize];
        let block = operation.first.0 / units_per_block;
        match operation.kind {
            OperationKind::Read if operation.cause == Cause::Gc => {
                _ = first.entry(block).or_insert(span.begin)
            }
            OperationKind::Erase => seen.extend(first.remove(&block).map(|begin| (span.end - begin).0)),
            _ => {}
        }
    }
    seen
}

#[test]
fn pauses_are_as_long_as_the_work_that_the_timeline_shows() {
    let (report, timeline) = recorded(&drive(&[]), ALL);
    check(&report, "page map");
    let seen = seen(&timeline, 16);
    assert!(seen.len() > 100);
    // A pause begins with the choice of the victim, so it is longer than what is seen of it; by the wait for the die.
    let told = report.gc.pauses.mean_ns.unwrap() * report.gc.pauses.count as f64;
    let whole: u64 = seen.iter().sum();
    assert!(told >= whole as f64 && told < 2.0 * whole as f64, "{told} ns told, {whole} ns seen");
    assert!(report.gc.pauses.max_ns.unwrap() >= *seen.iter().max().unwrap());
}

#[test]
fn every_translation_has_pauses() {
    for (name, sets) in [
        ("FIFO", &["ftl.victim=fifo"][..]),
        ("demand map", &["ftl.map=demand", "ftl.durability=journal", "ftl.map_cache=1k"]),
        ("BAST", &["ftl.map=bast", "ftl.log_blocks=3"]),
        ("FAST", &["ftl.map=fast", "ftl.log_blocks=3"]),
    ] {
        let (report, _) = recorded(&drive(sets), ALL);
        check(&report, name);
    }
}

/// Reads make no victim, and preconditioning takes no time.
#[test]
fn without_victims_there_are_no_pauses() {
    let (report, _) = recorded(&drive(&["ftl.victim=fifo", "precondition.overwrite=2"]), ALL);
    assert!(report.gc.pauses.distribution.upper_ns[0] > 0, "no pause of preconditioning");
    let spec = pellucid_spec::from_str(&DRIVE.replace("randwrite", "randread"), "small", &[]).unwrap();
    let (report, _) = recorded(&spec, ALL);
    assert_eq!((report.gc.pauses.count, report.gc.pauses.max_ns), (0, None));
}

/// The memory of a drive is the sum of its structures.
#[test]
fn memory_is_told_by_structure() {
    let (report, _) = recorded(&drive(&[]), ALL);
    let memory = report.drive.memory;
    assert_eq!(memory.total(), report.drive.memory_bytes);
    assert_eq!((memory.data_buffer_bytes, memory.chunk_tables_bytes), (32 * 4096, 0));
    assert!(
        memory.mapping_table_bytes >= 4 * 4 * 24 * 16 * 6 / 10 && memory.block_tables_bytes > 0,
        "{memory:?}"
    );
    let (demand, _) =
        recorded(&drive(&["ftl.map=demand", "ftl.durability=journal", "ftl.map_cache=256"]), ALL);
    assert!(demand.drive.memory.mapping_table_bytes < memory.mapping_table_bytes / 4);
}
