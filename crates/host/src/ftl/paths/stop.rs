//! Clean stop: the whole map goes to the media, so that the next start reads it and replays nothing.
//!
//! ```text
//!  stop ─► the ring is on the media ─► every translation page is written once more ─► index of the line that is open ─► stopped
//! ```
//! There is no "clean" flag that could become stale. A translation page carries its watermark: it covers
//! every program with a lower number. After a stop, no line of data has a number above the lowest watermark,
//! so a start examines none. Later writes have higher numbers and are replayed. An unreadable translation
//! page has no watermark, so everything is replayed. A power cut during a stop leaves the same state as one
//! at any other time.
//!
//! The next start has to find the translation pages. Full lines list them in their ends. The line that is
//! still open gets an *index* after its last translation page: an end of the content so far. It is valid
//! until the next write to the line. Without a valid and readable index, the start reads the page of every
//! sector of the line.
//!
//! With volatile durability there are no translation pages: a stop writes the data to the media, and the next
//! start reads the lines' ends.

use super::{jobs, superpages};
use crate::ftl::core::Core;
use crate::ftl::line::End;
use crate::ftl::meta;
use crate::ftl::stop::Step;
use pellucid_flash::DieId;
use pellucid_ftl::Stream;

/// Begins a stop.
pub(in crate::ftl) fn begin(core: &mut Core) {
    core.stop.begin();
    core.work.moved();
    jobs::try_again(core);
}

/// Continues a stop.
pub(in crate::ftl) fn go_on(core: &mut Core) {
    match core.stop.step() {
        Some(Step::Ring) => {
            if !core.ring.is_synced() {
                let raised = core.ring.flush_all();
                core.work.note(raised);
            } else if core.port.is_quiet() {
                core.stop.go_to(Step::Map(0));
                core.work.moved();
            }
        }
        Some(Step::Map(next)) => {
            let upto = core.ftl.save_map(next);
            core.stop.go_to(Step::Map(upto));
            if upto > next {
                core.work.moved();
                superpages::write_map(core);
            }
            let progress = core.ftl.map_progress();
            let saved = upto == progress.pages && progress.under_way == 0;
            if saved && core.port.is_quiet() {
                core.stop.go_to(Step::Index);
                core.work.moved();
                write_index(core);
            }
        }
        Some(Step::Index) if core.port.is_quiet() => core.stop.end(!core.units.is_refused()),
        _ => {}
    }
}

/// Writes the index of the line that translation pages go to. If the index does not fit, padding fills
/// the line, which then gets its end.
fn write_index(core: &mut Core) {
    let Some((line, superpages)) = core.ftl.blocks().open_superpage(DieId(0), Stream::Meta) else { return };
    let (record, shape) = (&core.lines[line], core.lines.shape());
    // The content is not completely known if an earlier run began the line and the start did not read all
    // of it.
    let known = record.end().filter(|end| !record.has_broken() && end.sequences[0] > 0);
    let Some(end) = known.filter(|_| superpages > 0) else { return };
    let (per_superpage, all) = (shape.superpage_sectors, shape.layout.superpages_per_block);
    let needed = shape.record_superpages(superpages);
    if superpages + needed > all {
        (superpages..all).for_each(|_| superpages::plan_index(core, 0..0));
        return;
    }
    let so_far = End {
        sequences: end.sequences[..superpages as usize].to_vec(),
        pages: end.pages[..(superpages * per_superpage) as usize].to_vec(),
    };
    let index = match shape.keeps_content() {
        true => meta::end(shape.config.uuid, line, &so_far),
        false => Vec::new(),
    };
    core.stop.set_index(index, (needed * per_superpage) as usize * shape.image_bytes);
    for superpage in 0..needed {
        superpages::plan_index(core, superpage * per_superpage..(superpage + 1) * per_superpage);
    }
}
