//! Answers waiting for their callers, and buffers for values.

use crate::{Answer, Outcome};
use pellucid_flash::SimTime;
use std::collections::VecDeque;

/// Maximum bytes of value buffers that are kept, and of one of them.
const VALUES_BYTES_MAX: usize = 16 << 20;
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Answers and value buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    waiting: VecDeque<Answer>,
    values: Vec<Vec<u8>>,
    /// Bytes of the kept buffers.
    values_bytes: usize,
    /// Buffer for appends.
    scratch: Vec<u8>,
}

impl Answers {
    #[inline]
    pub fn push(&mut self, tag: u32, at: SimTime, outcome: Outcome) {
        self.waiting.push_back(Answer { tag, at, outcome });
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Answer> {
        self.waiting.pop_front()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps the waiting answers, without buffers.
    pub fn kept(self) -> Answers {
        Answers { waiting: self.waiting, ..Answers::default() }
    }

    /// Returns an empty value buffer.
    #[inline]
    pub fn buffer(&mut self) -> Vec<u8> {
        let value = self.values.pop().unwrap_or_default();
        self.values_bytes -= value.capacity();
        value
    }

    /// Takes back a value buffer.
    #[inline]
    pub fn give_back(&mut self, mut value: Vec<u8>) {
        let bytes = value.capacity();
        if (1..=VALUE_BYTES_MAX).contains(&bytes) && self.values_bytes + bytes <= VALUES_BYTES_MAX {
            value.clear();
            self.values_bytes += bytes;
            self.values.push(value);
        }
    }

    /// Returns an empty buffer for joining two values.
    pub fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch
    }

    /// Takes the joining buffer back.
    pub fn give_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }
}
