//! Writing a trace, so that a recorded run can be read back: MSR, fio version 2 and fio version 3.
//!
//! | format | limits |
//! |---|---|
//! | `msr` | 100 ns; no trim and flush |
//! | `fio-v2`, `fio-v3` | 1 us |
//!
//! Each time is truncated to the unit on its own, so that errors do not add up. Stream N becomes fio's file `stream.N`, which the reader converts
//! back to N.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};

use pellucid_flash::Nanos;

use super::fio::Version;
use super::{Action, Format, Record, WriteError};

/// Writes records as lines of one format.
pub struct TraceWriter<W: Write> {
    out: BufWriter<W>,
    layout: Layout,
    previous_ns: u64,
}

enum Layout {
    Msr,
    Fio {
        version: Version,
        /// Files already added and opened.
        files: BTreeSet<u32>,
        /// Time up to which version 2 has waited.
        waited_us: u64,
    },
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace in `format`.
    pub fn new(out: W, format: Format) -> Result<TraceWriter<W>, WriteError> {
        let fio = |version| Layout::Fio { version, files: BTreeSet::new(), waited_us: 0 };
        let layout = match format {
            Format::Msr => Layout::Msr,
            Format::FioV2 => fio(Version::Two),
            Format::FioV3 => fio(Version::Three),
            other => return Err(WriteError::Format(other)),
        };
        let mut out = BufWriter::new(out);
        if let Layout::Fio { version, .. } = layout {
            writeln!(out, "{}", version.header())?;
        }
        Ok(TraceWriter { out, layout, previous_ns: 0 })
    }

    /// Writes a request with unknown response time (MSR: 0).
    pub fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        self.write_timed(record, Nanos::ZERO)
    }

    /// Writes a request and its response time, which only MSR stores.
    pub fn write_timed(&mut self, record: &Record, response: Nanos) -> Result<(), WriteError> {
        let (previous_ns, at_ns) = (self.previous_ns, record.at.0);
        if at_ns < previous_ns {
            return Err(WriteError::Backwards { previous_ns, at_ns });
        }
        match &mut self.layout {
            Layout::Msr => msr_line(&mut self.out, record, response)?,
            Layout::Fio { version, files, waited_us } => {
                let at_us = at_ns / 1_000;
                if files.insert(record.stream) {
                    file_line(&mut self.out, *version, at_us, record.stream, "add")?;
                    file_line(&mut self.out, *version, at_us, record.stream, "open")?;
                }
                if *version == Version::Two && at_us > *waited_us {
                    writeln!(self.out, "stream.{} wait {} 0", record.stream, at_us - *waited_us)?;
                    *waited_us = at_us;
                }
                time(&mut self.out, *version, at_us)?;
                fio_line(&mut self.out, record)?;
            }
        }
        self.previous_ns = at_ns;
        Ok(())
    }

    /// Ends the trace and hands back the output.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if let Layout::Fio { version, files, .. } = &self.layout {
            for &stream in files {
                file_line(&mut self.out, *version, self.previous_ns / 1_000, stream, "close")?;
            }
        }
        self.out.into_inner().map_err(|error| WriteError::Io(error.into_error()))
    }
}

fn msr_line(out: &mut impl Write, record: &Record, response: Nanos) -> Result<(), WriteError> {
    let kind = match record.action {
        Action::Read => "Read",
        Action::Write => "Write",
        action => return Err(WriteError::Action { format: Format::Msr, action }),
    };
    let Record { at, offset_bytes, length_bytes, stream, .. } = record;
    let (ticks, response_ticks) = (at.0 / 100, response.0 / 100);
    writeln!(out, "{ticks},pellucid,{stream},{kind},{offset_bytes},{length_bytes},{response_ticks}")?;
    Ok(())
}

fn fio_line(out: &mut impl Write, record: &Record) -> Result<(), WriteError> {
    let action = match record.action {
        Action::Read => "read",
        Action::Write => "write",
        Action::Trim => "trim",
        Action::Flush => "sync",
    };
    writeln!(out, "stream.{} {action} {} {}", record.stream, record.offset_bytes, record.length_bytes)?;
    Ok(())
}

fn file_line(
    out: &mut impl Write,
    version: Version,
    at_us: u64,
    stream: u32,
    action: &str,
) -> Result<(), WriteError> {
    time(out, version, at_us)?;
    writeln!(out, "stream.{stream} {action}")?;
    Ok(())
}

/// Begins a line of version 3 with the time.
fn time(out: &mut impl Write, version: Version, at_us: u64) -> Result<(), WriteError> {
    if version == Version::Three {
        write!(out, "{at_us} ")?;
    }
    Ok(())
}
