//! The engine serves a backend other than a drive: a key-value store.

use super::*;
use pellucid_flash::Rng;
use pellucid_target::connection::ConnectionId;
use std::collections::BTreeMap;

const PUT_NS: u64 = 20_000;
const GET_NS: u64 = 5_000;

#[derive(Clone, Debug, PartialEq)]
enum Ask {
    Put(u64, Vec<u8>),
    Get(u64),
    Delete(u64),
}

impl Ask {
    fn bytes(&self) -> usize {
        if let Ask::Put(_, value) = self { value.len() } else { 0 }
    }
}

/// A store that executes requests one after the other, each in its time.
#[derive(Default)]
struct KeyValue {
    now: SimTime,
    values: BTreeMap<u64, Vec<u8>>,
    waiting: VecDeque<(SimTime, u32, Ask)>,
    free: SimTime,
    ended: VecDeque<Answered<Option<Vec<u8>>>>,
}

impl Backend for KeyValue {
    type Ask = Ask;
    /// Previous value of the key.
    type Answer = Option<Vec<u8>>;

    fn now(&self) -> SimTime {
        self.now
    }

    fn submit(&mut self, at: SimTime, tag: u32, ask: Ask) {
        assert!(at >= self.now, "time never runs backwards");
        self.now = at;
        let takes = if let Ask::Put(..) = ask { PUT_NS } else { GET_NS };
        self.free = SimTime(self.free.max(at).0 + takes);
        self.waiting.push_back((self.free, tag, ask));
    }

    fn next_event(&self) -> Option<SimTime> {
        self.waiting.front().map(|&(at, ..)| at)
    }

    fn advance(&mut self, now: SimTime) {
        assert!(now >= self.now, "time never runs backwards");
        self.now = now;
        while let Some((at, tag, ask)) = self.waiting.pop_front_if(|&mut (at, ..)| at <= now) {
            let answer = match ask {
                Ask::Put(key, value) => self.values.insert(key, value),
                Ask::Get(key) => self.values.get(&key).cloned(),
                Ask::Delete(key) => self.values.remove(&key),
            };
            self.ended.push_back(Answered { tag, at, answer });
        }
    }

    fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    fn completed(&self) -> usize {
        self.ended.len()
    }

    fn pop(&mut self) -> Option<Answered<Option<Vec<u8>>>> {
        self.ended.pop_front()
    }
}

fn route(connection: u64, token: u64) -> Route {
    Route { connection: ConnectionId::new(connection), token }
}

/// Four connections with separate keys use two stores; each connection's requests are done in order, exactly
/// once.
#[test]
fn a_key_value_store_is_served() {
    let mut rng = Rng::new(19);
    let mut engine = Engine::new(vec![KeyValue::default(), KeyValue::default()], Time::Instant);
    let mut models = vec![BTreeMap::new(); 4];
    let mut expected: Vec<VecDeque<(u64, Option<Vec<u8>>)>> = vec![VecDeque::new(); 4];
    let mut asked = 0u64;
    while asked < 5_000 || engine.outstanding() > 0 {
        for _ in 0..rng.below(40) {
            if asked == 5_000 {
                break;
            }
            let connection = rng.below(4);
            let key = connection * 100 + rng.below(20);
            let model: &mut BTreeMap<u64, Vec<u8>> = &mut models[connection as usize];
            // Some values exceed the limit of bytes in the stores.
            let (ask, answer) = match rng.below(3) {
                0 => {
                    let value = vec![asked as u8; 1 << rng.below(22)];
                    (Ask::Put(key, value.clone()), model.insert(key, value))
                }
                1 => (Ask::Get(key), model.get(&key).cloned()),
                _ => (Ask::Delete(key), model.remove(&key)),
            };
            expected[connection as usize].push_back((asked, answer));
            engine.submit(connection as usize % 2, route(connection, asked), ask.bytes(), ask);
            asked += 1;
        }
        engine.run();
        while let Some((Route { connection, token }, answer)) = engine.pop() {
            let of = (0..4).find(|&c| ConnectionId::new(c as u64) == connection).expect("a connection");
            assert_eq!(expected[of].pop_front(), Some((token, answer)));
        }
        let left: usize = expected.iter().map(VecDeque::len).sum();
        assert_eq!(engine.outstanding(), left);
    }
    assert_eq!((engine.bytes(), engine.has_waiting()), (0, false));
    let stores = engine.into_backends();
    let stored: usize = stores.iter().map(|store| store.values.len()).sum();
    assert_eq!(stored, models.iter().map(BTreeMap::len).sum::<usize>());
}

/// In paced time, a request is answered when its time has come on the wall clock, not before.
#[test]
fn a_key_value_store_keeps_its_time() {
    let mut engine = Engine::new(vec![KeyValue::default()], Time::Paced { dilation: 10.0 });
    let began = engine.now_ns();
    engine.submit(0, route(1, 7), 3, Ask::Put(5, vec![1, 2, 3]));
    assert_eq!(engine.outstanding(), 1);
    let due = engine.next_due_ns().expect("it takes time");
    assert!(due >= began + 10 * PUT_NS);
    let answered = loop {
        engine.run();
        if let Some(answered) = engine.pop() {
            break answered;
        }
        // The answer is collected early by the cost of handing it out.
        assert!(engine.now_ns() < due + 10_000_000_000, "it comes at some time");
    };
    assert_eq!(answered, (route(1, 7), None));
    assert!(engine.now_ns() + engine.hand_out_ns() >= due);
    engine.handed_out();
    assert_eq!(engine.lateness_ns().total(), 1);
}
