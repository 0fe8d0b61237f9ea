//! Writing of metadata: journal, checkpoints, translation pages.

use super::media_side::MediaSide;
use super::superpages::SuperpageUnit;
use super::{Purpose, gc, programs};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::shared::Shared;
use pellucid_flash::{Cause, Ppa};
use pellucid_ftl::{MapJob, MapPage};

/// Carries out pending metadata work of translation, as far as possible now.
#[inline]
pub(super) fn write_map(side: &mut MediaSide, shared: &mut Shared) {
    while let Some(job) = side.translation.next_map_job() {
        let (plan, units, cause, by_cause) = match job {
            MapJob::Program { plan, units, cause, by_cause } => (plan, units, cause, by_cause),
            MapJob::Read { page, from, cause } => {
                read_map(side, shared, page, from, cause);
                continue;
            }
            MapJob::NeedsSpace => return make_space_for_map(side, shared),
        };
        side.superpages.enter(&plan, units);
        for position in 0..units as usize {
            side.superpages.set(plan.id, position, SuperpageUnit::Metadata);
        }
        let sectors = u64::from(shared.layout.sectors_per_unit);
        for (counter, &units) in shared.counts(side.number()).programmed_sectors.iter_mut().zip(&by_cause) {
            *counter += u64::from(units) * sectors;
        }
        programs::issue_program(side, shared, &plan, units, cause);
    }
}

/// GC comes back to [`write_map`] when it waits for metadata itself.
fn make_space_for_map(side: &mut MediaSide, shared: &mut Shared) {
    if side.begin_making_space() {
        gc::pump_all(side, shared);
        side.end_making_space();
    }
}

/// Reads a translation page, for look-ups or to be merged.
fn read_map(side: &mut MediaSide, shared: &mut Shared, page: MapPage, from: Ppa, cause: Cause) {
    let (owner, die) = (side.owner(Purpose::Map(page)), shared.layout.die_of(from).0);
    let op = FlashOp::new(OpKind::Read, cause, owner, die, from, 1, shared.now);
    let op = shared.scheduler.ops.insert(op);
    shared.ask_issue(op);
}
