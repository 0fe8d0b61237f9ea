//! Values as written, before a key interprets them, and their writer, whose output reads back unchanged.

use std::fmt::Write;

/// A value as written. `R` is a row of a list of tables, defined by the reader.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<R> {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number with a fraction.
    Real(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Value<R>>),
    /// A list of tables.
    Tables(Vec<R>),
    /// A date, which no key accepts.
    Date(String),
    /// A table where a value is expected.
    Table,
}

impl<R> Value<R> {
    /// Writes the value, for messages.
    pub fn to_text(&self) -> String {
        match self {
            Value::Text(text) => quote(text),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => write_real(*number),
            Value::Flag(flag) => flag.to_string(),
            Value::List(items) => list(items.iter().map(Value::to_text)),
            Value::Tables(rows) => format!("a list of {} tables", rows.len()),
            Value::Date(date) => date.clone(),
            Value::Table => "a table".into(),
        }
    }
}

/// Writes a list of values that already are text.
pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Writes `text` as a TOML string.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes a number with a fraction so that it reads back as the same number.
pub fn write_real(number: f64) -> String {
    format!("{number:?}")
}
