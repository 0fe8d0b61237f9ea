//! The path of a command through the disk: queue, controller, link, cache or arm, and back.

use super::arm::{Operation, Task};
use super::{Disk, Event};
use pellucid_flash::{Nanos, Opcode, Stage, Status};

impl Disk {
    /// A command enters the queue of the disk.
    pub(super) fn enter(&mut self, slot: u32) {
        self.inside += 1;
        self.book(slot, Stage::Queue);
        self.controller_free = self.now.max(self.controller_free) + self.config.command;
        self.schedule(self.controller_free, Event::Decoded(slot));
    }

    pub(super) fn decoded(&mut self, slot: u32) {
        self.book(slot, Stage::Firmware);
        let (lba, sectors, write) = self.range_of(slot);
        match self.command(slot).opcode {
            Opcode::Flush => {
                self.counters.flushes += 1;
                self.awaited.push((slot, self.number));
                self.tell_awaited();
            }
            Opcode::Read => {
                self.settle_ahead();
                let range = lba..lba + sectors;
                let cached = self.cache.covers(lba, sectors) || self.buffer.hit(&range);
                if cached && !self.is_unreadable(lba, sectors) {
                    self.counters.read_hits += 1;
                    self.read_on(range.end);
                    self.fill_read(slot);
                    self.transfer(slot);
                } else {
                    self.ready.push(slot);
                }
            }
            _ if write && self.cache_sectors > 0 => self.room.push_back(slot),
            _ => self.transfer(slot),
        }
        self.admit_writes();
        self.start_operation();
    }

    /// Starts the link transfers of writes for which the cache has space.
    pub(super) fn admit_writes(&mut self) {
        while let Some(&slot) = self.room.front() {
            let (_, sectors, _) = self.range_of(slot);
            let taken = self.cache.sectors() + self.promised + self.sectors_leaving();
            if taken > 0 && taken + sectors > self.cache_sectors {
                return;
            }
            self.room.pop_front();
            let record = &mut self.slots[slot as usize];
            record.stages.stall(self.now.since(record.since));
            self.book(slot, Stage::Buffer);
            self.promised += sectors;
            self.transfer(slot);
        }
    }

    /// Sectors of the cache that the arm is writing.
    fn sectors_leaving(&self) -> u64 {
        match &self.arm.operation {
            Some(Operation { task: Task::Destage(run), .. }) => run.sectors,
            _ => 0,
        }
    }

    /// The data of a command cross the link.
    pub(super) fn transfer(&mut self, slot: u32) {
        let (_, sectors, _) = self.range_of(slot);
        let bytes = match self.command(slot).opcode {
            Opcode::WriteZeroes => 0,
            _ => sectors * u64::from(self.config.sector_bytes),
        };
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(self.config.link_rate);
        self.link_free = self.now.max(self.link_free) + Nanos(time as u64);
        self.schedule(self.link_free, Event::Moved(slot));
    }

    pub(super) fn moved(&mut self, slot: u32) {
        self.book(slot, Stage::HostLink);
        let (lba, sectors, write) = self.range_of(slot);
        if !write {
            self.counters.read_sectors += sectors;
            return self.finish(slot, Status::Success);
        }
        self.counters.written_sectors += sectors;
        if self.cache_sectors == 0 {
            self.ready.push(slot);
            return self.start_operation();
        }
        self.promised -= sectors;
        self.number += 1;
        let data = self.written_data(slot);
        self.cache.insert(lba, sectors, &data, self.number);
        if let Some(command) = &mut self.slots[slot as usize].command {
            command.data = data;
        }
        if self.command(slot).fua {
            self.awaited.push((slot, self.number));
        } else {
            self.finish(slot, Status::Success);
        }
        self.start_operation();
    }

    /// The images of a write, those of zeros too.
    pub(super) fn written_data(&mut self, slot: u32) -> Vec<u8> {
        let (_, sectors, _) = self.range_of(slot);
        let bytes = sectors as usize * self.config.image_bytes();
        let Some(command) = &mut self.slots[slot as usize].command else { return Vec::new() };
        let mut data = std::mem::take(&mut command.data);
        if command.opcode == Opcode::WriteZeroes {
            data.clear();
            data.resize(bytes, 0);
        }
        data
    }

    pub(super) fn fill_read(&mut self, slot: u32) {
        let (lba, sectors, _) = self.range_of(slot);
        let Some(command) = &mut self.slots[slot as usize].command else { return };
        let mut data = std::mem::take(&mut command.data);
        if !data.is_empty() {
            self.images.read(lba, &mut data);
            if !self.images.is_blank() {
                self.overlay_leaving(lba, sectors, &mut data);
                self.cache.overlay(lba, sectors, &mut data);
            }
        }
        if let Some(command) = &mut self.slots[slot as usize].command {
            command.data = data;
        }
    }

    /// Lays over `images` what is just being written: it has left the cache, and is not on the platters.
    fn overlay_leaving(&self, lba: u64, sectors: u64, images: &mut [u8]) {
        let Some(Operation { task: Task::Destage(run), .. }) = &self.arm.operation else { return };
        let bytes = self.config.image_bytes();
        let (from, to) = (lba.max(run.lba), (lba + sectors).min(run.lba + run.sectors));
        if from < to {
            let own = (from - run.lba) as usize * bytes..(to - run.lba) as usize * bytes;
            images[(from - lba) as usize * bytes..(to - lba) as usize * bytes]
                .copy_from_slice(&run.images[own]);
        }
    }

    /// Ends flushes and forced writes whose data are on the platters.
    pub(super) fn tell_awaited(&mut self) {
        let leaving = match &self.arm.operation {
            Some(Operation { task: Task::Destage(run), .. }) => run.since,
            _ => u64::MAX,
        };
        let oldest = self.cache.oldest().unwrap_or(u64::MAX).min(leaving);
        let mut at = 0;
        while at < self.awaited.len() {
            let (slot, number) = self.awaited[at];
            if number >= oldest {
                at += 1;
                continue;
            }
            self.awaited.remove(at);
            self.book(slot, Stage::Media);
            let lost = std::mem::take(&mut self.lost);
            self.finish(slot, if lost { Status::WriteFault } else { Status::Success });
        }
    }

    pub(super) fn finish(&mut self, slot: u32, status: Status) {
        let record = &mut self.slots[slot as usize];
        let Some(command) = record.command.take() else { return };
        let stages = std::mem::take(&mut record.stages);
        self.completed.push_back(command.ended(status, record.submitted, self.now, stages));
        self.idle_slots.push(slot);
        self.inside -= 1;
        if let Some(next) = self.outside.pop_front() {
            self.enter(next);
        }
    }
}
