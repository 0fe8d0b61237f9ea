//! Repair of the chunks that an earlier run left: their assignment to lines, the extent of each line, and the
//! padding of its holes.
//!
//! ```text
//!  starts of lines ─► claims: the newest line has a chunk ─┬─ has it ──► measured: ended, torn, or padded where there are holes
//!                                                          └─ none ────► reset (orphan), later one of a free line or a spare
//! ```
//! Invariants: a chunk belongs to at most one line; a line that continues has no hole below its last written
//! superpage.

use super::needs::{Known, UNREADABLE};
use super::{Phase, Start};
use crate::ftl::line::End;
use crate::ftl::units::Job;
use crate::ftl::{HostFtl, LineId, TAG_START};
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Command, Lba, Lpn, Opcode};
use std::ops::Range;

impl HostFtl {
    /// Assigns chunks to the known lines, resets the chunks that belong to none, and pads holes.
    pub(super) fn begin_repair(&mut self, start: &mut Start) {
        start.phase = Phase::Repair;
        let owned = start.settle_claims();
        start.orphans = start
            .chunks
            .values()
            .filter(|info| matches!(info.state, ChunkState::Open | ChunkState::Closed))
            .filter(|info| !owned.contains(&info.start.0))
            .map(|info| info.start)
            .collect();
        for (at, &lba) in start.orphans.iter().enumerate() {
            start.under_way += 1;
            self.mount.orphans += 1;
            self.send(Command::new(TAG_START | at as u64, Opcode::Reset, lba, 0, Vec::new()));
        }
        let found: Vec<u32> = start.starts.keys().copied().collect();
        for line in found {
            let (sequence, chunks) = start.starts[&line].clone();
            for (unit, chunk) in (0..).zip(&chunks) {
                self.lines.set_chunk(BlockId(line), unit, Some(*chunk));
            }
            let record = &mut self.lines[BlockId(line)];
            (record.begun, record.opened, record.sequence) = (true, true, sequence);
            self.measure(start, BlockId(line), &chunks);
        }
    }

    /// Measures the extent of a line by the write pointers of its chunks, and pads the superpages that a
    /// crash left out.
    fn measure(&mut self, start: &mut Start, line: LineId, chunks: &[Lba]) {
        let (units, superpage) = (self.lines.units, self.lines.superpage_sectors);
        let data = self.lines.layout().superpages_per_block;
        let infos: Vec<ChunkInfo> = chunks.iter().map(|c| start.chunks[&c.0]).collect();
        let reach = |(unit, info): (u32, &ChunkInfo)| match info.write_pointer.div_ceil(superpage) {
            0 => 0,
            rows => (rows - 1) * units + unit + 1,
        };
        let reached = (0..).zip(&infos).map(reach).max().unwrap_or(0);
        let rows = |unit: u32| infos[unit as usize].write_pointer.div_ceil(superpage);
        let (tail, all) = (self.lines.tail, self.lines.superpages());
        if (all - tail..all).all(|at| rows(at % units) > at / units) {
            start.ended.insert(line.0);
        }
        let rows_below = |unit: u32| (reached + units - 1 - unit) / units;
        let holes = (0..)
            .zip(&infos)
            .filter(|(unit, info)| info.write_pointer.div_ceil(superpage) < rows_below(*unit));
        let holes: Vec<(u32, ChunkInfo)> = holes.map(|(unit, info)| (unit, *info)).collect();
        // A chunk that takes no more writes, for any reason, ends the line.
        if self.lines.sealing_rows() > 0 {
            // All sectors of a closed chunk are readable.
            let written = infos.iter().map(|info| match info.state {
                ChunkState::Free | ChunkState::Open => info.write_pointer / superpage,
                _ => self.lines.rows,
            });
            self.lines[line].rows = written.collect();
        }
        let stuck = |info: &ChunkInfo| {
            let short = info.write_pointer < self.lines.geometry.chunk_sectors;
            !info.write_pointer.is_multiple_of(superpage)
                || (short && !matches!(info.state, ChunkState::Free | ChunkState::Open))
                || info.state == ChunkState::Offline
        };
        // A rebuilt line has no readable start; it is read, but takes no more writes.
        let stuck = infos.iter().any(stuck) || start.rebuilt.contains(&line.0);
        if reached > data || stuck {
            start.used.insert(line.0, data);
            // A full line without an end, because an earlier run began it, counts like one that is not full.
            if stuck || !holes.is_empty() || self.lines.held_rows > 0 {
                start.torn.insert(line.0);
            }
            let open = (0..).zip(&infos).filter(|(_, info)| {
                info.state == ChunkState::Open && info.write_pointer.is_multiple_of(superpage)
            });
            for (unit, info) in open {
                let row = info.write_pointer / superpage;
                self.pad(start, line, unit, row..row + self.lines.held_rows);
            }
            return;
        }
        for (unit, info) in holes {
            self.pad(start, line, unit, info.write_pointer / superpage..rows_below(unit));
        }
        let held = self.lines.held_rows;
        let padded = if reached > 0 { (reached + held * units).min(self.lines.superpages()) } else { 0 };
        if padded > reached {
            start.torn.insert(line.0);
            (0..units)
                .for_each(|unit| self.pad(start, line, unit, rows_below(unit)..rows_below(unit) + held));
        }
        start.used.insert(line.0, padded.saturating_sub(1).min(data));
    }

    /// Writes padding to the given rows of a line's chunk, up to the chunk's end.
    fn pad(&mut self, start: &mut Start, line: LineId, unit: u32, rows: Range<u32>) {
        for row in rows.start..rows.end.min(self.lines.rows) {
            start.under_way += 1;
            self.mount.padded_superpages += 1;
            self.enqueue(unit, Job::Pad(line, row * self.lines.units + unit));
        }
    }

    /// Notes the end of a padding write.
    pub(in crate::ftl) fn pad_ended(&mut self) {
        if let Some(start) = &mut self.starting {
            start.under_way -= 1;
        }
    }

    /// Assigns free chunks to unused lines; the remaining ones are spares.
    pub(super) fn assign_chunks(&mut self, start: &Start) {
        let mut free: Vec<Vec<Lba>> = vec![Vec::new(); self.lines.units as usize];
        let owned = start.owned();
        for info in start.chunks.values().rev().filter(|info| info.state == ChunkState::Free) {
            if let Some((unit, _)) = self.lines.unit_of(info.start).filter(|_| !owned.contains(&info.start.0))
            {
                free[unit as usize].push(info.start);
            }
        }
        for line in (0..self.lines.layout().blocks).filter(|line| !start.starts.contains_key(line)) {
            if free.iter().any(Vec::is_empty) {
                break;
            }
            for (unit, chunks) in (0..).zip(&mut free) {
                self.lines.set_chunk(BlockId(line), unit, chunks.pop());
            }
        }
        for (unit, chunks) in (0..).zip(free) {
            chunks.into_iter().for_each(|chunk| self.lines.add_spare(unit, chunk));
        }
    }

    /// Closes the lines whose padding failed.
    pub(super) fn end_broken(&mut self, start: &mut Start) {
        let data = self.lines.layout().superpages_per_block;
        for &line in start.starts.keys().filter(|&&line| !self.lines[BlockId(line)].broken.is_empty()) {
            start.used.insert(line, data);
            start.torn.insert(line);
        }
    }

    /// Finishes the partly written lines of an earlier run, except the one of each kind that continues.
    pub(super) fn finish_closed(&mut self, start: &Start) {
        for line in start.starts.keys().map(|&line| BlockId(line)) {
            if self.ftl.blocks().takes_data(line) {
                continue;
            }
            match self.lines.is_limited() {
                true => self.seal(line),
                false => self.seal_if_due(line),
            }
            for unit in 0..self.lines.units {
                let chunk = self.lines.chunk_of(line, unit);
                if chunk.is_some_and(|lba| start.chunks[&lba.0].state == ChunkState::Open) {
                    self.finish_chunk(line, unit);
                }
            }
        }
    }

    /// Restores the content of the end for continued lines whose pages are all known, so that they get an end
    /// like any other.
    pub(super) fn go_on_with_lines(&mut self, start: &Start) {
        for (&line, known) in &start.known {
            let Known::Pages(sequences, pages) = known else { continue };
            let line_id = BlockId(line);
            let broken = !self.lines[line_id].broken.is_empty();
            if broken || !self.ftl.blocks().takes_data(line_id) || sequences[0] == 0 {
                continue;
            }
            let readable = |&page: &Lpn| if page == UNREADABLE { Lpn::NONE } else { page };
            let end = End { sequences: sequences.clone(), pages: pages.iter().map(readable).collect() };
            let record = &mut self.lines[line_id];
            (record.written, record.end) = (start.used[&line], Some(Box::new(end)));
        }
    }
}
