//! Damage to an image whose process was killed: synced data are read back correctly, or the damage is reported; data are never silently absent or
//! old.

use super::basic::{Mounted, NOW, ROOT};
use super::disk::Disk;
use pellucid_fs::{
    Audit, BLOCK_BYTES, Backend, Errno, FormatOptions, Fs, FsState, Ino, MountOptions, RenameMode, Time,
};

/// Synced files with their contents.
struct Killed {
    disk: Disk,
    files: Vec<(String, Vec<u8>)>,
}

/// Kind of damage to a block.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Harm {
    /// Flips one bit of this byte.
    Flip(usize),
    Zeroed,
    Unreadable,
}

const HARMS: [Harm; 3] = [Harm::Flip(50), Harm::Zeroed, Harm::Unreadable];

impl Harm {
    fn apply(self, disk: &mut Disk, block: u64) {
        match self {
            Harm::Flip(byte) => disk.block_mut(block)[byte] ^= 1,
            Harm::Zeroed => *disk.block_mut(block) = [0; BLOCK_BYTES],
            Harm::Unreadable => {
                disk.broken_reads.insert(block);
            }
        }
    }
}

fn formatted(data_checksums: bool) -> Mounted {
    let format =
        FormatOptions { backend: Backend::Block, blocks: 1024, segment_blocks: 16, data_checksums, id: 77 };
    let options = MountOptions { memory_bytes: 1 << 20, ..MountOptions::default() };
    Mounted { fs: Fs::format(NOW, &format, options).unwrap(), disk: Disk::new(1024, 1) }
}

fn sync(m: &mut Mounted) {
    m.disk.sync(&mut m.fs, NOW).unwrap().unwrap();
}

/// Some files, each in its own commit, some of them written twice or renamed; then one large commit.
fn killed(data_checksums: bool) -> Killed {
    let mut m = formatted(data_checksums);
    sync(&mut m);
    let mut files = Vec::new();
    for n in 0..12_u8 {
        let (name, data) = (format!("f{n}"), vec![n + 1; 1000 + 4000 * usize::from(n % 3)]);
        let ino = m.create(Ino::ROOT, &name).unwrap().ino;
        m.write(ino, 0, &data).unwrap();
        sync(&mut m);
        files.push((name, data));
    }
    for n in (0..12).step_by(5) {
        let ino = m.lookup(Ino::ROOT, &files[n].0).unwrap().ino;
        files[n].1.fill(200 + n as u8);
        m.write(ino, 0, &files[n].1.clone()).unwrap();
        sync(&mut m);
    }
    let to = "g1".to_string();
    let from = std::mem::replace(&mut files[1].0, to.clone());
    m.disk
        .until(&mut m.fs, NOW, |fs| {
            fs.rename(NOW, &ROOT, Ino::ROOT, from.as_bytes(), Ino::ROOT, to.as_bytes(), RenameMode::Replace)
        })
        .unwrap()
        .unwrap();
    sync(&mut m);
    for n in 0..120_u8 {
        let name = format!("{n} {}", "n".repeat(60));
        m.create(Ino::ROOT, &name).unwrap();
        files.push((name, Vec::new()));
    }
    sync(&mut m);
    m.disk.kill();
    Killed { disk: m.disk, files }
}

/// Mounts the disk; `None`: refused with a sentence.
fn mount(mut disk: Disk, options: MountOptions) -> Option<Mounted> {
    let mut fs = Fs::mount(NOW, disk.blocks, options);
    while fs.state() == FsState::Mounting {
        assert!(disk.step(&mut fs, NOW).unwrap() || fs.state() != FsState::Mounting);
    }
    match fs.state() {
        FsState::Failed(why) => {
            assert!(!why.is_empty());
            None
        }
        _ => Some(Mounted { fs, disk }),
    }
}

fn default() -> MountOptions {
    MountOptions::default()
}

/// Number of files that are EIO, and of files that are absent or have other content.
fn lost(m: &mut Mounted, files: &[(String, Vec<u8>)]) -> (usize, usize) {
    let (mut unreadable, mut wrong) = (0, 0);
    for (name, data) in files {
        match m.lookup(Ino::ROOT, name).and_then(|found| m.read(found.ino, 0, 1 << 20)) {
            Ok(found) => wrong += usize::from(found != *data),
            Err(Errno::Io) => unreadable += 1,
            Err(_) => wrong += 1,
        }
    }
    (unreadable, wrong)
}

fn goes_on(mut m: Mounted, files: &[(String, Vec<u8>)], before: (usize, usize)) {
    m.create(Ino::ROOT, "new").unwrap();
    sync(&mut m);
    m.disk.kill();
    let mut m = mount(m.disk, default()).unwrap();
    assert_eq!(m.fs.findings().damage(), []);
    assert_eq!(lost(&mut m, files), before);
    m.lookup(Ino::ROOT, "new").unwrap();
}

/// Damages each block of an image, in several ways.
pub fn any_block(data_checksums: bool) {
    let Killed { disk, files } = killed(data_checksums);
    let (mut refused, mut named, mut harmless) = (Vec::new(), 0, 0);
    for block in disk.written() {
        for harm in HARMS {
            let at = || format!("block {block}, {harm:?}");
            let mut damaged = disk.clone();
            harm.apply(&mut damaged, block);
            let Some(mut m) = mount(damaged.clone(), default()) else {
                refused.push(block);
                continue;
            };
            let found = lost(&mut m, &files);
            assert_eq!(found.1, 0, "{}: absent or old, {:?}", at(), m.fs.findings().damage());
            if m.fs.findings().damage().is_empty() {
                assert_eq!((found.0, m.fs.state()), (0, FsState::Ready), "{}", at());
                harmless += 1;
                damaged.broken_reads.clear();
                goes_on(m, &files, found);
                continue;
            }
            assert!(
                found.0 < files.len() / 2 || block < 32,
                "{}: {found:?} {:?}",
                at(),
                m.fs.findings().damage()
            );
            assert_eq!(m.fs.state(), FsState::ReadOnly, "{}", at());
            assert!(m.create(Ino::ROOT, "new").is_err());
            named += 1;
            let Some(mut m) = mount(damaged, MountOptions { repair: true, ..default() }) else { continue };
            if m.fs.state() == FsState::Ready {
                let found = lost(&mut m, &files);
                assert_eq!(found.1, 0, "{}", at());
                // Without checksums, damaged data are undetectable.
                if data_checksums {
                    goes_on(m, &files, found);
                }
            }
        }
    }
    refused.dedup();
    // A first block of other content may belong to another file system.
    assert!(refused.iter().all(|&block| block == 0), "{refused:?}");
    assert!(named > 20 && harmless > 50, "{named} named, {harmless} harmless");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn damage_to_any_block_after_a_kill_is_named_or_harmless() {
    any_block(true);
}

#[test]
fn without_checksums_of_data_too() {
    any_block(false);
}

/// Blocks of the log after the checkpoint that hold a header, with the number of each batch.
fn headers(disk: &Disk) -> Vec<(u64, u64)> {
    let header = |&block: &u64| {
        let data = disk.read(block);
        let long = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
        (data[4..8] == 0x424c_4c50_u32.to_le_bytes()).then(|| (block, long(24)))
    };
    disk.written().iter().filter_map(header).collect()
}

/// Without its record a file system loses nothing, but torn writes and damage are harder to tell apart.
#[test]
fn a_damaged_sync_record_is_named() {
    let Killed { disk, files } = killed(true);
    let is_record = |&block: &u64| disk.read(block)[4..8] == 0x4352_4c50_u32.to_le_bytes();
    let record = disk.written().into_iter().find(is_record).expect("a record");
    let noted = |disk: Disk| {
        let mut m = mount(disk, default()).unwrap();
        assert_eq!((m.fs.state(), m.fs.findings().damage()), (FsState::Ready, &[][..]));
        assert_eq!(lost(&mut m, &files), (0, 0));
        m.fs.findings()
            .notes()
            .iter()
            .any(|note| note.0.contains(&format!("the sync record, block {record},")))
    };
    for harm in HARMS {
        let mut damaged = disk.clone();
        harm.apply(&mut damaged, record);
        assert!(noted(damaged), "{harm:?}");
    }
    assert!(!noted(disk));
}

/// Both copies of a header are damaged: the changes of its commit are unknown. The mount reports it, shows later commits, and is read-only. A repair
/// returns to the state before.
#[test]
fn a_lost_commit_is_named_and_those_behind_it_are_shown() {
    let Killed { disk, files } = killed(true);
    let headers = headers(&disk);
    let newest = headers.iter().map(|header| header.1).max().unwrap();
    let mut seen = 0;
    for seq in newest - 12..=newest {
        let mut damaged = disk.clone();
        headers
            .iter()
            .filter(|header| header.1 == seq)
            .for_each(|header| Harm::Zeroed.apply(&mut damaged, header.0));
        let mut m = mount(damaged.clone(), default()).unwrap();
        let damage: String = m.fs.findings().damage().iter().map(|found| found.0.as_str()).collect();
        assert!(damage.contains(&format!("batch {seq} of the log")), "{damage}");
        assert_eq!(m.fs.state(), FsState::ReadOnly);
        let (unreadable, wrong) = lost(&mut m, &files);
        assert!(unreadable == 0 && wrong > 0 && !(4..120).contains(&wrong), "batch {seq}: {wrong} wrong");
        let mut repaired = mount(damaged, MountOptions { repair: true, ..default() }).unwrap();
        assert!(lost(&mut repaired, &files).1 >= wrong);
        assert_eq!(repaired.audit(), Vec::<String>::new());
        let left = lost(&mut repaired, &files);
        goes_on(repaired, &files, left);
        seen += 1;
    }
    assert_eq!(seen, 13);
}

/// Without both copies of the newest checkpoint, the previous one is not taken for the newest.
#[test]
fn a_lost_checkpoint_is_named() {
    let Killed { disk, files } = killed(true);
    // A mount makes a checkpoint, and files after it.
    let mut m = mount(disk, default()).unwrap();
    sync(&mut m);
    m.create(Ino::ROOT, "behind").unwrap();
    sync(&mut m);
    m.disk.kill();
    let before = m.disk;
    let harmed = |blocks: &[u64]| {
        let mut disk = before.clone();
        blocks.iter().for_each(|&block| Harm::Flip(100).apply(&mut disk, block));
        mount(disk, default()).unwrap()
    };
    let mut named = 0;
    for pair in [[1, 3], [2, 4]] {
        let mut m = harmed(&pair);
        if let [found] = m.fs.findings().damage() {
            assert!(found.0.contains("both copies"), "{}", found.0);
            assert_eq!(m.fs.state(), FsState::ReadOnly);
            named += 1;
        } else {
            m.lookup(Ino::ROOT, "behind").unwrap();
        }
        // The record no longer names it, either.
        let mut m = harmed(&[pair[0], pair[1], 5]);
        match m.fs.findings().damage() {
            [] => _ = m.lookup(Ino::ROOT, "behind").unwrap(),
            [found] => assert!(found.0.contains("and the sync record, block 5"), "{}", found.0),
            more => panic!("{more:?}"),
        }
        for one in pair {
            let mut m = harmed(&[one]);
            assert_eq!(m.fs.findings().damage(), []);
            assert_eq!(lost(&mut m, &files), (0, 0));
            m.lookup(Ino::ROOT, "behind").unwrap();
        }
    }
    assert_eq!(named, 1);
}

/// A mount killed before its first checkpoint leaves batches; the next mount has another number, so that these never count.
#[test]
fn batches_of_a_mount_without_a_checkpoint_never_count() {
    let mut m = formatted(true);
    sync(&mut m);
    m.disk.kill();
    let mut killed = mount(m.disk, default()).unwrap();
    for n in 0..40 {
        let made = killed.create(Ino::ROOT, &format!("lost {n}"));
        assert!(made.is_ok());
        for _ in 0..2 {
            killed.disk.step(&mut killed.fs, NOW).unwrap();
        }
    }
    killed.disk.kill();
    let later = Time(NOW.0 + 1_000_000_000);
    let mut fs = Fs::mount(later, killed.disk.blocks, default());
    killed.disk.reach(&mut fs, later, &FsState::Ready).unwrap();
    assert_eq!(fs.findings().damage(), []);
    let mut audit = Audit::new(true);
    killed.disk.until(&mut fs, later, |fs| fs.audit(later, &mut audit)).unwrap().unwrap();
    assert_eq!(audit.findings(), []);
}

/// Notes of a mount about the superblock.
fn about_superblocks(m: &Mounted) -> Vec<String> {
    let sentences = m.fs.findings().notes().iter().map(|finding| finding.0.clone());
    sentences.filter(|sentence| sentence.contains("superblock")).collect()
}

#[test]
fn a_damaged_superblock_is_written_anew_from_its_copy_and_the_copy_from_it() {
    let Killed { disk, files } = killed(true);
    for (block, note) in [
        (0, "the superblock in block 0 is damaged; its copy in block 1023 was taken"),
        (1023, "the copy of the superblock in block 1023 is damaged"),
    ] {
        for harm in HARMS {
            let mut damaged = disk.clone();
            harm.apply(&mut damaged, block);
            // A zeroed first block may be the start of something new: only a repair uses the copy.
            let is_foreign = block == 0 && matches!(harm, Harm::Zeroed);
            if is_foreign {
                let mut fs = Fs::mount(NOW, 1024, default());
                let mut refusing = damaged.clone();
                while refusing.step(&mut fs, NOW).unwrap() {}
                let FsState::Failed(why) = fs.state() else { panic!("{:?}", fs.state()) };
                assert!(why.contains("`pellucid fs check --repair` takes the copy"), "{why}");
                assert_eq!(refusing.read(0), [0; BLOCK_BYTES], "a refusal changes nothing");
            }
            let only_read = MountOptions { read_only: true, repair: is_foreign, ..default() };
            let mut m = mount(damaged.clone(), only_read).unwrap();
            assert_eq!(about_superblocks(&m), [note], "{harm:?}");
            assert_eq!(lost(&mut m, &files), (0, 0));
            assert_eq!(m.disk.read(block), damaged.read(block), "a mount to read changes nothing");

            let mut m = mount(damaged, MountOptions { repair: is_foreign, ..default() }).unwrap();
            m.create(Ino::ROOT, "new").unwrap();
            m.disk.broken_reads.clear();
            sync(&mut m);
            m.disk.kill();
            let mut m = mount(m.disk, default()).unwrap();
            assert_eq!((about_superblocks(&m), m.fs.findings().damage()), (Vec::new(), &[][..]), "{harm:?}");
            assert_eq!(lost(&mut m, &files), (0, 0));
        }
    }
}
