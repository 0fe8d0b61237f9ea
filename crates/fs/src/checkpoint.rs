//! Checkpoints: the nodes of the tree go to the log, then a picture of everything else to one of two places.
//!
//! ```text
//!   build ─► nodes and all before them are written ─► flush ─► places ─► flush ─► durable (─► discards) ─► freed segments are usable
//! ```
//! Each checkpoint has two copies: a damaged block costs none, as the one before it is no substitute. What that one needs may have been
//! overwritten since.
//! On flash a place is the next pages of a flash block that has nothing else, with the superblock before each picture. When the block is
//! full, or a write to it fails, another one is taken; the old one is given back once a checkpoint is durable that does not lie in it. There the
//! two copies are one write.

use super::Fs;
use super::batch::{Batch, Owner};
use super::jobs::{Job, JobId};
use super::key::Fields;
use super::log::{
    CHECKPOINT_HEADER, COPIES, Head, Layout, RESERVE_BYTES, Segment, State, Stream, USAGE_BYTES,
};
use super::mount::Phase;
use super::node::Child;
use super::stop::Stop;
use super::types::{BLOCK_BYTES, Ino};
use std::collections::{BTreeMap, VecDeque};

const MAGIC: u32 = 0x504b_4350;
const BAD: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// Batches up to this one are being written.
    Nodes { through: u64 },
    /// The copies of its picture are being written: this many are with the drive, and this many written.
    Place { sent: u64, written: u64 },
    /// The picture is written.
    Confirm,
    /// Freed segments are being discarded.
    Discards,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Checkpointing {
    wanted: bool,
    stage: Stage,
    pub number: u64,
    /// The newest one that is durable.
    pub durable: u64,
    image: Vec<u8>,
    /// Its place in the order of batches, and the changes that it has.
    seq: u64,
    changes: u64,
    freed: VecDeque<u32>,
    discards: BTreeMap<u64, u32>,
    /// The flush under way confirms the picture.
    confirms: bool,
    /// Blocks in which the superblock is to be written. On flash every checkpoint begins with it.
    pub superblocks: Vec<u64>,
    /// On flash: the flash block of the checkpoints, and its next block.
    head: Option<Head>,
    /// Flash blocks with older checkpoints.
    pub old: Vec<u32>,
}

impl Checkpointing {
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.wanted
    }

    pub fn is_built(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// A batch of the checkpoint could not be written: it is made anew.
    pub fn abandon(&mut self) {
        self.wanted = true;
        if matches!(self.stage, Stage::Nodes { .. }) {
            self.stage = Stage::Idle;
        }
    }
}

/// Contents of a checkpoint besides the tree.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub number: u64,
    pub epoch: u64,
    pub seq: u64,
    pub root: Child,
    pub level: u8,
    pub node_count: u64,
    pub new_ino: Ino,
    pub allocated: u64,
    pub segments: Vec<Segment>,
    /// Where the log may have gone on.
    pub reserve: Vec<Head>,
}

impl Picture {
    fn encode(&self, file_system: u64, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        for word in [file_system, self.number, self.epoch, self.seq, self.root.at, self.root.crc.into()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let counts = [self.node_count, self.new_ino.0, self.allocated];
        for word in [[u64::from(self.level)].as_slice(), &counts].concat() {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.segments.len(), self.reserve.len()] {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
        }
        bytes.resize(CHECKPOINT_HEADER, 0);
        for segment in &self.segments {
            let bad = if segment.state == State::Bad { BAD } else { 0 };
            for word in [segment.live, segment.written | bad, segment.age_s] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        for head in &self.reserve {
            bytes.extend_from_slice(&head.segment.to_le_bytes());
            bytes.extend_from_slice(&head.next.to_le_bytes());
        }
        bytes[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes.resize(layout.picture_blocks() as usize * BLOCK_BYTES, 0);
        let crc = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The picture in a place, if there is a whole one.
    pub fn decode(bytes: &[u8], file_system: u64, layout: &Layout) -> Option<Picture> {
        let mut f = Fields(bytes);
        if f.u32()? != crc32c::crc32c(bytes.get(4..)?) || f.u32()? != MAGIC || f.u64()? != file_system {
            return None;
        }
        let (number, epoch, seq) = (f.u64()?, f.u64()?, f.u64()?);
        let root = Child { at: f.u64()?, crc: f.u64()? as u32 };
        let (level, node_count, new_ino, allocated) = (f.u64()? as u8, f.u64()?, Ino(f.u64()?), f.u64()?);
        let (segments, reserve) = (f.u32()?, f.u32()?);
        if segments != layout.segments {
            return None;
        }
        let mut f = Fields(bytes.get(CHECKPOINT_HEADER..)?);
        let segments = f.bytes(segments as usize * USAGE_BYTES)?.chunks_exact(USAGE_BYTES).map(|entry| {
            let mut f = Fields(entry);
            let (live, written, age_s) = (f.u32()?, f.u32()?, f.u32()?);
            let state = if written & BAD != 0 { State::Bad } else { State::Closed };
            Some(Segment { live, written: written & !BAD, age_s, state })
        });
        let segments = segments.collect::<Option<Vec<Segment>>>()?;
        let reserve = f.bytes(reserve as usize * RESERVE_BYTES)?.chunks_exact(RESERVE_BYTES).map(|entry| {
            let mut f = Fields(entry);
            Some(Head { segment: f.u32()?, next: f.u32()? }).filter(|head| head.segment < layout.segments)
        });
        let reserve = reserve.collect::<Option<Vec<Head>>>()?;
        Some(Picture { number, epoch, seq, root, level, node_count, new_ino, allocated, segments, reserve })
    }
}

impl Fs {
    /// Has a checkpoint made as soon as the one under way is durable.
    pub(super) fn want_checkpoint(&mut self) {
        self.progress |= !std::mem::replace(&mut self.checkpointing.wanted, true);
    }

    pub(super) fn checkpoint_if_due(&mut self) -> Result<(), Stop> {
        let hole = self.commits.hole && self.commits.has_syncs();
        if !(self.checkpointing.wanted || hole) || self.checkpointing.is_built() || self.cleaner.is_rescuing()
        {
            return Ok(());
        }
        if self.commits.bytes_under_way > self.options.memory_bytes / 2 {
            return Ok(());
        }
        if !self.has_checkpoint_place() {
            return Ok(());
        }
        self.commit()?;
        self.write_nodes()?;
        self.bury();
        let dead: Vec<u32> = self.log.dead().collect();
        self.log.refill();
        if !self.log.layout.backend.is_flash() {
            dead.iter().for_each(|&segment| self.log.reserve_dead(segment));
        }
        self.cleaner.checkpoint_is_built();
        let picture = self.picture();
        let checkpointing = &mut self.checkpointing;
        checkpointing.image = picture.encode(self.file_system, &self.log.layout);
        checkpointing.number += 1;
        (checkpointing.seq, checkpointing.changes) = (picture.seq, self.changes);
        checkpointing.freed = dead.into();
        checkpointing.wanted = false;
        self.progress = true;
        checkpointing.stage = Stage::Nodes { through: self.log.seq - 1 };
        Ok(())
    }

    /// Returns whether a checkpoint has a place to go to. On flash one is taken if need be.
    fn has_checkpoint_place(&mut self) -> bool {
        let layout = self.log.layout;
        if !layout.backend.is_flash() {
            return true;
        }
        let full = |head: &mut Head| head.next + layout.places_blocks() > layout.segment_blocks;
        if let Some(full) = self.checkpointing.head.take_if(full) {
            self.checkpointing.old.push(full.segment);
        }
        if self.checkpointing.head.is_none() {
            let taken = self.log.take_for_checkpoints();
            self.checkpointing.head = taken.map(|segment| Head { segment, next: 0 });
        }
        self.checkpointing.head.is_some()
    }

    fn write_nodes(&mut self) -> Result<(), Stop> {
        let mut closed: Vec<Batch> = Vec::new();
        let mut open: Option<Batch> = None;
        for dirty in self.catalog.dirty_nodes() {
            if let Some(batch) = open.take_if(|batch| !batch.has_space()) {
                self.close_batch(batch, &mut closed);
            }
            let mut batch = match open.take() {
                Some(batch) => batch,
                None => self.new_batch(Stream::New)?,
            };
            let address = batch.next_address();
            let block = self.catalog.settle(dirty, address, batch.seq);
            batch.push_copy(Owner::Node { low: dirty.low, level: dirty.level }, block);
            self.log.add_live(address, 1);
            self.counters.node_blocks += 1;
            open = Some(batch);
        }
        if let Some(batch) = open {
            self.close_batch(batch, &mut closed);
        }
        self.send_batches(closed);
        Ok(())
    }

    fn picture(&self) -> Picture {
        let (root, level) = self.catalog.root();
        let unopened = self.log.reserve.iter().map(|&segment| Head { segment, next: 0 });
        Picture {
            number: self.checkpointing.number + 1,
            epoch: self.log.epoch,
            seq: self.log.seq,
            root,
            level,
            node_count: self.catalog.node_count(),
            new_ino: self.new_ino,
            allocated: self.catalog.allocated(),
            segments: self.log.segments.clone(),
            reserve: self.log.heads.iter().flatten().copied().chain(unopened).collect(),
        }
    }

    /// The picture, the superblock or a discard.
    pub(super) fn next_place_write(&mut self) -> Option<Job> {
        if matches!(self.phase, Phase::Ready | Phase::Unmounting)
            && let Some(block) = self.checkpointing.superblocks.pop()
        {
            let superblock =
                super::superblock::superblock(&self.log.layout, self.file_system, self.data_checksums);
            return Some(self.write_place(block, superblock));
        }
        match self.checkpointing.stage {
            Stage::Place { sent, written } if sent < COPIES => Some(self.write_copy(sent, written)),
            Stage::Discards => {
                let segment = self.checkpointing.freed.pop_front()?;
                let id = self.new_id();
                self.checkpointing.discards.insert(id, segment);
                let layout = &self.log.layout;
                let block = layout.address(segment, 0);
                Some(Job::Discard { id: JobId(id), block, blocks: layout.segment_blocks })
            }
            _ => None,
        }
    }

    /// A copy of the picture; on flash both of them, with the superblock before each.
    fn write_copy(&mut self, sent: u64, written: u64) -> Job {
        let layout = self.log.layout;
        let Some(head) = self.checkpointing.head else {
            self.checkpointing.stage = Stage::Place { sent: sent + 1, written };
            let place = layout.place(self.checkpointing.number, sent);
            let image = self.checkpointing.image.clone();
            return self.write_place(place, image);
        };
        self.checkpointing.stage = Stage::Place { sent: COPIES, written: COPIES - 1 };
        let place = layout.address(head.segment, head.next);
        self.checkpointing.head = Some(Head { next: head.next + layout.places_blocks(), ..head });
        let mut data = super::superblock::superblock(&layout, self.file_system, self.data_checksums);
        data.extend_from_slice(&self.checkpointing.image);
        self.write_place(place, data.repeat(COPIES as usize))
    }

    /// Superblock or picture are written, or not.
    pub(super) fn place_written(&mut self, address: u64, written: bool) {
        if !written && self.log.layout.backend.is_flash() {
            // The checkpoint is made anew, in another flash block.
            let checkpointing = &mut self.checkpointing;
            checkpointing.old.extend(checkpointing.head.take().map(|head| head.segment));
            checkpointing.freed.clear();
            (checkpointing.stage, checkpointing.wanted) = (Stage::Idle, true);
            return;
        }
        if !written {
            return self.degrade();
        }
        if !self.log.layout.superblocks().any(|block| block == address)
            && let Stage::Place { sent, written } = self.checkpointing.stage
        {
            let written = written + 1;
            self.checkpointing.stage =
                if written == COPIES { Stage::Confirm } else { Stage::Place { sent, written } };
        }
    }

    /// Returns whether a flush helps the checkpoint on, when all batches up to `through` are written.
    pub(super) fn checkpoint_wants_flush(&mut self, through: u64) -> bool {
        match self.checkpointing.stage {
            Stage::Nodes { through: needed } => needed <= through && !self.commits.has_place_writes(),
            Stage::Confirm => {
                self.checkpointing.confirms = true;
                true
            }
            _ => false,
        }
    }

    pub(super) fn checkpoint_flushed(&mut self, through: u64) {
        match self.checkpointing.stage {
            Stage::Nodes { through: needed } if needed <= through => {
                self.checkpointing.stage = Stage::Place { sent: 0, written: 0 };
            }
            Stage::Confirm if std::mem::take(&mut self.checkpointing.confirms) => {
                self.counters.checkpoints += 1;
                self.checkpointing.durable = self.checkpointing.number;
                self.checkpointed(self.checkpointing.seq, self.checkpointing.changes);
                self.checkpointing.stage = Stage::Discards;
                let old = std::mem::take(&mut self.checkpointing.old);
                self.checkpointing.freed.extend(old);
                if !self.options.discard && !self.log.layout.backend.is_flash() {
                    self.checkpointing.freed.clear();
                }
                self.discards_ended();
            }
            _ => {}
        }
    }

    /// A discard ended; true: it was one.
    pub(super) fn discard_ended(&mut self, id: u64) -> bool {
        let Some(segment) = self.checkpointing.discards.remove(&id) else { return false };
        if self.log.layout.backend.is_flash() {
            self.log.given_back(segment);
        }
        self.discards_ended();
        true
    }

    fn discards_ended(&mut self) {
        if self.checkpointing.freed.is_empty() && self.checkpointing.discards.is_empty() {
            self.checkpointing.stage = Stage::Idle;
            self.log.usable = self.log.reserve.len();
        }
    }
}
