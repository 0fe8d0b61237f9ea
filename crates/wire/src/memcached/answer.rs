//! Answers of a server, appended to a buffer.

use super::meta::Flags;

/// An error line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLine {
    /// Unknown command, or a wrong number of words.
    Error,
    /// A line longer than any command.
    LineTooLong,
    /// A key that is too long, or a malformed number.
    BadFormat,
    /// The value is not followed by a line end.
    BadDataChunk,
    /// Wrong arguments of `delete`.
    DeleteUsage,
    /// A malformed expiry.
    BadExpiry,
    /// A malformed amount to add.
    BadDelta,
    /// The stored value is not a number.
    NotNumber,
    /// A key that is not base64.
    BadBase64,
    /// A meta flag that the command does not accept.
    InvalidFlag,
    /// A meta flag given twice.
    DuplicateFlag,
    /// An invalid or duplicate meta flag.
    InvalidOrDuplicateFlag,
    /// A meta flag whose token is not a number.
    BadToken,
    /// An opaque token that is too long.
    OpaqueTooLong,
    /// `ms` with an unknown mode (M).
    BadSetMode,
    /// `ma` with an unknown mode (M).
    BadArithmeticMode,
    /// `stats cachedump` without arguments.
    BadLine,
    /// Usage of `stats detail`.
    StatsDetailUsage,
    /// `shutdown` is not enabled.
    ShutdownNotEnabled,
    /// The value is larger than the cache allows.
    TooLarge,
}

impl ErrorLine {
    /// The line, with its line end.
    pub fn line(self) -> &'static [u8] {
        match self {
            ErrorLine::Error => b"ERROR\r\n",
            ErrorLine::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            ErrorLine::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            ErrorLine::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            ErrorLine::DeleteUsage => {
                b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
            }
            ErrorLine::BadExpiry => b"CLIENT_ERROR invalid exptime argument\r\n",
            ErrorLine::BadDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            ErrorLine::NotNumber => b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            ErrorLine::BadBase64 => b"CLIENT_ERROR error decoding key\r\n",
            ErrorLine::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            ErrorLine::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            ErrorLine::InvalidOrDuplicateFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            ErrorLine::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            ErrorLine::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            ErrorLine::BadSetMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            ErrorLine::BadArithmeticMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            ErrorLine::BadLine => b"CLIENT_ERROR bad command line\r\n",
            ErrorLine::StatsDetailUsage => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
            ErrorLine::ShutdownNotEnabled => b"ERROR: shutdown not enabled\r\n",
            ErrorLine::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
        }
    }
}

/// Appends a number in decimal.
#[inline]
pub fn answer_number(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Appends the line before the value of a `get`.
#[inline]
pub fn answer_value_head(key: &[u8], flags: u32, length: usize, cas: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    answer_number(flags.into(), out);
    out.push(b' ');
    answer_number(length as u64, out);
    if let Some(cas) = cas {
        out.push(b' ');
        answer_number(cas, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Fields that a meta command's answer can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Version (c).
    pub cas: u64,
    /// Client flags (f).
    pub flags: u32,
    /// Seconds until it expires (t); `None`: never.
    pub left_s: Option<u32>,
    /// Seconds since the last access (l).
    pub idle_s: u32,
    /// True if the item was accessed before (h).
    pub fetched: bool,
    /// Bytes of the value (s).
    pub size: u32,
    /// True if the item is stale (X).
    pub stale: bool,
    /// True if this client is to refill the item (W).
    pub won: bool,
    /// True if another client is refilling it (Z).
    pub taken: bool,
}

/// The answer line of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaAnswer<'a> {
    /// `HD`, `NF` and so on.
    pub code: &'static [u8],
    /// Length of the value that follows; then the code is `VA`.
    pub length: Option<usize>,
    /// The key as shown.
    pub key: &'a [u8],
    /// True if the key is shown in base64.
    pub base64: bool,
    /// The flags of the command.
    pub flags: Flags<'a>,
    /// The item, if there is one.
    pub shown: Option<Shown>,
}

impl MetaAnswer<'_> {
    /// Appends the line.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self.length {
            Some(length) => {
                out.extend_from_slice(b"VA ");
                answer_number(length as u64, out);
            }
            None => out.extend_from_slice(self.code),
        }
        for flag in self.flags.iter() {
            match flag.letter {
                b'O' => {
                    out.extend_from_slice(b" O");
                    out.extend_from_slice(flag.token);
                }
                b'k' => {
                    out.extend_from_slice(b" k");
                    out.extend_from_slice(self.key);
                    if self.base64 {
                        out.extend_from_slice(b" b");
                    }
                }
                letter => self.show(letter, out),
            }
        }
        if let Some(Shown { stale, won, taken, .. }) = self.shown {
            let marks = [(taken, &b" Z"[..]), (stale, b" X"), (won, b" W")];
            marks.iter().filter(|(shown, _)| *shown).for_each(|(_, mark)| out.extend_from_slice(mark));
        }
        out.extend_from_slice(b"\r\n");
    }

    fn show(&self, letter: u8, out: &mut Vec<u8>) {
        let Some(shown) = &self.shown else { return };
        let value = match letter {
            b'c' => shown.cas,
            b'f' => shown.flags.into(),
            b't' => match shown.left_s {
                Some(left) => left.into(),
                None => return out.extend_from_slice(b" t-1"),
            },
            b'l' => shown.idle_s.into(),
            b'h' => shown.fetched.into(),
            b's' => shown.size.into(),
            _ => return,
        };
        out.extend_from_slice(&[b' ', letter]);
        answer_number(value, out);
    }
}
