//! A zoned namespace made from what the media hold, in no simulated time.
//!
//! ```text
//!  blocks of no use erased ─► superpages of log and save area: full ones programmed, the last of a zone logged again
//!    ─► verdicts ─► blocks of the log that hold nothing any more erased ─► what found no space logged ─► ready
//! ```
//! Invariant: what the log or the save area has is erased only when the media, or a newer block of the log, have it; so a power cut during
//! a mount changes nothing.

use super::{IDLE, Slot, Stage, StagingLog, ZoneFlush, ZoneNamespace};
use crate::back::operations::erase_now;
use crate::block::mount::Source;
use crate::direct::zone_save::SaveArea;
use pellucid_flash::slab::List;
use pellucid_flash::{BlockId, Layout, Lpn, Ppa, ZoneState};
use pellucid_ftl::{Mark, MountSource, SavedSuperpage, Staged, StagedIn, Verdict, ZoneConfig, Zones};
use pellucid_media::{Media, ReadResult};

impl ZoneNamespace {
    /// Mounts the zones that the media hold. Data in the log are taken over and logged anew, in no simulated time; data for which no block
    /// is left stay where they are. The `saved` superpages are taken over too, and stay saved until they are on the media.
    pub fn mount(
        number: u16,
        config: &ZoneConfig,
        layout: &Layout,
        media: &mut Media,
        saved: Option<(SaveArea, Vec<SavedSuperpage>)>,
    ) -> ZoneNamespace {
        let (save, saved) = saved.map_or((None, Vec::new()), |(area, saved)| (Some(area), saved));
        let source = Source { media, blocks: config.blocks.clone(), blocks_per_die: layout.blocks_per_die };
        let mark = |ppa| {
            source.spare(ppa)?;
            let mut bytes = [0; Mark::BYTES];
            media.array().metadata(ppa, 0, &mut bytes);
            Some(Mark::decode(&bytes))
        };
        let (zones, found) = Zones::mount(config, layout, &source, mark, &saved);
        let stride = zones.superpage_sectors() as usize * media.image_bytes();
        let runs = vec![IDLE; zones.geometry().zones as usize];
        let mut namespace = ZoneNamespace {
            number,
            zones,
            protected: config.protected,
            save,
            stage: Stage::new(config.stage_superpages, stride),
            starved: List::default(),
            runs,
            log: StagingLog::of(&found.log),
            flush: ZoneFlush::new(),
            spare: vec![0; layout.sectors_per_unit as usize * media.array().metadata_bytes()],
        };
        for &zone in &found.logged {
            namespace.runs[zone as usize].logged_last = found.log.len() as u64;
        }
        for &block in &found.invalidate {
            media.invalidate(block);
        }
        for &block in &found.erase {
            namespace.erase_now(block, media);
        }
        // Saved data without a superpage here would come to belong to data written next.
        for SavedSuperpage { place, .. } in saved {
            if !found.staged.iter().any(|staged| staged.from == StagedIn::Save(place)) {
                namespace.forget_saved(place, media);
            }
        }
        for staged in found.staged {
            namespace.take_staged(staged, media, layout);
        }
        namespace.restore_verdicts(found.verdicts, media, layout);
        namespace.shorten_log(found.log, media);
        // There may be space now.
        let waiting: Vec<u32> = namespace.stage.live().filter(|&s| namespace.stage[s].wants_log).collect();
        for slot in waiting {
            namespace.stage[slot].wants_log = !namespace.log_now(slot, media, layout);
        }
        namespace.zones.reserve(config.reserve(layout.superpages_per_block));
        namespace
    }

    /// Takes a superpage of the log or the save area into the buffer. A full one is programmed; the last of a zone is logged again.
    fn take_staged(&mut self, staged: Staged, media: &mut Media, layout: &Layout) {
        let slot = self.take(staged.zone, staged.superpage);
        self.stage[slot].arrived = staged.sectors;
        let (readable, logged_in) = match staged.from {
            StagedIn::Log(first) => (self.read_log(slot, first, media, layout), Some(layout.block_of(first))),
            StagedIn::Save(place) => (self.read_saved(slot, place, media), None),
        };
        if !readable {
            self.lose_staged(slot, logged_in);
            return;
        }
        let whole = staged.sectors == self.zones.superpage_sectors();
        if whole {
            self.stage[slot].epoch = staged.epoch;
            let sequence = staged.sequence.unwrap_or_else(|| self.zones.next_sequence());
            if self.program_now(slot, sequence, media, layout) {
                self.vacate(slot, media);
                return;
            }
            self.strand(slot);
        } else {
            self.runs[staged.zone as usize].tail = slot;
        }
        if let Some(block) = logged_in
            && !self.log_now(slot, media, layout)
        {
            self.stays_logged(slot, block);
        }
    }

    /// Verdicts that the log has stay there, or are logged again; zones that the mount found let down get one.
    fn restore_verdicts(&mut self, known: Vec<Verdict>, media: &mut Media, layout: &Layout) {
        let failed = (0..self.zones.geometry().zones).filter(|&zone| {
            let told = known.iter().any(|verdict| verdict.zone == zone);
            !told && matches!(self.zones.state(zone), ZoneState::ReadOnly | ZoneState::Offline)
        });
        let failed: Vec<_> = failed.map(|zone| (zone, self.zones.state(zone), None)).collect();
        let verdicts = known.into_iter().map(|v| (v.zone, v.state, Some(v.block)));
        for (zone, state, logged_in) in verdicts.chain(failed) {
            // A verdict that the log already holds stays there.
            let slot = match logged_in {
                Some(_) => self.verdict(zone, state),
                None => {
                    let Some(slot) = self.pronounce(zone, state) else { continue };
                    slot
                }
            };
            match logged_in {
                _ if self.log_now(slot, media, layout) => {}
                Some(block) => self.stays_logged(slot, block),
                None => self.stage[slot].wants_log = true,
            }
        }
    }

    /// Erases the oldest blocks of the log that hold nothing any more that is nowhere else.
    fn shorten_log(&mut self, log: Vec<BlockId>, media: &mut Media) {
        for block in log {
            let needed = |s| self.stage[s].logged > 0 && self.stage[s].logged_in == block;
            if self.stage.live().any(needed) {
                break;
            }
            self.log.let_oldest_go();
            self.erase_now(block, media);
        }
    }

    /// Reads what the log has of a slot's superpage; `false`: it cannot be read.
    fn read_log(&mut self, slot: u32, first: Ppa, media: &mut Media, layout: &Layout) -> bool {
        let unit = self.stage.stride() / layout.units_per_superpage as usize;
        let mut readable = true;
        for (i, images) in self.stage.images_mut(slot).chunks_exact_mut(unit).enumerate() {
            // Mounting has time for more retries than a host.
            let unit = Ppa(first.0 + i as u32);
            readable &=
                (0..100).any(|attempt| matches!(media.read(unit, 0, images, attempt), ReadResult::Ok { .. }));
        }
        readable
    }

    /// Reads what was saved of a slot's superpage, which stays saved; `false`: it is damaged.
    fn read_saved(&mut self, slot: u32, place: u32, media: &Media) -> bool {
        let area = self.save.take().expect("something was saved");
        let whole = area.load(place, self.stage.images_mut(slot), media);
        self.save = Some(area);
        let record = &mut self.stage[slot];
        (record.saved_in, record.saved) = (Some(place), record.arrived);
        whole
    }

    /// Erases a block that holds nothing any more, in no simulated time.
    fn erase_now(&mut self, block: BlockId, media: &mut Media) {
        let failed = self.zones.is_failed(block);
        if failed {
            media.invalidate(block);
        }
        let ok = !failed && erase_now(media, block);
        self.zones.erased(block, ok, media.array().erase_count(block));
    }

    /// Marks a superpage as lost that cannot be read from the log or the save area: nothing may follow it, and no read is given anything
    /// else for it.
    fn lose_staged(&mut self, slot: u32, logged_in: Option<BlockId>) {
        self.stage[slot].lost = true;
        self.zones.fail(self.stage[slot].zone);
        self.strand(slot);
        if let Some(block) = logged_in {
            self.stays_logged(slot, block);
        }
    }

    /// There is no space to log a slot anew: what the log has of it, all that is here, stays in `block`.
    fn stays_logged(&mut self, slot: u32, block: BlockId) {
        let record = &mut self.stage[slot];
        (record.logged, record.logged_in) = (record.arrived, block);
    }

    /// Programs a slot in no simulated time, with the number that it has had; `false`: there is no space.
    fn program_now(&mut self, slot: u32, sequence: u64, media: &mut Media, layout: &Layout) -> bool {
        let Slot { zone, superpage, arrived, .. } = self.stage[slot];
        let mark = self.mark(slot, arrived);
        while let Some(first) = self.zones.place(zone, superpage) {
            let block = layout.block_of(first);
            // No superpage of a block may be older than its first.
            let sequence = if layout.superpage_of(first) == 0 {
                sequence
            } else {
                sequence.max(media.array().begun_with(block))
            };
            if self.write_now(slot, (Lpn(zone), sequence), mark, first, media, layout) {
                return true;
            }
            media.retire(block);
            self.zones.program_failed(zone, superpage, block);
        }
        self.zones.fail(zone);
        false
    }
}
