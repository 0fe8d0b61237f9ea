//! Partitions a graph so that each part fits into memory.

use super::runs::Runs;
use super::{Asked, PrepareError};
use crate::grid::Plan;
use std::ops::Range;

/// Keys per interval of a graph in memory.
pub(super) const RESIDENT_KEYS: u32 = 1 << 17;

/// Sets the intervals of a graph that stays in memory.
pub(super) fn cut_evenly(plan: &mut Plan) {
    plan.intervals = even(plan.vertices, u64::from(plan.vertices.div_ceil(RESIDENT_KEYS)));
}

/// Sets the intervals and chunks of a graph whose edges are in runs.
pub(super) fn cut_runs(plan: &mut Plan, asked: &Asked, runs: &Runs) -> Result<(), PrepareError> {
    let (vertices, memory) = (plan.vertices, asked.memory_bytes);
    if asked.mapped {
        return Ok(());
    }
    let state = u64::from(vertices) * asked.vertex_bytes;
    let whole_state = state <= memory / 2;
    if !whole_state && !asked.chunked {
        let what = "the values of all vertices";
        return Err(PrepareError::Memory { what, needed: 2 * state, allowed: memory });
    }
    let width = u32::try_from(memory / 8 / 20).unwrap_or(u32::MAX).max(1);
    plan.intervals = cut(runs, 0..vertices, asked.fit() as u64, width);
    if !whole_state {
        plan.chunks = join(&plan.intervals, (memory / 4 / 8).max(1));
    }
    let windows = plan.interval_count() * plan.chunk_count();
    if windows > 1 << 16 {
        let needed = memory * (windows as u64 / (1 << 15));
        return Err(PrepareError::Memory { what: "windows of a useful size", needed, allowed: memory });
    }
    Ok(())
}

/// Cuts `keys` into intervals of about `edges_max` edges and `width` vertices at most. Returns the start of each, then the end of `keys`. An interval
/// is at least one range, even if that has more edges.
pub(super) fn cut(runs: &Runs, keys: Range<u32>, edges_max: u64, width: u32) -> Vec<u32> {
    let (counts, shift) = runs.histogram();
    let range_keys = 1_u64 << shift;
    let width = u64::from(width).max(range_keys);
    let mut begins = vec![keys.start];
    let (mut edges, mut from) = (0, u64::from(keys.start));
    let mut range = (keys.start >> shift) as usize;
    loop {
        let begin = range as u64 * range_keys;
        if begin >= u64::from(keys.end) {
            break;
        }
        let count = counts.get(range).copied().unwrap_or(0);
        if begin > from && (edges + count > edges_max || begin + range_keys - from > width) {
            begins.push(begin as u32);
            (edges, from) = (0, begin);
        }
        edges += count;
        // Beyond the last key with edges there is nothing to count.
        range += if range < counts.len() { 1 } else { (width / range_keys) as usize };
    }
    begins.push(keys.end);
    begins
}

fn even(vertices: u32, count: u64) -> Vec<u32> {
    let count = count.clamp(1, u64::from(vertices.max(1)));
    (0..=count).map(|at| (u64::from(vertices) * at / count) as u32).collect()
}

/// Joins whole intervals to chunks of at most `width` vertices, or single intervals.
fn join(intervals: &[u32], width: u64) -> Vec<u32> {
    let mut begins = vec![0];
    for pair in intervals.windows(2) {
        let begin = begins[begins.len() - 1];
        if pair[0] > begin && u64::from(pair[1] - begin) > width {
            begins.push(pair[0]);
        }
    }
    begins.push(intervals[intervals.len() - 1]);
    begins
}
