//! Superpages: those that the engine has planned go to the queues of their parallel units.
//!
//! ```text
//!  plan ─► noted for the line's end ─► (first of its line: start of the line) ─► queue of its unit
//! ```

use super::jobs;
use crate::ftl::core::Core;
use crate::ftl::programs::Content;
use crate::ftl::units::Job;
use pellucid_flash::{BlockId, Cause, Lpn};
use pellucid_ftl::{MapJob, Plan, Stream};
use std::ops::Range;

/// Queues a planned program, after the line's start if it is the line's first. Returns its parallel unit
/// and its line.
pub(super) fn begin(core: &mut Core, plan: &Plan) -> (u32, BlockId) {
    let Plan { id, first, sequence, .. } = *plan;
    let shape = core.lines.shape();
    let (line, superpage) = (shape.line_of(first), shape.superpage_of(first));
    let rows = if shape.sealing_rows() > 0 { shape.units as usize } else { 0 };
    if core.lines[line].plan(sequence, rows) {
        let (unit, _) = core.lines.place(line, 0);
        jobs::enqueue(core, unit, Job::Start(line));
    }
    let (unit, lba) = core.lines.place(line, superpage);
    core.programs.set_address(id, lba);
    jobs::enqueue(core, unit, Job::Data(id, line));
    (unit, line)
}

/// Programs the translation pages that are due. If there is no space, GC reclaims some; this runs again
/// after each change.
pub(in crate::ftl) fn write_map(core: &mut Core) {
    while let Some(job) = core.ftl.next_map_job() {
        let MapJob::Program { plan, units, by_cause, .. } = job else { return };
        core.work.moved();
        let superpage = core.lines.shape().superpage_sectors;
        assert!(units <= superpage, "translation pages fit into a superpage");
        core.counters.programmed(Cause::Padding, u64::from(superpage - units));
        for (cause, &units) in Cause::ALL.into_iter().zip(&by_cause) {
            core.counters.programmed(cause, units.into());
        }
        let Core { ftl, lines, programs, .. } = &mut *core;
        let marks = (0..units).map(|position| ftl.metadata(plan.id, position).0);
        lines.note(plan.first, plan.sequence, marks);
        programs.enter(&plan, (0..units).map(Content::Metadata));
        begin(core, &plan);
    }
}

/// Programs a superpage of the index of a stop, or padding, in the line that translation pages go to.
pub(super) fn plan_index(core: &mut Core, sectors: Range<u32>) {
    let Some(plan) = core.ftl.place(Stream::Meta, None, &[Lpn::NONE]) else { return };
    core.work.moved();
    core.lines.note(plan.first, plan.sequence, std::iter::empty());
    let used = sectors.len() as u64;
    core.counters.programmed(Cause::Journal, used);
    core.counters.programmed(Cause::Padding, u64::from(core.lines.shape().superpage_sectors) - used);
    core.programs.enter(&plan, sectors.map(Content::Index));
    begin(core, &plan);
}
