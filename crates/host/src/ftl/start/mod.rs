//! Start of the layer: finds the chunks and the data that an earlier run left on them.
//!
//! ```text
//!  report ─► (starts that the drive holds back are padded) ─► all free: new lines, ready
//!     └────► starts of lines read ─► chunks of no line reset; holes that a crash has left in a line padded
//!                │ (one fails, or lies in an offline chunk: chunks asked whose they are; chunks of no line: asked, too, before they go)
//!                └─► mount: the engine asks; what it misses is read, and it is asked again ─► ready
//! ```
//! The engine's mount asks for facts as it needs them. It runs against the facts known so far; each missing
//! one is noted and read from the drive, and the mount runs again. It first needs the range of each line (the
//! head of its end), then the translation pages, then the logical pages of the lines that were written since.
//! For a line without a valid end, these come from the index of a clean stop (`paths/stop.rs`), or from the
//! out-of-band data of its sectors. A start after a clean stop therefore reads the translation pages, a few
//! sectors of each line, its ends and the index.
//!
//! | object | owns |
//! |---|---|
//! | [`FtlStart`] | the phase, the cost, the chunks that are reset |
//! | [`Needs`] | the reads under way or still to send |
//! | [`Facts`] | what is known of chunks and lines |

mod ask;
mod facts;
mod learn;
mod lost;
mod needs;
mod repair;
mod source;

use super::HostFtlError;
use super::core::Core;
use super::port::{TAG_NUMBER, TAG_START};
use super::sizes;
use facts::Facts;
use needs::{Need, Needs};
use pellucid_flash::{
    BlockId, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Figure, Lba, Nanos, Opcode, SimTime, Status,
};
use pellucid_ftl::{MountReport, PageMap};
use source::Source;
use std::collections::BTreeSet;

/// Cost of the last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountCost {
    /// Number of reads sent to the drive.
    pub reads: u64,
    /// Number of sectors of these reads.
    pub sectors: u64,
    /// Number of padding superpages written into the holes that a crash left in lines.
    pub padded_superpages: u64,
    /// Number of chunks reset because they belong to no line.
    pub orphans: u64,
    /// Simulated time from the first command until the layer was ready.
    pub time: Nanos,
    /// Report of the engine's mount.
    pub report: MountReport,
}

impl MountCost {
    /// Returns the cost as named figures, for a log.
    pub fn figures(&self) -> Vec<Figure> {
        let MountCost { reads, sectors, padded_superpages, time, report, .. } = *self;
        let found = |name, help, value| Figure::count(name, help, value).gauge();
        vec![
            found("translation_pages", "Translation pages read.", report.map_page_reads),
            found("replayed", "Superpages whose owners were read.", report.replay_reads),
            found("mapped", "Sectors that hold data.", report.mapped_units),
            found("lost", "Sectors whose newest copy cannot be known.", report.lost_units),
            found("reads", "Reads sent to the drive.", reads),
            found("sectors", "Sectors of these.", sectors),
            found(
                "padded",
                "Superpages written into lines that a crash had left with holes.",
                padded_superpages,
            ),
            Figure::count("took_us", "Simulated microseconds until ready.", time.0 / 1_000).gauge(),
        ]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Report,
    Reveal,
    Starts,
    Owners,
    Strangers,
    Repair,
    Mount,
}

/// State of a start under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct FtlStart {
    phase: Phase,
    began: SimTime,
    facts: Facts,
    needs: Needs,
    /// Chunks that are reset, by tag.
    orphans: Vec<Lba>,
    cost: MountCost,
}

impl FtlStart {
    pub fn is_new(&self) -> bool {
        self.phase == Phase::New
    }

    /// Returns the cost so far.
    pub fn cost(&self) -> MountCost {
        self.cost
    }

    /// Continues the start; returns `true` once the layer may run.
    pub fn go_on(&mut self, core: &mut Core) -> bool {
        if self.phase == Phase::New {
            self.phase = Phase::Report;
            self.began = core.port.now();
            self.needs.hold(1);
            let shape = core.lines.shape();
            let report =
                Command::new(TAG_START, Opcode::Report, shape.first_chunk(), shape.span(), Vec::new());
            core.port.send(report);
            return false;
        }
        self.send_needs(core);
        if !self.needs.is_quiet() || core.health.failure().is_some() {
            return false;
        }
        core.work.moved();
        match self.phase {
            Phase::New | Phase::Report => self.reveal_starts(core),
            Phase::Reveal => self.read_starts(core),
            Phase::Starts => match lost::owners_to_ask(core.lines.shape(), &mut self.facts) {
                Some(needs) => self.ask(core, Phase::Owners, needs),
                None => self.ask_strangers(core),
            },
            Phase::Owners => match lost::find_lost(core.lines.shape(), &self.facts) {
                Ok(found) => {
                    self.facts.rebuild(found);
                    self.ask_strangers(core);
                }
                Err(sentence) => core.health.fail(HostFtlError::Drive(sentence)),
            },
            Phase::Strangers => self.repair(core),
            Phase::Repair => {
                self.phase = Phase::Mount;
                repair::assign_chunks(core, &self.facts);
                repair::end_broken(core, &mut self.facts);
                return self.try_mount(core);
            }
            Phase::Mount => return self.try_mount(core),
        }
        false
    }

    /// Lets the layer begin to run.
    pub fn end(&mut self, core: &mut Core) {
        self.cost.time = core.port.now() - self.began;
        core.note_wear();
        core.work.moved();
        repair::go_on_with_lines(core, &self.facts);
        repair::finish_closed(core, &self.facts);
    }

    // ---- commands

    fn ask(&mut self, core: &mut Core, phase: Phase, needs: Vec<Need>) {
        self.phase = phase;
        self.needs.set(needs);
        self.send_needs(core);
    }

    /// Sends reads, up to the maximum number under way.
    fn send_needs(&mut self, core: &mut Core) {
        while let Some((at, need)) = self.needs.next() {
            let command = ask::command_of(core, &self.facts, need);
            if command.opcode == Opcode::Read {
                self.cost.reads += 1;
                self.cost.sectors += u64::from(command.sectors);
            }
            core.port.send(Command { tag: TAG_START | at as u64, ..command });
        }
    }

    /// Handles the end of a command of the start.
    pub fn ended(&mut self, core: &mut Core, completion: &Completion) {
        let number = (completion.tag & TAG_NUMBER) as usize;
        if completion.opcode == Opcode::Report {
            self.needs.release(1);
            return self.reported(core, completion);
        }
        if completion.opcode == Opcode::Chunk(ChunkOp::Reset) {
            self.needs.release(1);
            if completion.status == Status::Success {
                self.facts.was_reset(self.orphans[number]);
            }
            return;
        }
        let need = self.needs.ended(number);
        let failed = !learn::is_good(completion);
        // Metadata that cannot be read are lost, so they get as many retries as the application's
        // reads.
        if failed
            && completion.opcode == Opcode::Read
            && self.needs.tries_again(need, core.lines.shape().config.read_retries)
        {
            let command = ask::command_of(core, &self.facts, need);
            return core.port.send(Command { tag: completion.tag, ..command });
        }
        if let Need::Reveal(_, rows) = need {
            self.cost.padded_superpages += u64::from(rows);
        }
        if let Err(error) = learn::learn(core, &mut self.facts, need, completion) {
            core.health.fail(error);
        }
    }

    /// Notes the end of padding writes.
    pub fn pad_ended(&mut self, count: u32) {
        self.needs.release(count);
    }

    // ---- phases

    fn reported(&mut self, core: &mut Core, completion: &Completion) {
        let infos = completion.data.chunks_exact(ChunkInfo::BYTES);
        let infos: Option<Vec<ChunkInfo>> =
            infos.map(|bytes| ChunkInfo::decode(bytes.try_into().expect("exact chunks"))).collect();
        let shape = core.lines.shape();
        let wanted = shape.span() as usize;
        match infos.filter(|infos| completion.status == Status::Success && infos.len() == wanted) {
            Some(infos) => {
                let own = infos.into_iter().filter(|info| shape.unit_of(info.start).is_some());
                self.facts.set_chunks(own);
            }
            None => {
                let sentence = format!("the drive did not report its chunks: {:?}", completion.status);
                core.health.fail(HostFtlError::Drive(sentence));
            }
        }
    }

    /// Pads chunks on a drive that holds sectors back, so that the start of a newly begun line becomes
    /// readable.
    fn reveal_starts(&mut self, core: &mut Core) {
        let shape = core.lines.shape();
        if self.facts.chunks().any(lost::is_in_use) && !shape.keeps_content() {
            self.phase = Phase::Reveal;
            let sentence = "the drive keeps stamps instead of data (store = \"none\"), so that the host's records on it are \
                            lost; a host FTL can be mounted again with store = \"ram\" or \"file\"";
            return core.health.fail(HostFtlError::Drive(sentence.into()));
        }
        let (held, superpage) = (shape.held_rows, shape.superpage_sectors);
        let hidden = self.facts.chunks().filter(|info| {
            info.state == ChunkState::Open
                && info.write_pointer.is_multiple_of(superpage)
                && info.write_pointer / superpage <= held
                && shape.unit_of(info.start).is_some_and(|(unit, _)| unit == 0)
        });
        let rows = |info: &ChunkInfo| held.min(shape.rows - 1) + 1 - info.write_pointer / superpage;
        let needs = hidden.map(|info| Need::Reveal(info.start, rows(info))).collect();
        self.ask(core, Phase::Reveal, needs);
    }

    fn read_starts(&mut self, core: &mut Core) {
        let shape = core.lines.shape();
        let is_first = |info: &&ChunkInfo| {
            lost::is_in_use(info) && shape.unit_of(info.start).is_some_and(|(unit, _)| unit == 0)
        };
        let needs = self.facts.chunks().filter(is_first).map(|info| Need::Start(info.start)).collect();
        self.ask(core, Phase::Starts, needs);
    }

    /// Finds the chunks that belong to no known line, and looks whose they are.
    fn ask_strangers(&mut self, core: &mut Core) {
        self.orphans = repair::orphans(&mut self.facts);
        let needs = self.orphans.iter().map(|&chunk| Need::Stranger(chunk)).collect();
        self.ask(core, Phase::Strangers, needs);
    }

    /// Assigns chunks to the known lines, resets the chunks that belong to none, and pads holes.
    fn repair(&mut self, core: &mut Core) {
        self.phase = Phase::Repair;
        self.needs.hold(self.orphans.len() as u32);
        self.cost.orphans += self.orphans.len() as u64;
        for (at, &lba) in (0..).zip(&self.orphans) {
            core.port.send(Command::new(TAG_START | at, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
        }
        let padded = repair::measure_all(core, &mut self.facts);
        self.needs.hold(padded);
        self.cost.padded_superpages += u64::from(padded);
    }

    /// Runs the engine's mount against the known facts; returns `true` if none was missing.
    fn try_mount(&mut self, core: &mut Core) -> bool {
        let shape = core.lines.shape();
        let (layout, engine) = (&shape.layout, sizes::engine_config(shape));
        let bad: BTreeSet<u32> = (0..shape.lines()).filter(|&b| !core.lines.is_whole(BlockId(b))).collect();
        let result = if self.facts.starts().is_empty() {
            let bad: Vec<BlockId> = bad.iter().map(|&b| BlockId(b)).collect();
            PageMap::new(&engine, layout, &bad).map(|map| (map, None))
        } else {
            let source = Source::new(core.ftl.user_units(), layout, &self.facts, &bad);
            // Data are kept even with volatile durability: they were not discarded on purpose.
            let result = PageMap::start(&engine, layout, pellucid_ftl::Start::Restore(&source));
            let missing = source.into_missing();
            if !missing.is_empty() {
                let needs = ask::needs_of(core, &mut self.facts, missing);
                self.ask(core, Phase::Mount, needs);
                return false;
            }
            result
        };
        let (map, report) = match result {
            Ok(made) => made,
            Err(error) => {
                core.health.fail(HostFtlError::Room(error));
                return false;
            }
        };
        if let Some(sentence) = lost::blind_line(shape, &self.facts, &map) {
            core.health.fail(HostFtlError::Drive(sentence));
            return false;
        }
        core.ftl = map;
        self.cost.report = report.unwrap_or_default();
        true
    }
}
