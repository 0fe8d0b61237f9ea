//! Global wear levelling: two LUNs are swapped, block by block, while they are in use (after FlashBlox, Huang et al., FAST 2017).
//!
//! ```text
//!   for each block      LUN a: hot             LUN b: cold
//!     drain, look       [ A ]  [spare]         [ B ]  [spare]       writes to A and B wait, reads continue
//!     copy              [ A ]  [  B  ]         [ B ]  [  A  ]
//!     record            [   ]  [  B  ]         [   ]  [  A  ]       from here on the owners use the new places; writes continue
//!     clean             [spare][  B  ]         [spare][  A  ]       when reads of the old places have ended
//! ```
//! A swap starts when the mean erase count of a LUN exceeds that of another by a limit, preferably in the same channel. Only a LUN with a recent
//! erase can start a swap, so a worn idle LUN does not. A free LUN receives data but gives none. One record moves a block, so at every moment each
//! block has one place; the next start erases data that a power cut left in a spare. A block that cannot be moved now waits until the next erase: a
//! block closed by a failed write, because its copy would look different; a block whose last sectors the drive holds back or cannot read; and every
//! block while no spare is left.

//!
//! Invariants: a block is frozen from its drain until its move is on the media or given up; a taken chunk is a spare of its LUN, or is about to
//! become one; a command waits only while a block is frozen.

use super::calls::{own, send};
use super::commands::What;
use super::records::Commit;
use super::{Monitor, route, save, spares};
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Lba, Opcode, SimTime, Status, Vector,
};
use pellucid_host::ChunkView;
use std::collections::{BTreeSet, VecDeque};

/// Approximate number of sectors copied at a time.
const COPY_SECTORS: u32 = 64;

/// Step of moving a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// Waiting for earlier commands, while new writes are held.
    Drain,
    /// Asking the drive for the block's state in both LUNs.
    Look,
    /// Copying the block out of one of the LUNs; `done` sectors are copied.
    Copy { side: usize, done: u32 },
    /// Writing the record.
    Record,
    /// Waiting for reads of the old places.
    DrainReads,
    /// Erasing chunks.
    Clean,
}

/// The wear leveller, with the progress of a swap.
#[derive(Clone, Debug, Default)]
pub(super) struct Leveller {
    /// Number of completed swaps.
    swaps: u64,
    /// True while the state is being read.
    paused: bool,
    /// A LUN that was erased, and may be too worn.
    due: Option<u32>,
    /// LUNs being prepared for an application, which must not be swapped.
    exempt: Vec<u32>,
    step: Step,
    block: u32,
    /// By side: the drive's report on the block, and the chunk of the other LUN that takes it, if an application owns it.
    infos: [ChunkInfo; 2],
    targets: [Option<u32>; 2],
    /// By side: the application, and its number of the block.
    frozen: [Option<(u16, u32)>; 2],
    /// Commands that wait until the frozen block has been moved, with their submission times.
    held: VecDeque<(SimTime, Command)>,
    /// Commands in flight.
    left: u32,
    /// Chunks of the drive that are being filled, or are to be erased.
    taken: Vec<u32>,
    postponed: BTreeSet<u32>,
}

impl Leveller {
    /// Number of completed swaps.
    pub fn swaps(&self) -> u64 {
        self.swaps
    }

    /// Stops or resumes levelling: nothing is moved while the state is being read.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Sets the LUNs that must not be swapped.
    pub fn exempt(&mut self, luns: Vec<u32>) {
        self.exempt = luns;
    }

    /// Reports whether a chunk of the drive is being filled, or is to be erased.
    pub fn uses(&self, chunk: u32) -> bool {
        self.taken.contains(&chunk)
    }

    /// Reports whether a command must wait until a block that it changes has been moved.
    #[inline]
    pub fn holds(&self, app: u16, view: &ChunkView, command: &Command) -> bool {
        self.frozen != [None; 2] && self.changes_frozen(app, view, command)
    }

    /// Holds a command.
    pub fn hold(&mut self, submitted: SimTime, command: Command) {
        self.held.push_back((submitted, command));
    }

    /// Held commands.
    pub fn held(&self) -> impl ExactSizeIterator<Item = &Command> {
        self.held.iter().map(|(_, command)| command)
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

    /// Notes an application's erase in a LUN; `often`: the number of erases reached a multiple of the LUN's blocks.
    pub fn note_erase(&mut self, lun: u32, often: bool) {
        if often {
            self.due = Some(lun);
        }
        self.postponed.clear();
    }

    /// Drops everything after a power cut; returns the held commands.
    pub fn forget(&mut self) -> VecDeque<(SimTime, Command)> {
        let held = std::mem::take(&mut self.held);
        *self = Leveller { swaps: self.swaps, ..Leveller::default() };
        held
    }

    /// Stores the report on the block's chunk on one side. Returns whether it was the last one.
    fn looked(&mut self, side: usize, info: Option<ChunkInfo>) -> bool {
        self.infos[side] = info.unwrap_or(ChunkInfo { state: ChunkState::Offline, ..ChunkInfo::default() });
        self.left -= 1;
        self.left == 0
    }

    /// Chooses the next block, with its owners by side.
    fn begin(&mut self, block: u32, frozen: [Option<(u16, u32)>; 2]) {
        assert_eq!(self.step, Step::Idle, "one block is moved at a time");
        (self.block, self.frozen, self.step) = (block, frozen, Step::Drain);
    }
}

/// Continues the swap in progress, or starts one.
pub(super) fn level<D: Drive>(monitor: &mut Monitor<D>) {
    if monitor.leveller.paused || monitor.records.is_dead() {
        return;
    }
    match monitor.leveller.step {
        Step::Idle => next_block(monitor),
        Step::Drain if monitor.namespaces.is_drained() => look(monitor),
        Step::DrainReads if monitor.namespaces.is_drained() => erase_taken(monitor),
        _ => {}
    }
}

fn next_block<D: Drive>(monitor: &mut Monitor<D>) {
    if monitor.state.swapping().is_none() {
        let Some(lun) = monitor.leveller.due.take() else { return };
        let Some(cold) = partner(monitor, lun) else { return };
        monitor.state.begin_swap([lun, cold]);
        monitor.leveller.postponed.clear();
        monitor.records.changed();
    }
    let owners = luns(monitor).map(|lun| monitor.state.owner(lun));
    let mut left = monitor.state.unmoved().peekable();
    if left.peek().is_none() || owners == [None; 2] {
        drop(left);
        return end_swap(monitor);
    }
    let Some(block) = left.find(|block| !monitor.leveller.postponed.contains(block)) else { return };
    drop(left);
    let shown = monitor.state.shown();
    let frozen = owners.map(|owner| owner.map(|(app, at)| (app, at * shown + block)));
    monitor.leveller.begin(block, frozen);
    monitor.namespaces.drain();
    level(monitor);
}

/// The LUN to swap with one that has been erased often.
fn partner<D: Drive>(monitor: &Monitor<D>, lun: u32) -> Option<u32> {
    let (gap, state) = (monitor.config.wear_gap, &monitor.state);
    let has_spare = |lun: u32| spares::spares(monitor, lun).next().is_some();
    let is_exempt = |lun: u32| monitor.leveller.exempt.contains(&lun);
    if gap == 0 || state.owner(lun).is_none() || is_exempt(lun) || !has_spare(lun) {
        return None;
    }
    let most = state.average_erases(lun) - f64::from(gap);
    let group = |lun: u32| lun / monitor.geometry.units;
    let cold = (0..monitor.geometry.parallel_units()).filter(|&other| {
        other != lun
            && state.is_in_use(other)
            && state.average_erases(other) < most
            && !is_exempt(other)
            && has_spare(other)
    });
    cold.min_by_key(|&other| (group(other) != group(lun), state.erases(other)))
}

/// Ends the swap of both LUNs.
fn end_swap<D: Drive>(monitor: &mut Monitor<D>) {
    for lun in luns(monitor) {
        if let Some((app, _)) = monitor.state.owner(lun)
            && let Some(namespace) = monitor.namespaces.get_mut(app)
        {
            namespace.count_swap();
        }
    }
    monitor.state.end_swap();
    monitor.leveller.swaps += 1;
    monitor.records.changed();
}

fn luns<D: Drive>(monitor: &Monitor<D>) -> [u32; 2] {
    monitor.state.swapping().expect("two LUNs that change places")
}

/// Location of the block in one of the two LUNs.
fn source<D: Drive>(monitor: &Monitor<D>, side: usize) -> u32 {
    let lun = luns(monitor)[side];
    lun * monitor.geometry.chunks + monitor.state.chunk_of(lun, monitor.leveller.block)
}

fn look<D: Drive>(monitor: &mut Monitor<D>) {
    monitor.leveller.step = Step::Look;
    monitor.leveller.left = 2;
    for side in [0, 1] {
        let look = own(monitor, Opcode::Report, source(monitor, side), 0, 1, Vec::new());
        send(monitor, What::Level(side as u32), look);
    }
}

/// Handles the end of a command of the leveller; `of`: the side that was examined, or the chunk that was erased.
pub(super) fn ended<D: Drive>(monitor: &mut Monitor<D>, of: u32, completion: Completion) {
    match monitor.leveller.step {
        Step::Look => {
            let info = completion.data.first_chunk().and_then(ChunkInfo::decode);
            if monitor.leveller.looked(of as usize, info) {
                choose_targets(monitor);
            }
        }
        Step::Copy { side, done } => copied(monitor, side, done, completion),
        Step::Clean => erased(monitor, of, completion.status),
        _ => {}
    }
}

/// Reports whether a block can be copied as it is.
fn is_movable<D: Drive>(monitor: &Monitor<D>, info: &ChunkInfo) -> bool {
    match info.state {
        ChunkState::Free | ChunkState::Offline => true,
        ChunkState::Open => monitor.geometry.cached_sectors == 0,
        ChunkState::Closed => info.write_pointer == monitor.geometry.chunk_sectors,
    }
}

fn choose_targets<D: Drive>(monitor: &mut Monitor<D>) {
    let luns = luns(monitor);
    monitor.leveller.targets = [None; 2];
    for side in [0, 1] {
        if monitor.state.owner(luns[side]).is_none() {
            continue;
        }
        let other = luns[1 - side];
        let spare = spares::spares(monitor, other).next();
        let is_movable = is_movable(monitor, &monitor.leveller.infos[side]);
        let Some(spare) = spare.filter(|_| is_movable) else { return postpone(monitor) };
        let target = other * monitor.geometry.chunks + spare;
        monitor.leveller.targets[side] = Some(target);
        monitor.leveller.taken.push(target);
    }
    copy(monitor, 0, 0, Vec::new(), None);
}

/// Reads the next sectors of a block; reuses `buffer` and `vector`.
fn copy<D: Drive>(
    monitor: &mut Monitor<D>,
    side: usize,
    done: u32,
    mut buffer: Vec<u8>,
    vector: Option<Box<Vector>>,
) {
    let info = monitor.leveller.infos[side];
    let written = if info.state == ChunkState::Offline { 0 } else { info.write_pointer };
    if monitor.leveller.targets[side].is_none() || done == written {
        return match side {
            0 => copy(monitor, 1, 0, buffer, vector),
            _ => record_move(monitor),
        };
    }
    monitor.leveller.step = Step::Copy { side, done };
    let write = monitor.geometry.write_min_sectors;
    let sectors = ((COPY_SECTORS / write).max(1) * write).min(written - done);
    buffer.resize(sectors as usize * monitor.drive.image_bytes(), 0);
    let mut vector = vector.unwrap_or_default();
    vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
    let read = own(monitor, Opcode::Read, source(monitor, side), done, sectors, buffer);
    send(monitor, What::Level(0), Command { vector: Some(vector), ..read });
}

/// Handles sectors of a block that have been read or written.
fn copied<D: Drive>(monitor: &mut Monitor<D>, side: usize, done: u32, completion: Completion) {
    let sectors = (completion.data.len() / monitor.drive.image_bytes()) as u32;
    let target = monitor.leveller.targets[side].expect("it is copied");
    match (completion.opcode, completion.status) {
        (Opcode::Read, Status::Success | Status::HighEcc) => {
            let write = own(monitor, Opcode::Write, target, done, sectors, completion.data);
            send(monitor, What::Level(0), Command { vector: completion.vector, ..write });
        }
        (Opcode::Write, Status::Success) => {
            copy(monitor, side, done + sectors, completion.data, completion.vector);
        }
        (Opcode::Write, Status::ChunkWriteFailed | Status::ChunkClosedEarly | Status::WriteFault) => {
            // Takes another spare, if there is one.
            spares::put_aside(monitor, target / monitor.geometry.chunks, target % monitor.geometry.chunks);
            monitor.records.changed();
            monitor.leveller.taken.retain(|&chunk| chunk != target);
            go_on(monitor);
            clean_up(monitor, Step::Clean);
        }
        _ => postpone(monitor),
    }
}

/// Leaves the block where it is, for now.
fn postpone<D: Drive>(monitor: &mut Monitor<D>) {
    monitor.leveller.postponed.insert(monitor.leveller.block);
    go_on(monitor);
    clean_up(monitor, Step::Clean);
}

/// Releases the held writes to the block.
fn go_on<D: Drive>(monitor: &mut Monitor<D>) {
    monitor.leveller.frozen = [None; 2];
    for (submitted, command) in std::mem::take(&mut monitor.leveller.held) {
        route::route(monitor, submitted, command);
    }
}

/// Records the move of both blocks; it takes effect when the record is on the media.
fn record_move<D: Drive>(monitor: &mut Monitor<D>) {
    let (block, targets) = (monitor.leveller.block, monitor.leveller.targets);
    let chunks = monitor.geometry.chunks;
    let in_lun = targets.map(|target| target.map(|target| target % chunks));
    let former = monitor.state.move_block(block, in_lun);
    monitor.leveller.taken = former.into_iter().map(|(lun, chunk)| lun * chunks + chunk).collect();
    monitor.leveller.step = Step::Record;
    save::changed_then(monitor, Commit::Moved);
}

/// Handles a move that is on the media.
pub(super) fn moved<D: Drive>(monitor: &mut Monitor<D>) {
    for (lun, frozen) in luns(monitor).into_iter().zip(monitor.leveller.frozen) {
        if let Some((app, block)) = frozen
            && !monitor.records.is_dead()
        {
            let chunk = monitor.chunk_of(lun, monitor.leveller.block);
            if let Some(namespace) = monitor.namespaces.get_mut(app) {
                namespace.place(block, chunk);
            }
        }
    }
    go_on(monitor);
    clean_up(monitor, Step::DrainReads);
}

/// Continues by erasing the taken blocks; unwritten blocks need no erase, and bad ones get none.
fn clean_up<D: Drive>(monitor: &mut Monitor<D>, step: Step) {
    monitor.leveller.step = step;
    monitor.namespaces.drain();
    match step {
        Step::DrainReads => level(monitor),
        _ => erase_taken(monitor),
    }
}

fn erase_taken<D: Drive>(monitor: &mut Monitor<D>) {
    monitor.leveller.step = Step::Clean;
    let taken = monitor.leveller.taken.clone();
    monitor.leveller.left = taken.len() as u32;
    if taken.is_empty() {
        monitor.leveller.step = Step::Idle;
        return;
    }
    for chunk in taken {
        let reset = own(monitor, Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new());
        send(monitor, What::Level(chunk), reset);
    }
}

fn erased<D: Drive>(monitor: &mut Monitor<D>, chunk: u32, status: Status) {
    let (lun, in_lun) = (chunk / monitor.geometry.chunks, chunk % monitor.geometry.chunks);
    match status {
        Status::Success => save::count_erase(monitor, lun),
        // The chunk was free.
        Status::ChunkInvalidReset => {}
        _ => {
            spares::put_aside(monitor, lun, in_lun);
            monitor.records.changed();
        }
    }
    monitor.leveller.left -= 1;
    if monitor.leveller.left == 0 {
        monitor.leveller.taken.clear();
        monitor.leveller.step = Step::Idle;
    }
}
