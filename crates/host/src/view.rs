//! A view of an open-channel namespace: some of its chunks, as a namespace of their own, counted from 0.
//!
//! ```text
//!   drive    group 1: units 4 5 6 7    group 2: units 8 9 10 11
//!   range 4-11: the same two groups    range 5-9: one group of five units
//!   listed: any chunk at any place
//! ```
//! The place of a sector inside its chunk is the same for both, so a run of sectors in one chunk stays a run; in a range of units one
//! that goes on into the next chunk of its unit does, too. Invariant: nothing of a command that is passed on lies outside the view.

use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, Command, Completion, Lba, Opcode, Status, Vector,
};
use std::ops::Range;

/// No chunk.
const NONE: u32 = u32::MAX;

/// Some of the chunks of a drive.
#[derive(Clone, Debug)]
pub struct ChunkView {
    drive: ChunkGeometry,
    own: ChunkGeometry,
    table: Table,
}

/// Which chunk of the drive each chunk of the view is.
#[derive(Clone, Debug)]
enum Table {
    /// From this one on, in the drive's order.
    Range(u32),
    /// `to`: by the view's number. `from`: by the drive's unit and chunk; empty for a unit that never had one.
    Listed { to: Vec<u32>, from: Vec<Vec<u32>> },
}

impl ChunkView {
    /// The chunks of a range of parallel units. Whole groups stay groups.
    pub fn range(drive: ChunkGeometry, units: Range<u32>) -> ChunkView {
        let count = units.len() as u32;
        let whole = units.start.is_multiple_of(drive.units) && count.is_multiple_of(drive.units);
        let (groups, per_group) = if whole { (count / drive.units, drive.units) } else { (1, count) };
        let own = ChunkGeometry { groups, units: per_group, ..drive };
        ChunkView { drive, own, table: Table::Range(units.start * drive.chunks) }
    }

    /// A view of this shape that has no chunk yet.
    ///
    /// # Panics
    /// When its chunks are of another size than the drive's.
    pub fn listed(drive: ChunkGeometry, own: ChunkGeometry) -> ChunkView {
        assert_eq!(drive.chunk_sectors, own.chunk_sectors, "a chunk keeps its size");
        let to = vec![NONE; (own.parallel_units() * own.chunks) as usize];
        let from = vec![Vec::new(); drive.parallel_units() as usize];
        ChunkView { drive, own, table: Table::Listed { to, from } }
    }

    /// The chunk `own` of a listed view is the drive's `chunk` from now on. What ends later on the chunk that it was before is still
    /// given back under the same number.
    ///
    /// # Panics
    /// When the view is a range.
    pub fn set(&mut self, own: u32, chunk: u32) {
        let Table::Listed { to, from } = &mut self.table else { panic!("a range is what it is") };
        to[own as usize] = chunk;
        let back = &mut from[(chunk / self.drive.chunks) as usize];
        if back.is_empty() {
            back.resize(self.drive.chunks as usize, NONE);
        }
        back[(chunk % self.drive.chunks) as usize] = own;
    }

    /// What the view looks like.
    pub fn geometry(&self) -> ChunkGeometry {
        self.own
    }

    /// Chunks of it.
    pub fn chunks(&self) -> u32 {
        self.own.parallel_units() * self.own.chunks
    }

    /// The drive's number of a chunk of the view.
    pub fn chunk_on_drive(&self, own: u32) -> Option<u32> {
        match &self.table {
            Table::Range(first) => (own < self.chunks()).then_some(first + own),
            Table::Listed { to, .. } => to.get(own as usize).copied().filter(|&chunk| chunk != NONE),
        }
    }

    /// The view's number of a chunk of the drive.
    pub fn chunk_in_view(&self, chunk: u32) -> Option<u32> {
        match &self.table {
            Table::Range(first) => chunk.checked_sub(*first).filter(|&own| own < self.chunks()),
            Table::Listed { from, .. } => {
                let back = &from[(chunk / self.drive.chunks) as usize];
                back.get((chunk % self.drive.chunks) as usize).copied().filter(|&own| own != NONE)
            }
        }
    }

    /// The drive's address; `None` where the view has no such sector.
    #[inline]
    pub fn on_drive(&self, lba: Lba) -> Option<Lba> {
        let address = self.own.address(lba)?;
        let chunk = self.chunk_on_drive(self.own.chunk_number(address))?;
        Some(self.drive.lba(ChunkAddress { sector: address.sector, ..self.drive.chunk_at(chunk) }))
    }

    /// The view's address; `None` where it is not the view's.
    pub fn in_view(&self, lba: Lba) -> Option<Lba> {
        let address = self.drive.address(lba)?;
        let own = self.chunk_in_view(self.drive.chunk_number(address))?;
        Some(self.own.lba(ChunkAddress { sector: address.sector, ..self.own.chunk_at(own) }))
    }

    /// Gives a command the drive's addresses. An error says how it ends instead: with a bit for each bad address of a list.
    pub fn to_drive(&self, command: &mut Command) -> Result<(), (Status, u64)> {
        let out_of_range = (Status::LbaOutOfRange, 0);
        if let Some(vector) = command.vector.as_mut().filter(|vector| !vector.addresses.is_empty()) {
            let mut bad = 0;
            for list in [&mut vector.addresses, &mut vector.destinations] {
                for (bit, lba) in list.iter_mut().enumerate() {
                    match self.on_drive(*lba) {
                        Some(there) => *lba = there,
                        None => bad |= 1 << (bit % Vector::ADDRESSES_MAX),
                    }
                }
            }
            return if bad == 0 { Ok(()) } else { Err((Status::LbaOutOfRange, bad)) };
        }
        match command.opcode {
            Opcode::Report => {
                let address = self.own.address(command.lba).ok_or(out_of_range)?;
                let end = u64::from(self.own.chunk_number(address)) + u64::from(command.sectors);
                if end > self.chunks().into() {
                    return Err(out_of_range);
                }
            }
            Opcode::Read | Opcode::Write | Opcode::Reset | Opcode::Copy | Opcode::Zone(_) => {
                if !self.stays(command) {
                    return Err(out_of_range);
                }
            }
            Opcode::Flush => return Ok(()),
            Opcode::Trim
            | Opcode::WriteZeroes
            | Opcode::Append
            | Opcode::NextUnit
            | Opcode::WriteClean
            | Opcode::WriteDirty
            | Opcode::Evict
            | Opcode::Clean
            | Opcode::Exists
            | Opcode::NamelessWrite
            | Opcode::PhysicalRead
            | Opcode::Free
            | Opcode::Acknowledge => {
                return Err((Status::InvalidOpcode, 0));
            }
        }
        command.lba = self.on_drive(command.lba).ok_or(out_of_range)?;
        Ok(())
    }

    /// Whether a run of sectors is one on the drive too: another would go on in another place of it.
    fn stays(&self, command: &Command) -> bool {
        let [_, _, chunk, sector] = self.own.address_bits();
        let bits = match self.table {
            Table::Range(_) => chunk + sector,
            Table::Listed { .. } => sector,
        };
        let last = command.lba.0.saturating_add(u64::from(command.sectors.max(1)) - 1);
        command.lba.0 >> bits == last >> bits
    }

    /// Gives what came back the view's addresses again.
    pub fn give_back(&self, completion: &mut Completion) {
        if completion.opcode == Opcode::Report {
            self.rename(&mut completion.data);
        }
        if let Some(vector) = &mut completion.vector {
            for lba in vector.addresses.iter_mut().chain(&mut vector.destinations) {
                *lba = self.in_view(*lba).unwrap_or(*lba);
            }
            if completion.opcode == Opcode::Reset {
                self.rename(&mut vector.metadata);
            }
        }
    }

    /// Packed chunk descriptors get the view's addresses.
    fn rename(&self, packed: &mut [u8]) {
        let mut renamed = Vec::with_capacity(ChunkInfo::BYTES);
        for bytes in packed.as_chunks_mut::<{ ChunkInfo::BYTES }>().0 {
            let Some(info) = ChunkInfo::decode(bytes) else { continue };
            let start = self.in_view(info.start).unwrap_or(info.start);
            renamed.clear();
            ChunkInfo { start, ..info }.encode(&mut renamed);
            bytes.copy_from_slice(&renamed);
        }
    }
}
