//! The reader: one decoder over one source, with a clock that converts the trace's times to [`SimTime`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use pellucid_flash::SimTime;

use super::blkparse::{self, Blkparse};
use super::blktrace::Blktrace;
use super::columns::{Columns, Table, is_names};
use super::error::{Position, Problem, TraceError};
use super::field::{Decoded, Raw};
use super::fio::{Fio, Version};
use super::recognise::{is_remark, lines, recognise};
use super::source::Source;
use super::vscsi::Vscsi;
use super::{Action, BlockEvent, Format, ReadOptions, Record, blank, comma, foreign};

/// Counts of the records read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Records returned.
    pub records: u64,
    /// Records earlier than the previous one, whose time was replaced.
    pub backwards: u64,
    /// Lines (or binary records) without a request: blank lines, headers, other events.
    pub skipped: u64,
}

/// Reads a trace: an iterator of records that ends after the first error.
pub struct TraceReader {
    name: String,
    format: Format,
    source: Source,
    decoder: Decoder,
    clock: Clock,
    lines_read: u64,
    position: Position,
    /// The data of a request whose flush has just been returned.
    pending: Option<Record>,
    ended: bool,
    stats: ReadStats,
}

impl TraceReader {
    /// Opens a trace file; without a format, it is recognised from the content.
    pub fn open(path: impl AsRef<Path>, format: Option<Format>) -> Result<TraceReader, TraceError> {
        TraceReader::open_with(path, &ReadOptions { format, ..ReadOptions::default() })
    }

    /// Opens a trace file with all options.
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<TraceReader, TraceError> {
        TraceReader::open_copy(&path.as_ref().display().to_string(), &path, options)
    }

    /// Opens `copy`, which has the contents of the trace `name`.
    ///
    /// # Errors
    /// As [`TraceReader::open_with`]; they name the trace.
    pub fn open_copy(
        name: &str,
        copy: impl AsRef<Path>,
        options: &ReadOptions,
    ) -> Result<TraceReader, TraceError> {
        let file = File::open(copy).map_err(|error| TraceError::new(name, Position::Whole, error.into()))?;
        TraceReader::from_read(name, file, options)
    }

    /// Reads a trace from any input; `name` stands for the file in messages.
    pub fn from_read(
        name: &str,
        input: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<TraceReader, TraceError> {
        let whole = |problem| TraceError::new(name, Position::Whole, problem);
        if options.spc_lba_bytes == 0 {
            let value = options.spc_lba_bytes.to_string();
            return Err(whole(Problem::Setting { key: "spc_lba_bytes", value, allowed: "1 or more" }));
        }
        let mut source = Source::new(Box::new(input)).map_err(|error| whole(error.into()))?;
        let (format, decoder) = Decoder::new(&mut source, options).map_err(|problem| {
            // An unreadable file has no recognised format.
            whole(source.take_failure().map_or(problem, Problem::Io))
        })?;
        Ok(TraceReader {
            name: name.to_owned(),
            format,
            source,
            decoder,
            clock: Clock::default(),
            lines_read: 0,
            position: Position::Whole,
            pending: None,
            ended: false,
            stats: ReadStats::default(),
        })
    }

    /// The file, or the given name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The given or recognised format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Position of the last record.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the counts of the records read so far.
    pub fn stats(&self) -> ReadStats {
        self.stats
    }

    /// Reads up to the first record, of `stream` if one is given.
    ///
    /// # Errors
    /// There is no such record, or the trace cannot be read up to it.
    pub fn find_work(mut self, stream: Option<u32>) -> Result<(), TraceError> {
        let mut found = BTreeSet::new();
        for record in self.by_ref() {
            let here = record?.stream;
            if stream.is_none_or(|stream| stream == here) {
                return Ok(());
            }
            found.insert(here);
        }
        match stream.filter(|_| !found.is_empty()) {
            Some(stream) => Err(self.no_stream(stream, found)),
            None => Err(self.nothing()),
        }
    }

    /// Error for a trace without records.
    fn nothing(&self) -> TraceError {
        let problem = Problem::Nothing { format: self.format, skipped: self.stats.skipped };
        TraceError::new(&self.name, Position::Whole, problem)
    }

    /// Error for a trace that has only other streams.
    pub(super) fn no_stream(&self, stream: u32, found: BTreeSet<u32>) -> TraceError {
        TraceError::new(&self.name, Position::Whole, Problem::NoStream { stream, found })
    }

    pub(super) fn error(&self, problem: Problem) -> TraceError {
        TraceError::new(&self.name, self.position, problem)
    }

    fn advance(&mut self) -> Result<Option<Record>, Problem> {
        loop {
            let decoded = match &mut self.decoder {
                Decoder::Lines(decoder) => {
                    self.position = Position::Line(self.lines_read + 1);
                    let Some(line) = self.source.line()? else { return Ok(None) };
                    self.lines_read += 1;
                    decoder.decode(line)?
                }
                Decoder::Blktrace(decoder) => {
                    self.position = Position::Byte(self.source.consumed_bytes());
                    decoder.decode(&mut self.source)?
                }
                Decoder::Vscsi(decoder) => {
                    self.position = Position::Byte(self.source.consumed_bytes());
                    decoder.decode(&mut self.source)?
                }
            };
            match decoded {
                Decoded::Nothing => self.stats.skipped += 1,
                Decoded::End => return Ok(None),
                Decoded::Request(raw) => return Ok(Some(self.record(raw)?)),
                Decoded::FlushThen(raw) => {
                    let record = self.record(raw)?;
                    self.pending = Some(record);
                    return Ok(Some(Record {
                        action: Action::Flush,
                        offset_bytes: 0,
                        length_bytes: 0,
                        ..record
                    }));
                }
            }
        }
    }

    fn record(&mut self, raw: Raw) -> Result<Record, Problem> {
        let tick_ns = self.decoder.tick_ns(self.format);
        let at = self.clock.at(raw.ticks, tick_ns, &mut self.stats.backwards)?;
        let Raw { action, offset_bytes, length_bytes, stream, .. } = raw;
        Ok(Record { at, action, offset_bytes, length_bytes, stream })
    }
}

impl Iterator for TraceReader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        if self.ended {
            return None;
        }
        let next = match self.pending.take() {
            Some(record) => Ok(Some(record)),
            None => self.advance(),
        };
        match next {
            Ok(Some(record)) => {
                self.stats.records += 1;
                Some(Ok(record))
            }
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(problem) => {
                self.ended = true;
                Some(Err(self.error(problem)))
            }
        }
    }
}

/// Unit of the format's times.
fn tick_ns(format: Format) -> u64 {
    match format {
        Format::Msr => 100,
        Format::Alibaba | Format::FioV2 | Format::FioV3 | Format::Vscsi => 1_000,
        Format::Tencent => 1_000_000_000,
        Format::Fiu
        | Format::Spc
        | Format::Blkparse
        | Format::Blktrace
        | Format::Mqsim
        | Format::Systor
        | Format::Csv => 1,
    }
}

/// Converts the trace's times to times since its first record that never decrease.
#[derive(Default)]
struct Clock {
    first_ticks: Option<u64>,
    latest_ticks: u64,
}

impl Clock {
    fn at(&mut self, ticks: u64, tick_ns: u64, backwards: &mut u64) -> Result<SimTime, Problem> {
        let first = *self.first_ticks.get_or_insert(ticks);
        if ticks < self.latest_ticks {
            *backwards += 1;
        }
        self.latest_ticks = self.latest_ticks.max(ticks);
        let since_first = self.latest_ticks - first;
        since_first.checked_mul(tick_ns).map(SimTime).ok_or(Problem::TooLate { ticks, tick_ns })
    }
}

#[expect(clippy::large_enum_variant, reason = "a reader has one decoder, which is reached without a detour")]
enum Decoder {
    Lines(Lines),
    Blktrace(Blktrace),
    Vscsi(Vscsi),
}

impl Decoder {
    fn new(source: &mut Source, options: &ReadOptions) -> Result<(Format, Decoder), Problem> {
        let (head, all) = source.peek();
        if let Some(kind) = foreign::kind(head) {
            return Err(Problem::Foreign(kind));
        }
        let format = match options.format {
            Some(format) => format,
            None => recognise(head, all, options.spc_lba_bytes)
                .map_err(|problem| foreign::kind_or_binary(head).map_or(problem, Problem::Foreign))?,
        };
        let decoder = match format {
            Format::Blktrace => Decoder::Blktrace(Blktrace::new(head, options.block_event)),
            Format::Vscsi => Decoder::Vscsi(Vscsi::new(head)),
            Format::Csv => {
                let missing = || Problem::Setting {
                    key: "format",
                    value: "csv".into(),
                    allowed: "csv with its columns, as in csv:time=NAME,op=NAME,offset=NAME,size=NAME,unit=us",
                };
                let columns = options.columns.clone().ok_or_else(missing)?;
                Decoder::Lines(Lines::new(format, LineDecoder::Table(Table::new(columns)), options))
            }
            Format::Blkparse => {
                let event = options.block_event.unwrap_or_else(|| blkparse::choose(lines(head, all)));
                let decoder = LineDecoder::new(format, options.spc_lba_bytes, event);
                Decoder::Lines(Lines::new(format, decoder, options))
            }
            _ => {
                let decoder = LineDecoder::new(format, options.spc_lba_bytes, BlockEvent::Queue);
                Decoder::Lines(Lines::new(format, decoder, options))
            }
        };
        Ok((format, decoder))
    }

    /// Unit of the records' times.
    fn tick_ns(&self, format: Format) -> u64 {
        match self {
            Decoder::Lines(Lines { decoder: LineDecoder::Table(_), .. }) => 1,
            _ => tick_ns(format),
        }
    }
}

/// Lines of text, with comments and a header before the first request.
struct Lines {
    decoder: LineDecoder,
    /// The columns of the format, if a header may come first.
    columns: Option<Columns>,
    /// True while comments and a header may come.
    may_have_head: bool,
    begun: bool,
}

impl Lines {
    fn new(format: Format, decoder: LineDecoder, options: &ReadOptions) -> Lines {
        let may_have_head = !matches!(format, Format::FioV2 | Format::FioV3 | Format::Blkparse);
        Lines { decoder, columns: Columns::of(format, options.spc_lba_bytes), may_have_head, begun: false }
    }

    fn decode(&mut self, line: &[u8]) -> Result<Decoded, Problem> {
        if self.begun || !self.may_have_head || line.trim_ascii().is_empty() {
            return self.decoder.decode(line);
        }
        if is_remark(line) {
            return Ok(Decoded::Nothing);
        }
        self.begun = true;
        if matches!(self.decoder, LineDecoder::Table(_)) || !is_names(line) {
            return self.decoder.decode(line);
        }
        // Foreign names do not change a requested format.
        if let Some(table) = self.columns.take().and_then(|columns| Table::below(columns, line)) {
            self.decoder = LineDecoder::Table(table);
        }
        Ok(Decoded::Nothing)
    }
}

/// The decoders of the text formats.
#[expect(clippy::large_enum_variant, reason = "a reader has one decoder, which is reached without a detour")]
pub(super) enum LineDecoder {
    Msr,
    Alibaba,
    Tencent,
    Fiu,
    Spc { lba_bytes: u64 },
    Fio(Fio),
    Blkparse(Blkparse),
    Mqsim,
    Systor,
    Table(Table),
}

impl LineDecoder {
    fn new(format: Format, spc_lba_bytes: u64, event: BlockEvent) -> LineDecoder {
        match format {
            Format::Msr => LineDecoder::Msr,
            Format::Alibaba => LineDecoder::Alibaba,
            Format::Tencent => LineDecoder::Tencent,
            Format::Fiu => LineDecoder::Fiu,
            Format::Spc => LineDecoder::Spc { lba_bytes: spc_lba_bytes },
            Format::FioV2 => LineDecoder::Fio(Fio::new(Version::Two)),
            Format::FioV3 => LineDecoder::Fio(Fio::new(Version::Three)),
            Format::Blkparse => LineDecoder::Blkparse(Blkparse::new(event)),
            Format::Mqsim => LineDecoder::Mqsim,
            Format::Systor => LineDecoder::Systor,
            Format::Blktrace | Format::Vscsi => unreachable!("{format} has records, not lines"),
            Format::Csv => unreachable!("a table is made with its columns"),
        }
    }

    /// Reports whether `format` can read `line` on its own.
    pub(super) fn fits(format: Format, spc_lba_bytes: u64, line: &[u8]) -> bool {
        LineDecoder::problem(format, spc_lba_bytes, line).is_none()
    }

    /// Reason why `format` cannot read `line` on its own.
    pub(super) fn problem(format: Format, spc_lba_bytes: u64, line: &[u8]) -> Option<Problem> {
        LineDecoder::new(format, spc_lba_bytes, BlockEvent::Queue).decode(line).err()
    }

    fn decode(&mut self, line: &[u8]) -> Result<Decoded, Problem> {
        if line.trim_ascii().is_empty() {
            return Ok(Decoded::Nothing);
        }
        let raw = match self {
            LineDecoder::Msr => comma::msr(line)?,
            LineDecoder::Alibaba => comma::alibaba(line)?,
            LineDecoder::Tencent => comma::tencent(line)?,
            LineDecoder::Fiu => blank::fiu(line)?,
            LineDecoder::Spc { lba_bytes } => comma::spc(line, *lba_bytes)?,
            LineDecoder::Mqsim => blank::mqsim(line)?,
            LineDecoder::Systor => return comma::systor(line),
            LineDecoder::Table(table) => return table.decode(line),
            LineDecoder::Fio(fio) => return fio.decode(line),
            LineDecoder::Blkparse(blkparse) => return blkparse.decode(line),
        };
        Ok(Decoded::Request(raw))
    }
}
