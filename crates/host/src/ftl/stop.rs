//! A clean end: the whole map goes to the media, so that the next start reads it and replays nothing.
//!
//! ```text
//!  stop ─► the ring is on the media ─► every translation page is written once more ─► index of the line that is open ─► stopped
//! ```
//! No mark says "clean", so none can be stale. A translation page carries its watermark: every program with a lower number is in it.
//! After a stop no line of data was written above the lowest watermark, so a start looks at none. Whatever is written
//! later has higher numbers and is replayed; a translation page that cannot be read has no watermark, and everything is replayed. A stop
//! that a power cut ends leaves what a cut at that moment leaves.
//!
//! The next start has to know where the translation pages are. Lines that are full say so in their end. The one that is still open gets an
//! *index* behind the last translation page: an end of what is there so far. It counts as long as nothing was written behind it. Without
//! one that counts and can be read, the start asks every sector of the line which page it holds.
//!
//! With a volatile contract there are no translation pages: a stop brings the data to the media, and the next start reads the lines' ends.

use super::line::End;
use super::{HostFtl, meta};
use pellucid_flash::DieId;
use pellucid_ftl::Stream;

/// Free lines that translation pages need: one to open, and one that GC keeps.
const FREE_MIN: u32 = 2;

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Waits until all of the ring is on the media and nothing is under way.
    Ring,
    /// The next translation page to be written.
    Map(u32),
    /// The index is on its way.
    Index,
    /// Everything is on the media and nothing is under way.
    Done,
}

impl HostFtl {
    /// Comes to rest.
    pub(super) fn begin_stop(&mut self) {
        self.stop = Some(Stop::Ring);
        self.moved = true;
        self.try_again();
    }

    /// Whether GC rests while a stop writes translation pages: a start would have to replay its copies. It works all the same where
    /// translation pages need the space.
    pub(super) fn rests(&self) -> bool {
        self.stop.is_some() && self.ftl.free_blocks() > FREE_MIN
    }

    /// Goes on with a stop.
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
                let saved = upto == self.ftl.map_pages() && !self.ftl.writes_map();
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

    /// Writes the index of the line that translation pages go to. If the index does not fit, it fills the line, which then gets its end.
    fn write_index(&mut self) {
        let Some((line, superpages)) = self.ftl.open_superpage(DieId(0), Stream::Meta) else { return };
        let record = &self.lines[line];
        // Not all is known of a line that a former life began and that was not read to its start.
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
