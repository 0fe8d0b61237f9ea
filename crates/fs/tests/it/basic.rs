//! Single operations.

use super::disk::Disk;
use pellucid_fs::{
    Access, Attributes, Audit, Backend, Caller, Errno, FallocateMode, FileKind, FormatOptions, Fs, FsState,
    Ino, MountOptions, RenameMode, SetAttributes, Time, Whence, XattrMode,
};

pub const NOW: Time = Time(1_700_000_000_000_000_000);
pub const ROOT: Caller = Caller::ROOT;

pub struct Mounted {
    pub fs: Fs,
    pub disk: Disk,
}

impl Mounted {
    pub fn new(blocks: u64, segment_blocks: u32, memory_bytes: usize) -> Mounted {
        let format =
            FormatOptions { backend: Backend::Block, blocks, segment_blocks, data_checksums: true, id: 77 };
        let options = MountOptions { memory_bytes, ..MountOptions::default() };
        let fs = Fs::format(NOW, &format, options).unwrap();
        Mounted { fs, disk: Disk::new(blocks, 1) }
    }

    pub fn create(&mut self, parent: Ino, name: &str) -> Result<Attributes, Errno> {
        let made =
            self.disk.until(&mut self.fs, NOW, |fs| fs.create(NOW, &ROOT, parent, name.as_bytes(), 0o644));
        let made = made.unwrap()?;
        self.fs.release(made.ino);
        Ok(made)
    }

    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.disk.until(&mut self.fs, NOW, |fs| fs.write(NOW, &ROOT, ino, offset, data)).unwrap()
    }

    pub fn read(&mut self, ino: Ino, offset: u64, size: usize) -> Result<Vec<u8>, Errno> {
        let mut out = Vec::new();
        self.disk.until(&mut self.fs, NOW, |fs| fs.read(NOW, ino, offset, size, &mut out)).unwrap()?;
        Ok(out)
    }

    pub fn lookup(&mut self, parent: Ino, name: &str) -> Result<Attributes, Errno> {
        self.disk.until(&mut self.fs, NOW, |fs| fs.lookup(NOW, &ROOT, parent, name.as_bytes())).unwrap()
    }

    pub fn remount(&mut self) {
        self.fs.unmount();
        self.disk.reach(&mut self.fs, NOW, &FsState::Unmounted).unwrap();
        self.fs = Fs::mount(NOW, self.disk.blocks, MountOptions::default());
        self.disk.reach(&mut self.fs, NOW, &FsState::Ready).unwrap();
    }

    pub fn audit(&mut self) -> Vec<String> {
        let mut audit = Audit::new(true);
        self.disk.until(&mut self.fs, NOW, |fs| fs.audit(NOW, &mut audit)).unwrap().unwrap();
        audit.findings().iter().map(|finding| finding.0.clone()).collect()
    }
}

#[test]
fn a_file_is_there_after_a_remount() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let file = m.create(Ino::ROOT, "a").unwrap().ino;
    let data: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    m.write(file, 1000, &data).unwrap();
    m.disk.sync(&mut m.fs, NOW).unwrap().unwrap();
    m.remount();
    let found = m.lookup(Ino::ROOT, "a").unwrap();
    assert_eq!((found.ino, found.size), (file, 301_000));
    assert_eq!(m.read(file, 1000, 1 << 20).unwrap(), data);
    assert_eq!(m.read(file, 0, 1000).unwrap(), vec![0; 1000]);
    assert_eq!(m.audit(), Vec::<String>::new());
    m.fs.check();
}

#[test]
fn many_names_and_their_listing() {
    let mut m = Mounted::new(16384, 64, 4 << 20);
    for n in 0..5000 {
        m.create(Ino::ROOT, &format!("name {n}")).unwrap();
    }
    assert_eq!(m.create(Ino::ROOT, "name 17"), Err(Errno::Exists));
    m.remount();
    let (mut names, mut cookie, mut entries) = (Vec::new(), 0, Vec::new());
    loop {
        m.disk
            .until(&mut m.fs, NOW, |fs| fs.readdir(NOW, Ino::ROOT, cookie, 100, true, &mut entries))
            .unwrap()
            .unwrap();
        let Some(last) = entries.last() else { break };
        cookie = last.cookie;
        names.extend(entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()));
    }
    names.sort();
    let mut expected: Vec<String> = (0..5000).map(|n| format!("name {n}")).collect();
    expected.extend([".".to_string(), "..".to_string()]);
    expected.sort();
    assert_eq!(names, expected);
    for n in 0..5000 {
        let name = format!("name {n}");
        m.disk
            .until(&mut m.fs, NOW, |fs| fs.unlink(NOW, &ROOT, Ino::ROOT, name.as_bytes()))
            .unwrap()
            .unwrap();
    }
    m.remount();
    assert_eq!(m.audit(), Vec::<String>::new());
    assert_eq!(m.lookup(Ino::ROOT, "."), m.lookup(Ino::ROOT, ".."));
}

#[test]
fn holes_promises_and_attributes() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let file = m.create(Ino::ROOT, "a").unwrap().ino;
    m.write(file, 0, &[1; 40_000]).unwrap();
    let punch = FallocateMode::PunchHole;
    m.disk.until(&mut m.fs, NOW, |fs| fs.fallocate(NOW, &ROOT, file, 5000, 20_000, punch)).unwrap().unwrap();
    let seek = |m: &mut Mounted, at, whence| {
        m.disk.until(&mut m.fs, NOW, |fs| fs.seek_data(NOW, file, at, whence)).unwrap()
    };
    assert_eq!(seek(&mut m, 0, Whence::Hole), Ok(8192));
    assert_eq!(seek(&mut m, 8192, Whence::Data), Ok(24576));
    m.remount();
    assert_eq!(seek(&mut m, 0, Whence::Hole), Ok(8192));
    let mut expected = vec![1; 40_000];
    expected[5000..25_000].fill(0);
    assert_eq!(m.read(file, 0, 50_000).unwrap(), expected);
    let keep = FallocateMode::KeepSize;
    m.disk.until(&mut m.fs, NOW, |fs| fs.fallocate(NOW, &ROOT, file, 0, 81_920, keep)).unwrap().unwrap();
    let found = m.lookup(Ino::ROOT, "a").unwrap();
    assert_eq!((found.size, found.blocks), (40_000, 160));
    let shrink = SetAttributes { size: Some(100), ..SetAttributes::default() };
    m.disk.until(&mut m.fs, NOW, |fs| fs.setattr(NOW, &ROOT, file, &shrink)).unwrap().unwrap();
    let grow = SetAttributes { size: Some(10_000), ..SetAttributes::default() };
    m.disk.until(&mut m.fs, NOW, |fs| fs.setattr(NOW, &ROOT, file, &grow)).unwrap().unwrap();
    let mut expected = vec![0; 10_000];
    expected[..100].fill(1);
    assert_eq!(m.read(file, 0, 50_000).unwrap(), expected);
    for length in [0, 10, 65_536, 300] {
        let value = vec![length as u8; length];
        m.disk
            .until(&mut m.fs, NOW, |fs| fs.setxattr(NOW, &ROOT, file, b"user.x", &value, XattrMode::Set))
            .unwrap()
            .unwrap();
        let found = m.disk.until(&mut m.fs, NOW, |fs| fs.getxattr(NOW, &ROOT, file, b"user.x")).unwrap();
        assert_eq!(found, Ok(value));
    }
    let names = m.disk.until(&mut m.fs, NOW, |fs| fs.listxattr(NOW, &ROOT, file)).unwrap();
    assert_eq!(names, Ok(b"user.x\0".to_vec()));
    m.create(Ino::ROOT, "b").unwrap();
    let mode = RenameMode::Exchange;
    m.disk
        .until(&mut m.fs, NOW, |fs| fs.rename(NOW, &ROOT, Ino::ROOT, b"a", Ino::ROOT, b"b", mode))
        .unwrap()
        .unwrap();
    assert_eq!(m.lookup(Ino::ROOT, "b").unwrap().ino, file);
    m.remount();
    assert_eq!(m.audit(), Vec::<String>::new());
}

#[test]
fn a_full_file_system_says_so_and_lets_one_delete() {
    let mut m = Mounted::new(2048, 16, 1 << 20);
    let mut written = 0u64;
    let mut number = 0;
    'fill: loop {
        let name = format!("{number}");
        let Ok(file) = m.create(Ino::ROOT, &name) else { break };
        number += 1;
        for block in 0..20 {
            match m.write(file.ino, block * 4096, &[number as u8; 4096]) {
                Ok(()) => written += 1,
                Err(errno) => {
                    assert_eq!(errno, Errno::NoSpace);
                    break 'fill;
                }
            }
        }
    }
    assert!(written > 1200, "most of it could be written: {written}");
    // Overwriting needs no space.
    for _ in 0..2 {
        for n in 0..number - 1 {
            let file = m.lookup(Ino::ROOT, &n.to_string()).unwrap().ino;
            m.write(file, 3 * 4096, &[n as u8; 4096]).unwrap();
        }
    }
    m.disk.sync(&mut m.fs, NOW).unwrap().unwrap();
    for n in 0..number {
        let name = n.to_string();
        m.disk
            .until(&mut m.fs, NOW, |fs| fs.unlink(NOW, &ROOT, Ino::ROOT, name.as_bytes()))
            .unwrap()
            .unwrap();
    }
    m.remount();
    assert_eq!(m.audit(), Vec::<String>::new());
    let space = m.disk.until(&mut m.fs, NOW, |fs| fs.statfs(NOW)).unwrap().unwrap();
    // Less what the extents of the promised blocks would need.
    assert!(space.blocks_free + space.blocks / 64 + 8 > space.blocks, "{space:?}");
}

#[test]
fn planted_damage_is_found_and_concerns_one_file_alone() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let (damaged, sound) = (m.create(Ino::ROOT, "a").unwrap().ino, m.create(Ino::ROOT, "b").unwrap().ino);
    m.write(damaged, 0, &[7; 12_288]).unwrap();
    m.write(sound, 0, &[8; 12_288]).unwrap();
    m.remount();
    assert_eq!(m.audit(), Vec::<String>::new());
    m.fs.unmount();
    m.disk.reach(&mut m.fs, NOW, &FsState::Unmounted).unwrap();
    let block = (0..m.disk.blocks).find(|&block| m.disk.read(block) == [7; 4096]).unwrap();
    m.disk.block_mut(block)[17] ^= 1;
    m.fs = Fs::mount(NOW, m.disk.blocks, MountOptions::default());
    assert_eq!(m.read(damaged, 0, 4096), Err(Errno::Io));
    assert_eq!(m.read(damaged, 4096, 4096).unwrap(), vec![7; 4096]);
    assert_eq!(m.read(sound, 0, 12_288).unwrap(), vec![8; 12_288]);
    let findings = m.audit();
    assert!(findings.len() == 1 && findings[0].contains("bytes 0 to 4095 cannot be read"), "{findings:?}");
}

/// Any block of an image is damaged, one at a time. The mount refuses with a sentence, or continues; then every file has its content or fails with
/// EIO, and a walk reports the damage of each file.
#[test]
fn a_damaged_block_is_never_taken_for_a_sound_one() {
    let mut m = Mounted::new(1024, 16, 1 << 20);
    let name = |n: u64| format!("{n} {}", "n".repeat(60));
    for n in 0..120 {
        let ino = m.create(Ino::ROOT, &name(n)).unwrap().ino;
        m.write(ino, 0, &[n as u8; 100]).unwrap();
    }
    m.remount();
    m.fs.unmount();
    m.disk.reach(&mut m.fs, NOW, &FsState::Unmounted).unwrap();
    let (mut refused, mut nodes, mut data) = (0, 0, 0);
    for block in (0..m.disk.blocks).filter(|&block| m.disk.read(block) != [0; 4096]) {
        for zeroed in [false, true] {
            let mut disk = m.disk.clone();
            match zeroed {
                true => *disk.block_mut(block) = [0; 4096],
                false => disk.block_mut(block)[(block * 37 % 4096) as usize] ^= 0x10,
            }
            let mut fs =
                Fs::mount(NOW, disk.blocks, MountOptions { read_only: true, ..MountOptions::default() });
            while fs.state() == FsState::Mounting && disk.step(&mut fs, NOW).unwrap() {}
            // A first block with other content.
            if let FsState::Failed(why) = fs.state() {
                assert!(block == 0 && zeroed, "block {block}: {why}");
                refused += 1;
                continue;
            }
            assert_eq!(fs.state(), FsState::ReadOnly, "block {block}");
            let mut damaged = Mounted { fs, disk };
            let mut lost = 0;
            for n in 0..120 {
                let found =
                    damaged.lookup(Ino::ROOT, &name(n)).and_then(|found| damaged.read(found.ino, 0, 200));
                match found {
                    Ok(found) => assert_eq!(found, vec![n as u8; 100], "block {block}"),
                    Err(errno) => {
                        assert_eq!(errno, Errno::Io, "file {n}, block {block}");
                        lost += 1;
                    }
                }
            }
            // A header has a copy.
            let findings = damaged.audit();
            assert_eq!(lost > 0, !findings.is_empty(), "block {block}: {lost} lost, {findings:?}");
            nodes += usize::from(findings.iter().any(|finding| finding.contains("a node of the tree")));
            data +=
                usize::from(lost == 1 && findings.iter().any(|finding| finding.contains("cannot be read")));
        }
    }
    assert!(
        refused == 1 && nodes > 10 && data > 100,
        "{refused} refused, {nodes} nodes, {data} blocks of data"
    );
}

#[test]
fn what_is_no_file_system_is_refused() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let refused = |mut disk: Disk, blocks| {
        let mut fs = Fs::mount(NOW, blocks, MountOptions::default());
        while disk.step(&mut fs, NOW).unwrap() {}
        fs.state()
    };
    let why = "its first block holds no Pellucid file system; `pellucid fs format` makes one and discards what is there";
    assert_eq!(refused(Disk::new(4096, 1), 4096), FsState::Failed(why.into()));
    m.disk.sync(&mut m.fs, NOW).unwrap().unwrap();
    let why = "it is cut off: the file system has 4096 blocks of 4 KiB, the drive 4000";
    assert_eq!(refused(m.disk.clone(), 4000), FsState::Failed(why.into()));
    let of_version = |version: u32| {
        let mut older = m.disk.clone();
        let superblock = older.block_mut(0);
        superblock[16..20].copy_from_slice(&version.to_le_bytes());
        let sum = crc32c::crc32c(&superblock[8..]);
        superblock[..4].copy_from_slice(&sum.to_le_bytes());
        older
    };
    let why = "its format has version 1; this program knows versions 2 and 3";
    assert_eq!(refused(of_version(1), 4096), FsState::Failed(why.into()));
    m.disk.block_mut(0)[40] ^= 1;
    m.disk.block_mut(4095)[40] ^= 1;
    let why = "its superblock is damaged: the checksum is wrong";
    assert_eq!(refused(m.disk, 4096), FsState::Failed(why.into()));
}

#[test]
fn a_drive_that_takes_no_writes_leaves_a_file_system_that_is_read_only() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let file = m.create(Ino::ROOT, "a").unwrap().ino;
    m.write(file, 0, &[1; 5000]).unwrap();
    m.disk.sync(&mut m.fs, NOW).unwrap().unwrap();
    m.disk.read_only = true;
    m.write(file, 0, &[2; 5000]).unwrap();
    assert_eq!(m.disk.sync(&mut m.fs, NOW).unwrap(), Err(Errno::Io));
    assert_eq!(m.fs.state(), FsState::ReadOnly);
    assert_eq!(m.write(file, 0, &[3; 10]), Err(Errno::ReadOnly));
    assert_eq!(m.read(file, 0, 5000).unwrap(), vec![2; 5000]);
}

#[test]
fn permissions_are_those_of_a_kernel() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let (owner, other) =
        (Caller { uid: 10, gid: 20, groups: &[] }, Caller { uid: 11, gid: 21, groups: &[20] });
    let file = m.create(Ino::ROOT, "a").unwrap().ino;
    let set = |m: &mut Mounted, caller: &Caller, set: SetAttributes| {
        m.disk.until(&mut m.fs, NOW, |fs| fs.setattr(NOW, caller, file, &set)).unwrap().map(|a| a.mode)
    };
    let mode = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    let own = SetAttributes { uid: Some(10), gid: Some(20), ..SetAttributes::default() };
    assert_eq!(set(&mut m, &ROOT, own), Ok(0o644));
    assert_eq!(set(&mut m, &other, mode(0o600)), Err(Errno::NotPermitted));
    assert_eq!(set(&mut m, &owner, mode(0o6750)), Ok(0o6750));
    // A change of the owner clears set-user-id and set-group-id.
    assert_eq!(set(&mut m, &ROOT, own), Ok(0o750));
    let access = |m: &mut Mounted, caller: &Caller, access| {
        m.disk.until(&mut m.fs, NOW, |fs| fs.access(NOW, caller, file, access)).unwrap()
    };
    assert_eq!(access(&mut m, &other, Access::READ), Ok(()));
    assert_eq!(access(&mut m, &other, Access::WRITE), Err(Errno::AccessDenied));
    let remove = |m: &mut Mounted, caller: &Caller| {
        m.disk.until(&mut m.fs, NOW, |fs| fs.unlink(NOW, caller, Ino::ROOT, b"a")).unwrap()
    };
    assert_eq!(remove(&mut m, &owner), Err(Errno::AccessDenied));
    let sticky = mode(0o1777);
    m.disk.until(&mut m.fs, NOW, |fs| fs.setattr(NOW, &ROOT, Ino::ROOT, &sticky)).unwrap().unwrap();
    assert_eq!(remove(&mut m, &other), Err(Errno::NotPermitted));
    assert_eq!(remove(&mut m, &owner), Ok(()));
}

/// The newest copy of a node of the tree is unreadable, and the log after the checkpoint changes its content.
#[test]
#[cfg_attr(quick, ignore = "slow")]
pub fn a_mount_that_cannot_read_all_metadata_is_read_only() {
    let mut mounted = Mounted::new(4096, 32, 1 << 20);
    let inos: Vec<Ino> =
        (0..2000).map(|n| mounted.create(Ino::ROOT, &format!("file-{n}")).unwrap().ino).collect();
    inos.iter().for_each(|&ino| mounted.write(ino, 0, b"before").unwrap());
    mounted.remount();
    inos.iter().for_each(|&ino| mounted.write(ino, 0, b"behind").unwrap());
    mounted.disk.sync(&mut mounted.fs, NOW).unwrap().unwrap();
    let checkpoint = mounted.fs.view().checkpoint;
    // Nodes begin with their kind.
    let is_leaf = |block: &[u8; 4096]| block[4..7] == [0x46, 0x50, 0];
    let leaves: Vec<u64> = (64..4096).filter(|&at| is_leaf(&mounted.disk.read(at))).collect();
    let (mut read_only, mut lost_most) = (0, 0);
    for leaf in leaves {
        let mut disk = mounted.disk.clone();
        disk.broken_reads.insert(leaf);
        let mut fs = Fs::mount(NOW, disk.blocks, MountOptions::default());
        while fs.state() == FsState::Mounting {
            assert!(disk.step(&mut fs, NOW).unwrap() || fs.state() != FsState::Mounting);
        }
        if fs.state() == FsState::Ready {
            continue;
        }
        assert_eq!(fs.state(), FsState::ReadOnly, "leaf at {leaf}, checkpoint {checkpoint}");
        read_only += 1;
        let mut lost = 0;
        for &ino in &inos {
            let mut out = Vec::new();
            match disk.until(&mut fs, NOW, |fs| fs.read(NOW, ino, 0, 10, &mut out)).unwrap() {
                Ok(()) => assert!(out == b"behind" || out == b"before"),
                Err(errno) => {
                    assert_eq!(errno, Errno::Io);
                    lost += 1;
                }
            }
        }
        lost_most = lost_most.max(lost);
    }
    assert!(read_only > 0 && lost_most < inos.len() / 2, "{read_only} read-only, {lost_most} lost at most");
}

/// A file renamed with `RENAME_WHITEOUT` leaves a character device 0, 0, also after a mount that reads the log.
#[test]
fn a_renamed_file_leaves_a_whiteout() {
    let mut m = Mounted::new(4096, 32, 1 << 20);
    let file = m.create(Ino::ROOT, "a").unwrap().ino;
    m.create(Ino::ROOT, "there").unwrap();
    let rename = |m: &mut Mounted, to: &str, mode| {
        m.disk
            .until(&mut m.fs, NOW, |fs| {
                fs.rename(NOW, &ROOT, Ino::ROOT, b"a", Ino::ROOT, to.as_bytes(), mode)
            })
            .unwrap()
    };
    assert_eq!(rename(&mut m, "there", RenameMode::NoReplaceWhiteout), Err(Errno::Exists));
    rename(&mut m, "there", RenameMode::Whiteout).unwrap();
    m.disk.sync(&mut m.fs, NOW).unwrap().unwrap();
    m.disk.kill();
    m.fs = Fs::mount(NOW, m.disk.blocks, MountOptions::default());
    m.disk.reach(&mut m.fs, NOW, &FsState::Ready).unwrap();
    assert_eq!(m.lookup(Ino::ROOT, "there").unwrap().ino, file);
    let left = m.lookup(Ino::ROOT, "a").unwrap();
    assert_eq!((left.kind, left.rdev, left.links), (FileKind::CharDevice, 0, 1));
    assert_eq!(m.audit(), Vec::<String>::new());
    // A whiteout is an ordinary file.
    rename(&mut m, "b", RenameMode::NoReplaceWhiteout).unwrap();
    assert_eq!(m.lookup(Ino::ROOT, "b").unwrap().ino, left.ino);
    assert_eq!(m.audit(), Vec::<String>::new());
}
