//! The events of one drive, in time order.
//!
//! Ties are broken by a written rule: equal times in order of creation.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path problem", Journal of the ACM 37(2), 1990) with
//! digits of six bits: time runs forward, so the order of events need not be known before they are due.
//!
//! ```text
//!  floor: time of the last event that was taken        0 1 2 3 4
//!  due at floor                                        the list DUE, first in, first out
//!  first digit that differs from that of floor:  4     level 0, list of that digit
//!                                             3  .     level 1
//!                                          2  .  .     level 2, ...
//!  next event: of the lowest level the lowest digit ─► floor rises to the first time of that list ─► the list is dealt out below
//! ```
//! An event is moved once for each digit at most, in practice twice.
//!
//! Invariants: no event is due before `floor`, which falls only for a host whose clock begins anew; a bit of `digits` is set if and only if
//! that list holds an event, and a bit of `levels` if and only if that level does; events of equal time are in one list, in order of
//! creation, as a list is dealt out only when all below it are empty; `first` is the time of the first event.

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
    /// The firmware processor has finished its task.
    Processor,
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
/// The list of the events due at `floor`: of a level that no time has.
const DUE: usize = LEVELS * DIGITS - 1;
/// Time of an event that does not come.
const NEVER: u64 = u64::MAX;

const _: () = assert!((LEVELS as u32 - 1) * DIGIT_BITS >= u64::BITS && size_of::<Due>() == 24);

/// An event, and the next one of its list.
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
    floor: u64,
    /// Time of the first event, and its list.
    first: u64,
    first_list: usize,
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
            floor: 0,
            first: NEVER,
            first_list: DUE,
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
        if at < self.floor {
            self.fall(at);
        }
        let record = Due { at, event, next: NIL };
        let number = match self.vacant {
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
        };
        let list = self.put(number, at);
        if at < self.first {
            (self.first, self.first_list) = (at, list);
        }
    }

    /// Puts a record, whose `next` is none, last in the list of its time. Gives that list.
    #[inline]
    fn put(&mut self, number: u32, at: u64) -> usize {
        let differs = at ^ self.floor;
        let at = match differs {
            0 => DUE,
            _ => {
                let level = differs.ilog2() / DIGIT_BITS;
                let digit = (at >> (level * DIGIT_BITS)) as usize % DIGITS;
                let level = level as usize % LEVELS;
                self.levels |= 1 << level;
                self.digits[level] |= 1 << digit;
                level * DIGITS + digit
            }
        };
        let list = &mut self.lists[at];
        let last = std::mem::replace(&mut list.tail, number);
        match list.head {
            NIL => list.head = number,
            _ => self.records[last as usize].next = number,
        }
        at
    }

    /// Returns whether there is no event.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == NEVER
    }

    /// How many there are; counted anew.
    pub fn count(&self) -> usize {
        let next = |&number: &u32| Some(self.records[number as usize].next).filter(|&next| next != NIL);
        let heads = self.lists.iter().map(|list| list.head).filter(|&head| head != NIL);
        heads.map(|head| std::iter::successors(Some(head), next).count()).sum()
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&self) -> Option<SimTime> {
        (self.first != NEVER).then_some(SimTime(self.first))
    }

    /// Takes the next event if it is due at `now` or before.
    #[inline]
    pub fn pop_due(&mut self, now: SimTime) -> Option<(SimTime, Event)> {
        let at = self.first;
        if at > now.0 || at == NEVER {
            return None;
        }
        if self.first_list != DUE {
            self.rise();
        }
        let number = self.lists[DUE].head;
        let record = &mut self.records[number as usize];
        let (event, next) = (record.event, std::mem::replace(&mut record.next, self.vacant));
        (self.lists[DUE].head, self.vacant) = (next, number);
        if next == NIL {
            self.find_first();
        }
        Some((SimTime(at), event))
    }

    /// No event is due at `floor` any more: it rises to the first of the later ones, and the list with that one is dealt out.
    #[inline]
    fn rise(&mut self) {
        let at = std::mem::replace(&mut self.first_list, DUE) % (LEVELS * DIGITS);
        let (level, digit) = (at / DIGITS, at % DIGITS);
        self.digits[level] &= !(1 << digit);
        if self.digits[level] == 0 {
            self.levels &= !(1 << level);
        }
        self.floor = self.first;
        let list = std::mem::replace(&mut self.lists[at], EMPTY);
        if list.head == list.tail {
            self.lists[DUE] = list;
        } else {
            self.deal_out(list);
        }
    }

    fn deal_out(&mut self, list: List) {
        let mut number = list.head;
        while number != NIL {
            let record = &mut self.records[number as usize];
            let (at, next) = (record.at, std::mem::replace(&mut record.next, NIL));
            self.put(number, at);
            number = next;
        }
    }

    /// A host came back with a clock that is behind that of the drive, which was at rest: all events are dealt out anew.
    #[cold]
    fn fall(&mut self, floor: u64) {
        (self.floor, self.levels, self.digits) = (floor, 0, [0; LEVELS]);
        let lists = std::mem::replace(&mut self.lists, Box::new([EMPTY; LEVELS * DIGITS]));
        lists.iter().for_each(|&list| self.deal_out(list));
        self.find_first();
    }

    /// Finds the first event. None is due at `floor`.
    #[inline]
    fn find_first(&mut self) {
        (self.first, self.first_list) = (NEVER, DUE);
        if self.levels == 0 {
            return;
        }
        let level = self.levels.trailing_zeros() as usize % LEVELS;
        let digit = self.digits[level].trailing_zeros() as usize % DIGITS;
        self.first_list = level * DIGITS + digit;
        let mut number = self.lists[self.first_list].head;
        while number != NIL {
            let record = &self.records[number as usize];
            self.first = if record.at < self.first { record.at } else { self.first };
            number = record.next;
        }
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
                events.at(at, Event::Processor);
            }
            for expected in [(SimTime(1), Event::Processor), (now, Event::Processor)] {
                assert_eq!(events.pop_due(later), Some(expected));
            }
            assert_eq!(
                [1, 2].map(|_| events.pop_due(later)),
                [1, 2].map(|n| Some((later, Event::Decoded(n))))
            );
            events.at(later, Event::Processor);
            events.clear();
            assert!(events.is_empty() && events.count() == 0);
        }
    }
}
