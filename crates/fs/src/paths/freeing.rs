//! Freeing: blocks beyond the end of a file, and files without a name, are removed step by step.

use super::room;
use crate::key::{Inode, Key, Kind, blocks_of};
use crate::objects::Core;
use crate::orphans::Freeing;
use crate::stop::Stop;
use crate::types::{Errno, Ino};

/// Extents freed per step.
const FREED_MAX: usize = 256;

/// Finishes the freeing of blocks beyond the end of a file before these positions are reused.
pub(crate) fn finish_cut(core: &mut Core, ino: Ino) -> Result<(), Stop> {
    while core.orphans.is_cut(ino) {
        cut_behind_end(core, ino)?;
    }
    Ok(())
}

/// Takes one step of freeing blocks beyond the end of a file.
fn cut_behind_end(core: &mut Core, ino: Ino) -> Result<(), Stop> {
    let inode = core.catalog.inode(ino)?;
    if free_from(core, ino, blocks_of(inode.size))? {
        if inode.links > 0 {
            core.catalog.find(Key::orphan(ino))?;
            core.catalog.delete(Key::orphan(ino));
        }
        core.orphans.cut_ended(ino);
    }
    Ok(())
}

/// Frees some extents from a block on; true: none are left.
fn free_from(core: &mut Core, ino: Ino, from: u64) -> Result<bool, Stop> {
    for _ in 0..FREED_MAX {
        let Some((_, extent, _)) = core.catalog.extent_at(ino, from)? else {
            return Ok(true);
        };
        let to = extent.last() + 1;
        core.catalog.touch_cut(ino, from, to)?;
        let mut inode = core.catalog.inode(ino)?;
        room::to_free(core)?;
        let freed = core.catalog.cut(ino, from, to);
        inode.blocks -= freed;
        core.catalog.put_inode(ino, &inode);
    }
    Ok(false)
}

/// One step of removing a file without name or holds; true: it is removed.
fn remove_file(core: &mut Core, ino: Ino) -> Result<bool, Stop> {
    room::to_free(core)?;
    if let Some(place) = core.catalog.find(Key::inode(ino))? {
        let mut inode = Inode::decode(core.catalog.value(place)).ok_or(Errno::Io)?;
        let dropped = drop_pages(core, ino, 0, u64::MAX);
        // A step that waits for space must not write anything: it would use up what the cleaner frees for it.
        if dropped > 0 {
            inode.blocks -= dropped;
            core.catalog.put_inode(ino, &inode);
        }
    }
    if !free_from(core, ino, 0)? {
        return Ok(false);
    }
    let first = Key::new(ino.0, Kind::Inode, 0);
    for _ in 0..FREED_MAX {
        match core.catalog.seek(Key(first.0 + 1))? {
            Some((key, _)) if key.object() == ino.0 => {
                room::to_free(core)?;
                core.catalog.delete(key);
            }
            _ => {
                core.catalog.find(Key::orphan(ino))?;
                if core.catalog.find(first)?.is_some() {
                    room::to_free(core)?;
                    core.catalog.delete(first);
                }
                core.catalog.find(Key::orphan(ino))?;
                core.catalog.delete(Key::orphan(ino));
                core.orphans.gone(ino);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// One background step of freeing; false: there is nothing to free.
pub(crate) fn reap(core: &mut Core) -> Result<bool, Stop> {
    match core.orphans.next() {
        Some(Freeing::File(ino)) => _ = remove_file(core, ino)?,
        Some(Freeing::Blocks(ino)) => cut_behind_end(core, ino)?,
        None => return Ok(false),
    }
    core.commits.changed();
    core.turn.went_on();
    Ok(true)
}

/// Frees what can be freed at once.
pub(crate) fn reap_now(core: &mut Core) {
    for _ in 0..4 {
        if !matches!(reap(core), Ok(true)) {
            return;
        }
    }
}

/// Drops pages of a file; returns how many had no extent.
pub(crate) fn drop_pages(core: &mut Core, ino: Ino, from: u64, to: u64) -> u64 {
    core.reads.cancel(ino, from, to);
    core.pages.drop_range(ino, from, to)
}
