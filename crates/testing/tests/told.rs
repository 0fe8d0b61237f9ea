//! A loss is reported: by the read of the lost data, and by the next flush.

use pellucid_device::Device;
use pellucid_flash::{Command, DieId, Lba, Opcode, Status};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_media::Fault;
use pellucid_testing::conformance::Bench;
use pellucid_testing::swarm::TINY;

fn zoned(buffer: &str) -> String {
    format!(
        "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 4\nopen_max = 3\n\
         buffer = \"{buffer}\"\n"
    )
}

fn flush() -> Command {
    Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())
}

/// Three sectors, which only the log has, read after `harm` and a power cut: as written, or reported as lost.
fn logged_is_kept_or_lost(mut bench: Bench, harm: impl Fn(&mut Bench)) -> Status {
    assert_eq!(bench.write(Lba(0), 3, 7).status, Status::Success);
    assert_eq!(bench.run(flush()).status, Status::Success);
    harm(&mut bench);
    bench.power_cut();
    let read = bench.read(Lba(0), 3);
    match read.status {
        Status::Success => assert_eq!(read.data, bench.pattern(Lba(0), 3, 7)),
        status => assert_eq!(status, Status::UnrecoveredRead),
    }
    // Nor is it given away by a write, or by the next mount.
    let _ = bench.write(Lba(3), 5, 7);
    let _ = bench.run(flush());
    bench.power_cut();
    let again = bench.read(Lba(0), 3);
    match again.status {
        // It may lie in such a place only now.
        Status::UnrecoveredRead => {}
        _ => {
            assert_eq!((read.status, again.status), (Status::Success, Status::Success));
            assert_eq!(again.data, bench.pattern(Lba(0), 3, 7));
        }
    }
    read.status
}

#[test]
fn what_the_log_of_zones_had_on_a_dead_die_is_reported_lost() {
    let lost = (0..4).filter(|&die| {
        let bench = Bench::new(&zoned("volatile"), &["drive.buffer.write=\"write-back\""]);
        let kill = |bench: &mut Bench| {
            let now = bench.drive.now();
            bench.drive.inject(now, Fault::KillDie { die: DieId(die) }).expect("there is such a die");
            while bench.step() {}
        };
        logged_is_kept_or_lost(bench, kill) == Status::UnrecoveredRead
    });
    assert!(lost.count() > 0, "the log lies on one of the dies");
}

#[test]
fn what_the_log_of_zones_had_in_an_unreadable_superpage_is_reported_lost() {
    let places = (0..4).flat_map(|die| (0..6).map(move |block| (die, block)));
    let lost = places.filter(|(die, block)| {
        let fault = format!(
            "[[drive.media.faults.list]]\nkind = \"read-fail\"\ndie = {die}\nblock = {block}\nsuperpage = 0\n"
        );
        let bench = Bench::new(&(zoned("volatile") + &fault), &[]);
        logged_is_kept_or_lost(bench, |_| ()) == Status::UnrecoveredRead
    });
    assert!(lost.count() > 0, "the log lies in one of the blocks");
}

#[test]
fn a_flush_says_that_an_acknowledged_write_was_lost() {
    let unreadable = |superpage| {
        format!(
            "[[drive.media.faults.list]]\nkind = \"read-fail\"\ndie = 0\nblock = 0\nsuperpage = {superpage}\n"
        )
    };
    let text = TINY.to_string() + &(0..16).map(unreadable).collect::<String>();
    let sets = ["buffer.write=write-back", "buffer.entries=8", "buffer.dirty_high=0.0"].map(String::from);
    let spec = pellucid_spec::from_str(&text, "tiny", &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
    let mut run = |opcode, lba: u64, sectors: u32| {
        let data = vec![1; if opcode == Opcode::Write { sectors as usize * device.image_bytes() } else { 0 }];
        device.submit(device.now(), Command::new(0, opcode, Lba(lba), sectors, data));
        while let Some(at) = device.next_event() {
            device.advance(at);
        }
        device.pop().expect("it ends").status
    };
    (0..40).for_each(|unit| assert_eq!(run(Opcode::Write, unit * 4, 4), Status::Success));
    assert_eq!(run(Opcode::Flush, 0, 0), Status::Success);
    // Others take the buffer.
    (30..40).for_each(|unit| _ = run(Opcode::Read, unit * 4, 4));
    // A part of a page the rest of which cannot be read.
    assert_eq!(run(Opcode::Write, 0, 1), Status::Success);
    assert_eq!(run(Opcode::Flush, 0, 0), Status::WriteFault);
    assert_eq!(run(Opcode::Read, 0, 1), Status::UnrecoveredRead);
    assert_eq!(run(Opcode::Flush, 0, 0), Status::Success, "it is said once");
}

/// Small blocks, of which programs fail now and then, so that the log has no room for all that no zone has a block for.
const FAILING: &str = r#"
[drive.media]
channels = 4
ways = 2
planes = 2
blocks = 24
pages = 12
page_size = 8192
spare_size = 1024
sector_size = 512
cell = "mlc"
[drive.media.timing]
read = ["50us", "50us"]
program = ["500us", "500us"]
erase = "3ms"
channel_rate = "400MB/s"
[drive.media.faults]
program_fail = 0.001
[[drive.namespace]]
interface = "zoned"
buffer = "protected"
dies_per_zone = 1
[host]
layers = ["zone-log"]
[host.ftl]
durability = "volatile"
over_provisioning = 0.4
[run]
verify = true
"#;

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn nothing_comes_back_as_zeros_where_a_program_was_given_up() {
    for seed in 1..9 {
        let sets = [format!("run.seed={seed}"), format!("media.seed={seed}")];
        let mut spec = pellucid_spec::from_str(FAILING, "failing", &sets).unwrap_or_else(|e| panic!("{e}"));
        spec.jobs = vec![parse_job("rw=randrw,iodepth=8,bs=256k,number_ios=3000", "test")];
        let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
        if let Err(why) = execute(&spec, &jobs, &|| 0.0, &mut Unwatched) {
            panic!("seed {seed}: {why}");
        }
    }
}
