//! The buffer of a zoned namespace has room for as many superpages as its description says, however long a write is; and a protected one
//! accepts nothing that a power cut would find no room for in the log.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, Status, ZoneAction, ZoneInfo, ZoneOp, ZoneState};
use pellucid_media::{Fault, Media};
use pellucid_testing::conformance::Bench;

/// Sectors of a superpage, and of a zone.
const SUPERPAGE: u32 = 8;
const ZONE: u32 = 128;

fn memory(drive: &Device) -> u64 {
    drive.memory_bytes().into_iter().filter(|(part, _)| *part == "namespaces").map(|(_, bytes)| bytes).sum()
}

/// Bytes by which the namespace grew in a write of a whole zone, in one piece or superpage by superpage, each awaited.
fn grown(at_once: u32) -> u64 {
    let zones = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 2\nstage = 3\n";
    let mut bench = Bench::new(zones, &[]);
    let before = memory(&bench.drive);
    for first in (0..ZONE).step_by(at_once as usize) {
        let done = bench.write(Lba(first.into()), at_once, 1);
        assert_eq!(done.status, Status::Success);
    }
    let read = bench.read(Lba(0), ZONE);
    assert!(read.data == bench.pattern(Lba(0), ZONE, 1), "what was written");
    memory(&bench.drive) - before
}

#[test]
fn a_write_of_a_zone_takes_no_more_of_the_buffer_than_there_is() {
    // Three superpages; memory grows in powers of two.
    let most = 4 * u64::from(SUPERPAGE) * 1024 + 2048;
    let (whole, by_superpages) = (grown(ZONE), grown(SUPERPAGE));
    assert!(by_superpages <= whole && whole <= most, "{by_superpages} and {whole} bytes, at most {most}");
}

const PROTECTED: &str = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 4\nopen_max = 3\n\
                         buffer = \"protected\"\n";

fn protected() -> Bench {
    Bench::new(PROTECTED, &["drive.buffer.write=\"write-back\""])
}

fn fail_erases(bench: &mut Bench, count: u32) {
    let now = bench.drive.now();
    bench.drive.inject(now, Fault::FailErases { count }).expect("a fault that there is");
}

fn reset(bench: &mut Bench, zone: u32) -> Status {
    let start = Lba(u64::from(zone * ZONE));
    bench.run(Command::new(0, Opcode::Zone(ZoneOp::Change(ZoneAction::Reset)), start, 0, Vec::new())).status
}

/// Everything that was acknowledged of zone 0 is there after a power cut.
fn survives(bench: &mut Bench, written: u32, when: &str) {
    let flush = bench.run(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
    assert_eq!(flush.status, Status::Success, "{when}");
    bench.power_cut();
    let read = bench.read(Lba(0), written);
    assert_eq!(read.status, Status::Success, "{when}");
    assert!(read.data == bench.pattern(Lba(0), written, 7), "{when}: {written} sectors");
}

#[test]
fn a_protected_buffer_finds_room_when_zones_have_used_up_all_blocks() {
    let mut bench = protected();
    assert_eq!(bench.write(Lba(0), 2 * SUPERPAGE, 7).status, Status::Success);
    let mut refused = 0;
    for round in 0..40 {
        let zone = 1 + round % 3;
        fail_erases(&mut bench, 4);
        let written = bench.write(Lba(u64::from(zone * ZONE)), 2 * SUPERPAGE, 9).status;
        assert!([Status::Success, Status::ReadOnly].contains(&written), "round {round}: {written:?}");
        refused += u32::from(written == Status::ReadOnly);
        while bench.step() {}
        let _ = reset(&mut bench, zone);
    }
    // Nothing was acknowledged that no zone has room for. Zone 0 has blocks with room.
    let flush = bench.run(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
    assert_eq!((flush.status, refused > 0), (Status::Success, true), "{refused} refused");
    assert_eq!(bench.write(Lba(2 * u64::from(SUPERPAGE)), 3, 7).status, Status::Success);
    survives(&mut bench, 2 * SUPERPAGE + 3, "without blocks for zones");
}

#[test]
fn a_protected_buffer_accepts_nothing_that_the_log_has_no_room_for() {
    let mut bench = protected();
    for zone in 1..8 {
        assert_eq!(bench.write(Lba(u64::from(zone * ZONE)), ZONE, 9).status, Status::Success);
    }
    // Zone 0 needs no other block any more.
    let mut written = 2 * SUPERPAGE;
    assert_eq!(bench.write(Lba(0), written, 7).status, Status::Success);
    let refused = loop {
        // Blocks of the log are lost one by one.
        fail_erases(&mut bench, 1);
        match bench.write(Lba(written.into()), 3, 7).status {
            Status::Success => written += 3,
            status => break status,
        }
        survives(&mut bench, written, "while blocks are lost");
        assert!(written < ZONE, "blocks of the log are lost");
    };
    assert_eq!(refused, Status::ReadOnly);
    assert!(bench.drive.is_read_only());
    survives(&mut bench, written, "when writes are refused");
    // Room for the log comes back with zones that are erased.
    (1..8).for_each(|zone| assert_eq!(reset(&mut bench, zone), Status::Success));
    assert!(!bench.drive.is_read_only());
    assert_eq!(bench.write(Lba(written.into()), 1, 7).status, Status::Success);
    survives(&mut bench, written + 1, "with room again");
}

/// Bytes of the save area that have changed since it was `before`.
fn changed(before: &[u8], media: &Media) -> Vec<usize> {
    let mut now = vec![0; media.array().save_bytes()];
    media.store().save_read(0, &mut now);
    (0..now.len()).filter(|&at| now[at] != before[at]).collect()
}

#[test]
fn what_was_saved_is_whole_or_said_to_be_lost() {
    let mut bench = Bench::saving(PROTECTED, &["drive.buffer.write=\"write-back\""]);
    assert_eq!(bench.write(Lba(0), 3, 7).status, Status::Success);
    let mut before = vec![0; bench.drive.media().array().save_bytes()];
    bench.drive.media().store().save_read(0, &mut before);
    assert_eq!(bench.write(Lba(3), 2, 7).status, Status::Success);
    let new = changed(&before, bench.drive.media());
    let touched = |at: usize| {
        let (mut bench, mut media) = (bench.clone(), bench.drive.media().clone());
        let mut byte = [0];
        media.store().save_read(at, &mut byte);
        media.store_mut().save_write(at, &[byte[0] ^ 1]).expect("memory takes it");
        bench.reopen(media);
        let report = bench.run(Command::new(0, Opcode::Report, Lba(0), 1, Vec::new()));
        let info =
            ZoneInfo::decode(report.data.as_slice().try_into().expect("one descriptor")).expect("a zone");
        let read = bench.read(Lba(0), 3);
        assert!(read.status != Status::Success || read.data == bench.pattern(Lba(0), 3, 7), "byte {at}");
        (info.write_pointer, info.state, read.status)
    };
    let (headers, data): (Vec<usize>, Vec<usize>) = new.into_iter().partition(|&at| at < 128);
    assert!(
        headers.len() > 8 && data.len() > 2000,
        "{} bytes of headers, {} of data",
        headers.len(),
        data.len()
    );
    // A header stands there twice. Data that are not what it says are lost.
    for at in headers {
        assert_eq!(touched(at), (Lba(5), ZoneState::Closed, Status::Success), "byte {at}");
    }
    for at in data.into_iter().step_by(97) {
        assert_eq!(touched(at), (Lba(5), ZoneState::ReadOnly, Status::UnrecoveredRead), "byte {at}");
    }
}

/// The process is killed with superpages of a zone on their way to the media; then one byte of what was saved is damaged.
#[test]
fn a_damaged_byte_costs_no_more_than_its_superpage() {
    const WRITTEN: u32 = 3 * SUPERPAGE + 5;
    let mut bench = Bench::saving(PROTECTED, &["drive.buffer.write=\"write-back\""]);
    for (first, sectors) in [
        (0, SUPERPAGE),
        (SUPERPAGE, SUPERPAGE),
        (2 * SUPERPAGE, 3),
        (2 * SUPERPAGE + 3, 5),
        (3 * SUPERPAGE, 5),
    ] {
        assert_eq!(bench.write(Lba(first.into()), sectors, 7).status, Status::Success);
    }
    let saved = changed(&vec![0; bench.drive.media().array().save_bytes()], bench.drive.media());
    let mut costs = [0; 3];
    for at in saved.into_iter().step_by(13) {
        let (mut bench, mut media) = (bench.clone(), bench.drive.media().clone());
        let mut byte = [0];
        media.store().save_read(at, &mut byte);
        media.store_mut().save_write(at, &[byte[0] ^ 4]).expect("memory takes it");
        bench.reopen(media);
        let report = bench.run(Command::new(0, Opcode::Report, Lba(0), 1, Vec::new()));
        let info =
            ZoneInfo::decode(report.data.as_slice().try_into().expect("one descriptor")).expect("a zone");
        assert_eq!(info.write_pointer, Lba(WRITTEN.into()), "byte {at}");
        let mut lost = 0;
        for first in (0..WRITTEN).step_by(SUPERPAGE as usize) {
            let sectors = SUPERPAGE.min(WRITTEN - first);
            let read = bench.read(Lba(first.into()), sectors);
            match read.status {
                Status::Success => {
                    assert!(
                        read.data == bench.pattern(Lba(first.into()), sectors, 7),
                        "byte {at}, sector {first}"
                    );
                }
                status => {
                    assert_eq!(status, Status::UnrecoveredRead, "byte {at}, sector {first}");
                    lost += 1;
                }
            }
        }
        costs[lost] += 1;
    }
    let [nothing, one, more] = costs;
    assert!(nothing > 5 && one > 500 && more == 0, "superpages lost by a damaged byte: {costs:?}");
}
