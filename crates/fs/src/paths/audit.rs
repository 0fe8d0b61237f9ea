//! A walk over all metadata, and over data on request, that finds contradictions.
//!
//! It reads the nodes of the tree, recounts everything and compares the counts. In a read-only mount, it also reads the headers of segments, without
//! which the cleaner could not free dead blocks in them.

use super::fetch;
use crate::finding::Finding;
use crate::key::{Entry, Extent, Inode, Key, Kind};
use crate::objects::Core;
use crate::space::State;
use crate::stop::Stop;
use crate::types::{FileKind, Ino};
use std::collections::BTreeMap;

/// Names found for a file.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    links: u32,
    subdirectories: u32,
    entries: u64,
    parent: Ino,
    kind: Option<FileKind>,
}

/// Facts about a file from its inode.
#[derive(Clone, Copy, Debug)]
struct Seen {
    inode: Inode,
    blocks: u64,
}

/// A walk in progress.
#[derive(Clone, Debug)]
pub struct Audit {
    data: bool,
    from: Key,
    /// The level whose nodes are being counted; above the root when all are counted.
    level: u8,
    nodes: u64,
    live: BTreeMap<u32, u32>,
    allocated: u64,
    names: BTreeMap<Ino, Named>,
    files: BTreeMap<Ino, Seen>,
    orphans: Vec<Ino>,
    /// The next block of an extent to read.
    block: u64,
    /// Owners of data blocks by address, to find blocks with two owners.
    owners: BTreeMap<u64, u64>,
    findings: Vec<Finding>,
    /// The segment whose headers are being read, the position of its next header, and the block up to which no
    /// copy was found.
    header: (u32, u32, u32),
    entries_done: bool,
    finished: bool,
}

impl Audit {
    /// A walk from the start. With `data`, every block of every file is read, too.
    pub fn new(data: bool) -> Audit {
        Audit {
            data,
            from: Key::MIN,
            level: 0,
            nodes: 0,
            live: BTreeMap::new(),
            allocated: 0,
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            orphans: Vec::new(),
            block: 0,
            owners: BTreeMap::new(),
            findings: Vec::new(),
            header: (0, 0, 0),
            entries_done: false,
            finished: false,
        }
    }

    /// Returns the findings so far.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Files seen so far.
    pub fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Blocks of files seen so far.
    pub fn blocks(&self) -> u64 {
        self.allocated
    }

    fn found(&mut self, what: String) {
        self.findings.push(Finding(what));
    }
}

/// Continues a walk.
pub(crate) fn audit_on(core: &mut Core, audit: &mut Audit) -> Result<(), Stop> {
    while !audit.entries_done {
        match audit_entry(core, audit) {
            Ok(()) => {}
            Err(Stop::Miss(miss)) => match fetch::want_node(core, miss) {
                Ok(()) => return Err(Stop::Data),
                Err(_) => {
                    let block = miss.child.at;
                    audit.found(format!("a node of the tree, block {block}, is damaged or cannot be read"));
                    let above = (miss.level + 1).min(core.catalog.root().1);
                    match core.catalog.visit(audit.from, above) {
                        Ok(visit) if visit.next.is_some() && miss.level < core.catalog.root().1 => {
                            audit.from = visit.next.unwrap_or(audit.from);
                            audit.block = 0;
                        }
                        _ => {
                            audit.entries_done = true;
                            audit.finished = true;
                        }
                    }
                }
            },
            Err(other) => return Err(other),
        }
    }
    if audit.finished {
        return Ok(());
    }
    if audit.findings.is_empty() {
        audit_nodes(core, audit)?;
    }
    // While batches are being written, their headers are missing.
    if core.life.options().read_only {
        audit_headers(core, audit)?;
    }
    compare(core, audit);
    audit.finished = true;
    Ok(())
}

/// Checks one entry of the tree.
fn audit_entry(core: &mut Core, audit: &mut Audit) -> Result<(), Stop> {
    let Some((key, place)) = core.catalog.seek(audit.from)? else {
        audit.entries_done = true;
        return Ok(());
    };
    let value = core.catalog.value(place);
    let ino = Ino(key.object());
    match key.kind() {
        Some(Kind::Inode) => match Inode::decode(value) {
            Some(inode) => {
                audit.files.insert(ino, Seen { inode, blocks: 0 });
            }
            None => audit.found(format!("the inode of file {} is damaged", ino.0)),
        },
        Some(Kind::Entry) => match Entry::decode(value) {
            Some(entry) => {
                let named = audit.names.entry(entry.ino).or_default();
                named.links += 1;
                (named.parent, named.kind) = (ino, Some(entry.kind));
                let dir = audit.names.entry(ino).or_default();
                dir.entries += 1;
                dir.subdirectories += u32::from(entry.kind == FileKind::Directory);
            }
            None => audit.found(format!("an entry of directory {} is damaged", ino.0)),
        },
        Some(Kind::Extent) => match Extent::decode(key, value) {
            Some(extent) => audit_extent(core, audit, ino, extent)?,
            None => audit.found(format!("an extent of file {} is damaged", ino.0)),
        },
        Some(Kind::Orphan) => audit.orphans.push(Ino(key.offset())),
        Some(Kind::Xattr | Kind::Target) => {}
        Some(Kind::Moved) | None => audit.found(format!("file {} has an entry of an unknown kind", ino.0)),
    }
    audit.from = Key(key.0 + 1);
    audit.block = 0;
    Ok(())
}

fn audit_extent(core: &mut Core, audit: &mut Audit, ino: Ino, extent: Extent) -> Result<(), Stop> {
    audit_data(core, audit, ino, extent)?;
    audit.allocated += extent.count;
    match audit.files.get_mut(&ino) {
        Some(seen) => seen.blocks += extent.count,
        None => audit.found(format!("an extent belongs to file {}, which does not exist", ino.0)),
    }
    if extent.address == 0 {
        return Ok(());
    }
    for address in extent.address..extent.address + extent.count {
        if !core.space.holds_data(address) {
            audit.found(format!("file {} names block {address}, which is not in the log", ino.0));
            break;
        }
        if core.space.is_block(address) {
            *audit.live.entry(core.space.layout().segment_of(address)).or_default() += 1;
        }
    }
    let before = audit.owners.range(..extent.address + extent.count).next_back();
    if before.is_some_and(|(&first, &count)| first + count > extent.address) {
        audit.found(format!(
            "file {} has blocks, from {} on, that belong to another extent, too",
            ino.0, extent.address
        ));
    }
    audit.owners.insert(extent.address, extent.count);
    Ok(())
}

/// Reads the blocks of an extent.
fn audit_data(core: &mut Core, audit: &mut Audit, ino: Ino, extent: Extent) -> Result<(), Stop> {
    if !audit.data || extent.address == 0 {
        return Ok(());
    }
    while audit.block < extent.count {
        let block = extent.first + audit.block;
        if !core.pages.has(ino, block) {
            match fetch::want_data(core, ino, block, extent.address_of(block), extent.last()) {
                Ok(()) if core.pages.has(ino, block) => {}
                Ok(()) => return Err(Stop::Data),
                Err(Stop::Errno(_)) => {
                    audit.findings.push(Finding::unreadable(ino.0, block));
                }
                Err(other) => return Err(other),
            }
        }
        audit.block += 1;
    }
    Ok(())
}

/// Counts the nodes of the tree, level by level.
fn audit_nodes(core: &mut Core, audit: &mut Audit) -> Result<(), Stop> {
    let top = core.catalog.root().1;
    if audit.entries_done && audit.level == 0 && audit.nodes == 0 {
        audit.from = Key::MIN;
    }
    while audit.level <= top {
        let visit = core.catalog.visit(audit.from, audit.level)?;
        audit.nodes += 1;
        if visit.child.frame().is_none() {
            *audit.live.entry(core.space.layout().segment_of(visit.child.at)).or_default() += 1;
        }
        match visit.next {
            Some(next) => audit.from = next,
            None => {
                audit.level += 1;
                audit.from = Key::MIN;
            }
        }
    }
    Ok(())
}

/// Reads the headers of segments in use.
fn audit_headers(core: &mut Core, audit: &mut Audit) -> Result<(), Stop> {
    while audit.header.0 < core.space.layout().segments {
        let (number, next, mut ahead) = audit.header;
        let segment = *core.space.segment(number);
        if segment.state != State::Closed || segment.live == 0 || next >= segment.written {
            audit.header = (number + 1, 0, 0);
            continue;
        }
        let address = core.space.layout().address(number, next);
        let wanted = fetch::want_header(core, address, segment.written - next, &mut ahead);
        audit.header.2 = ahead;
        let Some(header) = wanted else { return Err(Stop::Data) };
        audit.header = match header {
            Some(header) => (number, next + core.space.layout().padded(header.blocks), 0),
            None => {
                audit.found(format!(
                    "both headers of the batch in block {address} are damaged or cannot be read: the owners of the blocks behind it are unknown in segment \
                     {number}, which is never free again"
                ));
                (number + 1, 0, 0)
            }
        };
    }
    Ok(())
}

fn compare(core: &Core, audit: &mut Audit) {
    let mut findings = Vec::new();
    let mut say = |what: String| findings.push(Finding(what));
    for (&ino, seen) in &audit.files {
        let named = audit.names.get(&ino).copied().unwrap_or_default();
        let (inode, number) = (&seen.inode, ino.0);
        let is_orphan = audit.orphans.contains(&ino);
        let is_dir = inode.kind == FileKind::Directory;
        let links = match (is_dir, ino == Ino::ROOT || named.links > 0) {
            (true, true) => 2 + named.subdirectories,
            _ => named.links,
        };
        if inode.links != links {
            say(format!("file {number} says that it has {} links, and has {links}", inode.links));
        }
        if inode.links == 0 && !is_orphan {
            say(format!("file {number} has no name, and is not going to be removed"));
        }
        if named.kind.is_some_and(|kind| kind != inode.kind) {
            say(format!("a name of file {number} says that it is of another kind"));
        }
        if is_dir && inode.size != named.entries {
            say(format!(
                "directory {number} says that it has {} entries, and has {}",
                inode.size, named.entries
            ));
        }
        if is_dir && ino != Ino::ROOT && named.links > 0 && inode.parent != named.parent {
            say(format!(
                "directory {number} is in {}, and says that it is in {}",
                named.parent.0, inode.parent.0
            ));
        }
        let delayed = core.pages.delayed_of(ino);
        if inode.blocks != seen.blocks + delayed {
            say(format!("file {number} says that it has {} blocks, and has {}", inode.blocks, seen.blocks));
        }
    }
    for (&ino, named) in &audit.names {
        if named.links > 0 && !audit.files.contains_key(&ino) {
            say(format!("directory {} has a name of file {}, which does not exist", named.parent.0, ino.0));
        }
    }
    if audit.allocated != core.catalog.allocated() {
        say(format!("files have {} blocks, counted were {}", audit.allocated, core.catalog.allocated()));
    }
    if audit.findings.is_empty() {
        if audit.nodes != core.catalog.node_count() {
            say(format!("the tree has {} nodes, counted were {}", audit.nodes, core.catalog.node_count()));
        }
        for (number, segment) in (0u32..).zip(core.space.segments()) {
            let live = audit.live.get(&number).copied().unwrap_or(0);
            if segment.live != live {
                say(format!("in segment {number} live {live} blocks, counted were {}", segment.live));
            }
        }
    }
    audit.findings.extend(findings);
}
