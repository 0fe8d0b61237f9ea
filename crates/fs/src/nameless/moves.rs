//! Moves: blocks that the drive has put elsewhere, and its report on all names at a mount.

use super::{Dropped, Owner, Reconciled, runs};
use crate::batch::put_entry;
use crate::jobs::JobError;
use crate::key::{Extent, Key, Kind};
use crate::log::Stream;
use crate::mount::Phase;
use crate::types::{Ino, Time};
use crate::{Fs, Stop};
use std::collections::BTreeSet;

/// Moves of one record, which has to fit into the header of a batch.
const RECORD_MOVES: usize = 100;
/// In the drive's report: a name of nothing, and a virtual block.
const NOTHING: u64 = u64::MAX;
const VIRTUAL: u64 = u64::MAX - 1;

impl Fs {
    /// The drive has moved blocks: their old names and new ones. It is told before the answer to whatever the drive has done afterwards.
    pub fn got_moves(&mut self, now: Time, moves: &[(u64, u64)]) {
        self.now = now;
        for &(old, new) in moves {
            if self.nameless.reported.remove(&(old, new)) {
            } else if let Some(moved) = self.nameless.freeing.get_mut(&old) {
                // The free of the old name frees the new one, too.
                *moved = Some(new);
            } else {
                self.nameless.moves.push_back((old, new));
            }
        }
    }

    /// Keeps the new names of what was moved, and records that in the log.
    pub(crate) fn take_moves(&mut self) -> Result<(), Stop> {
        if self.nameless.moves.is_empty() || self.nameless.reconciled != Reconciled::Done {
            return Ok(());
        }
        // The drive keeps old names until the next mount, where nothing waits; writing more would make it move more.
        if matches!(self.phase, Phase::Unmounting) && !self.nameless.naming {
            return Ok(());
        }
        let able = self.moves_able();
        if able == 0 {
            self.cleaner.ask(self.log.layout.for_cleaner());
            self.want_checkpoint();
            return Ok(());
        }
        let mut later = Vec::new();
        let mut batch: Vec<(Option<Owner>, u64, u64)> = Vec::new();
        while batch.len() < able
            && let Some((old, new)) = self.nameless.moves.pop_front()
        {
            if let Some(owner) = self.nameless.owners.get(old) {
                batch.push((Some(owner), old, new));
            } else if self.nameless.dropped.iter().any(|dropped| dropped.name == old) {
                batch.push((None, old, new));
            } else if self.nameless.written.iter().any(|(_, names)| names.contains(&old)) {
                // It is in no extent yet.
                later.push((old, new));
            }
            // Of what was freed, or will be, the free of the old name frees the new one.
        }
        let result = self.touch_moves(&batch);
        if result.is_err() {
            later.extend(batch.iter().map(|&(_, old, new)| (old, new)));
            batch.clear();
        }
        self.nameless.moves.extend(later);
        if !batch.is_empty() {
            self.record_moves(&batch)?;
        }
        result
    }

    /// Moves that can be recorded now, with what they make dirty.
    fn moves_able(&self) -> usize {
        // A batch of two headers, and what is too little for one at the end of a segment.
        let room = self.log.room().saturating_sub(self.need() + 7);
        let mut able = RECORD_MOVES.min(self.nameless.moves.len());
        while able > 0 && 2 * self.nodes_of_pages(able as u64) + 2 > room {
            able /= 2;
        }
        able
    }

    fn touch_moves(&mut self, batch: &[(Option<Owner>, u64, u64)]) -> Result<(), Stop> {
        for &(owner, ..) in batch {
            if let Some((ino, block)) = owner {
                self.catalog.touch_cut(ino, block, block + 1)?;
            }
        }
        Ok(())
    }

    fn record_moves(&mut self, batch: &[(Option<Owner>, u64, u64)]) -> Result<(), Stop> {
        let mut log_batch = self.new_batch(Stream::New)?;
        let (mut entries, number) = (Vec::new(), log_batch.seq);
        let mut record = |(ino, block): Owner, old: u64, new: u64| {
            let value = [old.to_le_bytes(), new.to_le_bytes()].concat();
            put_entry(&mut entries, Key::new(ino.0, Kind::Moved, block), Some(&value));
            // A mount cuts the extent that is durable at both ends of the block, so the next commit says what stands there.
            self.nameless.cuts.extend([block.saturating_sub(1), block].map(|block| Key::extent(ino, block)));
        };
        for &(owner, old, new) in batch {
            if let Some(owner) = owner {
                record(owner, old, new);
            }
            for dropped in self.nameless.dropped.iter_mut().filter(|dropped| dropped.name == old) {
                dropped.name = new;
                // The old name is acknowledged before the new one is freed.
                dropped.seq = dropped.seq.map(|seq| seq.max(number));
                if let Some(owner) = dropped.owner {
                    record(owner, old, new);
                }
            }
        }
        let owned = batch.iter().filter_map(|&(owner, _, new)| Some((owner?, new)));
        self.nameless.moving = true;
        for ((ino, block), new, count) in runs(owned) {
            self.relocate(ino, block, count, new);
        }
        self.bury();
        self.nameless.moving = false;
        log_batch.put_inline(&entries);
        let (seq, mut closed) = (log_batch.seq, Vec::new());
        self.close_batch(log_batch, &mut closed);
        self.send_batches(closed);
        self.commits.moves_recorded(seq);
        self.counters.renamed_blocks += batch.len() as u64;
        self.nameless.records.push_back((seq, batch.iter().map(|&(_, old, _)| old).collect()));
        if self.commits.hole {
            self.want_checkpoint();
        }
        (self.progress, self.done) = (true, true);
        Ok(())
    }

    /// Gives blocks of a file new names; they were touched.
    fn relocate(&mut self, ino: Ino, block: u64, count: u64, name: u64) {
        let sums: Vec<u32> = (block..block + count)
            .map_while(|block| {
                let (_, extent, place) = self.catalog.present(|catalog| catalog.extent_at(ino, block))?;
                crate::key::sum_of(self.catalog.value(place), block.checked_sub(extent.first)?)
            })
            .collect();
        self.catalog.cut(ino, block, block + count);
        let address = self.address_of(name);
        self.catalog.put_extent(ino, Extent { first: block, count, address }, &sums);
    }

    /// Applies a record of a move at the mount.
    pub(crate) fn apply_move(&mut self, key: Key, value: &[u8]) -> Result<(), Stop> {
        let mut f = crate::key::Fields(value);
        let (Some(old), Some(new)) = (f.u64(), f.u64()) else { return Err(crate::Errno::Io.into()) };
        let (ino, block) = (Ino(key.object()), key.offset());
        self.catalog.touch_cut(ino, block, block + 1)?;
        if self.catalog.run_at(ino, block)?.address == self.address_of(old) {
            self.relocate(ino, block, 1, new);
        }
        Ok(())
    }

    /// Takes the present names of the drive: moved blocks get their new names, and names that no file has are freed.
    pub(super) fn take_report(&mut self, report: Result<Vec<u64>, JobError>) {
        self.nameless.reconciled = Reconciled::Done;
        // Without it nothing is freed that no extent has.
        let Ok(report) = report else { return };
        // It says all that was told before.
        self.nameless.moves.clear();
        let (mut garbage, mut recorded, mut targets) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (name, &now) in (0u64..).zip(&report) {
            let is_owned = self.nameless.owners.get(name).is_some();
            if now == NOTHING || now == VIRTUAL {
                continue;
            }
            if now != name {
                targets.insert(now);
                self.nameless.reported.insert((name, now));
            }
            match is_owned {
                true if now != name => self.nameless.moves.push_back((name, now)),
                true => {}
                // The record of the move is there, and its acknowledgement was lost.
                false if now != name && self.nameless.owners.get(now).is_some() => recorded.push(name),
                false => garbage.push(name),
            }
        }
        let newest = self.log.seq - 1;
        let seq = Some(newest);
        if !recorded.is_empty() {
            self.nameless.records.push_back((newest, recorded));
        }
        garbage.retain(|name| !targets.contains(name));
        // Before what was dropped since: these wait for no commit.
        for name in garbage {
            self.nameless.dropped.push_front(Dropped { name, owner: None, seq });
        }
        if !self.commits.hole {
            self.nameless.short = true;
        }
    }
}
