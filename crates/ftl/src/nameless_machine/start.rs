//! Start: lists the drive's chunks, reads pages of checkpoints, and takes the newest complete one as the state.
//!
//! Media without a checkpoint are accepted only if no data chunk was written: a first checkpoint is then written before anything else.

use super::checkpoint;
use super::core::Core;
use super::link::{TAG_NUMBER, TAG_START};
use super::{commands, ends};
use crate::{FoundChunk, Nameless};
use pellucid_flash::{ChunkInfo, Command, Completion, Lba, Opcode, Status};
use std::collections::VecDeque;

/// Most reads under way at once.
const READS: u32 = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Report,
    Read,
    /// The first checkpoint is being written.
    First,
}

/// The start under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    phase: Phase,
    report: Vec<ChunkInfo>,
    /// Pages of checkpoints, and the number of them that were requested.
    pages: Vec<(usize, Lba)>,
    next: usize,
    under_way: u32,
    /// Requests that came meanwhile.
    early: VecDeque<u32>,
}

impl Start {
    /// Returns whether the start has not begun.
    pub fn is_new(&self) -> bool {
        self.phase == Phase::New
    }

    /// Keeps a request until the start has ended.
    pub fn keep(&mut self, request: u32) {
        self.early.push_back(request);
    }

    /// Does the next step. Returns whether the start has ended, for good or for bad; [`Start::end`] follows.
    pub fn go_on(&mut self, core: &mut Core) -> bool {
        if core.health.failure().is_some() {
            return true;
        }
        match self.phase {
            Phase::New => {
                (self.phase, self.under_way) = (Phase::Report, 1);
                let chunks = core.shape.geometry.parallel_units() * core.shape.geometry.chunks;
                let tag = TAG_START | TAG_NUMBER;
                core.link.send(Command::new(tag, Opcode::Report, Lba(0), chunks, Vec::new()));
            }
            Phase::Report if self.under_way > 0 => {}
            Phase::Report => {
                self.phase = Phase::Read;
                core.saver.found_chunks(|lba| core.shape.of_chunk(&self.report, lba));
                if core.saver.keeps_data() {
                    self.pages = core.saver.written_pages();
                }
                core.progress.note();
            }
            Phase::Read => {
                self.read_pages(core);
                if self.under_way == 0 {
                    core.progress.note();
                    return self.take_newest(core);
                }
            }
            Phase::First => {
                checkpoint::continue_checkpoint(core);
                return !core.saver.is_running() && core.link.is_idle();
            }
        }
        false
    }

    fn read_pages(&mut self, core: &mut Core) {
        let sectors = core.shape.layout.units_per_superpage;
        while self.next < self.pages.len() && self.under_way < READS {
            let data = vec![0; sectors as usize * core.image_bytes];
            let tag = TAG_START | self.next as u64;
            core.link.send(Command::new(tag, Opcode::Read, self.pages[self.next].1, sectors, data));
            (self.next, self.under_way) = (self.next + 1, self.under_way + 1);
        }
    }

    /// A command of the start has ended.
    pub fn ended(&mut self, core: &mut Core, number: u32, completion: &Completion) {
        self.under_way -= 1;
        if completion.opcode == Opcode::Report {
            let infos =
                completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map_while(ChunkInfo::decode);
            self.report = infos.collect();
            let chunks = core.shape.geometry.parallel_units() * core.shape.geometry.chunks;
            if completion.status != Status::Success || self.report.len() != chunks as usize {
                core.health.fail(format!("the drive does not list its chunks: {}", completion.status.name()));
            }
        } else if matches!(completion.status, Status::Success | Status::HighEcc) {
            let place = self.pages[number as usize].0;
            core.saver.found_page(place, &completion.data);
        }
    }

    /// Takes the newest checkpoint that was found, or begins the first one. `true`: the start is complete.
    fn take_newest(&mut self, core: &mut Core) -> bool {
        let found = core.shape.found(&self.report);
        let layout = &core.shape.layout;
        let newest = core.saver.newest();
        let restored = newest.and_then(|newest| {
            newest.map(|bytes| Nameless::restore(&core.config, layout, &bytes, &found)).transpose()
        });
        match restored {
            Ok(Some(engine)) => {
                core.engine = engine;
                return true;
            }
            Ok(None) => {}
            Err(sentence) => {
                core.health.fail(sentence);
                return false;
            }
        }
        if found.iter().any(|chunk| matches!(chunk, FoundChunk::Written(_))) {
            core.health.fail(match core.saver.keeps_data() {
                true => {
                    "nameless writes: the drive has data and no checkpoint; allowed: a drive that is empty, or was used so"
                }
                false => {
                    "nameless writes: the drive keeps stamps instead of data (store = \"none\"), so that its checkpoint is gone; \
                     allowed: an empty drive, or store \"ram\" or \"file\""
                }
            });
            return false;
        }
        core.engine.retire(&found);
        self.phase = Phase::First;
        let bytes = core.engine.checkpoint();
        if !core.saver.begin(bytes) {
            core.health.fail("nameless writes: the drive has no good chunks for checkpoints");
        }
        false
    }

    /// Begins the requests that came meanwhile, or refuses them.
    pub fn end(self, core: &mut Core) {
        if core.health.failure().is_none() && core.health.refuses_writes() {
            core.health.fail("nameless writes: the first checkpoint could not be written");
        }
        if core.health.failure().is_none() {
            core.progress.note();
        }
        for request in self.early {
            match core.health.failure() {
                None => commands::begin(core, request),
                Some(_) => ends::finish_with(core, request, Some(Status::ReadOnly)),
            }
        }
    }
}
