//! Slabs between memory and flash, and reads of them.

use super::classes::{Class, SLAB_HEADER};
use super::index::Place;
use super::slabs::State;
use super::{Kv, engine};
use engine::Event;
use pellucid_flash::Tag;
use pellucid_flash::slab::NIL;

/// Purpose of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Purpose {
    /// The item of a request.
    Request(u32),
    /// Items of a victim that are kept: slots from the first to before the second.
    Copies(u32, u32),
    /// A start looks whether a part of a snapshot lies there.
    #[default]
    Peek,
    /// A start reads a part of a snapshot, from this byte of it on.
    Load(u32),
}

/// A read of flash.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    purpose: Purpose,
    /// The slab; a peek: the place.
    slab: u32,
    sector: u32,
    /// Bytes of the first sector that are not wanted.
    skip: u32,
    /// Commands under way.
    left: u32,
    lost: bool,
    /// Data of several commands.
    data: Vec<u8>,
}

impl Kv {
    /// Opens a slab of a class, or lends the one of a larger class. `None`: there is no write buffer for it.
    pub(super) fn open(&mut self, class: usize, again: bool) -> Option<u32> {
        // The last buffers are for what is written again: from that comes space.
        let kept = match again {
            true => 0,
            false if self.config.engine.owns_blocks() => 1,
            false => self.evictions.len().max(1),
        };
        if self.buffers.vacant() <= kept || self.vacant.is_empty() {
            return self.lend_or_close(class);
        }
        let (number, buffer) = (self.vacant.pop()?, self.buffers.take()?);
        let slab = &mut self.slabs[number as usize];
        (slab.state, slab.class, slab.buffer, slab.expires_s) = (State::Open, class as u8, buffer, 0);
        debug_assert!(slab.tops.is_empty() && slab.valid == 0 && slab.hot == 0 && slab.readers == 0);
        slab.tops.reserve_exact(self.classes[class].slots as usize);
        self.buffers.get_mut(buffer)[..SLAB_HEADER].fill(0);
        self.classes[class].open = number;
        Some(number)
    }

    /// All buffers are taken. Where none of them is on its way to flash, the item goes to the open slab of a larger class, or the fullest open
    /// slab goes to flash, though it has slots left. Both waste flash: slots are lent as long as that wastes no more than the other would, so
    /// that together they waste at most twice what is best, however few buffers there are.
    fn lend_or_close(&mut self, class: usize) -> Option<u32> {
        let open = self.classes.iter().filter(|class| class.open != NIL);
        if self.buffers.count() - self.buffers.vacant() > open.clone().count() {
            return None;
        }
        let used =
            |class: &Class| self.slabs[class.open as usize].tops.len() as u64 * u64::from(class.slot_bytes);
        let fullest = open.max_by_key(|class| used(class))?;
        let unused = u64::from(self.shape.slab_bytes) - used(fullest);
        let fullest = fullest.open;
        let larger = self.classes[class + 1..].iter().find(|larger| larger.open != NIL);
        if let Some(larger) = larger {
            let lent = self.lent_bytes + u64::from(larger.slot_bytes - self.classes[class].slot_bytes);
            if lent <= unused {
                self.lent_bytes = lent;
                return Some(larger.open);
            }
        }
        self.lent_bytes = 0;
        self.close(fullest);
        None
    }

    /// A slab gets no more items: it waits for the engine.
    pub(super) fn close(&mut self, number: u32) {
        let tick = self.tick();
        self.surveyed = false;
        let slab = &mut self.slabs[number as usize];
        self.closed_early = slab.tops.len() < self.classes[usize::from(slab.class)].slots as usize;
        (slab.state, slab.order, slab.accessed) = (State::Full, tick, tick);
        let class = &mut self.classes[usize::from(slab.class)];
        if class.open == number {
            class.open = NIL;
        }
        self.full.push_back(number);
    }

    /// Does what can be done now: writes, victims, requests that wait. Called at the end of everything that happens.
    #[inline]
    pub(super) fn go_on(&mut self) {
        if self.full.is_empty() && self.waiting.is_empty() && self.evictions.is_empty() {
            return;
        }
        self.go_on_slowly();
    }

    fn go_on_slowly(&mut self) {
        loop {
            self.start_writes();
            self.make_room();
            if !self.full.is_empty() && self.engine.is_ready() {
                // A victim that nobody reads, and of which nothing is kept, has left at once; nothing else would tell of its place.
                continue;
            }
            let before = (self.waiting.len(), self.full.len());
            if before.0 > 0 {
                self.run_waiting();
            }
            // A request may have filled a slab, or closed one so that a buffer becomes free.
            if before == (self.waiting.len(), self.full.len()) {
                return;
            }
        }
    }

    pub(super) fn start_writes(&mut self) {
        while let Some(&number) = self.full.front() {
            let slab = &self.slabs[number as usize];
            if slab.valid == 0 && slab.state == State::Full {
                // Everything in it is obsolete already.
                self.full.pop_front();
                self.give_up_buffer(number);
                self.vacate(number);
                continue;
            }
            if !self.engine.is_ready() {
                return;
            }
            self.full.pop_front();
            let slab = &mut self.slabs[number as usize];
            let forced = slab.state == State::Snapshot;
            if !forced {
                slab.state = State::Writing;
            }
            let buffer = slab.buffer;
            self.engine.write(number, buffer, forced);
            if forced {
                self.part_placed(number);
            }
        }
    }

    pub(super) fn give_up_buffer(&mut self, number: u32) {
        let buffer = std::mem::replace(&mut self.slabs[number as usize].buffer, NIL);
        self.buffers.release(buffer);
    }

    /// A slab's number can be used again.
    fn vacate(&mut self, number: u32) {
        let slab = &mut self.slabs[number as usize];
        self.statistics.reclaimed += slab.tops.len() as u64;
        slab.state = State::Free;
        if let Some(since) = slab.evicted.take() {
            self.statistics.pauses.record(self.now.since(since));
        }
        slab.tops.clear();
        self.vacant.push(number);
    }

    /// Leaves a stored slab, of which nothing is wanted any more.
    pub(super) fn leave(&mut self, number: u32) {
        self.slabs[number as usize].state = State::Leaving;
        self.leaving += 1;
        self.leave_if_unread(number);
    }

    fn leave_if_unread(&mut self, number: u32) {
        let slab = &self.slabs[number as usize];
        if slab.state == State::Leaving && slab.readers == 0 {
            self.leaving -= 1;
            self.engine.release(number);
            self.vacate(number);
        }
    }

    /// Reads the item at `place`, or its first `bytes`.
    pub(super) fn read_item(&mut self, place: Place, bytes: usize, purpose: Purpose) {
        let class = &self.classes[usize::from(self.slabs[place.slab as usize].class)];
        let from = class.offset(place.slot);
        self.read(place.slab, from, bytes, purpose);
    }

    /// Reads bytes of a slab. It is not released before that has ended.
    pub(super) fn read(&mut self, slab: u32, from: usize, bytes: usize, purpose: Purpose) {
        let sector_bytes = self.shape.sector_bytes as usize;
        let sector = (from / sector_bytes) as u32;
        let sectors = ((from + bytes).div_ceil(sector_bytes)) as u32 - sector;
        self.slabs[slab as usize].readers += 1;
        let at = self.reads.take();
        let read = &mut self.reads[at];
        (read.purpose, read.slab, read.sector, read.lost) = (purpose, slab, sector, false);
        read.skip = (from % sector_bytes) as u32;
        let tag = engine::READ | Tag::from(at);
        let parts = self.engine.read(&mut self.io, tag, slab, sector, sectors);
        read.left = parts;
        if parts > 1 {
            read.data.resize(sectors as usize * sector_bytes, 0);
        }
    }

    /// Reads the first sector of a place, at a start.
    pub(super) fn peek(&mut self, place: u32) {
        let at = self.reads.take();
        let read = &mut self.reads[at];
        (read.purpose, read.slab, read.lost, read.skip, read.left) = (Purpose::Peek, place, false, 0, 1);
        self.engine.peek(&mut self.io, engine::READ | Tag::from(at), place);
    }

    /// Handles the messages of the engine.
    pub(super) fn run_events(&mut self) {
        while let Some(event) = self.io.events.pop_front() {
            match event {
                Event::Read { tag, data } => self.read_ended(tag, data),
                Event::Written { slab, good } => self.written(slab, good),
                Event::Wiped { good } => self.wiped(good),
                Event::Flushed => self.flushed(),
            }
        }
    }

    fn written(&mut self, number: u32, good: bool) {
        self.look_for_rest();
        let slab = &mut self.slabs[number as usize];
        match (good, slab.state) {
            // Elsewhere.
            (false, _) => {
                if slab.state == State::Writing {
                    slab.state = State::Full;
                }
                self.full.push_front(number);
            }
            (true, State::Snapshot) => {
                self.give_up_buffer(number);
                self.part_written();
            }
            (true, _) => {
                slab.state = State::Stored;
                let empty = slab.valid == 0;
                self.give_up_buffer(number);
                self.statistics.slabs_written += 1;
                self.watermarks.written(self.now, self.statistics.set_bytes);
                if empty {
                    self.leave(number);
                }
            }
        }
    }

    /// One command of a read has ended.
    fn read_ended(&mut self, tag: Tag, data: Option<Vec<u8>>) {
        let at = tag as u32;
        let part = (tag >> 32 & 63) as u32;
        let read = &mut self.reads[at];
        read.left -= 1;
        read.lost |= data.is_none();
        let mut whole = data.unwrap_or_default();
        if read.left > 0 || !read.data.is_empty() {
            let part_bytes = self.shape.slab_bytes as usize / self.shape.places_each as usize;
            let begins = read.sector as usize * self.shape.sector_bytes as usize % part_bytes;
            let from = (part as usize * part_bytes).saturating_sub(begins);
            if !whole.is_empty() {
                read.data[from..from + whole.len()].copy_from_slice(&whole);
            }
            if read.left > 0 {
                return self.io.put_back(whole);
            }
            self.io.put_back(std::mem::replace(&mut whole, std::mem::take(&mut read.data)));
        }
        let Read { purpose, slab, skip, lost, .. } = *read;
        self.reads.release(at);
        let bytes = (!lost).then(|| &whole[skip as usize..]);
        match purpose {
            Purpose::Request(request) => {
                self.request_read(request, bytes);
                self.core_is_free();
            }
            Purpose::Copies(first, end) => self.copies_read(slab, first..end, bytes),
            Purpose::Peek => self.peeked(slab, bytes),
            Purpose::Load(from) => self.loaded(slab, from, bytes),
        }
        self.io.put_back(whole);
        if !matches!(purpose, Purpose::Peek) {
            self.slabs[slab as usize].readers -= 1;
            self.leave_if_unread(slab);
        }
    }
}
