//! The database behind a cache: the cost of a miss.
//!
//! A queue in front of several servers: queries are served in order, each by the server that is free first. A query takes a fixed and an
//! exponentially distributed time.
//!
//! It stands for the `MySQL` database of the Prism-SSD paper, which gives no figure for it, so the constants are assumptions. A claim that depends on
//! them states how much.

use pellucid_flash::{Nanos, Rng, SimTime};
use pellucid_workload::kv::DatabaseConfig;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A database at work.
#[derive(Clone, Debug)]
pub struct Database {
    config: DatabaseConfig,
    /// When each server is free.
    free: BinaryHeap<Reverse<SimTime>>,
    rng: Rng,
}

impl Database {
    /// Makes an idle database.
    pub fn new(config: DatabaseConfig, seed: u64) -> Database {
        let free = (0..config.servers.max(1)).map(|_| Reverse(SimTime::ZERO)).collect();
        Database { config, free, rng: Rng::stream(seed, "kv database") }
    }

    /// Submits a query at `now`, not before the last one; returns when it is answered.
    pub fn query(&mut self, now: SimTime) -> SimTime {
        let Reverse(free) = self.free.pop().unwrap_or(Reverse(now));
        let variable = -(1.0 - self.rng.unit_f64()).ln() * self.config.variable.0 as f64;
        let end = free.max(now) + self.config.fixed + Nanos(variable as u64);
        self.free.push(Reverse(end));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M/M/1 at 80 % load: the mean time in the system is service / (1 - load), 5 services.
    #[test]
    fn one_server_is_an_exponential_queue() {
        let service = 1000.0;
        let config = DatabaseConfig { servers: 1, fixed: Nanos::ZERO, variable: Nanos(service as u64) };
        let mut database = Database::new(config, 1);
        let mut rng = Rng::new(2);
        let (mut now, mut waited) = (0.0, 0.0);
        let queries = 400_000;
        for _ in 0..queries {
            now -= (1.0 - rng.unit_f64()).ln() * service / 0.8;
            let at = SimTime(now as u64);
            waited += (database.query(at).0 - at.0) as f64;
        }
        let mean = waited / f64::from(queries) / service;
        assert!((4.6..5.4).contains(&mean), "{mean}");
    }

    #[test]
    fn servers_work_side_by_side() {
        let config = DatabaseConfig { servers: 3, fixed: Nanos(100), variable: Nanos::ZERO };
        let mut database = Database::new(config, 1);
        let ends: Vec<u64> = (0..7).map(|_| database.query(SimTime(10)).0).collect();
        assert_eq!(ends, [110, 110, 110, 210, 210, 210, 310]);
    }
}
