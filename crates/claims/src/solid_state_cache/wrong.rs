//! One wrong model for each of S1 to S4: the check holds without it and misses with it.
//!
//! ```text
//!  settings at which the check holds ─┬─ as they are ───────────────► holds
//!  (part of all sizes)                └─ one system made wrong ─────► misses
//! ```
//! S1, S2 and S4 do not hold at the chosen settings, and these runs are shorter. So S1 and S2 are tested on an initially empty block drive with
//! cleaners that make them hold, and S4 with spare space that does: the tests judge the criteria.

use super::{
    ASSUMED, Assumptions, EMPTY, FILESERVER, LATER, Run, System, VARMAIL, WEBSERVER, gain_of,
    gain_of_fileserver, gain_of_varmail, gain_of_webserver, one, saved_erases, saved_of,
};
use crate::{Bench, Check, Verdict};
use pellucid_host::CacheMode;

/// Divisor of sizes and times, half of it for varmail; blocks are smaller, too, so the drives need more spare space.
const SHORTER: u32 = 4;
const SPARE: &str = "ftl.over_provisioning=0.17";
/// Spare space for varmail (fitted: at these sizes the check of S4 holds up to 22 %).
const SPARE_OF_VARMAIL: &str = "ftl.over_provisioning=0.18";
/// Cleaners that keep up a little (fitted: the check of S1 holds at these sizes), and always.
const CLEANER: &str = "host.cache.clean_blocks=550";
const QUICK_CLEANER: &str = "host.cache.clean_blocks=8192";
/// A block drive with as much spare space as data: its GC is free.
const FREE_GC: [&str; 2] = ["ftl.over_provisioning=1.0", "media.blocks=272"];

/// Both caches with a personality, in write-back mode.
fn both(set: usize, assumed: &Assumptions) -> [Run; 2] {
    let bench = Bench::of_test(if set == VARMAIL { SHORTER / 2 } else { SHORTER }, Vec::new());
    let systems = [System::Ssd(CacheMode::WriteBack), System::Ssc(CacheMode::WriteBack)];
    let runs = bench.map(&systems, |&system| one(&bench, set, system, assumed));
    runs.unwrap_or_else(|error| panic!("{error}")).try_into().expect("two systems")
}

/// The check holds with the first settings and misses with the second.
fn tell_apart(set: usize, check: impl Fn([Run; 2]) -> Check, right: &Assumptions, wrong: &Assumptions) {
    let (holds, misses) = (check(both(set, right)), check(both(set, wrong)));
    assert_eq!(holds.verdict(), Verdict::Holds, "{holds:?}");
    assert_eq!(misses.verdict(), Verdict::Misses, "{misses:?}");
}

/// S1: silent eviction gains nothing over a drive with free GC.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn s1_misses_without_garbage_collection() {
    let right = Assumptions { ssd: &[SPARE, CLEANER, EMPTY[0], EMPTY[1]], ssc: &[SPARE, CLEANER], ..ASSUMED };
    let wrong = Assumptions { ssd: &[FREE_GC[0], FREE_GC[1], CLEANER, EMPTY[0], EMPTY[1]], ..right };
    let check = |runs| gain_of_fileserver(CacheMode::WriteBack, gain_of(runs));
    tell_apart(FILESERVER, check, &right, &wrong);
}

/// S2: silent eviction saves none of its erases.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn s2_misses_without_garbage_collection() {
    let right = Assumptions {
        ssd: &[SPARE, QUICK_CLEANER, EMPTY[0], EMPTY[1]],
        ssc: &[SPARE, QUICK_CLEANER],
        ..ASSUMED
    };
    let wrong = Assumptions { ssd: &[FREE_GC[0], FREE_GC[1], QUICK_CLEANER, EMPTY[0], EMPTY[1]], ..right };
    tell_apart(FILESERVER, |runs| saved_erases(CacheMode::WriteBack, saved_of(runs)), &right, &wrong);
}

/// S3: a solid-state cache whose hash table doubles the firmware's work per slice loses more than a little.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn s3_misses_with_a_costly_table() {
    let right = Assumptions { both: &[SPARE], ..ASSUMED };
    let wrong = Assumptions { ssc: &["firmware.slice.cycles=2000"], ..right };
    let check = |runs| gain_of_webserver(CacheMode::WriteBack, gain_of(runs));
    tell_apart(WEBSERVER, check, &right, &wrong);
}

/// S4: a solid-state cache gains the cost of the records of the block drive's host; one whose flushes also wait for its disk loses.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn s4_misses_with_commits_on_the_disk() {
    let right = Assumptions { both: &[SPARE_OF_VARMAIL], ..LATER };
    let wrong = Assumptions { ssc: &["host.cache.flushes=both"], ..right };
    tell_apart(VARMAIL, |runs| gain_of_varmail(gain_of(runs)), &right, &wrong);
}
