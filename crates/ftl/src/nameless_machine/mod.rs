//! The FTL of nameless writes at work: below it, it needs only page reads, page writes and chunk resets ("Getting Real", 3.4).
//!
//! The machine accepts commands of a nameless namespace and issues commands of an open-channel one. A host runs it above a drive's line,
//! as the split FTL of the paper; a drive runs it below, over chunks of its own.
//!
//! ```text
//!   request of the block layer ─► flash pages of its own ─► one write at a time per parallel unit ─► drive
//!   reads: names are places; virtual sectors by the map ─────────────────────────────────────────►
//!   victims: live sectors ─► memory ─► new pages ─► Moved ─► acknowledged ─► checkpoint ─► reset
//! ```
//! [`Nameless`], the engine, makes the decisions; this layer carries them out. [`NamelessGeometry`] states the guarantees of each
//! command. `docs/explanation/nameless-writes.md` explains the central rule: a block is erased only after a checkpoint that needs nothing
//! in it.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Shape`] | data blocks, and the two places for checkpoints | never changes |
//! | [`Nameless`] | names, maps, blocks | see its head |
//! | [`Requests`](requests::Requests) | commands of the application, moves and completions on their way up | a request ends with its last part, and the first error |
//! | [`Writes`](write::Writes) | programs that wait or are under way | one under way in a die |
//! | [`Reads`](read::Reads) | reads with the drive | a block that is read is not erased |
//! | [`Victim`](collect::Victim) | images of the victim of garbage collection | one victim at a time |
//! | [`Flushes`](checkpoint::Flushes) | requests that wait for a checkpoint | a checkpoint covers those that came before it |
//! | [`Saver`](saver::Saver) | chunks for checkpoints, the one under way | the newest complete one is never erased |
//! | [`Link`](link::Link) | commands with the drive, spare buffers | counts balance |
//! | [`Tally`](core::Tally) | counts | they only grow |
//! | [`Start`] | what was found, requests that came meanwhile | gone when it has ended |
//!
//! Each object alone writes its fields. All but the start make the [`Core`]. Paths are functions without state: `commands`, `write`, `read`,
//! `collect`, `checkpoint`, `ends`. The [`NamelessMachine`] wires them.

mod checkpoint;
mod collect;
mod commands;
mod core;
mod ends;
mod link;
mod read;
mod requests;
mod saver;
mod shape;
mod start;
mod write;

use self::core::Core;
use crate::{ChunkConfig, Management, Nameless, NamelessConfig, NamelessCounters, WriteFailure};
use link::{TAG_NUMBER, TAG_READ, TAG_RESET, TAG_SAVE, TAG_WRITE};
use pellucid_flash::{
    Cause, ChunkGeometry, Command, Completion, Figure, Interface, Lba, NamelessGeometry, Pauses, SimTime,
    Status,
};
pub use requests::Sending;
use shape::Shape;
use start::Start;
use std::ops::Range;

/// Event counts of this layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamelessFtlCounters {
    /// Pages written for the application, and sectors of these that hold data.
    pub pages: u64,
    /// See `pages`.
    pub page_sectors: u64,
    /// Pages written with copies.
    pub copy_pages: u64,
    /// Pages of checkpoints, and checkpoints.
    pub checkpoint_pages: u64,
    /// See `checkpoint_pages`.
    pub checkpoints: u64,
    /// Writes that failed and were repeated elsewhere.
    pub write_failures: u64,
    /// Victims that have ended, by the time from their choice until their data lie elsewhere.
    pub pauses: Pauses,
    /// Event counts of the engine.
    pub engine: NamelessCounters,
}

/// The machine. Clone it, together with the drive below it, to fork its future.
#[derive(Clone, Debug)]
pub struct NamelessMachine {
    core: Core,
    interface: Option<Interface>,
    starting: Option<Box<Start>>,
    /// Since when writes wait for the host alone.
    awaiting: Option<SimTime>,
}

impl NamelessMachine {
    /// Reason why spare capacity has a least value.
    pub const ALWAYS_SPARE: &str =
        "open blocks, those of GC and checkpoints, and a page of each other block are spare in any case";

    /// Chunks that a drive keeps for the machine in these blocks of every die.
    pub fn chunks(blocks: Range<u32>) -> ChunkConfig {
        ChunkConfig {
            blocks,
            management: Management::Host,
            write_optimal_superpages: 1,
            cached_superpages: 0,
            open_max: 0,
            open_per_unit_max: 0,
            failure: WriteFailure::CloseChunk,
            rated_erases: u32::MAX,
        }
    }

    /// Minimum spare capacity with which the machine starts on such chunks; `None`: there are too few chunks for any data. The error is a
    /// sentence.
    pub fn over_provisioning_least(
        config: &NamelessConfig,
        geometry: &ChunkGeometry,
    ) -> Result<Option<f64>, String> {
        let shape = Shape::new(config, 0, Some(Interface::OpenChannel(*geometry)))?;
        Ok(shape.over_provisioning_least())
    }

    /// Creates the machine for the open-channel namespace `namespace`, which `interface` describes. It reads the state of a former run
    /// when it [starts](NamelessMachine::start). The error is a sentence.
    pub fn new(
        config: &NamelessConfig,
        namespace: u16,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<NamelessMachine, String> {
        let shape = Shape::new(config, namespace, interface)?;
        if let Some(least) = shape.over_provisioning_least().filter(|&least| config.over_provisioning < least)
        {
            // In percent, as a description takes all of them.
            let (given, least) = (config.over_provisioning * 100.0, least * 100.0);
            return Err(format!(
                "nameless writes: over_provisioning = {given}%; allowed: at least {least:.2}%: {}",
                NamelessMachine::ALWAYS_SPARE
            ));
        }
        let core = Core::new(config, shape, namespace, image_bytes)?;
        Ok(NamelessMachine { core, interface, starting: Some(Box::default()), awaiting: None })
    }

    /// Geometry of the nameless namespace.
    pub fn geometry(&self) -> NamelessGeometry {
        self.core.geometry()
    }

    /// Event counts so far.
    pub fn counters(&self) -> NamelessFtlCounters {
        let (checkpoint_pages, checkpoints) = self.core.saver.written();
        NamelessFtlCounters {
            engine: self.core.engine.counters(),
            checkpoint_pages,
            checkpoints,
            ..self.core.tally.counts()
        }
    }

    /// The engine that makes its decisions.
    pub fn engine(&self) -> &Nameless {
        &self.core.engine
    }

    /// Bytes of memory for tables and buffers.
    pub fn memory_bytes(&self) -> u64 {
        self.core.memory_bytes()
    }

    /// Walks every invariant and panics where one is broken. Cost: the whole namespace.
    pub fn check(&self) {
        if self.starting.is_none() && self.core.health.failure().is_none() {
            self.core.engine.check();
            self.core.writes.check();
        }
    }

    /// Reason for refusing a command, if any.
    pub fn refuse(&self, command: &Command) -> Option<Status> {
        commands::refuse(&self.core, command)
    }

    /// Ends a command of the drive.
    fn ended(&mut self, completion: &mut Completion) {
        let core = &mut self.core;
        core.link.ended();
        core.progress.note();
        let number = (completion.tag & TAG_NUMBER) as u32;
        match completion.tag & !TAG_NUMBER {
            TAG_WRITE => write::written(core, number, completion),
            TAG_READ => read::read_ended(core, number, completion),
            TAG_RESET => collect::reset_ended(core, number, completion),
            TAG_SAVE => checkpoint::save_ended(core, number, completion),
            _ => {
                if let Some(start) = &mut self.starting {
                    start.ended(core, number, completion);
                }
            }
        }
        core.link.put_back(completion);
    }

    /// Does all current work, until everything waits for the drive, the processor or the application.
    fn settle(&mut self) {
        let core = &mut self.core;
        ends::take_moves(core);
        while core.progress.take() {
            if let Some(start) = &mut self.starting {
                if start.go_on(core)
                    && let Some(start) = self.starting.take()
                {
                    start.end(core);
                }
                continue;
            }
            collect::continue_gc(core);
            write::fill(core);
            checkpoint::continue_checkpoint(core);
            collect::erase(core);
            if !core.progress.is_made() && core.link.is_idle() {
                write::give_up(core);
            }
        }
        let awaits = self.starting.is_none() && core.link.is_idle() && core.writes.is_waiting();
        self.awaiting = awaits.then(|| self.awaiting.unwrap_or(core.now));
    }
}

/// Commands and completions, above and below.
impl NamelessMachine {
    /// Accepts a command of the application. `refused`: the result of [`NamelessMachine::refuse`], or another reason.
    pub fn submit(&mut self, sending: Sending, now: SimTime, command: Command, refused: Option<Status>) {
        self.start(now);
        let core = &mut self.core;
        core.stopping = false;
        let request = core.requests.begin(command, sending, refused);
        match (refused, &mut self.starting) {
            (Some(_), _) => ends::finish(core, request),
            (None, Some(start)) => start.keep(request),
            (None, None) => commands::begin(core, request),
        }
        self.settle();
    }

    /// Accepts the completion of a command of the drive.
    pub fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.core.now = now;
        self.ended(completion);
        self.settle();
    }

    /// Ends writes that wait for an acknowledgement with [`Status::CapacityExceeded`]: the host that should acknowledge is out of reach.
    pub fn give_up_waiting(&mut self) {
        write::drop_waiting(&mut self.core);
        self.settle();
    }

    /// Time at which the longest wait of writes for the host ends; `None`: none waits.
    pub fn next_event(&self) -> Option<SimTime> {
        self.awaiting.map(|since| since + self.core.config.acknowledge_within_ns)
    }

    /// Fails writes whose maximum wait has ended by `now`. Returns whether there were any.
    pub fn advance(&mut self, now: SimTime) -> bool {
        let due = self.next_event().is_some_and(|at| at <= now);
        if due {
            self.core.now = now;
            self.give_up_waiting();
        }
        due
    }

    /// Starts: reads the state of a former run, unless that is done or under way.
    pub fn start(&mut self, now: SimTime) {
        self.core.now = now;
        if self.starting.as_ref().is_some_and(|start| start.is_new()) {
            self.core.progress.note();
            self.settle();
        }
    }

    /// The next command for the drive.
    pub fn next_command(&mut self) -> Option<Command> {
        self.core.link.next_command()
    }

    /// Cause of a command for the drive.
    pub fn cause(&self, command: &Command) -> Cause {
        let number = (command.tag & TAG_NUMBER) as u32;
        match command.tag & !TAG_NUMBER {
            TAG_WRITE if write::writes_copies(&self.core, number) => Cause::Gc,
            TAG_READ if self.core.reads.is_of_victim(number) => Cause::Gc,
            TAG_RESET => Cause::Gc,
            TAG_SAVE => Cause::Journal,
            _ => Cause::Host,
        }
    }

    /// Takes the next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.core.requests.pop()
    }

    /// Completions that wait to be taken.
    pub fn answered(&self) -> usize {
        self.core.requests.answered()
    }

    /// Reason why the machine cannot work at all.
    pub fn failure(&self) -> Option<String> {
        self.core.health.failure().cloned()
    }

    /// Returns whether the start has ended.
    pub fn is_ready(&self) -> bool {
        self.starting.is_none()
    }

    /// Stops: no more commands follow, so a checkpoint of all unsaved changes is written.
    pub fn stop(&mut self, now: SimTime) {
        self.core.now = now;
        self.core.stopping = true;
        self.core.progress.note();
        self.settle();
    }

    /// Returns whether a stop has completed.
    pub fn is_stopped(&self) -> bool {
        self.core.stopping && self.starting.is_none() && checkpoint::is_saved(&self.core)
    }

    /// Restarts after a power cut: everything that was only in memory is lost. Commands under way end with [`Status::PowerLoss`].
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let Core { config, link, image_bytes, .. } = &self.core;
        let mut fresh = NamelessMachine::new(config, link.namespace(), self.interface, *image_bytes)?;
        fresh.keep(self.take_kept());
        fresh.core.now = now;
        fresh.core.requests.put_up(self.core.requests.lose_all(now));
        *self = fresh;
        Ok(())
    }

    /// Ends a command that had not arrived when the power was cut.
    pub fn lose(&mut self, completion: Completion) {
        self.core.requests.put_up([completion]);
    }

    /// Takes the newest checkpoint, if the drive keeps stamps instead of data: the caller hands it to the next machine for the drive.
    pub fn take_kept(&mut self) -> Option<Vec<u8>> {
        self.core.saver.take_kept()
    }

    /// Sets the result of [`NamelessMachine::take_kept`], before the start.
    pub fn keep(&mut self, kept: Option<Vec<u8>>) {
        self.core.saver.keep(kept);
    }

    /// Moves that wait to be reported.
    pub fn moves_to_tell(&self) -> usize {
        self.core.requests.moves()
    }

    /// The next move to be reported: old name and new one.
    pub fn next_move(&mut self) -> Option<(Lba, Lba)> {
        self.core.requests.next_move().map(|(old, new)| (Lba(old.0.into()), Lba(new.0.into())))
    }

    /// Returns whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.core.health.refuses_writes() || self.core.health.failure().is_some()
    }

    /// Event counts, with readable names.
    pub fn figures(&self) -> Vec<Figure> {
        let counters = self.counters();
        let count = Figure::count;
        let mut figures = vec![
            count("nameless_pages", "Flash pages written for the application.", counters.pages),
            count("nameless_page_sectors", "Sectors of these that hold data.", counters.page_sectors),
            count("nameless_copied_sectors", "Sectors copied by garbage collection.", counters.engine.copied),
            count("nameless_moves", "Moves told to the application.", counters.engine.moves),
            count("nameless_erases", "Chunks reset.", counters.engine.erases),
            count("nameless_checkpoints", "Checkpoints written.", counters.checkpoints),
            count("nameless_checkpoint_pages", "Flash pages of these.", counters.checkpoint_pages),
            count("nameless_write_failures", "Writes done again elsewhere.", counters.write_failures),
            count(
                "nameless_unacknowledged",
                "Moves not acknowledged.",
                self.core.engine.unacknowledged() as u64,
            )
            .gauge(),
            count("nameless_free_chunks", "Free chunks.", self.core.engine.free_blocks().into()).gauge(),
            count("nameless_memory_bytes", "Memory for tables and buffers.", self.memory_bytes()).gauge(),
        ];
        figures.extend(counters.pauses.figures([
            "nameless_gc_pauses",
            "nameless_gc_pause_sum_ns",
            "nameless_gc_pause_p50_ns",
            "nameless_gc_pause_p99_ns",
            "nameless_gc_pause_max_ns",
        ]));
        figures
    }
}
