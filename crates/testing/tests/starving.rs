//! A command that waits for data to reach the media ends, however busy the drive is kept meanwhile.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, SimTime, Status};
use pellucid_testing::swarm::tiny;

/// Commands of others that may complete before the one that waits.
const OTHERS: u64 = 2_000;

/// A drive, and what others do to it without a pause.
struct Busy {
    sets: Vec<&'static str>,
    /// Commands of others in flight.
    depth: u64,
    /// The n-th command of others.
    other: fn(u64) -> (Opcode, Lba),
}

/// Others keep a drive busy; then `awaited` comes. How many of the others' commands complete before it does.
fn others_before(busy: &Busy, awaited: impl Fn(&Device) -> Command) -> u64 {
    let sets: Vec<String> = busy.sets.iter().map(|set| set.to_string()).collect();
    let mut device = Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"));
    let unit = device.layout().sectors_per_unit;
    let data = vec![1; unit as usize * device.image_bytes()];
    let whole =
        |tag, opcode, page: Lba| Command::new(tag, opcode, Lba(page.0 * u64::from(unit)), unit, data.clone());
    let mut now = SimTime::ZERO;
    // What a flush has to take along, though nobody writes it again.
    device.submit(now, whole(u64::MAX, Opcode::Write, Lba(9)));
    for n in 0..busy.depth {
        let (opcode, page) = (busy.other)(n);
        device.submit(now, whole(n, opcode, page));
    }
    let (mut others, mut sent_at) = (busy.depth, None);
    loop {
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            if completion.tag == u64::MAX - 1 {
                return others - sent_at.expect("it was sent");
            }
            others += 1;
            let (opcode, page) = (busy.other)(others);
            device.submit(now, whole(others, opcode, page));
            if others > 50 && sent_at.is_none() {
                sent_at = Some(others);
                device.submit(now, Command { tag: u64::MAX - 1, ..awaited(&device) });
            }
        }
        assert!(sent_at.is_none_or(|at| others - at < OTHERS), "it starves");
        now = device.next_event().expect("the drive is busy");
        device.advance(now);
    }
}

fn flush(_: &Device) -> Command {
    Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())
}

fn forced(device: &Device) -> Command {
    let unit = device.layout().sectors_per_unit;
    let data = vec![2; unit as usize * device.image_bytes()];
    Command { fua: true, ..Command::new(0, Opcode::Write, Lba(0), unit, data) }
}

fn drives() -> impl Iterator<Item = Vec<&'static str>> {
    let base = ["buffer.write=write-back", "buffer.entries=16", "host.link_rate=\"1GB/s\""];
    let more: [&[&str]; 3] = [
        &[],
        &["media.unit_size=1024", "firmware.slice.cycles=500"],
        &["ftl.handles=2", "ftl.over_provisioning=1.5", "media.unit_size=2048", "firmware.model=loop"],
    ];
    more.into_iter().map(move |more| base.iter().chain(more).copied().collect())
}

fn ends(depth: u64, other: fn(u64) -> (Opcode, Lba)) {
    for sets in drives() {
        let busy = Busy { sets, depth, other };
        others_before(&busy, flush);
        others_before(&busy, forced);
    }
}

#[test]
fn writes_to_one_page_do_not_keep_it_from_the_media() {
    for depth in [3, 7, 20] {
        ends(depth, |_| (Opcode::Write, Lba(0)));
    }
}

#[test]
fn writes_to_few_pages_do_not_keep_others_from_the_media() {
    for depth in [3, 7, 20] {
        ends(depth, |n| (Opcode::Write, Lba(n % 3)));
        ends(depth, |n| (Opcode::Write, Lba(1 + n % 2)));
    }
}

#[test]
fn reads_of_a_page_do_not_keep_it_from_the_media() {
    for depth in [3, 7, 20] {
        ends(depth, |_| (Opcode::Read, Lba(0)));
        ends(depth, |n| (if n % 4 == 0 { Opcode::Write } else { Opcode::Read }, Lba(0)));
    }
}

#[test]
fn trims_that_go_on_do_not_keep_a_flush_waiting() {
    for depth in [3, 7, 20] {
        ends(depth, |n| (if n % 2 == 0 { Opcode::Trim } else { Opcode::Write }, Lba(n % 3)));
        ends(depth, |n| (if n % 3 == 0 { Opcode::Trim } else { Opcode::Write }, Lba(n % 40)));
    }
}
