//! The superpage packer: makes one flash operation of the units that are programmed together (Cosmos+ section 7.4).
//!
//! ```text
//!  unit of a stream ─► queue of that stream ─► a superpage's worth, or what there is if a command waits ─► plan ─► one program
//!       host data of a write, or GC copies of a die                        (one shot, all planes)
//! ```
//! A superpage is the set of pages programmed in one operation: the pages of a word line with one-shot programming, the pages of all planes
//! with multi-plane operation, or a part of one page where units are smaller. Units of different streams do not share a superpage. The
//! packer knows units by number only; its owner knows which units these numbers name, and when a partial superpage must leave. The write
//! path has one packer, and GC one for each die.
//!
//! Log blocks have a stream for each logical block, most of which are idle, so streams share queues: a stream returns its queue when the
//! queue is empty.
//!
//! Invariants: a unit is in one queue at most; a queue is left in the order in which it was entered; `waiting` is the sum of all
//! queues; a stream of log blocks has a queue if and only if something waits in it.

use pellucid_ftl::Stream;
use std::collections::VecDeque;
use std::ops::Range;

/// Units that wait for a superpage, by stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct SuperpagePacker {
    queues: Vec<Queue>,
    superpage: usize,
    waiting: usize,
    /// Queue of each stream of log blocks seen so far, if it has one.
    logs: Vec<Option<u32>>,
    /// Queues without a stream.
    idle: Vec<u32>,
    /// Queues of log blocks that found no space.
    stalled: u32,
    /// Queues of other streams, which come first.
    fixed: usize,
}

#[derive(Clone, Debug)]
struct Queue {
    stream: Stream,
    units: VecDeque<u32>,
    /// It found no space, and is not tried again before some came (log blocks).
    stalled: bool,
}

/// The queue of a stream.
#[inline]
fn queue_of(stream: Stream) -> usize {
    match stream {
        Stream::HostCold | Stream::Worn => 1,
        Stream::Placed(handle) | Stream::PlacedGc(handle) => usize::from(handle) + 1,
        _ => 0,
    }
}

impl SuperpagePacker {
    /// Makes the packer for host data of so many placement handles. Without placement the streams are host data, and host data that are
    /// seldom written.
    pub fn of_host(handles: u16, units_per_superpage: u32) -> SuperpagePacker {
        let placed = (1..handles).map(Stream::Placed);
        SuperpagePacker::new([Stream::Host, Stream::HostCold].into_iter().chain(placed), units_per_superpage)
    }

    /// For GC copies; those of `handles` placement handles stay apart.
    pub fn of_gc(handles: u16, units_per_superpage: u32) -> SuperpagePacker {
        let placed = (1..handles).map(Stream::PlacedGc);
        SuperpagePacker::new([Stream::Gc, Stream::Worn].into_iter().chain(placed), units_per_superpage)
    }

    fn new(streams: impl Iterator<Item = Stream>, units_per_superpage: u32) -> SuperpagePacker {
        let queue = |stream| Queue { stream, units: VecDeque::new(), stalled: false };
        let queues: Vec<Queue> = streams.map(queue).collect();
        debug_assert!(queues.iter().enumerate().all(|(i, queue)| queue_of(queue.stream) == i));
        let fixed = queues.len();
        SuperpagePacker {
            queues,
            fixed,
            superpage: units_per_superpage as usize,
            ..SuperpagePacker::default()
        }
    }

    /// Returns the queue of a stream of log blocks; a stream without one takes an unused queue.
    fn queue_of_log(&mut self, log: u32) -> usize {
        let at = log as usize;
        if self.logs.len() <= at {
            self.logs.resize(at + 1, None);
        }
        if let Some(queue) = self.logs[at] {
            return queue as usize;
        }
        let queue = self.idle.pop().unwrap_or_else(|| {
            self.queues.push(Queue { stream: Stream::Log(log), units: VecDeque::new(), stalled: false });
            self.queues.len() as u32 - 1
        });
        self.queues[queue as usize].stream = Stream::Log(log);
        self.logs[at] = Some(queue);
        queue as usize
    }

    /// A unit has left a queue. A stream of log blocks without units has no queue. (An unused queue still names its last stream, which may
    /// have another queue by now.)
    #[inline]
    fn left(&mut self, queue: usize) {
        if let Stream::Log(log) = self.queues[queue].stream
            && self.queues[queue].units.is_empty()
            && self.logs[log as usize] == Some(queue as u32)
        {
            self.logs[log as usize] = None;
            self.stalled -= u32::from(std::mem::take(&mut self.queues[queue].stalled));
            self.idle.push(queue as u32);
        }
    }

    /// Records that a queue found no space. Queues of log blocks wait for their own space and do not block others.
    pub fn stall(&mut self, queue: usize) {
        let record = &mut self.queues[queue];
        if matches!(record.stream, Stream::Log(_)) && !std::mem::replace(&mut record.stalled, true) {
            self.stalled += 1;
        }
    }

    /// Returns whether a queue of a log block waits for space.
    #[inline]
    pub fn is_stalled(&self, queue: usize) -> bool {
        self.queues[queue].stalled
    }

    /// Returns whether any queue of a log block waits for space.
    #[inline]
    pub fn has_stalled(&self) -> bool {
        self.stalled > 0
    }

    /// Returns whether all waiting units are in queues of log blocks that found no space.
    #[inline]
    pub fn is_all_stalled(&self) -> bool {
        self.stalled > 0 && self.stalled as usize + self.idle.len() + self.fixed == self.queues.len()
    }

    /// Returns whether the packer's streams are those of log blocks.
    #[inline]
    pub fn is_of_logs(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Space has come for queues of log blocks.
    pub fn resume(&mut self) {
        if std::mem::take(&mut self.stalled) > 0 {
            self.queues.iter_mut().for_each(|queue| queue.stalled = false);
        }
    }

    /// A unit waits for a superpage of its stream from now on; gives the number of that queue.
    #[inline]
    pub fn pack(&mut self, stream: Stream, unit: u32) -> usize {
        let queue = match stream {
            Stream::Log(log) => self.queue_of_log(log),
            _ => queue_of(stream),
        };
        self.queues[queue].units.push_back(unit);
        self.waiting += 1;
        queue
    }

    /// A unit waits no longer.
    pub fn unpack(&mut self, unit: u32) {
        for queue in 0..self.queues.len() {
            if let Some(at) = self.queues[queue].units.iter().position(|&other| other == unit) {
                self.remove(queue, at);
            }
        }
    }

    /// Removes the unit at a place of a queue.
    pub fn remove(&mut self, queue: usize, at: usize) {
        self.waiting -= usize::from(self.queues[queue].units.remove(at).is_some());
        self.left(queue);
    }

    /// Numbers of all queues.
    pub fn queues(&self) -> Range<usize> {
        0..self.queues.len()
    }

    /// The owner of the units in a queue.
    #[inline]
    pub fn stream(&self, queue: usize) -> Stream {
        self.queues[queue].stream
    }

    /// Returns whether a queue holds a whole superpage.
    #[inline]
    pub fn has_superpage(&self, queue: usize) -> bool {
        self.queues[queue].units.len() >= self.superpage
    }

    /// Units of the whole superpages in a queue of any other stream than those of log blocks. A whole superpage is planned at once, so
    /// these wait for space.
    #[inline]
    pub fn kept_waiting(&self, stream: Stream) -> usize {
        self.whole(queue_of(stream))
    }

    /// As [`SuperpagePacker::kept_waiting`], in all these queues.
    #[inline]
    pub fn all_kept_waiting(&self) -> usize {
        if self.waiting < self.superpage { 0 } else { (0..self.fixed).map(|queue| self.whole(queue)).sum() }
    }

    /// Units of the whole superpages in a queue.
    #[inline]
    fn whole(&self, queue: usize) -> usize {
        let units = self.queues[queue].units.len();
        units - units % self.superpage
    }

    /// Returns whether a queue is empty.
    #[inline]
    pub fn is_empty(&self, queue: usize) -> bool {
        self.queues[queue].units.is_empty()
    }

    /// Units that wait, in all queues.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The unit at a place of a queue.
    #[inline]
    pub fn get(&self, queue: usize, at: usize) -> Option<u32> {
        self.queues[queue].units.get(at).copied()
    }

    /// The units of the next superpage of a queue, or as many as there are.
    #[inline]
    pub fn next_superpage(&self, queue: usize) -> impl Iterator<Item = u32> + '_ {
        self.queues[queue].units.iter().copied().take(self.superpage)
    }

    /// The unit that has waited longest in a queue leaves it.
    #[inline]
    pub fn take(&mut self, queue: usize) -> Option<u32> {
        let unit = self.queues[queue].units.pop_front()?;
        self.waiting -= 1;
        self.left(queue);
        Some(unit)
    }

    /// All units of a queue leave it.
    pub fn take_all(&mut self, queue: usize) -> VecDeque<u32> {
        let units = std::mem::take(&mut self.queues[queue].units);
        self.waiting -= units.len();
        self.left(queue);
        units
    }

    /// Returns all queues, fullest first, or none if no unit waits: a few units of one stream must not keep another stream from
    /// gathering its own.
    #[inline]
    pub fn fullest_first(&self) -> impl Iterator<Item = usize> + use<> {
        let mut fullest = 0;
        for queue in 1..self.queues.len() {
            if self.queues[queue].units.len() > self.queues[fullest].units.len() {
                fullest = queue;
            }
        }
        let (all, asked) = (self.queues.len(), if self.waiting == 0 { 0 } else { self.queues.len() });
        (fullest..fullest + asked).map(move |queue| if queue < all { queue } else { queue - all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three units form a superpage, in order of arrival; other streams do not fill it.
    #[test]
    fn units_of_one_stream_make_a_superpage() {
        let mut packer = SuperpagePacker::of_host(3, 3);
        for unit in [5, 6] {
            packer.pack(Stream::Host, unit);
        }
        let placed = packer.pack(Stream::Placed(2), 7);
        assert_eq!(packer.stream(placed), Stream::Placed(2));
        assert!(
            packer.queues().all(|queue| !packer.has_superpage(queue)),
            "two and one are no superpage of three"
        );
        let host = packer.pack(Stream::Host, 8);
        packer.pack(Stream::Host, 9);
        assert!(packer.has_superpage(host) && !packer.has_superpage(placed));
        assert_eq!(packer.next_superpage(host).collect::<Vec<_>>(), [5, 6, 8]);
        assert_eq!((packer.take(host), packer.waiting()), (Some(5), 4));
    }

    #[test]
    fn a_unit_that_leaves_is_not_waiting() {
        let mut packer = SuperpagePacker::of_gc(1, 2);
        let queue = packer.pack(Stream::Worn, 1);
        packer.pack(Stream::Worn, 2);
        packer.unpack(1);
        packer.unpack(1);
        assert_eq!((packer.waiting(), packer.get(queue, 0)), (1, Some(2)));
        packer.remove(queue, 0);
        packer.remove(queue, 0);
        assert!(packer.is_empty(queue) && packer.waiting() == 0);
        packer.pack(Stream::Gc, 3);
        packer.pack(Stream::Worn, 4);
        assert_eq!((packer.take_all(queue).len(), packer.waiting()), (1, 1));
    }

    /// A queue serves any log block with data to write; a queue that found no space is notified when space
    /// becomes available.
    #[test]
    fn log_blocks_share_queues() {
        let mut packer = SuperpagePacker::of_host(1, 2);
        let first = packer.pack(Stream::Log(700), 1);
        let second = packer.pack(Stream::Log(3), 2);
        assert_ne!(first, second);
        assert_eq!(packer.pack(Stream::Log(700), 3), first);
        packer.stall(first);
        assert!(packer.is_stalled(first) && !packer.is_stalled(second) && packer.has_stalled());
        assert!(!packer.is_all_stalled());
        packer.resume();
        assert!(!packer.has_stalled());
        packer.stall(second);
        packer.stall(first);
        assert!(packer.is_all_stalled());
        packer.resume();
        packer.stall(second);
        assert_eq!((packer.take(second), packer.has_stalled()), (Some(2), false));
        assert_eq!(packer.pack(Stream::Log(4), 5), second);
        assert_eq!(packer.stream(second), Stream::Log(4));
        assert_eq!(packer.next_superpage(first).collect::<Vec<_>>(), [1, 3]);
        packer.stall(0);
        assert!(!packer.has_stalled(), "not of a log block");
    }

    /// Emptying an unused queue takes nothing from the stream that had it last.
    #[test]
    fn an_unused_queue_is_unused_once() {
        let mut packer = SuperpagePacker::of_host(1, 2);
        let first = packer.pack(Stream::Log(7), 1);
        let second = packer.pack(Stream::Log(8), 2);
        assert_eq!((packer.take(first), packer.take(second)), (Some(1), Some(2)));
        assert_eq!(packer.pack(Stream::Log(7), 3), second, "the queue that was left last");
        packer.take_all(first);
        assert_eq!(packer.pack(Stream::Log(7), 4), second);
        assert_ne!(packer.pack(Stream::Log(8), 5), packer.pack(Stream::Log(9), 6));
    }

    /// Every queue once, or none if no unit waits.
    #[test]
    fn the_fullest_queue_comes_first() {
        let mut packer = SuperpagePacker::of_gc(4, 8);
        assert_eq!(packer.fullest_first().count(), 0);
        packer.pack(Stream::Gc, 1);
        let worn = packer.pack(Stream::Worn, 2);
        packer.pack(Stream::Worn, 3);
        let order: Vec<usize> = packer.fullest_first().collect();
        assert_eq!(order[0], worn);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(packer.queues()), "{order:?}");
    }
}
