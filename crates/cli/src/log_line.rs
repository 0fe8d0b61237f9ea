//! Log lines of the server: one event each, as `key=value` pairs or as a JSON object.
//!
//! A value is a word, or a text in quotes as Rust writes it (`{:?}`). In JSON all values are strings, because the readers of
//! logs want a key to have one type.

use serde_json::{Map, Value};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// `event=connected connection=1 protocol=nbd peer="127.0.0.1:40000"`
    Text,
    /// `{"event":"connected","connection":"1","protocol":"nbd","peer":"127.0.0.1:40000"}`
    Json,
}

impl LogFormat {
    /// A line of pairs in this format.
    pub fn line(self, pairs: &str) -> String {
        match self {
            LogFormat::Text => pairs.to_string(),
            LogFormat::Json => Value::Object(object(pairs)).to_string(),
        }
    }
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

    #[test]
    fn a_line_is_the_same_in_json() {
        let why = "say \"no\" = \\ \n\u{7}ü";
        let line = format!("event=closed connection=7 peer={:?} why={why:?} lost=3", "unix socket");
        assert_eq!(LogFormat::Text.line(&line), line);
        let fields: Value = serde_json::from_str(&LogFormat::Json.line(&line)).expect("JSON");
        let expected =
            [("event", "closed"), ("connection", "7"), ("peer", "unix socket"), ("why", why), ("lost", "3")];
        for (key, value) in expected {
            assert_eq!(fields[key], value);
        }
        assert_eq!(fields.as_object().map(Map::len), Some(expected.len()));
    }
}
