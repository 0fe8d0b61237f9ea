//! Compares a key-value store above the line as a state machine and as async functions: the same asks, log
//! and pump. `cargo run --release -p pellucid-host --example key-value` prints the cost of a request in both;
//! `tests/it/key_value.rs` compares both with a plain map, over power cuts.

#![allow(dead_code, reason = "the tests use the rest")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example that measures"
)]

mod disk;
mod log;
mod machine;
mod program;

use disk::Disk;
use log::{Answer, Ask, What};
use pellucid_flash::{Rng, SimTime};
use pellucid_host::{Machine, Stack};
use std::time::Instant;

const SECTORS: u64 = 1 << 12;
const SECTOR_BYTES: usize = 512;
const KEYS: u64 = 2_000;
const ASKS: u64 = 1_000_000;
const DEPTH: usize = 16;

/// Returns a random ask: one in ten is a put, one in a hundred a delete.
fn ask(rng: &mut Rng, tag: u64) -> Ask {
    let what = match rng.below(100) {
        0..10 => What::Put(vec![tag as u8; 100]),
        10 => What::Delete,
        _ => What::Get,
    };
    Ask { tag, key: rng.below(KEYS), what }
}

/// Returns the real time of each ask in nanoseconds, and the simulated time at the end.
fn measure<M: Machine<Ask = Ask, Answer = Answer>>(store: M) -> (f64, SimTime) {
    let disk = Disk::new(SECTORS, SECTOR_BYTES, 1);
    let mut stack = Stack::start(store, disk, SimTime::ZERO).unwrap_or_else(|why| panic!("{why}"));
    let mut rng = Rng::new(1);
    let (began, mut asked, mut answered) = (Instant::now(), 0, 0);
    while answered < ASKS {
        while asked < ASKS && asked - answered < DEPTH as u64 {
            stack.ask(stack.now(), ask(&mut rng, asked));
            asked += 1;
        }
        let next = stack.next_event();
        next.into_iter().for_each(|next| stack.advance(next));
        answered += std::iter::from_fn(|| stack.answer()).count() as u64;
    }
    (began.elapsed().as_nanos() as f64 / ASKS as f64, stack.now())
}

fn main() {
    for _ in 0..3 {
        let machine = measure(machine::KeyValue::new(SECTORS, SECTOR_BYTES));
        let program = measure(program::Program::new(SECTORS, SECTOR_BYTES));
        println!(
            "state machine {:.0} ns, async {:.0} ns for each ask ({} and {} ns simulated)",
            machine.0, program.0, machine.1.0, program.1.0
        );
    }
}
