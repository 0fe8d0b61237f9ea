//! Long ranges are forgotten piece by piece: a drive looks at every mapping unit of a piece at once, and nobody is served meanwhile.
//!
//! ```text
//!  begin ─► first piece ─► drive ─► go_on ─► next piece ─► drive ─► ... the last one ends the operation, or one that fails
//! ```
//! Invariant: a tag is here exactly while pieces of its operation are left that the drive has not been given.

use crate::session::{Namespace, Operation};
use pellucid_flash::{Lba, Opcode, Status};
use std::collections::BTreeMap;

/// Mapping units of a piece: some 0.2 ms of this machine's time if nothing is there, some 2 ms otherwise.
const UNITS_MAX: u64 = 1 << 15;

/// What is left of the operations that are under way.
#[derive(Default)]
pub(super) struct Forgetting {
    rests: BTreeMap<u32, Rest>,
}

struct Rest {
    operation: Operation,
    /// Sectors of a piece.
    piece: u32,
}

impl Rest {
    /// Takes the next piece off.
    fn next(&mut self) -> Operation {
        let Operation { lba, sectors, .. } = &mut self.operation;
        let piece = self.piece.min(*sectors);
        let start = *lba;
        (*lba, *sectors) = (Lba(lba.0 + u64::from(piece)), *sectors - piece);
        Operation { lba: start, sectors: piece, ..self.operation.clone() }
    }
}

impl Forgetting {
    /// The first piece of an operation, which is all of it unless that is much to forget. What passes the end is refused as a whole.
    #[inline]
    pub fn begin(&mut self, namespace: &Namespace, tag: u32, operation: Operation) -> Operation {
        match operation.opcode {
            Opcode::Trim | Opcode::WriteZeroes => self.cut(namespace, tag, operation),
            _ => operation,
        }
    }

    #[cold]
    fn cut(&mut self, namespace: &Namespace, tag: u32, operation: Operation) -> Operation {
        let units = u64::from(namespace.unit_bytes / namespace.sector_bytes);
        let piece = (UNITS_MAX * units) as u32;
        let end = operation.lba.0.checked_add(operation.sectors.into());
        if operation.sectors <= piece || end.is_none_or(|end| end > namespace.sectors) {
            return operation;
        }
        let mut rest = Rest { operation, piece };
        let first = rest.next();
        self.rests.insert(tag, rest);
        first
    }

    /// A piece has ended; the next one, if there is one.
    #[inline]
    pub fn go_on(&mut self, tag: u32, status: Status) -> Option<Operation> {
        if self.rests.is_empty() {
            return None;
        }
        let rest = self.rests.get_mut(&tag)?;
        let piece = (status == Status::Success).then(|| rest.next());
        if piece.is_none() || rest.operation.sectors == 0 {
            self.rests.remove(&tag);
        }
        piece
    }
}
