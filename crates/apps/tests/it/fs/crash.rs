//! Random operations, and the power cut.

use super::model::{Pair, Shape};
use pellucid_flash::Rng;

/// A small drive with little memory.
fn shape(seed: u64) -> Shape {
    let mut rng = Rng::stream(seed, "shape");
    let segment_blocks = [16, 32][rng.below(2) as usize];
    let segments = 30 + rng.below(40);
    Shape {
        blocks: u64::from(segment_blocks) * segments,
        segment_blocks,
        memory_bytes: (256 + 256 * rng.below(4) as usize) << 10,
        checksums: rng.chance(0.5),
        discard: rng.chance(0.5),
    }
}

fn random_operations(seed: u64, steps: u64) {
    let mut pair = Pair::new(shape(seed), seed);
    for step in 0..steps {
        pair.step().unwrap();
        pair.fs.check();
        if step % 100 == 99 {
            pair.compare();
            pair.audit(false);
        }
    }
    pair.compare();
    pair.unmount();
    pair.mount();
}

#[test]
fn it_does_what_the_model_does() {
    for seed in 0..8 {
        random_operations(seed, 500);
    }
}

/// Cuts the power after any number of jobs, goes on, and cuts it again.
fn cuts(seed: u64, rounds: u64, most_jobs: u64) {
    let mut pair = Pair::new(shape(seed), seed);
    let mut rng = Rng::stream(seed, "cuts");
    for _ in 0..rounds {
        pair.disk.cut_after = pair.disk.jobs_done + rng.below(most_jobs);
        for _ in 0..400 {
            if pair.step().is_err() {
                break;
            }
        }
        pair.cut_and_mount();
        pair.fs.check();
    }
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync() {
    for seed in 0..8 {
        cuts(seed, 12, 150);
    }
}

#[test]
fn a_cut_at_every_job() {
    let steps = 400;
    let run = |cut: u64| {
        let shape = Shape {
            blocks: 16 * 40,
            segment_blocks: 16,
            memory_bytes: 256 << 10,
            checksums: true,
            discard: true,
        };
        let mut pair = Pair::new(shape, 5);
        pair.disk.cut_after = pair.disk.jobs_done + cut;
        let ended = (0..steps).all(|_| pair.step().is_ok());
        pair.cut_and_mount();
        ended
    };
    let mut cut = 0;
    while !run(cut) {
        cut += 1;
    }
    assert!(cut > 40, "there were {cut} jobs");
}

#[test]
fn writes_that_fail_lose_nothing() {
    for seed in 100..106 {
        let mut pair = Pair::new(Shape { blocks: 16 * 120, segment_blocks: 16, ..shape(seed) }, seed);
        for round in 0..4 {
            pair.disk.write_failures = 0.01;
            for _ in 0..60 {
                pair.step().unwrap();
            }
            pair.disk.write_failures = 0.0;
            pair.compare();
            if round % 2 == 0 {
                pair.cut_and_mount();
            }
        }
        pair.unmount();
        pair.mount();
    }
}
