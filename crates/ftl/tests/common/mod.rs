//! Small drives for the tests of translation.

pub mod log_drive;
pub mod nand;

use pellucid_flash::{DieId, Geometry, Layout, Lpn, Ppa};
use pellucid_ftl::{
    Durability, FtlConfig, GcJob, Isolation, Load, Located, Map, MapJob, Move, PageMap, Placement, Policies,
    ProgramId, Separation, Victim, WearLevelling,
};

/// Channels of one die with `blocks` blocks of `pages` pages of `units` units of one sector.
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

/// Greedy GC from two free blocks on, GC copies apart, a third of the drive to spare, nothing durable.
pub fn config() -> FtlConfig {
    FtlConfig {
        map: Map::Page,
        over_provisioning: 0.5,
        capacity_bytes: None,
        victim: Victim::Greedy,
        placement: Placement::ChannelFirst,
        separation: Separation::GcCopies,
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
        cache: None,
        policies: Policies::default(),
        seed: 1,
    }
}

/// Location of a page; [`Ppa::NONE`] or [`Ppa::LOST`] if it has none.
pub fn place_of(map: &PageMap, lpn: Lpn) -> Ppa {
    match map.peek(lpn) {
        Located::At(ppa) => ppa,
        Located::Zero => Ppa::NONE,
        Located::Lost => Ppa::LOST,
        Located::NeedsMap(page) => panic!("{page:?} is in memory"),
    }
}

/// The next unit that GC moves in `die`.
pub fn next_move(map: &mut PageMap, die: DieId) -> Option<Move> {
    map.next_gc(die, Load::Busy).map(|job| match job {
        GcJob::Move(&[moved]) => moved,
        other => panic!("{other:?}, but a sense brings one unit"),
    })
}

/// The next program of translation pages, and their number.
pub fn next_map_program(map: &mut PageMap) -> Option<(pellucid_ftl::Plan, u32)> {
    map.next_map_job().map(|job| match job {
        MapJob::Program { plan, units, .. } => (plan, units),
        other => panic!("{other:?}"),
    })
}

/// The spare areas and contents of a planned program of translation pages.
pub fn metadata(map: &PageMap, id: ProgramId, units: u32) -> Vec<(Lpn, Vec<u8>)> {
    let unit = |position| map.metadata(id, position);
    (0..units).map(unit).map(|(mark, bytes)| (mark, bytes.to_vec())).collect()
}
