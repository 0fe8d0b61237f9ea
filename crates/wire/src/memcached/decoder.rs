//! Bytes to [`Event`]s.
//!
//! ```text
//!   input  ┌──────── a whole line ───────┐ value ...      a line that is here whole is read where it lies
//!          │ the beginning of a line     │                one that is not is carried to the next input
//! ```
//! Invariants: `carry` holds less than [`LINE_BYTES_MAX`] and one piece of a key; `carry[at..]` comes before the input.

use super::text;
use super::{ErrorLine, Event, GetKind, KEY_BYTES_MAX, LINE_BYTES_MAX};

/// Reason why a connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A line longer than any command.
    #[error("a line of more than {LINE_BYTES_MAX} bytes that is no get")]
    LineTooLong,
    /// A request of the binary protocol.
    #[error("the client speaks the binary protocol; allowed: text and meta commands")]
    Binary,
}

impl DecodeError {
    /// Returns the answer for the client.
    pub fn answer(self) -> ErrorLine {
        match self {
            DecodeError::LineTooLong => ErrorLine::LineTooLong,
            DecodeError::Binary => ErrorLine::Error,
        }
    }
}

/// The first byte of every request of the binary protocol.
const BINARY: u8 = 0x80;

/// Most bytes of an incomplete word: a key, and the first byte of a line end.
const CARRIED_WORD_MAX: usize = KEY_BYTES_MAX + 1;

/// Expected input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Line,
    /// Keys of a get.
    Keys(GetKind),
    /// Bytes of a value still to come.
    Data(u64),
    /// The line end after a value: bytes seen so far, and whether they are correct.
    DataEnd {
        came: u8,
        good: bool,
    },
    /// Bytes still to be dropped.
    Drop(u64),
    /// The rest of a rejected line.
    SkipLine,
    Failed(DecodeError),
}

/// The server's end of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    carry: Vec<u8>,
    /// Start of the unused bytes in `carry`.
    at: usize,
}

/// Strips the line end: `\n` or `\r\n`.
fn stripped(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The kind of a `get` line and the offset of its keys; `None`: another command, or malformed.
fn get_head(line: &[u8]) -> Option<(GetKind, usize)> {
    let start = line.iter().position(|&byte| byte != b' ')?;
    let (command, rest) = line[start..].split_at_checked(4)?;
    let (kind, at) = match command {
        b"get " => (GetKind::default(), start + 4),
        b"gets" if rest.first() == Some(&b' ') => (GetKind { cas: true, touch: None }, start + 5),
        _ => return None,
    };
    line[at..].iter().any(|&byte| byte != b' ').then_some((kind, at))
}

/// Parses the head of `gat` and `gats`, or returns the error.
fn touch_head(line: &[u8]) -> Option<Result<(GetKind, usize), ErrorLine>> {
    let mut words = text::Words::of(line);
    let command = words.next()?;
    if command != b"gat" && command != b"gats" {
        return None;
    }
    let Some(expiry) = words.next() else { return Some(Err(ErrorLine::Error)) };
    let Some(expiry) = text::signed(expiry) else { return Some(Err(ErrorLine::BadExpiry)) };
    let at = line.len() - words.rest().len();
    Some(Ok((GetKind { cas: command == b"gats", touch: Some(expiry) }, at)))
}

impl Decoder {
    /// Takes the next event off the front of `input`; call it until `None`, which means that more input is needed.
    ///
    /// # Errors
    /// A line that is too long, or another protocol; every later call returns it again.
    pub fn decode<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Event<'a>>, DecodeError> {
        loop {
            return match self.state {
                State::Failed(why) => Err(why),
                State::Line => self.line(input),
                State::Keys(kind) => Ok(self.key(kind, input)),
                State::Data(left) if left > 0 => {
                    let count = left.min(input.len() as u64);
                    let (data, rest) = input.split_at(count as usize);
                    *input = rest;
                    self.state = State::Data(left - count);
                    Ok((count > 0).then_some(Event::Data(data)))
                }
                State::Data(_) => {
                    self.state = State::DataEnd { came: 0, good: true };
                    continue;
                }
                State::DataEnd { came, good } => {
                    let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
                    *input = rest;
                    let good = good && byte == b"\r\n"[usize::from(came)];
                    if came == 1 {
                        self.state = State::Line;
                        return Ok(Some(Event::DataEnd { good }));
                    }
                    self.state = State::DataEnd { came: 1, good };
                    continue;
                }
                State::Drop(left) => {
                    let count = left.min(input.len() as u64);
                    *input = &input[count as usize..];
                    self.state = if left == count { State::Line } else { State::Drop(left - count) };
                    if left > count {
                        return Ok(None);
                    }
                    continue;
                }
                State::SkipLine => {
                    if !self.skip_line(input) {
                        return Ok(None);
                    }
                    continue;
                }
            };
        }
    }

    /// Reports whether carried bytes give another event without more input.
    pub fn has_more(&self) -> bool {
        matches!(self.state, State::Keys(_)) && self.carry[self.at..].iter().any(|byte| b" \n".contains(byte))
    }

    /// Bytes of a value still to come.
    pub fn data_left(&self) -> u64 {
        if let State::Data(left) = self.state { left } else { 0 }
    }

    /// Accounts for `count` bytes of a value, at most [`Decoder::data_left`], received another way.
    pub fn came(&mut self, count: u64) {
        if let State::Data(left) = &mut self.state {
            *left -= count;
        }
    }

    /// Drops the value that follows: it causes no events.
    pub fn drop_data(&mut self) {
        if let State::Data(left) = self.state {
            self.state = State::Drop(left + 2);
        }
    }

    /// Memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.carry.capacity()
    }

    /// Drops the carried bytes after their use.
    fn forget(&mut self) {
        // The memory of a long line is released.
        if self.carry.capacity() > LINE_BYTES_MAX / 4 {
            self.carry = Vec::new();
        }
        self.carry.clear();
        self.at = 0;
    }

    fn line<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Event<'a>>, DecodeError> {
        if self.at > 0 {
            self.forget();
        }
        let carried = self.carry.len();
        if carried == 0 && input.first() == Some(&BINARY) {
            self.state = State::Failed(DecodeError::Binary);
            return Err(DecodeError::Binary);
        }
        let end = input.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        // A longer line can only be a get, which is read key by key.
        if carried + end.unwrap_or(input.len()) > LINE_BYTES_MAX {
            return self.long_line(input);
        }
        let Some(end) = end else {
            self.carry.extend_from_slice(input);
            *input = &[];
            return Ok(None);
        };
        if carried > 0 {
            self.carry.extend_from_slice(&input[..end]);
        }
        let line = stripped(if carried > 0 { &self.carry } else { &input[..end] });
        match get_head(line).map(Ok).or_else(|| touch_head(line)) {
            None => Ok(Some(self.command(carried > 0, end, input))),
            Some(head) => Ok(self.get(head, carried > 0, end, input)),
        }
    }

    /// Parses a whole line other than a get; `end` is its end in the input.
    fn command<'a, 'i: 'a>(&'a mut self, carried: bool, end: usize, input: &mut &'i [u8]) -> Event<'a> {
        let (line, rest) = input.split_at(end);
        *input = rest;
        // The event uses up all of it.
        self.at = self.carry.len();
        let event = text::parse(stripped(if carried { &self.carry } else { line }));
        self.state = match event {
            Event::Store(store) => State::Data(store.length),
            Event::Refused { dropped: Some(bytes), .. } => State::Drop(bytes + 2),
            _ => State::Line,
        };
        event
    }

    /// Starts a whole get line; `head` has the offset of its keys.
    fn get<'a, 'i: 'a>(
        &'a mut self,
        head: Result<(GetKind, usize), ErrorLine>,
        carried: bool,
        end: usize,
        input: &mut &'i [u8],
    ) -> Option<Event<'a>> {
        let line = stripped(if carried { &self.carry } else { &input[..end] });
        let checked = head.and_then(|(kind, at)| {
            let too_long = text::Words::of(&line[at..]).any(|key| key.len() > KEY_BYTES_MAX);
            if too_long { Err(ErrorLine::BadFormat) } else { Ok((kind, at)) }
        });
        match checked {
            Ok((kind, at)) if carried => {
                *input = &input[end..];
                self.at = at;
                self.keys(kind, input)
            }
            Ok((kind, at)) => {
                *input = &input[at..];
                self.keys(kind, input)
            }
            Err(error) => {
                *input = &input[end..];
                self.forget();
                Some(Event::Refused { error, noreply: false, dropped: None })
            }
        }
    }

    fn keys<'a, 'i: 'a>(&'a mut self, kind: GetKind, input: &mut &'i [u8]) -> Option<Event<'a>> {
        self.state = State::Keys(kind);
        self.key(kind, input)
    }

    #[cold]
    fn long_line<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Event<'a>>, DecodeError> {
        // Carries enough to identify the command, however the input is cut.
        let missing = LINE_BYTES_MAX.saturating_sub(self.carry.len()).min(input.len());
        self.carry.extend_from_slice(&input[..missing]);
        *input = &input[missing..];
        match get_head(&self.carry) {
            Some((kind, at)) => {
                self.at = at;
                Ok(self.keys(kind, input))
            }
            None => {
                self.state = State::Failed(DecodeError::LineTooLong);
                self.forget();
                Err(DecodeError::LineTooLong)
            }
        }
    }

    /// The next key. A word is complete once its delimiter is seen.
    fn key<'a, 'i: 'a>(&'a mut self, kind: GetKind, input: &mut &'i [u8]) -> Option<Event<'a>> {
        while self.carry.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        if self.at < self.carry.len() {
            return self.carried_key(kind, input);
        }
        self.forget();
        let start = input.iter().position(|&byte| byte != b' ').unwrap_or(input.len());
        let word = &input[start..];
        let Some(end) = end_of_word(word) else {
            *input = &[];
            return match word.len() > CARRIED_WORD_MAX {
                true => Some(self.refuse_line(false)),
                false => {
                    self.carry.extend_from_slice(word);
                    None
                }
            };
        };
        let ends_line = word[end] == b'\n';
        *input = &word[end + 1..];
        let key = if ends_line { stripped(&word[..end]) } else { &word[..end] };
        match self.is_key(key.len(), ends_line) {
            true => Some(key_event(kind, key, ends_line)),
            false => Some(self.refuse_line(ends_line)),
        }
    }

    /// Completes a key that begins in `carry`.
    #[cold]
    fn carried_key<'a, 'i: 'a>(&'a mut self, kind: GetKind, input: &mut &'i [u8]) -> Option<Event<'a>> {
        let start = self.at;
        let end = match (end_of_word(&self.carry[start..]), end_of_word(input)) {
            (Some(end), _) => start + end,
            (None, Some(end)) if self.carry.len() - start + end <= CARRIED_WORD_MAX => {
                self.carry.extend_from_slice(&input[..=end]);
                *input = &input[end + 1..];
                self.carry.len() - 1
            }
            (None, None) if self.carry.len() - start + input.len() <= CARRIED_WORD_MAX => {
                self.carry.drain(..start);
                self.at = 0;
                self.carry.extend_from_slice(input);
                *input = &[];
                return None;
            }
            (None, _) => return Some(self.refuse_line(false)),
        };
        self.at = end + 1;
        let ends_line = self.carry[end] == b'\n';
        let length = if ends_line { stripped(&self.carry[start..end]).len() } else { end - start };
        match self.is_key(length, ends_line) {
            true => Some(key_event(kind, &self.carry[start..start + length], ends_line)),
            false => Some(self.refuse_line(ends_line)),
        }
    }

    /// Reports whether a word of this length is a key; the line may end with it.
    #[inline]
    fn is_key(&mut self, length: usize, ends_line: bool) -> bool {
        if ends_line {
            self.state = State::Line;
        }
        length <= KEY_BYTES_MAX
    }

    /// Rejects the line, and skips its rest.
    #[cold]
    fn refuse_line(&mut self, has_ended: bool) -> Event<'static> {
        self.state = if has_ended { State::Line } else { State::SkipLine };
        Event::Refused { error: ErrorLine::BadFormat, noreply: false, dropped: None }
    }

    /// Skips the rest of a line; returns whether its end was found.
    fn skip_line(&mut self, input: &mut &[u8]) -> bool {
        if let Some(end) = self.carry[self.at..].iter().position(|&byte| byte == b'\n') {
            self.at += end + 1;
            self.state = State::Line;
            return true;
        }
        self.forget();
        let end = input.iter().position(|&byte| byte == b'\n');
        *input = &input[end.map_or(input.len(), |end| end + 1)..];
        if end.is_some() {
            self.state = State::Line;
        }
        end.is_some()
    }
}

fn end_of_word(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b' ' || byte == b'\n')
}

#[inline]
fn key_event(kind: GetKind, key: &[u8], last: bool) -> Event<'_> {
    match key.is_empty() {
        true => Event::GetEnd,
        false => Event::Key { kind, key, last },
    }
}
