//! Flushes while reads of the media fail: a write of part of a mapping unit is lost if the rest of the unit cannot be read, and every flush
//! behind it says so. A flush that ends well has everything on the media that was acknowledged before it and after the last
//! flush that failed.

use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, Rng, Status};
use pellucid_media::Faults;
use pellucid_testing::swarm::tiny;
use std::collections::HashMap;

const DRIVE: [&str; 4] =
    ["ftl.durability=journal", "buffer.write=write-back", "media.blocks=60", "ftl.over_provisioning=1.5"];

const PAGE: &[&str] = &["ftl.map=page"];
const DEMAND: &[&str] = &["ftl.map=demand", "ftl.map_cache=64B"];
const BAST: &[&str] = &["ftl.map=bast"];
const FAST: &[&str] = &["ftl.map=fast"];
const MAPS: [&[&str]; 4] = [PAGE, DEMAND, BAST, FAST];

/// History of one sector, by version: the place in this list; 0 is the first content.
#[derive(Clone, Debug, Default)]
struct Sector {
    newest: u32,
    /// No flush that failed has been sent since this version, or a later one, was acknowledged.
    acknowledged: u32,
    promised: u32,
}

enum Sent {
    Write {
        first: u64,
        sectors: u32,
        versions: Vec<u32>,
    },
    /// Sectors and versions that the flush promises if it ends well.
    Flush(Vec<(u64, u32)>),
    Read,
}

struct Run {
    device: Device,
    sectors: Vec<Sector>,
    sent: HashMap<u64, Sent>,
    rng: Rng,
    tag: u64,
    failed: u32,
    kept: u32,
}

impl Run {
    fn new(sets: &[&str], seed: u64) -> Run {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let device = Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"));
        // A small part, so that units are written again and again.
        let sectors = vec![Sector::default(); device.namespace(0).capacity_sectors().min(256) as usize];
        Run { device, sectors, sent: HashMap::new(), rng: Rng::new(seed), tag: 0, failed: 0, kept: 0 }
    }

    fn submit(&mut self, opcode: Opcode, first: u64, sectors: u32, data: Vec<u8>, sent: Sent) {
        self.tag += 1;
        self.sent.insert(self.tag, sent);
        let command = Command::new(self.tag, opcode, Lba(first), sectors, data);
        self.device.submit(self.device.now(), command);
    }

    fn send(&mut self) {
        let image = self.device.image_bytes();
        let first = self.rng.below(self.sectors.len() as u64 - 3);
        let sectors = 1 + self.rng.below(3) as u32;
        match self.rng.below(8) {
            0 => {
                let all =
                    (0..).zip(&self.sectors).filter(|(_, sector)| sector.acknowledged > sector.promised);
                let covered = all.map(|(at, sector)| (at, sector.acknowledged)).collect();
                self.submit(Opcode::Flush, 0, 0, Vec::new(), Sent::Flush(covered));
            }
            1 => self.submit(Opcode::Read, first, sectors, vec![0; sectors as usize * image], Sent::Read),
            _ => {
                let range = first as usize..first as usize + sectors as usize;
                // Writes of a sector one after the other: which of two at once is the newer one is nobody's to say.
                let busy = self.sent.values().any(|sent| match sent {
                    Sent::Write { first: other, sectors: count, .. } => {
                        first < other + u64::from(*count) && *other < first + u64::from(sectors)
                    }
                    _ => false,
                });
                if busy {
                    return;
                }
                let mut versions = Vec::new();
                let mut data = Vec::new();
                for sector in &mut self.sectors[range] {
                    sector.newest += 1;
                    versions.push(sector.newest);
                    data.extend(sector.newest.to_le_bytes().iter().cycle().take(image));
                }
                self.submit(Opcode::Write, first, sectors, data, Sent::Write { first, sectors, versions });
            }
        }
    }

    fn take(&mut self) {
        while let Some(completion) = self.device.pop() {
            let ok = completion.status == Status::Success;
            match self.sent.remove(&completion.tag).expect("was sent") {
                Sent::Write { first, versions, .. } if ok => {
                    for (sector, version) in self.sectors[first as usize..].iter_mut().zip(versions) {
                        sector.acknowledged = version;
                    }
                }
                Sent::Flush(covered) => {
                    self.failed += u32::from(!ok);
                    self.kept += u32::from(ok && !covered.is_empty());
                    for (at, version) in covered {
                        let sector = &mut self.sectors[at as usize];
                        match ok {
                            true => sector.promised = sector.promised.max(version),
                            // The host knows that these may be lost, and has to write them again.
                            false if sector.acknowledged == version => sector.acknowledged = sector.promised,
                            false => {}
                        }
                    }
                }
                Sent::Write { .. } | Sent::Read => {}
            }
        }
    }

    fn step(&mut self) {
        if let Some(next) = self.device.next_event() {
            self.device.advance(next);
        }
        self.take();
    }

    /// Power is cut with commands under way; then every sector holds what was promised, or what came later.
    fn cut(&mut self) {
        self.device.set_faults(Faults::default()).expect("no faults");
        self.device.power_cut().expect("the media can be mounted");
        while self.device.pop().is_some() {}
        self.sent.clear();
        self.device.check();
        let image = self.device.image_bytes();
        for at in 0..self.sectors.len() as u64 {
            self.tag += 1;
            let command = Command::new(self.tag, Opcode::Read, Lba(at), 1, vec![0; image]);
            self.device.submit(self.device.now(), command);
            let completion = loop {
                if let Some(completion) = self.device.pop() {
                    break completion;
                }
                let next = self.device.next_event().expect("a read ends");
                self.device.advance(next);
            };
            let sector = &mut self.sectors[at as usize];
            if completion.status == Status::Success {
                let found = u32::from_le_bytes(completion.data[..4].try_into().expect("four bytes"));
                assert!(
                    (sector.promised..=sector.newest).contains(&found),
                    "sector {at} holds {found}: {sector:?}"
                );
                // What is there now stays there.
                (sector.promised, sector.acknowledged) = (found, found);
            } else {
                // GC could not read it and says so.
                assert_eq!(completion.status, Status::UnrecoveredRead);
                (sector.promised, sector.acknowledged) = (0, 0);
            }
        }
    }
}

fn promises_are_kept(map: &[&str]) {
    promises_are_kept_with(map, &[]);
}

fn promises_are_kept_with(map: &[&str], others: &[&str]) -> u32 {
    let (mut failed, mut kept, mut worn_out) = (0, 0, 0);
    for seed in 0..48 {
        let entries = if seed % 2 == 0 { "buffer.entries=8" } else { "buffer.entries=16" };
        let retries = if seed % 3 == 0 { "scheduler.read_retries=1" } else { "scheduler.read_retries=0" };
        // Few flushes end well where much fails, and little is lost where it does not.
        let read_fail = if seed % 4 == 1 { 0.01 } else { 0.1 };
        let mut run = Run::new(&[map, &DRIVE, &[entries, retries], others].concat(), seed);
        for round in 0..12 {
            let faults = Faults { read_fail, ..Faults::default() };
            run.device.set_faults(faults).expect("a chance");
            for _ in 0..150 {
                for _ in 0..run.rng.below(4) {
                    run.send();
                }
                for _ in 0..run.rng.below(6) {
                    run.step();
                }
                if round % 3 == 2 {
                    // At rest between commands, too.
                    while run.device.next_event().is_some() && !run.sent.is_empty() {
                        run.step();
                    }
                }
            }
            worn_out += u32::from(run.device.is_read_only());
            run.cut();
        }
        (failed, kept) = (failed + run.failed, kept + run.kept);
    }
    // Both happened, so the test can fail.
    assert!(failed > 20 && kept > 200, "{map:?}: {failed} flushes failed, {kept} promised something");
    worn_out
}

/// A drive with so few blocks that those it gives up as unreadable leave too little space.
#[test]
fn a_drive_that_becomes_read_only() {
    let worn_out = promises_are_kept_with(PAGE, &["media.blocks=24", "ftl.over_provisioning=0.6"]);
    assert!(worn_out > 10, "{worn_out} rounds ended read-only");
}

#[test]
fn page_map() {
    promises_are_kept(PAGE);
}

#[test]
fn demand_map() {
    promises_are_kept(DEMAND);
}

#[test]
fn log_blocks_of_data_blocks() {
    promises_are_kept(BAST);
}

#[test]
fn shared_log_blocks() {
    promises_are_kept(FAST);
}

/// A drive with two full units on the media, of which it can read nothing from now on.
fn unreadable(map: &[&str]) -> Device {
    let sets: Vec<String> = [map, &DRIVE].concat().iter().map(|set| set.to_string()).collect();
    let mut device = Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"));
    write(&mut device, 1, 0, 8);
    flush(&mut device, 2);
    assert_eq!(ended(&mut device, 2), [(1, Status::Success), (2, Status::Success)]);
    // So that the buffer has none of it.
    device.power_cut().expect("the media can be mounted");
    device.set_faults(Faults { read_fail: 1.0, ..Faults::default() }).expect("a chance");
    device
}

fn write(device: &mut Device, tag: u64, first: u64, sectors: u32) {
    let data = vec![7; sectors as usize * device.image_bytes()];
    device.submit(device.now(), Command::new(tag, Opcode::Write, Lba(first), sectors, data));
}

fn flush(device: &mut Device, tag: u64) {
    device.submit(device.now(), Command::new(tag, Opcode::Flush, Lba(0), 0, Vec::new()));
}

/// The next completions, by tag.
fn ended(device: &mut Device, count: usize) -> Vec<(u64, Status)> {
    let mut ended = Vec::new();
    while ended.len() < count {
        match device.pop() {
            Some(completion) => ended.push((completion.tag, completion.status)),
            None => {
                let next = device.next_event().expect("the commands end");
                device.advance(next);
            }
        }
    }
    ended.sort_unstable_by_key(|&(tag, _)| tag);
    ended
}

#[test]
fn every_flush_submitted_before_a_loss_is_told_says_it() {
    for map in MAPS {
        let mut device = unreadable(map);
        write(&mut device, 10, 1, 1);
        assert_eq!(ended(&mut device, 1), [(10, Status::Success)], "{map:?}");
        (11..14).for_each(|tag| flush(&mut device, tag));
        let fault = Status::WriteFault;
        assert_eq!(ended(&mut device, 3), [(11, fault), (12, fault), (13, fault)], "{map:?}");
        flush(&mut device, 14);
        assert_eq!(ended(&mut device, 1), [(14, Status::Success)], "{map:?}: it is told once");
    }
}

#[test]
fn a_flush_submitted_before_a_write_was_complete_does_not_tell_of_its_loss() {
    for map in MAPS {
        let mut device = unreadable(map);
        write(&mut device, 10, 64, 4);
        assert_eq!(ended(&mut device, 1), [(10, Status::Success)], "{map:?}");
        // The second flush begins when the first has ended, and then finds the write in the buffer.
        (11..13).for_each(|tag| flush(&mut device, tag));
        write(&mut device, 13, 1, 1);
        assert_eq!(ended(&mut device, 1), [(13, Status::Success)], "{map:?}");
        let both = ended(&mut device, 2);
        assert_eq!(both[0], (11, Status::Success), "{map:?}: it has begun before");
        flush(&mut device, 14);
        assert_eq!(ended(&mut device, 1), [(14, Status::WriteFault)], "{map:?}, after {both:?}");
        flush(&mut device, 15);
        assert_eq!(ended(&mut device, 1), [(15, Status::Success)], "{map:?}: it is told once");
    }
}
