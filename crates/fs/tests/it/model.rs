//! A plain file system in memory, and random operations on both.

use super::disk::{Cut, Disk};
use pellucid_flash::{ChunkGeometry, Rng};
use pellucid_fs::{
    Audit, BLOCK_BYTES, Caller, Errno, FallocateMode, FileKind, FormatOptions, Fs, FsState, Ino,
    MountOptions, RenameMode, SetAttributes, Step, Time, XattrMode,
};
use std::collections::BTreeMap;
use std::rc::Rc;

const ROOT: Caller = Caller::ROOT;
const NAMES: [&str; 7] =
    ["a", "b", "c", "d", "e", "a longer name, so that nodes fill up sooner than with short ones", "g"];
const SIZE_MAX: u64 = 120_000;

#[derive(Clone)]
struct Node {
    kind: FileKind,
    mode: u16,
    links: u32,
    data: Rc<Vec<u8>>,
    /// Hash of the data, so that a digest need not read them after each step.
    data_hash: u64,
    entries: BTreeMap<String, Ino>,
    xattrs: BTreeMap<String, Vec<u8>>,
    parent: Ino,
}

#[derive(Clone)]
pub struct Model {
    nodes: BTreeMap<Ino, Node>,
}

/// One random operation.
#[derive(Clone, Debug)]
enum Op {
    Create(Ino, &'static str),
    Mkdir(Ino, &'static str),
    Symlink(Ino, &'static str, usize),
    Link(Ino, Ino, &'static str),
    Unlink(Ino, &'static str),
    Rmdir(Ino, &'static str),
    Rename(Ino, &'static str, Ino, &'static str, RenameMode),
    Write(Ino, u64, Vec<u8>),
    Truncate(Ino, u64),
    Fallocate(Ino, u64, u64, FallocateMode),
    Chmod(Ino, u16),
    SetXattr(Ino, &'static str, Vec<u8>),
    RemoveXattr(Ino, &'static str),
    Read(Ino, u64, usize),
}

impl Model {
    pub fn new() -> Model {
        let root = Node {
            kind: FileKind::Directory,
            mode: 0o755,
            links: 2,
            data: Rc::default(),
            data_hash: hash(&[]),
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            parent: Ino::ROOT,
        };
        Model { nodes: BTreeMap::from([(Ino::ROOT, root)]) }
    }

    fn pick(&self, rng: &mut Rng, kinds: &[FileKind]) -> Ino {
        let inos: Vec<Ino> =
            self.nodes.iter().filter(|(_, n)| kinds.contains(&n.kind)).map(|(&i, _)| i).collect();
        if inos.is_empty() { Ino::ROOT } else { inos[rng.below(inos.len() as u64) as usize] }
    }

    fn op(&self, rng: &mut Rng) -> Op {
        let name = |rng: &mut Rng| NAMES[rng.below(NAMES.len() as u64) as usize];
        let dir = |rng: &mut Rng| self.pick(rng, &[FileKind::Directory]);
        let file = |rng: &mut Rng| self.pick(rng, &[FileKind::File]);
        let any = |rng: &mut Rng| self.pick(rng, &[FileKind::File, FileKind::Directory]);
        match rng.below(100) {
            0..15 => Op::Create(dir(rng), name(rng)),
            15..20 => Op::Mkdir(dir(rng), name(rng)),
            20..23 => Op::Symlink(dir(rng), name(rng), 1 + rng.below(1500) as usize),
            23..27 => Op::Link(any(rng), dir(rng), name(rng)),
            27..35 => Op::Unlink(dir(rng), name(rng)),
            35..38 => Op::Rmdir(dir(rng), name(rng)),
            38..46 => {
                let modes = [
                    RenameMode::Replace,
                    RenameMode::Replace,
                    RenameMode::NoReplace,
                    RenameMode::Exchange,
                    RenameMode::Whiteout,
                    RenameMode::NoReplaceWhiteout,
                ];
                Op::Rename(dir(rng), name(rng), dir(rng), name(rng), modes[rng.below(6) as usize])
            }
            46..68 => {
                let length = if rng.chance(0.5) { rng.below(600) } else { rng.below(30_000) };
                let fill = rng.next_u64() as u8;
                Op::Write(file(rng), rng.below(SIZE_MAX - length), vec![fill; length as usize])
            }
            68..75 => Op::Truncate(file(rng), rng.below(SIZE_MAX)),
            75..82 => {
                let modes = [
                    FallocateMode::Allocate,
                    FallocateMode::KeepSize,
                    FallocateMode::PunchHole,
                    FallocateMode::ZeroRange,
                    FallocateMode::ZeroRangeKeepSize,
                ];
                let offset = rng.below(SIZE_MAX - 40_000);
                Op::Fallocate(file(rng), offset, 1 + rng.below(40_000), modes[rng.below(5) as usize])
            }
            82..85 => Op::Chmod(any(rng), rng.below(0o1000) as u16),
            85..90 => {
                let length = [3, 100, 1000, 3000][rng.below(4) as usize];
                Op::SetXattr(
                    any(rng),
                    ["user.x", "user.y"][rng.below(2) as usize],
                    vec![rng.next_u64() as u8; length],
                )
            }
            90..92 => Op::RemoveXattr(any(rng), ["user.x", "user.y"][rng.below(2) as usize]),
            _ => Op::Read(file(rng), rng.below(SIZE_MAX), rng.below(50_000) as usize),
        }
    }

    fn entry(&self, dir: Ino, name: &str) -> Option<Ino> {
        self.nodes[&dir].entries.get(name).copied()
    }

    fn node(&mut self, ino: Ino) -> &mut Node {
        self.nodes.get_mut(&ino).expect("the model knows the file")
    }

    fn unlinked(&mut self, ino: Ino) {
        let node = self.node(ino);
        node.links -= 1;
        if node.links == 0 || node.kind == FileKind::Directory {
            self.nodes.remove(&ino);
        }
    }

    fn is_within(&self, mut ino: Ino, above: Ino) -> bool {
        while ino != above {
            if ino == Ino::ROOT {
                return false;
            }
            ino = self.nodes[&ino].parent;
        }
        true
    }

    fn make(&mut self, dir: Ino, name: &str, ino: Ino, kind: FileKind, mode: u16, target: &[u8]) {
        let node = Node {
            kind,
            mode,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            data: Rc::new(target.to_vec()),
            data_hash: hash(target),
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            parent: dir,
        };
        self.nodes.insert(ino, node);
        self.node(dir).entries.insert(name.to_string(), ino);
        self.node(dir).links += u32::from(kind == FileKind::Directory);
    }

    fn remove(&mut self, dir: Ino, name: &str, is_rmdir: bool) -> Result<(), Errno> {
        let ino = self.entry(dir, name).ok_or(Errno::NoEntry)?;
        let is_dir = self.nodes[&ino].kind == FileKind::Directory;
        match (is_dir, is_rmdir) {
            (true, false) => return Err(Errno::IsDirectory),
            (false, true) => return Err(Errno::NotDirectory),
            (true, true) if !self.nodes[&ino].entries.is_empty() => return Err(Errno::NotEmpty),
            _ => {}
        }
        self.node(dir).entries.remove(name);
        self.node(dir).links -= u32::from(is_dir);
        self.unlinked(ino);
        Ok(())
    }

    fn rename(&mut self, from: (Ino, &str), to: (Ino, &str), mode: RenameMode) -> Result<(), Errno> {
        let ino = self.entry(from.0, from.1).ok_or(Errno::NoEntry)?;
        let other = self.entry(to.0, to.1);
        match (other, mode) {
            (Some(_), RenameMode::NoReplace | RenameMode::NoReplaceWhiteout) => return Err(Errno::Exists),
            (None, RenameMode::Exchange) => return Err(Errno::NoEntry),
            _ => {}
        }
        let is_dir = self.nodes[&ino].kind == FileKind::Directory;
        if is_dir && self.is_within(to.0, ino) {
            return Err(Errno::Invalid);
        }
        if other == Some(ino) {
            return Ok(());
        }
        let other_is_dir = other.is_some_and(|other| self.nodes[&other].kind == FileKind::Directory);
        if let (Some(other), RenameMode::Exchange) = (other, mode) {
            if other_is_dir && self.is_within(from.0, other) {
                return Err(Errno::Invalid);
            }
            self.node(from.0).links += u32::from(other_is_dir);
            self.node(from.0).links -= u32::from(is_dir);
            self.node(to.0).links += u32::from(is_dir);
            self.node(to.0).links -= u32::from(other_is_dir);
            self.node(from.0).entries.insert(from.1.to_string(), other);
            self.node(to.0).entries.insert(to.1.to_string(), ino);
            if is_dir {
                self.node(ino).parent = to.0;
            }
            if other_is_dir {
                self.node(other).parent = from.0;
            }
            return Ok(());
        }
        match (other, is_dir, other_is_dir) {
            (Some(_), true, false) => return Err(Errno::NotDirectory),
            (Some(_), false, true) => return Err(Errno::IsDirectory),
            (Some(other), true, true) if !self.nodes[&other].entries.is_empty() => {
                return Err(Errno::NotEmpty);
            }
            _ => {}
        }
        self.node(from.0).entries.remove(from.1);
        self.node(from.0).links -= u32::from(is_dir);
        self.node(to.0).entries.insert(to.1.to_string(), ino);
        self.node(to.0).links += u32::from(is_dir);
        self.node(to.0).links -= u32::from(other_is_dir);
        if is_dir {
            self.node(ino).parent = to.0;
        }
        if let Some(other) = other {
            self.unlinked(other);
        }
        Ok(())
    }

    fn change_data(&mut self, ino: Ino, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Errno> {
        let node = self.node(ino);
        match node.kind {
            FileKind::File => {
                change(Rc::make_mut(&mut node.data));
                node.data_hash = hash(&node.data);
                Ok(())
            }
            _ => Err(Errno::IsDirectory),
        }
    }

    /// A digest of everything visible.
    pub fn digest(&self) -> u64 {
        let mut lines = Vec::new();
        self.describe(Ino::ROOT, "", &mut lines);
        digest(lines)
    }

    fn describe(&self, ino: Ino, path: &str, lines: &mut Vec<String>) {
        let node = &self.nodes[&ino];
        let content = node.data_hash;
        let mut line = format!("{path} {ino:?} {:?} {:o} {} {content}", node.kind, node.mode, node.links);
        for (name, value) in &node.xattrs {
            line += &format!(" {name}={}", hash(value));
        }
        lines.push(line);
        for (name, &child) in &node.entries {
            self.describe(child, &format!("{path}/{name}"), lines);
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.chunks(8).map(word).fold(bytes.len() as u64, mix)
}

fn digest(mut lines: Vec<String>) -> u64 {
    lines.sort();
    hash(lines.join("\n").as_bytes())
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub blocks: u64,
    pub segment_blocks: u32,
    pub memory_bytes: usize,
    pub checksums: bool,
    pub discard: bool,
    /// Open segments on blocks.
    pub open: u32,
    /// On Prism's function level, of this flash.
    pub flash: Option<ChunkGeometry>,
    /// On nameless writes, of this flash.
    pub names: Option<ChunkGeometry>,
}

/// The real file system and the model.
pub struct Pair {
    pub fs: Fs,
    pub disk: Disk,
    pub model: Model,
    /// States since the newest that is known to be durable.
    states: Vec<(u64, Model)>,
    rng: Rng,
    tick: i64,
    shape: Shape,
    /// Operations that found no space.
    pub refused: u64,
    /// The newest operation; for messages.
    last: Option<Op>,
}

impl Pair {
    pub fn new(shape: Shape, seed: u64) -> Pair {
        let Shape { blocks, segment_blocks, checksums, .. } = shape;
        let mut disk = match (shape.flash, shape.names) {
            (Some(geometry), _) => Disk::on_flash(geometry, seed),
            (_, Some(geometry)) => Disk::on_names(geometry, seed),
            _ => Disk::new(blocks, seed),
        };
        let (backend, blocks) = (disk.backend(), disk.blocks);
        let format = FormatOptions { backend, blocks, segment_blocks, data_checksums: checksums, id: seed };
        let mut fs = Fs::format(Time(1), &format, Pair::options(&shape)).unwrap();
        disk.sync(&mut fs, Time(1)).unwrap().unwrap();
        let model = Model::new();
        let states = vec![(model.digest(), model.clone())];
        Pair {
            fs,
            disk,
            model,
            states,
            rng: Rng::stream(seed, "operations"),
            tick: 1,
            shape,
            refused: 0,
            last: None,
        }
    }

    /// Sets the number of open segments of the next mount.
    pub fn open(&mut self, segments: u32) {
        self.shape.open = segments;
    }

    fn options(shape: &Shape) -> MountOptions {
        let Shape { memory_bytes, discard, open, .. } = *shape;
        MountOptions { memory_bytes, discard, open_segments: open, ..MountOptions::default() }
    }

    fn now(&self) -> Time {
        Time(self.tick * 100_000_000)
    }

    /// Applies a random operation to both, or a sync.
    pub fn step(&mut self) -> Result<(), Cut> {
        self.tick += 1;
        if self.rng.chance(0.08) {
            let now = self.now();
            self.disk.sync(&mut self.fs, now)?.unwrap();
            self.states = vec![(self.model.digest(), self.model.clone())];
            return Ok(());
        }
        let op = self.model.op(&mut self.rng);
        // Formatted only in a message: an operation has up to 30,000 bytes.
        self.last = Some(op.clone());
        // The model is the newest state.
        let before = self.states.last().map(|(digest, _)| *digest);
        // A cut may come after the operation took effect, so its result is computed first.
        let mut after = self.model.clone();
        let real = self.real(&op)?;
        match real {
            Err(Errno::NoSpace) => self.refused += 1,
            real => {
                let made = real.as_ref().ok().copied().flatten();
                let model = apply(&mut after, &op, made);
                assert_eq!(real.map(|_| ()), model, "{}", self.last());
            }
        }
        self.model = after;
        let digest = self.model.digest();
        if Some(digest) != before {
            self.states.push((digest, self.model.clone()));
        }
        Ok(())
    }

    /// Start of the newest operation's description.
    fn last(&self) -> String {
        format!("{:?}", self.last).chars().take(200).collect()
    }

    fn real(&mut self, op: &Op) -> Result<Result<Option<Ino>, Errno>, Cut> {
        let now = self.now();
        let (fs, disk) = (&mut self.fs, &mut self.disk);
        let set = |set: SetAttributes| set;
        let outcome = match op {
            Op::Create(dir, name) => {
                let made = disk.until(fs, now, |fs| fs.create(now, &ROOT, *dir, name.as_bytes(), 0o644))?;
                if let Ok(made) = made {
                    fs.release(made.ino);
                }
                return Ok(made.map(|made| Some(made.ino)));
            }
            Op::Mkdir(dir, name) => {
                let made = disk.until(fs, now, |fs| fs.mkdir(now, &ROOT, *dir, name.as_bytes(), 0o755))?;
                return Ok(made.map(|made| Some(made.ino)));
            }
            Op::Symlink(dir, name, length) => {
                let target = vec![b't'; *length];
                let made =
                    disk.until(fs, now, |fs| fs.symlink(now, &ROOT, *dir, name.as_bytes(), &target))?;
                return Ok(made.map(|made| Some(made.ino)));
            }
            Op::Link(ino, dir, name) => {
                disk.until(fs, now, |fs| fs.link(now, &ROOT, *ino, *dir, name.as_bytes()))?.map(|_| ())
            }
            Op::Unlink(dir, name) => {
                disk.until(fs, now, |fs| fs.unlink(now, &ROOT, *dir, name.as_bytes()))?
            }
            Op::Rmdir(dir, name) => disk.until(fs, now, |fs| fs.rmdir(now, &ROOT, *dir, name.as_bytes()))?,
            Op::Rename(dir, name, new_dir, new_name, mode) => {
                let done = disk.until(fs, now, |fs| {
                    fs.rename(now, &ROOT, *dir, name.as_bytes(), *new_dir, new_name.as_bytes(), *mode)
                })?;
                if done.is_ok() && leaves_whiteout(*mode) {
                    let Ok(Step::Done(left)) = fs.lookup(now, &ROOT, *dir, name.as_bytes()) else {
                        panic!("what was just made is in memory");
                    };
                    return Ok(Ok((left.kind == FileKind::CharDevice).then_some(left.ino)));
                }
                done
            }
            Op::Write(ino, offset, data) => {
                disk.until(fs, now, |fs| fs.write(now, &ROOT, *ino, *offset, data))?
            }
            Op::Truncate(ino, size) => {
                let change = set(SetAttributes { size: Some(*size), ..SetAttributes::default() });
                disk.until(fs, now, |fs| fs.setattr(now, &ROOT, *ino, &change))?.map(|_| ())
            }
            Op::Fallocate(ino, offset, length, mode) => {
                disk.until(fs, now, |fs| fs.fallocate(now, &ROOT, *ino, *offset, *length, *mode))?
            }
            Op::Chmod(ino, mode) => {
                let change = set(SetAttributes { mode: Some(*mode), ..SetAttributes::default() });
                disk.until(fs, now, |fs| fs.setattr(now, &ROOT, *ino, &change))?.map(|_| ())
            }
            Op::SetXattr(ino, name, value) => disk
                .until(fs, now, |fs| fs.setxattr(now, &ROOT, *ino, name.as_bytes(), value, XattrMode::Set))?,
            Op::RemoveXattr(ino, name) => {
                disk.until(fs, now, |fs| fs.removexattr(now, &ROOT, *ino, name.as_bytes()))?
            }
            Op::Read(ino, offset, size) => {
                let mut out = Vec::new();
                let read = disk.until(fs, now, |fs| fs.read(now, *ino, *offset, *size, &mut out))?;
                if read.is_ok() {
                    let data = &self.model.nodes[ino].data;
                    let from = data.len().min(*offset as usize);
                    assert!(out == data[from..data.len().min(from + size)], "a read finds what was written");
                }
                read
            }
        };
        Ok(outcome.map(|()| None))
    }

    /// Cuts the power: the state after the mount is one of those since the last sync.
    pub fn cut_and_mount(&mut self) {
        self.disk.cut();
        self.mount();
    }

    pub fn mount(&mut self) {
        self.tick += 1;
        let now = self.now();
        self.fs = self.disk.mount(now, Pair::options(&self.shape));
        self.disk.reach(&mut self.fs, now, &FsState::Ready).unwrap();
        self.audit(true);
        let mut lines = Vec::new();
        self.show(Ino::ROOT, "", &mut lines);
        let found = digest(lines.clone());
        let state = self.states.iter().rev().find(|(digest, _)| *digest == found);
        match state {
            Some((_, model)) => self.model = model.clone(),
            None => {
                let mut differences = Vec::new();
                for (_, model) in &self.states {
                    let mut expected = Vec::new();
                    model.describe(Ino::ROOT, "", &mut expected);
                    let missing: Vec<_> = expected.iter().filter(|line| !lines.contains(line)).collect();
                    let extra: Vec<_> = lines.iter().filter(|line| !expected.contains(line)).collect();
                    differences.push(format!("missing {missing:?}, there instead {extra:?}"));
                }
                panic!(
                    "the mounted state is none of the {} since the last sync; {}; {differences:#?}",
                    self.states.len(),
                    self.last()
                );
            }
        }
        // A found state is durable only once synced, but nothing older may come back.
        let model = self.model.clone();
        self.states = vec![(found, model)];
    }

    pub fn unmount(&mut self) {
        let now = self.now();
        self.fs.unmount();
        self.disk.reach(&mut self.fs, now, &FsState::Unmounted).unwrap();
        self.states = vec![(self.model.digest(), self.model.clone())];
    }

    pub fn audit(&mut self, data: bool) {
        let now = self.now();
        // Inspecting would advance the background, so a fork is inspected.
        let (mut fs, mut disk) = (self.fs.clone(), self.disk.clone());
        fs.unmount();
        disk.reach(&mut fs, now, &FsState::Unmounted).unwrap();
        let options = MountOptions { read_only: true, ..Pair::options(&self.shape) };
        let mut fs = disk.mount(now, options);
        disk.reach(&mut fs, now, &FsState::ReadOnly).unwrap();
        let mut audit = Audit::new(data);
        disk.until(&mut fs, now, |fs| fs.audit(now, &mut audit)).unwrap().unwrap();
        assert_eq!(audit.findings(), &[]);
    }

    /// Everything that `statfs` promises can be written, rewritten and deleted; tested on a fork.
    pub fn audit_promise(&mut self) {
        let now = self.now();
        let (mut fs, mut disk) = (self.fs.clone(), self.disk.clone());
        let mut run = |operation: &mut dyn FnMut(&mut Fs) -> Result<Step<()>, Errno>| {
            disk.until(&mut fs, now, operation).unwrap()
        };
        let (mut ino, mut free) = (Ino::ROOT, 0);
        let made = run(&mut |fs| match fs.create(now, &ROOT, Ino::ROOT, b"ballast", 0o644)? {
            Step::Done(made) => {
                ino = made.ino;
                Ok(Step::Done(()))
            }
            Step::Wait => Ok(Step::Wait),
        });
        match made {
            Ok(()) => {}
            Err(errno) => return assert_eq!(errno, Errno::NoSpace),
        }
        run(&mut |fs| match fs.statfs(now)? {
            Step::Done(space) => {
                free = space.blocks_free;
                Ok(Step::Done(()))
            }
            Step::Wait => Ok(Step::Wait),
        })
        .unwrap();
        for turn in 0..2 {
            let mut block = 0;
            while block < free {
                let blocks = (free - block).min(32);
                let data = vec![turn; (blocks * BLOCK_BYTES as u64) as usize];
                let written = run(&mut |fs| fs.write(now, &ROOT, ino, block * BLOCK_BYTES as u64, &data));
                assert_eq!(written, Ok(()), "{free} blocks were promised, {block} written in turn {turn}");
                block += blocks;
            }
        }
        run(&mut |fs| fs.unlink(now, &ROOT, Ino::ROOT, b"ballast")).unwrap();
        fs.release(ino);
        disk.sync(&mut fs, now).unwrap().unwrap();
        fs.check();
    }

    /// Returns a digest of the real file system.
    fn seen(&mut self) -> u64 {
        let mut lines = Vec::new();
        self.show(Ino::ROOT, "", &mut lines);
        digest(lines)
    }

    fn show(&mut self, ino: Ino, path: &str, lines: &mut Vec<String>) {
        let now = self.now();
        let (fs, disk) = (&mut self.fs, &mut self.disk);
        let found = disk.until(fs, now, |fs| fs.getattr(now, ino)).unwrap().unwrap();
        let mut data = Vec::new();
        match found.kind {
            FileKind::File => {
                disk.until(fs, now, |fs| fs.read(now, ino, 0, 1 << 20, &mut data)).unwrap().unwrap();
                assert_eq!(data.len() as u64, found.size);
            }
            FileKind::Symlink => data = disk.until(fs, now, |fs| fs.readlink(now, ino)).unwrap().unwrap(),
            _ => {}
        }
        let content = hash(&data);
        let mut line = format!("{path} {ino:?} {:?} {:o} {} {content}", found.kind, found.mode, found.links);
        let names = disk.until(fs, now, |fs| fs.listxattr(now, &ROOT, ino)).unwrap().unwrap();
        let mut names: Vec<&[u8]> = names.split(|&b| b == 0).filter(|name| !name.is_empty()).collect();
        names.sort();
        for name in names {
            let value = disk.until(fs, now, |fs| fs.getxattr(now, &ROOT, ino, name)).unwrap().unwrap();
            line += &format!(" {}={}", String::from_utf8_lossy(name), hash(&value));
        }
        lines.push(line);
        if found.kind == FileKind::Directory {
            let (mut cookie, mut entries) = (2, Vec::new());
            loop {
                let (fs, disk) = (&mut self.fs, &mut self.disk);
                disk.until(fs, now, |fs| fs.readdir(now, ino, cookie, 5, false, &mut entries))
                    .unwrap()
                    .unwrap();
                let Some(last) = entries.last() else { break };
                cookie = last.cookie;
                for entry in std::mem::take(&mut entries) {
                    let name = String::from_utf8(entry.name.to_vec()).unwrap();
                    self.show(entry.ino, &format!("{path}/{name}"), lines);
                }
            }
        }
    }

    pub fn compare(&mut self) {
        assert_eq!(self.seen(), self.model.digest(), "both are the same");
    }
}

fn leaves_whiteout(mode: RenameMode) -> bool {
    matches!(mode, RenameMode::Whiteout | RenameMode::NoReplaceWhiteout)
}

/// Applies an operation to the model. `made`: the number of a new file.
fn apply(model: &mut Model, op: &Op, made: Option<Ino>) -> Result<(), Errno> {
    let new = |model: &mut Model, dir: Ino, name: &str, kind, mode, target: &[u8]| {
        if model.entry(dir, name).is_some() {
            return Err(Errno::Exists);
        }
        match made {
            Some(ino) => {
                assert!(!model.nodes.contains_key(&ino), "numbers are given once");
                model.make(dir, name, ino, kind, mode, target);
                Ok(())
            }
            None => Ok(()),
        }
    };
    match op {
        Op::Create(dir, name) => new(model, *dir, name, FileKind::File, 0o644, &[]),
        Op::Mkdir(dir, name) => new(model, *dir, name, FileKind::Directory, 0o755, &[]),
        Op::Symlink(dir, name, length) => {
            new(model, *dir, name, FileKind::Symlink, 0o777, &vec![b't'; *length])
        }
        Op::Link(ino, dir, name) => {
            if model.entry(*dir, name).is_some() {
                return Err(Errno::Exists);
            }
            if model.nodes[ino].kind == FileKind::Directory {
                return Err(Errno::NotPermitted);
            }
            model.node(*ino).links += 1;
            model.node(*dir).entries.insert(name.to_string(), *ino);
            Ok(())
        }
        Op::Unlink(dir, name) => model.remove(*dir, name, false),
        Op::Rmdir(dir, name) => model.remove(*dir, name, true),
        Op::Rename(dir, name, new_dir, new_name, mode) => {
            model.rename((*dir, name), (*new_dir, new_name), *mode)?;
            if let Some(ino) = made.filter(|ino| !model.nodes.contains_key(ino)) {
                model.make(*dir, name, ino, FileKind::CharDevice, 0, &[]);
            }
            Ok(())
        }
        Op::Write(ino, offset, data) => model.change_data(*ino, |file| {
            if !data.is_empty() {
                let end = *offset as usize + data.len();
                file.resize(file.len().max(end), 0);
                file[*offset as usize..end].copy_from_slice(data);
            }
        }),
        Op::Truncate(ino, size) => model.change_data(*ino, |file| file.resize(*size as usize, 0)),
        Op::Fallocate(ino, offset, length, mode) => {
            let (from, to) = (*offset as usize, (offset + length) as usize);
            let result = model.change_data(*ino, |file| {
                use FallocateMode::{Allocate, PunchHole, ZeroRange, ZeroRangeKeepSize};
                if matches!(mode, Allocate | ZeroRange) {
                    file.resize(file.len().max(to), 0);
                }
                if matches!(mode, PunchHole | ZeroRange | ZeroRangeKeepSize) {
                    let length = file.len();
                    file[from.min(length)..to.min(length)].fill(0);
                }
            });
            result.map_err(|_| Errno::NotSupported)
        }
        Op::Chmod(ino, mode) => {
            model.node(*ino).mode = *mode;
            Ok(())
        }
        Op::SetXattr(ino, name, value) => {
            model.node(*ino).xattrs.insert(name.to_string(), value.clone());
            Ok(())
        }
        Op::RemoveXattr(ino, name) => model.node(*ino).xattrs.remove(*name).map(|_| ()).ok_or(Errno::NoData),
        Op::Read(ino, ..) => match model.nodes[ino].kind {
            FileKind::File => Ok(()),
            _ => Err(Errno::IsDirectory),
        },
    }
}
