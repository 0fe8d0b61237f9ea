//! The log after the newest checkpoint: read and applied by a mount.
//!
//! ```text
//!   batches   checkpoint ─► 7 ─► 8 ─► 9 ─► 10 ─► 11
//!                                     └ durable: what the sync record, or the header of a later batch, says
//!             up to here one that is missing or not whole is damaged │ from here on it was torn: the log ends before it
//! ```
//! The first pass reads the segments that begin with a batch, from header to header. If a durable batch is missing, a second pass reads all segments
//! of the reserve and checks each block after damage for a header or its copy. On flash, where the written length is known, the first pass does this.
//!
//! Damage costs only the damaged data. Headers and entries have a copy, so one damaged block of these costs nothing. A damaged data block costs
//! itself, as anywhere else. If both copies are damaged, a commit is lost, and its changes are unknown: the mount then shows later commits, too, but
//! is read-only; a repair returns to the state before it.

use super::{fetch, moves};
use crate::batch::{Contents, Header, Identity, Owner, take_entry};
use crate::finding::Finding;
use crate::key::{Fields, Key, Kind};
use crate::objects::Core;
use crate::picture::Picture;
use crate::record::SyncRecord;
use crate::space::Head;
use crate::stop::Stop;
use crate::types::{BLOCK_BYTES, Ino};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Changes of the tree, in order.
pub(crate) type Entries = VecDeque<(Key, Option<Vec<u8>>)>;

/// Content of a block; `None`: unreadable.
type Read = Option<Vec<u8>>;

/// A batch after the checkpoint.
#[derive(Clone, Debug)]
struct Found {
    segment: u32,
    end: u32,
    first: bool,
    last: bool,
    /// True if the batch has only nodes of a checkpoint, which no commit needs.
    is_nodes: bool,
    contents: Contents,
    /// Block of its header if only the copy is whole.
    header_lost: Option<u64>,
}

/// How a segment is read.
#[derive(Clone, Debug, Default)]
enum Reading {
    /// Its first header is searched.
    #[default]
    Header,
    /// All of it is read at once.
    Whole,
    /// A read that failed, repeated block by block.
    Single(Vec<Read>),
}

/// State of the log while a mount reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Index in the checkpoint's list of segments.
    at: usize,
    reading: Reading,
    /// True in the second pass.
    searches: bool,
    found: BTreeMap<u64, Found>,
    /// The newest batch known to have been durable.
    durable: u64,
    /// Unreadable blocks.
    unreadable: BTreeSet<u64>,
    /// Unreadable blocks at which a batch may begin. A torn write leaves a block drive readable.
    blind: BTreeSet<u64>,
    /// Flash blocks that do not end with a whole batch.
    torn: BTreeSet<u64>,
}

impl Scan {
    /// Creates a scan. Without a sync record of this mount, missing headers cannot be detected, so everything is scanned.
    pub fn new(picture: &Picture, record: Option<SyncRecord>, is_flash: bool) -> Scan {
        let record = record.filter(|record| record.epoch == picture.epoch);
        let durable = record.map_or(0, |record| record.durable);
        Scan { durable, searches: record.is_none() && !is_flash, ..Scan::default() }
    }

    /// Returns true if a durable batch is missing.
    fn misses(&self, from: u64) -> bool {
        (from..=self.durable).any(|seq| !self.found.contains_key(&seq))
    }

    fn go_on(&mut self) {
        (self.at, self.reading) = (self.at + 1, Reading::Header);
    }
}

/// Continues to read the log; true: all of it is read.
pub(crate) fn scan_on(core: &mut Core, picture: &Picture, scan: &mut Scan) -> bool {
    loop {
        let Some(&head) = picture.reserve.get(scan.at) else {
            if scan.searches || !scan.misses(picture.seq) {
                return true;
            }
            (scan.at, scan.searches) = (0, true);
            continue;
        };
        let blocks = written_of(core, head.segment).saturating_sub(head.next);
        if blocks == 0 {
            scan.go_on();
            continue;
        }
        let address = core.space.layout().address(head.segment, head.next);
        match &mut scan.reading {
            Reading::Header if scan.searches || core.space.layout().backend.is_flash() => {
                scan.reading = Reading::Whole;
            }
            Reading::Header => match fetch::want_raw(core, address, 1) {
                None => return false,
                Some(Some(block)) if header_at(core, picture, &block, address).is_none() => scan.go_on(),
                Some(_) => scan.reading = Reading::Whole,
            },
            Reading::Whole => match fetch::want_raw(core, address, blocks) {
                None => return false,
                Some(None) => scan.reading = Reading::Single(Vec::new()),
                Some(Some(bytes)) => {
                    let read = bytes.chunks_exact(BLOCK_BYTES).map(|block| Some(block.to_vec())).collect();
                    take_segment(core, picture, scan, head, read);
                    scan.go_on();
                }
            },
            Reading::Single(read) => {
                let Some(block) = fetch::want_raw(core, address + read.len() as u64, 1) else { return false };
                read.push(block);
                if read.len() == blocks as usize {
                    let read = std::mem::take(read);
                    take_segment(core, picture, scan, head, read);
                    scan.go_on();
                }
            }
        }
    }
}

/// Number of blocks of a segment that may have content.
fn written_of(core: &Core, segment: u32) -> u32 {
    let each = core.space.layout().segment_blocks;
    match core.space.layout().backend.is_flash() {
        true => core.library.written(segment).min(each),
        false => each,
    }
}

/// Header of a batch after the checkpoint, at the given address.
fn header_at(core: &Core, picture: &Picture, block: &[u8], address: u64) -> Option<Header> {
    let header = Header::decode(block, address, core.log.file_system())?;
    is_behind(core, picture, &header).then_some(header)
}

fn is_behind(core: &Core, picture: &Picture, header: &Header) -> bool {
    let identity = Identity { file_system: core.log.file_system(), epoch: picture.epoch };
    header.identity == identity && header.seq >= picture.seq
}

/// The next header of a segment from a block on, or else the next copy of one; with the first block of its batch.
fn search(
    core: &Core,
    picture: &Picture,
    read: &[Read],
    address: u64,
    from: usize,
) -> Option<(usize, Header)> {
    read.iter().enumerate().skip(from).find_map(|(at, block)| {
        let (block, here) = (block.as_deref()?, address + at as u64);
        let copy = || {
            let header = Header::decode_copy(block, here, core.log.file_system())?;
            let is_there = header.address >= address + from as u64;
            (is_there && is_behind(core, picture, &header)).then_some(header)
        };
        let header = header_at(core, picture, block, here).or_else(copy)?;
        Some(((header.address - address) as usize, header))
    })
}

/// Collects the batches of a segment.
fn take_segment(core: &Core, picture: &Picture, scan: &mut Scan, head: Head, read: Vec<Read>) {
    let address = core.space.layout().address(head.segment, head.next);
    let is_flash = core.space.layout().backend.is_flash();
    let bad = read.iter().enumerate().filter(|(_, block)| block.is_none());
    scan.unreadable.extend(bad.map(|(at, _)| address + at as u64));
    let mut at = 0;
    while at < read.len() {
        let here = read[at].as_deref().and_then(|block| header_at(core, picture, block, address + at as u64));
        let next = match here {
            Some(header) => Some((at, header)),
            None if scan.searches || is_flash => search(core, picture, &read, address, at),
            None => None,
        };
        let Some((begin, header)) = next else {
            match is_flash {
                true => scan.torn.insert(address + at as u64),
                false => read[at].is_none() && scan.blind.insert(address + at as u64),
            };
            break;
        };
        let blocks = read.iter().skip(begin + 1).map(Option::as_deref);
        let contents = header.examine(blocks.chain(std::iter::repeat(None)));
        let end = head.next + begin as u32 + core.space.layout().padded(header.blocks);
        let is_nodes = header.owners().all(|(_, owner)| matches!(owner, Owner::Node { .. }));
        let found = Found {
            segment: head.segment,
            end,
            first: header.first,
            last: header.last,
            is_nodes: is_nodes && contents.entries.as_ref().is_some_and(Vec::is_empty),
            header_lost: lost_header(core, picture, &read, begin, header.address),
            contents,
        };
        scan.durable = scan.durable.max(header.durable);
        scan.found.insert(header.seq, found);
        at = (end - head.next) as usize;
    }
}

fn lost_header(core: &Core, picture: &Picture, read: &[Read], begin: usize, address: u64) -> Option<u64> {
    let whole = read[begin].as_deref().and_then(|block| header_at(core, picture, block, address));
    whole.is_none().then_some(address)
}

/// Applies the commits after the checkpoint, and continues the log after them.
pub(crate) fn replay(core: &mut Core, picture: &Picture, scan: Scan) -> Entries {
    let entries = collect(core, picture, &scan);
    let newest = scan.found.last_key_value().map_or(0, |(seq, _)| seq.saturating_add(1));
    let seq = picture.seq.max(newest).max(scan.durable.saturating_add(1));
    // Mount numbers are unique, even if a mount made no checkpoint.
    let epoch = (picture.epoch + 1).max(core.turn.now().0.max(0) as u64);
    core.log.resume(epoch, seq);
    if core.space.layout().backend.is_flash() {
        // Checkpoints of the last mount are kept until the first one of this mount is durable.
        let old = core.library.checkpoints();
        old.iter().for_each(|&segment| core.space.has_checkpoints(segment));
        core.checkpoints.keep_old(old);
    }
    // In a repair: otherwise every mount would request the unreadable blocks again.
    for &address in &scan.blind {
        let segment = core.space.layout().segment_of(address);
        core.space.retire(segment);
    }
    core.space.adopt(&picture.reserve);
    let kept = core.space.kept().len() as u32;
    core.space.set_elsewhere(core.space.elsewhere().saturating_sub(kept));
    entries
}

/// Entries of all whole commits; reports the cost of damage.
fn collect(core: &mut Core, picture: &Picture, scan: &Scan) -> Entries {
    let mut commits = Gathered { expected: picture.seq, ..Gathered::default() };
    for (&seq, batch) in &scan.found {
        let is_torn = batch.contents.entries.is_none() || !batch.contents.bad.is_empty();
        if seq > commits.expected {
            commits.miss(seq.min(scan.durable.saturating_add(1)));
        }
        if (seq > commits.expected || is_torn) && seq > scan.durable {
            break;
        }
        if commits.lost > 0 && core.life.options().repair {
            commits.given_up += u64::from(batch.last && !batch.is_nodes);
        } else if commits.add(seq, batch) {
            take_commit(core, &mut commits);
        }
        commits.expected = seq.saturating_add(1);
    }
    if commits.expected <= scan.durable {
        commits.miss(scan.durable.saturating_add(1));
    }
    tell_damage(core, scan, commits)
}

/// Completes a commit.
fn take_commit(core: &mut Core, commits: &mut Gathered) {
    let mut f = Fields(&commits.open);
    while let Some((key, value)) = take_entry(&mut f) {
        commits.entries.push_back((key, value.map(<[u8]>::to_vec)));
    }
    for (segment, end) in commits.kept.drain(..) {
        core.space.replayed(segment, end);
    }
    commits.hit.append(&mut commits.open_hit);
    commits.open.clear();
    core.commits.changed();
}

/// Reports the cost of damage. Returns the entries of the remaining commits.
fn tell_damage(core: &mut Core, scan: &Scan, commits: Gathered) -> Entries {
    for &(address, ino, block) in &commits.hit {
        if !core.log.data_checksums() {
            core.reads.add_damaged(address);
        }
        core.findings.add_damage(Finding::unreadable(ino, block));
    }
    if commits.lost > 0 {
        core.findings.add_damage(lost_commits(&commits, core.life.options().repair));
    }
    for blocks in runs(scan.blind.iter().copied()) {
        core.findings.add_damage(Finding(format!(
            "{blocks} of the log cannot be read: a commit that was synced may stand there, and those behind it"
        )));
    }
    for address in &commits.copies {
        let what = "of the log is damaged or cannot be read; its copy is whole";
        core.findings.add_note(Finding(format!("block {address} {what}")));
    }
    let unread = scan.unreadable.iter().filter(|at| !scan.blind.contains(at) && !commits.blocks_told(**at));
    for blocks in runs(unread.copied()) {
        core.findings.add_note(Finding(format!("{blocks} of the log's reserve cannot be read")));
    }
    for at in &scan.torn {
        let what = "of the flash was torn by a power cut, or is damaged";
        core.findings.add_note(Finding(format!("what was written to block {at} {what}")));
    }
    commits.entries
}

fn lost_commits(commits: &Gathered, repair: bool) -> Finding {
    let costs = match repair {
        true => format!("the {} commits behind it are given up", commits.given_up),
        false => {
            "files and names that it changed are missing or old; a repair gives up all commits behind it"
                .into()
        }
    };
    Finding(format!(
        "batch {} of the log, and {} more, are damaged or cannot be read, with their copies, and were durable: {costs}",
        commits.first_lost,
        commits.lost - 1
    ))
}

/// Applies a change of the log to the catalog or to names.
pub(crate) fn apply(core: &mut Core, key: Key, value: Option<&[u8]>) -> Result<(), Stop> {
    if key.kind() == Some(Kind::Moved) {
        return moves::apply_move(core, key, value.unwrap_or_default());
    }
    core.catalog.touch(key, key)?;
    if key.kind() == Some(Kind::Inode) && value.is_some() {
        core.catalog.found_ino(Ino(key.object()));
    }
    match value {
        Some(value) => core.catalog.put(key, value),
        None => core.catalog.delete(key),
    }
    Ok(())
}

/// Commits assembled from batches.
#[derive(Default)]
struct Gathered {
    /// Number of the next batch.
    expected: u64,
    entries: Entries,
    /// Entries, ends and damaged data of the incomplete commit.
    open: Vec<u8>,
    kept: Vec<(u32, u32)>,
    open_hit: Vec<(u64, u64, u64)>,
    /// True if a batch of the commit is lost.
    broken: bool,
    /// Damaged data blocks: address, file, block of the file.
    hit: Vec<(u64, u64, u64)>,
    /// Damaged blocks with whole copies.
    copies: BTreeSet<u64>,
    /// Number of lost durable batches, and the first of them.
    lost: u64,
    first_lost: u64,
    /// Whole commits that a repair gives up.
    given_up: u64,
}

impl Gathered {
    /// Notes that durable batches up to `until` are missing.
    fn miss(&mut self, until: u64) {
        let missing = until.saturating_sub(self.expected);
        if missing > 0 {
            self.lose(self.expected, missing);
            self.expected = until;
        }
    }

    fn lose(&mut self, seq: u64, batches: u64) {
        if self.lost == 0 {
            self.first_lost = seq;
        }
        self.lost = self.lost.saturating_add(batches);
        self.broken = true;
        self.drop_open();
    }

    fn drop_open(&mut self) {
        self.open.clear();
        self.kept.clear();
        self.open_hit.clear();
    }

    /// Adds a batch; true: it completes a commit.
    fn add(&mut self, seq: u64, batch: &Found) -> bool {
        let Some(entries) = &batch.contents.entries else {
            self.lose(seq, 1);
            return false;
        };
        if batch.first {
            self.broken = false;
        }
        self.copies.extend(batch.header_lost);
        for &(address, owner) in &batch.contents.bad {
            match owner {
                Owner::Data { ino, block } => self.open_hit.push((address, ino, block)),
                Owner::Entries | Owner::EntriesCopy => {
                    self.copies.insert(address);
                }
                // Left by an unfinished checkpoint.
                Owner::Node { .. } => {}
            }
        }
        if self.broken {
            self.drop_open();
            return false;
        }
        self.open.extend_from_slice(entries);
        self.kept.push((batch.segment, batch.end));
        // Nodes at the end of the log belong to an unfinished checkpoint: their blocks are free for the next one.
        batch.last && !batch.is_nodes
    }

    fn blocks_told(&self, address: u64) -> bool {
        self.copies.contains(&address) || self.hit.iter().any(|(at, ..)| *at == address)
    }
}

/// Text for each run of consecutive blocks, ascending: a drive that fails completely gives one sentence, not thousands.
fn runs(blocks: impl Iterator<Item = u64>) -> impl Iterator<Item = String> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == block => *last = block,
            _ => runs.push((block, block)),
        }
    }
    runs.into_iter().map(|(first, last)| match first == last {
        true => format!("block {first}"),
        false => format!("blocks {first} to {last}"),
    })
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn neighbours_are_one_run() {
        let words: Vec<String> = runs([3, 4, 5, 9, 11, 12].into_iter()).collect();
        assert_eq!(words, ["blocks 3 to 5", "block 9", "blocks 11 to 12"]);
        assert_eq!(runs(std::iter::empty()).count(), 0);
    }
}
