//! Probe of an unknown block drive: throughput over request sizes and alignments, and the boundary that
//! follows from it.
//!
//! Every request writes back data read from the same address, so the probe changes nothing. Addresses are random. Each size is
//! measured aligned and shifted by half of its size. The two alternate several times, because the drive's GC, or other programs
//! on the machine, may slow some measurements.
//!
//! ```text
//!   size of an erase unit or a multiple: aligned, whole units are replaced
//!     shifted by half a unit, each request leaves two units in part, which the drive has to complete: at most about half as fast
//!     shifted by a multiple of a unit: as fast
//!   so the boundary is the largest size at which the shift costs much, every time
//! ```
//! A drive without a boundary (a page map) shows no such size; the probe then chooses the smallest size that
//! is nearly as fast as the fastest.

use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status};

/// Configuration of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeConfig {
    /// Block namespace.
    pub namespace: u16,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Smallest size in bytes; a multiple of two sectors.
    pub smallest: u64,
    /// Largest size in bytes; the smallest one, doubled several times.
    pub largest: u64,
    /// Time for all measurements of each size and alignment. Half as much precedes them, so that they begin
    /// in a steady state.
    pub patience: Nanos,
    /// Seed of the random places.
    pub seed: u64,
}

impl Default for ProbeConfig {
    fn default() -> ProbeConfig {
        ProbeConfig {
            namespace: 0,
            sector_bytes: 512,
            smallest: 4 << 10,
            largest: 16 << 20,
            patience: Nanos(4_000_000_000),
            seed: 1,
        }
    }
}

/// Throughput at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbePoint {
    /// Bytes in a request.
    pub bytes: u64,
    /// Bytes per second of aligned requests.
    pub aligned: f64,
    /// Bytes per second of requests shifted by half the size.
    pub shifted: f64,
    /// Shifted requests were much slower in every round.
    pub cuts: bool,
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Throughput by size.
    pub points: Vec<ProbePoint>,
    /// Boundary in bytes that looks like that of erase units, if there is one.
    pub boundary: Option<u64>,
    /// Bytes of the best cluster for the drive.
    pub cluster: u64,
}

/// Reason that a drive cannot be probed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The namespace is not a block namespace.
    #[error("namespace {0} is no block namespace; allowed: one with interface = \"block\"")]
    NotBlock(u16),
    /// The drive is too small.
    #[error("{bytes} bytes: too small to be probed; allowed: at least {least} bytes")]
    Small {
        /// Bytes of the drive.
        bytes: u64,
        /// Minimum bytes.
        least: u64,
    },
    /// A command failed.
    #[error("{opcode:?} of {bytes} bytes at byte {at} ended with {}; only data that had been read there were written", .status.name())]
    Failed {
        /// Failed command.
        opcode: Opcode,
        /// First byte.
        at: u64,
        /// Bytes of the command.
        bytes: u64,
        /// Status of the command.
        status: Status,
    },
    /// The drive does not answer.
    #[error("the drive does not answer")]
    Silent,
}

/// Maximum ratio of shifted to aligned throughput at which shifted requests count as cutting an erase unit.
const CUTS: f64 = 0.75;
/// Minimum ratio to the fastest size at which a size counts as nearly as fast.
const NEARLY: f64 = 0.9;
/// Number of measurements of a size, aligned and shifted in turn.
const ROUNDS: u32 = 4;
/// Minimum number of requests in a measurement.
const REQUESTS_MIN: u32 = 2;
/// Maximum bytes from the start of the drive that are used.
const SPAN_BYTES: u64 = 1 << 30;

/// Probes a drive. `wait` lets time pass as in [`Stack::call_by`](crate::Stack::call_by); `tell` receives
/// each point.
///
/// # Errors
/// The error is the reason that the drive cannot be probed.
pub fn probe<D: Drive>(
    drive: &mut D,
    config: &ProbeConfig,
    now: SimTime,
    wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    mut tell: impl FnMut(ProbePoint),
) -> Result<Probe, ProbeError> {
    let Some(Interface::Block { sectors, .. }) = drive.interface(config.namespace) else {
        return Err(ProbeError::NotBlock(config.namespace));
    };
    let (bytes, least) = (sectors * u64::from(config.sector_bytes), 4 * config.largest);
    if bytes < least {
        return Err(ProbeError::Small { bytes, least });
    }
    let images = drive.image_bytes();
    let span = bytes.min(SPAN_BYTES);
    let rng = Rng::stream(config.seed, "probe");
    let mut prober = Prober { drive, config, wait, now, span, images, rng, data: Vec::new() };
    let mut points = Vec::new();
    let mut size = config.smallest;
    while size <= config.largest {
        let point = prober.point(size)?;
        tell(point);
        points.push(point);
        size *= 2;
    }
    Ok(judge(points))
}

/// Derives boundary and cluster from the points.
fn judge(points: Vec<ProbePoint>) -> Probe {
    let boundary = points.iter().rfind(|point| point.cuts).map(|point| point.bytes);
    let most = points.iter().map(|point| point.aligned).fold(0.0, f64::max);
    let fast =
        points.iter().find(|point| point.aligned >= NEARLY * most).map_or(1 << 20, |point| point.bytes);
    Probe { cluster: boundary.map_or(fast, |boundary| boundary.max(fast.min(1 << 20))), points, boundary }
}

struct Prober<'a, D, W> {
    drive: &'a mut D,
    config: &'a ProbeConfig,
    wait: W,
    now: SimTime,
    span: u64,
    images: usize,
    rng: Rng,
    data: Vec<u8>,
}

impl<D: Drive, W: FnMut(&mut D, Option<SimTime>) -> Option<SimTime>> Prober<'_, D, W> {
    /// Measures the throughput of a size, over all rounds.
    fn point(&mut self, size: u64) -> Result<ProbePoint, ProbeError> {
        let (mut aligned, mut shifted, mut cuts) = (Nanos::ZERO, Nanos::ZERO, true);
        for _ in 0..ROUNDS {
            let (a, b) = (self.cost(size, 0)?, self.cost(size, size / 2)?);
            cuts &= (a.0 as f64) < CUTS * b.0 as f64;
            aligned += a;
            shifted += b;
        }
        let rate = |cost: Nanos| f64::from(ROUNDS) * size as f64 * 1e9 / cost.0.max(1) as f64;
        Ok(ProbePoint { bytes: size, aligned: rate(aligned), shifted: rate(shifted), cuts })
    }

    /// Measures once the time of a request of a size, at multiples of the size shifted by `shift`.
    fn cost(&mut self, size: u64, shift: u64) -> Result<Nanos, ProbeError> {
        let patience = self.config.patience.0 / u64::from(ROUNDS);
        self.writes(size, shift, Nanos(patience / 2))?;
        let (requests, busy) = self.writes(size, shift, Nanos(patience))?;
        Ok(Nanos(busy.0 / u64::from(requests)))
    }

    /// Writes until the time `patience` is used up; returns the number of writes and their total time. Each
    /// write is preceded by a read of the same data, which does not count.
    fn writes(&mut self, size: u64, shift: u64, patience: Nanos) -> Result<(u32, Nanos), ProbeError> {
        let slots = (self.span - shift) / size;
        let (mut requests, mut busy) = (0, Nanos::ZERO);
        while requests < REQUESTS_MIN || busy < patience {
            let at = self.rng.below(slots) * size + shift;
            self.call(Opcode::Read, at, size)?;
            let before = self.now;
            self.call(Opcode::Write, at, size)?;
            busy += self.now - before;
            requests += 1;
        }
        let before = self.now;
        self.call(Opcode::Flush, 0, 0)?;
        busy += self.now - before;
        Ok((requests, busy))
    }

    fn call(&mut self, opcode: Opcode, at: u64, bytes: u64) -> Result<(), ProbeError> {
        let sector = u64::from(self.config.sector_bytes);
        let sectors = (bytes / sector) as u32;
        let mut data = Vec::new();
        if opcode != Opcode::Flush {
            data = std::mem::take(&mut self.data);
            data.resize(sectors as usize * self.images, 0);
        }
        let command = Command {
            namespace: self.config.namespace,
            ..Command::new(0, opcode, Lba(at / sector), sectors, data)
        };
        self.drive.submit(self.now, command);
        let ended: Completion = loop {
            if let Some(ended) = self.drive.pop() {
                break ended;
            }
            let next = self.drive.next_event();
            self.now = (self.wait)(self.drive, next).ok_or(ProbeError::Silent)?;
            self.drive.advance(self.now);
        };
        self.now = self.now.max(ended.completed);
        if ended.status != Status::Success {
            return Err(ProbeError::Failed { opcode, at, bytes, status: ended.status });
        }
        if opcode != Opcode::Flush {
            self.data = ended.data;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rates: &[(f64, f64, bool)]) -> Vec<ProbePoint> {
        let size = |at: usize| 4096 << at;
        let point = |(at, &(aligned, shifted, cuts)): (usize, &(f64, f64, bool))| ProbePoint {
            bytes: size(at),
            aligned,
            shifted,
            cuts,
        };
        rates.iter().enumerate().map(point).collect()
    }

    #[test]
    fn the_largest_size_that_a_shift_hurts_is_the_boundary() {
        let cut = [(1.0, 1.0, false), (2.0, 1.9, false), (4.0, 2.8, true), (8.0, 4.0, true)];
        let beyond = [(8.2, 5.1, false), (8.3, 8.3, false)];
        let found = judge(points(&[&cut[..], &beyond].concat()));
        assert_eq!((found.boundary, found.cluster), (Some(32 << 10), 32 << 10));
    }

    #[test]
    fn without_a_boundary_the_smallest_size_that_is_nearly_the_fastest_is_chosen() {
        let found =
            judge(points(&[(1.0, 1.0, false), (5.0, 5.0, false), (9.5, 9.4, false), (10.0, 10.0, false)]));
        assert_eq!((found.boundary, found.cluster), (None, 16 << 10));
    }
}
