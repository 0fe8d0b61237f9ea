//! Text for people: quantities with units, numbers of a report, suggestions for mistyped words.
//!
//! [`Quantity`] reads and writes sizes, times and rates exactly, [`format`](mod@format) rounds numbers for a reader, [`suggest`] finds the known word
//! nearest to a mistyped one. The crate is pure and does not know the subject of the text.

pub mod format;
mod quantity;
mod share;
pub mod suggest;

pub use quantity::Quantity;
pub use share::{PLAIN_SHARE_MAX, read_share, write_percent, write_share};

/// Reads a range of whole numbers, `FIRST-LAST` including both ends, or a single number. `None`: malformed, or LAST is before FIRST.
pub fn read_range(text: &str) -> Option<std::ops::Range<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
    (first <= last).then_some(first..last.checked_add(1)?)
}

/// Reads a range of bytes, `FROM-TO` with sizes such as 4096 or 1GiB, or `FROM-` without an end (`u64::MAX`). The end is exclusive. `None`:
/// malformed; the ends are not compared.
pub fn read_byte_range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    // Plain bytes may use all 64 bits.
    let size = |text: &str| text.parse().ok().or_else(|| Quantity::Size.read_text(text));
    let to = if to.is_empty() { u64::MAX } else { size(to)? };
    Some((size(from)?, to))
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_bytes_may_have_no_end() {
        for (text, range) in
            [("0-1MiB", Some((0, 1 << 20))), ("512-", Some((512, u64::MAX))), ("1-x", None), ("7", None)]
        {
            assert_eq!(read_byte_range(text), range, "{text}");
        }
    }

    #[test]
    fn a_range_has_both_ends() {
        for (text, range) in [("0-63", Some(0..64)), ("7", Some(7..8)), (" 3 - 3 ", Some(3..4))] {
            assert_eq!(read_range(text), range, "{text}");
        }
        for text in ["", "-", "5-3", "1-", "0-4294967295", "a-b", "-1"] {
            assert_eq!(read_range(text), None, "{text}");
        }
    }
}
