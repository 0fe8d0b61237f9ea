//! The events of one drive, in time order.
//!
//! Ties are broken by a written rule: equal times in order of creation. An event is one 128-bit number
//! (time, creation number, kind, index), so that ordering is one comparison and the heap holds 16 bytes an event.
//!
//! An event that happens mostly creates the next one. So the one that was taken stays first in the heap until another event takes its
//! place, which orders the heap once instead of twice.

use pellucid_flash::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Event of a drive. Each names the one object that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    /// The transfer on this channel ends.
    Channel(u32) = 0,
    /// The array operation of this die ends.
    Die(u32) = 1,
    /// The data of this flash operation are decoded.
    Decoded(u32) = 2,
    /// The host DMA of this slice ends.
    Dma(u32) = 3,
    /// The firmware processor has finished its task.
    Processor = 4,
    /// This command has become visible to the firmware.
    Visible(u32) = 5,
    /// The completion of this command reaches the host.
    Completed(u32) = 6,
    /// The drive has perhaps been idle for long enough that this namespace folds its SLC cache.
    Idle(u32) = 7,
}

const INDEX_BITS: u32 = 21;
const ORDER_BITS: u32 = 40;

/// Events to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<u128>>,
    /// The first one of the heap was taken.
    taken: bool,
    created: u64,
}

impl Events {
    /// Adds an event at `at`.
    #[inline]
    pub fn at(&mut self, at: SimTime, event: Event) {
        let (kind, index) = match event {
            Event::Channel(i) => (0u32, i),
            Event::Die(i) => (1, i),
            Event::Decoded(i) => (2, i),
            Event::Dma(i) => (3, i),
            Event::Processor => (4, 0),
            Event::Visible(i) => (5, i),
            Event::Completed(i) => (6, i),
            Event::Idle(i) => (7, i),
        };
        // 2^40 events are two days of simulating at full speed.
        assert!(index < 1 << INDEX_BITS && self.created < 1 << ORDER_BITS, "too many events");
        let low = self.created << (64 - ORDER_BITS) | u64::from(kind << INDEX_BITS | index);
        self.created += 1;
        let key = Reverse(u128::from(at.0) << 64 | u128::from(low));
        if std::mem::take(&mut self.taken)
            && let Some(mut first) = self.heap.peek_mut()
        {
            *first = key;
        } else {
            self.heap.push(key);
        }
    }

    /// Returns whether there is no event.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.heap.len() - usize::from(self.taken)
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&self) -> Option<SimTime> {
        let keys = self.heap.as_slice();
        // Behind the first one of a heap comes one of the next two.
        let first = if self.taken { keys.get(1).max(keys.get(2)) } else { keys.first() };
        first.map(|Reverse(key)| SimTime((key >> 64) as u64))
    }

    /// Takes the next event if it is due at `now` or before.
    #[inline]
    pub fn pop_due(&mut self, now: SimTime) -> Option<(SimTime, Event)> {
        if std::mem::take(&mut self.taken) {
            self.heap.pop();
        }
        let &Reverse(key) = self.heap.peek()?;
        let at = SimTime((key >> 64) as u64);
        if at > now {
            return None;
        }
        self.taken = true;
        let low = key as u32 & ((1 << (64 - ORDER_BITS)) - 1);
        let index = low & ((1 << INDEX_BITS) - 1);
        let event = match low >> INDEX_BITS & 0x7 {
            0 => Event::Channel(index),
            1 => Event::Die(index),
            2 => Event::Decoded(index),
            3 => Event::Dma(index),
            4 => Event::Processor,
            5 => Event::Visible(index),
            6 => Event::Completed(index),
            _ => Event::Idle(index),
        };
        Some((at, event))
    }

    /// Forgets everything (power cut).
    pub fn clear(&mut self) {
        self.heap.clear();
        self.taken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    /// Beside a plain ordered map of (time, creation): few events and many, with equal times.
    #[test]
    fn events_come_in_order_of_time_then_of_creation() {
        for (most, spread) in [(8, 3), (50, 50), (2_000, 1_000)] {
            let mut rng = Rng::new(most);
            let (mut events, mut plain) = (Events::default(), BTreeMap::new());
            let mut now = SimTime(0);
            for created in 0..20_000u32 {
                let at = SimTime(now.0 + rng.below(spread) * rng.below(3));
                events.at(at, Event::Decoded(created));
                plain.insert((at, created), ());
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
            }
            assert!(events.is_empty() && events.next_at().is_none());
        }
    }
}
