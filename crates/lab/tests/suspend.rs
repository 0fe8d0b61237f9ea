//! Program suspension: however a read meets a program, it does not wait for the array.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Nanos, Opcode, Status};
use pellucid_lab::drive::precondition;
use pellucid_lab::spec;

/// Array time of a program of datacenter-tlc, within its spread.
const PROGRAM: Nanos = Nanos(1_100_000);
/// A read's own time, the suspension, and the transfer of a stripe to the die, which holds the channel.
const READ: Nanos = Nanos(400_000);

/// One die. The latency of a read that comes `delay` after the write of a stripe.
fn read_latency(device: &Device, delay: Nanos) -> Nanos {
    let mut device = device.clone();
    let stripe = device.layout().units_per_stripe;
    let image = device.image_bytes();
    let start = device.now();
    let data = vec![1; stripe as usize * image];
    device.submit(start, Command::new(0, Opcode::Write, Lba(0), stripe, data));
    device.advance(start + delay);
    device.submit(start + delay, Command::new(1, Opcode::Read, Lba(u64::from(20 * stripe)), 1, Vec::new()));
    loop {
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            if completion.tag == 1 {
                return completion.completed - completion.submitted;
            }
        }
        let next = device.next_event().expect("a read ends");
        device.advance(next);
    }
}

fn drive(suspend: bool) -> Device {
    let sets = [
        "media.channels=1".to_string(),
        "media.ways=1".into(),
        "media.pages=48".into(),
        "precondition.fill=0.9".into(),
        format!("scheduler.suspend={suspend}"),
    ];
    let spec = spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None).unwrap_or_else(|e| panic!("{e}"));
    device
}

#[test]
fn a_read_never_waits_for_a_program_that_can_be_suspended() {
    let (patient, impatient) = (drive(false), drive(true));
    let delays = (0..150).map(|step| Nanos(step * 10_000));
    let worst = |device: &Device| delays.clone().map(|delay| read_latency(device, delay)).max();
    assert!(worst(&patient) > Some(PROGRAM), "without suspension it does");
    assert!(worst(&impatient) < Some(READ), "{:?}", worst(&impatient));
}
