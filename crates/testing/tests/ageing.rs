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
    let units = device.capacity_sectors(0) / u64::from(unit);
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
fn a_drive_that_was_aged_is_as_steady_as_one_that_was_worked_in() {
    let sets = [
        "media.channels=1",
        "media.ways=1",
        "media.blocks=128",
        "buffer.entries=512",
        "media.pages=96",
        "ftl.over_provisioning=0.145",
        "precondition.fill=1.0",
        "precondition.overwrite=steady",
    ];
    let one_page = ["media.one_shot_pages=1", "media.timing.program=[\"390us\",\"390us\",\"390us\"]"];
    for pages in [&one_page[..], &[]] {
        let sets: Vec<String> = sets.iter().chain(pages).map(ToString::to_string).collect();
        let spec = pellucid_spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
        let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
        let ageing = precondition(&mut device, &spec.precondition, None, &mut Unwatched)
            .unwrap_or_else(|e| panic!("{e}"));
        device.check();
        let last = ageing[0].passes.last().and_then(|pass| pass.write_amplification).expect("a pass");
        at_work(&mut device, 1.5, 1);
        let work = at_work(&mut device, 1.5, 2);
        device.check();

        assert!((last / work - 1.0).abs() < 0.05, "{pages:?}: aged to {last:.3}, at work {work:.3}");
    }
}
