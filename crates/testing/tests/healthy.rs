//! Drives on healthy flash take writes as long as there is room, however full the buffer and however often power was cut.

use pellucid_device::Device;
use pellucid_flash::{ChunkOp, Command, Completion, Lba, Opcode, Rng, Status, ZoneAction, ZoneOp};
use pellucid_testing::conformance::Bench;
use pellucid_testing::swarm::{Swarm, sets_of, tiny};

const ZONED: &str = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 4\nopen_max = 3\n";
/// After so many mounts, each with a gap of 2^20 behind the numbers that were given before it, 32 bits were too few.
const CUTS: u32 = 4_200;

fn device(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"))
}

fn write(device: &Device, tag: u64, lba: u64, sectors: u32) -> Command {
    Command::new(tag, Opcode::Write, Lba(lba), sectors, vec![1; sectors as usize * device.image_bytes()])
}

/// Runs until nothing happens any more.
fn settle(device: &mut Device) -> Vec<Completion> {
    while let Some(at) = device.next_event() {
        device.advance(at);
    }
    std::iter::from_fn(|| device.pop()).collect()
}

fn run(device: &mut Device, command: Command) -> Status {
    device.submit(device.now(), command);
    let ended = settle(device);
    assert_eq!(ended.len(), 1);
    ended[0].status
}

#[test]
fn partial_writes_of_two_streams_do_not_wait_for_each_other() {
    for streams in ["ftl.handles=2", "ftl.separation=frequency"] {
        let mut device = device(&[
            "media.channels=1",
            "media.unit_size=2048",
            "media.planes=2",
            "media.multi_plane=true",
            "ftl.over_provisioning=2.0",
            "buffer.entries=8",
            "buffer.write=write-back",
            "buffer.dirty_high=1.0",
            streams,
        ]);
        let per_unit = u64::from(device.layout().sectors_per_unit);
        let handle = |page: u64| if streams == "ftl.handles=2" { (page % 2) as u16 } else { 0 };
        let flush = || Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new());
        for page in 0..40 {
            let whole = write(&device, page, page * per_unit, per_unit as u32);
            assert_eq!(run(&mut device, Command { handle: handle(page), ..whole }), Status::Success);
        }
        // The even pages are written often.
        for page in (0..6).flat_map(|_| (0..40).step_by(2)) {
            let whole = write(&device, page, page * per_unit, per_unit as u32);
            assert_eq!(run(&mut device, Command { handle: handle(page), ..whole }), Status::Success);
            assert_eq!(run(&mut device, flush()), Status::Success);
        }
        let now = device.now();
        for page in 10..19 {
            let part = write(&device, page, page * per_unit, 1);
            device.submit(now, Command { handle: handle(page), ..part });
        }
        let ended = settle(&mut device);
        assert_eq!(ended.len(), 9, "{streams}");
        assert!(ended.iter().all(|c| c.status == Status::Success), "{streams}: {ended:?}");
        assert!(!device.is_read_only(), "{streams}");
    }
}

#[test]
fn a_block_that_stays_open_over_thousands_of_mounts_is_written_or_closed() {
    let mut device = device(&["media.channels=2", "ftl.separation=off"]);
    // Both dies get an open block, and only one of them is written on from then on.
    for lba in (0..24).step_by(4) {
        let command = write(&device, 0, lba, 4);
        assert_eq!(run(&mut device, command), Status::Success);
    }
    assert_eq!(run(&mut device, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())), Status::Success);
    for cut in 0..CUTS {
        let command = write(&device, 0, 0, 4);
        assert_eq!(run(&mut device, command), Status::Success, "after {cut} cuts");
        assert_eq!(run(&mut device, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())), Status::Success);
        device.power_cut().unwrap_or_else(|e| panic!("{e}"));
    }
    for lba in (0..64).step_by(4) {
        let command = write(&device, 0, lba, 4);
        assert_eq!(run(&mut device, command), Status::Success);
    }
}

#[test]
fn a_zone_that_stays_open_over_thousands_of_mounts_is_written_on() {
    let mut bench = Bench::new(ZONED, &["drive.buffer.write=\"write-back\""]);
    let flush = || Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new());
    let (second, capacity) = (bench.zones().zone_sectors, bench.zones().capacity_sectors);
    assert_eq!(bench.write(Lba(0), 8, 7).status, Status::Success);
    assert_eq!(bench.run(flush()).status, Status::Success);
    let mut at = 0;
    for cut in 0..CUTS {
        if at == capacity {
            let reset =
                Command::new(0, Opcode::Zone(ZoneOp::Change(ZoneAction::Reset)), Lba(second), 0, Vec::new());
            assert_eq!(bench.run(reset).status, Status::Success);
            at = 0;
        }
        assert_eq!(bench.write(Lba(second + at), 8, 7).status, Status::Success, "after {cut} cuts");
        assert_eq!(bench.run(flush()).status, Status::Success);
        at += 8;
        bench.power_cut();
    }
    for i in 1..8 {
        assert_eq!(bench.write(Lba(8 * i), 8, 7).status, Status::Success);
    }
    assert_eq!(bench.run(flush()).status, Status::Success);
    assert_eq!(bench.read(Lba(0), 64).data, bench.pattern(Lba(0), 64, 7));
}

#[test]
fn a_chunk_that_stays_open_over_thousands_of_mounts_is_written_on() {
    let mut bench = Bench::new("[[drive.namespace]]\ninterface = \"open-channel\"\n", &[]);
    let open = bench.lba(0, 0, 0, 0);
    assert_eq!(bench.write(open, 8, 7).status, Status::Success);
    let mut at = 0;
    for cut in 0..CUTS {
        let lba = bench.lba(1, 1, 0, at);
        assert_eq!(bench.write(lba, 8, 7).status, Status::Success, "after {cut} cuts");
        at += 8;
        bench.power_cut();
        if at == bench.chunks().chunk_sectors {
            let lba = bench.lba(1, 1, 0, 0);
            assert_eq!(
                bench.run(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new())).status,
                Status::Success
            );
            at = 0;
        }
    }
    let lba = bench.lba(0, 0, 0, 8);
    assert_eq!(bench.write(lba, 8, 7).status, Status::Success);
}

/// The swarm's drives without any fault and power cut: none of them may be given up, those least that once were (10, 18, 73, 90).
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn drives_without_faults_are_not_given_up() {
    for seed in (0..40).chain([73, 90]) {
        let mut sets = sets_of(seed);
        sets.retain(|set| !set.contains("faults"));
        let config = tiny(&sets);
        if Device::new(&config).is_err() {
            continue;
        }
        let mut swarm = Swarm::new(&config, seed);
        let depth = 1 + Rng::stream(seed, "healthy").below(20) as u32;
        for _ in 0..3_000 {
            while swarm.in_flight() >= depth {
                assert!(swarm.step(), "seed {seed}: commands in flight and nothing happens");
            }
            swarm.submit();
            assert!(!swarm.device.is_read_only(), "seed {seed}: read-only");
        }
        swarm.drain();
        assert!(!swarm.device.is_read_only(), "seed {seed}: read-only at the end");
        swarm.device.check();
    }
}
