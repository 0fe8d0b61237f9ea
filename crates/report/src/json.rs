//! The layout of JSON reports: objects indented, one key to a line; lists of plain values on one line.
//!
//! Keys stand in the order of the structs and numbers have their shortest exact form, so equal reports are equal byte for byte.

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// Indents objects as usual, but keeps lists on one line: a time series has tens of thousands of values.
struct InlineLists<'a>(PrettyFormatter<'a>);

impl Formatter for InlineLists<'_> {
    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

/// Returns `value` as JSON text with a final line feed.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, InlineLists(PrettyFormatter::new()));
    value.serialize(&mut serializer).expect("a report has string keys and is written to memory");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON text is UTF-8")
}
