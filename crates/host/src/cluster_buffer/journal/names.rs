//! Names: the clusters with data in the journal.
//!
//! ```text
//!  named (counts) ─► left the buffer ─► sealed by a flush of the drive ─► ended, once the drive has its data durably
//!       ▲                                  └─ its remaining sectors are journalled again: replaced by a new name
//!       └ a record failed: as before
//! ```
//! Invariants: a cluster counts at most once; its name ends only when the drive has its data durably, or a durable record has all valid data of it.

/// Validity of a cluster's data in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// Valid: the buffer has the same sectors, or newer ones.
    Yes,
    /// The drive has the sectors, but not yet durably.
    Left,
    /// The sectors left the buffer before the flush under way.
    Sealed,
}

/// Cluster with data in the journal.
#[derive(Clone, Copy, Debug)]
struct Named {
    cluster: u64,
    /// First record that is valid for the cluster; it begins at `unit`.
    since: u64,
    unit: u32,
    counts: Counts,
}

/// Clusters with data in the journal.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Names {
    named: Vec<Named>,
    /// Names that the record under way replaces, because it has all valid data of their clusters.
    replaced: Vec<Named>,
    /// The newest durable record names clusters that are no longer valid.
    stale: bool,
}

impl Names {
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Reports whether the newest durable record names clusters that are no longer valid.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Notes that a cluster left the buffer, or that the drive has newer data of it. Returns whether the
    /// journal had valid data of it.
    pub fn left(&mut self, cluster: u64) -> bool {
        let counting =
            self.named.iter_mut().find(|named| named.cluster == cluster && named.counts == Counts::Yes);
        counting.map(|named| named.counts = Counts::Left).is_some()
    }

    /// Reports whether a start might bring back older data of these clusters: a durable record names one, or may.
    pub fn brings_back(&self, first: u64, last: u64) -> bool {
        let is_in = |named: &Named| (first..=last).contains(&named.cluster);
        self.stale || self.named.iter().chain(&self.replaced).any(is_in)
    }

    /// Reports whether a cluster has valid data in the journal.
    pub fn counts(&self, cluster: u64) -> bool {
        self.named.iter().any(|named| named.cluster == cluster && named.counts == Counts::Yes)
    }

    /// Reports whether a cluster has valid data in a record at a unit for which `is_far` holds.
    pub fn counts_at(&self, cluster: u64, is_far: impl Fn(u32) -> bool) -> bool {
        self.named
            .iter()
            .any(|named| named.cluster == cluster && named.counts == Counts::Yes && is_far(named.unit))
    }

    /// Returns the clusters with valid data in the journal.
    pub fn clusters(&self) -> impl Iterator<Item = u64> {
        self.named.iter().filter(|named| named.counts == Counts::Yes).map(|named| named.cluster)
    }

    /// Returns all clusters with the first record that is valid for each.
    pub fn list(&self) -> Vec<(u64, u64)> {
        self.named.iter().map(|named| (named.cluster, named.since)).collect()
    }

    /// Returns the unit of the oldest record that is needed.
    pub fn oldest_unit(&self) -> Option<u32> {
        self.named.iter().min_by_key(|named| named.since).map(|named| named.unit)
    }

    /// Seals the names of clusters that have left the buffer, before a flush of the drive.
    pub fn seal(&mut self) {
        for named in self.named.iter_mut().filter(|named| named.counts == Counts::Left) {
            named.counts = Counts::Sealed;
        }
    }

    /// Takes the seals back after a flush that failed.
    pub fn unseal(&mut self) {
        for named in self.named.iter_mut().filter(|named| named.counts == Counts::Sealed) {
            named.counts = Counts::Left;
        }
    }

    /// Ends the sealed names after a flush, except those of clusters whose sectors are to be journalled again (`is_due`): these stay
    /// until the record with these sectors. `newest` is the newest durable record.
    pub fn end_sealed(&mut self, newest: u64, is_due: impl Fn(u64) -> bool) {
        let ends = |named: &Named| named.counts == Counts::Sealed && !is_due(named.cluster);
        self.stale |= self.named.iter().any(|named| ends(named) && named.since <= newest);
        self.named.retain(|named| !ends(named));
    }

    /// Moves the sealed names of a cluster to the replaced ones, because the next record has all its valid
    /// data.
    pub fn replace(&mut self, cluster: u64) {
        let is_sealed = |named: &mut Named| named.cluster == cluster && named.counts == Counts::Sealed;
        self.replaced.extend(self.named.extract_if(.., is_sealed));
    }

    /// Names a cluster whose data are valid from record `since` at `unit` on, unless it has a valid name.
    pub fn add(&mut self, cluster: u64, since: u64, unit: u32) {
        if !self.counts(cluster) {
            self.named.push(Named { cluster, since, unit, counts: Counts::Yes });
        }
    }

    /// Notes that a record with all names is durable.
    pub fn recorded(&mut self) {
        self.replaced.clear();
        self.stale = false;
    }

    /// Withdraws the names of the failed record `sequence`. The record may still be on the media: until another one is, it could restore
    /// data that left the buffer.
    pub fn undo(&mut self, sequence: u64) {
        self.stale = true;
        self.named.retain(|named| named.since != sequence);
        self.named.append(&mut self.replaced);
    }

    pub fn memory_bytes(&self) -> u64 {
        ((self.named.capacity() + self.replaced.capacity()) * size_of::<Named>()) as u64
    }

    /// Checks the invariants before record `next`; panics if one is broken. Returns the units of the records that the newest needs.
    pub fn check(
        &self,
        newest: u64,
        next: u64,
        has_journalled: impl Fn(u64) -> Option<bool>,
    ) -> impl Iterator<Item = u32> {
        for named in &self.named {
            let twin = |other: &&Named| other.cluster == named.cluster && other.counts == Counts::Yes;
            assert!(self.named.iter().filter(twin).count() <= 1, "cluster {} counts twice", named.cluster);
            assert!(named.since < next, "cluster {} since a record to come", named.cluster);
            if named.counts == Counts::Yes {
                assert!(
                    has_journalled(named.cluster).is_some(),
                    "cluster {} counts, and is not there",
                    named.cluster
                );
            }
        }
        self.named.iter().filter(move |named| named.since <= newest).map(|named| named.unit)
    }
}
