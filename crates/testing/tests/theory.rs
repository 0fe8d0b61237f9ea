//! Claims of theory, measured.
//!
//! B1: greedy GC under uniform random writes has the write amplification `a / (a + W0(-a e^-a))`, `a = 1 + OP`, in the
//! limit of many large blocks (Desnoyers, "Analytic modeling of SSD write performance", 2012).

use pellucid_device::{Device, Filler};
use pellucid_flash::{Cause, Command, Lba, Lpn, Opcode, Rng};

/// One die, 4 KiB units, 256 pages per block, enough blocks for the reserve to be small.
const DRIVE: &str = r#"
[drive]
name = "theory"
[drive.media]
channels = 1
ways = 1
dies = 1
planes = 1
blocks = 1200
pages = 256
page_size = 4096
spare_size = 64
sector_size = 4096
unit_size = 4096
cell = "slc"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "200MB/s"
[drive.ftl]
over_provisioning = 0.28
durability = "volatile"
separation = "off"
victim = "greedy"
gc_low = 1
gc_high = 0
[drive.buffer]
entries = 16
write = "write-through"
"#;

/// The principal branch of Lambert's W by Newton's iteration, for x in (-1/e, 0).
fn w0(x: f64) -> f64 {
    let mut w = -0.5;
    for _ in 0..60 {
        let e = f64::exp(w);
        w -= (w * e - x) / (e * (w + 1.0));
    }
    w
}

fn theory(over_provisioning: f64) -> f64 {
    let a = 1.0 + over_provisioning;
    a / (a + w0(-a * f64::exp(-a)))
}

fn drive(over_provisioning: f64) -> Device {
    let sets = [format!("ftl.over_provisioning={over_provisioning}")];
    let spec = pellucid_spec::from_str(DRIVE, "theory", &sets).unwrap_or_else(|e| panic!("{e}"));
    Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"))
}

fn fill(device: &mut Device, filler: &mut Filler, lpn: u32) {
    let image = vec![0; device.image_bytes()];
    device.fill_unit(filler, Lpn(lpn), &image).unwrap_or_else(|e| panic!("{e}"));
}

/// Fills the drive once, overwrites it at random `rounds` times.
fn worn_in(over_provisioning: f64, rounds: u32, rng: &mut Rng) -> (Device, Filler) {
    let (mut device, mut filler) = (drive(over_provisioning), Filler::default());
    let units = device.namespace(0).capacity_sectors();
    for lpn in 0..units as u32 {
        fill(&mut device, &mut filler, lpn);
    }
    for _ in 0..u64::from(rounds) * units {
        fill(&mut device, &mut filler, rng.below(units) as u32);
    }
    (device, filler)
}

fn assert_close(over_provisioning: f64, measured: f64) {
    let expected = theory(over_provisioning);
    let error = measured / expected - 1.0;
    assert!(
        error.abs() <= 0.03,
        "over-provisioning {over_provisioning}: write amplification {measured:.3}, theory {expected:.3}"
    );
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn greedy_write_amplification_is_that_of_theory() {
    for over_provisioning in [0.07, 0.10, 0.14, 0.28, 0.30] {
        let mut rng = Rng::new(1);
        let (mut device, mut filler) = worn_in(over_provisioning, 3, &mut rng);
        let units = device.namespace(0).capacity_sectors();
        let before = device.ftl_counters().victim_valid_units;
        for _ in 0..units {
            fill(&mut device, &mut filler, rng.below(units) as u32);
        }
        let moved = device.ftl_counters().victim_valid_units - before;
        assert_close(over_provisioning, 1.0 + moved as f64 / units as f64);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn commands_give_the_same_write_amplification() {
    let mut rng = Rng::new(2);
    let (mut device, _) = worn_in(0.28, 3, &mut rng);
    device.reset_counters();
    let sectors = device.namespace(0).capacity_sectors();
    for tag in 0..sectors {
        while device.outstanding_commands() >= 8 {
            let next = device.next_event().expect("commands in flight");
            device.advance(next);
            while device.pop().is_some() {}
        }
        let (lba, data) = (Lba(rng.below(sectors)), vec![0; device.image_bytes()]);
        let command = Command::new(tag, Opcode::Write, lba, 1, data);
        device.submit(device.now(), command);
    }
    let counters = device.counters();
    let moved = counters.programmed_sectors[Cause::Gc as usize];
    assert_close(0.28, 1.0 + moved as f64 / counters.host_written_sectors as f64);
}
