//! The arm at work: its next operation, and what follows when one has ended.

use super::Disk;
use super::arm::{Operation, Task};
use pellucid_flash::{SimTime, Stage, Status};

impl Disk {
    pub(super) fn arm_ended(&mut self) {
        let Some(operation) = self.arm.operation.take() else { return };
        self.rest_behind(&operation);
        let Operation { task, lba, sectors, transfers, .. } = operation;
        match task {
            Task::Read(slot) => self.read_ended(slot, transfers),
            Task::Write(slot) => {
                self.book_arm(slot, transfers);
                let ok = self.reach_platters(lba, sectors);
                let data = self.written_data(slot);
                if ok {
                    self.images.write(lba, &data);
                }
                if let Some(command) = &mut self.slots[slot as usize].command {
                    command.data = data;
                }
                self.finish(slot, if ok { Status::Success } else { Status::WriteFault });
            }
            Task::Destage(run) => {
                if self.reach_platters(lba, sectors) {
                    self.images.write(lba, &run.images);
                } else {
                    self.lost = true;
                }
                self.cache.give_back(run);
                self.tell_awaited();
                self.admit_writes();
            }
        }
        self.start_operation();
    }

    /// Sectors have been written; says whether they hold.
    fn reach_platters(&mut self, lba: u64, sectors: u64) -> bool {
        self.counters.destaged_sectors += sectors;
        while let Some(&spoilt) = self.unreadable.range(lba..lba + sectors).next() {
            self.unreadable.remove(&spoilt);
        }
        !self.is_dead(lba, sectors)
    }

    /// Books what a command spent with the arm: waiting for it and for its place, then under the head.
    fn book_arm(&mut self, slot: u32, transfers: SimTime) {
        let record = &mut self.slots[slot as usize];
        record.stages.add(Stage::WaitWay, transfers.since(record.since));
        record.since = record.since.max(transfers);
        self.book(slot, Stage::Media);
    }

    fn read_ended(&mut self, slot: u32, transfers: SimTime) {
        self.book_arm(slot, transfers);
        let (lba, sectors, _) = self.range_of(slot);
        // Cached data newer than a spoilt sector are still good.
        if self.is_unreadable(lba, sectors) && !self.cache.covers(lba, sectors) {
            self.counters.unreadable += 1;
            return self.finish(slot, Status::UnrecoveredRead);
        }
        self.buffer.add(lba..lba + sectors);
        self.fill_read(slot);
        self.transfer(slot);
    }
}
