//! Applications on a drive in service: allocated, listed and released on the control socket.
//!
//! ```text
//!  allocate ─► LUNs erased, recorded ─► an NVMe subsystem of its own, DRIVE.APPLICATION ─► release: refused while a connection uses it
//! ```
//! The drive works on an allocation or a release at once; its time runs ahead of the server's by that.
//!
//! Invariant: each application of a monitor has its namespace in the register.

use super::Core;
use super::targets::{TargetNamespace, check_length};
use crate::drive::Served;
use crate::event::Event;
use pellucid_flash::Drive;
use pellucid_monitor::{DriveLuns, LunSide};
use pellucid_prism::{ApplicationInfo, Monitor, MonitorError, Request};
use serde_json::{Value, json};

/// Gives flash to a new application. The error is a sentence.
pub(super) fn allocate(core: &mut Core, drive: usize, name: &str, request: Request) -> Result<Value, String> {
    let full_name = format!("{}.{name}", core.register.name(drive));
    check_length(&full_name, name)?;
    if core.register.present().any(|namespace| namespace.name == full_name) {
        return Err(format!("{name}: the name {full_name} is taken; allowed: another name"));
    }
    none_but_apps(core, drive)?;
    core.submit_waiting();
    let allocated = core.drive_mut(drive).change_apps(|apps| apps.allocate(name, request));
    let number = allocated.expect("the drive has applications").map_err(|error| refusal(&error))?;
    let served = &core.desk.engine.backends()[drive];
    let interface = served.bottom().apps().and_then(|apps| apps.interface(number)).expect("it is open");
    let like = TargetNamespace { drive, number, name: full_name, interface, target: name.to_owned() };
    let namespace = like.on(served);
    let Core { register, book, .. } = core;
    let at = register.reserve(namespace, |at| book.held_by(at) > 0);
    register.show(at);
    core.book.changed_once();
    let luns = luns_of(core, drive, name)?;
    let application = core.register.all()[at].name.clone();
    core.log(Event::AppAllocated { application, luns });
    list(core, drive)
}

/// Error sentence of a refused allocation, with the allowed values, which tell a client that the request was impossible
/// rather than failed.
fn refusal(error: &MonitorError) -> String {
    match error {
        MonitorError::Exists(_) => format!("{error}; allowed: another name"),
        MonitorError::Quota { .. } | MonitorError::NoRoom { .. } => {
            format!("{error}; allowed: less capacity or over-provisioning")
        }
        _ => error.to_string(),
    }
}

/// Takes the flash of an application away; its data are lost. The error is a sentence.
pub(super) fn release(core: &mut Core, drive: usize, name: &str) -> Result<Value, String> {
    let monitor = none_but_apps(core, drive)?;
    let known: Vec<String> = monitor.applications().map(|info| info.name).collect();
    let found = core.register.all().iter().position(|namespace| {
        !namespace.gone && namespace.drive == drive && namespace.target.as_deref() == Some(name)
    });
    let found = found.ok_or_else(|| {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("{name}: no such application; allowed: {known}")
    })?;
    match core.book.held_by(found) {
        0 => {}
        users => {
            return Err(format!(
                "application {name}: {users} connections use it; allowed: to disconnect them first"
            ));
        }
    }
    core.submit_waiting();
    let released = core.drive_mut(drive).change_apps(|apps| apps.release(name));
    released.expect("the drive has applications").map_err(|error| error.to_string())?;
    let application = core.register.all()[found].name.clone();
    core.log(Event::AppReleased { application });
    core.register.give_up(found);
    core.plan.remove(found);
    core.book.changed_once();
    list(core, drive)
}

/// The LUNs of an application, by their names in order.
fn luns_of(core: &Core, drive: usize, name: &str) -> Result<Vec<String>, String> {
    let monitor = none_but_apps(core, drive)?;
    let per_channel = monitor.drive_geometry().luns_each_channel;
    let found = monitor.applications().find(|info| info.name == name);
    Ok(found.map(|info| names_of(&info, per_channel)).unwrap_or_default())
}

fn names_of(info: &ApplicationInfo, per_channel: u32) -> Vec<String> {
    let mut units = info.units.clone();
    units.sort_unstable();
    units.iter().map(|&unit| lun_name(unit, per_channel)).collect()
}

/// Lists the applications of a drive and its LUNs. The error is a sentence.
pub(super) fn list(core: &Core, drive: usize) -> Result<Value, String> {
    let monitor = none_but_apps(core, drive)?;
    let lun_bytes = monitor.lun_bytes();
    let per_channel = monitor.drive_geometry().luns_each_channel;
    let one = |info: ApplicationInfo| {
        let luns = names_of(&info, per_channel);
        json!({
            "name": info.name,
            "namespace": format!("{}.{}", core.register.name(drive), info.name),
            "capacity_bytes": info.request.capacity_bytes,
            "over_provisioning": info.request.over_provisioning,
            "channels": info.channels,
            "bytes": info.units.len() as u64 * lun_bytes,
            "luns": luns,
        })
    };
    let luns: Vec<Value> = sides(monitor)
        .iter()
        .map(|side| {
            json!({
                "lun": side.lun,
                "application": side.owner,
                "average_erases": side.average_erases,
                "bad_blocks": side.bad_blocks,
                "spare_blocks": side.spare_blocks,
            })
        })
        .collect();
    Ok(json!({
        "drive": core.register.name(drive),
        "lun_bytes": lun_bytes,
        "free_luns": monitor.free_luns(),
        "applications": monitor.applications().map(one).collect::<Vec<Value>>(),
        "luns": luns,
    }))
}

/// The LUNs of every drive that is divided, among applications or targets, with their owners.
pub(super) fn luns(core: &Core) -> Vec<DriveLuns> {
    let of_drive = |(name, served): (&String, &Served)| {
        let luns = match (served.bottom().apps(), served.shared()) {
            (Some(apps), _) => sides(apps.monitor()),
            (None, Some(shared)) => {
                let geometry = shared.geometry();
                let owner = |unit: u32| {
                    let targets = shared.targets().list().iter();
                    targets.filter(|target| target.units.contains(&unit)).map(|t| t.name.clone()).next()
                };
                let side = |unit| LunSide {
                    lun: lun_name(unit, geometry.units),
                    owner: owner(unit),
                    ..LunSide::default()
                };
                (0..geometry.parallel_units()).map(side).collect()
            }
            (None, None) => return None,
        };
        Some(DriveLuns { drive: name.clone(), luns })
    };
    core.register.names().iter().zip(core.desk.engine.backends()).filter_map(of_drive).collect()
}

/// The monitor of a drive that is divided among applications. The error is a sentence.
fn none_but_apps(core: &Core, drive: usize) -> Result<&Monitor<pellucid_device::Device>, String> {
    let apps = core.desk.engine.backends()[drive].bottom().apps();
    apps.map(|apps| apps.monitor()).ok_or_else(|| {
        let name = core.register.name(drive);
        format!("{name}: no applications; allowed: an open-channel drive that is served with --apps")
    })
}

fn sides<D: Drive>(monitor: &Monitor<D>) -> Vec<LunSide> {
    let names: Vec<(u16, String)> = monitor.applications().map(|info| (info.id.0, info.name)).collect();
    let per_channel = monitor.drive_geometry().luns_each_channel;
    let side = |(unit, wear): (u32, pellucid_prism::LunWear)| LunSide {
        lun: lun_name(unit, per_channel),
        owner: wear.owner.and_then(|id| names.iter().find(|(other, _)| *other == id.0)).map(|n| n.1.clone()),
        average_erases: Some(wear.average_erases),
        bad_blocks: Some(wear.bad_blocks),
        spare_blocks: Some(wear.spare_blocks),
    };
    (0..).zip(monitor.wear()).map(side).collect()
}

/// A LUN as CHANNEL/LUN.
fn lun_name(unit: u32, per_channel: u32) -> String {
    format!("{}/{}", unit / per_channel, unit % per_channel)
}
