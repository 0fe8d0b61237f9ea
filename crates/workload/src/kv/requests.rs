//! Requests of a modelled key-value workload.
//!
//! Invariant: the sizes of a key and its value follow from its number and the seed, like a row of a database, so a key that is stored again has a
//! value of the same size.

use super::Requests;
use super::laws::{KeySize, Popularity, Ranks, ValueSize};
use crate::trace::TraceError;
use crate::trace::kv::{KvRecord, Operation};
use pellucid_flash::Rng;

/// Settings of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadConfig {
    /// Number of keys.
    pub keys: u64,
    /// Law of requested keys.
    pub popularity: Popularity,
    /// Law of key sizes.
    pub key_size: KeySize,
    /// Law of value sizes.
    pub value_size: ValueSize,
    /// Share of sets among the requests; the others are gets.
    pub set_share: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Draws requests.
#[derive(Clone, Debug)]
pub struct Workload {
    config: WorkloadConfig,
    ranks: Ranks,
    rng: Rng,
    /// Keys still to be set in order, one request each.
    loading: std::ops::Range<u64>,
}

impl Workload {
    /// The error names the allowed values.
    pub fn new(config: WorkloadConfig) -> Result<Workload, String> {
        let ranks = Ranks::new(config.popularity, config.keys, config.seed)?;
        if !(0.0..=1.0).contains(&config.set_share) {
            return Err("a share of sets from 0 to 1".into());
        }
        Ok(Workload { config, ranks, rng: Rng::stream(config.seed, "kv requests"), loading: 0..0 })
    }

    /// Sets each of these keys once, in order, before any other request.
    #[must_use]
    pub fn loading(mut self, keys: std::ops::Range<u64>) -> Workload {
        self.loading = keys;
        self
    }

    /// Number of keys.
    pub fn keys(&self) -> u64 {
        self.ranks.keys()
    }

    /// Sets the share of sets from now on.
    pub fn set_share(&mut self, share: f64) {
        self.config.set_share = share;
    }

    /// Sizes of key `number` and its value, in bytes.
    pub fn sizes(&self, number: u64) -> (u16, u32) {
        let mut rng = Rng::new(self.config.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Not 0, where the law of keys is undefined.
        let u = |rng: &mut Rng| rng.unit_f64().max(f64::EPSILON);
        (self.config.key_size.at(u(&mut rng)), self.config.value_size.at(u(&mut rng)))
    }

    /// Mean size of a key and its value together, over the first `keys` keys.
    pub fn mean_bytes(&self, keys: u64) -> f64 {
        let sum: u64 = (0..keys).map(|key| self.sizes(key)).map(|(k, v)| u64::from(k) + u64::from(v)).sum();
        sum as f64 / keys as f64
    }

    fn request(&self, number: u64, operation: Operation, record: &mut KvRecord) {
        let (key_bytes, value_bytes) = self.sizes(number);
        record.operation = operation;
        record.value_bytes = value_bytes;
        record.ttl_s = 0;
        record.key.clear();
        record.key.extend((0..KeySize::MIN).map(|digit| DIGITS[(number >> (5 * digit) & 31) as usize]));
        record.key.resize(usize::from(key_bytes), b'-');
    }
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

impl Requests for Workload {
    fn next_into(&mut self, record: &mut KvRecord) -> Result<u64, TraceError> {
        if let Some(number) = self.loading.next() {
            self.request(number, Operation::Set, record);
            return Ok(1);
        }
        let operation = if self.rng.chance(self.config.set_share) { Operation::Set } else { Operation::Get };
        let number = self.ranks.draw(&mut self.rng);
        self.request(number, operation, record);
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const CONFIG: WorkloadConfig = WorkloadConfig {
        keys: 1000,
        popularity: Popularity::Uniform,
        key_size: KeySize::Etc,
        value_size: ValueSize::EtcTail { max: 4096 },
        set_share: 0.25,
        seed: 7,
    };

    fn take(workload: &mut Workload, count: usize) -> Vec<KvRecord> {
        let mut record = KvRecord::default();
        (0..count)
            .map(|_| {
                assert_eq!(workload.next_into(&mut record).unwrap(), 1);
                record.clone()
            })
            .collect()
    }

    #[test]
    fn keys_differ_and_keep_their_sizes() {
        let mut workload = Workload::new(CONFIG).unwrap();
        let mut sizes = BTreeMap::new();
        let records = take(&mut workload, 20_000);
        for record in &records {
            let size = sizes.entry(record.key.clone()).or_insert(record.value_bytes);
            assert_eq!(*size, record.value_bytes);
        }
        assert_eq!(sizes.len(), 1000);
        let sets = records.iter().filter(|record| record.operation == Operation::Set).count();
        // Four standard errors: 4 sqrt(0.25 * 0.75 * 20,000) = 245.
        assert!(sets.abs_diff(5000) < 245, "{sets}");
        assert_eq!(take(&mut Workload::new(CONFIG).unwrap(), 20_000), records);
        let other = Workload::new(WorkloadConfig { seed: 8, ..CONFIG });
        assert_ne!(take(&mut other.unwrap(), 100), records[..100]);
    }

    #[test]
    fn loading_sets_each_key_first() {
        let mut workload = Workload::new(CONFIG).unwrap().loading(0..1000);
        let records = take(&mut workload, 1000);
        assert!(records.iter().all(|record| record.operation == Operation::Set));
        let keys: std::collections::BTreeSet<_> = records.iter().map(|record| &record.key).collect();
        assert_eq!(keys.len(), 1000);
    }

    /// Table I of the Prism-SSD paper: 140 million items of about 50 GB, 357 bytes each.
    #[test]
    fn an_item_is_as_long_as_in_the_paper() {
        let sizes = ValueSize::EtcTail { max: 1 << 20 };
        let workload = Workload::new(WorkloadConfig { value_size: sizes, keys: 1 << 20, ..CONFIG }).unwrap();
        let mean = workload.mean_bytes(1 << 20);
        // The law's mean: 36.3 of the key, 329.1 less half a byte of the value.
        assert!((360.0..370.0).contains(&mean), "{mean}");
    }

    #[test]
    fn shares_and_keys_are_checked() {
        assert!(Workload::new(WorkloadConfig { set_share: 1.5, ..CONFIG }).is_err());
        assert!(Workload::new(WorkloadConfig { keys: 0, ..CONFIG }).is_err());
    }
}
