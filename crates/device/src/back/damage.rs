//! Handling of reads that needed error correction or failed despite it, common to all namespaces.

use crate::shared::Shared;
use pellucid_flash::Ppa;

impl Shared {
    /// Counts what error correction did for a read of a namespace that succeeded after `attempts` failures.
    #[inline]
    pub(crate) fn corrected(&mut self, namespace: u16, bits: u32, attempts: u32) {
        if bits == 0 && attempts == 0 {
            return;
        }
        let counters = self.counts(namespace);
        counters.corrected_bits += u64::from(bits);
        counters.corrected_reads += u64::from(attempts > 0);
    }

    /// Returns whether a read that failed `attempts` times is tried again.
    #[inline]
    pub(crate) fn tries_again(&self, ppa: Ppa, attempts: u32) -> bool {
        attempts < self.config.scheduler.read_retries && !self.media.is_lost(ppa)
    }
}
