//! Programs: superpages that are planned and have not ended, and the sectors whose write has failed.
//!
//! ```text
//!  planned: enter, begin_data ─► (its unit's queue: rotation) ─► sent ─► ended: contents ─► failed sectors are planned again
//! ```
//! Invariants: the next superpage of a kind is planned only after the last one was sent; a program ends once.

use super::ring::Kind;
use pellucid_flash::{Lba, Lpn};
use pellucid_ftl::{Plan, ProgramId};
use std::collections::VecDeque;

/// Content of one place of a superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A sector of the ring.
    Entry(u64),
    /// A translation page that the engine planned at this place.
    Metadata(u32),
    /// A sector of the index of a stop.
    Index(u32),
}

#[derive(Clone, Copy, Debug)]
struct Program {
    /// First address on the drive.
    lba: Lba,
    sequence: u64,
    count: u32,
}

/// Sectors of a superpage that is being planned, and their pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub positions: Vec<u64>,
    pub lpns: Vec<Lpn>,
}

/// Programs that are planned and have not ended.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    superpage: usize,
    programs: Vec<Program>,
    contents: Vec<Content>,
    /// Sectors of the ring whose write failed and must be planned again, by kind.
    again: [VecDeque<u64>; 2],
    /// Number of superpages with ring data under way.
    in_flight: u32,
    /// Unit whose queue holds the last planned superpage of each kind; the next of that kind is planned only
    /// after this one is sent.
    rotation: [Option<u32>; 2],
    /// Last planned data superpage of each kind.
    last: [ProgramId; 2],
    /// Kind of the last turn.
    turn: Kind,
    /// Lists for reuse.
    gathered: Gathered,
    ended: Vec<Content>,
}

impl Programs {
    pub fn new(superpage: u32) -> Programs {
        Programs {
            superpage: superpage as usize,
            programs: Vec::new(),
            contents: Vec::new(),
            again: [VecDeque::new(), VecDeque::new()],
            in_flight: 0,
            rotation: [None; 2],
            last: [ProgramId(0); 2],
            turn: 0,
            gathered: Gathered::default(),
            ended: Vec::new(),
        }
    }

    // ---- turns

    /// Returns the kind whose turn it is, after the last one.
    #[inline]
    pub fn next_turn(&mut self, kinds: usize) -> Kind {
        self.turn = if self.turn + 1 < kinds { self.turn + 1 } else { 0 };
        self.turn
    }

    /// Reports whether the last superpage of `kind` was sent, so that another one may be planned.
    #[inline]
    pub fn may_plan(&self, kind: Kind) -> bool {
        self.rotation[kind].is_none()
    }

    /// Notes that a program has left the queue of `unit`; another one may now be planned.
    #[inline]
    pub fn sent(&mut self, unit: u32, id: ProgramId) {
        for kind in 0..2 {
            if self.rotation[kind] == Some(unit) && self.last[kind] == id {
                self.rotation[kind] = None;
            }
        }
    }

    /// Notes that the last superpage of `kind` waits in the queue of `unit`.
    #[inline]
    pub fn wait(&mut self, kind: Kind, unit: u32) {
        assert!(self.rotation[kind].is_none(), "a superpage was planned before the last one was sent");
        self.rotation[kind] = Some(unit);
    }

    // ---- programs

    /// Enters a planned program with its contents.
    #[inline]
    pub fn enter(&mut self, plan: &Plan, contents: impl Iterator<Item = Content>) {
        let at = plan.id.0 as usize;
        let (lba, sequence) = (Lba(0), plan.sequence);
        if self.programs.len() <= at {
            self.programs.resize(at + 1, Program { lba, sequence, count: 0 });
            self.contents.resize((at + 1) * self.superpage, Content::Entry(0));
        }
        let mut count = 0;
        for content in contents {
            self.contents[at * self.superpage + count] = content;
            count += 1;
        }
        assert!(count <= self.superpage, "a program is longer than a superpage");
        self.programs[at] = Program { lba, sequence, count: count as u32 };
    }

    /// Notes a superpage with data of the ring.
    #[inline]
    pub fn begin_data(&mut self, kind: Kind, id: ProgramId) {
        self.in_flight += 1;
        self.last[kind] = id;
    }

    /// Sets the first address of a program on the drive.
    #[inline]
    pub fn set_address(&mut self, id: ProgramId, lba: Lba) {
        self.programs[id.0 as usize].lba = lba;
    }

    /// Returns the first address and the sequence number of a program.
    #[inline]
    pub fn place(&self, id: ProgramId) -> (Lba, u64) {
        let Program { lba, sequence, .. } = self.programs[id.0 as usize];
        (lba, sequence)
    }

    #[inline]
    pub fn contents(&self, id: ProgramId) -> &[Content] {
        let from = id.0 as usize * self.superpage;
        &self.contents[from..from + self.programs[id.0 as usize].count as usize]
    }

    /// Ends a program and returns its contents, in a list that comes back by [`Programs::put_ended`].
    #[inline]
    pub fn end(&mut self, id: ProgramId) -> Vec<Content> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.clear();
        ended.extend_from_slice(self.contents(id));
        if matches!(ended.first(), Some(Content::Entry(_))) {
            assert!(self.in_flight > 0, "a superpage ends that is not under way");
            self.in_flight -= 1;
        }
        ended
    }

    #[inline]
    pub fn put_ended(&mut self, ended: Vec<Content>) {
        self.ended = ended;
    }

    /// Reports whether superpages with data of the ring are in flight.
    #[inline]
    pub fn is_writing(&self) -> bool {
        self.in_flight > 0
    }

    // ---- failed sectors

    /// Notes that the sector at `at` of the ring has to be planned again.
    pub fn plan_again(&mut self, kind: Kind, at: u64) {
        self.again[kind].push_back(at);
    }

    /// Returns the sectors of `kind` to be planned again.
    #[inline]
    pub fn again(&self, kind: Kind) -> &VecDeque<u64> {
        &self.again[kind]
    }

    /// Notes that the first `count` sectors were planned again.
    #[inline]
    pub fn planned_again(&mut self, kind: Kind, count: usize) {
        self.again[kind].drain(..count);
    }

    // ---- lists

    #[inline]
    pub fn take_gathered(&mut self) -> Gathered {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.positions.clear();
        gathered.lpns.clear();
        gathered
    }

    #[inline]
    pub fn put_gathered(&mut self, gathered: Gathered) {
        self.gathered = gathered;
    }
}
