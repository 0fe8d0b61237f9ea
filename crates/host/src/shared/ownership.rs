//! Ownership check: the drive's own namespace may not reach the parallel units of targets.
//!
//! Invariant: a command for which [`Ownership::foreign`] returns 0 reaches no unit of a target.

use crate::{Target, Targets};
use pellucid_flash::{ChunkGeometry, Command, Lba, Opcode, Vector};

/// Owners of the parallel units of one namespace.
pub(super) struct Ownership<'a> {
    pub geometry: &'a ChunkGeometry,
    pub targets: &'a Targets,
}

impl Ownership<'_> {
    /// Returns a bit for each address of a command to the shared namespace that belongs to a target; 0 if
    /// there is none.
    pub fn foreign(&self, command: &Command) -> u64 {
        let reaches = matches!(command.opcode, Opcode::Read | Opcode::Write | Opcode::Chunk(_));
        if !reaches || self.targets.list().is_empty() {
            return 0;
        }
        match &command.vector {
            Some(vector) if !vector.addresses.is_empty() => {
                let of = |list: &[Lba]| {
                    let bits = list.iter().enumerate().take(Vector::ADDRESSES_MAX);
                    bits.fold(0, |all, (bit, &lba)| all | u64::from(self.takes(lba, lba.0)) << bit)
                };
                of(&vector.addresses) | of(&vector.destinations)
            }
            _ => {
                let last = command.lba.0.saturating_add(u64::from(command.sectors.max(1)) - 1);
                u64::from(self.takes(command.lba, last))
            }
        }
    }

    /// Reports whether any sector from `first` to `last` belongs to a target.
    fn takes(&self, first: Lba, last: u64) -> bool {
        let [_, _, chunk, sector] = self.geometry.address_bits();
        let unit = |lba: u64| lba >> (chunk + sector);
        let of = |number: u32| {
            let at = self.geometry.chunk_at(number * self.geometry.chunks);
            unit(self.geometry.lba(at).0)
        };
        let overlaps = |target: &Target| {
            of(target.units.start) <= unit(last) && unit(first.0) < of(target.units.end - 1) + 1
        };
        self.targets.list().iter().any(overlaps)
    }
}
