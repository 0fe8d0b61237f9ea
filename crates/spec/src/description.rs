//! All parts of a description, as the values of its keys make them, before they are checked against each other.
//!
//! A new part is a field here; its keys are the fields of its struct.

use super::resolve_backing::{Backing, Medium};
use super::resolve_run::{Precondition, RunSpec};
use pellucid_device::DeviceConfig;
use pellucid_host::HostSettings;
use pellucid_kv::KvConfig;
use pellucid_setting::Settings;

/// A description.
#[derive(Clone, Debug, PartialEq, Settings)]
pub(crate) struct Description {
    /// The drive.
    #[setting(table)]
    pub drive: Drive,
    /// The backing drive.
    #[setting(table)]
    pub backing: Backing,
    /// Layers above the drive.
    #[setting(table)]
    pub host: HostSettings,
    /// Key-value cache; [`KvConfig::described`] completes it.
    #[setting(table)]
    pub kv: KvConfig,
    /// Targets: ranges of parallel units of the open-channel namespace. A job names the target it works on.
    #[setting(kind = Kind::Tables, default = [], made = ())]
    pub target: (),
    /// Jobs in order.
    #[setting(kind = Kind::Tables, default = [], about = "Jobs in order: [[job]], with fio's keys", made = ())]
    pub job: (),
    /// State of the drive before the run.
    #[setting(table)]
    pub precondition: Precondition,
    /// The run.
    #[setting(table)]
    pub run: RunSpec,
}

/// `[drive]`.
#[derive(Clone, Debug, PartialEq, Settings)]
pub(crate) struct Drive {
    /// The description that this one overrides.
    #[setting(kind = Kind::Text, default = "", made = ())]
    pub preset: (),
    /// Name of the drive in reports; empty: the name of the preset or file.
    #[setting(kind = Kind::Text, default = "", made = ())]
    pub name: (),
    /// The flash drive.
    #[setting(flatten)]
    pub device: DeviceConfig,
    /// Kind of the drive.
    #[setting(
        default = "flash",
        about = "flash: the drive that the other keys describe; disk: only the disk that [backing] describes"
    )]
    pub kind: Medium,
}
