//! The threads: what an operation needs, what it waits for, and what it does to files and pages.

use super::{Event, Files, METADATA, Purpose, RequestKind, Step, Until};
use crate::files::layout::{Extent, LayoutError};
use crate::files::personality::{Operation, Personality};
use crate::files::{BLOCK_BYTES, Picks};
use pellucid_flash::SimTime;

impl Files {
    pub(super) fn operation(&self, thread: u32) -> Operation {
        self.config.personality.operations()[self.threads[thread as usize].at]
    }

    pub(super) fn pages_copied(&self, thread: u32, operation: Operation) -> u64 {
        let file =
            self.threads[thread as usize].file.map(|file| self.files[file as usize]).unwrap_or_default();
        match operation {
            Operation::ReadWhole => file.bytes.div_ceil(BLOCK_BYTES),
            Operation::WriteWhole => file.wanted_bytes.div_ceil(BLOCK_BYTES),
            Operation::Append | Operation::AppendLog => self.config.append_bytes / 2 / BLOCK_BYTES,
            _ => 0,
        }
    }

    /// An operation goes on as far as it can.
    pub(super) fn work(&mut self, thread: u32) {
        if self.threads[thread as usize].step == Step::First && !self.prepare(thread) {
            return;
        }
        if !self.has_waited(thread) {
            return;
        }
        if self.operation(thread) == Operation::Fsync {
            return self.sync(thread);
        }
        match self.effect(thread) {
            Ok(()) => self.end(thread),
            Err(LayoutError) => self.leave_out(thread),
        }
    }

    /// The operation has ended; the thread goes on with its next.
    pub(super) fn end(&mut self, thread: u32) {
        let began = self.threads[thread as usize].began;
        if self.counts(began) {
            self.meter.record(self.operation(thread), self.now - began);
        }
        self.go_on(thread);
    }

    /// The operation finds no file, or no room; the thread goes on with its next.
    fn leave_out(&mut self, thread: u32) {
        if self.counts(self.threads[thread as usize].began) {
            self.meter.refused += 1;
        }
        self.go_on(thread);
    }

    /// Returns whether an operation that began then and ends now is one of the measurement.
    fn counts(&self, began: SimTime) -> bool {
        began >= self.measures_from() && self.now <= self.deadline()
    }

    fn go_on(&mut self, thread: u32) {
        let count = self.config.personality.operations().len();
        let record = &mut self.threads[thread as usize];
        record.at = (record.at + 1) % count;
        self.schedule(self.now, Event::Begin(thread));
    }

    pub(super) fn is_crowded(&self) -> bool {
        f64::from(self.cache.unwritten()) > self.config.host.dirty_share * f64::from(self.cache.capacity())
    }

    /// Chooses the file of an operation and asks for the blocks that it needs. False: not now.
    fn prepare(&mut self, thread: u32) -> bool {
        let operation = self.operation(thread);
        let writes = matches!(operation, Operation::WriteWhole | Operation::Append | Operation::AppendLog);
        if writes && self.is_crowded() {
            self.throttled.push(thread);
            self.write_back();
            return false;
        }
        if writes && self.waits_for_blocks(thread, operation) {
            return false;
        }
        let file = match operation {
            Operation::Create => self.pick(thread, false),
            Operation::Open | Operation::Delete | Operation::Stat => self.pick(thread, true),
            Operation::AppendLog => Some(self.config.files),
            _ => self.threads[thread as usize].file,
        };
        let Some(file) = file else {
            self.leave_out(thread);
            return false;
        };
        if matches!(operation, Operation::Create | Operation::Open | Operation::Delete) {
            self.files[file as usize].busy = true;
            self.threads[thread as usize].file = Some(file);
        }
        let mut blocks = std::mem::take(&mut self.threads[thread as usize].blocks);
        blocks.clear();
        let until = self.needs(operation, file, &mut blocks);
        let reading = until == Until::Read && operation == Operation::ReadWhole && self.is_measured();
        if reading {
            self.meter.read_pages += blocks.len() as u64;
            self.meter.hit_pages += blocks.iter().filter(|&&block| self.cache.has(block)).count() as u64;
        }
        if until == Until::Read {
            self.read_missing(&blocks);
        }
        let record = &mut self.threads[thread as usize];
        (record.blocks, record.looked, record.until, record.step) = (blocks, 0, until, Step::Ready);
        true
    }

    pub(super) fn is_measured(&self) -> bool {
        self.now >= self.measures_from() && self.now < self.deadline()
    }

    /// Blocks that an operation needs before its effect, and how.
    pub(super) fn needs(&self, operation: Operation, file: u32, blocks: &mut Vec<u32>) -> Until {
        let layout = &self.layout;
        let extents = layout.extents(file).iter();
        let own = extents.flat_map(|extent| extent.block..extent.block + extent.count);
        match operation {
            Operation::Open | Operation::Stat => {
                blocks.extend([layout.entry_block(file), layout.inode_block(file)]);
                Until::Read
            }
            Operation::Create => {
                blocks.extend([
                    layout.entry_block(file),
                    layout.inode_block(file),
                    layout.inode_bitmap(file),
                ]);
                Until::Read
            }
            Operation::ReadWhole => {
                blocks.extend(own);
                Until::Read
            }
            Operation::Append | Operation::AppendLog => {
                let partial = !self.files[file as usize].bytes.is_multiple_of(BLOCK_BYTES);
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

    /// A file that exists, or does not, and that no thread has open.
    fn pick(&mut self, thread: u32, exists: bool) -> Option<u32> {
        let files = self.config.files;
        let rotor = match (self.config.host.picks, exists) {
            (Picks::Random, _) => &mut (self.rng.below(files.into()) as u32),
            (_, false) => &mut self.free_rotor,
            (Picks::Together, true) => &mut self.rotor,
            (Picks::Apart, true) => &mut self.threads[thread as usize].rotor,
        };
        let from = *rotor;
        let is_one = |&file: &u32| {
            let state = &self.files[file as usize];
            state.exists == exists && !state.busy
        };
        // A webserver's files are read only, by any number of threads.
        let shared = self.config.personality == Personality::Webserver;
        let found = (from..files).chain(0..from).find(|file| shared || is_one(file))?;
        *rotor = (found + 1) % files;
        Some(found)
    }

    /// Reads those of these blocks that are not in memory, contiguous ones together.
    fn read_missing(&mut self, blocks: &[u32]) {
        let most = (self.config.host.read_bytes / BLOCK_BYTES).max(1) as u32;
        let mut run = Extent { block: 0, count: 0 };
        for &block in blocks {
            if self.cache.has(block) {
                self.cache.touch(block);
                continue;
            }
            self.cache.begin_read(block);
            if run.count > 0 && block == run.block + run.count && run.count < most {
                run.count += 1;
                continue;
            }
            self.request(Purpose::Read, RequestKind::Read, run);
            run = Extent { block, count: 1 };
        }
        self.request(Purpose::Read, RequestKind::Read, run);
    }

    /// Returns whether what a thread waits for has come; else it is woken.
    pub(super) fn has_waited(&mut self, thread: u32) -> bool {
        let record = &mut self.threads[thread as usize];
        while let Some(&block) = record.blocks.get(record.looked) {
            let waits = match record.until {
                Until::Read => self.cache.is_reading(block),
                Until::Written => self.cache.is_writing(block),
                Until::Still => self.cache.is_reading(block) || self.cache.is_writing(block),
            };
            if waits {
                self.waiters.entry(block).or_default().push(thread);
                return false;
            }
            record.looked += 1;
        }
        true
    }

    /// A metadata block is changed by the running transaction.
    fn change(&mut self, block: u32) {
        self.journal.running.insert(block);
        self.write_page(block);
        self.metadata.insert(block);
        if !std::mem::replace(&mut self.metadata_listed, true) {
            self.order.push_back(METADATA);
        }
    }

    /// Carries out an operation whose blocks are at hand. A write that does not fit writes nothing.
    fn effect(&mut self, thread: u32) -> Result<(), LayoutError> {
        let operation = self.operation(thread);
        let file = match operation {
            Operation::AppendLog => self.config.files,
            _ => self.threads[thread as usize].file.unwrap_or(0),
        };
        match operation {
            Operation::Create => {
                self.files[file as usize].exists = true;
                self.files[file as usize].bytes = 0;
                self.change(self.layout.inode_bitmap(file));
                self.change(self.layout.entry_block(file));
                self.change_inode(file);
            }
            Operation::WriteWhole => {
                let wanted = self.files[file as usize].wanted_bytes;
                self.extend(file, wanted)?;
                self.written(wanted);
            }
            Operation::Append | Operation::AppendLog => {
                let bytes = 1 + self.rng.below(self.config.append_bytes);
                let size = self.files[file as usize].bytes + bytes;
                let extended = self.extend(file, size);
                if operation == Operation::AppendLog && size > self.config.log_bytes {
                    // A log is rotated some time; what it held is dropped.
                    self.empty(file);
                }
                extended?;
                self.written(bytes);
            }
            Operation::ReadWhole if self.is_measured() => {
                self.meter.read_bytes += self.files[file as usize].bytes;
            }
            Operation::Delete => {
                self.empty(file);
                self.files[file as usize].exists = false;
                self.change(self.layout.inode_bitmap(file));
                self.change(self.layout.entry_block(file));
                self.close(thread);
            }
            Operation::Close => self.close(thread),
            Operation::ReadWhole | Operation::Open | Operation::Stat | Operation::Fsync => {}
        }
        self.write_back();
        Ok(())
    }

    fn written(&mut self, bytes: u64) {
        if self.is_measured() {
            self.meter.written_bytes += bytes;
        }
    }

    fn close(&mut self, thread: u32) {
        if let Some(file) = self.threads[thread as usize].file.take() {
            self.files[file as usize].busy = false;
        }
    }

    fn change_inode(&mut self, file: u32) {
        self.files[file as usize].transaction = self.journal.number;
        self.change(self.layout.inode_block(file));
    }

    /// A file comes to have `bytes` bytes: its last page and all new ones are written. Nothing has changed where they do not fit.
    fn extend(&mut self, file: u32, bytes: u64) -> Result<(), LayoutError> {
        let before = self.files[file as usize].bytes;
        let have = self.layout.blocks_of(file);
        let want = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).map_err(|_| LayoutError)?;
        let last = self.layout.extents(file).last().map(|extent| extent.block + extent.count - 1);
        let mut new = std::mem::take(&mut self.scratch);
        if let Err(full) = self.layout.grow(file, want.saturating_sub(have), &mut new) {
            self.scratch = new;
            return Err(full);
        }
        if !std::mem::replace(&mut self.files[file as usize].listed, true) {
            self.order.push_back(file);
        }
        if let Some(last) = last.filter(|_| !before.is_multiple_of(BLOCK_BYTES)) {
            self.write_page(last);
        }
        for extent in &new {
            for block in extent.block..extent.block + extent.count {
                self.write_page(block);
            }
            self.change(self.layout.block_bitmap(extent.block));
        }
        self.scratch = new;
        self.files[file as usize].bytes = bytes;
        self.change_inode(file);
        Ok(())
    }

    /// A file loses its blocks. None of them is under way.
    fn empty(&mut self, file: u32) {
        let mut freed = std::mem::take(&mut self.scratch);
        // The last pages of a log may be on their way: they stay with it.
        let blocks = self.layout.extents(file).iter().flat_map(|e| e.block..e.block + e.count);
        let moving = |block: u32| self.cache.is_reading(block) || self.cache.is_writing(block);
        if blocks.into_iter().any(moving) {
            self.scratch = freed;
            return;
        }
        self.layout.free(file, &mut freed);
        for extent in &freed {
            for block in extent.block..extent.block + extent.count {
                self.cache.forget(block);
                #[cfg(test)]
                self.newest.remove(&block);
            }
            self.change(self.layout.block_bitmap(extent.block));
        }
        self.scratch = freed;
        self.files[file as usize].bytes = 0;
        self.change_inode(file);
    }
}
