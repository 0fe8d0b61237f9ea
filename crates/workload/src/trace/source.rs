//! The bytes of a trace: decompressed according to their first bytes, and cut into lines or fixed pieces.
//!
//! One buffer of fixed size serves recognition (`peek`), text (`line`) and binary (`piece`, `skip`). Nothing is
//! copied out of it: a line is a slice that lives until the next call.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::ops::Range;

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, DEFAULT_MAX_WINDOW_SIZE, FrameDecoder};

use super::error::Problem;
use super::foreign::UTF8_MARK;

const BUFFER_BYTES: usize = 256 * 1024;
/// Maximum line length, which bounds the search in a file without line ends.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// Any source of bytes.
pub type Input = Box<dyn Read + Send>;

/// Decompresses the bytes according to the first ones: gzip, zstd, or plain. A zstd frame with a larger window than `window_bytes_max` is an error.
pub fn decompressed_within(mut input: Input, window_bytes_max: u64) -> io::Result<Input> {
    let mut magic = [0; 4];
    let mut length = 0;
    while length < magic.len() {
        match input.read(&mut magic[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let whole = Cursor::new(magic).take(length as u64).chain(input);
    Ok(match magic {
        // RFC 1952, 2.3.1.
        [0x1f, 0x8b, ..] => Box::new(GzipMembers::new(whole)),
        // RFC 8878, 3.1.1 and 3.1.2 (a skippable frame may come first).
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(ZstdFrames::new(whole, window_bytes_max))
        }
        _ => Box::new(whole),
    })
}

/// The window of the zstd frame that begins with these bytes; `None`: not a zstd frame. 18 bytes are enough.
pub fn zstd_window_bytes(first: &[u8]) -> Option<u64> {
    let rest = first.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?;
    let (&descriptor, rest) = rest.split_first()?;
    // RFC 8878, 3.1.1.1: a window, or else the size of the content.
    if descriptor & 0x20 == 0 {
        let window = u64::from(*rest.first()?);
        let base = 1 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = 1 << (descriptor >> 6);
    let content = rest.get(dictionary..dictionary + size)?;
    let content = content.iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte));
    Some(if size == 2 { content + 256 } else { content })
}

pub(super) struct Source {
    input: Input,
    buffer: Box<[u8]>,
    /// The part of `buffer` with unconsumed bytes.
    held: Range<usize>,
    consumed_bytes: u64,
    /// An error met while reading ahead; reported when the bytes before it are used up.
    failed: Option<io::Error>,
}

impl Source {
    /// Detects the compression of `input`. A byte-order mark is skipped.
    pub(super) fn new(input: Input) -> io::Result<Source> {
        let input = decompressed_within(input, DEFAULT_MAX_WINDOW_SIZE)?;
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let mut source = Source { input, buffer, held: 0..0, consumed_bytes: 0, failed: None };
        if source.peek().0.starts_with(UTF8_MARK) {
            source.consume(UTF8_MARK.len());
        }
        Ok(source)
    }

    /// Number of consumed bytes of the trace.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes
    }

    /// The unconsumed first part of the trace (all of it, if it is short), and whether it is all.
    pub(super) fn peek(&mut self) -> (&[u8], bool) {
        let mut all = false;
        while self.held.len() < BUFFER_BYTES {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => {
                    all = true;
                    break;
                }
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        (&self.buffer[self.held.clone()], all)
    }

    /// Takes the error of reading ahead, if there was one.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// The next line without its end (LF or CR LF); `None` at the end of the trace.
    pub(super) fn line(&mut self) -> Result<Option<&[u8]>, Problem> {
        let mut searched = 0;
        let length = loop {
            let held = &self.buffer[self.held.clone()];
            let found = held[searched..].iter().position(|&byte| byte == b'\n');
            searched = found.map_or(held.len(), |at| searched + at);
            if searched > LINE_BYTES_MAX {
                return Err(Problem::LongLine { limit_bytes: LINE_BYTES_MAX });
            }
            if found.is_some() || !self.fill()? {
                break searched;
            }
        };
        if self.held.is_empty() {
            return Ok(None);
        }
        let line = self.held.start..self.held.start + length;
        self.consume((length + 1).min(self.held.len()));
        let line = &self.buffer[line];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The next `length` bytes (far fewer than the buffer holds); `None` at the end of the trace.
    pub(super) fn piece(&mut self, length: usize) -> Result<Option<&[u8]>, Problem> {
        while self.held.len() < length {
            if self.fill()? {
                continue;
            }
            return match self.held.len() {
                0 => Ok(None),
                found_bytes => Err(Problem::Truncated { expected_bytes: length, found_bytes }),
            };
        }
        let piece = self.held.start..self.held.start + length;
        self.consume(length);
        Ok(Some(&self.buffer[piece]))
    }

    fn consume(&mut self, length: usize) {
        self.held.start += length;
        self.consumed_bytes += length as u64;
    }

    /// Reads more data into the buffer; false at the end of the trace. The buffer must not be full.
    fn fill(&mut self) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.held.start > 0 {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        loop {
            match self.input.read(&mut self.buffer[self.held.end..]) {
                Ok(n) => {
                    self.held.end += n;
                    return Ok(n > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A sequence of gzip members, possibly with zeros after a member: tapes and block-wise copies are padded with them.
struct GzipMembers<R> {
    /// Each member hands its input to the next.
    member: Option<GzDecoder<BufReader<R>>>,
}

impl<R: Read> GzipMembers<R> {
    fn new(input: R) -> GzipMembers<R> {
        GzipMembers { member: Some(GzDecoder::new(BufReader::new(input))) }
    }
}

impl<R: Read> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let length = member.read(into)?;
            if length > 0 || into.is_empty() {
                return Ok(length);
            }
            self.member = match skip_zeros(member.get_mut())? {
                true => self.member.take().map(|member| GzDecoder::new(member.into_inner())),
                false => None,
            };
        }
        Ok(0)
    }
}

/// Skips zeros, and reports whether other bytes follow.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let held = input.fill_buf()?;
        let (zeros, length) = (held.iter().take_while(|&&byte| byte == 0).count(), held.len());
        input.consume(zeros);
        if zeros < length || length == 0 {
            return Ok(length > 0);
        }
    }
}

/// A message of our own: the decoder's errors name its internal states.
fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "zstd: a frame is damaged or ends too early")
}

/// A sequence of Zstandard frames, each verified if it has a checksum.
struct ZstdFrames<R> {
    input: BufReader<R>,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: Read> ZstdFrames<R> {
    fn new(input: R, window_bytes_max: u64) -> ZstdFrames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(window_bytes_max);
        ZstdFrames { input: BufReader::new(input), decoder, inside: false }
    }

    /// Starts the next frame, skipping empty ones; false at the end of the input.
    fn enter(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.input).take(length), &mut io::sink())? < length {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                    let why =
                        format!("zstd: a frame has a window of {requested} bytes; allowed: up to {max}");
                    return Err(io::Error::new(ErrorKind::InvalidData, why));
                }
                Err(_) => return Err(damaged()),
            }
        }
        Ok(false)
    }

    fn leave(&mut self) -> io::Result<()> {
        self.inside = false;
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(computed)) if stored != computed => Err(io::Error::new(
                ErrorKind::InvalidData,
                "zstd: the checksum of a frame does not match its data",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.inside {
                self.inside = self.enter()?;
                if !self.inside {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|_| damaged())?;
            }
            match self.decoder.read(into)? {
                0 => self.leave()?,
                n => return Ok(n),
            }
        }
    }
}
