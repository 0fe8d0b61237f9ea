//! The write buffer evicts the least recently used entry, whatever waits for space: a run writes what a plain LRU would.

use pellucid_device::{Device, Filler};
use pellucid_flash::{Cause, Command, Lba, Lpn, Opcode, Rng};
use std::collections::{BTreeMap, HashMap};

const ENTRIES: usize = 128;
const WRITES: u64 = 12_000;

/// One die of one-sector superpages, which is under GC from the first write on.
const DRIVE: &str = r#"
[drive]
name = "write buffer"
[drive.media]
channels = 1
ways = 1
planes = 1
blocks = 96
pages = 32
page_size = 4096
sector_size = 4096
unit_size = 4096
cell = "slc"
[drive.media.timing]
read = "50us"
program = "200us"
erase = "1ms"
channel_rate = "400MB/s"
[drive.ftl]
over_provisioning = 0.2
durability = "volatile"
[drive.buffer]
entries = 128
write = "write-back"
"#;

/// Pages by their last use.
#[derive(Default)]
struct Lru {
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    evictions: u64,
}

impl Lru {
    fn write(&mut self, now: u64, page: u64) {
        match self.used.insert(page, now) {
            Some(before) => _ = self.order.remove(&before),
            None if self.used.len() > ENTRIES => {
                let (_, oldest) = self.order.pop_first().expect("the buffer is full");
                self.used.remove(&oldest);
                self.evictions += 1;
            }
            None => {}
        }
        self.order.insert(now, page);
    }
}

fn filled(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let spec = pellucid_spec::from_str(DRIVE, "write buffer", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    let (mut filler, image) = (Filler::default(), vec![0; device.image_bytes()]);
    for lpn in 0..device.namespace(0).capacity_sectors() as u32 {
        device.fill_unit(&mut filler, Lpn(lpn), &image).unwrap_or_else(|e| panic!("{e}"));
    }
    device.reset_counters();
    device
}

/// Writes skewed pages, `depth` at a time; returns the drive's host programs and the evictions of an LRU.
fn programs_and_evictions(sets: &[&str], handles: u64, depth: u32) -> (u64, u64) {
    let (mut device, mut lru, mut rng) = (filled(sets), Lru::default(), Rng::new(7));
    let pages = device.namespace(0).capacity_sectors();
    for tag in 0..WRITES {
        while device.outstanding_commands() >= depth {
            let next = device.next_event().expect("commands in flight");
            device.advance(next);
            while device.pop().is_some() {}
        }
        let within = 1 + rng.below(pages);
        let within = 1 + rng.below(within);
        let page = rng.below(within);
        lru.write(tag, page);
        let data = vec![0; device.image_bytes()];
        let write = Command::new(tag, Opcode::Write, Lba(page), 1, data);
        device.submit(device.now(), Command { handle: rng.below(handles) as u16, ..write });
    }
    let counters = device.counters();
    assert!(counters.programmed_sectors[Cause::Gc as usize] > WRITES / 10, "the drive is under GC");
    (counters.programmed_sectors[Cause::Host as usize], lru.evictions)
}

/// Streams that have no space at different times do not make entries leave out of turn.
#[test]
fn a_drive_under_gc_programs_what_an_lru_evicts() {
    let drives: [(&[&str], u64); 5] = [
        (&["ftl.separation=off"], 1),
        (&["ftl.separation=gc-copies"], 1),
        (&["ftl.separation=frequency"], 1),
        (&["ftl.separation=gc-copies", "ftl.handles=2"], 2),
        (&["ftl.separation=off", "ftl.handles=4"], 4),
    ];
    for (sets, handles) in drives {
        for depth in [1, 8] {
            let (programs, evictions) = programs_and_evictions(sets, handles, depth);
            let more = programs as f64 / evictions as f64 - 1.0;
            assert!(
                more.abs() <= 0.08,
                "{sets:?} at depth {depth}: {programs} host programs, an LRU evicts {evictions}"
            );
        }
    }
}
