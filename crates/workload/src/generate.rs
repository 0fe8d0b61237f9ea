//! A job on a drive: its stream of I/O, and the earliest start of each item.
//!
//! The next item is always decided one step ahead (`pending`), so that [`Generator::earliest`] can name its
//! release time without changing anything:
//!
//! ```text
//!          +--- next() of data ---+        +-- flush due --+
//!          v                      |        |               v
//!  prepare() --> Data(direction) -+--------+            Flush --next()--> prepare()
//!          \--> limit or deadline reached: End, after a last Flush if the job asks for one and wrote since
//! ```
//! Directions, sizes, places and release times draw from four streams, so that changing one setting does not shift the draws of another. Places are
//! computed in sectors. Per direction, block starts are `first + slot * step` with `slot < slots`, chosen so that the smallest I/O fits after each
//! start; a larger one is cut at the end of the region.

use super::distribution::Sampler;
use super::pace::{Pace, Pause};
use super::permute::RandomMap;
use super::{BlockSize, Direction, Distribution, IoLimit, Job, JobError, Pattern, Rate, RateProcess};
use pellucid_flash::{Lba, Opcode, Rng, SimTime};

/// One I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Operation.
    pub op: Opcode,
    /// First sector; 0 for a flush.
    pub lba: Lba,
    /// Sectors; 0 for a flush.
    pub sectors: u32,
}

/// The stream of a job's I/O on one drive, endless or finite. An iterator; a clone continues identically.
#[derive(Clone, Debug)]
pub struct Generator {
    pending: Pending,
    turn: Turn,
    lanes: [Lane; 3],
    maps: Vec<RandomMap>,
    /// The trim of `trimwrite` whose write comes next.
    trimmed: Option<Io>,
    direction_rng: Rng,
    size_rng: Rng,
    place_rng: Rng,
    pacing_rng: Rng,
    ios_left: u64,
    sectors_left: u64,
    flush_every: u32,
    writes_until_flush: u32,
    flush_at_end: bool,
    dirty: bool,
    origin: SimTime,
    /// Earliest start of the pending item, in nanoseconds after `origin`.
    release_ns: u64,
    start_delay_ns: u64,
    deadline_ns: u64,
    sector_bytes: u64,
    /// True if the job has pacing, think time, or `trimwrite`, which most jobs lack.
    unusual: bool,
    paced: bool,
    paces: [Pace; 3],
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    Data(Direction),
    Flush,
    End,
}

/// How the next direction is chosen.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Always(Direction),
    Mixed { read_percent: u64 },
    TrimThenWrite,
}

impl Generator {
    /// Puts `job` on a drive of `capacity_bytes` with sectors of `sector_bytes`. It starts at time zero unless [`start`](Generator::start) is called.
    pub fn new(job: &Job, capacity_bytes: u64, sector_bytes: u32) -> Result<Generator, JobError> {
        let region = Region::new(job, capacity_bytes, sector_bytes)?;
        let seed = job.seed.wrapping_add(u64::from(job.stream).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut place_rng = Rng::stream(seed, "workload place");
        let mut maps = Vec::new();
        let mut mapped: Vec<(u64, u64)> = Vec::new();
        let mut lanes = Vec::new();
        for direction in active(job.pattern) {
            let mut lane = Lane::new(job, *direction, &region, Rng::stream(seed, "workload scatter"))?;
            if let Place::Mapped(map) = &mut lane.place {
                let shape = (lane.step, lane.slots);
                *map = mapped.iter().position(|other| *other == shape).unwrap_or(mapped.len());
                if *map == mapped.len() {
                    mapped.push(shape);
                    maps.push(RandomMap::new(lane.slots, &mut place_rng));
                }
            }
            lanes.push((*direction, lane));
        }
        // Unused directions get a lane too, so that the array is full; it is never used.
        let lane_of =
            |d: Direction| lanes.iter().find(|(other, _)| *other == d).unwrap_or(&lanes[0]).1.clone();
        let mut generator = Generator {
            pending: Pending::End,
            turn: Turn::of(job),
            lanes: Direction::ALL.map(lane_of),
            maps,
            trimmed: None,
            direction_rng: Rng::stream(seed, "workload direction"),
            size_rng: Rng::stream(seed, "workload size"),
            place_rng,
            pacing_rng: Rng::stream(seed, "workload pacing"),
            ios_left: job.number_ios.unwrap_or(u64::MAX).saturating_mul(job.loops.into()),
            sectors_left: region.limit_sectors(job).saturating_mul(job.loops.into()),
            flush_every: job.flush_every,
            writes_until_flush: job.flush_every,
            flush_at_end: job.flush_at_end,
            dirty: false,
            origin: SimTime::ZERO,
            release_ns: job.start_delay.0,
            start_delay_ns: job.start_delay.0,
            deadline_ns: job.runtime.map_or(u64::MAX, |runtime| {
                job.start_delay.0.saturating_add(job.ramp_time.0).saturating_add(runtime.0)
            }),
            sector_bytes: sector_bytes.into(),
            unusual: job.think.is_some()
                || job.rate.iter().any(|rate| *rate != Rate::Unlimited)
                || matches!(Turn::of(job), Turn::TrimThenWrite),
            paced: job.rate.iter().any(|rate| *rate != Rate::Unlimited),
            paces: job.rate.map(|rate| Pace::new(rate, job.rate_process)),
            pause: job.think.map(Pause::new),
        };
        if job.rate_process == RateProcess::Poisson {
            for pace in &mut generator.paces {
                pace.advance(sector_bytes.into(), &mut generator.pacing_rng);
            }
        }
        generator.prepare();
        Ok(generator)
    }

    /// Starts the job at `at`: release times and the deadline count from there. Call it before the first
    /// `next`.
    pub fn start(&mut self, at: SimTime) {
        self.origin = at;
    }

    /// Earliest submission of the item that `next` returns; in the past if only the queue depth limits it. [`SimTime::MAX`] while `thinktime` waits
    /// for [`completed`](Generator::completed). The caller must obey: `next` itself ignores the time.
    pub fn earliest(&self) -> SimTime {
        let released = SimTime(self.origin.0.saturating_add(self.release_ns));
        match &self.pause {
            Some(pause) if pause.waiting() => SimTime::MAX,
            Some(pause) => released.max(pause.until),
            None => released,
        }
    }

    /// End of `runtime`, after which the driver submits nothing more of this job; [`SimTime::MAX`] without `runtime`. A paced stream also ends by
    /// itself at the deadline.
    pub fn deadline(&self) -> SimTime {
        SimTime(self.origin.0.saturating_add(self.deadline_ns))
    }

    /// Returns whether `next` is exhausted. [`earliest`](Generator::earliest) may still return a later time, the end of the last pause.
    pub fn is_over(&self) -> bool {
        matches!(self.pending, Pending::End)
    }

    /// Reports that one item, possibly a flush, completed at `now`. Only jobs with `thinktime` need it.
    pub fn completed(&mut self, now: SimTime) {
        if let Some(pause) = &mut self.pause {
            pause.completed(now);
        }
    }

    /// Chooses the next item and its time.
    #[inline]
    fn prepare(&mut self) {
        let direction = match self.turn {
            Turn::Always(direction) => direction,
            Turn::Mixed { read_percent } => self.mixed(read_percent),
            Turn::TrimThenWrite if self.trimmed.is_some() => Direction::Write,
            Turn::TrimThenWrite => Direction::Trim,
        };
        if self.paced {
            let due = self.start_delay_ns.saturating_add(self.paces[direction as usize].due_ns as u64);
            self.release_ns = self.release_ns.max(due);
        }
        let over =
            self.ios_left == 0 || self.sectors_left == 0 || self.paced && self.release_ns >= self.deadline_ns;
        self.pending = match over {
            false => Pending::Data(direction),
            true if self.flush_at_end && self.dirty => Pending::Flush,
            true => Pending::End,
        };
    }

    /// Chooses read or write by `rwmixread`. If both are paced, chooses the one due first, so that the
    /// rates set the mix. If only one is paced, the other waits for it as the mix requires.
    #[inline]
    fn mixed(&mut self, read_percent: u64) -> Direction {
        let drawn =
            if self.direction_rng.below(100) < read_percent { Direction::Read } else { Direction::Write };
        let [read, write, _] = &self.paces;
        if !self.paced || read.rate == Rate::Unlimited || write.rate == Rate::Unlimited {
            return drawn;
        }
        match read.due_ns.total_cmp(&write.due_ns) {
            std::cmp::Ordering::Less => Direction::Read,
            std::cmp::Ordering::Equal => drawn,
            std::cmp::Ordering::Greater => Direction::Write,
        }
    }

    #[inline]
    fn issue(&mut self, direction: Direction) -> Io {
        if self.unusual {
            return self.issue_unusual(direction);
        }
        let io = self.place(direction);
        self.charge(&io);
        io
    }

    /// Chooses the place of an I/O.
    #[inline]
    fn place(&mut self, direction: Direction) -> Io {
        // The trims of `trimwrite` have the sizes and places of its writes: their lane is a copy.
        let lane = &mut self.lanes[direction as usize];
        let (lba, sectors) = lane.next(&mut self.size_rng, &mut self.place_rng, &mut self.maps);
        Io { op: direction.opcode(), lba: Lba(lba), sectors }
    }

    #[inline]
    fn charge(&mut self, io: &Io) {
        self.ios_left -= 1;
        self.sectors_left = self.sectors_left.saturating_sub(io.sectors.into());
    }

    /// Issues an I/O of a job with pacing, think time, or trims followed by writes.
    fn issue_unusual(&mut self, direction: Direction) -> Io {
        let io = match self.trimmed.take() {
            Some(trim) => Io { op: Opcode::Write, ..trim },
            None => self.place(direction),
        };
        let bytes = u64::from(io.sectors) * self.sector_bytes;
        self.paces[direction as usize].advance(bytes, &mut self.pacing_rng);
        if let Some(pause) = &mut self.pause {
            pause.issued();
        }
        if matches!(self.turn, Turn::TrimThenWrite) && direction == Direction::Trim {
            self.trimmed = Some(io);
        } else {
            self.charge(&io);
        }
        io
    }

    /// Counts writes; returns true when a flush is due.
    #[inline]
    fn wrote(&mut self) -> bool {
        self.dirty = true;
        if self.flush_every == 0 {
            return false;
        }
        self.writes_until_flush -= 1;
        self.writes_until_flush == 0
    }
}

impl Iterator for Generator {
    type Item = Io;

    /// The next I/O; `None` at the end of the job.
    #[inline]
    fn next(&mut self) -> Option<Io> {
        match self.pending {
            Pending::Data(direction) => {
                let io = self.issue(direction);
                if direction == Direction::Write && self.wrote() {
                    self.pending = Pending::Flush;
                } else {
                    self.prepare();
                }
                Some(io)
            }
            Pending::Flush => {
                self.dirty = false;
                self.writes_until_flush = self.flush_every;
                if let Some(pause) = &mut self.pause {
                    pause.in_flight += 1;
                }
                self.prepare();
                Some(Io { op: Opcode::Flush, lba: Lba(0), sectors: 0 })
            }
            Pending::End => None,
        }
    }
}

impl Turn {
    fn of(job: &Job) -> Turn {
        match job.pattern {
            Pattern::Read | Pattern::RandRead => Turn::Always(Direction::Read),
            Pattern::Write | Pattern::RandWrite => Turn::Always(Direction::Write),
            Pattern::Trim | Pattern::RandTrim => Turn::Always(Direction::Trim),
            Pattern::ReadWrite | Pattern::RandRw => Turn::Mixed { read_percent: job.read_percent.into() },
            Pattern::TrimWrite | Pattern::RandTrimWrite => Turn::TrimThenWrite,
        }
    }
}

/// Directions that choose places: the trims of `trimwrite` go where its writes go.
fn active(pattern: Pattern) -> &'static [Direction] {
    match pattern {
        Pattern::TrimWrite | Pattern::RandTrimWrite => &[Direction::Write],
        other => other.directions(),
    }
}

fn refuse<T>(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.to_string(), allowed: allowed.into() })
}

/// Sectors on which a job works.
struct Region {
    first: u64,
    end: u64,
    sector_bytes: u64,
    /// Smallest block of any active direction, in sectors.
    min_sectors: u64,
}

impl Region {
    fn new(job: &Job, capacity_bytes: u64, sector_bytes: u32) -> Result<Region, JobError> {
        let sector_bytes = u64::from(sector_bytes);
        assert!(sector_bytes > 0, "a sector has bytes");
        for direction in active(job.pattern) {
            check_block(&job.block[*direction as usize], sector_bytes)?;
        }
        let smallest = active(job.pattern).iter().map(|d| job.block[*d as usize].min_bytes()).min();
        let min_sectors = smallest.unwrap_or(0) / sector_bytes;
        let capacity = capacity_bytes / sector_bytes;
        let step = |key, amount: super::Amount| match amount {
            super::Amount::Bytes(bytes) if !bytes.is_multiple_of(sector_bytes) => {
                refuse(key, bytes, format!("a multiple of the sector, {sector_bytes} bytes"))
            }
            super::Amount::Bytes(bytes) => Ok(bytes / sector_bytes),
            super::Amount::Percent(_) => Ok(amount.of(capacity) / min_sectors * min_sectors),
        };
        let increment = step("offset_increment", job.offset_increment)?;
        let first =
            step("offset", job.offset)?.saturating_add(increment.saturating_mul(job.clone_index.into()));
        if first >= capacity {
            return refuse(
                "offset",
                job.offset,
                format!("places before the end of the drive, {capacity_bytes} bytes"),
            );
        }
        let size = match job.size {
            super::Amount::Percent(_) => job.size.of(capacity).min(capacity - first),
            super::Amount::Bytes(bytes) => bytes / sector_bytes,
        };
        if size > capacity - first {
            let room = (capacity - first) * sector_bytes;
            return refuse(
                "size",
                job.size,
                format!("at most {room} bytes, from the offset to the end of the drive"),
            );
        }
        Ok(Region { first, end: first + size, sector_bytes, min_sectors })
    }

    fn limit_sectors(&self, job: &Job) -> u64 {
        let region = self.end - self.first;
        match job.limit {
            IoLimit::None => u64::MAX,
            // The rest after the last whole block is never reached, so it must not count.
            IoLimit::Region => region / self.min_sectors * self.min_sectors,
            IoLimit::Amount(super::Amount::Bytes(bytes)) => bytes.div_ceil(self.sector_bytes),
            IoLimit::Amount(percent) => percent.of(region),
        }
    }
}

fn check_block(block: &BlockSize, sector_bytes: u64) -> Result<(), JobError> {
    let check = |key, bytes: u64| match bytes {
        0 => refuse(key, bytes, "more than 0 bytes"),
        _ if !bytes.is_multiple_of(sector_bytes) => {
            refuse(key, bytes, format!("multiples of the sector, {sector_bytes} bytes"))
        }
        _ if bytes / sector_bytes > u64::from(u32::MAX) => {
            refuse(key, bytes, format!("at most {} sectors of {sector_bytes} bytes", u32::MAX))
        }
        _ => Ok(()),
    };
    match block {
        BlockSize::Fixed(bytes) => check("bs", *bytes),
        BlockSize::Range { min_bytes, max_bytes } if min_bytes > max_bytes => {
            refuse("bsrange", format!("{min_bytes}-{max_bytes}"), "a smaller and a larger size")
        }
        // The largest size is rounded down to a multiple of the smallest, so it need not be whole sectors.
        BlockSize::Range { min_bytes, max_bytes } => {
            check("bsrange", *min_bytes)?;
            check("bsrange", *max_bytes / min_bytes * min_bytes)
        }
        BlockSize::Split(sizes) if sizes.is_empty() => refuse("bssplit", "", "at least one size"),
        BlockSize::Split(sizes) => sizes.iter().try_for_each(|(bytes, _)| check("bssplit", *bytes)),
    }
}

/// Sizes and places of one direction, in sectors.
#[derive(Clone, Debug)]
struct Lane {
    first: u64,
    end: u64,
    sizes: Sizes,
    min_sectors: u64,
    step: u64,
    slots: u64,
    place: Place,
    random_percent: u64,
    /// End of the last I/O.
    position: u64,
}

#[derive(Clone, Debug)]
enum Sizes {
    Fixed(u32),
    Range {
        min: u32,
        count: u64,
    },
    /// Sizes with their cumulative shares, 0 to 1.
    Split(Vec<(u32, f64)>),
}

#[derive(Clone, Debug)]
enum Place {
    Sequential,
    /// From the random map with this index.
    Mapped(usize),
    Drawn(Sampler),
}

impl Lane {
    fn new(job: &Job, direction: Direction, region: &Region, scatter: Rng) -> Result<Lane, JobError> {
        let index = direction as usize;
        let block = &job.block[index];
        let min_sectors = block.min_bytes() / region.sector_bytes;
        if region.end - region.first < min_sectors {
            let allowed =
                format!("at least one block of {} bytes before the end of the drive", block.min_bytes());
            return refuse("size", job.size, allowed);
        }
        let step_bytes = job.align_bytes[index].unwrap_or(block.min_bytes());
        if step_bytes == 0 || !step_bytes.is_multiple_of(region.sector_bytes) {
            let allowed = format!("multiples of the sector, {} bytes", region.sector_bytes);
            return refuse("blockalign", step_bytes, allowed);
        }
        let step = step_bytes / region.sector_bytes;
        let slots = (region.end - region.first - min_sectors) / step + 1;
        let law = &job.distribution[index];
        let place = if !job.pattern.is_random() {
            Place::Sequential
        } else if job.random_map && *law == Distribution::Uniform && job.align_bytes[index].is_none() {
            Place::Mapped(0)
        } else {
            let sampler = Sampler::new(law, slots, step_bytes, scatter);
            Place::Drawn(sampler.or_else(|allowed| refuse("random_distribution", "zoned", allowed))?)
        };
        Ok(Lane {
            first: region.first,
            end: region.end,
            sizes: Sizes::new(block, region.sector_bytes),
            min_sectors,
            step,
            slots,
            place,
            random_percent: job.random_percent[index].into(),
            position: region.first,
        })
    }

    /// First sector and length of the next I/O.
    #[inline]
    fn next(&mut self, size_rng: &mut Rng, place_rng: &mut Rng, maps: &mut [RandomMap]) -> (u64, u32) {
        let random = self.random_percent >= 100 || place_rng.below(100) < self.random_percent;
        let mut at = match &self.place {
            Place::Mapped(map) if random => self.first + maps[*map].next(place_rng) * self.step,
            Place::Drawn(sampler) if random => self.first + sampler.draw(place_rng) * self.step,
            _ => self.position,
        };
        if self.end - at < self.min_sectors {
            at = self.first;
        }
        let sectors = self.sizes.draw_up_to(self.end - at, size_rng);
        self.position = at + u64::from(sectors);
        (at, sectors)
    }
}

impl Sizes {
    fn new(block: &BlockSize, sector_bytes: u64) -> Sizes {
        let sectors = |bytes: u64| (bytes / sector_bytes) as u32;
        match block {
            BlockSize::Fixed(bytes) => Sizes::Fixed(sectors(*bytes)),
            BlockSize::Range { min_bytes, max_bytes } => {
                Sizes::Range { min: sectors(*min_bytes), count: max_bytes / min_bytes }
            }
            BlockSize::Split(sizes) => {
                let mut until = 0.0;
                Sizes::Split(
                    sizes
                        .iter()
                        .filter(|(_, percent)| *percent > 0.0)
                        .map(|(bytes, percent)| {
                            until += percent / 100.0;
                            (sectors(*bytes), until)
                        })
                        .collect(),
                )
            }
        }
    }

    /// Draws a size; if it does not fit into `room` sectors, redraws among those that fit (the smallest does).
    #[inline]
    fn draw_up_to(&self, room: u64, rng: &mut Rng) -> u32 {
        let sectors = self.draw(rng);
        if u64::from(sectors) <= room { sectors } else { self.draw_again(room, rng) }
    }

    #[cold]
    fn draw_again(&self, room: u64, rng: &mut Rng) -> u32 {
        match self {
            Sizes::Fixed(_) => unreachable!("an I/O begins where its smallest size fits"),
            Sizes::Range { min, .. } => min * (1 + rng.below(room / u64::from(*min)) as u32),
            Sizes::Split(sizes) => {
                let before = std::iter::once(0.0).chain(sizes.iter().map(|(_, until)| *until));
                let shares = sizes.iter().zip(before).map(|((size, until), before)| (*size, until - before));
                let fitting = shares.filter(|(size, _)| u64::from(*size) <= room);
                let mut left = rng.unit_f64() * fitting.clone().map(|(_, share)| share).sum::<f64>();
                let drawn = fitting.clone().find(|(_, share)| {
                    left -= share;
                    left < 0.0
                });
                drawn.or(fitting.last()).expect("the smallest size fits").0
            }
        }
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> u32 {
        match self {
            Sizes::Fixed(sectors) => *sectors,
            Sizes::Range { min, count } => min * (1 + rng.below(*count) as u32),
            Sizes::Split(sizes) => {
                let u = rng.unit_f64();
                sizes[sizes.partition_point(|(_, until)| *until <= u).min(sizes.len() - 1)].0
            }
        }
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
