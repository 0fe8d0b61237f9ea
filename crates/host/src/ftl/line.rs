//! Line: what one chunk of every parallel unit, written and erased together, is at.
//!
//! ```text
//!  free ─► begun (its start is written) ─► opened ─► full ─► its end is written ─┬─► reset, when nothing holds it ─► free
//!                            └ start failed: closed    └ a chunk failed: sealed ─┘
//! ```
//! Invariants: a line is reset only when nothing is being read from it or written to it (its *holds*); of a chunk
//! that failed, at most one other chunk is the replacement.

use pellucid_flash::{Lba, Lpn};

/// Content of the end of a line.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Sequence number of each data superpage.
    pub sequences: Vec<u64>,
    /// Logical page of each sector; [`Lpn::NONE`] for padding.
    pub pages: Vec<Lpn>,
}

/// Failed chunks of a line, by parallel unit, and what replaces them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Parallel units with a failed write. Their chunks accept no more data, and the line gets no
    /// end.
    units: Vec<u32>,
    /// Chunks that replace broken ones at the next erase: spares, or the same chunks.
    replacements: Vec<(u32, Lba)>,
}

impl Broken {
    /// Returns the chunk that the line has in `unit` after its reset, instead of `own`.
    pub fn next_chunk(&self, unit: u32, own: Option<Lba>) -> Option<Lba> {
        match self.units.contains(&unit) {
            true => self.replacements.iter().find(|(of, _)| *of == unit).map(|r| r.1),
            false => own,
        }
    }
}

/// State of a line beyond the engine's block state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// The write of the start has ended, well or not.
    opened: bool,
    /// The line was begun since the last erase.
    begun: bool,
    /// Sequence number at which the line was begun.
    sequence: u64,
    /// The start could not be written, so the line takes no data.
    closed: bool,
    /// Number of data superpages that are planned and have not ended.
    in_flight: u32,
    /// Number of data superpages that were written successfully.
    written: u32,
    /// Number of sectors being read from the line and of metadata writes to it; the line must not be reset
    /// before they end.
    holds: u32,
    broken: Broken,
    /// The reset waits for the end of all holds.
    erase_waits: bool,
    /// Number of chunk resets under way.
    resets: u32,
    /// The chunks become spares after their reset.
    retiring: bool,
    /// Content of the line's end, gathered while the line is open.
    end: Option<Box<End>>,
    /// Number of superpages of the end that are being written.
    ending: u32,
    /// Superpages written to the chunk of each parallel unit, if the drive holds sectors back or limits open
    /// chunks; otherwise empty.
    rows: Vec<u32>,
    /// The padding of the chunks of a line without an end has been planned.
    sealed: bool,
}

impl Line {
    // ---- begin

    /// Notes a planned superpage of data. Returns `true` if it is the line's first, so that its start is to be
    /// written. `rows` is the number of chunks whose fill is to be counted.
    #[inline]
    pub fn plan(&mut self, sequence: u64, rows: usize) -> bool {
        self.in_flight += 1;
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            assert!(self.rows.is_empty() && !self.erase_waits, "a line is begun before its reset");
            self.sequence = sequence;
            self.rows = vec![0; rows];
        }
        first
    }

    /// Notes a line of an earlier run.
    pub fn found(&mut self, sequence: u64, rows: Vec<u32>) {
        (self.begun, self.opened, self.sequence, self.rows) = (true, true, sequence, rows);
    }

    /// Notes that the write of the start has ended.
    pub fn start_written(&mut self, ok: bool) {
        self.opened = true;
        // No start could find the line of these chunks, so none of them may be written.
        self.closed |= !ok;
    }

    /// Reports whether the write of the start has ended.
    #[inline]
    pub fn is_opened(&self) -> bool {
        self.opened
    }

    /// Returns the sequence number at which the line was begun.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    // ---- writes

    /// Notes the end of a planned superpage of data.
    #[inline]
    pub fn program_ended(&mut self, ok: bool) {
        assert!(self.in_flight > 0, "a superpage ends that was not planned");
        self.in_flight -= 1;
        self.written += u32::from(ok);
    }

    /// Notes a superpage written to the chunk of `unit`.
    #[inline]
    pub fn grew(&mut self, unit: u32) {
        if let Some(rows) = self.rows.get_mut(unit as usize) {
            *rows += 1;
        }
    }

    /// Notes a failed write to the chunk of `unit`, which has `rows` rows. `passed`: the chunk's write pointer is beyond the failed
    /// superpage; otherwise the drive has closed the chunk, and all of it is readable. Returns `true` if it is the chunk's first failure.
    pub fn failed(&mut self, unit: u32, passed: bool, all_rows: u32) -> bool {
        if let Some(rows) = self.rows.get_mut(unit as usize) {
            *rows = if passed { *rows + 1 } else { all_rows };
        }
        let first = !self.broken.units.contains(&unit);
        if first {
            self.broken.units.push(unit);
        }
        first
    }

    /// Sets the chunk that replaces the failed one of `unit` at the next erase, if there is one.
    pub fn replace(&mut self, unit: u32, chunk: Option<Lba>) {
        assert!(self.broken.replacements.iter().all(|r| r.0 != unit), "a chunk is replaced twice");
        assert!(self.broken.units.contains(&unit), "a chunk is replaced that has not failed");
        self.broken.replacements.extend(chunk.map(|chunk| (unit, chunk)));
    }

    /// Reports whether the chunk of `unit` accepts no more data.
    #[inline]
    pub fn is_dead(&self, unit: u32) -> bool {
        self.closed || self.broken.units.contains(&unit)
    }

    /// Reports whether a write to the chunk of `unit` has failed.
    pub fn is_broken(&self, unit: u32) -> bool {
        self.broken.units.contains(&unit)
    }

    /// Reports whether a write to the line has failed.
    #[inline]
    pub fn has_broken(&self) -> bool {
        !self.broken.units.is_empty()
    }

    /// Reports whether all failed chunks have replacements.
    #[inline]
    pub fn is_replaced(&self) -> bool {
        self.broken.units.len() == self.broken.replacements.len()
    }

    /// Returns the superpages written to the chunk of `unit`; `None` if they are not counted.
    #[inline]
    pub fn rows(&self, unit: u32) -> Option<u32> {
        self.rows.get(unit as usize).copied()
    }

    /// Reports whether superpages of data are planned and have not ended.
    #[inline]
    pub fn is_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    // ---- end

    /// Notes the pages of a superpage of data, of which a line has `superpages` of `sectors` each.
    #[inline]
    pub fn note(
        &mut self,
        at: usize,
        sequence: u64,
        pages: impl Iterator<Item = Lpn>,
        (superpages, sectors): (usize, usize),
    ) {
        let end = self.end.get_or_insert_with(|| {
            Box::new(End { sequences: vec![0; superpages], pages: vec![Lpn::NONE; superpages * sectors] })
        });
        end.sequences[at] = sequence;
        for (slot, page) in end.pages[at * sectors..].iter_mut().zip(pages) {
            *slot = page;
        }
    }

    /// Goes on with a line of an earlier run that has `written` superpages of data.
    pub fn go_on(&mut self, written: u32, end: End) {
        assert!(self.opened && !self.closed, "a line goes on that was not found");
        (self.written, self.end) = (written, Some(Box::new(end)));
    }

    /// Returns the content of the end, as far as it is known.
    pub fn end(&self) -> Option<&End> {
        self.end.as_deref()
    }

    /// Begins to write the end in `superpages` parts, if all `data` superpages are on the media; returns `true` if so.
    #[inline]
    pub fn begin_end(&mut self, data: u32, superpages: u32) -> bool {
        if self.written < data || !self.broken.units.is_empty() || self.end.is_none() {
            return false;
        }
        assert_eq!(self.in_flight, 0, "a line ends with data under way");
        self.holds += superpages;
        self.ending = superpages;
        true
    }

    /// Notes that a part of the end was written.
    pub fn part_of_end_written(&mut self) {
        assert!(self.ending > 0, "a part of an end was not being written");
        self.ending -= 1;
    }

    /// Releases the hold of a part of the end; returns `true` if it was the last hold. The end is not needed then.
    pub fn release_end(&mut self) -> bool {
        let is_free = self.release();
        if is_free {
            self.end = None;
        }
        is_free
    }

    /// Reports whether the line, which has `data` superpages of data over `units` units, gets no end and must be sealed: either it
    /// has a failed chunk and accepts no more data, or it is full and was begun by an earlier run.
    #[inline]
    pub fn wants_seal(&self, data: u32, units: u32) -> bool {
        if self.rows.is_empty() || self.in_flight > 0 || self.ending > 0 || self.sealed {
            return false;
        }
        let whole = self.broken.units.is_empty();
        let full = self.rows[(data % units) as usize] > data / units;
        let ends = whole && self.written == data && self.end.is_some();
        !ends && (full || !whole)
    }

    /// Notes that the line's chunks are padded, and get no end.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    // ---- holds and reset

    /// Holds the line for one more read or write.
    #[inline]
    pub fn hold(&mut self) {
        self.holds += 1;
    }

    /// Releases a hold; returns `true` if it was the last one.
    #[inline]
    pub fn release(&mut self) -> bool {
        assert!(self.holds > 0, "a line is released that nothing holds");
        self.holds -= 1;
        self.holds == 0
    }

    /// Asks for the line's reset; `retiring`: its chunks become spares then.
    pub fn ask_reset(&mut self, retiring: bool) {
        assert!(!self.erase_waits && self.resets == 0, "a line is reset twice");
        (self.erase_waits, self.retiring) = (true, retiring);
    }

    /// Begins the reset of `units` chunks if it was requested and nothing holds the line. Returns the failed chunks, which the line
    /// releases.
    #[inline]
    pub fn begin_reset(&mut self, units: u32) -> Option<Broken> {
        if self.holds > 0 || !std::mem::take(&mut self.erase_waits) {
            return None;
        }
        assert_eq!((self.in_flight, self.resets), (0, 0), "a line is reset that is written or reset");
        self.resets = units;
        Some(std::mem::take(&mut self.broken))
    }

    /// Notes that a part of the reset has ended; after the last one, the line is blank, and it is known whether it retires.
    pub fn part_reset(&mut self) -> Option<bool> {
        assert!(self.resets > 0, "a part of a line was not being reset");
        self.resets -= 1;
        if self.resets > 0 {
            return None;
        }
        Some(std::mem::take(self).retiring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_reset_once_nothing_holds_it() {
        let mut line = Line::default();
        assert!(line.plan(7, 0) && !line.plan(8, 0));
        line.program_ended(true);
        line.program_ended(false);
        line.hold();
        line.ask_reset(true);
        assert_eq!(line.begin_reset(1), None);
        assert!(line.release());
        assert_eq!(line.begin_reset(1), Some(Broken::default()));
        assert_eq!(line.begin_reset(1), None);
        assert_eq!(line.part_reset(), Some(true));
        assert!(line.plan(9, 0), "it begins anew");
    }

    #[test]
    #[should_panic(expected = "a chunk is replaced twice")]
    fn a_failed_chunk_has_one_replacement() {
        let mut line = Line::default();
        assert!(line.failed(2, true, 8) && !line.failed(2, true, 8));
        line.replace(2, Some(Lba(64)));
        line.replace(2, Some(Lba(96)));
    }

    #[test]
    #[should_panic(expected = "a line is released that nothing holds")]
    fn a_hold_is_released_once() {
        let mut line = Line::default();
        line.hold();
        assert!(line.release());
        line.release();
    }
}
