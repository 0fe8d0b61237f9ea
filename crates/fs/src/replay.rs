//! Replay: a mount finds the commits behind the newest checkpoint, and applies them.

use super::backend::Content;
use super::batch::{Header, Identity, Owner, take_entry};
use super::checkpoint::Picture;
use super::key::{Fields, Key, Kind};
use super::log::{Head, State};
use super::types::{BLOCK_BYTES, Ino};
use super::{Fs, Stop};
use std::collections::VecDeque;

/// A whole batch behind the checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Found {
    seq: u64,
    segment: u32,
    end: u32,
    last: bool,
    /// True if the batch has only nodes of a checkpoint, which no commit needs.
    is_nodes: bool,
    entries: Vec<u8>,
}

impl Fs {
    /// Reads a segment of the reserve: first one header, then everything if there is one. `None`: it is being read; true: all of it is
    /// wanted.
    pub(super) fn scan(
        &mut self,
        picture: &Picture,
        head: Head,
        whole: bool,
        found: &mut Vec<Found>,
    ) -> Option<bool> {
        let each = self.log.layout.segment_blocks;
        if head.next >= each {
            return Some(false);
        }
        let address = self.log.layout.address(head.segment, head.next);
        let blocks = if whole { each - head.next } else { 1 };
        let Some(bytes) = self.want_raw(address, blocks)? else {
            return Some(false);
        };
        let identity = Identity { file_system: self.file_system, epoch: picture.epoch };
        let header_at = |at: usize| {
            let header =
                Header::decode(bytes.get(at..)?, address + (at / BLOCK_BYTES) as u64, self.file_system)?;
            (header.identity == identity && header.seq >= picture.seq).then_some(header)
        };
        if !whole {
            return Some(header_at(0).is_some());
        }
        let mut at = 0;
        while let Some(header) = header_at(at) {
            let end = at + header.blocks as usize * BLOCK_BYTES;
            let Some(blocks) = bytes.get(at + BLOCK_BYTES..end) else { break };
            let mut entries = Vec::new();
            if header.is_whole(blocks, &mut entries) {
                let end = head.next + (end / BLOCK_BYTES) as u32;
                let is_nodes = header.owners().all(|(_, owner)| matches!(owner, Owner::Node { .. }));
                let is_nodes = is_nodes && entries.is_empty();
                let (seq, segment, last) = (header.seq, head.segment, header.last);
                found.push(Found { seq, segment, end, last, is_nodes, entries });
            }
            at = end;
        }
        Some(false)
    }

    /// Reads the next batch of a flash block: batch by batch, as a read of more fails when the last page was torn. `None`: it is being
    /// read; true: there was one.
    pub(super) fn scan_flash(
        &mut self,
        (epoch, seq): (u64, u64),
        head: &mut Head,
        found: &mut Vec<Found>,
    ) -> Option<bool> {
        let written = self.library.found.get(&head.segment).map_or(0, |found| found.blocks);
        if head.next >= written.min(self.log.layout.segment_blocks) {
            return Some(false);
        }
        let address = self.log.layout.address(head.segment, head.next);
        let Some(bytes) = self.want_raw(address, 1)? else { return Some(false) };
        let identity = Identity { file_system: self.file_system, epoch };
        let header = Header::decode(&bytes, address, self.file_system);
        let Some(header) = header.filter(|h| h.identity == identity && h.seq >= seq) else {
            return Some(false);
        };
        if head.next + header.blocks > written {
            return Some(false);
        }
        let mut entries = Vec::new();
        let rest = header.blocks - 1;
        if rest > 0 {
            let Some(data) = self.want_raw(address + 1, rest) else {
                // The header is looked at again with them.
                self.reads.raw.insert(address, Some(bytes));
                return None;
            };
            if !data.is_some_and(|data| header.is_whole(&data, &mut entries)) {
                return Some(false);
            }
        } else if !header.is_whole(&[], &mut entries) {
            return Some(false);
        }
        head.next += self.log.layout.padded(header.blocks);
        let is_nodes = header.owners().all(|(_, owner)| matches!(owner, Owner::Node { .. }));
        let is_nodes = is_nodes && entries.is_empty();
        let (segment, end) = (head.segment, head.next);
        found.push(Found { seq: header.seq, segment, end, last: header.last, is_nodes, entries });
        Some(true)
    }

    /// Replays the commits behind the checkpoint, and positions the log behind them.
    pub(super) fn replay(
        &mut self,
        picture: &Picture,
        mut found: Vec<Found>,
    ) -> VecDeque<(Key, Option<Vec<u8>>)> {
        found.sort_by_key(|batch| batch.seq);
        let (mut entries, mut commit, mut kept) = (VecDeque::new(), Vec::new(), Vec::new());
        for (expected, batch) in (picture.seq..).zip(&found) {
            if batch.seq != expected {
                break;
            }
            commit.extend_from_slice(&batch.entries);
            kept.push((batch.segment, batch.end));
            // Nodes at the end of the log were of a checkpoint that was not finished: their blocks are free for the next.
            if batch.last && !batch.is_nodes {
                let mut f = Fields(&commit);
                while let Some((key, value)) = take_entry(&mut f) {
                    entries.push_back((key, value.map(<[u8]>::to_vec)));
                }
                for (segment, end) in kept.drain(..) {
                    let segment = &mut self.log.segments[segment as usize];
                    segment.written = segment.written.max(end);
                    segment.state = State::Open;
                }
                commit.clear();
                self.changes += 1;
            }
        }
        self.log.seq = found.last().map_or(picture.seq, |batch| batch.seq + 1).max(picture.seq);
        self.log.epoch = picture.epoch + 1;
        if self.log.layout.backend.is_flash() {
            // Until the first checkpoint of this mount is durable, those of the last are kept.
            let old = self.library.found.values().filter(|f| f.content == Some(Content::Checkpoint));
            self.checkpointing.old = old.map(|found| found.segment).collect();
            for &segment in &self.checkpointing.old {
                self.log.segments[segment as usize].state = State::Checkpoint;
            }
        }
        self.log.adopt(&picture.reserve);
        let kept = self.log.kept().len() as u32;
        self.log.elsewhere = self.log.elsewhere.saturating_sub(kept);
        entries
    }

    pub(super) fn apply(&mut self, key: Key, value: Option<&[u8]>) -> Result<(), Stop> {
        if key.kind() == Some(Kind::Moved) {
            return self.apply_move(key, value.unwrap_or_default());
        }
        self.touch(key, key)?;
        if key.kind() == Some(Kind::Inode) && value.is_some() {
            self.new_ino = self.new_ino.max(Ino(key.object() + 1));
        }
        match value {
            Some(value) => self.put(key, value),
            None => self.delete(key),
        }
        Ok(())
    }
}
