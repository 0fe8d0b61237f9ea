//! Room: how much space an operation may take, and when it has to wait.
//!
//! Space is reserved when data are accepted, so `ENOSPC` is returned then or never. A sixteenth of the segments, but at least ten, is
//! reserved for the cleaner and for checkpoints; `statfs` does not count it. Operations that free space reserve none.

use crate::backend::NamesShape;
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{Errno, StatFs};

/// Data blocks per reserved node: extents of one block each need this many nodes.
const BLOCKS_A_NODE: u64 = 64;

/// Minimum number of names and files per node.
const ENTRIES_A_NODE: u64 = 8;

/// Separately named blocks whose extents fit into a half-full node.
const BLOCKS_A_NAMED_NODE: u64 = 32;

/// Minimum number of names reserved for overwriting.
const NAMES_KEPT: u64 = 64;

/// Blocks taken by data, by data still in memory, and by nodes.
fn used(core: &Core) -> u64 {
    core.catalog.allocated() + core.pages.delayed() + core.catalog.node_count()
}

/// Maximum number of file blocks if these have names: a sixteenth is reserved for overwrites, and the metadata of that many single
/// blocks must fit into the log.
fn names_most(core: &Core, shape: NamesShape) -> u64 {
    let kept = (shape.capacity / 16).max(NAMES_KEPT);
    let nodes = core.space.layout().usable().saturating_sub(slack(core)) / 4 * 3;
    shape.capacity.saturating_sub(kept).min(nodes * BLOCKS_A_NAMED_NODE)
}

fn names_free(core: &Core, shape: NamesShape) -> u64 {
    names_most(core, shape).saturating_sub(core.catalog.allocated() + core.pages.delayed())
}

/// Number of nodes for which there is space if data have names.
fn nodes_free(core: &Core) -> u64 {
    core.space.layout().usable().saturating_sub(core.catalog.node_count() + slack(core))
}

/// Nodes that a tree of this size may gain by splits while a file system is full.
fn slack(core: &Core) -> u64 {
    core.space.layout().usable() / 256 + 4
}

/// Checks space and memory for this many more blocks and tree entries.
pub(crate) fn to_add(core: &mut Core, blocks: u64, entries: u64) -> Result<(), Stop> {
    let wanted = blocks.saturating_add(entries / ENTRIES_A_NODE);
    let is_full = match core.space.layout().backend.names() {
        Some(shape) => {
            names_free(core, shape) < blocks || nodes_free(core) < wanted.div_ceil(BLOCKS_A_NAMED_NODE)
        }
        None => used(core).saturating_add(wanted) + slack(core) > core.space.layout().usable(),
    };
    if is_full {
        // Segments being freed will be free soon.
        return Err(if core.orphans.next().is_some() { Stop::Room } else { Errno::NoSpace.into() });
    }
    to_free(core)
}

/// Checks space for new blocks, and memory for pages that become dirty.
pub(crate) fn to_write(core: &mut Core, new: u64, pages: u64) -> Result<(), Stop> {
    if new > 0 {
        to_add(core, new, 0)?;
    }
    to_name(core, pages)?;
    in_log(core, pages)
}

/// Checks memory and log for a change that takes no space.
pub(crate) fn to_free(core: &mut Core) -> Result<(), Stop> {
    in_log(core, 0)
}

fn in_log(core: &mut Core, pages: u64) -> Result<(), Stop> {
    let most = core.life.frames();
    if core.pages.dirty() as u64 + pages > (most / 4) as u64 && core.pages.dirty() > 0 {
        core.commits.want_now();
        return Err(Stop::Room);
    }
    if core.writes.bytes() > core.life.options().memory_bytes / 4 {
        return Err(Stop::Room);
    }
    if core.catalog.dirty() > most / 4 {
        core.want_checkpoint();
        return Err(Stop::Room);
    }
    // With names, data are not blocks of the log.
    let in_log = if core.space.has_names() { 0 } else { pages };
    let asked = in_log + core.space.layout().for_cleaner();
    if core.space.room() < need(core) + asked {
        core.cleaner.ask(asked);
        // A checkpoint writes nodes, so one is made when the cleaner has freed what it can until then.
        if core.space.unused() >= low_water(core) {
            core.want_checkpoint();
        }
        return Err(Stop::Room);
    }
    core.cleaner.ask(0);
    Ok(())
}

/// Ensures that names are left for the given number of further blocks, beyond the dirty ones.
fn to_name(core: &mut Core, pages: u64) -> Result<(), Stop> {
    let Some(shape) = core.space.layout().backend.names().filter(|_| pages > 0) else { return Ok(()) };
    if core.names.naming.is_active() {
        return Err(Stop::Room);
    }
    if !core.names.moves.is_reported() || core.commits.has_hole() {
        if core.checkpoints.is_idle() {
            core.want_checkpoint();
        }
        return Err(Stop::Room);
    }
    if core.names.taken() + core.pages.dirty() as u64 + pages > shape.capacity {
        if core.pages.dirty() == 0 && core.names.taken() == core.names.owners.len() {
            return Err(Errno::NoSpace.into());
        }
        core.names.frees.be_short();
        core.commits.want_now();
        return Err(Stop::Room);
    }
    Ok(())
}

/// Maximum number of blocks that a checkpoint made now would write: data with their headers, entries, nodes.
pub(crate) fn need(core: &Core) -> u64 {
    let data = core.pages.dirty() as u64;
    let each = u64::from(core.space.layout().batch_blocks());
    let page = u64::from(core.space.layout().padded(1));
    // A page that gets its address dirties a leaf of its file, with the nodes above it.
    let nodes = core.catalog.dirty() as u64 + nodes_of_pages(core, data);
    let entries = ((core.catalog.changed() + core.names.moves.cuts().len()) as u64 + data) / 6 + 2;
    let in_log = if core.space.has_names() { 0 } else { data };
    let blocks = in_log + nodes + entries;
    // Two headers per batch, and up to three blocks at the end of a segment that are too few for one; each is padded to a page.
    blocks + (5 + page - 1) * (blocks.div_ceil(each - 2) + 1)
}

/// Nodes dirtied by writing this many pages; rarely more, as neighbours share a leaf.
pub(crate) fn nodes_of_pages(core: &Core, pages: u64) -> u64 {
    (pages + u64::from(pages > 0) * 4).min(core.catalog.node_count() + pages / 16 + 4)
}

/// Number of empty segments below which the cleaner works. A waiting operation must find its blocks among them, whatever the size
/// of a segment.
pub(crate) fn low_water(core: &Core) -> usize {
    let asked = match core.cleaner.asked() {
        0 => 0,
        asked => (need(core) + asked).div_ceil(core.space.layout().segment_blocks.into()) as usize,
    };
    asked.max(core.space.layout().spare() as usize / 2 + 2)
}

/// Space of the file system. The cleaner can provide everything promised here.
pub(crate) fn statfs(core: &Core) -> StatFs {
    let usable = core.space.layout().usable();
    let (blocks, free) = match core.space.layout().backend.names() {
        Some(shape) => {
            let nodes = nodes_free(core).saturating_sub(2) * BLOCKS_A_NAMED_NODE;
            (names_most(core, shape), names_free(core, shape).min(nodes))
        }
        None => {
            let free = usable.saturating_sub(used(core) + slack(core));
            (usable - slack(core), free.saturating_sub(free / BLOCKS_A_NODE + 2))
        }
    };
    let files = core.catalog.new_ino().0;
    StatFs {
        blocks,
        blocks_free: free,
        files: files + free * ENTRIES_A_NODE,
        files_free: free * ENTRIES_A_NODE,
        id: core.log.file_system(),
    }
}
