//! Writes into the buffer, in order, as space becomes available.

use super::{ClusterBuffer, State};
use pellucid_flash::{Command, Opcode, Status};

impl ClusterBuffer {
    /// Reports whether a new command goes into the buffer. With a journal, a forced write is a write and a
    /// flush.
    #[inline]
    pub(super) fn is_for_buffer(&self, command: &Command) -> bool {
        command.opcode == Opcode::Write
            && (!command.fua || self.journal.is_some())
            && !self.paused
            && !self.passes(command)
    }

    /// Reports whether a command touches a range whose writes bypass the buffer.
    fn passes(&self, command: &Command) -> bool {
        let (first, end) = (command.lba.0, command.lba.0.saturating_add(command.sectors.into()));
        let next = self.passes.partition_point(|range| range.end <= first);
        self.passes.get(next).is_some_and(|range| range.start < end)
    }

    /// Continues waiting commands, in order.
    #[inline]
    pub(super) fn admit(&mut self) {
        while let Some(&op) = self.waiting.front() {
            let through = if self.ops[op].buffered { self.fill(op) } else { self.start_bypass(op) };
            if !through {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Reports whether a write waits for space.
    pub(super) fn lacks_space(&self) -> bool {
        self.waiting.front().is_some_and(|&op| {
            let command = self.command(op);
            self.ops[op].buffered
                && self.table.is_exhausted()
                && !self.is_passed_by(command.lba.0, command.sectors)
        })
    }

    /// Copies as much of a write into the buffer as fits. Returns whether the write has ended.
    fn fill(&mut self, op: u32) -> bool {
        let command = self.ops[op].command.take().expect("a command under way");
        if self.is_passed_by(command.lba.0, command.sectors) {
            self.ops[op].command = Some(command);
            return false;
        }
        let mut done = self.ops[op].done;
        if self.table.held() == 0 {
            self.aged_at = self.config.age_ns.map(|age| self.now + age);
        }
        for (number, first, count) in
            self.shape.split(command.lba.0 + u64::from(done), command.sectors - done)
        {
            let images =
                &command.data[done as usize * self.image_bytes..][..count as usize * self.image_bytes];
            let put = self.table.put(number, first, images, self.stamp, self.now);
            done += put;
            if put < count {
                break;
            }
        }
        let (ended, fua) = (done == command.sectors, command.fua);
        self.ops[op].command = Some(command);
        self.ops[op].done = done;
        if ended && fua {
            self.join_flush(op);
        } else if ended {
            self.finish(op, Status::Success);
        } else if !self.can_make_space() {
            if !self.ops[op].tried && self.failed > 0 {
                self.ops[op].tried = true;
                self.retry_one();
            } else {
                self.finish(op, Status::WriteFault);
                return true;
            }
        }
        ended
    }

    /// Reports whether a cluster is being evicted, or can be evicted now or later.
    fn can_make_space(&self) -> bool {
        self.table.used().any(|(_, cluster)| matches!(cluster.state, State::Resident | State::Evicting))
    }
}
