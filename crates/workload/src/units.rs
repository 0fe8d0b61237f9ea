//! Sizes and times: our own grammar, shared by all commands ([`Quantity`]), and fio's, for its job files.
//!
//! In a job file, a size is a whole number, decimal or 0x-hexadecimal, with an optional prefix and an optional `b`. With `kb_base=1024`, fio's
//! default and kept for old scripts, `k`, `m`, `g`, `t`, `p` are powers of 1024 and `ki`, `mi`, ... powers of *1000*; with `kb_base=1000` it is the
//! other way round, as in IEC 80000-13. Case does not matter.

use pellucid_flash::Nanos;
use pellucid_text::Quantity;
use std::fmt;

/// Grammar of sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// Our own: `4k` and `4KiB` are the same, and times have a unit.
    Ours,
    /// fio's, for its job files.
    Fio {
        /// 1024 or 1000, see the module.
        kb_base: u64,
    },
}

/// Reason why a size or a time is refused. The text names the allowed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size.
    #[error("a whole number of bytes, with k, m, g, t or p (4096, 4k, 1m)")]
    Size,
    /// Not a size and not a percentage.
    #[error("a whole number of bytes, with k, m, g, t or p (1g), or 0% to 100%")]
    Amount,
    /// Not a time.
    #[error("a whole number with d, h, m, s, ms or us (30s, 10ms)")]
    Time,
    /// Not a size of our own grammar.
    #[error("a size such as 4096, 4k, 16KiB, 1.5GiB (1024-based), below 8EiB")]
    OurSize,
    /// Not a size of our own grammar, and not a percentage.
    #[error("a size such as 4k, 16KiB, 1.5GiB (1024-based), below 8EiB, or 0% to 100%")]
    OurAmount,
    /// Not a time of our own grammar.
    #[error("a time such as 75us, 3.8ms, 30s, 5m, at most 3650d; only 0 needs no unit")]
    OurTime,
    /// A time without a unit.
    #[error("a time with its unit, such as {0}{1}; only 0 needs none")]
    NoUnit(u64, &'static str),
    /// More than 64 bits hold.
    #[error("less than 2^64 bytes")]
    SizeTooLarge,
    /// More than 3650 days.
    #[error("at most 3650d")]
    TimeTooLong,
}

/// The longest time in a job: sums of a few never overflow the simulated clock.
const TIME_MAX: Nanos = Nanos::from_secs(3650 * 86_400);

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of bytes.
    Bytes(u64),
    /// 0 to 100 percent.
    Percent(u8),
}

impl Amount {
    /// In bytes, for a `whole` of this size; percentages are rounded down.
    pub fn of(self, whole_bytes: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => (u128::from(whole_bytes) * u128::from(percent) / 100) as u64,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Bytes(bytes) => write!(f, "{bytes}"),
            Amount::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Splits `text` into its leading number and the suffix in lower case. `None` without a number; `Err` when it
/// overflows.
fn split_number(text: &str) -> Option<(Result<u64, UnitError>, String)> {
    let text = text.trim();
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(rest) => (rest, 16),
        None => (text, 10),
    };
    // A hexadecimal number takes every digit it can, so that 0x1b is 27 and not 1 with a suffix.
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let number = u64::from_str_radix(&digits[..end], radix).map_err(|_| UnitError::SizeTooLarge);
    Some((number, digits[end..].trim().to_ascii_lowercase()))
}

/// Parses bytes: `4096`, `4k`, `16KiB`; in a job file also `4kb`, `0x1000`.
pub fn parse_bytes(text: &str, grammar: Grammar) -> Result<u64, UnitError> {
    let Grammar::Fio { kb_base } = grammar else {
        return Quantity::Size.read_text(text).ok_or(UnitError::OurSize);
    };
    let (number, suffix) = split_number(text).ok_or(UnitError::Size)?;
    let prefix = suffix.strip_suffix('b').unwrap_or(&suffix);
    let (letter, base) = match (prefix.strip_suffix('i'), kb_base) {
        (None, _) => (prefix, kb_base),
        (Some(letter), 1000) => (letter, 1024),
        (Some(letter), _) => (letter, 1000),
    };
    let power = match letter {
        "" if prefix.is_empty() => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(UnitError::Size),
    };
    let factor: u64 = std::iter::repeat_n(base, power).product();
    number?.checked_mul(factor).ok_or(UnitError::SizeTooLarge)
}

/// Parses bytes or a percentage: `1g`, `25%`.
pub fn parse_amount(text: &str, grammar: Grammar) -> Result<Amount, UnitError> {
    match text.trim().strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<u8>() {
            Ok(percent) if percent <= 100 => Ok(Amount::Percent(percent)),
            _ if grammar == Grammar::Ours => Err(UnitError::OurAmount),
            _ => Err(UnitError::Amount),
        },
        None => parse_bytes(text, grammar).map(Amount::Bytes).map_err(|e| match e {
            UnitError::Size => UnitError::Amount,
            UnitError::OurSize => UnitError::OurAmount,
            other => other,
        }),
    }
}

/// Parses a time: `30s`, `5m`, `10ms`, `200us`. In a job file, a number without unit counts in `default_unit`.
pub fn parse_time(text: &str, default_unit: Nanos, grammar: Grammar) -> Result<Nanos, UnitError> {
    if grammar == Grammar::Ours {
        return our_time(text, default_unit);
    }
    let (number, suffix) = split_number(text).ok_or(UnitError::Time)?;
    let unit = match suffix.as_str() {
        "" => default_unit,
        "d" => Nanos::from_secs(86_400),
        "h" => Nanos::from_secs(3_600),
        "m" => Nanos::from_secs(60),
        "s" | "sec" => Nanos::from_secs(1),
        "ms" | "msec" => Nanos::from_ms(1),
        "us" | "usec" => Nanos::from_us(1),
        _ => return Err(UnitError::Time),
    };
    let nanos = number.ok().and_then(|n| n.checked_mul(unit.0)).ok_or(UnitError::TimeTooLong)?;
    if nanos > TIME_MAX.0 { Err(UnitError::TimeTooLong) } else { Ok(Nanos(nanos)) }
}

/// Parses a time in our own grammar; `default_unit`: the unit that fio would assume for a plain number, most likely the intended one.
fn our_time(text: &str, default_unit: Nanos) -> Result<Nanos, UnitError> {
    if let Ok(number @ 1..) = text.trim().parse::<u64>() {
        let is_short = number.checked_mul(default_unit.0).is_some_and(|ns| ns <= TIME_MAX.0);
        return Err(match is_short {
            true => UnitError::NoUnit(number, if default_unit == Nanos::from_us(1) { "us" } else { "s" }),
            false => UnitError::OurTime,
        });
    }
    let ns = Quantity::Time.read_text(text).ok_or(UnitError::OurTime)?;
    if ns > TIME_MAX.0 { Err(UnitError::TimeTooLong) } else { Ok(Nanos(ns)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIO: Grammar = Grammar::Fio { kb_base: 1024 };

    /// All commands share one grammar: fio's own applies only to its files.
    #[test]
    fn our_own_grammar_is_that_of_descriptions() {
        let size = |text| parse_bytes(text, Grammar::Ours);
        for (text, bytes) in
            [("512KiB", 524_288), ("4k", 4096), ("1M", 1 << 20), ("1.5GiB", 3 << 29), ("7", 7)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["4ki", "4kb", "0x10", "16KB", "x", "-1"] {
            assert_eq!(size(text), Err(UnitError::OurSize), "{text}");
        }
        let time = |text| parse_time(text, Nanos::from_secs(1), Grammar::Ours);
        assert_eq!(time("1.5s"), Ok(Nanos::from_ms(1500)));
        assert_eq!(time("5m"), Ok(Nanos::from_secs(300)));
        assert_eq!(time("0"), Ok(Nanos::ZERO));
        assert_eq!(
            time("30").unwrap_err().to_string(),
            "a time with its unit, such as 30s; only 0 needs none"
        );
        assert_eq!(time("4000d"), Err(UnitError::TimeTooLong));
        // A suggestion must not be refused itself.
        assert_eq!(time("18446744073709551615"), Err(UnitError::OurTime));
        assert_eq!(parse_amount("25%", Grammar::Ours), Ok(Amount::Percent(25)));
        assert_eq!(parse_amount("1.5GiB", Grammar::Ours), Ok(Amount::Bytes(3 << 29)));
    }

    #[test]
    fn sizes_follow_fio_with_kb_base_1024() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4096b", 4096),
            ("4096B", 4096),
            ("4k", 4096),
            ("4kB", 4096),
            ("4 K", 4096),
            ("1m", 1 << 20),
            ("1Gb", 1 << 30),
            ("1t", 1 << 40),
            ("2p", 2 << 50),
            ("4ki", 4000),
            ("4KiB", 4000),
            ("1mib", 1_000_000),
            ("1ti", 1_000_000_000_000),
            ("0x1000", 4096),
            ("0x1b", 27),
            ("0x10k", 16384),
        ] {
            assert_eq!(parse_bytes(text, FIO), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_follow_the_standards_with_kb_base_1000() {
        for (text, bytes) in [("4k", 4000), ("4kib", 4096), ("1mi", 1 << 20), ("1MB", 1_000_000), ("7", 7)] {
            assert_eq!(parse_bytes(text, Grammar::Fio { kb_base: 1000 }), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "k", "4x", "4kk", "-4k", "4.5k", "4i", "4ib", "4bb", "0x", "1z", "4k%"] {
            assert_eq!(parse_bytes(text, FIO), Err(UnitError::Size), "{text}");
        }
        assert_eq!(parse_bytes("16384p", FIO), Err(UnitError::SizeTooLarge));
        assert_eq!(parse_bytes("99999999999999999999", FIO), Err(UnitError::SizeTooLarge));
    }

    #[test]
    fn amounts_are_bytes_or_percent() {
        assert_eq!(parse_amount("25%", FIO), Ok(Amount::Percent(25)));
        assert_eq!(parse_amount("1m", FIO), Ok(Amount::Bytes(1 << 20)));
        for text in ["101%", "-1%", "%", "1.5%", "x"] {
            assert_eq!(parse_amount(text, FIO), Err(UnitError::Amount), "{text}");
        }
        assert_eq!(Amount::Percent(33).of(1000), 330);
        assert_eq!(Amount::Percent(100).of(u64::MAX), u64::MAX);
        assert_eq!(Amount::Bytes(5).of(1), 5);
    }

    #[test]
    fn times_follow_fio() {
        let second = Nanos::from_secs(1);
        for (text, nanos) in [
            ("30", Nanos::from_secs(30)),
            ("30s", Nanos::from_secs(30)),
            ("2 sec", Nanos::from_secs(2)),
            ("5M", Nanos::from_secs(300)),
            ("1h", Nanos::from_secs(3600)),
            ("1d", Nanos::from_secs(86_400)),
            ("10ms", Nanos::from_ms(10)),
            ("10usec", Nanos::from_us(10)),
        ] {
            assert_eq!(parse_time(text, second, FIO), Ok(nanos), "{text}");
        }
        assert_eq!(parse_time("20", Nanos::from_us(1), FIO), Ok(Nanos::from_us(20)));
        for text in ["", "s", "1y", "1.5s", "-1"] {
            assert_eq!(parse_time(text, second, FIO), Err(UnitError::Time), "{text}");
        }
        assert_eq!(parse_time("3651d", second, FIO), Err(UnitError::TimeTooLong));
        assert_eq!(parse_time("18446744073709551615h", second, FIO), Err(UnitError::TimeTooLong));
    }
}
