//! Targets of a description on a drive: placement, places for jobs, and work of the host.

use super::RunError;
use super::namespaces::BlockNamespace;
use super::target::{Bottom, HostUse, Target};
use pellucid_device::Device;
use pellucid_flash::{Cause, Drive};
use pellucid_host::{HostFtl, HostFtlConfig, Shared, TargetEvent, TargetKind, Tower};
use pellucid_spec::DescribedTarget;
use std::ops::Range;

/// A target of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPlace {
    /// Name of the target.
    pub name: String,
    /// Block or raw.
    pub kind: TargetKind,
    /// Its parallel units.
    pub units: Range<u32>,
    /// Its namespace.
    pub namespace: u16,
}

/// Puts targets on a drive and starts their host FTLs with these settings.
pub fn put_targets_on(
    targets: &[DescribedTarget],
    settings: &HostFtlConfig,
    device: Device,
) -> Result<Tower<Device>, RunError> {
    let now = device.now();
    let mut shared = Shared::new(device, now, 0)
        .map_err(|_| RunError::Layers("no open-channel namespace; targets need parallel units".into()))?;
    for described in targets {
        shared
            .create(described.target.clone(), settings)
            .map_err(|error| RunError::Layers(error.to_string()))?;
    }
    loop {
        while let Some(event) = shared.take_event() {
            if let TargetEvent::Gone(_, why) = event {
                return Err(RunError::Layers(why.unwrap_or_else(|| "a target did not start".into())));
            }
        }
        if !shared.is_changing() {
            return Ok(Tower::Shared(Box::new(shared)));
        }
        let Some(next) = Drive::next_event(&shared) else {
            return Err(RunError::Layers("a target does not start: the drive does not answer".into()));
        };
        Drive::advance(&mut shared, next);
    }
}

/// Returns the targets of a drive, ordered by their units.
pub(super) fn all<D: Drive>(tower: &Tower<D>) -> Vec<TargetPlace> {
    let Some(shared) = tower.shared() else { return Vec::new() };
    let one = |target: &pellucid_host::Target| {
        let (namespace, _) = shared.find(&target.name)?;
        let (name, units) = (target.name.clone(), target.units.clone());
        Some(TargetPlace { name, kind: target.kind, units, namespace })
    };
    shared.targets().list().iter().filter_map(one).collect()
}

/// Returns the namespaces of block targets.
pub(super) fn blocks<D: Drive>(tower: &Tower<D>) -> Vec<BlockNamespace> {
    let mut base = 0;
    let blocks = all(tower).into_iter().filter(|target| target.kind == TargetKind::Block);
    let one = |target: TargetPlace| {
        let number = target.namespace;
        let sectors = tower.interface(number).map_or(0, |interface| interface.capacity_sectors());
        base += sectors;
        BlockNamespace { number, sectors, handles: 1, base: base - sectors }
    };
    blocks.map(one).collect()
}

/// Returns the work of the host FTLs of all block targets together, and of the jobs on raw targets; `None` without block targets.
pub(super) fn host<D: Bottom>(tower: &Tower<D>) -> Option<HostUse> {
    let mut uses = all(tower).into_iter().filter_map(|target| tower.host_of(target.namespace));
    let mut sum = uses.next()?;
    for one in uses {
        sum.counters.add(&one.counters);
        sum.ftl.add(&one.ftl);
        sum.cpu_busy += one.cpu_busy;
        sum.memory_bytes += one.memory_bytes;
    }
    let raw = tower.shared().map_or(0, Shared::raw_written_sectors);
    sum.counters.written_sectors += raw;
    sum.counters.programmed_sectors[Cause::Host as usize] += raw;
    Some(sum)
}

/// Returns the work of one host FTL.
pub(super) fn host_ftl(ftl: &HostFtl) -> HostUse {
    HostUse {
        layer: "host-ftl",
        counters: ftl.counters(),
        ftl: ftl.ftl_counters(),
        cpu_busy: ftl.cpu_busy(),
        memory_bytes: ftl.memory_bytes(),
        units_per_block: ftl.units_per_line(),
    }
}
