//! Image files with changed bytes: each is refused in a sentence, or its damaged parts read as errors. Wrong
//! data must never be returned as good, and nothing may panic: at start, on reads, on writes, in GC.

use crate::common::{SECTOR, chunk_namespace, config, zones};
use pellucid_device::{Device, DeviceConfig, DeviceError, Namespace};
use pellucid_flash::{ChunkInfo, Command, Completion, Lba, Opcode, Rng, Status};
use pellucid_ftl::{Management, ZoneConfig};
use pellucid_media::{MediaError, StoreKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const UNIT_SECTORS: u32 = 8;
const UNIT_BYTES: usize = UNIT_SECTORS as usize * SECTOR;

/// An image file of this test, in memory if the system supports it, and removed at the end.
struct Image(PathBuf);

impl Image {
    fn new(name: &str) -> Image {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        Image(directory.join(format!("pellucid-damaged-{}-{name}", std::process::id())))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn execute(device: &mut Device, command: Command) -> Completion {
    device.submit(device.now(), command);
    loop {
        if let Some(completion) = device.pop() {
            return completion;
        }
        let at = device.next_event().expect("a command that does not end");
        device.advance(at);
    }
}

fn ask(device: &mut Device, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) -> Completion {
    execute(device, Command::new(0, opcode, Lba(lba), sectors, data))
}

/// Content of a unit after its `version`-th write; 0: never written.
fn content(lba: u64, version: u32) -> Vec<u8> {
    let mut rng = Rng::stream(lba << 32 | u64::from(version), "content");
    let words = (0..UNIT_BYTES / 8).map(|_| if version == 0 { 0 } else { rng.next_u64() });
    words.flat_map(u64::to_le_bytes).collect()
}

/// A drive with its written units and the history of each.
struct Kept {
    config: DeviceConfig,
    /// Bytes of the closed image.
    bytes: Vec<u8>,
    units: BTreeMap<u64, u32>,
}

impl Kept {
    /// Writes `lbas` in this order, then discards every seventh if `trims`.
    fn new(config: DeviceConfig, lbas: &[u64], trims: bool) -> Kept {
        let StoreKind::File(path) = &config.media.store else { panic!("a file") };
        let _ = std::fs::remove_file(path);
        let mut device = Device::new(&config).expect("a good configuration");
        let mut units = BTreeMap::new();
        for &lba in lbas {
            let version = units.entry(lba).or_insert(0);
            *version += 1;
            let done = ask(&mut device, Opcode::Write, lba, UNIT_SECTORS, content(lba, *version));
            assert_eq!(done.status, Status::Success, "sector {lba}");
        }
        let taken: Vec<u64> = units.keys().copied().step_by(7).filter(|_| trims).collect();
        for lba in taken {
            assert_eq!(ask(&mut device, Opcode::Trim, lba, UNIT_SECTORS, Vec::new()).status, Status::Success);
            units.insert(lba, 0);
        }
        assert_eq!(ask(&mut device, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
        drop(device);
        let bytes = std::fs::read(path).expect("the image");
        Kept { bytes, units, config }
    }

    /// Opens the image with these bytes; returns `None` if it was refused in a sentence that names it.
    fn open(&self, bytes: &[u8]) -> Option<Device> {
        let StoreKind::File(path) = &self.config.media.store else { panic!("a file") };
        std::fs::write(path, bytes).expect("the image");
        match Device::new(&self.config) {
            Ok(device) => Some(device),
            Err(DeviceError::Media(MediaError::Store(error))) => {
                let text = error.to_string();
                assert!(text.starts_with(&path.display().to_string()) && !text.contains('\n'), "{text}");
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Reads all units; returns the number of unreadable ones.
    fn check(&self, device: &mut Device, units: &BTreeMap<u64, u32>, what: &str) -> u32 {
        let mut failed = 0;
        for (&lba, &version) in units {
            let done = ask(device, Opcode::Read, lba, UNIT_SECTORS, vec![0xa5; UNIT_BYTES]);
            match done.status {
                Status::Success => {
                    assert!(done.data == content(lba, version), "{what}: sector {lba} is wrong")
                }
                Status::UnrecoveredRead => failed += 1,
                status => panic!("{what}: sector {lba}: {status:?}"),
            }
        }
        failed
    }

    /// Overwrites part of the data, so that GC processes the rest; for a block namespace.
    fn overwrite(&self, device: &mut Device, rng: &mut Rng, what: &str) {
        let mut units = self.units.clone();
        let lbas: Vec<u64> = units.keys().copied().collect();
        let mut refused = 0;
        for _ in 0..lbas.len() {
            let lba = lbas[rng.below(lbas.len() as u64) as usize];
            let version = units[&lba] + 100;
            match ask(device, Opcode::Write, lba, UNIT_SECTORS, content(lba, version)).status {
                Status::Success => _ = units.insert(lba, version),
                Status::WriteFault | Status::ReadOnly => {
                    refused += 1;
                    units.remove(&lba);
                }
                status => panic!("{what}: write of sector {lba}: {status:?}"),
            }
        }
        assert_eq!(refused, 0, "{what}: whole units can be written whatever was lost");
        self.check(device, &units, what);
        device.check();
    }
}

/// Damages the bytes at random.
fn damage(bytes: &mut Vec<u8>, data_from: usize, rng: &mut Rng) -> String {
    let length = bytes.len() as u64;
    // Headers, states and spare areas are a small part of the file, so they are targeted.
    let aim = |rng: &mut Rng| match rng.below(3) {
        0 => rng.below(4096 + 16 * 64) as usize,
        1 => rng.below(data_from as u64) as usize,
        _ => rng.below(length) as usize,
    };
    let at = aim(rng);
    let run = (1 + rng.below(8192) as usize).min(bytes.len() - at);
    match rng.below(10) {
        0..6 => {
            bytes[at] ^= 1 << rng.below(8);
            format!("one bit at {at}")
        }
        6 => {
            bytes[at..at + run].fill(0);
            format!("{run} zeros at {at}")
        }
        7 => {
            bytes[at..at + run].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
            format!("{run} bytes of junk at {at}")
        }
        8 => {
            let from = aim(rng).min(bytes.len() - run);
            bytes.copy_within(from..from + run, at);
            format!("{run} bytes from {from} at {at}")
        }
        _ => {
            bytes.truncate(at);
            format!("cut off at {at}")
        }
    }
}

/// Start of the data, according to the header.
fn data_from(bytes: &[u8]) -> usize {
    u64::from_le_bytes(bytes[88..96].try_into().expect("eight bytes")) as usize
}

fn rounds() -> u32 {
    if cfg!(debug_assertions) { 1_200 } else { 6_000 }
}

fn try_all(kept: &Kept, seed: u64, writes: bool) {
    let mut rng = Rng::stream(seed, "damage");
    let from = data_from(&kept.bytes);
    let (mut refused, mut lost, mut unhurt) = (0, 0, 0);
    for round in 0..rounds() {
        let mut bytes = kept.bytes.clone();
        let what = format!("round {round}: {}", damage(&mut bytes, from, &mut rng));
        let Some(mut device) = kept.open(&bytes) else {
            refused += 1;
            continue;
        };
        match kept.check(&mut device, &kept.units, &what) {
            0 => unhurt += 1,
            _ => {
                lost += 1;
                let mount = device.last_mount().map_or(0, |(report, _)| report.lost_units);
                let (read, told) = (device.counters().damaged_reads, device.store_notice().is_some());
                assert!(mount > 0 || (read > 0 && told), "{what}: counted and told of");
            }
        }
        if writes {
            kept.overwrite(&mut device, &mut rng, &what);
        }
    }
    assert!(refused > 0 && lost > 0 && unhurt > 0, "{refused} {lost} {unhurt}");
    let mut device = kept.open(&kept.bytes).expect("the image as it was");
    assert_eq!(kept.check(&mut device, &kept.units, "as it was"), 0);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_journalled_block_drive() {
    let image = Image::new("block");
    let mut described = config(StoreKind::File(image.0.clone()));
    described.media.geometry.blocks = 10;
    described.buffer.entries = 16;
    described.ftl.over_provisioning = 1.0;
    let units = Device::new(&DeviceConfig {
        media: pellucid_media::MediaConfig { store: StoreKind::Ram, ..described.media.clone() },
        ..described.clone()
    })
    .expect("a good configuration")
    .namespace(0)
    .capacity_sectors()
        / u64::from(UNIT_SECTORS);
    let mut rng = Rng::stream(1, "addresses");
    let all = (0..units).map(|unit| unit * u64::from(UNIT_SECTORS));
    let again = (0..2 * units).map(|_| rng.below(units) * u64::from(UNIT_SECTORS));
    let lbas: Vec<u64> = all.chain(again).collect();
    try_all(&Kept::new(described, &lbas, true), 11, true);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn an_open_channel_drive() {
    let image = Image::new("chunks");
    let mut described = config(StoreKind::File(image.0.clone()));
    described.media.metadata_bytes = 16;
    described.media.geometry.spare_bytes = 256;
    described.media.geometry.blocks = 8;
    described.namespaces = vec![chunk_namespace(0..8, Management::Host)];
    let _ = std::fs::remove_file(&image.0);
    let mut device = Device::new(&described).expect("a good configuration");
    let report = ask(&mut device, Opcode::Report, 0, 32, Vec::new());
    drop(device);
    let infos = report.data.chunks_exact(ChunkInfo::BYTES).map(|info| info.try_into().expect("a descriptor"));
    let starts: Vec<u64> = infos.map(|info| ChunkInfo::decode(info).expect("a chunk").start.0).collect();
    let lbas: Vec<u64> = starts
        .iter()
        .take(20)
        .flat_map(|start| (0..12).map(move |unit| start + unit * u64::from(UNIT_SECTORS)))
        .collect();
    try_all(&Kept::new(described, &lbas, false), 12, false);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_zoned_drive() {
    let image = Image::new("zones");
    let mut described = config(StoreKind::File(image.0.clone()));
    described.media.metadata_bytes = 16;
    described.media.geometry.spare_bytes = 256;
    described.media.geometry.blocks = 8;
    described.namespaces =
        vec![Namespace::Zoned { zones: ZoneConfig { dies_per_zone: 2, active_max: 4, ..zones(0..8) } }];
    // A zone is a column in each of two dies.
    let zone = 2 * 16 * u64::from(UNIT_SECTORS);
    let lbas: Vec<u64> = (0..4)
        .flat_map(|number| (0..20 + number).map(move |unit| number * zone + unit * u64::from(UNIT_SECTORS)))
        .collect();
    try_all(&Kept::new(described, &lbas, false), 13, false);
}
