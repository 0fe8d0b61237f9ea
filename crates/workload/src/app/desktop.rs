//! A user's work on a netbook: keys of a job.

use super::super::units::{Grammar, parse_time};
use super::super::values::{Parsed, count, percent};
use super::super::{BlockSize, Job, JobError};
use super::{named, refuse};
use crate::desktop::{DesktopWork, SECTOR_BYTES, Transfers, VolumeFormat};
use pellucid_flash::Nanos;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Settings of a user's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesktopApp {
    /// `app`.
    pub work: DesktopWork,
    /// `volume`.
    pub volume: VolumeFormat,
    /// `host_time`: time of the host's own work besides its disk, spread over the requests; `None`: the time on a netbook.
    pub host: Option<Nanos>,
    /// `part`: a `part`th of the work.
    pub part: u32,
}

impl DesktopApp {
    /// Time of the host's work besides its disk.
    pub fn host(&self) -> Nanos {
        self.host.unwrap_or(Nanos((self.work.host_s() * 1e9 / f64::from(self.part)) as u64))
    }
}

/// Name of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum DesktopName {
    Mp3Copy,
    LinuxExtract,
    OfficeInstall,
    OfficeUninstall,
    OfficeRemove,
    Browse,
    AttoRead,
    AttoWrite,
}

impl DesktopName {
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn is_benchmark(self) -> bool {
        matches!(self, DesktopName::AttoRead | DesktopName::AttoWrite)
    }
}

/// Keys of a user's work.
pub(super) const OF_DESKTOP: &[&str] =
    &["warm_up", "operations", "volume", "host_time", "part", "others", "bs", "namespace", "target"];

/// Default percentage of an uninstallation's writes that belong to no file. Assumed: an installation's small writes to random addresses are a smaller
/// share.
const OTHERS_PERCENT: u8 = 50;
/// Largest transfer of the benchmark.
const TRANSFER_BYTES_MAX: u64 = 8 << 20;

/// Keys of a user's work.
#[derive(Clone, Debug, Default)]
pub(super) struct DesktopKeys {
    volume: VolumeFormat,
    host: Option<Nanos>,
    part: Option<u32>,
    others: Option<u8>,
}

impl DesktopKeys {
    pub fn take(&mut self, key: &str, value: &str, base: Grammar) -> Parsed<bool> {
        match key {
            "volume" => self.volume = named(value)?,
            "host_time" => self.host = Some(parse_time(value, Nanos::from_secs(1), base)?),
            "part" => self.part = Some(count(value, base, 1, 100)? as u32),
            "others" => self.others = Some(percent(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Builds the work of a job.
    pub fn build(
        &self,
        name: DesktopName,
        job: &Job,
        (warm_up, operations): (Option<u64>, Option<u64>),
    ) -> Result<DesktopApp, JobError> {
        self.check(name, job)?;
        let transfers = || {
            let sectors = transfer_sectors(job)?;
            Ok(Transfers { sectors, warm_up: warm_up.unwrap_or(0), measured: operations })
        };
        let work = match name {
            DesktopName::Mp3Copy => DesktopWork::Mp3Copy,
            DesktopName::LinuxExtract => DesktopWork::LinuxExtract,
            DesktopName::OfficeInstall => DesktopWork::OfficeInstall,
            DesktopName::OfficeUninstall => DesktopWork::OfficeUninstall,
            DesktopName::OfficeRemove => {
                DesktopWork::OfficeRemove { others: self.others.unwrap_or(OTHERS_PERCENT) }
            }
            DesktopName::Browse => DesktopWork::Browse,
            DesktopName::AttoRead => DesktopWork::AttoRead(transfers()?),
            DesktopName::AttoWrite => DesktopWork::AttoWrite(transfers()?),
        };
        Ok(DesktopApp { work, volume: self.volume, host: self.host, part: self.part.unwrap_or(1) })
    }

    /// Refuses keys that this work does not use.
    fn check(&self, name: DesktopName, job: &Job) -> Result<(), JobError> {
        let benchmark = name.is_benchmark();
        let only_atto = "only with app = atto-read or atto-write";
        let rules: [(&'static str, bool, &str); 5] = [
            ("warm_up", !benchmark, only_atto),
            ("operations", !benchmark, only_atto),
            ("bs", !benchmark, only_atto),
            ("part", benchmark, "not with app = atto-read or atto-write; operations says how many"),
            ("others", name != DesktopName::OfficeRemove, "only with app = office-remove"),
        ];
        match rules.into_iter().find(|(key, wrong, _)| *wrong && job.written.has(key)) {
            Some((key, _, allowed)) => refuse(key, job.written.value_of(key), allowed),
            None => Ok(()),
        }
    }
}

/// Sectors of a transfer, by `bs`.
fn transfer_sectors(job: &Job) -> Result<u32, JobError> {
    let allowed = "one size in whole sectors of 512 bytes, up to 8m, with atto-read and atto-write";
    match job.block {
        [BlockSize::Fixed(bytes), BlockSize::Fixed(other), _]
            if bytes == other && bytes.is_multiple_of(SECTOR_BYTES.into()) && bytes <= TRANSFER_BYTES_MAX =>
        {
            Ok((bytes / u64::from(SECTOR_BYTES)) as u32)
        }
        _ => refuse("bs", &job.block_words(), allowed),
    }
}
