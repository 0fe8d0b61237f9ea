//! A recorded film.

use crate::cell::{Cell, Grid};
use crate::codec::decode;
use crate::recorder::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_flash::{BlockMap, BlockStream, BlockUse};
use serde_json::{Value, json};

/// Counters at a moment of a film, since the drive was made or they were last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time on the film's clock, since its start.
    pub at: u64,
    /// Victim blocks chosen.
    pub victims: u64,
    /// Valid mapping units copied.
    pub copied_units: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Bytes of successful host writes.
    pub host_written_bytes: u64,
    /// Bytes programmed, for all causes.
    pub programmed_bytes: u64,
    /// Erased blocks that are free.
    pub free_blocks: u32,
}

impl Moment {
    pub(crate) fn of(at: u64, map: &BlockMap) -> Moment {
        Moment {
            at,
            victims: map.victims,
            copied_units: map.copied_units,
            erases: map.blocks.iter().map(|view| u64::from(view.erases)).sum(),
            host_written_bytes: map.host_written_bytes,
            programmed_bytes: map.programmed_bytes,
            free_blocks: map.free_blocks,
        }
    }
}

/// A film; see the crate's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) grid: Grid,
    /// One per frame, ascending.
    pub(crate) moments: Vec<Moment>,
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Film {
    /// The drive's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames the drive, to distinguish it from others.
    pub fn rename(&mut self, name: &str) {
        self.name = name.into();
    }

    /// The clock of the film's moments.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The shape of its cells.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The moments of its frames, ascending.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// The cells in a frame.
    pub(crate) fn cells(&self, frame: usize) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); self.grid.cells() as usize];
        for changes in &self.frames[..=frame] {
            decode(changes).into_iter().for_each(|(at, change)| change.apply(&mut cells[at as usize]));
        }
        cells
    }

    /// The film as JSON: names, moments by column, and the frames in base64.
    pub fn to_json(&self) -> Value {
        let column = |of: fn(&Moment) -> u64| self.moments.iter().map(of).collect::<Vec<u64>>();
        json!({
            "name": self.name,
            "clock": self.clock,
            "grid": self.grid,
            "uses": BlockUse::ALL.map(BlockUse::name),
            "streams": BlockStream::NAMED.map(|(_, name)| name),
            "at": column(|moment| moment.at),
            "victims": column(|moment| moment.victims),
            "copied_units": column(|moment| moment.copied_units),
            "erases": column(|moment| moment.erases),
            "host_written_bytes": column(|moment| moment.host_written_bytes),
            "programmed_bytes": column(|moment| moment.programmed_bytes),
            "free_blocks": column(|moment| moment.free_blocks.into()),
            "frame_bytes": self.frames.iter().map(Vec::len).collect::<Vec<_>>(),
            "frames": STANDARD.encode(self.frames.concat()),
        })
    }
}
