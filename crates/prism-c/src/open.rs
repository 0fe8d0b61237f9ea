//! Drives by name: what stands behind a flash monitor.
//!
//! | name | drive | made to chunks by |
//! |---|---|---|
//! | a preset, or a description in TOML, with `,KEY=VALUE` behind it | modelled in this process | nothing, or `ZoneChunks` |
//! | `nvme+tcp://HOST:PORT[/NQN]` | served by another process or machine | nothing, or `ZoneChunks` |
//! | `file:PATH[,size=..]` | a plain file or block device | `BlockChunks` |

use crate::failure::Failure;
use crate::types::PrismStatus;
use pellucid_device::Device;
use pellucid_flash::{Drive, Interface, ZoneGeometry};
use pellucid_host::{BlockChunksConfig, LayerConfig, Tower, ZoneChunksConfig};
use pellucid_lab::spec;
use pellucid_serve::{Bottom, FileConfig, FileDrive, Pace, Remote, RemoteConfig, Waiter};
use std::sync::{Arc, Mutex, PoisonError};

const NVME: &str = "nvme+tcp://";
/// LUNs that a drive without any is divided into, at most.
const LUNS: u32 = 8;
/// Blocks that each of them has, where they are not larger for it.
const BLOCKS_LEAST: u32 = 64;
const BLOCK_BYTES: usize = 4 << 20;
const HOST_NQN: &str = "nqn.2026-01.org.pellucid:prism";

/// What lets time pass; the drive's owner and the monitor's calls share it.
#[derive(Clone)]
pub(crate) struct Clock(Arc<Mutex<Waiter>>);

impl Clock {
    pub fn with<R>(&self, act: impl FnOnce(&mut Waiter) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens the drive of that name, with chunks on top.
pub(crate) fn open(uri: &str, pace: Pace, format: bool) -> Result<(Tower<Bottom>, Clock), Failure> {
    let mut bottom = bottom(uri)?;
    let unreachable = |error: &dyn ToString| Failure::new(PrismStatus::Unreachable, error.to_string());
    let waiter = Waiter::new(&mut bottom, pace).map_err(|error| unreachable(&error))?;
    let clock = Clock(Arc::new(Mutex::new(waiter)));
    let layers = layers(&bottom, format).map_err(|why| Failure::invalid(format!("{uri}: {why}")))?;
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
    // A library that keeps no data is of no use; whoever wants a file says so.
    let sets = ["drive.media.store=ram"].into_iter().chain(own.split(',').filter(|set| !set.is_empty()));
    let sets: Vec<String> = sets.map(String::from).collect();
    let spec = spec::load_to_serve(name, &sets).map_err(Failure::invalid)?;
    let device = Device::new(&spec.drive).map_err(|error| unreachable(&error))?;
    if device.image_bytes() != spec.drive.media.geometry.sector_bytes as usize {
        return Err(Failure::invalid(format!(
            "{name}: drive.media.store = \"none\" keeps no data; allowed: \"ram\", \"file\""
        )));
    }
    Ok(device.into())
}

/// What makes chunks of the drive's namespaces.
fn layers(drive: &impl Drive, format: bool) -> Result<Vec<LayerConfig>, &'static str> {
    let interfaces = || (0..drive.namespaces()).filter_map(|number| Some((number, drive.interface(number)?)));
    if interfaces().any(|(_, interface)| matches!(interface, Interface::OpenChannel(_))) {
        return Ok(Vec::new());
    }
    let layer = |(namespace, interface)| match interface {
        Interface::Zoned(zones) => Some(LayerConfig::ZoneChunks(of_zones(namespace, &zones))),
        Interface::Block { sectors, .. } => {
            Some(LayerConfig::BlockChunks(of_sectors(namespace, sectors, drive.image_bytes(), format)))
        }
        Interface::OpenChannel(_) | Interface::Cache(_) | Interface::Nameless(_) => None,
    };
    interfaces().find_map(layer).map(|layer| vec![layer]).ok_or("it has no namespace")
}

/// As many LUNs as zones may be written side by side: each needs four active ones.
fn of_zones(namespace: u16, zones: &ZoneGeometry) -> ZoneChunksConfig {
    let width = if zones.active_max == 0 { LUNS } else { zones.active_max / 4 };
    ZoneChunksConfig { namespace, width: width.clamp(1, LUNS), ..ZoneChunksConfig::default() }
}

/// Blocks of 4 MiB, or smaller ones where there would be few.
fn of_sectors(namespace: u16, sectors: u64, sector_bytes: usize, format: bool) -> BlockChunksConfig {
    let usual = BlockChunksConfig::default();
    let most = (BLOCK_BYTES / sector_bytes) as u64;
    let wanted = (sectors / u64::from(LUNS * BLOCKS_LEAST)).clamp(u64::from(usual.write_sectors), most);
    // Down to a power of two.
    let chunk_sectors = 1u32 << wanted.ilog2();
    let (groups, units) = (LUNS / 2, 2);
    let sector_bytes = sector_bytes as u32;
    BlockChunksConfig { namespace, groups, units, chunk_sectors, sector_bytes, format, ..usual }
}
