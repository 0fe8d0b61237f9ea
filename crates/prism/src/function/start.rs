//! The start: which blocks hold data, and whose.
//!
//! ```text
//!   report ─► probes: out-of-band data of the first sector of every block that holds data ─┐
//!      └ no data: free        └ not readable: of the first sector of its other pages ◄──────┘
//!   all known ─► of the copies of one content the oldest is found, the others are erased ─► ready ─► recover
//! ```

use super::blocks::State;
use super::erase::give_back;
use super::link::{Op, Purpose};
use super::mark::Oob;
use super::{Function, FunctionAsk, FunctionOutcome};
use crate::{FlashAddress, LevelError};
use pellucid_flash::{ChunkInfo, ChunkState, Command, Completion, Lba, Opcode, Status, Tag, Vector};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of probes in flight.
const PROBES_MAX: u32 = 32;

/// A block that held data when the level started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The block.
    pub address: FlashAddress,
    /// The mark of the first readable sector; `None`: the content is foreign or unreadable.
    pub mark: Option<u32>,
    /// Pages written. A crash may have torn the last ones, whose write was not acknowledged.
    pub pages: u32,
    /// Erase count of the block.
    pub erases: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Report,
    First,
    Others,
    Done,
}

/// The start in progress, and its findings.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    phase: Phase,
    failure: Option<String>,
    /// Calls that arrived before the level was ready.
    early: VecDeque<FunctionAsk>,
    /// Blocks to be probed; in the first round up to 64 with one read.
    probes: Vec<u32>,
    next: usize,
    under_way: u32,
    /// Blocks of the probes in flight, by the tag of their command.
    known: BTreeMap<u32, Option<Oob>>,
    found: Vec<Found>,
}

impl Start {
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Reason why the level could not start.
    pub fn failure(&self) -> Option<&String> {
        self.failure.as_ref()
    }

    /// Keeps a call until the start has ended.
    pub fn keep(&mut self, ask: FunctionAsk) {
        self.early.push_back(ask);
    }

    /// Tags of the kept calls.
    pub fn asked(&self) -> impl Iterator<Item = Tag> {
        self.early.iter().map(|ask| ask.tag)
    }

    /// Blocks that held data.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Takes the blocks that held data, after the application has named those that it keeps.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }
}

/// Requests the report on all chunks.
pub(super) fn ask_for_chunks(function: &mut Function) {
    let count = function.geometry().blocks();
    let command = Command::new(0, Opcode::Report, function.sector(0, 0), count, Vec::new());
    function.link.send(Purpose::Start, 0, 0, command);
}

/// Handles the end of a command of the start.
pub(super) fn ended(function: &mut Function, op: &Op, completion: &mut Completion) {
    match function.start.phase {
        Phase::Report => reported(function, completion),
        Phase::First | Phase::Others => probed(function, op, completion),
        Phase::Done => unreachable!("the start has ended"),
    }
    if function.start.failure.is_none() {
        go_on_starting(function);
    }
}

fn reported(function: &mut Function, completion: &Completion) {
    let infos = completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map(ChunkInfo::decode);
    let infos: Option<Vec<ChunkInfo>> = infos.collect();
    let wanted = function.geometry().blocks() as usize;
    let Some(infos) = infos.filter(|i| completion.status == Status::Success && i.len() == wanted) else {
        let sentence = format!("the drive did not report its blocks: {:?}", completion.status);
        function.start.failure = Some(sentence);
        while let Some(ask) = function.start.early.pop_front() {
            refuse_early(function, ask);
        }
        return;
    };
    let held = function.space.chunks.cached_sectors;
    for (number, info) in (0..).zip(&infos) {
        match info.state {
            ChunkState::Free => function.blocks.set_state(number, State::Free),
            ChunkState::Offline => function.blocks.set_state(number, State::Bad),
            ChunkState::Open | ChunkState::Closed => {
                // A chunk closed early by a failure accepts no more.
                let broken = info.state == ChunkState::Closed
                    && info.write_pointer < function.space.chunks.chunk_sectors;
                function.blocks[number].found(info.write_pointer, broken);
                let hidden = info.state == ChunkState::Open && info.write_pointer <= held;
                if !hidden && info.write_pointer > 0 {
                    function.start.probes.push(number);
                }
            }
        }
    }
    function.start.phase = Phase::First;
}

fn go_on_starting(function: &mut Function) {
    while function.start.under_way < PROBES_MAX && function.start.next < function.start.probes.len() {
        send_probe(function);
    }
    if function.start.under_way > 0 {
        return;
    }
    match function.start.phase {
        Phase::First => {
            function.start.phase = Phase::Others;
            let known = &function.start.known;
            function.start.probes.retain(|number| !known.contains_key(number));
            function.start.next = 0;
            go_on_starting(function);
        }
        _ => all_known(function),
    }
}

/// Reads out-of-band data: of the first sector of many blocks, or of many pages of one.
fn send_probe(function: &mut Function) {
    let at = function.start.next;
    let mut vector = function.link.vector();
    let left = &function.start.probes[at..];
    match function.start.phase {
        Phase::First => {
            let blocks = left.iter().take(Vector::ADDRESSES_MAX);
            vector.addresses.extend(blocks.map(|&number| function.sector(number, 0)));
            function.start.next += vector.addresses.len();
        }
        _ => {
            let pages = function.readable(left[0]) / function.space.page_sectors();
            let pages = (0..pages).take(Vector::ADDRESSES_MAX);
            let sector = |page: u32| function.sector(left[0], page * function.space.page_sectors());
            vector.addresses.extend(pages.map(sector));
            function.start.next += 1;
        }
    }
    let sectors = vector.addresses.len() as u32;
    vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
    function.start.under_way += 1;
    let command =
        Command { vector: Some(vector), ..Command::new(0, Opcode::Read, Lba(0), sectors, Vec::new()) };
    function.link.send(Purpose::Start, 0, at as u32, command);
}

fn probed(function: &mut Function, op: &Op, completion: &mut Completion) {
    function.start.under_way -= 1;
    let Some(vector) = completion.vector.take() else { return };
    let ok = matches!(completion.status, Status::Success | Status::HighEcc);
    // A failed command that names no sector has failed for all of them.
    let read = |i: usize| ok || (completion.result != 0 && completion.result >> i & 1 == 0);
    let oob = vector.metadata.as_chunks::<{ Vector::METADATA_BYTES }>().0;
    let mut answers = oob.iter().enumerate().filter(|&(i, _)| read(i)).map(|(i, oob)| (i, Oob::decode(oob)));
    let first = op.block() as usize;
    match function.start.phase {
        Phase::First => {
            let known = answers.map(|(i, oob)| (function.start.probes[first + i], oob));
            function.start.known.extend(known);
        }
        _ => {
            let known = answers.find_map(|(_, oob)| oob);
            function.start.known.insert(function.start.probes[first], known);
        }
    }
    function.link.put_back(vector);
}

fn all_known(function: &mut Function) {
    function.start.phase = Phase::Done;
    let known = std::mem::take(&mut function.start.known);
    function.start.probes = Vec::new();
    let known: BTreeMap<u32, Oob> = known.into_iter().filter_map(|(n, oob)| Some((n, oob?))).collect();
    let mut oldest: BTreeMap<u32, (u32, Oob)> = BTreeMap::new();
    for (&number, oob) in &known {
        let best = oldest.entry(oob.content).or_insert((number, *oob));
        if oob.is_older(&best.1) {
            *best = (number, *oob);
        }
        function.blocks.found_content(oob.content);
    }
    set_erase_counts(function, &known);
    for number in function.blocks.numbers() {
        let oob = known.get(&number).copied();
        if function.blocks[number].state() != State::Found {
            continue;
        }
        if oob.is_some_and(|oob| oldest[&oob.content].0 != number) {
            give_back(function, number);
            continue;
        }
        let record = &mut function.blocks[number];
        let (content, copy) = oob.map_or((0, 0), |oob| (oob.content, oob.copy));
        record.set_content(content, copy);
        let pages = record.written() / function.space.page_sectors();
        let address = function.geometry().block_at(number);
        let erases = function.blocks.erases(number);
        function.start.found.push(Found { address, mark: oob.map(|oob| oob.mark), pages, erases });
    }
    while let Some(ask) = function.start.early.pop_front() {
        function.take(ask);
    }
}

/// Assumes the mean for blocks without a known erase count.
fn set_erase_counts(function: &mut Function, known: &BTreeMap<u32, Oob>) {
    let sum: u64 = known.values().map(|oob| u64::from(oob.erases)).sum();
    let mean = sum.checked_div(known.len() as u64).unwrap_or(0) as u32;
    for number in function.blocks.numbers() {
        let erases = known.get(&number).map_or(mean, |oob| oob.erases);
        function.blocks.set_erases(number, erases);
    }
}

/// Refuses a call because the level could not start.
pub(super) fn refuse_early(function: &mut Function, ask: FunctionAsk) {
    let data = ask.call.into_data();
    function.answer(ask.tag, FunctionOutcome::Refused(LevelError::NotReady), data);
}
