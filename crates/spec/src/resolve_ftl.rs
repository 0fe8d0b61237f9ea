//! `[drive.ftl]`: translation.

use super::draft::{Draft, Survives};
use super::error::SpecError;
use super::resolve_namespaces::Translated;
use super::schema::Fallback::{Flag, Real, Whole, Word};
use super::schema::{Kind, TIME, Values, count, few, keys, word};
use pellucid_flash::Layout;
use pellucid_ftl::{
    FtlConfig, HANDLES_MAX, Isolation, LogBlock, MAP_ENTRY_BYTES, Map, MapKind, Placement, Separation,
    SlcCache, Victim,
};
use pellucid_text::{Quantity, write_share};

pub(crate) const VICTIMS: Kind = Kind::WordOrCount(Victim::WORDS, Victim::PREFIX);
const CAPACITY: Kind = Kind::Or("auto", &Kind::Unit(Quantity::Size, 1, i64::MAX as u64));
const SEED: Kind = Kind::Whole(0, i64::MAX as u64);

keys! {
    "drive.ftl.map": word::<MapKind>(), Word("page") => map,
        "Translation: page map in DRAM (page), or in flash behind a cached table (demand: DFTL); log-block hybrids (bast, fast)";
    "drive.ftl.map_cache": Kind::Unit(Quantity::Size, 2 * MAP_ENTRY_BYTES, i64::MAX as u64), Whole(64 << 10) => map_cache,
        "Memory of the cached mapping table of map = \"demand\", 8 bytes an entry";
    "drive.ftl.log_blocks": few(1), Whole(8) => log_blocks,
        "Log blocks of each die with map = \"bast\" or \"fast\"; \"fast\" has a sequential one in addition";
    "drive.ftl.over_provisioning": Kind::Share(0.0, 100.0), Real(0.1) => drive.ftl.over_provisioning,
        "Spare capacity as a share of the user capacity";
    "drive.ftl.capacity": CAPACITY, Word("auto") => drive.ftl.capacity_bytes,
        "User capacity, instead of what over_provisioning yields";
    "drive.ftl.victim": VICTIMS, Word("greedy") => drive.ftl.victim,
        "Which block GC erases next";
    "drive.ftl.placement": word::<Placement>(), Word("channel-first") => drive.ftl.placement,
        "Order in which new data go to the dies";
    "drive.ftl.separation": word::<Separation>(), Word("gc-copies") => drive.ftl.separation,
        "How hot and cold data are kept apart";
    "drive.ftl.gc_low": few(1), Whole(1) => drive.ftl.gc_low_blocks,
        "Foreground GC starts when a die has this many free blocks. They are no reserve: under load the host uses all but one";
    "drive.ftl.gc_high": few(0), Whole(0) => drive.ftl.gc_high_blocks,
        "Background GC ends when a die has this many free blocks; gc_low or less: off";
    "drive.ftl.gc_pacing": Kind::Flag, Flag(false) => drive.ftl.gc_pacing,
        "Host data take space in a die that runs GC only as fast as GC frees it";
    "drive.ftl.gc_parallel": few(1), Whole(1) => drive.ftl.gc_parallel,
        "Valid-page copies that one die keeps in flight";
    "drive.ftl.copyback": Kind::Flag, Flag(false) => drive.ftl.copyback,
        "GC copies inside a die without a channel transfer";
    "drive.ftl.wear.dynamic": Kind::Flag, Flag(true) => drive.ftl.wear.dynamic,
        "Take the least worn of the free blocks of a die";
    "drive.ftl.wear.static_gap": Kind::Or("never", &count(1)), Word("never") => drive.ftl.wear.static_gap,
        "Difference of erase counts above which cold data are moved";
    "drive.ftl.durability": word::<Survives>(), Word("journal") => durability,
        "Which data survive a power cut";
    "drive.ftl.checkpoint_every": Kind::Whole(0, i64::MAX as u64), Whole(0) => checkpoint_every,
        "Programs between two complete checkpoints of the map; 0: a quarter of the superpages of the drive";
    "drive.ftl.handles": Kind::Whole(1, HANDLES_MAX as u64), Whole(1) => drive.ftl.handles,
        "Reclaim unit handles of the host (FDP), each with open blocks of its own; 1: no placement by the host";
    "drive.ftl.isolation": word::<Isolation>(), Word("initial") => drive.ftl.isolation,
        "Whether GC keeps data of different reclaim unit handles apart";
    "drive.ftl.slc_cache.blocks": few(0), Whole(0) => slc_blocks.blocks,
        "Blocks of each die that take host data first, with one bit per cell (pSLC); 0: no SLC cache";
    "drive.ftl.slc_cache.fold_after": TIME, Word("100ms") => fold_after,
        "Idle time after which the contents of the SLC cache are folded into native blocks";
    "drive.ftl.seed": SEED, Whole(1) => drive.ftl.seed,
        "Seed of all policy randomness";
}

/// The translation of these blocks; `None`: there is no block namespace, and its keys have no effect.
pub(crate) fn finish(
    draft: &mut Draft,
    values: &Values,
    translated: Option<&Translated>,
) -> Result<(), SpecError> {
    let layout = translated.map(|translated| &translated.layout);
    draft.drive.ftl.map = map(draft, values)?;
    draft.drive.ftl.durability = draft.durability.durability(draft.checkpoint_every);
    draft.drive.ftl.slc_cache = slc_cache(draft, values, layout)?;
    translated.map_or(Ok(()), |translated| check_spare(draft, values, translated))
}

/// The translation, as far as other keys allow it.
fn map(draft: &Draft, values: &Values) -> Result<Map, SpecError> {
    let log_blocks = draft.log_blocks;
    if matches!(draft.map, MapKind::Bast | MapKind::Fast) {
        let only = |what: &str| {
            Err(values.refuse("drive.ftl.map", format!("log blocks (\"bast\", \"fast\") {what}")))
        };
        if draft.drive.ftl.handles > 1 {
            return only("with drive.ftl.handles = 1, as they keep nothing apart");
        }
        if draft.slc_blocks.blocks > 0 {
            return only("without an SLC cache (drive.ftl.slc_cache.blocks = 0)");
        }
    }
    match draft.map {
        MapKind::Page => Ok(Map::Page),
        MapKind::Bast => Ok(Map::Bast { log_blocks }),
        MapKind::Fast => Ok(Map::Fast { log_blocks }),
        MapKind::Demand if draft.durability == Survives::Journal => {
            Ok(Map::Demand { cache_bytes: draft.map_cache })
        }
        MapKind::Demand => Err(values.refuse(
            "drive.ftl.map",
            "\"demand\" with drive.ftl.durability = \"journal\", as its map lies on the media",
        )),
    }
}

/// The SLC cache of a drive of this layout.
fn slc_cache(draft: &Draft, values: &Values, layout: Option<&Layout>) -> Result<Option<SlcCache>, SpecError> {
    const KEY: &str = "drive.ftl.slc_cache.blocks";
    let blocks = draft.slc_blocks.blocks;
    if blocks == 0 {
        return Ok(None);
    }
    let only = |what: &str| Err(values.refuse(KEY, format!("0, or more with {what}")));
    let Some(layout) = layout else { return only("a block namespace") };
    if !draft.namespaces.is_empty() {
        return only("one block namespace of the whole drive (drive.namespace = [])");
    }
    let Some(bits) = super::resolve_media::one_shot_bits(&draft.drive.media) else {
        return only(
            "cells of several bits whose pages are programmed together (drive.media.one_shot_pages, drive.media.mode = \"native\")",
        );
    };
    if blocks > layout.blocks_per_die / 2 {
        let allowed = format!("at most {}, half of the blocks of a die", layout.blocks_per_die / 2);
        return Err(values.refuse(KEY, allowed));
    }
    if layout.superpages_per_block < bits {
        return only(&format!("drive.media.pages of at least {}", bits * bits));
    }
    if draft.drive.ftl.handles > 1 {
        return only("drive.ftl.handles = 1");
    }
    if draft.bit_errors_enabled {
        return only(
            "drive.media.bit_errors.enabled = false: the model knows no blocks in SLC mode among others",
        );
    }
    Ok(Some(SlcCache { blocks, bits, fold_after: draft.fold_after }))
}

/// Blocks that each die reserves: what translation needs, and at least the free blocks at which GC starts, one open
/// block for host data and one for GC copies, and as many again for each further reclaim unit handle.
fn kept_blocks(ftl: &FtlConfig) -> u32 {
    let each = if ftl.isolation == Isolation::Persistent { 2 } else { 1 };
    let by_threshold = ftl.gc_low_blocks.saturating_add(2 + each * u32::from(ftl.handles - 1));
    by_threshold.max(ftl.working_blocks())
}

/// GC must be able to free a block: refuses a user capacity that leaves a die too few spare blocks.
fn check_spare(draft: &Draft, values: &Values, translated: &Translated) -> Result<(), SpecError> {
    let (ftl, layout, whose) = (&translated.ftl(&draft.drive), &translated.layout, translated.words());
    if let Some(log_blocks) = ftl.map.log_blocks() {
        let (user_max, kept) = LogBlock::sizes(ftl, layout);
        let blocks = u64::from(layout.blocks_per_die);
        if user_max == 0 {
            let others = kept - u64::from(log_blocks);
            return Err(match blocks.checked_sub(others + 1).filter(|&most| most > 0) {
                Some(most) => {
                    let allowed =
                        format!("at most {most}: {whose} keeps {others} more for merges and metadata");
                    values.refuse("drive.ftl.log_blocks", allowed)
                }
                None => {
                    let enough = |layout: &Layout| LogBlock::sizes(ftl, layout).0 > 0;
                    let why = format!(
                        "a die has {log_blocks} log blocks (drive.ftl.log_blocks), and keeps {others} for merges and metadata"
                    );
                    translated.too_few(draft, values, enough, &why)
                }
            });
        }
        let needed = format!("{whose} keeps {kept} for {log_blocks} log blocks, merges and metadata");
        return check_capacity(values, ftl, layout, user_max, &needed);
    }
    let (kept, blocks) = (kept_blocks(ftl), layout.blocks_per_die - ftl.cache_blocks());
    let user_max = ftl.user_units_max(layout, kept);
    if user_max == 0 {
        let most = (blocks + ftl.gc_low_blocks).saturating_sub(kept + 1 + ftl.common_blocks());
        return Err(match most {
            0 => {
                let usable = |layout: &Layout| {
                    layout.blocks_per_die > ftl.cache_blocks() && ftl.user_units_max(layout, kept) > 0
                };
                translated.too_few(draft, values, usable, &format!("a die keeps {kept} for itself"))
            }
            _ => {
                values.refuse("drive.ftl.gc_low", format!("at most {most}: {whose} keeps {kept} for itself"))
            }
        });
    }
    let common = if ftl.common_blocks() > 0 { ", the drive one more" } else { "" };
    // A superpage is programmed as a whole, so a block that lacks less than one cannot be collected.
    let lacking = match layout.units_per_superpage - 1 {
        0 => String::new(),
        units => format!(", and each of the others may lack {units} units"),
    };
    let needed = format!("{whose} keeps {kept} for itself{common}{lacking}");
    check_capacity(values, ftl, layout, user_max, &needed)
}

/// Refuses a user capacity above `user_max` units, which follows from what is `needed`.
fn check_capacity(
    values: &Values,
    ftl: &FtlConfig,
    layout: &Layout,
    user_max: u64,
    needed: &str,
) -> Result<(), SpecError> {
    if let Some(capacity_bytes) = ftl.capacity_bytes {
        let unit = u64::from(layout.unit_bytes);
        if !capacity_bytes.is_multiple_of(unit) || capacity_bytes / unit > user_max {
            let allowed =
                format!("whole mapping units ({unit} bytes), at most {} bytes: {needed}", user_max * unit);
            return Err(values.refuse("drive.ftl.capacity", allowed));
        }
        return Ok(());
    }
    let units = layout.units - ftl.cache_blocks() * layout.dies * layout.units_per_block;
    let user = ftl.user_units(layout);
    if user > user_max {
        // Rounded up in the last digit shown, so that the value in the message is itself accepted.
        let least = (f64::from(units) / user_max as f64 - 1.0) * 1e4;
        let least = write_share((least.ceil() + 1.0) / 1e4);
        let allowed = format!("at least {}: {needed}", least.trim_matches('"'));
        return Err(values.refuse("drive.ftl.over_provisioning", allowed));
    }
    if user == 0 {
        return Err(
            values.refuse("drive.ftl.over_provisioning", "less: no mapping unit is left for the user")
        );
    }
    Ok(())
}
