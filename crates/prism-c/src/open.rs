//! Drives by name: the drive below a flash monitor.
//!
//! | name | drive | made to chunks by |
//! |---|---|---|
//! | a preset, or a description in TOML, with `,KEY=VALUE` behind it | modelled in this process | nothing, or `ZoneChunks` |
//! | `nvme+tcp://HOST:PORT[/NQN]` | served by another process or machine | nothing, or `ZoneChunks` |
//! | `file:PATH[,size=..]` | a plain file or block device | `BlockChunks` |

use crate::failure::Failure;
use crate::types::PrismStatus;
use pellucid_device::Device;
use pellucid_host::{Tower, chunk_layers};
use pellucid_serve::{Bottom, FileConfig, FileDrive, Pace, Remote, RemoteConfig, Waiter};
use std::sync::{Arc, Mutex, PoisonError};

const NVME: &str = "nvme+tcp://";
const HOST_NQN: &str = "nqn.2026-01.org.pellucid:prism";

/// Clock that lets time pass; the drive's owner and the monitor's calls share it.
#[derive(Clone)]
pub(crate) struct Clock(Arc<Mutex<Waiter>>);

impl Clock {
    pub fn with<R>(&self, act: impl FnOnce(&mut Waiter) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens the drive of the given name, with chunks on top.
pub(crate) fn open(uri: &str, pace: Pace, format: bool) -> Result<(Tower<Bottom>, Clock), Failure> {
    let mut bottom = bottom(uri)?;
    let unreachable = |error: &dyn ToString| Failure::new(PrismStatus::Unreachable, error.to_string());
    let waiter = Waiter::new(&mut bottom, pace).map_err(|error| unreachable(&error))?;
    let clock = Clock(Arc::new(Mutex::new(waiter)));
    let layers = chunk_layers(&bottom, format).map_err(|why| Failure::invalid(format!("{uri}: {why}")))?;
    let now = bottom.now();
    let wait = |drive: &mut Bottom, next| clock.with(|waiter| waiter.wait(drive, next));
    let tower =
        Tower::build_by(bottom, &layers, now, wait).map_err(|why| unreachable(&format!("{uri}: {why}")))?;
    Ok((tower, clock))
}

fn bottom(uri: &str) -> Result<Bottom, Failure> {
    let unreachable = |error: &dyn ToString| Failure::new(PrismStatus::Unreachable, error.to_string());
    if let Some(rest) = uri.strip_prefix(NVME) {
        let (address, nqn) = match rest.trim_end_matches('/').split_once('/') {
            Some((address, nqn)) => (address, Some(nqn.to_owned())),
            None => (rest.trim_end_matches('/'), None),
        };
        let config = RemoteConfig {
            address: address.to_owned(),
            nqn,
            nsid: None,
            host_nqn: HOST_NQN.into(),
            digests: false,
            queues: 1,
            secrets: None,
        };
        return Ok(Remote::connect(config).map_err(|error| unreachable(&error))?.into());
    }
    if FileConfig::is_meant(uri) {
        let config: FileConfig = uri.parse().map_err(Failure::invalid)?;
        return Ok(FileDrive::open(&config).map_err(|error| unreachable(&error))?.into());
    }
    let (name, own) = uri.split_once(',').unwrap_or((uri, ""));
    // The default is memory, because a drive without data is useless here; callers that want a file ask for
    // one.
    let sets = ["drive.media.store=ram"].into_iter().chain(own.split(',').filter(|set| !set.is_empty()));
    let sets: Vec<String> = sets.map(String::from).collect();
    let spec = pellucid_spec::load_to_serve(name, &sets).map_err(Failure::invalid)?;
    let device = Device::new(&spec.drive).map_err(|error| unreachable(&error))?;
    if device.image_bytes() != spec.drive.media.geometry.sector_bytes as usize {
        return Err(Failure::invalid(format!(
            "{name}: drive.media.store = \"none\" keeps no data; allowed: \"ram\", \"file\""
        )));
    }
    Ok(device.into())
}
