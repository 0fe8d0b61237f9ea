//! A drive for the file system: jobs become commands of a block or nameless namespace, or calls of Prism's function level.
//!
//! ```text
//!   Fs ── next_job ──► Volume ─┬─ Block ──► a block namespace                             reads, writes, flushes, discards
//!      ◄── tell ─────          ├─ Nameless ► a nameless namespace                         as for Block; names, and their moves
//!                              └─ Flash ──► Function ──► an open-channel namespace        segment n is flash block n
//! ```
//! The function level acknowledges only data that are on the flash, so its flush ends at once. Allocating and giving back blocks takes no time
//! either: erases run in the background.

mod nameless;

use super::backend::{Content, FlashShape, FoundSegment};
use super::jobs::{Job, JobAnswer, JobError, JobId, JobOutcome};
use super::types::{BLOCK_BYTES, Time};
use super::{Backend, Fs};
pub use nameless::NamelessVolume;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Command, Completion, Drive, Figure, Interface, Lba, Notice, Opcode, SimTime, Status, Tag,
};
use pellucid_host::Machine;
use pellucid_prism::{
    FlashAddress, Function, FunctionAnswer, FunctionAsk, FunctionCall, FunctionCounters, FunctionOutcome,
    Mapping,
};
use std::collections::VecDeque;

/// Executes the jobs of a file system on one namespace of a drive. Clone it, with the drive, to fork its future.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub enum Volume {
    /// A block namespace.
    Block(BlockVolume),
    /// An open-channel namespace.
    Flash(FlashVolume),
    /// A nameless namespace.
    Nameless(NamelessVolume),
}

impl Volume {
    /// A volume on a namespace of a drive, of any kind.
    ///
    /// The error is a sentence.
    pub fn new(drive: &impl Drive, namespace: u16) -> Result<Volume, String> {
        let sector = drive.image_bytes();
        if sector < 512 || !BLOCK_BYTES.is_multiple_of(sector) {
            return Err(
                "the drive keeps no data; a file system needs store = \"ram\" or \"file\"".to_string()
            );
        }
        match drive.interface(namespace) {
            Some(Interface::Block { sectors, .. }) => Ok(Volume::Block(BlockVolume {
                namespace,
                sectors,
                sectors_each: (BLOCK_BYTES / sector) as u32,
                jobs: Slab::default(),
                down: VecDeque::new(),
                up: VecDeque::new(),
            })),
            interface @ Some(Interface::OpenChannel(_)) => {
                let function = Function::new(namespace, interface, sector).map_err(|why| why.to_string())?;
                FlashVolume::new(function, sector as u32).map(Volume::Flash)
            }
            Some(Interface::Nameless(geometry)) => {
                NamelessVolume::new(namespace, &geometry, sector).map(Volume::Nameless)
            }
            _ => Err("a file system needs a block, an open-channel or a nameless namespace".to_string()),
        }
    }

    /// Returns the back end for a file system on this volume.
    pub fn backend(&self) -> Backend {
        match self {
            Volume::Block(_) => Backend::Block,
            Volume::Flash(flash) => Backend::Function(flash.shape),
            Volume::Nameless(names) => Backend::Nameless(names.shape),
        }
    }

    /// Blocks of 4 KiB for a new file system. On flash: after the start. With names: virtual blocks.
    pub fn blocks(&self) -> u64 {
        match self {
            Volume::Block(block) => block.sectors / u64::from(block.sectors_each),
            Volume::Flash(flash) => u64::from(flash.left()) * u64::from(flash.shape.segment_blocks),
            Volume::Nameless(names) => names.blocks,
        }
    }

    /// Mounts the file system on it, after the start.
    pub fn mount(&self, now: Time, options: super::MountOptions) -> Fs {
        match self {
            Volume::Block(_) => Fs::mount(now, self.blocks(), options),
            Volume::Flash(flash) => Fs::mount_flash(now, flash.shape, &flash.found(), flash.left(), options),
            Volume::Nameless(names) => Fs::mount_nameless(now, names.blocks, names.shape, options),
        }
    }

    /// Makes the flash library keep this percentage of its blocks as over-provisioning (`Flash_SetOPS`). A block drive has its own.
    ///
    /// The error is a sentence.
    pub fn set_ops(&mut self, percent: u32) -> Result<(), String> {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => Ok(()),
            Volume::Flash(flash) => flash.function.set_ops(percent).map_err(|why| why.to_string()),
        }
    }

    /// Reports whether no flash block has old data. For a block drive this is unknown.
    pub fn is_empty(&self) -> bool {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => false,
            Volume::Flash(flash) => flash.function.found().next().is_none(),
        }
    }

    /// Discards old data on flash, so that a new file system can use all of it.
    pub fn clear(&mut self) {
        if let Volume::Flash(flash) = self {
            let _ = flash.function.recover(&[]);
        }
    }

    /// Counters of the function level, if there is one.
    pub fn function_counters(&self) -> Option<FunctionCounters> {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => None,
            Volume::Flash(flash) => Some(flash.function.counters()),
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        if let Volume::Flash(flash) = self {
            flash.function.check();
        }
    }
}

/// Jobs on a block namespace.
#[derive(Clone, Debug)]
pub struct BlockVolume {
    namespace: u16,
    sectors: u64,
    /// Sectors per block.
    sectors_each: u32,
    jobs: Slab<JobId>,
    down: VecDeque<Command>,
    up: VecDeque<JobAnswer>,
}

impl BlockVolume {
    fn submit(&mut self, job: Job) {
        let id = job.id();
        let (opcode, block, blocks, data) = match job {
            Job::Read { block, blocks, .. } => {
                (Opcode::Read, block, blocks, vec![0; blocks as usize * BLOCK_BYTES])
            }
            Job::Write { block, data, .. } => (Opcode::Write, block, data.count() as u32, data.to_vec()),
            Job::Flush { .. } => (Opcode::Flush, 0, 0, Vec::new()),
            Job::Discard { block, blocks, .. } => (Opcode::Trim, block, blocks, Vec::new()),
            _ => {
                let outcome = JobOutcome::Ended(Err(JobError::Failed));
                return self.up.push_back(JobAnswer::new(id, outcome));
            }
        };
        let tag = self.jobs.insert(id);
        let lba = Lba(block * u64::from(self.sectors_each));
        let command = Command::new(tag.into(), opcode, lba, blocks * self.sectors_each, data);
        self.down.push_back(Command { namespace: self.namespace, ..command });
    }

    fn complete(&mut self, completion: &mut Completion) {
        let at = completion.tag as u32;
        let id = std::mem::take(&mut self.jobs[at]);
        self.jobs.release(at);
        let outcome = JobOutcome::Ended(ended(completion.status, std::mem::take(&mut completion.data)));
        self.up.push_back(JobAnswer::new(id, outcome));
    }
}

fn ended(status: Status, data: Vec<u8>) -> Result<Vec<u8>, JobError> {
    match status {
        Status::Success | Status::HighEcc => Ok(data),
        // A drive that lost its power has lost unflushed data, so no later write may rely on them.
        Status::ReadOnly | Status::PowerLoss => Err(JobError::ReadOnly),
        _ => Err(JobError::Failed),
    }
}

/// Jobs on the function level.
#[derive(Clone, Debug)]
pub struct FlashVolume {
    function: Function,
    shape: FlashShape,
    sector_bytes: u32,
    page_bytes: u32,
    /// Channel from which the next flash block is taken, among channels with equally many.
    turn: u32,
    up: VecDeque<JobAnswer>,
}

impl FlashVolume {
    fn new(function: Function, sector_bytes: u32) -> Result<FlashVolume, String> {
        let space = function.space();
        let geometry = function.geometry();
        if space.chunks.cached_sectors > 0 {
            return Err(format!(
                "the newest {} sectors of a flash block cannot be read; allowed: none",
                space.chunks.cached_sectors
            ));
        }
        let page_bytes = space.page_sectors() * sector_bytes;
        let block_bytes = u64::from(geometry.pages_each_block) * u64::from(page_bytes);
        let each = geometry.luns_each_channel * geometry.blocks_each_lun;
        let shape = FlashShape::new(geometry.channel_count, each, block_bytes, page_bytes)?;
        Ok(FlashVolume { function, shape, sector_bytes, page_bytes, turn: 0, up: VecDeque::new() })
    }

    /// Number of flash blocks that can be allocated.
    fn left(&self) -> u32 {
        (0..self.shape.channels).map(|channel| self.function.free_blocks(channel)).sum()
    }

    fn found(&self) -> Vec<FoundSegment> {
        let geometry = self.function.geometry();
        let bytes = |pages: u32| u64::from(pages) * u64::from(self.page_bytes);
        let found = self.function.found().map(|found| FoundSegment {
            segment: geometry.block_number(found.address),
            content: found.mark.and_then(Content::of),
            blocks: (bytes(found.pages) / BLOCK_BYTES as u64) as u32,
        });
        found.collect()
    }

    /// The page of a file system block, and the sector in it.
    fn place(&self, block: u64) -> (FlashAddress, u32) {
        let each = u64::from(self.shape.segment_blocks);
        let segment = (block / each).saturating_sub(1) as u32;
        let byte = block % each * BLOCK_BYTES as u64;
        let page = (byte / u64::from(self.page_bytes)) as u32;
        let sector = (byte % u64::from(self.page_bytes)) as u32 / self.sector_bytes;
        (FlashAddress { page, ..self.function.geometry().block_at(segment) }, sector)
    }

    fn submit(&mut self, now: SimTime, job: Job) {
        let id = job.id();
        let tag: Tag = id.0;
        let call = match job {
            Job::Read { block, blocks, .. } => {
                let (address, sector) = self.place(block);
                let sectors = blocks * (BLOCK_BYTES as u32 / self.sector_bytes);
                FunctionCall::Read { address, sector, sectors, data: Vec::new() }
            }
            Job::Write { block, data, content, .. } => {
                let (address, _) = self.place(block);
                FunctionCall::Write { address, mark: content.mark(), data: data.to_vec() }
            }
            Job::Flush { .. } => return self.answer(id, Ok(Vec::new())),
            Job::Discard { block, .. } => {
                // A block that the library does not know as mapped already is free.
                let _ = self.function.flash_trim(self.place(block).0);
                return self.answer(id, Ok(Vec::new()));
            }
            Job::Allocate { .. } => {
                let segment = self.allocate();
                let outcome = JobOutcome::Allocated { segment, left: self.left() };
                return self.up.push_back(JobAnswer::new(id, outcome));
            }
            Job::Keep { segments, .. } => {
                let found = self.found();
                let has = |segment: &u32| found.iter().any(|found| found.segment == *segment);
                let geometry = self.function.geometry();
                let kept: Vec<FlashAddress> =
                    segments.into_iter().filter(has).map(|segment| geometry.block_at(segment)).collect();
                let kept = self.function.recover(&kept).map(|()| Vec::new()).map_err(|_| JobError::Failed);
                return self.answer(id, kept);
            }
            _ => return self.answer(id, Err(JobError::Failed)),
        };
        self.function.submit(now, FunctionAsk { tag, call });
    }

    fn answer(&mut self, id: JobId, outcome: Result<Vec<u8>, JobError>) {
        self.up.push_back(JobAnswer::new(id, JobOutcome::Ended(outcome)));
    }

    /// Allocates a flash block of the channel with most free ones.
    fn allocate(&mut self) -> Option<u32> {
        let channels = self.shape.channels;
        let in_turn = (0..channels).map(|n| (self.turn + n) % channels);
        // Of equals, the first.
        let channel = in_turn.rev().max_by_key(|&channel| self.function.free_blocks(channel))?;
        self.turn = channel + 1;
        let allocated = self.function.address_mapper(channel, Mapping::Block).ok()?;
        Some(self.function.geometry().block_number(allocated.address))
    }

    fn take(&mut self, answer: FunctionAnswer) {
        let outcome = match answer.outcome {
            FunctionOutcome::Done | FunctionOutcome::Levelled(_) => Ok(answer.data),
            FunctionOutcome::Failed(Status::ReadOnly | Status::PowerLoss) => Err(JobError::ReadOnly),
            FunctionOutcome::Failed(_) | FunctionOutcome::Refused(_) => Err(JobError::Failed),
        };
        self.answer(JobId(answer.tag), outcome);
    }

    fn gather(&mut self) {
        while let Some(answer) = self.function.pop() {
            self.take(answer);
        }
    }
}

impl Machine for Volume {
    type Ask = Job;
    type Answer = JobAnswer;

    fn namespaces(&self) -> &[u16] {
        match self {
            Volume::Block(block) => std::slice::from_ref(&block.namespace),
            Volume::Flash(flash) => flash.function.namespaces(),
            Volume::Nameless(names) => names.namespaces(),
        }
    }

    fn submit(&mut self, now: SimTime, job: Job) {
        match self {
            Volume::Block(block) => block.submit(job),
            Volume::Nameless(names) => names.submit(job),
            Volume::Flash(flash) => {
                flash.submit(now, job);
                flash.gather();
            }
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        match self {
            Volume::Block(block) => block.complete(completion),
            Volume::Nameless(names) => names.complete(completion),
            Volume::Flash(flash) => {
                flash.function.complete(now, completion);
                flash.gather();
            }
        }
    }

    fn notice(&mut self, _now: SimTime, _namespace: u16, notice: Notice) {
        if let Volume::Nameless(names) = self {
            names.notice(notice);
        }
    }

    fn advance(&mut self, now: SimTime) {
        if let Volume::Flash(flash) = self {
            flash.function.advance(now);
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => None,
            Volume::Flash(flash) => flash.function.next_event(),
        }
    }

    fn next_command(&mut self) -> Option<Command> {
        match self {
            Volume::Block(block) => block.down.pop_front(),
            Volume::Nameless(names) => names.next_command(),
            Volume::Flash(flash) => flash.function.next_command(),
        }
    }

    fn pop(&mut self) -> Option<JobAnswer> {
        match self {
            Volume::Block(block) => block.up.pop_front(),
            Volume::Nameless(names) => names.up.pop_front(),
            Volume::Flash(flash) => flash.up.pop_front(),
        }
    }

    fn answered(&self) -> usize {
        match self {
            Volume::Block(block) => block.up.len(),
            Volume::Nameless(names) => names.up.len(),
            Volume::Flash(flash) => flash.up.len(),
        }
    }

    fn failure(&self) -> Option<String> {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => None,
            Volume::Flash(flash) => flash.function.failure(),
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => true,
            Volume::Flash(flash) => flash.function.is_ready(),
        }
    }

    /// Handles a power failure: outstanding requests fail, and the file system must be mounted
    /// again.
    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        match self {
            Volume::Block(block) => {
                // No job has the number 0, which marks the absence of one.
                let lost = std::mem::take(&mut block.jobs);
                for &id in lost.iter().filter(|id| id.0 > 0) {
                    let outcome = JobOutcome::Ended(Err(JobError::Failed));
                    block.up.push_back(JobAnswer::new(id, outcome));
                }
                block.down.clear();
                Ok(())
            }
            Volume::Nameless(names) => {
                names.restart();
                Ok(())
            }
            Volume::Flash(flash) => {
                flash.function.restart(now)?;
                flash.gather();
                Ok(())
            }
        }
    }

    fn figures(&self) -> Vec<Figure> {
        match self {
            Volume::Block(_) | Volume::Nameless(_) => Vec::new(),
            Volume::Flash(flash) => flash.function.figures(),
        }
    }
}
