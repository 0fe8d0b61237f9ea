//! The request log: one line per completion, written as the run proceeds. Logs in other formats implement [`RequestSink`].
//!
//! Columns of the CSV: `at_ns,completed_ns,op,lba,sectors,status,latency_ns`, then one column `<stage>_ns` per [`Stage`], `unmapped_sectors` (for
//! reads) and `job` (the job's number, from 1, or the device of a trace). Times are simulated nanoseconds since the drive was switched on; the stage
//! columns of a line sum to its `latency_ns`. Lines are in the order of completion.

use super::tables::key;
use pellucid_flash::{CacheOp, ChunkOp, Completion, Lba, NamelessOp, Opcode, Stage, ZoneOp};
use std::io::{self, BufWriter, Write};

/// First bytes of every log.
pub const LOG_BEGINNING: &[u8] = COLUMNS.as_bytes();
const COLUMNS: &str = "at_ns,completed_ns,op,lba,sectors,status,latency_ns";

/// Receiver of every completed request, in the order of completion.
pub trait RequestSink {
    /// Takes one completion, with the `lba` and `sectors` of its command.
    fn write(&mut self, lba: Lba, sectors: u32, job: u32, completion: &Completion) -> io::Result<()>;

    /// Completes the log after the last request.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl<W: Write> RequestSink for RequestLog<W> {
    fn write(&mut self, lba: Lba, sectors: u32, job: u32, completion: &Completion) -> io::Result<()> {
        RequestLog::write(self, lba, sectors, job, completion)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        RequestLog::finish(*self).map(drop)
    }
}

/// Writes the log as CSV. Dropping it loses what is still buffered: end with [`finish`](RequestLog::finish).
#[derive(Debug)]
pub struct RequestLog<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> RequestLog<W> {
    /// Begins a log on `out` with its header.
    pub fn new(out: W) -> io::Result<RequestLog<W>> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        write!(out, "{COLUMNS}")?;
        for stage in Stage::ALL {
            write!(out, ",{}_ns", key(stage.name()))?;
        }
        writeln!(out, ",unmapped_sectors,job")?;
        Ok(RequestLog { out })
    }

    /// Writes the line of one completion, with the `lba` and `sectors` of its command.
    pub fn write(&mut self, lba: Lba, sectors: u32, job: u32, completion: &Completion) -> io::Result<()> {
        let (at, end) = (completion.submitted, completion.completed);
        let (op, status) = (opcode_name(completion.opcode), completion.status.name());
        write!(self.out, "{},{},{op},{},{sectors},{status},{}", at.0, end.0, lba.0, (end - at).0)?;
        for time in completion.stages.0 {
            write!(self.out, ",{time}")?;
        }
        writeln!(self.out, ",{},{job}", completion.unmapped)
    }

    /// Flushes all buffers, the writer's own included, and returns the writer.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.flush()?;
        Ok(out)
    }
}

/// Name of an operation in logs.
pub fn opcode_name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Read => "read",
        Opcode::Write => "write",
        Opcode::Flush => "flush",
        Opcode::Trim => "trim",
        Opcode::WriteZeroes => "write_zeroes",
        Opcode::Zone(ZoneOp::Append) => "append",
        Opcode::Zone(ZoneOp::Change(_)) => "zone_management",
        Opcode::Chunk(ChunkOp::Reset) => "reset",
        Opcode::Chunk(ChunkOp::Copy) => "copy",
        Opcode::Report => "report",
        Opcode::NextUnit => "next_unit",
        Opcode::Cache(CacheOp::WriteClean) => "write_clean",
        Opcode::Cache(CacheOp::WriteDirty) => "write_dirty",
        Opcode::Cache(CacheOp::Evict) => "evict",
        Opcode::Cache(CacheOp::Clean) => "clean",
        Opcode::Cache(CacheOp::Exists) => "exists",
        Opcode::Nameless(NamelessOp::Write) => "nameless_write",
        Opcode::Nameless(NamelessOp::Read) => "physical_read",
        Opcode::Nameless(NamelessOp::Free) => "free",
        Opcode::Nameless(NamelessOp::Acknowledge) => "acknowledge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{Nanos, SimTime, StageTimes, Status};

    #[test]
    fn lines_match_the_header_and_stages_sum_to_the_latency() {
        let mut stages = StageTimes::default();
        stages.add(Stage::WaitWay, Nanos(40));
        stages.add(Stage::Media, Nanos(60));
        let completion = Completion {
            tag: 1,
            opcode: Opcode::Read,
            status: Status::UnrecoveredRead,
            submitted: SimTime(1_000),
            completed: SimTime(1_100),
            stages,
            data: Vec::new(),
            result: 0,
            unmapped: 0,
            vector: None,
        };
        let mut log = RequestLog::new(Vec::new()).unwrap();
        log.write(Lba(77), 8, 3, &completion).unwrap();
        let text = String::from_utf8(log.finish().unwrap()).unwrap();
        assert_eq!(
            text,
            "at_ns,completed_ns,op,lba,sectors,status,latency_ns,queue_ns,link_ns,firmware_ns,buffer_ns,\
             wait_for_way_ns,wait_for_channel_ns,media_ns,transfer_ns,retry_ns,host_layer_ns,unmapped_sectors,job\n\
             1000,1100,read,77,8,unrecovered_read,100,0,0,0,0,40,0,60,0,0,0,0,3\n"
        );
    }

    #[test]
    fn a_full_disk_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("full"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = RequestLog::new(Full).unwrap();
        assert!(log.finish().is_err());
    }

    /// A disk that is full when the last bytes come.
    struct Full(Vec<u8>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn what_the_writer_cannot_keep_is_told_at_the_end() {
        let log = RequestLog::new(Full(Vec::new())).unwrap();
        assert!(log.finish().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull));
    }
}
