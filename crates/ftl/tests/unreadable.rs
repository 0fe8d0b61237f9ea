//! Map segments that a mount cannot read: what was trimmed stays away.

mod common;

use pellucid_flash::{BlockId, Cause, Layout, Lpn, Ppa};
use pellucid_ftl::{Durability, FtlConfig, MountSource, PageMap, SegmentPlan, SegmentWrites, Stream};
use std::collections::{BTreeMap, BTreeSet};

const STRIPE: u32 = 4;

/// Translation, and media that remember spare areas and map segments.
struct World {
    map: PageMap,
    config: FtlConfig,
    layout: Layout,
    spares: BTreeMap<u32, (Lpn, u64)>,
    segments: BTreeMap<u32, Vec<u8>>,
    unreadable: BTreeSet<u32>,
}

impl MountSource for World {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.spares.get(&ppa.0).copied()
    }

    fn used_stripes(&self, block: BlockId) -> u32 {
        let of_block = self.spares.keys().filter(|&&ppa| self.layout.block_of(Ppa(ppa)) == block);
        of_block.map(|&ppa| self.layout.index_in_block(Ppa(ppa)) / STRIPE + 1).max().unwrap_or(0)
    }

    fn erases(&self, _: BlockId) -> u32 {
        0
    }

    fn is_bad(&self, _: BlockId) -> bool {
        false
    }

    fn segment(&self, ppa: Ppa) -> Option<Vec<u8>> {
        self.segments.get(&ppa.0).filter(|_| !self.unreadable.contains(&ppa.0)).cloned()
    }
}

impl World {
    fn new() -> World {
        let durability = Durability::Journal { checkpoint_every: 1 << 40 };
        let config = FtlConfig { durability, ..common::config() };
        let layout = common::layout(1, 32, 64, STRIPE);
        let map = PageMap::new(&config, &layout, &[]).expect("room enough");
        let (spares, segments) = (BTreeMap::new(), BTreeMap::new());
        World { map, config, layout, spares, segments, unreadable: BTreeSet::new() }
    }

    fn write(&mut self, lpns: &[Lpn]) {
        let plan = self.map.plan_program(Stream::Host, None, lpns).expect("room enough");
        self.programmed(plan.first, plan.sequence, lpns);
        self.map.program_ended(plan.id, true);
    }

    fn programmed(&mut self, first: Ppa, sequence: u64, lpns: &[Lpn]) {
        self.spares.extend((first.0..first.0 + STRIPE).map(|ppa| (ppa, (Lpn::NONE, sequence))));
        self.spares.extend((first.0..).zip(lpns).map(|(ppa, &lpn)| (ppa, (lpn, sequence))));
    }

    /// Writes the segments with trimmed pages; where they lie.
    fn flush(&mut self) -> Vec<u32> {
        let mut writes = SegmentWrites::default();
        writes.add_trimmed(&mut self.map);
        self.write_segments(writes)
    }

    fn write_segments(&mut self, mut writes: SegmentWrites) -> Vec<u32> {
        let mut places = Vec::new();
        while let SegmentPlan::Program(plan, batch) = writes.plan(&mut self.map, STRIPE) {
            let marks: Vec<Lpn> = batch.iter().map(|&(segment, _)| self.map.segment_mark(segment)).collect();
            self.programmed(plan.first, plan.sequence, &marks);
            for (ppa, &(segment, _)) in (plan.first.0..).zip(&batch) {
                self.segments.insert(ppa, writes.image(segment).to_vec());
                places.push(ppa);
            }
            self.map.program_ended(plan.id, true);
            batch.iter().for_each(|&(segment, _)| writes.ended(segment, true));
        }
        assert!(self.map.has_saved(self.map.trims()));
        places
    }

    /// Mounts anew; how many pages were lost.
    fn mount(&mut self) -> u64 {
        let (map, report) = PageMap::mount(&self.config, &self.layout, self).expect("it fitted before");
        map.check();
        self.map = map;
        report.lost_units
    }
}

/// Pages of the first segment, and one of the second.
const TRIMMED: Lpn = Lpn(0);
const KEPT: Lpn = Lpn(1);
const LATER: Lpn = Lpn(2);
const UNWRITTEN: Lpn = Lpn(3);
const ELSEWHERE: Lpn = Lpn(1020);

#[test]
fn what_an_unreadable_segment_may_have_trimmed_is_lost() {
    let mut world = World::new();
    world.write(&[TRIMMED, KEPT, LATER, ELSEWHERE]);
    world.map.trim(TRIMMED);
    let segments = world.flush();
    world.write(&[LATER]);
    let places = [LATER, ELSEWHERE].map(|lpn| world.map.lookup(lpn));
    assert_eq!(world.mount(), 0);
    assert_eq!(world.map.lookup(TRIMMED), Ppa::NONE);
    assert!(world.map.lookup(KEPT).is_some());

    world.unreadable.extend(segments);
    assert_eq!(world.mount(), 2, "trimmed, or not: nobody knows");
    let seen = |world: &World| [TRIMMED, KEPT, UNWRITTEN].map(|lpn| world.map.lookup(lpn));
    assert_eq!(seen(&world), [Ppa::LOST, Ppa::LOST, Ppa::NONE]);
    assert_eq!([LATER, ELSEWHERE].map(|lpn| world.map.lookup(lpn)), places);

    // The new segment says that they are lost, whatever becomes of their copies.
    assert_eq!(world.flush().len(), 1);
    for &mut (ref mut lpn, _) in world.spares.values_mut().filter(|spare| [TRIMMED, KEPT].contains(&spare.0))
    {
        *lpn = Lpn::NONE;
    }
    assert_eq!(world.mount(), 0);
    assert_eq!(seen(&world), [Ppa::LOST, Ppa::LOST, Ppa::NONE]);

    // They can be written and trimmed like any other.
    world.write(&[KEPT]);
    world.map.trim(TRIMMED);
    world.flush();
    assert_eq!(world.mount(), 0);
    assert_eq!(world.map.lookup(TRIMMED), Ppa::NONE);
    assert!(world.map.lookup(KEPT).is_some());
    world.map.check();
}

/// Segments that know of no trim say so outside of what they hold: without them nothing is lost.
#[test]
fn an_unreadable_segment_without_trims_costs_nothing() {
    let mut world = World::new();
    world.write(&[TRIMMED, KEPT, LATER, ELSEWHERE]);
    let mut writes = SegmentWrites::default();
    (0..world.map.segments()).for_each(|segment| writes.add(segment, Cause::Journal));
    let untrimmed = world.write_segments(writes);
    world.map.trim(ELSEWHERE);
    world.flush();
    world.unreadable.extend(&untrimmed);
    let places = [TRIMMED, KEPT, LATER, UNWRITTEN, ELSEWHERE].map(|lpn| world.map.lookup(lpn));
    assert_eq!((world.mount(), places[4]), (0, Ppa::NONE));
    assert_eq!([TRIMMED, KEPT, LATER, UNWRITTEN, ELSEWHERE].map(|lpn| world.map.lookup(lpn)), places);
    // A mount knows what had been trimmed before.
    let mut writes = SegmentWrites::default();
    writes.add(1, Cause::Journal);
    let trimmed = world.write_segments(writes);
    world.write(&[TRIMMED]);
    world.unreadable.extend(trimmed);
    assert_eq!((world.mount(), world.map.lookup(ELSEWHERE)), (1, Ppa::LOST));
}
