//! Small drives for the tests of translation.
#![allow(dead_code, reason = "each test program uses some of it")]

use pellucid_flash::{Geometry, Layout};
use pellucid_ftl::{Durability, FtlConfig, Isolation, Map, Placement, Separation, Victim, WearLevelling};

/// Channels of one die with so many blocks of `pages` pages of so many units of one sector.
pub fn layout(channels: u32, blocks: u32, pages: u32, units: u32) -> Layout {
    let geometry = Geometry {
        channels,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks,
        pages,
        page_bytes: 4096 * units,
        spare_bytes: 64,
        sector_bytes: 4096,
        unit_bytes: 4096,
        multi_plane: false,
        one_shot_pages: 1,
    };
    geometry.layout().expect("a small layout")
}

/// Greedy collection from two free blocks on, relocated data apart, a third of the drive to spare, nothing durable.
pub fn config() -> FtlConfig {
    FtlConfig {
        map: Map::Page,
        over_provisioning: 0.5,
        capacity_bytes: None,
        victim: Victim::Greedy,
        placement: Placement::ChannelFirst,
        separation: Separation::Collected,
        gc_low_blocks: 2,
        gc_high_blocks: 0,
        gc_pacing: false,
        gc_parallel: 1,
        copyback: false,
        wear: WearLevelling { dynamic: true, static_gap: None },
        durability: Durability::Volatile,
        handles: 1,
        isolation: Isolation::Initial,
        slc_cache: None,
        seed: 1,
    }
}
