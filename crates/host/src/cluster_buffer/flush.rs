//! Flushes from above, and stops.

use super::{ClusterBuffer, FlushPolicy, Purpose, State, Stopping};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Nanos, Opcode, Status};

fn flush() -> Command {
    Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new())
}

impl ClusterBuffer {
    pub(super) fn start_flush(&mut self, op: u32) {
        match self.config.flush {
            FlushPolicy::Strict => self.join_flush(op),
            FlushPolicy::Paper if self.failed > 0 => {
                self.retry_failed();
                self.finish(op, Status::WriteFault);
            }
            FlushPolicy::Paper => self.send(op, Purpose::Flush, Nanos::ZERO, flush()),
        }
    }

    /// Makes a command wait, as a flush does, for all earlier writes.
    pub(super) fn join_flush(&mut self, op: u32) {
        self.ops[op].barrier = self.stamp;
        self.retry_failed();
        self.flushes.push_back(op);
    }

    /// Returns the number of the last write that has to leave the buffer now; `None` if none has to.
    pub(super) fn barrier(&self) -> Option<u64> {
        match self.stopping {
            Stopping::Draining => Some(u64::MAX),
            _ if self.paused => Some(u64::MAX),
            _ => self.flushes.back().map(|&op| self.ops[op].barrier),
        }
    }

    /// Ends the first flushes if their writes have left the buffer.
    pub(super) fn flushes_go_on(&mut self) {
        if self.journal.is_some() {
            return self.group_goes_on();
        }
        while let Some(&op) = self.flushes.front() {
            let barrier = self.ops[op].barrier;
            let before = self.table.used().filter(|(_, cluster)| cluster.oldest <= barrier);
            let (mut refused, mut waits) = (false, false);
            for (_, cluster) in before {
                let failed = cluster.state == State::Failed;
                (refused, waits) = (refused | failed, waits | !failed);
            }
            if waits {
                return;
            }
            self.flushes.pop_front();
            if refused {
                self.finish(op, Status::WriteFault);
            } else {
                self.send(op, Purpose::Flush, Nanos::ZERO, flush());
            }
        }
    }

    /// Makes all clusters that the drive refused evictable again.
    pub(super) fn retry_failed(&mut self) {
        while self.failed > 0 {
            self.retry_one();
        }
    }

    /// Makes one cluster that the drive refused evictable again.
    pub(super) fn retry_one(&mut self) {
        let failed =
            self.table.used().find(|(_, cluster)| cluster.state == State::Failed).map(|(slot, _)| slot);
        if let Some(slot) = failed {
            self.table.cluster_mut(slot).state = State::Resident;
            self.failed -= 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.held() == 0 && self.waiting.is_empty() && self.bypasses.is_empty()
    }

    pub(super) fn stop_goes_on(&mut self) {
        if self.stopping == Stopping::Draining && self.journal.is_none() && self.is_empty() {
            self.stopping = Stopping::Flushing;
            self.send(NIL, Purpose::Stop, Nanos::ZERO, flush());
        }
    }

    pub(super) fn stop_flushed(&mut self, status: Status) {
        if self.stopping == Stopping::Flushing && status == Status::Success {
            self.stopping = Stopping::Stopped;
        }
    }
}
