//! Layers of the host count beforehand what a power cut undoes: the sectors that reads find old afterwards.

use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Opcode, Rng, Status};
use pellucid_host::Tower;
use pellucid_lab::drive::TimedDrive;
use pellucid_lab::experiment;

const MEDIA: &str = r#"
[drive.media]
channels = 2
ways = 2
planes = 1
blocks = 24
pages = 16
page_size = "4KiB"
spare_size = 128
sector_size = 512
unit_size = 512
cell = "slc"
store = "ram"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
"#;

const HOST_FTL: &str = r#"
[[drive.namespace]]
interface = "open-channel"
cached = 0
[host]
layers = ["host-ftl"]
[host.ftl]
over_provisioning = 0.6
"#;

const CLUSTERED: &str = r#"
[drive.ftl]
over_provisioning = 0.35
durability = "journal"
[drive.buffer]
entries = 16
[host]
layers = ["cluster-buffer"]
[host.cluster_buffer]
cluster = "4KiB"
size = "64KiB"
"#;

fn ask(tower: &mut Tower<Device>, opcode: Opcode, lba: u64, data: Vec<u8>) -> Vec<u8> {
    tower.submit(tower.now(), Command::new(0, opcode, Lba(lba), u32::from(opcode != Opcode::Flush), data));
    loop {
        if let Some(completion) = tower.pop() {
            assert_eq!(completion.status, Status::Success, "{opcode:?} of {lba}");
            return completion.data;
        }
        let next = tower.next_event().expect("commands end");
        tower.advance(next);
    }
}

/// Sectors that are old after a cut behind `writes` random writes: those that layers told beforehand, those that the drive told in its
/// mount, and those that are read so.
fn cut_after(text: &str, writes: u64, seed: u64) -> (u64, u64, u64) {
    let spec = pellucid_spec::from_str(&format!("{MEDIA}{text}"), "small", &[]).expect("a description");
    let mut tower = experiment::stack(&spec, Device::new(&spec.drive).expect("a drive")).expect("layers");
    let sectors = 256;
    let mut newest = vec![0_u64; sectors as usize];
    let mut rng = Rng::new(seed);
    for number in 1..=writes {
        let lba = rng.below(sectors);
        newest[lba as usize] = number;
        ask(&mut tower, Opcode::Write, lba, number.to_le_bytes().repeat(64));
        if number % 97 == 0 {
            ask(&mut tower, Opcode::Flush, 0, Vec::new());
        }
    }
    let told = tower.unsaved_sectors();
    let report = tower.bottom_mut().power_cut().expect("it mounts");
    let now = tower.bottom().now();
    tower.restart(now).expect("layers mount");
    assert_eq!(tower.unsaved_sectors(), 0, "nothing was written since");
    let is_old = |(lba, &number): (usize, &u64)| {
        let data = ask(&mut tower, Opcode::Read, lba as u64, vec![0; 512]);
        data != number.to_le_bytes().repeat(64)
    };
    let old = newest.iter().enumerate().map(is_old).filter(|&old| old).count() as u64;
    (told, report.undone_units, old)
}

#[test]
fn a_host_ftl_tells_exactly_what_a_cut_undoes() {
    let mut most = 0;
    for seed in 0..40 {
        let (told, of_drive, old) = cut_after(HOST_FTL, 300 + 7 * seed, seed);
        assert_eq!((told, of_drive), (old, 0), "seed {seed}");
        most = most.max(told);
    }
    assert!(most > 8, "the ring holds sectors: {most}");
}

#[test]
fn a_cluster_buffer_and_its_drive_tell_what_a_cut_undoes() {
    for journal in ["none", "256KiB"] {
        let mut most = 0;
        for seed in 0..40 {
            let text = format!("{CLUSTERED}journal = \"{journal}\"\n");
            let (told, of_drive, old) = cut_after(&text, 300 + 7 * seed, seed);
            // A sector may be newer in the layer than in the buffer of the drive, and both are undone.
            let allowed = told.max(of_drive)..=told + of_drive;
            assert!(
                allowed.contains(&old),
                "{journal}, seed {seed}: told {told} and {of_drive}, {old} are old"
            );
            most = most.max(told);
        }
        assert!(most > 8, "{journal}: the buffer holds sectors: {most}");
    }
}
