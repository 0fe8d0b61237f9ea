//! Cost of a hit in the cache manager, and of a cached block in memory:
//! `cargo run --release -p pellucid-testing --example cache-cost -- [HITS]`.
//!
//! Both drives answer at once and keep nothing, so what is left is the manager and the pump. One command of 4 KiB is outstanding. Each
//! number is the best of five, as everything else on the machine only adds.

#![allow(clippy::print_stdout, reason = "an example prints")]

use pellucid_flash::{
    CacheGeometry, CacheOp, CacheState, Command, Completion, Drive, Interface, Lba, Opcode, Rng, SimTime,
    StageTimes, Status,
};
use pellucid_host::{CacheConfig, CacheManager, Pair, Stack};
use std::collections::VecDeque;
use std::time::Instant;

/// Blocks that are worked on, and of a backing store that is 341 to 512 times as large as the cache.
const BLOCKS: u64 = 1 << 16;
const STORE: u64 = 1 << 26;

/// A drive that does everything at once; of a solid-state cache, one that has everything, clean.
struct Instantly {
    interface: Interface,
    completed: VecDeque<Completion>,
}

impl Drive for Instantly {
    fn namespaces(&self) -> u16 {
        1
    }
    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(self.interface)
    }
    fn image_bytes(&self) -> usize {
        4
    }
    fn submit(&mut self, now: SimTime, mut command: Command) {
        let mut result = 0;
        if command.opcode == Opcode::Cache(CacheOp::Exists) {
            result = CacheGeometry::NO_DIRTY;
            command.data.clear();
            command.data.resize(command.sectors as usize, CacheState::Clean as u8);
        }
        let completion = Completion {
            tag: command.tag,
            opcode: command.opcode,
            status: Status::Success,
            submitted: now,
            completed: now,
            stages: StageTimes::ZERO,
            result,
            data: command.data,
            unmapped: 0,
            vector: command.vector,
        };
        self.completed.push_back(completion);
    }
    fn advance(&mut self, _now: SimTime) {}
    fn next_event(&self) -> Option<SimTime> {
        None
    }
    fn pop(&mut self) -> Option<Completion> {
        self.completed.pop_front()
    }
    fn outstanding(&self) -> usize {
        0
    }
    fn completed(&self) -> usize {
        self.completed.len()
    }
}

type Host = Stack<CacheManager, Pair<Instantly, Instantly>>;

fn start(flash: Interface) -> Host {
    let drive = |interface| Instantly { interface, completed: VecDeque::new() };
    let backing = Interface::Block { sectors: STORE, handles: 1 };
    let pair = Pair::new(drive(flash), drive(backing), SimTime::ZERO).expect("alike");
    // Nothing is cleaned: hits alone.
    let config = CacheConfig { dirty_percent: 99, ..CacheConfig::default() };
    let layer = CacheManager::new(&config, pair.interface(0), pair.interface(1), 4).expect("room");
    Stack::start(layer, pair, SimTime::ZERO).expect("blank")
}

fn ask(host: &mut Host, opcode: Opcode, block: u64, data: Vec<u8>) -> Vec<u8> {
    let now = host.now();
    host.submit(now, Command::new(0, opcode, Lba(block), 1, data));
    host.advance(now);
    let done = host.pop().expect("the drives answer at once");
    assert_eq!(done.status, Status::Success);
    done.data
}

fn best_of_five(mut run: impl FnMut() -> f64) -> f64 {
    (0..5).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let hits: u32 = std::env::args().nth(1).and_then(|hits| hits.parse().ok()).unwrap_or(1_000_000);
    let ssc = CacheGeometry { address_sectors: STORE + 1, unit_sectors: 1, units: BLOCKS * 2 };
    let block = Interface::Block { sectors: BLOCKS * 3, handles: 1 };
    for (name, flash) in [("block drive", block), ("solid-state cache", Interface::Cache(ssc))] {
        let mut host = start(flash);
        let mut rng = Rng::new(1);
        let mut data = vec![0; 4];
        for block in 0..BLOCKS {
            data = ask(&mut host, Opcode::Read, block, data);
        }
        for (what, opcode) in [("read", Opcode::Read), ("write", Opcode::Write)] {
            let ns = best_of_five(|| {
                let began = Instant::now();
                for _ in 0..hits {
                    data = ask(&mut host, opcode, rng.below(BLOCKS), std::mem::take(&mut data));
                }
                began.elapsed().as_nanos() as f64 / f64::from(hits)
            });
            println!("{name:17}  {what:5} hit  {ns:5.0} ns");
        }
        let (bytes, blocks) = (host.layer.memory_bytes() as f64, host.layer.capacity_blocks() as f64);
        let dirty = host.layer.dirty_blocks();
        println!(
            "{name:17}  memory     {:5.2} bytes for each block that fits, {dirty} of them dirty",
            bytes / blocks
        );
        let counters = host.layer.counters();
        assert!(counters.read_hits >= u64::from(hits), "reads were hits: {counters:?}");
    }
}
