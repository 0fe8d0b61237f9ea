//! Pending output of a connection: small headers, which are copied, and whole data buffers, which are
//! moved.
//!
//! ```text
//!  heads   |28 bytes|28 bytes|20|...            one growing buffer
//!  iovec  Head(28) Data(4096) Head(28) Data(4096) Head(20) ...
//! ```
//! Bytes that must follow the data wait separately until the next write, or until enough data precede them
//! ([`Output::behind`]).
//!
//! Invariants: `heads[sent_heads..]` holds exactly the bytes of the `Head` entries, in order; no entry is
//! empty.

use crate::pool::Pool;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::ops::Range;

/// Maximum entries of one vectored write: one batch of answers, each with head and data, plus the bytes that
/// follow them.
/// Answers that are worth sending together; a server need not gather more.
pub const BATCH_MAX: usize = 96;
const SLICES_MAX: usize = 2 * BATCH_MAX + 8;
/// Sent heads kept at the front of the buffer before the rest is moved to the front.
const SENT_HEADS_MAX: usize = 64 << 10;
/// Memory for heads that an idle connection keeps.
const KEPT_HEADS_BYTES: usize = 16 << 10;
/// Maximum data ahead of the bytes that must follow them, since a peer that waits for those bytes waits for
/// all the data.
const AHEAD_BYTES_MAX: usize = 128 << 10;

enum Entry {
    /// A number of bytes of `heads`.
    Head(usize),
    /// The unsent part of an owned buffer.
    Data(Vec<u8>, Range<usize>),
}

/// Pending output of a connection.
#[derive(Default)]
pub struct Output {
    heads: Vec<u8>,
    sent_heads: usize,
    iovec: VecDeque<Entry>,
    behind: Vec<u8>,
    /// Data added since the bytes of `behind` were last placed.
    ahead_bytes: usize,
    /// Total pending bytes.
    bytes: usize,
}

impl Output {
    /// Adds bytes by copying; meant for heads and short answers.
    #[inline]
    pub fn head(&mut self, bytes: &[u8]) {
        self.encode(|out| out.extend_from_slice(bytes));
    }

    /// Adds the bytes that `encode` appends to the given buffer. It must only append.
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

    /// Adds bytes that follow all other output added before the next write, within a limit, and earlier bytes
    /// added by this method.
    #[inline]
    pub fn behind(&mut self, bytes: &[u8]) {
        self.behind.extend_from_slice(bytes);
        self.bytes += bytes.len();
        if self.ahead_bytes >= AHEAD_BYTES_MAX {
            self.settle();
        }
    }

    /// Places the bytes of `behind`: later output follows them.
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

    /// Adds a whole buffer without copying; it returns to the pool when sent.
    #[inline]
    pub fn data(&mut self, buffer: Vec<u8>) {
        let range = 0..buffer.len();
        self.data_range(buffer, range);
    }

    /// Adds a part of a buffer without copying.
    ///
    /// # Panics
    /// Panics if the range exceeds the buffer.
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

    /// Number of pending bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Takes all pending bytes in one vector, for tests of a session without a socket.
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

    /// Writes until nothing is left or the socket is full; returns true if nothing is left.
    ///
    /// # Errors
    /// Returns errors of the socket, except `WouldBlock` and `Interrupted`.
    pub fn write_to(&mut self, socket: &mut impl Write, pool: &mut Pool) -> io::Result<bool> {
        self.write_part(socket, pool, usize::MAX)
    }

    /// Writes at most `most` bytes; returns true if the socket takes more.
    ///
    /// # Errors
    /// Returns errors of the socket, except `WouldBlock` and `Interrupted`.
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

    /// Gathers the next bytes, at most `most`; returns the number of slices.
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

    /// Removes `sent` bytes from the front.
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

    /// Releases memory that an idle connection does not need.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.heads.shrink_to(KEPT_HEADS_BYTES);
            self.behind.shrink_to(KEPT_HEADS_BYTES);
            self.iovec.shrink_to(KEPT_HEADS_BYTES / size_of::<Entry>());
        }
    }

    /// Drops all output; buffers return to the pool.
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
