//! One namespace of a drive as seen from outside: sizes, content, counters. Reading changes nothing.
//!
//! A view of a number that no namespace has, or of one of another kind than a question is about, answers as the question says.

use crate::block::BlockNamespace;
use crate::block::placement::PlacementStatistics;
use crate::config::Feedback;
use crate::counters::Counters;
use crate::device::Device;
use crate::direct::chunks::ChunkNamespace;
use crate::namespaces::Namespace;
use pellucid_flash::{
    ChunkInfo, Figure, HandleInfo, Held, Lba, Lpn, Nanos, PlacementEvent, PlacementGeometry, Ppa,
};
use pellucid_ftl::{Cached, FtlCounters, Located, MountReport, NamelessMachine};

/// A namespace of a drive, by its number.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceView<'a> {
    device: &'a Device,
    number: u16,
}

impl<'a> NamespaceView<'a> {
    #[inline]
    pub(crate) fn new(device: &'a Device, number: u16) -> NamespaceView<'a> {
        NamespaceView { device, number }
    }

    #[inline]
    fn namespace(self) -> Option<&'a Namespace> {
        self.device.router.namespaces.get(usize::from(self.number))
    }

    #[inline]
    fn block(self) -> Option<&'a BlockNamespace> {
        self.namespace()?.block()
    }

    fn chunks(self) -> Option<&'a ChunkNamespace> {
        self.namespace()?.chunks()
    }

    /// Returns the content of a cache namespace; `None`: it is no cache.
    pub fn cached(self) -> Option<Cached> {
        self.block()?.translation().cached()
    }

    /// Returns the counters and the content of a cache namespace; empty if it is none.
    pub fn cache_figures(self) -> Vec<Figure> {
        let Some((block, cached)) = self.block().zip(self.cached()) else {
            return Vec::new();
        };
        let (counters, evicted) = (self.counters(), block.translation().view().counters.evicted_units);
        let held = u64::from(cached.clean) + u64::from(cached.dirty);
        vec![
            Figure::count(
                "drive_hits",
                "Reads that found all their blocks in the cache drive.",
                counters.host_reads,
            ),
            Figure::count("drive_absent_reads", "Reads that found a block absent.", counters.cache_misses),
            Figure::count(
                "drive_silent_evictions",
                "Clean blocks that the cache drive dropped by itself.",
                evicted,
            ),
            Figure::count("drive_clean_blocks", "Clean blocks in the cache drive.", cached.clean.into())
                .gauge(),
            Figure::count("drive_dirty_blocks", "Dirty blocks in the cache drive.", cached.dirty.into())
                .gauge(),
            Figure::count(
                "drive_capacity_blocks",
                "Dirty blocks that it holds at most.",
                cached.pages.into(),
            )
            .gauge(),
            Figure::bytes("drive_table_bytes", "Memory of the cache drive's table.", cached.table_bytes)
                .gauge(),
            Figure::bytes(
                "drive_table_block_bytes",
                "Memory of the cache drive's table for each block that it holds now, rounded up.",
                cached.table_bytes.div_ceil(held.max(1)),
            )
            .gauge(),
        ]
    }

    /// Host sectors of a block namespace; 0 for any other.
    pub fn capacity_sectors(self) -> u64 {
        self.block().map_or(0, |block| block.capacity_sectors(&self.device.router.shared.layout))
    }

    /// Announces that a command for `lba` will come soon. Changes nothing but the simulator's own speed.
    #[inline]
    pub fn prefetch(self, lba: Lba) {
        if let Some(block) = self.block() {
            block.prefetch(Lpn(self.device.router.shared.layout.unit_of(lba.0).0));
        }
    }

    /// Announces an imminent read at `lba`, whose map entry should have been [prefetched](NamespaceView::prefetch). Reads of one batch are
    /// all prefetched before the first is submitted, so that their memory accesses overlap.
    #[inline]
    pub fn prefetch_read(self, lba: Lba) {
        let Some(block) = self.block() else { return };
        if lba.0 >= block.capacity_sectors(&self.device.router.shared.layout) {
            return;
        }
        let place = block.translation().peek(Lpn(self.device.router.shared.layout.unit_of(lba.0).0));
        if let Located::At(ppa) = place {
            self.device.router.shared.media.array().touch(ppa);
        }
    }

    /// As [`Device::is_read_only`], of this namespace.
    pub fn takes_no_writes(self) -> bool {
        self.namespace().is_some_and(Namespace::takes_no_writes)
    }

    /// Returns the address of the newest programmed copy of a logical page; `None` if the page was never written, was trimmed, or is
    /// beyond the end.
    pub fn locate(self, lpn: Lpn) -> Option<Ppa> {
        self.block()?.locate(lpn)
    }

    /// Returns whether a logical page holds data: programmed (and perhaps lost), or written and still in the buffer. A page without data
    /// reads as zeros.
    pub fn is_mapped(self, lpn: Lpn) -> bool {
        self.block().is_some_and(|block| block.is_mapped(lpn))
    }

    /// Returns whether a logical page holds data, and the page up to which the same answer is known to
    /// hold.
    pub fn held(self, lpn: Lpn) -> Held {
        let nothing = Held { holds: false, until: u64::MAX, looks: 1 };
        self.block().map_or(nothing, |block| block.held(lpn))
    }

    /// Returns the translation counters since the drive was made; zeros without a translation.
    pub fn ftl_counters(self) -> FtlCounters {
        self.block().map_or_else(FtlCounters::default, |block| block.translation().view().counters)
    }

    /// Returns the counters since the drive was made.
    pub fn counters(self) -> Counters {
        self.device.router.shared.tally.copy_of(self.number)
    }

    /// Erased blocks that are waiting.
    pub fn free_blocks(self) -> u32 {
        self.namespace().map_or(0, Namespace::free_blocks)
    }

    /// As [`Device::last_mount`], of this namespace.
    pub fn last_mount(self) -> Option<(MountReport, Nanos)> {
        self.device.timed(self.block()?.mounted()?)
    }

    /// Chunks `first..first + count` of an open-channel namespace, as far as they exist; empty for any other namespace.
    pub fn chunk_infos(self, first: u32, count: u32) -> impl Iterator<Item = ChunkInfo> + use<'a> {
        self.chunks().into_iter().flat_map(move |n| {
            let end = first.saturating_add(count).min(n.chunks.count());
            (first..end).map(|number| n.chunks.info(number))
        })
    }

    /// The machine of a nameless namespace; `None` for any other namespace.
    pub fn nameless(self) -> Option<&'a NamelessMachine> {
        self.namespace()?.nameless().map(|n| &n.machine)
    }

    /// Returns the feedback settings of an open-channel namespace; `None` for any other namespace.
    pub fn feedback(self) -> Option<Feedback> {
        self.chunks().map(|n| n.feedback)
    }

    /// Wear-level index delta threshold of an open-channel namespace (WIT of its geometry): the gap in the wear index between chunks of a
    /// parallel unit from which on the host is told of it. 0: it is not, or it is no such namespace.
    pub fn wear_threshold(self) -> u8 {
        self.chunks().map_or(0, |n| {
            let gap = n.feedback.wear_gap;
            n.chunks.wear_index(gap).max(u8::from(gap > 0))
        })
    }

    /// Returns the placement geometry that a host sees; `None`: the namespace has one handle, which is no placement.
    pub fn placement(self) -> Option<PlacementGeometry> {
        self.block()?.geometry(&self.device.router.shared.layout)
    }

    /// State of a handle; `None` if there is no such handle.
    pub fn handle_info(self, handle: u16) -> Option<HandleInfo> {
        self.block()?.handle_info(&self.device.router.shared.layout, handle)
    }

    /// Returns the events of the handles of a namespace, oldest first; the newest 1024.
    pub fn placement_events(self) -> impl DoubleEndedIterator<Item = &'a PlacementEvent> + use<'a> {
        self.block().into_iter().flat_map(|block| block.placement().events())
    }

    /// Kinds of events that a namespace keeps, a [bit](pellucid_flash::PlacementEventKind::bit) for each.
    pub fn enabled_placement_events(self) -> u8 {
        self.block().map_or(0, |block| block.placement().enabled())
    }

    /// Returns the bytes written, erased and read for a block namespace since the counters were last reset.
    pub fn placement_statistics(self) -> PlacementStatistics {
        let block = self.block();
        block
            .map_or_else(PlacementStatistics::default, |n| n.placement_statistics(&self.device.router.shared))
    }
}
