//! Copies that are no longer needed give their memory back, where data are in memory; their blocks are erased much later.
//!
//! A copy is dead when its successor is on the media, or its page was trimmed. Earlier reads of it may still be in flight, so its data
//! are discarded only after all of these have ended. Reads belong to the epoch in which they began:
//!
//! ```text
//!  copies that die in epoch n wait ──► the reads of epochs before n have ended: epoch n + 1 begins
//!                                      the reads of epoch n have ended, too:    forgotten, epoch n + 2 begins
//! ```
//! Invariants: reads under way are of this epoch or the last; a block that was erased meanwhile holds other data, which are left alone.

use super::media_side::MediaSide;
use crate::shared::Shared;
use pellucid_flash::Ppa;
use pellucid_ftl::Outdated;
use pellucid_media::Remains;

/// Copies that wait, and the reads that they wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discards {
    /// This epoch, modulo 2.
    epoch: u8,
    /// Reads under way, by epoch.
    reads: [u32; 2],
    /// Copies that died, by epoch: what remains of them, and how often their block had been erased.
    dead: [Vec<(Ppa, Remains, u32)>; 2],
}

impl Discards {
    /// A read of a copy begins; gives its epoch.
    #[inline]
    pub fn read_begins(&mut self) -> u8 {
        self.reads[usize::from(self.epoch)] += 1;
        self.epoch
    }

    #[inline]
    pub fn read_ended(&mut self, epoch: u8) {
        self.reads[usize::from(epoch)] -= 1;
    }
}

/// Discards the copies that no read can ask for any more.
#[inline]
pub(super) fn forget_outdated(side: &mut MediaSide, shared: &mut Shared) {
    if note_outdated(side, shared) {
        forget_some(side, shared);
    }
}

/// Collects dead copies; returns whether there were any.
#[inline]
fn note_outdated(side: &mut MediaSide, shared: &Shared) -> bool {
    let Some(outdated) = side.translation.take_outdated() else { return false };
    let dead = &mut side.discards.dead[usize::from(side.discards.epoch)];
    for (ppa, why) in outdated {
        let erases = shared.media.array().erase_count(shared.layout.block_of(ppa));
        let remains = match why {
            Outdated::Replaced => Remains::Nothing,
            Outdated::Trimmed => Remains::Zeros,
        };
        dead.push((ppa, remains, erases));
    }
    true
}

/// Discards outdated data as far as the reads under way allow; also called when memory runs short.
pub(super) fn forget_some(side: &mut MediaSide, shared: &mut Shared) {
    note_outdated(side, shared);
    // With no reads at all both epochs end.
    for _ in 0..2 {
        let last = usize::from(1 - side.discards.epoch);
        if side.discards.reads[last] > 0 {
            return;
        }
        for (ppa, remains, erases) in side.discards.dead[last].drain(..) {
            if shared.media.array().erase_count(shared.layout.block_of(ppa)) == erases {
                shared.media.forget(ppa, remains);
            }
        }
        side.discards.epoch = last as u8;
    }
}
