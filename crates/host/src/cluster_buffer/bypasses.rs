//! Bypasses: the commands that are with the drive past the buffer, and the clusters that they block.
//!
//! Invariant: no two bypasses under way share a cluster.

/// Command that bypasses the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bypass {
    op: u32,
    first: u64,
    last: u64,
    /// Moment at which the drive completed it; reads that began earlier may still return older data.
    done_at: Option<u64>,
}

/// Commands that bypass the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Bypasses {
    under_way: Vec<Bypass>,
}

impl Bypasses {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Reports whether one of these clusters is bypassed.
    #[inline]
    pub fn overlaps(&self, first: u64, last: u64) -> bool {
        self.under_way.iter().any(|bypass| bypass.first <= last && first <= bypass.last)
    }

    pub fn begin(&mut self, op: u32, first: u64, last: u64) {
        assert!(first <= last && !self.overlaps(first, last), "two commands bypass one cluster");
        self.under_way.push(Bypass { op, first, last, done_at: None });
    }

    /// Notes that the drive completed a bypass at `moment`.
    pub fn done(&mut self, op: u32, moment: u64) {
        let bypass = self.under_way.iter_mut().find(|bypass| bypass.op == op).expect("it is under way");
        assert!(bypass.done_at.is_none(), "a bypass is completed once");
        bypass.done_at = Some(moment);
    }

    /// Ends a bypass that the drive failed.
    pub fn fail(&mut self, op: u32) {
        self.under_way.retain(|bypass| bypass.op != op);
    }

    /// Ends a completed bypass once no earlier read of its clusters is in flight (`is_read`).
    pub fn next_settled(&mut self, is_read: impl Fn(u64, u64, u64) -> bool) -> Option<u32> {
        let is_settled = |bypass: &Bypass| {
            bypass.done_at.is_some_and(|moment| !is_read(moment, bypass.first, bypass.last))
        };
        let at = self.under_way.iter().position(is_settled)?;
        Some(self.under_way.swap_remove(at).op)
    }
}
