//! Data of files: read, write, truncate, fallocate, seek.

use super::Fs;
use super::attributes::clear_privileges;
use super::block::{ReadData, WriteData};
use super::catalog::Run;
use super::extents::blocks_of;
use super::key::{Extent, Inode, Key};
use super::stop::Stop;
use super::types::{
    BLOCK_BYTES, Caller, Errno, FILE_BYTES_MAX, FallocateMode, FileKind, Ino, Step, Time, Whence,
};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Blocks read ahead of a sequential reader.
const READ_AHEAD: u64 = 32;

/// The part of a block that a range covers.
fn part(block: u64, offset: u64, end: u64) -> std::ops::Range<usize> {
    let start = block * BLOCK;
    (offset.max(start) - start) as usize..(end.min(start + BLOCK) - start) as usize
}

impl Fs {
    fn regular(&mut self, ino: Ino) -> Result<Inode, Stop> {
        let inode = self.catalog.inode(ino)?;
        match inode.kind {
            FileKind::File => Ok(inode),
            FileKind::Directory => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    /// Reads up to `size` bytes into `out`, which is cleared; fewer at the end of the file.
    pub fn read(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<Step<()>, Errno> {
        let mut data = ReadData::default();
        let done = self.read_data(now, ino, offset, size, &mut data);
        data.take(out);
        done
    }

    /// Like [`Fs::read`], without a copy.
    pub fn read_data(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        size: usize,
        out: &mut ReadData,
    ) -> Result<Step<()>, Errno> {
        self.begin(now);
        out.clear();
        let result = self.read_file(now, ino, offset, size, out);
        self.end(result)
    }

    fn read_file(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        size: usize,
        out: &mut ReadData,
    ) -> Result<(), Stop> {
        let mut inode = self.regular(ino)?;
        if offset >= inode.size {
            return Ok(());
        }
        let end = inode.size.min(offset.saturating_add(size as u64));
        let last = (end - 1) / BLOCK;
        let ahead = (last + READ_AHEAD).min((inode.size - 1) / BLOCK);
        let (mut run, mut run_first, mut missing) = (Run::default(), 0, false);
        for block in offset / BLOCK..=last {
            let part = part(block, offset, end);
            if let Some(page) = self.pages.find(ino, block) {
                if !missing {
                    out.push(Some(self.pages.shared(page)), part);
                }
                continue;
            }
            if block >= run.end {
                (run, run_first) = (self.catalog.run_at(ino, block)?, block);
            }
            let address = if run.address == 0 { 0 } else { run.address + (block - run_first) };
            if address == 0 {
                out.push(None, part);
            } else {
                missing = true;
                self.want_data(ino, block, address, ahead.min(run.end - 1))?;
            }
        }
        if missing {
            return Err(Stop::Data);
        }
        if let Some(time) = self.access_time(now, &inode)
            && self.room_to_free().is_ok()
        {
            inode.accessed = time;
            self.catalog.put_inode(ino, &inode);
            self.changes += 1;
        }
        Ok(())
    }

    /// Writes all of `data`, or nothing.
    pub fn write(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<Step<()>, Errno> {
        self.write_data(now, caller, ino, &WriteData::new(offset, data))
    }

    /// Like [`Fs::write`], of data that were prepared without the file system.
    pub fn write_data(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        data: &WriteData,
    ) -> Result<Step<()>, Errno> {
        self.begin(now);
        let result = self.write_file(now, caller, ino, data);
        self.end(result)
    }

    fn write_file(&mut self, now: Time, caller: &Caller, ino: Ino, written: &WriteData) -> Result<(), Stop> {
        let (offset, data) = (written.offset, written.data);
        self.writable()?;
        self.finish_cut(ino)?;
        let mut inode = self.regular(ino)?;
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= FILE_BYTES_MAX);
        let end = end.ok_or(Errno::FileTooBig)?;
        if data.is_empty() {
            return Ok(());
        }
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        let mut fresh = std::mem::take(&mut self.fresh);
        let prepared = self.prepare_write(ino, &inode, offset, end, &mut fresh);
        self.fresh = fresh;
        let new = prepared?;
        self.room_for_write(new, last - first + 1)?;

        for block in first..=last {
            let whole = written.whole(block);
            let is_part = whole.is_none();
            let page = match whole {
                Some(whole) => self.pages.replace(ino, block, whole),
                None => self.pages.find(ino, block).unwrap_or_else(|| self.pages.insert(ino, block, None)),
            };
            self.pages.make_dirty(page, false);
            if self.fresh[(block - first) as usize] {
                self.pages.make_delayed(page);
            }
            if is_part {
                let part = part(block, offset, end);
                let from = (block * BLOCK + part.start as u64 - offset) as usize;
                let length = part.len();
                self.pages.data_mut(page)[part].copy_from_slice(&data[from..from + length]);
            }
        }
        inode.blocks += new;
        inode.size = inode.size.max(end);
        (inode.modified, inode.changed) = (now, now);
        if !caller.is_root() {
            clear_privileges(&mut inode);
        }
        self.catalog.put_inode(ino, &inode);
        self.changes += 1;
        Ok(())
    }

    /// Brings the blocks that are written in part, and notes which blocks nothing counts yet.
    fn prepare_write(
        &mut self,
        ino: Ino,
        inode: &Inode,
        offset: u64,
        end: u64,
        fresh: &mut Vec<bool>,
    ) -> Result<u64, Stop> {
        fresh.clear();
        let (mut run, mut run_first) = (Run::default(), 0);
        let (mut new, mut missing) = (0, false);
        for block in offset / BLOCK..=(end - 1) / BLOCK {
            if block >= run.end {
                (run, run_first) = (self.catalog.run_at(ino, block)?, block);
            }
            let resident = self.pages.has(ino, block);
            let is_new = !run.counted && !resident;
            fresh.push(is_new);
            new += u64::from(is_new);
            let part = part(block, offset, end);
            let keeps = part.start > 0 || (end < inode.size && part.end < BLOCK_BYTES);
            if keeps && !resident && run.counted && run.address != 0 && block * BLOCK < inode.size {
                missing = true;
                self.want_data(ino, block, run.address + (block - run_first), block)?;
            }
        }
        if missing { Err(Stop::Data) } else { Ok(new) }
    }

    /// Drops pages of a file; gives how many nothing else counted.
    pub(super) fn drop_pages(&mut self, ino: Ino, from: u64, to: u64) -> u64 {
        self.reads.cancel(ino, from, to);
        self.pages.drop_range(ino, from, to).delayed
    }

    /// Brings a block if it has data that are not in memory; true: it has data.
    fn bring(&mut self, ino: Ino, block: u64) -> Result<bool, Stop> {
        if self.pages.has(ino, block) {
            return Ok(true);
        }
        let run = self.catalog.run_at(ino, block)?;
        if run.address == 0 {
            return Ok(false);
        }
        self.want_data(ino, block, run.address, block)?;
        Err(Stop::Data)
    }

    /// Makes a part of a block zero, if it has data.
    fn zero(&mut self, ino: Ino, block: u64, part: std::ops::Range<usize>) {
        if let Some(page) = self.pages.find(ino, block) {
            self.pages.make_dirty(page, false);
            self.pages.data_mut(page)[part].fill(0);
        }
    }

    /// Brings what [`Fs::resize`] changes.
    pub(super) fn prepare_resize(&mut self, ino: Ino, inode: &Inode, size: u64) -> Result<(), Stop> {
        self.catalog.touch(Key::orphan(ino), Key::orphan(ino))?;
        if size < inode.size && !size.is_multiple_of(BLOCK) {
            self.bring(ino, size / BLOCK)?;
            self.room_for_write(0, 1)?;
        }
        self.catalog.extent_at(ino, blocks_of(size))?;
        Ok(())
    }

    /// Sets the size. Blocks behind the new end are freed later.
    pub(super) fn resize(&mut self, ino: Ino, mut inode: Inode, size: u64) -> Inode {
        if size < inode.size {
            let from = blocks_of(size);
            inode.blocks -= self.drop_pages(ino, from, u64::MAX);
            if !size.is_multiple_of(BLOCK) {
                self.zero(ino, size / BLOCK, (size % BLOCK) as usize..BLOCK_BYTES);
            }
        }
        // Space that fallocate promised behind the end is given up, too.
        let from = blocks_of(size);
        if size <= inode.size && self.catalog.present(|catalog| catalog.extent_at(ino, from)).is_some() {
            self.catalog.put(Key::orphan(ino), &[]);
            self.orphans.add_cut(ino);
        }
        inode.size = size;
        inode
    }

    /// Promises space, or frees it.
    pub fn fallocate(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        offset: u64,
        length: u64,
        mode: FallocateMode,
    ) -> Result<Step<()>, Errno> {
        self.begin(now);
        let result = self.allocate_file(now, caller, ino, offset, length, mode);
        self.end(result)
    }

    fn allocate_file(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        offset: u64,
        length: u64,
        mode: FallocateMode,
    ) -> Result<(), Stop> {
        self.writable()?;
        self.finish_cut(ino)?;
        let mut inode = self.catalog.inode(ino)?;
        if inode.kind != FileKind::File {
            return Err(Errno::NotSupported.into());
        }
        let end = match offset.checked_add(length) {
            _ if length == 0 => return Err(Errno::Invalid.into()),
            Some(end) if end <= FILE_BYTES_MAX => end,
            _ => return Err(Errno::FileTooBig.into()),
        };
        use FallocateMode::{Allocate, KeepSize, PunchHole, ZeroRange};
        // Space is promised first: an operation that stops behind it has changed nothing that can be read.
        if mode != PunchHole {
            self.promise(ino, &mut inode, offset / BLOCK, blocks_of(end))?;
        }
        if !matches!(mode, Allocate | KeepSize) {
            self.punch(ino, &mut inode, offset, end, mode != PunchHole)?;
        }
        if matches!(mode, Allocate | ZeroRange) {
            inode.size = inode.size.max(end);
        }
        (inode.modified, inode.changed) = (now, now);
        if !caller.is_root() {
            clear_privileges(&mut inode);
        }
        self.catalog.put_inode(ino, &inode);
        self.changes += 1;
        Ok(())
    }

    /// Makes a range zero; whole blocks keep a promise of space, or lose it.
    fn punch(&mut self, ino: Ino, inode: &mut Inode, offset: u64, end: u64, keeps: bool) -> Result<(), Stop> {
        let (from, to) = (blocks_of(offset), end / BLOCK);
        let edges = [offset, end].map(|at| (at / BLOCK, !at.is_multiple_of(BLOCK)));
        for (block, cut) in edges {
            if cut {
                self.bring(ino, block)?;
            }
        }
        if from < to {
            self.catalog.touch_cut(ino, from, to)?;
        }
        self.room_for_write(0, 2)?;
        for (block, cut) in edges {
            if cut {
                self.zero(ino, block, part(block, offset, end));
            }
        }
        if from < to {
            inode.blocks -= self.drop_pages(ino, from, to);
            inode.blocks -= self.catalog.cut(ino, from, to);
            if keeps {
                inode.blocks += to - from;
                self.catalog.put_extent(ino, Extent { first: from, count: to - from, address: 0 }, &[]);
            }
        }
        Ok(())
    }

    /// Gives every block that has no space an extent without an address.
    fn promise(&mut self, ino: Ino, inode: &mut Inode, from: u64, to: u64) -> Result<(), Stop> {
        let mut gaps = Vec::new();
        let (mut block, mut blocks) = (from, 0u64);
        while block < to {
            let run = self.catalog.run_at(ino, block)?;
            let mut end = run.end.min(to);
            if !run.counted {
                // A written page that no extent counts has its space.
                match self.pages.next_dirty(ino, block) {
                    Some(page) if page == block => end = block + 1,
                    page => {
                        end = end.min(page.unwrap_or(u64::MAX));
                        gaps.push(Extent { first: block, count: end - block, address: 0 });
                        blocks += end - block;
                    }
                }
            }
            block = end;
        }
        self.catalog.touch(Key::extent(ino, from), Key::extent(ino, to))?;
        self.room_for(blocks, 1 + gaps.len() as u64)?;
        for gap in gaps {
            self.catalog.put_extent(ino, gap, &[]);
        }
        inode.blocks += blocks;
        self.catalog.put_inode(ino, inode);
        Ok(())
    }

    /// Looks for data or for a hole from an offset on, as `lseek` does.
    pub fn seek_data(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        whence: Whence,
    ) -> Result<Step<u64>, Errno> {
        self.begin(now);
        let result = self.seek_file(ino, offset, whence);
        self.end(result)
    }

    fn seek_file(&mut self, ino: Ino, offset: u64, whence: Whence) -> Result<u64, Stop> {
        let inode = self.regular(ino)?;
        if offset >= inode.size {
            return Err(Errno::NoAddress.into());
        }
        let mut block = offset / BLOCK;
        while block * BLOCK < inode.size {
            let run = self.catalog.run_at(ino, block)?;
            let dirty = self.pages.next_dirty(ino, block);
            let is_data = run.address != 0 || dirty == Some(block);
            if is_data == (whence == Whence::Data) {
                return Ok(offset.max(block * BLOCK));
            }
            block = match (run.address != 0, dirty) {
                (true, _) => run.end,
                (false, Some(page)) if page == block => block + 1,
                (false, page) => run.end.min(page.unwrap_or(u64::MAX)),
            };
            if block >= FILE_BYTES_MAX / BLOCK {
                break;
            }
        }
        match whence {
            Whence::Data => Err(Errno::NoAddress.into()),
            Whence::Hole => Ok(inode.size),
        }
    }
}
