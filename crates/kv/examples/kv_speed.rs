//! Processor time per request to the key-value cache, on a drive that only stores bytes.
//!
//! `cargo run --release -p pellucid-kv --example kv_speed` measures sets of 1 KiB values, gets answered by a write buffer, and gets from flash, each
//! without the drive's own work, which is measured by giving the same commands to the drive alone.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example that measures"
)]

use pellucid_flash::{
    Command, Completion, Drive, Interface, Nanos, Opcode, Rng, SimTime, StageTimes, Status,
};
use pellucid_kv::{Ask, EngineKind, Get, Key, KvConfig, Outcome, Store, System, What, build};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A block drive that stores its bytes, takes 10 us for everything, and measures its own work.
struct Memory {
    bytes: Vec<u8>,
    pending: VecDeque<(SimTime, Command)>,
    done: VecDeque<Completion>,
    spent: Duration,
}

const SECTOR: usize = 4096;

impl Drive for Memory {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let sectors = (self.bytes.len() / SECTOR) as u64;
        (namespace == 0).then_some(Interface::Block { sectors, handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        SECTOR
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.pending.push_back((now + Nanos(10_000), command));
    }

    fn advance(&mut self, now: SimTime) {
        while self.pending.front().is_some_and(|(at, _)| *at <= now)
            && let Some((at, mut command)) = self.pending.pop_front()
        {
            let began = Instant::now();
            let from = command.lba.0 as usize * SECTOR;
            let place = from..from + command.data.len();
            match command.opcode {
                Opcode::Write => self.bytes[place].copy_from_slice(&command.data),
                _ => command.data.copy_from_slice(&self.bytes[place]),
            }
            let stages = StageTimes::default();
            self.done.push_back(Completion { completed: at, stages, ..command.refused(at, Status::Success) });
            self.spent += began.elapsed();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.pending.front().map(|(at, _)| *at)
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
}

const DEPTH: usize = 32;

/// Sends `count` requests and returns nanoseconds per request, without the drive's work.
fn measure(
    system: &mut System<Memory>,
    count: u64,
    mut ask: impl FnMut(&mut System<Memory>, u32) -> Ask,
) -> (f64, u64) {
    let (mut asked, mut answered, mut hits) = (0, 0, 0);
    let (began, drive) = (Instant::now(), system.drive().spent);
    while answered < count {
        while asked < count && asked - answered < DEPTH as u64 {
            let next = ask(system, asked as u32);
            system.ask(system.now(), next);
            asked += 1;
        }
        if system.answered() == 0
            && let Some(next) = system.next_event()
        {
            system.advance(next);
        }
        while let Some(answer) = system.answer() {
            answered += 1;
            if let Outcome::Item(item) = answer.outcome {
                hits += 1;
                system.kv_mut().give_back(item.value);
            }
        }
    }
    let spent = began.elapsed().saturating_sub(system.drive().spent.saturating_sub(drive));
    (spent.as_nanos() as f64 / count as f64, hits)
}

fn key(number: u64) -> Key {
    let mut name = *b"memtier-0000000000";
    let (mut rest, mut at) = (number, name.len());
    while rest > 0 {
        at -= 1;
        name[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    Key::new(&name).expect("short")
}

fn main() {
    let argument = std::env::args().nth(1).and_then(|keys| keys.parse().ok());
    let keys: u64 = argument.unwrap_or(400_000);
    for turn in 0..3 {
        let drive = Memory {
            bytes: vec![0; 1 << 30],
            pending: VecDeque::new(),
            done: VecDeque::new(),
            spent: Duration::ZERO,
        };
        let config = KvConfig::new(EngineKind::Original);
        let mut system = build(drive, &config, SimTime::ZERO).unwrap_or_else(|why| panic!("{why}"));
        let mut rng = Rng::new(turn);
        let set = |system: &mut System<Memory>, tag: u32, number: u64| {
            let mut value = system.kv_mut().buffer();
            value.resize(1024, number as u8);
            Ask { tag, time_s: 1, key: key(number), what: What::Store(Store { value, ..Store::default() }) }
        };
        let first = measure(&mut system, keys, |system, tag| set(system, tag, u64::from(tag)));
        let sets = measure(&mut system, 2 * keys, |system, tag| {
            let number = rng.below(keys);
            set(system, tag, number)
        });
        let mut rng = Rng::new(turn);
        let get = |tag, number| Ask { tag, time_s: 1, key: key(number), what: What::Get(Get::default()) };
        let gets = measure(&mut system, keys, |_, tag| get(tag, rng.below(keys)));
        let recent: Vec<u64> = (0..1000).map(|_| rng.below(keys)).collect();
        measure(&mut system, 1000, |system, tag| set(system, tag, recent[tag as usize]));
        let memory = measure(&mut system, keys, |_, tag| get(tag, recent[tag as usize % 1000]));
        let s = system.statistics();
        println!(
            "first set {:.0} ns, set {:.0} ns, get {:.0} ns ({} % hits), get from memory {:.0} ns ({} % in memory); {:.1} bytes of index an item; {:.2} bytes written for each stored",
            first.0,
            sets.0,
            gets.0,
            gets.1 * 100 / keys,
            memory.0,
            s.hits_in_memory * 100 / s.hits,
            s.index_bytes as f64 / s.items as f64,
            s.flash_written_bytes as f64 / s.set_bytes as f64,
        );
    }
}
