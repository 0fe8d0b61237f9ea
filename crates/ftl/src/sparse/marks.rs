//! Number of pages of each region that a mount may find dirty.
//!
//! A spare area records permanently that its copy was written dirty. So a page that was cleaned and dropped, or evicted, reappears as
//! dirty after a power cut, until its region's translation page has been written without it, or its block has been erased. A region must
//! not have more such pages than slots, or a mount could not tell which of them to keep.
//!
//! ```text
//!  marked (has a slot) ─┬─► departed ─► the translation page, with a watermark behind the departure, is on the media ─► gone
//!                       └─► departed with a block whose pages the translation page outdates ─► the block is erased ───► gone
//! ```

/// Counts of one region.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Marked pages with a slot.
    marked: u32,
    /// Marked pages without a slot, until the translation page is written.
    departed: u32,
    /// Marked pages without a slot, until their blocks are erased.
    erasing: u32,
    /// Departed pages that the latest image of the translation page leaves out.
    imaged: u32,
    /// Next sequence number at the time of the last departure.
    departed_at: u64,
}

/// Pages that a mount may find dirty, counted by region.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    regions: Vec<Region>,
    slots: u32,
    sequence: u64,
}

impl Marks {
    pub(super) fn new(regions: u32, slots: u32) -> Marks {
        Marks { regions: vec![Region::default(); regions as usize], slots, sequence: 0 }
    }

    /// Sets the next sequence number of a program.
    #[inline]
    pub fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Returns whether one more page of `region` may become dirty.
    pub(super) fn has_space(&self, region: u32) -> bool {
        let Region { marked, departed, erasing, .. } = self.regions[region as usize];
        marked + departed + erasing < self.slots
    }

    /// Returns whether writing the translation page of `region` frees entries.
    pub fn any_departed(&self, region: u32) -> bool {
        self.regions[region as usize].departed > 0
    }

    pub(super) fn marked(&mut self, region: u32) {
        self.regions[region as usize].marked += 1;
    }

    /// Records that a marked page has lost its slot.
    pub(super) fn departed(&mut self, region: u32) {
        let region = &mut self.regions[region as usize];
        region.marked -= 1;
        region.departed += 1;
        region.departed_at = self.sequence;
    }

    /// Moves the last departure to those that end when their block is erased.
    pub fn leaves_with_block(&mut self, region: u32) {
        let region = &mut self.regions[region as usize];
        region.departed -= 1;
        region.erasing += 1;
    }

    /// Records the erase of a block with such a page.
    pub fn erased(&mut self, region: u32) {
        self.regions[region as usize].erasing -= 1;
    }

    /// Records that the content of the translation page of `region` was taken: it reflects every program below `watermark`.
    pub fn imaged(&mut self, region: u32, watermark: u64) {
        let region = &mut self.regions[region as usize];
        region.imaged = if watermark >= region.departed_at { region.departed } else { 0 };
    }

    /// The last imaged translation page of `region` is on the media.
    pub fn saved(&mut self, region: u32) {
        let region = &mut self.regions[region as usize];
        region.departed -= std::mem::take(&mut region.imaged);
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.regions.len() * size_of::<Region>()) as u64
    }

    /// Panics unless the counts of marked pages with a slot are these, by region.
    pub(super) fn check(&self, marked: &[u32]) {
        let counted: Vec<u32> = self.regions.iter().map(|region| region.marked).collect();
        assert_eq!(counted, marked, "marked pages by region");
    }
}
