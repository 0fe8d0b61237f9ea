//! Watermarks: the number of slabs that are kept free.
//!
//! With a fixed share, or a drive that has its own spare space, the marks are constant. Dynamic over-provisioning follows the rate at which clients
//! store, in slabs, as DIDACache does: every channel is a server of an M/D/1 queue (reconstructed from the paper's text).
//!
//! ```text
//!   rho = rate * service / servers        L_q = rho^2 / (2 (1 - rho))        low = servers * (L_q + rho)        high = low + burst
//! ```
//! `service` is the time that one server needs to write a slab and to erase its blocks. `low` is the number of slabs that arrive while one
//! is served, so that many must be ready; the burst is one slab per server.

use crate::engine::Shape;
use crate::{KvConfig, OverProvisioning};
use pellucid_flash::SimTime;

/// Minimum number of free slabs: one being written, and one for rewritten items.
const LEAST: u32 = 2;
/// Slabs between two updates of the rate.
const PERIOD: u32 = 16;
/// Load limit; the queue diverges at 1.
const LOAD_MAX: f64 = 0.95;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermarks {
    dynamic: bool,
    low: u32,
    burst: u32,
    most: u32,
    servers: f64,
    service_s: f64,
    since: SimTime,
    written: u32,
    set_bytes: u64,
    slab_bytes: f64,
    /// Slabs that clients fill per second.
    rate: f64,
}

impl Watermarks {
    pub fn new(config: &KvConfig, shape: &Shape) -> Watermarks {
        // Leaves enough slabs to cache in.
        let most = (shape.slabs / 2).max(1);
        // Spare space below the engine is not a free slab: as many slabs are kept free as are written at a time.
        let low = match config.over_provisioning {
            OverProvisioning::Fixed(share) if config.engine.owns_blocks() => {
                (f64::from(shape.slabs) * share) as u32
            }
            OverProvisioning::Fixed(_) => shape.servers.min(shape.slabs / 8),
            OverProvisioning::Dynamic => 0,
        };
        Watermarks {
            dynamic: config.over_provisioning == OverProvisioning::Dynamic,
            low: low.clamp(LEAST.min(most), (shape.slabs - 2).max(1)),
            burst: shape.servers.min(shape.slabs / 8).max(1),
            most,
            servers: f64::from(shape.servers),
            service_s: shape.service_s,
            since: SimTime::ZERO,
            written: 0,
            set_bytes: 0,
            slab_bytes: f64::from(shape.slab_bytes),
            rate: 0.0,
        }
    }

    /// Low and high watermark.
    pub fn marks(&self) -> [u32; 2] {
        [self.low, self.low + self.burst]
    }

    /// Notes a written slab; `set_bytes`: bytes stored by clients so far.
    pub fn written(&mut self, now: SimTime, set_bytes: u64) {
        self.written += 1;
        if !self.dynamic || self.written < PERIOD {
            return;
        }
        let passed = now.since(self.since).as_secs_f64().max(1e-9);
        let rate = (set_bytes - self.set_bytes) as f64 / self.slab_bytes / passed;
        self.rate = if self.rate == 0.0 { rate } else { 0.75 * self.rate + 0.25 * rate };
        (self.since, self.written, self.set_bytes) = (now, 0, set_bytes);
        let needed = self.servers * queued_and_served(self.rate * self.service_s / self.servers);
        self.low = (needed.ceil() as u32).clamp(LEAST.min(self.most), self.most);
    }
}

/// Mean number in an M/D/1 queue at this load, including the one in service.
fn queued_and_served(load: f64) -> f64 {
    let load = load.min(LOAD_MAX);
    load * load / (2.0 * (1.0 - load)) + load
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKind;

    #[test]
    fn the_queue_has_the_lengths_of_the_textbook() {
        for (load, length) in [(0.0, 0.0), (0.5, 0.75), (0.8, 2.4), (0.9, 4.95)] {
            assert!((queued_and_served(load) - length).abs() < 1e-9, "{load}");
        }
    }

    #[test]
    fn the_low_watermark_follows_the_rate_of_writes() {
        let shape = Shape {
            slab_bytes: 1 << 20,
            sector_bytes: 4096,
            slabs: 1000,
            places_each: 1,
            servers: 8,
            service_s: 0.010,
        };
        let mut marks = Watermarks::new(&KvConfig::new(EngineKind::Raw), &shape);
        let (mut now, mut set_bytes) = (0, 0);
        let mut low_at = |slabs_per_s: u64| {
            for _ in 0..PERIOD * 40 {
                now += 1_000_000_000 / slabs_per_s;
                set_bytes += 1 << 20;
                marks.written(SimTime(now), set_bytes);
            }
            marks.marks()[0]
        };
        // Loads of 1/80, 1/2 and 9/10.
        assert_eq!([low_at(10), low_at(400), low_at(720), low_at(10)], [2, 6, 40, 2]);
    }
}
