//! Damage injected into a running drive, and the drive's handling of untrustworthy flash.
//!
//! ```text
//!  corrected, but nearly not ─► its block is written anew elsewhere and erased (refresh)
//!  read fails after every retry ─► its block is emptied of what can be read, then retired
//!  killed die ─► nothing is planned there any more; reads fail; programs under way fail and go elsewhere
//!  too little room left for the host's capacity ─► read-only
//! ```
//! The promise: a command to damaged flash ends with a status, never with wrong data, and the drive goes on as long as its good blocks hold
//! the host's capacity and its own working space.

use super::gc;
use super::media_side::MediaSide;
use crate::shared::Shared;
use pellucid_flash::Ppa;
use pellucid_ftl::Damage;

/// A chunk of the unit at `ppa` had `bits` wrong bits: above the threshold its block is written anew in time.
pub(super) fn refresh_if_due(side: &mut MediaSide, shared: &mut Shared, ppa: Ppa, bits: u32) {
    let Some(threshold) = shared.config.scheduler.refresh_above else { return };
    let block = shared.layout.block_of(ppa);
    if bits > threshold && side.translation.damage(Damage::Weak(block)) {
        gc::pump(side, shared, shared.layout.die_of_block(block));
    }
}

/// The unit at `ppa` could not be read after every retry. `is_lost`: new data were lost with it, which it was to complete. It stays
/// lost then: a later attempt that happens to succeed would bring back data whose overwriting has been acknowledged.
pub(super) fn unreadable(side: &mut MediaSide, shared: &mut Shared, ppa: Ppa, is_lost: bool) {
    if is_lost {
        shared.media.mark_lost(ppa);
    }
    let block = shared.layout.block_of(ppa);
    // Data lost by the store say nothing about the flash.
    let emptied = match shared.media.damage().is_of_last_read() {
        true => side.translation.damage(Damage::Weak(block)),
        false => side.translation.damage(Damage::Unreadable(block)),
    };
    if emptied {
        gc::pump(side, shared, shared.layout.die_of_block(block));
    }
}
