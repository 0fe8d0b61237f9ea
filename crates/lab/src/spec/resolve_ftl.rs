//! `[drive.ftl]`: translation.

use super::error::SpecError;
use super::schema::Fallback::{Flag, Real, Whole, Word};
use super::schema::{Key, Kind, TIME, Values, count, key};
use super::value::Quantity;
use pellucid_flash::Layout;
use pellucid_ftl::{
    Durability, FtlConfig, HANDLES_MAX, Isolation, Placement, Separation, SlcCache, Victim, WearLevelling,
};

pub(crate) const VICTIMS: Kind = Kind::WordOrCount(Victim::WORDS, Victim::PREFIX);
const CAPACITY: Kind = Kind::Or("auto", &Kind::Unit(Quantity::Size, 1, i64::MAX as u64));
const SEED: Kind = Kind::Whole(0, i64::MAX as u64);
const PLACEMENTS: Kind = Kind::Word(&["channel-first", "way-first", "random"]);
const SEPARATIONS: Kind = Kind::Word(&["off", "collected", "frequency"]);
const DURABILITIES: Kind = Kind::Word(&["volatile", "journal"]);

pub(crate) const KEYS: &[Key] = &[
    key("drive.ftl.map", Kind::Word(&["page"]), Word("page"), "What the map points to"),
    key(
        "drive.ftl.over_provisioning",
        Kind::Real(0.0, 100.0),
        Real(0.1),
        "Spare as a share of the user capacity",
    ),
    key(
        "drive.ftl.capacity",
        CAPACITY,
        Word("auto"),
        "User capacity, instead of what over_provisioning yields",
    ),
    key("drive.ftl.victim", VICTIMS, Word("greedy"), "Which block collection empties next"),
    key("drive.ftl.placement", PLACEMENTS, Word("channel-first"), "In which order new data go to the dies"),
    key("drive.ftl.separation", SEPARATIONS, Word("collected"), "How hot and cold data are kept apart"),
    key(
        "drive.ftl.gc_low",
        count(1),
        Whole(1),
        "Foreground collection starts at this many free blocks of a die",
    ),
    key(
        "drive.ftl.gc_high",
        count(0),
        Whole(0),
        "Background collection ends at this many; gc_low or less: off",
    ),
    key(
        "drive.ftl.gc_pacing",
        Kind::Flag,
        Flag(false),
        "Host data take room in a die that collects as fast as collection makes it",
    ),
    key("drive.ftl.gc_parallel", count(1), Whole(1), "Relocations that one die keeps in flight"),
    key("drive.ftl.copyback", Kind::Flag, Flag(false), "Relocate inside a die without a channel transfer"),
    key("drive.ftl.wear.dynamic", Kind::Flag, Flag(true), "Of the free blocks of a die, take the least worn"),
    key(
        "drive.ftl.wear.static_gap",
        Kind::Or("never", &count(1)),
        Word("never"),
        "Erase-count gap that moves cold data",
    ),
    key("drive.ftl.durability", DURABILITIES, Word("journal"), "What survives a power cut"),
    key(
        "drive.ftl.checkpoint_every",
        Kind::Whole(0, i64::MAX as u64),
        Whole(0),
        "Programs between two rounds of a full checkpoint; 0: a quarter of the drive's stripes",
    ),
    key(
        "drive.ftl.handles",
        Kind::Whole(1, HANDLES_MAX as u64),
        Whole(1),
        "Placement handles of the host, each with blocks of its own; 1: no placement",
    ),
    key(
        "drive.ftl.isolation",
        Kind::Word(&["initial", "persistent"]),
        Word("initial"),
        "Whether data of different handles stay apart when collection moves them",
    ),
    key(
        "drive.ftl.slc_cache.blocks",
        count(0),
        Whole(0),
        "Blocks of each die that take host data first, with one bit per cell (pSLC); 0: no such cache",
    ),
    key(
        "drive.ftl.slc_cache.fold_after",
        TIME,
        Word("100ms"),
        "Idle time after which what the SLC cache holds is moved to blocks of all bits",
    ),
    key("drive.ftl.seed", SEED, Whole(1), "Seed of all policy randomness"),
];

/// The translation layer of a block namespace of this `layout`; `None`: there is none, and its keys say nothing.
pub(crate) fn build(values: &Values, layout: Option<&Layout>) -> Result<FtlConfig, SpecError> {
    let ftl = FtlConfig {
        over_provisioning: values.real("drive.ftl.over_provisioning"),
        capacity_bytes: values.whole_or_none("drive.ftl.capacity"),
        victim: victim(values.text("drive.ftl.victim")),
        placement: match values.text("drive.ftl.placement") {
            "channel-first" => Placement::ChannelFirst,
            "way-first" => Placement::WayFirst,
            _ => Placement::Random,
        },
        separation: match values.text("drive.ftl.separation") {
            "off" => Separation::Off,
            "collected" => Separation::Collected,
            _ => Separation::Frequency,
        },
        gc_low_blocks: values.u32("drive.ftl.gc_low"),
        gc_high_blocks: values.u32("drive.ftl.gc_high"),
        gc_pacing: values.flag("drive.ftl.gc_pacing"),
        gc_parallel: values.u32("drive.ftl.gc_parallel"),
        copyback: values.flag("drive.ftl.copyback"),
        wear: WearLevelling {
            dynamic: values.flag("drive.ftl.wear.dynamic"),
            static_gap: values.whole_or_none("drive.ftl.wear.static_gap").map(|gap| gap as u32),
        },
        durability: match values.text("drive.ftl.durability") {
            "volatile" => Durability::Volatile,
            _ => Durability::Journal { checkpoint_every: values.whole("drive.ftl.checkpoint_every") },
        },
        handles: values.u32("drive.ftl.handles") as u16,
        isolation: match values.text("drive.ftl.isolation") {
            "initial" => Isolation::Initial,
            _ => Isolation::Persistent,
        },
        slc_cache: slc_cache(values, layout)?,
        seed: values.whole("drive.ftl.seed"),
    };
    layout.map_or(Ok(()), |layout| check_spare(values, &ftl, layout))?;
    Ok(ftl)
}

/// The SLC cache of a drive of this layout.
fn slc_cache(values: &Values, layout: Option<&Layout>) -> Result<Option<SlcCache>, SpecError> {
    const KEY: &str = "drive.ftl.slc_cache.blocks";
    let blocks = values.u32(KEY);
    if blocks == 0 {
        return Ok(None);
    }
    let bits = super::resolve_media::one_shot_bits(values);
    let only = |what: &str| Err(values.refuse(KEY, format!("0, or more with {what}")));
    let Some(layout) = layout else { return only("a block namespace") };
    if !values.tables("drive.namespace").is_empty() {
        return only("one block namespace of the whole drive (drive.namespace = [])");
    }
    let Some(bits) = bits else {
        return only(
            "cells of several bits whose pages are programmed together (drive.media.one_shot_pages, drive.media.mode = \"native\")",
        );
    };
    if blocks > layout.blocks_per_die / 2 {
        return Err(
            values.refuse(KEY, format!("at most {}, half of the blocks of a die", layout.blocks_per_die / 2))
        );
    }
    if layout.stripes_per_block < bits {
        return only(&format!("drive.media.pages of at least {}", bits * bits));
    }
    if values.u32("drive.ftl.handles") > 1 {
        return only("drive.ftl.handles = 1");
    }
    if values.flag("drive.media.bit_errors.enabled") {
        return only(
            "drive.media.bit_errors.enabled = false: the model knows no blocks in SLC mode among others",
        );
    }
    Ok(Some(SlcCache { blocks, bits, fold_after: values.time("drive.ftl.slc_cache.fold_after") }))
}

/// The text has passed [`VICTIMS`].
pub(crate) fn victim(text: &str) -> Victim {
    Victim::named(text).expect("the schema knows the names")
}

/// Blocks that each die keeps: what translation needs, and at least those below the threshold of collection, one that host data fill and
/// one that relocated data fill; and as many again for each further handle.
fn kept_blocks(ftl: &FtlConfig) -> u32 {
    let each = if ftl.isolation == Isolation::Persistent { 2 } else { 1 };
    let by_threshold = ftl.gc_low_blocks.saturating_add(2 + each * u32::from(ftl.handles - 1));
    by_threshold.max(ftl.working_blocks())
}

/// Collection must be able to free a block: refuses a user capacity that leaves a die too few spare blocks.
fn check_spare(values: &Values, ftl: &FtlConfig, layout: &Layout) -> Result<(), SpecError> {
    let (kept, blocks) = (kept_blocks(ftl), layout.blocks_per_die - ftl.cache_blocks());
    let user_max = ftl.user_units_max(layout, kept);
    if user_max == 0 {
        let allowed = format!(
            "at most {}: each die of {blocks} blocks keeps {kept} for itself",
            (blocks + ftl.gc_low_blocks).saturating_sub(kept + 1 + ftl.common_blocks())
        );
        return Err(values.refuse("drive.ftl.gc_low", allowed));
    }
    let common = if ftl.common_blocks() > 0 { ", the drive one more" } else { "" };
    // A stripe is programmed as a whole, so a block that lacks less than one cannot be collected.
    let lacking = match layout.units_per_stripe - 1 {
        0 => String::new(),
        units => format!(", and each of the others may lack {units} units"),
    };
    let needed = format!("each die of {blocks} blocks keeps {kept} for itself{common}{lacking}");
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
        let allowed = format!("at least {}: {needed}", (least.ceil() + 1.0) / 1e4);
        return Err(values.refuse("drive.ftl.over_provisioning", allowed));
    }
    if user == 0 {
        return Err(
            values.refuse("drive.ftl.over_provisioning", "less: no mapping unit is left for the user")
        );
    }
    Ok(())
}
