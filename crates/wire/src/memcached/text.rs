//! Lines of the text commands, except `get`.

use super::{
    Arithmetic, Delete, ErrorLine, Event, KEY_BYTES_MAX, Store, StoreMode, Style, VALUE_BYTES_MAX, meta,
};

/// Words of a line.
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub fn of(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// The bytes after the last word taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&byte| byte != b' ')?;
        let word = &self.rest[start..];
        let end = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
        self.rest = &word[end..];
        Some(&word[..end])
    }
}

/// Parses a whole word as an unsigned decimal number.
#[inline]
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// Parses a number with an optional sign.
#[inline]
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => unsigned(digits).and_then(|value| 0i64.checked_sub_unsigned(value)),
        None => unsigned(word).and_then(|value| value.try_into().ok()),
    }
}

fn flags(word: &[u8]) -> Option<u32> {
    unsigned(word).and_then(|value| value.try_into().ok())
}

/// Arguments of a command, and whether the last word asks for no answer.
struct Arguments<'a, const N: usize> {
    words: [&'a [u8]; N],
    count: usize,
    noreply: bool,
}

/// Up to `N` words; `None`: there are more.
fn arguments<'a, const N: usize>(words: &mut Words<'a>) -> Option<Arguments<'a, N>> {
    let mut found = Arguments { words: [&[][..]; N], count: 0, noreply: false };
    for word in words {
        *found.words.get_mut(found.count)? = word;
        found.count += 1;
    }
    found.noreply = found.count > 0 && found.words[found.count - 1] == b"noreply";
    Some(found)
}

fn refused(error: ErrorLine, noreply: bool) -> Event<'static> {
    Event::Refused { error, noreply, dropped: None }
}

const UNKNOWN: Event<'static> = Event::Refused { error: ErrorLine::Error, noreply: false, dropped: None };

/// Parses a line without its end.
pub(super) fn parse(line: &[u8]) -> Event<'_> {
    let mut words = Words::of(line);
    let Some(command) = words.next() else { return UNKNOWN };
    match command {
        b"set" => store(StoreMode::Set, false, &mut words),
        b"add" => store(StoreMode::Add, false, &mut words),
        b"replace" => store(StoreMode::Replace, false, &mut words),
        b"append" => store(StoreMode::Append, false, &mut words),
        b"prepend" => store(StoreMode::Prepend, false, &mut words),
        b"cas" => store(StoreMode::Set, true, &mut words),
        b"incr" => arithmetic(false, &mut words),
        b"decr" => arithmetic(true, &mut words),
        b"delete" => delete(&mut words),
        b"touch" => touch(&mut words),
        b"mg" => meta::get(&mut words),
        b"ms" => meta::set(&mut words),
        b"md" => meta::delete(&mut words),
        b"ma" => meta::arithmetic(&mut words),
        b"me" => meta::debug(&mut words),
        b"mn" => Event::MetaNoop,
        b"flush_all" => flush_all(&mut words),
        b"stats" => Event::Stats(words.rest().trim_ascii()),
        b"verbosity" => verbosity(&mut words),
        b"version" => Event::Version,
        b"quit" => Event::Quit,
        b"shutdown" => refused(ErrorLine::ShutdownNotEnabled, false),
        _ => UNKNOWN,
    }
}

fn store<'a>(mode: StoreMode, with_cas: bool, words: &mut Words<'a>) -> Event<'a> {
    let wanted = if with_cas { 5 } else { 4 };
    let Some(Arguments { words, count, noreply }) = arguments::<6>(words) else { return UNKNOWN };
    if count < wanted || count > wanted + 1 {
        return UNKNOWN;
    }
    let [key, flags_word, expiry, length, cas, _] = words;
    let parsed =
        (flags(flags_word), signed(expiry), unsigned(length), if with_cas { unsigned(cas) } else { Some(0) });
    match parsed {
        (Some(flags), Some(expiry), Some(length), Some(cas))
            if key.len() <= KEY_BYTES_MAX && length <= VALUE_BYTES_MAX =>
        {
            let cas = with_cas.then_some(cas);
            let style = Style::Text { noreply };
            Event::Store(Store {
                key,
                mode,
                flags,
                expiry,
                cas,
                length,
                style,
                invalidate: false,
                vivify: None,
            })
        }
        _ => refused(ErrorLine::BadFormat, noreply),
    }
}

fn arithmetic<'a>(decrement: bool, words: &mut Words<'a>) -> Event<'a> {
    let Some(Arguments { words: [key, delta, _], count: 2 | 3, noreply }) = arguments::<3>(words) else {
        return UNKNOWN;
    };
    if key.len() > KEY_BYTES_MAX {
        return refused(ErrorLine::BadFormat, noreply);
    }
    match unsigned(delta) {
        Some(delta) => Event::Arithmetic(Arithmetic {
            key,
            delta,
            decrement,
            initial: None,
            touch: None,
            cas: None,
            style: Style::Text { noreply },
        }),
        None => refused(ErrorLine::BadDelta, noreply),
    }
}

/// Parses `delete`. Old clients send a time, which must be 0.
fn delete<'a>(words: &mut Words<'a>) -> Event<'a> {
    let Some(Arguments { words: [key, second, _], count, noreply }) = arguments::<3>(words) else {
        return UNKNOWN;
    };
    let valid = match count {
        0 => return UNKNOWN,
        1 => true,
        2 => second == b"0" || noreply,
        _ => second == b"0" && noreply,
    };
    let noreply = noreply && count > 1;
    match valid {
        false => refused(ErrorLine::DeleteUsage, noreply),
        true if key.len() > KEY_BYTES_MAX => refused(ErrorLine::BadFormat, noreply),
        true => Event::Delete(Delete {
            key,
            cas: None,
            invalidate: None,
            emptied: None,
            style: Style::Text { noreply },
        }),
    }
}

fn touch<'a>(words: &mut Words<'a>) -> Event<'a> {
    let Some(Arguments { words: [key, expiry, _], count: 2 | 3, noreply }) = arguments::<3>(words) else {
        return UNKNOWN;
    };
    if key.len() > KEY_BYTES_MAX {
        return refused(ErrorLine::BadFormat, noreply);
    }
    match signed(expiry) {
        Some(expiry) => Event::Touch { key, expiry, noreply },
        None => refused(ErrorLine::BadExpiry, noreply),
    }
}

fn flush_all<'a>(words: &mut Words<'a>) -> Event<'a> {
    let Some(Arguments { words: [delay, _], count, noreply }) = arguments::<2>(words) else { return UNKNOWN };
    if count == 0 || (count == 1 && noreply) {
        return Event::FlushAll { delay: 0, noreply };
    }
    match signed(delay) {
        Some(delay) => Event::FlushAll { delay, noreply },
        None => refused(ErrorLine::BadExpiry, noreply),
    }
}

fn verbosity<'a>(words: &mut Words<'a>) -> Event<'a> {
    match arguments::<2>(words) {
        Some(Arguments { words: [level, _], count: 1.., noreply }) => {
            match noreply || unsigned(level).is_some() {
                true => Event::Verbosity { noreply },
                false => refused(ErrorLine::BadFormat, noreply),
            }
        }
        _ => UNKNOWN,
    }
}
