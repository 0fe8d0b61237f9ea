//! `[backing]`: a disk, behind a cache or alone.

use super::description::Description;
use super::error::SpecError;
use super::schema::Values;
use pellucid_device::DiskConfig;
use pellucid_media::StoreKind;
use pellucid_setting::{Settings, Word, get};
use strum::{EnumString, VariantNames};

/// Medium of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Medium {
    /// Flash.
    #[default]
    Flash,
    /// The disk of `[backing]`.
    Disk,
}

/// Kind of the second drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum BackingKind {
    /// There is none.
    #[default]
    None,
    /// A hard disk.
    Disk,
}

/// `[backing]`.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct Backing {
    /// Backing drive of the cache layer; disk: a hard disk.
    #[setting(default = "none")]
    pub kind: BackingKind,
    /// The disk, whether or not it is used.
    #[setting(flatten)]
    pub disk: DiskConfig,
}

/// Completes the disk, and refuses an impossible one.
pub(crate) fn finish(all: &mut Description, values: &Values) -> Result<(), SpecError> {
    let Description { drive, backing, precondition, .. } = all;
    let media = &drive.device.media;
    let capacity_bytes: u64 = get(values, "backing.capacity");
    backing.disk.sector_bytes = media.geometry.sector_bytes;
    backing.disk.sectors = capacity_bytes / u64::from(media.geometry.sector_bytes);
    let used = drive.kind == Medium::Disk || backing.kind == BackingKind::Disk;
    if let Some(fault) = backing.disk.fault().filter(|_| used) {
        let keys: Vec<String> = fault.settings.iter().map(|setting| format!("backing.{setting}")).collect();
        return Err(values.refuse_one(&keys, fault.sentence));
    }
    if drive.kind == Medium::Disk && matches!(media.store, StoreKind::File(_)) {
        return Err(values.refuse("drive.media.store", "none, ram: a disk is not kept in a file"));
    }
    if drive.kind == Medium::Disk && precondition.fill.share() > 0.0 {
        return Err(
            values.refuse("precondition.fill", "0 for a disk: its times do not depend on what was written")
        );
    }
    Ok(())
}
