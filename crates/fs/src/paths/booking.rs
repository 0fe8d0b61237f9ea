//! Booking: live blocks of segments, and owners of names, follow the catalog after each operation.

use crate::catalog::Booking;
use crate::key::Extent;
use crate::objects::Core;
use crate::types::Ino;

/// Accounts for the changes of an operation: extents added and removed, and dead copies of nodes.
pub(crate) fn book(core: &mut Core) {
    book_changes(core);
    // Each name has at most one owner now.
    while let Some((name, owner)) = core.names.owners.next_ended() {
        forget_name(core, name);
        core.names.frees.drop_name(name, owner);
    }
}

/// Books moves of names. The old names are not freed: they are acknowledged.
pub(crate) fn book_moves(core: &mut Core) {
    book_changes(core);
    while let Some((name, _)) = core.names.owners.next_ended() {
        forget_name(core, name);
    }
}

fn forget_name(core: &mut Core, name: u64) {
    core.reads.forgive(core.space.layout().address_of(name));
}

#[inline]
fn book_changes(core: &mut Core) {
    if core.catalog.take_news() {
        core.commits.dirtied(core.turn.now());
    }
    while let Some(booking) = core.catalog.next_booking() {
        book_extent(core, booking);
    }
    while let Some(address) = core.catalog.next_freed() {
        core.space.sub_live(address, 1);
    }
}

/// Books the blocks of an added or removed extent.
fn book_extent(core: &mut Core, Booking { ino, extent, lives }: Booking) {
    if extent.address == 0 {
    } else if core.space.layout().is_name(extent.address) {
        let first = core.space.layout().name_of(extent.address);
        for n in 0..extent.count {
            core.names.owners.note(first + n, (ino, extent.first + n), lives);
        }
    } else if lives {
        core.space.add_live(extent.address, extent.count);
    } else {
        core.space.sub_live(extent.address, extent.count);
    }
}

/// Books an extent found by a mount.
pub(crate) fn own(core: &mut Core, ino: Ino, extent: Extent) {
    if core.space.layout().is_name(extent.address) {
        let first = core.space.layout().name_of(extent.address);
        for name in first..first + extent.count {
            // A name with two owners is damage, which `fs check` finds.
            if core.names.owners.get(name).is_none() {
                core.names.owners.insert(name, (ino, extent.first + (name - first)));
            }
        }
    }
}
