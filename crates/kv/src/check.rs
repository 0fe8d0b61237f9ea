//! A walk over the invariants.

use super::Kv;
use super::index::Place;
use super::restart::Phase;
use super::slabs::State;
use pellucid_flash::slab::NIL;

impl Kv {
    /// Panics where an invariant is broken.
    pub fn check(&self) {
        self.index.check();
        self.locks.check();
        if self.phase == Phase::Running {
            self.engine.check();
        }
        let mut valid = vec![[0; 2]; self.slabs.len()];
        let mut items = vec![0; self.classes.len()];
        for entry in self.index.iter() {
            let Place { slab, slot } = entry.place();
            let record = &self.slabs[slab as usize];
            assert!(
                !matches!(record.state, State::Free | State::Leaving | State::Snapshot),
                "{:?}",
                record.state
            );
            assert_eq!(
                record.tops[slot as usize],
                (entry.hash >> 32) as u32,
                "an entry names another's slot"
            );
            valid[slab as usize][0] += 1;
            valid[slab as usize][1] += u32::from(entry.hits() > 0);
            items[usize::from(record.class)] += 1;
            assert!(
                entry.expires_s <= record.expires_s && (entry.expires_s != 0 || record.expires_s == u32::MAX)
            );
        }
        let mut buffers = vec![0u32; self.buffers.count()];
        for (number, slab) in (0u32..).zip(&self.slabs) {
            assert_eq!([slab.valid, slab.hot], valid[number as usize], "slab {number}, {:?}", slab.state);
            let buffered = matches!(slab.state, State::Open | State::Full | State::Writing);
            assert!(slab.state == State::Snapshot || buffered == (slab.buffer != NIL), "{:?}", slab.state);
            if slab.buffer != NIL {
                buffers[slab.buffer as usize] += 1;
            }
            let class = &self.classes[usize::from(slab.class)];
            assert!(slab.tops.len() as u32 <= class.slots);
            assert!(
                slab.valid == 0 || class.slot_bytes <= self.longest_bytes,
                "slab {number} has longer slots"
            );
            assert_eq!(slab.state == State::Open, slab.state != State::Free && class.open == number);
            assert!(slab.state != State::Leaving || slab.readers > 0, "nobody reads it, and it stays");
            assert_eq!(slab.state == State::Free, self.vacant.contains(&number));
        }
        assert!(buffers.iter().all(|&users| users <= 1), "two slabs in one write buffer");
        assert_eq!(
            buffers.iter().sum::<u32>() as usize + self.buffers.vacant(),
            buffers.len(),
            "a buffer is lost"
        );
        let counted: Vec<u64> = self.classes.iter().map(|class| class.statistics.items).collect();
        assert_eq!(counted, items);
        let waits = self
            .full
            .iter()
            .all(|&slab| matches!(self.slabs[slab as usize].state, State::Full | State::Snapshot));
        assert!(waits, "what waits for the engine is complete");
        let leaving = self.slabs.iter().filter(|slab| slab.state == State::Leaving).count();
        assert_eq!(leaving as u32, self.leaving);
    }
}
