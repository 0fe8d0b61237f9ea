//! Invariants of log-block translation.

use super::blocks::Role;
use super::core::Core;
use super::{Scheme, cache};
use crate::mount::MountSource;
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};
use std::collections::BTreeSet;

/// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
pub(super) fn check(core: &Core) {
    core.blocks.check();
    cache::check(core);
    check_references(core);
    check_places(core);
    for die in (0..core.shape.layout.dies).map(DieId) {
        check_die(core, die);
    }
}

/// Panics where the media and the table disagree. Cost: the whole drive.
pub(super) fn check_media(core: &Core, source: &impl MountSource) {
    for (lpn, ppa) in core.map.mapped() {
        let copy = if ppa.is_some() { core.readable(ppa) } else { ppa };
        let spare = if copy.is_some() { source.spare(copy) } else { None };
        let named = spare.map(|spare| cache::named(core, spare.0));
        assert!(named.is_none_or(|named| named == lpn), "unit {} is of {named:?}, not {lpn:?}", copy.0);
    }
}

/// Checks that the references of blocks are those of the table, of programs under way, and of metadata.
fn check_references(core: &Core) {
    let mut references = vec![0u32; core.shape.layout.blocks as usize];
    let pages = core.map.mapped().map(|(_, ppa)| ppa);
    let replaced = core.programs.host_units().map(|(_, unit)| unit.old);
    let metadata = core.dies.iter().flat_map(|die| die.journal.on_media());
    for ppa in pages.chain(replaced).chain(metadata).filter(|ppa| ppa.is_some()) {
        references[core.shape.layout.block_of(ppa).0 as usize] += 1;
    }
    for (block, &count) in references.iter().enumerate() {
        let counted = core.blocks.references(BlockId(block as u32));
        assert_eq!(
            counted,
            count,
            "references of block {block}, {:?}",
            core.blocks.role(BlockId(block as u32))
        );
    }
}

/// Checks that the table follows from the numbers of data blocks and the lists of log blocks.
fn check_places(core: &Core) {
    let mut places = BTreeSet::new();
    for (lpn, ppa) in core.map.mapped().filter(|(_, ppa)| ppa.is_some()) {
        assert!(places.insert(ppa), "unit {} belongs to two pages", ppa.0);
        let (block, (lbn, at)) = (core.shape.layout.block_of(ppa), core.shape.lbn(lpn));
        let index = core.shape.layout.index_in_block(ppa);
        let die = core.shape.die_of_lbn(lbn);
        assert_eq!(core.shape.layout.die_of(ppa), die, "page {} lies in another die", lpn.0);
        match core.blocks.role(block) {
            Role::Data(owner) => assert_eq!((owner, index), (lbn, at), "page {} in a data block", lpn.0),
            Role::Log => {
                let log = core.die(die).logs.of_block(block);
                let listed = log.expect("a log block of its die").pages()[index as usize];
                assert_eq!(listed, lpn, "unit {} of a log block", ppa.0);
            }
            role => panic!("page {} lies in block {}, which is {role:?}", lpn.0, block.0),
        }
    }
}

fn check_die(core: &Core, die: DieId) {
    let state = core.die(die);
    for (local, block) in state.logs.all_data() {
        let lbn = local * core.shape.layout.dies + die.0;
        assert_eq!(core.blocks.role(block), Role::Data(lbn), "the data block of logical block {lbn}");
    }
    let of_role = |role: fn(Role) -> bool| {
        core.blocks.of_die(die).filter(|&block| role(core.blocks.role(block))).count()
    };
    let data = state.logs.all_data().count();
    assert_eq!(of_role(|role| matches!(role, Role::Data(_))), data, "data blocks of die {}", die.0);
    assert_eq!(of_role(|role| role == Role::Log), state.logs.all().len(), "log blocks of die {}", die.0);
    let metadata = state.journal.blocks().len();
    assert_eq!(of_role(|role| role == Role::Metadata), metadata, "metadata blocks of die {}", die.0);
    let owners: Vec<u32> = state.logs.all().iter().filter_map(|log| log.owner()).collect();
    let different: BTreeSet<u32> = owners.iter().copied().collect();
    assert_eq!(owners.len(), different.len(), "log blocks of one logical block");
    assert!(core.shape.scheme == Scheme::Bast || owners.len() <= 1, "sequential log blocks of die {}", die.0);
    for log in state.logs.all() {
        assert_eq!(core.blocks.role(log.block()), Role::Log);
        assert_eq!(
            log.pages().len() as u32,
            log.next() * core.shape.layout.units_per_superpage,
            "list of a log block"
        );
        let owner = |lpn: &&Lpn| {
            **lpn != Lpn::NONE && log.owner().is_some_and(|owner| core.shape.lbn(**lpn).0 != owner)
        };
        assert_eq!(log.pages().iter().find(owner), None, "a page of another logical block");
    }
    check_merge(core, die);
}

fn check_merge(core: &Core, die: DieId) {
    let state = core.die(die);
    let destinations: Vec<BlockId> =
        core.blocks.of_die(die).filter(|&block| core.blocks.role(block) == Role::Destination).collect();
    let Some(merge) = state.merges.current() else {
        return assert!(destinations.is_empty(), "a destination without a merge in die {}", die.0);
    };
    let own = matches!(core.blocks.role(merge.target()), Role::Log | Role::Destination);
    assert!(own, "a merge into a block that is {:?}", core.blocks.role(merge.target()));
    assert!(destinations.iter().all(|&block| block == merge.target()), "two destinations in die {}", die.0);
    for ppa in state.merges.from().iter().filter(|ppa| ppa.is_some()) {
        let role = core.blocks.role(core.shape.layout.block_of(Ppa(ppa.0)));
        assert!(matches!(role, Role::Data(_) | Role::Log), "a source in a block that is {role:?}");
    }
}
