//! `pellucid reproduce` with claims that take no time.

use crate::common::Folder;
use serde_json::Value;

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_claim_that_holds_is_a_row_and_status_0() {
    let folder = Folder::new();
    let answer = folder.run(&["reproduce", "c11", "--report", "claims"]).answer();
    let mut lines = answer.lines();
    assert!(lines.next().unwrap().starts_with("id   where "), "{answer}");
    let row = lines.next().unwrap();
    assert!(row.starts_with("C11  Cosmos+ 5, 7.2 ") && row.contains(" holds "), "{row}");
    assert!(row.ends_with("  2 of 2 checks hold"), "no number of a check stands beside it: {row}");
    // Asked for by name, it shows all of its checks.
    assert_eq!(lines.clone().count(), 4, "{answer}");
    assert_eq!(lines.last(), Some("2 of 2 checks hold"));
    let page = std::fs::read_to_string(folder.path("claims/index.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 1);
    let json = std::fs::read_to_string(folder.path("claims/reproduce.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["all_hold"], true);
    let printed = folder.run(&["reproduce", "C11", "--json"]).json();
    assert_eq!(printed, json);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_claim_that_misses_unexpectedly_is_named_and_status_1() {
    let folder = Folder::new();
    // A key-equation solver too slow to be shared.
    let done = folder.run(&["reproduce", "L2", "C11", "--set", "scheduler.solver.time=20us"]);
    assert_eq!(
        (done.status, done.stderr.as_str()),
        (1, "error: 1 of 2 claims misses and is not a known miss: C11\n")
    );
    assert!(done.stdout.contains(" misses "), "{}", done.stdout);
}

/// C6 lies in the range of what the paper leaves open: scripts need not stop for it. (A miss that is known is tested with the claims: the one that
/// is left takes minutes.)
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_claim_in_range_is_a_row_and_status_0() {
    let folder = Folder::new();
    // Quiet: on a slow machine it would say what it does.
    let done = folder.run(&["reproduce", "C6", "-q"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{}", done.stdout);
    let row = done.stdout.lines().nth(1).unwrap();
    assert!(row.starts_with("C6   Cosmos+ Table 7 ") && row.contains(" in range "), "{row}");
    assert!(row.ends_with("  18 of 21 checks hold"), "{row}");
    assert!(!done.stdout.contains("     known: "), "{}", done.stdout);
}

/// The refusal alone, without the head of a table.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn an_override_that_no_drive_takes_is_refused_before_anything_is_printed() {
    let folder = Folder::new();
    for (set, part) in [
        (
            "firmware.clok_mhz=800",
            "drive.firmware.clok_mhz: unknown key (did you mean clock_mhz?); allowed: ",
        ),
        ("ecc.correctable=60", "drive.ecc.correctable = 60: not allowed; allowed: 1 to 17 with these chunks"),
        ("firmware.clock_mhz=0", "drive.firmware.clock_mhz = 0: not allowed; allowed: a whole number from 1"),
    ] {
        let done = folder.run(&["reproduce", "C11", "--set", set]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{set}: {}", done.stderr);
        let key = set.split('=').next().unwrap();
        assert!(done.stderr.starts_with(&format!("error: --set {key}: {part}")), "{}", done.stderr);
    }
}

#[test]
fn the_list_runs_nothing() {
    let folder = Folder::new();
    let list = folder.run(&["reproduce", "--list"]).answer();
    assert_eq!(list.lines().count(), 51, "{list}");
    assert!(list.contains("\nC6   Cosmos+ Table 7 "), "{list}");
    let json = folder.run(&["reproduce", "--list", "theory", "--json"]).json();
    let ids: Vec<&str> = json.as_array().unwrap().iter().map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["B1", "B5", "B6", "B8", "B4"]);
}

#[test]
fn options_that_the_conformance_suite_ignores_are_refused() {
    let folder = Folder::new();
    for (option, value) in [("--seed", "3"), ("--set", "media.ways=2")] {
        let done = folder.run(&["reproduce", "L2", option, value]);
        let told = format!("error: {option}: L2 makes drives of its own; allowed: without {option}\n");
        assert_eq!((done.status, done.stderr), (2, told));
    }
}

/// Keys that define an experiment cannot be overridden without a word.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn keys_that_an_experiment_owns_are_refused_by_name() {
    let folder = Folder::new();
    for (claim, set, own) in [
        ("B1", "ftl.victim=fifo", "greedy"),
        ("P3", "media.channels=2", "12"),
        ("C10", "drive.ecc.scrambler=false", "true"),
        ("C12", "media.channels=2", ""),
        ("B4", "media.seed=7", "1; allowed: other keys, or --seed"),
    ] {
        let done = folder.run(&["reproduce", claim, "--set", set]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{claim} {set}: {}", done.stderr);
        let said = format!("error: {claim}: --set {set}: this experiment sets the key itself, to {own}");
        assert!(done.stderr.starts_with(&said), "{}", done.stderr);
    }
}

/// A key that changes nothing in an experiment is not taken in silence.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn keys_without_an_effect_on_a_claim_are_refused_by_name() {
    let folder = Folder::new();
    for (set, with) in [
        ("ftl.map_cache=1MiB", "drive.ftl.map = \"demand\""),
        ("kv.slab=1MiB", "app = kv, or pellucid kv, which puts a cache on the drive"),
        ("run.verify=true", "pellucid run, replay and compare"),
    ] {
        let done = folder.run(&["reproduce", "C11", "--set", set, "-q"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{set}: {}", done.stderr);
        let said = format!(
            "error: C11: --set {set}: has no effect on a drive of this claim; allowed: with {with}\n"
        );
        assert_eq!(done.stderr, said);
    }
}

/// Every column begins in one place in all rows.
#[test]
fn the_columns_of_the_list_are_aligned() {
    let list = Folder::new().run(&["reproduce", "--list"]).answer();
    let json = Folder::new().run(&["reproduce", "--list", "--json"]).json();
    let starts: std::collections::BTreeSet<usize> = list
        .lines()
        .zip(json.as_array().unwrap())
        .map(|(line, claim)| line.find(claim["claim"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(starts.len(), 1, "{list}");
}
