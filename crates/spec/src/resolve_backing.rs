//! `[backing]`: a disk, behind a cache or alone.

use super::draft::{Draft, Store};
use super::error::SpecError;
use super::schema::Fallback::{Whole, Word};
use super::schema::{Kind, TIME, Values, few, keys, word};
use pellucid_device::DiskConfig;
use pellucid_text::Quantity;
use strum::{EnumString, VariantNames};

const SIZE: Kind = Kind::Unit(Quantity::Size, 1 << 20, 1 << 50);
const SMALL: Kind = Kind::Unit(Quantity::Size, 0, 1 << 40);
const RATE: Kind = Kind::Unit(Quantity::Rate, 1, 1 << 40);

keys! {
    "drive.kind": word::<Medium>(), Word("flash") => medium,
        "flash: the drive that the other keys describe; disk: the disk of [backing], alone";
    "backing.kind": word::<BackingKind>(), Word("none") => backing_kind,
        "Backing drive of the cache layer; disk: a hard disk";
    "backing.capacity": SIZE, Whole(1_500_301_910_016) => disk_bytes,
        "Disk: its size, or that of the partition used";
    "backing.rpm": Kind::Whole(100, 100_000), Whole(7_200) => disk.rpm,
        "Disk: revolutions per minute";
    "backing.heads": Kind::Whole(1, 64), Whole(6) => disk.heads,
        "Disk: surfaces, one head each";
    "backing.zones": Kind::Whole(1, 1_024), Whole(24) => disk.zones,
        "Disk: zones of equally long tracks";
    "backing.outer_rate": RATE, Whole(138_000_000) => disk.outer_rate,
        "Disk: sustained rate at the outer rim";
    "backing.inner_rate": RATE, Whole(66_000_000) => disk.inner_rate,
        "Disk: sustained rate at the inner rim";
    "backing.seek_track": TIME, Whole(800_000) => disk.seek_track,
        "Disk: seek to the next cylinder";
    "backing.seek_average": TIME, Whole(8_900_000) => disk.seek_average,
        "Disk: mean seek, over a third of the cylinders";
    "backing.seek_full": TIME, Whole(21_000_000) => disk.seek_full,
        "Disk: seek from rim to rim";
    "backing.head_switch": TIME, Whole(800_000) => disk.head_switch,
        "Disk: change to another head";
    "backing.write_settle": TIME, Whole(200_000) => disk.write_settle,
        "Disk: settling of a write on top of its seek";
    "backing.command": TIME, Whole(30_000) => disk.command,
        "Disk: time of its controller for a command";
    "backing.link_rate": RATE, Whole(600_000_000) => disk.link_rate,
        "Disk: rate of the host link";
    "backing.queue": Kind::Whole(1, 65_536), Whole(32) => disk.queue,
        "Disk: commands that it holds and orders (NCQ: 32)";
    "backing.write_cache": SMALL, Whole(32 << 20) => disk.write_cache_bytes,
        "Disk: acknowledged writes that it holds; 0: none";
    "backing.segments": few(0), Whole(16) => disk.segments,
        "Disk: ranges that its read buffer remembers; 0: no read buffer";
    "backing.segment": SMALL, Whole(1 << 20) => disk.segment_bytes,
        "Disk: how far it reads ahead";
    "backing.candidates": few(1), Whole(2) => disk.candidates,
        "Disk: cached writes on each side of the arm that it weighs against each other";
    "backing.retry": TIME, Whole(500_000_000) => disk.retry,
        "Disk: time until an unreadable sector is given up";
}

/// Medium of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Medium {
    /// Flash.
    #[default]
    Flash,
    /// The disk of `[backing]`.
    Disk,
}

/// Kind of the second drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum BackingKind {
    /// There is none.
    #[default]
    None,
    /// A hard disk.
    Disk,
}

/// `[backing]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Backing {
    /// Kind of the drive.
    pub kind: BackingKind,
    /// The disk, whether or not it is used.
    pub disk: DiskConfig,
}

/// Completes the disk, and refuses one that cannot be.
pub(crate) fn finish(draft: &mut Draft, values: &Values) -> Result<(), SpecError> {
    draft.disk.sector_bytes = draft.drive.media.geometry.sector_bytes;
    draft.disk.sectors = draft.disk_bytes / u64::from(draft.disk.sector_bytes);
    let used = draft.medium == Medium::Disk || draft.backing_kind == BackingKind::Disk;
    if let Some(fault) = draft.disk.fault().filter(|_| used) {
        let keys: Vec<String> = fault.settings.iter().map(|setting| format!("backing.{setting}")).collect();
        return Err(values.refuse_one(&keys, fault.sentence));
    }
    if draft.medium == Medium::Disk && !matches!(draft.store, Store::None | Store::Ram) {
        return Err(values.refuse("drive.media.store", "none, ram: a disk is not kept in a file"));
    }
    if draft.medium == Medium::Disk && draft.precondition.fill.share() > 0.0 {
        return Err(
            values.refuse("precondition.fill", "0 for a disk: its times do not depend on what was written")
        );
    }
    Ok(())
}
