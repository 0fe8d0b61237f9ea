//! Tails at low load: what a request at depth 1 meets, and what it costs.

use crate::common::{Folder, repeatable};
use serde_json::Value;

/// All dies of `datacenter-tlc`, 3 GiB of flash.
const SMALL: [&str; 5] = [
    "media.blocks=64",
    "media.pages=24",
    "media.timing.erase=94us",
    "ftl.over_provisioning=0.35",
    "precondition.fill=1.0",
];

/// Report of `requests` random requests of 4 KiB at depth 1.
fn report(kind: &str, requests: &str, sets: &[&str]) -> Value {
    let mut words = vec!["run", "datacenter-tlc", "--rw", kind, "--bs", "4k", "--iodepth", "1", "--json"];
    words.extend(["--number-ios", requests]);
    for set in SMALL.iter().chain(sets) {
        words.extend(["--set", set]);
    }
    let done = Folder::new().run(&words);
    let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stderr));
    // Reads that fail fail the command, which reports them all the same.
    assert_eq!(done.status, i32::from(report["directions"]["read"]["errors"] != 0), "{}", done.stderr);
    repeatable(report)
}

fn latency(report: &Value, direction: &str, what: &str) -> f64 {
    report["directions"][direction]["latency"][what].as_f64().unwrap()
}

fn retries(report: &Value) -> u64 {
    report["media"]["read_retries"].as_u64().unwrap()
}

#[test]
fn reads_of_a_drive_at_rest_differ_by_page_layer_and_block() {
    let first = report("randread", "4000", &[]);
    let read = |what| latency(&first, "read", what);
    assert!(read("p50_ns") + 5_000.0 < read("p99_ns"), "{first}");
    assert!(read("p99_ns") + 1_000.0 < read("p99_99_ns"), "{first}");
    assert_eq!(report("randread", "4000", &[]), first);
    let off = [
        "media.variation.layer=0",
        "media.variation.block=0",
        "media.timing.read=[\"50us\", \"50us\", \"50us\"]",
    ];
    let even = report("randread", "4000", &off);
    let width = |report: &Value| latency(report, "read", "p99_99_ns") - latency(report, "read", "p50_ns");
    assert!(width(&even) < width(&first) / 4.0, "{} {}", width(&even), width(&first));
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn writes_wait_for_the_processor_that_gc_and_journal_use() {
    let steady = ["precondition.overwrite=1.0"];
    let first = report("randwrite", "30000", &steady);
    let write = |what| latency(&first, "write", what);
    assert!(write("p50_ns") < 21_000.0 && write("p99_99_ns") > 1.2 * write("p50_ns"), "{first}");
    let free = ["firmware.issue.fixed=0", "firmware.complete.fixed=0", "firmware.fetch.fixed=950ns"];
    let idle = report("randwrite", "30000", &[&steady[..], &free].concat());
    assert_eq!(latency(&idle, "write", "p99_99_ns"), latency(&idle, "write", "p50_ns"));
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn retries_grow_with_wear_time_and_reads_and_take_time() {
    let of = |sets: &[&str]| report("randread", "2000", sets);
    let fresh = of(&["media.cycles=1500"]);
    assert_eq!(retries(&fresh), 0);
    let by_wear = ["0", "1000", "2900"]
        .map(|cycles| of(&["precondition.shelf_days=90", &format!("media.cycles={cycles}")]));
    let by_time =
        ["1", "30", "365"].map(|days| of(&["media.cycles=1500", &format!("precondition.shelf_days={days}")]));
    for grown in [&by_wear, &by_time] {
        assert!(
            grown.each_ref().map(retries).is_sorted_by(|a, b| a < b),
            "{:?}",
            grown.each_ref().map(retries)
        );
        let mean = grown.each_ref().map(|report| latency(report, "read", "mean_ns"));
        assert!(mean.is_sorted_by(|a, b| a < b), "{mean:?}");
    }
    let old = &by_time[2];
    let steps = retries(old) as f64 / 2_000.0;
    assert!((1.5..1.8).contains(&steps), "0.55 of three: {steps}");
    let slower = latency(old, "read", "mean_ns") - latency(&fresh, "read", "mean_ns");
    let each = slower / steps;
    assert!((70_000.0..95_000.0).contains(&each), "sense, shift, transfer and decoding: {each}");
    // Reads of a block, with a model that a million of them need not be waited for.
    let disturbed = ["1000", "4000"].map(|requests| {
        let sets = ["media.cycles=1500", "media.retry.factor=100000"];
        retries(&report("randread", requests, &sets))
    });
    assert!(disturbed[0] > 0 && disturbed[1] > 8 * disturbed[0], "{disturbed:?}");
}

#[test]
fn what_needs_more_retries_than_the_drive_has_is_uncorrectable() {
    let worn = ["media.cycles=2900", "precondition.shelf_days=365", "scheduler.read_retries=1"];
    let lost = report("randread", "500", &worn);
    let errors = lost["directions"]["read"]["errors"].as_u64().unwrap();
    // A block with lost data is emptied, and its other data are lost as well.
    assert!(lost["media"]["uncorrectable_reads"].as_u64().unwrap() >= errors);
    assert!(errors > 450, "{errors}");
    let enough = report("randread", "500", &worn[..2]);
    assert_eq!(enough["directions"]["read"]["errors"].as_u64().unwrap(), 0);
}
