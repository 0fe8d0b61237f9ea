//! Requests for the drive, from their making to their end.
//!
//! Invariant: a token names one request at a time.

use super::{BlockRequest, RequestKind};
use crate::files::layout::Extent;
use std::collections::VecDeque;

/// Part of the host that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Page,
    Journal,
}

/// Requests for the drive.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    pending: Vec<(Purpose, RequestKind, Extent)>,
    idle_tokens: Vec<u32>,
    ready: VecDeque<BlockRequest>,
}

impl Requests {
    /// Makes a request, which is submitted when the processor has built it. Returns its token.
    pub fn make(&mut self, purpose: Purpose, kind: RequestKind, extent: Extent) -> u32 {
        let token = self.idle_tokens.pop().unwrap_or_else(|| {
            self.pending.push((purpose, kind, extent));
            self.pending.len() as u32 - 1
        });
        self.pending[token as usize] = (purpose, kind, extent);
        token
    }

    /// Submits a request that was made.
    pub fn submit(&mut self, token: u32) {
        let (_, kind, extent) = self.pending[token as usize];
        self.ready.push_back(BlockRequest { token, kind, extent });
    }

    /// Takes the next request for the drive.
    pub fn next_ready(&mut self) -> Option<BlockRequest> {
        self.ready.pop_front()
    }

    /// A request has ended: returns what it was.
    pub fn ended(&mut self, token: u32) -> (Purpose, RequestKind, Extent) {
        self.idle_tokens.push(token);
        self.pending[token as usize]
    }

    /// Returns whether some have not ended.
    pub fn are_under_way(&self) -> bool {
        self.pending.len() > self.idle_tokens.len()
    }
}
