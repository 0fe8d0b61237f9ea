//! Format, mount, unmount.
//!
//! Where metadata cannot be read that the mount has to change, or to free something, it is read-only: what can be read is given, the rest is EIO.

use super::backend::{Backend, Content, FlashShape, FoundSegment, Library, NamesShape};
use super::batch::{Header, Identity, Owner, take_entry};
use super::checkpoint::{Checkpointing, Picture};
use super::clean::Cleaner;
use super::commit::Commits;
use super::jobs::Reads;
use super::key::{Extent, Fields, Inode, Key, Kind};
use super::log::{Head, Layout, Log, SEGMENTS_MIN, State};
use super::nameless::Nameless;
use super::pages::Pages;
use super::superblock::{read_superblock, superblock};
use super::tree::Tree;
use super::types::{BLOCK_BYTES, FileKind, Ino, Time};
use super::{Fs, FsCounters, FsState, Stop};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Least memory.
const MEMORY_BYTES_MIN: usize = 256 << 10;

/// Which segment the cleaner chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanerPolicy {
    /// The one whose cleaning frees most for longest: by what lives in it, and by its age.
    #[default]
    CostBenefit,
    /// The one in which least lives.
    Greedy,
}

/// How a file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// What it lies on.
    pub backend: Backend,
    /// Blocks of the drive, 4 KiB each. On flash: of the flash blocks that can be handed out.
    pub blocks: u64,
    /// Blocks of a segment; 0: 1 MiB, or more on a large drive. On flash a segment is a flash block.
    pub segment_blocks: u32,
    /// Every data block has a checksum, too.
    pub data_checksums: bool,
    /// A number that no other file system has: a random one.
    pub id: u64,
}

/// How a file system is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Memory for nodes and data, dirty ones too.
    pub memory_bytes: usize,
    /// Nothing is written.
    pub read_only: bool,
    /// The drive is told which segments are free.
    pub discard: bool,
    /// What is cleaned.
    pub cleaner: CleanerPolicy,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            memory_bytes: 64 << 20,
            read_only: false,
            discard: false,
            cleaner: CleanerPolicy::CostBenefit,
        }
    }
}

impl MountOptions {
    /// Blocks in memory.
    pub(super) fn frames(&self) -> usize {
        self.memory_bytes.max(MEMORY_BYTES_MIN) / BLOCK_BYTES
    }
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Mounting(Box<Mounting>),
    Ready,
    ReadOnly,
    Unmounting,
    Unmounted,
    Failed(String),
}

impl Phase {
    pub fn state(&self) -> FsState {
        match self {
            Phase::Mounting(_) => FsState::Mounting,
            Phase::Ready => FsState::Ready,
            Phase::ReadOnly => FsState::ReadOnly,
            Phase::Unmounting => FsState::ReadOnly,
            Phase::Unmounted => FsState::Unmounted,
            Phase::Failed(why) => FsState::Failed(why.clone()),
        }
    }

    pub fn degrade(&mut self) {
        *self = match self {
            Phase::Ready => Phase::ReadOnly,
            Phase::Unmounting => Phase::Unmounted,
            _ => return,
        };
    }
}

/// A mount that is under way.
#[derive(Clone, Debug)]
pub(super) struct Mounting {
    blocks: u64,
    step: MountStep,
}

#[derive(Clone, Debug)]
enum MountStep {
    Super,
    Places,
    /// On flash: pictures to be looked at, by flash block and number in it; and the newest whole one so far.
    Pictures {
        left: Vec<(u32, u32)>,
        newest: Option<Box<Picture>>,
    },
    /// Reads what the log has behind the checkpoint: the place in its list of segments, and the place in the segment.
    Scan {
        picture: Box<Picture>,
        at: usize,
        whole: bool,
        found: Vec<Found>,
    },
    Apply {
        entries: VecDeque<(Key, Option<Vec<u8>>)>,
    },
    Orphans {
        from: Key,
    },
    /// Reads the owners of the names.
    Owners {
        from: Key,
    },
}

/// A whole batch behind the checkpoint.
#[derive(Clone, Debug)]
struct Found {
    seq: u64,
    segment: u32,
    end: u32,
    last: bool,
    /// It has nothing but nodes of a checkpoint, which no commit needs.
    is_nodes: bool,
    entries: Vec<u8>,
}

/// Least blocks of a segment.
pub(super) const SEGMENT_BLOCKS_MIN: u32 = 8;
const SEGMENT_BLOCKS: u32 = 256;

impl FormatOptions {
    fn layout(&self) -> Result<Layout, String> {
        if let Backend::Function(shape) = self.backend {
            return self.layout_on_flash(shape);
        }
        let mut segment_blocks = self.segment_blocks;
        if segment_blocks == 0 {
            segment_blocks = SEGMENT_BLOCKS;
            while self.blocks / u64::from(segment_blocks) > super::log::SEGMENTS_MAX {
                segment_blocks *= 2;
            }
            while segment_blocks > 32 && self.blocks / u64::from(segment_blocks) < 4 * SEGMENTS_MIN {
                segment_blocks /= 2;
            }
        }
        if segment_blocks < SEGMENT_BLOCKS_MIN {
            return Err(format!(
                "segments of {segment_blocks} blocks are too small; {SEGMENT_BLOCKS_MIN} is the least"
            ));
        }
        let layout = Layout { backend: self.backend, ..Layout::new(self.blocks, segment_blocks) };
        if u64::from(layout.segments) < SEGMENTS_MIN {
            let least = (SEGMENTS_MIN + 2) * u64::from(segment_blocks) * BLOCK_BYTES as u64;
            return Err(format!(
                "{} KiB are too small for a file system with segments of {} KiB; {} KiB is the least",
                self.blocks * 4,
                segment_blocks * 4,
                least / 1024
            ));
        }
        Ok(layout)
    }

    fn layout_on_flash(&self, shape: FlashShape) -> Result<Layout, String> {
        let FlashShape { segment_blocks, .. } = shape;
        if segment_blocks < SEGMENT_BLOCKS_MIN.max(4 * shape.page_blocks) {
            return Err(format!(
                "flash blocks of {} KiB are too small; {} KiB and four pages is the least",
                segment_blocks * 4,
                SEGMENT_BLOCKS_MIN * 4
            ));
        }
        if u64::from(shape.flash_blocks()) > super::log::SEGMENTS_MAX {
            let most = super::log::SEGMENTS_MAX;
            return Err(format!("{} flash blocks are too many; {most} is the most", shape.flash_blocks()));
        }
        let free = (self.blocks / u64::from(segment_blocks)) as u32;
        let layout = Layout::on_flash(shape, free.min(shape.flash_blocks()));
        if u64::from(layout.capacity) < SEGMENTS_MIN + u64::from(layout.spare()) {
            return Err(format!(
                "{free} flash blocks are too few for a file system; {} is the least",
                SEGMENTS_MIN + u64::from(layout.spare())
            ));
        }
        if layout.place_blocks > segment_blocks {
            return Err(format!(
                "a checkpoint of {} KiB does not fit into a flash block of {} KiB",
                layout.place_blocks * 4,
                segment_blocks * 4
            ));
        }
        Ok(layout)
    }
}

impl Fs {
    fn new(options: MountOptions, layout: Layout, phase: Phase) -> Fs {
        Fs {
            options,
            phase,
            file_system: 0,
            data_checksums: false,
            now: Time(0),
            tree: Tree::new(0),
            pages: Pages::default(),
            log: Log::new(layout),
            reads: Reads::default(),
            commits: Commits::default(),
            checkpointing: Checkpointing::default(),
            library: Library::default(),
            nameless: Nameless::default(),
            cleaner: Cleaner::default(),
            done: false,
            progress: false,
            next_id: 0,
            new_ino: Ino(2),
            allocated: 0,
            changes: 0,
            changed: Vec::new(),
            changed_most: 4096,
            dirty_since: None,
            held: BTreeMap::new(),
            reaping: BTreeSet::new(),
            cutting: BTreeSet::new(),
            sums: Vec::new(),
            fresh: Vec::new(),
            counters: FsCounters::default(),
        }
    }

    /// A new file system, in use at once. It is on the drive when its first sync point is durable.
    ///
    /// The error is a sentence.
    pub fn format(now: Time, format: &FormatOptions, options: MountOptions) -> Result<Fs, String> {
        let layout = format.layout()?;
        let mut fs = Fs::new(options, layout, Phase::Ready);
        (fs.now, fs.file_system, fs.data_checksums) = (now, format.id, format.data_checksums);
        fs.tree = Tree::new(format.id);
        let root = Inode {
            kind: FileKind::Directory,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            parent: Ino::ROOT,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
        };
        fs.nameless.begin_use();
        fs.put_inode(Ino::ROOT, &root);
        fs.changes = 1;
        match layout.backend {
            Backend::Block | Backend::Nameless(_) => {
                let superblock = superblock(&layout, format.id, format.data_checksums);
                fs.checkpointing.superblock = Some(superblock);
            }
            Backend::Function(_) => fs.log.elsewhere = layout.capacity,
        }
        if layout.backend.names().is_some() {
            fs.nameless.reconcile();
        }
        fs.log.refill();
        fs.log.usable = fs.log.reserve.len();
        fs.commits.hole = true;
        fs.want_checkpoint();
        Ok(fs)
    }

    /// Mounts what is on a drive of so many blocks. Operations wait until it is ready: take jobs.
    pub fn mount(now: Time, blocks: u64, options: MountOptions) -> Fs {
        let mounting = Mounting { blocks, step: MountStep::Super };
        let layout = Layout::new(blocks.max(1), SEGMENT_BLOCKS);
        let mut fs = Fs::new(options, layout, Phase::Mounting(Box::new(mounting)));
        fs.now = now;
        fs
    }

    /// Mounts what is on a drive of nameless writes that has so many virtual blocks. Operations wait until it is ready: take jobs.
    pub fn mount_nameless(now: Time, blocks: u64, shape: NamesShape, options: MountOptions) -> Fs {
        let mut fs = Fs::mount(now, blocks, options);
        fs.log.layout.backend = Backend::Nameless(shape);
        fs
    }

    /// Mounts what is on flash: the blocks in `found` hold data, and so many more can be handed out. Operations wait until it is ready.
    pub fn mount_flash(
        now: Time,
        shape: FlashShape,
        found: &[FoundSegment],
        left: u32,
        options: MountOptions,
    ) -> Fs {
        let layout = Layout::on_flash(shape, shape.flash_blocks());
        let pictures = found.iter().filter(|found| found.content == Some(Content::Checkpoint));
        let newest = pictures.filter_map(|found| {
            let pictures = found.blocks / layout.place_blocks;
            (pictures > 0).then(|| (found.segment, pictures - 1))
        });
        let step = MountStep::Pictures { left: newest.collect(), newest: None };
        let mounting = Mounting { blocks: layout.blocks, step };
        let mut fs = Fs::new(options, layout, Phase::Mounting(Box::new(mounting)));
        fs.now = now;
        fs.log.elsewhere = left + found.len() as u32;
        fs.library.found = found.iter().map(|found| (found.segment, *found)).collect();
        fs
    }

    /// Ends the use: nothing is changed from now on, and all is made durable. Take jobs until the state says so. What is still to be freed
    /// is freed after the next mount.
    pub fn unmount(&mut self) {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Unmounting;
                self.cleaner.stop();
                self.forget_raw();
                self.want_checkpoint();
            }
            Phase::ReadOnly | Phase::Mounting(_) => self.phase = Phase::Unmounted,
            _ => {}
        }
    }

    pub(super) fn unmount_on(&mut self) {
        if !matches!(self.phase, Phase::Unmounting)
            || !self.checkpointing.is_idle()
            || !self.commits.is_idle()
            || !self.nameless.is_idle()
        {
            return;
        }
        let dirty = self.pages.dirty() + self.tree.dirty() + self.changed.len();
        if dirty == 0 && self.cleaner.is_at_rest() {
            self.phase = Phase::Unmounted;
        } else {
            self.want_checkpoint();
        }
    }

    /// A step of the mount.
    pub(super) fn mount_on(&mut self) {
        loop {
            let Phase::Mounting(mounting) = std::mem::replace(&mut self.phase, Phase::Ready) else { return };
            let result = self.mount_step(mounting);
            self.bury();
            match result {
                Ok(Some((mounting, goes_on))) => {
                    self.phase = Phase::Mounting(mounting);
                    if !goes_on {
                        return;
                    }
                }
                Ok(None) => return self.mounted(),
                Err(why) => {
                    self.phase = Phase::Failed(why);
                    return;
                }
            }
        }
    }

    fn mounted(&mut self) {
        self.counters = FsCounters::default();
        self.nameless.begin_use();
        self.commits = Commits::default();
        self.commits.hole = true;
        self.commits.set_durable(self.changes);
        if self.options.read_only {
            self.phase = Phase::ReadOnly;
        } else {
            self.phase = Phase::Ready;
            self.library.tells = self.log.layout.backend.is_flash();
            if self.has_names() {
                self.nameless.reconcile();
            }
            self.want_checkpoint();
        }
    }

    /// Looks at a picture on flash; none left: the newest is taken. `None`: it is being read.
    fn read_picture(
        &mut self,
        left: &mut Vec<(u32, u32)>,
        newest: &mut Option<Box<Picture>>,
    ) -> Result<Option<bool>, String> {
        let layout = self.log.layout;
        let Some(&(segment, number)) = left.last() else { return Ok(Some(false)) };
        let address = layout.address(segment, number * layout.place_blocks);
        let Some(bytes) = self.want_raw(address, layout.place_blocks) else { return Ok(None) };
        left.pop();
        let superblock = bytes.as_deref().and_then(|bytes| bytes.split_at_checked(BLOCK_BYTES));
        let found = superblock.map(|(first, rest)| {
            let found = read_superblock(first, layout.backend, layout.blocks)?;
            Ok::<_, String>(Picture::decode(rest, found.id, &found.layout).map(|picture| (found, picture)))
        });
        match found {
            Some(Ok(Some((_, older)))) if newest.as_ref().is_some_and(|n| n.number > older.number) => {}
            Some(Ok(Some((found, picture)))) => {
                self.log.layout.capacity = found.layout.capacity;
                (self.file_system, self.data_checksums) = (found.id, found.data_checksums);
                *newest = Some(Box::new(picture));
            }
            // The power failed while it was written: the one before it is whole.
            _ if number > 0 => left.push((segment, number - 1)),
            Some(Err(why)) if left.is_empty() && newest.is_none() => return Err(why),
            _ => {}
        }
        Ok(Some(true))
    }

    fn mount_step(&mut self, mut mounting: Box<Mounting>) -> Result<Option<(Box<Mounting>, bool)>, String> {
        mounting.step = match mounting.step {
            MountStep::Super => match self.want_raw(0, 1) {
                None => return Ok(Some((Box::new(Mounting { step: MountStep::Super, ..*mounting }), false))),
                Some(None) => {
                    return Err(
                        "its first block is missing or cannot be read; allowed: what fs format has made"
                            .to_string(),
                    );
                }
                Some(Some(bytes)) => {
                    let found = read_superblock(&bytes, self.log.layout.backend, mounting.blocks)?;
                    self.log = Log::new(found.layout);
                    (self.file_system, self.data_checksums) = (found.id, found.data_checksums);
                    MountStep::Places
                }
            },
            MountStep::Places => match self.read_places()? {
                Some(picture) => {
                    self.take_picture(&picture);
                    MountStep::Scan { picture, at: 0, whole: false, found: Vec::new() }
                }
                None => {
                    return Ok(Some((Box::new(Mounting { step: MountStep::Places, ..*mounting }), false)));
                }
            },
            MountStep::Pictures { mut left, mut newest } => {
                match self.read_picture(&mut left, &mut newest)? {
                    None => {
                        mounting.step = MountStep::Pictures { left, newest };
                        return Ok(Some((mounting, false)));
                    }
                    Some(true) => MountStep::Pictures { left, newest },
                    Some(false) => {
                        let Some(picture) = newest else {
                            let why =
                                "there is no Pellucid file system on it; `pellucid fs format` makes one";
                            return Err(why.to_string());
                        };
                        let (layout, elsewhere) = (self.log.layout, self.log.elsewhere);
                        self.log = Log::new(layout);
                        self.log.elsewhere = elsewhere;
                        self.take_picture(&picture);
                        MountStep::Scan { picture, at: 0, whole: false, found: Vec::new() }
                    }
                }
            }
            MountStep::Scan { mut picture, at, mut found, .. } if self.log.layout.backend.is_flash() => {
                let Some(head) = picture.reserve.get_mut(at) else {
                    let entries = self.replay(&picture, found);
                    mounting.step = MountStep::Apply { entries };
                    return Ok(Some((mounting, true)));
                };
                match self.scan_flash((picture.epoch, picture.seq), head, &mut found) {
                    Some(true) => MountStep::Scan { picture, at, whole: false, found },
                    Some(false) => MountStep::Scan { picture, at: at + 1, whole: false, found },
                    None => {
                        mounting.step = MountStep::Scan { picture, at, whole: false, found };
                        return Ok(Some((mounting, false)));
                    }
                }
            }
            MountStep::Scan { picture, at, whole, mut found } => {
                let Some(&head) = picture.reserve.get(at) else {
                    let entries = self.replay(&picture, found);
                    mounting.step = MountStep::Apply { entries };
                    return Ok(Some((mounting, true)));
                };
                match self.scan(&picture, head, whole, &mut found) {
                    Some(true) => MountStep::Scan { picture, at, whole: true, found },
                    Some(false) => MountStep::Scan { picture, at: at + 1, whole: false, found },
                    None => {
                        mounting.step = MountStep::Scan { picture, at, whole, found };
                        return Ok(Some((mounting, false)));
                    }
                }
            }
            MountStep::Apply { mut entries } => {
                while let Some((key, value)) = entries.front() {
                    match self.apply(*key, value.as_deref()) {
                        Ok(()) => {
                            entries.pop_front();
                        }
                        Err(Stop::Miss(miss)) if self.want_node(miss).is_ok() => {
                            let goes_on = key.kind() != Some(Kind::Moved) && self.tree.find(*key).is_ok();
                            mounting.step = MountStep::Apply { entries };
                            return Ok(Some((mounting, goes_on)));
                        }
                        Err(_) => {
                            // What it belongs to cannot be read, and is EIO. Nothing may be built on that.
                            self.options.read_only = true;
                            entries.pop_front();
                        }
                    }
                }
                self.changed.clear();
                MountStep::Orphans { from: Key::new(0, Kind::Orphan, 0) }
            }
            MountStep::Orphans { mut from } => {
                loop {
                    match self.orphan_from(from) {
                        Ok(Some(key)) => from = Key(key.0 + 1),
                        Ok(None) => break,
                        Err(Stop::Miss(miss)) if self.want_node(miss).is_ok() => {
                            mounting.step = MountStep::Orphans { from };
                            return Ok(Some((mounting, self.orphan_from(from).is_ok())));
                        }
                        Err(_) => {
                            self.options.read_only = true;
                            break;
                        }
                    }
                }
                if !self.has_names() {
                    return Ok(None);
                }
                MountStep::Owners { from: Key::MIN }
            }
            MountStep::Owners { mut from } => loop {
                match self.owner_from(from) {
                    Ok(Some(key)) => from = Key(key.0 + 1),
                    Ok(None) => return Ok(None),
                    Err(Stop::Miss(miss)) if self.want_node(miss).is_ok() => {
                        mounting.step = MountStep::Owners { from };
                        return Ok(Some((mounting, self.owner_from(from).is_ok())));
                    }
                    Err(_) => {
                        self.options.read_only = true;
                        return Ok(None);
                    }
                }
            },
        };
        Ok(Some((mounting, true)))
    }

    /// Notes the next file that blocks are to be freed of: all of them if it has no name, else those behind its end.
    fn orphan_from(&mut self, from: Key) -> Result<Option<Key>, Stop> {
        let Some((key, _)) = self.seek(from)?.filter(|(key, _)| key.is_beside(from)) else {
            return Ok(None);
        };
        let ino = Ino(key.offset());
        let inode = self.find(Key::inode(ino))?;
        match inode.and_then(|place| Inode::decode(self.tree.value(place))) {
            Some(inode) if inode.links > 0 => self.cutting.insert(ino),
            _ => self.reaping.insert(ino),
        };
        Ok(Some(key))
    }

    /// Notes the owner of the names of the next extent.
    fn owner_from(&mut self, from: Key) -> Result<Option<Key>, Stop> {
        let Some((key, place)) = self.seek(from)? else { return Ok(None) };
        if key.kind() == Some(Kind::Extent)
            && let Some(extent) = Extent::decode(key, self.tree.value(place))
        {
            self.own(Ino(key.object()), extent);
        }
        Ok(Some(key))
    }

    /// The newest checkpoint that is whole; `None`: it is being read.
    fn read_places(&mut self) -> Result<Option<Box<Picture>>, String> {
        let layout = self.log.layout;
        let mut read = [None, None];
        for (place, slot) in read.iter_mut().enumerate() {
            let address = layout.place(place as u8);
            *slot = self.want_raw(address, layout.place_blocks);
        }
        let [Some(first), Some(second)] = read else {
            for (place, slot) in read.into_iter().enumerate() {
                if let Some(data) = slot {
                    self.reads.raw.insert(layout.place(place as u8), data);
                }
            }
            return Ok(None);
        };
        let decode = |bytes: Vec<u8>| Picture::decode(&bytes, self.file_system, &layout);
        let pictures = [first, second].into_iter().flatten().filter_map(decode);
        match pictures.max_by_key(|picture| picture.number) {
            Some(picture) => Ok(Some(Box::new(picture))),
            None => Err("both of its checkpoints are damaged".to_string()),
        }
    }

    fn take_picture(&mut self, picture: &Picture) {
        self.tree = Tree::at(self.file_system, picture.root, picture.level, picture.node_count);
        self.checkpointing.number = picture.number;
        (self.new_ino, self.allocated) = (picture.new_ino, picture.allocated);
        self.log.segments.clone_from(&picture.segments);
        (self.log.epoch, self.log.seq) = (picture.epoch, picture.seq);
    }

    /// Reads a segment of the reserve: first one header, then everything if there is one. `None`: it is being read; true: all of it is
    /// wanted.
    fn scan(&mut self, picture: &Picture, head: Head, whole: bool, found: &mut Vec<Found>) -> Option<bool> {
        let each = self.log.layout.segment_blocks;
        if head.next >= each {
            return Some(false);
        }
        let address = self.log.layout.address(head.segment, head.next);
        let blocks = if whole { each - head.next } else { 1 };
        let Some(bytes) = self.want_raw(address, blocks)? else {
            return Some(false);
        };
        let identity = Identity { file_system: self.file_system, epoch: picture.epoch };
        let header_at = |at: usize| {
            let header =
                Header::decode(bytes.get(at..)?, address + (at / BLOCK_BYTES) as u64, self.file_system)?;
            (header.identity == identity && header.seq >= picture.seq).then_some(header)
        };
        if !whole {
            return Some(header_at(0).is_some());
        }
        let mut at = 0;
        while let Some(header) = header_at(at) {
            let end = at + header.blocks as usize * BLOCK_BYTES;
            let Some(blocks) = bytes.get(at + BLOCK_BYTES..end) else { break };
            let mut entries = Vec::new();
            if header.is_whole(blocks, &mut entries) {
                let end = head.next + (end / BLOCK_BYTES) as u32;
                let is_nodes = header.owners().all(|(_, owner)| matches!(owner, Owner::Node { .. }));
                let is_nodes = is_nodes && entries.is_empty();
                let (seq, segment, last) = (header.seq, head.segment, header.last);
                found.push(Found { seq, segment, end, last, is_nodes, entries });
            }
            at = end;
        }
        Some(false)
    }

    /// Reads the next batch of a flash block: batch by batch, as a read of more fails when the last page was torn. `None`: it is being
    /// read; true: there was one.
    fn scan_flash(
        &mut self,
        (epoch, seq): (u64, u64),
        head: &mut Head,
        found: &mut Vec<Found>,
    ) -> Option<bool> {
        let written = self.library.found.get(&head.segment).map_or(0, |found| found.blocks);
        if head.next >= written.min(self.log.layout.segment_blocks) {
            return Some(false);
        }
        let address = self.log.layout.address(head.segment, head.next);
        let Some(bytes) = self.want_raw(address, 1)? else { return Some(false) };
        let identity = Identity { file_system: self.file_system, epoch };
        let header = Header::decode(&bytes, address, self.file_system);
        let Some(header) = header.filter(|h| h.identity == identity && h.seq >= seq) else {
            return Some(false);
        };
        if head.next + header.blocks > written {
            return Some(false);
        }
        let mut entries = Vec::new();
        let rest = header.blocks - 1;
        if rest > 0 {
            let Some(data) = self.want_raw(address + 1, rest) else {
                // The header is looked at again with them.
                self.reads.raw.insert(address, Some(bytes));
                return None;
            };
            if !data.is_some_and(|data| header.is_whole(&data, &mut entries)) {
                return Some(false);
            }
        } else if !header.is_whole(&[], &mut entries) {
            return Some(false);
        }
        head.next += self.log.layout.padded(header.blocks);
        let is_nodes = header.owners().all(|(_, owner)| matches!(owner, Owner::Node { .. }));
        let is_nodes = is_nodes && entries.is_empty();
        let (segment, end) = (head.segment, head.next);
        found.push(Found { seq: header.seq, segment, end, last: header.last, is_nodes, entries });
        Some(true)
    }

    /// What the commits behind the checkpoint changed; and the log, so that it goes on behind them.
    fn replay(&mut self, picture: &Picture, mut found: Vec<Found>) -> VecDeque<(Key, Option<Vec<u8>>)> {
        found.sort_by_key(|batch| batch.seq);
        let (mut entries, mut commit, mut kept) = (VecDeque::new(), Vec::new(), Vec::new());
        for (expected, batch) in (picture.seq..).zip(&found) {
            if batch.seq != expected {
                break;
            }
            commit.extend_from_slice(&batch.entries);
            kept.push((batch.segment, batch.end));
            // Nodes at the end of the log were of a checkpoint that was not finished: their blocks are free for the next.
            if batch.last && !batch.is_nodes {
                let mut f = Fields(&commit);
                while let Some((key, value)) = take_entry(&mut f) {
                    entries.push_back((key, value.map(<[u8]>::to_vec)));
                }
                for (segment, end) in kept.drain(..) {
                    let segment = &mut self.log.segments[segment as usize];
                    segment.written = segment.written.max(end);
                    segment.state = State::Open;
                }
                commit.clear();
                self.changes += 1;
            }
        }
        self.log.seq = found.last().map_or(picture.seq, |batch| batch.seq + 1).max(picture.seq);
        self.log.epoch = picture.epoch + 1;
        if self.log.layout.backend.is_flash() {
            // Until the first checkpoint of this mount is durable, those of the last are kept.
            let old = self.library.found.values().filter(|f| f.content == Some(Content::Checkpoint));
            self.checkpointing.old = old.map(|found| found.segment).collect();
            for &segment in &self.checkpointing.old {
                self.log.segments[segment as usize].state = State::Checkpoint;
            }
        }
        self.log.adopt(&picture.reserve);
        let kept = self.log.kept().len() as u32;
        self.log.elsewhere = self.log.elsewhere.saturating_sub(kept);
        entries
    }

    fn apply(&mut self, key: Key, value: Option<&[u8]>) -> Result<(), Stop> {
        if key.kind() == Some(Kind::Moved) {
            return self.apply_move(key, value.unwrap_or_default());
        }
        self.touch(key, key)?;
        if key.kind() == Some(Kind::Inode) && value.is_some() {
            self.new_ino = self.new_ino.max(Ino(key.object() + 1));
        }
        match value {
            Some(value) => self.put(key, value),
            None => self.delete(key),
        }
        Ok(())
    }
}
