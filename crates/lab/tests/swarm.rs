//! Random drives, policies, workloads, faults and power cuts against the oracle.
//!
//! `PELLUCID_SEED=N cargo test -p pellucid-lab --test swarm` repeats one seed; `PELLUCID_SEEDS=N` sets how many are tried.

use pellucid_lab::swarm;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

#[test]
fn random_drives_never_return_a_wrong_sector() {
    let seeds = match number("PELLUCID_SEED") {
        Some(seed) => seed..seed + 1,
        None => number("PELLUCID_FIRST").unwrap_or(0)..number("PELLUCID_SEEDS").unwrap_or(300),
    };
    // All seeds run, so that one bug does not hide another.
    let failed: Vec<u64> = seeds
        .filter(|&seed| catch_unwind(AssertUnwindSafe(|| swarm::run_seed(seed, 1500))).is_err())
        .collect();
    if let Some(&seed) = failed.first() {
        panic!(
            "seeds {failed:?} failed; repeat the first with PELLUCID_SEED={seed}; drive: {:?}",
            swarm::sets_of(seed)
        );
    }
}

/// A swarm that finds nothing may be blind: it must find a drive that acknowledges flushes without doing them.
#[test]
fn a_planted_bug_is_found() {
    let caught = |seed| catch_unwind(|| swarm::run_seed_with_canary(seed, 1500)).is_err();
    let found = (0..20).find(|&seed| caught(seed));
    assert!(found.is_some(), "20 seeds did not find flushes that do nothing");
}
