//! What waits to be sent on a connection: small heads, copied, and whole data buffers, moved.
//!
//! ```text
//!  heads   |28 bytes|28 bytes|20|...            one growing buffer
//!  iovec  Head(28) Data(4096) Head(28) Data(4096) Head(20) ...
//! ```
//! What is to stand behind data waits apart until the next write, or until there are enough of them ([`Output::behind`]).
//!
//! Invariants: `heads[sent_heads..]` is exactly what the `Head` entries stand for, in order; no entry is empty.

use crate::engine::BATCH_MAX;
use crate::pool::Pool;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::ops::Range;

/// Entries handed to one vectored write: as many answers as are sent together, each head and data, and what stands behind them.
const SLICES_MAX: usize = 2 * BATCH_MAX + 8;
/// Sent heads that are kept in front of others before these are moved to the front.
const SENT_HEADS_MAX: usize = 64 << 10;
/// The memory for heads that is kept at rest.
const KEPT_HEADS_BYTES: usize = 16 << 10;
/// Data that may precede what is to be behind them: a peer that waits for that waits for all of them.
const AHEAD_BYTES_MAX: usize = 128 << 10;

enum Entry {
    /// So many bytes of `heads`.
    Head(usize),
    /// The part of an owned buffer that is still to be sent.
    Data(Vec<u8>, Range<usize>),
}

/// Bytes to be sent.
#[derive(Default)]
pub struct Output {
    heads: Vec<u8>,
    sent_heads: usize,
    iovec: VecDeque<Entry>,
    behind: Vec<u8>,
    /// Data added since the last of `behind` took their places.
    ahead_bytes: usize,
    /// Bytes of all these together.
    bytes: usize,
}

impl Output {
    /// Adds bytes by copying them; for heads and short answers.
    #[inline]
    pub fn head(&mut self, bytes: &[u8]) {
        self.encode(|out| out.extend_from_slice(bytes));
    }

    /// Adds what `encode` appends to the buffer it is given. It must only append.
    #[inline]
    pub fn encode(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let before = self.heads.len();
        encode(&mut self.heads);
        let added = self.heads.len() - before;
        if added == 0 {
            return;
        }
        self.bytes += added;
        match self.iovec.back_mut() {
            Some(Entry::Head(length)) => *length += added,
            _ => self.iovec.push_back(Entry::Head(added)),
        }
    }

    /// Adds bytes that go behind whatever else is added before the next write, as long as that is not too much, and behind what
    /// was added like this before.
    #[inline]
    pub fn behind(&mut self, bytes: &[u8]) {
        self.behind.extend_from_slice(bytes);
        self.bytes += bytes.len();
        if self.ahead_bytes >= AHEAD_BYTES_MAX {
            self.settle();
        }
    }

    /// What was to be behind takes its place: what is added from now on follows it.
    fn settle(&mut self) {
        self.ahead_bytes = 0;
        if self.behind.is_empty() {
            return;
        }
        let mut behind = std::mem::take(&mut self.behind);
        self.bytes -= behind.len();
        self.head(&behind);
        behind.clear();
        self.behind = behind;
    }

    /// Adds a whole buffer without copying it; it goes back to the pool when sent.
    #[inline]
    pub fn data(&mut self, buffer: Vec<u8>) {
        let range = 0..buffer.len();
        self.data_range(buffer, range);
    }

    /// Adds a part of a buffer without copying it.
    ///
    /// # Panics
    /// When the range passes the end of the buffer.
    #[inline]
    pub fn data_range(&mut self, buffer: Vec<u8>, range: Range<usize>) {
        assert!(range.end <= buffer.len(), "{range:?} of {} bytes", buffer.len());
        if range.is_empty() {
            return;
        }
        self.bytes += range.len();
        self.ahead_bytes += range.len();
        self.iovec.push_back(Entry::Data(buffer, range));
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// All bytes that wait, in one entry; for tests of a session without a socket.
    pub fn take_all(&mut self) -> Vec<u8> {
        self.settle();
        let mut bytes = Vec::with_capacity(self.bytes);
        let mut at = self.sent_heads;
        for entry in std::mem::take(self).entries_of(&mut at) {
            bytes.extend_from_slice(&entry);
        }
        bytes
    }

    fn entries_of(self, at: &mut usize) -> Vec<Vec<u8>> {
        let heads = self.heads;
        let entry = |entry| match entry {
            Entry::Head(length) => {
                *at += length;
                heads[*at - length..*at].to_vec()
            }
            Entry::Data(buffer, range) => buffer[range].to_vec(),
        };
        self.iovec.into_iter().map(entry).collect()
    }

    /// Writes until nothing is left or the socket takes no more; says whether nothing is left.
    ///
    /// # Errors
    /// Of the socket, except `WouldBlock` and `Interrupted`.
    pub fn write_to(&mut self, socket: &mut impl Write, pool: &mut Pool) -> io::Result<bool> {
        self.write_part(socket, pool, usize::MAX)
    }

    /// The same, of no more than `most` bytes; says whether the socket takes more.
    ///
    /// # Errors
    /// Of the socket, except `WouldBlock` and `Interrupted`.
    pub fn write_part(
        &mut self,
        socket: &mut impl Write,
        pool: &mut Pool,
        mut most: usize,
    ) -> io::Result<bool> {
        self.settle();
        while self.bytes > 0 && most > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.gather(&mut slices, most);
            match socket.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.sent(sent, pool);
                    most -= sent;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// The next bytes, at most `most`; in how many slices.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX], mut most: usize) -> usize {
        let mut at = self.sent_heads;
        let mut count = 0;
        for (entry, slice) in self.iovec.iter().zip(slices) {
            let bytes = match entry {
                Entry::Head(length) => {
                    at += length;
                    &self.heads[at - length..at]
                }
                Entry::Data(buffer, range) => &buffer[range.clone()],
            };
            *slice = IoSlice::new(&bytes[..bytes.len().min(most)]);
            count += 1;
            most -= bytes.len().min(most);
            if most == 0 {
                break;
            }
        }
        count
    }

    /// `sent` bytes are gone.
    fn sent(&mut self, mut sent: usize, pool: &mut Pool) {
        self.bytes -= sent;
        while sent > 0 {
            let entry = self.iovec.front_mut().expect("no more is sent than waits");
            let part = match entry {
                Entry::Head(length) => {
                    let part = sent.min(*length);
                    *length -= part;
                    self.sent_heads += part;
                    if *length > 0 { return } else { part }
                }
                Entry::Data(_, range) => {
                    let part = sent.min(range.len());
                    range.start += part;
                    if range.start < range.end { return } else { part }
                }
            };
            sent -= part;
            if let Some(Entry::Data(buffer, _)) = self.iovec.pop_front() {
                pool.give_back(buffer);
            }
        }
        if self.sent_heads == self.heads.len() {
            self.heads.clear();
            self.sent_heads = 0;
        } else if self.sent_heads > SENT_HEADS_MAX && self.sent_heads > self.heads.len() / 2 {
            self.heads.drain(..self.sent_heads);
            self.sent_heads = 0;
        }
    }

    /// Gives memory back that is not needed at rest.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            self.heads.shrink_to(KEPT_HEADS_BYTES);
            self.behind.shrink_to(KEPT_HEADS_BYTES);
            self.iovec.shrink_to(KEPT_HEADS_BYTES / size_of::<Entry>());
        }
    }

    /// Drops everything; buffers go back to the pool.
    pub fn discard(&mut self, pool: &mut Pool) {
        for entry in self.iovec.drain(..) {
            if let Entry::Data(buffer, _) = entry {
                pool.give_back(buffer);
            }
        }
        self.heads.clear();
        self.behind.clear();
        (self.sent_heads, self.ahead_bytes, self.bytes) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_follows_what_is_added_before_the_next_write() {
        let (mut output, mut pool, mut sent) = (Output::default(), Pool::default(), Vec::new());
        output.behind(b"1");
        output.head(b"a");
        output.data(b"bb".to_vec());
        output.behind(b"2");
        output.head(b"c");
        assert_eq!(output.bytes(), 6);
        assert!(output.write_to(&mut sent, &mut pool).expect("memory takes all"));
        output.head(b"d");
        output.behind(b"3");
        assert!(output.write_to(&mut sent, &mut pool).expect("memory takes all"));
        assert_eq!((&sent[..], output.is_empty()), (&b"abbc12d3"[..], true));
    }

    #[test]
    fn what_is_behind_does_not_wait_for_more_than_so_many_data() {
        let mut output = Output::default();
        for at in 0..4 {
            output.data(vec![at; AHEAD_BYTES_MAX / 2]);
            output.behind(&[0x80 + at]);
        }
        let mut runs = output.take_all();
        runs.dedup();
        assert_eq!(runs, [0, 1, 0x80, 0x81, 2, 3, 0x82, 0x83]);
    }
}
