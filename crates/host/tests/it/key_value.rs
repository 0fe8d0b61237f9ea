//! Tests a machine that is not a layer: a key-value store, in both forms of the example, against a plain map
//! and over power cuts.

#[path = "../../examples/key-value/disk.rs"]
mod disk;
#[path = "../../examples/key-value/log.rs"]
mod log;
#[path = "../../examples/key-value/machine.rs"]
mod machine;
#[path = "../../examples/key-value/program.rs"]
mod program;

use disk::Disk;
use log::{Answer, Ask, Outcome, What};
use machine::KeyValue;
use pellucid_flash::{Rng, SimTime};
use pellucid_host::{Machine, Stack};
use program::Program;
use std::collections::BTreeMap;

const SECTORS: u64 = 12 * log::SEGMENT;
const BYTES: usize = 128;
const KEYS: u64 = 60;

/// Form of the store.
trait Store: Machine<Ask = Ask, Answer = Answer> + Sized {
    fn new() -> Self;
    fn check(&self);
}

impl Store for KeyValue {
    fn new() -> KeyValue {
        KeyValue::new(SECTORS, BYTES)
    }
    fn check(&self) {
        KeyValue::check(self);
    }
}

impl Store for Program {
    fn new() -> Program {
        Program::new(SECTORS, BYTES)
    }
    fn check(&self) {
        Program::check(self);
    }
}

fn start<S: Store>(disk: Disk, now: SimTime) -> Stack<S, Disk> {
    Stack::start(S::new(), disk, now).expect("it mounts")
}

fn random(rng: &mut Rng, tag: u64) -> Ask {
    let what = match rng.below(8) {
        0..4 => What::Put(vec![tag as u8; 1 + rng.below(80) as usize]),
        4 => What::Delete,
        _ => What::Get,
    };
    Ask { tag, key: rng.below(KEYS), what }
}

type Value = Option<Vec<u8>>;

/// Possible values of each key: the last was asked for last, and the first was acknowledged or found.
#[derive(Clone, Default)]
struct Model(BTreeMap<u64, Vec<(u64, Value)>>);

impl Model {
    fn of(&mut self, key: u64) -> &mut Vec<(u64, Value)> {
        self.0.entry(key).or_insert_with(|| vec![(u64::MAX, None)])
    }
}

/// Runs random asks. The power is cut every so often; then the store must hold the acknowledged value of each
/// key, or a newer one.
fn survive<S: Store>(seed: u64) -> u64 {
    let mut rng = Rng::stream(seed, "asks");
    let mut stack = start::<S>(Disk::new(SECTORS, BYTES, seed), SimTime::ZERO);
    let (mut model, mut under_way) = (Model::default(), BTreeMap::<u64, (Ask, Vec<Value>)>::new());
    let mut cuts = 0;
    for step in 0..1_500 {
        // Each key has one ask at a time, so that the order of asks under way is known.
        let ask = random(&mut rng, step);
        if under_way.len() < 8 && under_way.values().all(|(other, _)| other.key != ask.key) {
            let held = model.of(ask.key);
            let allowed = held.iter().map(|(_, value)| value.clone()).collect();
            match &ask.what {
                What::Put(value) => held.push((step, Some(value.clone()))),
                What::Delete => held.push((step, None)),
                What::Get => {}
            }
            under_way.insert(step, (ask.clone(), allowed));
            stack.ask(stack.now(), ask);
        } else if let Some(next) = stack.next_event() {
            stack.advance(next);
        }
        stack.layer.check();
        while let Some(Answer { tag, outcome, .. }) = stack.answer() {
            let (ask, allowed) = under_way.remove(&tag).expect("one answer for each ask");
            match outcome {
                Outcome::Done => model.of(ask.key).retain(|(version, _)| *version == tag),
                Outcome::Value(found) => {
                    assert!(allowed.contains(&found), "seed {seed} step {step}: {ask:?}")
                }
                other => panic!("{other:?}"),
            }
        }
        if rng.chance(0.01) {
            cuts += 1;
            under_way.clear();
            let (now, mut disk) = (stack.now(), stack.drive);
            disk.power_cut();
            stack = start::<S>(disk, now);
            for (&key, held) in &mut model.0 {
                let answer = stack.call(Ask { tag: 0, key, what: What::Get }).expect("the drive answers");
                let Outcome::Value(found) = answer.outcome else { panic!("{answer:?}") };
                let known = held.iter().any(|(_, value)| *value == found);
                assert!(known, "seed {seed} step {step} key {key}: {found:?} of {held:?}");
                *held = vec![(u64::MAX, found)];
            }
            stack.layer.check();
        }
    }
    cuts
}

#[test]
fn a_store_of_keys_keeps_what_it_acknowledged_over_power_cuts() {
    let cuts: u64 = (0..20).map(survive::<KeyValue>).sum();
    assert!(cuts > 100, "{cuts} power cuts");
}

#[test]
fn the_same_store_as_async_functions_does_too() {
    let cuts: u64 = (0..20).map(survive::<Program>).sum();
    assert!(cuts > 100, "{cuts} power cuts");
}

/// Checks calls as of a blocking caller, such as C or FUSE, with enough of them to clean the log many times.
#[test]
fn calls_block_until_their_answer() {
    let mut stack = start::<KeyValue>(Disk::new(SECTORS, BYTES, 1), SimTime::ZERO);
    let (mut plain, mut rng) = (BTreeMap::new(), Rng::new(5));
    for tag in 0..3_000 {
        let ask = random(&mut rng, tag);
        let (key, what) = (ask.key, ask.what.clone());
        let answer = stack.call(ask).expect("the drive answers");
        assert_eq!(answer.tag, tag);
        match what {
            What::Get => assert_eq!(answer.outcome, Outcome::Value(plain.get(&key).cloned())),
            What::Put(value) => drop(plain.insert(key, value)),
            What::Delete => drop(plain.remove(&key)),
        }
        stack.layer.check();
    }
    // A caller that does not wait has no answer.
    assert_eq!(
        stack
            .call_by(Ask { tag: 0, key: *plain.keys().next().expect("a key"), what: What::Get }, |_, _| None),
        None
    );
}

/// Checks that a state machine, being plain data, forks with its drive in the middle of its work.
#[test]
fn a_clone_has_the_same_future() {
    let mut stack = start::<KeyValue>(Disk::new(SECTORS, BYTES, 2), SimTime::ZERO);
    let mut rng = Rng::new(9);
    let run = |stack: &mut Stack<KeyValue, Disk>, rng: &mut Rng, from: u64| -> Vec<Answer> {
        (from..from + 600)
            .flat_map(|tag| {
                stack.ask(stack.now(), random(rng, tag));
                if let Some(next) = stack.next_event() {
                    stack.advance(next);
                }
                std::iter::from_fn(|| stack.answer()).collect::<Vec<_>>()
            })
            .collect()
    };
    run(&mut stack, &mut rng, 0);
    assert!(stack.next_event().is_some(), "it is in the middle of something");
    let (mut fork, mut same) = (stack.clone(), rng.clone());
    let first = run(&mut stack, &mut rng, 600);
    assert_eq!(first, run(&mut fork, &mut same, 600));
    assert!(first.len() > 500);
}
