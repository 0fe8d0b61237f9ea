//! Kinds: the type and bounds of a setting's value, with its parser, writer and description.

use crate::value::{Value, list, quote, write_real};
use pellucid_text::{PLAIN_SHARE_MAX, Quantity, read_share, write_share};

/// The type of a setting's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A finite number within bounds.
    Real(f64, f64),
    /// A share of a whole within bounds, as a number or with a percent sign.
    Share(f64, f64),
    /// `true` or `false`.
    Flag,
    /// A quantity with a unit; smallest and largest value in base units.
    Unit(Quantity, u64, u64),
    /// A list of durations.
    Times,
    /// A list of whole numbers, each at least 1.
    Weights,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or `PREFIX:N` with N at least 1.
    WordOrCount(&'static [&'static str], &'static str),
    /// One of these words, or `PREFIX:TEXT`.
    WordOrText(&'static [&'static str], &'static str),
    /// Any text; empty means none.
    Text,
    /// A word for "none", or the other kind.
    Or(&'static str, &'static Kind),
    /// A list of tables, which their owner reads.
    Tables,
    /// A list of these words; also one text with commas.
    Words(&'static [&'static str]),
}

/// A value that its kind has read.
#[derive(Clone, Debug, PartialEq)]
pub enum Typed {
    /// A whole number, or a quantity in base units.
    Whole(u64),
    /// A number.
    Real(f64),
    /// A flag.
    Flag(bool),
    /// Durations in nanoseconds.
    Times(Vec<u64>),
    /// Whole numbers.
    Wholes(Vec<u32>),
    /// Words.
    Words(Vec<String>),
    /// A text, or a word.
    Text(String),
    /// A list of tables, which their owner reads.
    Tables,
    /// The word for "none", or an empty text.
    Absent,
}

/// The longest duration, one hour: no part of a drive is slower, and sums of many stay far below 64 bits.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A duration.
pub const TIME: Kind = Kind::Unit(Quantity::Time, 0, LONGEST_NS);

/// A probability or share.
pub const SHARE: Kind = Kind::Share(0.0, 1.0);

/// Seeds, and other whole numbers in the range of TOML.
pub const ANY_WHOLE: Kind = Kind::Whole(0, i64::MAX as u64);

/// Any `u32` from `min`.
pub const fn count(min: u64) -> Kind {
    Kind::Whole(min, u32::MAX as u64)
}

/// A count of few things, so that products with other settings stay far below 32 bits.
pub const fn few(min: u64) -> Kind {
    Kind::Whole(min, 1 << 16)
}

/// A whole number within bounds.
pub const fn whole(min: u64, max: u64) -> Kind {
    Kind::Whole(min, max)
}

/// A number within bounds.
pub const fn real(min: f64, max: f64) -> Kind {
    Kind::Real(min, max)
}

/// A share of a whole within bounds.
pub const fn share(min: f64, max: f64) -> Kind {
    Kind::Share(min, max)
}

/// A size within bounds, in bytes.
pub const fn size(min: u64, max: u64) -> Kind {
    Kind::Unit(Quantity::Size, min, max)
}

/// A size of at least `min` bytes, in the range of TOML.
pub const fn size_from(min: u64) -> Kind {
    size(min, i64::MAX as u64)
}

/// A duration within bounds, in nanoseconds.
pub const fn time(min: u64, max: u64) -> Kind {
    Kind::Unit(Quantity::Time, min, max)
}

/// A rate within bounds, in bytes per second.
pub const fn rate(min: u64, max: u64) -> Kind {
    Kind::Unit(Quantity::Rate, min, max)
}

/// A rate of at least `min` bytes per second, in the range of TOML.
pub const fn rate_from(min: u64) -> Kind {
    rate(min, i64::MAX as u64)
}

impl Kind {
    /// Reads a value; `None` if it is not of this kind.
    pub fn read<R>(self, value: &Value<R>) -> Option<Typed> {
        match (self, value) {
            (Kind::Whole(min, max), Value::Whole(number)) => {
                u64::try_from(*number).ok().filter(|n| (min..=max).contains(n)).map(Typed::Whole)
            }
            (Kind::Real(min, max), Value::Whole(_) | Value::Real(_)) => {
                let number = if let Value::Real(number) = value { *number } else { whole_as_real(value) };
                (min..=max).contains(&number).then_some(Typed::Real(number))
            }
            (Kind::Share(min, max), _) => {
                read_share_of(value).filter(|share| (min..=max).contains(share)).map(Typed::Real)
            }
            (Kind::Flag, Value::Flag(flag)) => Some(Typed::Flag(*flag)),
            (Kind::Unit(quantity, min, max), _) => {
                read_quantity(quantity, value).filter(|base| (min..=max).contains(base)).map(Typed::Whole)
            }
            (Kind::Times, _) => read_times(value).map(Typed::Times),
            (Kind::Weights, Value::List(items)) => {
                let weight = |item: &Value<R>| match item {
                    Value::Whole(number) => u32::try_from(*number).ok().filter(|&weight| weight > 0),
                    _ => None,
                };
                items.iter().map(weight).collect::<Option<Vec<u32>>>().map(Typed::Wholes)
            }
            (Kind::Word(words), Value::Text(text)) => is_word(words, text),
            (Kind::WordOrCount(words, prefix), Value::Text(text)) => is_word(words, text).or_else(|| {
                let number = text.strip_prefix(prefix)?.strip_prefix(':')?.parse::<u32>().ok()?;
                (number > 0).then(|| Typed::Text(format!("{prefix}:{number}")))
            }),
            (Kind::WordOrText(words, prefix), Value::Text(text)) => is_word(words, text).or_else(|| {
                let rest = text.strip_prefix(prefix)?.strip_prefix(':')?;
                (!rest.is_empty()).then(|| Typed::Text(text.clone()))
            }),
            (Kind::Text, Value::Text(text)) if text.is_empty() => Some(Typed::Absent),
            (Kind::Text, Value::Text(text)) => Some(Typed::Text(text.clone())),
            (Kind::Or(word, _), Value::Text(text)) if text == word => Some(Typed::Absent),
            (Kind::Or(_, kind), _) => kind.read(value),
            (Kind::Tables, Value::Tables(_)) => Some(Typed::Tables),
            (Kind::Words(words), _) => read_words(words, value),
            (Kind::Tables, Value::List(items)) if items.is_empty() => Some(Typed::Tables),
            _ => None,
        }
    }

    /// Returns the allowed values, for messages and the reference.
    pub fn allowed(self) -> String {
        match self {
            // The end of TOML's range.
            Kind::Whole(min, max) if max == i64::MAX as u64 => {
                format!("a whole number from {min}, below 2^63")
            }
            Kind::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Real(min, f64::MAX) => format!("a number from {min}"),
            Kind::Real(min, max) => format!("a number from {min} to {max}"),
            Kind::Share(min, max) => {
                let plain = if max > PLAIN_SHARE_MAX { "; above 300% with the percent sign" } else { "" };
                format!("a share such as \"20%\" or 0.2, from {}% to {}%{plain}", min * 100.0, max * 100.0)
            }
            Kind::Flag => "true, false".into(),
            Kind::Unit(quantity, min, max) => {
                let bounded =
                    |bound: &str, base| format!("; {bound} {}", quantity.write(base).trim_matches('"'));
                let low = if min > 0 { bounded("at least", min) } else { String::new() };
                let high = match max < i64::MAX as u64 {
                    true => bounded("at most", max),
                    false => format!("; below {}", quantity.bound()),
                };
                format!("{}{low}{high}", quantity.syntax())
            }
            Kind::Times => "a list of durations such as [\"58us\", \"90us\"]".into(),
            Kind::Weights => format!("a list of whole numbers from 1 to {}", u32::MAX),
            Kind::Word(words) => words.join(", "),
            Kind::WordOrCount(words, prefix) => format!("{}, {prefix}:N", words.join(", ")),
            Kind::WordOrText(words, prefix) => format!("{}, {prefix}:PATH", words.join(", ")),
            Kind::Text => "a text".into(),
            Kind::Or(word, kind) => format!("{word}, or {}", kind.allowed()),
            Kind::Tables => "a list of tables".into(),
            Kind::Words(words) => format!("a list of {}", words.join(", ")),
        }
    }

    /// The type, in a few words.
    pub fn name(self) -> String {
        let name = match self {
            Kind::Whole(..) => "whole number",
            Kind::Real(..) => "number",
            Kind::Share(..) => "share of a whole",
            Kind::Flag => "flag",
            Kind::Unit(Quantity::Time, ..) => "duration",
            Kind::Unit(Quantity::Size, ..) => "size",
            Kind::Unit(Quantity::Rate, ..) => "rate",
            Kind::Times => "list of durations",
            Kind::Weights => "list of whole numbers",
            Kind::Word(_) => "word",
            Kind::WordOrCount(_, prefix) => return format!("word, or {prefix}:N"),
            Kind::WordOrText(_, prefix) => return format!("word, or {prefix}:PATH"),
            Kind::Text => "text",
            Kind::Or(word, kind) => return format!("{}, or {word}", kind.name()),
            Kind::Tables => "list of tables",
            Kind::Words(_) => "list of words",
        };
        name.into()
    }

    /// Least and greatest value; `None` without bounds other than the machine's.
    pub fn bounds(self) -> Option<(String, String)> {
        let most = |max: u64, shown: String| if max >= i64::MAX as u64 { "any".into() } else { shown };
        match self {
            Kind::Whole(min, max) => Some((min.to_string(), most(max, max.to_string()))),
            Kind::Real(min, f64::MAX) => Some((min.to_string(), "any".into())),
            Kind::Real(min, max) => Some((min.to_string(), max.to_string())),
            Kind::Share(min, max) => Some((format!("{}%", min * 100.0), format!("{}%", max * 100.0))),
            Kind::Unit(quantity, min, max) => {
                let shown = |base| quantity.write(base).trim_matches('"').to_string();
                Some((shown(min), most(max, shown(max))))
            }
            Kind::Or(_, kind) => kind.bounds(),
            _ => None,
        }
    }

    /// Reports whether a time or a rate lacks its unit, which no description may omit.
    pub fn lacks_unit<R>(self, value: &Value<R>) -> bool {
        let plain = |quantity: Quantity, value: &Value<R>| match value {
            Value::Whole(number) => u64::try_from(*number).is_ok_and(|base| !quantity.may_lack_unit(base)),
            _ => false,
        };
        match (self, value) {
            (Kind::Unit(quantity, ..), _) => plain(quantity, value),
            (Kind::Times, Value::List(items)) => items.iter().any(|item| plain(Quantity::Time, item)),
            (Kind::Or(_, kind), _) => kind.lacks_unit(value),
            _ => false,
        }
    }

    /// The unit of a plain number; empty: none.
    pub fn unit(self) -> &'static str {
        match self {
            // Times and rates are never plain numbers.
            Kind::Unit(Quantity::Size, ..) => Quantity::Size.base(),
            Kind::Unit(..) => "",
            Kind::Or(_, kind) => kind.unit(),
            _ => "",
        }
    }

    /// Writes a value as in a description. Lists of tables are written by their owner.
    pub fn write(self, typed: &Typed) -> String {
        match (self, typed) {
            (Kind::Or(word, _), Typed::Absent) => quote(word),
            (Kind::Text, Typed::Absent) => quote(""),
            (Kind::Or(_, kind), _) => kind.write(typed),
            (Kind::Unit(quantity, ..), Typed::Whole(base)) => quantity.write(*base),
            (_, Typed::Whole(number)) => number.to_string(),
            (Kind::Share(..), Typed::Real(share)) => write_share(*share),
            (_, Typed::Real(number)) => write_real(*number),
            (_, Typed::Flag(flag)) => flag.to_string(),
            (_, Typed::Text(text)) => quote(text),
            (_, Typed::Times(times)) => list(times.iter().map(|&ns| Quantity::Time.write(ns))),
            (_, Typed::Wholes(numbers)) => list(numbers.iter().map(u32::to_string)),
            (_, Typed::Words(words)) => list(words.iter().map(|word| quote(word))),
            (_, Typed::Tables) => "[]".into(),
            (_, Typed::Absent) => unreachable!("only Kind::Or and Kind::Text read as absent"),
        }
    }
}

/// Reads `value` in the base units of `quantity`; `None` if it cannot be read, is finer than the base unit or too large.
fn read_quantity<R>(quantity: Quantity, value: &Value<R>) -> Option<u64> {
    match value {
        Value::Whole(number) => u64::try_from(*number).ok(),
        Value::Text(text) => quantity.read_text(text),
        _ => None,
    }
}

fn read_share_of<R>(value: &Value<R>) -> Option<f64> {
    match value {
        Value::Text(text) => read_share(text),
        Value::Whole(_) => Some(whole_as_real(value)).filter(|&share| share <= PLAIN_SHARE_MAX),
        Value::Real(share) => Some(*share).filter(|&share| share <= PLAIN_SHARE_MAX),
        _ => None,
    }
}

fn whole_as_real<R>(value: &Value<R>) -> f64 {
    if let Value::Whole(number) = value { *number as f64 } else { f64::NAN }
}

fn is_word(words: &[&str], text: &str) -> Option<Typed> {
    words.contains(&text).then(|| Typed::Text(text.to_string()))
}

/// Reads a list of durations; also one text with commas, which is easier to type after `--set`.
fn read_times<R>(value: &Value<R>) -> Option<Vec<u64>> {
    let time = |ns: Option<u64>| ns.filter(|&ns| ns <= LONGEST_NS);
    match value {
        Value::List(items) if !items.is_empty() => {
            items.iter().map(|item| time(read_quantity(Quantity::Time, item))).collect()
        }
        Value::Text(text) => text.split(',').map(|part| time(Quantity::Time.read_text(part))).collect(),
        _ => None,
    }
}

fn read_words<R>(words: &[&str], value: &Value<R>) -> Option<Typed> {
    let word = |text: &str| words.contains(&text).then(|| text.to_string());
    let of_item = |item: &Value<R>| match item {
        Value::Text(text) => word(text),
        _ => None,
    };
    let read = match value {
        Value::List(items) => items.iter().map(of_item).collect(),
        Value::Text(text) => text.split(',').map(word).collect(),
        _ => None,
    };
    read.map(Typed::Words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_and_fractional_plain_numbers_are_no_quantity() {
        assert_eq!(read_quantity::<()>(Quantity::Time, &Value::Whole(-1)), None);
        assert_eq!(read_quantity::<()>(Quantity::Time, &Value::Real(1.0)), None);
    }
}
