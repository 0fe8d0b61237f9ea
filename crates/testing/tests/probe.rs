//! The probe finds the erase units of modelled drives whose geometry is known, and changes nothing.

use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Nanos, Opcode, SimTime};
use pellucid_host::{ProbeConfig, probe};
use pellucid_lab::experiment::prepare;

/// Few blocks need a larger share for the FTL itself.
const ROOM: &str = "ftl.over_provisioning=0.45";

fn config() -> ProbeConfig {
    ProbeConfig {
        smallest: 32 << 10,
        largest: 8 << 20,
        patience: Nanos(2_000_000_000),
        ..ProbeConfig::default()
    }
}

fn device(preset: &str, sets: &[&str]) -> Device {
    let mut all = vec!["precondition.fill=1.0".to_string()];
    all.extend(sets.iter().map(ToString::to_string));
    prepare(&pellucid_spec::load(preset, &all).unwrap_or_else(|e| panic!("{e}")), None)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn read(device: &mut Device, lba: u64) -> Vec<u8> {
    let command = Command::new(0, Opcode::Read, Lba(lba), 64, vec![0; 64 * device.image_bytes()]);
    Drive::submit(device, device.now(), command);
    while let Some(next) = device.next_event() {
        device.advance(next);
    }
    device.pop().expect("an answer").data
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn erase_units_are_found() {
    let drives = [
        ("netbook-ssd-1", 128, 2 << 20),
        ("netbook-ssd-1", 64, 1 << 20),
        ("netbook-ssd-2", 32, 512 << 10),
        ("netbook-ssd-3", 64, 2 << 20),
        ("laptop-ssd-5", 64, 4 << 20),
    ];
    for (preset, pages, unit) in drives {
        let blocks = (512_u64 << 20) / unit;
        let mut device =
            device(preset, &[&format!("media.pages={pages}"), &format!("media.blocks={blocks}"), ROOM]);
        let before = [0, 4096, 100_000].map(|lba| read(&mut device, lba));
        let now = device.now();
        let wait = |_: &mut Device, next: Option<SimTime>| next;
        let found =
            probe(&mut device, &config(), now, wait, |_| {}).unwrap_or_else(|e| panic!("{preset}: {e}"));
        assert_eq!(found.boundary, Some(unit), "{preset} with {pages} pages: {found:#?}");
        assert_eq!(found.cluster, unit, "{preset}");
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        assert_eq!(
            [0, 4096, 100_000].map(|lba| read(&mut device, lba)),
            before,
            "{preset}: nothing is changed"
        );
    }
}

/// A page map has no boundary worth that name.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_page_map_has_none() {
    let mut device = device("netbook-ssd", &["media.blocks=512"]);
    let now = device.now();
    let found = probe(&mut device, &config(), now, |_, next| next, |_| {}).unwrap_or_else(|e| panic!("{e}"));
    assert!(found.boundary.is_none_or(|boundary| boundary <= 64 << 10), "{found:#?}");
}

#[test]
fn a_small_drive_is_refused() {
    let mut device = device("netbook-ssd", &["media.blocks=16", ROOM]);
    let now = device.now();
    let refused = probe(&mut device, &config(), now, |_, next| next, |_| {}).expect_err("8 MiB");
    assert!(refused.to_string().ends_with("allowed: at least 33554432 bytes"), "{refused}");
}
