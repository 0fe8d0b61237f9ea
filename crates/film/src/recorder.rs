//! Records a film in bounded memory.
//!
//! Invariants: frames are at least as far apart as the interval at the time of their recording; the interval doubles whenever neighbours are merged;
//! the bytes of all frames stay below the limit as long as two frames can be merged.

use crate::cell::{Cell, Grid};
use crate::codec::{Change, encode, merge};
use crate::film::{Film, Moment};
use pellucid_flash::BlockMap;
use serde::Serialize;

/// Maximum size of a film's frames: with everything around them in a page, less than 10 MB.
pub const FILM_BYTES: usize = 6 << 20;

/// Number of frames after the first at which neighbours are merged.
const FRAMES_MAX: usize = 600;

/// Blocks that the first interval allows for: scanning a large drive takes milliseconds, so its frames start further apart.
const BLOCKS_AT_ONCE: u64 = 1 << 14;

/// The clock of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Simulated nanoseconds.
    SimulatedNs,
    /// Bytes written to a drive during preparation, which takes no simulated time.
    WrittenBytes,
}

impl Clock {
    /// First interval: a millisecond, or 64 KiB.
    fn interval(self) -> u64 {
        match self {
            Clock::SimulatedNs => 1_000_000,
            Clock::WrittenBytes => 1 << 16,
        }
    }
}

/// Records a film.
#[derive(Clone, Debug)]
pub struct Recorder {
    clock: Clock,
    bytes_max: usize,
    interval: u64,
    start: u64,
    due: u64,
    grid: Grid,
    cells: Vec<Cell>,
    moments: Vec<Moment>,
    frames: Vec<Vec<u8>>,
    bytes: usize,
}

impl Recorder {
    /// A recorder whose frames take at most `bytes_max` bytes.
    pub fn new(clock: Clock, bytes_max: usize) -> Recorder {
        Recorder {
            clock,
            bytes_max,
            interval: clock.interval(),
            start: 0,
            due: 0,
            grid: Grid::default(),
            cells: Vec::new(),
            moments: Vec::new(),
            frames: Vec::new(),
            bytes: 0,
        }
    }

    /// Time of the next frame; the first one is due at once.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The clock of the film's moments.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Reports whether a frame was recorded.
    pub fn has_begun(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Records the blocks at time `at` of the film's clock. Panics if the shape of the drive has changed.
    pub fn record(&mut self, at: u64, map: &BlockMap) {
        if self.frames.is_empty() {
            self.start = at;
            self.grid = Grid::of(map);
            self.cells = vec![Cell::default(); self.grid.cells() as usize];
            self.interval *= (map.blocks.len() as u64).div_ceil(BLOCKS_AT_ONCE).max(1);
        }
        assert_eq!(self.grid, Grid::of(map), "a film is of one drive");
        let cells = self.grid.reduce(&map.blocks);
        let changes = self.cells.iter().zip(&cells).zip(0..);
        let frame =
            encode(changes.filter_map(|((before, now), cell)| Some((cell, Change::between(*before, *now)?))));
        self.cells = cells;
        self.push(frame, Moment::of(at - self.start, map));
        while self.frames.len() > 2 && (self.frames.len() > FRAMES_MAX + 1 || self.bytes > self.bytes_max) {
            self.thin();
        }
        let passed = (at - self.start) / self.interval;
        self.due = self.start.saturating_add((passed + 1).saturating_mul(self.interval));
    }

    /// Adds a frame; a second frame of the same moment is merged.
    fn push(&mut self, mut frame: Vec<u8>, moment: Moment) {
        if self.moments.last().is_some_and(|last| last.at == moment.at) {
            let last = self.frames.pop().expect("each moment has a frame");
            self.moments.pop();
            self.bytes -= last.len();
            frame = merge(&last, &frame);
        }
        self.bytes += frame.len();
        self.frames.push(frame);
        self.moments.push(moment);
    }

    /// Merges every second frame after the first into the next one.
    fn thin(&mut self) {
        let count = self.frames.len();
        let frames = std::mem::take(&mut self.frames);
        self.frames.push(frames[0].clone());
        self.frames.extend(frames[1..].chunks(2).map(|pair| match pair {
            [first, second] => merge(first, second),
            alone => alone.concat(),
        }));
        let kept = |at: &usize| *at == 0 || at.is_multiple_of(2) || at + 1 == count;
        self.moments = (0..count).filter(kept).map(|at| self.moments[at]).collect();
        self.interval = self.interval.saturating_mul(2);
        self.bytes = self.frames.iter().map(Vec::len).sum();
    }

    /// The film of the drive `name`; `None` if nothing was recorded.
    pub fn finish(self, name: &str) -> Option<Film> {
        let Recorder { clock, grid, moments, frames, .. } = self;
        (!frames.is_empty()).then(|| Film { name: name.into(), clock, grid, moments, frames })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{BlockStream, BlockUse, BlockView, Rng};

    fn map(blocks: Vec<BlockView>) -> BlockMap {
        BlockMap {
            channels: 2,
            dies_per_channel: 2,
            blocks_per_die: blocks.len() as u32 / 4,
            units_per_block: 64,
            blocks,
            ..BlockMap::default()
        }
    }

    /// A drive on which some blocks change at every step.
    fn step(rng: &mut Rng, blocks: &mut [BlockView]) {
        for _ in 0..blocks.len() / 8 {
            let at = rng.below(blocks.len() as u64) as usize;
            let units = rng.below(65) as u32;
            let erases = blocks[at].erases + rng.below(2) as u32;
            blocks[at] = BlockView { usage: BlockUse::Full, stream: BlockStream::Host, units, erases };
        }
    }

    #[test]
    fn a_long_film_thins_itself_and_ends_as_the_drive_does() {
        let (mut rng, mut blocks) = (Rng::new(3), vec![BlockView::default(); 400]);
        let mut recorder = Recorder::new(Clock::SimulatedNs, 40_000);
        let mut last = 0;
        for at in (0..4_000_000_000).step_by(1_000_000) {
            step(&mut rng, &mut blocks);
            if at < recorder.due() {
                continue;
            }
            recorder.record(at, &map(blocks.clone()));
            last = at;
            assert!(recorder.bytes <= 40_000, "{} bytes", recorder.bytes);
            assert_eq!(recorder.bytes, recorder.frames.iter().map(Vec::len).sum::<usize>());
        }
        recorder.record(4_000_000_000, &map(blocks.clone()));
        assert!(last > 3_000_000_000, "the last frame is of {last}");
        let film = recorder.finish("drive").expect("it has frames");
        let moments = film.moments();
        assert!((8..=601).contains(&moments.len()), "{} frames", moments.len());
        assert_eq!((moments[0].at, moments[moments.len() - 1].at), (0, 4_000_000_000));
        assert!(moments.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(film.cells(moments.len() - 1), film.grid().reduce(&blocks));
    }

    #[test]
    fn frames_are_those_of_their_moments() {
        let (mut rng, mut blocks) = (Rng::new(5), vec![BlockView::default(); 40]);
        let mut recorder = Recorder::new(Clock::WrittenBytes, FILM_BYTES);
        let mut all = Vec::new();
        for _ in 0..20 {
            step(&mut rng, &mut blocks);
            let at = recorder.due();
            recorder.record(at, &map(blocks.clone()));
            all.push((at, blocks.clone()));
        }
        let film = recorder.finish("drive").expect("it has frames");
        for (frame, (at, blocks)) in all.iter().enumerate() {
            assert_eq!(film.moments()[frame].at, at - all[0].0);
            assert_eq!(film.cells(frame), film.grid().reduce(blocks));
        }
    }

    #[test]
    fn a_large_drive_has_cells_of_several_blocks() {
        let blocks = vec![
            BlockView { units: 64, usage: BlockUse::Full, erases: 2, ..BlockView::default() };
            4 * 40_000
        ];
        let mut drive = map(blocks);
        drive.blocks[7].usage = BlockUse::Victim;
        drive.blocks[7].units = 0;
        let mut recorder = Recorder::new(Clock::SimulatedNs, FILM_BYTES);
        recorder.record(0, &drive);
        let due = recorder.due();
        let film = recorder.finish("drive").expect("it has frames");
        let grid = *film.grid();
        assert_eq!((grid.blocks_per_cell, grid.cells_per_die), (3, 13_334));
        assert!(grid.cells() <= crate::CELLS_MAX);
        assert_eq!(due, 10_000_000, "looks at 160,000 blocks come every 10 ms at first");
        let cells = film.cells(0);
        assert_eq!((cells[2].usage(), cells[2].level, cells[2].erases), (BlockUse::Victim, 10, 6));
        assert_eq!((cells[3].usage(), cells[3].level), (BlockUse::Full, 15));
        assert!(Recorder::new(Clock::SimulatedNs, 1).finish("drive").is_none());
    }
}
