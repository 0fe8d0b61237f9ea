//! Writes that wait behind sectors that another command waits for.
//!
//! ```text
//!  its page's entry is awaited, or takes no more ─► last of its page's writes
//!  the entry changed (wake) ─► next round: the first of the page is placed again ─┬─ goes on ─► then the next of the page
//!                                                                                 └─ waits on, and so do those after it
//! ```
//! In a round the writes of all woken pages go on in the order in which they fell behind. Pages that were not woken are not looked
//! at, so a round costs what it lets go on, however many wait.
//!
//! Invariants: a page is in `pages` if and only if a write of it waits; `ready` is empty between rounds; tickets rise from the first of
//! a page to its last.

use super::buffer::Phase;
use super::core::Core;
use super::{read, write};
use crate::shared::Shared;
use pellucid_flash::Lpn;
use pellucid_flash::slab::{Linked, List, NIL, Slab};
use std::collections::{BTreeMap, BTreeSet};

/// Writes that wait behind others of their page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behind {
    waiters: Slab<Waiter>,
    pages: BTreeMap<Lpn, List>,
    /// Pages whose first write may go on in the next round.
    woken: BTreeSet<Lpn>,
    /// Pages whose first write is placed again in the current round, by its ticket.
    ready: BTreeSet<(u64, Lpn)>,
    /// The ticket that the current round has come to.
    round: Option<u64>,
    /// The write that is being placed again.
    turn: Option<Turn>,
    tickets: u64,
}

#[derive(Clone, Debug, Default)]
struct Waiter {
    slice: u32,
    /// Its place among all that fell behind.
    ticket: u64,
    next: u32,
}

impl Linked for Waiter {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    slice: u32,
    ticket: u64,
    lpn: Lpn,
}

impl Behind {
    /// Returns whether no write waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns whether a write of the page waits, so that later ones do not go ahead of it.
    #[inline]
    pub fn holds(&self, lpn: Lpn) -> bool {
        // Writes after the one that is being placed do not hold it up.
        !self.is_empty() && self.turn.is_none_or(|turn| turn.lpn != lpn) && self.pages.contains_key(&lpn)
    }

    /// A write of the page waits: as the last one, or as the first again if it is being placed.
    pub fn push(&mut self, slice: u32, lpn: Lpn) {
        let list = self.pages.entry(lpn).or_default();
        match self.turn.take_if(|turn| turn.slice == slice) {
            Some(Turn { ticket, .. }) => {
                let at = self.waiters.insert(Waiter { slice, ticket, next: NIL });
                list.push_front(&mut self.waiters, at);
            }
            None => {
                self.tickets += 1;
                let at = self.waiters.insert(Waiter { slice, ticket: self.tickets, next: NIL });
                list.push_back(&mut self.waiters, at);
            }
        }
    }

    /// Returns whether a page was woken since the last round.
    #[inline]
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Writes of the page may be able to go on.
    #[inline]
    pub fn wake(&mut self, lpn: Lpn) {
        if !self.is_empty() {
            self.wake_waiting(lpn);
        }
    }

    fn wake_waiting(&mut self, lpn: Lpn) {
        let Some(ticket) = self.first_ticket(lpn) else { return };
        match self.round {
            Some(now) if ticket > now => _ = self.ready.insert((ticket, lpn)),
            _ => _ = self.woken.insert(lpn),
        }
    }

    /// Every write may be able to go on.
    pub fn wake_all(&mut self) {
        self.woken.extend(self.pages.keys());
    }

    /// Begins a round; `false`: none of the woken pages has a write that waits.
    #[inline]
    fn begin_round(&mut self) -> bool {
        if self.woken.is_empty() {
            return false;
        }
        for lpn in std::mem::take(&mut self.woken) {
            self.ready.extend(self.first_ticket(lpn).map(|ticket| (ticket, lpn)));
        }
        !self.ready.is_empty()
    }

    /// The next write of the round, which is to be placed again.
    fn next_turn(&mut self) -> Option<u32> {
        if let Some(Turn { lpn, .. }) = self.turn.take() {
            // It went on.
            self.ready.extend(self.first_ticket(lpn).map(|ticket| (ticket, lpn)));
        }
        let next = self.ready.pop_first();
        self.round = next.map(|(ticket, _)| ticket);
        let (ticket, lpn) = next?;
        let list = self.pages.get_mut(&lpn).expect("a page that is ready has a write that waits");
        let at = list.pop(&mut self.waiters).expect("a page without a write that waits is not kept");
        if list.is_empty() {
            self.pages.remove(&lpn);
        }
        self.waiters.release(at);
        let slice = self.waiters[at].slice;
        debug_assert_eq!(self.waiters[at].ticket, ticket);
        self.turn = Some(Turn { slice, ticket, lpn });
        Some(slice)
    }

    fn first_ticket(&self, lpn: Lpn) -> Option<u64> {
        let first = self.pages.get(&lpn)?.first()?;
        Some(self.waiters[first].ticket)
    }
}

/// A write waits until sectors that another command waits for have left.
pub(super) fn fall_behind(core: &mut Core, shared: &mut Shared, slice: u32) {
    // As one that waits for an entry, it adds nothing to a superpage.
    core.queue.expect_less(1);
    core.behind.push(slice, shared.slices[slice].lpn);
}

/// First in, first out: a write waits until `entry` has gone, which may have been in use when it was its turn to leave.
pub(super) fn hurry(core: &mut Core, shared: &mut Shared, entry: u32) {
    let record = &mut core.buffer[entry];
    record.want();
    if record.sectors().dirty() != 0 && record.phase() == Phase::Resting {
        write::dispatch(core, shared, entry);
    }
}

/// Resumes writes that waited for earlier ones, as far as possible; `false`: none was woken.
#[inline]
pub(super) fn let_behind_go_on(core: &mut Core, shared: &mut Shared) -> bool {
    if !core.behind.begin_round() {
        return false;
    }
    while let Some(slice) = core.behind.next_turn() {
        core.queue.expect(1);
        read::place(core, shared, slice, false);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices 0, 1, ... of these pages have fallen behind.
    fn of(pages: impl IntoIterator<Item = u32>) -> Behind {
        let mut behind = Behind::default();
        (0..).zip(pages).for_each(|(slice, page)| behind.push(slice, Lpn(page)));
        behind
    }

    /// Runs a round in which the slices of `stay` fall behind again; returns the slices that are placed.
    fn round(behind: &mut Behind, stay: &[(u32, u32)]) -> Vec<u32> {
        let mut placed = Vec::new();
        behind.begin_round();
        while let Some(slice) = behind.next_turn() {
            placed.push(slice);
            if let Some(&(_, page)) = stay.iter().find(|(other, _)| *other == slice) {
                behind.push(slice, Lpn(page));
            }
        }
        placed
    }

    #[test]
    fn woken_pages_go_on_in_the_order_in_which_their_writes_fell_behind() {
        let mut behind = of([7, 5, 7, 9, 5]);
        behind.wake(Lpn(6));
        assert!(!behind.begin_round());
        behind.wake(Lpn(5));
        behind.wake(Lpn(7));
        assert_eq!(round(&mut behind, &[]), [0, 1, 2, 4]);
        assert!(behind.holds(Lpn(9)) && !behind.holds(Lpn(5)) && !behind.is_empty());
        behind.wake_all();
        assert_eq!(round(&mut behind, &[]), [3]);
        assert!(behind.is_empty() && !behind.begin_round());
    }

    /// A write that must keep waiting stays in front of later writes to its page, which are not
    /// examined meanwhile.
    #[test]
    fn a_write_that_waits_on_holds_up_its_page() {
        let mut behind = of([7, 7, 7, 5]);
        behind.wake_all();
        assert_eq!(round(&mut behind, &[(1, 7)]), [0, 1, 3]);
        behind.push(9, Lpn(7));
        behind.wake(Lpn(7));
        assert_eq!(round(&mut behind, &[]), [1, 2, 9]);
    }

    /// A page woken in a round continues in that round if its turn is still to come, otherwise in the
    /// next.
    #[test]
    fn a_page_that_is_woken_in_a_round_waits_for_its_turn() {
        let mut behind = of([7, 5, 9]);
        behind.wake(Lpn(5));
        assert!(behind.begin_round());
        assert_eq!(behind.next_turn(), Some(1));
        assert!(!behind.holds(Lpn(5)), "those after it do not hold it up");
        behind.wake(Lpn(7));
        behind.wake(Lpn(9));
        assert_eq!((behind.next_turn(), behind.next_turn()), (Some(2), None));
        assert_eq!(round(&mut behind, &[]), [0]);
    }
}
