//! The threads: what an operation needs and waits for, and its effects on files and pages.

use super::Files;
use super::RequestKind;
use super::requests::Purpose;
use super::schedule::Event;
use super::{journal, write_back};
use crate::files::BLOCK_BYTES;
use crate::files::layout::{Extent, LayoutError};
use crate::files::personality::{Operation, Personality};
use pellucid_flash::{Nanos, SimTime};

/// Condition of pages that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The pages are in memory.
    Read,
    /// No page is being written to the drive.
    Written,
    /// No page is in flight at all.
    Still,
}

/// Progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Before its first effect.
    First,
    /// Its pages are available.
    Ready,
    /// It waits for its commit.
    Committing,
}

/// A thread: its operation, and what it waits for.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// Index of the operation in the loop.
    at: usize,
    began: SimTime,
    step: Step,
    file: Option<u32>,
    rotor: u32,
    /// Blocks that it waits for, from index `looked` on.
    blocks: Vec<u32>,
    looked: usize,
    until: Until,
}

impl Thread {
    /// Creates a thread; `rotor`: start of its own rotation.
    pub fn new(rotor: u32) -> Thread {
        Thread {
            at: 0,
            began: SimTime::ZERO,
            step: Step::First,
            file: None,
            rotor,
            blocks: Vec::new(),
            looked: 0,
            until: Until::Read,
        }
    }

    /// Starts an operation.
    fn begin(&mut self, now: SimTime) {
        (self.began, self.step) = (now, Step::First);
    }

    /// Continues with the next of `count` operations.
    fn go_on(&mut self, count: usize) {
        self.at = (self.at + 1) % count;
    }

    /// Waits for blocks.
    fn wait(&mut self, blocks: Vec<u32>, until: Until) {
        (self.blocks, self.looked, self.until, self.step) = (blocks, 0, until, Step::Ready);
    }
}

/// Starts a thread's next operation, which first takes processor time.
pub(super) fn begin(files: &mut Files, thread: u32) {
    let operation = operation(files, thread);
    let host = files.config.host;
    let pages = pages_copied(files, thread, operation);
    let time = Nanos(host.operation.0 + host.page.0 * pages);
    let executes = files.schedule.compute(files.now, time);
    files.threads[thread as usize].begin(files.now);
    files.schedule.add(executes, Event::Execute(thread));
}

fn operation(files: &Files, thread: u32) -> Operation {
    files.config.personality.operations()[files.threads[thread as usize].at]
}

fn pages_copied(files: &Files, thread: u32, operation: Operation) -> u64 {
    let file = files.threads[thread as usize].file.map(|file| files.set.get(file)).unwrap_or_default();
    match operation {
        Operation::ReadWhole => file.bytes().div_ceil(BLOCK_BYTES),
        Operation::WriteWhole => file.wanted_bytes().div_ceil(BLOCK_BYTES),
        Operation::Append | Operation::AppendLog => files.config.append_bytes / 2 / BLOCK_BYTES,
        _ => 0,
    }
}

/// Continues an operation as far as possible.
pub(super) fn work(files: &mut Files, thread: u32) {
    if files.threads[thread as usize].step == Step::First && !prepare(files, thread) {
        return;
    }
    if !has_waited(files, thread) {
        return;
    }
    if operation(files, thread) == Operation::Fsync {
        return sync(files, thread);
    }
    match effect(files, thread) {
        Ok(()) => end(files, thread),
        Err(LayoutError) => leave_out(files, thread),
    }
}

/// Ends an operation; the thread continues with the next.
fn end(files: &mut Files, thread: u32) {
    let began = files.threads[thread as usize].began;
    if counts(files, began) {
        files.meter.record(operation(files, thread), files.now - began);
    }
    go_on(files, thread);
}

/// Skips an operation for want of a file or of space; the thread continues with the next.
fn leave_out(files: &mut Files, thread: u32) {
    if counts(files, files.threads[thread as usize].began) {
        files.meter.refused += 1;
    }
    go_on(files, thread);
}

/// Reports whether an operation that began then and ends now is measured.
fn counts(files: &Files, began: SimTime) -> bool {
    began >= files.measures_from() && files.now <= files.deadline()
}

fn go_on(files: &mut Files, thread: u32) {
    let count = files.config.personality.operations().len();
    files.threads[thread as usize].go_on(count);
    files.schedule.add(files.now, Event::Begin(thread));
}

pub(super) fn is_crowded(files: &Files) -> bool {
    f64::from(files.cache.unwritten()) > files.config.host.dirty_share * f64::from(files.cache.capacity())
}

/// Chooses the file of an operation and requests its blocks. Returns false if it must wait.
fn prepare(files: &mut Files, thread: u32) -> bool {
    let operation = operation(files, thread);
    let writes = matches!(operation, Operation::WriteWhole | Operation::Append | Operation::AppendLog);
    if writes && is_crowded(files) {
        files.waits.throttle(thread);
        write_back::write_back(files);
        return false;
    }
    if writes && waits_for_blocks(files, thread, operation) {
        return false;
    }
    let file = match operation {
        Operation::Create => pick(files, thread, false),
        Operation::Open | Operation::Delete | Operation::Stat => pick(files, thread, true),
        Operation::AppendLog => Some(files.config.files),
        _ => files.threads[thread as usize].file,
    };
    let Some(file) = file else {
        leave_out(files, thread);
        return false;
    };
    if matches!(operation, Operation::Create | Operation::Open | Operation::Delete) {
        files.set.open(file);
        files.threads[thread as usize].file = Some(file);
    }
    let mut blocks = std::mem::take(&mut files.threads[thread as usize].blocks);
    blocks.clear();
    let until = needs(files, operation, file, &mut blocks);
    let reading = until == Until::Read && operation == Operation::ReadWhole && files.is_measured();
    if reading {
        files.meter.read_pages += blocks.len() as u64;
        files.meter.hit_pages += blocks.iter().filter(|&&block| files.cache.has(block)).count() as u64;
    }
    if until == Until::Read {
        read_missing(files, &blocks);
    }
    files.threads[thread as usize].wait(blocks, until);
    true
}

/// Blocks that an operation needs before its effect, and their condition.
fn needs(files: &Files, operation: Operation, file: u32, blocks: &mut Vec<u32>) -> Until {
    let layout = &files.layout;
    let extents = layout.extents(file).iter();
    let own = extents.flat_map(|extent| extent.block..extent.block + extent.count);
    match operation {
        Operation::Open | Operation::Stat => {
            blocks.extend([layout.entry_block(file), layout.inode_block(file)]);
            Until::Read
        }
        Operation::Create => {
            blocks.extend([layout.entry_block(file), layout.inode_block(file), layout.inode_bitmap(file)]);
            Until::Read
        }
        Operation::ReadWhole => {
            blocks.extend(own);
            Until::Read
        }
        Operation::Append | Operation::AppendLog => {
            let partial = !files.set.get(file).bytes().is_multiple_of(BLOCK_BYTES);
            blocks.extend(own.last().filter(|_| partial));
            Until::Read
        }
        Operation::Delete => {
            blocks.extend(own);
            Until::Still
        }
        Operation::Fsync => {
            blocks.extend(own);
            Until::Written
        }
        Operation::WriteWhole | Operation::Close => Until::Read,
    }
}

/// Picks an existing or missing file that no thread has open.
fn pick(files: &mut Files, thread: u32, exists: bool) -> Option<u32> {
    // A webserver's files are only read, by any number of threads.
    let shared = files.config.personality == Personality::Webserver;
    let own = &mut files.threads[thread as usize].rotor;
    let picks = (files.config.host.picks, shared);
    files.set.pick(files.config.files, exists, picks, &mut files.rng, own)
}

/// Reads the missing ones of these blocks, contiguous ones together.
fn read_missing(files: &mut Files, blocks: &[u32]) {
    let most = (files.config.host.read_bytes / BLOCK_BYTES).max(1) as u32;
    let mut run = Extent { block: 0, count: 0 };
    for &block in blocks {
        if files.cache.has(block) {
            files.cache.touch(block);
            continue;
        }
        files.cache.begin_read(block);
        if run.count > 0 && block == run.block + run.count && run.count < most {
            run.count += 1;
            continue;
        }
        files.request(Purpose::Read, RequestKind::Read, run);
        run = Extent { block, count: 1 };
    }
    files.request(Purpose::Read, RequestKind::Read, run);
}

/// Reports whether the event that a thread waits for has occurred; otherwise the thread will be woken.
fn has_waited(files: &mut Files, thread: u32) -> bool {
    let record = &mut files.threads[thread as usize];
    while let Some(&block) = record.blocks.get(record.looked) {
        let waits = match record.until {
            Until::Read => files.cache.is_reading(block),
            Until::Written => files.cache.is_writing(block),
            Until::Still => files.cache.is_reading(block) || files.cache.is_writing(block),
        };
        if waits {
            files.waits.wait_for(block, thread);
            return false;
        }
        record.looked += 1;
    }
    true
}

/// Changes a metadata block in the running transaction.
fn change(files: &mut Files, block: u32) {
    files.journal.change(block);
    write_back::write_page(files, block);
    files.write_back.add_metadata(block);
}

/// Executes an operation whose blocks are available. A write that does not fit writes nothing.
fn effect(files: &mut Files, thread: u32) -> Result<(), LayoutError> {
    let operation = operation(files, thread);
    let file = match operation {
        Operation::AppendLog => files.config.files,
        _ => files.threads[thread as usize].file.unwrap_or(0),
    };
    match operation {
        Operation::Create => {
            files.set.create(file);
            change(files, files.layout.inode_bitmap(file));
            change(files, files.layout.entry_block(file));
            change_inode(files, file);
        }
        Operation::WriteWhole => {
            let wanted = files.set.get(file).wanted_bytes();
            extend(files, file, wanted)?;
            written(files, wanted);
        }
        Operation::Append | Operation::AppendLog => {
            let bytes = 1 + files.rng.below(files.config.append_bytes);
            let size = files.set.get(file).bytes() + bytes;
            let extended = extend(files, file, size);
            if operation == Operation::AppendLog && size > files.config.log_bytes {
                // The log is rotated: its content is dropped.
                empty(files, file);
            }
            extended?;
            written(files, bytes);
        }
        Operation::ReadWhole if files.is_measured() => {
            files.meter.read_bytes += files.set.get(file).bytes();
        }
        Operation::Delete => {
            empty(files, file);
            files.set.delete(file);
            change(files, files.layout.inode_bitmap(file));
            change(files, files.layout.entry_block(file));
            close(files, thread);
        }
        Operation::Close => close(files, thread),
        Operation::ReadWhole | Operation::Open | Operation::Stat | Operation::Fsync => {}
    }
    write_back::write_back(files);
    Ok(())
}

fn written(files: &mut Files, bytes: u64) {
    if files.is_measured() {
        files.meter.written_bytes += bytes;
    }
}

fn close(files: &mut Files, thread: u32) {
    if let Some(file) = files.threads[thread as usize].file.take() {
        files.set.close(file);
    }
}

fn change_inode(files: &mut Files, file: u32) {
    files.set.changed_by(file, files.journal.number());
    change(files, files.layout.inode_block(file));
}

/// Extends a file to `bytes` bytes: writes its last page and all new ones. Changes nothing if they do not fit.
fn extend(files: &mut Files, file: u32, bytes: u64) -> Result<(), LayoutError> {
    let before = files.set.get(file).bytes();
    let have = files.layout.blocks_of(file);
    let want = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).map_err(|_| LayoutError)?;
    let last = files.layout.extents(file).last().map(|extent| extent.block + extent.count - 1);
    let mut new = std::mem::take(&mut files.scratch);
    if let Err(full) = files.layout.grow(file, want.saturating_sub(have), &mut new) {
        files.scratch = new;
        return Err(full);
    }
    files.write_back.add(file);
    if let Some(last) = last.filter(|_| !before.is_multiple_of(BLOCK_BYTES)) {
        write_back::write_page(files, last);
    }
    for extent in &new {
        for block in extent.block..extent.block + extent.count {
            write_back::write_page(files, block);
        }
        change(files, files.layout.block_bitmap(extent.block));
    }
    files.scratch = new;
    files.set.set_bytes(file, bytes);
    change_inode(files, file);
    Ok(())
}

/// Frees the blocks of a file, none of which is in flight.
fn empty(files: &mut Files, file: u32) {
    let mut freed = std::mem::take(&mut files.scratch);
    // The last pages of a log may be in flight and stay.
    let blocks = files.layout.extents(file).iter().flat_map(|e| e.block..e.block + e.count);
    let moving = |block: u32| files.cache.is_reading(block) || files.cache.is_writing(block);
    if blocks.into_iter().any(moving) {
        files.scratch = freed;
        return;
    }
    files.layout.free(file, &mut freed);
    for extent in &freed {
        for block in extent.block..extent.block + extent.count {
            files.cache.forget(block);
            #[cfg(test)]
            files.newest.remove(&block);
        }
        change(files, files.layout.block_bitmap(extent.block));
    }
    files.scratch = freed;
    files.set.set_bytes(file, 0);
    change_inode(files, file);
}

/// Reports whether a write finds no blocks while freed ones wait for their transaction: like ext4, it then waits for that.
fn waits_for_blocks(files: &mut Files, thread: u32, operation: Operation) -> bool {
    let file = match operation {
        Operation::AppendLog => files.config.files,
        _ => files.threads[thread as usize].file.unwrap_or(files.config.files),
    };
    let bytes = match operation {
        Operation::WriteWhole => files.set.get(file).wanted_bytes(),
        _ => files.set.get(file).bytes() + files.config.append_bytes,
    };
    let wanted = bytes.div_ceil(BLOCK_BYTES);
    let more = wanted.saturating_sub(files.layout.blocks_of(file).into());
    if more <= files.layout.free_blocks() || files.layout.freed() == 0 {
        return false;
    }
    files.journal.wait(thread, files.journal.number());
    journal::start_commit(files);
    true
}

/// Fsync: writes dirty pages of the file and waits until none is in flight; then the journal commits.
fn sync(files: &mut Files, thread: u32) {
    let Some(file) = files.threads[thread as usize].file else { return end(files, thread) };
    if files.threads[thread as usize].step == Step::Committing {
        return end(files, thread);
    }
    let mut blocks = std::mem::take(&mut files.threads[thread as usize].blocks);
    let mut dirty = false;
    for (at, &block) in blocks.iter().enumerate() {
        if write_back::may_write(files, block) {
            let follows = |(&next, step): (&u32, u32)| next == block + step;
            let count = blocks[at..].iter().zip(0..).take_while(|&pair| follows(pair)).count() as u32;
            write_back::write_run(files, Extent { block, count });
            dirty = true;
        }
    }
    blocks.clear();
    if dirty {
        needs(files, Operation::Fsync, file, &mut blocks);
    }
    let record = &mut files.threads[thread as usize];
    (record.blocks, record.looked) = (blocks, 0);
    if dirty {
        // The writes wake the thread.
        has_waited(files, thread);
        return;
    }
    record.step = Step::Committing;
    let transaction = files.set.get(file).transaction();
    if files.journal.is_done(transaction) {
        return end(files, thread);
    }
    files.journal.wait(thread, transaction);
    journal::start_commit(files);
}
