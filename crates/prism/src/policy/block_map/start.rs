//! Start of a block-mapped range: determines the contents of its chunks.
//!
//! ```text
//!   report ─► of every chunk in use the out-of-band data of its first page and of its last ones ─► owner, and readable length
//!               └─ none of them is readable: earlier ones, until one is ─┘
//!   all known ─► pieces of each block, newest first; covered and unowned ones are erased ─► ready
//! ```

use super::core::Core;
use super::link::Purpose;
use super::pieces::Piece;
use super::read::READ_RETRIES;
use super::{commands, gc, oob};
use pellucid_flash::{ChunkInfo, ChunkState, Command, Completion, Lba, Opcode, Status, Vector};
use std::collections::VecDeque;

/// Maximum number of probes in flight.
const PROBES_MAX: usize = 32;

/// A chunk being examined.
#[derive(Clone, Copy, Debug)]
struct Probe {
    chunk: u32,
    /// Sectors written.
    written: u32,
    open: bool,
    /// Pages below this number have not been examined yet.
    pages: u32,
    /// Number of completely failed attempts.
    tries: u32,
}

/// The start in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    waiting: Vec<Probe>,
    /// In the order of submission, with the first sector of each command.
    under_way: Vec<(Lba, Probe)>,
    found: Vec<(u32, Piece)>,
    /// Requests that arrived meanwhile.
    early: VecDeque<u32>,
}

impl Start {
    /// Requests a report on all chunks from the range's first to its last; it includes chunks of others in between.
    pub fn new(core: &mut Core) -> Start {
        let (space, rows) = (&core.shape.space, &core.shape.rows);
        let count = (core.shape.luns() - 1) * space.chunks.chunks + rows.len() as u32;
        let command = Command::new(0, Opcode::Report, core.shape.lba(rows.start, 0), count, Vec::new());
        core.link.send(Purpose::Start, command);
        Start::default()
    }

    /// Keeps a request until the start has ended.
    pub fn keep(&mut self, request: u32) {
        self.early.push_back(request);
    }

    /// Handles the end of a command of the start. Returns whether everything is known; then call [`Start::end`].
    pub fn ended(&mut self, core: &mut Core, completion: &mut Completion) -> bool {
        match completion.opcode {
            Opcode::Report => self.reported(core, completion),
            _ => self.probed(core, completion),
        }
        core.health.failure().is_none() && self.go_on(core)
    }

    fn reported(&mut self, core: &mut Core, completion: &Completion) {
        let infos = completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map(ChunkInfo::decode);
        let infos: Option<Vec<ChunkInfo>> = infos.collect();
        let (space, rows) = (&core.shape.space, &core.shape.rows);
        let wanted = (core.shape.luns() as usize - 1) * space.chunks.chunks as usize + rows.len();
        let Some(infos) = infos.filter(|i| completion.status == Status::Success && i.len() == wanted) else {
            core.health.fail(format!("the drive did not report its chunks: {:?}", completion.status));
            while let Some(request) = self.early.pop_front() {
                core.requests.awaits(request);
                core.requests.part_done(core.now, request, Some(Status::ReadOnly));
            }
            return;
        };
        for info in infos {
            let Some(address) = space.chunks.address(info.start) else { continue };
            if !rows.contains(&address.chunk) {
                continue;
            }
            let chunk = space.chunks.chunk_number(address);
            match info.state {
                ChunkState::Free => core.chunks.add_free(chunk),
                ChunkState::Offline => core.chunks.add_bad(chunk),
                ChunkState::Open | ChunkState::Closed => {
                    let (written, open) = (info.write_pointer, info.state == ChunkState::Open);
                    let pages = written / core.shape.unit();
                    self.waiting.push(Probe { chunk, written, open, pages, tries: 0 });
                }
            }
        }
    }

    /// Sends as many probes as may be in flight; `true`: nothing is left to examine.
    fn go_on(&mut self, core: &mut Core) -> bool {
        while self.under_way.len() < PROBES_MAX {
            match self.waiting.pop() {
                Some(probe) if probe.pages == 0 => discard(core, probe),
                Some(probe) => self.send_probe(core, probe),
                None => return self.under_way.is_empty(),
            }
        }
        false
    }

    /// Probes the first sector of the first page, and of the last pages that have not been examined.
    fn send_probe(&mut self, core: &mut Core, probe: Probe) {
        let mut vector = core.link.vector();
        let last = probe.pages.saturating_sub(Vector::ADDRESSES_MAX as u32 - 1).max(1);
        let pages = std::iter::once(0).chain(last..probe.pages);
        let unit = core.shape.unit();
        vector.addresses.extend(pages.map(|page| core.shape.lba(probe.chunk, page * unit)));
        let sectors = vector.addresses.len() as u32;
        vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
        let first = vector.addresses[0];
        self.under_way.push((first, probe));
        let command = Command::new(0, Opcode::Read, first, sectors, Vec::new());
        core.link.send(Purpose::Start, Command { vector: Some(vector), ..command });
    }

    fn probed(&mut self, core: &mut Core, completion: &mut Completion) {
        let Some(vector) = &completion.vector else { return };
        let unit = core.shape.unit();
        let first = vector.addresses[0];
        let at = self.under_way.iter().position(|(of, _)| *of == first).expect("it was sent");
        let (_, mut probe) = self.under_way.swap_remove(at);
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        // A failed command that names no sector has failed for all of them.
        let read = |i: usize| ok || (completion.result != 0 && completion.result >> i & 1 == 0);
        if !ok && probe.tries < READ_RETRIES {
            probe.tries += 1;
            return self.waiting.push(probe);
        }
        let data = vector.metadata.as_chunks::<{ Vector::METADATA_BYTES }>().0;
        let good = (0..data.len()).rev().find(|&i| read(i));
        let owner = good.and_then(|i| oob::decode(&data[i], core.shape.id));
        let known = owner.filter(|&(logical, _)| logical < core.blocks.count());
        match (good, known) {
            // Earlier pages may be readable.
            (Some(0) | None, _) if vector.addresses.len() == Vector::ADDRESSES_MAX => {
                probe.pages -= Vector::ADDRESSES_MAX as u32 - 1;
                probe.tries = 0;
                self.waiting.push(probe);
            }
            (Some(i), Some((logical, sequence))) => {
                let sector = (vector.addresses[i].0 - first.0) as u32;
                let ends = sector + unit;
                let open = probe.open && ends == probe.written;
                self.found.push((logical, Piece { chunk: probe.chunk, ends, open, sequence }));
            }
            _ => discard(core, probe),
        }
    }

    /// Gives blocks their pieces, and starts the kept requests.
    pub fn end(self, core: &mut Core) {
        for (logical, piece) in self.found {
            core.blocks.found(logical, piece);
        }
        for logical in 0..core.blocks.count() {
            let covered = core.blocks[logical].pieces.sort();
            gc::discard(core, logical, covered, false);
        }
        for request in self.early {
            commands::begin(core, request);
        }
        gc::erase_garbage(core);
    }
}

/// Discards a completely unreadable chunk.
fn discard(core: &mut Core, Probe { chunk, .. }: Probe) {
    gc::discard(core, u32::MAX, vec![Piece { chunk, ends: 0, open: false, sequence: 0 }], false);
}
