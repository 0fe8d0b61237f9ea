//! A hash over all requests of a file system to a block drive, in order: a change that keeps behaviour and format keeps the hash. One that does not
//! records new hashes and says why.
//!
//! [`Disk`](super::disk::Disk) folds each job with its data, each outcome, and occasionally the counters and the view. Hashes are per thread, so
//! tests do not mix.

use super::basic::a_mount_that_cannot_read_all_metadata_is_read_only;
use super::crash::{On, cuts, failing_writes, random_operations};
use super::damage::any_block;
use pellucid_fs::{Blocks, Fs, Job};
use std::cell::Cell;
use std::fmt::Debug;

thread_local! {
    /// `None`: not requested.
    static HASH: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Folds a word into the hash.
pub fn fold(word: u64) {
    HASH.set(HASH.get().map(|hash| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
}

fn is_asked_for() -> bool {
    HASH.get().is_some()
}

/// Folds bytes and their number.
pub fn fold_bytes(bytes: &[u8]) {
    if !is_asked_for() {
        return;
    }
    fold(bytes.len() as u64);
    let (words, rest) = bytes.as_chunks();
    words.iter().for_each(|word| fold(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| fold((*byte).into()));
}

/// Folds a debug representation, up to 30,000 bytes, only if a hash is requested.
pub fn fold_debug(thing: &impl Debug) {
    if is_asked_for() {
        fold_bytes(format!("{thing:?}").as_bytes());
    }
}

/// Folds a job, with its data.
pub fn fold_job(job: &Job) {
    if !is_asked_for() {
        return;
    }
    let data = match job {
        Job::Write { data, .. } | Job::NamelessWrite { data, .. } => data.clone(),
        _ => Blocks::default(),
    };
    data.iter().for_each(|block| fold_bytes(block));
    let without_data = match job.clone() {
        Job::Write { id, block, content, .. } => Job::Write { id, block, data: Blocks::default(), content },
        Job::NamelessWrite { id, .. } => Job::NamelessWrite { id, data: Blocks::default() },
        other => other,
    };
    fold_debug(&without_data);
}

/// Folds the counters and the view of a file system.
pub fn fold_state(fs: &Fs) {
    if !is_asked_for() {
        return;
    }
    let state = (
        fs.state(),
        fs.view(),
        fs.counters(),
        fs.wants_time(),
        fs.findings().damage(),
        fs.findings().notes(),
    );
    fold_debug(&state);
}

/// The hash of a run.
fn hash_of(run: impl FnOnce()) -> u64 {
    HASH.set(Some(0));
    run();
    HASH.take().expect("it was asked for")
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn jobs_and_data_are_those_that_were_recorded() {
    let found = [
        hash_of(|| (0..3).for_each(|seed| _ = random_operations(seed, 400, On::Block))),
        hash_of(|| (0..3).for_each(|seed| cuts(seed, 8, 150, On::Block))),
        hash_of(|| failing_writes(On::Block)),
        hash_of(|| any_block(true)),
        hash_of(|| any_block(false)),
        hash_of(a_mount_that_cannot_read_all_metadata_is_read_only),
    ];
    assert_eq!(found, RECORDED, "found {found:#x?}");
}

/// Random operations, power cuts, failed writes, damage with and without data checksums, unreadable metadata.
const RECORDED: [u64; 6] = [
    0x970f_a35c_c21d_9905,
    0xe833_0a70_0850_5344,
    0xb273_5671_025b_e550,
    0xf9ee_c3ee_49da_1a1e,
    0x01ef_897c_794a_63fd,
    0x1e33_f7b6_7e68_6787,
];
