//! Operations that a drive executes in several steps, with common rules for all protocols:
//!
//! ```text
//!  trim, write zeroes, a long range       piece ─► piece ─► ... ─► last piece
//!  ... forced, or zeros to be kept        the same ─► flush
//!  read, forced, behind a volatile cache  flush ─► read
//! ```
//! - A drive processes every mapping unit of a range at once and serves nothing else meanwhile, so long
//!   ranges are split.
//! - A discard becomes durable with the mapping table, so a forced one is followed by a flush. Zeros are
//!   data: if every acknowledged write survives a power cut, they do too.
//! - A forced read returns data from the media, so a volatile cache is flushed first.
//!
//! A step that fails ends the operation with its status. A power cut between two steps may undo the earlier
//! ones, so the operation then ends with [`Status::PowerLoss`].
//!
//! Invariant: a tag has a rest exactly while its operation has further steps, or is in its second one.

#[cfg(test)]
mod tests;

use pellucid_flash::{Completion, Lba, Opcode, Status};
use pellucid_target::operation::{Keeps, Namespace, Operation};

/// Mapping units of a piece: about 0.2 ms of this machine's time if they are empty, else about 2 ms.
const UNITS_MAX: u64 = 1 << 15;

/// Remaining steps of the operations in flight.
#[derive(Default)]
pub(super) struct Steps {
    /// Remaining steps by tag.
    rests: Vec<Option<Rest>>,
    /// Number of operations with remaining steps.
    count: usize,
}

enum Rest {
    /// A read after a flush.
    Read(Operation),
    /// A range still to be discarded, in pieces of `piece` sectors.
    Pieces { left: Operation, piece: u32, flush: bool },
    /// A flush in flight that ends an operation with this opcode.
    Flush(Opcode),
    /// Earlier steps were lost in a power cut.
    Lost(Opcode),
}

/// Takes the next piece off a range.
fn cut(left: &mut Operation, piece: u32) -> Operation {
    let first = Operation { sectors: piece.min(left.sectors), ..left.clone() };
    left.lba = Lba(left.lba.0 + u64::from(first.sectors));
    left.sectors -= first.sectors;
    first
}

fn flush_for(operation: &Operation) -> Operation {
    Operation { queue: operation.queue, ..Operation::flush() }
}

impl Steps {
    /// Begins an operation; returns its first step, which for most is the whole.
    #[inline]
    pub fn begin(&mut self, namespace: &Namespace, tag: u32, operation: Operation) -> Operation {
        match operation.opcode {
            Opcode::Trim | Opcode::WriteZeroes => self.discard(namespace, tag, operation),
            Opcode::Read if operation.fua => self.forced_read(namespace, tag, operation),
            _ => operation,
        }
    }

    /// Splits a discard. The drive refuses a range past the end as a whole.
    #[cold]
    fn discard(&mut self, namespace: &Namespace, tag: u32, operation: Operation) -> Operation {
        let kept = operation.opcode == Opcode::WriteZeroes && namespace.keeps == Keeps::Acknowledged;
        let flush = operation.fua || kept;
        let units = u64::from(namespace.unit_bytes / namespace.sector_bytes);
        let piece = (UNITS_MAX * units) as u32;
        let end = operation.lba.0.checked_add(operation.sectors.into());
        let fits = end.is_some_and(|end| end <= namespace.sectors);
        let mut left = Operation { fua: false, ..operation };
        let piece = if fits { piece } else { left.sectors };
        let first = cut(&mut left, piece);
        if left.sectors > 0 || flush {
            self.keep(tag, Rest::Pieces { left, piece, flush });
        }
        first
    }

    #[cold]
    fn forced_read(&mut self, namespace: &Namespace, tag: u32, operation: Operation) -> Operation {
        let read = Operation { fua: false, ..operation };
        if !namespace.keeps.has_cache() {
            return read;
        }
        let flush = flush_for(&read);
        self.keep(tag, Rest::Read(read));
        flush
    }

    fn keep(&mut self, tag: u32, rest: Rest) {
        let at = tag as usize;
        if self.rests.len() <= at {
            self.rests.resize_with(at + 1, || None);
        }
        self.count += usize::from(self.rests[at].replace(rest).is_none());
    }

    /// Marks the operations in flight on a drive whose power was cut.
    pub fn lose(&mut self, is_its: impl Fn(u32) -> bool) {
        for (tag, rest) in (0..).zip(&mut self.rests) {
            let opcode = match rest {
                Some(Rest::Pieces { left, .. }) => left.opcode,
                Some(Rest::Flush(opcode)) => *opcode,
                _ => continue,
            };
            if is_its(tag) {
                *rest = Some(Rest::Lost(opcode));
            }
        }
    }

    /// Continues after a step: returns the next one, if there is one. If not, `completion` is that of the
    /// operation.
    #[inline]
    pub fn go_on(&mut self, tag: u32, completion: &mut Completion) -> Option<Operation> {
        if self.count == 0 {
            return None;
        }
        let rest = self.rests.get_mut(tag as usize)?.take()?;
        self.count -= 1;
        self.after(tag, rest, completion)
    }

    #[cold]
    fn after(&mut self, tag: u32, rest: Rest, completion: &mut Completion) -> Option<Operation> {
        let good = completion.status == Status::Success;
        match rest {
            Rest::Read(read) if good => Some(read),
            Rest::Read(read) => {
                (completion.opcode, completion.data) = (read.opcode, read.data);
                None
            }
            Rest::Pieces { mut left, piece, flush } if good && left.sectors > 0 => {
                let next = cut(&mut left, piece);
                self.keep(tag, Rest::Pieces { left, piece, flush });
                Some(next)
            }
            Rest::Pieces { left, flush: true, .. } if good => {
                self.keep(tag, Rest::Flush(left.opcode));
                Some(flush_for(&left))
            }
            Rest::Pieces { .. } => None,
            Rest::Flush(opcode) => {
                completion.opcode = opcode;
                None
            }
            Rest::Lost(opcode) => {
                completion.opcode = opcode;
                completion.status = if good { Status::PowerLoss } else { completion.status };
                None
            }
        }
    }
}
