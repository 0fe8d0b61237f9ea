//! The report on blocks and their wear.
//!
//! Invariant: bad blocks count neither in erase counts nor in the histogram.

use serde::Serialize;

/// Blocks and their erase counts at the end of the run. Erase counts cover good blocks only.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wear {
    /// Erase units of the drive, good and bad.
    pub blocks: u64,
    /// Erased blocks ready for new data.
    pub free_blocks: u64,
    /// Blocks bad from the factory.
    pub bad_blocks_factory: u64,
    /// Blocks retired in use.
    pub bad_blocks_grown: u64,
    /// True if writes are refused because no block can be freed for new data.
    pub read_only: bool,
    /// Erase counts of good blocks since the drive was made, ageing included.
    pub erases: EraseCounts,
    /// Good blocks by erase count, in at most 64 bins of equal width.
    pub histogram: WearHistogram,
    /// Mean erase count of the good blocks of each die, a list per channel.
    pub die_mean_erases: Vec<Vec<f64>>,
}

/// Statistics of erase counts over good blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EraseCounts {
    /// Sum.
    pub total: u64,
    /// Smallest.
    pub min: u32,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: u32,
    /// Standard deviation over all good blocks (population).
    pub stddev: f64,
}

/// Good blocks by erase count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WearHistogram {
    /// Smallest erase count of each bin.
    pub from_erases: Vec<u32>,
    /// Erase counts that each bin spans.
    pub bin_erases: u32,
    /// Good blocks in each bin.
    pub blocks: Vec<u64>,
}

impl EraseCounts {
    /// Computes the statistics from the erase counts of all good blocks.
    pub fn of(counts: &[u32]) -> EraseCounts {
        let n = counts.len().max(1) as f64;
        let total: u64 = counts.iter().map(|&c| u64::from(c)).sum();
        let mean = total as f64 / n;
        let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / n;
        EraseCounts {
            total,
            min: counts.iter().copied().min().unwrap_or(0),
            mean,
            max: counts.iter().copied().max().unwrap_or(0),
            stddev: variance.sqrt(),
        }
    }
}

impl WearHistogram {
    const BINS: u32 = 64;

    /// Computes the histogram from the erase counts of all good blocks, from the smallest to the largest.
    pub fn of(counts: &[u32]) -> WearHistogram {
        let (Some(&min), Some(&max)) = (counts.iter().min(), counts.iter().max()) else {
            return WearHistogram::default();
        };
        let width = (max - min) / WearHistogram::BINS + 1;
        let bins = (max - min) / width + 1;
        let mut blocks = vec![0; bins as usize];
        for count in counts {
            blocks[((count - min) / width) as usize] += 1;
        }
        WearHistogram {
            from_erases: (0..bins).map(|bin| min + bin * width).collect(),
            bin_erases: width,
            blocks,
        }
    }
}
