//! Counters of a cluster buffer.

use pellucid_flash::Figure;

/// Counters of the cluster buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterBufferCounters {
    /// Writes taken into the buffer.
    pub writes: u64,
    /// Sectors of the writes taken into the buffer.
    pub written_sectors: u64,
    /// Writes, trims and writes of zeros that bypassed the buffer, whatever the reason.
    pub bypassed: u64,
    /// Clusters evicted.
    pub evictions: u64,
    /// Evictions of full clusters.
    pub full_evictions: u64,
    /// Writes of evictions to the drive.
    pub cluster_writes: u64,
    /// Sectors of the writes of evictions.
    pub cluster_sectors: u64,
    /// Reads of missing sectors of a cluster.
    pub padding_reads: u64,
    /// Sectors of the padding reads.
    pub padding_sectors: u64,
    /// Reads answered by the buffer alone.
    pub covered_reads: u64,
    /// Sectors that the buffer replaced in answers of the drive.
    pub overlaid_sectors: u64,
    /// Evictions that the drive refused.
    pub failed_evictions: u64,
    /// Sectors that the buffer held when the power was cut.
    pub lost_sectors: u64,
    /// Records written to the journal.
    pub journal_records: u64,
    /// Sectors of the records.
    pub journal_sectors: u64,
    /// Clusters with sectors in the records.
    pub journal_clusters: u64,
    /// Records that the drive refused.
    pub journal_failures: u64,
}

/// Events, each of which a path of the buffer counts.
impl ClusterBufferCounters {
    #[inline]
    pub(super) fn wrote(&mut self, sectors: u32) {
        self.writes += 1;
        self.written_sectors += u64::from(sectors);
    }

    pub(super) fn passed_by(&mut self) {
        self.bypassed += 1;
    }

    /// Counts an eviction; `full`: the buffer has all sectors of its cluster.
    pub(super) fn evicted(&mut self, full: bool) {
        self.evictions += 1;
        self.full_evictions += u64::from(full);
    }

    pub(super) fn wrote_cluster(&mut self, sectors: u32) {
        self.cluster_writes += 1;
        self.cluster_sectors += u64::from(sectors);
    }

    pub(super) fn padded(&mut self, sectors: u32) {
        self.padding_reads += 1;
        self.padding_sectors += u64::from(sectors);
    }

    #[inline]
    pub(super) fn covered(&mut self) {
        self.covered_reads += 1;
    }

    #[inline]
    pub(super) fn overlaid(&mut self, sectors: u32) {
        self.overlaid_sectors += u64::from(sectors);
    }

    pub(super) fn eviction_failed(&mut self) {
        self.failed_evictions += 1;
    }

    pub(super) fn lost(&mut self, sectors: u32) {
        self.lost_sectors += u64::from(sectors);
    }

    pub(super) fn journalled(&mut self, sectors: u32, clusters: usize) {
        self.journal_records += 1;
        self.journal_sectors += u64::from(sectors);
        self.journal_clusters += clusters as u64;
    }

    pub(super) fn journal_failed(&mut self) {
        self.journal_failures += 1;
    }
}

impl ClusterBufferCounters {
    /// Returns the counters as named figures, with sectors of `sector_bytes` bytes.
    pub(super) fn figures(&self, sector_bytes: u32) -> Vec<Figure> {
        let bytes = |name, help, sectors: u64| Figure::bytes(name, help, sectors * u64::from(sector_bytes));
        vec![
            Figure::count("writes", "Writes taken into the buffer.", self.writes),
            bytes("written_bytes", "Bytes taken into the buffer.", self.written_sectors),
            Figure::count(
                "bypassed",
                "Commands that pass the buffer by: forced writes, trims, writes of zeros, writes into ranges that do, and writes while it is paused.",
                self.bypassed,
            ),
            Figure::count("evictions", "Clusters that left the buffer.", self.evictions),
            Figure::count("full_evictions", "Full clusters that left the buffer.", self.full_evictions),
            Figure::count("cluster_writes", "Writes of evictions.", self.cluster_writes),
            bytes("cluster_bytes", "Bytes written by evictions.", self.cluster_sectors),
            Figure::count("padding_reads", "Reads of what was missing of a cluster.", self.padding_reads),
            bytes(
                "padding_bytes",
                "Bytes read because they were missing of a cluster.",
                self.padding_sectors,
            ),
            Figure::count("covered_reads", "Reads answered by the buffer alone.", self.covered_reads),
            bytes(
                "overlaid_bytes",
                "Bytes that the buffer put into answers of the drive.",
                self.overlaid_sectors,
            ),
            Figure::count("failed_evictions", "Evictions that the drive refused.", self.failed_evictions),
            bytes("lost_bytes", "Bytes that the buffer held when the power was cut.", self.lost_sectors),
            Figure::count("journal_records", "Records of the journal.", self.journal_records),
            bytes("journal_bytes", "Bytes of the journal's records.", self.journal_sectors),
        ]
    }
}
