//! Picture: the content of a checkpoint besides the tree, as stored in its place.
//!
//! ```text
//!   crc32c, magic, file system, number, epoch, sequence number, root, counts
//!   each segment: live blocks, written blocks, age     the reserve: segment, next block
//! ```

use crate::key::Fields;
use crate::layout::{CHECKPOINT_HEADER, Layout, RESERVE_BYTES, USAGE_BYTES};
use crate::node::Child;
use crate::space::{Head, Segment, State};
use crate::types::{BLOCK_BYTES, Ino};

const MAGIC: u32 = 0x504b_4350;
const BAD: u32 = 1 << 31;

/// Content of a checkpoint besides the tree.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub number: u64,
    pub epoch: u64,
    pub seq: u64,
    pub root: Child,
    pub level: u8,
    pub node_count: u64,
    pub new_ino: Ino,
    pub allocated: u64,
    pub segments: Vec<Segment>,
    /// Positions at which the log may continue.
    pub reserve: Vec<Head>,
}

impl Picture {
    /// Encodes the picture, without the superblock before it.
    pub fn encode(&self, file_system: u64, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        for word in [file_system, self.number, self.epoch, self.seq, self.root.at, self.root.crc.into()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let counts = [self.node_count, self.new_ino.0, self.allocated];
        for word in [[u64::from(self.level)].as_slice(), &counts].concat() {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.segments.len(), self.reserve.len()] {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
        }
        bytes.resize(CHECKPOINT_HEADER, 0);
        for segment in &self.segments {
            let bad = if segment.state == State::Bad { BAD } else { 0 };
            for word in [segment.live, segment.written | bad, segment.age_s] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        for head in &self.reserve {
            bytes.extend_from_slice(&head.segment.to_le_bytes());
            bytes.extend_from_slice(&head.next.to_le_bytes());
        }
        bytes[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes.resize(layout.picture_blocks() as usize * BLOCK_BYTES, 0);
        let crc = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the picture in a place, if it is whole.
    pub fn decode(bytes: &[u8], file_system: u64, layout: &Layout) -> Option<Picture> {
        let mut f = Fields(bytes);
        if f.u32()? != crc32c::crc32c(bytes.get(4..)?) || f.u32()? != MAGIC || f.u64()? != file_system {
            return None;
        }
        let (number, epoch, seq) = (f.u64()?, f.u64()?, f.u64()?);
        let root = Child { at: f.u64()?, crc: f.u64()? as u32 };
        let (level, node_count, new_ino, allocated) = (f.u64()? as u8, f.u64()?, Ino(f.u64()?), f.u64()?);
        let (segments, reserve) = (f.u32()?, f.u32()?);
        if segments != layout.segments {
            return None;
        }
        let mut f = Fields(bytes.get(CHECKPOINT_HEADER..)?);
        let segments = f.bytes(segments as usize * USAGE_BYTES)?.chunks_exact(USAGE_BYTES).map(|entry| {
            let mut f = Fields(entry);
            let (live, written, age_s) = (f.u32()?, f.u32()?, f.u32()?);
            let state = if written & BAD != 0 { State::Bad } else { State::Closed };
            Some(Segment { live, written: written & !BAD, age_s, state })
        });
        let segments = segments.collect::<Option<Vec<Segment>>>()?;
        let reserve = f.bytes(reserve as usize * RESERVE_BYTES)?.chunks_exact(RESERVE_BYTES).map(|entry| {
            let mut f = Fields(entry);
            Some(Head { segment: f.u32()?, next: f.u32()? }).filter(|head| head.segment < layout.segments)
        });
        let reserve = reserve.collect::<Option<Vec<Head>>>()?;
        Some(Picture { number, epoch, seq, root, level, node_count, new_ino, allocated, segments, reserve })
    }
}
