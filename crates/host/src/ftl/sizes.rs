//! Division of a target: the engine's settings, the write buffer, and the lines that stay free.
//!
//! Beside the application's data, a target needs lines that are open or being emptied, and a reserve that
//! lets GC always complete. The rate limiter ([`RateLimiter`]) divides the buffer by the number of free
//! lines.
//!
//! Invariants: the reserve is enough for everything in the ring and for the GC copies of a line; when no more
//! lines than the reserve are free, there is a line whose GC frees more than it takes.

use super::HostFtlError;
use super::rate::RateLimiter;
use super::shape::FtlShape;
use pellucid_ftl::{
    Durability, FtlConfig, Isolation, Map, PageMap, Placement, Separation, SetupError, WearLevelling,
};

/// Returns the engine's settings: one die, whose blocks are the lines.
pub(super) fn engine_config(shape: &FtlShape) -> FtlConfig {
    let config = &shape.config;
    FtlConfig {
        map: Map::Page,
        over_provisioning: config.over_provisioning,
        capacity_bytes: config.capacity_bytes,
        victim: config.victim,
        placement: Placement::WayFirst,
        separation: config.separation,
        gc_low_blocks: high_mark(shape) - 1,
        gc_high_blocks: 0,
        gc_pacing: false,
        gc_parallel: 1,
        copyback: false,
        wear: WearLevelling { dynamic: true, static_gap: None },
        durability: config.durability,
        handles: 1,
        isolation: Isolation::Initial,
        slc_cache: None,
        cache: None,
        policies: config.policies.clone(),
        seed: config.uuid,
    }
}

/// Returns the number of free lines from which on the application gets the whole buffer.
fn high_mark(shape: &FtlShape) -> u32 {
    let share = (f64::from(shape.lines()) * shape.config.gc_share) as u32;
    share.max(reserve(shape, wanted_sectors(shape).next_power_of_two()) + 2)
}

/// Returns the sectors of the ring that the configuration asks for.
fn wanted_sectors(shape: &FtlShape) -> u32 {
    match shape.config.buffer_sectors {
        0 => (2 + shape.held_rows) * shape.units * shape.superpage_sectors,
        sectors => sectors,
    }
}

/// Returns the sectors of the ring, before rounding up.
pub(super) fn buffer_sectors(shape: &FtlShape) -> Result<u32, HostFtlError> {
    let (buffer, superpage) = (wanted_sectors(shape), shape.superpage_sectors);
    // The ring must hold the sectors that the drive holds back in every chunk, and the writes that make
    // them readable.
    let least = match shape.held_rows {
        0 => 2 * superpage,
        held => (held + 2) * shape.units * superpage,
    };
    if buffer < least || buffer > 1 << 24 {
        let allowed = format!("0, or {least} to {} sectors", 1 << 24);
        return Err(HostFtlError::Setting { key: "host.ftl.buffer", value: buffer.into(), allowed });
    }
    Ok(buffer)
}

/// Returns the number of free lines that the application must leave: one as the destination of GC, enough for
/// the content of the ring, one for translation pages, and one more if GC copies have their own open line.
fn reserve(shape: &FtlShape, buffer: u32) -> u32 {
    1 + buffer.div_ceil(shape.layout.units_per_block)
        + u32::from(shape.config.durability != Durability::Volatile)
        + u32::from(shape.config.separation != Separation::Off)
}

/// Returns the maximum number of data sectors with which there is always a victim line that pays, however
/// they are placed, when only the reserve is free.
///
/// The data of a line are copied in whole superpages, so GC gains space only from a line with at least a
/// superpage of stale sectors. Each translation page takes a superpage, so a line of them pays only if it has
/// fewer valid pages than superpages. With few superpages in a line, this overhead is large.
fn most_user_units(shape: &FtlShape, ftl: &PageMap, reserve: u32) -> u64 {
    let (layout, config) = (&shape.layout, &shape.config);
    let journal = u32::from(config.durability != Durability::Volatile);
    let open = 1 + journal + u32::from(config.separation != Separation::Off);
    let of_map = ftl.map_progress().pages / layout.superpages_per_block;
    let closed = layout.blocks.saturating_sub(reserve + open + of_map);
    let full = layout.units_per_block - layout.units_per_superpage + 1;
    (u64::from(closed) * u64::from(full)).saturating_sub(1)
}

/// Creates the rate limiter for a ring of `buffer` sectors.
///
/// # Errors
/// The error says that the target has too few lines.
pub(super) fn rate_limiter(
    shape: &FtlShape,
    ftl: &PageMap,
    buffer: u32,
) -> Result<RateLimiter, HostFtlError> {
    let reserve = reserve(shape, buffer);
    // The target needs, besides the reserve, an open line of data, one of translation pages, and one that GC
    // empties; GC copies may need their own open line.
    let layout = &shape.layout;
    let open = 3 + u32::from(shape.config.separation != Separation::Off);
    let working = u64::from(reserve + open) * u64::from(layout.units_per_block);
    let user = u64::from(ftl.user_units());
    let working = working.max(u64::from(layout.units).saturating_sub(most_user_units(shape, ftl, reserve)));
    if user + working > u64::from(layout.units) {
        return Err(HostFtlError::Room(SetupError::TooLittleSpare {
            physical_units: layout.units.into(),
            user_units: user,
            needed_units: working,
        }));
    }
    Ok(RateLimiter::new(reserve, high_mark(shape), buffer, shape.superpage_sectors))
}
