//! The store of a graph's segments.
//!
//! A segment is written once from start to end, then sealed and only read. This suits flash that erases whole blocks as well as files.
//! [`Store::replace`] is for the one small record that changes.
//!
//! ```text
//!   create ─► append ... append ─► seal ─► read ... read ─► remove
//! ```

use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Contents of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Unsorted edges, roughly ordered by key.
    Run(u32),
    /// Weights of a run's edges.
    RunWeights(u32),
    /// Offsets of one window: for each key, the number of edges with smaller keys.
    Offsets(u32, u32),
    /// Other ends of the edges of one window, ordered by key.
    Others(u32, u32),
    /// Weights of the edges of one window.
    Weights(u32, u32),
    /// Out-degree of each vertex.
    Degrees,
    /// The values of one interval's vertices, after an even or an odd iteration.
    Values(u32, bool),
    /// Number of complete iterations.
    State,
    /// Plan of the graph. It exists once everything before the first iteration does.
    Plan,
}

impl Segment {
    /// Reports whether it is written only during preparation.
    pub fn is_shard(self) -> bool {
        matches!(self, Segment::Offsets(..) | Segment::Others(..) | Segment::Weights(..) | Segment::Degrees)
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Run(run) => write!(f, "run-{run}"),
            Segment::RunWeights(run) => write!(f, "run-weights-{run}"),
            Segment::Offsets(key, other) => write!(f, "offsets-{key}-{other}"),
            Segment::Others(key, other) => write!(f, "others-{key}-{other}"),
            Segment::Weights(key, other) => write!(f, "weights-{key}-{other}"),
            Segment::Degrees => write!(f, "degrees"),
            Segment::Values(interval, odd) => {
                write!(f, "values-{interval}-{}", if *odd { "odd" } else { "even" })
            }
            Segment::State => write!(f, "state"),
            Segment::Plan => write!(f, "plan"),
        }
    }
}

/// Reason why a store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The store is full.
    #[error("no space is left for {segment}: {why}")]
    Full {
        /// Segment that was written.
        segment: Segment,
        /// Reason.
        why: String,
    },
    /// The store could not read or write.
    #[error("{segment}: {why}")]
    Failed {
        /// Segment that was read or written.
        segment: Segment,
        /// Reason.
        why: String,
    },
    /// Data read differ from the data written.
    #[error("{segment} is damaged: {why}")]
    Damaged {
        /// Segment that was read.
        segment: Segment,
        /// Description of the damage.
        why: String,
    },
}

/// Work of the processor, for stores with simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Number of edges sorted into windows.
    Sort(u64),
    /// Number of edges followed.
    Follow(u64),
    /// Number of vertices that received a value.
    Apply(u64),
}

/// Storage of segments.
pub trait Store {
    /// Creates an empty segment, replacing any old one.
    fn create(&mut self, segment: Segment) -> Result<(), StoreError>;

    /// Appends to a segment.
    fn append(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError>;

    /// Marks the segment as complete.
    fn seal(&mut self, segment: Segment) -> Result<(), StoreError>;

    /// Length in bytes; `None`: the segment does not exist.
    fn bytes(&self, segment: Segment) -> Option<u64>;

    /// Fills `into` from byte `at` on.
    fn read(&mut self, segment: Segment, at: u64, into: &mut [u8]) -> Result<(), StoreError>;

    /// Prefetches these bytes.
    fn will_read(&mut self, segment: Segment, at: u64, bytes: u64);

    /// Removes a segment, if it exists.
    fn remove(&mut self, segment: Segment) -> Result<(), StoreError>;

    /// Replaces the content of the small segment `segment`, after everything sealed is in place: a killed program leaves the old or the new content.
    /// After a power cut, a store has [`Segment::Plan`] only with everything that was sealed before. Any other record may exist without its data, so
    /// its checksum must tell what it belongs to.
    fn replace(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError>;

    /// Accounts for processor work; no effect in real time.
    fn spend(&mut self, _work: Work) {}
}

/// Segments in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    segments: BTreeMap<Segment, Vec<u8>>,
}

impl Memory {
    fn get(&mut self, segment: Segment) -> Result<&mut Vec<u8>, StoreError> {
        self.segments.get_mut(&segment).ok_or_else(|| absent(segment))
    }
}

/// Error for a missing segment.
pub fn absent(segment: Segment) -> StoreError {
    StoreError::Damaged { segment, why: "it is not there".into() }
}

/// Error for a segment that is too short.
pub fn short(segment: Segment, bytes: u64, wanted: u64) -> StoreError {
    StoreError::Damaged { segment, why: format!("it ends at byte {bytes}, before byte {wanted}") }
}

impl Store for Memory {
    fn create(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.segments.insert(segment, Vec::new());
        Ok(())
    }

    fn append(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.get(segment)?.extend_from_slice(data);
        Ok(())
    }

    fn seal(&mut self, _segment: Segment) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self, segment: Segment) -> Option<u64> {
        self.segments.get(&segment).map(|data| data.len() as u64)
    }

    fn read(&mut self, segment: Segment, at: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let data = self.get(segment)?;
        let end = at + into.len() as u64;
        let bytes = data.len() as u64;
        let part = data.get(at as usize..end as usize).ok_or_else(|| short(segment, bytes, end))?;
        into.copy_from_slice(part);
        Ok(())
    }

    fn will_read(&mut self, _segment: Segment, _at: u64, _bytes: u64) {}

    fn remove(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.segments.remove(&segment);
        Ok(())
    }

    fn replace(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.segments.insert(segment, data.to_vec());
        Ok(())
    }
}
