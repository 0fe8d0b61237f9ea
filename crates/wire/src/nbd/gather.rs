//! Small helpers of the decoders: fixed-length messages that come in pieces, and a reader of big-endian fields.

/// Gathers messages of `N` bytes from input in any fragmentation.
#[derive(Clone, Debug)]
pub(super) struct Fixed<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> Fixed<N> {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; N], have: 0 }
    }

    /// The next whole message, taken off `input`.
    #[inline]
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if self.have == 0
            && let Some((message, rest)) = input.split_first_chunk::<N>()
        {
            *input = rest;
            return Some(*message);
        }
        let part = take(input, N - self.have);
        self.bytes[self.have..self.have + part.len()].copy_from_slice(part);
        self.have += part.len();
        if self.have < N {
            return None;
        }
        self.have = 0;
        Some(self.bytes)
    }
}

/// Cuts at most `most` bytes off the front of `input`.
#[inline]
pub(super) fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    front
}

/// Adds input to `buffer` until it holds `wanted` bytes; returns whether it does. Memory grows only with received bytes.
pub(super) fn fill(buffer: &mut Vec<u8>, wanted: usize, input: &mut &[u8]) -> bool {
    buffer.extend_from_slice(take(input, wanted.saturating_sub(buffer.len())));
    buffer.len() >= wanted
}

/// Reads fields off the front of a message; `None` when it is too short.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of the given length.
    pub(super) fn text(&mut self, length: usize) -> Option<&'a str> {
        let bytes = self.bytes(length)?;
        (length <= super::STRING_BYTES_MAX).then(|| str::from_utf8(bytes).ok())?
    }

    /// A string behind its u32 length.
    pub(super) fn counted_text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        self.text(length as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
