//! Wear levelling: swaps the data of the most worn and the least worn full block.
//!
//! ```text
//!   step        does                          then the data of   cold lie at   hot lie at
//!   Save        copies cold to a spare block                     cold          hot
//!   EraseCold   erases cold                                      spare         hot
//!   Hot         copies hot to cold                               spare         hot
//!   EraseHot    erases hot                                       spare         cold
//!   Cold        copies spare to hot                              spare         cold
//!   Done        waits until the application is informed          hot           cold
//! ```
//! At every moment both blocks' data are complete in a place that is not being written; a start takes the oldest copy. Reads and trims of the two
//! addresses follow the data until the answer is taken with [`Machine::pop`](pellucid_host::Machine::pop), and the blocks afterwards. If the flash
//! fails, levelling stops: moved data stay at their new place, and the answer says so.
//!
//! A block that received cold data is skipped until it is rewritten: otherwise the next call would move them again.

use super::blocks::State;
use super::erase::{self, erase_waiting, give_back, send_erase};
use super::link::{Op, Purpose};
use super::mark::Oob;
use super::{Function, FunctionOutcome};
use crate::FlashAddress;
use pellucid_flash::{Command, Completion, Opcode, Status, Tag, Vector};
use std::collections::VecDeque;

/// Result of one call of the wear leveller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levelled {
    /// Pairs of blocks whose data were swapped; the application swaps them in its map, one pair after the other. There is one pair on success, and
    /// none if nothing would be gained or no spare block is free. If the flash failed in between, a pair may name a block that the application did
    /// not have before: it now owns that block instead of the other.
    pub swapped: Vec<[FlashAddress; 2]>,
    /// Variance of the erase counts of the mapped blocks afterwards.
    pub variance: f64,
    /// Difference of the highest and the lowest of them.
    pub spread: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Save,
    EraseCold,
    Hot,
    EraseHot,
    Cold,
    Done,
}

#[derive(Clone, Debug)]
struct Swap {
    tag: Tag,
    hot: u32,
    cold: u32,
    spare: u32,
    step: Step,
    /// Sectors copied in this step.
    at: u32,
    /// True if a command is with the drive.
    flying: bool,
    /// True if the error that ended it early has been handled.
    over: bool,
    /// Cold and hot data that the application has trimmed meanwhile.
    trimmed: [bool; 2],
}

impl Swap {
    /// Location of a block's data.
    fn place(&self, block: u32) -> u32 {
        match () {
            () if block == self.cold && self.step > Step::Cold => self.hot,
            () if block == self.cold && self.step > Step::Save => self.spare,
            () if block == self.hot && self.step > Step::Hot => self.cold,
            () => block,
        }
    }

    fn copies(&self) -> Option<(u32, u32)> {
        match self.step {
            Step::Save => Some((self.cold, self.spare)),
            Step::Hot => Some((self.hot, self.cold)),
            Step::Cold => Some((self.spare, self.hot)),
            _ => None,
        }
    }

    fn pairs(&self) -> Vec<[u32; 2]> {
        match self.step {
            _ if !self.over => vec![[self.cold, self.hot]],
            Step::Save => vec![],
            Step::EraseCold | Step::Hot => vec![[self.cold, self.spare]],
            _ => vec![[self.cold, self.hot], [self.hot, self.spare]],
        }
    }
}

/// The wear leveller: the swap in progress, and calls that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Wear {
    swap: Option<Swap>,
    waiting: VecDeque<Tag>,
}

impl Wear {
    /// Reports whether the data of a block are being moved.
    pub fn swaps(&self, block: u32) -> bool {
        self.swap.as_ref().is_some_and(|swap| block == swap.cold || block == swap.hot)
    }

    /// Tags of unanswered calls.
    pub fn asked(&self) -> impl Iterator<Item = Tag> {
        let under_way = self.swap.as_ref().filter(|swap| swap.step != Step::Done && !swap.over);
        under_way.map(|swap| swap.tag).into_iter().chain(self.waiting.iter().copied())
    }

    /// Location of the data that the application knows as `block`.
    pub fn data_of(&self, block: u32) -> u32 {
        self.swap.as_ref().map_or(block, |swap| swap.place(block))
    }

    /// Records that the application returns a block being swapped; returns whether this is the first time. `None`: the block is not being swapped.
    pub fn trim(&mut self, block: u32) -> Option<bool> {
        let swap = self.swap.as_mut()?;
        let at = [swap.cold, swap.hot].iter().position(|&of| of == block)?;
        Some(!std::mem::replace(&mut swap.trimmed[at], true))
    }

    fn current(&mut self) -> &mut Swap {
        self.swap.as_mut().expect("it is under way")
    }
}

/// `Wear_Leveler`.
pub(super) fn level(function: &mut Function, tag: Tag) {
    if function.wear.swap.is_some() {
        return function.wear.waiting.push_back(tag);
    }
    let Some((hot, cold)) = worth_swapping(function) else { return nothing_to_level(function, tag) };
    let Some(spare) = function.blocks.take_spare() else { return nothing_to_level(function, tag) };
    let (step, trimmed) = (Step::Save, [false; 2]);
    function.wear.swap =
        Some(Swap { tag, hot, cold, spare, step, at: 0, flying: false, over: false, trimmed });
    begin_copy(function);
    go_on(function);
}

fn nothing_to_level(function: &mut Function, tag: Tag) {
    let levelled = levelled(function, Vec::new());
    function.answer(tag, FunctionOutcome::Levelled(levelled), Vec::new());
}

/// The most worn and the least worn of the full blocks, if they differ.
fn worth_swapping(function: &Function) -> Option<(u32, u32)> {
    let (blocks, sectors) = (&function.blocks, function.space.chunks.chunk_sectors);
    let full = |&number: &u32| blocks[number].state() == State::Mapped && blocks[number].written() == sectors;
    let numbers = || blocks.numbers().filter(full);
    let wear = |&number: &u32| blocks.erases(number);
    let hot = numbers().filter(|&number| !blocks[number].is_rested()).max_by_key(wear)?;
    let cold = numbers().min_by_key(wear)?;
    (wear(&hot) > wear(&cold)).then_some((hot, cold))
}

fn levelled(function: &Function, pairs: Vec<[u32; 2]>) -> Levelled {
    let blocks = &function.blocks;
    let mapped = blocks.numbers().filter(|&number| blocks[number].state() == State::Mapped);
    let erases: Vec<f64> = mapped.map(|number| blocks.erases(number).into()).collect();
    let mean = erases.iter().sum::<f64>() / erases.len().max(1) as f64;
    let squares: f64 = erases.iter().map(|erases| (erases - mean).powi(2)).sum();
    let least = erases.iter().copied().fold(f64::INFINITY, f64::min);
    let most = erases.iter().copied().fold(0.0, f64::max);
    let geometry = function.geometry();
    Levelled {
        swapped: pairs.into_iter().map(|pair| pair.map(|number| geometry.block_at(number))).collect(),
        variance: squares / erases.len().max(1) as f64,
        spread: (most - least).max(0.0) as u32,
    }
}

/// Makes the destination block a copy of the source.
fn begin_copy(function: &mut Function) {
    let Some((from, to)) = function.wear.swap.as_ref().and_then(Swap::copies) else { return };
    let (content, copy) = function.blocks[from].content();
    function.blocks.begin_anew(to);
    function.blocks[to].set_content(content, copy.wrapping_add(1));
}

/// Sends the next command of the swap, if possible.
pub(super) fn go_on(function: &mut Function) {
    let Some(swap) = &function.wear.swap else { return };
    if swap.flying || swap.over || swap.step == Step::Done {
        return;
    }
    let space = &function.space;
    match (swap.copies(), swap.step) {
        (Some((from, _)), _) => {
            let (at, left) = (swap.at, function.blocks[from].written() - swap.at);
            let most = (Vector::ADDRESSES_MAX as u32).max(space.chunks.write_optimal_sectors);
            let most = most / space.page_sectors() * space.page_sectors();
            let sectors = left.min(most);
            let data = vec![0; sectors as usize * space.image_bytes];
            let mut vector = function.link.vector();
            vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
            let command = Command::new(0, Opcode::Read, function.sector(from, at), sectors, data);
            function.blocks[from].begin_read();
            function.link.send(Purpose::Level, 0, from, Command { vector: Some(vector), ..command });
        }
        (None, step) => {
            let block = if step == Step::EraseCold { swap.cold } else { swap.hot };
            if !function.blocks[block].is_unread() {
                return;
            }
            send_erase(function, Purpose::Level, block);
        }
    }
    function.wear.current().flying = true;
}

/// Handles the end of a command of the swap.
pub(super) fn ended(function: &mut Function, op: &Op, completion: &mut Completion) {
    let block = op.block();
    function.wear.current().flying = false;
    let ok = matches!(completion.status, Status::Success | Status::HighEcc);
    match completion.opcode {
        Opcode::Read => {
            function.blocks[block].end_read();
            match ok {
                true => write_copy(function, completion),
                false => swap_fails(function, false),
            }
        }
        Opcode::Write => copy_written(function, block, ok, completion),
        _ => match erase::erased(function, block, completion.status) {
            true => next_step(function),
            false => swap_fails(function, true),
        },
    }
    go_on(function);
    erase_waiting(function, function.blocks.lun_of(block));
}

fn write_copy(function: &mut Function, completion: &mut Completion) {
    let swap = function.wear.current();
    let (Some((_, to)), Some(mut vector)) = (swap.copies(), completion.vector.take()) else { return };
    swap.flying = true;
    let at = swap.at;
    let sectors = (vector.metadata.len() / Vector::METADATA_BYTES) as u32;
    let erases = function.blocks.erases(to);
    let (content, copy) = function.blocks[to].content();
    for bytes in vector.metadata.as_chunks_mut::<{ Vector::METADATA_BYTES }>().0 {
        // Foreign data have no mark, so no mark is lost.
        let mark = Oob::decode(bytes).map_or(0, |oob| oob.mark);
        *bytes = Oob { mark, content, erases, copy }.encode();
    }
    function.blocks[to].begin_write();
    function.blocks[to].take(sectors);
    let data = std::mem::take(&mut completion.data);
    let command = Command::new(0, Opcode::Write, function.sector(to, at), sectors, data);
    function.link.send(Purpose::Level, 0, to, Command { vector: Some(vector), ..command });
}

fn copy_written(function: &mut Function, to: u32, ok: bool, completion: &mut Completion) {
    let sectors = function.link.sectors_of(completion);
    function.blocks[to].end_write(if ok { sectors } else { 0 });
    if !ok {
        function.tally.write_failure();
        return swap_fails(function, false);
    }
    function.tally.levelled(sectors);
    let swap = function.wear.current();
    swap.at += sectors;
    let (from, at) = (swap.copies().expect("it copies").0, swap.at);
    if at == function.blocks[from].written() {
        next_step(function);
    }
}

fn next_step(function: &mut Function) {
    let swap = function.wear.current();
    swap.at = 0;
    swap.step = match swap.step {
        Step::Save => Step::EraseCold,
        Step::EraseCold => Step::Hot,
        Step::Hot => Step::EraseHot,
        Step::EraseHot => Step::Cold,
        Step::Cold | Step::Done => Step::Done,
    };
    if swap.step == Step::Done {
        function.tally.swap();
        return swap_ends(function);
    }
    begin_copy(function);
}

/// Ends the swap after a failure of the flash: moved data stay where they are. `erase`: an erase failed, so its block is lost.
fn swap_fails(function: &mut Function, erase: bool) {
    let swap = function.wear.current();
    swap.over = true;
    let (cold, hot, spare, step) = (swap.cold, swap.hot, swap.spare, swap.step);
    let lost = if step <= Step::Hot { cold } else { hot };
    if step > Step::Save {
        // The application gets the spare block in place of the lost one.
        function.blocks.set_state(spare, State::Mapped);
        match erase {
            true => erase::retire(function, lost),
            false => function.blocks.set_state(lost, State::Held),
        }
    }
    swap_ends(function);
}

/// Completes the swap, and answers the application.
fn swap_ends(function: &mut Function) {
    let swap = function.wear.current();
    let (tag, hot, over, pairs) = (swap.tag, swap.hot, swap.over, swap.pairs());
    if !over {
        function.blocks[hot].rest();
    }
    let levelled = levelled(function, pairs);
    function.answer(tag, FunctionOutcome::Levelled(levelled), Vec::new());
}

/// Ends the swap after the answer was taken: from now on the application's addresses mean the places.
pub(super) fn swap_known(function: &mut Function) {
    if let Some(swap) = function.wear.swap.take_if(|swap| swap.over || swap.step == Step::Done) {
        settle(function, &swap);
    }
    // Each taken answer lets the next call start, whether or not it found something to swap.
    if function.wear.swap.is_none()
        && let Some(tag) = function.wear.waiting.pop_front()
    {
        level(function, tag);
    }
}

/// Releases the blocks that the swap borrowed, and those that the application returned meanwhile.
fn settle(function: &mut Function, swap: &Swap) {
    for block in [swap.cold, swap.hot, swap.spare] {
        if function.blocks[block].state() == State::Held {
            give_back(function, block);
        }
    }
    let data = [swap.cold, swap.hot].map(|block| swap.place(block));
    for (trimmed, block) in swap.trimmed.into_iter().zip(data) {
        if trimmed {
            give_back(function, block);
        }
    }
}
