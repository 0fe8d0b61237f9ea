//! Baseline for comparison: edges are mapped into memory, and the system decides which pages stay there.
//! PageRank only.
//!
//! The files are those of one window, so the comparison shows how the data are moved, not how they are laid
//! out.

use crate::FileStore;
use crate::threads::Threads;
use memmap2::{Mmap, MmapOptions};
use pellucid_graph::grid::{Block, Grid};
use pellucid_graph::pagerank::{PageRankConfig, gather};
use pellucid_graph::store::{Segment, StoreError, absent};
use std::fs::File;

/// Computes the ranks of all vertices, and returns them with the number of iterations.
pub fn ranks(
    grid: &Grid,
    store: &mut FileStore,
    config: &PageRankConfig,
    threads: Threads,
    mut step: impl FnMut(u32),
) -> Result<(Vec<f64>, u32, f64), StoreError> {
    let offsets = map(store, Segment::Offsets(0, 0))?;
    let others = map(store, Segment::Others(0, 0))?;
    let degrees = map(store, Segment::Degrees)?;
    let degrees: Vec<u32> = degrees.as_ref().map_or(Vec::new(), |map| bytemuck::cast_slice(map).to_vec());
    let vertices = grid.plan.vertices as usize;
    let mut shares: Vec<f32> =
        degrees.iter().map(|&degree| (1.0 / vertices as f64 / f64::from(degree.max(1))) as f32).collect();
    let mut dangling: f64 = degrees.iter().filter(|&&degree| degree == 0).count() as f64 / vertices as f64;
    let (mut iteration, mut change) = (0, f64::INFINITY);
    let mut sums = vec![0.0; vertices];
    while iteration < config.iterations && change >= config.tolerance {
        sums.fill(0.0);
        if let (Some(offsets), Some(others)) = (&offsets, &others) {
            let (offsets, others) = (bytemuck::cast_slice(offsets), bytemuck::cast_slice(others));
            let block = Block { first: 0, offsets, begin: 0, others, weights: &[] };
            gather(block, 0, 0, &shares, &mut sums, &threads);
        }
        let base = (1.0 - config.damping + config.damping * dangling) / vertices as f64;
        (change, dangling) = (0.0, 0.0);
        for vertex in 0..vertices {
            let out = f64::from(degrees[vertex].max(1));
            let rank = base + config.damping * sums[vertex];
            change += (rank - f64::from(shares[vertex]) * out).abs();
            dangling += if degrees[vertex] == 0 { rank } else { 0.0 };
            shares[vertex] = (rank / out) as f32;
        }
        iteration += 1;
        step(iteration);
    }
    let ranks =
        shares.iter().zip(&degrees).map(|(&share, &degree)| f64::from(share) * f64::from(degree.max(1)));
    Ok((ranks.collect(), iteration, change))
}

/// Maps a segment into memory; returns `None` if it is empty.
#[expect(unsafe_code, reason = "a memory map")]
fn map(store: &mut FileStore, segment: Segment) -> Result<Option<Mmap>, StoreError> {
    let bytes = store.verify(segment)? as usize;
    if bytes == 0 {
        return Ok(None);
    }
    let file = File::open(store.path(segment)).map_err(|_| absent(segment))?;
    // SAFETY: the directory is locked, and a sealed segment does not change.
    let map = unsafe { MmapOptions::new().len(bytes).map(&file) };
    map.map(Some).map_err(|error| StoreError::Failed { segment, why: error.to_string() })
}
