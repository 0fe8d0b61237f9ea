//! Preconditioning leaves a drive in the state that it reaches at work.

use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Lba, Opcode, Rng, Status};
use pellucid_lab::drive::{Unwatched, precondition};

/// Writes outstanding.
const DEPTH: u64 = 256;

/// Units copied by GC for each unit that hosts wrote, and that, over `share` of the drive overwritten at random.
fn at_work(device: &mut Device, share: f64, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let unit = device.layout().sectors_per_unit;
    let units = device.namespace(0).capacity_sectors() / u64::from(unit);
    let writes = (units as f64 * share) as u64;
    let (mut begun, mut ended) = (0, 0);
    device.reset_counters();
    while ended < writes {
        while begun < writes && begun - ended < DEPTH {
            let lba = Lba(rng.below(units) * u64::from(unit));
            let data = vec![0; unit as usize * device.image_bytes()];
            device.submit(device.now(), Command::new(begun, Opcode::Write, lba, unit, data));
            begun += 1;
        }
        let next = device.next_event().expect("writes in flight");
        device.advance(next);
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            ended += 1;
        }
    }
    let host = device.counters().programmed_sectors[Cause::Host as usize] / u64::from(unit);
    1.0 + device.ftl_counters().copied_units as f64 / host as f64
}

/// A die whose programs take many units.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_drive_that_was_aged_is_as_steady_as_one_that_was_worked_in() {
    let sets = [
        "media.channels=1",
        "media.ways=1",
        "media.blocks=128",
        "buffer.entries=512",
        "media.pages=96",
        "ftl.over_provisioning=0.145",
    ];
    let one_page = ["media.one_shot_pages=1", "media.timing.program=[\"390us\",\"390us\",\"390us\"]"];
    for pages in [&one_page[..], &[]] {
        let sets: Vec<&str> = sets.iter().chain(pages).copied().collect();
        ages_as_it_works("datacenter-tlc", &sets, 0.05);
    }
}

/// Drives whose spare blocks are hardly more than those that GC keeps free: whether GC runs ahead of the host decides everything there.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_drive_with_little_spare_space_ages_as_it_works() {
    let two_by_two = ["media.channels=2", "media.ways=2", "media.blocks=64"];
    let with = |sets: &[&'static str]| [&two_by_two[..], sets].concat();
    ages_as_it_works("netbook-ssd", &["media.blocks=64", "ftl.over_provisioning=0.1"], 0.08);
    ages_as_it_works(
        "netbook-ssd",
        &["media.blocks=512", "ftl.over_provisioning=0.1", "media.pages=32"],
        0.08,
    );
    ages_as_it_works("netbook-ssd", &["media.blocks=96", "ftl.over_provisioning=0.1"], 0.08);
    ages_as_it_works("cosmos-plus", &with(&["ftl.over_provisioning=0.12", "media.pages=64"]), 0.08);
    let small = with(&["ftl.over_provisioning=0.15", "media.pages=96", "buffer.entries=512"]);
    ages_as_it_works("datacenter-tlc", &small, 0.08);
    let unpaced = [&small[..], &["ftl.gc_pacing=false"]].concat();
    // Unpaced, a victim's copies hold its place for as long as they are under way, which ageing does not know: 6 to 9 % over seeds.
    ages_as_it_works("datacenter-tlc", &unpaced, 0.1);
}

/// Asserts that the last pass of ageing has the write amplification of the drive at work, but for this share.
fn ages_as_it_works(preset: &str, sets: &[&str], share: f64) {
    let ageing = ["precondition.fill=1.0", "precondition.overwrite=steady"];
    let all: Vec<String> = sets.iter().chain(&ageing).map(ToString::to_string).collect();
    let spec = pellucid_spec::load(preset, &all).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    let ageing =
        precondition(&mut device, &spec.precondition, None, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    device.check();
    let passes: Vec<f64> = ageing[0].passes.iter().filter_map(|pass| pass.write_amplification).collect();
    let last = *passes.last().expect("a pass");
    // A die that took more than its share of the writes would copy far more at first, and be worn more.
    assert!(passes[0] < 1.1 * last, "{preset} {sets:?}: {passes:?}");
    let counts: Vec<u32> = device.erase_counts().collect();
    let of_die = |counts: &[u32]| f64::from(counts.iter().sum::<u32>());
    let dies: Vec<f64> = counts.chunks(device.layout().blocks_per_die as usize).map(of_die).collect();
    let mean = dies.iter().sum::<f64>() / dies.len() as f64;
    assert!(
        dies.iter().all(|erases| (erases / mean - 1.0).abs() < 0.1),
        "{preset} {sets:?}: erases of dies {dies:?}"
    );
    at_work(&mut device, 1.5, 1);
    let work = at_work(&mut device, 1.5, 2);
    device.check();

    assert!((last / work - 1.0).abs() < share, "{preset} {sets:?}: aged to {last:.3}, at work {work:.3}");
}

/// Log blocks, on drives that write each command through by itself: what a superpage gathers decides how soon log blocks are full.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_drive_that_writes_through_ages_as_it_works() {
    for preset in ["netbook-ssd-3", "netbook-ssd-1"] {
        ages_as_it_works(preset, &["media.blocks=96", "ftl.over_provisioning=0.2", "media.pages=32"], 0.08);
    }
}
