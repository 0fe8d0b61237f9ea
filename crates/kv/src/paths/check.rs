//! A walk over the invariants.

use crate::index::Place;
use crate::objects::Core;
use crate::slabs::State;
use pellucid_flash::slab::NIL;

/// Panics if an invariant is broken.
pub(crate) fn check(core: &Core) {
    core.index.check();
    core.requests.check();
    core.slabs.check();
    if core.passage.is_running() {
        core.flash.engine().check();
    }
    let mut valid = vec![[0; 2]; core.slabs.records().len()];
    let mut items = vec![0; core.slabs.classes().all().len()];
    for entry in core.index.iter() {
        let Place { slab, slot } = entry.place();
        let record = core.slabs.get(slab);
        assert!(
            !matches!(record.state, State::Free | State::Leaving | State::Snapshot),
            "{:?}",
            record.state
        );
        assert_eq!(record.tops[slot as usize], (entry.hash >> 32) as u32, "an entry names another's slot");
        valid[slab as usize][0] += 1;
        valid[slab as usize][1] += u32::from(entry.hits() > 0);
        items[usize::from(record.class)] += 1;
        assert!(
            entry.expires_s() <= record.expires_s && (entry.expires_s() != 0 || record.expires_s == u32::MAX)
        );
    }
    let mut buffers = vec![0u32; core.buffers.count()];
    for (number, slab) in (0u32..).zip(core.slabs.records()) {
        assert_eq!([slab.valid, slab.hot], valid[number as usize], "slab {number}, {:?}", slab.state);
        if slab.buffer != NIL {
            buffers[slab.buffer as usize] += 1;
        }
    }
    assert!(buffers.iter().all(|&users| users <= 1), "two slabs in one write buffer");
    assert_eq!(
        buffers.iter().sum::<u32>() as usize + core.buffers.vacant(),
        buffers.len(),
        "a buffer is lost"
    );
    let counted: Vec<u64> = core.slabs.classes().all().iter().map(|class| class.statistics.items).collect();
    assert_eq!(counted, items);
}
