//! Axes: range, scale, ticks, and values as text.

use pellucid_text::format;

/// Unit of an axis, which determines the position and format of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number: `1.25`.
    Plain,
    /// A count: `1.50 k`.
    Count,
    /// Nanoseconds: `250 us`.
    Nanos,
    /// Seconds of the run: `1 h 30 m`.
    Seconds,
    /// Bytes: `4.00 MB`.
    Bytes,
    /// Bytes in powers of 1024, for request and page sizes: `4.00 KiB`.
    BinaryBytes,
    /// Bytes per second: `4.00 MB/s`.
    BytesPerSecond,
    /// A fraction of 1, shown as percent: `0.25` is `25 %`.
    Percent,
}

impl Unit {
    /// Returns the unit's name in the model of a figure.
    pub(super) fn key(self) -> &'static str {
        match self {
            Unit::Plain => "plain",
            Unit::Count => "count",
            Unit::Nanos => "ns",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::BinaryBytes => "binary_bytes",
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::Percent => "share",
        }
    }

    /// Formats a value with three significant digits.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Plain => format::significant(value),
            Unit::Count => format::quantity(value),
            Unit::Nanos => format::duration(value),
            Unit::Seconds => format::span(value),
            Unit::Bytes => format::bytes(value),
            Unit::BinaryBytes => format::binary_bytes(value),
            Unit::BytesPerSecond => format!("{}/s", format::bytes(value)),
            Unit::Percent => {
                let shown = format::significant(value * 100.0);
                match shown.contains('.') && value.abs() < 0.1 {
                    true => format!("{} %", shown.trim_end_matches('0').trim_end_matches('.')),
                    false => format!("{shown} %"),
                }
            }
        }
    }

    /// Formats a round value: like [`show`](Unit::show) without trailing zeros.
    fn tick(self, value: f64) -> String {
        let shown = match self {
            Unit::Plain => return shortest(value),
            Unit::Percent => return format!("{} %", shortest(value * 100.0)),
            _ if value == 0.0 => return "0".into(),
            Unit::Seconds => self.show(value).replace(" 00 s", "").replace(" 00 m", ""),
            _ => self.show(value),
        };
        let (number, unit) = shown.split_once(' ').unwrap_or((&shown, ""));
        if !number.contains('.') {
            return shown;
        }
        format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.')).trim_end().into()
    }
}

/// Formats a round number without the noise of binary fractions.
fn shortest(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) log: bool,
    pub(super) doubling: bool,
    pub(super) from: Option<f64>,
    pub(super) to: Option<f64>,
}

impl Axis {
    /// Makes an axis with even steps.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, log: false, doubling: false, from: None, to: None }
    }

    /// Makes an axis with a step per power of ten.
    pub fn log(label: &str, unit: Unit) -> Axis {
        Axis { log: true, ..Axis::linear(label, unit) }
    }

    /// Makes a logarithmic axis whose ticks double, for queue depths and request sizes.
    pub fn doubling(label: &str, unit: Unit) -> Axis {
        Axis { doubling: true, ..Axis::log(label, unit) }
    }

    /// Begins the axis here instead of at the smallest value.
    pub fn from(mut self, value: f64) -> Axis {
        self.from = Some(value);
        self
    }

    /// Ends the axis here instead of at the largest value.
    pub fn to(mut self, value: f64) -> Axis {
        self.to = Some(value);
        self
    }

    /// Returns the scale for these values, rounded outwards to ticks where the axis has no fixed end.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let usable = values.filter(|v| v.is_finite() && (!self.log || *v > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        match (self.log, self.doubling) {
            (_, true) => self.doubling_scale(low, high),
            (true, _) => self.log_scale(low, high),
            _ => self.linear_scale(low, high),
        }
    }

    fn linear_scale(&self, low: f64, high: f64) -> Scale {
        let low = self.from.unwrap_or(low);
        let high = self.to.unwrap_or(high);
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = step_for(self.unit, (high - low) / 5.0);
        let low = self.from.unwrap_or((low / step + 1e-9).floor() * step);
        // Time ends where the run ends; other axes end on a tick.
        let whole = self.unit != Unit::Seconds && self.to.is_none();
        let high = if whole { ((high - low) / step - 1e-9).ceil() * step + low } else { high };
        let count = ((high - low) / step + 1e-6).floor() as usize;
        let ticks = (0..=count).map(|i| low + i as f64 * step);
        let ticks = ticks.map(|value| (value, Some(self.unit.tick(value)))).collect();
        Scale { low, high, log: false, ticks }
    }

    fn doubling_scale(&self, low: f64, high: f64) -> Scale {
        let low = self.from.unwrap_or_else(|| (low.log2() + 1e-9).floor().exp2());
        let high = self.to.unwrap_or_else(|| (high.log2() - 1e-9).ceil().exp2()).max(low * 2.0);
        let exponents = low.log2().ceil() as i32..=high.log2().floor() as i32;
        // At most twelve labels fit.
        let every = (exponents.end() - exponents.start()) / 12 + 1;
        let ticks = exponents.enumerate().map(|(i, exponent)| {
            let value = f64::from(exponent).exp2();
            (value, (i as i32 % every == 0).then(|| self.unit.tick(value)))
        });
        Scale { low, high, log: true, ticks: ticks.collect() }
    }

    fn log_scale(&self, low: f64, high: f64) -> Scale {
        let low = self.from.unwrap_or_else(|| round_125(low, f64::floor));
        let high = self.to.unwrap_or_else(|| round_125(high, f64::ceil));
        let high = if high > low { high } else { low * 10.0 };
        let decades = (high / low).log10();
        let mut ticks = Vec::new();
        for exponent in low.log10().floor() as i32..=high.log10().ceil() as i32 {
            for digit in 1..10 {
                let value = f64::from(digit) * 10f64.powi(exponent);
                if value < low * 0.9999 || value > high * 1.0001 {
                    continue;
                }
                let named = digit == 1 || (decades < 3.0 && (digit == 2 || digit == 5));
                ticks.push((value, named.then(|| self.unit.tick(value))));
            }
        }
        Scale { low, high, log: true, ticks }
    }
}

/// Returns the next of 1, 2, 5, 10, ... in the direction of `round`.
fn round_125(value: f64, round: fn(f64) -> f64) -> f64 {
    let power = 10f64.powf((value * (1.0 + 1e-12)).log10().floor());
    let digit = value / power;
    let up = round(0.5) > 0.0;
    let candidates = [1.0, 2.0, 5.0, 10.0];
    let chosen = if up {
        candidates.iter().find(|c| **c >= digit - 1e-9)
    } else {
        candidates.iter().rev().find(|c| **c <= digit + 1e-9)
    };
    power * chosen.copied().unwrap_or(1.0)
}

/// Returns a round step of at least `least`: 1, 2 or 5 times a power of ten; for long times, a step of clocks.
fn step_for(unit: Unit, least: f64) -> f64 {
    const CLOCK: [f64; 12] =
        [15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0];
    if unit == Unit::Seconds
        && least > 10.0
        && let Some(step) = CLOCK.into_iter().find(|step| *step >= least)
    {
        return step;
    }
    if unit == Unit::Count && least < 1.0 {
        return 1.0;
    }
    round_125(least, f64::ceil)
}

/// An axis with its range fixed and its ticks placed.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    log: bool,
    /// Positions of ticks; only those with text are labelled.
    pub(super) ticks: Vec<(f64, Option<String>)>,
}

impl Scale {
    /// Returns the position of a value between the ends: 0 to 1, clamped to the nearer end; `None` for a gap.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(share.clamp(0.0, 1.0))
    }
}
