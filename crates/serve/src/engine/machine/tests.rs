//! The key-value store of `host`'s example, served by the unchanged engine.

#![allow(dead_code, reason = "the example has more")]

#[path = "../../../../host/examples/key-value/disk.rs"]
mod disk;
#[path = "../../../../host/examples/key-value/log.rs"]
mod log;
#[path = "../../../../host/examples/key-value/machine.rs"]
mod store;

use super::Reply;
use crate::engine::{Engine, Time};
use disk::Disk;
use log::{Answer, Ask, Outcome, What};
use pellucid_flash::{Rng, SimTime};
use pellucid_host::{Machine, Stack};
use pellucid_target::connection::{ConnectionId, Route};
use std::collections::BTreeMap;

impl Reply for Answer {
    fn tag(&self) -> u32 {
        self.tag as u32
    }

    fn at(&self) -> SimTime {
        self.at
    }
}

fn stack() -> Stack<store::KeyValue, Disk> {
    let (sectors, bytes) = (256, 128);
    let store = store::KeyValue::new(sectors, bytes);
    Stack::start(store, Disk::new(sectors, bytes, 1), SimTime::ZERO).expect("it mounts")
}

/// Sends one request at a time, so that a plain map predicts each answer. Time is instant, or so fast that
/// nothing waits.
#[test]
fn a_machine_is_served_behind_the_engine() {
    for time in [Time::Instant, Time::Paced { dilation: 1e-3 }] {
        let mut engine = Engine::new(vec![stack()], time);
        let (mut plain, mut rng) = (BTreeMap::new(), Rng::new(3));
        for token in 0..500 {
            let key = rng.below(40);
            let what = match rng.below(4) {
                0 => What::Get,
                1 => What::Delete,
                _ => What::Put(vec![token as u8; 9]),
            };
            let route = Route { connection: ConnectionId::new(1), token };
            // The only request in flight has the first tag.
            engine.submit(0, route, 9, Ask { tag: 0, key, what: what.clone() });
            let began = std::time::Instant::now();
            let (answered, answer) = loop {
                engine.run();
                if let Some(ended) = engine.pop() {
                    break ended;
                }
                assert!(began.elapsed().as_secs() < 600, "no answer");
            };
            assert_eq!((answered, engine.outstanding()), (route, 0));
            match what {
                What::Get => assert_eq!(answer.outcome, Outcome::Value(plain.get(&key).cloned())),
                What::Put(value) => drop(plain.insert(key, value)),
                What::Delete => drop(plain.remove(&key)),
            }
        }
        assert!(plain.len() > 10);
        engine.into_backends()[0].layer.check();
    }
}

/// Sends many requests at once: each has exactly one answer.
#[test]
fn asks_under_way_together_are_all_answered() {
    let mut stack = stack();
    for tag in 0..200 {
        stack.ask(stack.now(), Ask { tag, key: tag % 30, what: What::Put(vec![1; 5]) });
    }
    let mut seen = [false; 200];
    while let Some(next) = stack.next_event() {
        stack.advance(next);
        while let Some(answer) = stack.answer() {
            assert!(!std::mem::replace(&mut seen[answer.tag as usize], true));
        }
    }
    assert!(seen.iter().all(|&seen| seen) && stack.layer.answered() == 0 && stack.asked() == 0);
}
