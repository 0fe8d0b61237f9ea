//! fio's I/O logs, versions 2 and 3.
//!
//! The first line gives the version. Version 2 has no times: `wait` lines advance them (fio counts a wait from the previous one, so they add up).
//! Every line of version 3 begins with microseconds since the start.

use std::collections::HashMap;

use super::Action;
use super::error::Problem;
use super::field::{Blanks, Decoded, bytes, excerpt, number, request, wrong};

const LAYOUT_2: &str = "filename action [offset length]";
const LAYOUT_3: &str = "timestamp filename action [offset length]";
const ACTIONS_2: &str = "add, open, close, read, write, trim, sync, datasync or wait";
const ACTIONS_3: &str = "add, open, close, read, write, trim, sync or datasync";
/// More would be an attack on memory, not a log.
const FILES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Two,
    Three,
}

impl Version {
    pub(super) fn header(self) -> &'static str {
        match self {
            Version::Two => "fio version 2 iolog",
            Version::Three => "fio version 3 iolog",
        }
    }
}

pub(super) struct Fio {
    version: Version,
    begun: bool,
    waited_us: u64,
    streams: HashMap<Box<[u8]>, u32>,
}

impl Fio {
    pub(super) fn new(version: Version) -> Fio {
        Fio { version, begun: false, waited_us: 0, streams: HashMap::new() }
    }

    /// Ticks are microseconds.
    pub(super) fn decode(&mut self, line: &[u8]) -> Result<Decoded, Problem> {
        if !self.begun {
            if line.trim_ascii() != self.version.header().as_bytes() {
                return Err(wrong("the header", line, self.version.header()));
            }
            self.begun = true;
            return Ok(Decoded::Nothing);
        }
        let (layout, actions) = match self.version {
            Version::Two => (LAYOUT_2, ACTIONS_2),
            Version::Three => (LAYOUT_3, ACTIONS_3),
        };
        let mut fields = Blanks::new(line, layout);
        let ticks = match self.version {
            Version::Two => self.waited_us,
            Version::Three => fields.number("timestamp")?,
        };
        let file = fields.field("filename")?;
        let word = fields.field("action")?;
        let action = match word {
            b"read" => Action::Read,
            b"write" => Action::Write,
            b"trim" => Action::Trim,
            b"sync" | b"datasync" => Action::Flush,
            b"wait" if self.version == Version::Two => return self.wait(fields),
            b"add" | b"open" | b"close" => {
                fields.end()?;
                self.stream(file)?;
                return Ok(Decoded::Nothing);
            }
            _ => return Err(wrong("action", word, actions)),
        };
        let (offset, length) = match fields.optional() {
            None if action == Action::Flush => (0, 0),
            None => return Err(Problem::Missing { field: "offset", layout }),
            Some(offset) => (number("offset", offset)?, fields.number("length")?),
        };
        fields.end()?;
        let stream = self.stream(file)?;
        Ok(Decoded::Request(request(ticks, action, bytes(offset), bytes(length), stream)?))
    }

    /// A wait has its length in place of an offset.
    fn wait(&mut self, mut fields: Blanks<'_>) -> Result<Decoded, Problem> {
        let us = fields.number("offset")?;
        if let Some(length) = fields.optional() {
            number("length", length)?;
        }
        fields.end()?;
        // The clock refuses an overflowing sum, as it is later than everything.
        self.waited_us = self.waited_us.saturating_add(us);
        Ok(Decoded::Nothing)
    }

    fn stream(&mut self, file: &[u8]) -> Result<u32, Problem> {
        if let Some(&stream) = self.streams.get(file) {
            return Ok(stream);
        }
        if self.streams.len() >= FILES_MAX {
            return Err(wrong("filename", file, "at most 1048576 different files"));
        }
        let stream = match numbered(file) {
            Some(stream) => stream,
            None => self.streams.len() as u32,
        };
        self.streams.insert(file.into(), stream);
        Ok(stream)
    }
}

/// N of `stream.N`.
fn numbered(file: &[u8]) -> Option<u32> {
    let digits = file.strip_prefix(b"stream.")?;
    // Only the writer's exact spelling, so that two names are never one stream by accident.
    let stream = u32::try_from(number("filename", digits).ok()?).ok()?;
    (excerpt(digits) == stream.to_string()).then_some(stream)
}
