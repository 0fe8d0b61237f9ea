//! Random operations, and power cuts.

use super::model::{Pair, Shape};
use crate::flash::geometry;
use pellucid_flash::{ChunkGeometry, Rng};

/// Medium below the file system.
#[derive(Clone, Copy, PartialEq)]
pub enum On {
    Block,
    /// Blocks, with several open segments.
    OpenSegments,
    Flash,
    Names,
}

/// A small drive with little memory.
fn shape(seed: u64, on: On) -> Shape {
    let mut rng = Rng::stream(seed, "shape");
    let sizes: &[u32] = match on {
        On::Block | On::OpenSegments => &[16, 32],
        On::Flash => &[16, 32],
        On::Names => &[16],
    };
    let segment_blocks = sizes[rng.below(sizes.len() as u64) as usize];
    // At most one segment per 32 is open.
    let segments = if on == On::OpenSegments { 70 + rng.below(60) } else { 30 + rng.below(40) };
    Shape {
        blocks: u64::from(segment_blocks) * segments,
        segment_blocks,
        memory_bytes: (256 + 256 * rng.below(4) as usize) << 10,
        checksums: rng.chance(0.5),
        discard: rng.chance(0.5),
        open: if on == On::OpenSegments { 4 } else { 1 },
        flash: (on == On::Flash).then(|| small_flash(&mut rng, segment_blocks)),
        names: (on == On::Names).then(|| small_names(&mut rng)),
    }
}

/// Flash of some channels with few blocks; pages of 2, 4 or 16 KiB.
fn small_flash(rng: &mut Rng, segment_blocks: u32) -> ChunkGeometry {
    let channels = 1 + rng.below(4) as u32;
    let blocks = (45 + rng.below(40) as u32).div_ceil(2 * channels);
    let mut geometry = geometry(channels, 2, blocks, segment_blocks * 8);
    geometry.write_min_sectors = [4, 8, 32][rng.below(3) as usize];
    geometry
}

/// Flash for nameless writes, small enough that garbage is collected all the time.
fn small_names(rng: &mut Rng) -> ChunkGeometry {
    let luns = 1 + rng.below(3) as u32;
    let page = 1 << rng.below(2);
    let blocks = (76 + rng.below(6) as u32).div_ceil(luns);
    ChunkGeometry { sector_bytes: 4096, write_min_sectors: page, ..geometry(luns, 1, blocks, 16) }
}

/// Returns the number of blocks that the drive has moved.
pub fn random_operations(seed: u64, steps: u64, on: On) -> u64 {
    let mut pair = Pair::new(shape(seed, on), seed);
    for step in 0..steps {
        pair.step().unwrap();
        pair.fs.check();
        if step % 100 == 99 {
            pair.compare();
            pair.audit(false);
        }
    }
    pair.compare();
    let moves = pair.fs.counters().renamed_blocks;
    pair.unmount();
    pair.mount();
    moves
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn it_does_what_the_model_does() {
    for seed in 0..8 {
        random_operations(seed, 500, On::Block);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn with_several_open_segments_it_does_what_the_model_does() {
    for seed in 0..8 {
        random_operations(seed, 500, On::OpenSegments);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn with_several_open_segments_a_cut_leaves_a_state_since_the_last_sync() {
    for seed in 0..8 {
        cuts(seed, 12, 150, On::OpenSegments);
    }
}

#[test]
fn with_several_open_segments_writes_that_fail_lose_nothing() {
    failing_writes(On::OpenSegments);
}

/// The number of open segments is an option of the mount: a file system is mounted with another number.
#[test]
fn the_number_of_open_segments_may_change_from_mount_to_mount() {
    let mut pair = Pair::new(shape(3, On::OpenSegments), 3);
    for open in [1, 4, 2] {
        for _ in 0..150 {
            pair.step().unwrap();
        }
        pair.compare();
        pair.open(open);
        pair.cut_and_mount();
        pair.fs.check();
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_flash_it_does_what_the_model_does() {
    for seed in 0..8 {
        random_operations(seed, 500, On::Flash);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_names_it_does_what_the_model_does() {
    let moves: u64 = (0..8).map(|seed| random_operations(seed, 1000, On::Names)).sum();
    assert!(moves > 10, "the drive moved {moves} blocks");
}

/// The smallest file systems, nearly full most of the time: promised space can be written, and existing files can be deleted.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn nearly_full_it_keeps_its_promises() {
    let mut refused = 0;
    for seed in 0..12 {
        let segment_blocks = 16;
        let blocks = u64::from(segment_blocks) * (26 + seed / 6);
        let mut pair = Pair::new(Shape { blocks, segment_blocks, ..shape(seed, On::Block) }, seed);
        for step in 0..900 {
            pair.step().unwrap();
            pair.fs.check();
            if step % 75 == 74 {
                pair.audit_promise();
            }
        }
        pair.compare();
        pair.audit(false);
        pair.unmount();
        pair.mount();
        refused += pair.refused;
    }
    assert!(refused > 40, "it was full {refused} times");
}

/// Cuts the power after any number of jobs, continues, and cuts it again.
pub fn cuts(seed: u64, rounds: u64, most_jobs: u64, on: On) {
    let mut pair = Pair::new(shape(seed, on), seed);
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
#[cfg_attr(quick, ignore = "slow")]
fn a_cut_leaves_a_state_since_the_last_sync() {
    for seed in 0..8 {
        cuts(seed, 12, 150, On::Block);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_flash_a_cut_leaves_a_state_since_the_last_sync() {
    for seed in 0..8 {
        cuts(seed, 12, 150, On::Flash);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_names_a_cut_leaves_a_state_since_the_last_sync() {
    for seed in 0..8 {
        cuts(seed, 12, 150, On::Names);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cut_at_every_job() {
    cut_at_every_job(400, On::Block);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_flash_a_cut_at_every_job() {
    cut_at_every_job(250, On::Flash);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn on_names_a_cut_at_every_job() {
    cut_at_every_job(250, On::Names);
}

fn cut_at_every_job(steps: u64, on: On) {
    let run = |cut: u64| {
        let shape = Shape {
            blocks: 16 * 40,
            segment_blocks: 16,
            memory_bytes: 256 << 10,
            checksums: true,
            discard: true,
            open: 1,
            flash: (on == On::Flash).then(|| geometry(2, 2, 16, 16 * 8)),
            names: (on == On::Names).then(|| small_names(&mut Rng::new(2))),
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
    failing_writes(On::Block);
}

#[test]
fn on_flash_writes_and_erases_that_fail_lose_nothing() {
    failing_writes(On::Flash);
}

#[test]
fn on_names_writes_and_erases_that_fail_lose_nothing() {
    failing_writes(On::Names);
}

pub fn failing_writes(on: On) {
    for seed in 100..106 {
        let flash = (on == On::Flash).then(|| geometry(3, 2, 24, 16 * 8));
        let shape = Shape { blocks: 16 * 120, flash, ..shape(seed, on) };
        let shape = Shape { segment_blocks: 16, ..shape };
        let mut pair = Pair::new(shape, seed);
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
