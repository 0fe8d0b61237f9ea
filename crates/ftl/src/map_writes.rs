//! Translation pages on their way to the media: which are wanted, and which are being programmed.
//!
//! ```text
//!  add ─► wanted ── planned with others, their content taken then ─► planned ─┬─ ended well ─► gone
//!            ▲                                                                │
//!            └────────────────────────────── failed ──────────────────────────┘
//! ```
//! Invariants: a page stands at most once among the wanted and at most once among the planned. Two versions of one page
//! are never in flight together.

use pellucid_flash::Cause;

/// A translation page on its way to the media.
#[derive(Clone, Debug)]
struct MapWrite {
    page: u32,
    image: Vec<u8>,
    planned: bool,
    cause: Cause,
}

/// The translation pages on their way, in the order in which they were asked for as far as none has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapWrites {
    writes: Vec<MapWrite>,
    /// Images of pages that have ended, used again.
    images: Vec<Vec<u8>>,
}

impl MapWrites {
    /// Pages on their way.
    #[inline]
    pub fn count(&self) -> usize {
        self.writes.len()
    }

    /// Whether some wait for their program.
    pub fn any_wanted(&self) -> bool {
        self.writes.iter().any(|w| !w.planned)
    }

    /// Whether what waits for its program is less than a stripe, and GC alone has asked for it.
    pub fn can_wait(&self, per_stripe: u32) -> bool {
        let wanted = || self.writes.iter().filter(|w| !w.planned);
        wanted().count() < per_stripe as usize && wanted().all(|w| w.cause != Cause::Journal)
    }

    /// Wants a page written. One that is wanted already will carry the newest content anyway.
    pub fn add(&mut self, page: u32, cause: Cause) {
        match self.writes.iter_mut().find(|w| w.page == page && !w.planned) {
            Some(write) if cause != Cause::Journal => write.cause = cause,
            Some(_) => {}
            None => {
                let image = self.images.pop().unwrap_or_default();
                self.writes.push(MapWrite { page, image, planned: false, cause });
            }
        }
    }

    /// The next stripe of wanted pages, at most `per_stripe` of them, as numbers for the calls below.
    pub fn next_batch(&self, per_stripe: u32) -> Vec<usize> {
        let running = |page| self.writes.iter().any(|w| w.page == page && w.planned);
        let may = |at: &usize| !self.writes[*at].planned && !running(self.writes[*at].page);
        (0..self.writes.len()).filter(may).take(per_stripe as usize).collect()
    }

    /// Page and cause of a write.
    pub fn wanted(&self, at: usize) -> (u32, Cause) {
        (self.writes[at].page, self.writes[at].cause)
    }

    /// The program of a write is planned: the memory for its content.
    pub fn planned(&mut self, at: usize) -> &mut Vec<u8> {
        self.writes[at].planned = true;
        &mut self.writes[at].image
    }

    /// The content of a page that is being programmed.
    pub fn image(&self, page: u32) -> &[u8] {
        let write = self.writes.iter().find(|w| w.page == page && w.planned);
        &write.expect("a program of a translation page without its content").image
    }

    /// The program of a page has ended; a failed one is wanted again.
    pub fn ended(&mut self, page: u32, ok: bool) {
        let at = self.writes.iter().position(|w| w.page == page && w.planned);
        let at = at.expect("a program of a translation page ended that was not planned");
        if ok {
            let write = self.writes.swap_remove(at);
            self.images.push(write.image);
        } else {
            self.writes[at].planned = false;
        }
    }
}
