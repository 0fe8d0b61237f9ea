//! Host data turned away by dies while GC paces them ([`crate::pace`]): records whom to notify when GC has
//! progressed.

use pellucid_flash::DieId;

/// Host data that were turned away for pacing.
#[derive(Clone, Debug)]
pub(crate) struct TurnedAway {
    /// Dies that turned host data away until their GC has gone on.
    waited_for: Vec<bool>,
    /// GC has made space for host data that were turned away.
    released: bool,
}

impl TurnedAway {
    /// Creates the state of a drive that has turned nothing away.
    pub fn new(dies: u32) -> TurnedAway {
        TurnedAway { waited_for: vec![false; dies as usize], released: false }
    }

    /// Records that `die` has turned host data away; `until_gc`: until its GC has gone on.
    pub fn turn_away(&mut self, die: DieId, until_gc: bool) {
        self.waited_for[die.0 as usize] = until_gc;
    }

    /// Records that the GC of `die` has gone on; returns whether host data waited for that.
    pub fn went_on(&mut self, die: DieId) -> bool {
        let waited = std::mem::take(&mut self.waited_for[die.0 as usize]);
        self.released |= waited;
        waited
    }

    /// Returns whether a die that had turned host data away may have gained space since the last call, though no block has come free.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.released)
    }
}
