//! Where the time of a request goes.
//!
//! A slice is in exactly one stage at any moment; when it moves on, the time since its last move is added to the stage it
//! leaves. So the stages of a request sum to its latency, to the nanosecond.

use crate::Nanos;

/// A stage of a request's way through the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// In a submission queue, not fetched yet.
    Queue = 0,
    /// Waiting for and crossing the host link (DMA).
    HostLink = 1,
    /// Waiting for and running on the firmware processor.
    Firmware = 2,
    /// Waiting for an older request to the same unit, for a superpage to fill, or for a data-buffer entry while no program frees one. While
    /// programs free entries, the wait for one has the stages of these programs.
    Buffer = 3,
    /// Operation made, waiting for its die (way) to be free.
    WaitWay = 4,
    /// Die free or data ready, waiting for the channel.
    WaitChannel = 5,
    /// The array works: sense, program, erase.
    Media = 6,
    /// Command and data crossing the channel, and decoding.
    Transfer = 7,
    /// Everything from the first failed read to the last retry.
    Retry = 8,
    /// Above the line, in a layer of the host: its processor, its write buffer.
    Host = 9,
}

impl Stage {
    /// How many stages there are.
    pub const COUNT: usize = 10;
    /// All stages in order.
    pub const ALL: [Stage; Stage::COUNT] = [
        Stage::Queue,
        Stage::HostLink,
        Stage::Firmware,
        Stage::Buffer,
        Stage::WaitWay,
        Stage::WaitChannel,
        Stage::Media,
        Stage::Transfer,
        Stage::Retry,
        Stage::Host,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Queue => "queue",
            Stage::HostLink => "link",
            Stage::Firmware => "firmware",
            Stage::Buffer => "buffer",
            Stage::WaitWay => "wait for way",
            Stage::WaitChannel => "wait for channel",
            Stage::Media => "media",
            Stage::Transfer => "transfer",
            Stage::Retry => "retry",
            Stage::Host => "host layer",
        }
    }
}

/// Nanoseconds spent in each [`Stage`]; and how many of them, in whatever stages, the request waited for space in a data buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes(pub [u64; Stage::COUNT], u64);

impl StageTimes {
    /// No time anywhere.
    pub const ZERO: StageTimes = StageTimes([0; Stage::COUNT], 0);

    /// Adds `time` to `stage`.
    #[inline]
    pub fn add(&mut self, stage: Stage, time: Nanos) {
        self.0[stage as usize] += time.0;
    }

    /// Adds the times of `other`, stage by stage.
    #[inline]
    pub fn add_all(&mut self, other: &StageTimes) {
        add_each(&mut self.0, &other.0);
        self.1 += other.1;
    }

    /// Says that `time`, which is in some stages already or will be, was a wait for space in a data buffer.
    #[inline]
    pub fn stall(&mut self, time: Nanos) {
        self.1 += time.0;
    }

    /// How long of these times the request waited for space in a data buffer.
    #[inline]
    pub fn stalled(&self) -> Nanos {
        Nanos(self.1)
    }

    /// Time spent in `stage`.
    #[inline]
    pub fn get(&self, stage: Stage) -> Nanos {
        Nanos(self.0[stage as usize])
    }

    /// Returns these times for a command that took `total`; the remainder counts as `rest`. The last part of a command may have been
    /// started for an earlier command; then only the total is known.
    #[inline]
    pub fn summing_to(self, total: Nanos, rest: Stage) -> StageTimes {
        let mut stages = if self.total() > total { StageTimes::ZERO } else { self };
        stages.add(rest, Nanos(total.0 - stages.total().0));
        stages
    }

    /// The sum over all stages.
    #[inline]
    pub fn total(&self) -> Nanos {
        let [a, b, c, d, e, f, g, h, i, j] = self.0;
        Nanos(a + b + c + d + e + f + g + h + i + j)
    }
}

/// Adds `more` to `sums`, stage by stage. Written out: a loop over so few takes longer than its sums. All at once: the sums are mostly copied
/// as a whole right after, and a copy waits for single stores that it covers several of.
#[inline]
pub fn add_each(sums: &mut [u64; Stage::COUNT], more: &[u64; Stage::COUNT]) {
    let ([a, b, c, d, e, f, g, h, i, j], with) = (*sums, more);
    *sums = [
        a + with[0],
        b + with[1],
        c + with[2],
        d + with[3],
        e + with[4],
        f + with[5],
        g + with[6],
        h + with[7],
        i + with[8],
        j + with[9],
    ];
}
