//! FAST, fully-associative sector translation: log blocks are shared.
//!
//! ```text
//!  a superpage from the beginning of a logical block on ──► sequential log block (merging the one before away)
//!  one that continues there ──────────────────────────────► the same
//!  all others ────────────────────────────────────────────► random log blocks, one after the other; when all are full, the oldest one is
//!                                                           merged away: a full merge for each logical block that has a copy in it
//! ```
//! Source of the algorithm: S.-W. Lee, D.-J. Park, T.-S. Chung, D.-H. Lee, S. Park, H.-J. Song, "A log buffer-based flash translation layer
//! using fully-associative sector translation", ACM Transactions on Embedded Computing Systems 6(3), 2007, section 3. There a write into
//! the block of the sequential log that does not continue it ends that log; here it goes to the random log, and the sequential one waits.
//! A die has one sequential log block and a number of random ones. Superpages of one unit are those of the paper; larger ones enter the
//! sequential log only as a whole.

use super::LogBlock;
use crate::translation::Plan;
use pellucid_flash::{DieId, Lpn};

/// Streams of a die: the random one, and two sequential ones that take turns, so that the end of one run and the beginning of the next
/// do not share a superpage.
pub(super) const STREAMS: u32 = 3;

/// State of the sequential writes of a die.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// The next page of the run; `None`: no run.
    next: Option<Lpn>,
    turn: u32,
}

impl LogBlock {
    /// The stream of a write of `lpn`.
    pub(super) fn stream_fast(&mut self, lpn: Lpn) -> u32 {
        let (lbn, at) = self.lbn(lpn);
        let die = self.die_of_lbn(lbn);
        let last = at + 1 == self.layout.units_per_block;
        let run = &mut self.dies[die.0 as usize].run;
        if at == 0 {
            run.turn ^= 1;
        } else if run.next != Some(lpn) {
            return die.0 * STREAMS;
        }
        run.next = (!last).then_some(Lpn(lpn.0 + 1));
        die.0 * STREAMS + 1 + run.turn
    }

    /// Places a superpage of stream `group`.
    pub(super) fn place_fast(&mut self, group: u32, lpns: &[Lpn]) -> Option<Plan> {
        let die = DieId(group / STREAMS);
        if group.is_multiple_of(STREAMS) || !self.is_whole_run(lpns) {
            return self.place_random(die, lpns);
        }
        let (lbn, at) = self.lbn(lpns[0]);
        let state = &self.dies[die.0 as usize];
        let sequential = state.logs.iter().position(|log| log.owner.is_some());
        let continues = |&log: &usize| {
            state.logs[log].owner == Some(lbn) && state.logs[log].next * self.layout.units_per_superpage == at
        };
        if let Some(log) = sequential.filter(continues)
            && self.takes_more(die, log)
        {
            return Some(self.append(die, log, lpns));
        }
        if at > 0 {
            return self.place_random(die, lpns);
        }
        if let Some(log) = sequential {
            let block = self.dies[die.0 as usize].logs[log].block;
            self.want_merge(block);
            return None;
        }
        match self.open_log(die, Some(lbn)) {
            Some(log) => Some(self.append(die, log, lpns)),
            None if self.blocks.returning(die) > 0 => None,
            None => self.place_random(die, lpns),
        }
    }

    /// Returns whether `lpns` fill a superpage with consecutive pages, starting at its place in their logical block.
    fn is_whole_run(&self, lpns: &[Lpn]) -> bool {
        let Some(&first) = lpns.first().filter(|&&first| first != Lpn::NONE) else { return false };
        let (_, at) = self.lbn(first);
        let follow = (first.0..).zip(lpns).all(|(expected, lpn)| lpn.0 == expected);
        lpns.len() == self.layout.units_per_superpage as usize
            && at.is_multiple_of(self.layout.units_per_superpage)
            && follow
    }

    fn place_random(&mut self, die: DieId, lpns: &[Lpn]) -> Option<Plan> {
        let mut random =
            self.dies[die.0 as usize].logs.iter().enumerate().filter(|(_, log)| log.owner.is_none());
        let (in_use, last) = (random.clone().count() as u32, random.next_back().map(|(at, _)| at));
        if let Some(at) = last.filter(|&at| self.takes_more(die, at)) {
            return Some(self.append(die, at, lpns));
        }
        if in_use < self.log_blocks
            && let Some(at) = self.open_log(die, None)
        {
            return Some(self.append(die, at, lpns));
        }
        if in_use >= self.log_blocks || self.blocks.returning(die) == 0 {
            let logs = &self.dies[die.0 as usize].logs;
            let oldest = logs.iter().find(|log| log.owner.is_none()).or(logs.first());
            if let Some(oldest) = oldest {
                let block = oldest.block;
                self.want_merge(block);
            }
        }
        None
    }
}
