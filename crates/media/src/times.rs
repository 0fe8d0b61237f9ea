//! Times of array operations: a table look-up by page type, scaled by the die and by the single operation, plus a deviation of each
//! operation. Process variation also scales them by the word-line layer and by the block.
//!
//! Page `p` of a block has type `p % bits` (LSB first), the usual round-robin of shared word lines. A superpage's units are ordered
//! by page, and within a page by plane: `slot = page_of_word_line * planes + plane`. So a unit as large as a multi-plane page has a
//! single page type, and only a larger unit spans several.

use crate::{MediaConfig, MediaError, SlcBlocks};
use pellucid_flash::{Layout, Nanos, Rng};

/// Array times of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Page type of the first page of each superpage: the row of the tables below.
    row_of_superpage: Vec<u8>,
    /// Sense time: `row * units_per_superpage + unit`.
    read_ns: Vec<Nanos>,
    /// Program time: by row.
    program_ns: Vec<Nanos>,
    erase_ns: Nanos,
    units_per_superpage: u32,
    slc: Option<SlcBlocks>,
    /// Units of a superpage that one program of a block in SLC mode takes.
    slc_units: u32,
    /// Factor of each die; empty without spread.
    die_factor: Vec<f64>,
    /// Factor of each superpage of a block; empty without variation of layers.
    layer_factor: Vec<f64>,
    /// Factor of each block; empty without variation of blocks.
    block_factor: Vec<f64>,
    /// Every time equals its nominal one.
    nominal: bool,
    op_spread: f64,
    op_deviation_ns: f64,
    op_rng: Rng,
}

impl Times {
    /// Tables for a checked `config`. `made` is the seed that the dies were made with.
    pub(crate) fn new(config: &MediaConfig, layout: &Layout, made: u64) -> Times {
        let (geometry, timing) = (&config.geometry, &config.timing);
        let types = page_types(config);
        let planes = if geometry.multi_plane { geometry.planes } else { 1 };
        let one_shot = geometry.one_shot_pages;
        let type_of = |row: u32, slot: u32| ((row + slot / planes) % types) as usize;
        let rows = if one_shot > 1 { 1 } else { types };
        let mut read_ns = Vec::new();
        for row in 0..rows {
            for unit in 0..layout.units_per_superpage {
                let start = u64::from(unit) * u64::from(layout.unit_bytes);
                let first = (start / u64::from(geometry.page_bytes)) as u32;
                let slots = first..first + layout.pages_per_unit;
                let slowest = slots.map(|slot| timing.read_ns[type_of(row, slot)]).max();
                read_ns.push(slowest.expect("a unit touches at least one page"));
            }
        }
        let mut die_rng = Rng::stream(made, "media.die_spread");
        let spread = timing.die_spread;
        let dies = if spread > 0.0 { layout.dies } else { 0 };
        let (deviation, variation) = (timing.op_deviation_ns.0 as f64, timing.variation);
        let spreads = [spread, timing.op_spread, deviation, variation.layer, variation.block];
        Times {
            row_of_superpage: (0..layout.superpages_per_block).map(|s| (s % rows) as u8).collect(),
            read_ns,
            program_ns: timing.program_ns.clone(),
            erase_ns: timing.erase_ns,
            units_per_superpage: layout.units_per_superpage,
            slc: config.slc_blocks,
            slc_units: (layout.units_per_superpage / one_shot).max(1),
            die_factor: die_factors(&mut die_rng, dies, spread),
            layer_factor: layer_factors(layout.superpages_per_block, variation.layer),
            block_factor: block_factors(layout.blocks, variation.block, made),
            nominal: spreads == [0.0; 5],
            op_spread: timing.op_spread,
            op_deviation_ns: deviation,
            op_rng: Rng::stream(config.seed, "media.op_spread"),
        }
    }

    #[inline]
    pub(crate) fn read_ns(&mut self, (die, block): (u32, u32), superpage: u32, unit: u32) -> Nanos {
        let row = u32::from(self.row_of_superpage[superpage as usize]);
        let nominal = self.read_ns[(row * self.units_per_superpage + unit) as usize];
        self.scaled(die, nominal, |times| times.variation(block, superpage))
    }

    #[inline]
    pub(crate) fn program_ns(&mut self, (die, block): (u32, u32), superpage: u32) -> Nanos {
        let nominal = self.program_ns[usize::from(self.row_of_superpage[superpage as usize])];
        self.scaled(die, nominal, |times| times.variation(block, superpage))
    }

    /// Returns whether block number `block` of its die is in SLC mode.
    #[inline]
    pub(crate) fn is_slc(&self, block: u32) -> bool {
        self.slc.is_some_and(|slc| block < slc.blocks)
    }

    /// Sense time of block number `block` of `die`, if that block is in SLC mode.
    #[inline]
    pub(crate) fn slc_read_ns(&mut self, die: u32, block: u32) -> Option<Nanos> {
        let slc = self.slc.filter(|slc| block < slc.blocks)?;
        Some(self.scaled(die, slc.read_ns, |_| 1.0))
    }

    /// As [`Times::slc_read_ns`], of the program of a superpage's first `units`.
    #[inline]
    pub(crate) fn slc_program_ns(&mut self, die: u32, block: u32, units: u32) -> Option<Nanos> {
        let slc = self.slc.filter(|slc| block < slc.blocks)?;
        let pages = units.div_ceil(self.slc_units);
        Some(self.scaled(die, Nanos(slc.program_ns.0 * u64::from(pages)), |_| 1.0))
    }

    #[inline]
    pub(crate) fn erase_ns(&mut self, die: u32, block: u32) -> Nanos {
        self.scaled(die, self.erase_ns, |times| factor_of(&times.block_factor, block))
    }

    /// Factor of the place of a superpage in its die.
    #[inline]
    fn variation(&self, block: u32, superpage: u32) -> f64 {
        factor_of(&self.block_factor, block) * factor_of(&self.layer_factor, superpage)
    }

    #[inline]
    fn scaled(&mut self, die: u32, nominal: Nanos, variation: impl FnOnce(&Times) -> f64) -> Nanos {
        if self.nominal {
            return nominal;
        }
        let mut ns = nominal.0 as f64 * variation(self);
        if let Some(f) = self.die_factor.get(die as usize) {
            ns *= f;
        }
        ns *= self.op_rng.factor(self.op_spread);
        if self.op_deviation_ns > 0.0 {
            ns += self.op_deviation_ns * (2.0 * self.op_rng.unit_f64() - 1.0);
        }
        // A negative sum becomes 0.
        Nanos(ns.round() as u64)
    }
}

/// A factor for each die: spaced evenly in `1 +- spread`, in random order. So their mean is 1, and the speed of the slowest die does not
/// depend on luck.
fn die_factors(rng: &mut Rng, dies: u32, spread: f64) -> Vec<f64> {
    let even = |i: u32| 1.0 + spread * (f64::from(2 * i + 1) / f64::from(dies) - 1.0);
    let mut factors: Vec<f64> = (0..dies).map(even).collect();
    for i in (1..factors.len()).rev() {
        factors.swap(i, rng.below(i as u64 + 1) as usize);
    }
    factors
}

/// A factor for each layer of a block, rising evenly over `1 +- spread`: their mean is 1. Empty for no spread.
fn layer_factors(layers: u32, spread: f64) -> Vec<f64> {
    let even = |i: u32| 1.0 + spread * (f64::from(2 * i + 1) / f64::from(layers) - 1.0);
    if spread > 0.0 { (0..layers).map(even).collect() } else { Vec::new() }
}

/// A factor for each block, uniform in `1 +- spread`. Empty for no spread.
fn block_factors(blocks: u32, spread: f64, made: u64) -> Vec<f64> {
    let mut rng = Rng::stream(made, "media.variation.block");
    if spread > 0.0 { (0..blocks).map(|_| rng.factor(spread)).collect() } else { Vec::new() }
}

#[inline]
fn factor_of(factors: &[f64], at: u32) -> f64 {
    factors.get(at as usize).copied().unwrap_or(1.0)
}

/// Page types of the mode in use.
fn page_types(config: &MediaConfig) -> u32 {
    if config.slc_mode { 1 } else { config.cell.bits() }
}

/// Refuses times that do not fit the cells.
pub(crate) fn check(config: &MediaConfig) -> Result<(), MediaError> {
    let refuse = |key, value: String, allowed: String| Err(MediaError::Config { key, value, allowed });
    let timing = &config.timing;
    let types = page_types(config);
    let one_shot = config.geometry.one_shot_pages;
    if one_shot != 1 && one_shot != types {
        return refuse(
            "one_shot_pages",
            one_shot.to_string(),
            format!("1, or {types}: the pages of a word line"),
        );
    }
    if timing.read_ns.len() != types as usize {
        let allowed = format!("{types} times, one per page type");
        return refuse("timing.read_ns", format!("{} times", timing.read_ns.len()), allowed);
    }
    let programs = if one_shot > 1 { 1 } else { types };
    if timing.program_ns.len() != programs as usize {
        let allowed = format!("{programs} times: one per page type, or one in all for one-shot programming");
        return refuse("timing.program_ns", format!("{} times", timing.program_ns.len()), allowed);
    }
    for (key, spread) in [
        ("timing.die_spread", timing.die_spread),
        ("timing.op_spread", timing.op_spread),
        ("variation.layer", timing.variation.layer),
        ("variation.block", timing.variation.block),
    ] {
        if !(0.0..1.0).contains(&spread) {
            return refuse(key, spread.to_string(), "0 up to, not including, 1".into());
        }
    }
    let shortest = timing.read_ns.iter().chain(&timing.program_ns).chain([&timing.erase_ns]).min();
    if shortest.is_some_and(|&shortest| timing.op_deviation_ns > shortest) {
        let allowed = "at most the shortest time of an operation".into();
        return refuse("timing.op_deviation_ns", timing.op_deviation_ns.0.to_string(), allowed);
    }
    if timing.channel_bytes_per_second == 0 {
        return refuse("timing.channel_bytes_per_second", "0".into(), "1 or more".into());
    }
    Ok(())
}
