//! Reads: the drive first, then the sectors in the buffer replace its data (the paper's deferred checking).

use super::{ClusterBuffer, Op, Purpose};
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, Status};

impl ClusterBuffer {
    #[inline]
    pub(super) fn start_read(&mut self, op: u32) {
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let (lba, sectors) = (command.lba, command.sectors);
        if self.table.covers(lba.0, sectors) {
            self.counters.covered_reads += 1;
            self.overlay(op);
            return self.finish(op, Status::Success);
        }
        let data = std::mem::take(&mut self.ops[op].command.as_mut().expect("a command under way").data);
        self.ops[op].order = self.stamp;
        self.reads.push(op);
        self.send(op, Purpose::Read, Nanos::ZERO, Command::new(0, Opcode::Read, lba, sectors, data));
    }

    pub(super) fn read_ended(&mut self, op: u32, completion: Completion) {
        self.ops[op].command.as_mut().expect("a command under way").data = completion.data;
        if completion.status == Status::Success {
            let replaced = self.overlay(op);
            return self.end_read(op, Status::Success, completion.unmapped.saturating_sub(replaced));
        }
        // The buffer may hold the sectors that the drive cannot read.
        let Command { lba, sectors, .. } = *self.command(op);
        if self.table.covers(lba.0, sectors) {
            self.overlay(op);
            return self.end_read(op, Status::Success, 0);
        }
        if !self.read_missing(op) {
            self.end_read(op, completion.status, 0);
        }
    }

    /// Reads the sectors that the buffer lacks, part by part. Returns `false` if it lacks all.
    fn read_missing(&mut self, op: u32) -> bool {
        let Command { lba, sectors, .. } = *self.command(op);
        let mut runs = Vec::new();
        for (number, first, count) in self.shape.split(lba.0, sectors) {
            let base = (number * u64::from(self.shape.cluster_sectors) + u64::from(first) - lba.0) as u32;
            let Some(slot) = self.table.slot(number) else {
                runs.push((base, count));
                continue;
            };
            let mut from = first;
            while let Some((at, run)) = self.table.run(slot, from, first + count, false) {
                runs.push((base + at - first, run));
                from = at + run;
            }
        }
        if runs.iter().map(|&(_, count)| count).sum::<u32>() == sectors {
            return false;
        }
        self.ops[op].done = runs.len() as u32;
        // The sectors in the buffer stay there until these reads have ended.
        self.ops[op].order = 0;
        for (at, count) in runs {
            let buffer = self.buffer(count as usize);
            let read = Command::new(0, Opcode::Read, Lba(lba.0 + u64::from(at)), count, buffer);
            self.send(op, Purpose::Missing(at), Nanos::ZERO, read);
        }
        true
    }

    pub(super) fn missing_ended(&mut self, op: u32, at: u32, completion: Completion) {
        let data = &mut self.ops[op].command.as_mut().expect("a command under way").data;
        if completion.status != Status::Success {
            self.ops[op].status = Some(completion.status);
        } else if !data.is_empty() {
            data[at as usize * self.image_bytes..][..completion.data.len()].copy_from_slice(&completion.data);
        }
        self.give_back(completion.data);
        self.ops[op].done -= 1;
        if self.ops[op].done == 0 {
            self.overlay(op);
            let status = self.ops[op].status.unwrap_or(Status::Success);
            self.end_read(op, status, 0);
        }
    }

    /// Replaces sectors of the answer with those in the buffer; returns their number.
    fn overlay(&mut self, op: u32) -> u32 {
        if self.table.held() == 0 {
            return 0;
        }
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let replaced = self.table.overlay(command.lba.0, &mut command.data);
        self.counters.overlaid_sectors += u64::from(replaced);
        replaced
    }

    fn end_read(&mut self, op: u32, status: Status, unmapped: u32) {
        let at = self.reads.iter().position(|&other| other == op).expect("it is under way");
        self.reads.swap_remove(at);
        self.finish_unmapped(op, status, unmapped);
        self.settle_bypasses();
        self.leave_settled();
    }

    /// Reports whether a read of these clusters that was sent to the drive before `moment` is under way.
    pub(super) fn is_read_since_before(&self, moment: u64, first: u64, last: u64) -> bool {
        self.reads.iter().any(|&op| {
            let Op { order, command, .. } = &self.ops[op];
            let Command { lba, sectors, .. } = *command.as_ref().expect("a command under way");
            let (from, to) = self.clusters(lba.0, sectors);
            *order < moment && from <= last && first <= to
        })
    }
}
