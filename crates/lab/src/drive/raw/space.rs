//! Chunks or zones of one namespace, as seen by the jobs that address them.
//!
//! ```text
//!            take                 last write ended             begin_reset
//!   free ───────────► open ────────────────────────► full ────────────────► resetting
//!    ▲ ◄── give back ──┘                                                        │
//!    └───────────────────────────── reset ended ────────────────────────────────┘      gone: it failed, for good
//! ```
//! Jobs on one namespace share its space, so that no two of them write one chunk, and none resets a chunk that another reads. A lane is a parallel
//! unit; all zones are in one lane.
//!
//! Invariants: `free` and `full` list exactly the extents in these states, `full` in the order in which they became full; an extent with users is not
//! reset.

use pellucid_flash::{ChunkInfo, ChunkState, Interface, Lba, ZoneInfo, ZoneState};
use std::collections::VecDeque;

/// State of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Full,
    Resetting,
    Gone,
}

/// A chunk or a zone.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: Lba,
    sectors: u64,
    lane: u32,
    state: State,
    /// Sectors submitted.
    written: u64,
    /// Commands in flight, and jobs that read it through.
    users: u32,
    /// Its number among the extents that became full, from 1 on.
    filled: u64,
}

/// Effect of a command on an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Reads from it.
    Read(u32),
    /// Writes to it.
    Write(u32),
    /// Resets it.
    Reset(u32),
}

/// Chunks or zones of one namespace.
#[derive(Clone, Debug)]
pub struct RawSpace {
    number: u16,
    interface: Interface,
    extents: Vec<Extent>,
    free: Vec<VecDeque<u32>>,
    full: Vec<VecDeque<u32>>,
    /// Number of extents that became full, ever.
    filled: u64,
    /// Resets in flight in each lane.
    resetting: Vec<u32>,
    /// Commands in flight.
    commands: u32,
    /// Jobs that write and have not ended.
    writers: u32,
}

impl RawSpace {
    /// Makes the space of a namespace; `report`: packed descriptors of all its chunks or zones.
    ///
    /// # Panics
    /// The interface has neither.
    pub fn new(number: u16, interface: Interface, report: &[u8]) -> RawSpace {
        let (extents, lanes): (Vec<Extent>, u32) = match &interface {
            Interface::OpenChannel(chunks) => {
                let infos = report.as_chunks().0.iter().filter_map(ChunkInfo::decode);
                let per_unit = chunks.chunks;
                let one = |(at, info): (usize, ChunkInfo)| of_chunk(at as u32 / per_unit, &info);
                (infos.enumerate().map(one).collect(), chunks.parallel_units())
            }
            Interface::Zoned(_) => {
                let infos = report.as_chunks().0.iter().filter_map(ZoneInfo::decode);
                (infos.map(|info| of_zone(&info)).collect(), 1)
            }
            other => panic!("a namespace of {} has neither chunks nor zones", other.name()),
        };
        let mut space = RawSpace {
            number,
            interface,
            extents,
            free: vec![VecDeque::new(); lanes as usize],
            full: vec![VecDeque::new(); lanes as usize],
            filled: 0,
            resetting: vec![0; lanes as usize],
            commands: 0,
            writers: 0,
        };
        for at in 0..space.extents.len() as u32 {
            match space.extents[at as usize].state {
                State::Free => space.give_back(at),
                State::Full => space.fill(at),
                State::Open | State::Resetting | State::Gone => {}
            }
        }
        space
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the number of lanes: parallel units, or 1 for zones.
    pub fn lanes(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the sectors of the largest extent.
    pub fn extent_sectors(&self) -> u64 {
        self.extents.iter().map(|extent| extent.sectors).max().unwrap_or(0)
    }

    pub fn sector_bytes(&self) -> u64 {
        match &self.interface {
            Interface::OpenChannel(chunks) => chunks.sector_bytes.into(),
            Interface::Zoned(zones) => zones.sector_bytes.into(),
            other => unreachable!("a space of {}", other.name()),
        }
    }

    /// Returns how many extents have become full.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Returns the full sectors of a lane.
    pub fn full_sectors(&self, lane: u32) -> u64 {
        self.full[lane as usize].iter().map(|&at| self.extents[at as usize].sectors).sum()
    }

    /// Returns the number of full extents of a lane.
    pub fn full_count(&self, lane: u32) -> u32 {
        self.full[lane as usize].len() as u32
    }

    /// Returns the full extent with this index in its lane.
    pub fn full_at(&self, lane: u32, place: u32) -> u32 {
        self.full[lane as usize][place as usize]
    }

    /// Returns the first full extent of a lane that became full after number `after`, with its own number.
    pub fn full_after(&self, lane: u32, after: u64) -> Option<(u32, u64)> {
        let full = &self.full[lane as usize];
        let at = full.partition_point(|&at| self.extents[at as usize].filled <= after);
        full.get(at).map(|&at| (at, self.extents[at as usize].filled))
    }

    /// Returns the oldest unused full extent of a lane, if it became full up to number `until`.
    pub fn oldest_idle(&self, lane: u32, until: u64) -> Option<u32> {
        let full = self.full[lane as usize].iter().copied();
        let mut old = full.take_while(|&at| self.extents[at as usize].filled <= until);
        old.find(|&at| self.extents[at as usize].users == 0)
    }

    /// Returns the resets in flight in a lane.
    pub fn resets(&self, lane: u32) -> u32 {
        self.resetting[lane as usize]
    }

    /// Returns whether a command is in flight.
    pub fn works(&self) -> bool {
        self.commands > 0
    }

    /// Returns whether more extents may become full: a command is in flight, or a writing job has not ended.
    pub fn may_fill(&self) -> bool {
        self.commands > 0 || self.writers > 0
    }

    /// Adds a job that writes.
    pub fn add_writer(&mut self) {
        self.writers += 1;
    }

    /// Removes a job that writes, at its end.
    pub fn remove_writer(&mut self) {
        self.writers -= 1;
    }

    /// Takes an extent of a lane, to be written by the caller alone.
    pub fn take(&mut self, lane: u32) -> Option<u32> {
        let at = self.free[lane as usize].pop_front()?;
        self.extents[at as usize].state = State::Open;
        Some(at)
    }

    /// Gives back an extent that still has room.
    pub fn give_back(&mut self, at: u32) {
        let extent = &mut self.extents[at as usize];
        extent.state = State::Free;
        let free = &mut self.free[extent.lane as usize];
        // Extents already begun go first: the drive may allow few of them.
        if extent.written > 0 { free.push_front(at) } else { free.push_back(at) }
    }

    /// Returns the sectors that a taken extent has room for; 0 if it failed.
    pub fn room(&self, at: u32) -> u64 {
        let extent = &self.extents[at as usize];
        if extent.state == State::Open { extent.sectors - extent.written } else { 0 }
    }

    /// Returns the first sector of an extent.
    pub fn start(&self, at: u32) -> Lba {
        self.extents[at as usize].start
    }

    /// Returns the sectors of an extent.
    pub fn sectors(&self, at: u32) -> u64 {
        self.extents[at as usize].sectors
    }

    /// Returns whether an extent is full.
    pub fn is_full(&self, at: u32) -> bool {
        self.extents[at as usize].state == State::Full
    }

    /// Begins to read an extent through, which keeps it from being reset.
    pub fn hold(&mut self, at: u32) {
        self.extents[at as usize].users += 1;
    }

    /// Ends reading an extent through.
    pub fn let_go(&mut self, at: u32) {
        self.extents[at as usize].users -= 1;
    }

    /// Begins a command that reads from an extent.
    pub fn begin_read(&mut self, at: u32) -> Part {
        self.extents[at as usize].users += 1;
        Part::Read(at)
    }

    /// Begins a command that writes this many sectors to an extent; returns where.
    pub fn begin_write(&mut self, at: u32, sectors: u64) -> (Lba, Part) {
        let extent = &mut self.extents[at as usize];
        debug_assert!(extent.written + sectors <= extent.sectors, "a write stays in its chunk or zone");
        let lba = Lba(extent.start.0 + extent.written);
        extent.written += sectors;
        extent.users += 1;
        (lba, Part::Write(at))
    }

    /// Begins a command that resets a full extent.
    pub fn begin_reset(&mut self, at: u32) -> Part {
        let extent = &mut self.extents[at as usize];
        debug_assert!(
            extent.state == State::Full && extent.users == 0,
            "only what is full and idle is reset"
        );
        extent.state = State::Resetting;
        extent.users += 1;
        self.resetting[extent.lane as usize] += 1;
        self.full[extent.lane as usize].retain(|&other| other != at);
        Part::Reset(at)
    }

    /// Counts a submitted command with parts.
    pub fn submitted(&mut self) {
        self.commands += 1;
    }

    /// Ends a command with parts, with or without success.
    pub fn ended(&mut self, parts: &[Part], ok: bool) {
        self.commands -= 1;
        for &part in parts {
            self.part_ended(part, ok);
        }
    }

    fn part_ended(&mut self, part: Part, ok: bool) {
        let (Part::Read(at) | Part::Write(at) | Part::Reset(at)) = part;
        let extent = &mut self.extents[at as usize];
        extent.users -= 1;
        let lane = extent.lane as usize;
        match part {
            Part::Read(_) => {}
            Part::Write(_) => {
                if !ok {
                    extent.state = State::Gone;
                } else if extent.state == State::Open && extent.users == 0 && extent.written == extent.sectors
                {
                    self.fill(at);
                }
            }
            Part::Reset(_) => {
                self.resetting[lane] -= 1;
                extent.written = 0;
                if ok { self.give_back(at) } else { extent.state = State::Gone }
            }
        }
    }

    fn fill(&mut self, at: u32) {
        self.filled += 1;
        let extent = &mut self.extents[at as usize];
        (extent.state, extent.filled) = (State::Full, self.filled);
        self.full[extent.lane as usize].push_back(at);
    }
}

fn of_chunk(lane: u32, info: &ChunkInfo) -> Extent {
    let state = match info.state {
        ChunkState::Free | ChunkState::Open => State::Free,
        // An extent closed early has only the written sectors to read.
        ChunkState::Closed if info.write_pointer == info.sectors => State::Full,
        ChunkState::Closed | ChunkState::Offline => State::Gone,
    };
    let written = u64::from(info.write_pointer);
    Extent { start: info.start, sectors: info.sectors.into(), lane, state, written, users: 0, filled: 0 }
}

fn of_zone(info: &ZoneInfo) -> Extent {
    let (state, written) = match info.state {
        ZoneState::Empty => (State::Free, 0),
        ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
            (State::Free, info.write_pointer.0 - info.start.0)
        }
        ZoneState::Full => (State::Full, info.capacity_sectors),
        ZoneState::ReadOnly | ZoneState::Offline => (State::Gone, 0),
    };
    Extent { start: info.start, sectors: info.capacity_sectors, lane: 0, state, written, users: 0, filled: 0 }
}
