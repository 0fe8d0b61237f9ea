//! Write queue: what is on its way from the host to a program, in numbers, and the packer that makes superpages of it.
//!
//! ```text
//!  inbound (a slice) ─► arrived ─► filling (an entry) ─► packed ─► in a program ─► programmed
//!                                                         └────── leaving ──────┘
//! ```
//! Invariants: no count falls below zero; `leaving` counts the units of the packer and those in programs.

use super::packer::SuperpagePacker;
use pellucid_flash::Lpn;
use pellucid_ftl::Stream;
use std::collections::VecDeque;

/// Entries that wait for a superpage, and counts of what may still join them.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteQueue {
    packer: SuperpagePacker,
    /// Write slices between fetch and arrival of their data, except those that wait for an entry or for an earlier
    /// write.
    inbound: u32,
    /// Entries that are wanted and are being filled.
    filling: u32,
    /// Slices that are acknowledged only when programmed.
    awaited: u32,
    /// Entries packed or in a program.
    leaving: u32,
    /// Total write slices whose data have arrived.
    arrived: u64,
    /// No die could take data at the last try.
    stalled: bool,
    /// Pages of the superpage that is being planned.
    lpns: Vec<Lpn>,
}

impl WriteQueue {
    /// Makes the queue for a drive with this many placement handles and superpages of this many units.
    pub fn new(handles: u16, units_per_superpage: u32) -> WriteQueue {
        WriteQueue { packer: SuperpagePacker::of_host(handles, units_per_superpage), ..WriteQueue::default() }
    }

    /// Returns whether superpages may fill by themselves, or could not be planned.
    #[inline]
    pub fn more_comes(&self) -> bool {
        self.inbound > 0 || self.filling > 0 || self.waits_for_space() || self.packer.is_all_stalled()
    }

    /// Returns whether superpages could not be planned. Superpages of log blocks do not count: each of them waits for itself.
    #[inline]
    pub fn waits_for_space(&self) -> bool {
        self.stalled && !self.packer.is_of_logs()
    }

    /// Returns whether a slice waits for its program.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.awaited > 0
    }

    /// Entries that wait for a superpage.
    #[inline]
    pub fn packed(&self) -> usize {
        self.packer.waiting()
    }

    /// Entries in programs.
    #[inline]
    pub fn programming(&self) -> u32 {
        self.leaving - self.packer.waiting() as u32
    }

    /// Entries in programs or about to be packed.
    #[inline]
    pub fn on_the_way(&self) -> u32 {
        self.programming() + self.filling
    }

    /// Packed entries of whole superpages that only wait for space. Entries of log blocks do not count, because each log block waits
    /// separately.
    #[inline]
    pub fn waiting_for_space(&self) -> u32 {
        self.packer.all_kept_waiting() as u32
    }

    /// Returns whether superpages wait for space, all of this stream.
    #[inline]
    pub fn only_waits(&self, stream: Stream) -> bool {
        let all = self.packer.all_kept_waiting();
        all > 0 && self.packer.kept_waiting(stream) == all
    }

    /// Total write slices whose data have arrived.
    #[inline]
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Write slices come.
    #[inline]
    pub fn expect(&mut self, slices: u32) {
        self.inbound += slices;
    }

    /// Subtracts slices that have ended, or that wait and for now add no data to a superpage.
    #[inline]
    pub fn expect_less(&mut self, slices: u32) {
        assert!(self.inbound >= slices, "fewer write slices come than end");
        self.inbound -= slices;
    }

    /// The data of a write slice have arrived.
    #[inline]
    pub fn arrive(&mut self) {
        self.expect_less(1);
        self.arrived += 1;
    }

    /// A slice waits until its entry is programmed.
    #[inline]
    pub fn await_program(&mut self) {
        self.awaited += 1;
    }

    /// A slice waits for its program no longer.
    #[inline]
    pub fn end_wait(&mut self) {
        assert!(self.awaited > 0, "no slice waits for a program");
        self.awaited -= 1;
    }

    /// An entry that must leave lacks sectors, or the address of its page.
    #[inline]
    pub fn begin_fill(&mut self) {
        self.filling += 1;
    }

    /// An entry that must leave has all it needs.
    #[inline]
    pub fn end_fill(&mut self) {
        assert!(self.filling > 0, "no entry is being filled");
        self.filling -= 1;
    }

    /// An entry waits for a superpage of its stream; gives the number of that queue.
    #[inline]
    pub fn pack(&mut self, stream: Stream, entry: u32) -> usize {
        self.leaving += 1;
        self.packer.pack(stream, entry)
    }

    /// An entry waits for a superpage no longer.
    pub fn unpack(&mut self, entry: u32) {
        self.packer.unpack(entry);
        self.end_leaving();
    }

    /// An entry is packed or in a program no longer.
    #[inline]
    pub fn end_leaving(&mut self) {
        assert!(self.leaving as usize > self.packer.waiting(), "an entry left that was not on its way");
        self.leaving -= 1;
    }

    /// Numbers of all queues.
    #[inline]
    pub fn queues(&self) -> std::ops::Range<usize> {
        self.packer.queues()
    }

    /// The entry that has waited longest in a queue.
    #[inline]
    pub fn first(&self, queue: usize) -> Option<u32> {
        self.packer.get(queue, 0)
    }

    /// Returns whether to plan a superpage of a queue; `pad`: even a partial one. Never true while the queue of a log block waits for
    /// space.
    #[inline]
    pub fn has_superpage(&self, queue: usize, pad: bool) -> bool {
        (self.packer.has_superpage(queue) || (pad && !self.packer.is_empty(queue)))
            && !self.packer.is_stalled(queue)
    }

    /// Returns whether a queue of a log block waits for space.
    #[inline]
    pub fn has_stalled(&self) -> bool {
        self.packer.has_stalled()
    }

    /// Returns the stream and the pages of the next superpage of a queue; `page` says which page an entry brings.
    #[inline]
    pub fn next_superpage(&mut self, queue: usize, page: impl Fn(u32) -> Lpn) -> (Stream, &[Lpn]) {
        self.lpns.clear();
        self.lpns.extend(self.packer.next_superpage(queue).map(page));
        (self.packer.stream(queue), &self.lpns)
    }

    /// The entry that has waited longest in a queue is in a program from now on.
    #[inline]
    pub fn take(&mut self, queue: usize) -> u32 {
        self.packer.take(queue).expect("counted")
    }

    /// All entries of a queue wait no longer; each still [leaves](WriteQueue::end_leaving).
    pub fn take_all(&mut self, queue: usize) -> VecDeque<u32> {
        self.packer.take_all(queue)
    }

    /// A superpage of a queue found no space.
    pub fn stall(&mut self, queue: usize) {
        self.stalled = true;
        self.packer.stall(queue);
    }

    /// Space has come; `false`: no superpage waited for it.
    #[inline]
    pub fn resume(&mut self) -> bool {
        if !std::mem::take(&mut self.stalled) {
            return false;
        }
        self.packer.resume();
        true
    }

    /// No space will come.
    pub fn give_up_space(&mut self) {
        self.stalled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two units make a superpage.
    fn queue() -> WriteQueue {
        WriteQueue::new(1, 2)
    }

    #[test]
    fn an_entry_is_packed_then_in_a_program_then_gone() {
        let mut queue = queue();
        queue.pack(Stream::Host, 4);
        let host = queue.pack(Stream::Host, 5);
        assert_eq!((queue.packed(), queue.programming()), (2, 0));
        queue.unpack(4);
        assert!(!queue.has_superpage(host, false) && queue.has_superpage(host, true));
        assert_eq!(queue.take(host), 5);
        assert_eq!((queue.packed(), queue.programming()), (0, 1));
        queue.end_leaving();
        assert_eq!(queue.programming(), 0);
    }

    /// Slices to come, and entries that are being filled, may still fill a superpage.
    #[test]
    fn more_comes_until_all_that_may_join_has_come() {
        let mut queue = queue();
        queue.expect(2);
        queue.expect_less(1);
        queue.begin_fill();
        queue.arrive();
        assert!(queue.more_comes() && queue.arrived() == 1);
        queue.end_fill();
        assert!(!queue.more_comes());
    }

    /// Whole superpages stay packed only while they find no space.
    #[test]
    fn whole_superpages_wait_for_space() {
        let mut queue = WriteQueue::new(2, 2);
        for (stream, entry) in
            [(Stream::Host, 1), (Stream::Placed(1), 2), (Stream::Log(7), 3), (Stream::Log(7), 4)]
        {
            queue.pack(stream, entry);
        }
        assert_eq!(
            queue.waiting_for_space(),
            0,
            "partial superpages wait for more, log blocks for themselves"
        );
        (5..7).for_each(|entry| _ = queue.pack(Stream::Host, entry));
        assert_eq!(queue.waiting_for_space(), 2);
        assert!(queue.only_waits(Stream::Host) && !queue.only_waits(Stream::Placed(1)));
        queue.pack(Stream::Placed(1), 7);
        assert_eq!(queue.waiting_for_space(), 4);
        assert!(!queue.only_waits(Stream::Host) && !queue.only_waits(Stream::Placed(1)));
        queue.unpack(2);
        assert!(queue.only_waits(Stream::Host));
    }

    /// A log block that found no space has no superpage to plan until some has come.
    #[test]
    fn a_stalled_log_block_waits_for_space() {
        let mut queue = queue();
        queue.pack(Stream::Log(3), 1);
        let log = queue.pack(Stream::Log(3), 2);
        queue.stall(log);
        assert!(!queue.has_superpage(log, false) && queue.has_stalled() && !queue.waits_for_space());
        assert!(queue.resume() && queue.has_superpage(log, false));
        assert!(!queue.resume(), "nothing waits any more");
    }

    #[test]
    #[should_panic = "an entry left that was not on its way"]
    fn an_entry_leaves_once() {
        let mut queue = queue();
        queue.pack(Stream::Host, 4);
        queue.unpack(4);
        queue.end_leaving();
    }
}
