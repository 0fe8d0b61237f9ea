//! Recording of a drive's requests as a trace that can be replayed: fio's iolog, version 3.
//!
//! Each drive has a stream (`stream.0` is the first). Times are truncated to microseconds, FUA is not kept,
//! and a write of zeros is recorded as a trim, which has the same effect on the drive.

use crate::core::{Arrival, Observer};
use pellucid_flash::Opcode;
use std::io::{self, BufWriter, Write};

/// Writes arrivals as lines of fio's iolog version 3.
pub struct FioTrace<W: Write> {
    out: BufWriter<W>,
    streams: Vec<bool>,
    previous_us: u64,
    failed: Option<io::Error>,
    /// The failure has not been reported yet.
    untold: bool,
}

impl<W: Write> FioTrace<W> {
    /// Begins a trace into `out`.
    pub fn new(out: W) -> FioTrace<W> {
        let mut trace = FioTrace {
            out: BufWriter::new(out),
            streams: Vec::new(),
            previous_us: 0,
            failed: None,
            untold: true,
        };
        // Written at once, so a failure is known before any client is served.
        let begun = writeln!(trace.out, "fio version 3 iolog").and_then(|()| trace.out.flush());
        trace.failed = begun.err();
        trace
    }

    /// Writer of the trace.
    pub fn get_mut(&mut self) -> &mut W {
        self.out.get_mut()
    }

    fn line(&mut self, arrival: &Arrival) -> io::Result<()> {
        let Arrival { namespace, sectors, sector_bytes, .. } = *arrival;
        // In instant time each drive has its own clock; a trace has one, which never runs backwards.
        let at_us = (arrival.at.0 / 1_000).max(self.previous_us);
        self.previous_us = at_us;
        if self.streams.len() <= namespace {
            self.streams.resize(namespace + 1, false);
        }
        if !std::mem::replace(&mut self.streams[namespace], true) {
            writeln!(self.out, "{at_us} stream.{namespace} add")?;
            writeln!(self.out, "{at_us} stream.{namespace} open")?;
        }
        let action = match arrival.opcode {
            Opcode::Read => "read",
            Opcode::Write => "write",
            Opcode::Trim | Opcode::WriteZeroes => "trim",
            Opcode::Flush => "sync",
            // The format lacks these operations; the header of the recording says so.
            Opcode::Zone(_)
            | Opcode::Chunk(_)
            | Opcode::Report
            | Opcode::NextUnit
            | Opcode::Cache(_)
            | Opcode::Nameless(_) => return Ok(()),
        };
        let sector_bytes = u64::from(sector_bytes);
        let (offset, length) = (arrival.lba.0.wrapping_mul(sector_bytes), u64::from(sectors) * sector_bytes);
        writeln!(self.out, "{at_us} stream.{namespace} {action} {offset} {length}")
    }
}

impl<W: Write> Observer for FioTrace<W> {
    fn arrived(&mut self, arrival: &Arrival, _data: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.line(arrival).err();
        }
    }

    fn failed(&mut self) -> Option<String> {
        let error = self.failed.as_ref().filter(|_| self.untold)?;
        let why = format!("{error}; nothing is recorded from here on");
        self.untold = false;
        Some(why)
    }

    fn finished(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        for (namespace, used) in self.streams.iter().enumerate() {
            if *used {
                writeln!(self.out, "{} stream.{namespace} close", self.previous_us)?;
            }
        }
        self.out.flush()
    }
}
