//! Orders of events that serving in real time brought up in the drive itself.

mod common;

use common::drive;
use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, Status};
use pellucid_media::StoreKind;

fn submit(device: &mut Device, opcode: Opcode, sector: u64, sectors: u32) {
    let data = match opcode {
        Opcode::Read | Opcode::Write => vec![7; sectors as usize * 512],
        _ => Vec::new(),
    };
    let (tag, lba) = (sector, Lba(sector));
    device.submit(device.now(), Command { tag, queue: 0, opcode, fua: false, lba, sectors, data });
}

fn finish(device: &mut Device) {
    while device.outstanding_commands() > 0 {
        let next = device.next_event().expect("something is under way");
        device.advance(next);
    }
    while let Some(completion) = device.pop() {
        assert_eq!(completion.status, Status::Success, "{:?}", completion.opcode);
    }
}

/// The flush waits for a page that must be read to be completed; the trim takes the page away while it is read.
#[test]
fn a_trim_may_settle_what_a_flush_waits_for() {
    // The trim arrives after so many events of the flush.
    for events in 0..40 {
        let mut device = drive(StoreKind::Ram);
        submit(&mut device, Opcode::Write, 0, 8);
        submit(&mut device, Opcode::Flush, 0, 0);
        finish(&mut device);
        // Reads of other pages push it out of the buffer.
        for page in 1..100 {
            submit(&mut device, Opcode::Read, page * 8, 8);
            finish(&mut device);
        }
        submit(&mut device, Opcode::Write, 0, 1);
        finish(&mut device);
        submit(&mut device, Opcode::Flush, 0, 0);
        for _ in 0..events {
            if let Some(next) = device.next_event() {
                device.advance(next);
            }
        }
        submit(&mut device, Opcode::Trim, 0, 8);
        finish(&mut device);
        assert!(!device.is_read_only(), "trim after {events} events");
        device.check();
    }
}
