//! Requests to the drive, from creation to end.
//!
//! Invariant: a token names one request at a time.

use super::{BlockRequest, RequestKind};
use crate::files::layout::Extent;
use std::collections::VecDeque;

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Page,
    Journal,
}

/// Requests to the drive.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    pending: Vec<(Purpose, RequestKind, Extent)>,
    idle_tokens: Vec<u32>,
    ready: VecDeque<BlockRequest>,
}

impl Requests {
    /// Creates a request, submitted after its processor time. Returns its token.
    pub fn make(&mut self, purpose: Purpose, kind: RequestKind, extent: Extent) -> u32 {
        let token = self.idle_tokens.pop().unwrap_or_else(|| {
            self.pending.push((purpose, kind, extent));
            self.pending.len() as u32 - 1
        });
        self.pending[token as usize] = (purpose, kind, extent);
        token
    }

    /// Submits a created request.
    pub fn submit(&mut self, token: u32) {
        let (_, kind, extent) = self.pending[token as usize];
        self.ready.push_back(BlockRequest { token, kind, extent });
    }

    /// Takes the next request for the drive.
    pub fn next_ready(&mut self) -> Option<BlockRequest> {
        self.ready.pop_front()
    }

    /// Ends a request, and returns its content.
    pub fn ended(&mut self, token: u32) -> (Purpose, RequestKind, Extent) {
        self.idle_tokens.push(token);
        self.pending[token as usize]
    }

    /// Reports whether requests are unfinished.
    pub fn are_under_way(&self) -> bool {
        self.pending.len() > self.idle_tokens.len()
    }
}
