//! Lines of the meta commands: a key, then flags, each a letter with an optional token.
//!
//! Flags that request fields of the answer are kept verbatim ([`Flags`]): the answer has them in the same order.

use super::text::{Words, signed, unsigned};
use super::{
    Arithmetic, Delete, ErrorLine, Event, KEY_BYTES_MAX, MetaGet, Store, StoreMode, Style, VALUE_BYTES_MAX,
};

/// The longest opaque token.
const OPAQUE_BYTES_MAX: usize = 32;

/// Flags of a meta command, verbatim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags<'a> {
    text: &'a [u8],
    /// Q: suppress the expected answer.
    pub quiet: bool,
    /// The key is base64.
    pub base64: bool,
    /// The value is requested.
    pub value: bool,
}

/// A flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlag<'a> {
    /// Its letter.
    pub letter: u8,
    /// Token behind the flag.
    pub token: &'a [u8],
}

impl<'a> Flags<'a> {
    /// Flags from their text.
    pub fn of(text: &'a [u8]) -> Flags<'a> {
        let mut flags = Flags { text, ..Flags::default() };
        flags.look();
        flags
    }

    /// The flags as text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Iterates over the flags.
    pub fn iter(&self) -> impl Iterator<Item = MetaFlag<'a>> + use<'a> {
        Words::of(self.text).map(|word| MetaFlag { letter: word[0], token: &word[1..] })
    }

    fn look(&mut self) {
        for flag in self.iter() {
            match flag.letter {
                b'q' => self.quiet = true,
                b'b' => self.base64 = true,
                b'v' => self.value = true,
                _ => {}
            }
        }
    }
}

/// Reason why flags are rejected.
enum Wrong {
    Duplicate,
    Unknown,
    Token,
    Number,
    Opaque,
    Mode,
}

/// Flags of any meta command, parsed.
#[derive(Default)]
struct Said {
    touch: Option<i64>,
    vivify: Option<i64>,
    recache: Option<i64>,
    cas: Option<u64>,
    client_flags: Option<u32>,
    initial: Option<u64>,
    delta: Option<u64>,
    mode: Option<u8>,
    invalidate: bool,
    empty: bool,
}

/// Parses flags; `allowed` lists the letters.
fn read<'a>(text: &'a [u8], allowed: &[u8]) -> Result<(Flags<'a>, Said), Wrong> {
    let mut flags = Flags { text, ..Flags::default() };
    let mut said = Said::default();
    let mut seen = 0u128;
    for MetaFlag { letter, token } in flags.iter() {
        let bit = 1u128.checked_shl(letter.into()).unwrap_or(0);
        if seen & bit != 0 {
            return Err(Wrong::Duplicate);
        }
        seen |= bit;
        if !allowed.contains(&letter) {
            return Err(Wrong::Unknown);
        }
        let time = || signed(token).map(Some).ok_or(Wrong::Token);
        let number = || unsigned(token).map(Some).ok_or(Wrong::Token);
        match letter {
            b'T' => said.touch = time()?,
            b'N' => said.vivify = time()?,
            b'R' => said.recache = time()?,
            b'C' => said.cas = number()?,
            b'J' => said.initial = number()?,
            b'D' => said.delta = number()?,
            b'F' => {
                let value = unsigned(token).and_then(|value| value.try_into().ok());
                said.client_flags = Some(value.ok_or(Wrong::Number)?);
            }
            b'I' => said.invalidate = true,
            b'x' => said.empty = true,
            b'M' => match token {
                [mode] => said.mode = Some(*mode),
                _ => return Err(Wrong::Mode),
            },
            b'O' if token.len() > OPAQUE_BYTES_MAX => return Err(Wrong::Opaque),
            _ => {}
        }
    }
    flags.look();
    Ok((flags, said))
}

fn refused(error: ErrorLine, dropped: Option<u64>) -> Event<'static> {
    Event::Refused { error, noreply: false, dropped }
}

/// Returns memcached's error for wrong flags of `mg` and `ms`.
fn precisely(wrong: &Wrong) -> ErrorLine {
    match wrong {
        Wrong::Duplicate => ErrorLine::DuplicateFlag,
        Wrong::Unknown => ErrorLine::InvalidFlag,
        Wrong::Token => ErrorLine::BadToken,
        Wrong::Number => ErrorLine::BadFormat,
        Wrong::Opaque => ErrorLine::OpaqueTooLong,
        Wrong::Mode => ErrorLine::BadSetMode,
    }
}

/// Returns memcached's error for wrong flags of `md` and `ma`.
fn roughly(wrong: &Wrong) -> ErrorLine {
    match wrong {
        Wrong::Opaque => ErrorLine::OpaqueTooLong,
        _ => ErrorLine::InvalidOrDuplicateFlag,
    }
}

/// The key, or the error for a missing or overlong one.
fn key<'a>(words: &mut Words<'a>, missing: ErrorLine) -> Result<&'a [u8], Event<'static>> {
    match words.next() {
        None => Err(refused(missing, None)),
        Some(key) if key.len() > KEY_BYTES_MAX => Err(refused(ErrorLine::BadFormat, None)),
        Some(key) => Ok(key),
    }
}

pub(super) fn get<'a>(words: &mut Words<'a>) -> Event<'a> {
    let key = match key(words, ErrorLine::Error) {
        Ok(key) => key,
        Err(refusal) => return refusal,
    };
    match read(words.rest(), b"bcfhklOqstvuTNR") {
        Ok((flags, Said { touch, vivify, recache, .. })) => {
            Event::MetaGet(MetaGet { key, touch, vivify, recache, flags })
        }
        Err(wrong) => refused(precisely(&wrong), None),
    }
}

pub(super) fn set<'a>(words: &mut Words<'a>) -> Event<'a> {
    let key = match key(words, ErrorLine::Error) {
        Ok(key) => key,
        Err(refusal) => return refusal,
    };
    let length = words.next().and_then(unsigned).filter(|&length| length <= VALUE_BYTES_MAX);
    let Some(length) = length else { return refused(ErrorLine::BadFormat, None) };
    let (flags, said) = match read(words.rest(), b"bcCFIkMOqTN") {
        Ok(read) => read,
        Err(wrong) => return refused(precisely(&wrong), Some(length)),
    };
    let mode = match said.mode {
        None | Some(b'S') => StoreMode::Set,
        Some(b'E') => StoreMode::Add,
        Some(b'R') => StoreMode::Replace,
        Some(b'A') => StoreMode::Append,
        Some(b'P') => StoreMode::Prepend,
        Some(_) => return refused(ErrorLine::BadSetMode, Some(length)),
    };
    let Said { touch, vivify, cas, client_flags, invalidate, .. } = said;
    Event::Store(Store {
        key,
        mode,
        flags: client_flags.unwrap_or(0),
        expiry: touch.unwrap_or(0),
        cas,
        length,
        style: Style::Meta(flags),
        invalidate,
        vivify,
    })
}

pub(super) fn delete<'a>(words: &mut Words<'a>) -> Event<'a> {
    let key = match key(words, ErrorLine::Error) {
        Ok(key) => key,
        Err(refusal) => return refusal,
    };
    match read(words.rest(), b"bCIkOqTx") {
        Ok((flags, Said { cas, touch, invalidate, empty, .. })) => {
            let invalidate = invalidate.then_some(touch);
            // As in memcached: the remainder never expires, unless an expiry is given.
            let emptied = empty.then_some(touch.unwrap_or(0));
            Event::Delete(Delete { key, cas, invalidate, emptied, style: Style::Meta(flags) })
        }
        Err(wrong) => refused(roughly(&wrong), None),
    }
}

pub(super) fn arithmetic<'a>(words: &mut Words<'a>) -> Event<'a> {
    let key = match key(words, ErrorLine::Error) {
        Ok(key) => key,
        Err(refusal) => return refusal,
    };
    let (flags, said) = match read(words.rest(), b"bcCDJkMNOqtTv") {
        Ok(read) => read,
        Err(wrong) => return refused(roughly(&wrong), None),
    };
    let decrement = match said.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return refused(ErrorLine::BadArithmeticMode, None),
    };
    Event::Arithmetic(Arithmetic {
        key,
        delta: said.delta.unwrap_or(1),
        decrement,
        initial: said.vivify.map(|expiry| (said.initial.unwrap_or(0), expiry)),
        touch: said.touch,
        cas: said.cas,
        style: Style::Meta(flags),
    })
}

pub(super) fn debug<'a>(words: &mut Words<'a>) -> Event<'a> {
    match key(words, ErrorLine::BadFormat) {
        Ok(key) => Event::MetaDebug { key, base64: words.next() == Some(b"b") },
        Err(refusal) => refusal,
    }
}
