//! Simulated time: nanoseconds since the drive was switched on.
//!
//! Nothing below `serve` and `lab` reads a clock; `now` is always an argument of type [`SimTime`].

use pellucid_setting::{Item, Kind, Setting, TIME, Typed};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A length of simulated time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Setting for Nanos {
    const KIND: Kind = TIME;

    fn take(typed: &Typed) -> Self {
        Nanos(u64::take(typed))
    }
}

impl Item for Nanos {
    const LIST: Kind = Kind::Times;

    fn take_list(typed: &Typed) -> Vec<Nanos> {
        match typed {
            Typed::Times(times) => times.iter().copied().map(Nanos).collect(),
            other => panic!("a key makes a list of durations of {other:?}"),
        }
    }
}

impl Nanos {
    /// No time at all. A stage with this cost schedules no event.
    pub const ZERO: Nanos = Nanos(0);

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// `factor` times as long, rounded down.
    #[inline]
    pub fn scaled(self, factor: f64) -> Nanos {
        Nanos((self.0 as f64 * factor) as u64)
    }

    /// Converts to seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Converts to microseconds, for reports.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl Add for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

/// A point of simulated time, in nanoseconds since the drive was switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub u64);

impl SimTime {
    /// The moment the drive was switched on.
    pub const ZERO: SimTime = SimTime(0);
    /// Later than every event; "never".
    pub const MAX: SimTime = SimTime(u64::MAX);

    /// Time passed since `earlier`; zero when `earlier` is later.
    #[inline]
    pub fn since(self, earlier: SimTime) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This point in seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Nanos> for SimTime {
    type Output = SimTime;
    #[inline]
    fn add(self, length: Nanos) -> SimTime {
        SimTime(self.0 + length.0)
    }
}

impl AddAssign<Nanos> for SimTime {
    #[inline]
    fn add_assign(&mut self, length: Nanos) {
        self.0 += length.0;
    }
}

impl Sub for SimTime {
    type Output = Nanos;
    /// Panics in debug builds when `earlier` is later: an event before its cause is a broken invariant.
    #[inline]
    fn sub(self, earlier: SimTime) -> Nanos {
        Nanos(self.0 - earlier.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", ns / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} ms", ns / 1e6),
            _ => write!(f, "{:.2} s", ns / 1e9),
        }
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Nanos(self.0).fmt(f)
    }
}
