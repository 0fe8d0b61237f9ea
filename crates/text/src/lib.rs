//! Text for people: quantities with units, numbers of a report, suggestions for mistyped words.
//!
//! [`Quantity`] reads and writes sizes, times and rates exactly, [`format`](mod@format) rounds numbers for a reader, [`suggest`] finds the known
//! word nearest to a mistyped one. Pure: the crate does not know the subject of the text.

pub mod format;
mod quantity;
mod share;
pub mod suggest;

pub use quantity::Quantity;
pub use share::{PLAIN_SHARE_MAX, read_share, write_percent, write_share};

/// Reads a range of whole numbers, `FIRST-LAST` with both ends, or one number alone. `None`: it is none, or it is turned around.
pub fn read_range(text: &str) -> Option<std::ops::Range<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
    (first <= last).then_some(first..last.checked_add(1)?)
}

/// Quotes a word as a shell takes it.
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
    fn a_range_has_both_ends() {
        for (text, range) in [("0-63", Some(0..64)), ("7", Some(7..8)), (" 3 - 3 ", Some(3..4))] {
            assert_eq!(read_range(text), range, "{text}");
        }
        for text in ["", "-", "5-3", "1-", "0-4294967295", "a-b", "-1"] {
            assert_eq!(read_range(text), None, "{text}");
        }
    }
}
