//! Figures: named counters with units, printed by code that does not know what they mean.
//!
//! A layer names its counters; reports, the monitor and the server print names, units and values. So a new layer requires no
//! change in these three.

use crate::Cause;

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things; the name says which.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
}

/// How a figure changes over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Value that only grows; two readings make a rate.
    Counter,
    /// Value that goes up and down.
    Gauge,
}

/// One figure at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name, in `snake_case` and with its unit at the end where that is not `Count`: `written_bytes`.
    pub name: &'static str,
    /// Meaning, in a sentence.
    pub help: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How it changes.
    pub kind: FigureKind,
    /// Where there is one figure for each cause: whose this is.
    pub cause: Option<Cause>,
    /// The value.
    pub value: u64,
}

impl Figure {
    /// A counter of things.
    pub fn count(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, unit: Unit::Count, kind: FigureKind::Counter, cause: None, value }
    }

    /// A counter of bytes.
    pub fn bytes(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { unit: Unit::Bytes, ..Figure::count(name, help, value) }
    }

    /// A counter of nanoseconds.
    pub fn nanos(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { unit: Unit::Nanos, ..Figure::count(name, help, value) }
    }

    /// Turns the figure into a gauge.
    pub fn gauge(self) -> Figure {
        Figure { kind: FigureKind::Gauge, ..self }
    }

    /// Restricts the figure to one cause.
    pub fn of(self, cause: Cause) -> Figure {
        Figure { cause: Some(cause), ..self }
    }
}
