//! Checkpoints: the progress of the current one, and the place of the next.
//!
//! ```text
//!   idle ─► nodes ─► (flush) place ─► confirm ─► (flush) discards ─► idle
//!             └─ a batch failed: idle, wanted     └─ durable
//! ```
//! Each checkpoint has two copies: a damaged block costs none, as the one before it is no substitute. What that one needs may have been
//! overwritten since. The first one is written to both places, so that a place without a checkpoint is damage, or was torn.
//! On flash a place is the next pages of a flash block that has nothing else, with the superblock before each picture. When the block is
//! full, or a write to it fails, another one is taken; the old one is given back once a checkpoint is durable that does not lie in it. There the
//! two copies are one write.
//!
//! Invariant: segments that a checkpoint frees are discarded, and used, only after it is durable.

use crate::layout::{COPIES, Layout};
use crate::picture::Picture;
use crate::space::Head;
use std::collections::{BTreeMap, VecDeque};

/// Number of the first checkpoint of a file system.
const FIRST: u64 = 1;

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

/// Extent of a checkpoint that has become durable: all batches before `seq`, and these changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub seq: u64,
    pub changes: u64,
}

/// The checkpoint that is being made, and the places of checkpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoints {
    wanted: bool,
    stage: Stage,
    number: u64,
    /// The newest one that is durable.
    durable: u64,
    image: Vec<u8>,
    /// Its place in the order of batches, and the changes that it has.
    seq: u64,
    changes: u64,
    freed: VecDeque<u32>,
    discards: BTreeMap<u64, u32>,
    /// The flush under way confirms the picture.
    confirms: bool,
    /// Blocks in which the superblock is to be written. On flash every checkpoint begins with it.
    superblocks: Vec<u64>,
    /// On flash: the flash block of the checkpoints, and its next block.
    head: Option<Head>,
    /// Flash blocks with older checkpoints.
    old: Vec<u32>,
    /// Durable ones since the mount.
    count: u64,
}

impl Checkpoints {
    /// Requests a checkpoint as soon as the current one is durable. Returns whether none was
    /// requested before.
    pub fn want(&mut self) -> bool {
        !std::mem::replace(&mut self.wanted, true)
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Returns whether no checkpoint is requested or in progress.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.wanted
    }

    /// Returns whether one is being made.
    pub fn is_built(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Number of the newest.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Number of the newest that is durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Durable ones since the mount.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A mount has found the checkpoint of this number.
    pub fn found(&mut self, number: u64) {
        (self.number, self.durable) = (number, number);
    }

    /// A batch could not be written: a checkpoint whose nodes are being written is made anew.
    pub fn abandon(&mut self) {
        self.wanted = true;
        if matches!(self.stage, Stage::Nodes { .. }) {
            self.stage = Stage::Idle;
        }
    }

    // ---- places

    /// Has the superblock written to blocks.
    pub fn want_superblocks(&mut self, blocks: impl IntoIterator<Item = u64>) {
        self.superblocks.extend(blocks);
    }

    /// The next block to which the superblock is to be written.
    pub fn next_superblock(&mut self) -> Option<u64> {
        self.superblocks.pop()
    }

    /// Flash blocks have checkpoints of an earlier mount: they are kept until the first of this one is durable.
    pub fn keep_old(&mut self, segments: Vec<u32>) {
        self.old = segments;
    }

    /// Returns whether a flash block must be taken before a checkpoint can be made. Releases a full one.
    pub fn needs_segment(&mut self, layout: &Layout) -> bool {
        let full = |head: &mut Head| head.next + layout.places_blocks() > layout.segment_blocks;
        self.old.extend(self.head.take_if(full).map(|full| full.segment));
        self.head.is_none()
    }

    /// Takes a flash block for checkpoints.
    pub fn take_segment(&mut self, segment: u32) {
        self.head = Some(Head { segment, next: 0 });
    }

    // ---- steps

    /// A checkpoint is built, with these changes: its nodes are among the batches up to `through`, and it frees these segments.
    pub fn built(&mut self, picture: &Picture, image: Vec<u8>, changes: u64, freed: Vec<u32>) {
        self.image = image;
        self.number = picture.number;
        (self.seq, self.changes) = (picture.seq, changes);
        self.freed = freed.into();
        self.wanted = false;
        self.stage = Stage::Nodes { through: picture.seq - 1 };
    }

    /// The next write of a copy of the picture: its address and data. On flash both copies are one write, with the superblock before each.
    pub fn next_copy(
        &mut self,
        layout: &Layout,
        superblock: impl FnOnce() -> Vec<u8>,
    ) -> Option<(u64, Vec<u8>)> {
        let Stage::Place { sent, written } = self.stage else { return None };
        let copies = self.copies();
        if sent == copies {
            return None;
        }
        let Some(head) = self.head else {
            self.stage = Stage::Place { sent: sent + 1, written };
            let place = layout.place(self.number + sent / COPIES, sent % COPIES);
            return Some((place, self.image.clone()));
        };
        self.stage = Stage::Place { sent: copies, written: copies - 1 };
        let place = layout.address(head.segment, head.next);
        self.head = Some(Head { next: head.next + layout.places_blocks(), ..head });
        let mut data = superblock();
        data.extend_from_slice(&self.image);
        Some((place, data.repeat(COPIES as usize)))
    }

    /// Copies of the picture, in all places that it goes to.
    fn copies(&self) -> u64 {
        if self.number == FIRST { 2 * COPIES } else { COPIES }
    }

    /// A copy of the picture is written.
    pub fn copy_written(&mut self) {
        if let Stage::Place { sent, written } = self.stage {
            let written = written + 1;
            let are_all = written == self.copies();
            self.stage = if are_all { Stage::Confirm } else { Stage::Place { sent, written } };
        }
    }

    /// On flash the picture could not be written: the checkpoint is made anew, in another flash block.
    pub fn copy_failed(&mut self) {
        self.old.extend(self.head.take().map(|head| head.segment));
        self.freed.clear();
        (self.stage, self.wanted) = (Stage::Idle, true);
    }

    /// Returns whether a flush helps the checkpoint on, when all batches up to `through` are written. `places_written`: no superblock or
    /// sync record is being written.
    pub fn wants_flush(&mut self, through: u64, places_written: bool) -> bool {
        match self.stage {
            Stage::Nodes { through: needed } => needed <= through && places_written,
            Stage::Confirm => {
                self.confirms = true;
                true
            }
            _ => false,
        }
    }

    /// Handles the end of a flush that began when all batches up to `through` were written. Returns the checkpoint that it made durable.
    /// `discards`: the drive is told the segments that it frees.
    pub fn flush_ended(&mut self, through: u64, discards: bool) -> Option<Confirmed> {
        match self.stage {
            Stage::Nodes { through: needed } if needed <= through => {
                self.stage = Stage::Place { sent: 0, written: 0 };
            }
            Stage::Confirm if std::mem::take(&mut self.confirms) => {
                self.count += 1;
                self.durable = self.number;
                self.stage = Stage::Discards;
                self.freed.extend(std::mem::take(&mut self.old));
                if !discards {
                    self.freed.clear();
                }
                return Some(Confirmed { seq: self.seq, changes: self.changes });
            }
            _ => {}
        }
        None
    }

    /// The next segment to discard, by a job of this name.
    pub fn next_discard(&mut self, id: impl FnOnce() -> u64) -> Option<(u64, u32)> {
        if self.stage != Stage::Discards {
            return None;
        }
        let segment = self.freed.pop_front()?;
        let id = id();
        self.discards.insert(id, segment);
        Some((id, segment))
    }

    /// A job has ended. If it was a discard, returns its segment.
    pub fn discard_ended(&mut self, id: u64) -> Option<u32> {
        self.discards.remove(&id)
    }

    /// Ends the checkpoint if no discard is left. Returns whether it ended.
    pub fn end_if_discarded(&mut self) -> bool {
        let ends = self.freed.is_empty() && self.discards.is_empty();
        if ends {
            self.stage = Stage::Idle;
        }
        ends
    }
}
