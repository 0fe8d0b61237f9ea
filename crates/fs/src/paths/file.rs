//! Contents of files: reading, writing, truncating, promising space, seeking.

use super::permissions::{access_time, clear_privileges};
use super::{fetch, freeing, room};
use crate::block::{ReadData, WriteData};
use crate::catalog::Run;
use crate::key::{Extent, Inode, Key, blocks_of};
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{BLOCK_BYTES, Caller, Errno, FILE_BYTES_MAX, FallocateMode, FileKind, Ino, Time, Whence};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Read-ahead of a sequential reader, in blocks.
const READ_AHEAD: u64 = 32;

/// The part of a block that a range covers.
fn part(block: u64, offset: u64, end: u64) -> std::ops::Range<usize> {
    let start = block * BLOCK;
    (offset.max(start) - start) as usize..(end.min(start + BLOCK) - start) as usize
}

fn regular(core: &mut Core, ino: Ino) -> Result<Inode, Stop> {
    let inode = core.catalog.inode(ino)?;
    match inode.kind {
        FileKind::File => Ok(inode),
        FileKind::Directory => Err(Errno::IsDirectory.into()),
        _ => Err(Errno::Invalid.into()),
    }
}

/// Reads a range into `out`.
pub(crate) fn read_file(
    core: &mut Core,
    now: Time,
    ino: Ino,
    offset: u64,
    size: usize,
    out: &mut ReadData,
) -> Result<(), Stop> {
    let mut inode = regular(core, ino)?;
    if offset >= inode.size {
        return Ok(());
    }
    let end = inode.size.min(offset.saturating_add(size as u64));
    let last = (end - 1) / BLOCK;
    let ahead = (last + READ_AHEAD).min((inode.size - 1) / BLOCK);
    let (mut run, mut run_first, mut missing) = (Run::default(), 0, false);
    for block in offset / BLOCK..=last {
        let part = part(block, offset, end);
        if let Some(page) = core.pages.find(ino, block) {
            if !missing {
                out.push(Some(core.pages.shared(page)), part);
            }
            continue;
        }
        if block >= run.end {
            (run, run_first) = (core.catalog.run_at(ino, block)?, block);
        }
        let address = if run.address == 0 { 0 } else { run.address + (block - run_first) };
        if address == 0 {
            out.push(None, part);
        } else {
            missing = true;
            fetch::want_data(core, ino, block, address, ahead.min(run.end - 1))?;
        }
    }
    if missing {
        return Err(Stop::Data);
    }
    if let Some(time) = access_time(core, now, &inode)
        && room::to_free(core).is_ok()
    {
        inode.accessed = time;
        core.catalog.put_inode(ino, &inode);
        core.commits.changed();
    }
    Ok(())
}

/// Writes all of the data, or nothing.
pub(crate) fn write_file(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    ino: Ino,
    written: &WriteData,
) -> Result<(), Stop> {
    let (offset, data) = (written.offset, written.data);
    core.life.writable()?;
    freeing::finish_cut(core, ino)?;
    let mut inode = regular(core, ino)?;
    let end = offset.checked_add(data.len() as u64).filter(|&end| end <= FILE_BYTES_MAX);
    let end = end.ok_or(Errno::FileTooBig)?;
    if data.is_empty() {
        return Ok(());
    }
    let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
    let new = prepare_write(core, ino, &inode, offset, end)?;
    room::to_write(core, new, last - first + 1)?;

    for block in first..=last {
        let whole = written.whole(block);
        let is_part = whole.is_none();
        let page = match whole {
            Some(whole) => core.pages.replace(ino, block, whole),
            None => core.pages.find(ino, block).unwrap_or_else(|| core.pages.insert(ino, block, None)),
        };
        core.pages.make_dirty(page, false);
        if core.pages.is_fresh(block - first) {
            core.pages.make_delayed(page);
        }
        if is_part {
            let part = part(block, offset, end);
            let from = (block * BLOCK + part.start as u64 - offset) as usize;
            let length = part.len();
            core.pages.data_mut(page)[part].copy_from_slice(&data[from..from + length]);
        }
    }
    inode.blocks += new;
    inode.size = inode.size.max(end);
    put_changed(core, now, caller, ino, inode);
    Ok(())
}

/// Stores the inode of a file whose content `caller` has changed.
fn put_changed(core: &mut Core, now: Time, caller: &Caller, ino: Ino, mut inode: Inode) {
    (inode.modified, inode.changed) = (now, now);
    if !caller.is_root() {
        clear_privileges(&mut inode);
    }
    core.catalog.put_inode(ino, &inode);
    core.commits.changed();
}

/// Loads partly written blocks, and notes which blocks have no extent yet.
fn prepare_write(core: &mut Core, ino: Ino, inode: &Inode, offset: u64, end: u64) -> Result<u64, Stop> {
    core.pages.begin_write();
    let (mut run, mut run_first) = (Run::default(), 0);
    let (mut new, mut missing) = (0, false);
    for block in offset / BLOCK..=(end - 1) / BLOCK {
        if block >= run.end {
            (run, run_first) = (core.catalog.run_at(ino, block)?, block);
        }
        let resident = core.pages.has(ino, block);
        let is_new = !run.counted && !resident;
        core.pages.add_fresh(is_new);
        new += u64::from(is_new);
        let part = part(block, offset, end);
        let keeps = part.start > 0 || (end < inode.size && part.end < BLOCK_BYTES);
        if keeps && !resident && run.counted && run.address != 0 && block * BLOCK < inode.size {
            missing = true;
            fetch::want_data(core, ino, block, run.address + (block - run_first), block)?;
        }
    }
    if missing { Err(Stop::Data) } else { Ok(new) }
}

/// Loads a block; true: it has data.
fn bring(core: &mut Core, ino: Ino, block: u64) -> Result<bool, Stop> {
    if core.pages.has(ino, block) {
        return Ok(true);
    }
    let run = core.catalog.run_at(ino, block)?;
    if run.address == 0 {
        return Ok(false);
    }
    fetch::want_data(core, ino, block, run.address, block)?;
    Err(Stop::Data)
}

/// Zeroes a part of a block, if it has data.
fn zero(core: &mut Core, ino: Ino, block: u64, part: std::ops::Range<usize>) {
    if let Some(page) = core.pages.find(ino, block) {
        core.pages.make_dirty(page, false);
        core.pages.data_mut(page)[part].fill(0);
    }
}

/// Loads what [`resize`] changes.
pub(crate) fn prepare_resize(core: &mut Core, ino: Ino, inode: &Inode, size: u64) -> Result<(), Stop> {
    core.catalog.touch(Key::orphan(ino), Key::orphan(ino))?;
    if size < inode.size && !size.is_multiple_of(BLOCK) {
        bring(core, ino, size / BLOCK)?;
        room::to_write(core, 0, 1)?;
    }
    core.catalog.extent_at(ino, blocks_of(size))?;
    Ok(())
}

/// Sets the size. Blocks beyond the new end are freed later.
pub(crate) fn resize(core: &mut Core, ino: Ino, mut inode: Inode, size: u64) -> Inode {
    if size < inode.size {
        let from = blocks_of(size);
        inode.blocks -= freeing::drop_pages(core, ino, from, u64::MAX);
        if !size.is_multiple_of(BLOCK) {
            zero(core, ino, size / BLOCK, (size % BLOCK) as usize..BLOCK_BYTES);
        }
    }
    // Space promised by fallocate beyond the end is given up, too.
    let from = blocks_of(size);
    if size <= inode.size && core.catalog.present(|catalog| catalog.extent_at(ino, from)).is_some() {
        core.catalog.put(Key::orphan(ino), &[]);
        core.orphans.add_cut(ino);
    }
    inode.size = size;
    inode
}

/// Promises space, or frees it.
pub(crate) fn allocate_file(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    ino: Ino,
    offset: u64,
    length: u64,
    mode: FallocateMode,
) -> Result<(), Stop> {
    core.life.writable()?;
    freeing::finish_cut(core, ino)?;
    let mut inode = core.catalog.inode(ino)?;
    if inode.kind != FileKind::File {
        return Err(Errno::NotSupported.into());
    }
    let end = match offset.checked_add(length) {
        _ if length == 0 => return Err(Errno::Invalid.into()),
        Some(end) if end <= FILE_BYTES_MAX => end,
        _ => return Err(Errno::FileTooBig.into()),
    };
    use FallocateMode::{Allocate, KeepSize, PunchHole, ZeroRange};
    // Space is promised first: an operation that stops afterwards has changed no readable data.
    if mode != PunchHole {
        promise(core, ino, &mut inode, offset / BLOCK, blocks_of(end))?;
    }
    if !matches!(mode, Allocate | KeepSize) {
        punch(core, ino, &mut inode, offset, end, mode != PunchHole)?;
    }
    if matches!(mode, Allocate | ZeroRange) {
        inode.size = inode.size.max(end);
    }
    put_changed(core, now, caller, ino, inode);
    Ok(())
}

/// Zeroes a range; whole blocks keep or lose their promise of space.
fn punch(
    core: &mut Core,
    ino: Ino,
    inode: &mut Inode,
    offset: u64,
    end: u64,
    keeps: bool,
) -> Result<(), Stop> {
    let (from, to) = (blocks_of(offset), end / BLOCK);
    let edges = [offset, end].map(|at| (at / BLOCK, !at.is_multiple_of(BLOCK)));
    for (block, cut) in edges {
        if cut {
            bring(core, ino, block)?;
        }
    }
    if from < to {
        core.catalog.touch_cut(ino, from, to)?;
    }
    room::to_write(core, 0, 2)?;
    for (block, cut) in edges {
        if cut {
            zero(core, ino, block, part(block, offset, end));
        }
    }
    if from < to {
        inode.blocks -= freeing::drop_pages(core, ino, from, to);
        inode.blocks -= core.catalog.cut(ino, from, to);
        if keeps {
            inode.blocks += to - from;
            core.catalog.put_extent(ino, Extent { first: from, count: to - from, address: 0 }, &[]);
        }
    }
    Ok(())
}

/// Gives every block without space an extent without an address.
fn promise(core: &mut Core, ino: Ino, inode: &mut Inode, from: u64, to: u64) -> Result<(), Stop> {
    let mut gaps = Vec::new();
    let (mut block, mut blocks) = (from, 0u64);
    while block < to {
        let run = core.catalog.run_at(ino, block)?;
        let mut end = run.end.min(to);
        if !run.counted {
            // A dirty page without an extent already has its space.
            match core.pages.next_dirty(ino, block) {
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
    core.catalog.touch(Key::extent(ino, from), Key::extent(ino, to))?;
    room::to_add(core, blocks, 1 + gaps.len() as u64)?;
    for gap in gaps {
        core.catalog.put_extent(ino, gap, &[]);
    }
    inode.blocks += blocks;
    core.catalog.put_inode(ino, inode);
    Ok(())
}

/// Finds data or a hole from an offset on, like `lseek`.
pub(crate) fn seek_file(core: &mut Core, ino: Ino, offset: u64, whence: Whence) -> Result<u64, Stop> {
    let inode = regular(core, ino)?;
    if offset >= inode.size {
        return Err(Errno::NoAddress.into());
    }
    let mut block = offset / BLOCK;
    while block * BLOCK < inode.size {
        let run = core.catalog.run_at(ino, block)?;
        let dirty = core.pages.next_dirty(ino, block);
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
