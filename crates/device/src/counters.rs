//! Counters of a drive. Reading them costs nothing while the drive works.
//!
//! Invariant: each event is counted once, for its namespace, or for none if it belongs to the drive.

use pellucid_flash::Cause;

/// Counters since the drive was switched on. Sectors are host sectors (`sector_bytes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sectors that hosts wrote with success, as acknowledged.
    pub host_written_sectors: u64,
    /// Sectors that hosts read with success.
    pub host_read_sectors: u64,
    /// Reads of hosts that ended with success.
    pub host_reads: u64,
    /// Writes of hosts that ended with success.
    pub host_writes: u64,
    /// Sectors programmed, by cause. Their sum over `host_written_sectors` is the write amplification.
    pub programmed_sectors: [u64; Cause::COUNT],
    /// Program operations (superpages), by the cause of their first unit.
    pub programs: [u64; Cause::COUNT],
    /// Read operations that left the die, by cause; retries are counted apart.
    pub reads: [u64; Cause::COUNT],
    /// Copybacks (counted in `programs` too).
    pub copybacks: u64,
    /// Erases that ended well, by cause.
    pub erases: [u64; Cause::COUNT],
    /// Read attempts after the first.
    pub read_retries: u64,
    /// Reads that needed a retry and then returned the data.
    pub corrected_reads: u64,
    /// Programs and erases that were suspended for a read.
    pub suspensions: u64,
    /// Reads that failed after every retry.
    pub uncorrectable_reads: u64,
    /// Bits that error correction corrected.
    pub corrected_bits: u64,
    /// Chunks that the decoder took for other data than were stored; found out, and counted as uncorrectable.
    pub miscorrected_chunks: u64,
    /// Read attempts that found what the media's store keeps damaged.
    pub damaged_reads: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Slices of reads that found all their sectors in the buffer.
    pub buffer_read_hits: u64,
    /// Slices of writes that found their page in the buffer.
    pub buffer_write_hits: u64,
    /// Reads of a cache that found a block absent.
    pub cache_misses: u64,
    /// Blocks that went bad.
    pub retired_blocks: u64,
    /// Flash operations that have ended (programs, reads, erases), for fault injection by number.
    pub media_operations: u64,
    /// Time from the end of a host DMA until a firmware loop saw it, over all of them.
    pub dma_unseen_ns: u64,
    /// Power cuts survived.
    pub power_cuts: u64,
}

impl Counters {
    /// Returns the counts since `before`.
    pub fn since(mut self, before: &Counters) -> Counters {
        self.each(before, |own, before| own - before);
        self
    }

    /// Adds those of a namespace.
    pub(crate) fn add(&mut self, other: &Counters) {
        self.each(other, |own, other| own + other);
    }

    fn each(&mut self, other: &Counters, f: impl Fn(u64, u64) -> u64) {
        let causes = [
            (&mut self.programmed_sectors, &other.programmed_sectors),
            (&mut self.programs, &other.programs),
            (&mut self.reads, &other.reads),
            (&mut self.erases, &other.erases),
        ];
        for (own, other) in causes {
            own.iter_mut().zip(other).for_each(|(own, &other)| *own = f(*own, other));
        }
        for (own, other) in [
            (&mut self.host_written_sectors, other.host_written_sectors),
            (&mut self.host_read_sectors, other.host_read_sectors),
            (&mut self.host_reads, other.host_reads),
            (&mut self.host_writes, other.host_writes),
            (&mut self.copybacks, other.copybacks),
            (&mut self.read_retries, other.read_retries),
            (&mut self.corrected_reads, other.corrected_reads),
            (&mut self.suspensions, other.suspensions),
            (&mut self.uncorrectable_reads, other.uncorrectable_reads),
            (&mut self.corrected_bits, other.corrected_bits),
            (&mut self.miscorrected_chunks, other.miscorrected_chunks),
            (&mut self.damaged_reads, other.damaged_reads),
            (&mut self.program_failures, other.program_failures),
            (&mut self.erase_failures, other.erase_failures),
            (&mut self.buffer_read_hits, other.buffer_read_hits),
            (&mut self.buffer_write_hits, other.buffer_write_hits),
            (&mut self.cache_misses, other.cache_misses),
            (&mut self.retired_blocks, other.retired_blocks),
            (&mut self.media_operations, other.media_operations),
            (&mut self.dma_unseen_ns, other.dma_unseen_ns),
            (&mut self.power_cuts, other.power_cuts),
        ] {
            *own = f(*own, other);
        }
    }
}

/// Counters of all namespaces, and of the drive itself.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// By namespace.
    of_namespaces: Vec<Counters>,
    /// Events that belong to no namespace.
    of_drive: Counters,
}

impl Tally {
    /// Counters of so many namespaces, all zero.
    pub fn new(namespaces: usize) -> Tally {
        Tally { of_namespaces: vec![Counters::default(); namespaces], of_drive: Counters::default() }
    }

    /// Counters of a namespace.
    #[inline]
    pub fn of(&mut self, namespace: u16) -> &mut Counters {
        &mut self.of_namespaces[usize::from(namespace)]
    }

    /// Returns a copy of the counters of a namespace; zeros for one that is not there.
    pub fn copy_of(&self, namespace: u16) -> Counters {
        self.of_namespaces.get(usize::from(namespace)).copied().unwrap_or_default()
    }

    /// Counters of the drive itself.
    #[inline]
    pub fn of_drive(&mut self) -> &mut Counters {
        &mut self.of_drive
    }

    /// Power cuts of the drive.
    pub fn power_cuts(&self) -> u64 {
        self.of_drive.power_cuts
    }

    /// Sums over the namespaces and the drive.
    pub fn sum(&self) -> Counters {
        let mut sum = self.of_drive;
        self.of_namespaces.iter().for_each(|counters| sum.add(counters));
        sum
    }

    /// Sets all to zero.
    pub fn reset(&mut self) {
        *self = Tally::new(self.of_namespaces.len());
    }
}
