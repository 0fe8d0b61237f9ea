//! Fitting a trace to a drive: selection of records, time scale, whole sectors, and addresses within the capacity.
//!
//! ```text
//! record -> stream? -> limit? -> scale time -> drop empty -> widen to sectors -> place -> one or more records
//! ```
//!
//! Invariant: every returned request consists of whole sectors, is not empty, and lies within the capacity. Requests that must be cut are returned
//! piece by piece, in ascending order of the trace's addresses, all with the same time; no list of pieces is ever built.

use pellucid_report::Replay;
use pellucid_setting::Word;
use std::collections::{BTreeMap, BTreeSet};

use pellucid_flash::SimTime;

use super::error::{Problem, TraceError};
use super::{Action, ReadStats, Record, TraceReader};

/// Unit in which [`AddressPolicy::Compact`] moves addresses.
const EXTENT_BYTES: u64 = 1 << 20;

/// Longest returned piece. A longer request, such as a trim of a whole disk, is split, so that the data of one command fit into memory.
const PIECE_BYTES: u64 = 1 << 30;
/// Latest arrival, 146 years, so that the run's start and later work can still be represented.
const LATEST_NS: u64 = u64::MAX >> 2;

/// Treatment of addresses beyond the drive's end.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames, Word,
)]
#[strum(serialize_all = "kebab-case")]
pub enum AddressPolicy {
    /// End with an error.
    Refuse,
    /// Count addresses modulo the capacity (in whole sectors). A request across the end is split there and continues at 0; one longer than the drive
    /// is first clipped to the drive's length, as it touches every sector anyway.
    Fold,
    /// Assign the drive's extents to the read or written extents of 1 MiB, in order of first touch; addresses within an extent stay together. A
    /// request over extents that are no longer adjacent is split. A trim assigns no extent: it is dropped where nothing was read or written before.
    /// End with an error when the drive is full.
    Compact,
}

/// Settings for fitting a trace to a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaping {
    /// Factor of every time: 0.5 replays twice as fast, 0 makes everything arrive at once. Finite, not negative.
    pub time_scale: f64,
    /// Number of records to take, after selection by stream.
    pub limit: Option<u64>,
    /// Take only this stream; times still count from the first record of the whole trace.
    pub stream: Option<u32>,
    /// The drive's sector, a power of two from 512 to 65,536. Requests are widened to whole sectors.
    pub sector_bytes: u32,
    /// The drive's capacity, at least one sector (for `Compact` at least 1 MiB); an incomplete sector or
    /// extent at its end is not used.
    pub capacity_bytes: u64,
    /// Treatment of addresses beyond the drive.
    pub addresses: AddressPolicy,
}

impl Shaping {
    /// The trace at its own pace, on a drive of `capacity_bytes` with sectors of `sector_bytes`; addresses beyond its end are refused.
    pub fn new(capacity_bytes: u64, sector_bytes: u32) -> Shaping {
        let addresses = AddressPolicy::Refuse;
        Shaping { time_scale: 1.0, limit: None, stream: None, sector_bytes, capacity_bytes, addresses }
    }

    fn check(&self) -> Result<(), Problem> {
        let refuse = |key, value, allowed| Err(Problem::Setting { key, value, allowed });
        if !self.time_scale.is_finite() || self.time_scale < 0.0 {
            return refuse("time_scale", self.time_scale.to_string(), "a finite number from 0");
        }
        if !self.sector_bytes.is_power_of_two() || !(512..=65_536).contains(&self.sector_bytes) {
            return refuse("sector_bytes", self.sector_bytes.to_string(), "a power of two from 512 to 65536");
        }
        if self.capacity_bytes < u64::from(self.sector_bytes) {
            return refuse("capacity_bytes", self.capacity_bytes.to_string(), "at least one sector");
        }
        if self.addresses == AddressPolicy::Compact && self.capacity_bytes < EXTENT_BYTES {
            return refuse(
                "capacity_bytes",
                self.capacity_bytes.to_string(),
                "at least 1048576 to compact into",
            );
        }
        Ok(())
    }
}

/// Counts of the shaping. Requests are counted before they are split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeStats {
    /// Records taken from the trace.
    pub taken: u64,
    /// Records of other streams.
    pub other_streams: u64,
    /// Reads, writes and trims of length 0, dropped.
    pub empty: u64,
    /// Requests widened to whole sectors.
    pub widened: u64,
    /// Requests of which a part has another address than in the trace.
    pub moved: u64,
    /// Requests returned in more than one piece.
    pub split: u64,
    /// Requests longer than the drive, clipped to its length (`Fold`).
    pub clipped: u64,
    /// Trims partly dropped because nothing was written there (`Compact`).
    pub trims_cut: u64,
}

/// Rest of a request, in the trace's sectors.
struct Rest {
    record: Record,
    next: u64,
    end: u64,
    pieces: u64,
    moved: bool,
}

/// Reopens the trace from its beginning.
pub type Reopen = Box<dyn FnMut() -> Result<TraceReader, TraceError> + Send>;

/// Passes over the trace after the first one.
struct Repeats {
    reopen: Reopen,
    left: u32,
    /// Records taken in earlier passes, and the reading statistics of these passes.
    taken_before: u64,
    read_before: ReadStats,
    /// Records read in this pass, and its latest time.
    read: u64,
    latest_ns: u64,
    /// Start of this pass, in the trace's time.
    begin_ns: u64,
}

/// A trace fitted to a drive: an iterator of records that ends after the first error.
pub struct Shaped {
    reader: TraceReader,
    repeats: Option<Repeats>,
    shaping: Shaping,
    sector_shift: u32,
    capacity_sectors: u64,
    /// Drive extent of each trace extent (`Compact`).
    extents: BTreeMap<u64, u64>,
    rest: Option<Rest>,
    /// Accepted streams, and the last of them; before the first accepted record, the skipped streams.
    streams: BTreeSet<u32>,
    last_stream: Option<u32>,
    ended: bool,
    stats: ShapeStats,
}

impl TraceReader {
    /// Fits the trace to a drive.
    pub fn shaped(self, shaping: Shaping) -> Result<Shaped, TraceError> {
        shaping.check().map_err(|problem| self.error(problem))?;
        let sector_shift = shaping.sector_bytes.trailing_zeros();
        let capacity_sectors = shaping.capacity_bytes >> sector_shift;
        Ok(Shaped {
            reader: self,
            repeats: None,
            shaping,
            sector_shift,
            capacity_sectors,
            extents: BTreeMap::new(),
            rest: None,
            streams: BTreeSet::new(),
            last_stream: None,
            ended: false,
            stats: ShapeStats::default(),
        })
    }
}

impl Shaped {
    /// Takes the trace `times` times. `reopen` opens it from its beginning; each pass begins a mean gap between records after the previous one. A
    /// limit counts the records of each pass.
    pub fn repeated(mut self, times: u32, reopen: Reopen) -> Shaped {
        let left = times.saturating_sub(1);
        let read_before = ReadStats::default();
        self.repeats =
            Some(Repeats { reopen, left, taken_before: 0, read_before, read: 0, latest_ns: 0, begin_ns: 0 });
        self
    }

    /// Starts the next pass over the trace; false: there is none.
    fn begin_again(&mut self) -> Result<bool, TraceError> {
        let (taken, read) = (self.stats.taken, self.read_stats());
        let Some(repeats) = self.repeats.as_mut().filter(|repeats| repeats.left > 0 && taken > 0) else {
            return Ok(false);
        };
        self.reader = (repeats.reopen)()?;
        let gap_ns = repeats.latest_ns.checked_div(repeats.read.saturating_sub(1)).unwrap_or(0);
        repeats.begin_ns = repeats.begin_ns.saturating_add(repeats.latest_ns).saturating_add(gap_ns);
        repeats.left -= 1;
        repeats.read_before = read;
        (repeats.taken_before, repeats.read, repeats.latest_ns) = (taken, 0, 0);
        Ok(true)
    }

    /// Counts for a report, up to now.
    pub fn replay(&self) -> Replay {
        Replay {
            records: self.stats.taken,
            devices: self.streams(),
            other_devices: self.stats.other_streams,
            out_of_order: self.read_stats().backwards,
            empty: self.stats.empty,
            widened: self.stats.widened,
            moved: self.stats.moved,
            split: self.stats.split,
            clipped: self.stats.clipped,
            trims_cut: self.stats.trims_cut,
        }
    }

    /// Counts of the shaping up to now.
    pub fn stats(&self) -> ShapeStats {
        self.stats
    }

    /// Number of streams from which records were taken.
    pub fn streams(&self) -> u64 {
        self.streams.len() as u64
    }

    /// Returns the counts of the records read so far.
    pub fn read_stats(&self) -> ReadStats {
        let before = self.repeats.as_ref().map_or(ReadStats::default(), |repeats| repeats.read_before);
        let now = self.reader.stats();
        ReadStats {
            records: before.records + now.records,
            backwards: before.backwards + now.backwards,
            skipped: before.skipped + now.skipped,
        }
    }

    /// The reader below.
    pub fn reader(&self) -> &TraceReader {
        &self.reader
    }

    fn advance(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(piece) = self.piece() {
                return Ok(Some(piece));
            }
            let Some(record) = self.take()? else { return Ok(None) };
            if record.action == Action::Flush {
                return Ok(Some(record));
            }
            if record.length_bytes == 0 {
                self.stats.empty += 1;
                continue;
            }
            let rest = self.place(record).map_err(|problem| self.reader.error(problem))?;
            self.rest = Some(rest);
        }
    }

    /// The next selected record of the trace, at its scaled time.
    fn take(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let taken_before = self.repeats.as_ref().map_or(0, |repeats| repeats.taken_before);
            let is_full = self.shaping.limit.is_some_and(|limit| self.stats.taken - taken_before >= limit);
            let record = if is_full { None } else { self.reader.next().transpose()? };
            let Some(mut record) = record else {
                if self.begin_again()? {
                    continue;
                }
                return match self.shaping.stream {
                    Some(stream) if self.stats.taken == 0 && self.stats.other_streams > 0 => {
                        Err(self.reader.no_stream(stream, std::mem::take(&mut self.streams)))
                    }
                    _ => Ok(None),
                };
            };
            if let Some(repeats) = &mut self.repeats {
                repeats.read += 1;
                repeats.latest_ns = record.at.0;
                record.at = SimTime(repeats.begin_ns.saturating_add(record.at.0));
            }
            if self.shaping.stream.is_some_and(|stream| stream != record.stream) {
                self.stats.other_streams += 1;
                if self.stats.taken == 0 {
                    self.streams.insert(record.stream);
                }
                continue;
            }
            if self.stats.taken == 0 {
                self.streams.clear();
            }
            self.stats.taken += 1;
            if self.last_stream != Some(record.stream) {
                self.last_stream = Some(record.stream);
                self.streams.insert(record.stream);
            }
            let at = self.scale(record.at).map_err(|problem| self.reader.error(problem))?;
            return Ok(Some(Record { at, ..record }));
        }
    }

    /// Never changes the order: rounding is monotonic.
    fn scale(&self, at: SimTime) -> Result<SimTime, Problem> {
        let factor = self.shaping.time_scale;
        let scaled_ns = if factor == 1.0 { at.0 } else { (at.0 as f64 * factor).round() as u64 };
        match scaled_ns <= LATEST_NS {
            true => Ok(SimTime(scaled_ns)),
            false => Err(Problem::Scaled { at_ns: at.0, factor }),
        }
    }

    /// Widens a request to sectors and assigns its address.
    fn place(&mut self, record: Record) -> Result<Rest, Problem> {
        let sector_bytes = u64::from(self.shaping.sector_bytes);
        let end_bytes = record.offset_bytes + record.length_bytes;
        if !record.offset_bytes.is_multiple_of(sector_bytes) || !end_bytes.is_multiple_of(sector_bytes) {
            self.stats.widened += 1;
        }
        let next = record.offset_bytes >> self.sector_shift;
        let mut end = end_bytes.div_ceil(sector_bytes);
        match self.shaping.addresses {
            AddressPolicy::Refuse if end > self.capacity_sectors => {
                return Err(Problem::Beyond {
                    offset_bytes: record.offset_bytes,
                    length_bytes: record.length_bytes,
                    capacity_bytes: self.shaping.capacity_bytes,
                });
            }
            AddressPolicy::Refuse => {}
            AddressPolicy::Fold => {
                if end - next > self.capacity_sectors {
                    end = next + self.capacity_sectors;
                    self.stats.clipped += 1;
                }
            }
            AddressPolicy::Compact if record.action == Action::Trim => {
                let first = next >> self.extent_shift();
                let last = (end - 1) >> self.extent_shift();
                let known = self.extents.range(first..=last).count() as u64;
                if known <= last - first {
                    self.stats.trims_cut += 1;
                }
            }
            AddressPolicy::Compact => self.reserve(next, end)?,
        }
        Ok(Rest { record, next, end, pieces: 0, moved: false })
    }

    /// Assigns an extent to every extent under the sectors `next..end`.
    fn reserve(&mut self, next: u64, end: u64) -> Result<(), Problem> {
        let capacity_bytes = self.shaping.capacity_bytes;
        let places = capacity_bytes / EXTENT_BYTES;
        let full = Problem::Full { capacity_bytes, extent_bytes: EXTENT_BYTES };
        let (first, last) = (next >> self.extent_shift(), (end - 1) >> self.extent_shift());
        if last - first >= places {
            return Err(full);
        }
        for extent in first..=last {
            let place = self.extents.len() as u64;
            if self.extents.contains_key(&extent) {
                continue;
            }
            if place >= places {
                return Err(full);
            }
            self.extents.insert(extent, place);
        }
        Ok(())
    }

    fn extent_shift(&self) -> u32 {
        EXTENT_BYTES.trailing_zeros() - self.sector_shift
    }

    /// The next piece of the current request.
    fn piece(&mut self) -> Option<Record> {
        let mut rest = self.rest.take()?;
        let Some((from, to, drive)) = self.run(rest.next, rest.end) else {
            self.stats.split += u64::from(rest.pieces > 1);
            self.stats.moved += u64::from(rest.moved);
            return None;
        };
        let to = to.min(from + (PIECE_BYTES >> self.sector_shift));
        rest.pieces += 1;
        rest.moved |= from != drive;
        rest.next = to;
        let piece = Record {
            offset_bytes: drive << self.sector_shift,
            length_bytes: (to - from) << self.sector_shift,
            ..rest.record
        };
        self.rest = Some(rest);
        Some(piece)
    }

    /// The first sectors `from..to` of `next..end` that are contiguous on the drive, and the drive's sector for `from`.
    fn run(&self, next: u64, end: u64) -> Option<(u64, u64, u64)> {
        if next >= end {
            return None;
        }
        match self.shaping.addresses {
            AddressPolicy::Refuse => Some((next, end, next)),
            AddressPolicy::Fold => {
                let drive = next % self.capacity_sectors;
                let to = end.min(next + (self.capacity_sectors - drive));
                Some((next, to, drive))
            }
            AddressPolicy::Compact => self.compact_run(next, end),
        }
    }

    fn compact_run(&self, next: u64, end: u64) -> Option<(u64, u64, u64)> {
        let shift = self.extent_shift();
        let (first, last) = (next >> shift, (end - 1) >> shift);
        let mut known = self.extents.range(first..=last);
        let (&extent, &place) = known.next()?;
        let from = next.max(extent << shift);
        let neighbours =
            known.zip(1..).take_while(|((e, p), i)| **e == extent + i && **p == place + i).count();
        let to = end.min((extent + neighbours as u64 + 1) << shift);
        Some((from, to, (place << shift) + (from - (extent << shift))))
    }
}

impl Iterator for Shaped {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
