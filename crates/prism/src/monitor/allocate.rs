//! Allocation: which LUNs an application gets.
//!
//! ```text
//!  request ─► LUNs wanted, within the quota ─► shape: channels x LUNs, the cheapest that fits ─► erased ─► recorded ─► open
//! ```
//! Invariant: an application learns of its flash only when the record of it is on the media.

use super::Monitor;
use super::config::{Allocation, AppId, MonitorError, Request};
use super::state::Application;
use crate::SsdGeometry;
use pellucid_flash::{Drive, Interface, SimTime};

impl<D: Drive> Monitor<D> {
    /// Gives flash to a new application and opens it. Runs the drive until that is on the media.
    pub fn allocate(&mut self, name: &str, request: Request) -> Result<Allocation, MonitorError> {
        self.allocate_by(name, request, |_, next| next)
    }

    /// Like [`Monitor::allocate`]; `wait` lets time pass as in [`Stack::call_by`](pellucid_host::Stack::call_by).
    pub fn allocate_by(
        &mut self,
        name: &str,
        request: Request,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Allocation, MonitorError> {
        let wanted_luns = self.wanted(name, request)?;
        let wanted = wanted_luns[0] + wanted_luns[1];
        // A LUN may turn out to be no good when it is erased; then others are taken.
        let (channels, luns) = loop {
            let (channels, luns) = self.choose(wanted)?;
            self.reserved.clone_from(&luns);
            let cleaned = self.clean(&luns, &mut wait);
            self.reserved.clear();
            cleaned?;
            if luns.iter().all(|&lun| !self.state.luns[lun as usize].shown.is_empty()) {
                break (channels, luns);
            }
        };
        let free = self.state.applications.iter().position(Option::is_none);
        let at = free.unwrap_or(self.state.applications.len());
        if free.is_none() {
            self.state.applications.push(None);
        }
        self.state.applications[at] = Some(Application { name: name.into(), request, channels, luns });
        if let Err(error) = self.save_by(&mut wait) {
            self.state.applications[at] = None;
            return Err(error);
        }
        let id = AppId(at as u16);
        self.open_now(id);
        let Some(Interface::OpenChannel(chunks)) = self.interface(id.0) else { unreachable!("it is open") };
        Ok(Allocation { id, wanted_luns, geometry: SsdGeometry::of(&chunks) })
    }

    /// LUNs for capacity and for over-provisioning, if the application may have them.
    fn wanted(&self, name: &str, request: Request) -> Result<[u32; 2], MonitorError> {
        if !pellucid_host::is_name(name) || name.len() > u8::MAX.into() {
            return Err(MonitorError::Name(name.into()));
        }
        if self.find(name).is_some() {
            return Err(MonitorError::Exists(name.into()));
        }
        let Request { capacity_bytes, over_provisioning } = request;
        if capacity_bytes == 0 || !(0.0..=100.0).contains(&over_provisioning) {
            return Err(MonitorError::Request { capacity_bytes, over_provisioning });
        }
        let all = self.geometry.parallel_units();
        let capacity = capacity_bytes.div_ceil(self.lun_bytes());
        // Shares like 0.1 are a little more than they say.
        let extra = (capacity as f64 * over_provisioning - 1e-9).ceil().max(0.0) as u64;
        let wanted = capacity.saturating_add(extra);
        let quota = self.config.quotas.get(name).copied().unwrap_or(self.config.quota_luns);
        if quota > 0 && wanted > quota.into() {
            return Err(MonitorError::Quota { name: name.into(), wanted, quota });
        }
        if wanted > all.into() {
            return Err(self.no_room(wanted));
        }
        Ok([capacity as u32, extra as u32])
    }

    fn no_room(&self, wanted: u64) -> MonitorError {
        let (free, most) = (self.free_luns(), self.largest_luns());
        MonitorError::NoRoom { wanted, free, most, lun_bytes: self.lun_bytes() }
    }

    /// Free LUNs of each channel; the channels with most of them come first.
    fn free_by_channel(&self) -> Vec<Vec<u32>> {
        let per_channel = self.geometry.units;
        let mut free: Vec<Vec<u32>> = (0..self.geometry.groups)
            .map(|group| {
                let luns = group * per_channel..(group + 1) * per_channel;
                luns.filter(|&lun| self.state.is_free(lun)).collect()
            })
            .collect();
        free.sort_by_key(|luns| std::cmp::Reverse(luns.len()));
        free
    }

    /// The most LUNs that one further application can have: equally many of each channel that it sees. Fewer than are free where bad blocks
    /// have taken LUNs of some channels.
    pub fn largest_luns(&self) -> u32 {
        let free = self.free_by_channel();
        (1u32..).zip(&free).map(|(channels, luns)| channels * luns.len() as u32).max().unwrap_or(0)
    }

    /// Channels that an application of this many LUNs sees, and its LUNs, channel by channel.
    fn choose(&self, wanted: u32) -> Result<(u32, Vec<u32>), MonitorError> {
        let free = self.free_by_channel();
        let all = self.geometry.groups;
        let fits = |channels: &u32| free[*channels as usize - 1].len() as u32 >= wanted.div_ceil(*channels);
        let cost = |channels: &u32| {
            let beyond = wanted.div_ceil(*channels) * channels - wanted;
            (beyond + (all - channels), all - channels)
        };
        let channels = (1..=all.min(wanted)).filter(fits).min_by_key(cost);
        let channels = channels.ok_or_else(|| self.no_room(wanted.into()))?;
        let each = wanted.div_ceil(channels) as usize;
        let mut chosen = free[..channels as usize].to_vec();
        for luns in &mut chosen {
            luns.sort_by_key(|&lun| (self.state.luns[lun as usize].erases, lun));
            luns.truncate(each);
            luns.sort_unstable();
        }
        chosen.sort_unstable();
        Ok((channels, chosen.concat()))
    }
}
