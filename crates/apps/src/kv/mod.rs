//! A key-value cache on flash, in the manner of fatcache and DIDACache, with memcached's semantics.

mod ask;
mod config;
mod statistics;
mod system;

pub use ask::{Answer, Ask, Get, Item, Key, Mode, Outcome, Store, What};
pub use config::{EngineKind, Keep, KvConfig, KvCosts, OverProvisioning, Victim};
pub use statistics::{ClassStatistics, KvStatistics};
pub use system::{System, build};

use pellucid_flash::{Command, Completion, Drive, SimTime};
use pellucid_host::Machine;
use std::collections::VecDeque;

/// The cache.
#[derive(Clone, Debug)]
pub struct Kv {
    namespaces: [u16; 1],
    statistics: KvStatistics,
    values: Vec<Vec<u8>>,
    answers: VecDeque<Answer>,
}

impl Kv {
    /// A cache on `drive`.
    ///
    /// The error is a sentence.
    pub fn new(_config: &KvConfig, _drive: &impl Drive) -> Result<Kv, String> {
        Ok(Kv {
            namespaces: [0],
            statistics: KvStatistics::default(),
            values: Vec::new(),
            answers: VecDeque::new(),
        })
    }

    /// An empty buffer for the value of a store.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.values.pop().unwrap_or_default()
    }

    /// Takes back the buffer of an answer's value.
    pub fn give_back(&mut self, mut value: Vec<u8>) {
        value.clear();
        self.values.push(value);
    }

    /// What is counted.
    pub fn statistics(&self) -> KvStatistics {
        self.statistics.clone()
    }

    /// What is counted for each slab class.
    pub fn classes(&self) -> Vec<ClassStatistics> {
        Vec::new()
    }
}

impl Machine for Kv {
    type Ask = Ask;
    type Answer = Answer;

    fn namespaces(&self) -> &[u16] {
        &self.namespaces
    }

    fn submit(&mut self, now: SimTime, ask: Ask) {
        self.answers.push_back(Answer { tag: ask.tag, at: now, outcome: Outcome::Miss });
    }

    fn complete(&mut self, _now: SimTime, _completion: &mut Completion) {}

    fn advance(&mut self, _now: SimTime) {}

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn next_command(&mut self) -> Option<Command> {
        None
    }

    fn pop(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    fn answered(&self) -> usize {
        self.answers.len()
    }
}
