//! Log lines of the server: one event each, as `key=value` pairs or as a JSON object.
//!
//! Each line begins with its time: UTC, as RFC 3339 writes it, with milliseconds. In JSON all values are strings, because the readers of
//! logs want a key to have one type.

use crate::args::Global;
use crate::failure::Failure;
use crate::stderr;
use pellucid_serve::event::Event;
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
    /// Makes the command a server from now on: no reader of its standard error keeps it waiting.
    pub fn never_wait(self) -> Result<(), Failure> {
        let line = move |lines| self.line(SystemTime::now(), &Event::LinesDropped { lines });
        stderr::never_wait(line).map_err(Failure::work)
    }

    /// The log of a server, on standard error.
    pub fn log(self, global: &Global) -> impl Fn(&Event) + Copy + use<> {
        let quiet = global.quiet;
        move |event: &Event| {
            if !quiet {
                stderr::say(&self.line(SystemTime::now(), event));
            }
        }
    }

    /// The line of an event in this format.
    pub fn line(self, at: SystemTime, event: &Event) -> String {
        let time = stamp(at);
        match self {
            LogFormat::Text => format!("time={time} {event}"),
            LogFormat::Json => {
                let first = [("time", time), ("event", event.name().to_owned())];
                let rest = event.fields().into_iter().map(|(name, value)| (name, value.as_str().to_owned()));
                let fields = first.into_iter().chain(rest);
                let fields: Map<String, Value> =
                    fields.map(|(name, value)| (name.into(), value.into())).collect();
                Value::Object(fields).to_string()
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Days around the ends of months, years and centuries, as date(1) prints them.
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
        let (drive, notice) = ("unix socket".to_owned(), why.to_owned());
        let event = Event::MountFailed { drive, why: notice };
        let at = UNIX_EPOCH + Duration::from_millis(1_795_415_525_123);
        let line =
            format!("time=2026-11-23T06:32:05.123Z event=mount-failed drive=\"unix socket\" why={why:?}");
        assert_eq!(LogFormat::Text.line(at, &event), line);
        let fields: Value = serde_json::from_str(&LogFormat::Json.line(at, &event)).expect("JSON");
        let expected = [
            ("time", "2026-11-23T06:32:05.123Z"),
            ("event", "mount-failed"),
            ("drive", "unix socket"),
            ("why", why),
        ];
        for (key, value) in expected {
            assert_eq!(fields[key], value);
        }
        assert_eq!(fields.as_object().map(Map::len), Some(expected.len()));
    }
}
