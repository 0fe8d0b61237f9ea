//! Stub drive of block namespaces that carries out commands after a given time, and emits given notices.

use pellucid_flash::{Command, Completion, Drive, Interface, Nanos, Notice, SimTime, Status};
use std::collections::VecDeque;

/// Stub drive; each command takes as long as its first sector says.
#[derive(Clone, Debug, Default)]
pub struct Stub {
    pub namespaces: u16,
    pub notices: VecDeque<(u16, Notice)>,
    /// Commands in the order of arrival.
    pub seen: Vec<(u16, u64)>,
    pending: Vec<(SimTime, SimTime, Command)>,
    done: VecDeque<Completion>,
}

impl Stub {
    pub fn new(namespaces: u16) -> Stub {
        Stub { namespaces, ..Stub::default() }
    }

    /// Loses the commands under way.
    pub fn power_cut(&mut self, now: SimTime) {
        for (submitted, _, command) in self.pending.drain(..) {
            self.done.push_back(Completion { submitted, ..command.refused(now, Status::PowerLoss) });
        }
    }
}

impl Drive for Stub {
    fn namespaces(&self) -> u16 {
        self.namespaces
    }

    /// Returns a different size for each namespace.
    fn interface(&self, namespace: u16) -> Option<Interface> {
        let sectors = 100 * (u64::from(namespace) + 1);
        (namespace < self.namespaces).then_some(Interface::Block { sectors, handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        4
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.seen.push((command.namespace, command.tag));
        self.pending.push((now, now + Nanos(command.lba.0), command));
    }

    fn advance(&mut self, now: SimTime) {
        self.pending.sort_by_key(|(_, due, _)| *due);
        let due = self.pending.iter().take_while(|(_, due, _)| *due <= now).count();
        for (submitted, due, command) in self.pending.drain(..due) {
            self.done.push_back(Completion { submitted, ..command.refused(due, Status::Success) });
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.pending.iter().map(|(_, due, _)| *due).min()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.pending.len()
    }

    fn completed(&self) -> usize {
        self.done.len()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        self.notices.pop_front()
    }
}
