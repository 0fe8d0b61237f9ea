//! Wear levelling: the data of the most worn full block and those of the least worn one change places.
//!
//! ```text
//!   step        does                          then the data of   cold lie at   hot lie at
//!   Save        copies cold to a spare block                     cold          hot
//!   EraseCold   erases cold                                      spare         hot
//!   Hot         copies hot to cold                               spare         hot
//!   EraseHot    erases hot                                       spare         cold
//!   Cold        copies spare to hot                              spare         cold
//!   Done        waits until the application knows                hot           cold
//! ```
//! At every moment each of the two is complete at one place that is not being written; a start takes the oldest copy. Reads and trims of
//! the two addresses concern the data until the answer is taken with [`Machine::pop`](pellucid_host::Machine::pop), and the places
//! afterwards. If the flash fails, levelling stops: moved data stay at their new place, and the answer says so.
//!
//! A block that received cold data is passed over until it is rewritten: otherwise the next call would move them again.

use super::blocks::State;
use super::mark::Oob;
use super::{Function, FunctionOutcome, Op, Purpose};
use crate::FlashAddress;
use pellucid_flash::{Command, Completion, DieId, Opcode, Status, Tag, Vector};
use std::collections::VecDeque;

/// Result of one call of the wear leveller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levelled {
    /// Pairs of blocks whose data have changed places; the application exchanges them in its map, one pair after the other. One pair
    /// where all went well; none where nothing would be gained, or no block is free to copy by. Where the flash has failed in between, a
    /// pair may name a block that the application did not have: it has it now, and has the other one no more.
    pub swapped: Vec<[FlashAddress; 2]>,
    /// Variance of the erase counts of the mapped blocks, after it.
    pub variance: f64,
    /// The difference of the highest and the lowest of them.
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
    /// A command is with the drive.
    flying: bool,
    /// The error that ended it early has been dealt with.
    over: bool,
    /// Cold and hot data that the application has given back meanwhile.
    trimmed: [bool; 2],
}

impl Swap {
    /// Where the data of a block lie.
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

/// The wear leveller.
#[derive(Clone, Debug, Default)]
pub(super) struct Wear {
    swap: Option<Swap>,
    waiting: VecDeque<Tag>,
}

impl Wear {
    /// Returns whether the data of a block are being moved.
    pub fn swaps(&self, block: u32) -> bool {
        self.swap.as_ref().is_some_and(|swap| block == swap.cold || block == swap.hot)
    }

    /// Asks without an answer.
    pub fn asked(&self) -> impl Iterator<Item = Tag> {
        let under_way = self.swap.as_ref().filter(|swap| swap.step != Step::Done && !swap.over);
        under_way.map(|swap| swap.tag).into_iter().chain(self.waiting.iter().copied())
    }
}

impl Function {
    /// Where the data lie that the application knows at `block`.
    pub(super) fn data_of(&self, block: u32) -> u32 {
        self.wear.swap.as_ref().map_or(block, |swap| swap.place(block))
    }

    /// The application gives back a block that is being swapped: whether it had not done so before. `None`: it is not being swapped.
    pub(super) fn trimmed_while_levelled(&mut self, block: u32) -> Option<bool> {
        let swap = self.wear.swap.as_mut()?;
        let at = [swap.cold, swap.hot].iter().position(|&of| of == block)?;
        Some(!std::mem::replace(&mut swap.trimmed[at], true))
    }

    /// `Wear_Leveler`.
    pub(super) fn level(&mut self, tag: Tag) {
        if self.wear.swap.is_some() {
            return self.wear.waiting.push_back(tag);
        }
        let Some((hot, cold)) = self.worth_swapping() else { return self.nothing_to_level(tag) };
        let luns = (0..self.geometry().luns()).map(DieId);
        let most = luns.max_by_key(|&lun| self.blocks.pool.free_count(lun));
        let Some(spare) = most.and_then(|lun| self.blocks.pool.take_most_worn(lun)) else {
            return self.nothing_to_level(tag);
        };
        let spare = spare.0;
        self.blocks.set_state(spare, State::Held);
        let (step, trimmed) = (Step::Save, [false; 2]);
        self.wear.swap =
            Some(Swap { tag, hot, cold, spare, step, at: 0, flying: false, over: false, trimmed });
        self.begin_copy();
        self.go_on_levelling();
    }

    fn nothing_to_level(&mut self, tag: Tag) {
        let levelled = self.levelled(Vec::new());
        self.answer(tag, FunctionOutcome::Levelled(levelled), Vec::new());
    }

    /// The most worn and the least worn of the full blocks, if they differ.
    fn worth_swapping(&self) -> Option<(u32, u32)> {
        let full = |&number: &u32| {
            let block = &self.blocks[number];
            block.state == State::Mapped && block.written == self.space.chunks.chunk_sectors
        };
        let numbers = || self.blocks.numbers().filter(full);
        let wear = |&number: &u32| self.blocks.erases(number);
        let hot = numbers().filter(|&number| !self.blocks[number].rested).max_by_key(wear)?;
        let cold = numbers().min_by_key(wear)?;
        (wear(&hot) > wear(&cold)).then_some((hot, cold))
    }

    fn levelled(&self, pairs: Vec<[u32; 2]>) -> Levelled {
        let mapped = self.blocks.numbers().filter(|&number| self.blocks[number].state == State::Mapped);
        let erases: Vec<f64> = mapped.map(|number| self.blocks.erases(number).into()).collect();
        let mean = erases.iter().sum::<f64>() / erases.len().max(1) as f64;
        let squares: f64 = erases.iter().map(|erases| (erases - mean).powi(2)).sum();
        let least = erases.iter().copied().fold(f64::INFINITY, f64::min);
        let most = erases.iter().copied().fold(0.0, f64::max);
        let geometry = self.geometry();
        Levelled {
            swapped: pairs.into_iter().map(|pair| pair.map(|number| geometry.block_at(number))).collect(),
            variance: squares / erases.len().max(1) as f64,
            spread: (most - least).max(0.0) as u32,
        }
    }

    /// The block that is copied to becomes a copy of the other.
    fn begin_copy(&mut self) {
        let Some((from, to)) = self.wear.swap.as_ref().and_then(Swap::copies) else { return };
        let (content, copy) = (self.blocks[from].content, self.blocks[from].copy.wrapping_add(1));
        self.blocks.begin_anew(to);
        (self.blocks[to].content, self.blocks[to].copy) = (content, copy);
    }

    /// Sends the next command of the swap, if one can go.
    pub(super) fn go_on_levelling(&mut self) {
        let Some(swap) = &self.wear.swap else { return };
        if swap.flying || swap.over || swap.step == Step::Done {
            return;
        }
        match (swap.copies(), swap.step) {
            (Some((from, _)), _) => {
                let (at, left) = (swap.at, self.blocks[from].written - swap.at);
                let most = (Vector::ADDRESSES_MAX as u32).max(self.space.chunks.write_optimal_sectors);
                let most = most / self.space.page_sectors() * self.space.page_sectors();
                let sectors = left.min(most);
                let data = vec![0; sectors as usize * self.space.image_bytes];
                let mut vector = self.vector();
                vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
                let command = Command::new(0, Opcode::Read, self.sector(from, at), sectors, data);
                self.blocks[from].readers += 1;
                self.send(Purpose::Level, 0, from, Command { vector: Some(vector), ..command });
            }
            (None, step) => {
                let block = if step == Step::EraseCold { swap.cold } else { swap.hot };
                if self.blocks[block].readers > 0 {
                    return;
                }
                self.send_erase(Purpose::Level, block);
            }
        }
        self.wear.swap.as_mut().expect("it is under way").flying = true;
    }

    /// A command of the swap has ended.
    pub(super) fn level_ended(&mut self, op: &Op, completion: &mut Completion) {
        let swap = self.wear.swap.as_mut().expect("it is under way");
        swap.flying = false;
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        match completion.opcode {
            Opcode::Read => {
                self.blocks[op.block].readers -= 1;
                match ok {
                    true => self.write_copy(completion),
                    false => self.swap_fails(false),
                }
            }
            Opcode::Write => self.copy_written(op.block, ok, completion),
            _ => match self.erased(op.block, completion.status) {
                true => self.next_step(),
                false => self.swap_fails(true),
            },
        }
        self.go_on_levelling();
        self.erase_waiting(self.blocks.lun_of(op.block));
    }

    fn write_copy(&mut self, completion: &mut Completion) {
        let swap = self.wear.swap.as_mut().expect("it is under way");
        let (Some((_, to)), Some(mut vector)) = (swap.copies(), completion.vector.take()) else { return };
        swap.flying = true;
        let at = swap.at;
        let sectors = (vector.metadata.len() / Vector::METADATA_BYTES) as u32;
        let erases = self.blocks.erases(to);
        let record = &mut self.blocks[to];
        for bytes in vector.metadata.as_chunks_mut::<{ Vector::METADATA_BYTES }>().0 {
            // What this level did not write has no mark, and none is lost.
            let mark = Oob::decode(bytes).map_or(0, |oob| oob.mark);
            *bytes = Oob { mark, content: record.content, erases, copy: record.copy }.encode();
        }
        (record.writing, record.dirty) = (true, true);
        record.taken += sectors;
        let data = std::mem::take(&mut completion.data);
        let command = Command::new(0, Opcode::Write, self.sector(to, at), sectors, data);
        self.send(Purpose::Level, 0, to, Command { vector: Some(vector), ..command });
    }

    fn copy_written(&mut self, to: u32, ok: bool, completion: &mut Completion) {
        let sectors = self.sectors_of(completion);
        self.blocks[to].writing = false;
        if !ok {
            self.counters.write_failures += 1;
            return self.swap_fails(false);
        }
        self.counters.levelled_sectors += u64::from(sectors);
        self.blocks[to].written += sectors;
        let swap = self.wear.swap.as_mut().expect("it is under way");
        swap.at += sectors;
        let from = swap.copies().expect("it copies").0;
        if self.wear.swap.as_ref().is_some_and(|swap| swap.at == self.blocks[from].written) {
            self.next_step();
        }
    }

    fn next_step(&mut self) {
        let swap = self.wear.swap.as_mut().expect("it is under way");
        swap.at = 0;
        swap.step = match swap.step {
            Step::Save => Step::EraseCold,
            Step::EraseCold => Step::Hot,
            Step::Hot => Step::EraseHot,
            Step::EraseHot => Step::Cold,
            Step::Cold | Step::Done => Step::Done,
        };
        if swap.step == Step::Done {
            self.counters.swaps += 1;
            return self.swap_ends();
        }
        self.begin_copy();
    }

    /// The flash has failed: what has moved stays there. `erase`: by an erase, so that its block is lost.
    fn swap_fails(&mut self, erase: bool) {
        let swap = self.wear.swap.as_mut().expect("it is under way");
        swap.over = true;
        let (cold, hot, spare, step) = (swap.cold, swap.hot, swap.spare, swap.step);
        let lost = if step <= Step::Hot { cold } else { hot };
        if step > Step::Save {
            // The spare block is the application's, for the one that is not.
            self.blocks.set_state(spare, State::Mapped);
            match erase {
                true => self.retire(lost),
                false => self.blocks.set_state(lost, State::Held),
            }
        }
        self.swap_ends();
    }

    /// All that there is to do has been done: the application is told.
    fn swap_ends(&mut self) {
        let swap = self.wear.swap.as_ref().expect("it is under way");
        let (tag, hot, over, pairs) = (swap.tag, swap.hot, swap.over, swap.pairs());
        self.blocks[hot].rested |= !over;
        let levelled = self.levelled(pairs);
        self.answer(tag, FunctionOutcome::Levelled(levelled), Vec::new());
    }

    /// The application has been told: from now on it means the places.
    pub(super) fn swap_known(&mut self) {
        if let Some(swap) = self.wear.swap.take_if(|swap| swap.over || swap.step == Step::Done) {
            self.settle(&swap);
        }
        // Each answer that is taken lets the next ask begin, whether or not it found something to swap.
        if self.wear.swap.is_none()
            && let Some(tag) = self.wear.waiting.pop_front()
        {
            self.level(tag);
        }
    }

    /// Gives back what the swap had borrowed, and what the application has given back meanwhile.
    fn settle(&mut self, swap: &Swap) {
        for block in [swap.cold, swap.hot, swap.spare] {
            if self.blocks[block].state == State::Held {
                self.give_back(block);
            }
        }
        let data = [swap.cold, swap.hot].map(|block| swap.place(block));
        for (trimmed, block) in swap.trimmed.into_iter().zip(data) {
            if trimmed {
                self.give_back(block);
            }
        }
    }
}
