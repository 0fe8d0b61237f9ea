//! The firmware of a description: a second processor, costs of modules, and keys that have no effect.

use crate::common::Folder;
use serde_json::Value;

/// Random reads of 4 KiB on a small `cosmos-plus-slc`, whose processor is slow enough to be the bound.
fn report(sets: &[&str]) -> Value {
    let mut words =
        vec!["run", "cosmos-plus-slc", "--rw", "randread", "--bs", "4k", "--iodepth", "64", "--json"];
    words.extend(["--number-ios", "3000", "--size", "64m", "--precondition", "fill"]);
    let common = ["media.blocks=8", "media.pages=32", "ftl.over_provisioning=0.7", "firmware.clock_mhz=200"];
    for set in common.iter().chain(sets) {
        words.extend(["--set", set]);
    }
    let done = Folder::new().run(&words);
    assert_eq!(done.status, 0, "{}", done.stderr);
    serde_json::from_str(&done.stdout).unwrap()
}

fn rate(report: &Value) -> f64 {
    report["directions"]["read"]["iops"].as_f64().unwrap()
}

fn share(report: &Value, module: &str) -> f64 {
    report["utilisation"]["firmware_modules"][module].as_f64().unwrap()
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_second_processor_serves_more_small_reads() {
    let (one, two) = (report(&[]), report(&["firmware.processors=2"]));
    assert!(rate(&two) > 1.2 * rate(&one), "{} and {}", rate(&one), rate(&two));
    // The scheduler's is the bound of both.
    let busy = |report: &Value| report["utilisation"]["firmware"].as_f64().unwrap();
    assert!(busy(&one) > 0.95 && busy(&two) > 0.5 && busy(&two) <= 1.0, "{} {}", busy(&one), busy(&two));
    let sum: f64 = ["issue", "status", "dma"].iter().map(|module| share(&two, module)).sum();
    assert!(2.0 * busy(&two) * sum > 0.95, "the scheduler's processor is busy: {sum}");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn each_module_is_paid_for_and_shown() {
    let costly = report(&[
        "firmware.lookup={ cycles = 2000, fixed = 0 }",
        "firmware.depend={ cycles = 0, fixed = \"5us\" }",
    ]);
    let plain =
        report(&["firmware.lookup={ cycles = 0, fixed = 0 }", "firmware.depend={ cycles = 0, fixed = 0 }"]);
    assert!(share(&costly, "buffer") > share(&plain, "buffer"));
    assert!(share(&costly, "dependency") > 0.0 && share(&plain, "dependency") == 0.0);
    assert!(rate(&costly) < rate(&plain));
}

#[test]
fn keys_of_the_firmware_without_effect_are_refused() {
    let refused = |drive: &str, set: &str, why: &str| {
        let done = Folder::new().run(&["run", drive, "--rw", "read", "--number-ios", "10", "--set", set]);
        assert!(done.status != 0 && done.stderr.contains(why), "{set}: {}", done.stderr);
    };
    let served =
        "has no effect here; allowed: with pellucid serve, whose hosts send admin commands over NVMe/TCP";
    refused("cosmos-plus-slc", "firmware.admin.fixed=20us", served);
    refused(
        "cosmos-plus-open-channel",
        "firmware.lookup.fixed=1us",
        "has no effect here; allowed: with a block namespace",
    );
    refused(
        "memblaze",
        "firmware.processors=2",
        "has no effect here; allowed: with a step of drive.firmware that takes time",
    );
    refused("cosmos-plus-slc", "firmware.processors=3", "allowed: a whole number from 1 to 2");
}
