//! Open-channel and zoned namespaces under random commands beside a small, obvious model of each, and with the power cut at every
//! event of such histories: what was promised is there, nothing torn or stale passes for good, and the drive goes on.

mod chunks;
mod rules;
mod zones;

/// Sectors of a superpage, or of the least that a chunk takes.
const SUPERPAGE: u32 = 8;

#[test]
fn the_presets_are_drives() {
    use pellucid_flash::{Drive, Interface};
    let drive = |name: &str| {
        let spec = pellucid_spec::load(name, &[]).unwrap_or_else(|e| panic!("{e}"));
        pellucid_device::Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"))
    };
    let Some(Interface::OpenChannel(chunks)) = drive("cosmos-plus-open-channel").interface(0) else {
        panic!("not open-channel");
    };
    assert_eq!((chunks.groups, chunks.units, chunks.write_min_sectors), (8, 8, 4));
    assert_eq!(chunks.write_optimal_sectors, 4);
    let Some(Interface::Zoned(zones)) = drive("zoned").interface(0) else { panic!("not zoned") };
    assert!(zones.zones > 0 && zones.capacity_sectors <= zones.zone_sectors);
}
