//! `[drive.memory]`: the controller's tables and the data buffer must fit its memories.

use super::error::SpecError;
use super::schema::Values;
use pellucid_device::{Device, DeviceConfig, Memory, MemoryShortage, Structure};
use pellucid_media::{MediaConfig, StoreKind};
use pellucid_text::format::binary_bytes;

/// Refuses a drive that does not fit the memories of its controller. The drive itself computes its demand: if there is a limit, one is built, empty
/// and without data.
pub(crate) fn check(drive: &DeviceConfig, values: &Values) -> Result<(), SpecError> {
    let listed = &drive.memory.in_sram;
    if let Some(twice) = (1..listed.len())
        .map(|at| listed[at])
        .find(|one| listed.iter().filter(|other| *other == one).count() > 1)
    {
        let name: &str = twice.into();
        return Err(
            values.refuse("drive.memory.in_sram", format!("each structure once; {name} stands there twice"))
        );
    }
    if drive.memory.dram_bytes.is_none() && drive.memory.sram_bytes.is_none() {
        return Ok(());
    }
    let media = MediaConfig { store: StoreKind::None, ..drive.media.clone() };
    // A drive that cannot be built is refused elsewhere, with its reason.
    let Ok(device) = Device::new(&DeviceConfig { media, ..drive.clone() }) else { return Ok(()) };
    let used = device.controller_memory();
    if let Some(absent) = drive.memory.in_sram.iter().find(|&&structure| used.of(structure) == 0) {
        let there = Structure::ALL.into_iter().filter(|&structure| used.of(structure) > 0);
        let there: Vec<&str> = there.map(Into::into).collect();
        let allowed =
            format!("structures that this drive has, {}; it has no {}", there.join(", "), absent.name());
        return Err(values.refuse("drive.memory.in_sram", allowed));
    }
    drive.memory.shortage(&used).map_or(Ok(()), |shortage| Err(refused(&shortage, values)))
}

/// Names each part of the sum that does not fit.
fn refused(shortage: &MemoryShortage, values: &Values) -> SpecError {
    let (key, otherwise) = match shortage.memory {
        Memory::Dram => {
            ("drive.memory.dram", "a smaller drive, larger mapping units, or fewer buffer entries")
        }
        Memory::Sram => ("drive.memory.sram", "fewer structures in drive.memory.in_sram"),
    };
    let sized = |bytes: u64| binary_bytes(bytes as f64);
    let parts: Vec<String> = shortage
        .parts
        .iter()
        .map(|&(structure, bytes)| format!("{} {}", structure.name(), sized(bytes)))
        .collect();
    let needed = shortage.needed_bytes();
    let sum = if parts.len() > 1 { format!(" = {}", sized(needed)) } else { String::new() };
    values.refuse(key, format!("at least {needed} bytes, for {}{sum}; or {otherwise}", parts.join(" + ")))
}
