//! A hash over all answers of a cache and over the final content of its drive: a change that keeps behaviour and format keeps the hash. One that does
//! not records new hashes and says why. The engines are those directly on the drive, without the flash library.
//!
//! [`Model`](super::model::Model) folds each answer with its time. Hashes are per thread, so tests do not mix.

use super::model::{Model, failing_flash, restarts, work};
use pellucid_flash::Nanos;
use pellucid_kv::{EngineKind, KvCosts};
use std::cell::Cell;

thread_local! {
    /// `None`: not requested.
    static HASH: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Folds a word into the hash.
fn fold(word: u64) {
    HASH.set(HASH.get().map(|hash| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
}

/// Folds a debug representation into the hash.
pub fn fold_debug(thing: &impl std::fmt::Debug) {
    if HASH.get().is_none() {
        return;
    }
    let text = format!("{thing:?}");
    fold(text.len() as u64);
    let (words, rest) = text.as_bytes().as_chunks();
    words.iter().for_each(|word| fold(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| fold((*byte).into()));
}

/// The hash of a run.
fn hash_of(run: impl FnOnce() -> Model) -> u64 {
    HASH.set(Some(0));
    let model = run();
    fold_debug(&(model.system.statistics(), model.system.classes()));
    fold_debug(&model.system.into_drive());
    HASH.take().expect("it was asked for")
}

/// Runs of an engine.
fn runs(engine: EngineKind) -> [u64; 4] {
    // One core, which a request holds while it reads.
    let costs = KvCosts {
        cores: 1,
        ask_ns: Nanos(2000),
        command_ns: Nanos(3000),
        completion_ns: Nanos(1000),
        kib_ns: Nanos(100),
        reads_block: true,
    };
    [
        hash_of(|| work(engine, 1, KvCosts::FREE)),
        hash_of(|| work(engine, 2, costs)),
        hash_of(|| failing_flash(engine, 4)),
        hash_of(|| restarts(engine, 2)),
    ]
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn answers_and_data_are_those_that_were_recorded() {
    let found = [EngineKind::Original, EngineKind::Direct].map(runs);
    assert_eq!(found, RECORDED, "found {found:#x?}");
}

/// Random requests, the same with costs, failing flash, and restarts.
const RECORDED: [[u64; 4]; 2] = [
    [0x8db7_8186_8e21_c821, 0x94e4_a41a_9cf4_df64, 0xc345_60b1_c530_ca78, 0x26b0_2cb7_9bc9_5f7b],
    [0xa689_3492_d885_c9d3, 0x6e41_021e_e7a8_9d84, 0xaef7_f454_e3ac_9824, 0x9157_59ba_ddce_4d81],
];
