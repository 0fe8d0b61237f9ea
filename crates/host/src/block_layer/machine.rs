//! Block layer as a host machine: commands in, commands to the drive, completions out.
//!
//! Every call only records an event; its consequences run after their processor time ([`Step`]).

use super::queue::Kind;
use super::{BlockLayer, BlockLayerCounters, Origin, Step};
use crate::{Layer, Machine};
use pellucid_flash::slab::List;
use pellucid_flash::{Command, Completion, Figure, Interface, Notice, SimTime, Stage, StageTimes, Status};

impl Machine for BlockLayer {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        self.live += 1;
        if Kind::of(&command).is_some() {
            self.counters.commands += 1;
            self.counters.command_sectors += u64::from(command.sectors);
        }
        let origin = Origin { command: Some(command), submitted: now, ..Origin::default() };
        let origin = self.origins.insert(origin);
        self.take_step(self.config.cpu.submit_ns, Step::Enter(origin));
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let request = completion.tag as u32;
        if self.ended.len() <= request as usize {
            self.ended.resize(request as usize + 1, None);
        }
        self.ended[request as usize] = Some(completion.take());
        self.take_step(self.config.cpu.completion_ns, Step::Done(request));
    }

    fn notice(&mut self, _now: SimTime, _namespace: u16, notice: Notice) {
        if let Notice::Moved { old, new } = notice {
            self.moved(old, new);
        }
        self.notices.push_back(notice);
    }

    fn advance(&mut self, now: SimTime) {
        while let Some((at, step)) = self.steps.due(now) {
            self.now = at;
            self.run(step);
        }
        self.now = now;
        self.unplug_if_due(now);
    }

    fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event().into_iter().chain(self.plugged_until).min()
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn stop(&mut self, now: SimTime) {
        self.now = now;
        self.plugged_until = None;
        self.dispatch();
    }

    fn is_stopped(&self) -> bool {
        self.live == 0
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.now = now;
        self.queue.clear();
        self.urgent.clear();
        self.freeing.clear();
        (self.outside, self.outside_len) = (List::EMPTY, 0);
        self.ended.clear();
        self.notices.clear();
        self.down.clear();
        (self.with_drive, self.giving, self.holding, self.plugged_until) = (0, 0, 0, None);
        while self.steps.due(SimTime(u64::MAX)).is_some() {}
        for origin in self.origins.iter_mut() {
            let Some(command) = origin.command.take() else { continue };
            let mut stages = StageTimes::default();
            stages.add(Stage::Host, now.since(origin.submitted));
            self.up.push_back(command.ended(Status::PowerLoss, origin.submitted, now, stages));
        }
        self.origins.clear();
        self.parts.clear();
        self.live = 0;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let BlockLayerCounters { commands, command_sectors, requests, request_sectors, split } =
            self.counters;
        vec![
            Figure::count(
                "block_layer_commands",
                "Commands with data that came to the block layer.",
                commands,
            ),
            Figure::count("block_layer_command_sectors", "Their sectors.", command_sectors),
            Figure::count("block_layer_requests", "Requests with data that it gave the drive.", requests),
            Figure::count("block_layer_request_sectors", "Their sectors.", request_sectors),
            Figure::count(
                "block_layer_split",
                "Merged requests that failed and were sent again in parts.",
                split,
            ),
            Figure::count("block_layer_waiting", "Requests that wait.", self.queue.len as u64).gauge(),
            Figure::count(
                "block_layer_outside",
                "Commands that wait in front of the queue.",
                self.outside_len as u64,
            )
            .gauge(),
        ]
    }
}

impl Layer for BlockLayer {
    fn interface(&self) -> Interface {
        self.interface
    }

    fn notices(&self) -> usize {
        self.notices.len()
    }

    fn pop_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}
