//! How a target is divided: what the engine may count on, the write buffer, and the lines that stay free.
//!
//! Beside the data of the application, a target needs lines that are open or being emptied, and a reserve with which GC can
//! always end. What the free lines mean for the buffer is the rate limiter's affair ([`RateLimiter`]).
//!
//! Invariants: what the reserve holds is enough for everything in the ring and for the GC copies of a line; with no more free lines
//! than that, there is one whose GC takes less than it gives.

use super::line::Lines;
use super::rate::RateLimiter;
use super::{HostFtlConfig, HostFtlError};
use pellucid_ftl::{Durability, FtlConfig, Isolation, Map, PageMap, Placement, Separation, WearLevelling};

/// The engine's settings: one die, its blocks the lines.
pub(super) fn engine_config(config: &HostFtlConfig, lines: &Lines) -> FtlConfig {
    FtlConfig {
        map: Map::Page,
        over_provisioning: config.over_provisioning,
        capacity_bytes: config.capacity_bytes,
        victim: config.victim,
        placement: Placement::WayFirst,
        separation: config.separation,
        gc_low_blocks: high_mark(config, lines) - 1,
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
        seed: config.uuid,
    }
}

/// Free lines from which on the application gets the whole buffer.
fn high_mark(config: &HostFtlConfig, lines: &Lines) -> u32 {
    let share = (f64::from(lines.layout().blocks) * config.gc_share) as u32;
    share.max(reserve(config, lines, buffer_sectors(config, lines).next_power_of_two()) + 2)
}

/// Sectors of the ring, before they are rounded up.
pub(super) fn buffer_sectors(config: &HostFtlConfig, lines: &Lines) -> u32 {
    match config.buffer_sectors {
        0 => (2 + lines.held_rows) * lines.units * lines.superpage_sectors,
        sectors => sectors,
    }
}

/// Free lines that the application leaves alone: one to move a line into, what the ring can hold, and one for translation pages; one
/// more where GC copies do not share the application's open line.
fn reserve(config: &HostFtlConfig, lines: &Lines, buffer: u32) -> u32 {
    1 + buffer.div_ceil(lines.layout().units_per_block)
        + u32::from(config.durability != Durability::Volatile)
        + u32::from(config.separation != Separation::Off)
}

/// So many sectors of data leave a victim line, wherever they lie, when the free lines are down to the reserve.
///
/// What a line holds moves in whole superpages, so that only one with a superpage's worth of stale sectors gives more than it takes.
/// Translation pages have a superpage each, so a line of them gives more only if it has fewer of them than superpages. Where a line has
/// few superpages that is much.
fn most_user_units(config: &HostFtlConfig, lines: &Lines, ftl: &PageMap, reserve: u32) -> u64 {
    let layout = lines.layout();
    let journal = u32::from(config.durability != Durability::Volatile);
    let open = 1 + journal + u32::from(config.separation != Separation::Off);
    let of_map = ftl.map_pages() / layout.superpages_per_block;
    let closed = layout.blocks.saturating_sub(reserve + open + of_map);
    let full = layout.units_per_block - layout.units_per_superpage + 1;
    (u64::from(closed) * u64::from(full)).saturating_sub(1)
}

/// The rate limiter for a ring of `buffer` sectors.
///
/// # Errors
/// When the target has too few lines to work with.
pub(super) fn rate_limiter(
    config: &HostFtlConfig,
    lines: &Lines,
    ftl: &PageMap,
    buffer: u32,
) -> Result<RateLimiter, HostFtlError> {
    let reserve = reserve(config, lines, buffer);
    // Beside the reserve: the open line of data, that of translation pages, and one that GC empties; perhaps an open line of what it
    // has moved.
    let layout = lines.layout();
    let open = 3 + u32::from(config.separation != Separation::Off);
    let working = u64::from(reserve + open) * u64::from(layout.units_per_block);
    let user = u64::from(ftl.user_units());
    let working =
        working.max(u64::from(layout.units).saturating_sub(most_user_units(config, lines, ftl, reserve)));
    if user + working > u64::from(layout.units) {
        return Err(HostFtlError::Room(pellucid_ftl::SetupError::TooLittleSpare {
            physical_units: layout.units.into(),
            user_units: user,
            needed_units: working,
        }));
    }
    Ok(RateLimiter::new(reserve, high_mark(config, lines), buffer, lines.superpage_sectors))
}
