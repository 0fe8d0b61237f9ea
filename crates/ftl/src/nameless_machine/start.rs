//! Start: lists the drive's chunks, reads pages of checkpoints, and takes the newest complete one as the state.
//!
//! Media without a checkpoint are accepted only if no data chunk was written: a first checkpoint is then written before anything else.

use super::{NamelessMachine, TAG_NUMBER, TAG_START};
use crate::{FoundChunk, Nameless};
use pellucid_flash::{ChunkInfo, Command, Completion, Lba, Opcode, Status};

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
}

impl Start {
    pub fn is_new(&self) -> bool {
        self.phase == Phase::New
    }
}

impl NamelessMachine {
    pub(super) fn continue_start(&mut self) {
        let Some(mut start) = self.starting.take() else { return };
        if self.failure.is_some() {
            return self.give_up_start();
        }
        match start.phase {
            Phase::New => {
                (start.phase, start.under_way) = (Phase::Report, 1);
                let chunks = self.shape.geometry.parallel_units() * self.shape.geometry.chunks;
                self.send(Command::new(TAG_START | TAG_NUMBER, Opcode::Report, Lba(0), chunks, Vec::new()));
            }
            Phase::Report if start.under_way > 0 => {}
            Phase::Report => {
                start.phase = Phase::Read;
                let report = |lba| self.shape.of_chunk(&start.report, lba);
                self.saver.found_chunks(report);
                start.pages = if self.saver.keeps_data() { self.saver.written_pages() } else { Vec::new() };
                self.moved = true;
            }
            Phase::Read => {
                self.read_pages(&mut start);
                if start.under_way == 0 {
                    self.moved = true;
                    if self.take_newest(&mut start) {
                        return self.ready();
                    }
                }
            }
            Phase::First => {
                self.continue_checkpoint();
                if !self.saver.is_running() && self.outstanding == 0 {
                    return self.ready();
                }
            }
        }
        self.starting = Some(start);
    }

    fn read_pages(&mut self, start: &mut Start) {
        let sectors = self.shape.layout.units_per_superpage;
        while start.next < start.pages.len() && start.under_way < READS {
            let data = vec![0; sectors as usize * self.image_bytes];
            let tag = TAG_START | start.next as u64;
            self.send(Command::new(tag, Opcode::Read, start.pages[start.next].1, sectors, data));
            (start.next, start.under_way) = (start.next + 1, start.under_way + 1);
        }
    }

    pub(super) fn start_ended(&mut self, number: u32, completion: &Completion) {
        let Some(start) = self.starting.as_mut() else { return };
        start.under_way -= 1;
        if completion.opcode == Opcode::Report {
            let infos =
                completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map_while(ChunkInfo::decode);
            start.report = infos.collect();
            let chunks = self.shape.geometry.parallel_units() * self.shape.geometry.chunks;
            if completion.status != Status::Success || start.report.len() != chunks as usize {
                self.failure =
                    Some(format!("the drive does not list its chunks: {}", completion.status.name()));
            }
        } else if matches!(completion.status, Status::Success | Status::HighEcc) {
            let place = start.pages[number as usize].0;
            self.saver.found_page(place, &completion.data);
        }
    }

    /// Takes the newest checkpoint that was found, or begins the first one. `true`: the start is complete.
    fn take_newest(&mut self, start: &mut Start) -> bool {
        let found = self.shape.found(&start.report);
        let layout = &self.shape.layout;
        let newest = self.saver.newest();
        let restored = newest.and_then(|newest| {
            newest.map(|bytes| Nameless::restore(&self.config, layout, &bytes, &found)).transpose()
        });
        match restored {
            Ok(Some(engine)) => {
                self.engine = engine;
                return true;
            }
            Ok(None) => {}
            Err(sentence) => {
                self.failure = Some(sentence);
                return false;
            }
        }
        if found.iter().any(|chunk| matches!(chunk, FoundChunk::Written(_))) {
            let sentence = match self.saver.keeps_data() {
                true => {
                    "nameless writes: the drive has data and no checkpoint; allowed: a drive that is empty, or was used so"
                }
                false => {
                    "nameless writes: the drive keeps stamps instead of data (store = \"none\"), so that its checkpoint is gone; \
                     allowed: an empty drive, or store \"ram\" or \"file\""
                }
            };
            self.failure = Some(sentence.into());
            return false;
        }
        self.engine.retire(&found);
        start.phase = Phase::First;
        let bytes = self.engine.checkpoint();
        if !self.saver.begin(bytes) {
            self.failure = Some("nameless writes: the drive has no good chunks for checkpoints".into());
        }
        false
    }

    fn ready(&mut self) {
        if self.read_only {
            self.failure = Some("nameless writes: the first checkpoint could not be written".into());
            return self.give_up_start();
        }
        self.moved = true;
        while let Some(request) = self.early.pop_front() {
            self.arrived(request);
        }
    }

    fn give_up_start(&mut self) {
        while let Some(request) = self.early.pop_front() {
            self.requests[request].status = Some(Status::ReadOnly);
            self.finish(request);
        }
    }
}
