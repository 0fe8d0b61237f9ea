//! Acknowledged data that were lost, and the flushes that have to say so.
//!
//! A flush promises all writes that were acknowledged before it. So a loss fails each of them that has not ended: the one in progress, if
//! it waits for these data, and all that wait behind it. If none is there to say it, the next one does.

/// So many of the flushes that begin from now on fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses(usize);

impl Losses {
    /// Data are lost while so many flushes wait. `untold`: the flush in progress, if any, does not fail for it.
    pub fn note(&mut self, waiting: usize, untold: bool) {
        self.0 = self.0.max(waiting).max(usize::from(untold));
    }

    /// A flush begins: whether it fails.
    pub fn tell(&mut self) -> bool {
        let fails = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        fails
    }

    /// So many flushes that waited have failed for another reason.
    pub fn told(&mut self, flushes: usize) {
        self.0 = self.0.saturating_sub(flushes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flush_behind_the_data_says_it_and_no_other() {
        let mut losses = Losses::default();
        assert!(!losses.tell());
        losses.note(0, false);
        assert!(!losses.tell(), "the one in progress said it");
        losses.note(0, true);
        assert_eq!([losses.tell(), losses.tell()], [true, false]);
        losses.note(2, false);
        losses.note(1, true);
        assert_eq!([losses.tell(), losses.tell(), losses.tell()], [true, true, false]);
        losses.note(3, true);
        losses.told(2);
        assert_eq!([losses.tell(), losses.tell()], [true, false]);
    }
}
