//! Checkpoints: the progress of the current one, and the place of the next.
//!
//! ```text
//!   idle ─► nodes ─► (flush) place ─► confirm ─► (flush) discards ─► idle
//!             └─ a batch failed: idle, wanted     └─ durable
//! ```
//! Each checkpoint has two copies, so a single damaged block costs nothing. The previous checkpoint is no substitute: what it needs may have been
//! overwritten since. The first checkpoint is written to both places, so a place without a checkpoint is damaged, or was torn.
//! On flash, a place is the next pages of a flash block that holds nothing else, with the superblock before each picture. When the block is full, or
//! a write to it fails, another one is taken; the old one is given back once a checkpoint outside of it is durable. The two copies are one write
//! there.
//!
//! Invariant: segments freed by a checkpoint are discarded and reused only after it is durable.

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
    /// Batches up to this one, with the nodes, are being written.
    Nodes { through: u64 },
    /// The copies of its picture are being written: `sent` are with the drive, `written` are done.
    Place { sent: u64, written: u64 },
    /// The picture is written and must be flushed.
    Confirm,
    /// Freed segments are being discarded.
    Discards,
}

/// A checkpoint that has become durable: all batches before `seq`, and these changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub seq: u64,
    pub changes: u64,
}

/// The current checkpoint, and the places of checkpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoints {
    wanted: bool,
    stage: Stage,
    number: u64,
    /// The newest durable one.
    durable: u64,
    image: Vec<u8>,
    /// Its position in the order of batches, and the changes in it.
    seq: u64,
    changes: u64,
    freed: VecDeque<u32>,
    discards: BTreeMap<u64, u32>,
    /// True if the flush in flight confirms the picture.
    confirms: bool,
    /// Blocks to which the superblock is to be written. On flash, every checkpoint begins with it.
    superblocks: Vec<u64>,
    /// On flash: the flash block of the checkpoints, and its next free block.
    head: Option<Head>,
    /// Flash blocks with older checkpoints.
    old: Vec<u32>,
    /// Durable checkpoints since the mount.
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

    /// Reports whether a checkpoint is in progress.
    pub fn is_built(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Number of the newest checkpoint.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Number of the newest durable checkpoint.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Durable checkpoints since the mount.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sets the number of the checkpoint that a mount has found.
    pub fn found(&mut self, number: u64) {
        (self.number, self.durable) = (number, number);
    }

    /// Restarts a checkpoint whose nodes are being written, after a batch failed.
    pub fn abandon(&mut self) {
        self.wanted = true;
        if matches!(self.stage, Stage::Nodes { .. }) {
            self.stage = Stage::Idle;
        }
    }

    // ---- places

    /// Requests writes of the superblock to these blocks.
    pub fn want_superblocks(&mut self, blocks: impl IntoIterator<Item = u64>) {
        self.superblocks.extend(blocks);
    }

    /// The next block that needs the superblock.
    pub fn next_superblock(&mut self) -> Option<u64> {
        self.superblocks.pop()
    }

    /// Keeps flash blocks with checkpoints of an earlier mount until the first of this one is durable.
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

    /// Starts a checkpoint with these changes: its nodes are in the batches up to `through`, and it frees these segments.
    pub fn built(&mut self, picture: &Picture, image: Vec<u8>, changes: u64, freed: Vec<u32>) {
        self.image = image;
        self.number = picture.number;
        (self.seq, self.changes) = (picture.seq, changes);
        self.freed = freed.into();
        self.wanted = false;
        self.stage = Stage::Nodes { through: picture.seq - 1 };
    }

    /// The next copy of the picture to write: address and data. On flash, both copies are one write, each with the superblock before it.
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

    /// Number of writes of the picture.
    fn copies(&self) -> u64 {
        if self.number == FIRST { 2 * COPIES } else { COPIES }
    }

    /// Notes that a copy of the picture is written.
    pub fn copy_written(&mut self) {
        if let Stage::Place { sent, written } = self.stage {
            let written = written + 1;
            let are_all = written == self.copies();
            self.stage = if are_all { Stage::Confirm } else { Stage::Place { sent, written } };
        }
    }

    /// Restarts the checkpoint in another flash block, after a write of its picture failed.
    pub fn copy_failed(&mut self) {
        self.old.extend(self.head.take().map(|head| head.segment));
        self.freed.clear();
        (self.stage, self.wanted) = (Stage::Idle, true);
    }

    /// Reports whether a flush would advance the checkpoint, if all batches up to `through` are written. `places_written`: no superblock or sync
    /// record is being written.
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

    /// Handles the end of a flush that began when all batches up to `through` were written. Returns the checkpoint that it made durable. `discards`:
    /// freed segments are discarded first.
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

    /// The next segment to discard, with the id of its job.
    pub fn next_discard(&mut self, id: impl FnOnce() -> u64) -> Option<(u64, u32)> {
        if self.stage != Stage::Discards {
            return None;
        }
        let segment = self.freed.pop_front()?;
        let id = id();
        self.discards.insert(id, segment);
        Some((id, segment))
    }

    /// Handles the end of a job. If it was a discard, returns its segment.
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
