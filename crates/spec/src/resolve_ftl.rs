//! `[drive.ftl]`: translation.

use super::error::SpecError;
use super::resolve_namespaces::Translated;
use super::schema::Values;
use pellucid_device::DeviceConfig;
use pellucid_flash::Layout;
use pellucid_ftl::{Durability, FtlConfig, Isolation, LogBlock, Map, SlcCache, SlcCacheSettings};
use pellucid_setting::Settings;
use pellucid_text::write_share;

/// Completes and checks the translation of these blocks; `None`: there is no block namespace, and its keys have no effect.
pub(crate) fn finish(
    drive: &mut DeviceConfig,
    values: &Values,
    translated: Option<&Translated>,
) -> Result<(), SpecError> {
    let asked = SlcCacheSettings::take(values, "drive.ftl.slc_cache");
    check_map(&drive.ftl, asked, values)?;
    drive.ftl.slc_cache = slc_cache(drive, asked, values, translated.map(|translated| &translated.layout))?;
    translated.map_or(Ok(()), |translated| check_spare(drive, values, translated))
}

/// Refuses a translation that other keys rule out.
fn check_map(ftl: &FtlConfig, slc_cache: SlcCacheSettings, values: &Values) -> Result<(), SpecError> {
    if ftl.map.log_blocks().is_some() {
        let only = |what: &str| {
            Err(values.refuse("drive.ftl.map", format!("log blocks (\"bast\", \"fast\") {what}")))
        };
        if ftl.handles > 1 {
            return only("with drive.ftl.handles = 1, as they keep nothing apart");
        }
        if slc_cache.blocks > 0 {
            return only("without an SLC cache (drive.ftl.slc_cache.blocks = 0)");
        }
    }
    if matches!(ftl.map, Map::Demand { .. }) && ftl.durability == Durability::Volatile {
        let allowed = "\"demand\" with drive.ftl.durability = \"journal\", as its map lies on the media";
        return Err(values.refuse("drive.ftl.map", allowed));
    }
    Ok(())
}

/// The SLC cache of a drive of this layout.
fn slc_cache(
    drive: &DeviceConfig,
    SlcCacheSettings { blocks, fold_after }: SlcCacheSettings,
    values: &Values,
    layout: Option<&Layout>,
) -> Result<Option<SlcCache>, SpecError> {
    const KEY: &str = "drive.ftl.slc_cache.blocks";
    if blocks == 0 {
        return Ok(None);
    }
    let only = |what: &str| Err(values.refuse(KEY, format!("0, or more with {what}")));
    let Some(layout) = layout else { return only("a block namespace") };
    if !drive.namespaces.is_empty() {
        return only("one block namespace of the whole drive (drive.namespace = [])");
    }
    let Some(bits) = super::resolve_media::one_shot_bits(&drive.media) else {
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
    if drive.ftl.handles > 1 {
        return only("drive.ftl.handles = 1");
    }
    if drive.media.integrity.bit_errors.is_some() {
        return only(
            "drive.media.bit_errors.enabled = false: the model knows no blocks in SLC mode among others",
        );
    }
    Ok(Some(SlcCache { blocks, bits, fold_after }))
}

/// Blocks that each die reserves: those of the translation, and at least the free blocks at which GC starts, one open block for host data, one for GC
/// copies, and as many again for each further reclaim unit handle.
fn kept_blocks(ftl: &FtlConfig) -> u32 {
    let each = if ftl.isolation == Isolation::Persistent { 2 } else { 1 };
    let by_threshold = ftl.gc_low_blocks.saturating_add(2 + each * u32::from(ftl.handles - 1));
    by_threshold.max(ftl.working_blocks())
}

/// Refuses a user capacity that leaves a die too few spare blocks for GC to free a block.
fn check_spare(drive: &DeviceConfig, values: &Values, translated: &Translated) -> Result<(), SpecError> {
    let (ftl, layout, whose) = (&translated.ftl(drive), &translated.layout, translated.words());
    if let Some(log_blocks) = ftl.reserved_log_blocks() {
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
                    translated.too_few(values, enough, &why)
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
                translated.too_few(values, usable, &format!("a die keeps {kept} for itself"))
            }
            _ => {
                values.refuse("drive.ftl.gc_low", format!("at most {most}: {whose} keeps {kept} for itself"))
            }
        });
    }
    let common = if ftl.common_blocks() > 0 { ", the drive one more" } else { "" };
    // A superpage is programmed as a whole, so a block with fewer invalid units than a superpage cannot be collected.
    let lacking = match layout.units_per_superpage - 1 {
        0 => String::new(),
        units => format!(", and each of the others may lack {units} units"),
    };
    let needed = format!("{whose} keeps {kept} for itself{common}{lacking}");
    check_capacity(values, ftl, layout, user_max, &needed)
}

/// Refuses a user capacity above `user_max` units, a limit that follows from `needed`.
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
