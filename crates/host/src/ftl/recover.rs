//! Start of the layer: finds the chunks and the data that an earlier run left on them.
//!
//! ```text
//!  report ─► (starts that the drive holds back are padded) ─► all free: new lines, ready
//!     └────► starts of lines read ─► chunks of no line reset; holes that a crash has left in a line padded
//!                │ (one fails, or lies in an offline chunk: chunks asked whose they are)
//!                └─► mount: the engine asks; what it misses is read, and it is asked again ─► ready
//! ```
//! The engine's mount asks for facts as it needs them. It runs against the facts known so far; each missing
//! one is noted and read from the drive, and the mount runs again. It first needs the range of each line (the
//! head of its end), then the translation pages, then the logical pages of the lines that were written since.
//! For a line without a valid end, these come from the index of a clean stop ([`super::stop`]), or from the
//! out-of-band data of its sectors. A start after a clean stop therefore reads the translation pages, a few
//! sectors of each line, its ends and the index.

mod lost;
mod needs;
mod repair;

use super::{HostFtl, HostFtlError, TAG_NUMBER, TAG_START};
use needs::{Known, Need, Source};
use pellucid_flash::{
    BlockId, ChunkInfo, ChunkState, Command, Completion, Figure, Lba, Nanos, Opcode, SimTime, Status,
};
use pellucid_ftl::{MountReport, PageMap};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

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
    Repair,
    Mount,
}

/// State of a start under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    phase: Phase,
    began: SimTime,
    chunks: BTreeMap<u64, ChunkInfo>,
    /// Lines that were found, with their sequence numbers and chunks.
    starts: BTreeMap<u32, (u64, Vec<Lba>)>,
    /// Chunks whose first superpage, which may be the start of a line, is unreadable; offline chunks are
    /// included if a line may lack one.
    lost: BTreeSet<u64>,
    /// Line and newest sequence number in the signatures of each chunk that belongs to no known line.
    owners: BTreeMap<u64, (u32, u64)>,
    /// Chunks that belong to no known line and have no readable signature.
    silent: BTreeSet<u64>,
    /// Lines rebuilt from the signatures of their chunks.
    rebuilt: BTreeSet<u32>,
    /// Lines that were scanned without their first chunk, which is offline.
    blind: BTreeSet<u32>,
    /// Number of the engine's superpages in use, by line.
    used: BTreeMap<u32, u32>,
    /// Lines whose end is complete according to the write pointers.
    ended: BTreeSet<u32>,
    /// Lines without an end whose first or last superpage is unreadable or missing; they are scanned as a
    /// whole.
    torn: BTreeSet<u32>,
    /// Lines without an end that have the index of a clean stop.
    indexed: BTreeSet<u32>,
    known: BTreeMap<u32, Known>,
    map_pages: BTreeMap<u32, Vec<u8>>,
    /// Reads under way or still to send, by tag.
    needs: Vec<Need>,
    next: usize,
    /// Number of retries of each failed read.
    attempts: BTreeMap<Need, u32>,
    under_way: u32,
    /// Ends and indexes: number of sectors that have arrived, and content.
    records: BTreeMap<u32, (u32, Vec<u8>)>,
    orphans: Vec<Lba>,
}

impl Start {
    pub fn is_new(&self) -> bool {
        self.phase == Phase::New
    }
}

impl HostFtl {
    /// Continues the start.
    pub(super) fn continue_start(&mut self) {
        let Some(mut start) = self.starting.take() else { return };
        if start.phase == Phase::New {
            start.phase = Phase::Report;
            start.began = self.now;
            start.under_way = 1;
            let count = self.lines.span();
            let first = self.lines.first_chunk();
            self.starting = Some(start);
            return self.send(Command::new(TAG_START, Opcode::Report, first, count, Vec::new()));
        }
        self.send_needs(&mut start);
        let done = start.under_way == 0 && self.failure.is_none();
        if !done {
            self.starting = Some(start);
            return;
        }
        self.moved = true;
        match start.phase {
            Phase::New | Phase::Report => self.reveal_starts(&mut start),
            Phase::Reveal => self.begin_starts(&mut start),
            Phase::Starts => self.starts_read(&mut start),
            Phase::Owners => self.rebuild_lost(&mut start),
            Phase::Repair | Phase::Mount => {
                if self.try_mount(&mut start) {
                    return self.ready(&start);
                }
            }
        }
        self.starting = Some(start);
    }

    /// Handles the end of a command of the start.
    pub(super) fn start_ended(&mut self, completion: &Completion) {
        let Some(mut start) = self.starting.take() else { return };
        start.under_way -= 1;
        if completion.opcode == Opcode::Report {
            self.reported(&mut start, completion);
        } else if completion.opcode == Opcode::Reset {
            let lba = start.orphans[(completion.tag & TAG_NUMBER) as usize];
            if completion.status == Status::Success
                && let Some(info) = start.chunks.get_mut(&lba.0)
            {
                *info = ChunkInfo { state: ChunkState::Free, write_pointer: 0, ..*info };
            }
        } else {
            let need = start.needs[(completion.tag & TAG_NUMBER) as usize];
            let failed = !matches!(completion.status, Status::Success | Status::HighEcc);
            let attempts = start.attempts.entry(need).or_default();
            if failed && completion.opcode == Opcode::Read && *attempts < self.config.read_retries {
                // Metadata that cannot be read are lost, so they get as many retries as the application's
                // reads.
                *attempts += 1;
                start.under_way += 1;
                let command = self.need_command(&start, need);
                self.starting = Some(start);
                return self.send(Command { tag: completion.tag, ..command });
            }
            self.learn(&mut start, need, completion);
        }
        self.starting = Some(start);
    }

    fn reported(&mut self, start: &mut Start, completion: &Completion) {
        let infos = completion.data.chunks_exact(ChunkInfo::BYTES);
        let infos: Option<Vec<ChunkInfo>> =
            infos.map(|bytes| ChunkInfo::decode(bytes.try_into().expect("exact chunks"))).collect();
        let wanted = self.lines.span() as usize;
        match infos.filter(|infos| completion.status == Status::Success && infos.len() == wanted) {
            Some(infos) => {
                let own = infos.into_iter().filter(|info| self.lines.unit_of(info.start).is_some());
                start.chunks = own.map(|info| (info.start.0, info)).collect();
            }
            None => {
                let sentence = format!("the drive did not report its chunks: {:?}", completion.status);
                self.failure = Some(HostFtlError::Drive(sentence));
            }
        }
    }

    /// Pads chunks on a drive that holds sectors back, so that the start of a newly begun line becomes
    /// readable.
    fn reveal_starts(&mut self, start: &mut Start) {
        start.phase = Phase::Reveal;
        let in_use = |info: &ChunkInfo| matches!(info.state, ChunkState::Open | ChunkState::Closed);
        if start.chunks.values().any(in_use) && !self.keeps_content() {
            let sentence = "the drive keeps stamps instead of data (store = \"none\"), so that the host's records on it are \
                            lost; a host FTL can be mounted again with store = \"ram\" or \"file\"";
            self.failure = Some(HostFtlError::Drive(sentence.into()));
            return;
        }
        let (held, superpage) = (self.lines.held_rows, self.lines.superpage_sectors);
        let hidden = start.chunks.values().filter(|info| {
            info.state == ChunkState::Open
                && info.write_pointer.is_multiple_of(superpage)
                && info.write_pointer / superpage <= held
                && self.lines.unit_of(info.start).is_some_and(|(unit, _)| unit == 0)
        });
        start.needs = hidden
            .map(|info| {
                Need::Reveal(info.start, held.min(self.lines.rows - 1) + 1 - info.write_pointer / superpage)
            })
            .collect();
        start.next = 0;
        self.send_needs(start);
    }

    fn begin_starts(&mut self, start: &mut Start) {
        start.phase = Phase::Starts;
        let in_use = |info: &ChunkInfo| matches!(info.state, ChunkState::Open | ChunkState::Closed);
        let first = start
            .chunks
            .values()
            .filter(|info| in_use(info) && self.lines.unit_of(info.start).is_some_and(|(unit, _)| unit == 0));
        start.needs = first.map(|info| Need::Start(info.start)).collect();
        start.next = 0;
        self.send_needs(start);
    }

    /// Runs the engine's mount against the known facts; returns `true` if none was missing.
    fn try_mount(&mut self, start: &mut Start) -> bool {
        if start.phase == Phase::Repair {
            start.phase = Phase::Mount;
            self.assign_chunks(start);
            self.end_broken(start);
        }
        let layout = self.lines.layout().clone();
        let bad: BTreeSet<u32> = (0..layout.blocks).filter(|&b| !self.lines.is_whole(BlockId(b))).collect();
        let result = if start.starts.is_empty() {
            let bad: Vec<BlockId> = bad.iter().map(|&b| BlockId(b)).collect();
            PageMap::new(&self.engine, &layout, &bad).map(|map| (map, None))
        } else {
            let source = Source {
                user_units: self.ftl.user_units(),
                layout: &layout,
                start,
                bad: &bad,
                missing: RefCell::default(),
            };
            // Data are kept even with volatile durability: they were not discarded on purpose.
            let result = PageMap::start(&self.engine, &layout, pellucid_ftl::Start::Restore(&source));
            let missing = source.missing.into_inner();
            if !missing.is_empty() {
                self.read_missing(start, missing);
                return false;
            }
            result
        };
        match result {
            Ok((map, _)) if self.refuse_blind(start, &map) => false,
            Ok((map, report)) => {
                self.ftl = map;
                self.mount.report = report.unwrap_or_default();
                true
            }
            Err(error) => {
                self.failure = Some(HostFtlError::Room(error));
                false
            }
        }
    }

    fn ready(&mut self, start: &Start) {
        self.mount.time = self.now - start.began;
        self.read_only = self.ftl.view().worn_out;
        self.starting = None;
        self.moved = true;
        self.go_on_with_lines(start);
        self.finish_closed(start);
        while let Some(request) = self.early.pop_front() {
            self.arrived(request);
        }
    }

    /// Restarts the layer from the data on the drive, after a power loss or to mount the drive anew. Commands
    /// under way end with [`Status::PowerLoss`]; sectors that only the ring held are lost.
    pub fn restart(mut self, now: SimTime) -> Result<HostFtl, HostFtlError> {
        self.restarted(now)
    }

    /// Restarts the layer as [`HostFtl::restart`] does; `self` is unusable afterwards.
    pub(super) fn restarted(&mut self, now: SimTime) -> Result<HostFtl, HostFtlError> {
        let interface = pellucid_flash::Interface::OpenChannel(self.lines.geometry);
        let mut fresh = HostFtl::new(&self.config, Some(interface), self.image_bytes)?;
        (fresh.now, fresh.counters) = (now, self.counters);
        fresh.up = std::mem::take(&mut self.up);
        for record in self.requests.iter_mut() {
            let Some(command) = record.command.take() else { continue };
            let mut stages = pellucid_flash::StageTimes::default();
            stages.add(pellucid_flash::Stage::Host, now - record.submitted);
            fresh.up.push_back(command.ended(Status::PowerLoss, record.submitted, now, stages));
        }
        Ok(fresh)
    }
}
