//! Clean stop: the whole map goes to the media, so that the next start reads it and replays nothing.
//!
//! ```text
//!  stop ─► the ring is on the media ─► every translation page is written once more ─► index of the line that is open ─► stopped
//! ```
//! There is no "clean" flag that could become stale. A translation page carries its watermark: it covers
//! every program with a lower number. After a stop, no line of data has a number above the lowest watermark,
//! so a start examines none. Later writes have higher numbers and are replayed. An unreadable translation
//! page has no watermark, so everything is replayed. A power cut during a stop leaves the same state as one
//! at any other time.
//!
//! The next start has to find the translation pages. Full lines list them in their ends. The line that is
//! still open gets an *index* after its last translation page: an end of the content so far. It is valid
//! until the next write to the line. Without a valid and readable index, the start reads the page of every
//! sector of the line.
//!
//! With volatile durability there are no translation pages: a stop writes the data to the media, and the next
//! start reads the lines' ends.

use super::line::End;
use super::{HostFtl, meta};
use pellucid_flash::DieId;
use pellucid_ftl::Stream;

/// Number of free lines that translation pages need: one to open, and one that GC keeps.
const FREE_MIN: u32 = 2;

/// Progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Waiting until the whole ring is on the media and nothing is under way.
    Ring,
    /// Writing translation pages, from this one on.
    Map(u32),
    /// Writing the index.
    Index,
    /// Stopped: everything is on the media and nothing is under way.
    Done,
}

impl HostFtl {
    /// Begins a stop.
    pub(super) fn begin_stop(&mut self) {
        self.stop = Some(Stop::Ring);
        self.moved = true;
        self.try_again();
    }

    /// Reports whether GC pauses while a stop writes translation pages, because a start would have to replay
    /// its copies. GC continues if translation pages need the space.
    pub(super) fn rests(&self) -> bool {
        self.stop.is_some() && self.ftl.blocks().free() > FREE_MIN
    }

    /// Continues a stop.
    pub(super) fn continue_stop(&mut self) {
        match self.stop {
            Some(Stop::Ring) => {
                let all = self.ring.mem;
                if self.ring.sync < all {
                    self.moved |= self.ring.flush_point < all;
                    self.ring.flush_point = all;
                } else if self.outstanding == 0 {
                    self.stop = Some(Stop::Map(0));
                    self.moved = true;
                }
            }
            Some(Stop::Map(next)) => {
                let upto = self.ftl.save_map(next);
                self.stop = Some(Stop::Map(upto));
                if upto > next {
                    self.moved = true;
                    self.write_map();
                }
                let saved = upto == self.ftl.map_progress().pages && self.ftl.map_progress().under_way == 0;
                if saved && self.outstanding == 0 {
                    self.stop = Some(Stop::Index);
                    self.moved = true;
                    self.write_index();
                }
            }
            Some(Stop::Index) if self.outstanding == 0 => {
                self.flushes.index = Vec::new();
                self.stop = Some(Stop::Done);
            }
            _ => {}
        }
    }

    /// Writes the index of the line that translation pages go to. If the index does not fit, padding fills
    /// the line, which then gets its end.
    fn write_index(&mut self) {
        let Some((line, superpages)) = self.ftl.open_superpage(DieId(0), Stream::Meta) else { return };
        let record = &self.lines[line];
        // The content is not completely known if an earlier run began the line and the start did not read all
        // of it.
        let known = record.end.as_ref().filter(|end| record.broken.is_empty() && end.sequences[0] > 0);
        let Some(end) = known.filter(|_| superpages > 0) else { return };
        let (per_superpage, all) = (self.lines.superpage_sectors, self.lines.layout().superpages_per_block);
        let needed = self.lines.record_superpages(superpages);
        if superpages + needed > all {
            (superpages..all).for_each(|_| self.plan_index(0..0));
            return;
        }
        let so_far = End {
            sequences: end.sequences[..superpages as usize].to_vec(),
            pages: end.pages[..(superpages * per_superpage) as usize].to_vec(),
        };
        self.flushes.index.clear();
        if self.keeps_content() {
            self.flushes.index = meta::end(self.config.uuid, line, &so_far);
        }
        self.flushes.index.resize((needed * per_superpage) as usize * self.image_bytes, 0);
        for superpage in 0..needed {
            self.plan_index(superpage * per_superpage..(superpage + 1) * per_superpage);
        }
    }
}
