//! A raw target's addresses: the chunks of its parallel units, counted from 0.
//!
//! ```text
//!   drive    group 1: units 4 5 6 7    group 2: units 8 9 10 11
//!   target 4-11: the same two groups   target 5-9: one group of five units
//! ```
//! The place of a sector inside its parallel unit is the same for both, so a run of sectors stays a run. Invariant: nothing of a
//! command that is passed on lies outside the target's units.

use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, Command, Completion, Lba, Opcode, Status, Vector,
};
use std::ops::Range;

/// The range of a raw target.
#[derive(Clone, Debug)]
pub(super) struct RawRange {
    drive: ChunkGeometry,
    own: ChunkGeometry,
    first_unit: u32,
}

impl RawRange {
    pub fn new(drive: ChunkGeometry, units: Range<u32>) -> RawRange {
        let count = units.len() as u32;
        let whole = units.start.is_multiple_of(drive.units) && count.is_multiple_of(drive.units);
        let (groups, per_group) = if whole { (count / drive.units, drive.units) } else { (1, count) };
        let own = ChunkGeometry { groups, units: per_group, ..drive };
        RawRange { drive, own, first_unit: units.start }
    }

    /// What the target looks like.
    pub fn geometry(&self) -> ChunkGeometry {
        self.own
    }

    /// Chunks of it.
    pub fn chunks(&self) -> u32 {
        self.own.parallel_units() * self.own.chunks
    }

    /// The drive's number of its first chunk.
    pub fn first_chunk(&self) -> u32 {
        self.first_unit * self.drive.chunks
    }

    /// The same place in the other numbering, `shift` units further on.
    fn moved(from: &ChunkGeometry, to: &ChunkGeometry, lba: Lba, shift: i64) -> Option<Lba> {
        let address = from.address(lba)?;
        let unit = i64::from(address.group * from.units + address.unit) + shift;
        let unit = u32::try_from(unit).ok().filter(|&unit| unit < to.parallel_units())?;
        Some(to.lba(ChunkAddress { group: unit / to.units, unit: unit % to.units, ..address }))
    }

    /// The drive's address; `None` where the target has no such sector.
    fn on_drive(&self, lba: Lba) -> Option<Lba> {
        RawRange::moved(&self.own, &self.drive, lba, self.first_unit.into())
    }

    /// The target's address; `None` where it is not the target's.
    pub fn in_target(&self, lba: Lba) -> Option<Lba> {
        RawRange::moved(&self.drive, &self.own, lba, -i64::from(self.first_unit))
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
            Opcode::Read | Opcode::Write | Opcode::Reset | Opcode::Copy => {
                // A run that leaves its parallel unit would go on in another place of the drive.
                let [_, _, chunk, sector] = self.own.address_bits();
                let last = command.lba.0.saturating_add(u64::from(command.sectors.max(1)) - 1);
                if command.lba.0 >> (chunk + sector) != last >> (chunk + sector) {
                    return Err(out_of_range);
                }
            }
            _ => return Ok(()),
        }
        command.lba = self.on_drive(command.lba).ok_or(out_of_range)?;
        Ok(())
    }

    /// Gives what came back the target's addresses again.
    pub fn give_back(&self, completion: &mut Completion) {
        if completion.opcode == Opcode::Report {
            self.rename(&mut completion.data);
        }
        if let Some(vector) = &mut completion.vector {
            for lba in vector.addresses.iter_mut().chain(&mut vector.destinations) {
                *lba = self.in_target(*lba).unwrap_or(*lba);
            }
            if completion.opcode == Opcode::Reset {
                self.rename(&mut vector.metadata);
            }
        }
    }

    /// Packed chunk descriptors get the target's addresses.
    fn rename(&self, packed: &mut [u8]) {
        let mut renamed = Vec::with_capacity(ChunkInfo::BYTES);
        for bytes in packed.as_chunks_mut::<{ ChunkInfo::BYTES }>().0 {
            let Some(info) = ChunkInfo::decode(bytes) else { continue };
            let start = self.in_target(info.start).unwrap_or(info.start);
            renamed.clear();
            ChunkInfo { start, ..info }.encode(&mut renamed);
            bytes.copy_from_slice(&renamed);
        }
    }
}
