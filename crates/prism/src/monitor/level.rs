//! Global wear levelling: two LUNs change places, block by block, while they are used (after FlashBlox, Huang et al., FAST 2017).
//!
//! ```text
//!   for each block      LUN a: hot             LUN b: cold
//!     drain, look       [ A ]  [spare]         [ B ]  [spare]       writes to A and B wait, reads go on
//!     copy              [ A ]  [  B  ]         [ B ]  [  A  ]
//!     record            [   ]  [  B  ]         [   ]  [  A  ]       from here on the owners have the new places; writes go on
//!     clean             [spare][  B  ]         [spare][  A  ]       when reads of the old places have ended
//! ```
//! A swap begins when the mean erase count of a LUN exceeds that of another one by a limit, preferably one of its own channel. Only the LUN that
//! has just been erased can begin a swap, so a worn LUN at rest does not. A free LUN takes data and gives none. One record moves a block, so at
//! every moment each block has one place; the next start erases data that a power cut left in a spare. A block that cannot be moved now waits
//! until the next erase: a block that a failed write has closed, because its copy would look different; a block whose last sectors the drive
//! holds back or cannot read; and every block while no spare is left.

use super::route::What;
use super::state::Swap;
use super::{Commit, Monitor};
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Lba, Opcode, Status, Vector,
};
use pellucid_host::ChunkView;
use std::collections::BTreeSet;

/// Sectors that are copied at a time, about.
const COPY_SECTORS: u32 = 64;

/// Step of moving a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// Commands from before its writes were held are waited for.
    Drain,
    /// The drive is asked for its state in both LUNs.
    Look,
    /// Copies the block out of one LUN of the two; `done` sectors are copied.
    Copy { side: usize, done: u32 },
    /// The record is on its way.
    Record,
    /// Reads of the old places are waited for.
    DrainReads,
    /// Chunks are erased.
    Clean,
}

/// Where the two LUNs are.
#[derive(Clone, Debug, Default)]
pub(super) struct Leveller {
    /// Swaps that have ended.
    pub swaps: u64,
    /// The state is being read.
    pub paused: bool,
    /// A LUN that was erased, and may be too worn.
    due: Option<u32>,
    step: Step,
    block: u32,
    /// By side: what the drive says of the block, and the chunk of the other LUN that takes it, if an application has it.
    infos: [ChunkInfo; 2],
    targets: [Option<u32>; 2],
    /// By side: application and its number of the block.
    frozen: [Option<(u16, u32)>; 2],
    /// Commands that have not ended.
    left: u32,
    /// Chunks of the drive that are filled, or are to be erased.
    taken: Vec<u32>,
    postponed: BTreeSet<u32>,
}

impl Leveller {
    /// Returns whether a chunk of the drive is being filled, or is to be erased.
    pub fn uses(&self, chunk: u32) -> bool {
        self.taken.contains(&chunk)
    }

    /// Returns whether a command has to wait until a block that it changes has been moved.
    #[inline]
    pub fn holds(&self, app: u16, view: &ChunkView, command: &Command) -> bool {
        self.frozen != [None; 2] && self.changes_frozen(app, view, command)
    }

    fn changes_frozen(&self, app: u16, view: &ChunkView, command: &Command) -> bool {
        let own = view.geometry();
        let frozen = |lba: &Lba| {
            let block = own.address(*lba).map(|address| own.chunk_number(address));
            block.is_some_and(|block| self.frozen.contains(&Some((app, block))))
        };
        let listed = command.vector.as_ref().filter(|vector| !vector.addresses.is_empty());
        match (command.opcode, listed) {
            (Opcode::Chunk(ChunkOp::Copy), Some(vector)) => vector.destinations.iter().any(frozen),
            (Opcode::Write | Opcode::Chunk(ChunkOp::Reset), Some(vector)) => {
                vector.addresses.iter().any(frozen)
            }
            (Opcode::Write | Opcode::Chunk(ChunkOp::Reset) | Opcode::Zone(_), None) => frozen(&command.lba),
            _ => false,
        }
    }

    /// A block of a LUN was erased for its application; `often`: as often, all in all, as the LUN has blocks, or a multiple.
    pub fn note_erase(&mut self, lun: u32, often: bool) {
        if often {
            self.due = Some(lun);
        }
        self.postponed.clear();
    }

    /// The power was cut.
    pub fn forget(&mut self) {
        *self = Leveller { swaps: self.swaps, ..Leveller::default() };
    }
}

impl<D: Drive> Monitor<D> {
    /// Goes on with what is under way, or begins it.
    pub(super) fn level(&mut self) {
        if self.leveller.paused || self.records.dead {
            return;
        }
        match self.leveller.step {
            Step::Idle => self.next_block(),
            Step::Drain if self.draining == 0 => self.look(),
            Step::DrainReads if self.draining == 0 => self.erase_taken(),
            _ => {}
        }
    }

    fn next_block(&mut self) {
        if self.state.swap.is_none() {
            let Some(lun) = self.leveller.due.take() else { return };
            let Some(cold) = self.partner(lun) else { return };
            self.state.swap = Some(Swap { luns: [lun, cold], moved: vec![false; self.state.shown as usize] });
            self.leveller.postponed.clear();
            self.changed();
        }
        let Some(swap) = &self.state.swap else { return };
        let luns = swap.luns;
        let owners = luns.map(|lun| self.state.owner(lun));
        let mut left = (0..).zip(&swap.moved).filter(|(_, moved)| !**moved).peekable();
        if left.peek().is_none() || owners == [None; 2] {
            return self.end_swap();
        }
        let Some((block, _)) = left.find(|(block, _)| !self.leveller.postponed.contains(block)) else {
            return;
        };
        self.leveller.block = block;
        self.leveller.frozen =
            owners.map(|owner| owner.map(|(app, at)| (app, at * self.state.shown + block)));
        self.leveller.step = Step::Drain;
        self.drain();
        self.level();
    }

    /// The LUN that changes places with one that has been erased much.
    fn partner(&self, lun: u32) -> Option<u32> {
        let gap = self.config.wear_gap;
        let has_spare = |lun: u32| self.spares(lun).next().is_some();
        if gap == 0 || self.state.owner(lun).is_none() || self.reserved.contains(&lun) || !has_spare(lun) {
            return None;
        }
        let most = self.state.average_erases(lun) - f64::from(gap);
        let group = |lun: u32| lun / self.geometry.units;
        let cold = (0..self.geometry.parallel_units()).filter(|&other| {
            other != lun
                && !self.state.luns[other as usize].shown.is_empty()
                && self.state.average_erases(other) < most
                && !self.reserved.contains(&other)
                && has_spare(other)
        });
        cold.min_by_key(|&other| (group(other) != group(lun), self.state.luns[other as usize].erases))
    }

    /// Both LUNs have changed places.
    fn end_swap(&mut self) {
        let Some(Swap { luns: [a, b], .. }) = self.state.swap.take() else { return };
        for lun in [a, b] {
            if let Some((app, _)) = self.state.owner(lun)
                && let Some(Some(opened)) = self.opened.get_mut(usize::from(app))
            {
                opened.statistics.swapped_luns += 1;
            }
        }
        for lun in self.state.applications.iter_mut().flatten().flat_map(|app| &mut app.luns) {
            *lun = match *lun {
                lun if lun == a => b,
                lun if lun == b => a,
                lun => lun,
            };
        }
        self.leveller.swaps += 1;
        self.changed();
    }

    fn luns(&self) -> [u32; 2] {
        self.state.swap.as_ref().expect("two LUNs that change places").luns
    }

    /// The drive's number of a chunk of a LUN.
    fn number(&self, lun: u32, chunk: u32) -> u32 {
        lun * self.geometry.chunks + chunk
    }

    /// Where the block lies in a LUN of the two.
    fn source(&self, side: usize) -> u32 {
        let lun = self.luns()[side];
        self.number(lun, self.state.luns[lun as usize].shown[self.leveller.block as usize])
    }

    fn look(&mut self) {
        self.leveller.step = Step::Look;
        self.leveller.left = 2;
        for side in [0, 1] {
            let look = self.own(Opcode::Report, self.source(side), 0, 1, Vec::new());
            self.send(What::Level(side as u32), look);
        }
    }

    /// A command of the leveller has ended; `of`: the side that was looked at, or the chunk that was erased.
    pub(super) fn level_ended(&mut self, of: u32, completion: Completion) {
        match self.leveller.step {
            Step::Look => {
                let info = completion.data.first_chunk().and_then(ChunkInfo::decode);
                self.leveller.infos[of as usize] =
                    info.unwrap_or(ChunkInfo { state: ChunkState::Offline, ..ChunkInfo::default() });
                self.leveller.left -= 1;
                if self.leveller.left == 0 {
                    self.choose_targets();
                }
            }
            Step::Copy { side, done } => self.copied(side, done, completion),
            Step::Clean => self.erased(of, completion.status),
            _ => {}
        }
    }

    /// Returns whether a block can be copied as it is.
    fn is_movable(&self, info: &ChunkInfo) -> bool {
        match info.state {
            ChunkState::Free | ChunkState::Offline => true,
            ChunkState::Open => self.geometry.cached_sectors == 0,
            ChunkState::Closed => info.write_pointer == self.geometry.chunk_sectors,
        }
    }

    fn choose_targets(&mut self) {
        let luns = self.luns();
        self.leveller.targets = [None; 2];
        for side in [0, 1] {
            if self.state.owner(luns[side]).is_none() {
                continue;
            }
            let other = luns[1 - side];
            let spare = self.spares(other).next().map(|chunk| self.number(other, chunk));
            let Some(spare) = spare.filter(|_| self.is_movable(&self.leveller.infos[side])) else {
                return self.postpone();
            };
            self.leveller.targets[side] = Some(spare);
            self.leveller.taken.push(spare);
        }
        self.copy(0, 0, Vec::new(), None);
    }

    /// Reads the next sectors of a block; `buffer` and `vector` are used again.
    fn copy(&mut self, side: usize, done: u32, mut buffer: Vec<u8>, vector: Option<Box<Vector>>) {
        let info = self.leveller.infos[side];
        let written = if info.state == ChunkState::Offline { 0 } else { info.write_pointer };
        if self.leveller.targets[side].is_none() || done == written {
            return match side {
                0 => self.copy(1, 0, buffer, vector),
                _ => self.record_move(),
            };
        }
        self.leveller.step = Step::Copy { side, done };
        let write = self.geometry.write_min_sectors;
        let sectors = ((COPY_SECTORS / write).max(1) * write).min(written - done);
        buffer.resize(sectors as usize * self.drive.image_bytes(), 0);
        let mut vector = vector.unwrap_or_default();
        vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
        let read = self.own(Opcode::Read, self.source(side), done, sectors, buffer);
        self.send(What::Level(0), Command { vector: Some(vector), ..read });
    }

    /// Sectors of a block have been read, or written.
    fn copied(&mut self, side: usize, done: u32, completion: Completion) {
        let sectors = (completion.data.len() / self.drive.image_bytes()) as u32;
        let target = self.leveller.targets[side].expect("it is copied");
        match (completion.opcode, completion.status) {
            (Opcode::Read, Status::Success | Status::HighEcc) => {
                let write = self.own(Opcode::Write, target, done, sectors, completion.data);
                self.send(What::Level(0), Command { vector: completion.vector, ..write });
            }
            (Opcode::Write, Status::Success) => {
                self.copy(side, done + sectors, completion.data, completion.vector);
            }
            (Opcode::Write, Status::ChunkWriteFailed | Status::ChunkClosedEarly | Status::WriteFault) => {
                // Another spare, if there is one.
                self.put_aside(target / self.geometry.chunks, target % self.geometry.chunks);
                self.changed();
                self.leveller.taken.retain(|&chunk| chunk != target);
                self.go_on();
                self.clean_up(Step::Clean);
            }
            _ => self.postpone(),
        }
    }

    /// The block stays where it is, for now.
    fn postpone(&mut self) {
        self.leveller.postponed.insert(self.leveller.block);
        self.go_on();
        self.clean_up(Step::Clean);
    }

    /// Writes to the block go on.
    fn go_on(&mut self) {
        self.leveller.frozen = [None; 2];
        for (submitted, command) in std::mem::take(&mut self.held) {
            self.route(submitted, command);
        }
    }

    /// Both are where they should be: that counts when it is on the media.
    fn record_move(&mut self) {
        let (block, luns) = (self.leveller.block as usize, self.luns());
        self.leveller.taken.clear();
        for side in [0, 1] {
            let Some(target) = self.leveller.targets[side] else { continue };
            let lun = &mut self.state.luns[luns[1 - side] as usize];
            let before = std::mem::replace(&mut lun.shown[block], target % self.geometry.chunks);
            self.leveller.taken.push(luns[1 - side] * self.geometry.chunks + before);
        }
        self.state.swap.as_mut().expect("two LUNs that change places").moved[block] = true;
        self.leveller.step = Step::Record;
        self.changed_then([Commit::Moved]);
    }

    /// The move is on the media.
    pub(super) fn moved(&mut self) {
        for (lun, frozen) in self.luns().into_iter().zip(self.leveller.frozen) {
            if let Some((app, block)) = frozen
                && !self.records.dead
            {
                let chunk = self.chunk_of(lun, self.leveller.block);
                if let Some(Some(opened)) = self.opened.get_mut(usize::from(app)) {
                    opened.view.set(block, chunk);
                }
            }
        }
        self.go_on();
        self.clean_up(Step::DrainReads);
    }

    /// Goes on to erase what is taken; what is not written needs no erase, and what is bad is none.
    fn clean_up(&mut self, step: Step) {
        self.leveller.step = step;
        self.drain();
        match step {
            Step::DrainReads => self.level(),
            _ => self.erase_taken(),
        }
    }

    fn erase_taken(&mut self) {
        self.leveller.step = Step::Clean;
        let taken = self.leveller.taken.clone();
        self.leveller.left = taken.len() as u32;
        if taken.is_empty() {
            self.leveller.step = Step::Idle;
            return;
        }
        for chunk in taken {
            let reset = self.own(Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new());
            self.send(What::Level(chunk), reset);
        }
    }

    fn erased(&mut self, chunk: u32, status: Status) {
        let (lun, in_lun) = (chunk / self.geometry.chunks, chunk % self.geometry.chunks);
        match status {
            Status::Success => self.count_erase(lun),
            // It was free.
            Status::ChunkInvalidReset => {}
            _ => {
                self.put_aside(lun, in_lun);
                self.changed();
            }
        }
        self.leveller.left -= 1;
        if self.leveller.left == 0 {
            self.leveller.taken.clear();
            self.leveller.step = Step::Idle;
        }
    }
}
