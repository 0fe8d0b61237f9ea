//! Log lines of the server: one event each, as `key=value` pairs or as a JSON object.
//!
//! Each line begins with its time: UTC, as RFC 3339 writes it, with milliseconds.
//!
//! A value is a word, or a text in quotes as Rust writes it (`{:?}`). In JSON all values are strings, because the readers of
//! logs want a key to have one type.

use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// `time=2026-11-23T06:32:05.123Z event=connected connection=1 protocol=nbd peer="127.0.0.1:40000"`
    Text,
    /// `{"time":"2026-11-23T06:32:05.123Z","event":"connected","connection":"1","protocol":"nbd","peer":"127.0.0.1:40000"}`
    Json,
}

impl LogFormat {
    /// A line of pairs in this format.
    pub fn line(self, at: SystemTime, pairs: &str) -> String {
        let text = format!("time={} {pairs}", stamp(at));
        match self {
            LogFormat::Text => text,
            LogFormat::Json => Value::Object(object(&text)).to_string(),
        }
    }
}

/// `2026-11-23T06:32:05.123Z`. Years of 400 are equal in days, and with March as the first month a leap day is the last of its year.
fn stamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, ms) = (since.as_secs(), since.subsec_millis());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // From 1 March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

fn object(pairs: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut rest = pairs.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => text(quoted),
            None => match after.split_once(' ') {
                Some((word, after)) => (word.to_string(), after),
                None => (after.to_string(), ""),
            },
        };
        fields.insert(key.to_string(), value.into());
        rest = after.trim_start();
    }
    fields
}

/// A text up to its closing quote, and what follows.
fn text(quoted: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), quoted.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some('0') => value.push('\0'),
                Some('u') => {
                    let code: String = chars.by_ref().skip(1).take_while(|&c| c != '}').collect();
                    let code = u32::from_str_radix(&code, 16).ok();
                    value.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Some(other) => value.push(other),
                None => {}
            },
            other => value.push(other),
        }
    }
    (value, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Days around the ends of months, years and centuries, as date(1) tells them.
    #[test]
    fn days_have_their_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (68_169_599, "1972-02-28T23:59:59.000Z"),
            (68_169_600, "1972-02-29T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(stamp(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
    }

    #[test]
    fn a_line_is_the_same_in_json() {
        let why = "say \"no\" = \\ \n\u{7}ü";
        let line = format!("event=closed connection=7 peer={:?} why={why:?} lost=3", "unix socket");
        let at = UNIX_EPOCH + Duration::from_millis(1_795_415_525_123);
        assert_eq!(LogFormat::Text.line(at, &line), format!("time=2026-11-23T06:32:05.123Z {line}"));
        let fields: Value = serde_json::from_str(&LogFormat::Json.line(at, &line)).expect("JSON");
        let expected = [
            ("time", "2026-11-23T06:32:05.123Z"),
            ("event", "closed"),
            ("connection", "7"),
            ("peer", "unix socket"),
            ("why", why),
            ("lost", "3"),
        ];
        for (key, value) in expected {
            assert_eq!(fields[key], value);
        }
        assert_eq!(fields.as_object().map(Map::len), Some(expected.len()));
    }
}
