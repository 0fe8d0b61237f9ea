//! `[[drive.namespace]]`: what the drive offers hosts, and which blocks of every die each namespace has.

use super::error::SpecError;
use super::resolve_media::NO_COPIES;
use super::schema::Fallback::Empty;
use super::schema::{Key, Kind, Values, count, key};
use super::table::Table;
use pellucid_device::{Feedback, Namespace};
use pellucid_flash::{Layout, Vector};
use pellucid_ftl::{ChunkConfig, Management, WriteFailure, ZoneConfig};
use pellucid_media::{MediaConfig, StoreKind};
use std::ops::Range;

pub(crate) const KEYS: &[Key] = &[key(
    "drive.namespace",
    Kind::Tables,
    Empty,
    "Namespaces, each with an interface and blocks of every die; none: one block namespace of everything",
)];

const INTERFACES: &[&str] = &["block", "fdp", "open-channel", "zoned"];
const BLOCK: &[&str] = &["interface", "blocks"];
const OPEN_CHANNEL: &[&str] = &[
    "interface",
    "blocks",
    "management",
    "spare_blocks",
    "write_optimal",
    "cached",
    "open_max",
    "open_per_unit_max",
    "on_write_failure",
    "rated_erases",
    "unwritten",
    "copyback",
    "high_ecc",
    "very_high_ecc",
    "high_ecc_bits",
    "very_high_ecc_bits",
    "wear_gap",
];
const ZONED: &[&str] = &[
    "interface",
    "blocks",
    "spare_blocks",
    "dies_per_zone",
    "open_max",
    "active_max",
    "append_max",
    "stage",
    "buffer",
];
/// Erases at which an unlimited part counts as worn, for the wear index: the rating of MLC of the first open-channel drives.
const RATED_ERASES: u32 = 3000;

/// The namespaces; `media` gets the spare bytes that they give to hosts.
pub(crate) fn build(
    values: &Values,
    layout: &Layout,
    media: &mut MediaConfig,
) -> Result<Vec<Namespace>, SpecError> {
    let rows = values.tables("drive.namespace");
    let mut namespaces = Vec::with_capacity(rows.len());
    let mut free = 0..layout.blocks_per_die;
    for (index, row) in rows.iter().enumerate() {
        let table = Table { list: "drive.namespace", index, row };
        let interface = table.word("interface", INTERFACES, None)?;
        table.check_names(match interface.as_str() {
            "block" | "fdp" => BLOCK,
            "zoned" => ZONED,
            _ => OPEN_CHANNEL,
        })?;
        let blocks = share(&table, &mut free, index + 1 == rows.len())?;
        namespaces.push(match interface.as_str() {
            interface @ ("block" | "fdp") => {
                if namespaces.iter().any(|n| matches!(n, Namespace::Block { .. })) {
                    return Err(table.refuse("interface", "at most one block namespace"));
                }
                // It is a block namespace that promises handles.
                if interface == "fdp" && values.u32("drive.ftl.handles") < 2 {
                    return Err(
                        table.refuse("interface", "block, or with fdp drive.ftl.handles of 2 at least")
                    );
                }
                Namespace::Block { blocks }
            }
            "zoned" => {
                media.metadata_bytes = Vector::METADATA_BYTES as u32;
                zoned(&table, blocks, layout)?
            }
            _ => {
                media.metadata_bytes = Vector::METADATA_BYTES as u32;
                open_channel(&table, blocks, layout, media)?
            }
        });
    }
    if matches!(media.store, StoreKind::File(_)) {
        media.save_bytes = pellucid_device::save_bytes(&namespaces, layout);
    }
    check_spare(values, layout, media)?;
    Ok(namespaces)
}

/// The blocks of every die that a namespace has: as many as it asks for, of those that are left; the last may take the rest.
fn share(table: &Table, free: &mut Range<u32>, last: bool) -> Result<Range<u32>, SpecError> {
    let left = free.end - free.start;
    if left == 0 {
        return Err(table.refuse("blocks", "fewer in the namespaces before: none of a die is left"));
    }
    let kind = Kind::Whole(1, left.into());
    let blocks = table.number("blocks", kind, last.then_some(left))?;
    let start = free.start;
    free.start += blocks;
    Ok(start..free.start)
}

/// The host's metadata must fit the spare area that the page has.
fn check_spare(values: &Values, layout: &Layout, media: &MediaConfig) -> Result<(), SpecError> {
    let sectors = media.geometry.page_bytes / layout.sector_bytes;
    let needed = sectors * media.metadata_bytes;
    if media.geometry.spare_bytes < needed {
        let allowed = format!("at least {needed}: {} bytes for each sector of a page", media.metadata_bytes);
        return Err(values.refuse("drive.media.spare_size", allowed));
    }
    Ok(())
}

fn open_channel(
    table: &Table,
    blocks: Range<u32>,
    layout: &Layout,
    media: &MediaConfig,
) -> Result<Namespace, SpecError> {
    let number = |name, least, default| table.number(name, count(least), Some(default));
    let stripes = Kind::Whole(1, layout.stripes_per_block.into());
    let management = match table.word("management", &["host", "shared"], Some("host"))?.as_str() {
        "host" if table.has("spare_blocks") => {
            return Err(
                table.refuse("spare_blocks", "none: management = \"host\" leaves spare blocks to the host")
            );
        }
        "host" => Management::Host,
        _ => {
            let most = blocks.len() as u64 - 1;
            let spare_blocks = table.number("spare_blocks", Kind::Whole(1, most), None)?;
            Management::Shared { spare_blocks }
        }
    };
    let copyback = table.flag("copyback", false)?;
    if copyback && media.integrity.forbids_copies() {
        return Err(table.refuse("copyback", NO_COPIES));
    }
    let failure = match table.word("on_write_failure", &["close", "next-unit"], Some("close"))?.as_str() {
        "close" => WriteFailure::CloseChunk,
        _ => WriteFailure::NextUnit,
    };
    Ok(Namespace::OpenChannel {
        chunks: ChunkConfig {
            blocks,
            management,
            write_optimal_stripes: table.number("write_optimal", stripes, Some(1))?,
            cached_stripes: table.number(
                "cached",
                Kind::Whole(0, layout.stripes_per_block.into()),
                Some(0),
            )?,
            open_max: number("open_max", 0, 0)?,
            open_per_unit_max: number("open_per_unit_max", 0, 0)?,
            failure,
            rated_erases: number("rated_erases", 1, media.endurance.unwrap_or(RATED_ERASES))?,
        },
        feedback: Feedback {
            unwritten_is_error: table.word("unwritten", &["zeros", "error"], Some("zeros"))? == "error",
            copyback,
            high_ecc: table.flag("high_ecc", false)?,
            very_high_ecc: table.flag("very_high_ecc", false)?,
            high_ecc_bits: number("high_ecc_bits", 1, u32::MAX)?,
            very_high_ecc_bits: number("very_high_ecc_bits", 1, u32::MAX)?,
            wear_gap: number("wear_gap", 0, 0)?,
        },
    })
}

fn zoned(table: &Table, blocks: Range<u32>, layout: &Layout) -> Result<Namespace, SpecError> {
    let stripe = layout.units_per_stripe * layout.sectors_per_unit;
    let dies_per_zone =
        table.number("dies_per_zone", Kind::Whole(1, layout.dies.into()), Some(layout.dies))?;
    if !layout.dies.is_multiple_of(dies_per_zone) {
        return Err(table.refuse("dies_per_zone", format!("a divisor of the {} dies", layout.dies)));
    }
    let protected = table.word("buffer", &["volatile", "protected"], Some("volatile"))? == "protected";
    // The staging log of a volatile buffer holds a stripe for each active zone, in half a block.
    let most = if protected { u32::MAX } else { (layout.stripes_per_block / 2).max(1) };
    let limit = Kind::Whole(1, most.into());
    let active_max = table.number("active_max", limit, Some(most.min(ACTIVE_ZONES)))?;
    let open_max = table.number("open_max", Kind::Whole(1, active_max.into()), Some(active_max))?;
    let least = Kind::Whole(u64::from(active_max) + 1, 1 << 20);
    let shortest = ZoneConfig::APPEND_MAX_BYTES_LEAST.div_ceil(layout.sector_bytes.into()) as u32;
    let mut zones = ZoneConfig {
        spare_blocks: 0,
        dies_per_zone,
        open_max,
        active_max,
        append_max_sectors: table.number("append_max", count(shortest.into()), Some(stripe.max(shortest)))?,
        stage_stripes: table.number("stage", least, Some(active_max + 2 * layout.dies))?,
        protected,
        blocks,
    };
    let least = zones.spare_least(layout.stripes_per_block).div_ceil(layout.dies);
    let most = zones.blocks.len() as u32 - 1;
    if protected && least > most {
        let sentence = format!(
            "volatile: a protected one of {} stripes needs {least} spare blocks of every die and \
            at least 1 for zones",
            zones.stage_stripes
        );
        return Err(table.refuse("buffer", sentence));
    }
    let usual = (zones.blocks.len() as u32 / 32).max(least);
    zones.spare_blocks = table.number("spare_blocks", Kind::Whole(least.into(), most.into()), Some(usual))?;
    Ok(Namespace::Zoned { zones })
}

/// Active zones that a drive allows if its description does not say.
const ACTIVE_ZONES: u32 = 14;

/// What translation of the block namespace works on; `None` if there is none.
pub(crate) fn block_layout(namespaces: &[Namespace], layout: &Layout) -> Option<Layout> {
    if namespaces.is_empty() {
        return Some(layout.clone());
    }
    let own = namespaces.iter().find(|n| matches!(n, Namespace::Block { .. }))?;
    Some(layout.with_blocks_per_die(own.blocks().len() as u32))
}
