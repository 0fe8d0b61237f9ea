//! Figures about a cache's contents, and the mark for dirty pages in the spare area; used by both translations of a cache.

use pellucid_flash::Lpn;

/// In the spare area, and in translation pages: the page is dirty.
const DIRTY: u32 = 1 << 31;

/// Page that an entry of a spare area or translation page names, without its dirty flag.
#[inline]
pub(crate) fn page_of_mark(mark: Lpn) -> Lpn {
    if mark == Lpn::NONE { mark } else { Lpn(mark.0 & !DIRTY) }
}

/// Entry of a spare area or translation page for `lpn`, `dirty` or not.
#[inline]
pub(crate) fn mark_of(lpn: Lpn, dirty: bool) -> Lpn {
    if dirty { Lpn(lpn.0 | DIRTY) } else { lpn }
}

/// Pages of a cache, as reports show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Most pages that the cache holds, all of them dirty. With log blocks that takes whole logical blocks: one dirty page of a logical
    /// block takes as much as all of them.
    pub pages: u32,
    /// Pages that are clean.
    pub clean: u32,
    /// Pages that are dirty.
    pub dirty: u32,
    /// Bytes of memory for the table.
    pub table_bytes: u64,
}
