//! A hash over everything that a cache answers, and over what it leaves on its drive: a change that keeps behaviour and format keeps it. One
//! that does not records the hashes anew, and says why. The engines are those that stand on the drive itself, and not on the flash library.
//!
//! [`Model`](super::model::Model) folds each answer with its time. Hashes are by thread, so tests do not mix.

use super::model::{Model, failing_flash, restarts, work};
use pellucid_flash::Nanos;
use pellucid_kv::{EngineKind, KvCosts};
use std::cell::Cell;

thread_local! {
    static HASH: Cell<u64> = const { Cell::new(0) };
}

/// Folds a word.
fn fold(word: u64) {
    HASH.set((HASH.get().rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
}

/// Folds anything that can be written.
pub fn fold_debug(thing: &impl std::fmt::Debug) {
    let text = format!("{thing:?}");
    fold(text.len() as u64);
    let (words, rest) = text.as_bytes().as_chunks();
    words.iter().for_each(|word| fold(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| fold((*byte).into()));
}

/// The hash of a run.
fn hash_of(run: impl FnOnce() -> Model) -> u64 {
    HASH.set(0);
    let model = run();
    fold_debug(&(model.system.statistics(), model.system.classes()));
    fold_debug(&model.system.into_drive());
    HASH.get()
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

/// Random requests, these with costs, flash that fails, and restarts.
const RECORDED: [[u64; 4]; 2] = [
    [0xe8cd_1ff6_db34_52c8, 0x7606_eebc_19bb_3204, 0x0eda_c2a0_ef7e_e0a5, 0x2724_a497_bca4_9f34],
    [0x9df0_00d0_2df6_4591, 0xd9b5_272f_cc23_25c7, 0x5c95_eff2_9689_5cb9, 0xdf7a_f8d6_a4e7_f240],
];
