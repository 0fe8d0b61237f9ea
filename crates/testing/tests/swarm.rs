//! Random drives, policies, workloads, faults and power cuts against the oracle.
//!
//! `PELLUCID_SEED=N cargo test -p pellucid-testing --test it swarm` repeats one seed; `PELLUCID_FIRST` and
//! `PELLUCID_SEEDS` set the range that is tried (the latter is its end).

use pellucid_testing::seeds;
use pellucid_testing::swarm;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds that have found bugs, in drives of their time; they always run. 31757: host data took the last block while that of map
/// translation pages was all but full, so that erases waited for ever for a translation page. 212: look-ups that padding
/// made were all that was left to do, and nobody read their translation pages.
const REGRESSIONS: [u64; 21] = [
    212, 727, 1416, 1497, 1639, 1642, 1670, 2215, 2626, 3023, 3190, 3264, 3493, 3830, 3928, 8872, 8916, 9859,
    11894, 12344, 31757,
];

/// Like `REGRESSIONS`, of harder drives. 646: a copy on its way brought back what a write had been acknowledged over. 70, 242: a mount came back
/// to copies whose data had been forgotten, and they read as good. 7003218: two log blocks shared a queue after the drive had given up writing,
/// so a page was programmed into another die, where no mount would look for it.
const HARDER_REGRESSIONS: [u64; 10] = [70, 103, 242, 468, 646, 2303, 2590, 2816, 7_003_218, 7_003_549];

/// Like `REGRESSIONS`, of host FTLs: a trim that took a newer version of its page, in the same superpage, with it.
const HOST_REGRESSIONS: [u64; 3] = [314, 1073, 1315];

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_drives_never_return_a_wrong_sector() {
    all_clean(seeds(300), swarm::run_seed, swarm::sets_of);
}

/// Runs harder drives, whose dies die and whose operations fail while they work.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn damaged_drives_never_return_a_wrong_sector() {
    all_clean(seeds(300), swarm::run_harder_seed, swarm::harder_sets_of);
}

/// Host FTLs on random open-channel drives: power cuts, failing flash, sectors that the drive holds back.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn host_translation_never_returns_a_wrong_sector() {
    let refused = std::cell::Cell::new(0);
    let seeds = seeds(300);
    let run = |seed| refused.set(refused.get() + u64::from(!swarm::run_host_seed(seed, 1500)));
    let failed: Vec<u64> =
        seeds.clone().filter(|&seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err()).collect();
    if let Some(&seed) = failed.first() {
        let text = swarm::host_text(seed);
        panic!("seeds {failed:?} failed; repeat the first with PELLUCID_SEED={seed}; drive: {text}");
    }
    assert!(refused.get() * 2 <= seeds.end - seeds.start, "{} of {seeds:?} were refused", refused.get());
}

fn all_clean(seeds: Range<u64>, run: fn(u64, u32), sets: fn(u64) -> Vec<String>) {
    // All seeds run, so that one bug does not hide another.
    let failed = failing(seeds, run);
    if let Some(&seed) = failed.first() {
        panic!(
            "seeds {failed:?} failed; repeat the first with PELLUCID_SEED={seed}; drive: {:?}",
            sets(seed)
        );
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn seeds_that_found_bugs_stay_clean() {
    assert_eq!(failing(REGRESSIONS, swarm::run_seed), [0; 0], "seeds that failed");
    assert_eq!(failing(HARDER_REGRESSIONS, swarm::run_harder_seed), [0; 0], "harder seeds that failed");
    let host =
        |seed, commands| assert!(swarm::run_host_seed(seed, commands), "the drive of {seed} is refused");
    assert_eq!(failing(HOST_REGRESSIONS, host), [0; 0], "seeds of host FTLs that failed");
}

fn failing(seeds: impl IntoIterator<Item = u64>, run: impl Fn(u64, u32)) -> Vec<u64> {
    seeds.into_iter().filter(|&seed| catch_unwind(AssertUnwindSafe(|| run(seed, 1500))).is_err()).collect()
}

/// A swarm that finds nothing may be blind: it must find a drive that acknowledges flushes without doing them.
#[test]
fn a_planted_bug_is_found() {
    let caught = |seed| catch_unwind(|| swarm::run_seed_with_canary(seed, 1500)).is_err();
    let found = (0..20).find(|&seed| caught(seed));
    assert!(found.is_some(), "20 seeds did not find flushes that do nothing");
}
