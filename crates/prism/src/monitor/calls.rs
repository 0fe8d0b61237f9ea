//! The monitor's own commands, sent and waited for.

use super::commands::What;
use super::config::MonitorError;
use super::{Monitor, route};
use pellucid_flash::{ChunkInfo, Command, Completion, Drive, Lba, Opcode, SimTime};

/// Maximum number of the monitor's own commands in flight while no application is served.
const BATCH: usize = 64;

/// Advances time, as in [`Stack::call_by`](pellucid_host::Stack::call_by).
pub(super) trait Wait<D>: FnMut(&mut D, Option<SimTime>) -> Option<SimTime> {}

impl<D, F: FnMut(&mut D, Option<SimTime>) -> Option<SimTime>> Wait<D> for F {}

/// Answers to a batch of the monitor's own calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    answers: Vec<Option<Completion>>,
}

impl Calls {
    /// Expects one more answer; returns its number.
    fn expect(&mut self) -> usize {
        self.answers.push(None);
        self.answers.len() - 1
    }

    /// Stores the answer with this number.
    pub fn answer(&mut self, at: usize, completion: Completion) {
        self.answers[at] = Some(completion);
    }

    fn are_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }
}

/// Makes a command of the monitor to a sector of a chunk.
pub(super) fn own<D: Drive>(
    monitor: &Monitor<D>,
    opcode: Opcode,
    chunk: u32,
    sector: u32,
    sectors: u32,
    data: Vec<u8>,
) -> Command {
    let Lba(start) = monitor.geometry.lba(monitor.geometry.chunk_at(chunk));
    let command = Command::new(0, opcode, Lba(start + u64::from(sector)), sectors, data);
    Command { namespace: monitor.namespace, fua: opcode == Opcode::Write, ..command }
}

/// Sends a command of the monitor to the drive.
pub(super) fn send<D: Drive>(monitor: &mut Monitor<D>, what: What, command: Command) {
    let op = monitor.commands.own(what, command.sectors);
    monitor.drive.submit(monitor.now, Command { tag: op.into(), ..command });
}

/// Sends commands to the drive, and waits for all of them.
pub(super) fn call<D: Drive>(
    monitor: &mut Monitor<D>,
    commands: Vec<Command>,
    wait: &mut impl Wait<D>,
) -> Result<Vec<Completion>, MonitorError> {
    let mut ended = Vec::with_capacity(commands.len());
    let mut commands = commands.into_iter().peekable();
    while commands.peek().is_some() {
        monitor.calls.answers.clear();
        for command in commands.by_ref().take(BATCH) {
            let at = monitor.calls.expect();
            send(monitor, What::Call(at), command);
        }
        route::pump(monitor);
        run(monitor, wait, |monitor| monitor.calls.are_complete())?;
        ended.extend(monitor.calls.answers.drain(..).flatten());
    }
    Ok(ended)
}

/// Advances time until `done`.
pub(super) fn run<D: Drive>(
    monitor: &mut Monitor<D>,
    wait: &mut impl Wait<D>,
    done: impl Fn(&Monitor<D>) -> bool,
) -> Result<(), MonitorError> {
    while !done(monitor) {
        let next = Drive::next_event(monitor);
        match wait(&mut monitor.drive, next) {
            Some(now) => Drive::advance(monitor, now),
            None => return Err(MonitorError::NoAnswer),
        }
    }
    Ok(())
}

/// Decodes the drive's reports on these chunks, given as runs of first chunk and count.
pub(super) fn infos<D: Drive>(
    monitor: &mut Monitor<D>,
    runs: Vec<(u32, u32)>,
    wait: &mut impl Wait<D>,
) -> Result<Vec<ChunkInfo>, MonitorError> {
    let report = |(first, count)| own(monitor, Opcode::Report, first, 0, count, Vec::new());
    let commands = runs.into_iter().map(report).collect();
    let mut infos = Vec::new();
    for ended in call(monitor, commands, wait)? {
        infos.extend(ended.data.as_chunks().0.iter().filter_map(ChunkInfo::decode));
    }
    Ok(infos)
}
