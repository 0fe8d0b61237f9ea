//! Translation pages that a mount cannot read: trimmed data do not come back.

use crate::common;
use crate::common::place_of;
use pellucid_flash::{BlockId, Layout, Lpn, Ppa};
use pellucid_ftl::{Durability, FtlConfig, MountSource, Operation, PageMap, Start, Stream};
use std::collections::{BTreeMap, BTreeSet};

const SUPERPAGE: u32 = 4;

/// Translation, and media that remember spare areas and translation pages.
struct World {
    map: PageMap,
    config: FtlConfig,
    layout: Layout,
    spares: BTreeMap<u32, (Lpn, u64)>,
    map_pages: BTreeMap<u32, Vec<u8>>,
    unreadable: BTreeSet<u32>,
}

impl MountSource for World {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        self.spares.get(&ppa.0).copied()
    }

    fn used_superpages(&self, block: BlockId) -> u32 {
        let of_block = self.spares.keys().filter(|&&ppa| self.layout.block_of(Ppa(ppa)) == block);
        of_block.map(|&ppa| self.layout.index_in_block(Ppa(ppa)) / SUPERPAGE + 1).max().unwrap_or(0)
    }

    fn erases(&self, _: BlockId) -> u32 {
        0
    }

    fn is_bad(&self, _: BlockId) -> bool {
        false
    }

    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        self.map_pages.get(&ppa.0).filter(|_| !self.unreadable.contains(&ppa.0)).cloned()
    }
}

impl World {
    fn new() -> World {
        let durability = Durability::Journal { checkpoint_every: 1 << 40 };
        let config = FtlConfig { durability, ..common::config() };
        let layout = common::layout(1, 32, 64, SUPERPAGE);
        let map = PageMap::new(&config, &layout, &[]).expect("room enough");
        let (spares, map_pages) = (BTreeMap::new(), BTreeMap::new());
        World { map, config, layout, spares, map_pages, unreadable: BTreeSet::new() }
    }

    fn write(&mut self, lpns: &[Lpn]) {
        let plan = self.map.place(Stream::Host, None, lpns).expect("room enough");
        self.programmed(plan.first, plan.sequence, lpns);
        self.map.ended(Operation::Program(plan.id), true);
    }

    fn programmed(&mut self, first: Ppa, sequence: u64, lpns: &[Lpn]) {
        self.spares.extend((first.0..first.0 + SUPERPAGE).map(|ppa| (ppa, (Lpn::NONE, sequence))));
        self.spares.extend((first.0..).zip(lpns).map(|(ppa, &lpn)| (ppa, (lpn, sequence))));
    }

    /// Writes the translation pages with trims; returns their locations.
    fn flush(&mut self) -> Vec<u32> {
        let point = self.map.flush_point();
        self.map.flush_to(point);
        let places = self.write_map_pages();
        assert!(self.map.flush_to(point));
        places
    }

    /// Writes all translation pages from `first` on; returns their locations.
    fn save_from(&mut self, first: u32) -> Vec<u32> {
        assert_eq!(self.map.save_map(first), self.map.map_progress().pages);
        self.write_map_pages()
    }

    fn write_map_pages(&mut self) -> Vec<u32> {
        let mut places = Vec::new();
        while let Some((plan, units)) = common::next_map_program(&mut self.map) {
            let pages = common::metadata(&self.map, plan.id, units);
            let marks: Vec<Lpn> = pages.iter().map(|&(mark, _)| mark).collect();
            self.programmed(plan.first, plan.sequence, &marks);
            for (ppa, (_, bytes)) in (plan.first.0..).zip(pages) {
                self.map_pages.insert(ppa, bytes);
                places.push(ppa);
            }
            self.map.ended(Operation::Program(plan.id), true);
        }
        assert!(self.map.map_progress().under_way == 0);
        places
    }

    /// Mounts again; returns the number of lost pages.
    fn mount(&mut self) -> u64 {
        let (map, report) =
            PageMap::start(&self.config, &self.layout, Start::Mount(self)).expect("it fitted before");
        map.check();
        self.map = map;
        report.expect("a mount reports").lost_units
    }
}

/// Pages of the first translation page, and one of the second.
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
    let written = world.flush();
    world.write(&[LATER]);
    let places = [LATER, ELSEWHERE].map(|lpn| place_of(&world.map, lpn));
    assert_eq!(world.mount(), 0);
    assert_eq!(place_of(&world.map, TRIMMED), Ppa::NONE);
    assert!(place_of(&world.map, KEPT).is_some());

    world.unreadable.extend(written);
    assert_eq!(world.mount(), 2, "trimmed, or not: nobody knows");
    let seen = |world: &World| [TRIMMED, KEPT, UNWRITTEN].map(|lpn| place_of(&world.map, lpn));
    assert_eq!(seen(&world), [Ppa::LOST, Ppa::LOST, Ppa::NONE]);
    assert_eq!([LATER, ELSEWHERE].map(|lpn| place_of(&world.map, lpn)), places);

    // The new translation page records that they are lost, whatever happens to their copies.
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
    assert_eq!(place_of(&world.map, TRIMMED), Ppa::NONE);
    assert!(place_of(&world.map, KEPT).is_some());
    world.map.check();
}

/// Spare areas of translation pages record that they know of no trim: without these pages nothing is lost.
#[test]
fn an_unreadable_segment_without_trims_costs_nothing() {
    let mut world = World::new();
    world.write(&[TRIMMED, KEPT, LATER, ELSEWHERE]);
    let untrimmed = world.save_from(0);
    world.map.trim(ELSEWHERE);
    world.flush();
    world.unreadable.extend(&untrimmed);
    let places = [TRIMMED, KEPT, LATER, UNWRITTEN, ELSEWHERE].map(|lpn| place_of(&world.map, lpn));
    assert_eq!((world.mount(), places[4]), (0, Ppa::NONE));
    assert_eq!([TRIMMED, KEPT, LATER, UNWRITTEN, ELSEWHERE].map(|lpn| place_of(&world.map, lpn)), places);
    // A mount knows the earlier trims.
    let trimmed = world.save_from(1)[0];
    world.write(&[TRIMMED]);
    world.unreadable.insert(trimmed);
    assert_eq!((world.mount(), place_of(&world.map, ELSEWHERE)), (1, Ppa::LOST));
}
