//! Mount and unmount.
//!
//! A mount is read-only if metadata that it has to change, or needs to free something, cannot be read: readable files are served, the rest is EIO.

use super::backend::{Backend, Content, FlashShape, FoundSegment, NamesShape};
use super::catalog::Catalog;
use super::checkpoint::Picture;
use super::commit::Commits;
use super::finding::Finding;
use super::key::{Extent, Inode, Key, Kind};
use super::log::{COPIES, Layout, Log, SEGMENT_BLOCKS};
use super::record::SyncRecord;
use super::replay::{Entries, Scan};
use super::stop::Stop;
use super::superblock::{Chosen, NotRead, Super, choose, copy_of, read_superblock};
use super::types::{BLOCK_BYTES, Ino, Time};
use super::{Fs, FsCounters, FsState};

/// Checkpoint and sync record that a mount begins with.
type Places = (Box<Picture>, Option<SyncRecord>);

/// Least memory.
const MEMORY_BYTES_MIN: usize = 256 << 10;

/// Rule by which the cleaner chooses a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanerPolicy {
    /// The one whose cleaning frees most for longest: by what lives in it, and by its age.
    #[default]
    CostBenefit,
    /// The one in which least lives.
    Greedy,
}

/// How a file system is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Memory for nodes and data, dirty ones too.
    pub memory_bytes: usize,
    /// True if nothing may be written.
    pub read_only: bool,
    /// Changes are taken although something that was durable is damaged: what is left of it becomes the state.
    pub repair: bool,
    /// The drive is told which segments are free.
    pub discard: bool,
    /// Policy of the cleaner.
    pub cleaner: CleanerPolicy,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            memory_bytes: 64 << 20,
            read_only: false,
            repair: false,
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

/// A copy of a picture on flash: in which flash block, the number of the picture in it, and of the copy.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    segment: u32,
    number: u32,
    copy: u32,
}

#[derive(Clone, Debug)]
enum MountStep {
    Super,
    /// Reads the copy of the superblock in the block `at`.
    Copy {
        first: Result<Super, NotRead>,
        at: u64,
    },
    Places,
    /// On flash: copies of pictures to be looked at, and the newest whole one so far.
    Pictures {
        left: Vec<Candidate>,
        newest: Option<Box<Picture>>,
    },
    /// Reads what the log has behind the checkpoint.
    Scan {
        picture: Box<Picture>,
        scan: Box<Scan>,
    },
    Apply {
        entries: Entries,
    },
    Orphans {
        from: Key,
    },
    /// Reads the owners of the names.
    Owners {
        from: Key,
    },
}

impl Fs {
    /// Mounts what is on a drive of this many blocks. Operations wait until it is ready: take jobs.
    pub fn mount(now: Time, blocks: u64, options: MountOptions) -> Fs {
        let mounting = Mounting { blocks, step: MountStep::Super };
        let layout = Layout::new(blocks.max(1), SEGMENT_BLOCKS);
        let mut fs = Fs::new(options, layout, Phase::Mounting(Box::new(mounting)));
        fs.now = now;
        fs
    }

    /// Mounts what is on a drive of nameless writes that has this many virtual blocks. Operations wait until it is ready: take jobs.
    pub fn mount_nameless(now: Time, blocks: u64, shape: NamesShape, options: MountOptions) -> Fs {
        let mut fs = Fs::mount(now, blocks, options);
        fs.log.layout.backend = Backend::Nameless(shape);
        fs
    }

    /// Mounts what is on flash: the blocks in `found` hold data, and this many more can be handed out. Operations wait until it is ready.
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
            let pictures = found.blocks.div_ceil(layout.places_blocks());
            (pictures > 0).then(|| Candidate { segment: found.segment, number: pictures - 1, copy: 0 })
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
                self.reads.forget_raw();
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
        let dirty = self.pages.dirty() + self.catalog.dirty() + self.catalog.changed();
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
        if self.options.read_only || !(self.damage.is_empty() || self.options.repair) {
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

    /// Looks at a copy of a picture on flash; none left: the newest is taken. `None`: it is being read.
    fn read_picture(
        &mut self,
        left: &mut Vec<Candidate>,
        newest: &mut Option<Box<Picture>>,
    ) -> Result<Option<bool>, String> {
        let layout = self.log.layout;
        let Some(&Candidate { segment, number, copy }) = left.last() else { return Ok(Some(false)) };
        let block = number * layout.places_blocks() + copy * layout.place_blocks;
        let Some(bytes) = self.want_raw(layout.address(segment, block), layout.place_blocks) else {
            return Ok(None);
        };
        left.pop();
        let superblock = bytes.as_deref().and_then(|bytes| bytes.split_at_checked(BLOCK_BYTES));
        let found = superblock.map(|(first, rest)| {
            let found = read_superblock(first, layout.backend, layout.blocks).map_err(NotRead::sentence)?;
            Ok::<_, String>(Picture::decode(rest, found.id, &found.layout).map(|picture| (found, picture)))
        });
        match found {
            Some(Ok(Some((_, older)))) if newest.as_ref().is_some_and(|n| n.number > older.number) => {}
            Some(Ok(Some((found, picture)))) => {
                self.log.layout.capacity = found.layout.capacity;
                (self.file_system, self.data_checksums) = (found.id, found.data_checksums);
                *newest = Some(Box::new(picture));
            }
            _ if copy + 1 < COPIES as u32 => {
                let what = "a copy of a checkpoint was torn by a power cut, or is damaged";
                self.notes.push(Finding(format!("flash block {segment}, block {block}: {what}")));
                left.push(Candidate { segment, number, copy: copy + 1 });
            }
            // The power failed while it was written: the one before it is whole.
            _ if number > 0 => left.push(Candidate { segment, number: number - 1, copy: 0 }),
            Some(Err(why)) if left.is_empty() && newest.is_none() => return Err(why),
            _ => {}
        }
        Ok(Some(true))
    }

    /// The superblock in a block that was read; `None`: it cannot be.
    fn superblock_of(&self, bytes: Option<Vec<u8>>, blocks: u64) -> Result<Super, NotRead> {
        let why = "its first block is missing or cannot be read; allowed: what fs format has made";
        let bytes = bytes.ok_or_else(|| NotRead::Damaged(why.into()))?;
        read_superblock(&bytes, self.log.layout.backend, blocks)
    }

    /// Takes the superblock, and writes the block of it anew that is damaged.
    fn take_superblock(&mut self, Chosen { found, mend }: Chosen) {
        self.log = Log::new(found.layout);
        (self.file_system, self.data_checksums) = (found.id, found.data_checksums);
        if let Some((block, finding)) = mend {
            self.notes.push(finding);
            self.checkpointing.superblocks.push(block);
        }
    }

    fn mount_step(&mut self, mut mounting: Box<Mounting>) -> Result<Option<(Box<Mounting>, bool)>, String> {
        mounting.step = match mounting.step {
            MountStep::Super => match self.want_raw(0, 1) {
                None => return Ok(Some((Box::new(Mounting { step: MountStep::Super, ..*mounting }), false))),
                Some(bytes) => {
                    let first = self.superblock_of(bytes, mounting.blocks);
                    match copy_of(&first, mounting.blocks) {
                        Some(at) => MountStep::Copy { first, at },
                        None => {
                            let found = first.map_err(NotRead::sentence)?;
                            self.take_superblock(Chosen { found, mend: None });
                            MountStep::Places
                        }
                    }
                }
            },
            MountStep::Copy { first, at } => match self.want_raw(at, 1) {
                None => {
                    mounting.step = MountStep::Copy { first, at };
                    return Ok(Some((mounting, false)));
                }
                Some(bytes) => {
                    let copy = self.superblock_of(bytes, mounting.blocks);
                    self.take_superblock(choose(first, at, copy, self.options.repair)?);
                    MountStep::Places
                }
            },
            MountStep::Places => match self.read_places()? {
                Some((picture, record)) => {
                    self.take_picture(&picture);
                    let scan = Box::new(Scan::new(&picture, record, false));
                    MountStep::Scan { picture, scan }
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
                            let why = "there is no Pellucid file system on it; `pellucid fs format` makes one and discards what is there";
                            return Err(why.to_string());
                        };
                        let (layout, elsewhere) = (self.log.layout, self.log.elsewhere);
                        self.log = Log::new(layout);
                        self.log.elsewhere = elsewhere;
                        self.take_picture(&picture);
                        let scan = Box::new(Scan::new(&picture, None, true));
                        MountStep::Scan { picture, scan }
                    }
                }
            }
            MountStep::Scan { picture, mut scan } => {
                if !self.scan_on(&picture, &mut scan) {
                    mounting.step = MountStep::Scan { picture, scan };
                    return Ok(Some((mounting, false)));
                }
                MountStep::Apply { entries: self.replay(&picture, *scan) }
            }
            MountStep::Apply { mut entries } => {
                while let Some((key, value)) = entries.front() {
                    match self.apply(*key, value.as_deref()) {
                        Ok(()) => {
                            entries.pop_front();
                        }
                        Err(Stop::Miss(miss)) if self.want_node(miss).is_ok() => {
                            let goes_on = key.kind() != Some(Kind::Moved) && self.catalog.find(*key).is_ok();
                            mounting.step = MountStep::Apply { entries };
                            return Ok(Some((mounting, goes_on)));
                        }
                        Err(_) => {
                            // What it belongs to cannot be read, and is EIO. Nothing may be built on that.
                            self.options.read_only = true;
                            self.cannot_apply();
                            entries.pop_front();
                        }
                    }
                }
                self.catalog.forget_changed();
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

    /// A change of the log belongs to a node that cannot be read.
    fn cannot_apply(&mut self) {
        let why = "a node of the tree is damaged or cannot be read: what was changed in it since the checkpoint is missing, too";
        if self.damage.last().is_none_or(|last| last.0 != why) {
            self.damage.push(Finding(why.to_string()));
        }
    }

    /// Notes the next file that blocks are to be freed of: all of them if it has no name, else those behind its end.
    fn orphan_from(&mut self, from: Key) -> Result<Option<Key>, Stop> {
        let Some((key, _)) = self.catalog.seek(from)?.filter(|(key, _)| key.is_beside(from)) else {
            return Ok(None);
        };
        let ino = Ino(key.offset());
        let inode = self.catalog.find(Key::inode(ino))?;
        match inode.and_then(|place| Inode::decode(self.catalog.value(place))) {
            Some(inode) if inode.links > 0 => self.orphans.add_cut(ino),
            _ => self.orphans.add_unnamed(ino),
        };
        Ok(Some(key))
    }

    /// Notes the owner of the names of the next extent.
    fn owner_from(&mut self, from: Key) -> Result<Option<Key>, Stop> {
        let Some((key, place)) = self.catalog.seek(from)? else { return Ok(None) };
        if key.kind() == Some(Kind::Extent)
            && let Some(extent) = Extent::decode(key, self.catalog.value(place))
        {
            self.own(Ino(key.object()), extent);
        }
        Ok(Some(key))
    }

    /// The newest checkpoint of which a copy is whole, and the sync record; `None`: they are being read.
    fn read_places(&mut self) -> Result<Option<Places>, String> {
        let layout = self.log.layout;
        let places = (0..2).flat_map(|number| (0..COPIES).map(move |copy| layout.place(number, copy)));
        let wanted =
            places.map(|place| (place, layout.place_blocks)).chain(layout.record().map(|at| (at, 1)));
        let wanted: Vec<(u64, u32)> = wanted.collect();
        let read: Vec<_> = wanted.iter().map(|&(at, blocks)| self.want_raw(at, blocks)).collect();
        if read.iter().any(Option::is_none) {
            for (&(at, _), read) in wanted.iter().zip(read) {
                if let Some(data) = read {
                    self.reads.keep_raw(at, data);
                }
            }
            return Ok(None);
        }
        let mut read = read.into_iter().map(Option::flatten);
        let copies = read.by_ref().take(2 * COPIES as usize).flatten();
        let decode = |bytes: Vec<u8>| Picture::decode(&bytes, self.file_system, &layout);
        let pictures: Vec<Picture> = copies.filter_map(decode).collect();
        let record = read.next();
        if let (Some(None), Some(at)) = (&record, layout.record()) {
            self.notes.push(Finding(format!("the sync record, block {at}, cannot be read")));
        }
        let was_read = matches!(record, Some(Some(_)));
        let record = record.flatten().and_then(|bytes| SyncRecord::decode(&bytes, self.file_system));
        let newest = pictures.iter().map(|picture| picture.number).max();
        let copies = pictures.iter().filter(|picture| Some(picture.number) == newest).count();
        let Some(picture) = pictures.into_iter().max_by_key(|picture| picture.number) else {
            return Err("all copies of its checkpoints are damaged or cannot be read".to_string());
        };
        if let (true, None, Some(at)) = (was_read, record, layout.record()) {
            // Each checkpoint is followed by a record, so it is missing only where power failed at once after the format.
            self.notes.push(Finding(format!(
                "the sync record, block {at}, is damaged, or was torn by a power cut: it does not say what was durable"
            )));
        }
        if copies < COPIES as usize {
            self.notes.push(Finding(format!(
                "a copy of checkpoint {} is damaged or cannot be read",
                picture.number
            )));
        }
        if let Some(record) = record.filter(|record| record.checkpoint > picture.number) {
            self.damage.push(Finding(format!(
                "checkpoint {} is damaged or cannot be read, both copies: this is checkpoint {}, without what was changed later; \
                 what was written over since cannot be read",
                record.checkpoint, picture.number
            )));
        }
        Ok(Some((Box::new(picture), record)))
    }

    fn take_picture(&mut self, picture: &Picture) {
        self.catalog =
            Catalog::at(self.file_system, picture.root, picture.level, picture.node_count, picture.allocated);
        (self.checkpointing.number, self.checkpointing.durable) = (picture.number, picture.number);
        self.new_ino = picture.new_ino;
        self.log.segments.clone_from(&picture.segments);
        (self.log.epoch, self.log.seq) = (picture.epoch, picture.seq);
    }
}
