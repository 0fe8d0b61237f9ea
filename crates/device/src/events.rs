//! The events of one drive, in time order.
//!
//! Ties are broken by a written rule: equal times in order of creation.
//!
//! The next few events are sorted. All others wait in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path
//! problem", Journal of the ACM 37(2), 1990) with digits of six bits: time runs forward, so the order of events need not be known before
//! they are due.
//!
//! ```text
//!  near: sorted, a few events before the horizon  ◄── next event
//!  ─────────────── horizon ───────────────             0 1 2 3 4
//!  first digit that differs from that of floor:  4     level 0, list of that digit
//!                                             3  .     level 1
//!                                          2  .  .     level 2, ...
//!  near is empty ─► of the lowest level the lowest digit ─┬─ few: sorted into near, horizon behind them
//!                                                         └─ many: dealt out to the levels below
//! ```
//! So an event is moved twice in practice, and sorted among those of a few microseconds.
//!
//! Invariants: `near` is empty only if there is no event; an event before the horizon is in `near`, and none behind it is; no event in a list is
//! before `floor`; a bit of `digits` is set if and only if that list holds an event, and a bit of `levels` if and only if that level
//! does; events of equal time are in creation order from `near` to the one list that has more of them.

use pellucid_flash::SimTime;
use pellucid_flash::slab::NIL;

/// Event of a drive. Each names the one object that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The transfer on this channel ends.
    Channel(u32),
    /// The array operation of this die ends.
    Die(u32),
    /// The data of this flash operation are decoded.
    Decoded(u32),
    /// The host DMA of this slice ends.
    Dma(u32),
    /// This processor of the firmware has finished its task.
    Processor(u32),
    /// This command has become visible to the firmware.
    Visible(u32),
    /// The completion of this command reaches the host.
    Completed(u32),
    /// The drive has perhaps been idle for long enough that this namespace folds its SLC cache.
    Idle(u32),
    /// Commands of this namespace have perhaps waited for the host as long as they may.
    Awaited(u32),
}

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Eleven have digits of a time; a power of two, so that no index has to be checked.
const LEVELS: usize = 16;
/// Events that are sorted at once, and events in `near` that are too many.
const FEW: usize = 16;
const MANY: usize = 2 * FEW;
/// Places of `near`; a power of two, for the same reason.
const PLACES: usize = 2 * MANY;
/// Time of an event that does not come.
const NEVER: u64 = u64::MAX;

const _: () =
    assert!(LEVELS as u32 * DIGIT_BITS >= u64::BITS && size_of::<Due>() == 24 && size_of::<Near>() == 16);

/// An event of which the next ones are known.
#[derive(Clone, Copy, Debug)]
struct Near {
    at: u64,
    event: Event,
}

/// Events in order, the next one last.
#[derive(Clone, Debug)]
struct Sorted {
    places: [Near; PLACES],
    count: usize,
}

impl Default for Sorted {
    fn default() -> Sorted {
        Sorted { places: [Near { at: NEVER, event: Event::Processor(0) }; PLACES], count: 0 }
    }
}

impl Sorted {
    #[inline]
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next event, if there is any.
    #[inline]
    fn next(&self) -> Near {
        self.places[(self.count.wrapping_sub(1)) % PLACES]
    }

    /// Takes the next event, which there is.
    #[inline]
    fn pop(&mut self) {
        debug_assert!(self.count > 0, "nothing is near");
        self.count -= 1;
    }

    /// Adds an event behind all of its time.
    #[inline]
    fn insert(&mut self, event: Near) {
        debug_assert!(self.count < PLACES, "too many are near");
        let mut place = self.count;
        while place > 0 && self.places[(place - 1) % PLACES].at <= event.at {
            self.places[place % PLACES] = self.places[(place - 1) % PLACES];
            place -= 1;
        }
        self.places[place % PLACES] = event;
        self.count += 1;
    }

    /// Takes all but the next `kept`, the next of them first.
    fn take_later(&mut self, kept: usize) -> Vec<Near> {
        let later = self.count - kept;
        let taken = self.places[..later].iter().rev().copied().collect();
        self.places.copy_within(later..self.count, 0);
        self.count = kept;
        taken
    }
}

/// An event in a list, and the next one of it.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: u64,
    event: Event,
    next: u32,
}

/// Events in order of creation.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NIL, tail: NIL };

/// Events to come.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    near: Sorted,
    horizon: u64,
    floor: u64,
    /// Records of events, and the first one that is not in use.
    records: Vec<Due>,
    vacant: u32,
    /// Levels that hold events: a bit each.
    levels: u16,
    /// Digits of each level that do.
    digits: [u64; LEVELS],
    /// The lists of level 0 first.
    lists: Box<[List; LEVELS * DIGITS]>,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            near: Sorted::default(),
            horizon: 0,
            floor: 0,
            records: Vec::new(),
            vacant: NIL,
            levels: 0,
            digits: [0; LEVELS],
            lists: Box::new([EMPTY; LEVELS * DIGITS]),
        }
    }
}

impl Events {
    /// Adds an event at `at`.
    ///
    /// # Panics
    /// When `at` is [`SimTime::MAX`].
    #[inline]
    pub fn at(&mut self, at: SimTime, event: Event) {
        let at = at.0;
        assert!(at != NEVER, "an event that does not come");
        if self.near.is_empty() {
            // The only one.
            (self.floor, self.horizon) = (at, at + 1);
            self.near.insert(Near { at, event });
        } else if at >= self.horizon {
            let record = self.record(at, event);
            self.put(record, at);
        } else {
            self.near.insert(Near { at, event });
            if self.near.count > MANY {
                self.spill();
            }
        }
    }

    /// A record for an event that goes into a list.
    #[inline]
    fn record(&mut self, at: u64, event: Event) -> u32 {
        let record = Due { at, event, next: NIL };
        match self.vacant {
            NIL => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
            vacant => {
                let place = &mut self.records[vacant as usize];
                self.vacant = place.next;
                *place = record;
                vacant
            }
        }
    }

    /// Puts a record, whose `next` is none, last in the list of its time.
    #[inline]
    fn put(&mut self, number: u32, at: u64) {
        debug_assert!(at >= self.floor && at >= self.horizon, "an event in the past of the lists");
        let level = ((at ^ self.floor) | 1).ilog2() / DIGIT_BITS;
        let digit = (at >> (level * DIGIT_BITS)) as usize % DIGITS;
        let level = level as usize % LEVELS;
        self.levels |= 1 << level;
        self.digits[level] |= 1 << digit;
        let list = &mut self.lists[level * DIGITS + digit];
        let last = std::mem::replace(&mut list.tail, number);
        match list.head {
            NIL => list.head = number,
            _ => self.records[last as usize].next = number,
        }
    }

    /// Returns whether there is no event.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// How many there are; counted anew.
    pub fn count(&self) -> usize {
        let next = |&number: &u32| Some(self.records[number as usize].next).filter(|&next| next != NIL);
        let heads = self.lists.iter().map(|list| list.head).filter(|&head| head != NIL);
        let waiting: usize = heads.map(|head| std::iter::successors(Some(head), next).count()).sum();
        self.near.count + waiting
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&self) -> Option<SimTime> {
        (!self.near.is_empty()).then(|| SimTime(self.near.next().at))
    }

    /// Takes the next event if it is due at `now` or before.
    #[inline]
    pub fn pop_due(&mut self, now: SimTime) -> Option<(SimTime, Event)> {
        let Near { at, event } = self.near.next();
        if self.near.is_empty() || at > now.0 {
            return None;
        }
        self.near.pop();
        if self.near.is_empty() && self.levels != 0 {
            self.draw_near();
        }
        Some((SimTime(at), event))
    }

    /// No event is near any more: the first of those in the lists are.
    fn draw_near(&mut self) {
        loop {
            let level = self.levels.trailing_zeros() as usize % LEVELS;
            let digit = self.digits[level].trailing_zeros() as usize % DIGITS;
            let list = self.lists[level * DIGITS + digit];
            // All events of a list of level 0 are of one time.
            if level == 0 || self.is_short(list) {
                return self.take(level, digit, list);
            }
            self.empty(level, digit);
            self.deal_out(list);
        }
    }

    /// Returns whether a list has few events.
    #[inline]
    fn is_short(&self, list: List) -> bool {
        let mut number = list.head;
        for _ in 0..FEW {
            number = self.records[number as usize].next;
            if number == NIL {
                return true;
            }
        }
        false
    }

    /// The list of a digit is empty from now on.
    #[inline]
    fn empty(&mut self, level: usize, digit: usize) {
        self.lists[level * DIGITS + digit] = EMPTY;
        self.digits[level] &= !(1 << digit);
        if self.digits[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Sorts the first events of a list into `near`: all of them, if they are few.
    #[inline]
    fn take(&mut self, level: usize, digit: usize, list: List) {
        let (mut number, mut first, mut last) = (list.head, NEVER, 0);
        while number != NIL && self.near.count < FEW {
            let record = &mut self.records[number as usize];
            let Due { at, event, next } = *record;
            record.next = std::mem::replace(&mut self.vacant, number);
            number = next;
            (first, last) = (first.min(at), last.max(at));
            self.near.insert(Near { at, event });
        }
        self.floor = first;
        match number {
            NIL => {
                self.horizon = last + 1;
                self.empty(level, digit);
            }
            // Those of the same time that are left come behind.
            rest => {
                debug_assert_eq!(level, 0, "a long list of several times");
                self.horizon = last;
                self.lists[level * DIGITS + digit].head = rest;
            }
        }
    }

    /// Deals the events of a list out to lower levels, whose floor is the first of them.
    fn deal_out(&mut self, list: List) {
        let (mut number, mut first) = (list.head, NEVER);
        while number != NIL {
            let record = &self.records[number as usize];
            (first, number) = (first.min(record.at), record.next);
        }
        self.floor = first;
        // Nothing is near.
        self.horizon = first;
        self.put_all(list);
    }

    /// Puts the records of a list into the lists of their times.
    fn put_all(&mut self, list: List) {
        let mut number = list.head;
        while number != NIL {
            let record = &mut self.records[number as usize];
            let (at, next) = (record.at, std::mem::replace(&mut record.next, NIL));
            self.put(number, at);
            number = next;
        }
    }

    /// Too many events are near: the later half goes back to the lists.
    #[cold]
    fn spill(&mut self) {
        let far = self.near.take_later(FEW);
        self.horizon = far.first().map_or(self.horizon, |first| first.at);
        if self.horizon < self.floor {
            self.fall(self.horizon);
        }
        for Near { at, event } in far {
            let record = self.record(at, event);
            self.put(record, at);
        }
    }

    /// Events come before the floor of the lists: those in the lists are dealt out anew.
    fn fall(&mut self, floor: u64) {
        (self.floor, self.levels, self.digits) = (floor, 0, [0; LEVELS]);
        let lists = std::mem::replace(&mut self.lists, Box::new([EMPTY; LEVELS * DIGITS]));
        lists.iter().for_each(|&list| self.put_all(list));
    }

    /// Forgets everything (power cut).
    pub fn clear(&mut self) {
        *self = Events::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    /// Beside a plain ordered map of (time, creation): few events and many, with equal times, and with times that differ in any digit.
    #[test]
    fn events_come_in_order_of_time_then_of_creation() {
        for (most, spread) in [(8, 3), (50, 50), (2_000, 1_000), (200, 1 << 20), (30, 1 << 46)] {
            let mut rng = Rng::new(most);
            let (mut events, mut plain) = (Events::default(), BTreeMap::new());
            let mut now = SimTime(0);
            for created in 0..20_000u32 {
                let at = SimTime(now.0 + rng.below(spread) * rng.below(3));
                events.at(at, Event::Decoded(created));
                plain.insert((at, created), ());
                if created % 1_000 == 0 {
                    assert_eq!(events.count(), plain.len());
                }
                let fill = rng.below(most) < plain.len() as u64;
                for _ in 0..if fill { 1 + rng.below(4) } else { 0 } {
                    assert_eq!(events.next_at(), plain.keys().next().map(|key| key.0));
                    let Some(((at, created), ())) = plain.pop_first() else { break };
                    if at > now {
                        assert_eq!(events.pop_due(SimTime(at.0 - 1)), None);
                    }
                    assert_eq!(events.pop_due(at), Some((at, Event::Decoded(created))));
                    now = at;
                }
            }
            while let Some(((at, created), ())) = plain.pop_first() {
                assert_eq!(events.pop_due(at), Some((at, Event::Decoded(created))));
                now = at;
            }
            assert!(events.is_empty() && events.next_at().is_none());
            // A clock that begins anew.
            let later = SimTime(now.0 + spread);
            for (at, event) in [(later, Event::Decoded(1)), (later, Event::Decoded(2))] {
                events.at(at, event);
            }
            for at in [SimTime(1), now] {
                events.at(at, Event::Processor(0));
            }
            for expected in [(SimTime(1), Event::Processor(0)), (now, Event::Processor(0))] {
                assert_eq!(events.pop_due(later), Some(expected));
            }
            assert_eq!(
                [1, 2].map(|_| events.pop_due(later)),
                [1, 2].map(|n| Some((later, Event::Decoded(n))))
            );
            events.at(later, Event::Processor(0));
            events.clear();
            assert!(events.is_empty() && events.count() == 0);
        }
    }
}
