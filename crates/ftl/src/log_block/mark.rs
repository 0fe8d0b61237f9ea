//! Mark in the spare area of a superpage: it describes the block, in the bits above the sequence number.
//!
//! ```text
//!  bits 0..40  sequence number     40..56  last superpage of a merge's destination     56..64  kind
//! ```
//! The upper bits are the same for all superpages of a block, so the numbers of a block rise with its superpages. The destination of a
//! full merge is valid only when it is complete; the number of its last superpage tells a mount whether it is. Until then every copy in
//! it has its source on the media.

/// Bits of the sequence number: 10^12 programs.
const SEQUENCE_BITS: u32 = 40;
const END_BITS: u32 = 16;

/// Kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Superpages of any logical blocks (FAST).
    Random,
    /// Log block of one logical block (BAST), or the sequential log block (FAST).
    Owned,
    /// Destination of a full merge, whose last superpage has this number.
    Destination { end: u16 },
    /// Metadata: which pages were trimmed.
    Metadata,
}

/// Encodes a kind and a sequence number for the spare area.
pub(super) fn join(kind: Kind, sequence: u64) -> u64 {
    debug_assert!(sequence >> SEQUENCE_BITS == 0);
    let (code, end) = match kind {
        Kind::Random => (1, 0),
        Kind::Owned => (2, 0),
        Kind::Destination { end } => (3, end),
        Kind::Metadata => (4, 0),
    };
    code << (SEQUENCE_BITS + END_BITS) | u64::from(end) << SEQUENCE_BITS | sequence
}

/// Splits a spare-area value into kind and sequence number. `None`: another translation wrote it.
pub(super) fn split(stored: u64) -> Option<(Kind, u64)> {
    let sequence = stored & ((1 << SEQUENCE_BITS) - 1);
    let kind = match stored >> (SEQUENCE_BITS + END_BITS) {
        1 => Kind::Random,
        2 => Kind::Owned,
        3 => Kind::Destination { end: (stored >> SEQUENCE_BITS) as u16 },
        4 => Kind::Metadata,
        _ => return None,
    };
    Some((kind, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_split_again() {
        let kinds = [
            Kind::Random,
            Kind::Owned,
            Kind::Destination { end: 0 },
            Kind::Destination { end: u16::MAX },
            Kind::Metadata,
        ];
        for kind in kinds {
            for sequence in [1, (1 << SEQUENCE_BITS) - 1] {
                assert_eq!(split(join(kind, sequence)), Some((kind, sequence)));
            }
        }
        assert_eq!(split(7), None, "of the page map, without placement handles");
    }
}
