//! Record of a block: what it holds, and when it was last filled and changed.

use pellucid_flash::BlockStream;

/// Record of a block, which is used once in a block's life. Meaningful while the block holds anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    closed_at: u64,
    touched_at: u64,
    meta: bool,
    owner: u16,
    stream: BlockStream,
    trim: u64,
}

impl Record {
    /// Number of the next program when the block was full and settled: those of its own programs are lower.
    pub fn closed_at(&self) -> u64 {
        self.closed_at
    }

    /// Sequence number at which a copy in it became invalid, where the victim policy asks for that.
    pub fn touched_at(&self) -> u64 {
        self.touched_at
    }

    /// Returns whether the block holds translation pages.
    pub fn is_meta(&self) -> bool {
        self.meta
    }

    /// The placement handle whose data the block holds.
    pub fn owner(&self) -> u16 {
        self.owner
    }

    /// Number of the last trim that invalidated a copy in the block.
    pub fn last_trim(&self) -> u64 {
        self.trim
    }

    /// Stream that opened the block, for observers.
    pub(super) fn stream(&self) -> BlockStream {
        self.stream
    }

    pub(super) fn close(&mut self, sequence: u64) {
        (self.closed_at, self.touched_at) = (sequence, sequence);
    }

    pub(super) fn touch(&mut self, sequence: u64) {
        self.touched_at = sequence;
    }

    pub(super) fn set_kind(&mut self, meta: bool, owner: u16, stream: BlockStream) {
        (self.meta, self.owner, self.stream) = (meta, owner, stream);
    }

    pub(super) fn set_last_trim(&mut self, trim: u64) {
        self.trim = trim;
    }
}
