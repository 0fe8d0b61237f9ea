//! Figures of the drives while they are served.
//!
//! Invariant: a view is built only if the board is asked; any other turn costs one check.

use super::{Core, UserFigures, apps};
use crate::drive::Served;
use pellucid_device::Device;
use pellucid_flash::BlockMap;
use pellucid_monitor::{LayerSide, Serving, View};
use pellucid_target::Service;
use pellucid_target::operation::Namespace;
use std::time::Duration;

/// Starts watching the drives.
pub(super) fn watch(core: &mut Core) {
    let devices = core.desk.engine.backends_mut().iter_mut().filter_map(Served::device_mut);
    devices.filter(|device| !device.is_watched()).for_each(Device::watch);
}

/// Present figures.
#[cold]
pub(super) fn view(core: &Core) -> View {
    let engine = &core.desk.engine;
    let drives = core.register.names().iter().zip(engine.backends());
    let drives = drives.filter_map(|(name, drive)| Some((name.clone(), drive.device()?.snapshot())));
    View {
        maps: if core.desk.wants_maps() { maps(core) } else { Vec::new() },
        wall: Duration::from_nanos(core.now_ns()),
        drives: drives.collect(),
        serving: Some(Serving {
            protocols: core.desk.logbook.protocols.clone(),
            layers: layers(core),
            luns: apps::luns(core),
            keeps: core.register.present().map(|n| (n.name.clone(), n.keeps.name())).collect(),
            held_bytes: core.bytes_held() as u64,
            lateness_ns: engine.lateness_ns().clone(),
        }),
        work: None,
    }
}

/// The blocks of every drive of flash.
fn maps(core: &Core) -> Vec<(String, BlockMap)> {
    let drives = core.register.names().iter().zip(core.desk.engine.backends());
    drives.filter_map(|(name, drive)| Some((name.clone(), drive.device()?.block_map()))).collect()
}

/// Counters of the host side of every layer, and of what works on the drives in this process.
fn layers(core: &Core) -> Vec<LayerSide> {
    let side = |namespace: &Namespace| {
        let drive = &core.desk.engine.backends()[namespace.drive];
        let figures = drive.namespace(namespace.number).figures()?;
        Some(LayerSide { name: namespace.name.clone(), remote: drive.bottom().connection(), figures })
    };
    let user = |(name, figures): &(String, UserFigures)| {
        let figures = figures();
        (!figures.is_empty()).then(|| LayerSide { name: name.clone(), remote: None, figures })
    };
    core.register.present().filter_map(side).chain(core.users.iter().filter_map(user)).collect()
}
