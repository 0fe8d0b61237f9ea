//! Text for people: quantities with units, numbers of a report, suggestions for mistyped words.
//!
//! [`Quantity`] reads and writes sizes, times and rates exactly, [`format`](mod@format) rounds numbers for a reader, [`suggest`] finds the known
//! word nearest to a mistyped one. Pure: the crate does not know the subject of the text.

pub mod format;
mod quantity;
mod share;
pub mod suggest;

pub use quantity::Quantity;
pub use share::{PLAIN_SHARE_MAX, read_share, write_share};

/// Quotes a word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
