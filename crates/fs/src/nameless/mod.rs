//! Data behind names: on a drive of nameless writes only metadata have addresses of the file system's choice.
//!
//! ```text
//!   dirty pages ─► nameless writes ─► names ─► extents ─► flush ─► the commit, in the log ─► flush ─► names that it dropped are freed
//!   a move told ─► extents ─► a record in the log ─► flush ─► acknowledged
//! ```
//! The log, with nodes and entries, lies in the virtual address space of the drive; the drive places data blocks, and the extent of
//! an inode has their names. Invariants:
//!
//! - A commit goes to the log when the data that it names are durable, so a mount never finds a name without data. While the pages of a commit
//!   are being named, nothing makes a page dirty.
//! - A name is freed when a commit that drops it is durable, and a move is acknowledged when its record is. The record replaces the old name of a
//!   file's block by the new one. It applies to the durable state, whatever has changed in memory meanwhile, so moves are acknowledged even
//!   while the drive makes nameless writes wait.
//! - A mount asks the drive for the present name of every name, and frees the names that no file has.
//!
//! The owner of a name (`owners.rs`) is known in memory only: a mount reads all extents.

mod moves;
mod owners;

use super::Fs;
use super::block::Blocks;
use super::catalog::Booking;
use super::jobs::{Job, JobError, JobId};
use super::key::{Extent, Key};
use super::mount::Phase;
use super::stop::Stop;
use super::types::{BLOCK_BYTES, Ino, Time};
use owners::{Owner, Owners};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Blocks of one nameless write, at most.
const WRITE_BLOCKS: usize = 64;
/// Nameless writes under way at the same time.
const WRITES_MAX: usize = 16;
/// After so many nameless writes in a row that failed nothing is written any more.
const FAILURES_MAX: u32 = 16;

/// A name that no file has any more in memory.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    name: u64,
    /// Its owner in what is durable.
    owner: Option<Owner>,
    /// The batch that has to be durable first; `None`: the next commit's.
    seq: Option<u64>,
}

/// Knowledge of the drive's names after a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reconciled {
    /// The drive has no names, or nothing is changed.
    #[default]
    Done,
    Wanted,
    Asked,
}

/// Names, and what is on its way to become one.
#[derive(Clone, Debug, Default)]
pub(super) struct Nameless {
    owners: Owners,
    /// The mount is over.
    is_used: bool,
    /// Changes of owners in the operation that is under way: how often each name was given or taken.
    delta: BTreeMap<u64, (i32, Owner)>,
    /// Old names of these changes are not freed: they are acknowledged.
    moving: bool,
    dropped: VecDeque<Dropped>,
    /// Names that are being freed, and what they were moved to meanwhile.
    freeing: BTreeMap<u64, Option<u64>>,
    to_free: Vec<u64>,
    to_acknowledge: Vec<u64>,
    /// Acknowledgements and frees under way: the job, and the names that it frees.
    upkeep: BTreeMap<u64, Vec<u64>>,
    /// Pages to be named, in order.
    queue: VecDeque<Owner>,
    /// Nameless writes under way.
    writes: BTreeMap<u64, Vec<Owner>>,
    /// Writes that have ended: the owners of the blocks, and their names.
    written: VecDeque<(Vec<Owner>, Vec<u64>)>,
    failures: u32,
    /// Pages of a commit are being named.
    pub naming: bool,
    /// Names were given since the last flush of data.
    unflushed: bool,
    /// The flush under way makes all names durable that are in extents.
    flushes_data: bool,
    /// Names are short: those that are dropped should be freed.
    short: bool,
    moves: VecDeque<(u64, u64)>,
    /// Moves that the report at the mount has told, so that they are not told twice.
    reported: BTreeSet<(u64, u64)>,
    /// Records that are not durable: number of the batch, and the old names.
    records: VecDeque<(u64, Vec<u64>)>,
    reconciled: Reconciled,
    reconciles: Option<u64>,
    polls: Option<u64>,
    /// Keys whose present content the next commit has to name.
    pub cuts: Vec<Key>,
}

impl Nameless {
    /// Names that the drive counts, or is about to.
    fn taken(&self) -> u64 {
        let under_way = self.writes.values().map(Vec::len).sum::<usize>();
        let written = self.written.iter().map(|(_, names)| names.len()).sum::<usize>();
        let rest = self.dropped.len() + self.freeing.len() + self.to_free.len() + under_way + written;
        self.owners.len() + rest as u64
    }

    /// Returns whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        let jobs = self.upkeep.is_empty() && self.writes.is_empty() && self.polls.is_none();
        let waiting = self.to_free.is_empty() && self.to_acknowledge.is_empty() && self.written.is_empty();
        jobs && waiting && self.reconciles.is_none() && self.records.is_empty()
    }

    /// Returns whether moves are on their way to be acknowledged.
    fn acknowledges(&self) -> bool {
        let waiting = !self.moves.is_empty() || !self.records.is_empty() || !self.to_acknowledge.is_empty();
        waiting || !self.upkeep.is_empty()
    }

    /// Returns whether names or moves were asked by a job.
    pub fn is_asked(&self, id: u64) -> bool {
        self.writes.contains_key(&id) || self.polls == Some(id) || self.reconciles == Some(id)
    }

    fn note(&mut self, name: u64, owner: Owner, lives: bool) {
        let (count, of) = self.delta.entry(name).or_insert((0, owner));
        *count += if lives { 1 } else { -1 };
        if lives {
            *of = owner;
        }
    }

    /// A commit is built, whose last batch has this number: what was dropped before it is free when it is durable.
    pub fn committed(&mut self, seq: u64) {
        self.dropped.iter_mut().rev().take_while(|d| d.seq.is_none()).for_each(|d| d.seq = Some(seq));
    }

    /// Everything up to a batch is durable.
    pub fn durable(&mut self, through: u64) {
        while self.records.front().is_some_and(|(seq, _)| *seq <= through)
            && let Some((_, olds)) = self.records.pop_front()
        {
            self.to_acknowledge.extend(olds);
        }
        while self.dropped.front().and_then(|dropped| dropped.seq).is_some_and(|seq| seq <= through)
            && let Some(dropped) = self.dropped.pop_front()
        {
            self.to_free.push(dropped.name);
        }
        self.short &= self.dropped.iter().any(|dropped| dropped.seq.is_some());
    }

    /// Returns whether a flush is wanted, when all batches up to `through` are written: of data, or (in a log without a hole) of records.
    pub fn wants_flush(&self, through: u64, hole: bool) -> bool {
        let record = self.records.front().is_some_and(|(seq, _)| *seq <= through);
        let dropped = self.dropped.front().and_then(|dropped| dropped.seq).is_some_and(|seq| seq <= through);
        self.wants_data_flush() || (!hole && (record || (self.short && dropped)))
    }

    fn wants_data_flush(&self) -> bool {
        self.naming && self.unflushed && self.is_named()
    }

    /// No page is on its way to a name.
    fn is_named(&self) -> bool {
        self.queue.is_empty() && self.writes.is_empty() && self.written.is_empty()
    }

    pub fn flush_began(&mut self) {
        self.flushes_data = self.wants_data_flush();
    }

    pub fn flush_ended(&mut self) {
        if std::mem::take(&mut self.flushes_data) {
            self.unflushed = false;
        }
    }

    /// The mount is over, or there was none.
    pub fn begin_use(&mut self) {
        self.is_used = true;
    }

    /// After a mount or a format the drive is asked for its names.
    pub fn reconcile(&mut self) {
        self.reconciled = Reconciled::Wanted;
    }
}

impl Fs {
    pub(super) fn has_names(&self) -> bool {
        self.log.layout.backend.names().is_some()
    }

    fn name_of(&self, address: u64) -> u64 {
        address - self.log.layout.blocks
    }

    fn address_of(&self, name: u64) -> u64 {
        self.log.layout.blocks + name
    }

    /// Books that an extent names its blocks, or does so no more.
    pub(super) fn count_extent(&mut self, Booking { ino, extent, lives }: Booking) {
        if extent.address == 0 {
        } else if self.log.layout.is_name(extent.address) {
            let first = self.name_of(extent.address);
            for n in 0..extent.count {
                self.nameless.note(first + n, (ino, extent.first + n), lives);
            }
        } else if lives {
            self.log.add_live(extent.address, extent.count);
        } else {
            self.log.sub_live(extent.address, extent.count);
        }
    }

    /// An operation is done, so that each name has one owner or none.
    pub(super) fn settle_owners(&mut self) {
        if !self.nameless.is_used {
            // A mount reads them when everything is applied.
            return self.nameless.delta.clear();
        }
        while let Some((name, (count, owner))) = self.nameless.delta.pop_first() {
            let before = if count == 0 { None } else { self.nameless.owners.remove(name) };
            match count {
                0 => {}
                1.. => self.nameless.owners.insert(name, owner),
                _ => {
                    let address = self.address_of(name);
                    self.reads.forgive(address);
                    if !self.nameless.moving {
                        self.nameless.dropped.push_back(Dropped { name, owner: before, seq: None });
                    }
                }
            }
        }
    }

    /// Takes an extent that a mount has found.
    pub(super) fn own(&mut self, ino: Ino, extent: Extent) {
        if self.log.layout.is_name(extent.address) {
            let first = self.name_of(extent.address);
            for name in first..first + extent.count {
                // Damage, which `fs check` finds.
                if self.nameless.owners.get(name).is_none() {
                    self.nameless.owners.insert(name, (ino, extent.first + (name - first)));
                }
            }
        }
    }

    /// Returns whether what was read from an address is a block of a file still: names end.
    pub(super) fn still_lies(&self, ino: Ino, block: u64, address: u64) -> bool {
        !self.log.layout.is_name(address)
            || self.nameless.owners.get(self.name_of(address)) == Some((ino, block))
    }

    /// Space for names of so many more blocks, beside those that are dirty.
    pub(super) fn room_for_names(&mut self, pages: u64) -> Result<(), Stop> {
        let Some(shape) = self.log.layout.backend.names().filter(|_| pages > 0) else { return Ok(()) };
        if self.nameless.naming {
            return Err(Stop::Room);
        }
        if self.nameless.reconciled != Reconciled::Done || self.commits.hole {
            if self.checkpointing.is_idle() {
                self.want_checkpoint();
            }
            return Err(Stop::Room);
        }
        if self.nameless.taken() + self.pages.dirty() as u64 + pages > shape.capacity {
            if self.pages.dirty() == 0 && self.nameless.taken() == self.nameless.owners.len() {
                return Err(super::Errno::NoSpace.into());
            }
            self.nameless.short = true;
            self.commits.want_now();
            return Err(Stop::Room);
        }
        Ok(())
    }

    /// Names all dirty pages, for a commit; true: they are named, and durable.
    pub(super) fn name_pages(&mut self) -> bool {
        if !self.has_names() {
            return true;
        }
        if !self.nameless.is_named() {
            return false;
        }
        if self.pages.dirty() > 0 {
            self.nameless.naming = true;
            let list = self.pages.dirty_list();
            let owners = list.iter().map(|&at| (self.pages.page(at).ino, self.pages.page(at).block));
            self.nameless.queue = owners.collect();
            self.progress = true;
            return false;
        }
        if self.nameless.unflushed {
            self.nameless.naming = true;
            return false;
        }
        self.nameless.naming = false;
        true
    }

    /// The next nameless write, or upkeep of names.
    pub(super) fn next_nameless_job(&mut self) -> Option<Job> {
        if !self.has_names() {
            return None;
        }
        if self.nameless.writes.len() < WRITES_MAX
            && let Some(job) = self.next_nameless_write()
        {
            return Some(job);
        }
        if self.nameless.reconciled == Reconciled::Wanted && !matches!(self.phase, Phase::Mounting(_)) {
            self.nameless.reconciled = Reconciled::Asked;
            let id = self.new_id();
            self.nameless.reconciles = Some(id);
            return Some(Job::Names { id: JobId(id) });
        }
        if let Some(names) = self.next_acknowledged() {
            self.nameless.reported.clear();
            let id = self.new_id();
            self.nameless.upkeep.insert(id, Vec::new());
            return Some(Job::Acknowledge { id: JobId(id), names });
        }
        if !self.nameless.to_free.is_empty() {
            let names = std::mem::take(&mut self.nameless.to_free);
            let mut moves = std::mem::take(&mut self.nameless.moves);
            for &name in &names {
                let moved = moves.iter().find(|(old, _)| *old == name).map(|&(_, new)| new);
                self.nameless.freeing.insert(name, moved);
            }
            moves.retain(|(old, _)| !self.nameless.freeing.contains_key(old));
            self.nameless.moves = moves;
            let id = self.new_id();
            self.nameless.upkeep.insert(id, names.clone());
            return Some(Job::Free { id: JobId(id), names });
        }
        None
    }

    /// Returns whether the drive is to be asked for moves.
    pub(super) fn nameless_wants_time(&self) -> bool {
        let writes = !self.nameless.writes.is_empty() || self.commits.is_writing();
        self.has_names() && writes && self.nameless.polls.is_none()
    }

    /// A job that ends when something was moved, while there is something that may wait for it. It comes last.
    pub(super) fn next_poll(&mut self) -> Option<Job> {
        if !self.nameless_wants_time() {
            return None;
        }
        let id = self.new_id();
        self.nameless.polls = Some(id);
        Some(Job::Moves { id: JobId(id) })
    }

    fn next_nameless_write(&mut self) -> Option<Job> {
        let (mut owners, mut blocks) = (Vec::new(), Vec::new());
        while owners.len() < WRITE_BLOCKS
            && let Some((ino, block)) = self.nameless.queue.pop_front()
        {
            // Others were dropped meanwhile.
            if let Some(at) = self.pages.find(ino, block).filter(|&at| self.pages.page(at).dirty) {
                blocks.push(self.pages.with_sum(at).0);
                owners.push((ino, block));
            }
        }
        if owners.is_empty() {
            self.progress |= self.nameless.naming;
            return None;
        }
        self.counters.data_blocks += owners.len() as u64;
        let id = self.new_id();
        self.nameless.writes.insert(id, owners);
        Some(Job::NamelessWrite { id: JobId(id), data: Blocks::new(blocks) })
    }

    /// Old names whose move is recorded durably, and of which nothing is being read.
    fn next_acknowledged(&mut self) -> Option<Vec<u64>> {
        let base = self.log.layout.blocks;
        let reads = &self.reads;
        let is_free = |name: &mut u64| !reads.overlaps(base + *name);
        let names: Vec<u64> = self.nameless.to_acknowledge.extract_if(.., is_free).collect();
        (!names.is_empty()).then_some(names)
    }

    /// [`Job::NamelessWrite`] was carried out, or [`Job::Names`]: the names.
    pub fn got_names(&mut self, now: Time, id: JobId, names: Result<Vec<u64>, JobError>) {
        self.now = now;
        if self.nameless.reconciles.take_if(|reconciles| *reconciles == id.0).is_some() {
            return self.take_report(names);
        }
        let Some(owners) = self.nameless.writes.remove(&id.0) else { return };
        match names {
            Ok(names) if names.len() == owners.len() => {
                self.nameless.failures = 0;
                self.nameless.written.push_back((owners, names));
            }
            Err(JobError::ReadOnly) => self.degrade(),
            // The pages are dirty still, and named anew.
            _ => {
                self.counters.write_failures += 1;
                // Space comes with acknowledgements.
                self.nameless.failures += u32::from(!self.nameless.acknowledges());
                if self.nameless.failures > FAILURES_MAX {
                    self.degrade();
                }
            }
        }
    }

    /// [`Job::Moves`] was carried out.
    pub fn polled(&mut self, now: Time, id: JobId) {
        self.now = now;
        self.nameless.polls.take_if(|polls| *polls == id.0);
    }

    /// An acknowledgement or a free has ended; true: it was one.
    pub(super) fn upkeep_ended(&mut self, id: u64, outcome: &Result<Vec<u8>, JobError>) -> bool {
        let Some(names) = self.nameless.upkeep.remove(&id) else { return false };
        for name in names {
            let new = self.nameless.freeing.remove(&name).flatten();
            // A name that had ended with its move (prototype): its new one is to be freed.
            if outcome.is_err() {
                self.nameless.to_free.extend(new);
            }
        }
        true
    }

    /// Puts new names into the extents of their files.
    pub(super) fn settle_names(&mut self) -> Result<(), Stop> {
        while let Some((owners, names)) = self.nameless.written.pop_front() {
            let result = self.settle_written(&owners, &names);
            if result.is_err() {
                self.nameless.written.push_front((owners, names));
                return result;
            }
            self.bury();
            (self.nameless.unflushed, self.progress) = (true, true);
        }
        Ok(())
    }

    fn settle_written(&mut self, owners: &[Owner], names: &[u64]) -> Result<(), Stop> {
        let runs = runs(owners.iter().copied().zip(names.iter().copied()));
        for &((ino, block), _, count) in &runs {
            self.catalog.touch_cut(ino, block, block + count)?;
        }
        for &((ino, first), name, count) in &runs {
            let mut sums = Vec::new();
            let (mut at, mut start) = (first, first);
            while at < first + count {
                let page = self.pages.find(ino, at).filter(|&page| self.pages.page(page).dirty);
                match page {
                    Some(page) => {
                        if self.data_checksums {
                            sums.push(self.pages.with_sum(page).1);
                        }
                        self.pages.settle(page, 0);
                    }
                    None => {
                        // It was dropped while it was being written: no extent ever had the name.
                        self.nameless.to_free.push(name + (at - first));
                        self.settle_named((ino, start, at), name + (start - first), &sums);
                        sums.clear();
                        start = at + 1;
                    }
                }
                at += 1;
            }
            self.settle_named((ino, start, at), name + (start - first), &sums);
        }
        Ok(())
    }

    fn settle_named(&mut self, (ino, first, end): (Ino, u64, u64), name: u64, sums: &[u32]) {
        if first < end {
            self.catalog.cut(ino, first, end);
            let address = self.address_of(name);
            self.catalog.put_extent(ino, Extent { first, count: end - first, address }, sums);
        }
    }
}

/// Joins blocks of a file that lie behind each other and have names that do so, too; an extent's worth at most.
fn runs(blocks: impl Iterator<Item = (Owner, u64)>) -> Vec<(Owner, u64, u64)> {
    let mut runs: Vec<(Owner, u64, u64)> = Vec::new();
    for ((ino, block), name) in blocks {
        match runs.last_mut() {
            Some(((of, first), start, count))
                if *of == ino
                    && *first + *count == block
                    && *start + *count == name
                    && *count < super::key::EXTENT_BLOCKS_MAX =>
            {
                *count += 1;
            }
            _ => runs.push(((ino, block), name, 1)),
        }
    }
    runs
}

/// Bytes of a nameless write have to be blocks.
const _: () = assert!(BLOCK_BYTES == 4096);
