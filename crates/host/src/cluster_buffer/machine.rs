//! Cluster buffer as a host machine: commands in, commands to the drive, completions out.

use super::core::Core;
use super::paths::{evict, start, write};
use super::{ClusterBuffer, FlushPolicy};
use crate::{Layer, Machine};
use pellucid_flash::{Command, Completion, Figure, Interface, Opcode, SimTime};

impl Machine for ClusterBuffer {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.core.setup.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        let core = &mut self.core;
        core.port.set_now(now);
        core.timer.asked(now);
        core.ends.cancel_stop();
        let refused = core.setup.refuse(&command);
        let buffered = write::is_for_buffer(core, &command);
        let sectors = if buffered { command.sectors } else { 0 };
        let op = core.requests.open(command, now, buffered);
        if let Some(status) = refused {
            return core.finish(op, status);
        }
        if let Some(step) = core.port.take_in(op, sectors) {
            self.do_step(step);
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        let core = &mut self.core;
        core.port.set_now(now);
        let is_read = completion.opcode == Opcode::Read;
        let sectors = if is_read { completion.data.len() / core.setup.image_bytes } else { 0 };
        if let Some(step) = core.port.take_back(completion.take(), sectors) {
            self.do_step(step);
        }
    }

    fn advance(&mut self, now: SimTime) {
        if self.core.journal.is_some() {
            self.core.port.set_now(now);
            let early = start::begin(&mut self.core);
            early.into_iter().for_each(|op| self.begin(op));
        }
        while let Some(step) = self.core.port.due(now) {
            self.do_step(step);
        }
        self.core.port.set_now(now);
        if evict::due(&self.core).is_some_and(|due| due <= now) {
            self.go_on();
        }
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        match (self.core.port.next_event(), evict::due(&self.core)) {
            (Some(step), Some(due)) => Some(step.min(due)),
            (step, due) => step.or(due),
        }
    }

    #[inline]
    fn next_command(&mut self) -> Option<Command> {
        self.core.port.next_command()
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        self.core.requests.pop()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.core.requests.answered()
    }

    fn stop(&mut self, now: SimTime) {
        self.core.port.set_now(now);
        self.core.ends.begin_stop();
        self.core.table.retry_all();
        self.go_on();
    }

    fn is_ready(&self) -> bool {
        self.core.journal.as_ref().is_none_or(|journal| journal.is_ready())
    }

    fn failure(&self) -> Option<String> {
        self.core.journal.as_ref().and_then(|journal| journal.failure())
    }

    fn is_stopped(&self) -> bool {
        self.core.ends.is_stopped()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let was_pausing = self.is_paused() && self.paused().is_none();
        let core = &mut self.core;
        if core.counters.journal_clusters > 0 && !core.setup.keeps_content() {
            return Err(
                "a drive that keeps no data keeps no journal either; allowed: media.store = ram".into()
            );
        }
        let mut fresh = Core::new(core.setup.clone());
        fresh.requests.inherit(&mut core.requests, now);
        fresh.counters = core.counters;
        fresh.counters.lost(core.table.held());
        fresh.port.set_now(now);
        fresh.timer.begin(now);
        fresh.ends.inherit(&core.ends, was_pausing);
        *core = fresh;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let setup = &self.core.setup;
        let mut figures = self.core.counters.figures(setup.config.sector_bytes);
        figures.extend([
            self.replayed_bytes(),
            self.torn_records(),
            Figure::bytes("held_bytes", "Bytes in the buffer.", setup.bytes(self.core.table.held().into()))
                .gauge(),
            Figure::count("paused", "1: writes pass the buffer by.", self.is_paused().into()).gauge(),
            Figure::bytes("memory_bytes", "Bytes of host memory.", self.memory_bytes()).gauge(),
        ]);
        figures
    }
}

impl ClusterBuffer {
    fn replayed_bytes(&self) -> Figure {
        let sectors = self.core.journal.as_ref().map_or(0, |journal| journal.replayed());
        let what = "Bytes that the last start brought back from the journal.";
        Figure::bytes("replayed_bytes", what, self.core.setup.bytes(sectors))
    }

    fn torn_records(&self) -> Figure {
        let torn = self.core.journal.as_ref().is_some_and(|journal| journal.is_torn());
        let what =
            "1: the last start found a record behind the newest that a power cut tore, or that is damaged.";
        Figure::count("torn_records", what, torn.into())
    }
}

impl Layer for ClusterBuffer {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.capacity_sectors(), handles: 1 }
    }

    fn keeps_flushed(&self) -> bool {
        self.config().flush == FlushPolicy::Strict
    }

    fn unsaved_sectors(&self) -> u64 {
        let table = &self.core.table;
        table.used().map(|(slot, _)| u64::from(table.unjournalled(slot))).sum()
    }

    fn start_figures(&self) -> Vec<Figure> {
        match self.core.journal {
            Some(_) => vec![self.replayed_bytes(), self.torn_records()],
            None => Vec::new(),
        }
    }

    fn start_notice(&self) -> Option<&'static str> {
        let made = self.core.journal.as_ref()?.has_made();
        made.then_some("the device had no journal, so a new one was made at its end")
    }
}
