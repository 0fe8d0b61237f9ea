//! The start of a block-mapped range: which chunks hold what.
//!
//! ```text
//!   report ─► of every chunk in use the out-of-band data of its first page and of its last ones ─► whose, and how far it can be read
//!               └─ none of them can be read: those before, until one can ─┘
//!   all known ─► pieces of each block, the newest first; what they cover, and what has no owner, is erased ─► ready
//! ```
//! Out-of-band data, little endian: 0 logical block u32, 4 signature of the range u32, 8 number of the piece u64.

use super::{BlockMap, Piece, Purpose};
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Command, Completion, Lba, Opcode, Status, Vector};

/// Probes with the drive at a time.
const PROBES_MAX: usize = 32;

/// A chunk that is being looked at.
#[derive(Clone, Copy, Debug)]
struct Probe {
    chunk: u32,
    /// Sectors written.
    written: u32,
    open: bool,
    /// Pages that have not been looked at; those before that number.
    pages: u32,
    /// How often it could not be read at all.
    tries: u32,
}

/// The start under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    waiting: Vec<Probe>,
    /// In the order in which they were sent, with the first sector of their command.
    under_way: Vec<(Lba, Probe)>,
    found: Vec<(u32, Piece)>,
}

fn signature(id: u32) -> u32 {
    id.wrapping_mul(0x9e37_79b9) ^ 0x424c_4f4b
}

pub(super) fn encode(logical: u32, id: u32, sequence: u64) -> [u8; Vector::METADATA_BYTES] {
    let mut oob = [0; Vector::METADATA_BYTES];
    oob[..4].copy_from_slice(&logical.to_le_bytes());
    oob[4..8].copy_from_slice(&signature(id).to_le_bytes());
    oob[8..].copy_from_slice(&sequence.to_le_bytes());
    oob
}

fn decode(oob: &[u8; Vector::METADATA_BYTES], id: u32) -> Option<(u32, u64)> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| oob[at + i]));
    let sequence = u64::from_le_bytes(std::array::from_fn(|i| oob[8 + i]));
    (word(4) == signature(id)).then_some((word(0), sequence))
}

impl BlockMap {
    /// The report covers everything from the range's first chunk to its last; others lie between.
    pub(super) fn ask_for_chunks(&mut self) {
        let luns = self.erasing.len() as u32;
        let count = (luns - 1) * self.space.chunks.chunks + self.rows.len() as u32;
        let command = Command::new(0, Opcode::Report, self.lba(self.rows.start, 0), count, Vec::new());
        self.send(Purpose::Start, command);
    }

    pub(super) fn start_ended(&mut self, completion: &mut Completion) {
        match completion.opcode {
            Opcode::Report => self.reported(completion),
            _ => self.probed(completion),
        }
        if self.failure.is_none() {
            self.go_on_starting();
        }
    }

    fn reported(&mut self, completion: &Completion) {
        let infos = completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map(ChunkInfo::decode);
        let infos: Option<Vec<ChunkInfo>> = infos.collect();
        let luns = self.erasing.len();
        let wanted = (luns - 1) * self.space.chunks.chunks as usize + self.rows.len();
        let Some(infos) = infos.filter(|i| completion.status == Status::Success && i.len() == wanted) else {
            self.failure = Some(format!("the drive did not report its chunks: {:?}", completion.status));
            while let Some(request) = self.early.pop_front() {
                self.requests[request].left = 1;
                self.part_done(request, Some(Status::ReadOnly));
            }
            return;
        };
        for info in infos {
            let Some(address) = self.space.chunks.address(info.start) else { continue };
            if !self.rows.contains(&address.chunk) {
                continue;
            }
            let chunk = self.space.chunks.chunk_number(address);
            match info.state {
                ChunkState::Free => self.pool.give(BlockId(chunk)),
                ChunkState::Offline => self.pool.retire(BlockId(chunk)),
                ChunkState::Open | ChunkState::Closed => {
                    let (written, open) = (info.write_pointer, info.state == ChunkState::Open);
                    let pages = written / self.unit();
                    let start = self.start.as_mut().expect("it is under way");
                    start.waiting.push(Probe { chunk, written, open, pages, tries: 0 });
                }
            }
        }
    }

    fn go_on_starting(&mut self) {
        loop {
            let start = self.start.as_mut().expect("it is under way");
            if start.under_way.len() == PROBES_MAX {
                return;
            }
            match start.waiting.pop() {
                Some(probe) if probe.pages == 0 => self.nobodys(probe.chunk),
                Some(probe) => self.send_probe(probe),
                None if start.under_way.is_empty() => return self.all_known(),
                None => return,
            }
        }
    }

    /// Takes a chunk of which nothing can be read.
    fn nobodys(&mut self, chunk: u32) {
        self.discard(chunk, u32::MAX, 0, false);
    }

    /// The first sector of the first page, and of the last pages that have not been looked at.
    fn send_probe(&mut self, probe: Probe) {
        let mut vector = self.vectors.pop().unwrap_or_default();
        let last = probe.pages.saturating_sub(Vector::ADDRESSES_MAX as u32 - 1).max(1);
        let pages = std::iter::once(0).chain(last..probe.pages);
        vector.addresses.extend(pages.map(|page| self.lba(probe.chunk, page * self.unit())));
        let sectors = vector.addresses.len() as u32;
        vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
        let first = vector.addresses[0];
        self.start.as_mut().expect("it is under way").under_way.push((first, probe));
        let command = Command::new(0, Opcode::Read, first, sectors, Vec::new());
        self.send(Purpose::Start, Command { vector: Some(vector), ..command });
    }

    fn probed(&mut self, completion: &mut Completion) {
        let Some(vector) = &completion.vector else { return };
        let unit = self.unit();
        let start = self.start.as_mut().expect("it is under way");
        let first = vector.addresses[0];
        let at = start.under_way.iter().position(|(of, _)| *of == first).expect("it was sent");
        let (_, mut probe) = start.under_way.swap_remove(at);
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        // A failed command that names no sector has failed for all of them.
        let read = |i: usize| ok || (completion.result != 0 && completion.result >> i & 1 == 0);
        if !ok && probe.tries < super::READ_RETRIES {
            probe.tries += 1;
            return start.waiting.push(probe);
        }
        let oob = vector.metadata.as_chunks::<{ Vector::METADATA_BYTES }>().0;
        let good = (0..oob.len()).rev().find(|&i| read(i));
        let owner = good.and_then(|i| decode(&oob[i], self.id));
        let known = owner.filter(|&(logical, _)| (logical as usize) < self.logical.len());
        match (good, known) {
            // Those before may be readable.
            (Some(0) | None, _) if vector.addresses.len() == Vector::ADDRESSES_MAX => {
                probe.pages -= Vector::ADDRESSES_MAX as u32 - 1;
                probe.tries = 0;
                start.waiting.push(probe);
            }
            (Some(i), Some((logical, sequence))) => {
                let sector = (vector.addresses[i].0 - first.0) as u32;
                let ends = sector + unit;
                let open = probe.open && ends == probe.written;
                start.found.push((logical, Piece { chunk: probe.chunk, ends, open, sequence }));
            }
            _ => self.nobodys(probe.chunk),
        }
    }

    fn all_known(&mut self) {
        let Some(start) = self.start.take() else { return };
        for (logical, piece) in start.found {
            self.sequence = self.sequence.max(piece.sequence + 1);
            self.logical[logical as usize].pieces.push(piece);
        }
        for logical in 0..self.logical.len() as u32 {
            self.logical[logical as usize].pieces.sort_by_key(|piece| std::cmp::Reverse(piece.sequence));
            self.drop_covered(logical);
        }
        while let Some(request) = self.early.pop_front() {
            self.arrived(request);
        }
        self.erase_garbage();
    }
}
