//! Invariants of log-block translation.

use super::blocks::Role;
use super::{LogBlock, NO_BLOCK, Scheme};
use crate::mount::MountSource;
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};
use std::collections::BTreeSet;

impl LogBlock {
    /// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        self.blocks.check();
        self.check_references();
        self.check_places();
        for die in (0..self.layout.dies).map(DieId) {
            self.check_die(die);
        }
    }

    /// Panics where the media and the table disagree. Cost: the whole drive.
    pub fn check_media(&self, source: &impl MountSource) {
        for lpn in (0..self.user_units).map(Lpn) {
            let ppa = self.map.get(lpn);
            let copy = if ppa.is_some() { self.readable(ppa) } else { ppa };
            let named = if copy.is_some() { source.spare(copy).map(|spare| spare.0) } else { None };
            assert!(named.is_none_or(|named| named == lpn), "unit {} is of {named:?}, not {lpn:?}", copy.0);
        }
    }

    /// Checks that the references of blocks are those of the table, of programs under way, and of metadata.
    fn check_references(&self) {
        let mut references = vec![0u32; self.layout.blocks as usize];
        let pages = (0..self.user_units).map(|lpn| self.map.get(Lpn(lpn)));
        let replaced = self.programs.host_units().map(|(_, unit)| unit.old);
        let metadata = self.dies.iter().flat_map(|die| die.journal.on_media());
        for ppa in pages.chain(replaced).chain(metadata).filter(|ppa| ppa.is_some()) {
            references[self.layout.block_of(ppa).0 as usize] += 1;
        }
        for (block, &count) in references.iter().enumerate() {
            let counted = self.blocks.references(BlockId(block as u32));
            assert_eq!(
                counted,
                count,
                "references of block {block}, {:?}",
                self.blocks.role(BlockId(block as u32))
            );
        }
    }

    /// Checks that the table follows from the numbers of data blocks and the lists of log blocks.
    fn check_places(&self) {
        let mut places = BTreeSet::new();
        for lpn in (0..self.user_units).map(Lpn) {
            let ppa = self.map.get(lpn);
            if !ppa.is_some() {
                continue;
            }
            assert!(places.insert(ppa), "unit {} belongs to two pages", ppa.0);
            let (block, (lbn, at)) = (self.layout.block_of(ppa), self.lbn(lpn));
            let index = self.layout.index_in_block(ppa);
            let die = self.die_of_lbn(lbn);
            assert_eq!(self.layout.die_of(ppa), die, "page {} lies in another die", lpn.0);
            match self.blocks.role(block) {
                Role::Data(owner) => assert_eq!((owner, index), (lbn, at), "page {} in a data block", lpn.0),
                Role::Log => {
                    let log = self.dies[die.0 as usize].logs.iter().find(|log| log.block == block);
                    let listed = log.expect("a log block of its die").pages[index as usize];
                    assert_eq!(listed, lpn, "unit {} of a log block", ppa.0);
                }
                role => panic!("page {} lies in block {}, which is {role:?}", lpn.0, block.0),
            }
        }
    }

    fn check_die(&self, die: DieId) {
        let state = &self.dies[die.0 as usize];
        for (local, &block) in state.data.iter().enumerate().filter(|(_, block)| **block != NO_BLOCK) {
            let lbn = local as u32 * self.layout.dies + die.0;
            assert_eq!(self.blocks.role(block), Role::Data(lbn), "the data block of logical block {lbn}");
        }
        let of_role = |role: fn(Role) -> bool| {
            self.blocks.of_die(die).filter(|&block| role(self.blocks.role(block))).count()
        };
        let data = state.data.iter().filter(|block| **block != NO_BLOCK).count();
        assert_eq!(of_role(|role| matches!(role, Role::Data(_))), data, "data blocks of die {}", die.0);
        assert_eq!(of_role(|role| role == Role::Log), state.logs.len(), "log blocks of die {}", die.0);
        let metadata = state.journal.blocks.len();
        assert_eq!(of_role(|role| role == Role::Metadata), metadata, "metadata blocks of die {}", die.0);
        let owners: Vec<u32> = state.logs.iter().filter_map(|log| log.owner).collect();
        let different: BTreeSet<u32> = owners.iter().copied().collect();
        assert_eq!(owners.len(), different.len(), "log blocks of one logical block");
        assert!(self.scheme == Scheme::Bast || owners.len() <= 1, "sequential log blocks of die {}", die.0);
        for log in &state.logs {
            assert_eq!(self.blocks.role(log.block), Role::Log);
            assert_eq!(
                log.pages.len() as u32,
                log.next * self.layout.units_per_superpage,
                "list of a log block"
            );
            let owner =
                |lpn: &&Lpn| **lpn != Lpn::NONE && log.owner.is_some_and(|owner| self.lbn(**lpn).0 != owner);
            assert_eq!(log.pages.iter().find(owner), None, "a page of another logical block");
        }
        self.check_merge(die);
    }

    fn check_merge(&self, die: DieId) {
        let state = &self.dies[die.0 as usize];
        let destinations: Vec<BlockId> =
            self.blocks.of_die(die).filter(|&block| self.blocks.role(block) == Role::Destination).collect();
        let Some(merge) = &state.merge else {
            return assert!(destinations.is_empty(), "a destination without a merge in die {}", die.0);
        };
        let own = matches!(self.blocks.role(merge.target), Role::Log | Role::Destination);
        assert!(own, "a merge into a block that is {:?}", self.blocks.role(merge.target));
        assert!(destinations.iter().all(|&block| block == merge.target), "two destinations in die {}", die.0);
        for ppa in state.from.iter().filter(|ppa| ppa.is_some()) {
            let role = self.blocks.role(self.layout.block_of(Ppa(ppa.0)));
            assert!(matches!(role, Role::Data(_) | Role::Log), "a source in a block that is {role:?}");
        }
    }
}
