//! GC that keeps pace with the host (`ftl.gc_pacing`): writes do not stop until whole blocks have been collected, and nothing
//! is paid for it but their evenness.

use pellucid_device::Device;
use pellucid_flash::{Cause, Command, Lba, Nanos, Opcode, Rng, Status};
use pellucid_lab::drive::{Unwatched, precondition};
use pellucid_testing::seeds;
use pellucid_testing::swarm;

/// Writes outstanding.
const DEPTH: u64 = 16;

/// Overrides for a plain drive: the controller takes no time of its own, and planes of a die are read together.
const PLAIN: [&str; 12] = [
    "media.timing.erase=4.5ms",
    "media.independent_plane_reads=false",
    "media.timing.read=[\"50us\", \"50us\", \"50us\"]",
    "media.variation.layer=0",
    "media.variation.block=0",
    "media.retry.enabled=false",
    "firmware.fetch.fixed=0",
    "firmware.issue.fixed=0",
    "firmware.complete.fixed=0",
    "host.fetch=800ns",
    "host.complete=500ns",
    "scheduler.decode=3us",
];

/// Datacenter-tlc with two dies and blocks of 32 superpages, full, and overwritten at random once.
fn drive(sets: &[&str]) -> Device {
    let own = [
        "media.channels=2",
        "media.ways=1",
        "media.blocks=64",
        "media.pages=96",
        "ftl.over_provisioning=0.28",
        "buffer.entries=1024",
        "precondition.fill=1.0",
        "precondition.overwrite=1.0",
    ];
    let sets: Vec<String> = own.iter().chain(&PLAIN).chain(sets).map(ToString::to_string).collect();
    let spec = pellucid_spec::load("datacenter-tlc", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    precondition(&mut device, &spec.precondition, None, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    device
}

/// Latencies of the writers of a superpage.
#[derive(Debug)]
struct Seen {
    /// The longest time without the end of a write.
    longest_gap: Nanos,
    slowest: Nanos,
    amplification: f64,
}

/// Writes `share` of the drive in superpages at random places, [`DEPTH`] at a time.
fn write_at_random(device: &mut Device, share: f64, seed: u64) -> Seen {
    let mut rng = Rng::new(seed);
    let superpage = device.layout().units_per_superpage;
    let places = device.namespace(0).capacity_sectors() / u64::from(superpage);
    let writes = (places as f64 * share) as u64;
    let (mut begun, mut ended, mut last) = (0, 0, device.now());
    let mut seen = Seen { longest_gap: Nanos::ZERO, slowest: Nanos::ZERO, amplification: 0.0 };
    device.reset_counters();
    while ended < writes {
        while begun < writes && begun - ended < DEPTH {
            let (lba, data) = (
                rng.below(places) * u64::from(superpage),
                vec![0; superpage as usize * device.image_bytes()],
            );
            device.submit(device.now(), Command::new(begun, Opcode::Write, Lba(lba), superpage, data));
            begun += 1;
        }
        let next = device.next_event().expect("writes in flight");
        device.advance(next);
        while let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            seen.longest_gap = seen.longest_gap.max(completion.completed - last);
            seen.slowest = seen.slowest.max(completion.completed - completion.submitted);
            last = completion.completed;
            ended += 1;
        }
    }
    device.check();
    let counters = device.counters();
    let programmed: u64 = counters.programmed_sectors.iter().sum();
    seen.amplification = programmed as f64 / counters.host_written_sectors as f64;
    seen
}

#[test]
fn writes_go_on_while_blocks_are_collected() {
    let seen = |pacing: &str| write_at_random(&mut drive(&[pacing]), 0.7, 1);
    let (stops, paced) = (seen("ftl.gc_pacing=false"), seen("ftl.gc_pacing=true"));
    assert!(stops.longest_gap > Nanos(50_000_000), "the other drive must have stopped: {stops:?}");
    assert!(paced.longest_gap.0 * 4 < stops.longest_gap.0, "{stops:?}, paced {paced:?}");
    assert!(paced.slowest < stops.slowest, "{stops:?}, paced {paced:?}");
    assert!(paced.amplification < stops.amplification * 1.1, "{stops:?}, paced {paced:?}");
}

/// GC of a block of translation pages, each of which was written alone, brings them together again.
#[test]
fn translation_pages_that_gc_finds_leave_in_whole_superpages() {
    let sets = ["ftl.victim=fifo", "media.pages=48", "precondition.fill=0", "precondition.overwrite=0"];
    let mut device = drive(&sets);
    // Translation pages that nobody changes again, then others again and again. All data are trimmed in the order in which they were written, so that
    // their blocks are empty when it is their turn.
    const PER_PAGE: u64 = 1020;
    let cold = (0..32).map(|page| page * PER_PAGE);
    // A few once more: a block that gives nothing back is no victim.
    let cold = cold.chain((0..4).map(|page| page * PER_PAGE + 1));
    let hot = (0..3000).map(|number| (40 + number % 24) * PER_PAGE + number / 24 * 8);
    let pages: Vec<u64> = cold.chain(hot).collect();
    for (tag, &lba) in pages.iter().enumerate() {
        let data = vec![0; device.image_bytes()];
        end(&mut device, Command::new(tag as u64, Opcode::Write, Lba(lba), 1, data));
    }
    end(&mut device, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
    device.reset_counters();
    for (tag, lba) in pages.into_iter().enumerate() {
        end(&mut device, Command::new(tag as u64, Opcode::Trim, Lba(lba), 1, Vec::new()));
        end(&mut device, Command::new(tag as u64, Opcode::Flush, Lba(0), 0, Vec::new()));
    }
    device.check();
    let counters = device.counters();
    let of = |counts: &[u64]| (counts[Cause::Gc as usize], counts[Cause::Journal as usize]);
    let ((moved, alone), (moving, _)) = (of(&counters.programmed_sectors), of(&counters.programs));
    // Host data that is not trimmed yet is moved too, nearly always in whole superpages.
    let data = device.ftl_counters().copied_units;
    let (pages, of_data) = (moved - data, data.div_ceil(u64::from(device.layout().units_per_superpage) / 2));
    assert!(alone == 3036 && pages >= 28, "{counters:?}");
    let of_pages = moving.saturating_sub(of_data);
    assert!(
        of_pages * 4 <= pages,
        "{pages} translation pages and {data} units of data were copied in {moving} programs"
    );
}

/// Waits for a command alone.
fn end(device: &mut Device, command: Command) {
    device.submit(device.now(), command);
    loop {
        if let Some(completion) = device.pop() {
            assert_eq!(completion.status, Status::Success);
            return;
        }
        let next = device.next_event().expect("it ends");
        device.advance(next);
    }
}

/// Returns whether a small random drive takes three times its capacity in random writes, with some trims and flushes.
fn takes_everything(seed: u64, pacing: bool) -> bool {
    let mut sets = swarm::sets_of(seed);
    sets.retain(|set| !set.starts_with("media.faults") && !set.starts_with("ftl.gc_pacing"));
    sets.push(format!("ftl.gc_pacing={pacing}"));
    let mut device = Device::new(&swarm::tiny(&sets)).unwrap_or_else(|e| panic!("{e}"));
    let (mut rng, sectors) = (Rng::new(seed), device.namespace(0).capacity_sectors());
    let (mut written, mut tag) = (0, 0);
    while written < 3 * sectors {
        let count = 1 + rng.below(8.min(sectors));
        let lba = Lba(rng.below(sectors - count + 1));
        let (opcode, count) = match rng.below(40) {
            0 => (Opcode::Flush, 0),
            1 => (Opcode::Trim, count),
            _ => (Opcode::Write, count),
        };
        let bytes = if opcode == Opcode::Write { count as usize * device.image_bytes() } else { 0 };
        device.submit(device.now(), Command::new(tag, opcode, lba, count as u32, vec![0; bytes]));
        (tag, written) = (tag + 1, written + count);
        while device.outstanding_commands() >= 12 {
            let next = device.next_event().expect("commands in flight");
            device.advance(next);
            while let Some(completion) = device.pop() {
                if completion.status != Status::Success {
                    return false;
                }
            }
        }
    }
    device.check();
    !device.is_read_only()
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn no_drive_gives_up_because_it_is_paced() {
    let gives_up = |&seed: &u64| !takes_everything(seed, true) && takes_everything(seed, false);
    let gave_up: Vec<u64> = seeds(150).filter(gives_up).collect();
    assert_eq!(gave_up, [0; 0], "seeds of drives that gave up only because they are paced");
}
