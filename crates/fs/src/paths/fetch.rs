//! Fetching: missing blocks are read, and delivered to the tree, the pages, or the operation that asked.

use crate::batch::Header;
use crate::block::{block_of, shared};
use crate::jobs::JobError;
use crate::objects::Core;
use crate::reads::ReadFor;
use crate::stop::Stop;
use crate::tree::Miss;
use crate::types::{BLOCK_BYTES, Errno, Ino};

fn want(core: &mut Core, address: u64, blocks: u32, what: ReadFor) {
    let id = core.turn.new_id();
    core.space.queue(address, blocks.into(), true);
    core.reads.ask(id, address, blocks, what);
}

/// Requests a node.
pub(crate) fn want_node(core: &mut Core, miss: Miss) -> Result<(), Errno> {
    if core.reads.take_failure(miss.child.at) {
        return Err(Errno::Io);
    }
    if let Some(block) = core.log.lost(miss.child.at) {
        let right = core.catalog.arrived(miss, block_of(&block));
        return if right { Ok(()) } else { Err(Errno::Io) };
    }
    if !core.space.is_block(miss.child.at) {
        return Err(Errno::Io);
    }
    if !core.reads.has(miss.child.at) {
        want(core, miss.child.at, 1, ReadFor::Node(miss));
    }
    Ok(())
}

/// Requests blocks of a file, from the one at `address` to `last` of the same run.
pub(crate) fn want_data(core: &mut Core, ino: Ino, block: u64, address: u64, last: u64) -> Result<(), Stop> {
    if core.reads.is_unreadable(address) {
        return Err(Errno::Io.into());
    }
    if core.reads.has(address) {
        return Ok(());
    }
    if !core.space.holds_data(address) {
        return Err(Errno::Io.into());
    }
    if let Some(data) = core.log.lost(address) {
        core.pages.insert(ino, block, Some((data, None)));
        return Ok(());
    }
    let most = if core.reads.is_fragile(address) { 1 } else { last + 1 - block };
    let mut blocks = 1;
    while blocks < most
        && !core.pages.has(ino, block + blocks)
        && !core.reads.has(address + blocks)
        && core.space.holds_data(address + blocks)
        && !core.log.has_lost(address + blocks)
        && !core.reads.is_damaged(address + blocks)
    {
        blocks += 1;
    }
    let sums = core.catalog.sums_of(ino, block, blocks)?;
    want(core, address, blocks as u32, ReadFor::Data { ino, block, sums });
    Ok(())
}

/// Requests blocks that neither tree nor pages hold. Returns them once they have arrived; `None` inside: they are
/// unreadable.
pub(crate) fn want_raw(core: &mut Core, address: u64, blocks: u32) -> Option<Option<Vec<u8>>> {
    let come = core.reads.take_raw(address);
    if come.is_none() && !core.reads.reads_raw(address) {
        want(core, address, blocks, ReadFor::Raw);
    }
    come
}

/// Finds the header at an address, or else its copy among the next `blocks`; `ahead` of these are known to have none. `None`: blocks are being read.
pub(crate) fn want_header(
    core: &mut Core,
    address: u64,
    blocks: u32,
    ahead: &mut u32,
) -> Option<Option<Header>> {
    while *ahead < blocks {
        let at = address + u64::from(*ahead);
        let block = want_raw(core, at, 1)?;
        let decode = |block: &[u8]| match *ahead {
            0 => Header::decode(block, at, core.log.file_system()),
            _ => Header::decode_copy(block, at, core.log.file_system())
                .filter(|header| header.address == address),
        };
        let found = block.as_deref().and_then(decode);
        if found.is_some() {
            return Some(found);
        }
        *ahead += 1;
    }
    Some(None)
}

/// Reports whether data read from an address still belong to a file, because names can end.
fn still_lies(core: &Core, ino: Ino, block: u64, address: u64) -> bool {
    let layout = *core.space.layout();
    !layout.is_name(address) || core.names.owners.get(layout.name_of(address)) == Some((ino, block))
}

/// Handles the end of a read.
pub(crate) fn read_ended(core: &mut Core, id: u64, outcome: Result<Vec<u8>, JobError>) {
    let Some(read) = core.reads.end(id) else { return };
    core.space.queue(read.address, read.blocks.into(), false);
    if read.cancelled {
        return;
    }
    let whole = outcome.ok().filter(|data| data.len() == read.blocks as usize * BLOCK_BYTES);
    match (read.what, whole) {
        (ReadFor::Raw, data) => core.reads.keep_raw(read.address, data),
        (ReadFor::Node(miss), Some(data)) => {
            let block = data.first_chunk().map(block_of);
            if !block.is_some_and(|block| core.catalog.arrived(miss, block)) {
                core.reads.failed(read.address, 1);
            }
        }
        (ReadFor::Data { ino, block, sums }, Some(data)) => {
            for (n, bytes) in data.as_chunks().0.iter().enumerate() {
                let sum = sums.get(n).copied().flatten();
                if !still_lies(core, ino, block + n as u64, read.address + n as u64) {
                    // The block was moved meanwhile: the operation that asked looks there.
                } else if sum.is_some_and(|sum| crc32c::crc32c(bytes) != sum) {
                    core.reads.failed(read.address + n as u64, 1);
                } else if !core.pages.has(ino, block + n as u64) {
                    core.pages.insert(ino, block + n as u64, Some((shared(bytes), sum)));
                }
            }
        }
        (ReadFor::Data { ino, block, .. }, None)
            if read.blocks == 1 && !still_lies(core, ino, block, read.address) => {}
        (_, None) => core.reads.failed(read.address, read.blocks),
    }
}
