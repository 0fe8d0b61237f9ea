//! Allocation: which LUNs an application gets.
//!
//! ```text
//!  request ─► LUNs wanted, within the quota ─► shape: channels x LUNs, the cheapest that fits ─► erased ─► recorded ─► open
//! ```
//! Invariant: an application learns of its flash only when the record of it is on the media.

use super::calls::Wait;
use super::config::{Allocation, AppId, MonitorError, Request};
use super::state::Application;
use super::{Monitor, save, spares};
use crate::SsdGeometry;
use pellucid_flash::{Drive, Interface};

/// Allocates flash to a new application and opens it.
pub(super) fn allocate<D: Drive>(
    monitor: &mut Monitor<D>,
    name: &str,
    request: Request,
    wait: &mut impl Wait<D>,
) -> Result<Allocation, MonitorError> {
    let wanted_luns = wanted(monitor, name, request)?;
    let wanted = wanted_luns[0] + wanted_luns[1];
    // A LUN may turn out to be bad when it is erased; then others are taken.
    let (channels, luns) = loop {
        let (channels, luns) = choose(monitor, wanted)?;
        monitor.leveller.exempt(luns.clone());
        let cleaned = spares::clean(monitor, &luns, wait);
        monitor.leveller.exempt(Vec::new());
        cleaned?;
        if luns.iter().all(|&lun| monitor.state.is_in_use(lun)) {
            break (channels, luns);
        }
    };
    let id = monitor.state.add(Application { name: name.into(), request, channels, luns });
    if let Err(error) = save::save_by(monitor, wait) {
        monitor.state.remove(id);
        return Err(error);
    }
    monitor.open_now(AppId(id));
    let Some(Interface::OpenChannel(chunks)) = monitor.interface(id) else { unreachable!("it is open") };
    Ok(Allocation { id: AppId(id), wanted_luns, geometry: SsdGeometry::of(&chunks) })
}

/// LUNs for capacity and for over-provisioning, if the application may have them.
fn wanted<D: Drive>(monitor: &Monitor<D>, name: &str, request: Request) -> Result<[u32; 2], MonitorError> {
    if !pellucid_host::is_name(name) || name.len() > u8::MAX.into() {
        return Err(MonitorError::Name(name.into()));
    }
    if monitor.state.find(name).is_some() {
        return Err(MonitorError::Exists(name.into()));
    }
    let Request { capacity_bytes, over_provisioning } = request;
    if capacity_bytes == 0 || !(0.0..=100.0).contains(&over_provisioning) {
        return Err(MonitorError::Request { capacity_bytes, over_provisioning });
    }
    let all = monitor.geometry.parallel_units();
    let capacity = capacity_bytes.div_ceil(monitor.lun_bytes());
    // Shares like 0.1 are slightly larger in binary.
    let extra = (capacity as f64 * over_provisioning - 1e-9).ceil().max(0.0) as u64;
    let wanted = capacity.saturating_add(extra);
    let quota = monitor.config.quotas.get(name).copied().unwrap_or(monitor.config.quota_luns);
    if quota > 0 && wanted > quota.into() {
        return Err(MonitorError::Quota { name: name.into(), wanted, quota });
    }
    if wanted > all.into() {
        return Err(no_room(monitor, wanted));
    }
    Ok([capacity as u32, extra as u32])
}

fn no_room<D: Drive>(monitor: &Monitor<D>, wanted: u64) -> MonitorError {
    let (free, most) = (monitor.free_luns(), largest_luns(monitor));
    MonitorError::NoRoom { wanted, free, most, lun_bytes: monitor.lun_bytes() }
}

/// Free LUNs by channel; channels with most of them come first.
fn free_by_channel<D: Drive>(monitor: &Monitor<D>) -> Vec<Vec<u32>> {
    let per_channel = monitor.geometry.units;
    let of_channel = |group: u32| {
        let luns = group * per_channel..(group + 1) * per_channel;
        luns.filter(|&lun| monitor.state.is_free(lun)).collect()
    };
    let mut free: Vec<Vec<u32>> = (0..monitor.geometry.groups).map(of_channel).collect();
    free.sort_by_key(|luns| std::cmp::Reverse(luns.len()));
    free
}

/// Maximum number of LUNs for a further application, with equally many in each of its channels.
pub(super) fn largest_luns<D: Drive>(monitor: &Monitor<D>) -> u32 {
    let free = free_by_channel(monitor);
    (1u32..).zip(&free).map(|(channels, luns)| channels * luns.len() as u32).max().unwrap_or(0)
}

/// Number of channels for an application with this many LUNs, and its LUNs, channel by channel.
fn choose<D: Drive>(monitor: &Monitor<D>, wanted: u32) -> Result<(u32, Vec<u32>), MonitorError> {
    let free = free_by_channel(monitor);
    let all = monitor.geometry.groups;
    let fits = |channels: &u32| free[*channels as usize - 1].len() as u32 >= wanted.div_ceil(*channels);
    let cost = |channels: &u32| {
        let beyond = wanted.div_ceil(*channels) * channels - wanted;
        (beyond + (all - channels), all - channels)
    };
    let channels = (1..=all.min(wanted)).filter(fits).min_by_key(cost);
    let channels = channels.ok_or_else(|| no_room(monitor, wanted.into()))?;
    let each = wanted.div_ceil(channels) as usize;
    let mut chosen = free[..channels as usize].to_vec();
    for luns in &mut chosen {
        luns.sort_by_key(|&lun| (monitor.state.erases(lun), lun));
        luns.truncate(each);
        luns.sort_unstable();
    }
    chosen.sort_unstable();
    Ok((channels, chosen.concat()))
}
