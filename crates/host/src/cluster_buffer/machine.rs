//! Cluster buffer as a host machine: commands in, commands to the drive, completions out.
//!
//! Every call only records an event; its consequences run after their processor time ([`Step`]).

use super::{ClusterBuffer, ClusterBufferCounters, FlushPolicy, Op, Step, Stopping};
use crate::{Layer, Machine};
use pellucid_flash::{Command, Completion, Figure, Interface, Nanos, Opcode, SimTime, StageTimes, Status};

impl Machine for ClusterBuffer {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        (self.last_ask, self.rested, self.stopping) = (now, false, Stopping::No);
        let refused = self.refuse(&command);
        let buffered = self.is_for_buffer(&command);
        let sectors = if buffered { command.sectors } else { 0 };
        let op = self.ops.insert(Op { command: Some(command), submitted: now, buffered, ..Op::default() });
        if let Some(status) = refused {
            return self.finish(op, status);
        }
        let cost = self.config.cpu.submit_ns + Nanos(self.config.cpu.sector_ns.0 * u64::from(sectors));
        self.give(cost, Step::Begin(op));
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let sectors =
            if completion.opcode == Opcode::Read { completion.data.len() / self.image_bytes } else { 0 };
        let cost = self.config.cpu.completion_ns + Nanos(self.config.cpu.sector_ns.0 * sectors as u64);
        self.give(cost, Step::Ended(completion.take()));
    }

    fn advance(&mut self, now: SimTime) {
        if self.journal.is_some() {
            self.now = now;
            self.begin_start();
        }
        while let Some((at, step)) = self.steps.due(now) {
            self.now = at;
            self.do_step(step);
        }
        self.now = now;
        if self.due().is_some_and(|due| due <= now) {
            self.go_on();
        }
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        match (self.steps.next_event(), self.due()) {
            (Some(step), Some(due)) => Some(step.min(due)),
            (step, due) => step.or(due),
        }
    }

    #[inline]
    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.up.len()
    }

    fn stop(&mut self, now: SimTime) {
        self.now = now;
        self.stopping = Stopping::Draining;
        self.retry_failed();
        self.go_on();
    }

    fn is_ready(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.is_ready())
    }

    fn failure(&self) -> Option<String> {
        self.journal.as_ref().and_then(|journal| journal.failure())
    }

    fn is_stopped(&self) -> bool {
        self.stopping == Stopping::Stopped
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        if self.counters.journal_clusters > 0 && !self.keeps_content() {
            return Err(
                "a drive that keeps no data keeps no journal either; allowed: media.store = ram".into()
            );
        }
        let sectors = self.shape.journal.map_or(self.shape.sectors, |region| region.heads[0] + 1);
        let block = Some(Interface::Block { sectors, handles: 1 });
        let mut fresh =
            ClusterBuffer::new(&self.config, block, self.image_bytes).map_err(|error| error.to_string())?;
        let was_pausing = self.paused && self.paused().is_none();
        self.now = now;
        let under_way = (0..).zip(self.ops.iter()).filter(|(_, op)| op.command.is_some());
        let under_way: Vec<u32> = under_way.map(|(op, _)| op).collect();
        for op in under_way {
            self.ops[op].stages = StageTimes::default();
            self.finish(op, Status::PowerLoss);
        }
        fresh.up = std::mem::take(&mut self.up);
        fresh.counters = self.counters;
        fresh.counters.lost_sectors += u64::from(self.table.held());
        (fresh.now, fresh.last_ask, fresh.paused) = (now, now, self.paused);
        if was_pausing {
            fresh.pause_failed =
                Some("the power was cut before the buffer was empty, and it lost what it held");
        }
        *self = fresh;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let sector = u64::from(self.config.sector_bytes);
        let ClusterBufferCounters { writes, written_sectors, bypassed, evictions, full_evictions, .. } =
            self.counters;
        let ClusterBufferCounters { cluster_writes, cluster_sectors, padding_reads, padding_sectors, .. } =
            self.counters;
        let ClusterBufferCounters { covered_reads, overlaid_sectors, failed_evictions, lost_sectors, .. } =
            self.counters;
        let ClusterBufferCounters { journal_records, journal_sectors, .. } = self.counters;
        vec![
            Figure::count("writes", "Writes taken into the buffer.", writes),
            Figure::bytes("written_bytes", "Bytes taken into the buffer.", written_sectors * sector),
            Figure::count(
                "bypassed",
                "Commands that pass the buffer by: forced writes, trims, writes of zeros, writes into ranges that do, and writes while it is paused.",
                bypassed,
            ),
            Figure::count("evictions", "Clusters that left the buffer.", evictions),
            Figure::count("full_evictions", "Full clusters that left the buffer.", full_evictions),
            Figure::count("cluster_writes", "Writes of evictions.", cluster_writes),
            Figure::bytes("cluster_bytes", "Bytes written by evictions.", cluster_sectors * sector),
            Figure::count("padding_reads", "Reads of what was missing of a cluster.", padding_reads),
            Figure::bytes(
                "padding_bytes",
                "Bytes read because they were missing of a cluster.",
                padding_sectors * sector,
            ),
            Figure::count("covered_reads", "Reads answered by the buffer alone.", covered_reads),
            Figure::bytes(
                "overlaid_bytes",
                "Bytes that the buffer put into answers of the drive.",
                overlaid_sectors * sector,
            ),
            Figure::count("failed_evictions", "Evictions that the drive refused.", failed_evictions),
            Figure::bytes(
                "lost_bytes",
                "Bytes that the buffer held when the power was cut.",
                lost_sectors * sector,
            ),
            Figure::count("journal_records", "Records of the journal.", journal_records),
            Figure::bytes("journal_bytes", "Bytes of the journal's records.", journal_sectors * sector),
            self.replayed_bytes(),
            self.torn_records(),
            Figure::bytes("held_bytes", "Bytes in the buffer.", u64::from(self.table.held()) * sector)
                .gauge(),
            Figure::count("paused", "1: writes pass the buffer by.", self.paused.into()).gauge(),
            Figure::bytes("memory_bytes", "Bytes of host memory.", self.memory_bytes()).gauge(),
        ]
    }
}

impl ClusterBuffer {
    fn replayed_bytes(&self) -> Figure {
        let sectors = self.journal.as_ref().map_or(0, |journal| journal.replayed());
        let what = "Bytes that the last start brought back from the journal.";
        Figure::bytes("replayed_bytes", what, sectors * u64::from(self.config.sector_bytes))
    }

    fn torn_records(&self) -> Figure {
        let torn = self.journal.as_ref().is_some_and(|journal| journal.is_torn());
        let what =
            "1: the last start found a record behind the newest that a power cut tore, or that is damaged.";
        Figure::count("torn_records", what, torn.into())
    }
}

impl Layer for ClusterBuffer {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.shape.sectors, handles: 1 }
    }

    fn keeps_flushed(&self) -> bool {
        self.config.flush == FlushPolicy::Strict
    }

    fn unsaved_sectors(&self) -> u64 {
        self.table.used().map(|(slot, _)| u64::from(self.table.unjournalled(slot))).sum()
    }

    fn start_figures(&self) -> Vec<Figure> {
        match self.journal {
            Some(_) => vec![self.replayed_bytes(), self.torn_records()],
            None => Vec::new(),
        }
    }

    fn start_notice(&self) -> Option<&'static str> {
        let made = self.journal.as_ref()?.has_made();
        made.then_some("the device had no journal, so a new one was made at its end")
    }
}
